//! The place where a session works, as the model is told of it, and the system instruction that stays the same.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::stream::{self, BoxStream, StreamExt as _};
use tandem_agent::session::{Origin, Parts, Session};
use tandem_agent::sessions::{SessionLimits, SessionRequest, Sessions, fork};
use tandem_approval::Mode;
use tandem_model::{Chunk, Error, Finish, Message, Model, Models, Part, Prompt};
use tandem_store::FileStore;
use tandem_tools as tools;
use tempfile::TempDir;

use test_fakes::{host, is_end, parts, text, until};

/// Prompts that models were sent, in order.
type Prompts = Arc<Mutex<Vec<Prompt>>>;

/// A model that says "ok", writes short summaries, and records its prompts.
struct Recorder {
    id: String,
    prompts: Prompts,
}

impl Recorder {
    fn new(id: &str) -> (Arc<Self>, Prompts) {
        let prompts = Prompts::default();
        (Arc::new(Self { id: id.to_owned(), prompts: Arc::clone(&prompts) }), prompts)
    }
}

impl Model for Recorder {
    fn id(&self) -> &str {
        &self.id
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        let is_summary = prompt.system.starts_with("You keep the memory");
        let said = if is_summary { "<state_snapshot>\nShort.\n</state_snapshot>" } else { "ok" };
        if !is_summary {
            self.prompts.lock().unwrap().push(prompt);
        }
        let answer = [Ok(Chunk::Text(said.to_owned())), Ok(Chunk::Finish(Finish::default()))];
        stream::iter(answer).boxed()
    }
}

/// Models of any id, which record their prompts in one list.
struct Recorders(Prompts);

