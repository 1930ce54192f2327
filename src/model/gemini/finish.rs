//! Judges answers that have ended.

use super::answer::GeminiAnswer;
use crate::request_loop::AnswerVerdict;
use crate::stream::broke_off;
use crate::unusable::{CUT_OFF, EMPTY_ANSWER, MALFORMED_CALL, THOUGHT_ONLY, UnusableAnswer};
use crate::words::sentence;
use crate::{Error, FinishReason};

const TOO_MANY: UnusableAnswer = UnusableAnswer {
    reason: "too many tool calls at once",
    nudge: Some(
        "[System: Your previous answer was dropped, because it made too many function calls at \
         once. Make fewer at a time.]",
    ),
    error: "The model made too many calls at once several times in a row. Rephrase the prompt, or try another model.",
};

/// Text for the model about calls that were left out.
const LEFT_OUT: &str = "[Too many calls were made at once, and not all of them were \
    taken. Those that are still needed must be made again, fewer at a time.]";

/// Judges an answer that has ended. After the results of calls, an empty answer is valid: the work is done.
pub(super) fn answer_verdict(answer: &mut GeminiAnswer, after_results: bool) -> AnswerVerdict {
    let Some((reason, message)) = answer.finish() else {
        return match (answer.token(), answer.has_calls()) {
            (Some(_), _) => broke_off().into(),
            // Each call arrives complete, so it can be made although the end of the answer is missing.
            (None, true) => AnswerVerdict::Whole(FinishReason::Stop),
            (None, false) => AnswerVerdict::Unusable(CUT_OFF),
        };
    };
    match reason {
        "CONTINUATION" if answer.token().is_some() => {
            answer.go_on();
            AnswerVerdict::GoesOn
        }
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
            AnswerVerdict::Unusable(MALFORMED_CALL)
        }
        "TOO_MANY_TOOL_CALLS" if answer.has_calls() => {
            answer.note(LEFT_OUT);
            AnswerVerdict::Whole(FinishReason::Stop)
        }
        "TOO_MANY_TOOL_CALLS" => AnswerVerdict::Unusable(TOO_MANY),
        "MAX_TOKENS" | "CONTINUATION" if answer.has_calls() || answer.has_text() => {
            AnswerVerdict::Whole(FinishReason::MaxTokens)
        }
        "MAX_TOKENS" | "CONTINUATION" => AnswerVerdict::terminal(Error::BadAnswer(
            "The model reached its output limit before it said anything. Compress the \
             conversation with /compress, or ask for less thinking."
                .to_owned(),
        )),
        _ if answer.has_calls() => AnswerVerdict::Whole(FinishReason::Stop),
        "STOP" => stopped(answer, after_results),
        _ => ended(answer, reason, message),
    }
}

/// Returns the error if the server has missed signatures in the conversation.
pub(super) fn missing_signatures(answer: &GeminiAnswer) -> Option<Error> {
    let (reason, message) = answer.finish()?;
    let what = "The server missed signatures of the model's thoughts in the conversation";
    (reason == "MISSING_THOUGHT_SIGNATURE")
        .then(|| Error::Rejected(sentence(what, reason, Some(message))))
}

fn stopped(answer: &GeminiAnswer, after_results: bool) -> AnswerVerdict {
    if answer.has_text() || after_results {
        AnswerVerdict::Whole(FinishReason::Stop)
    } else if answer.has_thoughts() {
        AnswerVerdict::Unusable(THOUGHT_ONLY)
    } else {
        AnswerVerdict::Unusable(EMPTY_ANSWER)
    }
}

