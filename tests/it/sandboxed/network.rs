//! The network of commands in the sandbox: the questions, and the effects of the answers.

use std::sync::Mutex;

use tandem_approval::Scope;
use tandem_host::Access;
use tandem_host::network::HostLists;
use tandem_model::{Call, Chunk};
use tandem_net::Reach;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::fakes::{Spy, says};
use crate::limit::wait_until;
use crate::needs::{Need, lacking};
use test_support::network::{allowing, echo, lookup};

/// Returns a network in which every name leads to this machine, where only the port `server` is open.
pub(super) fn hosts(server: u16, names: &Arc<Mutex<Vec<String>>>) -> NetworkSetup {
    NetworkSetup {
        ports: vec![server],
        reach: Reach::Loopback,
        reach_of_allowed: Reach::Loopback,
        lookup: lookup(&["127.0.0.1"], names),
        ..NetworkSetup::default()
    }
}

/// Makes a session whose commands can reach a server by any name.
async fn stage(mode: Mode, calls: impl FnOnce(u16) -> Vec<Value>) -> Stage {
    let server = echo().await;
    changed(mode, &calls(server), |setup| SandboxSetup {
        hosts: hosts(server, &Arc::default()),
        ..setup
    })
}

fn changed(
    mode: Mode,
    calls: &[Value],
    change: impl FnOnce(SandboxSetup) -> SandboxSetup,
) -> Stage {
    Stage::changed(mode, calls, |setup| {
        change(SandboxSetup { mechanism: Some(Mechanism::Namespaces), ..setup })
    })
}

/// Returns a call of curl that prints only the answer.
fn curl(host: &str, port: u16) -> String {
    format!("curl -sS http://{host}:{port}/")
}

fn once() -> Answer {
    Answer::Once { edited: None }
}

/// Returns the calls that ask about a host.
fn questions(made: &[Made]) -> Vec<&Made> {
    made.iter().filter(|made| made.started.call.name == "connect").collect()
}

/// Returns the calls of commands.
fn commands(made: &[Made]) -> Vec<&Made> {
    made.iter().filter(|made| made.started.call.name != "connect").collect()
}

#[tokio::test]
async fn an_unknown_host_is_asked_about_while_the_command_waits() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let mut port = 0;
    let mut stage = stage(Mode::Default, |server| {
        port = server;
        let twice = format!("{0} && {0}", curl("good.test", server));
        vec![run(&twice), run(&curl("good.test", server))]
    })
    .await;
    let made = stage.go(once()).await;
    let asked = questions(&made);
    // Each of the two commands has one question, although the first makes two connections.
    assert_eq!(asked.len(), 2);
    let Made { started, outcome } = asked[0];
    let label = &started.summary.label;
    let begins = format!("Connect to good.test:{port} (for curl -sS http://good.test:{port}/");
    assert!(label.starts_with(&begins), "{label}");
    assert_eq!(started.call.args, json!({ "host": "good.test", "port": port }));
    let question = started.question.as_ref().unwrap();
    assert!(question.reason().ends_with("[built-in rule network]"), "{}", question.reason());
    assert_eq!(question.scopes, [Scope::Connections(vec!["good.test".to_owned()])]);
    assert!(matches!(outcome, ToolOutcome::Done(_)), "{outcome:?}");
    for command in commands(&made) {
        assert!(command.is_sandboxed() && !command.is_asked() && command.is_done());
        assert!(command.told().contains("Host: good.test"), "{}", command.told());
        assert!(!command.told().contains("Blocked"), "{}", command.told());
    }
}

#[tokio::test]
async fn a_host_that_a_text_for_a_program_leads_to_is_asked_about_while_the_call_waits() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let stage = &mut stage(Mode::AutoEdit, |server| {
        let line = format!("said=$({}); echo \"$said over\"\n", curl("good.test", server));
        let text = json!({ "chars": line, "wait_ms": 300_000 });
        let writes = json!({ "call": { "name": "write_stdin", "args": text } });
        vec![with("sh", json!({ "stdin": true, "delay_ms": 1 })), writes]
    })
    .await;
    let made = stage.go(once()).await;
    assert_eq!(questions(&made).len(), 1);
    let label = &questions(&made)[0].started.summary.label;
    assert!(label.ends_with(" (for sh)"), "{label}");
    let told = commands(&made)[1].told();
    assert!(told.contains("Host: good.test") && told.ends_with("over"), "{told}");
}

