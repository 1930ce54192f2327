//! A page in the user's browser that asks for a key, for ACP's `authenticate` and for a login from the terminal.

use std::future::{IntoFuture as _, pending};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use reqwest::Url;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::browser;
use super::credentials::Credentials;
use super::endpoint::UnusableEndpoint;
use super::login::accepted_message;
use super::typed_key::{Check, Refusal, accept};
use tandem_model::Secret;
use tandem_model::provider::Provider;

/// Maximum time that the page waits for a key, in minutes.
const MAX_WAIT_MINUTES: u64 = 10;

/// Interval at which the page's server looks for a key that was set elsewhere meanwhile.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum time for sending the last response before the server stops.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum size of a posted form in bytes. A form with a key is smaller.
const MAX_BODY: usize = 4096;

const FORM_PAGE: &str = include_str!("login_page.html");

const DONE_PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <title>tandem: done</title>\n<h1>The key is good, and is stored.</h1>\n\
    <p>You can close this page and go back to where you were.\n";

/// Looks again for a provider's key, and asks the user on a page if there is none. `opened` is given the page's
/// address, and returns `true` if the page is to be opened in a browser here. Returns once there is a key. A key from
/// the page was checked and stored. The error says what to do. Dropping the future closes the page.
pub async fn authenticate(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    opened: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Result<(), String> {
    // Only one page is open at a time. A call that waits here finds the key that the user gave to the call before it.
    let _asking = credentials.asking.acquire().await;
    credentials.refresh(provider);
    let what_to_do = match credentials.resolve_endpoint(provider) {
        Ok(_) => return Ok(()),
        Err(wrong @ UnusableEndpoint::Wrong(_)) => return Err(credentials.explain(provider, wrong)),
        Err(missing) => credentials.explain(provider, missing),
    };
    let asked = ask(credentials, check, provider, opened).await;
    asked.map(drop).map_err(|why| format!("{why} {what_to_do}"))
}

/// Asks the user for a provider's key on a page, even if there is a key, which may have become invalid. `opened` is
/// given the page's address. Returns a message for the user about the new key. Dropping the future closes the page.
pub async fn ask_in_browser(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    opened: &(dyn Fn(&str) + Send + Sync),
) -> Result<String, String> {
    let _asking = credentials.asking.acquire().await;
    let opened = |url: &str| {
        opened(url);
        true
    };
    ask(credentials, check, provider, &opened).await
}

/// Serves a page that asks for a key until there is one. Returns a message for the user about the key. The error is the
/// reason why the page ended without a key.
async fn ask(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    opened: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Result<String, String> {
    // 1. Bind a free port of the loopback address. The page has a random path, so other programs of this machine
    // cannot guess its address.
    let no_page = |err: io::Error| format!("No page could be served: {err}.");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(no_page)?;
    let port = listener.local_addr().map_err(no_page)?.port();
    let page = Arc::new(LoginPage {
        hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        path: format!("/{}", random().map_err(no_page)?),
        credentials: Arc::clone(credentials),
        check: Arc::clone(check),
        provider,
        checking: Semaphore::new(1),
        done: CancellationToken::new(),
        ending: CancellationToken::new(),
    });
    let url = format!("http://{}{}", page.hosts[0], page.path);
    // 2. Report the address, and open a browser if the caller wants one.
    let programs = if opened(&url) { Some(browser::programs(credentials.env())?) } else { None };
    let browser = async {
        match &programs {
            Some(programs) => browser::open(programs, &url, credentials).await,
            None => pending().await,
        }
    };
    // If there is a key already, only the page can supply the new one: finding a key elsewhere means nothing then.
    let replaces = credentials.resolve_endpoint(provider).is_ok();
    let _end_on_drop = page.ending.clone().drop_guard();
    let router = Router::new().fallback(answer).with_state(Arc::clone(&page));
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(page.ending.clone().cancelled_owned())
        .into_future();
    tokio::pin!(server);

    // 3. Wait for a key, or for a reason to give up.
    let outcome = tokio::select! {
        () = page.done.cancelled() => Ok(accepted_message(credentials, provider)),
        () = page.found_elsewhere(), if !replaces => Ok("A key was found elsewhere.".to_owned()),
        why = browser => Err(why),
        () = sleep(Duration::from_mins(MAX_WAIT_MINUTES)) => Err(format!(
            "No key came from the page in the browser within {MAX_WAIT_MINUTES} minutes."
        )),
        _ = &mut server => Err("The page for the key cannot be served any more.".to_owned()),
    };
    // 4. End the page, and give the browser time to receive the last response.
    page.ending.cancel();
    let _ = timeout(LAST_RESPONSE_TIMEOUT, server).await;
    outcome
}

/// Returns 128 random bits in hexadecimal, from the operating system.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

struct LoginPage {
    /// Accepted values of the `Host` header. A request with another value does not come from a page of this server: the
    /// browser was led here by a foreign name (DNS rebinding).
    hosts: [String; 2],
    path: String,
    credentials: Arc<Credentials>,
    check: Check,
    provider: Provider,
    /// Permit to check a key: one key at a time.
    checking: Semaphore,
    /// Token that is cancelled when a key has been stored.
    done: CancellationToken,
    ending: CancellationToken,
}

impl LoginPage {
    /// Waits until there is a key that did not come through the page, but for example from `tandem login`.
    async fn found_elsewhere(&self) {
        loop {
            sleep(KEY_CHECK_INTERVAL).await;
            let _checking = self.checking.acquire().await;
            self.credentials.refresh(self.provider);
            if self.credentials.resolve_endpoint(self.provider).is_ok() {
                return;
            }
        }
    }

    /// Checks that a request is for this page, and that a form comes from this page. The error is the status of the
    /// response, which has no body.
    fn admit(&self, request: &Request) -> Result<(), StatusCode> {
        let headers = request.headers();
        let host = single_header(headers, &header::HOST).ok_or(StatusCode::MISDIRECTED_REQUEST)?;
        if !self.hosts.iter().any(|own| own == host) || request.uri().authority().is_some() {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        if request.uri().path() != self.path || request.uri().query().is_some() {
            return Err(StatusCode::NOT_FOUND);
        }
        if request.method() == Method::GET {
            return Ok(());
        }
        if request.method() != Method::POST {
            return Err(StatusCode::NOT_FOUND);
        }
        // A page of another site can post here too, but the browser then names that site as the origin.
        let origin =
            single_header(headers, &header::ORIGIN).and_then(|it| it.strip_prefix("http://"));
        let site = headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin");
        if origin != Some(host) || !site {
            return Err(StatusCode::FORBIDDEN);
        }
        Ok(())
    }

    /// Checks and stores a key from the form, and then lets the page end. Succeeds at once if a key was stored before.
    async fn accept_key(&self, key: &str) -> Result<(), Refusal> {
        let _checking = self.checking.acquire().await;
        if self.done.is_cancelled() {
            return Ok(());
        }
        tokio::select! {
            accepted = accept(&self.credentials, &self.check, self.provider, key) => accepted?,
            () = self.ending.cancelled() => {
                return Err(Refusal::Trouble("This page is no longer waiting for a key. Log in again where you \
                    began.".to_owned()));
            }
        };
        self.done.cancel();
        Ok(())
    }

    /// Returns the HTML of the form, with `message` about the last attempt.
    fn form(&self, nonce: &str, message: &str) -> String {
        let file = self.credentials.key_file();
        let file = file.map_or_else(|why| why, |file| file.display().to_string());
        // The message is put in last, because it comes from the provider and could contain one of the other marks.
        [
            ("{{nonce}}", nonce),
            ("{{provider}}", self.provider.title()),
            ("{{get}}", &self.credentials.keys_made_at(self.provider)),
            ("{{api}}", &self.provider_variables()),
            ("{{file}}", &file),
            ("{{minutes}}", &MAX_WAIT_MINUTES.to_string()),
            ("{{message}}", message),
        ]
        .iter()
        .fold(FORM_PAGE.to_owned(), |page, (mark, text)| page.replace(mark, &escape(text)))
    }

    /// Returns the host that a key would be sent to; empty if the endpoint is not usable.
    fn provider_variables(&self) -> String {
        let typed = self.credentials.typed_key(self.provider, Secret::new(""));
        let url = typed.ok().and_then(|typed| Url::parse(&typed.endpoint.url).ok());
        url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
    }
}

async fn answer(State(page): State<Arc<LoginPage>>, request: Request) -> Response {
    if let Err(status) = page.admit(&request) {
        return respond(status, "", "");
    }
    let Ok(nonce) = random() else {
        return respond(StatusCode::INTERNAL_SERVER_ERROR, "", "");
    };
    if request.method() == Method::GET {
        return respond(StatusCode::OK, &nonce, &page.form(&nonce, ""));
    }
    let Ok(body) = to_bytes(request.into_body(), MAX_BODY).await else {
        return respond(StatusCode::PAYLOAD_TOO_LARGE, "", "");
    };
    let key = form_urlencoded::parse(&body).find(|(name, _)| name == "key");
    let key = key.map(|(_, key)| key).unwrap_or_default();
    match page.accept_key(&key).await {
        Ok(()) => respond(StatusCode::OK, &nonce, DONE_PAGE),
        Err(Refusal::Key(why) | Refusal::Trouble(why)) => {
            respond(StatusCode::UNPROCESSABLE_ENTITY, &nonce, &page.form(&nonce, &why))
        }
    }
}

fn respond(status: StatusCode, nonce: &str, html: &str) -> Response {
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, &policy),
        // The browser sends no referrer to other sites. With `no-referrer`, the browser would post the form with the
        // origin `null`, and `admit` would refuse the form.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    (status, headers, html.to_owned()).into_response()
}

/// Returns the value of a header that is present exactly once and is text.
fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Escapes a text for HTML.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            _ => html.push(c),
        }
    }
    html
}
