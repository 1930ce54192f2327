//! Real work in the sandbox, and the files and processes that a command leaves behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::{Arena, mechanisms, python};
use crate::needs::{self, Need, lacking};
use crate::places::copy_program;
use crate::terminal::Terminal;
use test_support::limit::HANG;

/// Work: its name, the programs that it needs, a line of bash, and the last output of the line.
const WORK: &[(&str, &[Need], &str, &str)] = &[
    ("writes the workspace", &[], "echo new > new && mv new newer && cat newer && rm newer", "new"),
    (
        "has a directory for temporary files",
        &[],
        r#"f=$(mktemp) && echo x > "$f" && cat "$f""#,
        "x",
    ),
    (
        "shares that directory with the next command",
        &[],
        r#"echo kept > "$TMPDIR/kept"; ls "$TMPDIR""#,
        "kept",
    ),
    ("reads the machine", &[], "test -s /etc/passwd && ls / | grep -c '^usr$'", "1"),
    (
        "is who the user is",
        &[],
        "touch own && test -O own && test $(id -u) = $UID && rm own && echo ok",
        "ok",
    ),
    ("runs a pipe of 10 MB", &[], "head -c 10000000 /dev/zero | cat | wc -c", "10000000"),
    ("runs jobs", &[], "for i in 1 2 3; do (exit $i) & done; wait %2; echo $?", "2"),
    ("kills its own", &[], "sleep 1000 & kill $!; wait $!; echo $?", "143"),
    (
        "reads and writes devices",
        &[],
        "head -c 4 /dev/urandom | wc -c; echo x > /dev/null; echo ok",
        "ok",
    ),
    (
        "runs git",
        &[],
        "git status --porcelain && git log --format=%s && git diff && git branch --show-current",
        "main",
    ),
    (
        "builds with make and a compiler",
        &[Need::Make, Need::Compiler],
        "printf 'a: a.c\\n\\tcc -o a a.c\\n' > Makefile; echo 'int main(){return 0;}' > a.c; make -s && ./a && echo built; rm -f a a.c Makefile",
        "built",
    ),
    (
        "builds a crate",
        &[],
        "mkdir -p tiny/src; cd tiny; printf '[package]\\nname = \"tiny\"\\nversion = \"0.1.0\"\\n[workspace]\\n' > Cargo.toml; echo 'fn main() { println!(\"Hello, world!\"); }' > src/main.rs; cargo build -q --offline && ./target/debug/tiny; rm -rf ../tiny",
        "Hello, world!",
    ),
    (
        "makes a virtual environment of Python",
        &[Need::Python],
        "PYTHON -m venv --without-pip environment && environment/bin/python -c 'print(1 + 1)'; rm -rf environment",
        "2",
    ),
    (
        "runs tests of Python",
        &[Need::Python],
        "printf 'import unittest\\nclass T(unittest.TestCase):\\n def test(self): pass\\n' > test_a.py; PYTHON -B -m unittest -q test_a 2>&1; rm test_a.py",
        "OK",
    ),
    (
        "runs a script of node",
        &[Need::Node],
        "node -e 'require(\"child_process\").exec(\"echo child\", (e, o) => console.log(o.trim()))'",
        "child",
    ),
];

/// Work for mechanisms that give a command a network, memory and terminals of its own.
const WORK_IN_NAMESPACES: &[(&str, &[Need], &str, &str)] = &[
    (
        "serves itself over loopback with node",
        &[Need::Node],
        "node -e 'const s = require(\"http\").createServer((q, a) => a.end(\"served\")).listen(0, \"127.0.0.1\", () => require(\"http\").get(s.address(), a => a.on(\"data\", d => { console.log(String(d)); s.close(); })))'",
        "served",
    ),
    (
        "serves itself over loopback with Python",
        &[Need::Python],
        "PYTHON -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname()); s.accept()[0].send(b\"served\"); print(c.recv(9).decode())'",
        "served",
    ),
    (
        "shares memory with Python",
        &[Need::Python],
        "PYTHON -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'",
        "[1, 2]",
    ),
    (
        "has a terminal",
        &[Need::Script],
        "script -qec 'test -t 0 && tty' /dev/null | grep -c /dev/pts",
        "1",
    ),
];

