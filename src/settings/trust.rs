//! The user's trust in folders, from `~/.gemini/trustedFolders.json`.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::env::{Env, TRUST_VARIABLE};
use super::owned_file;

/// Extent to which files in a folder may be followed. A smaller value is the more careful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The user has distrusted the folder.
    Never,
    /// The user has not decided on the folder.
    Unjudged,
    /// The user trusts the folder.
    Trusted,
}

/// The user's rules on folders, as one reading of their file found them.
pub struct TrustRules {
    /// Folders with the trust in each of them and in everything below it; `None` if a variable says that all are
    /// trusted.
    rules: Option<Vec<(PathBuf, Trust)>>,
    /// Trust in the working directory.
    own: Trust,
    /// Trust in folders that the user has not judged.
    unjudged: Trust,
}

impl TrustRules {
    /// Reads the rules of an environment.
    pub fn read(env: &Env) -> Self {
        let unjudged = if env.trusts_unjudged() { Trust::Trusted } else { Trust::Unjudged };
        if env.var(TRUST_VARIABLE) == Some("true") {
            return Self { rules: None, own: Trust::Trusted, unjudged };
        }
        let rules = rules(env);
        Self { own: judge(&rules, &real(env.directory())), rules: Some(rules), unjudged }
    }

    /// Returns the trust in a directory: the working directory, or one above or below it.
    pub fn trust(&self, directory: &Path) -> Trust {
        let Some(rules) = &self.rules else { return Trust::Trusted };
        // The more careful of two judgements counts. Files in a directory above the working directory are trusted only
        // if the working directory is trusted too, and trust in the working directory does not extend to directories
        // above it.
        match judge(rules, &real(directory)).min(self.own) {
            Trust::Unjudged => self.unjudged,
            judged => judged,
        }
    }
}

/// Returns the trust in `directory`, which is the working directory or a directory above it.
pub fn trust(env: &Env, directory: &Path) -> Trust {
    TrustRules::read(env).trust(directory)
}

/// Applies the rule for the innermost folder that contains `directory`; of two rules for the same folder, the more
/// careful one.
fn judge(rules: &[(PathBuf, Trust)], directory: &Path) -> Trust {
    let cover = rules.iter().filter(|(folder, _)| directory.starts_with(folder));
    let inner = cover.max_by_key(|(folder, trust)| (folder.components().count(), Reverse(*trust)));
    inner.map_or(Trust::Unjudged, |(_, trust)| *trust)
}

/// Returns the user's rules: folders with the trust in each of them and in everything below it.
fn rules(env: &Env) -> Vec<(PathBuf, Trust)> {
    let Some(path) = env.gemini_dir().map(|dir| dir.join("trustedFolders.json")) else {
        return Vec::new();
    };
    let read =
        owned_file::read(&path, owned_file::MAX_SMALL_FILE_KIB).and_then(|file| match file {
            Some(file) if file.others_may_write() => {
                Err(format!("can be written by other users (run `chmod go-w {}`)", path.display()))
            }
            Some(file) => {
                serde_json::from_str(&file.text).map_err(|err| format!("is not valid: {err}"))
            }
            None => Ok(Map::new()),
        });
    let said: Map<String, Value> = read.unwrap_or_else(|why| {
        tracing::warn!("{} {why}; no folder is trusted", path.display());
        Map::new()
    });
    said.iter().filter_map(|(folder, said)| rule(Path::new(folder), said.as_str()?)).collect()
}

fn rule(folder: &Path, said: &str) -> Option<(PathBuf, Trust)> {
    if !folder.is_absolute() {
        return None;
    }
    let folder = real(folder);
    match said {
        "TRUST_FOLDER" => Some((folder, Trust::Trusted)),
        "TRUST_PARENT" => Some((folder.parent()?.to_owned(), Trust::Trusted)),
        "DO_NOT_TRUST" => Some((folder, Trust::Never)),
        _ => None,
    }
}

/// Resolves symbolic links. Otherwise a link inside a trusted folder could make a folder elsewhere trusted.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::Trust::{self, Never, Trusted, Unjudged};
    use super::{Env, judge, rule, trust};

    fn check(rules: &[(&str, &str)], directory: &str, expected: Trust) {
        let rules: Vec<(PathBuf, Trust)> =
            rules.iter().filter_map(|(folder, said)| rule(Path::new(folder), said)).collect();
        assert_eq!(judge(&rules, Path::new(directory)), expected, "{rules:?} {directory}");
    }

    #[test]
    fn a_folder_that_is_not_named_is_unjudged() {
        check(&[], "/a/b", Unjudged);
        check(&[("/a/c", "TRUST_FOLDER"), ("/a/b2", "TRUST_FOLDER")], "/a/b", Unjudged);
        check(&[("/a/b/c", "TRUST_FOLDER")], "/a/b", Unjudged);
    }

    #[test]
    fn what_is_said_of_a_folder_holds_below_it() {
        check(&[("/a", "TRUST_FOLDER")], "/a/b", Trusted);
        check(&[("/a", "DO_NOT_TRUST")], "/a/b", Never);
    }

    #[test]
    fn trust_parent_is_trust_in_the_parent() {
        check(&[("/a/b", "TRUST_PARENT")], "/a/c", Trusted);
        check(&[("/a/b", "TRUST_PARENT")], "/x", Unjudged);
    }

    #[test]
    fn the_innermost_folder_decides() {
        check(&[("/a", "TRUST_FOLDER"), ("/a/b", "DO_NOT_TRUST")], "/a/b/c", Never);
        check(&[("/a", "DO_NOT_TRUST"), ("/a/b", "TRUST_FOLDER")], "/a/b/c", Trusted);
    }

    #[test]
    fn of_two_rules_for_one_folder_the_careful_one_decides() {
        check(&[("/a/b", "TRUST_PARENT"), ("/a", "DO_NOT_TRUST")], "/a/x", Never);
    }

    #[test]
    fn rules_that_make_no_sense_say_nothing() {
        check(&[("a", "TRUST_FOLDER"), ("/a", "TRUST"), ("/", "TRUST_PARENT")], "/a", Unjudged);
    }

    #[test]
    fn trust_in_unjudged_folders_counts_only_where_the_settings_say_so() {
        let [here, there] = ["/a", "/b"].map(Path::new);
        let mut env = Env::new([], here);
        env.trust_unjudged();
        assert_eq!(trust(&env, here), Trusted);
        assert_eq!(trust(&env.in_directory(there), there), Unjudged);
    }
}
