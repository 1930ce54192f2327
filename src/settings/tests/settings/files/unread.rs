//! Names without effect: those that are reported at the start, and suggestions.

use serde_json::{Value, json};

use super::{Place, USER, read};

/// Returns the remarks at the beginning of the first turn, without their places.
fn remarks(settings: &Value) -> Vec<String> {
    let settings = read(&Place::new().with(USER, &settings.to_string()));
    let rule = |remark: &String| remark.split_once(".json:1: ").unwrap().1.to_owned();
    settings.remarks().iter().map(rule).collect()
}

#[track_caller]
fn guard(settings: &Value, expected: &str) {
    assert_eq!(remarks(settings), [expected], "{settings}");
}

#[track_caller]
fn silent(settings: &Value) {
    assert_eq!(remarks(settings), <[String; 0]>::default(), "{settings}");
}

#[test]
fn a_misspelt_guard_is_said_at_the_start_with_what_was_meant() {
    for (settings, name, meant) in [
        (json!({ "tools": { "exclud": ["x"] } }), "tools.exclud", "tools.exclude"),
        (json!({ "tool": { "exclude": ["x"] } }), "tool.exclude", "tools.exclude"),
        (json!({ "Tools": { "Exclude": ["x"] } }), "Tools.Exclude", "tools.exclude"),
        (json!({ "excludeTool": ["x"] }), "excludeTool", "tools.exclude"),
        (json!({ "tools": { "cor": ["x"] } }), "tools.cor", "tools.core"),
        (json!({ "mcp": { "exclude": ["x"] } }), "mcp.exclude", "mcp.excluded"),
        (
            json!({ "general": { "disableYoloMode": true } }),
            "general.disableYoloMode",
            "security.disableYoloMode",
        ),
        (
            json!({ "tools": { "sandboxNetworkAcess": false } }),
            "tools.sandboxNetworkAcess",
            "tools.sandboxNetworkAccess",
        ),
        (
            json!({ "sandbox": { "network": { "denyDomains": ["x"] } } }),
            "sandbox.network.denyDomains",
            "sandbox.network.deniedDomains",
        ),
        (
            json!({ "mcpServers": { "a.b": { "command": "x", "excludeTool": ["y"] } } }),
            "mcpServers.a.b.excludeTool",
            "mcpServers.a.b.excludeTools",
        ),
    ] {
        let expected = format!("`{name}` is unknown and has no effect. Did you mean `{meant}`?");
        guard(&settings, &expected);
    }
    guard(
        &json!({ "security": { "lockEverything": true } }),
        "`security.lockEverything` is unknown and has no effect.",
    );
    guard(&json!({ "security": true }), "`security` must be an object (`{ ... }`).");
    guard(
        &json!({ "tools.exclude": ["x"] }),
        "`tools.exclude` has no effect with a dot in its name: write an object for each part.",
    );
}

#[test]
fn what_guards_nothing_and_what_is_known_is_not_said_at_the_start() {
    silent(&json!({ "ui": { "theme": "GitHub", "them": "x" }, "vimMode": true }));
    silent(&json!({ "general": { "vimMode": true }, "telemetry": { "enabled": true } }));
    silent(&json!({ "model": { "nam": "x" }, "somebodys": { "own": { "thing": 1 } } }));
    silent(&json!({ "$schema": "https://example.org/schema.json", "coreTools": ["x"] }));
    silent(&json!({ "tools": { "sandbox": { "networkAccess": false } } }));
    silent(&json!({ "security": {}, "mcp": { "serverCommand": "x" } }));
    let server = json!({ "command": "x", "oauth": { "any": 1 }, "type": "stdio", "tcp": "x" });
    silent(&json!({ "mcpServers": { "a": server }, "a2aServers": { "b": { "token": "x" } } }));
}

#[test]
fn a_file_of_another_program_is_not_reported_name_by_name_for_ever() {
    let names = (0..5000).map(|number| (format!("theirs{number}"), json!(["x"])));
    let settings = json!({ "security": names.collect::<serde_json::Map<_, _>>() });
    assert_eq!(remarks(&settings).len(), 100);
}

#[test]
fn a_server_that_is_off_for_gemini_cli_alone_is_said() {
    let servers = json!({ "On": {}, "Off": {}, "Excluded": {} });
    let settings = json!({ "mcpServers": servers, "mcp": { "excluded": ["Excluded"] } });
    let off = json!({ "off": { "enabled": false }, "excluded": { "enabled": false }, "on": {} });
    let place = Place::new()
        .with(USER, &settings.to_string())
        .with("home/.gemini/mcp-server-enablement.json", &off.to_string());
    let settings = read(&place);
    let [remark] = settings.remarks() else { panic!("{:?}", settings.remarks()) };
    let expected = "enablement.json: `Off` is off for Gemini CLI, but not in tandem. Add it to `mcp.excluded`.";
    assert!(remark.ends_with(expected), "{remark}");
}
