//! Merges the layers of settings value by value, and reports each value that is left out.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::dotenv::DotEnv;
use super::env::Env;
use super::expand;
use super::file::{self, Node, NodeKind};
use super::keys::{
    A2A_SERVERS, CLIENT_TERMINALS, DENIED_DOMAINS, FILE_NAME, FOLDER_TRUST, KEY_TABLE, Key,
    MCP_SERVERS, MODE_KEY, MODEL_VARIABLE, Merge, NETWORK_ACCESS, SANDBOX_BOUNDS, SANDBOX_KEY,
    SANDBOX_VARIABLE, Unjudged, WITHOUT_EFFECT,
};
use super::options::{ContextSettings, Settings};
use super::origin::{Layer, SettingOrigin};
use super::sandbox_choice::SandboxChoice;
use super::server_entry::ServerEntry;
use super::trust::{Trust, trust};
use super::unread::{self, ENABLEMENT_FILE};
use tandem_approval::Mode;
use tandem_model::provider::Provider;

/// A value that a flag or a variable sets: the setting's name in the files, its origin, and the value itself.
pub type Override = (&'static str, SettingOrigin, Value);

/// Reads the settings files that apply to the directory `project`, and merges them. The values in `given` count more
/// than every file, and more than the variable that names the model.
///
/// The function opens a handful of small files. It opens a `.env` file only to look up a variable that is not in the
/// environment: a variable that a value names, or the model's variable if `given` has no model.
pub fn read_settings(env: &Env, project: &Path, given: &[Override]) -> Settings {
    let mut merged = Merger::new(env, project);
    for (layer, path) in file::layer_files(env, project) {
        let state = merged.read(layer, &path);
        merged.files.push((path, state));
    }
    if !given.iter().any(|(name, ..)| *name == "model.name") {
        merged.variables();
    }
    merged.sandbox_variable();
    for given in given {
        merged.merge_override(given);
    }
    merged.finish()
}

/// Values of the layers read so far.
struct Merger<'a> {
    env: &'a Env,
    project: &'a Path,
    /// The `.env` file, read at the first lookup of a variable that the environment does not have.
    dotenv: OnceCell<DotEnv>,
    values: Value,
    origins: BTreeMap<String, Vec<SettingOrigin>>,
    /// Entries of MCP servers and other agents by path, such as `mcpServers.NAME`: the entry as it is in the file, and
    /// the names of the variables whose values were put into it.
    servers: BTreeMap<String, (Value, Vec<String>)>,
    /// Names of memory files that a project's value replaced; `None` if the value in force is not a project's.
    own_file_names: Option<Value>,
    /// Origin of each value that asks for a feature which tandem does not have, by the value's name.
    without_effect: BTreeMap<&'static str, SettingOrigin>,
    remarks: Vec<String>,
    /// `true` if a list of denied hosts was not valid, and so was left out.
    denies_unreadable: bool,
    /// Sentences on names without effect that do not limit what the agent may do. Sentences on the other names without
    /// effect are in `remarks`.
    unread: Vec<String>,
    /// Paths of settings files, with the outcome of reading each.
    pub files: Vec<(Arc<Path>, &'static str)>,
}

/// One value of a layer.
struct LayerValue<'a> {
    key: &'a Key,
    /// Path of the value: the parts of the key's name, and for an entry of a `Merge::Each` group also the entry's name.
    path: Vec<&'a str>,
    value: Value,
    origin: SettingOrigin,
    /// Node in the file, for the line of an error; `None` for a flag or a variable.
    node: Option<&'a Node>,
}

