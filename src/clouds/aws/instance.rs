//! Credentials of a machine of EC2, from its metadata service (version 2).

use aws_credential_types::Credentials;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use tandem_model::Error;
use tandem_net::secret_header;

use super::TemporaryKeys;
use crate::cache::Expiring;
use crate::fetch::{self, FetchError, Network};

/// Path of the roles of the machine.
const ROLES_PATH: &str = "/latest/meta-data/iam/security-credentials/";
/// Lifetime of the token of the service, in seconds. It is used for two requests.
const TOKEN_LIFETIME_SECONDS: &str = "60";

/// Fetches the credentials of the machine's role; `None` if the machine is not one of EC2, or has no role.
pub(super) async fn fetch(base: &str) -> Result<Option<Expiring<Credentials>>, Error> {
    match ask(base).await {
        Ok(keys) => Ok(Some(keys.into_credentials())),
        // Nothing answers on a machine that is not one of EC2.
        Err(FetchError::Unreachable(why)) => {
            tracing::debug!(why, "the metadata service of EC2 gives no credentials");
            Ok(None)
        }
        Err(FetchError::Refused(404, _)) => Ok(None),
        Err(error) => Err(error.into_error(
            "The request for the machine's credentials",
            "Give the machine a role, or set AWS_EC2_METADATA_DISABLED to `true`.",
        )),
    }
}

async fn ask(base: &str) -> Result<TemporaryKeys, FetchError> {
    let mut request = request(base, Method::PUT, "/latest/api/token")?;
    request.headers_mut().insert(
        HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds"),
        HeaderValue::from_static(TOKEN_LIFETIME_SECONDS),
    );
    let token = fetch::text(Network::Link, request).await?;
    let roles = fetch::text(Network::Link, with_token(base, ROLES_PATH, &token)?).await?;
    let role = roles.lines().next().unwrap_or_default().trim();
    if role.is_empty() {
        return Err(FetchError::Refused(404, "no role".to_owned()));
    }
    fetch::json(Network::Link, with_token(base, &format!("{ROLES_PATH}{role}"), &token)?).await
}

fn with_token(base: &str, path: &str, token: &str) -> Result<Request, FetchError> {
    let mut request = request(base, Method::GET, path)?;
    let header = secret_header("x-aws-ec2-metadata-token", token.trim());
    let (name, value) = header.ok_or_else(|| unusable("its token cannot be sent"))?;
    request.headers_mut().insert(name, value);
    Ok(request)
}

fn request(base: &str, method: Method, path: &str) -> Result<Request, FetchError> {
    let url = Url::parse(base).and_then(|base| base.join(path));
    Ok(Request::new(method, url.map_err(|error| unusable(&error.to_string()))?))
}

fn unusable(why: &str) -> FetchError {
    FetchError::Refused(400, format!("the metadata service of EC2 cannot be asked: {why}"))
}
