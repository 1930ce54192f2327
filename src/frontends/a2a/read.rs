//! Parser of client messages, in every known spelling.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attachments::{self, Attachment, ReceivedFile};
use super::fields::{count, field, text};
use super::servers;
use super::tool_call::{CANCEL, OPTIONS, YES};
use tandem_agent::session::{PromptPart, ServerConfig};
use tandem_wire::a2a::{PushAuthentication, PushNotificationConfig, error};
use tandem_wire::development_tool::{CODER_AGENT, is_uri};
use tandem_wire::jsonrpc::Error;

/// Id of a push configuration whose client gives it none (0.3).
pub(super) const DEFAULT_PUSH_ID: &str = "default";

/// Maximum number of tools to which a client can limit a session.
const MAX_TOOL_NAMES: usize = 1000;

/// Maximum length of such a tool's name, in bytes.
const MAX_TOOL_NAME_BYTES: usize = 256;

/// Output modes of clients that accept data parts.
const DATA_MODES: [&str; 6] = ["application/json", "application/*", "*/*", "*", "json", "data"];

/// A message that a client sends (spec 6.4 and 7.1).
#[derive(Debug, PartialEq)]
pub(super) struct Sent {
    /// Id that the client gives the message. A message that is sent again has the same id.
    pub(super) id: Option<String>,
    pub(super) task: Option<String>,
    pub(super) context: Option<String>,
    /// Id derived from the message, its content and its sender: the id of the session that the message
    /// begins, or a key of its turn in a shared session.
    pub(super) begins: Option<String>,
    pub(super) content: SentContent,
    /// Files of the prompt that are to be put beside the session.
    pub(super) files: Vec<ReceivedFile>,
    pub(super) settings: AgentSettings,
    pub(super) configuration: Configuration,
}

impl Sent {
    /// Returns `true` if the message names a session.
    pub(super) fn names_session(&self) -> bool {
        self.task.is_some() || self.context.is_some()
    }

    /// Returns the keys that the session's log may have for the message; the first one is the key that a new
    /// turn gets. In a shared session, the id of a message that names no session is not unique, so `begins`
    /// is used.
    pub(super) fn keys(&self, is_shared: bool) -> Vec<String> {
        let begins = self.begins.clone().filter(|_| is_shared);
        let id = self.id.clone().filter(|_| begins.is_none() || self.names_session());
        id.into_iter().chain(begins).collect()
    }
}

/// Settings that a client wants for a session (RFC 3.2, `AgentSettings`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AgentSettings {
    /// Directory to work in.
    pub(super) workspace: Option<PathBuf>,
    /// `true` if the client wants to be asked nothing. The operator of the server decides whether this takes
    /// effect.
    pub(super) auto_execute: bool,
    /// MCP servers that the client adds to the session.
    pub(super) servers: Vec<ServerConfig>,
    /// The only tools that the session may use; `None` if the client does not limit them.
    pub(super) tools: Option<Vec<String>>,
}

/// Content of a message: a prompt, or answers to questions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SentContent {
    Prompt(Vec<PromptPart>),
    Answers(Vec<ConfirmationAnswer>),
}

/// Form of the response that a client wants (spec 7.1.1).
#[derive(Debug, Default, PartialEq)]
pub(super) struct Configuration {
    /// `true` to respond at once; `false` to respond when the turn has ended or asks a question.
    pub(super) at_once: bool,
    /// `true` if the client accepts text, but no data.
    pub(super) text_only: bool,
    /// Maximum number of messages of the history in the response.
    pub(super) history: Option<usize>,
    /// Configuration of push notifications, if the client wants any.
    pub(super) push: Option<PushNotificationConfig>,
}

/// The answer to a question (RFC 3.2, `ToolCallConfirmation`).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConfirmationAnswer {
    pub(super) call: String,
    /// Id of the chosen option.
    pub(super) option: String,
    /// Text to write to the file instead of the proposed one.
    pub(super) content: Option<String>,
}

/// Form of a message's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MessageForm {
    /// Parameters of `message/send` and `message/stream`.
    Parameters,
    /// Parameters as clients of the first server or of an early implementation send them.
    Early,
    /// The bare body of `POST /message/stream`.
    Bare,
}

/// A message as received and as parsed. The received form is kept for another node.
pub(super) struct ReceivedMessage {
    pub(super) form: MessageForm,
    pub(super) params: Value,
    pub(super) sent: Sent,
}

