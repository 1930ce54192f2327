//! Connections over HTTP/2: many requests at once, and none for long only if somebody waits for an answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::HOST;
use axum::http::{HeaderValue, Request, Response, Version};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;

/// Requests of one connection that are not answered to their end.
#[derive(Clone)]
pub struct OpenRequests(watch::Sender<usize>);

/// One of them.
pub struct OpenRequest(watch::Sender<usize>);

impl OpenRequests {
    /// Returns a count of no requests.
    pub fn none() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Counts a request.
    pub fn begin(&self) -> OpenRequest {
        self.0.send_modify(|count| *count += 1);
        OpenRequest(self.0.clone())
    }

    /// Waits until there has been none for so long.
    pub async fn idle(&self, time: Duration) {
        let mut count = self.0.subscribe();
        loop {
            // It fails only without a sender, which is here.
            let _ = count.wait_for(|count| *count == 0).await;
            if tokio::time::timeout(time, count.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }
}

impl OpenRequest {
    /// Returns a response whose request is open until the body has been sent.
    pub fn answer(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Body::new(OpenBody { body, _request: self }))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Body of a response whose request is open.
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

/// Returns a request of HTTP/2 as HTTP/1.1 would have it: with the host in a header. One that names two hosts
/// stays as it is.
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
