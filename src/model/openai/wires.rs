//! The two APIs of `OpenAI` and of servers that follow it, and what is known of which one has a model.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::Deserialize;

/// An API of `OpenAI` and of servers that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenAiWire {
    /// Chat completions: `POST /chat/completions`.
    Chat,
    /// The Responses API: `POST /responses`.
    Responses,
}

impl OpenAiWire {
    /// All APIs.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Responses];

    /// Returns the name in ids that force this API: `openai-responses:ID`.
    pub fn provider_name(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
        }
    }

    /// Returns the API that an id forces, if it forces one.
    pub(crate) fn forced_by(id: &str) -> Option<Self> {
        let (name, _) = id.split_once(':')?;
        Self::ALL.into_iter().find(|wire| wire.provider_name() == name)
    }

    /// Returns the other API.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Chat => Self::Responses,
            Self::Responses => Self::Chat,
        }
    }
}

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

    /// Remembers the API that has a model.
    pub(super) fn learn(&self, served: ServedModel, wire: OpenAiWire) {
        self.0.lock().insert(served, wire);
    }
}
