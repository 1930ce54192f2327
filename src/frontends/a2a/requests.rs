//! Parameters of calls, parsed into types. Messages are in `read`.

use serde_json::Value;

use super::contexts::locate::Naming;
use super::fields::{count, field, text};
use super::read::{self, AgentSettings};
use tandem_serve::principals::{DRIVE, SessionRight, WATCH};
use tandem_wire::a2a::{Method, TaskPushNotificationConfig, error};
use tandem_wire::jsonrpc::Error;

/// Default and maximum number of tasks on a page.
pub(super) const PAGE: usize = 50;
pub(super) const LARGEST_PAGE: usize = 100;

/// States that a task can have in the protocol. This server uses only the first six.
const STATES: [&str; 9] = [
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
    "unknown",
];

/// Name by which a call means a session.
#[derive(Debug, Clone, Copy)]
pub(super) enum SessionId<'a> {
    /// The id of a task. The id of a turn's task begins with the id of its context.
    Task(&'a str),
    /// The id of a context, which its client may have chosen.
    Context(&'a str),
    /// The id of a session, as a list has it.
    Session(&'a str),
}

impl<'a> SessionId<'a> {
    /// Returns the session that a call names by a task, or else by a context.
    pub(super) fn of(task: Option<&'a str>, context: Option<&'a str>) -> Option<Self> {
        task.map(Self::Task).or_else(|| context.map(Self::Context))
    }

    /// Returns the id of the context.
    pub(super) fn context(self) -> &'a str {
        match self {
            Self::Task(task) => task.rsplit_once('.').map_or(task, |(context, _)| context),
            Self::Context(id) | Self::Session(id) => id,
        }
    }

    /// Returns the sessions of other owners that the call may mean by a name that their owner chose. A client that
    /// names a context by an id of its own choice may not know of those sessions.
    pub(super) fn naming(self) -> Naming {
        match self {
            Self::Task(_) | Self::Session(_) => Naming::Any,
            Self::Context(_) => Naming::Shared,
        }
    }
}

/// Parameters of a call about a session. Messages are in `read`.
pub(super) enum SessionRequest {
    Task(TaskRequest),
    Command(CommandRequest),
}

impl SessionRequest {
    /// Returns the right that the call needs in its session.
    pub(super) fn right(&self) -> SessionRight {
        match self {
            Self::Task(TaskRequest::Get(_) | TaskRequest::Subscribe(_))
            | Self::Command(CommandRequest::List(_)) => WATCH,
            Self::Task(TaskRequest::Cancel(_)) | Self::Command(CommandRequest::Execute(_)) => DRIVE,
            Self::Task(
                TaskRequest::SetPush(_)
                | TaskRequest::GetPush(_)
                | TaskRequest::ListPush(_)
                | TaskRequest::DeletePush(_),
            ) => SessionRight::Own,
        }
    }

    /// Parses the parameters of a method.
    pub(super) fn read(method: Method, params: &Value) -> Result<Self, Error> {
        Ok(match method {
            Method::Get => Self::Task(TaskRequest::Get(GetTask::read(params)?)),
            Method::Cancel => Self::Task(TaskRequest::Cancel(task_id(params)?)),
            Method::Subscribe => Self::Task(TaskRequest::Subscribe(Subscribe::read(params)?)),
            Method::SetPush => Self::Task(TaskRequest::SetPush(set_push(params)?)),
            Method::GetPush => Self::Task(TaskRequest::GetPush(PushName::read(params)?)),
            Method::ListPush => Self::Task(TaskRequest::ListPush(push_task(params)?)),
            Method::DeletePush => Self::Task(TaskRequest::DeletePush(PushName::read(params)?)),
            Method::Commands => Self::Command(CommandRequest::List(SessionName::read(params)?)),
            Method::Execute => Self::Command(CommandRequest::Execute(Execute::read(params)?)),
            Method::Send | Method::Stream | Method::List | Method::ExtendedCard => {
                return Err(Error::internal("the method is about no session"));
            }
        })
    }

    /// Returns the session that the call names.
    pub(super) fn session(&self) -> Option<SessionId<'_>> {
        match self {
            Self::Task(request) => Some(SessionId::Task(request.task())),
            Self::Command(request) => request.session().id(),
        }
    }
}

