//! `tandem login` and `tandem logout`.

use std::io;
use std::sync::{Arc, Mutex};

use expect_test::expect;
use serde_json::json;
use tandem_model::Error;
use tandem_model::endpoint::Endpoint;
use tandem_model::provider::Provider::{self, Gemini};
use tandem_settings::{Check, Credentials, KeyInput, accept_key, login, logout, read_settings};

use crate::credentials::{Place, STORED, words};

/// Returns an API that accepts one key, and repeats its request.
pub(crate) fn api() -> Check {
    Arc::new(|_, endpoint: Endpoint| {
        Box::pin(async move {
            match endpoint.key.as_ref().unwrap().expose() {
                "right-key" => Ok(()),
                "busy-key" => Err(Error::RateLimited("too many".to_owned())),
                "far-key" => Err(Error::Unavailable("far-key: no route to host".to_owned())),
                wrong => Err(Error::NotAuthenticated(format!("`{wrong}` is no key <of> mine."))),
            }
        })
    })
}

/// Logs in with these typed lines; returns the output, and the error.
async fn log_in(credentials: &Arc<Credentials>, lines: &[&str]) -> (String, Option<String>) {
    let typed: Vec<String> = lines.iter().rev().map(|line| (*line).to_owned()).collect();
    let typed = Mutex::new(typed);
    let attempts = u32::try_from(lines.len()).unwrap();
    let input = KeyInput::new(attempts, move || {
        typed.lock().unwrap().pop().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    });
    let mut out = Vec::new();
    let error = login(credentials, &api(), Gemini, input, &mut out).await.err();
    (String::from_utf8(out).unwrap(), error)
}

#[tokio::test]
async fn login_stores_a_key_that_is_good() {
    for key in ["right-key", "busy-key"] {
        let place = Place::new();
        let credentials = place.credentials(&[]);
        let (said, error) = log_in(&credentials, &[&format!("{key}\n")]).await;
        let file = place.path(STORED).display().to_string();
        assert_eq!((said, error), (format!("The key is good, and is stored in {file}.\n"), None));
        assert_eq!(words(&credentials.endpoint(Gemini).unwrap()), format!("API {key}"));
    }
}

#[tokio::test]
async fn login_asks_again_for_a_key_that_is_wrong() {
    let place = Place::new();
    let credentials = place.credentials(&[]);
    let (said, error) = log_in(&credentials, &["bad-key\n", "\n", "right-key\n"]).await;
    let file = place.path(STORED).display().to_string();
    expect![[r#"
        The key was not accepted: `…` is no key <of> mine. (You get keys at https://aistudio.google.com/apikey.)
        The key is empty.
        The key is good, and is stored in FILE.
    "#]].assert_eq(&said.replace(&file, "FILE"));
    assert_eq!(error, None);
    let (_, error) = log_in(&credentials, &["bad-key"]).await;
    expect!["The key was not accepted: `…` is no key <of> mine. (You get keys at https://aistudio.google.com/apikey.)"].assert_eq(&error.unwrap());
    assert_eq!(words(&credentials.endpoint(Gemini).unwrap()), "API right-key");
}

#[tokio::test]
async fn login_stores_nothing_that_could_not_be_checked() {
    let place = Place::new();
    let (said, error) = log_in(&place.credentials(&[]), &["far-key", "right-key"]).await;
    let error = error.unwrap();
    expect!["The key could not be checked, so it was not stored: …: no route to host"]
        .assert_eq(&error);
    assert_eq!(said, "");
    assert!(!place.path(STORED).exists());
}

#[tokio::test]
async fn login_says_that_another_key_wins() {
    let place = Place::new();
    let credentials = place.credentials(&[("GOOGLE_API_KEY", "mine")]);
    let (said, _) = log_in(&credentials, &["right-key"]).await;
    let file = place.path(STORED).display().to_string();
    expect![[r#"
        The key is good, and is stored in FILE.
        But the key in GOOGLE_API_KEY in the environment is used instead. Unset GOOGLE_API_KEY in the environment to use the stored key.
    "#]]
    .assert_eq(&said.replace(&file, "FILE"));
    let place = Place::new().with("home/.env", "GEMINI_API_KEY=mine");
    let (said, _) = log_in(&place.credentials(&[]), &["right-key"]).await;
    let file = place.path("home/.env").display().to_string();
    assert!(
        said.contains(&format!("But the key in GEMINI_API_KEY in {file} is used instead")),
        "{said}"
    );
}

#[tokio::test]
async fn a_typed_key_is_used_for_its_server_alone() {
    let settings = |host: &str| {
        let server = json!({ "url": format!("https://{host}/v1"), "api": "openai" });
        json!({ "modelServers": { "work": server } }).to_string()
    };
    let file = "home/.gemini/settings.json";
    let place = Place::new().with(file, &settings("one.example"));
    let one = place.credentials_with_settings(&[]);
    let work = Provider::Named("work".parse().unwrap());
    accept_key(&one, &api(), work, "right-key").await.unwrap();
    // From now on the key is only in the process.
    std::fs::remove_file(place.path(STORED)).unwrap();
    assert_eq!(words(&one.endpoint(work).unwrap()), "https://one.example/v1 right-key bearer");

    let place = place.with(file, &settings("two.example"));
    let env = one.env().in_directory(&place.path("home/repo"));
    let servers = read_settings(&env, &place.path("home/repo"), &[]).model_servers();
    let two = one.in_environment(env, servers);
    assert_eq!(words(&two.endpoint(work).unwrap()), "https://two.example/v1 - bearer");
    assert_eq!(words(&one.endpoint(work).unwrap()), "https://one.example/v1 right-key bearer");
}

#[tokio::test]
async fn login_that_is_interrupted_stores_nothing() {
    let credentials = Place::new().credentials(&[]);
    let input = KeyInput::new(3, || Err(io::ErrorKind::Interrupted.into()));
    let error = login(&credentials, &api(), Gemini, input, &mut io::sink()).await.unwrap_err();
    assert_eq!(error, "Interrupted; nothing was stored.");
}

#[test]
fn logout_removes_the_key_and_says_what_is_left() {
    let place = Place::new().with(STORED, r#"{"gemini":{"api_key":"old"}}"#);
    let credentials = place.credentials(&[("GEMINI_API_KEY", "mine")]);
    let mut out = Vec::new();
    logout(&credentials, Gemini, &mut out).unwrap();
    logout(&credentials, Gemini, &mut out).unwrap();
    let file = place.path(STORED).display().to_string();
    let still = "GEMINI_API_KEY in the environment is still set, and its key is used.\n";
    let expected = format!("The key was removed from {file}.\n{still}No key was stored.\n{still}");
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
