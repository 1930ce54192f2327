//! The interface to stores of sessions' logs. The crate `tandem-store` implements it, with files and with a database.

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
use tandem_content::blocking::BlockingError;
use tandem_host::stored_files::StoredFile;

/// Description of a session that is stored when the session is created, and not changed later: the first line of a
/// stored log.
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
    /// The principal that the session belongs to, with its tenant. A session without one belongs to the user of the
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<PrincipalId>,
    /// The `contextId` that a client has given the session, by which people may look for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The original of the session, if the session is a fork, or a copy of another program's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ForkPoint>,
    /// The repository of which the session's directory is a clone, if the directory is a clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitOrigin>,
    /// The tag of the session, if the session is a checkpoint. Nothing is added to a checkpoint: a client that wants to
    /// go on with it gets a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The place in the original at which a copied session begins to differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The original's id.
    pub id: String,
    /// Index in the original's log; the events before that index are also in the copy's log. If the original is another
    /// program's session, the number of its messages.
    pub index: usize,
    /// Program of the original session, if another program wrote that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// Events of a log whose indexes follow each other without a gap. Between two batches, indexes may be missing, because
/// not every event is stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Index of the first event.
    pub first: usize,
    /// The events, each with its time.
    pub events: Vec<(Millis, Arc<Event>)>,
    /// The session's progress after these events, if they have changed it.
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
    /// The session's title, if it differs from the title in the session's [`Head`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Members of the owner's tenant with whom the session is shared.
    #[serde(default, skip_serializing_if = "Shares::is_empty")]
    pub shares: Shares,
    /// `true` if a turn runs or waits. Not written with the log: a store that several processes share has a field of
    /// its own for it, and a reader of a file finds it out from the events.
    #[serde(skip)]
    pub busy: bool,
}

/// A piece of a stored log.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Events.
    Batch(Batch),
    /// A piece that cannot be read and is left out; the text says why, for people.
    Damaged(String),
}

/// A stored log, read from its beginning in pieces of any size.
pub type StoredLog = BoxStream<'static, Result<Vec<Stored>, StoreError>>;

/// One session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The session's head.
    pub head: Head,
    /// Current title of the session.
    pub title: String,
    /// Number of turns.
    pub turns: u64,
    /// Time of the last change.
    pub changed: Millis,
    /// Members of the owner's tenant with whom the session is shared.
    pub shares: Shares,
    /// Another process of this machine that has the session open. Always `None` for a session in a database.
    pub held_by: Option<Holder>,
}

impl Listed {
    /// Explains which other process has the session open, and how to join the session there. Returns `None` if no
    /// other process has it open.
    pub fn explain_holder(&self) -> Option<String> {
        let holder = self.held_by.as_ref()?;
        Some(holder.explain(&self.head.id))
    }

    /// Returns the owner, and the members with whom the session is shared.
    pub fn access(&self) -> SessionAccess {
        SessionAccess { owner: self.head.owner.clone(), shares: self.shares.clone() }
    }
}

/// A session that is in use at some node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSession {
    /// The session's entry in a list.
    pub listed: Listed,
    /// `true` if a turn runs or waits.
    pub busy: bool,
}

/// Sessions to list, the last changed first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Directory in which the listed sessions started; `None` for sessions of any directory.
    pub directory: Option<PathBuf>,
    /// `Some(true)` for checkpoints alone, `Some(false)` for sessions that are no checkpoints, `None` for both.
    pub checkpoints: Option<bool>,
    /// Number of sessions to leave out at the beginning of the list.
    pub skip: usize,
    /// Maximum number of sessions.
    pub most: Option<usize>,
}

