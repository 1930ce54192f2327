//! The messages that the model is told, and their size in tokens.

use std::collections::HashMap;
use std::sync::Arc;

use super::compress::beginning::{BEGINNING_MESSAGES, Beginning, prompt_again};
use crate::session::events::event::{Compressed, Masked};
use tandem_host::outputs::Outputs;
use tandem_model::{Message, ToolResult, Usage, tokens};

/// The messages of a conversation, oldest first.
#[derive(Clone, Default)]
pub(crate) struct MessageHistory {
    messages: Vec<Arc<Message>>,
    /// Index of the event with which each message begins. The indexes never decrease.
    indexes: Vec<usize>,
    /// Estimated number of tokens of the messages.
    tokens: u64,
    /// Number of tokens that the provider counted last, including the system instruction and the tools, and the value
    /// of `tokens` at that time.
    counted: Option<(u64, u64)>,
    /// Beginning of the conversation, in place of the compressed messages; `None` if none were compressed.
    begins: Option<Arc<Beginning>>,
    /// By a call's id, the text that tandem added at the end of the call's result, such as a directory's memory files.
    /// The text stays when the result is masked.
    added: HashMap<String, Arc<str>>,
}

impl MessageHistory {
    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the index of the event with which each message begins.
    pub(super) fn indexes(&self) -> &[usize] {
        &self.indexes
    }

    pub(super) fn begins(&self) -> Option<&Arc<Beginning>> {
        self.begins.as_ref()
    }

    /// Returns the messages after the beginning that stands for the compressed messages.
    fn after_beginning(&self) -> &[Arc<Message>] {
        let beginning = self.begins.as_ref().map_or(0, |_| BEGINNING_MESSAGES);
        self.messages.get(beginning..).unwrap_or_default()
    }

    /// Returns the estimated number of tokens of the messages.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the size of the prompt in tokens, including the system instruction and the tools: the provider's last
    /// count and an estimate for the messages since then. If the provider has not counted, all is estimated, and
    /// `beside` returns the number of tokens that are not messages.
    pub(super) fn size(&self, beside: impl FnOnce() -> u64) -> u64 {
        match self.counted {
            Some((counted, then)) => counted + self.tokens.saturating_sub(then),
            None => self.tokens + beside(),
        }
    }

    /// Adds a message that begins at an index in the log.
    pub(super) fn push(&mut self, message: Message, index: usize) {
        self.tokens += tokens::of_message(&message);
        self.messages.push(Arc::new(message));
        self.indexes.push(index);
    }

    /// Adds the results of calls, which begin at an index in the log. `added`: texts for the model that are not the calls'
    /// own, each to be added to the result of the call with this id.
    pub(super) fn push_results(
        &mut self,
        mut results: Vec<ToolResult>,
        mut added: HashMap<String, String>,
        index: usize,
    ) {
        for result in &mut results {
            if let Some(text) = added.remove(&result.call) {
                result.text.push_str(&text);
                self.added.insert(result.call.clone(), text.into());
            } else {
                self.added.remove(&result.call);
            }
        }
        self.push(Message::Results(results), index);
    }

