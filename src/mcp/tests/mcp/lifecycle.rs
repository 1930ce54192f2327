//! Servers that are slow, silent, gone or wrong, and what the model and people are told of them.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tandem_agent::session::{Answer, Event, Parts, Program, ServerReach, ToolOutcome};
use tandem_approval::consent::{Consent, ConsentStatus, Executable, Review};
use tandem_mcp::{Load, McpLimits, ServerConfig};
use tandem_net::system_lookup;
use tempfile::TempDir;
use test_fakes::until;
use test_support::limit::{HANG, wait_until};
use tokio::time::timeout;

use super::{
    Stage, Surroundings, calls, error, limits, logins, notices, outcome, said, says, server,
};

#[tokio::test]
async fn built_in_tools_come_first_then_the_servers_in_their_order() {
    let stage = Stage::with(vec![says("hi"), says("hi")], limits(), |home| {
        vec![server(home, "zebra", "plain"), server(home, "ape", "plain")]
    });
    assert!(stage.tools().is_empty(), "nothing is reached before it is wanted");
    stage.turn().await;
    let tools = stage.tools();
    assert_eq!(tools[0], "mcp_ape_echo");
    assert_eq!(tools[tools.len() / 2], "mcp_zebra_echo");
    let told = stage.session.tools();
    stage.turn().await;
    assert_eq!(told, stage.session.tools(), "nothing has changed");
}

#[tokio::test]
async fn of_a_server_only_what_is_wanted_is_taken() {
    let stage = Stage::with(vec![says("hi")], limits(), |home| {
        let mut config = server(home, "s", "plain");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        config.include = Some(names(&["echo", "die", "none"]));
        config.exclude = names(&["die"]);
        vec![config]
    });
    stage.turn().await;
    assert_eq!(stage.tools(), ["mcp_s_echo"]);
}

#[tokio::test]
async fn a_prompt_waits_for_a_server_that_is_nearly_ready() {
    let answers = vec![calls("mcp_s_echo", json!({ "message": "x" })), says("done")];
    let stage = Stage::new("s", "waits", answers);
    let go = async {
        let is_waiting = |event: &Event| matches!(event, Event::Notice(_));
        let mut log = stage.session.events(0);
        until(&mut log, is_waiting).await;
        stage.go();
    };
    let (events, ()) = tokio::join!(stage.turn(), go);
    assert_eq!(notices(&events), ["Waiting for the MCP servers `s`"]);
    assert!(matches!(outcome(&events), ToolOutcome::Done(_)), "{events:?}");
}

#[tokio::test]
async fn a_prompt_does_not_wait_for_ever_nor_twice() {
    let short = McpLimits { wait: Duration::from_secs(1), ..limits() };
    let stage = Stage::with(vec![says("one"), says("two"), says("three")], short, |home| {
        vec![server(home, "quick", "plain"), server(home, "s", "waits")]
    });
    let events = stage.turn().await;
    let expected = [
        "Waiting for the MCP servers `s`",
        "The MCP servers `s` are not ready; the model gets their tools as soon as they are",
    ];
    assert_eq!(notices(&events), expected);
    assert!(stage.tools().iter().all(|tool| tool.starts_with("mcp_quick")));
    let events = timeout(Duration::from_millis(900), stage.turn()).await.unwrap();
    assert_eq!(notices(&events), expected[1..]);
    stage.go();
    let are_there = || stage.tools().iter().any(|tool| tool.starts_with("mcp_s_"));
    wait_until("the server's tools", are_there).await;
    assert!(notices(&stage.turn().await).is_empty());
}

#[tokio::test]
async fn a_server_that_says_nothing_is_down_after_a_while() {
    let short =
        McpLimits { start: Duration::from_millis(200), again: Duration::from_mins(1), ..limits() };
    let stage = Stage::with(vec![says("hi")], short, |home| vec![server(home, "s", "silent")]);
    let told = notices(&stage.turn().await);
    assert_eq!(
        told,
        ["The MCP server `s` is down: it was not ready after 0.2 s. Retrying in 60 s"]
    );
}

#[tokio::test]
async fn a_server_that_ends_at_once_says_why_and_is_given_up_in_the_end() {
    let stage = Stage::new("s", "ends", vec![says("hi"), says("hi")]);
    stage.turn().await;
    let starts = || stage.notes().iter().filter(|note| *note == "initialize").count();
    wait_until("the seventh start", || starts() >= 7).await;
    let mut told = Vec::new();
    let is_given_up = || {
        told.extend(stage.standing());
        told.last().is_some_and(|last| last.contains(": down: ") && !last.contains("again"))
    };
    wait_until("the end of the attempts", is_given_up).await;
    let last = told.last().unwrap();
    assert_eq!(last, "s: down: it ended (exit status: 7); last output: no licence");
}

