//! Environment variables that programs obey, and the programs that a program runs by their names.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{git_config, table};

static PROGRAM_ENVIRONMENT: LazyLock<ProgramEnvironment> =
    LazyLock::new(|| table(include_str!("environment.toml")));

/// The tables of `environment.toml`: variables that programs obey, programs that run others by their names, and
/// variables for command lines that only read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramEnvironment {
    variable: Vec<Variable>,
    runs: Vec<Runs>,
    reading: Vec<ReadingVariable>,
}

/// Variables that programs obey.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    names: Vec<String>,
    programs: Vec<String>,
    /// Kind of the variable's value.
    pub value: Value,
    /// Use that the programs make of the variable, for people.
    pub reason: String,
}

/// Kind of value that a variable has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Paths, separated by colons or semicolons; a blank is part of a path.
    Paths,
    /// Paths, separated by colons or blanks.
    Preloads,
    /// Command line.
    Command,
    /// Any value, since each leads the program to other files or programs.
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

/// A variable that is given to a command line which only reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadingVariable {
    name: String,
    value: String,
    #[serde(rename = "reason")]
    _reason: String,
}

impl Variable {
    /// Returns whether the row is about the variable of this name.
    pub fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        })
    }
}

/// Returns the rows of the variables that a program obeys.
pub fn obeyed_by(program: &str) -> impl Iterator<Item = &'static Variable> {
    let obeys = move |row: &&Variable| row.programs.iter().any(|it| it == "*" || it == program);
    PROGRAM_ENVIRONMENT.variable.iter().filter(obeys)
}

/// Returns the names of other programs that a program runs, to be found in `PATH`.
pub fn run_by(program: &str) -> impl Iterator<Item = &'static str> {
    let rows = PROGRAM_ENVIRONMENT.runs.iter().filter(move |row| row.program == program);
    rows.flat_map(|row| row.others.iter().map(String::as_str))
}

/// Returns the variables that a command line which only reads is given in addition to its environment. With them, no
/// program starts another. `git_settings`: number of settings that the environment gives git already.
pub fn for_reading(git_settings: usize) -> Vec<(String, String)> {
    let fixed = PROGRAM_ENVIRONMENT.reading.iter().map(|row| (row.name.clone(), row.value.clone()));
    fixed.chain(git_config::overrides(git_settings)).collect()
}
