//! Errors that servers report: the messages for people, and whether to retry.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value;

use super::Error;
use super::http::{self, Head};
use super::provider::Provider;
use super::retry::{self, AttemptFailure, RequestFailure, RetryHint};
use super::words::{excerpt, human_duration};

/// Advice for vLLM, if it does not parse the model's tool calls.
pub(super) const VLLM_FLAG: &str = "vLLM does not take the model's tool calls out of its text: \
    start it with `--enable-auto-tool-choice --tool-call-parser PARSER`, where PARSER fits the \
    model (hermes, mistral, llama3_json, qwen3_coder, ...; vLLM's documentation lists them).";
/// Advice for llama.cpp, if it does not parse the model's tool calls.
pub(super) const LLAMA_CPP_FLAG: &str = "llama.cpp's server does not take the model's tool calls \
    out of its text: start it with `--jinja`.";

/// An error as a server reports it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    /// HTTP status. For an error within a stream, which has none, the status that fits it.
    pub(super) status: u16,
    /// The server's message on one line; may be empty.
    pub(super) message: String,
    /// Names of the error in lower case: its code, its type, and the field of the request that is wrong.
    names: Vec<String>,
    /// Wait that a `retry-after` header asks for.
    retry_after: Option<Duration>,
    /// Field `details` of the error, in which Google's APIs explain the error; other APIs use names instead.
    details: Vec<Value>,
    /// Statement of the server on whether to retry (header `x-should-retry`).
    should_retry: Option<bool>,
}

/// Facts about the failed request, for messages.
#[derive(Clone, Copy)]
pub(super) struct RequestInfo<'a> {
    pub(super) provider: Provider,
    pub(super) model: &'a str,
    /// Base URL of the endpoint.
    pub(super) url: &'a str,
    /// `true` if a key was sent.
    pub(super) has_key: bool,
}

impl RequestInfo<'_> {
    /// Returns `true` for Vertex AI in a project, which takes the credentials of a cloud and no key.
    pub(super) fn is_in_project(&self) -> bool {
        let is_googles = matches!(self.provider, Provider::Vertex | Provider::Gemini);
        is_googles && self.url.contains("/projects/")
    }
}

impl Report {
    /// Reads an error response.
    pub(super) async fn from_response(response: Response, patience: Duration) -> Self {
        let Head { status, retry_after, should_retry, location } = Head::from_response(&response);
        let body = http::error_body(response, patience).await;
        let mut report = Self { retry_after, should_retry, ..Self::read(Some(status), &body) };
        if let (true, Some(to)) = (report.message.is_empty(), location) {
            report.message = format!("see {to}");
        }
        report
    }

