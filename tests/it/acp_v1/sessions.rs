//! Sessions are begun, listed, loaded, closed and deleted.

use std::collections::HashMap;

use serde_json::{Value, json};
use tandem_agent::session::Store as _;
use tandem_store::FileStore;
use tempfile::TempDir;

use super::{Editor, stop_reason, text, updates};
use crate::agent::{Agent, Setup};

fn talks() -> Setup {
    Setup::script(vec![
        json!({ "when": "write", "answers": [
            [{ "thought": "hm" }, { "call": { "name": "write_file", "args": {
                "file_path": "a.txt", "content": "new\n" } } }],
            [{ "text": "written" }],
        ] }),
        json!({ "when": "hang", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
        json!({ "when": "", "answers": [[{ "text": "fine" }]] }),
    ])
}

fn ids(list: &Value) -> Vec<&str> {
    let sessions = list["result"]["sessions"].as_array().unwrap();
    sessions.iter().map(|it| it["sessionId"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_session_works_in_the_directory_that_the_editor_names() {
    let setup = talks().file("one/x", "").file("two/x", "");
    let mut editor = Editor::start(&setup).await;
    for name in ["one", "two"] {
        let params = json!({ "cwd": editor.cwd().join(name), "mcpServers": [] });
        let answer = editor.call("session/new", params).await;
        let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
        assert_eq!(stop_reason(&editor.ask(&session, "write").await), "end_turn");
        assert!(editor.cwd().join(name).join("a.txt").exists(), "{name}");
    }
}

#[tokio::test]
async fn more_directories_can_be_worked_in() {
    let read = json!({ "call": { "name": "read_file", "args": { "file_path": "../lib/b.txt" } } });
    let setup = Setup::answers(json!([[read], [{ "text": "done" }]]))
        .file("main/a.txt", "")
        .file("lib/b.txt", "text of the library\n");
    let mut editor = Editor::start(&setup).await;
    for (more, expected) in
        [(json!([]), "failed"), (json!([editor.cwd().join("lib")]), "completed")]
    {
        let cwd = editor.cwd().join("main");
        let params = json!({ "cwd": cwd, "mcpServers": [], "additionalDirectories": more });
        let answer = editor.call("session/new", params).await;
        let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
        let read = editor.ask(&session, "go").await;
        assert_eq!(updates(&read, "tool_call_update").last().unwrap()["status"], expected);
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_is_refused() {
    let mut editor = Editor::start(&talks().file("file", "")).await;
    let cwd = editor.cwd();
    for params in [
        json!({}),
        json!({ "cwd": "relative", "mcpServers": [] }),
        json!({ "cwd": 5, "mcpServers": [] }),
        json!({ "cwd": cwd.join("none"), "mcpServers": [] }),
        json!({ "cwd": cwd.join("file"), "mcpServers": [] }),
        json!({ "cwd": cwd, "mcpServers": "x" }),
        json!({ "cwd": cwd, "additionalDirectories": ["relative"] }),
    ] {
        let answer = editor.call("session/new", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}");
    }
    for method in ["session/load", "session/resume"] {
        let params = json!({ "sessionId": "none", "cwd": cwd, "mcpServers": [] });
        let answer = editor.call(method, params).await;
        assert_eq!(answer["error"]["code"], -32002, "{method}");
    }
}

#[tokio::test]
async fn servers_that_cannot_be_started_are_in_nobodys_way() {
    let mut editor = Editor::start(&talks()).await;
    let servers = json!([
        { "name": "gone", "command": "/no/such/program", "args": [], "env": [] },
        { "name": "odd", "type": "sse", "url": "http://127.0.0.1:9/", "headers": [] },
        { "name": "wrong", "command": 5 },
        7,
    ]);
    let params = json!({ "cwd": editor.cwd(), "mcpServers": servers });
    let answer = editor.call("session/new", params).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let listed = text(&editor.ask(&session, "/mcp").await, "agent_message_chunk");
    for name in ["gone", "odd", "wrong"] {
        assert!(listed.contains(name), "{listed}");
    }
}

#[tokio::test]
pub(super) async fn nothing_comes_before_the_answer_to_session_new_and_then_the_commands() {
    let mut editor = Editor::start(&talks()).await;
    let id = editor.request("session/new", json!({ "cwd": editor.cwd() })).await;
    let read = editor.until(id).await;
    assert_eq!(read.len(), 1, "{read:?}");
    let commands = editor.update("available_commands_update").await;
    let commands = commands["availableCommands"].as_array().unwrap().clone();
    let command = |name: &str| commands.iter().find(|it| it["name"] == name).unwrap().clone();
    assert!(command("memory")["input"]["hint"].as_str().unwrap().contains("add TEXT"));
    assert_eq!(command("about").get("input"), None);
}

#[tokio::test]
async fn sessions_run_side_by_side() {
    let mut editor = Editor::start(&talks()).await;
    let (one, two) = (editor.session().await, editor.session().await);
    assert_ne!(one, two);
    let hanging = editor.prompt(&one, "hang").await;
    let read = editor.ask(&two, "go").await;
    assert_eq!(stop_reason(&read), "end_turn");
    editor.notify("session/cancel", json!({ "sessionId": one })).await;
    assert_eq!(stop_reason(&editor.until(hanging).await), "cancelled");
}

#[tokio::test]
pub(super) async fn a_closed_session_is_listed_and_loaded_as_it_was() {
    let mut editor = Editor::start(&talks()).await;
    let cwd = editor.cwd();
    let session = editor.session().await;
    let empty = editor.session().await;
    editor.ask(&session, "write it\nplease").await;
    let closed = editor.call("session/close", json!({ "sessionId": session })).await;
    assert_eq!(closed["result"], json!({}));
    let again = editor.call("session/close", json!({ "sessionId": session })).await;
    assert_eq!(again["error"]["code"], -32002);
    let list = editor.call("session/list", json!({ "cwd": cwd })).await;
    assert_eq!(ids(&list), [session.as_str()], "{empty} has no prompt");
    let info = &list["result"]["sessions"][0];
    assert_eq!((&info["title"], &info["cwd"]), (&json!("write it"), &json!(cwd)));
    assert!(info["updatedAt"].as_str().unwrap().ends_with('Z'), "{info}");
    let elsewhere = editor.call("session/list", json!({ "cwd": "/" })).await;
    assert!(ids(&elsewhere).is_empty());

    let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    for _ in 0..2 {
        let id = editor.request("session/load", params.clone()).await;
        let read = editor.until(id).await;
        let prompts = updates(&read, "user_message_chunk");
        assert_eq!(prompts.len(), 1);
        assert_eq!(prompts[0]["content"]["text"], "write it\nplease");
        assert_eq!(text(&read, "agent_thought_chunk"), "hm");
        assert_eq!(text(&read, "agent_message_chunk"), "written");
        let call = &updates(&read, "tool_call")[0];
        assert_eq!(call["status"], "completed");
        assert_eq!(call["content"][0]["newText"], "new\n");
        assert!(updates(&read, "tool_call_update").is_empty(), "its end comes at once");
    }
    let read = editor.ask(&session, "more").await;
    assert_eq!(text(&read, "agent_message_chunk"), "fine");
}

#[tokio::test]
async fn a_session_that_is_loaded_while_it_runs_is_shown_whole_and_goes_on() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    let running = editor.prompt(&session, "hang").await;
    editor.update("agent_message_chunk").await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    let id = editor.request("session/load", params).await;
    let read = editor.until(id).await;
    assert_eq!(text(&read, "user_message_chunk"), "hang");
    assert_eq!(text(&read, "agent_message_chunk"), "begun");
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(&editor.until(running).await), "cancelled");
}

#[tokio::test]
async fn a_resumed_session_is_not_shown_again() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd() });
    let id = editor.request("session/resume", params).await;
    let read = editor.until(id).await;
    assert_eq!(read.len(), 1, "{read:?}");
    assert_eq!(read[0]["result"]["configOptions"][0]["id"], "mode");
    assert_eq!(text(&editor.ask(&session, "go").await, "agent_message_chunk"), "fine");
}

#[tokio::test]
async fn a_session_is_opened_where_it_works() {
    let mut editor = Editor::start(&talks().file("other/x", "")).await;
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd().join("other") });
    let answer = editor.call("session/load", params).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn closing_answers_the_prompt_that_runs_first() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    let prompt = editor.prompt(&session, "hang").await;
    editor.update("agent_message_chunk").await;
    let close = editor.request("session/close", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(&editor.until(prompt).await), "cancelled");
    assert_eq!(editor.until(close).await.last().unwrap()["result"], json!({}));
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    for id in [session.as_str(), session.as_str(), "none"] {
        let deleted = editor.call("session/delete", json!({ "sessionId": id })).await;
        assert_eq!(deleted["result"], json!({}));
    }
    let list = editor.call("session/list", json!({})).await;
    assert!(ids(&list).is_empty());
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    assert_eq!(editor.call("session/load", params).await["error"]["code"], -32002);
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let mut editor = Editor::start(&talks()).await;
    let mut expected = Vec::new();
    for _ in 0..53 {
        let session = editor.session().await;
        editor.ask(&session, "go").await;
        expected.push(session);
    }
    expected.reverse();
    let first = editor.call("session/list", json!({ "cwd": editor.cwd() })).await;
    let cursor = &first["result"]["nextCursor"];
    assert!(cursor.is_string(), "{first}");
    let params = json!({ "cwd": editor.cwd(), "cursor": cursor });
    let second = editor.call("session/list", params).await;
    assert_eq!((ids(&first).len(), ids(&second).len()), (50, 3));
    let mut listed = [ids(&first), ids(&second)].concat();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert_eq!(second["result"].get("nextCursor"), None);
    let wrong = editor.call("session/list", json!({ "cursor": "banana" })).await;
    assert_eq!(wrong["error"]["code"], -32602);
}

