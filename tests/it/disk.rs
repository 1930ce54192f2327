//! Disks that refuse, and processes that meet: the conversation continues, its user is told once, and no saved event
//! is lost.

mod growth;
mod order;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::{Value, json};
use tandem_agent::session::{Event, PromptPart, Query, Store as _};
use tandem_store::FileStore;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup, text};
use crate::lifecycle::signal;
use crate::needs::{Need, lacking};
use test_fakes::store::stored;

/// Words of the notice that a conversation cannot be saved.
const NOT_SAVED: &str = "not being saved";

/// Returns a model that repeats each prompt's first word, says much, or writes a file.
fn script() -> Setup {
    let long = json!({ "repeat": { "text": "word {n} of many, ", "times": 4000 } });
    let write = json!({ "call": { "name": "write_file",
                                  "args": { "file_path": "new.txt", "content": "new\n" } } });
    Setup::script(vec![
        json!({ "when": "much", "answers": [[long]] }),
        json!({ "when": "write", "answers": [[write], [{ "text": "written" }]] }),
        json!({ "when": "", "answers": [[{ "text": "fine" }]] }),
    ])
}

/// A home, its sessions, and agents in it.
struct Home {
    dir: TempDir,
    setup: Setup,
}

impl Home {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), setup: script() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn sessions(&self) -> PathBuf {
        self.path().join(".local/share/tandem/sessions")
    }

    fn store(&self) -> Arc<FileStore> {
        Arc::new(FileStore::new(self.sessions()))
    }

    /// Returns the id of the only session.
    async fn id(&self) -> String {
        let mut listed = self.store().list(&Query::default()).await.unwrap();
        assert_eq!(listed.len(), 1);
        listed.remove(0).head.id
    }

    /// Returns the texts of the prompts that are stored.
    async fn prompts(&self) -> Vec<String> {
        let events = stored(&*self.store(), &self.id().await).await;
        let prompt = |event: Event| match event {
            Event::TurnQueued { prompt, .. } => match &prompt[..] {
                [PromptPart::Text(text)] => Some(text.clone()),
                other => panic!("{other:?}"),
            },
            _ => None,
        };
        events.into_iter().filter_map(|(_, event)| prompt(event)).collect()
    }

    /// Starts an agent with these arguments, after these commands of a shell.
    fn start(&self, first: &str, args: &[&str]) -> Agent {
        let mut command = self.command(first, args);
        Agent::of(command.spawn().unwrap(), TempDir::new().unwrap())
    }

    fn command(&self, first: &str, args: &[&str]) -> Command {
        let command = self.setup.command(self.path());
        let agent = command.as_std();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{first} exec \"$@\""), "sh"])
            .arg(agent.get_program())
            .args(agent.get_args())
            .args(args)
            .env_clear()
            .envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(agent.get_current_dir().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        shell
    }

    /// Has the newest session go on, which works as if nothing had been.
    async fn goes_on(&self) {
        let mut agent = self.start("", &["--continue"]);
        let shown = ask(&mut agent, "go on").await;
        assert!(text(&shown).contains("fine") && told(&shown) == 0, "{shown:?}");
        end(agent).await;
    }

    /// Runs an agent that cannot start; returns its message.
    async fn refused(&self, first: &str, args: &[&str]) -> String {
        let mut command = self.command(first, args);
        let child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let output = timeout(HANG, child.wait_with_output()).await.expect("it waits").unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Has a prompt answered, which works whatever the disk does.
async fn ask(agent: &mut Agent, prompt: &str) -> Vec<Value> {
    let id = agent.prompt(prompt).await;
    let shown = agent.until_answered(id, "allow").await;
    assert_eq!(shown.last().unwrap()["result"], Value::Null, "{shown:?}");
    shown
}

/// Returns how often the user was told that the conversation is not saved.
fn told(shown: &[Value]) -> usize {
    shown.iter().filter(|message| message.to_string().contains(NOT_SAVED)).count()
}

async fn end(mut agent: Agent) {
    let (_, status) = agent.hang_up().await;
    assert!(status.success(), "{status}");
}

/// Words of a shell that take root's rights on files of others away.
fn without_privileges() -> &'static str {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { "setpriv --bounding-set=-all --inh-caps=-all" } else { "" }
}

