//! The guard: a small shell script that outlives the agent, and ends the agent's programs if the agent is killed.
//!
//! The script reads from a pipe whose other end only the agent holds. The lines `+ group` and `- group` add and remove
//! process groups. If the pipe ends without a line `.`, the agent was killed. Processes that have left their group are
//! found by the mark in their environment, where there is a `/proc`.
//!
//! After a first line `b`, the agent sends `b` again and again as a heartbeat. If none comes for too long, the agent is
//! frozen. The script then ends the programs, too, as other nodes may go on with the sessions.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

/// Maximum time to wait for the guard to end.
const GUARD_END_TIMEOUT: Duration = Duration::from_millis(200);

/// Script of the guard. `$1` is the beginning of the mark. `$2` is the number of seconds for which an agent that sends
/// heartbeats may be silent.
const GUARD_SCRIPT: &str = r#"trap '' TERM INT HUP
groups=
end() {
  for g in $groups; do kill -KILL -"$g"; done
  groups=
  quiet=
  for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    marked=$(grep -ls -e "$1" /proc/[0-9]*/environ)
    for file in $marked; do pid=${file#/proc/}; kill -KILL "${pid%/environ}"; done
    # What was just being started when the agent was killed has its mark a moment later.
    [ "$marked" ] && quiet= && continue
    quiet=x$quiet
    [ $quiet = xxx ] && return
    sleep 0.05
  done
}
exec 2>/dev/null
# Not every shell can wait for some time only.
patience=
if [ "$2" ]; then read -r -t 1 op </dev/null; [ $? -le 1 ] && patience="-t $2"; fi
wait=
while :; do
  if read -r $wait op group; then
    [ "$op" = . ] && exit
    [ "$op" = b ] && wait=$patience && continue
    rest=
    for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done
    groups=$rest
    [ "$op" = + ] && groups="$groups $group"
  elif [ "$wait" ]; then
    # Time is up. If the agent comes back, it says so.
    end "$1"
    wait=
  else
    break
  fi
done
end "$1""#;

pub(super) struct Guard {
    child: Child,
    /// Write end of the pipe to the guard. The kernel closes it when the agent ends in any way.
    pipe: io::PipeWriter,
}

impl Guard {
    /// Starts the guard. `mark`: beginning of the marks of all processes to end. `patience`: time for which an agent
    /// that sends heartbeats may be silent.
    pub(super) fn start(mark: &str, patience: Option<Duration>) -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        // Only bash is known to read with a timeout; a smaller `sh` may not be able to.
        let bash = Some("/bin/bash").filter(|bash| patience.is_some() && Path::new(bash).exists());
        let seconds = patience.map(|patience| patience.as_secs().max(1).to_string());
        let child = Command::new(bash.unwrap_or("/bin/sh"))
            .args(["-c", GUARD_SCRIPT, "guard", mark])
            .args(seconds)
            // The environment is cleared because every command can read it.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { child, pipe })
    }

    /// Returns the process id of the guard; `None` if it has ended.
    pub(super) fn pid(&self) -> Option<i32> {
        self.child.id().and_then(|id| i32::try_from(id).ok())
    }

    /// Tells the guard that a group was added (`+`) or removed (`-`).
    pub(super) fn tell(&mut self, op: char, group: i32) -> io::Result<()> {
        // The line is written in one call, so that a frozen agent leaves no half line.
        self.pipe.write_all(format!("{op} {group}\n").as_bytes())
    }

    /// Sends a heartbeat.
    pub(super) fn beat(&mut self) -> io::Result<()> {
        self.pipe.write_all(b"b\n")
    }

    /// Ends the guard: no program is left for it to end.
    pub(super) async fn dismiss(mut self) {
        // An error is ignored, as the guard may have been killed.
        let _ = writeln!(self.pipe, ".");
        drop(self.pipe);
        let _ = tokio::time::timeout(GUARD_END_TIMEOUT, self.child.wait()).await;
    }
}
