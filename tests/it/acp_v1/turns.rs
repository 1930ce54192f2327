//! Prompts, and the turns that editors are shown.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Editor, stop_reason, text, updates};
use crate::agent::{Setup, code};

fn says(text: &str) -> Setup {
    Setup::answers(json!([[{ "text": text }]]))
}

#[tokio::test]
async fn a_turn_is_shown_whole_before_its_prompt_is_answered() {
    let answers = json!([[{ "thought": "**Plan** hm" }, { "text": "Hello, " }, { "text": "you" }]]);
    let mut editor = Editor::start(&Setup::answers(answers)).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "say hello").await;
    assert_eq!(text(&read, "agent_thought_chunk"), "**Plan** hm");
    assert_eq!(text(&read, "agent_message_chunk"), "Hello, you");
    assert!(updates(&read, "user_message_chunk").is_empty(), "it knows what it has sent");
    assert_eq!(stop_reason(&read), "end_turn");
    let ids: Vec<Value> =
        read.iter().map(|it| it["params"]["update"]["messageId"].clone()).collect();
    let said: Vec<_> = ids.iter().filter(|id| id.is_string()).collect();
    assert_eq!(said, ["1.0t", "1.0", "1.0"]);
    let info = updates(&read, "session_info_update");
    assert_eq!(info[0]["title"], "say hello");
    let again = editor.ask(&session, "again").await;
    assert!(updates(&again, "session_info_update").is_empty(), "the title is known");
    assert_eq!(updates(&again, "agent_message_chunk")[0]["messageId"], "2.0");
}

#[tokio::test]
pub(super) async fn a_long_answer_is_whole() {
    let long = code(300_000);
    let mut editor = Editor::start(&says(&long)).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "go").await;
    assert_eq!(text(&read, "agent_message_chunk"), long);
}

