//! `tandem replay`: records played against an agent, and the report where the agent differs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use expect_test::expect;
use futures::StreamExt as _;
use futures::stream;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};
use crate::sandboxed::can_show;

/// Runs `tandem replay`, and returns the exit code, standard output and standard error.
async fn replay(file: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.arg("replay").arg(file).args(args).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/acp").join(name)
}

#[tokio::test]
async fn every_fixture_is_as_recorded() {
    let files = fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap().path());
    let is_record = |path: &PathBuf| fs::read_to_string(path).unwrap().starts_with(r#"{"dir""#);
    let files: Vec<_> = files.filter(is_record).collect();
    assert!(files.len() >= 40, "only {} records", files.len());
    // A PID is another one in each run. `transcripts` compares records with a PID.
    let is_comparable = |record: &str| can_show(record) && !record.contains("PID ");
    let files = files.into_iter().filter(|path| is_comparable(&fs::read_to_string(path).unwrap()));
    let played = stream::iter(files).map(async |file| match replay(&file, &[]).await {
        (Some(0), ..) => String::new(),
        (code, _, said) => format!("{code:?} {said}"),
    });
    let wrong: Vec<String> = played.buffer_unordered(4).collect().await;
    assert_eq!(wrong.concat(), "");
}

/// Plays these lines against a shell script.
async fn against(script: &str, lines: &[&str], args: &[&str]) -> (Option<i32>, String, String) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("record");
    fs::write(&file, lines.join("\n")).unwrap();
    let (code, shown, said) = replay(&file, &[args, &["--", "sh", "-c", script]].concat()).await;
    let place = file.display().to_string();
    (code, shown.replace(&place, "FILE"), said.replace(&place, "FILE"))
}

