//! Errors of the API: the messages for people, and whether to retry.

use serde_json::Value;

use crate::report::{Report, RequestInfo, when_to_try_again};
use crate::retry::{self, AttemptFailure, RequestFailure, RetryHint};
use crate::words::excerpt;
use crate::{Error, ToolDeclaration};

/// Depth above which a schema is named as a suspect when the API reports one as too deep.
const SUSPECT_DEPTH: usize = 12;

/// Classifies an error of the API. Errors that other providers have as well are classified by [`Report::classify`].
pub(super) fn classify(
    report: &Report,
    info: RequestInfo<'_>,
    tools: &[ToolDeclaration],
) -> AttemptFailure {
    match report.status {
        400 => bad_request(report, tools).into(),
        401 if info.is_in_project() => report.classify(info),
        403 if info.is_in_project() => {
            RequestFailure::terminal(forbidden_in_project(report)).into()
        }
        401 => unauthenticated(report).into(),
        402 => terminal(
            report,
            Error::RateLimited,
            "There is no credit left on this account. Add credit, or use another key.",
        )
        .into(),
        403 => forbidden(report).into(),
        404 => AttemptFailure::NoModel(Error::Rejected(report.with_message(&format!(
            "Unknown model `{}`, or not available with this key.",
            info.model
        )))),
        413 => terminal(
            report,
            Error::ContextTooLong,
            "The conversation is too big for one request. Compress it with /compress.",
        )
        .into(),
        429 => too_many(report, info.model).into(),
        _ => report.classify(info),
    }
}

/// Returns the error for signatures of earlier answers that the API does not accept.
pub(super) fn refused_signatures(report: &Report) -> Option<Error> {
    let names = ["thought signature", "thought_signature", "thoughtsignature"];
    let what = "The API does not accept the signatures of the model's earlier thoughts. Begin a new \
                conversation.";
    (report.status == 400 && report.says(&names))
        .then(|| Error::Rejected(report.with_message(what)))
}

fn bad_request(report: &Report, tools: &[ToolDeclaration]) -> RequestFailure {
    let says = |words: &[&str]| report.says(words);
    if reason(report) == Some("API_KEY_INVALID") || says(&["api key not valid", "api key expired"])
    {
        return unauthenticated(report);
    }
    if says(&["exceeds the maximum number of tokens"]) {
        let what = "The conversation is too long for the model. Compress it with /compress.";
        return terminal(report, Error::ContextTooLong, what);
    }
    let what = if says(&["schema depth"]) {
        format!("A tool's schema is nested too deeply, or contains itself.{}", suspects(tools))
    } else if let Some(tool) = declaration(&report.message, tools) {
        format!("The API does not accept the declaration of the tool `{tool}`; leave it out.")
    } else if says(&["function response part", "function call turn", "function response turn"]) {
        "The API finds the conversation's calls and their results out of order. This is a bug in tandem: please report it. A new conversation will work."
            .to_owned()
    } else if says(&["location is not supported"]) {
        "The API is not available in your region. Use another provider.".to_owned()
    } else {
        "The API did not accept the request.".to_owned()
    };
    terminal(report, Error::Rejected, &what)
}

fn unauthenticated(report: &Report) -> RequestFailure {
    terminal(
        report,
        Error::NotAuthenticated,
        "The API key is not accepted. Run `tandem login`, or set another key; keys are made \
         at https://aistudio.google.com/apikey.",
    )
}

fn forbidden(report: &Report) -> RequestFailure {
    match reason(report) {
        Some("SERVICE_DISABLED") => {
            let url = metadata(report, "activationUrl").unwrap_or("the Google Cloud console");
            let what = format!(
                "The API is not enabled for the key's project. Enable it at {url}, wait a few \
                 minutes, and try again."
            );
            terminal(report, Error::NotAuthenticated, &what)
        }
        Some(reason) if reason.starts_with("API_KEY_") => terminal(
            report,
            Error::NotAuthenticated,
            &format!(
                "The API key may not be used for this ({reason}). Change its restrictions in \
                 the Google Cloud console, or use another key."
            ),
        ),
        _ => terminal(
            report,
            Error::Rejected,
            "The API does not allow this with your key. Use another key.",
        ),
    }
}

