//! The messages that clients have sent recently. A message that is sent again is recognized, and joins the
//! effect of the first one.
//!
//! A client that has lost a response sends its message once more, under the same `messageId` (1.0, section
//! 3.3.1, "Idempotency"). That must not begin a second turn. The ids of messages that name no session are not
//! unique: many clients count from 1. Such a message is a retry only if it has the same content and the same
//! sender, and only for a limited time ([`SessionContext::may_be_retry`]).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ring::digest::{Context as Hasher, SHA256};

use super::context::{SessionContext, UnknownContext};
use super::dialect::Dialect;
use super::read::SentContent;
use super::subscription::Streaming;
use super::turns;
use parking_lot::Mutex;
use tandem_agent::KeyedMutex;
use tandem_agent::session::TurnId;
use tandem_serve::principals::Principal;
use tandem_wire::jsonrpc::Error;

/// Number of messages that are remembered across all sessions; the oldest are forgotten.
const MAX_REMEMBERED_MESSAGES: usize = 10_000;

/// Number of senders that are remembered in each session; the oldest are forgotten.
const MAX_KNOWN_SENDERS: usize = 1000;

type Digest = [u8; 32];

/// The messages that clients have sent recently, and the order in which messages begin.
#[derive(Default)]
pub(super) struct Messages {
    recent: Mutex<Recent>,
    /// Lock of each session id while a message for the session begins, so that messages begin in the order in
    /// which they came.
    pub(super) beginning: KeyedMutex,
}

#[derive(Default)]
struct Recent {
    by_id: HashMap<Digest, Arc<SentMessage>>,
    /// The keys of `by_id`, oldest first.
    order: VecDeque<Digest>,
}

/// Sender of messages, as far as the server can tell senders apart: a principal, or the client's address if
/// the client has no token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MessageSender(String);

impl MessageSender {
    pub(super) fn of(principal: &Principal, address: Option<IpAddr>) -> Self {
        Self(match (principal, address) {
            (Principal::Named(named), _) => format!("{}\0{}", named.id.tenant, named.id.name),
            (Principal::Operator, _) => "operator".to_owned(),
            (Principal::Anyone, Some(address)) => address.to_string(),
            (Principal::Anyone, None) => String::new(),
        })
    }

    /// Returns the sender, distinguished further by the context that its message names, since several clients
    /// may share one address.
    pub(super) fn naming(&self, context: &str) -> Self {
        Self(format!("{}\0{context}", self.0))
    }

    /// Returns a name that no other sender has.
    pub(super) fn name(&self) -> &str {
        &self.0
    }
}

/// The last turn that each sender of messages is known to know of, because the sender cancelled it or named
/// its session in a later message.
#[derive(Default)]
pub(super) struct KnownTurns {
    by_sender: HashMap<MessageSender, KnownTurn>,
    /// Number of calls of [`Self::note`] up to now.
    notes: u64,
}

struct KnownTurn {
    turn: TurnId,
    /// Number of the call of [`KnownTurns::note`]; the sender with the lowest number is the oldest.
    note: u64,
}

impl KnownTurns {
    /// Notes that a sender knows of a turn. If there are too many senders, the sender whose note is the
    /// oldest is forgotten.
    pub(super) fn note(&mut self, sender: MessageSender, turn: TurnId) {
        if self.by_sender.len() >= MAX_KNOWN_SENDERS && !self.by_sender.contains_key(&sender) {
            let oldest = self.by_sender.iter().min_by_key(|(_, known)| known.note);
            if let Some(oldest) = oldest.map(|(sender, _)| sender.clone()) {
                self.by_sender.remove(&oldest);
            }
        }
        self.notes += 1;
        self.by_sender.insert(sender, KnownTurn { turn, note: self.notes });
    }

    /// Returns `true` if this is the last turn that was noted for the sender.
    pub(super) fn knows(&self, sender: &MessageSender, turn: TurnId) -> bool {
        self.by_sender.get(sender).is_some_and(|known| known.turn == turn)
    }
}

/// Key of a message; under one key, a message is carried out only once.
pub(super) struct MessageKey<'a> {
    /// The sender. Ids of other senders are unrelated.
    pub(super) sender: &'a MessageSender,
    /// The context that the client names; without one, an id derived from the message, its content and its
    /// sender.
    pub(super) scope: &'a str,
    /// The message id that the client chose.
    pub(super) id: &'a str,
    /// Time for which a message that names no session may be a retry; `None` if the message names a session.
    pub(super) retry: Option<Duration>,
}

impl MessageKey<'_> {
    /// Returns the digest of the key, with another scope.
    fn digest(&self, scope: &str) -> Digest {
        digest(&[self.sender.name(), scope, self.id])
    }
}

/// The message of one key. Locked while the message is carried out, so that of two requests at the same time
/// only one carries it out.
#[derive(Default)]
struct SentMessage(Mutex<Option<Done>>);

/// A message that was carried out, by the digest of its content.
struct Done {
    content: Digest,
    effect: MessageEffect,
}

/// Effect of a message: the turn that it began, or the turn whose question it answered.
pub(super) struct MessageEffect {
    context: Weak<SessionContext>,
    turn: TurnId,
    /// Position in the log where the effect begins.
    from: usize,
    /// `true` if the message began the turn, `false` if it answered a question of the turn.
    began: bool,
    unknown: Option<UnknownContext>,
}

