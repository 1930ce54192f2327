//! A server that gets push notifications and records them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{IntoFuture as _, pending};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use futures::stream;
use tandem_a2a::webhook::{Delivery, WebhookLimits, Webhooks, check};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// A server's reply.
pub(crate) enum Reply {
    Status(u16),
    /// Fails, and closes the connection.
    Close,
    /// Only when the test releases it.
    Held(Arc<Notify>),
    Redirect,
    /// With a body that never ends, made of these pieces.
    Endless(Bytes),
    Never,
}

/// A request that the server got: path, `X-Token` and body.
pub(crate) type Got = (String, String, String);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) got: mpsc::UnboundedReceiver<Got>,
}

struct Script {
    replies: Mutex<VecDeque<Reply>>,
    got: mpsc::UnboundedSender<Got>,
}

async fn reply(State(script): State<Arc<Script>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 4096).await.unwrap();
    let token = head.headers.get("x-token").map_or("", |value| value.to_str().unwrap());
    let body = String::from_utf8(body.to_vec()).unwrap();
    script.got.send((head.uri.to_string(), token.to_owned(), body)).unwrap();
    let reply = script.replies.lock().unwrap().pop_front();
    let mut response = Response::new(Body::from("x".repeat(100)));
    match reply.unwrap_or(Reply::Status(200)) {
        Reply::Status(status) => *response.status_mut() = StatusCode::from_u16(status).unwrap(),
        Reply::Close => {
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response.headers_mut().insert("connection", "close".try_into().unwrap());
        }
        Reply::Held(until) => until.notified().await,
        Reply::Redirect => {
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            response.headers_mut().insert("location", "/elsewhere".try_into().unwrap());
        }
        Reply::Endless(piece) => {
            let pieces = stream::repeat_with(move || Ok::<_, Infallible>(piece.clone()));
            *response.body_mut() = Body::from_stream(pieces);
        }
        Reply::Never => pending().await,
    }
    response
}

impl Server {
    /// Replies in this order, and then with success.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), replies)
    }

    pub(crate) fn on(listener: TcpListener, replies: Vec<Reply>) -> Self {
        let address = listener.local_addr().unwrap();
        let (sender, got) = mpsc::unbounded_channel();
        let script = Script { replies: Mutex::new(replies.into()), got: sender };
        let router = Router::new().fallback(reply).with_state(Arc::new(script));
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { address, got }
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/hook?key=secret", self.address.port())
    }

    /// Returns a notification for this server.
    pub(crate) fn delivery(&self, key: &str, body: &str) -> Delivery {
        delivery(key, &self.url("127.0.0.1"), Bytes::from(body.to_owned()))
    }

    /// Waits for the next body.
    pub(crate) async fn body(&mut self) -> String {
        soon(self.got.recv()).await.2
    }

    pub(crate) async fn bodies(&mut self, expected: &[&str]) {
        for expected in expected {
            assert_eq!(self.body().await, *expected);
        }
        assert!(self.got.is_empty());
    }
}

pub(crate) fn delivery(key: &str, url: &str, body: Bytes) -> Delivery {
    Delivery {
        key: key.to_owned(),
        session: "session".to_owned(),
        target: check(url, true).unwrap(),
        headers: vec![("X-Token".to_owned(), "token".to_owned())],
        body,
    }
}

/// Returns a body that reports when its last holder drops it.
pub(crate) fn watched(sender: &mpsc::UnboundedSender<&'static str>, text: &'static str) -> Bytes {
    struct Body(mpsc::UnboundedSender<&'static str>, &'static str);
    impl AsRef<[u8]> for Body {
        fn as_ref(&self) -> &[u8] {
            self.1.as_bytes()
        }
    }
    impl Drop for Body {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }
    Bytes::from_owner(Body(sender.clone(), text))
}

pub(crate) fn hasty() -> WebhookLimits {
    WebhookLimits { first_wait: Duration::from_millis(1), ..WebhookLimits::default() }
}

pub(crate) fn webhooks(limits: WebhookLimits) -> Webhooks {
    Webhooks::new(true, limits)
}

/// Waits for an event, with a limit.
pub(crate) async fn soon<T>(event: impl Future<Output = Option<T>>) -> T {
    timeout(Duration::from_secs(10), event).await.expect("nothing happened").unwrap()
}
