//! The messages that a summary replaces: the older part of a conversation.

use std::borrow::Cow;
use std::sync::Arc;

use super::beginning::{BEGINNING_MESSAGES, Beginning, words};
use crate::session::context::conversation::MessageHistory;
use crate::session::events::event::QuotedMessage;
use tandem_content::shorten::shorten;
use tandem_model::{Message, tokens};

/// Size of the newest messages that are not summarized, in percent of the conversation.
const NEWEST_PERCENT: u64 = 30;

/// The messages that a summary replaces.
pub(super) struct SummarizedMessages {
    messages: Vec<Arc<Message>>,
    /// Index in the log where each message begins.
    indexes: Vec<usize>,
    /// The result of the previous compression, with which these messages begin.
    pub(super) before: Option<Arc<Beginning>>,
}

impl SummarizedMessages {
    /// Returns all messages but the newest; `None` if these hold no answer of the model that is not summarized yet.
    pub(super) fn from_history(conversation: &MessageHistory) -> Option<Self> {
        let split = conversation.split(conversation.tokens() * NEWEST_PERCENT / 100);
        let messages = conversation.messages()[..split].to_vec();
        let indexes = conversation.indexes()[..split].to_vec();
        let old = Self { messages, indexes, before: conversation.begins().cloned() };
        let is_more =
            old.unsummarized().iter().any(|message| !matches!(**message, Message::User(_)));
        is_more.then_some(old)
    }

    /// Returns the messages that no earlier summary covers.
    pub(super) fn unsummarized(&self) -> &[Arc<Message>] {
        self.messages.get(self.news_begin()..).unwrap_or_default()
    }

    fn news_begin(&self) -> usize {
        self.before.as_ref().map_or(0, |_| BEGINNING_MESSAGES)
    }

    /// Returns the index in the log where the first message after these begins, if there is one.
    pub(super) fn end(&self, conversation: &MessageHistory) -> Option<usize> {
        conversation.indexes().get(self.messages.len()).copied()
    }

    /// Returns `true` if a conversation begins with exactly these messages, none changed and none missing.
    pub(super) fn begins(&self, conversation: &MessageHistory) -> bool {
        let begins = conversation.messages().get(..self.messages.len());
        begins.is_some_and(|begins| {
            begins.iter().zip(&self.messages).all(|(now, old)| Arc::ptr_eq(now, old))
        })
    }

    /// Returns the messages after the summarized messages. They stay unchanged.
    pub(super) fn messages_after<'a>(
        &self,
        conversation: &'a MessageHistory,
    ) -> &'a [Arc<Message>] {
        conversation.messages().get(self.messages.len()..).unwrap_or_default()
    }

    /// Returns quotes of the user's messages, as many of the newest as fit in `room` tokens, and the number of messages
    /// that are only in summaries. `in_turn`: the summarized messages end in the middle of a turn. Then the user's last
    /// message is not quoted, because it is repeated after the beginning.
    pub(super) fn user_quotes(&self, room: u64, in_turn: bool) -> (Vec<QuotedMessage>, usize) {
        let earlier = self.before.iter().flat_map(|before| before.quotes());
        let mut said: Vec<(QuotedMessage, Cow<'_, str>)> =
            earlier.map(|(quote, text)| (quote, Cow::Borrowed(text))).collect();
        let indexes = self.indexes.iter().skip(self.news_begin());
        let now = self.unsummarized().iter().zip(indexes);
        let mut now: Vec<_> = now.filter_map(|(it, at)| Some((words(it)?, *at))).collect();
        if in_turn {
            now.pop();
        }
        // A message is cut to half of the room, so that it leaves room for others.
        said.extend(now.into_iter().map(|(text, at)| {
            let most = text.len() as u64 * (room / 2) / tokens::of_text(text).max(1);
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let short = shorten(text, most);
            let chars = (*short != *text).then_some(most);
            (QuotedMessage { at, chars }, short)
        }));
        let mut left = room;
        let fits = |(_, text): &&(QuotedMessage, Cow<'_, str>)| {
            let tokens = tokens::of_text(text);
            let fits = tokens <= left;
            left = left.saturating_sub(tokens);
            fits
        };
        let count = said.iter().rev().take_while(fits).count();
        let left_out = said.len() - count;
        let unsaid = self.before.as_ref().map_or(0, |before| before.short.unsaid) + left_out;
        (said.drain(left_out..).map(|(quote, _)| quote).collect(), unsaid)
    }
}
