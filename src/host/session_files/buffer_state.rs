//! Comparison of a file's text on the disk with an editor's text of it, to decide which of them counts.

use std::borrow::Cow;

use crate::text::{like, normalise};

/// Byte order mark, which many editors leave out of the texts that they give.
const BYTE_ORDER_MARK: char = '\u{FEFF}';

/// State of an editor's text of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BufferState {
    /// The editor's text equals the file, or the editor has none.
    Saved,
    /// The editor's text has unsaved changes. The editor's text counts.
    Unsaved,
    /// The editor's text equals an earlier content of the file. The file counts.
    Outdated,
    /// The editor's text has unsaved changes, and a command has changed the file. The file counts, and must not be
    /// edited.
    Conflicting,
}

/// State of a file when an editor was last asked about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastRead {
    /// Hash of the last text that the file and the editor had in common; `None` if there was none.
    pub(super) synced: Option<u64>,
    /// Hash of the text on the disk; `None` if there was no file.
    pub(super) saved: Option<u64>,
    /// State of the editor's text.
    pub(super) state: BufferState,
}

/// Compares the hashes of a file's text and of an editor's text, both taken after `plain`. `by_command` returns whether
/// a command may have been the last to change the file.
pub(super) fn compare(
    saved: Option<u64>,
    buffer: u64,
    last: Option<&LastRead>,
    by_command: impl FnOnce() -> bool,
) -> BufferState {
    if saved == Some(buffer) {
        return BufferState::Saved;
    }
    // The file has changed since both were equal, and the editor's text has not: it has no changes of a person.
    if last.is_some_and(|last| last.synced == Some(buffer)) {
        return BufferState::Outdated;
    }
    let is_new = last.is_none_or(|last| last.saved != saved);
    if saved.is_some() && is_new && by_command() {
        BufferState::Conflicting
    } else {
        BufferState::Unsaved
    }
}

/// Returns a text without the parts that editors leave out or write differently: the byte order mark, the kind of line
/// endings, and the end of the last line.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    match normalise(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)) {
        Cow::Borrowed(text) => text.strip_suffix('\n').unwrap_or(text).into(),
        Cow::Owned(mut text) => {
            text.truncate(text.strip_suffix('\n').unwrap_or(&text).len());
            text.into()
        }
    }
}

/// Returns an editor's text as it would be saved: with the file's byte order mark, line endings, and end of the last
/// line.
pub(super) fn as_saved(saved: &str, buffer: &str) -> String {
    let body = saved.strip_prefix(BYTE_ORDER_MARK);
    let mut text =
        like(body.unwrap_or(saved), buffer.strip_prefix(BYTE_ORDER_MARK).unwrap_or(buffer));
    if saved.ends_with('\n') && !text.is_empty() && !text.ends_with('\n') {
        text.push_str(if saved.ends_with("\r\n") { "\r\n" } else { "\n" });
    }
    if body.is_some() { format!("{BYTE_ORDER_MARK}{text}") } else { text }
}

/// Returns a text in the form that an editor takes: without the byte order mark, if the editor left the mark out of
/// `buffer`.
pub(super) fn without_mark<'a>(text: &'a str, buffer: Option<&str>) -> &'a str {
    let hides = buffer.is_some_and(|buffer| !buffer.starts_with(BYTE_ORDER_MARK));
    text.strip_prefix(BYTE_ORDER_MARK).filter(|_| hides).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_editors_leave_out_is_no_difference() {
        for text in ["a\nb\n", "a\r\nb\r\n", "\u{feff}a\nb", "a\nb"] {
            assert_eq!(plain(text), "a\nb", "{text:?}");
        }
        assert_eq!(plain("a\n\n"), "a\n");
    }

    #[test]
    fn an_editors_text_is_saved_as_the_file_is_written() {
        assert_eq!(as_saved("\u{feff}a\r\n", "b\nc"), "\u{feff}b\r\nc\r\n");
        assert_eq!(as_saved("a\n", "b"), "b\n");
        assert_eq!(as_saved("a", "b\n"), "b\n");
        assert_eq!(as_saved("a\n", ""), "");
        assert_eq!(without_mark("\u{feff}a", Some("a")), "a");
        assert_eq!(without_mark("\u{feff}a", Some("\u{feff}a")), "\u{feff}a");
        assert_eq!(without_mark("\u{feff}a", None), "\u{feff}a");
    }

    /// Compares an editor's text with a file whose hash is 2.
    fn check(buffer: u64, last: Option<(Option<u64>, u64)>, by_command: bool) -> BufferState {
        let state = BufferState::Saved;
        let last = last.map(|(synced, saved)| LastRead { synced, saved: Some(saved), state });
        compare(Some(2), buffer, last.as_ref(), || by_command)
    }

    #[test]
    fn a_text_that_the_file_has_had_is_outdated() {
        assert_eq!(check(1, Some((Some(1), 1)), true), BufferState::Outdated);
        assert_eq!(check(1, Some((Some(1), 2)), false), BufferState::Outdated);
    }

    #[test]
    fn any_other_text_is_a_persons() {
        assert_eq!(check(2, None, true), BufferState::Saved);
        assert_eq!(check(3, None, false), BufferState::Unsaved);
        assert_eq!(check(3, Some((Some(2), 2)), true), BufferState::Unsaved);
        assert_eq!(check(3, Some((Some(1), 1)), false), BufferState::Unsaved);
        assert_eq!(compare(None, 3, None, || true), BufferState::Unsaved);
    }

    #[test]
    fn a_persons_text_and_a_commands_are_a_conflict() {
        assert_eq!(check(3, None, true), BufferState::Conflicting);
        assert_eq!(check(3, Some((Some(1), 1)), true), BufferState::Conflicting);
        assert_eq!(check(3, Some((None, 1)), true), BufferState::Conflicting);
    }
}
