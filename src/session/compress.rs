//! A conversation that has become long is told in short: the model sums up what came before, the
//! user's own words and the newest messages stay as they are.

mod beginning;
mod mask;
mod record;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use self::beginning::words;
pub(super) use self::beginning::{MESSAGES as BEGINNING, beginning, prompt_again};
pub use self::mask::Masked;
pub(super) use self::mask::masked;
use self::mask::{Reach, mask};
pub use self::record::Compressed;
pub(super) use self::record::Record;
use super::Session;
use super::conversation::Conversation;
use super::event::Event;
use crate::model::{self, Message, Usage, tokens};
use crate::tools::shorten;

/// The share of the conversation that stays as it is.
const KEPT: u64 = 30;

/// The share of the window that the user's earlier words may have.
const SAID: u64 = 10;

/// When it is done, or tried, again: when the conversation has grown by this share of the window.
const AGAIN: u64 = 10;

/// Tokens of the newest results of calls that are not told in short, or a fifth of the window.
const NEWEST: u64 = 50_000;

/// How often the model is told half as much, when it is to sum up and that is too much for it.
const SHORTER: usize = 3;

/// How many files that have what came before are named.
const WHOLE: usize = 20;

/// Never by itself.
const NOT_AGAIN: u64 = u64::MAX;

/// Why a conversation is as long as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is nothing to sum up yet.
    Nothing,
    /// The turn is cancelled.
    Cancelled,
    /// The model did not answer; why.
    Model(model::Error),
    /// What it answered was empty, or longer than what it sums up.
    Useless,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("there is nothing to compress yet"),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::Model(error) => error.fmt(f),
            Self::Useless => f.write_str("the summary is empty, or no shorter"),
        }
    }
}

/// Compresses the conversation if it has become long for the model's window; whether it did.
pub(super) async fn if_needed(session: &Session, cancel: &CancellationToken) -> bool {
    let Some(window) = session.input_limit() else { return false };
    session.transcript.lock().conversation();
    let size = session.size();
    if size < share(window, session.upkeep.compress_at)
        || size < session.compress_again.load(Ordering::Relaxed)
    {
        return false;
    }
    let newest = NEWEST.min(window / 5);
    if mask(session, Reach { newest, but_last: true, least: size / 5 }).await {
        return false;
    }
    match compress(session, "", cancel).await {
        Ok(_) => return true,
        Err(Failure::Cancelled) => return false,
        Err(Failure::Nothing) => {}
        Err(why) => {
            let notice = format!("The conversation could not be compressed: {why}");
            session.log.append(Event::Notice(notice));
            mask(session, Reach { newest: newest / 4, but_last: true, least: 0 }).await;
            if why == Failure::Useless {
                session.compress_again.store(NOT_AGAIN, Ordering::Relaxed);
                return false;
            }
        }
    }
    session.compress_again.store(grown(size, window), Ordering::Relaxed);
    false
}

/// Makes a conversation shorter that the model will not take, also after so many tries; whether it
/// did. None if the turn is cancelled.
pub(super) async fn as_needed(
    session: &Session,
    tried: usize,
    cancel: &CancellationToken,
) -> Option<bool> {
    if tried > 1 {
        return Some(false);
    }
    if tried == 0 {
        match compress(session, "", cancel).await {
            Ok(_) => return Some(true),
            Err(Failure::Cancelled) => return None,
            Err(why) => {
                let notice =
                    format!("The conversation is too long, and could not be summed up: {why}");
                session.log.append(Event::Notice(notice));
            }
        }
    }
    Some(mask(session, Reach { newest: 0, but_last: false, least: 0 }).await)
}

