//! Servers of the Model Context Protocol, good ones and others, as sessions use them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::too_many_lines, reason = "a table of cases is as long as it is")]
#![expect(clippy::unnecessary_wraps, reason = "what goes into a list is wrapped once")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod calls;
mod confined;
mod http;
mod lifecycle;
mod login;
mod offers;
mod sandbox;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tandem_agent::session::{
    Answer, Event, Origin, Parts, Program, ResultContent, ServerAnswer, Session, ToolOutcome,
    TurnId,
};
use tandem_approval::consent::Consent;
use tandem_host::Host;
use tandem_host::scratch::Scratch;
use tandem_host::terminals::{EnvironmentFilter, Supervisor, Terminals};
use tandem_host::workspace::Workspace;
use tandem_mcp::{Hub, HubSetup, Load, Logins, McpLimits, ServerConfig, ServerReach};
use tandem_net::{Lookup, system_lookup};
use tempfile::TempDir;
use test_fakes::{Chunks, Spy, calls, is_end, logins, next, parts, says, text, until};
use test_support::limit::wait_until;

/// Returns the content that people are shown of a server's text.
fn said(text: &str) -> Option<ResultContent> {
    let answer = ServerAnswer { text: text.to_owned(), structured: None };
    Some(ResultContent::Server(Box::new(answer)))
}

/// Returns the server of the fixtures, whose behaviour depends on `mode`.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mcp/server.sh")
}

/// Returns the limits of these tests: a server is started again at once.
fn limits() -> McpLimits {
    McpLimits { again: Duration::from_millis(20), ..McpLimits::default() }
}

/// A session with servers, in a directory of its own.
struct Stage {
    session: Arc<Session>,
    supervisor: Arc<Supervisor>,
    spy: Arc<Spy>,
    told: Arc<std::sync::Mutex<Vec<String>>>,
    home: TempDir,
}

/// Limits, settings, logins and names for the servers of a session.
struct Surroundings {
    limits: McpLimits,
    load: Load,
    logins: Logins,
    lookup: Lookup,
}

/// Returns a server of this mode, whose files are in `home`.
fn server(home: &Path, name: &str, mode: &str) -> ServerConfig {
    let file = |file: &str| home.join(file).display().to_string();
    let program = Program {
        command: fixture().display().to_string(),
        args: vec![mode.to_owned()],
        env: vec![("NOTES".to_owned(), file("notes")), ("GO".to_owned(), file("go"))],
        directory: fs::canonicalize(home).unwrap(),
    };
    ServerConfig::new(name, ServerReach::Stdio(program), "a test")
}

impl Stage {
    /// Makes a session with one server of this name and mode.
    fn new(name: &str, mode: &str, answers: Vec<Chunks>) -> Self {
        Self::with(answers, limits(), |home| vec![server(home, name, mode)])
    }

    fn with(
        answers: Vec<Chunks>,
        limits: McpLimits,
        servers: impl FnOnce(&Path) -> Vec<ServerConfig>,
    ) -> Self {
        let home = TempDir::new().unwrap();
        let servers = servers(home.path());
        Self::in_home(home, answers, limits, Arc::new(move || servers.clone()), logins())
    }

    /// Makes a session with these servers, whose user logs in by `logins`.
    fn known(
        answers: Vec<Chunks>,
        limits: McpLimits,
        servers: Vec<ServerConfig>,
        logins: Logins,
    ) -> Self {
        let home = TempDir::new().unwrap();
        Self::in_home(home, answers, limits, Arc::new(move || servers.clone()), logins)
    }

    /// Makes a session whose servers are read when they are needed.
    fn loading(
        answers: Vec<Chunks>,
        load: impl Fn() -> Vec<ServerConfig> + Send + Sync + 'static,
    ) -> Self {
        Self::in_home(TempDir::new().unwrap(), answers, limits(), Arc::new(load), logins())
    }

    /// Makes a session in a folder whose programs need the user's consent.
    fn consented(
        answers: Vec<Chunks>,
        consent: &Arc<Consent>,
        servers: impl FnOnce(&Path) -> Vec<ServerConfig>,
    ) -> Self {
        let home = TempDir::new().unwrap();
        let servers = servers(home.path());
        let load: Load = Arc::new(move || servers.clone());
        let (limits, logins, lookup) = (limits(), logins(), system_lookup());
        let surroundings = Surroundings { limits, load, logins, lookup };
        let consent = Arc::clone(consent);
        Self::changed(home, answers, surroundings, |parts| Parts { consent, ..parts })
    }

    fn in_home(
        home: TempDir,
        answers: Vec<Chunks>,
        limits: McpLimits,
        load: Load,
        logins: Logins,
    ) -> Self {
        Self::looking_up(home, answers, limits, load, (logins, system_lookup()))
    }

