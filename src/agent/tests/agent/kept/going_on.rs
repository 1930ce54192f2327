//! A session that goes on where a kill cut it off, and the title by which a person finds it again.

use serde_json::Value;
use tandem_agent::session::ClientName;

use super::*;

use test_support::limit::wait_until;

/// Cuts a log before its first event of this kind.
fn cut_before(place: &Place, id: &str, kind: &str) {
    let log = fs::read_to_string(place.log(id)).unwrap();
    let mut kept = String::new();
    for line in log.lines() {
        let mut batch: Value = serde_json::from_str(line).unwrap();
        let events = batch["e"].as_array_mut();
        let cut =
            events.as_deref().and_then(|all| all.iter().position(|it| it.get(kind).is_some()));
        if let (Some(events), Some(cut)) = (events, cut) {
            events.truncate(cut);
        }
        kept.push_str(&format!("{batch}\n"));
        if cut.is_some() {
            return fs::write(place.log(id), kept).unwrap();
        }
    }
    panic!("no {kind} in {log}");
}

/// Returns the messages that the model is told after `/continue`, in a session whose agent was killed. The log ends
/// before the first line that contains `cut`.
async fn told_when_going_on(answers: Answers, cut: &str) -> Vec<String> {
    let (place, project) = (Place::new(), Arc::new(tempfile::tempdir().unwrap()));
    let (sessions, _) = registry_in(Arc::clone(&project), place.store(), answers, vec![look()]);
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    let id = loaded.id().to_owned();
    end(&sessions).await;
    cut_before(&place, &id, cut);
    let (sessions, told) = registry_in(project, place.store(), vec![says("on")], vec![look()]);
    let loaded = load(&sessions, &id).await;
    ask(&loaded, "/continue").await;
    let reason = events(loaded.session()).pop().unwrap().1;
    assert!(
        matches!(reason, Event::TurnFinished { reason: StopReason::EndTurn, .. }),
        "{reason:?}"
    );
    end(&sessions).await;
    told.lock().unwrap().clone()
}

#[tokio::test]
async fn a_turn_goes_on_with_the_messages_that_the_model_knows_and_no_other() {
    let answered = told_when_going_on(vec![says("half an answer")], "AnswerFinished").await;
    assert_eq!(answered, ["user: one"]);
    let called = told_when_going_on(vec![calls(&["a"]), says("done")], "CallFinished").await;
    assert_eq!(called.len(), 3, "{called:?}");
    assert!(called[2].starts_with("results: a! The agent was stopped"), "{called:?}");
}

#[tokio::test]
async fn whoever_asks_for_a_session_while_it_is_loaded_gets_it_when_what_was_open_is_closed() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("half an answer")], Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    let id = loaded.id().to_owned();
    end(&sessions).await;
    cut_before(&place, &id, "AnswerFinished");
    let store = Faulty::new(place.store());
    store.goes_on.send_replace(false);
    let (sessions, _) = registry(Arc::clone(&store) as _, Vec::new(), Vec::new());
    let loading = || {
        let (sessions, id) = (Arc::clone(&sessions), id.clone());
        tokio::spawn(async move { load(&sessions, &id).await })
    };
    let first = loading();
    wait_until("the session", || sessions.contains(&id)).await;
    let mut second = loading();
    // The store takes no events, so the end of the interrupted turn is not stored. Until then, `load` gives the
    // session to no caller.
    let early = timeout(Duration::from_millis(200), &mut second).await;
    assert!(early.is_err(), "it is there with a turn that seems to run");
    store.goes_on.send_replace(true);
    for loaded in [first.await.unwrap(), second.await.unwrap()] {
        let last = events(loaded.session()).pop().unwrap().1;
        let is_closed = matches!(last, Event::TurnFinished { reason: StopReason::Interrupted, .. });
        assert!(is_closed, "{last:?}");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_begun_anew() {
    let place = Place::new();
    let fails = [says("half"), vec![Err(Error::BadAnswer("cut".to_owned()))]].concat();
    let answers = vec![fails.clone(), says("whole"), says("next"), fails, says("more")];
    let (sessions, told) = registry(place.store(), answers, Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    ask(&loaded, "/continue").await;
    assert_eq!(*told.lock().unwrap(), ["user: one"]);
    ask(&loaded, "two").await;
    assert_eq!(*told.lock().unwrap(), ["user: one", "assistant: whole []", "user: two"]);
    // The answer to "three" failed after "half". A new prompt, other than `/continue`, keeps the half answer in the
    // conversation.
    ask(&loaded, "three").await;
    ask(&loaded, "four").await;
    let told = told.lock().unwrap().clone();
    assert_eq!(told[4..], ["user: three", "assistant: half []", "user: four"]);
    end(&sessions).await;
}

/// Sets the times in a log back by two hours.
fn set_back(place: &Place, id: &str) {
    let log = fs::read_to_string(place.log(id)).unwrap();
    let line = |line: &str| {
        let mut batch: Value = serde_json::from_str(line).unwrap();
        if let Some(time) = batch["t"].as_i64() {
            batch["t"] = json!(time - 2 * 60 * 60 * 1000);
        }
        format!("{batch}\n")
    };
    let log: String = log.lines().map(line).collect();
    fs::write(place.log(id), log).unwrap();
}

#[tokio::test]
async fn of_a_pause_the_model_is_told_once_also_if_the_conversation_goes_back_to_before_it() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("1"), says("2")], Vec::new());
    let loaded = create(&sessions);
    let id = loaded.id().to_owned();
    ask(&loaded, "one").await;
    ask(&loaded, "two").await;
    end(&sessions).await;
    set_back(&place, &id);
    let answers = vec![says("3"), says("4"), says("5")];
    let (sessions, told) = registry(place.store(), answers, Vec::new());
    let loaded = load(&sessions, &id).await;
    for prompts in [&["three"][..], &["/rewind conversation 2", "four"], &["five"]] {
        for prompt in prompts {
            ask(&loaded, prompt).await;
        }
        let told = told.lock().unwrap().join("\n");
        assert_eq!(told.matches("after a pause").count(), 1, "{told}");
    }
    let told = told.lock().unwrap().clone();
    assert_eq!(told[..2], ["user: one", "assistant: 1 []"]);
    assert!(told[2].starts_with("user: four"), "{told:?}");
    end(&sessions).await;
}

