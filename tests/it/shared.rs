//! One session that several front ends share: whose turn runs, who is asked, and who answers.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use tandem_acp as acp;
use tandem_agent::session::{
    Answer, AnswerError, ClientName, Event, Origin, Session, ToolOutcome, TurnId,
};
use tandem_agent::sessions::{MakeSession, SessionLimits, Sessions};
use tandem_host::{Access, ToolKind};
use tandem_model::provider::Provider;
use tandem_wire::rpc::ConnectionOptions;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::fakes::{Fake, is_end, next, other, session, text, until};

/// Credentials that no test needs.
struct NoLogin;

impl acp::Login for NoLogin {
    fn provider(&self) -> Provider {
        Provider::Gemini
    }

    fn provider_of(&self, _: Option<&Session>) -> Provider {
        Provider::Gemini
    }

    fn authenticate(
        &self,
        _: Option<Arc<Session>>,
        _: acp::PageOpened,
    ) -> BoxFuture<'static, Result<(), String>> {
        async { Ok(()) }.boxed()
    }

    fn may_find_key(&self, _: &Session) -> bool {
        false
    }

    fn accept(&self, _: String) -> BoxFuture<'static, Result<(), String>> {
        async { Ok(()) }.boxed()
    }

    fn logout(&self) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// An editor at the other end of a connection to a session.
pub(crate) struct Editor {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Editor {
    /// Starts an editor of 0.0.9.
    pub(crate) async fn of(session: &Arc<Session>) -> Self {
        Self::with(session, Value::Null).await
    }

    /// Starts an editor with these parameters of `initialize`.
    pub(crate) async fn with(session: &Arc<Session>, initialize: Value) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let options = ConnectionOptions::new(1 << 20);
        let session = Arc::clone(session);
        let make: MakeSession = Arc::new(move |_, _| Ok(Arc::clone(&session)));
        let limits = SessionLimits { loaded: 1, idle: None, log_bytes: 1 << 20 };
        let service = acp::EditorService {
            sessions: Sessions::new(make, limits),
            own: Arc::default(),
            origin: Origin::Editor,
            login: Arc::new(NoLogin),
            connect_acp: Arc::new(|_| ready(Err("no other process".to_owned())).boxed()),
            closing: CancellationToken::new(),
        };
        tokio::spawn(async move {
            drop(acp::serve(service, input, output, options).await);
        });
        let (reader, writer) = tokio::io::split(ours);
        let mut editor = Self { lines: BufReader::new(reader).lines(), writer };
        // The editor shows the session only after this request.
        let mut hello = json!({ "id": "hello", "method": "initialize" });
        if !initialize.is_null() {
            hello["params"] = initialize;
        }
        editor.send(hello).await;
        editor.message().await;
        editor
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn message(&mut self) -> Value {
        let line = timeout(Duration::from_secs(20), self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }
}

/// Returns the answers of a model that calls `t` once, and then ends the turn.
fn one_call() -> Value {
    json!([[{ "call": { "name": "t", "id": "c1" } }], [{ "text": "done" }]])
}

fn asking() -> Arc<Session> {
    session(one_call(), vec![Fake::new("t", ToolKind::Other, other())])
}

#[tokio::test]
async fn the_editor_is_shown_what_was_said_elsewhere() {
    let session = session(json!([[{ "text": "hi" }]]), vec![]);
    let mut editor = Editor::of(&session).await;
    session.prompt(text("two\nlines"), Origin::A2a(ClientName::new(1, "agent")));
    let shown = editor.message().await;
    assert_eq!(shown["params"]["chunk"]["text"], "\n\n> **[A2A]** two\n> lines\n\n");
    assert_eq!(editor.message().await["params"]["chunk"]["text"], "hi");
}

#[tokio::test]
async fn an_editor_that_hangs_up_leaves_the_turns_of_others_alone() {
    let session = asking();
    let mut editor = Editor::of(&session).await;
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::A2a(ClientName::new(1, "agent")));
    while editor.message().await["method"] != "requestToolCallConfirmation" {}
    drop(editor);
    let allowed = Answer::Once { edited: None };
    tokio::task::yield_now().await;
    session.answer("c1", allowed, Origin::A2a(ClientName::new(1, "agent"))).unwrap();
    let events = until(&mut log, is_end).await;
    let done = |event: &Arc<Event>| {
        matches!(&**event, Event::CallFinished { outcome: ToolOutcome::Done(_), .. })
    };
    assert!(events.iter().any(done), "{events:?}");
}

#[tokio::test]
async fn a_late_editor_is_not_asked_what_was_answered() {
    let session = asking();
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::A2a(ClientName::new(1, "agent")));
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    session.answer("c1", Answer::Reject, Origin::A2a(ClientName::new(1, "agent"))).unwrap();
    until(&mut log, is_end).await;
    let mut editor = Editor::of(&session).await;
    editor.send(json!({ "id": 1, "method": "cancelSendMessage" })).await;
    assert_eq!(editor.message().await["id"], 1);
}

