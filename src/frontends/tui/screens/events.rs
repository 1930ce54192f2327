//! Tests of the parts of the screen that each kind of event changes (`fixtures/store/v1`).

use super::*;
use crate::item::ItemBody;
use tandem_agent::session::CallStatus;

/// Parts of a screen that an event can change, for a comparison.
struct Parts {
    items: Vec<&'static str>,
    card: Option<CallStatus>,
    output: String,
    question: bool,
    queued: usize,
    activity: bool,
    status: String,
}

impl Parts {
    fn of(state: &ScreenState) -> Self {
        let card = state.transcript.items.iter().rev().find_map(|item| match &item.body {
            ItemBody::Call(card) => Some(card),
            _ => None,
        });
        let about = &state.about;
        let tokens = state.projection.context_tokens();
        Self {
            items: state.transcript.items.iter().map(|item| name(&item.body)).collect(),
            card: card.map(|card| card.status),
            output: card.map(|card| card.output.clone()).unwrap_or_default(),
            question: !state.questions.open.is_empty(),
            queued: state.projection.queued().count(),
            activity: state.projection.running().is_some(),
            status: format!("{} {} {:?} {tokens:?}", about.model, about.mode, about.title),
        }
    }

    /// Returns the parts that are different in `now`.
    fn changed(&self, now: &Self) -> Vec<&'static str> {
        let mut changed = Vec::new();
        if now.items.len() > self.items.len() {
            changed.extend(&now.items[self.items.len()..]);
        } else if now.items != self.items {
            changed.extend(["text taken back", now.items[now.items.len() - 1]]);
        }
        if self.card.is_some() && (now.card != self.card || now.output != self.output) {
            changed.push("call");
        }
        match (self.question, now.question) {
            (false, true) => changed.push("question"),
            (true, false) => changed.push("no question"),
            _ => {}
        }
        if now.queued != self.queued {
            changed.push("queue");
        }
        if now.activity != self.activity {
            changed.push("activity");
        }
        if now.status != self.status {
            changed.push("status line");
        }
        changed
    }
}

fn name(body: &ItemBody) -> &'static str {
    match body {
        ItemBody::Prompt(..) => "prompt",
        ItemBody::Said(_) => "text",
        ItemBody::Thought(_) => "thought",
        ItemBody::Call(_) => "call",
        ItemBody::Help(_) => "help",
        ItemBody::Note(..) => "note",
    }
}

fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/store/v1").join(name);
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the events without which an event would not change the screen. They must come before the event.
fn before(event: &Value, all: &[Value]) -> Vec<Value> {
    let started = |asks: bool| {
        let is_one = |it: &&Value| {
            it["CallStarted"].is_object() && it["CallStarted"]["question"].is_object() == asks
        };
        all.iter().find(is_one).unwrap().clone()
    };
    let turn = json!({ "turn": 1, "prompt": [{ "Text": "go" }], "origin": "Terminal" });
    let mut before = vec![json!({ "TurnQueued": turn })];
    let key = event.as_object().and_then(|it| it.keys().next()).map_or("", String::as_str);
    if key == "TurnQueued" {
        return Vec::new();
    }
    if key != "TurnStarted" {
        before.push(json!({ "TurnStarted": { "turn": 1 } }));
    }
    match key {
        "CallProgress" | "CallFinished" => before.push(started(false)),
        "QuestionClosed" => before.push(started(true)),
        "Retry" | "TurnResumed" => before.push(json!({ "Text": "half" })),
        "ModeChanged" => {
            let other = if event[key]["mode"] == "yolo" { "default" } else { "yolo" };
            before.push(json!({ "ModeChanged": { "mode": other } }));
        }
        _ => {}
    }
    before
}

#[test]
fn each_event_changes_these_parts_of_the_screen() {
    let all: Vec<_> = lines("events.jsonl").into_iter().chain(lines("newer.jsonl")).collect();
    let shown = all.iter().map(|event| {
        let mut stage = Stage::new();
        let apply = |stage: &mut Stage, event: &Value| {
            let event: Event = serde_json::from_value(event.clone()).unwrap();
            let entry = Entry { index: stage.entries, at: stage.now, event: Arc::new(event) };
            stage.entries += 1;
            stage.state.apply(&entry);
        };
        for event in before(event, &all) {
            apply(&mut stage, &event);
        }
        let before = Parts::of(&stage.state);
        apply(&mut stage, event);
        before.changed(&Parts::of(&stage.state)).join(", ") + "\n"
    });
    compare("events.txt", &shown.collect::<String>());
}
