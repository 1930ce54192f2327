//! Each provider has its own key, and no key is sent to another provider.

use tandem_model::Error;
use tandem_model::provider::Provider::{self, Anthropic, Gemini, Ollama, OpenAi};

use super::{Place, STORED, words};

#[track_caller]
fn check(place: &Place, provider: Provider, vars: &[(&str, &str)], expected: &str) {
    let endpoint = place.credentials(vars).endpoint(provider);
    assert_eq!(endpoint.as_ref().map(words), Ok(expected.to_owned()), "{provider} {vars:?}");
}

#[track_caller]
fn check_error(place: &Place, provider: Provider, vars: &[(&str, &str)], expected: &[&str]) {
    let error = place.credentials(vars).endpoint(provider).unwrap_err();
    for expected in expected {
        assert!(error.contains(expected), "{expected:?} is not in {error:?}");
    }
    assert!(!error.contains("secret"), "{error}");
}

const ALL: &[(&str, &str)] = &[
    ("GEMINI_API_KEY", "g"),
    ("OPENAI_API_KEY", "o"),
    ("ANTHROPIC_API_KEY", "a"),
    ("OLLAMA_API_KEY", "l"),
];

#[test]
fn each_provider_is_called_with_its_own_key() {
    let place = Place::new();
    check(&place, Gemini, ALL, "API g");
    check(&place, OpenAi, ALL, "https://api.openai.com/v1 o bearer");
    check(&place, Anthropic, ALL, "https://api.anthropic.com a");
    check(&place, Ollama, ALL, "http://127.0.0.1:11434 l bearer");
}

#[test]
fn without_its_key_it_is_said_what_to_do() {
    let place = Place::new();
    for (provider, name) in [(OpenAi, "OPENAI_API_KEY"), (Anthropic, "ANTHROPIC_API_KEY")] {
        let login = format!("`tandem login --provider {provider}`");
        check_error(&place, provider, &ALL[..1], &[name, &login, "You get a key at https://"]);
    }
    check(&place, Ollama, &[], "http://127.0.0.1:11434 - bearer");
}

#[test]
fn another_address_may_need_no_key_and_without_one_no_https() {
    let place = Place::new();
    let url = ("OPENAI_BASE_URL", "http://gpu-box:8000/v1/");
    check(&place, OpenAi, &[url], "http://gpu-box:8000/v1 - bearer");
    let key = ("OPENAI_API_KEY", "secret");
    check_error(&place, OpenAi, &[url, key], &["OPENAI_BASE_URL in the environment", "https://"]);
    let url = ("OPENAI_BASE_URL", "https://openrouter.ai/api/v1");
    check(&place, OpenAi, &[url, key], "https://openrouter.ai/api/v1 secret bearer");
    let headers = ("OPENAI_CUSTOM_HEADERS", "api-key: k, X-A: b");
    check(&place, OpenAi, &[url, headers], "https://openrouter.ai/api/v1 - bearer api-key=k X-A=b");
    check(&place, Ollama, &[("OLLAMA_HOST", "gpu-box")], "http://gpu-box:11434 - bearer");
}

#[test]
fn a_gateways_token_is_a_bearer_token_and_a_key_comes_before_it() {
    let place = Place::new();
    let token = ("ANTHROPIC_AUTH_TOKEN", "t");
    let url = ("ANTHROPIC_BASE_URL", "https://gateway.example");
    check(&place, Anthropic, &[url, token], "https://gateway.example t bearer");
    check(
        &place,
        Anthropic,
        &[url, token, ("ANTHROPIC_API_KEY", "a")],
        "https://gateway.example a",
    );
}

