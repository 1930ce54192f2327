//! Configuration of an agent: its address, the headers of each request, its limits.

use std::time::Duration;

/// An agent as its configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// Name of the agent.
    pub name: String,
    /// Address of the agent's card, or the address below which the card is looked for.
    pub url: String,
    /// Headers of each request; they may hold secrets.
    pub headers: Vec<(String, String)>,
    /// Origin of the configuration, for people: a file.
    pub from: String,
    /// Description, for the model and for people.
    pub description: Option<String>,
    /// `true` if the agent is called without a question to the user.
    pub trust: bool,
    /// Maximum silence of the agent during a call; `None` for the limit that all agents share.
    pub timeout: Option<Duration>,
    /// `true` if the agent may be reached only after the user has consented to the agents of the project's settings.
    pub needs_consent: bool,
    /// Reason for which the agent cannot be reached with this configuration.
    pub wrong: Option<String>,
}

impl AgentConfig {
    /// Returns a configuration with only a name, an address and an origin.
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

    /// Returns a text from the agent with the secrets of the headers replaced.
    pub(super) fn concealed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // In `Bearer abc`, the second word is the secret, so each word of a value is replaced by itself.
        for word in self.headers.iter().flat_map(|(_, value)| value.split_whitespace()) {
            if word.len() >= MIN_SECRET_BYTES && text.contains(word) {
                text = text.replace(word, "(hidden)");
            }
        }
        text
    }
}

/// Minimum length of a secret, in bytes: a shorter word is hardly one, and would be found in many texts.
const MIN_SECRET_BYTES: usize = 8;

/// Limits of calls of other agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLimits {
    /// Maximum size of one event, and of one answer that is not a stream, in bytes.
    pub message_bytes: usize,
    /// Maximum size of the text of one call that is stored, in bytes.
    pub answer_bytes: usize,
    /// Maximum number of events of one call.
    pub events: usize,
    /// Maximum time to connect, and to read a card.
    pub connect: Duration,
    /// Maximum silence during a call.
    pub idle: Duration,
    /// Delay before the first attempt to follow a task again; doubled for each further attempt.
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
