//! Models of servers on this machine. The settings give each stand-in the name of a program that runs there.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::api_server::Server;
use test_support::api_server::openai::text;
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::HANG;

/// Output of the program.
struct Output {
    stdout: String,
    stderr: String,
}

/// Runs the program without `--model`, with settings and variables.
async fn run(settings: &Value, vars: &[(&str, &str)], args: &[&str]) -> Output {
    let home = TempDir::new().unwrap();
    run_in(home.path(), settings, vars, args).await
}

async fn run_in(home: &Path, settings: &Value, vars: &[(&str, &str)], args: &[&str]) -> Output {
    std::fs::create_dir_all(home.join(".gemini")).unwrap();
    std::fs::write(home.join(".gemini/settings.json"), settings.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.env_clear().env("HOME", home).env("TANDEM_LOG", "off").env("TANDEM_LOCAL_SERVERS", "");
    command.envs(vars.iter().copied()).args(args).current_dir(home).stdin(Stdio::null());
    let output = timeout(HANG, command.kill_on_drop(true).output()).await;
    let output = output.expect("it does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output { stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Starts a stand-in for llama.cpp with these models, which answers one prompt.
async fn llama_cpp(ids: &[&str]) -> Server {
    llama_cpp_with_window(ids, 32_768).await
}

async fn llama_cpp_with_window(ids: &[&str], window: u64) -> Server {
    let data: Vec<_> = ids.iter().map(|id| json!({ "id": id, "object": "model" })).collect();
    let list = json!({ "object": "list", "data": data });
    let props = json!({ "default_generation_settings": { "n_ctx": window } });
    Server::with_pages(vec![text("I am here.")], &[("/v1/models", list), ("/props", props)]).await
}

/// Returns settings in which the program of this name has the address of the stand-in.
fn settings(name: &str, server: &Server) -> Value {
    json!({ "modelServers": { name: { "url": url(server) } } })
}

fn url(server: &Server) -> String {
    format!("{}/v1", server.address())
}

fn asked_models(server: &Server) -> Vec<Value> {
    server.asked().iter().map(|asked| asked.body["model"].clone()).collect()
}

#[tokio::test]
async fn with_the_address_of_a_server_alone_its_first_model_answers_and_a_notice_says_so() {
    let server = llama_cpp(&["smol.gguf", "large.gguf"]).await;
    let vars = [("OPENAI_BASE_URL", &*url(&server))];
    let Output { stdout, stderr } = run(&json!({}), &vars, &["-p", "hi"]).await;
    assert_eq!(stdout, "I am here.\n", "{stderr}");
    assert_eq!(asked_models(&server), ["smol.gguf"]);
    let notice = format!(
        "`openai:smol.gguf` answers, the first model of the server at {}",
        server.address()
    );
    assert!(stderr.contains(&notice), "{stderr}");
}

#[tokio::test]
async fn the_first_request_to_a_small_model_has_few_tools_and_says_where_the_model_is() {
    let server = llama_cpp_with_window(&["smol.gguf"], 8192).await;
    let vars = [("OPENAI_BASE_URL", &*url(&server))];
    let Output { stdout, stderr } = run(&json!({}), &vars, &["-p", "hi"]).await;
    assert_eq!(stdout, "I am here.\n", "{stderr}");
    let body = &server.asked()[0].body;
    let tools = body["tools"].as_array().unwrap().iter();
    let names: Vec<_> = tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    let short = ["read_file", "glob", "grep_search", "write_file", "replace", "run_shell_command"];
    assert_eq!(names, short);
    let system = body["messages"][0]["content"].as_str().unwrap();
    for line in [
        "\n- Your model id: `openai:smol.gguf`.\n- Notes for your model: Read the part of a file that you need",
        "\n- Make one call in each answer",
        "\n- Approval mode `default`: ",
        "\n- Commands ",
        "\n- Nobody can be asked in this run: ",
        "\nGit: the workspace is not in a git repository.\n",
    ] {
        assert!(system.contains(line), "{line:?} is not in {system}");
    }
}

#[tokio::test]
async fn the_model_that_a_server_has_chosen_stays_when_the_session_goes_on() {
    let home = TempDir::new().unwrap();
    let server = llama_cpp(&["smol.gguf"]).await;
    let vars = [("OPENAI_BASE_URL", &*url(&server))];
    run_in(home.path(), &json!({}), &vars, &["-p", "hi"]).await;
    let shown = run_in(home.path(), &json!({}), &vars, &["-c", "-p", "/about"]).await;
    assert!(shown.stdout.contains("model: `openai:smol.gguf`"), "{}", shown.stdout);
}

#[tokio::test]
async fn a_server_that_does_not_run_is_named_with_what_to_do() {
    let vars = [("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")];
    let shown = run(&json!({}), &vars, &["-p", "hi"]).await;
    let expected =
        "Nothing answers at http://127.0.0.1:9/v1. Start the server, or correct the address.";
    assert!(shown.stderr.contains(expected), "{}", shown.stderr);
}

#[tokio::test]
async fn a_program_of_this_machine_is_a_provider_whatever_a_project_says_of_addresses() {
    let server = llama_cpp(&["smol.gguf"]).await;
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join(".env"), "OPENAI_BASE_URL=http://127.0.0.1:9/v1\n").unwrap();
    let mut settings = settings("llamacpp", &server);
    settings["model"] = json!({ "provider": "llamacpp" });
    let shown = run_in(home.path(), &settings, &[], &["-p", "hi"]).await;
    assert_eq!(shown.stdout, "I am here.\n", "{}", shown.stderr);
    let named = llama_cpp(&["smol.gguf"]).await;
    let settings = self::settings("lmstudio", &named);
    let args = ["-p", "hi", "--model", "lmstudio:large"];
    let shown = run_in(home.path(), &settings, &[], &args).await;
    assert_eq!(shown.stdout, "I am here.\n", "{}", shown.stderr);
    assert_eq!(asked_models(&named), ["large"]);
}

#[tokio::test]
async fn models_are_listed_by_their_providers_and_servers() {
    let server = llama_cpp(&["smol.gguf"]).await;
    let mut settings = settings("llamacpp", &server);
    settings["modelServers"]["vllm"] = json!({ "url": "http://127.0.0.1:9/v1" });
    let vars = [("ANTHROPIC_API_KEY", "x")];
    let Output { stdout, .. } = run(&settings, &vars, &["models"]).await;
    for line in [
        "Default: anthropic:claude-sonnet-5-5 (the first provider with a key or an address)",
        "Anthropic",
        &format!("llama.cpp at {}", server.address()),
        "Not answering: vLLM at http://127.0.0.1:9",
    ] {
        assert!(stdout.lines().any(|it| it == line), "{line}\n{stdout}");
    }
    let row = |id: &str| {
        let row = stdout.lines().find(|line| line.trim_start().starts_with(id)).unwrap();
        row.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("llamacpp:smol.gguf"), "llamacpp:smol.gguf 32,768 tokens");
    assert!(row("anthropic:claude-opus-5-5").contains(" out for a million tokens"));
    assert!(!stdout.contains("gemini"), "there is no key for Gemini\n{stdout}");
    assert!(!stdout.contains("no model that can chat"), "{stdout}");
    let json: Value =
        serde_json::from_str(&run(&settings, &vars, &["models", "list", "--json"]).await.stdout)
            .unwrap();
    assert_eq!(json["default"]["id"], "anthropic:claude-sonnet-5-5");
    let here = json["groups"].as_array().unwrap().last().unwrap();
    assert_eq!(here["provider"], "llamacpp");
    assert_eq!(here["address"], server.address());
    let model =
        json!({ "id": "llamacpp:smol.gguf", "window": 32_768, "price": null, "thinking": [] });
    assert_eq!(here["models"], json!([model]));
    let silent = json!([{ "provider": "vllm", "address": "http://127.0.0.1:9" }]);
    assert_eq!(json["notAnswering"], silent);
}

#[tokio::test]
async fn the_default_is_listed_with_the_reason_for_it() {
    let server = llama_cpp(&["smol.gguf"]).await;
    for (model, expected) in [
        (
            json!({ "name": "llamacpp:smol.gguf" }),
            "Default: llamacpp:smol.gguf (`model.name` of ~/.gemini/settings.json:1)",
        ),
        (
            json!({ "provider": "llamacpp" }),
            "Default: llamacpp (the server's first model) (`model.provider` of ~/.gemini/settings.json:1)",
        ),
        (json!({}), "Default: none (no provider is set up)"),
    ] {
        let mut settings = settings("llamacpp", &server);
        if model == json!({}) {
            settings = json!({});
        }
        settings["model"] = model;
        let Output { stdout, .. } = run(&settings, &[], &["models"]).await;
        assert_eq!(stdout.lines().next(), Some(expected));
    }
}

#[tokio::test]
async fn without_any_model_the_list_says_what_to_do() {
    let Output { stdout, .. } = run(&json!({}), &[], &["models"]).await;
    assert!(stdout.contains("There is no model yet."), "{stdout}");
    assert!(stdout.contains("`llama-server --jinja -m FILE`"), "{stdout}");
}
