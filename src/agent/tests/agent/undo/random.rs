//! Random sequences of edits, undos and outside changes, compared with a model of the same rules.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Stage, writes};

/// A change or an undo in the files `0` to `2`.
#[derive(Debug, Clone)]
enum Step {
    /// The agent writes these files in one turn.
    Edit(Vec<u8>),
    /// The user writes a file.
    Write(u8),
    /// The user removes a file.
    Remove(u8),
    /// The user writes the content of an earlier change back.
    Rewrite(prop::sample::Index),
    /// One change is undone.
    Call(prop::sample::Index),
    /// The changes of a turn are undone.
    Turn(prop::sample::Index),
    /// The changes of a turn and of all later turns are undone.
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

/// The expected files and changes.
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

    /// Undoes changes; returns the number of changes that are left alone.
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

/// Returns the model's answers for all steps, by turn.
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

/// Does what the `/restore` command says. Returns the number of changes that are left alone; `None` for another
/// prompt.
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
    let cases = std::env::var("UNDO_CASES").map_or(300, |cases| cases.parse().unwrap());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(step(), 1..12), |steps| {
            runtime.block_on(play(steps));
            Ok(())
        })
        .unwrap();
}
