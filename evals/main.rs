//! An evaluation of models, prompts and tools: small tasks, each in a repository of its own and with a checker, given
//! to the real program as a script would (`cargo run -p evals -- --model ID`).

mod agent;
mod attempt;
mod checker;
mod compare;
mod limited;
mod program;
mod report;
mod repository;
#[cfg(test)]
mod scripted;
mod task;

use std::collections::VecDeque;
use std::fs;
use std::io::{Write as _, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;
use clap::Parser;
use parking_lot::Mutex;

use self::agent::{AgentSetup, EvalModel};
use self::attempt::{Attempt, Verdict, attempt};
use self::program::Program;
use self::report::{Results, TableRow, Totals};
use self::task::Task;

/// Measure how well a model, with tandem's prompt and tools, solves small tasks.
///
/// Each task is a small git repository, a prompt and a checker. tandem works on the prompt as in a script
/// (`tandem -p PROMPT --yolo --sandbox -o json`), in a fresh copy of the repository and with a home of its own. When it
/// has ended, the checker decides whether the task is solved. A model never sees the checker.
#[derive(Parser)]
#[command(name = "evals", max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    /// The model, as `tandem --model` takes it; `replay` plays each task's own solution, and `replay:wrong` an answer
    /// that does not solve it, both without a key
    #[arg(short, long, value_name = "ID", required_unless_present = "list")]
    model: Option<EvalModel>,
    /// Run this task alone; may be repeated
    #[arg(short, long = "task", value_name = "NAME")]
    tasks: Vec<String>,
    /// List the tasks
    #[arg(long)]
    list: bool,
    /// Run this many tasks at once
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Run each task this many times: a model does not always answer alike
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// Write the results into this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compare with the results in this file, which an earlier `--output` has written
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Keep the folders of tasks that were not solved, and print where they are
    #[arg(long)]
    keep: bool,
    /// Begin no task once the tasks so far have cost this many US dollars, or their cost is not known. Tasks that run
    /// then go on to their end, so the sum can be higher
    #[arg(long, value_name = "USD")]
    budget: Option<f64>,
    /// Maximum number of requests to the model in a task
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Fail (exit code 1) if fewer than this many runs of tasks are solved
    #[arg(long, value_name = "N")]
    require: Option<usize>,
    /// Settings of tandem for all tasks, in the format of `~/.gemini/settings.json`: your own servers, for instance
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Run commands and checkers without a sandbox, for a machine that has none and holds nothing of value. They run
    /// what the model has written
    #[arg(long)]
    no_sandbox: bool,
    /// The program to measure [default: tandem, built from this source]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// More arguments of tandem, behind `--`
    #[arg(last = true, value_name = "ARGUMENT")]
    more: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  cargo run -p evals -- --list
  cargo run -p evals -- --model replay
  cargo run -p evals -- --model gemini-3.8-flash --jobs 4 --budget 5 -o before.json
  cargo run -p evals -- --model ollama:qwen3:8b --task bug-behind-indirection --keep
  cargo run -p evals -- --model openai:gpt-6.1-sol --repeat 3 -- --thinking high

Keys come from environment variables, as `tandem --help` lists them: a key that `tandem login` has stored is not used.
A model of a provider costs money for each task.

Exit code 0 says that all tasks could run, solved or not. It is 1 if one could not (no key, no server), or if fewer are
solved than --require demands, and 2 for wrong arguments.
";

fn main() -> ExitCode {
    let ended = evaluate(&Cli::parse());
    let code = ended.unwrap_or_else(|error| {
        // An error is ignored: if standard error is closed, no person reads it.
        let _ = writeln!(stderr(), "evals: {error:#}");
        false
    });
    if code { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Evaluates as the command line says. Returns `true` if all tasks could run, and as many as required are solved.
fn evaluate(cli: &Cli) -> anyhow::Result<bool> {
    let tasks = task::named(task::all()?, &cli.tasks)?;
    let (Some(model), false) = (&cli.model, cli.list) else {
        write!(stdout(), "{}", report::list(&tasks))?;
        return Ok(true);
    };
    // Read first: a wrong file is said before anything costs money.
    let earlier = cli.compare.as_deref().map(Results::read).transpose()?;
    let settings = cli.settings.as_ref().map(|path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    });
    let setup = AgentSetup {
        settings: settings.transpose()?,
        program: cli.program.as_deref().map_or_else(Program::built, Program::at)?,
        model: model.clone(),
        rounds: cli.rounds,
        sandboxed: !cli.no_sandbox,
        more: cli.more.clone(),
    };
    if setup.sandboxed {
        setup.program.check_sandbox()?;
    }
    if let EvalModel::Real(id) = model {
        let runs = tasks.len() * usize::from(cli.repeat);
        writeln!(
            stderr(),
            "evals: {runs} runs of tasks with {id}, of {} requests each at most. A provider's model costs money; \
             --budget USD begins no task once that much is spent.",
            cli.rounds
        )?;
    }
    let results = Results::of(&setup, run_all(cli, &tasks, &setup)?);
    write!(stdout(), "{}", report::end(&results.totals))?;
    if let Some(earlier) = &earlier {
        write!(stdout(), "\n{}", compare::comparison(&earlier.runs, &results.runs))?;
    }
    if let Some(path) = &cli.output {
        results.write(path)?;
    }
    let enough = cli.require.is_none_or(|least| results.totals.solved >= least);
    Ok(enough && results.totals.broken == 0)
}

/// Runs all tasks, several at once if so wanted, and prints a row of the table as each ends.
fn run_all(cli: &Cli, tasks: &[Task], setup: &AgentSetup) -> anyhow::Result<Vec<Attempt>> {
    write!(stdout(), "{}", report::head())?;
    let runs = (0..cli.repeat).flat_map(|_| tasks);
    let waiting: Mutex<VecDeque<&Task>> = Mutex::new(runs.collect());
    let ended = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<()> {
        while let Some(task) = next(&waiting, &ended, cli.budget) {
            let attempt = attempt(task, setup, cli.keep).inspect_err(|_| waiting.lock().clear())?;
            let row = TableRow(&attempt).to_string();
            if matches!(attempt.verdict, Verdict::Broken { fatal: true, .. }) {
                leave_out(&waiting, "they would end in the same way");
            }
            let mut ended = ended.lock();
            ended.push(attempt);
            // Under the lock, so that rows do not mix.
            write!(stdout(), "{row}")?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cli.jobs).map(|_| scope.spawn(work)).collect();
        let mut ends = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ends.try_for_each(|end| end.unwrap_or_else(|_| anyhow::bail!("a worker has panicked")))
    })?;
    Ok(ended.into_inner())
}

/// Takes the next task; `None` if there is none, or the budget is spent.
fn next<'a>(
    waiting: &Mutex<VecDeque<&'a Task>>,
    ended: &Mutex<Vec<Attempt>>,
    budget: Option<f64>,
) -> Option<&'a Task> {
    if let Some(budget) = budget {
        let spent = Totals::of(&ended.lock()).cost_usd;
        if spent.is_none_or(|spent| spent >= budget) {
            let spent = spent.map_or("not known".to_owned(), report::dollars);
            let budget = report::dollars(budget);
            leave_out(waiting, &format!("the cost so far is {spent}, and --budget is {budget}"));
        }
    }
    waiting.lock().pop_front()
}

