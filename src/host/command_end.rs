//! The end of a command that was waited for, wherever it ran.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// End of a command that was waited for.
pub enum CommandEnd {
    /// It has ended by itself.
    Exited(CommandExit),
    /// It has written nothing for too long.
    Silent,
    /// It runs on when its time is over.
    OutOfTime,
    /// The turn was cancelled.
    Cancelled,
}

/// Exit code of a command, or the signal that ended it. Neither is there if nobody knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandExit {
    /// Exit code.
    pub code: Option<i64>,
    /// Number or name of a signal.
    pub signal: Option<String>,
}

impl From<Option<ExitStatus>> for CommandExit {
    fn from(status: Option<ExitStatus>) -> Self {
        let code = status.and_then(|status| status.code()).map(i64::from);
        let signal = status.and_then(|status| status.signal()).map(|number| number.to_string());
        Self { code, signal }
    }
}
