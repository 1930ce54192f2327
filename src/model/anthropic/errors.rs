//! What the API's errors mean: for people, and for whether to try again.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::model::http;
use crate::model::retry::{self, Advice, Failure};
use crate::model::words::{rounded, shortened};
use crate::model::{Error, ToolDeclaration};

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
    /// Tells apart what has the same status.
    detail: String,
    /// What the headers say of another attempt: how long to wait, and whether there is to be one.
    retry_after: Option<Duration>,
    should_retry: Option<bool>,
}

/// A request that failed, or an answer that makes no sense.
#[derive(Debug, PartialEq)]
pub(super) enum Trouble {
    /// The request, or the connection.
    Failed(Failure),
    /// The signatures of earlier thinking are not accepted.
    Signatures(Error),
    /// There is room for no more than so many tokens of answer.
    Room(u64, Error),
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
            | Self::Room(_, error)
            | Self::NoModel(error)
            | Self::Garbled(error) => error,
        }
    }
}

impl Report {
    /// Reads the response to a request that failed; the body may be no JSON.
    pub(super) fn read(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let body = &body[..body.len().min(http::ERROR_BODY)];
        let json: Option<Value> = serde_json::from_slice(body).ok();
        let error = json.as_ref().map(|json| json.get("error").unwrap_or(json));
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let millis = header("retry-after-ms").and_then(|text| text.trim().parse().ok());
        let mut report = match error {
            Some(error) => Self::of_json(error),
            None => Self { message: shortened(&String::from_utf8_lossy(body)), ..Self::default() },
        };
        report.code = status;
        report.retry_after = millis
            .map(Duration::from_millis)
            .or_else(|| header("retry-after").and_then(retry::retry_after));
        report.should_retry = header("x-should-retry").and_then(|text| text.parse().ok());
        if report.message.is_empty() {
            report.message = header("location").map(|to| format!("see {to}")).unwrap_or_default();
        }
        report
    }

    /// Reads an error that came within a stream.
    pub(super) fn of(error: &str) -> Self {
        let json: Option<Value> = serde_json::from_str(error).ok();
        json.map_or_else(Self::default, |json| Self::of_json(&json))
    }

    fn of_json(error: &Value) -> Self {
        let text = |field: &str| error.get(field).and_then(Value::as_str);
        let detail = error.pointer("/details/error_code").and_then(Value::as_str);
        Self {
            code: http_status(text("type").unwrap_or_default()),
            message: shortened(text("message").or(error.as_str()).unwrap_or_default()),
            detail: detail.unwrap_or_default().to_owned(),
            ..Self::default()
        }
    }

