//! Property tests: any conversation has the promised properties once it is hardened.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::arbitrary;

/// Returns `true` for the native answers of one backend, which these tests treat as the target provider's.
fn speaks(_: &Assistant, native: &Native) -> bool {
    native.backend == "gemini" && !native.parts.is_empty()
}

fn wrong(messages: &[Arc<Message>]) -> Option<&'static str> {
    let kind = |message: Option<&Arc<Message>>| message.map(|it| std::mem::discriminant(&**it));
    let user = kind(Some(&says("x")));
    if kind(messages.first()) != user {
        return Some("the first message is not the user's");
    }
    if matches!(&**messages.last()?, Message::Assistant(_)) {
        return Some("the last message is the model's");
    }
    let mut before: Option<&Message> = None;
    for message in messages {
        let right = match (before, &**message) {
            (_, Message::User(parts)) if parts.is_empty() || parts.iter().any(is_blank) => false,
            (None, Message::User(_)) => true,
            (Some(Message::Assistant(answer)), Message::User(_)) => answer.calls.is_empty(),
            (Some(Message::Assistant(answer)), Message::Results(results)) => {
                let called = answer.calls.iter().map(|call| (&call.id, &call.name));
                let answered = results.iter().map(|result| (&result.call, &result.name));
                !results.is_empty() && called.eq(answered)
            }
            (Some(Message::User(_) | Message::Results(_)), Message::Assistant(answer)) => {
                !answer.text.trim().is_empty()
                    || !answer.calls.is_empty()
                    || answer.native.as_ref().is_some_and(|native| speaks(answer, native))
            }
            _ => false,
        };
        if !right {
            return Some("a message is empty or out of place");
        }
        before = Some(message);
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation_is_made_good(messages in arbitrary::conversation()) {
        let hardened = harden(&messages, speaks);
        prop_assert_eq!(wrong(&hardened), None, "{:#?}", hardened);
    }

    #[test]
    fn a_good_conversation_is_left_as_it_is(messages in arbitrary::conversation()) {
        let once = harden(&messages, speaks);
        let twice = harden(&once, speaks);
        prop_assert_eq!(once.len(), twice.len());
        prop_assert!(once.iter().zip(&twice).all(|(a, b)| Arc::ptr_eq(a, b)));
    }

    #[test]
    fn no_word_of_the_user_is_lost(messages in arbitrary::conversation()) {
        let said = |messages: &[Arc<Message>]| {
            let parts = messages.iter().filter_map(|message| match &**message {
                Message::User(parts) => Some(parts.clone()),
                _ => None,
            });
            let added = |part: &Part| {
                matches!(part, Part::Text(text) if text == CONTINUE_PROMPT || text == BEGINNING_NOTE)
            };
            parts.flatten().filter(|it| !is_blank(it) && !added(it)).collect::<Vec<_>>()
        };
        prop_assert_eq!(said(&messages), said(&harden(&messages, speaks)));
    }

    #[test]
    fn no_call_is_lost(messages in arbitrary::conversation()) {
        let called = |messages: &[Arc<Message>]| {
            let calls = messages.iter().filter_map(|message| match &**message {
                Message::Assistant(answer) => Some(answer.calls.clone()),
                _ => None,
            });
            calls.flatten().collect::<Vec<_>>()
        };
        prop_assert_eq!(called(&messages), called(&harden(&messages, speaks)));
    }
}

/// Returns a message from its short form: `u:text` (user), `m:text` (model), `m:text(a b)` (model with calls `a` and
/// `b`), or `r:a b` (results).
fn message(short: &str) -> Arc<Message> {
    let (kind, rest) = short.split_once(':').unwrap();
    let ids = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let name = "glob".to_owned();
    Arc::new(match kind {
        "u" => Message::User(vec![Part::Text(rest.to_owned())]),
        "m" => {
            let (text, calls) = rest.trim_end_matches(')').split_once('(').unwrap_or((rest, ""));
            let call = |id| Call { id, name: name.clone(), args: Value::Null };
            let calls = ids(calls).into_iter().map(call).collect();
            Message::Assistant(Assistant { text: text.to_owned(), calls, native: None })
        }
        _ => {
            let result = |call: String| ToolResult {
                text: format!("of {call}"),
                call,
                name: name.clone(),
                failed: false,
                media: Vec::new(),
            };
            Message::Results(ids(rest).into_iter().map(result).collect())
        }
    })
}

