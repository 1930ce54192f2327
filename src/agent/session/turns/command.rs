//! Commands: turns that do something themselves before, or instead of, asking the model.
//!
//! The session knows only what is here. Which commands there are is said above it, once for every
//! front end; a command is a turn like any other, so it waits for its turn, is seen everywhere and
//! can be cancelled. Those that are in the way of no other turn are carried out beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::fill::{Template, fill};
use crate::blocking::{FAULT, blocking};
use crate::session::context::compress;
use crate::session::context::memory::MemoryFile;
use crate::session::context::rewind::{EarlierPrompt, EarlierPrompts};
use crate::session::engine::{CurrentTurn, Engine};
use crate::session::events::event::{
    Compressed, Event, Origin, PromptPart, StopReason, TaskEvent, reads_as_command,
};
use crate::session::events::log::Reader;
use crate::session::events::principal::{SessionAccess, ShareRole};
use crate::session::state::session_state::title_of;
use crate::session::state::undo::{self, CallChange, Selection, Undo};
use tandem_mcp::Hub;
use tandem_model::Part;

/// The commands of a session.
#[async_trait]
pub trait Commands: Send + Sync {
    /// Returns the meaning of a prompt that does not go to the model as it is; `None` if it does. The prompts of
    /// these servers are commands, too. A prompt that begins with a slash may have files read, once: not for a
    /// thread that others wait for.
    fn resolve(&self, servers: &Hub, prompt: &str) -> Option<NotForModel>;

    /// Returns the commands that not every session has: prompts of these servers, the user's own.
    /// May read files.
    fn of_session(&self, servers: &Hub) -> Vec<SessionCommand>;

    /// Returns `true` if a prompt asks for a command that is carried out at once, although another turn runs.
    fn is_at_once(&self, prompt: &str) -> bool;
}

/// A prompt that does not go to the model as it is.
pub enum NotForModel {
    /// A command.
    Command(Box<dyn ResolvedCommand>),
    /// A text that looks like a command and is none.
    Unknown {
        /// Name that was typed, without the slash.
        name: String,
        /// Answer to the user, Markdown.
        answer: String,
    },
}

/// A command with its arguments, as a prompt asks for it.
#[async_trait]
pub trait ResolvedCommand: Send + Sync {
    /// Returns the name of the command, without the slash.
    fn name(&self) -> &str;

    /// Runs the command. It is dropped when the turn is cancelled. An error is shown as a reply is.
    async fn run(&self, turn: &CommandTurn<'_>) -> Result<CommandReply, String>;
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandReply {
    /// This is shown, Markdown, and the turn ends. The model is told nothing of it.
    Say(String),
    /// The model is asked this in the same turn, with all that belongs to it; if it is nothing, with
    /// the messages that there are.
    Ask(Vec<Part>),
    /// The model is asked this in the same turn, when its gaps have been filled.
    Fill(Template),
}

/// A command that only this session has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCommand {
    /// Name as it is typed, without the slash.
    pub name: String,
    /// One-line description for lists.
    pub description: String,
    /// Arguments, in order.
    pub arguments: Vec<CommandArgument>,
    /// Usage of the arguments: `--file=… [--how=…]`.
    pub usage: String,
}

/// An argument of such a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandArgument {
    /// Name, in a word.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// `true` if the command does nothing without this argument.
    pub is_required: bool,
}

impl SessionCommand {
    /// Returns a line on how the command is used.
    pub fn line(&self) -> String {
        let Self { name, description, usage, .. } = self;
        let space = if usage.is_empty() { "" } else { " " };
        format!("`/{name}{space}{usage}`: {description}")
    }
}

/// The turn of a command: the parts of the session, and what can be done only in a turn, because nothing else runs
/// meanwhile.
pub struct CommandTurn<'a> {
    /// Parts of the session.
    pub(crate) engine: &'a Engine,
    origin: &'a Origin,
}

