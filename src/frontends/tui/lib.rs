//! A person in a terminal: the session's history in the terminal's own scrollback, and below it
//! what is going on, the questions, and a line to type in.
//!
//! `state` holds what is shown and `draw` makes rows of it; `keys` says what a key means, `act`
//! does it; `screen` writes only what changes. One loop waits for keys, for events and, only while
//! something runs, for the clock.

mod act;
mod clipboard;
mod clock;
mod complete;
mod conversation;
mod dialog;
mod draw;
mod editor;
mod highlight;
mod history;
mod input;
mod item;
mod keyboard;
mod keys;
mod layout;
mod local;
mod markdown;
mod memo;
mod news;
mod notify;
mod offer;
mod prompt;
mod remote;
mod screen;
mod service;
mod signals;
mod state;
mod terminal;
mod theme;
mod wait;
mod whole;
mod wrap;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::time::Instant;

use self::act::Entering;
use self::clock::{now, until};
use self::complete::FileIndex;
pub use self::conversation::Conversation;
pub use self::editor::Editor;
use self::history::History;
use self::keyboard::{Keyboard, TerminalInput};
use self::news::{News, Reply};
use self::notify::Alert;
use self::offer::{Cause, Then};
pub use self::remote::{Attached, LocalAgent, Remote, attach};
use self::screen::Screen;
pub use self::service::{GotKey, KeyProvider, KeyProviders, LogIn, Login, Ollama, Opened, Service};
use self::signals::{Came, Signals};
use self::state::{Elsewhere, LongTurn, ScreenState, StatusInfo};
use self::terminal::{RawTerminal, size};
use self::wait::{changed, next_key};
use tandem_agent::session::{Entry, SessionCommand, TurnId};
pub use tandem_wire::attach::{ListedSession, SessionSelector};

/// Minimum time between two drawings of what comes by itself.
const FRAME: Duration = Duration::from_millis(30);

/// Time limit for writing the last rows.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Runs until the user quits, or a signal comes that a terminal sends, whose number it returns; an
/// error says why it ended by itself. The terminal is given back even if this is dropped, or panics.
pub async fn run(service: Service) -> anyhow::Result<Option<i32>> {
    let ran = AssertUnwindSafe(show(service)).catch_unwind().await;
    ran.unwrap_or_else(|panic| Err(anyhow!("a fault in the screen ended it: {}", words(&*panic))))
}

async fn show(service: Service) -> anyhow::Result<Option<i32>> {
    anyhow::ensure!(
        terminal::kind() != "dumb",
        "this terminal has no rows that change (TERM=dumb), which a conversation needs: `tandem -p \
         PROMPT` does without"
    );
    let signals = Signals::listen()?;
    let terminal = RawTerminal::take(service.notifies).context("the terminal cannot be used")?;
    let (columns, rows) = size();
    let about = StatusInfo {
        model: service.session.model(),
        mode: service.session.mode(),
        workspace: service.workspace.clone(),
        a2a: service.a2a.as_ref().map(|(address, clients)| (address.clone(), *clients.borrow())),
        elsewhere: service.session.elsewhere().map(|place| Elsewhere { place, lost: false }),
        input_limit: None,
    };
    let mut ui = Ui {
        screen: Screen::new(
            columns,
            service.colour,
            terminal::reflows(|name| std::env::var(name).ok()),
        ),
        history: History::open(service.history),
        clients: service.a2a.map(|(_, clients)| clients),
        state: ScreenState::new(about, service.session.me()),
        session: service.session,
        editor: service.editor,
        keyboard: Some(Keyboard::listen().context("the keyboard cannot be read")?),
        terminal,
        signals,
        height: rows,
        files: None,
        finding: false,
        prompts: Vec::new(),
        replies: FuturesUnordered::new(),
        login: service.login,
        providers: service.providers,
        ollama: service.ollama,
        look_for_ollama: false,
        entering: None,
        before_demo: None,
        due: Some(Instant::now()),
        last_drawn: Instant::now(),
        title: service.notifies.then(String::new),
        in_tmux: service.in_tmux,
        interrupted: None,
        confirming: None,
        quits: None,
    };
    if let Some(session) = ui.session.session() {
        session.start_servers();
    }
    if ui.no_key(&[]) {
        ui.offer_login(Cause::Missing, None, Then::Nothing);
    }
    ui.run().await
}

/// Returns the message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no more is known")
}

/// All of it.
struct Ui {
    session: Conversation,
    state: ScreenState,
    terminal: RawTerminal,
    screen: Screen,
    /// Taken away while another program has the terminal.
    keyboard: Option<Keyboard>,
    history: History,
    clients: Option<watch::Receiver<usize>>,
    signals: Signals,
    editor: Editor,
    height: usize,
    /// The files of the workspace, once they have been asked for.
    files: Option<FileIndex>,
    /// `true` if they are being looked for.
    finding: bool,
    /// The prompts of MCP servers, as they were when a command was begun.
    prompts: Vec<SessionCommand>,
    /// Replies of the session that are awaited, each with its continuation.
    replies: FuturesUnordered<BoxFuture<'static, Next>>,
    login: Option<LogIn>,
    providers: Option<KeyProviders>,
    ollama: Option<Ollama>,
    /// `true` if Ollama is to be asked for its models when what is shown is on the screen.
    look_for_ollama: bool,
    /// A key that is being got hold of.
    entering: Option<Entering>,
    /// The model that answered before the demonstration was chosen.
    before_demo: Option<String>,
    /// When the screen is to be drawn, if anything has changed.
    due: Option<Instant>,
    last_drawn: Instant,
    /// The window's title, as far as it has been set; none if the person is not to be called when
    /// they are wanted.
    title: Option<String>,
    in_tmux: bool,
    /// When Ctrl+C was pressed last.
    interrupted: Option<Instant>,
    /// Somebody else's turn, and when it was asked whether it is to be cancelled.
    confirming: Option<(TurnId, Instant)>,
    /// It ends, and why.
    quits: Option<Quit>,
}

