//! Endpoints of clouds: a key is sent to the server that it was entered for, else requests are authorized in another way.

use serde_json::json;
use tandem_model::Secret;
use tandem_model::provider::Provider::{self, Bedrock, Gemini, Vertex};

use super::{Place, words};

const USER: &str = "home/.gemini/settings.json";

/// Returns the endpoint in words; it ends with `authorized` if there is an authorizer.
fn endpoint(place: &Place, provider: Provider, vars: &[(&str, &str)]) -> Result<String, String> {
    let endpoint = place.credentials_with_settings(vars).endpoint(provider)?;
    let authorized = if endpoint.authorization.is_some() { " authorized" } else { "" };
    Ok(words(&endpoint) + authorized)
}

#[track_caller]
fn check(place: &Place, provider: Provider, vars: &[(&str, &str)], expected: &str) {
    assert_eq!(endpoint(place, provider, vars), Ok(expected.to_owned()), "{provider} {vars:?}");
}

fn with_settings(place: Place, servers: &serde_json::Value) -> Place {
    place.with(USER, &json!({ "modelServers": servers }).to_string())
}

#[test]
fn a_stored_key_of_bedrock_is_for_every_region_and_not_for_the_address_of_the_settings() {
    let region = |name: &'static str| [("AWS_REGION", name)];
    let place = Place::new();
    place.store(&region("us-east-1"), Bedrock, "own");
    let address = "https://bedrock-mantle.eu-west-1.api.aws/v1 own bearer";
    check(&place, Bedrock, &region("eu-west-1"), address);
    let place = with_settings(place, &json!({ "bedrock": { "url": "https://x.example" } }));
    let gateway = "https://x.example/v1 - bearer authorized";
    check(&place, Bedrock, &region("us-east-1"), gateway);
    place.store(&region("us-east-1"), Bedrock, "of-x");
    check(&place, Bedrock, &region("us-east-1"), "https://x.example/v1 of-x bearer");
}

#[test]
fn without_a_region_a_project_or_its_key_a_cloud_says_what_is_missing() {
    let place = Place::new();
    for (provider, variable) in [(Bedrock, "AWS_REGION"), (Vertex, "GOOGLE_CLOUD_PROJECT")] {
        let error = endpoint(&place, provider, &[]).unwrap_err();
        assert!(error.contains(&format!("Set {variable} to")), "{error}");
    }
    let place = with_settings(place, &json!({ "bedrock": { "keyVariable": "KEY" } }));
    let error = endpoint(&place, Bedrock, &[("AWS_REGION", "us-east-1")]).unwrap_err();
    assert!(error.contains("Set KEY in"), "{error}");
}

#[test]
fn a_stored_key_of_vertex_is_not_sent_to_the_address_of_a_variable() {
    let models = "v1beta1/publishers/google/models";
    let gateway = [("GOOGLE_VERTEX_BASE_URL", "https://x.example")];
    let place = Place::new();
    place.store(&[], Vertex, "own");
    check(&place, Vertex, &[], &format!("https://aiplatform.googleapis.com/{models} own"));
    assert!(endpoint(&place, Vertex, &gateway).is_err());
    place.store(&gateway, Vertex, "of-x");
    check(&place, Vertex, &gateway, &format!("https://x.example/{models} of-x"));
}

#[test]
fn the_headers_of_vertex_are_not_sent_to_the_address_of_a_variable() {
    let entry = json!({ "vertex": { "url": "https://x.example", "headers": { "X-Secret": "s" } } });
    let place = with_settings(Place::new(), &entry);
    let path = "v1beta1/projects/p/locations/global/publishers/google/models";
    let project = ("GOOGLE_CLOUD_PROJECT", "p");
    let expected = format!("https://x.example/{path} - X-Secret=s authorized");
    check(&place, Vertex, &[project], &expected);
    let url = ("GOOGLE_VERTEX_BASE_URL", "https://y.example");
    check(&place, Vertex, &[project, url], &format!("https://y.example/{path} - authorized"));
    // The variable is for Gemini, too, where the variables of Gemini CLI choose Vertex AI.
    let gemini = json!({ "gemini": { "headers": { "X-Secret": "s" } } });
    let place = with_settings(place, &gemini);
    let vars = [project, url, ("GOOGLE_GENAI_USE_VERTEXAI", "true")];
    check(&place, Gemini, &vars, &format!("https://y.example/{path} - authorized"));
}

#[test]
fn a_key_of_bedrock_at_an_address_of_the_settings_counts_beside_half_of_other_credentials() {
    let entry = json!({ "bedrock": { "url": "https://x.example" } });
    let place = with_settings(Place::new(), &entry);
    let vars = [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "A")];
    let error = endpoint(&place, Bedrock, &vars).unwrap_err();
    assert!(error.contains("AWS_SECRET_ACCESS_KEY is not"), "{error}");
    place.store(&vars, Bedrock, "of-x");
    check(&place, Bedrock, &vars, "https://x.example/v1 of-x bearer");
}

#[test]
fn a_key_of_vertex_that_is_typed_does_not_replace_the_project() {
    let place = Place::new();
    let project = [("GOOGLE_CLOUD_PROJECT", "p")];
    let credentials = place.credentials_with_settings(&project);
    let error = credentials.typed_key(Vertex, Secret::new("own")).err().unwrap();
    assert!(error.starts_with("A project of Google is set"), "{error}");
    place.store(&[], Vertex, "own");
    let url = "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models";
    check(&place, Vertex, &project, &format!("{url} - authorized"));
}
