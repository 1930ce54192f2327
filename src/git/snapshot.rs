//! Snapshots: a commit of all files of a clone, tracked and untracked, whose parent is the commit that the clone is at.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::clone::{CloneGit, CloneHead};
use super::error::GitError;
use super::limits::GitLimits;
use super::name::{is_branch, is_object_id};
use super::paths::{Paths, blocking, removed};
use super::program::{Git, GitCommand};
use tandem_content::blocking::try_blocking;

/// Beginning of the line of a snapshot's message that names the branch.
const BRANCH_TRAILER: &str = "Tandem-Branch: ";

/// Mode of a submodule in a tree.
const SUBMODULE_MODE: &[u8] = b"160000";

/// The content of a snapshot's commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Id of the tree of all files.
    pub(crate) tree: String,
    /// Commit that the clone is at.
    pub(crate) head: CloneHead,
}

/// A snapshot that was taken, and the number of files that are too large for it.
pub(crate) struct TakenSnapshot {
    pub(crate) snapshot: Snapshot,
    pub(crate) left_out: usize,
}

impl Snapshot {
    /// Reads a snapshot from its commit.
    pub(crate) async fn read(git: &Git, paths: &Paths, commit: &str) -> Result<Self, GitError> {
        let text = git.run(paths, &["cat-file", "commit", commit]).await?;
        let (header, message) = text.split_once("\n\n").unwrap_or((&text, ""));
        let read_lists = |name: &str| {
            let id = header.lines().find_map(|line| line.strip_prefix(name));
            id.filter(|id| is_object_id(id)).map(ToOwned::to_owned)
        };
        let branch = message.lines().find_map(|line| line.strip_prefix(BRANCH_TRAILER));
        let branch = branch.filter(|branch| is_branch(branch)).map(ToOwned::to_owned);
        let tree = read_lists("tree ").ok_or(GitError::NoSnapshot)?;
        Ok(Self { tree, head: CloneHead { branch, commit: read_lists("parent ") } })
    }

    /// Makes the commit. Returns its id.
    pub(crate) async fn commit(&self, git: &Git, paths: &Paths) -> Result<String, GitError> {
        let branch = self.head.branch.iter().map(|branch| format!("\n{BRANCH_TRAILER}{branch}\n"));
        let message = format!("Workspace of session {}\n{}", paths.id, branch.collect::<String>());
        let mut args = vec!["commit-tree", &self.tree];
        args.extend(self.head.commit.iter().flat_map(|commit| ["-p", commit]));
        let input = message.into_bytes();
        let command = GitCommand { args: &args, input, ..GitCommand::default() };
        let written = git.run_command(paths, command).await?;
        id_of(&written)
    }
}

/// Takes a snapshot of the files of a clone:
///
/// 1. Reads the commit that the clone is at, and links the clone's objects into the git directory beside the clone.
/// 2. Lists the files, and compares them with the index of that git directory.
/// 3. Updates the index, and writes it as a tree.
pub(crate) async fn take_snapshot(
    git: &Git,
    paths: &Paths,
    limits: GitLimits,
) -> Result<TakenSnapshot, GitError> {
    let (clone, objects) = (paths.clone.clone(), paths.own.join("objects"));
    let head = try_blocking(move || {
        let clone = CloneGit::open(&clone)?;
        // `HEAD` is read before the objects are linked: git writes the objects of a commit before a reference names the
        // commit, so they are all there to be linked.
        let head = clone.head()?;
        clone.link_objects(&objects)?;
        Ok::<_, std::io::Error>(head)
    });
    let head = head.await.map_err(GitError::Clone)?;
    if let Some(commit) = &head.commit {
        git.run(paths, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).await?;
    }
    let lists = FileLists::compare(git, paths, &head).await?;
    let clone = paths.clone.clone();
    let changes = blocking(move || Ok(IndexChanges::of(&clone, &lists, limits.file_bytes))).await?;
    if changes.bytes > limits.snapshot_bytes {
        return Err(GitError::too_large(limits));
    }
    let remove = &["update-index", "--force-remove", "-z", "--stdin"][..];
    let add = &["update-index", "--add", "--replace", "--remove", "-z", "--stdin"][..];
    for (args, input) in [(remove, changes.gone), (add, changes.there)] {
        if !input.is_empty() {
            with_files(git, paths, args, input).await?;
        }
    }
    let tree = id_of(&with_files(git, paths, &["write-tree"], Vec::new()).await?)?;
    Ok(TakenSnapshot { snapshot: Snapshot { tree, head }, left_out: changes.left_out })
}

/// Checks the size of the data that is pushed with a snapshot's commit. Commits of the session may be among it.
pub(crate) async fn check_size(
    git: &Git,
    paths: &Paths,
    commit: &str,
    limits: GitLimits,
) -> Result<(), GitError> {
    let args = ["rev-list", "--objects", "--disk-usage", commit, "--not", "--all"];
    let bytes = git.run(paths, &args).await?;
    if bytes.parse().is_ok_and(|bytes: u64| bytes <= limits.snapshot_bytes) {
        return Ok(());
    }
    // Files in the index are saved even if `.gitignore` names them. Without the index, the next snapshot leaves out
    // files that the user names there now.
    let index = paths.own.join("index");
    blocking(move || removed(&index)).await?;
    Err(GitError::too_large(limits))
}

