//! Signatures of AWS (`SigV4`), with credentials from the places where AWS's own tools keep them.

mod container;
mod instance;
mod process;
mod profile;
mod sign;
mod sso;
mod sts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::Request;
use serde::Deserialize;
use tandem_content::blocking::try_blocking;
use tandem_host::terminals::Terminals;
use tandem_model::authorization::Authorizer;
use tandem_model::{Error, Secret};

pub use self::container::ContainerSource;
use self::profile::{AssumedRole, ProfileCredentials, RoleSource};
use self::sign::SigningScope;
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
    /// Role that a token of another service stands for.
    pub web_identity: Option<WebIdentity>,
    /// Base URL of the Security Token Service, in place of the usual one of the region.
    pub sts_url: Option<String>,
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

/// A role that is assumed with a token of another service, such as a cluster of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebIdentity {
    /// The role.
    pub role_arn: String,
    /// File with the token, which is replaced from time to time.
    pub token_file: PathBuf,
    /// Name of the session, if one was chosen.
    pub session_name: Option<String>,
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
    /// Base URL of the service that renews tokens of IAM Identity Center, in place of the usual one.
    pub sso_oidc_url: Option<String>,
    /// `true` if the files are the user's own, so that a program that a profile names may run.
    pub may_run_programs: bool,
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
    /// Starter of the programs that profiles name.
    terminals: Arc<Terminals>,
    credentials: ExpiringCache<Credentials>,
}

impl AwsAuthorizer {
    /// Creates an authorizer; reads no file yet.
    pub(crate) fn new(config: AwsConfig, terminals: Arc<Terminals>) -> Self {
        Self { config, terminals, credentials: ExpiringCache::default() }
    }
}

impl Authorizer for AwsAuthorizer {
    fn authorize<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let credentials =
                self.credentials.get(async || find(&self.config, &self.terminals).await).await?;
            let scope = SigningScope { region: &self.config.region, service: self.config.service };
            sign::sign(request, credentials, scope, SystemTime::now())
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
async fn find(
    config: &AwsConfig,
    terminals: &Arc<Terminals>,
) -> Result<Expiring<Credentials>, Error> {
    let sources = &config.sources;
    let files = sources.profiles.clone();
    let profile = try_blocking(move || profile::find(&files)).await;
    if let Some(keys) = &sources.keys
        && !is_for_keys(profile.as_ref())
    {
        return Ok(Expiring { value: keys.credentials(), expires_at: None });
    }
    if let Some(found) = profile.map_err(Error::NotAuthenticated)? {
        return of_profile(config, &found, terminals).await;
    }
    if let Some(identity) = &sources.web_identity {
        return sts::assume_with_web_identity(config, identity).await;
    }
    if let Some(container) = &sources.container {
        return container::fetch(container).await;
    }
    let found = of_instance(sources).await?;
    found.ok_or_else(|| {
        Error::NotAuthenticated(
            "There are no credentials of AWS. Set AWS_BEARER_TOKEN_BEDROCK to a key of Bedrock, or set \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose a profile with AWS_PROFILE. For a profile of \
             IAM Identity Center, run `aws sso login`."
                .to_owned(),
        )
    })
}

/// Returns `true` if a profile assumes its role with the keys of the environment, which otherwise count more than any
/// profile.
fn is_for_keys(profile: Result<&Option<ProfileCredentials>, &String>) -> bool {
    let Ok(Some(ProfileCredentials::Role(role))) = profile else { return false };
    role.source == RoleSource::Environment
}

/// Gets credentials in the way of a profile. A role may be assumed with the credentials of another role.
fn of_profile<'a>(
    config: &'a AwsConfig,
    found: &'a ProfileCredentials,
    terminals: &'a Arc<Terminals>,
) -> BoxFuture<'a, Result<Expiring<Credentials>, Error>> {
    async move {
        match found {
            ProfileCredentials::Keys(keys) => {
                Ok(Expiring { value: keys.credentials(), expires_at: None })
            }
            ProfileCredentials::Sso(login) => sso::fetch(&config.sources.profiles, login).await,
            ProfileCredentials::WebIdentity(identity) => {
                sts::assume_with_web_identity(config, identity).await
            }
            ProfileCredentials::Process(process) => process::run(process, terminals).await,
            ProfileCredentials::Role(role) => {
                let with = of_source(config, role, terminals).await?;
                sts::assume(config, role, with).await
            }
        }
    }
    .boxed()
}

/// Gets the credentials with which a role is assumed.
async fn of_source(
    config: &AwsConfig,
    role: &AssumedRole,
    terminals: &Arc<Terminals>,
) -> Result<Credentials, Error> {
    let sources = &config.sources;
    let missing = |what: &str| {
        Error::NotAuthenticated(format!(
            "The profile `{}` of AWS assumes its role with the credentials of {what}. Correct its `credential_source`.",
            role.profile
        ))
    };
    match &role.source {
        RoleSource::Profile(found) => Ok(of_profile(config, found, terminals).await?.value),
        RoleSource::Environment => {
            let keys = sources.keys.as_ref().map(AwsKeys::credentials);
            keys.ok_or_else(|| missing("the environment, and AWS_ACCESS_KEY_ID is not set"))
        }
        RoleSource::Container => match &sources.container {
            Some(container) => Ok(container::fetch(container).await?.value),
            None => Err(missing("its container, and no variable names such a service")),
        },
        RoleSource::Instance => {
            let found = of_instance(sources).await?.map(|found| found.value);
            found.ok_or_else(|| missing("the machine of EC2, which has none"))
        }
    }
}

async fn of_instance(sources: &AwsSources) -> Result<Option<Expiring<Credentials>>, Error> {
    match &sources.instance_url {
        Some(url) => instance::fetch(url).await,
        None => Ok(None),
    }
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

/// Temporary keys, as the services of containers and machines write them, and programs of the user.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TemporaryKeys {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "SessionToken")]
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