/// Why it ends.
#[derive(Clone, PartialEq, Eq)]
enum Quit {
    /// The user wants it.
    Wanted,
    /// A signal came; its number.
    Signal(i32),
    /// The session is over; why.
    Ended(String),
}

/// Continuation that runs when a reply has come.
type Next = Box<dyn FnOnce(&mut Ui) + Send>;

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
                Some(next) = self.replies.next(), if !self.replies.is_empty() => {
                    next(&mut self);
                    self.changed();
                }
                key = next_key(&mut self.keyboard) => match key {
                    Some(input) => self.input(input).await?,
                    // The terminal is gone.
                    None => self.quits = Some(Quit::Wanted),
                },
                () = self.terminal.written(), if self.terminal.busy() => {}
                () = until(due), if due.is_some() => self.draw(),
                came = self.signals.next() => match came {
                    Came::Stop => self.suspend()?,
                    Came::End(signal) => self.quits = Some(Quit::Signal(signal)),
                    Came::Resized => {
                        self.resized().await;
                        self.due = Some(Instant::now());
                    }
                },
                step = act::step(&mut self.entering) => {
                    self.entered(step);
                    self.changed();
                }
                clients = changed(&mut self.clients) => {
                    self.state.about.a2a.iter_mut().for_each(|(_, count)| *count = clients);
                    self.changed();
                }
                news = self.session.news() => self.tell(news),
            }
        }
        // What is being written comes before the last rows.
        let _ = tokio::time::timeout(LAST_WORDS, self.terminal.written()).await;
        if !matches!(self.quits, Some(Quit::Ended(_))) && !self.state.is_lost() {
            // What was asked last is to arrive.
            let all = async { while self.replies.next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_WORDS, all).await;
        }
        match self.quits.take() {
            Some(Quit::Signal(signal)) => Ok(Some(signal)),
            Some(Quit::Ended(why)) => Err(anyhow!(why)),
            Some(Quit::Wanted) | None => Ok(None),
        }
    }

    fn tell(&mut self, news: News) {
        match news {
            News::Entries(entries) => self.read(&entries),
            News::Lost => self.state.set_lost(true),
            News::Restored => self.state.set_lost(false),
            News::Ended(why) => self.quits = Some(Quit::Ended(why)),
        }
        self.changed();
    }

    /// Takes in what has happened.
    fn read(&mut self, entries: &[Entry]) {
        let asked = |ui: &Self| ui.state.dialogs.front().map(|dialog| dialog.call().to_owned());
        let before = asked(self);
        for entry in entries {
            self.state.apply(entry);
        }
        // Who attaches late reads an old question now.
        if asked(self) != before
            && let Some(dialog) = self.state.dialogs.front_mut()
        {
            dialog.shown_at(now());
            self.alert(Alert::Question);
        }
        if let LongTurn::Ended(at) = self.state.long_turn {
            let recent = now() - at < notify::RECENT;
            self.state.long_turn = if recent { LongTurn::Unseen } else { LongTurn::None };
            if recent {
                self.alert(Alert::TurnEnded);
            }
        }
        if let Some((at, then)) = self.state.refused.take()
            && self.login.is_some()
            && self.state.offer.is_none()
        {
            self.offer_login(Cause::Refused, Some(at), then);
        }
        if self.state.projection.context_tokens().is_some()
            && self.state.about.input_limit.is_none()
        {
            self.state.about.input_limit = self.session.input_limit();
        }
    }

    /// Calls the person.
    fn alert(&mut self, alert: Alert) {
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
    fn when<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        then: impl FnOnce(&mut Self, Result<T, String>) + Send + 'static,
    ) {
        let next = reply.map(|reply| -> Next { Box::new(move |ui| then(ui, reply)) });
        self.replies.push(next.boxed());
    }

    /// The screen is to be drawn, but not too often.
    fn changed(&mut self) {
        self.due.get_or_insert(self.last_drawn + FRAME);
    }

    fn draw(&mut self) {
        let (columns, now) = (self.screen.columns(), now());
        let mut rows = Vec::new();
        for item in self.state.take_finished() {
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
        self.find_ollama();
    }

    /// A key, or pasted text.
    async fn input(&mut self, input: TerminalInput) -> anyhow::Result<()> {
        match input {
            TerminalInput::Key(key) => self.key(key).await?,
            TerminalInput::Paste(text) => self.pasted(text),
            TerminalInput::PartOfPaste(text) => {
                self.pasted(text);
                let hint = "the pasted text had no end: the line may not have all of it";
                self.state.hint = Some(hint.to_owned());
            }
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
        self.keyboard = None;
        let cleared = self.screen.clear();
        self.terminal.give_back(&cleared);
    }

    fn come_back(&mut self) -> anyhow::Result<()> {
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

fn spin() -> Duration {
    Duration::from_millis(u64::try_from(draw::SPIN).unwrap_or(100))
}

#[cfg(test)]
mod screens;
