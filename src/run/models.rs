//! The models that there are to choose from, and how each is put together.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::config::Credentials;
use crate::model::catalog::Catalog;
use crate::model::gemini::{Gemini, Options};
use crate::model::lazy::Lazy;
use crate::model::replay::Replay;
use crate::model::{Error, Model, Models};

/// The models that the user's key is for, and those that play a script.
pub(super) struct Choice {
    credentials: Arc<Credentials>,
    options: Options,
}

impl Choice {
    pub(super) fn new(credentials: Arc<Credentials>, options: Options) -> Self {
        Self { credentials, options }
    }

    /// The model to begin with. Errors in what the user wrote about it show at once for a script
    /// and if it is said how much it thinks, else with the first prompt: nothing of it is needed
    /// before.
    pub(super) fn first(&self, id: Option<&str>) -> anyhow::Result<Arc<dyn Model>> {
        if let Some(replay) = id.and_then(replay) {
            return replay;
        }
        let model = self.gemini(id.map(str::to_owned));
        if self.options.thinking.is_some() {
            model.get().map_err(Clone::clone)?;
        }
        Ok(Arc::new(model))
    }

    /// A model of the Gemini API; the one that the catalog says if it has no id.
    fn gemini(&self, id: Option<String>) -> Lazy {
        let config_dir = self.credentials.env().config_dir();
        let (connect, asked) = (self.credentials.connect(), self.credentials.connect());
        let options = self.options.clone();
        Lazy::new(
            move || asked().map(drop).map_err(Error::NotAuthenticated),
            move || {
                let catalog = catalog(config_dir.as_deref()).map_err(Error::Rejected)?;
                let model = catalog.lookup(id.as_deref().unwrap_or(catalog.default_model()));
                Ok(Arc::new(Gemini::new(model, Arc::clone(&connect), options.clone())?))
            },
        )
    }

    fn catalog(&self) -> Result<Catalog, String> {
        catalog(self.credentials.env().config_dir().as_deref())
    }
}

impl Models for Choice {
    fn known(&self) -> Result<Vec<String>, String> {
        Ok(self.catalog()?.ids().into_iter().map(str::to_owned).collect())
    }

    fn open(&self, id: &str) -> Result<Arc<dyn Model>, String> {
        if let Some(replay) = replay(id) {
            return replay.map_err(|err| format!("{err:#}"));
        }
        let catalog = self.catalog()?;
        let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c));
        if !plain || id.contains("..") || !catalog.knows(id) {
            let known: Vec<_> = catalog.ids().into_iter().map(|id| format!("`{id}`")).collect();
            return Err(format!(
                "Nothing is known of a model `{id}`. Known are: {}, and their kin; `models.json` \
                 beside the stored key can name more.",
                known.join(", ")
            ));
        }
        let model = self.gemini(Some(id.to_owned()));
        model.get().cloned().map_err(ToString::to_string)
    }
}

/// A model that plays a script, if the id says so.
fn replay(id: &str) -> Option<anyhow::Result<Arc<dyn Model>>> {
    if id == "replay" {
        return Some(Ok(Arc::new(Replay::demo())));
    }
    let script = Path::new(id.strip_prefix("replay:")?);
    Some(Replay::open(script).map(|replay| -> Arc<dyn Model> { Arc::new(replay) }))
}

/// The models that are known, with what the user has written in `models.json`.
fn catalog(config_dir: Option<&Path>) -> Result<Catalog, String> {
    let catalog = Catalog::embedded();
    let Some(path) = config_dir.map(|dir| dir.join("models.json")) else { return Ok(catalog) };
    let wrong = |why| format!("{} is wrong: {why}", path.display());
    match fs::read_to_string(&path) {
        Ok(json) => catalog.with_overrides(&json).map_err(wrong),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(catalog),
        Err(err) => Err(format!("{} cannot be read: {err}", path.display())),
    }
}
