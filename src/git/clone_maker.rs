//! Making of clones of the repository, at their first revision or at the last snapshot.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use tandem_agent::session::GitOrigin;

use super::clone::CloneHead;
use super::error::GitError;
use super::name::{is_branch, is_object_id};
use super::paths::{Paths, blocking, removed};
use super::program::{ATTRIBUTES_TEXT, Git, GitCommand};
use super::snapshot::Snapshot;

/// Maker of the clone of one session.
pub(crate) struct CloneMaker<'a> {
    pub(crate) git: &'a Git,
    pub(crate) paths: &'a Paths,
}

impl CloneMaker<'_> {
    /// Fetches branches, tags and snapshots from the repository, and makes the clone anew. Returns the commit that the
    /// clone begins with, if there is no snapshot.
    pub(crate) async fn make(&self) -> Result<Option<CloneHead>, GitError> {
        self.begin().await?;
        let snapshots = format!("+{0}*:{0}*", self.paths.reference());
        let heads = "+refs/heads/*:refs/remotes/origin/*";
        self.git
            .reach(
                self.paths,
                &[
                    "fetch",
                    "--quiet",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "origin",
                    heads,
                    "+refs/tags/*:refs/tags/*",
                    &snapshots,
                ],
            )
            .await?;
        let commit = self.reference(&self.paths.reference()).await?;
        let head = self.build(commit.as_deref()).await?;
        Ok(commit.is_none().then_some(head))
    }

    /// Makes the git directory beside the clone, unless there is one and the clone is whole.
    async fn begin(&self) -> Result<(), GitError> {
        let paths = self.paths.clone();
        let is_there = blocking(move || {
            if paths.is_cloned() && paths.own.join("HEAD").exists() {
                return Ok(true);
            }
            removed(&paths.own)?;
            // The attributes are written before git makes the rest of the directory: no git directory may exist without
            // them.
            DirBuilder::new().recursive(true).mode(0o700).create(paths.own.join("info"))?;
            fs::write(paths.own.join("info/attributes"), ATTRIBUTES_TEXT)?;
            Ok(false)
        });
        if is_there.await? {
            return Ok(());
        }
        self.git.run(self.paths, &["init", "--quiet", "--bare", "--template="]).await.map(drop)
    }

    /// Makes the clone from the snapshot of this commit; without one, at the revision that the session begins with.
    /// Returns the commit that the clone is at.
    async fn build(&self, commit: Option<&str>) -> Result<CloneHead, GitError> {
        let (head, tree) = if let Some(commit) = commit {
            let Snapshot { tree, head } = Snapshot::read(self.git, self.paths, commit).await?;
            (head, Some(tree))
        } else {
            let head = self.first_head().await?;
            let tree = head.commit.clone();
            (head, tree)
        };
        let new = self.paths.new.clone();
        blocking(move || {
            removed(&new)?;
            DirBuilder::new().mode(0o700).create(&new)
        })
        .await?;
        self.check_out(tree.as_deref()).await?;
        self.make_git(&head).await?;
        let paths = self.paths.clone();
        blocking(move || put_in_place(&paths)).await?;
        Ok(head)
    }

    /// Returns the branch and the commit that a new session begins with: those of the named revision, else of the
    /// repository's default branch.
    async fn first_head(&self) -> Result<CloneHead, GitError> {
        let Some(revision) = &self.git.repository().origin().revision else {
            let head = self
                .git
                .reach(self.paths, &["ls-remote", "--quiet", "--symref", "origin", "HEAD"])
                .await?;
            let branch = head
                .lines()
                .find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
            let branch = branch.filter(|branch| is_branch(branch)).unwrap_or("main").to_owned();
            let commit = self.reference(&format!("refs/remotes/origin/{branch}")).await?;
            return Ok(CloneHead { branch: Some(branch), commit });
        };
        if let Some(commit) = self.reference(&format!("refs/remotes/origin/{revision}")).await? {
            return Ok(CloneHead { branch: Some(revision.clone()), commit: Some(commit) });
        }
        let tag = self.reference(&format!("refs/tags/{revision}")).await?;
        let commit = match tag {
            None if is_object_id(revision) => self.reference(revision).await?,
            tag => tag,
        };
        match commit {
            Some(commit) => Ok(CloneHead { branch: None, commit: Some(commit) }),
            None => Err(GitError::NoRevision {
                url: self.git.repository().origin().url.clone(),
                revision: revision.clone(),
            }),
        }
    }

    /// Returns the id of the commit that a reference or an id names; `None` if there is no such reference.
    async fn reference(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        match self.git.run(self.paths, &args).await {
            Ok(id) => Ok(Some(id).filter(|id| is_object_id(id))),
            // This is git's answer about a reference that does not exist.
            Err(GitError::Failed { code: Some(1), output, .. }) if output.is_empty() => Ok(None),
            // The reference may exist. Without a snapshot that exists, a clone would lose the changes of all turns.
            Err(error) => Err(error),
        }
    }

    /// Writes the files of a tree into the new clone.
    async fn check_out(&self, tree: Option<&str>) -> Result<(), GitError> {
        let index = self.paths.own.join("index");
        blocking(move || removed(&index)).await?;
        let Some(tree) = tree else { return Ok(()) };
        for args in [&["read-tree", tree][..], &["checkout-index", "--all", "--quiet", "--index"]] {
            let files = Some(&*self.paths.new);
            self.git
                .run_command(self.paths, GitCommand { args, files, ..GitCommand::default() })
                .await?;
        }
        Ok(())
    }

    /// Makes the `.git` of the new clone. Git may use this directory, because no session has worked in it yet.
    async fn make_git(&self, head: &CloneHead) -> Result<(), GitError> {
        let git = self.paths.new.join(".git");
        let run = async |args: &[&str], protocol: &str| {
            let command = GitCommand { args, git: Some(&git), protocol, ..GitCommand::default() };
            self.git.run_command(self.paths, command).await
        };
        run(&["init", "--quiet", "--template="], "").await?;
        let own = self.paths.own.to_string_lossy();
        let snapshots = format!("+{0}*:{0}*", self.paths.reference());
        let heads = "+refs/remotes/origin/*:refs/remotes/origin/*";
        run(
            &[
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                &own,
                heads,
                "+refs/tags/*:refs/tags/*",
                &snapshots,
            ],
            "file",
        )
        .await?;
        let branch = head.branch.as_ref().map(|branch| format!("refs/heads/{branch}"));
        if let Some(branch) = &branch {
            run(&["symbolic-ref", "HEAD", branch], "").await?;
        }
        if let Some(commit) = &head.commit {
            let name = branch.as_deref().unwrap_or("HEAD");
            run(&["update-ref", "--no-deref", name, commit], "").await?;
            run(&["read-tree", commit], "").await?;
        }
        let configured = configuration(self.git.repository().origin(), head);
        let config = git.join("config");
        blocking(move || {
            OpenOptions::new().append(true).open(config)?.write_all(configured.as_bytes())
        })
        .await
    }

    /// Returns the last snapshot that this node knows, and its commit.
    pub(crate) async fn snapshot(&self) -> Result<Option<(Snapshot, String)>, GitError> {
        let Some(commit) = self.reference(&self.paths.reference()).await? else { return Ok(None) };
        let snapshot = Snapshot::read(self.git, self.paths, &commit).await?;
        Ok(Some((snapshot, commit)))
    }
}