    /// Parses the body of an error in any of these forms: `{"error": {...}}`, `{"error": "..."}`, `{"detail":
    /// "..."}`, a list with one of them, or no JSON. An error within a stream has no status.
    pub(super) fn read(status: Option<u16>, body: &[u8]) -> Self {
        let body = &body[..body.len().min(http::ERROR_BODY)];
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            let message = excerpt(&String::from_utf8_lossy(body));
            return Self { status: status.unwrap_or(500), message, ..Self::default() };
        };
        let json = json.get(0).unwrap_or(&json);
        let error = json.get("error").filter(|error| !error.is_null()).unwrap_or(json);
        let name = |field: &str| error.get(field).and_then(Value::as_str).map(str::to_lowercase);
        let detail = error.pointer("/details/error_code").and_then(Value::as_str);
        let names = ["code", "type", "status", "param"].into_iter().filter_map(name);
        let names: Vec<_> = names.chain(detail.map(str::to_lowercase)).collect();
        let code = error.get("code").and_then(number).or_else(|| number(error.get("status_code")?));
        let status = status.or(code).unwrap_or_else(|| status_of(&names));
        let message = excerpt(&message(error).unwrap_or_default());
        let details = error.get("details").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { status, message, names, details, ..Self::default() }
    }

    /// Returns `true` if the message contains one of these words, which must be in lower case.
    pub(super) fn says(&self, words: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        words.iter().any(|word| message.contains(word))
    }

    /// Returns `true` if the error has one of these names.
    pub(super) fn is(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }

    /// Returns `true` if the error is about one image of the prompt, such as a damaged one. The model can see others.
    pub(super) fn is_about_one_image(&self) -> bool {
        self.is(&[
            "empty_image_file",
            "failed_to_download_image",
            "image_file_not_found",
            "image_file_too_large",
            "image_parse_error",
            "image_too_large",
            "image_too_small",
            "invalid_base64_image",
            "invalid_image",
            "invalid_image_format",
            "invalid_image_mode",
            "invalid_image_url",
            "unsupported_image_media_type",
        ])
    }

    /// Classifies the error.
    pub(super) fn classify(&self, info: RequestInfo<'_>) -> AttemptFailure {
        // Tested before the status, because servers report the same lasting failure with 400, 403, 429 or 500.
        if let Some(failure) = self.lasting(info) {
            return failure.into();
        }
        match self.status {
            404 => self.not_found(info),
            429 => self.too_many().into(),
            408 | 409 | 499 | 500..=599 => self.server_error().into(),
            300..=399 => self.terminal(
                Error::Rejected,
                "The API's address redirects to another address, to which no key is sent. If you trust the other \
                 address, configure it.",
            ),
            400 | 422 if self.is_unknown_model() => self.not_found(info),
            code => {
                let what = format!("The API did not accept the request (HTTP {code}).");
                match self.should_retry {
                    Some(true) => RequestFailure::passing(
                        self.reason("the request failed"),
                        Error::Rejected(self.with_message(&what)),
                    )
                    .into(),
                    _ => self.terminal(Error::Rejected, &what),
                }
            }
        }
    }

    /// Returns `true` if a request of another form may succeed. `has_limit`: the request has a limit of the answer that
    /// can be left out, which the error may be about.
    pub(super) fn may_pass(&self, info: RequestInfo<'_>, has_limit: bool) -> bool {
        self.lasting(info).is_none() || has_limit && self.is_about_answer_limit()
    }

    /// Returns the failure if waiting would not change it, whatever the HTTP status.
    fn lasting(&self, info: RequestInfo<'_>) -> Option<RequestFailure> {
        let failure = |kind: fn(String) -> Error, what: &str| {
            Some(RequestFailure::terminal(kind(self.with_message(what))))
        };
        if self.status == 402
            || self.is(&["insufficient_quota", "billing_not_active", "billing_hard_limit_reached"])
            || self.says(&[
                "exceeded your current quota",
                "insufficient balance",
                "credit balance is too low",
            ])
        {
            return failure(
                Error::RateLimited,
                "There is no credit left on this account, or its quota is used up. Add credit, or use \
                 another key.",
            );
        }
        // If the server says when it takes requests again, the spend limit is a rate limit.
        let spent = self.is(&["enforced_spend_limit_reached"]) && self.retry_after.is_none();
        if spent
            || self.says(&["specified api usage limits", "specified workspace api usage limits"])
        {
            return failure(
                Error::RateLimited,
                "The spend limit of this account or key is reached. Raise it, continue next month, \
                 or use another key.",
            );
        }
        if self.status == 413 || self.is_too_long() {
            return failure(
                Error::ContextTooLong,
                "The conversation is too long for the model. Compress it with /compress.",
            );
        }
        if self.status == 401 || self.is(&["invalid_api_key"]) {
            return failure(Error::NotAuthenticated, &not_accepted(info));
        }
        if self.names.iter().any(|name| is_policy(name))
            || self.says(&["content management policy"])
        {
            return failure(
                Error::Refused,
                "The prompt was blocked by the provider's filter. Rephrase the prompt.",
            );
        }
        if let Some(what) = self.no_tools() {
            return failure(Error::Rejected, what);
        }
        if self.should_retry == Some(false) {
            return failure(
                Error::Unavailable,
                "The server failed, and asks clients to wait. Try again later, or choose another model.",
            );
        }
        None
    }

    /// Returns `true` if the conversation is too long for the model or the server.
    pub(super) fn is_too_long(&self) -> bool {
        self.is(&[
            "context_length_exceeded",
            "exceed_context_size_error",
            "string_above_max_length",
        ]) || matches!(self.status, 400..=429 | 500)
            && self.says(&[
                "maximum context length",
                "available context size",
                "context length exceeded",
                "exceeds the context",
                "exceeds maximum context",
                "greater than the context length",
                "context window",
                "exceed context limit",
                "prompt is too long",
                "request too large",
                "input is too long",
                "too large for model with",
            ])
    }

    /// Returns `true` if the prompt and the limit of the answer together are too long for the model.
    pub(super) fn is_about_answer_limit(&self) -> bool {
        self.is_too_long()
            && self.says(&["in the completion", "max_tokens", "max_completion_tokens"])
    }

    /// Returns `true` if the server refuses the schema of an answer, or any schema of an answer beside tools.
    pub(super) fn is_about_answer_schema(&self) -> bool {
        const SCHEMA_NAMES: [&str; 10] = [
            "response_format",
            "text.format",
            "output_config.format",
            "output_format",
            "json_schema",
            "structured output",
            "responsejsonschema",
            "response_json_schema",
            "response mime type",
            "too many states",
        ];
        matches!(self.status, 400 | 422) && (self.says(&SCHEMA_NAMES) || self.is(&SCHEMA_NAMES))
    }

    /// Returns advice, if the server or the model cannot call tools.
    fn no_tools(&self) -> Option<&'static str> {
        if self.says(&["--enable-auto-tool-choice", "--tool-call-parser"]) {
            return Some(VLLM_FLAG);
        }
        if self.says(&["--jinja"]) {
            return Some(LLAMA_CPP_FLAG);
        }
        self.says(&["support tool", "not support tools", "tools is not supported"]).then_some(
            "This model cannot call tools, so it cannot work with tandem. Choose another model.",
        )
    }

    /// Returns `true` if Azure has no deployment of the name that was asked for. The other API would not have it either.
    pub(super) fn is_unknown_deployment(&self) -> bool {
        self.is(&["deploymentnotfound"])
    }

    /// Returns `true` if Azure has the deployment, but its model does not have the API.
    pub(super) fn is_other_operation(&self) -> bool {
        self.is(&["operationnotsupported"])
    }

    /// Returns `true` if the error is about a model that does not exist, in the words of gateways.
    fn is_unknown_model(&self) -> bool {
        self.is(&["model_not_found"])
            || self.says(&[
                "invalid model name",
                "not a valid model",
                "unknown model",
                "model not found",
                "model does not exist",
                "no such model",
            ])
    }

    fn not_found(&self, info: RequestInfo<'_>) -> AttemptFailure {
        let model = info.model;
        if info.provider == Provider::Ollama && self.says(&["not found"]) {
            let what = format!(
                "Ollama does not have the model `{model}`. Get it with `ollama pull {model}`."
            );
            return AttemptFailure::NoModel(Error::Rejected(self.with_message(&what)));
        }
        if self.is_unknown_deployment() {
            let what = format!(
                "There is no deployment `{model}` at {}. Use the name that the deployment has in Azure, or deploy a \
                 model under this name.",
                info.url
            );
            return AttemptFailure::NoModel(Error::Rejected(self.with_message(&what)));
        }
        let is_model = self.is_unknown_model() || self.says(&["model"]);
        let what = if is_model {
            format!("Unknown model `{model}`, or not available with this key.")
        } else {
            format!(
                "There is no such API at {}. Check the address: most end with a version, such as `/v1`.",
                info.url
            )
        };
        let error = Error::Rejected(self.with_message(&what));
        if is_model {
            AttemptFailure::NoModel(error)
        } else {
            RequestFailure::terminal(error).into()
        }
    }

    fn too_many(&self) -> RequestFailure {
        let wait = self.wait();
        let what = format!("The API's rate limit is reached. {}", when_to_try_again(wait));
        let error = Error::RateLimited(self.with_message(&what));
        let failure = RequestFailure::passing(self.reason("rate limited"), error);
        failure.advised(wait.map_or(RetryHint::Unknown, RetryHint::After))
    }

    fn server_error(&self) -> RequestFailure {
        let wait = self.wait().map(RetryHint::After);
        if self.says(&["loading model"]) {
            let error = Error::Unavailable(
                self.with_message("The server is still loading the model. Try again in a moment."),
            );
            let failure =
                RequestFailure::passing(self.reason("server is loading the model"), error);
            return failure.advised(wait.unwrap_or(RetryHint::Soon));
        }
        if self.is_overloaded() {
            let what = "The server is overloaded. Try again later, or try another model.";
            let error = Error::Unavailable(self.with_message(what));
            let failure = RequestFailure::passing(self.reason("server overloaded"), error);
            return failure.advised(wait.unwrap_or(RetryHint::Soon));
        }
        let what = format!("The server failed (HTTP {}). Try again later.", self.status);
        let reason = self.reason(&format!("server error ({})", self.status));
        RequestFailure::passing(reason, Error::Unavailable(self.with_message(&what)))
            .advised(wait.unwrap_or(RetryHint::Unknown))
    }

    /// Returns the wait that the server asks for, in the details, in a header or in the message.
    pub(super) fn wait(&self) -> Option<Duration> {
        let mut info = self.details_of("RetryInfo");
        let info = info.find_map(|info| retry::duration(info.get("retryDelay")?.as_str()?));
        info.or(self.retry_after).or_else(|| retry::wait_in(&self.message))
    }

    /// Returns the details of this type in an error of Google's APIs.
    pub(super) fn details_of(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.details.iter().filter(move |detail| {
            let kind = detail.get("@type").and_then(Value::as_str);
            kind.and_then(|kind| kind.rsplit('.').next()) == Some(name)
        })
    }

    /// Returns `true` if the server or the model is overloaded.
    pub(super) fn is_overloaded(&self) -> bool {
        let mut reasons = self.details_of("ErrorInfo").filter_map(|info| info.get("reason"));
        matches!(self.status, 503 | 529)
            || self.says(&["overloaded", "no capacity"])
            || reasons.any(|reason| reason == "MODEL_CAPACITY_EXHAUSTED")
    }

    fn terminal(&self, kind: fn(String) -> Error, what: &str) -> AttemptFailure {
        RequestFailure::terminal(kind(self.with_message(what))).into()
    }

    /// Writes the reason for a retry, with the server's message.
    pub(super) fn reason(&self, what: &str) -> String {
        match self.message.as_str() {
            // An HTML page of a proxy tells people less than the HTTP status.
            message if message.starts_with('<') => what.to_owned(),
            message if what.contains(&message.to_lowercase()) => what.to_owned(),
            message => format!("{what}: {message}"),
        }
    }

    /// Appends the server's own message to a text.
    pub(super) fn with_message(&self, what: &str) -> String {
        match self.message.as_str() {
            "" => what.to_owned(),
            message => format!("{what} The server says: {message}"),
        }
    }
}

