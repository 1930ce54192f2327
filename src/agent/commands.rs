//! Slash commands, once for every front end: which there are, and what a prompt or a path means.
//!
//! A front end shows [`Registry::list`], and begins a command with `Session::prompt` and what
//! [`Registry::prompt`] makes of a path and its arguments; all else comes as events. A prompt that
//! a person types goes to the session as it is.

mod about;
mod clear;
mod compress;
mod custom;
mod help;
mod init;
mod mcp;
mod memory;
mod model;
mod permissions;
mod plan;
mod prompts;
mod restore;
mod shells;
mod stats;
mod tools;
pub mod unknown;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;

pub use self::custom::{CommandDirectory, CommandOwner, Custom, CustomLimits};
use self::prompts::PromptCommand;
use crate::session::{CommandReply, CommandTurn, Commands, PromptPart, Session, SessionCommand};
use tandem_mcp::Hub;

/// Every command, in the order that people read them.
const ALL: &[Command] = &[
    help::COMMAND,
    about::COMMAND,
    init::COMMAND,
    memory::COMMAND,
    model::COMMAND,
    permissions::COMMAND,
    plan::COMMAND,
    restore::COMMAND,
    shells::COMMAND,
    tools::COMMAND,
    mcp::COMMAND,
    custom::COMMAND,
    stats::COMMAND,
    compress::COMMAND,
    clear::COMMAND,
];

/// A command, or a group of them.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// As it is typed, without the slash.
    pub name: &'static str,
    /// One-line description for lists.
    pub description: &'static str,
    /// Arguments, in order.
    pub arguments: &'static [Argument],
    /// Sub-commands, if the command is a group.
    pub sub_commands: &'static [Self],
    /// `true` if the command may ask the model or the user, so that messages may appear before it
    /// ends.
    pub asks_model: bool,
    run: Option<Run>,
}

/// An argument of a command.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    /// In a word.
    pub name: &'static str,
    /// Description for people.
    pub description: &'static str,
    /// `true` if the command does nothing without this argument.
    pub is_required: bool,
}

/// Function that runs a command. A reply or an error is Markdown for people.
type Run = for<'a> fn(CommandRequest<'a>) -> BoxFuture<'a, Result<CommandReply, String>>;

/// Input of a command's function.
struct CommandRequest<'a> {
    /// Text after the command's name, trimmed.
    args: &'a str,
    turn: &'a CommandTurn<'a>,
    registry: &'a Registry,
}

/// Why a path and arguments are no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathError {
    /// Unknown command. `/help` lists the commands.
    Unknown(String),
    /// It takes other arguments, or needs a sub-command.
    Usage(String),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(why) | Self::Usage(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PathError {}

/// The commands of a session.
#[derive(Clone)]
pub struct Registry {
    commands: &'static [Command],
    custom: Option<Arc<Custom>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self { commands: ALL, custom: None }
    }
}

impl Registry {
    /// And these of the user's own.
    pub fn with(custom: Arc<Custom>) -> Self {
        Self { custom: Some(custom), ..Self::default() }
    }

    /// The commands at the top.
    pub fn list(&self) -> &[Command] {
        self.commands
    }

    /// The prompt that runs the command at a path (`["memory", "add"]`), to be given to the
    /// session; or why there is none. `session`: whose own commands count, too.
    pub fn prompt(
        &self,
        path: &[impl AsRef<str>],
        args: &str,
        session: Option<&Session>,
    ) -> Result<String, PathError> {
        let words = path.iter().flat_map(|part| part.as_ref().split_whitespace());
        let path = words.collect::<Vec<_>>().join(" ");
        let path = format!("/{}", path.trim_start_matches('/'));
        let is_own = |session: &Session| session.is_command(&[PromptPart::Text(path.clone())]);
        if self.find(&path).is_none() && session.is_some_and(is_own) {
            return Ok(format!("{path} {}", args.trim()).trim_end().to_owned());
        }
        let found = self.find(&path).ok_or_else(|| {
            let names = list(self.commands.iter().map(|command| format!("`/{}`", command.name)));
            PathError::Unknown(format!("Unknown command `{path}`. Known commands: {names}."))
        })?;
        if !found.args.is_empty() {
            return Err(PathError::Unknown(found.no_such_sub_command()));
        }
        let prompt = format!("{path} {}", args.trim());
        if let Some(found) = self.find(&prompt) {
            found.check().map_err(PathError::Usage)?;
        }
        Ok(prompt.trim_end().to_owned())
    }