/// Returns the configuration of a clone, as `git clone` would write it.
fn configuration(origin: &GitOrigin, head: &CloneHead) -> String {
    let quoted = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"");
    let mut text = format!(
        "[remote \"origin\"]\n\turl = \"{}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
        quoted(&origin.url)
    );
    if let Some(branch) = &head.branch {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[branch \"{0}\"]\n\tremote = origin\n\tmerge = \"refs/heads/{0}\"\n",
            quoted(branch)
        );
    }
    text
}

/// Moves a new clone to the place where the session works. The directory itself stays, because programs may run in it.
fn put_in_place(Paths { clone, new, .. }: &Paths) -> io::Result<()> {
    if !fs::symlink_metadata(clone)?.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", clone.display())));
    }
    // The old `.git` is removed first, and the new one moved last. A clone with a `.git` counts as whole, and an
    // interrupted clone must not count as whole.
    removed(&clone.join(".git"))?;
    for name in names(clone)? {
        removed(&clone.join(name))?;
    }
    for name in names(new)? {
        if name != ".git" {
            fs::rename(new.join(&name), clone.join(&name))?;
        }
    }
    fs::rename(new.join(".git"), clone.join(".git"))?;
    fs::remove_dir(new)
}

/// Returns the names in a directory. They are collected before the caller changes the directory.
fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tandem_host::terminals::{EnvironmentFilter, Supervisor, Terminals};
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn a_git_that_was_cancelled_is_no_missing_snapshot() {
        let home = tempfile::tempdir().unwrap();
        let id = "0199d4b6-7c8e-7d3a-8f00-0123456789ab";
        let paths = Paths::for_session(home.path(), id).unwrap();
        let terminals = Terminals::new(&Supervisor::new(), EnvironmentFilter::default());
        let repository = Arc::new("/no/repository".parse().unwrap());
        let cancel = CancellationToken::new();
        let git = Git::new(terminals, repository, Duration::from_mins(1)).until(&cancel);
        cancel.cancel();
        let maker = CloneMaker { git: &git, paths: &paths };
        assert!(matches!(maker.snapshot().await, Err(GitError::Cancelled)));
    }
}