#[tokio::test]
async fn a_disk_that_is_full_ends_no_conversation_and_takes_nothing_that_was_saved() {
    let home = Home::new();
    // The limit is 100 blocks of 512 bytes for each file.
    let mut agent = home.start("ulimit -f 100;", &[]);
    assert_eq!(told(&ask(&mut agent, "first").await), 0);
    let much = ask(&mut agent, "much").await;
    assert!(text(&much).contains("word 3999 of many"));
    let shown = [much, ask(&mut agent, "third").await].concat();
    assert_eq!(told(&shown), 1);
    end(agent).await;
    let log = home.sessions().join(home.id().await).join("log.jsonl");
    let log = fs::read(log).unwrap();
    assert!(log.ends_with(b"\n"), "half a line is left");
    assert_eq!(home.prompts().await[0], "first");
    home.goes_on().await;
}

#[tokio::test]
async fn a_disk_that_is_full_from_the_beginning_leaves_no_half_session() {
    let home = Home::new();
    let mut agent = home.start("ulimit -f 0;", &[]);
    let shown = [ask(&mut agent, "first").await, ask(&mut agent, "second").await].concat();
    assert_eq!(told(&shown), 1);
    end(agent).await;
    assert_eq!(fs::read_dir(home.sessions()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_said_once() {
    if lacking(Need::Setpriv) {
        return;
    }
    let home = Home::new();
    fs::create_dir_all(home.sessions()).unwrap();
    fs::set_permissions(home.sessions(), fs::Permissions::from_mode(0o500)).unwrap();
    let first = format!("set -- {} \"$@\";", without_privileges());
    let mut agent = home.start(&first, &[]);
    let shown = [ask(&mut agent, "first").await, ask(&mut agent, "second").await].concat();
    assert_eq!(told(&shown), 1);
    end(agent).await;
    fs::set_permissions(home.sessions(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(fs::read_dir(home.sessions()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_session_that_somebody_removes_meanwhile_is_saved_anew_and_whole() {
    for all in [true, false] {
        let home = Home::new();
        let mut agent = home.start("", &[]);
        ask(&mut agent, "first").await;
        let own = home.sessions().join(home.id().await);
        let removed = if all { home.sessions() } else { own };
        fs::remove_dir_all(&removed).unwrap();
        let shown = [ask(&mut agent, "write").await, ask(&mut agent, "third").await].concat();
        let words = |words: &str| {
            shown.iter().filter(|message| message.to_string().contains(words)).count()
        };
        assert_eq!((words("saved anew"), words(NOT_SAVED)), (1, 0));
        let written = fs::read_to_string(home.path().join("workspace/new.txt"));
        assert_eq!(written.unwrap(), "new\n");
        assert_eq!(home.prompts().await, ["first", "write", "third"]);
        // The log was saved anew, so no notice is left for the end of the agent.
        fs::remove_dir_all(removed).unwrap();
        end(agent).await;
        home.goes_on().await;
        assert_eq!(home.prompts().await.len(), 4);
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_named_and_stays_as_it_was() {
    if lacking(Need::Setpriv) {
        return;
    }
    let home = Home::new();
    let mut agent = home.start("", &[]);
    ask(&mut agent, "first").await;
    end(agent).await;
    let id = home.id().await;
    let log = home.sessions().join(&id).join("log.jsonl");
    let before = fs::read(&log).unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o0)).unwrap();
    let first = format!("set -- {} \"$@\";", without_privileges());
    let refused = home.refused(&first, &["--resume", &id]).await;
    assert!(refused.contains(&id), "{refused}");
    // Other sessions can still be stored.
    let mut agent = home.start(&first, &[]);
    assert_eq!(told(&ask(&mut agent, "second").await), 0);
    end(agent).await;
    fs::set_permissions(&log, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read(&log).unwrap(), before);
    assert_eq!(home.store().list(&Query::default()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_session_has_one_owner_whatever_becomes_of_the_file_that_names_it_or_of_the_owner() {
    let home = Home::new();
    let mut owner = home.start("", &[]);
    ask(&mut owner, "first").await;
    let pid = owner.child.id().unwrap();
    let refused = home.refused("", &["--continue"]).await;
    assert!(refused.contains(&format!("process {pid}")), "{refused}");
    signal(&owner, Signal::STOP);
    let refused = home.refused("", &["--continue"]).await;
    assert!(refused.contains(&format!("process {pid}")), "{refused}");
    fs::remove_file(home.sessions().join(home.id().await).join("owner.json")).unwrap();
    let refused = home.refused("", &["--continue"]).await;
    assert!(refused.contains("another process"), "{refused}");
    signal(&owner, Signal::CONT);
    assert_eq!(told(&ask(&mut owner, "second").await), 0);
    end(owner).await;
    assert_eq!(home.prompts().await, ["first", "second"]);
    home.goes_on().await;
    assert_eq!(home.prompts().await.len(), 3);
}
