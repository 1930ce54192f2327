//! Supervision of the programs that this process has started, for all of its sessions. Each runs in a process group of
//! its own, and none outlives the agent.
//!
//! A group is ended by SIGTERM, then SIGKILL. On Linux, processes that have left their group are also found: by a mark
//! in their environment, and because they are descendants of the agent. If the agent itself is killed, a guard process
//! ends the groups that are left and the processes with the mark.

use std::collections::HashSet;
use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::guard::Guard;
use super::login_shell::{self, LoginShell};
use super::orphans;
use super::table::{self, Process};
use parking_lot::{Mutex, RwLock};
use tandem_content::blocking::blocking;

/// Maximum time to wait for all programs to end when the agent ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two checks of a group that is ending.
const GROUP_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum time to wait for a killed process: SIGKILL does not end a process that waits for a disk.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);

/// Environment variable that marks all processes that a command has started.
pub(super) const MARK_VARIABLE: &str = "TANDEM_COMMAND";

/// Returns the name and value of the environment variable that exempts a program from being ended with the agent. The
/// value is random, so that no command knows it.
pub fn left_alone() -> (&'static str, &'static str) {
    static MARK_VALUE: LazyLock<String> =
        LazyLock::new(|| format!("none-{:016x}", fastrand::u64(..)));
    (MARK_VARIABLE, &MARK_VALUE)
}

/// The running programs of all sessions.
pub struct Supervisor {
    /// Beginning of the marks of this agent's commands, which no other agent on the machine has.
    mark: String,
    started: AtomicU64,
    /// Variables of the user's login shell, for a process that was started without them.
    pub(super) login_shell: LoginShell,
    /// `true` if orphaned descendants become children of this process, so that they can be found.
    adopts: bool,
    /// Process groups that may have members, by the process id of the leader.
    groups: Mutex<HashSet<i32>>,
    /// The guard process, started with the first command. The lock is held while the guard starts, so that there is
    /// only one.
    guard: Mutex<Option<Guard>>,
    /// Guards the decision that no more programs start. It is held for reading while a program is started, and for
    /// writing while `ending` is cancelled: so every program either is registered before the end and is ended, or does
    /// not start.
    starting: RwLock<()>,
    /// Heartbeats without which commands are ended, if this process needs any.
    pulse: OnceLock<HeartbeatMonitor>,
    /// Tasks, one for each command, which wait for the command or end it.
    tasks: TaskTracker,
    ending: CancellationToken,
}

/// A program that has been started, in a process group of its own.
pub(super) struct Spawned {
    pub(super) group: i32,
    /// Ends of the pipes that the command has asked for.
    pub(super) pipes: (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>),
    pub(super) exit: Exit,
    /// Token that ends the whole group when it is cancelled.
    pub(super) end: CancellationToken,
}

/// Receiver of a command's end.
#[derive(Clone)]
pub struct Exit(watch::Receiver<Option<ExitStatus>>);

impl Exit {
    /// Waits until the command itself has ended; `None` if its exit status is not known.
    pub async fn wait(&mut self) -> Option<ExitStatus> {
        // An error means that the watching task was dropped with its runtime.
        self.0.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// Waits until the whole group has ended, after the group was told to end.
    pub(super) async fn of_group(&mut self) {
        // The sender is dropped when the group has ended.
        while self.0.changed().await.is_ok() {}
    }
}

impl Supervisor {
    /// Returns a supervisor without programs.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::with(false, Vec::new()))
    }

    /// Returns a supervisor for a process that is only an agent. When the agent ends, all descendants of the process
    /// are ended, except programs that are [`left_alone`].
    ///
    /// `login_variables`: names of the variables for which the user's login shell can be asked. Commands get none of
    /// them. Other names than those that a shell can expand are left out.
    pub fn of_agent(mut login_variables: Vec<String>) -> Arc<Self> {
        login_variables.retain(|name| login_shell::is_variable(name));
        Arc::new(Self::with(true, login_variables))
    }

