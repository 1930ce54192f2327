//! Files of rules: each fault is reported, and fails on the safe side.

use serde_json::{Value, json};
use tandem_approval::{Mode, PolicyRequest, RuleName, Verdict};
use tandem_host::{Access, Hints};
use tandem_policy::rules::{Tier, parse};

use super::own_environment;
use super::questions::{Session, call, question};
use super::written::under;

/// Checks the message about a faulty file: the line, the effect of the fault, and the reason.
fn check_wrong(text: &str, line: u32, comes: &str, why: &str) {
    let session = under(Mode::Yolo, text, "x.toml");
    let comes = if comes.is_empty() {
        String::new()
    } else {
        format!("this rule cannot be used, and {comes}: ")
    };
    let expected = format!("x.toml:{line}: {comes}{why}");
    let news = session.permissions.unseen_remarks().join("\n");
    assert!(news.starts_with(&expected), "{news}\nis not\n{expected}");
}

/// Hints of a server about its tool.
const HINTS: Hints = Hints {
    trusted: false,
    read_only: Some(true),
    destructive: None,
    idempotent: None,
    open_world: None,
};

const ALLOW: &str =
    "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 9\n";
const DENY: &str = "[[rule]]\ncommandPrefix = \"curl\"\ndecision = \"deny\"\npriority = 9\n";

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let rule = |fields: &str| format!("[[rule]]\n{}\n", fields.replace("; ", "\n"));
    let check = |fields: &str, line, comes, why| check_wrong(&rule(fields), line, comes, why);
    let nothing = "it allows nothing";
    let all = "until it is corrected, everything is asked about";
    let x = "until it is corrected, `x` is asked about";
    let shell = "until it is corrected, `run_shell_command` is asked about";
    let allow = "decision = 'allow'; priority = 1";
    let deny = "decision = 'deny'; priority = 1";
    check(&format!("{allow}; commandPrefx = 'a'"), 4, nothing, "unknown field `commandPrefx`");
    check(&format!("{allow}000"), 3, nothing, "`priority` must be a whole number from 0 to 999");
    check("toolName = 'x'; decision = 'deny'; priority = -1", 4, x, "invalid value: integer `-1`");
    check(&format!("commandRegex = '(a'; {deny}"), 2, shell, "not a regular expression that can");
    check(
        &format!("argsPattern = '(?=a)'; toolName = 'x'; {deny}"),
        2,
        x,
        "not a regular expression",
    );
    check("decision = 'forbid'; priority = 1", 2, all, "unknown variant `forbid`");
    check("toolName = 'x'; priority = 1", 1, x, "missing field `decision`");
    check(&format!("toolName = 5; {deny}"), 2, all, "expected a text in quotes, or a list of them");
    check("decision = 'deny'", 1, all, "missing field `priority`");
    check(
        &format!("toolName = 'x'; commandPrefix = 'a'; {deny}"),
        1,
        x,
        "beside a command `toolName`",
    );
    check(
        &format!("commandPrefix = 'a'; commandRegex = 'a'; {allow}"),
        3,
        nothing,
        "`commandRegex` and",
    );
    check(
        &format!("commandPrefix = [' ']; {allow}"),
        2,
        nothing,
        "`commandPrefix` must have a word",
    );
    check(&format!("modes = ['fast']; {allow}"), 2, nothing, "unknown variant `fast`");
    check(&format!("folder = 'src'; {allow}"), 2, nothing, "`folder` must be an absolute path");
    check(&format!("decision = 'deny; {allow}"), 2, all, "invalid literal string");
    check_wrong("\n[rule]\ndecision = 'deny'\n", 2, all, "must be written [[rule]]");
    check_wrong("\n\n[[rules]]\n", 3, all, "`rules` is not known; a rule begins with [[rule]]");
    check_wrong("[[always]]\nallow = 'every'\nfolder = '/'\n", 1, "", "unknown variant `every`");
    check_wrong("[[safety_checker]]\n", 1, "", "safety checkers are not used");
}

