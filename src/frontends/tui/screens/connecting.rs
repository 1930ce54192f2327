//! Screens with a question about a host that a running command wants to connect to.

use serde_json::json;

use super::{Stage, call, shell};

#[test]
fn a_host_is_asked_about_while_the_command_runs() {
    let access = json!({ "Connect": {
        "host": "registry.npmjs.org", "port": 443, "command": "npm ci" } });
    let mut event = call("2", "Fetch", "Connect to registry.npmjs.org:443 (for npm ci)", access);
    event["CallStarted"]["caller"] = json!("Agent");
    event["CallStarted"]["question"] = json!({
        "subject": "connection",
        "why": "`sandbox.network.allowedDomains` does not name it",
        "rules": [{ "BuiltIn": "network" }],
        "commands": [],
        "scopes": [{ "allow": "connections", "of": ["registry.npmjs.org"] }],
    });
    let stage = Stage::new().turn("go").see(shell("1", "npm ci")).see(event).wait(1000);
    stage.check("question_connect.txt");
}

#[test]
fn hosts_that_are_asked_about_together_are_all_there() {
    let access = json!({ "Connect": {
        "host": "registry.npmjs.org", "port": 443, "others": ["a.test:443", "b.test:80"],
        "command": "npm ci" } });
    let label = "Connect to registry.npmjs.org:443 and 2 more (for npm ci)";
    let mut event = call("2", "Fetch", label, access);
    event["CallStarted"]["caller"] = json!("Agent");
    event["CallStarted"]["question"] = json!({
        "subject": "connection",
        "why": "`sandbox.network.allowedDomains` does not name the host",
        "rules": [{ "BuiltIn": "network" }],
        "commands": [],
        "scopes": [{ "allow": "connections", "of": ["a.test", "b.test", "registry.npmjs.org"] }],
    });
    let stage = Stage::new().turn("go").see(shell("1", "npm ci")).see(event).wait(1000);
    stage.check("question_connect_many.txt");
}
