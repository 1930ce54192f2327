//! An agent's card: its name, its skills, and the address and form of requests to it.

use reqwest::Url;
use serde::Deserialize as _;
use serde_json::Value;

use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_net::is_this_machine;
use tandem_wire::a2a::{AgentCard, ProtocolVersion};
use tandem_wire::development_tool::EXTENSION_URI;

/// Maximum length of a name, and of a description, in characters.
const MAX_NAME_CHARS: usize = 100;
const MAX_DESCRIPTION_CHARS: usize = 400;

/// Maximum number of skills that are read.
const MAX_SKILLS: usize = 20;

/// Paths of the card below an agent's address: the path since 0.3, and the earlier path.
pub(super) const CARD_PATHS: [&str; 2] = [".well-known/agent-card.json", ".well-known/agent.json"];

/// Form of the requests to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// All calls are posted to one address.
    JsonRpc,
    /// Each call has an address of its own below the endpoint (1.0, section 11).
    HttpJson,
}

impl Binding {
    /// Reads the name of a binding that this client supports in some version.
    fn read(name: &str) -> Option<Self> {
        [("JSONRPC", Self::JsonRpc), ("HTTP+JSON", Self::HttpJson)]
            .into_iter()
            .find_map(|(known, binding)| name.eq_ignore_ascii_case(known).then_some(binding))
    }
}

/// An interface of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interface<'a> {
    url: &'a str,
    binding: Binding,
    version: ProtocolVersion,
}

impl<'a> Interface<'a> {
    /// Reads an interface that a card names. The error names the binding or version that this client does not support.
    fn read(url: &'a str, binding: &str, version: &str) -> Result<Self, String> {
        let known = Binding::read(binding).ok_or_else(|| one_line(binding, MAX_NAME_CHARS))?;
        let read = match version {
            version if version.starts_with("1.") || version == "1" => ProtocolVersion::V1,
            version if version.starts_with("0.") => ProtocolVersion::V03,
            version => return Err(format!("version {}", one_line(version, MAX_NAME_CHARS))),
        };
        // The addresses of HTTP+JSON in 0.3 are others, which this client does not support.
        if (known, read) == (Binding::HttpJson, ProtocolVersion::V03) {
            return Err(format!(
                "{} in version {}",
                one_line(binding, MAX_NAME_CHARS),
                one_line(version, MAX_NAME_CHARS)
            ));
        }
        Ok(Self { url, binding: known, version: read })
    }
}

/// The parts of an agent's card that this client uses, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckedCard {
    /// The agent's own name.
    pub(super) name: String,
    /// The agent's own description, in one line.
    pub(super) description: String,
    /// Skills: name and description, one line each.
    pub(super) skills: Vec<(String, String)>,
    /// Address to which calls are posted, or below which each call has an address.
    pub(super) endpoint: Url,
    pub(super) binding: Binding,
    pub(super) version: ProtocolVersion,
    /// `true` if the agent sends events while it works.
    pub(super) streams: bool,
    /// `true` if the agent supports the `development-tool` extension.
    pub(super) develops: bool,
}

impl CheckedCard {
    /// Reads a card that came from the address `from`. The error says what is wrong with the card.
    pub(super) fn read(card: Value, from: &Url) -> Result<Self, String> {
        let card = AgentCard::deserialize(card).map_err(|_| "its card is not a JSON object")?;
        let Interface { url, binding, version } = interface(&card)?;
        let endpoint = within(url, from)?;
        let skills = card.skills.iter();
        let skills = skills.map(|it| {
            (line(&it.name, MAX_NAME_CHARS), line(&it.description, MAX_DESCRIPTION_CHARS))
        });
        Ok(Self {
            name: line(&card.name, MAX_NAME_CHARS),
            description: line(&card.description, MAX_DESCRIPTION_CHARS),
            skills: skills.filter(|(name, _)| !name.is_empty()).take(MAX_SKILLS).collect(),
            endpoint,
            binding,
            version,
            streams: card.capabilities.streaming,
            develops: card.capabilities.extensions.iter().any(|it| it.uri == EXTENSION_URI),
        })
    }
}

/// Returns the best interface that this client supports: one of the newest version, and of several the first.
fn interface(card: &AgentCard) -> Result<Interface<'_>, String> {
    let mut others = Vec::new();
    let mut best: Option<Interface<'_>> = None;
    for it in &card.interfaces {
        match Interface::read(&it.url, &it.protocol_binding, &it.protocol_version) {
            Ok(found) => {
                let is_newer = |best: Interface<'_>| {
                    best.version != found.version && found.version == ProtocolVersion::V1
                };
                if best.is_none_or(is_newer) {
                    best = Some(found);
                }
            }
            Err(other) => others.push(other),
        }
    }
    best.ok_or_else(|| match others.len() {
        0 => "its card names no address".to_owned(),
        _ => format!(
            "its card names no address for JSON-RPC in version 0.3 or 1.0 of A2A, or for HTTP+JSON in version 1.0, but {}",
            others.join(", ")
        ),
    })
}

/// Returns an address of the card, if it is on the server that the card came from: messages, and the secrets in their
/// headers, are meant for that server.
///
/// An address of the server's own machine is replaced by one on that server: a server behind a tunnel or a proxy may
/// know only its local address.
fn within(url: &str, from: &Url) -> Result<Url, String> {
    let named =
        from.join(url).map_err(|err| format!("the address in its card is not a URL: {err}"))?;
    if named.origin() == from.origin() {
        return Ok(named);
    }
    let host = named.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    if is_this_machine(host) || address.is_ok_and(|it| it.is_loopback() || it.is_unspecified()) {
        let mut here = from.clone();
        here.set_path(named.path());
        here.set_query(named.query());
        return Ok(here);
    }
    let other = one_line(&named.origin().ascii_serialization(), MAX_DESCRIPTION_CHARS);
    Err(format!(
        "its card names an address of another server, {other}: name the card of that server, if you trust it"
    ))
}

