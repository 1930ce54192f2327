//! The calls of one answer: prepared, asked about if need be, run, and always finished.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::decision::Decision;
use super::event::{Answer, CallStarted, Caller, Event, ToolOutcome};
use super::{Session, background, instructions};
use crate::permission::{Checked, Environment, PolicyRequest, Scope, Verdict};
use parking_lot::Mutex;
use tandem_model::{Call, tokens};
use tandem_tools::{Access, Invocation, Kind, Summary, ToolContext, ToolError, ToolOutput};

/// Time for a cancelled call to end by itself before it is dropped.
const GRACE: Duration = Duration::from_secs(1);

/// Characters that a tool which reads may say beyond its limit, to say what is missing.
const READ_MORE: usize = 20_000;

/// Maximum number of reading calls that run at once.
const TOGETHER: usize = 8;

/// The least that the model is told of a call that says more, in characters.
const LEAST: usize = 2000;

/// Runs the calls of one answer: neighbours that only read together, all else one by one.
pub(super) async fn run_all(session: &Session, calls: Vec<Call>, cancel: &CancellationToken) {
    let room = session.room_for(calls.len());
    let mut rest = VecDeque::from(calls);
    while !rest.is_empty() {
        if cancel.is_cancelled() {
            for call in rest {
                let outcome = ToolOutcome::Cancelled;
                session.log.append(Event::CallFinished { call: call.id, outcome });
            }
            return;
        }
        let readers = rest.iter().take_while(|call| session.only_reads(call)).count();
        let batch: Vec<Call> = rest.drain(..readers.clamp(1, TOGETHER)).collect();
        let prepared = batch.into_iter().map(|call| prepare(session, call, cancel));
        let prepared = join_all(prepared).await;
        // Polled in order, and so announced in order.
        let run = |ready| run(session, ready, Caller::Model, room, cancel);
        join_all(prepared.into_iter().map(run)).await;
    }
}

/// Runs one call that the user's prompt asks for.
pub(super) async fn run_for_prompt(session: &Session, call: Call, cancel: &CancellationToken) {
    let ready = prepare(session, call, cancel).await;
    run(session, ready, Caller::Prompt, session.room_for(1), cancel).await;
}

/// Runs one call of a command's, which the policy judges like any.
pub(super) async fn run_for_command(session: &Session, call: Call, cancel: &CancellationToken) {
    let ready = prepare(session, call, cancel).await;
    run(session, ready, Caller::Agent, session.room_for(1), cancel).await;
}

/// A call and what would happen, or why it cannot.
struct Ready {
    call: Call,
    kind: Kind,
    tool: Tooling,
    invocation: Result<Invocation, ToolError>,
}

/// Properties of a call's tool that rules look at.
#[derive(Clone)]
struct Tooling {
    name: String,
    aliases: &'static [&'static str],
}

async fn prepare(session: &Session, call: Call, cancel: &CancellationToken) -> Ready {
    let Some((tool, spec)) = session.tools.find(&call.name) else {
        let message = session.tools.unknown(&call.name);
        let invocation = Err(ToolError::new("tool_not_registered", message));
        let name = call.name.clone();
        let tool = Tooling { name, aliases: &[] };
        return Ready { call, kind: Kind::Other, tool, invocation };
    };
    let cx = session.context(&call.id, cancel, |_| ());
    let prepared = AssertUnwindSafe(tool.prepare(call.args.clone(), &cx)).catch_unwind();
    let invocation = match cancel.run_until_cancelled(prepared).await {
        Some(Ok(invocation)) => invocation,
        Some(Err(_)) => Err(panicked(&call)),
        None => Err(ToolError::cancelled()),
    };
    let tool = Tooling { name: spec.name.clone(), aliases: spec.aliases };
    Ready { call, kind: spec.kind, tool, invocation }
}

