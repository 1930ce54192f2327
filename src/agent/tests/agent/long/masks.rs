//! Old results that are masked, while the rest of the prompt stays unchanged.

use std::fs;

use tandem_agent::session::{Memory, Places};

use super::*;
use test_fakes::host;

/// Returns the results in the model's last prompt, oldest first.
fn results(model: &Says) -> Vec<String> {
    let told = last_told(model).into_iter().filter_map(|message| match message {
        Message::Results(results) => Some(results.into_iter().map(|result| result.text)),
        _ => None,
    });
    told.flatten().collect()
}

fn masks(events: &[Arc<Event>]) -> usize {
    events.iter().filter(|event| matches!(&***event, Event::Masked(_))).count()
}

#[tokio::test]
async fn old_results_that_take_much_room_are_told_in_short_first() {
    let model = model(Some(60_000), 16, |_| panic!("asked for a summary"));
    let session = session(Arc::clone(&model) as _, 8000);
    let events = turn(&session, "go").await;
    assert_eq!((compressions(&events).len(), masks(&events)), (0, 1));
    let told = results(&model);
    let short: Vec<_> = told.iter().filter(|text| text.len() < 1000).collect();
    // A fifth of the window (12,000 of 60,000 tokens) stays unmasked, which is six results of 2,000 tokens. The
    // results before those are shortened.
    assert!((5..9).contains(&short.len()), "{}", short.len());
    assert!(told.iter().take(short.len()).all(|text| text.len() < 1000), "the newest stay");
    for (n, text) in short.iter().enumerate() {
        assert!(text.starts_with(&format!("result {}: x", n + 1)), "{text}");
        let (_, rest) = text.split_once("all of it is in ").unwrap();
        let whole = fs::read_to_string(rest.split_once(", which").unwrap().0).unwrap();
        assert_eq!(whole, format!("result {}: {}", n + 1, "x".repeat(8000)));
    }
}

#[tokio::test]
async fn what_the_model_was_told_stays_as_it_was_until_it_has_to_be_shorter() {
    let model = model(Some(60_000), 60, |_| snapshot("Short."));
    let session = session(Arc::clone(&model) as _, 8000);
    let mut events = turn(&session, "go").await;
    events.extend(turn(&session, "and on").await);
    let changes = masks(&events) + compressions(&events).len();
    assert!(masks(&events) > 0 && !compressions(&events).is_empty(), "{changes}");
    let told = model.told.lock().unwrap();
    let told: Vec<_> = told.iter().filter(|prompt| !is_summary(prompt)).collect();
    let grows = told.windows(2).filter(|pair| {
        let (before, after) = (&pair[0].messages, &pair[1].messages);
        pair[0].system == pair[1].system
            && pair[0].tools == pair[1].tools
            && after.len() > before.len()
            && before.iter().zip(after).all(|(one, other)| Arc::ptr_eq(one, other))
    });
    assert_eq!(grows.count(), told.len() - 1 - changes);
}

#[tokio::test]
async fn images_are_let_go_with_the_results_that_they_came_with() {
    let count = Arc::new(Mutex::new(0));
    let look = Fake::new("t", ToolKind::Read, Access::Read).running(move |_| {
        let mut count = count.lock().unwrap();
        *count += 1;
        let text = format!("picture {count}");
        let media = vec![Media::new("image/png", b"png")];
        async move { Ok(ToolOutput { text, media, shown: None }) }
    });
    let model = model(Some(40_000), 10, |_| panic!("asked for a summary"));
    let session =
        Session::new(Parts { tools: vec![Arc::new(look)], ..parts(Arc::clone(&model) as _) });
    let events = turn(&session, "go").await;
    assert_eq!((reason(&events), masks(&events)), (StopReason::EndTurn, 1));
    let told = last_told(&model);
    let Message::Results(first) = &told[2] else { panic!("{told:?}") };
    assert_eq!(first[0].text, "picture 1\n[1 attached, not told any more]");
    assert!(first[0].media.is_empty());
    let Some(Message::Results(last)) = told.last() else { panic!("{told:?}") };
    assert_eq!(last[0].media.len(), 1);
}

#[tokio::test]
async fn without_a_summary_it_is_all_that_can_be_done() {
    let gone = || vec![Err(Error::Unavailable("gone".to_owned()))];
    let model = model(Some(30_000), 12, move |_| gone());
    let session = session(Arc::clone(&model) as _, 4500);
    let events = turn(&session, "go").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    assert!(masks(&events) > 0, "{:?}", notices(&events));
}

#[tokio::test]
async fn a_single_result_that_is_too_much_for_the_model_is_told_in_short() {
    let model = Says::new(None, |prompt| match prompt {
        _ if is_summary(prompt) => panic!("asked for a summary"),
        _ if all_text(prompt).len() > 20_000 => {
            vec![Err(Error::ContextTooLong("too long".to_owned()))]
        }
        _ if goes_on(prompt) => says("I read it piece by piece."),
        _ => calls("t", json!({})),
    });
    let session = session(Arc::clone(&model) as _, 30_000);
    let events = turn(&session, "go").await;
    assert_eq!((reason(&events), masks(&events)), (StopReason::EndTurn, 1));
    assert!(results(&model)[0].contains("all of it is in "), "{:?}", results(&model));
}

#[tokio::test]
async fn what_people_have_written_stays_with_a_result_that_is_told_in_short() {
    let home = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(home.path()).unwrap();
    let rules = format!("The rules for sub. {} They end.", "Use tabs. ".repeat(500));
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/AGENTS.md"), &rules).unwrap();
    fs::write(root.join("sub/a.rs"), format!("// {}\n", "x".repeat(70)).repeat(200)).unwrap();
    let model = Says::new(Some(60_000), |prompt| match prompt.messages.len() {
        _ if is_summary(prompt) => panic!("asked for a summary"),
        1 => calls("read_file", json!({ "file_path": "sub/a.rs" })),
        2..36 => calls("t", json!({ "n": prompt.messages.len() })),
        _ => says("Done."),
    });
    let session = session_in(Arc::clone(&model) as _, 8000, |parts| Parts {
        host: host(&root),
        memory: Memory::new(Places::default(), || Box::new(|_| true)),
        ..parts
    });
    let events = turn(&session, "go").await;
    assert_eq!(masks(&events), 1);
    let first = &results(&model)[0];
    let (own, told) = first.split_once("[More that the user and the project have").unwrap();
    assert!(own.len() < 1000 && own.contains("all of it is in "), "{own}");
    assert!(told.contains(&rules) && told.ends_with(" ---\n"), "{told}");
    let (_, rest) = own.split_once("all of it is in ").unwrap();
    let whole = fs::read_to_string(rest.split_once(", which").unwrap().0).unwrap();
    assert!(!whole.contains(&rules), "{whole}");
}