impl ReceivedMessage {
    /// Parses a message. At most `attachment_chars` characters of an attached text file are used.
    pub(super) fn read(
        form: MessageForm,
        params: Value,
        attachment_chars: usize,
    ) -> Result<Self, Error> {
        let sent = match form {
            MessageForm::Parameters => message(&params, attachment_chars)?,
            MessageForm::Early => early_message(&params, attachment_chars)?,
            MessageForm::Bare => bare_message(&params, attachment_chars)?,
        };
        Ok(Self { form, params, sent })
    }
}

/// Parses the parameters of `message/send` and `message/stream`.
fn message(params: &Value, attachment_chars: usize) -> Result<Sent, Error> {
    let message = params
        .get("message")
        .filter(|message| message.is_object())
        .ok_or_else(|| error::invalid_params("`message` must be an object"))?;
    if text(message, &["messageId", "message_id"]).is_none() {
        return Err(error::invalid_params("`message.messageId` must be a string"));
    }
    if !matches!(text(message, &["role"]), Some("user" | "ROLE_USER")) {
        return Err(error::invalid_params("`message.role` must be `user`"));
    }
    let parts = field(message, &["parts"]).and_then(Value::as_array);
    let parts = parts.filter(|parts| !parts.is_empty());
    let parts = parts.ok_or_else(|| error::invalid_params("`message.parts` must not be empty"))?;
    let mut files = Vec::new();
    let content = content(parts, attachment_chars, &mut files)?;
    Ok(Sent { files, ..sent(params, message, content)? })
}

/// Parses the parameters from a client of the first server or of an early implementation: `content` in place
/// of parts, and no id.
fn early_message(params: &Value, attachment_chars: usize) -> Result<Sent, Error> {
    let message = params.get("message").filter(|message| message.is_object());
    let early = message.and_then(|message| message.get("content"));
    let (Some(message), Some(early)) = (message, early) else {
        return self::message(params, attachment_chars);
    };
    let content = if let Some(text) = text(early, &["text"]) {
        SentContent::Prompt(vec![PromptPart::Text(text.to_owned())])
    } else {
        let data = early.get("data").unwrap_or(&Value::Null);
        let answer = confirmation(data)?;
        SentContent::Answers(vec![answer.ok_or_else(|| {
            error::invalid_params("`message.content` must have `text`, or `data` with an answer")
        })?])
    };
    sent(params, message, content)
}

/// Parses the bare body of `POST /message/stream` (server document, "Responding to confirmations").
fn bare_message(body: &Value, attachment_chars: usize) -> Result<Sent, Error> {
    let said = body.get("userMessage").unwrap_or(&Value::Null);
    let mut files = Vec::new();
    let content = match said {
        Value::String(text) if !text.is_empty() => {
            SentContent::Prompt(vec![PromptPart::Text(text.clone())])
        }
        Value::Object(_) => {
            match (confirmation(said)?, said.get("parts").and_then(Value::as_array)) {
                (Some(answer), _) => SentContent::Answers(vec![answer]),
                (None, Some(parts)) if !parts.is_empty() => {
                    content(parts, attachment_chars, &mut files)?
                }
                (None, _) => return Err(error::invalid_params("`userMessage` says nothing")),
            }
        }
        _ => return Err(error::invalid_params("`userMessage` must be a text, parts or an answer")),
    };
    let mut read = Sent { files, ..sent(body, said, content)? };
    if let Some(settings) = body.get("agentSettings") {
        read.settings = self::settings_in(settings)?.unwrap_or_default();
    }
    Ok(read)
}

fn sent(params: &Value, message: &Value, content: SentContent) -> Result<Sent, Error> {
    let id = |names: &[&str]| {
        text(message, names).or_else(|| text(params, names)).map(ToOwned::to_owned)
    };
    let configuration = field(params, &["configuration"]).unwrap_or(&Value::Null);
    let blocking = field(configuration, &["blocking"]).and_then(Value::as_bool);
    let at_once =
        field(configuration, &["returnImmediately", "return_immediately"]).and_then(Value::as_bool);
    let push = ["pushNotificationConfig", "push_notification_config", "taskPushNotificationConfig"];
    Ok(Sent {
        id: text(message, &["messageId", "message_id"]).map(ToOwned::to_owned),
        task: id(&["taskId", "task_id"]).or_else(|| text(params, &["id"]).map(ToOwned::to_owned)),
        context: id(&["contextId", "context_id"]),
        begins: None,
        content,
        files: Vec::new(),
        settings: settings(&[message.get("metadata"), params.get("metadata")])?,
        configuration: Configuration {
            at_once: at_once.or(blocking.map(|blocking| !blocking)).unwrap_or(false),
            text_only: is_text_only(configuration),
            history: count(configuration, &["historyLength", "history_length"])?,
            push: field(configuration, &push).map(push_config).transpose()?,
        },
    })
}

