//! The calls of one answer of the model. Each call is prepared, judged by the policy, asked about if the policy demands
//! it, and run. Each call gets its `CallFinished` event, also after a cancel.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::connections::Connections;
use super::user_questions::UserQuestions;
use crate::session::context::instructions;
use crate::session::engine::{CurrentTurn, Engine};
use crate::session::events::event::{CallStarted, Caller, Event, Origin, ToolOutcome};
use crate::session::events::log::Log;
use crate::session::turns::spans;
use tandem_approval::{
    Answer, BuiltInRule, Checked, Environment, Mode, PolicyRequest, SandboxSituation, Scope,
    Verdict, sandbox_mark,
};
use tandem_content::blocking::blocking;
use tandem_content::shorten::ellipsis;
use tandem_host::background::Job;
use tandem_host::command_sandbox::ShownFiles;
use tandem_host::hidden_home::HiddenHome;
use tandem_host::{
    Access, AnswerContent, Host, Invocation, Summary, ToolContext, ToolError, ToolKind, ToolOutput,
    UserAnswer,
};
use tandem_model::{Call, tokens};
use tandem_sandbox::SandboxMode;

/// Time that a cancelled call has to end by itself, before its future is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Characters that the result of a reading tool may have beyond `read_chars`: in them, the tool says what is missing
/// and how to read on.
const READ_MORE: usize = 20_000;

/// Maximum number of reading calls that run at once.
const MAX_PARALLEL_READS: usize = 8;

/// Lower bound, in characters, of the limit on a call's result, however full the model's window is.
const MIN_RESULT_CHARS: usize = 2000;

/// Runs the calls of one answer in order. Adjacent calls that only read run at the same time, at most
/// `MAX_PARALLEL_READS` of them; every other call runs alone.
pub(crate) async fn run_all(engine: &Engine, turn: CurrentTurn<'_>, calls: Vec<Call>) {
    let room = room_for(engine, calls.len());
    let translate = |call| engine.tools.translated(call);
    let mut rest: VecDeque<Call> = calls.into_iter().map(translate).collect();
    while !rest.is_empty() {
        if turn.cancel.is_cancelled() {
            for call in rest {
                let outcome = ToolOutcome::Cancelled;
                engine.log.append(Event::CallFinished { call: call.id, outcome });
            }
            return;
        }
        let readers = rest.iter().take_while(|call| only_reads(engine, call)).count();
        let batch: Vec<Call> = rest.drain(..readers.clamp(1, MAX_PARALLEL_READS)).collect();
        let prepared = batch.into_iter().map(|call| prepare(engine, call, turn.cancel));
        let prepared = join_all(prepared).await;
        // `join_all` polls in order, so the calls of a batch are announced in the order of the answer.
        let run = |ready: Ready| {
            let span = ready.span(engine);
            run(engine, turn, ready, Caller::Model, room).instrument(span)
        };
        join_all(prepared.into_iter().map(run)).await;
    }
}

/// Runs one call that the user's prompt asks for: reading a file that the prompt mentions, or running the command line
/// that the user typed.
pub(crate) async fn run_for_prompt(engine: &Engine, turn: CurrentTurn<'_>, call: Call) {
    run_one(engine, turn, call, Caller::Prompt).await;
}

/// Runs one call that a slash command makes. The policy judges the call like a call of the model.
pub(crate) async fn run_for_command(engine: &Engine, turn: CurrentTurn<'_>, call: Call) {
    run_one(engine, turn, call, Caller::Agent).await;
}

async fn run_one(engine: &Engine, turn: CurrentTurn<'_>, call: Call, caller: Caller) {
    let ready = prepare(engine, call, turn.cancel).await;
    let span = ready.span(engine);
    run(engine, turn, ready, caller, room_for(engine, 1)).instrument(span).await;
}

/// A prepared call, with its invocation or the reason why it cannot run.
struct Ready {
    call: Call,
    kind: ToolKind,
    tool: Tooling,
    invocation: Result<Invocation, ToolError>,
}

impl Ready {
    fn span(&self, engine: &Engine) -> Span {
        let known = engine.tools.find(&self.call.name).map(|(_, spec)| spec);
        spans::tool(known.as_ref().map(|spec| spec.name.as_str()), &self.call)
    }
}

/// Properties of a call's tool that the rules look at.
#[derive(Clone)]
struct Tooling {
    name: String,
    aliases: &'static [&'static str],
}