/// Runs one call; the model is told at most `room` characters of what comes of it.
async fn run(
    session: &Session,
    ready: Ready,
    caller: Caller,
    room: usize,
    cancel: &CancellationToken,
) {
    let Ready { call, kind, tool, invocation } = ready;
    let (id, name) = (call.id.clone(), call.name.clone());
    let checked = {
        let access = invocation.as_ref().map_or(&Access::Nothing, |invocation| &invocation.access);
        cancel.run_until_cancelled(check(session, caller, tool, &call.args, access)).await
    };
    // What begins after a cancel is not announced.
    let Some(Checked { verdict, variables }) = checked.filter(|_| !cancel.is_cancelled()) else {
        return session.finish_call(id, ToolOutcome::Cancelled);
    };
    let invocation = invocation.unwrap_or_else(|error| Invocation::failing(brief(&call), error));
    let places = instructions::places(kind, &invocation);
    let (summary, access) = (invocation.summary.clone(), invocation.access.clone());
    let started =
        |question| Arc::new(CallStarted { call, caller, kind, summary, access, question });
    let announce = |started| _ = session.log.append(Event::CallStarted(started));
    let outcome = match verdict {
        Verdict::Allow => {
            let shown = session.gate(&id);
            announce(started(None));
            match shown.passed(cancel).await {
                Ok(()) => {
                    execute(session, &id, invocation, Grant { edited: None, variables }, cancel)
                        .await
                }
                Err(outcome) => outcome,
            }
        }
        Verdict::Deny(why) => {
            let shown = session.gate(&id);
            announce(started(None));
            let denied = ToolOutcome::Failed(ToolError::new("policy_denied", why));
            shown.passed(cancel).await.err().unwrap_or(denied)
        }
        Verdict::Ask(question) => {
            let answer = ask(session, started(Some(question)), cancel).await;
            match permitted(session, answer.as_ref(), cancel).await {
                Ok(edited) => {
                    let grant = Grant { edited, ..Grant::default() };
                    execute(session, &id, invocation, grant, cancel).await
                }
                Err(outcome) => outcome,
            }
        }
    };
    let outcome = session.fit(&name, kind, room, outcome).await;
    if matches!(outcome, ToolOutcome::Done(_)) {
        cancel.run_until_cancelled(session.instruct_about(&id, &places)).await;
    }
    session.finish_call(id, outcome);
}

/// Applies the policy to a call: the one place where a session does. A command line is taken apart and
/// its paths are looked up, which may take a while.
async fn check(
    session: &Session,
    caller: Caller,
    tool: Tooling,
    args: &Value,
    access: &Access,
) -> Checked {
    let access = match (caller, access) {
        // The user typed it.
        (Caller::Prompt, Access::Execute { .. }) => return Checked::from(Verdict::Allow),
        // The user named the files, and so means those with secrets in them, too. Another agent
        // does not know what the user means.
        (Caller::Prompt, Access::ReadFiles { .. }) if !session.runs_for_agent() => &Access::Read,
        (_, access) => access,
    };
    let permissions = Arc::clone(&session.approvals.permissions);
    if !matches!(access, Access::Execute { .. }) {
        return permissions.check(&tool.request(args, access), &Environment::default());
    }
    // A name stands for the program that is found when the line runs.
    session.host.terminals.find_programs().await;
    let environment = Environment::new(session.host.terminals.environment());
    let (args, access) = (args.clone(), access.clone());
    let check = tokio::task::spawn_blocking(move || {
        permissions.check(&tool.request(&args, &access), &environment)
    });
    // A fault in the policy must not let anything run.
    check.await.unwrap_or_else(|_| Checked::from(Verdict::Deny(crashed().message)))
}

impl Tooling {
    fn request<'a>(&'a self, args: &'a Value, access: &'a Access) -> PolicyRequest<'a> {
        PolicyRequest { tool: &self.name, aliases: self.aliases, args, access }
    }
}

/// Announces the question and waits for its answer; none if the turn is cancelled first.
pub(super) async fn ask(
    session: &Session,
    asked: Arc<CallStarted>,
    cancel: &CancellationToken,
) -> Option<Answer> {
    let call = asked.call.id.clone();
    let answer = session.approvals.questions.open(Arc::clone(&asked));
    session.log.append(Event::CallStarted(asked));
    let answer = tokio::select! {
        biased;
        answer = answer => answer.ok(),
        () = cancel.cancelled() => None,
    };
    if cancel.is_cancelled() {
        session.approvals.questions.withdraw();
    }
    session.log.append(Event::QuestionClosed { call, answer: answer.clone() });
    // What is said after the cancel does not count.
    answer.filter(|_| !cancel.is_cancelled()).map(|(answer, _)| answer)
}

/// Does what an answer says: returns the content with which the call may run, if the user has edited
/// it, or the outcome of a call that may not.
pub(super) async fn permitted(
    session: &Session,
    answer: Option<&Answer>,
    cancel: &CancellationToken,
) -> Result<Option<String>, ToolOutcome> {
    let Some(answer) = answer else { return Err(ToolOutcome::Cancelled) };
    let decision = answer.decision();
    match decision {
        Decision::Always(scope) => session.allow_always(scope.clone()),
        Decision::AlwaysAndSave(scope) => save(session, scope.clone()).await,
        Decision::CancelTurn => cancel.cancel(),
        Decision::RunEdited(content) => return Ok(Some(content.to_owned())),
        _ => {}
    }
    decision.refusal().map_or(Ok(None), Err)
}

/// Writes an answer down; people are told where, or why not.
async fn save(session: &Session, scope: Scope) {
    session.allow_always(scope.clone());
    let permissions = Arc::clone(&session.approvals.permissions);
    let saved = tokio::task::spawn_blocking(move || permissions.save(scope)).await;
    let notice = match saved {
        Ok(Ok(file)) => {
            format!("Written to {}; `/permissions remove` takes it back.", file.display())
        }
        Ok(Err(why)) => format!("This counts until the session ends: {why}."),
        Err(_) => crashed().message,
    };
    session.log.append(Event::Notice(notice));
}

