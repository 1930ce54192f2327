//! Roles, which the Security Token Service lets others assume for a time.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use form_urlencoded::Serializer;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request, Url};
use tandem_model::Error;

use super::profile::AssumedRole;
use super::sign::{self, SigningScope};
use super::{AwsConfig, TemporaryKeys, WebIdentity};
use crate::cache::Expiring;
use crate::fetch::{self, FetchError, Network};
use crate::files;

/// Version of the service's API.
const API_VERSION: &str = "2011-06-15";
/// Name of a session that the user has not named. The logs of AWS show it.
const SESSION_NAME: &str = "tandem";

/// Assumes the role of a profile with other credentials.
pub(super) async fn assume(
    config: &AwsConfig,
    role: &AssumedRole,
    with: Credentials,
) -> Result<Expiring<Credentials>, Error> {
    let session = role.session_name.as_deref().unwrap_or(SESSION_NAME);
    let mut fields = vec![("RoleArn", role.role_arn.as_str()), ("RoleSessionName", session)];
    fields.extend(role.external_id.as_deref().map(|id| ("ExternalId", id)));
    fields.extend(role.duration_seconds.as_deref().map(|seconds| ("DurationSeconds", seconds)));
    let mut request = request(config, "AssumeRole", &fields)?;
    let scope = SigningScope { region: &config.region, service: "sts" };
    sign::sign(&mut request, with, scope, SystemTime::now())?;
    let advice = format!(
        "Check the role of the profile `{}`, and that its `source_profile` or `credential_source` may assume it.",
        role.profile
    );
    ask(request, &advice).await
}

/// Assumes a role with the token of a file.
pub(super) async fn assume_with_web_identity(
    config: &AwsConfig,
    identity: &WebIdentity,
) -> Result<Expiring<Credentials>, Error> {
    let token = files::read(&identity.token_file).await.map_err(|error| {
        Error::NotAuthenticated(format!(
            "The token of the role {} of AWS cannot be read from {}: {error}. Correct AWS_WEB_IDENTITY_TOKEN_FILE, or the \
             `web_identity_token_file` of the profile.",
            identity.role_arn,
            identity.token_file.display()
        ))
    })?;
    let session = identity.session_name.as_deref().unwrap_or(SESSION_NAME);
    let fields = [
        ("RoleArn", identity.role_arn.as_str()),
        ("RoleSessionName", session),
        ("WebIdentityToken", token.trim()),
    ];
    let request = request(config, "AssumeRoleWithWebIdentity", &fields)?;
    ask(request, "Check the role, and that it trusts the service that writes the token.").await
}

/// Writes the request for an action.
fn request(config: &AwsConfig, action: &str, fields: &[(&str, &str)]) -> Result<Request, Error> {
    let usual = || format!("https://sts.{}.amazonaws.com", config.region);
    let base = config.sources.sts_url.clone().unwrap_or_else(usual);
    let url = Url::parse(&base).map_err(|error| {
        Error::NotAuthenticated(format!(
            "AWS_ENDPOINT_URL_STS is not an address: {error}. Correct it."
        ))
    })?;
    let mut body = Serializer::new(String::new());
    body.append_pair("Action", action).append_pair("Version", API_VERSION).extend_pairs(fields);
    let mut request = Request::new(Method::POST, url);
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    *request.body_mut() = Some(body.finish().into());
    Ok(request)
}

async fn ask(request: Request, advice: &str) -> Result<Expiring<Credentials>, Error> {
    let what = "The request for the credentials of a role of AWS";
    let asked = fetch::text(Network::Internet, request).await;
    let answer = asked.map_err(|error| error.into_error(what, advice))?;
    let keys = keys(&answer).ok_or_else(|| {
        FetchError::Unreachable("the answer has no credentials".to_owned()).into_error(what, advice)
    })?;
    Ok(keys.into_credentials())
}

/// Returns the keys of an answer, which is XML. Their texts have no character that XML would write in another way.
fn keys(answer: &str) -> Option<TemporaryKeys> {
    let (_, keys) = answer.split_once("<Credentials>")?;
    let text = |name: &str| fetch::element(keys, name).map(str::to_owned);
    Some(TemporaryKeys {
        access_key_id: text("AccessKeyId")?,
        secret_access_key: text("SecretAccessKey")?,
        token: Some(text("SessionToken")?),
        expiration: text("Expiration"),
    })
}
