//! Bash command lines: every simple command that a line would run, found without running the line, and what is known of
//! each program. The tables of programs (`src/shell/*.toml`) are data. This crate reads no file and knows no session:
//! the policy (`src/policy`) decides.
//!
//! A command that is overlooked runs without a question. So each line is read twice: `parser` follows bash character by
//! character and refuses syntax that it does not know, and `agree` checks that tree-sitter's grammar, written by
//! others, finds no command that the first reading did not.

mod agree;
pub mod environment;
pub mod every_time;
mod expansion;
pub mod git;
pub mod git_config;
mod line;
pub mod loops;
pub mod options;
mod parser;
pub mod prefix;
mod programs;
pub mod reading;
pub mod sed;
mod table;
mod unwrap;
pub mod variables;
mod word;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use self::expansion::expansions;
use self::line::ReadContext;
pub use self::line::{Assignment, Redirect, RedirectKind, SimpleCommand, Step, brief};
use self::parser::Parser;
use self::table::table;
pub use self::unwrap::is_shell;
pub use self::word::{Dynamic, Word};

/// Maximum length of a line that is read, in bytes.
const MAX_LINE: usize = 64 * 1024;

/// Language of the shell that reads a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellDialect {
    /// Language of bash.
    Bash,
    /// Language of a shell that may know less than bash, such as `sh`. Syntax that such a shell may read in another way
    /// than bash cannot be analysed.
    Plain,
}

/// Returns the steps of a line; an error says why the line cannot be analysed.
pub fn parse(line: &str, dialect: ShellDialect) -> Result<Vec<Step>, String> {
    let unclear = |why: &str| Err(format!("the command line cannot be analysed: {why}"));
    if line.len() > MAX_LINE {
        return unclear(&format!("it is longer than {} KiB", MAX_LINE / 1024));
    }
    if line.contains(unprintable) {
        return unclear("it has characters that cannot be seen");
    }
    let around =
        ReadContext { plain_shell: dialect == ShellDialect::Plain, ..ReadContext::default() };
    Parser::read(line, around).or_else(|why| unclear(&why))
}

/// Returns the files whose change takes effect without a person running them, or in a tool that a
/// person trusts: names or patterns, each with the reason.
pub fn sensitive_files() -> BTreeMap<String, String> {
    let SensitiveFiles { mut protected, written_by_tools } = SensitiveFiles::read();
    protected.extend(written_by_tools);
    protected
}

/// Returns the sensitive files that package managers and build tools write.
pub fn unprotected_files() -> BTreeMap<String, String> {
    SensitiveFiles::read().written_by_tools
}

/// Returns the sensitive files that no package manager or build tool has to write.
pub fn protected_files() -> BTreeMap<String, String> {
    SensitiveFiles::read().protected
}

/// The table of sensitive files.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SensitiveFiles {
    written_by_tools: BTreeMap<String, String>,
    #[serde(flatten)]
    protected: BTreeMap<String, String>,
}

impl SensitiveFiles {
    fn read() -> Self {
        table(include_str!("sensitive.toml"))
    }
}

/// Returns whether a character may make a line look different from the line that would run.
fn unprintable(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // These are zero-width characters, marks that change the direction of writing, and fillers.
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> SimpleCommand {
        let words = line.split(' ').map(|text| Word::from(text.to_owned())).collect();
        SimpleCommand { words, ..SimpleCommand::default() }
    }

    #[test]
    fn every_table_is_well_formed() {
        assert!(is_shell("bash"));
        assert_eq!(prefix::always_prefix(&command("cargo test --all")), "cargo test");
        assert!(every_time::concern(&command("sudo ls")).is_some());
        assert!(every_time::concern(&command("git push -f")).is_some());
        assert!(reading::looks_at_names("stat"));
        assert!(variables::decides_what_runs("PATH") && variables::changes_looks("LC_ALL"));
        assert!(environment::run_by("npm").any(|program| program == "node"));
        assert!(git_config::overrides(0).len() > 2);
    }
}
