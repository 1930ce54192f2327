//! A server in this process: ends of streams and tasks, versions, limits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tandem_agent::session::{Access, Answer, Origin, Parts, Session, Store as _, ToolOutput};
use tandem_agent::sessions::{LoadedSession, MakeSession, SessionLimits, Sessions};
use tandem_host::{Tool, ToolKind};
use tandem_model::replay::Replay;
use tandem_store::FileStore;
use test_fakes::postgres::Cluster;
use test_fakes::store::Faulty;
use test_fakes::{Fake, other, parts, session};
use test_served::{LONG, Server, shared};
use test_support::limit::wait_until;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// Serves one session, whose model gives this answer to every prompt.
async fn serve_shared(answers: Value) -> Server {
    Server::of(shared(asking(answers))).await
}

/// Serves as many sessions as clients begin.
async fn serve_each(answers: Value, most: usize) -> Server {
    serve_patient(answers, most, LONG).await
}

/// Serves sessions as [`serve_each`] does, with a time limit for questions.
async fn serve_patient(answers: Value, most: usize, question: Duration) -> Server {
    let make: MakeSession = Arc::new(move |_, _| Ok(asking(answers.clone())));
    let limits = SessionLimits { loaded: most, idle: Some(10 * question), log_bytes: 1 << 20 };
    Server::registry(Sessions::new(make, limits), question).await
}

/// Serves sessions as [`serve_patient`] does, and stores them.
async fn serve_stored(answers: Value, most: usize, question: Duration) -> Stored {
    let home = tempfile::tempdir().unwrap();
    let script = json!({ "when": "", "answers": answers }).to_string();
    let make: MakeSession = Arc::new(move |_, storage| {
        let model = Arc::new(Replay::from_script(&script).unwrap());
        Ok(Session::new(Parts { storage, ..parts(model) }))
    });
    let limits = SessionLimits { loaded: most, idle: Some(question), log_bytes: 1 << 20 };
    let store = Arc::new(FileStore::new(home.path().to_owned()));
    let sessions = Sessions::with_store(make, limits, Some(store));
    let server = Server::registry(Arc::clone(&sessions), question).await;
    Stored { server, sessions, _home: home }
}

/// A server whose sessions are kept in a store.
struct Stored {
    server: Server,
    sessions: Arc<Sessions>,
    _home: tempfile::TempDir,
}

impl Stored {
    /// Ends all sessions, and waits until they are stored, so that no session is written after its directory was
    /// removed.
    async fn end(self) {
        self.sessions.close("the test is over");
        timeout(LONG, self.sessions.wait_all_stored()).await.unwrap();
    }

    /// Sends a prompt in a context. Returns `true` if the context is new, and the number of its messages.
    async fn say(&self, context: &str) -> (bool, usize) {
        let sent = self.server.call("message/send", message(json!({ "contextId": context }))).await;
        let task = &sent["result"];
        let history = task["history"].as_array().unwrap_or_else(|| panic!("{sent}")).len();
        (task["metadata"]["unknownContext"] == "new", history)
    }

    fn loaded(&self) -> Vec<String> {
        self.sessions.loaded().iter().map(|loaded| loaded.id().to_owned()).collect()
    }
}

struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn open(server: &Server) -> Self {
        let url = format!("ws://127.0.0.1:{}/ws", server.port);
        let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        Self(client_async(url, stream).await.unwrap().0)
    }

    async fn send(&mut self, id: i64, method: &str, params: Value) {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.0.send(Message::text(call.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Message {
        timeout(LONG, self.0.next()).await.expect("silence").unwrap().unwrap()
    }

    /// Skips frames until one fits; returns it.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Message::Text(text) = self.next().await {
                let frame = serde_json::from_str(&text).unwrap();
                if fits(&frame) {
                    return frame;
                }
            }
        }
    }
}

fn asking(answers: Value) -> Arc<Session> {
    session(answers, vec![Fake::new("t", ToolKind::Other, other())])
}

fn said() -> Value {
    json!([[{ "text": "done" }]])
}

fn hanging() -> Value {
    json!([[{ "hang": null }]])
}

/// Returns the answers of a model that makes one call, which is asked about, and then ends the turn.
fn one_call() -> Value {
    json!([[{ "call": { "name": "t" } }], [{ "text": "done" }]])
}

