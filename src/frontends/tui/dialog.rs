//! A question as it is asked on the screen: what can be answered, and how far the answer is.

use std::sync::Arc;

use ratatui::text::Line;

use super::input::Input;
use super::kept::Kept;
use crate::session::{Access, Answer, CallStarted, Millis, Question};

/// For so long after a question has come up, keys still go where they went before: nobody answers
/// what they have not read.
const GRACE: Millis = 600;

/// A question that is open.
#[derive(Debug, Clone)]
pub(super) struct Dialog {
    pub(super) started: Arc<CallStarted>,
    /// When it came up.
    opened: Millis,
    /// How long "always" holds, for people.
    until: &'static str,
    /// Which choice is marked.
    pub(super) selected: usize,
    /// How many rows of what is asked about are above those shown.
    pub(super) scroll: usize,
    /// The rows of what is asked about, for so many columns.
    pub(super) content: Kept<usize, Vec<Line<'static>>>,
    /// The sentence that goes with a rejection, while it is typed.
    pub(super) saying: Option<Input>,
}

/// What can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// This answer.
    Answer(Answer),
    /// No, and why is typed now.
    Say,
    /// The proposed text is edited first.
    Edit,
}

impl Dialog {
    /// A question of a session that is of this process, or `elsewhere`.
    pub(super) fn new(started: Arc<CallStarted>, opened: Millis, elsewhere: bool) -> Self {
        let until = if elsewhere { "the agent ends" } else { "I quit" };
        let content = Kept::default();
        Self { started, opened, until, selected: 0, scroll: 0, content, saying: None }
    }

    /// The id of the call that is asked about.
    pub(super) fn call(&self) -> &str {
        &self.started.call.id
    }

    /// Whether keys are for it.
    pub(super) fn ready(&self, now: Millis) -> bool {
        now - self.opened >= GRACE
    }

    /// It comes up now, not before.
    pub(super) fn shown_at(&mut self, now: Millis) {
        self.opened = now;
    }

    /// What can be chosen: a key, and what that is, for people.
    pub(super) fn choices(&self) -> Vec<(char, Choice, String)> {
        let once = Choice::Answer(Answer::Once { edited: None });
        let mut choices = vec![('y', once, "yes, this once".to_owned())];
        let scopes = self.started.question.iter().flat_map(|question| &question.scopes);
        for (at, scope) in scopes.take(8).enumerate() {
            let key = if at == 0 { 'a' } else { char::from(b'1' + u8::try_from(at).unwrap_or(8)) };
            let always = Choice::Answer(Answer::Always(scope.clone()));
            choices.push((key, always, format!("yes, and until {} {scope}", self.until)));
        }
        let saved = self.started.question.as_ref().and_then(Question::to_save);
        if let Some(scope) = saved {
            let always = Choice::Answer(Answer::AlwaysAndSave(scope.clone()));
            choices.push(('p', always, format!("yes, and for good in this folder {scope}")));
        }
        if self.proposal().is_some() {
            choices.push(('e', Choice::Edit, "edit it first, in $EDITOR".to_owned()));
        }
        choices.push(('n', Choice::Answer(Answer::Reject), "no".to_owned()));
        choices.push(('s', Choice::Say, "no, and say why or what instead".to_owned()));
        choices
    }

    /// What a key chooses.
    pub(super) fn chosen(&self, key: char) -> Option<Choice> {
        let mut choices = self.choices().into_iter();
        choices.find(|(known, ..)| *known == key).map(|(_, choice, _)| choice)
    }

    /// What is marked.
    pub(super) fn marked(&self) -> Option<Choice> {
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
