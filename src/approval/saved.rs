//! Saved answers: an "always" that counts in later sessions, too, in one folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use super::scope::Scope;

/// An "always" that is saved, and counts in later sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Calls that the answer allows.
    #[serde(flatten)]
    pub scope: Scope,
    /// Directory in which, and below which, the answer counts; absolute.
    pub folder: PathBuf,
    /// Mode in which the answer was given. In a mode that allows less, the answer does not count.
    #[serde(default)]
    pub mode: Mode,
}

impl Saved {
    /// Returns whether the answer counts in a mode and in a workspace.
    pub fn applies(&self, mode: Mode, folder: &Path) -> bool {
        mode.allows_as_much_as(self.mode) && folder.starts_with(&self.folder)
    }
}

/// Header of the TOML table of an answer.
const ANSWER_HEADER: &str = "[[always]]";

/// The answers in a file.
#[derive(Serialize, Deserialize)]
struct AnswersFile {
    always: Vec<Saved>,
}

impl Saved {
    /// Returns the text of a file with this answer at its end.
    pub fn added_to(&self, file: &str) -> Result<String, String> {
        let always = vec![self.clone()];
        let entry = toml::to_string(&AnswersFile { always }).map_err(|err| err.to_string())?;
        let gap = if file.is_empty() || file.ends_with('\n') { "" } else { "\n" };
        Ok(format!("{file}{gap}\n{entry}"))
    }

    /// Returns the text of a file without this answer, and otherwise unchanged; `None` if the answer is not in the
    /// file.
    pub fn taken_from(&self, file: &str) -> Option<String> {
        // The text is split at table headers, in place of being parsed and written again, so that comments and
        // formatting stay.
        let mut blocks: Vec<String> = vec![String::new()];
        for line in file.split_inclusive('\n') {
            if line.trim() == ANSWER_HEADER || line.trim() == "[[rule]]" {
                blocks.push(String::new());
            }
            if let Some(block) = blocks.last_mut() {
                block.push_str(line);
            }
        }
        let count = blocks.len();
        let is_this = |block: &str| {
            toml::from_str(block)
                .is_ok_and(|AnswersFile { always }| always.len() == 1 && always[0] == *self)
        };
        blocks.retain(|block| !is_this(block));
        (blocks.len() < count).then(|| blocks.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(scope: Scope) -> Saved {
        Saved { scope, folder: "/p".into(), mode: Mode::Default }
    }

    #[test]
    fn an_answer_comes_back_from_a_file_as_it_went_in() {
        let line = "echo \"a\\b\"\nls '''\tx\u{e9}".to_owned();
        let all = [
            Scope::Edits,
            Scope::Commands(vec!["git commit".to_owned(), "make".to_owned()]),
            Scope::Line { line, directory: "/p \"q\"".into() },
            Scope::Programs(vec!["git".to_owned()]),
            Scope::Outside(vec!["git commit".to_owned()]),
            Scope::Hosts(vec!["a.test:80".to_owned()]),
            Scope::Connections(vec!["a.test".to_owned()]),
            Scope::Reads(vec!["/home/me/notes".into()]),
            Scope::Tool("mcp_a_b".to_owned()),
            Scope::Server("a".to_owned()),
            Scope::Agent("a".to_owned()),
            Scope::AgentTool { agent: "a".to_owned(), tool: "t".to_owned() },
        ];
        let mut file = "# mine\n".to_owned();
        for scope in &all {
            file = saved(scope.clone()).added_to(&file).unwrap();
        }
        let read: AnswersFile = toml::from_str(&file).unwrap();
        assert_eq!(read.always, all.clone().map(saved));
        let (one, other) = (saved(all[1].clone()), saved(all[2].clone()));
        let less = other.taken_from(&one.taken_from(&file).unwrap()).unwrap();
        assert!(less.starts_with("# mine\n"));
        let read: AnswersFile = toml::from_str(&less).unwrap();
        assert_eq!(read.always.len(), all.len() - 2);
        assert_eq!(one.taken_from(&less), None);
    }

    #[test]
    fn an_answer_counts_in_its_folder_and_in_modes_that_allow_more() {
        let saved = saved(Scope::Edits);
        let check = |mode, folder: &str| saved.applies(mode, Path::new(folder));
        assert!(check(Mode::Default, "/p") && check(Mode::AutoEdit, "/p/q"));
        assert!(!check(Mode::Plan, "/p") && !check(Mode::Default, "/pq"));
    }
}
