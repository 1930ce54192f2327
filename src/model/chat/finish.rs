//! Judges answers that have ended.

use super::answer::ChatAnswer;
use super::calls::Malformed;
use crate::request_loop::AnswerVerdict;
use crate::retry::{RequestFailure, RetryHint};
use crate::unusable::{CUT_CALL, CUT_OFF, EMPTY_ANSWER, MALFORMED_CALL, THOUGHT_ONLY};
use crate::words::sentence;
use crate::{Error, FinishReason};

/// Judges an answer. After the results of calls, an empty answer is valid: the work is done.
pub(crate) fn answer_verdict(answer: &ChatAnswer, after_results: bool) -> AnswerVerdict {
    let reason = answer.finish().unwrap_or_default();
    if !answer.calls().is_empty() {
        return with_calls(answer, reason);
    }
    match reason {
        "" if !answer.is_over() || !answer.has_text() => AnswerVerdict::Unusable(CUT_OFF),
        "length" | "max_tokens" | "model_length" if answer.has_text() => {
            AnswerVerdict::Whole(FinishReason::MaxTokens)
        }
        "length" | "max_tokens" | "model_length" => AnswerVerdict::terminal(Error::BadAnswer(
            "The model reached its output limit, or the end of its context, before it said \
             anything. Compress the conversation with /compress, or ask for less thinking."
                .to_owned(),
        )),
        "content_filter" => {
            let why = "The answer was stopped by the provider's filter";
            let why = format!("{} Rephrase the prompt.", sentence(why, reason, None));
            AnswerVerdict::Whole(FinishReason::Refused(why))
        }
        "error" | "insufficient_system_resource" | "abort" | "cancelled" => {
            let why = sentence("The server gave up the answer", reason, None);
            let why = format!("{why} Try again later, or try another model.");
            let failure =
                RequestFailure::passing("answer given up by the server", Error::Unavailable(why));
            failure.advised(RetryHint::Soon).into()
        }
        _ => without_calls(answer, reason, after_results),
    }
}

fn with_calls(answer: &ChatAnswer, reason: &str) -> AnswerVerdict {
    let limit = matches!(reason, "length" | "max_tokens" | "model_length");
    // Some servers send neither a reason nor the last event after calls.
    let ended = !reason.is_empty() || answer.is_over() || answer.calls().are_whole();
    match answer.calls().finish() {
        Ok(_) if !ended => AnswerVerdict::Unusable(CUT_OFF),
        Ok(_) => AnswerVerdict::Whole(FinishReason::Stop),
        // The model gets results of the complete calls only, and can make the incomplete call again.
        Err(Malformed::Cut) if limit && answer.calls().has_whole() => {
            AnswerVerdict::Whole(FinishReason::MaxTokens)
        }
        Err(Malformed::Cut) if limit => AnswerVerdict::Unusable(CUT_CALL),
        Err(Malformed::Cut) if !ended => AnswerVerdict::Unusable(CUT_OFF),
        Err(_) => AnswerVerdict::Unusable(MALFORMED_CALL),
    }
}

/// Judges an answer without calls.
fn without_calls(answer: &ChatAnswer, reason: &str, after_results: bool) -> AnswerVerdict {
    if matches!(reason, "tool_calls" | "function_call") && !answer.has_text() {
        return AnswerVerdict::Unusable(MALFORMED_CALL);
    }
    if answer.has_text() || after_results {
        return AnswerVerdict::Whole(FinishReason::Stop);
    }
    AnswerVerdict::Unusable(if answer.has_thoughts() { THOUGHT_ONLY } else { EMPTY_ANSWER })
}
