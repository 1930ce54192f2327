//! The HTTP+JSON binding of A2A 1.0 (section 11): a URL for each method.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Path, Request};
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on};
use axum::{RequestExt as _, Router};
use serde_json::Value;

use super::body::body;
use super::card::HTTP_JSON;
use super::methods::Reply;
use super::server::{A2aServer, CallOrigin};
use super::{dialect, sse};
use tandem_serve::principals::Principal;
use tandem_wire::a2a::{self, Fields, MethodAddress, ProtocolVersion, RpcStatus, Verb, error};
use tandem_wire::jsonrpc::Error;

/// Media type of the binding's bodies (section 11.1).
const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// Media type of this binding only (section 14.1.1), which the responses in the specification's examples
/// have.
const A2A_JSON: HeaderValue = HeaderValue::from_static("application/a2a+json");

/// Maximum size in bytes of a refusal in plain text.
const LONGEST_REFUSAL: usize = 4 << 10;

/// Path of a task. A path with more behind the id names an action, which the router takes as part of the id.
const TASK_PATH: &str = "/tasks/{id}";

/// Returns the routes of the binding, to be nested at [`HTTP_JSON`].
pub(super) fn routes() -> Router<Arc<A2aServer>> {
    let routes = Router::new().route(TASK_PATH, get(Call::on_task).post(Call::on_task));
    let routes = a2a::Method::all().fold(routes, |routes, method| match method.address() {
        Some(MethodAddress { verb, path }) if !path.starts_with(TASK_PATH) => {
            routes.route(path, on(filter(verb), move |call: Call| call.carry_out(method)))
        }
        _ => routes,
    });
    routes.fallback(async || failure(&Error::new(Error::METHOD_NOT_FOUND, "there is no such path")))
}

fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Delete => MethodFilter::DELETE,
    }
}

/// A request of the binding, read as a call of a method.
struct Call {
    server: Arc<A2aServer>,
    caller: CallOrigin,
    verb: Method,
    /// The fields of the body or of the query, together with those of the path.
    params: Fields,
}

impl FromRequest<Arc<A2aServer>> for Call {
    type Rejection = Response;

    async fn from_request(
        mut request: Request,
        server: &Arc<A2aServer>,
    ) -> Result<Self, Self::Rejection> {
        check_version(request.headers(), request.uri()).map_err(|error| failure(&error))?;
        let principal = request.extensions_mut().remove::<Principal>();
        let principal = principal.ok_or_else(|| {
            failure(&Error::new(Error::INTERNAL_ERROR, "the caller of the request is not known"))
        })?;
        let caller = server.caller(request.headers(), principal);
        let path = request.extract_parts::<Path<Vec<(String, String)>>>().await;
        let Path(path) = path.map_err(|err| failure(&error::invalid_params(err.body_text())))?;
        let verb = request.method().clone();
        let params = if verb == Method::POST {
            body_params(&body(server, request).await?)
        } else {
            query_params(request.uri())
        };
        let mut params = params.map_err(|error| failure(&error))?;
        params.0.extend(path.into_iter().map(|(name, value)| (name, Value::String(value))));
        Ok(Self { server: Arc::clone(server), caller, verb, params })
    }
}

impl Call {
    /// Carries out the method that the end of a task's path names: `tasks/ID`, `tasks/ID:cancel` or
    /// `tasks/ID:subscribe`. The specification has `subscribe` under both verbs.
    async fn on_task(mut self) -> Response {
        let path = self.params.text("id").unwrap_or_default();
        let (id, action) = path.rsplit_once(':').unwrap_or((path, ""));
        let is_named = |method: &a2a::Method| {
            let path = method.address().and_then(|address| address.path.strip_prefix(TASK_PATH));
            let is_verb = self.verb == Method::POST || method.streams();
            is_verb && path.and_then(|path| path.strip_prefix(':')) == Some(action)
        };
        let Some(method) = a2a::Method::all().find(is_named) else {
            if self.verb == Method::POST {
                let message = "a task has only the actions `:cancel` and `:subscribe`";
                return failure(&Error::new(Error::METHOD_NOT_FOUND, message));
            }
            // The text after the colon is no action: an id may itself contain a colon.
            return self.carry_out(a2a::Method::Get).await;
        };
        let id = id.into();
        self.params.0.insert("id".to_owned(), id);
        self.carry_out(method).await
    }

