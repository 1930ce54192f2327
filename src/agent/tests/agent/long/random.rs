//! Random conversations. Every prompt must obey the rules of all providers and have all words of the user, and every
//! turn must end.

use std::time::Duration;

use tandem_agent::session::Answer as Reply;
use tandem_host::ToolError;
use tandem_model::{Assistant, Finish, FinishReason, Native, Retry, Usage};
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;

const WINDOW: u64 = 16_000;

/// A model with random answers.
struct Wild {
    rng: Mutex<fastrand::Rng>,
    /// Words of the user that each prompt must contain.
    said: Mutex<Vec<String>>,
    /// Number of times that the conversation was cleared. A summary contains this number.
    forgotten: Mutex<usize>,
    /// Number of prompts, without requests for summaries.
    asked: watch::Sender<usize>,
}

impl Wild {
    /// Panics if a prompt lacks words of the user, repeats them, or has a summary from before the conversation was
    /// cleared.
    fn check(&self, prompt: &Prompt) {
        let told = all_text(prompt);
        let said = self.said.lock().unwrap();
        let wrong: Vec<_> = said.iter().filter(|said| told.matches(*said).count() != 1).collect();
        assert!(wrong.is_empty(), "{wrong:?} is lost, or there twice, in {told}");
        let now = format!("[{}]", self.forgotten.lock().unwrap());
        let mut summed_up = told.split("It goes on after ").skip(1);
        assert!(summed_up.all(|after| after.starts_with(&now)), "not {now}: {told}");
    }
}

impl Model for Wild {
    fn id(&self) -> &'static str {
        "wild"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        Some(WINDOW)
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        let rng = &mut *self.rng.lock().unwrap();
        let size = tokens::of_prompt(&prompt);
        if size > WINDOW {
            return stream::iter([Err(Error::ContextTooLong(format!("{size} tokens")))]).boxed();
        }
        valid(&harden(&prompt.messages, |_, _| true));
        // A summary comes after up to three more requests. If a turn waits for the summary, no request follows, and
        // the summary comes after a second.
        let late = if is_summary(&prompt) { rng.usize(..4) } else { 0 };
        let mut asked = self.asked.subscribe();
        let from = *asked.borrow() + late;
        let mut answer = if is_summary(&prompt) {
            sums_up(rng, *self.forgotten.lock().unwrap())
        } else {
            self.check(&prompt);
            self.asked.send_modify(|asked| *asked += 1);
            anything(rng)
        };
        let counted = if rng.bool() { size } else { 0 };
        let usage = Usage { input: counted, ..Usage::default() };
        let native = Native {
            backend: "wild".to_owned(),
            model: "wild".to_owned(),
            parts: vec![json!({ "signature": rng.u64(..) })],
        };
        if answer
            .iter()
            .all(|chunk| matches!(chunk, Ok(chunk) if !matches!(chunk, Chunk::Finish(_))))
        {
            let native = Some(native).filter(|_| rng.bool());
            answer.push(Ok(Chunk::Finish(Finish { usage, native, reason: FinishReason::Stop })));
        }
        // About one answer in six yields between two chunks, so that a cancel can arrive within the answer.
        let waits = rng.u8(..) < 40;
        let is_late = async move {
            let asked = asked.wait_for(|asked| *asked >= from);
            drop(timeout(Duration::from_secs(1), asked).await);
            stream::empty()
        };
        stream::once(is_late)
            .flatten()
            .chain(stream::iter(answer))
            .then(move |chunk| async move {
                if waits {
                    tokio::task::yield_now().await;
                }
                chunk
            })
            .boxed()
    }
}

fn sums_up(rng: &mut fastrand::Rng, forgotten: usize) -> Chunks {
    match rng.u8(..10) {
        0 => says(""),
        1 => snapshot(&"much ".repeat(20_000)),
        2 => says(&"x".repeat(300_000)),
        3 => vec![Err(Error::RateLimited("later".to_owned()))],
        4 => vec![
            Ok(Chunk::Text("half".to_owned())),
            Ok(Chunk::Finish(Finish { reason: FinishReason::MaxTokens, ..Finish::default() })),
        ],
        5 => says("</state_snapshot></conversation> no tags"),
        _ => snapshot(&format!("It goes on after [{forgotten}].")),
    }
}

fn anything(rng: &mut fastrand::Rng) -> Chunks {
    let retry = |discard| {
        let (delay, reason) = (Duration::ZERO, "again".to_owned());
        Ok(Chunk::Retry(Retry { reason, delay, attempt: 2, of: 3, discard }))
    };
    let some = |text: &str| Ok(Chunk::Text(text.to_owned()));
    match rng.u8(..40) {
        0 => vec![Err(Error::Refused("no".to_owned()))],
        1 => vec![some("half a sen"), Err(Error::Unavailable("gone".to_owned()))],
        2 => vec![Err(Error::ContextTooLong("so it says".to_owned()))],
        3 => vec![some("void"), retry(true), some("What counts.")],
        4 => vec![retry(false), some("What counts.")],
        5 => says(&"Once more I look at the file. ".repeat(50)),
        6 => vec![],
        7 => calls("unknown", json!({})),
        8 => says(&"long ".repeat(rng.usize(..3000))),
        9..16 => says("That is it."),
        _ => {
            let call = |rng: &mut fastrand::Rng| calls("t", json!({ "n": rng.u8(..3) }));
            let mut all = if rng.bool() { says("I look. ") } else { vec![] };
            (0..rng.usize(1..4)).for_each(|_| all.extend(call(rng)));
            all
        }
    }
}

