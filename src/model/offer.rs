//! Models that people can choose, with the facts that help to choose.

use super::provider::Provider;
use super::thinking::ThinkingLevels;

/// Models of one provider or server.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelGroup {
    /// Provider of the models.
    pub provider: Provider,
    /// Address of the server that has listed the models, without what may be secret in it; `None` if the catalog lists
    /// them.
    pub address: Option<String>,
    /// The models, in the order of the list.
    pub models: Vec<OfferedModel>,
}

impl ModelGroup {
    /// Returns the heading of the group, for people.
    pub fn heading(&self) -> String {
        match &self.address {
            Some(address) => format!("{} at {address}", self.provider.title()),
            None => self.provider.title().to_owned(),
        }
    }
}

/// A model that people can choose.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedModel {
    /// Id, as `--model` takes it.
    pub id: String,
    /// Size of the context window in tokens, if it is known.
    pub window: Option<u64>,
    /// Price of the model's tokens today, if it is known.
    pub price: Option<TokenPrice>,
    /// Levels of thinking that the model is known to offer.
    pub thinking: ThinkingLevels,
}

/// Price in US dollars per million tokens, for a prompt of usual size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenPrice {
    /// Price of the prompt's tokens that are not read from a cache.
    pub input: f64,
    /// Price of the answer's tokens.
    pub output: f64,
}

/// Servers that are asked for their models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerScope {
    /// Servers on this machine, which answer at once.
    ThisMachine,
    /// Servers on this machine, and all others that people have set up or chosen.
    All,
    /// Servers that people have set up or chosen. No program is looked for at its usual address.
    SetUp,
}

/// Returns a model's id as people are shown it. An id with nothing behind its provider means a model that the server
/// chooses.
pub fn shown_id(id: &str) -> String {
    match id.strip_suffix(':') {
        Some(provider) => format!("{provider} (the server's first model)"),
        None => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_names_only_a_server_is_explained() {
        assert_eq!(shown_id("openai:"), "openai (the server's first model)");
        assert_eq!(shown_id("ollama:qwen3:8b"), "ollama:qwen3:8b");
    }

    #[test]
    fn a_group_is_headed_by_its_provider_and_its_server() {
        let mut group =
            ModelGroup { provider: Provider::LmStudio, address: None, models: Vec::new() };
        assert_eq!(group.heading(), "LM Studio");
        group.address = Some("http://127.0.0.1:1234".to_owned());
        assert_eq!(group.heading(), "LM Studio at http://127.0.0.1:1234");
    }
}
