//! The Gemini API: `streamGenerateContent` over server-sent events.

mod answer;
mod call;
mod contents;
mod errors;
mod finish;
mod request;
mod search;
mod wire;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value, json};

use self::answer::GeminiAnswer;
use self::contents::{GeminiTarget, RefusedSignatures};
use self::request::GenerateContentRequest;
pub use self::search::GroundedAnswer;
use super::endpoint::{Connect, Endpoint};
use super::http::Http;
use super::options::RequestOptions;
use super::report::Report;
use super::request_loop::{self, AnswerVerdict, Api, ApiClient, follows_results};
use super::retry::{AttemptFailure, RequestFailure};
use super::{
    Chunk, Error, Finish, FinishReason, Model, Prompt, ThinkingLevels, answer_schema, catalog,
    tokens,
};
use parking_lot::Mutex;

/// Field of the `generationConfig` for the thinking level.
const THINKING_FIELD: &str = "thinkingConfig";
/// Field of the `generationConfig` for the schema of the answer.
const SCHEMA_FIELD: &str = "responseJsonSchema";

/// A model behind the Gemini API.
pub struct Gemini(Arc<GeminiApi>);

struct GeminiApi {
    /// Id of the model, as `--model` takes it.
    name: String,
    model: catalog::ModelProperties,
    client: ApiClient,
    /// Fields of the `generationConfig` of each request.
    generation: Map<String, Value>,
    /// Signatures that the server has refused, and which are not sent again.
    refused: Mutex<Arc<RefusedSignatures>>,
    /// `true` once the server has refused a schema of the answer.
    no_answer_schema: AtomicBool,
}

impl Gemini {
    /// Creates the model from its catalog entry; opens no connection yet. The error for an unknown thinking level
    /// lists the levels.
    pub fn new(
        model: catalog::ModelProperties,
        connect: Connect,
        options: RequestOptions,
    ) -> Result<Self, Error> {
        let thinking = model.thinking_config(options.thinking.as_deref());
        let thinking = thinking.map_err(Error::Rejected)?;
        let thinking = thinking.map(|thinking| (THINKING_FIELD.to_owned(), thinking));
        let generation = thinking.into_iter().collect();
        let client = ApiClient::new(connect, options);
        let name = model.provider.qualify(&model.id);
        let refused = Mutex::default();
        let no_answer_schema = AtomicBool::new(false);
        let api = GeminiApi { name, model, client, generation, refused, no_answer_schema };
        Ok(Self(Arc::new(api)))
    }
}

impl Gemini {
    /// Answers a question with Google Search.
    pub async fn search(&self, query: &str) -> Result<GroundedAnswer, Error> {
        search::search(&self.0.client, &self.0.model.id, query).await
    }
}

impl Model for Gemini {
    fn id(&self) -> &str {
        &self.0.name
    }

    fn ready(&self) -> Result<(), Error> {
        self.0.client.ready()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        request_loop::stream(Arc::clone(&self.0), prompt)
    }

    fn input_limit(&self) -> Option<u64> {
        Some(self.0.model.input_tokens)
    }

    fn thinking(&self) -> ThinkingLevels {
        self.0.model.thinking_levels(self.0.client.options.thinking.as_deref())
    }

    fn count(&self, prompt: Prompt) -> BoxFuture<'static, u64> {
        let api = Arc::clone(&self.0);
        // The tokens of text are estimated well enough without a request.
        if !tokens::has_media(&prompt) {
            return std::future::ready(tokens::of_prompt(&prompt)).boxed();
        }
        async move {
            let refused = Arc::clone(&api.refused.lock());
            let body = api.plain_request(&prompt, &refused).count_body();
            let model = &api.model.id;
            // The API counts only the conversation, so the system text and the tools are estimated.
            let rest = Prompt { messages: Vec::new(), ..prompt.clone() };
            match call::count(&api.client, model, body).await {
                Some(tokens) => tokens + tokens::of_prompt(&rest),
                None => tokens::of_prompt(&prompt),
            }
        }
        .boxed()
    }
}

impl GeminiApi {
    fn target<'a>(&'a self, refused: &'a RefusedSignatures) -> GeminiTarget<'a> {
        GeminiTarget {
            model: &self.model.id,
            signatures: self.model.signatures,
            media_in_responses: self.model.media_in_responses,
            refused,
        }
    }

