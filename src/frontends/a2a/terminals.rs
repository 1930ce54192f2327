//! Terminals that have attached to a session, with their numbers.

use std::collections::{HashMap, VecDeque};

use super::session_records::SessionRecords;
use tandem_agent::session::ClientName;

/// Maximum number of terminals that are remembered in a session.
const MAX_REMEMBERED_TERMINALS: usize = 256;

/// Terminals that have attached to a session since the agent was started.
#[derive(Default)]
pub(super) struct AttachedTerminals {
    /// The last terminals, in the order in which they first attached.
    known: VecDeque<ClientName>,
    /// Number of the last accepted prompt by terminal. The prompt may not be in the records yet.
    taken: HashMap<String, u64>,
    /// The highest number of a terminal.
    last: u64,
}

impl AttachedTerminals {
    /// Returns a terminal's name with its number: the earlier number of the terminal, or the next free number.
    pub(super) fn client(&mut self, name: &str, records: &SessionRecords) -> ClientName {
        if let Some(known) = self.known.iter().find(|known| known.name == name) {
            return known.clone();
        }
        if self.known.len() == MAX_REMEMBERED_TERMINALS {
            let forgotten = self.known.pop_front();
            forgotten.inspect(|forgotten| _ = self.taken.remove(&forgotten.name));
        }
        let before = records.terminal(name).map(|terminal| terminal.number);
        let number = before.unwrap_or_else(|| self.last.max(records.last_terminal()) + 1);
        self.last = self.last.max(number);
        let client = ClientName::new(number, name);
        self.known.push_back(client.clone());
        client
    }

    /// Returns `true` if the prompt of this number was not accepted from the terminal before. Prompts are
    /// numbered upwards.
    pub(super) fn is_new(&self, name: &str, number: u64, records: &SessionRecords) -> bool {
        let before = records.terminal(name).map_or(0, |terminal| terminal.prompts);
        number > before.max(self.taken.get(name).copied().unwrap_or(0))
    }

    /// Notes that the prompt of this number was accepted.
    pub(super) fn accept(&mut self, name: &str, number: u64) {
        self.taken.insert(name.to_owned(), number);
    }
}
