//! HTTP endpoints of the first server of this kind ("API endpoints" of the server document, which
//! `docs/protocols.md` names).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, LINK, LOCATION};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde::Serialize;
use serde_json::Value;

use super::body::{body, json_response, refused, retry_later};
use super::context::SessionContext;
use super::contexts::locate;
use super::dialect::{Dialect, json};
use super::orders::{BegunCommand, OrderedCall};
use super::requests::{ExecuteCommand, LARGEST_PAGE, MAX_PAGE_TASKS, SessionId, SessionName};
use super::server::{A2aServer, CallOrigin};
use super::subscription::{Span, Subscription};
use super::{commands, read, sse};
use tandem_agent::commands::PathError;
use tandem_agent::session::{PromptPart, ServerStatus, Session};
use tandem_agent::sessions::Leased;
use tandem_serve::principals::Principal;
use tandem_wire::a2a::{Fields, error};
use tandem_wire::jsonrpc::Error;

/// Returns the routes of these endpoints.
pub(super) fn routes() -> Router<Arc<A2aServer>> {
    Router::new()
        .route("/tasks", post(create))
        .route("/tasks/metadata", get(page))
        .route("/tasks/{id}/metadata", get(describe))
        .route("/listCommands", get(list_commands))
        .route("/executeCommand", post(execute))
}

/// Handles a request for which there is no route.
pub(super) async fn not_found() -> Response {
    refused(StatusCode::NOT_FOUND, "Not found")
}

/// Handles `POST /tasks`: creates a session with the given settings, and responds with the id of its task.
async fn create(
    State(server): State<Arc<A2aServer>>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    let body = match json_body(&server, request).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let settings = body.object("agentSettings");
    let settings = match settings.as_ref().map(read::settings_in).transpose() {
        Ok(settings) => settings.flatten().unwrap_or_default(),
        Err(error) => return refusal(&error),
    };
    let id = body.text("contextId");
    let located = server.open(&principal, SessionId::of(None, id)).await;
    let contexts = server.contexts.of(&principal);
    let created = located.and_then(|located| {
        let (context, is_new) = contexts.prompted(located, id, None, &settings)?;
        if !is_new {
            contexts.apply_settings(&context, &settings)?;
        }
        Ok(context)
    });
    match created {
        Ok(context) => {
            let location = format!("{}tasks/{}", server.network.path(), context.id);
            let location = (LOCATION, location);
            let kind = (CONTENT_TYPE, "application/json".to_owned());
            (StatusCode::CREATED, [location, kind], json(&context.id)).into_response()
        }
        Err(error) => refusal(&error),
    }
}

/// Handles `GET /tasks/ID/metadata`.
async fn describe(
    State(server): State<Arc<A2aServer>>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Response {
    let located = match server.open(&principal, Some(SessionId::Task(&id))).await {
        Ok(located) => located,
        Err(error) => return refusal(&error),
    };
    match locate::task(located, &id) {
        Ok(task) => {
            let metadata = TaskDescription::of(&task.context);
            json_response(StatusCode::OK, &BTreeMap::from([("metadata", metadata)]))
        }
        Err(_) => refused(StatusCode::NOT_FOUND, "Task not found"),
    }
}

/// Handles `GET /listCommands`.
async fn list_commands(State(server): State<Arc<A2aServer>>) -> Response {
    let shared = server.contexts.shared().and_then(|context| context.here());
    json_response(StatusCode::OK, &commands::listed(&server.commands, shared))
}

/// Handles `POST /executeCommand`.
async fn execute(
    State(server): State<Arc<A2aServer>>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    let caller = server.caller(request.headers(), principal);
    match json_body(&server, request).await {
        Ok(body) => server.execute_command(&body, &caller).await,
        Err(response) => response,
    }
}

async fn json_body(server: &A2aServer, request: Request) -> Result<Fields, Response> {
    let body = body(server, request).await?;
    let body = serde_json::from_slice::<Value>(&body);
    body.map(Fields::from).map_err(|err| bad(&err.to_string()))
}

/// Returns the response to a request that failed with an error.
fn refusal(error: &Error) -> Response {
    let status = match error.code {
        error::QUOTA_EXCEEDED => StatusCode::TOO_MANY_REQUESTS,
        error::UNAVAILABLE_CODE => StatusCode::SERVICE_UNAVAILABLE,
        Error::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    match error::retry_after(error) {
        Some(after) => retry_later(status, &error.message, after),
        None => refused(status, &error.message),
    }
}

fn bad(why: &str) -> Response {
    refused(StatusCode::BAD_REQUEST, why)
}

/// Handles `GET /tasks/metadata`: lists the tasks by id, one page at a time. `pageSize`: number of tasks;
/// `pageToken`: the last id of the previous page, which that page's headers contain.
async fn page(
    State(server): State<Arc<A2aServer>>,
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Response {
    let query = uri.query().unwrap_or_default();
    let given = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let size = given("pageSize").map_or(Ok(MAX_PAGE_TASKS), |size| size.parse());
    let Some(size) = size.ok().filter(|size| (1..=LARGEST_PAGE).contains(size)) else {
        return bad(&format!("`pageSize` must be 1 to {LARGEST_PAGE}"));
    };
    let visible = server.contexts.of(&principal);
    visible.all_begun().await;
    let mut contexts = visible.all();
    if contexts.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    contexts.sort_by(|a, b| a.id.cmp(&b.id));
    let after = given("pageToken").unwrap_or_default();
    let from = contexts.partition_point(|context| context.id <= after);
    let rest = &contexts[from..];
    let page = &rest[..size.min(rest.len())];
    let mut body = vec![b'['];
    for context in page {
        if body.len() > 1 {
            body.push(b',');
        }
        body.extend_from_slice(&json(&TaskDescription::of(context)));
        // The metadata may be large, so other tasks of the runtime get their turn in between.
        tokio::task::yield_now().await;
    }
    body.push(b']');
    let mut response = (StatusCode::OK, [(CONTENT_TYPE, "application/json")], body).into_response();
    let last = page.last().filter(|_| page.len() < rest.len());
    if let Some(token) = last.map(|context| escaped(&context.id)) {
        let base = server.network.path();
        let next =
            format!("<{base}tasks/metadata?pageSize={size}&pageToken={token}>; rel=\"next\"");
        let headers = response.headers_mut();
        headers.extend(
            [(NEXT_PAGE, token), (LINK, next)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value).ok()?))),
        );
    }
    response
}

