//! Statistics of a turn, in the shapes of Gemini CLI.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use tandem_agent::session::{
    Answer, CallStep, Decision, LineDiff, Millis, Projection, ResultContent, StopReason,
    ToolOutcome, Update, UpdateKind, Usage,
};

/// Counts of requests, tokens, calls and changed lines, and the times that they took.
pub(super) struct Stats {
    /// Id of the current model.
    model: String,
    models: BTreeMap<String, RequestStats>,
    tools: BTreeMap<String, CallCounts>,
    lines_added: usize,
    lines_removed: usize,
    /// Time of the first event.
    first: Option<Millis>,
    /// Time of the last event.
    last: Millis,
    /// Time at which the current request to the model began.
    asked: Millis,
}

/// Counts of the requests to one model, their times in milliseconds, and their tokens.
#[derive(Default)]
struct RequestStats {
    requests: u64,
    errors: u64,
    latency: Millis,
    usage: Usage,
}

/// Counts of a tool's calls, and their time in milliseconds.
#[derive(Default)]
struct CallCounts {
    done: u64,
    failed: u64,
    duration: Millis,
    decisions: Decisions,
}

/// Counts of the decisions about calls.
#[derive(Default, Clone, Copy)]
struct Decisions {
    accept: u64,
    reject: u64,
    modify: u64,
    auto_accept: u64,
}

impl Stats {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            models: BTreeMap::new(),
            tools: BTreeMap::new(),
            lines_added: 0,
            lines_removed: 0,
            first: None,
            last: 0,
            asked: 0,
        }
    }

    pub(super) fn update(&mut self, update: &Update<'_>, projection: &Projection) {
        let at = update.at;
        self.first.get_or_insert(at);
        self.last = at;
        match &update.kind {
            UpdateKind::TurnStarted | UpdateKind::CommandAsked => self.asked = at,
            UpdateKind::ModelChanged(model) => (*model).clone_into(&mut self.model),
            UpdateKind::Retry { .. } => {
                let asked = self.current_request();
                asked.requests += 1;
                asked.errors += 1;
            }
            UpdateKind::AnswerFinished(usage) => {
                let latency = at - self.asked;
                self.current_request().latency += latency;
                self.spent(**usage);
            }
            UpdateKind::Note { compressed: Some(short), .. } => self.spent(short.usage),
            UpdateKind::Call(started, step) => {
                if matches!(step, CallStep::Finished(_)) {
                    self.asked = at;
                }
                let since = projection.call(&started.call.id).map_or(at, |call| call.since);
                let calls = self.tools.entry(started.call.name.clone()).or_default();
                match step {
                    CallStep::Started if started.question.is_none() => {
                        calls.decisions.auto_accept += 1;
                    }
                    CallStep::QuestionClosed(answer) => {
                        calls.decisions.decide(answer.map(|(answer, _)| answer));
                    }
                    CallStep::Finished(outcome) => {
                        calls.duration += at - since;
                        self.finished(&started.call.name, outcome);
                    }
                    CallStep::Started | CallStep::Progress(_) => {}
                }
            }
            UpdateKind::TurnFinished(StopReason::Failed(_)) => {
                let latency = at - self.asked;
                let asked = self.current_request();
                asked.requests += 1;
                asked.errors += 1;
                asked.latency += latency;
            }
            _ => {}
        }
    }

    fn spent(&mut self, usage: Usage) {
        let asked = self.current_request();
        asked.requests += 1;
        asked.usage.input += usage.input;
        asked.usage.cached += usage.cached;
        asked.usage.output += usage.output;
        asked.usage.thoughts += usage.thoughts;
    }

    fn current_request(&mut self) -> &mut RequestStats {
        self.models.entry(self.model.clone()).or_default()
    }

    fn finished(&mut self, tool: &str, outcome: &ToolOutcome) {
        let calls = self.tools.entry(tool.to_owned()).or_default();
        let ToolOutcome::Done(output) = outcome else {
            calls.failed += 1;
            return;
        };
        calls.done += 1;
        if let Some(ResultContent::Diff(change)) = &output.shown {
            for change in change.each() {
                let LineDiff { added, removed, .. } = change.lines();
                self.lines_added += added;
                self.lines_removed += removed;
            }
        }
    }

    /// Returns the statistics in the form of the format `json`.
    pub(super) fn full(&self) -> Value {
        let models = self.models.iter().map(|(model, asked)| (model.clone(), asked.full()));
        let mut all = CallCounts::default();
        for calls in self.tools.values() {
            all.done += calls.done;
            all.failed += calls.failed;
            all.duration += calls.duration;
            all.decisions.add(calls.decisions);
        }
        let by_name = self.tools.iter().map(|(name, calls)| {
            let calls = json!({
                "count": calls.done + calls.failed,
                "success": calls.done,
                "fail": calls.failed,
                "durationMs": calls.duration,
                "decisions": calls.decisions.to_value(),
            });
            (name.clone(), calls)
        });
        json!({
            "models": models.collect::<Map<_, _>>(),
            "tools": {
                "totalCalls": all.done + all.failed,
                "totalSuccess": all.done,
                "totalFail": all.failed,
                "totalDurationMs": all.duration,
                "totalDecisions": all.decisions.to_value(),
                "byName": by_name.collect::<Map<_, _>>(),
            },
            "files": {
                "totalLinesAdded": self.lines_added,
                "totalLinesRemoved": self.lines_removed,
            },
        })
    }

    /// Returns the statistics in the form of the format `stream-json`.
    pub(super) fn brief(&self) -> Value {
        let mut all = Usage::default();
        for RequestStats { usage, .. } in self.models.values() {
            all.input += usage.input;
            all.cached += usage.cached;
            all.output += usage.output;
            all.thoughts += usage.thoughts;
        }
        let mut brief = tokens(&all);
        let calls: u64 = self.tools.values().map(|calls| calls.done + calls.failed).sum();
        let models = self.models.iter().map(|(model, asked)| (model.clone(), tokens(&asked.usage)));
        brief["duration_ms"] = json!(self.last - self.first.unwrap_or(self.last));
        brief["tool_calls"] = json!(calls);
        brief["models"] = models.collect::<Map<_, _>>().into();
        brief
    }
}