#[test]
fn what_there_is_not_here_is_passed_over() {
    for text in ["", "# x", "[[rule]]\nsubagent = 'x'\ndecision = 'deny'\npriority = 1\n"] {
        let session = under(Mode::Default, text, "x.toml");
        assert_eq!(session.permissions.unseen_remarks(), Vec::<String>::new());
        assert_eq!(session.run("ls"), Verdict::Allow);
    }
}

#[test]
fn a_rule_that_could_only_allow_is_left_out_and_the_others_stay() {
    let broken = "[[rule]]\ncommandPrefix = \"rm\"\ndecision = \"allow\"\npriority = \"high\"\n";
    let session = under(Mode::Default, &format!("{broken}{ALLOW}{DENY}"), "x.toml");
    assert_eq!(session.run("make"), Verdict::Allow);
    question(session.run("rm -rf x"));
    assert!(matches!(session.run("curl x"), Verdict::Deny { .. }));
}

#[test]
fn what_a_broken_rule_may_have_denied_is_asked_about_in_every_mode() {
    let broken = "[[rule]]\ntoolName = \"run_shell_command\"\nargsPattern = \"(\"\n\
        decision = \"deny\"\npriority = 5\n";
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo] {
        let session = under(mode, &format!("{broken}{ALLOW}{DENY}"), "x.toml");
        for line in ["ls", "make"] {
            let asked = question(session.run(line));
            assert!(asked.every_time());
            assert_eq!(asked.rules, [RuleName::Written("x.toml:3".to_owned())]);
        }
        assert!(matches!(session.run("curl x"), Verdict::Deny { .. }));
        assert_eq!(call(&session.permissions, "read_file", &Access::Read), Verdict::Allow);
    }
}

#[test]
fn of_a_file_that_cannot_be_read_anything_may_have_been_denied() {
    let broken = "[[rule]]\ndecision = deny\n";
    let session = under(Mode::Yolo, &format!("{ALLOW}{DENY}{broken}"), "x.toml");
    question(session.run("ls"));
    // The rules before the broken one were read: a rule that denies still counts.
    assert!(matches!(session.run("curl x"), Verdict::Deny { .. }));
    question(call(&session.permissions, "read_file", &Access::Read));
    assert_eq!(call(&session.permissions, "write_todos", &Access::Nothing), Verdict::Allow);
    // Of a broken file, no rule that allows anything counts: the part that narrows such a rule may be lost.
    assert!(
        session
            .permissions
            .loaded()
            .policy
            .rules()
            .iter()
            .all(|it| it.name.to_string() == "x.toml:5")
    );
}

/// Returns the verdict of a session's policy on a request.
fn ruled(session: &Session, request: &PolicyRequest<'_>) -> Verdict {
    session.permissions.check(request, &own_environment()).verdict
}

/// Returns the verdicts of rules on a call, in the modes default, `auto_edit`, yolo and plan.
fn verdicts(rules: &str, request: &PolicyRequest<'_>) -> String {
    let verdicts = Mode::ALL.map(|(_, mode)| match ruled(&under(mode, rules, "x.toml"), request) {
        Verdict::Allow => "allow",
        Verdict::Ask(question) if question.every_time() => "ask!",
        Verdict::Ask(_) => "ask",
        Verdict::Deny { .. } => "deny",
    });
    verdicts.join(" ")
}

/// Checks the verdicts of a rule, given without its priority, on a call of a tool.
fn check(rule: &str, tool: &str, access: Access, expected: &str) {
    let rules = format!("[[rule]]\n{}\npriority = 100\n", rule.replace("; ", "\n"));
    let args = match &access {
        Access::Edit { path, .. } => json!({ "file_path": path, "content": "x" }),
        Access::Mcp { .. } => json!({ "b": 1, "a": "q" }),
        _ => Value::Null,
    };
    let request = PolicyRequest { tool, aliases: &["old_name"], args: &args, access: &access };
    assert_eq!(verdicts(&rules, &request), expected, "{rule}");
}

