//! The format of events, which outlives the program. Later versions read every event that this version writes, and
//! this version keeps events of later versions unchanged.
//!
//! `fixtures/store/v1/events.jsonl` has a line for each shape of an event, in the order of [`every`]. A new variant
//! or field adds lines, which `UPDATE_EVENTS=1 cargo test -p tandem-agent events` appends. An existing line is never
//! changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tandem_agent::session::{
    Access, Answer, CallStarted, Caller, ClientName, Compressed, Event, FORMAT_VERSION, FileDiff,
    FileLocation, Masked, Mode, Origin, PrincipalId, PromptFile, PromptPart, PromptTags,
    PushConfig, Question, QuestionSubject, QuotedMessage, ResultContent, RuleName, SavedPlace,
    Scope, ServerAnswer, Session, SessionStarted, SessionState, ShareRole, StopReason, Summary,
    TaskEvent, Todo, TodoStatus, ToldFile, ToldInstructions, ToolKind, ToolOutcome, ToolOutput,
    TurnId, UnknownOutcome, WebSource, explain_unknown_outcome,
};
use tandem_content::media::Media;
use tandem_host::preimages::{ContentId, FileChange, Preimage};
use tandem_host::workspace::OutsideFile;
use tandem_host::{Hints, InputOption, InputQuestion, ProgramInput, ToolError};
use tandem_model::{Call, Error, FinishReason, Native, Part, Retry, Usage};
use tandem_sandbox::SandboxMode;

use test_fakes::{Fake, is_end, other, session, text, until};

const GOLDEN: &str = "fixtures/store/v1/events.jsonl";
const NEWER: &str = "fixtures/store/v1/newer.jsonl";

fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(of)
}

fn lines(of: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path(of)).unwrap();
    text.lines().map(ToOwned::to_owned).collect()
}

fn read(line: &str) -> Event {
    serde_json::from_str(line).unwrap()
}

fn write(event: &Event) -> String {
    serde_json::to_string(event).unwrap()
}

/// Returns `true` for each event that this version knows. A new variant does not compile here: [`every`] then needs
/// the variant, too.
#[expect(clippy::match_same_arms, reason = "it is a list")]
fn is_listed(event: &Event) -> bool {
    match event {
        Event::SessionStarted(_) => true,
        Event::SystemPrompt(_) => true,
        Event::InstructionsTold(_) => true,
        Event::TurnQueued { .. } => true,
        Event::TurnStarted { .. } => true,
        Event::TurnResumed { .. } => true,
        Event::CommandStarted { .. } => true,
        Event::Output(_) => true,
        Event::CommandFailed(_) => true,
        Event::CommandReplied { .. } => true,
        Event::Asked(_) => true,
        Event::Told { .. } => true,
        Event::ToldNext(_) => true,
        Event::Compressed(_) => true,
        Event::Masked(_) => true,
        Event::Forgotten => true,
        Event::Rewound { .. } => true,
        Event::MessageCompleted => true,
        Event::SessionRenamed { .. } => true,
        Event::ModelChanged { .. } => true,
        Event::ThinkingChanged { .. } => true,
        Event::ToolsLimited { .. } => true,
        Event::ModeChanged { .. } => true,
        Event::AlwaysAllowed { .. } => true,
        Event::AlwaysRemoved { .. } => true,
        Event::Text(_) => true,
        Event::Thought(_) => true,
        Event::Retry(_) => true,
        Event::Notice(_) => true,
        Event::AnswerFinished { .. } => true,
        Event::CallStarted(_) => true,
        Event::CallProgress { .. } => true,
        Event::QuestionClosed { .. } => true,
        Event::FileChanged { .. } => true,
        Event::FileRestored { .. } => true,
        Event::CallFinished { .. } => true,
        Event::WorkspaceSaved(_) => true,
        Event::TurnFinished { .. } => true,
        Event::Task(_) => true,
        Event::Unknown(_) => false,
    }
}

fn origins() -> Vec<Origin> {
    let all = vec![
        Origin::Editor,
        Origin::Terminal,
        Origin::Attached(ClientName::new(2, "0199f2c4")),
        Origin::A2a(ClientName::new(1, "curl/8.5.0")),
        Origin::A2a(ClientName::new(3, "curl/8.5.0").with_principal(Some(alice()))),
    ];
    for origin in &all {
        match origin {
            Origin::Editor | Origin::Terminal | Origin::Attached(_) | Origin::A2a(_) => {}
        }
    }
    all
}

