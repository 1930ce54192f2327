//! Connections of commands in the sandbox, and addresses that `web_fetch` reads. Both are decided alike: by the
//! mode, by rules on `connect`, and by earlier "always" answers.

use serde_json::{Value, json};
use tandem_approval::{Environment, Mode, PolicyRequest, Scope, Verdict};
use tandem_host::Access;

use super::questions::{Session, question};
use super::written::{no_rules, under};

/// Returns the verdict on a connection as a word. Checks that the verdict on an address of the host is the same.
fn verdict(session: &Session, host: &str, is_allowed: bool) -> &'static str {
    let args = json!({ "host": host, "port": 443 });
    let access = Access::Connect {
        host: host.to_owned(),
        port: 443,
        others: Vec::new(),
        command: "npm ci".to_owned(),
        is_allowed,
    };
    let connected = word(session, "connect", &args, &access);
    let url = format!("https://{host}/?d=SECRET");
    let args = json!({ "prompt": url });
    let allowed = if is_allowed { vec![host.to_owned()] } else { Vec::new() };
    let access = Access::Fetch { urls: vec![url], allowed };
    assert_eq!(word(session, "web_fetch", &args, &access), connected, "fetched from {host}");
    connected
}

fn word(session: &Session, tool: &str, args: &Value, access: &Access) -> &'static str {
    let request = PolicyRequest { tool, aliases: &[], args, access };
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
        let session = Session::with(mode, no_rules());
        assert_eq!(verdict(&session, "a.test", false), unknown, "{mode}");
        assert_eq!(verdict(&session, "a.test", true), "allow", "{mode}");
    }
}

#[test]
fn an_always_covers_its_host_whatever_has_asked() {
    let session = Session::with(Mode::Default, no_rules());
    session.permissions.allow(Scope::Connections(vec!["a.test".to_owned()]));
    let verdicts = ["a.test", "b.test", "x.a.test"].map(|host| verdict(&session, host, false));
    assert_eq!(verdicts, ["allow", "ask", "ask"]);
}

/// Returns the verdict on a call that reads from these hosts.
fn fetched(session: &Session, hosts: &[&str]) -> Verdict {
    let urls = hosts.iter().map(|host| format!("https://{host}/x")).collect();
    let access = Access::Fetch { urls, allowed: vec!["listed.test".to_owned()] };
    let args = json!({});
    let request = PolicyRequest { tool: "web_fetch", aliases: &[], args: &args, access: &access };
    session.permissions.check(&request, &Environment::default()).verdict
}

#[test]
fn an_always_of_an_earlier_version_covers_fetching_alone() {
    let session = Session::with(Mode::Default, no_rules());
    session.permissions.allow(Scope::Hosts(vec!["a.test".to_owned()]));
    assert_eq!(fetched(&session, &["a.test"]), Verdict::Allow);
    let (host, port, command) = ("a.test".to_owned(), 443, "curl".to_owned());
    let access = Access::Connect { host, port, others: Vec::new(), command, is_allowed: false };
    assert_eq!(word(&session, "connect", &json!({}), &access), "ask");
}

#[test]
fn one_question_names_every_host_that_is_not_allowed_yet() {
    let session = Session::with(Mode::AutoEdit, no_rules());
    session.permissions.allow(Scope::Connections(vec!["known.test".to_owned()]));
    let hosts = ["b.test", "listed.test", "known.test", "a.test:8443", "b.test"];
    let asked = question(fetched(&session, &hosts));
    let open = vec!["a.test:8443".to_owned(), "b.test".to_owned()];
    assert_eq!(asked.scopes, [Scope::Connections(open)]);
    assert!(asked.reason().contains("`a.test:8443`, `b.test`"), "{}", asked.reason());
    assert!(asked.reason().ends_with("[built-in rule network]"), "{}", asked.reason());
    session.permissions.allow(asked.scopes[0].clone());
    assert_eq!(fetched(&session, &hosts), Verdict::Allow);
}

#[test]
fn a_rule_on_connect_binds_every_address_of_a_call() {
    let rules = "[[rule]]\ntoolName = \"connect\"\nargsPattern = '\"host\":\"bad\\.test\"'\n\
        decision = \"deny\"\npriority = 20\n\n[[rule]]\ntoolName = \"web_fetch\"\n\
        decision = \"allow\"\npriority = 30\n";
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo] {
        let session = under(mode, rules, "rules.toml");
        assert_eq!(fetched(&session, &["other.test"]), Verdict::Allow, "{mode}");
        let denied = fetched(&session, &["other.test", "BAD.test."]);
        assert!(matches!(denied, Verdict::Deny { .. }), "{mode}: {denied:?}");
    }
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
        // Rules that deny or ask count although the settings allow the host (`true`).
        assert_eq!(verdict(&session, "bad.test", true), "deny");
        assert_eq!(verdict(&session, "odd.test", true), "ask");
        assert!(session.permissions.unseen_remarks().is_empty());
    }
    let session = under(Mode::Plan, rules, "rules.toml");
    let verdicts = ["good.test", "bad.test", "odd.test", "other.test"];
    let verdicts = verdicts.map(|host| verdict(&session, host, false));
    // In plan mode, a rule allows a host only if the rule names plan mode in `modes`. None of these rules names a
    // mode.
    assert_eq!(verdicts, ["deny"; 4]);
}