/// Returns the call with the invocation that its tool has prepared. A panic of the tool becomes an error of the call.
async fn prepare(engine: &Engine, call: Call, cancel: &CancellationToken) -> Ready {
    let Some((tool, spec)) = engine.tools.find(&call.name) else {
        let message = engine.tools.unknown(&call.name);
        let invocation = Err(ToolError::new("tool_not_registered", message));
        let name = call.name.clone();
        let tool = Tooling { name, aliases: &[] };
        return Ready { call, kind: ToolKind::Other, tool, invocation };
    };
    let cx = context(engine, &call.id, cancel, |_| ());
    let prepared = AssertUnwindSafe(tool.prepare(call.args.clone(), &cx)).catch_unwind();
    let invocation = match cancel.run_until_cancelled(prepared).await {
        Some(Ok(invocation)) => invocation,
        Some(Err(_)) => Err(panicked(&call)),
        None => Err(ToolError::cancelled()),
    };
    let tool = Tooling { name: spec.name.clone(), aliases: spec.aliases };
    Ready { call, kind: spec.kind, tool, invocation }
}

/// Runs one prepared call, of whose result the model is given at most `room` characters:
///
/// 1. The policy judges the call.
/// 2. The call is announced in the log. Then the front end shows the call, or the user answers the question about it.
/// 3. The call runs, unless it is denied, rejected or cancelled.
/// 4. The result is shortened. If the call worked, the model is told the instructions for the places that it was about.
/// 5. The end of the call is recorded.
async fn run(engine: &Engine, turn: CurrentTurn<'_>, ready: Ready, caller: Caller, room: usize) {
    let (CurrentTurn { origin, cancel }, Ready { call, kind, tool, invocation }) = (turn, ready);
    let (id, name) = (call.id.clone(), call.name.clone());
    let checked = {
        let access = invocation.as_ref().map_or(&Access::Nothing, |invocation| &invocation.access);
        match judged(caller, origin, access) {
            Some(access) => {
                let check = check(engine, tool, caller, &call.args, &access);
                cancel.run_until_cancelled(check).await
            }
            None => Some(Checked::from(Verdict::Allow)),
        }
    };
    // A call that has not been announced when the turn is cancelled only gets its `CallFinished`.
    let checked = checked.filter(|_| !cancel.is_cancelled());
    let Some(Checked { verdict, variables, sandbox, shown: seen, .. }) = checked else {
        return engine.calls.finish(id, ToolOutcome::Cancelled);
    };
    let invocation = invocation.unwrap_or_else(|error| Invocation::failing(unread(&call), error));
    let places = instructions::touched_directories(kind, &invocation);
    let (summary, access) = (summary(&invocation, sandbox), invocation.access.clone());
    let has_clock = caller != Caller::Prompt;
    let grant = Grant { content: None, variables, sandbox, has_clock, seen };
    let mut allowed = AllowedCall { id: &id, kind, invocation, grant };
    let started =
        |question| Arc::new(CallStarted { call, caller, kind, summary, access, question });
    let announce = |started| _ = engine.log.append(Event::CallStarted(started));
    let outcome = match verdict {
        Verdict::Allow => {
            let shown = engine.approvals.gate.open(&id, origin);
            announce(started(None));
            match shown.passed(cancel).await {
                Ok(()) => execute(engine, allowed, cancel).await,
                Err(outcome) => outcome,
            }
        }
        Verdict::Deny { why, rule } => {
            let shown = engine.approvals.gate.open(&id, origin);
            announce(started(None));
            let denied = ToolError::denied(why, rule.map(|rule| rule.to_string()));
            shown.passed(cancel).await.err().unwrap_or(ToolOutcome::Failed(denied))
        }
        Verdict::Ask(question) => {
            let answer = engine.approvals.ask(started(Some(question)), cancel).await;
            match engine.approvals.apply_answer(answer.as_ref(), cancel).await {
                Ok(content) => {
                    allowed.grant.seen.of_home.extend(answer.iter().flat_map(places_to_read));
                    allowed.grant.content = content;
                    execute(engine, allowed, cancel).await
                }
                Err(outcome) => outcome,
            }
        }
    };
    let outcome = fit(&engine.host, &name, kind, room, outcome).await;
    if matches!(outcome, ToolOutcome::Done(_)) {
        cancel.run_until_cancelled(engine.instructions.instruct_about(&id, &places)).await;
    }
    spans::tool_ended(&outcome);
    engine.calls.finish(id, outcome);
}

/// Returns the places that the user's answer allows to read from now on. The command that was asked about sees all of
/// them, too.
fn places_to_read(answer: &Answer) -> Vec<PathBuf> {
    match answer.decision().scope() {
        Some(Scope::Reads(places)) => places.clone(),
        _ => Vec::new(),
    }
}

