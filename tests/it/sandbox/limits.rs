//! Limits on the resources of a command in the sandbox.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use super::{Arena, mechanisms, python, works};
use crate::needs::{Need, lacking};
use crate::places::{copy_program, entered_by_others};

/// Words that start a program as a user who owns no files, for tests that root runs: root has no limit on processes.
const SETPRIV: [&str; 5] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// Id of a user and a group that own no files.
const NOBODY: u32 = 65534;

/// Runs Python in the sandbox with a limit, as an ordinary user.
fn limited(arena: &Arena, mechanism: &str, limit: &str, python: &str, script: &str) -> Output {
    let words = ["sandbox", "--mechanism", mechanism, "--limit", limit, "--", python, "-c", script];
    as_ordinary(arena).args(words).output().unwrap()
}

/// Returns the program in an arena, run by an ordinary user.
pub(super) fn as_ordinary(arena: &Arena) -> Command {
    let program = arena.path().join("tandem");
    if !rustix::process::geteuid().is_root() {
        return arena.program(program.to_str().unwrap());
    }
    let mut command = arena.program(SETPRIV[0]);
    command.args(&SETPRIV[1..]).arg(program);
    command
}

/// Returns an arena with a copy of the program, and an interpreter, both usable by an ordinary user. The repository
/// may be in a directory that this user cannot enter, such as root's home.
pub(super) fn ordinary() -> Option<(Arena, &'static str)> {
    let python = python()?;
    if lacking(Need::Setpriv) {
        return None;
    }
    let arena = Arena::of(entered_by_others());
    copy_program(arena.path());
    if rustix::process::geteuid().is_root() {
        for path in [arena.path(), &arena.home(), &arena.workspace()] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    Some((arena, python))
}

/// Script that starts processes, and prints their number when no further process can start.
const BOMB: &str = "
import os
reader, writer = os.pipe()
started = 0
try:
    while started < 500:
        if os.fork() == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        started += 1
except BlockingIOError:
    pass
print(started)";

#[test]
fn no_more_processes_start_than_may_and_the_agent_lives() {
    let Some((arena, python)) = ordinary().filter(|_| works("namespaces")) else { return };
    let ran = limited(&arena, "namespaces", "sandbox-processes=40", python, BOMB);
    assert!(ran.status.success(), "{ran:?}");
    let started: u32 = String::from_utf8(ran.stdout).unwrap().trim().parse().unwrap();
    // Of 40 processes, some are the program itself and the helper that waits for it.
    assert!((30..40).contains(&started), "{started}");
}

#[test]
fn processes_of_the_user_outside_are_not_counted() {
    let Some((arena, python)) = ordinary() else { return };
    for mechanism in mechanisms() {
        let script =
            "import subprocess; print(subprocess.check_output(['echo', 'started']).decode())";
        let ran = limited(&arena, mechanism, "sandbox-processes=10", python, script);
        let stdout = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(stdout.trim(), "started", "{mechanism}: {ran:?}");
    }
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    let arena = Arena::new();
    let Some(python) = python() else { return };
    for mechanism in mechanisms() {
        for (bytes, expected) in [("1 << 20", "made"), ("1 << 30", "refused")] {
            let script = format!(
                "try:\n b = bytearray({bytes}); print('made')\nexcept MemoryError:\n print('refused')"
            );
            let mut command = arena.program(env!("CARGO_BIN_EXE_tandem"));
            command.args(["sandbox", "--mechanism", mechanism]);
            command.args([
                "--limit",
                "sandbox-memory-bytes=200000000",
                "--",
                python,
                "-c",
                &script,
            ]);
            let ran = command.output().unwrap();
            let stdout = String::from_utf8_lossy(&ran.stdout);
            assert_eq!(stdout.trim(), expected, "{mechanism}, {bytes}: {ran:?}");
        }
    }
}

#[test]
fn temporary_files_and_shared_memory_beyond_the_limit_are_refused() {
    let arena = Arena::new();
    for mechanism in mechanisms() {
        let directories: &[_] = match mechanism {
            "namespaces" => &["/tmp", "/var/tmp", "/dev/shm"],
            "bubblewrap" => &["/dev/shm"],
            // With the other mechanisms, these directories are not the command's own, so the command cannot write
            // there.
            _ => &[],
        };
        for directory in directories {
            // The limit counts written bytes and not names: a file that was removed while it is open still takes
            // space.
            let line = format!(
                "cd {directory} && head -c 900000 /dev/zero > small && echo fits
                exec 3> unseen; rm unseen small; head -c 2000000 /dev/zero >&3
                exec 3>&-; for i in $(seq 600); do : > $i || break; done; ls | wc -l"
            );
            let mut command = arena.program(env!("CARGO_BIN_EXE_tandem"));
            command.args(["sandbox", "--mechanism", mechanism]);
            command.args(["--limit", "sandbox-temporary-bytes=1000000", "--", "/bin/bash", "-c"]);
            let ran = command.arg(line).output().unwrap();
            let stdout = String::from_utf8_lossy(&ran.stdout);
            let stderr = String::from_utf8_lossy(&ran.stderr);
            let files: usize = stdout.strip_prefix("fits\n").unwrap_or("0").trim().parse().unwrap();
            let is_right =
                if mechanism == "namespaces" { (100..600).contains(&files) } else { files == 600 };
            assert!(
                is_right && stderr.contains("No space left"),
                "{mechanism}, {directory}: {ran:?}"
            );
        }
    }
}

/// Returns the directories of sessions in the agent's state.
fn session_directories(arena: &Arena) -> Vec<PathBuf> {
    let state = fs::read_dir(arena.home().join(".local/state/tandem")).into_iter().flatten();
    let paths = state.flatten().map(|entry| entry.path());
    let is_session =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("session-");
    paths.filter(is_session).collect()
}

#[test]
fn temporary_files_of_a_killed_agent_are_gone_with_the_next_start() {
    for mechanism in mechanisms() {
        let arena = Arena::new();
        let line = "echo large > \"$TMPDIR/large\" && echo written && exec cat";
        let mut command = arena.sandboxed(mechanism, "read-only", &["/bin/bash", "-c", line]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut agent = command.spawn().unwrap();
        let mut written = String::new();
        BufReader::new(agent.stdout.as_mut().unwrap()).read_line(&mut written).unwrap();
        assert_eq!(written, "written\n", "{mechanism}");
        // The command ends when its input is closed.
        let input = agent.stdin.take();
        agent.kill().unwrap();
        agent.wait().unwrap();
        drop(input);
        // A new directory counts as that of an agent that is just starting, so the test makes the directories older.
        let long_ago = SystemTime::now() - Duration::from_mins(1);
        for directory in session_directories(&arena) {
            let lock = fs::File::options().write(true).open(directory.join("lock")).unwrap();
            lock.set_modified(long_ago).unwrap();
        }
        let next = arena.bash(
            mechanism,
            "read-only",
            r#"cat "$TMPDIR/large"; echo small > "$TMPDIR/small""#,
        );
        assert!(next.status.success() && next.stdout.is_empty(), "{mechanism}: {next:?}");
        assert_eq!(session_directories(&arena), Vec::<PathBuf>::new(), "{mechanism}");
    }
}

#[test]
fn when_memory_runs_short_the_command_goes_before_the_agent() {
    let arena = Arena::new();
    let own: i32 = fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
    for mechanism in mechanisms() {
        let ran = arena.bash(mechanism, "read-only", "cat /proc/self/oom_score_adj");
        let stdout = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(stdout.trim(), own.max(500).to_string(), "{mechanism}");
    }
}
