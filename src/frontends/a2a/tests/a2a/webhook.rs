//! Push notifications: the addresses that they may go to, and their delivery.

mod names;
mod places;
mod server;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use tandem_a2a::webhook::{Delivery, WebhookLimits};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::NoSubscriber;

use server::{Reply, Server, delivery, hasty, soon, watched, webhooks};

#[tokio::test]
async fn notifications_arrive_in_order_with_their_headers() {
    let mut server = Server::start(Vec::new()).await;
    let webhooks = webhooks(hasty());
    for body in ["a", "b", "c"] {
        webhooks.send(server.delivery("key", body));
    }
    for body in ["a", "b", "c"] {
        let expected = ("/hook?key=secret".to_owned(), "token".to_owned(), body.to_owned());
        assert_eq!(soon(server.got.recv()).await, expected);
    }
}

#[tokio::test]
async fn what_fails_is_tried_again_before_what_follows() {
    for status in [500, 503, 429, 408] {
        let mut server = Server::start(vec![Reply::Status(status), Reply::Status(status)]).await;
        let webhooks = webhooks(hasty());
        webhooks.send(server.delivery("key", "a"));
        webhooks.send(server.delivery("key", "b"));
        server.bodies(&["a", "a", "a", "b"]).await;
    }
}

#[tokio::test]
async fn what_the_server_does_not_want_is_given_up_at_once() {
    for status in [400, 401, 404, 410] {
        let mut server = Server::start(vec![Reply::Status(status)]).await;
        let webhooks = webhooks(hasty());
        webhooks.send(server.delivery("key", "a"));
        webhooks.send(server.delivery("key", "b"));
        server.bodies(&["a", "b"]).await;
    }
}

#[tokio::test]
async fn what_always_fails_is_given_up_in_the_end() {
    let mut server = Server::start((0..3).map(|_| Reply::Status(500)).collect()).await;
    let webhooks = webhooks(WebhookLimits { attempts: 3, ..hasty() });
    webhooks.send(server.delivery("key", "a"));
    webhooks.send(server.delivery("key", "b"));
    server.bodies(&["a", "a", "a", "b"]).await;
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let mut server = Server::start(vec![Reply::Redirect]).await;
    let webhooks = webhooks(hasty());
    webhooks.send(server.delivery("key", "a"));
    webhooks.send(server.delivery("key", "b"));
    for body in ["a", "b"] {
        let (path, _, got) = soon(server.got.recv()).await;
        assert_eq!((&*path, &*got), ("/hook?key=secret", body));
    }
}

