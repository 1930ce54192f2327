//! Sessions that work in clones of git repositories. Each clone has snapshots with which another node continues.

mod attacks;
mod reached;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tandem_agent::session::{Query, Store};
use tandem_git::{GitError, GitLimits, GitWorkspaces, Repository, cleaning};
use tandem_host::terminals::Supervisor;
use tandem_store::FileStore;
use tempfile::TempDir;
use test_fakes::postgres::{Cluster, Database};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::nodes::{Node, in_context};
use super::server::{Client, Served, ends, first_part, kind, serve, works_in};
use crate::agent::{HANG, Setup};
use crate::family::{is_gone, make_fifo};
use crate::limit::wait_until;

/// A repository that a server's sessions work in, and the home of the servers.
struct Remote {
    home: TempDir,
    /// The bare repository.
    path: PathBuf,
}

impl Remote {
    /// Makes a repository with a commit on the branch `main`.
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let (path, source) = (home.path().join("remote.git"), home.path().join("source"));
        fs::create_dir(&source).unwrap();
        git(&source, &["init", "-q", "-b", "main"]);
        for (name, content) in
            [("kept.txt", "kept\n"), ("gone.txt", "gone\n"), (".gitignore", "*.o\n")]
        {
            fs::write(source.join(name), content).unwrap();
        }
        fs::create_dir(source.join("dir")).unwrap();
        fs::write(source.join("dir/inside.txt"), "inside\n").unwrap();
        git(&source, &["add", "-A"]);
        git(&source, &["commit", "-q", "-m", "first"]);
        git(home.path(), &["clone", "-q", "--bare", "source", "remote.git"]);
        Self { home, path }
    }

    fn url(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns a setup whose server works in clones of the repository, in this directory of the home.
    fn clones(&self, setup: &Setup, directory: &str) -> Setup {
        let directory = self.home.path().join(directory);
        let setup = setup.clone().arg("--workspace-git").arg(&self.url());
        setup.arg("--workspaces").arg(directory.to_str().unwrap())
    }

    /// Starts a node of a database with clones in a directory of its own, as on a machine of its own.
    async fn node(&self, setup: &Setup, directory: &str, database: &Database<'_>) -> Node {
        Node::start(&self.clones(setup, directory), self.home.path(), database).await
    }

    /// Returns the only clone in a directory of the home.
    fn clone_in(&self, directory: &str) -> PathBuf {
        let entries = fs::read_dir(self.home.path().join(directory)).unwrap();
        let mut clones = entries.map(|entry| entry.unwrap().path());
        clones.find(|path| path.extension().is_none()).expect("there is no clone")
    }

    /// Returns the reference of the only session's snapshot.
    fn snapshot(&self) -> String {
        let refs = git(&self.path, &["for-each-ref", "--format=%(objectname)", "refs/tandem"]);
        assert_eq!(refs.lines().count(), 1, "{refs}");
        refs
    }
}

/// Runs git; returns its output.
fn git(directory: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=me", "-c", "user.email=me@example"]).args(args);
    git.current_dir(directory).env_remove("GIT_DIR");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let ran = git.output().unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim_end_matches('\n').to_owned()
}

fn shell(command: &str) -> Value {
    json!({ "call": { "name": "run_shell_command", "args": { "command": command } } })
}

/// Returns a model that runs this command for the prompt `change`, and says hello to every other prompt.
fn changes(command: &str) -> Setup {
    let change = json!([[shell(command)], [{ "text": "changed" }]]);
    Setup::script(vec![
        json!({ "when": "change", "answers": change }),
        json!({ "when": "", "answers": [[{ "text": "hello" }]] }),
    ])
    .arg("--resume-turns=never")
}

async fn turn(client: Client, text: &str) -> Value {
    client.result("message/send", in_context("c", text)).await
}

async fn completed(client: Client, text: &str) {
    let task = turn(client, text).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
}

/// Returns the events of a kind that are in the database, as text.
fn kept(database: &Database<'_>, kind: &str) -> String {
    database.sql(&format!("select body from tandem.batch where body like '%\"{kind}\"%'"))
}

