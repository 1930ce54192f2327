//! Programs that tools start: each in a process group of its own, and none outlives the agent.
//!
//! A group is ended by SIGTERM, then SIGKILL. On Linux what has left its group is also found: by a
//! mark in its environment, and because it is below the agent. Should the agent itself be killed, a
//! guard ends the groups that are left and what has the mark.

mod guard;
mod orphans;
mod search_path;
mod serving;
mod table;
mod watched;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::guard::Guard;
use self::search_path::SearchPath;
pub use self::serving::{Life, Program, Serving};
use self::table::Process;
use self::watched::Watched;
use crate::sync::Mutex;

/// How long a group has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(200);

/// How long everything may take to end.
const END: Duration = Duration::from_secs(5);

/// How often an ending group is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// The environment variable that marks what a command started.
const MARK: &str = "TANDEM_COMMAND";

/// The environment variable, and its value, of a program that is not to be ended with the agent.
/// No command knows the value.
pub fn left_alone() -> (&'static str, &'static str) {
    static VALUE: LazyLock<String> = LazyLock::new(|| format!("none-{:016x}", fastrand::u64(..)));
    (MARK, &VALUE)
}

/// Starts programs, for one session. Those that run are known to all sessions of the process.
pub struct Processes {
    /// Says of an environment variable (name, value) whether commands must not see it.
    secret: IsSecret,
    running: Arc<Registry>,
}

/// The programs that run, whichever session has started them.
struct Registry {
    /// Names this agent's commands among all that run on the machine.
    mark: String,
    started: AtomicU64,
    /// Where programs are looked for, if not in this process's own `PATH`.
    search_path: SearchPath,
    /// Whether all that loses its parent below this process is to be found here.
    adopts: bool,
    /// The groups that may have members, by leader.
    groups: Mutex<HashSet<i32>>,
    /// Started with the first command.
    guard: Mutex<Option<Guard>>,
    /// One task a command: it waits for it, or ends it.
    tasks: TaskTracker,
    ending: CancellationToken,
}

type IsSecret = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// A command that runs. It is ended when this is dropped.
pub struct Running {
    /// Its process group.
    pub group: i32,
    /// What it writes, standard output and error in the order written.
    pub output: Output,
    /// Tells when the command itself has ended; what it left in its group may still run.
    pub exit: Exit,
    /// Ended by whom, if not by itself.
    end: CancellationToken,
    _end_on_drop: DropGuard,
}

/// What a command writes. When nobody wants it any more it is read all the same: what runs on in
/// the background would else end when it next writes a line.
pub struct Output(Option<pipe::Receiver>);

impl Output {
    /// Reads what there is; 0 bytes at the end.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(output) => output.read(buffer).await,
            None => Ok(0),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Without a runtime nothing is left running either.
        if let (Some(mut output), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
            });
        }
    }
}

impl Processes {
    /// Nothing runs yet. `secret` says of an environment variable (name, value) whether commands
    /// must not see it.
    pub fn new(secret: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self::with(secret, false))
    }

    /// The same for a process that is an agent and nothing else: all that there is below it in the
    /// end was started here, and is ended, but for what is [`left_alone`].
    pub fn of_agent(secret: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self::with(secret, true))
    }

    /// The same, where commands must not see other variables.
    pub fn hiding(&self, secret: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { secret: Box::new(secret), running: Arc::clone(&self.running) })
    }

    fn with(secret: impl Fn(&str, &str) -> bool + Send + Sync + 'static, adopts: bool) -> Self {
        let running = Registry {
            mark: format!("{}-{:016x}", std::process::id(), fastrand::u64(..)),
            started: AtomicU64::new(0),
            search_path: SearchPath::default(),
            adopts,
            groups: Mutex::default(),
            guard: Mutex::default(),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
        };
        Self { secret: Box::new(secret), running: Arc::new(running) }
    }

    /// Starts `bash -c command` (`sh` where there is no bash), without standard input.
    pub fn start(&self, command: &str, directory: &Path) -> io::Result<Running> {
        self.start_with(command, directory, &[])
    }

    /// Starts it with these environment variables besides.
    pub fn start_with(
        &self,
        command: &str,
        directory: &Path,
        variables: &[(String, String)],
    ) -> io::Result<Running> {
        let mark = self.running.next_mark()?;
        let (output, writer) = io::pipe()?;
        let mut shell = self.shell(command, directory, &mark);
        shell.envs(variables.iter().map(|(name, value)| (name, value)));
        shell.stdout(writer.try_clone()?).stderr(writer);
        let child = shell.spawn()?;
        // The shell holds the ends of the pipe, and so would `shell`: output would never end.
        drop(shell);
        let (group, exit, end) = self.running.follow(child, mark, GRACE)?;
        Ok(Running {
            group,
            output: Output(Some(pipe::Receiver::from_owned_fd(OwnedFd::from(output))?)),
            exit,
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
        self.set_environment(&mut shell);
        shell
    }

    /// The environment that commands are started with, as far as it is known now: see
    /// [`Self::find_programs`].
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut command = self.shell("", Path::new("/"), "");
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.as_std_mut().get_envs() {
            match value {
                Some(value) => _ = environment.insert(name.to_owned(), value.to_owned()),
                None => _ = environment.remove(name),
            }
        }
        environment.into_iter().collect()
    }

    /// This process's own, without secrets, and with the `PATH` that the user has.
    fn set_environment(&self, command: &mut Command) {
        if let Some(path) = self.running.search_path.get() {
            command.env("PATH", path);
        }
        for (name, value) in std::env::vars_os() {
            if let Some(name) = name.to_str()
                && (self.secret)(name, &value.to_string_lossy())
            {
                command.env_remove(name);
            }
        }
    }

    /// Ends everything that was started, in other sessions too. Nothing can be started afterwards.
    pub async fn end_all(&self) {
        self.running.end_all().await;
    }
}

