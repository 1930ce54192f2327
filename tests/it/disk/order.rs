//! The order of writes to the disk, to other programs and to the editor, as the kernel sees it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{Home, end};
use crate::agent::{Agent, Setup};
use crate::needs::{Need, lacking};

/// Starts an agent under strace, which writes these calls into a file; `None` without strace.
fn traced(home: &Home, calls: &str) -> Option<Agent> {
    if lacking(Need::Strace) {
        return None;
    }
    let trace = home.path().join("trace");
    // On a slow machine, one write has the system instruction and the entries after it, which strace must not cut.
    let strace = format!("strace -f -qq -s 1000000 -e trace={calls} -o {}", trace.display());
    Some(home.start(&format!("set -- {strace} \"$@\";"), &[]))
}

/// Returns the lines of a trace: a call each, or its beginning and its end.
fn lines(trace: &Path) -> Vec<String> {
    fs::read_to_string(trace).unwrap().lines().map(ToOwned::to_owned).collect()
}

/// Returns the index at which a call with these words begins.
fn begins(lines: &[String], words: &[&str]) -> usize {
    let has = |line: &&String| words.iter().all(|word| line.contains(word));
    let found = lines.iter().position(|line| has(&line));
    found.unwrap_or_else(|| panic!("no {words:?} in {}", lines.join("\n")))
}

/// Returns the index at which a call with these words has ended.
fn ends(lines: &[String], words: &[&str]) -> usize {
    let at = begins(lines, words);
    if !lines[at].contains("<unfinished") {
        return at;
    }
    let process = lines[at].split(' ').next().unwrap();
    let resumed = |line: &String| line.starts_with(process) && line.contains("resumed>");
    at + 1 + lines[at + 1..].iter().position(resumed).unwrap()
}

#[tokio::test]
async fn nothing_is_answered_and_no_command_runs_before_the_log_has_it() {
    let mut home = Home::new();
    let run = json!({ "call": { "name": "run_shell_command",
                                "args": { "command": "echo marked > ran" } } });
    home.setup = Setup::answers(json!([[run], [{ "text": "said" }]])).arg("-y");
    let Some(mut agent) = traced(&home, "write,execve") else { return };
    let id = agent.prompt("go").await;
    let shown = agent.until_answered(id, "allow").await;
    assert_eq!(shown.last().unwrap()["result"], Value::Null);
    end(agent).await;
    let lines = lines(&home.path().join("trace"));
    let queued = ends(&lines, &["write(", r#"{\"TurnQueued\""#]);
    let started = ends(&lines, &["write(", r#"{\"CallStarted\""#]);
    let finished = ends(&lines, &["write(", r#"{\"TurnFinished\""#]);
    let ran = begins(&lines, &["execve(", "echo marked > ran"]);
    let pushed = begins(&lines, &["write(", r#"\"method\":\"pushToolCall\""#]);
    let answered = begins(&lines, &["write(", r#"\"result\":null}"#]);
    assert!(queued < pushed, "{queued} {pushed}");
    assert!(started < pushed && started < ran, "{started} {pushed} {ran}");
    assert!(finished < answered, "{finished} {answered}");
}

#[tokio::test]
async fn a_start_opens_no_stored_session() {
    let home = Home::new();
    let mut before = home.start("", &[]);
    super::ask(&mut before, "first").await;
    end(before).await;
    let Some(mut agent) = traced(&home, "openat,open,stat,statx,newfstatat,getdents64") else {
        return;
    };
    let id = agent.request("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    agent.answer_to(id).await;
    end(agent).await;
    let trace = fs::read_to_string(home.path().join("trace")).unwrap();
    assert!(trace.contains("script.jsonl"), "{trace}");
    assert!(!trace.contains("/tandem/sessions"), "{trace}");
}