const WORK: &str = "git checkout -q -b feature && echo work > work.txt && git add work.txt && \
    git -c user.name=m -c user.email=m@example commit -q -m work && echo more >> kept.txt && \
    rm gone.txt && echo new > 'new file.txt' && chmod +x 'new file.txt' && ln -s kept.txt link && \
    mkdir sub && echo deep > sub/deep.txt && echo object > ignored.o";

#[tokio::test]
async fn when_a_node_is_killed_another_goes_on_with_the_same_files() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, remote) = (cluster.database(), Remote::new());
    // The commands of the test commit. In the sandbox, the user would be asked about commits.
    let setup = changes(WORK).without_sandbox();
    let mut first = remote.node(&setup, "a", &database).await;
    let second = remote.node(&setup, "b", &database).await;
    completed(first.client, "change").await;
    assert!(remote.clone_in("a").join("ignored.o").exists(), "another node had the session");
    // The task is completed only when the snapshot is pushed, so the node can be killed now.
    first.child.kill().await.unwrap();
    completed(second.client, "hi").await;

    let clone = remote.clone_in("b");
    let read = |name: &str| fs::read_to_string(clone.join(name)).unwrap();
    assert_eq!(
        (read("kept.txt"), read("new file.txt")),
        ("kept\nmore\n".to_owned(), "new\n".to_owned())
    );
    assert_eq!(
        (read("sub/deep.txt"), read("work.txt")),
        ("deep\n".to_owned(), "work\n".to_owned())
    );
    assert_eq!(fs::read_link(clone.join("link")).unwrap(), Path::new("kept.txt"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&clone.join("new file.txt")) & 0o100, 0o100);
    assert_eq!(mode(&clone), 0o700);
    assert!(!clone.join("gone.txt").exists(), "{}", kept(&database, "Notice"));
    assert!(!clone.join("ignored.o").exists(), "{}", kept(&database, "Notice"));
    assert_eq!(git(&clone, &["branch", "--show-current"]), "feature");
    assert_eq!(git(&clone, &["log", "--format=%s"]), "work\nfirst");
    let status = " M kept.txt\n D gone.txt\n?? link\n?? \"new file.txt\"\n?? sub/";
    let mut expected: Vec<_> = status.lines().collect();
    let status = git(&clone, &["-c", "core.quotePath=false", "status", "--porcelain"]);
    let mut status: Vec<_> = status.lines().collect();
    status.sort_unstable();
    expected.sort_unstable();
    assert_eq!(status, expected);
    assert_eq!(git(&clone, &["remote", "get-url", "origin"]), remote.url());
    assert_eq!(kept(&database, "Notice"), "", "nothing is lost");
}

#[tokio::test]
async fn a_session_that_changes_nothing_pushes_nothing_and_tasks_say_where_their_files_are() {
    let (remote, setup) = (Remote::new(), changes("echo new > new.txt"));
    let server = served(&remote, &setup).await;
    let main = git(&remote.path, &["rev-parse", "main"]);
    let refs = || git(&remote.path, &["for-each-ref", "refs/tandem"]);
    for text in ["hi", "hi again"] {
        let task = turn(server.client, text).await;
        assert_eq!(task["metadata"]["git"], json!({ "commit": main }), "{task}");
        assert_eq!(refs(), "");
    }
    let events =
        server.client.stream("message/stream", in_context("c", "change")).await.rest().await;
    let name = git(&remote.path, &["for-each-ref", "--format=%(refname)", "refs/tandem"]);
    let place = json!({ "ref": name, "commit": remote.snapshot() });
    assert_eq!(events.last().unwrap()["metadata"]["git"], place);
    let task = server.client.result("GetTask", json!({ "id": "c.3" })).await;
    assert_eq!(task["metadata"]["git"], place);
    // The second turn has changed no file, so the snapshot is the same.
    let task = turn(server.client, "hi").await;
    assert_eq!(task["metadata"]["git"], place);
    // Each task has the place of the files at its own end.
    let task = server.client.result("GetTask", json!({ "id": "c.1" })).await;
    assert_eq!(task["metadata"]["git"], json!({ "commit": main }));
}

