//! Programs that tools start: each in a process group of its own, and none outlives the agent.
//!
//! A group is ended by SIGTERM, then SIGKILL. On Linux a mark in the environment also finds what
//! has left its group. Should the agent itself be killed, a guard (a few lines of shell that wait
//! on a pipe which only the agent holds) ends the groups that are left.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::sync::Mutex;

/// How long a group has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(200);

/// How often an ending group is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// The environment variable that marks what a command started.
const MARK: &str = "TANDEM_COMMAND";

/// What the guard runs: `+ group` and `- group` lines, then the end.
const GUARD: &str = r#"trap '' TERM INT HUP
groups=
while read -r op group; do
  rest=
  for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done
  groups=$rest
  [ "$op" = + ] && groups="$groups $group"
done
for g in $groups; do kill -KILL -"$g"; done 2>/dev/null"#;

/// The programs that run.
pub struct Processes {
    /// Names this agent's commands among all that run on the machine.
    mark: String,
    started: AtomicU64,
    /// Says of an environment variable (name, value) whether commands must not see it.
    secret: IsSecret,
    /// The groups that may have members, by leader, with their marks.
    groups: Mutex<HashMap<i32, String>>,
    /// Started with the first command.
    guard: Mutex<Option<Guard>>,
    /// One task a command: it waits for it, or ends it.
    tasks: TaskTracker,
    ending: CancellationToken,
}

type IsSecret = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

struct Guard {
    child: Child,
    /// Closed when the agent ends, however it ends.
    pipe: io::PipeWriter,
}

/// A command that runs. It is ended when this is dropped.
pub struct Running {
    /// Its process group.
    pub group: i32,
    /// What it writes, standard output and error in the order written.
    pub output: pipe::Receiver,
    /// Tells when the command itself has ended; what it left in its group may still run.
    pub exit: Exit,
    /// Ended by whom, if not by itself.
    end: CancellationToken,
    _end_on_drop: DropGuard,
}

impl Processes {
    /// Nothing runs yet. `secret` says of an environment variable (name, value) whether commands
    /// must not see it.
    pub fn new(secret: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            mark: format!("{}-{:016x}", std::process::id(), fastrand::u64(..)),
            started: AtomicU64::new(0),
            secret: Box::new(secret),
            groups: Mutex::default(),
            guard: Mutex::default(),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
        })
    }

    /// Starts `bash -c command` (`sh` where there is no bash), without standard input.
    pub fn start(self: &Arc<Self>, command: &str, directory: &Path) -> io::Result<Running> {
        if self.ending.is_cancelled() {
            return Err(io::Error::other("the agent is ending"));
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", self.mark);
        let (output, writer) = io::pipe()?;
        let mut shell = self.shell(command, directory, &mark);
        shell.stdout(writer.try_clone()?).stderr(writer);
        let child = shell.spawn()?;
        // The shell holds the ends of the pipe, and so would `shell`: output would never end.
        drop(shell);
        let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) else {
            return Err(io::Error::other("the command has no process id"));
        };
        self.groups.lock().insert(group, mark.clone());
        self.tell_guard('+', group);

        let (status, exit) = watch::channel(None);
        let end = CancellationToken::new();
        let watched = Watched { processes: Arc::clone(self), child, group, mark };
        self.tasks.spawn(watched.watch(end.clone(), status));
        Ok(Running {
            group,
            output: pipe::Receiver::from_owned_fd(OwnedFd::from(output))?,
            exit: Exit(exit),
            _end_on_drop: end.clone().drop_guard(),
            end,
        })
    }

    fn shell(&self, command: &str, directory: &Path, mark: &str) -> Command {
        let bash = Path::new("/bin/bash");
        let mut shell = Command::new(if bash.exists() { bash } else { Path::new("/bin/sh") });
        shell.arg("-c").arg(command).current_dir(directory).stdin(Stdio::null()).process_group(0);
        shell.env("GEMINI_CLI", "1").env("PAGER", "cat").env("GIT_PAGER", "cat").env(MARK, mark);
        // The policy has judged where a `cd` leads; this would lead it elsewhere.
        shell.env_remove("CDPATH");
        for (name, value) in std::env::vars_os() {
            if let Some(name) = name.to_str()
                && (self.secret)(name, &value.to_string_lossy())
            {
                shell.env_remove(name);
            }
        }
        shell
    }

    /// Ends everything that was started here. Nothing can be started afterwards.
    pub async fn end_all(&self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let left: Vec<_> = self.groups.lock().drain().collect();
        if !left.is_empty() {
            for (group, _) in left {
                signal_group(group, Signal::KILL);
            }
            kill_marked(format!("{MARK}={}-", self.mark)).await;
        }
        let guard = self.guard.lock().take();
        if let Some(Guard { mut child, pipe }) = guard {
            drop(pipe);
            // It only has to read the end of its input.
            let _ = tokio::time::timeout(GRACE, child.wait()).await;
        }
    }

    /// Keeps the guard's list true. Without a guard commands run all the same.
    fn tell_guard(&self, op: char, group: i32) {
        let mut guard = self.guard.lock();
        if guard.is_none() {
            *guard = start_guard().inspect_err(|err| tracing::warn!(%err, "no guard")).ok();
        }
        let told = guard.as_mut().map(|guard| writeln!(guard.pipe, "{op} {group}"));
        if let Some(Err(err)) = told {
            tracing::warn!(%err, "the guard has gone");
        }
    }
}

