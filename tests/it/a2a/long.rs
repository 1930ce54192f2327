//! Long conversations, and conversations in loops, as each front end shows them.

use expect_test::expect;
use serde_json::{Value, json};

use super::server::{Client, answer, asks, ends, shared, tool_call};
use super::socket::Socket;
use crate::agent::Setup;
use crate::terminal::Terminal;

/// Lets a client follow the session, and a terminal if there is tmux.
async fn watch(client: Client) -> (Socket, Option<Terminal>) {
    let mut socket = client.socket().await;
    socket.call(1, "commands/get", json!({})).await;
    let terminal = Terminal::open();
    if let Some(terminal) = &terminal {
        terminal.agent("", &format!("attach {}", client.port));
        terminal.until("attached to");
    }
    (socket, terminal)
}

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
    let (mut socket, terminal) = watch(it.client).await;
    let id = it.editor.prompt("/compress").await;
    let read = it.editor.until_answered(id, "allow").await;
    let thoughts = read.iter().filter_map(|it| it["params"]["chunk"]["thought"].as_str());
    let thoughts = thoughts.collect::<String>();
    let sizes = regex::Regex::new(r"\d+k").unwrap();
    expect![[r#"
        **Note** Compressing the conversation of Nk tokens
        **Note** context compressed from Nk to Nk tokens
    "#]]
    .assert_eq(&sizes.replace_all(&thoughts, "Nk"));
    expect![
        "A summary takes the place of the older messages. The newest messages and your own words stay as they \
         were."
    ]
    .assert_eq(&crate::agent::text(&read));
    let events: Vec<Value> = socket.events(ends).await;
    let notes = Value::from(events).to_string();
    assert!(notes.contains("Compressing the conversation of "), "{notes}");
    assert!(notes.contains("context compressed from "), "{notes}");
    if let Some(terminal) = terminal {
        terminal.until("context compressed from ");
    }
}

#[tokio::test]
async fn whoever_watches_is_asked_whether_a_model_that_repeats_itself_may_go_on() {
    let babble = json!({ "repeat": { "text": "Let me look at it once more. ", "times": 1000 } });
    let mut it = shared(&Setup::answers(json!([[babble]]))).await;
    let (mut socket, terminal) = watch(it.client).await;
    let id = it.editor.prompt("go").await;
    let question = it.editor.call_of("requestToolCallConfirmation").await;
    let described = &question["params"]["confirmation"]["description"];
    expect![[r#"
        The model repeats itself: the same text again and again.
        The model has been told, and has not stopped. Let the model go on?

        Asked because the model has been told that it repeats itself, and goes on [built-in rule repetition]

        - Allow: Yes, go on
        - Reject: No, end the turn"#]]
    .assert_eq(described.as_str().unwrap());
    if let Some(terminal) = &terminal {
        terminal.until("Let the model go on?");
    }
    let events = socket.events(asks).await;
    let asked = tool_call(events.last().unwrap());
    let request = &asked["confirmation_request"];
    assert_eq!(request["title"], "Let the model go on, although it repeats itself", "{request}");
    assert!(
        request["options"].to_string().contains("going on when the model repeats"),
        "{request}"
    );
    socket.send(2, "message/send", answer(&asked["tool_call_id"], "cancel")).await;
    it.editor.answer(&question, json!({ "id": 1, "outcome": "reject" })).await;
    let said = Value::from(it.editor.until_answered(id, "reject").await).to_string();
    let why = "Stopped, because the model repeated itself: the same text again and again.";
    assert!(said.contains(why), "{said}");
    let events = Value::from(socket.events(ends).await).to_string();
    assert!(events.contains(why), "{events}");
    if let Some(terminal) = terminal {
        terminal.until("the model repeated itself");
    }
}
