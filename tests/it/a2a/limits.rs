//! Limits on bodies, frames, connections and nesting; odd ids and bytes.

use expect_test::expect;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::http::Response;
use super::server::{Client, prompt, serve, shared, write};
use crate::agent::{HANG, Setup};

fn says_hi() -> Setup {
    Setup::answers(json!([[{ "text": "hi" }]]))
}

async fn body(client: Client, body: &[u8]) -> Response {
    client.send("POST /", &[], body).await
}

/// Sends a wrong body; returns the error code and the id of the answer.
async fn wrong(client: Client, text: &[u8]) -> (i64, Value) {
    let response = body(client, text).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let response = response.json();
    (response["error"]["code"].as_i64().unwrap_or_default(), response["id"].clone())
}

#[tokio::test]
async fn a_body_of_five_mebibytes_is_too_large() {
    let it = serve(&says_hi()).await;
    let sent = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": prompt(&"x".repeat(5 << 20)) });
    assert_eq!(body(it.client, sent.to_string().as_bytes()).await.status, 413);
    let sent = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": prompt(&"x".repeat(3 << 20)) });
    assert_eq!(body(it.client, sent.to_string().as_bytes()).await.status, 200);
}

#[tokio::test]
async fn a_body_in_chunks_is_counted_too() {
    let it = serve(&says_hi().arg("--limit").arg("a2a-body-bytes=1000")).await;
    let host = format!("Host: 127.0.0.1:{}", it.client.port);
    let headers = [&host, "Content-Type: application/json", "Transfer-Encoding: chunked"];
    let chunk = format!("1f4\r\n{}\r\n", " ".repeat(500));
    let mut whole = format!("POST / HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
    whole += &chunk.repeat(3);
    let begun = super::http::raw(it.client.port, whole.as_bytes()).await.unwrap();
    assert_eq!(begun.status, 413);
}

#[tokio::test]
async fn a_frame_of_five_mebibytes_is_too_large_and_a_binary_one_is_no_frame() {
    let it = shared(&says_hi()).await;
    let mut socket = it.client.socket().await;
    socket.send_text(&"x".repeat(5 << 20)).await;
    assert_eq!(socket.frame().await, Err(1009));
    let mut socket = it.client.socket().await;
    // The server does not read all of this frame, so sending it may fail.
    let huge = tokio_tungstenite::tungstenite::Message::text("x".repeat(20 << 20));
    let _ = futures::SinkExt::send(&mut socket.stream, huge).await;
    assert!(matches!(socket.frame().await, Err(1009 | 0)));
    let mut socket = it.client.socket().await;
    let binary = tokio_tungstenite::tungstenite::Message::binary(b"{}".to_vec());
    futures::SinkExt::send(&mut socket.stream, binary).await.unwrap();
    assert_eq!(socket.frame().await, Err(1003));
}

/// Waits until there is room for one more connection.
async fn until_there_is_room(client: Client) {
    let room = async { while client.get("/listCommands").await.status != 200 {} };
    timeout(HANG, room).await.expect("there is no room");
}

#[tokio::test]
async fn one_connection_too_many_is_refused_and_the_others_are_served() {
    let it = serve(&says_hi().arg("--limit").arg("a2a-connections=64")).await;
    let mut sockets = Vec::new();
    for _ in 0..64 {
        sockets.push(it.client.socket().await);
    }
    let refused = it.client.get("/listCommands").await;
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").parse::<u64>().is_ok(), "{:?}", refused.headers);
    assert_eq!(refused.header("connection"), "close");
    expect![[r#"
        there are 64 connections already
    "#]]
    .assert_eq(&refused.text());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": prompt(&"x".repeat(100_000)) });
    assert_eq!(it.client.post("/", &call).await.status, 503, "with a body too");
    // Connections that were open before the limit was reached are still served.
    let response = sockets[0].call(1, "commands/get", json!({})).await;
    assert!(response["result"]["commands"].is_array());
    sockets.pop();
    until_there_is_room(it.client).await;
}

#[tokio::test]
async fn many_that_say_nothing_are_closed_too() {
    let it = serve(&says_hi().arg("--limit").arg("a2a-connections=1")).await;
    let mut socket = it.client.socket().await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(("127.0.0.1", it.client.port)).await.unwrap());
    }
    for stream in &mut silent {
        let mut said = Vec::new();
        // The server may or may not have told the reason. In both cases it has closed the connection.
        let _ = timeout(HANG, stream.read_to_end(&mut said)).await.expect("it is kept open");
    }
    let response = socket.call(1, "commands/get", json!({})).await;
    assert!(response["result"]["commands"].is_array());
}

#[tokio::test]
async fn who_has_not_shown_a_token_gives_way_to_those_who_come() {
    let setup = says_hi().file("token.txt", "t0ken").arg("--a2a-token-file").arg("token.txt");
    let it = serve(&setup.arg("--limit").arg("a2a-connections=3")).await;
    let mut socket = it.client.socket_at("/ws?token=t0ken").await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(("127.0.0.1", it.client.port)).await.unwrap());
    }
    let wrong = it.client.send("GET /listCommands", &["Authorization: Bearer wrong"], b"").await;
    assert_eq!(wrong.status, 401);
    let right = it.client.send("GET /listCommands", &["Authorization: Bearer t0ken"], b"").await;
    assert_eq!(right.status, 200, "{}", right.text());
    for stream in &mut silent[..38] {
        // A reset of the connection counts as an end.
        let ended = timeout(HANG, stream.read(&mut [0; 64])).await.expect("it is kept open");
        assert_eq!(ended.unwrap_or(0), 0);
    }
    let response = socket.call(1, "commands/get", json!({})).await;
    assert!(response["result"]["commands"].is_array(), "who is known stays");
}

