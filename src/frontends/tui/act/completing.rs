//! Completions of the word at the cursor.

use super::super::complete::{self, Completable, FileIndex, KnownModels};
use super::super::ui::Ui;

/// Maximum number of files that are fetched as candidates.
const MAX_CANDIDATE_FILES: usize = 20_000;

impl Ui {
    /// Offers completions for the word at the cursor. Files and prompts of MCP servers may change, so they are fetched
    /// anew each time the user begins such a word.
    pub(in super::super) fn offer(&mut self) {
        self.offer_known();
        match complete::completable_at_cursor(&self.state.input) {
            Some(Completable::Command("/")) => self.find_prompts(),
            Some(Completable::Command(typed)) => {
                let begins = |id: &str| id.is_empty() || self.sources.models.ids.is_empty();
                if complete::model_id(typed).is_some_and(begins) {
                    self.find_models();
                }
            }
            Some(Completable::File(typed, _))
                if typed.is_empty() || self.sources.files.is_none() =>
            {
                self.find_files();
            }
            _ => {}
        }
    }

    /// Offers completions from the files, prompts and models that are known already.
    fn offer_known(&mut self) {
        self.state.completion = self.sources.completion(&self.state.input);
    }

    fn find_files(&mut self) {
        if std::mem::replace(&mut self.sources.is_finding_files, true) {
            return;
        }
        self.on_reply(self.session.files(MAX_CANDIDATE_FILES), |ui, files| {
            ui.sources.is_finding_files = false;
            ui.sources.files = Some(FileIndex::new(files.unwrap_or_default()));
            ui.offer_found();
        });
    }

    fn find_prompts(&mut self) {
        self.on_reply(self.session.prompts(), |ui, prompts| {
            // An agent of an earlier version does not know this request, and refuses it.
            let prompts = prompts.unwrap_or_default();
            if prompts != ui.sources.prompts {
                ui.sources.prompts = prompts;
                ui.offer_found();
            }
        });
    }

    fn find_models(&mut self) {
        if std::mem::replace(&mut self.sources.models.is_fetching, true) {
            return;
        }
        self.on_reply(self.session.models(), |ui, models| {
            ui.sources.models = KnownModels { ids: models.unwrap_or_default(), is_fetching: false };
            ui.offer_found();
        });
    }

    /// Offers completions again after new candidates have come, unless the user searches earlier prompts by now.
    fn offer_found(&mut self) {
        if self.state.completion.as_ref().is_none_or(|completion| !completion.searches) {
            self.offer_known();
        }
    }

    pub(super) fn complete(&mut self) {
        match self.state.completion.take() {
            Some(mut completion) => {
                // If the marked candidate is in the line already, the user wants the next one.
                if !completion.accept(&mut self.state.input) && completion.candidates.len() > 1 {
                    completion.select(true);
                    completion.accept(&mut self.state.input);
                }
                if !completion.searches {
                    self.offer();
                }
            }
            None => self.offer(),
        }
    }
}