impl CommandTurn<'_> {
    /// Returns a reader of all events.
    pub(crate) fn events(&self) -> Reader {
        self.engine.log.read(0)
    }

    /// Returns the session's id.
    pub(crate) fn id(&self) -> &str {
        &self.engine.id
    }

    /// Returns `true` if a client of the A2A server began the session.
    pub(crate) fn is_served(&self) -> bool {
        self.engine.state.look(|state| state.served)
    }

    /// Returns the front end that the command came from.
    pub(crate) fn origin(&self) -> &Origin {
        self.origin
    }

    /// Returns the owner, and those with whom the session is shared.
    pub(crate) fn access(&self) -> SessionAccess {
        self.engine.state.look(|state| state.access.clone())
    }

    /// Shares the session with a member of the owner's tenant, in place of an earlier role.
    pub(crate) fn share(&self, name: &str, role: ShareRole) {
        self.engine.log.append(Event::Task(TaskEvent::Shared { name: name.to_owned(), role }));
    }

    /// Shares the session with a member no longer. Returns `false` if it was not shared.
    pub(crate) fn unshare(&self, name: &str) -> bool {
        let is_shared = self.access().shares.contains_key(name);
        if is_shared {
            self.engine.log.append(Event::Task(TaskEvent::Unshared { name: name.to_owned() }));
        }
        is_shared
    }

    /// Checks that the user of the machine has asked, and not somebody whom a server knows by name: for
    /// what counts in the sessions of others, too.
    pub(crate) fn check_user(&self) -> Result<(), String> {
        match self.origin.principal() {
            None => Ok(()),
            Some(_) => {
                Err("this counts for everybody here, so only the operator does it".to_owned())
            }
        }
    }

    /// Returns the (real) path in the workspace that a path leads to.
    pub(crate) async fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        self.engine.host.resolve(path).await.map_err(|error| error.message)
    }

    /// Lets the model forget all that came before. The log itself stays.
    pub(crate) fn forget(&self) {
        self.engine.log.append(Event::Forgotten);
        self.engine.instructions.forget_places();
        self.engine.compression.reset();
    }

    /// Returns the prompts that the conversation can go back to, oldest first.
    pub(crate) async fn earlier_prompts(&self) -> Result<Vec<EarlierPrompt>, String> {
        let mut log = self.events();
        blocking(move || Ok(EarlierPrompts::of(&mut log).list())).await
    }

    /// Lets the model never have been told of a prompt, nor of anything after it. The log itself
    /// stays, and so do files and settings.
    pub(crate) async fn rewind(&self, prompt: &EarlierPrompt) -> Result<(), String> {
        self.engine.log.append(Event::Rewound { turn: prompt.turn });
        self.engine.instructions.rewind(prompt.started);
        self.engine.compression.reset();
        // All of the log is folded anew.
        let transcript = Arc::clone(&self.engine.transcript);
        blocking(move || {
            transcript.lock().catch_up();
            Ok(())
        })
        .await
    }

    /// Returns the session's title.
    pub(crate) fn title(&self) -> String {
        self.engine.state.look(|state| state.title.clone())
    }

    /// Gives the session another title, and returns it: one line of what is wanted. `None` if there
    /// is nothing in that.
    pub(crate) fn rename(&self, wanted: &str) -> Option<String> {
        let title = Some(title_of(wanted)).filter(|title| !title.is_empty())?;
        self.engine.log.append(Event::SessionRenamed { title: title.clone(), by_model: false });
        Some(title)
    }

    /// Lets the model be told in short what came before. `about` is what the user wants that to be
    /// about, if anything.
    pub(crate) async fn compress(&self, about: &str) -> Result<Arc<Compressed>, String> {
        // The command is dropped if it is cancelled.
        let compressed = compress::compress(self.engine, about, &CancellationToken::new()).await;
        compressed.map_err(|why| why.to_string())
    }

    /// Returns the memory files, as the model is told them from the next prompt on.
    pub(crate) async fn memory(&self) -> Vec<MemoryFile> {
        self.engine.instructions.files().await
    }

    /// Lets the model be told all of these files at the beginning, as they are now.
    pub(crate) async fn refresh_memory(&self) -> Vec<MemoryFile> {
        self.engine.instructions.begin_anew();
        self.memory().await
    }

    /// Writes something into the user's own file, to be known in every session. Returns the file.
    pub(crate) async fn remember(&self, text: &str) -> Result<PathBuf, String> {
        self.check_user()?;
        let (instructions, text) = (Arc::clone(&self.engine.instructions), text.to_owned());
        blocking(move || instructions.memory().add(&text)).await
    }

    /// Returns the changes that calls have made in files, in order.
    pub(crate) fn changes(&self) -> Vec<CallChange> {
        undo::changes(&self.engine.log)
    }

    /// Takes changes back, the newest first. Returns all that were selected, each with the reason if
    /// it was left alone.
    pub(crate) async fn restore(
        &self,
        selection: Selection,
    ) -> Result<Vec<(CallChange, Result<(), String>)>, String> {
        let undo = Undo::new(self.engine.log.clone(), Arc::clone(&self.engine.host));
        // Nobody waits any more if the command is cancelled: the file at hand is the last then, and
        // that it was put back goes into the log.
        let stop = CancellationToken::new();
        let _stop_on_drop = stop.clone().drop_guard();
        let restore = async move { undo.restore(&selection, &stop).await };
        tokio::spawn(restore).await.map_err(|_| FAULT.to_owned())
    }

    /// Uses an MCP server again, or no longer.
    pub(crate) async fn enable_server(&self, name: &str, enabled: bool) -> Result<(), String> {
        self.engine.servers.hub.enable(name, enabled)?;
        self.engine.servers.hub.settled().await;
        Ok(())
    }

    /// Says something before the command has ended: Markdown.
    pub(crate) fn say(&self, text: String) {
        self.engine.log.append(Event::Output(text));
    }

    /// Has the user log in to an MCP server, or finishes a login that has begun with the address
    /// that the user's browser ended up at. Returns what came of it.
    pub(crate) async fn log_in(
        &self,
        server: &str,
        address: Option<&str>,
    ) -> Result<String, String> {
        match address {
            Some(address) => self.engine.servers.hub.finish_login(server, address).await,
            None => self.engine.servers.hub.login(server, &|said| self.say(said)).await,
        }
    }

    /// Has an MCP server put a prompt together, and returns it.
    pub(crate) async fn server_prompt(
        &self,
        server: &str,
        name: &str,
        args: BTreeMap<String, String>,
    ) -> Result<Vec<Part>, String> {
        let said = self.engine.servers.hub.prompt(server, name, args).await?;
        let media = said.media.into_iter().map(Part::Media);
        Ok([Part::Text(said.text)].into_iter().chain(media).collect())
    }
}

