//! Chat completions, the API of `OpenAI` and of nearly every other server: any address, any model.

mod answer;
mod facts;
mod messages;
mod quirks;
mod request;
mod wire;

use std::borrow::Cow;
use std::sync::Arc;

use futures::stream::BoxStream;
use reqwest::Method;
use serde_json::{Map, Value, json};

use self::answer::OpenAiAnswer;
use self::facts::{Facts, KEY_HEADER};
use self::messages::BACKEND;
use self::quirks::{Quirk, ServerQuirks};
use self::request::ChatCompletionRequest;
use super::chat;
use super::chat::answer::ChatAnswer;
use super::endpoint::{Connect, Endpoint};
use super::http::{self, Http};
use super::options::RequestOptions;
use super::provider::Provider;
use super::report::Report;
use super::request_loop::{self, AnswerVerdict, Api, ApiClient};
use super::retry::{RequestFailure, Trouble};
use super::room;
use super::{Chunk, Error, Finish, FinishReason, Model, Prompt, ThinkingLevels, catalog};
use parking_lot::Mutex;
use tokio::time::timeout;

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
    /// Fields that every request has.
    settings: Map<String, Value>,
    /// Quirks of the server of the last request.
    server: Mutex<Arc<ServerQuirks>>,
    /// Facts on the model from the server of the last request.
    facts: Mutex<Facts>,
}

impl OpenAi {
    /// Creates the model from its catalog entry; opens no connection yet. The error for an unknown thinking level
    /// lists the levels.
    pub fn new(
        model: catalog::ModelProperties,
        connect: Connect,
        options: RequestOptions,
    ) -> Result<Self, Error> {
        let effort = options.thinking.as_deref().map(|level| effort(&model, level)).transpose()?;
        let mut settings: Map<_, _> = effort.into_iter().collect();
        settings.extend(options.generation.clone());
        let name = Provider::OpenAi.qualify(&model.id);
        let (server, facts) = (Mutex::default(), Mutex::default());
        let api =
            OpenAiApi { model, client: ApiClient::new(connect, options), settings, server, facts };
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
        self.api.set_window().or_else(|| self.api.facts.lock().window)
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
        if let Ok(endpoint) = self.client.endpoint() {
            self.find_facts(&endpoint).await;
        }
    }

    /// Asks a server on this machine for its facts before the request. Such a server answers at once, and is often
    /// started with a window or a template that no agent can work with.
    async fn prepare(&self, endpoint: &Endpoint) -> Result<(), RequestFailure> {
        if http::is_local(&endpoint.url) {
            // If the server takes longer, `probe` asks it again while the request runs.
            let _ = timeout(self.client.options.facts_wait, self.find_facts(endpoint)).await;
        }
        Ok(())
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        _: &OpenAiAnswer,
    ) -> Result<reqwest::Request, Error> {
        self.check_server(endpoint, prompt)?;
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
            output_tokens: self.output_tokens(endpoint, prompt, &server).unwrap_or(0),
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
        let is_limited = self.derived_limit(endpoint, prompt, &self.server(endpoint)).is_some();
        let may_pass =
            report.lasting(asked).is_none() || report.is_about_answer_limit() && is_limited;
        if may_pass && self.learn(report, endpoint, prompt) {
            return RequestFailure::adapted("").into();
        }
        let trouble = report.classify(asked);
        if http::is_self_hosted(&endpoint.url) {
            room::explain(trouble, report, prompt)
        } else {
            trouble
        }
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
        facts::models(&self.client.http, endpoint).await
    }
}

impl OpenAiApi {
    /// Returns the context window that the user has set in `models.json`, in tokens.
    fn set_window(&self) -> Option<u64> {
        Some(self.model.input_tokens).filter(|tokens| *tokens > 0)
    }

    /// Returns the context window at a server in tokens, if it is known.
    fn window(&self, endpoint: &Endpoint) -> Option<u64> {
        self.set_window().or_else(|| self.facts_of(endpoint).window)
    }

    /// Refuses a request that the server is known to be unable to handle. The server is asked again before the next
    /// request: the person may have restarted it with other settings.
    fn check_server(&self, endpoint: &Endpoint, prompt: &Prompt) -> Result<(), Error> {
        let checked = if self.facts_of(endpoint).drops_tools && !prompt.tools.is_empty() {
            Err(Error::Rejected(format!(
                "The chat template of the model `{}` has no place for tools, so the server at {} leaves \
                 them out and the model can do nothing here. Start the server with a template that has \
                 one (`--chat-template-file` of llama.cpp), or choose another model.",
                self.model.id, endpoint.url
            )))
        } else {
            room::check(self.window(endpoint), prompt)
        };
        checked.inspect_err(|_| *self.facts.lock() = Facts::default())
    }

    /// Asks the server for its facts on the model, unless they are known.
    async fn find_facts(&self, endpoint: &Endpoint) {
        // A remote server only tells its context window, which the user has set then; a local server also tells about
        // its template.
        let needs_none = self.model.input_tokens > 0 && !http::is_local(&endpoint.url);
        let is_known = self.facts.lock().url == endpoint.url;
        if is_known || needs_none || http::is_on_host(&endpoint.url, SILENT) {
            return;
        }
        let facts = facts::find(&self.client.http, endpoint, &self.model.id).await;
        *self.facts.lock() = facts;
    }

    /// Returns the known facts of the server. Facts of another server are not returned.
    fn facts_of(&self, endpoint: &Endpoint) -> Facts {
        let facts = self.facts.lock();
        if facts.url == endpoint.url { facts.clone() } else { Facts::default() }
    }

    /// Returns the limit of an answer in tokens, if there is one.
    fn output_tokens(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        server: &ServerQuirks,
    ) -> Option<u64> {
        let set = Some(self.model.output_tokens).filter(|tokens| *tokens > 0);
        set.or_else(|| self.derived_limit(endpoint, prompt, server))
    }

    /// Returns the limit of an answer that follows from the context window alone. Servers that are paid by the token
    /// have limits of their own.
    fn derived_limit(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        server: &ServerQuirks,
    ) -> Option<u64> {
        let has_none = self.model.output_tokens > 0
            || server.has(Quirk::NoAnswerLimit)
            || !http::is_self_hosted(&endpoint.url);
        if has_none { None } else { room::of_answer(self.window(endpoint), prompt) }
    }

    /// Returns the server's known quirks.
    fn server(&self, endpoint: &Endpoint) -> Arc<ServerQuirks> {
        let mut server = self.server.lock();
        if server.url() != endpoint.url {
            *server = Arc::new(ServerQuirks::new(&endpoint.url, &self.model.id));
        }
        Arc::clone(&server)
    }

    /// Learns a quirk from an error; returns `true` if there was one to learn.
    fn learn(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> bool {
        let mut server = self.server.lock();
        let quirk = Arc::make_mut(&mut server).learn(report, prompt);
        if let Some(quirk) = quirk {
            tracing::info!(?quirk, url = endpoint.url, "request adapted to the server");
        }
        quirk.is_some()
    }
}

/// Returns the field of a request for a thinking level. The error lists the levels.
fn effort(model: &catalog::ModelProperties, level: &str) -> Result<(String, Value), Error> {
    let level = model.level(level).map_err(Error::Rejected)?;
    Ok((EFFORT.to_owned(), json!(level)))
}

/// Checks that the endpoint accepts its key, by a request for its models.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    models(endpoint).await.map(drop)
}

/// Fetches the ids of the endpoint's models.
pub async fn models(endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    facts::models(&Http::new(RequestOptions::default().connect_timeout), endpoint).await
}
