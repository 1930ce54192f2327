//! The one place where commands of a session start: the model's, the user's, those in the
//! background and MCP servers. What a command is given of the environment is decided here, and so
//! is whatever fences it in.

mod guard;
mod login_shell;
mod memory;
mod orphans;
mod supervisor;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::iter;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::command_sandbox::Confinement;
use super::network::NetworkAccess;

use self::login_shell::LoginVariables;
pub use self::supervisor::{Exit, Supervisor, left_alone};
use self::supervisor::{MARK, Spawned, test_group};

/// Time for the group of a command between SIGTERM and SIGKILL.
const COMMAND_GRACE: Duration = Duration::from_millis(200);

/// The same for a program that is talked to: it may have work to put down.
const PROGRAM_GRACE: Duration = Duration::from_secs(1);

/// Environment variables of every command. A pager would wait for keys.
pub const COMMAND_VARIABLES: [(&str, &str); 3] =
    [("GEMINI_CLI", "1"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];

/// Starts the commands of one session.
pub struct Terminals {
    supervisor: Arc<Supervisor>,
    environment: EnvironmentFilter,
}

/// Environment variables of this process that commands do not get.
pub struct EnvironmentFilter(Box<IsHidden>);

type IsHidden = dyn Fn(&str, &str) -> bool + Send + Sync;

impl EnvironmentFilter {
    /// Takes away the variables (name, value) that `hides` returns `true` for.
    pub fn new(hides: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        Self(Box::new(hides))
    }

    /// Returns whether commands do not get a variable.
    pub fn hides(&self, name: &str, value: &str) -> bool {
        (self.0)(name, value)
    }
}

impl Default for EnvironmentFilter {
    /// Takes nothing away.
    fn default() -> Self {
        Self::new(|_, _| false)
    }
}

/// A command that runs. It is ended when this is dropped.
pub struct RunningCommand {
    /// Its process group.
    pub group: i32,
    /// Standard output and error, in the order written.
    pub output: CommandOutput,
    /// End of the command itself; what it left in its group may still run.
    pub exit: Exit,
    end: CancellationToken,
    /// The limit of memory for which it was ended, in bytes.
    exceeded: Arc<OnceLock<u64>>,
    /// Its way to the network, which ends with it.
    _network: Option<Arc<NetworkAccess>>,
    _end_on_drop: DropGuard,
}

impl RunningCommand {
    /// Ends the whole group and waits until it has ended.
    pub async fn end(&mut self) {
        self.end.cancel();
        self.exit.of_group().await;
    }

    /// Returns a message for the model if it was ended because it took too much memory.
    pub fn exceeded_memory(&self) -> Option<String> {
        let limit = self.exceeded.get()?;
        Some(format!(
            "The command was ended: it and what it has started took more memory than the {limit} bytes that \
             they may have in the sandbox."
        ))
    }

    /// Returns the processes left in the group, the command itself not counted.
    pub fn left_behind(&self) -> Vec<i32> {
        if test_group(self.group) { table::members(self.group) } else { Vec::new() }
    }
}

/// Output of a command. When it is dropped it is read all the same: what runs on in the background
/// would else end when it next writes a line.
pub struct CommandOutput(Option<pipe::Receiver>);

impl CommandOutput {
    /// Reads the bytes that there are; 0 at the end.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(output) => output.read(buffer).await,
            None => Ok(0),
        }
    }
}

impl Drop for CommandOutput {
    fn drop(&mut self) {
        // Without a runtime nothing is left running either.
        if let (Some(mut output), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
            });
        }
    }
}

/// A program to talk to for as long as it lives, over standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// A path, or a name that is looked for in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables put into its environment, which otherwise is that of every command.
    pub env: Vec<(String, String)>,
    /// Working directory; absolute.
    pub directory: PathBuf,
}

/// A program that runs. It is ended, with all that it started, when this is dropped.
pub struct RunningProgram {
    /// Standard input.
    pub input: ChildStdin,
    /// Standard output.
    pub output: ChildStdout,
    /// Standard error.
    pub errors: ChildStderr,
    /// Its end.
    pub life: Life,
}

