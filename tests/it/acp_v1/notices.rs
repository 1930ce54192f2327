//! Texts for people and not for the model: notices and compressions, for editors that can show them.

use serde_json::{Value, json};

use super::{Editor, text, updates};
use crate::agent::{Setup, code};

fn setup() -> Setup {
    let retry = json!({ "reason": "rate limited", "delay": 1, "attempt": 2, "of": 10 });
    Setup::answers(json!([[{ "retry": retry }, { "text": "fine" }]]))
}

/// Starts an editor with these capabilities, and a session with an MCP server that does not exist.
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

/// Compresses a conversation, in an editor with these capabilities. Returns the messages of the compression, and
/// those of loading the session afterwards.
async fn compress(session: Value) -> [Vec<Value>; 2] {
    let snapshot = json!([[{ "text": "<snapshot>Said much.</snapshot>" }]]);
    let script = vec![
        json!({ "when": "Write the snapshot", "answers": snapshot }),
        json!({ "when": "", "answers": [[{ "text": code(20_000) }]] }),
    ];
    let capabilities = json!({ "session": session });
    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let mut editor = Editor::with(&Setup::script(script), initialize).await;
    let session = editor.session().await;
    for prompt in ["one", "two", "three", "four"] {
        editor.ask(&session, prompt).await;
    }
    let live = editor.ask(&session, "/compress").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    let id = editor.request("session/load", params).await;
    [live, editor.until(id).await]
}

#[tokio::test]
async fn an_editor_that_takes_compactions_has_them_at_their_place_with_the_summary() {
    let [live, loaded] = compress(json!({ "compaction": {}, "notices": {} })).await;
    let shown = updates(&live, "compaction_update");
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0]["status"], "completed");
    assert!(shown[0]["summary"][0]["text"].as_str().unwrap().contains("Said much."), "{shown:?}");
    assert_eq!(updates(&loaded, "compaction_update"), shown, "it is part of the conversation");
    let place = |kind: &str| {
        loaded.iter().rposition(|message| message["params"]["update"]["sessionUpdate"] == kind)
    };
    assert!(place("compaction_update") > place("user_message_chunk"));
}

#[tokio::test]
async fn other_editors_have_compactions_as_thoughts() {
    for read in compress(json!({})).await {
        assert!(updates(&read, "compaction_update").is_empty());
        let thoughts = text(&read, "agent_thought_chunk");
        assert!(thoughts.contains("context compressed from"), "{thoughts}");
    }
}
