//! Commands that run in the background of a session. Their output is stored up to a limit, and none outlives the
//! session.

mod input;
mod unfinished_line;

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::input::InputPipe;
pub use self::input::{InputState, MAX_INPUT_BYTES, WriteEnd, WriteOutcome};
use super::limits::ToolLimits;
use super::network::{Connect, NetworkAccess};
use super::output::ToolError;
use super::shell_output::OutputBuffer;
use super::terminals::RunningCommand;
use parking_lot::Mutex;
use tandem_sandbox::SandboxMode;

/// Time to wait for further output when a command has ended but a process that it started still holds the pipe open.
const DRAIN_TIME: Duration = Duration::from_millis(100);

/// Maximum number of bytes of output that are shown at once.
const MAX_SHOWN_BYTES: usize = 64 << 10;

/// Time between two checks whether a person still has to decide about a host.
const ASKING_RECHECK: Duration = Duration::from_millis(100);

/// Time without output after which a command is taken to have written what it had to write.
const QUIET_TIME: Duration = Duration::from_millis(100);

/// The commands of one session that run in the background, and those that have ended recently.
pub struct Background {
    /// Maximum number of commands that run at once. The list has at most twice as many jobs, with those that have
    /// ended.
    most: usize,
    /// Maximum number of bytes of each command's output that are stored.
    max_bytes: usize,
    /// Running and ended commands, the oldest first. A start holds the lock until its job is in the list, so that no
    /// two starts exceed the limit together.
    jobs: Mutex<Vec<Arc<Job>>>,
    ending: CancellationToken,
    _end_on_drop: DropGuard,
}

/// A command that runs in the background, or has ended there.
pub struct Job {
    /// Process id of the command, which leads its process group.
    pub pid: i32,
    /// Command line for `bash -c`.
    pub command: String,
    /// Working directory; absolute.
    pub directory: PathBuf,
    /// Mode of the sandbox that the command runs in.
    pub sandbox: SandboxMode,
    /// `true` if the sandbox shows files with secrets to the command.
    pub sees_secrets: bool,
    /// Standard input of the command.
    pub input: InputPipe,
    /// Network of the command, if it has one of its own. Only the running command holds its registration at the proxy, so
    /// that the registration ends with the command.
    network: Option<Weak<NetworkAccess>>,
    began: Instant,
    output: Mutex<JobOutput>,
    /// Number of bytes that the command has written so far. It is set after the bytes are stored.
    written: watch::Sender<u64>,
    status: watch::Sender<JobStatus>,
    stop: CancellationToken,
}

/// Output of a command.
struct JobOutput {
    /// Whole output, as far as it is stored.
    all: OutputBuffer,
    /// Output since the last call of [`Job::new_output`].
    new: OutputBuffer,
}

impl JobOutput {
    fn push(&mut self, bytes: &[u8]) {
        self.all.push(bytes);
        self.new.push(bytes);
    }
}

/// Actions at the end of a background command, unless it ends with the session.
pub struct JobEnd {
    /// Future that checks the files that the command has made.
    pub look: BoxFuture<'static, ()>,
    /// Callback for a command that has ended by itself or was stopped, if its end is to be announced.
    pub tell: Arc<dyn Fn(&Job) + Send + Sync>,
}

/// A command line, and the place where it runs.
#[derive(Clone, Copy)]
pub struct CommandPlace<'a> {
    /// Command line for `bash -c`.
    pub line: &'a str,
    /// Working directory; absolute.
    pub directory: &'a Path,
    /// Mode of the sandbox that the command runs in.
    pub sandbox: SandboxMode,
    /// `true` if the sandbox shows files with secrets to the command.
    pub sees_secrets: bool,
}

/// A command that ran in the foreground until now.
pub struct StartedCommand<'a> {
    /// The command line.
    pub command: CommandPlace<'a>,
    /// The running command.
    pub running: RunningCommand,
    /// Output so far.
    pub written: OutputBuffer,
}

/// A command that could not be taken over into the background.
pub struct NotAdopted {
    /// The running command.
    pub running: Box<RunningCommand>,
    /// The reason.
    pub why: io::Error,
}

/// State of a command in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The command is running; the time since it began.
    Running(Duration),
    /// The command has ended by itself; its exit status, if it is known.
    Ended(Option<ExitStatus>),
    /// The command was stopped on request, or ended with the session.
    Stopped,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(time) => write!(f, "runs, for {} s", time.as_secs()),
            Self::Stopped => f.write_str("was stopped"),
            Self::Ended(status) => match status.map(|it| (it.code(), it.signal())) {
                Some((Some(code), _)) => write!(f, "has ended with exit code {code}"),
                Some((_, Some(signal))) => write!(f, "was ended by signal {signal}"),
                _ => f.write_str("has ended"),
            },
        }
    }
}

