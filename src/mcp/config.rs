//! Configuration of a server: its address or program, its tools, its limits.

use std::time::Duration;

use super::auth::OAuth;
use tandem_host::terminals::Program;
use tandem_net as net;

/// The configuration of a server, from the settings, the editor or a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Name of the server.
    pub name: String,
    /// Address or program of the server.
    pub reach: ServerReach,
    /// Origin of the configuration, for people: a file, or the editor.
    pub from: String,
    /// Description, for people.
    pub description: Option<String>,
    /// `true` if the server's tools run without a question.
    pub trust: bool,
    /// Names of the server's tools that may be used; `None` allows all.
    pub include: Option<Vec<String>>,
    /// Names of the server's tools that may not be used; overrides `include`.
    pub exclude: Vec<String>,
    /// Maximum time for a request without any message from the server; `None` for [`McpLimits::call`].
    pub timeout: Option<Duration>,
    /// Settings for logging in.
    pub oauth: OAuth,
    /// Reason why the server may not be connected to before the user agrees, and what to do about it.
    pub held: Option<String>,
    /// Sandbox of the server's program.
    pub sandbox: ServerSandbox,
    /// Network that requests to the server may reach, if a peer on a port has named the server and not the user. Such
    /// a server could be any service, so its answers are shown to no one unless they are MCP messages.
    pub confined: Option<net::Reach>,
}

/// Address or program of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerReach {
    /// A program, which speaks MCP over its standard input and output.
    Stdio(Program),
    /// A web service: streamable HTTP.
    Http {
        /// Address.
        url: String,
        /// Headers of each request; may hold secrets.
        headers: Vec<(String, String)>,
    },
    /// Neither, because the description of the server is wrong or not permitted; the text is the reason. The server
    /// cannot be connected to.
    Wrong(String),
}

/// Sandbox of a server's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerSandbox {
    /// The program runs without a sandbox.
    Never,
    /// The program runs in a sandbox, or without a sandbox where no mechanism works.
    Preferred,
    /// The settings of the server demand a sandbox: where no mechanism works, the program does not start.
    Required,
}

impl ServerConfig {
    /// Returns a configuration with default values for all other fields.
    pub fn new(name: &str, reach: ServerReach, from: &str) -> Self {
        Self {
            name: name.to_owned(),
            reach,
            from: from.to_owned(),
            description: None,
            trust: false,
            include: None,
            exclude: Vec::new(),
            timeout: None,
            oauth: OAuth::default(),
            held: None,
            sandbox: ServerSandbox::Never,
            confined: None,
        }
    }

    /// Returns `true` if another configuration of the server leads to the same program or address, in the same
    /// sandbox.
    pub(super) fn runs_the_same(&self, other: &Self) -> bool {
        (&self.name, &self.reach, self.sandbox) == (&other.name, &other.reach, other.sandbox)
    }

    /// Returns `true` if a tool may be used.
    pub(super) fn wants(&self, tool: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == tool);
        !named(&self.exclude) && self.include.as_deref().is_none_or(named)
    }

    /// Returns the program or the address, for people. Arguments and queries are left out, because they may hold
    /// secrets.
    pub(super) fn address_for_people(&self) -> String {
        match &self.reach {
            ServerReach::Stdio(program) => program.command.clone(),
            ServerReach::Http { url, .. } => without_secrets(url),
            ServerReach::Wrong(_) => String::new(),
        }
    }

    /// Returns a text about the server, or from it, without the server's secrets.
    pub(super) fn concealed(&self, said: &str) -> String {
        match &self.reach {
            ServerReach::Stdio(program) => hidden(said, &program.env),
            ServerReach::Http { url, headers } => {
                without_parts(hidden(&said.replace(url, &self.address_for_people()), headers), url)
            }
            ServerReach::Wrong(_) => said.to_owned(),
        }
    }
}

