//! Parameters of calls, parsed into types. Messages are in `read`.

use serde::Deserialize as _;

use super::contexts::locate::Naming;
use super::read::{self, AgentSettings};
use tandem_serve::principals::{DRIVE_RIGHT, SessionRight, WATCH_RIGHT};
use tandem_wire::a2a::{
    DEFAULT_PUSH_ID, Fields, Method, TaskIdParams, TaskPushNotificationConfig, TaskState, error,
};
use tandem_wire::jsonrpc::Error;

/// Default and maximum number of tasks on a page.
pub(super) const MAX_PAGE_TASKS: usize = 50;
pub(super) const LARGEST_PAGE: usize = 100;

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
    /// Returns the session that a call names: by a task, or else by a context.
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
            | Self::Command(CommandRequest::List(_)) => WATCH_RIGHT,
            Self::Task(TaskRequest::Cancel(_)) | Self::Command(CommandRequest::Execute(_)) => {
                DRIVE_RIGHT
            }
            Self::Task(
                TaskRequest::SetPush(_)
                | TaskRequest::GetPush(_)
                | TaskRequest::ListPush(_)
                | TaskRequest::DeletePush(_),
            ) => SessionRight::Own,
        }
    }

    /// Parses the parameters of a method.
    pub(super) fn read(method: Method, params: &Fields) -> Result<Self, Error> {
        Ok(match method {
            Method::Get => Self::Task(TaskRequest::Get(GetTask::read(params)?)),
            Method::Cancel => Self::Task(TaskRequest::Cancel(task_id(params)?)),
            Method::Subscribe => Self::Task(TaskRequest::Subscribe(named_task(params)?)),
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
    Subscribe(TaskIdParams),
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
    pub(super) fn read(params: &Fields) -> Result<Self, Error> {
        let history = params.count("historyLength")?;
        Ok(Self { id: task_id(params)?, history })
    }
}

/// Parameters of `tasks/list`.
pub(super) struct ListTasks {
    /// Context whose tasks are listed; `None` for all contexts.
    pub(super) context: Option<String>,
    /// State of the listed tasks.
    pub(super) state: Option<TaskState>,
    /// Time since which the listed tasks have changed.
    pub(super) after: Option<jiff::Timestamp>,
    /// Number of tasks on a page.
    pub(super) size: usize,
    /// Number of tasks on the earlier pages.
    pub(super) from: usize,
    /// Maximum number of messages in each history.
    pub(super) history: usize,
    pub(super) artifacts: bool,
}

impl ListTasks {
    pub(super) fn read(params: &Fields) -> Result<Self, Error> {
        let size = params.count("pageSize")?.unwrap_or(MAX_PAGE_TASKS);
        if !(1..=LARGEST_PAGE).contains(&size) {
            return Err(error::invalid_params(format!("`pageSize` must be 1 to {LARGEST_PAGE}")));
        }
        let token = params.text("pageToken");
        let from = token.map_or(Ok(0), str::parse).map_err(|_| {
            error::invalid_params("`pageToken` must be the `nextPageToken` of the page before")
        })?;
        let history = params.count("historyLength")?.unwrap_or(0);
        let artifacts = params.flag("includeArtifacts").unwrap_or(false);
        let state = params.text("status").or_else(|| params.text("state"));
        let state = state.map(|name| {
            let unknown = || error::invalid_params(format!("`{name}` is not a state of a task"));
            TaskState::named(name).ok_or_else(unknown)
        });
        let state = state.transpose()?;
        let after = params.text("statusTimestampAfter");
        let after = after.or_else(|| params.text("lastUpdatedAfter"));
        let after = after.map(str::parse).transpose().map_err(|_| {
            error::invalid_params(
                "`statusTimestampAfter` must be a time such as 2026-01-31T12:00:00Z",
            )
        })?;
        let context = params.text("contextId").map(ToOwned::to_owned);
        Ok(Self { context, state, after, size, from, history, artifacts })
    }
}

/// Returns the parameters of `tasks/pushNotificationConfig/set`.
pub(super) fn set_push(params: &Fields) -> Result<TaskPushNotificationConfig, Error> {
    let set = TaskPushNotificationConfig::from(params.clone());
    if set.task_id.is_empty() {
        return Err(error::invalid_params("`taskId` must be the id of a task"));
    }
    read::check_address(&set.config)?;
    Ok(set)
}

/// Name of one push configuration.
pub(super) struct PushName {
    pub(super) task: String,
    pub(super) id: String,
}

impl PushName {
    /// Parses the name. In 0.3, `id` is the task's id; in 1.0, it is the configuration's id.
    pub(super) fn read(params: &Fields) -> Result<Self, Error> {
        let (task, id) = match params.text("taskId") {
            Some(task) => (task.to_owned(), params.text("id")),
            None => (task_id(params)?, None),
        };
        let id = params.text("pushNotificationConfigId").or(id).unwrap_or(DEFAULT_PUSH_ID);
        Ok(Self { task, id: id.to_owned() })
    }

    /// Returns the key of the configuration in its session.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.task, self.id)
    }
}

/// Returns the task whose push configurations are listed.
pub(super) fn push_task(params: &Fields) -> Result<String, Error> {
    params.text("taskId").map_or_else(|| task_id(params), |id| Ok(id.to_owned()))
}

/// Returns the id of the task that a call names.
pub(super) fn task_id(params: &Fields) -> Result<String, Error> {
    named_task(params).map(|params| params.id)
}

/// Returns the parameters of a call about a task.
fn named_task(params: &Fields) -> Result<TaskIdParams, Error> {
    let params = TaskIdParams::from(params.clone());
    if params.id.is_empty() {
        return Err(error::invalid_params("`id` must be the id of a task"));
    }
    Ok(params)
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

    pub(super) fn read(params: &Fields) -> Result<Self, Error> {
        Ok(Self {
            task: params.text("taskId").map(ToOwned::to_owned),
            context: params.text("contextId").map(ToOwned::to_owned),
            settings: read::settings(&[&params.object("metadata").unwrap_or_default()])?,
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
    pub(super) fn read(params: &Fields) -> Result<Self, Error> {
        let path = params.value("commandPath").and_then(|path| Vec::deserialize(path).ok());
        let path: Option<Vec<String>> = path;
        let path = path.filter(|path| !path.is_empty()).ok_or_else(|| {
            error::invalid_params("`command_path` must name the command: [\"memory\", \"add\"]")
        })?;
        let args = params.text("args").unwrap_or_default().to_owned();
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
    pub(super) fn read(body: &Fields) -> Result<Self, Error> {
        let command = body.text("command");
        let command = command.ok_or_else(|| error::invalid_params("`command` must be a string"))?;
        let args: Option<Vec<String>> = match body.value("args") {
            None => Some(Vec::new()),
            Some(args) => Vec::deserialize(args).ok(),
        };
        let args = args
            .ok_or_else(|| error::invalid_params("`args` must be a list of strings"))?
            .join(" ");
        Ok(Self { command: command.to_owned(), args, session: SessionName::read(body)? })
    }
}
