//! State of a task at another agent, folded from the updates of that agent.

use serde_json::Value;

use super::confirmation::{Confirmation, ID, field};
use super::content::RemoteContent;
use super::update::{RemoteState, RemoteUpdate, UpdateSubject};
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;

/// Maximum number of steps that are stored.
const STEPS: usize = 1000;

/// Maximum number of artifacts.
const ARTIFACTS: usize = 200;

/// Maximum number of questions that are open at the same time.
const QUESTIONS: usize = 100;

/// Maximum length of the line of a tool call, in characters.
const LINE: usize = 200;

/// Maximum length of the progress that people are shown while the agent works, in bytes.
const SHOWN: usize = 8 << 10;

/// A task of an agent, or its reply without a task.
#[derive(Debug)]
pub(super) struct RemoteTask {
    pub(super) id: Option<String>,
    pub(super) context: Option<String>,
    pub(super) state: RemoteState,
    /// Id of the last event in the agent's own log.
    pub(super) last_event: Option<String>,
    /// Texts and tool calls of the agent so far, in order.
    steps: Vec<Step>,
    artifacts: Vec<Artifact>,
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
enum Step {
    Text(String),
    Call { id: String, line: String },
}

#[derive(Debug)]
struct Artifact {
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
            state: RemoteState::Working,
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
        self.state = RemoteState::Working;
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
    pub(super) fn apply(&mut self, update: &RemoteUpdate<'_>) {
        match update {
            RemoteUpdate::Task { state, task } => {
                self.identify(&task["id"], &task["contextId"]);
                self.state = *state;
                self.is_ended_unseen = *state == RemoteState::Completed;
                let artifacts = task["artifacts"].as_array().into_iter().flatten();
                let mut left = self.left;
                self.earlier = RemoteContent::default();
                for artifact in artifacts.take(ARTIFACTS) {
                    self.earlier.append(RemoteContent::read(&artifact["parts"], &mut left));
                }
                self.message(UpdateSubject::State, &task["status"]["message"]);
            }
            RemoteUpdate::Status { state, kind, update, .. } => {
                self.identify(&update["taskId"], &update["contextId"]);
                self.state = *state;
                self.is_ended_unseen = false;
                self.seen(&update["metadata"]);
                let message = &update["status"]["message"];
                match kind {
                    UpdateSubject::Unknown if state.is_settled() => {
                        self.message(UpdateSubject::State, message);
                    }
                    kind => self.message(*kind, message),
                }
            }
            RemoteUpdate::Artifact(update) => {
                self.identify(&update["taskId"], &update["contextId"]);
                self.seen(&update["metadata"]);
                self.artifact(&update["artifact"], update["append"] == true);
            }
            RemoteUpdate::Message(message) => {
                self.identify(&message["taskId"], &message["contextId"]);
                self.reply = Some(RemoteContent::read(&message["parts"], &mut self.left));
            }
        }
    }

    fn identify(&mut self, task: &Value, context: &Value) {
        if let Some(task) = id(task) {
            self.id = Some(task);
        }
        if let Some(context) = id(context) {
            self.context = Some(context);
        }
    }

    fn seen(&mut self, metadata: &Value) {
        if let Some(event) = id(&metadata["eventId"]) {
            self.last_event = Some(event);
        }
    }

    /// Applies a message that came with a state.
    fn message(&mut self, kind: UpdateSubject, message: &Value) {
        if matches!(message["role"].as_str(), Some("user" | "ROLE_USER")) {
            return;
        }
        let parts = &message["parts"];
        let calls = parts.as_array().into_iter().flatten().map(|part| &part["data"]);
        let mut has_calls = false;
        for call in calls.filter(|data| field(data, &["tool_call_id", "toolCallId"]).is_some()) {
            self.call(call);
            has_calls = true;
        }
        match kind {
            UpdateSubject::Thought | UpdateSubject::ToolCall => {}
            UpdateSubject::Text => {
                let content = RemoteContent::read(parts, &mut self.left);
                self.say(&content.text);
            }
            // The text of such a message only puts the question about its call into words. `self.call` has kept the
            // question, and the user is asked it separately, so the text is dropped.
            UpdateSubject::State | UpdateSubject::Unknown if has_calls => {}
            UpdateSubject::State => {
                self.reason = RemoteContent::read(parts, &mut self.left);
            }
            UpdateSubject::Unknown => {
                let content = RemoteContent::read(parts, &mut self.left);
                if !content.text.is_empty() {
                    self.say(&(content.text + "\n\n"));
                }
            }
        }
    }