/// Returns a text in the form that it has in a query.
fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Header that names the next page.
const NEXT_PAGE: HeaderName = HeaderName::from_static("x-next-page-token");

/// Description of a session's task (server document, "Task metadata").
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskDescription<'a> {
    id: &'a str,
    context_id: &'a str,
    task_state: &'static str,
    model: String,
    mcp_servers: Vec<ServerDescription>,
    available_tools: Vec<ToolDescription>,
}

/// Description of an MCP server.
#[derive(Serialize)]
struct ServerDescription {
    name: String,
    status: &'static str,
    detail: String,
    tools: Vec<ToolDescription>,
}

/// Description of a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolDescription {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_tool_name: Option<String>,
    description: String,
    parameter_schema: Value,
}

impl<'a> TaskDescription<'a> {
    fn of(context: &'a SessionContext) -> Self {
        let session = context.here();
        let tools = session.map(Session::tools);
        let tools = tools.iter().flat_map(|tools| tools.iter()).map(|tool| ToolDescription {
            name: tool.name.clone(),
            server_tool_name: None,
            description: tool.description.clone(),
            parameter_schema: tool.parameters.clone(),
        });
        let servers = session.map(Session::servers).unwrap_or_default();
        Self {
            id: &context.id,
            context_id: &context.id,
            task_state: context.state(None).name(),
            model: context.model(),
            mcp_servers: servers.iter().map(ServerDescription::of).collect(),
            available_tools: tools.collect(),
        }
    }
}

impl ServerDescription {
    fn of(server: &ServerStatus) -> Self {
        let tools = server.offer.tools.iter().zip(&server.tool_names);
        let tools = tools.map(|(tool, name)| ToolDescription {
            name: name.clone(),
            server_tool_name: Some(tool.name.clone()),
            description: tool.description.clone(),
            parameter_schema: tool.parameters.clone(),
        });
        Self {
            name: server.name.clone(),
            status: server.status,
            detail: server.phase.clone(),
            tools: tools.collect(),
        }
    }
}

/// Output of a command.
#[derive(Serialize)]
struct CommandOutput {
    name: String,
    data: String,
}

impl A2aServer {
    /// Runs the command that a body names, and returns its output, or its stream if the command asks the
    /// model.
    pub(super) async fn execute_command(&self, body: &Fields, caller: &CallOrigin) -> Response {
        let named = match SessionName::read(body) {
            Ok(named) => named,
            Err(error) => return refusal(&error),
        };
        let (context, begun) = match self.begin_command(body, caller).await {
            Ok(begun) => begun,
            Err(error) => return refusal(&error),
        };
        let BegunCommand { name, turn, from, asks_model } = begun;
        let (span, reader) = (Span::begun(turn, from, None), caller.principal.clone());
        let events = Subscription::new(&context, span, Dialect::V03, reader);
        if asks_model {
            return sse::response(Some("null".to_owned()), events, self);
        }
        events.end().await;
        let said =
            context.records(|records| records.turn(turn).map(|turn| turn.answers.join("\n")));
        // The session was begun for this command alone, and no client can name it.
        if named.task.is_none() && named.context.is_none() {
            self.contexts.forget(&context).await;
        }
        json_response(StatusCode::OK, &CommandOutput { name, data: said.unwrap_or_default() })
    }

    /// Starts the command that a body names, in the session that the body names, or in a new session.
    pub(super) async fn begin_command(
        &self,
        body: &Fields,
        caller: &CallOrigin,
    ) -> Result<(Leased<SessionContext>, BegunCommand), Error> {
        let request = ExecuteCommand::read(body)?;
        let ExecuteCommand { command: name, args, session: named } = &request;
        let located = self.open(&caller.principal, named.id()).await?;
        if let Some(context) = &located
            && let Some(followed) = context.followed()
        {
            let call = OrderedCall::Command { body: body.clone() };
            let begun = self.order(followed, call, caller).await?.command()?;
            return Ok((context.clone(), begun));
        }
        let known = self.known(named, located.clone());
        let session = known.as_ref().and_then(|context| context.here());
        let asks_model = commands::asks_model(&self.commands, name, session);
        let prompt = self.commands.prompt(&[name], args, session).map_err(|why| {
            let code = match why {
                PathError::Unknown(_) => Error::METHOD_NOT_FOUND,
                PathError::Usage(_) => Error::INVALID_PARAMS,
            };
            Error::new(code, why.to_string())
        })?;
        let prompt = vec![PromptPart::Text(prompt)];
        let (context, room) = self.commanded(named, located, &caller.principal, &prompt)?;
        let turn = self.command(&context, room, prompt, caller).await?;
        let from = context.records(|records| records.turn(turn).map_or(0, |turn| turn.queued.0));
        Ok((context, BegunCommand { name: name.clone(), turn, from, asks_model }))
    }
}
