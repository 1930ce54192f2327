//! Files of rules in TOML: a `[[rule]]` table for each rule, as Gemini CLI has them, and an `[[always]]` table for each
//! saved answer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use regex::{Regex, RegexBuilder};
use serde::de::{IgnoredAny, IntoDeserializer as _};
use serde::{Deserialize, Deserializer};
use tandem_approval::{Mode, NamePattern, RuleName, Saved};
use tandem_sandbox::SandboxMode;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::command::CommandPattern;
use super::effect::{Rank, RuleEffect, Tier};
use super::rule::{Broken, CallMatcher, Rule};

/// Name of the tool whose calls are command lines.
const SHELL_TOOL: &str = "run_shell_command";

/// Maximum memory of a regular expression, in bytes.
const MAX_REGEX: usize = 1 << 20;

/// Rules and saved answers of a file.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The rules that can be used.
    pub rules: Vec<Rule>,
    /// Saved answers.
    pub saved: Vec<Saved>,
    /// Rules that cannot be used.
    pub broken: Vec<Broken>,
    /// Remarks on parts that are ignored, as sentences.
    pub remarks: Vec<String>,
}

/// A file, its name for people (`place`), and the owner of its rules.
struct RuleSource<'a> {
    text: &'a str,
    place: &'a str,
    tier: Tier,
}

impl RuleSource<'_> {
    /// Returns the place of a span, for people: the file and the line.
    fn at(&self, span: &Range<usize>) -> String {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        format!("{}:{line}", self.place)
    }
}

/// Reads the text of a file of rules. `place` is the name of the file for people.
pub fn parse(text: &str, place: &str, tier: Tier) -> Parsed {
    let source = RuleSource { text, place, tier };
    let mut parsed = Parsed::default();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or_else(|| place.to_owned(), |span| source.at(&span));
        parsed.broken.push(Broken::whole(&at, error.message()));
    }
    for (key, value) in table.into_inner() {
        let name = key.get_ref().to_string();
        parsed.read_key(&name, &source.at(&key.span()), value, &source);
    }
    if !errors.is_empty() {
        // After an error of syntax, a rule that allows may lack a condition that narrowed it.
        parsed.rules.retain(|rule| rule.effect >= RuleEffect::Ask);
        parsed.saved.clear();
    }
    parsed
}

impl Parsed {
    /// Takes the value of a key at the top level of a file.
    fn read_key(
        &mut self,
        name: &str,
        at: &str,
        value: Spanned<DeValue<'_>>,
        source: &RuleSource<'_>,
    ) {
        if name == "safety_checker" {
            let why = "safety checkers are not used; paths never leave the workspace anyway";
            return self.remarks.push(format!("{at}: {why}"));
        }
        if !["rule", "always"].contains(&name) {
            let why = format!("`{name}` is not known; a rule begins with [[rule]]");
            return self.broken.push(Broken::whole(at, &why));
        }
        let DeValue::Array(tables) = value.into_inner() else {
            let why = format!("must be written [[{name}]]");
            return self.broken.push(Broken::whole(at, &why));
        };
        for table in tables {
            let at = source.at(&table.span());
            if name == "rule" {
                match rule(table, source) {
                    Ok(rule) => self.rules.extend(rule),
                    Err(broken) => self.broken.push(broken),
                }
                continue;
            }
            match Saved::deserialize(ValueDeserializer::from(table)) {
                Ok(saved) => self.saved.push(saved),
                // A saved answer only allows calls. So a broken answer may be left out: the user is asked again
                // about its calls.
                Err(err) => self.remarks.push(format!("{at}: {}", err.message())),
            }
        }
    }
}

/// A `[[rule]]` table as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleTable {
    tool_name: Option<Texts>,
    mcp_name: Option<String>,
    /// Subagents of Gemini CLI. This program has no subagents, so a rule with this field is about no call.
    subagent: Option<Texts>,
    #[serde(default)]
    tool_annotations: BTreeMap<String, bool>,
    command_prefix: Option<Spanned<Texts>>,
    command_regex: Option<Spanned<String>>,
    args_pattern: Option<Spanned<String>>,
    modes: Option<Vec<RuleMode>>,
    interactive: Option<bool>,
    #[serde(default)]
    allow_redirection: bool,
    /// Sandbox mode of the commands. Gemini CLI has no such key.
    sandbox: Option<SandboxMode>,
    decision: WrittenEffect,
    deny_message: Option<String>,
    priority: Spanned<u32>,
    /// Directory in which, and below which, the rule counts. Gemini CLI has no such key.
    folder: Option<Spanned<PathBuf>>,
}

/// A text, or several.
#[derive(Debug, Clone)]
struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a text in quotes, or a list of them")]
        enum OneOrMore {
            One(String),
            More(Vec<String>),
        }
        Ok(Self(match OneOrMore::deserialize(deserializer)? {
            OneOrMore::One(text) => vec![text],
            OneOrMore::More(texts) => texts,
        }))
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenEffect {
    Allow,
    Deny,
    AskUser,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RuleMode {
    Plan,
    Default,
    #[serde(alias = "auto_edit")]
    AutoEdit,
    Yolo,
}

/// The parts of a rule that can be read even if other parts are wrong.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadableParts {
    tool_name: Option<Texts>,
    command_prefix: Option<IgnoredAny>,
    command_regex: Option<IgnoredAny>,
    decision: Option<String>,
}