fn prompt_parts() -> Vec<PromptPart> {
    let all = vec![
        PromptPart::Text("a \"text\"\n".to_owned()),
        PromptPart::Input("an input".to_owned()),
        PromptPart::Path("src/main.rs".to_owned()),
        PromptPart::Shell("ls -l".to_owned()),
        PromptPart::Media(Media::new("image/png", b"\x89PNG\r\n\x1a\nx")),
        PromptPart::AnswerSchema(json!({ "type": "object" })),
    ];
    for part in &all {
        match part {
            PromptPart::Text(_)
            | PromptPart::Input(_)
            | PromptPart::Path(_)
            | PromptPart::Shell(_)
            | PromptPart::Media(_)
            | PromptPart::File(_)
            | PromptPart::AnswerSchema(_) => {}
        }
    }
    all
}

fn scopes() -> Vec<Scope> {
    let names = |name: &str| vec![name.to_owned()];
    let line = Scope::Line { line: "make".to_owned(), directory: "/p".into() };
    let all = vec![
        Scope::Edits,
        Scope::Commands(names("git commit")),
        line,
        Scope::Programs(names("git")),
        Scope::Hosts(names("example.org")),
        Scope::Tool("touch".to_owned()),
        Scope::Server("s".to_owned()),
        Scope::Repetition,
        Scope::Outside(names("git commit")),
        Scope::Connections(names("example.org")),
        Scope::Reads(vec!["/home/me/notes".into()]),
        Scope::Agent("a".to_owned()),
        Scope::AgentTool { agent: "a".to_owned(), tool: "t".to_owned() },
    ];
    for scope in &all {
        match scope {
            Scope::Edits
            | Scope::Commands(_)
            | Scope::Line { .. }
            | Scope::Programs(_)
            | Scope::Hosts(_)
            | Scope::Tool(_)
            | Scope::Server(_)
            | Scope::Outside(_)
            | Scope::Connections(_)
            | Scope::Reads(_)
            | Scope::Agent(_)
            | Scope::AgentTool { .. }
            | Scope::Repetition => {}
        }
    }
    all
}

fn answers() -> Vec<Answer> {
    let all = vec![
        Answer::Once { edited: None },
        Answer::Once { edited: Some("new".to_owned()) },
        Answer::Always(Scope::Edits),
        Answer::AlwaysAndSave(Scope::Edits),
        Answer::Reject,
        Answer::RejectSaying("not so".to_owned()),
        Answer::Cancel,
        Answer::Unclear("no JSON".to_owned()),
        Answer::Nobody("nobody is here".to_owned()),
        Answer::Input(vec!["Red".to_owned(), String::new()]),
    ];
    for answer in &all {
        match answer {
            Answer::Once { .. }
            | Answer::Always(_)
            | Answer::AlwaysAndSave(_)
            | Answer::Reject
            | Answer::RejectSaying(_)
            | Answer::Cancel
            | Answer::Unclear(_)
            | Answer::Nobody(_)
            | Answer::Input(_) => {}
        }
    }
    all
}

fn contents() -> Vec<ResultContent> {
    let diff = FileDiff::new("a", Some("1\n".into()), "2\n");
    let source = WebSource { title: "a title".to_owned(), url: "https://example.org".to_owned() };
    let answer = ServerAnswer { text: "{}".to_owned(), structured: Some(json!({ "a": 1 })) };
    let all = vec![
        ResultContent::Markdown("*a*".to_owned()),
        ResultContent::Output("a\n".to_owned()),
        ResultContent::Diff(Box::new(diff)),
        ResultContent::Todos(todos()),
        ResultContent::Sources(vec![source]),
        ResultContent::Server(Box::new(answer)),
        ResultContent::Diff(Box::new(several())),
    ];
    for content in &all {
        match content {
            ResultContent::Markdown(_)
            | ResultContent::Output(_)
            | ResultContent::Diff(_)
            | ResultContent::Todos(_)
            | ResultContent::Sources(_)
            | ResultContent::Server(_) => {}
        }
    }
    all
}

