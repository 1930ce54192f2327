//! Table of what each front end shows of every event: `fixtures/events_shown.md`, which is also for reading.
//! `UPDATE_SHOWN=1 cargo test --test it shown` writes it anew.
//!
//! The events are those of `fixtures/store/v1`, one of each shape. Each event happens in a session that a front end
//! shows, between two notes that every front end shows. The messages of the front end between the two notes are what
//! it shows of the event. The terminal's column is `fixtures/tui/events.txt`, which a test of the terminal writes.

mod a2a;
mod editors;
mod headless;
mod reasons;
mod stage;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tandem_agent::session::{
    Answer, CallStarted, Event, ModelError, ResultContent, StopReason, TaskEvent, ToolOutcome,
};

/// The table's columns.
pub(crate) const COLUMNS: [&str; 5] = ["ACP 0.0.9", "ACP 1", "A2A", "terminal", "`-p`"];

const TABLE: &str = "fixtures/events_shown.md";

const HEAD: &str = "# What each front end shows of every event

Made by `tests/it/shown.rs`, which sends each front end each event. Of `tool_call_update`,
`updateToolCall` and `TOOL_CALL_UPDATE`, the status follows; of other kinds of A2A, the state of the
task. A2A 0.3 and 1.0 are told the same. An editor has begun the turn itself where nothing else is said,
and is told of its end by the answer to its prompt. `-p` stands for the formats `text` and `stream-json`,
and for notes on standard error. An empty cell has its reason in the last column.

";

/// One shape of an event, as a front end gets it.
pub(crate) struct Case {
    /// Line of the event in the fixture.
    pub(crate) line: usize,
    pub(crate) event: Event,
    /// `false` if another front end began the turn of the event.
    pub(crate) own: bool,
}

fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(of)
}

fn lines(of: &str) -> Vec<String> {
    let text = fs::read_to_string(path(of)).unwrap();
    text.lines().map(ToOwned::to_owned).collect()
}

/// Returns every shape of an event; the last is of another version.
fn cases() -> Vec<Case> {
    let all = [lines("fixtures/store/v1/events.jsonl"), lines("fixtures/store/v1/newer.jsonl")];
    let mut cases = Vec::new();
    let mut has_unknown = false;
    for (line, json) in all.concat().iter().enumerate() {
        let read = || serde_json::from_str::<Event>(json).unwrap();
        let is_newer = line >= all[0].len();
        let is_unknown = matches!(read(), Event::Unknown(_));
        // One event that this version does not know is enough.
        if is_newer && (!is_unknown || std::mem::replace(&mut has_unknown, true)) {
            continue;
        }
        cases.push(Case { line, event: read(), own: true });
        if matches!(read(), Event::TurnStarted { .. } | Event::TurnFinished { .. }) {
            cases.push(Case { line, event: read(), own: false });
        }
    }
    cases
}