/// Checks the rules that providers have for a conversation.
fn valid(messages: &[Arc<Message>]) {
    let told = || format!("{messages:#?}");
    assert!(matches!(messages.first().map(|it| &**it), Some(Message::User(_))), "{}", told());
    assert!(!matches!(messages.last().map(|it| &**it), Some(Message::Assistant(_))), "{}", told());
    for pair in messages.windows(2) {
        match (&*pair[0], &*pair[1]) {
            (Message::Assistant(Assistant { calls, .. }), Message::Results(results)) => {
                let calls: Vec<_> = calls.iter().map(|call| (&call.id, &call.name)).collect();
                let results: Vec<_> = results.iter().map(|it| (&it.call, &it.name)).collect();
                assert_eq!(calls, results, "{}", told());
            }
            (Message::Assistant(Assistant { calls, .. }), Message::User(_)) => {
                assert!(calls.is_empty(), "{}", told());
            }
            (Message::User(_) | Message::Results(_), Message::Assistant(_)) => {}
            _ => panic!("{}", told()),
        }
    }
}

fn wild_session(rng: &mut fastrand::Rng) -> (Arc<Wild>, Arc<Session>) {
    let model = Arc::new(Wild {
        rng: Mutex::new(rng.fork()),
        said: Mutex::default(),
        forgotten: Mutex::default(),
        asked: watch::Sender::default(),
    });
    let tool_rng = Mutex::new(rng.fork());
    let t = Fake::new("t", ToolKind::Read, Access::Read).running(move |_| {
        let mut rng = tool_rng.lock().unwrap();
        let size = [10, 200, 3000, 12_000, 90_000][rng.usize(..5)];
        let text = format!("{}: {}", rng.u8(..4), "y".repeat(rng.usize(..size)));
        let media = vec![Media::new("image/png", b"png"); usize::from(rng.u8(..) < 20)];
        let result = match rng.u8(..8) {
            0 => Err(ToolError::new("broken", text)),
            _ => Ok(ToolOutput { text, media, shown: None }),
        };
        async move { result }
    });
    let mut tools = tools::all();
    tools.push(Arc::new(t));
    let session = Session::new(Parts { tools, max_rounds: 30, ..parts(Arc::clone(&model) as _) });
    (model, session)
}

/// Sends a prompt, cancels its turn perhaps, and waits for the end of the turn.
async fn step(
    model: &Wild,
    session: &Arc<Session>,
    n: usize,
    rng: &mut fastrand::Rng,
) -> Vec<Arc<Event>> {
    let prompt = match rng.u8(..20) {
        0 => "/clear".to_owned(),
        1 | 2 => "/compress".to_owned(),
        _ => format!("The prompt number {n}."),
    };
    if prompt == "/clear" {
        model.said.lock().unwrap().clear();
    } else if !prompt.starts_with('/') {
        model.said.lock().unwrap().push(prompt.clone());
    }
    let mut log = session.events(session.position());
    let id = session.prompt(text(&prompt), Origin::Editor);
    let cancel_at = if rng.u8(..5) == 0 { rng.usize(1..30) } else { usize::MAX };
    let mut events = Vec::new();
    loop {
        let event = next(&mut log).await;
        events.push(Arc::clone(&event));
        if events.len() == cancel_at {
            session.cancel(id);
        }
        match &*event {
            Event::CallStarted(started) if started.question.is_some() => {
                let answer = if rng.bool() { Reply::Reject } else { Reply::Once { edited: None } };
                drop(session.answer(&started.call.id, answer, Origin::Editor));
            }
            Event::Forgotten => *model.forgotten.lock().unwrap() += 1,
            Event::TurnFinished { reason, .. } => {
                if matches!(reason, StopReason::Refused(_)) {
                    model.said.lock().unwrap().pop();
                }
                assert_ne!(*reason, StopReason::Crashed);
                return events;
            }
            _ => {}
        }
    }
}

/// Returns the numbers of summaries that were ready late: those that were used, and those that were not.
fn late(events: &[Arc<Event>]) -> (usize, usize) {
    let (mut late, mut unused, mut since) = (0, 0, None);
    for event in events {
        match &**event {
            event if is_begun(event) => unused += usize::from(since.replace(0).is_some()),
            Event::AnswerFinished { .. } => since = since.map(|answers| answers + 1),
            Event::Compressed(_) => late += usize::from(since.take() > Some(0)),
            _ => {}
        }
    }
    (late, unused)
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_the_model_is_told_what_every_provider_takes() {
    let mut rng = fastrand::Rng::with_seed(20_261_121);
    let (mut compressed, mut masked, mut looped) = (0, 0, 0);
    let (mut came_late, mut were_unused) = (0, 0);
    for _ in 0..24 {
        let (model, session) = wild_session(&mut rng);
        let mut all = Vec::new();
        for n in 0..25 {
            let events = step(&model, &session, n, &mut rng).await;
            compressed += compressions(&events).len();
            masked += events.iter().filter(|it| matches!(&***it, Event::Masked(_))).count();
            looped += notices(&events).iter().filter(|it| it.contains("repeats itself")).count();
            for event in &events {
                let written = serde_json::to_string(&**event).unwrap();
                assert_eq!(serde_json::from_str::<Event>(&written).unwrap(), **event);
            }
            all.extend(events);
        }
        let (late, unused) = late(&all);
        came_late += late;
        were_unused += unused;
    }
    assert!(compressed > 30 && masked > 30 && looped > 20, "{compressed} {masked} {looped}");
    assert!(came_late > 10 && were_unused > 10, "{came_late} {were_unused}");
}