#[tokio::test]
async fn an_always_holds_for_the_host_until_the_session_ends() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let stage = stage(Mode::AutoEdit, |server| {
        ["good.test", "GOOD.test.", "other.test"].map(|host| run(&curl(host, server))).into()
    })
    .await;
    let always = Answer::Always(Scope::Connections(vec!["good.test".to_owned()]));
    stage.session.prompt(text("go"), Origin::Editor);
    let mut log = stage.session.events(0);
    let mut asked = Vec::new();
    loop {
        let is_step = |event: &Event| {
            is_end(event) || matches!(event, Event::CallStarted(it) if it.question.is_some())
        };
        let events = until(&mut log, is_step).await;
        let Event::CallStarted(started) = &**events.last().unwrap() else { break };
        asked.push(started.call.args["host"].as_str().unwrap().to_owned());
        let answer = if asked.len() == 1 { always.clone() } else { once() };
        stage.session.answer(&started.call.id, answer, Origin::Editor).unwrap();
    }
    assert_eq!(asked, ["good.test", "other.test"]);
}

#[tokio::test]
async fn a_no_is_told_and_holds_until_the_command_ends() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let mut stage = stage(Mode::Default, |server| {
        let retries = format!("for n in 1 2 3; do {}; done; exit 7", curl("bad.test", server));
        vec![run(&retries)]
    })
    .await;
    let made = stage.go(Answer::RejectSaying("use the mirror".to_owned())).await;
    assert_eq!(questions(&made).len(), 1);
    assert_eq!(questions(&made)[0].outcome, ToolOutcome::Rejected);
    let told = commands(&made)[0].told();
    let why =
        "blocked by the sandbox: bad.test (the user did not allow it, and said: use the mirror)";
    assert!(told.contains(why) && told.contains("Exit Code: 7"), "{told}");
    // Each of the three attempts gets an answer from the proxy: the first has the reason, and the others refer to
    // it.
    assert_eq!(told.matches("bad.test").count(), 1, "{told}");
    assert_eq!(told.matches("blocked by the sandbox, as before").count(), 2, "{told}");
}

#[tokio::test]
async fn a_blocked_host_is_told_once_whether_or_not_the_program_says_so() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let mut stage = stage(Mode::Default, |server| {
        let silent = format!("{} -o /dev/null", curl("bad.test", server));
        let long = format!("{}; seq 2000", curl("bad.test", server));
        vec![run(&format!("{silent}; {silent}")), run(&curl("bad.test", server)), run(&long)]
    })
    .await;
    let made = stage.go(Answer::Reject).await;
    let made = commands(&made);
    let [silent, shown, long] = &made[..] else { panic!("{} commands", made.len()) };
    let note = "[Blocked by the sandbox: the command wanted to connect to bad.test:";
    assert!(silent.told().contains(note), "{}", silent.told());
    assert_eq!(silent.told().matches("bad.test").count(), 1, "{}", silent.told());
    assert!(!shown.told().contains(note), "{}", shown.told());
    assert_eq!(shown.told().matches("bad.test").count(), 1, "{}", shown.told());
    // A long output is cut, so the model may read only its end. The note is therefore added.
    assert!(long.told().contains(note), "{}", long.told());
}

/// Number of hosts that a command connects to at the same time.
const HOSTS: usize = 80;

#[tokio::test]
async fn hosts_that_come_up_while_one_is_asked_about_are_one_question() {
    if lacking(Need::Namespaces) {
        return;
    }
    let stage = stage(Mode::AutoEdit, |server| {
        let line = format!(
            "proxy=/dev/tcp/$(tr : / <<< ${{HTTP_PROXY#http://}}); \
             for n in $(seq {HOSTS}); do exec {{fd}}<>$proxy; fds+=($fd); \
             printf 'CONNECT h%d.test:{server} HTTP/1.1\\r\\n\\r\\n' $n >&$fd; done; touch sent; \
             for fd in ${{fds[@]}}; do read -r answer <&$fd; echo \"$answer\"; done"
        );
        vec![run(&line)]
    })
    .await;
    stage.session.prompt(text("go"), Origin::Editor);
    let mut log = stage.session.events(0);
    let (mut questions, mut asked) = (0, Vec::new());
    let told = loop {
        let is_step = |event: &Event| match event {
            Event::CallStarted(it) => it.question.is_some(),
            Event::CallFinished { outcome, .. } => {
                matches!(outcome, ToolOutcome::Done(output) if output.text.contains("HTTP/1.1"))
            }
            other => is_end(other),
        };
        let events = until(&mut log, is_step).await;
        let started = match &**events.last().unwrap() {
            Event::CallStarted(started) => started,
            Event::CallFinished { outcome: ToolOutcome::Done(output), .. } => {
                break output.text.clone();
            }
            other => panic!("{other:?}"),
        };
        wait_until("the command to have asked for all", || stage.path("sent").exists()).await;
        let Access::Connect { host, others, .. } = &started.access else { panic!("{started:?}") };
        questions += 1;
        asked.push(host.clone());
        asked.extend(others.iter().map(|other| other.split(':').next().unwrap().to_owned()));
        let question = started.question.as_ref().unwrap();
        if !others.is_empty() {
            let more = format!(" and {} more (for ", others.len());
            assert!(started.summary.label.contains(&more), "{}", started.summary.label);
            let [Scope::Connections(hosts)] = &question.scopes[..] else { panic!("{question:?}") };
            assert_eq!(hosts.len(), others.len() + 1);
        }
        stage.session.answer(&started.call.id, once(), Origin::Editor).unwrap();
    };
    assert_eq!(told.matches("200 Connection established").count(), HOSTS, "{told}");
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), HOSTS, "{asked:?}");
    // One host is asked about alone, the others together. Hosts that reach the proxy later need further questions.
    assert!(questions <= HOSTS / 8, "{questions} questions");
}

