//! Questions about calls.

use serde_json::{Value, json};

use super::{Editor, stop_reason, updates};
use crate::agent::Setup;
use crate::needs::{Need, lacking};
use crate::sandboxed::{REASON, outside};

fn writes() -> Setup {
    let args = json!({ "file_path": "a.txt", "content": "new\n" });
    let call = json!({ "call": { "name": "write_file", "args": args } });
    Setup::answers(json!([[call], [{ "text": "done" }]]))
}

fn reads_notes() -> Setup {
    let read =
        |name: &str| json!({ "call": { "name": "read_file", "args": { "file_path": name } } });
    let (diary, list) = (read("../notes/diary.md"), read("../notes/list.md"));
    Setup::answers(json!([[diary], [list], [{ "text": "done" }]]))
        .without_sandbox()
        .file("../notes/diary.md", "Dear diary\n")
        .file("../notes/list.md", "Milk\n")
}

/// Runs a prompt whose call is asked about; the question, and all that was read.
async fn asked(editor: &mut Editor, option: &str) -> (Value, Vec<Value>) {
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    let read = editor.until_with(id, option).await;
    let question = read.iter().find(|it| it["method"] == "session/request_permission");
    (question.unwrap()["params"].clone(), read)
}

fn kinds(question: &Value) -> Vec<&str> {
    let options = question["options"].as_array().unwrap();
    options.iter().map(|option| option["kind"].as_str().unwrap()).collect()
}

fn last_status(read: &[Value]) -> Value {
    updates(read, "tool_call_update").last().unwrap()["status"].clone()
}

#[tokio::test]
pub(super) async fn a_change_is_announced_and_asked_about_and_made() {
    let mut editor = Editor::start(&writes()).await;
    let (question, read) = asked(&mut editor, "once").await;
    let path = editor.cwd().join("a.txt");
    let call = &updates(&read, "tool_call")[0];
    assert_eq!(call["status"], "pending");
    let diff = json!({ "type": "diff", "path": path, "oldText": null, "newText": "new\n" });
    assert_eq!(call["content"][0], diff);
    assert_eq!(question["toolCall"]["toolCallId"], call["toolCallId"]);
    assert_eq!(question["toolCall"]["content"][0], diff);
    assert_eq!(question["toolCall"]["locations"], json!([{ "path": path }]));
    assert_eq!(question["toolCall"]["status"], "pending");
    let changes = updates(&read, "tool_call_update");
    assert_eq!(changes[0]["status"], "in_progress");
    assert_eq!(changes[1]["status"], "completed");
    assert_eq!(changes[1]["content"][0], diff);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "new\n");
    assert_eq!(stop_reason(&read), "end_turn");
}

#[tokio::test]
async fn there_is_one_answer_of_a_kind_unless_the_editor_shows_their_names() {
    let mut editor = Editor::start(&writes()).await;
    let (question, _) = asked(&mut editor, "reject").await;
    assert_eq!(kinds(&question), ["allow_once", "allow_always", "reject_once"]);
    let name = question["options"][1]["name"].as_str().unwrap();
    assert!(name.contains("all edits in the workspace"), "{name}");
    let client = json!({ "name": "zed", "version": "1" });
    let initialize = json!({ "protocolVersion": 1, "clientInfo": client });
    let mut editor = Editor::with(&writes(), initialize).await;
    let (question, _) = asked(&mut editor, "reject").await;
    assert!(kinds(&question).len() > 3, "{question}");
}

#[tokio::test]
pub(super) async fn always_is_not_asked_again() {
    let mut editor = Editor::start(&writes()).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    editor.until_with(id, "always:0").await;
    let read = editor.ask(&session, "again").await;
    let question = read.iter().find(|it| it["method"] == "session/request_permission");
    assert!(question.is_none());
}

#[tokio::test]
async fn a_file_of_the_home_is_asked_about_by_its_path_and_an_always_is_for_its_folder() {
    for (option, questions, statuses) in [
        ("once", 2, ["completed", "completed"]),
        ("always:0", 1, ["completed", "completed"]),
        ("reject", 2, ["failed", "failed"]),
    ] {
        let mut editor = Editor::start(&reads_notes()).await;
        let (question, read) = asked(&mut editor, option).await;
        let notes = editor.cwd().parent().unwrap().join("notes");
        let said = question["toolCall"].to_string();
        assert!(said.contains(notes.join("diary.md").to_str().unwrap()), "{said}");
        assert_eq!(kinds(&question), ["allow_once", "allow_always", "reject_once"]);
        let always = question["options"][1]["name"].as_str().unwrap();
        assert!(always.contains(&format!("reading `{}`", notes.display())), "{always}");
        let is_question = |it: &&Value| it["method"] == "session/request_permission";
        assert_eq!(read.iter().filter(is_question).count(), questions, "{option}");
        let ended = updates(&read, "tool_call_update").into_iter();
        let ended = ended.filter(|it| it["status"] == "completed" || it["status"] == "failed");
        assert_eq!(ended.map(|it| it["status"].clone()).collect::<Vec<_>>(), statuses, "{option}");
    }
}

#[tokio::test]
async fn a_call_that_is_not_allowed_fails_and_does_nothing() {
    for option in ["reject", "no such option"] {
        let mut editor = Editor::start(&writes()).await;
        let (_, read) = asked(&mut editor, option).await;
        assert_eq!(last_status(&read), "failed", "{option}");
        assert!(!editor.cwd().join("a.txt").exists());
        assert_eq!(stop_reason(&read), "end_turn");
    }
}

#[tokio::test]
async fn an_answer_that_is_none_allows_nothing() {
    for answer in [
        json!({ "result": { "outcome": { "outcome": "cancelled" } } }),
        json!({ "error": { "code": -32601, "message": "Method not found" } }),
        json!({ "result": {} }),
        json!({ "result": null }),
    ] {
        let mut editor = Editor::start(&writes()).await;
        let session = editor.session().await;
        let id = editor.prompt(&session, "go").await;
        let question = editor.sent("session/request_permission").await;
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = question["id"].clone();
        editor.agent.send_line(&answer.to_string()).await;
        let read = editor.until(id).await;
        assert_eq!(last_status(&read), "failed", "{answer}");
        assert!(!editor.cwd().join("a.txt").exists());
    }
}

#[tokio::test]
async fn a_cancel_withdraws_the_question_and_a_late_answer_does_nothing() {
    let mut editor = Editor::start(&writes()).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    let question = editor.sent("session/request_permission").await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    let read = editor.until(id).await;
    assert_eq!(stop_reason(&read), "cancelled");
    assert_eq!(last_status(&read), "failed");
    let withdrawn = read.iter().find(|it| it["method"] == "$/cancel_request").unwrap();
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    editor.choose(&question, "once").await;
    let read = editor.ask(&session, "/about").await;
    assert_eq!(stop_reason(&read), "end_turn");
    assert!(!editor.cwd().join("a.txt").exists());
}

#[tokio::test]
async fn the_models_reason_to_leave_the_sandbox_is_shown() {
    if lacking(Need::Sandbox) {
        return;
    }
    let answers = json!([[outside("touch a.txt")], [{ "text": "done" }]]);
    let mut editor = Editor::start(&Setup::answers(answers)).await;
    let (question, _) = asked(&mut editor, "reject").await;
    let shown = question.to_string();
    assert!(shown.contains("outside the sandbox; the model says:"), "{shown}");
    assert!(shown.contains(REASON), "{shown}");
    let always = question["options"][1]["name"].as_str().unwrap();
    assert!(always.ends_with("commands that begin with `touch`, outside the sandbox"), "{always}");
}
