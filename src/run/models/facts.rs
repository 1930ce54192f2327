//! Facts on models that help to choose one.

use std::borrow::Cow;
use std::sync::Arc;

use super::properties;
use super::served::AskedServer;
use tandem_model::ThinkingLevels;
use tandem_model::catalog::Catalog;
use tandem_model::listing::ListedModel;
use tandem_model::offer::{ModelGroup, OfferedModel};
use tandem_settings::Credentials;

/// Facts on models, from a catalog that has been read.
pub(in super::super) struct ModelFacts {
    pub(super) credentials: Arc<Credentials>,
    pub(super) catalog: Cow<'static, Catalog>,
    /// Catalog whose prices hold.
    pub(super) prices: Cow<'static, Catalog>,
    /// The user's thinking level.
    pub(super) thinking: Option<String>,
    /// Day of the prices, as in `2026-10-07`.
    pub(super) day: String,
}

impl ModelFacts {
    /// Returns the model with this id as people are offered it. `window` is the window in tokens that its server tells.
    pub(super) fn offered(&self, id: String, window: Option<u64>) -> OfferedModel {
        let servers = self.credentials.servers();
        let model = properties(&self.catalog, servers, &id);
        let price = properties(&self.prices, servers, &id).prices.on(&self.day);
        let set = Some(model.input_tokens).filter(|tokens| *tokens > 0);
        let thinking = model.thinking_levels(self.thinking.as_deref());
        OfferedModel { id, window: set.or(window), price, thinking }
    }

    /// Returns the models of a server as people are offered them; `None` if no model server has answered.
    pub(in super::super) fn group(&self, server: AskedServer) -> Option<ModelGroup> {
        let AskedServer { provider, address, models } = server;
        let model = |listed: ListedModel| OfferedModel {
            // The catalog has the levels of thinking of an API, but not which of these levels this model takes. So no
            // level is offered.
            thinking: ThinkingLevels::default(),
            ..self.offered(provider.qualify(&listed.id), listed.window)
        };
        let models = models?.into_iter().map(model).collect();
        Some(ModelGroup { provider, address: Some(address), models })
    }
}
