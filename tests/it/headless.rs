//! One prompt from a shell: the outputs, and the end.

mod ending;

use std::fs;
use std::process::{ExitStatus, Stdio};

use expect_test::expect_file;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::api_server::{Reply, Server};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::agent::{HANG, Setup};
use crate::family::run;

/// Output and exit status of a run.
struct Ran {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    home: TempDir,
}

/// A running program.
struct Running {
    child: Child,
    home: TempDir,
}

fn start(setup: Setup, prompt: &str) -> Running {
    let home = TempDir::new().unwrap();
    let mut command = setup.command(home.path());
    let child = command.arg("-p").arg(prompt).stderr(Stdio::piped()).spawn().unwrap();
    Running { child, home }
}

impl Running {
    /// Writes standard input, ends it, and waits for the end.
    async fn with_input(mut self, input: &[u8]) -> Ran {
        let mut stdin = self.child.stdin.take().unwrap();
        // An error is ignored: the program may end before it has read all of its input.
        let _ = stdin.write_all(input).await;
        drop(stdin);
        self.end().await
    }

    async fn end(self) -> Ran {
        let output = timeout(HANG, self.child.wait_with_output()).await.expect("it does not end");
        let output = output.unwrap();
        Ran {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            home: self.home,
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Returns the first line of the answer, and the reader of the rest.
    async fn line(&mut self) -> (String, BufReader<ChildStdout>) {
        let mut stdout = BufReader::new(self.child.stdout.take().unwrap());
        let mut line = String::new();
        timeout(HANG, stdout.read_line(&mut line)).await.expect("it is silent").unwrap();
        (line, stdout)
    }
}

async fn ran(setup: Setup, prompt: &str) -> Ran {
    start(setup, prompt).with_input(b"").await
}

fn says(text: &str) -> Setup {
    Setup::answers(json!([[{ "text": text }]]))
}

/// Returns a model that reads an existing file, writes a file if it may, and says something before, between and
/// after.
fn story() -> Setup {
    let call = |name, args: Value| json!({ "call": { "name": name, "args": args } });
    Setup::answers(json!([
        [{ "thought": "**Plan** look" }, { "text": "Let me " }, { "text": "see." },
            call("read_file", json!({ "file_path": "a.txt" }))],
        [{ "retry": { "reason": "rate limited", "delay": 1, "attempt": 2, "of": 10 } },
            call("write_file", json!({ "file_path": "b.txt", "content": "b\n" }))],
        [{ "text": "It is " }, { "text": "done." }],
    ]))
    .file("a.txt", "a\n")
}

/// Replaces in the output all that differs from run to run.
fn constant(ran: &Ran) -> String {
    let workspace = fs::canonicalize(ran.home.path().join("workspace")).unwrap();
    let mut text = ran.stdout.replace(workspace.to_str().unwrap(), "/workspace");
    for (pattern, constant) in [
        (r#""session_id":( ?)"[0-9a-f-]{36}""#, r#""session_id":$1"ID""#),
        (r#""timestamp":"[0-9TZ:.-]{24}""#, r#""timestamp":"AT""#),
        (r#""(\w+Ms|duration_ms)":( ?)\d+"#, r#""$1":${2}0"#),
        (r#"replay:[^"]*"#, "replay:SCRIPT"),
    ] {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, constant).into_owned();
    }
    text
}

#[tokio::test]
async fn text_is_all_that_the_model_says_and_nothing_else() {
    let ran = ran(story().arg("-y"), "go").await;
    assert_eq!((&*ran.stdout, &*ran.stderr), ("Let me see.\nIt is done.\n", ""));
    assert!(ran.status.success());
    assert_eq!(fs::read_to_string(ran.home.path().join("workspace/b.txt")).unwrap(), "b\n");
}

#[tokio::test]
async fn text_comes_as_it_is_said() {
    let setup = Setup::answers(json!([[{ "text": "first\n" }, { "hang": null }]]));
    let mut running = start(setup, "go");
    drop(running.child.stdin.take());
    assert_eq!(running.line().await.0, "first\n");
}

#[tokio::test]
async fn json_is_one_object() {
    let ran = ran(story().arg("-y").arg("--output-format").arg("json"), "go").await;
    expect_file!["../../fixtures/headless/story.json"].assert_eq(&constant(&ran));
    assert!(ran.status.success());
}

#[tokio::test]
async fn stream_json_is_an_object_a_line() {
    let ran = ran(story().arg("-o").arg("stream-json"), "go").await;
    expect_file!["../../fixtures/headless/story.ndjson"].assert_eq(&constant(&ran));
    assert!(ran.stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(ran.status.success());
}

#[tokio::test]
async fn a_question_is_a_refusal_that_the_model_and_the_user_are_told_of() {
    let ran = ran(story(), "go").await;
    assert_eq!(ran.stdout, "Let me see.\nIt is done.\n");
    assert_eq!(
        ran.stderr,
        "tandem: not allowed without `--approval-mode auto_edit`: Write b.txt (this mode asks before a call \
         changes files [built-in rule edits])\n"
    );
    assert!(!ran.home.path().join("workspace/b.txt").exists());
    assert!(ran.status.success());
}

/// Returns the last line of the format `stream-json`, and the object of `json`.
async fn both_ends(setup: Setup, code: i32) -> [Value; 2] {
    let mut ends = [Value::Null, Value::Null];
    for (end, format) in ends.iter_mut().zip(["stream-json", "json"]) {
        let ran = ran(setup.clone().arg("-o").arg(format), "go").await;
        assert_eq!(ran.status.code(), Some(code), "{}", ran.stderr);
        let text = if format == "json" { &*ran.stdout } else { ran.stdout.lines().last().unwrap() };
        *end = serde_json::from_str(text).unwrap();
    }
    ends
}

/// Prices of the model of [`charging`], in US dollars per million tokens.
const PRICES: &str = r#"{"models": [{"id": "gemini-3.8-flash",
    "prices": [{"from": "2026-01-01", "input": 1, "output": 10}]}]}"#;

/// Returns a setup with a model at this server.
fn charging(server: &Server) -> Setup {
    Setup::default()
        .arg("--model")
        .arg("gemini-3.8-flash")
        .var("GEMINI_API_KEY", "AIzaSyCost0123456789")
        .var("GOOGLE_GEMINI_BASE_URL", server.address())
}

/// Returns an answer to a prompt of this many tokens, which has 10 tokens itself.
fn charged(input: u64) -> Reply {
    let usage = json!({ "promptTokenCount": input, "candidatesTokenCount": 10 });
    let content = json!({ "role": "model", "parts": [{ "text": "ok" }] });
    let candidate = json!({ "content": content, "finishReason": "STOP" });
    let response = json!({ "candidates": [candidate], "usageMetadata": usage });
    Reply::stream(format!("data: {response}\n\n"))
}

#[tokio::test]
async fn the_cost_of_the_run_is_told_if_the_price_is_known() {
    let server = Server::start((0..4).map(|_| charged(1000)).collect()).await;
    for end in both_ends(charging(&server).file("../.config/tandem/models.json", PRICES), 0).await {
        assert_eq!(end["total_cost_usd"], json!(0.0011));
    }
    // A gateway has no list price.
    for end in both_ends(charging(&server), 0).await {
        assert_eq!(end.get("total_cost_usd"), None);
    }
}

#[tokio::test]
async fn a_later_run_of_a_session_costs_its_own_requests_alone() {
    let server = Server::start(vec![charged(1000), charged(2000)]).await;
    let setup = charging(&server).file("../.config/tandem/models.json", PRICES);
    let setup = setup.arg("--output-format").arg("json");
    let home = TempDir::new().unwrap();
    for (setup, cost) in [(setup.clone(), 0.0011), (setup.arg("--continue"), 0.0021)] {
        let output = setup.command(home.path()).args(["-p", "go"]).stdin(Stdio::null()).output();
        let output = timeout(HANG, output).await.expect("it does not end").unwrap();
        let end: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(end["total_cost_usd"], json!(cost));
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_does_not_look_whole() {
    let cut = || Setup::answers(json!([[{ "text": "half an" }, { "finish": "max_tokens" }]]));
    let [stream, json] = both_ends(cut(), 3).await;
    assert_eq!(
        (&stream["status"], &stream["stop_reason"]),
        (&json!("error"), &json!("max_tokens"))
    );
    assert_eq!(stream["error"]["type"], "OutputLimitError");
    assert_eq!(
        (&json["response"], &json["stop_reason"]),
        (&json!("half an"), &json!("max_tokens"))
    );
    assert_eq!(
        (&json["error"]["type"], &json["error"]["code"]),
        (&json!("OutputLimitError"), &json!(3))
    );
    let text = ran(cut(), "go").await;
    let why =
        "tandem: The answer was cut at the model's output limit. Say \"continue\" for the rest.\n";
    assert_eq!((&*text.stdout, &*text.stderr, text.status.code()), ("half an\n", why, Some(3)));
    let [stream, json] = both_ends(says("all of it"), 0).await;
    assert_eq!(
        (&stream["status"], &stream["stop_reason"]),
        (&json!("success"), &json!("end_turn"))
    );
    assert_eq!((&json["stop_reason"], json.get("error")), (&json!("end_turn"), None));
}

#[tokio::test]
async fn a_question_of_the_model_is_left_to_the_model_and_no_call_is_refused() {
    let questions = json!([{ "question": "Which?", "options": ["a", "b"] }]);
    let call = json!({ "call": { "name": "ask_user", "args": { "questions": questions } } });
    let setup = Setup::answers(json!([[call], [{ "text": "assumed a" }]]));
    let setup =
        setup.arg("--fail-on-refusal").arg("--output-format").arg("stream-json").arg("--yolo");
    let ran = ran(setup, "go").await;
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr, "tandem: not answered, as nobody can be asked: Ask: Which?\n");
    assert!(ran.stdout.contains("say in your answer what you assumed"), "{}", ran.stdout);
}

#[tokio::test]
async fn refused_calls_are_listed_with_tool_reason_and_rule() {
    let denials = json!([{
        "tool_name": "write_file",
        "tool_id": "write_file-2",
        "parameters": { "file_path": "b.txt", "content": "b\n" },
        "reason": "this mode asks before a call changes files",
        "rules": ["built-in rule edits"],
    }]);
    for end in both_ends(story(), 0).await {
        assert_eq!(end["permission_denials"], denials);
    }
    for end in both_ends(story().arg("-y"), 0).await {
        assert_eq!(end["permission_denials"], json!([]));
    }
    for end in both_ends(story().arg("--approval-mode").arg("plan"), 0).await {
        let denial = &end["permission_denials"][0];
        assert_eq!(
            (&denial["tool_name"], &denial["rules"]),
            (&json!("write_file"), &json!(["built-in rule plan"]))
        );
        assert!(denial["reason"].as_str().unwrap().starts_with("Plan mode"), "{denial}");
    }
    let rule = "[[rule]]\ntoolName = \"write_file\"\ndecision = \"deny\"\npriority = 100\n";
    for end in
        both_ends(story().file("rules.toml", rule).arg("--policy").arg("rules.toml"), 0).await
    {
        let rules = &end["permission_denials"][0]["rules"];
        assert!(rules[0].as_str().unwrap().contains("rules.toml:1"), "{rules}");
    }
}

#[tokio::test]
async fn a_run_can_fail_because_a_call_was_refused() {
    let [stream, json] = both_ends(story().arg("--fail-on-refusal"), 4).await;
    assert_eq!((&stream["status"], &stream["stop_reason"]), (&json!("error"), &json!("end_turn")));
    let why =
        "1 tool call was refused (`write_file`), so the run fails, as `--fail-on-refusal` asks.";
    let error = json!({ "type": "CallsRefusedError", "message": why, "code": 4 });
    assert_eq!((&json["error"], &json["response"]), (&error, &json!("It is done.")));
    both_ends(story().arg("-y").arg("--fail-on-refusal"), 0).await;
}

#[tokio::test]
async fn a_prompt_of_a_hyphen_is_standard_input() {
    assert_eq!(asked(b"what is it?\n", "-").await, "what is it?");
    assert_eq!(
        asked(b" \n", "-").await,
        "tandem: there is no prompt: `-p -` reads standard input, which is empty\n"
    );
}

#[tokio::test]
async fn a_terminal_is_shown_progress_and_not_read() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let file = || fs::OpenOptions::new().read(true).write(true).open(&name).unwrap();
    let home = TempDir::new().unwrap();
    // One end of the terminal stays open, because otherwise the output would be lost before the test reads it.
    let kept = file();
    let mut command = story().arg("-y").var("TANDEM_LOG", "warn").command(home.path());
    let command = command.arg("-p").arg("go").stdin(file()).stderr(file());
    let ended = command.spawn().unwrap().wait_with_output();
    let output = timeout(HANG, ended).await.expect("it reads the terminal").unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Let me see.\nIt is done.\n");
    let mut shown = [0; 4096];
    let length = std::io::Read::read(&mut fs::File::from(terminal), &mut shown).unwrap();
    drop(kept);
    let shown = String::from_utf8_lossy(&shown[..length]);
    assert!(shown.starts_with("* Read a.txt\r\n* Retrying in 1 s"), "{shown}");
}

#[tokio::test]
async fn what_the_mode_allows_needs_no_question() {
    let ran = ran(story().arg("--approval-mode").arg("auto_edit"), "go").await;
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    assert!(ran.home.path().join("workspace/b.txt").exists());
}

/// Returns the model's prompt when this is on standard input.
async fn asked(input: &[u8], prompt: &str) -> String {
    let running = start(says("yes").arg("-o").arg("stream-json"), prompt);
    let ran = running.with_input(input).await;
    let user = ran.stdout.lines().nth(1).unwrap_or_default();
    serde_json::from_str::<Value>(user).unwrap_or_default()["content"]
        .as_str()
        .map_or(ran.stderr, ToOwned::to_owned)
}

#[tokio::test]
async fn standard_input_is_put_before_the_prompt() {
    assert_eq!(asked(b"a log\n  b\n\n", "what is it?").await, "a log\n  b\n\nwhat is it?");
    assert_eq!(asked(b"what is it?\n", "").await, "what is it?");
    assert_eq!(asked(b" \n", "- what is it?").await, "- what is it?");
    assert_eq!(asked(b"\xef\xbb\xbfwhat?", " ").await, "what?");
}

/// Checks the error about bad input, as text and as JSON.
async fn check_bad(setup: Setup, input: &[u8], prompt: &str, why: &str) {
    let ran = start(setup.clone(), prompt).with_input(input).await;
    assert_eq!((&*ran.stdout, ran.stderr), ("", format!("tandem: {why}\n")));
    assert_eq!(ran.status.code(), Some(42));
    let ran = start(setup.arg("-o").arg("json"), prompt).with_input(input).await;
    let error = &serde_json::from_str::<Value>(&ran.stdout).unwrap()["error"];
    assert_eq!(*error, json!({ "type": "FatalInputError", "message": why, "code": 42 }));
}

#[tokio::test]
async fn bad_input_is_42() {
    let empty = "there is no prompt: `-p` is empty, and so is standard input";
    check_bad(says("no"), b"\n", "  ", empty).await;
    let wrong = "standard input is not UTF-8: byte 0xff at offset 3";
    check_bad(says("no"), b"abc\xff\xfe", "go", wrong).await;
    let long = "standard input is longer than 5 bytes; `--limit stdin-bytes=N` allows more";
    check_bad(says("no").arg("--limit").arg("stdin-bytes=5"), b"123456", "go", long).await;
    let command = "`/help` is a command, which takes no standard input";
    check_bad(says("no"), b"text", "/help", command).await;
}

#[tokio::test]
async fn arguments_that_cannot_be_read_are_42_too() {
    for args in [
        &["--output-format", "xml"][..],
        &["--acp"],
        &["--no-such-flag"],
        &["--record", "file"],
        &["--include-directories", "no/such/directory"],
        &["--model", "replay:no/such/script"],
    ] {
        let setup = args.iter().fold(says("no"), |setup, arg| setup.arg(arg));
        let ran = ran(setup, "go").await;
        assert_eq!((&*ran.stdout, ran.status.code()), ("", Some(42)), "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty());
    }
}

/// Checks the exit code and the error of a prompt that fails, as text and as JSON.
async fn check_failure(setup: Setup, code: i32, name: &str, why: &str) {
    let ran_ = ran(setup.clone(), "go").await;
    assert!(ran_.stderr.starts_with("tandem: ") && ran_.stderr.contains(why), "{}", ran_.stderr);
    assert_eq!((&*ran_.stdout, ran_.status.code()), ("", Some(code)));
    let ran_ = ran(setup.arg("-o").arg("stream-json"), "go").await;
    let last: Value = serde_json::from_str(ran_.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["status"]), (&json!("result"), &json!("error")));
    assert_eq!(last["error"]["type"], name);
    assert!(last["error"]["message"].as_str().unwrap().contains(why), "{last}");
    assert_eq!(ran_.status.code(), Some(code));
}

#[tokio::test]
async fn each_failure_has_its_exit_code() {
    let fails = |error| Setup::answers(json!([[{ "error": error }]]));
    let gemini = Setup::default().arg("--model").arg("gemini-3.8-flash");
    check_failure(gemini, 41, "FatalAuthenticationError", "There is no Gemini API key").await;
    let unknown = fails(json!({ "not_authenticated": "who are you?" }));
    check_failure(unknown, 41, "FatalAuthenticationError", "who are you?").await;
    let down = fails(json!({ "unavailable": "the server is down" }));
    check_failure(down, 1, "Error", "the server is down").await;
    let refused = fails(json!({ "refused": "SAFETY" }));
    check_failure(refused, 1, "Error", "refused to answer: SAFETY").await;
    let calls = Setup::answers(json!([[run("true")], [run("true")], [run("true")]]));
    let rounds = calls.arg("--limit").arg("rounds=2");
    check_failure(rounds, 53, "FatalTurnLimitedError", "after 2 rounds").await;
}

#[tokio::test]
async fn a_slash_command_needs_no_key() {
    let setup = Setup::default().arg("--model").arg("gemini-3.8-flash");
    let ran = ran(setup, "/about").await;
    assert!(
        ran.stdout.contains("gemini-3.8-flash") && ran.stdout.ends_with('\n'),
        "{}",
        ran.stdout
    );
    assert!(ran.status.success());
}

/// Checks that a command fails, with nothing on standard output.
async fn check_command(setup: Setup, prompt: &str, why: &str) {
    let ran_ = ran(setup.clone(), prompt).await;
    assert!(ran_.stderr.starts_with("tandem: ") && ran_.stderr.contains(why), "{}", ran_.stderr);
    assert_eq!((&*ran_.stdout, ran_.status.code()), ("", Some(1)));
    let ran_ = ran(setup.arg("-o").arg("json"), prompt).await;
    let result: Value = serde_json::from_str(&ran_.stdout).unwrap();
    assert_eq!((&result["response"], &result["error"]["code"]), (&json!(""), &json!(1)));
    assert!(result["error"]["message"].as_str().unwrap().contains(why), "{result}");
    assert_eq!(ran_.status.code(), Some(1));
}

#[tokio::test]
async fn a_command_that_does_not_work_is_no_success() {
    check_command(says("no"), "/compres", "Unknown command `/compres`. Did you mean").await;
    check_command(says("no"), "exit", "`exit` is not sent to the model").await;
    check_command(says("no"), "/memory lose", "`/memory` has no `lose`").await;
    let broken = says("no").file("../.gemini/commands/broken.toml", "prompt = [");
    check_command(broken, "/broken", "broken.toml").await;
}

#[tokio::test]
async fn with_an_a2a_port_others_may_answer() {
    let mut running = start(story().arg("--a2a-port").arg("0"), "go");
    drop(running.child.stdin.take());
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let first = timeout(HANG, stderr.next_line()).await.unwrap().unwrap().unwrap();
    let address = first.strip_prefix("tandem: A2A at http://").unwrap().trim_end_matches('/');
    let second = timeout(HANG, stderr.next_line()).await.unwrap().unwrap().unwrap();
    assert!(second.starts_with("tandem: waits for an answer over A2A: Write b.txt"));
    let answer = json!({ "userMessage": { "toolCallId": "write_file-2", "approved": true } });
    let body = answer.to_string();
    let request = format!(
        "POST /message/stream HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(request.as_bytes()).await.unwrap();
    let mut told = String::new();
    timeout(HANG, other.read_to_string(&mut told)).await.unwrap().unwrap();
    assert!(told.contains(r#""state":"completed""#), "{told}");
    let ran = running.end().await;
    assert_eq!(ran.stdout, "Let me see.\nIt is done.\n");
    assert!(ran.status.success());
    assert!(ran.home.path().join("workspace/b.txt").exists());
}

#[tokio::test]
async fn a_conversation_that_is_compressed_on_the_way_is_said_beside_the_answer() {
    let read = |n: u32| json!([{ "call": { "name": "read_file", "args": { "file_path": format!("{n}.txt") } } }]);
    let mut answers: Vec<Value> = (0..8).map(read).collect();
    answers.push(json!([{ "text": "Read." }]));
    let script = vec![
        json!({ "input_limit": 24_000 }),
        json!({ "when": "Write the snapshot", "answers": [[{ "text": "All is well." }]] }),
        json!({ "when": "", "answers": answers }),
    ];
    let content = "What is in it.\n".repeat(400);
    let setup =
        (0..8).fold(Setup::script(script), |setup, n| setup.file(&format!("{n}.txt"), &content));
    let ran = ran(setup, "read them").await;
    assert_eq!(ran.stdout, "Read.\n");
    assert!(ran.stderr.starts_with("tandem: Compressing the conversation of 1"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\ntandem: context compressed from 1"), "{}", ran.stderr);
    assert!(ran.status.success());
}

fn reads_notes() -> Setup {
    let args = json!({ "file_path": "../notes/diary.md" });
    let read = json!({ "call": { "name": "read_file", "args": args } });
    Setup::answers(json!([[read], [{ "text": "done" }]]))
        .without_sandbox()
        .file("../notes/diary.md", "Dear diary\n")
}

#[tokio::test]
async fn a_file_of_the_home_is_not_read_without_a_person_unless_the_settings_name_it() {
    let refused = ran(reads_notes(), "go").await;
    assert!(refused.stderr.contains("`tools.sandboxReadablePaths`"), "{}", refused.stderr);
    for end in both_ends(reads_notes(), 0).await {
        assert_eq!(end["permission_denials"][0]["rules"], json!(["built-in rule reads"]));
    }
    // `--allowed-tools` allows the tool in the workspace only.
    for end in both_ends(reads_notes().arg("--allowed-tools").arg("read_file"), 0).await {
        assert_eq!(end["permission_denials"].as_array().unwrap().len(), 1);
    }
    let settings = json!({ "tools": { "sandboxReadablePaths": ["~/notes"] } }).to_string();
    let named = reads_notes().file("../.gemini/settings.json", &settings);
    for end in both_ends(named, 0).await {
        assert_eq!(end["permission_denials"], json!([]));
    }
    for end in both_ends(reads_notes().arg("-y"), 0).await {
        assert_eq!(end["permission_denials"], json!([]));
    }
}

const FILES_SCHEMA: &str = r#"{"type": "object", "properties": {"files": {"type": "integer"}},
    "required": ["files"], "additionalProperties": false}"#;

#[tokio::test]
async fn with_a_schema_the_json_alone_is_written() {
    let look = json!({ "call": { "name": "list_directory", "args": { "path": "." } } });
    // What the model is told of its faults is one more prompt of the script.
    let setup = Setup::script(vec![
        json!({ "answers": [[{ "text": "Let me see." }, look], [{ "text": "{\"files\": \"one\"}" }]] }),
        json!({ "answers": [[{ "text": "{\"files\": 1}\n" }]] }),
    ]);
    let setup = setup.file("schema.json", FILES_SCHEMA).arg("--output-schema").arg("schema.json");
    let ran = ran(setup, "count").await;
    assert_eq!((&*ran.stdout, ran.status.code()), ("{\"files\":1}\n", Some(0)));
    let note = "tandem: The answer does not fit the schema (`/files` must be of the type integer, and is of the type \
                string); tandem asks the model again (1 of 2).\n";
    assert_eq!(ran.stderr, note);
}

#[tokio::test]
async fn an_answer_that_never_fits_the_schema_has_an_exit_code_of_its_own() {
    let setup =
        Setup::script(["a", "b", "c"].map(|it| json!({ "answers": [[{ "text": it }]] })).into());
    let setup = setup.file("schema.json", FILES_SCHEMA).arg("--output-schema").arg("schema.json");
    let ran = ran(setup.arg("-o").arg("json"), "count").await;
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), &result["error"]["code"]), (Some(5), &json!(5)));
    assert_eq!((&result["response"], result.get("structured_output")), (&json!("c"), None));
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_is_refused_before_the_model_is_asked() {
    let long = format!("{{\"description\": \"{}\"}}", "x".repeat(128 << 10));
    for (content, expected) in [
        (
            "{",
            "the schema of the answer in schema.json is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            "{\"type\": \"text\"}",
            "the schema of the answer in schema.json cannot be used: `/type`: must be one of null, boolean, object, \
             array, number, string, integer, or a list of them",
        ),
        (
            "true",
            "the schema of the answer in schema.json cannot be used: a schema of answers is a JSON object",
        ),
        (
            &long,
            "the schema of the answer cannot be read from schema.json (at most 131072 bytes): it is too long",
        ),
    ] {
        let setup = Setup::answers(json!([])).file("schema.json", content);
        let ran = ran(setup.arg("--output-schema").arg("schema.json"), "count").await;
        assert_eq!(
            (&*ran.stderr, ran.status.code()),
            (&*format!("tandem: {expected}\n"), Some(42))
        );
        assert_eq!(ran.stdout, "");
    }
    let ran = ran(Setup::answers(json!([])).arg("--output-schema").arg("none.json"), "count").await;
    let expected = "tandem: the schema of the answer cannot be read from none.json (at most 131072 bytes): No such file \
                    or directory (os error 2)\n";
    assert_eq!((&*ran.stderr, ran.status.code()), (expected, Some(42)));
}
