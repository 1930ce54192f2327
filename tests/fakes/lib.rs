//! Sessions whose models, tools and stores behave as a test says.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]

pub mod call_agent;
pub mod postgres;
pub mod store;

use std::panic::Location;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};
use tandem_a2a_client::Agents;
use tandem_agent::commands::Registry;
use tandem_agent::session::{
    Event, Memory, Origin, Parts, Places, PromptPart, Reader, Session, StopReason, Storage, Upkeep,
};
use tandem_approval::consent::{Consent, ConsentStatus, Review};
use tandem_approval::{LoadedRules, Mode, PolicySetup, RuleStore, Saved};
use tandem_host::scratch::Scratch;
use tandem_host::terminals::Terminals;
use tandem_host::workspace::Workspace;
use tandem_host::{
    Access, Host, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolLimits,
    ToolOutput, ToolSpec,
};
use tandem_mcp::{self as mcp, Hub};
use tandem_model::replay::Replay;
use tandem_model::{Call, Chunk, Error, Finish, Message, Model, Models, Part, Prompt};
use tandem_policy::rules::RuleSet;
use tempfile::TempDir;

pub use test_support::host::{context, host, host_with, terminals};
use test_support::limit::in_time;

/// A store without rules and answers, in which nothing can be saved: only the built-in rules decide.
pub struct NoRules;

impl RuleStore for NoRules {
    fn load(&self) -> LoadedRules {
        LoadedRules { policy: Arc::new(RuleSet::default()), saved: Vec::new(), remarks: Vec::new() }
    }

    fn save(&self, _: &Saved) -> Result<PathBuf, String> {
        Err("there is no file to save it in".to_owned())
    }

    fn remove(&self, _: &Saved) -> Result<(), String> {
        Ok(())
    }
}

/// The work of a fake tool.
type Run =
    Arc<dyn Fn(ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

/// A tool whose results and access a test chooses.
#[derive(Clone)]
pub struct Fake {
    name: &'static str,
    kind: ToolKind,
    access: Access,
    run: Run,
}

impl Fake {
    /// Returns a tool whose result is `ran`.
    pub fn new(name: &'static str, kind: ToolKind, access: Access) -> Self {
        let output = || ToolOutput::new("ran", "ran");
        Self { name, kind, access, run: Arc::new(move |_| async move { Ok(output()) }.boxed()) }
    }

    /// Returns the tool with other work.
    #[must_use]
    pub fn running<F>(mut self, run: impl Fn(ToolContext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        self.run = Arc::new(move |cx| run(cx).boxed());
        self
    }
}

/// Returns an access that the policy asks about.
pub fn other() -> Access {
    Access::Other { description: "does something".to_owned() }
}

#[async_trait]
impl Tool for Fake {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            aliases: &[],
            description: String::new(),
            parameters: json!({ "type": "object" }),
            kind: self.kind,
        }
    }

    async fn prepare(&self, args: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        assert!(args["panic"].is_null(), "asked to panic");
        let run = Arc::clone(&self.run);
        Ok(Invocation::new(Summary::new(self.name), self.access.clone(), move |cx| run(cx)))
    }
}

/// Returns a session with these tools, whose model plays the answers.
pub fn session(answers: Value, tools: Vec<Fake>) -> Arc<Session> {
    let script = json!({ "when": "", "answers": answers }).to_string();
    with_model(Arc::new(Replay::from_script(&script).unwrap()), tools)
}

/// Returns a session of a model with these tools.
pub fn with_model(model: Arc<dyn Model>, tools: Vec<Fake>) -> Arc<Session> {
    let tool = |fake| -> Arc<dyn Tool> { Arc::new(fake) };
    Session::new(Parts { tools: tools.into_iter().map(tool).collect(), ..parts(model) })
}

/// Returns the parts of a session without tools, in an empty directory of its own.
pub fn parts(model: Arc<dyn Model>) -> Parts {
    let directory = TempDir::new().unwrap();
    let workspace = Workspace::new(directory.path(), &[]).unwrap();
    let terminals = terminals();
    Parts {
        model,
        models: Arc::new(NoModels),
        memory: Memory::new(Places::default(), || Box::new(|_| true)),
        commands: Arc::new(Registry::default()),
        tools: Vec::new(),
        servers: Hub::new(Vec::new(), servers(&terminals)),
        agents: Agents::none(),
        host: Host::new(workspace, terminals, Scratch::new(None), ToolLimits::default()),
        mode: Mode::Default,
        is_attended: true,
        short_tools: None,
        policy: PolicySetup::new(Arc::new(NoRules)),
        consent: no_programs(),
        max_rounds: 100,
        upkeep: Upkeep::default(),
        max_session_rounds: None,
        notices: Vec::new(),
        // `today` lives as long as the session, and holds the directory, so that the directory is removed with the
        // session.
        today: Arc::new(move || {
            let _in = &directory;
            jiff::civil::date(2026, 2, 3)
        }),
        workspace: None,
        storage: Storage::Nowhere,
    }
}

/// Returns the consent for a project whose settings run no programs.
fn no_programs() -> Arc<Consent> {
    let found = Review { executables: Vec::new(), status: ConsentStatus::Given };
    let consent = Consent::new(move || found.clone(), |_, _| Ok(()));
    consent.settle(true);
    consent
}

/// Returns the setup of servers that a session without any has.
pub fn servers(terminals: &Arc<Terminals>) -> mcp::HubSetup {
    mcp::HubSetup {
        terminals: Arc::clone(terminals),
        sandbox: None,
        roots: Vec::new(),
        limits: mcp::McpLimits::default(),
        load: Arc::new(Vec::new),
        logins: logins(),
        lookup: tandem_net::system_lookup(),
    }
}

