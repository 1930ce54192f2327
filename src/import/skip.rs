//! Files that are not imported, each with the reason.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tandem_agent::session::StoreError;

/// A file or a directory that is not imported.
#[derive(Debug)]
pub struct SkippedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The reason.
    pub why: SkipReason,
}

/// Reason why a file is not imported.
#[derive(Debug)]
pub enum SkipReason {
    /// The file is larger than this number of bytes.
    TooLarge(u64),
    /// The file has no session of Gemini CLI.
    Foreign,
    /// Gemini CLI is writing the file.
    BeingWritten,
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The session cannot be stored.
    NotStored(StoreError),
    /// The conversion of the session has panicked.
    Panicked,
    /// The program is ending.
    Ending,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(most) => write!(f, "it is larger than {} MiB", most >> 20),
            Self::Foreign => f.write_str("it is not a session of Gemini CLI"),
            Self::BeingWritten => {
                f.write_str("Gemini CLI is writing it; import it again when that is done")
            }
            Self::Unreadable(err) => err.fmt(f),
            Self::NotStored(err) => err.fmt(f),
            Self::Panicked => {
                f.write_str("its conversion has failed. This is a bug in tandem: please report it")
            }
            Self::Ending => f.write_str("the program is ending"),
        }
    }
}