#[tokio::test]
async fn a_session_that_another_process_has_open_is_refused_with_the_way_to_it() {
    let setup = talks();
    let mut first = Editor::start(&setup).await;
    let session = first.session().await;
    first.ask(&session, "go").await;
    let cwd = first.cwd();
    let child = setup.clone().arg("--acp").command(cwd.parent().unwrap()).spawn().unwrap();
    let agent = Agent::of(child, TempDir::new().unwrap());
    let mut second = Editor { agent, asked: HashMap::new(), initialized: Value::Null };
    second.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} })).await;
    let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    let refused = second.call("session/load", params).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let said = refused["error"].to_string();
    let process = format!("process {}", first.agent.child.id().unwrap());
    assert!(said.contains(&process) && said.contains("tandem sessions fork"), "{said}");
    let list = second.call("session/list", json!({ "cwd": cwd })).await;
    let said = list["result"]["sessions"][0]["_meta"]["openElsewhere"].as_str().unwrap();
    assert!(said.contains(&process) && said.contains("tandem sessions fork"), "{said}");
}

#[tokio::test]
async fn a_session_whose_process_listens_no_more_is_listed_and_refused_with_the_command_that_joins()
{
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    let cwd = editor.cwd();
    let list = editor.call("session/list", json!({ "cwd": cwd })).await;
    assert_eq!(list["result"]["sessions"][0].get("_meta"), None, "it is open here");
    editor.call("session/close", json!({ "sessionId": session })).await;
    let store = FileStore::new(cwd.parent().unwrap().join(".local/share/tandem/sessions"));
    let mut lease = store.acquire(&session).await.unwrap();
    lease.announce(41242).await.unwrap();
    let way = format!(
        "session is open in process {}; `tandem attach 41242 --session {session}` joins it",
        std::process::id()
    );
    let list = editor.call("session/list", json!({ "cwd": cwd })).await;
    let meta = &list["result"]["sessions"][0]["_meta"];
    assert_eq!(meta, &json!({ "openElsewhere": format!("This {way}") }));
    let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    for method in ["session/load", "session/resume"] {
        let refused = editor.call(method, params.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        let said = refused["error"].to_string();
        assert!(
            said.contains(&format!("`sessionId`: the {way} (joining the session")),
            "{method}: {said}"
        );
        assert!(said.contains("nothing listens on 127.0.0.1:41242"), "{method}: {said}");
    }
    drop(lease);
    let list = editor.call("session/list", json!({ "cwd": cwd })).await;
    assert_eq!(list["result"]["sessions"][0].get("_meta"), None);
    let opened = editor.call("session/load", params).await;
    assert!(opened.get("result").is_some(), "{opened}");
}
