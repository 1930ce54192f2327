//! Questions of the model to the editor's user.

use serde_json::{Value, json};

use super::{Editor, stop_reason, updates};
use crate::agent::Setup;

/// A model that asks a question in each of two turns.
fn asks() -> Setup {
    let questions = json!([{
        "question": "Which colour?",
        "header": "Colour",
        "options": [{ "label": "Red", "description": "Warm" }, { "label": "Blue" }],
    }]);
    let call = json!({ "call": { "name": "ask_user", "args": { "questions": questions } } });
    let done = json!({ "text": "done" });
    Setup::answers(json!([[call], [done], [call], [done]]))
}

/// Starts an editor that shows forms, and runs a prompt until the form comes. Returns the prompt's id, and the form.
async fn form() -> (Editor, u64, Value) {
    let capabilities = json!({ "elicitation": { "form": {} } });
    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let mut editor = Editor::with(&asks(), initialize).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    let form = editor.sent("elicitation/create").await;
    (editor, id, form)
}

/// Returns the text and the status that the call of a form with this answer ends with.
async fn ended(answer: Value) -> (String, Value) {
    let (mut editor, id, form) = form().await;
    editor.agent.answer(&form, answer).await;
    end(&editor.until(id).await)
}

fn end(read: &[Value]) -> (String, Value) {
    assert_eq!(stop_reason(read), "end_turn");
    let last = updates(read, "tool_call_update").pop().unwrap();
    let text = last["content"][0]["content"]["text"].as_str().unwrap_or_default();
    (text.to_owned(), last["status"].clone())
}

#[tokio::test]
async fn a_form_has_the_options_and_a_field_for_a_text() {
    let (_, _, form) = form().await;
    let params = &form["params"];
    assert_eq!((&params["mode"], &params["message"]), (&json!("form"), &json!("Which colour?")));
    let fields = &params["requestedSchema"]["properties"];
    let options = json!([
        { "const": "Red", "title": "Red", "description": "Warm" },
        { "const": "Blue", "title": "Blue" },
    ]);
    assert_eq!(fields["question_0"]["oneOf"], options);
    assert_eq!(fields["question_0_custom"]["type"], "string");
    assert_eq!(params["requestedSchema"]["required"], Value::Null);
}

#[tokio::test]
async fn what_is_filled_in_is_the_answer() {
    let accept = |content: Value| json!({ "action": "accept", "content": content });
    for (content, answer) in [
        (json!({ "question_0": "Blue" }), "Blue"),
        (json!({ "question_0_custom": " green " }), "green"),
        (json!({ "question_0": "Red", "question_0_custom": "but dark" }), "Red: but dark"),
    ] {
        let (text, status) = ended(accept(content)).await;
        assert_eq!(text, format!("```\nWhich colour?\nAnswer: {answer}\n```"));
        assert_eq!(status, "completed");
    }
    for answer in [accept(json!({})), json!({ "action": "decline" }), json!({ "action": "cancel" })]
    {
        assert_eq!(ended(answer).await, ("Rejected".to_owned(), json!("failed")));
    }
    let (text, _) = ended(accept(json!({ "question_0": 1 }))).await;
    assert!(text.contains("the answer to question 1 is no text"), "{text}");
}

#[tokio::test]
async fn an_editor_that_refuses_the_form_is_shown_a_choice() {
    let (mut editor, id, form) = form().await;
    let error = json!({ "code": -32601, "message": "Method not found" });
    let refusal = json!({ "jsonrpc": "2.0", "id": form["id"], "error": error });
    editor.agent.send_line(&refusal.to_string()).await;
    let read = editor.until_with(id, "1").await;
    assert_eq!(end(&read).0, "```\nWhich colour?\nAnswer: Blue\n```");
}

#[tokio::test]
async fn a_dismissed_choice_keeps_the_answers_before_it() {
    let question = |text: &str| json!({ "question": text, "options": ["Red", "Blue"] });
    let questions = json!([question("Door?"), question("Wall?"), question("Roof?")]);
    let call = json!({ "call": { "name": "ask_user", "args": { "questions": questions } } });
    let mut editor = Editor::start(&Setup::answers(json!([[call], [{ "text": "done" }]]))).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    for outcome in
        [json!({ "outcome": "selected", "optionId": "1" }), json!({ "outcome": "cancelled" })]
    {
        let choice = editor.sent("session/request_permission").await;
        editor.agent.answer(&choice, json!({ "outcome": outcome })).await;
    }
    let (text, status) = end(&editor.until(id).await);
    let answers = "Door?\nAnswer: Blue\n\nWall?\nAnswer: (no answer)\n\nRoof?\nAnswer: (no answer)";
    assert_eq!((text, status), (format!("```\n{answers}\n```"), json!("completed")));
}

#[tokio::test]
async fn a_cancelled_turn_withdraws_the_form() {
    let (mut editor, _, form) = form().await;
    let session = form["params"]["sessionId"].clone();
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    let withdrawn = editor.sent("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], form["id"]);
}

#[tokio::test]
async fn a_question_and_its_answer_are_shown_after_a_kill() {
    let setup = asks();
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    editor.until_with(id, "1").await;
    editor.prompt(&session, "go on").await;
    editor.sent("session/request_permission").await;
    let mut editor = editor.killed_and_started_again(&setup).await;
    let load = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    let id = editor.request("session/load", load).await;
    let calls = updates(&editor.until(id).await, "tool_call");
    let [answered, open] = &calls[..] else { panic!("{calls:?}") };
    let shown = |call: &Value| call["content"][0]["content"]["text"].clone();
    assert_eq!(answered["title"], "Ask: Which colour?");
    assert_eq!(shown(answered), "```\nWhich colour?\nAnswer: Blue\n```");
    assert_eq!((&open["title"], shown(open)), (&answered["title"], json!("Interrupted")));
}
