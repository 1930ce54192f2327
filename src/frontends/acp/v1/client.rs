//! A session as an editor drives it: the prompts that wait for their answers, and the way to the editor.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::call_terminals::CallTerminals;
use crate::Connection;
use tandem_agent::session::{Origin, PromptPart, Session, TurnId};
use tandem_wire::acp::v1::{FileSystemCapabilities, SessionNotification, SessionUpdate, UPDATE};
use tandem_wire::rpc::{Peer, Responder};

/// Properties of a client that decide what it is shown.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
pub(super) struct ClientKind {
    /// `true` if the client shows terminals that the agent writes to.
    pub(super) has_terminals: bool,
    /// `true` if commands can run in terminals of the client.
    pub(super) runs_commands: bool,
    /// `true` if the client shows the names of answers.
    pub(super) shows_names: bool,
    /// `true` if the client shows notices.
    pub(super) has_notices: bool,
    /// `true` if the client shows where the conversation was compressed.
    pub(super) has_compactions: bool,
    /// `true` if the client shows the addresses of pages to open.
    pub(super) shows_pages: bool,
    /// Calls for files that the client answers.
    pub(super) files: FileSystemCapabilities,
}

/// A session as the handler and the view of one editor share it.
pub(super) struct SessionClient {
    /// Id by which the editor calls the session.
    pub(super) id: String,
    /// The models that are known by name.
    pub(super) models: Vec<String>,
    pub(super) kind: ClientKind,
    pub(super) peer: Peer,
    pub(super) origin: Origin,
    pub(super) terminals: CallTerminals,
    /// The editor's turns that have not ended, with the prompts to answer.
    replies: Mutex<HashMap<TurnId, Option<Reply>>>,
    /// Number of these turns.
    unanswered: watch::Sender<usize>,
}

/// A prompt that is not answered yet.
pub(super) struct Reply {
    pub(super) responder: Responder,
    /// Ends the wait for the prompt's cancellation.
    _waiting: DropGuard,
}

impl SessionClient {
    pub(super) fn new(connection: &Connection, id: String, kind: ClientKind) -> Self {
        Self {
            id,
            models: Vec::new(),
            kind,
            peer: connection.peer.clone(),
            origin: connection.service.origin.clone(),
            terminals: CallTerminals::default(),
            replies: Mutex::default(),
            unanswered: watch::Sender::default(),
        }
    }

    /// Returns the client with the models that are known by name.
    pub(super) fn with_models(self, models: Vec<String>) -> Self {
        Self { models, ..self }
    }

    /// Begins a turn. The view answers.
    pub(super) fn prompt(
        &self,
        session: &Arc<Session>,
        prompt: Vec<PromptPart>,
        responder: Responder,
    ) {
        let (cancelled, ended) = (responder.cancellation(), CancellationToken::new());
        let waiting = ended.clone();
        let reply = Reply { responder, _waiting: ended.drop_guard() };
        let turn = self.push(session, prompt, Some(reply));
        let session = Arc::clone(session);
        tokio::spawn(async move {
            if waiting.run_until_cancelled(cancelled.cancelled()).await.is_some() {
                session.cancel(turn);
            }
        });
    }

    /// Begins a turn of the editor's that is no answer to a prompt.
    pub(super) fn begin(&self, session: &Session, prompt: Vec<PromptPart>) {
        self.push(session, prompt, None);
    }

    fn push(&self, session: &Session, prompt: Vec<PromptPart>, reply: Option<Reply>) -> TurnId {
        // Held over both, or the view could look for a reply that is not there yet.
        let mut replies = self.replies.lock();
        let turn = session.prompt(prompt, self.origin.clone());
        replies.insert(turn, reply);
        self.unanswered.send_replace(replies.len());
        turn
    }

    /// Ends the turn that runs, and the editor's own that wait.
    pub(super) fn cancel(&self, session: &Session) {
        self.cancel_own(session);
        if let Some(turn) = session.turns().running() {
            session.cancel(turn);
        }
    }

    /// Ends the editor's own turns.
    pub(super) fn cancel_own(&self, session: &Session) {
        let mut own: Vec<_> = self.replies.lock().keys().copied().collect();
        // The last first, or one that waits would begin when the one before ends.
        own.sort_unstable();
        for turn in own.into_iter().rev() {
            session.cancel(turn);
        }
    }

    /// Waits until the editor's turns have ended.
    pub(super) async fn answered(&self) {
        // The sender lives as long as `self`.
        let _ = self.unanswered.subscribe().wait_for(|unanswered| *unanswered == 0).await;
    }

    /// Takes out a turn that has ended; returns the prompt to answer, if the turn is the editor's and
    /// began with one.
    pub(super) fn take(&self, turn: TurnId) -> Option<Reply> {
        self.replies.lock().remove(&turn).flatten()
    }

    /// Updates the number of the editor's turns that have not ended, and so wakes [`Self::answered`] at 0.
    pub(super) fn count_unanswered(&self) {
        self.unanswered.send_replace(self.replies.lock().len());
    }

    pub(super) fn is_own(&self, turn: TurnId) -> bool {
        self.replies.lock().contains_key(&turn)
    }

    pub(super) fn update(&self, update: SessionUpdate<'_>) {
        let session_id = &self.id;
        self.peer.notify(UPDATE, &SessionNotification { session_id, update });
    }
}
