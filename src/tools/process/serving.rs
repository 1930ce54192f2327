//! Programs that are talked to for as long as they live: over standard input and output.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::DropGuard;

use super::{Exit, MARK, Processes};

/// How long such a program has to end by itself: it may have work to put down.
const GRACE: Duration = Duration::from_secs(1);

/// What is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// A path, or a name that is looked for in `PATH`.
    pub command: String,
    /// What follows it.
    pub args: Vec<String>,
    /// What is put into its environment, which otherwise is this process's without the secrets.
    pub env: Vec<(String, String)>,
    /// Where it works; absolute.
    pub directory: PathBuf,
}

/// A program that runs. It is ended, with all that it started, when this is dropped.
pub struct Serving {
    /// What it reads.
    pub input: ChildStdin,
    /// What it says.
    pub output: ChildStdout,
    /// What else it says.
    pub errors: ChildStderr,
    /// Tells when it has ended, and ends it.
    pub life: Life,
}

/// Tells when a program has ended, and ends it when dropped.
pub struct Life {
    /// Tells when it has ended.
    pub exit: Exit,
    _end_on_drop: DropGuard,
}

impl Processes {
    /// Starts a program to talk to.
    pub fn serve(&self, program: &Program) -> io::Result<Serving> {
        let mark = self.running.next_mark()?;
        let mut command = Command::new(&program.command);
        command.args(&program.args).current_dir(&program.directory).process_group(0);
        self.set_environment(&mut command);
        // What the user puts in is meant for it, secret or not.
        command.envs(program.env.iter().map(|(name, value)| (name, value)));
        command.env("GEMINI_CLI", "1").env(MARK, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (_, exit, end) = self.running.follow(child, mark, GRACE)?;
        let life = Life { exit, _end_on_drop: end.drop_guard() };
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("the program has no pipes"));
        };
        Ok(Serving { input, output, errors, life })
    }
}
