//! The table of the machine's processes, as read from `/proc`. Where there is no `/proc`, the table is empty.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    pub(super) group: i32,
    /// Time of the start, in clock ticks since boot. No two processes have the same number and the same time.
    started: u64,
    /// `true` if the process has ended but was not reaped yet.
    pub(super) dead: bool,
}

impl Process {
    /// Reads a process; `None` if it does not exist.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The fields are read after the last parenthesis: the name in parentheses before them may contain any
        // character.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            dead: matches!(*fields.first()?, "Z" | "X"),
        })
    }

    /// Kills the process, unless its number now belongs to another process.
    pub(super) fn kill(&self) {
        let now = Self::read(self.pid);
        if now.is_some_and(|now| now.started == self.started && !now.dead) {
            kill(self.pid);
        }
    }
}

/// Returns the processes of a group that have not ended.
pub(super) fn members(group: i32) -> Vec<i32> {
    let members = all().filter(|it| it.group == group && !it.dead);
    members.map(|it| it.pid).collect()
}

/// Returns the processes that have not ended and are in a group or descendants of its leader.
pub(super) fn family(group: i32) -> HashSet<i32> {
    let below = below(group, |_| false).into_iter().map(|it| it.pid);
    below.chain(members(group)).collect()
}

/// Returns the descendants of `root` that have not ended. Processes for which `spared` returns `true` are left out,
/// with all of their descendants.
pub(super) fn below(root: i32, spared: impl Fn(i32) -> bool) -> Vec<Process> {
    let all: Vec<_> = all().collect();
    let mut found = Vec::new();
    let mut parents = HashSet::from([root]);
    loop {
        let next: Vec<_> = all.iter().filter(|it| parents.contains(&it.parent)).collect();
        if next.is_empty() {
            return found;
        }
        let next: Vec<_> = next.into_iter().filter(|it| !spared(it.pid)).copied().collect();
        found.extend(next.iter().filter(|it| !it.dead));
        parents = next.iter().map(|it| it.pid).collect();
    }
}

/// Returns the processes that have `wanted` in their environment, whatever their parent and group are.
pub(super) fn marked(wanted: &str) -> Vec<i32> {
    pids().filter(|pid| has_mark(*pid, wanted)).collect()
}

/// Returns whether a process has `wanted` in its environment.
pub(super) fn has_mark(pid: i32, wanted: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    memchr::memmem::find(&environ, wanted.as_bytes()).is_some()
}

/// Returns the children of this process that have ended but were not reaped yet.
pub(super) fn dead_children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<i32> = lists
        .flat_map(|list| list.split(' ').filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect();
    children.into_iter().filter(|pid| Process::read(*pid).is_some_and(|it| it.dead)).collect()
}

/// Kills a process. An error is ignored, as the process may have ended by itself.
pub(super) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn all() -> impl Iterator<Item = Process> {
    pids().filter_map(Process::read)
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::below;

    #[test]
    fn a_whole_family_is_found_or_spared() {
        let script = "sleep 1000 & echo $!; wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (parent, child) = (shell.id().cast_signed(), line.trim().parse::<i32>().unwrap());
        let found = |spared| {
            let found = below(std::process::id().cast_signed(), |pid| Some(pid) == spared);
            [parent, child].map(|pid| found.iter().any(|it| it.pid == pid))
        };
        let seen = (found(None), found(Some(child)), found(Some(parent)));
        super::kill(child);
        shell.wait().unwrap();
        assert_eq!(seen, ([true, true], [true, false], [false, false]));
    }
}