#[tokio::test]
async fn yolo_asks_about_no_host_but_denied_ones_stay_denied() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let server = echo().await;
    let calls = ["good.test", "bad.test"].map(|host| run(&curl(host, server)));
    let mut stage = changed(Mode::Yolo, &calls, |setup| SandboxSetup {
        hosts: NetworkSetup {
            lists: HostLists { denied: vec!["bad.test".parse().unwrap()], ..HostLists::default() },
            ..hosts(server, &Arc::default())
        },
        ..setup
    });
    let made = stage.go(Answer::Reject).await;
    assert!(questions(&made).is_empty());
    assert!(made[0].told().contains("Host: good.test"), "{}", made[0].told());
    assert!(
        made[1]
            .told()
            .contains("bad.test (`sandbox.network.deniedDomains` in the settings denies it)"),
        "{}",
        made[1].told()
    );
}

#[tokio::test]
async fn allowed_hosts_are_reached_unasked() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let server = echo().await;
    let calls = ["good.test", "other.test"].map(|host| run(&curl(host, server)));
    let change = |setup| SandboxSetup {
        hosts: NetworkSetup { lists: allowing("good.test"), ..hosts(server, &Arc::default()) },
        ..setup
    };
    let mut stage = changed(Mode::Default, &calls, change);
    let made = stage.go(Answer::Reject).await;
    assert_eq!(questions(&made).len(), 1);
    let made = commands(&made);
    assert!(made[0].told().contains("Host: good.test"), "{}", made[0].told());
    assert!(made[1].told().contains("(the user did not allow it)"), "{}", made[1].told());
}

#[tokio::test]
async fn nothing_goes_past_the_proxy() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let mut stage = stage(Mode::Yolo, |server| {
        let past = format!(
            "curl -sS --noproxy '*' http://127.0.0.1:{server}/; \
             curl -sS --noproxy '*' http://good.test:{server}/; \
             (exec 3<>/dev/tcp/93.184.215.14/80) 2>&1; \
             curl -sS http://127.0.0.1:{server}/ http://localhost:{server}/"
        );
        let inside = ["127.0.0.2", "[::1]", "169.254.169.254"]
            .map(|host| format!("curl -sS --noproxy none.test http://{host}:{server}/"));
        vec![run(&past), run(&inside.join("; "))]
    })
    .await;
    let made = stage.go(once()).await;
    assert!(!made[0].told().contains("Host:"), "{}", made[0].told());
    assert!(made[0].told().contains("Network is unreachable"), "{}", made[0].told());
    assert!(made[0].told().contains("other than through the proxy in `HTTP_PROXY`"));
    let told = made[1].told();
    // The setup allows this machine's addresses, so that the test has a server. The metadata address stays blocked.
    assert!(told.contains("blocked by the sandbox: 169.254.169.254 (it is a link-local"), "{told}");
}

/// Returns a command that waits for a host, and then for the file `go` in the workspace.
fn waits(server: u16) -> Value {
    run(&format!(
        "exec 3<>/dev/tcp/$(tr : / <<< ${{HTTP_PROXY#http://}}); \
         printf 'CONNECT a.test:{server} HTTP/1.1\\r\\n\\r\\n' >&3; \
         until [ -e go ]; do sleep 0.02; done"
    ))
}

