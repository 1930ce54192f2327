//! Conversion of a chat to the events that a session of tandem would have, had the conversation been held there.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tandem_agent::session::{
    Access, Batch, BatchSummary, CallStarted, Caller, Event, FileDiff, Millis, Origin, PromptPart,
    PromptTags, ResultContent, SessionStarted, StopReason, Summary, Todo, ToolKind, ToolOutcome,
    ToolOutput, TurnId, Usage,
};
use tandem_host::ToolError;
use tandem_model::{Call, FinishReason};

use super::chat::{Chat, Message};
use super::pieces::{self, Piece, ResultPiece};

/// Beginnings of messages that Gemini CLI itself writes in the user's name, and that are no prompts.
const OWN_BEGINNINGS: [&str; 3] = [
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
];

/// Maximum number of events in one batch.
const MAX_BATCH_EVENTS: usize = 256;

/// Maximum number of characters of a title or a label.
const LONGEST_LINE: usize = 200;

/// Text that the model is given with the next prompt.
const IMPORT_NOTE: &str = "\n\n[The conversation so far was held in another program, Gemini CLI. Its tools may \
    have had other names and arguments than yours: use those that you have now. Files may have changed \
    since.]";

/// A prompt of a chat.
pub(crate) struct ChatPrompt {
    /// Words that the user typed.
    pub(crate) words: String,
    /// Text that went to the model with the words, such as contents of files.
    attached: String,
    /// Media types of parts that are not taken over.
    left: Vec<String>,
}

/// Returns the first line of a text, without control characters, cut at [`LONGEST_LINE`].
pub(crate) fn line_of(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(LONGEST_LINE).collect()
}

/// Parses a time in the form of RFC 3339.
pub(crate) fn millis(time: &str) -> Option<Millis> {
    time.parse().ok().map(|time: jiff::Timestamp| time.as_millisecond())
}

/// Returns the prompts of a chat, each with the index of its message.
pub(crate) fn prompts(chat: &Chat<'_>) -> impl Iterator<Item = (usize, ChatPrompt)> {
    let users = chat.messages.iter().enumerate().filter(|(_, message)| message.kind == "user");
    users.filter_map(|(at, message)| {
        let prompt = prompt(message)?;
        // A command of Gemini CLI begins with `/` or `?` and goes to no model, so no answer follows it. A prompt that
        // begins with a path has an answer.
        let is_answered = || {
            let mut later = chat.messages[at + 1..].iter().map(|later| later.kind.as_str());
            later.find(|kind| matches!(*kind, "user" | "gemini")) == Some("gemini")
        };
        (!prompt.words.trim_start().starts_with(['/', '?']) || is_answered())
            .then_some((at, prompt))
    })
}

fn prompt(message: &Message<'_>) -> Option<ChatPrompt> {
    let content = pieces::of_raw(message.content);
    let mut texts = Vec::new();
    let mut left = Vec::new();
    for piece in content {
        match piece {
            Piece::Text(text) => texts.push(text),
            Piece::Left(name) => {
                texts.push(placeholder(&name));
                left.push(name);
            }
            // A message with results is no prompt: `collect_results` gives the results to their calls.
            Piece::Result(_) => return None,
            Piece::Thought(_) | Piece::Call(_) => {}
        }
    }
    let whole = texts.concat();
    if whole.trim().is_empty()
        || OWN_BEGINNINGS.iter().any(|own| whole.trim_start().starts_with(own))
    {
        return None;
    }
    let typed = pieces::text(&pieces::of_raw(message.display_content));
    let words = if typed.trim().is_empty() { words_of(texts.swap_remove(0)) } else { typed };
    let attached = whole.strip_prefix(words.as_str()).map(ToOwned::to_owned);
    let attached = attached.unwrap_or_else(|| format!("\n\n{whole}"));
    Some(ChatPrompt { words, attached, left })
}

/// Cuts off the contents of the files that the user's words mention. Older versions have them in the same text.
fn words_of(mut text: String) -> String {
    if let Some(at) = text.find("\n--- Content from referenced files ---") {
        text.truncate(at);
    }
    text
}

fn placeholder(name: &str) -> String {
    format!("[Something of the type {name} was here. It is not part of the conversation any more.]")
}

