//! View that shows an editor the events of a session. It reads the session's log in order, no faster than the editor
//! reads.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cards::Cards;
use crate::content::plan;
use parking_lot::Mutex;
use tandem_agent::session::{
    ANSWER_RESTARTS, CallStarted, CallStep, Entry, Event, ModelError, Origin, Projection, Reader,
    ResultContent, Session, StopReason, ToolOutcome, TurnId, TurnResult, Update, UpdateKind,
    Watching, explain_resumed, explain_stop, origin_label,
};
use tandem_content::visible::visible_prose;
use tandem_wire::acp::v0::{
    AssistantMessageChunk, STREAM_ASSISTANT_MESSAGE_CHUNK, StreamAssistantMessageChunkParams,
    UPDATE_PLAN, UpdatePlanParams,
};
use tandem_wire::jsonrpc::Error;
use tandem_wire::rpc::{PACKET_BYTES, Peer, Responder};

/// Number of bytes queued for the editor above which the view waits before it shows the next event.
const HIGH_WATER: usize = 64 * 1024;

/// Maximum size of the text in one message chunk, in bytes of JSON, so that the chunk's line stays under
/// [`PACKET_BYTES`].
const MAX_TEXT_BYTES: usize = PACKET_BYTES - 160;

/// Kind of a message chunk: text of the answer, or a thought.
#[derive(Clone, Copy)]
enum MessageVoice {
    Text,
    Thought,
}

/// State of the connection that the handler and the view share.
pub(super) struct AcpClient {
    /// Origin of the editor's prompts and answers.
    pub(super) origin: Origin,
    /// Requests of the editor that are not answered yet, by the turns that they began.
    pub(super) replies: Mutex<HashMap<TurnId, Responder>>,
    /// `true` if the editor knows `updatePlan`.
    pub(super) plans: AtomicBool,
    /// Turn that the editor cancelled last. No further text of this turn is sent.
    pub(super) silenced: Mutex<Option<TurnId>>,
}

impl AcpClient {
    pub(super) fn new(origin: Origin) -> Self {
        let (replies, plans, silenced) =
            (Mutex::default(), AtomicBool::new(false), Mutex::default());
        Self { origin, replies, plans, silenced }
    }
}

/// Reader of the session's log that shows it to the editor.
pub(super) struct EditorView {
    session: Arc<Session>,
    peer: Peer,
    log: Reader,
    projection: Projection,
    cards: Cards,
    client: Arc<AcpClient>,
    /// Ids of the running `write_todos` calls, whose result is shown as a plan instead of a card.
    todos: Vec<String>,
    /// Guard: while it lives, a call of the editor's turns that needs no question waits until the editor has shown it,
    /// but at most two seconds.
    _watching: Watching,
}

impl EditorView {
    pub(super) fn new(session: &Arc<Session>, peer: Peer, client: Arc<AcpClient>) -> Self {
        Self {
            session: Arc::clone(session),
            cards: Cards::new(session, &peer, client.origin.clone()),
            // The editor is shown only events from now on.
            log: session.events(session.position()),
            projection: Projection::default(),
            todos: Vec::new(),
            _watching: session.gate().watch(client.origin.clone()),
            peer,
            client,
        }
    }

    /// Shows the open questions, then each event as it happens. Runs until the future is dropped.
    pub(super) async fn run(mut self) {
        let open = self.session.questions().open_now();
        self.projection = Projection::joining(&open);
        for call in open {
            self.cards.start(&call, false);
        }
        loop {
            let entry = self.log.next_entry().await;
            self.peer.wait_backlog_below(HIGH_WATER).await;
            if let Some(update) = self.projection.apply(&entry) {
                self.show(&update, &entry);
            }
        }
    }

