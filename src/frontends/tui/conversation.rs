//! Access to the session on the screen, which runs in this process, or in another process that the terminal is
//! attached to.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::ready;

use super::news::{Reply, SessionNotification};
use super::remote::Remote;
use tandem_agent::session::{
    Answer, AnswerError, Mode, Origin, PromptPart, Reader, Session, SessionCommand, TurnId,
};
use tandem_content::blocking::blocking;

/// Maximum number of log entries to take in before the keyboard is polled again.
const MAX_BATCH_ENTRIES: usize = 2000;

/// Number of log entries above which only the end of an earlier conversation is shown.
const MAX_SHOWN_ENTRIES: usize = 2000;

/// The session on the screen.
pub enum Conversation {
    /// A session of this process, and the reader of its log.
    Here(Arc<Session>, Reader),
    /// A session of another process.
    There(Box<Remote>),
}

impl Conversation {
    /// Creates access to a session of this process.
    pub fn here(session: Arc<Session>) -> Self {
        let log = session.events(0);
        Self::Here(session, log)
    }

    /// Returns the session, if it runs in this process.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Here(session, _) => Some(session),
            Self::There(_) => None,
        }
    }

    /// Returns the origin of this terminal's prompts and answers.
    pub(super) fn me(&self) -> Origin {
        match self {
            Self::Here(..) => Origin::Terminal,
            Self::There(remote) => remote.me(),
        }
    }

    /// Returns the address of the session's agent, if the session runs in another process.
    pub(super) fn elsewhere(&self) -> Option<String> {
        match self {
            Self::Here(..) => None,
            Self::There(remote) => Some(remote.address_for_people()),
        }
    }

    /// Returns the id of the model, as known before the first news.
    pub(super) fn model(&self) -> String {
        match self {
            Self::Here(session, _) => session.model(),
            Self::There(remote) => remote.model(),
        }
    }

    /// Returns the approval mode, as known before the first news.
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Here(session, _) => session.modes().current(),
            Self::There(remote) => remote.mode(),
        }
    }

    /// Returns the modes that the session allows; an empty list if they are not known.
    pub(super) fn modes(&self) -> Vec<Mode> {
        match self {
            Self::Here(session, _) => session.modes().allowed(),
            Self::There(remote) => remote.modes(),
        }
    }

    /// Returns the size of the model's window in tokens, if that is known.
    pub(super) fn input_limit(&self) -> Option<u64> {
        match self {
            Self::Here(session, _) => session.input_limit(),
            Self::There(remote) => remote.input_limit(),
        }
    }

    /// Returns the index up to which a long log is an earlier conversation, of which only the end is shown; `None` if
    /// the log is short or in another process.
    pub(super) fn long_until(&self) -> Option<usize> {
        Some(self.session()?.position()).filter(|position| *position > MAX_SHOWN_ENTRIES)
    }

    /// Returns whether all entries before this index have been read.
    pub(super) fn has_read(&self, until: usize) -> bool {
        match self {
            Self::Here(_, log) => log.position() >= until,
            Self::There(_) => true,
        }
    }

    /// Waits for the next news. No news is lost if the future is dropped.
    pub(super) async fn next_notification(&mut self) -> SessionNotification {
        match self {
            Self::Here(_, log) => {
                log.ready().await;
                let entries = std::iter::from_fn(|| log.try_next_run()).take(MAX_BATCH_ENTRIES);
                SessionNotification::Entries(entries.collect())
            }
            Self::There(remote) => remote.next_notification().await,
        }
    }

    /// Sends a prompt.
    pub(super) fn prompt(&self, prompt: Vec<PromptPart>) -> Reply<()> {
        match self {
            Self::Here(session, _) => {
                session.prompt(prompt, Origin::Terminal);
                at_once(())
            }
            Self::There(remote) => remote.prompt(prompt),
        }
    }

    /// Cancels a turn; the result is `false` if the turn has ended already.
    pub(super) fn cancel(&self, turn: TurnId) -> Reply<bool> {
        match self {
            Self::Here(session, _) => at_once(session.cancel(turn)),
            Self::There(remote) => remote.cancel(turn),
        }
    }

    /// Takes back a queued prompt; the result is `false` if its turn has begun.
    pub(super) fn take_back(&self, turn: TurnId) -> Reply<bool> {
        match self {
            Self::Here(session, _) => at_once(session.turns().take_back(turn)),
            Self::There(remote) => remote.take_back(turn),
        }
    }

    /// Answers the question about a call. Only the first answer counts.
    pub(super) fn answer(&self, call: &str, answer: Answer) -> Reply<Result<(), AnswerError>> {
        match self {
            Self::Here(session, _) => at_once(session.answer(call, answer, Origin::Terminal)),
            Self::There(remote) => remote.answer(call, answer),
        }
    }

    /// Changes the approval mode.
    pub(super) fn set_mode(&self, mode: Mode) -> Reply<()> {
        match self {
            Self::Here(session, _) => ready(session.modes().set(mode)).boxed(),
            Self::There(remote) => remote.set_mode(mode),
        }
    }

    /// Returns the files, at most `most`, and the resources that a prompt can mention.
    pub(super) fn files(&self, most: usize) -> Reply<Vec<String>> {
        match self {
            Self::Here(session, _) => {
                let session = Arc::clone(session);
                let found = blocking(move || session.mentionable(most));
                async move { Ok(found.await.unwrap_or_default()) }.boxed()
            }
            Self::There(remote) => remote.files(most),
        }
    }

    /// Returns the ids of the models that the user can choose. For a session of another process, the list is empty: the
    /// models' servers are not asked on behalf of an attached terminal.
    pub(super) fn models(&self) -> Reply<Vec<String>> {
        match self {
            Self::Here(session, _) => {
                let session = Arc::clone(session);
                async move { Ok(session.models_to_choose().await) }.boxed()
            }
            Self::There(_) => ready(Ok(Vec::new())).boxed(),
        }
    }

    /// Returns the commands that only this session has.
    pub(super) fn prompts(&self) -> Reply<Vec<SessionCommand>> {
        match self {
            Self::Here(session, _) => {
                let session = Arc::clone(session);
                let found = blocking(move || session.own_commands());
                async move { Ok(found.await.unwrap_or_default()) }.boxed()
            }
            Self::There(remote) => remote.prompts(),
        }
    }
}

fn at_once<T: Send + 'static>(value: T) -> Reply<T> {
    ready(Ok(value)).boxed()
}
