//! Clients that know only text: questions come as text, and answers are text.

use expect_test::expect;
use serde_json::{Value, json};

use super::server::{
    Client, Shared, asks, prompt, serve, shared, states, statuses, text, within, write,
};
use crate::agent::Setup;

fn writes() -> Setup {
    Setup::answers(json!([[write("a.txt", "new\n")], [{ "text": "done" }]]))
}

/// A model that asks two questions, or the first of them.
fn asks_the_user(count: usize) -> Setup {
    let questions = json!([
        { "question": "Which colour?", "options": [{ "label": "Red", "description": "Warm" }, { "label": "Blue" }] },
        { "question": "Which wood?", "options": ["Oak", "Pine"] },
    ]);
    let questions = &questions.as_array().unwrap()[..count];
    let call = json!({ "call": { "name": "ask_user", "args": { "questions": questions } } });
    Setup::answers(json!([[call], [{ "text": "done" }]]))
}

/// Answers the model's questions with a part, and returns what the call ended with.
async fn told(count: usize, part: Value) -> Value {
    let it = serve(&asks_the_user(count)).await;
    let task = asked(it.client).await;
    let mut message = prompt("");
    message["message"]["parts"] = json!([part]);
    let mut stream = it.client.stream("message/stream", within(&task, message)).await;
    let events = stream.rest().await;
    let parts = events.iter().filter_map(|event| event["status"]["message"]["parts"].as_array());
    let mut data = parts.flatten().map(|part| &part["data"]);
    let ended = data.rfind(|call| call["output"].is_object() || call["status"] == "CANCELLED");
    ended.map_or(events.last().unwrap()["status"]["state"].clone(), |call| call["output"].clone())
}

fn in_text(text: &str) -> Value {
    json!({ "kind": "text", "text": text })
}

#[tokio::test]
async fn a_question_of_the_model_says_its_options_and_how_to_answer() {
    let it = serve(&asks_the_user(2)).await;
    let task = it.client.result("message/send", prompt("go")).await;
    let said = question(&task["status"]);
    let expected = "Which colour?\n\n1. Red: Warm\n2. Blue\n\nWhich wood?\n\n1. Oak\n2. Pine\n\n\
        Answer in this task with 2 lines, one for each question in this order: the number of an option, or your own \
        words. `cancel` leaves the decision to the agent.\n";
    assert_eq!(said, expected);
    let data = &task["status"]["message"]["parts"][1]["data"];
    assert_eq!(data["tool_name"], "ask_user", "{data}");
    assert_eq!(data["input_parameters"]["questions"][1]["options"], json!(["Oak", "Pine"]));
}

