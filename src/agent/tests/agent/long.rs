//! Conversations that are longer than a model's window.

mod background;
mod compress;
mod loops;
mod masks;
mod outputs;
mod random;
mod rewind;
mod trouble;

use std::sync::{Arc, Mutex};

use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;
use tandem_agent::session::{
    Access, Compressed, Event, Origin, Parts, Session, StopReason, ToolKind, TurnId,
};
use tandem_content::media::Media;
use tandem_host::{Tool, ToolOutput};
use tandem_model::history::{INTERRUPTED_NOTE, harden};
use tandem_model::replay::Replay;
use tandem_model::{Chunk, Error, Finish, Message, Model, Part, Prompt, tokens};
use tandem_tools as tools;

use test_fakes::{Chunks, Fake, calls, is_end, next, parts, says, text, until};

/// A model whose answers come from a function, and that keeps each prompt.
struct Says {
    answer: Box<dyn Fn(&Prompt) -> Chunks + Send + Sync>,
    limit: Option<u64>,
    told: Mutex<Vec<Prompt>>,
}

impl Says {
    fn new(
        limit: Option<u64>,
        answer: impl Fn(&Prompt) -> Chunks + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { answer: Box::new(answer), limit, told: Mutex::default() })
    }

    /// Returns the text of each prompt that the model got.
    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().iter().map(all_text).collect()
    }
}

impl Model for Says {
    fn id(&self) -> &'static str {
        "says"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        self.limit
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        check(&prompt);
        let is_summary = is_summary(&prompt);
        let mut answer = (self.answer)(&prompt);
        self.told.lock().unwrap().push(prompt);
        let is_whole =
            |chunk: &Result<Chunk, Error>| matches!(chunk, Err(_) | Ok(Chunk::Finish(_)));
        if !answer.iter().any(is_whole) {
            answer.push(Ok(Chunk::Finish(Finish::default())));
        }
        // An answer yields between two chunks, as a network would. A summary does not yield, so a whole summary is
        // ready before the next chunk of an answer.
        let waits = !is_summary;
        stream::iter(answer)
            .then(move |chunk| async move {
                if waits {
                    tokio::task::yield_now().await;
                }
                chunk
            })
            .boxed()
    }
}

fn snapshot(text: &str) -> Chunks {
    says(&format!("<state_snapshot>\n{text}\n</state_snapshot>"))
}

/// Returns whether a prompt asks for a summary.
fn is_summary(prompt: &Prompt) -> bool {
    prompt.system.starts_with("You keep the memory")
}

/// Returns whether the results of calls are last in a prompt.
fn goes_on(prompt: &Prompt) -> bool {
    matches!(prompt.messages.last().map(|last| &**last), Some(Message::Results(_)))
}

/// Returns all messages of a prompt as text, the system instruction first.
fn all_text(prompt: &Prompt) -> String {
    let messages = prompt.messages.iter().map(|message| match &**message {
        Message::User(parts) => parts.iter().map(part).collect::<Vec<_>>().concat(),
        Message::Assistant(said) => said.text.clone(),
        Message::Results(results) => {
            results.iter().map(|result| result.text.clone()).collect::<Vec<_>>().join("\n")
        }
    });
    format!("{}\n{}", prompt.system, messages.collect::<Vec<_>>().join("\n"))
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Media(media) => media.mime_type.clone(),
    }
}

/// Checks that `harden` changes nothing in a prompt, except after a cancelled turn.
fn check(prompt: &Prompt) {
    let hardened = harden(&prompt.messages, |_, _| true);
    let is_repair =
        |it: &Message| matches!(it, Message::Assistant(it) if it.text == INTERRUPTED_NOTE);
    let kept: Vec<_> = hardened.iter().filter(|it| !is_repair(it)).collect();
    let same = kept.len() == prompt.messages.len()
        && kept.iter().zip(&prompt.messages).all(|(a, b)| Arc::ptr_eq(a, b));
    assert!(same, "{:#?}\nis not\n{hardened:#?}", prompt.messages);
}

/// Returns a session with a tool `t`, each of whose results has `chars` characters and a number of its own.
fn session(model: Arc<dyn Model>, chars: usize) -> Arc<Session> {
    session_in(model, chars, |parts| parts)
}

