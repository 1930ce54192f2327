//! Plan of the file tree that a command sees: which files are mounted at which paths. It is the same for every
//! mechanism that mounts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::beneath::Guard;
use crate::profile::{Home, KnownPath, Profile, RUN_DIRECTORIES, TEMPORARY_DIRECTORIES};

/// Returns the real paths of the directories for temporary files, which are replaced by the session's own.
pub(super) fn temporary_directories() -> Vec<PathBuf> {
    real(&TEMPORARY_DIRECTORIES)
}

/// Returns the real paths of the directories with sockets of the machine's and the user's services.
pub(super) fn run_directories() -> Vec<PathBuf> {
    real(&RUN_DIRECTORIES)
}

fn real(paths: &[&str]) -> Vec<PathBuf> {
    let real = paths.iter().filter_map(|path| Path::new(path).canonicalize().ok());
    let mut real: Vec<_> = real.collect();
    real.dedup();
    real
}

/// Returns the real paths of directories in which commands see other files than the machine's.
fn replaced_directories(profile: &Profile) -> Vec<PathBuf> {
    let mut replaced = run_directories();
    replaced.push(PathBuf::from("/dev"));
    if profile.temporary.is_some() {
        replaced.extend(temporary_directories());
    }
    replaced
}

/// Returns the home, if an empty directory replaces it. A home that lies in a directory that is replaced anyway is not
/// replaced once more.
pub(super) fn replaced_home(profile: &Profile) -> Option<&Home> {
    let home = profile.home.as_ref()?;
    let replaced = replaced_directories(profile);
    let is_there = home.path.symlink_metadata().is_ok_and(|data| data.is_dir());
    (is_there && !replaced.iter().any(|it| home.path.starts_with(it))).then_some(home)
}

/// Places that are mounted into the file tree. Places that lie inside another place are left out: they are
/// [guarded](guards) instead.
pub(super) struct Layout<'p> {
    /// Places outside the replaced directories.
    pub(super) seen: Vec<&'p KnownPath>,
    /// Places inside the replaced directories; they are mounted after those have been replaced.
    pub(super) unseen: Vec<&'p KnownPath>,
}

impl<'p> Layout<'p> {
    pub(super) fn from_profile(profile: &'p Profile) -> Self {
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

/// Returns the guarded paths with their guards, outer directories first. A path outside every directory that commands
/// can write needs no guard: its mount already has the rights of the directory around it, or fewer.
pub(super) fn guards(profile: &Profile) -> BTreeMap<PathBuf, Guard> {
    let roots = if profile.writes_roots { &profile.roots[..] } else { &[] };
    let writable: Vec<_> = roots.iter().chain(&profile.writable).map(KnownPath::path).collect();
    let is_below = |path: &&Path| writable.iter().any(|it| path != it && path.starts_with(it));
    // Writable directories that lie inside others are pinned as well: if a command renamed one, the next command would
    // mount another directory in its place.
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

/// Removes the guards below a read-only guard, which covers everything below it.
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

/// Returns the hidden paths and foreign sockets, without those that lie below another hidden path.
pub(super) fn outermost_hidden(profile: &Profile) -> Vec<&PathBuf> {
    let mut hidden: Vec<_> = profile.hidden.iter().chain(&profile.foreign_sockets).collect();
    hidden.sort();
    hidden.dedup_by(|path, above| path.starts_with(above));
    hidden
}
