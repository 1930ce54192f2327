//! What the API's errors mean: for people, and for whether to try again.

use std::time::Duration;

use serde_json::Value;

use crate::model::http;
use crate::model::retry::{self, Advice, Failure};
use crate::model::words::{rounded, shortened};
use crate::model::{Error, ToolDeclaration};

/// Nested deeper than this, a schema is suspected when the API finds one too deep.
const DEEP: usize = 12;

/// What was asked, for messages.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) model: &'a str,
    pub(super) tools: &'a [ToolDeclaration],
}

/// An error as the API reports it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    /// The HTTP status, or what would have been it.
    pub(super) code: u16,
    pub(super) message: String,
    /// What a `retry-after` header says.
    pub(super) retry_after: Option<Duration>,
    details: Vec<Value>,
}

/// A request that failed, or an answer that makes no sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The request, or the connection.
    Failed(Failure),
    /// The signatures of earlier answers are not accepted.
    Signatures(Error),
    /// The model is unknown.
    NoModel(Error),
    /// The stream is not what the API promises.
    Garbled(Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Trouble {
    pub(super) fn terminal(error: Error) -> Self {
        Self::Failed(Failure::terminal(error))
    }

    /// The error without any hope.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Failed(Failure { error, .. })
            | Self::Signatures(error)
            | Self::NoModel(error)
            | Self::Garbled(error) => error,
        }
    }
}

