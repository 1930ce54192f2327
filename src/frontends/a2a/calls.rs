//! Calls: the stages that each call passes, in one place.
//!
//! 1. Parse: the name leads to a method, and the parameters are parsed.
//! 2. Locate: the session that the call names is opened. A call that only the session's owner can carry out goes to the
//!    owner, which checks the caller's right.
//! 3. Authorize: the caller's right in the session is checked, for a call that is carried out here.
//! 4. Apply: the function of the method is called.
//! 5. Stream: the reply is a value or a stream; the transport sends it.
//!
//! Messages have more to find out at each stage, which is in `sending`.

use std::sync::Arc;

use serde_json::Value;

use super::context::SessionContext;
use super::contexts::locate::{self, LocatedTask};
use super::dialect::Dialect;
use super::methods::{Reply, value};
use super::orders::OrderedCall;
use super::read::MessageForm;
use super::requests::{CommandRequest, ListTasks, SessionRequest, TaskRequest};
use super::server::{A2aServer, CallOrigin};
use super::{commands, list, monitoring};
use tandem_agent::sessions::Leased;
use tandem_wire::a2a::{Fields, Method, error};
use tandem_wire::jsonrpc::Error;

impl A2aServer {
    /// Carries out a call, here or at the node that owns the session.
    pub(super) async fn call(
        self: &Arc<Self>,
        name: &str,
        params: Value,
        caller: &CallOrigin,
    ) -> Result<Reply, Error> {
        let (method, dialect) = parse_method(name)?;
        monitoring::note_method(name);
        let params = match params {
            Value::Object(params) => Fields(params),
            Value::Null => Fields::default(),
            _ => return Err(error::invalid_params("`params` must be an object")),
        };
        let reply = match method {
            Method::Send | Method::Stream => self.message(method, params, caller, dialect).await,
            Method::List => self.list(&params, caller, dialect).await,
            Method::ExtendedCard => self.extended_card(dialect),
            _ => self.session_call(name, params, caller).await,
        };
        reply.map_err(|error| dialect.error(error))
    }

    /// Carries out a message that a client has sent as a call.
    async fn message(
        self: &Arc<Self>,
        method: Method,
        params: Fields,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        let message = self.received(MessageForm::Parameters, params)?;
        match method {
            Method::Send => self.send(message, caller, dialect).await,
            _ => self.stream(message, caller, dialect).await.map(Reply::Stream),
        }
    }

    /// Lists tasks. The list reads the sessions that it needs, and loads none.
    async fn list(
        &self,
        params: &Fields,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        let request = ListTasks::read(params)?;
        let contexts = self.contexts.of(&caller.principal);
        contexts.all_caught_up().await;
        list::tasks(contexts, &request, dialect).await.map(Reply::Value)
    }

    /// Carries out a call about a session.
    async fn session_call(
        &self,
        name: &str,
        params: Fields,
        caller: &CallOrigin,
    ) -> Result<Reply, Error> {
        let (method, dialect) = parse_method(name)?;
        let request = SessionRequest::read(method, &params)?;
        let located = self.open(&caller.principal, request.session()).await?;
        if let Some(context) = located.as_ref().filter(|_| needs_owner(method)) {
            if let Some(followed) = context.followed() {
                let call = OrderedCall::Method { name: name.to_owned(), params };
                return self.order(followed, call, caller).await?.value().map(Reply::Value);
            }
            // An earlier message for the session may still be writing its files; this call must come after
            // it.
            drop(self.messages.beginning.lock(&context.id).await);
        }
        let contexts = self.contexts.of(&caller.principal);
        let need = request.right();
        match request {
            SessionRequest::Task(request) => {
                let task = locate::task(located, request.task())?;
                contexts.check(&task.context, need)?;
                self.apply(&request, &task, caller, dialect).await
            }
            SessionRequest::Command(request) => {
                if let Some(context) = &located {
                    contexts.check(context, need)?;
                }
                self.apply_command(&request, located, caller).await
            }
        }
    }

    /// Calls the function of a method that is about a task.
    async fn apply(
        &self,
        request: &TaskRequest,
        task: &LocatedTask,
        caller: &CallOrigin,
        dialect: Dialect,
    ) -> Result<Reply, Error> {
        match request {
            TaskRequest::Get(request) => Ok(Self::get(request, task, dialect).await),
            TaskRequest::Cancel(id) => self.cancel(id, task, caller, dialect).await,
            TaskRequest::Subscribe(request) => {
                Self::subscribe(request, task, caller, dialect).await.map(Reply::Stream)
            }
            TaskRequest::SetPush(config) => {
                self.set_push(config, task, dialect).await.map(Reply::Value)
            }
            TaskRequest::GetPush(name) => Self::get_push(name, task, dialect).map(Reply::Value),
            TaskRequest::ListPush(id) => Ok(Reply::Value(Self::list_push(id, task, dialect))),
            TaskRequest::DeletePush(name) => {
                self.delete_push(name, task).await.map(|()| value(&()))
            }
        }
    }

    /// Calls the function of a method that is about slash commands.
    async fn apply_command(
        &self,
        request: &CommandRequest,
        located: Option<Leased<SessionContext>>,
        caller: &CallOrigin,
    ) -> Result<Reply, Error> {
        match request {
            CommandRequest::List(session) => {
                let known = self.known(session, located);
                let session = known.as_ref().and_then(|context| context.here());
                Ok(value(&commands::all(&self.commands, session)))
            }
            CommandRequest::Execute(request) => {
                self.execute(request, located, caller).await.map(|found| value(&found))
            }
        }
    }
}

/// Returns the method and the version that a name stands for.
fn parse_method(name: &str) -> Result<(Method, Dialect), Error> {
    let (method, version) = Method::named(name)
        .ok_or_else(|| Error::new(Error::METHOD_NOT_FOUND, format!("Method not found: {name}")))?;
    Ok((method, version.into()))
}

/// Returns `true` if only the node that owns the session can carry a method out. Every node can carry out a method that
/// only reads the log, and [`A2aServer::stream`] passes messages on itself.
fn needs_owner(method: Method) -> bool {
    match method {
        Method::Cancel
        | Method::SetPush
        | Method::GetPush
        | Method::ListPush
        | Method::DeletePush
        | Method::Commands
        | Method::Execute => true,
        Method::Send
        | Method::Stream
        | Method::Get
        | Method::Subscribe
        | Method::List
        | Method::ExtendedCard => false,
    }
}