/// Returns the name of a row. Fails to compile if a variant has no name here.
fn label(case: &Case) -> String {
    let label = match &case.event {
        Event::SessionStarted(_) => "`SessionStarted`".to_owned(),
        Event::SystemPrompt(_) => "`SystemPrompt`".to_owned(),
        Event::InstructionsTold(_) => "`InstructionsTold`".to_owned(),
        Event::TurnQueued { .. } => "`TurnQueued`".to_owned(),
        Event::TurnStarted { .. } => "`TurnStarted`".to_owned(),
        Event::TurnResumed { .. } => "`TurnResumed`, after a part of the answer".to_owned(),
        Event::CommandStarted { .. } => "`CommandStarted`".to_owned(),
        Event::Output(_) => "`Output`".to_owned(),
        Event::CommandFailed(_) => "`CommandFailed`".to_owned(),
        Event::CommandReplied { .. } => "`CommandReplied`".to_owned(),
        Event::Asked(_) => "`Asked`".to_owned(),
        Event::Told { .. } => "`Told`".to_owned(),
        Event::ToldNext(_) => "`ToldNext`".to_owned(),
        Event::MessageCompleted => "`MessageCompleted`".to_owned(),
        Event::Compressed(_) => "`Compressed`".to_owned(),
        Event::Masked(_) => "`Masked`".to_owned(),
        Event::Forgotten => "`Forgotten`".to_owned(),
        Event::Rewound { .. } => "`Rewound`".to_owned(),
        Event::SessionRenamed { .. } => "`SessionRenamed`".to_owned(),
        Event::ModelChanged { .. } => "`ModelChanged`".to_owned(),
        Event::ThinkingChanged { .. } => "`ThinkingChanged`".to_owned(),
        Event::ToolsLimited { .. } => "`ToolsLimited`".to_owned(),
        Event::ModeChanged { .. } => "`ModeChanged`".to_owned(),
        Event::AlwaysAllowed { .. } => "`AlwaysAllowed`".to_owned(),
        Event::AlwaysRemoved { .. } => "`AlwaysRemoved`".to_owned(),
        Event::Text(_) => "`Text`".to_owned(),
        Event::Thought(_) => "`Thought`".to_owned(),
        Event::Retry(retry) if retry.discard => "`Retry`, after a part of the answer".to_owned(),
        Event::Retry(_) => "`Retry`, the answer goes on".to_owned(),
        Event::Notice(_) => "`Notice`".to_owned(),
        Event::AnswerFinished { .. } => "`AnswerFinished`".to_owned(),
        Event::CallStarted(started) if started.question.is_some() => {
            "`CallStarted`, asked about".to_owned()
        }
        Event::CallStarted(_) => "`CallStarted`".to_owned(),
        Event::CallProgress { .. } => "`CallProgress`".to_owned(),
        Event::QuestionClosed { answer, .. } => {
            format!("`QuestionClosed`, {}", answered(answer.as_ref().map(|(answer, _)| answer)))
        }
        Event::FileChanged { .. } => "`FileChanged`".to_owned(),
        Event::FileRestored { .. } => "`FileRestored`".to_owned(),
        Event::WorkspaceSaved(_) => "`WorkspaceSaved`".to_owned(),
        Event::CallFinished { outcome, .. } => format!("`CallFinished`, {}", ended(outcome)),
        Event::TurnFinished { reason, .. } => format!("`TurnFinished`, {}", stopped(reason)),
        Event::Task(task) => match task {
            TaskEvent::ContextNamed { .. }
            | TaskEvent::Cancelled { .. }
            | TaskEvent::PushConfigSet { .. }
            | TaskEvent::PushConfigDeleted { .. }
            | TaskEvent::Owned { .. }
            | TaskEvent::Shared { .. }
            | TaskEvent::Unshared { .. } => "`Task`".to_owned(),
        },
        Event::Unknown(_) => "`Unknown`".to_owned(),
    };
    if case.own { label } else { format!("{label}; of a turn begun elsewhere") }
}

fn answered(answer: Option<&Answer>) -> &'static str {
    match answer {
        None => "by the turn's end",
        Some(answer) if answer.decision().runs() => "allowed",
        Some(_) => "not allowed",
    }
}

fn ended(outcome: &ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Done(output) => match &output.shown {
            Some(ResultContent::Sources(_)) => "done, with sources".to_owned(),
            Some(ResultContent::Todos(_)) => "the todo list".to_owned(),
            Some(
                ResultContent::Markdown(_)
                | ResultContent::Output(_)
                | ResultContent::Diff(_)
                | ResultContent::Server(_),
            )
            | None => "done".to_owned(),
        },
        ToolOutcome::Failed(error) if error.status.is_some() => "failed, a command".to_owned(),
        ToolOutcome::Failed(_) => "failed".to_owned(),
        ToolOutcome::Rejected => "rejected".to_owned(),
        ToolOutcome::Cancelled => "cancelled".to_owned(),
        ToolOutcome::Interrupted => "interrupted".to_owned(),
        ToolOutcome::Unknown(outcome) if outcome.is_done() => {
            "done, with a result of a newer version".to_owned()
        }
        ToolOutcome::Unknown(_) => "in a way of a newer version".to_owned(),
    }
}

fn stopped(reason: &StopReason) -> String {
    let reason = match reason {
        StopReason::EndTurn => "the answer is whole",
        StopReason::Cancelled { .. } => "cancelled",
        StopReason::Closed { .. } => "the session was closed",
        StopReason::Unanswered(_) => "nobody answered",
        StopReason::MaxTokens => "the answer was cut",
        StopReason::MaxRounds(_) | StopReason::MaxSessionRounds(_) => "too many rounds",
        StopReason::Looping(_) => "the model repeats itself",
        StopReason::Refused(_) => "refused",
        StopReason::SchemaMismatch(_) => "the answer does not fit the schema",
        StopReason::Failed(ModelError::NotAuthenticated(_)) => "no key",
        StopReason::Failed(ModelError::RateLimited(_)) => "rate limited",
        StopReason::Failed(_) => "failed",
        StopReason::Crashed => "a fault of the agent",
        StopReason::Interrupted => "the agent was stopped",
        StopReason::Unknown(_) => "for a reason of a newer version",
    };
    reason.to_owned()
}

