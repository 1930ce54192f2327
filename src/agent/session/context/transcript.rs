//! The conversation as the model is told it, folded from the events of the log.
//!
//! The transcript reads the log incrementally: it folds each event in once, however often the model is asked. Only a
//! rewind makes it fold the log anew.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use super::answer_schema::{self, instruction};
use super::compress::beginning::BEGINNING_MESSAGES;
use super::compress::record::WorkRecord;
use super::conversation::MessageHistory;
use super::known_instructions::KnownInstructions;
use super::rewind::RewoundParts;
use crate::session::events::event::{
    CallStarted, Caller, Compressed, Event, Masked, PromptFile, PromptPart, StopReason,
    ToolOutcome, TurnId, UnknownOutcome,
};
use crate::session::events::log::Reader;
use crate::session::persistence::recover::AFTER_PAUSE;
use tandem_approval::{Answer, Decision};
use tandem_host::Access;
use tandem_host::outputs::Outputs;
use tandem_model::{Assistant, Call, Message, Native, Part, ToolResult};

/// The conversation as folded from the log so far.
pub(crate) struct Transcript {
    log: Reader,
    outputs: Arc<Outputs>,
    /// The parts of the log that a rewind has taken out of the conversation. Only a few of their events are folded in.
    rewound: RewoundParts,
    /// Index of the event that is being folded in.
    index: usize,
    conversation: MessageHistory,
    record: WorkRecord,
    /// Number of the model's answers, including the answers that were forgotten or rewound.
    answers: usize,
    /// Ids of the model's calls since the model last forgot the conversation.
    known_calls: HashSet<String>,
    /// The system instruction, and the instructions that the model knows.
    instructions: KnownInstructions,
    /// Prompts of the turns that have not begun.
    queued: HashMap<TurnId, Vec<PromptPart>>,
    /// The turn that runs, and the position of its first message in the conversation.
    running: Option<(TurnId, usize)>,
    /// The user's message that is being put together. Until the model is asked, the content of mentioned files is
    /// added.
    user: Vec<Part>,
    /// The prompt with which the user's message begins; `None` once that message is complete.
    prompt: Option<Vec<Part>>,
    /// Indexes of the events with which the user's message, the answer, and the results of the calls begin.
    user_index: usize,
    answer_index: usize,
    calls_index: usize,
    /// Ids of the calls that read the files that the prompt mentions, or that run its command line.
    mentioned: Vec<String>,
    /// `true` if the prompt is a command line.
    shell: bool,
    /// Text that tells the model the schema of the answer, if the prompt asks for one.
    schema_instruction: Option<String>,
    /// Text so far of the answer that is being streamed.
    text: String,
    /// The message with the first part of the last answer that was cut off.
    cut_off: Option<Arc<Message>>,
    /// The calls of the last answer, each with its outcome; `None` until the call has ended.
    calls: Vec<(Call, Option<ToolOutcome>)>,
    /// Ids of the calls of the last answer that were allowed to run.
    begun: HashSet<String>,
    /// Ids of the calls of the last answer that ask the user questions.
    asking: HashSet<String>,
    /// Messages of the user on calls that they rejected, by the call's id.
    objections: HashMap<String, String>,
    /// Texts that the model is told after a call's result, by the call's id.
    told: HashMap<String, String>,
    /// Texts that the model is told with the next results of calls or with the next prompt, whichever comes first.
    next: Vec<String>,
    /// Lines for the model: the files that the user has restored since the last prompt, each with the call whose change
    /// the user has undone.
    restored: Vec<String>,
}

impl Transcript {
    pub(crate) fn new(log: Reader, outputs: Arc<Outputs>) -> Self {
        Self {
            log,
            outputs,
            rewound: RewoundParts::default(),
            index: 0,
            user_index: 0,
            answer_index: 0,
            calls_index: 0,
            conversation: MessageHistory::default(),
            record: WorkRecord::default(),
            answers: 0,
            known_calls: HashSet::new(),
            instructions: KnownInstructions::default(),
            queued: HashMap::new(),
            running: None,
            user: Vec::new(),
            prompt: None,
            mentioned: Vec::new(),
            shell: false,
            schema_instruction: None,
            text: String::new(),
            cut_off: None,
            calls: Vec::new(),
            begun: HashSet::new(),
            asking: HashSet::new(),
            objections: HashMap::new(),
            told: HashMap::new(),
            next: Vec::new(),
            restored: Vec::new(),
        }
    }

    /// Returns the complete messages, without the message that is being put together.
    pub(crate) fn conversation(&mut self) -> &MessageHistory {
        self.catch_up();
        &self.conversation
    }