/// Parameters of a call about a task.
pub(super) enum TaskRequest {
    Get(GetTask),
    Cancel(String),
    Subscribe(Subscribe),
    SetPush(TaskPushNotificationConfig),
    GetPush(PushName),
    ListPush(String),
    DeletePush(PushName),
}

impl TaskRequest {
    /// Returns the id of the task.
    pub(super) fn task(&self) -> &str {
        match self {
            Self::Get(request) => &request.id,
            Self::Cancel(id) | Self::ListPush(id) => id,
            Self::Subscribe(request) => &request.id,
            Self::SetPush(config) => &config.task_id,
            Self::GetPush(name) | Self::DeletePush(name) => &name.task,
        }
    }
}

/// Parameters of a call about slash commands.
pub(super) enum CommandRequest {
    List(SessionName),
    Execute(Execute),
}

impl CommandRequest {
    fn session(&self) -> &SessionName {
        match self {
            Self::List(session) => session,
            Self::Execute(request) => &request.session,
        }
    }
}

/// Parameters of `tasks/get`.
pub(super) struct GetTask {
    pub(super) id: String,
    /// Maximum number of messages of the history in the response.
    pub(super) history: Option<usize>,
}

impl GetTask {
    pub(super) fn read(params: &Value) -> Result<Self, Error> {
        let history = count(params, &["historyLength", "history_length"])?;
        Ok(Self { id: task_id(params)?, history })
    }
}

/// Parameters of `tasks/resubscribe`.
pub(super) struct Subscribe {
    pub(super) id: String,
    /// The last event that the client has seen.
    pub(super) last_event: Option<String>,
}

impl Subscribe {
    pub(super) fn read(params: &Value) -> Result<Self, Error> {
        let metadata = params.get("metadata");
        let last_event =
            metadata.and_then(|metadata| text(metadata, &["lastEventId", "last_event_id"]));
        Ok(Self { id: task_id(params)?, last_event: last_event.map(ToOwned::to_owned) })
    }
}

/// Parameters of `tasks/list`.
pub(super) struct ListTasks {
    /// Context whose tasks are listed; `None` for all contexts.
    pub(super) context: Option<String>,
    /// State of the listed tasks, spelled as in 0.3.
    pub(super) state: Option<String>,
    /// Time since which the listed tasks have changed.
    pub(super) after: Option<jiff::Timestamp>,
    /// Number of tasks on a page.
    pub(super) size: usize,
    /// Number of tasks on the pages before this one.
    pub(super) from: usize,
    /// Maximum number of messages in each history.
    pub(super) history: usize,
    pub(super) artifacts: bool,
}

impl ListTasks {
    pub(super) fn read(params: &Value) -> Result<Self, Error> {
        let size = count(params, &["pageSize", "page_size"])?.unwrap_or(PAGE);
        if !(1..=LARGEST_PAGE).contains(&size) {
            return Err(error::invalid_params(format!("`pageSize` must be 1 to {LARGEST_PAGE}")));
        }
        let token = text(params, &["pageToken", "page_token"]);
        let from = token.map_or(Ok(0), str::parse).map_err(|_| {
            error::invalid_params("`pageToken` must be the `nextPageToken` of the page before")
        })?;
        let history = count(params, &["historyLength", "history_length"])?.unwrap_or(0);
        let artifacts = field(params, &["includeArtifacts", "include_artifacts"]);
        let artifacts = artifacts.and_then(Value::as_bool).unwrap_or(false);
        let state = text(params, &["status", "state"]).map(self::state);
        if let Some(state) = state.as_deref().filter(|state| !STATES.contains(state)) {
            return Err(error::invalid_params(format!("`{state}` is no state of a task")));
        }
        let after = text(params, &["statusTimestampAfter", "lastUpdatedAfter"]);
        let after = after.map(str::parse).transpose().map_err(|_| {
            error::invalid_params(
                "`statusTimestampAfter` must be a time such as 2026-01-31T12:00:00Z",
            )
        })?;
        let context = text(params, &["contextId", "context_id"]).map(ToOwned::to_owned);
        Ok(Self { context, state, after, size, from, history, artifacts })
    }
}

/// Returns the state that a client names, spelled as in 0.3.
fn state(name: &str) -> String {
    name.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-")
}

