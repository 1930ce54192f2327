//! Tests of the live rows on an emulated terminal.

use std::num::NonZero;

use ratatui_core::text::{Line, Span};

use super::super::draw::LiveRows;
use super::super::theme::{BAD_STYLE, BOLD_STYLE};
use super::Screen;

fn terminal(rows: u16, columns: u16) -> vt100::Parser {
    let size = |size| NonZero::new(size).unwrap();
    vt100::Parser::new(size(rows), size(columns), 100)
}

/// An emulated terminal, and the screen that writes to it.
struct TestTerminal {
    terminal: vt100::Parser,
    screen: Screen,
}

impl TestTerminal {
    fn new(rows: u16, columns: u16) -> Self {
        let screen = Screen::new(usize::from(columns), true, true);
        Self { terminal: terminal(rows, columns), screen }
    }

    fn update(&mut self, finished: &[&str], live: &[&str], cursor: Option<(usize, usize)>) {
        let lines = |texts: &[&str]| -> Vec<Line<'static>> {
            texts.iter().map(|text| Line::raw((*text).to_owned())).collect()
        };
        let frame = LiveRows { rows: lines(live), cursor };
        let written = self.screen.update(&lines(finished), frame);
        self.terminal.process(written.as_bytes());
    }

    /// Returns the rows on the screen, without the empty rows at the end.
    fn rows(&self) -> Vec<String> {
        let screen = self.terminal.screen();
        let (_, columns) = screen.size();
        let rows = screen.rows(0, columns.get()).map(|row| row.trim_end().to_owned());
        let mut rows: Vec<_> = rows.collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// Returns all rows, including those in the scrollback.
    fn everything(&mut self) -> Vec<String> {
        let screen = self.terminal.screen_mut();
        screen.set_scrollback(usize::MAX);
        let off = screen.scrollback();
        let (_, columns) = screen.size();
        let mut all: Vec<_> =
            screen.rows(0, columns.get()).take(off).map(|row| row.trim_end().to_owned()).collect();
        screen.set_scrollback(0);
        all.extend(self.rows());
        all
    }

    #[track_caller]
    fn check(&self, expected: &[&str], cursor: (u16, u16)) {
        assert_eq!(self.rows(), expected);
        assert_eq!(self.terminal.screen().cursor_position(), cursor);
    }
}

#[test]
fn live_rows_change_in_place() {
    let mut stage = TestTerminal::new(6, 20);
    stage.terminal.process(b"$ tandem\r\n");
    stage.update(&[], &["one", "> "], Some((1, 2)));
    stage.check(&["$ tandem", "one", ">"], (2, 2));
    stage.update(&[], &["one", "two", "> x"], Some((2, 3)));
    stage.check(&["$ tandem", "one", "two", "> x"], (3, 3));
    stage.update(&[], &["> x"], Some((0, 3)));
    stage.check(&["$ tandem", "> x"], (1, 3));
}

#[test]
fn finished_rows_go_above_and_scroll_off() {
    let mut stage = TestTerminal::new(4, 20);
    stage.update(&[], &["> "], Some((0, 2)));
    stage.update(&["a", "b"], &["live", "> "], Some((1, 2)));
    stage.check(&["a", "b", "live", ">"], (3, 2));
    stage.update(&["c", "d", "e"], &["> "], Some((0, 2)));
    stage.check(&["c", "d", "e", ">"], (3, 2));
    assert_eq!(stage.everything(), ["a", "b", "c", "d", "e", ">"]);
}

#[test]
fn more_live_rows_than_there_is_room_scroll() {
    let mut stage = TestTerminal::new(3, 20);
    stage.terminal.process(b"above\r\n\r\n");
    stage.update(&[], &["1", "2", "3"], Some((2, 0)));
    stage.check(&["1", "2", "3"], (2, 0));
    assert_eq!(stage.everything(), ["above", "", "1", "2", "3"]);
    stage.update(&[], &["1", "x", "3"], Some((0, 1)));
    stage.check(&["1", "x", "3"], (0, 1));
}

#[test]
fn rows_that_fill_the_width_lose_nothing() {
    let mut stage = TestTerminal::new(5, 4);
    stage.update(&["full"], &["abcd", "efgh"], None);
    stage.check(&["full", "abcd", "efgh"], (2, 4));
    stage.update(&["more"], &["ijkl"], Some((0, 0)));
    stage.check(&["full", "more", "ijkl"], (2, 0));
    stage.update(&[], &["日本", "x"], Some((1, 1)));
    stage.check(&["full", "more", "日本", "x"], (3, 1));
}

