//! The server of one model: the HTTP client, and the facts that requests of both APIs need.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::facts::{self, Facts};
use super::images::RefusedImages;
use super::quirks::Features;
use crate::catalog::{Catalog, ModelProperties};
use crate::endpoint::Endpoint;
use crate::provider::Provider;
use crate::report::Report;
use crate::request_loop::ApiClient;
use crate::retry::AttemptFailure;
use crate::{Error, Prompt, http, room};

/// Host that does not publish context windows.
const PUBLIC_HOST: &str = "api.openai.com";

/// Model, HTTP client and known facts of its server.
pub(super) struct OpenAiServer {
    pub(super) model: ModelProperties,
    pub(super) client: ApiClient,
    /// `true` if the model is one of `OpenAI`'s own.
    is_openais: bool,
    /// Facts on the model from the server of the last request.
    facts: Mutex<Facts>,
    /// Search for facts that runs or was the last; weak, so that nothing runs on that no request waits for.
    search: Mutex<Option<FactSearch>>,
    refused_images: Mutex<Arc<RefusedImages>>,
}

/// Search for the facts of a server.
struct FactSearch {
    /// Base URL of the server.
    url: String,
    done: WeakShared<BoxFuture<'static, ()>>,
}

impl OpenAiServer {
    /// Creates the server of a model; opens no connection yet.
    pub(super) fn new(model: ModelProperties, client: ApiClient) -> Self {
        // The user's rows may also name an API, for any model.
        let embedded = Catalog::embedded().lookup(&Provider::OpenAi.qualify(&model.id));
        let is_openais = embedded.wire.is_some();
        let (facts, search, refused_images) =
            (Mutex::default(), Mutex::default(), Mutex::default());
        Self { model, client, is_openais, facts, search, refused_images }
    }

    /// Collects facts for later requests, while a request runs.
    pub(super) async fn probe(self: &Arc<Self>) {
        if let Ok(endpoint) = self.client.endpoint() {
            self.find_facts(&endpoint).await;
        }
    }

    /// Asks a server on this machine for its facts before the request. Such a server answers at once, and is often
    /// started with a window or a template that no agent can work with.
    pub(super) async fn prepare(self: &Arc<Self>, endpoint: &Endpoint) {
        if http::is_local(&endpoint.url) {
            // If the server takes longer, `probe` waits for the rest of the same search while the request runs.
            let _ = timeout(self.client.options.facts_wait, self.find_facts(endpoint)).await;
        }
    }

    /// Returns the context window in tokens: the window in the catalog, else the window that the server of the last
    /// request has told.
    pub(super) fn known_window(&self) -> Option<u64> {
        self.set_window().or_else(|| self.facts.lock().window)
    }

    /// Refuses a request that the server is known to be unable to handle. The server is asked again before the next
    /// request: the person may have restarted it with other settings.
    pub(super) fn check(&self, endpoint: &Endpoint, prompt: &Prompt) -> Result<(), Error> {
        let checked = if self.facts_of(endpoint).drops_tools && !prompt.tools.is_empty() {
            Err(Error::Rejected(format!(
                "The chat template of the model `{}` has no place for tools, so the server at {} leaves the \
                 tools out and the model can do nothing. Start the server with a template that has one \
                 (`--chat-template-file` of llama.cpp), or choose another model.",
                self.model.id, endpoint.url
            )))
        } else {
            room::check(self.window(endpoint), prompt)
        };
        checked.inspect_err(|_| *self.facts.lock() = Facts::default())
    }

    /// Returns the thinking level that a prompt or the settings ask for. The error lists the levels.
    pub(super) fn effort<'a>(&'a self, prompt: &'a Prompt) -> Result<Option<&'a str>, Error> {
        let asked = prompt.thinking.as_ref().or(self.client.options.thinking.as_ref());
        asked.map(|level| self.model.level(level).map_err(Error::Rejected)).transpose()
    }