#[test]
fn stored_keys_of_providers_are_apart() {
    let place = Place::new().with(STORED, r#"{"gemini":{"api_key":"g"}}"#);
    place.store(&[], OpenAi, "o");
    check(&place, Gemini, &[], "API g");
    check(&place, OpenAi, &[], "https://api.openai.com/v1 o bearer");
    assert_eq!(place.credentials(&[]).forget(Anthropic), Ok(None));
    place.credentials(&[]).forget(Gemini).unwrap();
    check(&place, OpenAi, &[], "https://api.openai.com/v1 o bearer");
    assert!(place.credentials(&[]).endpoint(Gemini).is_err());
}

#[test]
fn a_stored_key_is_sent_to_no_other_server_than_it_was_entered_for() {
    // The form of version 0.2.0, which has no address: the key is for the provider itself.
    let place = Place::new().with(STORED, r#"{"openai":{"api_key":"own"}}"#);
    let gateway = ("OPENAI_BASE_URL", "https://gateway.example/v1");
    check(&place, OpenAi, &[], "https://api.openai.com/v1 own bearer");
    check(
        &place,
        OpenAi,
        &[("OPENAI_BASE_URL", "https://api.openai.com/v1/")],
        "https://api.openai.com/v1 own bearer",
    );
    check(&place, OpenAi, &[gateway], "https://gateway.example/v1 - bearer");
    place.store(&[gateway], OpenAi, "of-gateway");
    check(&place, OpenAi, &[gateway], "https://gateway.example/v1 of-gateway bearer");
    check(&place, OpenAi, &[], "https://api.openai.com/v1 own bearer");
    for other in
        ["https://gateway.example:8443/v1", "https://other.example/v1", "http://127.0.0.1/v1"]
    {
        check(&place, OpenAi, &[("OPENAI_BASE_URL", other)], &format!("{other} - bearer"));
    }
    let other_path = ("OPENAI_BASE_URL", "https://gateway.example/v2");
    check(&place, OpenAi, &[other_path], "https://gateway.example/v2 of-gateway bearer");
    place.credentials(&[]).forget(OpenAi).unwrap();
    check(&place, OpenAi, &[gateway], "https://gateway.example/v1 - bearer");
    assert!(!place.path(STORED).exists());
}

#[test]
fn a_projects_env_file_gives_keys_and_never_an_address() {
    let settings = "OPENAI_API_KEY=o\nOPENAI_BASE_URL=https://evil.example\nANTHROPIC_API_KEY=a\n\
        ANTHROPIC_BASE_URL=https://evil.example\nOLLAMA_HOST=evil.example\n\
        OPENAI_CUSTOM_HEADERS='X-A: b'";
    let place = Place::new().with("home/repo/.env", settings);
    check(&place, OpenAi, &[], "https://api.openai.com/v1 o bearer");
    check(&place, Anthropic, &[], "https://api.anthropic.com a");
    check(&place, Ollama, &[], "http://127.0.0.1:11434 - bearer");
    let place = place.judged(&[("home/repo", "TRUST_FOLDER")]);
    check(&place, OpenAi, &[], "https://evil.example o bearer X-A=b");
    check(&place, Anthropic, &[], "https://evil.example a");
    check(&place, Ollama, &[], "http://evil.example:11434 - bearer");
}

#[test]
fn looking_for_one_key_changes_nothing_for_another() {
    let place = Place::new().with("home/repo/.env", "GEMINI_API_KEY=one");
    let credentials = place.credentials(&[]);
    assert_eq!(words(&credentials.endpoint(Gemini).unwrap()), "API one");
    let _place = place.with("home/repo/.env", "GEMINI_API_KEY=two\nOPENAI_API_KEY=o");
    assert!(credentials.endpoint(Anthropic).is_err());
    assert!(credentials.endpoint(OpenAi).is_ok());
    assert_eq!(words(&credentials.endpoint(Gemini).unwrap()), "API one");
}

#[test]
fn programs_that_are_started_see_none_of_the_keys() {
    let place = Place::new().with("home/.env", "OPENAI_API_KEY=sk-0123456789abcdef");
    let credentials = place.credentials(&[("ANTHROPIC_API_KEY", "sk-ant-0123456789")]);
    credentials.endpoint(OpenAi).unwrap();
    for (name, value) in [
        ("OPENAI_API_KEY", ""),
        ("ANTHROPIC_API_KEY", ""),
        ("ANTHROPIC_AUTH_TOKEN", ""),
        ("OLLAMA_API_KEY", ""),
        ("OPENAI_CUSTOM_HEADERS", ""),
        ("ANTHROPIC_CUSTOM_HEADERS", ""),
        ("COPY", "sk-0123456789abcdef"),
        ("URL", "https://x.example/?key=sk-ant-0123456789"),
    ] {
        assert!(credentials.is_secret(name, value), "{name}={value}");
    }
    assert!(!credentials.is_secret("OPENAI_BASE_URL", "https://x.example"));
}

#[test]
fn only_a_missing_key_is_answered_by_a_login() {
    let place = Place::new();
    let error = |vars: &[(&str, &str)]| {
        place.credentials(vars).endpoint_of_model(Anthropic, "claude-opus-5").unwrap_err()
    };
    assert!(matches!(error(&[]), Error::NotAuthenticated(_)));
    let wrong = error(&[("ANTHROPIC_BASE_URL", "not an address"), ("ANTHROPIC_API_KEY", "key")]);
    assert!(matches!(wrong, Error::Rejected(_)), "{wrong:?}");
}
