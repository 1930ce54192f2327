//! What an answer's end means: it is whole, it goes on, it is asked for again, or it failed.

use super::answer::Answer;
use super::wire::Stop;
use crate::model::again::{Again, EMPTY, MALFORMED, THOUGHT_ONLY};
use crate::model::retry::Failure;
use crate::model::stream::broke_off;
use crate::model::words::sentence;
use crate::model::{Error, FinishReason};

/// What to do when the server has ended an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// It is whole.
    Whole(FinishReason),
    /// The server has made a pause: sent back as it is, the answer goes on.
    GoesOn,
    /// It is worthless; the model is asked again.
    Again(Again),
    /// It broke off, or that is all there will be.
    Failed(Failure),
}

/// What to do with an answer that has ended. After the results of calls, saying nothing is an
/// answer: the work is done.
pub(super) fn judge(answer: &Answer, after_results: bool) -> Verdict {
    let Some((reason, stop)) = answer.stop() else { return Verdict::Failed(broke_off()) };
    match reason {
        "refusal" => Verdict::Whole(FinishReason::Refused(refusal(stop))),
        "model_context_window_exceeded" => failed(Error::ContextTooLong(
            "The conversation has filled all that the model can take. Compress it with /compress."
                .to_owned(),
        )),
        "pause_turn" if !answer.has_calls() => Verdict::GoesOn,
        "max_tokens" if answer.has_calls() || answer.has_text() => {
            Verdict::Whole(FinishReason::MaxTokens)
        }
        "max_tokens" if answer.has_unsound_calls() => failed(Error::BadAnswer(
            "The model reached its output limit within a call, which was not made. Ask for less \
             at once."
                .to_owned(),
        )),
        "max_tokens" => failed(Error::BadAnswer(
            "The model reached its output limit before it said anything. Compress the \
             conversation with /compress, or ask for less thinking."
                .to_owned(),
        )),
        _ if answer.has_unsound_calls() => Verdict::Again(MALFORMED),
        _ if answer.has_calls() || answer.has_text() || after_results => {
            Verdict::Whole(FinishReason::Stop)
        }
        _ if answer.has_thoughts() => Verdict::Again(THOUGHT_ONLY),
        _ => Verdict::Again(EMPTY),
    }
}

fn failed(error: Error) -> Verdict {
    Verdict::Failed(Failure::terminal(error))
}

fn refusal(stop: &Stop) -> String {
    let details = stop.stop_details.as_ref();
    let category = details.and_then(|it| it.category.as_deref()).unwrap_or("refusal");
    let why = details.and_then(|it| it.explanation.as_deref());
    let why = sentence("The provider would not have this answered", category, why);
    format!("{why} Say it another way.")
}