/// Returns the title that Gemini CLI has given the chat.
pub(crate) fn summary(chat: &Chat<'_>) -> Option<String> {
    chat.fields.summary.as_deref().map(line_of).filter(|title| !title.trim().is_empty())
}

/// Converts a chat to the events of a session, each with its time. Hands them to `send` in batches, so that a long chat
/// is not in memory twice, and stops when `send` returns `false`. The last batch has the summary.
pub(crate) fn events(
    chat: &Chat<'_>,
    started: SessionStarted,
    created: Millis,
    summary_at_end: BatchSummary,
    send: &mut dyn FnMut(Batch) -> bool,
) {
    let mut writing = Writing::new(started.directory.clone(), created, send);
    writing.add(Event::SessionStarted(Arc::new(started)));
    if let Some(title) = summary(chat) {
        writing.add(Event::SessionRenamed { title, by_model: true });
    }
    // Results may stand in later messages than their calls, so all of them are collected before calls are written.
    for message in &chat.messages {
        writing.collect_results(message);
    }
    let mut prompts = prompts(chat).peekable();
    for (at, message) in chat.messages.iter().enumerate() {
        if writing.stopped {
            return;
        }
        let prompt = prompts.next_if(|(prompt_at, _)| *prompt_at == at);
        if prompt.is_some() {
            writing.end_turn();
        }
        let time = pieces::value(message.timestamp);
        writing.at = time.and_then(|time| millis(time.as_str()?)).unwrap_or(writing.at);
        match prompt {
            Some((_, prompt)) => writing.prompt(prompt),
            None => writing.message(message),
        }
    }
    writing.end(chat.damaged, summary_at_end);
}

/// State of the conversion of a chat.
struct Writing<'a> {
    directory: std::path::PathBuf,
    /// Events that were written and not yet sent.
    batch: Batch,
    send: &'a mut dyn FnMut(Batch) -> bool,
    /// `true` if the caller wants no further events.
    stopped: bool,
    at: Millis,
    turns: u64,
    calls: usize,
    /// `true` if a prompt or results of calls were written, and no answer to them yet.
    telling: bool,
    /// `true` if text of an answer was written, and the end of the answer not yet.
    answering: bool,
    usage: Usage,
    /// Reason for the end of the turn, if the turn ends without an answer.
    cut_off: StopReason,
    /// Results that are in other messages than their calls, by the id or else the name of the call.
    results: HashMap<String, VecDeque<ResultPiece>>,
    /// Name of the model that answered last.
    model: Option<String>,
    /// Number of parts that are not taken over, by media type. The notice at the end lists them.
    left: BTreeMap<String, usize>,
}

impl<'a> Writing<'a> {
    fn new(
        directory: std::path::PathBuf,
        at: Millis,
        send: &'a mut dyn FnMut(Batch) -> bool,
    ) -> Self {
        Self {
            directory,
            batch: Batch::default(),
            send,
            stopped: false,
            at,
            turns: 0,
            calls: 0,
            telling: false,
            answering: false,
            usage: Usage::default(),
            cut_off: StopReason::Interrupted,
            results: HashMap::new(),
            model: None,
            left: BTreeMap::new(),
        }
    }

    fn add(&mut self, event: Event) {
        // A full batch waits until another event comes: it may be the session's last batch, which is sent together with
        // the session's summary.
        if self.batch.events.len() >= MAX_BATCH_EVENTS {
            self.send_batch();
        }
        self.batch.events.push((self.at, Arc::new(event)));
    }

    fn send_batch(&mut self) {
        let next = Batch { first: self.batch.end(), ..Batch::default() };
        let sent = (self.send)(std::mem::replace(&mut self.batch, next));
        self.stopped |= !sent;
    }