fn message(more: Value) -> Value {
    let mut message = json!({
        "messageId": uuid::Uuid::new_v4().to_string(), "role": "user", "parts": [{ "text": "go" }],
    });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "message": message })
}

/// Returns parameters of a message that does not wait for the turn's end.
fn at_once(more: Value) -> Value {
    let mut params = message(more);
    params["configuration"] = json!({ "returnImmediately": true, "blocking": false });
    params
}

#[tokio::test]
async fn a_task_that_was_cancelled_cannot_be_cancelled_again() {
    let server = serve_shared(hanging()).await;
    let task = server.call("message/send", at_once(json!({}))).await["result"].clone();
    let id = json!({ "id": task["id"] });
    let first = server.call("tasks/cancel", id.clone()).await;
    assert_eq!(first["result"]["status"]["state"], "canceled", "{first}");
    let second = server.call("tasks/cancel", id).await;
    assert_eq!(second["error"]["code"], -32002, "{second}");
}

#[tokio::test]
async fn a_task_can_be_cancelled_before_anything_is_said() {
    let server = serve_each(said(), 9).await;
    let id: Value = serde_json::from_str(&server.post("/tasks", "", &json!({})).await).unwrap();
    let cancelled = server.call("tasks/cancel", json!({ "id": id })).await;
    assert_eq!(cancelled["result"]["status"]["state"], "canceled", "{cancelled}");
    let got = server.call("tasks/get", json!({ "id": id })).await;
    assert_eq!(got["result"]["status"]["state"], "canceled", "{got}");
}

#[tokio::test]
async fn who_waits_for_a_turn_is_told_of_that_turn_although_the_next_one_runs() {
    let session = asking(json!([[{ "delay": 200 }, { "text": "done" }]]));
    let server = Server::of(shared(Arc::clone(&session))).await;
    let second = async {
        wait_until("the first turn", || session.turns().running().is_some()).await;
        server.call("message/send", at_once(json!({}))).await
    };
    let (first, second) = tokio::join!(server.call("message/send", message(json!({}))), second);
    assert_eq!(first["result"]["status"]["state"], "completed", "{first}");
    assert_eq!(first["result"]["artifacts"][0]["parts"][0]["text"], "done", "{first}");
    assert_eq!(second["result"]["status"]["state"], "submitted", "{second}");
}

