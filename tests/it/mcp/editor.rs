//! Servers that an editor names, over a real connection.

use std::fs;

use serde_json::{Value, json};

use super::fixture;
use crate::agent::{Agent, HANG, Setup, text};

/// Returns the parameters of `initialize` with a server of this mode.
fn brings(mode: &str) -> Value {
    let server = json!({ "command": fixture(), "args": [mode], "env": { "OWN": "editor" } });
    json!({ "protocolVersion": "0.0.11", "contextServers": { "s": { "stdio": server } } })
}

fn call(name: &str, args: Value) -> Value {
    json!({ "call": { "name": name, "args": args } })
}

/// Starts an agent whose editor has named the server, and whose model calls these tools, one in each round.
async fn agent(mode: &str, calls: &[Value]) -> Agent {
    let rounds = calls.iter().map(|call| json!([call])).chain([json!([{ "text": "done" }])]);
    let mut agent = Setup::answers(rounds.collect()).start();
    let id = agent.request("initialize", brings(mode)).await;
    let line = agent.line().await.unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result":
        { "protocolVersion": "0.0.9", "isAuthenticated": true } });
    assert_eq!(line, answer.to_string());
    agent
}

/// Returns the messages of one method.
fn of<'a>(read: &'a [Value], method: &str) -> Vec<&'a Value> {
    read.iter().filter(|message| message["method"] == method).map(|it| &it["params"]).collect()
}

#[tokio::test]
async fn its_tools_are_called_and_asked_about() {
    let message = "hello\n".repeat(40);
    let calls = [
        call("mcp_s_echo", json!({ "message": "hi" })),
        call("mcp_s_echo", json!({ "message": message })),
    ];
    let mut agent = agent("plain", &calls).await;
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "allow").await;
    let asked = of(&read, "requestToolCallConfirmation");
    let why = "Asked because a tool of an MCP server may do anything; the server says that this tool only reads \
        [built-in rule mcp]";
    let expected = json!({
        "label": "Call echo (s) {\"message\":\"hi\"}",
        "icon": "hammer",
        "content": { "type": "markdown", "markdown": why },
        "confirmation":
            { "type": "mcp", "serverName": "s", "toolName": "echo", "toolDisplayName": "Echo" },
        "locations": [],
    });
    assert_eq!(*asked[0], expected);
    let shown = asked[1]["content"]["markdown"].as_str().unwrap();
    assert!(shown.starts_with("```json\n{\n  \"message\": \"hello"), "all of it is shown: {shown}");
    let updated = of(&read, "updateToolCall");
    assert_eq!(updated[0]["status"], "finished");
    assert_eq!(updated[0]["content"], json!({ "type": "markdown", "markdown": "hi" }));
    assert_eq!(text(&read), "done");
}

/// Returns the tools that are asked about when each answer is this: a tool, the same, another.
async fn asked(outcome: &str) -> Vec<String> {
    let calls = [
        call("mcp_s_echo", json!({ "message": "1" })),
        call("mcp_s_echo", json!({ "message": "2" })),
        call("mcp_s_structured", json!({})),
    ];
    let mut agent = agent("plain", &calls).await;
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, outcome).await;
    assert_eq!(text(&read), "done");
    let asked = of(&read, "requestToolCallConfirmation");
    asked.iter().map(|it| it["confirmation"]["toolName"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn always_means_what_the_editor_says() {
    assert_eq!(asked("allow").await, ["echo", "echo", "structured"]);
    assert_eq!(asked("alwaysAllow").await, ["echo", "structured"]);
    assert_eq!(asked("alwaysAllowTool").await, ["echo", "structured"]);
    assert_eq!(asked("alwaysAllowMcpServer").await, ["echo"]);
}

#[tokio::test]
async fn servers_that_cannot_be_read_are_in_nobodys_way() {
    for servers in [json!(null), json!([1]), json!({ "s": 1, "t": { "stdio": { "args": [] } } })] {
        let mut agent = Setup::answers(json!([[{ "text": "hi" }]])).start();
        let params = json!({ "protocolVersion": "0.0.11", "contextServers": servers });
        let id = agent.request("initialize", params).await;
        assert_eq!(agent.answer_to(id).await["result"]["protocolVersion"], "0.0.9");
        let id = agent.prompt("go").await;
        let read = agent.until_answered(id, "allow").await;
        assert_eq!(text(&read), "hi");
    }
}

#[tokio::test]
async fn a_hundred_megabytes_do_not_stay() {
    let calls = [call("mcp_s_big", json!({})), call("mcp_s_echo", json!({ "message": "x" }))];
    let mut agent = agent("plain", &calls).await;
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "allow").await;
    assert_eq!(of(&read, "updateToolCall")[0]["status"], "error");
    let status = fs::read_to_string(format!("/proc/{}/status", agent.child.id().unwrap()));
    let peak = status.ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().to_owned();
        line.strip_suffix(" kB")?.parse::<u64>().ok()
    });
    // Only Linux tells the peak of the memory.
    if let Some(peak) = peak {
        assert!(peak < 120_000, "{peak} kB");
    }
}

#[tokio::test]
async fn its_servers_end_with_it() {
    let mut agent = agent("plain", &[call("mcp_s_where", json!({}))]).await;
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "allow").await;
    let said = of(&read, "updateToolCall")[0]["content"]["markdown"].as_str().unwrap().to_owned();
    let workspace = agent.workspace();
    let home = workspace.parent().unwrap();
    assert_eq!(said, format!("{} {} editor plain", workspace.display(), home.display()));
    let (_, status) = tokio::time::timeout(HANG, agent.hang_up()).await.unwrap();
    assert!(status.success());
}
