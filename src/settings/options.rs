//! The settings of the user, the project and the machine's owner, merged into one typed value.
//!
//! # To read an option
//!
//! [`read_settings`](super::read_settings) is called once a session, in `src/run/session_factory.rs`, which hands
//! each part of the program its own values as plain data. `settings.tools.exclude` is the merged, checked value; if
//! no file sets the value, it is the default from this module. [`Settings::origin`] returns the places where a value
//! was set, by the value's name in the files: `settings.origin("tools.exclude")`.
//!
//! # To add an option
//!
//! Add a field here, with its default and in the files' spelling, and a row in `keys.rs`. The row says how layers
//! are merged, and how far a project in an unjudged folder is followed. Reading, checking, messages and `tandem
//! config` follow from the two. Describe the option in a row of `docs/settings.md`.
//!
//! # The layers, of which the later wins
//!
//! Defaults; `/etc/gemini-cli/system-defaults.json`; `~/.gemini/settings.json`; `settings.json` in
//! [`Env::config_dir`](super::Env::config_dir); the project's `.gemini/settings.json`;
//! `/etc/gemini-cli/settings.json`; the environment; flags. None of these files is ever written. A wrong value is
//! left out, and [`Settings::remarks`] names it with its file and line. The remarks also name each unknown name that
//! limits what the agent may do, or that is spelled like such a name. `tandem config` shows all names without
//! effect.
//!
//! # Projects
//!
//! A project's file is not read if the user has said not to trust the folder. In a folder that the user has not
//! judged, harmless values count. A value that would loosen a limit on the agent is left out, with a remark. A value
//! that would be executed, an [`McpServer`], is part of the settings, but marked: a server whose
//! [`ServerEntry::unjudged`](super::ServerEntry::unjudged) is true is started only after the session's consent is
//! given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::a2a_agent::A2aAgent;
use super::keys;
use super::limits::{Change, Limits, MAX_LIMIT_TIME};
use super::mcp_server::McpServer;
use super::model_server::{self, ModelServer, ModelServers};
use super::origin::{Layer, SettingOrigin};
use super::sandbox_choice::SandboxChoice;
use super::take;
use tandem_agent::sessions::Retention;
use tandem_approval::Mode;
use tandem_approval::consent::{Executable, MCP_SERVER};
use tandem_host::network::HostPattern;
use tandem_model::provider::Provider;

/// All settings that have an effect in tandem, merged and checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// The model and its conversation.
    pub model: ModelSettings,
    /// Servers of models by name, and changes of built-in providers. A key of tandem's own.
    #[serde(deserialize_with = "model_server::read")]
    pub model_servers: BTreeMap<String, ModelServer>,
    /// Approval mode, undo, retries, notifications, and removal of sessions.
    pub general: GeneralSettings,
    /// MCP servers by name, including excluded servers. [`Settings::mcp_servers`] returns the servers that count.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Selection of MCP servers.
    pub mcp: McpSettings,
    /// Other agents by name. A key of tandem's own.
    pub a2a_servers: BTreeMap<String, A2aAgent>,
    /// Settings for work in an editor, over ACP.
    pub acp: AcpSettings,
    /// Text for the model beside the prompt.
    pub context: ContextSettings,
    /// Tools for the model.
    pub tools: ToolsSettings,
    /// Bounds of the sandbox.
    pub sandbox: SandboxSettings,
    /// Settings for security: forbidden modes and answers, trust in folders, the filter of the environment.
    pub security: SecuritySettings,
    /// Absolute paths of more files, or directories of files, with policy rules.
    pub policy_paths: Vec<PathBuf>,
    /// Absolute paths of more files, or directories of files, with the machine owner's policy rules.
    pub admin_policy_paths: Vec<PathBuf>,
    /// Limits by the names that `--limit` knows. A key of tandem's own.
    #[serde(deserialize_with = "take::limits")]
    pub limits: BTreeMap<String, u64>,
    /// Origins of each value, by its name in the files.
    #[serde(skip)]
    pub(super) origins: BTreeMap<String, Vec<SettingOrigin>>,
    /// Sentences on values that were not followed, with the reasons.
    #[serde(skip)]
    pub(super) remarks: Vec<String>,
    /// Sentences for `tandem config`, on names in files that have no effect and do not limit what the agent may do.
    #[serde(skip)]
    pub(super) unread: Vec<String>,
    /// Paths of settings files, with the outcome of reading each.
    #[serde(skip)]
    pub(super) files: Vec<(Arc<Path>, &'static str)>,
}

/// The model and its conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelSettings {
    /// The model's id, as `--model` takes it.
    pub name: Option<String>,
    /// Provider of a model whose id names no provider. A key of tandem's own.
    #[serde(deserialize_with = "take::provider")]
    pub provider: Provider,
    /// Thinking level, as `--thinking` takes it. A key of tandem's own.
    pub thinking: Option<String>,
    /// Maximum number of requests in one session; `None`, which is -1 in the files, for no limit.
    #[serde(deserialize_with = "take::unlimited")]
    pub max_session_turns: Option<usize>,
    /// Share of the model's context window, from 0 to 1, at which a conversation is compressed.
    #[serde(deserialize_with = "take::share")]
    pub compression_threshold: f64,
    /// `true` if the agent does not react to a model that repeats itself.
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

