//! A compression keeps the items of the Responses API unchanged.

use std::sync::Arc;

use serde_json::Value;
use tandem_agent::session::{Event, Origin, Parts, Session, StopReason};
use tandem_host::{Access, Tool, ToolKind};
use test_fakes::{Fake, is_end, parts, text, until};
use test_support::api_server::responses::{answer, call, input, message, reasoning, start};

use super::list::responses_model;

/// Returns the items of a step with ids of its own and a long text before the call.
fn long_step(n: usize) -> [Value; 3] {
    let id = |kind: &str| format!("{kind}_{n}");
    // Each word is different, because a text that repeats itself would be cut off as a loop.
    let text: String = (0..6000).map(|line| format!("{} ", (line * 10 + n) * 7919)).collect();
    [
        reasoning(&id("rs"), &format!("c2lnbmVk{n}"), "I must look"),
        message(&id("msg"), &text, "commentary"),
        call(&id("fc"), &id("call"), "{}"),
    ]
}

#[tokio::test]
async fn after_a_compression_what_is_left_is_still_as_it_came() {
    let last = |n: usize| answer(&[message(&format!("msg_end_{n}"), "Done.", "final_answer")]);
    let summary =
        message("msg_s", "<state_snapshot>It goes well.</state_snapshot>", "final_answer");
    let steps = (0..4).flat_map(|n| [answer(&long_step(n)), last(n)]);
    let server = start(steps.chain([answer(&[summary]), last(9)]).collect()).await;
    let tool: Arc<dyn Tool> = Arc::new(Fake::new("glob", ToolKind::Find, Access::Read));
    let model = responses_model(&server);
    let session = Session::new(Parts { tools: vec![tool], ..parts(model) });
    for prompt in ["one", "two", "three", "four", "/compress", "five"] {
        let mut log = session.events(session.position());
        session.prompt(text(prompt), Origin::Editor);
        let events = until(&mut log, is_end).await;
        let ends = |event: &Arc<Event>| {
            matches!(&**event, Event::TurnFinished { reason: StopReason::EndTurn, .. })
        };
        assert!(events.iter().any(ends), "{prompt}: {events:?}");
    }
    assert_eq!(server.asked().len(), 10, "no request was refused");
    let sent = input(&server, 9);
    assert!(sent[0]["content"].to_string().contains("It goes well."), "{}", sent[0]);
    let thoughts: Vec<_> = sent.iter().filter(|item| item["type"] == "reasoning").collect();
    assert!((1..4).contains(&thoughts.len()), "{} steps are left", thoughts.len());
    assert_eq!(*thoughts.last().unwrap(), &long_step(3)[0]);
}
