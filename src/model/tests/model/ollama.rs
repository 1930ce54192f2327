//! Ollama's own API, against a stand-in for it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tandem_content::media::Media;
use tandem_model::catalog::Catalog;
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::ollama::{Ollama, check};
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_model::{Assistant, Call, Message, Model as _, Part, Prompt, ToolResult};
use test_support::api_server::{Reply, Server};

use crate::api::{ask_for_all as ask, assert_lines, closed_schema, options, prompt, user, wanting};

const MODEL: &str = "qwen3:8b";

fn endpoint(url: &str) -> Endpoint {
    Endpoint { bearer: true, ..Endpoint::new(Provider::Ollama, url.to_owned()) }
}

fn model_at(url: &str, options: RequestOptions) -> Ollama {
    let endpoint = endpoint(url);
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    Ollama::new(Catalog::embedded().lookup(&format!("ollama:{MODEL}")), connect, options).unwrap()
}

fn model(server: &Server) -> Ollama {
    model_at(server.address(), options())
}

/// Returns Ollama's description of a model with these capabilities.
fn shown(capabilities: &[&str]) -> Value {
    json!({ "capabilities": capabilities, "parameters": "stop \"x\"",
        "model_info": { "general.architecture": "qwen3", "qwen3.context_length": 40960 } })
}

/// Starts a server of a model with all capabilities.
async fn start(replies: Vec<Reply>) -> Server {
    able(replies, &["completion", "tools", "vision", "thinking"]).await
}

async fn able(replies: Vec<Reply>, capabilities: &[&str]) -> Server {
    let pages = [("/api/show", shown(capabilities)), ("/api/ps", json!({ "models": [] }))];
    Server::with_pages(replies, &pages).await
}

/// Returns one line of an answer.
fn line(message: Value) -> String {
    json!({ "model": MODEL, "created_at": "x", "message": message, "done": false }).to_string()
        + "\n"
}

fn end(reason: &str) -> String {
    json!({ "model": MODEL, "message": { "role": "assistant", "content": "" }, "done": true,
        "done_reason": reason, "prompt_eval_count": 26, "eval_count": 9 })
    .to_string()
        + "\n"
}

fn stream(lines: Vec<Value>, reason: &str) -> Reply {
    let body: String = lines.into_iter().map(line).collect();
    Reply::stream(body + &end(reason)).header("content-type", "application/x-ndjson")
}

fn text(text: &str) -> Reply {
    stream(vec![json!({ "role": "assistant", "content": text })], "stop")
}

async fn play(replies: Vec<Reply>) -> (Vec<String>, Server) {
    let server = start(replies).await;
    let (lines, _) = ask(&model(&server), prompt(vec![user("hi")])).await;
    (lines, server)
}

const ENDED: &str = "finish: Stop 26/0/9/0";

#[tokio::test]
async fn an_answer_is_streamed_with_the_whole_context() {
    let lines = vec![
        json!({ "role": "assistant", "content": "", "thinking": "h" }),
        json!({ "thinking": "m" }),
        json!({ "content": "Hel" }),
        json!({ "content": "lo" }),
    ];
    let (lines, server) = play(vec![stream(lines, "stop")]).await;
    assert_lines(&lines, &["thought: hm", "text: Hello", ENDED]);
    let asked = &server.asked()[0];
    assert_eq!(asked.what, "POST /api/chat");
    let expected = json!({
        "model": MODEL, "stream": true,
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "hi" },
        ],
        "options": { "num_ctx": 32768, "num_predict": 16384 }, "truncate": false, "shift": false,
        "tools": [{ "type": "function", "function": {
            "name": "glob", "description": "Finds files.",
            "parameters": { "type": "object", "properties": {} },
        } }],
        "think": true,
    });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn a_count_of_the_wrong_type_costs_the_count_and_not_the_answer() {
    let end = json!({ "message": { "content": "Hello" }, "done": true, "done_reason": "stop",
        "prompt_eval_count": "26", "eval_count": 9 });
    let (lines, _) = play(vec![Reply::stream(end.to_string() + "\n")]).await;
    assert_lines(&lines, &["text: Hello", "finish: Stop 0/0/9/0"]);
}

#[tokio::test]
async fn the_context_is_known_once_it_was_asked_for() {
    let server = start(vec![text("ok")]).await;
    let model = model(&server);
    assert_eq!(model.input_limit(), None);
    ask(&model, prompt(vec![user("hi")])).await;
    assert_eq!(model.input_limit(), Some(32768));
}

#[tokio::test]
async fn the_context_can_be_known_before_the_first_request() {
    let server = start(vec![text("ok")]).await;
    let model = model(&server);
    model.learn_window().await;
    assert_eq!(model.input_limit(), Some(32768));
}