#[tokio::test]
async fn another_node_goes_on_where_nothing_was_changed_and_says_if_the_branch_has_moved() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, remote) = (cluster.database(), Remote::new());
    let setup = changes("true");
    let mut first = remote.node(&setup, "a", &database).await;
    let mut second = remote.node(&setup, "b", &database).await;
    completed(first.client, "hi").await;
    first.child.kill().await.unwrap();
    completed(second.client, "hi").await;
    assert_eq!(kept(&database, "Notice"), "", "nothing is lost");
    let source = remote.home.path().join("source");
    git(&source, &["commit", "-q", "--allow-empty", "-m", "second"]);
    git(&source, &["push", "-q", remote.path.to_str().unwrap(), "main"]);
    second.child.kill().await.unwrap();
    let third = remote.node(&setup, "c", &database).await;
    completed(third.client, "hi").await;
    let notice = kept(&database, "Notice");
    assert!(notice.contains("at another commit than before"), "{notice}");
}

/// Starts a server of clones of a repository, whose sessions are in files.
async fn served(remote: &Remote, setup: &Setup) -> Served {
    serve(&remote.clones(setup, "clones").arg("-y")).await
}

/// Returns the text of all logs of a server.
fn logs(server: &Served) -> String {
    let sessions = server.home.path().join(".local/share/tandem/sessions");
    let logs = fs::read_dir(sessions).unwrap().map(|entry| entry.unwrap().path().join("log.jsonl"));
    logs.filter(|log| log.exists()).map(|log| fs::read_to_string(log).unwrap()).collect()
}

#[tokio::test]
async fn a_push_that_is_refused_is_said_and_made_up_for() {
    let (remote, setup) = (Remote::new(), changes("echo new > new.txt"));
    let hook = before_a_push(&remote, "echo read-only today >&2; exit 1");
    let server = served(&remote, &setup).await;
    completed(server.client, "change").await;
    let log = logs(&server);
    assert!(log.contains("The workspace is not saved: `git push`"), "{log}");
    assert!(log.contains("read-only today"), "{log}");
    fs::remove_file(&hook).unwrap();
    completed(server.client, "hi").await;
    assert_eq!(git(&remote.path, &["show", &format!("{}:new.txt", remote.snapshot())]), "new");
}

/// Makes the repository run a script before it accepts a push.
fn before_a_push(remote: &Remote, script: &str) -> PathBuf {
    let hook = remote.path.join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o700)).unwrap();
    hook
}