impl Models for Recorders {
    fn known(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn open(&self, id: &str) -> Result<Arc<dyn Model>, String> {
        Ok(Arc::new(Recorder { id: id.to_owned(), prompts: Arc::clone(&self.0) }))
    }
}

async fn turn(session: &Arc<Session>, prompt: &str) {
    let mut log = session.events(session.position());
    session.prompt(text(prompt), Origin::Editor);
    until(&mut log, is_end).await;
}

/// Returns the system instruction of the first request of a session with these parts.
async fn first_system(change: impl FnOnce(Parts) -> Parts) -> String {
    let (model, prompts) = Recorder::new("gemini-4-argon");
    turn(&Session::new(change(parts(model))), "Hello.").await;
    let prompts = prompts.lock().unwrap();
    prompts[0].system.to_string()
}

/// Returns the text of the last message that is the user's.
fn last_said(prompts: &Prompts) -> String {
    let prompts = prompts.lock().unwrap();
    let last = prompts.last().unwrap().messages.last().unwrap();
    let Message::User(parts) = &**last else { panic!("{last:?}") };
    let text = parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Media(_) => "",
    });
    text.collect()
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[tokio::test]
async fn the_first_request_says_where_the_model_is() {
    let dir = TempDir::new().unwrap();
    let system = first_system(|parts| Parts { host: host(dir.path()), ..parts }).await;
    let root = fs::canonicalize(dir.path()).unwrap();
    contains(
        &system,
        &[
            "\n- Your model id: `gemini-4-argon`.\n- An answer without a call ends your turn: ",
            "\n- Approval mode `default`: ",
            "\n- Commands run without a sandbox, with the machine's network.\n",
            "\n- The user sees your calls, and can be asked.\n",
            &format!("\n- Workspace: {}\n", root.display()),
            "\n- Date when the conversation began, in UTC: Tuesday, 2026-02-03.\n",
        ],
    );
    let yolo = first_system(|parts| Parts { mode: Mode::Yolo, ..parts }).await;
    contains(&yolo, &["\n- Approval mode `yolo`: calls run without the user's permission."]);
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_model_is_to_decide() {
    let system = first_system(|parts| Parts { is_attended: false, ..parts }).await;
    contains(&system, &["\n- Nobody can be asked in this run: ", "do not end with a question"]);
    assert!(!system.contains("can be asked.\n"), "{system}");
}

#[tokio::test]
async fn another_model_is_told_its_id_and_the_notes_of_its_family_once() {
    let (model, prompts) = Recorder::new("claude-sonnet-5-5");
    let models = Arc::new(Recorders(Arc::clone(&prompts)));
    let session = Session::new(Parts { models, ..parts(model) });
    turn(&session, "one").await;
    session.set_model("gpt-6.1-sol").await.unwrap();
    turn(&session, "two").await;
    let said = last_said(&prompts);
    assert!(
        said.starts_with(
            "two\n\n[Your model id: `gpt-6.1-sol`.]\n\n[Change files with apply_patch"
        ),
        "{said}"
    );
    turn(&session, "three").await;
    assert_eq!(last_said(&prompts), "three");
    let prompts = prompts.lock().unwrap();
    assert!(prompts.iter().all(|prompt| prompt.system == prompts[0].system));
}

/// Returns the function that makes sessions of a model in a directory.
fn maker(
    model: &Arc<Recorder>,
    directory: &Path,
    is_attended: bool,
) -> tandem_agent::sessions::MakeSession {
    let (model, directory) = (Arc::clone(model), directory.to_owned());
    Arc::new(move |_: &SessionRequest, storage| {
        let model: Arc<dyn Model> = Arc::clone(&model) as _;
        let (tools, host) = (tools::all(), host(&directory));
        Ok(Session::new(Parts { tools, storage, host, is_attended, ..parts(model) }))
    })
}

#[tokio::test]
async fn the_beginning_of_a_request_stays_the_same_over_turns_compression_load_and_fork() {
    let (project, kept) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(project.path().join("AGENTS.md"), "Use tabs.\n").unwrap();
    let store = Arc::new(FileStore::new(kept.path().to_owned()));
    let limits = || SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 };
    let (model, prompts) = Recorder::new("gemini-4-argon");
    let long = "word ".repeat(2000);
    let open = |is_attended| {
        let make = maker(&model, project.path(), is_attended);
        Sessions::with_store(make, limits(), Some(Arc::clone(&store) as _))
    };

    let sessions = open(true);
    let loaded = sessions.create(&SessionRequest::default(), |_| ()).unwrap();
    let id = loaded.id().to_owned();
    for prompt in [&long, &long, "/compress", "three"] {
        turn(loaded.session(), prompt).await;
    }
    sessions.close("the test is over");
    sessions.wait_all_stored().await;
    drop(loaded);

    // The tree would be another now.
    fs::write(project.path().join("new.txt"), "new\n").unwrap();
    let copy = fork(&*store, &id).await.unwrap().id;
    for id in [&id, &copy] {
        let sessions = open(true);
        let loaded = sessions.load(id, Vec::new(), |_| ()).await.unwrap().unwrap();
        turn(loaded.session(), "four").await;
        assert_eq!(last_said(&prompts), "four");
        turn(loaded.session(), "five").await;
        sessions.close("the test is over");
        sessions.wait_all_stored().await;
    }
    // What has changed with the process is told with the next prompt, and so are changed files.
    fs::write(project.path().join("AGENTS.md"), "Use spaces.\n").unwrap();
    let sessions = open(false);
    let loaded = sessions.load(&id, Vec::new(), |_| ()).await.unwrap().unwrap();
    turn(loaded.session(), "six").await;
    contains(
        &last_said(&prompts),
        &["six\n\n[What is written down", "Use spaces.", "\n\n[Nobody can"],
    );
    sessions.close("the test is over");
    sessions.wait_all_stored().await;

    let prompts = prompts.lock().unwrap();
    let first = &prompts[0];
    contains(&first.system, &["Use tabs."]);
    for prompt in prompts.iter() {
        assert_eq!(prompt.system, first.system);
        assert_eq!(prompt.tools, first.tools);
    }
    assert_eq!(prompts.len(), 8);
    // Of two requests without a compression between them, the later begins with all of the earlier.
    for pair in prompts[2..5].windows(2) {
        assert_eq!(pair[1].messages[..pair[0].messages.len()], pair[0].messages[..]);
    }
}
