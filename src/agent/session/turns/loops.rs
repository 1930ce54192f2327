//! Detection of loops: a model that repeats its calls or its words is told so. If it goes on, the user is asked.

mod cycle;
mod repetition;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::cycle::Cycle;
use self::repetition::Repetition;
use crate::session::calls::call::brief;
use crate::session::context::compress::beginning::BY_THE_AGENT;
use crate::session::engine::Engine;
use crate::session::events::event::{CallStarted, Caller, Event, StopReason, ToolOutcome};
use tandem_approval::{Answer, BuiltInRule, Decision, Question, QuestionSubject, Scope};
use tandem_host::{Access, Summary, ToolKind, ToolOutput};
use tandem_model::Call;

/// Detector of a model that repeats its calls or its words, for one turn.
pub(super) struct LoopDetector {
    calls: Cycle,
    text: Repetition,
    thought: Repetition,
    /// `true` if repeated calls count as a loop.
    calls_count: bool,
    /// `true` if repeated words count as a loop.
    text_counts: bool,
    /// `true` once the model has been told of a loop.
    told: bool,
}

/// A loop that was detected.
pub(super) struct Loop {
    /// Description for people, as the end of a sentence.
    what: String,
    /// Call with whose result the model is told of the loop; `None` if the model repeats its words.
    call: Option<String>,
}

impl LoopDetector {
    /// Makes a detector without calls and text. The detector finds no loop if the settings turn it off, or if the
    /// user has always allowed repetition.
    pub(super) fn new(engine: &Engine) -> Self {
        let counts = engine.upkeep.detect_loops
            && !engine.approvals.permissions.allowed().contains(&Scope::Repetition);
        Self {
            calls: Cycle::default(),
            text: Repetition::default(),
            thought: Repetition::default(),
            calls_count: counts,
            text_counts: counts,
            told: false,
        }
    }

    /// Forgets the words so far, because a new answer begins, or the same answer begins again.
    pub(super) fn begin_answer(&mut self) {
        self.text = Repetition::default();
        self.thought = Repetition::default();
    }

    /// Adds text that the model says. Returns a loop if the model only repeats itself.
    pub(super) fn says(&mut self, text: &str) -> Option<Loop> {
        let repeats = self.text_counts && self.text.add(text);
        repeats.then(|| Loop { what: "the same text again and again".to_owned(), call: None })
    }

    /// Adds text that the model thinks. Returns a loop if the model only repeats itself.
    pub(super) fn thinks(&mut self, text: &str) -> Option<Loop> {
        let repeats = self.text_counts && self.thought.add(text);
        repeats.then(|| Loop { what: "the same thought again and again".to_owned(), call: None })
    }

    /// Adds calls that have ended; their outcomes are in the log from the index `since` on. Returns a loop if these
    /// calls and the calls before them only repeat themselves.
    pub(super) fn calls(&mut self, engine: &Engine, calls: &[Call], since: usize) -> Option<Loop> {
        if !self.calls_count {
            return None;
        }
        let mut log = engine.log.read(since);
        let mut outcomes = HashMap::new();
        while let Some(event) = log.try_next() {
            if let Event::CallFinished { call, .. } = &*event {
                outcomes.insert(call.clone(), event);
            }
        }
        let mut found = None;
        for call in calls {
            let outcome = outcomes.get(&call.id).and_then(|event| match &**event {
                Event::CallFinished { outcome, .. } => Some(outcome),
                _ => None,
            });
            found = self.calls.add(call, outcome).or(found);
        }
        let last = calls.last()?;
        let what = match found? {
            1 => format!("the same call with the same result: {}", brief(last)),
            length => {
                format!("the same {length} calls with the same results: {}, ...", brief(last))
            }
        };
        Some(Loop { what, call: Some(last.id.clone()) })
    }