    /// Returns the request for a prompt, without a nudge and from the beginning of the answer.
    fn plain_request<'a>(
        &'a self,
        prompt: &'a Prompt,
        refused: &'a RefusedSignatures,
    ) -> GenerateContentRequest<'a> {
        GenerateContentRequest {
            prompt,
            target: self.target(refused),
            generation: &self.generation,
            nudge: None,
            token: None,
        }
    }

    /// Returns the `generationConfig` of a request.
    fn generation(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
    ) -> Result<Cow<'_, Map<String, Value>>, Error> {
        let mut generation = Cow::Borrowed(&self.generation);
        if let Some(level) = &prompt.thinking {
            let thinking = self.model.thinking_config(Some(level)).map_err(Error::Rejected)?;
            let thinking = thinking.map(|thinking| (THINKING_FIELD.to_owned(), thinking));
            generation.to_mut().extend(thinking);
        }
        if let Some(schema) = self.answer_schema(endpoint, prompt) {
            let fields = [("responseMimeType", json!("application/json")), (SCHEMA_FIELD, schema)];
            generation.to_mut().extend(fields.map(|(name, value)| (name.to_owned(), value)));
        }
        Ok(generation)
    }

    /// Returns the schema of an answer, if the server is known to enforce a schema in requests that also have tools.
    fn answer_schema(&self, endpoint: &Endpoint, prompt: &Prompt) -> Option<Value> {
        let schema = self.model.enforced_schema(endpoint, prompt);
        schema
            .filter(|_| !self.no_answer_schema.load(Relaxed))?
            .in_dialect(&answer_schema::GEMINI_DIALECT)
    }

    /// Leaves out the conversation's signatures from now on. If none of them is new, they cannot be the reason for
    /// the error, and the failure is final.
    fn refuse_signatures(&self, prompt: &Prompt, error: Error) -> RequestFailure {
        let mut refused = self.refused.lock();
        let before = refused.len();
        Arc::make_mut(&mut refused).extend(contents::signatures(&prompt.messages));
        if refused.len() > before {
            RequestFailure::adapted("signatures refused")
        } else {
            RequestFailure::terminal(error)
        }
    }
}

impl Api for GeminiApi {
    type Answer = GeminiAnswer;

    fn client(&self) -> &ApiClient {
        &self.client
    }

    fn begin(&self) -> GeminiAnswer {
        GeminiAnswer::new(self.client.options.max_answer)
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        answer: &GeminiAnswer,
    ) -> Result<reqwest::Request, Error> {
        let refused = Arc::clone(&self.refused.lock());
        let plain = self.plain_request(prompt, &refused);
        let generation = self.generation(endpoint, prompt)?;
        let more = GenerateContentRequest { nudge, token: answer.token(), ..plain };
        let body = GenerateContentRequest { generation: &generation, ..more }.body()?;
        call::post(endpoint, &self.model.id, "streamGenerateContent?alt=sse", body)
    }

    fn classify(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> AttemptFailure {
        if report.is_about_answer_schema() && self.answer_schema(endpoint, prompt).is_some() {
            self.no_answer_schema.store(true, Relaxed);
            return RequestFailure::adapted("").into();
        }
        match errors::refused_signatures(report) {
            Some(error) => self.refuse_signatures(prompt, error).into(),
            None => errors::classify(report, endpoint.request_info(&self.model.id), &prompt.tools),
        }
    }

    /// Returns `None`: gateways to the Gemini API on this machine are often restarted, so they are waited for.
    fn not_running(&self, _: &Endpoint) -> Option<String> {
        None
    }

    fn answer_verdict(&self, answer: &mut GeminiAnswer, prompt: &Prompt) -> AnswerVerdict {
        match finish::missing_signatures(answer) {
            Some(error) => self.refuse_signatures(prompt, error).into(),
            None => finish::answer_verdict(answer, follows_results(prompt)),
        }
    }

    fn finish(
        &self,
        answer: GeminiAnswer,
        _: &Prompt,
        reason: FinishReason,
    ) -> (Vec<Chunk>, Finish) {
        let usage = answer.usage();
        (Vec::new(), Finish { reason, usage, native: answer.into_native(&self.model.id) })
    }

    async fn models(&self, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
        call::list(&self.client.http, endpoint, 1000).await
    }
}

/// Checks that the endpoint accepts its key, with the smallest possible request.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    let http = Http::new(RequestOptions::default().connect_timeout);
    call::list(&http, endpoint, 1).await.map(drop)
}

/// Fetches the ids of the endpoint's models that can be used for conversations.
pub async fn models(endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    let http = Http::new(RequestOptions::default().connect_timeout);
    call::list(&http, endpoint, 1000).await
}
