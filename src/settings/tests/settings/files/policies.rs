//! Where rules are written, and where answers are: files, directories, settings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect;
use serde_json::{Value, json};
use tandem_approval::{
    Environment, Mode, Permissions, PolicyRequest, Question, RuleName, Saved, Scope, Verdict,
};
use tandem_host::{Access, Hints};
use tandem_settings::{policy, read_settings};

use crate::credentials::Place;

const GEMINI: &str = "home/.gemini/policies/a.toml";
const OWN: &str = "home/.config/tandem/policies/b.toml";
const SAVED: &str = "home/.config/tandem/policies/saved.toml";
const SYSTEM: &str = "etc/policies/c.toml";
const SETTINGS: &str = "home/.gemini/settings.json";

fn permissions(place: &Place) -> Permissions {
    permissions_in(place, Mode::Default, "home/repo/sub")
}

fn permissions_in(place: &Place, mode: Mode, folder: &str) -> Permissions {
    let system = place.path("etc/settings.json").display().to_string();
    let env = place.env(&[("GEMINI_CLI_SYSTEM_SETTINGS_PATH", &system)]);
    let folder = fs::canonicalize(place.path(folder)).unwrap();
    let settings = read_settings(&env, &folder, &[]);
    let setup = policy(&env, &settings, &folder, true);
    Permissions::new(mode, setup, &[folder])
}

/// Returns the verdict on a call of a tool.
fn call(permissions: &Permissions, tool: &str, access: &Access) -> Verdict {
    let args = match access {
        Access::Execute { command, .. } => json!({ "command": command }),
        _ => Value::Null,
    };
    let request = PolicyRequest { tool, aliases: &[], args: &args, access };
    permissions.check(&request, &Environment::new(std::env::vars_os())).verdict
}

#[track_caller]
fn question(verdict: Verdict) -> Question {
    match verdict {
        Verdict::Ask(question) => question,
        other => panic!("not asked about: {other:?}"),
    }
}

fn run(permissions: &Permissions, line: &str) -> Verdict {
    let directory = permissions.folder().to_owned();
    let access = Access::Execute { command: line.to_owned(), directory, sandbox: None };
    call(permissions, "run_shell_command", &access)
}

fn rule(prefix: &str, decision: &str) -> String {
    format!("[[rule]]\ncommandPrefix = \"{prefix}\"\ndecision = \"{decision}\"\npriority = 100\n")
}

