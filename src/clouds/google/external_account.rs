//! Tokens for identities of other services: their token is exchanged for one of Google.

use std::path::Path;

use reqwest::{Method, Request};
use serde_json::Value;
use tandem_model::{Error, Secret};
use tandem_net::secret_header;

use super::CLOUD_SCOPE;
use super::credentials_file::{CredentialSource, ExternalAccount};
use super::token::{TokenAnswer, address, form, impersonate};
use crate::cache::Expiring;
use crate::fetch::{self, Network};
use crate::files;

/// Fetches a token of an external account, or of the service account that it acts for.
pub(super) async fn fetch(
    path: &Path,
    account: &ExternalAccount,
) -> Result<Expiring<Secret>, Error> {
    let subject = subject_token(path, &account.credential_source).await?;
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("audience", &account.audience),
        ("scope", CLOUD_SCOPE),
        ("subject_token_type", &account.subject_token_type),
        ("subject_token", subject.expose()),
    ];
    let request = form(&account.token_url, &fields)?;
    let answer: Result<TokenAnswer, _> = fetch::json(Network::Internet, request).await;
    let answer = answer.map_err(|error| {
        error.into_error(
            "The exchange of a token at Google",
            "Check the provider of the workload identity pool, and that the token is still valid.",
        )
    })?;
    let token = answer.into_token();
    match &account.service_account_impersonation_url {
        Some(url) => impersonate(url, &token.value, &[]).await,
        None => Ok(token),
    }
}

/// Returns the token of the other service.
async fn subject_token(path: &Path, source: &CredentialSource) -> Result<Secret, Error> {
    let text = match (&source.file, &source.url) {
        (Some(file), _) => files::read(file).await.map_err(|error| {
            Error::NotAuthenticated(format!(
                "{} names the file {} for a token, which cannot be read: {error}.",
                path.display(),
                file.display()
            ))
        })?,
        (None, Some(url)) => {
            let mut request = Request::new(Method::GET, address(url)?);
            for (name, value) in &source.headers {
                let header = secret_header(name, value);
                let (name, value) = header.ok_or_else(|| unusable(path, "a header"))?;
                request.headers_mut().insert(name, value);
            }
            fetch::text(Network::Internet, request).await.map_err(|error| {
                error
                    .into_error("The request for a token of the workload", "Check its environment.")
            })?
        }
        (None, None) => return Err(unusable(path, "a source of tokens")),
    };
    let format = source.format.as_ref();
    let token = match format.and_then(|format| format.subject_token_field_name.as_ref()) {
        Some(field) => {
            let json: Value = serde_json::from_str(&text).unwrap_or_default();
            json.get(field).and_then(Value::as_str).map(Secret::new)
        }
        None => Some(Secret::new(&text)),
    };
    token.filter(|token| !token.expose().is_empty()).ok_or_else(|| unusable(path, "a token"))
}

fn unusable(path: &Path, what: &str) -> Error {
    Error::NotAuthenticated(format!(
        "The credentials in {} have {what} that tandem cannot use: only files and addresses that give a token are \
         followed. Use the file of a service account.",
        path.display()
    ))
}