/// Content and variables that a call that may run is given.
#[derive(Default)]
struct Grant {
    /// Content that the user has put in the place of the model's.
    edited: Option<String>,
    /// Environment variables of a command, besides its own.
    variables: Vec<(String, String)>,
}

async fn execute(
    session: &Session,
    id: &str,
    invocation: Invocation,
    Grant { edited, variables }: Grant,
    cancel: &CancellationToken,
) -> ToolOutcome {
    let progress = {
        let (progress, call) = (Arc::clone(&session.progress), id.to_owned());
        let log = session.log.clone();
        progress.lock().insert(call.clone(), None);
        move |output: String| {
            // Gone when the call has finished: what comes late is not shown.
            if let Some(last) = progress.lock().get_mut(&call) {
                let event = Event::CallProgress { call: call.clone(), output };
                *last = Some(log.supersede(*last, event));
            }
        }
    };
    let cx = ToolContext { variables: variables.into(), ..session.context(id, cancel, progress) };
    let mut run = Box::pin(AssertUnwindSafe(invocation.run(cx, edited)).catch_unwind());
    let result = tokio::select! {
        result = &mut run => result,
        () = cancel.cancelled() => match tokio::time::timeout(GRACE, run).await {
            Ok(result) => result,
            Err(_) => return ToolOutcome::Cancelled,
        },
    };
    outcome(result.unwrap_or_else(|_| Err(crashed())), cancel)
}

fn outcome(result: Result<ToolOutput, ToolError>, cancel: &CancellationToken) -> ToolOutcome {
    match result {
        Ok(output) => ToolOutcome::Done(output),
        Err(_) if cancel.is_cancelled() => ToolOutcome::Cancelled,
        Err(error) => ToolOutcome::Failed(error),
    }
}

/// Returns the summary of a call whose arguments could not be read.
pub(super) fn brief(call: &Call) -> Summary {
    let mut label = match &call.args {
        Value::Object(args) if args.is_empty() => call.name.clone(),
        args => format!("{} {args}", call.name),
    };
    if let Some((at, _)) = label.char_indices().nth(120) {
        label.truncate(at);
        label.push('…');
    }
    Summary::new(label)
}

fn panicked(call: &Call) -> ToolError {
    tracing::error!(call = call.name, "a tool panicked");
    crashed()
}

fn crashed() -> ToolError {
    ToolError::new(
        "internal",
        "The tool failed because of a fault in this agent; the log says more.",
    )
}

/// Index of the last progress event of each running call.
pub(super) type ProgressAt = Arc<Mutex<std::collections::HashMap<String, Option<usize>>>>;

impl Session {
    fn only_reads(&self, call: &Call) -> bool {
        self.tools.find(&call.name).is_some_and(|(_, spec)| spec.kind.only_reads())
    }

    fn context(
        &self,
        call: &str,
        cancel: &CancellationToken,
        progress: impl Fn(String) + Send + Sync + 'static,
    ) -> ToolContext {
        let (log, call) = (self.log.clone(), call.to_owned());
        let changed =
            move |change| _ = log.append(Event::FileChanged { call: call.clone(), change });
        ToolContext {
            host: Arc::clone(&self.host),
            variables: Arc::default(),
            cancel: cancel.clone(),
            progress: Arc::new(progress),
            changed: Arc::new(changed),
            background_ended: background::listener(self.log.clone()),
        }
    }

    /// Characters that each of so many calls may say, so that together they take no more than half
    /// of what the model's window still has room for.
    fn room_for(&self, calls: usize) -> usize {
        let Some(window) = self.input_limit() else { return usize::MAX };
        let left = window.saturating_sub(self.size()) / 2;
        let chars = usize::try_from(tokens::in_chars(left)).unwrap_or(usize::MAX);
        (chars / calls.max(1)).max(LEAST)
    }

    /// Shortens the result of a call to the most that the model is given of one.
    async fn fit(
        &self,
        tool: &str,
        kind: Kind,
        room: usize,
        mut outcome: ToolOutcome,
    ) -> ToolOutcome {
        let text = match &mut outcome {
            ToolOutcome::Done(output) => &mut output.text,
            ToolOutcome::Failed(error) => &mut error.message,
            ToolOutcome::Rejected | ToolOutcome::Cancelled | ToolOutcome::Interrupted => {
                return outcome;
            }
        };
        // Tools that read keep to a limit of their own, and say how to read on.
        let read = self.host.limits.read_chars.saturating_add(READ_MORE);
        let max = if kind.only_reads() { read } else { self.host.limits.output_chars };
        *text = self.host.outputs.fit(tool, std::mem::take(text), max.min(room)).await;
        outcome
    }

    pub(super) fn finish_call(&self, call: String, outcome: ToolOutcome) {
        let last = self.progress.lock().remove(&call).flatten();
        self.log.supersede(last, Event::CallFinished { call, outcome });
    }
}