impl MessageEffect {
    pub(super) fn of(streaming: &Streaming, began: bool) -> Self {
        Self {
            context: Arc::downgrade(&streaming.context),
            turn: streaming.span.turn,
            from: streaming.span.from,
            began,
            unknown: streaming.unknown,
        }
    }

    /// Returns `true` if a message of this key is a retry of the message that had this effect.
    fn may_be_asked_for(&self, key: &MessageKey<'_>) -> bool {
        let is_retry = |window| {
            let context = self.context.upgrade();
            context.is_some_and(|context| context.may_be_retry(self.turn, key.sender, window))
        };
        key.retry.is_none_or(is_retry)
    }

    /// Returns the stream of the effect from its beginning, if the session is still loaded here and open to
    /// the reader.
    pub(super) fn again(&self, dialect: Dialect, reader: &Principal) -> Option<Streaming> {
        let is_here =
            |context: &Arc<SessionContext>| context.is_open_to(reader) && !context.has_moved();
        let context = self.context.upgrade().filter(is_here)?.lease()?;
        context.used();
        let span = if self.began {
            turns::joined(&context, self.turn, self.from)
        } else {
            turns::answered(&context, self.turn, self.from)
        };
        Some(Streaming { context, span, dialect, unknown: self.unknown, reader: reader.clone() })
    }
}

impl Messages {
    /// Carries out a message, unless the same message was carried out before: then the stream that `again` returns for
    /// its effect is returned, or an error if the content differs. A message without an effect is not remembered.
    pub(super) fn once(
        &self,
        key: &MessageKey<'_>,
        content: &SentContent,
        again: impl FnOnce(&MessageEffect) -> Option<Streaming>,
        carry_out: impl FnOnce() -> Result<(Streaming, Option<MessageEffect>), Error>,
    ) -> Result<Streaming, Error> {
        let message = self.message(key.digest(key.scope), Arc::default);
        let content = digest(&[&format!("{content:?}")]);
        // The lock is held across `carry_out`: a second request with the same message waits, and then finds the
        // effect of the first.
        let mut done = message.0.lock();
        let before = done.as_ref().filter(|done| done.effect.may_be_asked_for(key));
        if let Some(streaming) = before.and_then(|done| again(&done.effect)) {
            if done.as_ref().is_some_and(|done| done.content == content) {
                return Ok(streaming);
            }
            return Err(turns::sent_before(key.id));
        }
        let (streaming, effect) = carry_out()?;
        let Some(effect) = effect else { return Ok(streaming) };
        *done = Some(Done { content, effect });
        drop(done);
        if key.scope != streaming.context.id {
            // A sender who has got the answer names the context from now on, so the message must be found
            // under that, too.
            self.message(key.digest(&streaming.context.id), || message);
        }
        Ok(streaming)
    }

    fn message(&self, id: Digest, new: impl FnOnce() -> Arc<SentMessage>) -> Arc<SentMessage> {
        let mut recent = self.recent.lock();
        if let Some(known) = recent.by_id.get(&id) {
            return Arc::clone(known);
        }
        if recent.order.len() == MAX_REMEMBERED_MESSAGES
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.by_id.remove(&oldest);
        }
        let message = new();
        recent.order.push_back(id);
        recent.by_id.insert(id, Arc::clone(&message));
        message
    }
}

/// Returns the digest of a list of texts; the length of each text is part of it, so that no two lists run
/// together.
fn digest(texts: &[&str]) -> Digest {
    let mut hasher = Hasher::new(&SHA256);
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(hasher.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_remembered() {
        let messages = Messages::default();
        let first = digest(&["c", "first"]);
        let message = messages.message(first, Arc::default);
        assert!(Arc::ptr_eq(&message, &messages.message(first, Arc::default)));
        for n in 0..MAX_REMEMBERED_MESSAGES {
            messages.message(digest(&["c", &n.to_string()]), Arc::default);
        }
        let recent = messages.recent.lock();
        assert_eq!(
            (recent.by_id.len(), recent.order.len()),
            (MAX_REMEMBERED_MESSAGES, MAX_REMEMBERED_MESSAGES)
        );
        assert!(!recent.by_id.contains_key(&first));
    }

    fn sender(n: usize) -> MessageSender {
        MessageSender(n.to_string())
    }

    #[test]
    fn a_session_remembers_only_so_many_senders() {
        let mut known = KnownTurns::default();
        (0..MAX_KNOWN_SENDERS).for_each(|n| known.note(sender(n), TurnId(1)));
        // The first sender is noted again, so the second one is the oldest.
        known.note(sender(0), TurnId(2));
        known.note(sender(MAX_KNOWN_SENDERS), TurnId(1));
        assert_eq!(known.by_sender.len(), MAX_KNOWN_SENDERS);
        assert!(known.knows(&sender(0), TurnId(2)) && !known.knows(&sender(0), TurnId(1)));
        assert!(!known.knows(&sender(1), TurnId(1)) && known.knows(&sender(2), TurnId(1)));
        assert!(known.knows(&sender(MAX_KNOWN_SENDERS), TurnId(1)));
    }
}
