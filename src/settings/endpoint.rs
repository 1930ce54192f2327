//! Which API is called, and with which key: decided by variables and by the key that is stored.

mod google;
mod values;

pub(super) use self::values::clean_key;
use super::env::{Var, Vars};
use tandem_model::Secret;
use tandem_model::endpoint::Endpoint;
use tandem_model::provider::Provider;

/// Where to call, and where the key for it was set.
pub(super) struct Found {
    pub endpoint: Endpoint,
    /// The variable, unless the key is the stored one or none is needed.
    pub variable: Option<String>,
}

/// Why there is nothing to call.
pub(super) enum Unusable {
    /// There is no key.
    NoKey,
    /// Something is set that cannot be used: what, and what to do.
    Wrong(String),
}

impl From<String> for Unusable {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// Holds what a gateway wants as a bearer token where the API itself has a header for keys.
const AUTH_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";

/// The variables of a provider.
pub(super) struct Api {
    /// These hold the key, the first before the others. They are allowed wherever keys are.
    pub keys: &'static [&'static str],
    /// Those that decide where keys and prompts go, and how.
    pub settings: &'static [&'static str],
    /// Holds more headers, which may be secret too.
    pub headers: &'static str,
    /// The variable that replaces the address, and the address.
    url: (&'static str, &'static str),
    /// Whether the API is called with a bearer token.
    bearer: bool,
    /// Where people get a key.
    pub get_a_key: &'static str,
}

/// What is known of a provider.
pub(super) fn api(provider: Provider) -> &'static Api {
    match provider {
        Provider::Gemini => &google::API,
        Provider::OpenAi => &Api {
            keys: &["OPENAI_API_KEY"],
            settings: &["OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS"],
            headers: "OPENAI_CUSTOM_HEADERS",
            url: ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
            bearer: true,
            get_a_key: "https://platform.openai.com/api-keys",
        },
        Provider::Anthropic => &Api {
            keys: &["ANTHROPIC_API_KEY", AUTH_TOKEN],
            settings: &["ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"],
            headers: "ANTHROPIC_CUSTOM_HEADERS",
            url: ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
            bearer: false,
            get_a_key: "https://platform.claude.com/settings/keys",
        },
        Provider::Ollama => &Api {
            keys: &["OLLAMA_API_KEY"],
            settings: &["OLLAMA_HOST", "OLLAMA_CUSTOM_HEADERS"],
            headers: "OLLAMA_CUSTOM_HEADERS",
            url: ("OLLAMA_HOST", "http://127.0.0.1:11434"),
            bearer: true,
            get_a_key: "https://ollama.com/settings/keys",
        },
    }
}

/// Decides. `stored` is asked only if no variable has a key.
pub(super) fn find(
    provider: Provider,
    vars: Vars<'_>,
    stored: impl FnOnce() -> Result<Option<Secret>, String>,
) -> Result<Found, Unusable> {
    if provider == Provider::Gemini && google::is_vertex(vars) {
        return Ok(google::vertex(vars)?);
    }
    let Api { keys, url: (url, _), .. } = api(provider);
    let var = vars.first(keys);
    let key = match var {
        Some(var) => Some(key(var)?),
        None => stored()?,
    };
    let needs_key = provider != Provider::Ollama && vars.get(url).is_none();
    if key.is_none() && needs_key {
        return Err(Unusable::NoKey);
    }
    let mut endpoint = with_key(provider, vars, key)?;
    endpoint.bearer |= var.is_some_and(|var| var.name == AUTH_TOKEN);
    Ok(Found { endpoint, variable: var.map(|var| var.to_string()) })
}

/// The endpoint for a key that would be stored.
pub(super) fn with_key(
    provider: Provider,
    vars: Vars<'_>,
    key: Option<Secret>,
) -> Result<Endpoint, String> {
    if provider == Provider::Gemini {
        return google::gemini(vars, key);
    }
    let api = api(provider);
    let (variable, usual) = api.url;
    let headers = headers(vars, api.headers)?;
    let secret = key.is_some() || !headers.is_empty();
    let url = match vars.get(variable) {
        Some(var) => {
            let read =
                if provider == Provider::Ollama { values::ollama_host } else { values::base_url };
            read(var.value, secret).map_err(|why| format!("{var} {why}."))?
        }
        None => usual.to_owned(),
    };
    Ok(Endpoint { url, key, bearer: api.bearer, headers })
}

fn key(var: Var<'_>) -> Result<Secret, String> {
    clean_key(var.value).map_err(|why| format!("{var} {why}."))
}

fn headers(vars: Vars<'_>, variable: &'static str) -> Result<Vec<(String, String)>, String> {
    match vars.get(variable) {
        Some(var) => values::headers(var.value).map_err(|why| format!("{var} {why}.")),
        None => Ok(Vec::new()),
    }
}