#[tokio::test]
async fn a_late_editor_is_asked_what_is_still_open() {
    let session = asking();
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::A2a(ClientName::new(1, "agent")));
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let mut editor = Editor::of(&session).await;
    let question = editor.message().await;
    assert_eq!(question["method"], "requestToolCallConfirmation");
    editor.send(json!({ "id": question["id"], "result": { "id": 1, "outcome": "reject" } })).await;
    let events = until(&mut log, is_end).await;
    let closed = events.iter().find_map(|event| match &**event {
        Event::QuestionClosed { answer, .. } => Some(answer.clone()),
        _ => None,
    });
    assert_eq!(closed, Some(Some((Answer::Reject, Origin::Editor))));
}

#[tokio::test(start_paused = true)]
async fn a_silent_editor_does_not_hold_up_the_calls_of_others() {
    let session = session(one_call(), vec![Fake::new("t", ToolKind::Read, Access::Read)]);
    let _watching = session.gate().watch(Origin::Editor);
    let mut log = session.events(0);
    let before = tokio::time::Instant::now();
    session.prompt(text("go"), Origin::A2a(ClientName::new(1, "agent")));
    until(&mut log, is_end).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[test]
fn nothing_is_asked_after_a_cancel() {
    // The policy reads command lines on a blocking thread. With one such thread, the test can make the policy wait.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let access =
        Access::Execute { command: "make it so".to_owned(), directory: "/".into(), sandbox: None };
    runtime.unwrap().block_on(async {
        let answers = json!([[{ "text": "See:" }, { "call": { "name": "t", "id": "c1" } }], []]);
        let session = session(answers, vec![Fake::new("t", ToolKind::Execute, access)]);
        let mut log = session.events(0);
        let turn = session.prompt(text("go"), Origin::Editor);
        // Files for the prompt are read on the same thread, before the model is asked. So the thread is blocked only
        // after the first text.
        until(&mut log, |event| matches!(event, Event::Text(_))).await;
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || wait.recv());
        until(&mut log, |event| matches!(event, Event::AnswerFinished { .. })).await;
        assert!(session.cancel(turn));
        drop(go_on);
        let events = until(&mut log, is_end).await;
        let started = |event: &Arc<Event>| matches!(**event, Event::CallStarted(_));
        assert!(!events.iter().any(started), "{events:?}");
    });
}

#[tokio::test]
async fn an_answer_after_the_cancel_is_told_that_it_does_not_count() {
    let session = asking();
    let mut log = session.events(0);
    let turn = session.prompt(text("go"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    session.cancel(turn);
    let said = session.answer("c1", Answer::Once { edited: None }, Origin::Editor);
    until(&mut log, is_end).await;
    let later = session.answer("c1", Answer::Reject, Origin::A2a(ClientName::new(1, "agent")));
    assert_eq!((said, later), (Err(AnswerError::Withdrawn), Err(AnswerError::Withdrawn)));
    let unknown = session.answer("c2", Answer::Reject, Origin::Editor);
    assert_eq!(unknown, Err(AnswerError::NotAsked));
}

#[tokio::test]
async fn many_waiting_prompts_can_be_closed() {
    let session = session(json!([[{ "hang": null }]]), vec![]);
    for _ in 0..50_000 {
        session.prompt(text("go"), Origin::A2a(ClientName::new(1, "agent")));
    }
    assert_eq!(session.turns().waiting(), 49_999);
    session.close();
    session.turns().idle().await;
}

#[tokio::test]
async fn cancelled_turns_end_in_order() {
    let session = session(json!([[{ "hang": null }]]), vec![]);
    let mut log = session.events(0);
    let turns: Vec<TurnId> = (0..3).map(|_| session.prompt(text("go"), Origin::Editor)).collect();
    until(&mut log, |event| matches!(event, Event::TurnStarted { .. })).await;
    for turn in &turns {
        session.cancel(*turn);
    }
    let mut ended = Vec::new();
    while ended.len() < turns.len() {
        if let Event::TurnFinished { turn, .. } = &*next(&mut log).await {
            ended.push(*turn);
        }
    }
    assert_eq!(ended, turns);
}

#[tokio::test]
async fn a_cancel_counts_until_the_message_is_answered_and_nothing_more_is_said() {
    let session =
        session(json!([[{ "repeat": { "text": "{n} more ", "times": 20_000 } }]]), vec![]);
    let mut editor = Editor::of(&session).await;
    let mut log = session.events(0);
    let go = json!({ "chunks": [{ "text": "go" }] });
    editor.send(json!({ "id": 1, "method": "sendUserMessage", "params": go })).await;
    until(&mut log, is_end).await;
    // The editor has read nothing, so a part of the answer was not sent yet.
    editor.send(json!({ "id": 2, "method": "cancelSendMessage" })).await;
    let (mut chunks, mut answers) = (0, Vec::new());
    while answers.len() < 2 {
        let message = editor.message().await;
        if message["method"].is_null() {
            assert_eq!(message["result"], Value::Null, "{message}");
            answers.push(message["id"].clone());
        } else {
            chunks += 1;
        }
    }
    assert_eq!(answers, [2, 1]);
    assert!(chunks < 19_000, "all {chunks} chunks were said");
}
