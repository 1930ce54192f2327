//! Times at which commands of a session ran, to tell a command's change of a file from a person's.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Maximum number of times that are remembered.
const MAX_REMEMBERED_TIMES: usize = 256;

/// Maximum time by which a file system's clock may be behind.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// Times at which commands of a session ran, the latest last.
#[derive(Default)]
pub struct CommandTimes(Mutex<VecDeque<Arc<CommandTime>>>);

struct CommandTime {
    start: SystemTime,
    end: OnceLock<SystemTime>,
}

/// Record of a running command, which ends when this value is dropped.
pub struct CommandTimer(Arc<CommandTime>);

impl Drop for CommandTimer {
    fn drop(&mut self) {
        // This is the only place that sets the end, so it cannot be set already.
        let _ = self.0.end.set(SystemTime::now());
    }
}

impl CommandTimes {
    /// Records that a command starts.
    pub fn start(&self) -> CommandTimer {
        let time = Arc::new(CommandTime { start: SystemTime::now(), end: OnceLock::new() });
        let mut times = self.0.lock();
        if times.len() == MAX_REMEMBERED_TIMES {
            times.pop_front();
        }
        times.push_back(Arc::clone(&time));
        CommandTimer(time)
    }

    /// Returns whether a command ran at a time that was read from a file system.
    pub(super) fn cover(&self, at: SystemTime) -> bool {
        self.0.lock().iter().any(|time| {
            time.start <= at + CLOCK_STEP && time.end.get().is_none_or(|end| at <= *end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_covered_from_the_start_of_a_command_to_its_end() {
        let times = CommandTimes::default();
        let minute = Duration::from_mins(1);
        let before = SystemTime::now() - minute;
        assert!(!times.cover(SystemTime::now()));
        let running = times.start();
        assert!(times.cover(SystemTime::now()));
        assert!(!times.cover(before));
        drop(running);
        assert!(!times.cover(SystemTime::now() + minute));
    }
}
