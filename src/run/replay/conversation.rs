//! Conversion of a conversation on the wire (ACP 0.0.9 or 1) into text for people.
//!
//! The messages are read leniently, as free-form JSON, because a record may come from any agent. Messages that are no
//! part of the conversation are left out; `tandem replay --wire` shows all messages.

use std::collections::HashMap;

use serde_json::Value;
use tandem_content::visible::{visible, visible_line, visible_prose};
use tandem_wire::acp::{INITIALIZE_METHOD, v0, v1};
use tandem_wire::rpc::LineDirection;

const DIM_CODE: &str = "2";
const PROMPT_CODE: &str = "1;36";
const GOOD_CODE: &str = "32";
const BAD_CODE: &str = "31";
const QUESTION_CODE: &str = "33";

/// Kind of a printed block. An empty line separates a block from a block of another kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Said,
    Thought,
    Other,
}

/// State of the conversion: the part of the conversation so far that later lines refer to.
pub(super) struct Conversation {
    is_coloured: bool,
    /// Methods of the client's open requests, by the id of the request.
    requests: HashMap<String, String>,
    /// The agent's open requests that ask a question or show a call, by the id of the request.
    asked: HashMap<String, Value>,
    /// Calls that have not ended, by the id of the call.
    calls: HashMap<String, ShownCall>,
    /// Kind of the block that was printed last.
    last: Option<Block>,
    /// Number of line feeds at the end of the streamed text. They are printed only if the same text continues.
    held_back: usize,
    out: String,
}

/// A call that has not ended.
#[derive(Default)]
struct ShownCall {
    title: String,
    /// `true` if a question has already shown the change to a file.
    is_change_shown: bool,
}

impl Conversation {
    pub(super) fn new(is_coloured: bool) -> Self {
        Self {
            is_coloured,
            requests: HashMap::new(),
            asked: HashMap::new(),
            calls: HashMap::new(),
            last: None,
            held_back: 0,
            out: String::new(),
        }
    }

    /// Returns the text to print for a line on the wire.
    pub(super) fn read(&mut self, direction: LineDirection, line: &str) -> String {
        if let Ok(message) = serde_json::from_str::<Value>(line) {
            match (direction, text(&message, "/method")) {
                (LineDirection::In, Some(method)) => self.client_asks(method, &message),
                (LineDirection::In, None) => self.client_answers(&message),
                (LineDirection::Out, Some(method)) => self.agent_asks(method, &message),
                (LineDirection::Out, None) => self.agent_answers(&message),
            }
        }
        std::mem::take(&mut self.out)
    }

    /// Returns the text that ends the last block.
    pub(super) fn end(&mut self) -> String {
        self.block(None);
        std::mem::take(&mut self.out)
    }

    fn client_asks(&mut self, method: &str, message: &Value) {
        if let Some(id) = message.get("id") {
            self.requests.insert(id.to_string(), method.to_owned());
        }
        let parts = match method {
            v0::SEND_USER_MESSAGE => "/params/chunks",
            v1::PROMPT_METHOD => "/params/prompt",
            v0::CANCEL_SEND_MESSAGE | v1::CANCEL_METHOD => {
                return self.line(PROMPT_CODE, "› (cancels)");
            }
            _ => return,
        };
        let parts = message.pointer(parts).and_then(Value::as_array).into_iter().flatten();
        let parts = parts.filter_map(|part| {
            let file = || Some(format!("@{}", text(part, "/path").or(text(part, "/uri"))?));
            text(part, "/text").map(str::to_owned).or_else(file)
        });
        let prompt = parts.collect::<Vec<_>>().join(" ");
        self.line(PROMPT_CODE, &format!("› {}", visible(&prompt)));
    }

