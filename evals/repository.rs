//! The repository that a task begins with: a git repository made anew from the task's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use super::task::Task;

/// Settings of git for the agent and for the commits that a repository begins with.
const GIT_CONFIG: &str = "[user]\n\tname = Robin Doe\n\temail = robin@example.org\n\
    [init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n";

/// Time of the commits that a repository begins with.
const COMMIT_TIME: &str = "2026-01-05T09:00:00Z";

/// Beginnings of variables that would lead git, Python, tandem or the model out of the task's own folders.
const PRIVATE_VARIABLES: [&str; 7] =
    ["GIT_", "PYTHON", "TANDEM_", "XDG_", "CARGO", "PWD", "OLDPWD"];

/// Folders of one run of a task. They are removed when the value is dropped.
pub(crate) struct Arena {
    folder: TempDir,
    /// Commit with which the model begins.
    pub(crate) base_commit: String,
}

impl Arena {
    /// Makes the folders, and the repository in them.
    pub(crate) fn new(task: &Task) -> anyhow::Result<Self> {
        // The model sees this name, too: it should not tell the model that its work is measured.
        let folder = tempfile::Builder::new().prefix("robin-").tempdir()?;
        let mut arena = Self { folder, base_commit: String::new() };
        for folder in [arena.home(), arena.project()] {
            fs::create_dir_all(folder)?;
        }
        fs::write(arena.home().join(".gitconfig"), GIT_CONFIG)?;
        let files = task.folder.join("files");
        if files.exists() {
            copy_folder(&files, &arena.project())?;
        }
        arena.base_commit = arena.make_history(task).context("cannot make the repository")?;
        Ok(arena)
    }

    /// Returns the folder of everything below.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the home of the agent.
    pub(crate) fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Returns the folder that the checker works in. The model works in one below, so that it has nothing but the
    /// repository.
    pub(crate) fn workplace(&self) -> PathBuf {
        self.path().join("work")
    }

    /// Returns the repository. Its name tells the model nothing about the task.
    pub(crate) fn project(&self) -> PathBuf {
        self.workplace().join("project")
    }

    /// Returns the command of a program in the repository, in an environment without what is the caller's own.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if PRIVATE_VARIABLES.iter().any(|private| text.starts_with(private)) {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// Leaves the folders where they are, and returns their path.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// Makes the commits, and returns the last one. A task without `setup.sh` has one commit with all of its files.
    fn make_history(&self, task: &Task) -> anyhow::Result<String> {
        self.ran("git", &["init", "--quiet"])?;
        let setup = task.folder.join("setup.sh");
        if setup.exists() {
            let setup = setup.to_string_lossy().into_owned();
            self.ran("sh", &["-eu", &setup])?;
        } else {
            self.ran("git", &["add", "--all"])?;
            self.ran("git", &["commit", "--quiet", "--message", "Initial commit"])?;
        }
        Ok(self.ran("git", &["rev-parse", "HEAD"])?.trim().to_owned())
    }

    /// Runs a program in the repository, and returns what it has written.
    fn ran(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(program);
        command.args(arguments);
        command.env("GIT_AUTHOR_DATE", COMMIT_TIME).env("GIT_COMMITTER_DATE", COMMIT_TIME);
        let output = command.output().with_context(|| format!("cannot run {program}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("{program} {} failed: {}", arguments.join(" "), why.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Copies a folder with all that is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