/// Returns a change of several files: one that is moved, and one that is removed.
fn several() -> FileDiff {
    let removed = FileDiff { removes: true, ..FileDiff::new("/p/c", Some("1\n".into()), "") };
    FileDiff {
        moved_from: Some("/p/a".to_owned()),
        others: vec![removed],
        ..FileDiff::new("/p/b", Some("1\n".into()), "2\n")
    }
}

fn todos() -> Vec<Todo> {
    let all = [
        TodoStatus::Pending,
        TodoStatus::InProgress,
        TodoStatus::Completed,
        TodoStatus::Cancelled,
        TodoStatus::Blocked,
    ];
    let todo = |status| Todo { description: "a thing".to_owned(), status };
    all.into_iter().map(todo).collect()
}

fn outcomes() -> Vec<ToolOutcome> {
    let media = vec![Media::new("image/png", b"\x89PNG\r\n\x1a\nx")];
    let done = |shown| {
        let (text, media) = ("for the model".to_owned(), Vec::new());
        ToolOutcome::Done(ToolOutput { text, media, shown })
    };
    let mut all = vec![
        ToolOutcome::Done(ToolOutput { text: String::new(), media, shown: None }),
        ToolOutcome::Failed(ToolError::new("internal", "why")),
        ToolOutcome::Rejected,
        ToolOutcome::Cancelled,
        ToolOutcome::Interrupted,
    ];
    all.extend(contents().into_iter().map(|content| done(Some(content))));
    for outcome in &all {
        match outcome {
            ToolOutcome::Done(_)
            | ToolOutcome::Failed(_)
            | ToolOutcome::Rejected
            | ToolOutcome::Cancelled
            | ToolOutcome::Interrupted
            | ToolOutcome::Unknown(_) => {}
        }
    }
    all
}

fn errors() -> Vec<Error> {
    let all = [
        Error::NotAuthenticated,
        Error::RateLimited,
        Error::Refused,
        Error::ContextTooLong,
        Error::Rejected,
        Error::Unavailable,
        Error::BadAnswer,
    ];
    let all: Vec<Error> = all.into_iter().map(|error| error("why".to_owned())).collect();
    for error in &all {
        match error {
            Error::NotAuthenticated(_)
            | Error::RateLimited(_)
            | Error::Refused(_)
            | Error::ContextTooLong(_)
            | Error::Rejected(_)
            | Error::Unavailable(_)
            | Error::BadAnswer(_) => {}
        }
    }
    all
}

fn reasons() -> Vec<StopReason> {
    let mut all = vec![
        StopReason::EndTurn,
        StopReason::Cancelled { answering: true },
        StopReason::Closed { answering: false, why: "it is over".to_owned() },
        StopReason::Unanswered(Duration::from_millis(1500)),
        StopReason::MaxTokens,
        StopReason::MaxRounds(100),
        StopReason::MaxSessionRounds(5),
        StopReason::Looping("the same".to_owned()),
        StopReason::Refused("why".to_owned()),
        StopReason::SchemaMismatch("the value lacks `a`".to_owned()),
        StopReason::Crashed,
        StopReason::Interrupted,
    ];
    all.extend(errors().into_iter().map(StopReason::Failed));
    for reason in &all {
        match reason {
            StopReason::EndTurn
            | StopReason::Cancelled { .. }
            | StopReason::Closed { .. }
            | StopReason::Unanswered(_)
            | StopReason::MaxTokens
            | StopReason::MaxRounds(_)
            | StopReason::MaxSessionRounds(_)
            | StopReason::Looping(_)
            | StopReason::Refused(_)
            | StopReason::SchemaMismatch(_)
            | StopReason::Failed(_)
            | StopReason::Crashed
            | StopReason::Interrupted
            | StopReason::Unknown(_) => {}
        }
    }
    all
}

fn questions() -> Vec<InputQuestion> {
    let option = |label: &str, description: &str| InputOption {
        label: label.to_owned(),
        description: description.to_owned(),
    };
    let options = vec![option("Red", "Warm"), option("Blue", "")];
    vec![
        InputQuestion {
            question: "Which?".to_owned(),
            header: "Colour".to_owned(),
            options: options.clone(),
        },
        InputQuestion { question: "And then?".to_owned(), header: String::new(), options },
    ]
}