    fn leave(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            *self.left.entry(name).or_default() += 1;
        }
    }

    fn collect_results(&mut self, message: &Message<'_>) {
        if message.kind != "user" {
            return;
        }
        for piece in pieces::of_raw(message.content) {
            if let Piece::Result(result) = piece {
                self.results.entry(result.id.clone()).or_default().push_back(result);
            }
        }
    }

    fn prompt(&mut self, prompt: ChatPrompt) {
        self.turns += 1;
        let turn = TurnId(self.turns);
        self.add(Event::TurnQueued {
            turn,
            prompt: vec![PromptPart::Text(prompt.words)],
            origin: Origin::Terminal,
            tags: PromptTags::default(),
        });
        self.add(Event::TurnStarted { turn });
        if !prompt.attached.is_empty() {
            self.add(Event::Told { call: None, text: prompt.attached });
        }
        self.leave(prompt.left);
        self.cut_off = StopReason::Interrupted;
        self.telling = true;
    }

    fn message(&mut self, message: &Message<'_>) {
        match message.kind.as_str() {
            // An answer before the first prompt belongs to Gemini CLI's own introduction.
            "gemini" if self.turns > 0 => self.answer(message),
            "info" | "warning" | "error" => {
                let content = pieces::of_raw(message.content);
                let text = pieces::text(&content);
                if !text.trim().is_empty() {
                    self.add(Event::Notice(text));
                }
                self.leave(content.into_iter().filter_map(skipped_name));
            }
            _ => {}
        }
    }

    fn answer(&mut self, message: &Message<'_>) {
        if std::mem::take(&mut self.telling) {
            self.add(Event::MessageCompleted);
        }
        let content = pieces::of_raw(message.content);
        let thoughts = pieces::value(message.thoughts);
        for thought in thoughts.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let (subject, more) = (&thought["subject"], &thought["description"]);
            let (subject, more) = (subject.as_str().unwrap_or(""), more.as_str().unwrap_or(""));
            self.add(Event::Thought(format!("**{subject}**\n{more}\n\n")));
        }
        let text = pieces::text(&content);
        if !text.trim().is_empty() {
            // Gemini CLI may write one answer as two messages.
            let gap = if self.answering { "\n\n" } else { "" };
            self.add(Event::Text(format!("{gap}{text}")));
            self.answering = true;
        }
        self.usage =
            pieces::value(message.tokens).and_then(|tokens| usage(&tokens)).unwrap_or(self.usage);
        if let Some(Value::String(model)) = pieces::value(message.model) {
            self.model = Some(model);
        }
        let recorded = pieces::value(message.tool_calls);
        let recorded =
            recorded.as_ref().and_then(Value::as_array).filter(|calls| !calls.is_empty());
        let calls: Vec<_> = match recorded {
            Some(calls) => calls.clone(),
            None => content.iter().filter_map(call).collect(),
        };
        if !calls.is_empty() {
            self.write_calls(&calls);
        }
        self.leave(content.into_iter().filter_map(skipped_name));
    }

    fn write_calls(&mut self, recorded: &[Value]) {
        let started: Vec<_> = recorded.iter().map(|call| self.started(call)).collect();
        self.finish_answer(started.iter().map(|started| started.call.clone()).collect());
        self.cut_off = StopReason::Interrupted;
        for (started, recorded) in started.into_iter().zip(recorded) {
            let (id, kind) = (started.call.id.clone(), started.kind);
            self.add(Event::CallStarted(Arc::new(started)));
            let outcome = self.outcome(recorded, kind);
            if outcome == ToolOutcome::Cancelled {
                self.cut_off = StopReason::Cancelled { answering: false };
            }
            self.add(Event::CallFinished { call: id, outcome });
        }
        self.telling = true;
    }

    fn started(&mut self, recorded: &Value) -> CallStarted {
        self.calls += 1;
        let name = match recorded["name"].as_str() {
            // Gemini CLI before 0.28 has this name for the tool.
            Some("search_file_content") => "grep_search",
            name => name.unwrap_or("unknown"),
        };
        let args = match &recorded["args"] {
            args @ Value::Object(_) => args.clone(),
            _ => json!({}),
        };
        let kind = kind(name);
        let title = line_of(recorded["displayName"].as_str().unwrap_or(name));
        let label = match (verb(name), self.object(&args)) {
            (Some(verb), Some(object)) => format!("{verb} {object}"),
            (None, Some(object)) => format!("Call {title}: {object}"),
            (_, None) => format!("Call {title}"),
        };
        let mut summary = Summary::new(label);
        let mut access = Access::Nothing;
        if let (ToolKind::Read | ToolKind::Edit, Some(path)) = (kind, path(&args)) {
            let path = self.directory.join(path);
            summary = summary.at(&path, None);
            if kind == ToolKind::Edit {
                access = Access::edit(path);
            }
        }
        // The ids in the chat are not used: they need not be unique, and may be of any length.
        let id = format!("gemini-cli-{}", self.calls);
        let call = Call { id, name: name.to_owned(), args };
        CallStarted { call, caller: Caller::Model, kind, summary, access, question: None }
    }

    /// Returns the object of a call for its label, in one line: a command, a pattern, a URL, a path or the like.
    fn object(&self, args: &Value) -> Option<String> {
        let first = ["command", "pattern", "query", "url", "prompt", "dir_path"];
        let about = first.iter().find_map(|key| args[key].as_str()).or_else(|| path(args))?;
        let below = Path::new(about).strip_prefix(&self.directory).ok().and_then(Path::to_str);
        Some(line_of(below.unwrap_or(about))).filter(|label| !label.trim().is_empty())
    }

    fn outcome(&mut self, recorded: &Value, kind: ToolKind) -> ToolOutcome {
        let id = pieces::call_id(recorded);
        let result = match &recorded["result"] {
            Value::String(text) => {
                Some(ResultPiece { text: text.clone(), ..ResultPiece::default() })
            }
            Value::Null => self.results.get_mut(id).and_then(VecDeque::pop_front),
            content => Some(joined(pieces::of_value(content), id)),
        };
        let failed = result.as_ref().is_some_and(|result| result.failed);
        let is_there = result.is_some();
        let ResultPiece { text, left, .. } = result.unwrap_or_default();
        let text = left.iter().fold(text, |text, name| text + &placeholder(name));
        self.leave(left);
        match recorded["status"].as_str() {
            Some("cancelled") => ToolOutcome::Cancelled,
            Some("error") => ToolOutcome::Failed(ToolError::new("failed", text)),
            Some("success") => ToolOutcome::Done(output(text, recorded, kind)),
            _ if failed => ToolOutcome::Failed(ToolError::new("failed", text)),
            _ if is_there => ToolOutcome::Done(output(text, recorded, kind)),
            _ => ToolOutcome::Interrupted,
        }
    }

    fn finish_answer(&mut self, calls: Vec<Call>) {
        let usage = std::mem::take(&mut self.usage);
        self.answering = false;
        self.add(Event::AnswerFinished { calls, reason: FinishReason::Stop, usage, native: None });
    }

    fn end_turn(&mut self) {
        if self.turns == 0 {
            return;
        }
        let reason = if self.answering {
            self.finish_answer(Vec::new());
            StopReason::EndTurn
        } else {
            self.cut_off.clone()
        };
        self.add(Event::TurnFinished { turn: TurnId(self.turns), reason });
    }

    fn end(mut self, damaged: usize, summary: BatchSummary) {
        self.end_turn();
        let model = self.model.as_deref().map(line_of).filter(|model| !model.contains('`'));
        let model = model.map(|model| format!(", where `{model}` answered")).unwrap_or_default();
        let mut notice = format!(
            "This conversation was begun in Gemini CLI{model}. Its file in Gemini CLI stays as it is; changes \
             that calls made in Gemini CLI cannot be undone here."
        );
        if !self.left.is_empty() {
            let left: Vec<_> = self.left.iter().map(|(name, n)| format!("{n} × {name}")).collect();
            notice.push_str(&format!(" Not imported: {}.", left.join(", ")));
        }
        if damaged > 0 {
            notice.push_str(&format!(" Parts of the file that cannot be read: {damaged}."));
        }
        self.add(Event::Notice(notice));
        self.add(Event::ToldNext(IMPORT_NOTE.to_owned()));
        self.batch.summary = Some(summary);
        self.send_batch();
    }
}

