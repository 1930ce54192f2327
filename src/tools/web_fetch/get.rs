//! Requests to the web: within limits, and not to addresses that only this machine reaches.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION,
};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use tokio::time::timeout;

use super::pace::RequestTimes;
use tandem_host::ToolContext;
use tandem_host::network::{Admission, Destination, HostLists};
use tandem_net::{self as net, Lookup, Reach};

/// Value of `Accept`: content types in the order of preference.
const ACCEPTED_TYPES: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5";
/// Maximum number of redirections of one request.
const MAX_REDIRECTS: usize = 5;
/// Maximum time to connect, shared by the addresses of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The setup of requests to the web: their reach, the resolver, and the rules for hosts.
pub struct WebSetup {
    /// Addresses that requests may go to.
    pub reach: Reach,
    /// Resolver of names.
    pub lookup: Lookup,
    /// Hosts that the settings allow and deny.
    pub hosts: HostLists,
}

/// Client for the web.
pub(super) struct WebClient {
    setup: WebSetup,
    clients: OnceLock<Clients>,
    pace: RequestTimes,
}

/// HTTP clients, made when first needed: loading certificates takes a while.
struct Clients {
    direct: Client,
    /// Client that uses the proxies which the environment names. It resolves the names of the proxies; the proxies
    /// resolve all other names.
    proxied: Client,
    proxies: Matcher,
}

/// Response to a request.
#[derive(Debug)]
pub(super) struct Download {
    /// Address after all redirections.
    pub(super) url: Url,
    /// Value of the header `Content-Type`.
    pub(super) content_type: Option<String>,
    pub(super) bytes: Vec<u8>,
    /// `true` if only the beginning of the content was read.
    pub(super) cut: bool,
}

impl WebClient {
    pub(super) fn new(setup: WebSetup) -> Self {
        Self { setup, clients: OnceLock::new(), pace: RequestTimes::default() }
    }

    /// Checks an address as far as possible without a question to a person and without resolving a name. The error says
    /// why the address is not read.
    pub(super) fn check_address(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let destination = destination(url).ok_or_else(|| format!("`{host}` is not a host"))?;
        self.setup.hosts.check_not_denied(&destination)?;
        net::judge_host(url, self.setup.reach)
            .map_err(|why| format!("{host} is {why}. {PRIVATE_HINT}"))
    }

    /// Returns the host of an address if the settings allow it.
    pub(super) fn allowed(&self, url: &Url) -> Option<String> {
        destination(url).filter(|it| self.setup.hosts.allow(it)).map(|it| it.host)
    }

    /// Downloads the content at an address. The error says why the download failed, for the model and for people.
    pub(super) async fn get(
        &self,
        url: Url,
        max_bytes: usize,
        cx: &ToolContext,
    ) -> Result<Download, String> {
        let limits = &cx.host.limits;
        let (host, most) = (url.host_str().unwrap_or_default(), limits.web_requests);
        self.pace.ask(host, most, Instant::now()).map_err(|wait| {
            let seconds = wait.as_millis().div_ceil(1000);
            format!(
                "{host} has been asked {most} times within a minute (`--limit web-requests=N`); \
                 it may be asked again in {seconds} s"
            )
        })?;
        let time = limits.web_time;
        timeout(time, self.follow(url, max_bytes, cx)).await.unwrap_or_else(|_| {
            let seconds = time.as_secs();
            Err(format!("it took longer than {seconds} s (`--limit web-seconds=N`)"))
        })
    }

