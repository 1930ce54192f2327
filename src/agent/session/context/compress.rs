//! The compression of a long conversation: the model writes a summary that replaces the older messages, and the newest
//! messages stay as they are. The user's own words in the older messages are quoted.

pub(crate) mod background;
pub(crate) mod beginning;
mod mask;
mod old;
pub(super) mod record;
mod summary;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use self::mask::{MaskLimits, mask};
use self::old::SummarizedMessages;
use self::summary::{Summary, SummedUp, Writing, whole};
use crate::session::engine::Engine;
use crate::session::events::event::{self, Compressed, Event};
use tandem_content::blocking::blocking;
use tandem_model::{self as model, Message};

/// Maximum size of the user's quoted words, in percent of the model's window.
const MAX_QUOTED_PERCENT: u64 = 10;

/// Growth of the conversation, in percent of the window, after which the next compression is tried.
const RETRY_GROWTH_PERCENT: u64 = 10;

/// Number of tokens of the newest results of calls that are not masked, or a fifth of the window if that is less.
const UNMASKED_TOKENS: u64 = 50_000;

/// Maximum number of files with earlier messages that the model is told of.
const MAX_RECORD_FILES: usize = 20;

/// Advice to people when automatic compression is off.
const AGAIN_BY_HAND: &str =
    ". tandem will not try again by itself: `/compress` tries again, `/clear` begins anew.";

/// Value of `next_size` that turns automatic compression off.
const DISABLED_SIZE: u64 = u64::MAX;

/// Reason why a conversation was not compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CompressError {
    /// There is nothing to summarize yet.
    Nothing,
    /// The turn was cancelled.
    Cancelled,
    /// The summary that the turn waited for was abandoned, because another model was chosen.
    GivenUp,
    /// The model did not write a summary, for this reason.
    Model(model::Error),
    /// The summary was empty, or not shorter than the messages that it would replace.
    Useless,
}

impl std::fmt::Display for CompressError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("there is nothing to compress yet"),
            Self::Cancelled => f.write_str("the compression was cancelled"),
            Self::GivenUp => f.write_str("the session has changed to another model"),
            Self::Model(error) => error.fmt(f),
            Self::Useless => f.write_str("the summary is empty, or no shorter"),
        }
    }
}

/// Compresses the conversation if it is long for the model's window. Called before each request to the model. Returns
/// `true` if a summary has taken effect.
///
/// 1. A summary that is being written in the background takes effect here once it is ready. The turn waits for it only
///    if the conversation nearly fills the window.
/// 2. Without one, a conversation over the threshold has its old results masked, if that saves a fifth of its size.
/// 3. Otherwise a summary begins: in the background, or in the turn if the conversation nearly fills the window.
/// 4. If the summary fails, people are told why, and more results are masked.
pub(crate) async fn if_needed(engine: &Engine, cancel: &CancellationToken) -> bool {
    let Some(window) = engine.model.input_limit() else { return false };
    let is_under_way = is_under_way(engine);
    let size = engine.size();
    let threshold = share(window, engine.upkeep.compress_at);
    // Nearly full is half-way between the threshold and the window: the rest is room for the answer, and for the
    // results of one more round.
    let is_nearly_full = size >= threshold + window.saturating_sub(threshold) / 2;
    let newest = UNMASKED_TOKENS.min(window / 5);
    let done = if is_under_way {
        // No result is masked while a summary is being written: the summary would not fit the conversation any more.
        if !is_nearly_full && !engine.compression.summary.is_there() {
            return false;
        }
        finish(engine, cancel).await
    } else {
        if size < threshold.max(engine.compression.next_size.load(Ordering::Relaxed))
            || mask(engine, MaskLimits { newest, but_last: true, least: size / 5 }).await
        {
            return false;
        }
        match begin(engine) {
            Ok(writing) if is_nearly_full => write(engine, &writing, "", cancel).await,
            Ok(writing) => {
                engine.compression.summary.begin(writing);
                return false;
            }
            Err(why) => Err(why),
        }
    };
    match done {
        Ok(_) => return true,
        Err(CompressError::Cancelled | CompressError::GivenUp) => return false,
        Err(CompressError::Nothing) => {}
        Err(why) => {
            let is_useless = why == CompressError::Useless;
            let again = if is_useless { AGAIN_BY_HAND } else { "" };
            let notice = format!("The conversation could not be compressed: {why}{again}");
            engine.log.append(Event::Notice(notice));
            mask(engine, MaskLimits { newest: newest / 4, but_last: true, least: 0 }).await;
            // The next summary would hardly be shorter, and each costs as much as the conversation, so none is tried.
            if is_useless {
                engine.compression.next_size.store(DISABLED_SIZE, Ordering::Relaxed);
                return false;
            }
        }
    }
    engine.compression.next_size.store(grown(size, window), Ordering::Relaxed);
    false
}

