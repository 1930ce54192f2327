//! The repositories that sessions may work in, and their clones.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tandem_agent::session::GitOrigin;
use tandem_tools::terminals::{EnvironmentFilter, Supervisor, Terminals};

use super::making::blocking;
use super::paths::Paths;
use super::program::{self, Git};
use super::repository::Repository;
use super::workspace::{GitLimits, GitWorkspace};

/// The repositories that sessions may work in, and the directory of their clones.
pub struct GitWorkspaces {
    directory: PathBuf,
    repositories: Vec<Arc<Repository>>,
    terminals: Arc<Terminals>,
    limits: GitLimits,
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
        Ok(Self { directory, repositories, terminals, limits })
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
        DirBuilder::new().recursive(true).mode(0o700).create(&paths.clone)?;
        Ok(GitWorkspace::new(paths, self.git(repository), self.limits))
    }

    /// Checks that a repository can be reached. The error says, for people, why not.
    pub async fn check(&self, repository: &Arc<Repository>) -> Result<(), String> {
        self.git(repository).check().await
    }

    /// Deletes the clone of a session, and its snapshot if the repository can be reached.
    pub(crate) async fn remove(&self, id: &str, origin: &GitOrigin) -> Result<(), String> {
        let paths = Paths::of(&self.directory, id).map_err(|error| error.to_string())?;
        let deleted = match self.of(origin) {
            Some(repository) => delete_snapshot(&self.git(repository), &paths).await,
            None => Err(format!("the server was started without `{origin}`")),
        };
        let removed = tokio::task::spawn_blocking(move || paths.remove()).await;
        let removed = removed.map_err(io::Error::other).flatten();
        removed.map_err(|error| format!("its clone cannot be removed: {error}"))?;
        deleted.map_err(|why| format!("its snapshot stays in the repository: {why}"))
    }

    fn git(&self, repository: &Arc<Repository>) -> Git {
        Git::new(Arc::clone(&self.terminals), Arc::clone(repository), self.limits.time)
    }
}

/// Deletes a session's snapshot in the repository.
async fn delete_snapshot(git: &Git, paths: &Paths) -> Result<(), String> {
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
    if git.reach(paths, &["ls-remote", "--quiet", "origin", &name]).await?.is_empty() {
        return Ok(());
    }
    let what = format!(":{name}");
    git.reach(paths, &["push", "--quiet", "--no-verify", "origin", &what]).await.map(drop)
}