impl<'a> Merger<'a> {
    fn new(env: &'a Env, project: &'a Path) -> Self {
        Self {
            env,
            project,
            dotenv: OnceCell::new(),
            values: Value::Object(Map::new()),
            origins: BTreeMap::new(),
            servers: BTreeMap::new(),
            own_file_names: None,
            without_effect: BTreeMap::new(),
            remarks: Vec::new(),
            denies_unreadable: false,
            unread: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Reads a settings file and merges its values. Leaves out a project's file if the user has said not to trust the
    /// folder. Returns the outcome of reading, for people.
    fn read(&mut self, layer: Layer, path: &Arc<Path>) -> &'static str {
        let root = match file::read(path) {
            Ok(Some(root)) => root,
            Ok(None) => return "none",
            Err(remark) => {
                self.remarks.push(remark);
                return "not read";
            }
        };
        // An unjudged folder counts as trusted if the layers before the project's switch the judging of folders off.
        // The project's own file is merged only after this decision, so a project cannot declare itself trusted.
        let trust = || match trust(self.env, self.project) {
            Trust::Unjudged if !self.asks_for_trust() => Trust::Trusted,
            judged => judged,
        };
        let (layer, state) = match layer {
            Layer::Project => match trust() {
                Trust::Never => return "not used: you have distrusted its folder",
                Trust::Unjudged => {
                    (Layer::UnjudgedProject, "not used in full: you have not trusted its folder")
                }
                Trust::Trusted => (layer, "read"),
            },
            layer => (layer, "read"),
        };
        for key in KEY_TABLE {
            if let Some(node) = find(&root, key) {
                self.key(key, node, layer, path);
            }
        }
        for unread in unread::unread(&root) {
            let origin = SettingOrigin::File { layer, path: Arc::clone(path), line: unread.line };
            if unread.is_guard() {
                self.remark(&origin, &unread.to_string());
            } else {
                self.unread.push(format!("{origin}: {unread}"));
            }
        }
        for (name, asks) in WITHOUT_EFFECT {
            let Some(node) = root.find(name.split('.')) else { continue };
            if asks(&node.value(&mut ToOwned::to_owned)) {
                let origin = SettingOrigin::File { layer, path: Arc::clone(path), line: node.line };
                self.without_effect.insert(name, origin);
            } else {
                self.without_effect.remove(name);
            }
        }
        state
    }

    fn asks_for_trust(&self) -> bool {
        at(&self.values, FOLDER_TRUST.split('.')) != Some(&Value::Bool(false))
    }

    fn key(&mut self, key: &Key, node: &Node, layer: Layer, path: &Arc<Path>) {
        let names: Vec<&str> = key.name.split('.').collect();
        let origin = |node: &Node| {
            let path = Arc::clone(path);
            SettingOrigin::File { layer, path, line: node.line }
        };
        match &node.kind {
            NodeKind::Object(properties) if key.merge == Merge::Each => {
                for (name, node) in properties {
                    let names: Vec<_> = names.iter().copied().chain([name.as_str()]).collect();
                    self.node(key, &names, node, origin(node));
                }
            }
            _ => self.node(key, &names, node, origin(node)),
        }
    }

    fn node(&mut self, key: &Key, names: &[&str], node: &Node, origin: SettingOrigin) {
        if matches!(node.kind, NodeKind::Plain(Value::Null)) {
            return;
        }
        let mut variables = Vec::new();
        let value = node.value(&mut |text| {
            expand::expand(text, |name| {
                let value = self.variable(name);
                if value.is_some() && !variables.iter().any(|known| known == name) {
                    variables.push(name.to_owned());
                }
                value
            })
        });
        let is_server = matches!(key.name, MCP_SERVERS | A2A_SERVERS);
        let server = is_server.then(|| names.join("."));
        if self.say(LayerValue { key, path: names.to_vec(), value, origin, node: Some(node) })
            && let Some(server) = server
        {
            let written = node.value(&mut ToOwned::to_owned);
            self.servers.insert(server, (written, variables));
        }
    }

    /// Merges the model that the variable [`MODEL_VARIABLE`] names, in the environment or in a trusted `.env` file.
    fn variables(&mut self) {
        if let Some(model) = self.variable(MODEL_VARIABLE).filter(|model| !model.is_empty()) {
            self.merge_override(&(
                "model.name",
                SettingOrigin::Variable(MODEL_VARIABLE),
                Value::String(model),
            ));
        }
    }

    /// Merges the sandbox that the variable [`SANDBOX_VARIABLE`] names in the environment. A `.env` file cannot set it.
    fn sandbox_variable(&mut self) {
        let named = self.env.vars().get(SANDBOX_VARIABLE).filter(|name| !name.is_empty());
        if let Some(name) = named {
            let origin = SettingOrigin::Variable(SANDBOX_VARIABLE);
            self.merge_override(&(SANDBOX_KEY, origin, Value::String(name.clone())));
        }
    }

    /// Returns a variable's value from the environment, or else from a trusted `.env` file.
    fn variable(&self, name: &str) -> Option<String> {
        let of_process = self.env.vars().get(name);
        let of_file = || self.dotenv.get_or_init(|| DotEnv::read(self.env)).trusted(name);
        of_process.map(String::as_str).or_else(of_file).map(ToOwned::to_owned)
    }

    /// Merges a value that a flag or a variable sets.
    fn merge_override(&mut self, (name, origin, value): &Override) {
        let Some(key) = KEY_TABLE.iter().find(|key| key.name == *name) else { return };
        let (value, origin) = (value.clone(), origin.clone());
        self.say(LayerValue { key, path: name.split('.').collect(), value, origin, node: None });
    }

    /// Merges a value if it is valid and if its origin may set it. Returns `true` if the value was merged.
    fn say(&mut self, mut said: LayerValue<'_>) -> bool {
        // 1. A value of a wrong type is left out, with a remark.
        if let Err((line, why)) = check(&said) {
            let origin = said.origin.at_line(line);
            self.remark(&origin, &why);
            self.denies_unreadable |= said.key.name == DENIED_DOMAINS;
            if said.key.name == SANDBOX_KEY {
                // If the wrong value were ignored, commands could run without the sandbox that the user wanted. `null`
                // stands for a choice that cannot be read: commands are refused until the value is corrected.
                *slot(&mut self.values, &said.path) = Value::Null;
                self.origins.insert(said.path.join("."), vec![origin]);
            }
            return false;
        }
        // 2. A project's value is left out if it would loosen a limit. The sandbox restricts a project, so a project's
        // file must not loosen the sandbox, even if the user trusts the project's folder. Commands in terminals of an
        // editor run outside of the sandbox, so a project's file must not choose these terminals either.
        let own = [SANDBOX_KEY, SANDBOX_BOUNDS].iter().any(|name| said.key.name.starts_with(name));
        let judged = said.origin.of_project() && (own || said.key.name == CLIENT_TERMINALS);
        if (said.origin.unjudged() || judged) && !self.project_may_set(&mut said) {
            return false;
        }
        // 3. The value is added to the list of the earlier layers, or replaces their value.
        if said.key.merge == Merge::Add && said.value.is_string() {
            said.value = Value::Array(vec![said.value]);
        }
        let name = said.path.join(".");
        let place = slot(&mut self.values, &said.path);
        match (said.key.merge, place, said.value) {
            (Merge::Add, Value::Array(list), Value::Array(more)) => {
                let origins = self.origins.entry(name).or_default();
                origins.push(said.origin);
                for value in more {
                    if !list.contains(&value) {
                        list.push(value);
                    }
                }
            }
            (_, place, value) => {
                let before = std::mem::replace(place, value);
                if said.key.name == FILE_NAME {
                    self.own_file_names = said.origin.of_project().then_some(before);
                }
                self.origins.insert(name, vec![said.origin]);
            }
        }
        true
    }

    /// Returns `true` if a project's value counts. Called for all values of an unjudged project, and for the keys that
    /// a trusted project may set no more freely than an unjudged one. Takes out of the value any part that does not
    /// count, and adds a remark on each value or part that is left out.
    fn project_may_set(&mut self, said: &mut LayerValue<'_>) -> bool {
        let before = at(&self.values, said.path.iter().copied());
        let name = said.path.join(".");
        let trusted = if said.origin.unjudged() && said.key.name != CLIENT_TERMINALS {
            "counts only in a folder that you trust (`--skip-trust`, or \
             `~/.gemini/trustedFolders.json`)"
        } else {
            "counts only in your own settings"
        };
        let may = match said.key.unjudged {
            Unjudged::Counts => true,
            Unjudged::If(harmless) => harmless(&said.value, before),
            Unjudged::No => false,
            Unjudged::Asks if before.is_some() => {
                let why = format!(
                    "`{name}` is ignored: it would replace your own `{name}`, and {trusted}."
                );
                self.remark(&said.origin, &why);
                return false;
            }
            Unjudged::Asks => {
                if said.value.get("trust") == Some(&Value::Bool(true)) {
                    self.remark(&said.origin, &format!("`{name}.trust` is ignored: it {trusted}."));
                    said.value["trust"] = Value::Bool(false);
                }
                true
            }
        };
        if !may {
            self.remark(&said.origin, &format!("`{name}` is ignored: it {trusted}."));
        }
        may
    }

    fn remark(&mut self, origin: &SettingOrigin, why: &str) {
        self.remarks.push(format!("{origin}: {why}"));
    }

    /// Returns the entry of a server or agent by its path, and removes it from `servers`.
    fn entry(&mut self, path: &str) -> ServerEntry {
        let origin = self.origins.get(path).and_then(|origins| origins.first().cloned());
        let (written, variables) = self.servers.remove(path).unwrap_or_default();
        ServerEntry { origin, variables, written }
    }

    /// Adds remarks on values that have less effect than people may think, because of other values or files.
    fn remark_on(&mut self, settings: &mut Settings) {
        self.known_provider(settings);
        self.switched_off_elsewhere(settings);
        self.remarks.extend(self.unheld_hosts(settings));
    }

    /// Returns a sentence if hosts are denied that commands can reach all the same. Only the sandbox's own network
    /// keeps
    /// commands away from hosts.
    fn unheld_hosts(&self, settings: &Settings) -> Option<String> {
        let setting = match settings.tools.sandbox {
            _ if settings.sandbox.network.denied_domains.is_empty() => return None,
            SandboxChoice::Off => SANDBOX_KEY,
            _ if settings.tools.sandbox_network_access => NETWORK_ACCESS,
            _ => return None,
        };
        let origin = said_at(&self.origins, DENIED_DOMAINS);
        Some(format!(
            "{origin}: `{DENIED_DOMAINS}` has no effect on commands, because `{setting}` gives them the \
             machine's network; it counts for `web_fetch` alone."
        ))
    }

    /// Replaces a provider that is neither built in nor a server of the settings, and adds a remark on it.
    fn known_provider(&mut self, settings: &mut Settings) {
        let provider = settings.model.provider;
        if !matches!(provider, Provider::Named(_))
            || settings.model_servers.contains_key(provider.name())
        {
            return;
        }
        let names = Provider::ALL.map(|provider| provider.to_string()).join(", ");
        let origin = said_at(&self.origins, "model.provider");
        self.remarks.push(format!(
            "{origin}: `model.provider` must be one of {names}, or a server of `modelServers`."
        ));
        self.origins.remove("model.provider");
        settings.model.provider = Provider::Gemini;
    }

    /// Adds a remark on MCP servers that are on in tandem, but off in a file of Gemini CLI that tandem does not follow.
    fn switched_off_elsewhere(&mut self, settings: &Settings) {
        let Some(path) = self.env.gemini_dir().map(|dir| dir.join(ENABLEMENT_FILE)) else { return };
        // A file that cannot be read switches nothing off for Gemini CLI either.
        let Ok(Some(root)) = file::read(&path) else { return };
        let is_off = |name: &str| {
            let node = root.find([name.trim().to_lowercase().as_str(), "enabled"]);
            node.is_some_and(|node| matches!(node.kind, NodeKind::Plain(Value::Bool(false))))
        };
        let names = settings.mcp_servers().map(|(name, _)| name).filter(|name| is_off(name));
        let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            self.remarks.push(format!(
                "{}: {} is off for Gemini CLI, but not in tandem. Add it to `mcp.excluded`.",
                path.display(),
                names.join(", ")
            ));
        }
    }

