//! Programs under measurement, over plain blocking pipes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// A program that runs.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
    /// Its home, and where it works.
    _home: Option<TempDir>,
}

/// The agent, in a home of its own, with these arguments and variables.
pub(crate) fn tandem(args: &[&str], vars: &[(&str, &str)]) -> Process {
    let (command, home) = command(args, vars);
    start(command, Some(home))
}

/// Returns a command that starts the agent so, and the home.
pub(crate) fn command(args: &[&str], vars: &[(&str, &str)]) -> (Command, TempDir) {
    let home = TempDir::new().unwrap();
    let mut command = command_in(home.path());
    command.envs(vars.iter().copied()).args(args);
    (command, home)
}

/// Returns a command that starts the agent in a home.
pub(crate) fn command_in(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.env_clear().env("HOME", home).env("PATH", std::env::var_os("PATH").unwrap());
    command.current_dir(home);
    command
}

/// The agent with a replay script.
pub(crate) fn scripted(script: &str, args: &[&str]) -> Process {
    let home = TempDir::new().unwrap();
    let path = home.path().join("script.jsonl");
    fs::write(&path, script).unwrap();
    let model = format!("replay:{}", path.display());
    let mut process = tandem(&[&["--model", &model], args].concat(), &[]);
    process.initialize();
    process
}

/// This program, in another part.
pub(crate) fn myself(part: &str, count: usize) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--as", part, &count.to_string()]);
    start(command, None)
}

pub(crate) fn start(mut command: Command, home: Option<TempDir>) -> Process {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let output = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
    Process { child, input, output, _home: home }
}

impl Process {
    pub(crate) fn send(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).unwrap();
        self.input.write_all(b"\n").unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the program has ended");
        line
    }

    pub(crate) fn initialize(&mut self) {
        self.send(INITIALIZE);
        self.line();
    }

    /// Reads until a line begins so.
    pub(crate) fn until(&mut self, beginning: &str) -> usize {
        let mut line = String::new();
        let mut lines = 0;
        while !line.starts_with(beginning) {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the program has ended");
            lines += 1;
        }
        lines
    }

    pub(crate) fn cpu(&self) -> f64 {
        cpu(self.child.id())
    }

    pub(crate) fn memory(&self, field: &str) -> u64 {
        memory(self.child.id(), field)
    }
}

/// Seconds of CPU that a program has had, all threads together.
pub(crate) fn cpu(id: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let nanoseconds = tasks.map(|task| {
        let schedstat = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        schedstat.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// Returns how often a program's threads have begun to wait.
pub(crate) fn switches(id: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    tasks.map(|task| field(&task.unwrap().path().join("status"), "voluntary_ctxt_switches")).sum()
}

/// A field of its memory, in KiB.
pub(crate) fn memory(id: u32, name: &str) -> u64 {
    field(Path::new(&format!("/proc/{id}/status")), name)
}

fn field(status: &Path, name: &str) -> u64 {
    let status = fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first line that an editor sends.
pub(crate) const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"0.0.9"}}"#;

/// A prompt.
pub(crate) const PROMPT: &str = r#"{"jsonrpc":"2.0","id":"prompt","method":"sendUserMessage","params":{"chunks":[{"text":"go"}]}}"#;
