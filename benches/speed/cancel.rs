//! From a cancel to the turn's end.

use std::time::Instant;

use serde_json::{Value, json};

use crate::process::{PROMPT, scripted};
use crate::{median, round};

const TIMES: usize = 50;

const CANCEL: &str = r#"{"jsonrpc":"2.0","id":"cancel","method":"cancelSendMessage"}"#;

/// Milliseconds, while the model answers and while a command runs.
pub(crate) fn cancel() -> Value {
    let answering = json!({ "when": "", "answers": [[{ "text": "begun" }, { "hang": null }]] });
    let call = json!({ "name": "run_shell_command", "args": { "command": "sleep 1000 & sleep 1000; true" } });
    let running = json!({ "when": "", "answers": [[{ "call": call }]] });
    json!({
        "while the model answers, ms": measure(&answering, "streamAssistantMessageChunk"),
        "while a command runs, ms": measure(&running, "pushToolCall"),
    })
}

fn measure(script: &Value, begun: &str) -> f64 {
    let mut agent = scripted(&script.to_string(), &["-y"]);
    let times = (0..TIMES).map(|n| {
        agent.send(PROMPT);
        let line = agent.line();
        assert!(line.contains(begun), "{line}");
        if begun == "pushToolCall" {
            let message: Value = serde_json::from_str(&line).unwrap();
            agent.send(&json!({ "id": message["id"], "result": { "id": n } }).to_string());
            wait_for_child(agent.child.id());
        }
        let before = Instant::now();
        agent.send(CANCEL);
        agent.until(r#"{"jsonrpc":"2.0","id":"prompt","#);
        before.elapsed().as_secs_f64() * 1e3
    });
    round(median(times.collect()))
}

/// Waits until the shell has started something.
fn wait_for_child(agent: u32) {
    let children = |pid: &str| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    loop {
        let shells = children(&agent.to_string());
        if shells.split_whitespace().any(|shell| children(shell).split_whitespace().count() == 2) {
            return;
        }
        std::thread::yield_now();
    }
}
