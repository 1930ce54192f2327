//! Tool calls as an editor shows them, and their live output.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::client::SessionClient;
use crate::content::{CallContent, because, changes, description, live, outcomes, proposals};
use tandem_agent::session::{
    Access, CallStarted, CallStatus, Question, ResultContent, ToolKind, ToolOutcome,
    explain_unknown_outcome,
};
use tandem_content::fence::fence;
use tandem_content::media::Media;
use tandem_content::visible::{visible_line, visible_prose};
use tandem_wire::acp::v1::{
    self, ResultBlock, SessionUpdate, TerminalMeta, ToolCall, ToolCallContent, ToolCallLocation,
    ToolCallStatus,
};

/// Minimum time between two updates of a running call's output. Without a terminal, each update replaces the output
/// before.
const MIN_OUTPUT_INTERVAL: Duration = Duration::from_millis(300);

/// Length of the end of a terminal's text that is searched for in newer output, to find where the output continues; in
/// bytes.
const ANCHOR_BYTES: usize = 256;

/// Calls of a session that the editor shows and that have not ended.
pub(super) struct Calls {
    client: Arc<SessionClient>,
    /// `true` if the editor shows terminals that the agent writes to.
    has_terminals: bool,
    /// `true` while earlier events are shown: each call is then shown once, with its end.
    pub(super) replays: bool,
    open: HashMap<String, OpenCall>,
}

/// A call that has not ended.
#[derive(Default)]
struct OpenCall {
    /// `true` if the editor shows the output in a terminal that the agent writes to.
    terminal: bool,
    /// Output that the editor shows.
    shown: String,
    /// Earliest time of the next update of the output.
    next: Option<Instant>,
    /// Pending output, to be shown at `next`.
    waiting: Option<String>,
}

impl Calls {
    pub(super) fn new(client: Arc<SessionClient>, has_terminals: bool) -> Self {
        Self { client, has_terminals, replays: false, open: HashMap::new() }
    }

    /// Shows a call that begins. If `waits`, the call waits for the answer to a question, else it runs. Returns `false`
    /// if the call is shown already.
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

    /// Shows that a call runs after its question was answered.
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

    /// Shows the whole output of a running call so far, now or after the minimum time between two updates. If the call
    /// runs in a terminal of the editor, the editor shows the output by itself.
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
        open.next = Some(now + MIN_OUTPUT_INTERVAL);
        open.waiting = None;
        show_output(&self.client, id, open, output);
    }

    /// Waits until pending output is due. Without pending output, waits forever.
    pub(super) async fn due(&self) {
        let waiting = self.open.values().filter(|open| open.waiting.is_some());
        match waiting.filter_map(|open| open.next).min() {
            Some(next) => sleep_until(next).await,
            None => pending().await,
        }
    }

    /// Shows the pending output that is due.
    pub(super) fn show_due(&mut self) {
        let now = Instant::now();
        for (id, open) in &mut self.open {
            if open.next.is_some_and(|next| next <= now)
                && let Some(output) = open.waiting.take()
            {
                open.next = Some(now + MIN_OUTPUT_INTERVAL);
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
            // The editor's terminal shows the command's output and end, so only other content is added to it.
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

/// Returns the content of a call that has ended. If the call's tool only reads the workspace, the content also has all
/// text (`read`) and all images that the model gets.
fn result<'a>(
    started: &CallStarted,
    end: &'a ToolOutcome,
    read: Option<&str>,
) -> Option<Vec<ToolCallContent<'a>>> {
    let shown = outcomes(end).into_iter().map(content);
    let media = media_read(started, end);
    // The text of a result with media only names the media, so it is left out.
    let read = read.filter(|_| media.is_empty()).map(|read| text(fence(read, "")));
    let images = media.iter().filter(|media| media.kind() == "image");
    let images = images.map(|Media { mime_type, data }| ToolCallContent::Content {
        content: ResultBlock::Image { data, mime_type },
    });
    let content: Vec<_> = shown.chain(read).chain(images).collect();
    Some(content).filter(|content| !content.is_empty())
}

/// Returns the text that the model gets from a call whose tool only reads the workspace; `None` for other calls.
fn text_read<'a>(started: &CallStarted, end: &'a ToolOutcome) -> Option<Cow<'a, str>> {
    let ToolOutcome::Done(output) = end else { return None };
    started.kind.only_reads().then(|| visible_prose(&output.text))
}

/// Returns the images, audio and other media that the model gets from a call whose tool only reads the workspace; none
/// for other calls.
fn media_read<'a>(started: &CallStarted, end: &'a ToolOutcome) -> &'a [Media] {
    match end {
        ToolOutcome::Done(output) if started.kind.only_reads() => &output.media,
        _ => &[],
    }
}

/// Returns the call to show with its question. Its content is the proposed change or command, the description and the
/// reason of the question.
pub(super) fn call_with_question<'a>(
    started: &'a CallStarted,
    question: &'a Question,
) -> ToolCall<'a> {
    let shown = proposals(started, question).into_iter().chain(description(started));
    let why = text(because(question));
    let content = shown.map(content).chain([why]).collect();
    ToolCall { content: Some(content), ..whole(started, ToolCallStatus::Pending) }
}

/// Returns the call to show with the question of this index among those that the call asks the user.
pub(super) fn asking(started: &CallStarted, n: usize) -> ToolCall<'_> {
    let questions = started.input_questions();
    let mut call = whole(started, ToolCallStatus::Pending);
    if let Some(question) = questions.get(n) {
        let first = question.question.lines().next().unwrap_or_default();
        let of = match questions.len() {
            1 => String::new(),
            count => format!(" ({} of {count})", n + 1),
        };
        call.title = Some(visible_line(&format!("{first}{of}")).into_owned().into());
        call.content = Some(vec![text(visible_prose(&question.markdown()).into_owned())]);
    }
    call
}

/// Shows the output of a call so far. A terminal gets only the new part of the output, a call without a terminal all.
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

/// Returns the part of `output` that follows the part `shown`. The beginning of a long output is cut off, so `shown`
/// may not be a prefix of `output`; then the end of `shown` is searched for in `output`.
fn continuation<'a>(shown: &str, output: &'a str) -> &'a str {
    if let Some(new) = output.strip_prefix(shown) {
        return new;
    }
    let anchor = &shown[shown.ceil_char_boundary(shown.len().saturating_sub(ANCHOR_BYTES))..];
    match output.rfind(anchor) {
        Some(at) => &output[at + anchor.len()..],
        None => output,
    }
}

/// Returns the final output of a command, or the message of its failure.
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

/// Returns `true` if the content that is shown for the end of a command is only the command's output.
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

/// Returns the exit code of a command that has ended, if there is one. The code of a failed command is read from the
/// message to the model.
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

/// Adds the call's terminal, which the agent writes to, to a call that begins to run, if the call has one.
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

/// Returns a call with everything that is known when the call begins.
fn whole(started: &CallStarted, status: ToolCallStatus) -> ToolCall<'_> {
    let diff = started.summary.diff.as_ref();
    let diff = diff.map(|change| changes(change).into_iter().map(content).collect());
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
