//! What chat completions and Ollama's API share: text, reasoning and calls that servers stream
//! each in its own way, and what becomes of them.

pub(super) mod answer;
pub(super) mod calls;
pub(super) mod finish;
pub(super) mod native;
pub(super) mod schema;

mod scan;
mod spoken;
mod think;

use super::asking::Verdict;
use super::{Call, Chunk, Finish, Message, Prompt, names};
use answer::Answer;
use calls::Whole;

/// What to do with an answer that has ended; `made` tells whether the server is known to make calls
/// of what its models write, and is told if it is.
pub(super) fn judge<A>(
    mut answer: Answer,
    prompt: &Prompt,
    said_by: (&str, &str),
    made: &mut bool,
) -> Verdict<A> {
    let mut chunks = Vec::new();
    answer.end(&mut chunks);
    let after_results =
        matches!(prompt.messages.last().map(|last| &**last), Some(Message::Results(_)));
    let asked = finish::Asked { tools: &prompt.tools, after_results, makes_calls: *made };
    let (reason, calls) = match finish::judge(&answer, asked) {
        finish::Verdict::Whole(reason, calls) => (reason, calls),
        finish::Verdict::Again(again) => return Verdict::Again(again),
        finish::Verdict::Failed(failure) => return Verdict::Failed(failure),
    };
    *made |= !calls.is_empty();
    let mut extras = Vec::with_capacity(calls.len());
    for Whole { call, extra } in calls {
        extras.push(extra);
        let name = names::own(&call.name, &prompt.tools).to_owned();
        chunks.push(Chunk::Call(Call { name, ..call }));
    }
    let usage = answer.usage;
    let native = answer.into_native(said_by, extras);
    Verdict::Whole(chunks, Finish { reason, usage, native })
}
