//! State of a task at another agent, folded from the updates of that agent.

use super::confirmation::{Confirmation, MAX_ID_BYTES};
use super::content::RemoteContent;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_wire::a2a::{Artifact, Message, Part, Role, StreamEvent, TaskState};
use tandem_wire::development_tool::{EventKind, ToolCall, ToolCallStatus};

/// Maximum number of steps that are stored.
const MAX_STEPS: usize = 1000;

/// Maximum number of artifacts.
const MAX_ARTIFACTS: usize = 200;

/// Maximum number of questions that are open at the same time.
const MAX_OPEN_QUESTIONS: usize = 100;

/// Maximum length of the line of a tool call, in characters.
const MAX_LINE_CHARS: usize = 200;

/// Maximum length of the progress that people are shown while the agent works, in bytes.
const MAX_PROGRESS_BYTES: usize = 8 << 10;

/// A task of an agent, or its reply without a task.
#[derive(Debug)]
pub(super) struct RemoteTask {
    pub(super) id: Option<String>,
    pub(super) context: Option<String>,
    pub(super) state: TaskState,
    /// Id of the last event in the agent's own log.
    pub(super) last_event: Option<String>,
    /// Texts and tool calls of the agent so far, in order.
    steps: Vec<ProgressStep>,
    artifacts: Vec<RemoteArtifact>,
    /// Artifacts in the last snapshot of the task; some may be results of earlier messages.
    earlier: RemoteContent,
    /// Content of the message that came with the state.
    reason: RemoteContent,
    /// Reply of the agent, if there is no task.
    reply: Option<RemoteContent>,
    questions: Vec<Confirmation>,
    /// `true` if the last update was a snapshot of the completed task: the events that led to its end may be missing.
    is_ended_unseen: bool,
    /// Number of bytes of text that may still be stored.
    left: usize,
}

#[derive(Debug, PartialEq)]
enum ProgressStep {
    Text(String),
    Call { id: String, line: String },
}

/// An artifact as far as it has come.
#[derive(Debug)]
struct RemoteArtifact {
    id: String,
    name: String,
    content: RemoteContent,
}