#[tokio::test]
async fn a_message_for_a_task_that_waits_is_told_which_question_is_open() {
    let (gate, opens) = tokio::sync::watch::channel(false);
    let waits = Fake::new("wait", ToolKind::Read, Access::Read).running(move |_| {
        let mut opens = opens.clone();
        async move {
            let _ = opens.wait_for(|open| *open).await;
            Ok(ToolOutput::new("ran", "ran"))
        }
    });
    let answers = json!([
        [{ "call": { "name": "wait" } }],
        [{ "call": { "name": "t" } }],
        [{ "text": "done" }],
    ]);
    let session = session(answers, vec![waits, Fake::new("t", ToolKind::Other, other())]);
    let server = Server::of(shared(Arc::clone(&session))).await;
    let send = async |message| {
        let sent = server.call("SendMessage", message).await;
        sent["result"]["task"].clone()
    };
    let first = send(at_once(json!({}))).await;
    let second = send(at_once(json!({}))).await;
    assert_eq!(second["status"]["state"], "TASK_STATE_SUBMITTED", "{second}");
    gate.send(true).unwrap();
    wait_until("the question", || !session.questions().open_now().is_empty()).await;
    let said = json!({ "taskId": second["id"], "parts": [{ "text": "yes" }] });
    let told = timeout(LONG, send(message(said))).await.expect("it hangs");
    assert_eq!(told["id"], first["id"], "{told}");
    assert_eq!(told["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{told}");
    assert!(!session.questions().open_now().is_empty());
}

#[tokio::test]
async fn a_version_is_a_number_and_its_refusal_has_the_id_of_the_request() {
    let server = serve_shared(said()).await;
    for (version, code) in
        [("99.0", -32009), ("10.0", -32009), ("", -32001), ("1.0", -32001), ("0.3.0", -32001)]
    {
        let call =
            json!({ "jsonrpc": "2.0", "id": "x", "method": "GetTask", "params": { "id": "?" } });
        let answer = server.post("/", &format!("A2A-Version: {version}\r\n"), &call).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &json!("x")),
            "{version}"
        );
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_turn_also_for_who_has_seen_the_end() {
    let server = serve_shared(said()).await;
    let params = json!({ "command_path": ["about"] });
    let id = server.call("command/execute", params).await["result"]["execution_id"].clone();
    let again = async |last: Option<&str>| {
        let params = json!({ "id": id, "metadata": { "lastEventId": last } });
        let call =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": params });
        server.post("/", "", &call).await
    };
    let all = again(None).await;
    let last = all.lines().rfind(|line| line.contains("eventId")).unwrap();
    let last: Value = serde_json::from_str(last.trim_start_matches("data: ")).unwrap();
    let rest = again(last["result"]["metadata"]["eventId"].as_str()).await;
    assert_eq!(rest.matches("data: ").count(), 1, "the task alone: {rest}");
}

#[tokio::test]
async fn all_streams_of_a_turn_end_with_it() {
    let server = serve_shared(one_call()).await;
    let mut socket = Socket::open(&server).await;
    socket.send(1, "message/stream", message(json!({}))).await;
    let asked = |frame: &Value| frame["result"]["status"]["state"] == "input-required";
    let asked = socket.until(asked).await;
    let task = &asked["result"]["taskId"];
    let call = &asked["result"]["status"]["message"]["parts"][1]["data"]["tool_call_id"];
    socket.until(|frame| frame["streamEnd"] == true).await;
    // Stream 2 goes on after the question, and stream 3 brings the answer. Both show what follows the answer.
    let metadata = json!({ "lastEventId": asked["result"]["metadata"]["eventId"] });
    socket.send(2, "tasks/resubscribe", json!({ "id": task, "metadata": metadata })).await;
    let answer = json!([{ "data": { "toolCallId": call, "approved": true } }]);
    socket.send(3, "message/stream", message(json!({ "taskId": task, "parts": answer }))).await;
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.push(socket.until(|frame| frame["streamEnd"] == true).await["id"].clone());
    }
    assert_eq!(ended, [2, 3]);
}