    /// Handles a loop: tells the model, or asks the user if the model was told of an earlier loop. Returns the
    /// reason why the turn ends, if the turn ends.
    pub(super) async fn handle_loop(
        &mut self,
        engine: &Engine,
        found: Loop,
        cancel: &CancellationToken,
    ) -> Option<StopReason> {
        // The text and calls up to now no longer count, or the next call of the same kind would be the same loop again.
        let before = std::mem::replace(self, Self::new(engine));
        self.text_counts &= before.text_counts;
        let text = match &found.call {
            Some(_) => REPEATED_CALLS,
            None => REPEATED_TEXT,
        };
        if !before.told {
            self.told = true;
            let notice =
                format!("The model repeats itself ({}); tandem has told the model.", found.what);
            engine.log.append(Event::Notice(notice));
            tell(engine, &found, text);
            return None;
        }
        match ask(engine, &found, cancel).await {
            LoopAnswer::GoOn => {
                *self = Self::new(engine);
                // The user may want this repeated text: repeated words no longer count in this turn.
                self.text_counts &= before.text_counts && found.call.is_some();
                tell(engine, &found, GO_ON);
            }
            LoopAnswer::Instead(why) => {
                tell(engine, &found, &format!("{text} The user says: {why}"));
            }
            LoopAnswer::Stop if cancel.is_cancelled() => {
                return Some(StopReason::Cancelled { answering: false });
            }
            LoopAnswer::Stop => return Some(StopReason::Looping(found.what)),
        }
        None
    }
}

/// The user's decision on a loop.
enum LoopAnswer {
    GoOn,
    /// The model continues in another way, which the user describes.
    Instead(String),
    Stop,
}

async fn ask(engine: &Engine, found: &Loop, cancel: &CancellationToken) -> LoopAnswer {
    let started = question(engine, found);
    let id = started.call.id.clone();
    let answer = engine.approvals.ask(started, cancel).await;
    let permitted = engine.approvals.apply_answer(answer.as_ref(), cancel).await;
    let decision = answer.as_ref().map(Answer::decision);
    let said = match decision {
        Some(Decision::Reject(Some(why))) => LoopAnswer::Instead(why.to_owned()),
        Some(decision) if decision.runs() => LoopAnswer::GoOn,
        _ => LoopAnswer::Stop,
    };
    let done = match decision.and_then(Decision::scope) {
        Some(_) => "The model goes on, now and whenever it repeats itself in this session.",
        None => "The model goes on.",
    };
    let done = |_| ToolOutcome::Done(ToolOutput::new(done, done));
    engine.calls.finish(id, permitted.map_or_else(|outcome| outcome, done));
    said
}

fn question(engine: &Engine, found: &Loop) -> Arc<CallStarted> {
    let call = Call {
        id: String::new(),
        name: "go_on".to_owned(),
        args: json!({ "although": format!("the model repeats itself: {}", found.what) }),
    };
    let description = format!(
        "The model repeats itself: {}.\nThe model has been told, and has not stopped. Let the model go on?",
        found.what
    );
    Arc::new(CallStarted {
        call: engine.calls.with_unique_id(call),
        caller: Caller::Agent,
        kind: ToolKind::Other,
        summary: Summary::new("Let the model go on, although it repeats itself"),
        access: Access::Other { description },
        question: Some(Question {
            subject: QuestionSubject::Repetition,
            why: "the model has been told that it repeats itself, and goes on".to_owned(),
            rules: vec![BuiltInRule::Repetition.into()],
            scopes: engine.approvals.permissions.offered_scopes(vec![Scope::Repetition]),
            ..Question::default()
        }),
    })
}

/// Tells the model of a loop: with the result of the call, or as a message of its own.
fn tell(engine: &Engine, found: &Loop, text: &str) {
    let text = match found.call {
        Some(_) => format!("\n\n{BY_THE_AGENT}{text}]"),
        None => format!("{BY_THE_AGENT}{text}]"),
    };
    engine.log.append(Event::Told { call: found.call.clone(), text });
}

const REPEATED_CALLS: &str = "You have made the same calls again and again, and what came of them was the same \
    each time. Making them once more will not change that. Find out why, and go on in another way: \
    with other arguments, with another tool, or by saying what stands in your way. If you wait for \
    something, wait longer before you look again.";
const REPEATED_TEXT: &str = "What you said was cut off here, because it was the same again and again. Do not \
    repeat it. Go on with what is to be done in another way, or say in a few words how far you have \
    come, and end.";
const GO_ON: &str = "The user has seen that you repeat yourself, and lets you go on.";
