//! A stand-in for a model's API on this machine: it gives the replies of a list, and records its requests.

pub mod anthropic;
pub mod aws;
mod fields;
pub mod gemini;
pub mod openai;
pub mod responses;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Response};
use axum::serve::ListenerExt as _;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::limit::in_time;

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// With the method: `POST /v1beta/models/x:countTokens`.
    pub what: String,
    /// Header fields of the request.
    pub headers: HeaderMap,
    /// Body of the request; null if there is none.
    pub body: Value,
    /// The body as it came.
    pub raw: Vec<u8>,
}

/// The reply to one request.
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<Vec<u8>>,
    end: End,
}

impl Reply {
    /// Returns the reply with a word replaced.
    #[must_use]
    pub fn with(mut self, word: &str, other: &str) -> Self {
        for piece in &mut self.body {
            let text = String::from_utf8(std::mem::take(piece)).unwrap();
            *piece = text.replace(word, other).into_bytes();
        }
        self
    }
}

/// Replies of the Gemini API.
impl Reply {
    /// Returns an answer with one text.
    pub fn text(text: &str) -> Self {
        Self::stream(event(&format!(
            r#"{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}"#
        )))
    }
}

/// Returns one event of a stream of the Gemini API, with this candidate.
pub fn event(candidate: &str) -> String {
    format!("data: {{\"candidates\":[{candidate}]}}\n\n")
}

/// The end of a reply.
enum End {
    Whole,
    /// The connection is closed in the middle.
    Cut,
    /// Nothing comes any more.
    Hang,
    /// The last piece is sent over and over.
    Repeat(usize),
}

/// A running server; it ends with the test's runtime.
pub struct Server {
    address: String,
    pages: Pages,
    pages_asked: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    gone: tokio::sync::Mutex<mpsc::UnboundedReceiver<()>>,
}

/// Check of a request, which gets the bodies of the replies so far. A reply that it returns is a refusal, and takes
/// no reply from the list.
pub type Check = fn(&Asked, &[Vec<u8>]) -> Option<Reply>;

/// JSON at some paths, apart from the replies; `None` if there are only replies.
type Pages = Arc<Mutex<Option<Vec<(String, Value)>>>>;

struct Script {
    replies: Mutex<VecDeque<Reply>>,
    check: Option<Check>,
    /// Bodies of the replies so far.
    given: Mutex<Vec<Vec<u8>>>,
    pages: Pages,
    /// Paths of the requests for pages so far.
    pages_asked: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    gone: mpsc::UnboundedSender<()>,
}

impl Reply {
    /// Returns a reply with a stream of events in one piece.
    pub fn stream(body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, body: vec![body.into()], end: End::Whole }
    }

    /// Returns an error with its JSON, or with any other body.
    pub fn error(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: vec![body.into()], end: End::Whole }
    }

    /// Returns the reply with a header field, in place of a field of the same name.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Returns the reply in pieces that end at these places.
    #[must_use]
    pub fn cut_at(mut self, mut places: Vec<usize>) -> Self {
        let whole = self.body.concat();
        places.sort_unstable();
        places.push(whole.len());
        let mut begin = 0;
        let pieces = places.into_iter().map(|end| {
            let piece = whole[begin..end].to_vec();
            begin = end;
            piece
        });
        self.body = pieces.filter(|piece| !piece.is_empty()).collect();
        self
    }

    /// Returns the reply with a connection that breaks off after the body.
    #[must_use]
    pub fn then_cut(mut self) -> Self {
        self.end = End::Cut;
        self
    }

    /// Returns the reply with a connection that stays open after the body, without an end.
    #[must_use]
    pub fn then_hang(mut self) -> Self {
        self.end = End::Hang;
        self
    }

    /// Returns the reply with its body repeated.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.end = End::Repeat(times);
        self
    }

    fn into_response(self, gone: mpsc::UnboundedSender<()>) -> Response<Body> {
        let pieces = stream::iter(self.body.clone().into_iter().map(Ok::<_, io::Error>));
        let rest: BoxStream<'static, io::Result<Vec<u8>>> = match self.end {
            End::Whole => stream::empty().boxed(),
            End::Cut => {
                // The connection is cut after the body has been sent.
                let cut = async {
                    tokio::task::yield_now().await;
                    Err(io::ErrorKind::ConnectionReset.into())
                };
                stream::once(cut).boxed()
            }
            End::Hang => {
                let guard = Guard(gone);
                stream::pending()
                    .map(move |never: Infallible| {
                        let _ = &guard;
                        match never {}
                    })
                    .boxed()
            }
            End::Repeat(times) => {
                let piece = self.body.concat();
                stream::iter((1..times).map(move |_| Ok(piece.clone()))).boxed()
            }
        };
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(Body::from_stream(pieces.chain(rest))).unwrap()
    }
}