/// The files of a clone as git lists them: names, each with a zero byte at its end.
struct FileLists {
    /// Files that are neither tracked nor ignored.
    untracked: Vec<u8>,
    /// Files of the last snapshot, each behind its mode.
    saved: Vec<u8>,
    /// Files of the commit that the clone is at, each behind its mode.
    committed: Vec<u8>,
}

/// A file as git lists it.
#[derive(Default)]
struct ListedFile {
    /// `true` if the file is a submodule.
    is_submodule: bool,
    /// `true` if the commit that the clone is at has the file.
    is_committed: bool,
}

impl FileLists {
    async fn compare(git: &Git, paths: &Paths, head: &CloneHead) -> Result<Self, GitError> {
        let untracked = &["ls-files", "-z", "--others", "--exclude-standard"];
        let untracked = with_files(git, paths, untracked, Vec::new()).await?;
        let saved = with_files(git, paths, &["ls-files", "-z", "--stage"], Vec::new()).await?;
        let committed = match &head.commit {
            Some(commit) => {
                let args = &["ls-tree", "-r", "-z", "--full-tree", commit];
                git.run_command(paths, GitCommand { args, ..GitCommand::default() }).await?
            }
            None => Vec::new(),
        };
        Ok(Self { untracked, saved, committed })
    }

    /// Returns the files by name.
    fn files(&self) -> BTreeMap<&[u8], ListedFile> {
        let untracked = names(&self.untracked).map(|name| (name, ListedFile::default()));
        let mut files: BTreeMap<_, _> = untracked.collect();
        for (tracked, is_committed) in [(&self.saved, false), (&self.committed, true)] {
            for line in names(tracked) {
                // A line is "100644 ID 0\tNAME" or "100644 blob ID\tNAME".
                let Some(tab) = line.iter().position(|&b| b == b'\t') else { continue };
                let is_submodule = line.starts_with(SUBMODULE_MODE);
                files.insert(&line[tab + 1..], ListedFile { is_submodule, is_committed });
            }
        }
        files
    }
}

/// Differences between the files of a clone and the index: names, each with a zero byte at its end.
#[derive(Default)]
struct IndexChanges {
    /// Names of files to add to the index or to update in it.
    there: Vec<u8>,
    /// Names of files to remove from the index.
    gone: Vec<u8>,
    left_out: usize,
    /// Number of bytes of the files that exist and are not committed.
    bytes: u64,
}

impl IndexChanges {
    /// Compares the listed files with the files that exist.
    fn of(clone: &Path, lists: &FileLists, most_bytes: u64) -> Self {
        let (mut changes, mut directories) = (Self::default(), HashMap::new());
        for (name, listed) in lists.files() {
            // The entry is a repository of its own, whose files are not part of this one.
            if name.ends_with(b"/") || listed.is_submodule {
                continue;
            }
            let path = relative(name);
            let file = fs::symlink_metadata(clone.join(&path)).ok();
            let file = file.filter(|_| is_inside(clone, path.parent(), &mut directories));
            let is_there = file.as_ref().is_some_and(|it| it.is_file() || it.is_symlink());
            // Committed files are pushed with their commit anyway, so their size does not count here.
            let counted = file.filter(|it| it.is_file() && !listed.is_committed);
            let bytes = counted.map_or(0, |it| it.len());
            let is_too_large = bytes > most_bytes;
            if is_too_large {
                changes.left_out += 1;
            } else {
                changes.bytes += bytes;
            }
            let list =
                if is_there && !is_too_large { &mut changes.there } else { &mut changes.gone };
            list.extend_from_slice(name);
            list.push(0);
        }
        changes
    }
}

/// Returns `true` if all parts of a directory's path in a clone are directories, and none is a link. `looked_at` caches
/// the results.
fn is_inside(
    clone: &Path,
    directory: Option<&Path>,
    looked_at: &mut HashMap<PathBuf, bool>,
) -> bool {
    let Some(directory) = directory.filter(|it| !it.as_os_str().is_empty()) else { return true };
    if let Some(is_inside) = looked_at.get(directory) {
        return *is_inside;
    }
    let is_directory = fs::symlink_metadata(clone.join(directory)).is_ok_and(|it| it.is_dir());
    let is_inside = is_directory && is_inside(clone, directory.parent(), looked_at);
    looked_at.insert(directory.to_owned(), is_inside);
    is_inside
}

fn relative(name: &[u8]) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    PathBuf::from(OsStr::from_bytes(name))
}

/// Returns the names in a list that has a zero byte after each name.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&b| b == 0).filter(|name| !name.is_empty())
}

/// Runs a command with the clone as its work tree.
async fn with_files(
    git: &Git,
    paths: &Paths,
    args: &[&str],
    input: Vec<u8>,
) -> Result<Vec<u8>, GitError> {
    let files = Some(&*paths.clone);
    git.run_command(paths, GitCommand { args, files, input, ..GitCommand::default() }).await
}

fn id_of(written: &[u8]) -> Result<String, GitError> {
    let id = String::from_utf8_lossy(written).trim().to_owned();
    if is_object_id(&id) { Ok(id) } else { Err(GitError::NoObject) }
}