fn accesses() -> Vec<Access> {
    let hints = Hints { trusted: true, read_only: Some(true), ..Hints::default() };
    let mcp = Access::Mcp {
        server: "s".to_owned(),
        tool: "t".to_owned(),
        display_name: "T".to_owned(),
        hints,
    };
    let all = vec![
        Access::Nothing,
        Access::Read,
        Access::ReadFiles { paths: vec!["/p/a".into()], outside: Vec::new() },
        Access::ReadFiles {
            paths: vec!["/home/me/notes/x".into()],
            outside: vec![OutsideFile {
                path: "/home/me/notes/x".into(),
                folder: Some("/home/me/notes".into()),
            }],
        },
        Access::edit("/p/a"),
        Access::Execute { command: "ls".to_owned(), directory: "/p".into(), sandbox: None },
        Access::Fetch { urls: vec!["https://example.org".to_owned()], allowed: Vec::new() },
        mcp,
        Access::Connect {
            host: "example.org".to_owned(),
            port: 443,
            others: Vec::new(),
            command: "npm install".to_owned(),
            is_allowed: false,
        },
        Access::Other { description: "Something else.".to_owned() },
        Access::Agent {
            agent: "a".to_owned(),
            description: "Something to send.".to_owned(),
            trusted: false,
        },
        Access::AgentQuestion {
            agent: "a".to_owned(),
            tool: "t".to_owned(),
            description: "A question.".to_owned(),
            danger: false,
        },
        Access::Edit { path: "/p/a".into(), others: vec!["/p/b".into()] },
        Access::UserInput { questions: questions() },
        Access::ProgramInput(ProgramInput {
            pid: 7,
            command: "sh".to_owned(),
            directory: "/p".into(),
            sandbox: SandboxMode::ReadOnly,
            sees_secrets: false,
            unfinished: "rm".to_owned(),
            text: " x\n".to_owned(),
            closes: true,
        }),
    ];
    for access in &all {
        match access {
            Access::Nothing
            | Access::Read
            | Access::ReadFiles { .. }
            | Access::Edit { .. }
            | Access::Execute { .. }
            | Access::Fetch { .. }
            | Access::Mcp { .. }
            | Access::Connect { .. }
            | Access::Agent { .. }
            | Access::AgentQuestion { .. }
            | Access::UserInput { .. }
            | Access::ProgramInput(_)
            | Access::Other { .. } => {}
        }
    }
    all
}

fn call() -> Call {
    Call { id: "c1".to_owned(), name: "touch".to_owned(), args: json!({ "path": "a" }) }
}

fn started(caller: Caller, kind: ToolKind, access: Access, question: Option<Question>) -> Event {
    let diff = FileDiff::new("a", None, "1\n");
    let place = FileLocation { path: "/p/a".to_owned(), line: Some(3) };
    let summary = Summary { label: "a".to_owned(), locations: vec![place], diff: Some(diff) };
    Event::CallStarted(Arc::new(CallStarted {
        call: call(),
        caller,
        kind,
        summary,
        access,
        question,
    }))
}

fn calls() -> Vec<Event> {
    let kinds = [
        ToolKind::Read,
        ToolKind::List,
        ToolKind::Find,
        ToolKind::Search,
        ToolKind::Edit,
        ToolKind::Execute,
        ToolKind::Fetch,
        ToolKind::Think,
        ToolKind::Other,
    ];
    let of_kind = |kind| started(Caller::Model, kind, Access::Nothing, None);
    let mut all: Vec<Event> = kinds.into_iter().map(of_kind).collect();
    let touching = |access| started(Caller::Model, ToolKind::Other, access, None);
    all.extend(accesses().into_iter().map(touching));
    for caller in [Caller::Prompt, Caller::Agent] {
        all.push(started(caller, ToolKind::Read, Access::Read, None));
    }
    let question = Question {
        why: "it writes".to_owned(),
        rules: vec![
            RuleName::BuiltIn("edit".to_owned()),
            RuleName::Written("rules.toml:3".to_owned()),
        ],
        commands: vec!["git".to_owned()],
        scopes: scopes(),
        can_save: true,
        ..Question::default()
    };
    all.push(started(Caller::Model, ToolKind::Edit, Access::Nothing, Some(question)));
    let subjects = [
        QuestionSubject::Connection,
        QuestionSubject::FolderPrograms,
        QuestionSubject::Repetition,
        QuestionSubject::UserInput,
    ];
    for subject in subjects {
        let question = Question { subject, ..Question::default() };
        all.push(started(Caller::Agent, ToolKind::Other, Access::Nothing, Some(question)));
    }
    all
}

