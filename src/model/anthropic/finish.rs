//! Judges answers that have ended.

use super::answer::AnthropicAnswer;
use super::wire::Stop;
use crate::request_loop::AnswerVerdict;
use crate::stream::broke_off;
use crate::unusable::{EMPTY_ANSWER, MALFORMED_CALL, THOUGHT_ONLY};
use crate::words::sentence;
use crate::{Error, FinishReason};

/// Judges an answer that has ended. After the results of calls, an empty answer is valid: the work is done.
pub(super) fn answer_verdict(answer: &mut AnthropicAnswer, after_results: bool) -> AnswerVerdict {
    let Some((reason, stop)) = answer.stop() else { return broke_off().into() };
    match reason {
        "refusal" => AnswerVerdict::Whole(FinishReason::Refused(refusal(stop))),
        "model_context_window_exceeded" => AnswerVerdict::terminal(Error::ContextTooLong(
            "The conversation has filled the context window. Compress it with /compress."
                .to_owned(),
        )),
        // The server has paused. A request with the answer so far makes it go on.
        "pause_turn" if !answer.has_calls() => {
            answer.go_on();
            AnswerVerdict::GoesOn
        }
        // An incomplete call is left out; the text and the calls before it count.
        "max_tokens" if answer.has_calls() || answer.has_text() => {
            AnswerVerdict::Whole(FinishReason::MaxTokens)
        }
        "max_tokens" if answer.has_unsound_calls() => AnswerVerdict::terminal(Error::BadAnswer(
            "The model reached its output limit within a call, which was not made. Ask for less \
             at once."
                .to_owned(),
        )),
        "max_tokens" => AnswerVerdict::terminal(Error::BadAnswer(
            "The model reached its output limit before it said anything. Compress the \
             conversation with /compress, or ask for less thinking."
                .to_owned(),
        )),
        _ if answer.has_unsound_calls() => AnswerVerdict::Unusable(MALFORMED_CALL),
        _ if answer.has_calls() || answer.has_text() || after_results => {
            AnswerVerdict::Whole(FinishReason::Stop)
        }
        _ if answer.has_thoughts() => AnswerVerdict::Unusable(THOUGHT_ONLY),
        _ => AnswerVerdict::Unusable(EMPTY_ANSWER),
    }
}

fn refusal(stop: &Stop) -> String {
    let details = stop.stop_details.as_ref();
    let category = details.and_then(|it| it.category.as_deref()).unwrap_or("refusal");
    let why = details.and_then(|it| it.explanation.as_deref());
    let why = sentence("The provider refused to answer", category, why);
    format!("{why} Rephrase the prompt.")
}
