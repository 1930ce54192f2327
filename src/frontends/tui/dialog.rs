//! A question on the screen: its choices, and the user's progress with the answer.

use std::cell::Cell;
use std::sync::Arc;

use super::input::TextInput;
use super::layout::QuestionRows;
use super::memo::Memo;
use tandem_agent::session::{
    Answer, CallStarted, Choice, ChoiceKind, InputOption, InputQuestion, Millis, Question,
};

/// Grace period in milliseconds after a question appears, during which keys still reach the line: the user has not read
/// the question yet and must not answer it by mistake.
const QUESTION_GRACE: Millis = 600;

/// Key of the answer "no".
pub(super) const NO_KEY: char = 'n';

/// An open question.
#[derive(Debug, Clone)]
pub(super) struct Dialog {
    pub(super) started: Arc<CallStarted>,
    /// Time at which the question appeared.
    opened: Millis,
    /// Index of the marked choice.
    pub(super) selected: usize,
    /// Number of content rows above the first visible row.
    pub(super) scroll: usize,
    /// Rows of the question's content, cached for a number of columns. The flag: the rows include the reason and the
    /// choices.
    pub(super) content: Memo<(usize, bool), QuestionRows>,
    /// Rows of the content without the lines far from a change, cached for a number of columns.
    pub(super) compact: Memo<usize, QuestionRows>,
    /// Numbers of content rows at the last drawing.
    pub(super) window: Cell<VisibleRows>,
    /// `true` if the question is shown on the whole screen.
    pub(super) reading: bool,
    /// Sentence that explains a rejection, or that answers a question of the model, while the user types it.
    pub(super) saying: Option<TextInput>,
    /// Answers so far to the questions that the call asks.
    pub(super) answers: Vec<String>,
}

/// Numbers of rows of a question's content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VisibleRows {
    /// Number of content rows on the screen.
    pub(super) shown: usize,
    /// Number of all content rows.
    pub(super) total: usize,
}

/// A movement through the rows of a question's content.
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
    /// The answer is given at once.
    Answer(Answer),
    /// The user types a sentence first: the reason of a rejection, or the answer to a question of the model.
    Say,
    /// The question of the model is answered with this text. An empty text leaves the question out.
    Reply(String),
    /// The user edits the proposed text first.
    Edit,
}

