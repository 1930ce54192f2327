//! Settings of projects: trusted, unjudged, and not trusted.

use std::fs;
use std::path::Path;

use expect_test::expect;
use serde_json::{Value, json};
use tandem_approval::Mode;
use tandem_approval::consent::Executable;

use super::{OWN, PROJECT, Place, USER, read, read_with, trusted};

/// Says everything that a project had better not say.
fn loosening() -> Value {
    json!({
        "model": { "name": "replay:/tmp/x", "provider": "ollama", "disableLoopDetection": true },
        "general": { "defaultApprovalMode": "auto_edit", "checkpointing": { "enabled": false } },
        "context": {
            "includeDirectories": ["/etc"],
            "memoryBoundaryMarkers": [],
            "fileFiltering": { "respectGitIgnore": false, "respectGeminiIgnore": false },
        },
        "tools": { "core": ["x"], "allowed": ["run_shell_command"] },
        "mcp": { "allowed": ["x"] },
        "security": {
            "enablePermanentToolApproval": true,
            "disableYoloMode": false,
            "folderTrust": { "enabled": false },
            "environmentVariableRedaction": { "enabled": false, "allowed": ["TOKEN"] },
            "auth": { "selectedType": "gateway" },
        },
        "policyPaths": ["x"],
        "adminPolicyPaths": ["x"],
        "limits": { "rounds": 100_000 },
    })
}

/// Collects the names in a value, with dots between the levels.
fn names(value: &Value, prefix: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(properties) => {
            for (name, value) in properties {
                let prefix =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                names(value, &prefix, into);
            }
        }
        _ => into.push(prefix.to_owned()),
    }
}

#[test]
fn nothing_is_loosened_by_a_folder_that_nobody_has_judged() {
    let place = Place::new().with(PROJECT, &loosening().to_string());
    let settings = read(&place);
    let mut said = Vec::new();
    names(&loosening(), "", &mut said);
    assert_eq!(settings.remarks().len(), said.len(), "{:#?}", settings.remarks());
    for name in said {
        let why =
            format!(":1: `{name}` is ignored: it counts only in a folder that you trust (`--");
        assert!(settings.remarks().iter().any(|it| it.contains(&why)), "{name}");
        assert!(settings.origin(&name).is_empty(), "{name}");
    }
    assert_eq!(settings.general.default_approval_mode, Mode::Default);
    assert!(settings.tools.allowed.is_empty() && settings.context.include_directories.is_empty());
}

