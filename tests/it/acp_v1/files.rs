//! Files of an editor: tools read its unsaved texts, and the editor writes the edits.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Editor, stop_reason, text, updates};
use crate::agent::Setup;

/// An editor with unsaved texts.
struct Desk {
    editor: Editor,
    session: String,
    /// Unsaved texts, by path.
    texts: BTreeMap<PathBuf, String>,
    /// The calls for files that the editor has answered: method and file name.
    calls: Vec<(String, String)>,
    /// `true` if the editor formats files when it saves them.
    formats: bool,
}

/// Returns the answers of a model that reads and writes `a.txt`, or repeats what it was told of the file.
fn setup() -> Setup {
    let read = json!({ "call": { "name": "read_file", "args": { "file_path": "a.txt" } } });
    let args = json!({ "file_path": "a.txt", "content": "new\n" });
    let call = json!({ "call": { "name": "write_file", "args": args } });
    let says = |when: &str, text: &str| json!({ "when": when, "answers": [[{ "text": text }]] });
    Setup::script(vec![
        json!({ "when": "write", "answers": [[read], [call], [{ "text": "done" }]] }),
        says("not saved", "sees the editor's"),
        says("on the disk", "sees the disk's"),
        says("", "sees nothing"),
    ])
    .file("a.txt", "on the disk\n")
}

impl Desk {
    /// Starts an editor that reads and writes files.
    async fn new(setup: &Setup) -> Self {
        let fs = json!({ "readTextFile": true, "writeTextFile": true });
        Self::with(setup, json!({ "protocolVersion": 1, "clientCapabilities": { "fs": fs } })).await
    }

    async fn with(setup: &Setup, initialize: Value) -> Self {
        let mut editor = Editor::with(setup, initialize).await;
        let session = editor.session().await;
        let mut texts = BTreeMap::new();
        texts.insert(editor.cwd().join("a.txt"), "not saved\n".to_owned());
        Self { editor, session, texts, calls: Vec::new(), formats: false }
    }

    fn path(&self) -> PathBuf {
        self.editor.cwd().join("a.txt")
    }

