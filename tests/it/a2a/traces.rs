//! Traces of a server, as a collector gets them over OTLP.

use std::collections::BTreeMap;
use std::fs;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_support::api_server::{Reply, Server};
use test_support::mcp::{result, says_text, with_tool};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::server::{Served, answer, asks, prompt, serve, tool_call, within, write};
use crate::agent::{HANG, Setup};

/// A caller's trace and span.
pub(super) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A collector that records the spans that it gets.
pub(super) struct Collector {
    url: String,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    keys: Arc<Mutex<Vec<String>>>,
    /// `true` if the collector refuses all requests.
    refuses: Arc<AtomicBool>,
    /// Numbers of requests that the collector has refused and taken.
    answered: watch::Receiver<(usize, usize)>,
    _serving: AbortOnDropHandle<()>,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let (requests, keys) = <(Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>)>::default();
        let (taken, seen) = (Arc::clone(&requests), Arc::clone(&keys));
        let refuses = Arc::<AtomicBool>::default();
        let (refusing, (count, answered)) = (Arc::clone(&refuses), watch::channel((0, 0)));
        let take = move |headers: HeaderMap, body: Bytes| {
            if refusing.load(Ordering::SeqCst) {
                count.send_modify(|(refused, _)| *refused += 1);
                // After this status, the exporter does not try again.
                return ready(StatusCode::FORBIDDEN);
            }
            taken.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
            let key = headers["x-key"].to_str().unwrap();
            seen.lock()
                .unwrap()
                .push(format!("{key} {}", headers["content-type"].to_str().unwrap()));
            count.send_modify(|(_, taken)| *taken += 1);
            ready(StatusCode::OK)
        };
        let router = Router::new().route("/v1/traces", post(take));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let serving = AbortOnDropHandle::new(serving);
        Self { url, requests, keys, refuses, answered, _serving: serving }
    }

    /// Waits until the numbers of refused and taken requests fit.
    async fn until(&self, fits: impl FnMut(&(usize, usize)) -> bool) {
        let mut answered = self.answered.clone();
        timeout(HANG, answered.wait_for(fits)).await.expect("no spans are sent").unwrap();
    }

    /// Returns a setup whose server sends its spans to the collector as soon as they end.
    pub(super) fn watching(&self, setup: Setup) -> Setup {
        setup
            .var("OTEL_EXPORTER_OTLP_ENDPOINT", &self.url)
            .var("OTEL_EXPORTER_OTLP_HEADERS", "x-key=collector-key")
            .var("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
            .var("OTEL_BSP_SCHEDULE_DELAY", "20")
    }

    /// Returns the spans of the caller's trace that have come by now.
    fn spans(&self) -> Vec<Traced> {
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let spans = resources.flat_map(|it| &it.scope_spans).flat_map(|it| &it.spans);
        spans.map(Traced::of).filter(|span| span.trace == TRACE).collect()
    }

    /// Returns all that has come, in words.
    fn said(&self) -> String {
        format!("{:?}", self.requests.lock().unwrap())
    }
}

/// The fields of a span that the tests compare.
#[derive(Debug)]
struct Traced {
    name: String,
    trace: String,
    id: String,
    parent: String,
    attributes: BTreeMap<String, String>,
}

impl Traced {
    fn of(span: &Span) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let attributes = span.attributes.iter().map(|attribute| {
            let value = attribute.value.as_ref().unwrap().value.as_ref().unwrap();
            let text = match value {
                AnyValue::StringValue(text) => text.clone(),
                AnyValue::IntValue(number) => number.to_string(),
                other => format!("{other:?}"),
            };
            (attribute.key.clone(), text)
        });
        Self {
            name: span.name.clone(),
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            attributes: attributes.collect(),
        }
    }
}

/// Returns the names of spans as a tree, each below its parent.
fn tree(spans: &[Traced], parent: &str, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for span in spans.iter().filter(|span| span.parent == parent) {
        lines.push(format!("{}{}", " ".repeat(indent), span.name));
        lines.extend(tree(spans, &span.id, indent + 1));
    }
    lines
}

