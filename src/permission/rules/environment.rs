//! Environment of commands: which program a name stands for, and the variables that programs obey.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::place::Place;
use super::{Risk, git_config};
use crate::shell::{Command, Word, brief};

const TABLE: &str = include_str!("environment.toml");

static TABLES: LazyLock<Tables> = LazyLock::new(|| toml::from_str(TABLE).unwrap_or_default());

/// The data of `environment.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    variable: Vec<Variable>,
    runs: Vec<Runs>,
    reading: Vec<Reading>,
}

/// Variables that programs obey.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    names: Vec<String>,
    programs: Vec<String>,
    value: Kind,
    reason: String,
}

/// Kind of value that a variable has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Paths,
    Command,
    Any,
}

/// A program that runs others by their names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runs {
    program: String,
    others: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

/// A variable that a command line is given if it only reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    name: String,
    value: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Directories where programs are looked for if nobody names any: bash's own default.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin:.";

/// The environment that commands are started with.
#[derive(Debug, Clone, Default)]
pub struct Environment(Vec<(String, String)>);

impl Environment {
    /// These variables.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |text: OsString| text.to_string_lossy().into_owned();
        Self(variables.into_iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    /// This process's own.
    pub fn own() -> Self {
        Self::new(std::env::vars_os())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the variables that a command line is given besides its own if it only reads.
    pub fn of_reading(&self) -> Vec<(String, String)> {
        let known = self.get("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok());
        let fixed = TABLES.reading.iter().map(|row| (row.name.clone(), row.value.clone()));
        fixed.chain(git_config::overrides(known.unwrap_or(0))).collect()
    }

    /// Returns the risk of what a command, and the programs that it is wrapped in, may run because
    /// of the environment.
    pub(super) fn risk(
        &self,
        command: &Command,
        wrappers: &[Vec<Word>],
        place: &Place<'_>,
    ) -> Risk {
        let names = command.name().into_iter();
        let names = names.chain(wrappers.iter().filter_map(|words| words.first()?.literal()));
        let mut why = names.filter_map(|name| self.why(name, place));
        why.next().map_or(Risk::None, Risk::Runs)
    }

    /// Why a program may be, or may run, something of the workspace.
    fn why(&self, name: &str, place: &Place<'_>) -> Option<String> {
        // A path says itself which program it is.
        if name.contains('/') {
            return None;
        }
        let others = TABLES.runs.iter().filter(|row| row.program == name);
        let names = others.flat_map(|row| row.others.iter().map(String::as_str));
        for name in [name].into_iter().chain(names) {
            if let Some(why) = self.found_here(name, place) {
                return Some(why);
            }
        }
        let all = ["bash", "sh"].into_iter().chain([name]);
        all.filter(|name| self.is_function(name))
            .map(|name| format!("`{name}` is a function of the agent's environment"))
            .next()
            .or_else(|| self.obeyed(name, place))
    }

    fn is_function(&self, name: &str) -> bool {
        let exported = [format!("BASH_FUNC_{name}%%"), format!("BASH_FUNC_{name}()")];
        self.0.iter().any(|(known, _)| exported.contains(known))
    }

    /// Why the program that a name stands for is one of the workspace, or may come to be.
    fn found_here(&self, name: &str, place: &Place<'_>) -> Option<String> {
        let here = |path: &Path| {
            Some(format!(
                "`{name}` is `{}`, a program of the workspace",
                brief(&path.display().to_string())
            ))
        };
        for entry in self.get("PATH").unwrap_or(DEFAULT_PATH).split(':') {
            if !entry.starts_with('/') {
                let found = place.here().iter().map(|dir| dir.join(entry).join(name));
                if let Some(path) = found.into_iter().find(|path| can_run(path)) {
                    return here(&path);
                }
                if place.here().is_empty() {
                    return Some(format!("which program `{name}` is depends on where it is run"));
                }
                continue;
            }
            let path = Path::new(entry).join(name);
            if can_run(&path) {
                return if self.is_project(&path, place) { here(&path) } else { None };
            }
        }
        None
    }

    /// Why a program obeys a variable that names something of the workspace.
    fn obeyed(&self, name: &str, place: &Place<'_>) -> Option<String> {
        for row in &TABLES.variable {
            if !row.programs.iter().any(|program| program == "*" || program == name) {
                continue;
            }
            let named = |known: &str| {
                row.names.iter().any(|pattern| match pattern.strip_suffix('*') {
                    Some(start) => known.starts_with(start),
                    None => known == pattern,
                })
            };
            for (variable, value) in self.0.iter().filter(|(known, _)| named(known)) {
                let leads = match row.value {
                    Kind::Any => true,
                    Kind::Paths => value.split([':', ' ']).any(|path| self.leads_here(path, place)),
                    Kind::Command => self.runs_from_here(value, place),
                };
                if leads && !value.is_empty() {
                    let value = brief(value);
                    return Some(format!("`{name}` obeys `{variable}={value}`: {}", row.reason));
                }
            }
        }
        None
    }

    /// Returns whether a command line names a path or a program of the workspace.
    fn runs_from_here(&self, line: &str, place: &Place<'_>) -> bool {
        let ends_word = |c: char| c.is_whitespace() || "'\"=,:;".contains(c);
        line.split(ends_word).filter(|word| !word.is_empty()).any(|word| {
            if word.contains('/') {
                self.leads_here(word, place)
            } else {
                self.found_here(word, place).is_some()
            }
        })
    }

    /// Returns whether a path depends on where it is used, or is one of the workspace.
    fn leads_here(&self, path: &str, place: &Place<'_>) -> bool {
        let is_number = path.chars().all(|c| c.is_ascii_digit());
        if path.is_empty() || is_number || path == "/dev/null" {
            return false;
        }
        // A variable for tracing may be `true`, and the home directory is nobody's project.
        if matches!(path, "true" | "false") || path.starts_with('~') {
            return false;
        }
        !path.starts_with('/') || self.is_project(Path::new(path), place)
    }

    /// Returns whether a path is below one of the workspace's directories, links followed. The
    /// whole machine and the user's home directory are no project, even if the agent works there.
    fn is_project(&self, path: &Path, place: &Place<'_>) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let home = self.get("HOME").map(|home| real(Path::new(home)));
        let is_project = |root: &&PathBuf| root.as_os_str() != "/" && home.as_ref() != Some(*root);
        let within = [path.to_owned(), real(path)];
        place
            .roots()
            .iter()
            .filter(is_project)
            .any(|root| within.iter().any(|path| path.starts_with(root)))
    }
}

fn can_run(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read() {
        let tables: Tables = toml::from_str(TABLE).unwrap();
        assert!(
            tables.variable.len() > 10 && !tables.runs.is_empty() && !tables.reading.is_empty()
        );
    }
}
