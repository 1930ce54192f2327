//! The frames of an early implementation, which some clients still read (`/ws?format=flat`).

use serde_json::{Map, Value, json};

use tandem_wire::a2a::{Part, Role, TaskStatusUpdateEvent};
use tandem_wire::development_tool::URI;

/// The update without its envelope, if those clients know such a thing.
pub(super) fn frame(update: &TaskStatusUpdateEvent) -> Option<Value> {
    let kind = update.metadata.get(URI)?.get("kind")?.as_str()?;
    let message = update.status.message.as_ref()?;
    if message.role == Role::User {
        return None;
    }
    let mut frame = match (kind, message.parts.first()?) {
        ("TEXT_CONTENT", Part::Text { text }) => json!({ "content": { "text": text } }),
        ("THOUGHT", Part::Data { data }) => json!({ "thought": data }),
        ("TOOL_CALL_UPDATE", Part::Data { data }) => call(data),
        _ => return None,
    };
    frame["kind"] = json!(kind);
    frame["taskId"] = json!(update.task_id);
    Some(frame)
}

fn call(data: &Value) -> Value {
    let taken =
        ["tool_call_id", "status", "tool_name", "input_parameters", "live_content", "result"];
    let mut call: Map<String, Value> = taken
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), data.get(name)?.clone())))
        .collect();
    if let Some(request) = data.get("confirmation_request").and_then(Value::as_object) {
        let details = request.iter().filter(|(name, _)| name.ends_with("_details"));
        let details: Map<String, Value> =
            details.map(|(name, value)| (name.clone(), value.clone())).collect();
        let request = json!({ "options": request.get("options"), "details": details });
        call.insert("confirmation_request".to_owned(), request);
    }
    call.insert("metadata".to_owned(), json!({ "correlationId": data.get("tool_call_id") }));
    Value::Object(call)
}