    /// Returns the features of a prompt that the server may refuse.
    pub(super) fn features(&self, endpoint: &Endpoint, prompt: &Prompt) -> Features {
        let answer_schema = self.model.enforced_schema(endpoint, prompt).is_some();
        Features { answer_schema, ..Features::from_prompt(prompt) }
    }

    /// Returns the limit of an answer in tokens that the catalog sets.
    pub(super) fn set_limit(&self) -> Option<u64> {
        Some(self.model.output_tokens).filter(|tokens| *tokens > 0)
    }

    /// Returns the limit of an answer that follows from the context window alone. Servers that are paid by the token
    /// have limits of their own, and so have `OpenAI`'s models behind a gateway that people run.
    pub(super) fn derived_limit(&self, endpoint: &Endpoint, prompt: &Prompt) -> Option<u64> {
        let is_paid = !http::is_self_hosted(&endpoint.url) || self.is_openais;
        let has_none = self.set_limit().is_some() || is_paid;
        if has_none { None } else { room::of_answer(self.window(endpoint), prompt) }
    }

    /// Leaves out the images from now on that may be behind an error about one image; returns `false` if none is new,
    /// or if the error has another cause.
    pub(super) fn refuse_images(&self, report: &Report, prompt: &Prompt) -> bool {
        report.is_about_one_image()
            && Arc::make_mut(&mut self.refused_images.lock()).add(&prompt.messages)
    }

    /// Explains trouble with the context window of a server that the user runs, who can change the window.
    pub(super) fn explain(
        trouble: AttemptFailure,
        report: &Report,
        endpoint: &Endpoint,
        prompt: &Prompt,
    ) -> AttemptFailure {
        if http::is_self_hosted(&endpoint.url) {
            room::explain(trouble, report, prompt)
        } else {
            trouble
        }
    }

    /// Returns the images that are not sent again.
    pub(super) fn refused_images(&self) -> Arc<RefusedImages> {
        Arc::clone(&self.refused_images.lock())
    }

    /// Returns the context window that the catalog has, in tokens.
    fn set_window(&self) -> Option<u64> {
        Some(self.model.input_tokens).filter(|tokens| *tokens > 0)
    }

    /// Returns the context window at a server in tokens, if it is known.
    fn window(&self, endpoint: &Endpoint) -> Option<u64> {
        self.set_window().or_else(|| self.facts_of(endpoint).window)
    }

    /// Asks the server for its facts on the model, unless they are known.
    async fn find_facts(self: &Arc<Self>, endpoint: &Endpoint) {
        // A remote server reports nothing but its context window, so it is not asked if the user has set the window. A
        // local server also reports its chat template.
        let needs_none = self.model.input_tokens > 0 && !http::is_local(&endpoint.url);
        let is_known = self.facts.lock().url == endpoint.url;
        // Azure does not tell context windows.
        let tells_none =
            endpoint.provider == Provider::Azure || http::is_on_host(&endpoint.url, PUBLIC_HOST);
        if is_known || needs_none || tells_none {
            return;
        }
        self.search(endpoint).await;
    }

    /// Returns the search for the server's facts that runs; begins one if none does. The request and its probe share
    /// one search, so that the server is asked once.
    fn search(self: &Arc<Self>, endpoint: &Endpoint) -> Shared<BoxFuture<'static, ()>> {
        let mut search = self.search.lock();
        let running = search.as_ref().filter(|running| running.url == endpoint.url);
        if let Some(running) = running.and_then(|running| running.done.upgrade()) {
            return running;
        }
        let (server, endpoint) = (Arc::clone(self), endpoint.clone());
        let url = endpoint.url.clone();
        let found = async move {
            let facts = facts::find(&server.client.http, &endpoint, &server.model.id).await;
            *server.facts.lock() = facts;
        };
        let found = found.boxed().shared();
        *search = found.downgrade().map(|done| FactSearch { url, done });
        found
    }

    /// Returns the known facts of the server. Facts of another server are not returned.
    fn facts_of(&self, endpoint: &Endpoint) -> Facts {
        let facts = self.facts.lock();
        if facts.url == endpoint.url { facts.clone() } else { Facts::default() }
    }
}
