//! Paths that a project or a command has chosen: links, `.git` files, directories that cannot be listed, and names
//! that change while the sandbox is made. None of them lets a command out.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::limits::{as_ordinary, ordinary};
use super::{Arena, mechanisms, python};
use crate::family::make_fifo;
use crate::places::listen;
use test_support::exchange::Exchange;

/// Time limit of a command that does not wait.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a command that must end by itself.
#[track_caller]
fn ends(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let waiting = thread::spawn(move || child.wait_with_output().unwrap());
    let begin = Instant::now();
    while !waiting.is_finished() {
        if begin.elapsed() > COMMAND_TIMEOUT {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("it does not end");
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    let output = waiting.join().unwrap();
    assert_eq!(output.status.signal(), None, "{output:?}");
    output
}

/// Makes a directory of ours in each directory that commands see replaced.
fn replaced() -> Vec<(&'static str, TempDir)> {
    // An ordinary user cannot make a directory in `/run`, so it is left out there.
    let made = |parent| tempfile::Builder::new().prefix("canary").tempdir_in(parent).ok();
    ["/tmp", "/run"].into_iter().filter_map(|parent| Some((parent, made(parent)?))).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the mechanisms that mount directories in place of `/tmp` and `/run`, and protect files there.
fn mounting() -> Vec<&'static str> {
    mechanisms().into_iter().filter(|mechanism| *mechanism != "landlock").collect()
}

#[test]
fn a_link_with_a_protected_name_brings_nothing_of_the_machine_in() {
    for (target, canary) in replaced() {
        let arena = Arena::new();
        for name in [".vscode", "sub/.vscode", "sub/deep/.envrc"] {
            let link = arena.workspace().join(name);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }
        for mechanism in mounting() {
            let line = format!(
                "test ! -e {0} && test ! -e .vscode/{1:?}; echo $?",
                canary.path().display(),
                canary.path().file_name().unwrap()
            );
            let output = arena.bash(mechanism, "workspace-write", &line);
            assert_eq!(text(&output), "0\n", "{mechanism}, {target}: {output:?}");
        }
    }
}

#[test]
fn a_file_that_names_a_directory_of_git_brings_nothing_of_the_machine_in() {
    let canaries = replaced();
    let mut targets: Vec<_> = canaries.iter().map(|(target, _)| *target).collect();
    targets.extend(["/dev", ".", ".."]);
    for target in targets {
        let arena = Arena::new();
        for name in [".git", "sub/.git"] {
            arena.file(&format!("workspace/{name}"), &format!("gitdir: {target}\n"));
        }
        for mechanism in mounting() {
            let seen =
                canaries.iter().map(|(_, it)| format!("test ! -e {} && ", it.path().display()));
            let line = format!(
                "{}test ! -e /dev/kmsg && touch made sub/made && rm made sub/made; echo $?",
                seen.collect::<String>()
            );
            let output = arena.bash(mechanism, "workspace-write", &line);
            assert_eq!(text(&output), "0\n", "{mechanism}, {target}: {output:?}");
        }
    }
}

#[test]
fn a_protected_link_and_what_it_leads_to_inside_are_read_and_not_written() {
    let arena = Arena::new();
    arena.file("workspace/settings/tasks.json", "untouched\n");
    symlink("settings", arena.workspace().join("editor")).unwrap();
    symlink("editor", arena.workspace().join(".vscode")).unwrap();
    for mechanism in mounting() {
        for line in [
            "echo evil > .vscode/tasks.json",
            "echo evil > settings/tasks.json",
            "mv settings other",
            "rm .vscode && ln -s other .vscode",
        ] {
            let output = arena.bash(mechanism, "workspace-write", line);
            let is_held = !output.status.success();
            // bubblewrap cannot protect a link. A link that the command has replaced is restored when the command
            // has ended.
            assert!(is_held || mechanism == "bubblewrap", "{mechanism}: {line}: {output:?}");
            let output = arena.bash(mechanism, "workspace-write", "cat .vscode/tasks.json");
            assert_eq!(text(&output), "untouched\n", "{mechanism}: {line}: {output:?}");
        }
    }
}

#[test]
fn a_protected_link_that_leads_out_cannot_be_replaced() {
    let arena = Arena::new();
    arena.file("neighbour/file", "untouched\n");
    symlink("../neighbour", arena.workspace().join(".vscode")).unwrap();
    for mechanism in mounting() {
        let line = "echo evil > .vscode/file; rm .vscode; mkdir -p .vscode/x; cat .vscode/file";
        let output = arena.bash(mechanism, "workspace-write", line);
        let target = fs::read_link(arena.workspace().join(".vscode")).unwrap();
        assert_eq!(target, Path::new("../neighbour"), "{mechanism}: {output:?}");
        let content = fs::read_to_string(arena.home().join("neighbour/file")).unwrap();
        assert_eq!(content, "untouched\n", "{mechanism}: {output:?}");
    }
}

#[test]
fn a_git_directory_that_a_file_in_the_workspace_names_is_not_written() {
    let arena = Arena::new();
    arena.outside(
        "git init -q separate && mv separate/.git git && echo 'gitdir: ../git' > separate/.git
         mkdir common worktree && cp -r git/HEAD worktree && echo ../git > worktree/commondir
         mkdir tree && echo 'gitdir: ../worktree' > tree/.git",
    );
    for mechanism in mounting() {
        for line in ["echo evil >> git/config", "echo evil > worktree/commondir", "mv git other"] {
            let output = arena.bash(mechanism, "workspace-write", line);
            assert!(!output.status.success(), "{mechanism}: {line}: {output:?}");
        }
    }
}

#[test]
fn files_of_a_repository_that_never_end_hold_nothing_up() {
    let arena = Arena::new();
    let workspace = arena.workspace();
    fs::create_dir_all(workspace.join("endless")).unwrap();
    fs::create_dir_all(workspace.join("worktree/objects")).unwrap();
    make_fifo(&workspace.join("endless/.git"));
    let sparse = workspace.join("endless/sparse");
    fs::create_dir(&sparse).unwrap();
    fs::File::create(sparse.join(".git")).unwrap().set_len(1 << 41).unwrap();
    symlink("/dev/zero", workspace.join("worktree/HEAD")).unwrap();
    make_fifo(&workspace.join("worktree/commondir"));
    fs::create_dir(workspace.join("tree")).unwrap();
    fs::write(workspace.join("tree/.git"), "gitdir: ../worktree\n").unwrap();
    fs::create_dir(workspace.join("zero")).unwrap();
    symlink("/dev/zero", workspace.join("zero/.git")).unwrap();
    for mechanism in mechanisms() {
        let mut command = arena.program("/bin/bash");
        // The limit on memory makes a reading of `/dev/zero` fail.
        let line = format!(
            "ulimit -v 8000000; exec '{}' sandbox --mechanism {mechanism} -s workspace-write -- echo ok",
            env!("CARGO_BIN_EXE_tandem")
        );
        command.args(["-c", &line]);
        let output = ends(command);
        assert_eq!(text(&output), "ok\n", "{mechanism}: {output:?}");
    }
}

#[test]
fn a_socket_in_a_hidden_directory_keeps_no_command_from_running() {
    let arena = Arena::new();
    arena.file(".ssh/id_rsa", "canary\n");
    let _listener = listen(&arena.home().join(".ssh"), "s");
    for mechanism in mechanisms() {
        let output = arena.bash(mechanism, "read-only", "cat ~/.ssh/id_rsa; echo ran");
        assert_eq!(text(&output), "ran\n", "{mechanism}: {output:?}");
    }
}

#[test]
fn files_that_go_away_while_the_sandbox_is_made_keep_no_command_from_running() {
    let arena = Arena::new();
    for number in 0..100 {
        arena.file(&format!("workspace/keys/{number}.pem"), "canary\n");
    }
    let (keys, moved) = (arena.workspace().join("keys"), arena.workspace().join("moved"));
    for (mechanism, mode) in
        mounting().into_iter().flat_map(|it| [(it, "read-only"), (it, "workspace-write")])
    {
        let command = || arena.sandboxed(mechanism, mode, &["/bin/echo", "ran"]);
        let begin = Instant::now();
        assert!(command().output().unwrap().status.success());
        let whole = begin.elapsed();
        for part in 0..20 {
            // The keys are moved at 20 different moments, from the command's beginning to its end.
            let (delay, begin) = (whole * part / 20, Instant::now());
            let child = command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            while begin.elapsed() < delay {
                thread::yield_now();
            }
            fs::rename(&keys, &moved).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = (text(&output), String::from_utf8_lossy(&output.stderr).into_owned());
            assert_eq!(said, ("ran\n".to_owned(), String::new()), "{mechanism}, {mode}, {delay:?}");
            // bubblewrap may have made mount points with the names of the keys.
            let _ = fs::remove_dir_all(&keys);
            fs::rename(&moved, &keys).unwrap();
        }
    }
}

#[test]
fn a_directory_that_cannot_be_listed_is_not_written() {
    let Some((arena, _)) = ordinary() else { return };
    // The test runs as an ordinary user, in a new place: root could list the directory.
    let run = |mechanism: &str, line: &str| {
        let words = ["sandbox", "--mechanism", mechanism, "-s", "workspace-write", "--"];
        as_ordinary(&arena).args(words).args(["/bin/bash", "-c", line]).output().unwrap()
    };
    for mechanism in mounting() {
        for directory in ["", "s/"] {
            let hooks = format!("{directory}.git/hooks");
            let begun = run(mechanism, &format!("mkdir -p {hooks}; chmod 0311 ./{directory}"));
            if begun.status.code() == Some(125) {
                // Exit code 125: this mechanism does not work for an ordinary user here.
                continue;
            }
            let line = format!(
                "cd ./{directory}; chmod 755 .; echo evil > .git/hooks/pre-commit; chmod 311 ."
            );
            // If the root itself cannot be listed, no command runs: secrets in the root could not be hidden.
            let refusal = if directory.is_empty() {
                "cannot be searched"
            } else {
                "a directory there cannot be listed"
            };
            let output = run(mechanism, &line);
            let directory = arena.workspace().join(directory);
            assert!(!directory.join(".git/hooks/pre-commit").exists(), "{mechanism}: {output:?}");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(told.contains(refusal), "{mechanism}: {told}");
            fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
            // The directory is missing if the command's changes were undone.
            let _ = fs::remove_dir_all(directory.join(".git"));
        }
    }
}

#[test]
fn many_files_and_deep_directories_unprotect_nothing() {
    let arena = Arena::new();
    for number in 0..400 {
        arena.file(&format!("workspace/{number:03}/.envrc"), "");
    }
    let deep = "s/1/2/3/4/5/6/7/8";
    for directory in ["s", deep] {
        arena.file(&format!("workspace/{directory}/.git/config"), "untouched\n");
    }
    arena.outside("mkdir full; cd full; seq 21000 | xargs touch");
    for mechanism in mounting() {
        for path in ["s/.git/config", "399/.envrc", &format!("{deep}/.git/config")] {
            let output = arena.bash(mechanism, "workspace-write", &format!("echo evil >> {path}"));
            assert!(!output.status.success(), "{mechanism}: {path}: {output:?}");
        }
        // Directories with many files, up to the limit, can be written beside the protected files.
        let line = "echo new > s/new && echo new > 399/new && echo new > full/new; echo $?";
        let output = arena.bash(mechanism, "workspace-write", line);
        assert_eq!(text(&output), "0\n", "{mechanism}: {output:?}");
    }
}

#[test]
fn a_link_below_an_allowed_path_does_not_open_another_directory() {
    let arena = Arena::new();
    arena.file("cache/a/b/file", "");
    arena.file("victim/b/file", "untouched\n");
    let cache = arena.home().join("cache");
    let allowed = [cache.clone(), cache.join("a/b")].map(|path| path.display().to_string());
    let settings = serde_json::json!({ "tools": { "sandboxAllowedPaths": allowed } });
    arena.file(".gemini/settings.json", &settings.to_string());
    for mechanism in mounting() {
        let output = arena.bash(mechanism, "workspace-write", "cd ~/cache; mv a c; ls");
        assert!(text(&output).contains('a'), "{mechanism}: {output:?}");
        assert!(!cache.join("c").exists(), "{mechanism}: {output:?}");
    }
}

/// Returns the number of commands to run while names are exchanged.
fn tries() -> usize {
    let tries = std::env::var("TANDEM_EXCHANGES").ok();
    tries.and_then(|tries| tries.parse().ok()).unwrap_or(40)
}

#[test]
fn names_that_are_exchanged_while_the_sandbox_is_made_open_nothing() {
    let arena = Arena::new();
    arena.file(".ssh/id_rsa", "canary\n");
    arena.file("victim", "untouched\n");
    // The home has a `.git`, so that the exchanged name leads to a file that a command could change.
    arena.file(".git/config", "untouched\n");
    arena.file("workspace/d/.git/config", "untouched\n");
    arena.file("workspace/d/victim", "untouched\n");
    let (directory, link) = (arena.workspace().join("d"), arena.workspace().join("l"));
    symlink("..", &link).unwrap();
    for mechanism in mounting() {
        let _exchange = Exchange::of(&directory, &link);
        let command = r#"for path in ~ d l; do
            echo evil > "$path/victim"; cat "$path/.ssh/id_rsa"; echo evil > "$path/.git/config"; done"#;
        let mut refused = Vec::new();
        for _ in 0..tries() {
            let output = arena.bash(mechanism, "workspace-write", command);
            assert_eq!(text(&output), "", "{mechanism}: {output:?}");
            if output.status.code() == Some(125) {
                refused.push(String::from_utf8_lossy(&output.stderr).into_owned());
            }
            for name in ["victim", ".git/config"] {
                let content = fs::read_to_string(arena.home().join(name)).unwrap();
                assert_eq!(content, "untouched\n", "{mechanism}: {name}: {output:?}");
            }
        }
        // bubblewrap works with names, so a command does not run if a name has changed meanwhile.
        assert!(refused.is_empty() || mechanism == "bubblewrap", "{mechanism}: {refused:?}");
    }
}

#[test]
fn a_workspace_in_a_directory_that_is_replaced_is_seen_and_leaves_nothing_behind() {
    for (parent, directory) in replaced() {
        let names = || -> Vec<PathBuf> {
            let entries = fs::read_dir(directory.path()).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let arena = Arena::of(tempfile::Builder::new().tempdir_in(directory.path()).unwrap());
        arena.file("workspace/.git/config", "untouched\n");
        let before = names();
        for mechanism in mounting() {
            let line = "echo new > new && cat new && rm new; echo evil > .git/config; ls ..";
            let output = arena.bash(mechanism, "workspace-write", line);
            assert_eq!(text(&output), "new\nworkspace\n", "{mechanism}, {parent}: {output:?}");
            assert_eq!(names(), before, "{mechanism}, {parent}");
        }
    }
}

/// Program that answers a system call as a kernel without it does, and then becomes another program.
const WITHOUT: &str = "
import ctypes, os, struct, sys
call = int(sys.argv[1])
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
filter = struct.pack('HxxxxxxQ', len(lines), ctypes.addressof(program))
assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_mechanism_says_which_system_call_is_missing_and_the_next_is_tried() {
    let Some(python) = python() else { return };
    let arena = Arena::new();
    // 428 is `open_tree` and 437 is `openat2` on every processor.
    for (name, number, without) in
        [("open_tree", "428", &["namespaces"][..]), ("openat2", "437", &super::MECHANISMS)]
    {
        let mut command = arena.program(python);
        let words = ["-c", WITHOUT, number, env!("CARGO_BIN_EXE_tandem"), "sandbox"];
        let shown = text(&command.args(words).output().unwrap());
        let left = mechanisms().into_iter().find(|mechanism| !without.contains(mechanism));
        let expected = format!("Mechanism: {}", left.unwrap_or("none"));
        assert!(shown.starts_with(&expected), "{name}: {shown}");
        for mechanism in mechanisms().iter().filter(|mechanism| without.contains(mechanism)) {
            let why = shown.lines().find(|line| line.starts_with(&format!("Not {mechanism}: ")));
            assert!(why.is_some_and(|why| why.contains("not implemented")), "{name}: {shown}");
        }
    }
}
