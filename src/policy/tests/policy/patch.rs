//! Patches: one question for all files of a patch, and rules about edits for each file.

use expect_test::expect;
use serde_json::{Value, json};
use tandem_approval::{Mode, PolicyRequest, Scope, Verdict};
use tandem_host::Access;

use super::own_environment;
use super::questions::{Session, question};
use super::written::under;

/// Text of the patches below.
const TEXT: &str = "*** Begin Patch\n*** Add File: x\n+password = 1\n*** End Patch";

/// Returns the verdict on a patch of these files of the workspace.
fn patched(session: &Session, files: &[&str]) -> Verdict {
    let mut paths = files.iter().map(|path| session.workspace.root.join(path));
    let access = Access::Edit { path: paths.next().unwrap(), others: paths.collect() };
    let args = json!({ "input": TEXT });
    let request = PolicyRequest { tool: "apply_patch", aliases: &[], args: &args, access: &access };
    session.permissions.check(&request, &own_environment()).verdict
}

/// Checks the verdicts on a patch in the modes default, `auto_edit`, yolo and plan.
#[track_caller]
fn check(rules: &str, files: &[&str], expected: &str) {
    let rules: String = rules
        .split("; ")
        .filter(|rule| !rule.is_empty())
        .map(|rule| format!("[[rule]]\n{}\n", rule.replace(", ", "\n")))
        .collect();
    let verdicts = Mode::ALL.map(|(_, mode)| {
        let session = under(mode, &rules, "x.toml");
        assert!(session.permissions.unseen_remarks().is_empty(), "{rules}");
        match patched(&session, files) {
            Verdict::Allow => "allow",
            Verdict::Ask(question) if question.every_time() => "ask!",
            Verdict::Ask(_) => "ask",
            Verdict::Deny { .. } => "deny",
        }
    });
    assert_eq!(verdicts.join(" "), expected, "{rules} {files:?}");
}

const UNRULED: &str = "ask allow allow deny";
const DENIED: &str = "deny deny deny deny";

#[test]
fn a_patch_is_asked_about_as_an_edit_is() {
    check("", &["src/main.rs"], UNRULED);
    check("", &["src/main.rs", "README.md", "new/file"], UNRULED);
}

#[test]
fn one_sensitive_or_secret_file_makes_all_of_the_patch_a_question_every_time() {
    let asked = "ask! ask! allow deny";
    for file in ["package.json", ".git/config", "sub/.git/hooks/x", ".env", ".bashrc"] {
        check("", &[file, "src/main.rs"], asked);
        check("", &["src/main.rs", "README.md", file], asked);
    }
    let session = Session::new(Mode::AutoEdit);
    let asked = question(patched(&session, &["src/main.rs", "package.json", ".git/config"]));
    expect!["`package.json` is a sensitive file: npm runs its scripts; `.git/config` is a sensitive file: it changes what git does"]
        .assert_eq(&asked.why);
    assert_eq!(asked.scopes, []);
}

#[test]
fn always_is_for_edits_or_for_patches_and_never_for_a_sensitive_file() {
    let session = Session::new(Mode::Default);
    let asked = question(patched(&session, &["src/main.rs", "README.md"]));
    assert_eq!(asked.scopes, [Scope::Edits, Scope::Tool("apply_patch".to_owned())]);
    for (scope, allows) in [
        (Scope::Edits, true),
        (Scope::Tool("apply_patch".to_owned()), true),
        // An "always" for a tool that edits one file does not cover patches, which may change several files.
        (Scope::Tool("replace".to_owned()), false),
        (Scope::Tool("write_file".to_owned()), false),
    ] {
        let session = Session::unchanging(Mode::Default);
        session.permissions.allow(scope.clone());
        let verdict = patched(&session, &["src/main.rs", "README.md"]);
        assert_eq!(verdict == Verdict::Allow, allows, "{scope}");
        question(patched(&session, &["src/main.rs", "package.json"]));
    }
}

