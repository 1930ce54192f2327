//! `/stats`: what the session has cost so far, told from its log.

use std::collections::BTreeMap;

use super::registry::{Command, CommandRequest};
use super::words::list;
use crate::session::{CommandReply, Event, Millis, ToolOutcome, Usage};

pub(super) const COMMAND: Command = Command {
    name: "stats",
    description: "tokens, the share of them that was cached, tools, time",
    arguments: &[],
    sub_commands: &[],
    asks_model: false,
    run: Some(|request| Box::pin(async move { Ok(CommandReply::Say(stats(&request))) })),
};

fn stats(request: &CommandRequest<'_>) -> String {
    let mut stats = SessionStats::default();
    let mut log = request.turn.events();
    while let Some(entry) = log.try_next_run() {
        // What counts begins with the first prompt.
        if !matches!(*entry.event, Event::SessionStarted(_)) {
            stats.pass(entry.at);
        }
        stats.count(&entry.event);
    }
    stats.report(&request.turn.model())
}

/// Figures of the session.
#[derive(Default)]
struct SessionStats {
    turns: u64,
    answers: u64,
    retries: u64,
    usage: Usage,
    /// By name.
    tools: BTreeMap<String, Outcomes>,
    clock: Clock,
    /// Calls that have begun: their names, and whether a question is open.
    calls: BTreeMap<String, (String, bool)>,
    /// `true` while a turn runs that is no command, or that asks the model.
    in_turn: bool,
}

#[derive(Default)]
struct Outcomes {
    done: u64,
    failed: u64,
    rejected: u64,
    cancelled: u64,
    interrupted: u64,
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
    /// The time since the event before was spent as things stood after that.
    fn pass(&mut self, now: Millis) {
        let since = (now - self.clock.last).max(0);
        self.clock.last = now;
        if self.clock.first.is_none() {
            self.clock.first = Some(now);
        } else if self.calls.values().any(|(_, asked)| *asked) {
            self.clock.questions += since;
        } else if !self.calls.is_empty() {
            self.clock.tools += since;
        } else if self.in_turn {
            self.clock.model += since;
        }
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::TurnStarted { .. } | Event::Asked(_) => {
                self.turns += 1;
                self.in_turn = true;
            }
            Event::CommandStarted { .. } => {
                self.turns -= 1;
                self.in_turn = false;
            }
            Event::TurnFinished { .. } => self.in_turn = false,
            Event::Retry(_) => self.retries += 1,
            Event::AnswerFinished { usage, .. } => {
                self.answers += 1;
                self.spent(*usage);
            }
            Event::Compressed(short) => self.spent(short.usage),
            Event::CallStarted(started) => {
                let call = (started.call.name.clone(), started.question.is_some());
                self.calls.insert(started.call.id.clone(), call);
            }
            Event::QuestionClosed { call, .. } => {
                if let Some((_, asked)) = self.calls.get_mut(call) {
                    *asked = false;
                }
            }
            Event::CallFinished { call, outcome } => self.finished(call, outcome),
            _ => {}
        }
    }

    fn spent(&mut self, usage: Usage) {
        self.usage.input += usage.input;
        self.usage.cached += usage.cached;
        self.usage.output += usage.output;
        self.usage.thoughts += usage.thoughts;
    }

    fn finished(&mut self, call: &str, outcome: &ToolOutcome) {
        // A call that the cancel overtook never began.
        let Some((name, _)) = self.calls.remove(call) else { return };
        let outcomes = self.tools.entry(name).or_default();
        match outcome {
            ToolOutcome::Done(_) => outcomes.done += 1,
            ToolOutcome::Failed(_) => outcomes.failed += 1,
            ToolOutcome::Rejected => outcomes.rejected += 1,
            ToolOutcome::Cancelled => outcomes.cancelled += 1,
            ToolOutcome::Interrupted => outcomes.interrupted += 1,
        }
    }

    fn report(&self, model: &str) -> String {
        let Usage { input, cached, output, thoughts } = self.usage;
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
    fn report(&self) -> String {
        let counts = [
            (self.done, "done"),
            (self.failed, "failed"),
            (self.rejected, "rejected"),
            (self.cancelled, "cancelled"),
            (self.interrupted, "interrupted"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        list(counts.map(|(count, outcome)| format!("{count} {outcome}")))
    }
}

/// `12,345`.
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

/// `3.2 s`, `4 min 05 s`, `1 h 02 min`.
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