#[tokio::test]
async fn commands_do_not_say_which_version_a_client_speaks() {
    let server = serve_shared(said()).await;
    let mut socket = Socket::open(&server).await;
    socket.send(1, "commands/get", json!({})).await;
    socket.until(|frame| frame["id"] == 1).await;
    socket.send(2, "SendStreamingMessage", message(json!({}))).await;
    socket.until(|frame| !frame["result"]["task"].is_null()).await;
    let next = socket.until(|_| true).await;
    assert_eq!(next["result"]["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING", "{next}");
}

#[tokio::test]
async fn a_ping_does_not_count_as_a_clients_first_word() {
    let server = serve_shared(said()).await;
    let mut socket = Socket::open(&server).await;
    socket.0.send(Message::Ping(Vec::new().into())).await.unwrap();
    socket.send(0, "initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(socket.until(|_| true).await, json!({ "acp": true }));
}

#[tokio::test]
async fn a_farewell_is_answered() {
    let server = serve_shared(said()).await;
    let mut socket = Socket::open(&server).await;
    socket.0.close(None).await.unwrap();
    assert!(matches!(socket.next().await, Message::Close(_)));
}

#[tokio::test]
async fn in_version_1_a_message_to_a_task_that_waits_leaves_the_running_ones_question_open() {
    let server = serve_shared(one_call()).await;
    let task = async |params| server.call("SendMessage", params).await["result"]["task"].clone();
    let asking = task(message(json!({}))).await;
    let waiting = task(at_once(json!({}))).await;
    task(at_once(json!({ "taskId": waiting["id"] }))).await;
    // The message must not answer the question. No event would show this, so the test waits a moment.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let got = server.call("GetTask", json!({ "id": asking["id"] })).await;
    assert_eq!(got["result"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{got}");
}

#[tokio::test]
async fn notifications_of_tasks_that_have_ended_make_room_for_others() {
    let server = serve_shared(said()).await;
    let mut params = message(json!({}));
    let push = json!({ "url": "http://127.0.0.1:9/" });
    params["configuration"] = json!({ "taskPushNotificationConfig": push });
    for n in 0..40 {
        let sent = server.call("SendMessage", params.clone()).await;
        assert!(sent["error"].is_null(), "{n}: {sent}");
    }
}

#[tokio::test]
async fn nothing_begins_if_there_is_no_room_for_its_notifications() {
    let server = serve_shared(said()).await;
    let task = server.call("message/send", message(json!({}))).await["result"]["id"].clone();
    let config = |n: usize| json!({ "id": n.to_string(), "url": "http://127.0.0.1:9/" });
    for n in 0..32 {
        let params = json!({ "taskId": task, "pushNotificationConfig": config(n) });
        let set = server.call("tasks/pushNotificationConfig/set", params).await;
        assert!(set["error"].is_null(), "{n}: {set}");
    }
    let mut params = message(json!({}));
    params["configuration"] = json!({ "pushNotificationConfig": config(32) });
    let refused = server.call("message/send", params.clone()).await;
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    let tasks = server.call("ListTasks", json!({})).await;
    assert_eq!(tasks["result"]["totalSize"], 1, "{tasks}");
    params["configuration"] = json!({ "pushNotificationConfig": config(31) });
    let sent = server.call("message/send", params).await;
    assert!(sent["error"].is_null(), "it takes the place of the one of that name: {sent}");
}

#[tokio::test]
async fn a_command_without_a_session_leaves_none_behind() {
    let server = serve_each(said(), 2).await;
    for _ in 0..5 {
        let about = server.post("/executeCommand", "", &json!({ "command": "about" })).await;
        let about: Value = serde_json::from_str(&about).unwrap();
        assert!(about["data"].is_string(), "{about}");
    }
}

/// Lets time pass.
async fn pass(time: Duration) {
    tokio::time::pause();
    // Time passes in steps, so that tasks that check the time at intervals run in between.
    for _ in 0..10 {
        tokio::time::advance(time / 10).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::resume();
}

#[tokio::test]
async fn abandoned_questions_make_room_for_others() {
    let hour = Duration::from_hours(1);
    let server = serve_patient(one_call(), 2, hour).await;
    let send = async || server.call("SendMessage", message(json!({}))).await;
    let mut tasks = Vec::new();
    for _ in 0..2 {
        tasks.push(send().await["result"]["task"]["id"].clone());
    }
    assert_eq!(send().await["error"]["code"], -32004);
    pass(hour / 2).await;
    let state = async |id: &Value| {
        let got = server.call("GetTask", json!({ "id": id })).await;
        got["result"]["status"].clone()
    };
    for task in &tasks {
        assert_eq!(state(task).await["state"], "TASK_STATE_INPUT_REQUIRED");
    }
    assert_eq!(send().await["error"]["code"], -32004);
    pass(hour / 2 + Duration::from_mins(5)).await;
    let other = send().await;
    assert_eq!(other["result"]["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{other}");
    // Of the two the first to be abandoned has made room.
    let mut left = Vec::new();
    for task in &tasks {
        left.push(state(task).await);
    }
    left.retain(|status| !status.is_null());
    let [left] = &left[..] else { panic!("{left:?}") };
    assert_eq!(left["state"], "TASK_STATE_CANCELED");
    let why = left["message"]["parts"][0]["text"].as_str().unwrap();
    expect!["Cancelled: nobody answered the question within 3600 s (`--limit question-seconds=N` allows more). Send a new message to go on."].assert_eq(why);
    // A session that a client asks for is not abandoned any more.
    assert_eq!(send().await["error"]["code"], -32004);
}

#[tokio::test]
async fn a_word_for_two_questions_must_say_for_which() {
    let both =
        json!([[{ "call": { "name": "t" } }, { "call": { "name": "t" } }], [{ "text": "done" }]]);
    let session = session(both, vec![Fake::new("t", ToolKind::Read, other())]);
    let server = Server::of(shared(Arc::clone(&session))).await;
    let task = server.call("message/send", message(json!({}))).await["result"]["id"].clone();
    let mut log = session.events(0);
    while session.questions().open_now().len() < 2 {
        timeout(LONG, log.next()).await.unwrap();
    }
    let say = async |text: &str| {
        let parts = json!([{ "text": text }]);
        server.call("message/send", at_once(json!({ "taskId": task, "parts": parts }))).await
    };
    let refused = say("yes").await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(session.questions().open_now().len(), 2);
    for asked in session.questions().open_now() {
        let named = format!("Yes {}", asked.call.id);
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains(&format!("`yes {}`", asked.call.id)), "{why}");
        let said = say(&named).await;
        assert!(said["error"].is_null(), "{said}");
    }
    timeout(LONG, session.turns().idle()).await.unwrap();
    let got = server.call("tasks/get", json!({ "id": task })).await;
    assert_eq!(got["result"]["status"]["state"], "completed", "{got}");
}

#[tokio::test]
async fn beyond_the_limit_sessions_are_unloaded_and_come_back_when_somebody_asks() {
    let it = serve_stored(said(), 2, LONG).await;
    for (round, history) in [(0, 2), (1, 4)] {
        for context in ["a", "b", "c", "d"] {
            assert_eq!(it.say(context).await, (round == 0, history), "{context}");
            assert!(it.loaded().len() <= 2);
        }
    }
    let tasks = it.server.call("ListTasks", json!({})).await;
    assert_eq!(tasks["result"]["totalSize"], 8, "{tasks}");
    assert!(it.loaded().len() <= 2, "a list loads none");
    it.end().await;
}

#[tokio::test]
async fn an_idle_session_is_unloaded_and_found_by_its_own_id_as_by_its_clients_name() {
    let hour = Duration::from_hours(1);
    let it = serve_stored(said(), 9, hour).await;
    it.say("a").await;
    let id = it.sessions.open("a").unwrap().session().id().to_owned();
    pass(2 * hour).await;
    assert_eq!(it.loaded(), [""; 0]);
    let got = it.server.call("tasks/get", json!({ "id": id })).await;
    assert_eq!(got["result"]["contextId"], "a", "{got}");
    assert_eq!(it.loaded(), ["a"]);
    assert_eq!(it.say("a").await, (false, 4));
    assert_eq!(it.loaded(), ["a"]);
    it.end().await;
}

#[tokio::test]
async fn who_reads_a_session_keeps_it_loaded() {
    let hour = Duration::from_hours(1);
    let it = serve_stored(hanging(), 1, hour).await;
    let mut socket = Socket::open(&it.server).await;
    socket.send(1, "message/stream", message(json!({ "contextId": "a" }))).await;
    socket.until(|frame| frame["result"]["kind"] == "task").await;
    pass(2 * hour).await;
    assert_eq!(it.loaded(), ["a"]);
    let refused = it.server.call("message/send", message(json!({ "contextId": "b" }))).await;
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    it.end().await;
}

#[tokio::test]
async fn a_command_without_a_session_leaves_nothing_stored() {
    let it = serve_stored(said(), 2, LONG).await;
    it.server.post("/executeCommand", "", &json!({ "command": "about" })).await;
    let tasks = it.server.call("ListTasks", json!({})).await;
    assert_eq!(tasks["result"]["totalSize"], 0, "{tasks}");
}

/// A server with one session in a store, in which a question is open.
struct Asking {
    server: Server,
    session: Arc<LoadedSession>,
    /// Id of the task.
    task: String,
    call: String,
}

impl Asking {
    /// Serves the sessions of a store.
    async fn serve(store: &Arc<Faulty>) -> (Server, Arc<Sessions>) {
        let script = json!({ "when": "", "answers": one_call() }).to_string();
        let make: MakeSession = Arc::new(move |_, storage| {
            let model = Arc::new(Replay::from_script(&script).unwrap());
            let tool: Arc<dyn Tool> = Arc::new(Fake::new("t", ToolKind::Other, other()));
            Ok(Session::new(Parts { storage, tools: vec![tool], ..parts(model) }))
        });
        let limits = SessionLimits { loaded: 1, idle: None, log_bytes: 1 << 20 };
        let sessions = Sessions::with_store(make, limits, Some(Arc::clone(store) as _));
        (Server::registry(Arc::clone(&sessions), LONG).await, sessions)
    }

    async fn begin(store: &Arc<Faulty>) -> Self {
        let (server, sessions) = Self::serve(store).await;
        let sent = server.call("message/send", message(json!({}))).await["result"].clone();
        assert_eq!(sent["status"]["state"], "input-required", "{sent}");
        let call = &sent["status"]["message"]["parts"][1]["data"]["tool_call_id"];
        let (task, call) = (sent["id"].as_str().unwrap(), call.as_str().unwrap());
        let session = sessions.loaded().pop().unwrap();
        Self { server, session, task: task.to_owned(), call: call.to_owned() }
    }

    /// Answers the question, and waits until the turn has ended.
    async fn end(&self) {
        let session = self.session.session();
        session.answer(&self.call, Answer::Reject, Origin::Terminal).unwrap();
        wait_until("the end of the turn", || session.turns().running().is_none()).await;
    }
}

/// Returns a copy of the files of sessions, as a process that was killed leaves them.
fn left_behind(home: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                std::fs::create_dir(&to).unwrap();
                copy(&entry.path(), &to);
            } else {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let copied = tempfile::tempdir().unwrap();
    copy(home, copied.path());
    copied
}

#[tokio::test]
async fn a_list_says_that_an_interrupted_task_has_failed_also_while_its_session_is_loaded() {
    let home = tempfile::tempdir().unwrap();
    let it = Asking::begin(&Faulty::new(Arc::new(FileStore::new(home.path().to_owned())))).await;
    for (params, is_leased_only) in [
        (json!({ "contextId": it.task }), true),
        (json!({ "contextId": it.task }), false),
        (json!({}), true),
        (json!({}), false),
    ] {
        let killed = left_behind(home.path());
        let store = Faulty::new(Arc::new(FileStore::new(killed.path().to_owned())));
        let (server, sessions) = Asking::serve(&store).await;
        let gate = if is_leased_only { &store.opens } else { &store.goes_on };
        gate.send_replace(false);
        let load = sessions.load(&it.task, Vec::new(), |_| ());
        let listed = async {
            while !store.is_held(&it.task).await.unwrap()
                || !is_leased_only && !sessions.contains(&it.task)
            {
                tokio::task::yield_now().await;
            }
            server.call("ListTasks", params.clone()).await
        };
        let opened = async {
            // Twenty calls take long enough for an answer that does not wait.
            for _ in 0..20 {
                server.call("commands/get", json!({})).await;
            }
            gate.send_replace(true);
        };
        let (loaded, listed, ()) =
            timeout(LONG, async { tokio::join!(load, listed, opened) }).await.unwrap();
        let state = &listed["result"]["tasks"][0]["status"]["state"];
        assert_eq!(state, "TASK_STATE_FAILED", "{params} {is_leased_only} {listed}");
        let session = loaded.unwrap().unwrap();
        session.session().close();
        timeout(LONG, session.session().persistence().wait_released()).await.unwrap();
    }
    it.end().await;
}

#[tokio::test]
async fn who_asks_the_owner_is_told_what_others_may_read_though_the_store_has_not_confirmed_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let store = Faulty::new(Arc::new(database.connect().await));
    let it = Asking::begin(&store).await;
    store.confirms.send_replace(false);
    it.end().await;
    let closed = "select count(*) from tandem.batch where body like '%QuestionClosed%'";
    wait_until("the end of the question in the database", || database.sql(closed) == "1").await;
    let task = it.server.call("tasks/get", json!({ "id": it.task }));
    let confirmed = async {
        // Twenty calls take long enough for an answer that does not wait.
        for _ in 0..20 {
            it.server.call("commands/get", json!({})).await;
        }
        store.confirms.send_replace(true);
    };
    let (task, ()) = tokio::join!(task, confirmed);
    assert_eq!(task["result"]["status"]["state"], "completed", "{task}");
}

#[tokio::test]
async fn who_comes_back_after_a_turn_and_before_its_end_is_stored_is_told_that_end() {
    let home = tempfile::tempdir().unwrap();
    let store = Faulty::new(Arc::new(FileStore::new(home.path().to_owned())));
    let it = Asking::begin(&store).await;
    store.goes_on.send_replace(false);
    it.end().await;
    let (server, id) = (&it.server, &it.task);
    let seen = json!({ "id": id, "metadata": { "lastEventId": "0.0" } });
    let subscribe = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": seen,
    });
    let subscribed = server.post("/", "", &subscribe);
    let stored = async {
        // When this call is answered, the server has begun the call before.
        server.call("tasks/get", json!({ "id": id })).await;
        store.goes_on.send_replace(true);
    };
    let (events, ()) = tokio::join!(subscribed, stored);
    let last = events.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["result"]["final"], true, "{last}");
    assert_eq!(last["result"]["status"]["state"], "completed", "{last}");
    it.session.session().close();
    timeout(LONG, it.session.session().persistence().wait_released()).await.unwrap();
}