fn denied(verdict: Verdict) -> String {
    match verdict {
        Verdict::Deny { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

/// Returns a text without the path of the home directory.
fn shown(place: &Place, text: &str) -> String {
    text.replace(&place.path("home").display().to_string(), "{home}")
}

/// Returns the rules in force with their names, the highest rank first.
fn rules(permissions: &Permissions) -> Vec<(String, String)> {
    let loaded = permissions.loaded();
    let rules = loaded.policy.rules().into_iter();
    rules.map(|rule| (rule.text, rule.name.to_string())).collect()
}

#[test]
fn rules_are_read_from_every_place() {
    let flag = "{ \"policyPaths\": [\"~/more\", \"~/one.toml\"] }";
    let place = Place::new()
        .with(GEMINI, &rule("one", "deny"))
        .with(OWN, &rule("two", "deny"))
        .with(SYSTEM, &rule("three", "deny"))
        .with("home/more/x.toml", &rule("four", "deny"))
        .with("home/more/x.txt", &rule("six", "deny"))
        .with("home/one.toml", &rule("five", "deny"))
        .with("home/repo/sub/.gemini/policies/x.toml", &rule("seven", "allow"))
        .with(SETTINGS, flag);
    let permissions = permissions(&place);
    assert_eq!(permissions.unseen_remarks(), Vec::<String>::new());
    let rules = rules(&permissions);
    for (line, file) in [
        ("one", "~/.gemini/policies/a.toml:1"),
        ("two", "~/.config/tandem/policies/b.toml:1"),
        ("three", "policies/c.toml:1"),
        ("four", "~/more/x.toml:1"),
        ("five", "~/one.toml:1"),
    ] {
        denied(run(&permissions, line));
        let wanted = format!("deny commands that begin with `{line}`");
        let (_, name) = rules.iter().find(|(rule, _)| *rule == wanted).unwrap();
        assert!(name.ends_with(file), "{name}");
    }
    assert_eq!(rules.len(), 5);
    question(run(&permissions, "six"));
    question(run(&permissions, "seven"));
}

#[test]
fn the_machines_owner_outranks_the_user() {
    let place = Place::new()
        .with(GEMINI, &rule("x", "allow").replace("100", "999"))
        .with(SYSTEM, &rule("x", "deny").replace("100", "0"));
    denied(run(&permissions(&place), "x"));
}

#[test]
fn a_file_that_others_may_write_is_not_read_and_what_it_may_say_is_asked_about() {
    let check = |place: Place, expected: &str| {
        let permissions = permissions_in(&place, Mode::Yolo, "home/repo/sub");
        let loaded = permissions.loaded();
        let broken: Vec<_> = loaded.policy.broken().iter().map(|it| it.name.clone()).collect();
        assert_eq!(broken, [RuleName::Written(expected.to_owned())]);
        assert_eq!(permissions.unseen_remarks(), [loaded.policy.broken()[0].text.clone()]);
        for line in ["ls", "x"] {
            assert_eq!(question(run(&permissions, line)).rules, broken);
        }
    };
    let place = || Place::new().with(GEMINI, &rule("x", "allow"));
    check(place().mode(GEMINI, 0o622), "~/.gemini/policies/a.toml");
    check(place().mode("home/.gemini/policies", 0o777), "~/.gemini/policies");
    let missing = "{ \"policyPaths\": [\"~/none.toml\"] }";
    check(place().with(SETTINGS, missing), "~/none.toml");
    let place = place();
    fs::write(place.path(GEMINI), vec![b'#'; 2 << 20]).unwrap();
    check(place, "~/.gemini/policies/a.toml");
}

#[test]
fn older_settings_are_rules() {
    let settings = json!({
        "tools": {
            "allowed": ["run_shell_command(git commit)", "ShellTool(make)", "mcp_a_two"],
            "exclude": ["run_shell_command(git commit --amend)", "glob"],
            "confirmationRequired": ["ReadFileTool"],
        },
        "mcp": { "allowed": ["a", "b"], "excluded": ["b"] },
        "mcpServers": { "a": { "command": "x" }, "b": { "command": "x" } },
    });
    let place = Place::new().with(SETTINGS, &settings.to_string());
    let permissions = permissions(&place);
    assert_eq!(run(&permissions, "git commit -m x"), Verdict::Allow);
    assert_eq!(run(&permissions, "cd . && make all"), Verdict::Allow);
    question(run(&permissions, "git push"));
    denied(run(&permissions, "git commit --amend"));
    question(call(&permissions, "read_file", &Access::Read));
    let mcp = |server: &str, tool: &str| {
        let (server, tool) = (server.to_owned(), tool.to_owned());
        let (display_name, hints) = (String::new(), Hints::default());
        let access = Access::Mcp { server, tool, display_name, hints };
        call(&permissions, "mcp", &access)
    };
    question(mcp("a", "any"));
    assert_eq!(mcp("a", "two"), Verdict::Allow);
    denied(mcp("b", "any"));
    denied(mcp("c", "any"));
    let rules = rules(&permissions);
    let rules: Vec<_> = rules.iter().map(|(rule, name)| format!("{rule} ({name})")).collect();
    expect![[r#"
        deny every tool of the MCP server `b` (`mcp.excluded` in {home}/.gemini/settings.json:1)
        deny every tool of any MCP server but `a`, `b` (`mcp.allowed` in {home}/.gemini/settings.json:1)
        deny commands that begin with `git commit --amend` (`tools.exclude` in {home}/.gemini/settings.json:1)
        deny `glob` (`tools.exclude` in {home}/.gemini/settings.json:1)
        ask about `read_file` (`tools.confirmationRequired` in {home}/.gemini/settings.json:1)
        allow commands that begin with `git commit` (`tools.allowed` in {home}/.gemini/settings.json:1)
        allow commands that begin with `make` (`tools.allowed` in {home}/.gemini/settings.json:1)
        allow `mcp_a_two` (`tools.allowed` in {home}/.gemini/settings.json:1)"#]].assert_eq(&shown(&place, &rules.join("\n")));
    let removes = |tool: &str| {
        let args = Value::Null;
        let access = &Access::Nothing;
        permissions.removes(&PolicyRequest { tool, aliases: &[], args: &args, access })
    };
    assert!(removes("glob") && !removes("grep_search") && !removes("run_shell_command"));
}

#[test]
fn of_the_built_in_tools_only_those_of_the_core_run() {
    let check = |core: Value, line: &str, expected: &str| {
        let settings = json!({ "tools": { "core": core } });
        let place = Place::new().with(SETTINGS, &settings.to_string());
        let permissions = permissions(&place);
        let said = match run(&permissions, line) {
            Verdict::Allow => "allow",
            Verdict::Ask(_) => "ask",
            Verdict::Deny { .. } => "deny",
        };
        assert_eq!(said, expected, "{core} {line}");
        denied(call(&permissions, "write_file", &Access::Read));
        let (server, tool) = ("a".to_owned(), "b".to_owned());
        let (display_name, hints) = (String::new(), Hints::default());
        let access = Access::Mcp { server, tool, display_name, hints };
        question(call(&permissions, "mcp_a_b", &access));
    };
    check(json!(["read_file"]), "ls", "deny");
    check(json!(["ShellTool"]), "ls", "allow");
    check(json!(["ShellTool(git)"]), "git push", "ask");
    check(json!(["ShellTool(git)"]), "git status", "allow");
    check(json!(["ShellTool(git)"]), "cd . && git status", "allow");
    check(json!(["ShellTool(git)"]), "ls", "deny");
    check(json!(["ShellTool(git)"]), "git status; ls", "deny");
    check(json!(["ShellTool(git)"]), "git status $(ls)", "deny");
    check(json!(["ShellTool(git)"]), "$X", "deny");
    check(json!(["ShellTool(git)"]), "git 'x", "deny");
    check(json!(["ShellTool(git)", "run_shell_command"]), "ls", "allow");
    check(json!([]), "ls", "deny");
}

fn security(security: Value) -> Place {
    Place::new().with(SETTINGS, &json!({ "security": security }).to_string())
}

#[test]
fn the_owner_of_a_machine_can_do_without_yolo_and_always() {
    let place = security(json!({ "disableYoloMode": true, "disableAlwaysAllow": true }));
    let permissions = permissions_in(&place, Mode::Yolo, "home/repo/sub");
    assert_eq!(permissions.mode(), Mode::Default);
    let why = permissions.set_mode(Mode::Yolo).unwrap_err();
    expect!["There is no mode `yolo` here: it is switched off by `security.disableYoloMode` in {home}/.gemini/settings.json:1."].assert_eq(&shown(&place, &why));
    assert_eq!(permissions.unseen_remarks(), [why]);
    permissions.set_mode(Mode::AutoEdit).unwrap();
    let asked = question(run(&permissions, "serve"));
    assert!(asked.every_time() && asked.to_save().is_none());
}

#[test]
fn in_a_folder_that_is_not_trusted_there_is_no_yolo() {
    let place = Place::new().judged(&[("home/repo", "DO_NOT_TRUST")]);
    assert_eq!(permissions_in(&place, Mode::Yolo, "home/repo/sub").mode(), Mode::Default);
}

fn serve() -> Scope {
    Scope::Commands(vec!["serve".to_owned()])
}

#[test]
fn an_answer_is_saved_only_where_the_settings_offer_it() {
    let asked: Question = question(run(&permissions(&Place::new()), "serve"));
    assert!(!asked.every_time() && asked.to_save().is_none());
    let place = security(json!({ "enablePermanentToolApproval": true }));
    let asked = question(run(&permissions(&place), "serve"));
    assert_eq!(asked.to_save(), Some(&serve()));
    let place =
        security(json!({ "enablePermanentToolApproval": true, "disableAlwaysAllow": true }));
    assert_eq!(question(run(&permissions(&place), "serve")).to_save(), None);
}

#[test]
fn a_saved_answer_counts_later_in_its_folder_and_can_be_taken_back() {
    let place = Place::new().with(OWN, "# mine\n");
    let first = permissions(&place);
    let file = first.save(serve()).unwrap();
    assert_eq!(file, place.path(SAVED));
    assert_eq!(run(&first, "serve"), Verdict::Allow);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let later = permissions(&place);
    assert_eq!(run(&later, "serve"), Verdict::Allow);
    question(run(&later, "serve install"));
    question(run(&later, "serve > out"));
    later.set_mode(Mode::AutoEdit).unwrap();
    assert_eq!(run(&later, "serve"), Verdict::Allow);
    later.set_mode(Mode::Plan).unwrap();
    denied(run(&later, "serve"));
    question(run(&permissions_in(&place, Mode::Default, "home/repo"), "serve"));
    fs::create_dir(place.path("home/repo/sub/deep")).unwrap();
    let below = permissions_in(&place, Mode::Default, "home/repo/sub/deep");
    assert_eq!(run(&below, "serve"), Verdict::Allow);

    let saved: Vec<Saved> = later.loaded().saved.clone();
    assert_eq!(saved.len(), 1);
    later.unsave(&saved[0]).unwrap();
    later.set_mode(Mode::Default).unwrap();
    question(run(&later, "serve"));
    question(run(&permissions(&place), "serve"));
    assert_eq!(
        later.unsave(&saved[0]).unwrap_err(),
        "it is not written in ~/.config/tandem/policies/saved.toml"
    );
}

#[test]
fn a_rule_counts_more_than_a_saved_answer() {
    for (decision, asks) in [("deny", false), ("ask_user", true)] {
        let place = Place::new().with(GEMINI, &rule("serve", decision).replace("100", "0"));
        let permissions = permissions(&place);
        permissions.save(serve()).unwrap();
        match run(&permissions, "serve") {
            Verdict::Ask(_) => assert!(asks),
            Verdict::Deny { .. } => assert!(!asks),
            Verdict::Allow => panic!("allowed"),
        }
    }
}

#[test]
fn an_answer_that_cannot_be_saved_counts_for_the_session() {
    let place = Place::new().with(SAVED, "").mode(SAVED, 0o666);
    let permissions = permissions(&place);
    let why = permissions.save(serve()).unwrap_err();
    expect![
        "other users can write it (run `chmod go-w {home}/.config/tandem/policies/saved.toml`)"
    ]
    .assert_eq(&shown(&place, &why));
    assert_eq!(permissions.allowed(), [serve()]);
}
