//! One turn: ask the model, run the calls it asks for, until it asks for none. Or a command.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::command::NotForModel;
use super::event::{Event, PromptPart, StopReason};
use super::loops::{Loop, LoopDetector};
use super::{Session, call, command, compress, consent, mention, resources};
use tandem_model::{self as model, Call, Chunk, Finish, FinishReason, Prompt};

pub(super) async fn run(
    session: &Session,
    prompt: &[PromptPart],
    cancel: &CancellationToken,
) -> StopReason {
    match command::find(session, prompt, cancel).await {
        Some(NotForModel::Command(name, text)) => {
            return command::run(session, name, &text, cancel).await;
        }
        Some(NotForModel::Unknown(name, why)) => return command::refuse(session, name, why),
        None => {}
    }
    if let [PromptPart::Shell(command)] = prompt {
        return shell(session, command, cancel).await;
    }
    read_rules(session).await;
    if consent::ask(session, cancel).await && cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    if resources::read(session, prompt, cancel).await && cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    if mention::read(session, prompt, cancel).await && cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    ask(session, cancel).await
}

/// Has the rules read that people have written, if they have not been; what is wrong with them is
/// said then.
async fn read_rules(session: &Session) {
    let permissions = Arc::clone(&session.approvals.permissions);
    if !permissions.is_loaded() {
        let load = tokio::task::spawn_blocking(move || permissions.loaded());
        // A fault is met again when something is checked, and then denies that.
        drop(load.await);
    }
    for notice in session.approvals.permissions.news() {
        session.log.append(Event::Notice(notice));
    }
}

/// Runs what the user typed; the model is told of it with the next prompt.
async fn shell(session: &Session, command: &str, cancel: &CancellationToken) -> StopReason {
    let call = Call {
        id: String::new(),
        name: "run_shell_command".to_owned(),
        args: json!({ "command": command }),
    };
    call::run_for_prompt(session, session.unique(call), cancel).await;
    if cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    StopReason::EndTurn
}

/// Asks the model, and runs the calls it asks for, until it asks for none.
pub(super) async fn ask(session: &Session, cancel: &CancellationToken) -> StopReason {
    session.await_servers(cancel).await;
    let Some(mut system) = cancel.run_until_cancelled(session.instruct()).await else {
        return StopReason::Cancelled { answering: true };
    };
    let mut loops = LoopDetector::new(session);
    for _ in 0..session.max_rounds {
        if let Some(most) = session.max_session_rounds
            && session.transcript.lock().answers() >= most
        {
            return StopReason::MaxSessionRounds(most);
        }
        let found = match answer(session, &mut system, &mut loops, cancel).await {
            None => return StopReason::Cancelled { answering: true },
            Some(Err(model::Error::Refused(why))) => return StopReason::Refused(why),
            Some(Err(error)) => return StopReason::Failed(error),
            Some(Ok(ModelAnswer::Looping(found))) => Some(found),
            Some(Ok(ModelAnswer::Whole(calls, reason))) if calls.is_empty() => {
                return ended(reason);
            }
            Some(Ok(ModelAnswer::Whole(calls, _))) => {
                let since = session.position();
                call::run_all(session, calls.clone(), cancel).await;
                if cancel.is_cancelled() {
                    return StopReason::Cancelled { answering: false };
                }
                loops.calls(session, &calls, since)
            }
        };
        if let Some(found) = found
            && let Some(reason) = loops.meet(session, found, cancel).await
        {
            return reason;
        }
    }
    StopReason::MaxRounds(session.max_rounds)
}

/// Returns the stop reason of a turn whose last answer makes no more calls.
fn ended(reason: FinishReason) -> StopReason {
    match reason {
        FinishReason::Stop => StopReason::EndTurn,
        FinishReason::MaxTokens => StopReason::MaxTokens,
        FinishReason::Refused(why) => StopReason::Refused(why),
    }
}

/// One answer of the model, to a conversation that is compressed first if it is too long for it, or
/// a summary of it is there; none if the turn is cancelled.
async fn answer(
    session: &Session,
    system: &mut Arc<str>,
    loops: &mut LoopDetector,
    cancel: &CancellationToken,
) -> Option<Result<ModelAnswer, model::Error>> {
    session.tell_plan();
    if compress::if_needed(session, cancel).await {
        *system = session.instruct().await;
    }
    let mut tried = 0;
    loop {
        let asking = ask_model(session, Arc::clone(system), loops);
        let answer = cancel.run_until_cancelled(asking).await?;
        let is_too_long = matches!(answer, Err(model::Error::ContextTooLong(_)));
        if !is_too_long || !compress::as_needed(session, &mut tried, cancel).await? {
            return Some(answer);
        }
        *system = session.instruct().await;
    }
}

/// An answer of the model.
enum ModelAnswer {
    /// All of it: the calls that the model asks for, and why it ended.
    Whole(Vec<Call>, FinishReason),
    /// It was cut off, because the model only repeated itself.
    Looping(Loop),
}

/// Streams one answer of the model; what is left to do is the calls it asks for.
async fn ask_model(
    session: &Session,
    system: Arc<str>,
    loops: &mut LoopDetector,
) -> Result<ModelAnswer, model::Error> {
    session.servers.fresh().await;
    let prompt = Prompt {
        system,
        messages: session.transcript.lock().conversation().messages().to_vec(),
        tools: session.tools.declarations(),
    };
    let mut chunks = session.answering().stream(prompt);
    let mut calls = Vec::new();
    loops.begin_answer();
    while let Some(chunk) = chunks.next().await {
        let found = match chunk? {
            Chunk::Text(text) => {
                let found = loops.says(&text);
                session.log.append(Event::Text(text));
                found
            }
            Chunk::Thought(text) => {
                let found = loops.thinks(&text);
                session.log.append(Event::Thought(text));
                found
            }
            Chunk::Call(call) => {
                calls.push(session.unique(call));
                None
            }
            Chunk::Retry(retry) => {
                if retry.discard {
                    calls.clear();
                    loops.begin_answer();
                }
                session.log.append(Event::Retry(retry));
                None
            }
            Chunk::Finish(finish) => return Ok(finished(session, calls, finish)),
        };
        session.transcript.lock().catch_up();
        if let Some(found) = found {
            // What it called in this answer was called out of the loop.
            finished(session, Vec::new(), Finish::default());
            return Ok(ModelAnswer::Looping(found));
        }
    }
    Err(model::Error::BadAnswer("the model's answer ended before it was whole".to_owned()))
}

/// The answer ends here.
fn finished(session: &Session, calls: Vec<Call>, finish: Finish) -> ModelAnswer {
    let Finish { reason, usage, native } = finish;
    session.log.append(Event::AnswerFinished {
        calls: calls.clone(),
        reason: reason.clone(),
        usage,
        native,
    });
    ModelAnswer::Whole(calls, reason)
}