/// Returns `true` if the output modes that a client accepts are only text modes.
fn is_text_only(configuration: &Value) -> bool {
    let modes = field(configuration, &["acceptedOutputModes", "accepted_output_modes"]);
    let modes: Vec<_> = modes.and_then(Value::as_array).into_iter().flatten().collect();
    let takes_data = |mode: &&Value| {
        let mode = mode.as_str().unwrap_or_default().to_ascii_lowercase();
        let mode = mode.split(';').next().unwrap_or_default().trim();
        DATA_MODES.contains(&mode)
    };
    !modes.is_empty() && !modes.iter().any(takes_data)
}

/// Parses a configuration of push notifications, of either version.
pub(super) fn push_config(config: &Value) -> Result<PushNotificationConfig, Error> {
    let url = text(config, &["url"])
        .ok_or_else(|| error::invalid_params("`url` must say where to send notifications"))?;
    let authentication = field(config, &["authentication"]).map(|authentication| {
        let schemes = field(authentication, &["schemes"]).and_then(Value::as_array);
        let schemes = schemes.into_iter().flatten().filter_map(Value::as_str);
        PushAuthentication {
            schemes: text(authentication, &["scheme"])
                .into_iter()
                .chain(schemes)
                .map(ToOwned::to_owned)
                .collect(),
            credentials: text(authentication, &["credentials"]).map(ToOwned::to_owned),
        }
    });
    Ok(PushNotificationConfig {
        id: text(config, &["id"]).unwrap_or(DEFAULT_PUSH_ID).to_owned(),
        url: url.to_owned(),
        token: text(config, &["token"]).map(ToOwned::to_owned),
        authentication,
    })
}

/// Returns the settings from the first object that has any: under the extension's URI, under its older name,
/// or bare.
pub(super) fn settings(metadata: &[Option<&Value>]) -> Result<AgentSettings, Error> {
    let mut places = metadata.iter().flatten().flat_map(|metadata| {
        let entries = metadata.as_object().into_iter().flatten();
        let own = entries.filter(|(name, _)| is_uri(name)).map(|(_, settings)| settings);
        own.chain(metadata.get(CODER_AGENT)).chain([*metadata])
    });
    let found = places.find_map(|place| settings_in(place).transpose());
    found.transpose().map(Option::unwrap_or_default)
}

/// Returns the settings in an object; `None` if it has none.
pub(super) fn settings_in(object: &Value) -> Result<Option<AgentSettings>, Error> {
    let workspace = text(object, &["workspacePath", "workspace_path"]).map(PathBuf::from);
    let auto_execute = field(object, &["autoExecute", "auto_execute"]).and_then(Value::as_bool);
    let servers = servers::brought(object);
    let tools = field(object, &["allowedTools", "allowed_tools"]).map(tool_names).transpose()?;
    let is_any =
        workspace.is_some() || auto_execute.is_some() || !servers.is_empty() || tools.is_some();
    Ok(is_any.then(|| AgentSettings {
        workspace,
        auto_execute: auto_execute.unwrap_or(false),
        servers,
        tools,
    }))
}

/// Parses the names of the tools that a session may use. A list that cannot be parsed is an error, since a
/// limit must not be dropped silently.
fn tool_names(names: &Value) -> Result<Vec<String>, Error> {
    let name =
        |name: &Value| name.as_str().filter(|name| is_tool_name(name)).map(ToOwned::to_owned);
    let listed = names.as_array().filter(|names| names.len() <= MAX_TOOL_NAMES);
    let names = listed.and_then(|names| names.iter().map(name).collect());
    names.ok_or_else(|| {
        error::invalid_params(format!(
            "`allowed_tools` must be a list of at most {MAX_TOOL_NAMES} names of tools, each with at most \
             {MAX_TOOL_NAME_BYTES} bytes, such as `read_file` or `mcp_SERVER_*`; a part of a tool, as in \
             `run_shell_command(git)`, cannot be named"
        ))
    })
}

fn is_tool_name(name: &str) -> bool {
    let is_part = |c: char| c.is_control() || c == '(' || c == ')';
    !name.trim().is_empty() && name.len() <= MAX_TOOL_NAME_BYTES && !name.contains(is_part)
}

