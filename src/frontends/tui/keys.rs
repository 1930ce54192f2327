//! Keys to intents: which key means what, where.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::dialog::Scroll;
use super::input::Edit;

/// Whom the keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    /// The text that is typed.
    Input {
        /// Nothing is typed yet.
        empty: bool,
        /// Something is offered to complete it.
        completing: bool,
    },
    /// A question.
    Question,
    /// A question that has the whole screen.
    Reader,
    /// The sentence that goes with a "no".
    Saying,
    /// The offer to log in.
    Offer,
    /// The key, while it is typed.
    Key,
    /// Something that only waits.
    Waiting,
}

/// What a key means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// The text changes, or the place in it.
    Edit(Edit),
    /// Send it; take what is marked.
    Enter,
    /// Up: a line, a candidate, a choice, an earlier prompt.
    Up,
    /// Down.
    Down,
    /// Take what is marked, or mark what could be.
    Complete,
    /// Close what is open, else cancel the turn.
    Escape,
    /// Cancel, then quit.
    Interrupt,
    Quit,
    Suspend,
    /// Look for an earlier prompt.
    Search,
    CycleMode,
    /// Show in full what was shown in short last.
    Unfold,
    /// Show everything in full from now on, or not.
    UnfoldAll,
    Help,
    /// Write in `$EDITOR`.
    Editor,
    Redraw,
    /// Answer the question.
    Choose(char),
    /// Show other rows of what is asked about.
    Scroll(Scroll),
    /// Give the question the whole screen, or no longer.
    Read,
}

/// The keys, for people.
pub(super) const HELP: &[(&str, &str)] = &[
    ("Enter", "send; while a turn runs: queue"),
    ("Ctrl+J, Alt+Enter", "new line"),
    ("Esc", "cancel the turn; close what is open"),
    ("Ctrl+C", "cancel, or clear; twice: quit"),
    ("Ctrl+D", "quit, when nothing is typed"),
    ("Shift+Tab", "next approval mode"),
    ("Up, Down", "take back what is queued; earlier prompts"),
    ("Ctrl+R", "search earlier prompts"),
    ("Tab", "complete: /command, @file"),
    ("!COMMAND", "run it yourself; the model sees the output"),
    ("Ctrl+G", "write the prompt in $EDITOR"),
    ("Ctrl+O", "show in full what was in short; again: the one before"),
    ("Alt+O", "everything in full from now on, or in short"),
    ("Ctrl+Z, Ctrl+L", "suspend; draw anew"),
    ("Ctrl+A E B F, Alt+B F", "move, as in a shell"),
    ("Ctrl+W U K Y T, Alt+D", "cut, paste, swap, as in a shell"),
];

/// The keys that matter, for people who do not know them yet.
pub(super) const ESSENTIAL: &[(&str, &str)] = &[
    ("@PATH", "put a file or a directory into the prompt"),
    ("!COMMAND", "run it yourself; the model sees the output"),
    ("Enter", "send; while a turn runs: queue"),
    ("Ctrl+J, Alt+Enter", "new line"),
    ("Esc", "cancel the turn; close what is open"),
    ("Shift+Tab", "next mode: default, auto_edit, yolo, plan"),
    ("Up, Ctrl+R", "earlier prompts; search in them"),
    ("Ctrl+O", "show in full what was shown in short"),
    ("Ctrl+G", "write the prompt in $EDITOR"),
    ("Ctrl+C twice, Ctrl+D", "quit"),
    ("?", "all keys"),
];