#[derive(Default)]
struct JobStatus {
    /// Final state of the command, if it has ended.
    end: Option<JobState>,
    /// `true` if the end of the command is to be announced. It is `false` while the caller that started the command
    /// still waits for it.
    tell: bool,
}

impl Background {
    /// Returns a list without commands.
    pub fn new(limits: &ToolLimits) -> Self {
        let ending = CancellationToken::new();
        Self {
            most: limits.background_commands,
            max_bytes: limits.background_bytes,
            jobs: Mutex::default(),
            _end_on_drop: ending.clone().drop_guard(),
            ending,
        }
    }

    /// Returns all jobs in the list, the oldest first.
    pub fn jobs(&self) -> Vec<Arc<Job>> {
        self.jobs.lock().clone()
    }

    /// Returns the newest job with this process id. Process ids can repeat, as the list has ended commands, too.
    pub fn find(&self, pid: i32) -> Option<Arc<Job>> {
        self.jobs.lock().iter().rev().find(|job| job.pid == pid).cloned()
    }

    /// Returns the newest job with this process id, or an error for the model.
    pub fn find_newest(&self, pid: usize) -> Result<Arc<Job>, ToolError> {
        let found = i32::try_from(pid).ok().and_then(|pid| self.find(pid));
        found.ok_or_else(|| {
            let message = format!(
                "No command in the background has the PID {pid}. list_background_processes has \
                 those that there are."
            );
            ToolError::new("no_such_process", message)
        })
    }

    /// Ends all commands. No command can be started afterwards.
    pub fn end(&self) {
        self.ending.cancel();
    }

    /// Starts a command with `start`, and adds it to the list. Fails if too many run.
    pub fn start(
        &self,
        command: CommandPlace<'_>,
        start: impl FnOnce() -> io::Result<RunningCommand>,
        end: JobEnd,
    ) -> io::Result<Arc<Job>> {
        let mut jobs = self.jobs.lock();
        self.check_room(&jobs)?;
        let (mut running, output) = (start()?, OutputBuffer::new(self.max_bytes));
        let job = Arc::new(self.job(command, &mut running, output));
        self.add_job(&mut jobs, Arc::clone(&job), running, end);
        Ok(job)
    }

    /// Takes over a running command with its output so far. Its end is announced. If too many commands run, the error
    /// gives the command back, with the reason.
    pub fn adopt(&self, started: StartedCommand<'_>, end: JobEnd) -> Result<Arc<Job>, NotAdopted> {
        let StartedCommand { command, mut running, written } = started;
        let mut jobs = self.jobs.lock();
        if let Err(why) = self.check_room(&jobs) {
            return Err(NotAdopted { running: Box::new(running), why });
        }
        let job = self.job(command, &mut running, written.shrunk(self.max_bytes));
        job.status.send_modify(|status| status.tell = true);
        let job = Arc::new(job);
        self.add_job(&mut jobs, Arc::clone(&job), running, end);
        Ok(job)
    }

    /// Checks that one more command may run.
    fn check_room(&self, jobs: &[Arc<Job>]) -> io::Result<()> {
        if self.ending.is_cancelled() {
            return Err(io::Error::other("the session is ending"));
        }
        let running = jobs.iter().filter(|job| job.runs()).count();
        if running >= self.most {
            let most = self.most;
            return Err(io::Error::other(format!(
                "{most} commands run in the background, which is the limit; list_background_processes names them"
            )));
        }
        Ok(())
    }

    fn job(
        &self,
        command: CommandPlace<'_>,
        running: &mut RunningCommand,
        output: OutputBuffer,
    ) -> Job {
        Job {
            pid: running.group,
            command: command.line.to_owned(),
            directory: command.directory.to_owned(),
            sandbox: command.sandbox,
            sees_secrets: command.sees_secrets,
            input: InputPipe::new(running.input.take()),
            network: running.network.as_ref().map(Arc::downgrade),
            began: Instant::now(),
            output: Mutex::new(JobOutput {
                all: output,
                new: OutputBuffer::new(self.max_bytes.min(MAX_SHOWN_BYTES)),
            }),
            written: watch::Sender::default(),
            status: watch::Sender::default(),
            stop: self.ending.child_token(),
        }
    }