/// Returns the summary of a call for people. A mark in the summary shows that the command runs in the sandbox.
fn summary(invocation: &Invocation, sandbox: SandboxMode) -> Summary {
    let summary = invocation.summary.clone();
    Summary { label: sandbox_mark::marked(&summary.label, sandbox), ..summary }
}

/// Returns the access that the policy judges; `None` for a command line that the user typed, which runs unjudged.
fn judged<'a>(caller: Caller, origin: &Origin, access: &'a Access) -> Option<Cow<'a, Access>> {
    match (caller, access) {
        (Caller::Prompt, Access::Execute { .. }) => None,
        // A user who mentions a file of the workspace agrees to read it, secret or not, so only files outside are
        // judged: pasted text may name them. For a prompt of another agent, all files are judged.
        (Caller::Prompt, Access::ReadFiles { outside, .. })
            if !matches!(origin, Origin::A2a(_)) =>
        {
            let outside = outside.clone();
            Some(Cow::Owned(Access::ReadFiles { paths: Vec::new(), outside }))
        }
        _ => Some(Cow::Borrowed(access)),
    }
}

/// Decides on a call, by the tools that the session may use and then by the policy. While the store refuses the log, an
/// allowed call with effects outside the workspace becomes a question, except in yolo mode.
async fn check(
    engine: &Engine,
    tool: Tooling,
    caller: Caller,
    args: &Value,
    access: &Access,
) -> Checked {
    // The limit on tools does not cover the files that a prompt mentions: the sender of the prompt, who has set the
    // limit, asks for them.
    if caller != Caller::Prompt
        && let Some(why) = engine.tools.beyond_limit(&tool.request(args, access))
    {
        let rule = Some(BuiltInRule::AllowedTools.into());
        return Checked::from(Verdict::Deny { why, rule });
    }
    let checked = apply_policy(engine, tool, caller, args, access).await;
    let mode = engine.approvals.permissions.mode();
    if engine.log.is_store_bypassed() && mode != Mode::Yolo {
        checked.unsaved(access)
    } else {
        checked
    }
}

/// Applies the policy to a call of a tool. A command line, or a text for a running program, is parsed and its paths are
/// looked up on disk, which may take a while and happens on a blocking thread.
async fn apply_policy(
    engine: &Engine,
    tool: Tooling,
    caller: Caller,
    args: &Value,
    access: &Access,
) -> Checked {
    let permissions = Arc::clone(&engine.approvals.permissions);
    if !matches!(access, Access::Execute { .. } | Access::ProgramInput(_)) {
        return permissions.check(&tool.request(args, access), &Environment::default());
    }
    // The policy judges the programs that the line's names resolve to when the line runs, so the search path must be
    // known first.
    engine.host.terminals.find_programs().await;
    let environment = Environment::new(engine.host.terminals.environment());
    // The user's own commands run without a sandbox: they carry no request to leave one.
    let sandbox = match caller {
        Caller::Model => sandbox(engine).await,
        Caller::Prompt | Caller::Agent => Ok(None),
    };
    let sandbox = match sandbox {
        Ok(sandbox) => sandbox,
        Err(why) => {
            let rule = Some(BuiltInRule::Sandbox.into());
            return Checked::from(Verdict::Deny { why, rule });
        }
    };
    let hidden = engine.host.sandbox.as_ref().filter(|_| sandbox.is_some());
    let environment = match hidden {
        Some(hidden) => environment.hiding(HiddenHome::new(Arc::clone(hidden))),
        None => environment,
    };
    let environment = environment.sandboxed(sandbox);
    let (args, access) = (args.clone(), access.clone());
    let check = blocking(move || permissions.check(&tool.request(&args, &access), &environment));
    // A panic in the policy denies the call.
    check
        .await
        .unwrap_or_else(|_| Checked::from(Verdict::Deny { why: crashed().message, rule: None }))
}

/// Returns the sandbox that commands run in; `None` if they run without one. If a sandbox is configured and none works
/// here, people are told once. The error tells the model why commands are refused.
async fn sandbox(engine: &Engine) -> Result<Option<SandboxSituation>, String> {
    let is_there = |_: &&_| !engine.host.sandbox_has_given_way();
    let Some(sandbox) = engine.host.sandbox.as_ref().filter(is_there) else { return Ok(None) };
    let probe = sandbox.probe().await;
    let refusal = sandbox.refusal(&probe);
    if let (Some(works), None) = (&probe.sandbox, &refusal) {
        let protects = works.mechanism().protects();
        let (mode, network) = (sandbox.mode(), sandbox.has_network());
        return Ok(Some(SandboxSituation { mode, protects, network }));
    }
    if let Some(why) = sandbox.first_complaint(&probe) {
        engine.log.append(Event::Notice(why));
    }
    match refusal {
        Some(why) => Err(format!(
            "Not run: the user wants commands to run in a sandbox, and there is none ({why}). No command \
             can run in this session. Go on without commands, and say in your answer what is missing."
        )),
        None => Ok(None),
    }
}

