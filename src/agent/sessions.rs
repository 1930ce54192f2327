//! The registry of all sessions of the process: every front end creates, opens, lists and ends
//! sessions here.

mod checkpoints;
mod export;
mod find;
mod fork;
mod lease;
mod retention;
mod search;

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::future::ready;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pub use self::checkpoints::{CheckpointError, checkpoints, find_checkpoint};
pub use self::export::{
    CallBody, CallPassage, Conversation, Passage, conversation_of, read_conversation, to_html,
    to_markdown, to_text,
};
pub use self::find::{FindError, WantedSession, find};
pub use self::fork::{ForkError, fork, fork_ended};
pub use self::lease::{Lease, Leased, Leases};
pub use self::retention::{Retention, remove_old};
pub use self::search::{SearchHit, search};
use crate::KeyedMutex;
use crate::session::{
    Head, Listed, Millis, Orphan, PrincipalId, PromptPart, Query, ResumePolicy, Session, Storage,
    Store, StoreError, StoredSession,
};
use tandem_host::preimages::ContentId;

/// Number of stored sessions on the first page that is read. The constant below is the number on the largest page.
const STORED_PAGE: usize = 256;
const LARGEST_STORED_PAGE: usize = 16 << 10;

/// A client's wishes for a new session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionRequest {
    /// The directory to work in; `None` is the directory of the process.
    pub directory: Option<PathBuf>,
    /// More directories to work in.
    pub more: Vec<PathBuf>,
    /// `true` to ask for a session without questions; the maker decides if that is granted.
    pub auto_approve: bool,
}

/// Maker of sessions: makes a session whose log has its place in this storage, or returns the reason for refusing the
/// request. May read files.
pub type MakeSession =
    Arc<dyn Fn(&SessionRequest, Storage) -> Result<Arc<Session>, String> + Send + Sync>;

/// Limits of a registry.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// Maximum number of loaded sessions.
    pub loaded: usize,
    /// Bytes of a log that stay in memory, for a session that is loaded from a store.
    pub log_bytes: usize,
    /// Time after which an unused session is unloaded; `None` keeps sessions loaded until the process ends.
    pub idle: Option<Duration>,
}

/// Reason why a session is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateError {
    /// The registry has this many loaded sessions, which is its limit.
    Full(usize),
    /// The maker refused the request.
    Refused(String),
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(most) => {
                write!(f, "there are {most} sessions already; try again when one has ended")
            }
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for CreateError {}

