//! The one place where commands of a session start: the model's, the user's, background commands and MCP servers. It
//! decides which environment variables a command gets, and applies the sandbox.

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
use self::supervisor::{MARK_VARIABLE, Spawned, test_group};

/// Time between SIGTERM and SIGKILL for the process group of a command.
const COMMAND_GRACE: Duration = Duration::from_millis(200);

/// Time between SIGTERM and SIGKILL for a program that the agent talks to: the program may have to save its state.
const PROGRAM_GRACE: Duration = Duration::from_secs(1);

/// Environment variables of every command. Output goes to `cat` because a pager would wait for keys.
pub const COMMAND_VARIABLES: [(&str, &str); 3] =
    [("GEMINI_CLI", "1"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];

/// Starter of the commands of one session.
pub struct Terminals {
    supervisor: Arc<Supervisor>,
    environment: EnvironmentFilter,
}

/// Filter of this process's environment variables that commands do not get.
pub struct EnvironmentFilter(Box<IsHidden>);

type IsHidden = dyn Fn(&str, &str) -> bool + Send + Sync;

impl EnvironmentFilter {
    /// Returns a filter that removes each variable (name, value) for which `hides` returns `true`.
    pub fn new(hides: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        Self(Box::new(hides))
    }

    /// Returns whether a variable is withheld from commands.
    pub fn hides(&self, name: &str, value: &str) -> bool {
        (self.0)(name, value)
    }
}

impl Default for EnvironmentFilter {
    /// Returns a filter that removes nothing.
    fn default() -> Self {
        Self::new(|_, _| false)
    }
}

/// Returns the shell that runs command lines.
pub fn shell_program() -> &'static Path {
    let bash = Path::new("/bin/bash");
    if bash.exists() { bash } else { Path::new("/bin/sh") }
}

/// A running command. The command is ended when this value is dropped.
pub struct RunningCommand {
    /// Number of the command's process group.
    pub group: i32,
    /// Standard input, if the command was started with one.
    pub input: Option<ChildStdin>,
    /// Standard output and standard error, in the order written.
    pub output: CommandOutput,
    /// End of the command itself. Processes that it left in its group may still run.
    pub exit: Exit,
    end: CancellationToken,
    /// Memory limit in bytes, set when the command was ended for exceeding it.
    exceeded: Arc<OnceLock<u64>>,
    /// Registration of the command at the proxy, which ends with the command.
    pub(super) network: Option<Arc<NetworkAccess>>,
    _end_on_drop: DropGuard,
}

impl RunningCommand {
    /// Ends the whole group and waits until it has ended.
    pub async fn end(&mut self) {
        self.end.cancel();
        self.exit.of_group().await;
    }

    /// Returns a message for the model if the command was ended because it used too much memory.
    pub fn exceeded_memory(&self) -> Option<String> {
        let limit = self.exceeded.get()?;
        Some(format!(
            "The command was ended: its processes took more memory than the {limit} bytes that they may have in \
             the sandbox."
        ))
    }

    /// Returns the processes that are left in the group, without the command itself.
    pub fn left_behind(&self) -> Vec<i32> {
        if test_group(self.group) { table::members(self.group) } else { Vec::new() }
    }
}

/// Output of a command. After a drop, a task still reads the output and discards it: a process that is left running
/// in the background would otherwise be killed by its next write to the closed pipe.
pub struct CommandOutput(Option<pipe::Receiver>);

impl CommandOutput {
    /// Reads the bytes that are available, and waits if there are none. Returns 0 at the end of the output.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(output) => output.read(buffer).await,
            None => Ok(0),
        }
    }
}

impl Drop for CommandOutput {
    fn drop(&mut self) {
        // Without a runtime, no command is left running either.
        if let (Some(mut output), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
            });
        }
    }
}

/// A program that the agent starts and talks to over standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Path of the program, or a name that is looked for in `PATH`.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program, in addition to those of every command.
    pub env: Vec<(String, String)>,
    /// Working directory; absolute.
    pub directory: PathBuf,
}

/// A running program. The program, and all processes that it started, are ended when this value is dropped.
pub struct RunningProgram {
    /// Standard input.
    pub input: ChildStdin,
    /// Standard output.
    pub output: ChildStdout,
    /// Standard error.
    pub errors: ChildStderr,
    /// Handle to the program's end.
    pub life: ProgramHandle,
}

/// Handle that says when a program has ended, and that ends the program when it is dropped.
pub struct ProgramHandle {
    /// End of the program itself.
    pub exit: Exit,
    end_on_drop: DropGuard,
}

impl ProgramHandle {
    /// Ends the program and all processes that it started, and waits until they have ended.
    pub async fn end(self) {
        let Self { mut exit, end_on_drop } = self;
        drop(end_on_drop);
        exit.of_group().await;
    }
}

impl Terminals {
    /// Returns a starter of commands. Each command gets every environment variable that `environment` lets through.
    pub fn new(supervisor: &Arc<Supervisor>, environment: EnvironmentFilter) -> Arc<Self> {
        Arc::new(Self { supervisor: Arc::clone(supervisor), environment })
    }

    /// Starts `bash -c command` (`sh` where there is no bash), without standard input and with these additional
    /// environment variables. The command runs in the sandbox if there is a confinement.
    pub fn start(
        &self,
        command: &str,
        directory: &Path,
        variables: &[(String, String)],
        confinement: Option<&Confinement>,
    ) -> io::Result<RunningCommand> {
        let shell = self.shell_with(command, directory, variables, confinement)?;
        self.run_shell(shell, confinement)
    }

