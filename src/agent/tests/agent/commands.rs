//! Slash commands, in a session.

mod chat;
mod memory;
mod model;
mod permissions;
mod plan;
mod registry;
pub(crate) mod sandbox;
mod thinking;
mod unknown;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tandem_agent::session::{
    Answer, ClientName, Event, Memory, Origin, Parts, Places, PromptPart, Session, StopReason,
    TurnId,
};
use tandem_host::{Access, Tool, ToolKind};
use tandem_model::{Call, Chunk, Finish, Usage};
use tandem_tools as tools;
use tempfile::TempDir;

use test_fakes::{
    Chunks, Fake, Spy, command_output, host, is_end, other, parts, says, text, until,
};

/// A session whose model is a spy, in a project and a home of its own.
struct Stage {
    session: Arc<Session>,
    spy: Arc<Spy>,
    told: Arc<std::sync::Mutex<Vec<String>>>,
    home: TempDir,
}

fn calls(name: &str, args: serde_json::Value) -> Chunks {
    vec![Ok(Chunk::Call(Call { id: "c1".to_owned(), name: name.to_owned(), args }))]
}

impl Stage {
    fn new(answers: Vec<Chunks>) -> Self {
        Self::with(answers, |parts| parts)
    }

    fn with(answers: Vec<Chunks>, change: impl FnOnce(Parts) -> Parts) -> Self {
        let home = TempDir::new().unwrap();
        let project = home.path().join("project");
        fs::create_dir_all(&project).unwrap();
        let (spy, told) = Spy::new(answers);
        let places = Places {
            user: vec![home.path().join(".gemini")],
            home: Some(home.path().to_owned()),
            ..Places::default()
        };
        let session = Session::new(change(Parts {
            tools: tools::all(),
            host: host(&project),
            memory: Memory::new(places, || Box::new(|_| true)),
            ..parts(Arc::clone(&spy) as _)
        }));
        Self { session, spy, told, home }
    }

    fn project(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.home.path()).unwrap().join("project").join(name)
    }

    fn user_file(&self) -> PathBuf {
        self.home.path().join(".gemini/GEMINI.md")
    }

    /// Returns the events of a prompt's turn, from its start to its end.
    async fn turn(&self, prompt: &str) -> Vec<Arc<Event>> {
        let turn = self.session.prompt(text(prompt), Origin::Editor);
        let mut log = self.session.events(0);
        let started =
            |event: &Event| matches!(event, Event::TurnStarted { turn: it } if *it == turn);
        until(&mut log, started).await;
        until(&mut log, is_end).await
    }

    #[track_caller]
    fn output<'a>(&'a self, command: &'a str) -> impl Future<Output = String> + use<'a> {
        command_output(&self.session, command)
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    fn system(&self) -> String {
        self.spy.system.lock().unwrap().clone()
    }
}

fn reason(event: &Event) -> StopReason {
    let Event::TurnFinished { reason, .. } = event else { panic!("{event:?}") };
    reason.clone()
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[tokio::test]
async fn help_lists_every_command_with_what_it_takes() {
    let stage = Stage::new(vec![]);
    let help = stage.output("/help").await;
    let commands: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("- `/")).collect();
    let names: Vec<_> = commands.iter().map(|line| line.split('`').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "help [COMMAND]",
            "about",
            "init",
            "memory show",
            "memory list",
            "memory add TEXT",
            "memory refresh",
            "model",
            "model show",
            "model set ID",
            "thinking [LEVEL]",
            "permissions",
            "permissions list",
            "permissions remove NUMBER",
            "permissions trust [YES OR NO]",
            "permissions reload",
            "plan",
            "plan off",
            "sandbox",
            "restore [CALL]",
            "restore list",
            "restore turn N",
            "restore since N",
            "rewind [N]",
            "rewind list",
            "rewind conversation N",
            "shells [PID]",
            "shells stop PID",
            "tools",
            "mcp",
            "mcp list",
            "mcp desc",
            "mcp schema",
            "mcp auth SERVER [ADDRESS]",
            "mcp logout SERVER",
            "mcp reload [SERVER]",
            "mcp enable SERVER",
            "mcp disable SERVER",
            "agents",
            "agents reload",
            "commands",
            "stats",
            "compress [ABOUT]",
            "continue",
            "rename [TITLE]",
            "fork",
            "chat save TAG",
            "chat overwrite TAG",
            "chat resume TAG",
            "chat list",
            "chat delete TAG",
            "chat share FILE",
            "export FILE",
            "share [NAME] [ROLE]",
            "unshare NAME",
            "clear"
        ]
    );
    contains(&stage.output("/help memory add").await, &["`/memory add TEXT`", "TEXT: the text"]);
    contains(&stage.output("/help /model").await, &["- `/model show`", "- `/model set ID`"]);
    let restore = stage.output("/help restore").await;
    contains(&restore, &["`/restore [CALL]`", "\n\n- `/restore list`", "- `/restore turn N`"]);
    contains(&stage.output("/help nonsense").await, &["Unknown command `/nonsense`"]);
}

