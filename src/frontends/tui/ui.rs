//! State of a terminal that shows a session, and the operations that do not depend on a key: draw, give the terminal
//! away, take it back, wait for replies.

use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Instant;

use super::clock::{earlier, now};
use super::complete::{FileIndex, KnownModels};
use super::conversation::Conversation;
use super::draw;
use super::editor::ExternalEditor;
use super::history::History;
use super::keyboard::{KeyPress, Keyboard};
use super::login_attempt::LoginAttempt;
use super::news::Reply;
use super::notify::{self, Alert};
use super::screen::Screen;
use super::setup::{KeyProviders, LogIn, Ollama, StoredSessions};
use super::signals::{self, TerminalSignals};
use super::state::ScreenState;
use super::terminal::{self, RawTerminal, size};
use tandem_agent::session::{SessionCommand, TurnId};

/// Minimum time between two drawings that no key caused.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(30);

/// State of a terminal that shows a session, and everything that its loop uses.
pub(super) struct Ui {
    pub(super) session: Conversation,
    pub(super) state: ScreenState,
    pub(super) terminal: RawTerminal,
    pub(super) screen: Screen,
    /// Reader of the keys; `None` while another program has the terminal.
    pub(super) keyboard: Option<Keyboard>,
    pub(super) history: History,
    /// Number of connections of other clients; `None` without a server.
    pub(super) clients: Option<watch::Receiver<usize>>,
    pub(super) signals: TerminalSignals,
    pub(super) editor: ExternalEditor,
    /// Number of rows of the terminal.
    pub(super) height: usize,
    /// Files of the workspace, once they have been asked for.
    pub(super) files: Option<FileIndex>,
    /// `true` while the files are being looked for.
    pub(super) finding: bool,
    /// Prompts of MCP servers, as they were when a command was last begun.
    pub(super) prompts: Vec<SessionCommand>,
    /// Models that the user can choose.
    pub(super) models: KnownModels,
    /// Pending replies of the session, each with its continuation.
    pub(super) replies: FuturesUnordered<BoxFuture<'static, Continuation>>,
    /// Index up to which a long conversation is read before its end is shown.
    pub(super) long_until: Option<usize>,
    pub(super) sessions: Option<StoredSessions>,
    pub(super) login: Option<LogIn>,
    pub(super) providers: Option<KeyProviders>,
    pub(super) ollama: Option<Ollama>,
    /// `true` if Ollama must be asked for its models after the next drawing.
    pub(super) look_for_ollama: bool,
    /// Login that is in progress.
    pub(super) login_attempt: Option<LoginAttempt>,
    /// Id of the model that was used before the user chose the demonstration.
    pub(super) before_demo: Option<String>,
    /// Time at which the screen must be drawn, if anything has changed.
    pub(super) due: Option<Instant>,
    pub(super) last_drawn: Instant,
    /// Window's title that was set last; `None` if the program may not call the user's attention.
    pub(super) title: Option<String>,
    pub(super) in_tmux: bool,
    /// Time at which Ctrl+C was pressed last.
    pub(super) interrupted: Option<Instant>,
    /// Last key and its time, if a question took the key: the same key again is meant for the next question.
    pub(super) answered: Option<(KeyPress, Instant)>,
    /// Time of the last Esc that closed and cancelled nothing.
    pub(super) escaped: Option<Instant>,
    /// Turn of another client that the user began to cancel, and the time at which the user was asked to confirm that.
    pub(super) confirming: Option<(TurnId, Instant)>,
    /// Reason why the screen ends; `None` until then.
    pub(super) quits: Option<Quit>,
}

/// Reason why the terminal's screen ends.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Quit {
    /// The user wants to quit.
    Wanted,
    /// A signal came; the number of the signal.
    Signal(i32),
    /// Another session was opened, and will be shown.
    Opened,
    /// The session is over; the reason.
    Ended(String),
}

/// Continuation that runs when a reply has come.
pub(super) type Continuation = Box<dyn FnOnce(&mut Ui) + Send>;

