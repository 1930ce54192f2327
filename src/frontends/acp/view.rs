//! Shows an editor what happens in a session: reads the log, in order, at the editor's pace.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Client;
use super::cards::Cards;
use super::content::plan;
use crate::protocol::acp::{
    AssistantMessageChunk, STREAM_ASSISTANT_MESSAGE_CHUNK, StreamAssistantMessageChunkParams,
    UPDATE_PLAN,
};
use crate::protocol::jsonrpc::Error;
use crate::rpc::{PACKET, Peer};
use crate::session::{
    Content, Event, ModelError, Origin, Reader, Session, StopReason, ToolOutcome, TurnId, Watching,
};
use crate::visible::visible_prose;

/// How many bytes may be unwritten before the view stops reading the log.
const HIGH_WATER: usize = 64 * 1024;

/// How many bytes of JSON a chunk's text may take, so that its line stays under [`PACKET`].
const TEXT: usize = PACKET - 160;

/// Which kind of chunk.
#[derive(Clone, Copy)]
enum Voice {
    Text,
    Thought,
}

pub(super) struct View {
    session: Arc<Session>,
    peer: Peer,
    log: Reader,
    cards: Cards,
    client: Arc<Client>,
    /// The turn that runs, and where it came from.
    running: Option<(TurnId, Origin)>,
    /// The calls that are shown as a plan instead.
    todos: Vec<String>,
    /// What was said in other front ends, until its turn comes.
    elsewhere: HashMap<TurnId, (String, Origin)>,
    /// `true` if text has been shown of an answer that goes on.
    in_answer: bool,
    _watching: Watching,
}