    /// Returns the merged settings as a typed value, with their origins and remarks.
    fn finish(mut self) -> Settings {
        // Each value was checked alone before it was merged, so an error is not expected here.
        let mut settings =
            Settings::deserialize(std::mem::take(&mut self.values)).unwrap_or_else(|err| {
                self.remarks.push(format!("The settings are ignored: {err}."));
                Settings::default()
            });
        if let Some(own) = self.own_file_names.take() {
            let own = serde_json::json!({ "fileName": own });
            let own = ContextSettings::deserialize(own).unwrap_or_default();
            settings.context.own_file_name = Some(own.file_name);
        }
        for (name, server) in &mut settings.mcp_servers {
            server.entry = self.entry(&format!("{MCP_SERVERS}.{name}"));
        }
        for (name, agent) in &mut settings.a2a_servers {
            agent.entry = self.entry(&format!("{A2A_SERVERS}.{name}"));
        }
        let home = self.env.var("HOME").map(Path::new);
        let paths = settings
            .context
            .include_directories
            .iter_mut()
            .chain(&mut settings.tools.sandbox_allowed_paths)
            .chain(&mut settings.tools.sandbox_readable_paths)
            .chain(&mut settings.tools.sandbox_sockets)
            .chain(&mut settings.policy_paths)
            .chain(&mut settings.admin_policy_paths);
        for path in paths {
            *path = absolute(path, self.project, home);
        }
        self.remark_on(&mut settings);
        settings.sandbox.network.denies_unreadable = self.denies_unreadable;
        settings.origins = self.origins;
        settings.remarks = self.remarks;
        settings.unread = self.unread;
        settings.files = self.files;
        for missing in settings.context.include_directories.extract_if(.., |dir| !dir.is_dir()) {
            settings.remarks.push(format!(
                "{}: the directory {} does not exist, and is left out.",
                said_at(&settings.origins, "context.includeDirectories"),
                missing.display()
            ));
        }
        if settings.security.disable_yolo_mode
            && settings.general.default_approval_mode == Mode::Yolo
        {
            settings.general.default_approval_mode = Mode::Default;
            let origin = said_at(&settings.origins, "security.disableYoloMode");
            settings.remarks.push(format!("{origin}: `security.disableYoloMode` forbids the mode yolo; sessions begin in the mode default."));
        }
        if !self.without_effect.is_empty() {
            let names: Vec<_> = self.without_effect.keys().map(|it| format!("`{it}`")).collect();
            let places: Vec<_> = self.without_effect.values().map(ToString::to_string).collect();
            settings.remarks.push(format!(
                "These settings have no effect here: {}. tandem has no hooks, skills, extensions or locks of an \
                 administrator yet: questions and policy rules alone decide what may run ({}).",
                names.join(", "),
                places.join(", ")
            ));
        }
        settings
    }
}

