//! Terminals that have attached to a session, and their numbers.

use std::collections::VecDeque;

use super::story::Story;
use tandem_agent::session::ClientName;

/// Maximum number of terminals of a session that are remembered.
const TERMINALS: usize = 256;

/// Numbers of the terminals that have attached to a session since the agent was started.
#[derive(Default)]
pub(super) struct AttachedTerminals {
    /// The last ones.
    known: VecDeque<ClientName>,
    /// The highest number.
    last: u64,
}

impl AttachedTerminals {
    /// Names a terminal: with the number that it had before, or the next.
    pub(super) fn client(&mut self, name: &str, story: &Story) -> ClientName {
        if let Some(known) = self.known.iter().find(|known| known.name == name) {
            return known.clone();
        }
        if self.known.len() == TERMINALS {
            self.known.pop_front();
        }
        let before = story.terminal(name).map(|terminal| terminal.number);
        let number = before.unwrap_or_else(|| self.last.max(story.last_terminal()) + 1);
        self.last = self.last.max(number);
        let client = ClientName::new(number, name);
        self.known.push_back(client.clone());
        client
    }
}
