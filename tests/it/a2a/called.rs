//! Two agents of this program, one of which calls the other.

use std::fs;

use serde_json::json;
use tandem_a2a_client::AgentConfig;
use tandem_agent::session::{Answer, CallStarted, Event, Origin, ToolOutcome};
use test_fakes::call_agent::{Stage, ask, ask_in, once, reviewer};

use super::server::{Served, answer as answer_there, serve, tool_call, within};
use crate::agent::Setup;
use crate::limit::in_time;

/// Returns the settings with which another tandem calls this server as an agent.
fn config(it: &Served) -> AgentConfig {
    reviewer(&format!("http://127.0.0.1:{}/", it.client.port))
}

fn writing() -> Setup {
    let args = json!({ "file_path": "a.txt", "content": "new\n" });
    let call = json!({ "call": { "name": "write_file", "args": args } });
    Setup::answers(json!([[{ "text": "I write it." }, call], [{ "text": "It is written." }]]))
}

fn is_question(started: &CallStarted) -> bool {
    started.call.name == "answer_agent"
}

/// Returns the context that an answer ends with.
fn context(text: &str) -> String {
    let (_, rest) = text.split_once("with the context `").expect(text);
    rest.trim_end_matches("`.").to_owned()
}

#[tokio::test]
async fn the_text_of_the_other_is_shown_live_and_its_context_goes_on() {
    let there = Setup::script(vec![
        json!({ "when": "first", "answers": [[{ "text": "Read" }, { "text": "ing. " }, { "hang": null }]] }),
        json!({ "when": "second", "answers": [[{ "text": "Fine." }]] }),
        json!({ "when": "third", "answers": [[{ "text": "Sure." }]] }),
    ]);
    let it = serve(&there).await;
    let stage = Stage::new(config(&it), vec![ask("first")]);
    let turn = stage.begin();
    let (ended, ()) = tokio::join!(stage.follow(turn, once), async {
        stage.shows("Reading.").await;
        assert!(stage.session.cancel(turn));
    });
    assert_eq!(ended.outcome(), ToolOutcome::Cancelled);
    let stage = Stage::new(config(&it), vec![ask("second")]);
    let text = stage.turn().await.text();
    assert!(text.contains("<agent_output>\nFine.\n</agent_output>"), "{text}");
    let context = context(&text);
    // Another session knows the remote context only by its name.
    let stage = Stage::new(config(&it), vec![ask_in(&context, "third")]);
    let text = stage.turn().await.text();
    assert!(text.contains("\nSure.\n") && text.contains(&context), "{text}");
    let task = it.client.result("tasks/get", json!({ "id": context })).await;
    let history = task["history"].to_string();
    assert!(history.contains("second") && history.contains("third"), "{history}");
}

#[tokio::test]
async fn a_cancel_here_ends_the_turn_there() {
    let there = Setup::answers(json!([[{ "text": "Begun." }, { "hang": null }]]));
    let it = serve(&there).await;
    let stage = Stage::new(config(&it), vec![ask("go")]);
    let turn = stage.begin();
    let (ended, ()) = tokio::join!(stage.follow(turn, once), async {
        stage.shows("Begun.").await;
        assert!(stage.session.cancel(turn));
    });
    assert_eq!(ended.outcome(), ToolOutcome::Cancelled);
    let listed = it.client.result("ListTasks", json!({})).await;
    let id = &listed["tasks"][0]["id"];
    // The remote task has ended, or is about to end.
    let ended = async {
        loop {
            let task = it.client.result("GetTask", json!({ "id": id })).await;
            if task["status"]["state"] != "TASK_STATE_WORKING" {
                return task;
            }
            tokio::task::yield_now().await;
        }
    };
    let task = in_time(ended).await.expect("the task works on");
    assert_eq!(task["status"]["state"], "TASK_STATE_CANCELED");
}

