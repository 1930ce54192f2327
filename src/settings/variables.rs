//! Variables of the environment, overlaid on those of the one `.env` that counts.

use std::fmt;
use std::path::Path;

use super::dotenv::DotEnv;
use super::env::Env;

/// Variables of both: a `.env` never overrides the environment.
#[derive(Clone, Copy)]
pub(super) struct Vars<'a> {
    pub env: &'a Env,
    pub dotenv: &'a DotEnv,
}

/// A variable with a value in it, and where that was set.
#[derive(Clone, Copy)]
pub(super) struct Var<'a> {
    pub name: &'a str,
    pub value: &'a str,
    file: Option<&'a Path>,
}

impl<'a> Vars<'a> {
    /// A variable of the process, or else of the `.env`. What the process has empty is not set.
    pub(super) fn get(self, name: &'a str) -> Option<Var<'a>> {
        if self.env.vars().contains_key(name) { self.real(name) } else { self.dotenv(name) }
    }

    /// The first of these that the process has; or else the first that the `.env` has and the
    /// process has not, not even empty.
    pub(super) fn first(self, names: &[&'a str]) -> Option<Var<'a>> {
        let real = names.iter().find_map(|name| self.real(name));
        real.or_else(|| names.iter().find_map(|name| self.get(name)))
    }

    fn real(self, name: &'a str) -> Option<Var<'a>> {
        Var { name, value: self.env.vars().get(name)?, file: None }.filled()
    }

    fn dotenv(self, name: &'a str) -> Option<Var<'a>> {
        let file = self.dotenv.file.as_deref();
        Var { name, value: self.dotenv.values.get(name)?, file }.filled()
    }
}

impl Var<'_> {
    fn filled(self) -> Option<Self> {
        let value = self.value.trim();
        (!value.is_empty()).then_some(Self { value, ..self })
    }
}

impl fmt::Display for Var<'_> {
    /// Writes the variable's name and its file, never its value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file {
            Some(file) => write!(f, "{} in {}", self.name, file.display()),
            None => write!(f, "{} in the environment", self.name),
        }
    }
}
