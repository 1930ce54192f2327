//! The API endpoint and key of a provider, from variables and the stored key.

mod values;

pub(super) use self::values::clean_key;
use super::provider_variables::{
    AUTH_TOKEN, GEMINI, GEMINI_URL, HEADERS, MECHANISM, ProviderVariables, USE_VERTEX, VERSION,
    VERTEX, VERTEX_URL, provider_variables,
};
use super::variables::{Var, Vars};
use tandem_model::Secret;
use tandem_model::endpoint::Endpoint;
use tandem_model::provider::Provider;

/// Endpoint to call, and the variable from which its key comes.
pub(super) struct ResolvedEndpoint {
    pub endpoint: Endpoint,
    /// The variable and its place, for people; `None` if the key is a stored or typed one, or if there is no key.
    pub variable: Option<String>,
}

/// Reason why a provider cannot be called.
pub(super) enum UnusableEndpoint {
    /// There is no key.
    NoKey,
    /// A variable or file cannot be used: a sentence on it that says what to do.
    Wrong(String),
}

impl From<String> for UnusableEndpoint {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// Returns the endpoint to call, with its key. `stored` looks for the stored key, and is called only if no variable has
/// a key.
pub(super) fn find(
    provider: Provider,
    vars: Vars<'_>,
    stored: impl FnOnce() -> Result<Option<Secret>, String>,
) -> Result<ResolvedEndpoint, UnusableEndpoint> {
    if provider == Provider::Gemini && is_vertex(vars) {
        return Ok(vertex(vars)?);
    }
    let ProviderVariables { keys, url: (url, _), .. } = provider_variables(provider);
    let var = vars.first(keys);
    let key = match var {
        Some(var) => Some(key(var)?),
        None => stored()?,
    };
    let needs_key = provider != Provider::Ollama && vars.get(url).is_none();
    if key.is_none() && needs_key {
        return Err(UnusableEndpoint::NoKey);
    }
    let mut endpoint = with_key(provider, vars, key)?;
    endpoint.bearer |= var.is_some_and(|var| var.name == AUTH_TOKEN);
    Ok(ResolvedEndpoint { endpoint, variable: var.map(|var| var.to_string()) })
}

/// Returns `true` if requests go to the provider itself, and neither to a gateway nor to another server.
pub(super) fn is_own(provider: Provider, vars: Vars<'_>) -> bool {
    let (url, _) = provider_variables(provider).url;
    vars.get(url).is_none() && !(provider == Provider::Gemini && is_vertex(vars))
}

/// Returns the endpoint that the variables set, with this key.
pub(super) fn with_key(
    provider: Provider,
    vars: Vars<'_>,
    key: Option<Secret>,
) -> Result<Endpoint, String> {
    if provider == Provider::Gemini {
        return gemini(vars, key);
    }
    let api = provider_variables(provider);
    let (variable, usual) = api.url;
    let headers = headers(vars, api.headers)?;
    // Headers may be secret too, so they may not go over plain `http:` either.
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

/// Returns `true` if Vertex AI is to be called.
fn is_vertex(vars: Vars<'_>) -> bool {
    let is_true = |value: &str| value.eq_ignore_ascii_case("true") || value == "1";
    vars.get(USE_VERTEX).is_some_and(|var| is_true(var.value))
}

/// Returns the endpoint of Vertex AI in express mode, with its key.
fn vertex(vars: Vars<'_>) -> Result<ResolvedEndpoint, String> {
    let var = vars.get("GOOGLE_API_KEY").ok_or_else(|| {
        format!(
            "{USE_VERTEX} is set, but there is no key for Vertex AI. Set GOOGLE_API_KEY too, or \
             unset {USE_VERTEX}."
        )
    })?;
    let models = "publishers/google/models";
    let endpoint = google_endpoint(vars, (VERTEX_URL, VERTEX, "v1beta1", models), Some(key(var)?))?;
    Ok(ResolvedEndpoint { endpoint, variable: Some(var.to_string()) })
}

/// Returns the endpoint of the Gemini API, with this key.
fn gemini(vars: Vars<'_>, key: Option<Secret>) -> Result<Endpoint, String> {
    google_endpoint(vars, (GEMINI_URL, GEMINI, "v1beta", "models"), key)
}

/// Returns an endpoint of Google. `api` has the variable that replaces the base URL, the base URL, the version, and the
/// path of the models.
fn google_endpoint(
    vars: Vars<'_>,
    api: (&'static str, &str, &str, &str),
    key: Option<Secret>,
) -> Result<Endpoint, String> {
    let (variable, base, version, models) = api;
    let base = match vars.get(variable) {
        Some(var) => values::base_url(var.value, true).map_err(|why| format!("{var} {why}."))?,
        None => base.to_owned(),
    };
    let version = match vars.get(VERSION) {
        Some(var) if var.value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) => {
            var.value
        }
        Some(var) => {
            return Err(format!("{var} is not a version such as v1beta. Correct it, or unset it."));
        }
        None => version,
    };
    let bearer = match vars.get(MECHANISM) {
        Some(var) if var.value.eq_ignore_ascii_case("bearer") => true,
        Some(var) if !var.value.eq_ignore_ascii_case("x-goog-api-key") => {
            return Err(format!("{var} must be bearer or x-goog-api-key."));
        }
        _ => false,
    };
    let headers = headers(vars, HEADERS)?;
    Ok(Endpoint { url: format!("{base}/{version}/{models}"), key, bearer, headers })
}
