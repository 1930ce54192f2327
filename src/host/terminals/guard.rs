//! A few lines of shell that outlive the agent, to end what it started should it be killed.
//!
//! They wait on a pipe which only the agent holds. `+ group` and `- group` say which process
//! groups there are; the end of the pipe without a `.` says that the agent was killed. What has
//! left its group is found by the mark in its environment, where `/proc` tells.
//!
//! After a `b`, the agent says so again and again; if it is silent for longer than it may be, it is
//! frozen, and what it started is ended, too: others may go on with its sessions.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

/// Time for the guard to end.
const GOING: Duration = Duration::from_millis(200);

/// Script of the guard. `$1` is the beginning of the mark, `$2` the seconds for which an agent that gives
/// signs of life may be silent.
const SCRIPT: &str = r#"trap '' TERM INT HUP
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
    /// Closed when the agent ends, however it ends.
    pipe: io::PipeWriter,
}

impl Guard {
    /// Begins to wait. `mark` is what begins the mark of all that is to be ended; `patience`: time for
    /// which an agent that gives signs of life may be silent.
    pub(super) fn start(mark: &str, patience: Option<Duration>) -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        // It can wait for some time only; a small shell may not.
        let bash = Some("/bin/bash").filter(|bash| patience.is_some() && Path::new(bash).exists());
        let seconds = patience.map(|patience| patience.as_secs().max(1).to_string());
        let child = Command::new(bash.unwrap_or("/bin/sh"))
            .args(["-c", SCRIPT, "guard", mark])
            .args(seconds)
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
        // In one piece: a frozen agent must not leave half a line.
        self.pipe.write_all(format!("{op} {group}\n").as_bytes())
    }

    /// Tells it that the agent lives, and may.
    pub(super) fn beat(&mut self) -> io::Result<()> {
        self.pipe.write_all(b"b\n")
    }

    /// Lets it go: nothing is left to be ended.
    pub(super) async fn dismiss(mut self) {
        // It may have been killed.
        let _ = writeln!(self.pipe, ".");
        drop(self.pipe);
        let _ = tokio::time::timeout(GOING, self.child.wait()).await;
    }
}