/// Approval mode, undo, retries, notifications, and removal of sessions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GeneralSettings {
    /// Approval mode that a session begins with. A file cannot set the mode yolo, only a flag can.
    #[serde(deserialize_with = "take::mode")]
    pub default_approval_mode: Mode,
    /// Settings for the undo of changes to files.
    pub checkpointing: Checkpointing,
    /// Maximum number of attempts of a request to the model; at least 1.
    #[serde(deserialize_with = "take::attempts")]
    pub max_attempts: Option<u32>,
    /// `true` if the terminal calls the user with a bell, a notification (OSC 9) and its title when
    /// a question waits or a long turn has ended. On by default; Gemini CLI's own default is off.
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

/// Removal of old sessions, which is off by default.
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
    /// Returns the limits above which sessions are removed; `None` if no session is to be removed.
    pub fn retention(&self) -> Option<Retention> {
        let max_age = self.max_age.as_deref().and_then(take::time);
        let retention = Retention { max_age, max_count: self.max_count };
        (self.enabled && retention != Retention::default()).then_some(retention)
    }
}

/// Settings for the undo of changes to files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Checkpointing {
    /// `true` if the files that tools change are saved first, so that they can be restored. On by default; Gemini CLI's
    /// own default is off.
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
    /// Servers that do not count, even if they are allowed.
    pub excluded: Vec<String>,
}

/// Settings for work in an editor, over ACP. A key of tandem's own.
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
    /// Names of memory files outside of the project, if the project's settings give other names for the project.
    #[serde(skip)]
    pub own_file_name: Option<Vec<String>>,
    /// Absolute paths of more directories to work in. Each of them exists.
    pub include_directories: Vec<PathBuf>,
    /// `true` if memory files in the included directories count too.
    pub load_memory_from_include_directories: bool,
    /// `true` if the model is given the directory tree.
    pub include_directory_tree: bool,
    /// Names of files or directories that mark the topmost directory in which memory files are looked for.
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
    /// `true` if `.gitignore` and git's own exclude list are followed.
    pub respect_git_ignore: bool,
    /// `true` if `.geminiignore` is followed.
    pub respect_gemini_ignore: bool,
    /// More ignore files, relative to the workspace: plain names or relative paths without `..`.
    /// An earlier file wins against a later one, and each of them against `.gitignore` and `.geminiignore`.
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
    /// The only built-in tools that are available, if set, such as `read_file`, `run_shell_command(git status)`.
    pub core: Option<Vec<String>>,
    /// Tools or calls that need no question, in the form of `core`.
    pub allowed: Vec<String>,
    /// Tools or calls that are forbidden, in the form of `core`.
    pub exclude: Vec<String>,
    /// Tools for which each call needs an answer of the user.
    pub confirmation_required: Vec<String>,
    /// `true` if the model is told of the short set of built-in tools, `false` if it is told of all. `None`: a model
    /// with a small window is told of the short set. A key of tandem's own.
    pub short_set: Option<bool>,
    /// Settings for shell commands.
    pub shell: ShellSettings,
    /// Sandbox of commands.
    pub sandbox: SandboxChoice,
    /// `true` if commands in the sandbox can use the machine's network.
    pub sandbox_network_access: bool,
    /// Directories outside the workspace that commands in the sandbox can write.
    pub sandbox_allowed_paths: Vec<PathBuf>,
    /// Files and directories in the home directory that commands in the sandbox can read.
    pub sandbox_readable_paths: Vec<PathBuf>,
    /// Sockets of programs outside of the sandbox to which commands in the sandbox can connect.
    pub sandbox_sockets: Vec<PathBuf>,
    /// MCP servers that run outside of the sandbox, even if a project names them.
    pub sandbox_excluded_servers: Vec<String>,
    /// Settings for reading web pages.
    pub web_fetch: WebFetchSettings,
    /// Maximum number of characters of one call's output that the model is given. `None`: the limit `output-chars`
    /// applies. [`usize::MAX`], which is 0 or less in the files: no limit.
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
    /// Hosts to which commands can connect without a question.
    pub allowed_domains: Vec<HostPattern>,
    /// Hosts to which commands can never connect.
    pub denied_domains: Vec<HostPattern>,
    /// `true` if a list of denied hosts was not valid in some layer. The list may have named any host.
    #[serde(skip)]
    pub denies_unreadable: bool,
    /// Ports that commands can connect to in addition to 80 and 443. A key of tandem's own.
    pub allowed_ports: Vec<u16>,
    /// `true` if allowed hosts may be in private networks, or may be this machine. A key of tandem's own.
    pub allow_private: bool,
}

