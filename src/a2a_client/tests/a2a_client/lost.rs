//! Connections that are lost, agents that are silent, and calls that are cancelled.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tandem_a2a_client::AgentLimits;
use tandem_agent::session::ToolOutcome;
use tandem_approval::Mode;
use test_fakes::call_agent::{Stage, answered, ask, limits, once, part, reviewer};
use tokio::sync::Notify;

use super::fake::{
    FakeAgent, Step, artifact, card_03, error, event, events, raw, result, status, status_of, task,
};

fn text(at: &str, text: &str) -> Value {
    status_of("text-content", at, "working", part(text))
}

fn lost(results: &[Value]) -> axum::response::Response {
    let sent = results.iter().map(|it| Step::Send(event(it)));
    raw(sent.chain([Step::Pause(Duration::from_millis(20)), Step::Lose]).collect())
}

#[tokio::test]
async fn a_stream_that_is_cut_is_followed_from_its_last_event() {
    let mut times = 0;
    let agent = FakeAgent::new(card_03(), move |made| match &*made.method {
        "message/stream" => lost(&[task("submitted"), text("7.0", "One ")]),
        "tasks/resubscribe" => {
            times += 1;
            match times {
                1 => lost(&[text("8.0", "two ")]),
                _ => events(vec![
                    task("working"),
                    text("9.0", "three."),
                    status("completed", Value::Null),
                ]),
            }
        }
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn = stage.turn().await;
    assert_eq!(turn.text(), answered("One two three.", "c"));
    let again: Vec<_> = agent.made().into_iter().skip(1).collect();
    let seen: Vec<_> = again.iter().map(|made| made.headers["last-event-id"].clone()).collect();
    assert_eq!(seen, ["7.0", "8.0"]);
    assert_eq!(again[0].params, json!({ "id": "t", "metadata": { "lastEventId": "7.0" } }));
}

#[tokio::test]
async fn half_an_event_at_the_end_of_a_stream_is_none() {
    let agent = FakeAgent::new(card_03(), |made| match &*made.method {
        "message/stream" => {
            raw(vec![Step::Send(event(&task("working"))), Step::Send("data: {\"js".to_owned())])
        }
        "tasks/resubscribe" => events(vec![task("working"), status("completed", part("ok"))]),
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    assert_eq!(stage.turn().await.text(), answered("ok", "c"));
}

#[tokio::test]
async fn where_a_task_cannot_be_followed_it_is_looked_at() {
    let mut looks = 0;
    let agent = FakeAgent::new(card_03(), move |made| match &*made.method {
        "message/stream" => lost(&[task("submitted")]),
        "tasks/resubscribe" => error(-32601, "Method not found"),
        "tasks/get" => {
            looks += 1;
            let mut task = task(if looks < 3 { "working" } else { "completed" });
            task["artifacts"] = json!([{ "artifactId": "a", "parts": part("Whole.") }]);
            result(task)
        }
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    assert_eq!(stage.turn().await.text(), answered("Whole.", "c"));
}

#[tokio::test]
async fn a_server_that_has_gone_for_good_is_a_call_that_fails() {
    let agent = FakeAgent::new(card_03(), |made| match &*made.method {
        "message/stream" => lost(&[task("submitted")]),
        _ => lost(&[]),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let error = stage.turn().await.error();
    assert!(error.starts_with("The agent `reviewer`: it cannot be reached"), "{error}");
    // The agent had not yet told its task id, so there is no task to follow.
    let agent = FakeAgent::new(card_03(), |_| lost(&[])).await;
    let error = Stage::new(agent.config(), vec![ask("go")]).turn().await.error();
    assert!(error.contains("before the agent named its task"), "{error}");
    assert_eq!(agent.made().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_call_that_fails() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Stage::new(reviewer(&url), vec![ask("go")]).turn().await.error();
    assert!(error.starts_with("The agent `reviewer`: it cannot be reached"), "{error}");
}

#[tokio::test]
async fn an_agent_that_falls_silent_is_cancelled_there() {
    let agent = FakeAgent::new(card_03(), |made| match &*made.method {
        "message/stream" => raw(vec![Step::Send(event(&task("submitted"))), Step::Hang]),
        "tasks/cancel" => result(task("canceled")),
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let mut config = agent.config();
    config.timeout = Some(Duration::from_secs(1));
    let error = Stage::new(config, vec![ask("go")]).turn().await.error();
    assert_eq!(error, "The agent `reviewer`: nothing came from it for 1 s.");
    assert_eq!(agent.called("tasks/cancel").await.params, json!({ "id": "t" }));
}

#[tokio::test]
async fn signs_of_life_are_no_silence() {
    let agent = FakeAgent::new(card_03(), |_| {
        let alive = (0..12).flat_map(|_| {
            [Step::Pause(Duration::from_millis(100)), Step::Send(": alive\n\n".to_owned())]
        });
        let ended = [Step::Send(event(&status("completed", part("ok"))))];
        raw([Step::Send(event(&task("submitted")))].into_iter().chain(alive).chain(ended).collect())
    });
    let agent = agent.await;
    let mut config = agent.config();
    config.timeout = Some(Duration::from_secs(1));
    assert_eq!(Stage::new(config, vec![ask("go")]).turn().await.text(), answered("ok", "c"));
}

#[tokio::test]
async fn a_task_that_never_changes_is_given_up() {
    let mut card = card_03();
    card["capabilities"]["streaming"] = json!(false);
    let agent = FakeAgent::new(card, |_| result(task("working"))).await;
    let mut config = agent.config();
    config.timeout = Some(Duration::from_secs(1));
    let error = Stage::new(config, vec![ask("go")]).turn().await.error();
    assert_eq!(error, "The agent `reviewer`: nothing came from it for 1 s.");
    agent.called("tasks/cancel").await;
}

#[tokio::test]
async fn a_cancel_here_is_a_cancel_there() {
    let agent = FakeAgent::new(card_03(), |made| match &*made.method {
        "message/stream" => raw(vec![Step::Send(event(&text("1.0", "Working."))), Step::Hang]),
        "tasks/cancel" => result(task("canceled")),
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn = stage.begin();
    let (ended, ()) = tokio::join!(stage.follow(turn, once), async {
        stage.shows("Working.").await;
        assert!(stage.session.cancel(turn));
    });
    assert_eq!(ended.outcome(), ToolOutcome::Cancelled);
    assert_eq!(agent.called("tasks/cancel").await.params, json!({ "id": "t" }));
}

#[tokio::test]
async fn a_cancel_waits_for_the_name_of_the_task() {
    let cancelled = Arc::new(Notify::new());
    let names = Arc::clone(&cancelled);
    let agent = FakeAgent::new(card_03(), move |made| match &*made.method {
        "message/stream" => raw(vec![
            Step::Wait(Arc::clone(&names)),
            Step::Send(event(&task("submitted"))),
            Step::Hang,
        ]),
        "tasks/cancel" => result(task("canceled")),
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn = stage.begin();
    let (ended, ()) = tokio::join!(stage.follow(turn, once), async {
        agent.called("message/stream").await;
        assert!(stage.session.cancel(turn));
        cancelled.notify_one();
    });
    assert_eq!(ended.outcome(), ToolOutcome::Cancelled);
    assert_eq!(agent.called("tasks/cancel").await.params, json!({ "id": "t" }));
}

#[tokio::test]
async fn a_long_answer_is_cut_and_a_longer_event_is_refused() {
    let agent = FakeAgent::new(card_03(), |made| match &*made.method {
        "message/stream" => events(vec![
            task("submitted"),
            artifact(&"x".repeat(900), false),
            artifact(&"y".repeat(900), true),
            status("completed", Value::Null),
        ]),
        _ => result(task("canceled")),
    });
    let agent = agent.await;
    let limits = AgentLimits { answer_bytes: 1000, ..limits() };
    let stage = Stage::with(agent.config(), limits, Mode::Default, vec![ask("go")]);
    let cut = format!(
        "{}{}\n\n[The rest was too long, and is left out.]",
        "x".repeat(900),
        "y".repeat(100)
    );
    assert_eq!(stage.turn().await.text(), answered(&cut, "c"));
    let agent = FakeAgent::new(card_03(), |made| match &*made.method {
        "message/stream" => events(vec![task("submitted"), artifact(&"x".repeat(5000), false)]),
        _ => result(task("canceled")),
    });
    let agent = agent.await;
    let limits = AgentLimits { message_bytes: 2000, ..test_fakes::call_agent::limits() };
    let stage = Stage::with(agent.config(), limits, Mode::Default, vec![ask("go")]);
    assert_eq!(
        stage.turn().await.error(),
        "The agent `reviewer`: it sent more than 2000 bytes at once."
    );
    agent.called("tasks/cancel").await;
}

#[tokio::test]
async fn events_without_end_are_given_up() {
    let agent = FakeAgent::new(card_03(), |made| match &*made.method {
        "message/stream" => events((0..200).map(|n| text(&n.to_string(), "x")).collect()),
        _ => result(task("canceled")),
    });
    let agent = agent.await;
    let limits = AgentLimits { events: 100, ..limits() };
    let stage = Stage::with(agent.config(), limits, Mode::Default, vec![ask("go")]);
    assert_eq!(stage.turn().await.error(), "The agent `reviewer`: it sent more than 100 events.");
    agent.called("tasks/cancel").await;
}
