//! Limits of the proxy, and input that is no request.

use std::time::Duration;

use tandem_host::network::{Admission, NetworkSetup, ProxyLimits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::*;

/// Returns a stage whose proxy has the given limits.
fn limited(server: u16, limits: ProxyLimits) -> Stage {
    let change = |setup| NetworkSetup { limits, ..setup };
    Stage::with(server, &["127.0.0.1"], admitted(), change)
}

#[tokio::test]
async fn what_is_no_request_is_answered_with_400() {
    let stage = Stage::new(echo().await, admitted());
    for bad in [
        &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        b"CONNECT a HTTP/1.1\r\n\r\n",
        b"CONNECT user@a:443 HTTP/1.1\r\n\r\n",
        b"GET https://a/ HTTP/1.1\r\n\r\n",
        b"\x05\x01\x00\r\n\r\n",
        b"\x16\x03\x01\x00\xff\xfe\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n",
    ] {
        let answer = stage.send(bad).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{bad:?}: {answer}");
    }
    assert_eq!(stage.asked(), []);
}

#[tokio::test]
async fn a_head_without_an_end_is_given_up_when_it_is_too_long() {
    let limits = ProxyLimits { head_bytes: 1000, ..ProxyLimits::default() };
    let stage = limited(echo().await, limits);
    let endless = [b"GET http://a/ HTTP/1.1\r\nA: ".to_vec(), vec![b'x'; 100_000]].concat();
    let answer = stage.send(&endless).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn half_a_head_is_given_up_in_time() {
    let limits = ProxyLimits { head_time: Duration::from_millis(20), ..ProxyLimits::default() };
    let stage = limited(echo().await, limits);
    let answer = stage.send(b"CONNECT good.te").await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    // A client that disconnects gets no answer, and the next client is still served.
    drop(stage.connection().await);
    assert!(stage.send(b"GET").await.starts_with("HTTP/1.1 408 "));
}

#[tokio::test]
async fn a_silent_tunnel_is_closed() {
    let limits = ProxyLimits { idle: Duration::from_millis(20), ..ProxyLimits::default() };
    let server = echo().await;
    let stage = limited(server, limits);
    let answer = stage.send(format!("CONNECT a:{server} HTTP/1.1\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn many_connections_wait_for_each_other() {
    let server = echo().await;
    let limits = ProxyLimits { connections: 2, ..ProxyLimits::default() };
    let stage = limited(server, limits);
    let request = format!("GET http://a:{server}/ HTTP/1.1\r\n\r\n");
    let all = (0..50).map(|_| stage.send(request.as_bytes()));
    for answer in futures::future::join_all(all).await {
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

#[tokio::test]
async fn a_command_can_ask_for_so_many_hosts() {
    let server = echo().await;
    let limits = ProxyLimits { hosts: 2, ..ProxyLimits::default() };
    let stage = limited(server, limits);
    for (host, is_reached) in [("a", true), ("b", true), ("c", false), ("a", true)] {
        let answer = stage.tunnel(&format!("{host}:{server}")).await;
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), is_reached, "{host}: {answer}");
    }
    assert_eq!(stage.asked().len(), 2);
}

#[tokio::test]
async fn connections_to_one_host_wait_for_one_decision_which_outlives_them() {
    let server = echo().await;
    let stage = Stage::new(server, admitted());
    let command = stage.proxy.register();
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let count = Arc::new(Mutex::new(0));
    command.decide_by({
        let (begun, may_end, count) =
            (Arc::clone(&begun), Arc::clone(&may_end), Arc::clone(&count));
        Arc::new(move |_, _| {
            let (begun, may_end) = (Arc::clone(&begun), Arc::clone(&may_end));
            *count.lock().unwrap() += 1;
            async move {
                begun.notify_one();
                may_end.notified().await;
                Admission::Admitted
            }
            .boxed()
        })
    });
    let request = format!("GET http://a:{server}/ HTTP/1.1\r\n\r\n");
    let open = async || {
        let mut stream = TcpStream::connect((command.address(), stage.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    // The first connection has begun the question and is closed. The question goes on, and decides on later
    // connections.
    let first = open().await;
    timeout(HANG, begun.notified()).await.unwrap();
    assert!(command.is_pending());
    drop(first);
    let (mut second, mut third) = (open().await, open().await);
    may_end.notify_one();
    for stream in [&mut second, &mut third] {
        let mut answer = String::new();
        timeout(HANG, stream.read_to_string(&mut answer)).await.expect("it hangs").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(*count.lock().unwrap(), 1);
    assert!(!command.is_pending());
}

#[tokio::test]
async fn what_is_not_decided_now_is_decided_later() {
    let server = echo().await;
    let stage = Stage::new(server, admitted());
    let command = stage.proxy.register();
    let answers = Mutex::new(vec![admitted(), Admission::NotNow("nobody is here".to_owned())]);
    let connect: Connect =
        Arc::new(move |_, _| ready(answers.lock().unwrap().pop().unwrap()).boxed());
    command.decide_by(connect);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect((command.address(), stage.port)).await.unwrap();
        let request = format!("GET http://a:{server}/ HTTP/1.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        answers.push(read(stream).await);
    }
    assert!(answers[0].ends_with("(nobody is here)\n"), "{answers:?}");
    assert!(answers[1].starts_with("HTTP/1.1 200 "), "{answers:?}");
}

#[tokio::test]
async fn the_end_of_the_proxy_ends_its_connections() {
    let server = echo().await;
    let stage = Stage::new(server, admitted());
    let mut stream = stage.connection().await;
    stream.write_all(format!("CONNECT a:{server} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = [0; 12];
    timeout(HANG, stream.read_exact(&mut head)).await.expect("it hangs").unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let Stage { proxy, port, .. } = stage;
    drop(proxy);
    let mut rest = Vec::new();
    let _ = timeout(HANG, stream.read_to_end(&mut rest)).await.expect("it stays open");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err());
}
