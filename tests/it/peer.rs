//! A peer that does not read what it is sent.

use std::time::Duration;

use serde_json::{Value, json};
use tandem_wire::jsonrpc::Params;
use tandem_wire::rpc::{self, Handler, Options, Peer, Responder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Says which methods were called, and answers with a megabyte.
struct Megabytes(mpsc::UnboundedSender<String>);

impl Handler for Megabytes {
    fn request(&self, method: &str, _: Params<'_>, responder: Responder) {
        self.0.send(method.to_owned()).unwrap();
        responder.send(Ok("x".repeat(1 << 20)));
    }
}

/// A connection, and the other end of it.
struct Connection {
    /// What the peer sends into.
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
    let input_ended = CancellationToken::new();
    let options = Options { max_line: 1 << 20, tap: None, input_ended, refuse_text: false };
    let served = rpc::serve(theirs, ours, options, move |peer| {
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
    assert_eq!(connection.calls.recv().await.unwrap(), "first");
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
    assert!(why.to_string().contains("reads nothing"), "{why}");
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
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        match connection.output.read(&mut buffer).await.unwrap() {
            0 => break,
            n => read += n,
        }
    }
    assert!(read > 20 << 20, "{read}");
    connection.served.await.unwrap().unwrap();
}
