//! Commands: turns that do something themselves before, or instead of, asking the model.
//!
//! The session knows only what is here. Which commands there are is said above it, once for every
//! front end; a command is a turn like any other, so it waits for its turn, is seen everywhere and
//! can be cancelled.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::compress;
use super::event::{Compressed, Event, PromptPart, StopReason};
use super::fill::{Template, fill};
use super::memory::MemoryFile;
use super::undo::{self, CallChange, Selection, Undo};
use super::{ServerStatus, Session, turn};
use crate::permission::{Mode, Scope};
use tandem_model::Part;

/// The commands of a session.
#[async_trait]
pub trait Commands: Send + Sync {
    /// The name of the command that a prompt asks for; none if the prompt is for the model.
    fn name(&self, session: &Session, prompt: &str) -> Option<String>;

    /// The answer to a prompt that looks like a command and is none: the model is not asked. May
    /// read files.
    fn unknown(&self, session: &Session, prompt: &str) -> Option<String>;

    /// The commands that only this session has: prompts of its servers, the user's own. May read
    /// files.
    fn of_session(&self, session: &Session) -> Vec<SessionCommand>;

    /// Runs the command that a prompt asks for. It is dropped when the turn is cancelled. An error
    /// is shown as a reply is.
    async fn run(&self, prompt: &str, turn: &CommandTurn<'_>) -> Result<CommandReply, String>;
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandReply {
    /// This is shown, Markdown, and the turn ends. The model is told nothing of it.
    Say(String),
    /// The model is asked this in the same turn, with all that belongs to it.
    Ask(Vec<Part>),
    /// The same, when its gaps have been filled.
    Fill(Template),
}

/// A command that only this session has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCommand {
    /// As it is typed, without the slash.
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
    /// In a word.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// `true` if the command does nothing without this argument.
    pub is_required: bool,
}

impl SessionCommand {
    /// A line on how it is used.
    pub fn line(&self) -> String {
        let Self { name, description, usage, .. } = self;
        let space = if usage.is_empty() { "" } else { " " };
        format!("`/{name}{space}{usage}`: {description}")
    }
}

/// The turn of a command, and what can be done only in one: nothing else runs meanwhile.
pub struct CommandTurn<'a> {
    session: &'a Session,
}

