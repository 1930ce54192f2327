//! The Gemini API: `streamGenerateContent` over server-sent events.

mod answer;
mod ask;
mod call;
mod contents;
mod errors;
mod finish;
mod request;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};

use self::contents::{Listener, Refused};
use self::errors::Asked;
use super::http::{self, Http};
use super::retry::Policy;
use super::{Chunk, Error, Model, Prompt, Secret, catalog, emit, tokens};
use crate::sync::Mutex;

/// Where the API is, and as whom it is called.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Up to and including the collection of models, without a slash at the end:
    /// `https://generativelanguage.googleapis.com/v1beta/models`.
    pub models_url: String,
    /// Sent as `x-goog-api-key`, or as a bearer token. A gateway may need none.
    pub key: Option<Secret>,
    /// Whether the key goes into `Authorization: Bearer`.
    pub bearer: bool,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
}

/// Looks up the endpoint; asked anew for each request, so that a login counts at once. The error
/// says what is missing and what to do.
pub type Connect = Arc<dyn Fn() -> Result<Endpoint, String> + Send + Sync>;

/// How a model is asked, and how much is too much.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much it thinks: one of the levels that the catalog has for it.
    pub thinking: Option<String>,
    /// Fields of `generationConfig` that the user set: sampling, a seed, `maxOutputTokens`.
    pub generation: Map<String, Value>,
    /// When requests fail.
    pub retry: Policy,
    /// When answers are worthless.
    pub content_retry: Policy,
    /// How often an answer that breaks off is taken up again without any progress.
    pub reconnects: u32,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the server may say nothing.
    pub idle: Duration,
    /// How long a stream may stay open after the answer has ended.
    pub linger: Duration,
    /// Bytes of one event.
    pub max_event: usize,
    /// Bytes of one answer.
    pub max_answer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            thinking: None,
            generation: Map::new(),
            retry: Policy::default(),
            content_retry: Policy {
                attempts: 4,
                first: Duration::from_secs(1),
                jitter: 0.0,
                ..Policy::default()
            },
            reconnects: 3,
            connect_timeout: Duration::from_secs(30),
            idle: Duration::from_mins(5),
            linger: Duration::from_secs(5),
            max_event: 32 << 20,
            max_answer: 32 << 20,
        }
    }
}

/// A model behind the Gemini API.
pub struct Gemini(Arc<Inner>);

struct Inner {
    model: catalog::Model,
    connect: Connect,
    options: Options,
    /// The `generationConfig`.
    generation: Map<String, Value>,
    http: Http,
    /// The signatures that have been refused, so that each is refused only once.
    refused: Mutex<Arc<Refused>>,
}

/// What native answers are marked with.
const BACKEND: &str = "gemini";
/// The field of a part that must go back with it unchanged.
const SIGNATURE: &str = "thoughtSignature";

impl Gemini {
    /// The model, as the catalog has it. Nothing is connected yet. The error says which thinking
    /// levels there are, if the one that is asked for is none of them.
    pub fn new(model: catalog::Model, connect: Connect, options: Options) -> Result<Self, Error> {
        let thinking = model.thinking_config(options.thinking.as_deref());
        let mut generation = Map::new();
        if let Some(thinking) = thinking.map_err(Error::Rejected)? {
            generation.insert("thinkingConfig".to_owned(), thinking);
        }
        generation.extend(options.generation.clone());
        let http = Http::new(options.connect_timeout);
        Ok(Self(Arc::new(Inner {
            model,
            connect,
            options,
            generation,
            http,
            refused: Mutex::default(),
        })))
    }
}

impl Model for Gemini {
    fn id(&self) -> &str {
        &self.0.model.id
    }

    fn ready(&self) -> Result<(), Error> {
        let endpoint = (self.0.connect)().map_err(Error::NotAuthenticated)?;
        http::address(&endpoint.models_url).map(drop)
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        let inner = Arc::clone(&self.0);
        emit::answer(|emit| ask::ask(inner, prompt, emit))
    }

    fn input_limit(&self) -> Option<u64> {
        Some(self.0.model.input_tokens)
    }

    fn count(&self, prompt: Prompt) -> BoxFuture<'static, u64> {
        let inner = Arc::clone(&self.0);
        // Text is estimated well enough; it is not worth a request.
        if !tokens::has_media(&prompt) {
            return std::future::ready(tokens::of_prompt(&prompt)).boxed();
        }
        async move { call::count(&inner, &prompt).await }.boxed()
    }
}

impl Inner {
    fn listener<'a>(&'a self, refused: &'a Refused) -> Listener<'a> {
        Listener {
            model: &self.model.id,
            signatures: self.model.signatures,
            media_in_responses: self.model.media_in_responses,
            refused,
        }
    }

    fn asked<'a>(&'a self, prompt: &'a Prompt) -> Asked<'a> {
        Asked { model: &self.model.id, tools: &prompt.tools }
    }
}

/// Whether the endpoint takes its key: asks for as little as can be asked for.
pub async fn check(endpoint: &Endpoint) -> Result<(), Error> {
    let http = Http::new(Options::default().connect_timeout);
    call::list(&http, endpoint, 1).await.map(drop)
}

/// The ids of the models that the endpoint has to offer for conversations.
pub async fn models(endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    let http = Http::new(Options::default().connect_timeout);
    call::list(&http, endpoint, 1000).await
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may hold secrets too.
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Endpoint")
            .field("models_url", &self.models_url)
            .field("key", &self.key)
            .field("bearer", &self.bearer)
            .field("headers", &names)
            .finish()
    }
}
