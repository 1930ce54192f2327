//! State of a terminal that shows a session, composed of its parts, and the operations on them that do not depend on a
//! key.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;

use super::conversation::Conversation;
use super::display::TerminalDisplay;
use super::editor::ExternalEditor;
use super::input_sources::InputSources;
use super::login_service::LoginService;
use super::news::Reply;
use super::recent_keys::RecentKeys;
use super::setup::StoredSessions;
use super::signals::{self, TerminalSignals};
use super::state::ScreenState;

/// State of a terminal that shows a session, and everything that its loop uses.
pub(super) struct Ui {
    pub(super) session: Conversation,
    pub(super) state: ScreenState,
    pub(super) display: TerminalDisplay,
    pub(super) sources: InputSources,
    /// Number of connections of other clients; `None` without a server.
    pub(super) clients: Option<watch::Receiver<usize>>,
    pub(super) signals: TerminalSignals,
    pub(super) editor: ExternalEditor,
    /// Pending replies of the session, each with its continuation.
    pub(super) replies: FuturesUnordered<BoxFuture<'static, Continuation>>,
    /// Index up to which a long conversation is read before its end is shown.
    pub(super) long_until: Option<usize>,
    pub(super) sessions: Option<StoredSessions>,
    pub(super) login: LoginService,
    pub(super) in_tmux: bool,
    pub(super) recent_keys: RecentKeys,
    /// Reason why the screen ends; `None` while it goes on.
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
    /// Registers a reply to wait for, and the function that runs when the reply has come.
    pub(super) fn on_reply<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        then: impl FnOnce(&mut Self, Result<T, String>) + Send + 'static,
    ) {
        let next = reply.map(|reply| -> Continuation { Box::new(move |ui| then(ui, reply)) });
        self.replies.push(next.boxed());
    }

    /// Stops the process as Ctrl+Z does for other programs, and draws the screen anew when the process goes on.
    pub(super) fn suspend(&mut self) -> anyhow::Result<()> {
        if !signals::can_stop() {
            self.state.hint = Some("there is no shell to go back to".to_owned());
            self.display.changed();
            return Ok(());
        }
        self.display.leave();
        signals::stop();
        self.display.come_back()
    }
}

impl Drop for Ui {
    /// Gives the terminal back with only the history on it.
    fn drop(&mut self) {
        // Drawing the items may have caused the panic, and would panic again.
        if std::thread::panicking() {
            return self.display.leave();
        }
        self.display.give_back(&self.state);
    }
}
