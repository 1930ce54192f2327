//! The settings: what a user, a project and a machine's owner have written down, as one typed value.
//!
//! # To read an option
//!
//! [`read_settings`](super::read_settings) is called once a session, in `src/run/making.rs`; parts are given what is theirs as
//! plain data. `settings.tools.exclude` is the merged, checked value: if no file says anything, the
//! default that is here. [`Settings::origin`] says where a value was set, by its name in the files:
//! `settings.origin("tools.exclude")`.
//!
//! # To add an option
//!
//! A field here, with its default and in the files' spelling; a row in `keys.rs` that says how
//! layers are merged and how far a project is followed of which nobody has said whether to trust it.
//! Reading, checking, messages and `tandem config` follow from the two; `docs/settings.md` has a row of it.
//!
//! # The layers, the later wins
//!
//! Defaults; `/etc/gemini-cli/system-defaults.json`; `~/.gemini/settings.json`; `settings.json` in
//! [`Env::config_dir`](super::Env::config_dir); the project's `.gemini/settings.json`; `/etc/gemini-cli/settings.json`; the
//! environment; flags. No file is ever written. A value that is wrong is left out and named in
//! [`Settings::remarks`], with its file and line, and so is a name that is not known and near one that
//! limits what the agent may do. `tandem config` shows all names without effect.
//!
//! # Projects
//!
//! Of a folder that the user has said not to trust, nothing is read. Of one that nobody has judged,
//! what is harmless counts; what would loosen a limit to what the agent may do is left out, with a
//! remark; and what would be executed, [`McpServer`]s, is there and marked: one for which
//! [`McpServer::unjudged`] is true is started when the session's consent is given, not before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::a2a_agent::A2aAgent;
use super::keys;
use super::limits::{Change, LONGEST, Limits};
use super::mcp_server::McpServer;
use super::origin::{Layer, SettingOrigin};
use super::sandbox_choice::SandboxChoice;
use super::take;
use tandem_agent::sessions::Retention;
use tandem_host::network::HostPattern;
use tandem_model::provider::Provider;
use tandem_policy::Mode;
use tandem_policy::consent::{Executable, MCP_SERVER};

/// All settings that mean anything here, merged and checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// The model and its conversation.
    pub model: ModelSettings,
    /// Ways of working.
    pub general: GeneralSettings,
    /// MCP servers by name. Which of them count, [`Settings::mcp_servers`] says.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Selection of MCP servers.
    pub mcp: McpSettings,
    /// Other agents by name: a key of this program's own.
    pub a2a_servers: BTreeMap<String, A2aAgent>,
    /// Editors.
    pub acp: AcpSettings,
    /// Text for the model beside the prompt.
    pub context: ContextSettings,
    /// Tools for the model.
    pub tools: ToolsSettings,
    /// Bounds of the sandbox.
    pub sandbox: SandboxSettings,
    /// Safeguards.
    pub security: SecuritySettings,
    /// More files, or directories of files, with policy rules. Absolute.
    pub policy_paths: Vec<PathBuf>,
    /// The same, of the machine's owner. Absolute.
    pub admin_policy_paths: Vec<PathBuf>,
    /// Limits by the names that `--limit` knows: a key of this program's own.
    #[serde(deserialize_with = "take::limits")]
    pub limits: BTreeMap<String, u64>,
    /// Origins of each value, by its name in the files.
    #[serde(skip)]
    pub(super) origins: BTreeMap<String, Vec<SettingOrigin>>,
    /// Sentences on values that were not followed, and why.
    #[serde(skip)]
    pub(super) remarks: Vec<String>,
    /// Sentences on names in files that have no effect and guard nothing, for `tandem config`.
    #[serde(skip)]
    pub(super) unread: Vec<String>,
    /// Places of settings files, and the outcome of reading each.
    #[serde(skip)]
    pub(super) files: Vec<(Arc<Path>, &'static str)>,
}