    fn with(adopts: bool, login_variables: Vec<String>) -> Self {
        Self {
            mark: format!("{}-{:016x}", std::process::id(), fastrand::u64(..)),
            started: AtomicU64::new(0),
            login_shell: LoginShell { names: login_variables, ..LoginShell::default() },
            adopts,
            groups: Mutex::default(),
            guard: Mutex::default(),
            starting: RwLock::default(),
            pulse: OnceLock::new(),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
        }
    }

    /// Requires heartbeats: from now on, all programs are ended if [`Self::beat`] was not called for the time
    /// `patience`, also while this process is frozen. Must be called within the async runtime.
    pub fn need_beats(self: &Arc<Self>, patience: Duration) {
        let pulse = HeartbeatMonitor { patience, last: watch::Sender::new(Instant::now()) };
        let last = pulse.last.subscribe();
        if self.pulse.set(pulse).is_ok() {
            tokio::spawn(end_without_beats(Arc::downgrade(self), last, patience));
        }
    }

    /// Records a heartbeat: programs may go on.
    pub fn beat(&self) {
        let Some(pulse) = self.pulse.get() else { return };
        pulse.last.send_replace(Instant::now());
        self.beat_guard();
    }

    /// Waits for a heartbeat, if the last one is so old that no program can be started.
    pub(super) async fn may_start(&self) {
        let Some(pulse) = self.pulse.get() else { return };
        let mut last = pulse.last.subscribe();
        // This cannot fail: `pulse` holds the sender.
        let _ = last.wait_for(|beat| !pulse.is_late_after(*beat)).await;
    }

    /// Starts a program in a process group of its own. A task waits for the program, or ends it when the returned token
    /// is cancelled; `grace` is then the time between SIGTERM and SIGKILL.
    pub(super) fn spawn(
        self: &Arc<Self>,
        command: &mut Command,
        grace: Duration,
    ) -> io::Result<Spawned> {
        let _starting = self.starting.read();
        let mark = self.next_mark()?;
        command.env(MARK_VARIABLE, &mark).process_group(0);
        // The guard starts first: if the agent were killed right after starting the program, no process would end the
        // program.
        self.start_guard();
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) else {
            return Err(io::Error::other("the command has no process id"));
        };
        self.groups.lock().insert(group);
        self.tell_guard('+', group);
        self.prune();

