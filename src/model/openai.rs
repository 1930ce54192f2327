//! `OpenAI`'s models, and those of every server with the same API: any address, any model.

mod completions;
mod facts;
mod images;
mod quirks;
mod responses;
mod server;
mod wires;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use self::completions::CompletionsApi;
use self::responses::ResponsesApi;
use self::server::OpenAiServer;
use self::wires::ServedModel;
use super::emit::{self, Emitter};
use super::endpoint::{Connect, Endpoint};
use super::http::Http;
use super::listing::ListForm;
use super::options::RequestOptions;
use super::provider::{OpenAiWire, Provider};
use super::queries::ListedModel;
use super::request_loop::{self, ApiClient, PromptFailure};
use super::retry::{AttemptFailure, RequestFailure};
use super::{Chunk, Error, Finish, Model, Prompt, ThinkingLevels, catalog};

pub use self::wires::LearnedWires;

/// A model behind chat completions or the Responses API.
pub struct OpenAi {
    name: String,
    apis: Arc<OpenAiApis>,
}

/// Both APIs of a model.
struct OpenAiApis {
    server: Arc<OpenAiServer>,
    completions: Arc<CompletionsApi>,
    responses: Arc<ResponsesApi>,
    learned: Arc<LearnedWires>,
}

impl OpenAi {
    /// Creates the model from its catalog entry; opens no connection yet. `learned` remembers for the process which API
    /// has which model. The error for an unknown thinking level lists the levels.
    pub fn new(
        model: catalog::ModelProperties,
        connect: Connect,
        options: RequestOptions,
        learned: Arc<LearnedWires>,
    ) -> Result<Self, Error> {
        let name = match model.forced_wire {
            Some(wire) if model.provider == Provider::OpenAi => {
                format!("{}:{}", wire.provider_name(), model.id)
            }
            _ => model.provider.qualify(&model.id),
        };
        if let Some(level) = &options.thinking {
            model.level(level).map_err(Error::Rejected)?;
        }
        let server = Arc::new(OpenAiServer::new(model, ApiClient::new(connect, options)));
        let completions = Arc::new(CompletionsApi::new(Arc::clone(&server)));
        let responses = Arc::new(ResponsesApi::new(Arc::clone(&server)));
        Ok(Self { name, apis: Arc::new(OpenAiApis { server, completions, responses, learned }) })
    }
}

impl Model for OpenAi {
    fn id(&self) -> &str {
        &self.name
    }

    fn ready(&self) -> Result<(), Error> {
        self.apis.server.client.ready()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        let apis = Arc::clone(&self.apis);
        emit::answer(|emitter| async move { apis.answer(prompt, emitter).await })
    }

    fn input_limit(&self) -> Option<u64> {
        self.apis.server.known_window()
    }

    fn learn_window(&self) -> BoxFuture<'static, ()> {
        let server = Arc::clone(&self.apis.server);
        let learn = async move {
            if let (None, Ok(endpoint)) = (server.known_window(), server.client.endpoint()) {
                server.prepare(&endpoint).await;
            }
        };
        learn.boxed()
    }

    fn thinking(&self) -> ThinkingLevels {
        let OpenAiServer { model, client, .. } = &*self.apis.server;
        model.thinking_levels(client.options.thinking.as_deref())
    }
}

impl OpenAiApis {
    /// Answers a prompt. If the first API does not have the model, asks the other API once.
    async fn answer(&self, prompt: Prompt, mut emitter: Emitter) -> Result<Finish, Error> {
        let served = self.served();
        let first = self.first_wire(served.as_ref());
        let trouble = match self.ask(first, prompt.clone(), &mut emitter).await {
            Ok(finish) => {
                self.learn(served, first);
                return Ok(finish);
            }
            Err(PromptFailure::Failed(error)) => return Err(error),
            Err(PromptFailure::OtherApi(trouble)) => trouble,
        };
        if self.server.model.forced_wire.is_some() {
            return Err(self.final_error(first, trouble).await);
        }
        let second = first.other();
        tracing::info!(?second, "asking the server's other API for the model");
        match self.ask(second, prompt, &mut emitter).await {
            Ok(finish) => {
                self.learn(served, second);
                Ok(finish)
            }
            Err(PromptFailure::Failed(error)) => Err(error),
            // Neither API has the model. The model is likelier to belong to the first API, so the error of the first
            // API is shown.
            Err(PromptFailure::OtherApi(_)) => Err(self.final_error(first, trouble).await),
        }
    }

    /// Returns the model and its server; `None` without an endpoint.
    fn served(&self) -> Option<ServedModel> {
        let endpoint = self.server.client.endpoint().ok()?;
        Some(ServedModel { url: endpoint.url, model: self.server.model.id.clone() })
    }

    /// Returns the API to ask first: the one that the id forces, else the one that has answered before, else the one of
    /// the catalog, else the one that more models of the provider have.
    fn first_wire(&self, served: Option<&ServedModel>) -> OpenAiWire {
        let catalog::ModelProperties { wire, forced_wire, .. } = &self.server.model;
        let learned = || served.and_then(|served| self.learned.find(served));
        let usual = match self.server.model.provider {
            // Names of deployments say nothing of the model. All current models there have the Responses API.
            Provider::Azure => OpenAiWire::Responses,
            _ => OpenAiWire::Chat,
        };
        forced_wire.or_else(learned).or(*wire).unwrap_or(usual)
    }

    /// Remembers the API that has answered, unless the id has named the API.
    fn learn(&self, served: Option<ServedModel>, wire: OpenAiWire) {
        if let Some(served) = served.filter(|_| self.server.model.forced_wire.is_none()) {
            self.learned.learn(served, wire);
        }
    }

    async fn ask(
        &self,
        wire: OpenAiWire,
        prompt: Prompt,
        emitter: &mut Emitter,
    ) -> Result<Finish, PromptFailure> {
        match wire {
            OpenAiWire::Chat => {
                request_loop::run(Arc::clone(&self.completions), prompt, emitter).await
            }
            OpenAiWire::Responses => {
                request_loop::run(Arc::clone(&self.responses), prompt, emitter).await
            }
        }
    }

    async fn final_error(&self, wire: OpenAiWire, trouble: AttemptFailure) -> Error {
        match wire {
            OpenAiWire::Chat => request_loop::final_error(&*self.completions, trouble).await,
            OpenAiWire::Responses => request_loop::final_error(&*self.responses, trouble).await,
        }
    }
}

/// Checks that the endpoint accepts its key, by a request for its models or for the key.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    facts::check(&Http::new(RequestOptions::default().connect_timeout), endpoint).await
}

/// Fetches the endpoint's models, with the windows that the list has.
pub(super) async fn list(
    http: &Http,
    endpoint: &Endpoint,
    form: ListForm,
) -> Result<Vec<ListedModel>, RequestFailure> {
    facts::list(http, endpoint, form).await
}

/// Asks a server on this machine for the window of a model in tokens; `None` if the server does not tell.
pub(super) async fn window(http: &Http, endpoint: &Endpoint, model: &str) -> Option<u64> {
    facts::find(http, endpoint, model).await.window
}
