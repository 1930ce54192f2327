//! Parser of git's index: it returns the names of the files that a repository tracks. The format is that of git's
//! `gitformat-index` manual page, versions 2 to 4.

/// Length of the header, and of the times, numbers and rights at the beginning of an entry, in bytes.
const HEAD_BYTES: usize = 12;
const STAT_BYTES: usize = 40;

/// Lengths of object names with SHA-1 and with SHA-256, in bytes.
const HASH_BYTES: [usize; 2] = [20, 32];

/// Bits of an entry's flags: the first two of the 16 flags of every entry, the others of the 16 extended flags.
const ASSUMED_UNCHANGED: u16 = 0x8000;
const EXTENDED_FLAG: u16 = 0x4000;
const SKIPPED_FLAG: u16 = 0x4000;
const TO_BE_ADDED: u16 = 0x2000;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A file or a link whose content is in the repository.
    File,
    /// Another repository (a submodule).
    Repository,
    /// A name without content: git does not know the content yet, or was told not to look at it.
    Name,
}

/// Calls `entry` for each entry of an index, in order. Returns `None` if the index cannot be read.
pub(super) fn read(index: &[u8], mut entry: impl FnMut(&[u8], EntryKind)) -> Option<()> {
    // The index does not say how long its object names are; only the settings of the repository do. An index that was
    // written with one length does not parse with the other.
    let length =
        HASH_BYTES.into_iter().find(|length| read_with(index, *length, |_, _| ()).is_some());
    read_with(index, length?, &mut entry)
}

fn read_with(
    index: &[u8],
    hash_bytes: usize,
    mut entry: impl FnMut(&[u8], EntryKind),
) -> Option<()> {
    let version = number(index, 4)?;
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let end = index.len().checked_sub(hash_bytes)?;
    let mut at = HEAD_BYTES;
    let mut name = Vec::new();
    let mut before = Vec::new();
    for _ in 0..number(index, 8)? {
        let start = at;
        // The mode comes after two times of 8 bytes each, the device and the number of the file.
        let mode = number(index, start + 24)?;
        at += STAT_BYTES + hash_bytes;
        let flags = short(index, at)?;
        at += 2;
        let mut further = 0;
        if version > 2 && flags & EXTENDED_FLAG != 0 {
            further = short(index, at)?;
            at += 2;
        }
        if version == 4 {
            let cut = cut(index, &mut at)?;
            name.truncate(name.len().checked_sub(cut)?);
        } else {
            name.clear();
        }
        let rest = index.get(at..end)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&rest[..length]);
        at += length + 1;
        if version < 4 {
            at = start + (at - start).next_multiple_of(8);
        }
        if name.is_empty() || name < before || at > end {
            return None;
        }
        before.clone_from(&name);
        let hidden = flags & ASSUMED_UNCHANGED != 0 || further & (SKIPPED_FLAG | TO_BE_ADDED) != 0;
        match mode >> 12 {
            // An entry for a directory (of a sparse index) stands for files that are not checked out.
            0o4 => {}
            0o10 | 0o12 if hidden => entry(&name, EntryKind::Name),
            0o10 | 0o12 => entry(&name, EntryKind::File),
            0o16 => entry(&name, EntryKind::Repository),
            _ => return None,
        }
    }
    Some(())
}

/// Reads the number of bytes at the end of the previous name that the next name does not share.
fn cut(index: &[u8], at: &mut usize) -> Option<usize> {
    let mut next = || {
        let byte = *index.get(*at)?;
        *at += 1;
        Some(byte)
    };
    let mut byte = next()?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = next()?;
        value = value.checked_add(1)?.checked_mul(0x80)? + usize::from(byte & 0x7f);
    }
    Some(value)
}