/// Guard that reports when the client has closed a hanging connection.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl Server {
    /// Replies in this order; to any further request with an error that is final.
    pub async fn start(replies: Vec<Reply>) -> Self {
        Self::begin(replies, None, None).await
    }

    /// Starts a server with these replies in order. Requests to `pages` get their JSON, and any other `GET` gets a
    /// 404.
    pub async fn with_pages(replies: Vec<Reply>, pages: &[(&str, Value)]) -> Self {
        Self::of_pages(replies, pages, None).await
    }

    /// Starts a server as [`Self::with_pages`] does, which also refuses what `check` refuses.
    pub async fn of_pages(
        replies: Vec<Reply>,
        pages: &[(&str, Value)],
        check: Option<Check>,
    ) -> Self {
        let pages = pages.iter().map(|(path, json)| ((*path).to_owned(), json.clone()));
        Self::begin(replies, Some(pages.collect()), check).await
    }

    /// Answers each request as `check` says, which has an answer to each.
    pub async fn checked(check: Check) -> Self {
        Self::begin(vec![], None, Some(check)).await
    }

    async fn begin(
        replies: Vec<Reply>,
        pages: Option<Vec<(String, Value)>>,
        check: Option<Check>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (asked, pages_asked) = (Arc::default(), Arc::default());
        let (sender, gone) = mpsc::unbounded_channel();
        let replies = Mutex::new(replies.into());
        let pages: Pages = Arc::new(Mutex::new(pages));
        let script = Script {
            replies,
            check,
            given: Mutex::default(),
            pages: Arc::clone(&pages),
            pages_asked: Arc::clone(&pages_asked),
            asked: Arc::clone(&asked),
            gone: sender,
        };
        let router = Router::new().fallback(reply).with_state(Arc::new(script));
        // Without Nagle's algorithm, small pieces leave at once.
        let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap());
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { address, pages, pages_asked, asked, gone: tokio::sync::Mutex::new(gone) }
    }

    /// Replaces the JSON at one of the paths.
    pub fn set_page(&self, path: &str, json: Value) {
        let mut pages = self.pages.lock().unwrap();
        let mut pages = pages.iter_mut().flatten();
        pages.find(|(known, _)| known == path).expect("there is no such page").1 = json;
    }

    /// Returns the address of the models of the Gemini API.
    pub fn models_url(&self) -> String {
        format!("{}/v1beta/models", self.address())
    }

    /// Returns the address of the server: `http://127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the paths of the requests for pages so far, which [`Self::asked`] does not have.
    pub fn pages_asked(&self) -> Vec<String> {
        self.pages_asked.lock().unwrap().clone()
    }

    /// Waits until the client has closed a connection that hangs.
    pub async fn client_gone(&self) {
        let gone = async { self.gone.lock().await.recv().await };
        in_time(gone).await.expect("the client keeps its connection").unwrap();
    }
}

async fn reply(State(script): State<Arc<Script>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let page = script.pages.lock().unwrap().as_ref().and_then(|pages| {
        match pages.iter().find(|(path, _)| path == head.uri.path()) {
            Some((_, json)) => Some(Reply::error(200, json.to_string())),
            None if head.method == Method::GET => Some(Reply::error(404, "{}")),
            None => None,
        }
    });
    if let Some(page) = page {
        script.pages_asked.lock().unwrap().push(head.uri.path().to_owned());
        return page.into_response(script.gone.clone());
    }
    let asked = Asked {
        what: format!("{} {}", head.method, head.uri),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        raw: body.to_vec(),
    };
    script.asked.lock().unwrap().push(asked.clone());
    let refusal = script.check.and_then(|check| check(&asked, &script.given.lock().unwrap()));
    let reply = refusal.unwrap_or_else(|| {
        let reply = script.replies.lock().unwrap().pop_front();
        let reply = reply.unwrap_or_else(|| Reply::error(418, "there is no reply to this"));
        script.given.lock().unwrap().push(reply.body.concat());
        reply
    });
    reply.into_response(script.gone.clone())
}
