//! The table of all names that have an effect in settings files: how layers are merged, and which values a project in
//! an unjudged folder may set.

use serde_json::Value;
use tandem_sandbox::SandboxMode;

use super::sandbox_choice::SandboxChoice;

/// Entry of the table: a name in the files.
#[derive(Debug)]
pub(super) struct Key {
    /// Full name, with dots between its parts: `tools.exclude`.
    pub name: &'static str,
    /// Former or foreign names of the value. The first of them in a file counts, if the file does not have `name`.
    pub old: &'static [&'static str],
    pub merge: Merge,
    pub unjudged: Unjudged,
}

/// Way in which a layer's value is merged with the value of the layers before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merge {
    /// The value replaces the earlier value.
    Replace,
    /// The value is a list, and its elements are added to the earlier list without repetitions.
    Add,
    /// The value is an object of values of one type, which replace the earlier values of the same names.
    Each,
}

/// Extent to which a project in an unjudged folder is followed.
#[derive(Debug)]
pub(super) enum Unjudged {
    /// The value counts: it is harmless.
    Counts,
    /// The value counts, but is marked: it would be executed, so the user is asked first.
    Asks,
    /// The value counts if the function returns `true`, as it does for a value that only makes the agent stricter. The
    /// arguments are the value, and the value that it would replace.
    If(fn(&Value, Option<&Value>) -> bool),
    /// The value does not count.
    No,
}

use Merge::{Add, Each, Replace};
use Unjudged::{Asks, Counts, If, No};

/// Variable that names the model, as `--model` does.
pub(super) const MODEL_VARIABLE: &str = "GEMINI_MODEL";
/// Mode that a session begins with.
pub(super) const MODE_KEY: &str = "general.defaultApprovalMode";
/// Switch for the judging of folders.
pub(super) const FOLDER_TRUST: &str = "security.folderTrust.enabled";
/// Servers of models.
pub(super) const MODEL_SERVERS: &str = "modelServers";
pub(super) const MCP_SERVERS: &str = "mcpServers";
/// Names of memory files.
pub(super) const FILE_NAME: &str = "context.fileName";
/// Other agents.
pub(super) const A2A_SERVERS: &str = "a2aServers";
/// Sandbox of commands.
pub(super) const SANDBOX_KEY: &str = "tools.sandbox";
/// Name of the setting that gives commands in the sandbox the machine's network.
pub(super) const NETWORK_ACCESS: &str = "tools.sandboxNetworkAccess";
/// Hosts to which commands in the sandbox can never connect.
pub(super) const DENIED_DOMAINS: &str = "sandbox.network.deniedDomains";
/// Beginning of the names that bound the sandbox.
pub(super) const SANDBOX_BOUNDS: &str = "sandbox.";
/// Switch for running commands in terminals of the editor.
pub(super) const CLIENT_TERMINALS: &str = "acp.clientTerminals";
/// Variable that sets the sandbox, as `--sandbox` does.
pub(super) const SANDBOX_VARIABLE: &str = "GEMINI_SANDBOX";

