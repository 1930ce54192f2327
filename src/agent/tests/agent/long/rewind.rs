//! Rewinding the conversation. Afterwards the model is told what it would be told if the removed turns had never
//! happened.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tandem_agent::session::{EarlierPrompts, ResumePolicy, Storage, Store, StoredSession, Upkeep};
use tandem_approval::Mode;
use tandem_host::scratch::Scratch;
use tandem_host::workspace::Workspace;
use tandem_host::{Host, ToolLimits};
use tandem_store::FileStore;
use tempfile::TempDir;

use super::*;
use test_fakes::terminals;

const WINDOW: u64 = 12_000;

/// Length of a result in characters: three results with their prompts fill more than half of the window.
const RESULT: usize = 9000;

/// A step of a random session.
#[derive(Debug, Clone)]
enum Step {
    /// A prompt, or a command.
    Say(String),
    /// Setting the approval mode.
    Set(Mode),
}

/// Time of a restart in a session with a rewind.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Restart {
    Never,
    Before,
    After,
    /// A kill right after the rewind.
    Killed,
}

/// Returns random steps that change the model's prompt.
fn script(rng: &mut fastrand::Rng) -> Vec<Step> {
    let step = |n: usize, rng: &mut fastrand::Rng| match rng.u8(..16) {
        0 => Step::Say("/clear".to_owned()),
        1 | 2 => Step::Say("/compress".to_owned()),
        3 => Step::Say("/stats".to_owned()),
        4 => Step::Say(format!("/rewind conversation {}", rng.usize(1..=n + 1))),
        5 => Step::Set(Mode::Plan),
        6 => Step::Set(Mode::Default),
        7 => Step::Say(format!("task {n}: refuse")),
        8 => Step::Say(format!("task {n}: break off")),
        9 => Step::Say("/continue".to_owned()),
        _ => Step::Say(format!("task {n}: {} rounds", rng.usize(..4))),
    };
    (0..rng.usize(4..12)).map(|n| step(n, rng)).collect()
}

/// Returns a model whose answer depends only on its prompt.
fn replies() -> Arc<Says> {
    Says::new(Some(WINDOW), |prompt| {
        if is_summary(prompt) {
            return snapshot(&format!("{} messages", prompt.messages.len()));
        }
        let is_user = |it: &&Arc<Message>| matches!(***it, Message::User(_));
        let task = prompt.messages.iter().rev().find(is_user).map(|it| user(it)).unwrap();
        let rounds = prompt.messages.iter().rev().take_while(|it| !is_user(it)).count() / 2;
        if task.contains("refuse") {
            return vec![Err(Error::Refused("no".to_owned()))];
        }
        if task.contains("break off") {
            return [says("Half a"), vec![Err(Error::Unavailable("gone".to_owned()))]].concat();
        }
        if (rounds + 1..4).any(|more| task.contains(&format!(": {more} rounds"))) {
            return calls("t", json!({ "n": rounds }));
        }
        says("That is it.")
    })
}

/// A session in a directory, stored in another directory.
struct Stage {
    model: Arc<Says>,
    session: Arc<Session>,
    project: TempDir,
    store: TempDir,
}

