//! `/permissions`: what is always allowed, and the rules, listed and taken back.

use std::sync::Arc;

use expect_test::expect;
use tandem_agent::session::{Access, Parts, Session};
use tandem_approval::Scope;
use tandem_host::{Tool, ToolKind};
use tandem_settings::{policy, read_settings};
use test_fakes::{Fake, Spy, command_output, parts};

use crate::credentials::Place;

const RULES: &str = "[[rule]]\ncommandPrefix = [\"git push\", \"rm\"]\ndecision = \"deny\"\n\
    priority = 7\nmodes = [\"default\", \"plan\"]\n\n\
    [[rule]]\nmcpName = \"a\"\ndecision = \"allow\"\npriority = 9\n\n\
    [[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = \"?\"\n";

/// A session with two tools, and with the rules of a place.
fn session(place: &Place) -> Arc<Session> {
    let env = place.env(&[]);
    let folder = place.path("home");
    let policy = policy(&env, &read_settings(&env, &folder, &[]), &folder, true);
    let tool = |name| Arc::new(Fake::new(name, ToolKind::Read, Access::Read)) as Arc<dyn Tool>;
    let tools = ["glob", "read_file"].map(tool).into();
    let (spy, _) = Spy::new(Vec::new());
    Session::new(Parts { policy, tools, ..parts(spy) })
}

#[tokio::test]
async fn what_is_allowed_is_listed_with_where_it_is_from() {
    let place = Place::new().with("home/.gemini/policies/a.toml", RULES);
    let session = session(&place);
    expect![[r#"
        The approval mode is `default`.

        No question was answered with "always".

        **Rules**, the highest priority first:

        - allow every tool of the MCP server `a` (~/.gemini/policies/a.toml:7)
        - deny commands that begin with `git push` or `rm` in `default` and `plan` (~/.gemini/policies/a.toml:1)

        **Rules that cannot be used**:

        - ~/.gemini/policies/a.toml:15: this rule cannot be used, and until it is corrected, `glob` is asked about: invalid type: string "?", expected u32
    "#]].assert_eq(&command_output(&session, "/permissions").await);
    let permissions = Arc::clone(session.permissions());
    permissions.allow(Scope::Commands(vec!["cargo test".to_owned()]));
    permissions.save(Scope::Tool("x".to_owned())).unwrap();
    let listed = command_output(&session, "/permissions list").await;
    let folder = permissions.loaded().saved[0].folder.display().to_string();
    expect![[r#"
        The approval mode is `default`.

        **Always** (`/permissions remove N` removes one):

        1. commands that begin with `cargo test`, until the session ends
        2. every call of `x`, until the session ends
        3. every call of `x`, in {folder}, from the mode `default` on

        **Rules**, the highest priority first:

        - allow every tool of the MCP server `a` (~/.gemini/policies/a.toml:7)
        - deny commands that begin with `git push` or `rm` in `default` and `plan` (~/.gemini/policies/a.toml:1)

        **Rules that cannot be used**:

        - ~/.gemini/policies/a.toml:15: this rule cannot be used, and until it is corrected, `glob` is asked about: invalid type: string "?", expected u32
    "#]].assert_eq(&listed.replace(&folder, "{folder}"));
}

#[tokio::test]
async fn what_was_always_allowed_is_taken_back_by_its_number() {
    let place = Place::new();
    let session = session(&place);
    let permissions = Arc::clone(session.permissions());
    permissions.save(Scope::Edits).unwrap();
    expect!["This \"always\" answer no longer counts: all edits in the workspace."]
        .assert_eq(&command_output(&session, "/permissions remove 2").await);
    assert!(permissions.loaded().saved.is_empty());
    expect!["This \"always\" answer no longer counts: all edits in the workspace."]
        .assert_eq(&command_output(&session, "/permissions remove 1").await);
    assert!(permissions.allowed().is_empty());
    expect![[r#"No "always" answer has the number 1. `/permissions` shows the numbers."#]]
        .assert_eq(&command_output(&session, "/permissions remove 1").await);
    expect!["`x` is not a number. `/permissions` shows the numbers."]
        .assert_eq(&command_output(&session, "/permissions remove x").await);
    expect![[r#"
        `/permissions` has no `undo`. It has:

        - `/permissions list`: list the calls that need no question
        - `/permissions remove NUMBER`: remove an "always" answer
        - `/permissions trust [YES OR NO]`: trust or distrust the programs that this folder's settings name
        - `/permissions reload`: reload the rule files
    "#]].assert_eq(&command_output(&session, "/permissions undo").await);
}

#[tokio::test]
async fn rules_are_read_again_when_that_is_said() {
    let place = Place::new();
    let session = session(&place);
    expect!["0 rules are in force."]
        .assert_eq(&command_output(&session, "/permissions reload").await);
    let _place = place.with("home/.gemini/policies/a.toml", RULES);
    let reloaded = command_output(&session, "/permissions reload").await;
    expect![[r#"
        2 rules are in force.
        ~/.gemini/policies/a.toml:15: this rule cannot be used, and until it is corrected, `glob` is asked about: invalid type: string "?", expected u32"#]].assert_eq(&reloaded);
}

#[tokio::test]
async fn what_is_denied_when_rules_are_read_again_is_not_declared_any_more() {
    let place = Place::new();
    let session = session(&place);
    let declared = |name: &str| session.tools().iter().any(|tool| tool.name == name);
    assert!(declared("glob"));
    let rules = "[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 1\n";
    let _place = place.with("home/.gemini/policies/a.toml", rules);
    assert!(declared("glob"), "nobody has said to read them");
    command_output(&session, "/permissions reload").await;
    assert!(!declared("glob") && declared("read_file"));
}