    fn say(&mut self, text: &str) {
        let is_full = self.steps.len() >= STEPS;
        // At the maximum number of steps, further text is appended to the last text.
        let mut last = self.steps.iter_mut().rev().take(if is_full { STEPS } else { 1 });
        let last = last.find_map(|step| match step {
            Step::Text(last) => Some(last),
            Step::Call { .. } => None,
        });
        match last {
            Some(last) => last.push_str(text),
            None if is_full => {}
            None => self.steps.push(Step::Text(text.to_owned())),
        }
    }

    fn call(&mut self, call: &Value) {
        let Some(id) = field(call, &["tool_call_id", "toolCallId"]).and_then(id) else { return };
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str).unwrap_or_default();
            one_line(&plain(text.as_bytes()), LINE)
        };
        let status = text(call.get("status")).to_ascii_lowercase();
        self.questions.retain(|asked| asked.call != id);
        if status == "pending"
            && self.questions.len() < QUESTIONS
            && let Some(asked) = Confirmation::read(call)
        {
            self.questions.push(asked);
        }
        let (name, label) =
            (text(field(call, &["tool_name", "toolName"])), text(call.get("description")));
        let separator = if label.is_empty() { "" } else { ": " };
        let line = format!("[{name}{separator}{label}, {status}]");
        let same = |step: &&mut Step| matches!(step, Step::Call { id: other, .. } if *other == id);
        let is_full = self.steps.len() >= STEPS;
        match self.steps.iter_mut().rev().find(same) {
            Some(Step::Call { line: shown, .. }) => *shown = line,
            _ if is_full => {}
            _ => self.steps.push(Step::Call { id, line }),
        }
    }

    fn artifact(&mut self, artifact: &Value, append: bool) {
        let id = artifact["artifactId"].as_str().unwrap_or_default();
        let id = &id[..id.floor_char_boundary(ID)];
        let content = RemoteContent::read(&artifact["parts"], &mut self.left);
        let is_full = self.artifacts.len() >= ARTIFACTS;
        match self.artifacts.iter_mut().find(|it| it.id == id) {
            Some(known) if append => known.content.append(content),
            Some(known) => known.content = content,
            None if is_full => {}
            None => {
                let name = artifact["name"].as_str().unwrap_or_default();
                let name = one_line(&plain(name.as_bytes()), LINE);
                self.artifacts.push(Artifact { id: id.to_owned(), name, content });
            }
        }
    }

    /// Returns the end of the agent's texts and tool calls so far, for people.
    pub(super) fn progress(&self) -> String {
        let mut shown = Vec::new();
        let mut size = 0;
        for step in self.steps.iter().rev() {
            let text = match step {
                Step::Text(text) => text.trim(),
                Step::Call { line, .. } => line,
            };
            let text = &text[text.ceil_char_boundary(text.len().saturating_sub(SHOWN - size))..];
            size += text.len();
            shown.push(text);
            if size >= SHOWN {
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
        for Artifact { name, content, .. } in
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
                Step::Text(text) if !text.trim().is_empty() => Some(text),
                _ => None,
            });
            answer.text = texts.map(|text| text.trim().to_owned()).next().unwrap_or_default();
        } else if self.state == RemoteState::Completed {
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
fn id(value: &Value) -> Option<String> {
    let id = value.as_str()?;
    let sane = !id.is_empty() && id.len() <= ID && !id.contains(char::is_control);
    sane.then(|| id.to_owned())
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(items: &[Value]) -> RemoteTask {
        let mut task = RemoteTask::new(1000);
        for item in items {
            task.apply(&RemoteUpdate::read(item).unwrap());
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
        assert_eq!(task.state, RemoteState::Completed);
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
        odd["contextId"] = json!("c".repeat(ID + 1));
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
