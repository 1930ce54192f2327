//! One turn: ask the model, run the calls it asks for, until it asks for none. Or a command.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::event::{Event, PromptPart, StopReason};
use super::{Session, call, command, compress, consent, mention, resources};
use crate::model::{self, Call, Chunk, Finish, FinishReason, Prompt};

pub(super) async fn run(
    session: &Session,
    prompt: &[PromptPart],
    cancel: &CancellationToken,
) -> StopReason {
    if let Some((name, text)) = command::find(session, prompt, cancel).await {
        return command::run(session, name, &text, cancel).await;
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
    let permissions = Arc::clone(&session.permissions);
    if !permissions.is_loaded() {
        let load = tokio::task::spawn_blocking(move || permissions.loaded());
        // A fault is met again when something is checked, and then denies that.
        drop(load.await);
    }
    for notice in session.permissions.news() {
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
    for _ in 0..session.max_rounds {
        if let Some(most) = session.max_session_rounds
            && session.transcript.lock().answers() >= most
        {
            return StopReason::MaxSessionRounds(most);
        }
        let (calls, reason) = match answer(session, &mut system, cancel).await {
            None => return StopReason::Cancelled { answering: true },
            Some(Ok(answer)) => answer,
            Some(Err(model::Error::Refused(why))) => return StopReason::Refused(why),
            Some(Err(error)) => return StopReason::Failed(error),
        };
        if !calls.is_empty() {
            call::run_all(session, calls, cancel).await;
            if cancel.is_cancelled() {
                return StopReason::Cancelled { answering: false };
            }
            continue;
        }
        return match reason {
            FinishReason::Stop => StopReason::EndTurn,
            FinishReason::MaxTokens => StopReason::MaxTokens,
            FinishReason::Refused(why) => StopReason::Refused(why),
        };
    }
    StopReason::MaxRounds(session.max_rounds)
}

/// One answer of the model, to a conversation that is compressed first if it is too long for it;
/// none if the turn is cancelled.
async fn answer(
    session: &Session,
    system: &mut Arc<str>,
    cancel: &CancellationToken,
) -> Option<Answer> {
    if compress::if_needed(session, cancel).await {
        *system = session.instruct().await;
    }
    let asking = ask_model(session, Arc::clone(system));
    let answer = cancel.run_until_cancelled(asking).await?;
    if !matches!(answer, Err(model::Error::ContextTooLong(_))) {
        return Some(answer);
    }
    match compress::compress(session, "", cancel).await {
        Ok(_) => {}
        Err(compress::Failure::Cancelled) => return None,
        Err(why) => {
            let notice =
                format!("The conversation is too long, and could not be compressed: {why}");
            session.log.append(Event::Notice(notice));
            return Some(answer);
        }
    }
    *system = session.instruct().await;
    cancel.run_until_cancelled(ask_model(session, Arc::clone(system))).await
}

/// The calls that the model asks for, and why its answer ended; or why there is none.
type Answer = Result<(Vec<Call>, FinishReason), model::Error>;

/// Streams one answer of the model; what is left to do is the calls it asks for.
async fn ask_model(session: &Session, system: Arc<str>) -> Answer {
    session.servers.fresh().await;
    let prompt = Prompt {
        system,
        messages: session.transcript.lock().conversation().messages().to_vec(),
        tools: session.tools.declarations(),
    };
    let mut chunks = session.answering().stream(prompt);
    let mut calls = Vec::new();
    while let Some(chunk) = chunks.next().await {
        match chunk? {
            Chunk::Text(text) => _ = session.log.append(Event::Text(text)),
            Chunk::Thought(text) => _ = session.log.append(Event::Thought(text)),
            Chunk::Call(call) => calls.push(session.unique(call)),
            Chunk::Retry(retry) => {
                if retry.discard {
                    calls.clear();
                }
                session.log.append(Event::Retry(retry));
            }
            Chunk::Finish(Finish { reason, usage, native }) => {
                session.log.append(Event::AnswerFinished {
                    calls: calls.clone(),
                    reason: reason.clone(),
                    usage,
                    native,
                });
                return Ok((calls, reason));
            }
        }
    }
    Err(model::Error::BadAnswer("the model's answer ended before it was whole".to_owned()))
}
