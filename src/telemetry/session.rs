//! The figures of one session, counted by a reader of its log.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tandem_agent::session::{Entry, Event, Millis, Reader, TurnId, now};
use tokio::time::{Instant, timeout};

use super::figures::{Label, counter, family, gauge, gauges, times};

/// Maximum time to wait for the turns of a closed session to end.
const LAST_TURNS: Duration = Duration::from_secs(5);

/// The figures of all sessions together.
#[derive(Clone)]
pub(super) struct SessionMetrics {
    loaded: Gauge,
    states: Family<Label, Gauge>,
    events: Counter,
    kept_seconds: Histogram,
    turns_queued: Gauge,
    turns_running: Gauge,
    turns_finished: Family<Label, Counter>,
    questions_open: Gauge,
    questions_closed: Family<Label, Counter>,
    question_seconds: Histogram,
    calls_finished: Family<Label, Counter>,
    model_answers: Counter,
    model_retries: Counter,
    model_tokens: Family<Label, Counter>,
    first_chunk_seconds: Histogram,
    answer_seconds: Histogram,
}

impl SessionMetrics {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        Self {
            loaded: gauge(registry, "sessions_loaded", "Sessions in memory"),
            states: gauges(registry, "sessions", "Sessions in memory, by state"),
            events: counter(registry, "events", "Events in the logs of sessions"),
            kept_seconds: times(
                registry,
                "event_kept",
                "Time from an event until the store has it and clients are shown it",
            ),
            turns_queued: gauge(registry, "turns_queued", "Turns that wait for others to end"),
            turns_running: gauge(
                registry,
                "turns_running",
                "Turns that run, or wait for an answer",
            ),
            turns_finished: family(registry, "turns_finished", "Turns that have ended, by reason"),
            questions_open: gauge(registry, "questions_open", "Questions that wait for an answer"),
            questions_closed: family(registry, "questions_closed", "Closed questions, by answer"),
            question_seconds: times(registry, "question", "Time that a question was open"),
            calls_finished: family(
                registry,
                "calls_finished",
                "Tool calls that have ended, by outcome",
            ),
            model_answers: counter(registry, "model_answers", "Answers of models"),
            model_retries: counter(
                registry,
                "model_retries",
                "Requests to models that were repeated",
            ),
            model_tokens: family(registry, "model_tokens", "Tokens of models, by kind"),
            first_chunk_seconds: times(
                registry,
                "model_first_chunk",
                "Time from a request to a model to the beginning of its answer",
            ),
            answer_seconds: times(
                registry,
                "model_answer",
                "Time from a request to a model to the end of its answer",
            ),
        }
    }
}

/// Counts the events of a session until the session is closed and its turns have ended.
pub(super) async fn follow(
    mut events: Reader,
    closed: impl Future<Output = ()>,
    metrics: SessionMetrics,
) {
    let mut counts = SessionCounts::new(metrics);
    tokio::pin!(closed);
    loop {
        tokio::select! {
            entry = events.next_entry() => counts.count(&entry),
            () = &mut closed => break,
        }
    }
    let last = async {
        while !counts.is_idle() {
            let entry = events.next_entry().await;
            counts.count(&entry);
        }
    };
    // The wait is limited, because the end of a turn may never come.
    let _ = timeout(LAST_TURNS, last).await;
}

/// State of a session that has no turn and no open question.
const IDLE_STATE: &str = "idle";

/// State of one session, as far as the figures need it. When it is dropped, the session's turns and questions no longer
/// count as open.
struct SessionCounts {
    metrics: SessionMetrics,
    queued: HashSet<TurnId>,
    running: Option<TurnId>,
    /// Open questions: the time at which each was asked, by the id of its call.
    questions: HashMap<String, Instant>,
    /// Time of the last input to the model.
    told: Instant,
    /// `true` if the model has begun to answer the last input.
    answering: bool,
    /// State in which the session is counted.
    state: &'static str,
}

impl SessionCounts {
    fn new(metrics: SessionMetrics) -> Self {
        metrics.loaded.inc();
        metrics.states.get_or_create(&[("state", IDLE_STATE)]).inc();
        let (queued, questions) = Default::default();
        let (told, answering) = (Instant::now(), false);
        Self { metrics, queued, running: None, questions, told, answering, state: IDLE_STATE }
    }

    /// Counts the session in its present state, and no longer in its state before.
    fn update_state(&mut self) {
        let state = match self.running {
            _ if !self.questions.is_empty() => "asking",
            Some(_) => "running",
            None if !self.queued.is_empty() => "queued",
            None => IDLE_STATE,
        };
        let last = std::mem::replace(&mut self.state, state);
        if last != state {
            self.metrics.states.get_or_create(&[("state", last)]).dec();
            self.metrics.states.get_or_create(&[("state", state)]).inc();
        }
    }

    fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.running.is_none()
    }

    /// Counts a turn that this process resumes after another process. The other process has counted the turn's
    /// earlier events.
    fn resumed(&mut self, turn: TurnId) {
        if self.running.replace(turn).is_none() {
            self.metrics.turns_running.inc();
        }
        self.model_told();
    }

    fn count(&mut self, Entry { at, event, .. }: &Entry) {
        self.metrics.events.inc();
        self.metrics.kept_seconds.observe(seconds_since(*at));
        match &**event {
            Event::TurnQueued { turn, .. } => self.queued(*turn),
            Event::TurnStarted { turn } => {
                self.dequeued(*turn);
                self.record_turn_end(None);
                self.running = Some(*turn);
                self.metrics.turns_running.inc();
                self.model_told();
            }
            Event::TurnFinished { turn, reason } => {
                self.dequeued(*turn);
                self.record_turn_end(Some(*turn));
                let label = [("reason", reason.name())];
                self.metrics.turns_finished.get_or_create(&label).inc();
            }
            Event::TurnResumed { turn } => self.resumed(*turn),
            Event::MessageCompleted => self.model_told(),
            Event::Text(_) | Event::Thought(_) => self.model_answers(),
            Event::Retry(_) => _ = self.metrics.model_retries.inc(),
            Event::AnswerFinished { usage, .. } => {
                self.model_answers();
                self.answering = false;
                self.metrics.model_answers.inc();
                self.metrics.answer_seconds.observe(self.told.elapsed().as_secs_f64());
                for (kind, tokens) in [
                    ("input", usage.input.saturating_sub(usage.cached)),
                    ("cached_input", usage.cached),
                    ("output", usage.output),
                    ("thinking", usage.thoughts),
                ] {
                    self.metrics.model_tokens.get_or_create(&[("kind", kind)]).inc_by(tokens);
                }
            }
            Event::CallStarted(started) if started.question.is_some() => {
                self.questions.insert(started.call.id.clone(), Instant::now());
                self.metrics.questions_open.inc();
            }
            Event::QuestionClosed { call, answer } => {
                if let Some(asked) = self.questions.remove(call) {
                    self.metrics.questions_open.dec();
                    self.metrics.question_seconds.observe(asked.elapsed().as_secs_f64());
                    let answer = answer.as_ref().map_or("withdrawn", |(answer, _)| answer.name());
                    let label = [("answer", answer)];
                    self.metrics.questions_closed.get_or_create(&label).inc();
                }
            }
            Event::CallFinished { outcome, .. } => {
                let label = [("outcome", outcome.name())];
                self.metrics.calls_finished.get_or_create(&label).inc();
                self.model_told();
            }
            _ => return,
        }
        self.update_state();
    }

    fn queued(&mut self, turn: TurnId) {
        if self.queued.insert(turn) {
            self.metrics.turns_queued.inc();
        }
    }

    fn dequeued(&mut self, turn: TurnId) {
        if self.queued.remove(&turn) {
            self.metrics.turns_queued.dec();
        }
    }

    /// Records that the model has input to answer. Of several inputs, the last input before the answer counts.
    fn model_told(&mut self) {
        self.told = Instant::now();
        self.answering = false;
    }

    fn model_answers(&mut self) {
        if !std::mem::replace(&mut self.answering, true) {
            self.metrics.first_chunk_seconds.observe(self.told.elapsed().as_secs_f64());
        }
    }

    /// Records that the running turn has ended, if it is `turn` or `turn` is `None`.
    fn record_turn_end(&mut self, turn: Option<TurnId>) {
        if self.running.is_some_and(|running| turn.is_none_or(|turn| turn == running)) {
            self.running = None;
            self.metrics.turns_running.dec();
        }
    }
}

impl Drop for SessionCounts {
    fn drop(&mut self) {
        let Self { metrics, queued, questions, .. } = self;
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        metrics.loaded.dec();
        metrics.states.get_or_create(&[("state", self.state)]).dec();
        metrics.turns_queued.dec_by(count(queued.len()));
        metrics.questions_open.dec_by(count(questions.len()));
        self.record_turn_end(None);
    }
}

/// Returns the number of seconds since a time of the system clock; 0 if the clock was set back.
fn seconds_since(at: Millis) -> f64 {
    Duration::from_millis(u64::try_from(now() - at).unwrap_or_default()).as_secs_f64()
}
