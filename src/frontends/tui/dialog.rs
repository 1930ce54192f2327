//! A question as it is asked on the screen: what can be answered, and how far the answer is.

use std::cell::Cell;
use std::sync::Arc;

use super::input::TextInput;
use super::layout::QuestionRows;
use super::memo::Memo;
use tandem_agent::session::{Access, Answer, CallStarted, Choice, ChoiceKind, Millis, Question};

/// For so long after a question has come up, keys still go where they went before: nobody answers
/// what they have not read.
const GRACE: Millis = 600;

/// Key of the answer "no".
pub(super) const NO: char = 'n';

/// A question that is open.
#[derive(Debug, Clone)]
pub(super) struct Dialog {
    pub(super) started: Arc<CallStarted>,
    /// Time at which it came up.
    opened: Millis,
    /// Index of the marked choice.
    pub(super) selected: usize,
    /// Number of content rows above those shown.
    pub(super) scroll: usize,
    /// The rows of what is asked about, for so many columns; with everything else that is said, or
    /// not.
    pub(super) content: Memo<(usize, bool), QuestionRows>,
    /// The same, without what is far from a change.
    pub(super) compact: Memo<usize, QuestionRows>,
    /// Number of these rows that the screen shows, and of those that there are.
    pub(super) window: Cell<VisibleRows>,
    /// `true` if the question has the whole screen.
    pub(super) reading: bool,
    /// The sentence that goes with a rejection, while it is typed.
    pub(super) saying: Option<TextInput>,
}

/// Numbers of rows of what is asked about: those shown, and all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VisibleRows {
    /// Rows on the screen.
    pub(super) shown: usize,
    /// Rows there are.
    pub(super) total: usize,
}

/// A way through the rows of what is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scroll {
    RowUp,
    RowDown,
    PageUp,
    PageDown,
    ToStart,
    ToEnd,
}

/// A choice of the dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DialogChoice {
    /// This answer.
    Answer(Answer),
    /// No, and why is typed now.
    Say,
    /// The proposed text is edited first.
    Edit,
}

impl Dialog {
    /// A question that comes up now.
    pub(super) fn new(started: Arc<CallStarted>, opened: Millis) -> Self {
        Self {
            started,
            opened,
            selected: 0,
            scroll: 0,
            content: Memo::default(),
            compact: Memo::default(),
            window: Cell::default(),
            reading: false,
            saying: None,
        }
    }

    /// Shows other rows of what is asked about: a page is as many as are on the screen.
    pub(super) fn scroll(&mut self, scroll: Scroll) {
        let VisibleRows { shown, total } = self.window.get();
        let last = total.saturating_sub(shown);
        let first = self.scroll.min(last);
        self.scroll = match scroll {
            Scroll::RowUp => first.saturating_sub(1),
            Scroll::RowDown => first + 1,
            Scroll::PageUp => first.saturating_sub(shown.max(1)),
            Scroll::PageDown => first + shown.max(1),
            Scroll::ToStart => 0,
            Scroll::ToEnd => last,
        };
        self.scroll = self.scroll.min(last);
    }

    /// The id of the call that is asked about.
    pub(super) fn call(&self) -> &str {
        &self.started.call.id
    }

    /// Returns whether keys go to the dialog.
    pub(super) fn ready(&self, now: Millis) -> bool {
        now - self.opened >= GRACE
    }

    /// Restarts the grace time: the question comes up now.
    pub(super) fn shown_at(&mut self, now: Millis) {
        self.opened = now;
        self.reading = false;
    }

    /// Returns the choices: key, meaning, and text for people.
    pub(super) fn choices(&self) -> Vec<(char, DialogChoice, String)> {
        let offered = self.started.question.iter().flat_map(Question::choices);
        let mut choices: Vec<(char, DialogChoice, String)> = Vec::new();
        let mut scopes = '2'..='9';
        for Choice { kind, answer, label } in offered {
            let key = match kind {
                // The first choice is a yes: of a folder's programs it is stored, and there is no `AllowOnce`.
                _ if choices.is_empty() => Some('y'),
                ChoiceKind::AllowOnce => Some('y'),
                ChoiceKind::AllowAlways if choices.len() == 1 => Some('a'),
                ChoiceKind::AllowAlways => scopes.next(),
                ChoiceKind::AllowAndSave => Some('p'),
                ChoiceKind::RejectOnce | ChoiceKind::RejectAndSave => Some(NO),
                ChoiceKind::RejectSaying => Some('s'),
            };
            let Some(key) = key else { continue };
            if key == NO && self.proposal().is_some() {
                let label = "Edit it first, in $EDITOR".to_owned();
                choices.push(('e', DialogChoice::Edit, label));
            }
            let choice = match kind {
                ChoiceKind::RejectSaying => DialogChoice::Say,
                _ => DialogChoice::Answer(answer),
            };
            choices.push((key, choice, label));
        }
        choices
    }

    /// Returns the keys of all choices.
    pub(super) fn keys(&self) -> String {
        self.choices().iter().map(|(key, ..)| *key).collect()
    }

    /// Returns the choice of a key.
    pub(super) fn chosen(&self, key: char) -> Option<DialogChoice> {
        let mut choices = self.choices().into_iter();
        choices.find(|(known, ..)| *known == key).map(|(_, choice, _)| choice)
    }

    /// Returns the marked choice.
    pub(super) fn marked(&self) -> Option<DialogChoice> {
        self.choices().into_iter().nth(self.selected).map(|(_, choice, _)| choice)
    }

    /// Marks the next choice, or the one before.
    pub(super) fn select(&mut self, down: bool) {
        let count = self.choices().len();
        self.selected = (self.selected + if down { 1 } else { count - 1 }) % count;
    }

    /// The text that a change of a file would write, and the file's name.
    pub(super) fn proposal(&self) -> Option<(&str, &str)> {
        let edits = matches!(self.started.access, Access::Edit { .. });
        let diff = self.started.summary.diff.as_ref().filter(|_| edits)?;
        Some((&diff.path, &diff.new))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::Dialog;
    use tandem_agent::session::{Question, QuestionSubject, Scope};

    /// Checks the keys of a question, whose labels are those that every front end shows.
    #[track_caller]
    fn check(question: &Question, keys: &str) {
        let labels: Vec<_> = question.choices().into_iter().map(|choice| choice.label).collect();
        let started = json!({
            "call": { "id": "1", "name": "x", "args": {} }, "caller": "Model", "kind": "Other",
            "summary": { "label": "x", "locations": [], "diff": null }, "access": "Nothing", "question": question,
        });
        let started = serde_json::from_value(started).unwrap();
        let choices = Dialog::new(Arc::new(started), 0).choices();
        let shown: Vec<_> = choices.iter().map(|(.., label)| label.clone()).collect();
        assert_eq!(shown, labels);
        assert_eq!(choices.iter().map(|(key, ..)| key).collect::<String>(), keys);
    }

    #[test]
    fn a_question_shows_the_answers_that_it_offers_each_with_a_key() {
        let scopes = vec![Scope::Edits, Scope::Tool("x".to_owned())];
        let call = Question { scopes, can_save: true, ..Question::default() };
        check(&call, "ya2pns");
        let subject = QuestionSubject::FolderPrograms;
        check(&Question { subject, ..Question::default() }, "yn");
        let subject = QuestionSubject::Repetition;
        check(
            &Question { subject, scopes: vec![Scope::Repetition], ..Question::default() },
            "yans",
        );
    }
}