/// Checks that a WebSocket that neither reads nor answers is closed, and that its place becomes free.
async fn check_half_open(path: &str) {
    let limits = ["a2a-connections=2", "a2a-ping-seconds=1", "a2a-pong-seconds=1"];
    let setup = limits.iter().fold(says_hi(), |setup, limit| setup.arg("--limit").arg(limit));
    let it = serve(&setup).await;
    let mut alive = it.client.socket().await;
    let mut half_open = it.client.socket_at(path).await;
    assert_eq!(it.client.get("/listCommands").await.status, 503, "no room is left");
    // The test reads from the socket below the WebSocket library, which would answer pings.
    let stream = half_open.stream.get_mut();
    let mut said = Vec::new();
    let gone = timeout(HANG, stream.read_to_end(&mut said));
    let answers = async {
        loop {
            let _ = futures::StreamExt::next(&mut alive.stream).await;
        }
    };
    tokio::select! {
        gone = gone => drop(gone.expect("it is kept")),
        () = answers => {}
    }
    assert_eq!(said.first(), Some(&0x89), "it was asked for a sign of life: {said:?}");
    let response = alive.call(1, "commands/get", json!({})).await;
    assert!(response["result"]["commands"].is_array(), "who answers is kept");
    until_there_is_room(it.client).await;
}

#[tokio::test]
async fn a_half_open_websocket_is_found_and_its_place_is_free_again() {
    check_half_open("/ws").await;
}

#[tokio::test]
async fn a_half_open_terminal_is_found_too() {
    check_half_open("/attach").await;
}

#[tokio::test]
async fn too_many_calls_of_one_socket_are_refused() {
    let it = shared(&Setup::answers(json!([[{ "hang": null }]]))).await;
    let mut socket = it.client.socket().await;
    for n in 0..65 {
        socket.send(n, "message/send", prompt("go")).await;
    }
    let refused = socket.until(|frame| frame.get("error").is_some()).await.pop().unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(64), &json!(-32603)));
}

#[tokio::test]
async fn an_id_comes_back_as_it_was_sent() {
    let it = serve(&says_hi()).await;
    let mut socket = it.client.socket().await;
    for id in [
        r#""quote \" backslash \\ newline \n tab \t""#,
        r#""\u0000\u001f\ud83d\ude00 é 漢字""#,
        r#""{\"id\":1},\"result\":2""#,
        r#""data: x\n\nevent: error""#,
        r#""""#,
        "0",
        "-1",
        "9007199254740993",
        "123456789012345678901234567890",
        "1.50",
        "1e3",
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/get","params":{{}}}}"#);
        let response = body(it.client, text.as_bytes()).await.text();
        assert!(
            response.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error""#)),
            "{response}"
        );
        // An id in a stream must not contain a line end: it would end the event's line.
        let text = text.replace("tasks/get", "message/stream");
        let response = body(it.client, text.as_bytes()).await.text();
        let data = response.strip_prefix("event: error\n").unwrap();
        let expected = format!(r#"data: {{"jsonrpc":"2.0","id":{id},"error""#);
        assert!(data.starts_with(&expected), "{response}");
        assert_eq!(response.lines().count(), 3, "{response}");
        socket.send_text(&text.replace("message/stream", "tasks/get")).await;
        let frame = socket.frame().await.unwrap();
        let expected: Value = serde_json::from_str(id).unwrap();
        assert_eq!(frame["id"], expected);
    }
}

#[tokio::test]
async fn an_id_that_is_none_is_refused() {
    let it = serve(&says_hi()).await;
    for id in ["{}", "[]", "[1]", "true", "false"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"commands/get"}}"#);
        assert_eq!(wrong(it.client, text.as_bytes()).await, (-32600, Value::Null), "{id}");
    }
}

