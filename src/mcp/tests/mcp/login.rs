//! Logging in to servers that are web services.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use reqwest::Url;
use serde_json::json;
use tandem_agent::session::{Event, Origin, ServerReach, ToolOutcome};
use tandem_mcp::{Logins, McpLimits, OAuth, ServerConfig};
use tandem_settings::{Credentials, Env, mcp_logins};
use tempfile::TempDir;
use test_fakes::{text, until};
use test_support::mcp::authority::{Authority, Ways, go};

use super::{Chunks, Stage, calls, error, limits, notices, outcome, said, says};

/// The user's browser, which is given an address.
type Browser = Arc<dyn Fn(Url) + Send + Sync>;

/// Returns a browser that follows all redirections.
fn follows() -> Browser {
    Arc::new(|address| drop(tokio::spawn(go(address))))
}

/// A user with a directory for tokens.
struct User {
    config: TempDir,
    browser: Browser,
    opened: Arc<Mutex<Vec<Url>>>,
}

impl User {
    fn with(browser: Browser) -> Self {
        Self { config: TempDir::new().unwrap(), browser, opened: Arc::default() }
    }

    fn logins(&self) -> Logins {
        let dir = self.config.path().display().to_string();
        let env = Env::new([("TANDEM_CONFIG_DIR".to_owned(), dir)], Path::new("/"));
        let (browser, opened) = (Arc::clone(&self.browser), Arc::clone(&self.opened));
        let open = move |address: String| {
            let address = Url::parse(&address).unwrap();
            opened.lock().unwrap().push(address.clone());
            browser(address);
            Box::pin(std::future::pending()) as _
        };
        Logins { open: Arc::new(open), ..mcp_logins(&Credentials::new(env)) }
    }

    /// Makes a session with the service.
    fn stage(&self, authority: &Authority, oauth: OAuth, answers: Vec<Chunks>) -> Stage {
        let reach = ServerReach::Http { url: authority.mcp(), headers: Vec::new() };
        let config = ServerConfig { oauth, ..ServerConfig::new("web", reach, "a test") };
        let limits = McpLimits { again: Duration::from_mins(1), ..limits() };
        Stage::known(answers, limits, vec![config], self.logins())
    }

    /// Returns the files of stored tokens.
    fn kept(&self) -> Vec<std::path::PathBuf> {
        let files = fs::read_dir(self.config.path().join("mcp-tokens")).into_iter().flatten();
        let files = files.map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|it| it == "json")).collect()
    }
}

impl Stage {
    /// Runs a command; returns its texts in order.
    pub(super) async fn says(&self, command: &str) -> String {
        let turn = self.session.prompt(text(command), Origin::Editor);
        let events = self.follow(turn, &tandem_agent::session::Answer::Once { edited: None }).await;
        let said = events.iter().filter_map(|event| match &**event {
            Event::Output(said) | Event::CommandFailed(said) => Some(said.as_str()),
            _ => None,
        });
        let said = said.collect::<Vec<_>>().join("\n");
        assert!(!said.contains("of-a-user"), "a secret is told: {said}");
        said
    }
}

const CALL: &str = "mcp_web_t";

/// The end of a login.
const LOGGED_IN: &str = "You are logged in to `web`. The MCP server `web` is ready.";

fn call_and_end() -> Vec<Chunks> {
    vec![calls(CALL, json!({})), says("done")]
}

#[track_caller]
fn is_known(outcome: &ToolOutcome) {
    let ToolOutcome::Done(output) = outcome else { panic!("{outcome:?}") };
    assert_eq!(output.shown, said("for a known user"));
}

