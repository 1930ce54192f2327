//! View that shows an editor the events of a session. It reads the session's log in order, no faster than the editor
//! reads.

use std::borrow::Cow;
use std::future::pending;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::answer::{answer, model_error, timestamp};
use super::calls::{Calls, call_with_question};
use super::client::{Reply, SessionClient};
use super::commands;
use super::options::session_options;
use super::permission::{OpenQuestions, options};
use super::user_input;
use crate::content::plan;
use tandem_agent::session::{
    ANSWER_RESTARTS, Answer, CallStarted, CallStep, Compressed, Entry, Event, Projection, Reader,
    ResultContent, Session, StopReason, ToolOutcome, TurnId, TurnResult, Update, UpdateKind, Usage,
    explain_resumed, explain_stop,
};
use tandem_content::blocking::blocking;
use tandem_content::visible::{visible_line, visible_prose};
use tandem_wire::acp::v1::{
    self, AvailableCommand, CompactionStatus, ContentChunk, Cost, NoticeSeverity, PromptResponse,
    RequestPermissionParams, SessionUpdate, TextContent,
};
use tandem_wire::jsonrpc::Error;
use tandem_wire::rpc::{CallError, PACKET_BYTES};

/// Number of bytes queued for the editor above which the view waits before it shows the next event.
const HIGH_WATER: usize = 64 * 1024;

/// Maximum size of the text in one message chunk, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// Way in which an editor opens a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The session is new.
    New,
    /// The session exists, and all its earlier events are shown.
    Load,
    /// The session exists, and only events from now on are shown.
    Resume,
}

/// Kind of a message: text of the answer, or a thought.
#[derive(Clone, Copy)]
enum Voice {
    Text,
    Thought,
}

/// Reader of a session's log that shows it to an editor.
pub(super) struct View {
    session: Arc<Session>,
    client: Arc<SessionClient>,
    log: Reader,
    projection: Projection,
    start: Start,
    calls: Calls,
    questions: OpenQuestions,
    /// Ids of the running `write_todos` calls, whose result is shown as a plan instead of a call.
    todos: Vec<String>,
    /// Number of the current message within its turn; part of the message's id.
    message: usize,
    /// Number of tokens of the last answered request: input, output and thoughts.
    used: Option<u64>,
    /// Title that the editor shows for the session, as far as the view knows.
    title: String,
    commands: Vec<AvailableCommand>,
    /// Pending read of the session's commands.
    reading: Option<BoxFuture<'static, Option<Vec<AvailableCommand>>>>,
}

impl View {
    pub(super) fn new(session: &Arc<Session>, client: Arc<SessionClient>, start: Start) -> Self {
        let from = if start == Start::Load { 0 } else { session.position() };
        let title = if start == Start::New { String::new() } else { session.title() };
        Self {
            session: Arc::clone(session),
            log: session.events(from),
            projection: Projection::default(),
            start,
            calls: Calls::new(Arc::clone(&client), client.kind.has_terminals),
            questions: OpenQuestions::default(),
            todos: Vec::new(),
            message: 0,
            used: None,
            title,
            commands: Vec::new(),
            reading: None,
            client,
        }
    }

    /// Shows all earlier events, if the editor loads the session.
    pub(super) async fn replay(&mut self) {
        if self.start != Start::Load {
            return;
        }
        self.calls.replays = true;
        while let Some(entry) = self.log.try_next_run() {
            tokio::task::coop::consume_budget().await;
            self.client.peer.wait_backlog_below(HIGH_WATER).await;
            self.show_entry(&entry);
        }
        self.calls.replays = false;
        self.usage();
    }

    /// Shows the open calls, then each event as it happens. Runs until the future is dropped.
    pub(super) async fn run(mut self) {
        let open: Vec<_> = match self.start {
            Start::Load => self.projection.open_calls().map(|it| Arc::clone(&it.started)).collect(),
            // Questions may have been opened before the position at which this view begins to read.
            Start::New | Start::Resume => {
                let open = self.session.questions().open_now();
                self.projection = Projection::joining(&open);
                open
            }
        };
        for started in open {
            self.begin_call(&started);
        }
        self.read_commands();
        loop {
            tokio::select! {
                entry = self.log.next_entry() => {
                    self.client.peer.wait_backlog_below(HIGH_WATER).await;
                    self.show_entry(&entry);
                }
                (call, reply) = self.questions.next() => self.answered(&call, reply),
                () = self.calls.due() => self.calls.show_due(),
                commands = read(&mut self.reading) => self.show_commands(commands),
            }
        }
    }

