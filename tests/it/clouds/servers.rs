//! `OpenRouter`, GitHub Models, and servers that the settings name.

use std::process::Stdio;

use tokio::time::timeout;

use super::*;
use crate::agent::HANG;

/// Stands in for `OpenRouter`, below `/api/v1`.
fn as_openrouter(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    if asked.what != "POST /api/v1/chat/completions" {
        return Some(refused(404, "Not Found"));
    }
    if header(asked, "authorization") != "Bearer sk-or-v1-0123456789" {
        return Some(refused(401, "No auth credentials found"));
    }
    (asked.body["model"] != "qwen/qwen3-coder").then(|| refused(400, "x is not a valid model ID"))
}

#[tokio::test]
async fn openrouter_is_asked_in_chat_completions_with_its_key_and_the_name_of_the_program() {
    let server = strict(chat(), as_openrouter).await;
    let url = format!("{}/api/v1", server.address());
    let settings = json!({ "modelServers": { "openrouter": { "url": url } } });
    let vars = [("OPENROUTER_API_KEY", "sk-or-v1-0123456789")];
    ask_well("openrouter:qwen/qwen3-coder", &vars, &settings).await;
    let asked = server.asked();
    assert_eq!(header(&asked[0], "x-title"), "tandem");
}

#[tokio::test]
async fn a_key_that_openrouter_refuses_is_named_with_the_command_for_another_one() {
    let server = strict(chat(), as_openrouter).await;
    let url = format!("{}/api/v1", server.address());
    let settings = json!({ "modelServers": { "openrouter": { "url": url } } });
    let vars = [("OPENROUTER_API_KEY", "sk-or-v1-another-key")];
    let error = ask_in_vain("openrouter:qwen/qwen3-coder", &vars, &settings).await;
    assert!(error.contains("`tandem login --provider openrouter`"), "{error}");
}

