//! A model that is built at its first use, because loading certificates must not delay the answer to `initialize`.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};

use super::{Chunk, Error, Model, Prompt, ServerModel, ThinkingLevels};

/// A model that is built at its first use.
pub struct Lazy {
    /// Check that replaces [`Model::ready`] before the model is built.
    ready: Box<dyn Fn() -> Result<(), Error> + Send + Sync>,
    make: Box<dyn Fn() -> Result<Arc<dyn Model>, Error> + Send + Sync>,
    /// Work that each request waits for.
    prepare: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    /// The model once it is built, or the error of building it.
    made: OnceLock<Result<Arc<dyn Model>, Error>>,
}

impl Lazy {
    /// Wraps `make`, which builds the model once, and `ready`, which checks before this whether the model can be
    /// called.
    pub fn new(
        ready: impl Fn() -> Result<(), Error> + Send + Sync + 'static,
        make: impl Fn() -> Result<Arc<dyn Model>, Error> + Send + Sync + 'static,
    ) -> Self {
        let prepare = Box::new(|| std::future::ready(()).boxed());
        Self { ready: Box::new(ready), make: Box::new(make), prepare, made: OnceLock::new() }
    }

    /// Waits for `prepare` before each request.
    #[must_use]
    pub fn prepared(
        self,
        prepare: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { prepare: Box::new(prepare), ..self }
    }

    /// Builds the model if necessary, and returns it.
    pub fn get(&self) -> Result<&Arc<dyn Model>, &Error> {
        self.made.get_or_init(&self.make).as_ref()
    }
}

impl Model for Lazy {
    fn id(&self) -> &str {
        self.get().map_or("unknown", |model| model.id())
    }

    fn ready(&self) -> Result<(), Error> {
        match self.made.get() {
            Some(made) => made.as_ref().map_err(Clone::clone)?.ready(),
            None => (self.ready)(),
        }
    }

    fn server_model(&self) -> BoxFuture<'static, Result<Option<ServerModel>, Error>> {
        match self.get() {
            Ok(model) => {
                let (prepared, model) = ((self.prepare)(), Arc::clone(model));
                prepared.then(move |()| model.server_model()).boxed()
            }
            // The error is not lost: the request to the model, which comes next, fails with the same error.
            Err(_) => std::future::ready(Ok(None)).boxed(),
        }
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        match self.get() {
            Ok(model) => {
                let (prepared, model) = ((self.prepare)(), Arc::clone(model));
                prepared.map(move |()| model.stream(prompt)).flatten_stream().boxed()
            }
            Err(error) => stream::iter([Err(error.clone())]).boxed(),
        }
    }

    fn input_limit(&self) -> Option<u64> {
        self.get().ok()?.input_limit()
    }

    fn learn_window(&self) -> BoxFuture<'static, ()> {
        match self.get() {
            Ok(model) if model.input_limit().is_none() => {
                let (prepared, model) = ((self.prepare)(), Arc::clone(model));
                prepared.then(move |()| model.learn_window()).boxed()
            }
            _ => std::future::ready(()).boxed(),
        }
    }

    fn thinking(&self) -> ThinkingLevels {
        self.get().map(|model| model.thinking()).unwrap_or_default()
    }

    fn count(&self, prompt: Prompt) -> BoxFuture<'static, u64> {
        match self.get() {
            Ok(model) => model.count(prompt),
            Err(_) => std::future::ready(0).boxed(),
        }
    }
}