/// The model and its conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelSettings {
    /// The model's id, as `--model` takes it.
    pub name: Option<String>,
    /// Provider of a model id that names none: a key of this program's own.
    #[serde(deserialize_with = "take::provider")]
    pub provider: Provider,
    /// Thinking level, as `--thinking` takes it: a key of this program's own.
    pub thinking: Option<String>,
    /// Maximum number of requests in one session; -1 in the files is `None`, any number.
    #[serde(deserialize_with = "take::unlimited")]
    pub max_session_turns: Option<usize>,
    /// The share of the model's window, from 0 to 1, from which on a conversation is compressed.
    #[serde(deserialize_with = "take::share")]
    pub compression_threshold: f64,
    /// `true` if nothing is done about a model that repeats itself.
    pub disable_loop_detection: bool,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            name: None,
            provider: Provider::Gemini,
            thinking: None,
            max_session_turns: None,
            compression_threshold: 0.5,
            disable_loop_detection: false,
        }
    }
}

/// Ways of working.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GeneralSettings {
    /// Mode that a session begins with. Yolo needs a flag.
    #[serde(deserialize_with = "take::mode")]
    pub default_approval_mode: Mode,
    /// Undo.
    pub checkpointing: Checkpointing,
    /// Maximum number of attempts of a request to the model; at least 1.
    #[serde(deserialize_with = "take::attempts")]
    pub max_attempts: Option<u32>,
    /// `true` if the terminal calls the user with a bell, a notification (OSC 9) and its title when
    /// a question waits or a long turn has ended. On here; Gemini CLI's own default is off.
    pub enable_notifications: bool,
    /// Removal of old sessions.
    pub session_retention: SessionRetention,
}

impl Default for GeneralSettings {
    fn default() -> Self {
        Self {
            default_approval_mode: Mode::default(),
            checkpointing: Checkpointing::default(),
            max_attempts: None,
            enable_notifications: true,
            session_retention: SessionRetention::default(),
        }
    }
}

/// Removal of old sessions, which is off unless a person turns it on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionRetention {
    /// `true` if sessions are removed that exceed one of the limits.
    pub enabled: bool,
    /// Time after which a session is removed, such as `30d`.
    #[serde(deserialize_with = "take::age")]
    pub max_age: Option<String>,
    /// Number of sessions that stay; at least 1.
    #[serde(deserialize_with = "take::count")]
    pub max_count: Option<usize>,
}

impl SessionRetention {
    /// Returns what is to be kept, if anything is to be removed.
    pub fn retention(&self) -> Option<Retention> {
        let max_age = self.max_age.as_deref().and_then(take::time);
        let retention = Retention { max_age, max_count: self.max_count };
        (self.enabled && retention != Retention::default()).then_some(retention)
    }
}

/// Undo.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Checkpointing {
    /// `true` if files that tools change are kept, so that they can be restored. On here; Gemini
    /// CLI's own default is off.
    pub enabled: bool,
}

impl Default for Checkpointing {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Selection of MCP servers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct McpSettings {
    /// The only servers that count, if set.
    pub allowed: Option<Vec<String>>,
    /// Servers that do not count.
    pub excluded: Vec<String>,
}

/// Editors: a key of this program's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AcpSettings {
    /// `true` if commands run in terminals of the editor, if it has any.
    pub client_terminals: bool,
}

/// Text for the model beside the prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContextSettings {
    /// Names of memory files: plain names or relative paths without `..`.
    #[serde(deserialize_with = "take::file_names")]
    pub file_name: Vec<String>,
    /// Names of memory files that are not a project's, if a project's settings name others.
    #[serde(skip)]
    pub own_file_name: Option<Vec<String>>,
    /// More directories to work in, absolute: those that there are.
    pub include_directories: Vec<PathBuf>,
    /// `true` if memory files in those directories count too.
    pub load_memory_from_include_directories: bool,
    /// `true` if the model is given the directory tree.
    pub include_directory_tree: bool,
    /// Entries of a directory above which no memory file is looked for.
    pub memory_boundary_markers: Vec<String>,
    /// Selection of ignore files.
    pub file_filtering: FileFiltering,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            file_name: vec!["GEMINI.md".to_owned(), "AGENTS.md".to_owned()],
            own_file_name: None,
            include_directories: Vec::new(),
            load_memory_from_include_directories: false,
            include_directory_tree: true,
            memory_boundary_markers: vec![".git".to_owned()],
            file_filtering: FileFiltering::default(),
        }
    }
}

