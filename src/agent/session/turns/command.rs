//! Slash commands: turns that act by themselves before, or instead of, asking the model.
//!
//! This module has only the interface that a session needs. The commands themselves are defined above the session, once
//! for all front ends. A command is a turn like any other: it is queued, every front end sees it, and it can be
//! cancelled. A command that cannot disturb another turn runs at once, beside the running turn.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::fill::{Template, fill_template};
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
use tandem_content::blocking::{BlockingError, blocking, try_blocking};
use tandem_mcp::Hub;
use tandem_model::Part;

/// The commands of a session.
#[async_trait]
pub trait Commands: Send + Sync {
    /// Returns the command in a prompt, or the refusal of a text that only looks like a command; `None` if the
    /// prompt is for the model. The prompts of the MCP servers in `servers` are commands, too. For a prompt that
    /// begins with a slash, this may read files, once. So it must not run on a thread that other tasks need.
    fn resolve(&self, servers: &Hub, prompt: &str) -> Option<NotForModel>;

    /// Returns the commands that depend on the session: prompts of these MCP servers, and the user's own commands. May
    /// read files.
    fn of_session(&self, servers: &Hub) -> Vec<SessionCommand>;

    /// Returns `true` if a prompt asks for a command that runs at once, beside a running turn.
    fn is_at_once(&self, prompt: &str) -> bool;
}

/// A prompt that the model does not get.
pub enum NotForModel {
    /// A command.
    Command(Box<dyn ResolvedCommand>),
    /// A text that looks like a command and is no command, such as a misspelled name.
    Unknown {
        /// Name that the user typed, without the slash.
        name: String,
        /// Answer to the user, as Markdown.
        answer: String,
    },
}

/// A command with its arguments, as a prompt asks for them.
#[async_trait]
pub trait ResolvedCommand: Send + Sync {
    /// Returns the name of the command, without the slash.
    fn name(&self) -> &str;

    /// Runs the command. The future is dropped when the turn is cancelled. People are shown an error as they are shown
    /// a reply.
    async fn run(&self, turn: &CommandTurn<'_>) -> Result<CommandReply, String>;
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandReply {
    /// A text for people, as Markdown, with which the turn ends. The model is not told of the text.
    Say(String),
    /// A prompt that the model is asked in the same turn, with its media. If the prompt is empty, the model is asked
    /// with the messages that the conversation has.
    Ask(Vec<Part>),
    /// A template that is filled, and then asked of the model in the same turn.
    Fill(Template),
}

/// A command that depends on the session: a prompt of an MCP server, or a command of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCommand {
    /// Name as the user types it, without the slash.
    pub name: String,
    /// One-line description for lists.
    pub description: String,
    /// Arguments, in order.
    pub arguments: Vec<CommandArgument>,
    /// Usage of the arguments: `--file=… [--how=…]`.
    pub usage: String,
}

/// An argument of a command that depends on the session.
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
    /// Returns a line of Markdown with the command's usage and description.
    pub fn line(&self) -> String {
        let Self { name, description, usage, .. } = self;
        let space = if usage.is_empty() { "" } else { " " };
        format!("`/{name}{space}{usage}`: {description}")
    }
}

/// The turn of a command: access to the parts of the session, and to actions that are safe only in a turn, because no
/// other turn runs meanwhile.
pub struct CommandTurn<'a> {
    /// The parts of the session.
    pub(crate) engine: &'a Engine,
    origin: &'a Origin,
}

