//! The command lines of the policy's table, run for real: files and processes outside of the sandbox stay unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use test_support::limit::HANG;

use super::attacks::tree;
use super::{Arena, works};

/// Time limit of a line. Some lines never end by themselves.
const LINE_TIMEOUT: Duration = Duration::from_millis(400);

/// Number of workspaces in which lines run at the same time.
const ARENAS: usize = 6;

/// A process that no line may end, and a port that no line may reach.
struct Outside {
    process: Child,
    port: TcpListener,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Outside {
    fn start(arena: &Arena) -> Self {
        for name in [
            ".bashrc",
            ".profile",
            ".gitconfig",
            ".ssh/id_rsa",
            ".config/tool/settings.json",
            ".local/bin/tool",
            "neighbour/README.md",
            "neighbour/src/main.rs",
        ] {
            arena.file(name, "canary\n");
        }
        arena.outside(
            "git init -q && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m first",
        );
        let process = Command::new("sleep").arg("3600").spawn().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        port.set_nonblocking(true).unwrap();
        let files = Self::files(arena);
        Self { process, port, files }
    }

    /// Returns all files in the home, except those of the agent itself, and except those of the workspace that git
    /// does not track.
    fn files(arena: &Arena) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = tree(&arena.home());
        let (workspace, git) = (arena.workspace(), arena.workspace().join(".git"));
        let own = arena.home().join(".local/state");
        files.retain(|path, _| {
            !path.starts_with(&own) && (!path.starts_with(&workspace) || path.starts_with(&git))
        });
        files
    }

    #[track_caller]
    fn check(&mut self, arena: &Arena, line: &str) {
        let reached = self.port.accept();
        assert!(reached.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{line}");
        assert!(self.process.try_wait().unwrap().is_none(), "{line}");
        let files = Self::files(arena);
        let of = |path: &PathBuf| (files.get(path), self.files.get(path));
        let changed = files.keys().chain(self.files.keys());
        let changed: Vec<_> = changed.filter(|path| of(path).0 != of(path).1).collect();
        assert!(changed.is_empty(), "{line}: {changed:?}");
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes the files that the lines use, which the line before may have removed.
fn furnish(arena: &Arena) {
    for (name, content) in [
        ("README.md", "# Project\n"),
        ("src/main.rs", "fn main() {} // TODO\n"),
        ("docs/guide.md", "Read it.\n"),
        ("Cargo.toml", "[package]\nname = \"project\"\nversion = \"0.1.0\"\n"),
    ] {
        let path = arena.workspace().join(name);
        // Errors are ignored: a command may have put another file in this place.
        let _ = fs::create_dir_all(path.parent().unwrap());
        let _ = fs::write(path, content);
    }
}

/// Runs a command, and ends it after the time limit. A signal that kills the program would leave its command
/// running. So a signal is sent first that the program passes on.
fn run(mut command: Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (ended, end) = mpsc::channel::<()>();
    let id = Pid::from_child(&child);
    let watch = thread::spawn(move || {
        for (time, signal) in [(LINE_TIMEOUT, Signal::TERM), (HANG, Signal::KILL)] {
            let Err(mpsc::RecvTimeoutError::Timeout) = end.recv_timeout(time) else { return };
            let _ = kill_process(id, signal);
        }
    });
    child.wait().unwrap();
    let _ = ended.send(());
    watch.join().unwrap();
}

/// Runs every n-th line of the table.
fn stays_outside(mechanism: &str, every: usize) {
    if !works(mechanism) {
        return;
    }
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policy/commands.txt");
    let table = fs::read_to_string(table).unwrap();
    let lines = table.lines().filter(|line| {
        // The last condition leaves out a fork bomb: root has no limit on the number of processes.
        !line.starts_with("    ") && !line.starts_with("--") && !line.contains(":|:")
    });
    let lines: Vec<_> = lines.step_by(every).collect();
    assert!(lines.len() > 1400 / every, "{}", lines.len());
    // Many lines only wait, for input, for the network or for a time limit, so the lines run in parallel.
    thread::scope(|scope| {
        for lines in lines.chunks(lines.len().div_ceil(ARENAS)) {
            scope.spawn(|| stay_outside(mechanism, lines));
        }
    });
}

/// Runs lines one after another in a workspace of their own.
fn stay_outside(mechanism: &str, lines: &[&str]) {
    let arena = Arena::new();
    let mut outside = Outside::start(&arena);
    for line in lines {
        let line = line.replace('⏎', "\n").replace('⇥', "\t");
        let line = line.replace("{root}", &arena.workspace().display().to_string());
        furnish(&arena);
        let words = ["/bin/bash", "-c", &line];
        let mut command = arena.sandboxed(mechanism, "workspace-write", &words);
        command.env("CANARY_PORT", outside.port.local_addr().unwrap().port().to_string());
        run(command);
        outside.check(&arena, &line);
    }
}

#[test]
fn lines_of_the_table_touch_nothing_outside_the_namespaces() {
    stays_outside("namespaces", 2);
}

#[test]
fn lines_of_the_table_touch_nothing_outside_bubblewrap() {
    stays_outside("bubblewrap", 5);
}
