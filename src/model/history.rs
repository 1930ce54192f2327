//! Repairs conversations, so that every provider accepts them.
//!
//! A session may end in the middle of a call, and be cut, edited or continued with another provider. Providers refuse
//! a whole conversation if one answer is missing. The conversation that [`harden`] returns has these properties:
//!
//! * It begins with a user's message, and ends with a user's message or with results.
//! * Messages of the model alternate with messages of the user, or results.
//! * Results come right after each message with calls, and nowhere else: as many as calls, with the same ids and
//!   names, in the same order.
//! * Between results and a user's message, a message of the model says that it was interrupted.
//! * No message is empty.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use super::{Assistant, Call, Message, Native, Part, ToolResult};

/// Placeholder for the model's missing answer to results.
pub const INTERRUPTED_NOTE: &str = "[The previous response was interrupted before it completed.]";
/// Placeholder for the user's missing first message.
pub(crate) const BEGINNING_NOTE: &str = "[The beginning of this conversation is not shown.]";
/// Placeholder for the user's missing message between two answers.
pub const CONTINUE_PROMPT: &str = "Please continue.";
/// Result of a call whose result was lost.
pub(crate) const LOST_RESULT: &str = "The result of this call was lost. It may have had all, part or none of \
    its effect.";

/// Repairs a conversation. Messages that need no repair are shared, not copied.
///
/// `speaks` returns `true` if the target provider sends any of an answer's native parts: such an answer is not empty,
/// even without text and calls.
pub fn harden(
    messages: &[Arc<Message>],
    speaks: impl Fn(&Assistant, &Native) -> bool,
) -> Vec<Arc<Message>> {
    let mut hardened =
        Repair { messages: Vec::with_capacity(messages.len() + 1), open: None, speaks };
    for message in messages {
        match &**message {
            Message::User(parts) => hardened.user(message, parts),
            Message::Assistant(answer) => hardened.assistant(message, answer),
            Message::Results(results) => hardened.results(message, results),
        }
    }
    hardened.close();
    if !matches!(hardened.messages.last().map(|last| &**last), Some(message) if is_user(message)) {
        hardened.messages.push(says(CONTINUE_PROMPT));
    }
    hardened.messages
}

struct Repair<'a, F> {
    messages: Vec<Arc<Message>>,
    /// Calls of the last message, as long as results may follow.
    open: Option<OpenCalls<'a>>,
    speaks: F,
}

/// Open calls, and the results that have come so far.
struct OpenCalls<'a> {
    calls: &'a [Call],
    /// The message with the results, if all came in one message.
    whole: Option<&'a Arc<Message>>,
    results: Vec<&'a ToolResult>,
}

impl<'a, F: Fn(&Assistant, &Native) -> bool> Repair<'a, F> {
    fn user(&mut self, message: &Arc<Message>, parts: &[Part]) {
        let blank = parts.iter().filter(|part| is_blank(part)).count();
        if blank == parts.len() {
            return;
        }
        self.close();
        let message = if blank == 0 {
            Arc::clone(message)
        } else {
            let parts = parts.iter().filter(|part| !is_blank(part)).cloned().collect();
            Arc::new(Message::User(parts))
        };
        let Some(last) = self.messages.last_mut() else {
            self.messages.push(message);
            return;
        };
        match &**last {
            Message::User(_) => {
                if let (Message::User(before), Message::User(parts)) =
                    (Arc::make_mut(last), Arc::unwrap_or_clone(message))
                {
                    before.extend(parts);
                }
                return;
            }
            Message::Results(_) => self.messages.push(interrupted()),
            Message::Assistant(_) => {}
        }
        self.messages.push(message);
    }