impl Tooling {
    fn request<'a>(&'a self, args: &'a Value, access: &'a Access) -> PolicyRequest<'a> {
        PolicyRequest { tool: &self.name, aliases: self.aliases, args, access }
    }
}

/// Content, variables and limits that a call which may run is given.
struct Grant {
    /// Content of the user's answer.
    content: Option<AnswerContent>,
    /// Environment variables that a command is given in addition to its own.
    variables: Vec<(String, String)>,
    /// Mode of the sandbox that a command runs in.
    sandbox: SandboxMode,
    /// `true` if a command goes to the background when its time limit is over, instead of being ended.
    has_clock: bool,
    /// Files that a command sees in the sandbox in addition to those that every command sees.
    seen: ShownFiles,
}

/// A call that may run: the work that its tool has prepared, and the grant.
struct AllowedCall<'a> {
    id: &'a str,
    kind: ToolKind,
    invocation: Invocation,
    grant: Grant,
}

/// Runs an allowed call until it ends, or is dropped `CANCEL_GRACE` after the turn was cancelled. Meanwhile the user is
/// asked about the connections and the questions that come up in the call.
async fn execute(
    engine: &Engine,
    AllowedCall { id, kind, invocation, grant }: AllowedCall<'_>,
    cancel: &CancellationToken,
) -> ToolOutcome {
    let Grant { content, variables, sandbox, has_clock, seen } = grant;
    if !kind.only_reads() {
        // The start of the call is stored before the call changes anything, so that after a crash the log names every
        // call that may have changed something.
        let begun = engine.log.len().saturating_sub(1);
        if cancel.run_until_cancelled(engine.log.wait_persisted(begun)).await != Some(true) {
            return ToolOutcome::Cancelled;
        }
    }
    let progress = engine.calls.progress(id);
    let cx = context(engine, id, cancel, progress);
    let purpose = match &invocation.access {
        Access::Execute { command, .. } => command,
        Access::ProgramInput(input) => &input.command,
        Access::Fetch { urls, .. } => &urls.join(", "),
        _ => &invocation.summary.label,
    };
    let (connections, connect) = Connections::open(&engine.approvals.permissions, purpose);
    let connects = sandbox < SandboxMode::DangerFullAccess
        || matches!(invocation.access, Access::Fetch { .. });
    let connect = connects.then_some(connect);
    // The call may run, so until its end it may read the files outside the workspace that the question was about.
    let _permit = match &invocation.access {
        Access::ReadFiles { outside, .. } => {
            let paths = outside.iter().map(|file| file.path.clone());
            Some(engine.host.workspace.permit(paths.collect()))
        }
        _ => None,
    };
    let (questions, ask) = UserQuestions::of_call();
    let (variables, shown) = (variables.into(), Arc::new(seen));
    let cx = ToolContext { variables, has_clock, sandbox, shown, connect, ask, ..cx };
    let mut run = Box::pin(AssertUnwindSafe(invocation.run(cx, content)).catch_unwind());
    let over = CancellationToken::new();
    let run = async {
        let _over = over.clone().drop_guard();
        tokio::select! {
            result = &mut run => Some(result),
            () = cancel.cancelled() => tokio::time::timeout(CANCEL_GRACE, run).await.ok(),
        }
    };
    // Questions that are still open for the call are withdrawn at its end: `over` fires when `run` is done.
    let asked = async {
        tokio::join!(
            connections.answer(engine, cancel, &over),
            questions.answer(engine, cancel, &over)
        )
    };
    let (result, _) = tokio::join!(run, asked);
    match result {
        Some(result) => outcome(result.unwrap_or_else(|_| Err(crashed())), cancel),
        None => ToolOutcome::Cancelled,
    }
}

fn outcome(result: Result<ToolOutput, ToolError>, cancel: &CancellationToken) -> ToolOutcome {
    match result {
        Ok(mut output) => {
            // A tool makes the text piece by piece, so up to half of its memory is spare. The log keeps the text.
            output.text.shrink_to_fit();
            ToolOutcome::Done(output)
        }
        Err(_) if cancel.is_cancelled() => ToolOutcome::Cancelled,
        Err(error) => ToolOutcome::Failed(error),
    }
}

