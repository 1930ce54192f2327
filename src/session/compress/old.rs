//! What is to be summed up: what a conversation begins with.

use std::path::PathBuf;
use std::sync::Arc;

use super::beginning::{MESSAGES as BEGINNING, words};
use super::record::Compressed;
use super::summary::whole;
use crate::model::{Message, tokens};
use crate::session::Session;
use crate::session::conversation::Conversation;
use crate::tools::shorten;

/// The share of the conversation that stays as it is.
const KEPT: u64 = 30;

/// How many files that have what came before are named.
const WHOLE: usize = 20;

/// The messages that a summary takes the place of.
pub(super) struct Old {
    messages: Vec<Arc<Message>>,
    /// What was summed up before; they begin with it.
    pub(super) before: Option<Arc<Compressed>>,
}

impl Old {
    /// All but the newest messages, if that is anything.
    pub(super) fn of(conversation: &Conversation) -> Option<Self> {
        let split = conversation.split(conversation.tokens() * KEPT / 100);
        let messages = conversation.messages()[..split].to_vec();
        let old = Self { messages, before: conversation.begins().cloned() };
        let is_more = old.news().iter().any(|message| !matches!(**message, Message::User(_)));
        is_more.then_some(old)
    }

    /// What was not summed up before.
    pub(super) fn news(&self) -> &[Arc<Message>] {
        self.messages.get(self.before.as_ref().map_or(0, |_| BEGINNING)..).unwrap_or_default()
    }

    /// Whether a conversation begins with these very messages, none changed and none gone.
    pub(super) fn begins(&self, conversation: &Conversation) -> bool {
        let begins = conversation.messages().get(..self.messages.len());
        begins.is_some_and(|begins| {
            begins.iter().zip(&self.messages).all(|(now, old)| Arc::ptr_eq(now, old))
        })
    }

    /// The messages that come after these: they stay as they are.
    pub(super) fn kept<'a>(&self, conversation: &'a Conversation) -> &'a [Arc<Message>] {
        conversation.messages().get(self.messages.len()..).unwrap_or_default()
    }

    /// What the user said, word for word, the newest of it as far as there is room (in tokens); and
    /// how many messages of the user's are left out. The last is not among them if it is told again
    /// because these messages end in the middle of its turn.
    pub(super) fn said(&self, room: u64, in_turn: bool) -> (Vec<String>, usize) {
        let earlier = self.before.iter().flat_map(|before| before.said.iter().cloned());
        let mut said: Vec<String> = earlier.collect();
        let mut now: Vec<_> = self.news().iter().filter_map(|message| words(message)).collect();
        if in_turn {
            now.pop();
        }
        // One that would leave no room for others is cut.
        said.extend(now.into_iter().map(|text| {
            let most = text.len() as u64 * (room / 2) / tokens::of_text(text).max(1);
            shorten(text, usize::try_from(most).unwrap_or(usize::MAX)).into_owned()
        }));
        let mut left = room;
        let fits = |text: &&String| {
            let tokens = tokens::of_text(text);
            let fits = tokens <= left;
            left = left.saturating_sub(tokens);
            fits
        };
        let count = said.iter().rev().take_while(fits).count();
        let left_out = said.len() - count;
        let unsaid = self.before.as_ref().map_or(0, |before| before.unsaid) + left_out;
        (said.split_off(left_out), unsaid)
    }

    /// The files that have what was said before, all of it.
    pub(super) async fn whole(&self, session: &Session) -> Vec<PathBuf> {
        let mut files = self.before.as_ref().map_or_else(Vec::new, |before| before.whole.clone());
        let (outputs, text) = (Arc::clone(&session.host.outputs), whole(self.news()));
        let keep = move || outputs.keep("conversation", &text);
        files.extend(tokio::task::spawn_blocking(keep).await.ok().flatten());
        files.drain(..files.len().saturating_sub(WHOLE));
        files
    }
}
