//! Parser of client messages, in every known spelling.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::attachments::{self, Attachment, ReceivedFile};
use super::servers;
use super::tool_call::{ALL_OPTIONS, ANSWERS_OPTION, CANCEL_OPTION, ONCE_OPTION, YES_WORD};
use tandem_agent::session::{PromptPart, ServerConfig};
use tandem_wire::a2a::{
    Fields, Message, MessageSendConfiguration, Part, PartData, PushNotificationConfig, Role, error,
};
use tandem_wire::development_tool::{CODER_AGENT, ToolCallConfirmation, is_uri};
use tandem_wire::jsonrpc::Error;

/// Maximum number of tools to which a client can limit a session.
const MAX_TOOL_NAMES: usize = 1000;

/// Maximum length of such a tool's name, in bytes.
const MAX_TOOL_NAME_BYTES: usize = 256;

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
    /// Files of the prompt that the caller stores beside the session.
    pub(super) files: Vec<ReceivedFile>,
    pub(super) settings: AgentSettings,
    pub(super) configuration: MessageSendConfiguration,
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
    /// `true` if the client wants no questions. The operator of the server decides whether this takes effect.
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
    Answers(Vec<ToolCallConfirmation>),
}

/// Form of a message's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MessageForm {
    /// Parameters of `message/send` and `message/stream`.
    Parameters,
    /// Parameters as clients of the first server or of an early implementation send them.
    Early,
    /// The body of `POST /message/stream`: the request itself, without an envelope of JSON-RPC.
    Bare,
}

/// A message as received and as parsed. The received form is kept for another node.
pub(super) struct ReceivedMessage {
    pub(super) form: MessageForm,
    pub(super) params: Fields,
    pub(super) sent: Sent,
}

