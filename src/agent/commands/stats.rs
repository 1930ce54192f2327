//! `/stats`: the tokens, cost, calls and time of the session so far, counted from its log.

use std::collections::BTreeMap;

use super::registry::{Command, CommandRequest};
use super::words::list;
use crate::session::{
    Activity, CallStep, CommandReply, Event, Millis, Projection, ToolOutcome, UpdateKind, Usage,
};

pub(super) const COMMAND: Command = Command {
    name: "stats",
    description: "tokens and the share that was cached, the cost, calls of tools, time",
    run: Some(|request| Box::pin(async move { Ok(CommandReply::Say(stats(&request))) })),
    ..Command::BLANK_COMMAND
};

fn stats(request: &CommandRequest<'_>) -> String {
    let mut stats = SessionStats::default();
    let mut projection = Projection::default();
    let mut log = request.turn.events();
    while let Some(entry) = log.try_next_run() {
        // The start of the session does not start the clock: the first prompt may come much later.
        if !matches!(*entry.event, Event::SessionStarted(_)) {
            stats.pass(projection.activity(), entry.at);
        }
        if let Some(update) = projection.apply(&entry) {
            stats.count(&update.kind);
        }
    }
    stats.report(&request.turn.engine.model.id(), request.turn.engine.cost())
}

/// Figures of the session.
#[derive(Default)]
struct SessionStats {
    turns: u64,
    answers: u64,
    retries: u64,
    usage: Usage,
    /// Outcomes of calls, by the tool's name.
    tools: BTreeMap<String, Outcomes>,
    clock: Clock,
    /// `true` if the running command has asked the model.
    command_asked: bool,
}

#[derive(Default)]
struct Outcomes {
    done: u64,
    failed: u64,
    rejected: u64,
    cancelled: u64,
    interrupted: u64,
    unknown: u64,
}

/// Time spent, by activity.
#[derive(Default)]
struct Clock {
    first: Option<Millis>,
    last: Millis,
    model: Millis,
    tools: Millis,
    questions: Millis,
}

impl SessionStats {
    /// Adds the time since the previous entry to the time of `activity`, which has gone on since that entry.
    fn pass(&mut self, activity: Activity<'_>, now: Millis) {
        // The wall clock may have been set back.
        let since = (now - self.clock.last).max(0);
        self.clock.last = now;
        if self.clock.first.is_none() {
            self.clock.first = Some(now);
            return;
        }
        match activity {
            Activity::AwaitingAnswer(_) => self.clock.questions += since,
            Activity::Calling(_) => self.clock.tools += since,
            Activity::Command(..) if !self.command_asked => {}
            Activity::Idle => {}
            Activity::Answering(_)
            | Activity::Thinking(_)
            | Activity::AwaitingModel(_)
            | Activity::Retrying(..)
            | Activity::Command(..) => self.clock.model += since,
        }
    }

    fn count(&mut self, update: &UpdateKind<'_>) {
        match update {
            UpdateKind::TurnStarted => {
                self.turns += 1;
                self.command_asked = false;
            }
            // A command counts as a prompt only if it asks the model.
            UpdateKind::CommandStarted(_) => self.turns -= 1,
            UpdateKind::CommandAsked => {
                self.turns += 1;
                self.command_asked = true;
            }
            UpdateKind::Retry { .. } => self.retries += 1,
            UpdateKind::AnswerFinished(usage) => {
                self.answers += 1;
                self.spent(usage);
            }
            UpdateKind::Note { compressed: Some(short), .. } => self.spent(&short.usage),
            UpdateKind::Call(started, CallStep::Finished(outcome)) => {
                self.tools.entry(started.call.name.clone()).or_default().count(outcome);
            }
            _ => {}
        }
    }

    fn spent(&mut self, usage: &Usage) {
        self.usage.input += usage.input;
        self.usage.cached += usage.cached;
        self.usage.output += usage.output;
        self.usage.thoughts += usage.thoughts;
    }

    fn report(&self, model: &str, cost: Option<f64>) -> String {
        let Usage { input, cached, output, thoughts, .. } = self.usage;
        let share = (cached * 100).checked_div(input).unwrap_or_default();
        let Clock { first, last, model: thinking, tools, questions } = self.clock;
        let mut report = format!(
            "**This session**\n\n- model: `{model}`\n- prompts: {}, answers of the model: {}, \
             retries: {}\n- tokens: {} in ({share} % of them cached), {} out, {} thinking\n- time: \
             {}; the model {}, tools {}, waiting for you to answer {}\n",
            self.turns,
            self.answers,
            self.retries,
            grouped(input),
            grouped(output),
            grouped(thoughts),
            time(last - first.unwrap_or(last)),
            time(thinking),
            time(tools),
            time(questions),
        );
        if let Some(cost) = cost {
            report += &format!("- cost at list prices: ${cost:.4}\n");
        }
        if self.tools.is_empty() {
            report += "- tools: none called\n";
        }
        for (name, outcomes) in &self.tools {
            report += &format!("- `{name}`: {}\n", outcomes.report());
        }
        report
    }
}

impl Outcomes {
    fn count(&mut self, outcome: &ToolOutcome) {
        match outcome {
            ToolOutcome::Done(_) => self.done += 1,
            ToolOutcome::Failed(_) => self.failed += 1,
            ToolOutcome::Rejected => self.rejected += 1,
            ToolOutcome::Cancelled => self.cancelled += 1,
            ToolOutcome::Interrupted => self.interrupted += 1,
            ToolOutcome::Unknown(_) => self.unknown += 1,
        }
    }

    fn report(&self) -> String {
        let counts = [
            (self.done, "done"),
            (self.failed, "failed"),
            (self.rejected, "rejected"),
            (self.cancelled, "cancelled"),
            (self.interrupted, "interrupted"),
            (self.unknown, "known to a newer tandem only"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        list(counts.map(|(count, outcome)| format!("{count} {outcome}")))
    }
}

/// Returns a number with its digits in groups: `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a duration for people: `3.2 s`, `4 min 05 s`, `1 h 02 min`.
fn time(millis: Millis) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds}.{} s", millis % 1000 / 100),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{grouped, time};

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let times = [0, 3249, 60_000, 245_000, 3_725_000].map(time);
        assert_eq!(times, ["0.0 s", "3.2 s", "1 min 00 s", "4 min 05 s", "1 h 02 min"]);
    }
}