/// Returns an arena whose workspace is a repository.
fn repository() -> Arena {
    let arena = Arena::new();
    arena.file("workspace/file", "untouched\n");
    arena.outside(
        "git init -q -b main && git add file
         git -c user.name=x -c user.email=x@y commit -q -m first",
    );
    arena
}

fn status(arena: &Arena) -> String {
    arena.outside("git status --porcelain --ignored")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn work_is_done_and_leaves_nothing_behind() {
    let arena = repository();
    for mechanism in mechanisms() {
        let more = if mechanism == "landlock" { &[] } else { WORK_IN_NAMESPACES };
        for (name, needs, line, expected) in WORK.iter().chain(more) {
            if needs.iter().any(|&need| lacking(need)) {
                continue;
            }
            let line = &line.replace("PYTHON", needs::python().unwrap_or_default());
            let mut command =
                arena.sandboxed(mechanism, "workspace-write", &["/bin/bash", "-c", line]);
            // The toolchains are in the home of the user who runs the tests.
            for (variable, directory) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
                let home = std::env::home_dir().unwrap_or_default().join(directory);
                command.env(variable, std::env::var_os(variable).unwrap_or(home.into()));
            }
            let output = command.output().unwrap();
            let last = text(&output).lines().last().unwrap_or_default().to_owned();
            assert_eq!(last, *expected, "{mechanism}: {name}: {output:?}");
            assert_eq!(status(&arena), "", "{mechanism}: {name}");
        }
    }
}

#[test]
fn exit_codes_and_signals_are_the_commands_own() {
    let arena = Arena::new();
    for mechanism in mechanisms() {
        for (line, code) in [
            ("true", 0),
            ("exit 7", 7),
            ("exit 125", 125),
            ("kill -TERM $$", 143),
            ("kill -KILL $$", 137),
            ("no-such-program", 127),
        ] {
            let status = arena.bash(mechanism, "read-only", line).status;
            let ended = status.code().or(status.signal().map(|signal| 128 + signal));
            assert_eq!(ended, Some(code), "{mechanism}: {line}");
        }
        let missing = arena.sandboxed(mechanism, "read-only", &["/no/such/program"]).output();
        assert!(!missing.unwrap().status.success(), "{mechanism}");
    }
}

#[test]
fn what_runs_by_itself_is_moved_out_when_it_appears() {
    let arena = repository();
    for mechanism in mechanisms() {
        for line in [
            "mkdir .vscode && echo evil > .vscode/tasks.json",
            "mkdir -p .config/git && echo evil > .config/git/config",
            "echo evil > .envrc",
            "ln -s /etc .idea",
            "echo 'ref: refs/heads/main' > HEAD; mkdir -p objects refs; rm -d objects refs",
        ] {
            let output = arena.bash(mechanism, "workspace-write", line);
            assert!(output.status.success(), "{mechanism}: {line}: {output:?}");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(told.contains("moved"), "{mechanism}: {line}: {told}");
            // Empty directories stay, which git does not show.
            assert_eq!(status(&arena), "", "{mechanism}: {line}");
        }
    }
}

#[test]
fn what_a_protected_link_comes_to_lead_to_is_moved_out() {
    let arena = repository();
    let workspace = arena.workspace();
    symlink("settings", workspace.join(".vscode")).unwrap();
    arena.outside("git add . && git -c user.name=x -c user.email=x@y commit -q -m link");
    for mechanism in mechanisms() {
        let line = "mkdir settings && echo evil > settings/tasks.json";
        let output = arena.bash(mechanism, "workspace-write", line);
        assert!(output.status.success(), "{mechanism}: {output:?}");
        assert!(!workspace.join(".vscode/tasks.json").exists(), "{mechanism}");
        assert_eq!(fs::read_link(workspace.join(".vscode")).unwrap(), Path::new("settings"));
        let output = arena.bash(mechanism, "workspace-write", "rm .vscode && ln -s /etc .vscode");
        let target = fs::read_link(workspace.join(".vscode")).unwrap();
        assert_eq!(target, Path::new("settings"), "{mechanism}: {output:?}");
        assert_eq!(status(&arena), "", "{mechanism}");
    }
}