#[test]
fn a_live_row_that_is_too_wide_stays_one_row() {
    let mut stage = TestTerminal::new(5, 6);
    stage.update(&["above"], &["one two three", "日本語日本語"], Some((0, 0)));
    stage.check(&["above", "one t…", "日本…"], (1, 0));
}

#[test]
fn what_is_the_same_is_not_written() {
    let mut stage = TestTerminal::new(5, 10);
    let frame = || LiveRows { rows: vec![Line::raw("a"), Line::raw("b")], cursor: Some((1, 1)) };
    assert!(!stage.screen.update(&[], frame()).is_empty());
    assert_eq!(stage.screen.update(&[], frame()), "");
    let mut changed = frame();
    changed.rows[1] = Line::raw("c");
    let written = stage.screen.update(&[], changed);
    assert!(!written.contains('a') && written.contains('c'), "{written:?}");
}

#[test]
fn another_width_leaves_nothing_behind() {
    for columns in [5_u16, 7, 12, 40] {
        let mut stage = TestTerminal::new(10, 12);
        stage.update(&["history"], &["------------", "> text", "status is ok"], Some((1, 3)));
        // The test's terminal wraps its rows anew after a change of size, as most terminals do.
        let rows_of = |width: u16| width.div_ceil(columns).max(1);
        let cursor_row = 1 + rows_of(12) + 3 / columns;
        let mut anew = terminal(10, columns);
        let text = if columns == 12 {
            "history\r\n------------> text\r\nstatus is ok"
        } else {
            "history\r\n------------\r\n> text\r\nstatus is ok"
        };
        anew.process(text.as_bytes());
        anew.process(
            format!("\x1b[{};{}H", cursor_row + 1 + rows_of(7) - 1, 3 % columns + 1).as_bytes(),
        );
        stage.terminal = anew;
        let clear = stage.screen.resized(usize::from(columns), 10);
        stage.terminal.process(clear.as_bytes());
        let kept = stage.rows();
        assert!(kept.iter().all(|row| !row.contains(['-', '>'])), "{columns}: {kept:?}");
    }
}

#[test]
fn a_terminal_that_cuts_its_rows_keeps_what_is_above() {
    for columns in [5_u16, 11, 12, 40] {
        let mut stage = TestTerminal::new(10, 12);
        stage.screen = Screen::new(12, true, false);
        let history = ["one", "two", "three"];
        stage.update(&history, &["------------", "> text", "status is ok"], Some((1, 3)));
        let size = |size| NonZero::new(size).unwrap();
        stage.terminal.screen_mut().set_size(size(10), size(columns));
        let clear = stage.screen.resized(usize::from(columns), 10);
        stage.terminal.process(clear.as_bytes());
        stage.check(&history, (3, 0));
    }
}

#[test]
fn colours_are_left_out_if_that_is_wanted() {
    let line = Line::from(vec![
        Span::styled("bad", BAD_STYLE.patch(BOLD_STYLE)),
        Span::raw(" x\x1b[2J\u{9b}"),
    ]);
    let frame = || LiveRows { rows: vec![line.clone()], cursor: None };
    let coloured = Screen::new(20, true, true).update(&[], frame());
    assert!(coloured.contains("\x1b[0;1;31mbad\x1b[0m x[2J\x1b[K"), "{coloured:?}");
    let plain = Screen::new(20, false, true).update(&[], frame());
    assert!(plain.contains("\x1b[0;1mbad\x1b[0m x"), "{plain:?}");
}

#[test]
fn a_finished_row_may_be_wider_than_the_terminal_and_leaves_nothing_behind() {
    let mut stage = TestTerminal::new(8, 10);
    stage.update(&[], &["xxxxxxxxxx", "yyyyyyyyyy", "> "], Some((2, 2)));
    // The first wide character does not fit into the last cell of its row, so it moves to the next row.
    stage.update(&["123456789日本 end", "next"], &["live", "> "], Some((1, 2)));
    stage.check(&["123456789", "日本 end", "next", "live", ">"], (4, 2));
    stage.update(&["12345678901234567890"], &["live", "> "], Some((1, 2)));
    let expected = ["123456789", "日本 end", "next", "1234567890", "1234567890", "live", ">"];
    assert_eq!(stage.everything(), expected);
    // The screen writes no line break into the wide row, so the terminal breaks the row itself. A user who copies the
    // row from the terminal then gets one line.
    let contents = stage.terminal.screen().contents();
    assert!(contents.lines().any(|line| line == "12345678901234567890"), "{contents}");
}
