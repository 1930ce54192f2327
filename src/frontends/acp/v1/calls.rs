//! Tool calls, as editors are shown them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::client::SessionClient;
use crate::content::{CallContent, because, description, live, outcome, proposal};
use tandem_agent::session::{
    Access, CallStarted, CallStatus, Question, ResultContent, Todo, TodoStatus, ToolKind,
    ToolOutcome, explain_unknown_outcome,
};
use tandem_content::fence::fence;
use tandem_content::media::Media;
use tandem_content::visible::{visible_line, visible_prose};
use tandem_wire::acp::v1::{
    self, PlanEntry, PlanEntryStatus, ResultBlock, SessionUpdate, TerminalMeta, ToolCall,
    ToolCallContent, ToolCallLocation, ToolCallStatus,
};

/// Minimum time between two pieces of a call's output, which takes the place of the one before.
const EVERY: Duration = Duration::from_millis(300);

/// Bytes of the end of what a terminal shows by which its continuation is found.
const ANCHOR: usize = 256;

/// The calls that have not ended.
pub(super) struct Calls {
    client: Arc<SessionClient>,
    /// `true` if the editor shows terminals that the agent writes to.
    has_terminals: bool,
    /// `true` while what has happened before is shown: a call as it ended, at once.
    pub(super) replays: bool,
    open: HashMap<String, OpenCall>,
}

/// A call that has not ended.
#[derive(Default)]
struct OpenCall {
    /// `true` if a terminal shows the output.
    terminal: bool,
    /// Output that is shown.
    shown: String,
    /// Time at which output may be shown again.
    next: Option<Instant>,
    /// Output that is to be shown then.
    waiting: Option<String>,
}

impl Calls {
    pub(super) fn new(client: Arc<SessionClient>, has_terminals: bool) -> Self {
        Self { client, has_terminals, replays: false, open: HashMap::new() }
    }

    /// Shows a call that begins: it waits for an answer, or runs. Returns `false` if it is shown
    /// already.
    pub(super) fn start(&mut self, started: &CallStarted, waits: bool) -> bool {
        let id = &started.call.id;
        if self.open.contains_key(id) {
            return false;
        }
        let is_command = matches!(started.access, Access::Execute { .. });
        let open = OpenCall { terminal: is_command && self.has_terminals, ..OpenCall::default() };
        let call = if waits {
            whole(started, ToolCallStatus::Pending)
        } else {
            in_terminal(started, &open, whole(started, ToolCallStatus::InProgress))
        };
        self.client.terminals.start(id, |terminal| {
            let mut call: ToolCall<'_> = call;
            if let Some(terminal_id) = terminal {
                call.content = Some(vec![ToolCallContent::Terminal { terminal_id }]);
            }
            self.client.update(SessionUpdate::ToolCall(call));
        });
        self.open.insert(id.clone(), open);
        true
    }

    /// Shows that a call runs that had to be asked about.
    pub(super) fn runs(&self, started: &CallStarted) {
        let id = &started.call.id;
        if let Some(open) = self.open.get(id) {
            let status = Some(ToolCallStatus::InProgress);
            let call = ToolCall { tool_call_id: id, status, ..ToolCall::default() };
            // While the user was asked, the call showed the question. If the call has a terminal, `in_terminal`
            // replaces the question by the terminal.
            let call = in_terminal(started, open, call);
            self.client.update(SessionUpdate::ToolCallUpdate(call));
        }
    }

    /// Shows what a running call has put out so far, now or soon.
    pub(super) fn progress(&mut self, id: &str, output: &str) {
        let Some(open) = self.open.get_mut(id) else { return };
        if self.client.terminals.contains(id) {
            return;
        }
        let now = Instant::now();
        if open.next.is_some_and(|next| next > now) {
            open.waiting = Some(output.to_owned());
            return;
        }
        open.next = Some(now + EVERY);
        open.waiting = None;
        show_output(&self.client, id, open, output);
    }

    /// Waits until there is output to show that had to wait.
    pub(super) async fn due(&self) {
        let waiting = self.open.values().filter(|open| open.waiting.is_some());
        match waiting.filter_map(|open| open.next).min() {
            Some(next) => sleep_until(next).await,
            None => pending().await,
        }
    }

    /// Shows output that had to wait.
    pub(super) fn show_due(&mut self) {
        let now = Instant::now();
        for (id, open) in &mut self.open {
            if open.next.is_some_and(|next| next <= now)
                && let Some(output) = open.waiting.take()
            {
                open.next = Some(now + EVERY);
                show_output(&self.client, id, open, &output);
            }
        }
    }

