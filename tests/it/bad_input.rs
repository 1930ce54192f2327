//! Lines that are no messages, or wrong messages: they are answered, and the agent continues.

use std::process::Stdio;

use expect_test::expect;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup};

/// Checks the answer to a line, and that the agent is alive afterwards.
async fn check(line: impl AsRef<[u8]>, expected: Value) {
    let mut agent = Setup::default().start();
    agent.send_bytes(line.as_ref()).await;
    agent.send_bytes(b"\n").await;
    if !expected.is_null() {
        let answer = agent.message().await;
        let error = &answer["error"];
        let seen = json!([answer["id"], error["code"], error["message"]]);
        assert_eq!(seen, expected, "{answer}");
        assert!(!error["data"]["details"].as_str().unwrap().is_empty());
    }
    is_alive(&mut agent).await;
}

async fn is_alive(agent: &mut Agent) {
    agent.send_line(r#"{"id":"still there?","method":"initialize"}"#).await;
    let answer = agent.message().await;
    assert_eq!(answer["id"], "still there?");
    assert_eq!(answer["result"]["protocolVersion"], "0.0.9");
}

fn parse_error() -> Value {
    json!([null, -32700, "Parse error"])
}

fn invalid(id: impl Into<Value>) -> Value {
    json!([id.into(), -32600, "Invalid request"])
}

#[tokio::test]
async fn what_is_not_json_is_a_parse_error() {
    check("{this is not json", parse_error()).await;
    check(r#"{"id":1,"method":"initialize"} and more"#, parse_error()).await;
    check("{\"id\":1,\"method\":\"initialize\"}\u{feff}", parse_error()).await;
    check(b"{\"id\":1,\"method\":\"init\xff\"}", parse_error()).await;
}

#[tokio::test]
async fn a_byte_order_mark_before_a_message_does_not_lose_it() {
    let mut agent = Setup::default().start();
    agent.send_line("\u{feff}{\"id\":1,\"method\":\"initialize\"}").await;
    assert_eq!(agent.message().await["result"]["protocolVersion"], "0.0.9");
    is_alive(&mut agent).await;
}

#[tokio::test]
async fn json_that_is_no_message_is_an_invalid_request() {
    check("123", invalid(Value::Null)).await;
    check("null", invalid(Value::Null)).await;
    check("\"text\"", invalid(Value::Null)).await;
    check("{}", invalid(Value::Null)).await;
    check(r#"{"jsonrpc":"2.0","id":7}"#, invalid(7)).await;
    check(r#"{"jsonrpc":"2.0","id":"x","method":5}"#, invalid("x")).await;
    check(r#"{"id":1,"method":"initialize","id":2}"#, invalid(Value::Null)).await;
}

#[tokio::test]
async fn a_batch_is_refused_and_says_why() {
    let mut agent = Setup::default().start();
    agent.send_line(r#"[{"jsonrpc":"2.0","id":1,"method":"initialize"}]"#).await;
    let answer = agent.message().await;
    assert_eq!(answer["error"]["code"], -32600);
    expect!["batches are not part of this protocol: send one message a line"]
        .assert_eq(answer["error"]["data"]["details"].as_str().unwrap());
    is_alive(&mut agent).await;
}

#[tokio::test]
async fn an_unknown_method_is_named() {
    for method in ["noSuchMethod", "session/new", "constructor", "toString", ""] {
        let mut agent = Setup::default().start();
        agent.request("initialize", json!({ "protocolVersion": "0.0.9" })).await;
        let id = agent.request(method, json!({})).await;
        let answer = agent.answer_to(id).await;
        let details = format!("there is no method `{method}`");
        assert_eq!(
            answer["error"],
            json!({ "code": -32601, "message": "Method not found", "data": { "details": details } })
        );
    }
}

#[tokio::test]
async fn bad_params_are_named() {
    for (params, named) in [
        (json!(null), "params"),
        (json!({}), "`chunks`"),
        (json!([]), "must be an object"),
        (json!({ "chunks": 5 }), "`chunks`"),
        (json!({ "chunks": [{ "text": "a" }, { "text": 5 }] }), "`chunks[1].text`"),
        (json!({ "chunks": [{ "other": "a" }] }), "`chunks[0]`"),
    ] {
        let mut agent = Setup::default().start();
        let id = agent.request("sendUserMessage", params).await;
        let answer = agent.answer_to(id).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let details = answer["error"]["data"]["details"].as_str().unwrap();
        assert!(details.contains(named), "{details}");
    }
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_passed_over() {
    check(r#"{"jsonrpc":"2.0","id":99,"result":{"id":1,"outcome":"allow"}}"#, Value::Null).await;
    check(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#, Value::Null).await;
    check(r#"{"jsonrpc":"2.0","id":0,"result":null,"error":null}"#, Value::Null).await;
}

#[tokio::test]
async fn an_answer_whose_undefined_result_was_dropped_is_null() {
    let mut agent = Setup::answers(json!([[{ "text": "a" }, { "text": "b" }]])).start();
    let id = agent.prompt("go").await;
    assert_eq!(id, 0, "what an error for the first call's id would be taken to answer");
    for _ in 0..2 {
        let chunk = agent.call_of("streamAssistantMessageChunk").await;
        agent.send_line(&json!({ "jsonrpc": "2.0", "id": chunk["id"] }).to_string()).await;
    }
    let expected = json!({ "jsonrpc": "2.0", "id": 0, "result": null });
    assert_eq!(agent.message().await, expected);
    agent.send_line(r#"{"jsonrpc":"2.0","id":2}"#).await;
    assert_eq!(agent.message().await["error"]["code"], -32600, "no call of ours had that id");
    is_alive(&mut agent).await;
}

#[tokio::test]
async fn extra_fields_are_passed_over() {
    let mut agent = Setup::answers(json!([[{ "text": "ok" }]])).start();
    agent
        .send_line(
            r#"{"id":1,"type":"x","method":"sendUserMessage","extra":[1],"params":{"chunks":[{"type":"text","text":"hi"}],"more":{}}}"#,
        )
        .await;
    assert_eq!(agent.answer_to(1).await["result"], Value::Null);
}

#[tokio::test]
async fn a_request_without_an_id_is_carried_out_and_not_answered() {
    let mut agent = Setup::answers(json!([[{ "text": "carried out" }]])).start();
    agent.send_line(r#"{"method":"initialize","params":{}}"#).await;
    agent.send_line(r#"{"method":"sendUserMessage","params":{"chunks":[{"text":"hi"}]}}"#).await;
    let chunk = agent.message().await;
    assert_eq!(chunk["params"]["chunk"]["text"], "carried out");
    is_alive(&mut agent).await;
}

/// Uses texts that JSON parsers have failed at, as in the JSON parsing test suite. Texts that are JSON are answered
/// as requests or refused as such; no text is answered wrongly.
#[tokio::test]
async fn what_parsers_stumble_over_neither_kills_nor_confuses() {
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let mut values: Vec<Vec<u8>> = [
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,,2]",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\"}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1,\"a\":2}",
        "{\"\":0}",
        "{\"\\u0000\":0}",
        "[-]",
        "[+1]",
        "[01]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[1e+]",
        "[0x1]",
        "[NaN]",
        "[Infinity]",
        "[-Infinity]",
        "[1e400]",
        "[-1e-400]",
        "[123456789012345678901234567890]",
        "[1.0000000000000000000000001]",
        "[\"\\u00A\"]",
        "[\"\\uD800\"]",
        "[\"\\uDC00\\uD800\"]",
        "[\"\\uD83D\\uDE00\"]",
        "[\"\\x\"]",
        "[\"\\a\"]",
        "[\"\\\"]",
        "[\"tab\there\"]",
        "[\"unterminated]",
        "[tru]",
        "[True]",
        "[nul]",
        "[1]x",
        "{}}",
        "]",
        "[",
        "{",
        "\"",
        "/**/1",
        "[1]//x",
        "\u{a0}1",
        "[\u{2028}]",
        "\\u005B1]",
        "[\"\u{10ffff}\u{feff}\"]",
        "0e1",
        "-0",
        "1E22",
        "\"\\/\"",
        "[[]",
        "[{]",
        "{\"a\":[}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    values.push(deep("[", "]").into_bytes());
    values.push(deep("{\"a\":", "}").into_bytes());
    values.push("[".repeat(100_000).into_bytes());
    values.push(b"[\"\xc3\x28\"]".to_vec());
    values.push(b"[\"\xed\xa0\x80\"]".to_vec());
    values.push(b"[\"\xf8\x88\x80\x80\x80\"]".to_vec());
    values.push(b"\xff\xfe[\x00]\x00".to_vec());
    values.push(b"[\"nul\0byte\"]".to_vec());
    values.push(b"\0".to_vec());

    let mut agent = Setup::answers(json!([[{ "text": "ok" }]])).start();
    for value in values {
        let shown = String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
        agent.send_bytes(&value).await;
        agent.send_bytes(b"\n").await;
        let answer = agent.message().await;
        assert_eq!(answer["id"], Value::Null, "{shown}");
        let code = answer["error"]["code"].as_i64().unwrap();
        assert!([-32700, -32600].contains(&code), "{shown}: {answer}");

        // The same bytes come as the parameters of a request, and are refused there, too.
        agent.send_bytes(b"{\"id\":1,\"method\":\"sendUserMessage\",\"params\":").await;
        agent.send_bytes(&value).await;
        agent.send_bytes(b"}\n").await;
        let answer = agent.message().await;
        let code = answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{shown}: {answer}"));
        let refused = answer["id"].is_null() && [-32700, -32600].contains(&code);
        assert!(refused || (answer["id"] == 1 && code == -32602), "{shown}: {answer}");
    }
    is_alive(&mut agent).await;
}

#[tokio::test]
async fn lone_surrogates_and_huge_numbers_in_ids_come_back_as_they_are() {
    let mut agent = Setup::default().start();
    for id in [r#""\ud800""#, "1e400", "123456789012345678901234567890", r#"{"a":[1,2.50]}"#, "-0"]
    {
        agent.send_line(&format!(r#"{{"id":{id},"method":"initialize"}}"#)).await;
        let line = agent.line().await.unwrap();
        assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)), "{line}");
    }
}

#[tokio::test]
async fn blank_lines_and_carriage_returns_are_nothing() {
    let mut agent = Setup::default().start();
    agent.send_bytes(b"\n   \n\t\r\n{\"id\":1,\"method\":\"initialize\"}\r\n\n").await;
    assert_eq!(agent.message().await["id"], 1);
    is_alive(&mut agent).await;
}

#[tokio::test]
async fn the_last_line_needs_no_line_end() {
    let mut agent = Setup::default().start();
    agent.send_bytes(br#"{"id":1,"method":"initialize"}"#).await;
    let (rest, status) = agent.hang_up().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(status.success());
}

#[tokio::test]
async fn a_line_over_the_limit_is_skipped_and_the_limit_is_named() {
    let mut agent = Setup::default().arg("--limit").arg("line-bytes=1000").start();
    agent.send_line(&"x".repeat(2000)).await;
    let answer = agent.message().await;
    assert_eq!(answer["error"]["code"], -32600);
    expect!["a line of more than 1000 bytes was skipped"]
        .assert_eq(answer["error"]["data"]["details"].as_str().unwrap());
    is_alive(&mut agent).await;
}

#[tokio::test]
async fn a_gibibyte_without_a_line_end_costs_bounded_memory() {
    let mut agent = Setup::default().start();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        agent.send_bytes(&piece).await;
    }
    agent.send_bytes(b"\n").await;
    assert_eq!(agent.message().await["error"]["code"], -32600);
    is_alive(&mut agent).await;
    let peak = memory(&agent, "VmHWM");
    assert!(peak < 160 << 10, "{peak} KiB at the most");
    let now = memory(&agent, "VmRSS");
    assert!(now < 80 << 10, "{now} KiB afterwards");
}

/// Returns a field of the agent's memory, in KiB.
pub(crate) fn memory(agent: &Agent, field: &str) -> u64 {
    let status = format!("/proc/{}/status", agent.child.id().unwrap());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_editor_that_stops_reading_costs_bounded_memory_and_loses_nothing() {
    // Each line has a number, because equal lines would be stopped as a loop.
    let text = format!("{{n}}{}\n", "x".repeat(93));
    let setup = Setup::answers(json!([[{ "repeat": { "text": text, "times": 200_000 } }]]));
    let mut agent = setup.start();
    let id = agent.prompt("go").await;
    // The editor reads nothing while the whole answer comes. A request is answered nevertheless.
    let asked = agent.request("initialize", json!({})).await;
    let mut length = 0;
    let mut answered = false;
    loop {
        let message = agent.message().await;
        length += message["params"]["chunk"]["text"].as_str().map_or(0, str::len);
        answered |= message["id"] == asked && message.get("result").is_some();
        if message["id"] == id && message.get("method").is_none() {
            break;
        }
    }
    let numbers: usize = (0..200_000).map(|n: u32| n.to_string().len()).sum();
    assert_eq!(length, numbers + 200_000 * 94);
    assert!(answered);
}

/// Runs the agent with this on standard input, and returns the exit code, standard output and
/// standard error.
async fn piped(setup: Setup, input: &str) -> (Option<i32>, String, String) {
    let home = TempDir::new().unwrap();
    let mut child = setup.command(home.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = timeout(HANG, child.wait_with_output()).await.expect("it does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_prompt_that_is_piped_in_is_no_conversation() {
    let mut told = Vec::new();
    for input in ["why\n", "\n \nwhy does it fail?", "\u{feff}why", "Content-Length: 5\r\n\r\n{}"] {
        let (code, answers, said) = piped(Setup::default(), input).await;
        assert_eq!((code, &*answers), (Some(42), ""), "{input}");
        told.push(said);
    }
    told.dedup();
    expect![[r#"
        tandem: standard input is text, and not the messages of an editor; to run a prompt, use `tandem -p PROMPT` (what comes on standard input is put before it)
    "#]].assert_eq(&told.concat());
}

#[tokio::test]
async fn text_is_answered_where_the_protocol_is_asked_for_or_was_spoken() {
    let (code, answers, said) = piped(Setup::default().arg("--acp"), "why\n").await;
    assert_eq!((code, &*said), (Some(0), ""));
    let answer: Value = serde_json::from_str(&answers).unwrap();
    assert_eq!(answer["error"]["code"], -32700);
    let (code, answers, _) = piped(Setup::default(), "{\nwhy\n").await;
    assert_eq!(code, Some(0));
    assert_eq!(answers.matches("-32700").count(), 2, "{answers}");
}

#[tokio::test]
async fn a_mention_of_nothing_is_not_the_whole_workspace() {
    let mut agent = Setup::answers(json!([[{ "text": "said" }]])).file("a.txt", "a").start();
    let chunks = json!({ "chunks": [{ "text": "see " }, { "path": "" }] });
    let id = agent.request("sendUserMessage", chunks).await;
    let error = &agent.answer_to(id).await["error"];
    assert_eq!(error["code"], -32602);
    expect!["`chunks[1].path`: it is empty"].assert_eq(error["data"]["details"].as_str().unwrap());
}
