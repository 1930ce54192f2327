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

use super::error::GitError;
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
    /// Workspaces in use, by the id of their session; their clones are not removed. The lock also keeps a workspace
    /// from coming into use while its clone is moved away.
    used: Mutex<HashMap<String, Weak<()>>>,
}

impl GitWorkspaces {
    /// Makes the directory of the clones, if it does not exist.
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

    /// Records the id of the store that has the sessions. Only the first call has an effect.
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

    /// Returns the directory that holds the clones.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the repositories. The first repository is for clients that name no workspace.
    pub fn repositories(&self) -> &[Arc<Repository>] {
        &self.repositories
    }

    /// Returns the repository of the name that a client gives, or the first repository if the client gives no name.
    pub fn find_repository(&self, name: Option<&str>) -> Option<&Arc<Repository>> {
        let mut repositories = self.repositories.iter();
        match name {
            Some(name) => repositories.find(|repository| repository.origin().is_named(name)),
            None => repositories.next(),
        }
    }

    /// Returns the repository that a session began with, if the server still offers it.
    pub fn repository_of(&self, origin: &GitOrigin) -> Option<&Arc<Repository>> {
        self.repositories.iter().find(|repository| repository.origin() == origin)
    }

    /// Returns the workspace of a session, and makes its directory if it does not exist. The repository is cloned when
    /// a turn needs the workspace.
    pub fn workspace(&self, id: &str, repository: &Arc<Repository>) -> io::Result<GitWorkspace> {
        let paths = Paths::for_session(&self.directory, id)?;
        let mut used = self.used.lock();
        used.retain(|_, it| it.strong_count() > 0);
        let shared = used.get(id).and_then(Weak::upgrade).unwrap_or_default();
        used.insert(id.to_owned(), Arc::downgrade(&shared));
        DirBuilder::new().recursive(true).mode(0o700).create(&paths.clone)?;
        let owner = WorkspaceOwner { store: self.store.get().cloned(), _used: shared };
        Ok(GitWorkspace::new(paths, self.git(repository), self.limits, owner))
    }

    /// Checks that a repository can be read, and has the named branch or tag.
    pub async fn check_read(&self, repository: &Arc<Repository>) -> Result<(), GitError> {
        self.git(repository).check_read().await
    }

    /// Checks that a repository's server lets this user push, as far as a check without a push can find out.
    pub async fn check_push(&self, repository: &Arc<Repository>) -> Result<(), GitError> {
        let parent = self.directory.clone();
        let made = blocking(move || Builder::new().prefix(".check-").tempdir_in(parent)).await?;
        let checked = self.git(repository).check_push(made.path()).await;
        blocking(move || made.close()).await?;
        checked
    }

    /// Deletes the clone of a deleted session, and its snapshot if the repository can be reached. If `snapshot` names a
    /// commit, only that snapshot is deleted. The clone stays if a session of the same id has begun to use it since.
    pub(crate) async fn remove(
        &self,
        id: &str,
        origin: &str,
        snapshot: Option<&str>,
    ) -> Result<(), GitError> {
        let paths = Paths::for_session(&self.directory, id).map_err(GitError::SessionId)?;
        let mut repositories = self.repositories.iter();
        let deleted = match repositories.find(|it| it.origin().to_string() == origin) {
            Some(repository) => delete_snapshot(&self.git(repository), &paths, snapshot).await,
            None => Err(GitError::NotOffered(origin.to_owned())),
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
        deleted.map_err(|error| GitError::SnapshotStays(Box::new(error)))
    }

    /// Moves a clone away, unless it is in use. Returns `true` if the clone was moved.
    fn discard(&self, paths: &Paths) -> Result<bool, GitError> {
        // The lock is held until the clone is moved, so that no session begins to use it meanwhile.
        let used = self.used.lock();
        if used.get(&paths.id).is_some_and(|it| it.strong_count() > 0) {
            return Ok(false);
        }
        paths.discard().map_err(GitError::Remove)?;
        Ok(true)
    }

    fn git(&self, repository: &Arc<Repository>) -> Git {
        Git::new(Arc::clone(&self.terminals), Arc::clone(repository), self.limits.time)
    }
}

/// Deletes a session's snapshot in the repository. If `snapshot` names a commit, only that snapshot is deleted.
async fn delete_snapshot(git: &Git, paths: &Paths, snapshot: Option<&str>) -> Result<(), GitError> {
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
    // Git reports an error if the snapshot to delete does not exist. So the existence of the snapshot is checked
    // first.
    let there = git.reach(paths, &["ls-remote", "--quiet", "origin", &name]).await?;
    let Some((there, _)) = there.split_once('\t') else { return Ok(()) };
    if snapshot.is_some_and(|snapshot| snapshot != there) {
        return Ok(());
    }
    let (lease, what) = (format!("--force-with-lease={name}:{there}"), format!(":{name}"));
    git.reach(paths, &["push", "--quiet", "--no-verify", &lease, "origin", &what]).await.map(drop)
}
