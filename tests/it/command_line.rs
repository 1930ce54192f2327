//! Command lines for other programs, or that no program could serve: they are answered, and not run.

use std::process::Stdio;

use expect_test::expect_file;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};

/// Runs a command line; returns its output and its exit code.
async fn answer(args: &[&str]) -> String {
    let setup = args.iter().fold(Setup::default(), |setup, arg| setup.arg(arg));
    let home = TempDir::new().unwrap();
    let mut command = setup.command(home.path());
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let ran = timeout(HANG, child.wait_with_output()).await.expect("it does not end").unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "", "{args:?}");
    let (code, stderr) = (ran.status.code().unwrap(), String::from_utf8(ran.stderr).unwrap());
    format!("$ tandem {}\n{stderr}exit code {code}\n\n", args.join(" "))
}

#[tokio::test]
async fn what_other_programs_know_and_this_one_does_not_is_said_to_be_so() {
    let lines: [&[&str]; 41] = [
        &["mcp", "list"],
        &["mcp", "add", "--transport", "http", "name", "https://example.org"],
        &["mcp"],
        &["extensions", "list"],
        &["skills", "list"],
        &["hooks", "migrate"],
        &["update"],
        &["doctor"],
        &["version"],
        &["init"],
        &["model", "list"],
        &["exec"],
        &["exec", "--json", "go"],
        &["auth", "login"],
        &["resume"],
        &["resume", "--last"],
        &["-y", "undo"],
        &["fork"],
        &["review", "--uncommitted"],
        &["sesions"],
        &["sesions", "list"],
        &["--debug", "logn"],
        &["gemma"],
        &["--debug", "mcp", "list"],
        &["--session-id", "x"],
        &["--list-sessions"],
        &["-e", "none"],
        &["--worktree"],
        &["--checkpointing"],
        &["-p", "go", "--delete-session", "1"],
        &["--permission-mode=plan"],
        &["--full-auto", "go"],
        &["-p", "go", "--dangerously-skip-permissions"],
        &["-a", "never"],
        &["--add-dir", "../lib"],
        &["attach", "41242", "--yolo"],
        &["sessions", "-m", "gpt-5"],
        &["-m", "watson:claude-x", "-p", "go"],
        &["-m", "claude-opus-5-5", "-p", "go"],
        &["-m", "gpt-5", "-p", "go"],
        &["-m", "qwen3:8b", "-p", "go"],
    ];
    let mut said = String::new();
    for args in lines {
        said += &answer(args).await;
    }
    expect_file!["../../fixtures/command_line/absent.txt"].assert_eq(&said);
}

/// Returns the standard output of a subcommand, which must succeed.
fn output(args: &[&str]) -> String {
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_tandem")).args(args).output().unwrap();
    assert!(ran.status.success(), "{args:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn shells_complete_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&["completions", shell]);
        for name in ["serve", "attach", "sessions", "export", "--a2a-port"] {
            assert!(script.contains(name.trim_start_matches('-')), "{shell}: {name}");
        }
    }
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let pages = TempDir::new().unwrap();
    let directory = pages.path().join("man/man1");
    let written = output(&["manual", directory.to_str().unwrap()]);
    assert_eq!(written, "");
    for name in ["tandem", "tandem-serve", "tandem-sessions", "tandem-sessions-export"] {
        let page = std::fs::read_to_string(directory.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".TH"), "{name}");
    }
}

#[test]
fn the_help_of_a_subcommand_begins_as_the_list_of_subcommands_describes_it() {
    let help = output(&["-h"]);
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let mut count = 0;
    for line in list.take_while(|line| !line.is_empty()) {
        let (name, about) = line.trim().split_once(' ').unwrap();
        if name != "help" {
            let own = output(&[name, "--help"]);
            assert_eq!(own.lines().next(), Some(about.trim()), "{name}");
            count += 1;
        }
    }
    assert!(count > 5, "{help}");
}

#[test]
fn the_help_says_how_to_get_the_manual_pages() {
    assert!(output(&["--help"]).contains("tandem manual ~/.local/share/man/man1"));
    assert!(output(&["-h"]).contains("\n  manual "));
}

#[test]
fn what_nobody_reads_to_its_end_ends_silently() {
    let home = TempDir::new().unwrap();
    let lines: [&[&str]; 6] = [
        &["completions", "zsh"],
        &["--help"],
        &["--version"],
        &["config"],
        &["sandbox"],
        &["sessions", "--json"],
    ];
    for args in lines {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.args(args).env("HOME", home.path()).current_dir(home.path());
        let ran = command.stdin(Stdio::null()).stdout(writer).output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!((&*said, ran.status.code()), ("", Some(0)), "{args:?}");
    }
}