    /// The command that a prompt asks for, arguments right or wrong.
    fn find<'a>(&self, prompt: &'a str) -> Option<ParsedCommand<'a>> {
        let (name, mut args) = word(prompt.trim().strip_prefix('/')?);
        let mut command = named(self.commands, name)?;
        let mut path = name.to_owned();
        loop {
            let (name, rest) = word(args);
            let Some(sub_command) = named(command.sub_commands, name) else {
                return Some(ParsedCommand { path, command, args });
            };
            path = format!("{path} {name}");
            (command, args) = (sub_command, rest);
        }
    }
}

#[async_trait]
impl Commands for Registry {
    fn name(&self, servers: &Hub, prompt: &str) -> Option<String> {
        if let Some(found) = self.find(prompt) {
            return Some(found.path);
        }
        if let Some((found, _)) = self.own_command(prompt) {
            return Some(found.name);
        }
        Some(self.server_prompt(servers, prompt)?.0.name)
    }

    fn unknown(&self, servers: &Hub, prompt: &str) -> Option<String> {
        self.no_command(servers, prompt)
    }

    fn of_session(&self, servers: &Hub) -> Vec<SessionCommand> {
        let prompts = self.prompts(servers);
        self.own_listed().into_iter().chain(prompts.iter().map(PromptCommand::listed)).collect()
    }

    async fn run(&self, prompt: &str, turn: &CommandTurn<'_>) -> Result<CommandReply, String> {
        let Some(found) = self.find(prompt) else {
            if let Some((found, args)) = self.own_command(prompt) {
                return custom::run(&found, args);
            }
            let found = self.server_prompt(turn.hub(), prompt);
            let (command, args) = found.ok_or("Unknown command. `/help` lists the commands.")?;
            return prompts::run(&command, args, turn).await;
        };
        let run = found.check()?;
        run(CommandRequest { args: found.args, turn, registry: self }).await
    }
}

/// The command that a prompt names, and the text after its name.
struct ParsedCommand<'a> {
    /// Names, from the top.
    path: String,
    command: &'static Command,
    /// Text after the command's name.
    args: &'a str,
}

impl ParsedCommand<'_> {
    /// Returns the function to run, or a message on how the command is used.
    fn check(&self) -> Result<Run, String> {
        let Self { path, command, args } = self;
        let Some(run) = command.run else {
            return Err(self.no_such_sub_command());
        };
        if args.is_empty()
            && let Some(missing) = command.arguments.iter().find(|argument| argument.is_required)
        {
            let usage = command.usage(path);
            return Err(format!("{usage}\n\nMissing: {}.", missing.description));
        }
        if !args.is_empty() && command.arguments.is_empty() && !command.sub_commands.is_empty() {
            return Err(self.no_such_sub_command());
        }
        if !args.is_empty() && command.arguments.is_empty() {
            return Err(format!("`/{path}` takes no arguments; nothing was done."));
        }
        Ok(run)
    }

    fn no_such_sub_command(&self) -> String {
        let Self { path, command, args } = self;
        let (asked, _) = word(args);
        if command.sub_commands.is_empty() {
            return format!("`/{path}` has no sub-commands, and so no `{asked}`.");
        }
        let has = command_lines(path, command.sub_commands);
        match asked {
            "" => format!("`/{path}` needs one of these:\n\n{has}"),
            asked => format!("`/{path}` has no `{asked}`. It has:\n\n{has}"),
        }
    }
}

impl Command {
    /// Returns whether the command itself runs: a group need not.
    pub fn runs(&self) -> bool {
        self.run.is_some()
    }

    /// A line on how it is used: `/memory add TEXT`, and what that does.
    fn usage(&self, path: &str) -> String {
        let arguments = self.arguments.iter().map(|argument| {
            let name = argument.name.to_uppercase();
            if argument.is_required { format!(" {name}") } else { format!(" [{name}]") }
        });
        format!("`/{path}{}`: {}", arguments.collect::<String>(), self.description)
    }
}

/// Returns a list of the usages of these commands and their sub-commands.
fn command_lines(above: &str, commands: &[Command]) -> String {
    let lines = commands.iter().map(|command| {
        let path = format!("{above} {}", command.name);
        let path = path.trim_start();
        let own = command.run.map(|_| format!("- {}\n", command.usage(path)));
        own.unwrap_or_default() + &command_lines(path, command.sub_commands)
    });
    lines.collect()
}

fn named(commands: &'static [Command], name: &str) -> Option<&'static Command> {
    commands.iter().find(|command| command.name == name)
}

/// The first word, and the rest without the space between.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// The first sentence, on one line: the rest is for the model.
fn first(description: &str) -> String {
    let end = description.find(". ").map_or(description.len(), |end| end + 1);
    let line: Vec<_> = description[..end].split_whitespace().collect();
    line.join(" ")
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
