//! Every limit, under one name for the command line.

mod named;

use std::str::FromStr;
use std::time::Duration;

use self::named::{Field, NAMED, Named};
use super::settings::Settings;
use tandem_agent::commands;
use tandem_mcp as mcp;
use tandem_model as model;
use tandem_tools as tools;

/// How much is too much.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a line that a peer sends.
    pub line_bytes: usize,
    /// Bytes of standard input that are put before a prompt.
    pub stdin_bytes: usize,
    /// How often the model may be asked in one turn.
    pub rounds: usize,
    /// Bytes of a session's log that are kept in memory.
    pub log_bytes: usize,
    /// What tools may take and give.
    pub tools: tools::Limits,
    /// What MCP servers may take and give.
    pub mcp: mcp::Limits,
    /// What is read of the user's own commands.
    pub commands: commands::CustomLimits,
    /// What a model may take and give.
    pub model: model::options::Options,
    /// What is served over A2A.
    pub a2a: A2a,
}

/// How much the A2A server takes and keeps.
#[derive(Debug, Clone)]
pub struct A2a {
    /// Connections at once.
    pub connections: usize,
    /// Requests under way at once.
    pub requests: usize,
    /// Bytes of a body or a frame.
    pub body_bytes: usize,
    /// How long the head of a request may take.
    pub head_time: Duration,
    /// How long a client may take nothing of what it is sent.
    pub patience: Duration,
    /// Time that a WebSocket may be silent before its client is asked for a sign of life.
    pub ping: Duration,
    /// Time that the client has for that sign of life.
    pub pong: Duration,
    /// Sessions at once.
    pub sessions: usize,
    /// How long a session lives that nobody uses.
    pub session_idle: Duration,
    /// Time that a question waits for an answer while no person at a terminal is asked.
    pub question: Duration,
}

impl Default for A2a {
    fn default() -> Self {
        Self {
            connections: 64,
            requests: 64,
            body_bytes: 4 << 20,
            head_time: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            ping: Duration::from_secs(30),
            pong: Duration::from_secs(30),
            sessions: 1000,
            session_idle: Duration::from_hours(1),
            question: Duration::from_hours(1),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 32 << 20,
            stdin_bytes: 8 << 20,
            rounds: 100,
            log_bytes: 16 << 20,
            tools: tools::Limits::default(),
            mcp: mcp::Limits::default(),
            commands: commands::CustomLimits::default(),
            model: model::options::Options::default(),
            a2a: A2a::default(),
        }
    }
}

impl Limits {
    /// The limits that the settings ask for, and then these changes.
    pub fn new(settings: &Settings, changes: &[Change]) -> Self {
        let mut limits = Self::default();
        if let Some(attempts) = settings.general.max_attempts {
            limits.model.retry.attempts = attempts;
        }
        if let Some(chars) = settings.tools.truncate_tool_output_threshold {
            limits.tools.output_chars = chars;
        }
        if let Some(seconds) = settings.tools.shell.inactivity_timeout {
            let time = if seconds == 0 { LONGEST } else { Duration::from_secs(seconds) };
            limits.tools.shell_idle = time.min(LONGEST);
        }
        if !settings.context.include_directory_tree {
            limits.tools.tree_entries = 0;
        }
        let named = settings.limits.iter().map(|(name, value)| format!("{name}={value}").parse());
        let named: Vec<Change> = named.filter_map(Result::ok).collect();
        for change in named.iter().chain(changes) {
            change.apply(&mut limits);
        }
        limits.model.thinking.clone_from(&settings.model.thinking);
        limits
    }
}

/// The longest time: more cannot always be added to the time that it is.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// `NAME=VALUE`, a change of one limit.
#[derive(Clone)]
pub struct Change {
    named: &'static Named,
    value: u64,
}

impl Change {
    /// Makes the change.
    pub fn apply(&self, limits: &mut Limits) {
        match self.named.field {
            Field::Count(field) => {
                *field(limits) = usize::try_from(self.value).unwrap_or(usize::MAX);
            }
            Field::Bytes(field) => *field(limits) = self.value,
            Field::Times(field) => {
                *field(limits) = u32::try_from(self.value).unwrap_or(u32::MAX);
            }
            Field::Seconds(field) => *field(limits) = Duration::from_secs(self.value).min(LONGEST),
        }
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(change: &str) -> Result<Self, String> {
        let (name, value) = change.split_once('=').ok_or("must be NAME=VALUE")?;
        let named = NAMED.iter().find(|named| named.name == name).ok_or_else(|| {
            let names: Vec<_> = NAMED.iter().map(|named| named.name).collect();
            format!("there is no limit {name:?}; there are {}", names.join(", "))
        })?;
        let value = value.parse().map_err(|_| format!("{value:?} is not a whole number"))?;
        if value == 0 {
            return Err("a limit is at least 1".to_owned());
        }
        Ok(Self { named, value })
    }
}

/// The limits with their defaults, a line each, for the help.
pub fn help() -> String {
    let mut defaults = Limits::default();
    let mut line = |named: &Named| {
        let default = match named.field {
            Field::Count(field) => field(&mut defaults).to_string(),
            Field::Bytes(field) => field(&mut defaults).to_string(),
            Field::Times(field) => field(&mut defaults).to_string(),
            Field::Seconds(field) => field(&mut defaults).as_secs().to_string(),
        };
        format!("  {:<22} {:<50} [{default}]\n", named.name, named.what)
    };
    NAMED.iter().map(&mut line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: &str, expected: Result<impl Fn(&Limits) -> bool, &str>) {
        match (change.parse::<Change>(), expected) {
            (Ok(change), Ok(changed)) => {
                let mut limits = Limits::default();
                change.apply(&mut limits);
                assert!(changed(&limits));
            }
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (change, _) => panic!("{}", change.err().unwrap_or_default()),
        }
    }

    #[test]
    fn a_limit_is_changed_by_its_name() {
        check("line-bytes=5", Ok(|limits: &Limits| limits.line_bytes == 5));
        check("shell-idle-seconds=7", Ok(|limits: &Limits| limits.tools.shell_idle.as_secs() == 7));
    }

    #[test]
    fn no_time_is_longer_than_a_clock_can_count() {
        for named in NAMED {
            let mut limits = Limits::default();
            Change { named, value: u64::MAX }.apply(&mut limits);
            if let Field::Seconds(field) = named.field {
                assert_eq!(*field(&mut limits), LONGEST, "{}", named.name);
            }
        }
    }

    #[test]
    fn a_wrong_change_says_what_is_right() {
        let wrong = |change, why| check(change, Err::<fn(&Limits) -> bool, _>(why));
        wrong("line-bytes", "NAME=VALUE");
        wrong("lines=1", "there are line-bytes, stdin-bytes");
        wrong("line-bytes=many", "not a whole number");
        wrong("line-bytes=0", "at least 1");
    }
}
