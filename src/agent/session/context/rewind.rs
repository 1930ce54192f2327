//! Going back to before an earlier prompt: which prompts there are, and which parts of a log the
//! model has never been told then.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::session::events::event::{Event, PromptPart, TurnId};
use crate::session::events::log::{Entry, Millis, Reader};
use crate::session::events::projection::prompt_text;
use crate::session::state::undo::ChangeHistory;

/// A prompt that the conversation can go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierPrompt {
    /// Its turn.
    pub turn: TurnId,
    /// The prompt as one text.
    pub text: String,
    /// Time at which its turn began.
    pub at: Millis,
    /// Number of files that calls have changed since, without those that are restored.
    pub changed_files: usize,
    /// Index in the log where its turn began.
    pub(crate) started: usize,
}

/// The prompts that the conversation can go back to, folded from the log.
#[derive(Debug, Default)]
pub struct EarlierPrompts {
    /// The turns that have begun, oldest first.
    turns: Vec<StartedTurn>,
    changes: ChangeHistory,
}

/// A turn that has begun.
#[derive(Debug)]
struct StartedTurn {
    id: TurnId,
    prompt: Arc<[PromptPart]>,
    at: Millis,
    started: usize,
    /// `true` if it changes what the model is told, as a prompt does, and few commands do.
    is_told: bool,
}

impl EarlierPrompts {
    /// Folds all entries that a reader has now.
    pub(crate) fn of(log: &mut Reader) -> Self {
        let mut prompts = Self::default();
        while let Some(entry) = log.try_next_run() {
            prompts.apply(&entry);
        }
        prompts
    }

    /// Folds in the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.changes.fold(&entry.event);
        let told = match &*entry.event {
            Event::TurnStarted { turn } => {
                let prompt = self.changes.prompt(*turn);
                let (id, at, started) = (*turn, entry.at, entry.index);
                return self.turns.push(StartedTurn { id, prompt, at, started, is_told: true });
            }
            Event::Rewound { turn } => return self.turns.retain(|earlier| earlier.id < *turn),
            Event::CommandStarted { .. } => false,
            Event::Asked(_) | Event::Forgotten | Event::Compressed(_) => true,
            _ => return,
        };
        self.turns.iter_mut().next_back().into_iter().for_each(|turn| turn.is_told = told);
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        !self.turns.iter().any(|turn| turn.is_told)
    }

    /// Returns the prompts, oldest first.
    pub fn list(&self) -> Vec<EarlierPrompt> {
        let mut changes = self.changes.all().iter().filter(|change| !change.restored).rev();
        let mut next = changes.next();
        let mut files: HashSet<&Path> = HashSet::new();
        let mut prompts = Vec::new();
        for turn in self.turns.iter().rev() {
            while let Some(change) = next.take_if(|change| change.turn >= turn.id) {
                files.insert(&change.path);
                next = changes.next();
            }
            prompts.extend(turn.is_told.then(|| EarlierPrompt {
                turn: turn.id,
                text: prompt_text(&turn.prompt),
                at: turn.at,
                changed_files: files.len(),
                started: turn.started,
            }));
        }
        prompts.reverse();
        prompts
    }
}

/// The parts of a log that the model has never been told, because the conversation went back to
/// before them.
#[derive(Debug, Default)]
pub(super) struct RewoundParts {
    /// Indexes of events; in order, and apart.
    parts: Vec<Range<usize>>,
    /// Index up to which the log was read for this.
    end: usize,
}

impl RewoundParts {
    /// Finds them in all that a reader has now.
    pub(super) fn of(log: &mut Reader) -> Self {
        let (mut starts, mut parts) = (HashMap::new(), Vec::<Range<usize>>::new());
        while let Some(entry) = log.try_next_run() {
            match &*entry.event {
                Event::TurnStarted { turn } => _ = starts.insert(*turn, entry.index),
                Event::Rewound { turn } => {
                    let Some(mut start) = starts.get(turn).copied() else { continue };
                    while let Some(earlier) = parts.pop_if(|earlier| earlier.end > start) {
                        start = start.min(earlier.start);
                    }
                    parts.push(start..entry.index + 1);
                }
                _ => {}
            }
        }
        Self { parts, end: log.position() }
    }

    /// Returns whether the log was read up to an event and further.
    pub(super) fn covers(&self, index: usize) -> bool {
        index < self.end
    }

    /// Returns whether an event is in one of the parts.
    pub(super) fn contains(&self, index: usize) -> bool {
        let after = self.parts.partition_point(|part| part.start <= index);
        after.checked_sub(1).is_some_and(|at| self.parts[at].contains(&index))
    }
}