/// Selection of ignore files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FileFiltering {
    /// `.gitignore` and git's own list.
    pub respect_git_ignore: bool,
    /// `.geminiignore`.
    pub respect_gemini_ignore: bool,
    /// More ignore files, relative to the workspace: plain names or relative paths without `..`.
    /// An earlier one wins against a later one and all of them against the two above.
    #[serde(deserialize_with = "take::file_names")]
    pub custom_ignore_file_paths: Vec<String>,
}

impl Default for FileFiltering {
    fn default() -> Self {
        Self {
            respect_git_ignore: true,
            respect_gemini_ignore: true,
            custom_ignore_file_paths: Vec::new(),
        }
    }
}

/// Tools for the model.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolsSettings {
    /// The only built-in tools that count, if set: `read_file`, `run_shell_command(git status)`.
    pub core: Option<Vec<String>>,
    /// Calls that need no question, in the same form.
    pub allowed: Vec<String>,
    /// Tools, or calls in the same form, that are not to be.
    pub exclude: Vec<String>,
    /// Tools that are asked about every time.
    pub confirmation_required: Vec<String>,
    /// Commands.
    pub shell: ShellSettings,
    /// Sandbox of commands.
    pub sandbox: SandboxChoice,
    /// `true` if commands in the sandbox can use the machine's network.
    pub sandbox_network_access: bool,
    /// Directories outside the workspace that commands in the sandbox can write.
    pub sandbox_allowed_paths: Vec<PathBuf>,
    /// Files and directories of the home that commands in the sandbox can read.
    pub sandbox_readable_paths: Vec<PathBuf>,
    /// Sockets of programs outside that commands in the sandbox can connect to.
    pub sandbox_sockets: Vec<PathBuf>,
    /// MCP servers that run without it, although a project names them.
    pub sandbox_excluded_servers: Vec<String>,
    /// Reading the web.
    pub web_fetch: WebFetchSettings,
    /// Characters of output that the model is given of one call. `None`: as many as the limit
    /// `output-chars` says; 0 or less in the files is [`usize::MAX`].
    #[serde(deserialize_with = "take::threshold")]
    pub truncate_tool_output_threshold: Option<usize>,
}

/// Bounds of the sandbox, with the names of Anthropic's sandbox runtime.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SandboxSettings {
    /// Hosts that commands can connect to.
    pub network: SandboxNetwork,
}

/// Hosts that commands in the sandbox can connect to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SandboxNetwork {
    /// Hosts that are connected to without a question.
    pub allowed_domains: Vec<HostPattern>,
    /// Hosts that are never connected to.
    pub denied_domains: Vec<HostPattern>,
    /// `true` if a list of denied hosts is wrong somewhere: it may have named any host.
    #[serde(skip)]
    pub denies_unreadable: bool,
    /// Ports besides 80 and 443: a key of this program's own.
    pub allowed_ports: Vec<u16>,
    /// `true` if allowed hosts may be in private networks, or this machine: a key of this program's own.
    pub allow_private: bool,
}

/// Commands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ShellSettings {
    /// Seconds that a command may be silent; 0: for ever. `None`: as the limit
    /// `shell-idle-seconds` says.
    #[serde(deserialize_with = "take::seconds")]
    pub inactivity_timeout: Option<u64>,
}

/// Reading the web: a key of this program's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WebFetchSettings {
    /// `true` if this machine itself and private networks may be read from.
    pub allow_private: bool,
}

/// Safeguards.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecuritySettings {
    /// No yolo, even by flag.
    pub disable_yolo_mode: bool,
    /// No question offers "always".
    pub disable_always_allow: bool,
    /// Questions offer to allow something for all sessions to come.
    pub enable_permanent_tool_approval: bool,
    /// Trust in folders.
    pub folder_trust: FolderTrust,
    /// Filter of the environment that commands see.
    pub environment_variable_redaction: Redaction,
    /// Authentication with the model's provider.
    pub auth: AuthSettings,
}