/// Judges an answer that the server stopped, or ended for an unknown reason.
fn ended(answer: &GeminiAnswer, reason: &str, message: &str) -> AnswerVerdict {
    let why = match reason {
        "SAFETY" => "The answer was stopped by the provider's safety filter",
        "PROHIBITED_CONTENT" | "BLOCKLIST" => "The answer was stopped for prohibited content",
        "SPII" => "The answer was stopped because it may hold sensitive personal data",
        "RECITATION" => "The answer was stopped because it repeats what others have published",
        "LANGUAGE" => "The answer was stopped because its language is not supported",
        "OTHER" => "The provider stopped the answer and does not say why",
        "NO_IMAGE" => "The model made no image",
        _ if reason.starts_with("IMAGE_") => "The provider would not make the image",
        // An answer with an unknown reason counts: dropping a good answer would be worse than using a bad one.
        _ if answer.has_text() => return AnswerVerdict::Whole(FinishReason::Stop),
        _ => "The provider ended the answer",
    };
    let why = sentence(why, reason, Some(message));
    AnswerVerdict::Whole(FinishReason::Refused(format!("{why} Rephrase the prompt.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Assemble as _;

    /// Returns an answer with these parts and this reason for its end.
    fn answer(parts: &str, reason: &str) -> GeminiAnswer {
        let mut answer = GeminiAnswer::new(10_000);
        let data = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},"finishReason":"{reason}",
            "finishMessage":"so"}}]}}"#
        );
        answer.add_event(data.as_bytes(), &mut Vec::new()).unwrap();
        answer
    }

    const TEXT: &str = r#"{"text":"hi"}"#;
    const THOUGHT: &str = r#"{"text":"hm","thought":true}"#;
    const CALL: &str = r#"{"text":"hi"},{"functionCall":{"name":"glob","args":{}}}"#;

    #[track_caller]
    fn check(parts: &str, reason: &str, expected: &AnswerVerdict) {
        assert_eq!(
            answer_verdict(&mut answer(parts, reason), false),
            *expected,
            "{parts} {reason}"
        );
    }

    fn whole(reason: FinishReason) -> AnswerVerdict {
        AnswerVerdict::Whole(reason)
    }

    fn is_refused(verdict: &AnswerVerdict) -> bool {
        matches!(verdict, AnswerVerdict::Whole(FinishReason::Refused(_)))
    }

    #[test]
    fn stop_ends_an_answer_that_says_something() {
        check(TEXT, "STOP", &whole(FinishReason::Stop));
        check(CALL, "STOP", &whole(FinishReason::Stop));
        check(THOUGHT, "STOP", &AnswerVerdict::Unusable(THOUGHT_ONLY));
        check("", "STOP", &AnswerVerdict::Unusable(EMPTY_ANSWER));
        check(r#"{"text":"\u200b <!-- x -->"}"#, "STOP", &AnswerVerdict::Unusable(EMPTY_ANSWER));
        check(
            r#"{"text":"","thoughtSignature":"x"}"#,
            "STOP",
            &AnswerVerdict::Unusable(EMPTY_ANSWER),
        );
        check(r#"{"text":"a","thoughtSignature":"x"}"#, "STOP", &whole(FinishReason::Stop));
    }

    #[test]
    fn after_results_nothing_is_an_answer() {
        for parts in ["", THOUGHT] {
            assert_eq!(answer_verdict(&mut answer(parts, "STOP"), true), whole(FinishReason::Stop));
        }
        assert_eq!(
            answer_verdict(&mut GeminiAnswer::new(1), true),
            AnswerVerdict::Unusable(CUT_OFF)
        );
    }

    #[test]
    fn an_answer_at_the_output_limit_is_cut() {
        check(TEXT, "MAX_TOKENS", &whole(FinishReason::MaxTokens));
        check(CALL, "MAX_TOKENS", &whole(FinishReason::MaxTokens));
        check(TEXT, "CONTINUATION", &whole(FinishReason::MaxTokens));
        assert!(matches!(
            answer_verdict(&mut answer(THOUGHT, "MAX_TOKENS"), false),
            AnswerVerdict::Failed(_)
        ));
    }

    #[test]
    fn calls_run_whatever_the_reason() {
        for reason in ["SAFETY", "OTHER", "RECITATION", "IMAGE_SAFETY", "NEW"] {
            check(CALL, reason, &whole(FinishReason::Stop));
        }
        let mut some = answer(CALL, "TOO_MANY_TOOL_CALLS");
        assert_eq!(answer_verdict(&mut some, false), whole(FinishReason::Stop));
        let native = some.into_native("m").unwrap();
        assert_eq!(native.parts.last().unwrap()["text"], LEFT_OUT);
        check("", "TOO_MANY_TOOL_CALLS", &AnswerVerdict::Unusable(TOO_MANY));
    }

    #[test]
    fn malformed_calls_are_asked_for_again() {
        for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
            for parts in ["", TEXT, CALL] {
                check(parts, reason, &AnswerVerdict::Unusable(MALFORMED_CALL));
            }
        }
    }

    #[test]
    fn what_the_provider_will_not_say_is_refused_with_its_reason() {
        let refusals = "SAFETY PROHIBITED_CONTENT BLOCKLIST SPII RECITATION LANGUAGE OTHER \
            IMAGE_SAFETY IMAGE_OTHER NO_IMAGE";
        for reason in refusals.split_whitespace() {
            for parts in ["", TEXT] {
                let verdict = answer_verdict(&mut answer(parts, reason), false);
                assert!(is_refused(&verdict), "{reason}: {verdict:?}");
                let said = format!("({reason}): so.");
                assert!(format!("{verdict:?}").contains(&said), "{verdict:?}");
            }
        }
        check(TEXT, "SOMETHING_NEW", &whole(FinishReason::Stop));
        assert!(is_refused(&answer_verdict(&mut answer("", "SOMETHING_NEW"), false)));
    }
}
