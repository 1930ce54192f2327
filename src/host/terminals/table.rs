//! The processes of the machine, where `/proc` tells of them; elsewhere there are none.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    pub(super) group: i32,
    /// Its number and this are never those of another.
    started: u64,
    /// `true` if it has ended, and nobody has waited for it.
    pub(super) dead: bool,
}

impl Process {
    /// Returns what is known of a process that there is.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which is in parentheses and may hold anything.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            dead: matches!(*fields.first()?, "Z" | "X"),
        })
    }

    /// Kills it, if the number is still its own.
    pub(super) fn kill(&self) {
        let now = Self::read(self.pid);
        if now.is_some_and(|now| now.started == self.started && !now.dead) {
            kill(self.pid);
        }
    }
}

/// Every one in a group that is not dead.
pub(super) fn members(group: i32) -> Vec<i32> {
    let members = all().filter(|it| it.group == group && !it.dead);
    members.map(|it| it.pid).collect()
}

/// Every one that is the leader of a group, in it, or below the leader, and not dead.
pub(super) fn family(group: i32) -> HashSet<i32> {
    let below = below(group, |_| false).into_iter().map(|it| it.pid);
    below.chain(members(group)).collect()
}

/// Every one below `root` that is not dead. What `spared` says yes to is passed over, with all
/// below it.
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

/// Every one that has `wanted` in its environment, wherever it has gone.
pub(super) fn marked(wanted: &str) -> Vec<i32> {
    pids().filter(|pid| has_mark(*pid, wanted)).collect()
}

/// Returns whether a process has `wanted` in its environment.
pub(super) fn has_mark(pid: i32, wanted: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    memchr::memmem::find(&environ, wanted.as_bytes()).is_some()
}

/// The children of this process that are dead and not waited for.
pub(super) fn dead_children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<i32> = lists
        .flat_map(|list| list.split(' ').filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect();
    children.into_iter().filter(|pid| Process::read(*pid).is_some_and(|it| it.dead)).collect()
}

/// Kills a process. It may have ended by itself.
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
