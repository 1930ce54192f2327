//! State of one session for one editor: the prompts that wait for their answers, and the connection to the editor.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::call_terminals::CallTerminals;
use crate::Connection;
use tandem_agent::session::{Origin, PromptPart, Session, TurnId};
use tandem_wire::acp::v1::{
    FileSystemCapabilities, SessionNotification, SessionUpdate, UPDATE_METHOD,
};
use tandem_wire::rpc::{Peer, Responder};

/// Properties of an editor that decide which messages it is sent, and in which form.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
pub(super) struct ClientKind {
    /// `true` if the client shows terminals that the agent writes to.
    pub(super) has_terminals: bool,
    /// `true` if commands can run in terminals of the client.
    pub(super) runs_commands: bool,
    /// `true` if the client shows the name of each answer to a question.
    pub(super) shows_names: bool,
    /// `true` if the client shows notices.
    pub(super) has_notices: bool,
    /// `true` if the client shows where the conversation was compressed.
    pub(super) has_compactions: bool,
    /// `true` if the client shows forms.
    pub(super) has_forms: bool,
    /// `true` if the client shows the addresses of pages to open.
    pub(super) shows_pages: bool,
    /// Requests about files that the client answers.
    pub(super) files: FileSystemCapabilities,
}

/// State of a session that the handler and the view of one editor share.
pub(super) struct SessionClient {
    /// Id of the session in the editor's messages.
    pub(super) id: String,
    /// Ids of the models that can be chosen: those that are known by name, then those that were found on this machine.
    models: Mutex<Vec<String>>,
    pub(super) kind: ClientKind,
    pub(super) peer: Peer,
    pub(super) origin: Origin,
    pub(super) terminals: CallTerminals,
    /// Turns of the editor that have not ended, each with its prompt to answer; `None` for a turn that no prompt began.
    replies: Mutex<HashMap<TurnId, Option<Reply>>>,
    /// Number of turns of the editor that have not ended and been answered.
    unanswered: watch::Sender<usize>,
}

/// A prompt that is not answered yet.
pub(super) struct Reply {
    pub(super) responder: Responder,
    /// Guard that ends the task which waits for the prompt's cancellation.
    _waiting: DropGuard,
}

impl SessionClient {
    pub(super) fn new(connection: &Connection, id: String, kind: ClientKind) -> Self {
        Self {
            id,
            models: Mutex::default(),
            kind,
            peer: connection.peer.clone(),
            origin: connection.service.origin.clone(),
            terminals: CallTerminals::default(),
            replies: Mutex::default(),
            unanswered: watch::Sender::default(),
        }
    }

    /// Sets the ids of the models that are known by name.
    pub(super) fn with_models(self, models: Vec<String>) -> Self {
        Self { models: Mutex::new(models), ..self }
    }

    /// Returns the ids of the models that can be chosen.
    pub(super) fn models(&self) -> Vec<String> {
        self.models.lock().clone()
    }

    /// Adds models to those that can be chosen. Returns `true` if any of them is new.
    pub(super) fn add_models(&self, ids: impl Iterator<Item = String>) -> bool {
        let mut models = self.models.lock();
        let before = models.len();
        for id in ids {
            if !models.contains(&id) {
                models.push(id);
            }
        }
        models.len() > before
    }

    /// Begins a turn for a prompt. The view answers the prompt when the turn ends; if the editor cancels the request,
    /// the turn is cancelled.
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

    /// Begins a turn of the editor without a request to answer at its end.
    pub(super) fn begin(&self, session: &Session, prompt: Vec<PromptPart>) {
        self.push(session, prompt, None);
    }

    fn push(&self, session: &Session, prompt: Vec<PromptPart>, reply: Option<Reply>) -> TurnId {
        // Held until the reply is in the map: otherwise the view could handle the turn before its reply is there, and
        // the prompt would stay unanswered.
        let mut replies = self.replies.lock();
        let turn = session.prompt(prompt, self.origin.clone());
        replies.insert(turn, reply);
        self.unanswered.send_replace(replies.len());
        turn
    }

    /// Cancels the running turn of any front end, and all turns of this editor.
    pub(super) fn cancel(&self, session: &Session) {
        self.cancel_own(session);
        if let Some(turn) = session.turns().running() {
            session.cancel(turn);
        }
    }

    /// Cancels the running and waiting turns of this editor.
    pub(super) fn cancel_own(&self, session: &Session) {
        let mut own: Vec<_> = self.replies.lock().keys().copied().collect();
        // The last turn is cancelled first: if the running turn were cancelled first, the next waiting turn would
        // begin.
        own.sort_unstable();
        for turn in own.into_iter().rev() {
            session.cancel(turn);
        }
    }

    /// Waits until all turns of the editor have ended and their prompts are answered.
    pub(super) async fn answered(&self) {
        // No error is possible: the sender lives as long as `self`.
        let _ = self.unanswered.subscribe().wait_for(|unanswered| *unanswered == 0).await;
    }

    /// Removes a turn that has ended. Returns the prompt to answer, if the turn is the editor's and a prompt began it.
    pub(super) fn take_prompt(&self, turn: TurnId) -> Option<Reply> {
        self.replies.lock().remove(&turn).flatten()
    }

    /// Updates the number of the editor's turns that have not ended, and so wakes [`Self::answered`] at 0. To be called
    /// after the prompt that [`Self::take_prompt`] returned was answered, so that [`Self::answered`] waits for the
    /// answer too.
    pub(super) fn count_unanswered(&self) {
        self.unanswered.send_replace(self.replies.lock().len());
    }

    pub(super) fn is_own(&self, turn: TurnId) -> bool {
        self.replies.lock().contains_key(&turn)
    }

    pub(super) fn update(&self, update: SessionUpdate<'_>) {
        let session_id = &self.id;
        self.peer.notify(UPDATE_METHOD, &SessionNotification { session_id, update });
    }
}
