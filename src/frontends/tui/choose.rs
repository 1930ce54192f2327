//! Choice of a stored session before any session is on the screen.

use anyhow::Context as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};

use super::clock::now;
use super::draw;
use super::input::Edit;
use super::keyboard::{Keyboard, TerminalInput};
use super::keys::{Focus, Intent, intent};
use super::picker::Picker;
use super::screen::Screen;
use super::setup::{StoredSessions, TerminalEnd};
use super::signals::{self, TerminalSignal, TerminalSignals};
use super::terminal::{self, RawTerminal, size};
use super::wait::next_key;
use tandem_agent::session::{Listed, Query};
use tandem_agent::sessions::SearchHit;

/// State of a terminal in which the user chooses a session.
struct Chooser {
    picker: Picker,
    sessions: StoredSessions,
    terminal: RawTerminal,
    screen: Screen,
    height: usize,
    keyboard: Option<Keyboard>,
    signals: TerminalSignals,
    replies: FuturesUnordered<BoxFuture<'static, Answer>>,
}

/// Reply to a request to the stored sessions.
enum Answer {
    Listed(Query, Result<Vec<Listed>, String>),
    Searched(String, Result<Vec<SearchHit>, String>),
    Opened(Result<(), String>),
}

/// Result of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The user wants a new session.
    New,
    /// The terminal has ended: either a stored session is open now, or the user or a signal has ended the program.
    Ended(TerminalEnd),
}

/// Lets the user choose a stored session, in colour if `colour`.
pub async fn choose(sessions: StoredSessions, colour: bool) -> anyhow::Result<Choice> {
    terminal::ensure_usable()?;
    let signals = TerminalSignals::listen()?;
    let terminal = RawTerminal::take_over(false).context("the terminal cannot be used")?;
    let (columns, height) = size();
    let reflows = terminal::reflows(|name| std::env::var(name).ok());
    let mut chooser = Chooser {
        picker: Picker::new(&sessions.directory, None, ""),
        sessions,
        terminal,
        screen: Screen::new(columns, colour, reflows),
        height,
        keyboard: Some(Keyboard::listen().context("the keyboard cannot be read")?),
        signals,
        replies: FuturesUnordered::new(),
    };
    chooser.list(chooser.picker.first_query());
    let choice = chooser.run().await;
    chooser.give_back();
    choice
}

impl Chooser {
    async fn run(&mut self) -> anyhow::Result<Choice> {
        loop {
            self.draw();
            let ended = tokio::select! {
                biased;
                Some(answer) = self.replies.next(), if !self.replies.is_empty() => {
                    self.handle_answer(answer)
                }
                input = next_key(&mut self.keyboard) => match input {
                    Some(TerminalInput::Key(key)) => match intent(key, Focus::Picker, false) {
                        Some(Intent::Suspend) => {
                            self.suspend()?;
                            None
                        }
                        Some(intent) => self.act(intent),
                        None => None,
                    },
                    Some(TerminalInput::Paste(text) | TerminalInput::PartOfPaste(text)) => {
                        self.picker.edit(&Edit::Insert(text));
                        None
                    }
                    // The terminal is gone.
                    None => Some(Choice::Ended(TerminalEnd::Quit)),
                },
                came = self.signals.next() => match came {
                    TerminalSignal::Stop => {
                        self.suspend()?;
                        None
                    }
                    TerminalSignal::End(signal) => Some(Choice::Ended(TerminalEnd::Signal(signal))),
                    TerminalSignal::Resized => {
                        self.resize();
                        None
                    }
                },
            };
            if let Some(choice) = ended {
                return Ok(choice);
            }
        }
    }

    /// Carries out the meaning of a key. Returns the result if the choice ends by that.
    fn act(&mut self, intent: Intent) -> Option<Choice> {
        match intent {
            Intent::Interrupt | Intent::Quit => return Some(Choice::Ended(TerminalEnd::Quit)),
            Intent::Escape if !self.picker.opening => return Some(Choice::New),
            Intent::Edit(edit) => self.picker.edit(&edit),
            Intent::Up | Intent::Down => self.picker.select(intent == Intent::Down),
            Intent::Complete => {
                self.picker.change_scope();
                self.list(self.picker.first_query());
            }
            Intent::Search => {
                if let Some(text) = self.picker.begin_search() {
                    let found = self.sessions.search(&self.picker.query(), &text);
                    self.replies.push(found.map(|found| Answer::Searched(text, found)).boxed());
                }
            }
            Intent::Enter => {
                if let Some(id) = self.picker.begin_opening() {
                    self.replies.push((self.sessions.open)(id).map(Answer::Opened).boxed());
                }
            }
            Intent::Redraw => self.resize(),
            _ => {}
        }
        None
    }

    fn list(&self, query: Query) {
        let listed = self.sessions.list(&query);
        self.replies.push(listed.map(|listed| Answer::Listed(query, listed)).boxed());
    }

    /// Takes in a reply. Returns the result if the choice ends by that.
    fn handle_answer(&mut self, answer: Answer) -> Option<Choice> {
        match answer {
            Answer::Listed(query, listed) => {
                if self.picker.read(&query, listed) {
                    self.list(self.picker.query());
                }
            }
            Answer::Searched(text, found) => self.picker.set_search_results(&text, found),
            Answer::Opened(Ok(())) => return Some(Choice::Ended(TerminalEnd::Opened)),
            Answer::Opened(Err(why)) => self.picker.not_opened(&why),
        }
        None
    }

    fn draw(&mut self) {
        let columns = self.screen.columns();
        let frame = draw::picker(&self.picker, columns, self.height.saturating_sub(1), now());
        let written = self.screen.update(&[], frame);
        if !written.is_empty() {
            self.terminal.write(written);
        }
    }

    fn resize(&mut self) {
        let (columns, rows) = size();
        self.height = rows;
        let written = self.screen.resized(columns, rows);
        self.terminal.write(written);
    }

    fn suspend(&mut self) -> anyhow::Result<()> {
        if !signals::can_stop() {
            return Ok(());
        }
        self.give_back();
        signals::stop();
        self.terminal.take_again().context("the terminal cannot be used again")?;
        self.keyboard = Some(Keyboard::listen().context("the keyboard cannot be read again")?);
        self.resize();
        Ok(())
    }

    /// Gives the terminal back with none of the choice's rows on it.
    fn give_back(&mut self) {
        self.keyboard = None;
        let cleared = self.screen.clear();
        self.terminal.give_back(&cleared);
    }
}
