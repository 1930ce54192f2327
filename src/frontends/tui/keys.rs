//! Meaning of each key, which depends on the part of the screen that has the focus.

use super::dialog::Scroll;
use super::input::Edit;
use super::keyboard::{Code, KeyPress};

/// The part of the screen that keys go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    /// The line in which the prompt is typed.
    Input {
        /// `true` if the text is empty.
        empty: bool,
        /// `true` while completions are offered.
        completing: bool,
    },
    /// A question about a call.
    Question,
    /// A question that is shown on the whole screen.
    Reader,
    /// The sentence that explains a rejection, while the user types it.
    Saying,
    /// The offer to log in.
    Offer,
    /// The line in which the user types a provider's key.
    Key,
    /// The choice among the stored sessions.
    Picker,
    /// The menu of earlier prompts.
    Rewind,
    /// The choice of a model, or of its level of thinking.
    Models,
    /// A login that waits for the check of a key or for the page in the browser.
    Waiting,
}

/// Meaning of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// Change the typed text, or move the cursor in it.
    Edit(Edit),
    /// Send the typed text, or take the marked choice.
    Enter,
    /// Go up by one: to the line above, the choice above, or an earlier prompt.
    Up,
    /// Go down by one.
    Down,
    /// Accept the marked completion, or offer completions; in the choice of sessions: switch between this directory and
    /// all.
    Complete,
    /// Close the open part of the screen, else cancel the turn; twice: offer the earlier prompts.
    Escape,
    /// Cancel the turn, or clear the line; twice: quit.
    Interrupt,
    Quit,
    Suspend,
    /// Search the earlier prompts; in the choice of sessions: search the texts of the sessions.
    Search,
    CycleMode,
    /// Show in full the newest item that is shortened.
    Unfold,
    /// Switch between full and short display of all items from now on.
    UnfoldAll,
    Help,
    /// Write the prompt in `$EDITOR`.
    Editor,
    Redraw,
    /// Take the choice with this key.
    Choose(char),
    /// Scroll the content of the question.
    Scroll(Scroll),
    /// Show the question on the whole screen, or no longer.
    Read,
}

/// All keys and their descriptions, for the help.
pub(super) const HELP_KEYS: &[(&str, &str)] = &[
    ("Enter", "send; while a turn runs: queue"),
    ("Shift+Enter, Ctrl+J", "new line; Alt+Enter and \\ before Enter do it too"),
    ("Esc", "cancel the turn; close what is open"),
    ("Esc Esc", "go back to before an earlier prompt"),
    ("Ctrl+C", "cancel, or clear; twice: quit"),
    ("Ctrl+D", "quit, when nothing is typed; if attached, always"),
    ("Shift+Tab", "next approval mode"),
    ("Up, Down", "edit a queued prompt; earlier prompts"),
    ("Ctrl+R", "search earlier prompts"),
    ("Tab", "complete: /command, @file"),
    ("!COMMAND", "run a command yourself; the model sees its output"),
    ("Ctrl+G", "write the prompt in $EDITOR"),
    ("Ctrl+O", "show shortened output in full; again: the one before"),
    ("Alt+O", "show everything in full from now on, or shortened"),
    ("Ctrl+Z, Ctrl+L", "suspend; redraw"),
    ("Ctrl+A E B F, Alt+B F", "move, as in a shell"),
    ("Ctrl+U", "cut the line"),
    ("Ctrl+W K Y T, Alt+D", "cut, paste, swap, as in a shell"),
];

/// The most important keys and their descriptions, for new users.
pub(super) const ESSENTIAL_KEYS: &[(&str, &str)] = &[
    ("@PATH", "put a file or a directory into the prompt"),
    ("!COMMAND", "run a command yourself; the model sees its output"),
    ("Enter", "send; while a turn runs: queue"),
    ("Shift+Enter, Ctrl+J", "new line; so does \\ before Enter"),
    ("Esc", "cancel the turn; close what is open"),
    ("Shift+Tab", "next mode: default, auto_edit, plan"),
    ("Up, Ctrl+R", "earlier prompts; search in them"),
    ("Ctrl+O", "show shortened output in full"),
    ("Ctrl+C twice, Ctrl+D", "quit"),
    ("?", "all keys"),
];

