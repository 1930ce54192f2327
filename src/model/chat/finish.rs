//! What an answer's end means: it is whole, it is asked for again, or it failed.

use super::answer::Answer;
use super::calls::{Malformed, Whole};
use super::spoken;
use crate::model::again::{Again, CUT_OFF, EMPTY, MALFORMED, THOUGHT_ONLY};
use crate::model::report::{LLAMA_CPP_FLAG, VLLM_FLAG};
use crate::model::retry::{Advice, Failure};
use crate::model::words::sentence;
use crate::model::{Error, FinishReason, ToolDeclaration};

/// What to do with an answer that has ended.
#[derive(Debug, PartialEq)]
pub(in crate::model) enum Verdict {
    /// It is whole, with these calls.
    Whole(FinishReason, Vec<Whole>),
    /// It is worthless; the model is asked again.
    Again(Again),
    /// The request failed after all.
    Failed(Failure),
}

/// What an answer answers.
#[derive(Clone, Copy)]
pub(in crate::model) struct Asked<'a> {
    pub(in crate::model) tools: &'a [ToolDeclaration],
    /// Whether the model was told last what came of its calls: then, saying nothing is an answer.
    pub(in crate::model) after_results: bool,
    /// Whether this server is known to make calls of what the model writes.
    pub(in crate::model) makes_calls: bool,
}

const CUT_CALL: Again = Again {
    reason: "the model's call was cut at its output limit",
    nudge: Some(
        "[System: Your previous answer was dropped, because it reached the output limit within a \
         function call. Write less at a time: a long file in several parts.]",
    ),
    error: "The model reached its output limit within a call several times in a row. Ask for less \
            at a time, or try another model.",
};

/// What to do with an answer.
pub(in crate::model) fn judge(answer: &Answer, asked: Asked<'_>) -> Verdict {
    let reason = answer.finish().unwrap_or_default();
    if !answer.calls().is_empty() {
        return with_calls(answer, reason);
    }
    match reason {
        "" if !answer.is_over() || !answer.has_text() => Verdict::Again(CUT_OFF),
        "length" | "max_tokens" | "model_length" if answer.has_text() => {
            Verdict::Whole(FinishReason::MaxTokens, Vec::new())
        }
        "length" | "max_tokens" | "model_length" => failed(Error::BadAnswer(
            "The model reached its output limit, or the end of its context, before it said \
             anything. Compress the conversation with /compress, or ask for less thinking."
                .to_owned(),
        )),
        "content_filter" => {
            let why = "The answer was stopped by the provider's filter";
            let why = format!("{} Say it another way.", sentence(why, reason, None));
            Verdict::Whole(FinishReason::Refused(why), Vec::new())
        }
        "error" | "insufficient_system_resource" | "abort" | "cancelled" => {
            let why = sentence("The server gave the answer up", reason, None);
            let failure = Failure::passing("the server gave up", Error::Unavailable(why));
            Verdict::Failed(failure.advised(Advice::Soon))
        }
        _ => said(answer, reason, asked),
    }
}

fn with_calls(answer: &Answer, reason: &str) -> Verdict {
    let limit = matches!(reason, "length" | "max_tokens" | "model_length");
    let ended = !reason.is_empty() || answer.is_over() || answer.calls().are_whole();
    match answer.calls().finish() {
        Ok(_) if !ended => Verdict::Again(CUT_OFF),
        Ok(calls) => Verdict::Whole(FinishReason::Stop, calls),
        Err(Malformed::Cut) if limit => Verdict::Again(CUT_CALL),
        Err(Malformed::Cut) if !ended => Verdict::Again(CUT_OFF),
        Err(_) => Verdict::Again(MALFORMED),
    }
}

/// An answer of text, or of nothing.
fn said(answer: &Answer, reason: &str, asked: Asked<'_>) -> Verdict {
    if matches!(reason, "tool_calls" | "function_call") && !answer.has_text() {
        return Verdict::Again(MALFORMED);
    }
    if let Some(tool) = spoken::called(answer.text(), asked.tools) {
        return if asked.makes_calls {
            // The server can do it: this time the model got it wrong.
            Verdict::Again(MALFORMED)
        } else {
            failed(Error::BadAnswer(not_a_call(tool)))
        };
    }
    if answer.has_text() || asked.after_results {
        return Verdict::Whole(FinishReason::Stop, Vec::new());
    }
    Verdict::Again(if answer.has_thoughts() { THOUGHT_ONLY } else { EMPTY })
}

fn failed(error: Error) -> Verdict {
    Verdict::Failed(Failure::terminal(error))
}

fn not_a_call(tool: &str) -> String {
    format!(
        "The model called `{tool}`, but its call came as text, which nothing can be done with. \
         The server is to blame. If it is vLLM: {VLLM_FLAG} If it is llama.cpp: {LLAMA_CPP_FLAG} \
         If it is Ollama, name the model as `ollama:MODEL`; any other may know the option, or the \
         model is too small to call tools."
    )
}