/// Returns a key's node in a file, under the key's name or an old name.
fn find<'a>(root: &'a Node, key: &Key) -> Option<&'a Node> {
    root.find(key.name.split('.')).or_else(|| {
        let old = key.old.iter().find_map(|name| root.find(name.split('.')));
        // An old name of a value may be the name of a group today (`model`): an object there is the group.
        old.filter(|node| !matches!(node.kind, NodeKind::Object(_)))
    })
}

/// Checks a value's type. The error holds the line and the expected type.
fn check(said: &LayerValue<'_>) -> Result<(), (Option<usize>, String)> {
    let line = said.node.map(|node| node.line);
    let from_file = said.node.is_some();
    if from_file && said.key.name == MODE_KEY && said.value == "yolo" {
        let why = format!(
            "`{MODE_KEY}` must be one of default, auto_edit, plan; yolo is for --yolo and \
             --approval-mode only."
        );
        return Err((line, why));
    }
    let nested = said.path.iter().rev().fold(said.value.clone(), |value, name| {
        Value::Object(Map::from_iter([((*name).to_owned(), value)]))
    });
    let Err(err) = serde_path_to_error::deserialize::<_, Settings>(nested) else { return Ok(()) };
    let path = err.path().to_string();
    let inside = err.path().iter().skip(said.path.len());
    let line = said.node.map(|node| deepest(node, inside).line);
    // The message does not repeat the value, which may be a secret.
    Err((line, format!("`{path}` {}.", type_error(&err.inner().to_string()))))
}