/// Reason why a stored session is not loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The store refused, or cannot be read.
    Store(StoreError),
    /// There is no room for the session, or its maker refused.
    Create(CreateError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Create(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// State of a front end about a session, which lives as long as the session is loaded.
pub trait SessionView: Any + Send + Sync {
    /// Ends what the front end does for the session, which has been unloaded or deleted.
    fn unloaded(&self);
}

/// One-line description of a loaded session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The id under which the registry has the session.
    pub id: String,
    /// The title; empty before the first prompt that is no command.
    pub title: String,
    /// First line of the last prompt; empty before the first.
    pub last_prompt: String,
    /// Number of prompts.
    pub prompts: u64,
    /// The directory that the session started in.
    pub directory: PathBuf,
    /// Time of the last event of a turn; `None` before the first prompt.
    pub last_activity: Option<Millis>,
    /// `true` while a turn runs.
    pub busy: bool,
    /// Number of leases: front ends and clients that use the session now.
    pub watchers: usize,
}

/// All sessions of the process, by id.
pub struct Sessions {
    /// Weak reference to the registry itself, for tasks that must not keep it alive.
    registry: Weak<Self>,
    make: MakeSession,
    limits: SessionLimits,
    /// Lock that is held while a session is made and added, so that two requests for one id get one session and the
    /// limit is exact. The lock is taken before `loaded`.
    creation: Mutex<()>,
    // The key is the id that a client chose, or else the session's own.
    loaded: Mutex<HashMap<String, Arc<LoadedSession>>>,
    /// Store of the logs; `None` if sessions end with the process.
    store: Option<Arc<dyn Store>>,
    /// Policy on the turns that other processes have left: which of them are resumed here.
    policy: ResumePolicy,
    /// Locks by stored id. A lock is held while the session is loaded, so that two requests for it get one session.
    loading: KeyedMutex,
    /// Unloaded sessions, by their own ids, until all of their events are stored. Before that, the store has not
    /// released a session, and loading it again must wait. A session is added here while the lock of `loaded` is still
    /// held, so that it is always found in one of the two. This lock is taken after `loaded`.
    unloading: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    /// Makes an empty registry of sessions that end with the process.
    pub fn new(make: MakeSession, limits: SessionLimits) -> Arc<Self> {
        Self::with_store(make, limits, None)
    }

    /// Makes a registry whose sessions are stored; without a store, they end with the process. Turns that another
    /// process has left are ended.
    pub fn with_store(
        make: MakeSession,
        limits: SessionLimits,
        store: Option<Arc<dyn Store>>,
    ) -> Arc<Self> {
        Self::resuming(make, limits, store, ResumePolicy::Never)
    }

    /// Makes a registry that also resumes the turns that another process has left, as far as the policy allows.
    pub fn resuming(
        make: MakeSession,
        limits: SessionLimits,
        store: Option<Arc<dyn Store>>,
        policy: ResumePolicy,
    ) -> Arc<Self> {
        Arc::new_cyclic(|registry| Self {
            registry: registry.clone(),
            make,
            limits,
            store,
            policy,
            creation: Mutex::default(),
            loaded: Mutex::default(),
            loading: KeyedMutex::default(),
            unloading: Mutex::default(),
        })
    }

    /// Returns the store, if there is one.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// Returns the limits.
    pub fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// Returns the policy on the turns that other processes have left.
    pub fn resume_policy(&self) -> ResumePolicy {
        self.policy
    }

    /// Makes a session that is opened by its own id. `prepare` runs on the session before another caller can open it.
    pub fn create(
        &self,
        request: &SessionRequest,
        prepare: impl FnOnce(&Session),
    ) -> Result<Leased<LoadedSession>, CreateError> {
        let _creation = self.creation.lock();
        let id = uuid::Uuid::now_v7().to_string();
        self.add(None, request, self.new_storage(&id), prepare)
    }

    /// Opens the loaded session with an id, or makes a session under that id. Also returns `true` if the session is
    /// new. `prepare` runs on a new session before another caller can open it.
    pub fn open_or_create(
        &self,
        id: &str,
        request: &SessionRequest,
        prepare: impl FnOnce(&Session),
    ) -> Result<(Leased<LoadedSession>, bool), CreateError> {
        if let Some(opened) = self.open(id) {
            return Ok((opened, false));
        }
        let _creation = self.creation.lock();
        // Another request may have made the session while this one waited for the lock.
        match self.open(id) {
            Some(opened) => Ok((opened, false)),
            None => Ok((self.add(Some(id), request, self.new_storage(id), prepare)?, true)),
        }
    }

    /// Returns the storage of a new session that clients call by this id.
    fn new_storage(&self, id: &str) -> Storage {
        match &self.store {
            Some(store) => Storage::New { id: stored_id(id), store: Arc::clone(store) },
            None => Storage::Nowhere,
        }
    }

    /// Returns the head of the stored session with this id, if there is one.
    pub async fn head(&self, id: &str) -> Result<Option<Head>, StoreError> {
        let Some(store) = &self.store else { return Ok(None) };
        match store.head(&stored_id(id)).await {
            Ok(head) => Ok(Some(head)),
            Err(StoreError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the session with an id, and loads it from the store if it is not loaded. A session that is loaded now
    /// works in the directories `more` besides its own. Returns `None` if there is no such session. `prepare` runs on a
    /// session that is loaded now, before another caller can open it.
    ///
    /// 1. If the session is loaded, waits until it is ready, and returns it.
    /// 2. Takes the lock of the id, and looks again: another caller may have loaded the session meanwhile.
    /// 3. If the session is being unloaded, waits until all of it is stored.
    /// 4. Reads the stored session. If A2A clients began it, and its process ended before it stored any event, deletes
    ///    it and returns `None`.
    /// 5. Makes the session and adds it.
    pub async fn load(
        &self,
        id: &str,
        more: Vec<PathBuf>,
        prepare: impl FnOnce(&Session),
    ) -> Result<Option<Leased<LoadedSession>>, LoadError> {
        if let Some(opened) = self.open(id) {
            opened.wait_resumed().await;
            return Ok(Some(opened));
        }
        let Some(store) = &self.store else { return Ok(None) };
        let (name, id) = (id, stored_id(id));
        let _loading = self.loading.lock(&id).await;
        if let Some(opened) = self.open(name) {
            opened.wait_resumed().await;
            return Ok(Some(opened));
        }
        self.wait_unloaded(&id).await;
        let log_bytes = self.limits.log_bytes;
        let stored = match StoredSession::open(store, &id, log_bytes, self.policy).await {
            Err(StoreError::NotFound(_)) => return Ok(None),
            stored => stored.map_err(LoadError::Store)?,
        };
        if stored.is_abandoned() {
            drop(stored);
            store.delete(&id).await.map_err(LoadError::Store)?;
            return Ok(None);
        }
        self.add_stored(stored, more, prepare).await.map(Some)
    }

    /// Returns the session of an id in the store that is being unloaded, until all of its events are stored.
    fn unloading(&self, id: &str) -> Option<Arc<Session>> {
        // A session gives out no more leases a moment before it is in `unloading`. Both happen under the lock of
        // `loaded`, so a caller that was refused a lease finds the session here.
        let _loaded = self.loaded.lock();
        self.unloading.lock().get(id).map(Arc::clone)
    }

    /// Returns `true` if the session of an id is being unloaded and some of its events may not be stored yet.
    pub fn is_unloading(&self, id: &str) -> bool {
        self.unloading(&stored_id(id)).is_some()
    }

    /// Waits until all events of a session that is being unloaded are stored.
    pub async fn wait_unloaded(&self, id: &str) {
        let id = stored_id(id);
        let Some(unloading) = self.unloading(&id) else { return };
        unloading.persistence().wait_released().await;
        // The entry is removed only now: this future may be dropped earlier, and the next caller must wait, too.
        let mut all = self.unloading.lock();
        if all.get(&id).is_some_and(|session| Arc::ptr_eq(session, &unloading)) {
            all.remove(&id);
        }
    }

    /// Takes over an orphan: a session in which a turn runs or waits, although no live process has the session.
    /// `prepare` runs on the session before another caller can open it.
    pub async fn take_over(
        &self,
        orphan: &Orphan,
        prepare: impl FnOnce(&Session),
    ) -> Result<Leased<LoadedSession>, LoadError> {
        let gone = || LoadError::Store(StoreError::NotFound(orphan.id.clone()));
        let store = self.store.as_ref().ok_or_else(gone)?;
        let _loading = self.loading.lock(&orphan.id).await;
        if let Some(opened) = self.find_live(&orphan.id).and_then(|live| live.lease()) {
            opened.wait_resumed().await;
            return Ok(opened);
        }
        let (log_bytes, policy) = (self.limits.log_bytes, self.policy);
        let stored = StoredSession::open_orphan(store, orphan, log_bytes, policy).await;
        self.add_stored(stored.map_err(LoadError::Store)?, Vec::new(), prepare).await
    }

    /// Makes a session from its stored form, and adds it. The caller holds the lock of its id in `loading`.
    async fn add_stored(
        &self,
        stored: StoredSession,
        more: Vec<PathBuf>,
        prepare: impl FnOnce(&Session),
    ) -> Result<Leased<LoadedSession>, LoadError> {
        let request = SessionRequest {
            directory: Some(stored.head().directory.clone()),
            more,
            auto_approve: false,
        };
        // The key is the client's name for the session, if that name leads to its stored id. `find_loaded` also finds
        // the session by its stored id, which lists give.
        let name = stored.name().filter(|name| stored_id(name) == stored.head().id);
        let name = name.unwrap_or(stored.head().id.clone());
        let loaded = {
            let _creation = self.creation.lock();
            let storage = Storage::Stored(Box::new(stored));
            self.add(Some(&name), &request, storage, prepare).map_err(LoadError::Create)?
        };
        // The rest runs in a task of its own, so that the turns of the session do not wait for ever if the caller's
        // future is dropped now.
        let (session, begun) = (Arc::clone(&loaded.session), loaded.begun.clone().drop_guard());
        tokio::spawn(async move {
            // The guard fires `begun` however the task ends.
            let _begun = begun;
            session.catch_up().await;
            session.go_on();
            // The session is ready only now. Before, a client could see calls and turns as open that the last process
            // left open, and whose ends are not stored yet.
            session.wait_durable().await;
        });
        loaded.wait_resumed().await;
        Ok(loaded)
    }

    /// Makes a session and adds it to the registry. If the registry is full, first unloads a session that is not in
    /// use: if possible, one that was [abandoned](LastUse::abandon). The caller holds the lock `creation`.
    fn add(
        &self,
        id: Option<&str>,
        request: &SessionRequest,
        storage: Storage,
        prepare: impl FnOnce(&Session),
    ) -> Result<Leased<LoadedSession>, CreateError> {
        let most = self.limits.loaded;
        if self.loaded.lock().len() >= most
            && !self.unload_abandoned()
            && !self.unload_unused(|_| true)
        {
            return Err(CreateError::Full(most));
        }
        let stored_before = storage.next();
        let session = (self.make)(request, storage).map_err(CreateError::Refused)?;
        prepare(&session);
        let id = id.unwrap_or(session.id()).to_owned();
        // The caller's lease is taken before the session can be found, so that the session is not unloaded again at
        // once.
        let (leases, lease) = Leases::with_first();
        let begun = CancellationToken::new();
        if stored_before.is_none() {
            begun.cancel();
        }
        let added = Arc::new(LoadedSession {
            id: id.clone(),
            session,
            stored_before,
            begun,
            last_use: Arc::new(LastUse::now()),
            leases,
            views: Mutex::default(),
        });
        self.loaded.lock().insert(id, Arc::clone(&added));
        if self.store.is_some() {
            let (registry, taken) = (self.registry.clone(), Arc::downgrade(&added));
            let closed = added.session.turns().closed();
            tokio::spawn(async move {
                closed.await;
                if let (Some(registry), Some(taken)) = (registry.upgrade(), taken.upgrade()) {
                    registry.forget_abandoned(&taken);
                }
            });
        }
        Ok(Leased::new(added, lease))
    }

    /// Unloads a session whose events this process no longer stores, and returns `true`; returns `false` for any other
    /// session. The next request for the session is told which process has it, or loads it as it is stored.
    pub fn forget_abandoned(&self, taken: &Arc<LoadedSession>) -> bool {
        if taken.session.fence_error().is_none() {
            return false;
        }
        let removed = {
            let mut loaded = self.loaded.lock();
            let is_it = loaded.get(&taken.id).is_some_and(|loaded| Arc::ptr_eq(loaded, taken));
            if is_it { self.remove(&mut loaded, &taken.id) } else { None }
        };
        if let Some(removed) = removed {
            removed.end();
        }
        true
    }

    /// Returns the loaded session with an id, and notes the use. The id is the session's own id, or the id that a
    /// client chose.
    pub fn open(&self, id: &str) -> Option<Leased<LoadedSession>> {
        let opened = self.find_live(id)?.lease()?;
        opened.last_use.used();
        Some(opened)
    }

    /// Returns `true` if a session with this id is loaded.
    pub fn contains(&self, id: &str) -> bool {
        self.find_loaded(id).is_some()
    }

    /// Returns the loaded session of an id. If this process no longer stores the session's events, unloads the session
    /// and returns `None`.
    fn find_live(&self, id: &str) -> Option<Arc<LoadedSession>> {
        self.find_loaded(id).filter(|loaded| !self.forget_abandoned(loaded))
    }

    /// Returns the loaded session of an id like [`Sessions::open`], but without a lease, and notes no use.
    pub fn find_loaded(&self, id: &str) -> Option<Arc<LoadedSession>> {
        find_in(&self.loaded.lock(), id).map(Arc::clone)
    }

    /// Waits until no load of the session of an id is under way. If the session is loaded then, also waits until the
    /// turns, calls and questions that the last process left open are closed or resumed, and returns the session.
    pub async fn settled(&self, id: &str) -> Option<Arc<LoadedSession>> {
        drop(self.loading.lock(&stored_id(id)).await);
        self.find_live(id)?.wait_resumed().await;
        self.find_live(id)
    }

    /// Returns `true` if a session of this id is loaded, or being loaded.
    pub fn is_loaded_or_loading(&self, id: &str) -> bool {
        self.loading.is_locked(&stored_id(id)) || self.contains(id)
    }

    /// Streams the stored sessions that are not loaded, of one directory or of all, the last changed first. Checkpoints
    /// are left out, because they cannot be opened. The store is read page by page, so that the cost of reading a few
    /// sessions does not grow with the number of stored sessions.
    pub fn stored_sessions(
        &self,
        directory: Option<PathBuf>,
    ) -> impl Stream<Item = Result<Listed, StoreError>> + Send {
        let query = Query { directory, checkpoints: Some(false), ..Query::default() };
        let pages = stream::try_unfold(Some(0), move |skip| self.stored_page(query.clone(), skip));
        let mut listed = HashSet::new();
        pages
            .map_ok(|page| stream::iter(page).map(Ok))
            .try_flatten()
            // A session that changes between the reading of two pages may be on both.
            .try_filter(move |next| ready(listed.insert(next.head.id.clone())))
    }

    /// Reads a page of the stored sessions that are not loaded. Also returns where the next page begins, if there may
    /// be one.
    async fn stored_page(
        &self,
        query: Query,
        skip: Option<usize>,
    ) -> Result<Option<(Vec<Listed>, Option<usize>)>, StoreError> {
        let (Some(store), Some(skip)) = (&self.store, skip) else { return Ok(None) };
        // A page has as many sessions as all pages before it, because a store may have to go through those again.
        let most = skip.clamp(STORED_PAGE, LARGEST_STORED_PAGE);
        let page = store.list(&Query { skip, most: Some(most), ..query }).await?;
        let next = (page.len() == most).then_some(skip + most);
        Ok(Some((self.without_loaded(page), next)))
    }

    fn without_loaded(&self, mut stored: Vec<Listed>) -> Vec<Listed> {
        let loaded = self.loaded.lock();
        let ids: HashSet<_> = loaded.values().map(|loaded| loaded.session.id()).collect();
        stored.retain(|listed| !ids.contains(listed.head.id.as_str()));
        stored
    }

    /// Returns all loaded sessions, in no order, without leases.
    pub fn loaded(&self) -> Vec<Arc<LoadedSession>> {
        self.loaded.lock().values().map(Arc::clone).collect()
    }

    /// Describes all loaded sessions, the last active first.
    pub fn list(&self) -> Vec<SessionSummary> {
        // The sessions are described without the lock of `loaded`, because a long log may have to be read.
        let mut list: Vec<_> = self.loaded().iter().map(|loaded| loaded.summary()).collect();
        list.sort_by_key(|summary| Reverse(summary.last_activity));
        list
    }

    /// Unloads the sessions that have not been used for the idle time. The idle time of a session that is busy or
    /// watched begins when that ends.
    pub fn unload_idle(&self) {
        let Some(idle) = self.limits.idle else { return };
        let now = Instant::now();
        let is_idle = |loaded: &LoadedSession| {
            if loaded.is_in_use() {
                loaded.last_use.touch();
            }
            now.saturating_duration_since(loaded.last_use.at()) >= idle
        };
        let unloaded: Vec<_> = {
            let mut loaded = self.loaded.lock();
            let idle = loaded.values().filter(|loaded| is_idle(loaded));
            let idle: Vec<_> = idle.map(|loaded| loaded.id.clone()).collect();
            idle.iter().filter_map(|id| self.remove_unused(&mut loaded, id)).collect()
        };
        for unloaded in &unloaded {
            unloaded.end();
        }
    }

    /// Unloads the least recently used of the sessions that `is_meant` selects and that are not in use now, if sessions
    /// are stored. Returns `false` if there is no such session.
    pub fn unload_unused(&self, is_meant: impl Fn(&LoadedSession) -> bool) -> bool {
        let used_at = |loaded: &LoadedSession| is_meant(loaded).then(|| loaded.last_use.at());
        self.store.is_some() && self.unload_first(used_at)
    }

    /// Unloads the session that was [abandoned](LastUse::abandon) first, of the sessions that are not in use. Returns
    /// `false` if there is no such session.
    fn unload_abandoned(&self) -> bool {
        self.unload_first(|loaded| loaded.last_use.abandoned_at())
    }

    /// Unloads the session that is not in use and for which `at` returns the earliest time. Returns `false` if there is
    /// no such session.
    fn unload_first(&self, at: impl Fn(&LoadedSession) -> Option<Instant>) -> bool {
        let unloaded = {
            let mut loaded = self.loaded.lock();
            let meant = loaded.values().filter_map(|it| Some((at(it)?, it.id.clone())));
            let meant: BTreeSet<_> = meant.collect();
            meant.iter().find_map(|(_, id)| self.remove_unused(&mut loaded, id))
        };
        unloaded.inspect(|unloaded| unloaded.end()).is_some()
    }

    /// Returns the sessions that are in use now, in no order. These sessions are not unloaded to make room for others.
    pub fn in_use(&self) -> Vec<Arc<Session>> {
        let loaded = self.loaded.lock();
        let used = loaded.values().filter(|loaded| loaded.is_in_use());
        used.map(|loaded| Arc::clone(&loaded.session)).collect()
    }

    /// Removes a session from the registry unless the session is in use; the caller ends it.
    fn remove_unused(
        &self,
        loaded: &mut HashMap<String, Arc<LoadedSession>>,
        id: &str,
    ) -> Option<Arc<LoadedSession>> {
        let found = loaded.get(id)?;
        let is_unused = found.leases.close_unused(|| found.session.turns().running().is_some());
        if is_unused { self.remove(loaded, id) } else { None }
    }

    /// Removes a session from the registry; the caller ends it. The session is loaded again only when all of it is
    /// stored.
    fn remove(
        &self,
        loaded: &mut HashMap<String, Arc<LoadedSession>>,
        id: &str,
    ) -> Option<Arc<LoadedSession>> {
        let removed = loaded.remove(id)?;
        removed.leases.close();
        if self.store.is_some() {
            let mut unloading = self.unloading.lock();
            unloading.retain(|_, session| !session.persistence().has_ended());
            unloading.insert(removed.session.id().to_owned(), Arc::clone(&removed.session));
        }
        Some(removed)
    }

    /// Ends a loaded session and removes it from the registry; its stored log is not deleted. The id is the session's
    /// own id, or the id that a client chose. Returns `false` if no session is loaded under this id.
    pub fn delete(&self, id: &str) -> bool {
        let deleted = {
            let mut loaded = self.loaded.lock();
            let key = find_in(&loaded, id).map(|found| found.id.clone());
            key.and_then(|key| self.remove(&mut loaded, &key))
        };
        deleted.inspect(|deleted| deleted.end()).is_some()
    }

    /// Closes all sessions; the turns that this cancels end with the reason `why`. The sessions stay loaded, so that
    /// clients can read these ends.
    pub fn close(&self, why: &str) {
        self.loaded().iter().for_each(|loaded| loaded.session.close_because(why));
    }

    /// Waits until all events of the sessions that were closed or unloaded are stored.
    pub async fn wait_all_stored(&self) {
        for loaded in self.loaded() {
            loaded.session.persistence().wait_released().await;
        }
        let unloading: Vec<_> = self.unloading.lock().drain().collect();
        for (_, session) in unloading {
            session.persistence().wait_released().await;
        }
    }
}

/// Returns the loaded session of an id: the registry's id of the session, or else the session's own.
fn find_in<'a>(
    loaded: &'a HashMap<String, Arc<LoadedSession>>,
    id: &str,
) -> Option<&'a Arc<LoadedSession>> {
    loaded.get(id).or_else(|| loaded.values().find(|loaded| loaded.session.id() == id))
}

/// Returns the id under which a store has a session that clients call by this id: the same id if it is a UUID, else a
/// UUID that is computed from it, so that no index of names is needed.
pub fn stored_id(id: &str) -> String {
    match uuid::Uuid::try_parse(id) {
        Ok(uuid) if uuid.as_hyphenated().to_string() == id => id.to_owned(),
        _ => ContentId::hash(id.as_bytes()).to_uuid().to_string(),
    }
}

/// Returns the id of the session that a principal calls by this name. The id is also the session's id in the store. No
/// other principal has a name that leads to this id.
pub fn owned_id(owner: &PrincipalId, name: &str) -> String {
    let PrincipalId { tenant, name: owner } = owner;
    ContentId::hash(format!("{tenant}\0{owner}\0{name}").as_bytes()).to_uuid().to_string()
}

/// Returns the id of the session that is begun by a message that names no session. The id is the same each time, and on
/// each node, that the sender sends the message again. Another text under the same message id is another message.
/// `use_number` counts the sessions that the sender has begun with this message.
pub fn begun_id(sender: &str, message: &str, prompt: &[PromptPart], use_number: usize) -> String {
    // As JSON, two different messages never have the same text.
    let message = json!([sender, message, prompt, use_number]).to_string();
    ContentId::hash(message.as_bytes()).to_uuid().to_string()
}

/// A session in the registry. The session stays loaded as long as a front end holds a lease of it.
pub struct LoadedSession {
    id: String,
    session: Arc<Session>,
    /// Index after the last event that was stored when the session was loaded; `None` if it is new.
    stored_before: Option<usize>,
    /// Token that fires when the turns, calls and questions that the last process left open are closed, or resumed.
    begun: CancellationToken,
    last_use: Arc<LastUse>,
    leases: Leases,
    /// Views of the front ends, at most one of each type.
    views: Mutex<Vec<Arc<dyn SessionView>>>,
}

impl LoadedSession {
    /// Returns the id under which the registry has the session: the id that a client chose, or else the session's own
    /// id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the index after the last event that was stored when the session was loaded from a store; `None` if the
    /// session is new. No client had been told of later events at that time.
    pub fn stored_before(&self) -> Option<usize> {
        self.stored_before
    }

    /// Waits until the turns, calls and questions that the last process left open are closed or resumed.
    pub fn wait_resumed(&self) -> WaitForCancellationFutureOwned {
        self.begun.clone().cancelled_owned()
    }

    /// Returns `true` if the turns, calls and questions that the last process left open are closed or resumed.
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Returns the times of use.
    pub fn last_use(&self) -> &Arc<LastUse> {
        &self.last_use
    }

    /// Returns the session with a lease; `None` if the session is unloaded.
    pub fn lease(self: &Arc<Self>) -> Option<Leased<Self>> {
        Some(Leased::new(Arc::clone(self), self.leases.lease()?))
    }

    /// Returns the leases of the session.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Returns a front end's view of the session, made at first use. A view must not hold a lease, which would keep the
    /// session loaded for ever.
    pub fn view<V: SessionView>(&self, make: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let mut views = self.views.lock();
        let same = |view: &Arc<dyn SessionView>| {
            let view: Arc<dyn Any + Send + Sync> = Arc::<dyn SessionView>::clone(view);
            view.downcast::<V>().ok()
        };
        if let Some(view) = views.iter().find_map(same) {
            return view;
        }
        let view = make();
        views.push(Arc::clone(&view) as _);
        view
    }

    /// Describes the session.
    pub fn summary(&self) -> SessionSummary {
        let (state, last_activity) = self.session.state_with_activity(|state| {
            (state.title.clone(), state.last_prompt.clone(), state.turns)
        });
        let (title, last_prompt, prompts) = state;
        SessionSummary {
            id: self.id.clone(),
            title,
            last_prompt,
            prompts,
            directory: self.session.roots().first().cloned().unwrap_or_default(),
            last_activity,
            busy: self.session.turns().running().is_some(),
            watchers: self.leases.count(),
        }
    }

    /// Returns `true` if a turn runs, or a lease is held.
    fn is_in_use(&self) -> bool {
        self.leases.count() > 0 || self.session.turns().running().is_some()
    }

    fn end(&self) {
        self.session.close();
        self.views.lock().iter().for_each(|view| view.unloaded());
    }
}

/// Times of the last use of a session, and of its abandonment.
#[derive(Debug)]
pub struct LastUse(Mutex<Times>);

#[derive(Debug, Clone, Copy)]
struct Times {
    used: Instant,
    abandoned: Option<Instant>,
}

impl LastUse {
    /// Makes the times of a session that is used now.
    pub fn now() -> Self {
        Self(Mutex::new(Times { used: Instant::now(), abandoned: None }))
    }

    /// Notes that a client has asked for the session, which ends an abandonment.
    pub fn used(&self) {
        *self.0.lock() = Times { used: Instant::now(), abandoned: None };
    }

    /// Notes that the session is abandoned: its question was not answered in time. Until a client asks for the session
    /// again, it is unloaded first when the registry is full.
    pub fn abandon(&self) {
        self.0.lock().abandoned = Some(Instant::now());
    }

    /// Restarts the idle time, without a request of a client.
    fn touch(&self) {
        self.0.lock().used = Instant::now();
    }

    /// Returns the time of the last use.
    pub fn at(&self) -> Instant {
        self.0.lock().used
    }

    fn abandoned_at(&self) -> Option<Instant> {
        self.0.lock().abandoned
    }
}