impl CommandTurn<'_> {
    /// Returns a reader of the log, from its first event on.
    pub(crate) fn events(&self) -> Reader {
        self.engine.log.read(0)
    }

    /// Returns the session's id.
    pub(crate) fn id(&self) -> &str {
        &self.engine.id
    }

    /// Returns `true` if a client of the A2A server began the session.
    pub(crate) fn is_served(&self) -> bool {
        self.engine.state.with_state(|state| state.served)
    }

    /// Returns the front end that the command came from.
    pub(crate) fn origin(&self) -> &Origin {
        self.origin
    }

    /// Returns the owner of the session, and the principals with whom the session is shared.
    pub(crate) fn access(&self) -> SessionAccess {
        self.engine.state.with_state(|state| state.access.clone())
    }

    /// Shares the session with a member of the owner's tenant. The role replaces an earlier role of the member.
    pub(crate) fn share(&self, name: &str, role: ShareRole) {
        self.engine.log.append(Event::Task(TaskEvent::Shared { name: name.to_owned(), role }));
    }

    /// Stops sharing the session with a member. Returns `false` if the session was not shared with the member.
    pub(crate) fn unshare(&self, name: &str) -> bool {
        let is_shared = self.access().shares.contains_key(name);
        if is_shared {
            self.engine.log.append(Event::Task(TaskEvent::Unshared { name: name.to_owned() }));
        }
        is_shared
    }

    /// Checks that the prompt comes from the user of this machine, and not from a client whom a server has
    /// authenticated as a principal. For commands whose effect reaches the sessions of others, too.
    pub(crate) fn check_user(&self) -> Result<(), String> {
        match self.origin.principal() {
            None => Ok(()),
            Some(_) => {
                Err("this would count for everybody at this server, so only the operator can do it"
                    .to_owned())
            }
        }
    }

    /// Returns the real path of a path in the workspace.
    pub(crate) async fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        self.engine.host.resolve(path).await.map_err(|error| error.message)
    }

    /// Makes the model forget the conversation up to now. The log itself stays.
    pub(crate) fn forget(&self) {
        self.engine.log.append(Event::Forgotten);
        self.engine.compression.reset();
    }

    /// Returns the prompts to which the conversation can be rewound, oldest first.
    pub(crate) async fn earlier_prompts(&self) -> Result<Vec<EarlierPrompt>, String> {
        let mut log = self.events();
        Ok(blocking(move || EarlierPrompts::from_log(&mut log).list()).await?)
    }

    /// Takes a prompt, and all that came after it, out of the conversation that the model sees. The log itself stays,
    /// and so do files and settings.
    pub(crate) async fn rewind(&self, prompt: &EarlierPrompt) -> Result<(), String> {
        self.engine.log.append(Event::Rewound { turn: prompt.turn });
        self.engine.compression.reset();
        // The transcript folds the whole log again, which takes long for a long log, so this is done off the runtime's
        // threads.
        let transcript = Arc::clone(&self.engine.transcript);
        Ok(blocking(move || transcript.lock().catch_up()).await?)
    }

    /// Returns the session's title.
    pub(crate) fn title(&self) -> String {
        self.engine.state.with_state(|state| state.title.clone())
    }

    /// Gives the session another title and returns the title: the first line of `wanted`. Returns `None` if that line
    /// is empty.
    pub(crate) fn rename(&self, wanted: &str) -> Option<String> {
        let title = Some(title_of(wanted)).filter(|title| !title.is_empty())?;
        self.engine.log.append(Event::SessionRenamed { title: title.clone(), by_model: false });
        Some(title)
    }

    /// Compresses the conversation: the model is told a summary of it from now on. `about` is the topic that the user
    /// wants the summary to be about; it may be empty.
    pub(crate) async fn compress(&self, about: &str) -> Result<Arc<Compressed>, String> {
        // A new token is enough: the future of the command is dropped if the turn is cancelled.
        let compressed = compress::compress(self.engine, about, &CancellationToken::new()).await;
        compressed.map_err(|why| why.to_string())
    }

    /// Returns the memory files, as the model is told of them from the next prompt on.
    pub(crate) async fn memory(&self) -> Vec<MemoryFile> {
        self.engine.instructions.files().await
    }

    /// Tells the model the current content of all memory files again with the next prompt. Returns the files.
    pub(crate) async fn refresh_memory(&self) -> Vec<MemoryFile> {
        self.engine.instructions.tell_files_again().await;
        self.memory().await
    }

    /// Adds a text to the user's own memory file, which counts in all sessions. Returns the path of the file.
    pub(crate) async fn remember(&self, text: &str) -> Result<PathBuf, String> {
        self.check_user()?;
        let (instructions, text) = (Arc::clone(&self.engine.instructions), text.to_owned());
        try_blocking(move || instructions.memory().add(&text)).await
    }

    /// Returns the changes that calls have made in files, in the order in which the log announces them.
    pub(crate) fn changes(&self) -> Vec<CallChange> {
        undo::changes(&self.engine.log)
    }

    /// Undoes changes of files, the newest first. Returns all selected changes, each with the reason if it was left
    /// alone.
    pub(crate) async fn restore(
        &self,
        selection: Selection,
    ) -> Result<Vec<(CallChange, Result<(), String>)>, String> {
        let undo = Undo::new(self.engine.log.clone(), Arc::clone(&self.engine.host));
        // If the command is cancelled, this future is dropped, but the spawned task still restores the file at hand,
        // and logs that. Then it stops.
        let stop = CancellationToken::new();
        let _stop_on_drop = stop.clone().drop_guard();
        let restore = async move { undo.restore(&selection, &stop).await };
        tokio::spawn(restore).await.map_err(|_| BlockingError.into())
    }

    /// Enables or disables an MCP server, and waits until the servers are ready, or the time for that is over.
    pub(crate) async fn enable_server(&self, name: &str, enabled: bool) -> Result<(), String> {
        self.engine.servers.hub.enable(name, enabled)?;
        self.engine.servers.hub.settled().await;
        Ok(())
    }

    /// Shows people a text, as Markdown, while the command still runs.
    pub(crate) fn say(&self, text: String) {
        self.engine.log.append(Event::Output(text));
    }

    /// Lets the user log in to an MCP server. With an `address`, to which the user's browser was redirected, finishes a
    /// login that has begun. Returns the outcome as a text for people.
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

    /// Lets an MCP server build one of its prompts, and returns the prompt.
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

