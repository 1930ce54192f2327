//! A person in a terminal: the session's history in the terminal's own scrollback, and below it
//! what is going on, the questions, and a line to type in.
//!
//! `state` holds what is shown and `draw` makes rows of it; `keys` says what a key means, `act`
//! does it; `screen` writes only what changes. One loop waits for keys, for events and, only while
//! something runs, for the clock.

mod act;
mod complete;
mod dialog;
mod draw;
mod editor;
mod highlight;
mod history;
mod input;
mod item;
mod keys;
mod local;
mod markdown;
mod offer;
mod prompt;
mod screen;
mod service;
mod signals;
mod state;
mod terminal;
mod theme;
mod wrap;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use crossterm::event::{Event as Input, EventStream};
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::act::Entering;
use self::history::History;
use self::offer::{Cause, Then};
use self::screen::Screen;
pub use self::service::{GotKey, LogIn, Login, Opened, Service};
use self::signals::{Came, Signals};
use self::state::{About, State};
use self::terminal::Terminal;
use crate::session::{Millis, Reader, Session};

/// How often, at the most, the screen is drawn for what comes by itself.
const FRAME: Duration = Duration::from_millis(30);

/// How many events are taken in before it is looked for keys again.
const BATCH: usize = 2000;

/// How long the last rows may take to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Runs until the user quits, or a signal comes that a terminal sends, whose number it returns. The
/// terminal is given back even if this is dropped, or panics, which is an error.
pub async fn run(service: Service) -> anyhow::Result<Option<i32>> {
    let ran = AssertUnwindSafe(show(service)).catch_unwind().await;
    ran.unwrap_or_else(|panic| Err(anyhow!("a fault in the screen ended it: {}", words(&*panic))))
}

async fn show(service: Service) -> anyhow::Result<Option<i32>> {
    let signals = Signals::listen()?;
    let terminal = Terminal::take().context("the terminal cannot be used")?;
    let (columns, rows) = size();
    let about = About {
        model: wrap::clean(&service.session.model()),
        mode: service.session.mode(),
        workspace: wrap::clean(&service.workspace),
        a2a: service.a2a.as_ref().map(|(address, clients)| (address.clone(), *clients.borrow())),
        input_limit: None,
    };
    let mut ui = Ui {
        log: service.session.events(0),
        screen: Screen::new(columns, service.colour),
        history: History::open(service.history),
        clients: service.a2a.map(|(_, clients)| clients),
        session: service.session,
        editor: service.editor,
        state: State::new(about),
        keys: Some(EventStream::new()),
        terminal,
        signals,
        height: rows,
        files: None,
        finding: None,
        login: service.login,
        entering: None,
        before_demo: None,
        due: Some(Instant::now()),
        last_drawn: Instant::now(),
        interrupted: None,
        quits: None,
    };
    ui.session.start_servers();
    if ui.no_key(&[]) {
        ui.offer_login(Cause::Missing, None, Then::Nothing);
    }
    ui.run().await
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no more is known")
}

/// All of it.
struct Ui {
    session: Arc<Session>,
    log: Reader,
    state: State,
    terminal: Terminal,
    screen: Screen,
    /// Taken away while another program has the terminal.
    keys: Option<EventStream>,
    history: History,
    clients: Option<watch::Receiver<usize>>,
    signals: Signals,
    editor: String,
    height: usize,
    /// The files of the workspace, once they have been asked for.
    files: Option<Vec<String>>,
    finding: Option<JoinHandle<Vec<String>>>,
    login: Option<LogIn>,
    /// A key that is being got hold of.
    entering: Option<Entering>,
    /// The model that answered before the demonstration was chosen.
    before_demo: Option<String>,
    /// When the screen is to be drawn, if anything has changed.
    due: Option<Instant>,
    last_drawn: Instant,
    /// When Ctrl+C was pressed last.
    interrupted: Option<Instant>,
    /// It ends, because of a signal if there is one.
    quits: Option<Quit>,
}

/// Why it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quit {
    /// The user wants it.
    Wanted,
    /// A signal came; its number.
    Signal(i32),
}

impl Ui {
    async fn run(mut self) -> anyhow::Result<Option<i32>> {
        while self.quits.is_none() {
            let turning = self.state.turns().then(|| self.last_drawn + spin());
            let due = match (self.due, turning) {
                (Some(due), Some(turning)) => Some(due.min(turning)),
                (due, turning) => due.or(turning),
            };
            let due = due.filter(|_| !self.terminal.busy());
            tokio::select! {
                biased;
                key = next_key(&mut self.keys) => match key {
                    Some(Ok(input)) => self.input(input).await?,
                    // The terminal is gone.
                    Some(Err(_)) | None => self.quits = Some(Quit::Wanted),
                },
                () = self.terminal.written(), if self.terminal.busy() => {}
                () = until(due), if due.is_some() => self.draw(),
                came = self.signals.next() => match came {
                    Came::Stop => self.suspend()?,
                    Came::End(signal) => self.quits = Some(Quit::Signal(signal)),
                },
                files = found(&mut self.finding), if self.finding.is_some() => {
                    self.finding = None;
                    self.files = Some(files);
                    self.offer();
                    self.changed();
                }
                step = act::step(&mut self.entering) => {
                    self.entered(step);
                    self.changed();
                }
                clients = changed(&mut self.clients) => {
                    self.state.about.a2a.iter_mut().for_each(|(_, count)| *count = clients);
                    self.changed();
                }
                () = self.log.ready() => self.read(),
            }
        }
        // What is being written comes before the last rows.
        let _ = tokio::time::timeout(LAST_WORDS, self.terminal.written()).await;
        Ok(match self.quits {
            Some(Quit::Signal(signal)) => Some(signal),
            _ => None,
        })
    }

