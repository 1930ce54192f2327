//! Compression that fails, helps little, is cancelled or takes long.

use std::time::Duration;

use tandem_model::Retry;

use super::*;

#[tokio::test]
async fn a_summary_that_is_no_shorter_is_not_used_and_not_tried_again_until_asked_for() {
    let summaries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&summaries);
    let model = model(Some(30_000), 30, move |_| {
        *count.lock().unwrap() += 1;
        snapshot(&"long ".repeat(20_000))
    });
    let session = session(Arc::clone(&model) as _, 2000);
    let events = turn(&session, "go").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    assert!(compressions(&events).is_empty());
    let why = "The conversation could not be compressed: the summary is empty, or no shorter. tandem will not \
        try again by itself: `/compress` tries again, `/clear` begins anew.";
    assert_eq!(notices(&events), [why]);
    assert_eq!(*summaries.lock().unwrap(), 1);
    let said = output(&session, "/compress").await;
    assert_eq!(said, "The conversation is not compressed: the summary is empty, or no shorter.");
    assert_eq!(*summaries.lock().unwrap(), 2);
}

#[tokio::test]
async fn a_model_that_fails_to_sum_up_is_harmless_and_asked_again_later() {
    let summaries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&summaries);
    let model = model(Some(30_000), 40, move |_| {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count == 1 {
            vec![Err(Error::Unavailable("gone".to_owned()))]
        } else {
            snapshot("Well.")
        }
    });
    let session = session(Arc::clone(&model) as _, 2000);
    let events = turn(&session, "go").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    assert_eq!(notices(&events), ["The conversation could not be compressed: gone"]);
    assert!(*summaries.lock().unwrap() >= 2 && !compressions(&events).is_empty());
}

#[tokio::test]
async fn a_conversation_that_the_model_will_not_take_is_compressed_once_and_told_again() {
    let model = Says::new(None, |prompt| match prompt {
        _ if is_summary(prompt) => snapshot("Short."),
        _ if all_text(prompt).len() > 20_000 => {
            vec![Err(Error::ContextTooLong("too long".to_owned()))]
        }
        _ if all_text(prompt).contains("Short.") => says("Done."),
        _ => calls("t", json!({ "n": prompt.messages.len() })),
    });
    let session = session(Arc::clone(&model) as _, 3000);
    let events = turn(&session, "go").await;
    assert_eq!((compressions(&events).len(), reason(&events)), (1, StopReason::EndTurn));

    let full = Mutex::new(false);
    let stubborn = Says::new(None, move |prompt| {
        let mut full = full.lock().unwrap();
        *full |= prompt.messages.len() > 7;
        match prompt {
            _ if is_summary(prompt) => snapshot("Short."),
            _ if *full => vec![Err(Error::ContextTooLong("too long".to_owned()))],
            _ => calls("t", json!({ "n": prompt.messages.len() })),
        }
    });
    let session = self::session(Arc::clone(&stubborn) as _, 3000);
    let events = turn(&session, "go").await;
    let failed = StopReason::Failed(Error::ContextTooLong("too long".to_owned()));
    assert_eq!((compressions(&events).len(), reason(&events)), (1, failed));
}

#[tokio::test]
async fn a_cancelled_summary_leaves_everything_as_it_was() {
    let model = Says::new(Some(20_000), |prompt| calls("t", json!({ "n": prompt.messages.len() })));
    let hanging = Arc::new(Hanging(model));
    let session = session(Arc::clone(&hanging) as _, 2000);
    let mut log = session.events(0);
    let turn = session.prompt(text("go"), Origin::Editor);
    hanging.0.wait_for_summary(&mut log).await;
    assert!(session.cancel(turn));
    let events = until(&mut log, is_end).await;
    assert!(matches!(reason(&events), StopReason::Cancelled { .. }));
    assert!(compressions(&events).is_empty());
}

struct Hanging(Arc<Says>);

impl Says {
    /// Waits until the model is asked for a summary.
    async fn wait_for_summary(&self, log: &mut tandem_agent::session::Reader) {
        while !self.told.lock().unwrap().iter().any(is_summary) {
            next(log).await;
            tokio::task::yield_now().await;
        }
    }
}

impl Model for Hanging {
    fn id(&self) -> &'static str {
        "hanging"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        self.0.limit
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        if is_summary(&prompt) {
            self.0.told.lock().unwrap().push(prompt);
            return stream::pending().boxed();
        }
        self.0.stream(prompt)
    }
}

#[tokio::test]
async fn it_is_not_done_again_at_once_where_it_helps_little() {
    let summaries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&summaries);
    let model = model(Some(30_000), 40, move |_| {
        *count.lock().unwrap() += 1;
        snapshot(&"much ".repeat(5200))
    });
    let session = session(model, 2000);
    let events = turn(&session, "go").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    // After a compression, the next one comes only when the conversation has grown by a tenth of the window: 3,000
    // tokens, or six of the 40 results.
    assert!((1..=4).contains(&compressions(&events).len()), "{}", compressions(&events).len());
}

#[tokio::test]
async fn a_refused_turn_that_was_compressed_leaves_nothing_of_its_prompt() {
    let left = Mutex::new(20);
    let model = Says::new(Some(30_000), move |prompt| {
        let mut left = left.lock().unwrap();
        *left -= 1;
        match prompt {
            _ if is_summary(prompt) => snapshot("Short."),
            _ if *left > 0 => calls("t", json!({ "n": *left })),
            _ if *left == 0 => vec![Err(Error::Refused("no".to_owned()))],
            _ => says("Fine."),
        }
    });
    let session = session(Arc::clone(&model) as _, 3000);
    let events = turn(&session, "What is refused.").await;
    assert_eq!(reason(&events), StopReason::Refused("no".to_owned()));
    assert!(!compressions(&events).is_empty());
    turn(&session, "Something else.").await;
    let told = last_told(&model);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(!format!("{told:?}").contains("What is refused."), "{told:?}");
}