        let (status, exit) = watch::channel(None);
        let end = CancellationToken::new();
        let watched = Watched { supervisor: Arc::clone(self), child, group, mark, grace };
        self.tasks.spawn(watched.watch(end.clone(), status));
        Ok(Spawned { group, pipes, exit: Exit(exit), end })
    }

    /// Returns the mark of the next program. Fails if the agent is ending or a heartbeat is overdue.
    fn next_mark(self: &Arc<Self>) -> io::Result<String> {
        if self.ending.is_cancelled() {
            return Err(io::Error::other("the agent is ending"));
        }
        if self.pulse.get().is_some_and(HeartbeatMonitor::is_late) {
            return Err(io::Error::other(
                "the database does not answer, and another node may have taken the session over; try again",
            ));
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        if number == 0 && self.adopts {
            self.adopt();
        }
        Ok(format!("{}-{number}", self.mark))
    }

    /// Makes orphaned descendants children of this process from now on. When one of them has ended, its group may have
    /// become empty, too.
    fn adopt(self: &Arc<Self>) {
        orphans::adopt();
        let supervisor = Arc::downgrade(self);
        tokio::spawn(orphans::wait_for(move || {
            if let Some(supervisor) = supervisor.upgrade() {
                supervisor.prune();
            }
        }));
    }

    /// Removes the groups that have no members any more: the kernel may soon reuse their numbers for other processes.
    fn prune(&self) {
        let gone: Vec<_> = self.groups.lock().extract_if(|group| !test_group(*group)).collect();
        for group in gone {
            self.tell_guard('-', group);
        }
    }

    /// Ends all programs of all sessions. No program can be started afterwards.
    pub async fn end_all(&self) {
        {
            // Waits for starts that have begun: their tasks exist then, and end the programs when `ending` is
            // cancelled.
            let _no_other = self.starting.write();
            self.ending.cancel();
        }
        self.tasks.close();
        if timeout(SHUTDOWN_TIMEOUT, self.end_what_is_left()).await.is_err() {
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
        // A killed process may have started another one meanwhile, so the search is repeated until it finds none.
        while self.kill_what_is_left().await {
            sleep(GROUP_CHECK_INTERVAL).await;
        }
    }

    /// Kills the marked processes and, if orphans are adopted, all descendants of this process. Returns whether there
    /// were any.
    async fn kill_what_is_left(&self) -> bool {
        let mark = format!("{MARK_VARIABLE}={}-", self.mark);
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
        blocking(kill).await.unwrap_or(false)
    }

    /// Starts the guard, if there is none. If that fails, commands run without a guard.
    fn start_guard(&self) {
        let mut guard = self.guard.lock();
        if guard.is_none() {
            let mark = format!("{MARK_VARIABLE}={}-", self.mark);
            let patience = self.pulse.get().map(|pulse| pulse.patience);
            let started = Guard::start(&mark, patience);
            *guard = started.inspect_err(|err| tracing::warn!(%err, "no guard")).ok();
            drop(guard);
            if patience.is_some() {
                self.beat_guard();
            }
        }
    }

    fn beat_guard(&self) {
        // An error is ignored: if the guard has ended, that is logged with the next command.
        let _ = self.guard.lock().as_mut().map(Guard::beat);
    }

    /// Ends all running programs. More may be started afterwards.
    async fn end_what_runs(&self) {
        for group in self.groups.lock().iter() {
            signal_group(*group, Signal::KILL);
        }
        while self.kill_what_is_left().await {
            sleep(GROUP_CHECK_INTERVAL).await;
        }
    }

    /// Tells the guard that a group was added (`+`) or removed (`-`).
    fn tell_guard(&self, op: char, group: i32) {
        let told = self.guard.lock().as_mut().map(|guard| guard.tell(op, group));
        if let Some(Err(err)) = told {
            tracing::warn!(%err, "the guard has gone");
        }
    }
}

/// Heartbeats of a process whose sessions other nodes may take over when the heartbeats stop.
struct HeartbeatMonitor {
    /// Time without a heartbeat after which the programs are ended.
    patience: Duration,
    last: watch::Sender<Instant>,
}

impl HeartbeatMonitor {
    /// Returns whether the last heartbeat is so old that no program may be started.
    fn is_late(&self) -> bool {
        self.is_late_after(*self.last.borrow())
    }

    /// Returns whether `beat`, as the last heartbeat, is older than half of the patience.
    fn is_late_after(&self, beat: Instant) -> bool {
        beat.elapsed() >= self.patience / 2
    }
}

/// Ends all running programs whenever there was no heartbeat for the time `patience`.
async fn end_without_beats(
    supervisor: Weak<Supervisor>,
    mut last: watch::Receiver<Instant>,
    patience: Duration,
) {
    loop {
        let due = *last.borrow_and_update() + patience;
        match timeout_at(due, last.changed()).await {
            Ok(Ok(())) => continue,
            Ok(Err(_)) => return,
            Err(_) => {}
        }
        let Some(supervisor) = supervisor.upgrade() else { return };
        if supervisor.started.load(Ordering::Relaxed) > 0 {
            tracing::warn!("commands are ended: the database has not answered for {patience:?}");
            supervisor.end_what_runs().await;
        }
        drop(supervisor);
        if last.changed().await.is_err() {
            return;
        }
    }
}

/// State of the task that waits for a command.
struct Watched {
    supervisor: Arc<Supervisor>,
    child: Child,
    group: i32,
    mark: String,
    /// Time between SIGTERM and SIGKILL.
    grace: Duration,
}

impl Watched {
    /// Waits until the command has ended, or ends its group.
    async fn watch(mut self, end: CancellationToken, status: watch::Sender<Option<ExitStatus>>) {
        let ending = self.supervisor.ending.clone();
        tokio::select! {
            exit = self.child.wait() => { status.send_replace(exit.ok()); }
            () = end.cancelled() => {}
            () = ending.cancelled() => {}
        }
        if end.is_cancelled() || ending.is_cancelled() {
            self.end(&status).await;
        } else if test_group(self.group) {
            // Processes of the group are left running in the background until the agent ends.
            return;
        }
        self.supervisor.groups.lock().remove(&self.group);
        self.supervisor.tell_guard('-', self.group);
    }

    async fn end(&mut self, status: &watch::Sender<Option<ExitStatus>>) {
        let group = self.group;
        // A process may have left its group and cleared its environment. It is still found as a descendant of the
        // command, but only before the command has ended.
        let family = search(move || table::below(group, |_| false)).await;
        signal_group(group, Signal::TERM);
        let child = &mut self.child;
        let gone = async {
            if let Ok(exit) = child.wait().await {
                status.send_replace(Some(exit));
            }
            let mut left = search(move || table::members(group)).await;
            while !left.is_empty() {
                sleep(GROUP_CHECK_INTERVAL).await;
                left.retain(|pid| {
                    Process::read(*pid).is_some_and(|it| it.group == group && !it.dead)
                });
            }
        };
        let _ = timeout(self.grace, gone).await;
        signal_group(group, Signal::KILL);
        if status.borrow().is_none()
            && let Ok(exit) = timeout(KILL_TIMEOUT, self.child.wait()).await
        {
            status.send_replace(exit.ok());
        }
        family.iter().for_each(Process::kill);
        let mark = format!("{MARK_VARIABLE}={}\0", self.mark);
        let marked = search(move || table::marked(&mark)).await;
        marked.into_iter().for_each(table::kill);
    }
}

/// Runs a search through `/proc` on a blocking thread: it takes a while on a busy machine.
async fn search<T: Send + 'static>(look: impl FnOnce() -> Vec<T> + Send + 'static) -> Vec<T> {
    blocking(look).await.unwrap_or_default()
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // An error is ignored, as the group may have ended by itself.
        let _ = kill_process_group(group, signal);
    }
}