/// Plays an answer with two calls. Returns the lines, the conversation after them, and the server.
async fn with_calls() -> (Vec<String>, Prompt, Server) {
    let call = |name: &str, args: Value| json!({ "function": { "name": name, "arguments": args } });
    let lines = vec![
        json!({ "thinking": "hm" }),
        json!({ "tool_calls": [call("glob", json!({ "pattern": "a" }))] }),
        json!({ "tool_calls": [call("glob", json!({}))] }),
    ];
    let server = start(vec![stream(lines, "stop"), text("ok")]).await;
    let model = model(&server);
    let (lines, end) = ask(&model, prompt(vec![user("hi")])).await;
    let call = |id: &str, args: Value| Call { id: id.to_owned(), name: "glob".to_owned(), args };
    let result = |id: &str, text: &str, media| ToolResult {
        call: id.to_owned(),
        name: "glob".to_owned(),
        text: text.to_owned(),
        failed: false,
        media,
    };
    let native = end.unwrap().native;
    let calls = vec![call("c0", json!({ "pattern": "a" })), call("c1", json!({}))];
    let said = Assistant { text: String::new(), calls, native };
    let image = vec![Media::new("image/png", b"png")];
    let results = vec![result("c0", "done", Vec::new()), result("c1", "", image)];
    let told =
        vec![user("hi"), Arc::new(Message::Assistant(said)), Arc::new(Message::Results(results))];
    ask(&model, prompt(told.clone())).await;
    (lines, prompt(told), server)
}

#[tokio::test]
async fn calls_and_reasoning_go_back_with_their_results() {
    let (lines, _, server) = with_calls().await;
    let calls = [r#"call: glob({"pattern":"a"}) call_0"#, "call: glob({}) call_1"];
    assert_lines(&lines, &["thought: hm", calls[0], calls[1], ENDED]);
    let told = server.asked()[1].body["messages"].as_array().unwrap().clone();
    let call = |id: &str, args: Value| json!({ "id": id, "function": { "name": "glob", "arguments": args } });
    assert_eq!(
        told[2..],
        [
            json!({ "role": "assistant", "content": "", "thinking": "hm",
            "tool_calls": [call("c0", json!({ "pattern": "a" })), call("c1", json!({}))] }),
            json!({ "role": "tool", "content": "done", "tool_name": "glob", "tool_call_id": "c0" }),
            json!({ "role": "tool", "content": "(nothing)", "tool_name": "glob", "tool_call_id": "c1" }),
            json!({ "role": "user", "content": "[What the tools above have to show:]", "images": ["cG5n"] }),
        ]
    );
}

#[tokio::test]
async fn a_model_is_sent_only_what_it_can_take() {
    let server = able(vec![text("ok")], &["completion", "tools"]).await;
    let image = Part::Media(Media::new("image/png", b"png"));
    let asked = vec![Arc::new(Message::User(vec![Part::Text("see".to_owned()), image]))];
    ask(&model(&server), prompt(asked)).await;
    let body = &server.asked()[0].body;
    assert_eq!(
        body["messages"][1],
        json!({ "role": "user",
        "content": "see\n[image/png: this model cannot see it.]" })
    );
    assert!(body.get("think").is_none());
    let server = able(vec![text("ok")], &["completion"]).await;
    let (lines, _) = ask(&model(&server), prompt(vec![user("hi")])).await;
    let why = format!(
        "The model `{MODEL}` cannot call tools, so it cannot work with tandem. Choose another model."
    );
    assert_lines(&lines, &[&format!("error: Rejected(\"{why}\")")]);
}

#[tokio::test]
async fn how_much_it_thinks_is_said_if_the_user_says_so() {
    for (level, think) in [("off", json!(false)), ("On", json!(true)), ("HIGH", json!("high"))] {
        let server = start(vec![text("ok")]).await;
        let options = RequestOptions { thinking: Some(level.to_owned()), ..options() };
        ask(&model_at(server.address(), options), prompt(vec![user("hi")])).await;
        assert_eq!(server.asked()[0].body["think"], think);
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_is_named_with_the_command_that_gets_it() {
    let pages = [("/api/tags", json!({ "models": [{ "name": "a:latest" }, { "name": "b:1b" }] }))];
    let missing =
        || Reply::error(404, json!({ "error": format!("model '{MODEL}' not found") }).to_string());
    // The server refuses two requests: the request for the model's abilities, and the request for the answer.
    let server = Server::with_pages(vec![missing(), missing()], &pages).await;
    let (lines, _) = ask(&model(&server), prompt(vec![user("hi")])).await;
    let why = format!(
        "Ollama does not have the model `{MODEL}`. Get it with `ollama pull {MODEL}`. The server \
         says: model '{MODEL}' not found Available models: a, b:1b."
    );
    assert_lines(&lines, &[&format!("error: Rejected(\"{why}\")")]);
}

#[tokio::test]
async fn without_ollama_it_is_said_how_to_start_it() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}");
    let (lines, _) = ask(&model_at(&url, options()), prompt(vec![user("hi")])).await;
    let why = format!(
        "Ollama does not answer at {url}. Start it with `ollama serve`, or set OLLAMA_HOST to \
         its address."
    );
    assert_lines(&lines, &[&format!("error: Unavailable(\"{why}\")")]);
}

#[tokio::test]
async fn what_fails_is_tried_again_or_said() {
    let failing = json!({ "error": "an error was encountered while running the model" });
    let within = line(json!({ "content": "Well" })) + &failing.to_string() + "\n";
    let replies = vec![
        Reply::error(503, r#"{"error":"server busy"}"#),
        Reply::stream(within),
        Reply::stream(line(json!({ "content": "Hal" }))),
        text("ok"),
    ];
    let (lines, _) = play(replies).await;
    assert_lines(
        &lines,
        &[
            "retry: server overloaded: server busy, 2/10",
            "text: Well",
            "retry: server error (500): an error was encountered while running the model, 3/4, discard",
            "text: Hal",
            "retry: answer cut off, 2/4, discard",
            "text: ok",
            ENDED,
        ],
    );
    for (status, error, kind) in [
        (400, "the input length exceeds the context length", "ContextTooLong"),
        (500, "model requires more system memory (9 GiB) than is available (4 GiB)", "Unavailable"),
        (400, "registry.ollama.ai/library/x does not support tools", "Rejected"),
        (401, "unauthorized", "NotAuthenticated"),
    ] {
        let server = start(vec![Reply::error(status, json!({ "error": error }).to_string())]).await;
        // The conversation is long enough for the refusal to mean that the conversation is too long.
        let asked = prompt(vec![user(&"hi ".repeat(100))]);
        let (lines, _) = ask(&model(&server), asked).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("error: {kind}(")), "{lines:?}");
    }
}