    fn client_answers(&mut self, message: &Value) {
        let Some(asked) = id(message, "/id").and_then(|id| self.asked.remove(&id)) else { return };
        if let Some(error) = text(message, "/error/message") {
            return self.line(BAD_CODE, &format!("› the editor refuses: {}", visible_line(error)));
        }
        let is_question = text(&asked, "/method") != Some(v0::PUSH_TOOL_CALL);
        if let Some(id) = id(message, "/result/id") {
            let title = text(&asked, "/params/label").unwrap_or_default().to_owned();
            self.calls.insert(id, ShownCall { title, is_change_shown: is_question });
        }
        if is_question {
            let outcome = message.pointer("/result/outcome").unwrap_or(&Value::Null);
            let chosen = text(outcome, "").or(text(outcome, "/optionId"));
            let chosen = chosen.or(text(outcome, "/outcome")).unwrap_or("no answer");
            let mut options = items(&asked, "/params/options");
            let named = options.find(|option| text(option, "/optionId") == Some(chosen));
            let chosen = named.and_then(|option| text(option, "/name")).unwrap_or(chosen);
            self.line(PROMPT_CODE, &format!("› {}", visible_line(chosen)));
        }
    }

    fn agent_asks(&mut self, method: &str, message: &Value) {
        match method {
            v0::STREAM_ASSISTANT_MESSAGE_CHUNK => {
                self.streamed(Block::Said, text(message, "/params/chunk/text"));
                self.streamed(Block::Thought, text(message, "/params/chunk/thought"));
            }
            v0::PUSH_TOOL_CALL => self.remember_request(message),
            v0::REQUEST_TOOL_CALL_CONFIRMATION => {
                let title = text(message, "/params/label").unwrap_or_default();
                self.line(QUESTION_CODE, &format!("? {}", visible_line(title)));
                self.content(message.pointer("/params/content"));
                if let Some(reason) = text(message, "/params/confirmation/description") {
                    self.under(DIM_CODE, "  ", &format!("Asked because {reason}"));
                }
                self.remember_request(message);
            }
            v0::UPDATE_TOOL_CALL => {
                let call = id(message, "/params/toolCallId").unwrap_or_default();
                let status = text(message, "/params/status").unwrap_or_default();
                self.changed(&call, status, message.pointer("/params/content"));
            }
            v1::UPDATE_METHOD => {
                self.updated(message.pointer("/params/update").unwrap_or(&Value::Null));
            }
            v1::REQUEST_PERMISSION => {
                let call = message.pointer("/params/toolCall").unwrap_or(&Value::Null);
                self.described(call);
                let known = self.calls.entry(id(call, "/toolCallId").unwrap_or_default());
                let known = known.or_default();
                known.is_change_shown = true;
                let title = visible_line(&known.title).into_owned();
                self.line(QUESTION_CODE, &format!("? {title}"));
                items(call, "/content").for_each(|content| self.content(Some(content)));
                self.remember_request(message);
            }
            _ => {}
        }
    }

    fn agent_answers(&mut self, message: &Value) {
        let method = id(message, "/id").and_then(|id| self.requests.remove(&id));
        match method.as_deref() {
            Some(INITIALIZE_METHOD) => {
                if let Some(version) = message.pointer("/result/protocolVersion") {
                    let version = text(version, "").map_or(version.to_string(), str::to_owned);
                    let line = format!("An editor starts the agent; both speak ACP {version}.");
                    self.line(DIM_CODE, &visible_line(&line));
                }
            }
            Some(v0::SEND_USER_MESSAGE | v1::PROMPT_METHOD) => {
                let end =
                    match (text(message, "/error/message"), text(message, "/result/stopReason")) {
                        (Some(error), _) => format!("The turn has failed: {error}"),
                        (None, None | Some("end_turn")) => "The turn has ended.".to_owned(),
                        (None, Some(reason)) => format!("The turn has ended: {reason}."),
                    };
                self.line(DIM_CODE, &visible_line(&end));
            }
            _ => {}
        }
    }

    /// Shows an update of ACP 1.
    fn updated(&mut self, update: &Value) {
        let said = text(update, "/content/text");
        match text(update, "/sessionUpdate") {
            Some("user_message_chunk") => {
                self.line(PROMPT_CODE, &format!("› {}", visible(said.unwrap_or_default())));
            }
            Some("agent_message_chunk") => self.streamed(Block::Said, said),
            Some("agent_thought_chunk") => self.streamed(Block::Thought, said),
            Some("tool_call" | "tool_call_update") => {
                self.described(update);
                let call = id(update, "/toolCallId").unwrap_or_default();
                let status = text(update, "/status").unwrap_or_default();
                self.changed(&call, status, update.pointer("/content"));
            }
            _ => {}
        }
    }

