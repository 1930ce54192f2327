//! Assembles an answer from its stream.

use std::collections::{BTreeSet, HashMap};
use std::mem;

use serde_json::Value;

use super::events::{RawItem, ResponseBody, ResponseEvent, text};
use super::input::BACKEND_NAME;
use super::item::{
    CUSTOM_CALL, FUNCTION_CALL, ItemKind, MESSAGE_ITEM, OutputItem, REASONING_ITEM, ThoughtForm,
};
use crate::answer_size::{AnswerSize, json_values};
use crate::stream::{Assemble, StreamError};
use crate::words::is_visible;
use crate::{Call, Chunk, Native, ToolDeclaration, Usage};

/// An answer as far as it has been received.
#[derive(Debug, Default)]
pub(crate) struct ResponsesAnswer {
    items: Vec<OutputItem>,
    // Indices in `items`: with a search through all items for each event, time is quadratic in the length of the
    // answer.
    /// Index of the last item with each number.
    by_number: HashMap<u64, usize>,
    /// Index of the last item with each id.
    by_id: HashMap<String, usize>,
    /// Indices of the items that have not ended, by their kind.
    open: BTreeSet<(ItemKind, usize)>,
    /// Kinds of the items that have ended.
    ended: BTreeSet<ItemKind>,
    end: Option<AnswerEnd>,
    usage: Usage,
    /// `true` once a chunk has been emitted.
    shown: bool,
    /// `true` once visible text has been emitted.
    text: bool,
    /// `true` once reasoning has been emitted.
    thoughts: bool,
    /// Break that precedes the next piece of reasoning or text, if pieces of another item have been emitted.
    gap: PendingBreaks,
    size: AnswerSize,
}

/// End of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    Completed,
    /// The server has ended the answer before the model did; the text is its reason.
    Incomplete(String),
}

/// Breaks that are due before the next piece.
#[derive(Debug, Default)]
struct PendingBreaks {
    text: bool,
    thoughts: bool,
}

impl Assemble for ResponsesAnswer {
    fn add_event(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
        let data = data.trim_ascii();
        // The API sends no such end, but gateways do.
        if data == b"[DONE]" {
            return Ok(());
        }
        let garbled = |error: serde_json::Error| StreamError::Garbled(error.to_string());
        let mut event: ResponseEvent = serde_json::from_slice(data).map_err(garbled)?;
        let before = out.len();
        let taken = match event.kind.take().as_deref() {
            None if event.error.as_ref().is_none_or(Value::is_null) => {
                // A server that does not stream sends the response itself.
                self.take_response(serde_json::from_slice(data).map_err(garbled)?, data, out)
            }
            Some("error") | None => Err(reported(data)),
            Some(kind) => self.take_event(kind, event, data, out),
        };
        self.shown |= out.len() > before;
        taken
    }

    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn is_shown(&self) -> bool {
        self.shown
    }

    fn rewind(&mut self) -> Option<Vec<Chunk>> {
        let shown = self.shown;
        *self = Self::new(self.size.max());
        shown.then(Vec::new)
    }
}

impl ResponsesAnswer {
    /// Returns an empty answer that may take up `max_size` bytes of memory.
    pub(super) fn new(max_size: usize) -> Self {
        Self { size: AnswerSize::new(max_size), ..Self::default() }
    }

