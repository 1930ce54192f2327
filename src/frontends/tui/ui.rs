//! All that a terminal's session holds, and what can be done with it whatever the user does: it is
//! drawn, given away and taken back, and waits for replies.

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

/// Minimum time between two drawings of what comes by itself.
const FRAME: Duration = Duration::from_millis(30);

/// State of a terminal that shows a session, and all that it works with.
pub(super) struct Ui {
    pub(super) session: Conversation,
    pub(super) state: ScreenState,
    pub(super) terminal: RawTerminal,
    pub(super) screen: Screen,
    /// Taken away while another program has the terminal.
    pub(super) keyboard: Option<Keyboard>,
    pub(super) history: History,
    pub(super) clients: Option<watch::Receiver<usize>>,
    pub(super) signals: TerminalSignals,
    pub(super) editor: ExternalEditor,
    pub(super) height: usize,
    /// The files of the workspace, once they have been asked for.
    pub(super) files: Option<FileIndex>,
    /// `true` if they are being looked for.
    pub(super) finding: bool,
    /// The prompts of MCP servers, as they were when a command was begun.
    pub(super) prompts: Vec<SessionCommand>,
    /// The models to choose from.
    pub(super) models: KnownModels,
    /// Replies of the session that are awaited, each with its continuation.
    pub(super) replies: FuturesUnordered<BoxFuture<'static, Next>>,
    /// Index up to which a long conversation is read before its end is shown.
    pub(super) long_until: Option<usize>,
    pub(super) sessions: Option<StoredSessions>,
    pub(super) login: Option<LogIn>,
    pub(super) providers: Option<KeyProviders>,
    pub(super) ollama: Option<Ollama>,
    /// `true` if Ollama is to be asked for its models when what is shown is on the screen.
    pub(super) look_for_ollama: bool,
    /// A key that is being got hold of.
    pub(super) login_attempt: Option<LoginAttempt>,
    /// The model that answered before the demonstration was chosen.
    pub(super) before_demo: Option<String>,
    /// Time at which the screen is to be drawn, if anything has changed.
    pub(super) due: Option<Instant>,
    pub(super) last_drawn: Instant,
    /// The window's title, as far as it has been set; none if the person is not to be called when
    /// they are wanted.
    pub(super) title: Option<String>,
    pub(super) in_tmux: bool,
    /// Time at which Ctrl+C was pressed last.
    pub(super) interrupted: Option<Instant>,
    /// The last key, if a question took it, and its time: the same key again is meant for the next
    /// question.
    pub(super) answered: Option<(KeyPress, Instant)>,
    /// Time at which Esc was pressed last where it had nothing to close or cancel.
    pub(super) escaped: Option<Instant>,
    /// Somebody else's turn, and when it was asked whether it is to be cancelled.
    pub(super) confirming: Option<(TurnId, Instant)>,
    /// Reason for which it is to end, if it is.
    pub(super) quits: Option<Quit>,
}

/// Reason for which the terminal's session ends.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Quit {
    /// The user wants it.
    Wanted,
    /// A signal came; its number.
    Signal(i32),
    /// Another session was opened, which is to be shown.
    Opened,
    /// The session is over; why.
    Ended(String),
}

/// Continuation that runs when a reply has come.
pub(super) type Next = Box<dyn FnOnce(&mut Ui) + Send>;

impl Ui {
    /// Calls the person.
    pub(super) fn alert(&mut self, alert: Alert) {
        if self.title.is_some() {
            let call = notify::call(alert, &self.state.about.workspace, terminal::is_console());
            self.terminal.write(call);
        }
    }

    /// Returns the text to write so that the window's title says how the session goes; empty if the
    /// title does already.
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

    /// Waits for a reply beside everything else.
    pub(super) fn when<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        then: impl FnOnce(&mut Self, Result<T, String>) + Send + 'static,
    ) {
        let next = reply.map(|reply| -> Next { Box::new(move |ui| then(ui, reply)) });
        self.replies.push(next.boxed());
    }

    /// The screen is to be drawn, but not too often.
    pub(super) fn changed(&mut self) {
        self.due = Some(earlier(self.due, self.last_drawn + FRAME));
    }

    pub(super) fn draw(&mut self) {
        let (columns, now) = (self.screen.columns(), now());
        let mut rows = Vec::new();
        for item in self.state.take_finished(columns) {
            let shown = draw::item(&item, self.state.unfolded, columns);
            rows.extend(shown.rows);
            if !shown.whole {
                self.state.keep_short(item);
            }
        }
        let frame = draw::live(&self.state, columns, self.height.saturating_sub(1), now);
        let written = self.screen.update(&rows, frame) + &self.retitle();
        if !written.is_empty() {
            self.terminal.write(written);
        }
        let unread = self.state.dialogs.front().is_some_and(|dialog| !dialog.ready(now))
            || self.state.offer.as_ref().is_some_and(|offer| !offer.ready(now));
        // What is asked shows its keys when they count.
        self.due = unread.then(|| Instant::now() + FRAME * 4);
        self.last_drawn = Instant::now();
    }

    pub(super) async fn resized(&mut self) {
        self.terminal.written().await;
        let (columns, rows) = size();
        self.height = rows;
        let written = self.screen.resized(columns, rows);
        self.terminal.write(written);
    }

    /// Stops, as other programs do; when it goes on, the screen is drawn anew.
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

    /// Gives the terminal to somebody else.
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
    /// Leaves the history on the screen, and nothing else.
    fn drop(&mut self) {
        // What has made it panic would do so again.
        if std::thread::panicking() {
            let last = self.screen.clear();
            return self.terminal.give_back(&last);
        }
        self.state.dialogs.clear();
        self.state.offer = None;
        self.state.picker = None;
        self.state.rewind = None;
        let columns = self.screen.columns();
        let mut rows = Vec::new();
        for item in &self.state.items {
            rows.extend(draw::item(item, self.state.unfolded, columns).rows);
        }
        let mut last = self.screen.update(&rows, draw::LiveRows::default());
        last.push_str(&self.screen.clear());
        self.terminal.give_back(&last);
    }
}
