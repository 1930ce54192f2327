//! Front end for a person in a terminal: the session's history in the terminal's own scrollback, and below it the
//! current activity, the questions, and a line to type in.
//!
//! `state` holds the content of the screen, with the `transcript` and the `questions`, and `draw` makes rows of it.
//! `keys` gives each key its meaning, and `act` carries that out on the `ui`, which composes the parts. `display` has the
//! terminal, and `screen` writes only what changes. One loop waits for keys, for events and, only while something runs,
//! for the clock.

mod act;
mod choose;
mod clipboard;
mod clock;
mod complete;
mod conversation;
mod dialog;
mod display;
mod draw;
mod editor;
mod highlight;
mod history;
mod input;
mod input_sources;
mod item;
mod keyboard;
mod keys;
mod layout;
mod local;
mod login_attempt;
mod login_service;
mod markdown;
mod memo;
mod model_menu;
mod news;
mod notify;
mod offer;
mod picker;
mod played;
mod prompt;
mod questions;
mod recent_keys;
mod remote;
mod rewind;
mod screen;
mod setup;
mod signals;
mod state;
mod terminal;
mod theme;
mod transcript;
mod ui;
mod wait;
mod whole;
mod wrap;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::anyhow;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};

pub use self::choose::{Choice, choose};
use self::clock::{now, until};
pub use self::conversation::Conversation;
use self::display::TerminalDisplay;
pub use self::editor::ExternalEditor;
use self::history::History;
use self::input_sources::InputSources;
use self::keyboard::TerminalInput;
use self::login_service::LoginService;
use self::news::SessionNotification;
use self::notify::Alert;
use self::offer::{NextStep, OfferReason};
use self::recent_keys::RecentKeys;
pub use self::remote::{AgentAddress, AttachableAgent, Attached, Remote, attach, connect_acp};
pub use self::setup::{
    GotKey, KeyProvider, KeyProviders, LogIn, Login, MakeDefault, OpenSession, Opened,
    StoredSessions, TerminalEnd, TerminalSetup,
};
use self::signals::{TerminalSignal, TerminalSignals};
use self::state::{LongTurn, RemoteSessionInfo, ScreenState, StatusInfo};
use self::ui::{Quit, Ui};
use self::wait::{changed, next_key};
use tandem_agent::session::Entry;
pub use tandem_wire::attach::{ListedSession, SessionSelector};

/// Time limit for each of the two waits at the end: for the last write, and for the pending replies.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Shows a session until the user quits, opens another session, or a signal comes of the kind that a terminal sends; an
/// error says why the session ended by itself. The terminal is given back even if this future is dropped or panics.
pub async fn run(setup: TerminalSetup) -> anyhow::Result<TerminalEnd> {
    // After a panic, the state of the screen is dropped with the future, so no code sees it half changed.
    let ran = AssertUnwindSafe(show(setup)).catch_unwind().await;
    ran.unwrap_or_else(|panic| Err(anyhow!("a bug in tandem ended the screen: {}", words(&*panic))))
}

async fn show(setup: TerminalSetup) -> anyhow::Result<TerminalEnd> {
    terminal::ensure_usable()?;
    let signals = TerminalSignals::listen()?;
    let display = TerminalDisplay::take_over(setup.colour, setup.notifies)?;
    let about = status_info(&setup);
    let mut ui = Ui {
        display,
        sources: InputSources::new(History::open(setup.history)),
        clients: setup.a2a.map(|(_, clients)| clients),
        state: ScreenState::new(about, setup.session.me()),
        session: setup.session,
        editor: setup.editor,
        signals,
        replies: FuturesUnordered::new(),
        long_until: None,
        sessions: setup.sessions,
        login: LoginService::new(setup.login, setup.providers, setup.make_default),
        in_tmux: setup.in_tmux,
        recent_keys: RecentKeys::default(),
        quits: None,
    };
    ui.long_until = ui.session.long_until();
    ui.state.transcript.catching_up = ui.long_until.is_some();
    if let Some(session) = ui.session.session() {
        session.start_servers();
    }
    ui.look_for_importable(setup.importable);
    if ui.no_key(&[]) {
        ui.offer_login(OfferReason::Missing, None, NextStep::Nothing);
    }
    ui.run().await
}

/// Returns the first content of the status line.
fn status_info(setup: &TerminalSetup) -> StatusInfo {
    StatusInfo {
        model: setup.session.model(),
        thinking: None,
        mode: setup.session.mode(),
        workspace: setup.workspace.clone(),
        a2a: setup.a2a.as_ref().map(|(address, clients)| (address.clone(), *clients.borrow())),
        elsewhere: setup.session.elsewhere().map(|place| RemoteSessionInfo { place, lost: false }),
        title: None,
        input_limit: None,
    }
}

/// Returns the message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the cause is unknown")
}

