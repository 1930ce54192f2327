//! The model that answers in a session, and the other models to which the session can switch.

use std::sync::Arc;

use parking_lot::Mutex;
use tandem_content::blocking::{blocking, try_blocking};
use tandem_model::offer::{ModelGroup, ServerScope};
use tandem_model::{Model, Models};

/// The model that answers.
pub(crate) struct ActiveModel {
    current: Mutex<Arc<dyn Model>>,
    /// All models, by id.
    available: Arc<dyn Models>,
}

impl ActiveModel {
    pub(crate) fn new(first: Arc<dyn Model>, available: Arc<dyn Models>) -> Self {
        Self { current: Mutex::new(first), available }
    }

    /// Returns the model.
    pub(crate) fn get(&self) -> Arc<dyn Model> {
        Arc::clone(&self.current.lock())
    }

    /// Returns the ids of the models that are known by name.
    pub(crate) async fn known_ids(&self) -> Result<Vec<String>, String> {
        let models = Arc::clone(&self.available);
        try_blocking(move || models.known()).await
    }

    /// Returns the models of the catalog whose providers are set up.
    pub(crate) async fn set_up(&self) -> Result<Vec<ModelGroup>, String> {
        let models = Arc::clone(&self.available);
        try_blocking(move || models.set_up()).await
    }

    /// Fetches the models that servers offer now which people run themselves or have chosen, such as a gateway.
    pub(crate) async fn served(&self, scope: ServerScope) -> Vec<ModelGroup> {
        let (models, current) = (Arc::clone(&self.available), self.id());
        // Keys and addresses may be read from files.
        match blocking(move || models.served(&current, scope)).await {
            Ok(served) => served.await,
            Err(_) => Vec::new(),
        }
    }

    /// Returns `false` if the model is one of a program on this machine which nobody has set up or made the default.
    pub(crate) async fn is_set_up(&self, id: &str) -> Result<bool, String> {
        let (models, id) = (Arc::clone(&self.available), id.to_owned());
        try_blocking(move || Ok(models.is_set_up(&models.resolve(&id)))).await
    }

    /// Returns all models, by id.
    pub(crate) fn available(&self) -> &dyn Models {
        &*self.available
    }

    /// Opens another model. Also returns the model's own id, because `id` may be an alias.
    pub(crate) async fn open(&self, id: &str) -> Result<(String, Arc<dyn Model>), String> {
        let (models, id) = (Arc::clone(&self.available), id.to_owned());
        try_blocking(move || {
            let id = models.resolve(&id);
            models.open(&id).map(|model| (id, model))
        })
        .await
    }

    /// Makes another model answer from now on.
    pub(crate) fn set(&self, model: Arc<dyn Model>) {
        *self.current.lock() = model;
    }

    /// Returns the model's id.
    pub(crate) fn id(&self) -> String {
        self.get().id().to_owned()
    }

    /// Returns the model's input limit in tokens, if it is known.
    pub(crate) fn input_limit(&self) -> Option<u64> {
        self.get().input_limit()
    }
}