/// Returns the name of a piece that is not taken over; `None` for another piece.
fn skipped_name(piece: Piece) -> Option<String> {
    match piece {
        Piece::Left(name) => Some(name),
        _ => None,
    }
}

fn call(piece: &Piece) -> Option<Value> {
    match piece {
        Piece::Call(call) => Some(call.clone()),
        _ => None,
    }
}

/// Joins the pieces of the result of the call `id`. If a result in `content` has that id, results of other calls are
/// left out; if none has, all results and texts are joined.
fn joined(content: Vec<Piece>, id: &str) -> ResultPiece {
    let is_own = |piece: &Piece| matches!(piece, Piece::Result(result) if result.id == id);
    let has_own = content.iter().any(is_own);
    let mut whole = ResultPiece::default();
    for piece in content {
        match piece {
            Piece::Result(result) if !has_own || result.id == id => {
                whole.text.push_str(&result.text);
                whole.failed |= result.failed;
                whole.left.extend(result.left);
            }
            Piece::Text(text) if !has_own => whole.text.push_str(&text),
            Piece::Left(name) => whole.left.push(name),
            _ => {}
        }
    }
    whole
}

fn usage(tokens: &Value) -> Option<Usage> {
    let number = |name: &str| tokens[name].as_u64().unwrap_or(0);
    tokens.is_object().then(|| Usage {
        input: number("input"),
        cached: number("cached"),
        written: 0,
        output: number("output"),
        thoughts: number("thoughts"),
    })
}