impl CommandTurn<'_> {
    /// The session that the command is for.
    pub fn session(&self) -> &Session {
        self.session
    }

    /// Begins plan mode; whether that was not on.
    pub fn begin_plan(&self) -> Result<bool, String> {
        self.session.begin_plan()
    }

    /// Goes back to the mode that plan mode was begun in by [`CommandTurn::begin_plan`], if nobody
    /// has changed the mode since; which one.
    pub fn end_plan(&self) -> Result<Option<Mode>, String> {
        self.session.end_plan()
    }

    /// Takes an answer back that was "always" until the session ends.
    pub fn remove_always(&self, scope: Scope) {
        self.session.remove_always(scope);
    }

    /// Lets the model forget all that came before. The log itself stays.
    pub fn forget(&self) {
        self.session.log.append(Event::Forgotten);
        self.session.forget_places();
        self.session.compress_as_ever();
    }

    /// Lets the model be told in short what came before. `about` is what the user wants that to be
    /// about, if anything.
    pub async fn compress(&self, about: &str) -> Result<Arc<Compressed>, String> {
        // The command is dropped if it is cancelled.
        let compressed = compress::compress(self.session, about, &CancellationToken::new()).await;
        compressed.map_err(|why| why.to_string())
    }

    /// Lets another model answer from now on. If it cannot be opened, the one before stays.
    pub async fn set_model(&self, id: &str) -> Result<(), String> {
        let (models, wanted) = (Arc::clone(&self.session.models), id.to_owned());
        let opened = tokio::task::spawn_blocking(move || models.open(&wanted)).await;
        let model = opened.unwrap_or_else(|_| Err(FAULT.to_owned()))?;
        *self.session.model.lock() = model;
        self.session.compress_as_ever();
        self.session.log.append(Event::ModelChanged { model: id.to_owned() });
        Ok(())
    }

    /// The ids of the models that are known by name.
    pub async fn known_models(&self) -> Result<Vec<String>, String> {
        let models = Arc::clone(&self.session.models);
        let known = tokio::task::spawn_blocking(move || models.known()).await;
        known.unwrap_or_else(|_| Err(FAULT.to_owned()))
    }

    /// Returns the memory files, as the model is told them from the next prompt on.
    pub async fn memory(&self) -> Vec<MemoryFile> {
        self.session.memory().await
    }

    /// Lets the model be told all of these files at the beginning, as they are now.
    pub async fn refresh_memory(&self) -> Vec<MemoryFile> {
        self.session.begin_anew();
        self.memory().await
    }

    /// Returns the name that a new memory file gets.
    pub fn memory_name(&self) -> &str {
        self.session.instructions.memory.name()
    }

    /// Writes something into the user's own file, to be known in every session; which file.
    pub async fn remember(&self, text: &str) -> Result<PathBuf, String> {
        let (instructions, text) = (Arc::clone(&self.session.instructions), text.to_owned());
        let added = tokio::task::spawn_blocking(move || instructions.memory.add(&text)).await;
        added.unwrap_or_else(|_| Err(FAULT.to_owned()))
    }

    /// Returns the changes that calls have made in files, in order.
    pub fn changes(&self) -> Vec<CallChange> {
        undo::changes(&self.session.log)
    }

    /// Takes changes back, the newest first; all that were selected, each with the reason if it was
    /// left alone.
    pub async fn restore(
        &self,
        selection: Selection,
    ) -> Result<Vec<(CallChange, Result<(), String>)>, String> {
        let undo = Undo::of(self.session);
        // Nobody waits any more if the command is cancelled: the file at hand is the last then, and
        // that it was put back goes into the log.
        let stop = CancellationToken::new();
        let _stop_on_drop = stop.clone().drop_guard();
        let restore = async move { undo.restore(&selection, &stop).await };
        tokio::spawn(restore).await.map_err(|_| FAULT.to_owned())
    }

    /// Reads again which MCP servers the settings name, and reaches all of them anew, or one; waits
    /// for them for a while.
    pub async fn reload_servers(&self, only: Option<&str>) -> Result<(), String> {
        let (servers, only) = (Arc::clone(&self.session.servers), only.map(str::to_owned));
        let reloaded = tokio::task::spawn_blocking(move || servers.reload(only.as_deref())).await;
        reloaded.unwrap_or_else(|_| Err(FAULT.to_owned()))?;
        if self.session.servers.holds() {
            // What is to be agreed to may be something else now.
            self.session.approvals.consent.look_again();
        }
        self.session.start_servers();
        self.session.servers.settled().await;
        Ok(())
    }

    /// Returns the status of each MCP server. If no server has been needed yet, as in a run of
    /// nothing but a command, the servers are connected first, within the time that a prompt would
    /// wait.
    pub async fn servers(&self) -> Vec<ServerStatus> {
        if self.session.servers.idles() {
            self.session.start_servers();
            self.session.servers.settled().await;
        }
        self.session.servers()
    }

    /// Lets what the folder's own settings would run be used from now on, or no longer. An error says
    /// why that counts only for this session.
    pub async fn trust_folder(&self, yes: bool) -> Result<(), String> {
        let kept = self.session.approvals.consent.answer(yes).await;
        if yes {
            self.session.servers.release();
            self.session.servers.settled().await;
        } else {
            self.session.servers.withdraw();
        }
        kept
    }

    /// Uses an MCP server again, or no longer.
    pub async fn enable_server(&self, name: &str, enabled: bool) -> Result<(), String> {
        self.session.servers.enable(name, enabled)?;
        self.session.servers.settled().await;
        Ok(())
    }

    /// Says something before the command has ended: Markdown.
    pub fn say(&self, text: String) {
        self.session.log.append(Event::Output(text));
    }

    /// Has the user log in to an MCP server, or finishes a login that has begun with the address
    /// that the user's browser ended up at. What came of it.
    pub async fn log_in(&self, server: &str, address: Option<&str>) -> Result<String, String> {
        match address {
            Some(address) => self.session.servers.finish_login(server, address).await,
            None => self.session.servers.login(server, &|said| self.say(said)).await,
        }
    }

    /// Forgets the login to an MCP server. What came of it.
    pub async fn log_out(&self, server: &str) -> Result<String, String> {
        self.session.servers.log_out(server).await
    }

    /// Has an MCP server put a prompt together; what it is.
    pub async fn server_prompt(
        &self,
        server: &str,
        name: &str,
        args: BTreeMap<String, String>,
    ) -> Result<Vec<Part>, String> {
        let said = self.session.servers.prompt(server, name, args).await?;
        let media = said.media.into_iter().map(Part::Media);
        Ok([Part::Text(said.text)].into_iter().chain(media).collect())
    }
}

