//! The workspace of one session. It is cloned, or restored from its snapshot, before its first turn on a node, and
//! saved after each turn.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tandem_agent::session::{GitOrigin, PastTurns, SavedPlace, SavedWorkspace, WorkspaceSave};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::clone::CloneHead;
use super::clone_maker::CloneMaker;
use super::error::GitError;
use super::limits::GitLimits;
use super::name::{is_branch, is_object_id};
use super::paths::{Paths, blocking, removed};
use super::program::Git;
use super::snapshot::{self, Snapshot};

/// Name of the file in the git directory beside the clone that holds the number of turns up to the last turn that
/// ran in the clone.
const TURNS_FILE: &str = "tandem-turns";

/// Name of the file in the git directory beside the clone that holds the commit that the clone began with, as long as
/// there is no snapshot.
const BEGINNING_FILE: &str = "tandem-beginning";

/// The workspace of one session.
pub struct GitWorkspace {
    paths: Paths,
    git: Git,
    limits: GitLimits,
    owner: WorkspaceOwner,
    /// State of the clone. The lock is held while the clone is made or saved, so that only one of these runs at a time.
    state: Mutex<CloneState>,
}

/// The store and the users of a workspace.
pub(crate) struct WorkspaceOwner {
    /// Id of the store that has the session.
    pub(crate) store: Option<Arc<str>>,
    /// Handle that all users of the workspace in this process share. The clone is not removed while one of them lives.
    pub(crate) _used: Arc<()>,
}

#[derive(Default)]
struct CloneState {
    /// `true` once the clone has been made or checked in this process. Before that, the clone is not saved.
    is_ready: bool,
    /// Last snapshot, and its commit.
    saved: Option<(Snapshot, String)>,
    /// Commit that the clone began with, as long as there is no snapshot.
    beginning: Option<CloneHead>,
    /// `true` if the last push failed. The repository may then have another snapshot than `saved`.
    is_doubtful: bool,
    /// Number of files that the last snapshot left out.
    left_out: usize,
}

impl GitWorkspace {
    pub(crate) fn new(paths: Paths, git: Git, limits: GitLimits, owner: WorkspaceOwner) -> Self {
        Self { paths, git, limits, owner, state: Mutex::default() }
    }

    /// Returns the directory that the session works in.
    pub fn directory(&self) -> &Path {
        &self.paths.clone
    }
}

#[async_trait]
impl SavedWorkspace for GitWorkspace {
    fn origin(&self) -> &GitOrigin {
        self.git.repository().origin()
    }