/// What a key means, if anything.
pub(super) fn intent(key: KeyEvent, focus: Focus) -> Option<Intent> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    if let Some(intent) = everywhere(key, control, alt) {
        return Some(intent);
    }
    match focus {
        Focus::Offer if control && key.code == KeyCode::Char('d') => Some(Intent::Quit),
        Focus::Question | Focus::Offer => question(key, control || alt),
        Focus::Reader => reader(key, control || alt),
        Focus::Saying | Focus::Key => match key.code {
            KeyCode::Enter if !alt => Some(Intent::Enter),
            _ => edit(key, control, alt).map(Intent::Edit),
        },
        Focus::Waiting => None,
        Focus::Input { empty, completing } => match key.code {
            KeyCode::Enter if !alt => Some(Intent::Enter),
            KeyCode::Tab => Some(Intent::Complete),
            KeyCode::Char('n') if control && completing => Some(Intent::Down),
            KeyCode::Char('p') if control && completing => Some(Intent::Up),
            KeyCode::Char('d') if control && empty => Some(Intent::Quit),
            KeyCode::Char('?') if empty => Some(Intent::Help),
            KeyCode::Char('r') if control => Some(Intent::Search),
            KeyCode::Char('g') if control => Some(Intent::Editor),
            KeyCode::Up => Some(Intent::Up),
            KeyCode::Down => Some(Intent::Down),
            _ => edit(key, control, alt).map(Intent::Edit),
        },
    }
}

fn everywhere(key: KeyEvent, control: bool, alt: bool) -> Option<Intent> {
    Some(match key.code {
        KeyCode::Char('c') if control => Intent::Interrupt,
        KeyCode::Char('z') if control => Intent::Suspend,
        KeyCode::Char('l') if control => Intent::Redraw,
        KeyCode::Char('o') if control => Intent::Unfold,
        KeyCode::Char('o') if alt => Intent::UnfoldAll,
        KeyCode::Esc => Intent::Escape,
        KeyCode::BackTab => Intent::CycleMode,
        _ => return None,
    })
}

fn question(key: KeyEvent, modified: bool) -> Option<Intent> {
    let shifted = modified || key.modifiers.contains(KeyModifiers::SHIFT);
    Some(match key.code {
        KeyCode::Enter => Intent::Enter,
        KeyCode::Up if shifted => Intent::Scroll(Scroll::RowUp),
        KeyCode::Down if shifted => Intent::Scroll(Scroll::RowDown),
        KeyCode::Up => Intent::Up,
        KeyCode::Down | KeyCode::Tab => Intent::Down,
        KeyCode::Char('v') if !modified => Intent::Read,
        _ => return scroll(key, modified),
    })
}

/// Up and Down move by rows here, and no choice is marked that Enter could take.
fn reader(key: KeyEvent, modified: bool) -> Option<Intent> {
    Some(match key.code {
        KeyCode::Up => Intent::Scroll(Scroll::RowUp),
        KeyCode::Down => Intent::Scroll(Scroll::RowDown),
        KeyCode::Char('k') if !modified => Intent::Scroll(Scroll::RowUp),
        KeyCode::Char('j') if !modified => Intent::Scroll(Scroll::RowDown),
        KeyCode::Char(' ') if !modified => Intent::Scroll(Scroll::PageDown),
        KeyCode::Char('q' | 'v') if !modified => Intent::Read,
        _ => return scroll(key, modified),
    })
}

fn scroll(key: KeyEvent, modified: bool) -> Option<Intent> {
    Some(match key.code {
        KeyCode::PageUp => Intent::Scroll(Scroll::PageUp),
        KeyCode::PageDown => Intent::Scroll(Scroll::PageDown),
        KeyCode::Home => Intent::Scroll(Scroll::ToStart),
        KeyCode::End => Intent::Scroll(Scroll::ToEnd),
        KeyCode::Char(c) if !modified => Intent::Choose(c),
        _ => return None,
    })
}

