//! End of a command in the foreground, in a terminal of the agent or of a client.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// End of a command in the foreground.
pub enum CommandEnd {
    /// The command has ended by itself.
    Exited(CommandExit),
    /// The command has written nothing for too long.
    Silent,
    /// The command is still running at the end of its time.
    OutOfTime,
    /// The turn was cancelled.
    Cancelled,
}

/// Exit code of a command, or the signal that ended it. Neither is set if it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandExit {
    /// Exit code.
    pub code: Option<i64>,
    /// Number or name of the signal.
    pub signal: Option<String>,
}

impl From<Option<ExitStatus>> for CommandExit {
    fn from(status: Option<ExitStatus>) -> Self {
        let code = status.and_then(|status| status.code()).map(i64::from);
        let signal = status.and_then(|status| status.signal()).map(|number| number.to_string());
        Self { code, signal }
    }
}