impl RequestStats {
    fn full(&self) -> Value {
        let Usage { input, cached, output, thoughts, .. } = self.usage;
        json!({
            "api": {
                "totalRequests": self.requests,
                "totalErrors": self.errors,
                "totalLatencyMs": self.latency,
            },
            "tokens": {
                "input": input.saturating_sub(cached),
                "prompt": input,
                "candidates": output,
                "total": input + output + thoughts,
                "cached": cached,
                "thoughts": thoughts,
                "tool": 0,
            },
        })
    }
}

impl Decisions {
    fn decide(&mut self, answer: Option<&Answer>) {
        match answer.map(Answer::decision) {
            Some(Decision::RunEdited(_)) => self.modify += 1,
            Some(decision) if decision.runs() => self.accept += 1,
            _ => self.reject += 1,
        }
    }

    fn add(&mut self, more: Self) {
        self.accept += more.accept;
        self.reject += more.reject;
        self.modify += more.modify;
        self.auto_accept += more.auto_accept;
    }

    fn to_value(self) -> Value {
        json!({
            "accept": self.accept,
            "reject": self.reject,
            "modify": self.modify,
            "auto_accept": self.auto_accept,
        })
    }
}

fn tokens(usage: &Usage) -> Value {
    let Usage { input, cached, output, thoughts, .. } = *usage;
    json!({
        "total_tokens": input + output + thoughts,
        "input_tokens": input,
        "output_tokens": output,
        "cached": cached,
        "input": input.saturating_sub(cached),
    })
}