/// All names, in the order in which people are shown them.
pub(super) const KEY_TABLE: &[Key] = &[
    key("model.name", &["model"], Replace, If(a_model_of_the_users_provider)),
    key("model.provider", &[], Replace, No),
    key(MODEL_SERVERS, &[], Each, No),
    key("model.thinking", &[], Replace, Counts),
    key("model.maxSessionTurns", &["maxSessionTurns"], Replace, Counts),
    key("model.compressionThreshold", COMPRESSION_KEYS, Replace, Counts),
    key("model.disableLoopDetection", &[], Replace, If(is_false)),
    key(MODE_KEY, &["tools.approvalMode"], Replace, If(stricter_mode)),
    key("general.checkpointing.enabled", &["checkpointing.enabled"], Replace, If(is_true)),
    key("general.maxAttempts", &[], Replace, Counts),
    key("general.enableNotifications", &[], Replace, Counts),
    key("general.sessionRetention.enabled", &[], Replace, If(is_false)),
    key("general.sessionRetention.maxAge", &[], Replace, No),
    key("general.sessionRetention.maxCount", &[], Replace, No),
    key(CLIENT_TERMINALS, &[], Replace, If(is_false)),
    key(FILE_NAME, &["contextFileName"], Replace, Counts),
    key("context.includeDirectories", &["includeDirectories"], Add, No),
    key("context.loadMemoryFromIncludeDirectories", LOAD_MEMORY, Replace, Counts),
    key("context.includeDirectoryTree", &[], Replace, Counts),
    key("context.memoryBoundaryMarkers", &[], Replace, No),
    key("context.fileFiltering.respectGitIgnore", RESPECT_GIT, Replace, If(is_true)),
    key("context.fileFiltering.respectGeminiIgnore", RESPECT_GEMINI, Replace, If(is_true)),
    key("context.fileFiltering.customIgnoreFilePaths", CUSTOM_IGNORE, Add, Counts),
    key("tools.core", &["coreTools"], Replace, No),
    key("tools.allowed", &["allowedTools"], Replace, No),
    key("tools.exclude", &["excludeTools"], Add, Counts),
    key("tools.confirmationRequired", &[], Add, Counts),
    key("tools.shortSet", &[], Replace, Counts),
    key("tools.shell.inactivityTimeout", &[], Replace, Counts),
    key(SANDBOX_KEY, SANDBOX_OLD, Replace, If(stricter_sandbox)),
    key(NETWORK_ACCESS, &["tools.sandbox.networkAccess"], Replace, If(is_false)),
    key("tools.sandboxAllowedPaths", &["tools.sandbox.allowedPaths"], Add, No),
    key("tools.sandboxReadablePaths", &[], Add, No),
    key("tools.sandboxSockets", &[], Add, No),
    key("tools.sandboxExcludedServers", &[], Add, No),
    key("sandbox.network.allowedDomains", &[], Add, No),
    key(DENIED_DOMAINS, &[], Add, Counts),
    key("sandbox.network.allowedPorts", &[], Add, No),
    key("sandbox.network.allowPrivate", &[], Replace, If(is_false)),
    key("tools.webFetch.allowPrivate", &[], Replace, If(is_false)),
    key("tools.truncateToolOutputThreshold", &["truncateToolOutputThreshold"], Replace, Counts),
    key(MCP_SERVERS, &[], Each, Asks),
    key(A2A_SERVERS, &[], Each, Asks),
    key("mcp.allowed", &["allowMCPServers"], Replace, No),
    key("mcp.excluded", &["excludeMCPServers"], Add, Counts),
    key("security.disableYoloMode", &["disableYoloMode"], Replace, If(is_true)),
    key("security.disableAlwaysAllow", &[], Replace, If(is_true)),
    key("security.enablePermanentToolApproval", &[], Replace, If(is_false)),
    key(FOLDER_TRUST, &["folderTrust"], Replace, If(is_true)),
    key("security.environmentVariableRedaction.enabled", &[], Replace, If(is_true)),
    key("security.environmentVariableRedaction.allowed", &[], Replace, No),
    key("security.environmentVariableRedaction.blocked", &[], Add, Counts),
    key("security.auth.selectedType", &["selectedAuthType"], Replace, No),
    key("policyPaths", &[], Add, No),
    key("adminPolicyPaths", &[], Add, No),
    key("limits", &[], Each, No),
];

/// Names of guards and features of Gemini CLI that tandem does not have, each with the test that a value asks for it. A
/// user who relies on a guard must be told that tandem does not have it.
pub(super) const WITHOUT_EFFECT: &[(&str, IsWanted)] = &[
    ("hooks", is_set),
    ("security.auth.enforcedType", is_set),
    ("security.enableConseca", is_set),
    ("admin.secureModeEnabled", is_set),
    ("admin.mcp.enabled", is_off),
    ("skills", is_set),
    ("extensions", is_set),
];

