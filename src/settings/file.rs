//! Settings files: their places, and their contents with line numbers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::env::Env;
use super::origin::Layer;
use super::owned_file;

const SETTINGS_FILE: &str = "settings.json";

/// Maximum size of one file in KiB.
const MAX_KIB: u64 = 1024;

/// Syntax of a file. People write comments and trailing commas on purpose; any other deviation from JSON is a slip that
/// they should be told about.
const PARSE_OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A value, and the line in which it begins.
#[derive(Debug)]
pub(super) struct Node {
    /// Line number, from 1.
    pub line: usize,
    pub kind: NodeKind,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    /// A value that holds no others.
    Plain(Value),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Returns the layers with the paths of their files. The layer that counts least comes first.
pub(super) fn layer_files(env: &Env, project: &Path) -> Vec<(Layer, Arc<Path>)> {
    let system = system(env);
    let defaults =
        env.var("GEMINI_CLI_SYSTEM_DEFAULTS_PATH").map(|path| env.directory().join(path));
    let defaults = defaults.unwrap_or_else(|| system.with_file_name("system-defaults.json"));
    let user = env.gemini_dir().map(|dir| dir.join(SETTINGS_FILE));
    let own = env.config_dir().map(|dir| dir.join(SETTINGS_FILE));
    // If the project's directory is the home directory, the file there is the user's and no project's.
    let project = Some(project.join(".gemini").join(SETTINGS_FILE))
        .filter(|path| !same(path, user.as_deref()));
    let places = [
        (Layer::SystemDefaults, Some(defaults)),
        (Layer::User, user),
        (Layer::Own, own),
        (Layer::Project, project),
        (Layer::System, Some(system)),
    ];
    places.into_iter().filter_map(|(layer, path)| Some((layer, path?.into()))).collect()
}

fn system(env: &Env) -> PathBuf {
    let dir = if cfg!(target_os = "macos") {
        "/Library/Application Support/GeminiCli"
    } else {
        "/etc/gemini-cli"
    };
    let elsewhere = env.var("GEMINI_CLI_SYSTEM_SETTINGS_PATH");
    elsewhere.map_or_else(|| Path::new(dir).join(SETTINGS_FILE), |path| env.directory().join(path))
}

/// Returns the directory of the machine owner's settings and policies.
pub(super) fn system_dir(env: &Env) -> PathBuf {
    system(env).parent().map(Path::to_owned).unwrap_or_default()
}

fn same(path: &Path, other: Option<&Path>) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    other.is_some_and(|other| path == other || real(path).is_some_and(|it| real(other) == Some(it)))
}

/// Reads a file; `None` if there is no file, or nothing in it. The error is a sentence.
pub(super) fn read(path: &Path) -> Result<Option<Node>, String> {
    let shown = path.display();
    let unread = |why: &str| format!("{shown} was not read: it {why}.");
    let Some(file) = owned_file::read(path, MAX_KIB).map_err(|why| unread(&why))? else {
        return Ok(None);
    };
    if file.others_may_write() {
        return Err(unread(&format!("can be written by other users (run `chmod go-w {shown}`)")));
    }
    let node = parse(&file.text)
        .map_err(|(line, why)| format!("{shown}:{line}: {why}; the file is ignored."))?;
    match node {
        Some(Node { line, kind: NodeKind::Plain(_) | NodeKind::List(_) }) => {
            Err(format!("{shown}:{line}: must be an object (`{{ ... }}`); the file is ignored."))
        }
        node => Ok(node),
    }
}

/// Parses the text of a file. The error is the number of the faulty line, and the end of a message that begins with the
/// file and the line.
pub(super) fn parse(text: &str) -> Result<Option<Node>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match parse_to_ast(text, &CollectOptions::default(), &PARSE_OPTIONS) {
        Ok(parsed) => {
            let mut lines = LineCounter { text, at: 0, line: 1 };
            Ok(parsed.value.map(|value| node(value, &mut lines)))
        }
        Err(err) => {
            let mut why = err.kind().to_string();
            if let Some(first) = why.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            Err((err.line_display(), why))
        }
    }
}

/// Counter of lines, which passes through a text once.
struct LineCounter<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl LineCounter<'_> {
    /// Returns the line of an offset in bytes. Offsets must be asked for in increasing order.
    fn line_of(&mut self, offset: usize) -> usize {
        let passed = self.text.as_bytes().get(self.at..offset).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', passed).count();
        self.at = self.at.max(offset);
        self.line
    }
}

fn node(value: ast::Value<'_>, lines: &mut LineCounter<'_>) -> Node {
    let line = lines.line_of(value.start());
    let kind = match value {
        ast::Value::NullKeyword(_) => NodeKind::Plain(Value::Null),
        ast::Value::BooleanLit(it) => NodeKind::Plain(Value::Bool(it.value)),
        ast::Value::NumberLit(it) => NodeKind::Plain(number(it.value)),
        ast::Value::StringLit(it) => NodeKind::Plain(Value::String(it.value.into_owned())),
        ast::Value::Array(it) => {
            NodeKind::List(it.elements.into_iter().map(|value| node(value, lines)).collect())
        }
        ast::Value::Object(it) => {
            let property = |it: ast::ObjectProp<'_>| (it.name.into_string(), node(it.value, lines));
            NodeKind::Object(it.properties.into_iter().map(property).collect())
        }
    };
    Node { line, kind }
}

/// Returns the value of a number in a file. `10.0` is a whole number too. A number that cannot be held becomes text,
/// which the check of types then reports.
fn number(text: &str) -> Value {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    let number: Result<Number, _> = text.parse();
    let Ok(number) = number else { return Value::String(text.to_owned()) };
    let whole = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < MAX_EXACT_INTEGER);
    let whole = whole.and_then(|it| format!("{it:.0}").parse::<i64>().ok());
    if number.is_f64()
        && let Some(whole) = whole
    {
        return Value::from(whole);
    }
    Value::Number(number)
}

impl Node {
    /// Returns the node at a path of names. If an object has a name twice, the last value counts. `null` counts as
    /// absent.
    pub(super) fn find<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<&Self> {
        let mut node = self;
        for name in names {
            let NodeKind::Object(properties) = &node.kind else { return None };
            node =
                properties.iter().rev().find(|(known, _)| known == name).map(|(_, node)| node)?;
        }
        (!matches!(node.kind, NodeKind::Plain(Value::Null))).then_some(node)
    }

    /// Returns an element of a list.
    pub(super) fn element(&self, index: usize) -> Option<&Self> {
        match &self.kind {
            NodeKind::List(elements) => elements.get(index),
            _ => None,
        }
    }

    /// Returns the value, with `text` applied to every text in it, but not to names.
    pub(super) fn value(&self, text: &mut impl FnMut(&str) -> String) -> Value {
        match &self.kind {
            NodeKind::Plain(Value::String(it)) => Value::String(text(it)),
            NodeKind::Plain(it) => it.clone(),
            NodeKind::List(it) => it.iter().map(|node| node.value(text)).collect(),
            NodeKind::Object(it) => {
                let property = |(name, node): &(String, Self)| (name.clone(), node.value(text));
                Value::Object(it.iter().map(property).collect::<Map<_, _>>())
            }
        }
    }
}
