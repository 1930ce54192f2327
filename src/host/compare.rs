//! Comparison of two lists of texts: the lines of two files, or the words of two lines.
//!
//! The compiler makes a large copy of each algorithm for each type that is compared. So texts are numbered here, and only
//! lists of numbers are compared.

use std::collections::HashMap;
use std::time::Instant;

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers, patience};

/// Kind of the texts in the lists, which decides the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextUnit {
    /// Lines, by the algorithm of Myers: as few lines as possible change.
    Lines,
    /// Words, by the algorithm called Patience: words that occur once in both texts are matched first. Otherwise the
    /// many blanks would be matched with each other.
    Words,
}

/// Returns the changes that make `old` the list `new`. At the deadline, the comparison is cut short, and the
/// difference is larger than necessary.
pub fn compare<T: AsRef<str>>(
    unit: TextUnit,
    old: &[T],
    new: &[T],
    deadline: Instant,
) -> Vec<DiffOp> {
    let mut numbers = HashMap::new();
    let mut number = |text| {
        let next = numbers.len();
        *numbers.entry(text).or_insert(next)
    };
    let old: Vec<_> = old.iter().map(|text| number(text.as_ref())).collect();
    let new: Vec<_> = new.iter().map(|text| number(text.as_ref())).collect();
    compare_numbers(unit, &old, &new, deadline)
}

fn compare_numbers(unit: TextUnit, old: &[usize], new: &[usize], deadline: Instant) -> Vec<DiffOp> {
    let mut changes = Compact::new(Replace::new(Capture::new()), old, new);
    let (all_old, all_new, deadline) = (0..old.len(), 0..new.len(), Some(deadline));
    let Ok(()) = match unit {
        TextUnit::Lines => myers::diff_deadline(&mut changes, old, all_old, new, all_new, deadline),
        TextUnit::Words => {
            patience::diff_deadline(&mut changes, old, all_old, new, all_new, deadline)
        }
    };
    changes.into_inner().into_inner().into_ops()
}