    fn take_event(
        &mut self,
        kind: &str,
        event: ResponseEvent,
        data: &[u8],
        out: &mut Vec<Chunk>,
    ) -> Result<(), StreamError> {
        let delta = event.delta.as_deref().unwrap_or_default();
        if delta.is_empty() && kind.rsplit('.').next() == Some("delta") {
            return Ok(());
        }
        match kind {
            "response.output_item.added" | "response.output_item.done" => {
                let Some(item) = event.item else { return Ok(()) };
                self.size.add(data.len(), json_values(data))?;
                if kind.ends_with("added") {
                    self.begin(item, event.output_index);
                } else {
                    self.finish_item(item, event.output_index, out);
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.size.add(delta.len(), 0)?;
                let at = self.place(&event, MESSAGE_ITEM);
                self.say(at, delta, out);
            }
            "response.reasoning_summary_part.added" => self.gap.thoughts = self.thoughts,
            "response.reasoning_summary_text.delta" => {
                self.size.add(delta.len(), 0)?;
                let at = self.place(&event, REASONING_ITEM);
                self.think(at, ThoughtForm::Summary, delta, out);
            }
            "response.reasoning_text.delta" => {
                self.size.add(delta.len(), 0)?;
                let at = self.place(&event, REASONING_ITEM);
                self.think(at, ThoughtForm::Text, delta, out);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.size.add(delta.len(), json_values(delta.as_bytes()))?;
                let at = self.place(&event, call_type(kind));
                self.items[at].arguments.push_str(delta);
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                let at = self.place(&event, call_type(kind));
                let arguments = event.arguments.as_ref().or(event.input.as_ref());
                if let Some(arguments) = arguments.filter(|it| !it.is_empty()) {
                    self.size.add(arguments.len(), 0)?;
                    self.items[at].arguments.clone_from(arguments);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let mut body = event.response.unwrap_or_default();
                body.status = Some(kind["response.".len()..].to_owned());
                return self.take_response(body, data, out);
            }
            // All other events are ignored: beginnings and ends of parts, progress, tools of the server, and events
            // that are not known yet.
            _ => {}
        }
        Ok(())
    }

    /// Ends the answer with the response, which repeats the items.
    fn take_response(
        &mut self,
        body: ResponseBody,
        data: &[u8],
        out: &mut Vec<Chunk>,
    ) -> Result<(), StreamError> {
        self.size.add(data.len(), json_values(data))?;
        self.usage = body.usage().unwrap_or(self.usage);
        self.end = Some(match body.status.as_deref() {
            Some("completed") => AnswerEnd::Completed,
            Some("incomplete") => AnswerEnd::Incomplete(body.incomplete_reason()),
            Some("cancelled") => AnswerEnd::Incomplete("cancelled".to_owned()),
            Some("failed") => {
                return Err(StreamError::Reported(body.error.unwrap_or_default().to_string()));
            }
            // A response whose `object` is anything else does not end an answer, and is ignored.
            _ => return Ok(()),
        });
        // Gateways give an item of the stream another id in the response: an item with an unknown id counts as one of
        // the same kind that has come in the stream.
        let streamed = self.ended.clone();
        for item in body.output.unwrap_or_default() {
            let has_come = match self.by_id.get(text(&item, "id")) {
                Some(at) => self.items[*at].has_ended(),
                None => streamed.contains(&ItemKind::of(&item)),
            };
            if !has_come {
                self.finish_item(item, None, out);
            }
        }
        Ok(())
    }

    fn begin(&mut self, item: RawItem, number: Option<u64>) -> usize {
        let id = text(&item, "id").to_owned();
        let at = self.push(OutputItem::new(item), number);
        self.name(at, id);
        at
    }

    /// Gives an item an id. An empty id is ignored.
    fn name(&mut self, at: usize, id: String) {
        if !id.is_empty() {
            self.by_id.insert(id, at);
        }
    }

    fn push(&mut self, item: OutputItem, number: Option<u64>) -> usize {
        let at = self.items.len();
        self.gap = PendingBreaks { text: self.text, thoughts: self.thoughts };
        self.open.insert((item.kind, at));
        self.items.push(item);
        if let Some(number) = number {
            self.by_number.insert(number, at);
        }
        at
    }

    /// Ends an item, and emits the parts of it that have not been streamed. A second end of an item is ignored.
    fn finish_item(&mut self, item: RawItem, number: Option<u64>, out: &mut Vec<Chunk>) {
        let kind = ItemKind::of(&item);
        let id = text(&item, "id").to_owned();
        if self.item_index(&id, kind).is_some_and(|at| self.items[at].has_ended()) {
            return;
        }
        let found = self.find(&id, number, kind).filter(|at| !self.items[*at].has_ended());
        let at = found.unwrap_or_else(|| self.begin(item.clone(), number));
        self.name(at, id);
        self.open.remove(&(kind, at));
        self.ended.insert(kind);
        self.items[at].finish(item);
        match kind {
            ItemKind::Message if self.items[at].text.is_empty() => {
                let text = self.items[at].final_text();
                self.say(at, &text, out);
            }
            ItemKind::Reasoning if self.items[at].thoughts.is_none() => {
                let thoughts = self.items[at].final_thoughts();
                self.think(at, ThoughtForm::Summary, &thoughts, out);
            }
            _ => {}
        }
    }

    /// Returns the index of the item that an event belongs to, which may be a new item of this type.
    fn place(&mut self, event: &ResponseEvent, name: &str) -> usize {
        let id = event.item_id.as_deref().unwrap_or_default();
        let unannounced = OutputItem::unannounced(name);
        let found = self.find(id, event.output_index, unannounced.kind);
        found.unwrap_or_else(|| self.push(unannounced, event.output_index))
    }

    /// Returns the index of the item with an id, if the item is of this kind.
    fn item_index(&self, id: &str, kind: ItemKind) -> Option<usize> {
        self.by_id.get(id).copied().filter(|at| self.items[*at].kind == kind)
    }

    /// Returns the index of an item: by its id, or else by its number, or else the last item of its kind that has
    /// not ended. Gateways give items new ids in each event, or the same number to all of them.
    fn find(&self, id: &str, number: Option<u64>, kind: ItemKind) -> Option<usize> {
        let numbered = || {
            let at = *self.by_number.get(&number?)?;
            Some(at).filter(|at| self.items[*at].kind == kind)
        };
        let last_open = || {
            let open = self.open.range((kind, 0)..=(kind, usize::MAX));
            open.last().map(|(_, at)| *at)
        };
        self.item_index(id, kind).or_else(numbered).or_else(last_open)
    }

    /// Emits a piece of a message.
    fn say(&mut self, at: usize, piece: &str, out: &mut Vec<Chunk>) {
        if piece.is_empty() {
            return;
        }
        let gap = if mem::take(&mut self.gap.text) { "\n\n" } else { "" };
        self.text = self.text || is_visible(piece);
        self.items[at].text.push_str(piece);
        out.push(Chunk::Text(format!("{gap}{piece}")));
    }

    /// Emits a piece of reasoning, unless the item's reasoning is emitted in another form.
    fn think(&mut self, at: usize, form: ThoughtForm, piece: &str, out: &mut Vec<Chunk>) {
        if piece.is_empty() || *self.items[at].thoughts.get_or_insert(form) != form {
            return;
        }
        let gap = if mem::take(&mut self.gap.thoughts) { "\n\n" } else { "" };
        self.thoughts = true;
        out.push(Chunk::Thought(format!("{gap}{piece}")));
    }

    /// Returns the end of the answer.
    pub(super) fn end(&self) -> Option<&AnswerEnd> {
        self.end.as_ref()
    }

    fn is_whole(&self) -> bool {
        self.end == Some(AnswerEnd::Completed)
    }

    /// Returns the complete calls.
    pub(super) fn calls(&self, tools: &[ToolDeclaration]) -> impl Iterator<Item = Call> {
        let whole = self.is_whole();
        let calls = self.items.iter().filter(move |item| item.is_sound_call(whole));
        calls.enumerate().filter_map(|(n, item)| item.call(n, tools))
    }

    pub(super) fn has_calls(&self) -> bool {
        self.items.iter().any(|item| item.is_sound_call(self.is_whole()))
    }

    /// Returns `true` if there is an incomplete call, which cannot be made.
    pub(super) fn has_unsound_calls(&self) -> bool {
        let mut calls = self.items.iter().filter(|item| item.kind == ItemKind::Call);
        calls.any(|item| !item.is_sound_call(self.is_whole()))
    }

    pub(super) fn has_thoughts(&self) -> bool {
        self.items.iter().any(|item| item.kind == ItemKind::Reasoning)
    }

    /// Returns `true` if there is visible text.
    pub(super) fn has_text(&self) -> bool {
        self.items.iter().any(|item| is_visible(&item.text))
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the items, if they have more than text.
    pub(super) fn native(&self, model: &str) -> Option<Native> {
        if !self.items.iter().any(OutputItem::is_native) {
            return None;
        }
        let parts = self.items.iter().filter_map(|item| item.native(self.is_whole())).collect();
        Some(Native { backend: BACKEND_NAME.to_owned(), model: model.to_owned(), parts })
    }
}

/// Returns the type of the call that an event of a kind is about.
fn call_type(kind: &str) -> &'static str {
    if kind.starts_with("response.custom_tool_call") { CUSTOM_CALL } else { FUNCTION_CALL }
}

/// Returns the error that an event reports.
fn reported(data: &[u8]) -> StreamError {
    StreamError::Reported(String::from_utf8_lossy(data).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::TextForm;

    #[track_caller]
    fn check(events: &[serde_json::Value], text: &str, arguments: &[&str]) {
        let mut answer = ResponsesAnswer::new(100_000);
        let mut out = Vec::new();
        for event in events {
            answer.add_event(event.to_string().as_bytes(), &mut out).unwrap();
        }
        let said = out.iter().filter_map(|chunk| match chunk {
            Chunk::Text(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(said.collect::<String>(), text);
        let calls: Vec<_> = answer.calls(&[]).map(|call| call.args.to_string()).collect();
        assert_eq!(calls, arguments);
    }

    #[test]
    fn deltas_without_a_beginning_begin_an_item() {
        let delta = |delta: &str| json!({ "type": "response.output_text.delta", "delta": delta });
        check(&[delta("a"), delta("b")], "ab", &[]);
    }

    #[test]
    fn a_second_end_of_an_item_is_ignored() {
        let done =
            |item: &serde_json::Value| json!({ "type": "response.output_item.done", "item": item });
        let said = json!({ "type": "message", "id": "msg",
            "content": [{ "type": "output_text", "text": "a" }] });
        let call = json!({ "type": "function_call", "id": "fc", "call_id": "c", "name": "glob",
            "arguments": "{}" });
        check(&[done(&said), done(&said), done(&call), done(&call)], "a", &["{}"]);
    }

    #[test]
    fn a_call_is_one_that_was_ended_or_whose_answer_was_completed() {
        let call = json!({ "type": "function_call", "id": "fc", "call_id": "c", "name": "glob" });
        let begun =
            json!({ "type": "response.output_item.added", "output_index": 0, "item": call });
        let arguments = json!({ "type": "response.function_call_arguments.delta", "item_id": "fc",
            "delta": "{\"a\":1}" });
        let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": call });
        let end = |kind: &str| json!({ "type": format!("response.{kind}"), "response": {} });
        let open = [begun, arguments];
        let with = |event: &serde_json::Value| [&open[..], std::slice::from_ref(event)].concat();
        check(&open, "", &[]);
        check(&with(&done), "", &["{\"a\":1}"]);
        check(&with(&end("completed")), "", &["{\"a\":1}"]);
        check(&with(&end("incomplete")), "", &[]);
    }

    #[test]
    fn the_input_of_a_custom_tool_is_the_argument_of_the_tool() {
        let call = json!({ "type": "custom_tool_call", "id": "ctc", "call_id": "c",
            "name": "apply_patch", "input": "" });
        let begun =
            json!({ "type": "response.output_item.added", "output_index": 0, "item": call });
        let delta = |delta: &str| {
            json!({ "type": "response.custom_tool_call_input.delta", "item_id": "ctc",
                "output_index": 0, "delta": delta })
        };
        let whole = json!({ "type": "response.custom_tool_call_input.done", "item_id": "ctc",
            "output_index": 0, "input": "{}\n+a" });
        let mut ended = call;
        ended["input"] = json!("{}\n+a");
        let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": ended });
        let end = json!({ "type": "response.completed", "response": {} });
        let args = [r#"{"input":"{}\n+a"}"#];
        let pieces = [begun, delta("{}\n"), delta("+a")];
        check(&[&pieces[..], &[whole, done.clone(), end.clone()]].concat(), "", &args);
        check(&[&pieces[..], std::slice::from_ref(&end)].concat(), "", &args);
        check(&pieces[1..], "", &[]);
        check(&[done], "", &args);
        // The name of the tool's argument may differ from `input`.
        let form = TextForm { argument: "patch".to_owned(), grammar: String::new() };
        let tool = ToolDeclaration::new("apply_patch", "", json!({}));
        let tool = ToolDeclaration { text_form: Some(form), ..tool };
        let mut answer = ResponsesAnswer::new(100_000);
        for event in pieces.iter().chain([&end]) {
            answer.add_event(event.to_string().as_bytes(), &mut Vec::new()).unwrap();
        }
        let named: Vec<_> = answer.calls(&[tool]).map(|call| call.args).collect();
        assert_eq!(named, [json!({ "patch": "{}\n+a" })]);
        let native = answer.native("m").unwrap();
        assert_eq!(native.parts[0]["input"], "{}\n+a");
        assert!(native.parts[0].get("arguments").is_none());
    }

    #[test]
    fn tokens_may_be_missing_or_of_another_type() {
        let usage = |usage: serde_json::Value| {
            let mut answer = ResponsesAnswer::new(1000);
            let end = json!({ "type": "response.completed", "response": { "usage": usage } });
            answer.add_event(end.to_string().as_bytes(), &mut Vec::new()).unwrap();
            answer.usage()
        };
        assert_eq!(usage(json!(null)), Usage::default());
        assert_eq!(usage(json!("12")), Usage::default());
        let some =
            usage(json!({ "input_tokens": 5, "output_tokens": "7", "input_tokens_details": 1 }));
        assert_eq!(some, Usage { input: 5, ..Usage::default() });
        let all = usage(json!({ "input_tokens": 50, "output_tokens": 9,
            "input_tokens_details": { "cached_tokens": 30, "cache_write_tokens": 10 },
            "output_tokens_details": { "reasoning_tokens": 4 } }));
        assert_eq!(all, Usage { input: 50, cached: 30, written: 10, output: 5, thoughts: 4 });
    }
}
