//! Ends of the agent: nothing is lost, and no process is left behind.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup, text};
use crate::family::run;

fn say(steps: Value) -> Setup {
    Setup::answers(json!([steps]))
}

pub(crate) fn signal(agent: &Agent, signal: Signal) {
    let pid = Pid::from_raw(agent.child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn the_end_of_input_ends_an_idle_agent() {
    let mut agent = Setup::default().start();
    let (rest, status) = agent.hang_up().await;
    assert!(rest.is_empty() && status.success());
}

#[tokio::test]
async fn what_was_asked_for_is_finished_after_the_end_of_input() {
    let mut agent = say(json!([{ "text": "one " }, { "delay": 50 }, { "text": "two" }])).start();
    agent.prompt("first").await;
    let (rest, status) = agent.hang_up().await;
    let messages: Vec<Value> =
        rest.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(text(&messages), "one two");
    assert_eq!(messages.last().unwrap()["result"], Value::Null);
    assert!(status.success());
}

#[tokio::test]
async fn a_question_after_the_end_of_input_counts_as_cancelled() {
    let setup = Setup::answers(json!([[run("rm -rf x")], [{ "text": "never said" }]]));
    let mut agent = setup.without_sandbox().start();
    let id = agent.prompt("go").await;
    let (rest, status) = agent.hang_up().await;
    let messages: Vec<Value> =
        rest.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages[0]["method"], "requestToolCallConfirmation");
    assert_eq!(messages[1], json!({ "jsonrpc": "2.0", "id": id, "result": null }));
    assert_eq!(messages.len(), 2);
    assert!(status.success());
}

#[tokio::test]
async fn a_turn_that_never_ends_is_ended_when_the_time_to_drain_is_up() {
    let mut agent = say(json!([{ "hang": null }])).arg("--drain-timeout").arg("0.05").start();
    agent.prompt("hang").await;
    let (rest, status) = agent.hang_up().await;
    let answer: Value = serde_json::from_str(&rest[0]).unwrap();
    expect!["This operation was aborted"]
        .assert_eq(answer["error"]["data"]["details"].as_str().unwrap());
    assert_eq!(status.code(), Some(1));
}

#[tokio::test]
async fn an_agent_that_nobody_reads_ends_at_once() {
    let mut agent = say(json!([{ "text": "begun" }, { "hang": null }])).start();
    agent.prompt("hang").await;
    agent.call_of("streamAssistantMessageChunk").await;
    let Agent { mut child, stdin, lines, .. } = agent;
    drop((stdin, lines));
    // The agent must not wait for the drain timeout of 30 s.
    timeout(HANG / 2, child.wait()).await.expect("it drains for nobody").unwrap();
}

#[tokio::test]
async fn an_idle_agent_ends_well_whichever_pipe_is_closed_first() {
    for output_first in [true, false] {
        for is_v1 in [true, false] {
            let mut agent = say(json!([{ "text": "done" }])).start();
            let (version, cwd) =
                (json!(if is_v1 { 1.into() } else { json!("0.0.9") }), agent.workspace());
            let id = agent.request("initialize", json!({ "protocolVersion": version })).await;
            agent.answer_to(id).await;
            let id = if is_v1 {
                let new = json!({ "cwd": cwd, "mcpServers": [] });
                agent.request("session/new", new).await
            } else {
                agent.prompt("say it").await
            };
            agent.answer_to(id).await;
            let Agent { mut child, stdin, lines, .. } = agent;
            if output_first {
                drop(lines);
                drop(stdin);
            } else {
                drop(stdin);
                drop(lines);
            }
            let status = timeout(HANG, child.wait()).await.expect("it goes on").unwrap();
            assert_eq!(status.code(), Some(0), "output first: {output_first}, version 1: {is_v1}");
        }
    }
}

#[tokio::test]
async fn an_editor_on_sockets_that_dies_is_noticed_too() {
    let (input, mut to_agent) = UnixStream::pair().unwrap();
    let (output, mut from_agent) = UnixStream::pair().unwrap();
    let home = TempDir::new().unwrap();
    let setup = say(json!([{ "text": "begun" }, { "hang": null }]));
    let mut command = setup.command(home.path());
    command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(output));
    let mut child = command.spawn().unwrap();
    // The command holds the agent's ends of the sockets, which the test must not keep open.
    drop(command);
    let prompt = r#"{"id":1,"method":"sendUserMessage","params":{"chunks":[{"text":"go"}]}}"#;
    writeln!(to_agent, "{prompt}").unwrap();
    assert!(from_agent.read(&mut [0; 4096]).unwrap() > 0);
    drop(to_agent);
    // When an editor's process ends, its two connections close one after the other.
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(from_agent);
    // The agent must not wait for the drain timeout of 30 s.
    timeout(HANG / 2, child.wait()).await.expect("it drains for nobody").unwrap();
}