    fn show(&mut self, update: &Update<'_>, entry: &Entry) {
        let silenced = self.is_silenced(update.turn);
        match &update.kind {
            UpdateKind::Text(_)
            | UpdateKind::Thought(_)
            | UpdateKind::Output(_)
            | UpdateKind::CommandFailed(_)
                if silenced => {}
            UpdateKind::Output(text) | UpdateKind::CommandFailed(text) => {
                self.say(MessageVoice::Text, text);
            }
            UpdateKind::Text(text) => {
                let text = self.join(MessageVoice::Text, text);
                self.say(MessageVoice::Text, &text);
            }
            UpdateKind::Thought(text) => {
                let text = self.join(MessageVoice::Thought, text);
                self.say(MessageVoice::Thought, &text);
            }
            UpdateKind::Retry { retry, restarts } => {
                self.say(MessageVoice::Thought, &format!("**{retry}**\n"));
                // The editor cannot take back the part of the answer that it shows already, so a text marks the new
                // beginning.
                if *restarts && !silenced {
                    self.say(MessageVoice::Text, &format!("\n\n{}\n\n", retry.interruption()));
                }
            }
            UpdateKind::TurnResumed { restarts } => {
                let text = format!("**{}**\n", explain_resumed(*restarts));
                self.say(MessageVoice::Thought, &text);
                if *restarts && !silenced {
                    self.say(MessageVoice::Text, &format!("\n\n{ANSWER_RESTARTS}\n\n"));
                }
            }
            UpdateKind::Note { text, .. } => self.note(text),
            UpdateKind::CommandReplied(text) => self.note(text),
            UpdateKind::Call(started, step) => self.call(update.turn, started, *step, entry),
            UpdateKind::TurnStarted => self.quote(update.turn),
            UpdateKind::TurnFinished(reason) => self.end(update.turn, reason),
            // This version of the protocol has no way to show these events. A command prints by itself what the user
            // needs to know.
            UpdateKind::TurnQueued(_)
            | UpdateKind::CommandStarted(_)
            | UpdateKind::CommandAsked
            | UpdateKind::AnswerFinished(_)
            | UpdateKind::Forgotten
            | UpdateKind::Rewound(_)
            | UpdateKind::SessionRenamed(_)
            | UpdateKind::ModelChanged(_)
            | UpdateKind::ThinkingChanged(_)
            | UpdateKind::ModeChanged(_) => {}
        }
    }

    fn call(
        &mut self,
        turn: Option<TurnId>,
        started: &CallStarted,
        step: CallStep<'_>,
        entry: &Entry,
    ) {
        let id = &started.call.id;
        match step {
            CallStep::Started => {
                let plans = self.client.plans.load(Ordering::Relaxed);
                if started.call.name == "write_todos" && plans {
                    self.todos.push(id.clone());
                    self.session.gate().pass(id, Ok(()));
                } else {
                    self.cards.start(started, self.is_own(turn));
                }
            }
            CallStep::Progress(output) => self.cards.progress(id, output),
            CallStep::Finished(outcome) => {
                self.todos(id, outcome);
                self.cards.finish(id, &entry.event);
            }
            CallStep::QuestionClosed(_) => {}
        }
    }

    /// Quotes the prompt of a turn that has another origin than this editor.
    fn quote(&self, turn: Option<TurnId>) {
        let Some(turn) = turn.and_then(|turn| self.projection.turn(turn)) else { return };
        if let Some(origin) = turn.origin.as_ref().filter(|it| **it != self.client.origin) {
            let from = origin_label(origin);
            let prompt = turn.prompt.replace('\n', "\n> ");
            self.say(MessageVoice::Text, &format!("\n\n> **[{from}]** {prompt}\n\n"));
        }
    }

    /// Returns `true` if this editor began a turn.
    fn is_own(&self, turn: Option<TurnId>) -> bool {
        let turn = turn.and_then(|turn| self.projection.turn(turn));
        turn.is_some_and(|turn| turn.origin.as_ref() == Some(&self.client.origin))
    }

    /// Returns `true` if a turn is the last that this editor has cancelled.
    fn is_silenced(&self, turn: Option<TurnId>) -> bool {
        turn.is_some() && turn == *self.client.silenced.lock()
    }