impl Registry {
    /// What marks the next program; none starts any more when the agent ends.
    fn next_mark(self: &Arc<Self>) -> io::Result<String> {
        if self.ending.is_cancelled() {
            return Err(io::Error::other("the agent is ending"));
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        if number == 0 && self.adopts {
            self.adopt();
        }
        Ok(format!("{}-{number}", self.mark))
    }

    /// From now on a program that was started in a group of its own is waited for, or ended when
    /// the token fires; `grace` is what it then has between SIGTERM and SIGKILL.
    fn follow(
        self: &Arc<Self>,
        child: Child,
        mark: String,
        grace: Duration,
    ) -> io::Result<(i32, Exit, CancellationToken)> {
        let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) else {
            return Err(io::Error::other("the command has no process id"));
        };
        self.groups.lock().insert(group);
        self.tell_guard('+', group);
        self.prune();

        let (status, exit) = watch::channel(None);
        let end = CancellationToken::new();
        let watched = Watched { running: Arc::clone(self), child, group, mark, grace };
        self.tasks.spawn(watched.watch(end.clone(), status));
        Ok((group, Exit(exit), end))
    }

    /// What loses its parent is ours from now on; when something has ended, groups may have too.
    fn adopt(self: &Arc<Self>) {
        orphans::adopt();
        let running = Arc::downgrade(self);
        tokio::spawn(orphans::wait_for(move || {
            if let Some(running) = running.upgrade() {
                running.prune();
            }
        }));
    }

    /// Forgets the groups that have gone: their numbers may soon be those of others.
    fn prune(&self) {
        let gone: Vec<_> = self.groups.lock().extract_if(|group| !test_group(*group)).collect();
        for group in gone {
            self.tell_guard('-', group);
        }
    }

    async fn end_all(&self) {
        self.ending.cancel();
        self.tasks.close();
        if timeout(END, self.end_what_is_left()).await.is_err() {
            tracing::warn!("what was started here does not end");
        }
        let guard = self.guard.lock().take();
        if let Some(guard) = guard {
            guard.dismiss().await;
        }
    }

    async fn end_what_is_left(&self) {
        self.tasks.wait().await;
        if self.started.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.prune();
        for group in self.groups.lock().drain() {
            signal_group(group, Signal::KILL);
        }
        // One that is killed may have started another meanwhile.
        while self.kill_what_is_left().await {
            sleep(LOOK).await;
        }
    }

    /// Kills what has left its group, and says whether there was anything.
    async fn kill_what_is_left(&self) -> bool {
        let mark = format!("{MARK}={}-", self.mark);
        let guard = self.guard.lock().as_ref().and_then(Guard::pid);
        let adopts = self.adopts;
        let kill = move || {
            let marked = table::marked(&mark);
            for pid in &marked {
                table::kill(*pid);
            }
            if !adopts {
                return !marked.is_empty();
            }
            let (name, value) = left_alone();
            let alone = format!("{name}={value}\0");
            let ours =
                table::below(own_pid(), |pid| Some(pid) == guard || table::has_mark(pid, &alone));
            ours.iter().for_each(Process::kill);
            !marked.is_empty() || !ours.is_empty()
        };
        tokio::task::spawn_blocking(kill).await.unwrap_or(false)
    }

    /// Keeps the guard's list true. Without a guard commands run all the same.
    fn tell_guard(&self, op: char, group: i32) {
        let mut guard = self.guard.lock();
        if guard.is_none() {
            let mark = format!("{MARK}={}-", self.mark);
            *guard = Guard::start(&mark).inspect_err(|err| tracing::warn!(%err, "no guard")).ok();
        }
        let told = guard.as_mut().map(|guard| guard.tell(op, group));
        if let Some(Err(err)) = told {
            tracing::warn!(%err, "the guard has gone");
        }
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
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
        if test_group(self.group) { table::members(self.group) } else { Vec::new() }
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

fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // It may have ended by itself.
        let _ = kill_process_group(group, signal);
    }
}

fn test_group(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|group| test_kill_process_group(group).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_group_that_has_gone_is_forgotten() {
        let processes = Processes::new(|_, _| false);
        let mut ended = processes.start("true", Path::new("/")).unwrap();
        ended.exit.wait().await;
        let running = processes.start("sleep 1000", Path::new("/")).unwrap();
        processes.running.groups.lock().insert(ended.group);
        processes.running.prune();
        assert_eq!(*processes.running.groups.lock(), HashSet::from([running.group]));
        processes.end_all().await;
    }
}