#[tokio::test]
async fn deep_nesting_is_no_crash() {
    let it = shared(&says_hi()).await;
    let (open, close) = ("[".repeat(200_000), "]".repeat(200_000));
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{{"x":{open}{close}}}}}"#
    );
    let (code, _) = wrong(it.client, deep.as_bytes()).await;
    assert!([-32700, -32600, -32602].contains(&code), "{code}");
    let open = "{\"a\":".repeat(100_000);
    let (code, id) = wrong(it.client, open.as_bytes()).await;
    assert_eq!((code, id), (-32700, Value::Null));
    let mut socket = it.client.socket().await;
    socket.send_text(&deep).await;
    assert_eq!(socket.frame().await.unwrap()["error"]["code"], -32700);
    let bare = format!(r#"{{"userMessage":{}}}"#, "[".repeat(100_000));
    let response = it.client.send("POST /message/stream", &[], bare.as_bytes()).await;
    assert_eq!(response.frames()[0]["error"]["code"], -32700);
    assert_eq!(it.client.get("/listCommands").await.status, 200);
}

#[tokio::test]
async fn invalid_utf_8_is_a_parse_error() {
    let it = serve(&says_hi()).await;
    let text =
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/get\",\"params\":{\"id\":\"\xff\xfe\"}}";
    assert_eq!(wrong(it.client, text).await.0, -32700);
    assert_eq!(wrong(it.client, b"\xff").await, (-32700, Value::Null));
    let lone = br#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"\ud800"}}"#;
    let (code, _) = wrong(it.client, lone).await;
    assert!([-32700, -32602].contains(&code), "{code}");
    let response = it.client.send("POST /tasks", &[], b"\xff").await;
    assert_eq!(response.status, 400);
}

#[tokio::test]
async fn of_two_fields_of_one_name_no_reader_takes_another_than_the_next() {
    let it = serve(&says_hi()).await;
    let both = [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"commands/get"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"commands/get","method":"none"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"1.0","id":1,"method":"commands/get"}"#,
    ];
    for text in both {
        let (code, _) = wrong(it.client, text.as_bytes()).await;
        assert!([-32700, -32600].contains(&code), "{text}: {code}");
    }
    // Of two equal keys in the parameters, the last one counts.
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"a","id":"b"}}"#;
    let response = body(it.client, text.as_bytes()).await.json();
    assert_eq!(response["error"]["message"], "Task not found: b");
}

#[tokio::test]
async fn a_socket_has_only_so_many_streams() {
    let it = serve(&Setup::answers(json!([[write("a.txt", "new\n")]]))).await;
    let task = it.client.result("message/send", prompt("go")).await["id"].clone();
    let mut socket = it.client.socket().await;
    let mut refused = 0;
    for n in 0..70 {
        let answer = socket.call(n, "tasks/resubscribe", json!({ "id": task })).await;
        refused += usize::from(answer["error"]["code"] == -32603);
    }
    assert_eq!(refused, 70 - 64);
    socket.call("stop", "cancelStream", json!({ "id": 0 })).await;
    let answer = socket.call(70, "tasks/resubscribe", json!({ "id": task })).await;
    assert!(answer["error"].is_null(), "{answer}");
}

#[tokio::test]
async fn the_id_of_a_call_is_short() {
    let it = serve(&says_hi()).await;
    for (length, expected) in [(1000, 0), (1001, -32600)] {
        let id = format!("\"{}\"", "x".repeat(length - 2));
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"commands/get"}}"#);
        let (code, answered) = wrong(it.client, text.as_bytes()).await;
        assert_eq!((code, answered.is_null()), (expected, expected != 0));
    }
}
