//! Configuration of an agent: its address, what is sent with each request, its limits.

use std::time::Duration;

/// An agent as somebody has named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// Name of the agent.
    pub name: String,
    /// Address of its card, or the beginning of its addresses.
    pub url: String,
    /// Headers of each request; may hold secrets.
    pub headers: Vec<(String, String)>,
    /// Origin of the configuration, for people: a file.
    pub from: String,
    /// Description, for the model and for people.
    pub description: Option<String>,
    /// `true` if it is called without a question.
    pub trust: bool,
    /// Maximum silence of it, if not the common one.
    pub timeout: Option<Duration>,
    /// `true` if it may be reached only with the user's consent to what the project's settings name.
    pub needs_consent: bool,
    /// Reason for which it cannot be reached as it is described.
    pub wrong: Option<String>,
}

impl AgentConfig {
    /// An agent of which only the most needed is said.
    pub fn new(name: &str, url: &str, from: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            from: from.to_owned(),
            description: None,
            trust: false,
            timeout: None,
            needs_consent: false,
            wrong: None,
        }
    }

    /// Returns a text from the agent without the secrets that it was sent.
    pub(super) fn concealed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Of `Bearer abc` the second word is the secret.
        for word in self.headers.iter().flat_map(|(_, value)| value.split_whitespace()) {
            if word.len() >= SECRET && text.contains(word) {
                text = text.replace(word, "(hidden)");
            }
        }
        text
    }
}

/// Shorter ones are hardly secrets, and would be found everywhere.
const SECRET: usize = 8;

/// Limits of calls of other agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLimits {
    /// Bytes of one event, and of one answer that is no stream.
    pub message_bytes: usize,
    /// Bytes of text that are kept of one call.
    pub answer_bytes: usize,
    /// Events of one call.
    pub events: usize,
    /// Maximum time to connect, and to read a card.
    pub connect: Duration,
    /// Maximum silence during a call.
    pub idle: Duration,
    /// Delay before the first attempt to follow a task again; it doubles with each.
    pub again: Duration,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            answer_bytes: 4 << 20,
            events: 100_000,
            connect: Duration::from_secs(30),
            idle: Duration::from_mins(10),
            again: Duration::from_millis(500),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_said() {
        let mut config = AgentConfig::new("a", "http://h.test/", "");
        config.headers = vec![
            ("Authorization".to_owned(), "Bearer 0123456789".to_owned()),
            ("X-Short".to_owned(), "abc".to_owned()),
        ];
        assert_eq!(config.concealed("no 0123456789, abc"), "no (hidden), abc");
    }
}