#[test]
fn a_trusted_folder_may_say_all_of_it() {
    let place = Place::new().with(PROJECT, &loosening().to_string());
    for settings in [
        read(&trusted(place)),
        read_with(
            &Place::new().with(PROJECT, &loosening().to_string()),
            &[("GEMINI_CLI_TRUST_WORKSPACE", "true")],
            &[],
        ),
        read(
            &Place::new()
                .with(PROJECT, &loosening().to_string())
                .with(USER, r#"{ "security": { "folderTrust": { "enabled": false } } }"#),
        ),
    ] {
        assert_eq!(settings.remarks(), <[String; 0]>::default());
        assert_eq!(settings.general.default_approval_mode, Mode::AutoEdit);
        assert_eq!(settings.tools.allowed, ["run_shell_command"]);
        assert_eq!(settings.model.name.as_deref(), Some("replay:/tmp/x"));
    }
}

#[test]
fn no_project_has_commands_run_in_the_editor() {
    let on = json!({ "acp": { "clientTerminals": true } }).to_string();
    let off = json!({ "acp": { "clientTerminals": false } }).to_string();
    for place in [Place::new().with(PROJECT, &on), trusted(Place::new().with(PROJECT, &on))] {
        let settings = read(&place);
        assert!(!settings.acp.client_terminals);
        expect!["`acp.clientTerminals` is ignored: it counts only in your own settings."]
            .assert_eq(settings.remarks()[0].split_once(":1: ").unwrap().1);
    }
    assert!(read(&Place::new().with(USER, &on)).acp.client_terminals);
    let stricter = trusted(Place::new().with(USER, &on).with(PROJECT, &off));
    assert!(!read(&stricter).acp.client_terminals);
}

#[test]
fn a_folder_that_is_not_to_be_trusted_says_nothing() {
    let text = json!({ "model": { "name": "m" }, "mcpServers": { "a": { "command": "x" } } });
    let place = Place::new()
        .with(PROJECT, &text.to_string())
        .with(USER, r#"{ "security": { "folderTrust": { "enabled": false } } }"#)
        .judged(&[("home/repo", "DO_NOT_TRUST")]);
    let settings = read(&place);
    assert_eq!(settings.model.name, None);
    assert!(settings.mcp_servers.is_empty());
    assert_eq!(settings.remarks(), <[String; 0]>::default());
}

#[test]
fn what_is_harmless_or_stricter_counts() {
    let text = json!({
        "model": { "name": "gemini-3-pro", "maxSessionTurns": 5 },
        "general": { "defaultApprovalMode": "plan" },
        "context": { "fileName": "RULES.md" },
        "tools": { "exclude": ["run_shell_command"], "confirmationRequired": ["replace"] },
        "mcp": { "excluded": ["b"] },
        "security": { "disableYoloMode": true, "environmentVariableRedaction": { "blocked": ["X"] } },
    });
    let place = Place::new()
        .with(PROJECT, &text.to_string())
        .with(USER, r#"{ "tools": { "exclude": ["glob"] } }"#);
    let settings = read(&place);
    assert_eq!(settings.remarks(), <[String; 0]>::default());
    assert_eq!(settings.model.name.as_deref(), Some("gemini-3-pro"));
    assert_eq!(settings.general.default_approval_mode, Mode::Plan);
    assert_eq!(settings.context.file_name, ["RULES.md"]);
    assert_eq!(settings.tools.exclude, ["glob", "run_shell_command"]);
    assert!(settings.security.disable_yolo_mode);
    // A project must not loosen the user's mode, not even to the default.
    let looser = json!({ "general": { "defaultApprovalMode": "default" } });
    let user = json!({ "general": { "defaultApprovalMode": "plan" } });
    let place = Place::new().with(PROJECT, &looser.to_string()).with(OWN, &user.to_string());
    assert_eq!(read(&place).general.default_approval_mode, Mode::Plan);
}

#[test]
fn servers_of_an_unjudged_project_are_marked_and_replace_none_of_the_users() {
    let text = "{ \"mcpServers\": {\n \"own\": { \"command\": \"evil\" },\n \
        \"new\": { \"command\": \"x\", \"trust\": true, \"env\": { \"T\": \"$TOKEN\" } } } }";
    let place = Place::new()
        .with(PROJECT, text)
        .with(USER, r#"{ "mcpServers": { "own": { "command": "mine", "trust": true } } }"#);
    let settings = read_with(&place, &[("TOKEN", "secret")], &[]);
    let (own, new) = (&settings.mcp_servers["own"], &settings.mcp_servers["new"]);
    assert_eq!(
        (own.command.as_deref(), own.trust, own.entry.unjudged()),
        (Some("mine"), true, false)
    );
    assert_eq!((new.command.as_deref(), new.trust, new.entry.unjudged()), (Some("x"), false, true));
    assert_eq!(new.entry.variables, ["TOKEN"]);
    let executables: Vec<_> =
        settings.executables(Path::new("/nowhere")).iter().map(ToString::to_string).collect();
    assert_eq!(executables, [r#"MCP server `new`: x env={"T":"$TOKEN"}"#]);
    let remarks = settings.remarks();
    let rule = |remark: &String| remark.split_once(".json").unwrap().1.to_owned();
    let remarks: Vec<_> = remarks.iter().map(rule).collect();
    expect![[r#"
        :2: `mcpServers.own` is ignored: it would replace your own `mcpServers.own`, and counts only in a folder that you trust (`--skip-trust`, or `~/.gemini/trustedFolders.json`).
        :3: `mcpServers.new.trust` is ignored: it counts only in a folder that you trust (`--skip-trust`, or `~/.gemini/trustedFolders.json`)."#]].assert_eq(&remarks.join("\n"));
    // In a folder that the user trusts, the project's settings count.
    let settings = read(&trusted(place));
    assert_eq!(settings.mcp_servers["own"].command.as_deref(), Some("evil"));
    assert!(settings.mcp_servers["new"].trust && !settings.mcp_servers["new"].entry.unjudged());
}

#[test]
fn a_person_is_shown_what_would_run_without_secrets_and_agrees_to_exactly_that() {
    let read = |secret: &str| {
        let servers = json!({ "mcpServers": {
            "a": {
                "command": "npx", "args": ["a-server"], "cwd": "sub",
                "env": { "KEY": secret, "MINE": "$TOKEN", "NODE_OPTIONS": "--require=./x.js" },
            },
            "b": {
                "httpUrl": format!("https://me:{secret}@b.example/mcp?key={secret}&v=${{TOKEN:-{secret}}}"),
                "headers": { "Authorization": format!("Bearer ${{TOKEN}}{secret}"), "X": "" },
                "oauth": { "clientId": "c", "clientSecret": secret },
                "unknown": [secret],
            },
        } });
        let place = Place::new().with(PROJECT, &servers.to_string());
        read_with(&place, &[("TOKEN", "t")], &[]).executables(Path::new("/nowhere"))
    };
    let (one, other) = (read("s3$cr3t"), read("0th$rtw"));
    let shown = |executables: &[Executable]| -> Vec<_> {
        executables.iter().map(ToString::to_string).collect()
    };
    assert_eq!(shown(&one), shown(&other));
    assert!(one.iter().zip(&other).all(|(one, other)| one.runs != other.runs), "asked again");
    expect![[r#"
        MCP server `a`: npx a-server cwd="sub" env={"KEY":"(7 characters hidden)","MINE":"$TOKEN","NODE_OPTIONS":"--require=./x.js"}
        MCP server `b`: https://(10 characters hidden)@b.example/mcp?key=(7 characters hidden)&v=${TOKEN} headers={"Authorization":"(7 characters hidden)${TOKEN}(7 characters hidden)","X":""} oauth={"clientId":"c","clientSecret":"(7 characters hidden)"} unknown=["(7 characters hidden)"]"#]].assert_eq(&shown(&one).join("\n"));
}

#[test]
fn a_person_agrees_to_the_scripts_that_a_server_is_started_with_as_they_are() {
    let servers = json!({ "mcpServers": {
        "a": { "command": "node", "args": ["server.js", "--port", "1"], "cwd": "tools" },
        "b": { "command": "./serve", "args": ["../outside.js", "/etc/hostname", "$X"] },
    } });
    let place = Place::new().with(PROJECT, &servers.to_string());
    let place =
        place.with("home/repo/sub/tools/server.js", "one").with("home/repo/outside.js", "one");
    let settings = read(&place);
    let project = place.path("home/repo/sub").canonicalize().unwrap();
    let runs = || -> Vec<_> {
        settings.executables(&project).into_iter().map(|executable| executable.runs).collect()
    };
    let first = runs();
    assert!(first[0].contains("tools/server.js=") && !first[1].contains('\n'), "{first:?}");
    let shown: Vec<_> = settings.executables(&project).iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], r#"MCP server `a`: node server.js --port 1 cwd="tools""#);
    fs::write(project.join("tools/server.js"), "two").unwrap();
    fs::write(place.path("home/repo/outside.js"), "two").unwrap();
    fs::write(project.join("serve"), "two").unwrap();
    let second = runs();
    assert_ne!(first[0], second[0]);
    // The program `serve` did not exist before, so it is named with its content now.
    assert!(second[1].contains("/serve=") && !second[1].contains("outside.js="), "{second:?}");
    fs::write(project.join("tools/server.js"), "one").unwrap();
    assert_eq!(runs()[0], first[0]);
}