fn edit(key: KeyEvent, control: bool, alt: bool) -> Option<Edit> {
    Some(match key.code {
        KeyCode::Char(c) if control => return controlled(c),
        KeyCode::Char('b') if alt => Edit::WordLeft,
        KeyCode::Char('f') if alt => Edit::WordRight,
        KeyCode::Char('d') if alt => Edit::KillWordForward,
        KeyCode::Char(c) if !alt => Edit::Insert(c.to_string()),
        KeyCode::Enter => Edit::Insert("\n".to_owned()),
        KeyCode::Backspace if alt || control => Edit::KillWordBack,
        KeyCode::Backspace => Edit::Backspace,
        KeyCode::Delete => Edit::Delete,
        KeyCode::Left if alt || control => Edit::WordLeft,
        KeyCode::Right if alt || control => Edit::WordRight,
        KeyCode::Left => Edit::Left,
        KeyCode::Right => Edit::Right,
        KeyCode::Home => Edit::LineStart,
        KeyCode::End => Edit::LineEnd,
        KeyCode::Up => Edit::Up,
        KeyCode::Down => Edit::Down,
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
        'u' => Edit::KillToStart,
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

    #[expect(clippy::ref_option, reason = "what is compared is an option")]
    #[track_caller]
    fn check(code: KeyCode, modifiers: KeyModifiers, focus: Focus, expected: &Option<Intent>) {
        assert_eq!(intent(KeyEvent::new(code, modifiers), focus), *expected);
    }

    #[test]
    fn a_key_means_what_it_means_where_it_is_pressed() {
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        let insert = |text: &str| Some(Intent::Edit(Edit::Insert(text.to_owned())));
        check(KeyCode::Char('y'), none, TYPING, &insert("y"));
        check(KeyCode::Char('y'), none, Focus::Question, &Some(Intent::Choose('y')));
        check(KeyCode::Char('y'), none, Focus::Saying, &insert("y"));
        check(KeyCode::Char('y'), KeyModifiers::ALT, Focus::Question, &None);
        check(KeyCode::Char('?'), none, EMPTY, &Some(Intent::Help));
        check(KeyCode::Char('?'), none, TYPING, &insert("?"));
        check(KeyCode::Char('d'), control, EMPTY, &Some(Intent::Quit));
        check(KeyCode::Char('d'), control, TYPING, &Some(Intent::Edit(Edit::Delete)));
        check(KeyCode::Char('c'), control, Focus::Question, &Some(Intent::Interrupt));
    }

    #[test]
    fn a_question_is_paged_through_and_read_on_the_whole_screen() {
        let (none, shift) = (KeyModifiers::NONE, KeyModifiers::SHIFT);
        let scroll = |scroll| Some(Intent::Scroll(scroll));
        check(KeyCode::Up, none, Focus::Question, &Some(Intent::Up));
        check(KeyCode::Up, shift, Focus::Question, &scroll(Scroll::RowUp));
        check(KeyCode::Down, KeyModifiers::CONTROL, Focus::Question, &scroll(Scroll::RowDown));
        check(KeyCode::PageDown, none, Focus::Question, &scroll(Scroll::PageDown));
        check(KeyCode::End, none, Focus::Question, &scroll(Scroll::ToEnd));
        check(KeyCode::Char('v'), none, Focus::Question, &Some(Intent::Read));
        check(KeyCode::Down, none, Focus::Reader, &scroll(Scroll::RowDown));
        check(KeyCode::Char(' '), none, Focus::Reader, &scroll(Scroll::PageDown));
        check(KeyCode::Char('q'), none, Focus::Reader, &Some(Intent::Read));
        check(KeyCode::Char('y'), none, Focus::Reader, &Some(Intent::Choose('y')));
        check(KeyCode::Enter, none, Focus::Reader, &None);
    }

    #[test]
    fn enter_sends_and_its_kin_make_a_new_line() {
        let line = Some(Intent::Edit(Edit::Insert("\n".to_owned())));
        check(KeyCode::Enter, KeyModifiers::NONE, TYPING, &Some(Intent::Enter));
        check(KeyCode::Enter, KeyModifiers::ALT, TYPING, &line);
        check(KeyCode::Char('j'), KeyModifiers::CONTROL, TYPING, &line);
    }
}
