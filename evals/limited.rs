//! Programs that run for a limited time.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Time in which a program that is told to end must have written its report and ended.
const END_GRACE: Duration = Duration::from_secs(15);

/// End of a program.
pub(crate) struct LimitedRun {
    /// Exit code; `None` if a signal has ended the program.
    pub(crate) code: Option<i32>,
    /// `true` if the program was told to end because its time was over.
    pub(crate) timed_out: bool,
}

/// Runs a command to its end. After `limit` the program is asked to end, and then killed.
pub(crate) fn run(command: &mut Command, limit: Duration) -> io::Result<LimitedRun> {
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait()));
    let status = match ended.recv_timeout(limit) {
        Ok(status) => return Ok(LimitedRun { code: status?.code(), timed_out: false }),
        Err(_) => end(pid, &ended)?,
    };
    Ok(LimitedRun { code: status.code(), timed_out: true })
}

/// Ends a program that runs, and returns its exit status.
fn end(pid: Pid, ended: &Receiver<io::Result<ExitStatus>>) -> io::Result<ExitStatus> {
    // Errors are ignored: the program may have ended meanwhile, and may have no process group of its own.
    let _ = kill_process(pid, Signal::TERM);
    if let Ok(status) = ended.recv_timeout(END_GRACE) {
        return status;
    }
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = kill_process(pid, Signal::KILL);
    ended.recv().map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(script: &str, limit: Duration) -> (Option<i32>, bool) {
        let run = run(Command::new("sh").args(["-c", script]), limit).unwrap();
        (run.code, run.timed_out)
    }

    #[test]
    fn a_program_that_ends_in_time_has_its_exit_code() {
        assert_eq!(ran("exit 7", Duration::from_mins(1)), (Some(7), false));
    }

    #[test]
    fn a_program_whose_time_is_over_can_still_report() {
        let waits = "trap 'exit 5' TERM; while :; do :; done";
        assert_eq!(ran(waits, Duration::from_millis(200)), (Some(5), true));
    }
}
