//! The page on this machine to which a browser is redirected after a login. It serves one login.

use std::future::IntoFuture as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use futures::future::{BoxFuture, join_all};
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Default path of the page.
const CALLBACK_PATH: &str = "/callback";

/// Maximum time to send the last page before the listener ends.
const LAST_PAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// Function that exchanges the parameters of a callback for tokens, and stores them.
pub(super) type Finish =
    Box<dyn Fn(Callback) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Parameters of the redirect to the page.
pub(crate) struct Callback {
    pub(super) code: Option<String>,
    pub(crate) state: String,
    pub(super) issuer: Option<String>,
    /// Reason why the service has refused the login.
    pub(super) refused: Option<String>,
}

/// The listener for the browser.
pub(crate) struct Landing {
    /// Listeners on IPv4 and IPv6, because `localhost` can mean either.
    listeners: Vec<TcpListener>,
    port: u16,
    path: String,
}

impl Landing {
    /// Listens at the redirect address, without one at a free port. Returns `None` if no page can be served at the
    /// address, because its host is another machine or its scheme is not `http`.
    pub(super) async fn open(redirect: Option<&str>) -> Result<Option<Self>, String> {
        let (port, path) = match redirect {
            None => (0, CALLBACK_PATH.to_owned()),
            Some(wanted) => {
                let url = Url::parse(wanted)
                    .map_err(|err| format!("`redirectUri` is not a URL: {err}."))?;
                let here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
                if !here || url.scheme() != "http" {
                    return Ok(None);
                }
                (url.port_or_known_default().unwrap_or(80), url.path().to_owned())
            }
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let unheard = |err| format!("No page for the end of the login can be served: {err}.");
        let listener = listener.map_err(unheard)?;
        let port = listener.local_addr().map_err(unheard)?.port();
        let mut listeners = vec![listener];
        listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok());
        Ok(Some(Self { listeners, port, path }))
    }

    /// Returns the address of the page.
    pub(super) fn address(&self) -> String {
        format!("http://localhost:{}{}", self.port, self.path)
    }

    /// Waits until the browser is redirected to the page with `state`, and calls `finish` with the callback.
    /// Callbacks with another state are refused, because they belong to no login that was begun here.
    pub(super) async fn wait(self, state: String, finish: Finish) -> Result<(), String> {
        let (told, mut outcome) = mpsc::channel(1);
        let ending = CancellationToken::new();
        let _end_on_drop = ending.clone().drop_guard();
        let page = Arc::new(LandingPage { path: self.path, state, finish, told });
        let router = Router::new().fallback(move |method: Method, uri: Uri| {
            let page = Arc::clone(&page);
            async move { page.answer(&method, &uri).await }
        });
        let servers = self.listeners.into_iter().map(|listener| {
            axum::serve(listener, router.clone())
                .with_graceful_shutdown(ending.clone().cancelled_owned())
                .into_future()
        });
        let mut servers = join_all(servers);
        let outcome = tokio::select! {
            outcome = outcome.recv() => outcome,
            _ = &mut servers => None,
        };
        ending.cancel();
        let _ = timeout(LAST_PAGE_TIMEOUT, servers).await;
        outcome.unwrap_or_else(|| {
            Err("The page for the end of the login cannot be served any more.".to_owned())
        })
    }
}

impl Callback {
    pub(crate) fn from_address(address: &Url) -> Option<Self> {
        let find = |name: &str| {
            let found = address.query_pairs().find(|(found, _)| found == name);
            found.map(|(_, value)| value.into_owned())
        };
        let refused = find("error").map(|error| {
            let words = find("error_description").unwrap_or_default();
            format!("{error} {words}").trim().to_owned()
        });
        let callback =
            Self { code: find("code"), state: find("state")?, issuer: find("iss"), refused };
        (callback.code.is_some() || callback.refused.is_some()).then_some(callback)
    }
}

struct LandingPage {
    path: String,
    /// State of the login that is waited for.
    state: String,
    finish: Finish,
    told: mpsc::Sender<Result<(), String>>,
}

impl LandingPage {
    async fn answer(&self, method: &Method, uri: &Uri) -> Response {
        if method != Method::GET || uri.path() != self.path {
            return page(StatusCode::NOT_FOUND, "There is nothing here.");
        }
        let query = uri.query().unwrap_or_default();
        let address = format!("http://localhost{}?{query}", self.path);
        let callback = Url::parse(&address).ok().as_ref().and_then(Callback::from_address);
        let Some(callback) = callback.filter(|callback| callback.state == self.state) else {
            return page(
                StatusCode::BAD_REQUEST,
                "This page does not belong to a login that tandem has begun.",
            );
        };
        let finished = (self.finish)(callback).await;
        let answer = match &finished {
            Ok(()) => page(StatusCode::OK, "You are logged in. You can close this page."),
            Err(_) => page(
                StatusCode::BAD_REQUEST,
                "The login failed. The program where you began it shows the cause.",
            ),
        };
        // The receiver may have stopped waiting.
        let _ = self.told.try_send(finished);
        answer
    }
}

/// Returns a page that repeats no part of the request, so that nothing can be injected into it.
fn page(status: StatusCode, text: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>tandem</title>\n\
         <p>{text}\n"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (status, headers, html).into_response()
}