/// Makes a conversation shorter that the model has refused as too long. `tried` counts the tries for one request: the
/// first summarizes, the second masks all results, and a third is not made. Returns whether the conversation is
/// shorter; `None` if the turn is cancelled.
pub(crate) async fn as_needed(
    engine: &Engine,
    tried: &mut usize,
    cancel: &CancellationToken,
) -> Option<bool> {
    let is_under_way = is_under_way(engine);
    // A summary that was begun earlier may cover too few messages, so it does not count as a try.
    *tried += usize::from(!is_under_way);
    let done = match *tried {
        _ if is_under_way => Some(finish(engine, cancel).await),
        1 => Some(compress(engine, "", cancel).await),
        2 => None,
        _ => return Some(false),
    };
    match done {
        // `GivenUp` means that the user chose another model during the summary. The new model may accept the
        // conversation unchanged.
        Some(Ok(_) | Err(CompressError::GivenUp)) => return Some(true),
        Some(Err(CompressError::Cancelled)) => return None,
        Some(Err(why)) => {
            let notice =
                format!("The conversation is too long, and could not be summarized: {why}");
            engine.log.append(Event::Notice(notice));
        }
        None => {}
    }
    Some(mask(engine, MaskLimits { newest: 0, but_last: false, least: 0 }).await)
}

/// Compresses the conversation, and waits for the summary. `about` is the user's wish on what the summary should be
/// about, empty if there is none. A summary that is under way is abandoned: it covers fewer messages, and does not know
/// the wish.
pub(crate) async fn compress(
    engine: &Engine,
    about: &str,
    cancel: &CancellationToken,
) -> Result<Arc<Compressed>, CompressError> {
    engine.compression.summary.give_up();
    let writing = begin(engine)?;
    write(engine, &writing, about, cancel).await
}

/// Returns the input for a summary of the conversation's older messages, and tells people that the summary begins.
fn begin(engine: &Engine) -> Result<Writing, CompressError> {
    let old =
        engine.conversation(SummarizedMessages::from_history).ok_or(CompressError::Nothing)?;
    let size = engine.size();
    let notice = format!("Compressing the conversation of {} tokens", event::tokens(size));
    engine.log.append(Event::Notice(notice));
    let room = engine.model.input_limit().map_or(size, |window| window * 6 / 10);
    Ok(Writing { old: Arc::new(old), model: engine.model.get(), thinking: engine.thinking(), room })
}

/// Writes a summary and lets it take effect, while the turn waits.
async fn write(
    engine: &Engine,
    writing: &Writing,
    about: &str,
    cancel: &CancellationToken,
) -> Result<Arc<Compressed>, CompressError> {
    let say = |retry| {
        engine.log.append(Event::Retry(retry));
    };
    let summed_up = cancel.run_until_cancelled(writing.sum_up(about, say)).await;
    take_effect(engine, &writing.old, summed_up.ok_or(CompressError::Cancelled)?).await
}

