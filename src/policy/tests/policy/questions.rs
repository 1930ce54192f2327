//! Calls that each mode allows without a question, and the texts of questions.

use std::path::PathBuf;
use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tandem_approval::{
    Environment, Mode, Permissions, PolicyRequest, PolicySetup, Question, Scope, Verdict,
};
use tandem_host::{Access, Hints};

use super::written::no_rules;
use super::{Workspace, own_environment};

pub(super) const SHELL: &str = "run_shell_command";

/// A session's policy in its workspace.
pub(super) struct Session {
    pub(super) workspace: Arc<Workspace>,
    pub(super) permissions: Permissions,
}

impl Session {
    pub(super) fn new(mode: Mode) -> Self {
        Self::with(mode, no_rules())
    }

    pub(super) fn with(mode: Mode, setup: PolicySetup) -> Self {
        Self::in_workspace(Arc::new(Workspace::new()), mode, setup)
    }

    /// Returns a session for a test that changes no file: all these sessions of a thread have one workspace.
    pub(super) fn unchanging(mode: Mode) -> Self {
        thread_local!(static WORKSPACE: Arc<Workspace> = Arc::new(Workspace::new()));
        Self::in_workspace(WORKSPACE.with(Arc::clone), mode, no_rules())
    }

    pub(super) fn in_workspace(workspace: Arc<Workspace>, mode: Mode, setup: PolicySetup) -> Self {
        let permissions = Permissions::new(mode, setup, std::slice::from_ref(&workspace.root));
        Self { workspace, permissions }
    }

    pub(super) fn run(&self, line: &str) -> Verdict {
        self.run_in(&own_environment(), line)
    }

    pub(super) fn run_in(&self, environment: &Environment, line: &str) -> Verdict {
        let directory = self.workspace.root.clone();
        let access = Access::Execute { command: line.to_owned(), directory, sandbox: None };
        let args = json!({ "command": line });
        let request = PolicyRequest { tool: SHELL, aliases: &[], args: &args, access: &access };
        self.permissions.check(&request, environment).verdict
    }

    pub(super) fn edit(&self, path: &str) -> Verdict {
        let path = self.workspace.root.join(path);
        call(&self.permissions, "write_file", &Access::edit(path))
    }

    fn fetch(&self, urls: &[&str]) -> Verdict {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        call(&self.permissions, "web_fetch", &Access::Fetch { urls, allowed: Vec::new() })
    }

    pub(super) fn always(&self, prefixes: &[&str]) {
        self.permissions.allow(commands(prefixes));
    }
}

/// Returns the verdict on a call of a tool, with arguments such as the tool has.
pub(super) fn call(permissions: &Permissions, tool: &str, access: &Access) -> Verdict {
    let args = match access {
        Access::Execute { command, .. } => json!({ "command": command }),
        Access::Edit { path, .. } => json!({ "file_path": path }),
        _ => Value::Null,
    };
    let request = PolicyRequest { tool, aliases: &[], args: &args, access };
    permissions.check(&request, &own_environment()).verdict
}

pub(super) fn commands(prefixes: &[&str]) -> Scope {
    Scope::Commands(prefixes.iter().map(|prefix| (*prefix).to_owned()).collect())
}

#[track_caller]
pub(super) fn question(verdict: Verdict) -> Question {
    match verdict {
        Verdict::Ask(question) => question,
        other => panic!("not asked about: {other:?}"),
    }
}

/// Checks the verdict of every mode, in their order.
fn check(what: &str, verdict: impl Fn(&Session) -> Verdict, expected: &str) {
    let verdicts = Mode::ALL.map(|(_, mode)| match verdict(&Session::unchanging(mode)) {
        Verdict::Allow => "allow",
        Verdict::Ask(question) if question.scopes.is_empty() => "ask!",
        Verdict::Ask(_) => "ask",
        Verdict::Deny { .. } => "deny",
    });
    assert_eq!(verdicts.join(" "), expected, "{what}");
}

