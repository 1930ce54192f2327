//! Turns that go on in another process than the one that began them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use serde_json::json;
use tandem_agent::session::{
    Answer, Batch, CallStarted, Caller, Event, FORMAT_VERSION, Head, Origin, Parts, PromptPart,
    PromptTags, Question, ResumePolicy, Session, SessionStarted, StopReason, Store as _, Summary,
    ToolOutcome, TurnId, UnknownOutcome, now, read_stored,
};
use tandem_agent::sessions::{SessionLimits, SessionRequest, Sessions};
use tandem_approval::Mode;
use tandem_host::{Access, InputQuestion, ToolKind};
use tandem_model::{Call, FinishReason, Usage};
use tokio::time::timeout;

use super::{LONG, Place, end, events, load, look, says};
use test_fakes::{Fake, Spy, parts, text, until};

const ID: &str = "0199f2c4-0000-7000-8000-000000000001";

fn queued(turn: u64, prompt: &str) -> Event {
    let (prompt, origin, tags) = (text(prompt), Origin::Terminal, PromptTags::default());
    Event::TurnQueued { turn: TurnId(turn), prompt, origin, tags }
}

fn started(turn: u64) -> Event {
    Event::TurnStarted { turn: TurnId(turn) }
}

/// Returns the events of a turn whose prompt was sent to the model.
fn told() -> Vec<Event> {
    vec![queued(1, "go"), started(1), Event::MessageCompleted]
}

/// Returns the events of a turn in which the model has called a tool of this kind. `asks`: the call waits for the
/// user's answer.
fn called(kind: ToolKind, asks: bool) -> Vec<Event> {
    let call = Call { id: "c1".to_owned(), name: "look".to_owned(), args: json!({}) };
    let question = asks.then(|| Question { why: "it writes".to_owned(), ..Question::default() });
    let (calls, reason) = (vec![call.clone()], FinishReason::Stop);
    let (summary, access) = (Summary::new("a"), Access::Nothing);
    let started = CallStarted { call, caller: Caller::Model, kind, summary, access, question };
    vec![
        Event::Text("I look.".to_owned()),
        Event::AnswerFinished { calls, reason, usage: Usage::default(), native: None },
        Event::CallStarted(Arc::new(started)),
    ]
}

fn answered() -> Event {
    let answer = Some((Answer::Once { edited: None }, Origin::Terminal));
    Event::QuestionClosed { call: "c1".to_owned(), answer }
}

/// Returns a store with a session whose process was killed after these events.
async fn left(after: Vec<Event>) -> Place {
    let place = Place::new();
    let head = Head {
        id: ID.to_owned(),
        created: 1,
        directory: PathBuf::from("/"),
        title: "go".to_owned(),
        by: "tandem".to_owned(),
        served: true,
        owner: None,
        context: None,
        from: None,
        git: None,
        tag: None,
    };
    let begun = SessionStarted {
        version: FORMAT_VERSION,
        id: ID.to_owned(),
        directory: PathBuf::from("/"),
        roots: Vec::new(),
        model: "spy".to_owned(),
        mode: Mode::Default,
        by: "tandem".to_owned(),
    };
    let all = [vec![Event::SessionStarted(Arc::new(begun))], after].concat();
    let events = all.into_iter().map(|event| (now(), Arc::new(event))).collect();
    let mut lease = place.store().create(&head).await.unwrap();
    lease.append(vec![Batch { first: 0, events, summary: None }]).await.unwrap();
    place
}

fn registry(place: &Place, policy: ResumePolicy) -> (Arc<Sessions>, Arc<Mutex<Vec<String>>>) {
    let (model, told) = Spy::new(vec![says("Whole."), says("Next.")]);
    let make = move |_: &SessionRequest, storage| {
        let tools = vec![Arc::new(look()) as _, Arc::new(write()) as _];
        Ok(Session::new(Parts { tools, storage, ..parts(Arc::clone(&model) as _) }))
    };
    let limits = SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 };
    (Sessions::resuming(Arc::new(make), limits, Some(place.store()), policy), told)
}

fn write() -> Fake {
    Fake::new("write", ToolKind::Edit, Access::Nothing)
}

