//! Signatures of AWS (`SigV4`), with credentials from the places where AWS's own tools keep them.

mod container;
mod instance;
mod profile;
mod sign;
mod sso;

use std::path::PathBuf;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::Request;
use serde::Deserialize;
use tandem_content::blocking::try_blocking;
use tandem_model::authorization::Authorizer;
use tandem_model::{Error, Secret};

pub use self::container::ContainerSource;
use self::profile::ProfileCredentials;
use crate::cache::{Expiring, ExpiringCache};

/// Signer of requests: the region and the service for which a signature holds, and the places of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsConfig {
    /// Region of the service: `us-east-1`.
    pub region: String,
    /// Name of the service in signatures.
    pub service: &'static str,
    /// Places of credentials.
    pub sources: AwsSources,
}

/// Places of credentials, in the order in which they count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsSources {
    /// Keys of the environment.
    pub keys: Option<AwsKeys>,
    /// Files with profiles.
    pub profiles: ProfileFiles,
    /// Service that gives a container its credentials.
    pub container: Option<ContainerSource>,
    /// Base URL of the service that gives a machine of EC2 its credentials; `None` if it must not be asked.
    pub instance_url: Option<String>,
}

/// Keys that do not expire, or with the token of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// Id of the key.
    pub access_key_id: String,
    /// Key with which requests are signed.
    pub secret_access_key: Secret,
    /// Token of temporary keys.
    pub session_token: Option<Secret>,
}

/// Files in which AWS's own tools keep profiles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileFiles {
    /// Name of the profile, if one was chosen; else `default`.
    pub profile: Option<String>,
    /// Path of the file of settings, usually `~/.aws/config`.
    pub config: Option<PathBuf>,
    /// Path of the file of keys, usually `~/.aws/credentials`.
    pub credentials: Option<PathBuf>,
    /// Directory of the tokens of IAM Identity Center, usually `~/.aws/sso/cache`.
    pub sso_cache: Option<PathBuf>,
    /// Base URL of the portal of IAM Identity Center, in place of the usual one.
    pub sso_url: Option<String>,
}

impl ProfileFiles {
    /// Returns the region of the profile, if the files have one.
    pub fn region(&self) -> Option<String> {
        profile::region(self)
    }
}

/// An authorizer that signs requests.
pub(crate) struct AwsAuthorizer {
    config: AwsConfig,
    credentials: ExpiringCache<Credentials>,
}

impl AwsAuthorizer {
    /// Creates an authorizer; reads no file yet.
    pub(crate) fn new(config: AwsConfig) -> Self {
        Self { config, credentials: ExpiringCache::default() }
    }
}

impl Authorizer for AwsAuthorizer {
    fn authorize<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let credentials =
                self.credentials.get(async || find(&self.config.sources).await).await?;
            sign::sign(request, credentials, &self.config, SystemTime::now())
        }
        .boxed()
    }

    fn forget(&self) {
        self.credentials.forget();
    }

    fn secrets(&self) -> Vec<Secret> {
        let Some(known) = self.credentials.last() else { return Vec::new() };
        let secrets = [Some(known.secret_access_key()), known.session_token()];
        secrets.into_iter().flatten().map(Secret::new).collect()
    }
}

/// Finds credentials in the first place that has any.
async fn find(sources: &AwsSources) -> Result<Expiring<Credentials>, Error> {
    if let Some(keys) = &sources.keys {
        return Ok(Expiring { value: keys.credentials(), expires_at: None });
    }
    let files = sources.profiles.clone();
    let profile = try_blocking(move || profile::find(&files)).await;
    match profile.map_err(Error::NotAuthenticated)? {
        Some(ProfileCredentials::Keys(keys)) => {
            return Ok(Expiring { value: keys.credentials(), expires_at: None });
        }
        Some(ProfileCredentials::Sso(login)) => return sso::fetch(&sources.profiles, &login).await,
        None => {}
    }
    if let Some(container) = &sources.container {
        return container::fetch(container).await;
    }
    let found = match &sources.instance_url {
        Some(url) => instance::fetch(url).await?,
        None => None,
    };
    found.ok_or_else(|| {
        Error::NotAuthenticated(
            "There are no credentials of AWS. Set AWS_BEARER_TOKEN_BEDROCK to a key of Bedrock, or set \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose a profile with AWS_PROFILE. For a profile of \
             IAM Identity Center, run `aws sso login`."
                .to_owned(),
        )
    })
}

impl AwsKeys {
    fn credentials(&self) -> Credentials {
        let token = self.session_token.as_ref().map(|token| token.expose().to_owned());
        credentials(&self.access_key_id, self.secret_access_key.expose(), token)
    }
}

fn credentials(id: &str, key: &str, token: Option<String>) -> Credentials {
    Credentials::new(id, key, token, None, "tandem")
}

/// Temporary keys, as the services of containers and machines write them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TemporaryKeys {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl TemporaryKeys {
    fn into_credentials(self) -> Expiring<Credentials> {
        let expires_at = self.expiration.and_then(|at| at.parse::<jiff::Timestamp>().ok());
        Expiring {
            value: credentials(&self.access_key_id, &self.secret_access_key, self.token),
            expires_at: expires_at.map(SystemTime::from),
        }
    }
}
