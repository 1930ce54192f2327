//! Texts that can be put into the line: earlier prompts, and candidates for completions.

use super::complete::{self, Completable, Completion, FileIndex, KnownModels};
use super::history::History;
use super::input::TextInput;
use tandem_agent::session::SessionCommand;

/// Texts that can be put into the line, as far as they are known.
pub(super) struct InputSources {
    /// Prompts of this and earlier sessions.
    pub(super) history: History,
    /// Files of the workspace, once they have been asked for.
    pub(super) files: Option<FileIndex>,
    /// `true` while the files are being looked for.
    pub(super) is_finding_files: bool,
    /// Prompts of MCP servers, as they were when a command was last begun.
    pub(super) prompts: Vec<SessionCommand>,
    /// Models that the user can choose.
    pub(super) models: KnownModels,
}

impl InputSources {
    pub(super) fn new(history: History) -> Self {
        let (files, prompts, models) = (None, Vec::new(), KnownModels::default());
        Self { history, files, is_finding_files: false, prompts, models }
    }

    /// Returns the completions of the word at the cursor, from the files, prompts and models that are known already.
    pub(super) fn completion(&self, input: &TextInput) -> Option<Completion> {
        match complete::completable_at_cursor(input)? {
            Completable::Command(typed) => match complete::model_id(typed) {
                Some(id) => complete::models(id, &self.models.ids),
                None => complete::commands(typed, &self.prompts),
            },
            Completable::File(typed, from) => {
                self.files.as_ref().and_then(|files| files.fitting(typed, from))
            }
        }
    }

    /// Returns the earlier prompts that have the typed text in them.
    pub(super) fn search(&self, input: &TextInput) -> Option<Completion> {
        complete::history(input.text(), self.history.prompts())
    }
}
