//! A conversation that is compressed, as each front end shows it.

use serde_json::{Value, json};

use super::server::{ends, shared};
use crate::agent::Setup;
use crate::terminal::Terminal;

#[tokio::test]
async fn the_editor_a_client_and_a_terminal_see_that_a_conversation_was_compressed() {
    let filler = json!({ "repeat": { "text": "word {n} ", "times": 1000 } });
    let snapshot = json!({ "text": "<state_snapshot>\nAll is well.\n</state_snapshot>" });
    let script = vec![
        json!({ "when": "Write the snapshot", "answers": [[snapshot]] }),
        json!({ "when": "go", "answers": [[filler]] }),
    ];
    let mut it = shared(&Setup::script(script)).await;
    for _ in 0..2 {
        let id = it.editor.prompt("go").await;
        it.editor.until_answered(id, "allow").await;
    }
    let mut socket = it.client.socket().await;
    socket.call(1, "commands/get", json!({})).await;
    let terminal = Terminal::open();
    if let Some(terminal) = &terminal {
        terminal.agent("", &format!("attach {}", it.client.port));
        terminal.until("attached to");
    }
    let id = it.editor.prompt("/compress").await;
    let said = Value::from(it.editor.until_answered(id, "allow").await).to_string();
    assert!(said.contains("**Note** context compressed from "), "{said}");
    assert!(said.contains("The newest messages are as they were"), "{said}");
    let events: Vec<Value> = socket.events(ends).await;
    let notes = Value::from(events).to_string();
    assert!(notes.contains("Compressing the conversation of "), "{notes}");
    assert!(notes.contains("context compressed from "), "{notes}");
    if let Some(terminal) = terminal {
        terminal.until("context compressed from ");
    }
}
