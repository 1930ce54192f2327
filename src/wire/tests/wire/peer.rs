//! A JSON-RPC connection: peers that do not read, notifications, and cancellation.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, CallError, ConnectionOptions, Handler, Peer, Responder};
use test_support::limit::in_time;
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines,
    duplex,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A handler that reports each called method, and answers with a megabyte.
struct Megabytes(mpsc::UnboundedSender<String>);

impl Handler for Megabytes {
    fn request(&self, method: &str, _: Params<'_>, responder: Responder) {
        self.0.send(method.to_owned()).unwrap();
        responder.send(Ok("x".repeat(1 << 20)));
    }
}

/// A connection, and its other end.
struct Connection {
    /// The end that the peer writes to.
    input: DuplexStream,
    output: DuplexStream,
    calls: mpsc::UnboundedReceiver<String>,
    peer: Peer,
    served: JoinHandle<anyhow::Result<()>>,
}

async fn connect() -> Connection {
    let ((input, theirs), (output, ours)) = (duplex(1 << 20), duplex(4096));
    let (sender, calls) = mpsc::unbounded_channel();
    let (tell, told) = tokio::sync::oneshot::channel();
    let served = rpc::serve(theirs, ours, ConnectionOptions::new(1 << 20), move |peer| {
        drop(tell.send(peer));
        Megabytes(sender)
    });
    let served = tokio::spawn(served);
    Connection { input, output, calls, peer: told.await.unwrap(), served }
}