/// Returns whether a process group has members.
pub(super) fn test_group(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|group| test_kill_process_group(group).is_ok())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::spawn;
    use tokio::time::{advance, timeout};

    use super::Supervisor;
    use crate::terminals::{EnvironmentFilter, Terminals};

    /// Starts commands until a start fails. Returns their groups.
    async fn start(terminals: Arc<Terminals>) -> Vec<i32> {
        let mut groups = Vec::new();
        while let Ok(it) = terminals.start("exec sleep 1000", Path::new("/"), &[], None) {
            groups.push(it.group);
            tokio::task::yield_now().await;
        }
        groups
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn what_is_started_while_the_agent_ends_is_ended() {
        let supervisor = Supervisor::new();
        let starting = [(); 3].map(|()| {
            tokio::spawn(start(Terminals::new(&supervisor, EnvironmentFilter::default())))
        });
        while supervisor.groups.lock().len() < 10 {
            tokio::task::yield_now().await;
        }
        supervisor.end_all().await;
        let groups = futures::future::try_join_all(starting).await.unwrap().concat();
        assert!(groups.iter().all(|group| !super::test_group(*group)), "{groups:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_not_start_for_want_of_a_sign_of_life_waits_for_one() {
        let supervisor = Supervisor::new();
        supervisor.may_start().await;
        supervisor.need_beats(Duration::from_secs(2));
        supervisor.may_start().await;
        advance(Duration::from_secs(1)).await;
        let terminals = Terminals::new(&supervisor, EnvironmentFilter::default());
        assert!(terminals.start("true", Path::new("/"), &[], None).is_err());
        let mut waiting = spawn({
            let supervisor = Arc::clone(&supervisor);
            async move { supervisor.may_start().await }
        });
        assert!(timeout(Duration::from_hours(1), &mut waiting).await.is_err());
        supervisor.beat();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_group_that_has_gone_is_forgotten() {
        let supervisor = Supervisor::new();
        let terminals = Terminals::new(&supervisor, EnvironmentFilter::default());
        let mut ended = terminals.start("true", Path::new("/"), &[], None).unwrap();
        ended.exit.wait().await;
        let running = terminals.start("sleep 1000", Path::new("/"), &[], None).unwrap();
        supervisor.groups.lock().insert(ended.group);
        supervisor.prune();
        assert_eq!(*supervisor.groups.lock(), HashSet::from([running.group]));
        supervisor.end_all().await;
    }
}
