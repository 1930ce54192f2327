//! Sources of the key: the environment, `.env`, and the file that `tandem login` writes.

mod clouds;
mod providers;
mod servers;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::expect;
use serde_json::Value;
use tandem_host::terminals::Supervisor;
use tandem_model::Secret;
use tandem_model::endpoint::Endpoint;
use tandem_model::provider::Provider::{self, Anthropic, Gemini, Ollama, OpenAi};
use tandem_settings::{Credentials, Env, read_settings};
use tracing::subscriber::NoSubscriber;

const API: &str = "https://generativelanguage.googleapis.com/v1beta/models";

/// A home with a repository, in one of whose directories the agent works.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    work: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("home/repo/sub");
        fs::create_dir_all(&work).unwrap();
        fs::create_dir(dir.path().join("home/repo/.git")).unwrap();
        Self { dir, work }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file that other users cannot write.
    pub(crate) fn with(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        self.mode(name, 0o600)
    }

    pub(crate) fn mode(self, name: &str, mode: u32) -> Self {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// Judges folders as `trustedFolders.json` does.
    pub(crate) fn judged(self, rules: &[(&str, &str)]) -> Self {
        let said = |(name, said): &(&str, &str)| {
            (self.path(name).display().to_string(), Value::from(*said))
        };
        let rules: serde_json::Map<_, _> = rules.iter().map(said).collect();
        self.with("home/.gemini/trustedFolders.json", &Value::from(rules).to_string())
    }

    pub(crate) fn credentials(&self, vars: &[(&str, &str)]) -> Arc<Credentials> {
        Credentials::new(self.env(vars))
    }

    /// Returns the credentials with the servers of the settings.
    pub(crate) fn credentials_with_settings(&self, vars: &[(&str, &str)]) -> Arc<Credentials> {
        let env = self.env(vars);
        let settings = read_settings(&env, &self.work, &[]);
        assert_eq!(settings.remarks(), <[String; 0]>::default());
        Credentials::with_servers(env, settings.model_servers(), &Supervisor::new())
    }

    /// Stores a key as a login with these variables and the settings does.
    pub(crate) fn store(&self, vars: &[(&str, &str)], provider: Provider, key: &str) -> PathBuf {
        let credentials = self.credentials_with_settings(vars);
        credentials.store(&credentials.typed_key(provider, Secret::new(key)).unwrap()).unwrap()
    }

    pub(crate) fn env(&self, vars: &[(&str, &str)]) -> Env {
        let home = ("HOME".to_owned(), self.path("home").display().to_string());
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Env::new([home].into_iter().chain(vars), &self.work)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn mode_of(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o777
    }
}

pub(crate) const STORED: &str = "home/.config/tandem/credentials.json";

/// Returns the endpoint in words: address, key and headers.
pub(crate) fn words(endpoint: &Endpoint) -> String {
    let key = endpoint.key.as_ref().map_or("-", Secret::expose);
    let mut words = format!("{} {key}", endpoint.url.replace(API, "API"));
    words.push_str(if endpoint.bearer { " bearer" } else { "" });
    for (name, value) in endpoint.fixed_headers {
        words.extend([" ", name, "=", value]);
    }
    for (name, value) in &endpoint.headers {
        words.extend([" ", name, "=", value]);
    }
    words
}

pub(crate) fn check(place: &Place, vars: &[(&str, &str)], expected: &str) {
    let endpoint = place.credentials(vars).endpoint(Gemini);
    assert_eq!(endpoint.as_ref().map(words), Ok(expected.to_owned()), "{vars:?}");
}

/// Checks that the error contains all of these texts.
pub(crate) fn check_error(place: &Place, vars: &[(&str, &str)], expected: &[&str]) {
    let error = place.credentials(vars).endpoint(Gemini).unwrap_err();
    for expected in expected {
        assert!(error.contains(expected), "{expected:?} is not in {error:?}");
    }
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn without_a_key_it_is_said_what_to_do() {
    let place = Place::new();
    let file = place.path("home/.gemini/.env").display().to_string();
    let url = "https://aistudio.google.com/apikey";
    check_error(&place, &[], &["GEMINI_API_KEY", "`tandem login`", &file, url]);
}

#[test]
fn variables_of_the_login_shell_count_all_together_for_a_provider_without_a_key() {
    let variables = [
        ("GEMINI_API_KEY", "shell"),
        ("GOOGLE_GEMINI_BASE_URL", "https://gateway"),
        ("OPENAI_API_KEY", "sk-shell"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let endpoint = |place: &Place, vars: &[(&str, &str)]| {
        let credentials = place.credentials(vars);
        credentials.take_login_variables(variables.clone().into());
        assert!(credentials.is_secret("ANY", "sk-shell"));
        (words(&credentials.endpoint(Gemini).unwrap()), credentials.is_own(Gemini))
    };
    let gateway = "https://gateway/v1beta/models";
    let place = Place::new();
    assert_eq!(endpoint(&place, &[]), (format!("{gateway} shell"), false));
    assert_eq!(endpoint(&place, &[("GEMINI_API_KEY", "own")]), ("API own".to_owned(), true));
    let place = place.with(STORED, r#"{"gemini":{"api_key":"stored"}}"#);
    assert_eq!(endpoint(&place, &[]), ("API stored".to_owned(), true));
}

#[test]
fn whose_model_answers_follows_from_what_is_set_up() {
    let place = Place::new();
    for (vars, expected) in [
        (&[][..], None),
        (&["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"], Some(Gemini)),
        (&["OPENAI_API_KEY", "ANTHROPIC_API_KEY"], Some(Anthropic)),
        (&["OPENAI_API_KEY", "OLLAMA_HOST"], Some(OpenAi)),
        (&["OLLAMA_HOST"], Some(Ollama)),
        (&["ANTHROPIC_AUTH_TOKEN"], Some(Anthropic)),
    ] {
        let set: Vec<_> = vars.iter().map(|name| (*name, "x")).collect();
        assert_eq!(place.credentials(&set).first_set_up(), expected, "{vars:?}");
    }
    let place = place.with("home/.env", "OPENAI_API_KEY=x");
    assert_eq!(place.credentials(&[]).first_set_up(), Some(OpenAi));
    let place = place.with(STORED, r#"{"anthropic":{"api_key":"x"}}"#);
    assert_eq!(place.credentials(&[]).first_set_up(), Some(Anthropic));
}

#[test]
fn the_environment_comes_first_then_the_env_file_then_the_stored_key() {
    let place = Place::new().with(STORED, r#"{"gemini":{"api_key":"stored"}}"#);
    check(&place, &[], "API stored");
    let place = place.with("home/repo/sub/.env", "GOOGLE_API_KEY=file-google");
    check(&place, &[], "API file-google");
    let place = place.with("home/repo/sub/.env", "GOOGLE_API_KEY=g\nGEMINI_API_KEY='file'");
    check(&place, &[], "API file");
    check(&place, &[("GOOGLE_API_KEY", "google")], "API google");
    check(&place, &[("GOOGLE_API_KEY", "google"), ("GEMINI_API_KEY", " gemini\n")], "API gemini");
}

#[test]
fn a_variable_that_is_set_to_nothing_is_not_overridden() {
    let place = Place::new().with("home/.env", "GEMINI_API_KEY=file");
    check_error(&place, &[("GEMINI_API_KEY", "")], &["There is no Gemini API key"]);
}

#[test]
fn nothing_is_read_before_it_is_asked_for_and_then_it_is_kept() {
    let place = Place::new();
    let credentials = place.credentials(&[]);
    let connect = credentials.connect(Gemini);
    assert!(connect().is_err());
    let place = place.with("home/repo/.env", "GEMINI_API_KEY=one");
    assert_eq!(words(&connect().unwrap()), "API one");
    let _place = place.with("home/repo/.env", "GEMINI_API_KEY=two");
    assert_eq!(words(&connect().unwrap()), "API one");
    credentials.refresh(Gemini);
    assert_eq!(words(&connect().unwrap()), "API two");
}

#[test]
fn a_login_in_another_process_counts_at_once() {
    let place = Place::new();
    let connect = place.credentials(&[]).connect(Gemini);
    for key in ["one", "two"] {
        place.store(&[], Gemini, key);
        assert_eq!(words(&connect().unwrap()), format!("API {key}"));
    }
    place.credentials(&[]).forget(Gemini).unwrap();
    assert!(connect().is_err());
}

#[test]
fn vertex_is_called_with_the_key_for_it() {
    let place = Place::new();
    let vars = [("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("GEMINI_API_KEY", "secret")];
    check_error(&place, &vars, &["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"]);
    let vars = [vars[0], vars[1], ("GOOGLE_API_KEY", "key"), ("GOOGLE_VERTEX_BASE_URL", "")];
    let url = "https://aiplatform.googleapis.com/v1beta1/publishers/google/models key";
    check(&place, &vars, url);
    let vars = [vars[0], vars[2], ("GOOGLE_VERTEX_BASE_URL", "https://gate.example/x/")];
    check(&place, &vars, "https://gate.example/x/v1beta1/publishers/google/models key");
    let vars = [("GOOGLE_GENAI_USE_VERTEXAI", "false"), ("GOOGLE_API_KEY", "key")];
    check(&place, &vars, "API key");
}

#[test]
fn a_gateway_gets_what_key_there_is() {
    let place = Place::new();
    let url = ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:8080/");
    check(&place, &[url], "http://127.0.0.1:8080/v1beta/models -");
    let version = ("GOOGLE_GENAI_API_VERSION", "v1");
    check(&place, &[url, version], "http://127.0.0.1:8080/v1/models -");
    check(&place, &[url, ("GOOGLE_API_KEY", "key")], "http://127.0.0.1:8080/v1beta/models key");
}

#[test]
fn a_variable_that_cannot_be_used_is_named_without_its_value() {
    let key = ("GEMINI_API_KEY", "key");
    for (name, value) in [
        ("GEMINI_API_KEY", "secret secret"),
        ("GOOGLE_GEMINI_BASE_URL", "http://secret.example"),
        ("GOOGLE_GEMINI_BASE_URL", "https://secret:secret@gate.example"),
        ("GOOGLE_GENAI_API_VERSION", "../secret"),
        ("GEMINI_API_KEY_AUTH_MECHANISM", "secret"),
        ("GEMINI_CLI_CUSTOM_HEADERS", "secret"),
    ] {
        check_error(&Place::new(), &[key, (name, value)], &[name, "in the environment"]);
    }
}

#[test]
fn a_stored_key_is_for_its_user_only() {
    let place = Place::new();
    let path = place.store(&[], Gemini, "key");
    assert_eq!(path, place.path(STORED));
    assert_eq!(place.mode_of(STORED), 0o600);
    assert_eq!(place.mode_of("home/.config/tandem"), 0o700);
    check(&place, &[], "API key");
    // A file that other users can read is used. Storing the next key makes the file private.
    let place = place.mode(STORED, 0o644);
    check(&place, &[], "API key");
    place.store(&[], Gemini, "key2");
    assert_eq!(place.mode_of(STORED), 0o600);
    check(&place, &[], "API key2");
}

#[test]
fn the_config_directory_can_be_chosen() {
    let place = Place::new();
    let (own, xdg) = (place.path("own"), place.path("xdg"));
    let (own, xdg) = (own.display().to_string(), xdg.display().to_string());
    let stored = |vars: &[(&str, &str)]| place.store(vars, Gemini, "key");
    let vars = [("XDG_CONFIG_HOME", &*xdg), ("TANDEM_CONFIG_DIR", &*own)];
    assert_eq!(stored(&vars), place.path("own/credentials.json"));
    assert_eq!(stored(&vars[..1]), place.path("xdg/tandem/credentials.json"));
    assert_eq!(stored(&[("XDG_CONFIG_HOME", "relative")]), place.path(STORED));
}

#[test]
fn what_else_is_in_the_file_is_kept() {
    let text = r#"{"other":[1],"gemini":{"note":"n","api_key":"old"}}"#;
    let place = Place::new().with(STORED, text);
    let squeezed = || place.read(STORED).split_whitespace().collect::<String>();
    place.store(&[], Gemini, "new");
    assert_eq!(squeezed(), text.replace("old", "new"));
    assert_eq!(place.credentials(&[]).forget(Gemini), Ok(Some(place.path(STORED))));
    assert_eq!(squeezed(), r#"{"other":[1],"gemini":{"note":"n"}}"#);
    assert_eq!(place.credentials(&[]).forget(Gemini), Ok(None));
}

#[test]
fn a_file_with_nothing_left_in_it_is_removed() {
    let place = Place::new().with(STORED, r#"{"gemini":{"api_key":"old"}}"#);
    place.credentials(&[]).forget(Gemini).unwrap();
    assert!(!place.path(STORED).exists());
    assert_eq!(place.credentials(&[]).forget(Gemini), Ok(None));
}

#[test]
fn a_malformed_file_is_named_and_not_destroyed() {
    for (text, why) in [
        ("{\n\"gemini\": secret}", "line 2 column 11"),
        ("\"secret\"", "is not a JSON object"),
        (r#"{"gemini":{"api_key":["secret"]}}"#, "`gemini.api_key`"),
        (r#"{"gemini":{"api_key":"secret\u0007x"}}"#, "`gemini.api_key`"),
    ] {
        let place = Place::new().with(STORED, text);
        let file = place.path(STORED).display().to_string();
        check_error(&place, &[], &[&file, why]);
        // The broken file does not matter if there is another key.
        check(&place, &[("GEMINI_API_KEY", "key")], "API key");
    }
    let mut told = Vec::new();
    for text in ["{\n\"gemini\": secret}", "\"secret\"", r#"{"gemini":"secret"}"#] {
        let place = Place::new().with(STORED, text);
        let credentials = place.credentials(&[]);
        let typed = credentials.typed_key(Gemini, Secret::new("new")).unwrap();
        let error = credentials.store(&typed).unwrap_err();
        let file = place.path(STORED).display().to_string();
        told.push(error.replace(&file, "FILE"));
        assert_eq!(place.read(STORED), text);
    }
    expect![[r#"
        FILE is not valid JSON (expected value at line 2 column 11): correct it, or remove it and run `tandem login`.
        FILE is not a JSON object: correct it, or remove it and run `tandem login`.
        `gemini` in FILE is not a JSON object: correct it, or remove it."#]].assert_eq(&told.join("\n"));
}

#[test]
fn programs_that_are_started_see_no_key() {
    let key = "AIza-0123456789abcdef";
    let place = Place::new().with("home/.env", &format!("GEMINI_API_KEY={key}"));
    let credentials = place.credentials(&[("GOOGLE_API_KEY", "g-key")]);
    let check = |name: &str, value: &str, expected: bool| {
        assert_eq!(credentials.is_secret(name, value), expected, "{name}={value}");
    };
    check("GEMINI_API_KEY", "", true);
    check("GOOGLE_API_KEY", "anything", true);
    check("GEMINI_CLI_CUSTOM_HEADERS", "Authorization: x", true);
    check("COPY", "g-key\n", true);
    check("PATH", "/bin:g-key", false);
    // The stored key is not known yet: `is_secret` reads no file.
    check("COPY", key, false);
    let credentials = place.credentials(&[]);
    credentials.endpoint(Gemini).unwrap();
    assert!(credentials.is_secret("COPY", key));
    assert!(credentials.is_secret("URL", &format!("https://x.example/?key={key}")));
    assert!(!credentials.is_secret("HOME", "/root"));
}

#[test]
fn the_log_says_once_what_was_not_read_and_never_a_key() {
    let place = Place::new()
        .with("home/repo/.env", "GEMINI_API_KEY=secret")
        .mode("home/repo/.env", 0o666)
        .with(STORED, r#"{"gemini":{"api_key":"secret"}}"#)
        .mode(STORED, 0o644);
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.reopen().map(Arc::new).unwrap())
        .finish();
    // A second subscriber is needed. With only one, a log line of another test's thread could switch the same line
    // off for all threads.
    let _second = tracing::Dispatch::new(NoSubscriber::default());
    tracing::subscriber::with_default(subscriber, || {
        let credentials = place.credentials(&[]);
        credentials.endpoint(Gemini).unwrap();
        credentials.endpoint(Gemini).unwrap();
    });
    let log = fs::read_to_string(log.path()).unwrap();
    assert_eq!(log.matches("other users can write it").count(), 1, "{log}");
    assert_eq!(log.matches("can be read or written by other users").count(), 1, "{log}");
    assert!(!log.contains("secret"), "{log}");
}