/// Resolves a prompt to a command, off the runtime's threads. If the prompt looks like a command that no server offers
/// yet, waits for MCP servers that are still starting, and resolves the prompt again.
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
    blocking(move || commands.resolve(&hub, &text)).await.ok().flatten()
}

/// Returns `true` if a prompt is a command.
pub(crate) fn is_command(commands: &dyn Commands, servers: &Hub, prompt: &[PromptPart]) -> bool {
    let resolved = text(prompt).and_then(|text| commands.resolve(servers, &text));
    matches!(resolved, Some(NotForModel::Command(_)))
}

/// Returns `true` if a prompt is for the model.
pub(crate) fn is_for_model(commands: &dyn Commands, servers: &Hub, prompt: &[PromptPart]) -> bool {
    text(prompt).and_then(|text| commands.resolve(servers, &text)).is_none()
}

/// Returns `true` if a prompt is a command that runs at once, beside a running turn.
pub(super) fn is_at_once(commands: &dyn Commands, prompt: &[PromptPart]) -> bool {
    text(prompt).is_some_and(|text| commands.is_at_once(&text))
}

/// Runs a command that [runs at once](is_at_once) and returns its reply. Returns `None` if the command would have to
/// wait, or would ask the model.
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

/// Returns the text of a prompt, if the prompt begins with text.
fn text(prompt: &[PromptPart]) -> Option<String> {
    let begins = matches!(prompt.first(), Some(PromptPart::Text(_)));
    begins.then(|| prompt.iter().map(ToString::to_string).collect())
}

/// Runs the whole turn of a prompt that looks like a command and is no command: logs the refusal.
pub(super) fn refuse(engine: &Engine, name: String, answer: String) -> StopReason {
    engine.log.append(Event::CommandStarted { name });
    engine.log.append(Event::CommandFailed(answer));
    StopReason::EndTurn
}

/// The way in which a command has ended.
pub(super) enum CommandEnd {
    /// The turn ends with the command.
    Ended(StopReason),
    /// The turn continues: the model gets the prompt that the command has made.
    AskModel,
}

/// Runs a command, which is the whole turn or the beginning of it.
pub(super) async fn run(
    engine: &Engine,
    turn: CurrentTurn<'_>,
    command: &dyn ResolvedCommand,
) -> CommandEnd {
    engine.log.append(Event::CommandStarted { name: command.name().to_owned() });
    let current = CommandTurn { engine, origin: turn.origin };
    let run = command.run(&current);
    let reply = match turn.cancel.run_until_cancelled(run).await {
        // `fill_template` is not dropped by a cancel: the calls that it runs see the cancel themselves, and log their
        // ends.
        Some(Ok(CommandReply::Fill(template))) => {
            let filled = fill_template(engine, turn, template).await;
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
