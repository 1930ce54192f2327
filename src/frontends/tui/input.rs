//! Text that the user types: several lines, with the editing keys of shells.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

use super::played::played;
use super::wrap::width;
use tandem_content::visible::visible_line;

/// Number of bytes of a line before the cursor that are laid out: more than the largest screen shows of a prompt.
const MAX_LAID_OUT_BYTES: usize = 8 * 1024;

/// A change of the text, or a movement of the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    Insert(String),
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Up,
    Down,
    KillLine,
    KillToEnd,
    KillWordBack,
    KillWordForward,
    Yank,
    Transpose,
}

/// A text and the cursor in it.
#[derive(Debug, Clone, Default)]
pub(super) struct TextInput {
    text: String,
    /// Offset of the cursor in bytes, between two graphemes.
    cursor: usize,
    /// Text that was cut last, for pasting.
    killed: String,
}

/// The rows of a text around the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) texts: Vec<String>,
    /// Row and column of the cursor.
    pub(super) cursor: (usize, usize),
    /// `true` if the first of these rows is the first row of the text.
    pub(super) from_the_start: bool,
}

impl TextInput {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Replaces the text, and puts the cursor at its end.
    pub(super) fn set(&mut self, text: &str) {
        self.text = text.replace("\r\n", "\n");
        self.cursor = self.text.len();
    }

    /// Replaces the text between two byte offsets, and puts the cursor after the new text.
    pub(super) fn replace(&mut self, from: usize, to: usize, with: &str) {
        self.text.replace_range(from..to, with);
        self.cursor = from + with.len();
    }

    pub(super) fn on_first_line(&self) -> bool {
        !self.text[..self.cursor].contains('\n')
    }

    pub(super) fn on_last_line(&self) -> bool {
        !self.text[self.cursor..].contains('\n')
    }

    /// Replaces a backslash before the cursor by a line break, as shells do. Returns `false` if there is no
    /// backslash. Two backslashes stand for a real backslash, and stay.
    pub(super) fn continue_line(&mut self) -> bool {
        let before = &self.text[..self.cursor];
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        let continues = backslashes % 2 == 1;
        if continues {
            self.replace(self.cursor - 1, self.cursor, "\n");
        }
        continues
    }

