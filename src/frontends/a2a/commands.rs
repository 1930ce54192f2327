//! Slash commands for clients: what there is, and running one (RFC 3.3; `a2a-server.md`, "Custom
//! endpoints").

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::context::Context;
use super::dialect::Dialect;
use super::methods::Caller;
use super::rest::json_response;
use super::subscription::{Span, Subscription};
use super::{Server, read, sse, turns};
use tandem_agent::commands::{Argument, Command, PathError, Registry};
use tandem_agent::session::{PromptPart, PromptTags, Session, SessionCommand, TurnId};
use tandem_wire::a2a::Error;

/// `commands/get`.
pub(super) fn all(registry: &Registry, session: Option<&Session>) -> Value {
    let commands = registry.list().iter().map(command).chain(own(session));
    json!({ "commands": commands.collect::<Vec<_>>() })
}

/// The commands that only this session has.
fn own(session: Option<&Session>) -> Vec<Value> {
    session.map(Session::own_commands).unwrap_or_default().iter().map(own_command).collect()
}

fn own_command(command: &SessionCommand) -> Value {
    let arguments = command.arguments.iter().map(|argument| {
        json!({
            "name": argument.name,
            "description": argument.description,
            "is_required": argument.is_required,
            "isRequired": argument.is_required,
        })
    });
    json!({
        "name": command.name,
        "description": command.description,
        "arguments": arguments.collect::<Vec<_>>(),
        "sub_commands": [],
        "subCommands": [],
    })
}

fn command(command: &Command) -> Value {
    let arguments: Vec<_> = command.arguments.iter().map(argument).collect();
    let sub_commands: Vec<_> = command.sub_commands.iter().map(self::command).collect();
    json!({
        "name": command.name,
        "description": command.description,
        "arguments": arguments,
        "sub_commands": sub_commands,
        "subCommands": sub_commands,
    })
}

fn argument(argument: &Argument) -> Value {
    json!({
        "name": argument.name,
        "description": argument.description,
        "is_required": argument.is_required,
        "isRequired": argument.is_required,
    })
}

/// `GET /listCommands`: the same, named by their whole paths.
pub(super) fn listed(registry: &Registry, session: Option<&Session>) -> Value {
    let commands = registry.list().iter().map(|command| full(command, ""));
    let commands = commands.chain(own(session));
    json!({ "commands": commands.collect::<Vec<_>>() })
}

fn full(command: &Command, above: &str) -> Value {
    let name = format!("{above}{}", command.name);
    let below = format!("{name} ");
    let sub_commands: Vec<_> = command.sub_commands.iter().map(|it| full(it, &below)).collect();
    json!({
        "name": name,
        "description": command.description,
        "arguments": command.arguments.iter().map(argument).collect::<Vec<_>>(),
        "subCommands": sub_commands,
    })
}

impl Server {
    /// `command/execute`: begins a command; what comes of it are updates of the task
    /// `execution_id`.
    pub(super) fn execute(&self, params: &Value, caller: &Caller) -> Result<Value, Error> {
        let path = read::field(params, &["command_path", "commandPath"]).and_then(Value::as_array);
        let path: Option<Vec<&str>> =
            path.and_then(|path| path.iter().map(Value::as_str).collect());
        let path = path.filter(|path| !path.is_empty()).ok_or_else(|| {
            Error::invalid_params("`command_path` must name the command: [\"memory\", \"add\"]")
        })?;
        let args = read::text(params, &["args"]).unwrap_or_default();
        let named = read::text(params, &["contextId", "context_id"]);
        let named = named.filter(|_| read::text(params, &["taskId", "task_id"]).is_none());
        let unknown = self.contexts.unknown(named);
        let known = self.known(params);
        let session = known.as_ref().map(|context| &*context.session);
        let (id, status, message) = match self.commands.prompt(&path, args, session) {
            Ok(prompt) => {
                let context = self.commanded(params)?;
                let turn = context.execute(prompt, caller);
                (context.execution(turn), "STARTED", String::new())
            }
            Err(why) => (String::new(), "FAILED_TO_START", why.to_string()),
        };
        let mut response = json!({
            "execution_id": id, "executionId": id, "status": status, "message": message,
        });
        if let Some(unknown) = unknown {
            response["metadata"] = json!({ "unknownContext": unknown });
        }
        Ok(response)
    }

