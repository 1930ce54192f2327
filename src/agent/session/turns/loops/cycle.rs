//! Detection of calls that are repeated with the same results.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::session::events::event::ToolOutcome;
use tandem_model::Call;

/// Number of times in a row that a sequence of calls must come to count as a loop.
const MIN_CYCLE_REPEATS: usize = 5;

/// Maximum number of calls in a repeated sequence.
const MAX_CYCLE_CALLS: usize = 5;

/// The last calls, each with its result, as hashes.
#[derive(Default)]
pub(super) struct Cycle {
    last: VecDeque<u64>,
}

impl Cycle {
    /// Adds a call with its outcome. Returns the number of calls in the repeated sequence, if the last calls are a
    /// loop.
    ///
    /// A call whose result differs from the result before counts as another call: a model that looks again and again
    /// for a change is not in a loop once it sees the change.
    pub(super) fn add(&mut self, call: &Call, outcome: Option<&ToolOutcome>) -> Option<usize> {
        self.push(hash(call, outcome))
    }

    fn push(&mut self, call: u64) -> Option<usize> {
        if self.last.len() == MAX_CYCLE_CALLS * MIN_CYCLE_REPEATS {
            self.last.pop_front();
        }
        self.last.push_back(call);
        (1..=MAX_CYCLE_CALLS).find(|length| self.comes_again(*length))
    }

    /// Returns `true` if a sequence of this length comes [`MIN_CYCLE_REPEATS`] times in a row at the end of the calls.
    fn comes_again(&self, length: usize) -> bool {
        let Some(begin) = self.last.len().checked_sub(length * MIN_CYCLE_REPEATS) else {
            return false;
        };
        (begin + length..self.last.len()).all(|at| self.last[at] == self.last[at - length])
    }
}

fn hash(call: &Call, outcome: Option<&ToolOutcome>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&call.name, call.args.to_string()).hash(&mut hasher);
    match outcome {
        Some(ToolOutcome::Done(output)) => {
            let media: Vec<_> = output.media.iter().map(|it| (&it.mime_type, &it.data)).collect();
            (0, &output.text, media).hash(&mut hasher);
        }
        Some(ToolOutcome::Failed(error)) => (1, &error.message).hash(&mut hasher),
        Some(ToolOutcome::Rejected) => 2.hash(&mut hasher),
        Some(ToolOutcome::Cancelled | ToolOutcome::Interrupted) | None => 3.hash(&mut hasher),
        Some(ToolOutcome::Unknown(outcome)) => (4, outcome.0.to_string()).hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds calls, one for each letter. `expected` has the number of the call (from 1) at which a loop is found first,
    /// and the length of the loop.
    #[track_caller]
    fn check(calls: &str, expected: Option<(usize, usize)>) {
        let mut cycle = Cycle::default();
        let mut found = calls.bytes().enumerate().filter_map(|(at, call)| {
            let length = cycle.push(call.into())?;
            Some((at + 1, length))
        });
        assert_eq!(found.next(), expected, "{calls}");
    }

    #[test]
    fn the_same_five_times_in_a_row_is_a_loop_and_so_is_a_cycle_five_times() {
        check("aaaaa", Some((5, 1)));
        check("xyzaaaaa", Some((8, 1)));
        check("ababababab", Some((10, 2)));
        check("abcabcabcabcabc", Some((15, 3)));
        check("xabcdabcdabcdabcdabcd", Some((21, 4)));
        check("abcdeabcdeabcdeabcdeabcde", Some((25, 5)));
        check("aabaabaabaabaab", Some((15, 3)));
    }

    #[test]
    fn whatever_changes_on_the_way_is_none() {
        check("", None);
        check("aaaa", None);
        check("aaaabaaaab", None);
        check("abababab", None);
        check("abababacabababab", None);
        // `a` is a call that asks for the state of a build, and each other letter is a call with another output: no
        // loop.
        check("abacadaeafagahaiajakalamanao", None);
        // A cycle of six calls is too long to be taken for a loop.
        check(&"abcdef".repeat(20), None);
    }
}