/// Tells when a program has ended, and ends it when dropped.
pub struct Life {
    /// End of the program itself.
    pub exit: Exit,
    end_on_drop: DropGuard,
}

impl Life {
    /// Ends the program, with all that it started, and waits until that has ended.
    pub async fn end(self) {
        let Self { mut exit, end_on_drop } = self;
        drop(end_on_drop);
        exit.of_group().await;
    }
}

impl Terminals {
    /// Starts nothing yet. Every variable that `environment` lets through reaches every command.
    pub fn new(supervisor: &Arc<Supervisor>, environment: EnvironmentFilter) -> Arc<Self> {
        Arc::new(Self { supervisor: Arc::clone(supervisor), environment })
    }

    /// Starts `bash -c command` (`sh` where there is no bash) with these environment variables
    /// besides, without standard input; in the sandbox, if there is a confinement.
    pub fn start(
        &self,
        command: &str,
        directory: &Path,
        variables: &[(String, String)],
        confinement: Option<&Confinement>,
    ) -> io::Result<RunningCommand> {
        let (output, writer) = io::pipe()?;
        let mut shell = self.shell(command, directory, confinement)?;
        shell.envs(variables.iter().map(|(name, value)| (name, value)));
        shell.stdout(writer.try_clone()?).stderr(writer);
        let Spawned { group, exit, end, .. } = self.supervisor.spawn(&mut shell, COMMAND_GRACE)?;
        // The shell holds the ends of the pipe, and so would `shell`: output would never end.
        drop(shell);
        let exceeded = Arc::<OnceLock<_>>::default();
        if let Some(confinement) = confinement {
            let limit = confinement.profile().limits.memory_bytes;
            let (exceeded, end, mut exit) = (Arc::clone(&exceeded), end.clone(), exit.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = exit.of_group() => {}
                    limit = memory::wait_until_exceeded(group, limit) => {
                        let _ = exceeded.set(limit);
                        end.cancel();
                    }
                }
            });
        }
        Ok(RunningCommand {
            group,
            output: CommandOutput(Some(pipe::Receiver::from_owned_fd(OwnedFd::from(output))?)),
            exit,
            exceeded,
            _network: confinement.and_then(Confinement::network).cloned(),
            _end_on_drop: end.clone().drop_guard(),
            end,
        })
    }

    /// Starts a program to talk to; in the sandbox, if there is a confinement.
    pub fn serve(
        &self,
        program: &Program,
        confinement: Option<&Confinement>,
    ) -> io::Result<RunningProgram> {
        let (mut command, variables) = if let Some(confinement) = confinement {
            let words = iter::once(&program.command).chain(&program.args);
            let (command, variables) = confinement.command_with(words, &program.env)?;
            (command.into(), variables)
        } else {
            let mut command = Command::new(&program.command);
            command.args(&program.args);
            (command, program.env.iter().collect())
        };
        command.current_dir(&program.directory);
        self.set_environment(&mut command);
        command.envs(confinement.map(Confinement::network_variables).into_iter().flatten());
        // What the user puts in is meant for it, secret or not.
        command.envs(variables.into_iter().map(|(name, value)| (name, value)));
        command.env("GEMINI_CLI", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Spawned { pipes, exit, end, .. } =
            self.supervisor.spawn(&mut command, PROGRAM_GRACE)?;
        let life = Life { exit, end_on_drop: end.drop_guard() };
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("the program has no pipes"));
        };
        Ok(RunningProgram { input, output, errors, life })
    }

    /// Waits until something can be started: while others may take this process's sessions over, nothing can.
    pub async fn may_start(&self) {
        self.supervisor.may_start().await;
    }

    /// Finds out where programs are, if that is not known: to be waited for before one is started.
    /// Takes a bounded time, and only once; mostly none at all.
    pub async fn find_programs(&self) {
        if login_shell::has_bare_path() {
            self.ask_login_shell().await;
        }
    }

    /// Returns whether there is a login shell with variables that this process may lack.
    pub fn has_login_shell(&self) -> bool {
        login_shell::login_shell().is_some()
    }

    /// Returns the values that the supervisor's [`login_variables`](Supervisor::of_agent) have in the
    /// user's login shell. Takes a bounded time, and only once.
    pub async fn login_variables(&self) -> HashMap<String, String> {
        self.ask_login_shell().await.map(|login| login.values.clone()).unwrap_or_default()
    }

    async fn ask_login_shell(&self) -> Option<&LoginVariables> {
        let ask = || async { self.variables_of(&login_shell::login_shell()?).await };
        self.supervisor.login_shell.answer.get_or_init(ask).await.as_ref()
    }

    async fn variables_of(&self, shell: &Path) -> Option<LoginVariables> {
        let written = timeout(login_shell::PATIENCE, self.output_of(shell)).await;
        let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let written = written.inspect_err(|err| {
            tracing::warn!("{} does not say what its variables are: {err}", shell.display());
        });
        login_shell::read(&written.ok()?, &self.supervisor.login_shell.names)
    }

    /// Returns the first bytes that a shell writes which is asked for its variables.
    async fn output_of(&self, shell: &Path) -> io::Result<Vec<u8>> {
        let RunningProgram { input, output, mut errors, life: _ended_when_dropped } = self.serve(
            &Program {
                command: shell.display().to_string(),
                args: login_shell::arguments(&self.supervisor.login_shell.names),
                // People's files start things that a terminal is for.
                env: vec![("TERM".to_owned(), "dumb".to_owned())],
                directory: PathBuf::from("/"),
            },
            None,
        )?;
        drop(input);
        // Nobody reads what it complains about, and it must not wait for that.
        tokio::spawn(async move { tokio::io::copy(&mut errors, &mut tokio::io::sink()).await });
        let mut written = Vec::new();
        output.take(login_shell::MOST).read_to_end(&mut written).await?;
        Ok(written)
    }

    /// Returns the environment that commands are started with, as far as it is known now: see
    /// [`Self::find_programs`].
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        // Nothing can go wrong without a sandbox.
        let Ok(mut command) = self.shell("", Path::new("/"), None) else { return Vec::new() };
        command.env(MARK, "");
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.as_std_mut().get_envs() {
            match value {
                Some(value) => _ = environment.insert(name.to_owned(), value.to_owned()),
                None => _ = environment.remove(name),
            }
        }
        environment.into_iter().collect()
    }

    fn shell(
        &self,
        line: &str,
        directory: &Path,
        confinement: Option<&Confinement>,
    ) -> io::Result<Command> {
        let bash = Path::new("/bin/bash");
        let program = if bash.exists() { bash } else { Path::new("/bin/sh") };
        let mut shell = if let Some(confinement) = confinement {
            let words = [program.into(), "-c".into(), line.into()];
            Command::from(confinement.command(&words)?)
        } else {
            let mut shell = Command::new(program);
            shell.arg("-c").arg(line);
            shell
        };
        shell.current_dir(directory).stdin(Stdio::null());
        shell.envs(COMMAND_VARIABLES);
        // The policy has judged where a `cd` leads; this would lead it elsewhere.
        shell.env_remove("CDPATH");
        self.set_environment(&mut shell);
        // One of the agent's own may be hidden, as it has a password in it.
        shell.envs(confinement.into_iter().flat_map(Confinement::network_variables));
        Ok(shell)
    }

    /// Sets this process's own environment, without secrets, and with the `PATH` that the user has.
    fn set_environment(&self, command: &mut Command) {
        let login = self.supervisor.login_shell.answer.get().and_then(Option::as_ref);
        if let Some(path) = login.and_then(|login| login.path.as_ref()) {
            command.env("PATH", path);
        }
        for (name, value) in std::env::vars_os() {
            if let Some(name) = name.to_str()
                && self.environment.hides(name, &value.to_string_lossy())
            {
                command.env_remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shell_that_hangs_is_given_up_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let shell = dir.path().join("sh");
        fs::write(&shell, "#!/bin/sh\nsleep 1000\n").unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o700)).unwrap();
        let supervisor = Supervisor::new();
        let terminals = Terminals::new(&supervisor, EnvironmentFilter::default());
        assert!(terminals.variables_of(&shell).await.is_none());
        supervisor.end_all().await;
    }
}