    /// Shows the end of a call.
    pub(super) fn finish(&mut self, started: &CallStarted, end: &ToolOutcome) {
        let id = &started.call.id;
        let terminal = self.client.terminals.finish(id);
        let status = match CallStatus::of_outcome(end) {
            CallStatus::Succeeded => ToolCallStatus::Completed,
            _ => ToolCallStatus::Failed,
        };
        let read = text_read(started, end);
        let ended = result(started, end, read.as_deref());
        let Some(mut open) = self.open.remove(id) else {
            if self.replays {
                let call = ToolCall { content: ended, raw_output: read, ..whole(started, status) };
                self.client.update(SessionUpdate::ToolCall(call));
            }
            return;
        };
        let status = Some(status);
        let mut call = ToolCall { tool_call_id: id, status, ..ToolCall::default() };
        if open.terminal {
            if let Some(output) = last_output(end) {
                show_output(&self.client, id, &mut open, &output);
            }
            let exit_code = exit_code(end);
            call.meta =
                Some(TerminalMeta::TerminalExit { terminal_id: id, exit_code, signal: None });
        } else if let Some(terminal_id) = &terminal {
            // It shows what the command has written, and the command's end.
            let ended = ended.filter(|_| !is_output(end)).into_iter().flatten();
            let terminal = ToolCallContent::Terminal { terminal_id };
            call.content = Some([terminal].into_iter().chain(ended).collect());
            call.raw_output =
                last_output(end).map(|output| visible_prose(&output).into_owned().into());
        } else {
            (call.content, call.raw_output) = (ended, read);
        }
        self.client.update(SessionUpdate::ToolCallUpdate(call));
    }
}

/// Returns the content of a call that has ended. Of a call that reads the workspace, the content is all text and all
/// images that the model gets; `read`: that text.
fn result<'a>(
    started: &CallStarted,
    end: &'a ToolOutcome,
    read: Option<&str>,
) -> Option<Vec<ToolCallContent<'a>>> {
    let shown = outcome(end).map(content);
    let media = media_read(started, end);
    // The text beside attached media only names them.
    let read = read.filter(|_| media.is_empty()).map(|read| text(fence(read, "")));
    let images = media.iter().filter(|media| media.kind() == "image");
    let images = images.map(|Media { mime_type, data }| ToolCallContent::Content {
        content: ResultBlock::Image { data, mime_type },
    });
    let content: Vec<_> = shown.into_iter().chain(read).chain(images).collect();
    Some(content).filter(|content| !content.is_empty())
}

/// Returns the text that a call which looks at the workspace has given to the model.
fn text_read<'a>(started: &CallStarted, end: &'a ToolOutcome) -> Option<Cow<'a, str>> {
    let ToolOutcome::Done(output) = end else { return None };
    started.kind.only_reads().then(|| visible_prose(&output.text))
}

/// Returns the images, audio and other media that a call which looks at the workspace has given to the model.
fn media_read<'a>(started: &CallStarted, end: &'a ToolOutcome) -> &'a [Media] {
    match end {
        ToolOutcome::Done(output) if started.kind.only_reads() => &output.media,
        _ => &[],
    }
}

/// Returns a call as it is asked about.
pub(super) fn asked<'a>(started: &'a CallStarted, question: &'a Question) -> ToolCall<'a> {
    let shown = [proposal(started, question), description(started)];
    let why = text(because(question));
    let content = shown.into_iter().flatten().map(content).chain([why]).collect();
    ToolCall { content: Some(content), ..whole(started, ToolCallStatus::Pending) }
}

/// Shows what a call has put out so far: in its terminal what is new of that, or else all of it.
fn show_output(client: &SessionClient, id: &str, open: &mut OpenCall, output: &str) {
    let mut call = ToolCall { tool_call_id: id, ..ToolCall::default() };
    if open.terminal {
        let new = continuation(&open.shown, output);
        if new.is_empty() {
            return;
        }
        let data = visible_prose(new);
        call.meta = Some(TerminalMeta::TerminalOutput { terminal_id: id, data });
    } else {
        call.content = Some(vec![content(live(output))]);
    }
    client.update(SessionUpdate::ToolCallUpdate(call));
    output.clone_into(&mut open.shown);
}

/// Returns what follows in an output after what is shown of it. Of a long output, only the end is
/// known.
fn continuation<'a>(shown: &str, output: &'a str) -> &'a str {
    if let Some(new) = output.strip_prefix(shown) {
        return new;
    }
    let anchor = &shown[shown.ceil_char_boundary(shown.len().saturating_sub(ANCHOR))..];
    match output.rfind(anchor) {
        Some(at) => &output[at + anchor.len()..],
        None => output,
    }
}

