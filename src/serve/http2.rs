//! Tracking of the open requests of an HTTP/2 connection, which may have many at once and is closed when it
//! is idle.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::HOST;
use axum::http::{HeaderValue, Request, Response, Version};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;

/// Count of the requests of one connection whose responses have not been sent completely.
#[derive(Clone)]
pub struct OpenRequests(watch::Sender<usize>);

/// An open request, counted as long as this value lives.
pub struct OpenRequest(watch::Sender<usize>);

impl OpenRequests {
    /// Returns a count of zero.
    pub fn none() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Counts one more request.
    pub fn begin(&self) -> OpenRequest {
        self.0.send_modify(|count| *count += 1);
        OpenRequest(self.0.clone())
    }

    /// Waits until no request has been open for the time given.
    pub async fn idle(&self, time: Duration) {
        let mut count = self.0.subscribe();
        loop {
            // An error is impossible, since `self` holds the sender.
            let _ = count.wait_for(|count| *count == 0).await;
            if tokio::time::timeout(time, count.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }
}

impl OpenRequest {
    /// Returns the response with a body that keeps the request open until the body has been sent.
    pub fn answer(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Body::new(OpenBody { body, _request: self }))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Body of a response that keeps its request open.
struct OpenBody {
    body: Body,
    _request: OpenRequest,
}

impl hyper::body::Body for OpenBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns an HTTP/2 request in the form of HTTP/1.1, with the host in the `Host` header, so that later
/// checks need to know one form only. A request that names two different hosts is returned as it is.
pub fn with_host<B>(mut request: Request<B>) -> Request<B> {
    let Some(authority) = request.uri().authority().map(ToString::to_string) else {
        return request;
    };
    let hosts: Vec<_> = request.headers().get_all(HOST).iter().collect();
    let names_another = hosts.iter().any(|host| host.as_bytes() != authority.as_bytes());
    if request.version() != Version::HTTP_2 || names_another {
        return request;
    }
    let path = request.uri().path_and_query().cloned();
    if let (Some(path), Ok(host)) = (path, HeaderValue::from_str(&authority)) {
        request.headers_mut().insert(HOST, host);
        *request.uri_mut() = path.into();
    }
    request
}