fn start_guard() -> io::Result<Guard> {
    let (reader, pipe) = io::pipe()?;
    let child = Command::new("/bin/sh")
        .args(["-c", GUARD])
        .stdin(reader)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(Guard { child, pipe })
}

impl Running {
    /// Ends the whole group and waits until it has ended.
    pub async fn end(&mut self) {
        self.end.cancel();
        // The sender goes when the group has ended.
        while self.exit.0.changed().await.is_ok() {}
    }

    /// What is left of the group, the command itself not counted.
    pub fn left_behind(&self) -> Vec<i32> {
        members(self.group)
    }
}

/// Tells when a command has ended.
pub struct Exit(watch::Receiver<Option<ExitStatus>>);

impl Exit {
    /// Waits for it; `None` if how it ended is not known.
    pub async fn wait(&mut self) -> Option<ExitStatus> {
        // An error says that the watching task was dropped with its runtime.
        self.0.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }
}

/// A command as the task that waits for it sees it.
struct Watched {
    processes: Arc<Processes>,
    child: Child,
    group: i32,
    mark: String,
}

impl Watched {
    async fn watch(mut self, end: CancellationToken, status: watch::Sender<Option<ExitStatus>>) {
        let ending = self.processes.ending.clone();
        tokio::select! {
            exit = self.child.wait() => { status.send_replace(exit.ok()); }
            () = end.cancelled() => {}
            () = ending.cancelled() => {}
        }
        if end.is_cancelled() || ending.is_cancelled() {
            self.end(&status).await;
        } else if test_group(self.group) {
            // Left running in the background, until the agent ends.
            return;
        }
        self.processes.groups.lock().remove(&self.group);
        self.processes.tell_guard('-', self.group);
    }

    async fn end(&mut self, status: &watch::Sender<Option<ExitStatus>>) {
        signal_group(self.group, Signal::TERM);
        let gone = async {
            if let Ok(exit) = self.child.wait().await {
                status.send_replace(Some(exit));
            }
            let mut left = members(self.group);
            while !left.is_empty() {
                tokio::time::sleep(LOOK).await;
                left.retain(|pid| is_member(*pid, self.group));
            }
        };
        let _ = tokio::time::timeout(GRACE, gone).await;
        signal_group(self.group, Signal::KILL);
        if status.borrow().is_none() {
            status.send_replace(self.child.wait().await.ok());
        }
        kill_marked(format!("{MARK}={}\0", self.mark)).await;
    }
}

fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // It may have ended by itself.
        let _ = kill_process_group(group, signal);
    }
}

fn test_group(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|group| test_kill_process_group(group).is_ok())
}

/// Kills every process that has `wanted` in its environment, wherever it has gone.
async fn kill_marked(wanted: String) {
    let search = move || {
        for pid in processes() {
            let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else { continue };
            if memchr::memmem::find(&environ, wanted.as_bytes()).is_some()
                && let Some(pid) = Pid::from_raw(pid)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    };
    let _ = tokio::task::spawn_blocking(search).await;
}

/// Every process in a group that is not dead; empty where the system does not say.
fn members(group: i32) -> Vec<i32> {
    processes().filter(|pid| is_member(*pid, group)).collect()
}

/// Whether a process is in a group and not dead: what nobody has waited for yet still has a
/// number.
fn is_member(pid: i32, group: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which is in parentheses and may hold anything: state, parent, group.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let state = fields.next();
    let its_group = fields.nth(1).and_then(|field| field.parse().ok());
    its_group == Some(group) && !matches!(state, Some("Z" | "X"))
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