#[tokio::test]
async fn a_text_for_a_program_is_said_to_the_last_character() {
    let call = |name: &str, args: Value| json!([{ "call": { "name": name, "args": args } }]);
    let setup = Setup::answers(json!([
        call("run_shell_command", json!({ "command": "cat", "stdin": true, "delay_ms": 1 })),
        call("write_stdin", json!({ "chars": "a\u{3}\nb", "close": true })),
        [{ "text": "done" }],
    ]));
    let it = serve(&setup.arg("--sandbox").arg("danger-full-access")).await;
    let task = it.client.result("message/send", prompt("go")).await;
    let said = question(&task["status"]);
    let (_, pid) = said.split_once("PID ").unwrap();
    let (pid, _) = pid.split_once(' ').unwrap();
    let said = said.replace(pid, "7");
    let (said, _) = said.split_once("\n\nAnswer with one of these").unwrap();
    expect![[r#"
        Write to PID 7 (cat), then close its input: a␃\nb

            to PID 7: cat
            4 bytes; does not end the line; then closes its input
            
            a␃
            b

        Allow it? the program may take the text for commands [built-in rule program-input]
        This text has hidden characters. They are written out, as ␍ or <U+202E>."#]]
    .assert_eq(said);
}

#[tokio::test]
async fn the_models_only_question_takes_an_option_or_any_text() {
    for (said, answer) in [("2", "Blue"), (" red\n", "Red"), ("yes", "yes"), ("Neither", "Neither")]
    {
        let output = told(1, in_text(said)).await;
        assert_eq!(output["text"], format!("Which colour?\nAnswer: {answer}"), "{output}");
    }
    let option = json!({ "tool_call_id": "ask_user-1", "selected_option_id": "option_2" });
    let output = told(1, json!({ "kind": "data", "data": option })).await;
    assert_eq!(output["text"], "Which colour?\nAnswer: Blue", "{output}");
    assert_eq!(told(1, in_text("cancel")).await, Value::Null);
}

#[tokio::test]
async fn several_questions_of_the_model_take_a_line_or_a_text_each() {
    let both = "Which colour?\nAnswer: Blue\n\nWhich wood?\nAnswer: ash";
    let output = told(2, in_text("2\nash\n")).await;
    assert_eq!(output["text"], both, "{output}");
    let answers = json!({ "tool_call_id": "ask_user-1", "answers": ["blue", "ash"] });
    let output = told(2, json!({ "kind": "data", "data": answers })).await;
    assert_eq!(output["text"], both, "{output}");
    assert_eq!(told(2, in_text("2")).await, "input-required");
    assert_eq!(told(2, in_text("/compress\nash")).await, "input-required");
}

/// Returns the text of a question in a status.
fn question(status: &Value) -> &str {
    let parts = status["message"]["parts"].as_array().unwrap();
    let said: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let [said] = said[..] else { panic!("{parts:?}") };
    said
}

/// Begins a session with a question; returns its task.
async fn asked(client: Client) -> Value {
    let task = client.result("message/send", prompt("go")).await;
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    task["id"].clone()
}

/// Answers a question with this text. Returns the last status of the call, and `true` if the file was written.
async fn answered(said: &str) -> (String, bool) {
    let it = serve(&writes()).await;
    let task = asked(it.client).await;
    let mut stream = it.client.stream("message/stream", within(&task, prompt(said))).await;
    let events = stream.rest().await;
    let last = statuses(&events).last().copied().unwrap_or_default().to_owned();
    (last, it.home.path().join("workspace/a.txt").exists())
}

#[tokio::test]
async fn a_question_says_in_words_what_is_asked_and_what_to_answer() {
    let it = serve(&writes()).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    let events = stream.rest().await;
    let last = &events.last().unwrap()["status"];
    assert_eq!(last["state"], "input-required");
    let said = question(last);
    for part in [
        "a.txt",
        "+new",
        "Allow it?",
        "`yes`",
        "`no`",
        "`proceed_always`",
        "while this session is open",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let kinds: Vec<_> =
        last["message"]["parts"].as_array().unwrap().iter().map(|part| &part["kind"]).collect();
    assert_eq!(kinds, ["text", "data"]);
    let task = &events[0]["id"];
    let got = it.client.result("tasks/get", json!({ "id": task })).await;
    assert_eq!(question(&got["status"]), said);
    let new = it.client.result("SendMessage", prompt("go")).await["task"]["status"].clone();
    assert_eq!(new["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(question(&new), said);
}

#[tokio::test]
async fn what_is_hidden_in_a_question_is_shown() {
    let script = json!([[write("a\u{202e}txt.sh", "\u{1b}[2J\n")], [{ "text": "done" }]]);
    let it = serve(&Setup::answers(script)).await;
    let task = it.client.result("message/send", prompt("go")).await;
    let said = question(&task["status"]);
    assert!(said.contains("<U+202E>") && said.contains("␛[2J"), "{said}");
    assert!(!said.contains(['\u{202e}', '\u{1b}']), "{said}");
}

#[tokio::test]
async fn a_word_allows_it() {
    for said in [
        "y",
        "yes",
        " YES\n",
        "Yes!",
        "ok",
        "OK.",
        "okay",
        "approve",
        "accept",
        "allow",
        "Allow",
        "grant",
        "Go ahead!",
        "yes, go ahead!",
        "yes please",
        "ok, do it",
        "\"yes\"",
        "**yes**",
        "proceed_once",
        "`proceed_once`",
        "Yes, this once",
        "proceed_always",
    ] {
        assert_eq!(answered(said).await, ("SUCCEEDED".to_owned(), true), "{said}");
    }
}

#[tokio::test]
async fn a_word_denies_it() {
    for said in [
        "n",
        "no",
        "No",
        "no!",
        "deny",
        " DENY ",
        "cancel",
        "reject",
        "Reject.",
        "no thanks",
        "no, don't",
    ] {
        assert_eq!(answered(said).await, ("CANCELLED".to_owned(), false), "{said}");
    }
}

#[tokio::test]
async fn a_word_answers_beside_files_that_a_client_sends_again_with_each_message() {
    let files = [
        json!({ "kind": "file", "file": { "name": "notes.txt", "mimeType": "text/plain", "bytes": "bWlsawo=" } }),
        json!({ "kind": "file", "file": { "name": "notes.bin", "mimeType": "application/x-notes", "bytes": "AAEC" } }),
    ];
    for (said, place, expected) in
        [("yes", 0, "completed"), ("yes", 1, "completed"), ("Stop it", 1, "input-required")]
    {
        for file in &files {
            let it = serve(&writes()).await;
            let task = asked(it.client).await;
            let mut answer = within(&task, prompt(said));
            answer["message"]["parts"].as_array_mut().unwrap().insert(place, file.clone());
            let told = it.client.result("message/send", answer).await;
            assert_eq!(told["status"]["state"], expected, "{said}, {file}: {told}");
            let is_written = it.home.path().join("workspace/a.txt").exists();
            assert_eq!(is_written, expected == "completed", "{said}, {file}");
        }
    }
}

/// Checks that a task still waits for an answer, that its question tells that this text was no answer, and that
/// nothing else has happened.
fn check_asked_back(task: &Value, said: &str) {
    let state = task["status"]["state"].as_str().unwrap();
    assert!(["input-required", "TASK_STATE_INPUT_REQUIRED"].contains(&state), "{said}: {task}");
    let asked = question(&task["status"]);
    assert!(asked.starts_with("The message was not taken"), "{said}: {asked}");
    assert!(asked.contains("Allow it?"), "{said}: {asked}");
    assert!(!task["history"].to_string().contains(&format!("\"{said}\"")), "{said}: {task}");
}

#[tokio::test]
async fn anything_else_is_asked_back_and_the_question_stays_open() {
    for said in ["please", "yes no", "yes, but in b.txt", "proceed_always_server", "Stop it", "?"] {
        let it = serve(&writes()).await;
        let task = asked(it.client).await;
        let told = it.client.result("message/send", within(&task, prompt(said))).await;
        assert_eq!(told["id"], task);
        check_asked_back(&told, said);
        let done = it.client.result("message/send", within(&task, prompt("yes"))).await;
        assert_eq!(done["status"]["state"], "completed", "{said}: {done}");
        assert!(it.home.path().join("workspace/a.txt").exists(), "{said}");
    }
    // No question is open, so "yes" is a prompt.
    let it = serve(&Setup::answers(json!([[{ "text": "hi" }]]))).await;
    let task = it.client.result("message/send", prompt("go")).await["id"].clone();
    let told = it.client.result("message/send", within(&task, prompt("yes"))).await;
    let history = told["history"].as_array().unwrap();
    let said = history.iter().filter(|it| it["role"] == "user");
    let said: Vec<_> = said.map(|it| it["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["go", "yes"]);
}

#[tokio::test]
async fn a_stream_tells_what_is_asked_and_ends_there() {
    for method in ["message/stream", "SendStreamingMessage"] {
        let it = serve(&writes()).await;
        let task = asked(it.client).await;
        let mut other = prompt("Stop it");
        other["message"]["contextId"] = task.clone();
        let mut stream = it.client.stream(method, other).await;
        let events: Vec<Value> = stream.rest().await.into_iter().map(bare).collect();
        check_asked_back(&events[0], "Stop it");
        assert_eq!(events[0]["contextId"], task);
        assert_eq!(statuses(&events).last(), Some(&"PENDING"), "{events:?}");
        assert!(events.iter().any(asks), "{events:?}");
        let state = events.last().unwrap()["status"]["state"].as_str().unwrap();
        assert!(state.to_lowercase().replace('_', "-").ends_with("input-required"), "{state}");
    }
}

/// Returns an item of a stream of either version, without the wrapper of 1.0.
fn bare(event: Value) -> Value {
    let inner = ["task", "statusUpdate"].into_iter().find_map(|name| event.get(name).cloned());
    inner.unwrap_or(event)
}

#[tokio::test]
async fn a_message_in_the_context_answers_what_is_asked_there() {
    for (method, get) in [("message/send", "tasks/get"), ("SendMessage", "GetTask")] {
        let it = serve(&writes()).await;
        let task = |result: Value| result.get("task").cloned().unwrap_or(result);
        let asking = task(it.client.result(method, prompt("go")).await);
        let in_context = |said: &str| {
            let mut params = prompt(said);
            params["message"]["contextId"] = asking["contextId"].clone();
            params
        };
        let told = task(it.client.result(method, in_context("What is it for?")).await);
        assert_eq!(told["id"], asking["id"]);
        check_asked_back(&told, "What is it for?");
        let done = task(it.client.result(method, in_context("Go ahead.")).await);
        assert_eq!(done["id"], asking["id"]);
        let state = done["status"]["state"].as_str().unwrap().to_lowercase();
        assert!(state.ends_with("completed"), "{done}");
        let got = it.client.result(get, json!({ "id": asking["id"] })).await;
        assert_eq!(got["status"]["state"], done["status"]["state"]);
    }
}

#[tokio::test]
async fn a_message_that_was_asked_back_counts_when_it_is_sent_again_later() {
    let script = vec![
        json!({ "when": "and now", "answers": [[{ "text": "next" }]] }),
        json!({ "when": "", "answers": [[write("a.txt", "new\n")], [{ "text": "done" }]] }),
    ];
    let it = serve(&Setup::script(script)).await;
    let task = asked(it.client).await;
    let next = within(&task, prompt("and now?"));
    check_asked_back(&it.client.result("message/send", next.clone()).await, "and now?");
    it.client.result("message/send", within(&task, prompt("yes"))).await;
    let told = it.client.result("message/send", next).await;
    assert_eq!(told["artifacts"][0]["parts"][0]["text"], "next", "{told}");
}

#[tokio::test]
async fn in_a_shared_session_a_message_that_names_none_answers_nothing() {
    let it = shared(&writes()).await;
    let asking = it.client.result("SendMessage", prompt("go")).await["task"].clone();
    let told = it.client.result("SendMessage", prompt("yes")).await["task"].clone();
    assert_eq!(told["id"], asking["id"]);
    check_asked_back(&told, "yes");
}

/// Starts a shared session whose editor is asked about a file, and clients that have not seen the question.
async fn editor_is_asked() -> Shared {
    let mut it = shared(&writes()).await;
    it.editor.prompt("go").await;
    it.editor.call_of("requestToolCallConfirmation").await;
    it
}

#[tokio::test]
async fn in_a_shared_session_a_client_that_has_not_seen_the_question_is_told_which_task_waits() {
    // In 0.3, the task id is that of the session.
    for (send, stream, id) in [
        ("message/send", "message/stream", "contextId"),
        ("SendMessage", "SendStreamingMessage", "id"),
    ] {
        let it = editor_is_asked().await;
        let waiting = &it.client.result("ListTasks", json!({})).await["tasks"][0];
        for said in ["yes", "Where are we?"] {
            let told = bare(it.client.result(send, prompt(said)).await);
            check_asked_back(&told, said);
            let mut events = it.client.stream(stream, prompt(said)).await;
            let events: Vec<Value> = events.rest().await.into_iter().map(bare).collect();
            check_asked_back(&events[0], said);
            for task in [&told, &events[0]] {
                assert_eq!(task["contextId"], waiting["contextId"], "{task}");
                assert_eq!(task["id"], waiting[id], "{task}");
            }
            let state = events.last().unwrap()["status"]["state"].as_str().unwrap();
            assert!(state.to_lowercase().replace('_', "-").ends_with("input-required"), "{state}");
        }
        assert!(!it.editor.workspace().join("a.txt").exists());
    }
}

#[tokio::test]
async fn in_a_shared_session_a_context_of_its_own_answers_only_a_question_that_it_was_told() {
    let mine = |said: &str| {
        let mut params = prompt(said);
        params["message"]["contextId"] = json!("mine");
        params
    };
    // The question was put to the editor, and not to this context.
    let it = editor_is_asked().await;
    let told = it.client.result("message/send", mine("yes")).await;
    check_asked_back(&told, "yes");
    assert_eq!(told["metadata"]["unknownContext"], "shared", "{told}");
    assert!(!it.editor.workspace().join("a.txt").exists());
    let mut other = mine("yes");
    other["message"]["contextId"] = json!("theirs");
    let mut events = it.client.stream("message/stream", other).await;
    let first = events.rest().await.remove(0);
    check_asked_back(&first, "yes");
    assert_eq!(first["metadata"]["unknownContext"], "shared", "{first}");
    let done = it.client.result("message/send", mine("yes")).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
    assert!(it.editor.workspace().join("a.txt").exists());
    // The question was put to the client's own context.
    let it = shared(&writes()).await;
    let asking = it.client.result("message/send", mine("go")).await;
    assert_eq!(asking["status"]["state"], "input-required", "{asking}");
    let done = it.client.result("message/send", mine("yes")).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
}

#[tokio::test]
async fn a_socket_of_flat_frames_is_asked_again_by_what_is_no_answer() {
    let it = editor_is_asked().await;
    let mut socket = it.client.socket_at("/ws?format=flat").await;
    let asks = |frame: &Value| frame.to_string().contains("confirmation_request");
    socket.until(asks).await;
    socket.send(1, "message/stream", prompt("Stop it")).await;
    socket.until(asks).await;
    // Clients of an early implementation send requests without an id.
    let early = json!({ "message": { "content": { "text": "Stop it" } } });
    let early = json!({ "method": "message/send", "params": early });
    socket.send_text(&early.to_string()).await;
    socket.until(asks).await;
}

#[tokio::test]
async fn a_word_on_a_socket_answers_too() {
    let it = shared(&writes()).await;
    let mut socket = it.client.socket().await;
    socket.send(1, "message/stream", prompt("go")).await;
    let asked = socket.until(|frame| asks(&frame["result"])).await.pop().unwrap();
    let task = asked["result"]["taskId"].clone();
    socket.until(|frame| frame["streamEnd"] == true).await;
    socket.send(2, "message/stream", within(&task, prompt("yes"))).await;
    let frames = socket.until(|frame| frame["streamEnd"] == true).await;
    let events: Vec<_> = frames.iter().map(|frame| frame["result"].clone()).collect();
    assert_eq!(states(&events).last(), Some(&"completed"));
    assert_eq!(text(&events), "done");
}
