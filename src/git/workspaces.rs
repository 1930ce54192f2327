//! The repositories that sessions may work in, and their clones.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tandem_agent::session::GitOrigin;
use tandem_host::terminals::{EnvironmentFilter, Supervisor, Terminals};
use tempfile::Builder;

use super::limits::GitLimits;
use super::paths::{Paths, blocking};
use super::program::{self, Git};
use super::repository::Repository;
use super::workspace::{GitWorkspace, WorkspaceOwner};

/// The repositories that sessions may work in, and the directory of their clones.
pub struct GitWorkspaces {
    directory: PathBuf,
    repositories: Vec<Arc<Repository>>,
    terminals: Arc<Terminals>,
    limits: GitLimits,
    /// Id of the store that has the sessions.
    store: OnceLock<Arc<str>>,
    /// Workspaces that are in use, by session: they are not removed.
    used: Mutex<HashMap<String, Weak<()>>>,
}

impl GitWorkspaces {
    /// Makes the directory of the clones, if it is not there.
    pub fn new(
        directory: &Path,
        repositories: Vec<Repository>,
        supervisor: &Arc<Supervisor>,
        limits: GitLimits,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let directory = directory.canonicalize()?;
        let repositories = repositories.into_iter().map(Arc::new).collect();
        let environment = EnvironmentFilter::new(|name, _| program::hides(name));
        let terminals = Terminals::new(supervisor, environment);
        let (store, used) = (OnceLock::new(), Mutex::default());
        Ok(Self { directory, repositories, terminals, limits, store, used })
    }

    /// Says which store has the sessions.
    pub(crate) fn belong_to(&self, store: &str) {
        self.store.get_or_init(|| Arc::from(store));
    }

    /// Returns the id of the store that has the sessions.
    pub(crate) fn store(&self) -> Option<Arc<str>> {
        self.store.get().cloned()
    }

    /// Returns `true` if a session of this process works in its clone, or will.
    pub(crate) fn is_used(&self, id: &str) -> bool {
        self.used.lock().get(id).is_some_and(|it| it.strong_count() > 0)
    }

    /// Returns the directory in which the clones are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the repositories; the first is that of clients that name no workspace.
    pub fn repositories(&self) -> &[Arc<Repository>] {
        &self.repositories
    }

    /// Returns the repository that a client calls so, or the first one.
    pub fn named(&self, name: Option<&str>) -> Option<&Arc<Repository>> {
        let mut repositories = self.repositories.iter();
        match name {
            Some(name) => repositories.find(|repository| repository.origin().is_named(name)),
            None => repositories.next(),
        }
    }

    /// Returns the repository that a session began with, if sessions may still work in it.
    pub fn of(&self, origin: &GitOrigin) -> Option<&Arc<Repository>> {
        self.repositories.iter().find(|repository| repository.origin() == origin)
    }

    /// Returns the workspace of a session, whose directory is there, if only empty. It is cloned when a turn needs
    /// it.
    pub fn workspace(&self, id: &str, repository: &Arc<Repository>) -> io::Result<GitWorkspace> {
        let paths = Paths::of(&self.directory, id)?;
        let mut used = self.used.lock();
        used.retain(|_, it| it.strong_count() > 0);
        let shared = used.get(id).and_then(Weak::upgrade).unwrap_or_default();
        used.insert(id.to_owned(), Arc::downgrade(&shared));
        DirBuilder::new().recursive(true).mode(0o700).create(&paths.clone)?;
        let owner = WorkspaceOwner { store: self.store.get().cloned(), _used: shared };
        Ok(GitWorkspace::new(paths, self.git(repository), self.limits, owner))
    }

    /// Checks that a repository can be read, and has the branch or the tag that is named. The error says, for people,
    /// why not.
    pub async fn check_read(&self, repository: &Arc<Repository>) -> Result<(), String> {
        self.git(repository).check_read().await
    }

    /// Checks that a repository's server lets this user push, as far as that shows without a push. The error says, for
    /// people, why not.
    pub async fn check_push(&self, repository: &Arc<Repository>) -> Result<(), String> {
        let parent = self.directory.clone();
        let made = blocking(move || Builder::new().prefix(".check-").tempdir_in(parent)).await?;
        let checked = self.git(repository).check_push(made.path()).await;
        blocking(move || made.close()).await?;
        checked
    }

    /// Deletes the clone of a session that is deleted, and its snapshot if the repository can be reached: the one of
    /// this commit, if one is named. A session of the same id that has begun since keeps its clone.
    pub(crate) async fn remove(
        &self,
        id: &str,
        origin: &str,
        snapshot: Option<&str>,
    ) -> Result<(), String> {
        let paths = Paths::of(&self.directory, id).map_err(|error| error.to_string())?;
        let mut repositories = self.repositories.iter();
        let deleted = match repositories.find(|it| it.origin().to_string() == origin) {
            Some(repository) => delete_snapshot(&self.git(repository), &paths, snapshot).await,
            None => Err(format!("the server was started without `{origin}`")),
        };
        blocking({
            let paths = paths.clone();
            move || paths.empty_trash()
        })
        .await?;
        if !self.discard(&paths)? {
            return Ok(());
        }
        blocking(move || paths.empty_trash()).await?;
        deleted.map_err(|why| format!("its snapshot stays in the repository: {why}"))
    }

    /// Moves a clone out of the way, unless it is in use; returns `true` if that is done.
    fn discard(&self, paths: &Paths) -> Result<bool, String> {
        // Held, so that nobody begins to use it.
        let used = self.used.lock();
        if used.get(&paths.id).is_some_and(|it| it.strong_count() > 0) {
            return Ok(false);
        }
        let discarded = paths.discard();
        discarded.map_err(|error| format!("its clone cannot be removed: {error}"))?;
        Ok(true)
    }

    fn git(&self, repository: &Arc<Repository>) -> Git {
        Git::new(Arc::clone(&self.terminals), Arc::clone(repository), self.limits.time)
    }
}

/// Deletes a session's snapshot in the repository: the one of this commit, if one is named.
async fn delete_snapshot(git: &Git, paths: &Paths, snapshot: Option<&str>) -> Result<(), String> {
    let own = paths.own.clone();
    let is_there = blocking(move || {
        let is_there = own.join("HEAD").exists();
        DirBuilder::new().recursive(true).mode(0o700).create(&own)?;
        Ok(is_there)
    });
    if !is_there.await? {
        git.run(paths, &["init", "--quiet", "--bare", "--template="]).await?;
    }
    let name = paths.reference();
    // Deleting what is not there would be an error.
    let there = git.reach(paths, &["ls-remote", "--quiet", "origin", &name]).await?;
    let Some((there, _)) = there.split_once('\t') else { return Ok(()) };
    if snapshot.is_some_and(|snapshot| snapshot != there) {
        return Ok(());
    }
    let (lease, what) = (format!("--force-with-lease={name}:{there}"), format!(":{name}"));
    git.reach(paths, &["push", "--quiet", "--no-verify", &lease, "origin", &what]).await.map(drop)
}