impl Dialog {
    /// Creates a question that appears at the time `opened`.
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
            answers: Vec::new(),
        }
    }

    /// Scrolls the content. A page has as many rows as the screen shows.
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

    /// Returns the id of the call that the question is about.
    pub(super) fn call(&self) -> &str {
        &self.started.call.id
    }

    /// Returns whether the grace period is over, so that keys go to the question.
    pub(super) fn ready(&self, now: Millis) -> bool {
        now - self.opened >= QUESTION_GRACE
    }

    /// Restarts the grace period, because the question appears only now.
    pub(super) fn shown_at(&mut self, now: Millis) {
        self.opened = now;
        self.reading = false;
    }

    /// Returns the question of the model that is to be answered next; `None` if the dialog is about a call.
    pub(super) fn input_question(&self) -> Option<&InputQuestion> {
        self.started.input_questions().get(self.answers.len())
    }

    /// Takes the answer to the question of the model, and goes on to the next question. Returns the answer to the call if
    /// the question was the last one. An empty text leaves the question out.
    pub(super) fn reply(&mut self, text: String, now: Millis) -> Option<Answer> {
        let answers = [self.answers.clone(), vec![text]].concat();
        if answers.len() == self.started.input_questions().len() {
            return Some(Answer::of_texts(answers));
        }
        self.go_on(answers, now);
        None
    }

    /// Goes on to the next question of the model, with the answers so far.
    pub(super) fn go_on(&mut self, answers: Vec<String>, now: Millis) {
        *self = Self { answers, ..Self::new(Arc::clone(&self.started), now) };
    }

    /// Returns the choices: key, meaning, and text for people.
    pub(super) fn choices(&self) -> Vec<(char, DialogChoice, String)> {
        let offered = self.started.question.iter().flat_map(Question::choices);
        let mut choices = self.input_question().map(replies).unwrap_or_default();
        let mut scopes = '2'..='9';
        for Choice { kind, answer, label } in offered {
            let key = match kind {
                // The first choice always allows. A question about a folder's programs has no `AllowOnce`, because its
                // yes is stored.
                _ if choices.is_empty() => Some('y'),
                ChoiceKind::AllowOnce => Some('y'),
                ChoiceKind::AllowAlways if choices.len() == 1 => Some('a'),
                ChoiceKind::AllowAlways => scopes.next(),
                ChoiceKind::AllowAndSave => Some('p'),
                ChoiceKind::RejectOnce | ChoiceKind::RejectAndSave => Some(NO_KEY),
                ChoiceKind::RejectSaying => Some('s'),
            };
            let Some(key) = key else { continue };
            if key == NO_KEY && self.proposal().is_some() {
                let label = "Edit it first, in $EDITOR".to_owned();
                choices.push(('e', DialogChoice::Edit, label));
            }
            let choice = match kind {
                ChoiceKind::RejectSaying => DialogChoice::Say,
                // A rejection of the call would discard the answers to the questions before.
                ChoiceKind::RejectOnce if self.input_question().is_some() => {
                    DialogChoice::Reply(String::new())
                }
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

    /// Returns the choice that a keyboard key selects.
    pub(super) fn chosen(&self, key: char) -> Option<DialogChoice> {
        let mut choices = self.choices().into_iter();
        choices.find(|(known, ..)| *known == key).map(|(_, choice, _)| choice)
    }

    /// Returns the marked choice.
    pub(super) fn marked(&self) -> Option<DialogChoice> {
        self.choices().into_iter().nth(self.selected).map(|(_, choice, _)| choice)
    }

    /// Marks the next choice, or the previous choice.
    pub(super) fn select(&mut self, down: bool) {
        let count = self.choices().len();
        self.selected = (self.selected + if down { 1 } else { count - 1 }) % count;
    }

    /// Returns the path of the file that a call would change, and the text that the call would write, if the user can
    /// put another text in its place.
    pub(super) fn proposal(&self) -> Option<(&str, &str)> {
        let diff = self.started.editable()?;
        Some((&diff.path, &diff.new))
    }
}

/// Returns the choices of a question of the model: its options, and a text that the user types.
fn replies(question: &InputQuestion) -> Vec<(char, DialogChoice, String)> {
    let option = |(key, option): (char, &InputOption)| {
        let InputOption { label, description } = option;
        let text =
            if description.is_empty() { label.clone() } else { format!("{label}: {description}") };
        (key, DialogChoice::Reply(label.clone()), text)
    };
    let own = ('s', DialogChoice::Say, "Say it in your own words".to_owned());
    ('1'..='9').zip(&question.options).map(option).chain([own]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{Dialog, DialogChoice};
    use tandem_agent::session::{Answer, Question, QuestionSubject, Scope};

    /// Checks the keys of a question, and that its labels are those of every front end.
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
    fn a_question_of_the_model_shows_its_options_and_takes_a_text() {
        let mut dialog = asked_input();
        assert_eq!(dialog.keys(), "12sn");
        assert_eq!(dialog.chosen('2'), Some(DialogChoice::Reply("Blue".to_owned())));
        assert_eq!(dialog.input_question().unwrap().question, "a");
        assert_eq!(dialog.reply("Blue".to_owned(), 0), None);
        assert_eq!(dialog.input_question().unwrap().question, "b");
    }

    #[test]
    fn no_answer_to_one_question_keeps_the_answers_to_the_others() {
        let check = |keys: [char; 2], expected: &Answer| {
            let mut dialog = asked_input();
            let answers = keys.map(|key| match dialog.chosen(key) {
                Some(DialogChoice::Reply(text)) => dialog.reply(text, 0),
                choice => panic!("{key}: {choice:?}"),
            });
            assert_eq!(answers, [None, Some(expected.clone())]);
        };
        let input = |texts: [&str; 2]| Answer::Input(texts.map(ToOwned::to_owned).into());
        check(['2', 'n'], &input(["Blue", ""]));
        check(['n', '1'], &input(["", "Red"]));
        check(['n', 'n'], &Answer::Reject);
    }

    /// Returns the dialog of a call by which the model asks two questions.
    fn asked_input() -> Dialog {
        let options = json!([{ "label": "Red", "description": "Warm" }, { "label": "Blue" }]);
        let questions = json!([
            { "question": "a", "options": options }, { "question": "b", "options": options }
        ]);
        let started = json!({
            "call": { "id": "1", "name": "x", "args": {} }, "caller": "Model", "kind": "Other",
            "summary": { "label": "x", "locations": [], "diff": null },
            "access": { "UserInput": { "questions": questions } },
            "question": Question { subject: QuestionSubject::UserInput, ..Question::default() },
        });
        let started = serde_json::from_value(started).unwrap();
        Dialog::new(Arc::new(started), 0)
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
