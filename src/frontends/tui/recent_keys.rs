//! Keys that were pressed a moment ago, which decide the meaning of the next key.

use std::time::Duration;

use tokio::time::Instant;

use super::clock::now;
use super::keyboard::{Code, KeyPress};
use super::keys::{self, Focus};
use super::state::ScreenState;
use tandem_agent::session::TurnId;

/// Time after an answer within which the same key is not meant for the prompt.
const ANSWER_ECHO: Duration = Duration::from_millis(600);

/// Maximum time between two presses of Ctrl+C that quit, and between two of other keys that must be pressed twice.
const DOUBLE_PRESS_TIME: Duration = Duration::from_secs(2);

/// Keys that were pressed a moment ago, each with its time.
#[derive(Default)]
pub(super) struct RecentKeys {
    /// Time at which Ctrl+C was pressed last.
    interrupted: Option<Instant>,
    /// Last key and its time, if a question took the key: the same key again is meant for the next question.
    answered: Option<(KeyPress, Instant)>,
    /// Time at which Esc was pressed last where it had nothing to close or cancel.
    escaped: Option<Instant>,
    /// Turn of another client that the user began to cancel, and the time at which the user was asked to confirm that.
    confirming: Option<(TurnId, Instant)>,
}

impl RecentKeys {
    /// Notes that Ctrl+C is pressed. Returns `true` if it was pressed a moment ago, too.
    pub(super) fn interrupt(&mut self) -> bool {
        self.interrupted.replace(Instant::now()).is_some_and(is_recent)
    }

    /// Forgets that Ctrl+C was pressed.
    pub(super) fn forget_interrupt(&mut self) {
        self.interrupted = None;
    }

    /// Notes that Esc is pressed where it has nothing to close or cancel.
    pub(super) fn note_escape(&mut self) {
        self.escaped = Some(Instant::now());
    }

    /// Returns `true` if Esc was noted a moment ago, and forgets it.
    pub(super) fn take_escape(&mut self) -> bool {
        self.escaped.take().is_some_and(is_recent)
    }

    /// Notes that the user is asked to confirm the cancel of another client's turn.
    pub(super) fn ask_to_confirm(&mut self, turn: TurnId) {
        self.confirming = Some((turn, Instant::now()));
    }

    /// Returns `true` if the user was asked a moment ago to confirm the cancel of this turn, and forgets that.
    pub(super) fn take_confirmed(&mut self, turn: TurnId) -> bool {
        self.confirming.take().is_some_and(|(asked, at)| asked == turn && is_recent(at))
    }

    /// Notes a key. Returns the reason to drop the key, if there is one: the user pressed it for a question that is
    /// answered already. The next question has not been read yet, and a key in the line would become part of the
    /// prompt.
    pub(super) fn drop_reason(
        &mut self,
        key: KeyPress,
        focus: Focus,
        state: &ScreenState,
    ) -> Option<&'static str> {
        let answers = match focus {
            Focus::Question | Focus::Reader => true,
            Focus::Saying => key.code == Code::Enter,
            _ => false,
        };
        let before = self.answered.take();
        self.answered = answers.then(|| (key, Instant::now()));
        let reason = drop_reason(key, focus, before, state)?;
        // A held key repeats, so its time is renewed: each repetition is dropped until the user lets the key go.
        self.answered = before.map(|(pressed, _)| (pressed, Instant::now()));
        Some(reason)
    }
}

fn is_recent(at: Instant) -> bool {
    at.elapsed() < DOUBLE_PRESS_TIME
}

/// Returns the reason to drop a key, if there is one. `answered`: the previous key and its time, if a question took it.
fn drop_reason(
    key: KeyPress,
    focus: Focus,
    answered: Option<(KeyPress, Instant)>,
    state: &ScreenState,
) -> Option<&'static str> {
    if !matches!(focus, Focus::Input { empty: true, .. }) {
        return None;
    }
    let is_new = "the key was ignored: the question is new; answer after half a second";
    if let Some(dialog) = state.questions.shown() {
        let answers = answered.is_some() && keys::is_for_question(key, &dialog.keys());
        return answers.then_some(is_new);
    }
    if let Some(offer) = state.offer.as_ref().filter(|it| it.has_just_changed(now())) {
        return keys::is_for_question(key, &offer.keys()).then_some(is_new);
    }
    let (pressed, at) = answered?;
    (key == pressed && at.elapsed() < ANSWER_ECHO)
        .then_some("the key was ignored: it came right after the question was answered")
}
