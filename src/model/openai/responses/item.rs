//! One output item of an answer, assembled from its events.

use serde_json::{Value, json};

use super::events::{RawItem, part_texts, text};
use crate::{Call, ToolDeclaration, names};

/// Type of a message.
pub(super) const MESSAGE_ITEM: &str = "message";
/// Type of reasoning.
pub(super) const REASONING_ITEM: &str = "reasoning";
/// Type of a call of a function, whose arguments are JSON.
pub(super) const FUNCTION_CALL: &str = "function_call";
/// Type of a call of a custom tool, whose input is a text.
pub(super) const CUSTOM_CALL: &str = "custom_tool_call";

/// Name of the argument that is the input of a custom tool, if the tool is no longer there.
const INPUT_ARGUMENT: &str = "input";

/// An output item: its beginning, its deltas, and its end.
#[derive(Debug)]
pub(super) struct OutputItem {
    pub(super) kind: ItemKind,
    /// The item as it began.
    start: RawItem,
    /// Text that has been emitted so far, if the item is a message.
    pub(super) text: String,
    /// Form in which reasoning of the item is emitted: the first that came.
    pub(super) thoughts: Option<ThoughtForm>,
    /// Arguments of a call, or input of a custom tool, as far as they have been received.
    pub(super) arguments: String,
    /// The item as it ended. Only this form may be sent back: reasoning is incomplete before.
    end: Option<RawItem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
    /// Calls of the server's own tools, and unknown kinds.
    Other,
}

/// A form in which a server streams reasoning. A server may stream both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThoughtForm {
    Summary,
    Text,
}

impl ItemKind {
    /// Returns the kind of an item.
    pub(super) fn of(item: &RawItem) -> Self {
        match text(item, "type") {
            MESSAGE_ITEM => Self::Message,
            REASONING_ITEM => Self::Reasoning,
            FUNCTION_CALL | CUSTOM_CALL => Self::Call,
            _ => Self::Other,
        }
    }
}

impl OutputItem {
    /// Returns an item that has begun.
    pub(super) fn new(start: RawItem) -> Self {
        let kind = ItemKind::of(&start);
        let arguments = arguments_of(&start).unwrap_or_default();
        Self { kind, start, text: String::new(), thoughts: None, arguments, end: None }
    }

    /// Returns an item of a type that the server has not announced.
    pub(super) fn unannounced(name: &str) -> Self {
        Self::new([("type".to_owned(), json!(name))].into_iter().collect())
    }

    /// Ends the item.
    pub(super) fn finish(&mut self, end: RawItem) {
        if let Some(arguments) = arguments_of(&end) {
            self.arguments = arguments;
        }
        self.end = Some(end);
    }

    /// Returns `true` if the server has ended the item.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns `true` if the server has ended the item, and not before the item was complete.
    fn is_whole(&self) -> bool {
        self.end.as_ref().is_some_and(|end| text(end, "status") != "incomplete")
    }

    /// Returns `true` if the item is a call that can be made. `answer_is_whole` is `true` if the server has said that
    /// the answer is complete: then a call is complete although its end was not sent.
    pub(super) fn is_sound_call(&self, answer_is_whole: bool) -> bool {
        let is_whole = self.is_whole() || answer_is_whole && !self.has_ended();
        self.kind == ItemKind::Call
            && is_whole
            && !self.field("name").is_empty()
            && (self.is_custom() || self.args().is_some())
    }

    fn is_custom(&self) -> bool {
        self.field("type") == CUSTOM_CALL
    }

    /// Returns the call, with the tool's own name. `n` makes up an id for a call without one.
    pub(super) fn call(&self, n: usize, tools: &[ToolDeclaration]) -> Option<Call> {
        let id = [self.field("call_id"), self.field("id")].into_iter().find(|id| !id.is_empty());
        let id = id.map_or_else(|| format!("call_{n}"), str::to_owned);
        let name = names::original(self.field("name"), tools).to_owned();
        let args = if self.is_custom() { self.input(&name, tools) } else { self.args()? };
        Some(Call { id, name, args })
    }

