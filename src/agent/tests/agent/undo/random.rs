//! Random sequences of edits, undos and outside changes, compared with a model of the same rules.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Stage, writes};

/// Something that happens to files `0` to `2`.
#[derive(Debug, Clone)]
enum Step {
    /// The agent writes these, in one turn.
    Edit(Vec<u8>),
    /// The user writes one.
    Write(u8),
    /// The user removes one.
    Remove(u8),
    /// The user writes back what an earlier change had written.
    Rewrite(prop::sample::Index),
    /// One change is taken back.
    Call(prop::sample::Index),
    /// Those of a turn are.
    Turn(prop::sample::Index),
    /// Those of a turn and all after it are.
    Since(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    use prop::sample::Index;
    prop_oneof![
        4 => prop::collection::vec(0..3_u8, 1..3).prop_map(Step::Edit),
        2 => (0..3_u8).prop_map(Step::Write),
        1 => (0..3_u8).prop_map(Step::Remove),
        1 => any::<Index>().prop_map(Step::Rewrite),
        2 => any::<Index>().prop_map(Step::Call),
        1 => any::<Index>().prop_map(Step::Turn),
        1 => any::<Index>().prop_map(Step::Since),
    ]
}

struct Change {
    turn: usize,
    file: u8,
    before: Option<String>,
    after: String,
    taken_back: bool,
}

/// The files and changes that there should be.
#[derive(Default)]
struct Expected {
    files: BTreeMap<u8, String>,
    changes: Vec<Change>,
    turns: usize,
}

impl Expected {
    fn edit(&mut self, files: &[u8]) {
        self.turns += 1;
        for file in files {
            let after = content("agent", self.changes.len());
            let before = self.files.insert(*file, after.clone());
            let change = Change { turn: self.turns, file: *file, before, after, taken_back: false };
            self.changes.push(change);
        }
    }

    /// Takes changes back, and returns how many are left alone.
    fn restore(&mut self, selected: impl Fn(usize, &Change) -> bool) -> usize {
        self.turns += 1;
        let mut left = 0;
        for at in (0..self.changes.len()).rev() {
            let change = &self.changes[at];
            if !selected(at, change) {
                continue;
            }
            let newer = |later: &Change| later.file == change.file && !later.taken_back;
            if change.taken_back
                || self.changes[at + 1..].iter().any(newer)
                || self.files.get(&change.file) != Some(&change.after)
            {
                left += 1;
                continue;
            }
            let overwritten = match change.before.clone() {
                Some(before) => self.files.insert(change.file, before),
                None => self.files.remove(&change.file),
            };
            assert!(overwritten.unwrap().starts_with("agent"), "what the user wrote is lost");
            self.changes[at].taken_back = true;
        }
        left
    }
}

fn content(by: &str, n: usize) -> String {
    format!("{by} {n}\n")
}

fn name(file: u8) -> String {
    format!("file-{file}")
}

/// All that the agent will be asked to write, in turns.
fn answers(steps: &[Step]) -> Vec<Vec<super::Chunks>> {
    let mut written = 0;
    let edits = steps.iter().filter_map(|step| match step {
        Step::Edit(files) => Some(files),
        _ => None,
    });
    let turn = |files: &Vec<u8>| {
        let calls: Vec<_> = files
            .iter()
            .map(|file| {
                written += 1;
                (format!("w{}", written - 1), name(*file), content("agent", written - 1))
            })
            .collect();
        let calls: Vec<_> =
            calls.iter().map(|(id, file, text)| (&**id, &**file, &**text)).collect();
        writes(&calls)
    };
    edits.map(turn).collect()
}

async fn play(steps: Vec<Step>) {
    let stage = Stage::new(answers(&steps));
    let mut expected = Expected::default();
    for (n, step) in steps.iter().enumerate() {
        let prompt = match step {
            Step::Edit(files) => {
                expected.edit(files);
                "edit".to_owned()
            }
            Step::Write(file) => {
                stage.write(&name(*file), &content("user", n));
                expected.files.insert(*file, content("user", n));
                continue;
            }
            Step::Remove(file) => {
                let _ = fs::remove_file(stage.path(&name(*file)));
                expected.files.remove(file);
                continue;
            }
            _ if expected.changes.is_empty() => continue,
            Step::Rewrite(index) => {
                let change = &expected.changes[index.index(expected.changes.len())];
                stage.write(&name(change.file), &change.after);
                expected.files.insert(change.file, change.after.clone());
                continue;
            }
            Step::Call(index) => format!("/restore w{}", index.index(expected.changes.len())),
            Step::Turn(index) | Step::Since(index) => {
                let turn = expected.changes[index.index(expected.changes.len())].turn;
                let word = if matches!(step, Step::Turn(_)) { "turn" } else { "since" };
                format!("/restore {word} {turn}")
            }
        };
        let said = stage.say(&prompt).await;
        if let Some(left) = undo(&mut expected, &prompt) {
            assert_eq!(said.matches("left alone").count(), left, "{prompt}: {said}");
        }
        for file in 0..3 {
            assert_eq!(stage.read(&name(file)), expected.files.get(&file).cloned(), "{prompt}");
        }
    }
}

/// Does what a `/restore` says; how many changes it leaves alone.
fn undo(expected: &mut Expected, prompt: &str) -> Option<usize> {
    let selection = prompt.strip_prefix("/restore ")?;
    let number = |word: &str| selection.strip_prefix(word).and_then(|n| n.parse::<usize>().ok());
    if let Some(turn) = number("turn ") {
        return Some(expected.restore(|_, change| change.turn == turn));
    }
    if let Some(turn) = number("since ") {
        return Some(expected.restore(|_, change| change.turn >= turn));
    }
    let call = number("w").unwrap();
    Some(expected.restore(|at, _| at == call))
}

#[test]
fn files_end_as_the_rules_say_and_nothing_is_lost_that_the_user_wrote() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // `.ci/run` sets `UNDO_CASES` to a larger number.
    let cases = std::env::var("UNDO_CASES").map_or(1000, |cases| cases.parse().unwrap());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(step(), 1..12), |steps| {
            runtime.block_on(play(steps));
            Ok(())
        })
        .unwrap();
}