    /// Makes a session in which `lookup` resolves host names.
    fn looking_up(
        home: TempDir,
        answers: Vec<Chunks>,
        limits: McpLimits,
        load: Load,
        (logins, lookup): (Logins, Lookup),
    ) -> Self {
        let surroundings = Surroundings { limits, load, logins, lookup };
        Self::changed(home, answers, surroundings, |parts| parts)
    }

    /// Makes a session whose parts `change` has changed.
    fn changed(
        home: TempDir,
        answers: Vec<Chunks>,
        surroundings: Surroundings,
        change: impl FnOnce(Parts) -> Parts,
    ) -> Self {
        let Surroundings { limits, load, logins, lookup } = surroundings;
        let (spy, told) = Spy::new(answers);
        let supervisor = Supervisor::new();
        let hidden = EnvironmentFilter::new(|name, _| name == "HOME");
        let terminals = Terminals::new(&supervisor, hidden);
        let workspace = Workspace::new(home.path(), &[]).unwrap();
        let servers = load();
        let roots = workspace.roots().to_owned();
        let limits_of_tools = tandem_host::ToolLimits::default();
        let host =
            Host::new(workspace, Arc::clone(&terminals), Scratch::new(None), limits_of_tools);
        let sandbox = Some(host.sandbox_of(sandbox::broken()));
        let setup = HubSetup { terminals, sandbox, roots, limits, load, logins, lookup };
        let session = Session::new(change(Parts {
            servers: Hub::new(servers, setup),
            host,
            ..parts(Arc::clone(&spy) as _)
        }));
        Self { session, supervisor, spy, told, home }
    }

    /// Returns the events of a turn in which every question gets this answer.
    async fn turn_answering(&self, answer: &Answer) -> Vec<Arc<Event>> {
        let turn = self.session.prompt(text("go"), Origin::Editor);
        self.follow(turn, answer).await
    }

    async fn follow(&self, turn: TurnId, answer: &Answer) -> Vec<Arc<Event>> {
        let mut log = self.session.events(0);
        let started =
            |event: &Event| matches!(event, Event::TurnStarted { turn: it } if *it == turn);
        until(&mut log, started).await;
        let mut events = Vec::new();
        loop {
            let event = next(&mut log).await;
            if let Event::CallStarted(started) = &*event
                && started.question.is_some()
            {
                self.session.answer(&started.call.id, answer.clone(), Origin::Editor).unwrap();
            }
            events.push(Arc::clone(&event));
            if is_end(&event) {
                return events;
            }
        }
    }

    async fn turn(&self) -> Vec<Arc<Event>> {
        self.turn_answering(&Answer::Once { edited: None }).await
    }

    /// Returns the names of the servers' tools that the model may call.
    fn tools(&self) -> Vec<String> {
        let names = self.session.tools().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
        names.into_iter().filter(|name| name.starts_with("mcp_")).collect()
    }

    /// Returns the phase of each server.
    fn standing(&self) -> Vec<String> {
        let servers = self.session.servers();
        servers.iter().map(|it| format!("{}: {}", it.name, it.phase)).collect()
    }

    /// Returns the last message that the model was given.
    fn told_last(&self) -> String {
        self.told.lock().unwrap().last().cloned().unwrap_or_default()
    }

    /// Returns the system instruction that the model was given.
    fn system(&self) -> String {
        self.spy.system.lock().unwrap().clone()
    }

    /// Waits until a server is ready.
    async fn ready(&self, name: &str) {
        let ready = format!("{name}: ready");
        wait_until(&ready, || self.standing().contains(&ready)).await;
    }

    fn notes(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.home.path().join("notes")).unwrap_or_default();
        notes.lines().map(ToOwned::to_owned).collect()
    }

    /// Waits until the server has noted this.
    async fn noted(&self, what: &str) {
        let is_noted = || self.notes().iter().any(|note| note == what);
        wait_until(&format!("{what} in the server's notes"), is_noted).await;
    }

    /// Lets a waiting server continue.
    fn go(&self) {
        fs::write(self.home.path().join("go"), "").unwrap();
    }
}

/// Returns the outcome of the only call of a turn.
fn outcome(events: &[Arc<Event>]) -> ToolOutcome {
    let outcomes = events.iter().filter_map(|event| match &**event {
        Event::CallFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let outcomes: Vec<_> = outcomes.collect();
    let [outcome] = &outcomes[..] else { panic!("{events:?}") };
    outcome.clone()
}

/// Returns the error of the only call of a turn.
fn error(events: &[Arc<Event>]) -> String {
    match outcome(events) {
        ToolOutcome::Failed(error) => format!("{}: {}", error.kind, error.message),
        other => panic!("{other:?}"),
    }
}

/// Returns the notices among events.
fn notices(events: &[Arc<Event>]) -> Vec<String> {
    let notices = events.iter().filter_map(|event| match &**event {
        Event::Notice(notice) => Some(notice.clone()),
        _ => None,
    });
    notices.collect()
}
