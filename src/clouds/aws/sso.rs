//! Credentials of a login at IAM Identity Center, whose token AWS's own tool keeps in a file.

mod token;

use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use reqwest::{Method, Request, Url};
use serde::Deserialize;
use tandem_model::Error;
use tandem_net::secret_header;

use super::profile::SsoLogin;
use super::{ProfileFiles, credentials};
use crate::cache::Expiring;
use crate::fetch::{self, Network};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleAnswer {
    role_credentials: RoleCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    /// Expiry in milliseconds since 1970.
    expiration: u64,
}

/// Fetches the credentials of the login's role.
pub(super) async fn fetch(
    files: &ProfileFiles,
    login: &SsoLogin,
) -> Result<Expiring<Credentials>, Error> {
    let advice = format!("Run `aws sso login --profile {}`.", login.profile);
    let token = token::valid(files, login).await?.ok_or_else(|| {
        Error::NotAuthenticated(format!(
            "The profile `{}` of AWS has no valid login at IAM Identity Center. {advice}",
            login.profile
        ))
    })?;
    let request = request(files, login, &token).ok_or_else(|| {
        Error::NotAuthenticated(format!(
            "The settings of the profile `{}` of AWS are not valid. Run `aws configure sso --profile {}`.",
            login.profile, login.profile
        ))
    })?;
    let RoleAnswer { role_credentials: role } =
        fetch::json(Network::Internet, request).await.map_err(|error| {
            error.into_error("The request for credentials at IAM Identity Center", &advice)
        })?;
    Ok(Expiring {
        value: credentials(&role.access_key_id, &role.secret_access_key, Some(role.session_token)),
        expires_at: Some(UNIX_EPOCH + Duration::from_millis(role.expiration)),
    })
}

fn request(files: &ProfileFiles, login: &SsoLogin, token: &str) -> Option<Request> {
    let usual = || format!("https://portal.sso.{}.amazonaws.com", login.region);
    let base = files.sso_url.clone().unwrap_or_else(usual);
    let mut url = Url::parse(&base).ok()?.join("/federation/credentials").ok()?;
    url.query_pairs_mut()
        .append_pair("role_name", &login.role_name)
        .append_pair("account_id", &login.account_id);
    let mut request = Request::new(Method::GET, url);
    let (name, value) = secret_header("x-amz-sso_bearer_token", token)?;
    request.headers_mut().insert(name, value);
    Some(request)
}