fn number(index: &[u8], at: usize) -> Option<u32> {
    let bytes = index.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn short(index: &[u8], at: usize) -> Option<u16> {
    let bytes = index.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::EntryKind::{File, Name, Repository};
    use super::*;

    /// Returns an index of version 3 with these entries: mode, flags, further flags, name.
    fn index(hash_bytes: usize, entries: &[(u32, u16, Option<u16>, &str)]) -> Vec<u8> {
        let mut index = b"DIRC\0\0\0\x03".to_vec();
        index.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (mode, flags, more, name) in entries {
            let start = index.len();
            index.extend([1; 24]);
            index.extend(mode.to_be_bytes());
            index.extend(vec![1; 12 + hash_bytes]);
            let extended = if more.is_some() { EXTENDED_FLAG } else { 0 };
            index.extend((flags | extended).to_be_bytes());
            index.extend(more.iter().flat_map(|more| more.to_be_bytes()));
            index.extend(name.as_bytes());
            index.push(0);
            index.resize(start + (index.len() - start).next_multiple_of(8), 0);
        }
        index.extend(vec![7; hash_bytes]);
        index
    }

    fn names(index: &[u8]) -> Option<Vec<(String, EntryKind)>> {
        let mut names = Vec::new();
        read(index, |name, kind| names.push((String::from_utf8(name.to_vec()).unwrap(), kind)))?;
        Some(names)
    }

    #[test]
    fn names_are_read_with_hashes_of_either_length() {
        let entries = [
            (0o100_644, 0, None, ".npmrc"),
            (0o120_000, 0, None, "a/link"),
            (0o160_000, 0, None, "sub"),
            (0o100_755, ASSUMED_UNCHANGED, None, "sub.pem"),
            (0o100_644, 0, Some(SKIPPED_FLAG), "x.key"),
            (0o100_644, 0, Some(TO_BE_ADDED), "y.key"),
            (0o100_644, 0, Some(0), "z.key"),
        ];
        let kinds = [File, File, Repository, Name, Name, Name, File];
        let expected =
            entries.iter().zip(kinds).map(|((.., name), kind)| ((*name).to_owned(), kind));
        let expected: Vec<_> = expected.collect();
        for length in HASH_BYTES {
            assert_eq!(names(&index(length, &entries)).unwrap(), expected);
        }
    }

    #[test]
    fn an_index_that_makes_no_sense_tells_nothing() {
        let whole = index(20, &[(0o100_644, 0, None, "a"), (0o100_644, 0, None, "b")]);
        assert_eq!(names(&whole).unwrap().len(), 2);
        for length in 0..whole.len() - 20 {
            assert_eq!(names(&whole[..length]), None, "{length}");
        }
        assert_eq!(
            names(&index(20, &[(0o100_644, 0, None, "b"), (0o100_644, 0, None, "a")])),
            None
        );
        assert_eq!(names(&index(20, &[(0o170_644, 0, None, "a")])), None);
    }

    /// A split index has the rest of its entries in another file, and lists which of these were replaced or removed
    /// since. None of this is read: a file that is not known to be tracked counts as not tracked.
    #[test]
    fn of_a_split_index_nothing_counts_but_entries_with_names_of_their_own() {
        let split = |entries: &[_]| {
            let mut split = index(20, entries);
            let checksum = split.split_off(split.len() - 20);
            split.extend(*b"link\0\0\0\x14");
            split.extend([5; 20]);
            split.extend(checksum);
            split
        };
        let added = (0o100_644, 0, None, "added.pem");
        assert_eq!(names(&split(&[added])).unwrap(), [("added.pem".to_owned(), File)]);
        let replaced = (0o100_644, 0, None, "");
        assert_eq!(names(&split(&[replaced, added])), None);
        assert_eq!(names(&split(&[])), Some(Vec::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_it_panic(version in 2u8..=4, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut index = b"DIRC\0\0\0".to_vec();
            index.push(version);
            index.extend([0, 0, 0, 3]);
            index.extend(bytes);
            let _ = read(&index, |_, _| ());
        }
    }
}
