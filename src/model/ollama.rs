//! Ollama's own API. Unlike Ollama's chat completions, it allows the model's full context window.

mod answer;
mod facts;
mod messages;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use self::answer::OllamaAnswer;
use self::facts::{Facts, KEY_HEADER};
use self::messages::{BACKEND_NAME, OllamaTarget};
use super::chat::answer::ChatAnswer;
use super::chat::echo::AnswerSource;
use super::chat::{self, schema};
use super::endpoint::{Connect, Endpoint};
use super::http::Http;
use super::names::accepted;
use super::options::RequestOptions;
use super::queries::ListedModel;
use super::report::Report;
use super::request_loop::{self, AnswerVerdict, Api, ApiClient};
use super::retry::{AttemptFailure, RequestFailure};
use super::room;
use super::{Chunk, Error, Finish, FinishReason, Model, Prompt, ThinkingLevels, catalog};
use parking_lot::Mutex;

/// A model that Ollama runs.
pub struct Ollama {
    name: String,
    api: Arc<OllamaApi>,
}

struct OllamaApi {
    model: catalog::ModelProperties,
    client: ApiClient,
    /// The user's thinking level.
    think: Option<Value>,
    /// Facts on the model from the server; `None` until the server has told them.
    facts: Mutex<Option<Arc<Facts>>>,
}

impl Ollama {
    /// Creates the model from its catalog entry; opens no connection yet. The error for an unknown thinking level
    /// lists the levels.
    pub fn new(
        model: catalog::ModelProperties,
        connect: Connect,
        options: RequestOptions,
    ) -> Result<Self, Error> {
        let think = options.thinking.as_deref().map(|level| think(&model, level)).transpose()?;
        let name = model.provider.qualify(&model.id);
        let client = ApiClient::new(connect, options);
        let api = OllamaApi { model, client, think, facts: Mutex::default() };
        Ok(Self { name, api: Arc::new(api) })
    }
}

impl Model for Ollama {
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
        self.api.facts.lock().as_ref()?.context
    }

    fn learn_window(&self) -> BoxFuture<'static, ()> {
        let api = Arc::clone(&self.api);
        let learn = async move {
            let is_known = api.facts.lock().is_some();
            if let (false, Ok(endpoint)) = (is_known, api.client.endpoint()) {
                // After an error, the request itself asks again, and reports the error.
                let _ = timeout(api.client.options.facts_wait, api.prepare(&endpoint)).await;
            }
        };
        learn.boxed()
    }

    /// Returns the levels, unless Ollama has said that the model does not think.
    fn thinking(&self) -> ThinkingLevels {
        if self.api.facts.lock().as_ref().is_some_and(|facts| !facts.thinks) {
            return ThinkingLevels::default();
        }
        self.api.model.thinking_levels(self.api.client.options.thinking.as_deref())
    }
}

impl Api for OllamaApi {
    type Answer = OllamaAnswer;

    fn client(&self) -> &ApiClient {
        &self.client
    }

    /// Fetches the model's context window and capabilities, which a request depends on.
    async fn prepare(&self, endpoint: &Endpoint) -> Result<(), RequestFailure> {
        if self.facts.lock().as_ref().is_some_and(|facts| facts.url == endpoint.url) {
            return Ok(());
        }
        let facts = facts::find(&self.client.http, endpoint, &self.model).await?;
        *self.facts.lock() = Some(Arc::new(facts));
        Ok(())
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        _: &OllamaAnswer,
    ) -> Result<reqwest::Request, Error> {
        let facts = self.facts.lock().clone().unwrap_or_default();
        if !facts.tools && !prompt.tools.is_empty() {
            return Err(Error::Rejected(format!(
                "The model `{}` cannot call tools, so it cannot work with tandem. Choose another model.",
                self.model.id
            )));
        }
        // Ollama is asked for the facts again before the next request: the person may have given the model a larger
        // window.
        room::check(facts.context, prompt).inspect_err(|_| *self.facts.lock() = None)?;
        let body = self.body(prompt, &facts, nudge)?;
        let mut request = endpoint.request(Method::POST, "/api/chat", KEY_HEADER)?;
        *request.body_mut() = Some(body.to_string().into());
        Ok(request)
    }

    fn begin(&self) -> OllamaAnswer {
        OllamaAnswer(ChatAnswer::new(self.client.options.max_answer))
    }