/// Writes a sentence on when a server takes requests again.
pub(super) fn when_to_try_again(wait: Option<Duration>) -> String {
    match wait {
        Some(wait) => format!("The API takes requests again in {}.", human_duration(wait)),
        None => "Try again later.".to_owned(),
    }
}

/// Returns the message for a request that a server refuses because of its key.
fn not_accepted(info: RequestInfo<'_>) -> String {
    let RequestInfo { provider, url, has_key, .. } = info;
    if info.is_in_project() {
        return "Vertex AI does not accept the credentials. Log in again with `gcloud auth application-default login`, \
                or check the variables of Google."
            .to_owned();
    }
    let login = format!("Run `tandem login --provider {provider}`");
    let is_own = provider.host().is_some_and(|host| http::is_on_host(url, host));
    match (has_key, is_own) {
        (false, _) => format!(
            "The server at {url} wants a key, and none was sent. {login}, or set a key in the environment."
        ),
        (true, true) => format!(
            "The key for {} is not accepted. {login}, or set another key in the environment.",
            provider.title()
        ),
        (true, false) => format!(
            "The server at {url} does not accept the key. {login} and enter the key of this server, or set \
             another key in the environment."
        ),
    }
}

/// Finds the message of an error in the forms that servers use.
fn message(error: &Value) -> Option<String> {
    let first = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.first()?.get("msg")?.as_str()?.to_owned()),
        Value::Object(_) => Some(value.to_string()),
        _ => None,
    };
    let message = first(error).filter(|_| error.is_string());
    let message = message.or_else(|| first(error.get("message")?));
    let message = message.or_else(|| first(error.get("detail")?))?;
    // The message of the provider behind a gateway has more details.
    let raw = error.pointer("/metadata/raw").and_then(Value::as_str);
    Some(raw.map_or(message.clone(), |raw| format!("{message}: {raw}")))
}

