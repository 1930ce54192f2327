//! Connections of commands in the sandbox: the modes, and rules on `connect`.

use serde_json::json;
use tandem_agent::permission::{Environment, Mode, PolicyRequest, PolicySetup, Scope, Verdict};
use tandem_tools::Access;

use super::questions::Session;
use super::written::under;

/// Returns the verdict on a connection, in a word.
fn verdict(session: &Session, host: &str, is_allowed: bool) -> &'static str {
    let args = json!({ "host": host, "port": 443 });
    let access = Access::Connect {
        host: host.to_owned(),
        port: 443,
        command: "npm ci".to_owned(),
        is_allowed,
    };
    let request = PolicyRequest { tool: "connect", aliases: &[], args: &args, access: &access };
    match session.permissions.check(&request, &Environment::default()).verdict {
        Verdict::Allow => "allow",
        Verdict::Ask(_) => "ask",
        Verdict::Deny { .. } => "deny",
    }
}

#[test]
fn every_mode_but_yolo_asks_and_plan_mode_denies() {
    for (mode, unknown) in [
        (Mode::Default, "ask"),
        (Mode::AutoEdit, "ask"),
        (Mode::Yolo, "allow"),
        (Mode::Plan, "deny"),
    ] {
        let session = Session::with(mode, PolicySetup::default());
        assert_eq!(verdict(&session, "a.test", false), unknown, "{mode}");
        assert_eq!(verdict(&session, "a.test", true), "allow", "{mode}");
    }
}

#[test]
fn an_always_covers_its_host_and_no_fetching() {
    let session = Session::with(Mode::Default, PolicySetup::default());
    session.permissions.allow(Scope::Hosts(vec!["b.test".to_owned()]));
    session.permissions.allow(Scope::Connections(vec!["a.test".to_owned()]));
    let verdicts = ["a.test", "b.test", "x.a.test"].map(|host| verdict(&session, host, false));
    assert_eq!(verdicts, ["allow", "ask", "ask"]);
}

#[test]
fn rules_name_the_tool_connect() {
    let rules = "[[rule]]\ntoolName = \"connect\"\nargsPattern = '\"host\":\"good\\.test\"'\n\
        decision = \"allow\"\npriority = 10\n\n[[rule]]\ntoolName = \"connect\"\n\
        argsPattern = '\"host\":\"bad\\.test\"'\ndecision = \"deny\"\npriority = 20\n\n[[rule]]\n\
        toolName = \"connect\"\nargsPattern = '\"host\":\"odd\\.test\"'\ndecision = \"ask_user\"\n\
        priority = 20\n";
    for mode in [Mode::Default, Mode::Yolo] {
        let session = under(mode, rules, "rules.toml");
        let unknown = verdict(&session, "other.test", false);
        assert_eq!(unknown, if mode == Mode::Yolo { "allow" } else { "ask" });
        assert_eq!(verdict(&session, "good.test", false), "allow");
        // Whatever the settings allow.
        assert_eq!(verdict(&session, "bad.test", true), "deny");
        assert_eq!(verdict(&session, "odd.test", true), "ask");
        assert!(session.permissions.news().is_empty());
    }
}