    /// Carries out a method of A2A 1.0.
    async fn carry_out(self, method: a2a::Method) -> Response {
        let Self { server, caller, verb, params } = self;
        let name = method.name(ProtocolVersion::V1);
        match server.call(name, params.0.into(), &caller).await {
            // The response to a deletion is an empty message.
            Ok(Reply::Value(_)) if verb == Method::DELETE => json(StatusCode::OK, "{}"),
            Ok(Reply::Value(value)) => json(StatusCode::OK, value),
            Ok(Reply::Stream(streaming)) => sse::response(None, streaming.subscribe(), &server),
            Err(error) => failure(&error),
        }
    }
}

/// Fails unless the request names version 1.0, in a header or in its query. A request without a version is
/// one of 0.3 (section 3.6.2), and the form that this binding has in 0.3 is not supported.
fn check_version(headers: &HeaderMap, uri: &Uri) -> Result<(), Error> {
    let version = dialect::version(headers).or_else(|| {
        let query = uri.query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == "A2A-Version").map(|(_, version)| version.into_owned())
    });
    if version.is_some_and(|version| version.split('.').next() == Some("1")) {
        return Ok(());
    }
    let message = "these addresses are for A2A 1.0: send the header `A2A-Version: 1.0`";
    Err(Error::new(error::VERSION_NOT_SUPPORTED, message))
}

/// Parses a body. The body may be missing if the path has all parameters.
fn body_params(body: &[u8]) -> Result<Fields, Error> {
    if body.is_empty() {
        return Ok(Fields::default());
    }
    let params = serde_json::from_slice(body);
    let params = params
        .map_err(|err| Error::new(Error::PARSE_ERROR, format!("the body is not JSON: {err}")))?;
    match params {
        Value::Object(params) => Ok(Fields(params)),
        _ => Err(error::invalid_params("the body must be an object")),
    }
}

/// Parses a query, in which all values are strings (section 11.5).
fn query_params(uri: &Uri) -> Result<Fields, Error> {
    let query = uri.query().unwrap_or_default();
    let pairs = form_urlencoded::parse(query.as_bytes()).map(|(name, value)| {
        let value = match &*name {
            // Values that are no numbers stay strings, and the method refuses them.
            "historyLength" | "pageSize" => {
                value.parse::<u64>().map_or_else(|_| Value::String(value.into()), Value::from)
            }
            "includeArtifacts" => Value::Bool(value.parse().map_err(|_| {
                error::invalid_params("`includeArtifacts` must be `true` or `false`")
            })?),
            _ => Value::String(value.into()),
        };
        Ok((name.into_owned(), value))
    });
    pairs.collect::<Result<_, _>>().map(Fields)
}

/// Returns the response to a call that failed.
fn failure(error: &Error) -> Response {
    let status = RpcStatus::of(error);
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, status.body());
    if let Some(after) = error::retry_after(error) {
        response.headers_mut().insert(RETRY_AFTER, after.into());
    }
    response
}

fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, A2A_JSON)], body.into()).into_response()
}

/// Returns the media type of the response: that of this binding if the client names it.
fn answer_type(headers: &HeaderMap) -> HeaderValue {
    let own = A2A_JSON;
    let is_named = |value: &HeaderValue| {
        let mut places = value.as_bytes().windows(own.len());
        places.any(|place| place.eq_ignore_ascii_case(own.as_bytes()))
    };
    let mut named = headers.get_all(ACCEPT).into_iter().chain(headers.get(CONTENT_TYPE));
    if named.any(is_named) { A2A_JSON } else { JSON_TYPE }
}

/// Gives the responses of this binding the media type that the client accepts. Refusals from before a method
/// is called (by the guard, a limit, or for a wrong verb) get the error form of this binding.
pub(super) async fn answers(request: Request, next: Next) -> Response {
    let path = request.uri().path().strip_prefix(HTTP_JSON);
    if !path.is_some_and(|path| path.starts_with('/')) {
        return next.run(request).await;
    }
    let kind = answer_type(request.headers());
    let mut response = next.run(request).await;
    let status = response.status();
    if response.headers().get(CONTENT_TYPE) == Some(&A2A_JSON) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
        return response;
    }
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let body = to_bytes(body, LONGEST_REFUSAL).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body).trim().to_owned();
    // Some refusals are JSON in the form of the other endpoints.
    let said = serde_json::from_str::<Fields>(&body).ok();
    let said = said.as_ref().and_then(|said| said.text("error"));
    let reason = status.canonical_reason().unwrap_or("refused");
    let message = said.or(Some(&*body)).filter(|message| !message.is_empty()).unwrap_or(reason);
    let body = RpcStatus::refused(status.as_u16(), message.to_owned()).body();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, kind);
    Response::from_parts(head, body.into())
}
