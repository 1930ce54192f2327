//! The model that answers in a session, and the others that it can be exchanged for.

use std::sync::Arc;

use parking_lot::Mutex;
use tandem_model::{Model, Models};

/// The model that answers.
pub(super) struct ActiveModel {
    /// Changed only in a turn.
    current: Mutex<Arc<dyn Model>>,
    /// All models, by id.
    pub(super) available: Arc<dyn Models>,
}

impl ActiveModel {
    pub(super) fn new(first: Arc<dyn Model>, available: Arc<dyn Models>) -> Self {
        Self { current: Mutex::new(first), available }
    }

    /// Returns the model.
    pub(super) fn get(&self) -> Arc<dyn Model> {
        Arc::clone(&self.current.lock())
    }

    /// Lets another model answer from now on.
    pub(super) fn set(&self, model: Arc<dyn Model>) {
        *self.current.lock() = model;
    }

    /// Returns the model's id.
    pub(super) fn id(&self) -> String {
        self.get().id().to_owned()
    }

    /// Returns the model's input limit in tokens, if it is known.
    pub(super) fn input_limit(&self) -> Option<u64> {
        self.get().input_limit()
    }
}
