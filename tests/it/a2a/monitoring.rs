//! The health of a server, and its figures.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::http::request;
use super::server::{Client, Served, answer, asks, prompt, serve, tool_call, within, write};
use crate::agent::{HANG, Setup};

/// Starts a server with figures.
async fn monitored(setup: Setup) -> (Served, Client) {
    let served = serve(&setup.arg("--metrics").arg("127.0.0.1:0")).await;
    let said = async {
        loop {
            let said = served.said.lock().unwrap().clone();
            if let Some((_, port)) = said.split_once("metrics at http://127.0.0.1:")
                && let Some((port, _)) = port.split_once('/')
            {
                return port.parse().unwrap();
            }
            yield_now().await;
        }
    };
    let port = timeout(HANG, said).await.expect("no address is said");
    (served, Client { port })
}

/// Returns the figures that are no part of a histogram, by name and labels.
async fn figures(monitor: Client) -> BTreeMap<String, f64> {
    let response = monitor.get("/metrics").await;
    assert_eq!(response.status, 200);
    let text = response.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    lines.map(|line| figure(line).unwrap()).collect()
}

/// Waits until figures are these.
async fn until(monitor: Client, wanted: &[(&str, f64)]) {
    let mut last = BTreeMap::new();
    let reached = async {
        loop {
            last = figures(monitor).await;
            if wanted.iter().all(|(name, value)| last.get(*name) == Some(value)) {
                return;
            }
        }
    };
    let reached = timeout(HANG, reached).await;
    assert!(reached.is_ok(), "{wanted:?} in {last:#?}");
}

#[tokio::test]
async fn turns_questions_calls_and_tokens_are_counted() {
    let answers = json!([[{ "text": "hi" }, write("a.txt", "x")], [{ "text": "done" }]]);
    // The limit on the input makes the server count tokens.
    let script = vec![json!({ "input_limit": 24_000 }), json!({ "answers": answers })];
    let (served, monitor) = monitored(Setup::script(script)).await;
    let mut events = served.client.stream("message/stream", prompt("secret words")).await;
    let asked = loop {
        let event = events.next().await.unwrap();
        if asks(&event) {
            break event;
        }
    };
    until(
        monitor,
        &[
            ("tandem_sessions_loaded", 1.0),
            ("tandem_sessions{state=\"asking\"}", 1.0),
            ("tandem_turns_running", 1.0),
            ("tandem_turns_queued", 0.0),
            ("tandem_questions_open", 1.0),
            ("tandem_model_answers_total", 1.0),
        ],
    )
    .await;
    let call = tool_call(&asked)["tool_call_id"].clone();
    let said = within(&asked["taskId"], answer(&call, "proceed_once"));
    served.client.result("message/send", said).await;
    until(
        monitor,
        &[
            ("tandem_turns_running", 0.0),
            ("tandem_questions_open", 0.0),
            ("tandem_turns_finished_total{reason=\"end_turn\"}", 1.0),
            ("tandem_questions_closed_total{answer=\"once\"}", 1.0),
            ("tandem_calls_finished_total{outcome=\"done\"}", 1.0),
            ("tandem_model_answers_total", 2.0),
            ("tandem_model_first_chunk_seconds_count", 2.0),
            ("tandem_model_answer_seconds_count", 2.0),
            ("tandem_question_seconds_count", 1.0),
            ("tandem_sessions{state=\"asking\"}", 0.0),
            ("tandem_sessions{state=\"idle\"}", 1.0),
            ("tandem_store_seconds_count{operation=\"create\"}", 1.0),
        ],
    )
    .await;
    assert!(figures(monitor).await["tandem_model_tokens_total{kind=\"input\"}"] > 1.0);
    for (operation, least) in [("append", 2.0), ("sync", 1.0)] {
        let name = format!("tandem_store_seconds_count{{operation=\"{operation}\"}}");
        assert!(figures(monitor).await[&name] >= least, "{operation}");
    }
    let text = monitor.get("/metrics").await.text();
    assert!(!text.contains("secret") && !text.contains("a.txt"), "{text}");
    assert!(text.contains("tandem_requests_total{route=\"/\",status=\"200\"}"), "{text}");
}

