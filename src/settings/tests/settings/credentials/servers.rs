//! Endpoints of gateways, and of servers that the settings name.

use serde_json::json;
use tandem_model::provider::Provider::{self, GitHub, OpenRouter};

use super::{Place, STORED, words};

const USER: &str = "home/.gemini/settings.json";

/// Returns the endpoint of the provider with this name, in words.
fn endpoint(place: &Place, name: &str, vars: &[(&str, &str)]) -> Result<String, String> {
    let credentials = place.credentials_with_settings(vars);
    let provider = credentials.servers().providers().find(name)?;
    credentials.endpoint(provider).as_ref().map(words).map_err(Clone::clone)
}

fn named(name: &str) -> Provider {
    Provider::Named(name.parse().unwrap())
}

fn place(server: &serde_json::Value) -> Place {
    Place::new().with(USER, &json!({ "modelServers": server }).to_string())
}

#[test]
fn gateways_have_addresses_keys_and_headers_of_their_own() {
    let vars = [("OPENROUTER_API_KEY", "or"), ("GITHUB_TOKEN", "gh")];
    let check = |name: &str, expected: &str| {
        assert_eq!(endpoint(&Place::new(), name, &vars), Ok(expected.to_owned()));
    };
    check("openrouter", "https://openrouter.ai/api/v1 or bearer X-Title=tandem");
    check("github", "https://models.github.ai/inference gh bearer X-GitHub-Api-Version=2022-11-28");
}

#[test]
fn a_gateway_answers_by_default_for_nobody_who_has_not_asked_for_it() {
    let vars = [("OPENROUTER_API_KEY", "or"), ("GITHUB_TOKEN", "gh")];
    assert_eq!(Place::new().credentials(&vars).first_set_up(), None);
}

#[test]
fn each_api_has_its_way_to_send_a_key() {
    for (api, expected) in [
        ("openai", "https://x.example/v1 k bearer"),
        ("ollama", "https://x.example/v1 k bearer"),
        ("anthropic", "https://x.example/v1 k"),
        ("gemini", "https://x.example/v1/models k"),
    ] {
        let server =
            json!({ "work": { "url": "https://x.example/v1/", "api": api, "keyVariable": "KEY" } });
        assert_eq!(
            endpoint(&place(&server), "work", &[("KEY", " k ")]),
            Ok(expected.to_owned()),
            "{api}"
        );
    }
}