/// Beginnings of names that limit what the agent may do. A user who misspells such a name must be told that nothing is
/// limited.
const GUARD_KEYS: &[&str] = &[
    MODE_KEY,
    "adminPolicyPaths",
    "admin.",
    "context.fileFiltering.",
    "mcp.",
    "policyPaths",
    SANDBOX_BOUNDS,
    "security.",
    "tools.allowed",
    "tools.confirmationRequired",
    "tools.core",
    "tools.exclude",
    SANDBOX_KEY,
];

/// Fields of a server in [`MCP_SERVERS`] or [`A2A_SERVERS`] that limit what the agent may do with the server.
const SERVER_GUARDS: &[&str] = &["excludeTools", "includeTools", "sandbox", "trust"];

/// Returns `true` if a name limits what the agent may do.
pub(super) fn is_guard(name: &str) -> bool {
    let is_server = name.starts_with(MCP_SERVERS) || name.starts_with(A2A_SERVERS);
    let field = name.rsplit('.').next().unwrap_or_default();
    GUARD_KEYS.iter().any(|guard| name.starts_with(guard))
        || (is_server && SERVER_GUARDS.contains(&field))
}

/// Test that returns `true` for a value that asks for the guard or feature of its name.
type IsWanted = fn(&Value) -> bool;

/// Returns `true` if a value is neither `null`, `false` nor empty.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => object.values().any(is_set),
    }
}

fn is_off(value: &Value) -> bool {
    value == &Value::Bool(false)
}

const COMPRESSION_KEYS: &[&str] = &[
    "model.chatCompression.contextPercentageThreshold",
    "chatCompression.contextPercentageThreshold",
];
const SANDBOX_OLD: &[&str] = &["security.toolSandboxing", "sandbox"];
const LOAD_MEMORY: &[&str] =
    &["context.loadFromIncludeDirectories", "loadMemoryFromIncludeDirectories"];
const RESPECT_GIT: &[&str] = &["fileFiltering.respectGitIgnore"];
const RESPECT_GEMINI: &[&str] = &["fileFiltering.respectGeminiIgnore"];
const CUSTOM_IGNORE: &[&str] = &["fileFiltering.customIgnoreFilePaths"];

const fn key(
    name: &'static str,
    old: &'static [&'static str],
    merge: Merge,
    unjudged: Unjudged,
) -> Key {
    Key { name, old, merge, unjudged }
}

fn is_true(value: &Value, _: Option<&Value>) -> bool {
    value == &Value::Bool(true)
}

fn is_false(value: &Value, _: Option<&Value>) -> bool {
    value == &Value::Bool(false)
}

/// Returns `true` for a model of the user's own provider. A prefix with a colon names another provider, or a script;
/// `replay` is no provider's model either.
fn a_model_of_the_users_provider(value: &Value, _: Option<&Value>) -> bool {
    value.as_str().is_some_and(|name| !name.contains(':') && name != "replay")
}

fn stricter_mode(value: &Value, before: Option<&Value>) -> bool {
    let strictness = |mode: &Value| match mode.as_str() {
        Some("plan") => 2,
        Some("default") => 1,
        _ => 0,
    };
    strictness(value) >= before.map_or(1, strictness)
}

/// Returns `true` if a sandbox lets commands do no more than the sandbox `before`.
fn stricter_sandbox(value: &Value, before: Option<&Value>) -> bool {
    // The rank grows with what commands may do. A project may keep the rank or lower it.
    let freedom = |value: &Value| match SandboxChoice::read(value) {
        Ok(SandboxChoice::Unreadable) => 0,
        Ok(SandboxChoice::Mode(SandboxMode::ReadOnly)) => 1,
        Ok(SandboxChoice::Automatic) => 2,
        Ok(SandboxChoice::Mode(SandboxMode::WorkspaceWrite)) => 3,
        Ok(SandboxChoice::Off | SandboxChoice::Mode(SandboxMode::DangerFullAccess)) | Err(_) => 4,
    };
    let before = before.map_or_else(|| freedom(&SandboxChoice::default().value()), freedom);
    freedom(value) <= before
}