#[test]
fn rules_are_about_tools_and_their_arguments() {
    let edit = || Access::edit("/work/src/a.rs");
    let check = |rule, expected| check(rule, "write_file", edit(), expected);
    let unruled = "ask allow allow deny";
    check("toolName = \"write_file\"; decision = \"deny\"", "deny deny deny deny");
    check("toolName = \"old_name\"; decision = \"deny\"", "deny deny deny deny");
    check("toolName = \"*\"; decision = \"deny\"", "deny deny deny deny");
    check("decision = \"deny\"", "deny deny deny deny");
    check("toolName = \"write_*\"; decision = \"ask_user\"", "ask! ask! ask! deny");
    check("toolName = \"write_file\"; decision = \"allow\"", "allow allow allow deny");
    check(
        "toolName = \"write_file\"; modes = [\"plan\"]; decision = \"allow\"",
        "ask allow allow allow",
    );
    check(
        "toolName = \"write_file\"; modes = [\"yolo\"]; decision = \"deny\"",
        "ask allow deny deny",
    );
    check("toolName = \"read_file\"; decision = \"deny\"", unruled);
    check("toolName = \"mcp_*\"; decision = \"deny\"", unruled);
    check(
        "argsPattern = '\"file_path\":\"/work/src/'; decision = \"allow\"",
        "allow allow allow deny",
    );
    check("argsPattern = '\"file_path\":\"/work/doc/'; decision = \"allow\"", unruled);
    check("argsPattern = '\\0\"content\":\"x\"\\0'; decision = \"deny\"", "deny deny deny deny");
    check("interactive = true; decision = \"deny\"", "deny deny deny deny");
    check("interactive = false; decision = \"deny\"", unruled);
    check("folder = \"/nowhere\"; decision = \"deny\"", unruled);
    check("folder = \"/\"; decision = \"deny\"", "deny deny deny deny");
    check("subagent = \"x\"; decision = \"deny\"", unruled);
}

#[test]
fn a_rule_may_forbid_questions_of_the_model_and_answers_none_of_them() {
    let input = || Access::UserInput { questions: Vec::new() };
    let check = |decision: &str, expected| {
        let rule = format!("toolName = 'ask_user'; decision = '{decision}'");
        check(&rule, "ask_user", input(), expected);
    };
    check("allow", "ask! ask! ask! ask!");
    check("ask_user", "ask! ask! ask! ask!");
    check("deny", "deny deny deny deny");
    let rules = "[[rule]]\ntoolName = 'ask_user'\ndecision = 'allow'\npriority = 999\n";
    let access = input();
    let request =
        PolicyRequest { tool: "ask_user", aliases: &[], args: &Value::Null, access: &access };
    assert_eq!(verdicts(rules, &request), "ask! ask! ask! ask!");
}

#[test]
fn rules_are_about_servers_and_their_tools() {
    let access = || Access::Mcp {
        server: "git-hub".into(),
        tool: "get_issue".into(),
        display_name: String::new(),
        hints: HINTS,
    };
    let check = |rule, expected| check(rule, "mcp_git-hub_get_issue", access(), expected);
    let unruled = "ask ask allow ask";
    let allowed = "allow allow allow ask";
    check("toolName = \"mcp_*\"; decision = \"allow\"", allowed);
    check("toolName = \"mcp_git-hub_*\"; decision = \"allow\"", allowed);
    check("toolName = \"mcp_*_get_issue\"; decision = \"allow\"", allowed);
    check("toolName = \"git-hub__get_issue\"; decision = \"allow\"", allowed);
    check("mcpName = \"git-hub\"; decision = \"allow\"", allowed);
    check("mcpName = \"*\"; decision = \"allow\"", allowed);
    check("mcpName = \"git-hub\"; toolName = \"get_issue\"; decision = \"allow\"", allowed);
    check(
        "mcpName = \"git-hub\"; toolName = \"get_*\"; decision = \"deny\"",
        "deny deny deny deny",
    );
    check("toolAnnotations = { readOnlyHint = true }; decision = \"allow\"", allowed);
    check("toolAnnotations = { readOnlyHint = false }; decision = \"allow\"", unruled);
    check("toolAnnotations = { destructiveHint = false }; decision = \"allow\"", unruled);
    check("mcpName = \"git\"; decision = \"allow\"", unruled);
    check("toolName = \"mcp_git_*\"; decision = \"allow\"", unruled);
    check("toolName = \"mcp_*_issue\"; decision = \"allow\"", unruled);
    check("argsPattern = '^\\{\\0\"a\":\"q\"\\0,\\0\"b\":1\\0\\}$'; decision = \"allow\"", allowed);
}