const FAULT: &str = "The command failed because of a fault in this agent; its log says more.";

/// A prompt that the model is not asked as it is.
pub(super) enum NotForModel {
    /// A command; its name and all that was typed.
    Command(String, String),
    /// It looks like a command and is none; the name, and the answer.
    Unknown(String, String),
}

/// A prompt's command, also one of a server that is only getting ready; or the answer, if there is
/// no such command.
pub(super) async fn find(
    session: &Session,
    prompt: &[PromptPart],
    cancel: &CancellationToken,
) -> Option<NotForModel> {
    let text = text(prompt)?;
    if let Some(name) = session.commands.name(session, &text) {
        return Some(NotForModel::Command(name, text));
    }
    if looks_like_one(&text) {
        session.servers.start();
        if !session.servers.pending().is_empty() {
            session.await_servers(cancel).await;
        }
        if let Some(name) = session.commands.name(session, &text) {
            return Some(NotForModel::Command(name, text));
        }
    }
    let why = session.commands.unknown(session, &text)?;
    let name = text.split_whitespace().next().unwrap_or_default().trim_start_matches('/');
    Some(NotForModel::Unknown(name.to_owned(), why))
}

/// Returns whether a prompt begins with a slash and a word.
fn looks_like_one(text: &str) -> bool {
    let name = text.trim_start().strip_prefix('/').unwrap_or_default();
    name.starts_with(|c: char| !c.is_whitespace() && c != '/')
}

/// Returns whether a prompt is a command.
pub(super) fn is_one(session: &Session, prompt: &[PromptPart]) -> bool {
    text(prompt).is_some_and(|text| session.commands.name(session, &text).is_some())
}

/// The answer to a prompt that looks like a command and is none.
pub(super) fn unknown(session: &Session, prompt: &[PromptPart]) -> Option<String> {
    session.commands.unknown(session, &text(prompt)?)
}

/// A prompt's text, if it begins with any.
fn text(prompt: &[PromptPart]) -> Option<String> {
    let begins = matches!(prompt.first(), Some(PromptPart::Text(_)));
    begins.then(|| prompt.iter().map(ToString::to_string).collect())
}

/// The whole turn of a prompt that looks like a command and is none.
pub(super) fn refuse(session: &Session, name: String, why: String) -> StopReason {
    session.log.append(Event::CommandStarted { name });
    session.log.append(Event::CommandFailed(why));
    StopReason::EndTurn
}

/// The whole turn of a command.
pub(super) async fn run(
    session: &Session,
    name: String,
    prompt: &str,
    cancel: &CancellationToken,
) -> StopReason {
    session.log.append(Event::CommandStarted { name });
    let turn = CommandTurn { session };
    let run = session.commands.run(prompt, &turn);
    let reply = match cancel.run_until_cancelled(run).await {
        // What it runs ends its calls itself when it is cancelled.
        Some(Ok(CommandReply::Fill(template))) => {
            let filled = fill(session, template, cancel).await;
            filled.map(|filled| filled.map(CommandReply::Ask))
        }
        reply => reply,
    };
    match reply {
        None | Some(Ok(CommandReply::Fill(_))) => StopReason::Cancelled { answering: false },
        Some(Ok(CommandReply::Say(text))) => {
            session.log.append(Event::Output(text));
            StopReason::EndTurn
        }
        Some(Err(why)) => {
            session.log.append(Event::CommandFailed(why));
            StopReason::EndTurn
        }
        Some(Ok(CommandReply::Ask(prompt))) => {
            session.log.append(Event::Asked(prompt));
            turn::ask(session, cancel).await
        }
    }
}
