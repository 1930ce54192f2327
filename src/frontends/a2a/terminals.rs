//! Terminals that have attached to a session, and their numbers.

use std::collections::{HashMap, VecDeque};

use super::story::Story;
use tandem_agent::session::ClientName;

/// Maximum number of terminals of a session that are remembered.
const TERMINALS: usize = 256;

/// Numbers of the terminals that have attached to a session since the agent was started.
#[derive(Default)]
pub(super) struct AttachedTerminals {
    /// The last ones.
    known: VecDeque<ClientName>,
    /// Number of the prompt that was taken last from a terminal: it may not be in the story yet.
    taken: HashMap<String, u64>,
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
            let forgotten = self.known.pop_front();
            forgotten.inspect(|forgotten| _ = self.taken.remove(&forgotten.name));
        }
        let before = story.terminal(name).map(|terminal| terminal.number);
        let number = before.unwrap_or_else(|| self.last.max(story.last_terminal()) + 1);
        self.last = self.last.max(number);
        let client = ClientName::new(number, name);
        self.known.push_back(client.clone());
        client
    }

    /// Returns `true` if the prompt of this number was not taken from a terminal before.
    pub(super) fn is_new(&self, name: &str, number: u64, story: &Story) -> bool {
        let before = story.terminal(name).map_or(0, |terminal| terminal.prompts);
        number > before.max(self.taken.get(name).copied().unwrap_or(0))
    }

    /// Notes that the prompt of this number was taken.
    pub(super) fn take(&mut self, name: &str, number: u64) {
        self.taken.insert(name.to_owned(), number);
    }
}