/// Returns the logins of a user who cannot log in to any server.
pub fn logins() -> mcp::Logins {
    mcp::Logins { store: Arc::new(NoTokens), open: Arc::new(|_| Box::pin(std::future::pending())) }
}

struct NoTokens;

impl mcp::TokenStore for NoTokens {
    fn load(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn save(&self, _: &str, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn lock(&self, _: &str) -> Result<Box<dyn Send>, String> {
        Ok(Box::new(()))
    }
}

struct NoModels;

impl Models for NoModels {
    fn known(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn open(&self, id: &str) -> Result<Arc<dyn Model>, String> {
        Err(format!("There is no model `{id}`."))
    }
}

/// Returns a prompt with one text.
pub fn text(text: &str) -> Vec<PromptPart> {
    vec![PromptPart::Text(text.to_owned())]
}

/// Reads events until one fits; returns it, and all events before it.
#[track_caller]
pub fn until(
    log: &mut Reader,
    mut found: impl FnMut(&Event) -> bool,
) -> impl Future<Output = Vec<Arc<Event>>> {
    let caller = Location::caller();
    async move {
        let mut events = Vec::new();
        loop {
            let event = in_time(log.next()).await.unwrap_or_else(|| {
                panic!("nothing more happens, and {caller} waits; so far: {events:#?}")
            });
            events.push(Arc::clone(&event));
            if found(&event) {
                return events;
            }
        }
    }
}

/// Returns the next event.
#[track_caller]
pub fn next(log: &mut Reader) -> impl Future<Output = Arc<Event>> {
    let any = until(log, |_| true);
    async move { any.await.remove(0) }
}

/// Returns `true` for the end of a turn.
pub fn is_end(event: &Event) -> bool {
    matches!(event, Event::TurnFinished { .. })
}

/// Runs a slash command, and returns its output. Checks that the command has no other effect than its events, and that
/// the model is not asked.
#[track_caller]
pub fn command_output<'a>(
    session: &'a Arc<Session>,
    command: &'a str,
) -> impl Future<Output = String> + use<'a> {
    let at = Location::caller();
    async move {
        let turn = session.prompt(text(command), Origin::Editor);
        let mut log = session.events(0);
        let started =
            |event: &Event| matches!(event, Event::TurnStarted { turn: it } if *it == turn);
        until(&mut log, started).await;
        let mut events = until(&mut log, is_end).await;
        let is_told = |event: &Event| {
            matches!(event, Event::AlwaysRemoved { .. } | Event::InstructionsTold(_))
        };
        events.retain(|event| !is_told(event));
        let [command, output, end] = &events[..] else { panic!("{at}: {events:?}") };
        assert!(matches!(**command, Event::CommandStarted { .. }), "{at}: {events:?}");
        let Event::TurnFinished { reason, .. } = &**end else { panic!("{at}: {events:?}") };
        assert_eq!(*reason, StopReason::EndTurn, "{at}");
        let (Event::Output(output) | Event::CommandFailed(output)) = &**output else {
            panic!("{at}: {events:?}")
        };
        output.clone()
    }
}

/// A model's answer to a prompt.
pub type Chunks = Vec<Result<Chunk, Error>>;

/// Returns an answer that says this.
pub fn says(text: &str) -> Chunks {
    vec![Ok(Chunk::Text(text.to_owned()))]
}

/// Returns an answer that calls this tool.
pub fn calls(name: &str, args: Value) -> Chunks {
    vec![Ok(Chunk::Call(Call { id: String::new(), name: name.to_owned(), args }))]
}

/// A model that records its prompts, and answers from a list.
pub struct Spy {
    told: Arc<Mutex<Vec<String>>>,
    /// The last system instruction.
    pub system: Mutex<String>,
    answers: Mutex<Vec<Chunks>>,
}

impl Spy {
    /// Returns the model, and the messages of its last prompt, each as a line.
    pub fn new(answers: Vec<Chunks>) -> (Arc<Self>, Arc<Mutex<Vec<String>>>) {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let system = Mutex::default();
        let spy = Self { told: Arc::clone(&told), system, answers: Mutex::new(answers) };
        (Arc::new(spy), told)
    }
}

impl Model for Spy {
    fn id(&self) -> &'static str {
        "spy"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        *self.told.lock().unwrap() = prompt.messages.iter().map(|message| line(message)).collect();
        *self.system.lock().unwrap() = prompt.system.to_string();
        let mut answer = self.answers.lock().unwrap().remove(0);
        if answer.iter().all(Result::is_ok) && !matches!(answer.last(), Some(Ok(Chunk::Finish(_))))
        {
            answer.push(Ok(Chunk::Finish(Finish::default())));
        }
        assert!(!answer.contains(&Ok(Chunk::Text("panic".to_owned()))), "asked to panic");
        stream::iter(answer).boxed()
    }
}

fn line(message: &Message) -> String {
    match message {
        Message::User(parts) => {
            let parts = parts.iter().map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Media(_) => "[media]",
            });
            format!("user: {}", parts.collect::<String>())
        }
        Message::Assistant(said) => {
            let calls: Vec<_> = said.calls.iter().map(|call| call.id.as_str()).collect();
            format!("assistant: {} [{}]", said.text, calls.join(", "))
        }
        Message::Results(results) => {
            let result = |it: &tandem_model::ToolResult| {
                let failed = if it.failed { "!" } else { "" };
                format!("{}{failed} {}", it.call, it.text)
            };
            format!("results: {}", results.iter().map(result).collect::<Vec<_>>().join(" | "))
        }
    }
}