#[test]
fn rules_that_deny_or_ask_about_edits_hold_for_each_file_of_a_patch() {
    let files = ["src/main.rs", "doc/a.md"];
    for tool in ["apply_patch", "replace", "write_file", "*", "re*"] {
        let rule = |rest: &str| format!("toolName = \"{tool}\", {rest}, priority = 100");
        check(&rule("decision = \"deny\""), &files, DENIED);
        check(&rule("decision = \"ask_user\""), &files, "ask! ask! ask! deny");
    }
    for tool in ["replace", "write_file"] {
        let rule = |pattern: &str| {
            format!(
                "toolName = \"{tool}\", argsPattern = '{pattern}', decision = \"deny\", priority = 100"
            )
        };
        // A rule matches the path in each form that a model may write, relative or absolute. A rule on the content
        // matches text anywhere in the patch.
        check(&rule("\"file_path\":\"doc/"), &files, DENIED);
        check(&rule("\"file_path\":\"/.*/doc/"), &files, DENIED);
        check(&rule("\"file_path\":\"doc/"), &["src/main.rs"], UNRULED);
        check(&rule("password"), &files, DENIED);
    }
    check("toolName = \"read_file\", decision = \"deny\", priority = 100", &files, UNRULED);
    // A rule that denies edits outweighs a rule that allows patches, whatever the priorities.
    let both = "toolName = \"apply_patch\", decision = \"allow\", priority = 500; \
        toolName = \"write_file\", argsPattern = '\"doc/', decision = \"deny\", priority = 1";
    check(both, &files, DENIED);
    check(both, &["src/main.rs"], "allow allow allow deny");
}

#[test]
fn rules_that_allow_edits_allow_a_patch_only_if_they_allow_the_edit_of_each_file() {
    let allow = "toolName = \"*\", argsPattern = '\"file_path\":\"doc/', decision = \"allow\", \
        priority = 100";
    check(allow, &["doc/a.md", "doc/b.md"], "allow allow allow deny");
    check(allow, &["doc/a.md", "src/main.rs"], UNRULED);
    let one = "toolName = \"replace\", decision = \"allow\", priority = 100";
    check(one, &["doc/a.md"], UNRULED);
    // The matching text may belong to another file of the patch, so a rule on the content allows no patch.
    let text = "argsPattern = 'password', toolName = \"w*\", decision = \"allow\", priority = 100; \
        argsPattern = 'password', toolName = \"re*\", decision = \"allow\", priority = 100";
    check(text, &["doc/a.md"], UNRULED);
    // For a sensitive file, every rule that allows its edits needs a priority of 900.
    let weak = "toolName = \"w*\", decision = \"allow\", priority = 950; \
        toolName = \"re*\", decision = \"allow\", priority = 899";
    check(weak, &["doc/a.md", "package.json"], "ask! ask! allow deny");
    check(&weak.replace("899", "900"), &["doc/a.md", "package.json"], "allow allow allow deny");
}

#[test]
fn a_rule_that_cannot_be_read_and_may_be_about_edits_asks_about_patches() {
    let rules = "[[rule]]\ntoolName = \"replace\"\nargsPattern = '(?=a)'\ndecision = \"deny\"\npriority = 1\n";
    question(patched(&under(Mode::Yolo, rules, "x.toml"), &["src/main.rs"]));
}

#[test]
fn patches_are_not_declared_where_edits_are_denied_altogether() {
    let removes = |tool: &str| {
        let rules =
            format!("[[rule]]\ntoolName = \"{tool}\"\ndecision = \"deny\"\npriority = 100\n");
        let session = under(Mode::Default, &rules, "x.toml");
        let access = Access::Nothing;
        let request = PolicyRequest {
            tool: "apply_patch",
            aliases: &[],
            args: &Value::Null,
            access: &access,
        };
        session.permissions.removes(&request)
    };
    assert!(removes("apply_patch") && removes("replace") && removes("write_file"));
    assert!(!removes("read_file"));
}
