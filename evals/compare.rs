//! A comparison with the results of an earlier evaluation.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::attempt::{Attempt, Verdict};
use super::report::dollars;

/// Runs of a task, or of several.
#[derive(Default, Clone, Copy, PartialEq)]
struct RunSums {
    runs: u32,
    solved: u32,
    rounds: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// Cost in US dollars; `None` if that of a run is not known.
    cost_usd: Option<f64>,
}

impl RunSums {
    fn of<'a>(runs: impl IntoIterator<Item = &'a Attempt>) -> Self {
        let start = Self { cost_usd: Some(0.0), ..Self::default() };
        runs.into_iter().fold(start, |sums, run| Self {
            runs: sums.runs + 1,
            solved: sums.solved + u32::from(run.verdict == Verdict::Solved),
            rounds: sums.rounds + run.rounds,
            input_tokens: sums.input_tokens + run.input_tokens,
            output_tokens: sums.output_tokens + run.output_tokens,
            cost_usd: sums.cost_usd.zip(run.cost_usd).map(|(sum, cost)| sum + cost),
        })
    }

    /// Returns the part of runs that are solved.
    fn share(self) -> f64 {
        f64::from(self.solved) / f64::from(self.runs.max(1))
    }

    /// Returns the mean of a sum.
    #[expect(clippy::cast_precision_loss, reason = "no evaluation has 2^52 tokens")]
    fn mean(self, sum: u64) -> f64 {
        sum as f64 / f64::from(self.runs.max(1))
    }
}

impl fmt::Display for RunSums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.solved, self.runs)
    }
}

/// Returns a text that compares the runs of the tasks that both evaluations have.
pub(crate) fn comparison(before: &[Attempt], now: &[Attempt]) -> String {
    let (before, now) = (by_task(before), by_task(now));
    let both: Vec<_> = now.keys().filter(|task| before.contains_key(*task)).collect();
    let sums = |runs: &BTreeMap<&str, Vec<&Attempt>>| {
        RunSums::of(both.iter().flat_map(|task| runs[**task].iter().copied()))
    };
    let (was, is) = (sums(&before), sums(&now));
    let mean = |sum: fn(&RunSums) -> u64| {
        format!("{:.1} -> {:.1}", was.mean(sum(&was)), is.mean(sum(&is)))
    };
    let cost = |sums: RunSums| {
        let cost = sums.cost_usd.filter(|cost| *cost > 0.0);
        cost.map_or("-".to_owned(), |cost| dollars(cost / f64::from(sums.runs.max(1))))
    };
    let mut text = format!("before -> now, in the {} tasks of both:\n", both.len());
    let rows = [
        ("solved", format!("{was} -> {is}")),
        ("rounds in a run", mean(|sums| sums.rounds)),
        ("input in a run", mean(|sums| sums.input_tokens)),
        ("output in a run", mean(|sums| sums.output_tokens)),
        ("cost of a run", format!("{} -> {}", cost(was), cost(is))),
    ];
    for (name, value) in rows {
        // Writing into a string does not fail.
        let _ = writeln!(text, "  {name:<18} {value}");
    }
    for task in both {
        let task_sums =
            |runs: &BTreeMap<&str, Vec<&Attempt>>| RunSums::of(runs[task].iter().copied());
        let (was, is) = (task_sums(&before), task_sums(&now));
        let name = match is.share().total_cmp(&was.share()) {
            std::cmp::Ordering::Greater => "better",
            std::cmp::Ordering::Less => "worse",
            std::cmp::Ordering::Equal => continue,
        };
        let _ = writeln!(text, "  {name:<18} {task}: {was} -> {is}");
    }
    text
}

/// Returns the runs of each task that was not skipped.
fn by_task(runs: &[Attempt]) -> BTreeMap<&str, Vec<&Attempt>> {
    let mut tasks = BTreeMap::<_, Vec<_>>::new();
    for run in runs.iter().filter(|run| !matches!(run.verdict, Verdict::Skipped { .. })) {
        tasks.entry(run.task.as_str()).or_default().push(run);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(task: &str, solved: bool, rounds: u64, cost_usd: Option<f64>) -> Attempt {
        let verdict =
            if solved { Verdict::Solved } else { Verdict::NotSolved { why: String::new() } };
        let task = task.to_owned();
        Attempt { task, verdict, rounds, cost_usd, ..Attempt::default() }
    }

    #[test]
    fn tasks_of_both_are_compared() {
        let before = [
            run("a", false, 8, Some(0.5)),
            run("b", true, 4, Some(0.25)),
            run("b", true, 4, Some(0.25)),
            run("c", true, 2, Some(0.5)),
            run("gone", true, 90, None),
        ];
        let now = [
            run("a", true, 6, Some(0.25)),
            run("b", true, 4, Some(0.25)),
            run("b", false, 2, Some(0.25)),
            run("new", true, 90, None),
            run("c", true, 2, None),
        ];
        assert_eq!(
            comparison(&before, &now),
            "before -> now, in the 3 tasks of both:\n\
            \x20 solved             3/4 -> 3/4\n\
            \x20 rounds in a run    4.5 -> 3.5\n\
            \x20 input in a run     0.0 -> 0.0\n\
            \x20 output in a run    0.0 -> 0.0\n\
            \x20 cost of a run      $0.3750 -> -\n\
            \x20 better             a: 0/1 -> 1/1\n\
            \x20 worse              b: 2/2 -> 1/2\n"
        );
    }
}
