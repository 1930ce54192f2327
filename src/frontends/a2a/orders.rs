//! Calls for sessions that other nodes own.
//!
//! A node that is asked to act in a session that another node owns stores the call as an order, unchanged,
//! together with the caller. The owner carries the order out (`order_executor`).

use std::collections::HashMap;
use std::net::IpAddr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::context::{SessionContext, UnknownContext};
use super::read::MessageForm;
use super::server::{A2aServer, CallOrigin};
use super::subscription::{Span, Streaming};
use tandem_agent::session::{FollowedSession, Origin, StoreError, TurnId};
use tandem_serve::audit::client_address;
use tandem_serve::principals::Principal;
use tandem_trace::TraceContext;
use tandem_wire::a2a::Fields;
use tandem_wire::jsonrpc::Error;

/// A call that the owner of a session is to carry out.
#[derive(Serialize, Deserialize)]
pub(super) enum OrderedCall {
    /// A method with a single result.
    Method { name: String, params: Fields },
    /// A message; its result is a stream.
    Message { form: MessageForm, params: Fields, dialect: String },
    /// `POST /executeCommand`.
    Command { body: Fields },
    /// A call of an attached terminal.
    Terminal(TerminalCall),
}

/// A call of a terminal that has attached to a session that another node owns.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TerminalCall {
    /// The session's own id.
    pub(super) session: String,
    pub(super) method: String,
    pub(super) params: Value,
    /// Name of the terminal.
    pub(super) terminal: String,
}

impl TerminalCall {
    pub(super) fn new(
        context: &SessionContext,
        method: &str,
        terminal: &str,
        params: Value,
    ) -> Self {
        let (session, method) = (context.session_id().to_owned(), method.to_owned());
        Self { session, method, params, terminal: terminal.to_owned() }
    }
}

/// An order: a call together with its caller.
#[derive(Serialize, Deserialize)]
pub(super) struct CallOrder {
    pub(super) call: OrderedCall,
    pub(super) principal: Principal,
    pub(super) origin: Origin,
    /// The client's address, if known.
    pub(super) address: Option<IpAddr>,
    /// Trace context, as the header fields that carry it.
    pub(super) trace: HashMap<String, String>,
}

/// Reply to an order, written by the owner that carried it out.
#[derive(Serialize, Deserialize)]
pub(super) enum OrderReply {
    Value(Box<RawValue>),
    Stream(BegunStream),
    Command(BegunCommand),
    Failed(Error),
}

/// A command that was begun.
#[derive(Serialize, Deserialize)]
pub(super) struct BegunCommand {
    pub(super) name: String,
    pub(super) turn: TurnId,
    /// Log index from which on the events of the command come.
    pub(super) from: usize,
    /// `true` if the command asks the model. Then its result is a stream.
    pub(super) asks_model: bool,
}

/// A stream that the owner has begun. The events themselves are read from the log at this node.
#[derive(Serialize, Deserialize)]
pub(super) struct BegunStream {
    span: Span,
    /// The first event of the stream, which a span does not include when it is serialized.
    first: Option<String>,
    unknown: Option<UnknownContext>,
}

impl BegunStream {
    pub(super) fn of(streaming: Streaming) -> Self {
        let Streaming { mut span, unknown, .. } = streaming;
        let first = span.first.take().map(|json| String::from_utf8_lossy(&json).into_owned());
        Self { span, first, unknown }
    }
}

impl OrderReply {
    pub(super) fn of(result: Result<Self, Error>) -> Self {
        result.unwrap_or_else(Self::Failed)
    }

    pub(super) fn of_value(value: &impl Serialize) -> Result<Self, Error> {
        serde_json::value::to_raw_value(value).map(Self::Value).map_err(Error::internal)
    }

    /// Returns the result of a method.
    pub(super) fn value(self) -> Result<Bytes, Error> {
        match self {
            Self::Value(value) => Ok(Bytes::from(String::from(Box::<str>::from(value)))),
            other => Err(other.error()),
        }
    }

    /// Returns the result of a call of a terminal.
    pub(super) fn parse<T: DeserializeOwned>(self) -> Result<T, Error> {
        match self {
            Self::Value(value) => serde_json::from_str(value.get()).map_err(Error::internal),
            other => Err(other.error()),
        }
    }

    /// Returns the stream of a message.
    pub(super) fn stream(self) -> Result<(Span, Option<UnknownContext>), Error> {
        match self {
            Self::Stream(BegunStream { span, first, unknown }) => {
                Ok((Span { first: first.map(Bytes::from), ..span }, unknown))
            }
            other => Err(other.error()),
        }
    }

    /// Returns the command that was begun.
    pub(super) fn command(self) -> Result<BegunCommand, Error> {
        match self {
            Self::Command(begun) => Ok(begun),
            other => Err(other.error()),
        }
    }

    fn error(self) -> Error {
        match self {
            Self::Failed(error) => error,
            _ => Error::internal("the owner of the session has replied to another call"),
        }
    }
}

/// Returns the error for a call or a reply that cannot be parsed because a node of another version wrote it.
pub(super) fn other_version(what: &str, error: &serde_json::Error) -> Error {
    let message = format!(
        "the owner of the session is a node of another version of tandem: {what} ({error}); try again when all \
         nodes have the same version"
    );
    Error::new(Error::INTERNAL_ERROR, message)
}

impl A2aServer {
    /// Has the owner of a session carry out a call. When this returns, the effects of the call can be read at
    /// this node.
    pub(super) async fn order(
        &self,
        session: &FollowedSession,
        call: OrderedCall,
        caller: &CallOrigin,
    ) -> Result<OrderReply, Error> {
        // The call came as an order itself, because this node owned the session until just now: the next
        // owner carries the order out, so it must not be passed on.
        if caller.order.is_some() {
            return Err(self.contexts.store_error(&StoreError::TakenOver));
        }
        let (principal, origin) = (caller.principal.clone(), caller.origin.clone());
        let trace = TraceContext::current().fields();
        let order = CallOrder { call, principal, origin, address: client_address(), trace };
        let order = serde_json::to_string(&order).map_err(Error::internal)?;
        let failed = |error: StoreError| self.contexts.store_error(&error);
        let reply = session.ask(order).await.map_err(failed)?;
        session.caught_up().await.map_err(failed)?;
        match serde_json::from_str(&reply) {
            Ok(OrderReply::Failed(error)) => Err(error),
            Ok(reply) => Ok(reply),
            Err(error) => Err(other_version(
                "it has carried out the request, and this node cannot read its reply",
                &error,
            )),
        }
    }
}
