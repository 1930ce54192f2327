//! Answers that are worth nothing, and what a model is told when it is asked again.

/// Why the model is asked again, and with which words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Again {
    pub(super) reason: &'static str,
    /// Added to the last message of the user.
    pub(super) nudge: Option<&'static str>,
    /// If that does not help.
    pub(super) error: &'static str,
}

pub(super) const THOUGHT_ONLY: Again = Again {
    reason: "the model only thought",
    nudge: Some(
        "[System: You previously generated thoughts but failed to give an answer. Answer now, or \
         call a tool.]",
    ),
    error: "The model thought, but gave no answer, several times in a row. Say it another way, or \
            try another model.",
};

pub(super) const EMPTY: Again = Again {
    reason: "the answer was empty",
    nudge: Some("[System: Your previous answer was empty. Answer now, or call a tool.]"),
    error: "The model gave empty answers several times in a row. Say it another way, or try \
            another model.",
};

pub(super) const MALFORMED: Again = Again {
    reason: "the model's call was malformed",
    nudge: Some(
        "[System: Your previous answer was dropped, because its function call was malformed. Call \
         only the declared functions, with arguments that fit their schemas.]",
    ),
    error: "The model made malformed calls several times in a row. Say it another way, or try \
            another model.",
};

pub(super) const CUT_OFF: Again = Again {
    reason: "the answer was cut off",
    nudge: None,
    error: "The model's answer was cut off several times in a row. Try again later, or try \
            another model.",
};