/// Compresses the conversation. `about` is what the user wants the summary to be about, if that was
/// said.
pub(super) async fn compress(
    session: &Session,
    about: &str,
    cancel: &CancellationToken,
) -> Result<Arc<Compressed>, Failure> {
    let conversation = session.transcript.lock().conversation().clone();
    let size = session.size();
    let old = Old::of(&conversation).ok_or(Failure::Nothing)?;
    let notice = format!("Compressing the conversation of {} tokens", record::tokens(size));
    session.log.append(Event::Notice(notice));
    let window = session.input_limit();
    let room = window.map_or(size, |window| window * 6 / 10);
    let summing_up = sum_up(session, &old, about, room);
    let Some(summed_up) = cancel.run_until_cancelled(summing_up).await else {
        return Err(Failure::Cancelled);
    };
    let (snapshot, usage) = summed_up.map_err(Failure::Model)?;
    let mut short = session.transcript.lock().record().told(&session.workspace);
    (short.said, short.unsaid) = old.said(window.unwrap_or(size) * SAID / 100);
    short.whole = old.whole(session).await;
    (short.snapshot, short.usage) = (snapshot, usage);
    (short.kept, short.before) = (old.kept, size);
    let mut after = conversation.clone();
    after.compress(&Arc::new(short.clone()));
    if short.snapshot.is_empty() || after.tokens() >= conversation.tokens() {
        return Err(Failure::Useless);
    }
    short.after = size.saturating_sub(conversation.tokens() - after.tokens());
    let again = window.map_or(0, |window| grown(short.after, window));
    let short = Arc::new(short);
    session.log.append(Event::Compressed(Arc::clone(&short)));
    session.compress_again.store(again, Ordering::Relaxed);
    // The beginning is new anyway: what people have written, all of it, is in it.
    session.begin_anew();
    Ok(short)
}

/// What the model makes of it, told in so many tokens; in fewer, if that is too much for it: how many
/// it takes is not always known.
async fn sum_up(
    session: &Session,
    old: &Old<'_>,
    about: &str,
    mut room: u64,
) -> Result<(String, Usage), model::Error> {
    for _ in 0..SHORTER {
        let prompt = summary::prompt(old, about, room);
        let half = tokens::of_prompt(&prompt).min(room) / 2;
        match summary::ask(session, prompt).await {
            Err(model::Error::ContextTooLong(_)) => room = half,
            answer => return answer,
        }
    }
    summary::ask(session, summary::prompt(old, about, room)).await
}

impl Session {
    /// The conversation is another one, or another model's: what failed may work now.
    pub(super) fn compress_as_ever(&self) {
        self.compress_again.store(0, Ordering::Relaxed);
    }
}

/// What is to be summed up.
struct Old<'a> {
    messages: &'a [Arc<Message>],
    /// What was summed up before.
    before: Option<&'a Compressed>,
    /// How many messages stay as they are.
    kept: usize,
    /// Whether the last of what the user said stays too.
    in_turn: bool,
}

impl<'a> Old<'a> {
    /// All but the newest messages, if that is anything.
    fn of(conversation: &'a Conversation) -> Option<Self> {
        let split = conversation.split(conversation.tokens() * KEPT / 100);
        let (old, kept) = conversation.messages().split_at(split);
        let before = conversation.begins().map(|short| &**short);
        let messages = old.get(before.map_or(0, |_| BEGINNING)..)?;
        let in_turn = !matches!(kept.first().map(|first| &**first), Some(Message::User(_)));
        let is_more = messages.iter().any(|message| !matches!(**message, Message::User(_)));
        is_more.then_some(Self { messages, before, kept: kept.len(), in_turn })
    }

    /// What the user said, word for word, the newest of it as far as there is room (in tokens); and
    /// how many messages of the user's are left out.
    fn said(&self, room: u64) -> (Vec<String>, usize) {
        let earlier = self.before.iter().flat_map(|before| before.said.iter().cloned());
        let mut said: Vec<String> = earlier.collect();
        let mut now: Vec<_> = self.messages.iter().filter_map(|message| words(message)).collect();
        if self.in_turn {
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
        let unsaid = self.before.map_or(0, |before| before.unsaid) + left_out;
        (said.split_off(left_out), unsaid)
    }

    /// The files that have what was said before, all of it.
    async fn whole(&self, session: &Session) -> Vec<PathBuf> {
        let mut whole = self.before.map_or_else(Vec::new, |before| before.whole.clone());
        let (outputs, text) = (Arc::clone(&session.outputs), summary::whole(self.messages));
        let keep = move || outputs.keep("conversation", &text);
        whole.extend(tokio::task::spawn_blocking(keep).await.ok().flatten());
        whole.drain(..whole.len().saturating_sub(WHOLE));
        whole
    }
}

/// The size that a conversation of this size has when it is worth compressing again.
fn grown(size: u64, window: u64) -> u64 {
    size.saturating_add(window * AGAIN / 100)
}

/// A share of a window.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a token more or less does not matter"
)]
fn share(window: u64, share: f64) -> u64 {
    (window as f64 * share) as u64
}
