//! Agent Client Protocol, over which an editor drives an agent. The two versions of the protocol share only the names
//! of two methods, and the steps of a plan. A client's first message shows the version that the client speaks.

pub mod v0;
pub mod v1;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::jsonrpc::{Error, Params};

/// Editor to agent: the first call, in both versions.
pub const INITIALIZE_METHOD: &str = "initialize";
/// Editor to agent: logs in, in both versions.
pub const AUTHENTICATE_METHOD: &str = "authenticate";

/// Version of the protocol that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Version 0.0.9, and the similar versions from 0.0.7 to 0.0.11.
    V0,
    /// Version 1. A client that speaks a later version is answered 1.
    V1,
}

impl Dialect {
    /// Returns the dialect of a client whose first message has this method and these parameters.
    pub fn detect(method: &str, params: Params<'_>) -> Result<Self, Error> {
        match method {
            INITIALIZE_METHOD => Self::of_initialize(params),
            AUTHENTICATE_METHOD if params.0.is_some() => Ok(Self::V1),
            "logout" => Ok(Self::V1),
            method if method.starts_with("session/") || method.starts_with('_') => Ok(Self::V1),
            _ => Ok(Self::V0),
        }
    }

    fn of_initialize(params: Params<'_>) -> Result<Self, Error> {
        let params: Value = match params.0 {
            Some(_) => params.parse()?,
            None => return Ok(Self::V0),
        };
        let v1 = ["clientCapabilities", "clientInfo", "info"];
        match params.get("protocolVersion") {
            None | Some(Value::Null) if !v1.iter().any(|key| params.get(key).is_some()) => {
                return Ok(Self::V0);
            }
            Some(Value::Number(version)) if version.is_u64() => return Ok(Self::V1),
            Some(Value::String(version)) if version == "1" => return Ok(Self::V1),
            Some(Value::String(version)) if version.starts_with("0.0.") => return Ok(Self::V0),
            _ => {}
        }
        Err(Error::invalid_params("`protocolVersion` must be an integer, such as 1").reasoned())
    }
}

/// A step of a plan.
#[derive(Debug, Serialize)]
pub struct PlanEntry<'a> {
    /// Description of the step.
    pub content: Cow<'a, str>,
    /// Priority of the step.
    pub priority: PlanEntryPriority,
    /// Status of the step.
    pub status: PlanEntryStatus,
}

/// Priority of a step. The agent's todo list has no priorities, so all steps are medium.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanEntryPriority {
    /// The only priority that is sent.
    Medium,
}

/// Status of a step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum PlanEntryStatus {
    Pending,
    InProgress,
    Completed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[track_caller]
    fn check(method: &str, params: &str, expected: Option<Dialect>) {
        let raw: Option<&RawValue> = serde_json::from_str(params).unwrap();
        assert_eq!(Dialect::detect(method, Params(raw)).ok(), expected, "{method} {params}");
    }

    #[test]
    fn the_form_of_the_version_tells_the_dialect() {
        let (v0, v1) = (Some(Dialect::V0), Some(Dialect::V1));
        check(INITIALIZE_METHOD, "null", v0);
        check(INITIALIZE_METHOD, "{}", v0);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":null}"#, v0);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":"0.0.9"}"#, v0);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":"0.0.11","contextServers":{}}"#, v0);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":0}"#, v1);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":1}"#, v1);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":"1"}"#, v1);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":65535}"#, v1);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#, v1);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":"2025-06-18"}"#, None);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":"1.0"}"#, None);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":1.5}"#, None);
        check(INITIALIZE_METHOD, r#"{"protocolVersion":[1]}"#, None);
        check(INITIALIZE_METHOD, r#"{"clientCapabilities":{}}"#, None);
        check(INITIALIZE_METHOD, "[]", None);
    }

    #[test]
    fn a_first_message_that_is_no_initialize_tells_the_dialect_too() {
        let (v0, v1) = (Some(Dialect::V0), Some(Dialect::V1));
        check("sendUserMessage", r#"{"chunks":[]}"#, v0);
        check("cancelSendMessage", "null", v0);
        check("authenticate", "null", v0);
        check("authenticate", r#"{"methodId":"x"}"#, v1);
        check("session/new", r#"{"cwd":"/"}"#, v1);
        check("logout", "{}", v1);
    }
}
