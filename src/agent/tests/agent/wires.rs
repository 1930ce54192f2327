//! The same conversation over every API, and a conversation that goes from one API to another.

mod compression;
mod list;

use std::sync::Arc;

use serde_json::json;
use tandem_agent::session::{Event, Origin, Parts, Session, ToolOutcome};
use tandem_host::{Access, Tool, ToolKind};
use tandem_model::{Model, Models};
use test_fakes::{Fake, is_end, parts, text, until};
use test_support::api_server::{Reply, Server};

use self::list::{WIRES, Wire};

/// Reasoning and signature of the stand-ins: no other model may get them.
const OWN: &[&str] = &["c2lnbmVk", "I must look"];

/// A model for the rest of a conversation.
struct Next(Arc<dyn Model>);

impl Models for Next {
    fn known(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn open(&self, _: &str) -> Result<Arc<dyn Model>, String> {
        Ok(Arc::clone(&self.0))
    }
}

/// Returns a session with one tool and `model`. Its models can be changed to `next`.
fn session(model: Arc<dyn Model>, next: Arc<dyn Model>) -> Arc<Session> {
    let tool: Arc<dyn Tool> = Arc::new(Fake::new("glob", ToolKind::Find, Access::Read));
    Session::new(Parts { models: Arc::new(Next(next)), tools: vec![tool], ..parts(model) })
}

/// Returns a line for each event of a prompt's turn, with its texts joined.
async fn turn(session: &Arc<Session>, prompt: &str) -> Vec<String> {
    let mut log = session.events(session.position());
    session.prompt(text(prompt), Origin::Editor);
    let mut lines: Vec<String> = Vec::new();
    for event in until(&mut log, is_end).await {
        let joined = |lines: &mut Vec<String>, kind: &str, text: &str| match lines.last_mut() {
            Some(last) if last.starts_with(kind) => last.push_str(text),
            _ => lines.push(format!("{kind}{text}")),
        };
        match &*event {
            Event::Text(text) => joined(&mut lines, "text: ", text),
            Event::Thought(text) => joined(&mut lines, "thought: ", text),
            Event::CallStarted(started) => {
                lines.push(format!("call: {}({})", started.call.name, started.call.args));
            }
            Event::CallFinished { outcome: ToolOutcome::Done(output), .. } => {
                lines.push(format!("result: {}", output.text));
            }
            Event::AnswerFinished { usage, .. } => {
                lines.push(format!("{}/{}", usage.input, usage.output));
            }
            Event::TurnFinished { reason, .. } => lines.push(format!("{reason:?}")),
            _ => {}
        }
    }
    lines
}

async fn server(wire: &Wire, answers: Vec<Reply>) -> Server {
    Server::of_pages(answers, &(wire.pages)(), wire.check).await
}

/// Returns the bodies of the requests for answers, as they were sent.
fn bodies(server: &Server) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.body.to_string()).collect()
}

#[tokio::test]
async fn the_same_conversation_with_tools_is_the_same_on_every_api() {
    for wire in WIRES {
        let server = server(wire, vec![(wire.step)(), (wire.last)(), (wire.last)()]).await;
        let model = (wire.model)(&server);
        let session = session(Arc::clone(&model), model);
        let lines = turn(&session, "what is there?").await;
        let expected = [
            "thought: I must look",
            "text: Looking.",
            "20/10",
            r#"call: glob({"pattern":"a"})"#,
            "result: ran",
            "call: glob({})",
            "result: ran",
            "text: All is well.",
            "30/5",
            "EndTurn",
        ];
        assert_eq!(lines, expected, "{}", wire.name);
        assert_eq!(turn(&session, "thanks").await.last().unwrap(), "EndTurn", "{}", wire.name);

        let bodies = bodies(&server);
        assert_eq!(bodies.len(), 3, "{}", wire.name);
        assert!(OWN.iter().any(|own| bodies[1].contains(own)), "{}: it goes back", wire.name);
        for said in ["what is there?", "Looking.", "\"ran\"", "All is well.", "thanks"] {
            assert!(bodies[2].contains(said), "{}: {said}", wire.name);
        }
    }
}

/// Names as MCP servers' tools have them. The third name was shortened, because it was too long.
const NAMES: [&str; 4] = [
    "mcp_git_git_log",
    "mcp_my-server_do-it",
    "mcp_ssssssssssssssssssssssssss...tttttttttttttttttttttttttttttt",
    "mcp_ssssssssssssssssssssssssss...tttttttttttttttttttttttttttt_2",
];

