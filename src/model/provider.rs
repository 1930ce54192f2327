//! Providers of models, and model ids that name them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::server_name::ServerName;

/// A provider of models: a vendor's service, a cloud, or a server that the settings name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Provider {
    /// Google's Gemini API, or Vertex AI where the variables of Google's own tools say so.
    #[default]
    Gemini,
    /// The Responses API of `OpenAI`, or chat completions, the API of most other servers.
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// Ollama's own API.
    Ollama,
    /// The server of llama.cpp, on this machine unless the settings say otherwise.
    LlamaCpp,
    /// LM Studio, on this machine unless the settings say otherwise.
    LmStudio,
    /// vLLM, on this machine unless the settings say otherwise.
    Vllm,
    /// `OpenRouter`, which passes requests on to other providers.
    OpenRouter,
    /// GitHub Models.
    GitHub,
    /// Azure `OpenAI`, where ids are the names of deployments.
    Azure,
    /// Amazon Bedrock.
    Bedrock,
    /// Vertex AI of Google, with the credentials of a cloud.
    Vertex,
    /// A server that the settings name.
    Named(ServerName),
}

impl Provider {
    /// All providers that need no settings.
    pub const ALL: [Self; 12] = [
        Self::Gemini,
        Self::OpenAi,
        Self::Anthropic,
        Self::Ollama,
        Self::LlamaCpp,
        Self::LmStudio,
        Self::Vllm,
        Self::OpenRouter,
        Self::GitHub,
        Self::Azure,
        Self::Bedrock,
        Self::Vertex,
    ];

    /// Programs that people run on their own machine, each with an address of its own there.
    pub const LOCAL_PROGRAMS: [Self; 4] =
        [Self::Ollama, Self::LlamaCpp, Self::LmStudio, Self::Vllm];

    /// Returns `true` for a program that people run on their own machine. It needs no key, and has the models that they
    /// have given it.
    pub fn is_local(self) -> bool {
        Self::LOCAL_PROGRAMS.contains(&self)
    }

    /// Returns the name used in ids, on the command line, in the settings and in the key file.
    pub fn name(&self) -> &str {
        match self {
            Self::Gemini => "gemini",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::LlamaCpp => "llamacpp",
            Self::LmStudio => "lmstudio",
            Self::Vllm => "vllm",
            Self::OpenRouter => "openrouter",
            Self::GitHub => "github",
            Self::Azure => "azure",
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
            Self::Named(name) => name.as_str(),
        }
    }

    /// Returns the name as people write it.
    pub fn title(&self) -> &str {
        match self {
            Self::Gemini => "Gemini",
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Ollama => "Ollama",
            Self::LlamaCpp => "llama.cpp",
            Self::LmStudio => "LM Studio",
            Self::Vllm => "vLLM",
            Self::OpenRouter => "OpenRouter",
            Self::GitHub => "GitHub Models",
            Self::Azure => "Azure OpenAI",
            Self::Bedrock => "Amazon Bedrock",
            Self::Vertex => "Vertex AI",
            Self::Named(name) => name.as_str(),
        }
    }

    /// Returns the host of the provider's own API, if it has one.
    pub(super) fn host(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("generativelanguage.googleapis.com"),
            Self::OpenAi => Some("api.openai.com"),
            Self::Anthropic => Some("api.anthropic.com"),
            Self::OpenRouter => Some("openrouter.ai"),
            Self::GitHub => Some("models.github.ai"),
            Self::Ollama
            | Self::LlamaCpp
            | Self::LmStudio
            | Self::Vllm
            | Self::Azure
            | Self::Bedrock
            | Self::Vertex
            | Self::Named(_) => None,
        }
    }

    /// Returns `true` if the provider has models of its own only. Then an id of another vendor is a mistake.
    pub(super) fn has_own_models_only(self) -> bool {
        matches!(self, Self::Gemini | Self::Anthropic)
    }

    /// Splits an id into its provider and the provider's own id: `openai:gpt-5` names the provider,
    /// any other id belongs to `usual`. `openai-chat:` and `openai-responses:` name `OpenAI` and one of its APIs. A
    /// colon may also be part of an id: `qwen3:8b`.
    /// [`Providers::parse_id`](super::providers::Providers::parse_id) knows the servers of the settings, too.
    pub fn parse_id(id: &str, usual: Self) -> (Self, &str) {
        let forced = OpenAiWire::forced_by(id).map(|_| Self::OpenAi);
        let named =
            id.split_once(':').and_then(|(name, own)| Some((forced.or(name.parse().ok())?, own)));
        named.unwrap_or((usual, id))
    }

    /// Returns the provider whose ids begin like this id, if no other provider has such ids.
    pub(super) fn whose(id: &str) -> Option<Self> {
        let id = id.to_ascii_lowercase();
        // The ids of this form are, for example, `o3` and `o4-mini`.
        let after_o = id.strip_prefix('o').and_then(|rest| rest.chars().next());
        if after_o.is_some_and(|c| c.is_ascii_digit()) {
            return Some(Self::OpenAi);
        }
        let known = [
            ("gemini-", Self::Gemini),
            ("claude-", Self::Anthropic),
            ("gpt-", Self::OpenAi),
            ("chatgpt-", Self::OpenAi),
        ];
        known.into_iter().find(|(begins, _)| id.starts_with(begins)).map(|(_, whose)| whose)
    }

    /// Returns the id with its provider, which is unambiguous. Ids of the Gemini API need no provider.
    pub fn qualify(self, id: &str) -> String {
        match self {
            Self::Gemini => id.to_owned(),
            _ => format!("{self}:{id}"),
        }
    }
}

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
    pub(crate) fn provider_name(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
        }
    }

    /// Returns the API that an id forces, if it forces one.
    pub(super) fn forced_by(id: &str) -> Option<Self> {
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

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(Self::name).collect();
            format!("unknown provider `{name}`; known providers: {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Provider::{self, Anthropic, Gemini, Ollama, OpenAi};

    #[track_caller]
    fn check(id: &str, usual: Provider, expected: (Provider, &str)) {
        assert_eq!(Provider::parse_id(id, usual), expected, "{id}");
    }

    #[test]
    fn an_id_says_whose_model_it_is_or_it_is_one_of_the_usual_provider() {
        check("gemini-3.8-flash", Gemini, (Gemini, "gemini-3.8-flash"));
        check("gpt-5", OpenAi, (OpenAi, "gpt-5"));
        check("gemini:gemini-3.8-flash", OpenAi, (Gemini, "gemini-3.8-flash"));
        check("openai:meta/llama:free", Gemini, (OpenAi, "meta/llama:free"));
        check("anthropic:x", Gemini, (Anthropic, "x"));
        check("qwen3:8b", Ollama, (Ollama, "qwen3:8b"));
        check("ollama:qwen3:8b", Gemini, (Ollama, "qwen3:8b"));
        check("ollama:", Gemini, (Ollama, ""));
        check("openai-chat:gpt-6-sol", Gemini, (OpenAi, "gpt-6-sol"));
        check("openai-responses:a:b", Ollama, (OpenAi, "a:b"));
        check("openai-other:a", Ollama, (Ollama, "openai-other:a"));
    }

    #[test]
    fn a_qualified_id_means_the_same_again() {
        for provider in Provider::ALL {
            assert_eq!(Provider::parse_id(&provider.qualify("a:b"), Gemini), (provider, "a:b"));
        }
    }
}