/// Trust in folders.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FolderTrust {
    /// `false` if every folder is trusted but those that the user has said not to trust.
    pub enabled: bool,
}

impl Default for FolderTrust {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Filter of the environment that commands and servers see. They never see keys for models.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Redaction {
    /// `true` if variables that look secret are removed. On here; Gemini CLI's own default is off.
    pub enabled: bool,
    /// Variables that are visible all the same.
    pub allowed: Vec<String>,
    /// Variables that are never visible, even if the filter is off.
    pub blocked: Vec<String>,
}

impl Default for Redaction {
    fn default() -> Self {
        Self { enabled: true, allowed: Vec::new(), blocked: Vec::new() }
    }
}

/// Authentication with the model's provider.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuthSettings {
    /// `gemini-api-key`, `vertex-ai` and others that are not known here.
    pub selected_type: Option<String>,
}

impl Settings {
    /// Returns the origins of a value, by its name in the files (`tools.exclude`,
    /// `mcpServers.github`): several for a list that layers add to, none for a default.
    pub fn origin(&self, key: &str) -> &[SettingOrigin] {
        self.origins.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the limits that the settings ask for, and then these changes.
    pub fn limits(&self, changes: &[Change]) -> Limits {
        let mut limits = Limits::default();
        if let Some(attempts) = self.general.max_attempts {
            limits.model.retry.attempts = attempts;
        }
        if let Some(chars) = self.tools.truncate_tool_output_threshold {
            limits.tools.output_chars = chars;
        }
        if let Some(seconds) = self.tools.shell.inactivity_timeout {
            let time = if seconds == 0 { LONGEST } else { Duration::from_secs(seconds) };
            limits.tools.shell_idle = time.min(LONGEST);
        }
        if !self.context.include_directory_tree {
            limits.tools.tree_entries = 0;
        }
        let named = self.limits.iter().map(|(name, value)| format!("{name}={value}").parse());
        let named: Vec<Change> = named.filter_map(Result::ok).collect();
        // The command line last: it counts more than files.
        for change in named.iter().chain(changes) {
            change.apply(&mut limits);
        }
        limits.model.thinking.clone_from(&self.model.thinking);
        limits
    }

    /// Returns sentences for the user about settings that were ignored or have no effect, with file and line where they
    /// are known.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns `true` if the user, or the machine's owner, has said that folders need not be judged.
    pub fn trusts_unjudged(&self) -> bool {
        let projects = |origin: &SettingOrigin| match origin {
            SettingOrigin::File { layer, .. } => {
                matches!(layer, Layer::Project | Layer::UnjudgedProject)
            }
            SettingOrigin::Variable(_) | SettingOrigin::Flag(_) => false,
        };
        !self.security.folder_trust.enabled && !self.origin(keys::FOLDER_TRUST).iter().any(projects)
    }

    /// Returns the programs that a project in an unjudged folder would have the agent run, and the other agents
    /// that it would have it call: for [`consent`](super::consent). Reads the scripts that they name in the project.
    pub fn executables(&self, project: &Path) -> Vec<Executable> {
        let unjudged = self.mcp_servers().filter(|(_, server)| server.entry.unjudged());
        let executable = |(name, server): (&String, &McpServer)| Executable {
            kind: MCP_SERVER,
            name: name.clone(),
            runs: [vec![server.entry.runs()], server.entry.scripts(project)].concat().join("\n"),
            shown: server.entry.shown(),
        };
        let agents = self.a2a_servers.iter().filter(|(_, agent)| agent.entry.unjudged());
        let agents = agents.map(|(name, agent)| Executable {
            kind: "agent",
            name: name.clone(),
            runs: agent.entry.runs(),
            shown: agent.entry.shown(),
        });
        unjudged.map(executable).chain(agents).collect()
    }

    /// The MCP servers that count, by name: those that are allowed and not excluded.
    pub fn mcp_servers(&self) -> impl Iterator<Item = (&String, &McpServer)> {
        let counts = |name: &String| {
            let allowed = self.mcp.allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
            allowed && !self.mcp.excluded.contains(name)
        };
        self.mcp_servers.iter().filter(move |(name, _)| counts(name))
    }
}