#[tokio::test]
async fn after_clear_it_is_tried_again() {
    let useless = Arc::new(Mutex::new(true));
    let is_useless = Arc::clone(&useless);
    let model = model(Some(30_000), 20, move |_| {
        snapshot(if *is_useless.lock().unwrap() { "" } else { "Short." })
    });
    let session = session(model, 3000);
    assert!(compressions(&turn(&session, "one").await).is_empty());
    *useless.lock().unwrap() = false;
    assert!(compressions(&turn(&session, "two").await).is_empty());
    turn(&session, "/clear").await;
    assert!(!compressions(&turn(&session, "three").await).is_empty());
}

#[tokio::test]
async fn what_takes_long_is_said_while_it_does() {
    let model = model(None, 3, |_| {
        let retry = Retry {
            reason: "rate limited".to_owned(),
            delay: Duration::from_secs(7),
            attempt: 2,
            of: 10,
            discard: true,
        };
        let mut answer = says("half of");
        answer.push(Ok(Chunk::Retry(retry)));
        answer.extend(says("Whole."));
        answer
    });
    let session = session(model, 3000);
    turn(&session, "go").await;
    let events = turn(&session, "/compress").await;
    let said = events.iter().position(|event| match &**event {
        Event::Notice(notice) => notice.starts_with("Compressing the conversation of "),
        _ => false,
    });
    let retried = events.iter().position(|event| match &**event {
        Event::Retry(retry) => !retry.discard && retry.reason == "rate limited",
        _ => false,
    });
    assert!(said.unwrap() < retried.unwrap(), "{events:?}");
    assert_eq!(compressions(&events)[0].snapshot, "Whole.");
}

#[tokio::test]
async fn a_window_in_which_nothing_fits_ends_the_turn_and_says_why() {
    let script = json!({ "input_limit": 300 }).to_string()
        + "\n"
        + &json!({ "when": "", "answers": [[{ "text": "Never said." }]] }).to_string();
    let replay = Arc::new(Replay::from_script(&script).unwrap());
    let session = Session::new(Parts { tools: tools::all(), ..parts(replay) });
    for _ in 0..3 {
        let events = turn(&session, "go").await;
        let StopReason::Failed(Error::ContextTooLong(why)) = reason(&events) else {
            panic!("{events:?}")
        };
        assert!(why.ends_with("tokens, and the model takes 300"), "{why}");
        assert!(events.len() < 10, "{events:?}");
    }
}

#[tokio::test]
async fn a_summary_that_never_ends_is_given_up() {
    let model = model(None, 3, |_| (0..100).flat_map(|_| says(&"x".repeat(10_000))).collect());
    let session = session(model, 3000);
    turn(&session, "go").await;
    let said = output(&session, "/compress").await;
    assert_eq!(said, "The conversation is not compressed: a summary of more than 262144 bytes.");
}

#[tokio::test]
async fn a_command_that_compresses_waits_for_the_turn_that_runs_and_can_be_cancelled() {
    let model = Says::new(None, |prompt| match prompt.messages.len() {
        len if len < 8 => calls("t", json!({ "n": len })),
        _ => says("Done."),
    });
    let hanging = Arc::new(Hanging(model));
    let session = session(Arc::clone(&hanging) as _, 2000);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let command = session.prompt(text("/compress"), Origin::Terminal);
    let first = until(&mut log, is_end).await;
    assert_eq!(reason(&first), StopReason::EndTurn);
    assert!(compressions(&first).is_empty());
    hanging.0.wait_for_summary(&mut log).await;
    assert!(session.cancel(command));
    let second = until(&mut log, is_end).await;
    assert!(matches!(reason(&second), StopReason::Cancelled { .. }), "{second:?}");
    turn(&session, "What now?").await;
    assert_eq!(last_told(&hanging.0).len(), 11, "the conversation is as it was");
}

#[tokio::test]
async fn compressing_twice_says_that_there_is_nothing_left() {
    let model = model(None, 3, |_| snapshot("Short."));
    let session = session(model, 3000);
    turn(&session, "go").await;
    output(&session, "/compress").await;
    let again = output(&session, "/compress").await;
    assert_eq!(again, "The conversation is not compressed: there is nothing to compress yet.");
}

#[tokio::test]
async fn a_model_that_takes_less_than_is_known_is_told_less_to_sum_up() {
    let rooms = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&rooms);
    let model = Says::new(None, move |prompt| {
        let size = all_text(prompt).len();
        match prompt {
            _ if is_summary(prompt) => {
                seen.lock().unwrap().push(size);
                if size > 12_000 { too_long() } else { snapshot("Short.") }
            }
            _ if size > 30_000 => too_long(),
            _ if all_text(prompt).contains("Short.") => says("Done."),
            _ => {
                let mut answer = says(&(0..300).map(|n| format!("many {n} ")).collect::<String>());
                answer.extend(calls("t", json!({ "n": prompt.messages.len() })));
                answer
            }
        }
    });
    let session = session(Arc::clone(&model) as _, 1000);
    let events = turn(&session, "go").await;
    assert_eq!((compressions(&events).len(), reason(&events)), (1, StopReason::EndTurn));
    let rooms = rooms.lock().unwrap();
    assert!((2..=4).contains(&rooms.len()), "{rooms:?}");
    assert!(rooms.windows(2).all(|pair| pair[1] < pair[0]), "{rooms:?}");
}

fn too_long() -> Chunks {
    vec![Err(Error::ContextTooLong("too long".to_owned()))]
}
