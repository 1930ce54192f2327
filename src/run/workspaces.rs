//! The workspaces of a server's sessions: existing directories, and clones of git repositories.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use super::session_factory::SessionFactory;
use crate::cli::ServeArgs;
use tandem_agent::session::{Head, SavedWorkspace, Storage, Store};
use tandem_agent::sessions::SessionRequest;
use tandem_git::{GitLimits, GitWorkspaces, Repository};
use tandem_host::workspace::Workspace;
use tandem_model::Secret;

/// The places where a server's sessions may work.
pub(super) struct Workspaces {
    /// Directories in or below which sessions may work.
    pub(super) directories: Option<Workspace>,
    /// Repositories of which sessions may have clones; `None` if the user has named no directory for clones.
    pub(super) git: Option<Arc<GitWorkspaces>>,
}

/// The workspace of one session.
pub(super) struct SessionWorkspace {
    pub(super) workspace: Workspace,
    /// The directory whose settings apply to the session.
    pub(super) settings: PathBuf,
    /// The place where the workspace is saved, if it is a clone.
    pub(super) saved: Option<Arc<dyn SavedWorkspace>>,
}

impl Workspaces {
    /// Returns the workspaces that the user has named.
    pub(super) fn from_args(
        serve: &ServeArgs,
        factory: &SessionFactory,
        limits: GitLimits,
    ) -> anyhow::Result<Self> {
        let git = open_git_workspaces(serve, factory, limits)?.map(Arc::new);
        let directory = factory.directory();
        let roots: Vec<PathBuf> = match serve.workspace_root.as_slice() {
            [] if git.is_some() => Vec::new(),
            [] => vec![directory.to_owned()],
            roots => roots.iter().map(|root| directory.join(root)).collect(),
        };
        let directories = roots.split_first().map(|(root, more)| Workspace::new(root, more));
        let directories = directories.transpose().context("cannot serve these directories")?;
        Ok(Self { directories, git })
    }

    /// Wraps the store so that it deletes a session's clone together with the session.
    pub(super) async fn cleaning(
        &self,
        store: Option<Arc<dyn Store>>,
    ) -> anyhow::Result<Option<Arc<dyn Store>>> {
        let (Some(git), Some(store)) = (&self.git, &store) else { return Ok(store) };
        let cleaning = tandem_git::cleaning(Arc::clone(store), git).await;
        cleaning
            .map(Some)
            .map_err(|error| anyhow::anyhow!("the store of sessions has no id: {error}"))
    }

    /// Returns `true` if the server shows a stored session to clients: it works in a place that this server serves.
    pub(super) fn shows(&self, head: &Head) -> bool {
        if let Some(origin) = &head.git {
            return self.git.as_ref().is_some_and(|git| git.repository_of(origin).is_some());
        }
        let directories = self.directories.as_ref();
        directories.is_some_and(|directories| directories.check_directory(&head.directory).is_ok())
    }

    /// Returns the workspace of a session. A stored session keeps its clone or directory; a new session gets the place
    /// that the client names.
    pub(super) fn for_session(
        &self,
        request: &SessionRequest,
        storage: &Storage,
    ) -> Result<SessionWorkspace, String> {
        let named = request.directory.as_deref().and_then(|named| named.to_str());
        // `storage.next()` is `None` for a new session. Only a new session can choose a repository by its name.
        // A stored session keeps the repository that it was made with.
        let repository = match (&self.git, storage.git(), storage.next()) {
            (Some(git), Some(origin), _) => {
                Some((git, git.repository_of(origin).ok_or_else(|| not_served(origin))?))
            }
            (None, Some(origin), _) => return Err(not_served(origin)),
            (Some(git), None, None) => {
                git.find_repository(named).map(|repository| (git, repository))
            }
            (_, None, _) => None,
        };
        let Some((git, repository)) = repository else { return self.directory(request) };
        let id =
            storage.id().ok_or("clones need sessions that are stored: set `TANDEM_SESSIONS`")?;
        let saved = git.workspace(id, repository);
        let saved = saved.map_err(|error| format!("the workspace cannot be made: {error}"))?;
        let workspace =
            Workspace::new(saved.directory(), &[]).map_err(|error| error.to_string())?;
        // The settings in the clone do not apply, because the model can change them.
        let settings = git.directory().to_owned();
        Ok(SessionWorkspace { workspace, settings, saved: Some(Arc::new(saved)) })
    }

    /// Returns the workspace in the directory that the request names, or else in the first directory of the server.
    fn directory(&self, request: &SessionRequest) -> Result<SessionWorkspace, String> {
        let Some(directories) = &self.directories else {
            let repositories = self.git.iter().flat_map(|git| git.repositories());
            let names = repositories.map(|repository| format!("`{}`", repository.origin()));
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(format!("no session may work there. Workspaces of this server: {names}"));
        };
        let directory = request.directory.as_deref().unwrap_or(directories.root());
        directories.check_directory(directory).map_err(|why| {
            format!(
                "{why}: begin the session in one of these or below, or start the server with `--workspace-root` \
                 for another"
            )
        })?;
        let workspace = directories.narrowed(directory)?;
        let settings = workspace.root().to_owned();
        Ok(SessionWorkspace { workspace, settings, saved: None })
    }
}

fn not_served(origin: &impl std::fmt::Display) -> String {
    format!(
        "the session works in a clone of `{origin}`, which this server does not serve: start it with `--workspace-git`"
    )
}

/// Opens the directory for clones of the repositories that the user has named; `None` if the user has named no
/// directory. Hides the repositories' credentials from the model's commands.
fn open_git_workspaces(
    serve: &ServeArgs,
    factory: &SessionFactory,
    limits: GitLimits,
) -> anyhow::Result<Option<GitWorkspaces>> {
    let Some(directory) = &serve.workspaces else { return Ok(None) };
    let mut repositories = Vec::new();
    for text in &serve.workspace_git {
        let repository: Repository =
            text.parse().map_err(anyhow::Error::msg).context("`--workspace-git`")?;
        if let Some(secret) = repository.secret() {
            factory.credentials.redact_key(&Secret::new(secret));
            factory.credentials.redact_key(&Secret::new(text));
        }
        repositories.push(repository);
    }
    let directory = factory.directory().join(directory);
    let clones = GitWorkspaces::new(&directory, repositories, &factory.supervisor, limits);
    let clones =
        clones.with_context(|| format!("cannot use {} for `--workspaces`", directory.display()));
    clones.map(Some)
}