fn changes() -> Vec<Event> {
    let befores = [
        Preimage::Nothing,
        Preimage::Kept(ContentId::hash(b"1")),
        Preimage::Lost("too large".to_owned()),
    ];
    let changed = |before| Event::FileChanged {
        call: "c1".to_owned(),
        change: FileChange {
            path: "/p/a".into(),
            before,
            after: ContentId::hash(b"2"),
            removes: false,
            directories: vec!["/p/d".into()],
        },
    };
    let removed = FileChange {
        path: "/p/a".into(),
        before: Preimage::Kept(ContentId::hash(b"1")),
        after: ContentId::hash(b""),
        removes: true,
        directories: Vec::new(),
    };
    let removed = Event::FileChanged { call: "c1".to_owned(), change: removed };
    befores.into_iter().map(changed).chain([removed]).collect()
}

fn tasks() -> Vec<TaskEvent> {
    let key = || "t/default".to_owned();
    let config = PushConfig {
        task: "t".to_owned(),
        turn: Some(TurnId(1)),
        protocol: "1.0".to_owned(),
        set: json!({ "url": "https://example.org/", "token": "x" }),
    };
    let all = vec![
        TaskEvent::ContextNamed { context: "mine".to_owned() },
        TaskEvent::Cancelled { turn: TurnId(1) },
        TaskEvent::PushConfigSet { key: key(), config },
        TaskEvent::PushConfigDeleted { key: key() },
        TaskEvent::Owned { owner: alice() },
        TaskEvent::Shared { name: "bob".to_owned(), role: ShareRole::Watch },
        TaskEvent::Shared { name: "bob".to_owned(), role: ShareRole::Answer },
        TaskEvent::Shared { name: "bob".to_owned(), role: ShareRole::Drive },
        TaskEvent::Unshared { name: "bob".to_owned() },
    ];
    for task in &all {
        match task {
            TaskEvent::ContextNamed { .. }
            | TaskEvent::Cancelled { .. }
            | TaskEvent::PushConfigSet { .. }
            | TaskEvent::PushConfigDeleted { .. }
            | TaskEvent::Owned { .. }
            | TaskEvent::Shared { .. }
            | TaskEvent::Unshared { .. } => {}
        }
    }
    all
}

fn alice() -> PrincipalId {
    PrincipalId { tenant: "acme".to_owned(), name: "alice".to_owned() }
}

fn modes() -> [Mode; 4] {
    Mode::ALL.map(|(_, mode)| mode)
}

fn usage() -> Usage {
    Usage { input: 1000, cached: 900, written: 0, output: 20, thoughts: 10 }
}

fn answer_ends() -> Vec<Event> {
    let native = Native {
        backend: "gemini".to_owned(),
        model: "m".to_owned(),
        parts: vec![json!({ "text": "t", "thoughtSignature": "s" })],
    };
    let end = |calls: Vec<Call>, reason, native| Event::AnswerFinished {
        calls,
        reason,
        usage: usage(),
        native,
    };
    vec![
        end(vec![call()], FinishReason::Stop, Some(native)),
        end(Vec::new(), FinishReason::MaxTokens, None),
        end(Vec::new(), FinishReason::Refused("why".to_owned()), None),
        Event::AnswerFinished {
            calls: Vec::new(),
            reason: FinishReason::Stop,
            usage: Usage { written: 50, ..usage() },
            native: None,
        },
    ]
}

