//! Judges answers that have ended.

use super::answer::{AnswerEnd, ResponsesAnswer};
use crate::request_loop::AnswerVerdict;
use crate::retry::{RequestFailure, RetryHint};
use crate::stream::broke_off;
use crate::unusable::{CUT_CALL, EMPTY_ANSWER, MALFORMED_CALL, THOUGHT_ONLY};
use crate::words::sentence;
use crate::{Error, FinishReason};

/// Judges an answer. After the results of calls, an empty answer is valid: the work is done.
pub(super) fn answer_verdict(answer: &ResponsesAnswer, after_results: bool) -> AnswerVerdict {
    match answer.end() {
        None => broke_off().into(),
        Some(AnswerEnd::Completed) => completed(answer, after_results),
        Some(AnswerEnd::Incomplete(reason)) => incomplete(answer, reason),
    }
}

fn completed(answer: &ResponsesAnswer, after_results: bool) -> AnswerVerdict {
    if answer.has_unsound_calls() {
        return AnswerVerdict::Unusable(MALFORMED_CALL);
    }
    if answer.has_calls() || answer.has_text() || after_results {
        return AnswerVerdict::Whole(FinishReason::Stop);
    }
    AnswerVerdict::Unusable(if answer.has_thoughts() { THOUGHT_ONLY } else { EMPTY_ANSWER })
}

fn incomplete(answer: &ResponsesAnswer, reason: &str) -> AnswerVerdict {
    match reason {
        // An incomplete call is left out; the text and the calls before it count.
        "max_output_tokens" if answer.has_calls() || answer.has_text() => {
            AnswerVerdict::Whole(FinishReason::MaxTokens)
        }
        "max_output_tokens" if answer.has_unsound_calls() => AnswerVerdict::Unusable(CUT_CALL),
        "max_output_tokens" => AnswerVerdict::terminal(Error::BadAnswer(
            "The model reached its output limit, or the end of its context, before it said \
             anything. Compress the conversation with /compress, or ask for less thinking."
                .to_owned(),
        )),
        "content_filter" => {
            let why = sentence("The answer was stopped by the provider's filter", reason, None);
            AnswerVerdict::Whole(FinishReason::Refused(format!("{why} Rephrase the prompt.")))
        }
        reason => {
            let why = sentence("The server gave up the answer", reason, None);
            let why = format!("{why} Try again later, or try another model.");
            let failure =
                RequestFailure::passing("answer given up by the server", Error::Unavailable(why));
            failure.advised(RetryHint::Soon).into()
        }
    }
}