impl RemoteTask {
    /// Returns a task of which nothing is known yet. At most `bytes` bytes of its text will be stored.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            id: None,
            context: None,
            state: TaskState::Working,
            last_event: None,
            steps: Vec::new(),
            artifacts: Vec::new(),
            earlier: RemoteContent::default(),
            reason: RemoteContent::default(),
            reply: None,
            questions: Vec::new(),
            is_ended_unseen: false,
            left: bytes,
        }
    }

    /// Takes the open questions, to answer them. The task then counts as working.
    pub(super) fn take_questions(&mut self) -> Vec<Confirmation> {
        self.state = TaskState::Working;
        std::mem::take(&mut self.questions)
    }

    /// Returns whether the agent has replied, or its task has ended or waits.
    pub(super) fn is_settled(&self) -> bool {
        self.reply.is_some() || self.state.is_settled()
    }

    /// Returns whether a question about this call is open.
    pub(super) fn asks_about(&self, call: &str) -> bool {
        self.questions.iter().any(|asked| asked.call == call)
    }

    /// Returns whether a question is open.
    pub(super) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Returns whether text may have been left out.
    pub(super) fn is_cut(&self) -> bool {
        self.left == 0
    }

    /// Applies an update of the agent.
    pub(super) fn apply(&mut self, update: &StreamEvent) {
        match update {
            StreamEvent::Task(task) => {
                self.identify(&task.id, &task.context_id);
                self.state = task.status.state;
                self.is_ended_unseen = self.state == TaskState::Completed;
                let mut left = self.left;
                self.earlier = RemoteContent::default();
                for artifact in task.artifacts.iter().take(MAX_ARTIFACTS) {
                    self.earlier.append(RemoteContent::read(&artifact.parts, &mut left));
                }
                self.message(Some(EventKind::StateChange), task.status.message.as_ref());
            }
            StreamEvent::Status(update) => {
                self.identify(&update.task_id, &update.context_id);
                self.state = update.status.state;
                self.is_ended_unseen = false;
                self.seen(&update.metadata.event_id);
                // An agent that does not name the kinds of its updates gives the reason for a state with the state.
                let settled = self.state.is_settled().then_some(EventKind::StateChange);
                let named = update.metadata.kind.filter(|kind| *kind != EventKind::AgentSettings);
                let kind = named.or(settled);
                self.message(kind, update.status.message.as_ref());
            }
            StreamEvent::Artifact(update) => {
                self.identify(&update.task_id, &update.context_id);
                self.seen(&update.metadata.event_id);
                self.artifact(&update.artifact, update.append);
            }
            StreamEvent::Message(message) => {
                self.identify(&message.task_id, &message.context_id);
                self.reply = Some(RemoteContent::read(&message.parts, &mut self.left));
            }
        }
    }

    fn identify(&mut self, task: &str, context: &str) {
        self.id = id(task).or_else(|| self.id.take());
        self.context = id(context).or_else(|| self.context.take());
    }

    fn seen(&mut self, event: &str) {
        self.last_event = id(event).or_else(|| self.last_event.take());
    }

    /// Applies a message that came with a state.
    fn message(&mut self, kind: Option<EventKind>, message: Option<&Message>) {
        if message.is_some_and(|message| message.role == Role::User) {
            return;
        }
        let parts = message.map_or(&[][..], |message| &message.parts);
        let calls = parts.iter().filter_map(Part::fields);
        let mut has_calls = false;
        // Data with a call's id is a call, even if the id cannot be read: people are not shown its JSON as a text.
        for call in calls.filter(|data| data.value("toolCallId").is_some()) {
            self.call(&call.into());
            has_calls = true;
        }
        match kind {
            Some(
                EventKind::Thought | EventKind::ToolCallUpdate | EventKind::ToolCallConfirmation,
            ) => {}
            Some(EventKind::TextContent | EventKind::Citation) => {
                let content = RemoteContent::read(parts, &mut self.left);
                self.say(&content.text);
            }
            // The text of such a message only puts the question about its call into words. `self.call` has kept the
            // question, and the user is asked it separately, so the text is dropped.
            Some(EventKind::StateChange | EventKind::AgentSettings) | None if has_calls => {}
            Some(EventKind::StateChange) => {
                self.reason = RemoteContent::read(parts, &mut self.left);
            }
            Some(EventKind::AgentSettings) | None => {
                let content = RemoteContent::read(parts, &mut self.left);
                if !content.text.is_empty() {
                    self.say(&(content.text + "\n\n"));
                }
            }
        }
    }

    fn say(&mut self, text: &str) {
        let is_full = self.steps.len() >= MAX_STEPS;
        // At the maximum number of steps, further text is appended to the last text.
        let mut last = self.steps.iter_mut().rev().take(if is_full { MAX_STEPS } else { 1 });
        let last = last.find_map(|step| match step {
            ProgressStep::Text(last) => Some(last),
            ProgressStep::Call { .. } => None,
        });
        match last {
            Some(last) => last.push_str(text),
            None if is_full => {}
            None => self.steps.push(ProgressStep::Text(text.to_owned())),
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let Some(id) = id(&call.tool_call_id) else { return };
        let text = |text: &str| one_line(&plain(text.as_bytes()), MAX_LINE_CHARS);
        let status = text(call.status.name()).to_ascii_lowercase();
        self.questions.retain(|asked| asked.call != id);
        if call.status == ToolCallStatus::Pending
            && self.questions.len() < MAX_OPEN_QUESTIONS
            && let Some(asked) = Confirmation::read(call)
        {
            self.questions.push(asked);
        }
        let name = text(&call.tool_name);
        let label = text(call.description.as_deref().unwrap_or_default());
        let separator = if label.is_empty() { "" } else { ": " };
        let line = format!("[{name}{separator}{label}, {status}]");
        let same = |step: &&mut ProgressStep| matches!(step, ProgressStep::Call { id: other, .. } if *other == id);
        let is_full = self.steps.len() >= MAX_STEPS;
        match self.steps.iter_mut().rev().find(same) {
            Some(ProgressStep::Call { line: shown, .. }) => *shown = line,
            _ if is_full => {}
            _ => self.steps.push(ProgressStep::Call { id, line }),
        }
    }

    fn artifact(&mut self, artifact: &Artifact, append: bool) {
        let id = &artifact.artifact_id;
        let id = &id[..id.floor_char_boundary(MAX_ID_BYTES)];
        let content = RemoteContent::read(&artifact.parts, &mut self.left);
        let is_full = self.artifacts.len() >= MAX_ARTIFACTS;
        match self.artifacts.iter_mut().find(|it| it.id == id) {
            Some(known) if append => known.content.append(content),
            Some(known) => known.content = content,
            None if is_full => {}
            None => {
                let name = one_line(&plain(artifact.name.as_bytes()), MAX_LINE_CHARS);
                self.artifacts.push(RemoteArtifact { id: id.to_owned(), name, content });
            }
        }
    }

    /// Returns the end of the agent's texts and tool calls so far, for people.
    pub(super) fn progress(&self) -> String {
        let mut shown = Vec::new();
        let mut size = 0;
        for step in self.steps.iter().rev() {
            let text = match step {
                ProgressStep::Text(text) => text.trim(),
                ProgressStep::Call { line, .. } => line,
            };
            let text = &text
                [text.ceil_char_boundary(text.len().saturating_sub(MAX_PROGRESS_BYTES - size))..];
            size += text.len();
            shown.push(text);
            if size >= MAX_PROGRESS_BYTES {
                break;
            }
        }
        shown.reverse();
        shown.join("\n")
    }

    /// Returns the text and the files of the result: the artifacts of this message, or else the last text of the agent,
    /// and the message that came with its state. If there are none of these, the result is the artifacts in the last
    /// snapshot.
    pub(super) fn answer(&self) -> RemoteContent {
        if self.is_ended_unseen && !self.earlier.is_empty() {
            return self.earlier.clone();
        }
        let mut answer = RemoteContent::default();
        for RemoteArtifact { name, content, .. } in
            self.artifacts.iter().filter(|it| !it.content.is_empty())
        {
            if self.artifacts.len() > 1 && !content.text.is_empty() {
                answer.text +=
                    &format!("{}## {name}\n", if answer.text.is_empty() { "" } else { "\n\n" });
            }
            answer.append(content.clone());
        }
        if answer.text.trim().is_empty() {
            let texts = self.steps.iter().rev().filter_map(|step| match step {
                ProgressStep::Text(text) if !text.trim().is_empty() => Some(text),
                _ => None,
            });
            answer.text = texts.map(|text| text.trim().to_owned()).next().unwrap_or_default();
        } else if self.state == TaskState::Completed {
            return answer;
        }
        let all = [self.reply.as_ref(), Some(&self.reason)].into_iter().flatten();
        for more in all.filter(|more| !more.is_empty()) {
            let separator = if answer.text.is_empty() { "" } else { "\n\n" };
            answer.text += &format!("{separator}{}", more.text.trim());
            answer.files.extend(more.files.iter().cloned());
            answer.changed.extend(more.changed.iter().cloned());
        }
        if answer.is_empty() {
            answer = self.earlier.clone();
        }
        answer
    }
}