impl Report {
    /// Reads the body of an error, whatever it is: the usual object, a list with one, or no JSON.
    pub(super) fn read(status: Option<u16>, body: &[u8]) -> Self {
        let body = &body[..body.len().min(http::ERROR_BODY)];
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            let message = String::from_utf8_lossy(body);
            let code = status.unwrap_or(500);
            return Self { code, message: shortened(&message), ..Self::default() };
        };
        let json = json.get(0).unwrap_or(&json);
        let error = json.get("error").unwrap_or(json);
        let text = |field: &str| error.get(field).and_then(Value::as_str);
        let message = text("message").or(error.as_str()).unwrap_or_default();
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| code.try_into().ok());
        let details = error.get("details").and_then(Value::as_array).cloned();
        Self {
            code: status.or(code).unwrap_or_else(|| http_status(text("status"))),
            message: shortened(message),
            retry_after: None,
            details: details.unwrap_or_default(),
        }
    }

    /// What it means.
    pub(super) fn meaning(&self, asked: Asked<'_>) -> Trouble {
        match self.code {
            400 => self.bad_request(asked),
            401 => self.unauthenticated(),
            402 => self.terminal(Error::RateLimited, "There is no credit left on this account."),
            403 => self.forbidden(),
            404 => Trouble::NoModel(Error::Rejected(
                self.said(&format!("There is no model `{}` here, or not for you.", asked.model)),
            )),
            413 => self.terminal(
                Error::ContextTooLong,
                "The conversation is too big for one request. Compress it with /compress.",
            ),
            429 => self.too_many(asked).into(),
            408 | 499 | 500..=599 => self.server_error().into(),
            300..=399 => self.terminal(
                Error::Rejected,
                "The API's address redirects to another one, where a key is not sent. If you \
                 trust it, configure that address.",
            ),
            code => self.terminal(
                Error::Rejected,
                &format!("The API did not accept the request (HTTP {code})."),
            ),
        }
    }

    fn bad_request(&self, asked: Asked<'_>) -> Trouble {
        let message = self.message.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if self.reason() == Some("API_KEY_INVALID")
            || says(&["api key not valid", "api key expired"])
        {
            return self.unauthenticated();
        }
        if says(&["thought signature", "thought_signature", "thoughtsignature"]) {
            let what = "The API does not accept the signatures of the model's earlier thoughts.";
            return Trouble::Signatures(Error::Rejected(self.said(what)));
        }
        if says(&["exceeds the maximum number of tokens"]) {
            let what = "The conversation is longer than the model can take. Compress it with \
                        /compress.";
            return self.terminal(Error::ContextTooLong, what);
        }
        let what = if says(&["schema depth"]) {
            format!("A tool's schema is nested too deep, or in a circle.{}", suspects(asked.tools))
        } else if let Some(tool) = declaration(&message, asked.tools) {
            format!("The API does not accept the declaration of the tool `{tool}`; leave it out.")
        } else if says(&["function response part", "function call turn", "function response turn"])
        {
            "The API finds the conversation's calls and their results out of order. That is a \
             fault of tandem: please report it. A new conversation will work."
                .to_owned()
        } else if says(&["location is not supported"]) {
            "The API is not offered where you are.".to_owned()
        } else {
            "The API did not accept the request.".to_owned()
        };
        self.terminal(Error::Rejected, &what)
    }

    fn unauthenticated(&self) -> Trouble {
        self.terminal(
            Error::NotAuthenticated,
            "The API key is not accepted. Run `tandem login`, or set another key; keys are made \
             at https://aistudio.google.com/apikey.",
        )
    }

    fn forbidden(&self) -> Trouble {
        match self.reason() {
            Some("SERVICE_DISABLED") => {
                let url = self.metadata("activationUrl").unwrap_or("the Google Cloud console");
                let what = format!(
                    "The API is not enabled for the key's project. Enable it at {url}, wait a few \
                     minutes, and try again."
                );
                self.terminal(Error::NotAuthenticated, &what)
            }
            Some(reason) if reason.starts_with("API_KEY_") => self.terminal(
                Error::NotAuthenticated,
                &format!(
                    "The API key may not be used for this ({reason}). Change its restrictions in \
                     the Google Cloud console, or use another key."
                ),
            ),
            _ => self.terminal(Error::Rejected, "The API does not allow this with your key."),
        }
    }

    fn too_many(&self, asked: Asked<'_>) -> Failure {
        let quotas: Vec<&str> = self.quotas().collect();
        let named = quotas.first().map(|id| format!(" ({})", quota_name(id))).unwrap_or_default();
        let advice = quotas.iter().map(|id| retry::quota(id));
        let never = advice.clone().any(|advice| advice == Advice::Never);
        if never || has_no_quota(&self.message) {
            let what = if never {
                format!(
                    "The daily quota{named} is used up. Go on tomorrow, with another model, or \
                     with a key that has more."
                )
            } else {
                format!("The model `{}` is not part of this key's plan.", asked.model)
            };
            return Failure::terminal(Error::RateLimited(self.said(&what)));
        }
        let wait = self.retry_info().or(self.retry_after).or(retry::asked_for(&self.message));
        let until = wait.map(|wait| format!(" It takes requests again in {}.", rounded(wait)));
        let what = format!("The API's rate limit is reached{named}.{}", until.unwrap_or_default());
        let failure =
            Failure::passing(format!("rate limited{named}"), Error::RateLimited(self.said(&what)));
        let quota = advice.into_iter().find(|advice| *advice != Advice::Unknown);
        failure.advised(match (wait, quota) {
            (Some(wait), _) => Advice::After(wait),
            (None, Some(advice)) => advice,
            (None, None) if self.is_overloaded() => Advice::Soon,
            (None, None) => Advice::Unknown,
        })
    }

    fn server_error(&self) -> Failure {
        let wait = self.retry_info().or(self.retry_after).map(Advice::After);
        if self.code == 503 || self.is_overloaded() {
            let what = "The server is overloaded. Try again later, or try another model.";
            let error = Error::Unavailable(self.said(what));
            let failure = Failure::passing("the server is overloaded", error);
            return failure.advised(wait.unwrap_or(Advice::Soon));
        }
        let what = format!("The server had a fault (HTTP {}). Try again later.", self.code);
        let reason = format!("the server had a fault ({})", self.code);
        Failure::passing(reason, Error::Unavailable(self.said(&what)))
            .advised(wait.unwrap_or(Advice::Unknown))
    }

    fn terminal(&self, kind: fn(String) -> Error, what: &str) -> Trouble {
        Trouble::terminal(kind(self.said(what)))
    }

    /// With the server's own words.
    fn said(&self, what: &str) -> String {
        match self.message.as_str() {
            "" => what.to_owned(),
            message => format!("{what} The server says: {message}"),
        }
    }

    fn of_type(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.details.iter().filter(move |detail| {
            let kind = detail.get("@type").and_then(Value::as_str);
            kind.and_then(|kind| kind.rsplit('.').next()) == Some(name)
        })
    }

    fn retry_info(&self) -> Option<Duration> {
        let mut info = self.of_type("RetryInfo");
        info.find_map(|info| retry::duration(info.get("retryDelay")?.as_str()?))
    }

    fn quotas(&self) -> impl Iterator<Item = &str> {
        let violations = self.of_type("QuotaFailure").filter_map(|quota| quota.get("violations"));
        let violations = violations.filter_map(Value::as_array).flatten();
        let ids = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
        ids.chain(self.metadata("quota_limit"))
    }

    fn reason(&self) -> Option<&str> {
        self.of_type("ErrorInfo").find_map(|info| info.get("reason")?.as_str())
    }

    fn metadata(&self, key: &str) -> Option<&str> {
        self.of_type("ErrorInfo").find_map(|info| info.get("metadata")?.get(key)?.as_str())
    }

    fn is_overloaded(&self) -> bool {
        self.reason() == Some("MODEL_CAPACITY_EXHAUSTED")
            || self.message.to_ascii_lowercase().contains("overloaded")
    }
}