    /// Returns `true` if a message is being put together.
    pub(crate) fn is_message_open(&mut self) -> bool {
        self.catch_up();
        !self.user.is_empty() || !self.text.is_empty() || !self.calls.is_empty()
    }

    /// Returns `true` if the model has not answered the last message, or has answered it only in part.
    pub(crate) fn is_unanswered(&mut self) -> bool {
        self.catch_up();
        let last = self.conversation.messages().last();
        last.is_some_and(|last| !matches!(**last, Message::Assistant(_))) || self.is_cut_off()
    }

    /// Returns `true` if the last message is the first part of an answer that was cut off.
    fn is_cut_off(&self) -> bool {
        let last = self.conversation.messages().last();
        last.zip(self.cut_off.as_ref()).is_some_and(|(last, cut_off)| Arc::ptr_eq(last, cut_off))
    }

    /// Returns the size of the prompt in tokens. `tools` returns the number of tokens of the tools. An answer that is
    /// still being streamed does not count.
    pub(crate) fn size(&mut self, tools: impl FnOnce() -> u64) -> u64 {
        self.catch_up();
        self.conversation.size(|| self.instructions.tokens() + tools())
    }

    /// Returns the files, todos and open calls of the conversation.
    pub(super) fn record(&mut self) -> &WorkRecord {
        self.catch_up();
        &self.record
    }

    /// Returns the number of the model's answers, including the answers that were forgotten or rewound.
    pub(crate) fn answers(&mut self) -> usize {
        self.catch_up();
        self.answers
    }

    /// Returns the system instruction, and the instructions that the model knows.
    pub(crate) fn instructions(&mut self) -> &KnownInstructions {
        self.catch_up();
        &self.instructions
    }

    /// Folds in all events that the log has now. Called after each chunk of an answer, so that no long backlog is
    /// left to fold when the model is asked next: folding holds the transcript's lock.
    pub(crate) fn catch_up(&mut self) {
        while let Some(entry) = self.log.try_next_run() {
            if matches!(*entry.event, Event::Rewound { .. }) && !self.rewound.covers(entry.index) {
                self.begin_anew();
                continue;
            }
            self.index = entry.index;
            if self.rewound.contains(entry.index) {
                self.fold_rewound(&entry.event);
            } else {
                self.record.fold(&entry.event);
                self.instructions.fold(&entry.event, entry.index);
                self.fold(&entry.event);
            }
        }
    }

    /// Begins again with the first event of the log, now without the rewound parts. All rewinds that the log has by now
    /// are found in one pass, so a log that was read from a store begins anew only once.
    fn begin_anew(&mut self) {
        let rewound = RewoundParts::from_log(&mut self.log.restarted());
        let anew = Self::new(self.log.restarted(), Arc::clone(&self.outputs));
        *self = Self { rewound, ..anew };
    }

    /// Folds in an event of a rewound part. A rewind does not change which prompts wait, how many answers there were,
    /// or which files are restored. If the session had a pause, the model must still be told, because files may have
    /// changed during the pause.
    fn fold_rewound(&mut self, event: &Event) {
        self.instructions.fold_rewound(event);
        match event {
            Event::TurnQueued { turn, prompt, .. } => {
                self.queued.insert(*turn, prompt.clone());
            }
            Event::TurnFinished { turn, .. } => _ = self.queued.remove(turn),
            Event::AnswerFinished { .. } => self.answers += 1,
            Event::FileRestored { call, path } => self.restored(call, path),
            Event::ToldNext(text) if text == AFTER_PAUSE && !self.next.contains(text) => {
                self.next.push(text.clone());
            }
            _ => {}
        }
    }

