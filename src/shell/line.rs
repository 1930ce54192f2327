//! Steps of a command line: the commands that would run, their order, and the shells and loops around them.

use super::word::Word;

/// Maximum number of steps of a line. A line with more is not assessed: files are looked up for each step, and the call
/// waits for this.
pub(super) const MAX_STEPS: usize = 1_000;
/// Maximum depth of nested substitutions, groups, loops and `bash -c`. Each level is a call of a function, and no line
/// may exhaust the stack.
pub(super) const MAX_DEPTH: usize = 64;

/// A step of a line; the steps are in the order in which they run.
#[derive(Debug, Clone)]
pub enum Step {
    /// A command runs.
    Command(SimpleCommand),
    /// A program that runs the commands of the next steps, which are assessed in its place: `nice -n 5`, `bash -c`.
    Wrapper(Vec<Word>),
    /// A function of this name is defined. The commands of its body follow.
    Function(String),
    /// A variable is one of these words from here on, or, if there are none, a line of the input.
    Bind(String, Option<Vec<Word>>),
    /// The variable of this name may have any value from here on.
    Unbind(String),
    /// A subshell begins. Its changes of directory end with it.
    Enter,
    /// The subshell ends.
    Leave,
}

/// A simple command without its wrappers: `cargo test` for `env A=1 nice cargo test`.
#[derive(Debug, Clone, Default)]
pub struct SimpleCommand {
    /// Variables that are set for the command, or, if there are no words, in the shell itself.
    pub assignments: Vec<Assignment>,
    /// Name and arguments; empty if there are only assignments and redirections.
    pub words: Vec<Word>,
    /// Redirections of the command.
    pub redirects: Vec<Redirect>,
    /// `true` if other commands decide whether the command runs.
    pub conditional: bool,
    /// `true` if the command may run more than once, or later.
    pub repeated: bool,
}

/// An assignment: `name=value`.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Name of the variable.
    pub name: String,
    /// Text of the assignment, as written.
    pub source: String,
}

/// A redirection: a file or a text in place of standard input or output.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// Kind of access.
    pub kind: RedirectKind,
    /// File, or text.
    pub target: Word,
}

/// Kind of access of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectKind {
    /// The file is read.
    Read,
    /// The file is written, or opened for writing.
    Write,
    /// The target is itself the text that is read.
    Text,
}

impl SimpleCommand {
    /// Returns the name of the program, if it is known without running the line.
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

/// Result of reading a text; an error says why the text cannot be analysed.
pub(super) type Read<T> = Result<T, String>;

/// Circumstances of a text while it is read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadContext {
    /// Depth of the text within other texts.
    pub(super) depth: usize,
    /// See [`SimpleCommand::conditional`].
    pub(super) conditional: bool,
    /// See [`SimpleCommand::repeated`].
    pub(super) repeated: bool,
    /// `true` if a shell that knows less than bash (`sh`, `dash`) reads the text.
    pub(super) plain_shell: bool,
}

/// Returns a text on one line, shortened.
pub fn brief(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 60;
    // The first `MAX_SHOWN_CHARS` words fill the line in any case, so the function need not read the rest of a long
    // text.
    let line = text.split_whitespace().take(MAX_SHOWN_CHARS).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
