//! Texts for programs that run: each is asked about where no sandbox holds the program, and is judged as a command line
//! besides.

use std::fs;
use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;
use tandem_approval::{Checked, Environment, Mode, PolicyRequest, SandboxSituation, Verdict};
use tandem_host::{Access, ProgramInput};
use tandem_sandbox::SandboxMode::{self, DangerFullAccess, ReadOnly, WorkspaceWrite};

use super::questions::{Session, question};
use super::sandbox::WHOLE;
use super::written::{no_rules, under};
use super::{Workspace, own_environment};

/// A program that runs, and what was written to it before.
#[derive(Clone, Copy)]
pub(super) struct Running<'a> {
    pub(super) sandbox: SandboxMode,
    pub(super) situation: Option<SandboxSituation>,
    pub(super) unfinished: &'a str,
    pub(super) sees_secrets: bool,
}

/// A program without a sandbox.
const BARE: Running<'_> =
    Running { sandbox: DangerFullAccess, situation: None, unfinished: "", sees_secrets: false };

fn inside(sandbox: SandboxMode) -> Running<'static> {
    Running { sandbox, situation: Some(WHOLE), ..BARE }
}

/// Returns the verdict on a text for a program.
pub(super) fn feed(session: &Session, running: Running<'_>, text: &str) -> Checked {
    let access = Access::ProgramInput(ProgramInput {
        pid: 7,
        command: "sh".to_owned(),
        directory: session.workspace.root.clone(),
        sandbox: running.sandbox,
        sees_secrets: running.sees_secrets,
        unfinished: running.unfinished.to_owned(),
        text: text.to_owned(),
        closes: text.is_empty(),
    });
    let args = json!({ "pid": 7, "chars": text });
    let request = PolicyRequest { tool: "write_stdin", aliases: &[], args: &args, access: &access };
    let environment: Environment = own_environment().sandboxed(running.situation);
    session.permissions.check(&request, &environment)
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask(question) if question.every_time() => "ask!",
        Verdict::Ask(_) => "ask",
        Verdict::Deny { .. } => "deny",
    }
}

/// Checks the verdict of every mode, in their order: default, `auto_edit`, yolo, plan.
#[track_caller]
fn check(running: Running<'_>, texts: &[&str], expected: &str) {
    let workspace = Arc::new(Workspace::new());
    fs::write(workspace.root.join(".env"), "").unwrap();
    for text in texts {
        let verdicts = Mode::ALL.map(|(_, mode)| {
            let session = Session::in_workspace(Arc::clone(&workspace), mode, no_rules());
            word(&feed(&session, running, text).verdict)
        });
        assert_eq!(verdicts.join(" "), expected, "{text:?}");
    }
}

/// Texts that no command line would be asked about, or that are no command lines.
const TEXTS: [&str; 6] = ["ls\n", "print(1)\n", "make\n", "\u{3}", "", "q"];

#[test]
fn every_text_is_asked_about_where_no_sandbox_holds_the_program() {
    check(BARE, &TEXTS, "ask! ask! allow deny");
    let landlock = SandboxSituation { protects: false, ..WHOLE };
    let running = |situation, sandbox| Running { situation: Some(situation), sandbox, ..BARE };
    check(running(landlock, WorkspaceWrite), &TEXTS, "ask! ask! allow deny");
    let network = SandboxSituation { network: true, ..WHOLE };
    check(running(network, ReadOnly), &TEXTS, "ask! allow allow deny");
}

#[test]
fn the_sandbox_that_a_program_was_started_in_decides() {
    check(inside(ReadOnly), &TEXTS, "allow allow allow deny");
    // The mode may have changed since the program was started.
    check(inside(WorkspaceWrite), &TEXTS, "ask! allow allow deny");
    check(inside(DangerFullAccess), &TEXTS, "ask! ask! ask! deny");
    let named = SandboxSituation { mode: Some(ReadOnly), ..WHOLE };
    let exceeding = Running { situation: Some(named), ..inside(WorkspaceWrite) };
    check(exceeding, &TEXTS, "ask! ask! ask! deny");
}

#[test]
fn what_a_command_line_is_asked_about_in_the_sandbox_a_text_is() {
    check(inside(WorkspaceWrite), &["rm -rf src\n", "cat .env\n"], "ask! ask! allow deny");
    check(inside(ReadOnly), &["cat .env\n", "echo x\ncat .env\n"], "ask! ask! allow deny");
    check(inside(ReadOnly), &["rm -rf src\n", "git commit -m x\n"], "allow allow allow deny");
    // A text that goes on with an unfinished line is judged together with that line.
    let begun = Running { unfinished: "cat .e", ..inside(ReadOnly) };
    check(begun, &["nv\n"], "ask! ask! allow deny");
    check(inside(ReadOnly), &["nv\n"], "allow allow allow deny");
}

