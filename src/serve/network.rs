//! The network around the server: the address it listens at, its URL, and the host names that clients may
//! use.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};
use url::Url;

use super::forwarded::{self, ForwardedClient};
use super::proxy::AddressRange;
use super::tls::Tls;

/// Names of the machine itself, as they appear in the `Host` header.
const LOOPBACK_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Options for the network around the server.
#[derive(Debug, Clone, Default)]
pub struct NetworkOptions {
    /// URL by which clients reach the server, if it differs from the address that the server listens at.
    pub public_url: Option<PublicUrl>,
    /// Additional host names that clients may use.
    pub hosts: Vec<AllowedHost>,
    /// Other origins whose web pages may use the server.
    pub origins: Vec<AllowedOrigin>,
    /// Addresses of trusted proxies in front of the server.
    pub proxies: Vec<AddressRange>,
    /// `true` if tokens may cross the network unencrypted.
    pub plain_http: bool,
    /// TLS, if the server itself terminates it.
    pub tls: Option<Arc<Tls>>,
}

impl NetworkOptions {
    /// Returns the security problems of a server that listens at this address, each with a remedy.
    /// `are_callers_asked`: `true` if callers must show their identity.
    pub fn problems(&self, address: SocketAddr, are_callers_asked: bool) -> Vec<String> {
        let elsewhere = self.public_url.as_ref().filter(|url| !url.is_loopback());
        let is_loopback = address.ip().is_loopback();
        let mut problems = Vec::new();
        if !are_callers_asked && (!is_loopback || elsewhere.is_some()) {
            problems.push(format!(
                "everybody who reaches {} could use this server: make tokens with `tandem serve token add NAME`, \
                 or give a file with --a2a-token-file",
                self.url(address)
            ));
        }
        if let Some(url) = elsewhere
            && !url.is_https()
            && !self.plain_http
        {
            problems.push(format!(
                "everybody between {} and its clients could read the tokens: give an https URL, or \
                 --allow-plain-http for a network that you trust",
                url.url
            ));
        }
        if !is_loopback && self.tls.is_none() && !self.plain_http && self.proxies.is_empty() {
            problems.push(format!(
                "everybody between {address} and its clients could read the tokens: give --tls-cert and \
                 --tls-key; or listen on 127.0.0.1 behind a proxy that has TLS, name a proxy on another \
                 machine by --trust-proxy, or give --allow-plain-http for a network that you trust"
            ));
        }
        if address.ip().is_unspecified() && self.public_url.is_none() {
            problems.push(format!(
                "{address} is not an address that clients can use: give the URL by which they reach this server, \
                 with --public-url"
            ));
        }
        problems
    }

    /// Returns the URL by which clients reach a server that listens at this address.
    pub fn url(&self, address: SocketAddr) -> String {
        match &self.public_url {
            Some(public) => public.url.clone(),
            None => self.own_url(address),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the URL of the listening address itself.
    pub fn own_url(&self, address: SocketAddr) -> String {
        format!("{}://{address}/", self.scheme())
    }
}

/// URL by which clients reach the server. It ends with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    url: String,
    /// Scheme, host and port, as browsers send them in the `Origin` header.
    origin: String,
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a URL such as https://tandem.example/");
        let mut url = Url::parse(text).map_err(|_| wrong())?;
        let is_plain = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !is_plain {
            return Err(wrong());
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(Self { origin: url.origin().ascii_serialization(), url: url.into() })
    }
}

impl PublicUrl {
    fn is_https(&self) -> bool {
        self.origin.starts_with("https:")
    }

    /// Returns `true` if the URL's host is this machine. Then only local clients can use the URL.
    fn is_loopback(&self) -> bool {
        let host = authority(&self.origin);
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        LOOPBACK_HOSTS.contains(&name) || LOOPBACK_HOSTS.contains(&host)
    }

    /// Returns the host name or the IP address of the URL.
    pub fn host(&self) -> String {
        let host = Url::parse(&self.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let host = host.unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']').to_owned()
    }
}

/// A host name that clients may use for the server: `name`, or `name:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost(String);

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Url::parse(&format!("http://{text}/")).ok();
        let host = url.map(|url| url.origin().ascii_serialization());
        let is_same = |host: &String| authority(host) == text.to_ascii_lowercase();
        host.filter(is_same).map(|host| Self(authority(&host).to_owned())).ok_or_else(|| {
            format!(
                "`{text}` is not the name of a host such as tandem.example or tandem.example:8443"
            )
        })
    }
}

