//! Undo of the changes that calls have made in files: the list of the changes, folded from the log, and the restoration
//! of the files.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::session::events::event::{Event, PromptPart, ToolOutcome, TurnId};
use crate::session::events::log::Log;
use tandem_content::blocking::blocking;
use tandem_host::Host;
use tandem_host::files::UNCONFIRMED_KIND;
use tandem_host::preimages::{FileChange, Preimage};

/// A change that a call made in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallChange {
    /// The turn in which the change was made.
    pub turn: TurnId,
    /// The user's prompt of that turn.
    pub prompt: Arc<[PromptPart]>,
    /// The id of the call that made the change.
    pub call: String,
    /// Absolute path of the file.
    pub path: PathBuf,
    /// `true` if the call created the file.
    pub made: bool,
    /// `true` if the change has been undone.
    pub restored: bool,
    /// `true` if the call has succeeded, and so the file was changed. If the call was cut off, the change was only
    /// announced, and the file shows if it was made.
    is_certain: bool,
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

/// Returns all changes of the session, in the order they were announced, without those that were not made
/// because their calls failed.
pub(crate) fn changes(log: &Log) -> Vec<CallChange> {
    let mut history = ChangeHistory::default();
    let mut log = log.read(0);
    while let Some(entry) = log.try_next_run() {
        history.fold(&entry.event);
    }
    history.changes
}

/// The changes that calls have made in files, folded from the log.
#[derive(Debug, Default)]
pub(crate) struct ChangeHistory {
    changes: Vec<CallChange>,
    prompts: HashMap<TurnId, Arc<[PromptPart]>>,
    /// The turn that runs, or ran last.
    running: Option<TurnId>,
    /// The ids of the calls that have announced changes and have not ended. Most calls have announced none, so their
    /// ends need no search of the changes.
    open: HashSet<String>,
}

impl ChangeHistory {
    /// Returns the changes, in the order they were announced, without those that were not made
    /// because their calls failed.
    pub(crate) fn all(&self) -> &[CallChange] {
        &self.changes
    }

    /// Returns the prompt of a turn.
    pub(crate) fn prompt(&self, turn: TurnId) -> Arc<[PromptPart]> {
        self.prompts.get(&turn).cloned().unwrap_or_default()
    }

    /// Folds in an event.
    pub(crate) fn fold(&mut self, event: &Event) {
        let (changes, running) = (&mut self.changes, self.running.unwrap_or(TurnId(0)));
        match event {
            Event::TurnQueued { turn, prompt, .. } => {
                self.prompts.insert(*turn, prompt.clone().into());
            }
            Event::TurnStarted { turn } => self.running = Some(*turn),
            Event::FileChanged { call, change } => {
                let is_same = |earlier: &&mut CallChange| {
                    earlier.call == *call && earlier.path == change.path
                };
                // A second event for the same file and call means that an editor wrote the file for the call, and wrote
                // a slightly different content. The second event has the final content.
                if let Some(earlier) = changes.iter_mut().rfind(is_same)
                    && self.open.contains(call)
                {
                    earlier.file = change.clone();
                    return;
                }
                self.open.insert(call.clone());
                changes.push(CallChange {
                    turn: running,
                    prompt: self.prompts.get(&running).cloned().unwrap_or_default(),
                    call: call.clone(),
                    path: change.path.clone(),
                    made: change.before == Preimage::Nothing,
                    restored: false,
                    is_certain: false,
                    file: change.clone(),
                });
            }
            Event::CallFinished { call, outcome } if self.open.remove(call) => match outcome {
                ToolOutcome::Done(_) => {
                    for change in changes.iter_mut().filter(|change| change.call == *call) {
                        change.is_certain = true;
                    }
                }
                // A call replaces the file as the last step that can fail, so the file of a failed call is unchanged,
                // unless the write is unconfirmed.
                ToolOutcome::Failed(error) if error.kind != UNCONFIRMED_KIND => {
                    changes.retain(|change| change.is_certain || change.call != *call);
                }
                _ => {}
            },
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
}

/// Restorer of files to the content before their changes.
pub(crate) struct Undo {
    log: Log,
    host: Arc<Host>,
}

impl Undo {
    pub(crate) fn new(log: Log, host: Arc<Host>) -> Self {
        Self { log, host }
    }

    /// Undoes the selected changes, the newest first. A change is undone only if its file is exactly as the change left
    /// it. Returns the selected changes, each with the reason if it was left alone. Stops before the next change when
    /// `stop` fires.
    pub(crate) async fn restore(
        &self,
        selection: &Selection,
        stop: &CancellationToken,
    ) -> Vec<(CallChange, Result<(), String>)> {
        // The changes that are not undone, by file, the newest last.
        let mut standing: HashMap<&Path, Vec<&CallChange>> = HashMap::new();
        let log = self.log.clone();
        let all = blocking(move || changes(&log)).await.unwrap_or_default();
        for change in all.iter().filter(|change| !change.restored) {
            standing.entry(&change.path).or_default().push(change);
        }
        let made = all.iter().flat_map(|change| &change.file.directories);
        let made: HashSet<&Path> = made.map(PathBuf::as_path).collect();
        let mut came = Vec::new();
        for change in all.iter().rev().filter(|change| selection.covers(change)) {
            if stop.is_cancelled() {
                break;
            }
            let result = match standing.get_mut(&*change.path).filter(|_| !change.restored) {
                Some(standing) => self.restore_newest(change, standing).await,
                None => Err("has been put back already".to_owned()),
            };
            if change.made && result.is_ok() {
                self.remove_empty(&change.path, &made).await;
            }
            came.push((change.clone(), result));
        }
        came
    }

    /// Undoes a change if it is the newest of its file. `standing` has the changes of the file that are not undone, the
    /// newest last.
    async fn restore_newest(
        &self,
        change: &CallChange,
        standing: &mut Vec<&CallChange>,
    ) -> Result<(), String> {
        // A directory in the path may have become a link to another place since.
        let there = self.host.resolve(&change.path.to_string_lossy()).await;
        if !there.is_ok_and(|there| there == change.path) {
            return Err("is somewhere else by now".to_owned());
        }
        let files = &*self.host.files;
        // A newer change that was announced but never made does not stand in the way of an older one.
        while let Some(newest) = standing.last().copied()
            && !newest.is_certain
            && newest.file.is_absent(files).await
        {
            standing.pop();
            if newest.call == change.call {
                return Err("is as it was before the call".to_owned());
            }
        }
        if let Some(newer) = standing.last().filter(|newer| newer.call != change.call) {
            return Err(format!("has been changed again by `{}`, which would be lost", newer.call));
        }
        self.host.preimages.restore(&change.file, files).await?;
        standing.pop();
        let (call, path) = (change.call.clone(), change.path.clone());
        self.log.append(Event::FileRestored { call, path });
        Ok(())
    }

    /// Removes the directories above a file that calls have made, as far as the directories are empty now.
    async fn remove_empty(&self, path: &Path, made: &HashSet<&Path>) {
        for directory in path.ancestors().skip(1).take_while(|directory| made.contains(directory)) {
            // A directory that is not empty stays, and so do the directories above it.
            if self.host.files.remove_directory(directory).await.is_err() {
                return;
            }
        }
    }
}
