//! Tokens of a machine of Google, from its metadata service.

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use tandem_model::{Error, Secret};

use super::token::TokenAnswer;
use crate::cache::Expiring;
use crate::fetch::{self, FetchError, Network};

/// Path of the token of the machine's service account.
const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// Fetches a token of the machine's service account; `None` if the machine is not one of Google, or has no account.
pub(super) async fn fetch(base: &str) -> Result<Option<Expiring<Secret>>, Error> {
    let url = Url::parse(base).and_then(|base| base.join(TOKEN_PATH)).map_err(|_| {
        Error::NotAuthenticated(
            "GCE_METADATA_HOST is not a host. Correct it, or unset it.".to_owned(),
        )
    })?;
    let mut request = Request::new(Method::GET, url);
    let flavor = (HeaderName::from_static("metadata-flavor"), HeaderValue::from_static("Google"));
    request.headers_mut().insert(flavor.0, flavor.1);
    match fetch::json::<TokenAnswer>(Network::Link, request).await {
        Ok(answer) => Ok(Some(answer.into_token())),
        // Nothing answers on a machine that is not one of Google.
        Err(FetchError::Unreachable(why)) => {
            tracing::debug!(why, "the metadata service of Google gives no token");
            Ok(None)
        }
        Err(FetchError::Refused(404, _)) => Ok(None),
        Err(error) => Err(error.into_error(
            "The request for the machine's token",
            "Give the machine a service account.",
        )),
    }
}
