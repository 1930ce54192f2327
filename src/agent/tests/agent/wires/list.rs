//! The APIs, each with the answers of a stand-in server in its own format.

use std::sync::Arc;

use serde_json::{Value, json};
use tandem_model::anthropic::Anthropic;
use tandem_model::catalog::{Catalog, ModelProperties};
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::gemini::Gemini;
use tandem_model::ollama::Ollama;
use tandem_model::openai::OpenAi;
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_model::{Model, Secret};
use test_support::api_server::{Check, Reply, Server, anthropic, gemini, openai, responses};
use test_support::limit::HANG;

/// An API, and the answers of a conversation with it.
pub(super) struct Wire {
    pub(super) name: &'static str,
    pub(super) model: fn(&Server) -> Arc<dyn Model>,
    /// Answers of the server at other paths.
    pub(super) pages: fn() -> Vec<(&'static str, Value)>,
    /// Check of each request by a strict stand-in.
    pub(super) check: Option<Check>,
    /// The first answer: thinks `I must look`, says `Looking.`, and calls `glob` with `{"pattern": "a"}` and with
    /// `{}`. It costs 20 tokens of input and 10 of output. If the API signs answers, the signature is `c2lnbmVk`.
    pub(super) step: fn() -> Reply,
    /// The last answer, `All is well.`, which costs 30 tokens of input and 5 of output.
    pub(super) last: fn() -> Reply,
}

pub(super) const WIRES: &[Wire] = &[
    Wire {
        name: "gemini",
        model: gemini_model,
        pages: Vec::new,
        check: Some(gemini::check),
        step: gemini::step,
        last: gemini::last,
    },
    Wire {
        name: "openai",
        model: |server| openai_model("openai:some/model-7b", server),
        pages: Vec::new,
        check: Some(openai::check),
        step: openai::step,
        last: openai::last,
    },
    Wire {
        name: "responses",
        model: responses_model,
        pages: Vec::new,
        check: Some(responses::check),
        step: responses::step,
        last: responses::last,
    },
    Wire {
        name: "anthropic",
        model: anthropic_model,
        pages: Vec::new,
        check: Some(anthropic::check),
        step: anthropic::step,
        last: anthropic::last,
    },
    Wire {
        name: "ollama",
        model: ollama_model,
        pages: || {
            let able = json!({ "capabilities": ["tools", "thinking"] });
            vec![("/api/show", able), ("/api/ps", json!({ "models": [] }))]
        },
        check: None,
        step: || {
            let call = |args: Value| json!({ "function": { "name": "glob", "arguments": args } });
            let messages = vec![
                json!({ "thinking": "I must look" }),
                json!({ "content": "Looking." }),
                json!({ "tool_calls": [call(json!({ "pattern": "a" })), call(json!({}))] }),
            ];
            ollama(messages, (20, 10))
        },
        last: || ollama(vec![json!({ "content": "All is well." })], (30, 5)),
    },
    Wire {
        name: "anthropic",
        model: anthropic_model,
        pages: Vec::new,
        check: Some(anthropic::check),
        step: || {
            let call = |id: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": "glob", "input": input });
            let list = json!([
                { "type": "thinking", "thinking": "I must look", "signature": "c2lnbmVk" },
                { "type": "text", "text": "Looking." },
                call("toolu_1", json!({ "pattern": "a" })),
                call("toolu_2", json!({})),
            ]);
            anthropic::blocks(&list, 20, 10)
        },
        last: || anthropic::blocks(&json!([{ "type": "text", "text": "All is well." }]), 30, 5),
    },
];

fn properties(id: &str) -> ModelProperties {
    Catalog::embedded().lookup(id)
}

fn connect(provider: Provider, url: String) -> Connect {
    let key = Some(Secret::new("TestKey0123456789"));
    let endpoint = Endpoint { key, bearer: true, ..Endpoint::new(provider, url) };
    Arc::new(move || Ok(endpoint.clone()))
}

fn options() -> RequestOptions {
    // The wait for the server's facts is long, because a busy machine may answer late.
    RequestOptions { facts_wait: HANG, ..RequestOptions::default() }
}

fn gemini_model(server: &Server) -> Arc<dyn Model> {
    let connect = connect(Provider::Gemini, server.models_url());
    Arc::new(Gemini::new(properties("gemini-3.8-flash"), connect, options()).unwrap())
}

fn anthropic_model(server: &Server) -> Arc<dyn Model> {
    let connect = connect(Provider::Anthropic, server.address().to_owned());
    Arc::new(Anthropic::new(properties("anthropic:claude-opus-5-5"), connect, options()).unwrap())
}

fn openai_model(id: &str, server: &Server) -> Arc<dyn Model> {
    let connect = connect(Provider::OpenAi, format!("{}/v1", server.address()));
    Arc::new(OpenAi::new(properties(id), connect, options(), Arc::default()).unwrap())
}

pub(super) fn responses_model(server: &Server) -> Arc<dyn Model> {
    openai_model("openai:gpt-6-sol", server)
}

fn ollama_model(server: &Server) -> Arc<dyn Model> {
    let connect = connect(Provider::Ollama, server.address().to_owned());
    Arc::new(Ollama::new(properties("ollama:qwen3:8b"), connect, options()).unwrap())
}

fn ollama(messages: Vec<Value>, (input, output): (u64, u64)) -> Reply {
    let line = |json: Value| format!("{json}\n");
    let lines = messages.into_iter().map(|it| line(json!({ "message": it, "done": false })));
    let end = line(json!({ "message": {}, "done": true, "done_reason": "stop",
        "prompt_eval_count": input, "eval_count": output }));
    Reply::stream(lines.chain([end]).collect::<String>())
}
