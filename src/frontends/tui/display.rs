//! The terminal as a display: its screen, keyboard and title, and the time of the next drawing.

use std::time::Duration;

use anyhow::Context as _;
use tokio::time::Instant;

use super::clock::{earlier, now};
use super::draw;
use super::keyboard::Keyboard;
use super::notify::{self, Alert};
use super::screen::Screen;
use super::state::ScreenState;
use super::terminal::{self, RawTerminal, size};

/// Minimum time between two drawings that no key caused.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(30);

/// The terminal, the screen that is on it, and the time at which the screen must be drawn.
pub(super) struct TerminalDisplay {
    pub(super) terminal: RawTerminal,
    screen: Screen,
    /// Reader of the keys; `None` while another program has the terminal.
    pub(super) keyboard: Option<Keyboard>,
    /// Number of rows of the terminal.
    height: usize,
    /// Time at which the screen must be drawn, if anything has changed.
    due: Option<Instant>,
    last_drawn: Instant,
    /// Window's title that was set last; `None` if the program may not call the user's attention.
    title: Option<String>,
}

impl TerminalDisplay {
    /// Takes the terminal over, in colour if `colour`. The user's attention may be called if `notifies`.
    pub(super) fn take_over(colour: bool, notifies: bool) -> anyhow::Result<Self> {
        let terminal = RawTerminal::take_over(notifies).context("the terminal cannot be used")?;
        let (columns, height) = size();
        let reflows = terminal::reflows(|name| std::env::var(name).ok());
        Ok(Self {
            screen: Screen::new(columns, colour, reflows),
            keyboard: Some(Keyboard::listen().context("the keyboard cannot be read")?),
            terminal,
            height,
            due: Some(Instant::now()),
            last_drawn: Instant::now(),
            title: notifies.then(String::new),
        })
    }

    /// Returns the number of columns of the screen.
    pub(super) fn columns(&self) -> usize {
        self.screen.columns()
    }

    /// Calls the user's attention to an event in a workspace, unless that is not wanted.
    pub(super) fn alert(&mut self, alert: Alert, workspace: &str) {
        if self.title.is_some() {
            let call = notify::call(alert, workspace, terminal::is_console());
            self.terminal.write(call);
        }
    }

    /// Returns the bytes that set the window's title to the session's state; an empty string if the title is right
    /// already.
    fn retitle(&mut self, state: &ScreenState) -> String {
        let Some(shown) = self.title.as_mut().filter(|_| !terminal::is_console()) else {
            return String::new();
        };
        let title = notify::title(state);
        if title == *shown {
            return String::new();
        }
        let written = notify::set_title(&title);
        *shown = title;
        written
    }

    /// Requests a drawing, at least `MIN_FRAME_INTERVAL` after the last one.
    pub(super) fn changed(&mut self) {
        self.due = Some(earlier(self.due, self.last_drawn + MIN_FRAME_INTERVAL));
    }

    /// Requests a drawing without delay.
    pub(super) fn changed_by_user(&mut self) {
        self.due = Some(Instant::now());
    }

    /// Returns the time of the next drawing. The spinner is drawn `spin` after the last drawing, if it turns.
    pub(super) fn next_drawing(&self, spin: Option<Duration>) -> Option<Instant> {
        let turning = spin.map(|spin| self.last_drawn + spin);
        match (self.due, turning) {
            (Some(due), Some(turning)) => Some(due.min(turning)),
            (due, turning) => due.or(turning),
        }
    }

    /// Draws the state. Items in their final form go into the scrollback.
    pub(super) fn draw(&mut self, state: &mut ScreenState) {
        let (columns, now) = (self.screen.columns(), now());
        let mut rows = Vec::new();
        for item in state.transcript.take_finished(columns) {
            let shown = draw::item(&item, state.transcript.unfolded, columns);
            rows.extend(shown.rows);
            if !shown.whole {
                state.transcript.keep_short(item);
            }
        }
        let frame = draw::live(state, columns, self.height.saturating_sub(1), now);
        let written = self.screen.update(&rows, frame) + &self.retitle(state);
        if !written.is_empty() {
            self.terminal.write(written);
        }
        let unread = state.questions.shown().is_some_and(|dialog| !dialog.ready(now))
            || state.offer.as_ref().is_some_and(|offer| !offer.ready(now));
        // During its grace period a question does not take keys; it must be drawn again once it does.
        self.due = unread.then(|| Instant::now() + MIN_FRAME_INTERVAL * 4);
        self.last_drawn = Instant::now();
    }

    /// Takes in a new size of the terminal, or draws anew what another program has written over.
    pub(super) async fn resized(&mut self) {
        self.terminal.written().await;
        let (columns, rows) = size();
        self.height = rows;
        let written = self.screen.resized(columns, rows);
        self.terminal.write(written);
    }

    /// Gives the terminal to another program, without the live rows.
    pub(super) fn leave(&mut self) {
        self.keyboard = None;
        let cleared = self.screen.clear();
        self.terminal.give_back(&cleared);
    }

    /// Takes the terminal back from another program.
    pub(super) fn come_back(&mut self) -> anyhow::Result<()> {
        self.terminal.take_again().context("the terminal cannot be used again")?;
        self.title.iter_mut().for_each(String::clear);
        self.keyboard = Some(Keyboard::listen().context("the keyboard cannot be read again")?);
        let (columns, rows) = size();
        let cleared = self.screen.resized(columns, rows);
        self.terminal.write(cleared);
        self.height = rows;
        self.changed();
        Ok(())
    }

    /// Gives the terminal back for good, with only the history on it.
    pub(super) fn give_back(&mut self, state: &ScreenState) {
        let columns = self.screen.columns();
        let mut rows = Vec::new();
        for item in &state.transcript.items {
            rows.extend(draw::item(item, state.transcript.unfolded, columns).rows);
        }
        let mut last = self.screen.update(&rows, draw::LiveRows::default());
        last.push_str(&self.screen.clear());
        self.terminal.give_back(&last);
    }
}
