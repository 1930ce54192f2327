//! The providers that model ids can name: built-in providers, and servers that the settings name.

use std::collections::BTreeMap;

use super::model_api::ModelApi;
use super::provider::Provider;
use super::server_name::ServerName;

/// The providers that model ids can name. The default has no servers of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Providers {
    /// APIs of the servers that the settings name.
    servers: BTreeMap<ServerName, ModelApi>,
}

impl Providers {
    /// Returns all built-in providers and these servers.
    pub fn new(servers: BTreeMap<ServerName, ModelApi>) -> Self {
        Self { servers }
    }

    /// Returns the provider of this name. The error lists the names.
    pub fn find(&self, name: &str) -> Result<Provider, String> {
        let server = name.parse().ok().filter(|name| self.servers.contains_key(name));
        match (name.parse(), server) {
            (Ok(provider), _) => Ok(provider),
            (Err(_), Some(server)) => Ok(Provider::Named(server)),
            (Err(_), None) => {
                let names = self.names().join(", ");
                Err(format!("unknown provider `{name}`; known providers: {names}"))
            }
        }
    }

    /// Splits an id into its provider and the provider's own id, as [`Provider::parse_id`] does. The id may also name a
    /// server of the settings.
    pub fn parse_id<'a>(&self, id: &'a str, usual: Provider) -> (Provider, &'a str) {
        let server = id.split_once(':').and_then(|(name, own)| {
            let name = name.parse().ok().filter(|name| self.servers.contains_key(name))?;
            Some((Provider::Named(name), own))
        });
        server.unwrap_or_else(|| Provider::parse_id(id, usual))
    }

    /// Splits an id as [`Self::parse_id`] does, but refuses an unknown provider, and a model that only another provider
    /// has. Servers that run models of all kinds may have any id.
    pub fn check<'a>(&self, id: &'a str, usual: Provider) -> Result<(Provider, &'a str), String> {
        let (provider, own) = self.parse_id(id, usual);
        let is_named = own.len() < id.len();
        if is_named || !usual.has_own_models_only() {
            return Ok((provider, own));
        }
        if let Some((name, _)) = id.split_once(':') {
            let known: Vec<_> = self.names().iter().map(|name| format!("`{name}`")).collect();
            return Err(format!(
                "Unknown provider `{name}` in the model `{id}`. Known providers: {}. For an Ollama \
                 model with this name, use `ollama:{id}`.",
                known.join(", ")
            ));
        }
        match Provider::whose(id).filter(|whose| *whose != usual) {
            Some(whose) => Err(format!(
                "Unknown model `{id}` for {title}: use `{whose}:{id}`, or `{usual}:{id}` if \
                 {title} has it.",
                title = usual.title(),
            )),
            None => Ok((provider, own)),
        }
    }

    /// Returns the API in which a provider is asked for the model of this id, which is empty for requests beside a
    /// conversation.
    pub fn api(&self, provider: Provider, id: &str) -> ModelApi {
        match provider {
            Provider::Named(name) => self.servers.get(&name).copied().unwrap_or_default(),
            provider => ModelApi::of_built_in(provider, id),
        }
    }

    fn names(&self) -> Vec<String> {
        let servers = self.servers.keys().copied().map(Provider::Named);
        Provider::ALL.into_iter().chain(servers).map(|provider| provider.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::OpenAiWire;
    use crate::provider::Provider::{Anthropic, Gemini, Ollama, OpenAi, OpenRouter};

    #[track_caller]
    fn refused(id: &str, usual: Provider, expected: &str) {
        let why = Providers::default().check(id, usual).unwrap_err();
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
        refused("watson:x", Gemini, "Unknown provider `watson` in the model `watson:x`. Known");
        refused("qwen3:8b", Anthropic, "Unknown provider `qwen3`");
        for (id, usual) in [
            ("gemini-9-xenon", Gemini),
            ("gemma-4", Gemini),
            ("omni", Gemini),
            ("tuned/mine", Gemini),
            ("claude-x", Anthropic),
            ("gemini:claude-x", Gemini),
            ("openai:watson:x", Gemini),
            ("claude-x", OpenAi),
            ("meta/llama:free", OpenAi),
            ("gpt-oss:20b", Ollama),
        ] {
            assert_eq!(
                Providers::default().check(id, usual),
                Ok(Provider::parse_id(id, usual)),
                "{id}"
            );
        }
    }

    fn with_work() -> (Providers, Provider) {
        let work: ServerName = "work".parse().unwrap();
        let api = ModelApi::OpenAi(Some(OpenAiWire::Chat));
        (Providers::new(BTreeMap::from([(work, api)])), Provider::Named(work))
    }

    #[test]
    fn a_server_of_the_settings_is_a_provider_where_the_settings_name_it() {
        let (providers, work) = with_work();
        for usual in [Gemini, Ollama] {
            assert_eq!(providers.parse_id("work:qwen3:8b", usual), (work, "qwen3:8b"));
            assert_eq!(providers.check("work:qwen3:8b", usual), Ok((work, "qwen3:8b")));
        }
        assert_eq!(providers.parse_id("openrouter:a/b", Gemini), (OpenRouter, "a/b"));
        assert_eq!(providers.api(work, "a"), ModelApi::OpenAi(Some(OpenAiWire::Chat)));
        assert_eq!(providers.find("work"), Ok(work));
        assert_eq!(work.qualify("a:b"), "work:a:b");
        let none = Providers::default();
        assert_eq!(none.parse_id("work:qwen3:8b", Ollama), (Ollama, "work:qwen3:8b"));
        assert!(
            none.find("work")
                .unwrap_err()
                .ends_with(", openrouter, github, azure, bedrock, vertex")
        );
    }
}
