//! The part of a call that a rule is compared with.

use crate::findings::AssessedCommand;

/// Part of a call that a rule is compared with.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A call that is no command line.
    Call,
    /// A whole command line, as written.
    Line(&'a str),
    /// One command of a line.
    Command(&'a AssessedCommand),
    /// A command line that cannot be analysed.
    Unclear(&'a str),
}