/// Returns an event of every shape.
fn every() -> Vec<Event> {
    let turn = TurnId(1);
    let id = "019a0000-0000-7000-8000-000000000000".to_owned();
    let mut all = vec![
        Event::SessionStarted(Arc::new(SessionStarted {
            version: FORMAT_VERSION,
            id,
            directory: "/home/u/p".into(),
            roots: vec!["/home/u/q".into()],
            model: "gemini-2.5-pro".to_owned(),
            mode: Mode::Default,
            by: "tandem 0.1.0".to_owned(),
        })),
        Event::SystemPrompt("You are an agent.".into()),
    ];
    let queued = |prompt, origin, tags| Event::TurnQueued { turn, prompt, origin, tags };
    let plain = PromptTags::default;
    all.extend(prompt_parts().into_iter().map(|part| queued(vec![part], Origin::Editor, plain())));
    all.extend(origins().into_iter().map(|origin| queued(Vec::new(), origin, plain())));
    all.push(queued(Vec::new(), Origin::Editor, PromptTags::key("m-1")));
    all.push(queued(Vec::new(), Origin::Editor, PromptTags { own_task: true, ..plain() }));
    all.extend([
        Event::TurnStarted { turn },
        Event::TurnResumed { turn },
        Event::CommandStarted { name: "stats".to_owned() },
        Event::Output("*out*".to_owned()),
        Event::CommandFailed("why".to_owned()),
        Event::Asked(vec![
            Part::Text("a".to_owned()),
            Part::Media(Media::new("image/png", b"\x89PNG\r\n\x1a\nx")),
        ]),
        Event::Told { call: None, text: "a".to_owned() },
        Event::Told { call: Some("c1".to_owned()), text: "a".to_owned() },
        Event::ToldNext("a".to_owned()),
        Event::Compressed(Arc::new(compressed())),
        Event::Masked(vec![Masked { call: "c1".to_owned(), text: "short".to_owned() }]),
        Event::Forgotten,
        Event::MessageCompleted,
        Event::SessionRenamed { title: "a title".to_owned(), by_model: false },
        Event::SessionRenamed { title: "a title".to_owned(), by_model: true },
        Event::ModelChanged { model: "m".to_owned() },
        Event::ThinkingChanged { level: Some("high".to_owned()) },
        Event::ThinkingChanged { level: None },
    ]);
    all.extend(modes().map(|mode| Event::ModeChanged { mode, before_plan: None }));
    all.push(Event::ModeChanged { mode: Mode::Plan, before_plan: Some(Mode::AutoEdit) });
    all.extend(scopes().into_iter().map(|scope| Event::AlwaysAllowed { scope }));
    all.push(Event::AlwaysRemoved { scope: Scope::Edits });
    all.extend([Event::Text("a \u{1f980}\n".to_owned()), Event::Thought("**A** b".to_owned())]);
    for discard in [true, false] {
        let (reason, delay) = ("rate limited".to_owned(), Duration::from_millis(2500));
        all.push(Event::Retry(Retry { reason, delay, attempt: 2, of: 10, discard }));
    }
    all.push(Event::Notice("a notice".to_owned()));
    all.extend(answer_ends());
    all.extend(calls());
    all.push(Event::CallProgress { call: "c1".to_owned(), output: "so far".to_owned() });
    let closed = |answer| Event::QuestionClosed { call: "c1".to_owned(), answer };
    all.push(closed(None));
    all.extend(answers().into_iter().map(|answer| closed(Some((answer, Origin::Editor)))));
    all.extend(changes());
    all.push(Event::FileRestored { call: "c1".to_owned(), path: "/p/a".into() });
    let ended = |outcome| Event::CallFinished { call: "c1".to_owned(), outcome };
    all.extend(outcomes().into_iter().map(ended));
    all.extend(reasons().into_iter().map(|reason| Event::TurnFinished { turn, reason }));
    all.extend(tasks().into_iter().map(Event::Task));
    all.push(Event::Rewound { turn });
    let trace = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let trace = trace.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    all.push(queued(Vec::new(), Origin::Editor, PromptTags { trace, ..plain() }));
    let reason = StopReason::Unknown(json!({ "Evicted": { "by": "the host" } }));
    all.push(Event::TurnFinished { turn, reason });
    let chart = json!({ "text": "for the model", "media": [], "shown": { "Chart": [1] } });
    for outcome in [json!("Postponed"), json!({ "Done": chart })] {
        all.push(ended(ToolOutcome::Unknown(UnknownOutcome(outcome))));
    }
    all.push(Event::CommandReplied { turn, text: "*out*".to_owned() });
    let tools = vec!["read_file".to_owned(), "mcp_git_*".to_owned()];
    all.push(Event::ToolsLimited { tools });
    let error = ToolError { status: Some(2), ..ToolError::new("shell_exit", "why") };
    all.push(ended(ToolOutcome::Failed(error)));
    for reference in [Some("refs/tandem/0199f2c4".to_owned()), None] {
        let commit = "1f7a7a472abf3dd9643fd615f6da379c4acb3e3a".to_owned();
        all.push(Event::WorkspaceSaved(SavedPlace { reference, commit }));
    }
    let (title, name) = ("`a.zip`".to_owned(), "outputs/attachment.a.0f.zip".to_owned());
    let file = PromptPart::File(PromptFile { title, name, bytes: 22 });
    all.push(queued(vec![file], Origin::Editor, plain()));
    let pair = |name: &str, text: &str| [(name.to_owned(), text.to_owned())].into();
    let file = ToldFile {
        path: "/p/AGENTS.md".to_owned(),
        digest: "6-85944171f73967e8".to_owned(),
        told: true,
    };
    all.push(Event::InstructionsTold(Arc::new(ToldInstructions {
        by_system: true,
        files: vec![file],
        directories: vec!["/p/sub".to_owned()],
        servers: pair("git", "0-cbf29ce484222325"),
        surroundings: pair("model", "Your model id: `m`."),
    })));
    all.push(Event::InstructionsTold(Arc::default()));
    all
}

