//! The course of one turn: asks the model and runs the calls that it requests, until an answer requests none. A turn
//! can also be a slash command, or a command line that the user typed.

use std::sync::Arc;

use futures::{StreamExt as _, TryFutureExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::answer_check::AnswerCheck;
use super::command::{CommandEnd, Commands, NotForModel};
use super::instruct::{instruct, tell_surroundings};
use super::loops::{Loop, LoopDetector};
use super::{command, mention, resources, spans};
use crate::session::calls::call;
use crate::session::calls::consent;
use crate::session::context::compress;
use crate::session::engine::{CurrentTurn, Engine};
use crate::session::events::event::{Event, PromptPart, StopReason};
use crate::session::state::turn_progress::ResumePlace;
use tandem_model::answer_schema::AnswerSchema;
use tandem_model::{self as model, Call, Chunk, Finish, FinishReason, Prompt};

/// Runs a turn from one of its steps to its end.
pub(super) async fn run_from(
    place: ResumePlace,
    engine: &Engine,
    commands: &Arc<dyn Commands>,
    turn: CurrentTurn<'_>,
    prompt: &[PromptPart],
) -> StopReason {
    let mut check = match AnswerCheck::new(prompt).await {
        Ok(check) => check,
        Err(reason) => return reason,
    };
    match place {
        ResumePlace::Beginning => run(engine, commands, turn, prompt, check).await,
        ResumePlace::Model => ask(engine, turn, check).await,
        ResumePlace::End(FinishReason::Stop) => match check.conclude(engine).await {
            Some(reason) => reason,
            None => ask(engine, turn, check).await,
        },
        ResumePlace::End(reason) => stop_reason(reason),
    }
}

/// Runs a turn from its beginning to its end:
///
/// 1. If the prompt is a slash command, runs it. The turn ends with the command, or goes on with the model.
/// 2. If the prompt is a command line, runs it, and the turn ends.
/// 3. Asks for consent to the programs of the project's settings, and reads the resources and files that the prompt
///    mentions.
/// 4. Asks the model.
async fn run(
    engine: &Engine,
    commands: &Arc<dyn Commands>,
    turn: CurrentTurn<'_>,
    prompt: &[PromptPart],
    check: AnswerCheck,
) -> StopReason {
    match command::resolve(engine, commands, turn.cancel, prompt).await {
        Some(NotForModel::Command(command)) => {
            return match command::run(engine, turn, &*command).await {
                CommandEnd::Ended(reason) => reason,
                CommandEnd::AskModel => ask(engine, turn, check).await,
            };
        }
        Some(NotForModel::Unknown { name, answer }) => {
            return command::refuse(engine, name, answer);
        }
        None => {}
    }
    if let [PromptPart::Shell(command)] = prompt {
        return shell(engine, turn, command).await;
    }
    if let Err(reason) = engine.approvals.load_rules().await {
        return reason;
    }
    if consent::ask(engine, turn.cancel).await && turn.cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    if resources::read(engine, turn, prompt).await && turn.cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    if mention::read(engine, turn, prompt).await && turn.cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    ask(engine, turn, check).await
}

/// Runs a command line that the user typed. The model is told of the command line with the next prompt.
async fn shell(engine: &Engine, turn: CurrentTurn<'_>, command: &str) -> StopReason {
    let call = Call {
        id: String::new(),
        name: "run_shell_command".to_owned(),
        args: json!({ "command": command }),
    };
    call::run_for_prompt(engine, turn, engine.calls.with_unique_id(call)).await;
    if turn.cancel.is_cancelled() {
        return StopReason::Cancelled { answering: false };
    }
    StopReason::EndTurn
}

/// Asks the model and runs the calls that it requests, until an answer requests none and fits the schema of the prompt,
/// or a limit, a failure or a loop ends the turn.
async fn ask(engine: &Engine, turn: CurrentTurn<'_>, mut check: AnswerCheck) -> StopReason {
    let cancel = turn.cancel;
    if let Err(reason) = engine.approvals.load_rules().await {
        return reason;
    }
    // The instructions depend on the model.
    match cancel.run_until_cancelled(engine.choose_server_model()).await {
        None => return StopReason::Cancelled { answering: true },
        Some(Err(error)) => return StopReason::Failed(error),
        Some(Ok(())) => {}
    }
    engine.agents.start();
    engine.servers.settled(cancel).await;
    let Some(mut system) = cancel.run_until_cancelled(instruct(engine)).await else {
        return StopReason::Cancelled { answering: true };
    };
    let mut loops = LoopDetector::new(engine);
    for _ in 0..engine.max_rounds {
        if let Some(most) = engine.max_session_rounds
            && engine.transcript.lock().answers() >= most
        {
            return StopReason::MaxSessionRounds(most);
        }
        let found = match answer(engine, &mut system, check.schema(), &mut loops, cancel).await {
            None => return StopReason::Cancelled { answering: true },
            Some(Err(model::Error::Refused(why))) => return StopReason::Refused(why),
            Some(Err(error)) => return StopReason::Failed(error),
            Some(Ok(ModelAnswer::Looping(found))) => Some(found),
            Some(Ok(ModelAnswer::Whole(calls, FinishReason::Stop))) if calls.is_empty() => {
                match check.conclude(engine).await {
                    Some(reason) => return reason,
                    None => None,
                }
            }
            Some(Ok(ModelAnswer::Whole(calls, reason))) if calls.is_empty() => {
                return stop_reason(reason);
            }
            Some(Ok(ModelAnswer::Whole(calls, _))) => {
                let since = engine.log.len();
                call::run_all(engine, turn, calls.clone()).await;
                if cancel.is_cancelled() {
                    return StopReason::Cancelled { answering: false };
                }
                loops.calls(engine, &calls, since)
            }
        };
        if let Some(found) = found
            && let Some(reason) = loops.handle_loop(engine, found, cancel).await
        {
            return reason;
        }
    }
    StopReason::MaxRounds(engine.max_rounds)
}

/// Returns the stop reason of a turn whose last answer requests no calls.
fn stop_reason(reason: FinishReason) -> StopReason {
    match reason {
        FinishReason::Stop => StopReason::EndTurn,
        FinishReason::MaxTokens => StopReason::MaxTokens,
        FinishReason::Refused(why) => StopReason::Refused(why),
    }
}

/// Asks the model for one answer. Compresses the conversation first if it is too long, or if a summary of it has been
/// made in the background. If the model reports that the conversation is too long, compresses it further and asks
/// again. Returns `None` if the turn is cancelled.
async fn answer(
    engine: &Engine,
    system: &mut Arc<str>,
    schema: Option<Arc<AnswerSchema>>,
    loops: &mut LoopDetector,
    cancel: &CancellationToken,
) -> Option<Result<ModelAnswer, model::Error>> {
    tell_surroundings(engine).await;
    if compress::if_needed(engine, cancel).await {
        *system = instruct(engine).await;
    }
    let mut tried = 0;
    loop {
        let span = spans::chat(&engine.model.id());
        let asking = ask_model(engine, Arc::clone(system), schema.clone(), loops);
        let asking = asking.inspect_err(|_| spans::failed()).instrument(span);
        let answer = cancel.run_until_cancelled(asking).await?;
        let is_too_long = matches!(answer, Err(model::Error::ContextTooLong(_)));
        if !is_too_long || !compress::as_needed(engine, &mut tried, cancel).await? {
            return Some(answer);
        }
        *system = instruct(engine).await;
    }
}

/// An answer of the model.
enum ModelAnswer {
    /// A whole answer: the calls that the model requests, and the reason why the answer ended.
    Whole(Vec<Call>, FinishReason),
    /// Part of an answer, which was cut off because the model only repeated itself.
    Looping(Loop),
}

/// Streams one answer of the model into the log. The caller runs the calls of the answer.
async fn ask_model(
    engine: &Engine,
    system: Arc<str>,
    answer_schema: Option<Arc<AnswerSchema>>,
    loops: &mut LoopDetector,
) -> Result<ModelAnswer, model::Error> {
    engine.servers.hub.wait_list_changes().await;
    let prompt = Prompt {
        system,
        messages: engine.conversation(|conversation| conversation.messages().to_vec()),
        tools: engine.tools.declarations(&*engine.model.get()),
        thinking: engine.thinking(),
        answer_schema,
    };
    spans::chat_asked(&prompt);
    let mut chunks = engine.model.get().stream(prompt);
    let (mut said, mut calls) = (String::new(), Vec::new());
    loops.begin_answer();
    while let Some(chunk) = chunks.next().await {
        let found = match chunk? {
            Chunk::Text(text) => {
                let found = loops.says(&text);
                if tandem_trace::records_content() {
                    said.push_str(&text);
                }
                engine.log.append(Event::Text(text));
                found
            }
            Chunk::Thought(text) => {
                let found = loops.thinks(&text);
                engine.log.append(Event::Thought(text));
                found
            }
            Chunk::Call(call) => {
                calls.push(engine.calls.with_unique_id(call));
                None
            }
            Chunk::Retry(retry) => {
                if retry.discard {
                    said.clear();
                    calls.clear();
                    loops.begin_answer();
                }
                engine.log.append(Event::Retry(retry));
                None
            }
            Chunk::Finish(finish) => return Ok(finished(engine, &said, calls, finish)),
        };
        engine.transcript.lock().catch_up();
        if let Some(found) = found {
            // The calls of this answer are dropped: the model has requested them while it repeated itself.
            finished(engine, &said, Vec::new(), Finish::default());
            return Ok(ModelAnswer::Looping(found));
        }
    }
    Err(model::Error::BadAnswer("the model's answer ended before it was whole".to_owned()))
}

/// Logs the end of an answer.
fn finished(engine: &Engine, said: &str, calls: Vec<Call>, finish: Finish) -> ModelAnswer {
    spans::chat_ended(said, &calls, &finish);
    let Finish { reason, usage, native } = finish;
    engine.log.append(Event::AnswerFinished {
        calls: calls.clone(),
        reason: reason.clone(),
        usage,
        native,
    });
    ModelAnswer::Whole(calls, reason)
}