#[tokio::test]
async fn an_answer_is_the_same_however_it_is_cut() {
    let lines = vec![
        json!({ "thinking": "日本 🦀" }),
        json!({ "content": "Hé" }),
        json!({ "content": "llo" }),
        json!({ "tool_calls": [{ "function": { "name": "glob", "arguments": { "a": "日本" } } }] }),
    ];
    let body: String = lines.into_iter().map(line).collect::<String>() + &end("stop");
    let mut replies: Vec<_> = (0..40)
        .map(|seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let places = (0..random.usize(1..60)).map(|_| random.usize(..body.len())).collect();
            Reply::stream(body.clone()).cut_at(places)
        })
        .collect();
    replies.push(Reply::stream(body.clone()).cut_at((1..body.len()).collect()));
    replies.push(Reply::stream(body.replace('\n', "\r\n")));
    let times = replies.len();
    let server = start(replies).await;
    let model = model(&server);
    for _ in 0..times {
        let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
        let call = r#"call: glob({"a":"日本"}) call_0"#;
        assert_lines(&lines, &["thought: 日本 🦀", "text: Héllo", call, ENDED]);
    }
}

#[tokio::test]
async fn too_much_is_given_up_and_silence_too() {
    let line = line(json!({ "content": "x".repeat(1 << 20) }));
    for (body, what) in
        [("x".repeat(1 << 20), "An event of the answer"), (line, "The model's answer")]
    {
        let (lines, _) = play(vec![Reply::stream(body).times(100)]).await;
        let error = format!("error: BadAnswer(\"{what} is bigger than 32 MiB, ");
        assert!(lines.last().is_some_and(|last| last.starts_with(&error)), "{error}");
    }
    let hangs = Reply::stream(self::line(json!({ "content": "Hal" }))).then_hang();
    let server = start(vec![hangs, text("Half")]).await;
    let options = RequestOptions { idle: Duration::from_millis(300), ..options() };
    let (lines, _) = ask(&model_at(server.address(), options), prompt(vec![user("hi")])).await;
    let again = "retry: server silent, 2/4, discard";
    assert_lines(&lines, &["text: Hal", again, "text: Half", ENDED]);
}

#[tokio::test]
async fn a_key_is_checked_by_the_list_of_models() {
    let pages = [("/api/tags", json!({ "models": [{ "name": "a:latest" }] }))];
    let server = Server::with_pages(Vec::new(), &pages).await;
    assert_eq!(check(&endpoint(server.address())).await, Ok(()));
    let server = Server::with_pages(Vec::new(), &[]).await;
    assert!(check(&endpoint(server.address())).await.is_err());
}

#[tokio::test]
async fn a_format_is_sent_only_without_tools_which_it_would_keep_the_model_from() {
    for tools in [wanting(closed_schema()).tools, [].into()] {
        let server = start(vec![text("ok")]).await;
        let prompt = Prompt { tools: Arc::clone(&tools), ..wanting(closed_schema()) };
        ask(&model(&server), prompt).await;
        let format = server.asked().pop().unwrap().body.get("format").cloned();
        assert_eq!(format, tools.is_empty().then(closed_schema));
    }
}