/// Takes all tasks that wait away, and says why.
fn leave_out(waiting: &Mutex<VecDeque<&Task>>, why: &str) {
    let left = std::mem::take(&mut *waiting.lock()).len();
    if left > 0 {
        // An error is ignored: if standard error is closed, no person reads it.
        let _ = writeln!(stderr(), "evals: runs left out: {left}; {why}.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(costs: &[Option<f64>], budget: f64, goes_on: bool) {
        let tasks = task::all().unwrap();
        let waiting = Mutex::new(tasks.iter().collect());
        let ended =
            costs.iter().map(|cost_usd| Attempt { cost_usd: *cost_usd, ..Attempt::default() });
        let next = next(&waiting, &Mutex::new(ended.collect()), Some(budget));
        assert_eq!(next.is_some(), goes_on);
        assert_eq!(waiting.lock().is_empty(), !goes_on);
    }

    #[test]
    fn tasks_begin_until_the_budget_is_spent() {
        check(&[], 0.5, true);
        check(&[Some(0.2), Some(0.2)], 0.5, true);
        check(&[Some(0.2), Some(0.3)], 0.5, false);
    }

    #[test]
    fn nothing_begins_within_a_budget_once_a_cost_is_not_known() {
        check(&[Some(0.2), None], 0.5, false);
    }
}