/// One row: its name, the text of each front end, and the reasons why some show nothing.
struct Row {
    label: String,
    cells: [String; 5],
    reasons: String,
}

impl Row {
    /// Makes a row. Adds its faults to `faults`.
    fn new(case: &Case, cells: [String; 5], faults: &mut Vec<String>) -> Self {
        let reasons = reasons::of(case);
        let given = |column: usize| reasons.iter().find(|(columns, _)| columns.contains(&column));
        for (column, cell) in cells.iter().enumerate() {
            let (name, label) = (COLUMNS[column], label(case));
            match (cell.is_empty(), given(column)) {
                (true, None) => faults.push(format!("{name}, {label}: nothing is shown; say why")),
                (false, Some((_, why))) => {
                    faults.push(format!("{name}, {label}: {cell} is shown, and: {why}"));
                }
                _ => {}
            }
        }
        let why = reasons.iter().map(|(columns, why)| {
            if columns.len() == COLUMNS.len() {
                return (*why).to_owned();
            }
            let names: Vec<_> = columns.iter().map(|column| COLUMNS[*column]).collect();
            format!("{}: {why}", names.join(", "))
        });
        let reasons = why.collect::<Vec<_>>().join("; ");
        Self { label: label(case), cells, reasons }
    }
}

/// Returns a cell: the kinds in their order, each once.
fn cell(kinds: Vec<String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for kind in kinds {
        if !all.contains(&kind) {
            all.push(kind);
        }
    }
    all.join(", ")
}

#[tokio::test]
async fn every_event_is_shown_by_each_front_end_or_there_is_a_reason() {
    let terminal = lines("fixtures/tui/events.txt");
    let (mut rows, mut faults) = (Vec::<Row>::new(), Vec::new());
    for case in cases() {
        let (old, new, old_editor, editor, print) = tokio::join!(
            a2a::shown(&case, false),
            a2a::shown(&case, true),
            editors::old(&case),
            editors::new(&case),
            headless::shown(&case),
        );
        if old != new {
            faults.push(format!("{}: A2A 0.3 is told {old:?} and 1.0 {new:?}", label(&case)));
        }
        let cells = [
            cell(old_editor),
            cell(editor),
            cell(old),
            terminal[case.line].clone(),
            // The headless front end shows only the turn that it has begun itself.
            if case.own { cell(print) } else { String::new() },
        ];
        let row = Row::new(&case, cells, &mut faults);
        match rows.iter().find(|other| other.label == row.label) {
            Some(other) if other.cells != row.cells => {
                let (one, two) = (&other.cells, &row.cells);
                faults.push(format!("{}: name them apart: {one:?} {two:?}", row.label));
            }
            Some(_) => {}
            None => rows.push(row),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    check(&rows);
}

#[track_caller]
fn check(rows: &[Row]) {
    let mut table = HEAD.to_owned();
    let row = |table: &mut String, cells: &[&str]| {
        let cells = cells.join(" | ");
        writeln!(table, "| {cells} |").unwrap();
    };
    row(&mut table, &[&["event"][..], &COLUMNS, &["why nothing"]].concat());
    row(&mut table, &["---"; 7]);
    for Row { label, cells, reasons } in rows {
        let cells = cells.iter().map(String::as_str);
        let cells: Vec<_> = [label.as_str()].into_iter().chain(cells).chain([&**reasons]).collect();
        row(&mut table, &cells);
    }
    if std::env::var_os("UPDATE_SHOWN").is_some() {
        fs::write(path(TABLE), table).unwrap();
        return;
    }
    let expected = fs::read_to_string(path(TABLE)).unwrap_or_default();
    assert_eq!(table, expected, "a front end shows something else");
}

/// Returns the first call in the fixture that is not asked about.
pub(crate) fn first_call() -> CallStarted {
    let all = cases().into_iter().find_map(|case| match case.event {
        Event::CallStarted(started) => Some(started),
        _ => None,
    });
    (*all.unwrap()).clone()
}

/// Returns whether a text is in a message, wherever.
pub(crate) fn has(message: &Value, text: &str) -> bool {
    message.to_string().contains(text)
}