impl Ui {
    /// Rings the bell, if the program may call the user's attention. Except on the console of Linux, a notification
    /// is sent as well.
    pub(super) fn alert(&mut self, alert: Alert) {
        if self.title.is_some() {
            let call = notify::call(alert, &self.state.about.workspace, terminal::is_console());
            self.terminal.write(call);
        }
    }

    /// Returns the bytes that set the window's title to the session's state; an empty string if the title is right
    /// already.
    fn retitle(&mut self) -> String {
        let Some(shown) = self.title.as_mut().filter(|_| !terminal::is_console()) else {
            return String::new();
        };
        let title = notify::title(&self.state);
        if title == *shown {
            return String::new();
        }
        let written = notify::set_title(&title);
        *shown = title;
        written
    }

    /// Registers a reply to wait for, and the function that runs when the reply has come.
    pub(super) fn on_reply<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        then: impl FnOnce(&mut Self, Result<T, String>) + Send + 'static,
    ) {
        let next = reply.map(|reply| -> Continuation { Box::new(move |ui| then(ui, reply)) });
        self.replies.push(next.boxed());
    }

    /// Requests a drawing, at least `MIN_FRAME_INTERVAL` after the last drawing.
    pub(super) fn changed(&mut self) {
        self.due = Some(earlier(self.due, self.last_drawn + MIN_FRAME_INTERVAL));
    }

    pub(super) fn draw(&mut self) {
        let (columns, now) = (self.screen.columns(), now());
        let mut rows = Vec::new();
        for item in self.state.transcript.take_finished(columns) {
            let shown = draw::item(&item, self.state.transcript.unfolded, columns);
            rows.extend(shown.rows);
            if !shown.whole {
                self.state.transcript.keep_short(item);
            }
        }
        let frame = draw::live(&self.state, columns, self.height.saturating_sub(1), now);
        let written = self.screen.update(&rows, frame) + &self.retitle();
        if !written.is_empty() {
            self.terminal.write(written);
        }
        let unread = self.state.questions.shown().is_some_and(|dialog| !dialog.ready(now))
            || self.state.offer.as_ref().is_some_and(|offer| !offer.ready(now));
        // During its grace period a question does not take keys; it must be drawn again once it does.
        self.due = unread.then(|| Instant::now() + MIN_FRAME_INTERVAL * 4);
        self.last_drawn = Instant::now();
    }

    pub(super) async fn resized(&mut self) {
        self.terminal.written().await;
        let (columns, rows) = size();
        self.height = rows;
        let written = self.screen.resized(columns, rows);
        self.terminal.write(written);
    }

    /// Stops the process as Ctrl+Z does for other programs, and draws the screen anew when the process continues.
    pub(super) fn suspend(&mut self) -> anyhow::Result<()> {
        if !signals::can_stop() {
            self.state.hint = Some("there is no shell to go back to".to_owned());
            self.changed();
            return Ok(());
        }
        self.leave();
        signals::stop();
        self.come_back()
    }

    /// Gives the terminal to another program, without the live rows.
    pub(super) fn leave(&mut self) {
        self.keyboard = None;
        let cleared = self.screen.clear();
        self.terminal.give_back(&cleared);
    }

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
}

impl Drop for Ui {
    /// Gives the terminal back with only the history on it.
    fn drop(&mut self) {
        // Drawing the items may have caused the panic, and would panic again.
        if std::thread::panicking() {
            let last = self.screen.clear();
            return self.terminal.give_back(&last);
        }
        self.state.questions.open.clear();
        self.state.offer = None;
        self.state.picker = None;
        self.state.rewind = None;
        let columns = self.screen.columns();
        let mut rows = Vec::new();
        for item in &self.state.transcript.items {
            rows.extend(draw::item(item, self.state.transcript.unfolded, columns).rows);
        }
        let mut last = self.screen.update(&rows, draw::LiveRows::default());
        last.push_str(&self.screen.clear());
        self.terminal.give_back(&last);
    }
}
