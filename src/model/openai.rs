//! Chat completions of `OpenAI` and nearly every other server: any address, any model.

mod answer;
mod messages;
mod quirks;
mod request;
mod window;
mod wire;

use std::borrow::Cow;
use std::sync::Arc;

use futures::stream::BoxStream;
use reqwest::Method;
use serde_json::{Map, Value, json};

use self::answer::OpenAiAnswer;
use self::messages::BACKEND;
use self::quirks::{Quirk, ServerQuirks};
use self::request::ChatCompletionRequest;
use self::window::KEY_HEADER;
use super::chat;
use super::chat::answer::ChatAnswer;
use super::endpoint::{Connect, Endpoint};
use super::http::{self, Http};
use super::options::RequestOptions;
use super::provider::Provider;
use super::report::Report;
use super::request_loop::{self, AnswerVerdict, Api, ApiClient};
use super::retry::{RequestFailure, Trouble};
use super::{Chunk, Error, Finish, FinishReason, Model, Prompt, ThinkingLevels, catalog};
use parking_lot::Mutex;

/// Host that does not publish context windows.
const SILENT: &str = "api.openai.com";

/// Field of a request for the thinking level.
const EFFORT: &str = "reasoning_effort";

/// A model behind chat completions.
pub struct OpenAi {
    name: String,
    api: Arc<OpenAiApi>,
}

struct OpenAiApi {
    model: catalog::ModelProperties,
    client: ApiClient,
    /// Fields that are in every request.
    settings: Map<String, Value>,
    /// Server of the last request.
    server: Mutex<Arc<ServerQuirks>>,
    window: Mutex<Window>,
}

/// Context window that the server offers.
#[derive(Default)]
struct Window {
    /// Base URL of the server that has answered.
    url: String,
    tokens: Option<u64>,
}

impl OpenAi {
    /// Takes a model of the catalog; connects to nothing yet. The error for an unknown thinking
    /// level lists the levels.
    pub fn new(
        model: catalog::ModelProperties,
        connect: Connect,
        options: RequestOptions,
    ) -> Result<Self, Error> {
        let effort = options.thinking.as_deref().map(|level| effort(&model, level)).transpose()?;
        let mut settings: Map<_, _> = effort.into_iter().collect();
        settings.extend(options.generation.clone());
        let name = Provider::OpenAi.qualify(&model.id);
        let (server, window) = (Mutex::default(), Mutex::default());
        let api =
            OpenAiApi { model, client: ApiClient::new(connect, options), settings, server, window };
        Ok(Self { name, api: Arc::new(api) })
    }
}

impl Model for OpenAi {
    fn id(&self) -> &str {
        &self.name
    }

    fn ready(&self) -> Result<(), Error> {
        self.api.client.ready()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        request_loop::stream(Arc::clone(&self.api), prompt)
    }

    fn input_limit(&self) -> Option<u64> {
        let known = Some(self.api.model.input_tokens).filter(|tokens| *tokens > 0);
        known.or_else(|| self.api.window.lock().tokens)
    }

    fn thinking(&self) -> ThinkingLevels {
        self.api.model.thinking_levels(self.api.client.options.thinking.as_deref())
    }
}

impl Api for OpenAiApi {
    type Answer = OpenAiAnswer;

    fn client(&self) -> &ApiClient {
        &self.client
    }

    async fn probe(&self) {
        let Ok(endpoint) = self.client.endpoint() else { return };
        let known = self.model.input_tokens > 0 || self.window.lock().url == endpoint.url;
        if known || http::is_on_host(&endpoint.url, SILENT) {
            return;
        }
        let tokens = window::find(&self.client.http, &endpoint, &self.model.id).await;
        *self.window.lock() = Window { url: endpoint.url, tokens };
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        _: &OpenAiAnswer,
    ) -> Result<reqwest::Request, Error> {
        let mut settings = Cow::Borrowed(&self.settings);
        if let Some(level) = &prompt.thinking {
            settings.to_mut().extend([effort(&self.model, level)?]);
        }
        let server = self.server(endpoint);
        if server.has(Quirk::NoEffort) && settings.contains_key(EFFORT) {
            settings.to_mut().shift_remove(EFFORT);
        }
        let request = ChatCompletionRequest {
            prompt,
            model: &self.model.id,
            server: &server,
            settings: &settings,
            output_tokens: self.model.output_tokens,
            nudge,
        };
        let body = request.body()?;
        let mut request = endpoint.request(Method::POST, "/chat/completions", KEY_HEADER)?;
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    fn begin(&self) -> OpenAiAnswer {
        OpenAiAnswer(ChatAnswer::new(self.client.options.max_answer))
    }

    fn classify(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> Trouble {
        let asked = endpoint.request_info(Provider::OpenAi, &self.model.id);
        if report.lasting(asked).is_none() && self.learn(report, endpoint, prompt) {
            return RequestFailure::adapted("").into();
        }
        report.classify(asked)
    }

    fn judge(&self, OpenAiAnswer(answer): &mut OpenAiAnswer, prompt: &Prompt) -> AnswerVerdict {
        chat::judge(answer, prompt)
    }

    fn finish(
        &self,
        OpenAiAnswer(answer): OpenAiAnswer,
        prompt: &Prompt,
        reason: FinishReason,
    ) -> (Vec<Chunk>, Finish) {
        chat::finish(answer, prompt, reason, (BACKEND, &self.model.id))
    }

    async fn models(&self, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
        window::models(&self.client.http, endpoint).await
    }
}

impl OpenAiApi {
    /// Returns the server's known quirks.
    fn server(&self, endpoint: &Endpoint) -> Arc<ServerQuirks> {
        let mut server = self.server.lock();
        if server.url() != endpoint.url {
            *server = Arc::new(ServerQuirks::new(&endpoint.url, &self.model.id));
        }
        Arc::clone(&server)
    }

    /// Learns a quirk from an error; returns whether there was one to learn.
    fn learn(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> bool {
        let mut server = self.server.lock();
        let quirk = Arc::make_mut(&mut server).learn(report, prompt);
        if let Some(quirk) = quirk {
            tracing::info!(?quirk, url = endpoint.url, "request adapted to the server");
        }
        quirk.is_some()
    }
}

/// Returns the field that says how much to think. The error lists the levels.
fn effort(model: &catalog::ModelProperties, level: &str) -> Result<(String, Value), Error> {
    let level = model.level(level).map_err(Error::Rejected)?;
    Ok((EFFORT.to_owned(), json!(level)))
}

/// Checks that the endpoint accepts its key, with a request for its models.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    models(endpoint).await.map(drop)
}

/// Fetches the ids of the endpoint's models.
pub async fn models(endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    window::models(&Http::new(RequestOptions::default().connect_timeout), endpoint).await
}
