//! The registry of commands, which finds the command that a prompt or a path names.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;

use super::custom::{self, CommandFile, Custom};
use super::prompts::{self, PromptCommand};
use super::unknown::{self, HELP_HINT, QUIT_HINT, is_name, leaves};
use super::words::{list, word};
use crate::session::{
    CommandReply, CommandTurn, Commands, NotForModel, PromptPart, ResolvedCommand, Session,
    SessionCommand,
};
use tandem_mcp::Hub;

/// A command, or a group of them.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Name as the user types it, without the slash.
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
    pub(super) run: Option<Run>,
}

impl Command {
    /// Command without arguments, sub-commands and action. Each command's constant begins with this one, and sets the
    /// fields that differ.
    pub(super) const BLANK_COMMAND: Self = Self {
        name: "",
        description: "",
        arguments: &[],
        sub_commands: &[],
        asks_model: false,
        run: None,
    };
}

/// An argument of a command.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    /// Name, in a word.
    pub name: &'static str,
    /// Description for people.
    pub description: &'static str,
    /// `true` if the command does nothing without this argument.
    pub is_required: bool,
}

/// Function that runs a command. A reply or an error is Markdown for people.
pub(super) type Run = for<'a> fn(CommandRequest<'a>) -> BoxFuture<'a, Result<CommandReply, String>>;

/// Input of a command's function.
pub(super) struct CommandRequest<'a> {
    /// Text after the command's name, trimmed.
    pub(super) args: &'a str,
    pub(super) turn: &'a CommandTurn<'a>,
    pub(super) registry: &'a Registry,
}

/// Reason why a path and arguments do not run a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathError {
    /// The path names no command; the message to the user.
    Unknown(String),
    /// The command takes other arguments, or needs a sub-command. The text is its usage.
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

/// Name of the command that shares the session with another principal.
pub(super) const SHARE_NAME: &str = "share";

/// Name of the command that stops sharing the session.
pub(super) const UNSHARE_NAME: &str = "unshare";

/// Returns `true` if a prompt is a command that changes or shows the members with whom the session is shared. Such a
/// command runs at once, beside a running turn: a person can be invited to answer a question of that turn while the
/// question is open.
pub fn is_share(prompt: &str) -> bool {
    let name = prompt.trim().strip_prefix('/').map(|command| word(command).0);
    name.is_some_and(|name| [SHARE_NAME, UNSHARE_NAME].contains(&name))
}

/// The commands of a session.
#[derive(Clone)]
pub struct Registry {
    commands: &'static [Command],
    custom: Option<Arc<Custom>>,
}

impl Registry {
    /// Makes a registry of built-in commands.
    pub(super) fn new(commands: &'static [Command]) -> Self {
        Self { commands, custom: None }
    }

    /// Makes a registry of all built-in commands and the user's own commands.
    pub fn with(custom: Arc<Custom>) -> Self {
        Self { custom: Some(custom), ..Self::default() }
    }

    /// Returns the built-in commands of the top level.
    pub fn list(&self) -> &[Command] {
        self.commands
    }

    /// Returns the prompt that runs the command at a path (`["memory", "add"]`) with these arguments. The front end
    /// passes the prompt to the session. The commands that only `session` has are found, too.
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

    /// Returns the built-in command that a prompt names, whether its arguments are right or wrong.
    pub(super) fn find<'a>(&self, prompt: &'a str) -> Option<ParsedCommand<'a>> {
        let (name, mut args) = word(prompt.trim().strip_prefix('/')?);
        let mut command = find_command(self.commands, name)?;
        let mut path = name.to_owned();
        loop {
            let (name, rest) = word(args);
            let Some(sub_command) = find_command(command.sub_commands, name) else {
                return Some(ParsedCommand { path, command, args });
            };
            path = format!("{path} {name}");
            (command, args) = (sub_command, rest);
        }
    }

    /// Returns the user's own commands. A command with the name of a built-in command gets a longer name.
    pub(super) fn user_commands(&self) -> Vec<CommandFile> {
        let mut found = self.custom.as_ref().map(|custom| custom.list()).unwrap_or_default();
        for it in &mut found {
            if self.is_built_in(&it.name) {
                it.name = it.owner.whole(&it.name);
            }
        }
        found
    }

    /// Returns the prompts of these servers, as commands. `own` has the user's own commands, whose names are taken.
    fn prompts(&self, servers: &Hub, own: &[CommandFile]) -> Vec<PromptCommand> {
        let is_own = |name: &str| own.iter().any(|command| command.name == name);
        prompts::of_servers(servers, |name| self.is_built_in(name) || is_own(name))
    }

    fn is_built_in(&self, name: &str) -> bool {
        find_command(self.commands, name).is_some()
    }
}

