//! The interface to where logs of sessions are kept. The engines are the crate `tandem-store`.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::{self, BoxFuture};
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session::events::event::Event;
use crate::session::events::log::Millis;
use crate::session::events::principal::{PrincipalId, SessionAccess, Shares};
use crate::session::events::saved_workspace::GitOrigin;
use tandem_host::stored_files::StoredFile;

/// Description of a session from its beginning: the first line of a stored log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session's id, a UUID.
    pub id: String,
    /// Time of the creation.
    #[serde(rename = "t")]
    pub created: Millis,
    /// The directory that the session starts in.
    #[serde(rename = "dir", default)]
    pub directory: PathBuf,
    /// The title that the session begins with; may be empty.
    #[serde(default)]
    pub title: String,
    /// The program that created the session, with its version.
    #[serde(default)]
    pub by: String,
    /// `true` if a client of the A2A server began the session.
    #[serde(rename = "a2a", default, skip_serializing_if = "std::ops::Not::not")]
    pub served: bool,
    /// The principal that the session belongs to, with its tenant; without one, the user of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<PrincipalId>,
    /// The `contextId` that a client has given the session, for people who look for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The session that this one is a copy of, if it is a fork or was another program's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ForkPoint>,
    /// The repository of which the session's directory is a clone, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitOrigin>,
    /// The tag of the session, if it is a checkpoint: nothing is added to that, and whoever goes on
    /// with it gets a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The place where a copy left its original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The original's id.
    pub id: String,
    /// Index in the original's log: the events before it are the fork's too. Of another program's
    /// session, the number of its messages.
    pub index: usize,
    /// The program whose session the original is, if it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// Events of a log that follow each other without a gap. Between two batches, indexes may be
/// missing: not every event is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Index of the first event.
    pub first: usize,
    /// The events, each with its time.
    pub events: Vec<(Millis, Arc<Event>)>,
    /// The session as a list shows it, if that has changed with these events.
    pub summary: Option<BatchSummary>,
}

impl Batch {
    /// Returns the index after the last event.
    pub fn end(&self) -> usize {
        self.first + self.events.len()
    }
}

/// A session's progress, as a list of sessions shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSummary {
    /// Number of turns.
    pub turns: u64,
    /// The session's title, if it is not the head's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Those with whom the session is shared.
    #[serde(default, skip_serializing_if = "Shares::is_empty")]
    pub shares: Shares,
    /// `true` if a turn runs or waits. Only for stores that several processes share: in a file, the
    /// events say so.
    #[serde(skip)]
    pub busy: bool,
}

/// A piece of a stored log.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Events.
    Batch(Batch),
    /// A piece that cannot be read, which is left out; why, for people.
    Damaged(String),
}

/// A stored log, read from its beginning in pieces of any size.
pub type StoredLog = BoxStream<'static, Result<Vec<Stored>, StoreError>>;

/// One session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The session from its beginning.
    pub head: Head,
    /// Title of the session now.
    pub title: String,
    /// Number of turns.
    pub turns: u64,
    /// Time of the last change.
    pub changed: Millis,
    /// The other program whose session this is: it is only read, and claiming it makes a copy.
    pub program: Option<&'static str>,
    /// Those with whom the session is shared.
    pub shares: Shares,
    /// Other process of this machine that has the session open. Sessions of a database have none.
    pub held_by: Option<Holder>,
}

impl Listed {
    /// Says which other process has the session open, and how to get to it; `None` if there is none.
    pub fn explain_holder(&self) -> Option<String> {
        let holder = self.held_by.as_ref()?;
        Some(holder.explain(&self.head.id))
    }

    /// Returns the owner, and those with whom the session is shared.
    pub fn access(&self) -> SessionAccess {
        SessionAccess { owner: self.head.owner.clone(), shares: self.shares.clone() }
    }
}

/// A session that is in use at some node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSession {
    /// The session as a list has it.
    pub listed: Listed,
    /// `true` if a turn runs or waits.
    pub busy: bool,
}

/// Sessions to list, the last changed first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Only the sessions that started in this directory.
    pub directory: Option<PathBuf>,
    /// Only checkpoints, or only sessions that are none; without a value, both.
    pub checkpoints: Option<bool>,
    /// Lists other programs' sessions as well, if the store knows of any.
    pub others: bool,
    /// Number of sessions to leave out at the beginning.
    pub skip: usize,
    /// Maximum number of sessions.
    pub most: Option<usize>,
}

