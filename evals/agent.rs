//! One run of tandem: its command line, and the report that `-o json` gives.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::limited::{self, LimitedRun};
use super::program::Program;
use super::repository::Arena;
use super::task::Task;

/// Setup of tandem that all tasks share.
pub(crate) struct AgentSetup {
    pub(crate) program: Program,
    pub(crate) model: EvalModel,
    /// Content of the settings file; `None` for tandem's defaults.
    pub(crate) settings: Option<String>,
    /// Maximum number of requests to the model.
    pub(crate) rounds: u16,
    /// `true` if commands and checkers run in a sandbox.
    pub(crate) sandboxed: bool,
    /// More arguments.
    pub(crate) more: Vec<String>,
}

/// Model that works on the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EvalModel {
    /// The task's own script that solves the task.
    Solution,
    /// The task's own script that does not.
    Wrong,
    /// A model by its id.
    Real(String),
}

impl EvalModel {
    /// Returns the file of a task with the answers; `None` for a real model.
    fn script(&self) -> Option<&'static str> {
        match self {
            Self::Solution => Some("solution.json"),
            Self::Wrong => Some("wrong.json"),
            Self::Real(_) => None,
        }
    }
}

impl FromStr for EvalModel {
    type Err = Infallible;

    fn from_str(id: &str) -> Result<Self, Infallible> {
        Ok(match id {
            "replay" => Self::Solution,
            "replay:wrong" => Self::Wrong,
            id => Self::Real(id.to_owned()),
        })
    }
}

impl fmt::Display for EvalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Solution => "replay",
            Self::Wrong => "replay:wrong",
            Self::Real(id) => id,
        })
    }
}

/// A run of tandem that has ended.
pub(crate) struct AgentRun {
    /// Report; `None` if the run ended before it had begun.
    pub(crate) report: Option<AgentReport>,
    pub(crate) ended: LimitedRun,
    pub(crate) time: Duration,
    /// Notes that tandem has written on standard error.
    pub(crate) notes: String,
}

/// Report of `-o json`, with the fields that are needed here.
#[derive(Deserialize, Default)]
pub(crate) struct AgentReport {
    pub(crate) response: String,
    pub(crate) stop_reason: Option<String>,
    pub(crate) permission_denials: Vec<Value>,
    pub(crate) total_cost_usd: Option<f64>,
    stats: AgentStats,
}

#[derive(Deserialize, Default)]
struct AgentStats {
    models: BTreeMap<String, ModelStats>,
    tools: ToolStats,
}

#[derive(Deserialize)]
struct ModelStats {
    api: ApiStats,
    tokens: TokenStats,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiStats {
    total_requests: u64,
    total_errors: u64,
}

/// Tokens of all requests. `prompt` includes those that were `cached`.
#[derive(Deserialize, Default, Clone, Copy)]
pub(crate) struct TokenStats {
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
    pub(crate) candidates: u64,
    pub(crate) thoughts: u64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolStats {
    pub(crate) total_calls: u64,
    pub(crate) total_fail: u64,
    by_name: BTreeMap<String, CallStats>,
}

#[derive(Deserialize)]
struct CallStats {
    count: u64,
}

impl AgentReport {
    /// Returns the number of requests that the model has answered.
    pub(crate) fn rounds(&self) -> u64 {
        let models = self.stats.models.values();
        models.map(|model| model.api.total_requests.saturating_sub(model.api.total_errors)).sum()
    }

    pub(crate) fn tokens(&self) -> TokenStats {
        self.stats.models.values().fold(TokenStats::default(), |sum, model| TokenStats {
            prompt: sum.prompt + model.tokens.prompt,
            cached: sum.cached + model.tokens.cached,
            candidates: sum.candidates + model.tokens.candidates,
            thoughts: sum.thoughts + model.tokens.thoughts,
        })
    }

    pub(crate) fn tools(&self) -> &ToolStats {
        &self.stats.tools
    }

    /// Returns the number of times that the model has asked the user, who is not there.
    pub(crate) fn questions(&self) -> u64 {
        self.stats.tools.by_name.get("ask_user").map_or(0, |calls| calls.count)
    }
}

/// Runs tandem on a task.
pub(crate) fn run(task: &Task, setup: &AgentSetup, arena: &Arena) -> anyhow::Result<AgentRun> {
    let (answer, log) = (arena.path().join("agent.json"), arena.path().join("agent.log"));
    let mut command = arena.command(setup.program.path());
    command
        .arg("--prompt")
        .arg(&task.description.prompt)
        .args(["--yolo", "--output-format", "json"])
        .args(if setup.sandboxed {
            ["--sandbox"].as_slice()
        } else {
            &["--sandbox=danger-full-access"]
        })
        .arg(format!("--model={}", model(task, setup, arena.path())?))
        .arg(format!("--limit=rounds={}", setup.rounds))
        .stdout(File::create(&answer)?)
        .stderr(File::create(&log)?);
    if let Some(rules) = rules(&task.description.allow) {
        let file = arena.path().join("rules.toml");
        fs::write(&file, rules)?;
        command.arg("--policy").arg(file);
    }
    if let Some(settings) = &setup.settings {
        let folder = arena.home().join(".gemini");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("settings.json"), settings)?;
    }
    command.args(&setup.more);
    let began = Instant::now();
    let ended = limited::run(&mut command, task.description.time_limit())
        .with_context(|| format!("cannot run {}", setup.program.path().display()))?;
    let time = began.elapsed();
    let report = serde_json::from_str(&fs::read_to_string(answer)?).ok();
    Ok(AgentRun { report, ended, time, notes: fs::read_to_string(log)? })
}

/// Returns the model's id for tandem. The answers of a task become a script of the replay model.
fn model(task: &Task, setup: &AgentSetup, folder: &Path) -> anyhow::Result<String> {
    let Some(script) = setup.model.script() else { return Ok(setup.model.to_string()) };
    let source = task.folder.join(script);
    let wrong = || format!("{} is wrong", source.display());
    let answers: Value = serde_json::from_str(&fs::read_to_string(&source).with_context(wrong)?)
        .with_context(wrong)?;
    let file = folder.join("script.jsonl");
    fs::write(&file, json!({ "answers": answers }).to_string())?;
    Ok(format!("replay:{}", file.display()))
}

/// Returns the policy rules that let commands leave the sandbox.
fn rules(allowed: &[String]) -> Option<String> {
    let prefixes = allowed.iter().map(|prefix| format!("{prefix:?}")).collect::<Vec<_>>();
    (!prefixes.is_empty()).then(|| {
        format!(
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [{}]\ndecision = \"allow\"\n\
             sandbox = \"danger-full-access\"\npriority = 900\n",
            prefixes.join(", ")
        )
    })
}