    /// What it means.
    pub(super) fn meaning(&self, asked: Asked<'_>) -> Trouble {
        match self.code {
            400 => self.bad_request(asked),
            401 => self.terminal(
                Error::NotAuthenticated,
                "The API key is not accepted. Run `tandem login --provider anthropic`, or set another \
                 key; keys are made at https://platform.claude.com/settings/keys.",
            ),
            402 => self.no_credit(),
            403 => self.terminal(Error::Rejected, "The API does not allow this with your key."),
            404 => Trouble::NoModel(Error::Rejected(
                self.said(&format!("There is no model `{}` here, or not for you.", asked.model)),
            )),
            413 => self.terminal(
                Error::ContextTooLong,
                "The conversation is too big for one request. Compress it with /compress.",
            ),
            429 => self.too_many().into(),
            408 | 409 | 499 | 500..=599 => self.server_error().into(),
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
        if says(&["credit balance is too low"]) {
            return self.no_credit();
        }
        if says(&["api usage limits"]) {
            let what = "The spend limit that is set for the key is reached. Raise it, or use \
                        another key.";
            return self.terminal(Error::RateLimited, what);
        }
        let thinking = says(&["thinking"]) && says(&["signature", "cannot be modified"]);
        if thinking || says(&["expected `thinking` or `redacted_thinking`"]) {
            let what = "The API does not accept the model's earlier thinking.";
            return Trouble::Signatures(Error::Rejected(self.said(what)));
        }
        if let Some(room) = room(&message) {
            let what = "The answer may be longer than the API allows.";
            return Trouble::Room(room, Error::ContextTooLong(self.said(what)));
        }
        if says(&["prompt is too long", "exceed context limit", "context window"]) {
            let what = "The conversation is longer than the model can take. Compress it with \
                        /compress.";
            return self.terminal(Error::ContextTooLong, what);
        }
        let what = if let Some(tool) = declaration(&message, asked.tools) {
            format!("The API does not accept the declaration of the tool `{tool}`; leave it out.")
        } else if says(&["tool_use", "tool_result"]) {
            "The API finds the conversation's calls and their results out of order. That is a \
             fault of tandem: please report it. A new conversation will work."
                .to_owned()
        } else {
            "The API did not accept the request.".to_owned()
        };
        self.terminal(Error::Rejected, &what)
    }

    fn no_credit(&self) -> Trouble {
        self.terminal(Error::RateLimited, "There is no credit left on this account.")
    }

    fn too_many(&self) -> Failure {
        let spent = self.detail == SPENT || self.message.contains(SPENT);
        if spent && self.retry_after.is_none() {
            let what = "The account's monthly spend limit is reached. Go on next month, raise the \
                        limit, or use another key.";
            return Failure::terminal(Error::RateLimited(self.said(what)));
        }
        let until =
            self.retry_after.map(|it| format!(" It takes requests again in {}.", rounded(it)));
        let what = format!("The API's rate limit is reached.{}", until.unwrap_or_default());
        self.advised(Failure::passing("rate limited", Error::RateLimited(self.said(&what))))
    }

    fn server_error(&self) -> Failure {
        if matches!(self.code, 503 | 529)
            || self.message.to_ascii_lowercase().contains("overloaded")
        {
            let what = "The server is overloaded. Try again later, or try another model.";
            let error = Error::Unavailable(self.said(what));
            let failure = Failure::passing("the server is overloaded", error);
            return self.advised(failure.advised(Advice::Soon));
        }
        let what = format!("The server had a fault (HTTP {}). Try again later.", self.code);
        let reason = format!("the server had a fault ({})", self.code);
        self.advised(Failure::passing(reason, Error::Unavailable(self.said(&what))))
    }

    /// With what the server says of another attempt.
    fn advised(&self, failure: Failure) -> Failure {
        match (self.should_retry, self.retry_after) {
            (Some(false), _) => failure.advised(Advice::Never),
            (_, Some(wait)) => failure.advised(Advice::After(wait)),
            (_, None) => failure,
        }
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
}

/// With room for fewer tokens of answer, it is the conversation that is too long.
const LEAST: u64 = 1024;
/// How the API calls a budget that is used up, in an error that looks like a rate limit.
const SPENT: &str = "enforced_spend_limit_reached";

/// The status that goes with one of the API's names, where only that is known.
fn http_status(name: &str) -> u16 {
    match name {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}

/// How many tokens of answer there is room for, if that is what a message complains of:
/// `max_tokens: 64000 > 8192`, or `exceed context limit: 190000 + 64000 > 200000`.
fn room(message: &str) -> Option<u64> {
    let number = |text: &str| {
        let text = text.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u64>().ok()
    };
    if let Some((_, sum)) = message.split_once("exceed context limit:") {
        let (told, rest) = sum.split_once('+')?;
        let (_, limit) = rest.split_once('>')?;
        return number(limit)?.checked_sub(number(told)?).filter(|room| *room >= LEAST);
    }
    let (_, asked) = message.split_once("max_tokens: ")?;
    number(asked.split_once('>')?.1).filter(|room| *room > 0)
}

/// The tool whose declaration a message points at: `tools.3.custom.input_schema`.
fn declaration<'a>(message: &str, tools: &'a [ToolDeclaration]) -> Option<&'a str> {
    let (_, after) = message.split_once("tools.")?;
    let index: usize = after.split('.').next()?.parse().ok()?;
    Some(&tools.get(index)?.name)
}