    /// Starts a command as [`Self::start`] does, with a pipe as its standard input.
    pub fn start_with_input(
        &self,
        command: &str,
        directory: &Path,
        variables: &[(String, String)],
        confinement: Option<&Confinement>,
    ) -> io::Result<RunningCommand> {
        let mut shell = self.shell_with(command, directory, variables, confinement)?;
        shell.stdin(Stdio::piped());
        self.run_shell(shell, confinement)
    }

    /// Returns the shell that runs a command line, with additional environment variables.
    fn shell_with(
        &self,
        command: &str,
        directory: &Path,
        variables: &[(String, String)],
        confinement: Option<&Confinement>,
    ) -> io::Result<Command> {
        let mut shell = self.shell(command, directory, confinement)?;
        shell.envs(variables.iter().map(|(name, value)| (name, value)));
        Ok(shell)
    }

    fn run_shell(
        &self,
        mut shell: Command,
        confinement: Option<&Confinement>,
    ) -> io::Result<RunningCommand> {
        let (output, writer) = io::pipe()?;
        shell.stdout(writer.try_clone()?).stderr(writer);
        let Spawned { group, pipes: (input, ..), exit, end } =
            self.supervisor.spawn(&mut shell, COMMAND_GRACE)?;
        // `shell` holds the write ends of the pipe, and is dropped so that the output ends when the last process has
        // closed them.
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
            input,
            output: CommandOutput(Some(pipe::Receiver::from_owned_fd(OwnedFd::from(output))?)),
            exit,
            exceeded,
            network: confinement.and_then(Confinement::network).cloned(),
            _end_on_drop: end.clone().drop_guard(),
            end,
        })
    }

    /// Starts a program that the agent talks to. The program runs in the sandbox if there is a confinement.
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
        // Variables that the user has set for this program are passed on even if they hold secrets.
        command.envs(variables.into_iter().map(|(name, value)| (name, value)));
        command.env("GEMINI_CLI", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Spawned { pipes, exit, end, .. } =
            self.supervisor.spawn(&mut command, PROGRAM_GRACE)?;
        let life = ProgramHandle { exit, end_on_drop: end.drop_guard() };
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("the program has no pipes"));
        };
        Ok(RunningProgram { input, output, errors, life })
    }

    /// Waits until commands may be started. They may not while other nodes may take over the sessions of this process.
    pub async fn may_start(&self) {
        self.supervisor.may_start().await;
    }

    /// Asks the user's login shell for `PATH` if this process was started without the user's. To be awaited before a
    /// program is started. Takes a bounded time and happens only once; mostly it is not needed at all.
    pub async fn find_programs(&self) {
        if login_shell::has_bare_path() {
            self.ask_login_shell().await;
        }
    }

    /// Returns whether there is a login shell that may have variables which this process lacks.
    pub fn has_login_shell(&self) -> bool {
        login_shell::login_shell().is_some()
    }

    /// Asks the user's login shell for the variables that were given to [`Supervisor::of_agent`]. Returns the values of
    /// those that are set. Takes a bounded time, and asks only once.
    pub async fn login_variables(&self) -> HashMap<String, String> {
        self.ask_login_shell().await.map(|login| login.values.clone()).unwrap_or_default()
    }

    async fn ask_login_shell(&self) -> Option<&LoginVariables> {
        let ask = || async { self.variables_of(&login_shell::login_shell()?).await };
        self.supervisor.login_shell.answer.get_or_init(ask).await.as_ref()
    }

    async fn variables_of(&self, shell: &Path) -> Option<LoginVariables> {
        let written = timeout(login_shell::ANSWER_TIMEOUT, self.output_of(shell)).await;
        let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let written = written.inspect_err(|err| {
            tracing::warn!("{} does not say what its variables are: {err}", shell.display());
        });
        login_shell::read(&written.ok()?, &self.supervisor.login_shell.names)
    }

    /// Starts a login shell that prints its variables, and returns the first bytes of its output.
    async fn output_of(&self, shell: &Path) -> io::Result<Vec<u8>> {
        let RunningProgram { input, output, mut errors, life: _ended_when_dropped } = self.serve(
            &Program {
                command: shell.display().to_string(),
                args: login_shell::arguments(&self.supervisor.login_shell.names),
                // The start-up files of a shell may start programs that need a real terminal; `dumb` says that there is
                // none.
                env: vec![("TERM".to_owned(), "dumb".to_owned())],
                directory: PathBuf::from("/"),
            },
            None,
        )?;
        drop(input);
        // Standard error is read and discarded, as the shell would otherwise wait when the pipe is full.
        tokio::spawn(async move { tokio::io::copy(&mut errors, &mut tokio::io::sink()).await });
        let mut written = Vec::new();
        output.take(login_shell::MAX_OUTPUT_BYTES).read_to_end(&mut written).await?;
        Ok(written)
    }

    /// Returns the environment with which commands are started, as far as it is known now: see [`Self::find_programs`].
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        // Building the command cannot fail without a sandbox.
        let Ok(mut command) = self.shell("", Path::new("/"), None) else { return Vec::new() };
        command.env(MARK_VARIABLE, "");
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
        let program = shell_program();
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
        // `CDPATH` is removed because the policy has judged where a `cd` leads without it.
        shell.env_remove("CDPATH");
        self.set_environment(&mut shell);
        // The proxy variables are set again: the filter may have removed them, because the agent's own variables of
        // these names may contain a password.
        shell.envs(confinement.into_iter().flat_map(Confinement::network_variables));
        Ok(shell)
    }

    /// Gives a command this process's environment without the hidden variables, and with the user's `PATH` if the login
    /// shell was asked for it.
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
