//! Flags of everything that works: model, permissions and limits.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tandem_approval::Mode;
use tandem_settings::limits::Change;
use tandem_settings::{Override, SandboxChoice, SettingOrigin};

/// Model, permissions and limits of the agent.
#[derive(Args, Clone)]
#[command(next_help_heading = "Model, consent, limits")]
pub(crate) struct WorkArgs {
    /// The model: a Gemini model's id; `openai:ID`, `anthropic:ID` or `ollama:ID` for one of another
    /// provider, and `tandem models` lists those that can be used; `replay:FILE` to play a script,
    /// `replay` for the demonstration that needs no key and no network [default: gemini-3.8-flash]
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// The thinking level, for models that have levels, such as LOW, MEDIUM or HIGH [default: the model's own]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) thinking: Option<String>,
    /// The calls that need no question: default (calls that only read), `auto_edit` (also edits of files), yolo (all
    /// calls, with commands in the sandbox), plan (calls that only read; all others are refused) [default: default]
    #[arg(long, value_name = "MODE")]
    pub(crate) approval_mode: Option<Mode>,
    /// The same as --approval-mode yolo. To leave the sandbox is still asked about: see --sandbox
    #[arg(short, long, conflicts_with = "approval_mode")]
    pub(crate) yolo: bool,
    /// The sandbox that commands run in: `read-only`, `workspace-write`, or `danger-full-access` (no sandbox).
    /// `--sandbox` without MODE demands a sandbox, and the approval mode chooses its mode
    #[arg(short, long, value_name = "MODE", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) sandbox: Option<SandboxChoice>,
    /// More files of policy rules, or directories of such files; commas between, or repeated
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) policy: Vec<PathBuf>,
    /// Files of policy rules that outrank all of your own rules, or directories of such files; commas between, or
    /// repeated
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) admin_policy: Vec<PathBuf>,
    /// Tools that need no question, or commands that begin with these words: `run_shell_command(git status)`
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allowed_tools: Vec<String>,
    /// Trust the workspace for this run: its own settings count
    #[arg(long)]
    pub(crate) skip_trust: bool,
    /// Use no MCP servers but these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) allowed_mcp_server_names: Vec<String>,
    /// Change a limit, as in `rounds=200`; may be repeated. `tandem config --limits` lists all limits
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    pub(crate) limits: Vec<Change>,
}

impl WorkArgs {
    /// Returns the flags that override settings.
    pub(crate) fn overrides(&self) -> Vec<Override> {
        let mode = self.approval_mode.map(|mode| ("--approval-mode", mode));
        let mode = mode.or_else(|| self.yolo.then_some(("--yolo", Mode::Yolo)));
        let text = |text: &Option<String>| text.clone().map(Value::String);
        let servers = &self.allowed_mcp_server_names;
        let servers = (!servers.is_empty()).then(|| Value::from(servers.clone()));
        let given = [
            ("model.name", "--model", text(&self.model)),
            ("model.thinking", "--thinking", text(&self.thinking)),
            ("tools.sandbox", "--sandbox", self.sandbox.map(SandboxChoice::value)),
            ("mcp.allowed", "--allowed-mcp-server-names", servers),
            (
                "general.defaultApprovalMode",
                mode.map_or("", |(flag, _)| flag),
                mode.map(|(_, mode)| Value::String(mode.to_string())),
            ),
            ("policyPaths", "--policy", paths(&self.policy)),
            ("adminPolicyPaths", "--admin-policy", paths(&self.admin_policy)),
            ("tools.allowed", "--allowed-tools", list(self.allowed_tools.iter().cloned())),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(key, flag, value)| Some((key, SettingOrigin::Flag(flag), value?)))
            .collect()
    }
}

/// Paths as settings have them, seen from where the program was started.
fn paths(paths: &[PathBuf]) -> Option<Value> {
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    list(paths.iter().map(|path| absolute(path).display().to_string()))
}

/// A list, if there is anything in it.
fn list(texts: impl Iterator<Item = String>) -> Option<Value> {
    let list: Vec<_> = texts.map(Value::String).collect();
    (!list.is_empty()).then_some(Value::Array(list))
}

/// Reads a number of seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|err| err.to_string())
}
