//! Bash command lines: every simple command that a line would run, found without running anything,
//! and what is known of each program. The tables of programs (`src/shell/*.toml`) are data. Nothing here
//! reads a file, or knows a session: the policy (`src/agent/permission`) decides.
//!
//! A command that is overlooked runs without a question. So the line is read twice: `parser`
//! follows bash character by character and refuses what it does not know, and `agree` has
//! tree-sitter's grammar, written by others, find no command that the first reading did not.

mod agree;
pub mod environment;
pub mod every_time;
pub mod git;
pub mod git_config;
pub mod loops;
pub mod options;
mod parser;
pub mod prefix;
mod programs;
pub mod reading;
pub mod sed;
mod unwrap;
pub mod variables;
mod word;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::parser::Parser;
pub use self::unwrap::is_shell;
pub use self::word::{Dynamic, Word};

/// A longer line is not read, in bytes.
const MAX_LINE: usize = 64 * 1024;
/// A line with more commands (and starts and ends of shells) than this is not judged: for each of
/// them files are looked up, and the call waits for that.
const MAX_STEPS: usize = 1_000;
/// Depth to which substitutions, groups, loops and `bash -c` may nest: each level is a call of a
/// function, and no line may exhaust the stack.
const MAX_DEPTH: usize = 64;

/// A step of a line, in the order of running.
#[derive(Debug, Clone)]
pub enum Step {
    /// A command runs.
    Command(SimpleCommand),
    /// This runs the commands that come next, which are judged in its place: `nice -n 5`, `bash -c`.
    Wrapper(Vec<Word>),
    /// A function of this name is defined. The commands of its body follow.
    Function(String),
    /// From here on a variable is one of these words; or, without words, a line of the input.
    Bind(String, Option<Vec<Word>>),
    /// From here on it may be anything.
    Unbind(String),
    /// A shell of its own begins; where it goes ends with it.
    Enter,
    /// The shell ends.
    Leave,
}

/// A simple command, freed of what wraps it: of `env A=1 nice cargo test`, `cargo test`.
#[derive(Debug, Clone, Default)]
pub struct SimpleCommand {
    /// Variables that are set for it; without words, in the shell itself.
    pub assignments: Vec<Assignment>,
    /// Name and arguments. None if there are only assignments and redirections.
    pub words: Vec<Word>,
    /// The files it is joined to.
    pub redirects: Vec<Redirect>,
    /// `true` if other commands decide whether it runs.
    pub conditional: bool,
    /// `true` if it may run more than once, or later.
    pub repeated: bool,
}

/// `name=value`.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// As written.
    pub source: String,
}

/// A file, or a text, in the place of standard input or output.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// Kind of access.
    pub kind: RedirectKind,
    /// The file, or the text.
    pub target: Word,
}

/// Kind of access of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectKind {
    /// The file is read.
    Read,
    /// The file is written, or opened so that it can be.
    Write,
    /// The target is itself the text that is read.
    Text,
}

impl SimpleCommand {
    /// Returns the name, if it is known without running anything.
    pub fn name(&self) -> Option<&str> {
        self.words.first()?.literal()
    }

    /// Returns the command as written, shortened.
    pub fn brief(&self) -> String {
        let words = self.words.iter().take(20).map(|word| word.source.as_str());
        brief(&words.collect::<Vec<_>>().join(" "))
    }

    /// Returns the words after the name.
    pub fn args(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// Returns the steps of a line; an error says why the line cannot be analysed.
pub fn parse(line: &str) -> Result<Vec<Step>, String> {
    let unclear = |why: &str| Err(format!("the command line cannot be analysed: {why}"));
    if line.len() > MAX_LINE {
        return unclear(&format!("it is longer than {} KiB", MAX_LINE / 1024));
    }
    if line.contains(unprintable) {
        return unclear("it has characters that cannot be seen");
    }
    Parser::read(line, Around::default()).or_else(|why| unclear(&why))
}

/// Returns the files whose change takes effect without a person running them, or in a tool that a
/// person trusts: names or patterns, each with the reason.
pub fn sensitive_files() -> BTreeMap<String, String> {
    let SensitiveFiles { mut protected, written_by_tools } = SensitiveFiles::read();
    protected.extend(written_by_tools);
    protected
}

/// Returns those of the sensitive files that no package manager or build tool has to write.
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

/// Parses one of the tables beside this file. A test parses each of them: none is malformed. If one
/// were, no command may be judged without it, and who judges must not let a command run on a panic.
fn table<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("a malformed table: {error}"))
}

/// Result of reading; an error says why the text cannot be made out.
type Read<T> = Result<T, String>;

/// Circumstances of a text that is read.
#[derive(Debug, Clone, Copy, Default)]
struct Around {
    /// Depth of nesting in other texts.
    depth: usize,
    /// See [`SimpleCommand::conditional`].
    conditional: bool,
    /// See [`SimpleCommand::repeated`].
    repeated: bool,
    /// `true` if a shell reads it that knows less than bash.
    plain_shell: bool,
}

/// Characters that show a line as something else than what would run.
fn unprintable(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Zero-width characters, the marks that turn the direction of writing, and fillers.
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

/// Returns a text on one line, shortened.
pub fn brief(text: &str) -> String {
    const MAX: usize = 60;
    // Long before the end there are enough words.
    let line = text.split_whitespace().take(MAX).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
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
        assert_eq!(prefix::of(&command("cargo test --all")), "cargo test");
        assert!(every_time::concern(&command("sudo ls")).is_some());
        assert!(every_time::concern(&command("git push -f")).is_some());
        assert!(reading::looks_at_names("stat"));
        assert!(variables::decides_what_runs("PATH") && variables::changes_looks("LC_ALL"));
        assert!(environment::run_by("npm").any(|program| program == "node"));
        assert!(git_config::overrides(0).len() > 2);
    }
}