/// An origin whose web pages may use the server: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(HeaderValue);

impl FromStr for AllowedOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not the origin of web pages, such as https://pages.example");
        let origin = Url::parse(text).map_err(|_| wrong())?.origin();
        let origin = origin.ascii_serialization();
        // Browsers send the origin in this exact form, and it is compared byte by byte.
        let is_same = origin == text.to_ascii_lowercase();
        let value = HeaderValue::from_str(&origin).ok().filter(|_| is_same);
        value.map(Self).ok_or_else(wrong)
    }
}

/// The network around a running server.
pub struct ServerNetwork {
    /// URL by which clients reach the server.
    pub url: String,
    /// Host names and origins that clients may use.
    pub names: ServerNames,
    /// Port that the server listens at.
    pub port: u16,
    proxies: Vec<AddressRange>,
    /// `true` if only trusted proxies may connect from the network.
    only_proxies: bool,
    /// Scheme of the server's own URL: `http` or `https`.
    pub scheme: &'static str,
    /// TLS of the server, if it has a certificate.
    pub tls: Option<Arc<Tls>>,
}

/// Headers that pages of other origins may send and read, in addition to those that any page may.
const SENT_HEADERS: [&str; 6] = [
    "authorization",
    "content-type",
    "a2a-version",
    "a2a-extensions",
    "x-a2a-extensions",
    "last-event-id",
];
const READ_HEADERS: [&str; 5] =
    ["a2a-extensions", "x-a2a-extensions", "link", "retry-after", "x-next-page-token"];

impl ServerNetwork {
    /// Describes the network of a server that listens at this address.
    pub fn new(options: NetworkOptions, address: SocketAddr) -> Self {
        Self {
            url: options.url(address),
            names: ServerNames::new(&options, address),
            port: address.port(),
            only_proxies: !address.ip().is_loopback()
                && !options.plain_http
                && options.tls.is_none(),
            scheme: options.scheme(),
            proxies: options.proxies,
            tls: options.tls,
        }
    }

    /// Returns `true` if the operator has configured the URL by which clients reach the server.
    pub fn is_public(&self) -> bool {
        self.names.public.is_some()
    }

    /// Returns the path of the URL by which clients reach the server: `/`, unless a proxy strips a longer
    /// path.
    pub fn path(&self) -> &str {
        let host = authority(&self.url);
        host.find('/').map_or("/", |at| &host[at..])
    }

    /// Checks at intervals for a new certificate. Never returns.
    pub async fn keep_certificate_fresh(&self) {
        match &self.tls {
            Some(tls) => tls.keep_certificate_fresh().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the CORS layer that lets pages of the allowed origins use the server; `None` if there are
    /// none.
    pub fn cors(&self) -> Option<CorsLayer> {
        let origins = self.names.origins.iter().map(|origin| origin.0.clone());
        let layer = CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([Method::GET, Method::POST, Method::DELETE])
            .allow_headers(SENT_HEADERS.map(HeaderName::from_static))
            .expose_headers(READ_HEADERS.map(HeaderName::from_static));
        (!self.names.origins.is_empty()).then_some(layer)
    }

    /// Returns `true` if the server accepts connections from an address.
    pub fn serves(&self, peer: IpAddr) -> bool {
        !self.only_proxies
            || peer.to_canonical().is_loopback()
            || forwarded::is_proxy(peer, &self.proxies)
    }

    /// Returns the client of a request, given the address `peer` that the connection comes from.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ForwardedClient {
        ForwardedClient::from_request(peer, headers, &self.proxies)
    }
}

/// Host names and origins of a server. Requests for other hosts are refused, since an attacker's page may
/// have caused them (DNS rebinding).
pub struct ServerNames {
    /// Hosts with ports at which the server can be reached directly.
    own: Vec<String>,
    public: Option<PublicUrl>,
    hosts: Vec<AllowedHost>,
    origins: Vec<AllowedOrigin>,
}

impl ServerNames {
    /// Returns the names of a server that listens at this address.
    pub(super) fn new(options: &NetworkOptions, address: SocketAddr) -> Self {
        let with_port = |name: &str| {
            without_default_port(&format!("{name}:{}", address.port()), options.scheme())
        };
        let mut own = LOOPBACK_HOSTS.map(with_port).to_vec();
        let literal = with_port(&literal(address.ip()));
        if !address.ip().is_unspecified() && !own.contains(&literal) {
            own.push(literal);
        }
        Self {
            own,
            public: options.public_url.clone(),
            hosts: options.hosts.clone(),
            origins: options.origins.clone(),
        }
    }

