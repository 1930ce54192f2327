//! Address of an agent that a terminal can attach to.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

/// An agent that a terminal can attach to.
#[derive(Debug, Clone)]
pub struct AttachableAgent {
    /// Address of the agent.
    pub address: AgentAddress,
    /// Token for the agent, if it demands one.
    pub token: Option<String>,
    /// Maximum length of a message that is read, in bytes.
    pub line_bytes: usize,
}

impl fmt::Display for AttachableAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Address of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAddress {
    /// A port of this machine, without TLS.
    Port(u16),
    /// An `https` URL that ends with a slash.
    Url(Url),
}

impl FromStr for AgentAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "must be a port, such as 41242, or a URL, such as http://127.0.0.1:41242/ or \
             https://tandem.example/"
                .to_owned()
        };
        if let Ok(port) = text.parse() {
            return if port > 0 { Ok(Self::Port(port)) } else { Err(wrong()) };
        }
        let has_scheme = text.contains("://");
        let url = if has_scheme { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
        let mut url = url.map_err(|_| wrong())?;
        match url.scheme() {
            "http" if is_this_machine(&url) => match url.port_or_known_default() {
                Some(port) if port > 0 && (has_scheme || url.port().is_some()) => {
                    Ok(Self::Port(port))
                }
                _ => Err(wrong()),
            },
            "http" if !has_scheme => Err(wrong()),
            "http" => {
                Err("only an agent on this machine can be attached to without TLS: give its port, \
                           or an https URL"
                    .to_owned())
            }
            "https" if url.host().is_some() && url.username().is_empty() => {
                url.set_query(None);
                url.set_fragment(None);
                if !url.path().ends_with('/') {
                    url.set_path(&format!("{}/", url.path()));
                }
                Ok(Self::Url(url))
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "127.0.0.1:{port}"),
            Self::Url(url) => write!(f, "{url}"),
        }
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let read = text.parse().ok().map(|address: AgentAddress| address.to_string());
        assert_eq!(read.as_deref(), expected, "{text}");
    }

    #[test]
    fn an_agent_is_named_by_its_port_by_what_it_prints_or_by_an_https_url() {
        check("41242", Some("127.0.0.1:41242"));
        check("localhost:41242", Some("127.0.0.1:41242"));
        check("127.0.0.1:41242", Some("127.0.0.1:41242"));
        check("http://127.0.0.1:41242/", Some("127.0.0.1:41242"));
        check("http://[::1]:41242", Some("127.0.0.1:41242"));
        check("https://tandem.example", Some("https://tandem.example/"));
        check("https://t.example:8443/agents/one", Some("https://t.example:8443/agents/one/"));
    }

    #[test]
    fn what_is_no_address_or_would_be_read_by_others_is_refused() {
        for wrong in ["", "0", "99999", "x", "localhost", "localhost:0", "http://192.0.2.7:41242/"]
        {
            check(wrong, None);
        }
        for wrong in
            ["http://tandem.example/", "ftp://t.example/", "https://u@t.example/", "https://"]
        {
            check(wrong, None);
        }
    }
}
