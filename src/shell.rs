//! What a command line would run: every simple command in it, found without running anything.
//!
//! A command that is overlooked runs without a question. So the line is read twice: `reader`
//! follows bash character by character and refuses what it does not know, and `agree` has
//! tree-sitter's grammar, written by others, find no command that the first reading did not.

mod agree;
mod commands;
mod expansion;
mod reader;
mod simple;
mod unwrap;
mod word;

use self::reader::Reader;
pub use self::unwrap::is_shell;
pub use self::word::{Dynamic, Word};

/// A longer line is not read, in bytes.
const MAX_LINE: usize = 64 * 1024;
/// A line with more commands (and starts and ends of shells) than this is not judged.
const MAX_STEPS: usize = 1_000;
/// How deep substitutions, groups, loops and `bash -c` may nest.
const MAX_DEPTH: usize = 64;

/// What happens in a line, in its order.
#[derive(Debug, Clone)]
pub enum Step {
    /// A command runs.
    Command(Command),
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
    /// It ends.
    Leave,
}

/// A simple command, freed of what wraps it: of `env A=1 nice cargo test`, `cargo test`.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// What is set for it; without words, in the shell itself.
    pub assignments: Vec<Assignment>,
    /// Its name and its arguments. None if there are only assignments and redirections.
    pub words: Vec<Word>,
    /// The files it is joined to.
    pub redirects: Vec<Redirect>,
    /// Whether it runs depends on what other commands say.
    pub conditional: bool,
    /// It may run more than once, or later.
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
    /// What for.
    pub direction: Direction,
    /// Which file, or what text.
    pub target: Word,
}

/// What a redirection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The file is read.
    Read,
    /// The file is written, or opened so that it can be.
    Write,
    /// The target is itself the text that is read.
    Text,
}

impl Command {
    /// Its name, if that is known without running anything.
    pub fn name(&self) -> Option<&str> {
        self.words.first()?.literal()
    }

    /// What follows its name.
    pub fn args(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// What a line would run; or why that cannot be said.
pub fn parse(line: &str) -> Result<Vec<Step>, String> {
    let unclear = |why: &str| Err(format!("the command line cannot be made out: {why}"));
    if line.len() > MAX_LINE {
        return unclear(&format!("it is longer than {} KiB", MAX_LINE / 1024));
    }
    if line.contains(unprintable) {
        return unclear("it has characters that cannot be seen");
    }
    Reader::read(line, Around::default()).or_else(|why| unclear(&why))
}

/// Where a text stands that is read.
#[derive(Debug, Clone, Copy, Default)]
struct Around {
    /// How deep it is nested in others.
    depth: usize,
    /// See [`Command::conditional`].
    conditional: bool,
    /// See [`Command::repeated`].
    repeated: bool,
    /// Whether a shell reads it that knows less than bash.
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

/// A text on one line, shortened.
pub fn brief(text: &str) -> String {
    const MAX: usize = 60;
    // Long before the end there are enough words.
    let line = text.split_whitespace().take(MAX).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