#[tokio::test(start_paused = true)]
async fn what_we_have_to_say_does_not_keep_us_from_listening() {
    let mut connection = connect().await;
    let answer = connection.peer.call::<Value>("question", &json!({ "x": "x".repeat(20 << 20) }));
    connection.input.write_all(b"{\"id\":1,\"method\":\"first\"}\n").await.unwrap();
    assert_eq!(in_time(connection.calls.recv()).await.expect("no call comes").unwrap(), "first");
    connection.input.write_all(b"{\"id\":0,\"result\":5}\n").await.unwrap();
    assert_eq!(answer.await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_and_never_reads_is_hung_up_on() {
    let mut connection = connect().await;
    for _ in 0..20 {
        connection.input.write_all(b"{\"id\":1,\"method\":\"more\"}\n").await.unwrap();
    }
    let served = tokio::time::timeout(Duration::from_secs(100), connection.served).await;
    let why = served.expect("it waits for ever").unwrap().unwrap_err();
    expect!["the peer sends and reads nothing: the connection is closed"]
        .assert_eq(&why.to_string());
    let mut asked = 0;
    while connection.calls.recv().await.is_some() {
        asked += 1;
    }
    assert_eq!(asked, 8, "of 20, a megabyte each");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_slowly_loses_nothing() {
    let mut connection = connect().await;
    for _ in 0..20 {
        connection.input.write_all(b"{\"id\":1,\"method\":\"more\"}\n").await.unwrap();
    }
    connection.input.shutdown().await.unwrap();
    let mut buffer = vec![0; 2 << 20];
    let mut read = 0;
    let reading = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            match connection.output.read(&mut buffer).await.unwrap() {
                0 => break,
                n => read += n,
            }
        }
    };
    in_time(reading).await.expect("there is no end");
    assert!(read > 20 << 20, "{read}");
    connection.served.await.unwrap().unwrap();
}

/// A handler that answers each method in another way. `finish` ends the work of all methods that still run.
#[derive(Default)]
struct Worker {
    finish: CancellationToken,
}

impl Handler for Worker {
    fn request(&self, method: &str, _: Params<'_>, responder: Responder) {
        let finish = self.finish.clone();
        match method {
            "finish" => finish.cancel(),
            "work" => {
                tokio::spawn(responder.send_output(async move {
                    finish.cancelled().await;
                    Ok("whole")
                }));
            }
            "partial" => {
                tokio::spawn(async move {
                    responder.cancellation().cancelled().await;
                    responder.send(Ok("half"));
                });
            }
            "forget" => {
                tokio::spawn(async move {
                    responder.cancellation().cancelled().await;
                    drop(responder);
                });
            }
            "missing" => {
                let data = json!({ "uri": "file:///x", "tried": [1, null] });
                responder.send(Err::<(), _>(Error::new(-32002, "None").with(data)));
            }
            _ => responder.send(Err::<(), _>(Error::method_not_found(method))),
        }
    }
}

/// Checks all answers to these lines, on a connection with or without cancellation.
async fn check_answers(cancellation: bool, lines: &[&str], expected: &[&str]) {
    let ((mut input, theirs), (mut output, ours)) = (duplex(1 << 20), duplex(1 << 20));
    for line in lines {
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    drop(input);
    let options = ConnectionOptions { cancellation, ..ConnectionOptions::new(1 << 20) };
    rpc::serve(theirs, ours, options, |_| Worker::default()).await.unwrap();
    let mut answers = String::new();
    output.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.lines().collect::<Vec<_>>(), expected, "{lines:?}");
}

const CANCEL_1: &str = r#"{"method":"$/cancel_request","params":{"requestId":1}}"#;
const CANCELLED_1: &str =
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;

#[tokio::test]
async fn a_cancelled_request_is_answered_once() {
    let work = r#"{"id":1,"method":"work"}"#;
    check_answers(true, &[work, CANCEL_1], &[CANCELLED_1]).await;
    check_answers(true, &[work, CANCEL_1, CANCEL_1], &[CANCELLED_1]).await;
    check_answers(true, &[r#"{"id":1,"method":"forget"}"#, CANCEL_1], &[CANCELLED_1]).await;
    let half = r#"{"jsonrpc":"2.0","id":1,"result":"half"}"#;
    check_answers(true, &[r#"{"id":1,"method":"partial"}"#, CANCEL_1], &[half]).await;
}

#[tokio::test]
async fn a_cancellation_is_of_one_open_request() {
    let whole = r#"{"jsonrpc":"2.0","id":"1","result":"whole"}"#;
    let (work, finish) = (r#"{"id":"1","method":"work"}"#, r#"{"method":"finish"}"#);
    check_answers(true, &[work, CANCEL_1, finish], &[whole]).await;
    let nobody = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found","data":{"details":"there is no method `x`"}}}"#;
    check_answers(true, &[r#"{"id":1,"method":"x"}"#, CANCEL_1], &[nobody]).await;
    check_answers(true, &[CANCEL_1, r#"{"id":1,"method":"x"}"#], &[nobody]).await;
}

#[tokio::test]
async fn a_cancellation_that_cannot_be_read_is_passed_over() {
    let whole = r#"{"jsonrpc":"2.0","id":1,"result":"whole"}"#;
    let (work, finish) = (r#"{"id":1,"method":"work"}"#, r#"{"method":"finish"}"#);
    for params in ["null", "1", "[1]", "{}", r#"{"requestid":1}"#] {
        let cancel = format!(r#"{{"method":"$/cancel_request","params":{params}}}"#);
        check_answers(true, &[work, &cancel, finish], &[whole]).await;
    }
}

#[tokio::test]
async fn a_protocol_without_cancellation_has_no_such_method() {
    let whole = r#"{"jsonrpc":"2.0","id":1,"result":"whole"}"#;
    let (work, finish) = (r#"{"id":1,"method":"work"}"#, r#"{"method":"finish"}"#);
    check_answers(false, &[work, CANCEL_1, finish], &[whole]).await;
}

#[tokio::test]
async fn an_errors_data_has_any_shape() {
    let missing = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"None","data":{"uri":"file:///x","tried":[1,null]}}}"#;
    check_answers(true, &[r#"{"id":1,"method":"missing"}"#], &[missing]).await;
}

/// The peer's side of a connection.
struct Other {
    input: DuplexStream,
    lines: Lines<BufReader<DuplexStream>>,
    peer: Peer,
    served: JoinHandle<anyhow::Result<()>>,
}

impl Other {
    async fn connect(cancellation: bool) -> Self {
        let ((input, theirs), (output, ours)) = (duplex(1 << 20), duplex(1 << 20));
        let (tell, told) = tokio::sync::oneshot::channel();
        let options = ConnectionOptions { cancellation, ..ConnectionOptions::new(1 << 20) };
        let served = tokio::spawn(rpc::serve(theirs, ours, options, move |peer| {
            drop(tell.send(peer));
            Worker::default()
        }));
        let lines = BufReader::new(output).lines();
        Self { input, lines, peer: told.await.unwrap(), served }
    }

    async fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Checks the next lines, up to a notification that this function sends.
    async fn check_lines(&mut self, expected: &[&str]) {
        self.peer.notify("end", &json!({}));
        let mut lines = Vec::new();
        loop {
            let line = in_time(self.lines.next_line()).await.expect("no line comes");
            let line = line.unwrap().unwrap();
            if line == r#"{"jsonrpc":"2.0","method":"end","params":{}}"# {
                break;
            }
            lines.push(line);
        }
        assert_eq!(lines, expected);
    }
}

const SLOW_0: &str = r#"{"jsonrpc":"2.0","id":0,"method":"slow","params":[]}"#;
const CANCEL_0: &str = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#;

#[tokio::test]
async fn a_notification_has_no_id_and_keeps_its_place() {
    let mut other = Other::connect(false).await;
    other.peer.send("slow", &json!([]));
    other.peer.notify("session/update", &json!({ "a": "ä" }));
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"a":"ä"}}"#;
    other.check_lines(&[SLOW_0, update]).await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_its_late_answer_ignored() {
    let late = [
        r#"{"id":0,"result":1}"#,
        r#"{"id":0,"error":{"code":-32800,"message":"cancelled"}}"#,
        r#"{"id":0}"#,
    ];
    for late in late {
        let mut other = Other::connect(true).await;
        drop(other.peer.call::<Value>("slow", &json!([])));
        other.check_lines(&[SLOW_0, CANCEL_0]).await;
        other.send(late).await;
        let next = other.peer.call::<Value>("next", &json!([]));
        other.send(r#"{"id":1,"result":5}"#).await;
        assert_eq!(next.await.unwrap(), 5, "{late}");
        let next = r#"{"jsonrpc":"2.0","id":1,"method":"next","params":[]}"#;
        other.check_lines(&[next]).await;
    }
}

#[tokio::test]
async fn a_call_dropped_while_it_waits_is_cancelled() {
    let mut other = Other::connect(true).await;
    let call = other.peer.call::<Value>("slow", &json!([]));
    let waiting = tokio::spawn(call);
    other.check_lines(&[SLOW_0]).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    other.check_lines(&[CANCEL_0]).await;
}

#[tokio::test]
async fn an_answered_call_is_not_cancelled() {
    let mut other = Other::connect(true).await;
    let unread = other.peer.call::<Value>("slow", &json!([]));
    let read = other.peer.call::<Value>("slow", &json!([]));
    other.send(r#"{"id":0,"result":1}"#).await;
    other.send(r#"{"id":1,"error":{"code":5,"message":"no","data":[1]}}"#).await;
    let Err(CallError::Refused(error)) = read.await else { panic!("it was refused") };
    assert_eq!(error.data.as_deref(), Some(&json!([1])));
    drop(unread);
    other.check_lines(&[SLOW_0, &SLOW_0.replace('0', "1").replace("2.1", "2.0")]).await;
}

#[tokio::test]
async fn a_protocol_without_cancellation_is_not_sent_any() {
    let mut other = Other::connect(false).await;
    drop(other.peer.call::<Value>("slow", &json!([])));
    other.check_lines(&[SLOW_0]).await;
}

#[tokio::test]
async fn a_call_that_outlives_its_connection_is_not_cancelled() {
    let mut other = Other::connect(true).await;
    let call = other.peer.call::<Value>("slow", &json!([]));
    other.check_lines(&[SLOW_0]).await;
    drop(other.input);
    other.served.await.unwrap().unwrap();
    assert!(matches!(call.await, Err(CallError::Gone)));
    drop(other.peer);
    assert_eq!(in_time(other.lines.next_line()).await.expect("there is no end").unwrap(), None);
}
