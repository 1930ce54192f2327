//! Copies of a session: forks, and checkpoints under a tag.

use expect_test::expect;
use futures::TryStreamExt as _;

use super::*;
use tandem_agent::session::ClientName;
use tandem_agent::sessions::checkpoints;

/// Runs a command; returns its output, or the message of its failure as an error.
async fn said(loaded: &LoadedSession, prompt: &str) -> Result<String, String> {
    let from = loaded.session().position();
    ask(loaded, prompt).await;
    let mut log = loaded.session().events(from);
    let said = std::iter::from_fn(|| log.try_next()).find_map(|event| match &*event {
        Event::Output(text) => Some(Ok(text.clone())),
        Event::CommandFailed(why) => Some(Err(why.clone())),
        _ => None,
    });
    said.unwrap()
}

/// Returns the ids of the checkpoints with a tag.
async fn tagged(place: &Place, loaded: &LoadedSession, tag: &str) -> Vec<String> {
    let directory = loaded.session().roots()[0].clone();
    let mut all = checkpoints(&*place.store(), &directory).await.unwrap();
    all.retain(|listed| listed.head.tag.as_deref() == Some(tag));
    all.into_iter().map(|listed| listed.head.id).collect()
}

/// Returns all stored sessions that are no checkpoints, without the session `but`.
async fn copies(place: &Place, but: &str) -> Vec<Listed> {
    let query = Query { checkpoints: Some(false), ..Query::default() };
    let mut listed = place.store().list(&query).await.unwrap();
    listed.retain(|listed| listed.head.id != but);
    listed
}

fn prompts(events: &[(usize, Event)]) -> Vec<String> {
    let prompt = |event: &Event| match event {
        Event::TurnQueued { prompt, .. } => Some(prompt.iter().map(ToString::to_string).collect()),
        _ => None,
    };
    events.iter().filter_map(|(_, event)| prompt(event)).collect()
}

#[tokio::test]
async fn a_checkpoint_has_what_was_said_and_stays_as_it_is() {
    let place = Place::new();
    let (sessions, told) = registry(place.store(), vec![says("a"), says("b"), says("c")], vec![]);
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    said(&loaded, "/chat save here").await.unwrap();
    ask(&loaded, "two").await;
    let [checkpoint] = &tagged(&place, &loaded, "here").await[..] else { panic!("none") };
    let before = stored(&*place.store(), checkpoint).await;
    assert_eq!(prompts(&before), ["one"]);
    let head = place.store().head(checkpoint).await.unwrap();
    assert_eq!(head.from.unwrap().id, loaded.id());
    let refused = sessions.load(checkpoint, Vec::new(), |_| ()).await;
    let refused = refused.err().expect("nothing is added to a checkpoint");
    assert!(
        matches!(&refused, LoadError::Store(StoreError::Checkpoint(tag)) if tag == "here"),
        "{refused}"
    );
    let listed: Vec<_> = sessions.stored_sessions(None).try_collect().await.unwrap();
    assert!(listed.is_empty(), "no client is offered one");
    // A session that is a copy of the checkpoint has the first prompt, and nothing from after the checkpoint.
    let copy = tandem_agent::sessions::fork(&*place.store(), checkpoint).await.unwrap();
    assert_eq!(copy.tag, None);
    ask(&*load(&sessions, &copy.id).await, "three").await;
    assert_eq!(*told.lock().unwrap(), ["user: one", "assistant: a []", "user: three"]);
    assert_eq!(stored(&*place.store(), checkpoint).await, before);
    end(&sessions).await;
}