#[tokio::test]
async fn a_yes_here_lets_the_other_write_there() {
    let it = serve(&writing()).await;
    let stage = Stage::new(config(&it), vec![ask("write")]);
    let turn = stage.turn().await;
    let text = turn.text();
    let end = "## response\nIt is written.\n\nFiles that it has changed, where it works:\n- a.txt\n</agent_output>";
    assert!(text.contains(end), "{text}");
    // The result has the new file's content once, and no diff: the file is new.
    assert!(text.contains("## a.txt\na.txt (text/plain, about"), "{text}");
    assert_eq!((text.matches("new\n").count(), text.matches("+new").count()), (1, 0), "{text}");
    let question = turn.asked.iter().find(|started| is_question(started)).unwrap();
    let shown = format!("{:?}", question.access);
    assert!(shown.contains("write_file") && shown.contains("+new"), "{shown}");
    let written = fs::read_to_string(it.home.path().join("workspace/a.txt")).unwrap();
    assert_eq!(written, "new\n");
}

#[tokio::test]
async fn after_a_no_here_nothing_is_written_there() {
    let it = serve(&writing()).await;
    let stage = Stage::new(config(&it), vec![ask("write")]);
    let no = |started: &CallStarted| {
        if is_question(started) { Some(Answer::Reject) } else { once(started) }
    };
    let text = stage.turn_answering(no).await.text();
    assert!(text.contains("It is written."), "{text}");
    assert!(!it.home.path().join("workspace/a.txt").exists());
}

#[tokio::test]
async fn whoever_answers_there_first_is_who_counts() {
    let it = serve(&writing()).await;
    let stage = Stage::new(config(&it), vec![ask("write")]);
    let turn = stage.begin();
    let unanswered = |started: &CallStarted| once(started).filter(|_| !is_question(started));
    let (ended, ()) = tokio::join!(stage.follow(turn, unanswered), async {
        stage.shows("pending]").await;
        let id = it.client.get("/tasks/metadata").await.json()[0]["id"].clone();
        let asked = it.client.result("tasks/get", json!({ "id": id })).await;
        let yes = answer_there(&tool_call(&asked)["tool_call_id"], "proceed_once");
        it.client.result("message/send", within(&id, yes)).await;
    });
    assert!(ended.text().contains("It is written."), "{}", ended.text());
    let question = ended.asked.iter().find(|started| is_question(started)).unwrap();
    let id = &question.call.id;
    let closed = ended.events.iter().any(
        |event| matches!(&**event, Event::QuestionClosed { call, answer: None } if call == id),
    );
    assert!(closed);
    let late = stage.session.answer(id, Answer::Reject, Origin::Editor);
    assert!(late.is_err());
}

#[tokio::test]
async fn two_processes_find_each_other_by_their_settings() {
    let there = Setup::answers(json!([[{ "text": "No faults." }]]))
        .var("TANDEM_A2A_TOKEN", "a-long-secret");
    let it = serve(&there).await;
    let args = json!({ "agent": "reviewer", "message": "Review it." });
    let call = json!([{ "call": { "name": "call_agent", "args": args } }]);
    let settings = json!({ "a2aServers": { "reviewer": {
        "url": format!("http://127.0.0.1:{}", it.client.port), "token": "$REVIEWER_TOKEN", "trust": true,
    } } });
    let here = Setup::answers(json!([call, [{ "text": "Asked." }]]))
        .file(".gemini/settings.json", &settings.to_string())
        .var("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .arg("-p")
        .arg("go")
        .arg("--output-format")
        .arg("stream-json");
    let ran = here.clone().var("REVIEWER_TOKEN", "a-long-secret").run().await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("No faults."), "{}", ran.stdout);
    let wrong = here.clone().var("REVIEWER_TOKEN", "another-secret").run().await;
    assert!(wrong.stdout.contains("does not accept the credentials"), "{}", wrong.stdout);
    assert!(!wrong.stdout.contains("another-secret"));
    let unset = here.run().await;
    assert!(
        unset.stdout.contains("`token` names the variable $REVIEWER_TOKEN, which is not set"),
        "{}",
        unset.stdout
    );
}
