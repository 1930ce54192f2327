//! Files that go with a message.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::server::{parts, serve};
use crate::agent::Setup;

/// A model that repeats what it was told last.
fn says_hi() -> Setup {
    Setup::answers(json!([[{ "text": "hi" }]]))
}

/// A file part of each version.
fn file(name: &str, media_type: &str, content: &[u8]) -> [Value; 2] {
    let bytes = BASE64_STANDARD.encode(content);
    [
        json!({ "kind": "file", "file": { "name": name, "mimeType": media_type, "bytes": bytes } }),
        json!({ "raw": bytes, "mediaType": media_type, "filename": name }),
    ]
}

/// Sends words with a file, and returns what the user has said as the history tells it.
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
            // Nothing in it ends the fence.
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

#[tokio::test]
async fn a_part_that_cannot_be_taken_is_named_and_the_rest_is_carried_out() {
    for (part, name) in [
        (file("tool.zip", "application/zip", b"PK\x03\x04\0\xff")[0].clone(), "tool.zip"),
        (file("a.png", "image/png", b"no image")[1].clone(), "a.png"),
        (json!({ "kind": "file", "file": { "uri": "https://example.com/x.csv" } }), "example.com"),
        (json!({ "kind": "file", "file": { "name": "bad.txt", "bytes": "?" } }), "bad.txt"),
    ] {
        let said = said(&says_hi(), part).await;
        assert!(said.contains(name), "{said}");
        assert!(said.contains("was not taken"), "{said}");
    }
}
