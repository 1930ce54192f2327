//! Steps of a command line: what would run, in which order, and what is around it.

use super::word::Word;

/// A line with more commands (and starts and ends of shells) than this is not judged: for each of
/// them files are looked up, and the call waits for that.
pub(super) const MAX_STEPS: usize = 1_000;
/// Depth to which substitutions, groups, loops and `bash -c` may nest: each level is a call of a
/// function, and no line may exhaust the stack.
pub(super) const MAX_DEPTH: usize = 64;

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

/// Result of reading; an error says why the text cannot be made out.
pub(super) type Read<T> = Result<T, String>;

/// Circumstances of a text that is read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around {
    /// Depth of nesting in other texts.
    pub(super) depth: usize,
    /// See [`SimpleCommand::conditional`].
    pub(super) conditional: bool,
    /// See [`SimpleCommand::repeated`].
    pub(super) repeated: bool,
    /// `true` if a shell reads it that knows less than bash.
    pub(super) plain_shell: bool,
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