    fn fold(&mut self, event: &Event) {
        match event {
            Event::TurnQueued { turn, prompt, .. } => {
                self.queued.insert(*turn, prompt.clone());
            }
            Event::TurnStarted { turn } => self.turn_started(*turn),
            Event::TurnResumed { .. } => self.turn_resumed(),
            Event::CommandStarted { .. } => self.command_started(),
            Event::Asked(prompt) if prompt.is_empty() => self.ask_again(),
            Event::Asked(prompt) => {
                self.user.clone_from(prompt);
                // The prompt of a command takes the place of the user's words, and not of the schema.
                self.user.extend(self.schema_instruction.clone().map(Part::Text));
                self.user_index = self.index;
            }
            Event::Told { call, text } => self.tell(call.as_deref(), text),
            Event::ToldNext(text) => self.next.push(text.clone()),
            Event::MessageCompleted => self.flush(),
            Event::Compressed(short) => self.compress(short),
            Event::Masked(masked) => self.mask(masked),
            Event::Forgotten => self.forget(),
            Event::Text(more) => self.say(more),
            Event::Retry(retry) if retry.discard => self.text.clear(),
            Event::AnswerFinished { calls, native, usage, .. } => {
                self.answered(calls, native.clone());
                self.conversation.count(*usage);
            }
            Event::CallStarted(started) => self.call_started(started),
            Event::QuestionClosed { call, answer: Some((answer, _)) } => {
                self.question_closed(call, answer);
            }
            Event::CallFinished { call, outcome } => self.finished(call, outcome),
            Event::FileRestored { call, path } => self.restored(call, path),
            Event::TurnFinished { turn, reason } => self.turn_finished(*turn, reason),
            Event::SessionStarted(_)
            | Event::SystemPrompt(_)
            | Event::InstructionsTold(_)
            | Event::Thought(_)
            | Event::Retry(_)
            | Event::Notice(_)
            | Event::Output(_)
            | Event::CommandFailed(_)
            | Event::CommandReplied { .. }
            | Event::SessionRenamed { .. }
            | Event::ModelChanged { .. }
            | Event::ThinkingChanged { .. }
            | Event::ToolsLimited { .. }
            | Event::WorkspaceSaved(_)
            | Event::ModeChanged { .. }
            | Event::CallProgress { .. }
            | Event::FileChanged { .. }
            | Event::QuestionClosed { .. }
            | Event::AlwaysAllowed { .. }
            | Event::AlwaysRemoved { .. }
            | Event::Rewound { .. }
            | Event::Task(_)
            | Event::Unknown(_) => {}
        }
    }

    fn say(&mut self, more: &str) {
        if self.text.is_empty() {
            self.answer_index = self.index;
        }
        self.text.push_str(more);
    }

    fn turn_started(&mut self, turn: TurnId) {
        self.flush();
        self.running = Some((turn, self.conversation.messages().len()));
        let prompt = self.queued.remove(&turn).unwrap_or_default();
        self.shell = matches!(prompt[..], [PromptPart::Shell(_)]);
        self.schema_instruction = answer_schema::of_prompt(&prompt).map(instruction);
        self.user = user(&prompt, &self.outputs);
        self.prompt = Some(self.user.clone());
        self.user_index = self.index;
    }

    /// Drops the user's message: the model is not told the text of a slash command.
    fn command_started(&mut self) {
        self.user.clear();
        self.prompt = None;
    }

    /// Drops the part of an answer that was streamed before the process ended. If the user's message was not complete,
    /// it is the bare prompt again, because the files that the prompt mentions are read anew.
    fn turn_resumed(&mut self) {
        self.text.clear();
        if let Some(prompt) = &self.prompt {
            self.user.clone_from(prompt);
            self.mentioned.clear();
        }
    }

    fn call_started(&mut self, started: &CallStarted) {
        match started.caller {
            Caller::Prompt => self.mentioned.push(started.call.id.clone()),
            Caller::Model if matches!(started.access, Access::UserInput { .. }) => {
                self.asking.insert(started.call.id.clone());
            }
            Caller::Model if started.question.is_none() => {
                self.begun.insert(started.call.id.clone());
            }
            Caller::Model | Caller::Agent => {}
        }
    }

    fn question_closed(&mut self, call: &str, answer: &Answer) {
        match answer.decision() {
            Decision::Reject(Some(why)) => {
                self.objections.insert(call.to_owned(), why.to_owned());
            }
            decision if decision.runs() => {
                self.begun.insert(call.to_owned());
            }
            _ => {}
        }
    }

    fn answered(&mut self, calls: &[Call], native: Option<Native>) {
        self.answers += 1;
        self.flush_user();
        self.known_calls.extend(calls.iter().map(|call| call.id.clone()));
        if self.text.is_empty() {
            self.answer_index = self.index;
        }
        let text = mem::take(&mut self.text);
        let answer = Assistant { text, calls: calls.to_vec(), native };
        self.conversation.push(Message::Assistant(answer), self.answer_index);
        // The results get the index of their answer, so that a compression keeps or replaces the calls and their
        // results together.
        self.calls_index = self.answer_index;
        self.calls = calls.iter().map(|call| (call.clone(), None)).collect();
    }

    fn tell(&mut self, call: Option<&str>, text: &str) {
        match call {
            Some(id) if self.calls.iter().any(|(call, _)| call.id == id) => {
                self.told.entry(id.to_owned()).or_default().push_str(text);
            }
            // A text that belongs to no call of the last answer goes with the prompt.
            _ => self.add(Part::Text(text.to_owned())),
        }
    }