/// Returns the error for credentials that may not use Vertex AI in the project.
fn forbidden_in_project(report: &Report) -> Error {
    if reason(report) == Some("SERVICE_DISABLED") {
        return forbidden(report).error;
    }
    Error::NotAuthenticated(report.with_message(
        "The credentials may not use Vertex AI in this project. Give them the role Vertex AI User, or choose another \
         project with GOOGLE_CLOUD_PROJECT.",
    ))
}

fn too_many(report: &Report, model: &str) -> RequestFailure {
    let quotas: Vec<&str> = quotas(report).collect();
    let named = quotas.first().map(|id| format!(" ({})", quota_name(id))).unwrap_or_default();
    let advice = quotas.iter().map(|id| retry::quota_advice(id));
    let never = advice.clone().any(|advice| advice == RetryHint::Never);
    if never || has_no_quota(&report.message) {
        let what = if never {
            format!(
                "The daily quota{named} is used up. Go on tomorrow, or use another model or another key."
            )
        } else {
            format!(
                "The model `{model}` is not part of this key's plan. Choose another model, or use another key."
            )
        };
        return RequestFailure::terminal(Error::RateLimited(report.with_message(&what)));
    }
    let wait = report.wait();
    let what = format!("The API's rate limit is reached{named}. {}", when_to_try_again(wait));
    let failure = RequestFailure::passing(
        report.reason(&format!("rate limited{named}")),
        Error::RateLimited(report.with_message(&what)),
    );
    let quota = advice.into_iter().find(|advice| *advice != RetryHint::Unknown);
    failure.advised(match (wait, quota) {
        (Some(wait), _) => RetryHint::After(wait),
        (None, Some(advice)) => advice,
        (None, None) if report.is_overloaded() => RetryHint::Soon,
        (None, None) => RetryHint::Unknown,
    })
}

fn terminal(report: &Report, kind: fn(String) -> Error, what: &str) -> RequestFailure {
    RequestFailure::terminal(kind(report.with_message(what)))
}

fn quotas(report: &Report) -> impl Iterator<Item = &str> {
    let violations = report.details_of("QuotaFailure").filter_map(|quota| quota.get("violations"));
    let violations = violations.filter_map(Value::as_array).flatten();
    let ids = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
    ids.chain(metadata(report, "quota_limit"))
}

fn reason(report: &Report) -> Option<&str> {
    report.details_of("ErrorInfo").find_map(|info| info.get("reason")?.as_str())
}

fn metadata<'a>(report: &'a Report, key: &str) -> Option<&'a str> {
    report.details_of("ErrorInfo").find_map(|info| info.get("metadata")?.get(key)?.as_str())
}

/// Returns a readable name of a quota: `requests per minute` for `GenerateRequestsPerMinutePerProjectPerModel`.
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
        _ => excerpt(id),
    }
}

/// Returns `true` if the quota itself is zero. Then no wait helps.
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

/// Returns the tool whose declaration a message names.
fn declaration<'a>(message: &str, tools: &'a [ToolDeclaration]) -> Option<&'a str> {
    let (_, after) = message.split_once("function_declarations[")?;
    let index: usize = after.split(']').next()?.parse().ok()?;
    Some(&tools.get(index)?.name)
}

/// Names the tools whose schemas may be too deep.
fn suspects(tools: &[ToolDeclaration]) -> String {
    let deep = |tool: &&ToolDeclaration| {
        depth(&tool.parameters) > SUSPECT_DEPTH || refers(&tool.parameters)
    };
    let names: Vec<_> = tools.iter().filter(deep).map(|tool| format!("`{}`", tool.name)).collect();
    match names.as_slice() {
        [] => " It is probably a tool of an MCP server: leave that server out.".to_owned(),
        names => format!(" Leave out the tools that may be to blame: {}.", names.join(", ")),
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
