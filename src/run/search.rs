//! Web search for the model. Google searches, through the Gemini API, so the user needs a key of this API.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;

use tandem_host::WebSource;
use tandem_model::catalog::Catalog;
use tandem_model::gemini::Gemini;
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_settings::Credentials;
use tandem_tools::{SearchAnswer, WebSearch};

pub(super) struct GoogleSearch {
    credentials: Arc<Credentials>,
    options: RequestOptions,
    /// Connection to the Gemini API, made at the first search.
    gemini: OnceLock<Gemini>,
}

impl GoogleSearch {
    pub(super) fn new(credentials: &Arc<Credentials>, options: &RequestOptions) -> Self {
        let (credentials, options) = (Arc::clone(credentials), options.clone());
        Self { credentials, options, gemini: OnceLock::new() }
    }

    fn gemini(&self) -> Result<&Gemini, String> {
        if let Some(gemini) = self.gemini.get() {
            return Ok(gemini);
        }
        // The built-in default model, because this model is known to be able to search.
        let catalog = Catalog::embedded();
        let model = catalog.lookup(catalog.default_model());
        let connect = self.credentials.connect(Provider::Gemini);
        let gemini = Gemini::new(model, connect, self.options.clone());
        let gemini = gemini.map_err(|error| error.to_string())?;
        Ok(self.gemini.get_or_init(|| gemini))
    }
}

#[async_trait]
impl WebSearch for GoogleSearch {
    fn is_ready(&self) -> bool {
        self.credentials.endpoint(Provider::Gemini).is_ok()
    }

    async fn search(&self, query: &str) -> Result<SearchAnswer, String> {
        let found = self.gemini()?.search(query).await.map_err(|error| error.to_string())?;
        let source = |(title, url)| WebSource { title, url };
        let sources = found.sources.into_iter().map(source).collect();
        Ok(SearchAnswer { text: found.text, sources })
    }
}