#[test]
fn a_server_without_a_variable_needs_no_key_and_without_a_key_no_https() {
    let server = json!({ "box": { "url": "http://gpu-box:8000/v1", "api": "openai" } });
    assert_eq!(
        endpoint(&place(&server), "box", &[]),
        Ok("http://gpu-box:8000/v1 - bearer".to_owned())
    );
    let server = json!({ "box": { "url": "http://gpu-box:8000/v1", "api": "openai", "keyVariable": "KEY" } });
    let error = endpoint(&place(&server), "box", &[("KEY", "secret")]).unwrap_err();
    assert!(error.starts_with("`modelServers.box.url` must begin with https://"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn a_stored_key_of_a_server_is_used_if_its_variable_is_not_set() {
    let server =
        json!({ "work": { "url": "https://x.example/v1", "api": "openai", "keyVariable": "KEY" } });
    let place = place(&server);
    place.store(&[], named("work"), "stored");
    assert_eq!(endpoint(&place, "work", &[]), Ok("https://x.example/v1 stored bearer".to_owned()));
    assert_eq!(
        endpoint(&place, "work", &[("KEY", "k")]),
        Ok("https://x.example/v1 k bearer".to_owned())
    );
}

#[test]
fn the_key_of_a_server_may_be_in_a_trusted_env_file_alone() {
    let server =
        json!({ "work": { "url": "https://x.example/v1", "api": "openai", "keyVariable": "KEY" } });
    let place = place(&server).with("home/repo/.env", "KEY=k");
    assert!(
        endpoint(&place, "work", &[])
            .unwrap_err()
            .starts_with("There is no work API key. Set KEY in")
    );
    let place = place.judged(&[("home/repo", "TRUST_FOLDER")]);
    assert_eq!(endpoint(&place, "work", &[]), Ok("https://x.example/v1 k bearer".to_owned()));
}

#[test]
fn the_settings_may_change_a_built_in_provider() {
    let server = json!({ "openai": { "url": "https://x.example/v1", "keyVariable": "KEY" } });
    let place = place(&server);
    let vars = [("KEY", "k"), ("OPENAI_API_KEY", "o")];
    assert_eq!(endpoint(&place, "openai", &vars), Ok("https://x.example/v1 k bearer".to_owned()));
    assert!(!place.credentials_with_settings(&vars).is_own(Provider::OpenAi));
}

#[test]
fn the_key_and_the_headers_of_an_entry_are_not_sent_to_the_address_of_a_variable() {
    let entry = json!({ "url": "https://x.example/v1", "keyVariable": "KEY", "headers": { "X-Secret": "s" } });
    let place = place(&json!({ "openai": entry, "gemini": entry, "ollama": entry }));
    let check = |name: &str, vars: &[(&str, &str)], expected: &str| {
        assert_eq!(endpoint(&place, name, vars), Ok(expected.to_owned()), "{vars:?}");
    };
    let (key, url) = (("KEY", "k"), ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"));
    check("openai", &[key], "https://x.example/v1 k bearer X-Secret=s");
    check("openai", &[key, url], "http://127.0.0.1:8080/v1 - bearer");
    check("openai", &[key, url, ("OPENAI_API_KEY", "o")], "http://127.0.0.1:8080/v1 o bearer");
    check("ollama", &[key, ("OLLAMA_HOST", "gpu-box")], "http://gpu-box:11434 - bearer");
    let url = ("GOOGLE_GEMINI_BASE_URL", "https://y.example");
    check("gemini", &[key, url], "https://y.example/v1beta/models -");
    let vertex = [key, ("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("GOOGLE_API_KEY", "v")];
    check(
        "gemini",
        &vertex,
        "https://aiplatform.googleapis.com/v1beta1/publishers/google/models v",
    );
}

#[test]
fn an_entry_with_a_variable_for_its_key_gets_no_other_key() {
    let server = json!({ "openai": { "url": "https://x.example/v1", "keyVariable": "KEY" } });
    let place = place(&server).with(STORED, r#"{"openai":{"api_key":"secret-own"}}"#);
    let error = endpoint(&place, "openai", &[("OPENAI_API_KEY", "o")]).unwrap_err();
    assert!(error.starts_with("There is no OpenAI API key. Set KEY in"), "{error}");
    assert!(error.contains("not sent to https://x.example,"), "{error}");
    assert!(!error.contains("secret-own"), "{error}");
    place.store(&[], Provider::OpenAi, "of-x");
    assert_eq!(endpoint(&place, "openai", &[]), Ok("https://x.example/v1 of-x bearer".to_owned()));
}

#[test]
fn a_stored_key_is_for_the_server_and_not_for_its_name() {
    let work = |host: &str| {
        let url = format!("https://{host}/v1");
        json!({ "work": { "url": url, "api": "openai", "keyVariable": "KEY" } })
    };
    let set = |place: Place, host: &str| {
        place.with(USER, &json!({ "modelServers": work(host) }).to_string())
    };
    let place = set(Place::new(), "one.example");
    place.store(&[], named("work"), "of-one");
    let place = set(place, "two.example");
    let error = endpoint(&place, "work", &[]).unwrap_err();
    assert!(error.contains("not sent to https://two.example,"), "{error}");
    place.store(&[], named("work"), "of-two");
    assert_eq!(
        endpoint(&place, "work", &[]),
        Ok("https://two.example/v1 of-two bearer".to_owned())
    );
    let place = set(place, "one.example");
    assert_eq!(
        endpoint(&place, "work", &[]),
        Ok("https://one.example/v1 of-one bearer".to_owned())
    );
}

#[test]
fn a_key_that_was_stored_without_its_server_is_asked_for_again() {
    for key_variable in [json!("KEY"), json!(null)] {
        let server =
            json!({ "url": "https://x.example/v1", "api": "openai", "keyVariable": key_variable });
        let place =
            place(&json!({ "work": server })).with(STORED, r#"{"work":{"api_key":"secret-old"}}"#);
        let error = endpoint(&place, "work", &[]).unwrap_err();
        assert!(error.contains("`tandem login --provider work`"), "{error}");
        assert!(error.contains("not sent to https://x.example,"), "{error}");
        let credentials = place.credentials_with_settings(&[]);
        credentials.take_login_variables([("OTHER".to_owned(), "x".to_owned())].into());
        assert!(credentials.endpoint(named("work")).is_err());
        place.store(&[], named("work"), "new");
        assert_eq!(endpoint(&place, "work", &[]), Ok("https://x.example/v1 new bearer".to_owned()));
        assert!(!place.read(STORED).contains("secret-old"));
    }
}

#[test]
fn a_variable_of_a_server_is_looked_for_where_others_are_and_in_their_order() {
    let server =
        json!({ "work": { "url": "https://x.example/v1", "api": "openai", "keyVariable": "KEY" } });
    let with_login = |place: &Place, vars: &[(&str, &str)]| {
        let credentials = place.credentials_with_settings(vars);
        credentials.take_login_variables([("KEY".to_owned(), "shell".to_owned())].into());
        let endpoint = credentials.endpoint(named("work"));
        endpoint.map(|endpoint| endpoint.key.unwrap().expose().to_owned()).map_err(drop)
    };
    let place = place(&server);
    assert_eq!(with_login(&place, &[]), Ok("shell".to_owned()));
    let place = place.with("home/.env", "KEY=file");
    assert_eq!(with_login(&place, &[]), Ok("file".to_owned()));
    // A variable that is set to nothing counts as not set anywhere.
    assert_eq!(with_login(&place, &[("KEY", "")]), Err(()));
}

#[test]
fn headers_of_a_gateways_own_are_no_secrets() {
    let place = place(&json!({ "openrouter": { "url": "http://proxy.lan/v1" } }));
    let expected = "http://proxy.lan/v1 - bearer X-Title=tandem";
    assert_eq!(endpoint(&place, "openrouter", &[]), Ok(expected.to_owned()));
    let error = endpoint(&place, "openrouter", &[("OPENROUTER_API_KEY", "or")]).unwrap_err();
    assert!(error.contains("must begin with https://"), "{error}");
}

#[test]
fn an_ollama_server_of_the_settings_is_set_up() {
    let place = place(&json!({ "ollama": { "url": "http://gpu-box:11434" } }));
    let credentials = place.credentials_with_settings(&[]);
    assert_eq!(credentials.first_set_up(), Some(Provider::Ollama));
    assert_eq!(endpoint(&place, "ollama", &[]), Ok("http://gpu-box:11434 - bearer".to_owned()));
}

#[test]
fn a_message_has_of_an_address_only_what_cannot_be_secret() {
    let url = "https://x.example:8443/secret/v1";
    let server = json!({ "work": { "url": url, "api": "openai", "keyVariable": "KEY" } });
    let error = endpoint(&place(&server), "work", &[]).unwrap_err();
    assert!(error.contains("You get a key at https://x.example:8443."), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn keys_of_servers_are_secret_and_those_that_other_programs_use_are_not() {
    let server =
        json!({ "work": { "url": "https://x.example/v1", "api": "openai", "keyVariable": "KEY" } });
    let vars = [
        ("KEY", "work-0123456789"),
        ("GITHUB_TOKEN", "ghp_0123456789"),
        ("OPENROUTER_API_KEY", "or"),
    ];
    let credentials = place(&server).credentials_with_settings(&vars);
    credentials.endpoint(GitHub).unwrap();
    credentials.endpoint(OpenRouter).unwrap();
    assert!(credentials.is_secret("KEY", "x"));
    assert!(credentials.is_secret("COPY", "work-0123456789"));
    assert!(credentials.is_secret("OPENROUTER_API_KEY", "or"));
    assert!(!credentials.is_secret("GITHUB_TOKEN", "ghp_0123456789"));
}

#[test]
fn a_stored_key_is_secret_whichever_programs_use_such_keys() {
    let place = Place::new();
    place.store(&[], GitHub, "ghp_0123456789");
    let credentials = place.credentials(&[]);
    credentials.endpoint(GitHub).unwrap();
    assert!(credentials.is_secret("COPY", "ghp_0123456789"));
    let mut text = "the key ghp_0123456789".to_owned();
    credentials.redact(&mut text);
    assert_eq!(text, "the key [key]");
}

#[test]
fn a_program_of_this_machine_has_its_usual_address_and_needs_no_key() {
    let check = |name: &str, expected: &str| {
        assert_eq!(endpoint(&Place::new(), name, &[]), Ok(format!("{expected} - bearer")));
    };
    check("ollama", "http://127.0.0.1:11434");
    check("llamacpp", "http://127.0.0.1:8080/v1");
    check("lmstudio", "http://127.0.0.1:1234/v1");
    check("vllm", "http://127.0.0.1:8000/v1");
    let credentials = Place::new().credentials(&[]);
    for provider in Provider::LOCAL_PROGRAMS {
        assert!(!credentials.is_set_up(provider), "{provider}: no address says that it runs");
    }
}

#[test]
fn the_settings_give_a_program_of_this_machine_another_address_and_a_key() {
    let server = json!({ "url": "http://127.0.0.1:9000/v1", "keyVariable": "KEY" });
    let place = place(&json!({ "vllm": server }));
    let expected = Ok("http://127.0.0.1:9000/v1 k bearer".to_owned());
    assert_eq!(endpoint(&place, "vllm", &[("KEY", "k")]), expected);
    let error = endpoint(&place, "vllm", &[]).unwrap_err();
    assert!(error.contains("There is no vLLM API key. Set KEY"), "{error}");
    let place = self::place(&json!({ "lmstudio": { "url": "http://gpu-box:1234/v1" } }));
    let credentials = place.credentials_with_settings(&[]);
    assert_eq!(credentials.first_set_up(), Some(Provider::LmStudio));
    assert_eq!(credentials.keys_made_at(Provider::LmStudio), "http://gpu-box:1234");
    assert_eq!(credentials.keys_made_at(Provider::Vllm), "http://127.0.0.1:8000/v1");
}

#[test]
fn a_vendors_usual_server_is_known_also_where_a_variable_names_it() {
    let check = |vars: &[(&str, &str)], expected| {
        let credentials = Place::new().credentials(vars);
        assert_eq!(credentials.has_usual_server(Provider::OpenAi), expected, "{vars:?}");
    };
    check(&[], true);
    check(&[("OPENAI_BASE_URL", "https://api.openai.com/v1/")], true);
    check(&[("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")], false);
}

#[test]
fn programs_of_this_machine_are_looked_for_as_a_variable_says() {
    let check = |value: Option<&str>, expected: &[Provider]| {
        let vars = value.map(|value| ("TANDEM_LOCAL_SERVERS", value));
        let credentials = Place::new().credentials(vars.as_slice());
        assert_eq!(credentials.env().local_servers(), expected, "{value:?}");
    };
    check(None, &Provider::LOCAL_PROGRAMS);
    check(Some(""), &[]);
    check(Some("vllm, ollama"), &[Provider::Ollama, Provider::Vllm]);
    check(Some("openai"), &[]);
}