/// Returns the meaning of a key in the focus, if the key has one. `leaves`: Ctrl+D quits.
pub(super) fn intent(key: KeyPress, focus: Focus, leaves: bool) -> Option<Intent> {
    let KeyPress { code, control, alt, shift } = key;
    if leaves && key.is_control('d') {
        return Some(Intent::Quit);
    }
    if focus == Focus::Picker {
        return picker(key);
    }
    if focus == Focus::Rewind {
        return picker(key).filter(|it| !matches!(it, Intent::Edit(_) | Intent::Complete));
    }
    if focus == Focus::Models {
        return picker(key).filter(|it| !matches!(it, Intent::Search | Intent::Complete));
    }
    if let Some(intent) = everywhere(key) {
        return Some(intent);
    }
    match focus {
        Focus::Question | Focus::Offer => question(key),
        Focus::Reader => reader(key),
        Focus::Saying | Focus::Key => match code {
            Code::Enter if !alt && !shift => Some(Intent::Enter),
            _ => edit(key).map(Intent::Edit),
        },
        Focus::Picker | Focus::Rewind | Focus::Models | Focus::Waiting => None,
        Focus::Input { empty, completing } => match code {
            Code::Enter if !alt && !shift => Some(Intent::Enter),
            Code::Tab => Some(Intent::Complete),
            Code::Char('n') if control && completing => Some(Intent::Down),
            Code::Char('p') if control && completing => Some(Intent::Up),
            Code::Char('?') if empty => Some(Intent::Help),
            Code::Char('r') if control => Some(Intent::Search),
            Code::Char('g') if control => Some(Intent::Editor),
            Code::Up => Some(Intent::Up),
            Code::Down => Some(Intent::Down),
            _ => edit(key).map(Intent::Edit),
        },
    }
}

/// Returns whether a key would answer the question that offers the answers `choices`, or move in it.
pub(super) fn is_for_question(key: KeyPress, choices: &str) -> bool {
    match question(key) {
        Some(Intent::Choose(choice)) => choices.contains(choice),
        intent => intent.is_some(),
    }
}

/// Returns the meaning of a key in the choice among the stored sessions. Keys that change the session or its display
/// have no meaning there.
fn picker(key: KeyPress) -> Option<Intent> {
    Some(match key.code {
        Code::Enter => Intent::Enter,
        Code::Tab => Intent::Complete,
        Code::Up => Intent::Up,
        Code::Down => Intent::Down,
        Code::Char('p') if key.control => Intent::Up,
        Code::Char('n') if key.control => Intent::Down,
        Code::Char('d') if key.control => Intent::Escape,
        Code::Char('r') if key.control => Intent::Search,
        _ => match everywhere(key) {
            Some(
                intent @ (Intent::Interrupt | Intent::Suspend | Intent::Redraw | Intent::Escape),
            ) => intent,
            Some(_) => return None,
            None => Intent::Edit(edit(key)?),
        },
    })
}

/// Returns the meaning of a key that means the same in every focus but the menus.
fn everywhere(key: KeyPress) -> Option<Intent> {
    Some(match key.code {
        Code::Char('c') if key.control => Intent::Interrupt,
        Code::Char('z') if key.control => Intent::Suspend,
        Code::Char('l') if key.control => Intent::Redraw,
        Code::Char('o') if key.control => Intent::Unfold,
        Code::Char('o') if key.alt => Intent::UnfoldAll,
        Code::Esc => Intent::Escape,
        Code::Tab if key.shift => Intent::CycleMode,
        _ => return None,
    })
}

fn question(key: KeyPress) -> Option<Intent> {
    let modified = key.control || key.alt;
    let shifted = modified || key.shift;
    Some(match key.code {
        Code::Enter => Intent::Enter,
        Code::Up if shifted => Intent::Scroll(Scroll::RowUp),
        Code::Down if shifted => Intent::Scroll(Scroll::RowDown),
        Code::Up => Intent::Up,
        Code::Down | Code::Tab => Intent::Down,
        Code::Char('v') if !modified => Intent::Read,
        // The begun prompt is shown below a question, so Ctrl+U still clears it.
        Code::Char('u') if key.control => Intent::Edit(Edit::KillLine),
        _ => return scroll(key),
    })
}