fn kind(tool: &str) -> ToolKind {
    match tool {
        "read_file" | "read_many_files" => ToolKind::Read,
        "list_directory" => ToolKind::List,
        "glob" => ToolKind::Find,
        "grep_search" => ToolKind::Search,
        "write_file" | "replace" => ToolKind::Edit,
        "run_shell_command" => ToolKind::Execute,
        "web_fetch" | "google_web_search" => ToolKind::Fetch,
        "write_todos" | "save_memory" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

/// Returns the verb in the title of a built-in tool's call.
fn verb(tool: &str) -> Option<&'static str> {
    Some(match tool {
        "read_file" | "read_many_files" | "web_fetch" => "Read",
        "list_directory" => "List",
        "glob" => "Find",
        "grep_search" => "Search for",
        "google_web_search" => "Search the web:",
        "write_file" => "Write",
        "replace" => "Edit",
        "run_shell_command" => "Run",
        _ => return None,
    })
}

/// Returns the path that a call is about. Older tools have other names for the argument.
fn path(args: &Value) -> Option<&str> {
    ["file_path", "absolute_path", "path"].iter().find_map(|key| args[key].as_str())
}

fn output(text: String, recorded: &Value, kind: ToolKind) -> ToolOutput {
    let shown =
        result_content(&recorded["resultDisplay"], recorded["renderOutputAsMarkdown"] == true);
    // Text that a call has read is for the model. People are shown the call's label alone.
    let shown = shown.or_else(|| (!kind.only_reads()).then(|| ResultContent::Output(text.clone())));
    ToolOutput { text, media: Vec::new(), shown }
}

/// Returns a result in the form in which people were shown it.
fn result_content(display: &Value, is_markdown: bool) -> Option<ResultContent> {
    if let Some(text) = display.as_str().filter(|text| !text.trim().is_empty()) {
        let text = text.to_owned();
        return Some(if is_markdown {
            ResultContent::Markdown(text)
        } else {
            ResultContent::Output(text)
        });
    }
    if let Ok(todos) = serde_json::from_value::<Vec<Todo>>(display["todos"].clone()) {
        return Some(ResultContent::Todos(todos));
    }
    if let (Some(path), Some(new)) = (display["filePath"].as_str(), display["newContent"].as_str())
    {
        let old = display["originalContent"].as_str().map(Arc::from);
        return Some(ResultContent::Diff(Box::new(FileDiff::new(path, old, new))));
    }
    if let Some(diff) = display["fileDiff"].as_str() {
        return Some(ResultContent::Output(diff.to_owned()));
    }
    // The display is a list of a terminal's rows, each a list of pieces with their colours.
    let rows = display.as_array()?.iter().map(|row| {
        let pieces = row.as_array().into_iter().flatten();
        pieces.filter_map(|piece| piece["text"].as_str()).collect::<String>()
    });
    Some(ResultContent::Output(rows.collect::<Vec<_>>().join("\n")))
}

/// Returns the first event of a session that continues a chat. It names no model, because the user may have no key for
/// the chat's model.
pub(crate) fn started(id: &str, directory: &Path) -> SessionStarted {
    SessionStarted {
        version: tandem_agent::session::FORMAT_VERSION,
        id: id.to_owned(),
        directory: directory.to_owned(),
        roots: Vec::new(),
        model: String::new(),
        mode: tandem_agent::session::Mode::Default,
        by: WRITER_NAME.to_owned(),
    }
}

/// Name and version of the program that writes the events.
pub(crate) const WRITER_NAME: &str = concat!("tandem ", env!("CARGO_PKG_VERSION"));