/// Parses the parts of a message. Files that are to be put beside the session are added to `files`.
fn content(
    parts: &[Value],
    attachment_chars: usize,
    files: &mut Vec<ReceivedFile>,
) -> Result<SentContent, Error> {
    let mut prompt = Vec::new();
    let mut answers = Vec::new();
    let (mut says_something, mut refusal) = (false, None);
    for (n, part) in parts.iter().enumerate() {
        if let Some(answer) = confirmation(part.get("data").unwrap_or(&Value::Null))? {
            answers.push(answer);
            continue;
        }
        let attachment = match words(part) {
            Some(said) => Attachment::Taken(vec![said]),
            None => attachment(n, part, attachment_chars, files)?,
        };
        let (said, why) = match attachment {
            Attachment::Taken(said) => {
                says_something = true;
                (said, None)
            }
            Attachment::Beside(said) => {
                (said, Some("say in words what to do with such a file".to_owned()))
            }
            Attachment::Refused { note, why } => (vec![note], Some(why)),
        };
        prompt.extend(said);
        refusal = refusal.or(why.map(|why| unreadable(n, &why)));
    }
    // A text beside an answer is only a remark, so it is ignored.
    if !answers.is_empty() {
        return Ok(SentContent::Answers(answers));
    }
    // The prompt names each part that cannot be used. The message is refused only if it says nothing else.
    refusal.filter(|_| !says_something).map_or(Ok(SentContent::Prompt(prompt)), Err)
}

/// Returns the text or the data of a part as a text for the prompt; `None` for other parts.
fn words(part: &Value) -> Option<PromptPart> {
    let kind = text(part, &["kind", "type"]);
    let said = field(part, &["text"]).and_then(Value::as_str);
    if let (Some("text") | None, Some(said)) = (kind, said) {
        return Some(PromptPart::Text(said.to_owned()));
    }
    match (kind, field(part, &["data"])) {
        (Some("data") | None, Some(data)) => {
            Some(PromptPart::Text(format!("\n```json\n{data}\n```\n")))
        }
        _ => None,
    }
}

fn attachment(
    n: usize,
    part: &Value,
    max_chars: usize,
    files: &mut Vec<ReceivedFile>,
) -> Result<Attachment, Error> {
    let file = field(part, &["file"]).unwrap_or(part);
    let is_file = matches!(text(part, &["kind", "type"]), Some("file") | None);
    let read = if is_file { attachments::read(file, max_chars, files) } else { None };
    read.ok_or_else(|| {
        error::invalid_params(format!("`message.parts[{n}]` is no text, data or file part"))
    })
}

fn unreadable(n: usize, what_to_do: &str) -> Error {
    let message = format!("`message.parts[{n}]` cannot be read: {what_to_do}");
    Error::new(error::CONTENT_TYPE_NOT_SUPPORTED, message)
}

