//! One run of a task: the repository is made, the model works, the checker decides.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::agent::{self, AgentReport, AgentRun, AgentSetup};
use super::checker;
use super::repository::Arena;
use super::task::Task;

/// Exit codes with which tandem ends if every further run would end in the same way: there is no key, or the
/// arguments are wrong.
const FATAL_CODES: [i32; 2] = [41, 42];

/// One run of a task that has ended, with its figures.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) task: String,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    /// Requests that the model has answered.
    pub(crate) rounds: u64,
    /// Tokens of all prompts, including cached tokens.
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    /// Tokens of all answers, including thoughts.
    pub(crate) output_tokens: u64,
    /// Cost at list prices in US dollars; `None` if it is not known.
    pub(crate) cost_usd: Option<f64>,
    pub(crate) calls: u64,
    pub(crate) failed_calls: u64,
    /// Number of times that the model wanted to ask the user.
    pub(crate) questions: u64,
    /// Calls that were not allowed.
    pub(crate) refusals: usize,
    pub(crate) seconds: f64,
    /// Folders of the run, if they were kept.
    pub(crate) folder: Option<PathBuf>,
}

/// Result of a run.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "result", rename_all = "snake_case")]
pub(crate) enum Verdict {
    #[default]
    Solved,
    NotSolved {
        why: String,
    },
    /// The machine lacks programs that the task needs.
    Skipped {
        why: String,
    },
    /// The model could not work on the task.
    Broken {
        why: String,
        /// `true` if no other task could run, either.
        fatal: bool,
    },
}

/// Runs a task once. With `keep`, the folders stay if the task is not solved.
pub(crate) fn attempt(task: &Task, setup: &AgentSetup, keep: bool) -> anyhow::Result<Attempt> {
    let missing = task.missing_programs();
    if !missing.is_empty() {
        let why = format!("this machine lacks {}", missing.join(", "));
        return Ok(ended(task, Verdict::Skipped { why }, &AgentReport::default(), 0.0));
    }
    let arena = Arena::new(task)?;
    let run = agent::run(task, setup, &arena)?;
    let seconds = run.time.as_secs_f64();
    let verdict = if let Some(failure) = failure(task, &run) {
        failure
    } else {
        let answer = run.report.as_ref().map_or("", |report| &report.response);
        checker::check(task, setup, &arena, answer)?
    };
    let is_solved = verdict == Verdict::Solved;
    let mut attempt = ended(task, verdict, &run.report.unwrap_or_default(), seconds);
    attempt.folder = (keep && !is_solved).then(|| arena.keep());
    Ok(attempt)
}

/// Returns the verdict about a run that has not come to its end; `None` if the model has answered.
fn failure(task: &Task, run: &AgentRun) -> Option<Verdict> {
    if run.ended.timed_out {
        let limit = task.description.time_limit().as_secs();
        let why = format!("the time was over after {limit} seconds");
        return Some(Verdict::NotSolved { why });
    }
    if run.ended.code == Some(0) && run.report.is_some() {
        return None;
    }
    let fatal = run.ended.code.is_some_and(|code| FATAL_CODES.contains(&code));
    let stop_reason = run.report.as_ref().and_then(|report| report.stop_reason.as_deref());
    // All that tandem has noted: a setting that it does not understand may be the cause of the failure below it.
    let why = run.notes.trim().to_owned();
    Some(match stop_reason {
        Some("max_rounds" | "max_tokens" | "looping" | "refused") => Verdict::NotSolved { why },
        _ => Verdict::Broken { why, fatal },
    })
}

fn ended(task: &Task, verdict: Verdict, report: &AgentReport, seconds: f64) -> Attempt {
    let tokens = report.tokens();
    Attempt {
        task: task.name.clone(),
        verdict,
        rounds: report.rounds(),
        input_tokens: tokens.prompt,
        cached_tokens: tokens.cached,
        output_tokens: tokens.candidates + tokens.thoughts,
        cost_usd: report.total_cost_usd,
        calls: report.tools().total_calls,
        failed_calls: report.tools().total_fail,
        questions: report.questions(),
        refusals: report.permission_denials.len(),
        seconds,
        folder: None,
    }
}