fn line(text: &str, most: usize) -> String {
    one_line(plain(text.as_bytes()).trim(), most)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ProtocolVersion::{V1, V03};
    use super::*;

    #[track_caller]
    fn check(card: Value, expected: Result<(&str, ProtocolVersion), &str>) {
        check_binding(card, expected.map(|(url, version)| (url, Binding::JsonRpc, version)));
    }

    #[track_caller]
    fn check_binding(card: Value, expected: Result<(&str, Binding, ProtocolVersion), &str>) {
        let from = Url::parse("https://h.test:8443/a/.well-known/agent-card.json?x=1").unwrap();
        let read = CheckedCard::read(card, &from);
        match (read, expected) {
            (Ok(card), Ok(expected)) => {
                assert_eq!((card.endpoint.as_str(), card.binding, card.version), expected);
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (read, _) => panic!("{read:?}"),
        }
    }

    #[test]
    fn the_newest_version_counts_that_is_spoken_here() {
        let interface = |url: &str, binding: &str, version: &str| {
            json!({
                "url": url, "protocolBinding": binding, "protocolVersion": version,
            })
        };
        let [old, new] = ["https://h.test:8443/old", "https://h.test:8443/new"];
        check(
            json!({ "supportedInterfaces": [
                interface("https://h.test:8443/g", "GRPC", "1.0"),
                interface(old, "JSONRPC", "0.3"), interface(new, "JSONRPC", "1.0"),
                interface(old, "JSONRPC", "1.0"), interface(old, "JSONRPC", "2.0"),
            ] }),
            Ok((new, V1)),
        );
        check(json!({ "url": old, "protocolVersion": "0.3.0" }), Ok((old, V03)));
        check(json!({ "url": old, "preferredTransport": "jsonrpc" }), Ok((old, V03)));
        check(
            json!({ "url": new, "preferredTransport": "GRPC", "protocolVersion": "0.3.0",
                "additionalInterfaces": [{ "url": old, "transport": "JSONRPC" }, { "url": old }] }),
            Ok((old, V03)),
        );
    }

    #[test]
    fn http_with_json_is_spoken_where_it_is_preferred_or_the_only_way() {
        let interfaces = |named: &[(&str, &str)]| {
            let interface = |(binding, version): &(&str, &str)| {
                let url = format!("https://h.test:8443/{binding}");
                json!({ "url": url, "protocolBinding": binding, "protocolVersion": version })
            };
            json!({ "supportedInterfaces": named.iter().map(interface).collect::<Vec<_>>() })
        };
        let rest = Ok(("https://h.test:8443/HTTP+JSON", Binding::HttpJson, V1));
        let rpc = |version| Ok(("https://h.test:8443/JSONRPC", Binding::JsonRpc, version));
        check_binding(interfaces(&[("GRPC", "1.0"), ("HTTP+JSON", "1.0")]), rest);
        check_binding(interfaces(&[("HTTP+JSON", "1.0"), ("JSONRPC", "1.0")]), rest);
        check_binding(interfaces(&[("JSONRPC", "0.3"), ("HTTP+JSON", "1.0")]), rest);
        check_binding(interfaces(&[("JSONRPC", "1.0"), ("HTTP+JSON", "1.0")]), rpc(V1));
        check_binding(interfaces(&[("HTTP+JSON", "0.3"), ("JSONRPC", "0.3")]), rpc(V03));
        check_binding(
            json!({ "url": "https://h.test:8443/", "preferredTransport": "HTTP+JSON" }),
            Err("but HTTP+JSON in version 0.3"),
        );
    }

    #[test]
    fn a_card_without_a_way_is_refused() {
        check(json!([]), Err("not a JSON object"));
        check(json!({}), Err("names no address"));
        check(json!({ "url": 5 }), Err("names no address"));
        check(
            json!({ "url": "https://h.test:8443/", "preferredTransport": "GRPC" }),
            Err("but GRPC"),
        );
        check(
            json!({ "url": "https://h.test:8443/", "protocolVersion": "7" }),
            Err("but version 7"),
        );
    }

    #[test]
    fn what_is_sent_stays_on_the_server_of_the_card() {
        let at = |url: &str| json!({ "url": url });
        check(at("/rpc"), Ok(("https://h.test:8443/rpc", V03)));
        check(at("http://127.0.0.1:41242/rpc?a"), Ok(("https://h.test:8443/rpc?a", V03)));
        check(at("http://localhost/"), Ok(("https://h.test:8443/", V03)));
        check(at("http://[::1]:5/"), Ok(("https://h.test:8443/", V03)));
        check(at("http://h.test:8443/"), Err("another server, http://h.test:8443"));
        check(at("https://evil.test/"), Err("another server, https://evil.test"));
        check(at("http://169.254.169.254/"), Err("another server"));
        check(at("file:///etc/passwd"), Err("another server"));
    }

    #[test]
    fn texts_of_a_card_are_short_lines() {
        let from = Url::parse("http://h.test/").unwrap();
        let card = json!({ "url": "/", "name": "a\u{1b}[31m\nb", "description": "x".repeat(1000),
            "skills": [{ "name": "s", "description": "d\ne" }, { "name": 5 }, "odd"] });
        let card = CheckedCard::read(card, &from).unwrap();
        assert_eq!(card.name, "a b");
        assert_eq!(card.description.chars().count(), MAX_DESCRIPTION_CHARS + 1);
        assert_eq!(card.skills, [("s".to_owned(), "d e".to_owned())]);
        assert!(!card.streams && !card.develops);
    }
}
