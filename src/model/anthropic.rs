//! Anthropic's API, and what speaks like it: Messages over server-sent events.

mod answer;
mod ask;
mod block;
mod call;
mod errors;
mod finish;
mod messages;
mod request;
mod thinking;
mod wire;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};

use self::errors::Asked;
use self::messages::{Listener, Refused};
use super::endpoint::{Connect, Endpoint};
use super::http::Http;
use super::options::Options;
use super::provider::Provider;
use super::{Chunk, Error, Model, Prompt, catalog, emit, tokens};
use crate::sync::Mutex;

/// A model behind Anthropic's API.
pub struct Anthropic(Arc<Inner>);

struct Inner {
    /// As `--model` takes it.
    id: String,
    model: catalog::Model,
    connect: Connect,
    options: Options,
    thinking: thinking::Asked,
    /// How many tokens an answer may have.
    max_tokens: u64,
    /// What else the user wants in every request.
    more: Map<String, Value>,
    http: Http,
    /// The thinking that has been refused, so that each is refused only once.
    refused: Mutex<Arc<Refused>>,
}

/// What native answers are marked with.
const BACKEND: &str = "anthropic";
/// How many tokens an answer may have where nobody knows: every model can do as much.
const MAX_TOKENS: u64 = 8192;
/// The fields of a request that are made here.
const OWN: [&str; 8] =
    ["model", "max_tokens", "stream", "thinking", "output_config", "tools", "system", "messages"];

impl Anthropic {
    /// The model, as the catalog has it. Nothing is connected yet. The error says which thinking
    /// levels there are, if the one that is asked for is none of them.
    pub fn new(model: catalog::Model, connect: Connect, options: Options) -> Result<Self, Error> {
        let known = Some(model.output_tokens).filter(|tokens| *tokens > 0).unwrap_or(MAX_TOKENS);
        let asked = options.generation.get("max_tokens").and_then(Value::as_u64);
        let max_tokens = asked.filter(|tokens| *tokens > 0).unwrap_or(known);
        let thinking = thinking::Asked::new(&model, max_tokens, options.thinking.as_deref());
        let mut more = options.generation.clone();
        more.retain(|field, _| !OWN.contains(&field.as_str()));
        Ok(Self(Arc::new(Inner {
            id: Provider::Anthropic.qualify(&model.id),
            thinking: thinking.map_err(Error::Rejected)?,
            max_tokens,
            more,
            http: Http::new(options.connect_timeout),
            model,
            connect,
            options,
            refused: Mutex::default(),
        })))
    }
}

impl Model for Anthropic {
    fn id(&self) -> &str {
        &self.0.id
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
        Some(self.0.model.input_tokens).filter(|tokens| *tokens > 0)
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
        Listener { model: &self.model.id, refused }
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
