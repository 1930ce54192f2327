//! Who offers models, and how an id says whose model it is.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// An API that models are behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Google's Gemini API, or Vertex AI.
    #[default]
    Gemini,
    /// Chat completions, as `OpenAI` has them and most other servers.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Ollama's own API.
    Ollama,
}

impl Provider {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Gemini, Self::OpenAi, Self::Anthropic, Self::Ollama];

    /// As ids, the command line and the file of keys have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// As people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Gemini => "Gemini",
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Ollama => "Ollama",
        }
    }

    /// Whose model is meant, and its id there: `openai:gpt-5` says whose it is, any other id is
    /// one of `usual`. A colon may also be a part of an id: `qwen3:8b`.
    pub fn of(id: &str, usual: Self) -> (Self, &str) {
        let named = id.split_once(':').and_then(|(name, id)| Some((name.parse().ok()?, id)));
        named.unwrap_or((usual, id))
    }

    /// The id that means the same wherever one is asked for. One of the Gemini API stands alone.
    pub fn qualify(self, id: &str) -> String {
        match self {
            Self::Gemini => id.to_owned(),
            _ => format!("{self}:{id}"),
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
            format!("there is no provider `{name}`; there are {}", names.join(", "))
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
    }

    #[test]
    fn a_qualified_id_means_the_same_again() {
        for provider in Provider::ALL {
            assert_eq!(Provider::of(&provider.qualify("a:b"), Gemini), (provider, "a:b"));
        }
    }
}
