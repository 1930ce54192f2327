//! The model that answers if the user names none.

use tandem_model::catalog::Catalog;
use tandem_model::model_api::ModelApi;
use tandem_model::provider::Provider;
use tandem_settings::Credentials;

use super::catalog;

/// The model that answers if the user names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct DefaultModel {
    pub(in super::super) provider: Provider,
    /// Full id; `None` if the provider has no default model. An id that names only the provider leaves the choice to the
    /// provider's server.
    pub(in super::super) id: Option<String>,
    pub(in super::super) reason: DefaultReason,
}

/// Reason why a provider is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum DefaultReason {
    /// The user's `models.json` names the default model.
    ModelsFile,
    /// The settings name the provider.
    Setting,
    /// The provider is the first one that is set up, by a key or an address.
    SetUp,
    /// No provider is set up.
    NothingSetUp,
}

/// Returns the default model.
pub(in super::super) fn default_model(
    catalog: &Catalog,
    credentials: &Credentials,
    usual: Provider,
) -> DefaultModel {
    let (provider, reason) = default_provider(credentials, usual);
    let id = default_id(catalog, credentials, provider);
    // An address alone does not say that Ollama, or another program on this machine, is wanted.
    let is_wanted = reason == DefaultReason::Setting || provider == Provider::OpenAi;
    let of_server = || {
        (is_wanted && has_models_of_its_own(credentials, provider)).then(|| format!("{provider}:"))
    };
    DefaultModel { provider, id: id.or_else(of_server), reason }
}

/// Returns the provider whose model is used if the user names no model. No other code decides this. The first of
/// these that exists is taken:
///
/// 1. The provider of the default model in the user's `models.json`.
/// 2. The provider that the settings name.
/// 3. The first provider that is set up, by a key or an address.
/// 4. Gemini.
pub(super) fn default_provider(
    credentials: &Credentials,
    usual: Provider,
) -> (Provider, DefaultReason) {
    let dir = credentials.env().config_dir();
    // The catalog is parsed only if the user has such a file, and most users have none.
    let written = dir.as_ref().is_some_and(|dir| dir.join("models.json").exists());
    let catalog = written.then(|| catalog(dir.as_deref()).ok()).flatten();
    let named = catalog.filter(|it| it.default_model() != Catalog::embedded().default_model());
    if let Some(catalog) = named {
        let default = catalog.default_model();
        let provider = credentials.servers().providers().parse_id(default, Provider::Gemini).0;
        return (provider, DefaultReason::ModelsFile);
    }
    if usual != Provider::Gemini {
        return (usual, DefaultReason::Setting);
    }
    match credentials.first_set_up() {
        Some(provider) => (provider, DefaultReason::SetUp),
        None => (Provider::Gemini, DefaultReason::NothingSetUp),
    }
}

/// Returns the id of a provider's default model: that of the catalog, else the first model that the settings list.
pub(in super::super) fn default_of(
    credentials: &Credentials,
    provider: Provider,
) -> Option<String> {
    let catalog = catalog(credentials.env().config_dir().as_deref()).ok()?;
    default_id(&catalog, credentials, provider)
}

fn default_id(catalog: &Catalog, credentials: &Credentials, provider: Provider) -> Option<String> {
    let servers = credentials.servers();
    let default = catalog.default_model();
    if servers.providers().parse_id(default, Provider::Gemini).0 == provider {
        return Some(default.to_owned());
    }
    let listed = || Some(provider.qualify(servers.get(provider)?.models.first()?));
    let of_catalog = catalog.default_of(provider);
    if !has_models_of_its_own(credentials, provider) {
        return of_catalog.or_else(listed);
    }
    // Another server than the vendor's own is not known to have the vendor's default model.
    let is_users = of_catalog != Catalog::embedded().default_of(provider);
    of_catalog.filter(|_| is_users).or_else(listed)
}

/// Returns `true` if requests go to a server that lists its models, and that is no vendor's own: only the server knows
/// which models it has.
pub(super) fn has_models_of_its_own(credentials: &Credentials, provider: Provider) -> bool {
    let lists = matches!(
        credentials.servers().providers().api(provider, ""),
        ModelApi::OpenAi(_) | ModelApi::Ollama
    );
    let is_other = match provider {
        Provider::Named(_) => true,
        Provider::OpenAi => !credentials.has_usual_server(provider),
        provider => provider.is_local(),
    };
    lists && is_other
}

/// Returns `false` for a program on this machine which nobody has set up or made the default. `first` is the provider of
/// the model that the settings name.
pub(super) fn is_set_up_or_default(
    credentials: &Credentials,
    usual: Provider,
    first: Option<Provider>,
    provider: Provider,
) -> bool {
    let is_default = || first.unwrap_or_else(|| default_provider(credentials, usual).0) == provider;
    !provider.is_local() || credentials.is_set_up(provider) || is_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tandem_settings::Env;

    use super::*;

    #[test]
    fn a_program_of_this_machine_is_set_up_by_its_address_or_as_the_default() {
        let check = |vars: &[(&str, &str)], usual, first, expected| {
            let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let credentials = Credentials::new(Env::new(vars, Path::new("/nonexistent")));
            let found = is_set_up_or_default(&credentials, usual, first, Provider::Ollama);
            assert_eq!(found, expected, "{usual} {first:?}");
        };
        check(&[], Provider::Gemini, None, false);
        check(&[("OLLAMA_API_KEY", "x")], Provider::Gemini, Some(Provider::Vllm), false);
        check(&[("OLLAMA_HOST", "127.0.0.1:11434")], Provider::Gemini, None, true);
        check(&[], Provider::Ollama, None, true);
        check(&[], Provider::Gemini, Some(Provider::Ollama), true);
        let credentials = Credentials::new(Env::new([], Path::new("/nonexistent")));
        assert!(is_set_up_or_default(&credentials, Provider::Gemini, None, Provider::Anthropic));
    }
}