    fn show_entry(&mut self, entry: &Entry) {
        if let Some(update) = self.projection.apply(entry) {
            self.show(&update);
        }
    }

    fn show(&mut self, update: &Update<'_>) {
        let turn = update.turn;
        match &update.kind {
            UpdateKind::Output(text) | UpdateKind::CommandFailed(text) => {
                self.say(turn, Voice::Text, text);
                self.message += 1;
            }
            UpdateKind::Text(text) => {
                let text = self.join(Voice::Text, text);
                self.say(turn, Voice::Text, &text);
            }
            UpdateKind::Thought(text) => {
                let text = self.join(Voice::Thought, text);
                self.say(turn, Voice::Thought, &text);
            }
            UpdateKind::Retry { retry, restarts } => {
                let restart = restarts.then(|| retry.interruption());
                self.begins_again(turn, &retry.to_string(), restart.as_deref());
            }
            UpdateKind::TurnResumed { restarts } => {
                let restart = restarts.then_some(ANSWER_RESTARTS);
                self.begins_again(turn, &explain_resumed(*restarts), restart);
            }
            UpdateKind::Note { compressed: Some(compressed), .. }
                if self.client.kind.has_compactions =>
            {
                self.compaction(update.index, compressed);
            }
            UpdateKind::Note { text, .. } => self.note(turn, text),
            UpdateKind::CommandReplied(text) => self.note(turn, text),
            UpdateKind::AnswerFinished(usage) => self.answer_finished(usage),
            UpdateKind::Call(started, step) => self.call(started, *step),
            UpdateKind::TurnStarted => self.turn_started(turn),
            UpdateKind::TurnFinished(reason) => self.end(update, reason),
            UpdateKind::SessionRenamed(title) => self.retitle(title, update),
            UpdateKind::ModelChanged(_) | UpdateKind::ThinkingChanged(_) => self.show_options(),
            UpdateKind::ModeChanged(mode) => {
                if !self.calls.replays {
                    let current_mode_id = mode.to_string();
                    self.client.update(SessionUpdate::CurrentModeUpdate { current_mode_id });
                }
                self.show_options();
            }
            // Not shown: a command prints by itself what the user needs to know.
            UpdateKind::TurnQueued(_)
            | UpdateKind::CommandStarted(_)
            | UpdateKind::CommandAsked
            | UpdateKind::Forgotten
            | UpdateKind::Rewound(_) => {}
        }
    }

    /// Shows that the model is asked again, for the reason `why`. `restart` is a text that marks where the answer
    /// begins anew, because the part of the answer that the editor shows already cannot be taken back.
    fn begins_again(&mut self, turn: Option<TurnId>, why: &str, restart: Option<&str>) {
        if self.client.kind.has_notices {
            self.notice(NoticeSeverity::Warning, why);
        } else {
            self.say(turn, Voice::Thought, &format!("**{why}**\n"));
        }
        if let Some(restart) = restart {
            self.say(turn, Voice::Text, &format!("\n\n{restart}\n\n"));
        }
    }

    /// Shows the prompt of a turn that begins, unless this editor has just sent that prompt.
    fn turn_started(&mut self, turn: Option<TurnId>) {
        self.message = 0;
        let replays = self.calls.replays;
        if !replays {
            self.read_commands();
        }
        let is_new = |turn: &TurnId| replays || !self.client.is_own(*turn);
        let Some(turn) = turn.filter(is_new) else { return };
        if let Some(record) = self.projection.turn(turn) {
            let (message_id, text) = (format!("{}.u", turn.0), visible_prose(&record.prompt));
            let chunk = ContentChunk { message_id: &message_id, content: TextContent { text } };
            self.client.update(SessionUpdate::UserMessageChunk(chunk));
        }
    }

    fn call(&mut self, started: &CallStarted, step: CallStep<'_>) {
        let id = &started.call.id;
        match step {
            CallStep::Started => self.begin_call(started),
            CallStep::Progress(output) => self.calls.progress(id, output),
            CallStep::QuestionClosed(answer) => {
                self.questions.withdraw(id);
                if answer.is_some_and(|(answer, _)| answer.decision().runs()) {
                    self.calls.runs(started);
                }
            }
            CallStep::Finished(outcome) => {
                self.questions.withdraw(id);
                if !self.todos(id, outcome) {
                    self.calls.finish(started, outcome);
                }
            }
        }
    }