    /// Adds a job to the list, in place of the oldest ended one if the list is full, and starts a task that follows the
    /// command to its end.
    fn add_job(
        &self,
        jobs: &mut Vec<Arc<Job>>,
        job: Arc<Job>,
        running: RunningCommand,
        end: JobEnd,
    ) {
        if jobs.len() >= 2 * self.most
            && let Some(oldest) = jobs.iter().position(|job| !job.runs())
        {
            jobs.remove(oldest);
        }
        jobs.push(Arc::clone(&job));
        let ending = self.ending.clone();
        tokio::spawn(async move {
            let state = job.follow(running).await;
            if !ending.is_cancelled() {
                end.look.await;
            }
            if job.set_final_state(state) && !ending.is_cancelled() {
                (end.tell)(&job);
            }
            job.input.close().await;
        });
    }
}

impl Job {
    /// Returns the state of the command.
    pub fn state(&self) -> JobState {
        self.status.borrow().end.unwrap_or_else(|| JobState::Running(self.began.elapsed()))
    }

    fn runs(&self) -> bool {
        self.status.borrow().end.is_none()
    }

    /// Ends the command with all processes that it has started, and waits until it has ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.wait().await;
    }

    /// Ends the command as [`Self::stop`] does, without announcing its end.
    pub async fn stop_unannounced(&self) {
        self.status.send_modify(|status| status.tell = false);
        self.stop().await;
    }

    /// Waits until the command has ended.
    pub async fn wait(&self) {
        let _ = self.status.subscribe().wait_for(|status| status.end.is_some()).await;
    }

    /// Returns the last lines of the output, 64 KiB at most.
    pub fn output(&self, lines: usize) -> String {
        let text = self.output.lock().all.text();
        let from = memchr::memrchr_iter(b'\n', text.trim_end().as_bytes());
        let from = from.take(lines.max(1)).nth(lines.max(1) - 1).map_or(0, |at| at + 1);
        let from = from.max(text.len().saturating_sub(MAX_SHOWN_BYTES));
        text[text.ceil_char_boundary(from)..].to_owned()
    }

    /// Returns the output since the last call of this function, the first and the last 32 KiB of it at most.
    pub fn new_output(&self) -> String {
        self.output.lock().new.take()
    }

    /// Returns whether there is output that [`Self::new_output`] has not returned yet.
    pub fn has_new_output(&self) -> bool {
        !self.output.lock().new.is_empty()
    }

    /// Sets the callback that decides on the hosts that the command wants to reach from now on.
    pub fn decide_by(&self, connect: &Connect) {
        if let Some(network) = self.network() {
            network.decide_by(Arc::clone(connect));
        }
    }

    /// Returns the network of the command; `None` if it has none of its own, or has ended.
    fn network(&self) -> Option<Arc<NetworkAccess>> {
        self.network.as_ref().and_then(Weak::upgrade)
    }

    /// Returns whether the command waits for a decision on a host, which a person may have to make.
    pub fn is_asking(&self) -> bool {
        self.runs() && self.network().is_some_and(|network| network.is_pending())
    }

    /// Returns the number of bytes that the command has written so far.
    pub fn bytes_written(&self) -> u64 {
        *self.written.borrow()
    }

    /// Waits until the command has ended, or has written more than `bytes` bytes and is quiet, at most for `time`.
    pub async fn wait_for_output(&self, bytes: u64, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        // The receiver is made before the count is read, so that it sees every later change.
        let mut written = self.written.subscribe();
        loop {
            let has_written = *written.borrow_and_update() > bytes;
            let quiet = tokio::time::Instant::now() + QUIET_TIME;
            tokio::select! {
                () = self.wait() => return,
                () = sleep_until(if has_written { quiet.min(end) } else { end }) => return,
                changed = written.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Waits until the command waits for no decision on a host.
    pub async fn wait_for_decision(&self) {
        while self.is_asking() {
            let _ = timeout(ASKING_RECHECK, self.wait()).await;
        }
    }

    /// Waits until the command has ended, at most for `time`. While a host is decided on, the wait goes on. If the
    /// command has not ended by then, its end will be announced.
    pub async fn settle(&self, time: Duration) -> JobState {
        let _ = timeout(time, self.wait()).await;
        while self.is_asking() {
            self.wait_for_decision().await;
            // The answer of the host is part of the first output.
            let _ = timeout(time, self.wait()).await;
        }
        self.status.send_modify(|status| status.tell = status.end.is_none());
        self.state()
    }

    /// Sets the final state. Returns whether the end is to be announced.
    fn set_final_state(&self, end: JobState) -> bool {
        let mut tell = false;
        self.status.send_modify(|status| {
            status.end = Some(end);
            tell = status.tell;
        });
        tell
    }

    fn store(&self, bytes: &[u8]) {
        self.output.lock().push(bytes);
        self.written.send_modify(|written| *written += bytes.len() as u64);
    }

    /// Stores the output of the command until it has ended. Returns the final state.
    async fn follow(&self, mut running: RunningCommand) -> JobState {
        let mut buffer = vec![0; 16 * 1024];
        let mut exited = None;
        let mut open = true;
        loop {
            let drained = match exited {
                Some((status, _)) if !open => {
                    if let Some(why) = running.exceeded_memory() {
                        self.store(format!("\n[{why}]\n").as_bytes());
                    }
                    return JobState::Ended(status);
                }
                Some((_, until)) => until,
                None => tokio::time::Instant::now() + Duration::from_hours(1),
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    running.end().await;
                    return JobState::Stopped;
                }
                read = running.output.read(&mut buffer), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(n) => self.store(&buffer[..n]),
                },
                status = running.exit.wait(), if exited.is_none() => {
                    exited = Some((status, tokio::time::Instant::now() + DRAIN_TIME));
                }
                () = sleep_until(drained), if exited.is_some() => open = false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::net::{Ipv4Addr, TcpListener as StdListener};

    use futures::FutureExt as _;
    use tandem_sandbox::SandboxMode;
    use test_support::limit::HANG;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpStream;

    use super::*;
    use crate::network::{Admission, NetworkProxy, NetworkSetup};
    use crate::terminals::{EnvironmentFilter, Supervisor, Terminals};

    /// A command in the background that finds a proxy.
    struct Stage {
        supervisor: Arc<Supervisor>,
        /// Ends its commands when it is dropped.
        _background: Background,
        _proxy: NetworkProxy,
        /// Port of the proxy.
        port: u16,
        job: Arc<Job>,
    }

    impl Stage {
        fn new(line: &str) -> Self {
            let listener = StdListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let proxy = NetworkProxy::start(listener, Arc::new(NetworkSetup::default())).unwrap();
            let supervisor = Supervisor::new();
            let terminals = Terminals::new(&supervisor, EnvironmentFilter::default());
            let directory = Path::new("/");
            let mut running = terminals.start_with_input(line, directory, &[], None).unwrap();
            running.network = Some(proxy.register());
            let background = Background::new(&ToolLimits::default());
            let sandbox = SandboxMode::ReadOnly;
            let place = CommandPlace { line, directory, sandbox, sees_secrets: false };
            let end = JobEnd { look: ready(()).boxed(), tell: Arc::new(|_| {}) };
            let job = background.start(place, || Ok(running), end).unwrap();
            Self { supervisor, _background: background, _proxy: proxy, port, job }
        }
    }

    #[tokio::test]
    async fn the_registration_at_the_proxy_ends_with_the_command() {
        let stage = Stage::new("cat");
        assert!(stage.job.network().is_some());
        stage.job.input.close().await;
        timeout(HANG, stage.job.wait()).await.expect("the command does not end");
        assert!(stage.job.network().is_none());
        stage.supervisor.end_all().await;
    }

    #[tokio::test]
    async fn the_time_does_not_count_while_a_host_is_decided_on() {
        let stage = Stage::new("cat");
        let (sender, decision) = watch::channel(false);
        let connect: Connect = Arc::new(move |_, _| {
            let mut decision = decision.clone();
            async move {
                decision.wait_for(|is_made| *is_made).await.unwrap();
                Admission::NotNow(String::new())
            }
            .boxed()
        });
        stage.job.decide_by(&connect);
        let address = stage.job.network().unwrap().address();
        let mut stream = TcpStream::connect((address, stage.port)).await.unwrap();
        stream.write_all(b"CONNECT a.test:80 HTTP/1.1\r\n\r\n").await.unwrap();
        let asks = async {
            while !stage.job.is_asking() {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANG, asks).await.expect("no host is decided on");
        let mut settled = std::pin::pin!(stage.job.settle(Duration::from_millis(1)));
        // No event says that the wait goes on, so the test waits a moment.
        assert!(timeout(Duration::from_millis(50), &mut settled).await.is_err());
        sender.send_replace(true);
        let settled = timeout(HANG, settled).await.expect("the wait does not end");
        assert!(matches!(settled, JobState::Running(_)), "{settled}");
        assert!(!stage.job.is_asking());
        stage.job.stop().await;
        stage.supervisor.end_all().await;
    }
}