#[test]
fn each_mode_allows_what_it_says() {
    let access = |access: Access| move |session: &Session| call(&session.permissions, "x", &access);
    let run = |line: &'static str| move |session: &Session| session.run(line);
    let mcp = |hints| Access::Mcp {
        server: "s".into(),
        tool: "t".into(),
        display_name: "T".into(),
        hints,
    };
    let reads = Hints { read_only: Some(true), ..Hints::default() };
    let trusted = Hints { trusted: true, ..Hints::default() };
    let other = || Access::Other { description: "something".into() };
    // Verdicts in the order of the modes: default, auto_edit, yolo, plan.
    check("nothing", access(Access::Nothing), "allow allow allow allow");
    check("reading", access(Access::Read), "allow allow allow allow");
    check("an edit", |session| session.edit("src/main.rs"), "ask allow allow deny");
    check("a special edit", |session| session.edit(".git/config"), "ask! ask! allow deny");
    check("a fetch", |session| session.fetch(&["https://a.test"]), "ask ask allow deny");
    check("an MCP tool", access(mcp(Hints::default())), "ask ask allow deny");
    check("one that reads, it is said", access(mcp(reads)), "ask ask allow ask");
    check("one of a trusted server", access(mcp(trusted)), "allow allow allow deny");
    let both = Hints { trusted: true, ..reads };
    check("one of those that reads", access(mcp(both)), "allow allow allow allow");
    check("another thing", access(other()), "ask ask allow deny");
    let input = Access::UserInput { questions: Vec::new() };
    check("a question of the model", access(input), "ask! ask! ask! ask!");
    check("ls", run("ls"), "allow allow allow allow");
    check("a redirection", run("ls > out.txt"), "ask allow allow deny");
    check("a command", run("cargo test"), "ask ask allow deny");
    check("both", run("cargo test > out.txt"), "ask ask allow deny");
    check("a grave command", run("rm -rf x"), "ask! ask! allow deny");
    check("a grave redirection", run("ls > /etc/x"), "ask! ask! allow deny");
    check("gibberish", run("ls '"), "ask! ask! allow deny");
}

/// Checks the question about a line in a session where an "always" covers some commands.
#[expect(clippy::needless_pass_by_value, reason = "the way expectations are written")]
fn check_question(always: &[&str], line: &str, expected: Expect) {
    let session = Session::new(Mode::Default);
    session.always(always);
    let question = question(session.run(line));
    let scopes: Vec<String> = question.scopes.iter().map(ToString::to_string).collect();
    expected.assert_eq(&format!(
        "{}\n{}\n{}\n",
        question.reason(),
        question.commands.join(", "),
        scopes.join("\n"),
    ));
}