    /// Returns `true` if a `Host` header names the server. `scheme`: scheme of the URL that the client uses.
    pub fn has_host(&self, host: &str, scheme: &str) -> bool {
        let host = without_default_port(host, scheme);
        self.has_own(&host)
            || self.public.as_ref().is_some_and(|public| authority(&public.origin) == host)
    }

    /// Returns `true` if pages of an origin may use the server: pages of the server's own origins, and of the
    /// allowed origins.
    pub fn has_origin(&self, origin: &str, scheme: &str) -> bool {
        let is_allowed = self.origins.iter().any(|allowed| allowed.0 == origin);
        if is_allowed || self.public.as_ref().is_some_and(|public| public.origin == origin) {
            return true;
        }
        let host = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
        host.is_some_and(|host| self.has_own(&host.to_ascii_lowercase()))
    }

    fn has_own(&self, host: &str) -> bool {
        self.own.iter().any(|own| own == host) || self.hosts.iter().any(|other| other.0 == host)
    }

    /// Returns the host names as a list for people.
    pub fn list(&self) -> String {
        let public = self.public.iter().map(|public| authority(&public.origin));
        let names = self.own.iter().map(String::as_str).chain(public);
        names.chain(self.hosts.iter().map(|host| host.0.as_str())).collect::<Vec<_>>().join(", ")
    }
}

/// Returns host and port in the form in which they are compared: in lower case, without the scheme's default
/// port.
fn without_default_port(host: &str, scheme: &str) -> String {
    let port = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase()
}

/// Returns the host and the port of an origin.
fn authority(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, host)| host)
}