/// Returns the summary of a call that could not be prepared, for example because its arguments are invalid.
fn unread(call: &Call) -> Summary {
    Summary::new(format!("Call {}", brief(call)))
}

/// Returns a call's name and arguments on one line, cut to 120 characters.
pub(crate) fn brief(call: &Call) -> String {
    let label = match &call.args {
        Value::Object(args) if args.is_empty() => call.name.clone(),
        args => format!("{} {args}", call.name),
    };
    ellipsis(&label, 120).into_owned()
}

fn panicked(call: &Call) -> ToolError {
    tracing::error!(call = call.name, "a tool panicked");
    crashed()
}

fn crashed() -> ToolError {
    ToolError::new(
        "internal",
        "The tool failed because of a bug in tandem; the log (`--log-file`) says more.",
    )
}

fn only_reads(engine: &Engine, call: &Call) -> bool {
    engine.tools.find(&call.name).is_some_and(|(_, spec)| spec.kind.only_reads())
}

/// Returns the context in which a call is prepared. `execute` adds the parts that only a running call has.
fn context(
    engine: &Engine,
    call: &str,
    cancel: &CancellationToken,
    progress: impl Fn(String) + Send + Sync + 'static,
) -> ToolContext {
    let id = Arc::from(call);
    let (log, call) = (engine.log.clone(), call.to_owned());
    let announce = move |change| {
        let announced = log.append(Event::FileChanged { call: call.clone(), change });
        let log = log.clone();
        async move {
            // The tool touches the file only after this announcement is stored, so that a crash leaves no change that
            // is missing in the log.
            if log.wait_persisted(announced).await {
                return Ok(());
            }
            // Nothing is stored any more: another process runs the session now, or the store has refused for too long.
            // No log would have the change.
            Err(ToolError::cancelled())
        }
        .boxed()
    };
    let log = engine.log.clone();
    ToolContext {
        call: id,
        host: Arc::clone(&engine.host),
        audience: engine.tools.audience(),
        variables: Arc::default(),
        has_clock: true,
        sandbox: SandboxMode::DangerFullAccess,
        shown: Arc::default(),
        connect: None,
        cancel: cancel.clone(),
        progress: Arc::new(progress),
        ask: Arc::new(|_| std::future::ready(UserAnswer::Withdrawn).boxed()),
        announce: Arc::new(announce),
        background_ended: Arc::new(move |job| background_ended(job, &log)),
    }
}

/// Tells people, and the model with its next message, that a command in the background has ended.
fn background_ended(job: &Job, log: &Log) {
    let Job { pid, command, .. } = job;
    let state = job.state();
    let first = command.trim().lines().next().unwrap_or_default();
    let notice = format!("In the background: PID {pid} {state}: `{first}` (`/shells {pid}`)");
    log.append(Event::Notice(notice));
    let text = format!(
        "\n\n[The command in the background with the PID {pid} {state}: `{command}`. \
         read_background_output reads what it wrote.]"
    );
    log.append(Event::ToldNext(text));
}

/// Returns the maximum length, in characters, of the result of each of `calls` calls. Together the results take at most
/// half of the room that is left in the model's window, but each may have `MIN_RESULT_CHARS` characters.
fn room_for(engine: &Engine, calls: usize) -> usize {
    let Some(window) = engine.model.input_limit() else { return usize::MAX };
    let left = window.saturating_sub(engine.size()) / 2;
    let chars = usize::try_from(tokens::in_chars(left)).unwrap_or(usize::MAX);
    (chars / calls.max(1)).max(MIN_RESULT_CHARS)
}

/// Shortens the result of a call to the limit for its kind of tool, and to `room` characters.
async fn fit(
    host: &Host,
    tool: &str,
    kind: ToolKind,
    room: usize,
    mut outcome: ToolOutcome,
) -> ToolOutcome {
    let text = match &mut outcome {
        ToolOutcome::Done(output) => &mut output.text,
        ToolOutcome::Failed(error) => &mut error.message,
        ToolOutcome::Rejected
        | ToolOutcome::Cancelled
        | ToolOutcome::Interrupted
        | ToolOutcome::Unknown(_) => return outcome,
    };
    // Tools that read keep to `read_chars` by themselves, and say how to read on.
    let read = host.limits.read_chars.saturating_add(READ_MORE);
    let max = if kind.only_reads() { read } else { host.limits.output_chars };
    *text = host.outputs.fit(tool, std::mem::take(text), max.min(room)).await;
    outcome
}
