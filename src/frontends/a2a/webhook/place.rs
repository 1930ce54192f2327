//! Places where a webhook may be: not where this machine gets and the client does not.

use std::fmt;

use reqwest::Url;

use tandem_net::{self as net, Reach};

/// In bytes; longer addresses are refused.
const LONGEST: usize = 4096;

/// The address of a webhook that has passed [`check`]. Shown without its path and query, in which
/// there may be secrets.
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

/// Judges a webhook as far as possible before its name is looked up: returns the target if the
/// webhook may be used, or a sentence that says why not.
pub fn check(url: &str, allow_loopback: bool) -> Result<WebhookUrl, String> {
    if url.len() > LONGEST {
        return Err(format!("The webhook's address is longer than {LONGEST} bytes."));
    }
    let mut url =
        Url::parse(url).map_err(|error| format!("The webhook's address is none: {error}."))?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme();
        return Err(format!("A webhook is called by http or https, not by {scheme}."));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "A webhook's address has no user name and no password in it: credentials are \
                   sent in headers.";
        return Err(why.to_owned());
    }
    url.set_fragment(None);
    let target = WebhookUrl(url);
    target.judge(reach(allow_loopback))?;
    Ok(target)
}

impl WebhookUrl {
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Judges an address that is literal, or known without looking it up.
    pub(super) fn judge(&self, reach: Reach) -> Result<(), String> {
        net::judge_host(&self.0, reach)
            .map_err(|why| format!("A webhook may not be at {}: that is {why}.", self.host()))
    }
}

/// Returns how far webhooks may reach.
pub(super) fn reach(allow_loopback: bool) -> Reach {
    if allow_loopback { Reach::Loopback } else { Reach::Public }
}