#[test]
fn every_text_for_a_program_that_sees_secrets_is_asked_about() {
    let seeing = |sandbox| Running { sees_secrets: true, ..inside(sandbox) };
    check(seeing(ReadOnly), &["cat $X\n", "ls\n", "q"], "ask! ask! allow deny");
    check(seeing(WorkspaceWrite), &["cat $X\n"], "ask! ask! allow deny");
    check(seeing(DangerFullAccess), &["ls\n"], "ask! ask! ask! deny");
    check_question(
        seeing(WorkspaceWrite),
        "ls\n",
        expect![[r#"
        the program, which sees secrets, may take the text for commands [built-in rule program-input]
    "#]],
    );
}

#[test]
fn the_sandbox_of_the_program_is_that_of_the_call() {
    let session = Session::new(Mode::AutoEdit);
    for (running, expected) in [
        (inside(WorkspaceWrite), WorkspaceWrite),
        (inside(ReadOnly), ReadOnly),
        (BARE, DangerFullAccess),
    ] {
        assert_eq!(feed(&session, running, "ls\n").sandbox, expected);
    }
}

#[test]
fn nothing_that_is_always_allowed_as_a_command_is_a_text_that_is_not_asked_about() {
    let session = Session::new(Mode::Default);
    session.always(&["make"]);
    session.permissions.allow(tandem_approval::Scope::Tool("run_shell_command".to_owned()));
    assert_eq!(word(&feed(&session, BARE, "make\n").verdict), "ask!");
}

#[expect(clippy::needless_pass_by_value, reason = "the way expectations are written")]
fn check_question(running: Running<'_>, text: &str, expected: Expect) {
    let session = Session::new(Mode::AutoEdit);
    fs::write(session.workspace.root.join(".env"), "").unwrap();
    let question = question(feed(&session, running, text).verdict);
    let scopes: Vec<String> = question.scopes.iter().map(ToString::to_string).collect();
    assert_eq!(scopes, [""; 0]);
    expected.assert_eq(&format!("{}\n{}", question.reason(), question.commands.join(", ")));
}

#[test]
fn a_question_says_why_the_text_is_asked_about() {
    check_question(
        BARE,
        "print(1)\n",
        expect![[r#"
        the program may take the text for commands [built-in rule program-input]
    "#]],
    );
    check_question(
        BARE,
        "make\n",
        expect![[r#"
        the program may take the text for commands [built-in rule program-input]
    "#]],
    );
    check_question(
        BARE,
        "rm -rf src; cat .env\n",
        expect![[r#"
        the program may take the text for commands; `.env` may hold secrets: programs take their passwords and keys from it; `rm -rf src` deletes recursively, or without asking [built-in rules program-input, secrets, every-time]
        rm, cat"#]],
    );
    check_question(
        inside(DangerFullAccess),
        "make\n",
        expect![[r#"
        the program, which runs outside the sandbox, may take the text for commands [built-in rules program-input, sandbox]
    "#]],
    );
    check_question(
        inside(WorkspaceWrite),
        "rm -rf src\n",
        expect![[r#"
        `rm -rf src` deletes recursively, or without asking [built-in rule every-time]
        rm"#]],
    );
    check_question(
        BARE,
        "curl https://g\u{456}thub.com\n",
        expect![[r#"
        the program may take the text for commands; `gіthub.com` is the host `xn--gthub-n2e.com` [built-in rule program-input]
    "#]],
    );
}

/// Checks the verdicts on texts under rules, in yolo mode without a sandbox.
#[track_caller]
fn check_rules(mode: Mode, rules: &str, texts: &[(&str, &str, &str)]) {
    let session = under(mode, rules, "r.toml");
    for (unfinished, text, expected) in texts {
        let running = Running { unfinished, ..BARE };
        let verdict = feed(&session, running, text).verdict;
        assert_eq!(word(&verdict), *expected, "{unfinished:?} {text:?} {verdict:?}");
    }
}

#[test]
fn rules_on_commands_are_rules_on_texts() {
    const DENIES: &str = r#"
        [[rule]]
        toolName = "run_shell_command"
        commandPrefix = "git push"
        decision = "deny"
        priority = 1
    "#;
    let texts = [
        ("", "git push origin\n", "deny"),
        ("git pu", "sh\n", "deny"),
        ("", "cd src && git push\n", "deny"),
        ("", "git status\n", "allow"),
        // The rule may be about a text that cannot be analysed.
        ("", "print('\n", "ask!"),
    ];
    check_rules(Mode::Yolo, DENIES, &texts);
    check_rules(Mode::Default, DENIES, &[("", "git push\n", "deny"), ("", "ls\n", "ask!")]);
    let asks = DENIES.replace("deny", "ask_user");
    check_rules(Mode::Yolo, &asks, &[("", "git push\n", "ask!"), ("", "ls\n", "allow")]);
}

#[test]
fn what_a_text_is_by_itself_counts_beside_what_continues_the_line() {
    const DENIES: &str = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git push\"\n\
                          decision = \"deny\"\npriority = 1\n";
    // A program that reads single characters may have taken the unfinished line. A shell that the program starts then
    // reads the text alone, so the text is judged alone, too.
    let after = |unfinished| Running { unfinished, ..inside(WorkspaceWrite) };
    for unfinished in ["y", "#", "echo ", "'"] {
        check(after(unfinished), &["rm -rf src\n"], "ask! ask! allow deny");
    }
    check(after("y"), &["ls\n", ""], "ask! allow allow deny");
    let texts = [
        ("y", "git push\n", "deny"),
        ("#", "git push\n", "deny"),
        ("echo ", "git push\n", "deny"),
        ("git ", "push\n", "deny"),
        // A quote is open since the line before.
        ("echo \"\n", "\"; git push #\"\n", "deny"),
        ("echo \"\n", "\"; git push; \"\n", "ask!"),
        ("y", "ls\n", "allow"),
    ];
    check_rules(Mode::Yolo, DENIES, &texts);
    let begun = |unfinished| Running { unfinished, ..inside(WorkspaceWrite) };
    check_question(
        begun("cat .env; "),
        "rm -rf src\n",
        expect![[r#"
        `.env` may hold secrets: programs take their passwords and keys from it; `rm -rf src` deletes recursively, or without asking [built-in rules secrets, every-time]
        cat, rm"#]],
    );
    check_question(
        begun("y"),
        "rm -rf src; cat .env\n",
        expect![[r#"
        `.env` may hold secrets: programs take their passwords and keys from it; `rm -rf src` deletes recursively, or without asking [built-in rules secrets, every-time]
        rm, cat"#]],
    );
}

#[test]
fn a_text_that_sh_reads_in_another_way_than_bash_is_unclear() {
    const DENIES: &str = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"rm -rf\"\n\
                          decision = \"deny\"\npriority = 1\n";
    let texts = [
        ("", "ls &>x rm -rf build\n", "ask!"),
        ("", "ls >x\n", "allow"),
        // What bash reads counts, too.
        ("", "rm -rf build &>x\n", "deny"),
    ];
    check_rules(Mode::Yolo, DENIES, &texts);
    check(inside(ReadOnly), &["cat .env &>/dev/null\n"], "ask! ask! allow deny");
    check(inside(ReadOnly), &["ls &>x rm -rf build\n"], "allow allow allow deny");
}

#[test]
fn a_rule_allows_texts_up_to_the_sandbox_mode_that_it_names() {
    let rule = |more: &str| format!("[[rule]]\n{more}\ndecision = \"allow\"\npriority = 900\n");
    let named = |mode: &str| rule(&format!("toolName = \"write_stdin\"\nsandbox = \"{mode}\""));
    let verdicts = |rules: &str| {
        let session = under(Mode::Default, rules, "r.toml");
        let network = SandboxSituation { network: true, ..WHOLE };
        let running = |sandbox| Running { situation: Some(network), ..inside(sandbox) };
        [running(ReadOnly), running(WorkspaceWrite), running(DangerFullAccess), BARE]
            .map(|running| word(&feed(&session, running, "rm -rf src\n").verdict))
            .join(" ")
    };
    // The verdicts are those of the sandbox modes, from the narrowest on. In default mode, a program with the machine's
    // network is asked about in each.
    assert_eq!(verdicts(&rule("toolName = \"write_stdin\"")), "allow allow ask! allow");
    assert_eq!(verdicts(&rule("toolName = \"*\"")), "allow allow ask! allow");
    assert_eq!(verdicts(&named("read-only")), "allow ask! ask! ask!");
    assert_eq!(verdicts(&named("workspace-write")), "allow allow ask! ask!");
    assert_eq!(verdicts(&named("danger-full-access")), "allow allow allow allow");
}

#[test]
fn rules_on_the_tool_allow_texts_only_with_the_priority_of_what_is_asked_about_every_time() {
    let rule = |decision: &str, priority: u32| {
        format!(
            "[[rule]]\ntoolName = \"write_stdin\"\ndecision = \"{decision}\"\npriority = {priority}\n"
        )
    };
    check_rules(
        Mode::Default,
        &rule("allow", 899),
        &[("", "ls\n", "ask!"), ("", "p(1)\n", "ask!")],
    );
    let texts = [("", "ls\n", "allow"), ("", "p(1)\n", "allow"), ("", "rm -rf x\n", "allow")];
    check_rules(Mode::Default, &rule("allow", 900), &texts);
    check_rules(Mode::Plan, &rule("allow", 900), &[("", "ls\n", "deny")]);
    check_rules(Mode::Yolo, &rule("ask_user", 1), &[("", "ls\n", "ask!")]);
    check_rules(Mode::Yolo, &rule("deny", 1), &[("", "ls\n", "deny")]);
    let denies = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git push\"\n\
                  decision = \"deny\"\npriority = 1\n";
    let both = format!("{}{denies}", rule("allow", 900));
    check_rules(Mode::Default, &both, &[("", "git push\n", "deny"), ("", "ls\n", "allow")]);
}