/// Returns the parameters of `tasks/pushNotificationConfig/set`.
pub(super) fn set_push(params: &Value) -> Result<TaskPushNotificationConfig, Error> {
    let task = text(params, &["taskId", "task_id"])
        .ok_or_else(|| error::invalid_params("`taskId` must be the id of a task"))?;
    let nested = field(params, &["pushNotificationConfig", "push_notification_config"]);
    let config = read::push_config(nested.unwrap_or(params))?;
    Ok(TaskPushNotificationConfig { task_id: task.to_owned(), config })
}

/// Name of one push configuration.
pub(super) struct PushName {
    pub(super) task: String,
    pub(super) id: String,
}

impl PushName {
    /// Parses the name. In 0.3, `id` is the task's id; in 1.0, it is the configuration's id.
    pub(super) fn read(params: &Value) -> Result<Self, Error> {
        let in_03 = ["pushNotificationConfigId", "push_notification_config_id"];
        let (task, id) = match text(params, &["taskId", "task_id"]) {
            Some(task) => (task.to_owned(), text(params, &["id"])),
            None => (task_id(params)?, None),
        };
        let id = text(params, &in_03).or(id).unwrap_or(read::DEFAULT_PUSH_ID);
        Ok(Self { task, id: id.to_owned() })
    }

    /// Returns the key of the configuration in its session.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.task, self.id)
    }
}

/// Returns the task whose push configurations are listed.
pub(super) fn push_task(params: &Value) -> Result<String, Error> {
    text(params, &["taskId", "task_id"]).map_or_else(|| task_id(params), |id| Ok(id.to_owned()))
}

/// Returns the id of the task that a call names.
pub(super) fn task_id(params: &Value) -> Result<String, Error> {
    let id = text(params, &["id", "taskId", "task_id"]).map(ToOwned::to_owned);
    id.ok_or_else(|| error::invalid_params("`id` must be the id of a task"))
}

/// Session that a call for commands names, and settings for a session that the call begins.
pub(super) struct SessionName {
    pub(super) task: Option<String>,
    pub(super) context: Option<String>,
    pub(super) settings: AgentSettings,
}

impl SessionName {
    /// Returns the session that is named.
    pub(super) fn id(&self) -> Option<SessionId<'_>> {
        SessionId::of(self.task.as_deref(), self.context.as_deref())
    }

    pub(super) fn read(params: &Value) -> Result<Self, Error> {
        Ok(Self {
            task: text(params, &["taskId", "task_id"]).map(ToOwned::to_owned),
            context: text(params, &["contextId", "context_id"]).map(ToOwned::to_owned),
            settings: read::settings(&[params.get("metadata")])?,
        })
    }
}

/// Parameters of `command/execute`.
pub(super) struct Execute {
    pub(super) path: Vec<String>,
    pub(super) args: String,
    pub(super) session: SessionName,
}

impl Execute {
    pub(super) fn read(params: &Value) -> Result<Self, Error> {
        let path = field(params, &["command_path", "commandPath"]).and_then(Value::as_array);
        let path: Option<Vec<String>> = path
            .and_then(|path| path.iter().map(|it| it.as_str().map(ToOwned::to_owned)).collect());
        let path = path.filter(|path| !path.is_empty()).ok_or_else(|| {
            error::invalid_params("`command_path` must name the command: [\"memory\", \"add\"]")
        })?;
        let args = text(params, &["args"]).unwrap_or_default().to_owned();
        Ok(Self { path, args, session: SessionName::read(params)? })
    }
}

/// Body of `POST /executeCommand`.
pub(super) struct ExecuteCommand {
    pub(super) command: String,
    pub(super) args: String,
    pub(super) session: SessionName,
}

impl ExecuteCommand {
    pub(super) fn read(body: &Value) -> Result<Self, Error> {
        let command = text(body, &["command"]);
        let command = command.ok_or_else(|| error::invalid_params("`command` must be a string"))?;
        let args: Option<Vec<&str>> = match field(body, &["args"]) {
            None => Some(Vec::new()),
            Some(args) => args.as_array().and_then(|args| args.iter().map(Value::as_str).collect()),
        };
        let args = args
            .ok_or_else(|| error::invalid_params("`args` must be a list of strings"))?
            .join(" ");
        Ok(Self { command: command.to_owned(), args, session: SessionName::read(body)? })
    }
}