/// Returns the meaning of a key while a question has the whole screen. Up and Down scroll by rows. Enter has no
/// meaning, because no choice is marked there.
fn reader(key: KeyPress) -> Option<Intent> {
    let plain = !key.control && !key.alt;
    Some(match key.code {
        Code::Up => Intent::Scroll(Scroll::RowUp),
        Code::Down => Intent::Scroll(Scroll::RowDown),
        Code::Char('k') if plain => Intent::Scroll(Scroll::RowUp),
        Code::Char('j') if plain => Intent::Scroll(Scroll::RowDown),
        Code::Char(' ') if plain => Intent::Scroll(Scroll::PageDown),
        Code::Char('q' | 'v') if plain => Intent::Read,
        _ => return scroll(key),
    })
}

fn scroll(key: KeyPress) -> Option<Intent> {
    Some(match key.code {
        Code::PageUp => Intent::Scroll(Scroll::PageUp),
        Code::PageDown => Intent::Scroll(Scroll::PageDown),
        Code::Home => Intent::Scroll(Scroll::ToStart),
        Code::End => Intent::Scroll(Scroll::ToEnd),
        Code::Char(c) if !key.control && !key.alt => Intent::Choose(c),
        _ => return None,
    })
}

fn edit(key: KeyPress) -> Option<Edit> {
    let KeyPress { control, alt, .. } = key;
    Some(match key.code {
        Code::Char(c) if control => return controlled(c),
        Code::Char('b') if alt => Edit::WordLeft,
        Code::Char('f') if alt => Edit::WordRight,
        Code::Char('d') if alt => Edit::KillWordForward,
        Code::Char(c) if !alt => Edit::Insert(c.to_string()),
        Code::Enter => Edit::Insert("\n".to_owned()),
        Code::Backspace if alt || control => Edit::KillWordBack,
        Code::Backspace => Edit::Backspace,
        Code::Delete => Edit::Delete,
        Code::Left if alt || control => Edit::WordLeft,
        Code::Right if alt || control => Edit::WordRight,
        Code::Left => Edit::Left,
        Code::Right => Edit::Right,
        Code::Home => Edit::LineStart,
        Code::End => Edit::LineEnd,
        Code::Up => Edit::Up,
        Code::Down => Edit::Down,
        _ => return None,
    })
}

