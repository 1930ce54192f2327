//! Access tokens of Google, by Application Default Credentials: found where Google's own tools keep them.

mod credentials_file;
mod external_account;
mod machine;
mod service_account;
mod token;

use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::Request;
use tandem_content::blocking::blocking;
use tandem_model::authorization::Authorizer;
use tandem_model::{Error, Secret};
use tandem_net::secret_header;

use self::credentials_file::CredentialsFile;
use crate::cache::{Expiring, ExpiringCache};

/// Scope of access tokens.
const CLOUD_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Places of credentials, in the order in which they count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoogleConfig {
    /// File that the variable `GOOGLE_APPLICATION_CREDENTIALS` names.
    pub named_file: Option<PathBuf>,
    /// File that `gcloud auth application-default login` writes.
    pub user_file: Option<PathBuf>,
    /// Base URL of the metadata service of a machine of Google; `None` if it must not be asked.
    pub metadata_url: Option<String>,
}

impl GoogleConfig {
    /// Returns the project that the file of the credentials names, if there is such a file.
    pub fn project(&self) -> Option<String> {
        self.read().ok()??.1.project()
    }

    /// Reads the file of the credentials, and returns it with its path; `None` if there is none.
    fn read(&self) -> Result<Option<(PathBuf, CredentialsFile)>, Error> {
        if let Some(path) = &self.named_file {
            let file = credentials_file::read(path)?.ok_or_else(|| {
                Error::NotAuthenticated(format!(
                    "GOOGLE_APPLICATION_CREDENTIALS names {}, and there is no such file. Correct the variable, or \
                     unset it.",
                    path.display()
                ))
            })?;
            return Ok(Some((path.clone(), file)));
        }
        let Some(path) = &self.user_file else { return Ok(None) };
        Ok(credentials_file::read(path)?.map(|file| (path.clone(), file)))
    }
}

/// An access token, and the project that pays for requests with it if that is not the project of the request.
#[derive(Clone)]
struct GoogleToken {
    token: Secret,
    quota_project: Option<String>,
}

/// An authorizer that sends access tokens.
pub(crate) struct GoogleAuthorizer {
    config: GoogleConfig,
    tokens: ExpiringCache<GoogleToken>,
}

impl GoogleAuthorizer {
    /// Creates an authorizer; reads no file yet.
    pub(crate) fn new(config: GoogleConfig) -> Self {
        Self { config, tokens: ExpiringCache::default() }
    }
}

impl Authorizer for GoogleAuthorizer {
    fn authorize<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let token = self.tokens.get(async || find(&self.config).await).await?;
            let bearer = format!("Bearer {}", token.token.expose());
            let quota = token.quota_project.map(|project| ("x-goog-user-project", project));
            for (name, value) in [("authorization", bearer)].into_iter().chain(quota) {
                let header = secret_header(name, &value).ok_or_else(|| {
                    Error::NotAuthenticated(
                        "Google's credentials have characters that none have. Log in again with `gcloud auth \
                         application-default login`."
                            .to_owned(),
                    )
                })?;
                request.headers_mut().insert(header.0, header.1);
            }
            Ok(())
        }
        .boxed()
    }

    fn forget(&self) {
        self.tokens.forget();
    }

    fn secrets(&self) -> Vec<Secret> {
        self.tokens.last().map(|known| known.token).into_iter().collect()
    }
}

/// Fetches a token with the credentials of the first place that has any.
async fn find(config: &GoogleConfig) -> Result<Expiring<GoogleToken>, Error> {
    let reading = config.clone();
    let read = blocking(move || reading.read()).await;
    if let Some((path, file)) = read.map_err(|error| Error::Unavailable(error.to_string()))?? {
        let quota_project = file.quota_project().map(str::to_owned);
        let fetched = token::fetch(&path, file).await?;
        let value = GoogleToken { token: fetched.value, quota_project };
        return Ok(Expiring { value, expires_at: fetched.expires_at });
    }
    let found = match &config.metadata_url {
        Some(url) => machine::fetch(url).await?,
        None => None,
    };
    let found = found.ok_or_else(|| {
        Error::NotAuthenticated(
            "There are no credentials of Google. Run `gcloud auth application-default login`, or set \
             GOOGLE_APPLICATION_CREDENTIALS to the file of a service account."
                .to_owned(),
        )
    })?;
    let value = GoogleToken { token: found.value, quota_project: None };
    Ok(Expiring { value, expires_at: found.expires_at })
}
