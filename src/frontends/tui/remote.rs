//! A session of another tandem process, which this terminal is attached to (`wire/attach.rs`).
//!
//! One task holds the connection. The task asks for the entries after the last reported entry, so that after a lost
//! connection no entry is missing and none comes twice. Requests without an answer are sent again.

mod agent;
mod link;
mod socket;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use futures::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

pub use self::agent::{AgentAddress, AttachableAgent};
use self::link::{Link, MAX_ENVELOPE_BYTES, PendingRequest, open};
use self::socket::SocketConnection;
pub use self::socket::connect_acp;
use super::news::{Reply, SessionNotification};
use tandem_agent::session::{
    Answer, AnswerError, ClientName, Mode, Origin, PromptPart, SessionCommand, TurnId,
};
use tandem_wire::attach::{
    ANSWER_METHOD, AnswerParams, CANCEL_METHOD, FILES_METHOD, FilesParams, ListedSession,
    OpenParams, OpenResult, OpenedSession, PROMPT_METHOD, PROMPTS_METHOD, PROTOCOL_VERSION,
    PromptParams, SET_MODE, SessionSelector, SetModeParams, TAKE_BACK, TurnParams,
};

/// Maximum number of unread news: while there are as many, no more entries are requested.
const MAX_UNREAD_NEWS: usize = 2;

/// Result of an attempt to attach.
pub enum Attached {
    /// The terminal is attached to the session.
    To(Box<Remote>),
    /// The selector does not name one session; the list of all sessions.
    Choose(Vec<ListedSession>),
}

/// Attaches to a session. The error is a text for the user.
pub async fn attach(agent: AttachableAgent, wanted: SessionSelector) -> anyhow::Result<Attached> {
    let terminal = uuid::Uuid::new_v4().to_string();
    let ask = OpenParams { version: PROTOCOL_VERSION, terminal: terminal.clone(), session: wanted };
    let connection =
        SocketConnection::open(&agent).await.map_err(|failure| anyhow!(failure.why(&agent)))?;
    let opened = match open(&connection, &agent, &ask).await {
        Ok(OpenResult::Opened(opened)) => opened,
        Ok(OpenResult::Choose(sessions)) => return Ok(Attached::Choose(sessions)),
        Err(failure) => anyhow::bail!(failure.why(&agent)),
    };
    let (asks, asked) = mpsc::unbounded_channel();
    let (news, told) = mpsc::channel(MAX_UNREAD_NEWS);
    let input_limit = Arc::new(AtomicU64::new(0));
    let ask = OpenParams { session: SessionSelector::Id(opened.session.clone()), ..ask };
    let link = Link::new(agent.clone(), ask, news, Arc::clone(&input_limit));
    let task = tokio::spawn(link.run(connection, asked));
    Ok(Attached::To(Box::new(Remote {
        agent,
        opened,
        terminal,
        asks,
        news: told,
        prompts: AtomicU64::new(0),
        input_limit,
        _task: AbortOnDropHandle::new(task),
    })))
}

/// A session of another process, and the link to it.
pub struct Remote {
    agent: AttachableAgent,
    opened: OpenedSession,
    /// Random id of this terminal, which is the same after it connects again.
    terminal: String,
    /// Queue of requests for the link's task.
    asks: mpsc::UnboundedSender<PendingRequest>,
    news: mpsc::Receiver<SessionNotification>,
    /// Number of prompts sent so far, which gives each prompt its number.
    prompts: AtomicU64,
    /// Maximum number of tokens in the model's input; 0 if it is not known.
    input_limit: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Remote {
    /// Returns the directory that the session works in.
    pub fn directory(&self) -> &str {
        &self.opened.directory
    }

    pub(super) fn me(&self) -> Origin {
        Origin::Attached(ClientName::new(self.opened.number, &self.terminal))
    }

    pub(super) fn address_for_people(&self) -> String {
        self.agent.to_string()
    }

    pub(super) fn model(&self) -> String {
        self.opened.model.clone()
    }

    pub(super) fn mode(&self) -> Mode {
        self.opened.mode.parse().unwrap_or_default()
    }

    pub(super) fn modes(&self) -> Vec<Mode> {
        self.opened.modes.iter().filter_map(|mode| mode.parse().ok()).collect()
    }

    pub(super) fn input_limit(&self) -> Option<u64> {
        Some(self.input_limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Waits for the next news. No news is lost if the future is dropped.
    pub(super) async fn next_notification(&mut self) -> SessionNotification {
        let fault =
            || SessionNotification::Ended("a bug in tandem has ended the connection".to_owned());
        self.news.recv().await.unwrap_or_else(fault)
    }

    pub(super) fn prompt(&self, parts: Vec<PromptPart>) -> Reply<()> {
        // The agent takes no number twice, so a prompt that is sent again after a lost connection is not said twice.
        let number = self.prompts.fetch_add(1, Ordering::Relaxed) + 1;
        self.ask(PROMPT_METHOD, &PromptParams { number, parts })
    }

    pub(super) fn cancel(&self, turn: TurnId) -> Reply<bool> {
        self.ask(CANCEL_METHOD, &TurnParams { turn: turn.0 })
    }

    pub(super) fn take_back(&self, turn: TurnId) -> Reply<bool> {
        self.ask(TAKE_BACK, &TurnParams { turn: turn.0 })
    }

    pub(super) fn answer(&self, call: &str, answer: Answer) -> Reply<Result<(), AnswerError>> {
        self.ask(ANSWER_METHOD, &AnswerParams { call: call.to_owned(), answer })
    }

    pub(super) fn set_mode(&self, mode: Mode) -> Reply<()> {
        self.ask(SET_MODE, &SetModeParams { mode: mode.to_string() })
    }

    pub(super) fn files(&self, most: usize) -> Reply<Vec<String>> {
        self.ask(FILES_METHOD, &FilesParams { most })
    }

    pub(super) fn prompts(&self) -> Reply<Vec<SessionCommand>> {
        self.ask(PROMPTS_METHOD, &())
    }

    /// Sends a request to the agent, now or when the connection is there again.
    fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Reply<T> {
        let (reply, answered) = oneshot::channel();
        let asked = self.within(params).map(|params| {
            // If the link has ended, the send fails and drops `reply`, which ends the wait below with an error.
            let _ = self.asks.send(PendingRequest { method, params, reply });
        });
        async move {
            asked?;
            let answer: Box<RawValue> =
                answered.await.map_err(|_| "the agent has ended".to_owned())??;
            serde_json::from_str(answer.get())
                .map_err(|err| format!("the agent's answer cannot be read: {err}"))
        }
        .boxed()
    }

    /// Serializes the parameters; an error if the request would be longer than the agent accepts.
    fn within(&self, params: &impl Serialize) -> Result<Box<RawValue>, String> {
        let params = to_raw_value(params).map_err(|err| err.to_string())?;
        let most = self.opened.frame_bytes;
        if params.get().len() + MAX_ENVELOPE_BYTES > most {
            return Err(format!(
                "not sent: it is longer than the {most} bytes that the agent takes"
            ));
        }
        Ok(params)
    }
}
