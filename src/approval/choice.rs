//! The answers that a question offers, worded in one place for every front end.

use super::answer::{Answer, Decision};
use super::scope::Scope;
use super::verdict::{Question, QuestionSubject};

/// An answer that a question offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Effect of the answer beyond the call that is asked about.
    pub kind: ChoiceKind,
    /// Answer that the choice gives. For [`ChoiceKind::RejectSaying`] the message is empty, and the user types it.
    pub answer: Answer,
    /// Label for people, one line.
    pub label: String,
}

/// Effect of a choice beyond the call that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceKind {
    /// Yes to this call; the next call of the kind is asked about again.
    AllowOnce,
    /// Yes to this call, and to the calls of a scope while the session is open.
    AllowAlways,
    /// Yes, saved for later sessions: for the calls of a scope, or for the programs of a folder's settings.
    AllowAndSave,
    /// No to this call; the next call of the kind is asked about again.
    RejectOnce,
    /// No, with a message to the model; only for front ends where the user can type a message.
    RejectSaying,
    /// No, saved for later sessions.
    RejectAndSave,
}

/// Meaning of a phrase in the answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerPhrase {
    Yes,
    No,
    /// Agreement that is no answer by itself, and that contradicts a no: `do it`, `sure`.
    LikeYes,
    /// Polite phrase that is neither a yes nor a no: `please`, `thank you`.
    Filler,
}

/// Phrases that make up answers to questions. A phrase comes before the shorter phrases that it begins with, because
/// the first match counts.
const ANSWER_PHRASES: &[(&[&str], AnswerPhrase)] = {
    use AnswerPhrase::{Filler, LikeYes, No, Yes};
    &[
        (&["y"], Yes),
        (&["yes"], Yes),
        (&["ok"], Yes),
        (&["okay"], Yes),
        (&["approve"], Yes),
        (&["accept"], Yes),
        (&["allow"], Yes),
        (&["grant"], Yes),
        (&["go", "ahead"], Yes),
        (&["n"], No),
        (&["no"], No),
        (&["deny"], No),
        (&["reject"], No),
        (&["don't", "do", "it"], No),
        (&["don't"], No),
        (&["do", "not", "do", "it"], No),
        (&["do", "not"], No),
        (&["do", "it"], LikeYes),
        (&["sure"], LikeYes),
        (&["please"], Filler),
        (&["thanks"], Filler),
        (&["thank", "you"], Filler),
    ]
};

/// Returns `true` for a text that is a yes to a question, and `false` for a text that is a no; `None` if the text has
/// an unknown word, or words that contradict each other.
pub fn plain_answer(text: &str) -> Option<bool> {
    let words = answer_words(text)?;
    let mut rest: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut said = Vec::new();
    while !rest.is_empty() {
        let (phrase, meaning) = ANSWER_PHRASES.iter().find(|(it, _)| rest.starts_with(it))?;
        rest.drain(..phrase.len());
        said.push(*meaning);
    }
    let is_said = |meaning| said.contains(&meaning);
    match (is_said(AnswerPhrase::Yes), is_said(AnswerPhrase::No)) {
        (true, false) => Some(true),
        (false, true) if !is_said(AnswerPhrase::LikeYes) => Some(false),
        _ => None,
    }
}

/// Returns the words of a text in lower case, without the punctuation around them; `None` for a text with pictographs,
/// which may mean anything.
fn answer_words(text: &str) -> Option<Vec<String>> {
    let is_picture = |c: char| ('\u{2190}'..'\u{2c00}').contains(&c) || c >= '\u{1f000}';
    if text.contains(is_picture) {
        return None;
    }
    let text = text.to_lowercase().replace('\u{2019}', "'");
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let words = words.map(|word| word.trim_matches('\'')).filter(|word| !word.is_empty());
    Some(words.map(ToOwned::to_owned).collect())
}

/// Returns `true` if two texts are the same apart from case and from punctuation around them.
pub fn is_same_word(one: &str, other: &str) -> bool {
    let bare = |text: &str| text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    bare(one) == bare(other)
}

impl ChoiceKind {
    /// Returns whether the choice is a yes.
    pub fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways | Self::AllowAndSave)
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
    /// Returns the answers that the question offers: first those that allow, from the narrowest on.
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
            // The options are the call's own, and a text of the user's own is an answer, too.
            QuestionSubject::UserInput => {
                return vec![Choice::new(
                    RejectOnce,
                    Answer::Reject,
                    "No answer: the model decides",
                )];
            }
            QuestionSubject::Call => ("Yes, this once", "No", SAY_LABEL),
            QuestionSubject::Connection => {
                ("Yes, until this command ends", "No, not for this command", SAY_LABEL)
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

const SAY_LABEL: &str = "No, and say why or what instead";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: Option<bool>, texts: &[&str]) {
        for text in texts {
            assert_eq!(plain_answer(text), expected, "{text:?}");
        }
    }

    #[test]
    fn words_that_allow() {
        check(
            Some(true),
            &[
                "y",
                "yes",
                " YES\n",
                "Yes!",
                "ok",
                "OK.",
                "okay",
                "approve",
                "accept",
                "allow",
                "grant",
                "Go ahead!",
                "\"yes\"",
                "**yes**",
                "\u{201c}yes\u{201d}",
                "'yes'",
            ],
        );
    }

    #[test]
    fn words_that_deny() {
        check(Some(false), &["n", "no", "No!", "deny", " DENY ", "reject", "Reject.", "don't"]);
    }

    #[test]
    fn several_words_that_allow() {
        check(
            Some(true),
            &[
                "yes, go ahead!",
                "yes please",
                "Yes, please.",
                "please go ahead",
                "ok, do it",
                "OK, sure, do it!",
                "sure, go ahead",
                "ok thanks",
                "yes, thank you",
                "yes yes",
                "ok -- allow",
            ],
        );
    }

    #[test]
    fn several_words_that_deny() {
        check(
            Some(false),
            &[
                "no thanks",
                "No, thank you.",
                "no, don't",
                "no, don\u{2019}t",
                "no, do not do it",
                "please don't do it",
                "please do not",
                "no no",
                "reject, please",
            ],
        );
    }

    #[test]
    fn contradictions_are_no_answers() {
        check(
            None,
            &[
                "yes no",
                "yes/no",
                "y/n",
                "no, do it",
                "no, sure",
                "don't, sure",
                "no, go ahead",
                "do not go ahead",
                "don't allow",
                "ok, don't do it",
                "yes \u{1f44e}",
            ],
        );
    }

    #[test]
    fn other_words_are_no_answers() {
        check(
            None,
            &[
                "",
                "?",
                "please",
                "thanks",
                "thank you",
                "do it",
                "sure",
                "thank",
                "yes, but in b.txt",
                "no problem",
                "not ok",
                "go",
                "ahead go",
                "do",
                "yes 2",
                "yesplease",
                "proceed_once",
                "Yes, this once",
            ],
        );
    }
}
