//! `/rewind`: the conversation goes back to before an earlier prompt, with or without the files.

use tandem_agent::session::{StopReason, TurnId};
use tandem_host::Tool;

use super::*;
use test_fakes::{Fake, says};

/// Returns an answer of the model without calls.
fn answer(words: &str) -> Vec<Chunks> {
    vec![says(words)]
}

impl Stage {
    /// Returns the reason for which the last turn ended.
    fn reason(&self) -> StopReason {
        let mut log = self.session.events(0);
        let reasons = std::iter::from_fn(|| log.try_next()).filter_map(|event| match &*event {
            Event::TurnFinished { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        reasons.last().unwrap()
    }

    /// Waits for the end of a turn.
    async fn ended(&self, turn: TurnId) {
        let is_it = |event: &Event| matches!(event, Event::TurnFinished { turn: ended, .. } if *ended == turn);
        until(&mut self.session.events(0), is_it).await;
    }
}

#[tokio::test]
async fn conversation_and_files_go_back_together() {
    let stage = Stage::new(vec![
        writes(&[("w1", "a", "one\n")]),
        writes(&[("w2", "a", "two\n"), ("w3", "new/b", "b\n")]),
        writes(&[("w4", "a", "three\n")]),
        answer("I see"),
    ]);
    for prompt in ["first", "second", "third"] {
        stage.say(prompt).await;
    }
    let said = stage.say("/rewind 2").await;
    expect![[r#"
        Went back to before prompt 2: `second`

        - `a` is as it was before `w4`
        - `new/b`, which `w3` created, is removed again
        - `a` is as it was before `w2`

        Changes that commands made are not undone.
    "#]]
    .assert_eq(&said);
    assert_eq!(stage.read("a").unwrap(), "one\n");
    assert!(!stage.path("new").exists());
    stage.say("another second").await;
    let told = stage.told();
    // The conversation no longer has the changes after prompt 2, so the model is not told that they were undone.
    assert!(told.ends_with("assistant: done []\nuser: another second"), "{told}");
    assert!(told.contains("w1") && !told.contains("w2") && !told.contains("third"), "{told}");
}

#[tokio::test]
async fn the_conversation_goes_back_alone() {
    let stage = Stage::new(vec![answer("hello"), writes(&[("w1", "a", "one\n")]), answer("I see")]);
    stage.say("hi").await;
    stage.say("write").await;
    assert_eq!(stage.say("/rewind conversation 2").await, "Went back to before prompt 2: `write`");
    assert_eq!(stage.read("a").unwrap(), "one\n");
    stage.say("and now?").await;
    assert_eq!(stage.told(), "user: hi\nassistant: hello []\nuser: and now?");
    // The user can still undo a change whose prompt was removed. The model has never heard of this change, and is
    // not told.
    stage.say("/restore since 2").await;
    assert_eq!(stage.read("a"), None);
}

#[tokio::test]
async fn what_the_user_changed_since_is_left_alone_when_the_rest_goes_back() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n"), ("w2", "b", "b\n")]), answer("ok")]);
    stage.say("write").await;
    stage.write("a", "mine\n");
    let said = stage.say("/rewind 1").await;
    expect![[r#"
        Went back to before prompt 1: `write`

        - `b`, which `w2` created, is removed again
        - `a` was left alone (`w1`): the file has been changed since, by somebody else

        Changes that commands made are not undone.
    "#]]
    .assert_eq(&said);
    assert_eq!((stage.read("a").as_deref(), stage.read("b")), (Some("mine\n"), None));
    stage.say("again").await;
    assert_eq!(stage.told(), "user: again");
}

#[tokio::test]
async fn of_a_change_that_it_knows_the_model_is_still_told_that_it_is_gone() {
    let stage = Stage::new(vec![
        writes(&[("w1", "a", "one\n")]),
        answer("what?"),
        answer("I see"),
        answer("yes"),
    ]);
    stage.say("write").await;
    stage.say("go on").await;
    stage.say("/restore w1").await;
    stage.say("/rewind conversation 2").await;
    stage.say("go on, then").await;
    let note = "(your call w1)";
    assert_eq!(stage.told().matches(note).count(), 1, "{}", stage.told());
    stage.say("and on").await;
    assert_eq!(stage.told().matches(note).count(), 1, "{}", stage.told());
}

#[tokio::test]
async fn the_list_has_what_the_model_was_told_or_made_to_forget() {
    let stage = Stage::new(vec![
        writes(&[("w1", "a", "one\n")]),
        writes(&[("w2", "a", "two\n"), ("w3", "b", "b\n")]),
        answer("three"),
    ]);
    assert_eq!(stage.say("/rewind").await, "There is no prompt to go back to.");
    for prompt in ["write\n`them`", "/stats", "again", "/clear", "/restore w3", "third"] {
        stage.say(prompt).await;
    }
    let said = stage.say("/rewind list").await;
    expect![[r#"
        Prompts that the conversation can go back to. `/rewind N` goes back to before prompt N, with the files as they were then. `/rewind conversation N` leaves the files as they are; `/restore since N` leaves the conversation as it is.

        - 2: `write 'them'` (just now, 1 file changed since)
        - 4: `again` (just now, 1 file changed since)
        - 5: `/clear` (just now)
        - 7: `third` (just now)
    "#]]
    .assert_eq(&said);
}

#[tokio::test]
async fn what_was_cleared_comes_back() {
    let stage = Stage::new(vec![answer("one"), answer("two")]);
    stage.say("first").await;
    stage.say("/clear").await;
    stage.say("/rewind 2").await;
    stage.say("second").await;
    assert_eq!(stage.told(), "user: first\nassistant: one []\nuser: second");
}

#[tokio::test]
async fn where_there_is_no_such_prompt_nothing_goes_back() {
    let stage = Stage::new(vec![
        answer("one"),
        writes(&[("w1", "a", "one\n")]),
        answer("three"),
        answer("four"),
    ]);
    stage.say("first").await;
    stage.say("second").await;
    stage.say("/stats").await;
    for number in ["9", "0", "3", "4", "second", "1 2", "-1", "`"] {
        let said = stage.say(&format!("/rewind {number}")).await;
        assert!(said.contains("is not the number of a prompt"), "{number}: {said}");
    }
    stage.say("/rewind conversation 2").await;
    // The rewind has removed prompt 2 from the conversation.
    let said = stage.say("/rewind 2").await;
    assert!(said.contains("is not the number of a prompt"), "{said}");
    assert_eq!(stage.read("a").unwrap(), "one\n");
    stage.say("third").await;
    assert_eq!(stage.told(), "user: first\nassistant: one []\nuser: third");
}

#[tokio::test]
async fn prompts_that_wait_are_said_after_the_conversation_has_gone_back() {
    let stage = Stage::new(vec![answer("one"), answer("three"), answer("four")]);
    let turns = ["first", "/rewind conversation 1", "third", "fourth"]
        .map(|prompt| stage.session.prompt(text(prompt), Origin::Editor));
    // The other prompts wait while the first is answered. Then the rewind removes the first prompt, so later
    // requests do not have it.
    stage.ended(turns[3]).await;
    assert_eq!(stage.told(), "user: third\nassistant: three []\nuser: fourth");
}

#[tokio::test]
async fn a_prompt_that_was_taken_back_leaves_nothing_behind() {
    let stage = Stage::new(vec![answer("one"), answer("four")]);
    let turns = ["first", "second", "/rewind conversation 1", "fourth"]
        .map(|prompt| stage.session.prompt(text(prompt), Origin::Editor));
    assert!(stage.session.turns().take_back(turns[1]));
    stage.ended(turns[3]).await;
    assert_eq!(stage.told(), "user: fourth");
}

#[tokio::test]
async fn what_the_model_was_asked_has_cost_something() {
    let stage = Stage::with(vec![answer("one"), answer("two")], |parts| Parts {
        max_session_rounds: Some(2),
        ..parts
    });
    stage.say("first").await;
    stage.say("second").await;
    stage.say("/rewind 1").await;
    stage.say("third").await;
    assert_eq!(stage.reason(), StopReason::MaxSessionRounds(2));
}

#[tokio::test]
async fn a_call_of_a_turn_that_never_was_keeps_its_id() {
    let unnamed = || Fake::new("look", tandem_agent::session::ToolKind::Read, test_fakes::other());
    let call = || test_fakes::calls("look", json!({}));
    let answers = vec![vec![call(), says("one")], vec![call(), says("two")], answer("three")];
    let stage = Stage::with(answers, |parts| {
        let look: Arc<dyn Tool> = Arc::new(unnamed());
        Parts { tools: vec![look], ..parts }
    });
    stage.say("first").await;
    stage.say("/rewind 1").await;
    stage.say("second").await;
    stage.say("third").await;
    assert!(stage.told().contains("[look-2]"), "{}", stage.told());
}

#[tokio::test]
async fn the_beginning_stays_as_it_was_and_what_is_written_for_a_directory_is_told_again() {
    let reads = || {
        let args = json!({ "file_path": "sub/a" });
        let call = Call { id: String::new(), name: "read_file".to_owned(), args };
        vec![vec![Ok(Chunk::Call(call))], says("read")]
    };
    let answers = vec![answer("hello"), reads(), answer("ok"), reads(), answer("ok")];
    let (spy, told) = Spy::new(answers.into_iter().flatten().collect());
    let stage = Stage::with(Vec::new(), |parts| Parts { model: Arc::clone(&spy) as _, ..parts });
    fs::create_dir(stage.path("sub")).unwrap();
    stage.write("sub/a", "text\n");
    stage.write("sub/GEMINI.md", "Mind the gap.");
    stage.say("hi").await;
    let system = spy.system.lock().unwrap().clone();
    let is_told = || told.lock().unwrap().join("\n").matches("Mind the gap.").count();
    stage.say("read").await;
    assert_eq!(is_told(), 1);
    // `later` would appear in the overview of the directory, if the rewind made the system instruction anew.
    stage.write("later", "");
    stage.say("/rewind 2").await;
    stage.say("what is there?").await;
    assert_eq!((is_told(), spy.system.lock().unwrap().as_str()), (0, system.as_str()));
    stage.say("read").await;
    assert_eq!(is_told(), 1);
    stage.say("thanks").await;
    assert_eq!((is_told(), spy.system.lock().unwrap().as_str()), (1, system.as_str()));
}