/// Waits until a host is asked about.
async fn asked(stage: &Stage) -> Arc<CallStarted> {
    let mut log = stage.session.events(0);
    let is_asked = |event: &Event| matches!(event, Event::CallStarted(it) if it.question.is_some());
    let events = until(&mut log, is_asked).await;
    let Event::CallStarted(started) = &**events.last().unwrap() else { panic!() };
    Arc::clone(started)
}

/// Returns how the question about a call was closed, and how the call ended.
async fn closed(stage: &Stage, call: &str) -> (Option<Answer>, ToolOutcome) {
    let mut log = stage.session.events(0);
    let events = until(&mut log, is_end).await;
    let closed = events.iter().find_map(|event| match &**event {
        Event::QuestionClosed { call: it, answer } if it == call => Some(answer.clone()),
        _ => None,
    });
    let ended = events.iter().find_map(|event| match &**event {
        Event::CallFinished { call: it, outcome } if it == call => Some(outcome.clone()),
        _ => None,
    });
    (closed.expect("it is open").map(|(answer, _)| answer), ended.expect("it has not ended"))
}

#[tokio::test]
async fn a_cancel_withdraws_the_question() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let stage = stage(Mode::AutoEdit, |server| vec![waits(server)]).await;
    let turn = stage.session.prompt(text("go"), Origin::Editor);
    let id = asked(&stage).await.call.id.clone();
    assert!(stage.session.cancel(turn));
    assert_eq!(closed(&stage, &id).await, (None, ToolOutcome::Cancelled));
    assert!(stage.session.answer(&id, once(), Origin::Editor).is_err());
}

#[tokio::test]
async fn a_withdrawn_question_is_asked_again_when_the_program_that_runs_on_is_written_to() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let server = echo().await;
    let home = TempDir::new().unwrap();
    let call = |id: &str, name: &str, args: Value| {
        vec![Ok(Chunk::Call(Call { id: id.to_owned(), name: name.to_owned(), args }))]
    };
    let line = format!("said=$({}); echo \"$said over\"\n", curl("good.test", server));
    let text_for_sh = json!({ "chars": line, "wait_ms": 300_000 });
    let start = json!({ "command": "sh", "stdin": true, "delay_ms": 1 });
    let (spy, _) = Spy::new(vec![
        call("c1", "run_shell_command", start),
        call("c2", "write_stdin", text_for_sh.clone()),
        call("c3", "write_stdin", text_for_sh),
        says("done"),
    ]);
    let setup = SandboxSetup {
        mechanism: Some(Mechanism::Namespaces),
        hosts: hosts(server, &Arc::default()),
        ..sandbox_setup(home.path())
    };
    let session = Session::new(Parts {
        tools: tools::all_with_sandbox(),
        host: host(home.path()).sandboxed(Some(setup)),
        mode: Mode::AutoEdit,
        ..parts(spy)
    });
    let mut stage = Stage { session, home, seen: 0 };
    let turn = stage.session.prompt(text("go"), Origin::Editor);
    let id = asked(&stage).await.call.id.clone();
    assert!(stage.session.cancel(turn));
    assert_eq!(closed(&stage, &id).await, (None, ToolOutcome::Cancelled));
    stage.seen = until(&mut stage.session.events(0), is_end).await.len();
    let made = stage.go(once()).await;
    assert_eq!(questions(&made).len(), 1);
    let told = commands(&made)[0].told();
    assert!(told.contains("Host: good.test") && told.ends_with("over"), "{told}");
}

#[tokio::test]
async fn the_end_of_the_command_withdraws_the_question_and_the_turn_goes_on() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let mut port = 0;
    let mut stage = stage(Mode::AutoEdit, |server| {
        port = server;
        vec![waits(server), run(&curl("b.test", server))]
    })
    .await;
    let turn = stage.session.prompt(text("go"), Origin::Editor);
    let id = asked(&stage).await.call.id.clone();
    fs::write(stage.path("go"), "").unwrap();
    let mut log = stage.session.events(0);
    let next = |event: &Event| matches!(event, Event::CallStarted(it) if it.question.is_some() && it.call.id != id);
    let events = until(&mut log, next).await;
    let Event::CallStarted(second) = &**events.last().unwrap() else { panic!() };
    assert!(stage.session.answer(&id, once(), Origin::Editor).is_err());
    stage.session.answer(&second.call.id, once(), Origin::Editor).unwrap();
    assert_eq!(closed(&stage, &id).await, (None, ToolOutcome::Cancelled));
    let mut log = stage.session.events(0);
    let ended =
        |event: &Event| matches!(event, Event::TurnFinished { turn: it, .. } if *it == turn);
    let events = until(&mut log, ended).await;
    let said = events.iter().any(|event| matches!(&**event, Event::Text(text) if text == "done"));
    assert!(said);
    stage.seen = events.len();
}