/// Has a server end, and returns its exit code.
pub(super) async fn end(mut served: Served) -> Option<i32> {
    let pid = Pid::from_raw(served.child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    timeout(HANG, served.child.wait()).await.unwrap().unwrap().code()
}

/// Returns the header of a caller with a trace.
pub(super) fn traced() -> String {
    format!("traceparent: 00-{TRACE}-{CALLER}-01")
}

#[tokio::test]
async fn a_turn_is_a_tree_of_spans_within_the_callers_trace() {
    let collector = Collector::start().await;
    let answers = json!([[{ "text": "hi" }, write("name.txt", "content")], [{ "text": "bye" }]]);
    let script = vec![json!({ "input_limit": 24_000 }), json!({ "answers": answers })];
    let served = serve(&collector.watching(Setup::script(script))).await;
    let header = traced();
    let headers = [header.as_str()];
    let stream = served.client.stream_with("message/stream", prompt("words"), &headers);
    let events = stream.await.rest().await;
    let asked = events.iter().find(|event| asks(event)).unwrap();
    let said = answer(&tool_call(asked)["tool_call_id"], "proceed_once");
    served.client.result("message/send", within(&asked["taskId"], said)).await;
    assert_eq!(end(served).await, Some(143));

    let spans = collector.spans();
    let expected = [
        "POST /",
        " invoke_agent tandem",
        "  chat replay",
        "  execute_tool write_file",
        "   wait_for_answer",
        "  chat replay",
    ];
    let mut found = tree(&spans, CALLER, 0);
    // Spans of the same parent come in the order of their ends, so the test sorts them.
    assert_eq!(found.len(), expected.len(), "{spans:#?}");
    found.sort();
    let mut expected = expected.map(ToOwned::to_owned);
    expected.sort();
    assert_eq!(found, expected);
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let request = &of("POST /").attributes;
    assert_eq!(request["http.response.status_code"], "200");
    assert_eq!(request["rpc.method"], "message/stream");
    let turn = &of("invoke_agent tandem").attributes;
    assert_eq!((&*turn["tandem.turn"], &*turn["tandem.stop_reason"]), ("1", "end_turn"));
    let chat = &of("chat replay").attributes;
    assert!(chat["gen_ai.usage.input_tokens"].parse::<u64>().unwrap() > 1000, "{chat:?}");
    assert_eq!(of("execute_tool write_file").attributes["tandem.outcome"], "done");
    assert_eq!(of("wait_for_answer").attributes["tandem.answer"], "once");

    let said = collector.said();
    for known in ["\"service.name\"", "\"tandem\"", "deployment.environment.name"] {
        assert!(said.contains(known), "{known}");
    }
    for content in ["words", "name.txt", "content", "bye", "workspace", "collector-key"] {
        assert!(!said.contains(content), "{content}");
    }
    let keys = collector.keys.lock().unwrap();
    assert!(keys.iter().all(|key| key == "collector-key application/x-protobuf"), "{keys:?}");
}

/// Returns the value of an attribute that has JSON.
fn content(span: &Traced, name: &str) -> Value {
    let json = span.attributes.get(name).unwrap_or_else(|| panic!("no {name} in {span:#?}"));
    serde_json::from_str(json).unwrap()
}

#[tokio::test]
async fn with_trace_content_spans_have_what_is_said_but_no_key() {
    let collector = Collector::start().await;
    let key = "AIzaSyTraceContent0123456789";
    let answers = json!([
        [{ "text": "hi" }, write("name.txt", &format!("content with {key}"))],
        [{ "text": "bye" }],
    ]);
    let setup = Setup::answers(answers)
        .arg("--trace-content")
        .arg("--limit")
        .arg("trace-content-bytes=2000")
        .arg("-y")
        .var("GEMINI_API_KEY", key);
    let served = serve(&collector.watching(setup)).await;
    let header = traced();
    let headers = [header.as_str()];
    let said = format!("words and {key}");
    served.client.stream_with("message/stream", prompt(&said), &headers).await.rest().await;
    assert_eq!(end(served).await, Some(143));

    let spans = collector.spans();
    let of = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let text = |text: &str| json!({ "type": "text", "content": text });
    let asked = json!([{ "role": "user", "parts": [text("words and [key]")] }]);
    assert_eq!(content(of("invoke_agent tandem")[0], "gen_ai.input.messages"), asked);
    let chats = of("chat replay");
    let answers: Vec<_> =
        chats.iter().map(|chat| content(chat, "gen_ai.output.messages")).collect();
    let bye = json!([{ "role": "assistant", "parts": [text("bye")], "finish_reason": "stop" }]);
    assert_eq!(answers[1], bye);
    assert_eq!(answers[0][0]["finish_reason"], "tool_call");
    let call = &answers[0][0]["parts"][1];
    assert_eq!((&call["type"], &call["name"]), (&json!("tool_call"), &json!("write_file")));
    assert_eq!(call["arguments"]["content"], "content with [key]");
    let told = content(chats[1], "gen_ai.input.messages");
    let told = told.as_array().unwrap();
    let last = told.last().unwrap();
    assert_eq!((&last["role"], &last["parts"][0]["id"]), (&json!("tool"), &call["id"]));
    assert!(content(chats[1], "gen_ai.system_instructions")[0]["content"].is_string());
    let tool = of("execute_tool write_file")[0];
    assert_eq!(content(tool, "gen_ai.tool.call.arguments"), call["arguments"]);
    assert!(content(tool, "gen_ai.tool.call.result").as_str().unwrap().contains("name.txt"));
    assert!(!collector.said().contains(key));
    for attribute in spans.iter().flat_map(|span| span.attributes.values()) {
        assert!(attribute.len() <= 2000, "{attribute}");
    }
}

#[tokio::test]
async fn a_turn_that_waits_for_another_stays_in_the_trace_of_its_caller() {
    let collector = Collector::start().await;
    let answers = json!([[{ "text": "one" }, { "delay": 200 }], [{ "text": "two" }]]);
    let served = serve(&collector.watching(Setup::answers(answers))).await;
    let first = served.client.result("message/send", {
        let mut first = prompt("first");
        first["configuration"] = json!({ "blocking": false });
        first
    });
    let first = first.await;
    let mut second = within(&first["id"], prompt("second"));
    second["message"]["contextId"] = first["contextId"].clone();
    let header = traced();
    served.client.stream_with("message/stream", second, &[&header]).await.rest().await;
    assert_eq!(end(served).await, Some(143));
    let spans = collector.spans();
    assert_eq!(
        tree(&spans, CALLER, 0),
        ["POST /", " invoke_agent tandem", "  chat replay"],
        "{spans:#?}"
    );
    let turn = spans.iter().find(|span| span.name == "invoke_agent tandem").unwrap();
    assert_eq!(turn.attributes["tandem.turn"], "2");
}

/// Returns a stream of chat completions.
pub(super) fn completion(delta: &Value, reason: &str) -> Reply {
    let choice = |delta: &Value, reason: Value| {
        let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
        format!("data: {chunk}\n\n")
    };
    let chunks = [choice(delta, Value::Null), choice(&json!({}), reason.into())].concat();
    Reply::stream(chunks + "data: [DONE]\n\n")
}

#[tokio::test]
async fn the_callers_trace_goes_on_at_the_model_and_at_an_mcp_server() {
    let collector = Collector::start().await;
    let called = Arc::<Mutex<Vec<Value>>>::default();
    let seen = Arc::clone(&called);
    let tools = with_tool(move |call| {
        seen.lock().unwrap().push(call["params"]["_meta"].clone());
        result(call, says_text("done"))
    });
    let tools = tools.await;
    let call = json!({ "index": 0, "id": "c1",
        "function": { "name": "mcp_web_t", "arguments": "{}" } });
    let replies = vec![
        completion(&json!({ "tool_calls": [call] }), "tool_calls"),
        completion(&json!({ "content": "whole" }), "stop"),
    ];
    let model = Server::with_pages(replies, &[]).await;
    let settings = json!({ "mcpServers": { "web": { "httpUrl": tools.url, "trust": true } } });
    let setup = Setup::default()
        .arg("--model")
        .arg("openai:some/model-7b")
        .var("OPENAI_BASE_URL", &format!("{}/v1", model.address()))
        .file("../.gemini/settings.json", &settings.to_string());
    let served = serve(&collector.watching(setup)).await;
    let header = traced();
    let headers = [header.as_str(), "tracestate: vendor=1"];
    let stream = served.client.stream_with("message/stream", prompt("go"), &headers);
    let events = stream.await.rest().await;
    assert!(format!("{events:?}").contains("whole"), "{events:#?}");
    assert_eq!(end(served).await, Some(143));

    let spans = collector.spans();
    let id = |name: &str| {
        let span = spans.iter().find(|span| span.name == name);
        &span.unwrap_or_else(|| panic!("no {name} in {spans:#?}")).id
    };
    let meta = called.lock().unwrap()[0].clone();
    assert_eq!(meta["traceparent"], format!("00-{TRACE}-{}-01", id("execute_tool mcp_web_t")));
    assert_eq!(meta["tracestate"], "vendor=1");
    let asked = model.asked();
    let parents: Vec<_> = asked.iter().map(|asked| &asked.headers["traceparent"]).collect();
    let begins = format!("00-{TRACE}-");
    assert!(parents.iter().all(|parent| parent.to_str().unwrap().starts_with(&begins)));
    let chats = spans.iter().filter(|span| span.name == "chat openai:some/model-7b");
    let mut sent: Vec<_> = chats.map(|span| format!("{begins}{}-01", span.id)).collect();
    let mut parents: Vec<_> = parents.iter().map(|it| it.to_str().unwrap().to_owned()).collect();
    sent.sort();
    parents.sort();
    assert_eq!(parents, sent);
}

#[tokio::test]
async fn the_trace_of_an_agent_that_is_called_goes_on_there() {
    let collector = Collector::start().await;
    let reviews = Setup::answers(json!([[{ "text": "a fault" }]]));
    let reviewer = serve(&collector.watching(reviews)).await;
    let url = format!("http://127.0.0.1:{}", reviewer.client.port);
    let settings = json!({ "a2aServers": { "reviewer": { "url": url, "trust": true } } });
    let args = json!({ "agent": "reviewer", "message": "review" });
    let call = json!({ "call": { "name": "call_agent", "args": args } });
    let setup = Setup::answers(json!([[call], [{ "text": "whole" }]]))
        .file("../.gemini/settings.json", &settings.to_string());
    let served = serve(&collector.watching(setup)).await;
    let header = traced();
    let headers = [header.as_str()];
    let stream = served.client.stream_with("message/stream", prompt("go"), &headers);
    let events = stream.await.rest().await;
    assert!(format!("{events:?}").contains("a fault"), "{events:#?}");
    assert_eq!(end(served).await, Some(143));
    assert_eq!(end(reviewer).await, Some(143));
    let spans = collector.spans();
    let caller = spans.iter().find(|span| span.name == "execute_tool call_agent").unwrap();
    let there = tree(&spans, &caller.id, 0);
    let turn = [" invoke_agent tandem", "  chat replay"];
    assert!(there.windows(2).any(|lines| lines == turn), "{there:?}");
}

#[tokio::test]
async fn without_a_collector_turns_run_and_the_server_ends_in_time() {
    // The port is free: no collector listens there.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let setup = Setup::answers(json!([[{ "text": "hi" }]]))
        .arg("--metrics")
        .arg("127.0.0.1:0")
        .var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &gone)
        .var("OTEL_BSP_SCHEDULE_DELAY", "20");
    let served = serve(&setup).await;
    for _ in 0..3 {
        let task = served.client.result("message/send", prompt("go")).await;
        assert_eq!(task["status"]["state"], "completed");
    }
    assert_eq!(end(served).await, Some(143));
}