#[tokio::test]
async fn a_turn_whose_push_does_not_end_can_be_cancelled_and_the_next_makes_up_for_it() {
    let (remote, setup) = (Remote::new(), changes("echo new > new.txt"));
    let held = remote.home.path().join("held");
    make_fifo(&held);
    let mut holders = pipe::OpenOptions::new().open_receiver(&held).unwrap();
    let script = format!("exec 3>'{}'; echo waits >&3; sleep 1000", held.display());
    let hook = before_a_push(&remote, &script);
    let server = served(&remote, &setup).await;
    let mut stream = server.client.stream("message/stream", in_context("c", "change")).await;
    let task = stream.next().await.unwrap()["id"].clone();
    let mut word = [0; 6];
    timeout(HANG, async {
        // Before the hook opens the pipe, a read finds the pipe at its end.
        while holders.read(&mut word).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("nothing is pushed");
    let cancelled = server.client.result("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(cancelled["status"]["state"], "canceled", "{cancelled}");
    // The cancel has ended the push and the hook.
    is_gone(holders).await;
    let log = logs(&server);
    assert!(log.contains("The workspace is not saved: the turn was cancelled"), "{log}");
    fs::remove_file(&hook).unwrap();
    completed(server.client, "hi").await;
    assert_eq!(git(&remote.path, &["show", &format!("{}:new.txt", remote.snapshot())]), "new");
}

#[tokio::test]
async fn what_is_too_large_to_be_saved_is_not_pushed_until_it_is_less() {
    const COMMIT: &str = "git -c user.name=m -c user.email=m@example commit -q -m";
    let remote = Remote::new();
    let does = |when: &str, command: &str| json!({ "when": when, "answers": [[shell(command)], [{ "text": "done" }]] });
    let setup = Setup::script(vec![
        does("write", "for n in 1 2 3; do head -c 50000 /dev/urandom > large-$n; done"),
        does("ignore", "echo 'large-*' >> .gitignore"),
        does("commit", &format!("git add -f large-1 large-2 large-3 && {COMMIT} large")),
        does("undo", "git reset -q HEAD~1"),
    ]);
    let setup = setup.without_sandbox().arg("--limit").arg("git-snapshot-bytes=100000");
    let server = served(&remote, &setup).await;
    let text = "more than 100000 bytes would be pushed; delete files that need not be saved";
    let pushed = || git(&remote.path, &["for-each-ref", "--format=%(objectname)", "refs/tandem"]);
    completed(server.client, "write").await;
    assert_eq!((logs(&server).matches(text).count(), &*pushed()), (1, ""));
    completed(server.client, "ignore").await;
    assert_eq!(logs(&server).matches(text).count(), 1);
    let first = remote.snapshot();
    completed(server.client, "commit").await;
    assert_eq!((logs(&server).matches(text).count(), pushed()), (2, first));
    completed(server.client, "undo").await;
    assert_eq!(logs(&server).matches(text).count(), 2);
    let names = git(&remote.path, &["ls-tree", "--name-only", &remote.snapshot()]);
    assert!(names.contains("kept.txt") && !names.contains("large"), "{names}");
}

#[tokio::test]
async fn what_an_interrupted_turn_changed_is_said_to_be_lost() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, remote) = (cluster.database(), Remote::new());
    let change = json!([[shell("echo saved > saved.txt")], [{ "text": "changed" }]]);
    let hang = json!([[shell("echo lost > lost.txt")], [{ "text": "begun" }, { "hang": null }]]);
    let setup = Setup::script(vec![
        json!({ "when": "change", "answers": change }),
        json!({ "when": "hang", "answers": hang }),
        json!({ "when": "", "answers": [[{ "text": "hello" }]] }),
    ]);
    let setup = setup.arg("--resume-turns=never");
    let mut first = remote.node(&setup, "a", &database).await;
    let second = remote.node(&setup, "b", &database).await;
    completed(first.client, "change").await;
    let mut stream = first.client.stream("message/stream", in_context("c", "hang")).await;
    stream
        .until(|event| kind(event) == "TEXT_CONTENT" && first_part(event)["text"] == "begun")
        .await;
    assert!(remote.clone_in("a").join("lost.txt").exists());
    first.child.kill().await.unwrap();
    completed(second.client, "hi").await;
    let clone = remote.clone_in("b");
    assert!(clone.join("saved.txt").exists() && !clone.join("lost.txt").exists());
    let text = "the changes of that turn are lost";
    assert!(kept(&database, "Notice").contains(text));
    assert!(kept(&database, "ToldNext").contains(text), "the model is told");
    // The session has gone on at the second node, so the older clone of the first node is brought to the session's
    // last snapshot.
    drop(second);
    let first = remote.node(&setup, "a", &database).await;
    completed(first.client, "hi").await;
    assert!(!remote.clone_in("a").join("lost.txt").exists());
}

#[tokio::test]
async fn a_server_that_is_started_again_goes_on_in_its_clone_although_the_repository_is_away() {
    let change = json!([[shell("echo mine > mine.txt")], [{ "text": "begun" }, { "hang": null }]]);
    let setup = Setup::script(vec![
        json!({ "when": "change", "answers": change }),
        json!({ "when": "", "answers": [[{ "text": "hello" }]] }),
    ]);
    let (remote, setup) = (Remote::new(), setup.arg("--resume-turns=never"));
    let server = served(&remote, &setup).await;
    completed(server.client, "hi").await;
    let mut stream = server.client.stream("message/stream", in_context("c", "change")).await;
    stream
        .until(|event| kind(event) == "TEXT_CONTENT" && first_part(event)["text"] == "begun")
        .await;
    let away = remote.path.with_extension("away");
    fs::rename(&remote.path, &away).unwrap();
    let server = server.killed(&remote.clones(&setup, "clones").arg("-y")).await;
    completed(server.client, "hi").await;
    assert!(remote.clone_in("clones").join("mine.txt").exists());
    let log = logs(&server);
    assert!(!log.contains("is lost") && log.contains("The workspace is not saved"), "{log}");
    fs::rename(&away, &remote.path).unwrap();
    completed(server.client, "hi").await;
    assert_eq!(git(&remote.path, &["show", &format!("{}:mine.txt", remote.snapshot())]), "mine");
}

#[tokio::test]
async fn with_a_session_its_clone_and_its_snapshot_are_deleted() {
    let (remote, setup) = (Remote::new(), changes("echo new > new.txt"));
    let mut server = served(&remote, &setup).await;
    completed(server.client, "change").await;
    let id = remote.clone_in("clones").file_name().unwrap().to_str().unwrap().to_owned();
    remote.snapshot();
    server.child.kill().await.unwrap();
    let workspaces = workspaces(&remote, "clones");
    let store = cleaning(stored(&server), &workspaces).await.unwrap();
    store.delete(&id).await.unwrap();
    assert_eq!(git(&remote.path, &["for-each-ref", "refs/tandem"]), "");
    assert_eq!(fs::read_dir(workspaces.directory()).unwrap().count(), 0);
    assert!(store.head(&id).await.is_err());
}

/// Returns the clones of a repository in a directory of the home, as another server opens them.
fn workspaces(remote: &Remote, directory: &str) -> Arc<GitWorkspaces> {
    let repository: Repository = remote.url().parse().unwrap();
    let (clones, supervisor) = (remote.home.path().join(directory), Supervisor::new());
    let limits = GitLimits::default();
    Arc::new(GitWorkspaces::new(&clones, vec![repository], &supervisor, limits).unwrap())
}

/// Returns the store of a server's sessions, as another process opens it.
fn stored(server: &Served) -> Arc<dyn Store> {
    Arc::new(FileStore::new(server.home.path().join(".local/share/tandem/sessions")))
}

#[tokio::test]
async fn the_clone_of_a_session_that_another_process_has_deleted_is_removed_and_nothing_else() {
    let (remote, setup) = (Remote::new(), changes("echo new > new.txt"));
    let mut server = served(&remote, &setup).await;
    for context in ["deleted", "stays"] {
        let sent = in_context(context, &format!("change {context}"));
        let task = server.client.result("message/send", sent).await;
        assert_eq!(task["status"]["state"], "completed", "{task}");
    }
    server.child.kill().await.unwrap();
    let clones = remote.home.path().join("clones");
    fs::create_dir_all(clones.join("notes.git")).unwrap();
    let foreign = "0199d4b6-7c8e-7d3a-8f00-0123456789ab";
    fs::create_dir_all(clones.join(foreign)).unwrap();
    git(&clones, &["init", "-q", "--bare", &format!("{foreign}.git")]);
    let there = || {
        let entries = fs::read_dir(&clones).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let (all, store) = (there(), stored(&server));
    let sessions = store.list(&Query::default()).await.unwrap();
    let named = |title: &str| sessions.iter().find(|it| it.title == title).unwrap().head.id.clone();
    let [id, other] = [named("change deleted"), named("change stays")];
    store.delete(&id).await.unwrap();

    // A sweep with a store of other sessions removes nothing, and neither does a sweep with a store whose sessions
    // are missing for a while.
    let elsewhere = TempDir::new().unwrap();
    let another: Arc<dyn Store> = Arc::new(FileStore::new(elsewhere.path().to_owned()));
    let swept = workspaces(&remote, "clones");
    let _cleaning = cleaning(Arc::clone(&another), &swept).await.unwrap();
    swept.sweep(&*another).await.unwrap();
    assert_eq!(there(), all);
    let swept = workspaces(&remote, "clones");
    let in_use = swept.workspace(&id, &swept.repositories()[0]).unwrap();
    let cleaning = cleaning(Arc::clone(&store), &swept).await.unwrap();
    swept.sweep(&*store).await.expect("a clone that is in use stays");
    // The task that sweeps from time to time would remove the clone at a time of its own, so the task ends here.
    drop(cleaning);
    drop(in_use);
    assert!(matches!(swept.sweep(&*another).await, Err(GitError::StoreLost)));
    assert_eq!(there(), all);

    swept.sweep(&*store).await.unwrap();
    let rest: Vec<_> = all.iter().filter(|name| !name.starts_with(&id)).cloned().collect();
    assert_eq!(there(), rest);
    let refs = git(&remote.path, &["for-each-ref", "--format=%(refname)", "refs/tandem"]);
    assert_eq!(refs, format!("refs/tandem/{other}"));
}

#[tokio::test]
async fn a_session_of_a_database_that_is_deleted_leaves_no_clone_at_any_node() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, remote) = (cluster.database(), Remote::new());
    let setup = changes("echo new > new.txt");
    let mut first = remote.node(&setup, "a", &database).await;
    let mut second = remote.node(&setup, "b", &database).await;
    completed(first.client, "change").await;
    first.child.kill().await.unwrap();
    completed(second.client, "change").await;
    second.child.kill().await.unwrap();
    assert_eq!(remote.clone_in("a").file_name(), remote.clone_in("b").file_name());
    let store = database.connect().await;
    let id = remote.clone_in("a").file_name().unwrap().to_str().unwrap().to_owned();
    store.delete(&id).await.unwrap();
    for directory in ["a", "b"] {
        let _node = remote.node(&setup, directory, &database).await;
        let clones = remote.home.path().join(directory);
        let are_gone = || fs::read_dir(&clones).unwrap().count() == 0;
        wait_until("the end of the clones", are_gone).await;
    }
    assert_eq!(git(&remote.path, &["for-each-ref", "refs/tandem"]), "");
}

