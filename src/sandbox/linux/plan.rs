//! The plan of the files that a command sees: what is put where, whatever puts it there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::beneath::Guard;
use crate::profile::{Home, KnownPath, Profile, RUN_DIRECTORIES, TEMPORARY_DIRECTORIES};

/// Returns the real paths of directories for temporary files, which become the session's own.
pub(super) fn temporary_directories() -> Vec<PathBuf> {
    real(&TEMPORARY_DIRECTORIES)
}

/// Returns the real paths of directories with sockets of the machine's and the user's services.
pub(super) fn run_directories() -> Vec<PathBuf> {
    real(&RUN_DIRECTORIES)
}

fn real(paths: &[&str]) -> Vec<PathBuf> {
    let real = paths.iter().filter_map(|path| Path::new(path).canonicalize().ok());
    let mut real: Vec<_> = real.collect();
    real.dedup();
    real
}

/// Returns the real paths of directories in which commands see other files than those of the machine.
fn replaced_directories(profile: &Profile) -> Vec<PathBuf> {
    let mut replaced = run_directories();
    replaced.push(PathBuf::from("/dev"));
    if profile.temporary.is_some() {
        replaced.extend(temporary_directories());
    }
    replaced
}

/// Returns the home that an empty one takes the place of. In a directory that is replaced itself, there is none to see.
pub(super) fn replaced_home(profile: &Profile) -> Option<&Home> {
    let home = profile.home.as_ref()?;
    let replaced = replaced_directories(profile);
    let is_there = home.path.symlink_metadata().is_ok_and(|data| data.is_dir());
    (is_there && !replaced.iter().any(|it| home.path.starts_with(it))).then_some(home)
}

/// Places that are put into the tree of files: not those inside another, which are [guarded](guards).
pub(super) struct Layout<'p> {
    /// Places where commands see the files of the machine.
    pub(super) seen: Vec<&'p KnownPath>,
    /// Places where commands see others.
    pub(super) unseen: Vec<&'p KnownPath>,
}

impl<'p> Layout<'p> {
    pub(super) fn of(profile: &'p Profile) -> Self {
        let places = profile.roots.iter().chain(&profile.writable);
        let mut places: Vec<_> = places.chain(&profile.reachable_sockets).collect();
        places.sort_by_key(|place| place.path());
        let mut replaced = replaced_directories(profile);
        replaced.extend(replaced_home(profile).map(|home| home.path.clone()));
        let is_unseen = |place: &&KnownPath| replaced.iter().any(|it| place.path().starts_with(it));
        let (mut unseen, mut seen): (Vec<_>, Vec<_>) = places.into_iter().partition(is_unseen);
        for places in [&mut seen, &mut unseen] {
            places.dedup_by(|place, above| place.path().starts_with(above.path()));
        }
        Self { seen, unseen }
    }
}

/// Returns what is guarded, outer directories first. What is not in a directory that commands can write needs
/// no guard, and gets none: what is mounted here has the rights of the directory that it is in, or fewer.
pub(super) fn guards(profile: &Profile) -> BTreeMap<PathBuf, Guard> {
    let roots = if profile.writes_roots { &profile.roots[..] } else { &[] };
    let writable: Vec<_> = roots.iter().chain(&profile.writable).map(KnownPath::path).collect();
    let is_below = |path: &&Path| writable.iter().any(|it| path != it && path.starts_with(it));
    // The session's own directories are pinned as well: a command that renames one would have the next command mount
    // another directory.
    let own = profile
        .temporary_directory()
        .map(KnownPath::path)
        .into_iter()
        .chain(writable.iter().copied());
    let own: Vec<_> = own.filter(is_below).collect();
    let others = profile.protected.iter().chain(&profile.hidden).chain(&profile.foreign_sockets);
    let others = others.map(PathBuf::as_path);
    let above = others.chain(own.iter().copied()).flat_map(|path| path.ancestors().skip(1));
    let pinned = above.filter(is_below).chain(own.iter().copied());
    let mut guards: BTreeMap<_, _> = pinned.map(|path| (path.to_owned(), Guard::Pinned)).collect();
    let protected = profile.protected.iter();
    let protected = protected.filter(|path| writable.iter().any(|it| path.starts_with(it)));
    guards.extend(protected.map(|path| (path.clone(), Guard::ReadOnly)));
    let hidden = outermost_hidden(profile);
    guards.retain(|path, _| !hidden.iter().any(|hidden| path.starts_with(hidden)));
    drop_held(&mut guards, |guard| *guard == Guard::ReadOnly);
    guards
}

/// Takes out guards below a read-only guard, which holds for all that is below.
pub(super) fn drop_held<T>(guards: &mut BTreeMap<PathBuf, T>, is_read_only: impl Fn(&T) -> bool) {
    let mut last: Option<PathBuf> = None;
    guards.retain(|path, guard| {
        let is_held = last.as_ref().is_some_and(|last| path.starts_with(last));
        if !is_held && is_read_only(guard) {
            last = Some(path.clone());
        }
        !is_held
    });
}

/// Returns what is hidden, but for what lies below something else that is hidden.
pub(super) fn outermost_hidden(profile: &Profile) -> Vec<&PathBuf> {
    let mut hidden: Vec<_> = profile.hidden.iter().chain(&profile.foreign_sockets).collect();
    hidden.sort();
    hidden.dedup_by(|path, above| path.starts_with(above));
    hidden
}