    async fn restore(
        &self,
        before: PastTurns,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, String> {
        self.try_restore(before, cancel).await.map_err(|error| error.to_string())
    }

    async fn save(&self, cancel: &CancellationToken) -> Result<WorkspaceSave, String> {
        self.try_save(cancel).await.map_err(|error| error.to_string())
    }
}

impl GitWorkspace {
    /// Restores the clone, unless the last turn ran in it. Before the first turn in this process:
    ///
    /// 1. Checks whether the last turn ran in this clone. If not, makes the clone anew, from the last snapshot or the
    ///    repository.
    /// 2. Reads the last snapshot and the commit that the clone began with, and records the owner of the clone.
    ///
    /// Before each turn, records the number of turns including this one, so that the next turn finds its predecessor
    /// here.
    async fn try_restore(
        &self,
        before: PastTurns,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, GitError> {
        let mut state = self.state.lock().await;
        let mut lost = None;
        if !state.is_ready {
            let paths = self.paths.clone();
            // If the last turn ran in this clone, the clone has at least the changes of the last snapshot, and is used
            // as it is.
            let is_last = blocking(move || {
                paths.unlock()?;
                Ok(paths.is_cloned() && turns(&paths) == Some(before.count))
            });
            let git = self.git.until(cancel);
            let maker = CloneMaker { git: &git, paths: &self.paths };
            if !is_last.await? {
                let beginning = maker.make().await?;
                lost = lost_turns(&before, beginning.as_ref(), self.origin());
                let paths = self.paths.clone();
                blocking(move || note_beginning(&paths, beginning.as_ref())).await?;
            }
            state.saved = maker.snapshot().await?;
            let paths = self.paths.clone();
            state.beginning = blocking(move || Ok(beginning(&paths))).await?;
            let (paths, origin) = (self.paths.clone(), self.origin().to_string());
            if let Some(store) = self.owner.store.clone() {
                blocking(move || paths.note_owner(&store, &origin)).await?;
            }
            state.is_ready = true;
        }
        let turns = self.paths.own.join(TURNS_FILE);
        blocking(move || fs::write(turns, (before.count + 1).to_string())).await?;
        Ok(lost)
    }

    /// Saves the clone:
    ///
    /// 1. Takes a snapshot of the files.
    /// 2. Commits and pushes it, unless the last pushed snapshot or the beginning of the clone is the same.
    /// 3. Returns the place of the files in the repository, and a remark if the number of left out files has changed.
    async fn try_save(&self, cancel: &CancellationToken) -> Result<WorkspaceSave, GitError> {
        let mut state = self.state.lock().await;
        if !state.is_ready {
            return Ok(WorkspaceSave::default());
        }
        let git = self.git.until(cancel);
        // A git command that was killed, as it took too long, may have left locks.
        let paths = self.paths.clone();
        blocking(move || paths.unlock()).await?;
        let taken = snapshot::take_snapshot(&git, &self.paths, self.limits).await?;
        let unchanged_at = self.unchanged_at(&git, &state, &taken.snapshot).await;
        let is_saved = state.saved.as_ref().is_some_and(|(saved, _)| *saved == taken.snapshot);
        if unchanged_at.is_none() && !is_saved {
            let commit = taken.snapshot.commit(&git, &self.paths).await?;
            snapshot::check_size(&git, &self.paths, &commit, self.limits).await?;
            let pushed = self.push(&git, &state, &commit).await;
            state.is_doubtful = pushed.is_err();
            pushed?;
            state.saved = Some((taken.snapshot, commit));
        }
        let before = std::mem::replace(&mut state.left_out, taken.left_out);
        let (files, most) = (taken.left_out, self.limits.file_bytes);
        let remark = (files > 0 && files != before).then(|| {
            let files =
                if files == 1 { "1 file is".to_owned() } else { format!("{files} files are") };
            format!(
                "{files} larger than {most} bytes, and not saved with the workspace: another node that goes on \
                 will not have such files (`--limit git-file-bytes=N` allows more)."
            )
        });
        let snapshot = state.saved.as_ref().map(|(_, commit)| SavedPlace {
            reference: Some(self.paths.reference()),
            commit: commit.clone(),
        });
        let unchanged = unchanged_at.map(|commit| SavedPlace { reference: None, commit });
        Ok(WorkspaceSave { place: unchanged.or(snapshot), remark })
    }

    /// Returns the commit that the clone began with, if there is no snapshot and the files have not changed since.
    async fn unchanged_at(
        &self,
        git: &Git,
        state: &CloneState,
        taken: &Snapshot,
    ) -> Option<String> {
        let is_at_beginning = state.beginning.as_ref() == Some(&taken.head);
        let may_have_snapshot = state.saved.is_some() || state.is_doubtful;
        let commit =
            taken.head.commit.as_ref().filter(|_| is_at_beginning && !may_have_snapshot)?;
        let tree = format!("{commit}^{{tree}}");
        let tree = git.run(&self.paths, &["rev-parse", "--verify", "--quiet", &tree]).await.ok()?;
        (tree == taken.tree).then(|| commit.clone())
    }

    /// Pushes a snapshot, and records its commit as the last snapshot.
    async fn push(&self, git: &Git, state: &CloneState, commit: &str) -> Result<(), GitError> {
        let name = self.paths.reference();
        // Another node may have taken the session over, or a node that has lost it may push late. With the lease, a
        // push fails if the repository does not have the snapshot that this node knows, so no snapshot is overwritten
        // unseen. After a failed push, this node does not know which snapshot the repository has, and no lease can be
        // given.
        let before = state.saved.as_ref().map_or("", |(_, commit)| commit);
        let lease = format!("--force-with-lease={name}:{before}");
        let force = if state.is_doubtful { "--force" } else { &*lease };
        let what = format!("{commit}:{name}");
        git.reach(&self.paths, &["push", "--quiet", "--no-verify", force, "origin", &what]).await?;
        git.run(&self.paths, &["update-ref", &name, commit]).await?;
        Ok(())
    }
}

/// Returns the number of turns up to the last one that ran in the clone.
fn turns(paths: &Paths) -> Option<u64> {
    fs::read_to_string(paths.own.join(TURNS_FILE)).ok()?.parse().ok()
}

/// Records the commit that a clone begins with, if there is no snapshot.
fn note_beginning(paths: &Paths, head: Option<&CloneHead>) -> io::Result<()> {
    let file = paths.own.join(BEGINNING_FILE);
    match head {
        Some(CloneHead { branch, commit: Some(commit) }) => {
            fs::write(file, format!("{commit}\n{}\n", branch.as_deref().unwrap_or_default()))
        }
        _ => removed(&file),
    }
}

/// Returns the recorded commit that the clone began with.
fn beginning(paths: &Paths) -> Option<CloneHead> {
    let noted = fs::read_to_string(paths.own.join(BEGINNING_FILE)).ok()?;
    let mut lines = noted.lines();
    let commit = lines.next().filter(|id| is_object_id(id))?.to_owned();
    let branch = lines.next().filter(|branch| is_branch(branch)).map(ToOwned::to_owned);
    Some(CloneHead { branch, commit: Some(commit) })
}

/// Returns a text for the model about changes of earlier turns that are lost, or files that may be different.
/// `beginning` is the commit that the new clone begins with, if there is no snapshot.
fn lost_turns(
    past: &PastTurns,
    beginning: Option<&CloneHead>,
    origin: &GitOrigin,
) -> Option<String> {
    if let (Some(commit), Some(head), false) = (&past.unchanged_at, beginning, past.was_interrupted)
    {
        return (head.commit.as_ref() != Some(commit)).then(|| {
            format!(
                "The workspace is a new clone of {origin}, at another commit than before ({commit}): files may have \
                 changed since they were read."
            )
        });
    }
    if past.count > 0 && beginning.is_some() {
        return Some(format!(
            "The workspace is a new clone of {origin}, because no snapshot of the workspace was found: the \
             changes of earlier turns are missing. Look at the files before you go on."
        ));
    }
    past.was_interrupted.then(|| {
        "The workspace is as it was before the turn that was interrupted: the changes of that turn are lost. \
         Look at the files before you go on."
            .to_owned()
    })
}