#[test]
fn a_question_names_the_commands_and_what_always_can_mean() {
    check_question(
        &[],
        "echo one; sleep 0.2; echo two",
        expect![[r"
            `sleep` is not on the list of commands that only read [built-in rule read-only]
            echo, sleep
            commands that begin with `sleep`
            exactly `echo one; sleep 0.2; echo two`
            every call of `run_shell_command`
        "]],
    );
    check_question(
        &[],
        "cd src && RUST_LOG=1 cargo test && git commit -m x",
        expect![[r#"
            `cargo test` is not on the list of commands that only read; `git commit` is not on the list of commands that only read; after an "always", `cargo test` runs without a question even if files of the workspace change what it does [built-in rule read-only]
            cd, cargo, git
            commands that begin with `cargo test`, `git commit`
            exactly `cd src && RUST_LOG=1 cargo test && git commit -m x`
            everything that `cargo`, `git` does
            every call of `run_shell_command`
        "#]],
    );
}

#[test]
fn what_was_always_allowed_is_not_asked_about_again() {
    check_question(
        &["cargo test", "echo"],
        "echo x; cargo test; cargo run",
        expect![[r#"
            `cargo run` is not on the list of commands that only read; after an "always", `cargo run` runs without a question even if files of the workspace change what it does [built-in rule read-only]
            cargo
            commands that begin with `cargo run`
            exactly `echo x; cargo test; cargo run`
            everything that `cargo` does
            every call of `run_shell_command`
        "#]],
    );
}

#[test]
fn a_file_that_is_written_belongs_to_what_always_means() {
    check_question(
        &[],
        "cargo test > out.txt",
        expect![[r#"
            `cargo test` is not on the list of commands that only read; a redirection writes to `out.txt`; after an "always", `cargo test` runs without a question even if files of the workspace change what it does [built-in rules read-only, redirections]
            cargo
            commands that begin with `cargo test >`
            exactly `cargo test > out.txt`
            every call of `run_shell_command`
        "#]],
    );
    check_question(
        &["cargo test"],
        "cargo test > out.txt",
        expect![[r#"
            a redirection writes to `out.txt`; after an "always", `cargo test` runs without a question even if files of the workspace change what it does [built-in rule redirections]
            cargo
            commands that begin with `cargo test >`
            exactly `cargo test > out.txt`
            every call of `run_shell_command`
        "#]],
    );
    check_question(
        &[],
        "echo x > out.txt",
        expect![[r#"
            a redirection writes to `out.txt` [built-in rule redirections]
            echo
            commands that begin with `echo >`
            exactly `echo x > out.txt`
            all edits in the workspace
            every call of `run_shell_command`
        "#]],
    );
}

#[test]
fn what_must_be_asked_about_every_time_offers_no_always() {
    check_question(
        &[],
        "cargo test; rm -rf x",
        expect![[r"
            `rm -rf x` deletes recursively, or without asking; `cargo test` is not on the list of commands that only read [built-in rules every-time, read-only]
            cargo, rm

        "]],
    );
    check_question(
        &["git push", "rm"],
        "git push --force; rm -rf x",
        expect![[r"
            `git push --force` overwrites or deletes what others have; `rm -rf x` deletes recursively, or without asking [built-in rule every-time]
            git, rm

        "]],
    );
    check_question(
        &[],
        "cat 'x",
        expect![[r#"
            the command line cannot be analysed: `'` is not closed [built-in rule unclear]


        "#]],
    );
}

#[test]
fn the_reasons_do_not_run_on() {
    let line: Vec<String> = (0..40).map(|n| format!("program-{n}")).collect();
    check_question(
        &[],
        &format!("{}; sudo x", line[..7].join("; ")),
        expect![[r"
            `sudo x` runs as another user; `program-0` is not on the list of commands that only read; `program-1` is not on the list of commands that only read; `program-2` is not on the list of commands that only read; and 4 more [built-in rules every-time, read-only]
            program-0, program-1, program-2, program-3, program-4, program-5, program-6, sudo

        "]],
    );
    let session = Session::new(Mode::Default);
    let question = question(session.run(&line.join("; ")));
    assert_eq!(question.commands.len(), 40);
    assert!(question.why.len() < 300, "{}", question.why);
}

#[test]
fn only_what_is_special_inside_of_the_workspace_counts() {
    let root = PathBuf::from("/home/me/.gemini/work");
    let permissions = Permissions::new(Mode::AutoEdit, no_rules(), std::slice::from_ref(&root));
    let edit = |path: &str| call(&permissions, "x", &Access::edit(root.join(path)));
    assert_eq!(edit("src/main.rs"), Verdict::Allow);
    assert_eq!(
        question(edit("web/.git/hooks/pre-commit")).why,
        "`web/.git/hooks/pre-commit` is a sensitive file: it changes what git does",
    );
}

#[test]
fn every_root_is_inside() {
    let (one, two) = (Workspace::new(), Workspace::new());
    let roots = [one.root.clone(), two.root.clone()];
    let permissions = Permissions::new(Mode::Default, no_rules(), &roots);
    let run = |line: String| {
        let directory = one.root.clone();
        call(&permissions, SHELL, &Access::Execute { command: line, directory, sandbox: None })
    };
    assert_eq!(run(format!("cat {}/README.md", two.root.display())), Verdict::Allow);
    assert_eq!(run(format!("cd {} && ls", two.root.display())), Verdict::Allow);
    question(run(format!("ls {}", two.root.join("..").display())));
}

#[test]
fn hosts_are_those_that_will_be_asked() {
    let session = Session::new(Mode::Default);
    let asked = question(session.fetch(&["https://Good.test/x", "https://good.test:443/y"]));
    assert_eq!(asked.scopes, [Scope::Connections(vec!["good.test".to_owned()])]);
    session.permissions.allow(asked.scopes[0].clone());
    assert_eq!(session.fetch(&["https://good.test/z"]), Verdict::Allow);
    for url in [
        "https://evil.test",
        "https://good.test@evil.test",
        "https://good.test:8080",
        "https://good.test.evil.test",
        "https://evil.test\\@good.test",
        "https:evil.test://good.test",
        "https://evil.test?://good.test",
    ] {
        question(session.fetch(&["https://good.test", url]));
    }
    assert_eq!(session.fetch(&[]), Verdict::Allow);
}

#[test]
fn always_for_a_server_covers_its_tools() {
    let session = Session::new(Mode::Default);
    let run = |server: &str, tool: &str| {
        let access = Access::Mcp {
            server: server.to_owned(),
            tool: tool.to_owned(),
            display_name: tool.to_owned(),
            hints: Hints::default(),
        };
        call(&session.permissions, &format!("mcp_{server}_{tool}"), &access)
    };
    let asked = question(run("a", "one"));
    assert_eq!(asked.scopes, [Scope::Tool("mcp_a_one".to_owned()), Scope::Server("a".to_owned())],);
    session.permissions.allow(asked.scopes[0].clone());
    assert_eq!(run("a", "one"), Verdict::Allow);
    question(run("a", "two"));
    session.permissions.allow(asked.scopes[1].clone());
    assert_eq!(run("a", "two"), Verdict::Allow);
    question(run("b", "one"));
}
