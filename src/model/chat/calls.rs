//! Assembles tool calls from their pieces, which each server numbers in its own way.
//!
//! A piece may have the number of its call, the call's id, both or neither. Numbers begin at 0 or 1, or are all the
//! same. An id comes with the first piece, with each piece, or never.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::scan::JsonScanner;
use crate::Call;

/// Name for a call without a name: the model is told that there is no such tool.
const UNNAMED_TOOL: &str = "unnamed_tool";

/// Calls of an answer, as far as they have been received, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    begun: Vec<PartialCall>,
    /// Index in `begun` of the last call with each number.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
}

/// A call as far as it has been received.
#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
    scan: JsonScanner,
    /// Arguments, if the server has sent them as JSON and not as text.
    whole: Option<Value>,
    /// Other fields of the call, which are sent back unchanged.
    extra: Map<String, Value>,
}

/// A piece of a call.
#[derive(Debug, Default)]
struct CallDelta {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Option<Value>,
    extra: Map<String, Value>,
}

/// A call whose arguments could be parsed.
#[derive(Debug, PartialEq)]
pub(crate) struct FinishedCall {
    pub(crate) call: Call,
    /// Other fields of the call, which are sent back unchanged.
    pub(crate) extra: Map<String, Value>,
}

/// Reason why arguments cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The arguments end too early.
    Cut,
    /// The arguments are complete, but not JSON.
    Wrong,
}

impl Calls {
    /// Adds the pieces of one delta.
    pub(crate) fn add_pieces(&mut self, pieces: Vec<Map<String, Value>>) {
        let before = self.begun.len();
        for piece in pieces {
            let piece = CallDelta::read(piece);
            if piece.is_empty() {
                continue;
            }
            let at = self.place(&piece, before);
            self.add(at, piece);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Returns `true` if all calls are complete.
    pub(crate) fn are_whole(&self) -> bool {
        self.begun.iter().all(PartialCall::is_complete)
    }

    /// Returns `true` if the arguments of at least one call can be parsed.
    pub(crate) fn has_whole(&self) -> bool {
        self.begun.iter().enumerate().any(|(n, call)| call.finish(n).is_ok())
    }

    /// Returns the calls whose arguments can be parsed.
    pub(crate) fn whole(&self) -> Vec<FinishedCall> {
        self.begun.iter().enumerate().filter_map(|(n, call)| call.finish(n).ok()).collect()
    }

    /// Returns all calls; an error if the arguments of a call cannot be parsed.
    pub(crate) fn finish(&self) -> Result<Vec<FinishedCall>, Malformed> {
        self.begun.iter().enumerate().map(|(n, call)| call.finish(n)).collect()
    }

    /// Returns the index of the call that a piece belongs to, which may be a new call. Calls with an index of at
    /// least `before` began in the same delta.
    fn place(&mut self, piece: &CallDelta, before: usize) -> usize {
        let last = self.begun.len().checked_sub(1);
        let by_index = piece.index.and_then(|index| self.by_index.get(&index).copied());
        let by_id = self.by_id.get(&piece.id).copied().filter(|_| !piece.id.is_empty());
        let candidate = match piece.index {
            Some(_) => by_index,
            None => by_id.or(last),
        };
        let found = candidate.filter(|at| self.begun[*at].takes(piece, *at >= before));
        let at = found.unwrap_or_else(|| {
            self.begun.push(PartialCall::default());
            self.begun.len() - 1
        });
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
        }
        at
    }

    fn add(&mut self, at: usize, piece: CallDelta) {
        let call = &mut self.begun[at];
        if call.id.is_empty() && !piece.id.is_empty() {
            self.by_id.insert(piece.id.clone(), at);
            call.id = piece.id;
        }
        // Some servers repeat the name, or send a longer beginning of it each time.
        if piece.name.starts_with(&call.name) {
            call.name = piece.name;
        }
        match piece.arguments {
            Some(Value::String(text)) => call.push(&text),
            Some(Value::Null) | None => {}
            Some(whole) => call.whole = Some(whole),
        }
        call.extra.extend(piece.extra);
    }
}

impl PartialCall {
    /// Returns `true` if a piece belongs to this call, which its number or id suggests. `same_delta` is `true` if the
    /// call began in the piece's delta.
    fn takes(&self, piece: &CallDelta, same_delta: bool) -> bool {
        let (both, named) = (!self.id.is_empty() && !piece.id.is_empty(), !piece.name.is_empty());
        if both && self.id == piece.id {
            return true;
        }
        if both {
            // Some gateways give each piece a new id: a piece without a name continues a call that is still open.
            return !named && self.scan.is_within_value();
        }
        if !named || self.name.is_empty() {
            return true;
        }
        let repeated = piece.name.starts_with(&self.name);
        if same_delta {
            return false;
        }
        if self.is_complete() {
            return piece.index.is_some() && piece.name == self.name && !piece.has_arguments();
        }
        // A server that numbers its pieces ends one call before it begins the next with this number.
        repeated || piece.index.is_some() && self.scan.is_within_value()
    }

    fn is_complete(&self) -> bool {
        self.whole.is_some() || self.scan.is_complete()
    }

    fn push(&mut self, text: &str) {
        // Some servers send an empty object first, and then the real arguments.
        let empty = self.scan.is_complete() && self.arguments.trim() == "{}";
        if empty && text.trim_start().starts_with('{') {
            self.arguments.clear();
            self.scan = JsonScanner::default();
        }
        // Text after the end of the arguments is a repetition, or a brace too many.
        let taken = self.scan.advance(text);
        self.arguments.push_str(&text[..taken]);
    }

    fn finish(&self, n: usize) -> Result<FinishedCall, Malformed> {
        let args = match &self.whole {
            Some(whole) => whole.clone(),
            None => self.read_arguments()?,
        };
        let id = if self.id.is_empty() { format!("call_{n}") } else { self.id.clone() };
        let name = if self.name.is_empty() { UNNAMED_TOOL } else { &self.name };
        let call = Call { id, name: name.to_owned(), args };
        Ok(FinishedCall { call, extra: self.extra.clone() })
    }

    fn read_arguments(&self) -> Result<Value, Malformed> {
        if self.arguments.trim().is_empty() {
            return Ok(json!({}));
        }
        let cut = if self.scan.is_within_value() { Malformed::Cut } else { Malformed::Wrong };
        match serde_json::from_str(&self.arguments).map_err(|_| cut)? {
            Value::Null => Ok(json!({})),
            // Some servers encode the arguments twice.
            Value::String(text) => {
                let inner = serde_json::from_str(&text).ok().filter(Value::is_object);
                Ok(inner.unwrap_or_else(|| if text.is_empty() { json!({}) } else { text.into() }))
            }
            args => Ok(args),
        }
    }
}

impl CallDelta {
    fn read(mut piece: Map<String, Value>) -> Self {
        let index = piece.shift_remove("index");
        let id = piece.shift_remove("id");
        let mut function = match piece.shift_remove("function") {
            Some(Value::Object(function)) => function,
            _ => Map::new(),
        };
        piece.shift_remove("type");
        Self {
            index: index.as_ref().and_then(number),
            id: id.map(text).unwrap_or_default(),
            name: function.shift_remove("name").map(text).unwrap_or_default(),
            arguments: function.shift_remove("arguments"),
            extra: piece,
        }
    }

    fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_none()
    }

    fn has_arguments(&self) -> bool {
        match &self.arguments {
            Some(Value::String(text)) => !text.trim().is_empty(),
            Some(Value::Null) | None => false,
            Some(_) => true,
        }
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
