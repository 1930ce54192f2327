//! A page in the person's browser that asks for a key: for ACP's `authenticate`, and for whoever
//! logs in from the terminal.

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
use super::login::told;
use super::provider_variables::provider_variables;
use super::typed_key::{Check, Refusal, accept};
use tandem_model::Secret;
use tandem_model::provider::Provider;

/// Maximum time that the page waits for a key, in minutes.
const MINUTES: u64 = 10;

/// Interval of looking for a key that was set elsewhere meanwhile.
const LOOK: Duration = Duration::from_secs(2);

/// Maximum time for the last response to be sent.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of a form with a key in it, and more.
const MAX_BODY: usize = 4096;

const FORM: &str = include_str!("login_page.html");

const DONE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <title>tandem: done</title>\n<h1>The key is good, and is stored.</h1>\n\
    <p>You can close this page and go back to where you were.\n";

/// Looks again for a provider's key; if there is none, asks the person. `opened` is told the page's
/// address, and returns whether to open it in a browser here. Returns when there is a key: it was checked and is stored. The error says what to do.
/// Dropped, it closes the page.
pub async fn authenticate(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    opened: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Result<(), String> {
    // Whoever waits here finds the key that was given to the one before; so there is one page.
    let _asking = credentials.asking.acquire().await;
    credentials.refresh(provider);
    let what_to_do = match credentials.look(provider) {
        Ok(_) => return Ok(()),
        Err(wrong @ UnusableEndpoint::Wrong(_)) => return Err(credentials.explain(provider, wrong)),
        Err(missing) => credentials.explain(provider, missing),
    };
    let asked = ask(credentials, check, provider, opened).await;
    asked.map(drop).map_err(|why| format!("{why} {what_to_do}"))
}

/// Asks the person for a provider's key, also if there is one: it may not be accepted any more.
/// `opened` is told the page's address. Returns what is worth knowing of the key. Dropped, it closes
/// the page.
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

/// Serves a page that asks for a key, until there is one; what is worth knowing of it. The error is
/// why it ended without.
async fn ask(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    opened: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Result<String, String> {
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
    let programs = if opened(&url) { Some(browser::programs(credentials.env())?) } else { None };
    let browser = async {
        match &programs {
            Some(programs) => browser::open(programs, &url, credentials).await,
            None => pending().await,
        }
    };
    let replaces = credentials.look(provider).is_ok();
    let _end_on_drop = page.ending.clone().drop_guard();
    let router = Router::new().fallback(answer).with_state(Arc::clone(&page));
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(page.ending.clone().cancelled_owned())
        .into_future();
    tokio::pin!(server);

    let outcome = tokio::select! {
        () = page.done.cancelled() => Ok(told(credentials, provider)),
        () = page.found_elsewhere(), if !replaces => Ok("There is a key now.".to_owned()),
        why = browser => Err(why),
        () = sleep(Duration::from_mins(MINUTES)) => Err(format!(
            "No key came from the page in the browser within {MINUTES} minutes."
        )),
        _ = &mut server => Err("The page has ended.".to_owned()),
    };
    page.ending.cancel();
    let _ = timeout(GRACE, server).await;
    outcome
}

/// 128 bits that nobody can guess.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

struct LoginPage {
    /// Value of the `Host` header from a browser on this computer; any other was led here.
    hosts: [String; 2],
    path: String,
    credentials: Arc<Credentials>,
    check: Check,
    provider: Provider,
    /// One key at a time.
    checking: Semaphore,
    /// A key is stored.
    done: CancellationToken,
    ending: CancellationToken,
}

impl LoginPage {
    /// Waits until there is a key that did not come through the page: from `tandem login`, say.
    async fn found_elsewhere(&self) {
        loop {
            sleep(LOOK).await;
            let _checking = self.checking.acquire().await;
            self.credentials.refresh(self.provider);
            if self.credentials.look(self.provider).is_ok() {
                return;
            }
        }
    }

    /// Checks that a request is for this page and from this page. The error is the whole response.
    fn admit(&self, request: &Request) -> Result<(), StatusCode> {
        let headers = request.headers();
        let host = only(headers, &header::HOST).ok_or(StatusCode::MISDIRECTED_REQUEST)?;
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
        // Another site's page can post here too, but cannot say that it is this one.
        let origin = only(headers, &header::ORIGIN).and_then(|it| it.strip_prefix("http://"));
        let site = headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin");
        if origin != Some(host) || !site {
            return Err(StatusCode::FORBIDDEN);
        }
        Ok(())
    }

    /// Returns the page for the outcome of a key.
    async fn take(&self, key: &str) -> Result<(), Refusal> {
        let _checking = self.checking.acquire().await;
        if self.done.is_cancelled() {
            return Ok(());
        }
        tokio::select! {
            accepted = accept(&self.credentials, &self.check, self.provider, key) => accepted?,
            () = self.ending.cancelled() => {
                return Err(Refusal::Trouble("The time is over: authenticate again.".to_owned()));
            }
        };
        self.done.cancel();
        Ok(())
    }

    /// The form, with what was wrong the last time.
    fn form(&self, nonce: &str, message: &str) -> String {
        let file = self.credentials.key_file();
        let file = file.map_or_else(|why| why, |file| file.display().to_string());
        // The message is last: it is not ours, and may look like one of the others.
        [
            ("{{nonce}}", nonce),
            ("{{provider}}", self.provider.title()),
            ("{{get}}", provider_variables(self.provider).get_a_key),
            ("{{api}}", &self.provider_variables()),
            ("{{file}}", &file),
            ("{{minutes}}", &MINUTES.to_string()),
            ("{{message}}", message),
        ]
        .iter()
        .fold(FORM.to_owned(), |page, (mark, text)| page.replace(mark, &escape(text)))
    }

    /// The host that a key would be sent to.
    fn provider_variables(&self) -> String {
        let endpoint = self.credentials.endpoint_for(self.provider, &Secret::new(""));
        let url = endpoint.ok().and_then(|endpoint| Url::parse(&endpoint.url).ok());
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
    match page.take(&key).await {
        Ok(()) => respond(StatusCode::OK, &nonce, DONE),
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

/// A header that is there once and is text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Text as HTML has it.
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