/// Returns an address in the form that it has in a URL.
fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(url: &str) -> NetworkOptions {
        NetworkOptions { public_url: Some(url.parse().unwrap()), ..NetworkOptions::default() }
    }

    #[track_caller]
    fn check(options: &NetworkOptions, address: &str, are_callers_asked: bool, advice: &[&str]) {
        let problems = options.problems(address.parse().unwrap(), are_callers_asked);
        let is_expected = problems.len() == advice.len()
            && problems.iter().zip(advice).all(|(problem, advice)| problem.contains(advice));
        assert!(is_expected, "{options:?} {address}: {problems:?}");
    }

    #[test]
    fn what_is_given_away_to_a_network_is_given_away_knowingly() {
        let (none, here, all) = (NetworkOptions::default(), "127.0.0.1:41242", "0.0.0.0:41242");
        let plain = NetworkOptions { plain_http: true, ..NetworkOptions::default() };
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let behind = NetworkOptions { proxies, ..NetworkOptions::default() };
        check(&none, here, false, &[]);
        check(&none, "[::1]:0", false, &[]);
        for options in [&plain, &behind] {
            check(options, "192.0.2.7:41242", false, &["token add"]);
            check(options, "192.0.2.7:41242", true, &[]);
        }
        check(&none, "192.0.2.7:41242", true, &["--tls-cert"]);
        check(&none, "192.0.2.7:41242", false, &["token add", "--tls-cert"]);
        check(&none, all, false, &["token add", "--tls-cert", "--public-url"]);
        check(&plain, all, true, &["--public-url"]);
        check(&behind, "[::]:41242", true, &["--public-url"]);
        let url = "https://tandem.example/";
        check(&NetworkOptions { plain_http: true, ..public(url) }, all, true, &[]);
        check(&public(url), here, true, &[]);
        check(&public(url), here, false, &["token add"]);
        check(&public("http://localhost:8080/"), here, false, &[]);
        check(&public("http://tandem.example/"), here, true, &["an https URL"]);
        let trusted = NetworkOptions { plain_http: true, ..public("http://tandem.example/") };
        check(&trusted, here, true, &[]);
    }

    #[test]
    fn past_the_proxy_nobody_comes_from_a_network_without_tls() {
        let proxies: Vec<AddressRange> = vec!["10.0.0.1".parse().unwrap()];
        let options = NetworkOptions { proxies, ..NetworkOptions::default() };
        let serves = |options: &NetworkOptions, address: &str, peer: &str| {
            let network = ServerNetwork::new(options.clone(), address.parse().unwrap());
            network.serves(peer.parse().unwrap())
        };
        for peer in ["10.0.0.1", "127.0.0.1", "::ffff:127.0.0.1", "::1"] {
            assert!(serves(&options, "0.0.0.0:1", peer), "{peer}");
        }
        for peer in ["10.0.0.2", "192.0.2.7", "2001:db8::1"] {
            assert!(!serves(&options, "0.0.0.0:1", peer), "{peer}");
            let trusted = NetworkOptions { plain_http: true, ..options.clone() };
            assert!(serves(&trusted, "0.0.0.0:1", peer), "{peer}");
        }
    }

    #[test]
    fn a_public_url_is_a_whole_one_and_nothing_more() {
        let read = |text: &str| text.parse().map(|url: PublicUrl| (url.url, url.origin));
        let whole = |url: &str, origin: &str| Ok((url.to_owned(), origin.to_owned()));
        assert_eq!(read("https://T.example"), whole("https://t.example/", "https://t.example"));
        let path = read("https://t.example:443/agents/one");
        assert_eq!(path, whole("https://t.example/agents/one/", "https://t.example"));
        let port = read("http://[::1]:8080/");
        assert_eq!(port, whole("http://[::1]:8080/", "http://[::1]:8080"));
        for wrong in ["", "t.example", "ftp://t.example/", "https://u:p@t.example/", "https://t/?a"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_names_are_those_of_the_address_of_the_url_and_what_is_allowed() {
        let hosts = vec!["other.example:8443".parse().unwrap()];
        let options = NetworkOptions { hosts, ..public("https://t.example/one/") };
        let names = ServerNames::new(&options, "192.0.2.7:41242".parse().unwrap());
        for (host, scheme, expected) in [
            ("127.0.0.1:41242", "http", true),
            ("192.0.2.7:41242", "http", true),
            ("192.0.2.7", "http", false),
            ("T.example", "https", true),
            ("t.example:443", "https", true),
            ("t.example:41242", "http", false),
            ("other.example:8443", "https", true),
            ("other.example", "https", false),
            ("x.t.example", "https", false),
            ("", "http", false),
        ] {
            assert_eq!(names.has_host(host, scheme), expected, "{host}");
        }
        for (origin, scheme, expected) in [
            ("https://t.example", "http", true),
            ("http://t.example", "http", false),
            ("http://localhost:41242", "http", true),
            ("https://other.example:8443", "https", true),
            ("https://other.example:8443", "http", false),
            ("null", "http", false),
            ("", "http", false),
        ] {
            assert_eq!(names.has_origin(origin, scheme), expected, "{origin}");
        }
        for wrong in ["", "a/b", "a b", "http://a", "u@a", "a:b", "a:80"] {
            assert!(wrong.parse::<AllowedHost>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_origin_is_one_as_browsers_send_it() {
        for right in ["https://pages.example", "http://localhost:3000", "https://Pages.example"] {
            assert!(right.parse::<AllowedOrigin>().is_ok(), "{right}");
        }
        for wrong in ["", "null", "*", "pages.example", "https://pages.example/", "file:///a"] {
            assert!(wrong.parse::<AllowedOrigin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_port_that_the_scheme_implies_may_be_left_out() {
        let options = NetworkOptions::default();
        let names = ServerNames::new(&options, "192.0.2.7:80".parse().unwrap());
        assert!(names.has_host("192.0.2.7", "http") && names.has_host("192.0.2.7:80", "http"));
        assert!(names.has_host("localhost", "http") && !names.has_host("localhost:8080", "http"));
    }
}