    fn disk(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Runs a prompt to its end, and allows every call. Returns all messages except calls for files.
    async fn ask(&mut self, prompt: &str) -> Vec<Value> {
        let id = self.editor.prompt(&self.session, prompt).await;
        let mut read = Vec::new();
        loop {
            let message = self.editor.message().await;
            match message["method"].as_str() {
                Some(method) if method.starts_with("fs/") => self.answer(method, &message).await,
                Some("session/request_permission") => {
                    self.editor.choose(&message, "once").await;
                    read.push(message);
                }
                _ => read.push(message),
            }
            if read.last().is_some_and(|last| last["id"] == id && last["method"].is_null()) {
                return read;
            }
        }
    }

    /// Answers a call for a file. A written text is saved.
    async fn answer(&mut self, method: &str, message: &Value) {
        let params = &message["params"];
        assert_eq!(params["sessionId"], self.session.as_str());
        let path = PathBuf::from(params["path"].as_str().unwrap());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.calls.push((method.to_owned(), name));
        let text = self.texts.get(&path).cloned().or_else(|| fs::read_to_string(&path).ok());
        let result = match (method, text) {
            ("fs/write_text_file", _) => {
                let content = params["content"].as_str().unwrap().to_owned();
                let content = if self.formats { content.replace("new", "New") } else { content };
                fs::write(&path, &content).unwrap();
                self.texts.insert(path, content);
                json!({})
            }
            (_, Some(content)) => json!({ "content": content }),
            (_, None) => {
                let error = json!({ "code": -32002, "message": "Resource not found" });
                let id = &message["id"];
                let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                return self.editor.agent.send_line(&answer.to_string()).await;
            }
        };
        self.editor.agent.answer(message, result).await;
    }

    fn written(&self) -> usize {
        self.calls.iter().filter(|(method, _)| method == "fs/write_text_file").count()
    }
}

/// Returns the end of the last call.
fn end(read: &[Value]) -> Value {
    updates(read, "tool_call_update").last().unwrap().clone()
}

#[tokio::test]
pub(super) async fn an_unsaved_text_is_read() {
    let mut desk = Desk::new(&setup()).await;
    let read = desk.ask("look at @a.txt").await;
    assert_eq!(text(&read, "agent_message_chunk"), "sees the editor's");
    assert_eq!(desk.calls, [("fs/read_text_file".to_owned(), "a.txt".to_owned())]);
}

#[tokio::test]
pub(super) async fn an_edit_is_shown_from_the_editors_text_on_and_written_by_the_editor() {
    let mut desk = Desk::new(&setup()).await;
    let read = desk.ask("write").await;
    let asked = read.iter().find(|it| it["method"] == "session/request_permission").unwrap();
    let diff = json!({
        "type": "diff", "path": desk.path(), "oldText": "not saved\n", "newText": "new\n",
    });
    assert_eq!(asked["params"]["toolCall"]["content"][0], diff);
    assert_eq!((end(&read)["status"].as_str(), desk.written()), (Some("completed"), 1));
    assert_eq!((desk.disk().as_str(), desk.texts[&desk.path()].as_str()), ("new\n", "new\n"));
}

#[tokio::test]
async fn what_is_undone_is_written_by_the_editor_too() {
    for command in ["/restore write_file-2", "/rewind 1"] {
        let mut desk = Desk::new(&setup()).await;
        desk.ask("write").await;
        let read = desk.ask(command).await;
        assert_eq!(stop_reason(&read), "end_turn");
        assert_eq!(desk.texts[&desk.path()], "not saved\n", "{command}");
        assert_eq!(desk.written(), 2, "{command}");
    }
}

#[tokio::test]
async fn what_the_editor_has_formatted_is_undone_too() {
    let mut desk = Desk::new(&setup()).await;
    desk.formats = true;
    let read = desk.ask("write").await;
    assert_eq!(end(&read)["content"][0]["newText"], "New\n");
    desk.ask("/restore write_file-2").await;
    assert_eq!(desk.disk(), "not saved\n");
}

#[tokio::test]
pub(super) async fn a_file_that_nobody_has_is_made_by_the_editor() {
    let mut desk = Desk::new(&setup()).await;
    fs::remove_file(desk.path()).unwrap();
    desk.texts.clear();
    let read = desk.ask("write").await;
    assert_eq!(end(&read)["content"][0]["oldText"], Value::Null);
    assert_eq!((desk.disk().as_str(), desk.written()), ("new\n", 1));
    desk.ask("/restore write_file-2").await;
    assert!(!desk.path().exists());
}

#[tokio::test]
async fn an_edit_of_a_text_that_changed_while_it_was_asked_about_is_refused() {
    let mut desk = Desk::new(&setup()).await;
    let id = desk.editor.prompt(&desk.session, "write").await;
    let question = loop {
        let message = desk.editor.message().await;
        match message["method"].as_str() {
            Some(method) if method.starts_with("fs/") => desk.answer(method, &message).await,
            Some("session/request_permission") => break message,
            _ => {}
        }
    };
    desk.texts.insert(desk.path(), "typed meanwhile\n".to_owned());
    desk.editor.choose(&question, "once").await;
    let read = desk.editor.sent("fs/read_text_file").await;
    desk.answer("fs/read_text_file", &read).await;
    let read = desk.editor.until(id).await;
    assert_eq!(end(&read)["status"], "failed");
    assert_eq!((desk.disk().as_str(), desk.written()), ("on the disk\n", 0));
}

#[tokio::test]
async fn an_editor_is_asked_for_no_more_than_it_offers() {
    let fs = |read, write| json!({ "fs": { "readTextFile": read, "writeTextFile": write } });
    for (version, capabilities) in [
        (1, json!({})),
        (1, fs(json!(false), json!(true))),
        (1, fs(json!("yes"), json!(1))),
        (1, json!({ "fs": true })),
        // Version 2 does not have these capabilities, so they mean nothing there.
        (2, fs(json!(true), json!(true))),
    ] {
        let client = json!({ "protocolVersion": version, "clientCapabilities": capabilities });
        let mut desk = Desk::with(&setup(), client).await;
        let read = desk.ask("look at @a.txt").await;
        assert_eq!(text(&read, "agent_message_chunk"), "sees the disk's", "{capabilities}");
        desk.ask("write").await;
        assert_eq!((desk.disk().as_str(), desk.calls.len()), ("new\n", 0), "{capabilities}");
    }
}

#[tokio::test]
async fn an_editor_that_is_only_read_keeps_what_is_not_saved() {
    let fs = json!({ "readTextFile": true, "writeTextFile": false });
    let client = json!({ "protocolVersion": 1, "clientCapabilities": { "fs": fs } });
    let mut desk = Desk::with(&setup(), client).await;
    let read = desk.ask("write").await;
    assert_eq!(end(&read)["status"], "failed");
    assert_eq!((desk.disk().as_str(), desk.written()), ("on the disk\n", 0));
}

#[tokio::test]
async fn a_cancel_withdraws_a_call_that_the_editor_does_not_answer() {
    let mut desk = Desk::new(&setup()).await;
    let id = desk.editor.prompt(&desk.session, "look at @a.txt").await;
    let asked = desk.editor.sent("fs/read_text_file").await;
    desk.editor.notify("session/cancel", json!({ "sessionId": desk.session })).await;
    let withdrawn = desk.editor.sent("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    assert_eq!(stop_reason(&desk.editor.until(id).await), "cancelled");
}

#[tokio::test]
async fn an_editor_that_never_answers_holds_a_call_up_for_a_limited_time() {
    let setup = setup().arg("--limit").arg("editor-file-seconds=1");
    let mut desk = Desk::new(&setup).await;
    let id = desk.editor.prompt(&desk.session, "look at @a.txt").await;
    let read = desk.editor.until(id).await;
    assert_eq!(text(&read, "agent_message_chunk"), "sees the disk's");
}

#[tokio::test]
async fn a_write_of_which_nothing_was_heard_can_be_undone() {
    let setup = setup().arg("--limit").arg("editor-file-seconds=1");
    let mut desk = Desk::new(&setup).await;
    let id = desk.editor.prompt(&desk.session, "write").await;
    loop {
        let message = desk.editor.message().await;
        match message["method"].as_str() {
            Some("fs/write_text_file") => break fs::write(desk.path(), "new\n").unwrap(),
            Some(method) if method.starts_with("fs/") => desk.answer(method, &message).await,
            Some("session/request_permission") => desk.editor.choose(&message, "once").await,
            _ => {}
        }
    }
    let read = desk.editor.until(id).await;
    assert_eq!(end(&read)["status"], "failed");
    desk.ask("/restore write_file-2").await;
    assert_eq!(desk.disk(), "not saved\n");
}

#[tokio::test]
async fn a_directory_behind_a_link_is_named_as_the_editor_names_it() {
    let fs = json!({ "readTextFile": true, "writeTextFile": true });
    let client = json!({ "protocolVersion": 1, "clientCapabilities": { "fs": fs } });
    let mut desk = Desk::with(&setup(), client).await;
    let link = desk.editor.cwd().with_file_name("link");
    std::os::unix::fs::symlink(desk.editor.cwd(), &link).unwrap();
    let params = json!({ "cwd": link, "mcpServers": [] });
    let answer = desk.editor.call("session/new", params).await;
    desk.session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    desk.texts = BTreeMap::from([(link.join("a.txt"), "not saved\n".to_owned())]);
    let read = desk.ask("look at @a.txt").await;
    assert_eq!(text(&read, "agent_message_chunk"), "sees the editor's");
}