impl ReadableParts {
    /// Returns the tools that the rule is about, as far as is known.
    fn tools(self) -> Option<Vec<NamePattern>> {
        let is_command = self.command_prefix.is_some() || self.command_regex.is_some();
        let shell = || Texts(vec![SHELL_TOOL.to_owned()]);
        self.tool_name.or_else(|| is_command.then(shell)).map(Texts::patterns)
    }
}

/// Reads a rule; `None` if the rule is for a feature that this program does not have.
fn rule(table: Spanned<DeValue<'_>>, source: &RuleSource<'_>) -> Result<Option<Rule>, Broken> {
    let whole = table.span();
    let gist = ReadableParts::deserialize(table.clone().into_deserializer()).unwrap_or_default();
    let name = RuleName::Written(source.at(&whole));
    let read = RuleTable::deserialize(ValueDeserializer::from(table));
    let read = read.map_err(|err| (err.span(), err.message().to_owned()));
    read.and_then(|written| written.rule(name, source.tier)).map_err(|(span, why)| Broken {
        name: RuleName::Written(source.at(&span.unwrap_or(whole))),
        why,
        // A broken rule that allows calls may be left out: the user is asked about these calls without the rule.
        asks: gist.decision.as_deref() != Some("allow"),
        tools: gist.tools(),
    })
}

/// An error: its place in the file, if known, and the reason.
type Wrong = (Option<Range<usize>>, String);

impl RuleTable {
    fn rule(self, name: RuleName, tier: Tier) -> Result<Option<Rule>, Wrong> {
        let priority = *self.priority.get_ref();
        if priority > 999 {
            return wrong(&self.priority, "`priority` must be a whole number from 0 to 999");
        }
        if let Some(folder) = self.folder.as_ref().filter(|it| !it.get_ref().is_absolute()) {
            return wrong(folder, "`folder` must be an absolute path");
        }
        let command = self.command()?;
        let args = self.args_pattern.as_ref().map(args_regex).transpose()?;
        let mut tools = self.tool_name.map(Texts::patterns);
        if command.is_some() {
            if tools.iter().flatten().any(|name| name.0 != SHELL_TOOL) {
                let why = format!("beside a command `toolName` must be \"{SHELL_TOOL}\"");
                return Err((None, why));
            }
            tools = Some(vec![NamePattern(SHELL_TOOL.to_owned())]);
        }
        if self.subagent.is_some() {
            return Ok(None);
        }
        Ok(Some(Rule {
            name,
            effect: match self.decision {
                WrittenEffect::Allow => RuleEffect::Allow,
                WrittenEffect::Deny => RuleEffect::Deny,
                WrittenEffect::AskUser => RuleEffect::Ask,
            },
            rank: Rank::new(tier, priority),
            message: self.deny_message,
            allow_redirection: self.allow_redirection,
            sandbox: self.sandbox,
            about: CallMatcher {
                tools,
                tools_but: None,
                servers_but: None,
                server: self.mcp_name,
                annotations: self.tool_annotations,
                args,
                command,
                modes: self.modes.map(|modes| modes.into_iter().map(Mode::from).collect()),
                interactive: self.interactive,
                folder: self.folder.map(Spanned::into_inner),
            },
        }))
    }

    fn command(&self) -> Result<Option<CommandPattern>, Wrong> {
        match (&self.command_prefix, &self.command_regex) {
            (None, None) => Ok(None),
            (Some(_), Some(both)) => {
                wrong(both, "`commandRegex` and `commandPrefix` exclude each other")
            }
            (None, Some(pattern)) => {
                let text = format!(r"\A(?:{})", pattern.get_ref());
                regex(&text)
                    .map(|it| Some(CommandPattern::Regex(it)))
                    .or_else(|why| wrong(pattern, &why))
            }
            (Some(prefixes), None) => {
                let words = |prefix: &String| -> Vec<String> {
                    prefix.split_whitespace().map(ToOwned::to_owned).collect()
                };
                let split: Vec<_> = prefixes.get_ref().0.iter().map(words).collect();
                if split.is_empty() || split.iter().any(Vec::is_empty) {
                    return wrong(prefixes, "`commandPrefix` must have a word in it");
                }
                Ok(Some(CommandPattern::Prefixes(split)))
            }
        }
    }
}

impl Texts {
    fn patterns(self) -> Vec<NamePattern> {
        self.0.into_iter().map(NamePattern).collect()
    }
}

impl From<RuleMode> for Mode {
    fn from(mode: RuleMode) -> Self {
        match mode {
            RuleMode::Plan => Self::Plan,
            RuleMode::Default => Self::Default,
            RuleMode::AutoEdit => Self::AutoEdit,
            RuleMode::Yolo => Self::Yolo,
        }
    }
}

fn wrong<T, U>(at: &Spanned<U>, why: &str) -> Result<T, Wrong> {
    Err((Some(at.span()), why.to_owned()))
}

fn args_regex(pattern: &Spanned<String>) -> Result<Regex, Wrong> {
    // The pattern is written for JavaScript, where `\0` is a NUL.
    let mut text = String::new();
    let mut chars = pattern.get_ref().chars();
    while let Some(c) = chars.next() {
        match (c, (c == '\\').then(|| chars.next()).flatten()) {
            (_, Some('0')) => text.push_str(r"\x00"),
            (c, escaped) => text.extend([c].into_iter().chain(escaped)),
        }
    }
    regex(&text).or_else(|why| wrong(pattern, &why))
}

/// Compiles a regular expression. An error is the reason, in one line.
fn regex(pattern: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(MAX_REGEX).dot_matches_new_line(true);
    builder.build().map_err(|err| {
        let why = err.to_string();
        let last = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("not a regular expression that can be used here: {last}")
    })
}
