//! Attacks: what a command tries, and things outside that must stay untouched.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

use super::{Arena, python, works};
use crate::places::copy_fixture;

/// Minimum number of attacks that each mechanism must prevent.
const FEWEST: usize = 150;

/// An attack, tried.
#[derive(Deserialize)]
struct Attempt {
    name: String,
    /// Error of the attack. `None`: the attack has succeeded.
    refused: Option<String>,
    /// `true` if the mechanism is known not to prevent the attack.
    reaches: bool,
}

/// A process with files, sockets and memory that no command may touch.
struct Canaries(Child);

impl Canaries {
    fn start(arena: &Arena, python: &str) -> Self {
        let program = copy_fixture("sandbox/canaries.py", arena.path());
        let mut command = arena.program(python);
        command.arg(program).arg(arena.path()).env("CANARY", "tandem-canary-key");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut world = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut world).unwrap();
        fs::write(arena.path().join("world.json"), world).unwrap();
        Self(child)
    }

    /// Returns the names of the canaries that were touched.
    fn touched(mut self) -> Vec<String> {
        drop(self.0.stdin.take());
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success(), "the canaries were killed");
        serde_json::from_str(&text).unwrap()
    }
}

/// Makes the files, sockets and processes that are attacked.
fn furnish(arena: &Arena) {
    for secret in [
        ".ssh/id_rsa",
        ".netrc",
        ".npmrc",
        ".aws/credentials",
        ".config/gh/hosts.yml",
        ".config/tandem/keys.json",
        ".mozilla/logins.json",
        ".password-store/a.gpg",
        ".local/state/tandem/secret",
    ] {
        arena.file(secret, "canary\n");
    }
    for file in [".bashrc", ".gitconfig", ".local/bin/present", ".cache/file"] {
        arena.file(file, "");
    }
    for file in [
        ".gitattributes",
        ".vscode/settings.json",
        ".envrc",
        ".husky/pre-commit",
        "settings/theia/settings.json",
        "file",
        "removable",
    ] {
        arena.file(&format!("workspace/{file}"), "# untouched\n");
    }
    arena.outside(
        "git init -q && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m first
         mkdir packages && git init -q packages/inner
         git clone -q --bare . bare && git -C bare worktree add -q ../packages/tree
         ln -s ../../outside link-out; ln -s ../../outside/file link-file
         ln -s ../.ssh/id_rsa link-key; ln -s .vscode editor-link; ln -s settings/theia .theia",
    );
}

/// Returns every path below a directory, with its content.
pub(super) fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut tree = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let data = path.symlink_metadata().unwrap();
        if data.is_dir() {
            tree.extend(self::tree(&path));
        }
        let content = if data.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        tree.insert(path, content);
    }
    tree
}

fn attempts(mut command: Command) -> Vec<Attempt> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{}", child.id()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = output.stdout.lines().map(Result::unwrap);
    lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
}

#[track_caller]
fn holds(mechanism: &str, mode: &str) {
    let Some(python) = python() else { return };
    if !works(mechanism) {
        return;
    }
    let arena = Arena::new();
    let canaries = Canaries::start(&arena, python);
    furnish(&arena);
    let outside = arena.path().join("outside");
    let before = (tree(&outside), tree(&arena.workspace().join(".git")));
    let program = copy_fixture("sandbox/attacks.py", arena.path());
    let words = [python, program.to_str().unwrap(), mechanism, mode];
    let mut command = arena.sandboxed(mechanism, mode, &words);
    command.env("GEMINI_API_KEY", "tandem-canary-key").env("SSH_AUTH_SOCK", "/run/agent");
    let attempts = attempts(command);
    let wrong = attempts.iter().filter(|attempt| attempt.refused.is_none() != attempt.reaches);
    let wrong: Vec<_> = wrong
        .map(|Attempt { name, refused, .. }| {
            format!("{name}: {}", refused.as_deref().unwrap_or("it has worked"))
        })
        .collect();
    assert!(wrong.is_empty(), "{mechanism}, {mode}:\n{}", wrong.join("\n"));
    let held = attempts.iter().filter(|attempt| !attempt.reaches).count();
    assert!(held >= FEWEST, "{held} attacks");
    // The trees are compared before the canaries remove their own directories. An ordinary user's canary is in this
    // tree, and not in `/run`.
    assert_eq!(tree(&outside), before.0);
    let touched = canaries.touched();
    let allowed: &[&str] = if mechanism == "landlock" { &[] } else { &["fifo"] };
    assert!(touched.iter().all(|name| allowed.contains(&name.as_str())), "{touched:?}");
    if mechanism != "landlock" {
        assert_eq!(tree(&arena.workspace().join(".git")), before.1);
    }
}

#[test]
fn namespaces_hold_attacks_of_a_command_that_may_read() {
    holds("namespaces", "read-only");
}

#[test]
fn namespaces_hold_attacks_of_a_command_that_may_write_the_workspace() {
    holds("namespaces", "workspace-write");
}

#[test]
fn bubblewrap_holds_attacks_of_a_command_that_may_read() {
    holds("bubblewrap", "read-only");
}

#[test]
fn bubblewrap_holds_attacks_of_a_command_that_may_write_the_workspace() {
    holds("bubblewrap", "workspace-write");
}

#[test]
fn landlock_holds_attacks_of_a_command_that_may_read() {
    holds("landlock", "read-only");
}

#[test]
fn landlock_holds_attacks_of_a_command_that_may_write_the_workspace() {
    holds("landlock", "workspace-write");
}

#[test]
fn attacks_work_without_a_sandbox() {
    let arena = Arena::new();
    let Some(python) = python() else { return };
    let canaries = Canaries::start(&arena, python);
    furnish(&arena);
    let mut command = arena.program(python);
    let program = copy_fixture("sandbox/attacks.py", arena.path());
    command.arg(program).args(["none", "none"]);
    command.env("GEMINI_API_KEY", "tandem-canary-key").env("TMPDIR", arena.path());
    let refused = attempts(command).into_iter();
    let refused = refused.filter_map(|attempt| Some((attempt.name, attempt.refused?)));
    assert_eq!(refused.collect::<Vec<_>>(), []);
    assert!(canaries.touched().len() > 10);
}