    pub(super) fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Insert(text) => {
                // Pasted text may contain sequences that a terminal obeys.
                let text = played(&text.replace("\r\n", "\n").replace('\r', "\n"));
                self.text.insert_str(self.cursor, &text);
                self.cursor += text.len();
            }
            Edit::Backspace => _ = self.remove(self.previous_position(), self.cursor),
            Edit::Delete => _ = self.remove(self.cursor, self.right()),
            Edit::Left => self.cursor = self.previous_position(),
            Edit::Right => self.cursor = self.right(),
            Edit::WordLeft => self.cursor = self.word_left(),
            Edit::WordRight => self.cursor = self.word_right(),
            Edit::LineStart => self.cursor = self.line_start(),
            Edit::LineEnd => self.cursor = self.line_end(),
            Edit::Up => self.vertical(true),
            Edit::Down => self.vertical(false),
            Edit::KillLine => self.kill_line(),
            Edit::KillToEnd => {
                // At the end of a line, the line break is cut.
                let end = self.line_end();
                self.kill(self.cursor, if end == self.cursor { self.right() } else { end });
            }
            Edit::KillWordBack => self.kill(self.word_left(), self.cursor),
            Edit::KillWordForward => self.kill(self.cursor, self.word_right()),
            Edit::Yank => self.edit(&Edit::Insert(self.killed.clone())),
            Edit::Transpose => self.transpose(),
        }
    }

    fn remove(&mut self, from: usize, to: usize) -> String {
        self.cursor = from;
        self.text.drain(from..to).collect()
    }

    fn kill(&mut self, from: usize, to: usize) {
        if from < to {
            self.killed = self.remove(from, to);
        }
    }

    /// Removes the line with the cursor; if the line is empty, the line break before it.
    fn kill_line(&mut self) {
        let (start, end) = (self.line_start(), self.line_end());
        if start < end {
            self.kill(start, end);
        } else {
            self.remove(start.saturating_sub(1), start);
        }
    }

    fn transpose(&mut self) {
        if self.cursor == self.text.len() {
            self.cursor = self.previous_position();
        }
        let (before, after) = (self.previous_position(), self.right());
        if before < self.cursor {
            let swapped =
                format!("{}{}", &self.text[self.cursor..after], &self.text[before..self.cursor]);
            self.replace(before, after, &swapped);
        }
    }

    fn previous_position(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0)
    }

    fn right(&self) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len())
    }

    fn word_left(&self) -> usize {
        let mut words = self.text[..self.cursor].unicode_word_indices();
        words.next_back().map_or(0, |(at, _)| at)
    }

    fn word_right(&self) -> usize {
        let mut words = self.text[self.cursor..].unicode_word_indices();
        words.next().map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// Moves the cursor one line up or down, in the same column if the line is long enough.
    fn vertical(&mut self, up: bool) {
        let column = width(&self.text[self.line_start()..self.cursor]);
        let target = if up {
            let Some(end) = self.line_start().checked_sub(1) else { return };
            self.text[..end].rfind('\n').map_or(0, |at| at + 1)..end
        } else {
            let end = self.line_end();
            if end == self.text.len() {
                return;
            }
            let start = end + 1;
            start..self.text[start..].find('\n').map_or(self.text.len(), |at| start + at)
        };
        let mut used = 0;
        self.cursor = target.end;
        for (at, grapheme) in self.text[target.clone()].grapheme_indices(true) {
            if used >= column {
                self.cursor = target.start + at;
                break;
            }
            used += width(grapheme);
        }
    }

    /// Returns the rows around the cursor, at most `most`. Of a long text, only the part around the cursor is laid out.
    pub(super) fn rows(&self, columns: usize, most: usize) -> Rows {
        let columns = columns.max(2);
        let begin = self.shown_from(most);
        let mut rows = vec![String::new()];
        let (mut used, mut cursor) = (0, None);
        for (at, grapheme) in self.text[begin..].grapheme_indices(true) {
            // A hidden character is shown written out, but the text keeps the character itself.
            let shown = match grapheme {
                "\n" => "".into(),
                "\t" => "    ".into(),
                _ => visible_line(grapheme),
            };
            let wide = width(&shown);
            if grapheme != "\n" && used + wide > columns {
                rows.push(String::new());
                used = 0;
            }
            if begin + at == self.cursor {
                cursor = Some((rows.len() - 1, used));
            }
            if cursor.is_some_and(|(row, _)| rows.len() > row.max(most)) {
                break;
            }
            if grapheme == "\n" {
                rows.push(String::new());
                used = 0;
            } else if let Some(row) = rows.last_mut() {
                row.push_str(&shown);
                used += wide;
            }
        }
        let (row, column) = cursor.unwrap_or_else(|| {
            if used >= columns {
                rows.push(String::new());
                used = 0;
            }
            (rows.len() - 1, used)
        });
        let above = (row + 1).saturating_sub(most);
        let rows = rows.into_iter().skip(above).take(most).collect();
        Rows {
            texts: rows,
            cursor: (row - above, column),
            from_the_start: begin == 0 && above == 0,
        }
    }

    /// Returns the offset from which the text is laid out: the beginning of a line or, in a very long line, an offset
    /// that stays the same while the user types.
    fn shown_from(&self, most: usize) -> usize {
        let before = &self.text[..self.cursor];
        let line = before.rmatch_indices('\n').nth(most).map_or(0, |(at, _)| at + 1);
        let far = (self.cursor - line) / MAX_LAID_OUT_BYTES;
        self.text.floor_char_boundary(line + far.saturating_sub(1) * MAX_LAID_OUT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::Edit::*;
    use super::*;

    /// Edits a text in which `|` is the cursor.
    #[track_caller]
    fn check(text: &str, edits: &[Edit], expected: &str) {
        let cursor = text.find('|').unwrap();
        let text = text.replace('|', "");
        let mut input = TextInput { text, cursor, killed: String::new() };
        for edit in edits {
            input.edit(edit);
        }
        input.text.insert(input.cursor, '|');
        assert_eq!(input.text, expected);
    }

    #[test]
    fn characters_are_what_people_take_for_them() {
        check("a👩‍👩‍👧|b", &[Backspace], "a|b");
        check("|é日b", &[Right, Delete], "é|b");
        check("|", &[Backspace, Delete, Left, Right], "|");
    }

    #[test]
    fn words_and_lines_are_moved_over() {
        check("one two| three", &[WordLeft, WordLeft], "|one two three");
        check("one| two, three", &[WordRight, WordRight], "one two, three|");
        check("a\nbc|d\ne", &[LineStart], "a\n|bcd\ne");
        check("a\nbc|d\ne", &[LineEnd], "a\nbcd|\ne");
        check("日本\nab|c\nd", &[Up], "日|本\nabc\nd");
        check("日本|\nabcdef\nd", &[Down], "日本\nabcd|ef\nd");
        check("ab|c\nd", &[Up], "ab|c\nd");
        check("ab|c\nd", &[Down, Down], "abc\nd|");
    }

    #[test]
    fn what_is_killed_can_be_yanked() {
        check("one two|", &[KillWordBack, LineStart, Yank], "two|one ");
        check("a\nb|c\nd", &[KillLine, Yank], "a\nbc|\nd");
        check("a\nbc|", &[KillLine, KillLine, KillLine, KillLine], "|");
        check("a|b\nc", &[KillToEnd, KillToEnd, Yank], "a\n|c");
        check("one| two x", &[KillWordForward], "one| x");
        check("ab|", &[Transpose], "ba|");
        check("a|bc", &[Transpose], "ba|c");
    }

    #[test]
    fn a_backslash_goes_on_in_the_next_line() {
        for (text, expected) in [
            ("one \\|", "one \n|"),
            ("one\\| two", "one\n| two"),
            ("one\\\\|", "one\\\\|"),
            ("one\\\\\\|", "one\\\\\n|"),
            ("\\ |", "\\ |"),
            ("|", "|"),
        ] {
            let mut input = TextInput { cursor: text.find('|').unwrap(), ..TextInput::default() };
            input.text = text.replace('|', "");
            assert_eq!(input.continue_line(), text != expected, "{text}");
            input.text.insert(input.cursor, '|');
            assert_eq!(input.text, expected);
        }
    }

    #[test]
    fn what_is_pasted_is_text() {
        check("|", &[Insert("a\r\nb\rc\x1b[2Jd\te".to_owned())], "a\nb\ncd  e|");
    }

    #[test]
    fn long_lines_go_on_in_the_next_row() {
        let input = |text: &str| TextInput {
            cursor: text.len(),
            text: text.to_owned(),
            ..TextInput::default()
        };
        assert_eq!(input("abcd").rows(3, 9).texts, ["abc", "d"]);
        assert_eq!(input("abcd").rows(3, 9).cursor, (1, 1));
        assert_eq!(input("abc").rows(3, 9).texts, ["abc", ""]);
        assert_eq!(input("abc").rows(3, 9).cursor, (1, 0));
        assert_eq!(input("日本").rows(3, 9).cursor, (1, 2));
        assert_eq!(input("a\n").rows(3, 9).cursor, (1, 0));
    }

    #[test]
    fn hidden_characters_are_seen_and_stay_in_the_text() {
        let mut input = TextInput::default();
        input.set("a\rb\u{200b}\tc\r\nd");
        assert_eq!(input.rows(40, 9).texts, ["a␍b<U+200B>    c", "d"]);
        assert_eq!(input.text(), "a\rb\u{200b}\tc\nd");
    }

    #[test]
    fn of_a_long_text_the_rows_around_the_cursor_are_shown() {
        let mut input = TextInput::default();
        input.set("a\nb\nc\nd\ne");
        assert_eq!(input.rows(9, 3).texts, ["c", "d", "e"]);
        assert!(!input.rows(9, 3).from_the_start);
        input.cursor = 2;
        let rows = input.rows(9, 3);
        assert_eq!(
            (&rows.texts[..], rows.cursor),
            (&["a", "b", "c"].map(String::from)[..], (1, 0))
        );
        assert!(rows.from_the_start);
        // In a long line, the rows above the cursor's row stay as they are while the user types.
        input.set(&"é1234567".repeat(20_000));
        let before = input.rows(80, 5);
        input.edit(&Insert("x".to_owned()));
        let after = input.rows(80, 5);
        assert_eq!(before.texts.len(), 5);
        assert_eq!(before.texts[..4], after.texts[..4]);
        assert_eq!(after.cursor, (4, before.cursor.1 + 1));
    }
}
