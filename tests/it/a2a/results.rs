//! Changed files and the plan of a task, which are artifacts of the task.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::nodes::in_context;
use super::server::{prompt, serve, write};
use crate::agent::Setup;

/// Returns a model that makes a plan, writes a file twice, another file once, and a third file that it restores.
fn writes() -> Setup {
    let todos = json!({ "todos": [
        { "description": "Write", "status": "completed" }, { "description": "Test", "status": "pending" },
    ] });
    let plan = json!({ "call": { "name": "write_todos", "args": todos } });
    Setup::script(vec![
        json!({ "when": "more", "answers": [[{ "text": "nothing to do" }]] }),
        json!({ "when": "", "answers": [
            [plan, write("src/a.txt", "one\n"), write("b.txt", "b\n"), write("kept.txt", "x\n")],
            [write("src/a.txt", "one\ntwo\n"), write("kept.txt", "kept\n")],
            [{ "text": "done" }],
        ] }),
    ])
    .file("kept.txt", "kept\n")
    .arg("-y")
}

/// Returns id and files of each artifact: name, type and content.
fn artifacts(task: &Value) -> Value {
    let decoded = |content: &Value| {
        let bytes = BASE64_STANDARD.decode(content.as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let part = |part: &Value| match part.get("file") {
        Some(file) => json!([file["name"], file["mimeType"], decoded(&file["bytes"])]),
        None if part.get("raw").is_some() => {
            json!([part["filename"], part["mediaType"], decoded(&part["raw"])])
        }
        None => part["text"].clone(),
    };
    let all = task["artifacts"].as_array().unwrap().iter();
    let all = all.map(|it| {
        let parts: Value = it["parts"].as_array().unwrap().iter().map(part).collect();
        json!([it["artifactId"], parts])
    });
    all.collect()
}

/// Returns the artifacts of the task in a workspace.
fn expected(workspace: &std::path::Path) -> Value {
    let workspace = workspace.display();
    let diff = |name: &str, hunk: &str| {
        json!([
            format!("{name}.diff"),
            "text/x-diff",
            format!("--- /dev/null\n+++ {workspace}/{name}\n{hunk}")
        ])
    };
    json!([
        ["response", ["done"]],
        ["plan", [["plan.md", "text/markdown", "- [x] Write\n- [ ] Test\n"]]],
        ["file:b.txt", [diff("b.txt", "@@ -0,0 +1 @@\n+b\n"), ["b.txt", "text/plain", "b\n"]]],
        [
            "file:src/a.txt",
            [
                diff("src/a.txt", "@@ -0,0 +1,2 @@\n+one\n+two\n"),
                ["src/a.txt", "text/plain", "one\ntwo\n"],
            ]
        ],
    ])
}

#[tokio::test]
async fn a_task_has_the_plan_and_each_file_that_it_has_changed_also_after_a_restart() {
    let it = serve(&writes()).await;
    let workspace = it.home.path().join("workspace").canonicalize().unwrap();
    let expected = expected(&workspace);
    let task = it.client.result("message/send", in_context("c", "go")).await;
    assert_eq!(artifacts(&task), expected);
    let new = it.client.result("GetTask", json!({ "id": "c.1" })).await;
    assert_eq!(artifacts(&new), expected);
    let list = json!({ "contextId": "c", "includeArtifacts": true });
    let listed = it.client.result("ListTasks", list).await;
    assert_eq!(artifacts(&listed["tasks"][0]), expected);
    let it = it.killed(&writes()).await;
    let new = it.client.result("GetTask", json!({ "id": "c.1" })).await;
    assert_eq!(artifacts(&new), expected);
    // The next turn has changed no file, so its artifacts have none of the files of the turn before.
    let more = it.client.result("SendMessage", in_context("c", "more")).await;
    assert_eq!(artifacts(&more["task"]), json!([["response", ["nothing to do"]]]));
}

#[tokio::test]
async fn a_stream_brings_the_files_before_the_answer() {
    let it = serve(&writes()).await;
    let workspace = it.home.path().join("workspace").canonicalize().unwrap();
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let came = events.iter().filter(|it| it["kind"] == "artifact-update");
    let came: Vec<_> = came.map(|it| it["artifact"].clone()).collect();
    let ids: Vec<_> = came.iter().map(|it| &it["artifactId"]).collect();
    assert_eq!(ids, ["plan", "file:b.txt", "file:src/a.txt", "response"]);
    let mut told = artifacts(&json!({ "artifacts": came }));
    told.as_array_mut().unwrap().rotate_right(1);
    assert_eq!(told, expected(&workspace));
}

#[tokio::test]
async fn a_client_that_takes_text_alone_gets_no_files() {
    let it = serve(&writes()).await;
    let mut sent = prompt("go");
    sent["configuration"] = json!({ "acceptedOutputModes": ["text/plain"] });
    let events = it.client.stream("message/stream", sent.clone()).await.rest().await;
    let came: Vec<_> = events.iter().filter(|it| it["kind"] == "artifact-update").collect();
    let [answer] = came[..] else { panic!("{came:?}") };
    assert_eq!(answer["artifact"]["artifactId"], "response");
    sent["message"]["messageId"] = json!("another");
    let task = it.client.result("message/send", sent).await;
    assert_eq!(artifacts(&task), json!([["response", ["done"]]]));
}
