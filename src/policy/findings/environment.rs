//! Environment of commands: the programs that names lead to, and the variables that programs obey.

use std::fs;
use std::path::{Path, PathBuf};

use super::cwd::{Cwd, can_run};
use super::fact::{Fact, Finding};
use tandem_approval::{BuiltInRule, Environment};
use tandem_shell::environment::{self, Value};
use tandem_shell::{SimpleCommand, Word, brief};

/// Search path for programs if `PATH` is not set: bash's own default.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin:.";

/// Program of the workspace that a name leads to.
enum FoundHere {
    Program(PathBuf),
    /// The program depends on the working directory, which is not known.
    Unsure,
}

impl FoundHere {
    /// Returns the reason to ask about a program of this name, for people.
    fn why(&self, name: &str) -> String {
        match self {
            Self::Program(path) => {
                let path = brief(&path.display().to_string());
                format!("`{name}` is `{path}`, a program of the workspace")
            }
            Self::Unsure => {
                format!("the program that `{name}` stands for depends on where it is run")
            }
        }
    }
}

/// Returns the variables that a command line which only reads is given in addition to its environment. With them, its
/// commands start no other programs.
pub fn variables_of_reading(environment: &Environment) -> Vec<(String, String)> {
    let known = environment.get("GIT_CONFIG_COUNT").and_then(|count| count.parse().ok());
    environment::for_reading(known.unwrap_or(0))
}

/// Look-ups in the environment that a command runs in.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a>(pub(super) &'a Environment);

impl Lookup<'_> {
    /// Returns the findings that a command, or a wrapper of the command, runs a program or code of the workspace
    /// because of the environment.
    pub(super) fn findings(
        self,
        command: &SimpleCommand,
        wrappers: &[Vec<Word>],
        cwd: &Cwd<'_>,
    ) -> Vec<Finding> {
        let names = command.name().into_iter();
        let names = names.chain(wrappers.iter().filter_map(|words| words.first()?.literal()));
        let found = names.filter_map(|name| self.finding(name, cwd));
        found.map(|(fact, why)| Finding::new(fact, BuiltInRule::Environment, why)).collect()
    }

    /// Returns the fact that the program of a name is one of the workspace, or runs code of the workspace, and the
    /// reason.
    fn finding(self, name: &str, cwd: &Cwd<'_>) -> Option<(Fact, String)> {
        // A path names its program without the help of the environment.
        if name.contains('/') {
            return None;
        }
        let others = environment::run_by(name).map(|other| -> &str { other });
        for name in [name].into_iter().chain(others) {
            if let Some(here) = self.found_here(name, cwd) {
                // An "always" may have been given for another program of this name.
                return Some((Fact::ChangesPrograms, here.why(name)));
            }
        }
        let mut all = ["bash", "sh"].into_iter().chain([name]);
        let function = all
            .find(|name| self.is_function(name))
            .map(|name| format!("`{name}` is a function of the agent's environment"));
        let why = function.or_else(|| self.obeyed(name, cwd))?;
        Some((Fact::RunsUnknown, why))
    }

    /// Returns the program of the workspace to which a name surely leads.
    pub(super) fn own_program(self, name: &str, cwd: &Cwd<'_>) -> Option<PathBuf> {
        match self.found_here(name, cwd).filter(|_| !name.contains('/'))? {
            FoundHere::Program(path) => Some(path),
            FoundHere::Unsure => None,
        }
    }

    fn is_function(self, name: &str) -> bool {
        let exported = [format!("BASH_FUNC_{name}%%"), format!("BASH_FUNC_{name}()")];
        self.0.variables().iter().any(|(known, _)| exported.contains(known))
    }

    /// Searches `PATH`, and returns the program of the workspace to which a name leads, or may lead.
    fn found_here(self, name: &str, cwd: &Cwd<'_>) -> Option<FoundHere> {
        let here = |path: &Path| Some(FoundHere::Program(path.to_owned()));
        for entry in self.0.get("PATH").unwrap_or(DEFAULT_PATH).split(':') {
            if !entry.starts_with('/') {
                let found = cwd.here().iter().map(|dir| dir.join(entry).join(name));
                if let Some(path) = found.into_iter().find(|path| can_run(path)) {
                    return here(&path);
                }
                if cwd.here().is_empty() {
                    return Some(FoundHere::Unsure);
                }
                continue;
            }
            let path = Path::new(entry).join(name);
            if can_run(&path) {
                return if self.is_project(&path, cwd) { here(&path) } else { None };
            }
        }
        None
    }

    /// Returns the reason to ask about a program that obeys a variable which leads it into the workspace.
    fn obeyed(self, name: &str, cwd: &Cwd<'_>) -> Option<String> {
        for row in environment::obeyed_by(name) {
            let variables = self.0.variables().iter();
            for (variable, value) in variables.filter(|(known, _)| row.is_named(known)) {
                let leads = match row.value {
                    Value::Any => true,
                    Value::Paths => value.split([':', ';']).any(|path| self.leads_here(path, cwd)),
                    Value::Preloads => {
                        value.split([':', ' ']).any(|path| self.leads_here(path, cwd))
                    }
                    Value::Command => self.runs_from_here(value, cwd),
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
    fn runs_from_here(self, line: &str, cwd: &Cwd<'_>) -> bool {
        let ends_word = |c: char| c.is_whitespace() || "'\"=,:;".contains(c);
        line.split(ends_word).filter(|word| !word.is_empty()).any(|word| {
            if word.contains('/') {
                self.leads_here(word, cwd)
            } else {
                self.found_here(word, cwd).is_some()
            }
        })
    }

    /// Returns whether a path is relative, or leads into the workspace.
    fn leads_here(self, path: &str, cwd: &Cwd<'_>) -> bool {
        let is_number = path.chars().all(|c| c.is_ascii_digit());
        if path.is_empty() || is_number || path == "/dev/null" {
            return false;
        }
        // A variable for tracing may be `true`, which is no path. The home directory is no part of a project.
        if matches!(path, "true" | "false") || path.starts_with('~') {
            return false;
        }
        !path.starts_with('/') || self.is_project(Path::new(path), cwd)
    }

    /// Returns whether a path is below one of the workspace's directories, links followed. The
    /// whole machine and the user's home directory are no project, even if the agent works there.
    fn is_project(self, path: &Path, cwd: &Cwd<'_>) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let home = self.0.get("HOME").map(|home| real(Path::new(home)));
        let is_project = |root: &&PathBuf| root.as_os_str() != "/" && home.as_ref() != Some(*root);
        let within = [path.to_owned(), real(path)];
        cwd.roots()
            .iter()
            .filter(is_project)
            .any(|root| within.iter().any(|path| path.starts_with(root)))
    }
}
