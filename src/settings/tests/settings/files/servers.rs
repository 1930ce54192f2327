//! Servers of models in the settings.

use tandem_model::model_api::ModelApi;
use tandem_model::provider::{OpenAiWire, Provider};

use super::*;

const WORK: &str = r#"{ "modelServers": { "work": { "url": "https://llm.example/v1", "api": "openai-chat",
    "keyVariable": "WORK_KEY", "headers": { "X-Team": "blue" }, "models": ["a", "b"] } } }"#;

#[test]
fn a_server_is_read_and_is_a_provider() {
    let settings = read(&Place::new().with(USER, WORK));
    assert_eq!(settings.remarks(), <[String; 0]>::default());
    let servers = settings.model_servers();
    let (provider, own) = servers.providers().parse_id("work:a", Provider::Gemini);
    assert_eq!((provider.name(), own), ("work", "a"));
    assert_eq!(servers.providers().api(provider, "a"), ModelApi::OpenAi(Some(OpenAiWire::Chat)));
    assert_eq!(servers.get(provider).unwrap().models, ["a", "b"]);
}

#[track_caller]
fn check(server: &Value, expected: &str) {
    let place = Place::new().with(USER, &json!({ "modelServers": server }).to_string());
    let settings = read(&place);
    let remarks = settings.remarks().join("\n");
    assert!(remarks.ends_with(&format!("/settings.json:1: {expected}")), "{remarks}");
    assert!(settings.model_servers.is_empty());
}

#[test]
fn a_server_that_lacks_something_is_left_out() {
    check(
        &json!({ "work": { "url": "https://x.example" } }),
        "`modelServers` must have an `api` for the server `work`.",
    );
    check(
        &json!({ "work": { "api": "openai" } }),
        "`modelServers` must have a `url` for the server `work`.",
    );
    check(
        &json!({ "work": { "url": "https://x.example", "api": "grpc" } }),
        "`modelServers.work.api` must be one of openai, openai-chat, openai-responses, anthropic, gemini, ollama.",
    );
    check(
        &json!({ "My Work": { "url": "https://x.example", "api": "openai" } }),
        "`modelServers` has the name `My Work`, which must be a name of lowercase letters, digits, `-` and `_`, at most 31, that begins with a letter.",
    );
    check(
        &json!({ "replay": { "url": "https://x.example", "api": "openai" } }),
        "`modelServers` must not have a server of the name `replay`: it has a meaning of its own.",
    );
    check(
        &json!({ "openai": { "api": "anthropic" } }),
        "`modelServers` must not give `openai` an `api`: a built-in provider has its own.",
    );
}

#[test]
fn a_project_names_servers_only_in_a_folder_that_is_trusted() {
    let place = Place::new().with(PROJECT, WORK);
    let settings = read(&place);
    assert!(settings.model_servers.is_empty());
    assert!(
        settings.remarks()[0].contains("`modelServers.work` is ignored"),
        "{:?}",
        settings.remarks()
    );
    assert_eq!(read(&trusted(place)).model_servers.len(), 1);
}

#[test]
fn the_usual_provider_may_be_a_server_and_only_one_that_there_is() {
    let named = |name: &str| {
        let mut settings: Value = serde_json::from_str(WORK).unwrap();
        settings["model"] = json!({ "provider": name });
        read(&Place::new().with(USER, &settings.to_string()))
    };
    assert_eq!(named("work").model.provider.name(), "work");
    let settings = named("play");
    assert_eq!(settings.model.provider, Provider::Gemini);
    assert!(settings.remarks()[0].contains("`model.provider` must be one of gemini, "));
}

#[test]
fn people_are_shown_a_server_without_secrets() {
    let place = Place::new();
    let settings =
        read(&place.with(USER, &WORK.replace("blue", "secret").replace("/v1", "/secret")));
    let env = Place::new().env(&[]);
    let text = tandem_settings::show::text(&settings, &env);
    let line = "modelServers.work = https://llm.example, API openai-chat, key in WORK_KEY, header X-Team, model a, model b";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(!tandem_settings::show::json(&settings, &env).to_string().contains("secret"));
}
