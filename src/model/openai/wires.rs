//! Memory of which API of a server has a model.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;

use crate::provider::OpenAiWire;

/// APIs that have turned out to have a model, for as long as the process runs. All models of the process share one
/// instance.
#[derive(Debug, Default)]
pub struct LearnedWires(Mutex<HashMap<ServedModel, OpenAiWire>>);

/// A model at a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ServedModel {
    /// Base URL of the server.
    pub(super) url: String,
    /// Id of the model.
    pub(super) model: String,
}

impl LearnedWires {
    /// Returns the API that has a model, if that was found out.
    pub(super) fn find(&self, served: &ServedModel) -> Option<OpenAiWire> {
        self.0.lock().get(served).copied()
    }

    /// Remembers the API that has answered for a model. If the other API had answered before, that API may only have
    /// failed for a moment: the next request begins as if nothing were known.
    pub(super) fn learn(&self, served: ServedModel, wire: OpenAiWire) {
        match self.0.lock().entry(served) {
            Entry::Occupied(known) if *known.get() != wire => drop(known.remove()),
            Entry::Occupied(_) => {}
            Entry::Vacant(unknown) => drop(unknown.insert(wire)),
        }
    }
}
