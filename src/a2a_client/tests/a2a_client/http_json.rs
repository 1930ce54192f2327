//! Agents that speak only HTTP+JSON: the requests to them, and the results.

use serde_json::{Value, json};
use tandem_agent::session::ToolOutcome;
use test_fakes::call_agent::{Stage, answered, ask, ask_in, once};

use super::fake::{FakeAgent, bare_error, bare_events, card_http_json, json};

fn task(state: &str) -> Value {
    json!({ "id": "c.1", "contextId": "c", "status": { "state": state } })
}

fn status(state: &str, said: &str) -> Value {
    json!({ "statusUpdate": { "taskId": "c.1", "contextId": "c",
        "status": { "state": state, "message": { "role": "ROLE_AGENT", "parts": [{ "text": said }] } } } })
}

#[tokio::test]
async fn an_agent_streams_and_goes_on_in_its_context() {
    let agent = FakeAgent::new(card_http_json(), |_| {
        let artifact = json!({ "artifactId": "a", "parts": [{ "text": "Fine." }] });
        bare_events(&[
            json!({ "task": task("TASK_STATE_SUBMITTED") }),
            json!({ "artifactUpdate": { "taskId": "c.1", "contextId": "c", "artifact": artifact } }),
            status("TASK_STATE_COMPLETED", ""),
        ])
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("Is it good?"), ask_in("c", "Sure?")]);
    assert_eq!(stage.turn().await.text(), answered("Fine.", "c"));
    stage.turn().await;
    assert_eq!(agent.methods(), ["POST /v1/message:stream", "POST /v1/message:stream"]);
    let [first, second] = &agent.made()[..] else { panic!("{:?}", agent.methods()) };
    assert_eq!(first.headers["a2a-version"], "1.0");
    assert_eq!(first.headers["content-type"], "application/json");
    assert_eq!(first.params["message"]["parts"], json!([{ "text": "Is it good?" }]));
    assert_eq!(second.params["message"]["contextId"], "c");
}

#[tokio::test]
async fn an_agent_without_streams_is_asked_until_it_has_ended() {
    let mut looks = 0;
    let agent = FakeAgent::new(card_http_json(), move |made| match &*made.method {
        "POST /v1/message:stream" => bare_error(400, "UNSUPPORTED_OPERATION", "no streams"),
        "POST /v1/message:send" => json(json!({ "task": task("TASK_STATE_WORKING") })),
        "GET /v1/tasks/c.1" => {
            looks += 1;
            let state = if looks < 3 { "TASK_STATE_WORKING" } else { "TASK_STATE_COMPLETED" };
            let mut task = task(state);
            task["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": "Whole." }] }]);
            json(task)
        }
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    assert_eq!(stage.turn().await.text(), answered("Whole.", "c"));
    let [stream, send, looks @ ..] = &agent.made()[..] else { panic!("{:?}", agent.methods()) };
    // Both requests have the same message id: if the agent has taken both, they are still one message.
    assert_eq!(stream.params["message"]["messageId"], send.params["message"]["messageId"]);
    assert_eq!(looks.len(), 3);
}

#[tokio::test]
async fn a_stream_that_was_lost_is_followed_from_its_last_event() {
    let agent = FakeAgent::new(card_http_json(), |made| match &*made.method {
        "POST /v1/message:stream" => {
            let mut working = status("TASK_STATE_WORKING", "Reading.");
            working["statusUpdate"]["metadata"] = json!({ "eventId": "4.0" });
            bare_events(&[json!({ "task": task("TASK_STATE_SUBMITTED") }), working])
        }
        "GET /v1/tasks/c.1:subscribe" => bare_events(&[
            json!({ "task": task("TASK_STATE_WORKING") }),
            status("TASK_STATE_COMPLETED", "Done."),
        ]),
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let text = stage.turn().await.text();
    assert!(text.contains("Done."), "{text}");
    assert_eq!(agent.made()[1].headers["last-event-id"], "4.0");
}

#[tokio::test]
async fn a_cancel_here_is_a_cancel_there() {
    let agent = FakeAgent::new(card_http_json(), |made| match &*made.method {
        "POST /v1/message:stream" => bare_events(&[
            json!({ "task": task("TASK_STATE_WORKING") }),
            status("TASK_STATE_WORKING", "On it."),
        ]),
        "POST /v1/tasks/c.1:cancel" => json(task("TASK_STATE_CANCELED")),
        "GET /v1/tasks/c.1:subscribe" | "GET /v1/tasks/c.1" => json(task("TASK_STATE_WORKING")),
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn = stage.begin();
    let following = stage.follow(turn, once);
    let cancelling = async {
        stage.shows("On it.").await;
        assert!(stage.session.cancel(turn));
    };
    let (turn, ()) = tokio::join!(following, cancelling);
    assert_eq!(turn.outcome(), ToolOutcome::Cancelled);
    let made = agent.called("POST /v1/tasks/c.1:cancel").await;
    assert_eq!(made.params, json!({}));
}

#[tokio::test]
async fn an_error_is_told_with_its_message() {
    let agent = FakeAgent::new(card_http_json(), |_| {
        bare_error(404, "TASK_NOT_FOUND", "Task not found: t")
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn = stage.turn().await;
    let ToolOutcome::Failed(error) = turn.outcome() else { panic!("{:?}", turn.outcome()) };
    assert!(error.message.contains("HTTP 404: Task not found: t"), "{}", error.message);
    assert_eq!(agent.methods(), ["POST /v1/message:stream"]);
}
