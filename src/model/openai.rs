//! `OpenAI`'s models, and those of every server with the same API: any address, any model.

mod completions;
mod facts;
mod quirks;
mod server;

use std::sync::Arc;

use futures::stream::BoxStream;

use self::completions::CompletionsApi;
use self::server::OpenAiServer;
use super::endpoint::{Connect, Endpoint};
use super::http::Http;
use super::options::RequestOptions;
use super::provider::Provider;
use super::request_loop::{self, ApiClient};
use super::{Chunk, Error, Model, Prompt, ThinkingLevels, catalog};

/// A model behind chat completions.
pub struct OpenAi {
    name: String,
    server: Arc<OpenAiServer>,
    completions: Arc<CompletionsApi>,
}

impl OpenAi {
    /// Creates the model from its catalog entry; opens no connection yet. The error for an unknown thinking level
    /// lists the levels.
    pub fn new(
        model: catalog::ModelProperties,
        connect: Connect,
        options: RequestOptions,
    ) -> Result<Self, Error> {
        let name = Provider::OpenAi.qualify(&model.id);
        let server = Arc::new(OpenAiServer::new(model, ApiClient::new(connect, options)));
        let completions = Arc::new(CompletionsApi::new(Arc::clone(&server))?);
        Ok(Self { name, server, completions })
    }
}

impl Model for OpenAi {
    fn id(&self) -> &str {
        &self.name
    }

    fn ready(&self) -> Result<(), Error> {
        self.server.client.ready()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        request_loop::stream(Arc::clone(&self.completions), prompt)
    }

    fn input_limit(&self) -> Option<u64> {
        self.server.known_window()
    }

    fn thinking(&self) -> ThinkingLevels {
        self.server.model.thinking_levels(self.server.client.options.thinking.as_deref())
    }
}

/// Checks that the endpoint accepts its key, by a request for its models.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    models(endpoint).await.map(drop)
}

/// Fetches the ids of the endpoint's models.
pub async fn models(endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    facts::models(&Http::new(RequestOptions::default().connect_timeout), endpoint).await
}