#[async_trait]
impl Commands for Registry {
    fn resolve(&self, servers: &Hub, prompt: &str) -> Option<NotForModel> {
        let prompt = prompt.trim();
        let command =
            |command: CommandOfPrompt| Some(NotForModel::Command(Box::new(command) as Box<_>));
        if let Some(ParsedCommand { path, .. }) = self.find(prompt) {
            let (registry, prompt) = (self.clone(), prompt.to_owned());
            return command(CommandOfPrompt::BuiltIn { path, prompt, registry });
        }
        let unknown = |name: &str, answer| {
            Some(NotForModel::Unknown { name: name.trim_start_matches('/').to_owned(), answer })
        };
        let leaving =
            || unknown(prompt, format!("`{prompt}` is not sent to the model. {QUIT_HINT}"));
        let (first, args) = word(prompt);
        let Some(name) = first.strip_prefix('/') else {
            return if leaves(prompt) { leaving() } else { None };
        };
        let own = self.user_commands();
        let prompts = self.prompts(servers, &own);
        if let Some(file) = own.iter().find(|file| file.name == name) {
            return command(CommandOfPrompt::Own { file: file.clone(), args: args.to_owned() });
        }
        // A first word that is the path of a file is meant for the model.
        let is_unknown = is_name(name) && !Path::new(first).exists();
        let built_in = self.commands.iter().map(|command| command.name.to_owned());
        let own = own.into_iter().map(|file| file.name);
        let names = prompts.iter().map(|prompt| prompt.name.clone());
        let similar =
            is_unknown.then(|| unknown::similar(name, built_in.chain(own).chain(names))).flatten();
        if let Some(prompt) = prompts.into_iter().find(|prompt| prompt.is_named(name)) {
            return command(CommandOfPrompt::Server { prompt, args: args.to_owned() });
        }
        if leaves(prompt) {
            return leaving();
        }
        if !is_unknown {
            return None;
        }
        let similar = similar.map(|sentence| format!(" {sentence}")).unwrap_or_default();
        unknown(first, format!("Unknown command `{first}`.{similar} {HELP_HINT}"))
    }

    fn of_session(&self, servers: &Hub) -> Vec<SessionCommand> {
        let own = self.user_commands();
        let prompts = self.prompts(servers, &own);
        let own = own.iter().map(CommandFile::listed);
        own.chain(prompts.iter().map(PromptCommand::listed)).collect()
    }

    fn is_at_once(&self, prompt: &str) -> bool {
        // These commands wait for nothing, and change nothing that a running turn relies on.
        is_share(prompt)
    }
}

/// A command with its arguments, as it was when its prompt was resolved.
enum CommandOfPrompt {
    BuiltIn { path: String, prompt: String, registry: Registry },
    Own { file: CommandFile, args: String },
    Server { prompt: PromptCommand, args: String },
}

#[async_trait]
impl ResolvedCommand for CommandOfPrompt {
    fn name(&self) -> &str {
        match self {
            Self::BuiltIn { path, .. } => path,
            Self::Own { file, .. } => &file.name,
            Self::Server { prompt, .. } => &prompt.name,
        }
    }

    async fn run(&self, turn: &CommandTurn<'_>) -> Result<CommandReply, String> {
        match self {
            Self::BuiltIn { prompt, registry, .. } => {
                let parsed = registry.find(prompt);
                let parsed = parsed.ok_or("Unknown command. `/help` lists the commands.")?;
                let run = parsed.check()?;
                run(CommandRequest { args: parsed.args, turn, registry }).await
            }
            Self::Own { file, args } => custom::run(file, args),
            Self::Server { prompt, args } => prompts::run(prompt, args, turn).await,
        }
    }
}

/// A built-in command that a prompt names, and the text after its name.
pub(super) struct ParsedCommand<'a> {
    /// Names from the top level down, with spaces between.
    pub(super) path: String,
    pub(super) command: &'static Command,
    /// Text after the command's name.
    pub(super) args: &'a str,
}

impl ParsedCommand<'_> {
    /// Returns the function that runs the command. The error is a message on how the command is used.
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
    /// Returns `true` if the command itself can run. A group may only have sub-commands that run.
    pub fn runs(&self) -> bool {
        self.run.is_some()
    }

    /// Returns a line of Markdown with the command's usage, `/memory add TEXT`, and description.
    pub(super) fn usage(&self, path: &str) -> String {
        format!("`/{path}{}`: {}", self.arguments(), self.description)
    }

    /// Returns the text that may follow the command's name, as a hint for people: the arguments, `TEXT`, or the
    /// sub-commands, `show | add TEXT`. Empty if nothing may follow.
    pub fn hint(&self) -> String {
        let sub_commands =
            self.sub_commands.iter().map(|sub| format!("{}{}", sub.name, sub.arguments()));
        match self.sub_commands {
            [] => self.arguments().trim_start().to_owned(),
            _ => sub_commands.collect::<Vec<_>>().join(" | "),
        }
    }

    fn arguments(&self) -> String {
        let arguments = self.arguments.iter().map(|argument| {
            let name = argument.name.to_uppercase();
            if argument.is_required { format!(" {name}") } else { format!(" [{name}]") }
        });
        arguments.collect()
    }
}

/// Returns a list in Markdown of the usages of these commands and their sub-commands.
pub(super) fn command_lines(above: &str, commands: &[Command]) -> String {
    let lines = commands.iter().map(|command| {
        let path = format!("{above} {}", command.name);
        let path = path.trim_start();
        let own = command.run.map(|_| format!("- {}\n", command.usage(path)));
        own.unwrap_or_default() + &command_lines(path, command.sub_commands)
    });
    lines.collect()
}

fn find_command(commands: &'static [Command], name: &str) -> Option<&'static Command> {
    commands.iter().find(|command| command.name == name)
}