/// Uses an agent with a large log that no program reads, like an editor that never reads standard error.
#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_nothing() {
    let setup = Setup::answers(json!([
        [{ "repeat": { "text": "word {n} ", "times": 2000 } }],
        [{ "text": "begun" }, { "hang": null }],
    ]));
    let setup = setup.var("TANDEM_LOG", "debug");
    let mut agent = setup.start_with(|command| command.stderr(Stdio::piped()));
    let id = agent.prompt("go").await;
    loop {
        let message = agent.message().await;
        if message["id"] == id && message.get("method").is_none() {
            break;
        }
        let error = json!({ "code": -32601, "message": "x".repeat(200) });
        let refusal = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
        agent.send_line(&refusal.to_string()).await;
    }
    agent.prompt("hang").await;
    agent.call_of("streamAssistantMessageChunk").await;
    signal(&agent, Signal::TERM);
    assert_eq!(agent.exit().await.code(), Some(143));
}

#[tokio::test]
async fn a_method_that_is_refused_is_warned_of_once() {
    let setup = say(json!([{ "repeat": { "text": "word ", "times": 20 } }]));
    let setup = setup.arg("--log-file").arg("log").var("TANDEM_LOG", "warn");
    let mut agent = setup.start();
    let id = agent.prompt("go").await;
    loop {
        let message = agent.message().await;
        if message["id"] == id && message.get("method").is_none() {
            break;
        }
        let refusal = json!({ "id": message["id"], "error": { "code": 1, "message": "no" } });
        agent.send_line(&refusal.to_string()).await;
    }
    let log = agent.workspace().join("log");
    agent.hang_up().await;
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("refused").count(), 1, "{log}");
    assert!(log.contains("streamAssistantMessageChunk"), "{log}");
}

#[tokio::test]
async fn a_signal_ends_it_and_what_was_asked_for_is_answered() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut agent = say(json!([{ "text": "begun" }, { "hang": null }])).start();
        let id = agent.prompt("hang").await;
        agent.call_of("streamAssistantMessageChunk").await;
        signal(&agent, sent);
        let answer = agent.answer_to(id).await;
        assert_eq!(answer["error"]["data"]["details"], "This operation was aborted");
        assert_eq!(agent.line().await, None);
        assert_eq!(agent.exit().await.code(), Some(code));
    }
}

/// Starts an agent whose `authenticate` waits for a person.
async fn logging_in(setup: Setup) -> (Agent, u64) {
    let setup = setup.arg("--model").arg("gemini-x").var("BROWSER", "true");
    let mut agent = setup.start();
    let id = agent.request("authenticate", Value::Null).await;
    // When this request is answered, `authenticate` has begun.
    let after = agent.request("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    agent.answer_to(after).await;
    (agent, id)
}

#[tokio::test]
async fn a_login_that_a_signal_cuts_off_is_answered() {
    let (mut agent, id) = logging_in(Setup::default()).await;
    signal(&agent, Signal::TERM);
    let answer = agent.answer_to(id).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert_eq!(agent.line().await, None);
    assert_eq!(agent.exit().await.code(), Some(143));
}

#[tokio::test]
async fn a_login_that_the_end_of_the_drain_cuts_off_is_answered() {
    let (mut agent, id) = logging_in(Setup::default().arg("--drain-timeout").arg("0.05")).await;
    let (rest, status) = agent.hang_up().await;
    let [answer] = &rest[..] else { panic!("{rest:?}") };
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32603)));
    assert_eq!(status.code(), Some(1));
}
