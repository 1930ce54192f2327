//! The user's own commands: TOML files, each a prompt with gaps. `git/commit.toml` is `/git:commit`.

mod load;
mod template;

use std::path::PathBuf;

use self::load::{Cache, CommandFile};
use super::{Command, CommandReply, CommandRequest, Registry, first, word};
use crate::permission::consent::Executable;
use crate::session::{CommandArgument, PromptPiece, SessionCommand, Template};
use parking_lot::Mutex;

/// The commands that are written in files. They are looked for whenever somebody asks, and read
/// again when they have changed.
pub struct Custom {
    places: Box<dyn Fn() -> Vec<CommandDirectory> + Send + Sync>,
    limits: CustomLimits,
    cache: Mutex<Cache>,
}

/// A directory with such files in it, and in the directories below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDirectory {
    /// Path of the directory.
    pub dir: PathBuf,
    /// Owner of the commands in the directory.
    pub owner: CommandOwner,
}

/// Whose commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOwner {
    /// The user's, for all projects.
    User,
    /// A project's whose folder the user trusts.
    Project,
    /// A project's of which the user has said nothing: they are asked before it runs anything.
    Unjudged,
}

/// Bounds of the files that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomLimits {
    /// Files.
    pub files: usize,
    /// Bytes of one.
    pub bytes: usize,
}

impl Default for CustomLimits {
    fn default() -> Self {
        Self { files: 500, bytes: 64 << 10 }
    }
}

impl Custom {
    /// `places`: where they are, those that count more after the others. May read files.
    pub fn new(
        places: impl Fn() -> Vec<CommandDirectory> + Send + Sync + 'static,
        limits: CustomLimits,
    ) -> Self {
        Self { places: Box::new(places), limits, cache: Mutex::default() }
    }

    /// Those that there are now, in the order of their names; also files that are none.
    fn list(&self) -> Vec<CommandFile> {
        let places = (self.places)();
        self.cache.lock().look(&places, &self.limits)
    }

    /// Returns the shell commands in prompts of a project that the user has neither trusted nor
    /// refused.
    pub fn executables(&self) -> Vec<Executable> {
        self.list().iter().filter_map(executable).collect()
    }
}

/// Returns the shell commands of a prompt that need the user's consent, if it has any.
fn executable(found: &CommandFile) -> Option<Executable> {
    let written = found.read.as_ref().as_ref().ok()?;
    let shells = written.prompt.shells();
    if found.owner != CommandOwner::Unjudged || shells.is_empty() {
        return None;
    }
    let name = format!("/{}", found.name);
    Some(Executable { kind: "custom command", name, runs: shells.join("; ") })
}

impl CommandOwner {
    /// Returns the full name of a command whose short name is taken.
    fn whole(self, name: &str) -> String {
        match self {
            Self::User => format!("user.{name}"),
            Self::Project | Self::Unjudged => format!("workspace.{name}"),
        }
    }
}

impl CommandFile {
    fn listed(&self) -> SessionCommand {
        let description = match &*self.read {
            Ok(written) if !written.description.is_empty() => first(&written.description),
            Ok(_) => format!("your own, from {}", self.file_name()),
            Err(_) => format!("cannot be used: {} is wrong", self.file_name()),
        };
        let takes =
            self.read.as_ref().as_ref().is_ok_and(|written| written.prompt.takes_arguments());
        let args = CommandArgument {
            name: "args".to_owned(),
            description: "what goes into the prompt".to_owned(),
            is_required: false,
        };
        SessionCommand {
            name: self.name.clone(),
            description,
            usage: if takes { "[ARGS]".to_owned() } else { String::new() },
            arguments: Some(args).filter(|_| takes).into_iter().collect(),
        }
    }
}

impl Registry {
    /// The user's own commands. What a built-in command is called, none of them is.
    pub(super) fn own(&self) -> Vec<CommandFile> {
        let mut found = self.custom.as_ref().map(|custom| custom.list()).unwrap_or_default();
        for it in &mut found {
            if self.commands.iter().any(|command| command.name == it.name) {
                it.name = it.owner.whole(&it.name);
            }
        }
        found
    }

    /// The one that a prompt asks for, and what follows its name.
    pub(super) fn own_command<'a>(&self, prompt: &'a str) -> Option<(CommandFile, &'a str)> {
        let (name, args) = word(prompt.trim().strip_prefix('/')?);
        self.own().into_iter().find(|found| found.name == name).map(|found| (found, args))
    }

    /// The same, as front ends list them.
    pub(super) fn own_listed(&self) -> Vec<SessionCommand> {
        self.own().iter().map(CommandFile::listed).collect()
    }
}

/// Returns the prompt of a command for the model, with these arguments filled in.
pub(super) fn run(found: &CommandFile, args: &str) -> Result<CommandReply, String> {
    let written = found.read.as_ref().as_ref().map_err(Clone::clone)?;
    let name = &found.name;
    let mut pieces = written.prompt.filled(args);
    if !args.is_empty() && !written.prompt.takes_arguments() {
        pieces.push(PromptPiece::Text(format!("\n\n/{name} {args}")));
    }
    Ok(CommandReply::Fill(Template { command: name.clone(), pieces, needs: executable(found) }))
}

pub(super) const COMMAND: Command = Command {
    name: "commands",
    description: "your own commands: their files, and errors in them",
    arguments: &[],
    sub_commands: &[],
    asks_model: false,
    run: Some(|request| Box::pin(async move { Ok(list(&request)) })),
};

const NONE: &str = "You have no commands of your own. Write one as a TOML file with `prompt = \"...\"` \
    in it: `~/.gemini/commands/NAME.toml`, or `.gemini/commands/NAME.toml` in a project.";

fn list(request: &CommandRequest<'_>) -> CommandReply {
    let own = request.registry.own();
    if own.is_empty() {
        return CommandReply::Say(NONE.to_owned());
    }
    let line = |found: &CommandFile| match &*found.read {
        Ok(_) => format!("- {} ({})\n", found.listed().line(), found.file.display()),
        Err(why) => format!("- `/{}` cannot be used: {why}\n", found.name),
    };
    CommandReply::Say(own.iter().map(line).collect())
}