#[tokio::test]
async fn a_collector_that_takes_nothing_is_one_line_of_the_log_and_another_when_it_does_again() {
    let collector = Collector::start().await;
    collector.refuses.store(true, Ordering::SeqCst);
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let setup = Setup::answers(json!([[{ "text": "hi" }]]));
    let setup = setup.arg("--log-file").arg(log.to_str().unwrap()).var("TANDEM_LOG", "warn");
    let served = serve(&collector.watching(setup)).await;
    for _ in 0..3 {
        let (before, _) = *collector.answered.borrow();
        served.client.result("message/send", prompt("go")).await;
        collector.until(|(refused, _)| *refused > before).await;
    }
    collector.refuses.store(false, Ordering::SeqCst);
    served.client.result("message/send", prompt("go")).await;
    collector.until(|(_, taken)| *taken > 0).await;
    assert_eq!(end(served).await, Some(143));
    let log = fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("spans of traces")).collect();
    assert_eq!((lines.len(), log.lines().count()), (2, 2), "{log}");
    assert!(lines[0].contains("are lost, because the collector takes none"), "{log}");
    assert!(lines[0].contains("403"), "{log}");
    assert!(lines[1].contains("takes spans of traces again; "), "{log}");
}

#[tokio::test]
async fn a_turn_that_another_process_goes_on_with_stays_in_the_trace_of_its_caller() {
    let collector = Collector::start().await;
    let begins = Setup::answers(json!([[{ "text": "one" }, { "hang": null }]]));
    let it = serve(&collector.watching(begins)).await;
    let mut sent = prompt("go");
    sent["message"]["contextId"] = json!("c");
    let header = traced();
    let mut stream = it.client.stream_with("message/stream", sent, &[&header]).await;
    stream.until(|event| event.to_string().contains("one")).await;
    let whole = Setup::answers(json!([[{ "text": "whole" }]]));
    let it = it.killed(&collector.watching(whole)).await;
    let rest = it.client.stream("tasks/resubscribe", json!({ "id": "c" })).await.rest().await;
    assert!(format!("{rest:?}").contains("whole"), "{rest:#?}");
    assert_eq!(end(it).await, Some(143));
    let spans = collector.spans();
    let turn = spans.iter().find(|span| span.name == "invoke_agent tandem");
    let turn = turn.unwrap_or_else(|| panic!("no turn in {spans:#?}"));
    assert_eq!(turn.attributes["tandem.turn"], "1");
    assert_eq!(tree(&spans, &turn.id, 0), ["chat replay"], "{spans:#?}");
    // The parent is the span of the request, which another process served.
    assert_ne!(turn.parent, "");
}

#[tokio::test]
async fn variables_that_are_wrong_are_named() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4318"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_TRACES_SAMPLER", "some"),
    ] {
        let setup = Setup::default().arg("serve").arg("--port").arg("0");
        let ran = setup.var(endpoint.0, endpoint.1).var(name, value).run().await;
        assert_eq!(ran.code, Some(1), "{name}");
        assert!(ran.stderr.contains(name), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn nothing_is_sent_if_that_is_turned_off() {
    let collector = Collector::start().await;
    for (name, value) in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ] {
        let setup = Setup::answers(json!([[{ "text": "hi" }]])).var(name, value);
        let served = serve(&collector.watching(setup)).await;
        served.client.result("message/send", prompt("go")).await;
        assert_eq!(end(served).await, Some(143));
    }
    assert!(collector.requests.lock().unwrap().is_empty());
}
