//! The API endpoint and key of a provider, from variables and the stored key.

mod bedrock;
mod values;
mod vertex;

pub(super) use self::bedrock::NO_REGION;
pub(super) use self::values::clean_key;
pub(super) use self::vertex::NO_PROJECT;
use super::key_file::KeyScope;
use super::keys::MODEL_SERVERS;
use super::model_server::ModelServer;
use super::provider_variables::{
    API_VERSION, AUTH_MECHANISM, AZURE_ENDPOINT, USE_VERTEX, provider_variables,
};
use super::variables::{Var, Vars};
use reqwest::Url;
use tandem_clouds::Authorizers;
use tandem_model::Secret;
use tandem_model::endpoint::Endpoint;
use tandem_model::model_api::ModelApi;
use tandem_model::provider::Provider;

/// Endpoint to call, and the variable from which its key comes.
pub(super) struct ResolvedEndpoint {
    pub endpoint: Endpoint,
    /// The variable and its place, for people; `None` if the key is a stored or typed one, or if there is no key.
    pub variable: Option<String>,
}

/// A key that the user has typed, the server that it is for, and the endpoint there.
pub struct TypedKey {
    pub(super) key: Secret,
    pub(super) scope: KeyScope,
    pub(super) endpoint: Endpoint,
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

/// Facts from which a provider's endpoint is made.
#[derive(Clone, Copy)]
pub(super) struct EndpointSource<'a> {
    pub provider: Provider,
    /// Id of the model; empty for requests beside a conversation.
    pub model: &'a str,
    pub vars: Vars<'a>,
    /// The provider's entry in the settings, unless a variable sets the address.
    pub server: Option<&'a ModelServer>,
    pub authorizers: &'a Authorizers,
}

/// Returns the endpoint to call, with its key. `stored` looks for the stored key of a server, and is called only if no
/// variable has a key.
pub(super) fn find(
    source: EndpointSource<'_>,
    stored: impl FnOnce(&KeyScope) -> Result<Option<Secret>, UnusableEndpoint>,
) -> Result<ResolvedEndpoint, UnusableEndpoint> {
    let EndpointSource { provider, vars, server, .. } = source;
    if provider == Provider::Gemini && is_vertex(vars) {
        return Ok(vertex::for_gemini(source)?);
    }
    if needs_no_key(source) {
        return Ok(vertex::in_project(source)?);
    }
    let var = key_variable(source);
    let key = match var {
        Some(var) => Some(key(var)?),
        None => stored(&key_scope(source)?)?,
    };
    let needs_key = match provider {
        _ if server.is_some_and(|server| server.key_variable.is_some()) => true,
        Provider::Named(_) => false,
        provider if provider.is_local() => false,
        // Azure has no address but that of the user's own resource.
        Provider::Azure | Provider::Vertex => true,
        // Without a key, requests are signed.
        Provider::Bedrock => !bedrock::has_region(source),
        _ => is_own(source),
    };
    if key.is_none() && needs_key {
        return Err(UnusableEndpoint::NoKey);
    }
    let mut endpoint = with_key(source, key)?;
    let tokens = provider_variables(provider).tokens;
    endpoint.bearer |= var.is_some_and(|var| tokens.contains(&var.name));
    Ok(ResolvedEndpoint { endpoint, variable: var.map(|var| var.to_string()) })
}

/// Returns the variable that has the key: the variable that the settings name, else a variable of the provider.
fn key_variable(source: EndpointSource<'_>) -> Option<Var<'_>> {
    match source.server.and_then(|server| server.key_variable.as_deref()) {
        Some(name) => source.vars.any(name),
        None => source.vars.first(provider_variables(source.provider).keys),
    }
}

/// Returns `true` if requests go to the provider itself, and neither to a gateway nor to another server.
pub(super) fn is_own(source: EndpointSource<'_>) -> bool {
    let EndpointSource { provider, vars, server, .. } = source;
    address_variable(provider, vars).is_none()
        && server.is_none_or(|server| server.url.is_none())
        && !matches!(provider, Provider::Named(_))
}

/// Returns the variable that replaces the provider's address, if one is set.
pub(super) fn address_variable(provider: Provider, vars: Vars<'_>) -> Option<Var<'_>> {
    let vertex = || vars.get(USE_VERTEX).filter(|_| is_vertex(vars));
    let vertex = (provider == Provider::Gemini).then(vertex).flatten();
    vertex.or_else(|| vars.get(provider_variables(provider).url_variable?))
}

/// Returns the server that a typed or stored key is for.
pub(super) fn key_scope(source: EndpointSource<'_>) -> Result<KeyScope, String> {
    let provider = source.provider;
    if is_own(source) {
        return Ok(KeyScope { provider, origin: None });
    }
    let url = match provider {
        // The address does not depend on credentials, which may be incomplete without a key.
        Provider::Bedrock => bedrock::url(source)?,
        _ => with_key(source, None)?.url,
    };
    let origin = origin(&url);
    let is_usual = origin == self::origin(provider_variables(provider).url);
    Ok(KeyScope { provider, origin: (!is_usual).then_some(origin) })
}

/// Returns the scheme, host and port of a URL.
fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization())
}

/// Returns `true` if requests are authorized without any key, because a project of Google is set.
pub(super) fn needs_no_key(source: EndpointSource<'_>) -> bool {
    source.provider == Provider::Vertex && vertex::has_project(source)
}