    /// `POST /executeCommand`.
    pub(super) async fn execute_command(&self, body: &Value, caller: &Caller) -> Response {
        let failed = |status, why: String| json_response(status, &json!({ "error": why }));
        let Some(name) = read::text(body, &["command"]) else {
            return failed(StatusCode::BAD_REQUEST, "`command` must be a string".to_owned());
        };
        let args = match read::field(body, &["args"]) {
            None => Some(Vec::new()),
            Some(args) => args.as_array().and_then(|args| args.iter().map(Value::as_str).collect()),
        };
        let Some(args) = args else {
            return failed(StatusCode::BAD_REQUEST, "`args` must be a list of strings".to_owned());
        };
        let known = self.known(body);
        let session = known.as_ref().map(|context| &*context.session);
        let asks_model = asks_model(&self.commands, name, session);
        let prompt = match self.commands.prompt(&[name], &args.join(" "), session) {
            Ok(prompt) => prompt,
            Err(why @ PathError::Unknown(_)) => {
                return failed(StatusCode::NOT_FOUND, why.to_string());
            }
            Err(why @ PathError::Usage(_)) => {
                return failed(StatusCode::BAD_REQUEST, why.to_string());
            }
        };
        let context = match self.commanded(body) {
            Ok(context) => context,
            Err(error) => return failed(StatusCode::BAD_REQUEST, error.message.into_owned()),
        };
        let turn = context.execute(prompt, caller);
        let queued = context.story(|story| story.turn(turn).map_or(0, |turn| turn.queued.0));
        let events = Subscription::new(&context, Span::begun(turn, queued, None), Dialect::V03);
        if asks_model {
            return sse::response("null".to_owned(), events, self.over.clone());
        }
        events.end().await;
        let said = context.story(|story| story.turn(turn).map(|turn| turn.answers.join("\n")));
        if !names_session(body) {
            self.contexts.forget(&context);
        }
        json_response(StatusCode::OK, &json!({ "name": name, "data": said.unwrap_or_default() }))
    }

    /// The session that a call names, or the shared one, if there is one already.
    pub(super) fn known(&self, params: &Value) -> Option<Arc<Context>> {
        match read::text(params, &["taskId", "task_id"]) {
            Some(task) => self.contexts.task(task).ok().map(|(context, _)| context),
            None => self.contexts.find(read::text(params, &["contextId", "context_id"])),
        }
    }

    /// The session in which a command is to run.
    fn commanded(&self, params: &Value) -> Result<Arc<Context>, Error> {
        self.check_open()?;
        let context = if let Some(task) = read::text(params, &["taskId", "task_id"]) {
            self.contexts.task(task)?.0
        } else {
            let id = read::text(params, &["contextId", "context_id"]);
            self.contexts.context(id, &read::settings(&[params.get("metadata")]))?
        };
        turns::check_room(&context.session)?;
        Ok(context)
    }
}

/// Whether a call says for which session it is. If not, nobody knows of the one that it gets.
fn names_session(params: &Value) -> bool {
    read::text(params, &["taskId", "task_id", "contextId", "context_id"]).is_some()
}

/// Whether the command at a path streams.
fn asks_model(registry: &Registry, path: &str, session: Option<&Session>) -> bool {
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

impl Context {
    /// Runs a command in a task of its own.
    fn execute(&self, prompt: String, caller: &Caller) -> TurnId {
        let tags = PromptTags { key: None, own_task: true };
        let prompt = vec![PromptPart::Text(prompt)];
        self.session.prompt_tagged(prompt, caller.origin.clone(), tags)
    }

    /// The id of the task that a command has for itself.
    fn execution(&self, turn: TurnId) -> String {
        Dialect::V1.task_id(&self.id, turn)
    }
}
