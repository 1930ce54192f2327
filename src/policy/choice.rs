//! The answers that a question offers, worded once for every front end.

use super::answer::{Answer, Decision};
use super::scope::Scope;
use super::verdict::{Question, QuestionSubject};

/// An answer that a question offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Effect of the answer, beyond the call that is asked about.
    pub kind: ChoiceKind,
    /// Answer to give. For [`ChoiceKind::RejectSaying`] the message is empty, and the user types it.
    pub answer: Answer,
    /// One line for people.
    pub label: String,
}

/// Effect of a choice, beyond the call that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceKind {
    /// Yes; the next question of the kind is asked again.
    AllowOnce,
    /// Yes, and for a scope as long as the session is open.
    AllowAlways,
    /// Yes, stored for later sessions.
    AllowAndSave,
    /// No; the next question of the kind is asked again.
    RejectOnce,
    /// No, with a message to the model; only for front ends where it can be typed.
    RejectSaying,
    /// No, stored for later sessions.
    RejectAndSave,
}

/// Words that answer a question, each with `true` if it is a yes.
const ANSWER_WORDS: &[(&str, bool)] = &[
    ("y", true),
    ("yes", true),
    ("ok", true),
    ("okay", true),
    ("approve", true),
    ("accept", true),
    ("allow", true),
    ("grant", true),
    ("go ahead", true),
    ("n", false),
    ("no", false),
    ("deny", false),
    ("reject", false),
];

/// Returns `true` for a word that is a yes to a question, and `false` for one that is a no.
pub fn plain_answer(word: &str) -> Option<bool> {
    ANSWER_WORDS.iter().find(|(known, _)| is_same_word(word, known)).map(|(_, is_yes)| *is_yes)
}

/// Returns `true` if two texts are the same in any case, and with any punctuation around them.
pub fn is_same_word(one: &str, other: &str) -> bool {
    let bare = |text: &str| text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    bare(one) == bare(other)
}

impl ChoiceKind {
    /// Returns whether the choice is a yes.
    pub fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways | Self::AllowAndSave)
    }

    /// Returns whether the answer outlasts the session.
    pub fn saves(self) -> bool {
        matches!(self, Self::AllowAndSave | Self::RejectAndSave)
    }
}

impl Choice {
    fn new(kind: ChoiceKind, answer: Answer, label: impl Into<String>) -> Self {
        Self { kind, answer, label: label.into() }
    }

    /// Returns the scope of an "always".
    pub fn scope(&self) -> Option<&Scope> {
        self.answer.decision().scope()
    }
}

impl Question {
    /// Returns the answers that the question offers: those that allow first, the narrowest of them at the
    /// beginning.
    pub fn choices(&self) -> Vec<Choice> {
        use ChoiceKind::{
            AllowAlways, AllowAndSave, AllowOnce, RejectAndSave, RejectOnce, RejectSaying,
        };
        let once = Answer::Once { edited: None };
        let (yes, no, say) = match self.subject {
            QuestionSubject::FolderPrograms => {
                return vec![
                    Choice::new(AllowAndSave, once, "Yes, run these programs from now on"),
                    Choice::new(RejectAndSave, Answer::Reject, "No, never run these programs"),
                ];
            }
            QuestionSubject::Call => ("Yes, this once", "No", SAY),
            QuestionSubject::Connection => {
                ("Yes, until this command ends", "No, not for this command", SAY)
            }
            QuestionSubject::Repetition => {
                ("Yes, go on", "No, end the turn", "No, and say how to go on instead")
            }
        };
        let always = self.scopes.iter().map(|scope| {
            let label = format!("Yes, and while this session is open: {scope}");
            Choice::new(AllowAlways, Answer::Always(scope.clone()), label)
        });
        let saved = self.to_save().map(|scope| {
            let label = format!("Yes, and for good in this folder: {scope}");
            Choice::new(AllowAndSave, Answer::AlwaysAndSave(scope.clone()), label)
        });
        let mut choices = vec![Choice::new(AllowOnce, once, yes)];
        choices.extend(always.chain(saved));
        choices.push(Choice::new(RejectOnce, Answer::Reject, no));
        choices.push(Choice::new(RejectSaying, Answer::RejectSaying(String::new()), say));
        choices
    }

    /// Returns whether an answer permits something in later sessions, too.
    pub fn is_permitted_for_good(&self, answer: &Answer) -> bool {
        let decision = answer.decision();
        match self.subject {
            QuestionSubject::FolderPrograms => decision.runs(),
            _ => matches!(decision, Decision::AlwaysAndSave(_)),
        }
    }
}

const SAY: &str = "No, and say why or what instead";
