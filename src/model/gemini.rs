//! The Gemini API: `streamGenerateContent` over server-sent events.

mod answer;
mod ask;
mod call;
mod contents;
mod errors;
mod finish;
mod request;
mod search;
mod wire;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};

use self::contents::{Listener, Refused};
use self::errors::Asked;
pub use self::search::Grounded;
use super::endpoint::{Connect, Endpoint};
use super::http::Http;
use super::options::Options;
use super::{Chunk, Error, Model, Prompt, catalog, emit, tokens};
use crate::sync::Mutex;

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

/// Where the key goes.
const KEY_HEADER: &str = "x-goog-api-key";
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
        endpoint.check()
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