    /// Adds a part to the user's message.
    fn add(&mut self, part: Part) {
        if self.user.is_empty() {
            self.user_index = self.index;
        }
        self.user.push(part);
    }

    /// Notes that the user has undone the change of a call in a file. If the model does not know the call, it is not
    /// told of the undoing either.
    fn restored(&mut self, call: &str, path: &Path) {
        if self.known_calls.contains(call) {
            self.restored.push(format!("{} (your call {call})", path.display()));
        }
    }

    fn compress(&mut self, short: &Arc<Compressed>) {
        self.flush();
        let (before, now) = self.conversation.compress(short, &self.outputs);
        if let Some((_, begins)) = &mut self.running {
            // If the turn's first message is replaced, the prompt is repeated right after the new beginning.
            *begins = begins.checked_sub(before).map_or(BEGINNING_MESSAGES, |kept| now + kept);
        }
    }

    /// Removes the part of an answer that was cut off, because the model is asked for the whole answer again.
    fn ask_again(&mut self) {
        if !self.is_cut_off() {
            return;
        }
        let len = self.conversation.messages().len() - 1;
        self.conversation.truncate(len);
        if let Some((_, begins)) = &mut self.running {
            *begins = len.min(*begins);
        }
    }

    fn mask(&mut self, masked: &[Masked]) {
        self.flush();
        self.conversation.mask(masked);
    }

    /// Clears the conversation. Prompts of turns that have not begun stay.
    fn forget(&mut self) {
        self.flush();
        self.conversation.clear();
        self.restored.clear();
        self.known_calls.clear();
        self.next.clear();
        if let Some((_, begins)) = &mut self.running {
            *begins = 0;
        }
    }

    fn turn_finished(&mut self, turn: TurnId, reason: &StopReason) {
        // A turn that ended before it began has no message in the conversation.
        self.queued.remove(&turn);
        if let Some((_, begins)) = self.running.take_if(|(running, _)| *running == turn) {
            if *reason == StopReason::Interrupted {
                // After an interruption the model answers the prompt anew, so the half answer is dropped.
                self.text.clear();
            }
            self.flush();
            if matches!(reason, StopReason::Refused(_)) {
                self.conversation.truncate(begins);
            }
        }
    }

    fn finished(&mut self, id: &str, outcome: &ToolOutcome) {
        if let Some((_, came)) = self.calls.iter_mut().find(|(call, _)| call.id == id) {
            *came = Some(outcome.clone());
        } else if self.mentioned.iter().any(|mentioned| mentioned == id) {
            let (text, media) = match outcome {
                ToolOutcome::Done(output) => (output.text.as_str(), &output.media[..]),
                ToolOutcome::Failed(error) => (error.message.as_str(), &[][..]),
                ToolOutcome::Unknown(outcome) => (outcome.text().unwrap_or_default(), &[][..]),
                ToolOutcome::Rejected | ToolOutcome::Cancelled | ToolOutcome::Interrupted => return,
            };
            let heading = if self.shell { OUTPUT_HEADING } else { MENTIONED_HEADING };
            self.add(Part::Text(format!("{heading}{text}")));
            self.user.extend(media.iter().cloned().map(Part::Media));
        }
    }

    /// Completes the message that is being put together: the user's, the part of an answer, or the results of calls.
    fn flush(&mut self) {
        self.flush_user();
        if !self.text.is_empty() {
            let text = mem::take(&mut self.text);
            let answer = Assistant { text, ..Assistant::default() };
            self.conversation.push(Message::Assistant(answer), self.answer_index);
            self.cut_off = self.conversation.messages().last().map(Arc::clone);
        }
        if !self.calls.is_empty() {
            let calls = mem::take(&mut self.calls);
            let begun = mem::take(&mut self.begun);
            let asking = mem::take(&mut self.asking);
            let objections = mem::take(&mut self.objections);
            let mut told = mem::take(&mut self.told);
            let result = |(call, outcome): (Call, _)| {
                let begun = begun.contains(&call.id);
                let is_declined =
                    asking.contains(&call.id) && matches!(outcome, Some(ToolOutcome::Rejected));
                let mut result = result(call, outcome, begun);
                if is_declined {
                    DECLINED_RESULT.clone_into(&mut result.text);
                }
                if let Some(objection) = objections.get(&result.call) {
                    result.text.push_str(&format!(" They said: {objection}"));
                }
                result
            };
            let results: Vec<_> = calls.into_iter().map(result).collect();
            if let Some(last) = results.last()
                && !self.next.is_empty()
            {
                told.entry(last.call.clone()).or_default().extend(self.next.drain(..));
            }
            self.conversation.push_results(results, told, self.calls_index);
        }
    }