fn controlled(c: char) -> Option<Edit> {
    Some(match c {
        'a' => Edit::LineStart,
        'e' => Edit::LineEnd,
        'b' => Edit::Left,
        'f' => Edit::Right,
        'p' => Edit::Up,
        'n' => Edit::Down,
        'd' => Edit::Delete,
        'h' => Edit::Backspace,
        'j' => Edit::Insert("\n".to_owned()),
        'k' => Edit::KillToEnd,
        't' => Edit::Transpose,
        'u' => Edit::KillLine,
        'w' => Edit::KillWordBack,
        'y' => Edit::Yank,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPING: Focus = Focus::Input { empty: false, completing: false };
    const EMPTY: Focus = Focus::Input { empty: true, completing: false };

    #[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
    #[track_caller]
    fn check(key: KeyPress, focus: Focus, expected: Option<Intent>) {
        assert_eq!(intent(key, focus, false), expected, "{key:?}");
    }

    fn plain(c: char) -> KeyPress {
        KeyPress::new(Code::Char(c))
    }

    fn control(c: char) -> KeyPress {
        KeyPress { control: true, ..plain(c) }
    }

    #[test]
    fn a_key_means_what_it_means_where_it_is_pressed() {
        let insert = |text: &str| Some(Intent::Edit(Edit::Insert(text.to_owned())));
        check(plain('y'), TYPING, insert("y"));
        check(plain('y'), Focus::Question, Some(Intent::Choose('y')));
        check(plain('y'), Focus::Saying, insert("y"));
        check(KeyPress { alt: true, ..plain('y') }, Focus::Question, None);
        check(plain('?'), EMPTY, Some(Intent::Help));
        check(plain('?'), TYPING, insert("?"));
        check(control('d'), TYPING, Some(Intent::Edit(Edit::Delete)));
        check(control('c'), Focus::Question, Some(Intent::Interrupt));
        check(
            KeyPress { shift: true, ..KeyPress::new(Code::Tab) },
            TYPING,
            Some(Intent::CycleMode),
        );
    }

    #[test]
    fn who_may_leave_does_so_with_one_key_wherever_keys_go() {
        let asked = [Focus::Question, Focus::Reader, Focus::Saying, Focus::Offer, Focus::Key];
        for focus in [&asked[..], &[Focus::Waiting, EMPTY, TYPING]].concat() {
            assert_eq!(intent(control('d'), focus, true), Some(Intent::Quit), "{focus:?}");
        }
        for focus in [Focus::Question, Focus::Reader, Focus::Offer, Focus::Waiting] {
            check(control('d'), focus, None);
        }
    }

    #[test]
    fn a_key_is_for_a_question_that_offers_it_or_moves_by_it() {
        for key in [plain('y'), plain('v'), KeyPress::new(Code::Enter), KeyPress::new(Code::Up)] {
            assert!(is_for_question(key, "yn"), "{key:?}");
        }
        for key in [plain('x'), control('y'), KeyPress::new(Code::Left)] {
            assert!(!is_for_question(key, "yn"), "{key:?}");
        }
    }

    #[test]
    fn a_question_is_paged_through_and_read_on_the_whole_screen() {
        let scroll = |scroll| Some(Intent::Scroll(scroll));
        let shifted = |code| KeyPress { shift: true, ..KeyPress::new(code) };
        let controlled = |code| KeyPress { control: true, ..KeyPress::new(code) };
        check(KeyPress::new(Code::Up), Focus::Question, Some(Intent::Up));
        check(shifted(Code::Up), Focus::Question, scroll(Scroll::RowUp));
        check(controlled(Code::Down), Focus::Question, scroll(Scroll::RowDown));
        check(KeyPress::new(Code::PageDown), Focus::Question, scroll(Scroll::PageDown));
        check(KeyPress::new(Code::End), Focus::Question, scroll(Scroll::ToEnd));
        check(plain('v'), Focus::Question, Some(Intent::Read));
        check(KeyPress::new(Code::Down), Focus::Reader, scroll(Scroll::RowDown));
        check(plain(' '), Focus::Reader, scroll(Scroll::PageDown));
        check(plain('q'), Focus::Reader, Some(Intent::Read));
        check(plain('y'), Focus::Reader, Some(Intent::Choose('y')));
        check(KeyPress::new(Code::Enter), Focus::Reader, None);
    }

    #[test]
    fn a_choice_of_sessions_has_the_keys_and_nothing_else_changes() {
        check(plain('?'), Focus::Picker, Some(Intent::Edit(Edit::Insert("?".to_owned()))));
        check(control('n'), Focus::Picker, Some(Intent::Down));
        check(control('d'), Focus::Picker, Some(Intent::Escape));
        check(control('c'), Focus::Picker, Some(Intent::Interrupt));
        check(control('r'), Focus::Picker, Some(Intent::Search));
        check(KeyPress::new(Code::Tab), Focus::Picker, Some(Intent::Complete));
        let tab = KeyPress { shift: true, ..KeyPress::new(Code::Tab) };
        check(KeyPress { control: true, ..plain('o') }, Focus::Picker, None);
        check(KeyPress { alt: true, ..plain('o') }, Focus::Picker, None);
        check(tab, Focus::Picker, Some(Intent::Complete));
    }

    #[test]
    fn in_the_list_of_models_the_filter_is_typed_and_rows_are_marked() {
        check(plain('y'), Focus::Models, Some(Intent::Edit(Edit::Insert("y".to_owned()))));
        check(KeyPress::new(Code::Down), Focus::Models, Some(Intent::Down));
        check(KeyPress::new(Code::Tab), Focus::Models, None);
        check(control('r'), Focus::Models, None);
        check(control('c'), Focus::Models, Some(Intent::Interrupt));
    }

    #[test]
    fn nothing_is_typed_into_the_menu_of_earlier_prompts() {
        check(plain('y'), Focus::Rewind, None);
        check(KeyPress::new(Code::Tab), Focus::Rewind, None);
        check(KeyPress::new(Code::Up), Focus::Rewind, Some(Intent::Up));
        check(KeyPress::new(Code::Enter), Focus::Rewind, Some(Intent::Enter));
        check(KeyPress::new(Code::Esc), Focus::Rewind, Some(Intent::Escape));
        check(control('c'), Focus::Rewind, Some(Intent::Interrupt));
    }

    #[test]
    fn enter_sends_and_its_kin_make_a_new_line() {
        let line = Some(Intent::Edit(Edit::Insert("\n".to_owned())));
        let enter = KeyPress::new(Code::Enter);
        for focus in [TYPING, Focus::Saying] {
            check(enter, focus, Some(Intent::Enter));
            check(KeyPress { alt: true, ..enter }, focus, line.clone());
            check(KeyPress { shift: true, ..enter }, focus, line.clone());
            check(control('j'), focus, line.clone());
        }
    }
}