#[tokio::test]
async fn a_program_that_there_is_not_is_said_once() {
    let stage = Stage::with(vec![says("hi"), says("hi")], limits(), |_| {
        let program = Program {
            command: "no-such-program".to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            directory: "/".into(),
        };
        vec![ServerConfig::new("s", ServerReach::Stdio(program), "a test")]
    });
    let told = notices(&stage.turn().await);
    assert_eq!(told, ["The MCP server `s` is down: there is no program `no-such-program`"]);
    assert!(notices(&stage.turn().await).is_empty());
}

#[tokio::test]
async fn what_a_server_says_of_its_tools_is_made_harmless() {
    let stage = Stage::new("s", "liar", vec![says("hi")]);
    stage.turn().await;
    let names = stage.tools();
    let long = format!("mcp_s_{}...{}", "long".repeat(6), "nglonglonglonglonglonglonglong");
    let expected = ["mcp_s_twice", "mcp_s_twice_2", "mcp_s___31mred__0m_", "mcp_s_cyclic", &long];
    assert_eq!(names, expected);
    let tools = stage.session.tools();
    let cyclic = tools.iter().find(|tool| tool.name == "mcp_s_cyclic").unwrap();
    let next = json!({ "type": "object", "properties": { "next": {} } });
    let schema = json!({ "type": "object", "properties": { "next": next } });
    assert_eq!(cyclic.parameters, schema);
}

#[tokio::test]
async fn people_are_not_shown_escape_sequences() {
    let answers = vec![calls("mcp_s___31mred__0m_", json!({})), says("done")];
    let stage = Stage::new("s", "liar", answers);
    let events = stage.turn_answering(&Answer::Reject).await;
    let started = events.iter().find_map(|event| match &**event {
        Event::CallStarted(started) => Some(started),
        _ => None,
    });
    let shown = format!("{:?}", started.unwrap());
    assert!(!shown.contains("\\u{1b}") && !shown.contains("202e"), "{shown}");
}

/// Includes a server that speaks only the protocol's versions since 2026, in which the client listens for changes.
#[tokio::test]
async fn tools_that_come_later_are_known_at_once() {
    for mode in ["plain", "modern"] {
        let answers =
            vec![calls("mcp_s_grow", json!({})), calls("mcp_s_grown", json!({})), says("done")];
        let stage = Stage::new("s", mode, answers);
        let events = stage.turn().await;
        let last = events.iter().rev().find_map(|event| match &**event {
            Event::CallFinished { outcome: ToolOutcome::Done(output), .. } => output.shown.clone(),
            _ => None,
        });
        assert_eq!(last, said("I am new"), "{mode}: {events:?}");
    }
}

#[tokio::test]
async fn a_tool_that_has_gone_is_said_to_have() {
    let answers = vec![says("hi"), calls("mcp_s_gone", json!({})), says("done")];
    let stage = Stage::new("s", "plain", answers);
    stage.turn().await;
    let error = error(&stage.turn().await);
    assert!(
        error.contains("The tool `mcp_s_gone` is unavailable now. The MCP server `s` is ready")
    );
}

#[tokio::test]
async fn a_server_sees_its_own_variables_and_no_secrets() {
    let answers = vec![calls("mcp_s_where", json!({})), says("done")];
    let stage = Stage::with(answers, limits(), |home| {
        let mut config = server(home, "s", "plain");
        if let ServerReach::Stdio(program) = &mut config.reach {
            program.args.push("an argument".to_owned());
            program.env.push(("OWN".to_owned(), "own".to_owned()));
        }
        vec![config]
    });
    let ToolOutcome::Done(output) = outcome(&stage.turn().await) else { panic!() };
    let home = stage.home.path().canonicalize().unwrap();
    let expected = format!("{} no home own plain an argument", home.display());
    assert_eq!(output.shown, said(&expected));
}

#[tokio::test]
async fn servers_end_with_the_session() {
    let stage = Stage::new("s", "plain", vec![says("hi")]);
    stage.turn().await;
    stage.session.close();
    assert!(stage.tools().is_empty());
    timeout(HANG, stage.supervisor.end_all()).await.unwrap();
}

/// Returns a consent to the server `s`, as long as its script has the content in `script`.
fn consent_to(script: &Arc<Mutex<&'static str>>) -> Arc<Consent> {
    let (agreed, script) = (Arc::<Mutex<Option<Vec<Executable>>>>::default(), Arc::clone(script));
    let kept = Arc::clone(&agreed);
    let look = move || {
        let runs = format!("server.sh={}", script.lock().unwrap());
        let (kind, name) = ("MCP server", "s".to_owned());
        let executables = vec![Executable { kind, name, runs, shown: "server.sh".to_owned() }];
        let is_agreed = agreed.lock().unwrap().as_ref() == Some(&executables);
        let status = if is_agreed { ConsentStatus::Given } else { ConsentStatus::Pending };
        Review { executables, status }
    };
    Consent::new(look, move |executables, yes| {
        *kept.lock().unwrap() = yes.then(|| executables.to_vec());
        Ok(())
    })
}