fn brief(event: &Event) -> Option<String> {
    Some(match event {
        Event::TurnStarted { turn } => format!("turn {} starts", turn.0),
        Event::TurnResumed { turn } => format!("turn {} goes on", turn.0),
        Event::Text(text) => text.clone(),
        Event::QuestionClosed { call, answer } => format!("{call} is asked no more: {answer:?}"),
        Event::CallFinished { call, outcome } => format!("{call}: {outcome:?}"),
        Event::TurnFinished { turn, reason } => format!("turn {} ends: {reason:?}", turn.0),
        Event::CallStarted(started) => format!("{} starts", started.call.name),
        _ => return None,
    })
}

/// Loads a session that was left after these events, and compares the new events and the model's last messages.
async fn check(policy: ResumePolicy, after: Vec<Event>, expected: Expect) {
    let turns = after.iter().filter(|event| matches!(event, Event::TurnQueued { .. })).count();
    let place = left(after).await;
    let (sessions, told) = registry(&place, policy);
    let loaded = load(&sessions, ID).await;
    let mut log = loaded.session().events(0);
    let mut ends = 0;
    let is_last = |event: &Event| {
        ends += usize::from(matches!(event, Event::TurnFinished { .. }));
        ends == turns
    };
    until(&mut log, is_last).await;
    let before = loaded.stored_before().unwrap();
    let events = events(loaded.session()).into_iter().filter(|(index, _)| *index >= before);
    let mut lines: Vec<_> = events.filter_map(|(_, event)| brief(&event)).collect();
    lines.push("--".to_owned());
    lines.extend(told.lock().unwrap().iter().cloned());
    expected.assert_eq(&(lines.join("\n") + "\n"));
    end(&sessions).await;
}

