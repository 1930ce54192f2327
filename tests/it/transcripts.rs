//! Recorded conversations, played again against the real binary.
//!
//! A file is what `--record` writes, with one line before it: `{"dir":"setup", ...}` says how the
//! agent is started ([`Recorded`]). The client's lines are sent when what precedes them has
//! arrived, and the agent's are compared, byte by byte but for where the workspace is, the id of the session, times, and
//! the PIDs of commands with the seconds for which they run.
//! A line `{"dir":"end"}` closes standard input. With `UPDATE_TRANSCRIPTS=1` the agent's lines are
//! written into the file instead.
//!
//! `fixtures/acp1` is of ACP 1, which editors speak, and `fixtures/acp` of ACP 0.0.9. A transcript of ACP 1 that does
//! not begin with `initialize` begins when the client has a session, whose id it calls `SESSION`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup};
use crate::sandboxed::can_show;

#[derive(Deserialize, Serialize)]
#[serde(tag = "dir", rename_all = "snake_case")]
enum Recorded {
    Setup {
        /// Sentence that the transcript proves.
        about: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        files: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        script: Vec<Value>,
        /// Last lines of `tandem replay --show`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        next: Vec<String>,
    },
    #[serde(rename = "c2a")]
    Client(Line),
    #[serde(rename = "a2c")]
    Agent(Line),
    End,
}

#[derive(Deserialize, Serialize)]
struct Line {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    msg: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

/// Tells `"msg": null`, which is a line too, from no message.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Line {
    fn text(&self) -> String {
        match (&self.msg, &self.raw) {
            (Some(msg), _) => msg.to_string(),
            (None, Some(raw)) => raw.clone(),
            (None, None) => panic!("a line with neither `msg` nor `raw`"),
        }
    }
}

/// Path of the workspace in the files.
const WORKSPACE: &str = "/workspace";

/// Id of the session in the files.
const SESSION: &str = "SESSION";

/// Maximum number of times that a conversation is played again on a machine that is too slow for it.
const MAX_REPEATS: usize = 5;

/// Makes a test for each file of a directory, and a test that no file is missing.
macro_rules! transcripts {
    ($directory:ident: $($name:ident)*) => {
        mod $directory {
            $(
                #[tokio::test]
                async fn $name() {
                    super::plays_as_recorded(stringify!($directory), stringify!($name)).await;
                }
            )*

            #[test]
            fn each_file_is_played() {
                super::all_are(stringify!($directory), &[$(stringify!($name)),*]);
            }
        }
    };
}

transcripts! {
    acp:
    apply_patch
    ask_user
    authenticate
    bad_params
    batch
    before_initialize
    cancel_allow_late
    cancel_at_once
    cancel_idle
    cancel_in_question
    cancel_in_retry
    cancel_in_shell
    cancel_midstream
    cancel_two_calls
    chunks_unanswered
    command_help
    confirm_error
    confirm_maybe
    confirm_noid
    confirm_null
    demonstration
    end_call
    end_idle
    end_midstream
    end_question
    extra_fields
    failure
    glob
    hello_text
    ids
    initialize
    initialize_again
    initialize_context_servers
    initialize_versions
    line_too_long
    malformed_line
    max_tokens
    no_id
    no_message
    path_file
    plan
    push_error
    push_null
    push_null_id
    read_file
    replace
    retry
    second_message
    shell_allow
    shell_always_tool
    shell_fail
    shell_forced
    stray_answers
    tool_id_zero
    tool_ids
    unknown_method
    write_allow
    write_always
    write_reject
    write_stdin
    write_todos
}