fn short(message: &Message) -> String {
    match message {
        Message::User(parts) => {
            let texts = parts.iter().map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Media(media) => media.mime_type.clone(),
            });
            format!("u:{}", texts.collect::<Vec<_>>().join("+"))
        }
        Message::Assistant(answer) => {
            let ids = answer.calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>();
            let calls = if ids.is_empty() { String::new() } else { format!("({})", ids.join(" ")) };
            format!("m:{}{calls}", answer.text)
        }
        Message::Results(results) => {
            let one = |result: &ToolResult| {
                let lost = if result.text == LOST_RESULT { "?" } else { "" };
                format!("{}{lost}", result.call)
            };
            format!("r:{}", results.iter().map(one).collect::<Vec<_>>().join(" "))
        }
    }
}

#[track_caller]
fn check(messages: &[&str], expected: &[&str]) {
    let messages: Vec<_> = messages.iter().map(|it| message(it)).collect();
    let hardened: Vec<_> = harden(&messages, speaks).iter().map(|it| short(it)).collect();
    assert_eq!(hardened, expected);
}

#[test]
fn calls_without_results_are_answered() {
    check(&["u:hi", "m:(a b)"], &["u:hi", "m:(a b)", "r:a? b?"]);
    check(&["u:hi", "m:(a b)", "r:b"], &["u:hi", "m:(a b)", "r:a? b"]);
    check(&["u:hi", "m:(a)", "m:ok", "u:go"], &["u:hi", "m:(a)", "r:a?", "m:ok", "u:go"]);
}

#[test]
fn results_are_put_in_order_and_orphans_dropped() {
    check(&["u:hi", "m:(a b)", "r:b a"], &["u:hi", "m:(a b)", "r:a b"]);
    check(&["u:hi", "m:(a b)", "r:b", "r:x a"], &["u:hi", "m:(a b)", "r:a b"]);
    check(&["u:hi", "r:a", "m:ok", "r:b", "u:go"], &["u:hi", "m:ok", "u:go"]);
    check(&["u:hi", "m:(a a)", "r:a a a"], &["u:hi", "m:(a a)", "r:a a"]);
}

#[test]
fn a_prompt_after_results_comes_after_an_interrupted_answer() {
    let note = format!("m:{INTERRUPTED_NOTE}");
    check(&["u:hi", "m:(a)", "r:a", "u:no"], &["u:hi", "m:(a)", "r:a", &note, "u:no"]);
    check(&["u:hi", "m:(a)", "u:no"], &["u:hi", "m:(a)", "r:a?", &note, "u:no"]);
}

#[test]
fn the_user_is_first_and_last() {
    let (begin, go_on) = (format!("u:{BEGINNING_NOTE}"), format!("u:{CONTINUE_PROMPT}"));
    check(&["m:hello"], &[&begin, "m:hello", &go_on]);
    check(&[], &[&go_on]);
    check(&["u: "], &[&go_on]);
}

#[test]
fn neighbours_of_one_side_are_joined() {
    check(&["u:a", "u:b", "u:", "u:c"], &["u:a+b+c"]);
    check(&["u:a", "m:b", "u: ", "m:c(d)", "r:d"], &["u:a", "m:b\n\nc(d)", "r:d"]);
}

#[test]
fn native_answers_are_joined_only_with_their_like() {
    let answer = |text: &str, native: Option<(&str, &str)>| {
        let native = native.map(|(backend, model)| Native {
            backend: backend.to_owned(),
            model: model.to_owned(),
            parts: vec![json!({ "text": text })],
        });
        let text = text.to_owned();
        Arc::new(Message::Assistant(Assistant { text, calls: Vec::new(), native }))
    };
    let of = |a, b| {
        let messages = [message("u:hi"), answer("a", a), answer("b", b), message("u:ok")];
        let hardened = harden(&messages, speaks);
        assert_eq!(wrong(&hardened), None);
        let natives = hardened.iter().filter_map(|message| match &**message {
            Message::Assistant(answer) => Some(answer.native.as_ref().map(|it| it.parts.len())),
            _ => None,
        });
        natives.collect::<Vec<_>>()
    };
    let (one, two) = (Some(("gemini", "one")), Some(("gemini", "two")));
    assert_eq!(of(one, one), [Some(2)]);
    assert_eq!(of(one, two), [Some(1), Some(1)]);
    assert_eq!(of(one, None), [Some(1), None]);
    // The backend of this test sends no native parts of `openai`. Such parts do not prevent `harden` from joining
    // two answers.
    assert_eq!(of(None, Some(("openai", "x"))), [None]);
}