    /// Returns the text. If the editor is behind, the text that follows in the log is appended, up to about
    /// [`MAX_TEXT_BYTES`] bytes, so that a slow editor gets fewer messages.
    fn join<'a>(&mut self, voice: MessageVoice, text: &'a str) -> Cow<'a, str> {
        let mut joined = Cow::Borrowed(text);
        while self.peer.backlog() >= PACKET_BYTES && joined.len() < MAX_TEXT_BYTES {
            let Some(next) = self.log.peek() else { break };
            match (voice, &*next) {
                (MessageVoice::Text, Event::Text(more))
                | (MessageVoice::Thought, Event::Thought(more)) => {
                    joined.to_mut().push_str(more);
                }
                _ => break,
            }
            if let Some(entry) = self.log.try_next_entry() {
                self.projection.apply(&entry);
            }
        }
        joined
    }

    /// Shows a note for the user, as a thought.
    fn note(&self, text: &str) {
        self.say(MessageVoice::Thought, &format!("**Note** {text}\n"));
    }

    fn say(&self, voice: MessageVoice, text: &str) {
        let text = visible_prose(text);
        let mut rest = &*text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(fitting(rest, MAX_TEXT_BYTES));
            let chunk = match voice {
                MessageVoice::Text => AssistantMessageChunk::Text(piece),
                MessageVoice::Thought => AssistantMessageChunk::Thought(piece),
            };
            // Sent without waiting for the answer, because some editors never answer this request.
            let params = StreamAssistantMessageChunkParams { chunk };
            self.peer.send(STREAM_ASSISTANT_MESSAGE_CHUNK, &params);
            rest = after;
        }
    }

    fn todos(&mut self, call: &str, outcome: &ToolOutcome) {
        let Some(at) = self.todos.iter().position(|todos| todos == call) else { return };
        self.todos.swap_remove(at);
        if let ToolOutcome::Done(output) = outcome
            && let Some(ResultContent::Todos(todos)) = &output.shown
        {
            self.peer.send(UPDATE_PLAN, &UpdatePlanParams { entries: plan(todos) });
        }
    }

    /// Shows why the turn ended, if that needs a text, and answers the request that began the turn, if this editor sent
    /// it.
    fn end(&self, turn: Option<TurnId>, reason: &StopReason) {
        let why = explain_stop(reason);
        if let Some(why) = why.as_ref().filter(|_| is_text(reason)) {
            self.say(MessageVoice::Text, &format!("\n\n*{why}*"));
        }
        let responder = turn.and_then(|turn| self.client.replies.lock().remove(&turn));
        let Some(responder) = responder else { return };
        responder.send(match reason {
            StopReason::Cancelled { answering: true }
            | StopReason::Closed { answering: true, .. } => {
                Err(Error::internal("This operation was aborted"))
            }
            StopReason::Failed(ModelError::RateLimited(why)) => Err(Error::detailed(
                429,
                "Rate limit exceeded. Try again later.",
                visible_prose(why),
            )),
            StopReason::Failed(_) | StopReason::Crashed | StopReason::Unknown(_) => {
                Err(Error::internal(visible_prose(&why.unwrap_or_default())))
            }
            _ => Ok(()),
        });
    }
}

/// Returns `true` if the editor is shown a text that explains the end of a turn. A cancel is not explained, unless it
/// comes from an unanswered question. A failure is the answer to the editor's request instead.
fn is_text(reason: &StopReason) -> bool {
    match TurnResult::from_reason(reason) {
        TurnResult::Completed => true,
        TurnResult::Cancelled => matches!(reason, StopReason::Unanswered(_)),
        TurnResult::Failed => matches!(reason, StopReason::Refused(_)),
    }
}

/// Returns the length of the longest prefix of a text that takes at most `bytes` bytes as JSON, but at least the length
/// of one character.
fn fitting(text: &str, bytes: usize) -> usize {
    // No byte of a text takes more than six bytes in JSON.
    if text.len() * 6 <= bytes {
        return text.len();
    }
    let mut end = 0;
    let mut size = 0;
    for c in text.chars() {
        size += in_json(c);
        if size > bytes && end > 0 {
            break;
        }
        end += c.len_utf8();
    }
    end
}

/// Returns the size of a character in a JSON string, in bytes.
fn in_json(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[track_caller]
    fn check(text: &str, bytes: usize, expected: &str) {
        assert_eq!(&text[..fitting(text, bytes)], expected);
    }

    #[test]
    fn text_is_cut_between_characters_where_its_json_is_full() {
        check("abcdef", 100, "abcdef");
        check("abcdef", 3, "abc");
        check("a\n\nb", 4, "a\n");
        check("\u{1}\u{1}", 7, "\u{1}");
        check("äöü", 5, "äö");
        check("🦀🦀", 7, "🦀");
    }

    #[test]
    fn one_character_is_always_taken() {
        check("🦀x", 1, "🦀");
    }
}
