//! A collection of the smallest items of many, independent of the order in which they come.

use std::collections::BinaryHeap;

/// Collection that holds the smallest `max` items that it was given, and counts all.
pub struct Smallest<T> {
    max: usize,
    kept: BinaryHeap<T>,
    given: usize,
}

impl<T: Ord> Smallest<T> {
    /// Returns an empty collection that keeps at most `max` items.
    pub fn new(max: usize) -> Self {
        Self { max, kept: BinaryHeap::new(), given: 0 }
    }

    /// Adds an item, and removes the largest one if there are more than `max`.
    pub fn push(&mut self, item: T) {
        self.given += 1;
        self.kept.push(item);
        if self.kept.len() > self.max {
            self.kept.pop();
        }
    }

    /// Returns the number of items that were given.
    pub fn offered_count(&self) -> usize {
        self.given
    }

    /// Returns the items in ascending order.
    pub fn into_sorted(self) -> Vec<T> {
        self.kept.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::Smallest;

    fn check(max: usize, given: &[u8], kept: &[u8]) {
        let mut first = Smallest::new(max);
        for item in given {
            first.push(*item);
        }
        assert_eq!(first.offered_count(), given.len());
        assert_eq!(first.into_sorted(), kept);
    }

    #[test]
    fn keeps_the_smallest() {
        check(2, &[3, 1, 2], &[1, 2]);
        check(9, &[3, 1, 1], &[1, 1, 3]);
        check(0, &[1], &[]);
        check(1, &[], &[]);
    }
}