#[tokio::test]
async fn a_conversation_is_shown_as_people_read_it() {
    let (code, shown, _) = replay(&fixture("write_allow.ndjson"), &["--show"]).await;
    assert_eq!(code, Some(0));
    expect![[r#"
        › go

        ? Write hello.txt
          + hello
          Asked because this mode asks before a call changes files [built-in rule edits]

        › allow

        ✓ Write hello.txt

        done

        The turn has ended.

        write_allow.ndjson: as recorded
    "#]]
    .assert_eq(&shown.replace(&fixture("").display().to_string(), ""));
}

#[tokio::test]
async fn a_conversation_of_acp_1_is_shown_in_the_same_way() {
    let lines = [
        r#"{"dir":"c2a","msg":{"id":0,"method":"initialize","params":{"protocolVersion":1}}}"#,
        r#"{"dir":"a2c","msg":{"id":0,"result":{"protocolVersion":1}}}"#,
        r#"{"dir":"c2a","msg":{"id":1,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"go"},{"type":"resource_link","uri":"file:///a"}]}}}"#,
        r#"{"dir":"a2c","msg":{"method":"session/update","params":{"update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Hm"}}}}}"#,
        r#"{"dir":"a2c","msg":{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I do"}}}}}"#,
        r#"{"dir":"a2c","msg":{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" it.\n"}}}}}"#,
        r#"{"dir":"a2c","msg":{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"w","title":"Writing to \u001b[2Ja","status":"pending"}}}}"#,
        r#"{"dir":"a2c","msg":{"id":0,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"w","content":[{"type":"diff","path":"/a","oldText":"1\n2\n3\n","newText":"1\ntwo\n3\n"}]},"options":[{"optionId":"once","name":"Yes, this once","kind":"allow_once"}]}}}"#,
        r#"{"dir":"c2a","msg":{"id":0,"result":{"outcome":{"outcome":"selected","optionId":"once"}}}}"#,
        r#"{"dir":"a2c","msg":{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"w","status":"failed","content":[{"type":"content","content":{"type":"text","text":"```\ndisk full\n```"}}]}}}}"#,
        r#"{"dir":"a2c","msg":{"id":1,"result":{"stopReason":"cancelled"}}}"#,
    ];
    let part = |line: &&str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        match line["dir"].as_str() {
            Some("c2a") => "read line\n".to_owned(),
            _ => format!("cat <<'END'\n{}\nEND\n", line["msg"]),
        }
    };
    let agent: String = lines.iter().map(part).collect();
    let (code, shown, said) = against(&format!("{agent}cat"), &lines, &["--show"]).await;
    assert_eq!((code, &*said), (Some(0), ""));
    expect![[r#"
        An editor starts the agent; both speak ACP 1.

        › go @file:///a

        ∴ Hm

        I do it.

        ? Writing to ␛[2Ja
          - 2
          + two

        › Yes, this once

        ✗ Writing to ␛[2Ja
          │ disk full

        The turn has ended: cancelled.

        FILE: as recorded
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn the_demonstration_ends_with_what_to_do_next() {
    if !can_show(&fs::read_to_string(fixture("demonstration.ndjson")).unwrap()) {
        return;
    }
    let (code, shown, _) = replay(&fixture("demonstration.ndjson"), &["--show"]).await;
    assert_eq!(code, Some(0));
    let end = shown.split_once("demonstration.ndjson: as recorded\n").expect("its verdict").1;
    for next in ["--model replay", "login", "docs/editors.md", "--wire"] {
        assert!(end.contains(next), "{next} is missing:\n{end}");
    }
    assert!(!shown.contains(['{', '\x1b']), "JSON, or colours outside of a terminal:\n{shown}");
}

const ASKED: &str = r#"{"dir":"c2a","t":1,"msg":{"id":1,"method":"go"}}"#;
const CALL: &str = r#"{"dir":"a2c","t":2,"msg":{"id":0,"method":"call","params":{"a":1,"b":2}}}"#;
const ANSWER: &str = r#"{"dir":"c2a","t":3,"msg":{"id":0,"result":true}}"#;
const DONE: &str = r#"{"dir":"a2c","t":4,"msg":{"id":1,"result":null}}"#;

#[tokio::test]
async fn ids_of_requests_and_the_order_of_keys_do_not_count() {
    let agent = r#"read go
        echo '{"method":"call","params":{"b":2,"a":1},"id":"x"}'
        read answer
        case $answer in *'"id":"x"'*) echo '{"result":null,"id":1}';; esac
        cat"#;
    let (code, shown, said) = against(agent, &[ASKED, CALL, ANSWER, DONE], &["--wire"]).await;
    assert_eq!((code, &*said), (Some(0), ""));
    assert_eq!(
        shown,
        "> {\"id\":1,\"method\":\"go\"}\n\
         < {\"method\":\"call\",\"params\":{\"b\":2,\"a\":1},\"id\":\"x\"}\n\
         > {\"id\":\"x\",\"result\":true}\n\
         < {\"result\":null,\"id\":1}\n\
         FILE: as recorded\n"
    );
}

#[tokio::test]
async fn output_so_far_that_the_record_has_not_is_passed_over() {
    let running = r#"{"id":7,"method":"updateToolCall","params":{"toolCallId":1,"status":"running","content":null}}"#;
    let ended = |id| {
        format!(
            r#"{{"id":{id},"method":"updateToolCall","params":{{"toolCallId":1,"status":"finished"}}}}"#
        )
    };
    // The agent waits for the answer to each of its requests.
    let script = format!(
        r#"read go; echo '{running}'; read answer; echo '{}'; read answer; echo "$answer""#,
        ended(8)
    );
    let step = |dir: &str, message: &str| format!(r#"{{"dir":"{dir}","msg":{message}}}"#);
    let lines = [
        step("c2a", r#"{"id":1,"method":"go"}"#),
        step("a2c", &ended(3)),
        step("c2a", r#"{"id":3,"result":null}"#),
        step("a2c", r#"{"id":8,"result":null}"#),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let (code, shown, said) = against(&script, &lines, &[]).await;
    assert_eq!((code, &*shown, &*said), (Some(0), "FILE: as recorded\n", ""));
}

#[tokio::test]
async fn output_so_far_of_acp_1_is_passed_over_as_well() {
    let update = |members: &str| {
        format!(
            r#"{{"method":"session/update","params":{{"update":{{"sessionUpdate":"tool_call_update","toolCallId":"a",{members}}}}}}}"#
        )
    };
    let (first, more) =
        (update(r#""status":"in_progress","content":[]"#), update(r#""content":[]"#));
    let ended = update(r#""status":"completed""#);
    let script = format!("read go; echo '{first}'; echo '{more}'; echo '{ended}'");
    let step = |dir: &str, message: &str| format!(r#"{{"dir":"{dir}","msg":{message}}}"#);
    let lines = [step("c2a", r#"{"id":1,"method":"go"}"#), step("a2c", &ended)];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let (code, shown, said) = against(&script, &lines, &[]).await;
    assert_eq!((code, &*shown, &*said), (Some(0), "FILE: as recorded\n", ""));
}

#[tokio::test]
async fn a_difference_is_named_with_its_line() {
    let check = async |agent: &str, lines: &[&str], expected: &str| {
        let (code, _, said) = against(agent, lines, &["--timeout", "0.3"]).await;
        assert_eq!((code, &*said), (Some(1), expected), "{agent}");
    };
    let other = r#"read go; echo '{"id":2,"result":null}'; cat"#;
    check(
        other,
        &[ASKED, DONE],
        "FILE:2: not as recorded\n  expected {\"id\":1,\"result\":null}\n  got      \
         {\"id\":2,\"result\":null}\n",
    )
    .await;
    check(
        "cat >/dev/null",
        &[ASKED, DONE],
        "FILE:2: not as recorded\n  expected {\"id\":1,\"result\":null}\n  got      \
         nothing within 300ms\n",
    )
    .await;
    check(
        "read go",
        &[ASKED, DONE],
        "FILE:2: not as recorded\n  expected {\"id\":1,\"result\":null}\n  got      \
         the end of the agent's output\n",
    )
    .await;
    check(
        r"read go; printf 'more \033\n'",
        &[ASKED],
        "FILE: not as recorded\n  expected the end of the agent's output\n  got      more ␛\n",
    )
    .await;
    check(
        "read go; exit 3",
        &[ASKED],
        "FILE: not as recorded\n  expected exit status: 0\n  got      exit status: 3\n",
    )
    .await;
}

#[tokio::test]
async fn what_is_no_record_is_refused() {
    let (code, _, said) = replay(&fixture("hello.ndjson"), &[]).await;
    assert_eq!(code, Some(1));
    let place = fixture("hello.ndjson");
    expect![[r#"
        tandem: PLACE:1 is not a line of a record: missing field `dir` at line 1 column 83
    "#]]
    .assert_eq(&said.replace(&place.display().to_string(), "PLACE"));
}

#[tokio::test]
async fn a_record_that_was_written_can_be_played() {
    let setup = Setup::answers(json!([[{ "text": "said" }]])).arg("--record").arg("../record");
    let mut agent = setup.start();
    let id = agent.prompt("go").await;
    agent.until_answered(id, "allow").await;
    let home = agent.workspace().parent().unwrap().to_owned();
    agent.hang_up().await;
    let model = format!("replay:{}", home.join("script.jsonl").display());
    let tandem = env!("CARGO_BIN_EXE_tandem");
    let (code, _, said) =
        replay(&home.join("record"), &["--", tandem, "--acp", "--model", &model]).await;
    assert_eq!((code, &*said), (Some(0), ""));
}