/// Returns `true` if headers hold a token already.
pub(super) fn has_token(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// Minimum length of a secret in bytes: shorter values are hardly secrets, and occur in any text.
const MIN_SECRET_BYTES: usize = 8;

fn hidden(said: &str, values: &[(String, String)]) -> String {
    let mut said = said.to_owned();
    for (_, value) in values {
        // In `Bearer abc`, the second word is the secret. So each word of the value counts as a secret.
        for word in value.split_whitespace().filter(|word| word.len() >= MIN_SECRET_BYTES) {
            if said.contains(word) {
                said = said.replace(word, "(hidden)");
            }
        }
    }
    said
}

/// Returns a text without the parts of an address that may be secret: the user's name and password, and the values in
/// the query, both percent-encoded and decoded. Short values are found only after the name of their field.
fn without_parts(mut said: String, url: &str) -> String {
    let Ok(url) = reqwest::Url::parse(url) else { return said };
    let meant =
        |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let fields = url.query().into_iter().flat_map(|query| query.split('&'));
    let mut values = vec![url.username(), url.password().unwrap_or_default()];
    for field in fields {
        let Some((name, value)) = field.split_once('=').filter(|(_, value)| !value.is_empty())
        else {
            // A field without a name may be a secret as a whole.
            values.push(field);
            continue;
        };
        said = said.replace(field, &format!("{name}=(hidden)"));
        values.push(value);
    }
    for value in values {
        for value in [value.to_owned(), meant(value), meant(&value.replace('+', " "))] {
            if value.len() >= MIN_SECRET_BYTES {
                said = said.replace(&value, "(hidden)");
            }
        }
    }
    said
}

/// Returns an address without its user, password, query and fragment.
fn without_secrets(url: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(url) else { return String::new() };
    url.set_query(None);
    url.set_fragment(None);
    // This fails only for addresses without a host, which cannot have a user.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.to_string()
}

/// Limits of MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpLimits {
    /// Maximum number of bytes of one message of a server.
    pub message_bytes: usize,
    /// Maximum time for a server to become ready.
    pub start: Duration,
    /// Maximum time for which a prompt waits for servers that are connecting, and a call for its server.
    pub wait: Duration,
    /// Maximum time for a request without any message from the server.
    pub call: Duration,
    /// Maximum time for the user to log in to a server.
    pub login: Duration,
    /// Maximum number of tools of one server; also of its prompts, and of its resources.
    pub tools: usize,
    /// Maximum number of characters of a tool's description, and of bytes of its schema.
    pub tool_chars: usize,
    /// Maximum number of characters of a server's own text on how to use it.
    pub instructions_chars: usize,
    /// Delay before the first retry; it doubles with each further retry.
    pub again: Duration,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            start: Duration::from_mins(2),
            wait: Duration::from_secs(10),
            call: Duration::from_mins(10),
            login: Duration::from_mins(5),
            tools: 256,
            tool_chars: 32 << 10,
            instructions_chars: 4 << 10,
            again: Duration::from_secs(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_said() {
        let reach = ServerReach::Http {
            url: "https://me:pass@h.test/mcp?key=abc".to_owned(),
            headers: vec![("Authorization".to_owned(), "Bearer 0123456789".to_owned())],
        };
        let config = ServerConfig::new("s", reach, "");
        assert_eq!(config.address_for_people(), "https://h.test/mcp");
        let said = "no 0123456789 at https://me:pass@h.test/mcp?key=abc";
        assert_eq!(config.concealed(said), "no (hidden) at https://h.test/mcp");
        let reach = ServerReach::Http {
            url: "https://someuser:p%40ssword@h.test/mcp?a=1&token=long%20enough&key=abc&b"
                .to_owned(),
            headers: Vec::new(),
        };
        let config = ServerConfig::new("s", reach, "");
        for (said, expected) in [
            ("no key=abc here", "no key=(hidden) here"),
            ("a=1&token=long%20enough&key=abc", "a=(hidden)&token=(hidden)&key=(hidden)"),
            ("`long enough` is no token, nor is abc", "`(hidden)` is no token, nor is abc"),
            ("someuser:p%40ssword and p@ssword", "(hidden):(hidden) and (hidden)"),
            ("https://h.test/mcp is down", "https://h.test/mcp is down"),
        ] {
            assert_eq!(config.concealed(said), expected);
        }
    }
}