    fn classify(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> AttemptFailure {
        if report.says(&["requires more system memory", "out of memory"]) {
            let what = "The model needs more memory than the machine of Ollama has free. Choose a smaller model, or give \
                the model a shorter context: `inputTokens` in `models.json`.";
            return RequestFailure::terminal(Error::Unavailable(report.with_message(what))).into();
        }
        let trouble = report.classify(endpoint.request_info(&self.model.id));
        room::explain(trouble, report, prompt)
    }

    fn not_running(&self, endpoint: &Endpoint) -> Option<String> {
        Some(format!(
            "Ollama does not answer at {}. Start it with `ollama serve`, or set OLLAMA_HOST to its \
             address.",
            endpoint.url
        ))
    }

    fn answer_verdict(
        &self,
        OllamaAnswer(answer): &mut OllamaAnswer,
        prompt: &Prompt,
    ) -> AnswerVerdict {
        chat::answer_verdict(answer, prompt)
    }

    fn finish(
        &self,
        OllamaAnswer(answer): OllamaAnswer,
        prompt: &Prompt,
        reason: FinishReason,
    ) -> (Vec<Chunk>, Finish) {
        let source = AnswerSource { backend: BACKEND_NAME, model: &self.model.id };
        chat::finish(answer, prompt, reason, source)
    }

    async fn models(&self, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
        facts::models(&self.client.http, endpoint).await.map_err(|failure| failure.error)
    }
}

impl OllamaApi {
    fn body(&self, prompt: &Prompt, facts: &Facts, nudge: Option<&str>) -> Result<Value, Error> {
        let target = OllamaTarget { model: &self.model.id, images: facts.images };
        let mut options = Map::new();
        options.extend(facts.sent_context.map(|tokens| ("num_ctx".to_owned(), json!(tokens))));
        let limit = Some(self.model.output_tokens).filter(|tokens| *tokens > 0);
        let limit = limit.or_else(|| room::of_answer(facts.context, prompt));
        options.extend(limit.map(|tokens| ("num_predict".to_owned(), json!(tokens))));
        let mut body = json!({
            "model": self.model.id,
            "stream": true,
            "messages": messages::messages(prompt, target, nudge),
            "options": options,
            // A conversation that does not fit must be an error: by default, Ollama drops its beginning.
            "truncate": false,
            "shift": false,
        });
        // A format keeps a model of Ollama from calling tools: it would have to begin with the answer.
        if let Some(schema) = prompt.answer_schema.as_ref().filter(|_| prompt.tools.is_empty()) {
            body["format"] = schema.sent();
        }
        if !prompt.tools.is_empty() {
            let tools = prompt.tools.iter().map(|tool| {
                let parameters = schema::simple(&tool.parameters);
                let (name, description) = (accepted(&tool.name), &tool.description);
                let function =
                    json!({ "name": name, "description": description, "parameters": parameters });
                json!({ "type": "function", "function": function })
            });
            body["tools"] = tools.collect();
        }
        // Ollama refuses a thinking level for a model that does not think.
        let may_think = facts.thinks || facts.url.is_empty();
        let level = prompt.thinking.as_deref().filter(|_| may_think);
        let asked = level.map(|level| think(&self.model, level)).transpose()?;
        let asked = asked.or_else(|| self.think.clone());
        if let Some(think) = asked.or(facts.thinks.then(|| json!(true))) {
            body["think"] = think;
        }
        Ok(body)
    }
}

/// Returns the value of the request's field `think` for a level. The error lists the levels.
fn think(model: &catalog::ModelProperties, level: &str) -> Result<Value, Error> {
    Ok(match model.level(level).map_err(Error::Rejected)? {
        "on" => json!(true),
        "off" => json!(false),
        level => json!(level),
    })
}

/// Checks that Ollama answers, and that it accepts the key if there is one.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    let http = Http::new(RequestOptions::default().connect_timeout);
    facts::models(&http, endpoint).await.map(drop).map_err(|failure| failure.error)
}

/// Fetches Ollama's models.
pub(super) async fn list(
    http: &Http,
    endpoint: &Endpoint,
) -> Result<Vec<ListedModel>, RequestFailure> {
    let names = facts::models(http, endpoint).await?;
    Ok(names.into_iter().map(|id| ListedModel { id, window: None }).collect())
}
