//! Lists of all values with their origins, for people and for programs, without secrets.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::a2a_agent::A2aAgent;
use super::env::Env;
use super::keys::{A2A_SERVERS, KEY_TABLE, Key, MCP_SERVERS, MODEL_SERVERS, Merge};
use super::mcp_server::{Concealed, McpServer};
use super::model_server::ModelServer;
use super::options::Settings;
use super::unread::unread_files;

/// Column in which the comment of a line begins, if the line is not longer.
const COMMENT_COLUMN: usize = 56;

/// Returns the settings as text: one line for each value with its origins, then the values that were not followed, then
/// the names without effect. `~` stands for the home directory.
pub fn text(settings: &Settings, env: &Env) -> String {
    let short = |text: &str| match env.var("HOME").filter(|home| !home.is_empty()) {
        Some(home) => text.replace(&format!("{home}/"), "~/"),
        None => text.to_owned(),
    };
    let mut out = String::from(
        "# Files that settings are read from; a later one overrides an earlier one:\n",
    );
    for (path, state) in &settings.files {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "#   {}  ({state})", short(&path.display().to_string()));
    }
    out.push_str("# The environment overrides the files, and flags override the environment.\n\n");
    let values = serde_json::to_value(settings).unwrap_or_default();
    for key in KEY_TABLE {
        let value = key.name.split('.').fold(&values, |value, name| &value[name]);
        for (name, value) in lines(settings, key, value) {
            let line = short(&format!("{name} = {value}"));
            let origins: Vec<_> = settings.origin(&name).iter().map(ToString::to_string).collect();
            let origin = if origins.is_empty() { "default".to_owned() } else { origins.join(", ") };
            let _ = writeln!(out, "{line:<COMMENT_COLUMN$}  # {}", short(&origin));
        }
    }
    if !settings.remarks.is_empty() {
        out.push_str("\n# Settings that are not followed:\n");
    }
    for remark in &settings.remarks {
        let _ = writeln!(out, "#   {}", short(remark));
    }
    let unread = unread(settings, env);
    if !unread.is_empty() {
        out.push_str("\n# Settings without effect:\n");
    }
    for sentence in unread {
        let _ = writeln!(out, "#   {}", short(&sentence));
    }
    out
}

/// Returns sentences on names in files, and on files of Gemini CLI, that have no effect.
fn unread(settings: &Settings, env: &Env) -> Vec<String> {
    let files = unread_files(env).into_iter();
    let files = files.map(|path| format!("{} has no effect in tandem.", path.display()));
    settings.unread.iter().cloned().chain(files).collect()
}

/// Returns the settings as one object: `settings`, in the form of the files; `origins`, by name; `files`; `remarks`;
/// `unread`.
pub fn json(settings: &Settings, env: &Env) -> Value {
    let origins = settings.origins.iter().map(|(name, origins)| {
        let origins: Vec<_> = origins.iter().map(ToString::to_string).collect();
        (name.clone(), Value::from(origins))
    });
    let files = settings
        .files
        .iter()
        .map(|(path, state)| json!({ "path": path.display().to_string(), "state": state }));
    json!({
        "settings": settings,
        "origins": origins.collect::<serde_json::Map<_, _>>(),
        "files": files.collect::<Vec<_>>(),
        "remarks": settings.remarks,
        "unread": unread(settings, env),
    })
}

/// Returns the lines of a key as names and values: one line, or one for each entry of a group.
fn lines(settings: &Settings, key: &Key, value: &Value) -> Vec<(String, String)> {
    if key.merge != Merge::Each {
        let value = if value.is_null() { "not set".to_owned() } else { value.to_string() };
        return vec![(key.name.to_owned(), value)];
    }
    let names = value.as_object().into_iter().flatten();
    let line = |(name, value): (&String, &Value)| {
        let server = (key.name == MCP_SERVERS).then(|| settings.mcp_servers.get(name)).flatten();
        let agent = (key.name == A2A_SERVERS).then(|| settings.a2a_servers.get(name)).flatten();
        let models =
            (key.name == MODEL_SERVERS).then(|| settings.model_servers.get(name)).flatten();
        let words = server.map(in_words).or_else(|| agent.map(agent_in_words));
        let words = words.or_else(|| models.map(models_in_words));
        let mut value = words.unwrap_or_else(|| value.to_string());
        if server.is_some() && !settings.mcp_servers().any(|(used, _)| used == name) {
            value.push_str(", not used");
        }
        (format!("{}.{name}", key.name), value)
    };
    names.map(line).collect()
}

/// Describes a server without values that may be secret.
fn in_words(server: &McpServer) -> String {
    let host = server.http_url.as_ref().or(server.url.as_ref()).map(Concealed::shown_address);
    let mut words = vec![server.command.clone().or(host).unwrap_or_else(|| "nothing".to_owned())];
    match server.args.len() {
        0 => {}
        1 => words.push("1 argument".to_owned()),
        count => words.push(format!("{count} arguments")),
    }
    words.extend(server.env.keys().map(|name| format!("variable {name}")));
    words.extend(server.headers.keys().map(|name| format!("header {name}")));
    if server.trust {
        words.push("trusted".to_owned());
    }
    if server.entry.unjudged() {
        words.push(UNJUDGED_ORIGIN.to_owned());
    }
    words.join(", ")
}

const UNJUDGED_ORIGIN: &str = "of a folder that you have not trusted: you are asked first";

/// Describes an agent without values that may be secret.
fn agent_in_words(agent: &A2aAgent) -> String {
    let mut words =
        vec![agent.url.as_ref().map_or_else(|| "nothing".to_owned(), Concealed::shown_address)];
    words.extend(agent.token.as_ref().map(|_| "a token".to_owned()));
    words.extend(agent.headers.keys().map(|name| format!("header {name}")));
    if agent.trust {
        words.push("trusted".to_owned());
    }
    if agent.entry.unjudged() {
        words.push(UNJUDGED_ORIGIN.to_owned());
    }
    words.join(", ")
}

/// Describes a server of models without values that may be secret.
fn models_in_words(server: &ModelServer) -> String {
    let mut words: Vec<_> = server.url.as_ref().map(Concealed::shown_address).into_iter().collect();
    words.extend(server.api.map(|api| format!("API {api}")));
    words.extend(server.key_variable.as_ref().map(|name| format!("key in {name}")));
    words.extend(server.headers.keys().map(|name| format!("header {name}")));
    words.extend(server.models.iter().map(|id| format!("model {id}")));
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