    fn assistant(&mut self, message: &'a Arc<Message>, answer: &'a Assistant) {
        if answer.text.trim().is_empty() && answer.calls.is_empty() && !self.spoken(answer) {
            return;
        }
        self.close();
        if !self.joined(answer) {
            match self.messages.last().map(|last| &**last) {
                None => self.messages.push(says(BEGINNING_NOTE)),
                Some(Message::Assistant(_)) => self.messages.push(says(CONTINUE_PROMPT)),
                Some(Message::User(_) | Message::Results(_)) => {}
            }
            self.messages.push(Arc::clone(message));
        }
        if !answer.calls.is_empty() {
            self.open = Some(OpenCalls { calls: &answer.calls, whole: None, results: Vec::new() });
        }
    }

    fn results(&mut self, message: &'a Arc<Message>, results: &'a [ToolResult]) {
        // Results without calls are dropped.
        let Some(open) = &mut self.open else { return };
        open.whole = if open.results.is_empty() { Some(message) } else { None };
        open.results.extend(results);
    }

    /// Adds the results of the open calls, with a placeholder for each lost result.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let fits = |(call, result): (&Call, &&ToolResult)| {
            call.id == result.call && call.name == result.name
        };
        let right = open.calls.len() == open.results.len()
            && open.calls.iter().zip(&open.results).all(fits);
        self.messages.push(match open.whole {
            Some(whole) if right => Arc::clone(whole),
            _ => Arc::new(Message::Results(answered(open.calls, &open.results))),
        });
    }

    /// Joins an answer to the answer before, unless native parts would be lost; returns `true` if it has.
    fn joined(&mut self, answer: &Assistant) -> bool {
        let Some(last) = self.messages.last_mut() else { return false };
        let Message::Assistant(before) = &**last else { return false };
        let (first, second) = (native(before, &self.speaks), native(answer, &self.speaks));
        let alike = match (first, second) {
            (None, None) => true,
            (Some(a), Some(b)) => a.backend == b.backend && a.model == b.model,
            _ => false,
        };
        if !alike {
            return false;
        }
        let more = second.map(|native| native.parts.clone());
        let Message::Assistant(before) = Arc::make_mut(last) else { return false };
        let gap = if before.text.is_empty() || answer.text.is_empty() { "" } else { "\n\n" };
        before.text.push_str(gap);
        before.text.push_str(&answer.text);
        before.calls.clone_from(&answer.calls);
        before.native = mem::take(&mut before.native).zip(more).map(|(mut native, more)| {
            native.parts.extend(more);
            native
        });
        true
    }

    fn spoken(&self, answer: &Assistant) -> bool {
        native(answer, &self.speaks).is_some()
    }
}

fn native<'b>(
    answer: &'b Assistant,
    speaks: &impl Fn(&Assistant, &Native) -> bool,
) -> Option<&'b Native> {
    answer.native.as_ref().filter(|native| speaks(answer, native))
}

/// Returns one result for each call, in the calls' order.
fn answered(calls: &[Call], results: &[&ToolResult]) -> Vec<ToolResult> {
    let mut by_call: HashMap<&str, VecDeque<&ToolResult>> = HashMap::new();
    for result in results {
        by_call.entry(&result.call).or_default().push_back(result);
    }
    let mut answer = |call: &Call| {
        let found = by_call.get_mut(call.id.as_str()).and_then(VecDeque::pop_front);
        let found = found.cloned().unwrap_or_else(|| ToolResult {
            call: call.id.clone(),
            name: String::new(),
            text: LOST_RESULT.to_owned(),
            failed: true,
            media: Vec::new(),
        });
        ToolResult { name: call.name.clone(), ..found }
    };
    calls.iter().map(&mut answer).collect()
}

fn is_user(message: &Message) -> bool {
    matches!(message, Message::User(_) | Message::Results(_))
}

fn is_blank(part: &Part) -> bool {
    matches!(part, Part::Text(text) if text.trim().is_empty())
}

fn says(text: &str) -> Arc<Message> {
    Arc::new(Message::User(vec![Part::Text(text.to_owned())]))
}

fn interrupted() -> Arc<Message> {
    let text = INTERRUPTED_NOTE.to_owned();
    Arc::new(Message::Assistant(Assistant { text, ..Assistant::default() }))
}

#[cfg(test)]
mod tests;
