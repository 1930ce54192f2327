//! The table for people, and the file for comparisons.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::agent::AgentSetup;
use super::attempt::{Attempt, Verdict};
use super::task::Task;

/// Results of an evaluation, as a file has them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) model: String,
    /// More arguments of tandem.
    pub(crate) arguments: Vec<String>,
    pub(crate) max_rounds: u16,
    /// `true` if commands and checkers ran in a sandbox.
    pub(crate) sandbox: bool,
    pub(crate) totals: Totals,
    pub(crate) runs: Vec<Attempt>,
}

impl Results {
    pub(crate) fn of(setup: &AgentSetup, runs: Vec<Attempt>) -> Self {
        Self {
            model: setup.model.to_string(),
            arguments: setup.more.clone(),
            max_rounds: setup.rounds,
            sandbox: setup.sandboxed,
            totals: Totals::of(&runs),
            runs,
        }
    }

    /// Reads results from a file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} has no results of an evaluation", path.display()))
    }

    /// Writes the results into a file.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Sums of runs of tasks.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) runs: usize,
    pub(crate) solved: usize,
    pub(crate) skipped: usize,
    /// Runs in which the model could not work.
    pub(crate) broken: usize,
    pub(crate) rounds: u64,
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Cost in US dollars; `None` if that of a run is not known.
    pub(crate) cost_usd: Option<f64>,
    pub(crate) questions: u64,
    pub(crate) refusals: usize,
    pub(crate) seconds: f64,
}

impl Totals {
    pub(crate) fn of(attempts: &[Attempt]) -> Self {
        let start = Self { cost_usd: Some(0.0), ..Self::default() };
        attempts.iter().fold(start, Self::with)
    }

    fn with(self, attempt: &Attempt) -> Self {
        let is_skipped = matches!(attempt.verdict, Verdict::Skipped { .. });
        let cost = if is_skipped { Some(0.0) } else { attempt.cost_usd };
        Self {
            runs: self.runs + 1,
            solved: self.solved + usize::from(attempt.verdict == Verdict::Solved),
            skipped: self.skipped + usize::from(is_skipped),
            broken: self.broken + usize::from(matches!(attempt.verdict, Verdict::Broken { .. })),
            rounds: self.rounds + attempt.rounds,
            input_tokens: self.input_tokens + attempt.input_tokens,
            cached_tokens: self.cached_tokens + attempt.cached_tokens,
            output_tokens: self.output_tokens + attempt.output_tokens,
            cost_usd: self.cost_usd.zip(cost).map(|(sum, cost)| sum + cost),
            questions: self.questions + attempt.questions,
            refusals: self.refusals + attempt.refusals,
            seconds: self.seconds + attempt.seconds,
        }
    }
}

/// Cells of a row of the table, the name first.
struct TableCells([String; 10]);

impl fmt::Display for TableCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, solved, figures @ ..] = &self.0;
        write!(f, "{name:<26} {solved:<8}")?;
        for (figure, width) in figures.iter().zip([6, 10, 10, 8, 9, 6, 8, 8]) {
            write!(f, " {figure:>width$}")?;
        }
        writeln!(f)
    }
}

/// Returns the names of the columns.
pub(crate) fn head() -> String {
    let names = [
        "task", "solved", "rounds", "input", "cached", "output", "cost", "asked", "refused",
        "seconds",
    ];
    TableCells(names.map(str::to_owned)).to_string()
}

/// Row of the table for a run, and the reason below it if the task is not solved.
pub(crate) struct TableRow<'a>(pub(crate) &'a Attempt);

impl fmt::Display for TableRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = self.0;
        let (solved, why) = match &attempt.verdict {
            Verdict::Solved => ("yes", None),
            Verdict::NotSolved { why } => ("no", Some(why)),
            Verdict::Skipped { why } => ("skipped", Some(why)),
            Verdict::Broken { why, .. } => ("failed", Some(why)),
        };
        let cells = [
            attempt.task.clone(),
            solved.to_owned(),
            attempt.rounds.to_string(),
            attempt.input_tokens.to_string(),
            attempt.cached_tokens.to_string(),
            attempt.output_tokens.to_string(),
            attempt.cost_usd.map_or("-".to_owned(), dollars),
            attempt.questions.to_string(),
            attempt.refusals.to_string(),
            format!("{:.1}", attempt.seconds),
        ];
        TableCells(cells).fmt(f)?;
        for line in why.iter().flat_map(|why| why.lines()) {
            writeln!(f, "  {line}")?;
        }
        if let Some(folder) = &attempt.folder {
            writeln!(f, "  kept: {}", folder.display())?;
        }
        Ok(())
    }
}

/// Returns the last row: the sums.
pub(crate) fn end(totals: &Totals) -> String {
    let skipped = totals.skipped;
    let cells = [
        "total".to_owned(),
        format!("{}/{}", totals.solved, totals.runs - skipped),
        totals.rounds.to_string(),
        totals.input_tokens.to_string(),
        totals.cached_tokens.to_string(),
        totals.output_tokens.to_string(),
        totals.cost_usd.filter(|cost| *cost > 0.0).map_or("-".to_owned(), dollars),
        totals.questions.to_string(),
        totals.refusals.to_string(),
        format!("{:.1}", totals.seconds),
    ];
    TableCells(cells).to_string()
}

/// Returns the list of tasks.
pub(crate) fn list(tasks: &[Task]) -> String {
    let row = |task: &Task| {
        let missing = task.missing_programs();
        let missing = if missing.is_empty() {
            String::new()
        } else {
            format!(" (lacks {})", missing.join(", "))
        };
        format!("{:<26} {}{missing}\n", task.name, task.description.kind)
    };
    tasks.iter().map(row).collect()
}

/// Returns an amount for people: `$0.0123`.
pub(crate) fn dollars(amount: f64) -> String {
    format!("${amount:.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_they_were_written() {
        let why = || "because".to_owned();
        let verdicts = [
            Verdict::Solved,
            Verdict::NotSolved { why: why() },
            Verdict::Skipped { why: why() },
            Verdict::Broken { why: why(), fatal: true },
        ];
        let run =
            |verdict| Attempt { verdict, rounds: 3, cost_usd: Some(0.25), ..Attempt::default() };
        let runs: Vec<_> = verdicts.into_iter().map(run).collect();
        let (model, arguments) = ("m".to_owned(), vec!["--thinking".to_owned()]);
        let totals = Totals::of(&runs);
        let results = Results { model, arguments, max_rounds: 50, sandbox: true, totals, runs };
        let file = tempfile::NamedTempFile::new().unwrap();
        results.write(file.path()).unwrap();
        let read = Results::read(file.path()).unwrap();
        let json = |results: &Results| serde_json::to_value(results).unwrap();
        assert_eq!(json(&read), json(&results));
        assert_eq!((read.totals.solved, read.totals.skipped, read.totals.broken), (1, 1, 1));
    }

    #[test]
    fn the_cost_is_known_if_that_of_each_run_is() {
        let run = |verdict, cost_usd| Attempt { verdict, cost_usd, ..Attempt::default() };
        let skipped = || Verdict::Skipped { why: String::new() };
        let runs = [run(Verdict::Solved, Some(0.5)), run(skipped(), None)];
        assert_eq!(Totals::of(&runs).cost_usd, Some(0.5));
        let runs = [run(Verdict::Solved, Some(0.5)), run(Verdict::Solved, None)];
        assert_eq!(Totals::of(&runs).cost_usd, None);
    }
}
