//! Providers of models, and model ids that name them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A provider's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Google's Gemini API, or Vertex AI.
    #[default]
    Gemini,
    /// The Responses API of `OpenAI`, or chat completions, the API of most other servers.
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// Ollama's own API.
    Ollama,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 4] = [Self::Gemini, Self::OpenAi, Self::Anthropic, Self::Ollama];

    /// Returns the name used in ids, on the command line and in the key file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the name as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Gemini => "Gemini",
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Ollama => "Ollama",
        }
    }

    /// Returns the host of the provider's own API, if it has one.
    pub(super) fn host(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("generativelanguage.googleapis.com"),
            Self::OpenAi => Some("api.openai.com"),
            Self::Anthropic => Some("api.anthropic.com"),
            Self::Ollama => None,
        }
    }

    /// Splits an id into its provider and the provider's own id: `openai:gpt-5` names the provider,
    /// any other id belongs to `usual`. `openai-chat:` and `openai-responses:` name `OpenAI` and one of its APIs. A
    /// colon may also be part of an id: `qwen3:8b`.
    pub fn of(id: &str, usual: Self) -> (Self, &str) {
        let forced = OpenAiWire::forced_by(id).map(|_| Self::OpenAi);
        let named =
            id.split_once(':').and_then(|(name, own)| Some((forced.or(name.parse().ok())?, own)));
        named.unwrap_or((usual, id))
    }

    /// Splits an id as [`Self::of`] does, but refuses an unknown provider, and a model that only another provider
    /// has. Servers that run models of all kinds may have any id.
    pub fn check(id: &str, usual: Self) -> Result<(Self, &str), String> {
        let (provider, own) = Self::of(id, usual);
        let is_named = own.len() < id.len();
        if is_named || matches!(usual, Self::OpenAi | Self::Ollama) {
            return Ok((provider, own));
        }
        if let Some((name, _)) = id.split_once(':') {
            let known: Vec<_> = Self::ALL.iter().map(|it| format!("`{it}`")).collect();
            return Err(format!(
                "Unknown provider `{name}` in the model `{id}`. Known providers: {}. For an Ollama \
                 model with this name, use `ollama:{id}`.",
                known.join(", ")
            ));
        }
        match Self::whose(id).filter(|whose| *whose != usual) {
            Some(whose) => Err(format!(
                "Unknown model `{id}` for {title}: use `{whose}:{id}`, or `{usual}:{id}` if \
                 {title} has it.",
                title = usual.title(),
            )),
            None => Ok((provider, own)),
        }
    }

    /// Returns the provider whose ids begin like this one, if no other provider has such ids.
    fn whose(id: &str) -> Option<Self> {
        let id = id.to_ascii_lowercase();
        // For example `o3` and `o4-mini`.
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
    pub fn provider_name(self) -> &'static str {
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

impl FromStr for Provider {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|it| it.name()).collect();
            format!("unknown provider `{name}`; known providers: {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Provider::{self, Anthropic, Gemini, Ollama, OpenAi};

    #[track_caller]
    fn check(id: &str, usual: Provider, expected: (Provider, &str)) {
        assert_eq!(Provider::of(id, usual), expected, "{id}");
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

    #[track_caller]
    fn refused(id: &str, usual: Provider, expected: &str) {
        let why = Provider::check(id, usual).unwrap_err();
        assert!(why.starts_with(expected), "{why}");
    }

    #[test]
    fn a_model_of_another_provider_is_named_as_one() {
        let claude =
            "Unknown model `claude-x` for Gemini: use `anthropic:claude-x`, or `gemini:claude-x`";
        refused("claude-x", Gemini, claude);
        refused("gpt-5", Gemini, "Unknown model `gpt-5` for Gemini: use `openai:gpt-5`");
        refused("o3", Gemini, "Unknown model `o3` for Gemini: use `openai:o3`");
        refused(
            "o4-mini",
            Anthropic,
            "Unknown model `o4-mini` for Anthropic: use `openai:o4-mini`",
        );
        refused("gemini-3.8-flash", Anthropic, "Unknown model `gemini-3.8-flash` for Anthropic");
        refused("bedrock:x", Gemini, "Unknown provider `bedrock` in the model `bedrock:x`. Known");
        refused("qwen3:8b", Anthropic, "Unknown provider `qwen3`");
        for (id, usual) in [
            ("gemini-9-xenon", Gemini),
            ("gemma-4", Gemini),
            ("omni", Gemini),
            ("tuned/mine", Gemini),
            ("claude-x", Anthropic),
            ("gemini:claude-x", Gemini),
            ("openai:bedrock:x", Gemini),
            ("claude-x", OpenAi),
            ("meta/llama:free", OpenAi),
            ("gpt-oss:20b", Ollama),
        ] {
            assert_eq!(Provider::check(id, usual), Ok(Provider::of(id, usual)), "{id}");
        }
    }

    #[test]
    fn a_qualified_id_means_the_same_again() {
        for provider in Provider::ALL {
            assert_eq!(Provider::of(&provider.qualify("a:b"), Gemini), (provider, "a:b"));
        }
    }
}