#[tokio::test]
pub(super) async fn content_that_the_editor_has_read_goes_with_the_prompt() {
    let script = vec![
        json!({ "when": "unsaved words", "answers": [[{ "text": "seen" }]] }),
        json!({ "when": "on the disk", "answers": [[{ "text": "read" }]] }),
        json!({ "when": "", "answers": [[{ "text": "not seen" }]] }),
    ];
    let setup = Setup::script(script).file("a.txt", "on the disk\n");
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let uri = format!("file://{}/a.txt", editor.cwd().display());
    for (block, expected) in [
        (
            json!({ "type": "resource", "resource": { "uri": uri, "text": "unsaved words" } }),
            "seen",
        ),
        (json!({ "type": "resource_link", "uri": uri, "name": "a.txt" }), "read"),
        (json!({ "type": "resource_link", "uri": "https://x.invalid/", "name": "x" }), "not seen"),
    ] {
        let prompt = json!([{ "type": "text", "text": "look " }, block]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        let id = editor.request("session/prompt", params).await;
        let read = editor.until(id).await;
        assert_eq!(text(&read, "agent_message_chunk"), expected, "{prompt}");
    }
}

fn image(data: &str) -> Value {
    json!({ "type": "image", "mimeType": "image/png", "data": data })
}

#[tokio::test]
async fn images_go_with_the_prompt_and_are_there_after_a_restart() {
    let mut editor = Editor::start(&says("a dot")).await;
    assert_eq!(editor.initialized["agentCapabilities"]["promptCapabilities"]["image"], true);
    let session = editor.session().await;
    let prompt = json!([{ "type": "text", "text": "what is " }, image("iVBORw0KGgpy")]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let id = editor.request("session/prompt", params).await;
    assert_eq!(stop_reason(&editor.until(id).await), "end_turn");
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    let id = editor.request("session/load", params).await;
    assert_eq!(text(&editor.until(id).await, "user_message_chunk"), "what is [image]");
}

#[tokio::test]
async fn prompts_that_cannot_be_taken_are_refused() {
    let mut editor = Editor::start(&says("no")).await;
    let session = editor.session().await;
    for (params, code) in [
        (json!({ "sessionId": session, "prompt": [] }), -32602),
        (json!({ "sessionId": session, "prompt": "hello" }), -32602),
        (json!({ "sessionId": session }), -32602),
        (json!({ "sessionId": session, "prompt": [{ "type": "image", "data": "" }] }), -32602),
        (json!({ "sessionId": session, "prompt": [image("PGh0bWw+")] }), -32602),
        (json!({ "sessionId": "none", "prompt": [{ "type": "text", "text": "x" }] }), -32002),
    ] {
        let answer = editor.call("session/prompt", params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{params}");
    }
}

#[tokio::test]
async fn calls_are_shown_from_their_beginning_to_their_end() {
    let read = json!({ "call": { "name": "read_file", "args": { "file_path": "a.txt" } } });
    let setup = Setup::answers(json!([[read], [{ "text": "done" }]])).file("a.txt", "x\n");
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let path = editor.cwd().join("a.txt");
    let read = editor.ask(&session, "go").await;
    let call = &updates(&read, "tool_call")[0];
    assert_eq!(call["title"], "Read a.txt");
    assert_eq!(call["kind"], "read");
    assert_eq!(call["name"], "read_file");
    assert_eq!(call["status"], "in_progress");
    assert_eq!(call["locations"][0]["path"], path.to_str().unwrap());
    assert_eq!(call["rawInput"], json!({ "file_path": "a.txt" }));
    let ends = updates(&read, "tool_call_update");
    assert_eq!(ends.last().unwrap()["status"], "completed");
    assert_eq!(ends.last().unwrap()["toolCallId"], call["toolCallId"]);
}

#[tokio::test]
async fn the_todo_list_is_the_plan() {
    let todos = json!([
        { "description": "one", "status": "in_progress" },
        { "description": "two", "status": "pending" },
        { "description": "three", "status": "cancelled" },
    ]);
    let call = json!({ "call": { "name": "write_todos", "args": { "todos": todos } } });
    let mut editor = Editor::start(&Setup::answers(json!([[call], [{ "text": "ok" }]]))).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "go").await;
    let entry = |content: &str, status: &str| json!({ "content": content, "priority": "medium", "status": status });
    let entries = json!([entry("one", "in_progress"), entry("two", "pending")]);
    assert_eq!(updates(&read, "plan")[0]["entries"], entries);
    assert!(updates(&read, "tool_call").is_empty());
}

#[tokio::test]
async fn stop_reasons_are_those_of_the_protocol() {
    for (answer, expected) in [
        (json!([{ "text": "x" }, { "finish": "max_tokens" }]), "max_tokens"),
        (json!([{ "text": "x" }, { "finish": { "refused": "no" } }]), "refusal"),
    ] {
        let mut editor = Editor::start(&Setup::answers(json!([answer]))).await;
        let session = editor.session().await;
        assert_eq!(stop_reason(&editor.ask(&session, "go").await), expected);
    }
    let call = json!([{ "call": { "name": "list_directory", "args": { "dir_path": "." } } }]);
    let setup = Setup::answers(json!([call, call, call])).arg("--limit").arg("rounds=2");
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    assert_eq!(stop_reason(&editor.ask(&session, "go").await), "max_turn_requests");
}

#[tokio::test]
pub(super) async fn the_window_is_shown_as_full_as_it_is() {
    let limit = json!({ "input_limit": 100_000 });
    let answers = json!({ "when": "", "answers": [[{ "text": "hello" }]] });
    let mut editor = Editor::start(&Setup::script(vec![limit, answers])).await;
    let session = editor.session().await;
    let usage = updates(&editor.ask(&session, "go").await, "usage_update");
    assert_eq!(usage[0]["size"], 100_000);
    assert!(usage[0]["used"].as_u64().unwrap() > 0);
    let mut editor = Editor::start(&says("hello")).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "go").await;
    assert!(updates(&read, "usage_update").is_empty(), "nobody guesses the size");
}

#[tokio::test]
async fn a_failure_is_the_answer_to_the_prompt() {
    let setup = Setup::answers(json!([[{ "error": { "unavailable": "the server is on fire" } }]]));
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let answer = editor.ask(&session, "go").await.pop().unwrap();
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("on fire"), "{answer}");
}