#[tokio::test]
async fn a_login_in_the_browser_is_all_it_takes() {
    let authority = Authority::new(Ways::default()).await;
    let user = User::with(follows());
    let answers = [vec![says("hi")], call_and_end()].concat();
    let stage = user.stage(&authority, OAuth::default(), answers);
    let told = notices(&stage.turn().await);
    let how = "The MCP server `web` requires a login: run `/mcp auth web`, or put a token into its `headers` in \
        the settings";
    assert_eq!(told, [how]);
    let said = stage.says("/mcp auth web").await;
    assert!(said.starts_with("Log in to `web` in your browser: http://127.0.0.1:"), "{said}");
    assert!(said.ends_with(LOGGED_IN), "{said}");
    is_known(&outcome(&stage.turn().await));

    let register = authority.asked("/register");
    assert_eq!(register.len(), 1);
    let asked = &authority.asked("/authorize")[0];
    assert_eq!(asked["resource"], authority.mcp());
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["scope"], "read");
    assert!(asked["redirect_uri"].starts_with("http://localhost:"), "{asked:?}");
    let token = &authority.asked("/token")[0];
    assert_eq!(
        (token["resource"].as_str(), token["client_id"].as_str()),
        (authority.mcp().as_str(), "client-1")
    );
    let [kept] = &user.kept()[..] else { panic!("{:?}", user.kept()) };
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    // The next session uses the stored token, and asks for no new one.
    let stage = user.stage(&authority, OAuth::default(), call_and_end());
    is_known(&outcome(&stage.turn().await));
    assert_eq!(authority.asked("/token").len(), 1);
}

