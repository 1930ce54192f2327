//! The messages that the model is told, and how much that is.

use std::collections::HashMap;
use std::sync::Arc;

use super::compress::beginning::{Beginning, MESSAGES as BEGINNING, prompt_again};
use crate::session::events::event::{Compressed, Masked};
use tandem_host::outputs::Outputs;
use tandem_model::{Message, Usage, tokens};

/// The messages, oldest first.
#[derive(Clone, Default)]
pub(crate) struct MessageHistory {
    messages: Vec<Arc<Message>>,
    /// Index in the log where each of them begins, never less than that of the one before.
    indexes: Vec<usize>,
    /// Estimated number of tokens of the messages.
    tokens: u64,
    /// Number of tokens that the provider counted last, with the system instruction and the tools,
    /// and the estimate at that time.
    counted: Option<(u64, u64)>,
    /// Beginning of the conversation, in place of the messages that were compressed.
    begins: Option<Arc<Beginning>>,
}

impl MessageHistory {
    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Index in the log where each message begins.
    pub(super) fn indexes(&self) -> &[usize] {
        &self.indexes
    }

    pub(super) fn begins(&self) -> Option<&Arc<Beginning>> {
        self.begins.as_ref()
    }

    /// The messages but for those that tell in short what came before.
    fn after_beginning(&self) -> &[Arc<Message>] {
        let beginning = self.begins.as_ref().map_or(0, |_| BEGINNING);
        self.messages.get(beginning..).unwrap_or_default()
    }

    /// Returns the estimated number of tokens of the messages.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the size of the prompt in tokens, with all that is sent beside the messages: the
    /// provider's count, and an estimate for the messages since then.
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

    /// The provider has counted what it was told and has said. Some do not.
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

    /// Returns the index at which the newest messages begin that have at most so many tokens. The
    /// last message is always one of them, and none is a result without its call.
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

    /// Puts what is told in short of results in their place.
    pub(super) fn mask(&mut self, all: &[Masked]) {
        let mut left: HashMap<&str, &Masked> = all.iter().map(|it| (&*it.call, it)).collect();
        let mut gone = 0;
        for message in &mut self.messages {
            if let Some(short) = masked(message, &mut left) {
                let before = tokens::of_message(message);
                gone += before.saturating_sub(tokens::of_message(&short));
                *message = Arc::new(short);
            }
        }
        self.tokens = self.tokens.saturating_sub(gone);
        // Old results were there when the provider counted.
        self.counted = self
            .counted
            .map(|(counted, then)| (counted.saturating_sub(gone), then.saturating_sub(gone)));
    }

    /// Tells what came before in short, in the place of all messages but those that begin at
    /// `short.from` in the log or later; where those began, and where they begin now.
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
        // In the middle of a turn, its prompt comes before what is kept of it.
        if !matches!(kept.first().map(|first| &**first), Some(Message::User(_))) {
            let skipped = self.messages.len() - self.after_beginning().len();
            let (prompt, place) = prompt_again(self.after_beginning());
            let index = place.and_then(|place| self.indexes.get(skipped + place));
            now.push(prompt, index.copied().unwrap_or(BY_NO_EVENT));
        }
        let begin = now.messages.len();
        now.begins = Some(Arc::new(begins));
        now.tokens += kept.iter().map(|message| tokens::of_message(message)).sum::<u64>();
        now.messages.extend(kept);
        now.indexes.extend(kept_indexes);
        *self = now;
        (before, begin)
    }
}

/// Index of a message that is made of no event of its own: before that of any other.
const BY_NO_EVENT: usize = 0;

/// Returns the message with masked results replaced; `None` if it has none.
fn masked(message: &Message, short: &mut HashMap<&str, &Masked>) -> Option<Message> {
    let Message::Results(results) = message else { return None };
    if !results.iter().any(|result| short.contains_key(&*result.call)) {
        return None;
    }
    let mut results = results.clone();
    for result in &mut results {
        if let Some(short) = short.remove(&*result.call) {
            result.text.clone_from(&short.text);
            result.media.clear();
        }
    }
    Some(Message::Results(results))
}