#[tokio::test]
async fn without_a_key_for_openrouter_the_error_says_what_to_do() {
    let error = ask_in_vain("openrouter:qwen/qwen3-coder", &[], &json!({})).await;
    for expected in
        ["OPENROUTER_API_KEY", "`tandem login --provider openrouter`", "https://openrouter.ai/"]
    {
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// Stands in for GitHub Models.
fn as_github(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    if asked.what != "POST /inference/chat/completions" {
        return Some(refused(404, "Not Found"));
    }
    if header(asked, "authorization") != "Bearer ghp_0123456789" {
        return Some(refused(401, "Bad credentials"));
    }
    (header(asked, "x-github-api-version") != "2022-11-28")
        .then(|| refused(400, "Invalid API version"))
}

#[tokio::test]
async fn github_models_is_asked_with_the_token_of_github() {
    let page = json!([{ "id": "openai/gpt-4.1", "limits": { "max_input_tokens": 1_048_576 } }]);
    let pages = [("/catalog/models", page)];
    let server = Server::of_pages(vec![chat()], &pages, Some(as_github)).await;
    let url = format!("{}/inference", server.address());
    let settings = json!({ "modelServers": { "github": { "url": url } } });
    ask_well("github:openai/gpt-4.1", &[("GITHUB_TOKEN", "ghp_0123456789")], &settings).await;
}

#[tokio::test]
async fn a_small_window_that_github_lists_is_found_before_the_first_request() {
    let page = json!([{ "id": "openai/gpt-4.1", "limits": { "max_input_tokens": 500 } }]);
    let pages = [("/catalog/models", page)];
    let server = Server::of_pages(vec![], &pages, Some(as_github)).await;
    let url = format!("{}/inference", server.address());
    let settings = json!({ "modelServers": { "github": { "url": url } } });
    let vars = [("GITHUB_TOKEN", "ghp_0123456789")];
    let error = ask_in_vain("github:openai/gpt-4.1", &vars, &settings).await;
    assert!(error.contains("500"), "{error}");
}

/// Stands in for a server with a key, a header of its own, and only chat completions.
fn as_work(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    if asked.what != "POST /llm/v1/chat/completions" {
        return Some(refused(404, "Not Found"));
    }
    let is_known = header(asked, "authorization") == "Bearer work-key-0123456789"
        && header(asked, "x-team") == "blue";
    (!is_known).then(|| refused(401, "who are you?"))
}

fn work(server: &Server) -> Value {
    json!({ "modelServers": { "work": {
        "url": format!("{}/llm/v1/", server.address()),
        "api": "openai-chat",
        "keyVariable": "WORK_LLM_KEY",
        "headers": { "X-Team": "$TEAM" },
        "models": ["coder", "writer"],
    } } })
}

const WORK_VARIABLES: [(&str, &str); 2] =
    [("WORK_LLM_KEY", "work-key-0123456789"), ("TEAM", "blue")];

#[tokio::test]
async fn a_server_of_the_settings_is_asked_at_its_address_with_its_key_and_headers() {
    let server = strict(chat(), as_work).await;
    ask_well("work:any/model:7b", &WORK_VARIABLES, &work(&server)).await;
    assert_eq!(server.asked().last().unwrap().body["model"], "any/model:7b");
}

#[tokio::test]
async fn an_api_that_the_settings_name_is_the_only_one_that_is_asked() {
    let server = strict(refused(404, "no such model"), as_work).await;
    ask_in_vain("work:gpt-6-sol", &WORK_VARIABLES, &work(&server)).await;
    let asked = server.asked();
    let posts: Vec<_> = asked.iter().filter(|asked| asked.what.starts_with("POST")).collect();
    assert_eq!(posts.len(), 1);
}

/// Runs one prompt without `--model`, which a setup would add.
async fn ask_default(settings: &Value) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".gemini")).unwrap();
    std::fs::write(home.path().join(".gemini/settings.json"), settings.to_string()).unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.env_clear().env("HOME", home.path()).env("TANDEM_LOG", "off").envs(WORK_VARIABLES);
    command.current_dir(home.path()).args(["-p", "hi"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[tokio::test]
async fn of_the_usual_provider_the_first_model_that_the_settings_list_answers() {
    let server = strict(chat(), as_work).await;
    let mut settings = work(&server);
    settings["model"] = json!({ "provider": "work" });
    assert_eq!(ask_default(&settings).await, "ok\n");
    assert_eq!(server.asked().last().unwrap().body["model"], "coder");
}

#[tokio::test]
async fn an_id_without_a_prefix_belongs_to_the_usual_provider() {
    let server = strict(chat(), as_work).await;
    let mut settings = work(&server);
    settings["model"] = json!({ "provider": "work", "name": "qwen3:8b" });
    assert_eq!(ask_default(&settings).await, "ok\n");
    assert_eq!(server.asked().last().unwrap().body["model"], "qwen3:8b");
}

#[tokio::test]
async fn a_missing_key_of_a_server_is_named_with_its_variable() {
    let server = strict(chat(), as_work).await;
    let error = ask_in_vain("work:coder", &[("TEAM", "blue")], &work(&server)).await;
    assert!(
        error.contains("There is no work API key. Set WORK_LLM_KEY in the environment"),
        "{error}"
    );
    assert!(error.contains("`tandem login --provider work`"), "{error}");
    assert!(server.asked().is_empty());
}

/// Stands in for a server with Anthropic's API.
fn as_messages(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let is_known =
        asked.what == "POST /claude/v1/messages" && header(asked, "x-api-key") == "claude-key";
    (!is_known).then(|| refused(404, "Not Found"))
}

#[tokio::test]
async fn a_server_of_the_settings_may_have_anthropics_api() {
    let server = strict(message(), as_messages).await;
    let url = format!("{}/claude", server.address());
    let settings = json!({ "modelServers": { "claude": { "url": url, "api": "anthropic", "keyVariable": "CLAUDE" } } });
    ask_well("claude:claude-opus-5", &[("CLAUDE", "claude-key")], &settings).await;
}

/// Stands in for a server with the Gemini API.
fn as_gemini(asked: &Asked, _: &[Vec<u8>]) -> Option<Reply> {
    let path = "POST /g/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse";
    let is_known = asked.what == path && header(asked, "x-goog-api-key") == "gemini-key";
    (!is_known).then(|| refused(404, "Not Found"))
}

#[tokio::test]
async fn a_server_of_the_settings_may_have_the_gemini_api() {
    let server = strict(Reply::text("ok"), as_gemini).await;
    let url = format!("{}/g/v1beta", server.address());
    let settings =
        json!({ "modelServers": { "g": { "url": url, "api": "gemini", "keyVariable": "G" } } });
    ask_well("g:gemini-3.8-flash", &[("G", "gemini-key")], &settings).await;
}

#[tokio::test]
async fn the_models_of_a_server_are_listed_beside_those_of_the_catalog() {
    let pages = [("/llm/v1/models", json!({ "data": [{ "id": "served" }] }))];
    let server = Server::of_pages(vec![], &pages, Some(as_work)).await;
    let setup = Setup::default()
        .file("../.gemini/settings.json", &work(&server).to_string())
        .arg("-p")
        .arg("/model");
    let ran =
        WORK_VARIABLES.iter().fold(setup, |it, (name, value)| it.var(name, value)).run().await;
    for id in ["`work:coder`", "`work:writer`", "`work:served`"] {
        assert!(ran.stdout.contains(id), "{id}: {}", ran.stdout);
    }
}

#[tokio::test]
async fn the_key_of_a_server_reaches_no_command() {
    let server = strict(chat(), as_work).await;
    let command = json!({ "command": "env; echo the end" });
    let answers = json!([[{ "call": { "name": "run_shell_command", "args": command } }], [{ "text": "done" }]]);
    let mut settings = work(&server);
    settings["security"] = json!({ "environmentVariableRedaction": { "enabled": false } });
    let setup = Setup::answers(answers)
        .file("../.gemini/settings.json", &settings.to_string())
        .var("GITHUB_TOKEN", "ghp_0123456789")
        .arg("-y")
        .arg("--output-format")
        .arg("stream-json")
        .arg("-p")
        .arg("go");
    let ran =
        WORK_VARIABLES.iter().fold(setup, |it, (name, value)| it.var(name, value)).run().await;
    assert!(ran.stdout.contains("the end"), "{}{}", ran.stdout, ran.stderr);
    assert!(!ran.stdout.contains("work-key-0123456789"), "{}", ran.stdout);
    // `GITHUB_TOKEN` is not hidden from commands, because programs such as `gh` use it, too.
    assert!(ran.stdout.contains("ghp_0123456789"), "{}", ran.stdout);
}