#[tokio::test]
async fn a_token_that_has_expired_is_renewed() {
    let authority = Authority::new(Ways { lasts: Some(1), ..Ways::default() }).await;
    let user = User::with(follows());
    let stage = user.stage(&authority, OAuth::default(), call_and_end());
    stage.says("/mcp auth web").await;
    authority.set(|ways| ways.lasts = None);
    is_known(&outcome(&stage.turn().await));
    let renewals = authority.asked("/token").len();
    assert!(authority.asked("/token")[1]["grant_type"] == "refresh_token" && renewals >= 2);
    // The renewed token was stored, so this session renews nothing.
    let stage = user.stage(&authority, OAuth::default(), call_and_end());
    is_known(&outcome(&stage.turn().await));
    assert_eq!(authority.asked("/token").len(), renewals);
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_without_a_word() {
    let authority = Authority::new(Ways::default()).await;
    let user = User::with(follows());
    let stage = user.stage(&authority, OAuth::default(), call_and_end());
    stage.says("/mcp auth web").await;
    authority.revoke();
    is_known(&outcome(&stage.turn().await));
}

#[tokio::test]
async fn when_it_cannot_be_renewed_the_user_logs_in_again() {
    let authority = Authority::new(Ways::default()).await;
    let user = User::with(follows());
    let answers = [call_and_end(), vec![says("hi")]].concat();
    let stage = user.stage(&authority, OAuth::default(), answers);
    stage.says("/mcp auth web").await;
    authority.revoke();
    authority.set(|ways| ways.no_renewal = true);
    let error = error(&stage.turn().await);
    expect![
        "mcp_server_down: The MCP server `web` requires the user to log in again: `/mcp auth web`."
    ]
    .assert_eq(&error);
    assert!(user.kept().is_empty(), "what is of no use is not kept");
    let next = user.stage(&authority, OAuth::default(), vec![says("hi")]);
    let told = notices(&next.turn().await).join("\n");
    expect![
        "The MCP server `web` requires a login: run `/mcp auth web`, or put a token into its `headers` in the \
         settings"
    ]
    .assert_eq(&told);
    authority.set(|ways| ways.no_renewal = false);
    next.says("/mcp auth web").await;
    assert_eq!(next.standing(), ["web: ready"]);
}

#[tokio::test]
async fn who_comes_back_with_another_state_is_nobody() {
    let authority = Authority::new(Ways::default()).await;
    let user = User::with(Arc::new(|address: Url| {
        drop(tokio::spawn(async move {
            let find =
                |name| address.query_pairs().find(|(it, _)| it == name).unwrap().1.into_owned();
            let mut wrong = Url::parse(&find("redirect_uri")).unwrap();
            wrong.query_pairs_mut().append_pair("code", "theirs").append_pair("state", "theirs");
            let page = go(wrong).await;
            assert!(page.contains("does not belong to a login"), "{page}");
            go(address).await;
        }));
    }));
    let stage = user.stage(&authority, OAuth::default(), Vec::new());
    stage.says("/mcp auth web").await;
    assert_eq!(stage.standing(), ["web: ready"]);
    assert_eq!(authority.asked("/token").len(), 1, "their code is not used");
}

/// Replaces the address of each login, which has secrets in it, and each port.
fn without_ports(said: &str) -> String {
    let address = regex::Regex::new(r"http://127\.0\.0\.1:\d+(/authorize\S*)?").unwrap();
    address.replace_all(said, "http://SERVER").into_owned()
}

/// Returns the words on a login that comes to nothing, and of which nothing is kept.
async fn fails(ways: Ways) -> String {
    let authority = Authority::new(ways).await;
    let user = User::with(follows());
    let stage = user.stage(&authority, OAuth::default(), Vec::new());
    let said = stage.says("/mcp auth web").await;
    assert!(user.kept().is_empty() && authority.asked("/token").is_empty(), "{said}");
    without_ports(&said)
}

#[tokio::test]
async fn a_login_that_is_not_what_it_should_be_comes_to_nothing() {
    let other = || Some("https://other.test".to_owned());
    let said = fails(Ways { issuer: other(), ..Ways::default() }).await;
    expect![[r#"
        Log in to `web` in your browser: http://SERVER

        If that browser is on another computer, its last page will not be found: cancel this, and run `/mcp auth web ADDRESS` with that page's address.

        The login failed: Authorization server issuer mismatch: expected http://SERVER, received https://other.test. Run `/mcp auth web` to try again."#]].assert_eq(&said);
    let said = fails(Ways { resource: other(), ..Ways::default() }).await;
    expect!["`web`: its login page could not be found: Protected resource metadata at http://SERVER/.well-known/oauth-protected-resource/mcp is unusable: Protected resource metadata resource mismatch: reference 'http://SERVER/mcp', permitted 'https://other.test/'."].assert_eq(&said);
    let said = fails(Ways { refuses: Some("access_denied".to_owned()), ..Ways::default() }).await;
    expect![[r#"
        Log in to `web` in your browser: http://SERVER

        If that browser is on another computer, its last page will not be found: cancel this, and run `/mcp auth web ADDRESS` with that page's address.

        The login failed: the service says access_denied. Run `/mcp auth web` to try again."#]].assert_eq(&said);
    let said = fails(Ways { no_registration: true, ..Ways::default() }).await;
    expect!["`web`: tandem could not register there as a client; if you have a client id, set it in the settings \
        (`oauth`, `clientId`): Registration failed: Dynamic client registration not supported."].assert_eq(&said);
}

#[tokio::test]
async fn only_web_pages_are_opened() {
    for address in
        ["file:///etc/passwd", "javascript:alert(1)", "ms-settings:x", "http://other.test"]
    {
        let ways = Ways { authorization: Some(address.to_owned()), ..Ways::default() };
        let authority = Authority::new(ways).await;
        let user = User::with(Arc::new(|_| ()));
        let stage = user.stage(&authority, OAuth::default(), Vec::new());
        let said = stage.says("/mcp auth web").await;
        assert!(
            said.contains("is not a URL") || said.contains("does not begin with https"),
            "{said}"
        );
        assert!(user.opened.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_login_that_was_cancelled_can_be_finished_with_the_last_address() {
    let authority = Authority::new(Ways::default()).await;
    let user = User::with(Arc::new(|_| ()));
    let stage = user.stage(&authority, OAuth::default(), Vec::new());
    let turn = stage.session.prompt(text("/mcp auth web"), Origin::Editor);
    let mut log = stage.session.events(0);
    until(&mut log, |event| matches!(event, Event::Output(_))).await;
    stage.session.cancel(turn);
    let ended = |event: &Event| matches!(event, Event::TurnFinished { .. });
    until(&mut log, ended).await;
    assert!(user.kept().is_empty());

    // The login was cancelled, so its listener is closed. The test reads the address that the browser would show.
    let address = user.opened.lock().unwrap()[0].clone();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let answer = client.build().unwrap().get(address).send().await.unwrap();
    let last = answer.headers()["location"].to_str().unwrap().to_owned();
    assert!(reqwest::get(&last).await.is_err(), "the page is closed");
    let said = stage.says("/mcp auth web http://localhost:1/callback?code=x&state=y").await;
    expect![
        "This address belongs to an earlier login to `web`. Run `/mcp auth web` to begin a new login, and use \
         the address of its last page."
    ]
    .assert_eq(&said);
    let said = stage.says("/mcp auth web nonsense").await;
    expect![
        "This is not the address of the last page of a login: it lacks `state`, or both `code` and `error`. Copy \
         the whole address from your browser."
    ]
    .assert_eq(&said);
    let said = stage.says(&format!("/mcp auth web {last}")).await;
    assert_eq!(said, LOGGED_IN);
    let said = stage.says(&format!("/mcp auth web {last}")).await;
    expect!["No login to `web` has begun: run `/mcp auth web` first."].assert_eq(&said);
}

#[tokio::test]
async fn the_settings_say_who_this_program_is_there() {
    let authority = Authority::new(Ways { no_registration: true, ..Ways::default() }).await;
    let user = User::with(Arc::new(|_| ()));
    let oauth: OAuth = serde_json::from_value(json!({
        "enabled": true, "clientId": "known", "clientSecret": "hush-of-a-user",
        "redirectUri": "https://elsewhere.test/back", "scopes": ["all", "more"], "audiences": ["me"],
    }))
    .unwrap();
    let stage = user.stage(&authority, oauth, Vec::new());
    let said = stage.says("/mcp auth web").await;
    let (_, rest) = said.split_once("Log in to `web` at ").unwrap();
    let address = Url::parse(rest.split_whitespace().next().unwrap()).unwrap();
    let asked: std::collections::BTreeMap<_, _> = address.query_pairs().into_owned().collect();
    assert_eq!(asked["client_id"], "known");
    assert_eq!(asked["redirect_uri"], "https://elsewhere.test/back");
    assert_eq!((asked["scope"].as_str(), asked["audience"].as_str()), ("all more", "me"));
}

#[tokio::test]
async fn who_logs_out_is_unknown_there_from_then_on() {
    let authority = Authority::new(Ways::default()).await;
    let user = User::with(follows());
    let stage = user.stage(&authority, OAuth::default(), call_and_end());
    stage.says("/mcp auth web").await;
    is_known(&outcome(&stage.turn().await));
    let said = stage.says("/mcp logout web").await;
    let how = "The login to `web` was removed. The MCP server `web` requires a login: run `/mcp auth web`, or \
        put a token into its `headers` in the settings.";
    assert_eq!(said, how);
    assert_eq!(user.kept(), Vec::<std::path::PathBuf>::new());
    assert_eq!(stage.says("/mcp logout web").await, "You were not logged in to `web`.");
    let said = stage.says("/mcp logout other").await;
    assert_eq!(said, "Unknown MCP server `other`. Known servers: `web`.");
}

#[tokio::test]
async fn who_has_no_login_is_told_so() {
    let authority = Authority::new(Ways::default()).await;
    let user = User::with(Arc::new(|_| ()));
    let stage = user.stage(&authority, OAuth::default(), Vec::new());
    let said = stage.says("/mcp auth other").await;
    assert_eq!(said, "Unknown MCP server `other`. Known servers: `web`.");
    let stage = Stage::new("s", "plain", Vec::new());
    let said = stage.says("/mcp auth s").await;
    assert_eq!(said, "`s` is not reached over HTTP, so it has no login.");
    let reach = ServerReach::Http { url: authority.mcp(), headers: Vec::new() };
    let held = Some("may not be used yet".to_owned());
    let config = ServerConfig { held, ..ServerConfig::new("web", reach, "a test") };
    let asked = authority.asked("/mcp").len();
    let stage = Stage::known(Vec::new(), limits(), vec![config], user.logins());
    let said = stage.says("/mcp auth web").await;
    assert_eq!(said, "The MCP server `web` may not be used yet.");
    assert_eq!(authority.asked("/mcp").len(), asked, "it is not reached");
}
