//! The signature of a request.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{self, SignableBody, SignableRequest, SigningSettings};
use aws_sigv4::sign::v4;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Request};
use tandem_model::Error;
use tandem_net::secret_header;

/// Region and service for which a signature holds.
#[derive(Clone, Copy)]
pub(super) struct SigningScope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// Adds a signature that holds at this `time` to a request that is otherwise complete.
pub(super) fn sign(
    request: &mut Request,
    credentials: Credentials,
    scope: SigningScope<'_>,
    time: SystemTime,
) -> Result<(), Error> {
    let headers = signature(request, credentials, scope, time).map_err(|why| {
        Error::Rejected(format!(
            "The request to AWS cannot be signed: {why}. Check the region and the keys."
        ))
    })?;
    for (name, value) in headers {
        let header = secret_header(name, &value).ok_or_else(|| {
            Error::NotAuthenticated(
                "The credentials of AWS have characters that none have. Copy them again."
                    .to_owned(),
            )
        })?;
        request.headers_mut().insert(header.0, header.1);
    }
    Ok(())
}

/// Returns the headers of the signature.
fn signature(
    request: &Request,
    credentials: Credentials,
    scope: SigningScope<'_>,
    time: SystemTime,
) -> Result<Vec<(&'static str, String)>, Box<dyn std::error::Error>> {
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(time)
        .settings(SigningSettings::default())
        .build()?
        .into();
    // Other headers are not signed: proxies may change them. The crate adds the host and the time.
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let headers = kind.into_iter().map(|kind| (CONTENT_TYPE.as_str(), kind));
    let body = request.body().and_then(Body::as_bytes).unwrap_or_default();
    let signable = SignableRequest::new(
        request.method().as_str(),
        request.url().as_str(),
        headers,
        SignableBody::Bytes(body),
    )?;
    let (instructions, _) = http_request::sign(signable, &params)?.into_parts();
    let (headers, _) = instructions.into_parts();
    Ok(headers.iter().map(|header| (header.name(), header.value().to_owned())).collect())
}
