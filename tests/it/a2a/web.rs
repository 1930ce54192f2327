//! Reading the web for A2A clients: questions, and their display.

use serde_json::json;
use test_support::api_server::Server;

use super::server::{answer, asks, kind, prompt, serve, statuses, tool_call, within};
use crate::web::asking::{pages, reads};
use crate::web::search::{found, searches};

#[tokio::test]
async fn a_client_of_a2a_is_asked_with_the_addresses() {
    let server = pages(1).await;
    let url = format!("{}/a", server.address());
    let it = serve(&reads(std::slice::from_ref(&url))).await;
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let asked = events.iter().find(|event| asks(event)).expect("nothing is asked");
    let (task, call) = (asked["taskId"].clone(), tool_call(asked));
    let request = &call["confirmation_request"];
    assert_eq!(request["generic_details"], json!({ "description": url }));
    let host = server.address().strip_prefix("http://").unwrap();
    let always = format!("Yes, and while this session is open: connections to `{host}`");
    assert_eq!(request["options"][1]["name"], always);
    let say = within(&task, answer(&call["tool_call_id"], "proceed_once"));
    let events = it.client.stream("message/stream", say).await.rest().await;
    let ends = statuses(&events);
    assert!(ends.contains(&"SUCCEEDED"), "{ends:?}");
}

#[tokio::test]
async fn a_client_of_a2a_is_told_the_sources_of_a_search() {
    let server = Server::start(vec![found()]).await;
    let it = serve(&searches(&server)).await;
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let cited: Vec<_> = events.iter().filter(|event| kind(event) == "CITATION").collect();
    let [cited] = &cited[..] else { panic!("{events:?}") };
    let said = &cited["status"]["message"]["parts"][0]["text"];
    assert_eq!(*said, "Citations:\n(A) https://a.test/x");
    assert_eq!(cited["metadata"]["coderAgent"]["kind"], "citation");
}
