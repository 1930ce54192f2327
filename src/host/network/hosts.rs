//! Names of hosts that commands want, and patterns of hosts that are allowed or denied.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::LazyLock;

use reqwest::Url;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tandem_net::{Reach, judge_host};

/// Maximum length of a name in the domain name system, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// Pattern that means the hosts of well-known package registries.
const REGISTRIES_NAME: &str = "registries";

/// Hosts of well-known package registries, by registry.
static REGISTRY_HOSTS: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    // A unit test parses the table, so this cannot fail here.
    toml::from_str(include_str!("registries.toml")).unwrap_or_default()
});

/// A host and a port that a command wants to connect to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Name in lower case and ASCII, without a dot at its end; or an address, in brackets if it is of version 6.
    pub host: String,
    /// Port number.
    pub port: u16,
}

impl Destination {
    /// Parses a host as it is written in a URL. `None` if the host or the port is not valid.
    pub fn new(host: &str, port: u16) -> Option<Self> {
        (port > 0).then_some(())?;
        Some(Self { host: normalized(host)?, port })
    }

    /// Returns the address, if the host is an address and not a name.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }

    /// Checks the host as far as possible without resolving its name. The error says which kind of forbidden host it
    /// is.
    pub(super) fn judge(&self, reach: Reach) -> Result<(), String> {
        let url = Url::parse(&format!("http://{}/", self.host)).map_err(|err| err.to_string())?;
        judge_host(&url, reach)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Normalizes a host, so that all of its spellings compare as equal. HTTP clients parse hosts in the same way.
fn normalized(host: &str) -> Option<String> {
    // A character that ends the host of a URL would make the parser ignore the rest.
    if host.is_empty() || host.contains(|c: char| "/?#@\\%".contains(c) || c.is_whitespace()) {
        return None;
    }
    let outside_brackets = host.rsplit(']').next().unwrap_or(host);
    if outside_brackets.contains(':') {
        return None;
    }
    let url = Url::parse(&format!("http://{host}/")).ok()?;
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty() && host.len() <= MAX_NAME_BYTES).then(|| host.to_owned())
}

/// Hosts that the settings allow and deny, for commands in the sandbox and for `web_fetch`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLists {
    /// Hosts that are connected to without a question.
    pub allowed: Vec<HostPattern>,
    /// Hosts that are never connected to.
    pub denied: Vec<HostPattern>,
    /// `true` if the list of denied hosts could not be read. In that case every host is denied.
    pub denied_unknown: bool,
}

impl HostLists {
    /// Returns whether a host is allowed.
    pub fn allow(&self, destination: &Destination) -> bool {
        self.allowed.iter().any(|pattern| pattern.covers(&destination.host))
    }

    /// Checks that a host is not denied. The error says why it is.
    pub fn check_not_denied(&self, destination: &Destination) -> Result<(), String> {
        if self.denied_unknown {
            let why = "commands can connect to no host until `sandbox.network.deniedDomains` is corrected";
            return Err(why.to_owned());
        }
        if self.denied.iter().any(|pattern| pattern.covers(&destination.host)) {
            return Err("`sandbox.network.deniedDomains` in the settings denies it".to_owned());
        }
        Ok(())
    }
}

/// A pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// One host.
    Host(String),
    /// All hosts below a domain, but not the domain itself.
    Below(String),
    /// Hosts of well-known package registries.
    Registries,
}

impl HostPattern {
    /// Returns whether the pattern matches a host, written as in a [`Destination`].
    pub(super) fn covers(&self, host: &str) -> bool {
        match self {
            Self::Host(name) => name == host,
            Self::Below(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|labels| labels.ends_with('.'))
            }
            Self::Registries => REGISTRY_HOSTS.values().flatten().any(|name| name == host),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Registries => {
                let names: Vec<_> = REGISTRY_HOSTS.keys().map(String::as_str).collect();
                write!(f, "{REGISTRIES_NAME} ({})", names.join(", "))
            }
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == REGISTRIES_NAME {
            return Ok(Self::Registries);
        }
        let (below, name) = text.strip_prefix("*.").map_or((false, text), |name| (true, name));
        match normalized(name).filter(|name| !name.contains('*')) {
            Some(name) if below => Ok(Self::Below(name)),
            Some(name) => Ok(Self::Host(name)),
            None => Err(format!(
                "must be a host such as `example.org`, all hosts below one (`*.example.org`), or \
                 `{REGISTRIES_NAME}`"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Registries => to.serialize_str(REGISTRIES_NAME),
            pattern => to.collect_str(pattern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_spelling() {
        let check = |host: &str, wanted: Option<&str>| {
            let read = Destination::new(host, 443).map(|it| it.host);
            assert_eq!(read.as_deref(), wanted, "{host:?}");
        };
        check("Example.ORG.", Some("example.org"));
        check("b\u{fc}cher.example", Some("xn--bcher-kva.example"));
        check("0x7f.1", Some("127.0.0.1"));
        check("2130706433", Some("127.0.0.1"));
        check("[0:0::1]", Some("[::1]"));
        for bad in [
            "",
            ".",
            "a b",
            "a/b",
            "a@b",
            "a#b",
            "a?b",
            "a\\b",
            "a%2eb",
            "::1",
            "[::1",
            "a:80",
            "1.2.3.4.5",
        ] {
            check(bad, None);
        }
        check(&"a.".repeat(200), None);
        assert_eq!(Destination::new("a", 0), None);
    }

    #[test]
    fn a_pattern_is_a_host_those_below_one_or_the_registries() {
        let check =
            |pattern: &str, host: &str| pattern.parse::<HostPattern>().expect(pattern).covers(host);
        assert!(check("Example.org", "example.org"));
        assert!(!check("example.org", "www.example.org"));
        assert!(check("*.example.org", "a.b.example.org"));
        assert!(!check("*.example.org", "example.org"));
        assert!(!check("*.example.org", "evilexample.org"));
        assert!(check("registries", "registry.npmjs.org"));
        assert!(check("registries", "files.pythonhosted.org"));
        assert!(!check("registries", "example.org"));
        for bad in ["*", "*.*", "a.*", "https://a", "a:443", "", "*.", "a b"] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_table_of_registries_is_read_and_in_order() {
        assert!(REGISTRY_HOSTS.len() > 3);
        for host in REGISTRY_HOSTS.values().flatten() {
            assert_eq!(normalized(host).as_ref(), Some(host));
        }
    }
}