/// Returns the answer to a question that the data contains, if any.
fn confirmation(data: &Value) -> Result<Option<ConfirmationAnswer>, Error> {
    let Some(call) = text(data, &["tool_call_id", "toolCallId", "callId"]) else { return Ok(None) };
    let option = text(data, &["selected_option_id", "selectedOptionId", "outcome"]);
    let approved = field(data, &["approved"]).and_then(Value::as_bool);
    let option = match (option, approved) {
        (Some("reject" | "deny"), _) | (None, Some(false)) => CANCEL,
        (Some(option), _) => option,
        (None, Some(true)) => YES,
        (None, None) => return Ok(None),
    };
    if option != YES && !OPTIONS.contains(&option) {
        let known = OPTIONS.join(", ");
        return Err(error::invalid_params(format!("`{option}` is no option: {known}")));
    }
    let details = field(data, &["modified_details", "modifiedDetails"]).unwrap_or(data);
    let details = field(details, &["file_details", "fileDetails"]).unwrap_or(details);
    let content = field(details, &["new_content", "newContent"]).and_then(Value::as_str);
    Ok(Some(ConfirmationAnswer {
        call: call.to_owned(),
        option: option.to_owned(),
        content: content.map(ToOwned::to_owned),
    }))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::json;

    use super::super::tool_call::ONCE;
    use super::*;
    use tandem_content::media::Media;
    use tandem_wire::development_tool::URI;

    #[track_caller]
    fn answer(data: Value, option: &str, content: Option<&str>) {
        let expected = ConfirmationAnswer {
            call: "c".to_owned(),
            option: option.to_owned(),
            content: content.map(ToOwned::to_owned),
        };
        assert_eq!(confirmation(&data).unwrap(), Some(expected), "{data}");
    }

    #[test]
    fn answers_have_many_spellings() {
        answer(json!({ "tool_call_id": "c", "selected_option_id": "proceed_once" }), ONCE, None);
        answer(json!({ "toolCallId": "c", "selectedOptionId": "reject" }), CANCEL, None);
        answer(
            json!({ "tool_call_id": "c", "selected_option_id": "proceed_once",
                "modified_details": { "file_details": { "new_content": "x" } } }),
            ONCE,
            Some("x"),
        );
        answer(
            json!({ "toolCallId": "c", "selectedOptionId": "proceed_once",
                "file_details": { "new_content": "x" } }),
            ONCE,
            Some("x"),
        );
        answer(
            json!({ "callId": "c", "outcome": "proceed_always", "newContent": "x" }),
            "proceed_always",
            Some("x"),
        );
        answer(
            json!({ "kind": "tool-call-confirmation", "toolCallId": "c", "approved": true }),
            YES,
            None,
        );
        answer(json!({ "toolCallId": "c", "approved": false }), CANCEL, None);
    }

    #[test]
    fn data_that_is_no_answer_is_told_to_the_model() {
        let parts = [json!({ "kind": "data", "data": { "a": 1 } })];
        let expected = PromptPart::Text("\n```json\n{\"a\":1}\n```\n".to_owned());
        assert_eq!(
            content(&parts, 10, &mut Vec::new()).unwrap(),
            SentContent::Prompt(vec![expected])
        );
    }

    #[test]
    fn media_go_with_a_prompt_in_every_spelling() {
        let png = "iVBORw0KGgp4";
        let expected = PromptPart::Media(Media::checked("image/png", png).unwrap());
        for part in [
            json!({ "kind": "file", "file": { "bytes": png, "mimeType": "image/png" } }),
            json!({ "raw": png, "mediaType": "image/png", "filename": "a.png" }),
        ] {
            let expected = SentContent::Prompt(vec![expected.clone()]);
            assert_eq!(
                content(std::slice::from_ref(&part), 10, &mut Vec::new()).unwrap(),
                expected,
                "{part}"
            );
        }
        let text = json!({ "raw": "/w==", "mediaType": "text/plain" });
        assert_eq!(
            content(&[text], 10, &mut Vec::new()).unwrap_err().code,
            error::CONTENT_TYPE_NOT_SUPPORTED
        );
    }

    #[test]
    fn settings_are_found_wherever_they_are() {
        let at = |metadata: Value| settings(&[None, Some(&metadata)]).unwrap().workspace;
        let w = Some(PathBuf::from("/w"));
        assert_eq!(at(json!({ URI: { "workspace_path": "/w" } })), w);
        assert_eq!(at(json!({ "coderAgent": { "workspacePath": "/w" } })), w);
        assert_eq!(at(json!({ "kind": "agent-settings", "workspacePath": "/w" })), w);
        assert_eq!(at(json!({ "x": 1 })), None);
    }

    #[test]
    fn a_limit_of_the_tools_that_cannot_be_read_is_refused() {
        let read = |names: Value| {
            let metadata = json!({ URI: { "allowed_tools": names } });
            settings(&[Some(&metadata)]).map(|settings| settings.tools)
        };
        let names = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(read(json!([])), Ok(names(&[])));
        assert_eq!(read(json!(["read_file", "mcp_git_*"])), Ok(names(&["read_file", "mcp_git_*"])));
        assert_eq!(read(Value::Null), Ok(None));
        for wrong in [
            json!("read_file"),
            json!({}),
            json!([1]),
            json!([""]),
            json!(["run_shell_command(git)"]),
            json!(["x".repeat(MAX_TOOL_NAME_BYTES + 1)]),
            json!(vec!["x"; MAX_TOOL_NAMES + 1]),
        ] {
            assert_eq!(read(wrong.clone()).unwrap_err().code, -32602, "{wrong}");
        }
    }

    #[test]
    fn a_message_must_be_whole() {
        let wrong = |params: Value| message(&params, 10).unwrap_err().message.into_owned();
        let part = json!({ "kind": "text", "text": "hi" });
        assert!(wrong(json!({})).contains("`message`"));
        assert!(
            wrong(json!({ "message": { "role": "user", "parts": [part] } })).contains("messageId")
        );
        assert!(
            wrong(json!({ "message": { "messageId": "m", "parts": [part] } })).contains("role")
        );
        let empty = json!({ "message": { "messageId": "m", "role": "user", "parts": [] } });
        assert!(wrong(empty).contains("parts"));
        let strange =
            json!({ "message": { "messageId": "m", "role": "user", "parts": [{ "kind": "?" }] } });
        assert!(wrong(strange).contains("parts[0]"));
    }
}