/// A session in which a turn runs or waits although no living process has the session open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Orphan {
    /// The session's id.
    pub id: String,
    /// Epoch of the owner that was found dead. A lease of the orphan fails if the session has another epoch by then. 0
    /// in a store without epochs.
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
    /// Name of the node, if several nodes share the store. The process may be on another machine then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl Holder {
    /// Returns the port of this machine over which sessions of the process can be joined, if they can be joined.
    pub fn joinable_port(&self) -> Option<u16> {
        self.port.filter(|_| self.node.is_none())
    }

    /// Returns the command that joins a session of the process, if the session can be joined.
    pub fn join_command(&self, id: &str) -> Option<String> {
        let port = self.joinable_port()?;
        Some(format!("tandem attach {port} --session {id}"))
    }

    /// Explains that the process has a session open, and how a person reaches the session.
    fn explain(&self, id: &str) -> String {
        match self.join_command(id) {
            _ if self.node.is_some() => format!("open at {self}; ask that node"),
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
    /// A newer version of tandem wrote the session in a format that this version must not add to; the format's version.
    Newer(u32),
    /// The session is a checkpoint, to which nothing can be added; the checkpoint's tag.
    Checkpoint(String),
    /// The data are not the log of a stored session; the reason.
    Invalid(String),
    /// A part of the log that was stored is lost; the reason. [`WriteLease::renew`] begins the log anew.
    Lost(&'static str),
    /// Another process has taken the session over: no event that this process adds will ever be stored.
    TakenOver,
    /// The store's database cannot be used now; the reason, for the database's operator.
    Unavailable(String),
    /// The store has refused events of the session for too long, and the session has ended; the reason, for the store's
    /// operator.
    Refused(String),
    /// An operation on the disk, or in the operating system, has failed.
    Io(io::Error),
}

impl StoreError {
    /// Returns the text for clients of a server. Leaves out details such as the address of the database or paths of
    /// files, which clients must not learn.
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
            Self::Unavailable(why) => f.write_str(why),
            Self::Refused(why) => write!(f, "the session could not be saved, and has ended: {why}"),
            Self::Io(err) => write!(f, "{err}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<BlockingError> for StoreError {
    fn from(error: BlockingError) -> Self {
        Self::Io(error.into())
    }
}

impl From<io::Error> for StoreError {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

/// Data of a session that must not be in its log, by name: credentials, and addresses that are secret.
pub type Secrets = BTreeMap<String, Value>;

/// A place where logs of sessions are stored.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates a session, and acquires its write lease.
    async fn create(&self, head: &Head) -> Result<Box<dyn WriteLease>, StoreError>;

    /// Acquires the write lease of a session that no process has open. Fails with [`StoreError::Held`] if a process has
    /// it.
    async fn acquire(&self, id: &str) -> Result<Box<dyn WriteLease>, StoreError>;

    /// Acquires the write lease of an orphan. Fails if another process has acquired the lease first.
    async fn acquire_orphan(&self, orphan: &Orphan) -> Result<Box<dyn WriteLease>, StoreError>;

    /// Returns some of the orphans among the sessions of A2A clients. Their order is random where several processes
    /// look for orphans, so that two processes seldom try to lease the same one.
    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError>;

    /// Waits until there may be new orphans. Waits for ever in a store where only this process could make orphans.
    async fn orphaned(&self);

    /// Returns `true` if a process has a session open now. Needs no lease, and does not keep another process from
    /// leasing the session.
    async fn is_held(&self, id: &str) -> Result<bool, StoreError>;

    /// Returns the unique id of the store itself. A store that has lost its sessions gets a new id.
    async fn id(&self) -> Result<String, StoreError>;

    /// Returns the head of a session. Needs no lease.
    async fn head(&self, id: &str) -> Result<Head, StoreError>;

    /// Reads the events of a session that are stored now, from the beginning, in pieces of any size. Needs no lease.
    async fn read(&self, id: &str) -> Result<StoredLog, StoreError>;

    /// Returns the ids of the sessions that a process has open, or had open when the process was killed.
    async fn opened(&self) -> Result<Vec<String>, StoreError>;

    /// Reads the secrets that are stored beside a session's log. Needs no lease.
    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError>;

    /// Lists sessions, the last changed first. A session that cannot be listed is left out.
    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError>;

    /// Returns `false` if a text, given in lower case, is certainly in no prompt and no answer of a session. May return
    /// `true` although the text is in none. Must be cheaper than reading the log as events. Needs no lease.
    async fn may_say(&self, id: &str, lower: &str) -> Result<bool, StoreError> {
        let _ = (id, lower);
        Ok(true)
    }

    /// Deletes a session that no process has open, with its files.
    async fn delete(&self, id: &str) -> Result<(), StoreError>;

    /// Returns the interface for nodes that share the store, if the store can be shared. Each of these nodes answers
    /// requests for the sessions of all nodes.
    fn shared(&self) -> Option<&dyn SharedStore>;

    /// Returns the directory for files that belong to a session: contents for undo, and long outputs. The directory
    /// need not exist.
    fn directory(&self, id: &str) -> Option<PathBuf>;
}

/// A call that a client has made at one node, and that the session's owner, another node, is to carry out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Order {
    /// The session's id.
    pub session: String,
    /// Unique name of the order.
    pub key: String,
    /// The call, in a format that only the front end reads.
    pub body: String,
    /// Epoch in which this node has the session.
    pub epoch: i64,
}

/// Tokens that a session has used in a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUsage {
    /// The session's id.
    pub session: String,
    /// The principal that the session belongs to.
    pub owner: PrincipalId,
    /// Number of tokens.
    pub tokens: u64,
}

/// Numbers of sessions and turns that a principal uses at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentUse {
    /// The principal.
    pub owner: PrincipalId,
    /// Number of sessions in use.
    pub sessions: usize,
    /// Number of turns that run or wait.
    pub turns: usize,
}

/// A store that several nodes share. A node reads the logs of other nodes' sessions as the logs grow, and leaves orders
/// for the owners of these sessions.
#[async_trait]
pub trait SharedStore: Send + Sync {
    /// Reads a log from the index `from` on: the events that are stored, and then each new event. Ends with an error if
    /// the session is deleted, or if events that were read are no longer stored.
    fn follow(&self, id: &str, from: usize) -> StoredLog;

    /// Returns the index after the last event of a session.
    async fn position(&self, id: &str) -> Result<usize, StoreError>;

