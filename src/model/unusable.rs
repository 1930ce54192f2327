//! Kinds of unusable answers, and the texts that the model reads when it is asked again.

/// An answer that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnusableAnswer {
    /// Reason for the retry, in a few words.
    pub(super) reason: &'static str,
    /// Text for the model, added after the last message of the user.
    pub(super) nudge: Option<&'static str>,
    /// Error for people if no retry is left.
    pub(super) error: &'static str,
}

pub(super) const THOUGHT_ONLY: UnusableAnswer = UnusableAnswer {
    reason: "reasoning without an answer",
    nudge: Some(
        "[System: You previously generated thoughts but failed to give an answer. Answer now, or \
         call a tool.]",
    ),
    error: "The model reasoned without an answer several times in a row. Rephrase the prompt, or try another model.",
};

pub(super) const EMPTY_ANSWER: UnusableAnswer = UnusableAnswer {
    reason: "empty answer",
    nudge: Some("[System: Your previous answer was empty. Answer now, or call a tool.]"),
    error: "The model gave empty answers several times in a row. Rephrase the prompt, or try another model.",
};

pub(super) const MALFORMED_CALL: UnusableAnswer = UnusableAnswer {
    reason: "malformed tool call",
    nudge: Some(
        "[System: Your previous answer was dropped, because its function call was malformed. Call \
         only the declared functions, with arguments that fit their schemas.]",
    ),
    error: "The model made malformed calls several times in a row. Rephrase the prompt, or try another model.",
};

pub(super) const CUT_OFF: UnusableAnswer = UnusableAnswer {
    reason: "answer cut off",
    nudge: None,
    error: "The model's answer was cut off several times in a row. Try again later, or try \
            another model.",
};

pub(super) const CUT_CALL: UnusableAnswer = UnusableAnswer {
    reason: "tool call cut at the output limit",
    nudge: Some(
        "[System: Your previous answer was dropped, because it reached the output limit within a \
         function call. Write less at a time: a long file in several parts.]",
    ),
    error: "The model reached its output limit within a call several times in a row. Ask for less \
            at a time, or try another model.",
};
