//! A few lines of shell that outlive the agent, to end what it started should it be killed.
//!
//! They wait on a pipe which only the agent holds. `+ group` and `- group` say which process
//! groups there are; the end of the pipe without a `.` says that the agent was killed. What has
//! left its group is found by the mark in its environment, where `/proc` tells.

use std::io::{self, Write as _};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

/// Time for the guard to end.
const GOING: Duration = Duration::from_millis(200);

/// Script of the guard. `$1` is the beginning of the mark.
const SCRIPT: &str = r#"trap '' TERM INT HUP
groups=
while read -r op group; do
  [ "$op" = . ] && exit
  rest=
  for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done
  groups=$rest
  [ "$op" = + ] && groups="$groups $group"
done
exec 2>/dev/null
for g in $groups; do kill -KILL -"$g"; done
quiet=
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
  marked=$(grep -ls -e "$1" /proc/[0-9]*/environ)
  for file in $marked; do pid=${file#/proc/}; kill -KILL "${pid%/environ}"; done
  # What was just being started when the agent was killed has its mark a moment later.
  [ "$marked" ] && quiet= && continue
  quiet=x$quiet
  [ $quiet = xxx ] && exit
  sleep 0.05
done"#;

pub(super) struct Guard {
    child: Child,
    /// Closed when the agent ends, however it ends.
    pipe: io::PipeWriter,
}

impl Guard {
    /// Begins to wait. `mark` is what begins the mark of all that is to be ended.
    pub(super) fn start(mark: &str) -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guard", mark])
            // Every command can read its environment.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { child, pipe })
    }

    /// Its process.
    pub(super) fn pid(&self) -> Option<i32> {
        self.child.id().and_then(|id| i32::try_from(id).ok())
    }

    /// Keeps its list true: `+` and `-`.
    pub(super) fn tell(&mut self, op: char, group: i32) -> io::Result<()> {
        writeln!(self.pipe, "{op} {group}")
    }

    /// Lets it go: nothing is left to be ended.
    pub(super) async fn dismiss(mut self) {
        // It may have been killed.
        let _ = writeln!(self.pipe, ".");
        drop(self.pipe);
        let _ = tokio::time::timeout(GOING, self.child.wait()).await;
    }
}