impl Stage {
    fn new() -> Self {
        let (project, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let storage = Storage::New {
            id: "0199f2c4-0000-7000-8000-000000000000".to_owned(),
            store: Arc::new(FileStore::new(store.path().to_owned())),
        };
        let model = replies();
        let session = session_of(Arc::clone(&model), project.path(), storage);
        Self { model, session, project, store }
    }

    async fn run(&self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Say(prompt) => drop(turn(&self.session, prompt).await),
                Step::Set(mode) => self.session.modes().set(*mode).unwrap(),
            }
        }
    }

    /// Ends the session, and waits until all of it is stored.
    async fn end(&self) {
        self.session.close();
        self.session.persistence().wait_released().await;
    }

    /// Ends the session, and loads it as another process would.
    async fn restart(&mut self) {
        self.end().await;
        let store: Arc<dyn Store> = Arc::new(FileStore::new(self.store.path().to_owned()));
        let stored = StoredSession::open(&store, self.session.id(), 1 << 20, ResumePolicy::Never)
            .await
            .unwrap();
        let storage = Storage::Stored(Box::new(stored));
        self.session = session_of(Arc::clone(&self.model), self.project.path(), storage);
        // Loading has added an end to the interrupted turn. The next step begins only when this end is stored.
        self.session.wait_durable().await;
    }

    /// Ends the session, and removes the events after the rewind from the stored log.
    async fn kill(&self) {
        self.end().await;
        let path = self.store.path().join(self.session.id()).join("log.jsonl");
        let mut batches: Vec<Value> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let went_back = |batch: &Value| {
            let is_it = |event: &Value| event.get("Rewound").is_some();
            batch["e"].as_array().and_then(|events| events.iter().rposition(is_it))
        };
        let last = batches.iter().rposition(|batch| went_back(batch).is_some()).unwrap();
        batches.truncate(last + 1);
        let end = went_back(&batches[last]).unwrap() + 1;
        batches[last]["e"].as_array_mut().unwrap().truncate(end);
        let log: String = batches.iter().map(|batch| format!("{batch}\n")).collect();
        fs::write(path, log).unwrap();
    }

    /// Returns the prompts to which the session can go back.
    fn earlier(&self) -> Vec<TurnId> {
        let (mut log, mut prompts) = (self.session.events(0), EarlierPrompts::default());
        while let Some(entry) = log.try_next_entry() {
            prompts.apply(&entry);
        }
        prompts.list().iter().map(|prompt| prompt.turn).collect()
    }

    /// Returns the model's prompt for one more message, with paths replaced by fixed words.
    async fn told(&self) -> String {
        self.session.modes().set(Mode::Default).unwrap();
        turn(&self.session, "What now?").await;
        let prompt = format!("{:#?}", last_prompt(&self.model));
        let prompt = prompt.replace(&*self.project.path().to_string_lossy(), "PROJECT");
        prompt.replace(&*self.store.path().to_string_lossy(), "STORE")
    }
}

fn session_of(model: Arc<Says>, project: &Path, storage: Storage) -> Arc<Session> {
    let workspace = Workspace::new(project, &[]).unwrap();
    let scratch = Scratch::persistent(storage.directory().unwrap());
    session_in(model, RESULT, |parts| Parts {
        host: Host::new(workspace, terminals(), scratch, ToolLimits::default()),
        // No summary is begun in the background: the clock would decide which request finds the summary ready.
        upkeep: Upkeep { compress_at: 0.99, ..Upkeep::default() },
        storage,
        ..parts
    })
}

/// Returns the steps before a turn.
fn before(steps: &[Step], turn: TurnId) -> &[Step] {
    let mut turns = 0;
    let is_it = |step: &Step| {
        turns += u64::from(matches!(step, Step::Say(_)));
        turns == turn.0
    };
    &steps[..steps.iter().position(is_it).unwrap()]
}

#[tokio::test]
async fn the_model_is_told_what_it_was_told_before_the_prompt_and_nothing_since() {
    let mut rng = fastrand::Rng::with_seed(20_261_122);
    let mut seen = [0; 3];
    for _ in 0..30 {
        let steps = script(&mut rng);
        for restart in [Restart::Never, Restart::Before, Restart::After, Restart::Killed] {
            let mut stage = Stage::new();
            stage.run(&steps).await;
            let Some(turn) = rng.choice(stage.earlier()) else {
                stage.end().await;
                continue;
            };
            if restart == Restart::Before {
                stage.restart().await;
            }
            stage.run(&[Step::Say(format!("/rewind conversation {}", turn.0))]).await;
            if restart == Restart::Killed {
                stage.kill().await;
            }
            if matches!(restart, Restart::After | Restart::Killed) {
                stage.restart().await;
            }
            let without = Stage::new();
            without.run(before(&steps, turn)).await;
            let (told, expected) = (stage.told().await, without.told().await);
            assert_eq!(told, expected, "{steps:#?} back to {turn:?}, restart {restart:?}");
            let mut log = stage.session.events(0);
            for event in std::iter::from_fn(|| log.try_next()) {
                seen[0] += usize::from(matches!(*event, Event::Compressed(_)));
                seen[1] += usize::from(matches!(*event, Event::Masked(_)));
                seen[2] += usize::from(matches!(*event, Event::Rewound { .. }));
            }
            // A write after the directory's removal would make the directory anew.
            stage.end().await;
            without.end().await;
        }
    }
    assert!(seen.iter().zip([20, 5, 80]).all(|(seen, least)| *seen > least), "{seen:?}");
}
