//! The endpoint of Vertex AI: in a project with the credentials of Google, or in express mode with a key.

use std::path::PathBuf;

use tandem_clouds::google::GoogleConfig;
use tandem_model::Secret;
use tandem_model::endpoint::Endpoint;
use tandem_model::provider::Provider;
use tandem_model::vertex::{host_url, is_claude};

use super::{
    EndpointSource, MODEL_SERVERS, ResolvedEndpoint, google_endpoint, key, values, version,
};
use crate::provider_variables::{USE_VERTEX, VERTEX_ADDRESS, VERTEX_URL};

/// Name under which the metadata service of a machine of Google is found.
const METADATA_HOST: &str = "metadata.google.internal";
/// Location that has all current models.
const USUAL_LOCATION: &str = "global";

/// Message for a missing project.
pub(in super::super) const NO_PROJECT: &str = "There is no project for Vertex AI. Set GOOGLE_CLOUD_PROJECT to your \
    project, and log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the \
    file of a service account. For models of Gemini, a key of Vertex AI in express mode (GOOGLE_API_KEY) does as well.";

/// Message for a key that is typed although a project is set.
pub(super) const PROJECT_COUNTS: &str = "A project of Google is set, so Vertex AI is asked in this project, with the \
    credentials of Google, and a key has no effect. To use a key, unset GOOGLE_CLOUD_PROJECT and \
    ANTHROPIC_VERTEX_PROJECT_ID, and move credentials of Google that name a project.";

/// Returns the endpoint that the variables of Gemini CLI describe: with a key if there is one, else in a project.
pub(super) fn for_gemini(source: EndpointSource<'_>) -> Result<ResolvedEndpoint, String> {
    if let Some(var) = source.vars.get("GOOGLE_API_KEY") {
        let endpoint = with_key(source, Some(key(var)?))?;
        return Ok(ResolvedEndpoint { endpoint, variable: Some(var.to_string()) });
    }
    if has_project(source) {
        return in_project(source);
    }
    Err(format!(
        "{USE_VERTEX} is set, but there is no key for Vertex AI, and no project. Set GOOGLE_API_KEY or \
         GOOGLE_CLOUD_PROJECT too, or unset {USE_VERTEX}."
    ))
}

/// Returns `true` if a variable or the file of the credentials names a project.
pub(super) fn has_project(source: EndpointSource<'_>) -> bool {
    project(source).is_some()
}

/// Returns the endpoint in express mode, with this key.
pub(super) fn with_key(
    source: EndpointSource<'_>,
    key: Option<Secret>,
) -> Result<Endpoint, String> {
    if is_claude(source.model) {
        return Err(NO_PROJECT.to_owned());
    }
    let base = base(source)?.unwrap_or_else(|| VERTEX_ADDRESS.to_owned());
    let url = format!("{base}/{}/publishers/google/models", version(source.vars, "v1beta1")?);
    google_endpoint(source, url, key)
}

/// Returns the endpoint in the project, with the credentials of Google.
pub(super) fn in_project(source: EndpointSource<'_>) -> Result<ResolvedEndpoint, String> {
    let project = project(source).ok_or(NO_PROJECT)?;
    let location = source.vars.first(&["GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"]);
    let name = location.map_or(USUAL_LOCATION, |var| var.value);
    if let Some(var) = location.filter(|var| !is_plain(var.value)) {
        return Err(format!("{var} is not a location such as global or europe-west4. Correct it."));
    }
    if !is_plain(&project) {
        return Err(
            "The project of Google is not an id such as my-project. Correct GOOGLE_CLOUD_PROJECT."
                .to_owned(),
        );
    }
    let base = base(source)?.unwrap_or_else(|| host_url(name));
    let (version, publisher) = if is_claude(source.model) {
        ("v1", "anthropic")
    } else {
        (version(source.vars, "v1beta1")?, "google")
    };
    let url = format!(
        "{base}/{version}/projects/{project}/locations/{name}/publishers/{publisher}/models"
    );
    let endpoint = google_endpoint(source, url, None)?;
    let authorization = Some(source.authorizers.google(config(source)));
    Ok(ResolvedEndpoint { endpoint: Endpoint { authorization, ..endpoint }, variable: None })
}

/// Returns `true` for the characters of projects (`example.com:my-project` among them) and locations.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
}

/// Returns the base URL that the variable or the settings have.
fn base(source: EndpointSource<'_>) -> Result<Option<String>, String> {
    if let Some(var) = source.vars.get(VERTEX_URL) {
        let url = values::base_url(var.value, true).map_err(|why| format!("{var} {why}."));
        return url.map(Some);
    }
    let server = source.server.filter(|_| source.provider == Provider::Vertex);
    let url = server.and_then(|server| server.url.as_ref());
    url.map(|url| values::base_url(url.expose(), true))
        .transpose()
        .map_err(|why| format!("`{MODEL_SERVERS}.vertex.url` {why}."))
}

fn project(source: EndpointSource<'_>) -> Option<String> {
    let named = source.vars.first(&["GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID"]);
    named.map(|var| var.value.to_owned()).or_else(|| config(source).project())
}

/// Returns the places of credentials that the variables describe.
fn config(source: EndpointSource<'_>) -> GoogleConfig {
    let vars = source.vars;
    let path = |name| vars.get(name).map(|var| vars.env.directory().join(var.value));
    let gcloud = path("CLOUDSDK_CONFIG").or_else(|| Some(vars.env.home()?.join(".config/gcloud")));
    let is_checked =
        !vars.get("NO_GCE_CHECK").is_some_and(|var| var.value.eq_ignore_ascii_case("true"));
    let host = vars.get("GCE_METADATA_HOST").map_or(METADATA_HOST, |var| var.value);
    GoogleConfig {
        named_file: path("GOOGLE_APPLICATION_CREDENTIALS"),
        user_file: gcloud.map(|dir: PathBuf| dir.join("application_default_credentials.json")),
        metadata_url: is_checked.then(|| format!("http://{host}")),
    }
}