/// Returns a key that the user has typed, with the endpoint that it will be sent to.
pub(super) fn typed_key(source: EndpointSource<'_>, key: Secret) -> Result<TypedKey, String> {
    if needs_no_key(source) {
        return Err(vertex::PROJECT_COUNTS.to_owned());
    }
    let (scope, endpoint) = (key_scope(source)?, with_key(source, Some(key.clone()))?);
    Ok(TypedKey { key, scope, endpoint })
}

/// Returns the endpoint that the variables and the settings describe, with this key.
fn with_key(source: EndpointSource<'_>, key: Option<Secret>) -> Result<Endpoint, String> {
    let provider = source.provider;
    match provider {
        Provider::Gemini => return gemini(source, key),
        Provider::Vertex => return vertex::with_key(source, key),
        Provider::Bedrock => return bedrock::endpoint(source, key),
        _ => {}
    }
    let headers = headers(source)?;
    // Headers may be secret too, so they may not go over plain `http:` either.
    let secret = key.is_some() || !headers.is_empty();
    let read = match provider {
        Provider::Ollama => values::ollama_host,
        Provider::Azure => values::azure_url,
        _ => values::base_url,
    };
    let url = url(source, |text| read(text, secret))?;
    let api = source.server.and_then(|server| server.api);
    let url = match api {
        Some(ModelApi::Gemini) => format!("{url}/models"),
        _ => url,
    };
    let bearer = match api {
        Some(api) => matches!(api, ModelApi::OpenAi(_) | ModelApi::Ollama),
        None => provider_variables(provider).bearer,
    };
    let fixed_headers = provider_variables(provider).headers;
    Ok(Endpoint { key, bearer, fixed_headers, headers, ..Endpoint::new(provider, url) })
}

/// Returns the base URL: that of the provider's variable, else that of the settings, else the default. `read` checks
/// a URL that is not the default; its error is the rest of a sentence.
fn url(
    source: EndpointSource<'_>,
    read: impl Fn(&str) -> Result<String, &'static str>,
) -> Result<String, String> {
    let EndpointSource { provider, vars, server, .. } = source;
    let api = provider_variables(provider);
    if let Some(var) = api.url_variable.and_then(|name| vars.get(name)) {
        return read(var.value).map_err(|why| format!("{var} {why}."));
    }
    match server.and_then(|server| server.url.as_ref()) {
        Some(url) => {
            read(url.expose()).map_err(|why| format!("`{MODEL_SERVERS}.{provider}.url` {why}."))
        }
        None if provider == Provider::Azure => Err(format!(
            "There is no address of Azure OpenAI. Set {AZURE_ENDPOINT} to the endpoint of your resource, such as \
             https://RESOURCE.openai.azure.com, or set `{MODEL_SERVERS}.azure.url` in your settings."
        )),
        None => Ok(api.url.to_owned()),
    }
}

fn key(var: Var<'_>) -> Result<Secret, String> {
    clean_key(var.value).map_err(|why| format!("{var} {why}."))
}

/// Returns the user's headers of each request: those of the settings, and those of the provider's variable.
fn headers(source: EndpointSource<'_>) -> Result<Vec<(String, String)>, String> {
    let EndpointSource { provider, vars, server, .. } = source;
    let api = provider_variables(provider);
    let set = server.into_iter().flat_map(|server| &server.headers);
    let set = set.map(|(name, value)| (name.clone(), value.expose().to_owned()));
    let mut headers: Vec<_> = set.collect();
    if let Some(var) = api.headers_variable.and_then(|name| vars.get(name)) {
        headers.extend(values::headers(var.value).map_err(|why| format!("{var} {why}."))?);
    }
    Ok(headers)
}

/// Returns `true` if Vertex AI is to be called.
fn is_vertex(vars: Vars<'_>) -> bool {
    let is_true = |value: &str| value.eq_ignore_ascii_case("true") || value == "1";
    vars.get(USE_VERTEX).is_some_and(|var| is_true(var.value))
}

/// Returns the endpoint of the Gemini API, with this key.
fn gemini(source: EndpointSource<'_>, key: Option<Secret>) -> Result<Endpoint, String> {
    let base = url(source, |text| values::base_url(text, true))?;
    let url = format!("{base}/{}/models", version(source.vars, "v1beta")?);
    google_endpoint(source, url, key)
}

/// Returns the version of Google's API that the variables set, or else the default version.
fn version<'a>(vars: Vars<'a>, usual: &'a str) -> Result<&'a str, String> {
    match vars.get(API_VERSION) {
        Some(var) if var.value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) => {
            Ok(var.value)
        }
        Some(var) => {
            Err(format!("{var} is not a version such as v1beta. Correct it, or unset it."))
        }
        None => Ok(usual),
    }
}

/// Returns an endpoint of Google.
fn google_endpoint(
    source: EndpointSource<'_>,
    url: String,
    key: Option<Secret>,
) -> Result<Endpoint, String> {
    let bearer = match source.vars.get(AUTH_MECHANISM) {
        Some(var) if var.value.eq_ignore_ascii_case("bearer") => true,
        Some(var) if !var.value.eq_ignore_ascii_case("x-goog-api-key") => {
            return Err(format!("{var} must be bearer or x-goog-api-key."));
        }
        _ => false,
    };
    let headers = headers(source)?;
    Ok(Endpoint { key, bearer, headers, ..Endpoint::new(source.provider, url) })
}
