//! Prompts of this and earlier sessions, stored in a file of the user.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Maximum number of prompts.
const MAX_PROMPTS: usize = 1000;

/// Maximum length of a prompt that is written to the file, in bytes. Longer prompts stay in memory.
const MAX_SAVED_BYTES: usize = 16 * 1024;

/// Maximum size of all prompts in memory, in bytes.
const MAX_MEMORY_BYTES: usize = 4 << 20;

/// The earlier prompts, and the position of the prompt that is shown in the line.
#[derive(Debug, Default)]
pub(super) struct History {
    file: Option<PathBuf>,
    prompts: Vec<String>,
    /// Index of the prompt that is shown in the line, and the text that the user had typed before.
    shown: Option<(usize, String)>,
}

impl History {
    /// Reads the prompts from the file, if there is one, and shortens the file if it has grown too long.
    pub(super) fn open(file: Option<PathBuf>) -> Self {
        let text = file.as_deref().and_then(|file| fs::read_to_string(file).ok());
        let lines = text.as_deref().unwrap_or_default().lines();
        let mut prompts: Vec<String> =
            lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        let written = prompts.len();
        prompts.drain(..written.saturating_sub(MAX_PROMPTS));
        let history = Self { file, prompts, shown: None };
        if written > 2 * MAX_PROMPTS
            && let Some(file) = &history.file
            && let Err(err) = history.rewrite(file)
        {
            tracing::debug!("the history cannot be shortened: {err}");
        }
        history
    }

    pub(super) fn prompts(&self) -> &[String] {
        &self.prompts
    }

    /// Adds a prompt, also to the file.
    pub(super) fn add(&mut self, prompt: &str) {
        self.shown = None;
        if self.prompts.last().is_some_and(|last| last == prompt) {
            return;
        }
        self.prompts.push(prompt.to_owned());
        self.forget();
        if prompt.len() <= MAX_SAVED_BYTES
            && let Some(file) = &self.file
            && let Err(err) = append(file, prompt)
        {
            tracing::debug!("the history cannot be written: {err}");
        }
    }

    /// Returns the prompt before the shown one; the newest prompt if none is shown yet. `typed` is the text in the
    /// line, which [`Self::next`] returns after the newest prompt.
    pub(super) fn previous(&mut self, typed: &str) -> Option<String> {
        let (at, draft) = self.shown.take().unwrap_or((self.prompts.len(), typed.to_owned()));
        let before = at.saturating_sub(1);
        self.shown = Some((before, draft));
        self.prompts.get(before).filter(|_| at > 0).cloned()
    }

    /// Returns the prompt after the shown one; after the last prompt, the text that was typed before.
    pub(super) fn next(&mut self) -> Option<String> {
        let (at, draft) = self.shown.take()?;
        if let Some(prompt) = self.prompts.get(at + 1) {
            self.shown = Some((at + 1, draft));
            return Some(prompt.clone());
        }
        Some(draft)
    }

    /// Makes the shown prompt a draft of its own, because the user has edited it.
    pub(super) fn leave(&mut self) {
        self.shown = None;
    }

    /// Drops the oldest prompts beyond the limits of number and size.
    fn forget(&mut self) {
        let mut room = MAX_MEMORY_BYTES;
        let kept = self.prompts.iter().rev().take(MAX_PROMPTS).take_while(|prompt| {
            let fits = prompt.len() <= room;
            room = room.saturating_sub(prompt.len());
            fits
        });
        let kept = kept.count().max(1);
        self.prompts.drain(..self.prompts.len() - kept);
    }

    /// Writes the prompts into a new file, which replaces the old file.
    fn rewrite(&self, file: &Path) -> io::Result<()> {
        let dir = file.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(dir)?;
        for prompt in &self.prompts {
            writeln!(new, "{}", serde_json::Value::from(prompt.as_str()))?;
        }
        new.persist(file)?;
        Ok(())
    }
}

fn append(file: &Path, prompt: &str) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(file)?;
    file.write_all(format!("{}\n", serde_json::Value::from(prompt)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_walked_through_and_the_draft_is_kept() {
        let mut history = History::default();
        history.add("one");
        history.add("two\nlines");
        history.add("two\nlines");
        assert_eq!(history.previous("draft").as_deref(), Some("two\nlines"));
        assert_eq!(history.previous("").as_deref(), Some("one"));
        assert_eq!(history.previous(""), None);
        assert_eq!(history.next().as_deref(), Some("two\nlines"));
        assert_eq!(history.next().as_deref(), Some("draft"));
        assert_eq!(history.next(), None);
    }

    #[test]
    fn the_file_is_kept_short_and_read_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("config/history.jsonl");
        let mut history = History::open(Some(path.clone()));
        for number in 0..2 * MAX_PROMPTS + 5 {
            history.add(&format!("prompt {number}"));
        }
        history.add(&"long ".repeat(MAX_SAVED_BYTES));
        let history = History::open(Some(path.clone()));
        assert_eq!(history.prompts().len(), MAX_PROMPTS);
        assert_eq!(history.prompts().last().unwrap(), &format!("prompt {}", 2 * MAX_PROMPTS + 4));
        assert_eq!(fs::read_to_string(path).unwrap().lines().count(), MAX_PROMPTS);
    }
}