#[tokio::test]
async fn what_is_answered_does_not_go_on() {
    let place = Place::new();
    let (sessions, told) = registry(place.store(), vec![says("whole")], Vec::new());
    let loaded = create(&sessions);
    for prompt in ["/continue", "one", "/continue"] {
        ask(&loaded, prompt).await;
    }
    let is_failure = |(_, event): &(usize, Event)| matches!(event, Event::CommandFailed(_));
    let failures = events(loaded.session()).into_iter().filter(is_failure).count();
    assert_eq!((failures, told.lock().unwrap().len()), (2, 1));
    end(&sessions).await;
}

#[tokio::test]
async fn a_title_is_listed_and_outlives_later_turns_and_restarts() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("1"), says("2")], Vec::new());
    let loaded = create(&sessions);
    let id = loaded.id().to_owned();
    let title = async || place.store().list(&Query::default()).await.unwrap().remove(0).title;
    ask(&loaded, "one").await;
    assert_eq!(title().await, "one");
    ask(&loaded, "/rename  the\x1b bug \nand more").await;
    assert_eq!(title().await, "the bug");
    ask(&loaded, "two").await;
    assert_eq!(title().await, "the bug");
    assert_eq!(sessions.list()[0].title, "the bug");
    end(&sessions).await;
    let (sessions, _) = registry(place.store(), vec![says("3")], Vec::new());
    let loaded = load(&sessions, &id).await;
    ask(&loaded, "three").await;
    assert_eq!(title().await, "the bug");
    ask(&loaded, "/rename").await;
    let said = events(loaded.session()).into_iter().rev().find_map(|(_, event)| match event {
        Event::Output(said) => Some(said),
        _ => None,
    });
    assert!(said.unwrap().contains("the bug"));
    end(&sessions).await;
    assert_eq!(title().await, "the bug");
}

#[tokio::test]
async fn a_command_is_no_title_and_alone_nothing_to_store() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("1"), says("2")], Vec::new());
    let loaded = create(&sessions);
    let listed = async || place.store().list(&Query::default()).await.unwrap();
    ask(&loaded, "/about").await;
    assert!(listed().await.is_empty());
    assert_eq!((&*loaded.session().title(), &*sessions.list()[0].title), ("", ""));
    ask(&loaded, "one").await;
    let only = listed().await.remove(0);
    assert_eq!((&*only.title, only.turns), ("one", 2));
    assert_eq!((&*loaded.session().title(), &*sessions.list()[0].title), ("one", "one"));
    end(&sessions).await;
}

#[tokio::test]
async fn a_session_that_begins_with_a_command_of_a_client_has_the_title_of_its_first_prompt() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("1")], Vec::new());
    let loaded = create(&sessions);
    let id = loaded.id().to_owned();
    loaded.session().prompt(text("/about"), Origin::A2a(ClientName::default()));
    loaded.session().turns().idle().await;
    let title = async || place.store().list(&Query::default()).await.unwrap().remove(0).title;
    assert_eq!(title().await, "");
    end(&sessions).await;
    let (sessions, _) = registry(place.store(), vec![says("1")], Vec::new());
    let loaded = load(&sessions, &id).await;
    ask(&loaded, "one").await;
    assert_eq!((&*title().await, &*loaded.session().title()), ("one", "one"));
    end(&sessions).await;
}

#[tokio::test]
async fn a_prompt_that_begins_with_a_path_is_stored_and_a_title() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("1")], Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "/etc/hosts is wrong: why?").await;
    let title = place.store().list(&Query::default()).await.unwrap().remove(0).title;
    assert_eq!(title, "/etc/hosts is wrong: why?");
    end(&sessions).await;
}