impl View {
    pub(super) fn new(session: &Arc<Session>, peer: Peer, client: Arc<Client>) -> Self {
        Self {
            session: Arc::clone(session),
            cards: Cards::new(session, &peer, client.origin.clone()),
            // What was before is not this editor's.
            log: session.events(session.position()),
            running: None,
            todos: Vec::new(),
            elsewhere: HashMap::new(),
            _watching: session.watch_calls(client.origin.clone()),
            peer,
            client,
            in_answer: false,
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        for asked in self.session.questions() {
            self.cards.start(&asked, false);
        }
        loop {
            let event = self.log.next().await;
            self.peer.room(HIGH_WATER).await;
            self.show(&event);
        }
    }

    fn show(&mut self, event: &Arc<Event>) {
        match &**event {
            Event::Text(_) | Event::Thought(_) | Event::Output(_) | Event::CommandFailed(_)
                if self.silenced() => {}
            Event::Output(text) | Event::CommandFailed(text) => self.say(Voice::Text, text),
            Event::Text(text) => {
                let text = self.join(Voice::Text, text);
                self.say(Voice::Text, &text);
                self.in_answer = true;
            }
            Event::Thought(text) => {
                let text = self.join(Voice::Thought, text);
                self.say(Voice::Thought, &text);
            }
            Event::Retry(retry) => {
                self.say(Voice::Thought, &format!("**{retry}**\n"));
                if retry.discard && std::mem::take(&mut self.in_answer) && !self.silenced() {
                    self.say(Voice::Text, &format!("\n\n{}\n\n", retry.interruption()));
                }
            }
            Event::AnswerFinished { .. } => self.in_answer = false,
            Event::Notice(notice) => self.say(Voice::Thought, &format!("**Note** {notice}\n")),
            Event::Compressed(short) => self.say(Voice::Thought, &format!("**Note** {short}\n")),
            Event::CallStarted(started) => {
                let id = &started.call.id;
                let plans = self.client.plans.load(Ordering::Relaxed);
                if started.call.name == "write_todos" && plans {
                    self.todos.push(id.clone());
                    self.session.shown(id, Ok(()));
                } else {
                    self.cards.start(started, self.is_own());
                }
            }
            Event::CallProgress { call, output } => self.cards.progress(call, output),
            Event::CallFinished { call, outcome } => {
                self.todos(call, outcome);
                self.cards.finish(call, event);
            }
            Event::TurnFinished { turn, reason } => self.end(*turn, reason),
            Event::TurnQueued { turn, prompt, origin } if *origin != self.client.origin => {
                let prompt: String = prompt.iter().map(ToString::to_string).collect();
                self.elsewhere.insert(*turn, (prompt, origin.clone()));
            }
            Event::TurnStarted { turn } => self.begin(*turn),
            // This version of the protocol has no way to show these; what people are to know of
            // a command, it says itself.
            Event::TurnQueued { .. }
            | Event::CommandStarted { .. }
            | Event::Asked(_)
            | Event::Told { .. }
            | Event::ToldNext(_)
            | Event::FileChanged { .. }
            | Event::Masked(_)
            | Event::FileRestored { .. }
            | Event::Forgotten
            | Event::ModelChanged { .. }
            | Event::ModeChanged { .. }
            | Event::QuestionClosed { .. } => {}
        }
    }

    fn begin(&mut self, turn: TurnId) {
        let (prompt, origin) = match self.elsewhere.remove(&turn) {
            Some((prompt, origin)) => (Some(prompt), origin),
            None => (None, self.client.origin.clone()),
        };
        if let Some(prompt) = prompt {
            let from = match origin {
                Origin::Editor => "editor",
                Origin::Terminal | Origin::Attached(_) => "terminal",
                Origin::A2a(_) => "A2A",
            };
            let prompt = prompt.replace('\n', "\n> ");
            self.say(Voice::Text, &format!("\n\n> **[{from}]** {prompt}\n\n"));
        }
        self.running = Some((turn, origin));
    }

    /// Whether the turn that runs came from this editor.
    fn is_own(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, origin)| *origin == self.client.origin)
    }

    /// Whether the editor has cancelled the turn that runs.
    fn silenced(&self) -> bool {
        let running = self.running.as_ref().map(|(turn, _)| *turn);
        running.is_some() && running == *self.client.silenced.lock()
    }

    /// The text, with what follows it in the log if the editor is behind.
    fn join<'a>(&mut self, voice: Voice, text: &'a str) -> Cow<'a, str> {
        let mut joined = Cow::Borrowed(text);
        while self.peer.backlog() >= PACKET && joined.len() < TEXT {
            let Some(next) = self.log.peek() else { break };
            match (voice, &*next) {
                (Voice::Text, Event::Text(more)) | (Voice::Thought, Event::Thought(more)) => {
                    joined.to_mut().push_str(more);
                }
                _ => break,
            }
            self.log.try_next();
        }
        joined
    }

    fn say(&self, voice: Voice, text: &str) {
        let text = visible_prose(text);
        let mut rest = &*text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(fitting(rest, TEXT));
            let chunk = match voice {
                Voice::Text => AssistantMessageChunk::Text(piece),
                Voice::Thought => AssistantMessageChunk::Thought(piece),
            };
            // Some editors never answer: nobody waits.
            let params = StreamAssistantMessageChunkParams { chunk };
            self.peer.send(STREAM_ASSISTANT_MESSAGE_CHUNK, &params);
            rest = after;
        }
    }

    fn todos(&mut self, call: &str, outcome: &ToolOutcome) {
        let Some(at) = self.todos.iter().position(|todos| todos == call) else { return };
        self.todos.swap_remove(at);
        if let ToolOutcome::Done(output) = outcome
            && let Some(Content::Todos(todos)) = &output.shown
        {
            self.peer.send(UPDATE_PLAN, &plan(todos));
        }
    }

    /// Answers the prompt that began the turn, if this editor did.
    fn end(&mut self, turn: TurnId, reason: &StopReason) {
        self.elsewhere.remove(&turn);
        if let Some(why) = explanation(reason) {
            self.say(Voice::Text, &why);
        }
        let Some(responder) = self.client.replies.lock().remove(&turn) else { return };
        responder.send(match reason {
            StopReason::Cancelled { answering: true }
            | StopReason::Closed { answering: true, .. } => {
                Err(Error::internal("This operation was aborted"))
            }
            StopReason::Failed(ModelError::RateLimited(why)) => {
                Err(Error::new(429, "Rate limit exceeded. Try again later.", visible_prose(why)))
            }
            StopReason::Failed(error) => Err(Error::internal(visible_prose(&error.to_string()))),
            StopReason::Crashed => Err(Error::internal(
                "the turn ended because of a fault in the agent; its log says more",
            )),
            StopReason::EndTurn
            | StopReason::Cancelled { answering: false }
            | StopReason::Closed { answering: false, .. }
            | StopReason::Unanswered(_)
            | StopReason::MaxTokens
            | StopReason::MaxRounds(_)
            | StopReason::MaxSessionRounds(_)
            | StopReason::Looping(_)
            | StopReason::Refused(_) => Ok(()),
        });
    }
}

/// Why a turn ended early, for the user to read.
fn explanation(reason: &StopReason) -> Option<String> {
    Some(match reason {
        StopReason::MaxTokens => "\n\n*The answer was cut at the model's output limit. Say \
            \"continue\" for the rest.*"
            .to_owned(),
        StopReason::MaxRounds(rounds) => {
            format!("\n\n*Stopped after {rounds} rounds of tool calls. Say \"continue\" to go on.*")
        }
        StopReason::MaxSessionRounds(most) => format!(
            "\n\n*The model has been asked {most} times, and `model.maxSessionTurns` in the settings \
             allows no more in a session.*"
        ),
        StopReason::Looping(what) => format!(
            "\n\n*Stopped, because the model repeated itself: {what}. Say how it is to go on.*"
        ),
        StopReason::Refused(why) => format!(
            "\n\n*The model's provider would not answer: {why}. This message is left out of the \
             conversation; say it another way.*"
        ),
        _ => return None,
    })
}

/// How much of the text takes at most `bytes` as JSON. At least one character.
fn fitting(text: &str, bytes: usize) -> usize {
    // Six bytes is the most that one takes.
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

/// How many bytes a character takes in a JSON string.
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