#[tokio::test]
async fn a_client_works_in_a_repository_that_the_server_was_started_with_and_in_no_other() {
    let (remote, setup) = (Remote::new(), changes("true"));
    git(&remote.home.path().join("source"), &["checkout", "-q", "-b", "old"]);
    fs::write(remote.home.path().join("source/old.txt"), "old\n").unwrap();
    git(&remote.home.path().join("source"), &["add", "-A"]);
    git(&remote.home.path().join("source"), &["commit", "-q", "-m", "old"]);
    git(&remote.home.path().join("source"), &["push", "-q", &remote.url(), "old"]);
    let old = format!("{}#old", remote.url());
    let server = serve(&remote.clones(&setup, "clones").arg("--workspace-git").arg(&old)).await;
    let named = |name: &str, text: &str| works_in(Path::new(name), in_context("c", text));
    let task = server.client.result("message/send", named(&old, "hi")).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
    let clone = remote.clone_in("clones");
    assert!(clone.join("old.txt").exists());
    assert_eq!(git(&clone, &["branch", "--show-current"]), "old");
    // A later message with the same workspace goes on in it. A message with another workspace is refused.
    server.client.result("message/send", named(&old, "hi")).await;
    let source = remote.home.path().join("source").display().to_string();
    let named = |name: &str, text: &str| works_in(Path::new(name), in_context("new", text));
    for other in [&*source, "/etc", "ext::id", &format!("{}#other", remote.url())] {
        let (_, why) = server.client.error("message/send", named(other, "hi")).await;
        assert!(why.contains("no session may work there") && why.contains(&old), "{why}");
    }
}