/// A session in which a turn runs or waits although no process that lives has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Orphan {
    /// The session's id.
    pub id: String,
    /// Epoch of the owner that was seen dead; 0 in a store without epochs.
    pub epoch: u64,
}

/// Process that has a session open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process's id.
    pub pid: u32,
    /// Port of its A2A server on this machine, by which other terminals can join the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Name of the node that the process is, if several share the store: it may be on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl Holder {
    /// Returns the port of this machine over which sessions of the process can be joined; `None` if nobody can join.
    pub fn joinable_port(&self) -> Option<u16> {
        self.port.filter(|_| self.node.is_none())
    }

    /// Returns the command that joins a session of the process; `None` if nobody can join.
    pub fn join_command(&self, id: &str) -> Option<String> {
        let port = self.joinable_port()?;
        Some(format!("tandem attach {port} --session {id}"))
    }

    /// Says that the process has a session open, and how to get to it.
    fn explain(&self, id: &str) -> String {
        match self.join_command(id) {
            _ if self.node.is_some() => format!("open at {self}; ask that one"),
            Some(command) => format!("open in {self}; `{command}` joins it"),
            None => format!(
                "open in {self}; end that process, or copy the session with `tandem sessions fork {id}`"
            ),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { node: Some(node), port: Some(port), .. } => {
                write!(f, "node `{node}`, which serves port {port}")
            }
            Self { node: Some(node), .. } => write!(f, "node `{node}`"),
            Self { pid: 0, .. } => f.write_str("another process"),
            Self { pid, .. } => write!(f, "process {pid}"),
        }
    }
}