#[tokio::test]
async fn a_cancelled_turn_and_those_that_wait_are_answered() {
    let script = vec![
        json!({ "when": "hang", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
        json!({ "when": "", "answers": [[{ "text": "fine" }]] }),
    ];
    let mut editor = Editor::start(&Setup::script(script)).await;
    let session = editor.session().await;
    let (first, second) =
        (editor.prompt(&session, "hang").await, editor.prompt(&session, "x").await);
    editor.update("agent_message_chunk").await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    for id in [second, first] {
        let mut read = Vec::new();
        while read.is_empty() {
            let message = editor.message().await;
            if message.get("result").is_some() {
                read.push(message);
            }
        }
        assert_eq!(stop_reason(&read), "cancelled", "{id}");
    }
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    let read = editor.ask(&session, "x").await;
    assert_eq!(stop_reason(&read), "end_turn", "a cancel without a turn does nothing");
}

#[tokio::test]
async fn a_prompt_can_be_cancelled_as_a_request() {
    let mut editor =
        Editor::start(&Setup::answers(json!([[{ "text": "begun" }, { "hang": null }]]))).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    editor.update("agent_message_chunk").await;
    editor.notify("$/cancel_request", json!({ "requestId": id })).await;
    assert_eq!(stop_reason(&editor.until(id).await), "cancelled");
}

#[tokio::test]
async fn a_second_prompt_waits_for_the_first() {
    let script = vec![
        json!({ "when": "one", "answers": [[{ "text": "first" }]] }),
        json!({ "when": "two", "answers": [[{ "text": "second" }]] }),
    ];
    let mut editor = Editor::start(&Setup::script(script)).await;
    let session = editor.session().await;
    let (first, second) =
        (editor.prompt(&session, "one").await, editor.prompt(&session, "two").await);
    assert_eq!(text(&editor.until(first).await, "agent_message_chunk"), "first");
    assert_eq!(text(&editor.until(second).await, "agent_message_chunk"), "second");
}

#[tokio::test]
pub(super) async fn steering_goes_to_the_model_in_the_running_turn() {
    let wait =
        json!({ "call": { "name": "run_shell_command", "args": { "command": "touch gate" } } });
    let script = vec![
        json!({ "when": "in French", "answers": [[{ "text": "oui" }]] }),
        json!({ "when": "", "answers": [[wait], [{ "text": "no" }]] }),
    ];
    let mut editor = Editor::start(&Setup::script(script).without_sandbox()).await;
    assert_eq!(editor.initialized["_meta"]["steering"]["supported"], true);
    let session = editor.session().await;
    let steer = |text: &str, meta: Value| {
        let prompt = json!([{ "type": "text", "text": text }]);
        json!({ "sessionId": session, "prompt": prompt, "_meta": meta })
    };
    let required = json!({ "steering": { "idleBehavior": "promptRequired" } });
    let idle = editor.call("_session/steering", steer("x", required)).await;
    assert_eq!(idle["result"], json!({ "outcome": "promptRequired", "reason": "noRunningTurn" }));
    let id = editor.prompt(&session, "go").await;
    let question = editor.sent("session/request_permission").await;
    let told = editor.request("_session/steering", steer("answer in French", json!({}))).await;
    let read = editor.until(told).await;
    assert_eq!(read.last().unwrap()["result"]["outcome"], "injected");
    editor.choose(&question, "reject").await;
    let read = editor.until(id).await;
    assert_eq!(stop_reason(&read), "end_turn");
    let begun = editor.call("_session/steering", steer("in French", json!({}))).await;
    assert_eq!(begun["result"]["outcome"], "startedNewTurn");
    assert_eq!(editor.update("agent_message_chunk").await["content"]["text"], "oui");
}

#[tokio::test]
async fn what_a_command_writes_is_shown_while_it_runs() {
    let command = "printf one; sleep 0.1; printf two";
    let call = json!({ "call": { "name": "run_shell_command", "args": { "command": command } } });
    let answers = json!([[call], [{ "text": "done" }]]);
    let setup = Setup::answers(answers).arg("--approval-mode").arg("yolo");
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "go").await;
    let end = updates(&read, "tool_call_update").pop().unwrap();
    assert_eq!(end["status"], "completed");
    assert!(end["content"][0]["content"]["text"].as_str().unwrap().contains("onetwo"), "{end}");
}

#[tokio::test]
async fn a_command_is_shown_in_a_terminal_if_the_editor_has_one() {
    let call = json!({ "call": { "name": "run_shell_command", "args": { "command": "touch x; echo hi; exit 3" } } });
    let answers = json!([[call], [{ "text": "done" }]]);
    let capabilities = json!({ "_meta": { "terminal_output": true } });
    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let setup = Setup::answers(answers).without_sandbox();
    let mut editor = Editor::with(&setup, initialize).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "go").await;
    let calls = updates(&read, "tool_call_update");
    let id = calls[0]["toolCallId"].clone();
    let terminal = json!([{ "type": "terminal", "terminalId": id }]);
    assert_eq!(calls[0]["content"], terminal, "{calls:#?}");
    let info = json!({ "terminal_id": id, "cwd": editor.cwd() });
    assert_eq!(calls[0]["_meta"]["terminal_info"], info);
    let data = |call: &Value| call["_meta"]["terminal_output"]["data"].as_str().map(str::to_owned);
    let written: String = calls.iter().filter_map(data).collect();
    assert!(written.starts_with("hi\n"), "{written}");
    let end = calls.last().unwrap();
    assert_eq!(end["_meta"]["terminal_exit"]["exit_code"], 3);
    assert_eq!(end["status"], "failed");
}