/// Returns an id, if it is short and has no control characters, so that it can be sent back and shown.
fn id(id: &str) -> Option<String> {
    let sane = !id.is_empty() && id.len() <= MAX_ID_BYTES && !id.contains(char::is_control);
    sane.then(|| id.to_owned())
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::{Value, json};
    use tandem_wire::a2a::Fields;

    use super::*;

    fn task(items: &[Value]) -> RemoteTask {
        let mut task = RemoteTask::new(1000);
        for item in items {
            task.apply(&Fields::from(item.clone()).try_into().unwrap());
        }
        task
    }

    fn status(state: &str, kind: &str, parts: Value) -> Value {
        json!({ "kind": "status-update", "taskId": "t", "contextId": "c",
            "metadata": { "coderAgent": { "kind": kind }, "eventId": "4.0" },
            "status": { "state": state, "message": { "role": "agent", "parts": parts } } })
    }

    fn text(text: &str) -> Value {
        json!([{ "kind": "text", "text": text }])
    }

    fn call(status: &str, asks: bool) -> Value {
        let asks = if asks { json!({ "options": [] }) } else { Value::Null };
        json!([{ "kind": "data", "data": { "tool_call_id": "x", "status": status, "tool_name": "run",
            "description": "Run it", "confirmation_request": asks } }])
    }

    #[test]
    fn pieces_of_text_are_joined_and_calls_are_lines() {
        let task = task(&[
            status("working", "text-content", text("Hel")),
            status("working", "text-content", text("lo.")),
            status("working", "thought", json!([{ "kind": "data", "data": { "subject": "s" } }])),
            status("working", "tool-call-update", call("EXECUTING", false)),
            status("working", "tool-call-update", call("SUCCEEDED", false)),
            status("working", "text-content", text("Done.")),
            status("completed", "state-change", Value::Null),
        ]);
        assert_eq!(task.progress(), "Hello.\n[run: Run it, succeeded]\nDone.");
        assert_eq!(task.answer().text, "Done.");
        assert_eq!(task.state, TaskState::Completed);
        assert_eq!((task.id.as_deref(), task.context.as_deref()), (Some("t"), Some("c")));
        assert_eq!(task.last_event.as_deref(), Some("4.0"));
    }

    #[test]
    fn artifacts_are_the_answer() {
        let artifact = |id: &str, append: bool, parts: Value| {
            json!({
                "artifactUpdate": { "taskId": "t", "contextId": "c", "append": append,
                    "artifact": { "artifactId": id, "name": id, "parts": parts } },
            })
        };
        let mut items = vec![
            status("working", "text-content", text("On it.")),
            artifact("a", false, text("old")),
            artifact("a", false, text("one ")),
            artifact("a", true, text("two")),
        ];
        assert_eq!(task(&items).answer().text, "one two");
        items.push(artifact(
            "b",
            false,
            json!([{ "text": "x" }, { "url": "http://h/f", "filename": "f" }]),
        ));
        let answer = task(&items).answer();
        assert_eq!(answer.text, "## a\none two\n\n## b\nx");
        assert_eq!(answer.files, ["f (of no known type, at http://h/f)"]);
    }

    #[test]
    fn other_agents_say_it_with_their_states() {
        let plain = |state: &str, said: &str| {
            let mut update = status(state, "", text(said));
            update["metadata"] = Value::Null;
            update
        };
        let working = plain("working", "Looking.");
        let ended = task(&[working.clone(), plain("completed", "All good.")]);
        assert_eq!(ended.answer().text, "Looking.\n\nAll good.");
        let asks = task(&[working, plain("input-required", "Which one?")]);
        assert_eq!(asks.answer().text, "Looking.\n\nWhich one?");
        let reply =
            json!({ "kind": "message", "role": "agent", "contextId": "c", "parts": text("Hi.") });
        let reply = task(&[reply]);
        assert!(reply.is_settled() && reply.answer().text == "Hi.");
        let whole = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" },
            "artifacts": [{ "parts": text("Whole.") }] });
        assert_eq!(task(&[whole]).answer().text, "Whole.");
    }

    #[test]
    fn questions_are_open_until_the_call_goes_on() {
        let asked = status("input-required", "state-change", call("PENDING", true));
        let mut open = task(std::slice::from_ref(&asked));
        assert!(open.asks_about("x") && open.answer().is_empty());
        assert_eq!(open.take_questions().len(), 1);
        assert!(!open.is_settled());
        let answered = status("working", "tool-call-update", call("EXECUTING", false));
        assert!(!task(&[asked, answered]).asks_about("x"));
    }

    #[test]
    fn odd_ids_and_long_texts_are_not_kept() {
        let mut odd = status("working", "text-content", text(&"x".repeat(2000)));
        odd["taskId"] = json!("a\nb");
        odd["contextId"] = json!("c".repeat(MAX_ID_BYTES + 1));
        odd["metadata"]["eventId"] = json!(5);
        let task = task(&[odd]);
        assert_eq!(
            (task.id.as_deref(), task.context.as_deref(), task.last_event.as_deref()),
            (None, None, None)
        );
        assert_eq!(task.answer().text.len(), 1000);
        assert!(task.is_cut());
    }
}