    /// Remembers the title of a call of ACP 1.
    fn described(&mut self, call: &Value) {
        let known = self.calls.entry(id(call, "/toolCallId").unwrap_or_default()).or_default();
        if let Some(title) = text(call, "/title") {
            title.clone_into(&mut known.title);
        }
    }

    /// Remembers a request of the agent until the client answers it.
    fn remember_request(&mut self, message: &Value) {
        self.asked.insert(id(message, "/id").unwrap_or_default(), message.clone());
    }

    /// Shows a call with its content if the status says that the call has ended.
    fn changed(&mut self, call: &str, status: &str, content: Option<&Value>) {
        let (mark, codes) = match status {
            "finished" | "completed" => ('✓', GOOD_CODE),
            "error" | "failed" => ('✗', BAD_CODE),
            _ => return,
        };
        let ShownCall { title, is_change_shown } = self.calls.remove(call).unwrap_or_default();
        self.line(codes, &format!("{mark} {}", visible_line(&title)));
        let contents = match content {
            Some(Value::Array(contents)) => contents.as_slice(),
            Some(content) => std::slice::from_ref(content),
            None => &[],
        };
        let is_new = |it: &&Value| !is_change_shown || text(it, "/type") != Some("diff");
        contents.iter().filter(is_new).for_each(|content| self.content(Some(content)));
    }

    /// Shows the content of a call: a change, or its output.
    fn content(&mut self, content: Option<&Value>) {
        let Some(content) = content else { return };
        if let Some(new) = text(content, "/newText") {
            let old = text(content, "/oldText").unwrap_or_default();
            let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
            let same = |(a, b): &(&&str, &&str)| a == b;
            let before = old.iter().zip(&new).take_while(same).count();
            let (old, new) = (&old[before..], &new[before..]);
            let after = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
            self.under(BAD_CODE, "  - ", &old[..old.len() - after].join("\n"));
            self.under(GOOD_CODE, "  + ", &new[..new.len() - after].join("\n"));
        }
        if let Some(output) = text(content, "/markdown").or(text(content, "/content/text")) {
            let lines = output.lines().filter(|line| !line.starts_with("```"));
            self.under(DIM_CODE, "  │ ", &lines.collect::<Vec<_>>().join("\n"));
        }
    }

    /// Appends text to the model's answer or thought.
    fn streamed(&mut self, block: Block, text: Option<&str>) {
        let Some(text) = text else { return };
        let text = visible_prose(text);
        let is_new = self.last != Some(block);
        let text = if is_new { text.trim_start_matches('\n') } else { &text };
        let kept = text.trim_end_matches('\n');
        if kept.is_empty() {
            self.held_back += if is_new { 0 } else { text.len() };
            return;
        }
        self.block(Some(block));
        let before = "\n".repeat(std::mem::take(&mut self.held_back));
        self.held_back = text.len() - kept.len();
        match block {
            Block::Thought => {
                let mark = if is_new { "∴ " } else { "" };
                self.painted(DIM_CODE, &format!("{before}{mark}{kept}"));
            }
            Block::Said | Block::Other => self.out += &format!("{before}{kept}"),
        }
    }

    /// Shows a line as a block of its own, after an empty line.
    fn line(&mut self, codes: &str, line: &str) {
        self.block(Some(Block::Other));
        self.painted(codes, line);
        self.out.push('\n');
    }

    /// Shows lines below the previous line, each after `margin`.
    fn under(&mut self, codes: &str, margin: &str, text: &str) {
        for line in text.lines() {
            self.painted(codes, &format!("{margin}{}", visible_line(line)));
            self.out.push('\n');
        }
    }

    /// Begins a block, unless the text continues the previous block.
    fn block(&mut self, block: Option<Block>) {
        let goes_on = self.last == block && block != Some(Block::Other);
        if self.last.is_none() || goes_on {
            self.last = block;
            return;
        }
        self.held_back = 0;
        if self.last != Some(Block::Other) {
            self.out.push('\n');
        }
        self.out.push('\n');
        self.last = block;
    }

    fn painted(&mut self, codes: &str, text: &str) {
        if self.is_coloured {
            self.out += &format!("\x1b[{codes}m{text}\x1b[0m");
        } else {
            self.out += text;
        }
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// Returns an id as a key for the maps. An id may be any JSON value except null.
fn id(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).filter(|id| !id.is_null()).map(Value::to_string)
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
