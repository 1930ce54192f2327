//! A task: a folder of `evals/tasks` with a prompt, files of a repository, a checker and two scripts.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// Programs that every task needs.
const ALWAYS_NEEDED: [&str; 2] = ["git", "sh"];

/// A task.
pub(crate) struct Task {
    /// Name of the task's folder.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) description: TaskDescription,
}

/// Content of `task.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskDescription {
    /// Kind of work, in a few words, for the list.
    pub(crate) kind: String,
    /// Prompt that the model is given.
    pub(crate) prompt: String,
    /// Programs that the repository or the checker needs, beside git and sh.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Beginnings of commands that may run outside the sandbox, because the prompt asks for what the sandbox denies.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    /// Maximum time of the model's work, in seconds.
    #[serde(default = "default_seconds")]
    seconds: u64,
}

/// Time of a task that names none, in seconds. Servers of models answer slowly at times.
fn default_seconds() -> u64 {
    600
}

impl TaskDescription {
    /// Returns the maximum time of the model's work.
    pub(crate) fn time_limit(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

impl Task {
    /// Reads a task from its folder.
    pub(crate) fn read(folder: PathBuf) -> anyhow::Result<Self> {
        let file = folder.join("task.toml");
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let description =
            toml::from_str(&text).with_context(|| format!("{} is wrong", file.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, folder, description })
    }

    /// Returns the programs that the task needs and this machine lacks.
    pub(crate) fn missing_programs(&self) -> Vec<&str> {
        let needed = self.description.needs.iter().map(String::as_str);
        ALWAYS_NEEDED.into_iter().chain(needed).filter(|name| !is_on_path(name)).collect()
    }
}

/// Returns the folder of the tasks and of what checkers share.
pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads all tasks, in the order of their names.
pub(crate) fn all() -> anyhow::Result<Vec<Task>> {
    let folder = home().join("tasks");
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut folders = Vec::new();
    for entry in entries {
        folders.push(entry?.path());
    }
    folders.sort_unstable();
    folders.into_iter().map(Task::read).collect()
}

/// Returns the tasks with these names, in the order of all tasks; all of them if none is named.
pub(crate) fn named(tasks: Vec<Task>, names: &[String]) -> anyhow::Result<Vec<Task>> {
    if let Some(unknown) = names.iter().find(|name| tasks.iter().all(|task| task.name != **name)) {
        let known: Vec<_> = tasks.iter().map(|task| task.name.as_str()).collect();
        bail!("there is no task `{unknown}`; the tasks are {}", known.join(", "));
    }
    let is_wanted = |task: &Task| names.is_empty() || names.contains(&task.name);
    Ok(tasks.into_iter().filter(is_wanted).collect())
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
