//! Taking back what calls changed in files: which changes there are, told from the log, and the
//! putting back.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::event::{Event, PromptPart, TurnId};
use super::log::Log;
use tandem_tools::Host;
use tandem_tools::preimages::{FileChange, Preimage};

/// A change that a call made in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallChange {
    /// The turn in which it was made.
    pub turn: TurnId,
    /// The user's prompt of that turn.
    pub prompt: Arc<[PromptPart]>,
    /// The call that made it.
    pub call: String,
    /// Absolute path of the file.
    pub path: PathBuf,
    /// `true` if the call created the file.
    pub made: bool,
    /// `true` if the change has been undone.
    pub restored: bool,
    /// The former content, to restore the file.
    file: FileChange,
}

/// The changes to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The changes of one call.
    Call(String),
    /// The changes of one turn.
    Turn(TurnId),
    /// The changes of a turn and of all turns after it.
    Since(TurnId),
}

impl Selection {
    fn covers(&self, change: &CallChange) -> bool {
        match self {
            Self::Call(call) => change.call == *call,
            Self::Turn(turn) => change.turn == *turn,
            Self::Since(turn) => change.turn >= *turn,
        }
    }
}

/// Returns all changes of the session, in the order they were made.
pub(super) fn changes(log: &Log) -> Vec<CallChange> {
    let mut changes: Vec<CallChange> = Vec::new();
    let mut prompts: HashMap<TurnId, Arc<[PromptPart]>> = HashMap::new();
    let mut running = TurnId(0);
    let mut log = log.read(0);
    while let Some(entry) = log.try_next_run() {
        match &*entry.event {
            Event::TurnQueued { turn, prompt, .. } => {
                prompts.insert(*turn, prompt.clone().into());
            }
            Event::TurnStarted { turn } => running = *turn,
            Event::FileChanged { call, change } => changes.push(CallChange {
                turn: running,
                prompt: prompts.get(&running).cloned().unwrap_or_default(),
                call: call.clone(),
                path: change.path.clone(),
                made: change.before == Preimage::Nothing,
                restored: false,
                file: change.clone(),
            }),
            Event::FileRestored { call, path } => {
                let restored =
                    |change: &&mut CallChange| change.call == *call && change.path == *path;
                if let Some(change) = changes.iter_mut().find(restored) {
                    change.restored = true;
                }
            }
            _ => {}
        }
    }
    changes
}

/// Restores files from before their changes.
pub(super) struct Undo {
    log: Log,
    host: Arc<Host>,
}

impl Undo {
    pub(super) fn new(log: Log, host: Arc<Host>) -> Self {
        Self { log, host }
    }

    /// Takes changes back, the newest first: each if its file is exactly as the change left it. Returns
    /// all that were selected, each with the reason if it was left alone. Stops when `stop` fires.
    pub(super) async fn restore(
        &self,
        selection: &Selection,
        stop: &CancellationToken,
    ) -> Vec<(CallChange, Result<(), String>)> {
        // By file: the newest change that stands.
        let mut standing: HashMap<PathBuf, Vec<String>> = HashMap::new();
        let log = self.log.clone();
        let all = tokio::task::spawn_blocking(move || changes(&log)).await.unwrap_or_default();
        for change in all.iter().filter(|change| !change.restored) {
            standing.entry(change.path.clone()).or_default().push(change.call.clone());
        }
        let made: HashSet<PathBuf> =
            all.iter().flat_map(|change| change.file.directories.iter().cloned()).collect();
        let mut came = Vec::new();
        for change in all.into_iter().rev().filter(|change| selection.covers(change)) {
            if stop.is_cancelled() {
                break;
            }
            let result = match standing.get_mut(&change.path).filter(|_| !change.restored) {
                Some(calls) => self.restore_newest(&change, calls).await,
                None => Err("has been put back already".to_owned()),
            };
            if change.made && result.is_ok() {
                self.remove_empty(&change.path, &made).await;
            }
            came.push((change, result));
        }
        came
    }

    /// `calls` are those whose changes of the file stand, the newest last.
    async fn restore_newest(
        &self,
        change: &CallChange,
        calls: &mut Vec<String>,
    ) -> Result<(), String> {
        if let Some(newer) = calls.last().filter(|newer| **newer != change.call) {
            return Err(format!("has been changed again by `{newer}`, which would be lost"));
        }
        // A directory on the way may have become a link to elsewhere.
        let there = self.host.resolve(&change.path.to_string_lossy()).await;
        if !there.is_ok_and(|there| there == change.path) {
            return Err("is somewhere else by now".to_owned());
        }
        self.host.preimages.restore(&change.file, &*self.host.files).await?;
        calls.pop();
        let (call, path) = (change.call.clone(), change.path.clone());
        self.log.append(Event::FileRestored { call, path });
        Ok(())
    }

    /// Removes the directories above a file that calls have made, as far as they are empty now.
    async fn remove_empty(&self, path: &Path, made: &HashSet<PathBuf>) {
        for directory in path.ancestors().skip(1).take_while(|directory| made.contains(*directory))
        {
            // One that is not empty stays, and so do those above it.
            if self.host.files.remove_directory(directory).await.is_err() {
                return;
            }
        }
    }
}