    /// Makes all followers of a session in this process look for new events at once, because the store's notification
    /// may be late.
    fn refresh_followers(&self, id: &str);

    /// Returns the ids, out of `ids`, of the sessions that no other process has.
    async fn unowned_by_others(&self, ids: &[&str]) -> Result<Vec<String>, StoreError>;

    /// Lists the sessions that other processes have, and the sessions in which a turn runs or waits although no process
    /// has them. The last changed comes first. Checkpoints are left out.
    async fn active_elsewhere(&self) -> Result<Vec<ActiveSession>, StoreError>;

    /// Lists the files that are stored beside a session's log. Needs no lease.
    async fn files(&self, id: &str) -> Result<Vec<StoredFile>, StoreError>;

    /// Reads a file of at most `max` bytes that is stored beside a session's log. Needs no lease.
    async fn read_file(&self, id: &str, name: &str, max: u64) -> Result<Vec<u8>, StoreError>;

    /// Stores a file beside the log of a session that this process has. Waits while the store cannot be reached. A file
    /// is listed only when it is complete, and the content under a name never changes.
    async fn put_file(&self, id: &str, name: &str, content: Vec<u8>) -> Result<(), StoreError>;

    /// Removes a file beside the log of a session that this process has. Waits while the store cannot be reached.
    async fn remove_file(&self, id: &str, name: &str) -> Result<(), StoreError>;

    /// Copies all files beside the log of the session `from` to the session `id`, which this process has.
    async fn copy_files(&self, from: &str, id: &str) -> Result<(), StoreError>;

    /// Leaves an order for a session's owner, and waits for the reply. If the session gets another owner meanwhile, the
    /// new owner carries out the order.
    async fn ask(&self, id: &str, body: &str) -> Result<String, StoreError>;

    /// Waits for orders for the sessions that this process has. Returns them in the sequence in which they were left,
    /// without the orders that this process carries out already (`under_way`).
    async fn orders(&self, under_way: &HashSet<Order>) -> Result<Vec<Order>, StoreError>;

    /// Replies to an order. The reply is dropped if the session has another owner by now, because that owner carries
    /// out the order as well.
    async fn reply(&self, order: &Order, reply: &str) -> Result<(), StoreError>;

    /// Notes the tokens that sessions have used in a day; `sessions` has each session at most once. Returns the number
    /// of tokens that each principal has used on that day, in the sessions of all nodes. `day` counts days since the
    /// beginning of 1970, UTC.
    async fn share_usage(
        &self,
        day: i64,
        sessions: &[SessionUsage],
    ) -> Result<Vec<(PrincipalId, u64)>, StoreError>;

    /// Notes the numbers of sessions and turns that principals use at this node now, in place of the numbers that were
    /// noted before; `here` has each principal once. Returns the numbers of each principal at all other living nodes.
    async fn share_current_use(&self, here: &[CurrentUse]) -> Result<Vec<CurrentUse>, StoreError>;
}

/// The write lease of a session: the right to add to the session's log. One process has the lease, until it drops the
/// lease or ends. (A [`Lease`](crate::sessions::Lease) is another thing: it keeps a session loaded in this process.) In
/// a store that several machines share, another process that believes this one dead may take the session over. From
/// then on this lease is fenced: nothing can be added with it ([`StoreError::TakenOver`]).
#[async_trait]
pub trait WriteLease: Send + Sync {
    /// Returns the index after the last event that is stored.
    fn next(&self) -> usize;

    /// Returns a text for people about repairs of the log that leasing the session has made, if any were needed.
    fn repaired(&self) -> Option<&str>;

    /// Adds batches in order, none of which begins before [`WriteLease::next`]. When this returns without an error, the
    /// batches outlive the process. After an error none of them counts as stored, and they may be added again.
    async fn append(&mut self, batches: Vec<Batch>) -> Result<(), StoreError>;

    /// Waits until all batches that were added outlive a loss of power, too.
    async fn sync(&mut self) -> Result<(), StoreError>;

    /// Begins a new log at index 0, when a part of the stored log is lost. The next [`WriteLease::sync`] replaces
    /// the old log by the new one; until then, the rest of the old log stays. If a step fails, the caller begins
    /// with `renew` again.
    async fn renew(&mut self) -> Result<(), StoreError>;

    /// Announces the port of this machine at which other processes can join the session.
    async fn announce(&mut self, port: u16) -> Result<(), StoreError>;

    /// Stores secrets beside the log, in place of all earlier secrets. Secrets are part of no copy and no export, and
    /// are deleted with the session. When this returns without an error, they outlive a loss of power.
    async fn store_secrets(&mut self, secrets: &Secrets) -> Result<(), StoreError>;

    /// Waits until this process learns that another process has taken the session over. The process learns this even if
    /// it adds nothing to the log.
    fn taken_over(&self) -> BoxFuture<'static, ()> {
        Box::pin(future::pending())
    }

    /// Prepares to release the session. Other processes can lease the session as soon as this has returned and the
    /// lease is dropped. Nothing can be added any more. A lease that is dropped without this is released a little
    /// later.
    async fn release(&mut self) {}
}