/// Waits for the summary that is under way, and lets it take effect. If the turn is cancelled first, the summary goes
/// on.
async fn finish(
    engine: &Engine,
    cancel: &CancellationToken,
) -> Result<Arc<Compressed>, CompressError> {
    if !engine.compression.summary.is_there() {
        engine.log.append(Event::Notice("Waiting for the summary of the conversation".to_owned()));
    }
    // The turn waits for `wait_ready` and not for `wait_result`, because a cancel would drop `wait_result` and abort
    // the summary.
    cancel
        .run_until_cancelled(engine.compression.summary.wait_ready())
        .await
        .ok_or(CompressError::Cancelled)?;
    let (old, summed_up) =
        engine.compression.summary.wait_result().await.ok_or(CompressError::GivenUp)?;
    take_effect(engine, &old, summed_up).await
}

/// Returns `true` if a summary is under way that fits the conversation as it is now. That stays true for the turn that
/// asks, because only turns change the conversation, and they run one after the other.
fn is_under_way(engine: &Engine) -> bool {
    engine.conversation(|conversation| engine.compression.summary.is_for(conversation))
}

/// Replaces the summarized messages by their summary. The messages after them stay as they are.
async fn take_effect(
    engine: &Engine,
    old: &SummarizedMessages,
    summed_up: SummedUp,
) -> Result<Arc<Compressed>, CompressError> {
    let Summary { snapshot, title, usage } = summed_up.map_err(CompressError::Model)?;
    let conversation = engine.conversation(Clone::clone);
    let size = engine.size();
    let window = engine.model.input_limit();
    let kept = old.messages_after(&conversation);
    let in_turn = !matches!(kept.first().map(|first| &**first), Some(Message::User(_)));
    let mut short = engine.transcript.lock().record().to_event(&engine.host.workspace);
    (short.said, short.unsaid) =
        old.user_quotes(window.unwrap_or(size) * MAX_QUOTED_PERCENT / 100, in_turn);
    short.whole = keep_whole(engine, old).await;
    (short.snapshot, short.usage) = (snapshot, usage);
    let from = old.end(&conversation).unwrap_or(engine.log.len());
    (short.from, short.before) = (from, size);
    // The summary is first tried on a copy, so that one that saves nothing leaves no event in the log.
    let mut after = conversation.clone();
    after.compress(&Arc::new(short.clone()), &engine.host.outputs);
    if short.snapshot.is_empty() || after.tokens() >= conversation.tokens() {
        return Err(CompressError::Useless);
    }
    short.after = size.saturating_sub(conversation.tokens() - after.tokens());
    let again = window.map_or(0, |window| grown(short.after, window));
    let short = Arc::new(short);
    engine.log.append(Event::Compressed(Arc::clone(&short)));
    engine.retitle(&title);
    engine.compression.next_size.store(again, Ordering::Relaxed);
    Ok(short)
}

/// Writes the summarized messages in full to a file. Returns the names of the newest files with earlier messages,
/// including this file.
async fn keep_whole(engine: &Engine, old: &SummarizedMessages) -> Vec<String> {
    let before = old.before.as_ref();
    let mut files = before.map_or_else(Vec::new, |before| before.short.whole.clone());
    let (outputs, text) = (Arc::clone(&engine.host.outputs), whole(old.unsummarized()));
    let keep = move || outputs.name(&outputs.save("conversation", &text)?);
    files.extend(blocking(keep).await.ok().flatten());
    files.drain(..files.len().saturating_sub(MAX_RECORD_FILES));
    files
}

/// Returns the number of tokens from which on a conversation of `size` tokens is worth compressing again.
fn grown(size: u64, window: u64) -> u64 {
    size.saturating_add(window * RETRY_GROWTH_PERCENT / 100)
}

/// Returns a share of a window, in tokens.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a token more or less does not matter"
)]
fn share(window: u64, share: f64) -> u64 {
    (window as f64 * share) as u64
}
