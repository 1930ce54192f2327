//! APIs in which models are asked.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::bedrock::BedrockDoor;
use super::provider::{OpenAiWire, Provider};
use super::vertex;

/// An API in which models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelApi {
    /// The Gemini API: `streamGenerateContent`.
    Gemini,
    /// An API of `OpenAI`; `None`: the API that turns out to have the model.
    OpenAi(Option<OpenAiWire>),
    /// Anthropic's Messages API.
    Anthropic,
    /// Ollama's own API.
    Ollama,
}

impl ModelApi {
    const ALL: [Self; 6] = [
        Self::OpenAi(None),
        Self::OpenAi(Some(OpenAiWire::Chat)),
        Self::OpenAi(Some(OpenAiWire::Responses)),
        Self::Anthropic,
        Self::Gemini,
        Self::Ollama,
    ];

    /// Returns the API in which a built-in provider is asked for the model of this id. A server of the settings may have
    /// any API.
    pub(super) fn of_built_in(provider: Provider, id: &str) -> Self {
        match provider {
            Provider::Vertex if vertex::is_claude(id) => Self::Anthropic,
            Provider::Gemini | Provider::Vertex => Self::Gemini,
            Provider::OpenAi
            | Provider::LlamaCpp
            | Provider::LmStudio
            | Provider::Vllm
            | Provider::Azure
            | Provider::Named(_) => Self::OpenAi(None),
            Provider::Anthropic => Self::Anthropic,
            Provider::Bedrock => match BedrockDoor::of(id) {
                BedrockDoor::Messages | BedrockDoor::AreaMessages => Self::Anthropic,
                BedrockDoor::OpenAi | BedrockDoor::Others | BedrockDoor::AreaOpenAi => {
                    Self::OpenAi(None)
                }
            },
            Provider::Ollama => Self::Ollama,
            Provider::OpenRouter | Provider::GitHub => Self::OpenAi(Some(OpenAiWire::Chat)),
        }
    }

    /// Returns the name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::OpenAi(None) => "openai",
            Self::OpenAi(Some(wire)) => wire.provider_name(),
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the provider that has introduced the API, and whose models are the likeliest to be found behind it.
    pub fn vendor(self) -> Provider {
        match self {
            Self::Gemini => Provider::Gemini,
            Self::OpenAi(_) => Provider::OpenAi,
            Self::Anthropic => Provider::Anthropic,
            Self::Ollama => Provider::Ollama,
        }
    }
}

/// The API of most servers.
impl Default for ModelApi {
    fn default() -> Self {
        Self::OpenAi(None)
    }
}

impl fmt::Display for ModelApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ModelApi {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl FromStr for ModelApi {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|api| api.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|api| api.name()).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}