#[tokio::test]
async fn about_names_version_model_mode_and_workspace() {
    let stage = Stage::new(vec![]);
    let about = stage.output("/about").await;
    let workspace = stage.project("").display().to_string();
    let workspace = workspace.trim_end_matches('/');
    contains(&about, &[env!("CARGO_PKG_VERSION"), "`spy`", "`default`", workspace]);
}

#[tokio::test]
async fn tools_lists_what_the_model_can_call() {
    let stage = Stage::new(vec![]);
    let listed = stage.output("/tools").await;
    // This model edits with `replace`, so it is not offered `apply_patch`.
    let told: Vec<_> =
        tools::all().into_iter().filter(|it| it.spec().name != "apply_patch").collect();
    assert_eq!(listed.lines().count(), told.len());
    for tool in told {
        contains(&listed, &[&format!("- `{}`: ", tool.spec().name)]);
    }
    assert!(listed.lines().all(|line| line.len() < 250), "{listed}");
}

#[tokio::test]
async fn stats_counts_tokens_calls_and_time() {
    let usage =
        Usage { input: 12_000, cached: 9_000, output: 345, thoughts: 67, ..Usage::default() };
    let finish = |answer: Chunks| {
        let finish = Chunk::Finish(Finish { usage, ..Finish::default() });
        [answer, vec![Ok(finish)]].concat()
    };
    let answers = vec![
        finish(calls("list_directory", json!({ "path": "." }))),
        finish(says("a")),
        finish(calls("read_file", json!({ "file_path": "none" }))),
        finish(says("b")),
    ];
    let stage = Stage::new(answers);
    let empty = stage.output("/stats").await;
    contains(&empty, &["prompts: 0, answers of the model: 0", "0 in (0 % of", "none called"]);
    stage.turn("one").await;
    stage.turn("two").await;
    let stats = stage.output("/stats").await;
    contains(
        &stats,
        &[
            "prompts: 2, answers of the model: 4, retries: 0",
            "48,000 in (75 % of them cached), 1,380 out, 268 thinking",
            "- `list_directory`: 1 done\n",
            "- `read_file`: 1 failed\n",
            "waiting for you to answer 0.0 s",
        ],
    );
}

#[tokio::test]
async fn white_space_around_a_command_does_not_matter() {
    let stage = Stage::new(vec![]);
    for prompt in ["  /about", "/about\n", "\n/about  ", "/about\t"] {
        contains(&stage.output(prompt).await, &["**tandem"]);
    }
    contains(&stage.output("/help\nmemory   add").await, &["`/memory add TEXT`"]);
}

#[tokio::test]
async fn a_command_that_is_used_wrongly_says_how_it_is_used() {
    let stage = Stage::new(vec![]);
    let memory = stage.output("/memory").await;
    contains(&memory, &["`/memory` needs one of these", "- `/memory add TEXT`: ", "refresh`"]);
    contains(&stage.output("/memory lose").await, &["`/memory` has no `lose`", "- `/memory show`"]);
    contains(&stage.output("/memory add").await, &["`/memory add TEXT`", "Missing: the text"]);
    contains(&stage.output("/model set  ").await, &["`/model set ID`", "the model's id"]);
    let clear = stage.output("/clear the table").await;
    assert_eq!(clear, "`/clear` takes no arguments; nothing was done.");
}

#[tokio::test]
async fn the_model_is_told_nothing_of_a_command() {
    let stage = Stage::new(vec![says("one"), says("two")]);
    stage.turn("first").await;
    stage.output("/stats").await;
    stage.output("/memory").await;
    stage.turn("second").await;
    assert_eq!(stage.told(), ["user: first", "assistant: one []", "user: second"]);
}

#[tokio::test]
async fn clear_lets_the_model_forget_and_keeps_the_log() {
    let stage = Stage::new(vec![says("one"), says("two"), says("three")]);
    stage.turn("first").await;
    assert!(stage.turn("/clear").await.contains(&Arc::new(Event::Forgotten)));
    stage.turn("second").await;
    assert_eq!(stage.told(), ["user: second"]);
    stage.turn("third").await;
    assert_eq!(stage.told(), ["user: second", "assistant: two []", "user: third"]);
    let mut log = stage.session.events(0);
    let first = until(&mut log, |event| *event == Event::Text("one".to_owned())).await;
    assert!(matches!(*first[1], Event::TurnQueued { turn: TurnId(1), .. }));
}