    fn flush_user(&mut self) {
        if !self.user.is_empty() {
            if !self.restored.is_empty() {
                let files = mem::take(&mut self.restored).join("\n");
                self.user.push(Part::Text(format!("{RESTORED_HEADING}{files}")));
            }
            self.user.extend(self.next.drain(..).map(Part::Text));
            self.conversation.push(Message::User(mem::take(&mut self.user)), self.user_index);
        }
        self.prompt = None;
        self.mentioned.clear();
    }
}

/// Returns the user's message: the words, with `@path` where a path is mentioned, the media at their places, and the
/// paths of attached files.
fn user(prompt: &[PromptPart], outputs: &Outputs) -> Vec<Part> {
    let mut parts = Vec::new();
    for part in prompt {
        let words = match part {
            PromptPart::Media(media) => {
                parts.push(Part::Media(media.clone()));
                continue;
            }
            PromptPart::File(file) => placed(file, outputs),
            PromptPart::AnswerSchema(schema) => instruction(schema),
            words => words.to_string(),
        };
        match parts.last_mut() {
            Some(Part::Text(text)) => text.push_str(&words),
            _ => parts.push(Part::Text(words)),
        }
    }
    parts
}

/// Returns the text that tells the model where an attached file is.
fn placed(PromptFile { title, name, bytes }: &PromptFile, outputs: &Outputs) -> String {
    let path = outputs.path(name);
    format!(
        "\n[The attached file {title} ({bytes} bytes) is {}, which read_file can read if it is a text. To work with it, \
         copy it into the workspace.]\n",
        path.display()
    )
}

/// Returns the result of a call for the model. A call without an outcome was interrupted when the agent's process
/// ended.
fn result(call: Call, outcome: Option<ToolOutcome>, begun: bool) -> ToolResult {
    let (text, failed, media) = match outcome {
        Some(ToolOutcome::Done(output)) => (output.text, false, output.media),
        Some(ToolOutcome::Failed(error)) => (error.message, true, Vec::new()),
        Some(ToolOutcome::Unknown(outcome)) => {
            (unknown_result(&outcome), !outcome.is_done(), Vec::new())
        }
        Some(ToolOutcome::Rejected) => (REJECTED_RESULT.to_owned(), true, Vec::new()),
        Some(ToolOutcome::Cancelled) if !begun => (NOT_BEGUN.to_owned(), true, Vec::new()),
        Some(ToolOutcome::Cancelled) => (CANCELLED_RESULT.to_owned(), true, Vec::new()),
        Some(ToolOutcome::Interrupted) | None if !begun => {
            (INTERRUPTED_BEFORE.to_owned(), true, Vec::new())
        }
        Some(ToolOutcome::Interrupted) | None => (INTERRUPTED_RESULT.to_owned(), true, Vec::new()),
    };
    ToolResult { call: call.id, name: call.name, text, failed, media }
}

/// Returns the result for the model of an outcome that another version of this program wrote.
fn unknown_result(outcome: &UnknownOutcome) -> String {
    let text = outcome.text().unwrap_or_default();
    if outcome.is_done() {
        return text.to_owned();
    }
    format!("{UNKNOWN_RESULT} Its name: {}\n{text}", outcome.kind()).trim_end().to_owned()
}

const MENTIONED_HEADING: &str = "\n\n--- Content from referenced files ---\n";
const OUTPUT_HEADING: &str = "\n\n--- I ran this myself; its output ---\n";
const RESTORED_HEADING: &str = "\n\n--- Since then I have taken back changes of yours ---\nThese files are as \
    they were before the calls named with them:\n";
const REJECTED_RESULT: &str = "The user did not allow this call. It was not run. Do not try it again in \
    another way: go on without it, or ask what they want instead.";
const DECLINED_RESULT: &str = "The user did not answer. Decide yourself, and say what you assumed.";
const NOT_BEGUN: &str = "The user cancelled the turn before this call began. It was not run.";
const CANCELLED_RESULT: &str = "The user cancelled the turn before this call ended. It may have had part \
    of its effect.";
const INTERRUPTED_BEFORE: &str = "The agent was stopped before this call began. It was not run.";
const INTERRUPTED_RESULT: &str = "The agent was stopped before this call ended. It may have had part of its \
    effect: look before doing it again.";
const UNKNOWN_RESULT: &str = "The call ended in a way that this version of the agent does not know. It may have \
    had part of its effect: look before doing it again.";
