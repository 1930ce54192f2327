//! The Gemini API, or Vertex AI in its place.

use super::{Api, Found, headers, key, values};
use crate::env::Vars;
use tandem_model::Secret;
use tandem_model::endpoint::Endpoint;

const GEMINI: &str = "https://generativelanguage.googleapis.com";
const GEMINI_URL: &str = "GOOGLE_GEMINI_BASE_URL";
const VERTEX: &str = "https://aiplatform.googleapis.com";
const VERTEX_URL: &str = "GOOGLE_VERTEX_BASE_URL";
const USE_VERTEX: &str = "GOOGLE_GENAI_USE_VERTEXAI";
const VERSION: &str = "GOOGLE_GENAI_API_VERSION";
const MECHANISM: &str = "GEMINI_API_KEY_AUTH_MECHANISM";
const HEADERS: &str = "GEMINI_CLI_CUSTOM_HEADERS";

pub(super) const API: Api = Api {
    keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    settings: &[USE_VERTEX, GEMINI_URL, VERTEX_URL, VERSION, MECHANISM, HEADERS],
    headers: HEADERS,
    url: (GEMINI_URL, GEMINI),
    bearer: false,
    get_a_key: "https://aistudio.google.com/apikey",
};

/// Whether Vertex AI is to be called.
pub(super) fn is_vertex(vars: Vars<'_>) -> bool {
    let is_true = |value: &str| value.eq_ignore_ascii_case("true") || value == "1";
    vars.get(USE_VERTEX).is_some_and(|var| is_true(var.value))
}

/// Vertex AI in express mode.
pub(super) fn vertex(vars: Vars<'_>) -> Result<Found, String> {
    let var = vars.get("GOOGLE_API_KEY").ok_or_else(|| {
        format!(
            "{USE_VERTEX} is set, and Vertex AI is called with an API key only: set \
             GOOGLE_API_KEY too, or unset {USE_VERTEX}."
        )
    })?;
    let models = "publishers/google/models";
    let endpoint = endpoint(vars, (VERTEX_URL, VERTEX, "v1beta1", models), Some(key(var)?))?;
    Ok(Found { endpoint, variable: Some(var.to_string()) })
}

/// The Gemini API with this key.
pub(super) fn gemini(vars: Vars<'_>, key: Option<Secret>) -> Result<Endpoint, String> {
    endpoint(vars, (GEMINI_URL, GEMINI, "v1beta", "models"), key)
}

/// `api`: the variable that replaces the base URL, that URL, the version, the collection.
fn endpoint(
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
        Some(var) => return Err(format!("{var} is no version such as v1beta.")),
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