/// Settings for shell commands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ShellSettings {
    /// Seconds that a command may be silent; 0 for no limit. `None`: the limit `shell-idle-seconds` applies.
    #[serde(deserialize_with = "take::seconds")]
    pub inactivity_timeout: Option<u64>,
}

/// Settings for reading web pages. A key of tandem's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WebFetchSettings {
    /// `true` if pages of this machine and of private networks may be read.
    pub allow_private: bool,
}

/// Settings for security: forbidden modes and answers, trust in folders, the filter of the environment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecuritySettings {
    /// `true` if the mode yolo is forbidden, even by a flag.
    pub disable_yolo_mode: bool,
    /// `true` if no question offers the answer "always".
    pub disable_always_allow: bool,
    /// `true` if questions offer to allow a call in all future sessions.
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
    /// `false` if every folder is trusted, except folders that the user has distrusted.
    pub enabled: bool,
}

impl Default for FolderTrust {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Filter of the environment that commands and servers see. Keys for models are hidden from them in any case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Redaction {
    /// `true` if variables that look secret are removed. On by default; Gemini CLI's own default is off.
    pub enabled: bool,
    /// Variables that stay visible although they look secret.
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
    /// Way of authentication, as Gemini CLI names it: `gemini-api-key`, `vertex-ai`, and others that tandem does not
    /// know.
    pub selected_type: Option<String>,
}

impl Settings {
    /// Returns the origins of a value, by its name in the files (`tools.exclude`, `mcpServers.github`). A list that
    /// several layers add to has several origins; a default has none.
    pub fn origin(&self, key: &str) -> &[SettingOrigin] {
        self.origins.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the default limits, changed first by the settings and then by `changes`.
    pub fn limits(&self, changes: &[Change]) -> Limits {
        let mut limits = Limits::default();
        if let Some(attempts) = self.general.max_attempts {
            limits.model.retry.attempts = attempts;
        }
        if let Some(chars) = self.tools.truncate_tool_output_threshold {
            limits.tools.output_chars = chars;
        }
        if let Some(seconds) = self.tools.shell.inactivity_timeout {
            let time = if seconds == 0 { MAX_LIMIT_TIME } else { Duration::from_secs(seconds) };
            limits.tools.shell_idle = time.min(MAX_LIMIT_TIME);
        }
        if !self.context.include_directory_tree {
            limits.tools.tree_entries = 0;
        }
        let named = self.limits.iter().map(|(name, value)| format!("{name}={value}").parse());
        let named: Vec<Change> = named.filter_map(Result::ok).collect();
        // The changes of the command line come last, because they count more than files.
        for change in named.iter().chain(changes) {
            change.apply(&mut limits);
        }
        limits
    }

    /// Returns the servers of models.
    pub fn model_servers(&self) -> ModelServers {
        ModelServers::new(&self.model_servers)
    }

    /// Returns sentences for the user about settings that were ignored or have no effect, with file and line where they
    /// are known.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns `true` if the user or the machine's owner has switched the judging of folders off. A project cannot.
    pub fn trusts_unjudged(&self) -> bool {
        let projects = |origin: &SettingOrigin| match origin {
            SettingOrigin::File { layer, .. } => {
                matches!(layer, Layer::Project | Layer::UnjudgedProject)
            }
            SettingOrigin::Variable(_) | SettingOrigin::Flag(_) => false,
        };
        !self.security.folder_trust.enabled && !self.origin(keys::FOLDER_TRUST).iter().any(projects)
    }

    /// Returns the programs that a project in an unjudged folder wants the agent to run, and the other agents that the
    /// project wants it to call, for [`consent`](super::consent). Reads the project's scripts that the command lines
    /// name.
    pub fn executables(&self, project: &Path) -> Vec<Executable> {
        let unjudged = self.mcp_servers().filter(|(_, server)| server.entry.unjudged());
        let executable = |(name, server): (&String, &McpServer)| Executable {
            kind: MCP_SERVER,
            name: name.clone(),
            runs: [vec![server.entry.runs()], server.entry.scripts(project)].concat().join("\n"),
            shown: server.entry.identity(),
        };
        let agents = self.a2a_servers.iter().filter(|(_, agent)| agent.entry.unjudged());
        let agents = agents.map(|(name, agent)| Executable {
            kind: "agent",
            name: name.clone(),
            runs: agent.entry.runs(),
            shown: agent.entry.identity(),
        });
        unjudged.map(executable).chain(agents).collect()
    }

    /// Returns the MCP servers that count, by name: the servers that are allowed and not excluded.
    pub fn mcp_servers(&self) -> impl Iterator<Item = (&String, &McpServer)> {
        let counts = |name: &String| {
            let allowed = self.mcp.allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
            allowed && !self.mcp.excluded.contains(name)
        };
        self.mcp_servers.iter().filter(move |(name, _)| counts(name))
    }
}