#[tokio::test]
async fn a_command_waits_for_the_turn_before_it() {
    let asks = Fake::new("t", ToolKind::Other, other());
    let stage = Stage::with(vec![calls("t", json!({})), says("done")], |parts| Parts {
        tools: vec![Arc::new(asks) as Arc<dyn Tool>],
        ..parts
    });
    let mut log = stage.session.events(0);
    stage.session.prompt(text("go"), Origin::Editor);
    let clear = stage.session.prompt(text("/clear"), Origin::A2a(ClientName::new(1, "agent")));
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    assert!(stage.session.turns().is_pending(clear));
    stage.session.answer("c1", Answer::Once { edited: None }, Origin::Editor).unwrap();
    let events = until(&mut log, |event| matches!(event, Event::Output(_))).await;
    let order: Vec<_> = events
        .iter()
        .filter_map(|event| match &**event {
            Event::Text(text) => Some(text.clone()),
            Event::TurnFinished { turn, .. } => Some(format!("end {}", turn.0)),
            Event::CommandStarted { name } => Some(name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["done", "end 1", "clear"]);
}

#[tokio::test]
async fn a_command_that_waits_can_be_cancelled_and_never_starts() {
    let asks = Fake::new("t", ToolKind::Other, Access::Nothing).running(|cx| async move {
        cx.cancel.cancelled().await;
        Err(tandem_host::ToolError::cancelled())
    });
    let stage = Stage::with(vec![calls("t", json!({})), says("again")], |parts| Parts {
        tools: vec![Arc::new(asks) as Arc<dyn Tool>],
        ..parts
    });
    let mut log = stage.session.events(0);
    let first = stage.session.prompt(text("go"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let clear = stage.session.prompt(text("/clear"), Origin::Editor);
    assert!(stage.session.cancel(clear));
    stage.session.cancel(first);
    stage.turn("more").await;
    assert_eq!(stage.told()[0], "user: go", "nothing was forgotten");
}

#[tokio::test]
async fn init_studies_the_project_and_writes_its_file_after_the_question() {
    let write = json!({ "file_path": "GEMINI.md", "content": "# The project\n" });
    let answers =
        vec![says("hi"), calls("write_file", write), says("It is a project."), says("I know.")];
    let stage = Stage::new(answers);
    stage.turn("hello").await;
    assert!(!stage.system().contains("# The project"));

    let mut log = stage.session.events(0);
    stage.session.prompt(text("/init"), Origin::Editor);
    let asked = until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let Event::CallStarted(started) = &**asked.last().unwrap() else { unreachable!() };
    assert!(started.question.is_some() && !stage.project("GEMINI.md").exists());
    stage
        .session
        .answer("c1", Answer::Once { edited: None }, Origin::A2a(ClientName::new(1, "agent")))
        .unwrap();
    let events = until(&mut log, is_end).await;
    assert_eq!(reason(events.last().unwrap()), StopReason::EndTurn);
    assert!(events.contains(&Arc::new(Event::Text("It is a project.".to_owned()))));
    assert_eq!(fs::read_to_string(stage.project("GEMINI.md")).unwrap(), "# The project\n");

    let told = stage.told();
    let file = stage.project("GEMINI.md").display().to_string();
    contains(&told[2], &["user: Write `", &file, "Look around"]);
    assert!(!told.concat().contains("/init"), "{told:?}");
    stage.turn("and now?").await;
    contains(stage.told().last().unwrap(), &["user: and now?", "# The project"]);
}

#[tokio::test]
async fn init_can_be_refused() {
    let write = json!({ "file_path": "GEMINI.md", "content": "x" });
    let stage = Stage::new(vec![calls("write_file", write), says("As you like.")]);
    let mut log = stage.session.events(0);
    stage.session.prompt(text("/init"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    stage.session.answer("c1", Answer::Reject, Origin::Editor).unwrap();
    let events = until(&mut log, is_end).await;
    assert_eq!(reason(events.last().unwrap()), StopReason::EndTurn);
    assert!(!stage.project("GEMINI.md").exists());
}

#[tokio::test]
async fn init_can_be_cancelled_in_its_question() {
    let write = json!({ "file_path": "GEMINI.md", "content": "x" });
    let stage = Stage::new(vec![calls("write_file", write)]);
    let mut log = stage.session.events(0);
    let turn = stage.session.prompt(text("/init"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    assert!(stage.session.cancel(turn));
    let events = until(&mut log, is_end).await;
    assert_eq!(reason(events.last().unwrap()), StopReason::Cancelled { answering: false });
    assert!(!stage.project("GEMINI.md").exists());
}