/// Resolves a prompt beside the runtime's threads; a command of a server that is only getting ready is waited for.
pub(super) async fn resolve(
    engine: &Engine,
    commands: &Arc<dyn Commands>,
    cancel: &CancellationToken,
    prompt: &[PromptPart],
) -> Option<NotForModel> {
    let text = text(prompt)?;
    let resolved = resolve_beside(engine, commands, &text).await;
    if matches!(resolved, Some(NotForModel::Command(_))) || !reads_as_command(prompt) {
        return resolved;
    }
    engine.servers.hub.start();
    if engine.servers.hub.pending().is_empty() {
        return resolved;
    }
    engine.servers.settled(cancel).await;
    resolve_beside(engine, commands, &text).await
}

async fn resolve_beside(
    engine: &Engine,
    commands: &Arc<dyn Commands>,
    text: &str,
) -> Option<NotForModel> {
    let (commands, hub) = (Arc::clone(commands), Arc::clone(&engine.servers.hub));
    let text = text.to_owned();
    spawn_blocking(move || commands.resolve(&hub, &text)).await.ok().flatten()
}

/// Returns `true` if a prompt is a command.
pub(crate) fn is_one(commands: &dyn Commands, servers: &Hub, prompt: &[PromptPart]) -> bool {
    let resolved = text(prompt).and_then(|text| commands.resolve(servers, &text));
    matches!(resolved, Some(NotForModel::Command(_)))
}

/// Returns `true` if a prompt goes to the model as it is.
pub(crate) fn is_for_model(commands: &dyn Commands, servers: &Hub, prompt: &[PromptPart]) -> bool {
    text(prompt).and_then(|text| commands.resolve(servers, &text)).is_none()
}

/// Returns `true` if a prompt is a command that is carried out at once, although another turn runs.
pub(super) fn is_at_once(commands: &dyn Commands, prompt: &[PromptPart]) -> bool {
    text(prompt).is_some_and(|text| commands.is_at_once(&text))
}

/// Carries out a command that is [carried out at once](is_at_once); returns what it says. `None` if it would
/// have to wait.
pub(super) fn run_at_once(
    engine: &Engine,
    commands: &dyn Commands,
    prompt: &[PromptPart],
    origin: &Origin,
) -> Option<String> {
    let resolved = commands.resolve(&engine.servers.hub, &text(prompt)?)?;
    let NotForModel::Command(command) = resolved else { return None };
    match command.run(&CommandTurn { engine, origin }).now_or_never()? {
        Ok(CommandReply::Say(text)) | Err(text) => Some(text),
        Ok(CommandReply::Ask(_) | CommandReply::Fill(_)) => None,
    }
}

/// Returns a prompt's text, if it begins with any.
fn text(prompt: &[PromptPart]) -> Option<String> {
    let begins = matches!(prompt.first(), Some(PromptPart::Text(_)));
    begins.then(|| prompt.iter().map(ToString::to_string).collect())
}

/// Runs the whole turn of a prompt that looks like a command and is none.
pub(super) fn refuse(engine: &Engine, name: String, answer: String) -> StopReason {
    engine.log.append(Event::CommandStarted { name });
    engine.log.append(Event::CommandFailed(answer));
    StopReason::EndTurn
}

/// End of a command.
pub(super) enum CommandEnd {
    /// The turn ends with the command.
    Ended(StopReason),
    /// The turn goes on: the model is asked what the command has said.
    AskModel,
}

/// Runs a command, which is the whole turn, or its beginning.
pub(super) async fn run(
    engine: &Engine,
    turn: CurrentTurn<'_>,
    command: &dyn ResolvedCommand,
) -> CommandEnd {
    engine.log.append(Event::CommandStarted { name: command.name().to_owned() });
    let current = CommandTurn { engine, origin: turn.origin };
    let run = command.run(&current);
    let reply = match turn.cancel.run_until_cancelled(run).await {
        // What it runs ends its calls itself when it is cancelled.
        Some(Ok(CommandReply::Fill(template))) => {
            let filled = fill(engine, turn, template).await;
            filled.map(|filled| filled.map(CommandReply::Ask))
        }
        reply => reply,
    };
    let event = match reply {
        None | Some(Ok(CommandReply::Fill(_))) => {
            return CommandEnd::Ended(StopReason::Cancelled { answering: false });
        }
        Some(Ok(CommandReply::Ask(prompt))) => {
            engine.log.append(Event::Asked(prompt));
            return CommandEnd::AskModel;
        }
        Some(Ok(CommandReply::Say(text))) => Event::Output(text),
        Some(Err(why)) => Event::CommandFailed(why),
    };
    engine.log.append(event);
    CommandEnd::Ended(StopReason::EndTurn)
}
