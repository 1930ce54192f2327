//! Menu of the earlier prompts that the conversation can go back to. This module is pure: it gets the prompts as a
//! parameter.

use tandem_agent::session::EarlierPrompt;

/// Part of the session that goes back to before the marked prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RewindChoice {
    /// Conversation and files.
    WithFiles,
    /// The conversation only; the files stay unchanged.
    Conversation,
    /// Neither: the menu closes, and the session stays unchanged.
    Nothing,
}

impl RewindChoice {
    pub(super) const ALL: [Self; 3] = [Self::WithFiles, Self::Conversation, Self::Nothing];
}

/// Choice among the earlier prompts, and then of the part that goes back.
#[derive(Debug)]
pub(super) struct RewindMenu {
    /// Earlier prompts, the newest first; never empty.
    prompts: Vec<EarlierPrompt>,
    /// Index of the marked prompt.
    pub(super) selected: usize,
    /// Index of the marked `RewindChoice`, once the user has chosen a prompt since which files were changed.
    pub(super) choice: Option<usize>,
}

impl RewindMenu {
    /// Creates the menu of prompts, which are given with the oldest first; `None` if there are none.
    pub(super) fn new(mut prompts: Vec<EarlierPrompt>) -> Option<Self> {
        prompts.reverse();
        (!prompts.is_empty()).then_some(Self { prompts, selected: 0, choice: None })
    }

    /// Returns the prompts, the newest first.
    pub(super) fn prompts(&self) -> &[EarlierPrompt] {
        &self.prompts
    }

    /// Returns the marked prompt.
    pub(super) fn marked(&self) -> Option<&EarlierPrompt> {
        self.prompts.get(self.selected)
    }

    /// Marks the next row, or the previous row.
    pub(super) fn select(&mut self, down: bool) {
        let (marked, count) = match &mut self.choice {
            Some(choice) => (choice, RewindChoice::ALL.len()),
            None => (&mut self.selected, self.prompts.len()),
        };
        *marked = if down { (*marked + 1).min(count - 1) } else { marked.saturating_sub(1) };
    }

    /// Takes the marked row. Returns the choice once it is made. If no file was changed since the marked prompt, the
    /// user is not asked about files.
    pub(super) fn enter(&mut self) -> Option<RewindChoice> {
        if let Some(choice) = self.choice {
            return Some(RewindChoice::ALL[choice]);
        }
        if self.marked()?.changed_files == 0 {
            return Some(RewindChoice::WithFiles);
        }
        self.choice = Some(0);
        None
    }
}