/// Failure of a store.
#[derive(Debug)]
pub enum StoreError {
    /// There is no session of this id.
    NotFound(String),
    /// Another process has the session of this id open.
    Held(String, Holder),
    /// A newer program wrote the session in a format that this one must not add to; its version.
    Newer(u32),
    /// The session is a checkpoint, to which nothing is added; its tag.
    Checkpoint(String),
    /// The log is not that of a stored session; why.
    Invalid(String),
    /// A part of the log that was stored is gone; why. [`Claim::renew`] begins it anew.
    Lost(&'static str),
    /// Another process has taken the session over: nothing that this one adds will ever be kept.
    TakenOver,
    /// The session is this other program's, and only read.
    Foreign(&'static str),
    /// The database that the store is in cannot be used now; why, for its operator.
    Unavailable(String),
    /// The store has refused events of the session for too long, and the session has ended; why, for the store's
    /// operator.
    Refused(String),
    /// The disk refused.
    Io(io::Error),
}

impl StoreError {
    /// Returns the text for clients of a server, who need not know where its database is, or its files.
    pub fn for_clients(&self) -> String {
        match self {
            Self::Unavailable(_) => "the server cannot reach its database now".to_owned(),
            Self::Refused(_) => "the server cannot save the session now".to_owned(),
            Self::Io(_) => "the server cannot use its disk now".to_owned(),
            Self::TakenOver => "another node has taken the session over".to_owned(),
            error => error.to_string(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(id) => write!(f, "there is no session `{id}`"),
            Self::Held(id, holder) => write!(f, "the session is {}", holder.explain(id)),
            Self::Newer(version) => write!(
                f,
                "a newer tandem wrote the session (format {version}); update tandem to go on with it"
            ),
            Self::Checkpoint(tag) => {
                write!(f, "the session is the checkpoint `{tag}`; fork it to go on with a copy")
            }
            Self::Invalid(why) => write!(f, "the session cannot be read: {why}"),
            Self::Lost(why) => write!(f, "a part of the stored session is lost ({why})"),
            Self::TakenOver => f.write_str(
                "the session goes on at another node, which has taken it over; ask again",
            ),
            Self::Foreign(program) => write!(
                f,
                "it is a session of {program}, which tandem only reads; `tandem -r` makes a session of its own of it"
            ),
            Self::Unavailable(why) => f.write_str(why),
            Self::Refused(why) => write!(f, "the session could not be saved, and has ended: {why}"),
            Self::Io(err) => write!(f, "{err}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<io::Error> for StoreError {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

/// Data of a session that must not be in its log, by name: credentials, addresses that are secret.
pub type Secrets = BTreeMap<String, Value>;

/// A place where logs of sessions are kept.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates a session and claims it.
    async fn create(&self, head: &Head) -> Result<Box<dyn Claim>, StoreError>;

    /// Claims a session that nobody has open.
    async fn claim(&self, id: &str) -> Result<Box<dyn Claim>, StoreError>;

    /// Claims an orphan, unless somebody else has been faster.
    async fn claim_orphan(&self, orphan: &Orphan) -> Result<Box<dyn Claim>, StoreError>;

    /// Returns some of the sessions of A2A clients in which a turn runs or waits although no process that
    /// lives has them, in an order that no other process is likely to have.
    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError>;

    /// Waits until there may be orphans again; for ever in a store where only this process would make
    /// them.
    async fn orphaned(&self);

    /// Returns whether a process has a session open now. Needs no claim, and is in the way of nobody
    /// who wants one.
    async fn is_held(&self, id: &str) -> Result<bool, StoreError>;

    /// Returns the id of the store itself, which no other store has. A store that has lost its sessions has another
    /// one.
    async fn id(&self) -> Result<String, StoreError>;

    /// Returns the head of a session. Needs no claim.
    async fn head(&self, id: &str) -> Result<Head, StoreError>;

    /// Reads what is kept of a session now, from the beginning, in pieces of any size. Needs no claim.
    async fn read(&self, id: &str) -> Result<StoredLog, StoreError>;

    /// Returns the ids of the sessions that a process has open, or had open when it was killed.
    async fn opened(&self) -> Result<Vec<String>, StoreError>;

    /// Reads the secrets that are kept beside a session's log. Needs no claim.
    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError>;

    /// Lists sessions, the last changed first. A session that cannot be listed is left out.
    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError>;

    /// Returns `false` if a text, in lower case, is certainly in no prompt and no answer of a session.
    /// May be wrong the other way, and must be cheaper than reading the log. Needs no claim.
    async fn may_say(&self, id: &str, lower: &str) -> Result<bool, StoreError> {
        let _ = (id, lower);
        Ok(true)
    }

    /// Deletes a session that nobody has open, with its files.
    async fn delete(&self, id: &str) -> Result<(), StoreError>;

    /// Returns the store as nodes share it, if it is one that nodes share: each answers for the sessions of
    /// all.
    fn shared(&self) -> Option<&dyn SharedStore>;

    /// Returns the directory for files that belong to a session: contents for undo, long outputs.
    /// It need not exist.
    fn directory(&self, id: &str) -> Option<PathBuf>;
}

/// A call of a client for the owner of a session, which it has made at another node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Order {
    /// The session's id.
    pub session: String,
    /// Name that no other order has.
    pub key: String,
    /// The call, in the front end's words.
    pub body: String,
    /// Epoch in which this node has the session.
    pub epoch: i64,
}

/// What a session has used in a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUsage {
    /// The session's id.
    pub session: String,
    /// The principal that the session belongs to.
    pub owner: PrincipalId,
    /// Number of tokens.
    pub tokens: u64,
}

/// Sessions and turns that a principal has at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentUse {
    /// The principal.
    pub owner: PrincipalId,
    /// Number of sessions in use.
    pub sessions: usize,
    /// Number of turns that run or wait.
    pub turns: usize,
}

/// A store that several nodes share. A node reads the logs of sessions that others have as they grow, and
/// leaves orders for their owners.
#[async_trait]
pub trait SharedStore: Send + Sync {
    /// Reads a log from an index on, past and to come. Ends with an error if the session is deleted, or
    /// what was read is not there any more.
    fn follow(&self, id: &str, from: usize) -> StoredLog;

    /// Returns the index after the last event of a session.
    async fn position(&self, id: &str) -> Result<usize, StoreError>;

    /// Has all who follow a session in this process look at once whether there is more of it: news of that may
    /// be late.
    fn look_again(&self, id: &str);

    /// Returns those of these sessions that no other process has.
    async fn unowned_by_others(&self, ids: &[&str]) -> Result<Vec<String>, StoreError>;

    /// Lists the sessions that other processes have, and those in which a turn runs or waits although no process
    /// has them; the last changed first, without checkpoints.
    async fn active_elsewhere(&self) -> Result<Vec<ActiveSession>, StoreError>;

    /// Lists the files that are kept beside a session's log. Needs no claim.
    async fn files(&self, id: &str) -> Result<Vec<StoredFile>, StoreError>;

    /// Reads a file of at most `max` bytes that is kept beside a session's log. Needs no claim.
    async fn read_file(&self, id: &str, name: &str, max: u64) -> Result<Vec<u8>, StoreError>;

    /// Keeps a file beside the log of a session that this process has. While the store cannot be reached, this
    /// waits. A file that is listed is whole: a name has one content.
    async fn put_file(&self, id: &str, name: &str, content: Vec<u8>) -> Result<(), StoreError>;

    /// Removes a file beside the log of a session that this process has. While the store cannot be reached,
    /// this waits.
    async fn remove_file(&self, id: &str, name: &str) -> Result<(), StoreError>;

    /// Copies all files beside a session's log to a session that this process has.
    async fn copy_files(&self, from: &str, id: &str) -> Result<(), StoreError>;

    /// Has the owner of a session carry out an order, whoever that is by then; returns the reply.
    async fn ask(&self, id: &str, body: &str) -> Result<String, StoreError>;

    /// Waits for orders for the sessions that this process has, in the order in which they were put, but
    /// for those that are under way.
    async fn orders(&self, under_way: &HashSet<Order>) -> Result<Vec<Order>, StoreError>;

    /// Replies to an order. Nobody is told if the session has another owner by now, who carries the order
    /// out as well.
    async fn reply(&self, order: &Order, reply: &str) -> Result<(), StoreError>;

    /// Notes what sessions have used in a day, which is a number, each session at most once; returns what each
    /// principal has used in it, in the sessions of all nodes.
    async fn share_usage(
        &self,
        day: i64,
        sessions: &[SessionUsage],
    ) -> Result<Vec<(PrincipalId, u64)>, StoreError>;

    /// Notes what principals use at this node now, each of them once, in place of what was noted before; returns
    /// what each uses at all other nodes that live.
    async fn share_current_use(&self, here: &[CurrentUse]) -> Result<Vec<CurrentUse>, StoreError>;
}

/// The right to add to a session's log: one process has it, until it drops the claim or ends. If the
/// store is shared by several machines, it may be taken over by another process that believes this one
/// dead; then nothing can be added any more ([`StoreError::TakenOver`]).
#[async_trait]
pub trait Claim: Send + Sync {
    /// Returns the index after the last event that is kept.
    fn next(&self) -> usize;

    /// Says what was repaired when the session was claimed, for people.
    fn repaired(&self) -> Option<&str>;

    /// Adds batches in order, none of which begins before [`Claim::next`]. When this returns they
    /// outlive the process. After an error nothing of them is kept, and they may be added again.
    async fn append(&mut self, batches: Vec<Batch>) -> Result<(), StoreError>;

    /// Waits until everything that was added outlives a loss of power, too.
    async fn sync(&mut self) -> Result<(), StoreError>;

    /// Begins the log anew, from index 0, when a part of it is lost. The next [`Claim::sync`] puts the
    /// new one in the place of the old one, of which all that is left stays until then. If anything
    /// of that fails, it is begun anew again.
    async fn renew(&mut self) -> Result<(), StoreError>;

    /// Tells others at which port of this machine they can join the session.
    async fn announce(&mut self, port: u16) -> Result<(), StoreError>;

    /// Keeps secrets beside the log, in place of those before. They are part of no copy and no export,
    /// and go with the session. When this returns they outlive a loss of power.
    async fn keep_secrets(&mut self, secrets: &Secrets) -> Result<(), StoreError>;

    /// Waits until it is known that another process has taken the session over, although nothing is
    /// added.
    fn taken_over(&self) -> BoxFuture<'static, ()> {
        Box::pin(future::pending())
    }

    /// Prepares to let the session go: others can claim it as soon as this has returned and the claim is
    /// dropped. Nothing can be added any more. A claim that is only dropped is let go in its own time.
    async fn release(&mut self) {}
}