fn compressed() -> Compressed {
    Compressed {
        snapshot: "<overall_goal>a</overall_goal>".to_owned(),
        said: vec![
            QuotedMessage { at: 3, chars: None },
            QuotedMessage { at: 9, chars: Some(4000) },
        ],
        unsaid: 1,
        whole: vec!["outputs/conversation-1.txt".to_owned()],
        changed: vec!["a.rs".to_owned()],
        read: vec!["b.rs".to_owned()],
        todos: todos(),
        from: 40,
        before: 1000,
        after: 100,
        usage: usage(),
    }
}

#[test]
fn every_shape_of_an_event_is_written_as_ever() {
    let now: Vec<String> = every().iter().map(write).collect();
    if std::env::var_os("UPDATE_EVENTS").is_some() {
        std::fs::write(path(GOLDEN), now.join("\n") + "\n").unwrap();
    }
    assert!(every().iter().all(is_listed));
    for (n, (now, golden)) in now.iter().zip(lines(GOLDEN)).enumerate() {
        assert_eq!(*now, golden, "line {}", n + 1);
    }
    assert_eq!(now.len(), lines(GOLDEN).len());
}

#[test]
fn what_was_ever_written_is_read_and_written_again_as_it_was() {
    for (line, expected) in lines(GOLDEN).iter().zip(every()) {
        let event = read(line);
        assert_eq!(event, expected);
        assert_eq!(write(&event), *line);
    }
}

#[test]
fn what_a_newer_version_wrote_is_kept_to_the_byte() {
    let mut unknown = 0;
    for line in lines(NEWER) {
        match read(&line) {
            Event::Unknown(event) => {
                assert_eq!(event.json(), line);
                assert_eq!(write(&Event::Unknown(event)), line);
                unknown += 1;
            }
            // The line has a known event with a field of a newer version. The event is read as if the field were
            // missing.
            known => assert!(is_listed(&known) && lines(GOLDEN).contains(&write(&known)), "{line}"),
        }
    }
    assert_eq!((unknown, lines(NEWER).len()), (7, 13));
}

#[test]
fn of_an_outcome_of_another_version_its_name_and_its_text_are_told() {
    let check = |outcome: Value, kind: &str, text: Option<&str>| {
        let outcome = UnknownOutcome(outcome);
        assert_eq!((outcome.kind(), outcome.text()), (kind, text), "{outcome:?}");
    };
    check(json!("Postponed"), "Postponed", None);
    check(json!({ "Postponed": "until noon" }), "Postponed", Some("until noon"));
    check(json!({ "Postponed": { "text": "until noon" } }), "Postponed", Some("until noon"));
    check(json!({ "Failed": { "message": "why", "more": 1 } }), "Failed", Some("why"));
    check(json!({ "Postponed": { "until": 12 } }), "Postponed", None);
    check(json!([1]), "", None);
    let done = json!({ "Done": { "text": "all of it", "shown": { "Chart": [] } } });
    assert_eq!(explain_unknown_outcome(&UnknownOutcome(done)), "all of it");
}

#[test]
fn only_what_is_live_is_no_part_of_what_lasts() {
    let gone: Vec<Event> = every().into_iter().filter(|event| !event.is_lasting()).collect();
    assert!(
        matches!(&gone[..], [Event::Retry(retry), Event::CallProgress { .. }] if !retry.discard),
        "{gone:?}"
    );
}