#[tokio::test]
async fn a_tag_that_is_taken_is_overwritten_only_by_who_says_so() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("a"), says("b")], vec![]);
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    said(&loaded, "/chat save a tag").await.unwrap();
    let first = tagged(&place, &loaded, "a tag").await;
    ask(&loaded, "two").await;
    let asked = said(&loaded, "/chat save a tag").await.unwrap_err();
    assert!(asked.contains("`/chat overwrite a tag`"), "{asked}");
    assert_eq!(tagged(&place, &loaded, "a tag").await, first);
    said(&loaded, "/chat overwrite a tag").await.unwrap();
    let second = tagged(&place, &loaded, "a tag").await;
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
    let all = prompts(&stored(&*place.store(), &second[0]).await);
    assert_eq!(all, ["one", "/chat save a tag", "two", "/chat save a tag"]);
    said(&loaded, "/chat save other").await.unwrap();
    let list = said(&loaded, "/chat list").await.unwrap();
    let tags: Vec<_> = list.lines().filter_map(|line| line.split('`').nth(1)).take(2).collect();
    assert_eq!(tags, ["other", "a tag"]);
    said(&loaded, "/chat delete a tag").await.unwrap();
    assert!(tagged(&place, &loaded, "a tag").await.is_empty());
    assert!(said(&loaded, "/chat delete a tag").await.is_err());
    assert_eq!(tagged(&place, &loaded, "other").await.len(), 1);
    let other = tagged(&place, &loaded, "other").await;
    let resume = said(&loaded, "/chat resume other").await.unwrap();
    assert!(resume.contains(&format!("`tandem -r {}`", other[0])), "{resume}");
    assert!(said(&loaded, "/chat save \u{7}").await.is_err(), "it would be shown in lists");
    end(&sessions).await;
}

#[tokio::test]
async fn a_fork_has_no_turn_that_has_not_ended() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("a"), says("b")], vec![]);
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    let session = loaded.session();
    let mut log = session.events(session.position());
    for prompt in ["/fork", "two"] {
        session.prompt(text(prompt), Origin::Terminal);
    }
    for _ in 0..2 {
        until(&mut log, is_end).await;
    }
    let [copy] = &copies(&place, loaded.id()).await[..] else { panic!("none") };
    let all = stored(&*place.store(), &copy.head.id).await;
    assert_eq!((prompts(&all), copy.turns), (vec!["one".to_owned()], 1));
    let original = events(session);
    assert!(all[1..].iter().all(|event| original.contains(event)), "indexes stay");
    let opened = load(&sessions, &copy.head.id).await;
    let ends = |event: &Event| matches!(event, Event::TurnFinished { reason, .. } if *reason != StopReason::EndTurn);
    assert!(!events(opened.session()).iter().any(|(_, event)| ends(event)));
    end(&sessions).await;
}

#[tokio::test]
async fn what_is_not_stored_or_not_begun_is_not_copied() {
    for command in ["/fork", "/chat save x"] {
        let place = Place::new();
        let (sessions, _) = registry(place.store(), vec![], vec![]);
        let loaded = create(&sessions);
        assert!(loaded.session().wait_stored().await.is_err());
        assert!(said(&loaded, command).await.is_err(), "{command}");
        assert!(place.store().list(&Query::default()).await.unwrap().is_empty(), "not itself");
        end(&sessions).await;
    }
    let (model, _) = Spy::new(vec![says("a")]);
    let unstored = Session::new(parts(model));
    let mut log = unstored.events(0);
    unstored.prompt(text("one"), Origin::Terminal);
    unstored.prompt(text("/fork"), Origin::Terminal);
    for _ in 0..2 {
        until(&mut log, is_end).await;
    }
    let mut log = unstored.events(0);
    let failure = |event: Arc<Event>| match &*event {
        Event::CommandFailed(why) => Some(why.clone()),
        _ => None,
    };
    let failure = std::iter::from_fn(|| log.try_next()).find_map(failure).unwrap();
    expect!["Not copied: sessions are not stored, because `TANDEM_SESSIONS` is empty or there is no home directory: set `TANDEM_SESSIONS` to a directory, and start tandem again."].assert_eq(&failure);
}

#[tokio::test]
async fn a_session_that_a_client_began_knows_no_checkpoint_of_others() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("a"), says("b")], vec![]);
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    said(&loaded, "/chat save mine").await.unwrap();
    let served = create(&sessions);
    served.session().prompt(text("/about"), Origin::A2a(ClientName::default()));
    served.session().turns().idle().await;
    ask(&served, "two").await;
    for command in ["save", "overwrite", "resume", "delete"] {
        let refused = said(&served, &format!("/chat {command} mine")).await;
        assert!(refused.is_err(), "{command}: {refused:?}");
    }
    said(&served, "/chat save theirs").await.unwrap();
    let list = async |loaded| said(loaded, "/chat list").await.unwrap();
    assert!(!list(&served).await.contains("mine"));
    let all = list(&loaded).await;
    assert!(all.contains("mine") && all.contains("theirs"), "{all}");
    end(&sessions).await;
}