    /// Returns the input of a custom tool as the tool's argument.
    fn input(&self, name: &str, tools: &[ToolDeclaration]) -> Value {
        let tool = tools.iter().find(|tool| tool.name == name);
        let argument = tool.and_then(|tool| Some(tool.text_form.as_ref()?.argument.as_str()));
        json!({ argument.unwrap_or(INPUT_ARGUMENT): self.arguments })
    }

    fn args(&self) -> Option<Value> {
        if self.arguments.trim().is_empty() {
            return Some(json!({}));
        }
        serde_json::from_str(&self.arguments).ok()
    }

    fn field(&self, name: &str) -> &str {
        let end = self.end.as_ref().map(|end| text(end, name)).filter(|it| !it.is_empty());
        end.unwrap_or_else(|| text(&self.start, name))
    }

    /// Returns `true` if the item has more than plain text: it must be sent back as it came.
    pub(super) fn is_native(&self) -> bool {
        self.kind != ItemKind::Message || !self.field("phase").is_empty()
    }

    /// Returns the item in the form in which the API accepts it back; `None` if it does not.
    pub(super) fn native(&self, answer_is_whole: bool) -> Option<Value> {
        match self.kind {
            ItemKind::Message => {
                Some(self.end.clone().unwrap_or_else(|| self.cut_message()).into())
            }
            ItemKind::Call if self.is_sound_call(answer_is_whole) => {
                let field = arguments_field(&self.start);
                let came_whole = |end: &&RawItem| end.get(field).is_some_and(Value::is_string);
                let call = self.end.as_ref().filter(came_whole).cloned();
                Some(call.unwrap_or_else(|| self.cut_call()).into())
            }
            ItemKind::Call => None,
            ItemKind::Reasoning | ItemKind::Other => {
                self.end.clone().filter(|_| self.is_whole()).map(Value::Object)
            }
        }
    }

    /// Returns a message that has no end. It has no id: the server has not completed one.
    fn cut_message(&self) -> RawItem {
        let content = json!([{ "type": "output_text", "text": self.text, "annotations": [] }]);
        let mut message = RawItem::new();
        message.insert("type".to_owned(), json!("message"));
        message.insert("role".to_owned(), json!("assistant"));
        message.insert("content".to_owned(), content);
        if !self.field("phase").is_empty() {
            message.insert("phase".to_owned(), json!(self.field("phase")));
        }
        message
    }

    /// Returns a call whose end has not come as the API defines it.
    fn cut_call(&self) -> RawItem {
        let mut call = self.end.clone().unwrap_or_else(|| self.start.clone());
        let is_empty = self.arguments.trim().is_empty() && !self.is_custom();
        let arguments = if is_empty { "{}" } else { &self.arguments };
        call.insert(arguments_field(&self.start).to_owned(), json!(arguments));
        if !self.is_custom() {
            call.insert("status".to_owned(), json!("completed"));
        }
        call
    }

    /// Returns the text that a message has at its end.
    pub(super) fn final_text(&self) -> String {
        self.end.as_ref().map(|end| part_texts(end, "content").collect()).unwrap_or_default()
    }

    /// Returns the reasoning that an item has at its end: its summary, else its text.
    pub(super) fn final_thoughts(&self) -> String {
        let Some(end) = &self.end else { return String::new() };
        let join = |field| part_texts(end, field).collect::<Vec<_>>().join("\n\n");
        Some(join("summary")).filter(|it| !it.is_empty()).unwrap_or_else(|| join("content"))
    }
}

/// Returns the name of the field that a call has its arguments in.
fn arguments_field(item: &RawItem) -> &'static str {
    if text(item, "type") == CUSTOM_CALL { "input" } else { "arguments" }
}

/// Returns the arguments of a call as text; some servers send them as JSON.
fn arguments_of(item: &RawItem) -> Option<String> {
    match item.get(arguments_field(item))? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Null => None,
        json => Some(json.to_string()),
    }
}