#[tokio::test]
async fn the_model_is_asked_again_and_half_an_answer_is_void() {
    let after = [told(), vec![Event::Text("Ha".to_owned())]].concat();
    check(
        ResumePolicy::Safe,
        after,
        expect![[r#"
        turn 1 goes on
        Whole.
        turn 1 ends: EndTurn
        --
        user: go
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_prompt_that_was_not_whole_is_told_once() {
    let told = Event::Told { call: None, text: " (half of what it mentions)".to_owned() };
    check(
        ResumePolicy::Safe,
        vec![queued(1, "go"), started(1), told],
        expect![[r#"
        turn 1 goes on
        Whole.
        turn 1 ends: EndTurn
        --
        user: go
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_that_only_reads_is_closed_and_the_turn_goes_on() {
    check(ResumePolicy::Safe, [told(), called(ToolKind::Read, false)].concat(), expect![[r#"
        c1: Interrupted
        turn 1 goes on
        Whole.
        turn 1 ends: EndTurn
        --
        user: go
        assistant: I look. [c1]
        results: c1! The agent was stopped before this call ended. It may have had part of its effect: look before doing it again.
    "#]]).await;
}

#[tokio::test]
async fn a_call_that_may_have_changed_something_ends_the_turn_and_those_that_wait() {
    let after = [told(), called(ToolKind::Edit, false), vec![queued(2, "then")]].concat();
    check(
        ResumePolicy::Safe,
        after,
        expect![[r#"
        c1: Interrupted
        turn 1 ends: Interrupted
        turn 2 ends: Interrupted
        --
    "#]],
    )
    .await;
}

#[tokio::test]
async fn with_always_the_model_is_told_of_such_a_call() {
    check(ResumePolicy::Always, [told(), called(ToolKind::Edit, false)].concat(), expect![[r#"
        c1: Interrupted
        turn 1 goes on
        Whole.
        turn 1 ends: EndTurn
        --
        user: go
        assistant: I look. [c1]
        results: c1! The agent was stopped before this call ended. It may have had part of its effect: look before doing it again.
    "#]])
        .await;
}

#[tokio::test]
async fn a_question_is_withdrawn_and_the_turn_goes_on() {
    check(
        ResumePolicy::Safe,
        [told(), called(ToolKind::Edit, true)].concat(),
        expect![[r#"
        c1 is asked no more: None
        c1: Interrupted
        turn 1 goes on
        Whole.
        turn 1 ends: EndTurn
        --
        user: go
        assistant: I look. [c1]
        results: c1! The agent was stopped before this call began. It was not run.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_that_was_allowed_may_have_begun() {
    let after = [told(), called(ToolKind::Edit, true), vec![answered()]].concat();
    check(
        ResumePolicy::Safe,
        after,
        expect![[r#"
        c1: Interrupted
        turn 1 ends: Interrupted
        --
    "#]],
    )
    .await;
}

#[tokio::test]
async fn the_answers_to_a_question_of_the_model_are_told_by_the_next_process() {
    let questions = vec![
        InputQuestion { question: "Which?".to_owned(), header: String::new(), options: Vec::new() },
        InputQuestion { question: "Why?".to_owned(), header: String::new(), options: Vec::new() },
    ];
    let asked = called(ToolKind::Other, true).into_iter().map(|event| match event {
        Event::CallStarted(started) => {
            let access = Access::UserInput { questions: questions.clone() };
            Event::CallStarted(Arc::new(CallStarted { access, ..(*started).clone() }))
        }
        event => event,
    });
    let answer = Answer::Input(vec!["Red".to_owned(), String::new()]);
    let answered =
        Event::QuestionClosed { call: "c1".to_owned(), answer: Some((answer, Origin::Terminal)) };
    let after = [told(), asked.collect(), vec![answered]].concat();
    check(ResumePolicy::Safe, after, expect![[r#"
        c1: Done(ToolOutput { text: "Which?\nAnswer: Red\n\nWhy?\nAnswer: (no answer)", media: [], shown: Some(Output("Which?\nAnswer: Red\n\nWhy?\nAnswer: (no answer)")) })
        turn 1 goes on
        Whole.
        turn 1 ends: EndTurn
        --
        user: go
        assistant: I look. [c1]
        results: c1 Which?
        Answer: Red

        Why?
        Answer: (no answer)
    "#]]).await;
}

#[tokio::test]
async fn the_model_is_told_of_an_outcome_that_only_a_newer_version_knows() {
    let ended = |outcome| {
        let outcome = ToolOutcome::Unknown(UnknownOutcome(outcome));
        let ends = Event::TurnFinished { turn: TurnId(1), reason: StopReason::EndTurn };
        let ended = Event::CallFinished { call: "c1".to_owned(), outcome };
        [told(), called(ToolKind::Edit, false), vec![ended, ends, queued(2, "then")]].concat()
    };
    let postponed = ended(json!({ "Postponed": { "text": "until tomorrow" } }));
    check(ResumePolicy::Safe, postponed, expect![[r#"
        turn 2 starts
        Whole.
        turn 2 ends: EndTurn
        --
        user: go
        assistant: I look. [c1]
        results: c1! The call ended in a way that this version of the agent does not know. It may have had part of its effect: look before doing it again. Its name: Postponed
        until tomorrow
        user: then
    "#]]).await;
    let chart = json!({ "Done": { "text": "as a chart", "media": [], "shown": { "Chart": [1] } } });
    check(
        ResumePolicy::Safe,
        ended(chart),
        expect![[r#"
        turn 2 starts
        Whole.
        turn 2 ends: EndTurn
        --
        user: go
        assistant: I look. [c1]
        results: c1 as a chart
        user: then
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_may_have_changed_something_though_a_prompt_that_waited_was_taken_back() {
    let reason = StopReason::Cancelled { answering: false };
    let taken_back = vec![queued(2, "then"), Event::TurnFinished { turn: TurnId(2), reason }];
    let after = [told(), called(ToolKind::Edit, false), taken_back].concat();
    check(
        ResumePolicy::Safe,
        after,
        expect![[r#"
        c1: Interrupted
        turn 1 ends: Interrupted
        --
    "#]],
    )
    .await;
}

#[tokio::test]
async fn turns_that_wait_run_after_the_one_that_goes_on() {
    check(
        ResumePolicy::Safe,
        [told(), vec![queued(2, "then")]].concat(),
        expect![[r#"
        turn 1 goes on
        Whole.
        turn 1 ends: EndTurn
        turn 2 starts
        Next.
        turn 2 ends: EndTurn
        --
        user: go
        assistant: Whole. []
        user: then
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_turn_that_only_waited_runs() {
    check(
        ResumePolicy::Safe,
        vec![queued(1, "go")],
        expect![[r#"
        turn 1 starts
        Whole.
        turn 1 ends: EndTurn
        --
        user: go
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_turn_in_which_all_was_said_only_ends() {
    let usage = Usage::default();
    let (calls, reason) = (Vec::new(), FinishReason::Stop);
    let finished = Event::AnswerFinished { calls, reason, usage, native: None };
    let after = [told(), vec![Event::Text("All.".to_owned()), finished]].concat();
    check(
        ResumePolicy::Safe,
        after,
        expect![[r#"
        turn 1 goes on
        turn 1 ends: EndTurn
        --
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_command_is_not_run_twice() {
    let command = Event::CommandStarted { name: "compress".to_owned() };
    check(
        ResumePolicy::Always,
        vec![queued(1, "/compress"), started(1), command],
        expect![[r#"
        turn 1 ends: Interrupted
        --
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_turn_that_ends_one_process_after_the_other_is_given_up() {
    let resumed = || Event::TurnResumed { turn: TurnId(1) };
    let after = [told(), vec![resumed(), resumed(), resumed()]].concat();
    check(
        ResumePolicy::Always,
        after,
        expect![[r#"
        turn 1 ends: Interrupted
        --
    "#]],
    )
    .await;
}

#[tokio::test]
async fn with_never_a_turn_is_interrupted() {
    check(
        ResumePolicy::Never,
        told(),
        expect![[r#"
        turn 1 ends: Interrupted
        --
    "#]],
    )
    .await;
}

#[tokio::test]
async fn orphans_are_the_sessions_of_clients_in_the_middle_of_a_turn() {
    let place = left(told()).await;
    let store = place.store();
    assert_eq!(store.orphans().await.unwrap(), []);
    // A process that lets a session go removes `owner.json`. A killed process leaves the file behind, which the test
    // does here.
    std::fs::write(place.dir.path().join(ID).join("owner.json"), "{}").unwrap();
    let orphans = store.orphans().await.unwrap();
    assert_eq!(orphans.iter().map(|orphan| &*orphan.id).collect::<Vec<_>>(), [ID]);
    let log = read_stored(&*store, ID, 1 << 20, ResumePolicy::Safe).await.unwrap();
    assert_eq!(log.len(), 4, "nothing of it has ended");
    let (sessions, _) = registry(&place, ResumePolicy::Safe);
    let taken = sessions.take_over(&orphans[0], |_| ()).await.unwrap();
    assert_eq!(store.orphans().await.unwrap(), [], "it is held");
    timeout(LONG, taken.session().turns().idle()).await.unwrap();
}

#[tokio::test]
async fn an_answer_whose_check_was_cut_off_is_checked_after_the_restart() {
    let schema = PromptPart::AnswerSchema(json!({ "type": "object" }));
    let (origin, tags) = (Origin::Terminal, PromptTags::default());
    let prompt = [text("go"), vec![schema]].concat();
    let (calls, reason, usage) = (Vec::new(), FinishReason::Stop, Usage::default());
    let after = vec![
        Event::TurnQueued { turn: TurnId(1), prompt, origin, tags },
        started(1),
        Event::MessageCompleted,
        Event::Text("No JSON.".to_owned()),
        Event::AnswerFinished { calls, reason, usage, native: None },
    ];
    check(ResumePolicy::Safe, after, expect![[r#"
        turn 1 goes on
        Whole.
        Next.
        turn 1 ends: SchemaMismatch("the message is not JSON alone: expected value at line 1 column 1")
        --
        user: go

        [From the agent, not the user: a program reads your answer. Work as usual, with tools. Your last message, when you are done, is JSON that fits this JSON Schema, and nothing else: no words around it, no Markdown.
        {"type":"object"}]
        assistant: No JSON. []
        user: [From the agent, not the user: your last message does not fit the JSON Schema of the answer: the message is not JSON alone: expected value at line 1 column 1. Answer again: the whole JSON, corrected, and nothing else. The schema:
        {"type":"object"}]
        assistant: Whole. []
        user: [From the agent, not the user: your last message does not fit the JSON Schema of the answer: the message is not JSON alone: expected value at line 1 column 1. Answer again: the whole JSON, corrected, and nothing else. The schema:
        {"type":"object"}]
    "#]]).await;
}