impl ReceivedMessage {
    /// Parses a message. At most `attachment_chars` characters of an attached text file are used.
    pub(super) fn read(
        form: MessageForm,
        params: Fields,
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
fn message(params: &Fields, attachment_chars: usize) -> Result<Sent, Error> {
    let message = params.object("message");
    let message = message.ok_or_else(|| error::invalid_params("`message` must be an object"))?;
    let message = Message::from(message);
    if message.message_id.is_empty() {
        return Err(error::invalid_params("`message.messageId` must be a string"));
    }
    if message.role != Role::User {
        return Err(error::invalid_params("`message.role` must be `user`"));
    }
    if message.parts.is_empty() {
        return Err(error::invalid_params("`message.parts` must not be empty"));
    }
    let mut files = Vec::new();
    let content = content(&message.parts, attachment_chars, &mut files)?;
    Ok(Sent { files, ..sent(params, message, content)? })
}

/// Parses the parameters from a client of the first server or of an early implementation: `content` in place
/// of parts, and no id.
fn early_message(params: &Fields, attachment_chars: usize) -> Result<Sent, Error> {
    let message = params.object("message").filter(|message| message.0.contains_key("content"));
    let Some(message) = message else { return self::message(params, attachment_chars) };
    let early = message.object("content").unwrap_or_default();
    let content = if let Some(text) = early.text("text") {
        SentContent::Prompt(vec![PromptPart::Text(text.to_owned())])
    } else {
        let answer = early.object("data").map(confirmation).transpose()?.flatten();
        SentContent::Answers(vec![answer.ok_or_else(|| {
            error::invalid_params("`message.content` must have `text`, or `data` with an answer")
        })?])
    };
    sent(params, message.into(), content)
}

/// Parses the bare body of `POST /message/stream` (server document, "Responding to confirmations").
fn bare_message(body: &Fields, attachment_chars: usize) -> Result<Sent, Error> {
    let mut files = Vec::new();
    let (message, content) = if let Some(text) = body.text("userMessage") {
        let prompt = vec![PromptPart::Text(text.to_owned())];
        (Message::default(), SentContent::Prompt(prompt))
    } else if let Some(said) = body.object("userMessage") {
        let answer = confirmation(said.clone())?;
        let message = Message::from(said);
        let content = match answer {
            Some(answer) => SentContent::Answers(vec![answer]),
            None if message.parts.is_empty() => {
                return Err(error::invalid_params("`userMessage` is empty"));
            }
            None => content(&message.parts, attachment_chars, &mut files)?,
        };
        (message, content)
    } else {
        return Err(error::invalid_params("`userMessage` must be a text, parts or an answer"));
    };
    let mut read = Sent { files, ..sent(body, message, content)? };
    if let Some(settings) = body.object("agentSettings") {
        read.settings = settings_in(&settings)?.unwrap_or_default();
    }
    Ok(read)
}

fn sent(params: &Fields, message: Message, content: SentContent) -> Result<Sent, Error> {
    let id = |own: String, name| {
        let given = || params.text(name).map(ToOwned::to_owned);
        Some(own).filter(|own| !own.is_empty()).or_else(given)
    };
    let configuration = params.object("configuration").unwrap_or_default();
    let configuration = MessageSendConfiguration::try_from(configuration)?;
    configuration.push.as_ref().map_or(Ok(()), check_address)?;
    Ok(Sent {
        id: Some(message.message_id).filter(|id| !id.is_empty()),
        task: id(message.task_id, "taskId").or_else(|| params.text("id").map(ToOwned::to_owned)),
        context: id(message.context_id, "contextId"),
        begins: None,
        content,
        files: Vec::new(),
        settings: settings(&[&message.metadata, &params.object("metadata").unwrap_or_default()])?,
        configuration,
    })
}

/// Fails unless a receiver of push notifications has an address.
pub(super) fn check_address(config: &PushNotificationConfig) -> Result<(), Error> {
    if config.url.is_empty() {
        return Err(error::invalid_params("`url` must say where to send notifications"));
    }
    Ok(())
}

/// Returns the settings from the first object that has any: under the extension's URI, under its older name,
/// or bare.
pub(super) fn settings(metadata: &[&Fields]) -> Result<AgentSettings, Error> {
    let mut places = metadata.iter().flat_map(|metadata| {
        let own = metadata.0.keys().filter(|name| is_uri(name)).map(String::as_str);
        let named = own.chain([CODER_AGENT]).filter_map(|name| metadata.object(name));
        named.chain([(*metadata).clone()])
    });
    let found = places.find_map(|place| settings_in(&place).transpose());
    found.transpose().map(Option::unwrap_or_default)
}

/// Returns the settings in an object; `None` if it has none.
pub(super) fn settings_in(object: &Fields) -> Result<Option<AgentSettings>, Error> {
    let workspace = object.text("workspacePath").map(PathBuf::from);
    let auto_execute = object.flag("autoExecute");
    let servers = servers::of_settings(object);
    let tools = object.value("allowedTools").map(|names| tool_names(Vec::deserialize(names).ok()));
    let tools = tools.transpose()?;
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
fn tool_names(names: Option<Vec<String>>) -> Result<Vec<String>, Error> {
    let is_readable = |names: &Vec<String>| {
        names.len() <= MAX_TOOL_NAMES && names.iter().all(|name| is_tool_name(name))
    };
    names.filter(is_readable).ok_or_else(|| {
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

/// Parses the parts of a message. Files that the caller must store beside the session are added to `files`.
fn content(
    parts: &[Part],
    attachment_chars: usize,
    files: &mut Vec<ReceivedFile>,
) -> Result<SentContent, Error> {
    let mut prompt = Vec::new();
    let mut answers = Vec::new();
    let (mut says_something, mut refusal) = (false, None);
    for (n, part) in parts.iter().enumerate() {
        if let Some(answer) = part.fields().map(confirmation).transpose()?.flatten() {
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
            Attachment::Beside(said) => (said, Some("describe the request in words".to_owned())),
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
fn words(part: &Part) -> Option<PromptPart> {
    let text = match (part.kind.as_deref(), &part.text, &part.data) {
        (Some("text") | None, Some(said), _) => said.clone(),
        (Some("data") | None, _, Some(PartData::Received(data))) => {
            format!("\n```json\n{data}\n```\n")
        }
        _ => return None,
    };
    Some(PromptPart::Text(text))
}

fn attachment(
    n: usize,
    part: &Part,
    max_chars: usize,
    files: &mut Vec<ReceivedFile>,
) -> Result<Attachment, Error> {
    let file = part.file.as_ref().filter(|_| matches!(part.kind.as_deref(), Some("file") | None));
    file.and_then(|file| attachments::read(file, max_chars, files)).ok_or_else(|| {
        error::invalid_params(format!("`message.parts[{n}]` is not a text, data or file part"))
    })
}

fn unreadable(n: usize, what_to_do: &str) -> Error {
    let message = format!("`message.parts[{n}]` cannot be read: {what_to_do}");
    Error::new(error::CONTENT_TYPE_NOT_SUPPORTED, message)
}

/// Returns the answer to a question that the data contains, if any.
fn confirmation(data: Fields) -> Result<Option<ToolCallConfirmation>, Error> {
    let Some(answer) = ToolCallConfirmation::read(data) else { return Ok(None) };
    let option = answer.selected_option_id.as_str();
    if !answer.answers.is_empty() {
        return match option {
            CANCEL_OPTION => Ok(Some(ToolCallConfirmation { answers: Vec::new(), ..answer })),
            ANSWERS_OPTION | YES_WORD | ONCE_OPTION => Ok(Some(ToolCallConfirmation {
                selected_option_id: ANSWERS_OPTION.to_owned(),
                ..answer
            })),
            _ => Err(error::invalid_params(format!(
                "`{option}` and `answers` cannot both be the answer: send one of them"
            ))),
        };
    }
    if option != YES_WORD && !ALL_OPTIONS.contains(&option) {
        let known = ALL_OPTIONS.join(", ");
        return Err(error::invalid_params(format!("`{option}` is not an option: {known}")));
    }
    Ok(Some(answer))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use tandem_content::media::Media;
    use tandem_wire::development_tool::EXTENSION_URI;

    #[track_caller]
    fn answer(data: Value, option: &str, content: Option<&str>) {
        let expected = ToolCallConfirmation {
            tool_call_id: "c".to_owned(),
            selected_option_id: option.to_owned(),
            new_content: content.map(ToOwned::to_owned),
            answers: Vec::new(),
        };
        assert_eq!(confirmation(data.clone().into()).unwrap(), Some(expected), "{data}");
    }

    #[test]
    fn answers_have_many_spellings() {
        answer(
            json!({ "tool_call_id": "c", "selected_option_id": "proceed_once" }),
            ONCE_OPTION,
            None,
        );
        answer(json!({ "toolCallId": "c", "selectedOptionId": "reject" }), CANCEL_OPTION, None);
        answer(
            json!({ "tool_call_id": "c", "selected_option_id": "proceed_once",
                "modified_details": { "file_details": { "new_content": "x" } } }),
            ONCE_OPTION,
            Some("x"),
        );
        answer(
            json!({ "toolCallId": "c", "selectedOptionId": "proceed_once",
                "file_details": { "new_content": "x" } }),
            ONCE_OPTION,
            Some("x"),
        );
        answer(
            json!({ "callId": "c", "outcome": "proceed_always", "newContent": "x" }),
            "proceed_always",
            Some("x"),
        );
        answer(
            json!({ "kind": "tool-call-confirmation", "toolCallId": "c", "approved": true }),
            YES_WORD,
            None,
        );
        answer(json!({ "toolCallId": "c", "approved": false }), CANCEL_OPTION, None);
    }

    #[test]
    fn answers_to_questions_stand_alone_or_beside_a_yes_and_a_cancel_wins() {
        let read = |more: Value| {
            let mut data = json!({ "toolCallId": "c", "answers": ["Blue", ""] });
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let read = confirmation(data.into()).map(Option::unwrap);
            read.map(|answer| (answer.selected_option_id, answer.answers))
        };
        let answers = || vec!["Blue".to_owned(), String::new()];
        for yes in [
            json!({}),
            json!({ "approved": true }),
            json!({ "outcome": "answers" }),
            json!({ "selectedOptionId": "proceed_once" }),
        ] {
            assert_eq!(read(yes.clone()).unwrap(), ("answers".to_owned(), answers()), "{yes}");
        }
        for no in [
            json!({ "approved": false }),
            json!({ "approved": false, "outcome": "answers" }),
            json!({ "outcome": "reject" }),
            json!({ "selectedOptionId": "cancel" }),
        ] {
            assert_eq!(read(no.clone()).unwrap(), ("cancel".to_owned(), Vec::new()), "{no}");
        }
        for mixed in ["proceed_always", "option_2", "odd"] {
            let refused = read(json!({ "selectedOptionId": mixed })).unwrap_err();
            assert_eq!(refused.code, Error::INVALID_PARAMS, "{mixed}");
        }
    }

    fn content_of(part: Value) -> Result<SentContent, Error> {
        let part = Part::from(Fields::from(part));
        content(std::slice::from_ref(&part), 10, &mut Vec::new())
    }

    #[test]
    fn data_that_is_no_answer_is_told_to_the_model() {
        let part = json!({ "kind": "data", "data": { "a": 1 } });
        let expected = PromptPart::Text("\n```json\n{\"a\":1}\n```\n".to_owned());
        assert_eq!(content_of(part).unwrap(), SentContent::Prompt(vec![expected]));
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
            assert_eq!(content_of(part.clone()).unwrap(), expected, "{part}");
        }
        let text = json!({ "raw": "/w==", "mediaType": "text/plain" });
        assert_eq!(content_of(text).unwrap_err().code, error::CONTENT_TYPE_NOT_SUPPORTED);
    }

    #[test]
    fn settings_are_found_wherever_they_are() {
        let at =
            |metadata: Value| settings(&[&Fields::default(), &metadata.into()]).unwrap().workspace;
        let w = Some(PathBuf::from("/w"));
        assert_eq!(at(json!({ EXTENSION_URI: { "workspace_path": "/w" } })), w);
        assert_eq!(at(json!({ "coderAgent": { "workspacePath": "/w" } })), w);
        assert_eq!(at(json!({ "kind": "agent-settings", "workspacePath": "/w" })), w);
        assert_eq!(at(json!({ "x": 1 })), None);
    }

    #[test]
    fn a_limit_of_the_tools_that_cannot_be_read_is_refused() {
        let read = |names: Value| {
            let metadata = json!({ EXTENSION_URI: { "allowed_tools": names } });
            settings(&[&metadata.into()]).map(|settings| settings.tools)
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
        let wrong = |params: Value| message(&params.into(), 10).unwrap_err().message.into_owned();
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
