//! Hidden characters: neither an editor nor a shell gets them from a model unseen.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};

/// Characters that a terminal obeys, and characters that change the direction of text.
const HIDING: &str = "\u{1b}[2K\u{7}\u{9b}31m\u{202e}\u{2066}\u{200f}";

/// The visible form of these characters.
const SEEN: &str = "␛[2K␇<U+009B>31m<U+202E><U+2066><U+200F>";

/// Runs these steps of a model; returns the messages of one method to the editor.
async fn sent(steps: Value, method: &str) -> Vec<Value> {
    let setup = Setup::answers(json!([steps, []])).file("crlf.txt", "one\r\ntwo\r\n");
    let mut agent = setup.without_sandbox().start();
    let id = agent.prompt("go").await;
    let messages = agent.until_answered(id, "allow").await;
    for message in &messages {
        seen("", message);
    }
    messages.into_iter().filter(|message| message["method"] == method).collect()
}

/// Asserts that every string shows all of its characters; paths are opened by editors, and stay.
#[track_caller]
fn seen(key: &str, value: &Value) {
    match value {
        Value::String(text) if key != "path" => {
            let hides = |c: char| HIDING.contains(c) && c.is_control() || "\u{202e}".contains(c);
            assert!(!text.contains(hides), "{key}: {text:?}");
        }
        Value::Array(values) => values.iter().for_each(|value| seen(key, value)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| seen(key, value)),
        _ => {}
    }
}

fn call(name: &str, args: Value) -> Value {
    json!([{ "call": { "name": name, "args": args } }])
}

#[tokio::test]
async fn a_command_is_asked_about_as_it_is() {
    let command = format!("echo '{HIDING}'\u{200b}\rls\necho two");
    let asked = call("run_shell_command", json!({ "command": command, "description": HIDING }));
    let asked = sent(asked, "requestToolCallConfirmation").await;
    let params = &asked[0]["params"];
    let shown = format!("echo '{SEEN}'<U+200B>␍ls\necho two");
    assert_eq!(params["confirmation"]["command"], shown);
    assert_eq!(params["content"]["markdown"], format!("```sh\n{shown}\n```"));
    assert!(!params["label"].as_str().unwrap().contains('\u{200b}'), "{params}");
}

#[tokio::test]
async fn a_change_is_asked_about_as_it_is() {
    let asked = json!({ "file_path": "a\u{200b}\u{1b}.txt", "content": format!("x{HIDING}\ry\n") });
    let asked = sent(call("write_file", asked), "requestToolCallConfirmation").await;
    let params = &asked[0]["params"];
    assert_eq!(params["content"]["newText"], format!("x{SEEN}␍y\n"));
    assert_eq!(params["content"]["oldText"], Value::Null);
    assert!(!params["label"].as_str().unwrap().contains('\u{200b}'), "{params}");
    let path = params["locations"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("a\u{200b}\u{1b}.txt"), "an editor opens it: {path}");
}

#[tokio::test]
async fn line_ends_of_a_file_hide_nothing() {
    let asked = json!({ "file_path": "crlf.txt", "old_string": "two", "new_string": "2\r3" });
    let asked = sent(call("replace", asked), "requestToolCallConfirmation").await;
    let content = &asked[0]["params"]["content"];
    assert_eq!(content["oldText"], "one\r\ntwo\r\n");
    assert_eq!(content["newText"], "one\r\n2␍3\r\n");
}

#[tokio::test]
async fn what_the_model_says_gives_no_orders() {
    let said = json!([{ "thought": HIDING }, { "text": format!("a\r\n{HIDING}b\tc") }]);
    let said = sent(said, "streamAssistantMessageChunk").await;
    assert_eq!(said[0]["params"]["chunk"]["thought"], SEEN);
    assert_eq!(said[1]["params"]["chunk"]["text"], format!("a\n{SEEN}b\tc"));
}

#[tokio::test]
async fn what_many_scripts_are_written_with_stays_in_what_the_model_says() {
    let text = "می\u{200c}خواهم, «\u{a0}oui\u{a0}», 👩\u{200d}👩, ❤\u{fe0f}";
    let said = sent(json!([{ "text": text }]), "streamAssistantMessageChunk").await;
    assert_eq!(said[0]["params"]["chunk"]["text"], text);
}

#[tokio::test]
async fn what_comes_of_a_call_gives_no_orders() {
    let listed = json!({ "todos": [{ "description": HIDING, "status": "pending" }] });
    let updates = sent(call("write_todos", listed), "updateToolCall").await;
    let shown = updates[0]["params"]["content"]["markdown"].as_str().unwrap();
    assert!(shown.contains(SEEN), "{shown}");
}

/// Runs one prompt with this text as the answer; returns the standard output.
async fn printed(format: &str, text: &str) -> String {
    let home = TempDir::new().unwrap();
    let mut command = Setup::answers(json!([[{ "text": text }]])).command(home.path());
    let command = command.args(["-p", "go", "-o", format]).stdin(Stdio::null());
    let output = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_answer_for_a_shell_gives_no_orders() {
    let text = format!("a\r\n{HIDING}b\n");
    assert_eq!(printed("text", &text).await, format!("a\n{SEEN}b\n"));
}

#[tokio::test]
async fn an_answer_for_a_program_is_exact_and_gives_no_orders() {
    let text = format!("a\r\n{HIDING}\u{200b}\u{e0041}\u{7f}b");
    for format in ["json", "stream-json"] {
        let printed = printed(format, &text).await;
        let hidden =
            printed.chars().find(|c| *c != '\n' && (c.is_control() || HIDING.contains(*c)));
        assert!(hidden.is_none_or(|c| c.is_ascii_graphic()), "{printed:?}");
        assert!(!printed.contains(['\u{200b}', '\u{e0041}', '\u{7f}']), "{printed:?}");
        let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        let said = if format == "json" {
            read(&printed)["response"].clone()
        } else {
            let lines = printed.lines().map(read);
            let mut said = lines.filter(|line| line["role"] == "assistant");
            said.next().unwrap()["content"].clone()
        };
        assert_eq!(said, text);
    }
}