    /// Returns a result's own text, without the text that was added to it.
    pub(super) fn own_text<'a>(&self, result: &'a ToolResult) -> &'a str {
        let added = self.added.get(&result.call).map_or("", |added| &**added);
        result.text.strip_suffix(added).unwrap_or(&result.text)
    }

    /// Returns the texts that were added to the results in these messages, by the calls' ids.
    fn added_to(&self, messages: &[Arc<Message>]) -> HashMap<String, Arc<str>> {
        let results = messages.iter().filter_map(|message| match &**message {
            Message::Results(results) => Some(results),
            _ => None,
        });
        let added = |result: &ToolResult| self.added.get_key_value(&result.call);
        let found = results.flatten().filter_map(added);
        found.map(|(call, text)| (call.clone(), Arc::clone(text))).collect()
    }

    /// Notes the provider's count of the prompt and its answer. Some providers do not count.
    pub(super) fn count(&mut self, usage: Usage) {
        if usage.input > 0 {
            self.counted = Some((usage.input + usage.output, self.tokens));
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        let gone: u64 = self.messages.iter().skip(len).map(|it| tokens::of_message(it)).sum();
        self.messages.truncate(len);
        self.indexes.truncate(len);
        self.tokens -= gone;
        self.counted = self.counted.filter(|(_, then)| *then <= self.tokens);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the position from which the messages have at most `tokens` tokens together. The last message is
    /// always among them, and so is the answer whose calls the last message answers. With these two, the messages
    /// may have more tokens.
    pub(super) fn split(&self, tokens: u64) -> usize {
        let mut split = self.messages.len();
        let mut sum = 0;
        for (at, message) in self.messages.iter().enumerate().rev() {
            sum += tokens::of_message(message);
            if sum > tokens && split < self.messages.len() {
                break;
            }
            if !matches!(**message, Message::Results(_)) {
                split = at;
            }
        }
        split
    }

    /// Replaces the calls' own texts in results by their masked texts.
    pub(super) fn mask(&mut self, all: &[Masked]) {
        let mut left: HashMap<&str, &Masked> = all.iter().map(|it| (&*it.call, it)).collect();
        let mut gone = 0;
        for message in &mut self.messages {
            if let Some(short) = masked(message, &mut left, &self.added) {
                let before = tokens::of_message(message);
                gone += before.saturating_sub(tokens::of_message(&short));
                *message = Arc::new(short);
            }
        }
        self.tokens = self.tokens.saturating_sub(gone);
        // The masked results are old: they were part of the prompt that the provider counted.
        self.counted = self
            .counted
            .map(|(counted, then)| (counted.saturating_sub(gone), then.saturating_sub(gone)));
    }

    /// Replaces all messages by the compressed beginning, except the messages that begin at `short.from` in the log or
    /// later, which stay. Returns the position of the first message that stays, before and after the replacement.
    pub(super) fn compress(
        &mut self,
        short: &Arc<Compressed>,
        outputs: &Outputs,
    ) -> (usize, usize) {
        let is_kept = |index: &usize| *index >= short.from;
        let before = self.indexes.iter().position(is_kept).unwrap_or(self.messages.len());
        let kept = self.messages.split_off(before);
        let kept_indexes = self.indexes.split_off(before);
        let old = self.begins.as_deref();
        let begins = Beginning::new(short, old, &self.messages, &self.indexes);
        let mut now = Self::default();
        for message in begins.messages(outputs) {
            now.push(message, BY_NO_EVENT);
        }
        // If the messages that stay begin in the middle of a turn, the turn's prompt is repeated before them.
        if !matches!(kept.first().map(|first| &**first), Some(Message::User(_))) {
            let skipped = self.messages.len() - self.after_beginning().len();
            let (prompt, place) = prompt_again(self.after_beginning());
            let index = place.and_then(|place| self.indexes.get(skipped + place));
            now.push(prompt, index.copied().unwrap_or(BY_NO_EVENT));
        }
        let begin = now.messages.len();
        now.begins = Some(Arc::new(begins));
        now.added = self.added_to(&kept);
        now.tokens += kept.iter().map(|message| tokens::of_message(message)).sum::<u64>();
        now.messages.extend(kept);
        now.indexes.extend(kept_indexes);
        *self = now;
        (before, begin)
    }
}

/// Index of a message that is made from no event of its own. It is not after the index of any other message.
const BY_NO_EVENT: usize = 0;

/// Returns the message with its masked results replaced; `None` if no result of the message is masked. Removes the
/// used results from `short`. `added`: texts that stay at the end of results, by the call's id.
fn masked(
    message: &Message,
    short: &mut HashMap<&str, &Masked>,
    added: &HashMap<String, Arc<str>>,
) -> Option<Message> {
    let Message::Results(results) = message else { return None };
    if !results.iter().any(|result| short.contains_key(&*result.call)) {
        return None;
    }
    let mut results = results.clone();
    for result in &mut results {
        if let Some(short) = short.remove(&*result.call) {
            result.text.clone_from(&short.text);
            result.text.extend(added.get(&result.call).map(|added| &**added));
            result.media.clear();
        }
    }
    Some(Message::Results(results))
}