#[tokio::test]
async fn a_server_whose_script_has_changed_since_the_consent_does_not_start_again_before_another() {
    let script = Arc::new(Mutex::new("one"));
    let die = || calls("mcp_s_die", json!({}));
    let answers = vec![says("hi"), die(), says("gone"), says("hi")];
    let stage = Stage::consented(answers, &consent_to(&script), |home| {
        let held = Some("may not be used yet".to_owned());
        vec![ServerConfig { held, trust: true, ..server(home, "s", "plain") }]
    });
    let starts = || stage.notes().iter().filter(|note| *note == "initialize").count();
    stage.turn().await;
    assert_eq!((stage.standing(), starts()), (vec!["s: ready".to_owned()], 1));
    *script.lock().unwrap() = "two";
    stage.turn().await;
    let is_held = || stage.standing()[0].contains("have changed since you trusted them");
    wait_until("the server to be held", is_held).await;
    assert_eq!(starts(), 1);
    assert!(stage.tools().is_empty(), "its tools are still offered");
    let events = stage.turn().await;
    let asks = |event: &Event| matches!(event, Event::CallStarted(started) if started.call.name == "trust_folder");
    assert!(events.iter().any(|event| asks(event)), "nobody was asked again");
    stage.ready("s").await;
    assert_eq!(starts(), 2);
}

#[tokio::test]
async fn a_yes_to_another_program_of_a_server_starts_that_program_and_not_the_earlier_one() {
    let script = Arc::new(Mutex::new("one"));
    let home = TempDir::new().unwrap();
    let (now, path) = (Arc::clone(&script), home.path().to_owned());
    let load: Load = Arc::new(move || {
        let mut config = server(&path, "s", "plain");
        config.held = Some("may not be used yet".to_owned());
        config.trust = true;
        let ServerReach::Stdio(program) = &mut config.reach else { unreachable!() };
        let notes = path.join(*now.lock().unwrap()).display().to_string();
        program.env.retain(|(name, _)| name != "NOTES");
        program.env.push(("NOTES".to_owned(), notes));
        vec![config]
    });
    let surroundings =
        Surroundings { limits: limits(), load, logins: logins(), lookup: system_lookup() };
    let answers = vec![says("hi"), calls("mcp_s_die", json!({})), says("gone"), says("hi")];
    let consent = consent_to(&script);
    let stage = Stage::changed(home, answers, surroundings, |parts| Parts { consent, ..parts });
    let starts = |file: &str| {
        let notes = fs::read_to_string(stage.home.path().join(file)).unwrap_or_default();
        notes.lines().filter(|note| *note == "initialize").count()
    };
    stage.turn().await;
    assert_eq!(starts("one"), 1);
    *script.lock().unwrap() = "two";
    stage.turn().await;
    let is_held = || stage.standing()[0].contains("have changed since you trusted them");
    wait_until("the server to be held", is_held).await;
    stage.turn().await;
    stage.ready("s").await;
    assert_eq!((starts("one"), starts("two")), (1, 1));
}

#[tokio::test]
async fn a_no_to_the_question_ends_a_server_that_an_earlier_yes_has_started() {
    let script = Arc::new(Mutex::new("one"));
    let consent = consent_to(&script);
    let stage = Stage::consented(vec![says("hi"), says("hi")], &consent, |home| {
        let held = Some("may not be used yet".to_owned());
        vec![ServerConfig { held, trust: true, ..server(home, "s", "plain") }]
    });
    stage.turn().await;
    assert_eq!(stage.standing(), ["s: ready"]);
    *script.lock().unwrap() = "two";
    consent.review_again();
    stage.turn_answering(&Answer::Reject).await;
    assert_eq!(stage.standing(), ["s: may not be used yet"]);
    assert!(stage.tools().is_empty(), "its tools are still offered");
}

#[tokio::test]
async fn a_server_that_ends_starts_again_unasked_where_its_script_is_as_it_was() {
    let answers = vec![says("hi"), calls("mcp_s_die", json!({})), says("gone")];
    let stage = Stage::consented(answers, &consent_to(&Arc::new(Mutex::new("one"))), |home| {
        let held = Some("may not be used yet".to_owned());
        vec![ServerConfig { held, trust: true, ..server(home, "s", "plain") }]
    });
    stage.turn().await;
    stage.turn().await;
    let starts = || stage.notes().iter().filter(|note| *note == "initialize").count();
    wait_until("another start", || starts() == 2).await;
    stage.ready("s").await;
}
