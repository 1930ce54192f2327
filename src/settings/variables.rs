//! Lookup of variables in the environment, then in the one `.env` file that counts, then in the login shell.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use super::dotenv::DotEnv;
use super::env::Env;

/// Variables of all three sources. Neither a `.env` file nor the login shell overrides the environment.
#[derive(Clone, Copy)]
pub(super) struct Vars<'a> {
    pub env: &'a Env,
    pub dotenv: &'a DotEnv,
    /// Variables of the login shell; `None` if they do not count.
    pub login: Option<&'a HashMap<String, String>>,
}

/// A variable with its value, which is not empty, and the source of the value.
#[derive(Clone, Copy)]
pub(super) struct Var<'a> {
    pub name: &'a str,
    pub value: &'a str,
    source: Source<'a>,
}

/// Source of a variable's value.
#[derive(Clone, Copy)]
enum Source<'a> {
    Environment,
    File(&'a Path),
    LoginShell,
}

impl<'a> Vars<'a> {
    /// Returns a variable of the process, or else of the `.env`, or else of the login shell. A variable that is empty
    /// in the process counts as not set anywhere.
    pub(super) fn get(self, name: &'a str) -> Option<Var<'a>> {
        if self.env.vars().contains_key(name) {
            self.real(name)
        } else {
            self.dotenv(name).or_else(|| self.login(name))
        }
    }

    /// Returns the first of the named variables that the process has. If it has none, returns the first that the `.env`
    /// or the login shell has, except variables that are empty in the process.
    pub(super) fn first(self, names: &[&'a str]) -> Option<Var<'a>> {
        let real = names.iter().find_map(|name| self.real(name));
        real.or_else(|| names.iter().find_map(|name| self.get(name)))
    }

    /// Returns a variable of the process, or else of the `.env` if it is trusted, or else of the login shell. Other
    /// than with [`Self::get`], the name may be a name that the agent does not know.
    pub(super) fn any(self, name: &'a str) -> Option<Var<'a>> {
        if self.env.vars().contains_key(name) {
            return self.real(name);
        }
        let trusted = || {
            let source = Source::File(self.dotenv.file.as_deref()?);
            Var { name, value: self.dotenv.trusted(name)?, source }.filled()
        };
        self.dotenv(name).or_else(trusted).or_else(|| self.login(name))
    }

    fn real(self, name: &'a str) -> Option<Var<'a>> {
        Var { name, value: self.env.vars().get(name)?, source: Source::Environment }.filled()
    }

    fn dotenv(self, name: &'a str) -> Option<Var<'a>> {
        let source = Source::File(self.dotenv.file.as_deref()?);
        Var { name, value: self.dotenv.values.get(name)?, source }.filled()
    }

    fn login(self, name: &'a str) -> Option<Var<'a>> {
        Var { name, value: self.login?.get(name)?, source: Source::LoginShell }.filled()
    }
}

impl Var<'_> {
    /// Returns the file that has set the variable, if a file has.
    pub(super) fn file(&self) -> Option<&Path> {
        match self.source {
            Source::File(file) => Some(file),
            Source::Environment | Source::LoginShell => None,
        }
    }

    fn filled(self) -> Option<Self> {
        let value = self.value.trim();
        (!value.is_empty()).then_some(Self { value, ..self })
    }
}

impl fmt::Display for Var<'_> {
    /// Writes the variable's name and where it was set, never its value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::File(file) => write!(f, "{} in {}", self.name, file.display()),
            Source::Environment => write!(f, "{} in the environment", self.name),
            Source::LoginShell => write!(f, "{} in your login shell", self.name),
        }
    }
}