#[test]
fn the_weightiest_rule_decides_and_of_two_the_stricter() {
    let rule = |decision: &str, priority: u32| {
        format!("[[rule]]\ntoolName = \"x\"\ndecision = \"{decision}\"\npriority = {priority}\n")
    };
    let said = |rules: &[String]| match call(
        &under(Mode::Default, &rules.concat(), "x.toml").permissions,
        "x",
        &Access::Read,
    ) {
        Verdict::Allow => "allow",
        Verdict::Ask(_) => "ask",
        Verdict::Deny { .. } => "deny",
    };
    assert_eq!(said(&[rule("deny", 1), rule("allow", 2)]), "allow");
    assert_eq!(said(&[rule("allow", 2), rule("deny", 1)]), "allow");
    assert_eq!(said(&[rule("allow", 2), rule("ask_user", 3), rule("deny", 1)]), "ask");
    assert_eq!(said(&[rule("allow", 2), rule("deny", 2), rule("ask_user", 2)]), "deny");
    let admin = parse(&rule("deny", 0), "admin.toml", Tier::Admin);
    let user = parse(&rule("allow", 999), "user.toml", Tier::User);
    assert!(admin.rules[0].rank > user.rules[0].rank);
}

#[test]
fn special_files_need_a_rule_of_the_weight_of_every_time() {
    let edit = |priority: u32| {
        let rules = format!(
            "[[rule]]\ntoolName = \"write_file\"\ndecision = \"allow\"\npriority = {priority}\n"
        );
        let session: Session = under(Mode::Default, &rules, "x.toml");
        let path = session.workspace.root.join("package.json");
        call(&session.permissions, "write_file", &Access::edit(path))
    };
    question(edit(899));
    assert_eq!(edit(900), Verdict::Allow);
}

#[test]
fn a_tool_that_is_denied_altogether_is_not_declared() {
    let check = |rules: &str, tool: &str, expected: bool| {
        let access = match tool.split_once('/') {
            Some((server, tool)) => Access::Mcp {
                server: server.into(),
                tool: tool.into(),
                display_name: String::new(),
                hints: HINTS,
            },
            None => Access::Nothing,
        };
        let rules: String = rules
            .split("; ")
            .map(|rule| format!("[[rule]]\n{}\n", rule.replace(", ", "\n")))
            .collect();
        let session = under(Mode::Default, &rules, "x.toml");
        assert!(session.permissions.unseen_remarks().is_empty(), "{rules}");
        let request = PolicyRequest { tool, aliases: &[], args: &Value::Null, access: &access };
        assert_eq!(session.permissions.removes(&request), expected, "{rules}");
    };
    let deny = "decision = \"deny\", priority = 100";
    check(&format!("toolName = \"glob\", {deny}"), "glob", true);
    check(&format!("toolName = \"glob\", {deny}"), "read_file", false);
    check(&format!("toolName = \"*\", {deny}"), "glob", true);
    check(&format!("toolName = \"run_shell_command\", {deny}"), "run_shell_command", true);
    check(&format!("commandPrefix = \"rm\", {deny}"), "run_shell_command", false);
    check(&format!("toolName = \"glob\", argsPattern = \"x\", {deny}"), "glob", false);
    check(&format!("toolName = \"glob\", modes = [\"yolo\"], {deny}"), "glob", false);
    check(&format!("mcpName = \"a\", {deny}"), "a/b", true);
    check(&format!("mcpName = \"a\", {deny}"), "b/b", false);
    let ls = "commandPrefix = \"ls\", decision = \"allow\", priority = 200";
    check(&format!("toolName = \"run_shell_command\", {deny}; {ls}"), "run_shell_command", false);
    let glob = "toolName = \"glob\", decision = \"allow\", priority = 200";
    check(&format!("toolName = \"*\", {deny}; {glob}"), "glob", false);
    let less = "toolName = \"glob\", decision = \"allow\", priority = 50";
    check(&format!("toolName = \"*\", {deny}; {less}"), "glob", true);
}