    fn begin_call(&mut self, started: &CallStarted) {
        if started.call.name == "write_todos" {
            self.todos.push(started.call.id.clone());
            return;
        }
        let open = started
            .question
            .as_ref()
            .filter(|_| self.session.questions().is_open(&started.call.id));
        if self.calls.replays || !self.calls.start(started, open.is_some()) {
            return;
        }
        if !started.input_questions().is_empty() && open.is_some() {
            let answer = user_input::ask(&self.client, started);
            self.questions.add(started.call.id.clone(), answer);
        } else if let Some(question) = open {
            let tool_call = call_with_question(started, question);
            let params = RequestPermissionParams {
                session_id: &self.client.id,
                tool_call,
                options: Vec::new(),
            };
            let options = options(question, self.client.kind.shows_names);
            self.questions.ask(&self.client.peer, params, options);
        }
    }

    /// Passes the editor's answer to a question on to the session.
    fn answered(&self, call: &str, reply: Result<Answer, CallError>) {
        let own = self.projection.call(call).and_then(|call| call.turn);
        let is_own = own.is_some_and(|turn| self.client.is_own(turn));
        let answer = match reply {
            Ok(answer) => answer,
            // If this editor did not begin the turn, the question stays open: another front end may answer it.
            Err(_) if !is_own => return,
            Err(CallError::Gone) => Answer::Cancel,
            Err(error) => Answer::Unclear(error.to_string()),
        };
        // The session refuses the answer if another front end has been faster or the turn has ended. Nothing is to be
        // done here then, because the log shows it.
        if let Err(error) = self.session.answer(call, answer, self.client.origin.clone()) {
            tracing::debug!(call, ?error, "the editor's answer does not count");
        }
    }

    /// Shows the todo list that a `write_todos` call has written. Returns `false` if the call is no `write_todos` call.
    fn todos(&mut self, call: &str, outcome: &ToolOutcome) -> bool {
        let Some(at) = self.todos.iter().position(|todos| todos == call) else { return false };
        self.todos.swap_remove(at);
        if let ToolOutcome::Done(output) = outcome
            && let Some(ResultContent::Todos(todos)) = &output.shown
        {
            self.client.update(SessionUpdate::Plan { entries: plan(todos) });
        }
        true
    }

