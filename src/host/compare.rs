//! Comparison of two lists of texts: the lines of two files, or the words of two lines.
//!
//! The algorithms are generic, and large for each type that is compared. They are used here alone, for numbers that
//! stand for the texts.

use std::collections::HashMap;
use std::time::Instant;

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers, patience};

/// Texts that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextUnit {
    /// Lines: as few as possible change.
    Lines,
    /// Words: those that both texts have once stay, so that the blanks between other words do not decide.
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
