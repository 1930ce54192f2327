//! Concealment of secrets in settings that are shown to people.

use serde_json::Value;
use tandem_shell::variables::decides_what_runs;

use super::expand::{Piece, pieces};

/// Fields of an MCP server's entry that are shown as they are written.
const SHOWN_KEYS: [&str; 8] = [
    "authProviderType",
    "command",
    "args",
    "cwd",
    "description",
    "excludeTools",
    "includeTools",
    "type",
];

/// Returns the entry of an MCP server without the secrets that may be written in it. The names in `variables`, whose
/// values are put into the entry, stay visible: a user who is asked for consent must see which variables are passed on.
/// Variables that decide which programs run stay visible too.
pub(super) fn conceal_server(written: &Value, variables: &[String]) -> Value {
    let Some(entries) = written.as_object() else { return Value::Null };
    let text = |text: &str| conceal(text, variables);
    let concealed = entries.iter().map(|(name, value)| {
        let value = match name.as_str() {
            shown if SHOWN_KEYS.contains(&shown) => value.clone(),
            "url" | "httpUrl" => map_texts(value, &|_, address| conceal_address(address, &text)),
            "env" => map_texts(value, &|name, it| {
                if decides_what_runs(name) { it.to_owned() } else { text(it) }
            }),
            "oauth" => map_texts(value, &|name, it| {
                if name == "clientSecret" { text(it) } else { it.to_owned() }
            }),
            _ => map_texts(value, &|_, it| text(it)),
        };
        (name.clone(), value)
    });
    Value::Object(concealed.collect())
}

/// Replaces every text in a value by the result of `map`, which is called with the text's field name (empty if it has
/// none) and the text.
fn map_texts(value: &Value, map: &dyn Fn(&str, &str) -> String) -> Value {
    fn concealed_value(name: &str, value: &Value, map: &dyn Fn(&str, &str) -> String) -> Value {
        match value {
            Value::String(text) => map(name, text).into(),
            Value::Array(items) => {
                items.iter().map(|item| concealed_value(name, item, map)).collect()
            }
            Value::Object(fields) => fields
                .iter()
                .map(|(name, it)| (name.clone(), concealed_value(name, it, map)))
                .collect(),
            other => other.clone(),
        }
    }
    concealed_value("", value, map)
}

/// Replaces a text by its length in characters, except for the names of the given variables.
fn conceal(text: &str, variables: &[String]) -> String {
    let hidden = |text: &mut String| match std::mem::take(text).chars().count() {
        0 => String::new(),
        1 => "(1 character hidden)".to_owned(),
        count => format!("({count} characters hidden)"),
    };
    let (mut out, mut literal) = (String::new(), String::new());
    for piece in pieces(text) {
        match piece {
            Piece::Variable { source, name, default } if variables.iter().any(|it| it == name) => {
                out.push_str(&hidden(&mut literal));
                // The default is not shown either: the variable has a value, so the default has no effect.
                out.push_str(
                    &default.map_or_else(|| source.to_owned(), |_| format!("${{{name}}}")),
                );
            }
            // A `$` before the name of another variable may be part of a secret.
            Piece::Variable { source: text, .. } | Piece::Text(text) => literal.push_str(text),
        }
    }
    out.push_str(&hidden(&mut literal));
    out
}

/// Replaces the credentials in an address: user name and password, and the values of the query.
fn conceal_address(address: &str, conceal: &dyn Fn(&str) -> String) -> String {
    let (place, query) = match address.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (address, None),
    };
    let start = place.find("://").map_or(0, |at| at + 3);
    let end = place[start..].find('/').map_or(place.len(), |at| start + at);
    let mut out = place[..start].to_owned();
    match place[start..end].rsplit_once('@') {
        Some((user, host)) => {
            out.push_str(&conceal(user));
            out.push('@');
            out.push_str(host);
        }
        None => out.push_str(&place[start..end]),
    }
    out.push_str(&place[end..]);
    for (number, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        out.push(if number == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, value)) => {
                out.push_str(name);
                out.push('=');
                out.push_str(&conceal(value));
            }
            None => out.push_str(&conceal(pair)),
        }
    }
    out
}