#[tokio::test]
async fn an_answer_that_cancels_ends_the_turn() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let mut stage = stage(Mode::AutoEdit, |server| vec![waits(server), run("true")]).await;
    let made = stage.go(Answer::Cancel).await;
    assert_eq!(made.len(), 2);
    assert!(made.iter().all(|made| made.outcome == ToolOutcome::Cancelled));
}

#[tokio::test]
async fn a_command_in_the_background_is_asked_about_as_long_as_its_call_lasts() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let server = echo().await;
    let line = format!("read line < to; {} > from", curl("late.test", server));
    let calls = [with(&line, json!({ "is_background": true }))];
    let mut stage = changed(Mode::AutoEdit, &calls, |setup| SandboxSetup {
        hosts: hosts(server, &Arc::default()),
        ..setup
    });
    for name in ["to", "from"] {
        make_fifo(&stage.path(name));
    }
    let mut from = pipe::OpenOptions::new().open_receiver(stage.path("from")).unwrap();
    let made = stage.go(once()).await;
    assert!(made[0].is_done(), "{}", made[0].told());
    let mut to = pipe::OpenOptions::new().read_write(true).open_sender(stage.path("to")).unwrap();
    to.write_all(b"go\n").await.unwrap();
    let mut read = Vec::new();
    timeout(HANG, from.read_to_end(&mut read)).await.expect("it hangs").unwrap();
    let read = String::from_utf8_lossy(&read);
    let why = "blocked by the sandbox: late.test (nobody can be asked after the call";
    assert!(read.contains(why), "{read}");
}

#[tokio::test]
async fn the_model_is_told_of_its_own_calls_only() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let server = echo().await;
    let home = TempDir::new().unwrap();
    let call = Chunk::Call(Call {
        id: "c1".to_owned(),
        name: "run_shell_command".to_owned(),
        args: json!({ "command": curl("good.test", server) }),
    });
    let (spy, told) = Spy::new(vec![vec![Ok(call)], says("done")]);
    let setup = SandboxSetup {
        mechanism: Some(Mechanism::Namespaces),
        hosts: hosts(server, &Arc::default()),
        ..sandbox_setup(home.path())
    };
    let session = Session::new(Parts {
        tools: tools::all_with_sandbox(),
        host: host(home.path()).sandboxed(Some(setup)),
        ..parts(spy)
    });
    let mut stage = Stage { session, home, seen: 0 };
    let made = stage.go(Answer::RejectSaying("not this one".to_owned())).await;
    assert_eq!(questions(&made).len(), 1);
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[1], "assistant:  [c1]");
    assert!(told[2].starts_with("results: c1 ") && !told[2].contains("connect-"), "{}", told[2]);
    assert!(told[2].contains("and said: not this one"), "{}", told[2]);
}

#[tokio::test]
async fn without_a_person_an_unknown_host_is_refused_and_the_setting_is_named() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let call = run("curl -sS http://unknown.test/");
    let setup = Setup::answers(json!([[call], [{ "text": "done" }]])).arg("--sandbox=true");
    let ran = setup.arg("-p").arg("go").run().await;
    let told = "not allowed without `sandbox.network.allowedDomains`: Connect to unknown.test:80";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert_eq!((&*ran.stdout, ran.code), ("done\n", Some(0)));
}

#[tokio::test]
async fn an_editor_is_asked_about_the_host_while_the_call_of_the_command_is_open() {
    if lacking(Need::Namespaces) || lacking(Need::Curl) {
        return;
    }
    let calls = json!([[run("curl -sS http://unknown.test/")], [{ "text": "done" }]]);
    let mut agent = Setup::answers(calls).arg("--sandbox=true").start();
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "reject").await;
    let asked: Vec<_> =
        read.iter().filter(|it| it["method"] == "requestToolCallConfirmation").collect();
    let [asked] = asked[..] else { panic!("{asked:?}") };
    let shown = asked["params"].to_string();
    assert!(shown.contains("Connect to unknown.test:80 (for curl -sS"), "{shown}");
    assert!(shown.contains("[built-in rule network]"), "{shown}");
    let ended = read.iter().any(|it| it.to_string().contains("(the user did not allow it)"));
    assert!(ended, "{read:?}");
}
