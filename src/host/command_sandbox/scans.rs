//! Comparison of the protected files of a workspace over time, while programs of the sandbox run in the background.
//! During that time it cannot be known which program has made a new file, so people are told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::listed;

/// Identity of a file: another file at the same path has another inode number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) number: u64,
    /// Target of a link.
    pub(super) target: Option<PathBuf>,
    /// Device and inode number of the file that a link leads to.
    pub(super) end: Option<(u64, u64)>,
}

impl Identity {
    /// Returns whether both are the same link, even if it leads to another file by now.
    pub(super) fn is_same_link(&self, other: &Self) -> bool {
        self.target.is_some()
            && Self { end: None, ..self.clone() } == Self { end: None, ..other.clone() }
    }
}

/// Protected files with their identities.
pub(super) type ProtectedFiles = BTreeMap<PathBuf, Identity>;

/// State of the comparisons of one workspace. The lock guards the files and the list of running programs.
#[derive(Default)]
pub(super) struct Scans(Mutex<ScansState>);

#[derive(Default)]
struct ScansState {
    /// Files at the last comparison, if there was one.
    last: Option<ProtectedFiles>,
    /// Names of the registered programs that are running, by number.
    running: BTreeMap<u64, String>,
    /// Number of programs that were registered so far.
    count: u64,
    /// Names of registered programs that have ended since the last comparison.
    ended: BTreeSet<String>,
    /// `true` if processes that can make files were still running after the last command.
    has_left: bool,
}

/// Registration of a program that keeps running while other commands begin and end. Dropping it marks the program as
/// ended.
pub struct RunsOn {
    scans: Arc<Scans>,
    number: u64,
}

impl Drop for RunsOn {
    fn drop(&mut self) {
        let mut state = self.scans.0.lock();
        let ended = state.running.remove(&self.number);
        state.ended.extend(ended);
    }
}

impl Scans {
    /// Registers a program that can make files and keeps running.
    pub(super) fn runs_on(self: &Arc<Self>, name: String) -> RunsOn {
        let mut state = self.0.lock();
        state.count += 1;
        let number = state.count;
        state.running.insert(number, name);
        RunsOn { scans: Arc::clone(self), number }
    }

    /// Compares the files with those of the last comparison. Returns a message for people about new files, if a program
    /// was running that could have made them.
    pub(super) fn compare(&self, now: ProtectedFiles) -> Option<String> {
        let mut state = self.0.lock();
        let mut makers = std::mem::take(&mut state.ended);
        makers.extend(state.running.values().cloned());
        let before = state.last.replace(now)?;
        let now = state.last.iter().flatten();
        let new = now.filter(|(path, identity)| before.get(*path) != Some(*identity));
        let new: Vec<_> = new.map(|(path, _)| path.clone()).collect();
        if new.is_empty() || (makers.is_empty() && !state.has_left) {
            return None;
        }
        let makers: Vec<_> = makers.into_iter().collect();
        let makers = match &makers[..] {
            [] => "processes may have run that an earlier command has left behind".to_owned(),
            makers => format!("{} ran", makers.join(" and ")),
        };
        Some(format!(
            "{} appeared while {makers}. Other programs run such files by themselves: look at the file, unless \
             you made it. Later commands in the sandbox cannot change the file.",
            listed(&new)
        ))
    }

    /// Records the files as known, and whether processes are left that can make more.
    pub(super) fn settle(&self, now: ProtectedFiles, has_left: bool) {
        let mut state = self.0.lock();
        state.last = Some(now);
        state.has_left = has_left;
    }

    /// Records whether processes are left that can make files.
    pub(super) fn set_left(&self, has_left: bool) {
        self.0.lock().has_left = has_left;
    }

    /// Adds files that the agent itself has made to the known files.
    pub(super) fn accept(&self, files: impl IntoIterator<Item = (PathBuf, Identity)>) {
        if let Some(last) = &mut self.0.lock().last {
            last.extend(files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[(&str, u64)]) -> ProtectedFiles {
        let identity = |number| Identity { device: 1, number, target: None, end: None };
        names.iter().map(|(name, number)| (PathBuf::from(name), identity(*number))).collect()
    }

    #[test]
    fn what_comes_up_is_told_while_a_program_could_have_made_it() {
        let scans = Arc::<Scans>::default();
        assert_eq!(scans.compare(files(&[("/.git", 1)])), None);
        assert_eq!(scans.compare(files(&[("/.git", 2)])), None, "nothing runs");
        let runs_on = scans.runs_on("`make watch`".to_owned());
        assert_eq!(scans.compare(files(&[("/.git", 2)])), None, "nothing is new");
        let told = scans.compare(files(&[("/.git", 2), ("/.vscode", 3)])).unwrap();
        assert!(told.starts_with("`/.vscode` appeared while `make watch` ran."), "{told}");
        drop(runs_on);
        let told = scans.compare(files(&[("/.git", 4)])).unwrap();
        assert!(told.starts_with("`/.git` appeared while `make watch` ran."), "{told}");
        assert_eq!(scans.compare(files(&[("/.git", 5)])), None, "nothing runs any more");
    }

    #[test]
    fn what_the_agent_makes_itself_is_not_told() {
        let scans = Arc::<Scans>::default();
        scans.compare(files(&[]));
        let _runs_on = scans.runs_on("`make watch`".to_owned());
        scans.accept(files(&[("/.vscode", 3)]));
        assert_eq!(scans.compare(files(&[("/.vscode", 3)])), None);
        assert!(scans.compare(files(&[("/.vscode", 4)])).is_some());
    }

    #[test]
    fn what_was_left_behind_may_have_made_it() {
        let scans = Arc::<Scans>::default();
        scans.settle(files(&[]), true);
        let told = scans.compare(files(&[("/.vscode", 3)])).unwrap();
        assert!(told.contains("that an earlier command has left behind"), "{told}");
        scans.settle(files(&[]), false);
        assert_eq!(scans.compare(files(&[("/.vscode", 3)])), None);
    }
}
