//! Rewinding the conversation to before an earlier prompt: the prompts to go back to, and the parts of a log that
//! rewinds have taken out of the conversation.

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
    /// Turn of the prompt.
    pub turn: TurnId,
    /// The prompt as one text.
    pub text: String,
    /// Time at which the turn began.
    pub at: Millis,
    /// Number of files that calls have changed since the turn began, without the files that are restored.
    pub changed_files: usize,
}

/// The prompts that the conversation can go back to, folded from the log.
#[derive(Debug, Default)]
pub struct EarlierPrompts {
    /// The turns that have begun and are not rewound, oldest first.
    turns: Vec<StartedTurn>,
    changes: ChangeHistory,
}

/// A turn that has begun.
#[derive(Debug)]
struct StartedTurn {
    id: TurnId,
    prompt: Arc<[PromptPart]>,
    at: Millis,
    /// `true` if the turn changes the model's messages, as a prompt does, and a few commands do.
    is_told: bool,
}

impl EarlierPrompts {
    /// Folds all entries that a reader has now. Returns the prompts.
    pub(crate) fn from_log(log: &mut Reader) -> Self {
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
                let (id, at) = (*turn, entry.at);
                return self.turns.push(StartedTurn { id, prompt, at, is_told: true });
            }
            Event::Rewound { turn } => return self.turns.retain(|earlier| earlier.id < *turn),
            Event::CommandStarted { .. } => false,
            Event::Asked(_) | Event::Forgotten | Event::Compressed(_) => true,
            _ => return,
        };
        self.turns.iter_mut().next_back().into_iter().for_each(|turn| turn.is_told = told);
    }

    /// Returns `true` if there is no prompt to go back to.
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
            }));
        }
        prompts.reverse();
        prompts
    }
}

/// The parts of a log that a rewind has removed from the conversation: the model counts as never told them.
#[derive(Debug, Default)]
pub(super) struct RewoundParts {
    /// Ranges of event indexes, in order and not overlapping.
    parts: Vec<Range<usize>>,
    /// Index after the last event that was read to find the parts.
    end: usize,
}

impl RewoundParts {
    /// Finds the parts in all entries that a reader has now.
    pub(super) fn from_log(log: &mut Reader) -> Self {
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

    /// Returns `true` if the event at an index was read to find the parts.
    pub(super) fn covers(&self, index: usize) -> bool {
        index < self.end
    }

    /// Returns `true` if the event at an index is in one of the parts.
    pub(super) fn contains(&self, index: usize) -> bool {
        let after = self.parts.partition_point(|part| part.start <= index);
        after.checked_sub(1).is_some_and(|at| self.parts[at].contains(&index))
    }
}