/// Rewrites serde's message on a wrong type in plain words.
fn type_error(error: &str) -> String {
    let Some((_, expected)) = error.rsplit_once(", expected ") else { return error.to_owned() };
    let words = [
        ("a sequence", "a list"),
        ("a map", "an object"),
        ("a boolean", "true or false"),
        ("a string", "text in quotes"),
        ("path string", "text in quotes"),
        ("f64", "a number"),
        ("i64", "a whole number"),
        ("usize", "a whole number from 0"),
        ("u64", "a whole number from 0"),
        ("u32", "a whole number from 0"),
    ];
    let plain = words.iter().find(|(known, _)| *known == expected).map(|(_, plain)| *plain);
    let is_struct = expected.starts_with("struct ");
    format!("must be {}", plain.unwrap_or(if is_struct { "an object" } else { expected }))
}

fn deepest<'a, 'b>(node: &'a Node, path: impl Iterator<Item = &'b Segment>) -> &'a Node {
    let mut found = node;
    for segment in path {
        let next = match segment {
            Segment::Seq { index } => found.element(*index),
            Segment::Map { key } => found.find([key.as_str()]),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let Some(next) = next else { break };
        found = next;
    }
    found
}

/// Returns the value at a path of names.
fn at<'a, 'b>(value: &'a Value, names: impl IntoIterator<Item = &'b str>) -> Option<&'a Value> {
    names.into_iter().try_fold(value, |value, name| value.get(name))
}

/// Returns the place at a path of names. Creates the objects on the path, in place of values that are no objects.
fn slot<'a>(value: &'a mut Value, names: &[&str]) -> &'a mut Value {
    names.iter().fold(value, |value, name| {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        &mut value[*name]
    })
}

/// Returns the origins of a value, separated by commas; an empty text for a default.
fn said_at(origins: &BTreeMap<String, Vec<SettingOrigin>>, name: &str) -> String {
    let origins = origins.get(name).map(Vec::as_slice).unwrap_or_default();
    origins.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the absolute path that a path in a file means: `~` is the home directory, and a relative path begins at
/// `project`.
fn absolute(path: &Path, project: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => project.join(path),
    }
}