/// Returns the names under which a request declares tools.
fn declared(body: &serde_json::Value) -> Vec<String> {
    match body {
        serde_json::Value::Object(fields) => {
            let name = fields.get("name").and_then(|name| name.as_str());
            let own = name.filter(|name| name.starts_with("mcp_")).map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(declared)).collect()
        }
        serde_json::Value::Array(items) => items.iter().flat_map(declared).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn every_name_is_one_that_the_api_takes_and_its_calls_come_back() {
    for wire in WIRES {
        let tools = NAMES.map(|name| Arc::new(Fake::new(name, ToolKind::Other, Access::Read)) as _);
        let session =
            |model: Arc<dyn Model>| Session::new(Parts { tools: tools.to_vec(), ..parts(model) });
        let first = server(wire, vec![(wire.last)()]).await;
        turn(&session((wire.model)(&first)), "hi").await;
        let names = declared(&first.asked().last().unwrap().body);
        assert_eq!(names.len(), NAMES.len(), "{}: {names:?}", wire.name);
        for (name, own) in names.iter().zip(NAMES) {
            // Gemini's API also accepts dots in names.
            let valid = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            let valid = |c: char| valid(c) || wire.name == "gemini" && c == '.';
            assert!(name.len() <= 64 && name.chars().all(valid), "{}: {name}", wire.name);
            let step = (wire.step)().with("glob", name);
            let server = server(wire, vec![step, (wire.last)()]).await;
            let lines = turn(&session((wire.model)(&server)), "go").await;
            let called = format!("call: {own}(");
            let calls = lines.iter().filter(|line| line.starts_with(&called)).count();
            let done = lines.iter().filter(|line| *line == "result: ran").count();
            assert_eq!((calls, done), (2, 2), "{}: {lines:?}", wire.name);
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on_with_a_model_of_any_other_api() {
    for (from, to) in WIRES.iter().flat_map(|from| WIRES.iter().map(move |to| (from, to))) {
        if from.name == to.name {
            continue;
        }
        let name = format!("from {} to {}", from.name, to.name);
        let first = server(from, vec![(from.step)(), (from.last)(), (from.last)()]).await;
        let second = server(to, vec![(to.step)(), (to.last)()]).await;
        let (model, next) = ((from.model)(&first), (to.model)(&second));
        let session = session(model, next);
        assert_eq!(turn(&session, "what is there?").await.last().unwrap(), "EndTurn", "{name}");
        turn(&session, "/model set other").await;
        let lines = turn(&session, "and now?").await;
        assert_eq!(lines.last().unwrap(), "EndTurn", "{name}: {lines:?}");
        let bodies = bodies(&second);
        for own in OWN {
            assert!(!bodies[0].contains(own), "{name}: {own} in {}", bodies[0]);
        }
        for said in ["what is there?", "Looking.", "\"ran\"", "All is well.", "and now?"] {
            assert!(bodies[0].contains(said), "{name}: {said}");
        }
    }
}

/// Returns the thinking settings of the last request, wherever the API has them.
fn thinking(server: &Server) -> Vec<serde_json::Value> {
    let body = server.asked().pop().unwrap().body;
    let fields = [
        "/generationConfig/thinkingConfig",
        "/reasoning_effort",
        "/output_config",
        "/think",
        "/reasoning/effort",
    ];
    fields.iter().filter_map(|field| body.pointer(field).cloned()).collect()
}

#[tokio::test]
async fn a_chosen_level_of_thinking_is_asked_for_from_the_next_request_on() {
    for wire in WIRES {
        let server = server(wire, vec![(wire.last)(), (wire.last)(), (wire.last)()]).await;
        let model = (wire.model)(&server);
        let session = session(Arc::clone(&model), model);
        turn(&session, "one").await;
        let without = thinking(&server);
        session.set_thinking(Some("high")).unwrap();
        turn(&session, "two").await;
        let high = match wire.name {
            "gemini" => json!({ "includeThoughts": true, "thinkingLevel": "HIGH" }),
            "anthropic" => json!({ "effort": "high" }),
            _ => json!("high"),
        };
        assert_eq!(thinking(&server), [high], "{}", wire.name);
        session.set_thinking(None).unwrap();
        turn(&session, "three").await;
        assert_eq!(thinking(&server), without, "{}", wire.name);
    }
}