    /// Sends a request, and follows redirections within the site.
    async fn follow(
        &self,
        mut url: Url,
        max_bytes: usize,
        cx: &ToolContext,
    ) -> Result<Download, String> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(&url).await?;
            let Some(next) = moved(&response, &url)? else {
                return receive(response, url, max_bytes).await;
            };
            if let (Some(connect), Some(to)) = (&cx.connect, destination(&next)) {
                // The user has allowed the site, but a rule may decide otherwise about this host of it.
                match connect(to, true).await {
                    Admission::Admitted => {}
                    Admission::Refused(why) | Admission::NotNow(why) => {
                        return Err(format!("it redirects to {next}, which cannot be read: {why}"));
                    }
                }
            }
            url = next;
        }
        Err(format!("it redirects more than {MAX_REDIRECTS} times"))
    }

    /// Checks an address, and sends one request to it, directly or through a proxy.
    async fn ask(&self, url: &Url) -> Result<Response, String> {
        // The resolver judges only hosts that are names. This check also covers hosts that are IP addresses.
        self.check_address(url)?;
        let clients = self.clients()?;
        let uri = url.as_str().parse().map_err(|err| format!("it is not a URL: {err}"))?;
        let client = if clients.proxies.intercept(&uri).is_some() {
            self.judge_for_proxy(url).await?;
            &clients.proxied
        } else {
            &clients.direct
        };
        let request = client.get(url.clone()).header(ACCEPT, ACCEPTED_TYPES);
        // No compression: a small compressed response could expand to very many bytes.
        let request = request.header(ACCEPT_ENCODING, "identity");
        request.send().await.map_err(|error| match net::refused(&error) {
            Some(refused) => format!("{refused}. {PRIVATE_HINT}"),
            None => net::cause(&error),
        })
    }

    /// Checks a name that a proxy will resolve. The proxy may find other addresses than this machine does, so the name
    /// is refused only if all of the addresses that this machine finds are refused.
    async fn judge_for_proxy(&self, url: &Url) -> Result<(), String> {
        let name = url.domain().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Ok(());
        }
        let Ok(found) = (self.setup.lookup)(name.clone()).await else { return Ok(()) };
        let judged = found.into_iter().map(|address| net::judge(address, self.setup.reach));
        match judged.reduce(Result::or) {
            Some(Err(why)) => Err(format!("{name} leads to {why}. {PRIVATE_HINT}")),
            _ => Ok(()),
        }
    }

    fn clients(&self) -> Result<&Clients, String> {
        if let Some(clients) = self.clients.get() {
            return Ok(clients);
        }
        let WebSetup { lookup, reach, .. } = &self.setup;
        let made = |begin: &dyn Fn() -> reqwest::ClientBuilder| {
            let begin = || begin().connect_timeout(CONNECT_TIMEOUT).pool_max_idle_per_host(1);
            net::build(begin).map_err(|error| format!("no HTTP client: {}", net::cause(&error)))
        };
        let direct = made(&|| net::client(lookup.clone(), *reach).no_proxy())?;
        let proxied = made(&|| {
            Client::builder()
                .user_agent(net::USER_AGENT)
                .redirect(redirect::Policy::none())
                .referer(false)
        })?;
        let clients = Clients { direct, proxied, proxies: Matcher::from_env() };
        Ok(self.clients.get_or_init(|| clients))
    }
}

/// Returns the host and the port of an address.
fn destination(url: &Url) -> Option<Destination> {
    Destination::new(url.host_str()?, url.port_or_known_default()?)
}

/// Advice for the user, at the end of the error for a refused address.
const PRIVATE_HINT: &str =
    "Only public addresses are read, unless the user sets `tools.webFetch.allowPrivate`";

/// Returns the address that a response redirects to; `None` if it is no redirection. The error says why the redirection
/// is not followed.
fn moved(response: &Response, from: &Url) -> Result<Option<Url>, String> {
    let status = response.status();
    let moves = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    if !moves {
        return Ok(None);
    }
    let location = header(response.headers(), LOCATION);
    let location = location
        .ok_or_else(|| format!("it answered {status}, which is a redirect, without an address"))?;
    let next = from
        .join(&location)
        .map_err(|err| format!("it redirects to something that is not a URL: {err}"))?;
    // The caller puts this error into a sentence of its own, so the period is removed.
    let next =
        super::urls::read(next.as_str()).map_err(|why| why.trim_end_matches('.').to_owned())?;
    if is_same_site(from, &next) {
        return Ok(Some(next));
    }
    // The permission to read one site does not cover another site.
    Err(format!("it redirects to {next}; if you want that, call web_fetch with that address"))
}

/// Returns whether the permission to read one address covers another: the host is the same, with or without `www.`, and
/// scheme and port are the same or change from HTTP to HTTPS at their default ports.
fn is_same_site(from: &Url, to: &Url) -> bool {
    let host = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        host.strip_prefix("www.").unwrap_or(host).to_owned()
    };
    let ports = (from.port_or_known_default(), to.port_or_known_default());
    let secret = from.scheme() == to.scheme() && ports.0 == ports.1;
    let made_secret =
        from.scheme() == "http" && to.scheme() == "https" && ports == (Some(80), Some(443));
    host(from) == host(to) && (secret || made_secret)
}

/// Reads a successful response, at most `max_bytes` bytes of its content.
async fn receive(mut response: Response, url: Url, max_bytes: usize) -> Result<Download, String> {
    let status = response.status();
    if status != StatusCode::OK && status != StatusCode::NON_AUTHORITATIVE_INFORMATION {
        return Err(format!("it answered {status}"));
    }
    let headers = response.headers();
    let encoding =
        header(headers, CONTENT_ENCODING).filter(|it| !it.eq_ignore_ascii_case("identity"));
    if let Some(encoding) = encoding {
        return Err(format!("it came compressed ({encoding}), which was not asked for"));
    }
    let content_type = header(headers, CONTENT_TYPE);
    let mut bytes = Vec::new();
    let mut cut = false;
    while let Some(more) = response.chunk().await.map_err(|error| net::cause(&error))? {
        let room = max_bytes - bytes.len();
        bytes.extend_from_slice(&more[..more.len().min(room)]);
        if more.len() > room {
            cut = true;
            break;
        }
    }
    Ok(Download { url, content_type, bytes, cut })
}

fn header(headers: &HeaderMap, name: reqwest::header::HeaderName) -> Option<String> {
    // Bytes that are not UTF-8, such as names in old encodings, are lost. The rest of the value may still be of use.
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}
