//! Answers of chat completions and Ollama's API: text, reasoning and calls, which each server
//! streams in its own way.

pub(super) mod answer;
pub(super) mod calls;
pub(super) mod echo;
pub(super) mod finish;
pub(super) mod schema;

mod scan;
mod spoken;
mod think;

use super::request_loop::{AnswerVerdict, follows_results};
use super::{Call, Chunk, Finish, FinishReason, Prompt, names};
use answer::ChatAnswer;
use calls::FinishedCall;
use echo::AnswerSource;

/// Judges an answer that has ended.
pub(super) fn answer_verdict(answer: &ChatAnswer, prompt: &Prompt) -> AnswerVerdict {
    finish::answer_verdict(answer, follows_results(prompt))
}

/// Ends a complete answer. Returns its calls, including calls that the server has left in the text.
pub(super) fn finish(
    answer: ChatAnswer,
    prompt: &Prompt,
    reason: FinishReason,
    source: AnswerSource<'_>,
) -> (Vec<Chunk>, Finish) {
    let calls = if answer.calls().is_empty() {
        spoken::calls(answer.text(), &prompt.tools)
    } else {
        answer.calls().whole()
    };
    let mut chunks = Vec::with_capacity(calls.len());
    let mut extras = Vec::with_capacity(calls.len());
    for FinishedCall { call, extra } in calls {
        extras.push(extra);
        let name = names::original(&call.name, &prompt.tools).to_owned();
        chunks.push(Chunk::Call(Call { name, ..call }));
    }
    let usage = answer.usage;
    let native = answer.into_native(source, extras);
    (chunks, Finish { reason, usage, native })
}