#[tokio::test]
async fn paths_that_a_client_makes_up_make_no_figures() {
    let (served, monitor) = monitored(Setup::answers(json!([]))).await;
    for n in 0..5 {
        served.client.get(&format!("/made-up/{n}")).await;
        served.client.get(&format!("/tasks/{n}/metadata")).await;
    }
    let figures = figures(monitor).await;
    let routes: Vec<_> =
        figures.keys().filter(|name| name.starts_with("tandem_requests")).collect();
    assert_eq!(
        routes,
        [
            "tandem_requests_total{route=\"/tasks/{id}/metadata\",status=\"404\"}",
            "tandem_requests_total{route=\"none\",status=\"404\"}",
        ]
    );
}

#[tokio::test]
async fn health_is_for_everybody_and_figures_are_not_at_the_port_of_clients() {
    let setup = Setup::answers(json!([])).var("TANDEM_A2A_TOKEN", "token");
    let (served, monitor) = monitored(setup).await;
    for client in [served.client, monitor] {
        for (path, text) in [("/livez", "alive\n"), ("/readyz", "ready\n")] {
            // A load balancer may name the machine in any way, so the `Host` header is not checked here.
            let headers = ["Host: 10.1.2.3", "Connection: close"];
            let response = request(client.port, &format!("GET {path}"), &headers, b"").await;
            let response = response.whole().await;
            assert_eq!((response.status, response.text().as_str()), (200, text), "{path}");
        }
    }
    assert_eq!(served.client.get("/metrics").await.status, 401);
}

#[tokio::test]
async fn a_server_that_ends_lives_and_is_not_ready() {
    let hangs = Setup::answers(json!([[{ "text": "begun" }, { "hang": null }]]));
    let (mut served, monitor) = monitored(hangs.arg("--drain-timeout").arg("60")).await;
    let mut events = served.client.stream("message/stream", prompt("go")).await;
    events.next().await.unwrap();
    until(monitor, &[("tandem_clients{transport=\"sse\"}", 1.0)]).await;
    let pid = Pid::from_raw(served.child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let drains = async { while monitor.get("/readyz").await.status != 503 {} };
    timeout(HANG, drains).await.unwrap();
    assert_eq!(monitor.get("/livez").await.status, 200);
    kill_process(pid, Signal::TERM).unwrap();
    timeout(HANG, served.child.wait()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_session_that_is_unloaded_is_no_longer_counted() {
    let setup = Setup::answers(json!([[{ "text": "hi" }]]));
    let (served, monitor) = monitored(setup.arg("--limit").arg("session-idle-seconds=1")).await;
    served.client.result("message/send", prompt("go")).await;
    until(monitor, &[("tandem_turns_finished_total{reason=\"end_turn\"}", 1.0)]).await;
    let most = Duration::from_secs(30);
    timeout(most, until(monitor, &[("tandem_sessions_loaded", 0.0)])).await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_read_again_and_clients_that_stay_are_counted() {
    let setup = Setup::answers(json!([[{ "text": "hi" }]]));
    let (served, monitor) = monitored(setup.arg("--limit").arg("session-idle-seconds=1")).await;
    let task = served.client.result("message/send", prompt("go")).await;
    let most = Duration::from_secs(30);
    timeout(most, until(monitor, &[("tandem_sessions_loaded", 0.0)])).await.unwrap();
    served.client.result("tasks/get", json!({ "id": task["id"] })).await;
    let socket = served.client.socket().await;
    until(
        monitor,
        &[
            ("tandem_sessions{state=\"idle\"}", 1.0),
            ("tandem_store_seconds_count{operation=\"claim\"}", 1.0),
            ("tandem_store_seconds_count{operation=\"read\"}", 1.0),
            ("tandem_clients{transport=\"websocket\"}", 1.0),
        ],
    )
    .await;
    drop(socket);
    until(monitor, &[("tandem_clients{transport=\"websocket\"}", 0.0)]).await;
}