/// Returns a session as [`session`] does, with changed parts.
fn session_in(
    model: Arc<dyn Model>,
    chars: usize,
    change: impl FnOnce(Parts) -> Parts,
) -> Arc<Session> {
    let count = Arc::new(Mutex::new(0));
    let t = Fake::new("t", ToolKind::Read, Access::Read).running(move |_| {
        let mut count = count.lock().unwrap();
        *count += 1;
        let text = format!("result {count}: {}", "x".repeat(chars));
        async move { Ok(ToolOutput::new(text, "")) }
    });
    let mut tools = tools::all();
    tools.push(Arc::new(t));
    Session::new(change(Parts { tools, max_rounds: 5000, ..parts(model) }))
}

async fn turn(session: &Arc<Session>, prompt: &str) -> Vec<Arc<Event>> {
    let mut log = session.events(session.position());
    session.prompt(text(prompt), Origin::Editor);
    until(&mut log, is_end).await
}

fn compressions(events: &[Arc<Event>]) -> Vec<Arc<Compressed>> {
    let short = |event: &Arc<Event>| match &**event {
        Event::Compressed(short) => Some(Arc::clone(short)),
        _ => None,
    };
    events.iter().filter_map(short).collect()
}

/// Returns a model that calls `t` in each turn `rounds` times, and whose summaries come from `summary`. `limit`:
/// window in tokens.
fn model(
    limit: Option<u64>,
    rounds: usize,
    summary: impl Fn(&Prompt) -> Chunks + Send + Sync + 'static,
) -> Arc<Says> {
    let left = Mutex::new(rounds);
    Says::new(limit, move |prompt| {
        if is_summary(prompt) {
            return summary(prompt);
        }
        let mut left = left.lock().unwrap();
        if !goes_on(prompt) {
            *left = rounds;
        }
        if *left == 0 {
            return says("Done.");
        }
        *left -= 1;
        calls("t", json!({ "n": *left }))
    })
}

