//! Slash commands for clients: their list, and their execution (RFC 3.3, and
//! "Custom endpoints" of the server document; `docs/protocols.md` says where both are).

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;

use super::context::SessionContext;
use super::contexts::locate;
use super::dialect::Dialect;
use super::requests::{Execute, SessionName};
use super::server::{A2aServer, CallOrigin};
use super::turns;
use tandem_agent::commands::{Command, Registry};
use tandem_agent::session::{
    Access, CallStarted, Event, PromptPart, PromptTags, Session, SessionCommand, TurnId,
};
use tandem_agent::sessions::Leased;
use tandem_serve::principals::{DRIVE_RIGHT, Principal};
use tandem_serve::quotas::Reservation;
use tandem_wire::a2a::TaskMetadata;
use tandem_wire::jsonrpc::Error;

/// Statuses of a started command (RFC 3.3, `CommandExecutionStatus`).
const STARTED_STATUS: &str = "STARTED";
const AWAITING_SHELL: &str = "AWAITING_SHELL_CONFIRMATION";
const AWAITING_ACTION: &str = "AWAITING_ACTION_CONFIRMATION";

/// Maximum time that the response waits for the first step of a command.
const FIRST_STEP_TIME: Duration = Duration::from_secs(1);

/// End of the message about a command that cannot start.
const NOT_BEGUN: &str = "The command was not started, so it has no execution id.";

/// The list of commands (RFC 3.3, `GetAllSlashCommandsResponse`).
#[derive(Serialize)]
pub(super) struct CommandList {
    commands: Vec<CommandDescription>,
}

/// A slash command (RFC 3.3, `SlashCommand`; server document, "Commands").
#[derive(Serialize)]
struct CommandDescription {
    name: String,
    description: String,
    arguments: Vec<ArgumentDescription>,
    /// The sub-commands under their name in the RFC; `GET /listCommands` has only the other name.
    #[serde(rename = "sub_commands", skip_serializing_if = "Option::is_none")]
    snake: Option<Vec<Self>>,
    #[serde(rename = "subCommands")]
    camel: Vec<Self>,
}

/// An argument of a command (RFC 3.3, `SlashCommandArgument`).
#[derive(Serialize)]
struct ArgumentDescription {
    name: String,
    description: String,
    is_required: bool,
    #[serde(rename = "isRequired")]
    camel: bool,
}

/// Returns the response to `commands/get`.
pub(super) fn all(registry: &Registry, session: Option<&Session>) -> CommandList {
    CommandList { commands: registry.list().iter().map(command).chain(own(session)).collect() }
}

/// Returns the commands that only this session has.
fn own(session: Option<&Session>) -> Vec<CommandDescription> {
    session.map(Session::own_commands).unwrap_or_default().iter().map(own_command).collect()
}

fn own_command(command: &SessionCommand) -> CommandDescription {
    let arguments = command.arguments.iter();
    CommandDescription {
        name: command.name.clone(),
        description: command.description.clone(),
        arguments: arguments
            .map(|it| argument(&it.name, &it.description, it.is_required))
            .collect(),
        snake: Some(Vec::new()),
        camel: Vec::new(),
    }
}

fn command(command: &Command) -> CommandDescription {
    let sub_commands = || command.sub_commands.iter().map(self::command).collect();
    CommandDescription {
        name: command.name.to_owned(),
        description: command.description.to_owned(),
        arguments: arguments(command),
        snake: Some(sub_commands()),
        camel: sub_commands(),
    }
}

fn arguments(command: &Command) -> Vec<ArgumentDescription> {
    let arguments = command.arguments.iter();
    arguments.map(|it| argument(it.name, it.description, it.is_required)).collect()
}

fn argument(name: &str, description: &str, is_required: bool) -> ArgumentDescription {
    let (name, description) = (name.to_owned(), description.to_owned());
    ArgumentDescription { name, description, is_required, camel: is_required }
}

/// Returns the response to `GET /listCommands`: the same commands, named by their whole paths.
pub(super) fn listed(registry: &Registry, session: Option<&Session>) -> CommandList {
    let commands = registry.list().iter().map(|command| full(command, ""));
    CommandList { commands: commands.chain(own(session)).collect() }
}

fn full(command: &Command, above: &str) -> CommandDescription {
    let name = format!("{above}{}", command.name);
    let below = format!("{name} ");
    CommandDescription {
        name,
        description: command.description.to_owned(),
        arguments: arguments(command),
        snake: None,
        camel: command.sub_commands.iter().map(|it| full(it, &below)).collect(),
    }
}

/// Response to `command/execute` (RFC 3.3, `ExecuteSlashCommandResponse`).
#[derive(Serialize)]
pub(super) struct ExecuteResponse {
    execution_id: String,
    #[serde(rename = "executionId")]
    camel: String,
    status: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<TaskMetadata>,
}