    /// Takes in what has happened.
    fn read(&mut self) {
        for _ in 0..BATCH {
            let Some(entry) = self.log.try_next_entry() else { break };
            self.state.apply(&entry.event, entry.at);
        }
        if let Some((at, then)) = self.state.refused.take()
            && self.login.is_some()
            && self.state.offer.is_none()
        {
            self.offer_login(Cause::Refused, Some(at), then);
        }
        if self.state.usage.is_some() && self.state.about.input_limit.is_none() {
            self.state.about.input_limit = self.session.input_limit();
        }
        self.changed();
    }

    /// The screen is to be drawn, but not too often.
    fn changed(&mut self) {
        self.due.get_or_insert(self.last_drawn + FRAME);
    }

    fn draw(&mut self) {
        let (columns, now) = (self.screen.columns(), now());
        let mut rows = Vec::new();
        for item in self.state.take_finished() {
            rows.extend(draw::finished(&item, self.state.unfolded, columns));
        }
        let frame = draw::live(&self.state, columns, self.height.saturating_sub(1), now);
        let written = self.screen.update(&rows, frame);
        if !written.is_empty() {
            self.terminal.write(written);
        }
        let unread = self.state.dialogs.front().is_some_and(|dialog| !dialog.ready(now))
            || self.state.offer.as_ref().is_some_and(|offer| !offer.ready(now));
        // What is asked shows its keys when they count.
        self.due = unread.then(|| Instant::now() + FRAME * 4);
        self.last_drawn = Instant::now();
    }

    /// A key, pasted text, or another size.
    async fn input(&mut self, input: Input) -> anyhow::Result<()> {
        match input {
            Input::Key(key) if key.is_press() || key.is_repeat() => self.key(key).await?,
            Input::Paste(text) => self.pasted(text),
            // Some terminals tell twice.
            Input::Resize(..) if size() != (self.screen.columns(), self.height) => {
                self.resized().await;
            }
            _ => {}
        }
        // Who types sees at once what.
        self.due = Some(Instant::now());
        Ok(())
    }

    async fn resized(&mut self) {
        self.terminal.written().await;
        let (columns, rows) = size();
        self.height = rows;
        let written = self.screen.resized(columns, rows);
        self.terminal.write(written);
    }

    /// Stops, as other programs do; when it goes on, the screen is drawn anew.
    fn suspend(&mut self) -> anyhow::Result<()> {
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
    fn leave(&mut self) {
        self.keys = None;
        let cleared = self.screen.clear();
        self.terminal.give_back(&cleared);
    }

    fn come_back(&mut self) -> anyhow::Result<()> {
        self.terminal.take_again().context("the terminal cannot be used again")?;
        self.keys = Some(EventStream::new());
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
        let columns = self.screen.columns();
        let mut rows = Vec::new();
        for item in &self.state.items {
            rows.extend(draw::finished(item, self.state.unfolded, columns));
        }
        let mut last = self.screen.update(&rows, draw::Frame::default());
        last.push_str(&self.screen.clear());
        self.terminal.give_back(&last);
    }
}

/// Milliseconds since the beginning of 1970, as the log counts.
fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

fn spin() -> Duration {
    Duration::from_millis(u64::try_from(draw::SPIN).unwrap_or(100))
}

/// Columns and rows, also of a terminal that does not tell.
fn size() -> (usize, usize) {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns.into(), rows.into()),
        _ => (80, 24),
    }
}

async fn next_key(keys: &mut Option<EventStream>) -> Option<std::io::Result<Input>> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn found(finding: &mut Option<JoinHandle<Vec<String>>>) -> Vec<String> {
    match finding {
        Some(finding) => finding.map(Result::unwrap_or_default).await,
        None => std::future::pending().await,
    }
}

/// How many clients there are, when that has changed.
async fn changed(clients: &mut Option<watch::Receiver<usize>>) -> usize {
    if let Some(clients) = clients
        && clients.changed().await.is_ok()
    {
        return *clients.borrow();
    }
    // There is no server, or it has ended.
    std::future::pending().await
}

#[cfg(test)]
mod screens;
