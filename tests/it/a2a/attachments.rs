//! Files in messages.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tandem_agent::session::{Origin, PromptFile, PromptPart, Session, attachment_name};
use tokio::time::timeout;

use super::server::{Served, parts, serve};
use crate::agent::{HANG, Setup};
use crate::fakes::{Spy, is_end, parts as agent_parts, says, until};

/// Returns a model that repeats the text of its last prompt.
fn says_hi() -> Setup {
    Setup::answers(json!([[{ "text": "hi" }]]))
}

/// Returns a file part, in the form of each version.
fn file(name: &str, media_type: &str, content: &[u8]) -> [Value; 2] {
    let bytes = BASE64_STANDARD.encode(content);
    [
        json!({ "kind": "file", "file": { "name": name, "mimeType": media_type, "bytes": bytes } }),
        json!({ "raw": bytes, "mediaType": media_type, "filename": name }),
    ]
}

/// Sends words with a file. Returns the user's message in the history.
async fn said(setup: &Setup, file: Value) -> String {
    let it = serve(setup).await;
    let words = json!({ "kind": "text", "text": "Look at this." });
    let task = it.client.result("message/send", parts(json!([words, file]))).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
    task["history"][0]["parts"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn texts_of_any_type_are_quoted_under_their_names() {
    for (name, media_type) in [
        ("notes.md", "text/markdown"),
        ("a.json", "application/json"),
        ("fix.patch", "text/x-diff"),
        ("main.rs", "application/octet-stream"),
        ("Makefile", ""),
        ("model.step", "model/step"),
    ] {
        for part in file(name, media_type, b"first line\n```\n@b.txt\n") {
            let said = said(&says_hi(), part).await;
            assert!(said.starts_with("Look at this."), "{said}");
            assert!(said.contains(&format!("`{name}`")), "{said}");
            // The fence is longer than any fence in the file, so nothing in the file ends it.
            assert!(said.contains("````\nfirst line\n```\n@b.txt\n````"), "{said}");
        }
    }
}

#[tokio::test]
async fn a_text_alone_is_a_message() {
    let it = serve(&says_hi()).await;
    for part in file("task.md", "text/markdown", b"Say hi.") {
        let task = it.client.result("message/send", parts(json!([part]))).await;
        assert_eq!(task["status"]["state"], "completed", "{task}");
    }
}

#[tokio::test]
async fn a_long_text_is_cut_and_says_so() {
    let setup = says_hi().arg("--limit").arg("a2a-attachment-chars=10");
    let [part, _] = file("long.txt", "text/plain", "äöü4567890abc".as_bytes());
    let said = said(&setup, part).await;
    assert!(said.contains("äöü4567890\n"), "{said}");
    assert!(said.contains("3 more characters"), "{said}");
    assert!(!said.contains("abc"), "{said}");
}

/// Returns the files that came with messages to a server: names and contents.
fn attached(it: &Served) -> Vec<(String, Vec<u8>)> {
    let sessions = fs::read_dir(it.home.path().join(".local/share/tandem/sessions")).unwrap();
    let outputs = sessions.flat_map(|it| fs::read_dir(it.unwrap().path().join("outputs")));
    let files = outputs.flatten().map(|file| {
        let file = file.unwrap();
        (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())
    });
    files.collect()
}

#[tokio::test]
async fn a_file_of_any_type_is_put_beside_the_session() {
    let content = b"PK\x03\x04\0\xff";
    for part in file("../my tool.zip", "application/zip", content) {
        let it = serve(&says_hi()).await;
        let words = json!({ "kind": "text", "text": "Look at this." });
        let sent = parts(json!([words, part]));
        let task = it.client.result("message/send", sent.clone()).await;
        assert_eq!(task["status"]["state"], "completed", "{task}");
        let said = task["history"][0]["parts"][0]["text"].as_str().unwrap();
        let told = "Look at this.[file `../my tool.zip` (application/zip), 6 bytes]";
        assert_eq!(said, told);
        let [(name, kept)] = &attached(&it)[..] else { panic!("{:?}", attached(&it)) };
        assert!(
            name.starts_with("attachment.mytool.") && name.rsplit('.').next() == Some("zip"),
            "{name}"
        );
        assert_eq!(kept, content);
        // The same message is the same turn, also after a restart: the history has one prompt and one answer.
        let it = it.killed(&says_hi()).await;
        let mut again = sent;
        again["message"]["contextId"] = task["contextId"].clone();
        let task = it.client.result("message/send", again).await;
        assert_eq!(task["history"].as_array().unwrap().len(), 2, "{task}");
        // A message with this file alone says nothing to the model, so it is refused.
        let (code, _) = it.client.error("message/send", parts(json!([part]))).await;
        assert_eq!(code, -32005);
    }
}

#[tokio::test]
async fn a_long_text_is_beside_the_session_too() {
    let setup = says_hi().arg("--limit").arg("a2a-attachment-chars=10");
    let it = serve(&setup).await;
    let [part, _] = file("long.txt", "text/plain", b"1234567890abc");
    let task = it.client.result("message/send", parts(json!([part]))).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
    let [(_, kept)] = &attached(&it)[..] else { panic!("{:?}", attached(&it)) };
    assert_eq!(kept, b"1234567890abc");
}

#[tokio::test]
async fn the_model_is_told_where_a_file_is() {
    let (spy, told) = Spy::new(vec![says("hi")]);
    let session = Session::new(agent_parts(spy));
    let content = b"PK\x03\x04";
    let name = attachment_name("a.zip", content);
    let file = PromptFile { title: "`a.zip`".to_owned(), name, bytes: 4 };
    session.attach(&file, content).unwrap();
    let mut log = session.events(0);
    session.prompt(vec![PromptPart::File(file)], Origin::Editor);
    timeout(HANG, until(&mut log, is_end)).await.unwrap();
    let told = told.lock().unwrap().join("\n");
    let (_, path) = told.split_once("The attached file `a.zip` (4 bytes) is ").expect(&told);
    let (path, _) = path.split_once(", which").unwrap();
    assert_eq!(fs::read(path).unwrap(), content);
}

#[tokio::test]
async fn a_part_that_cannot_be_taken_is_named_and_the_rest_is_carried_out() {
    for (part, name) in [
        (file("a.png", "image/png", b"no image")[1].clone(), "a.png"),
        (json!({ "kind": "file", "file": { "uri": "https://example.com/x.csv" } }), "example.com"),
        (json!({ "kind": "file", "file": { "name": "bad.txt", "bytes": "?" } }), "bad.txt"),
    ] {
        let said = said(&says_hi(), part).await;
        assert!(said.contains(name), "{said}");
        assert!(said.contains("was not taken"), "{said}");
    }
}