#[test]
fn keys_in_a_home_that_is_the_workspace_stay_hidden() {
    let arena = Arena::new();
    arena.file(".ssh/id_rsa", "canary\n");
    arena.file(".config/gh/hosts.yml", "canary\n");
    arena.file("other/file", "read\n");
    for mechanism in mechanisms() {
        // Landlock cannot take a directory out of a writable one.
        let modes: &[_] = match mechanism {
            "landlock" => &["read-only"],
            _ => &["read-only", "workspace-write"],
        };
        for mode in modes {
            let line = "cat other/file; cat .ssh/id_rsa .config/gh/hosts.yml; mv .config moved; \
                        cat moved/gh/hosts.yml";
            let mut command = arena.sandboxed(mechanism, mode, &["/bin/bash", "-c", line]);
            let output = command.current_dir(arena.home()).output().unwrap();
            assert_eq!(text(&output), "read\n", "{mechanism}, {mode}: {output:?}");
        }
    }
}

#[test]
fn no_library_of_the_workspace_is_loaded_before_the_command_is_confined() {
    if lacking(Need::Compiler) {
        return;
    }
    let arena = Arena::new();
    let mark = arena.path().join("loaded");
    // The library may be loaded into the agent itself, because the agent's user has set the variable. The mark shows
    // loading into the helper.
    let source = format!(
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <string.h>\n#include <unistd.h>\n\
         __attribute__((constructor)) static void load(void) {{\n\
         char line[4096]; int n = read(open(\"/proc/self/cmdline\", O_RDONLY), line, 4096);\n\
         if (n > 0 && (memmem(line, n, \"+sandbox\", 8) || memmem(line, n, \"--die-with\", 10)))\n\
         open(\"{}\", O_CREAT | O_WRONLY, 0600); }}\n",
        mark.display()
    );
    arena.file("workspace/evil.c", &source);
    arena.outside("cc -shared -fPIC -o evil.so evil.c");
    // A path with a space would end the variable's value, so the path is relative.
    let library = "./evil.so";
    arena.outside(&format!("LD_PRELOAD={library} /bin/bash -c : +sandbox"));
    fs::remove_file(&mark).unwrap();
    for mechanism in mechanisms() {
        let mut command = arena.sandboxed(mechanism, "read-only", &["/usr/bin/env"]);
        let output = command.env("LD_PRELOAD", library).output().unwrap();
        let line = format!("LD_PRELOAD={library}");
        assert!(text(&output).contains(&line), "{mechanism}: {output:?}");
        assert!(!mark.exists(), "{mechanism}: loaded before the command was confined");
    }
}

#[test]
fn forty_commands_with_many_mounts_are_run() {
    let arena = repository();
    for number in 0..40 {
        arena.file(&format!("workspace/packages/{number}/.envrc"), "untouched\n");
    }
    for mechanism in mechanisms() {
        for number in 0..40 {
            let line = format!("echo evil >> packages/{number}/.envrc");
            let written = arena.bash(mechanism, "workspace-write", &line).status.success();
            assert_eq!(written, mechanism == "landlock", "{mechanism}");
        }
    }
}

#[test]
fn a_command_that_ends_its_whole_group_does_not_end_the_program_that_started_it() {
    let arena = Arena::new();
    for mechanism in mechanisms() {
        let words = ["/bin/bash", "-c", "kill -KILL 0"];
        let mut command = arena.sandboxed(mechanism, "read-only", &words);
        // The command gets a process group of its own, which this test is not in.
        let status = command.process_group(0).status().unwrap();
        assert_eq!(status.code(), Some(137), "{mechanism}: {status}");
    }
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    let arena = Arena::new();
    let line = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    for mechanism in mechanisms() {
        let mut command = arena.sandboxed(mechanism, "read-only", &["/bin/bash", "-c", line]);
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(output.next().unwrap().unwrap(), "ready", "{mechanism}");
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        // `bwrap` itself obeys the signal, and ends the command.
        let is_obeyed = mechanism == "bubblewrap";
        if !is_obeyed {
            assert_eq!(output.next().unwrap().unwrap(), "caught", "{mechanism}");
        }
        let code = if is_obeyed { 143 } else { 3 };
        assert_eq!(child.wait().unwrap().code(), Some(code), "{mechanism}");
    }
}

#[test]
fn a_command_ends_with_the_program_that_is_killed() {
    let arena = Arena::new();
    for mechanism in mechanisms() {
        let words = ["/bin/sh", "-c", "echo ready; exec sleep 1000"];
        let mut child = arena
            .sandboxed(mechanism, "read-only", &words)
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{mechanism}");
        child.kill().unwrap();
        child.wait().unwrap();
        // The output ends when no process has it open any more.
        let (ended, end) = mpsc::channel();
        thread::spawn(move || ended.send(output.read_line(&mut String::new()).unwrap()));
        assert_eq!(end.recv_timeout(HANG), Ok(0), "{mechanism}: the command goes on");
    }
}

#[test]
fn a_command_reads_the_terminal_is_stopped_goes_on_and_is_interrupted() {
    if lacking(Need::Sandbox) {
        return;
    }
    let Some(terminal) = Terminal::open() else { return };
    let waits = "trap \"echo co\"\"nt\" CONT; read x; echo got-$x; while :; do sleep 0.05; done";
    terminal.agent("", &format!("sandbox -- sh -c '{waits}'"));
    terminal.line("hello");
    terminal.until("got-hello");
    terminal.keys(&["C-z"]);
    terminal.until("Stopped");
    terminal.line("fg");
    terminal.until("cont");
    terminal.keys(&["C-c"]);
    terminal.line("echo code-$?");
    terminal.until("code-130");
}

#[test]
fn a_command_that_is_confined_cannot_confine_another_with_more_rights() {
    let arena = Arena::new();
    arena.file("outside", "untouched\n");
    let tandem = copy_program(arena.path());
    for outer in mechanisms() {
        for inner in mechanisms() {
            let line = format!(
                "cd .. && '{}' sandbox --mechanism {inner} -s workspace-write -- \
                 bash -c 'echo evil > outside'",
                tandem.display()
            );
            let output = arena.bash(outer, "read-only", &line);
            assert!(!output.status.success(), "{inner} in {outer}: {output:?}");
            let content = fs::read_to_string(arena.home().join("outside")).unwrap();
            assert_eq!(content, "untouched\n", "{inner} in {outer}");
        }
    }
}

#[test]
fn what_a_command_leaves_running_ends_with_the_sandbox() {
    let arena = Arena::new();
    let Some(python) = python() else { return };
    for mechanism in mechanisms() {
        if mechanism == "landlock" {
            // With Landlock, the guard of a session ends such processes. `tandem sandbox` has no guard.
            continue;
        }
        let fifo = arena.workspace().join(format!("alive-{mechanism}"));
        arena.outside(&format!("mkfifo '{}'", fifo.display()));
        // `cat` reads until the last writer has ended, which is the process that the command left running.
        let reader = arena.program("/bin/cat").arg(&fifo).spawn().unwrap();
        let line = format!(
            "exec 9> '{0}'; setsid -f {python} -c 'import time; time.sleep(1000)'; exit 0",
            fifo.display()
        );
        assert!(arena.bash(mechanism, "workspace-write", &line).status.success());
        assert!(reader.wait_with_output().unwrap().status.success(), "{mechanism}");
    }
}