/// The status that goes with one of the API's names, where only that is known.
fn http_status(name: Option<&str>) -> u16 {
    match name.unwrap_or_default() {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
        "UNAUTHENTICATED" => 401,
        "PERMISSION_DENIED" => 403,
        "NOT_FOUND" => 404,
        "RESOURCE_EXHAUSTED" => 429,
        "CANCELLED" => 499,
        "UNAVAILABLE" => 503,
        "DEADLINE_EXCEEDED" => 504,
        _ => 500,
    }
}

/// `GenerateRequestsPerMinutePerProjectPerModel` as people say it.
fn quota_name(id: &str) -> String {
    let lower = id.to_ascii_lowercase();
    let of = |words: &[(&str, &str)]| {
        words.iter().find(|(word, _)| lower.contains(word)).map(|(_, name)| (*name).to_owned())
    };
    let what = of(&[("token", "tokens"), ("request", "requests")]);
    let span = of(&[("perminute", "per minute"), ("perday", "per day"), ("daily", "per day")]);
    match (what, span) {
        (Some(what), Some(span)) => format!("{what} {span}"),
        (None, Some(span)) => format!("quota {span}"),
        _ => shortened(id),
    }
}

/// Whether a quota is zero from the beginning, so that waiting does not help.
fn has_no_quota(message: &str) -> bool {
    let mut rest = message;
    while let Some((_, after)) = rest.split_once("limit: 0") {
        if !after.starts_with(|c: char| c == '.' || c.is_ascii_digit()) {
            return true;
        }
        rest = after;
    }
    false
}

/// The tool whose declaration a message points at.
fn declaration<'a>(message: &str, tools: &'a [ToolDeclaration]) -> Option<&'a str> {
    let (_, after) = message.split_once("function_declarations[")?;
    let index: usize = after.split(']').next()?.parse().ok()?;
    Some(&tools.get(index)?.name)
}

/// The tools whose schemas may be too deep.
fn suspects(tools: &[ToolDeclaration]) -> String {
    let deep = |tool: &&ToolDeclaration| depth(&tool.parameters) > DEEP || refers(&tool.parameters);
    let names: Vec<_> = tools.iter().filter(deep).map(|tool| format!("`{}`", tool.name)).collect();
    match names.as_slice() {
        [] => " It is probably one of an MCP server.".to_owned(),
        names => format!(" Leave out what may be to blame: {}.", names.join(", ")),
    }
}

fn depth(schema: &Value) -> usize {
    let deepest = match schema {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or_default()
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(refers),
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(refers),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
