//! Questions of another agent about its tools, which the user answers here.

use axum::response::Response;
use serde_json::{Value, json};
use tandem_agent::session::{Access, Answer, CallStarted, Caller, Event, ToolOutcome};
use tandem_approval::{Mode, Scope};
use test_fakes::call_agent::{Stage, answered, ask, limits, once, part};

use super::fake::{
    FakeAgent, Made, Step, card_1, card_03, developing, error, event, events, raw, result, status,
    status_of, task,
};

/// Returns a call of the other agent with a status. A pending call is asked about.
fn call(id: &str, status: &str, kind: &str) -> Value {
    let options = json!([
        { "id": "proceed_once", "name": "Allow once" },
        { "id": "proceed_always", "name": "Always allow" },
        { "id": "cancel", "name": "Reject" },
    ]);
    let asks = json!({ "options": options, "type": kind, "title": "Run it", "prompt": "Allow it?",
        "execute_details": { "command": "make test", "working_directory": "/there" } });
    let asks = if status == "PENDING" { asks } else { Value::Null };
    json!([{ "kind": "data", "data": { "tool_call_id": id, "status": status, "tool_name": "run_shell_command",
        "description": "make test", "input_parameters": {}, "confirmation_request": asks } }])
}

/// Returns a stream that ends with a question about this call.
fn asks(id: &str, kind: &str) -> Response {
    events(vec![
        task("submitted"),
        status_of("tool-call-update", "1.0", "working", call(id, "PENDING", kind)),
        status_of("state-change", "1.1", "input-required", call(id, "PENDING", kind)),
    ])
}

/// Returns the answers in a message.
fn chosen(made: &Made) -> Vec<(String, String)> {
    let parts = made.params["message"]["parts"].as_array().unwrap();
    let data = parts.iter().map(|part| &part["data"]).filter(|data| !data.is_null());
    let text = |data: &Value, name: &str| data[name].as_str().unwrap().to_owned();
    data.map(|it| (text(it, "tool_call_id"), text(it, "selected_option_id"))).collect()
}

fn ended(said: &str) -> Response {
    events(vec![
        status_of("tool-call-update", "2.0", "working", call("x", "SUCCEEDED", "warning")),
        status("completed", part(said)),
    ])
}

/// Starts an agent that asks once, and then repeats the chosen answer.
async fn asking(kind: &'static str) -> FakeAgent {
    FakeAgent::new(developing(card_03()), move |made| match &*made.method {
        "message/stream" if chosen(made).is_empty() => asks("x", kind),
        "message/stream" => ended(&chosen(made)[0].1),
        // The stream is refused, so the caller does not learn from it that another client has answered.
        "tasks/resubscribe" => error(-32004, "not here"),
        "tasks/cancel" => result(task("canceled")),
        other => panic!("{other}"),
    })
    .await
}

fn is_question(started: &CallStarted) -> bool {
    started.call.name == "answer_agent"
}

#[tokio::test]
async fn its_question_is_shown_here_and_the_answer_is_sent() {
    let agent = asking("warning").await;
    let stage = Stage::new(agent.config(), vec![ask("Test it.")]);
    let turn = stage.turn().await;
    assert_eq!(turn.text(), answered("proceed_once", "c"));
    let [_, asked] = &turn.asked[..] else { panic!("{:?}", turn.asked) };
    assert!(is_question(asked) && asked.caller == Caller::Agent);
    assert_eq!(asked.summary.label, "reviewer asks: make test");
    let description = format!(
        "The agent `reviewer` at {} asks before it uses its tool `run_shell_command`:\nIn /there:\nmake \
         test\nAllow it?",
        agent.url
    );
    let (agent_name, tool) = ("reviewer".to_owned(), "run_shell_command".to_owned());
    let scope = Scope::AgentTool { agent: agent_name.clone(), tool: tool.clone() };
    assert_eq!(asked.question.as_ref().unwrap().scopes, [scope]);
    let access = Access::AgentQuestion { agent: agent_name, tool, description, danger: false };
    assert_eq!(asked.access, access);
    let answer =
        &agent.made().into_iter().filter(|it| it.method == "message/stream").nth(1).unwrap();
    let message = &answer.params["message"];
    assert_eq!((&message["taskId"], &message["contextId"]), (&json!("t"), &json!("c")));
    assert!(
        turn.shown.iter().any(|it| it == "[run_shell_command: make test, pending]"),
        "{:?}",
        turn.shown
    );
}

#[tokio::test]
async fn a_no_is_sent_with_its_reason() {
    let agent = asking("warning").await;
    let stage = Stage::new(agent.config(), vec![ask("Test it.")]);
    let answer = |started: &CallStarted| {
        Some(if is_question(started) {
            Answer::RejectSaying("Not now.".to_owned())
        } else {
            Answer::Once { edited: None }
        })
    };
    let turn = stage.turn_answering(answer).await;
    assert_eq!(turn.text(), answered("cancel", "c"));
    let sent = agent.made().into_iter().filter(|it| it.method == "message/stream").nth(1).unwrap();
    assert_eq!(sent.params["message"]["parts"][1]["text"], "Not now.");
}