    /// Returns the text. If the editor is behind, the text that follows in the log is appended, up to about
    /// [`MAX_TEXT_BYTES`] bytes, so that a slow editor gets fewer messages.
    fn join<'a>(&mut self, voice: Voice, text: &'a str) -> Cow<'a, str> {
        let mut joined = Cow::Borrowed(text);
        while self.client.peer.backlog() >= PACKET_BYTES && joined.len() < MAX_TEXT_BYTES {
            let Some(next) = self.log.peek() else { break };
            match (voice, &*next) {
                (Voice::Text, Event::Text(more)) | (Voice::Thought, Event::Thought(more)) => {
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

    fn say(&self, turn: Option<TurnId>, voice: Voice, text: &str) {
        let turn = turn.map_or(0, |turn| turn.0);
        let thought = matches!(voice, Voice::Thought);
        let message_id = format!("{turn}.{}{}", self.message, if thought { "t" } else { "" });
        let text = visible_prose(text);
        let mut rest = &*text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_TEXT_BYTES));
            let content = TextContent { text: piece.into() };
            let chunk = ContentChunk { message_id: &message_id, content };
            self.client.update(match voice {
                Voice::Text => SessionUpdate::AgentMessageChunk(chunk),
                Voice::Thought => SessionUpdate::AgentThoughtChunk(chunk),
            });
            rest = after;
        }
    }

    /// Shows that the conversation was compressed: from here on the model gets a summary of the earlier part. `index`
    /// is the position of the event in the log.
    fn compaction(&self, index: usize, compressed: &Compressed) {
        let summary = [TextContent { text: visible_prose(&compressed.snapshot) }];
        self.client.update(SessionUpdate::CompactionUpdate {
            compaction_id: index.to_string(),
            status: CompactionStatus::Completed,
            summary,
        });
    }

    /// Shows a note for the user: as a notice if the editor has notices, otherwise as a thought.
    fn note(&mut self, turn: Option<TurnId>, text: &str) {
        if self.client.kind.has_notices {
            self.notice(NoticeSeverity::Info, text);
        } else {
            self.say(turn, Voice::Thought, &format!("**Note** {text}\n"));
        }
    }

    /// Shows a notice. A notice is no part of the conversation, so it is left out when earlier events are shown again.
    fn notice(&self, severity: NoticeSeverity, text: &str) {
        let text = text.trim();
        let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
        if self.calls.replays || title.is_empty() {
            return;
        }
        let (title, rest) = (visible_line(title), visible_prose(rest.trim()));
        let description = Some(rest).filter(|rest| !rest.is_empty());
        self.client.update(SessionUpdate::Notice { severity, title, description });
    }

    fn answer_finished(&mut self, usage: &Usage) {
        self.message += 1;
        // An answer that was cut off has no token counts: the count of the answer before stays.
        if usage.input > 0 {
            self.used = Some(usage.input + usage.output + usage.thoughts);
            if !self.calls.replays {
                self.usage();
            }
        }
    }

    /// Shows how many tokens of the model's input limit are used, and what the session has cost. Shows nothing unless
    /// the used tokens and the limit are both known.
    fn usage(&self) {
        if let (Some(used), Some(size)) = (self.used, self.session.input_limit()) {
            // A sum of floating-point numbers ends in digits that are rounding errors.
            let amount = self.session.cost().map(|cost| (cost * 1e9).round() / 1e9);
            let cost = amount.map(|amount| Cost { amount, currency: "USD" });
            self.client.update(SessionUpdate::UsageUpdate { used, size, cost });
        }
    }

    fn show_options(&self) {
        if !self.calls.replays {
            let config_options = session_options(&self.session, &self.client.models()).options();
            self.client.update(SessionUpdate::ConfigOptionUpdate { config_options });
        }
    }

    /// Shows the session's title, if the editor shows another title.
    fn retitle(&mut self, title: &str, update: &Update<'_>) {
        if self.calls.replays || self.title == title {
            return;
        }
        title.clone_into(&mut self.title);
        let (title, updated_at) = (visible_prose(title).into_owned(), timestamp(update.at));
        self.client.update(SessionUpdate::SessionInfoUpdate { title, updated_at });
    }

    /// Shows why the turn ended, if that needs a text, and answers the prompt that began the turn, if this editor sent
    /// it.
    fn end(&mut self, update: &Update<'_>, reason: &StopReason) {
        let reply = update.turn.and_then(|turn| self.client.take_prompt(turn));
        let why = explain_stop(reason).filter(|_| is_text(reason, reply.is_some()));
        if let Some(why) = why {
            self.say(update.turn, Voice::Text, &format!("\n\n*{why}*"));
        }
        self.retitle(&self.session.title(), update);
        if let Some(Reply { responder, .. }) = reply {
            answer(responder, result(reason));
        }
        self.client.count_unanswered();
    }

    /// Begins to read the list of commands. Reading may read files, so it runs on another thread.
    fn read_commands(&mut self) {
        let session = Arc::clone(&self.session);
        let read = blocking(move || commands::available(&session));
        self.reading = Some(Box::pin(async move { read.await.ok() }));
    }

    fn show_commands(&mut self, commands: Option<Vec<AvailableCommand>>) {
        self.reading = None;
        if let Some(available_commands) = commands.filter(|commands| *commands != self.commands) {
            self.commands.clone_from(&available_commands);
            self.client.update(SessionUpdate::AvailableCommandsUpdate { available_commands });
        }
    }
}

/// Waits for the result of a pending read. Without a pending read, waits forever.
async fn read<T>(reading: &mut Option<BoxFuture<'static, T>>) -> T {
    match reading {
        Some(reading) => reading.await,
        None => pending().await,
    }
}

/// Returns `true` if the editor is shown a text that explains the end of a turn. A cancel is not explained, unless it
/// comes from an unanswered question. A failure of the editor's own turn is the answer to its prompt instead.
fn is_text(reason: &StopReason, is_own: bool) -> bool {
    match TurnResult::from_reason(reason) {
        TurnResult::Completed => true,
        TurnResult::Cancelled => matches!(reason, StopReason::Unanswered(_)),
        TurnResult::Failed => !is_own || matches!(reason, StopReason::Refused(_)),
    }
}

/// Returns the answer to a prompt whose turn ended for the given reason.
fn result(reason: &StopReason) -> Result<PromptResponse, Error> {
    let stop_reason = match reason {
        StopReason::EndTurn => v1::StopReason::EndTurn,
        StopReason::Cancelled { .. } | StopReason::Closed { .. } | StopReason::Unanswered(_) => {
            v1::StopReason::Cancelled
        }
        StopReason::MaxTokens => v1::StopReason::MaxTokens,
        StopReason::MaxRounds(_) | StopReason::MaxSessionRounds(_) | StopReason::Looping(_) => {
            v1::StopReason::MaxTurnRequests
        }
        StopReason::Refused(_) => v1::StopReason::Refusal,
        StopReason::Failed(error) => return Err(model_error(error)),
        StopReason::SchemaMismatch(_)
        | StopReason::Crashed
        | StopReason::Interrupted
        | StopReason::Unknown(_) => {
            return Err(Error::internal(explain_stop(reason).unwrap_or_default()));
        }
    };
    Ok(PromptResponse { stop_reason })
}
