//! URLs that a webhook may have: none that this machine can reach and the client cannot.

use std::fmt;

use reqwest::Url;

use tandem_net::{self as net, Reach};

/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 4096;

/// URL of a webhook that has passed [`check`]. It is displayed without its path and query, which may contain
/// secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(Url);

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.0.port_or_known_default().unwrap_or_default();
        write!(f, "{}://{}:{port}", self.0.scheme(), self.host())
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks the URL of a webhook as far as possible without resolving its name. Returns the checked URL, or a
/// sentence that says why it is refused.
pub fn check(url: &str, allow_loopback: bool) -> Result<WebhookUrl, String> {
    if url.len() > MAX_URL_BYTES {
        return Err(format!("The webhook's address is longer than {MAX_URL_BYTES} bytes."));
    }
    let mut url =
        Url::parse(url).map_err(|error| format!("The webhook's address is not a URL: {error}."))?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme();
        return Err(format!(
            "The webhook's address must begin with http: or https:, not with {scheme}:."
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "The webhook's address must not have a user name or a password: credentials are sent in headers.";
        return Err(why.to_owned());
    }
    url.set_fragment(None);
    let target = WebhookUrl(url);
    target.check_host(reach(allow_loopback))?;
    Ok(target)
}

impl WebhookUrl {
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Checks a host that is an IP address, or a name that is known without resolving it.
    pub(super) fn check_host(&self, reach: Reach) -> Result<(), String> {
        net::judge_host(&self.0, reach).map_err(|why| {
            format!("A webhook may not be at {}, because this host is {why}.", self.host())
        })
    }
}

/// Returns the reach of webhooks: the range of addresses that they may have.
pub(super) fn reach(allow_loopback: bool) -> Reach {
    if allow_loopback { Reach::Loopback } else { Reach::Public }
}
