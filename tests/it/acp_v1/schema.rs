//! Checks of the agent's messages: they are read with the types of the protocol's authors and written again, and
//! must keep every field. These types ignore what they do not know or cannot read.

use agent_client_protocol_schema::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Error codes of the protocol.
const CODES: [i64; 8] = [-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002];

/// Checks the parameters of a message of the agent.
#[track_caller]
pub(super) fn check_sent(method: &str, params: &Value) {
    match method {
        "session/update" => check::<v1::SessionNotification>(params),
        "session/request_permission" => check::<v1::RequestPermissionRequest>(params),
        "elicitation/create" => check::<v1::CreateElicitationRequest>(params),
        "elicitation/complete" => check::<v1::CompleteElicitationNotification>(params),
        "fs/read_text_file" => check::<v1::ReadTextFileRequest>(params),
        "fs/write_text_file" => check::<v1::WriteTextFileRequest>(params),
        "terminal/create" => check::<v1::CreateTerminalRequest>(params),
        "terminal/wait_for_exit" => check::<v1::WaitForTerminalExitRequest>(params),
        "terminal/output" => check::<v1::TerminalOutputRequest>(params),
        "terminal/kill" => check::<v1::KillTerminalRequest>(params),
        "terminal/release" => check::<v1::ReleaseTerminalRequest>(params),
        "$/cancel_request" => check::<v1::CancelRequestNotification>(params),
        _ => panic!("the protocol has no `{method}`"),
    }
}

/// Checks an answer of the agent.
#[track_caller]
pub(super) fn check_answer(method: &str, message: &Value) {
    if let Some(error) = message.get("error") {
        check::<v1::Error>(error);
        assert!(CODES.contains(&error["code"].as_i64().unwrap()), "{error}");
        // An error for a cancelled request needs no reason for people: the editor itself has cancelled the request.
        if error["code"] == -32800 {
            return;
        }
        let data = error["data"].as_object().unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["details"], "{error}");
        assert!(!["", "Internal error"].contains(&error["message"].as_str().unwrap()), "{error}");
        return;
    }
    let result = &message["result"];
    match method {
        "initialize" => check::<v1::InitializeResponse>(result),
        "authenticate" => check::<v1::AuthenticateResponse>(result),
        "logout" => check::<v1::LogoutResponse>(result),
        "session/new" => check::<v1::NewSessionResponse>(result),
        "session/load" => check::<v1::LoadSessionResponse>(result),
        "session/resume" => check::<v1::ResumeSessionResponse>(result),
        "session/list" => check::<v1::ListSessionsResponse>(result),
        "session/close" => check::<v1::CloseSessionResponse>(result),
        "session/delete" => check::<v1::DeleteSessionResponse>(result),
        "session/prompt" => check::<v1::PromptResponse>(result),
        "session/set_mode" => check::<v1::SetSessionModeResponse>(result),
        "session/set_config_option" => check::<v1::SetSessionConfigOptionResponse>(result),
        "session/set_model" => assert_eq!(*result, json!({})),
        method if method.starts_with('_') => assert!(result.is_object(), "{result}"),
        _ => panic!("the protocol has no `{method}`"),
    }
}

#[track_caller]
fn check<T: Serialize + DeserializeOwned>(sent: &Value) {
    let read: T =
        serde_json::from_value(sent.clone()).unwrap_or_else(|err| panic!("{err}: {sent}"));
    let again = serde_json::to_value(read).unwrap();
    assert!(holds(&again, sent), "lost on the way:\n{sent}\n{again}");
}

/// Returns whether all of a value is in another, but for defaults, which need not be written.
fn holds(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => part.iter().all(|(key, part)| {
            all.get(key).map_or_else(|| is_default(part), |all| holds(all, part))
        }),
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| holds(all, part))
        }
        _ => all == part,
    }
}

fn is_default(value: &Value) -> bool {
    [json!(null), json!(false), json!([]), json!({}), json!("pending"), json!("other")]
        .contains(value)
}

#[test]
fn what_the_protocol_does_not_have_is_found() {
    let update = |update: Value| json!({ "sessionId": "s", "update": update });
    let known = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "plan" });
    check_sent("session/update", &update(known.clone()));
    let mut own = known;
    own["modeId"] = "plan".into();
    let lost = std::panic::catch_unwind(|| check_sent("session/update", &update(own)));
    assert!(lost.is_err());
}
