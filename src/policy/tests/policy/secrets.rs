//! Files with secrets: the calls that may read them without a question, by mode.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tandem_approval::{Mode, Permissions, PolicyRequest, PolicySetup, RuleName, Verdict};
use tandem_host::Access;
use tandem_host::secrets::Secrets;

use super::questions::{SHELL, Session, call, question};
use super::written::no_rules;
use super::{Workspace, own_environment};

/// Returns a session whose workspace has secrets in it. All sessions of a thread have one workspace.
fn session(mode: Mode) -> Session {
    thread_local!(static WORKSPACE: Arc<Workspace> = Arc::new(with_secrets()));
    Session::in_workspace(WORKSPACE.with(Arc::clone), mode, no_rules())
}

fn with_secrets() -> Workspace {
    let workspace = Workspace::new();
    let root = &workspace.root;
    for dir in [".ssh", "keys", "plain/.deep"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in
        [".env", ".env.example", ".ssh/config", "keys/server.pem", "sub/.env", "plain/.deep/.netrc"]
    {
        fs::write(root.join(file), "").unwrap();
    }
    symlink(".env", root.join("harmless")).unwrap();
    workspace
}

/// Checks the verdict of every mode: default, `auto_edit`, yolo, plan.
#[track_caller]
fn check(what: &str, verdict: impl Fn(&Session) -> Verdict, expected: &str) {
    let verdicts = Mode::ALL.map(|(_, mode)| match verdict(&session(mode)) {
        Verdict::Allow => "allow",
        Verdict::Ask(question) if question.scopes.is_empty() => "ask!",
        Verdict::Ask(_) => "ask",
        Verdict::Deny { .. } => "deny",
    });
    assert_eq!(verdicts.join(" "), expected, "{what}");
}

#[track_caller]
fn check_read(path: &str, expected: &str) {
    let read = |session: &Session| {
        let paths =
            vec![session.workspace.root.join("README.md"), session.workspace.root.join(path)];
        let outside = Vec::new();
        call(&session.permissions, "read_many_files", &Access::ReadFiles { paths, outside })
    };
    check(path, read, expected);
}

#[track_caller]
fn check_command(line: &str, expected: &str) {
    check(line, |session| session.run(line), expected);
}

#[test]
fn a_secret_is_asked_about_before_it_is_read_in_every_mode_but_yolo() {
    for path in [".env", "sub/.env", ".ssh", ".ssh/config", "keys/server.pem", ".ENV"] {
        check_read(path, "ask! ask! allow ask!");
    }
    for path in ["src/main.rs", ".env.example", "keys", "none", "."] {
        check_read(path, "allow allow allow allow");
    }
}

#[test]
fn a_command_that_may_read_a_secret_is_asked_about() {
    for line in [
        "cat .env",
        "cat README.md .env",
        "cat ./src/../.env",
        "cat harmless",
        "cat keys/*",
        "cat keys/*.pem",
        "head -n 3 .ssh/config",
        "cd .ssh && cat config",
        "grep x .env",
        "grep -f.env README.md",
        "grep --file=.env README.md",
        "grep -r x .",
        "grep -r x",
        "grep --recursive x sub",
        "rg x",
        "rg --hidden x sub",
        "rg -uu x sub",
        "rg x keys",
        "cat < .env",
        "cat <.env | wc -c",
        "ls .ssh",
        "ls -la .ssh/",
        "base64 .env",
        "wc -c .env",
        "tail -c +1 .env | head -c 10",
        "while read line; do echo $line; done < .env",
        "grep -rv src",
        "grep -r x --exclude-dir src",
        "rg src -g '.e*'",
        "rg x -t sh",
        "rg --iglob='.E*' x sub",
        "rg x --type-add 'x:.env' -tx",
        "cd .ssh && grep -r x",
        "cd .ssh && rg x",
        "git show HEAD:.env",
        "git cat-file -p :sub/.env",
    ] {
        check_command(line, "ask! ask! allow deny");
    }
    for line in ["echo $(cat .env)", "echo \"$(< .env)\"", "python3 x.py .env", "git add .env"] {
        let asked = question(session(Mode::Default).run(line));
        assert!(asked.every_time());
        assert_eq!(asked.rules[0], RuleName::BuiltIn("secrets".to_owned()), "{line}");
    }
}

#[test]
fn a_graver_finding_hides_no_secret() {
    for line in [
        "source .env",
        "perl -pe 1 .env",
        "LD_PRELOAD=./x.so cat .env",
        "cat .env > /etc/x",
        "cat README.md; rm -rf src; sudo x; eval y; dd of=/z; mkfs a; cat .env",
    ] {
        let asked = question(session(Mode::Default).run(line));
        assert!(asked.why.starts_with("`.env` may hold secrets"), "{line}: {}", asked.why);
        assert_eq!(asked.rules[0], RuleName::BuiltIn("secrets".to_owned()), "{line}");
        assert!(asked.every_time() && asked.rules.len() > 1, "{line}: {:?}", asked.rules);
    }
}

#[test]
fn the_files_of_a_question_are_all_that_the_command_names() {
    let session = session(Mode::Default);
    let root = session.workspace.root.clone();
    let secrets = |line: &str| {
        let directory = root.clone();
        let access = Access::Execute { command: line.to_owned(), directory, sandbox: None };
        let args = json!({ "command": line });
        let request = PolicyRequest { tool: SHELL, aliases: &[], args: &args, access: &access };
        let checked = session.permissions.check(&request, &own_environment());
        let inside = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
        checked.shown.secrets.iter().map(inside).collect::<Vec<_>>()
    };
    assert_eq!(secrets("cat .env keys/*.pem"), [".env", "keys/server.pem"]);
    assert_eq!(secrets("f=harmless; cat $f; source sub/.env"), [".env", "sub/.env"]);
    assert_eq!(secrets("grep -r x keys"), ["keys/server.pem"]);
    assert_eq!(secrets("cat .ssh/config"), [".ssh/config"]);
    assert!(secrets("cat README.md; ls .env; make; cat $X").is_empty());
}

#[test]
fn where_only_running_would_tell_it_is_asked_about_every_time_if_there_is_a_secret() {
    for line in
        ["cat $X", "cat $(cat list)", "head -n 3 \"$1\"", "tail `ls`", "cat < $X", "xargs cat"]
    {
        let asked = question(session(Mode::Default).run(line));
        assert!(asked.every_time(), "{line}");
        assert!(asked.why.contains(".env"), "{line}: {}", asked.why);
        assert!(!question(Session::new(Mode::Default).run(line)).every_time(), "{line}");
    }
    for line in
        ["make $X", "git commit -m \"$(date)\"", "cat <(make)", "f=README.md; sort $f; make"]
    {
        let every_time = |session: Session| question(session.run(line)).every_time();
        let without = every_time(Session::new(Mode::Default));
        assert_eq!(every_time(session(Mode::Default)), without, "{line}");
    }
}

#[test]
fn a_command_that_reads_no_secret_is_not() {
    for line in [
        "ls -a",
        "ls .env",
        "echo .env",
        "[ -f .env ]",
        "test -e .env",
        "stat .env",
        "find . -name .env",
        "cat .env.example",
        "grep id_rsa README.md",
        "cat README.md src/main.rs",
        "grep -r x src",
        "grep x README.md",
        "rg x src",
        "rg x sub",
        "rg x plain",
    ] {
        check_command(line, "allow allow allow allow");
    }
}

#[test]
fn an_ignore_file_of_the_project_that_shows_secrets_to_rg_counts() {
    for (line, expected) in
        [("!.env", "ask! ask! allow deny"), ("!.env.example", "allow allow allow allow")]
    {
        let run = |session: &Session| {
            fs::write(session.workspace.root.join("sub/.ignore"), line).unwrap();
            session.run("rg x sub")
        };
        check(line, run, expected);
    }
}

#[test]
fn a_secret_is_asked_about_before_it_is_written() {
    check("edit", |session| session.edit("keys/server.pem"), "ask! ask! allow deny");
    check("redirection", |session| session.run("ls > keys/server.pem"), "ask! ask! allow deny");
}

#[test]
fn what_the_agent_keeps_is_secret_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir(root.join("mine")).unwrap();
    fs::write(root.join("mine/keys"), "").unwrap();
    let secrets = Secrets::with(vec![root.join("mine")]);
    let setup = PolicySetup { secrets, ..no_rules() };
    let permissions = Permissions::new(Mode::AutoEdit, setup, std::slice::from_ref(&root));
    let read = |path: &Path| {
        let access = Access::ReadFiles { paths: vec![path.to_owned()], outside: Vec::new() };
        call(&permissions, "read_file", &access)
    };
    question(read(&root.join("mine/keys")));
    assert_eq!(read(&root.join("other")), Verdict::Allow);
    let command = "cat mine/keys".to_owned();
    question(call(
        &permissions,
        "x",
        &Access::Execute { command, directory: root.clone(), sandbox: None },
    ));
    question(call(&permissions, "write_file", &Access::edit(root.join("mine/keys"))));
}
