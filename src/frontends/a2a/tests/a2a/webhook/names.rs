//! Names of webhooks, whose addresses are judged when they are looked up.

use std::collections::VecDeque;
use std::future::ready;
use std::io;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use futures::FutureExt as _;
use tandem_a2a::webhook::Webhooks;
use tandem_net::Lookup;
use tokio::sync::mpsc;

use super::server::{Reply, Server, delivery, hasty, soon, watched};

/// Returns a lookup that takes its answers from a list, and the names that were looked up.
fn lookup(answers: Vec<io::Result<Vec<&'static str>>>) -> (Lookup, Arc<Mutex<Vec<String>>>) {
    let answers = Mutex::new(VecDeque::from(answers));
    let names = Arc::<Mutex<Vec<String>>>::default();
    let asked = Arc::clone(&names);
    let lookup: Lookup = Arc::new(move |name| {
        asked.lock().unwrap().push(name);
        let answer = answers.lock().unwrap().pop_front().expect("a lookup too many");
        let parse = |found: Vec<&str>| found.iter().map(|it| it.parse().unwrap()).collect();
        ready(answer.map(parse)).boxed()
    });
    (lookup, names)
}

/// Checks that a name with these addresses is refused. A second notification shows that the first is done.
async fn refused(allow_loopback: bool, addresses: Vec<&'static str>) {
    let mut server = Server::start(Vec::new()).await;
    let (lookup, names) = lookup(vec![Ok(addresses), Ok(vec!["10.1.1.1"])]);
    let webhooks = Webhooks::with_lookup(allow_loopback, hasty(), lookup);
    let (sender, mut let_go) = mpsc::unbounded_channel();
    for (name, body) in [("one.example", "a"), ("two.example", "b")] {
        webhooks.send(delivery("key", &server.url(name), watched(&sender, body)));
    }
    assert_eq!(soon(let_go.recv()).await, "a");
    assert_eq!(soon(let_go.recv()).await, "b");
    assert_eq!(*names.lock().unwrap(), ["one.example", "two.example"], "each is looked up once");
    assert!(server.got.try_recv().is_err());
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_when_it_is_looked_up() {
    for address in ["10.0.0.1", "169.254.169.254", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0"] {
        refused(true, vec![address]).await;
    }
    refused(false, vec!["127.0.0.1", "::1", "192.168.0.1"]).await;
}

#[tokio::test]
async fn a_literal_address_is_judged_at_delivery_too() {
    let mut server = Server::start(Vec::new()).await;
    let (sender, mut let_go) = mpsc::unbounded_channel();
    let webhooks = Webhooks::new(false, hasty());
    for host in ["127.0.0.1", "localhost"] {
        webhooks.send(delivery("key", &server.url(host), watched(&sender, "a")));
        assert_eq!(soon(let_go.recv()).await, "a");
    }
    assert!(server.got.try_recv().is_err());
}

#[tokio::test]
async fn of_a_names_addresses_only_the_good_are_connected_to_and_without_another_lookup() {
    let mut server = Server::start(Vec::new()).await;
    let (lookup, names) = lookup(vec![Ok(vec!["10.0.0.1", "127.0.0.1"])]);
    let webhooks = Webhooks::with_lookup(true, hasty(), lookup);
    webhooks.send(delivery("key", &server.url("mixed.example"), Bytes::from("a")));
    server.bodies(&["a"]).await;
    assert_eq!(*names.lock().unwrap(), ["mixed.example"]);
}

#[tokio::test]
async fn a_name_that_turns_inside_between_two_attempts_is_not_followed() {
    let mut server = Server::start(vec![Reply::Close]).await;
    let (lookup, _) = lookup(vec![Ok(vec!["127.0.0.1"]), Ok(vec!["10.0.0.1"])]);
    let webhooks = Webhooks::with_lookup(true, hasty(), lookup);
    let (sender, mut let_go) = mpsc::unbounded_channel();
    webhooks.send(delivery("key", &server.url("turning.example"), watched(&sender, "a")));
    assert_eq!(soon(let_go.recv()).await, "a");
    server.bodies(&["a"]).await;
}

#[tokio::test]
async fn a_name_that_is_not_found_is_looked_up_again() {
    let mut server = Server::start(Vec::new()).await;
    let not_found = Err(io::Error::other("the network is down"));
    let (lookup, names) = lookup(vec![not_found, Ok(Vec::new()), Ok(vec!["127.0.0.1"])]);
    let webhooks = Webhooks::with_lookup(true, hasty(), lookup);
    webhooks.send(delivery("key", &server.url("late.example"), Bytes::from("a")));
    server.bodies(&["a"]).await;
    assert_eq!(names.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn localhost_is_this_machine_without_a_lookup() {
    let mut server = Server::start(Vec::new()).await;
    let webhooks = Webhooks::with_lookup(true, hasty(), lookup(Vec::new()).0);
    for host in ["localhost", "hooks.localhost"] {
        webhooks.send(delivery("key", &server.url(host), Bytes::from("a")));
        server.bodies(&["a"]).await;
    }
}

#[tokio::test]
async fn a_panic_costs_a_key_no_more_than_what_waits() {
    let mut server = Server::start(Vec::new()).await;
    let (good, _) = lookup(vec![Ok(vec!["127.0.0.1"])]);
    let lookup: Lookup = Arc::new(move |name| {
        assert_ne!(name, "panic.example", "asked to panic");
        good(name)
    });
    let webhooks = Webhooks::with_lookup(true, hasty(), lookup);
    let (sender, mut let_go) = mpsc::unbounded_channel();
    webhooks.send(delivery("key", &server.url("panic.example"), watched(&sender, "a")));
    assert_eq!(soon(let_go.recv()).await, "a");
    webhooks.send(server.delivery("key", "b"));
    server.bodies(&["b"]).await;
}
