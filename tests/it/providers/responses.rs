//! The real program with the Responses API: calls, levels of thinking, and sessions that are loaded, forked and
//! rewound.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::api_server::Server;
use test_support::api_server::responses::{answer, call, input, message, reasoning, start, text};
use tokio::time::timeout;

use crate::agent::{HANG, Setup, text as said};

const MODEL: &str = "openai:gpt-6-sol";
const KEY: &str = "sk-Test0123456789abcdef";

fn write() -> Vec<Value> {
    let arguments = json!({ "file_path": "a.txt", "content": "hi\n" }).to_string();
    let mut call = call("fc_1", "call_1", &arguments);
    call["name"] = json!("write_file");
    vec![
        reasoning("rs_1", "c2lnbmVk", "**Plan** Write it."),
        message("msg_1", "Writing. ", "commentary"),
        call,
    ]
}

fn setup(server: &Server, model: &str) -> Setup {
    Setup::default()
        .arg("--model")
        .arg(model)
        .var("OPENAI_BASE_URL", &format!("{}/v1", server.address()))
        .var("OPENAI_API_KEY", KEY)
}

#[tokio::test]
async fn a_call_makes_the_round_through_the_program() {
    let written = message("msg_2", "Written.", "final_answer");
    let server =
        start(vec![answer(&write()), answer(std::slice::from_ref(&written)), text("Bye.")]).await;
    let mut agent = setup(&server, MODEL).arg("--thinking").arg("high").start();
    let id = agent.prompt("write hi").await;
    assert_eq!(said(&agent.until_answered(id, "allow").await), "Writing. Written.");
    assert_eq!(fs::read_to_string(agent.workspace().join("a.txt")).unwrap(), "hi\n");
    let id = agent.prompt("thanks").await;
    assert_eq!(said(&agent.until_answered(id, "allow").await), "Bye.");
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.body["reasoning"]["effort"] == "high"));
    let keys: Vec<_> = asked.iter().map(|asked| &asked.body["prompt_cache_key"]).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(input(&server, 1)[1..4], write());
    let sent = input(&server, 2);
    assert_eq!(sent[1..4], write());
    assert_eq!((&sent[4]["call_id"], &sent[5]), (&json!("call_1"), &written));
}

/// Runs the program in a home with the stand-in, and returns its output.
async fn run(server: &Server, home: &Path, arguments: &[&str]) -> String {
    let mut command = setup(server, MODEL).command(home);
    let child =
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = timeout(HANG, child.wait_with_output()).await.expect("it does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    out.trim_end().to_owned()
}

#[tokio::test]
async fn a_session_that_is_loaded_forked_or_rewound_sends_what_it_would_have_sent() {
    let written = message("msg_2", "Written.", "final_answer");
    let more = ["two", "three", "four", "five"];
    let more = more.iter().map(|id| answer(&[message(&format!("msg_{id}"), id, "final_answer")]));
    let replies =
        [answer(&write()), answer(std::slice::from_ref(&written))].into_iter().chain(more);
    let server = start(replies.collect()).await;
    let home = TempDir::new().unwrap();
    let home = home.path();
    // The mode is the same in all runs: a change of it would be told.
    assert!(run(&server, home, &["-y", "-p", "write hi"]).await.ends_with("Written."));
    assert_eq!(run(&server, home, &["-y", "-c", "-p", "loaded"]).await, "two");
    let listed = run(&server, home, &["sessions", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id =
        listed.pointer("/0/id").or(listed.pointer("/sessions/0/id")).unwrap().as_str().unwrap();
    let fork = run(&server, home, &["sessions", "fork", id]).await;
    assert_eq!(run(&server, home, &["-y", "-r", &fork, "-p", "forked"]).await, "three");
    run(&server, home, &["-y", "-r", id, "-p", "/rewind conversation 2"]).await;
    assert_eq!(run(&server, home, &["-y", "-r", id, "-p", "rewound"]).await, "four");

    let prompt = |text: &str| {
        json!({ "type": "message", "role": "user",
            "content": [{ "type": "input_text", "text": text }] })
    };
    let step = |request: usize| {
        let sent = input(&server, request);
        assert_eq!((&sent[1..4], &sent[5]), (&write()[..], &written), "request {request}");
        assert_eq!(sent[4]["call_id"], "call_1");
        sent[6..].to_vec()
    };
    assert_eq!(step(2), [prompt("loaded")]);
    let two = message("msg_two", "two", "final_answer");
    assert_eq!(step(3), [prompt("loaded"), two, prompt("forked")]);
    assert_eq!(step(4), [prompt("rewound")]);
    let begins = |request: usize| {
        let body = server.asked()[request].body.clone();
        (body["prompt_cache_key"].clone(), body["input"][0].clone())
    };
    for request in 1..5 {
        assert_eq!(begins(request), begins(0), "request {request}");
    }
}

#[tokio::test]
async fn the_default_model_of_openai_answers_with_tools() {
    let server = start(vec![answer(&write()), text("Done.")]).await;
    let home = TempDir::new().unwrap();
    let workspace = home.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let url = format!("{}/v1", server.address());
    // `Setup` would name a model, so the command is built here.
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tandem"));
    command
        .env_clear()
        .env("HOME", home.path())
        .envs([("TANDEM_LOG", "off"), ("OPENAI_BASE_URL", &url), ("OPENAI_API_KEY", KEY)])
        .current_dir(&workspace)
        .args(["-y", "-p", "write hi"])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("Done.\n"));
    assert_eq!(server.asked()[0].body["model"], "gpt-6.1-sol");
    assert_eq!(fs::read_to_string(workspace.join("a.txt")).unwrap(), "hi\n");
}

#[tokio::test]
async fn an_id_that_names_the_api_is_taken_on_the_command_line_and_in_a_session() {
    let server = start(vec![text("one"), text("two")]).await;
    let home = TempDir::new().unwrap();
    let mut command = setup(&server, "openai-responses:unheard-of").command(home.path());
    command.args(["-p", "hi"]).stdin(Stdio::null());
    let output = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "one\n");

    let mut agent = setup(&server, "openai-responses:unheard-of").start();
    let id = agent.prompt("/model set openai-responses:other").await;
    agent.until_answered(id, "allow").await;
    let id = agent.prompt("hi").await;
    assert_eq!(said(&agent.until_answered(id, "allow").await), "two");
    let whats: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(whats, ["POST /v1/responses"; 2]);
    assert_eq!(server.asked()[1].body["model"], "other");
}