impl A2aServer {
    /// Handles `command/execute`: starts a command. The effects of the command are updates of the task
    /// `execution_id`.
    pub(super) async fn execute(
        &self,
        request: &Execute,
        located: Option<Leased<SessionContext>>,
        caller: &CallOrigin,
    ) -> Result<ExecuteResponse, Error> {
        let Execute { path, args, session } = request;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let is_unknown = located.is_none() && session.task.is_none() && session.context.is_some();
        let unknown = is_unknown.then(|| self.contexts.of(&caller.principal).unknown());
        let known = self.known(session, located.clone());
        let own = known.as_ref().and_then(|context| context.here());
        let (id, status, message) = match self.commands.prompt(&path, args, own) {
            Ok(prompt) => {
                let prompt = vec![PromptPart::Text(prompt)];
                let principal = &caller.principal;
                let (context, room) = self.commanded(session, located, principal, &prompt)?;
                let turn = self.command(&context, room, prompt, caller).await?;
                (context.execution(turn), first_status(&context, turn).await, String::new())
            }
            Err(why) => {
                let why = format!("{why} {NOT_BEGUN}");
                (String::new(), "FAILED_TO_START", why)
            }
        };
        let metadata = unknown.map(|unknown| TaskMetadata {
            unknown_context: Some(unknown),
            ..TaskMetadata::default()
        });
        let camel = id.clone();
        Ok(ExecuteResponse { execution_id: id, camel, status, message, metadata })
    }

    /// Returns the session that a call names, or the shared session, if it exists already.
    pub(super) fn known(
        &self,
        session: &SessionName,
        located: Option<Leased<SessionContext>>,
    ) -> Option<Leased<SessionContext>> {
        match &session.task {
            Some(task) => locate::task(located, task).ok().map(|task| task.context),
            None => located.or_else(|| self.contexts.shared().cloned()),
        }
    }

    /// Returns the session in which a command is to run, and the place reserved for its turn in the owner's
    /// quota.
    pub(super) fn commanded(
        &self,
        session: &SessionName,
        located: Option<Leased<SessionContext>>,
        principal: &Principal,
        prompt: &[PromptPart],
    ) -> Result<(Leased<SessionContext>, Option<Reservation>), Error> {
        self.check_open()?;
        let contexts = self.contexts.of(principal);
        let (context, is_new) = if let Some(task) = &session.task {
            let task = locate::task(located, task)?;
            contexts.check(&task.context, DRIVE_RIGHT)?;
            (task.context, false)
        } else {
            let chosen = session.context.as_deref();
            contexts.prompted(located, chosen, None, &session.settings)?
        };
        turns::check_room(context.session()?)?;
        let room = contexts.check_turn(&context, prompt)?;
        if session.task.is_none() && !is_new {
            contexts.apply_settings(&context, &session.settings)?;
        }
        Ok((context, room))
    }

    /// Starts a command in a task of its own. The command is durable when this returns.
    pub(super) async fn command(
        &self,
        context: &SessionContext,
        room: Option<Reservation>,
        prompt: Vec<PromptPart>,
        caller: &CallOrigin,
    ) -> Result<TurnId, Error> {
        let session = context.session()?;
        // The previous owner of the session may have started the command for the same order.
        let begun = caller
            .order
            .as_ref()
            .and_then(|key| context.records(|records| records.sent(key).map(|turn| turn.id)));
        if let Some(begun) = begun {
            return Ok(begun);
        }
        let tags =
            PromptTags { key: caller.order.clone(), own_task: true, ..PromptTags::default() };
        let text = self.audit.text(&prompt);
        let turn = session.prompt_tagged(prompt, caller.origin.clone(), tags);
        drop(room);
        self.audit.prompted(caller.acting_in(context), turn, text);
        session.wait_durable().await;
        Ok(turn)
    }
}

/// Returns the status of a started command: waiting, if its first step is a question.
async fn first_status(context: &SessionContext, turn: TurnId) -> &'static str {
    let queued = context.records(|records| Some(records.turn(turn)?.queued.0));
    let (Some(queued), true) = (queued, context.running_now() == Some(turn)) else {
        return STARTED_STATUS;
    };
    let mut log = context.events(queued);
    let first_step = async {
        loop {
            match &*log.next_entry().await.event {
                Event::CallStarted(started) => return asked_status(started),
                Event::Asked(_)
                | Event::Output(_)
                | Event::CommandFailed(_)
                | Event::TurnFinished { .. } => return STARTED_STATUS,
                _ => {}
            }
        }
    };
    timeout(FIRST_STEP_TIME, first_step).await.unwrap_or(STARTED_STATUS)
}

/// Returns the status of a command by its first call.
fn asked_status(started: &CallStarted) -> &'static str {
    match (&started.question, &started.access) {
        (None, _) => STARTED_STATUS,
        (Some(_), Access::Execute { .. }) => AWAITING_SHELL,
        (Some(_), _) => AWAITING_ACTION,
    }
}

/// Returns `true` if the command at a path asks the model. Then its answer is a stream.
pub(super) fn asks_model(registry: &Registry, path: &str, session: Option<&Session>) -> bool {
    let name = path.trim_start_matches('/');
    let is_own = |session: &Session| session.own_commands().iter().any(|it| it.name == name);
    command_asks_model(registry.list(), path) || session.is_some_and(is_own)
}

fn command_asks_model(commands: &[Command], path: &str) -> bool {
    let path = path.trim_start_matches('/');
    let (name, rest) = path.split_once(' ').unwrap_or((path, ""));
    commands.iter().find(|command| command.name == name).is_some_and(|command| {
        command.asks_model || (!rest.is_empty() && command_asks_model(command.sub_commands, rest))
    })
}

impl SessionContext {
    /// Returns the id of a command's own task.
    fn execution(&self, turn: TurnId) -> String {
        Dialect::V1.task_id(&self.id, turn)
    }
}