transcripts! {
    acp1:
    apply_patch
    ask_user
    ask_user_cancel
    ask_user_form
    bad_arguments
    cancel_in_question
    command_clear
    command_help
    command_init
    command_memory
    command_unknown
    command_usage
    empty_text
    failure
    glob
    glob_none
    grep_search
    hello_text
    list_directory
    long_text
    max_rounds
    max_tokens
    mode_auto_edit
    mode_plan
    mode_yolo
    path_absolute
    path_by_name
    path_directory
    path_file
    path_ignored
    path_missing
    path_outside
    plan
    rate_limited
    read_file
    read_file_ignored
    read_file_missing
    read_file_outside
    read_file_part
    read_many_files
    refused
    replace
    replace_create
    replace_miss
    retry
    retry_midstream
    search_file_content
    session_new
    shell_allow
    shell_always
    shell_bash
    shell_blocked
    shell_fail
    shell_in_dir
    shell_leaves
    shell_lines
    shell_outside
    shell_quiet_fail
    shell_safe
    shell_silent
    unknown_tool
    write_allow
    write_always
    write_cancel
    write_overwrite
    write_parents
    write_reject
    write_stdin
    write_todos
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

#[track_caller]
fn all_are(name: &str, played: &[&str]) {
    let files = fs::read_dir(directory(name)).unwrap().map(|entry| entry.unwrap().path());
    let is_transcript =
        |path: &PathBuf| fs::read_to_string(path).unwrap().starts_with(r#"{"dir":"setup""#);
    let mut files: Vec<_> = files
        .filter(is_transcript)
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files, played);
}

async fn plays_as_recorded(name: &str, file: &str) {
    let path = directory(name).join(file).with_extension("ndjson");
    if !can_show(&fs::read_to_string(&path).unwrap()) {
        return;
    }
    let mut repeats = 0..MAX_REPEATS;
    while let Err(Difference { at, is_early_output }) = play(&path).await {
        let again = is_early_output && repeats.next().is_some();
        assert!(again, "{}:\n{at}", path.display());
    }
}

/// Point at which a conversation differs from its record.
struct Difference {
    /// Conversation until then, the expected line and the line that came.
    at: String,
    /// `true` if the line has output of a command that still runs. A slow machine sends such a line where a fast one
    /// sends the end of the call.
    is_early_output: bool,
}

impl From<String> for Difference {
    fn from(at: String) -> Self {
        Self { at, is_early_output: false }
    }
}

/// Returns `true` for a line with output of a running call, which `tandem replay` passes over, too.
fn is_early_output(line: &str) -> bool {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    let update = &message["params"]["update"];
    message["params"]["status"] == "running"
        || update["sessionUpdate"] == "tool_call_update"
            && update.get("content").is_some()
            && (update["status"].is_null() || update["status"] == "in_progress")
}

async fn play(path: &Path) -> Result<(), Difference> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<Recorded> = text
        .lines()
        .enumerate()
        .map(|(n, line)| {
            serde_json::from_str(line)
                .unwrap_or_else(|err| panic!("{}:{}: {err}", path.display(), n + 1))
        })
        .collect();
    let Recorded::Setup { args, files, script, .. } = &lines[0] else { panic!("no setup") };
    let setup = Setup {
        args: args.clone(),
        files: files.clone(),
        script: script.clone(),
        ..Setup::default()
    };
    let mut agent = setup.start();
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let begins = text.contains(SESSION) && !text.contains(r#""method":"initialize""#);
    let session = if begins { Some(begin(&mut agent).await) } else { None };
    let played = converse(&mut agent, &mut lines, session, update).await;
    if update {
        let lines = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
        fs::write(path, lines.collect::<String>()).unwrap();
    }
    played
}

/// Begins a session of ACP 1, by the requests of the ids 0 and 1. Returns the session's id.
async fn begin(agent: &mut Agent) -> String {
    let files = json!({ "readTextFile": false, "writeTextFile": false });
    let client = json!({ "fs": files, "terminal": false });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": client });
    let id = agent.request("initialize", params).await;
    agent.answer_to(id).await;
    let params = json!({ "cwd": agent.workspace(), "mcpServers": [] });
    let id = agent.request("session/new", params).await;
    let begun = agent.answer_to(id).await;
    // The list of commands is the last message about the new session.
    assert_eq!(
        agent.message().await["params"]["update"]["sessionUpdate"],
        "available_commands_update"
    );
    begun["result"]["sessionId"].as_str().unwrap().to_owned()
}

async fn converse(
    agent: &mut Agent,
    lines: &mut [Recorded],
    mut session: Option<String>,
    update: bool,
) -> Result<(), Difference> {
    let workspace = agent.workspace().display().to_string();
    let times = Regex::new(r#""updatedAt":"[^"]*""#).unwrap();
    let pids = Regex::new(r"PID \d+").unwrap();
    let ages = Regex::new(r"runs, for \d+ s").unwrap();
    let mut before = Vec::new();
    for (n, recorded) in lines.iter_mut().enumerate() {
        match recorded {
            Recorded::Setup { .. } => {}
            Recorded::End => drop(agent.stdin.take()),
            Recorded::Client(line) => {
                let mut text = line.text().replace(WORKSPACE, &workspace);
                if let Some(session) = &session {
                    text = text.replace(SESSION, session);
                }
                agent.send_line(&text).await;
                before.push(format!("  > {text}"));
            }
            Recorded::Agent(line) => {
                let Ok(Ok(Some(actual))) = timeout(HANG, agent.lines.next_line()).await else {
                    let before = before.join("\n");
                    let expected = line.text();
                    let at = format!("{before}\nline {}: nothing comes, not {expected}", n + 1);
                    return Err(at.into());
                };
                if session.is_none() {
                    let begun: Value = serde_json::from_str(&actual).unwrap_or_default();
                    session = begun["result"]["sessionId"].as_str().map(str::to_owned);
                }
                let mut actual = actual.replace(&workspace, WORKSPACE);
                if let Some(session) = &session {
                    actual = actual.replace(session, SESSION);
                }
                let actual = times.replace_all(&actual, r#""updatedAt":"TIME""#);
                let actual = pids.replace_all(&actual, "PID 7");
                let actual = ages.replace_all(&actual, "runs, for 0 s");
                if update {
                    let raw: Box<RawValue> = serde_json::from_str(&actual).unwrap();
                    line.msg = serde_json::from_str(raw.get()).ok();
                } else if line.text() != actual {
                    let expected = line.text();
                    let at = format!(
                        "{}\nline {}\n  expected {expected}\n  but got  {actual}",
                        before.join("\n"),
                        n + 1
                    );
                    return Err(Difference { at, is_early_output: is_early_output(&actual) });
                }
                before.push(format!("  < {actual}"));
            }
        }
    }
    let (rest, status) = agent.hang_up().await;
    if !rest.is_empty() {
        let before = before.join("\n");
        return Err(format!("{before}\nand then, unexpected:\n{}", rest.join("\n")).into());
    }
    if status.code() == Some(0) { Ok(()) } else { Err(format!("exit: {status}").into()) }
}