/// Runs calls of a model one after another; returns the last update of each.
async fn ended(setup: Setup, calls: &[Value]) -> (Editor, String, Vec<Value>) {
    let mut answers: Vec<_> = calls.iter().map(|call| json!([{ "call": call }])).collect();
    answers.push(json!([{ "text": "done" }]));
    let setup = Setup { script: vec![json!({ "when": "", "answers": answers })], ..setup };
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "look").await;
    let mut ends = updates(&read, "tool_call_update");
    ends.retain(|update| update["status"] == "completed");
    assert_eq!(ends.len(), calls.len(), "{read:?}");
    (editor, session, ends)
}

/// Returns the text in a call's content.
fn shown(call: &Value) -> String {
    let blocks = call["content"].as_array().unwrap().iter();
    blocks.filter_map(|block| block["content"]["text"].as_str()).collect()
}

#[tokio::test]
async fn what_a_call_has_read_is_shown_and_shown_again_when_the_session_is_loaded() {
    let setup = Setup::default()
        .file("src/cart.py", "total = 1 + 1\n")
        .file("src/shop.py", "open = True\n");
    let calls = [
        (json!({ "name": "read_file", "args": { "file_path": "src/cart.py" } }), "total = 1 + 1"),
        (json!({ "name": "glob", "args": { "pattern": "**/*.py" } }), "cart.py"),
        (json!({ "name": "list_directory", "args": { "dir_path": "src" } }), "shop.py"),
        (json!({ "name": "grep_search", "args": { "pattern": "open" } }), "open = True"),
    ];
    let (mut editor, session, ends) = ended(setup, &calls.clone().map(|(call, _)| call)).await;
    let cwd = editor.cwd();
    let load = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    editor.call("session/close", json!({ "sessionId": session })).await;
    let id = editor.request("session/load", load).await;
    let loaded = updates(&editor.until(id).await, "tool_call");
    assert_eq!(loaded.len(), calls.len());
    for ((end, loaded), (call, expected)) in ends.iter().zip(&loaded).zip(&calls) {
        assert!(shown(end).contains(expected), "{call}: {end}");
        assert!(end["rawOutput"].as_str().unwrap().contains(expected), "{call}: {end}");
        assert_eq!(end["content"], loaded["content"]);
        assert_eq!(end["rawOutput"], loaded["rawOutput"]);
    }
}

#[tokio::test]
async fn an_image_that_was_read_is_shown_as_one() {
    const IMAGE: &str = "GIF89a\0\0";
    let setup = Setup::default().file("dot.gif", IMAGE);
    let call = json!({ "name": "read_file", "args": { "file_path": "dot.gif" } });
    let (_, _, ends) = ended(setup, &[call]).await;
    let images: Vec<_> =
        ends[0]["content"].as_array().unwrap().iter().map(|it| &it["content"]).collect();
    let image = images.iter().find(|block| block["type"] == "image").expect("an image");
    assert_eq!(image["mimeType"], "image/gif");
    assert_eq!(image["data"], BASE64_STANDARD.encode(IMAGE));
}
