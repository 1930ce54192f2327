//! Anthropic's Messages API and compatible ones, over server-sent events.

mod answer;
mod block;
mod call;
mod finish;
mod messages;
mod quirks;
mod request;
mod thinking;
mod wire;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use self::answer::AnthropicAnswer;
use self::messages::AnthropicTarget;
use self::quirks::Quirks;
use self::request::MessagesRequest;
use self::thinking::ThinkingConfig;
use super::endpoint::{Connect, Endpoint};
use super::http::Http;
use super::options::RequestOptions;
use super::provider::Provider;
use super::report::Report;
use super::request_loop::{self, AnswerVerdict, Api, ApiClient, follows_results};
use super::retry::{AttemptFailure, RequestFailure};
use super::{Chunk, Error, Finish, FinishReason, Model, Prompt, ThinkingLevels, catalog, tokens};
use parking_lot::Mutex;

/// A model behind Anthropic's API.
pub struct Anthropic {
    name: String,
    api: Arc<AnthropicApi>,
}

struct AnthropicApi {
    model: catalog::ModelProperties,
    client: ApiClient,
    thinking: ThinkingConfig,
    /// Maximum number of tokens of an answer.
    max_tokens: u64,
    /// Limits and refusals that the server has shown so far.
    quirks: Mutex<Quirks>,
}

/// Maximum number of tokens of an answer of an unknown model, which every model supports.
const MAX_TOKENS: u64 = 8192;

impl Anthropic {
    /// Creates the model from its catalog entry; opens no connection yet. The error for an unknown thinking level
    /// lists the levels.
    pub fn new(
        model: catalog::ModelProperties,
        connect: Connect,
        options: RequestOptions,
    ) -> Result<Self, Error> {
        let known = Some(model.output_tokens).filter(|tokens| *tokens > 0);
        let max_tokens = known.unwrap_or(MAX_TOKENS);
        let thinking = ThinkingConfig::new(&model, max_tokens, options.thinking.as_deref());
        let name = model.provider.qualify(&model.id);
        let api = AnthropicApi {
            thinking: thinking.map_err(Error::Rejected)?,
            max_tokens,
            model,
            client: ApiClient::new(connect, options),
            quirks: Mutex::default(),
        };
        Ok(Self { name, api: Arc::new(api) })
    }
}

impl Model for Anthropic {
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
        Some(self.api.model.input_tokens).filter(|tokens| *tokens > 0)
    }

    fn thinking(&self) -> ThinkingLevels {
        self.api.model.thinking_levels(self.api.client.options.thinking.as_deref())
    }

    fn count(&self, prompt: Prompt) -> BoxFuture<'static, u64> {
        let api = Arc::clone(&self.api);
        // The tokens of text are estimated well enough without a request.
        if !tokens::has_media(&prompt) {
            return std::future::ready(tokens::of_prompt(&prompt)).boxed();
        }
        async move {
            let refused = Arc::clone(&api.quirks.lock().refused);
            let target = AnthropicTarget { model: &api.model.id, refused: &refused };
            let body = request::count_body(&prompt, target);
            let counted = call::count(&api.client, body).await;
            counted.unwrap_or_else(|| tokens::of_prompt(&prompt))
        }
        .boxed()
    }
}

impl Api for AnthropicApi {
    type Answer = AnthropicAnswer;

    fn client(&self) -> &ApiClient {
        &self.client
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        answer: &AnthropicAnswer,
    ) -> Result<reqwest::Request, Error> {
        let quirks = self.quirks.lock().clone();
        let body = MessagesRequest {
            prompt,
            target: AnthropicTarget { model: &self.model.id, refused: &quirks.refused },
            thinking: &quirks.thinking(&self.thinking(prompt)?),
            max_tokens: quirks.max_tokens(prompt, self.max_tokens),
            answer_schema: self
                .model
                .enforced_schema(endpoint, prompt)
                .filter(|_| !quirks.no_answer_schema),
            nudge,
            so_far: &answer.parts(),
            is_vertex: endpoint.provider == Provider::Vertex,
        }
        .body()?;
        call::answer(endpoint, &self.model.id, body)
    }

    fn begin(&self) -> AnthropicAnswer {
        AnthropicAnswer::new(self.client.options.max_answer)
    }

    fn classify(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> AttemptFailure {
        let has_schema = self.model.enforced_schema(endpoint, prompt).is_some();
        if has_schema && self.quirks.lock().learn_no_schema(report) {
            return RequestFailure::adapted("").into();
        }
        // A request can only have failed after it was written, so its thinking level is valid.
        let thinking = self.thinking(prompt).unwrap_or_else(|_| self.thinking.clone());
        if self.quirks.lock().learn(report, prompt, self.max_tokens, &thinking) {
            return RequestFailure::adapted("").into();
        }
        match quirks::classify(report, &prompt.tools) {
            Some(error) => RequestFailure::terminal(error).into(),
            None => report.classify(endpoint.request_info(&self.model.id)),
        }
    }

    fn answer_verdict(&self, answer: &mut AnthropicAnswer, prompt: &Prompt) -> AnswerVerdict {
        finish::answer_verdict(answer, follows_results(prompt))
    }

    fn finish(
        &self,
        answer: AnthropicAnswer,
        prompt: &Prompt,
        reason: FinishReason,
    ) -> (Vec<Chunk>, Finish) {
        // Calls count only when the answer is complete: until then, the provider may refuse it.
        let calls = match reason {
            FinishReason::Refused(_) => Vec::new(),
            _ => answer.calls(&prompt.tools).map(Chunk::Call).collect(),
        };
        let (usage, native) = (answer.usage(), answer.native(&self.model.id));
        (calls, Finish { reason, usage, native })
    }

    async fn models(&self, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
        call::list(&self.client.http, endpoint, 1000).await
    }
}

impl AnthropicApi {
    /// Returns the thinking fields that a prompt asks for.
    fn thinking(&self, prompt: &Prompt) -> Result<ThinkingConfig, Error> {
        let Some(level) = &prompt.thinking else { return Ok(self.thinking.clone()) };
        let thinking = ThinkingConfig::new(&self.model, self.max_tokens, Some(level));
        thinking.map_err(Error::Rejected)
    }
}

/// Checks that the endpoint accepts its key, with the smallest possible request.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    let http = Http::new(RequestOptions::default().connect_timeout);
    call::list(&http, endpoint, 1).await.map(drop)
}
