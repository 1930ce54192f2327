//! From a cancel to the turn's end.

use std::time::Instant;

use serde_json::{Value, json};

use crate::process::{PROMPT, scripted};
use crate::{median, round};

const TIMES: usize = 50;

const WITHOUT_SANDBOX: &[&str] = &["-y", "--sandbox", "danger-full-access"];

const CANCEL: &str = r#"{"jsonrpc":"2.0","id":"cancel","method":"cancelSendMessage"}"#;

/// Milliseconds, while the model answers and while a command runs, in the sandbox and without one.
pub(crate) fn cancel() -> Value {
    let answering = json!({ "when": "", "answers": [[{ "text": "begun" }, { "hang": null }]] });
    let call = json!({ "name": "run_shell_command", "args": { "command": "sleep 1000 & sleep 1000; true" } });
    let running = json!({ "when": "", "answers": [[{ "call": call }]] });
    json!({
        "while the model answers, ms": measure(&answering, "streamAssistantMessageChunk", &["-y"]),
        "while a command runs, ms": measure(&running, "pushToolCall", WITHOUT_SANDBOX),
        "while a command runs in the sandbox, ms": measure(&running, "pushToolCall", &["-y"]),
    })
}

fn measure(script: &Value, begun: &str, args: &[&str]) -> f64 {
    let mut agent = scripted(&script.to_string(), args);
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

/// Waits until the shell has started both of its commands.
fn wait_for_child(agent: u32) {
    while sleeps_below(&agent.to_string()) != 2 {
        std::thread::yield_now();
    }
}

/// Returns the number of `sleep`s among a process and those below it: in the sandbox, the shell is a child of a child.
fn sleeps_below(process: &str) -> usize {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    let children = read(&format!("task/{process}/children"));
    let own = usize::from(read("comm") == "sleep\n");
    own + children.split_whitespace().map(sleeps_below).sum::<usize>()
}