/// Returns `true` if an error's name says that the provider's rules forbid the prompt.
fn is_policy(name: &str) -> bool {
    name == "content_filter" || name.ends_with("_policy") || name.ends_with("_policy_violation")
}

fn number(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    // Some servers use numbers of their own, which are not HTTP statuses.
    u16::try_from(number).ok().filter(|it| (300..600).contains(it))
}

/// Returns the status that fits an error's names, for an error without one.
fn status_of(names: &[String]) -> u16 {
    let status = names.iter().find_map(|name| match name.as_str() {
        "invalid_request_error"
        | "invalid_prompt"
        | "invalid_encrypted_content"
        | "data_residency_mismatch"
        | "bad_request"
        | "badrequesterror"
        | "invalid_argument"
        | "failed_precondition"
        | "out_of_range" => Some(400),
        "authentication_error" | "unauthenticated" => Some(401),
        "billing_error" => Some(402),
        "permission_error" | "permission_denied" => Some(403),
        "not_found_error" | "not_found" => Some(404),
        "request_too_large" => Some(413),
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "tokens"
        | "requests"
        | "resource_exhausted" => Some(429),
        "cancelled" => Some(499),
        "overloaded_error" | "engine_overloaded" | "server_is_overloaded" | "unavailable" => {
            Some(503)
        }
        "timeout_error" | "deadline_exceeded" => Some(504),
        // The code is `invalid_image_format`, `image_too_large`, or another code of OpenAI for images.
        image if image.contains("image") => Some(400),
        _ => None,
    });
    status.unwrap_or(500)
}

#[cfg(test)]
mod tests;
