//! What people should know and the model need not: notices of editors that take them.

use serde_json::{Value, json};

use super::{Editor, text, updates};
use crate::agent::Setup;

fn setup() -> Setup {
    let retry = json!({ "reason": "rate limited", "delay": 1, "attempt": 2, "of": 10 });
    Setup::answers(json!([[{ "retry": retry }, { "text": "fine" }]]))
}

/// An editor with these capabilities for sessions, and a session with a server that is not there.
async fn editor(session: Value) -> (Editor, String) {
    let capabilities = json!({ "session": session });
    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let mut editor = Editor::with(&setup(), initialize).await;
    let server = json!({ "name": "gone", "command": "/no/such/program", "args": [], "env": [] });
    let params = json!({ "cwd": editor.cwd(), "mcpServers": [server] });
    let new = editor.call("session/new", params).await;
    let id = new["result"]["sessionId"].as_str().unwrap().to_owned();
    (editor, id)
}

#[tokio::test]
async fn an_editor_that_takes_notices_has_them_once_and_not_as_thoughts() {
    let (mut editor, session) = editor(json!({ "notices": {} })).await;
    let read = editor.ask(&session, "go").await;
    assert_eq!(text(&read, "agent_thought_chunk"), "");
    let shown = updates(&read, "notice");
    let of = |severity: &str| shown.iter().filter(|it| it["severity"] == severity).count();
    assert_eq!((of("warning"), of("info")), (1, shown.len() - 1));
    assert!(shown.iter().any(|it| it["title"].as_str().unwrap().contains("gone")), "{shown:?}");
    let retry = shown.iter().find(|it| it["severity"] == "warning").unwrap();
    assert!(retry["title"].as_str().unwrap().ends_with("rate limited"), "{retry}");
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    let id = editor.request("session/load", params).await;
    let read = editor.until(id).await;
    assert!(updates(&read, "notice").is_empty(), "they are no part of the conversation");
    assert_eq!(text(&read, "agent_thought_chunk"), "");
}

#[tokio::test]
async fn other_editors_have_them_as_thoughts() {
    for capabilities in [json!({}), json!({ "notices": null }), json!({ "notices": true })] {
        let (mut editor, session) = editor(capabilities).await;
        let read = editor.ask(&session, "go").await;
        assert!(updates(&read, "notice").is_empty());
        let thoughts = text(&read, "agent_thought_chunk");
        assert!(thoughts.contains("rate limited") && thoughts.contains("gone"), "{thoughts}");
    }
}