#[test]
fn a_clients_name_is_short_and_gives_no_orders() {
    let name = ClientName::new(1, &format!("a\u{1b}[2J{}", "ä".repeat(200))).name;
    assert!(name.starts_with("a[2Jä") && name.len() <= 128, "{name}");
}

/// Returns a session whose log has most kinds of events.
async fn lived() -> Arc<Session> {
    let tool = || Fake::new("t", ToolKind::Other, other());
    let call = |id: &str| json!([{ "call": { "name": "t", "id": id } }]);
    let said = json!([{ "text": "one" }, { "text": "two" }]);
    let session = session(json!([call("a"), call("b"), said]), vec![tool()]);
    session.modes().set(Mode::AutoEdit).unwrap();
    let mut log = session.events(0);
    let tagged = PromptTags::key("m-1");
    session.prompt_tagged(text("go"), Origin::A2a(ClientName::new(1, "agent")), tagged);
    let asked = until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let Event::CallStarted(started) = &**asked.last().unwrap() else { panic!("{asked:?}") };
    let always = Answer::Always(Scope::Tool("t".to_owned()));
    session.answer(&started.call.id, always, Origin::Editor).unwrap();
    until(&mut log, is_end).await;
    session.record(TaskEvent::Cancelled { turn: TurnId(1) });
    session
}

#[tokio::test]
async fn the_state_of_a_session_is_folded_from_what_was_recorded_of_it() {
    let session = lived().await;
    let live = SessionState::from_log(&mut session.events(0));
    assert_eq!(live.id, session.id());
    assert_eq!((live.mode, &live.model), (session.modes().current(), &session.model()));
    assert_eq!(live.always, session.permissions().allowed());
    assert_eq!((live.turns, live.running, live.waiting.len()), (1, None, 0));
    assert_eq!(live.calls.len(), 2, "{live:?}");
    assert!(live.open_calls.is_empty() && live.open_questions.is_empty(), "{live:?}");
    let mut log = session.events(0);
    let events = std::iter::from_fn(|| log.try_next());
    let recorded: Vec<String> =
        events.filter(|event| event.is_lasting()).map(|event| write(&event)).collect();
    let mut folded = SessionState::default();
    for line in &recorded {
        folded.fold(&read(line));
    }
    assert_eq!(folded, live);
}

#[tokio::test]
async fn a_log_begins_with_what_the_session_began_with() {
    let session = lived().await;
    let first = session.events(0).try_next().unwrap();
    let Event::SessionStarted(started) = &*first else { panic!("{first:?}") };
    assert_eq!((started.version, started.id.as_str()), (FORMAT_VERSION, session.id()));
    assert_eq!((&started.directory, started.mode), (&session.roots()[0], Mode::Default));
    assert_eq!(uuid::Uuid::parse_str(session.id()).unwrap().get_version_num(), 7);
    assert!(started.by.starts_with("tandem "), "{started:?}");
}

#[test]
fn what_was_open_when_a_log_ends_is_known() {
    let turn = TurnId(1);
    let mut state = SessionState::default();
    let queued = |turn| Event::TurnQueued {
        turn,
        prompt: text("go"),
        origin: Origin::Editor,
        tags: PromptTags::default(),
    };
    state.fold(&queued(turn));
    state.fold(&queued(TurnId(2)));
    state.fold(&Event::TurnStarted { turn });
    let question = Question { why: "it writes".to_owned(), ..Question::default() };
    state.fold(&started(Caller::Model, ToolKind::Edit, Access::Nothing, Some(question)));
    assert_eq!((state.running, &state.waiting), (Some(turn), &[TurnId(2)].into()));
    assert_eq!((state.open_calls.len(), state.open_questions.len()), (1, 1));
    let answer = Some((Answer::Once { edited: None }, Origin::Editor));
    state.fold(&Event::QuestionClosed { call: "c1".to_owned(), answer });
    assert_eq!((state.open_calls.len(), state.open_questions.len()), (1, 0));
    let outcome = ToolOutcome::Interrupted;
    state.fold(&Event::CallFinished { call: "c1".to_owned(), outcome });
    state.fold(&Event::TurnFinished { turn, reason: StopReason::Interrupted });
    assert_eq!((state.running, state.open_calls.len(), state.turns), (None, 0, 2));
}
