//! Storage of rules and saved answers.

use std::path::PathBuf;
use std::sync::Arc;

use super::policy::Policy;
use super::saved::Saved;

/// Storage of rules and saved answers.
pub trait RuleStore: Send + Sync {
    /// Reads the rules and the saved answers. May block on files.
    fn load(&self) -> LoadedRules;

    /// Saves one more answer. Returns the file that holds it; an error says why the answer is not saved.
    fn save(&self, saved: &Saved) -> Result<PathBuf, String>;

    /// Removes a saved answer.
    fn remove(&self, saved: &Saved) -> Result<(), String>;
}

/// Rules and saved answers, as read from the storage.
#[derive(Debug, Clone)]
pub struct LoadedRules {
    /// The rules.
    pub policy: Arc<dyn Policy>,
    /// The saved answers.
    pub saved: Vec<Saved>,
    /// Remarks for people on problems with reading, as sentences.
    pub remarks: Vec<String>,
}

impl LoadedRules {
    pub(super) fn remarks(&self) -> Vec<String> {
        let broken = self.policy.broken().into_iter().map(|rule| rule.text);
        broken.chain(self.remarks.iter().cloned()).collect()
    }
}