#[tokio::test]
async fn always_is_answered_here_the_next_time() {
    let agent = asking("warning").await;
    let stage = Stage::new(agent.config(), vec![ask("one"), ask("two")]);
    let always = |started: &CallStarted| {
        let scopes = &started.question.as_ref().unwrap().scopes;
        Some(Answer::Always(scopes[0].clone()))
    };
    assert_eq!(stage.turn_answering(always).await.asked.len(), 2);
    let second = stage.turn_answering(always).await;
    assert!(second.asked.is_empty());
    assert_eq!(second.text(), answered("proceed_once", "c"));
}

#[tokio::test]
async fn where_everything_is_allowed_it_is_answered_unasked() {
    let agent = asking("danger").await;
    let stage = Stage::with(agent.config(), limits(), Mode::Yolo, vec![ask("go")]);
    let turn = stage.turn().await;
    assert!(turn.asked.is_empty());
    assert_eq!(turn.text(), answered("proceed_once", "c"));
}

#[tokio::test]
async fn what_may_do_harm_has_no_always() {
    let agent = asking("danger").await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn = stage.turn().await;
    assert!(turn.asked[1].question.as_ref().unwrap().every_time());
}

#[tokio::test]
async fn several_questions_are_answered_together() {
    let agent = FakeAgent::new(developing(card_1()), |made| match &*made.method {
        "SendStreamingMessage" if chosen(made).is_empty() => {
            let parts = [call("x", "PENDING", "info"), call("y", "PENDING", "info")];
            let parts: Vec<_> =
                parts.iter().map(|call| json!({ "data": call[0]["data"] })).collect();
            events(vec![json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": {
                "state": "TASK_STATE_INPUT_REQUIRED", "message": { "parts": parts } } } })])
        }
        "SendStreamingMessage" => {
            let said = format!("{:?}", chosen(made));
            result(json!({ "message": { "contextId": "c", "parts": [{ "text": said }] } }))
        }
        _ => error(-32004, "not here"),
    });
    let agent = agent.await;
    let turn = Stage::new(agent.config(), vec![ask("go")]).turn().await;
    let said = r#"[("x", "proceed_once"), ("y", "proceed_once")]"#;
    assert_eq!((turn.asked.len(), turn.text()), (3, answered(said, "c")));
}

#[tokio::test]
async fn a_question_that_is_answered_there_is_withdrawn_here() {
    let mut follows = 0;
    let agent = FakeAgent::new(developing(card_03()), move |made| match &*made.method {
        "message/stream" => asks("x", "warning"),
        "tasks/resubscribe" => {
            follows += 1;
            let mut snapshot = task("input-required");
            snapshot["status"]["message"] =
                json!({ "role": "agent", "parts": call("x", "PENDING", "warning") });
            let goes_on =
                status_of("tool-call-update", "2.0", "working", call("x", "EXECUTING", "warning"));
            match follows {
                1 => {
                    raw(vec![Step::Send(event(&snapshot)), Step::Send(event(&goes_on)), Step::Hang])
                }
                _ => {
                    events(vec![task("working"), goes_on, status("completed", part("Done there."))])
                }
            }
        }
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn =
        stage.turn_answering(|started| once(started).filter(|_| !is_question(started))).await;
    assert_eq!(turn.text(), answered("Done there.", "c"));
    let question = &turn.asked[1].call.id;
    let withdrawn = turn.events.iter().any(|event| {
        matches!(&**event, Event::QuestionClosed { call, answer: None } if call == question)
    });
    assert!(withdrawn);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_there_ends_nothing() {
    let mut refused = false;
    let agent = FakeAgent::new(developing(card_03()), move |made| match &*made.method {
        "message/stream" if chosen(made).is_empty() => asks("x", "warning"),
        "message/stream" => {
            refused = true;
            error(-32602, "tool call x is not awaiting confirmation")
        }
        "tasks/resubscribe" if refused => {
            events(vec![task("working"), status("completed", part("Done."))])
        }
        "tasks/resubscribe" => error(-32004, "not yet"),
        other => panic!("{other}"),
    });
    let agent = agent.await;
    let turn = Stage::new(agent.config(), vec![ask("go")]).turn().await;
    assert_eq!(turn.text(), answered("Done.", "c"));
}

#[tokio::test]
async fn a_cancel_withdraws_the_question_and_cancels_there() {
    let agent = asking("warning").await;
    let stage = Stage::new(agent.config(), vec![ask("go")]);
    let turn = stage.begin();
    let cancelled = stage.follow(turn, |started| {
        if is_question(started) {
            assert!(stage.session.cancel(turn));
            return None;
        }
        once(started)
    });
    let cancelled = cancelled.await;
    assert_eq!(cancelled.outcome(), ToolOutcome::Cancelled);
    assert_eq!(agent.called("tasks/cancel").await.params, json!({ "id": "t" }));
}
