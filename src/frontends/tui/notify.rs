//! Ways to call a user who looks at another window: a bell, a notification (OSC 9), the window's title.
//!
//! The bell and the notification contain nothing that a model has written. The window's title contains the session's
//! title, which a model may have written, so its hidden characters are written out.

use super::state::{LongTurn, ScreenState};
use super::wrap::cut;
use tandem_agent::session::Millis;
use tandem_content::visible::visible_line;

/// Maximum age of an event that the user is called for, in milliseconds: older events happened before this terminal was
/// there.
pub(super) const MAX_EVENT_AGE: Millis = 5_000;

/// Maximum width of a title in columns.
const MAX_TITLE_COLUMNS: usize = 80;

/// Reason to call the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alert {
    /// A question waits for an answer.
    Question,
    /// A turn has ended that took long.
    TurnEnded,
}

/// Returns the bytes that call the user: a bell and, except on Linux's console, a notification.
pub(super) fn call(alert: Alert, workspace: &str, console: bool) -> String {
    if console {
        return "\x07".to_owned();
    }
    let what = match alert {
        Alert::Question => "a question waits for your answer",
        Alert::TurnEnded => "the turn has ended",
    };
    format!("\x07\x1b]9;tandem: {what} ({})\x1b\\", folder(workspace))
}

/// Returns the bytes that set the window's title.
pub(super) fn set_title(title: &str) -> String {
    format!("\x1b]2;{title}\x1b\\")
}

/// Returns the window's title: the session's state, and its directory.
pub(super) fn title(state: &ScreenState) -> String {
    let standing = if !state.questions.open.is_empty() {
        "? question - "
    } else if state.projection.running().is_some() {
        "… working - "
    } else if state.long_turn == LongTurn::Unseen {
        "✓ done - "
    } else {
        ""
    };
    let given = state.about.title.as_deref().map(|title| format!(": {}", visible_line(title)));
    let given = given.unwrap_or_default();
    cut(&format!("{standing}tandem - {}{given}", folder(&state.about.workspace)), MAX_TITLE_COLUMNS)
}

/// Returns the name of the directory, without characters that a terminal obeys.
fn folder(workspace: &str) -> String {
    let name = workspace.rsplit('/').find(|name| !name.is_empty()).unwrap_or("/");
    visible_line(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_bell_and_a_notification() {
        let called = call(Alert::Question, "~/src/project", false);
        let expected = "\x07\x1b]9;tandem: a question waits for your answer (project)\x1b\\";
        assert_eq!(called, expected);
        assert_eq!(call(Alert::TurnEnded, "/", true), "\x07");
    }

    #[test]
    fn a_directorys_name_cannot_command_the_terminal() {
        let called = call(Alert::TurnEnded, "~/a\x07\x1b]52;c;x\u{9c}b", false);
        let expected = "\x07\x1b]9;tandem: the turn has ended (a␇␛]52;c;x<U+009C>b)\x1b\\";
        assert_eq!(called, expected);
        let mut state = ScreenState::default();
        state.about.workspace = "~/a\x07\x1bb".to_owned();
        assert_eq!(title(&state), "tandem - a␇␛b");
        state.about.title = Some("the\x1bbug".to_owned());
        assert_eq!(title(&state), "tandem - a␇␛b: the␛bug");
    }
}
