//! Credentials of a container (ECS, EKS), from the service that its variables name.

use std::net::IpAddr;
use std::path::PathBuf;

use aws_credential_types::Credentials;
use reqwest::header::AUTHORIZATION;
use reqwest::{Method, Request, Url};
use tandem_model::{Error, Secret};
use tandem_net::secret_header;

use super::TemporaryKeys;
use crate::cache::Expiring;
use crate::fetch::{self, Network};
use crate::files;

/// Addresses at which the clouds give containers their credentials, besides this machine: ECS and EKS.
const CONTAINER_ADDRESSES: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// A service that gives a container its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSource {
    /// URL of the credentials.
    pub url: String,
    /// Token that the service demands.
    pub token: Option<Secret>,
    /// File with that token, which counts more: the token in it is replaced from time to time.
    pub token_file: Option<PathBuf>,
}

/// Fetches the credentials of the container.
pub(super) async fn fetch(source: &ContainerSource) -> Result<Expiring<Credentials>, Error> {
    let url = Url::parse(&source.url).ok().filter(is_allowed).ok_or_else(|| {
        Error::NotAuthenticated(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI must be an address with https, one of this machine, or one of those \
             that ECS and EKS use. Correct it, or unset it."
                .to_owned(),
        )
    })?;
    let mut request = Request::new(Method::GET, url);
    if let Some(token) = token(source).await? {
        let (_, value) = secret_header(AUTHORIZATION.as_str(), token.trim()).ok_or_else(|| {
            Error::NotAuthenticated(
                "AWS_CONTAINER_AUTHORIZATION_TOKEN has characters that no token can have. Correct it.".to_owned(),
            )
        })?;
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let keys: TemporaryKeys = fetch::json(Network::Link, request).await.map_err(|error| {
        error
            .into_error("The request for the container's credentials", "Give the container a role.")
    })?;
    Ok(keys.into_credentials())
}

async fn token(source: &ContainerSource) -> Result<Option<String>, Error> {
    match &source.token_file {
        Some(file) => files::read(file).await.map(Some).map_err(|error| {
            Error::NotAuthenticated(format!(
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names {}, which cannot be read: {error}. Correct the variable.",
                file.display()
            ))
        }),
        None => Ok(source.token.as_ref().map(|token| token.expose().to_owned())),
    }
}

/// Returns `true` if credentials may be fetched at an address: nobody on the way can change them.
fn is_allowed(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme() == "https"
        || url.scheme() == "http" && (is_loopback || CONTAINER_ADDRESSES.contains(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_fetched_from_no_address_that_others_can_answer_for() {
        let check = |url: &str, allowed| {
            assert_eq!(is_allowed(&Url::parse(url).unwrap()), allowed, "{url}");
        };
        check("https://credentials.example.com/x", true);
        check("http://127.0.0.1:80/x", true);
        check("http://169.254.170.2/v2/credentials/1", true);
        check("http://[fd00:ec2::23]/v1/credentials", true);
        check("http://169.254.169.254/x", false);
        check("http://example.com/x", false);
        check("ftp://127.0.0.1/x", false);
    }
}