#[tokio::test]
async fn a_repository_that_cannot_be_cloned_is_said_and_no_credentials_with_it() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://me:sesame@{}/a.git", closed.local_addr().unwrap());
    drop(closed);
    let remote = Remote { home: TempDir::new().unwrap(), path: PathBuf::from(url) };
    let setup = changes("true").var("TANDEM_LOG", "debug");
    let server = served(&remote, &setup).await;
    let task = turn(server.client, "hi").await;
    assert_eq!(task["status"]["state"], "failed", "{task}");
    let why = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(why.starts_with("The workspace could not be brought back: `git fetch`: "), "{why}");
    assert!(why.ends_with("`/continue` tries again."), "{why}");
    let said = server.said.lock().unwrap().clone();
    for text in [why, &*logs(&server), &*said] {
        assert!(!text.contains("sesame"), "{text}");
    }
    assert!(!task.to_string().contains("sesame") && !task.to_string().contains("me:"), "{task}");
    assert!(!ends(&task), "it is a task");
}

#[tokio::test]
async fn an_untracked_file_that_is_too_large_is_left_out_and_that_is_said_once() {
    let (remote, setup) =
        (Remote::new(), changes("head -c 2000 /dev/zero > large.bin; echo x > small.txt"));
    let server = served(&remote, &setup.arg("--limit").arg("git-file-bytes=1000")).await;
    completed(server.client, "change").await;
    completed(server.client, "hi").await;
    let said = "1 file is larger than";
    assert_eq!(logs(&server).matches(said).count(), 1);
    let names = git(&remote.path, &["ls-tree", "--name-only", &remote.snapshot()]);
    assert!(names.contains("small.txt") && !names.contains("large.bin"), "{names}");
}