/// Returns the output that a command has ended with.
fn last_output(end: &ToolOutcome) -> Option<String> {
    let shown = match end {
        ToolOutcome::Done(output) => output.shown.as_ref(),
        ToolOutcome::Failed(error) => match &error.shown {
            Some(shown) => Some(shown),
            None => return Some(error.message.clone()),
        },
        ToolOutcome::Unknown(outcome) => return Some(explain_unknown_outcome(outcome)),
        ToolOutcome::Rejected | ToolOutcome::Cancelled | ToolOutcome::Interrupted => None,
    };
    match shown {
        Some(ResultContent::Output(text) | ResultContent::Markdown(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Returns whether people are shown of a call what a command has written, and nothing else.
fn is_output(end: &ToolOutcome) -> bool {
    match end {
        ToolOutcome::Done(_) => true,
        ToolOutcome::Failed(error) => error.shown.is_some(),
        ToolOutcome::Rejected
        | ToolOutcome::Cancelled
        | ToolOutcome::Interrupted
        | ToolOutcome::Unknown(_) => false,
    }
}

/// Returns the exit code of a command that has ended, if it has one.
fn exit_code(end: &ToolOutcome) -> Option<i32> {
    match end {
        ToolOutcome::Done(_) => Some(0),
        ToolOutcome::Failed(error) => {
            let code = error.message.rsplit_once("\nExit Code: ")?.1;
            code.lines().next()?.parse().ok()
        }
        ToolOutcome::Rejected
        | ToolOutcome::Cancelled
        | ToolOutcome::Interrupted
        | ToolOutcome::Unknown(_) => None,
    }
}

/// Returns a call that begins to run, with its terminal if it has one.
fn in_terminal<'a>(
    started: &'a CallStarted,
    open: &OpenCall,
    mut call: ToolCall<'a>,
) -> ToolCall<'a> {
    if let Access::Execute { directory: cwd, .. } = &started.access
        && open.terminal
    {
        let terminal_id = &started.call.id;
        call.content = Some(vec![ToolCallContent::Terminal { terminal_id }]);
        call.meta = Some(TerminalMeta::TerminalInfo { terminal_id, cwd });
    }
    call
}

/// Returns a call with all that is known of it when it begins.
fn whole(started: &CallStarted, status: ToolCallStatus) -> ToolCall<'_> {
    let diff = started.summary.diff.as_ref().map(|change| vec![content(change.into())]);
    let locations = started.summary.locations.iter();
    let locations = locations.map(|it| ToolCallLocation { path: &it.path, line: it.line });
    ToolCall {
        tool_call_id: &started.call.id,
        title: Some(visible_line(&started.summary.label)),
        name: Some(&started.call.name),
        kind: Some(kind(started.kind)),
        status: Some(status),
        content: diff,
        locations: Some(locations.collect()),
        raw_input: Some(&started.call.args),
        raw_output: None,
        meta: None,
    }
}

fn kind(kind: ToolKind) -> v1::ToolKind {
    match kind {
        ToolKind::Read | ToolKind::List => v1::ToolKind::Read,
        ToolKind::Find | ToolKind::Search => v1::ToolKind::Search,
        ToolKind::Edit => v1::ToolKind::Edit,
        ToolKind::Execute => v1::ToolKind::Execute,
        ToolKind::Fetch => v1::ToolKind::Fetch,
        ToolKind::Think => v1::ToolKind::Think,
        ToolKind::Other => v1::ToolKind::Other,
    }
}

fn content(content: CallContent<'_>) -> ToolCallContent<'_> {
    match content {
        CallContent::Markdown(text) => {
            ToolCallContent::Content { content: ResultBlock::Text { text } }
        }
        CallContent::Diff { path, old, new } => {
            ToolCallContent::Diff { path, old_text: old, new_text: new }
        }
    }
}

fn text<'a>(text: String) -> ToolCallContent<'a> {
    ToolCallContent::Content { content: ResultBlock::Text { text: text.into() } }
}

/// Returns the todo list as a plan, which has fewer states: cancelled todos are left out.
pub(super) fn plan(todos: &[Todo]) -> Vec<PlanEntry<'_>> {
    let entries = todos.iter().filter(|todo| todo.status != TodoStatus::Cancelled);
    let entries = entries.map(|todo| PlanEntry {
        content: visible_prose(&todo.description),
        priority: "medium",
        status: match todo.status {
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
            TodoStatus::Pending | TodoStatus::Blocked | TodoStatus::Cancelled => {
                PlanEntryStatus::Pending
            }
        },
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::continuation;

    #[track_caller]
    fn check(shown: &str, output: &str, expected: &str) {
        assert_eq!(continuation(shown, output), expected);
    }

    #[test]
    fn a_terminal_is_sent_what_it_does_not_show_yet() {
        check("", "one\n", "one\n");
        check("one\n", "one\ntwo\n", "two\n");
        check("one\n", "one\n", "");
        let long = "0123456789\n".repeat(100) + "last\n";
        check(&long, &format!("[... earlier output ...]\n{}next\n", &long[550..]), "next\n");
        check("nothing of it", "other\n", "other\n");
    }
}