impl Ui {
    async fn run(mut self) -> anyhow::Result<TerminalEnd> {
        while self.quits.is_none() {
            let due = self.display.next_drawing(self.state.turns().then(spin));
            // While a write is pending, nothing is drawn: a slow terminal then gets the newest state, and no queue of
            // old ones.
            let due = due.filter(|_| !self.display.terminal.busy());
            tokio::select! {
                // Keys come before news, so that a fast answer does not delay the user's typing.
                biased;
                Some(next) = self.replies.next(), if !self.replies.is_empty() => {
                    next(&mut self);
                    self.display.changed();
                }
                key = next_key(&mut self.display.keyboard) => match key {
                    Some(input) => self.input(input).await?,
                    // The terminal is gone.
                    None => self.quits = Some(Quit::Wanted),
                },
                () = self.display.terminal.written(), if self.display.terminal.busy() => {}
                () = until(due), if due.is_some() => {
                    self.display.draw(&mut self.state);
                    self.find_models_here();
                }
                came = self.signals.next() => match came {
                    TerminalSignal::Stop => self.suspend()?,
                    TerminalSignal::End(signal) => self.quits = Some(Quit::Signal(signal)),
                    TerminalSignal::Resized => {
                        self.display.resized().await;
                        self.display.changed_by_user();
                    }
                },
                step = login_attempt::step(&mut self.login.attempt) => {
                    self.entered(step);
                    self.display.changed();
                }
                clients = changed(&mut self.clients) => {
                    self.state.about.a2a.iter_mut().for_each(|(_, count)| *count = clients);
                    self.display.changed();
                }
                news = self.session.next_notification() => self.tell(news),
            }
        }
        // The pending write must end before the last rows are written.
        let _ = tokio::time::timeout(LAST_WORDS, self.display.terminal.written()).await;
        if !matches!(self.quits, Some(Quit::Ended(_))) && !self.state.is_lost() {
            // The last requests, such as a prompt sent just before Ctrl+D, must still reach the session.
            let all = async { while self.replies.next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_WORDS, all).await;
        }
        match self.quits.take() {
            Some(Quit::Signal(signal)) => Ok(TerminalEnd::Signal(signal)),
            Some(Quit::Opened) => Ok(TerminalEnd::Opened),
            Some(Quit::Ended(why)) => Err(anyhow!(why)),
            Some(Quit::Wanted) | None => Ok(TerminalEnd::Quit),
        }
    }

    fn tell(&mut self, news: SessionNotification) {
        match news {
            SessionNotification::Entries(entries) => {
                self.read(&entries);
                if self.is_catching_up() {
                    return;
                }
            }
            SessionNotification::Lost => self.state.set_lost(true),
            SessionNotification::Restored => self.state.set_lost(false),
            SessionNotification::Ended(why) => self.quits = Some(Quit::Ended(why)),
        }
        self.display.changed();
    }

    /// Returns whether a long conversation has not been read up to its end yet; only the end is shown.
    fn is_catching_up(&mut self) -> bool {
        let Some(until) = self.long_until else { return false };
        self.state.transcript.leave_out();
        if !self.session.has_read(until) {
            return true;
        }
        self.long_until = None;
        self.state.transcript.caught_up();
        false
    }

    /// Applies new entries of the log to the state, and calls the user if a question or the end of a long turn is new.
    fn read(&mut self, entries: &[Entry]) {
        let asked = |ui: &Self| ui.state.questions.shown().map(|dialog| dialog.call().to_owned());
        let before = asked(self);
        for entry in entries {
            self.state.apply(entry);
        }
        // A question takes no keys during its grace period, because the user has not read it yet. The period begins
        // when this terminal shows the question: a terminal that attaches late gets questions asked long before.
        if asked(self) != before
            && let Some(dialog) = self.state.questions.shown_mut()
        {
            dialog.shown_at(now());
            self.display.alert(Alert::Question, &self.state.about.workspace);
        }
        if let LongTurn::Ended(at) = self.state.long_turn {
            let recent = now() - at < notify::MAX_EVENT_AGE;
            self.state.long_turn = if recent { LongTurn::Unseen } else { LongTurn::None };
            if recent {
                self.display.alert(Alert::TurnEnded, &self.state.about.workspace);
            }
        }
        if let Some((at, then)) = self.state.refused.take()
            && self.login.is_possible()
            && self.state.offer.is_none()
        {
            self.offer_login(OfferReason::Refused, Some(at), then);
        }
        if self.state.projection.context_tokens().is_some()
            && self.state.about.input_limit.is_none()
        {
            self.state.about.input_limit = self.session.input_limit();
        }
    }

    /// Handles a key or pasted text.
    async fn input(&mut self, input: TerminalInput) -> anyhow::Result<()> {
        match input {
            TerminalInput::Key(key) => self.key(key).await?,
            TerminalInput::Paste(text) => self.pasted(text),
            TerminalInput::PartOfPaste(text) => {
                self.pasted(text);
                let hint = "the paste was cut off: the prompt may not have all of the text";
                self.state.hint = Some(hint.to_owned());
            }
        }
        // The effect of a key is drawn at once, without the minimum time between drawings.
        self.display.changed_by_user();
        Ok(())
    }
}

fn spin() -> Duration {
    Duration::from_millis(u64::try_from(draw::SPINNER_INTERVAL).unwrap_or(100))
}

#[cfg(test)]
mod screens;
