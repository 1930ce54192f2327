//! The exchange of credentials for an access token.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request, Url};
use serde::Deserialize;
use serde_json::json;
use tandem_model::{Error, Secret};
use tandem_net::{is_this_machine, secret_header};

use super::credentials_file::{AuthorizedUser, CredentialsFile, ImpersonatedAccount};
use super::{CLOUD_SCOPE, external_account, service_account};
use crate::cache::Expiring;
use crate::fetch::{self, Network};

/// Address at which tokens are given, unless the file names another one.
pub(super) const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// Lifetime of a token whose lifetime the server does not tell.
const USUAL_LIFETIME: Duration = Duration::from_mins(10);

/// A token, as the servers of OAuth and of the metadata of machines give it.
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    access_token: String,
    expires_in: Option<u64>,
}

impl TokenAnswer {
    pub(super) fn into_token(self) -> Expiring<Secret> {
        let lifetime = self.expires_in.map_or(USUAL_LIFETIME, Duration::from_secs);
        Expiring {
            value: Secret::new(&self.access_token),
            expires_at: Some(SystemTime::now() + lifetime),
        }
    }
}

/// Fetches a token with the credentials of a file.
pub(super) async fn fetch(path: &Path, file: CredentialsFile) -> Result<Expiring<Secret>, Error> {
    match file {
        CredentialsFile::ImpersonatedServiceAccount(account) => {
            let ImpersonatedAccount { source_credentials, delegates, .. } = account;
            let source = fetch_own(path, *source_credentials).await?;
            impersonate(&account.service_account_impersonation_url, &source.value, &delegates).await
        }
        file => fetch_own(path, file).await,
    }
}

/// Fetches a token for the account of the credentials, without impersonating another account.
async fn fetch_own(path: &Path, file: CredentialsFile) -> Result<Expiring<Secret>, Error> {
    match file {
        CredentialsFile::ServiceAccount(account) => service_account::fetch(path, &account).await,
        CredentialsFile::AuthorizedUser(user) => refresh(&user).await,
        CredentialsFile::ExternalAccount(account) => external_account::fetch(path, &account).await,
        CredentialsFile::ImpersonatedServiceAccount(_) => Err(Error::NotAuthenticated(format!(
            "{} has credentials for an account that acts for an account that acts for another one. Name the accounts \
             in between as `delegates`.",
            path.display()
        ))),
    }
}

/// Fetches a token for a person who has logged in.
async fn refresh(user: &AuthorizedUser) -> Result<Expiring<Secret>, Error> {
    let url = user.token_uri.as_deref().unwrap_or(TOKEN_URL);
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", &user.client_id),
        ("client_secret", user.client_secret.expose()),
        ("refresh_token", user.refresh_token.expose()),
    ];
    let answer: Result<TokenAnswer, _> = fetch::json(Network::Internet, form(url, &fields)?).await;
    let answer = answer.map_err(|error| {
        error.into_error(
            "The request for a token at Google",
            "Log in again with `gcloud auth application-default login`.",
        )
    })?;
    Ok(answer.into_token())
}

/// Returns the token of a service account that the owner of a token may act for.
pub(super) async fn impersonate(
    url: &str,
    token: &Secret,
    delegates: &[String],
) -> Result<Expiring<Secret>, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        access_token: String,
        expire_time: String,
    }
    let mut request = Request::new(Method::POST, address(url)?);
    let bearer = secret_header(AUTHORIZATION.as_str(), &format!("Bearer {}", token.expose()));
    let (_, bearer) = bearer.ok_or_else(|| unusable("the token that the server gave"))?;
    request.headers_mut().insert(AUTHORIZATION, bearer);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = json!({ "scope": [CLOUD_SCOPE], "delegates": delegates });
    *request.body_mut() = Some(body.to_string().into());
    let answer: Result<Answer, _> = fetch::json(Network::Internet, request).await;
    let answer = answer.map_err(|error| {
        error.into_error(
            "The request for a token of the service account",
            "Check that the credentials have the role Service Account Token Creator for this account.",
        )
    })?;
    let expires_at = answer.expire_time.parse::<jiff::Timestamp>().ok();
    let expires_at =
        expires_at.map_or_else(|| SystemTime::now() + USUAL_LIFETIME, SystemTime::from);
    Ok(Expiring { value: Secret::new(&answer.access_token), expires_at: Some(expires_at) })
}

/// Writes a request with a form.
pub(super) fn form(url: &str, fields: &[(&str, &str)]) -> Result<Request, Error> {
    let mut request = Request::new(Method::POST, address(url)?);
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    *request.body_mut() = Some(body.into());
    Ok(request)
}

/// Parses an address that a file names. Credentials are sent there, so that it must be one with https, or one of this
/// machine.
pub(super) fn address(url: &str) -> Result<Url, Error> {
    let url = Url::parse(url).map_err(|_| unusable("an address"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_here = is_loopback || is_this_machine(host);
    if url.scheme() == "https" || url.scheme() == "http" && is_here {
        return Ok(url);
    }
    Err(unusable("an address without https"))
}

fn unusable(what: &str) -> Error {
    Error::NotAuthenticated(format!(
        "Google's credentials have {what} that cannot be used. Create the file anew, for instance with `gcloud auth \
         application-default login`."
    ))
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn credentials_are_sent_with_https_or_to_this_machine() {
        for (url, allowed) in [
            ("https://oauth2.googleapis.com/token", true),
            ("http://127.0.0.1:8080/token", true),
            ("http://oauth2.googleapis.com/token", false),
            ("http://169.254.169.254/token", false),
            ("token", false),
        ] {
            assert_eq!(address(url).is_ok(), allowed, "{url}");
        }
    }
}
