//! Targets of requests: not inside, not elsewhere than was asked, not for ever.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use tandem_net::{Lookup, Reach};

use super::{Web, moved, page, why_not};
use crate::api::server::{Reply, Server};

/// Answers lookups from a list.
fn lookup(answers: &[&[&str]]) -> Lookup {
    let parse = |found: &&[&str]| found.iter().map(|it| it.parse().unwrap()).collect::<Vec<_>>();
    let answers = Mutex::new(answers.iter().map(parse).collect::<VecDeque<_>>());
    Arc::new(move |_| {
        ready(Ok(answers.lock().unwrap().pop_front().expect("a lookup too many"))).boxed()
    })
}

/// Returns the error of reading an address, whose name leads to `found`.
async fn refused(reach: Reach, url: &str, found: &[&[&str]]) -> String {
    let web = Web { reach, lookup: lookup(found), ..Web::default() };
    web.read(url).await.unwrap_err().message
}

#[tokio::test]
async fn what_is_inside_is_refused_and_the_setting_that_allows_it_is_named() {
    let server = Server::start(Vec::new()).await;
    let port = server.address().rsplit(':').next().unwrap();
    for host in ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"] {
        let why = refused(Reach::Public, &format!("http://{host}:{port}/"), &[]).await;
        assert!(why.contains("this machine itself"), "{host}: {why}");
        assert!(why.contains("`tools.webFetch.allowPrivate`"), "{why}");
    }
    for url in ["http://10.0.0.1/", "http://192.168.1.1/", "http://[fd00::1]/"] {
        assert!(refused(Reach::Loopback, url, &[]).await.contains("a private address"));
    }
    // Not even then.
    for url in ["http://169.254.169.254/latest/", "http://[fd00:ec2::254]/", "http://0.0.0.0/"] {
        let why = refused(Reach::Private, url, &[]).await;
        assert!(why.contains("was not read"), "{why}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused() {
    let why = refused(Reach::Public, "http://inside.test/", &[&["127.0.0.1", "10.0.0.1"]]).await;
    assert!(why.contains("inside.test leads to 10.0.0.1, a private address"), "{why}");
}

#[tokio::test]
async fn of_a_names_addresses_only_the_good_are_connected_to() {
    let server = Server::start(vec![page("text/plain", "here")]).await;
    let port = server.address().rsplit(':').next().unwrap();
    let web = Web { lookup: lookup(&[&["10.0.0.1", "127.0.0.1"]]), ..Web::default() };
    let output = web.read(&format!("http://mixed.test:{port}/")).await.unwrap();
    assert!(output.text.contains("here"));
}

#[tokio::test]
async fn a_name_that_turns_inside_between_two_requests_is_not_followed() {
    let server = Server::start(vec![moved("/next").header("connection", "close")]).await;
    let port = server.address().rsplit(':').next().unwrap();
    let url = format!("http://turns.test:{port}/");
    let why = refused(Reach::Loopback, &url, &[&["127.0.0.1"], &["10.0.0.1"]]).await;
    assert!(why.contains("turns.test leads to 10.0.0.1"), "{why}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_redirection_is_followed_on_the_same_host_only() {
    let server = Server::start(vec![moved("/a"), moved("b?c"), page("text/plain", "found")]).await;
    let output = Web::default().read(&format!("{}/x", server.address())).await.unwrap();
    assert!(output.text.contains(&format!("From {}/b?c;", server.address())), "{}", output.text);
    let asked: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(asked, ["GET /x", "GET /a", "GET /b?c"]);

    let why = why_not(moved("https://other.test/y")).await;
    let expected = "it redirects to https://other.test/y; if you want that, call web_fetch with \
        that address.";
    assert_eq!(why, expected);
    assert!(why_not(moved("http://10.0.0.1/")).await.contains("it redirects to http://10.0.0.1/"));
    assert!(why_not(moved("file:///etc/passwd")).await.contains("no address of the web"));
    assert!(why_not(Reply::error(301, "")).await.contains("does not say where"));
}

#[tokio::test]
async fn redirections_in_a_circle_come_to_an_end() {
    let server = Server::start((0..10).map(|_| moved("/again")).collect()).await;
    let error = Web::default().read(&format!("{}/x", server.address())).await.unwrap_err();
    assert!(error.message.contains("more than 5 times"), "{error}");
    assert_eq!(server.asked().len(), 6);
}

#[tokio::test]
async fn a_server_that_says_little_for_long_is_left() {
    let server = Server::start(vec![page("text/plain", "drip").then_hang()]).await;
    let mut web = Web::default();
    web.limits.web_time = Duration::from_secs(1);
    let error = web.read(&format!("{}/x", server.address())).await.unwrap_err();
    assert!(error.message.contains("took longer than"), "{error}");
    timeout_gone(&server).await;
}

async fn timeout_gone(server: &Server) {
    tokio::time::timeout(crate::agent::HANG, server.client_gone()).await.unwrap();
}

#[tokio::test]
async fn of_a_body_without_an_end_only_the_beginning_is_read() {
    let endless = page("text/plain", "0123456789\n".repeat(1000)).times(usize::MAX);
    let server = Server::start(vec![endless]).await;
    let mut web = Web::default();
    web.limits.web_bytes = 100_000;
    let output = web.read(&format!("{}/x", server.address())).await.unwrap();
    assert!(output.text.contains("; only its beginning was read; data"), "{}", output.text);
    assert!(output.text.len() < 100_200, "{}", output.text.len());
}

#[tokio::test]
async fn a_compressed_body_that_nobody_asked_for_is_not_unpacked() {
    let server = Server::start(vec![page("text/html", "bomb").header("content-encoding", "gzip")]);
    let server = server.await;
    let error = Web::default().read(&format!("{}/x", server.address())).await.unwrap_err();
    assert!(error.message.contains("compressed (gzip)"), "{error}");
    assert_eq!(server.asked()[0].headers["accept-encoding"], "identity");
}