#[tokio::test]
async fn a_response_is_not_read() {
    let (sender, mut let_go) = mpsc::unbounded_channel();
    let mut server = Server::start(vec![Reply::Endless(watched(&sender, "endless"))]).await;
    let webhooks = webhooks(hasty());
    webhooks.send(server.delivery("key", "a"));
    webhooks.send(server.delivery("key", "b"));
    server.bodies(&["a", "b"]).await;
    assert_eq!(soon(let_go.recv()).await, "endless");
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let webhooks = webhooks(hasty());
    webhooks.send(delivery("key", &url, Bytes::from("a")));
    drop(listener.accept().await.unwrap());
    Server::on(listener, Vec::new()).bodies(&["a"]).await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_asked_again_and_holds_up_no_other() {
    let mut stuck = Server::start((0..2).map(|_| Reply::Never).collect()).await;
    let mut other = Server::start(Vec::new()).await;
    let webhooks = webhooks(hasty());
    webhooks.send(stuck.delivery("stuck", "a"));
    stuck.bodies(&["a"]).await;
    webhooks.send(other.delivery("other", "b"));
    other.bodies(&["b"]).await;
    // A delivery with another key has a lane of its own, although the server is the same.
    webhooks.send(stuck.delivery("third", "c"));
    stuck.bodies(&["c"]).await;
}

#[tokio::test]
async fn an_attempt_ends_when_its_time_is_over() {
    let mut server = Server::start(vec![Reply::Never]).await;
    let webhooks = webhooks(WebhookLimits { timeout: Duration::from_millis(200), ..hasty() });
    webhooks.send(server.delivery("key", "a"));
    server.bodies(&["a", "a"]).await;
}

#[tokio::test]
async fn all_ends_when_the_last_handle_is_dropped() {
    let mut server = Server::start(vec![Reply::Never]).await;
    let (sender, mut let_go) = mpsc::unbounded_channel();
    let webhooks = webhooks(hasty());
    let url = server.url("127.0.0.1");
    webhooks.send(delivery("key", &url, watched(&sender, "under way")));
    webhooks.send(delivery("key", &url, watched(&sender, "waiting")));
    server.bodies(&["under way"]).await;
    let clone = webhooks.clone();
    drop(webhooks);
    tokio::task::yield_now().await;
    assert!(let_go.is_empty());
    drop(clone);
    let mut ended = [soon(let_go.recv()).await, soon(let_go.recv()).await];
    ended.sort_unstable();
    assert_eq!(ended, ["under way", "waiting"]);
    assert!(server.got.is_empty());
}

#[tokio::test]
async fn a_key_that_is_forgotten_gets_nothing_more_and_may_come_back() {
    let mut server = Server::start(vec![Reply::Never]).await;
    let webhooks = webhooks(hasty());
    webhooks.send(server.delivery("key", "a"));
    webhooks.send(server.delivery("key", "b"));
    server.bodies(&["a"]).await;
    webhooks.forget("key");
    webhooks.forget("unknown");
    webhooks.send(server.delivery("key", "c"));
    server.bodies(&["c"]).await;
}

/// Sends a notification that is held, then more, and checks which of them arrive.
async fn crowd(limits: WebhookLimits, more: &[&str], expected: &[&str]) {
    let held = Arc::new(Notify::new());
    let mut server = Server::start(vec![Reply::Held(Arc::clone(&held))]).await;
    let webhooks = webhooks(limits);
    webhooks.send(server.delivery("key", "first"));
    server.bodies(&["first"]).await;
    for body in more {
        webhooks.send(server.delivery("key", body));
    }
    held.notify_one();
    server.bodies(expected).await;
}

#[tokio::test]
async fn the_oldest_make_room_when_too_many_wait() {
    crowd(WebhookLimits { queue: 2, ..hasty() }, &["a", "b", "c", "d"], &["c", "d"]).await;
}

#[tokio::test]
async fn the_oldest_make_room_when_too_much_waits_but_the_newest_stays() {
    let limits = WebhookLimits { queue_bytes: 4, ..hasty() };
    crowd(limits.clone(), &["aa", "bb", "cc"], &["bb", "cc"]).await;
    crowd(limits, &["aa", "longer"], &["longer"]).await;
}

#[tokio::test]
async fn there_are_only_so_many_keys_at_once() {
    let held = Arc::new(Notify::new());
    let mut server = Server::start(vec![Reply::Held(Arc::clone(&held))]).await;
    let (sender, mut let_go) = mpsc::unbounded_channel();
    let webhooks = webhooks(WebhookLimits { targets: 1, ..hasty() });
    webhooks.send(server.delivery("one", "a"));
    server.bodies(&["a"]).await;
    let url = server.url("127.0.0.1");
    webhooks.send(delivery("two", &url, watched(&sender, "b")));
    assert_eq!(let_go.try_recv(), Ok("b"));
    webhooks.send(delivery("one", &url, watched(&sender, "c")));
    held.notify_one();
    server.bodies(&["c"]).await;
    // The lane closes when it is empty. No other sign tells of this, so the test tries again and again.
    assert_eq!(soon(let_go.recv()).await, "c");
    loop {
        webhooks.send(server.delivery("two", "d"));
        tokio::task::yield_now().await;
        if server.got.try_recv().is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn a_session_with_many_slow_receivers_leaves_room_for_others() {
    let held = || Reply::Held(Arc::new(Notify::new()));
    let mut server = Server::start((0..6).map(|_| held()).collect()).await;
    let webhooks = webhooks(WebhookLimits { targets: 3, ..hasty() });
    let (sender, mut let_go) = mpsc::unbounded_channel();
    let url = server.url("127.0.0.1");
    let send = |session: &str, key: &str, body: &'static str| {
        let session = session.to_owned();
        webhooks.send(Delivery { session, ..delivery(key, &url, watched(&sender, body)) });
    };
    for (key, body) in [("1", "a1"), ("2", "a2"), ("3", "a3")] {
        send("a", key, body);
        server.bodies(&[body]).await;
    }
    send("b", "4", "b1");
    server.bodies(&["b1"]).await;
    assert_eq!(soon(let_go.recv()).await, "a1", "the oldest makes room");
    send("c", "5", "c1");
    server.bodies(&["c1"]).await;
    assert_eq!(soon(let_go.recv()).await, "a2");
    // Each session has its share of the lanes, so no lane makes room.
    send("d", "6", "d1");
    assert_eq!(let_go.try_recv(), Ok("d1"));
    send("b", "7", "b2");
    assert_eq!(let_go.try_recv(), Ok("b2"));
    assert!(let_go.try_recv().is_err());
}

/// Writer that records the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_tells_hosts_and_no_secrets() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // A second subscriber is needed. With only one, a log line of another test's thread could switch the same line
    // off for all threads.
    let _second = tracing::Dispatch::new(NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    let replies = vec![Reply::Status(500), Reply::Status(404), Reply::Redirect, Reply::Never];
    let mut server = Server::start(replies).await;
    let limits =
        WebhookLimits { queue: 6, attempts: 2, timeout: Duration::from_millis(100), ..hasty() };
    let webhooks = webhooks(WebhookLimits { targets: 1, ..limits });
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut bad = server.delivery("key", "bad header");
    bad.headers = vec![("X-Token".to_owned(), "token\n".to_owned())];
    webhooks.send(server.delivery("key", "dropped"));
    webhooks.send(bad);
    webhooks.send(delivery("key", &format!("http://{nobody}/?secret"), Bytes::from("unheard")));
    for body in ["not found", "redirected", "slow", "taken"] {
        webhooks.send(server.delivery("key", body));
    }
    webhooks.send(server.delivery("another", "turned away"));
    server.bodies(&["not found", "not found", "redirected", "slow", "slow"]).await;
    server.bodies(&["taken"]).await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let told = [
        "there are too many webhooks",
        "the webhook is slow",
        "header `X-Token`",
        "it answered 500",
        "it answered 404",
        "it answered 307",
        "no answer within 100ms",
        "refused",
    ];
    for told in told {
        assert!(log.contains(told), "{told}: {log}");
    }
    assert!(log.contains(&format!("webhook=http://{}", server.address)), "{log}");
    for secret in ["secret", "token", "/hook"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}