fn reason(events: &[Arc<Event>]) -> StopReason {
    match &**events.last().unwrap() {
        Event::TurnFinished { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

fn notices(events: &[Arc<Event>]) -> Vec<String> {
    let notice = |event: &Arc<Event>| match &**event {
        Event::Notice(notice) if !notice.starts_with("Compressing ") => Some(notice.clone()),
        _ => None,
    };
    events.iter().filter_map(notice).collect()
}

/// Returns whether an event says that a summary is begun.
fn is_begun(event: &Event) -> bool {
    matches!(event, Event::Notice(notice) if notice.starts_with("Compressing the conversation of "))
}

/// Returns the output of a command, or its error.
async fn output(session: &Arc<Session>, command: &str) -> String {
    let events = turn(session, command).await;
    let output = events.iter().find_map(|event| match &**event {
        Event::Output(output) | Event::CommandFailed(output) => Some(output.clone()),
        _ => None,
    });
    output.unwrap_or_else(|| panic!("{events:?}"))
}

/// Returns the numbers of all results of `t` in a prompt.
fn results_in(prompt: &Prompt) -> Vec<usize> {
    let results = prompt.messages.iter().filter_map(|message| match &**message {
        Message::Results(results) => Some(results),
        _ => None,
    });
    let number = |text: &str| text.strip_prefix("result ")?.split_once(':')?.0.parse().ok();
    results.flatten().filter_map(|result| number(&result.text)).collect()
}

/// The first message of a compressed conversation.
struct Beginning {
    /// Words of the user, one item for each message.
    said: Vec<String>,
    snapshot: String,
}

impl Beginning {
    fn of(prompt: &Prompt) -> Self {
        let text = user(&prompt.messages[0]);
        let parts = |tag: &str| {
            let (open, close) = (format!("<{tag}>\n"), format!("\n</{tag}>\n"));
            let parts = text.split(&open).skip(1);
            let part = |part: &str| part.split_once(&close).unwrap().0.to_owned();
            parts.map(part).collect::<Vec<_>>()
        };
        let [snapshot] = &parts("state_snapshot")[..] else { panic!("{text}") };
        Self { said: parts("user"), snapshot: snapshot.clone() }
    }
}

/// Returns the model's last prompt.
fn last_prompt(model: &Says) -> Prompt {
    model.told.lock().unwrap().last().unwrap().clone()
}

/// Returns the messages of the model's last prompt.
fn last_told(model: &Says) -> Vec<Message> {
    last_prompt(model).messages.iter().map(|message| (**message).clone()).collect()
}

fn user(message: &Message) -> String {
    match message {
        Message::User(parts) => parts.iter().map(part).collect::<Vec<_>>().concat(),
        other => panic!("{other:?}"),
    }
}

/// A model that plays a script, and checks each prompt.
struct Checked {
    replay: Replay,
    /// Texts that each prompt must contain word for word.
    said: Mutex<Vec<String>>,
    asked: Mutex<usize>,
}

impl Model for Checked {
    fn id(&self) -> &'static str {
        "checked"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        self.replay.input_limit()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        check(&prompt);
        *self.asked.lock().unwrap() += 1;
        assert!(tokens::of_prompt(&prompt) <= self.replay.input_limit().unwrap());
        if !is_summary(&prompt) {
            let told = all_text(&prompt);
            let said = self.said.lock().unwrap();
            let lost: Vec<_> = said.iter().filter(|said| !told.contains(*said)).collect();
            assert!(lost.is_empty(), "{lost:?} is lost in {told}");
        }
        self.replay.stream(prompt)
    }
}

#[tokio::test]
async fn a_conversation_of_two_thousand_steps_fits_into_a_small_window() {
    const TURNS: usize = 40;
    const ROUNDS: usize = 50;
    let mut script = vec![
        json!({ "input_limit": 24_000 }),
        json!({ "when": "Write the snapshot", "answers": [[
            { "text": "<state_snapshot>\n<overall_goal>All tasks.</overall_goal>\n</state_snapshot>" }
        ]] }),
    ];
    for task in 0..TURNS {
        let todo = json!({ "description": format!("task {task}"), "status": "in_progress" });
        let mut answers =
            vec![json!([{ "call": { "name": "write_todos", "args": { "todos": [todo] } } }])];
        answers.extend((2..ROUNDS).map(|n| {
            json!([{ "text": format!("Step {n}.") }, { "call": { "name": "t", "args": { "n": n } } }])
        }));
        answers.push(json!([{ "text": format!("Task {task} is done.") }]));
        script.push(json!({ "when": format!("task {task}:"), "answers": answers }));
    }
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let model = Arc::new(Checked {
        replay: Replay::from_script(&script).unwrap(),
        said: Mutex::default(),
        asked: Mutex::default(),
    });
    let session = session(Arc::clone(&model) as _, 600);
    let (mut begun, mut count) = (0, 0);
    for task in 0..TURNS {
        let prompt = format!("Please do task {task}: all {} steps of it.", task + 1000);
        model.said.lock().unwrap().push(prompt.clone());
        let events = turn(&session, &prompt).await;
        let done = Event::Text(format!("Task {task} is done."));
        assert!(events.contains(&Arc::new(done)), "{:?}", events.last());
        begun += events.iter().filter(|it| is_begun(it)).count();
        let first_call = events.iter().position(|it| matches!(&**it, Event::CallFinished { .. }));
        for (at, event) in events.iter().enumerate() {
            let Event::Compressed(short) = &**event else { continue };
            count += 1;
            assert!(short.before >= 12_000 && short.after < 8_000, "{short}");
            // The first call of a turn writes the todo list. A compression before this call has the list of the turn
            // before.
            let listed = task - usize::from(Some(at) < first_call);
            let todos: Vec<_> = short.todos.iter().map(|it| &it.description).collect();
            assert_eq!(todos, [&format!("task {listed}")]);
            assert_eq!(short.unsaid, 0);
        }
    }
    assert!(count >= 40, "compressed {count} times");
    // At the end, one summary may have begun without being used.
    assert!(begun - count <= 1, "{begun} begun, {count} used");
    assert_eq!(*model.asked.lock().unwrap(), TURNS * ROUNDS + begun);
}
