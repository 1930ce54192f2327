//! Room in a model's context window: whether a request fits, and how long an answer may be.

use super::report::Report;
use super::retry::{AttemptFailure, RequestFailure};
use super::tokens;
use super::{Error, Prompt};

/// Minimum limit of an answer in tokens. If there is less room, no limit is sent, and the server decides.
const MIN_ANSWER_TOKENS: u64 = 1024;

/// Advice on how to get a larger window from each server.
const LARGER_WINDOW: &str = "Start the server with a larger context window (`--ctx-size` of llama.cpp, \
    `--max-model-len` of vLLM, OLLAMA_CONTEXT_LENGTH or `inputTokens` in `models.json` for Ollama, the context \
    length of LM Studio), or choose another model.";

/// Refuses a prompt whose instructions and tools alone are larger than the context window.
pub(super) fn check(window: Option<u64>, prompt: &Prompt) -> Result<(), Error> {
    let fixed = of_instructions(prompt);
    match window {
        Some(window) if window < fixed => Err(Error::Rejected(format!(
            "The model's context window of {window} tokens is too small: instructions and tools \
             alone take about {fixed}. {LARGER_WINDOW}"
        ))),
        _ => Ok(()),
    }
}

/// Replaces the error for a conversation that is too long, if the conversation has less than half as many tokens as
/// instructions and tools: compressing it would not help then.
pub(super) fn explain(trouble: AttemptFailure, report: &Report, prompt: &Prompt) -> AttemptFailure {
    let fixed = of_instructions(prompt);
    let is_short = tokens::of_prompt(prompt) - fixed < fixed / 2;
    match trouble {
        AttemptFailure::Failed(RequestFailure { error: Error::ContextTooLong(_), .. })
            if is_short =>
        {
            let what = format!(
                "The model's context window is too small: instructions and tools alone take about \
                 {fixed} tokens. {LARGER_WINDOW}"
            );
            RequestFailure::terminal(Error::Rejected(report.with_message(&what))).into()
        }
        trouble => trouble,
    }
}

/// Returns the limit in tokens of an answer, for a server that would otherwise let a model repeat
/// itself until its window is full; `None` if the window is unknown or nearly full.
pub(super) fn of_answer(window: Option<u64>, prompt: &Prompt) -> Option<u64> {
    let window = window?;
    // Code can need a third more tokens than the estimate, and vLLM refuses a request whose prompt and limit
    // exceed the window.
    let prompt = tokens::of_prompt(prompt).saturating_mul(4) / 3;
    let room = window.checked_sub(prompt)?.min(window / 2);
    (room >= MIN_ANSWER_TOKENS).then_some(room)
}

/// Estimates the tokens of a prompt's instructions and tools, which do not depend on the conversation.
fn of_instructions(prompt: &Prompt) -> u64 {
    let tools = prompt.tools.iter().map(tokens::of_tool).sum::<u64>();
    tokens::of_text(&prompt.system) + tools
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Message, Part};

    /// Returns a prompt with this many tokens of instructions and of conversation.
    fn prompt(instructions: usize, conversation: usize) -> Prompt {
        let text = "a".repeat(conversation * 4);
        Prompt {
            system: "a".repeat(instructions * 4).into(),
            messages: vec![Arc::new(Message::User(vec![Part::Text(text)]))],
            tools: [].into(),
            thinking: None,
            answer_schema: None,
        }
    }

    #[test]
    fn a_window_that_instructions_alone_fill_is_refused() {
        let prompt = prompt(8000, 100_000);
        assert!(check(Some(7999), &prompt).is_err());
        assert!(check(Some(8000), &prompt).is_ok() && check(None, &prompt).is_ok());
    }

    #[test]
    fn a_request_is_too_large_by_its_instructions_if_little_has_been_said() {
        let kind = |conversation| {
            let failure = RequestFailure::terminal(Error::ContextTooLong(String::new()));
            let prompt = prompt(8000, conversation);
            explain(failure.into(), &Report::default(), &prompt).into_error()
        };
        assert!(matches!(kind(3999), Error::Rejected(_)));
        assert!(matches!(kind(4000), Error::ContextTooLong(_)));
    }

    #[test]
    fn an_answer_has_half_of_the_window_or_the_room_that_is_left() {
        assert_eq!(of_answer(None, &prompt(3000, 0)), None);
        assert_eq!(of_answer(Some(32_000), &prompt(3000, 0)), Some(16_000));
        assert_eq!(of_answer(Some(32_000), &prompt(3000, 12_000)), Some(12_000));
        assert_eq!(of_answer(Some(32_000), &prompt(3000, 21_000)), None);
        assert_eq!(of_answer(Some(32_000), &prompt(3000, 90_000)), None);
    }
}
