//! The files that a command in namespaces sees.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_change,
    move_mount, open_tree,
};

use super::Naming as _;
use super::beneath::{Guard, Guarded, Opened, Root, is_directory};
use super::plan::{
    Layout, guards, outermost_hidden, replaced_home, run_directories, temporary_directories,
};
use super::sys::{PAGE_BYTES, bounded_memory_bytes, make_read_only, restrict};
use crate::profile::{HomeLink, KnownPath, Limits, Profile};

/// Devices that programs rely on. There are no others: to root, a disk is a file like any other.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// A part of the tree of files, and the path that it is put at.
pub(super) type Part = (OwnedFd, PathBuf);

/// Parts of the machine's tree, taken before it is made read-only.
struct Parts {
    /// Roots and writable paths, by the [layout](Layout).
    seen: Vec<(OwnedFd, KnownPath)>,
    unseen: Vec<(OwnedFd, KnownPath)>,
    /// The readable part of the home.
    home: Vec<Part>,
    temporary: Vec<Part>,
    devices: Vec<Part>,
    /// The file that says who resolves names, if it is in a directory that is replaced.
    resolver: Option<Part>,
}

/// Rebuilds the tree of files in this process's own mount namespace: all of it can be read, and only
/// what the profile says can be written. Must be called in the process namespace of the command. `temporary`: the
/// directories for temporary files, if they are in memory.
pub(super) fn build(profile: &Profile, temporary: Vec<Part>) -> io::Result<()> {
    // Nothing that is mounted outside from now on appears in here, nor the other way round.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).naming("/")?;
    let root = Root::open()?;
    let parts = Parts::take(&root, profile, temporary)?;
    restrict(&root.find(Path::new("/"))?.file, true).naming("read-only /")?;
    for (part, place) in parts.seen {
        // The mount point is the directory that the part was taken from.
        let point = root.find_place(&place)?;
        put(&part, &point).naming(place.path().to_string_lossy())?;
    }
    let home = build_home(&root, profile, parts.home)?;
    // `/run`, `/dev` and `/tmp` are replaced after the workspace is mounted: a path that a project chose would
    // otherwise cover them with the machine's own. `/run` is replaced because a read-only mount does not keep a
    // command from connecting to the sockets in it.
    for path in run_directories() {
        let run = memory(&[("mode", "0755"), ("size", "1m")], MountAttrFlags::empty())?;
        put_at(&root, &run, &path)?;
    }
    build_devices(&root, parts.devices, profile.limits)?;
    for (part, path) in parts.temporary {
        // The directory may be in the home.
        let point = root.make(&path, true).naming(path.to_string_lossy())?;
        put(&part, &point).naming(path.to_string_lossy())?;
    }
    let unseen = parts.unseen.into_iter().map(|(part, place)| (part, place.path().to_owned()));
    for (part, path) in unseen.chain(parts.resolver) {
        let point = root.make(&path, is_directory(&part)?);
        let point = point.naming(path.to_string_lossy())?;
        put(&part, &point).naming(path.to_string_lossy())?;
    }
    // Until here, mount points had to be made in the home.
    home.map(make_read_only).transpose().naming("the home")?;
    for (path, guard) in guards(profile) {
        put_guard(&root, &path, guard).naming(path.to_string_lossy())?;
    }
    hide(&root, profile)?;
    // Of the command's own process namespace. What can be written there are settings of the machine.
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).naming("/proc")
}

impl Parts {
    fn take(root: &Root, profile: &Profile, mut temporary: Vec<Part>) -> io::Result<Self> {
        let take = |places: Vec<&KnownPath>| -> io::Result<Vec<_>> {
            let taken = places.into_iter().map(|place| {
                let part = confined(&root.find_place(place)?, !profile.writes(place));
                Ok((part.naming(place.path().to_string_lossy())?, place.clone()))
            });
            taken.collect()
        };
        let Layout { seen, unseen } = Layout::of(profile);
        let (seen, unseen) = (take(seen)?, take(unseen)?);
        let mut home = Vec::new();
        if replaced_home(profile).is_some() {
            for path in profile.readable_in_home() {
                // Files that are not there any more, or lie behind a link by now, are not seen.
                let Ok(found) = root.find(path) else { continue };
                match confined(&found, true) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    part => home.push((part.naming(path.to_string_lossy())?, path.to_owned())),
                }
            }
        }
        if let Some(place) = profile.temporary_directory() {
            let found = root.find_place(place)?;
            for path in temporary_directories() {
                temporary.push((confined(&found, false).naming("/tmp")?, path));
            }
        }
        let resolver = Path::new("/etc/resolv.conf").canonicalize().ok();
        let resolver = resolver.filter(|path| profile.network && path.starts_with("/run"));
        let resolver =
            resolver.map(|path| Ok::<_, io::Error>((tree(&root.find(&path)?.file)?, path)));
        let devices = DEVICES.iter().filter_map(|name| {
            let path = Path::new("/dev").join(name);
            let found = root.find(&path).ok()?;
            Some(tree(&found.file).map(|part| (part, path)))
        });
        let devices = devices.collect::<io::Result<_>>().naming("/dev")?;
        Ok(Self { seen, unseen, home, temporary, devices, resolver: resolver.transpose()? })
    }
}

fn confined(found: &Opened, read_only: bool) -> io::Result<OwnedFd> {
    let part = tree(&found.file)?;
    restrict(&part, read_only)?;
    Ok(part)
}

/// Returns a copy of the mounts at a file and below it.
pub(super) fn tree(file: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(file, "", flags)?)
}

fn put(part: impl AsFd, point: &Opened) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(part, "", &point.file, "", flags)?)
}

fn put_at(root: &Root, part: impl AsFd, path: &Path) -> io::Result<()> {
    put(part, &root.find(path).naming(path.to_string_lossy())?).naming(path.to_string_lossy())
}

/// Puts an empty directory in the place of the home, and into it what can be read. Returns the mount, in which other
/// mount points can still be made.
fn build_home(root: &Root, profile: &Profile, parts: Vec<Part>) -> io::Result<Option<OwnedFd>> {
    let Some(home) = replaced_home(profile) else { return Ok(None) };
    let made = memory(&[("mode", "0755"), ("size", "1m")], MountAttrFlags::empty())?;
    put_at(root, &made, &home.path)?;
    for (part, path) in parts {
        let point = root.make(&path, is_directory(&part)?).naming(path.to_string_lossy())?;
        put(&part, &point).naming(path.to_string_lossy())?;
    }
    for HomeLink { path, target } in profile.links_in_home() {
        root.link(path, target).naming(path.to_string_lossy())?;
    }
    Ok(Some(made))
}

/// Mounts a file, a directory or a link on itself.
fn put_guard(root: &Root, path: &Path, guard: Guard) -> io::Result<()> {
    let Some(Guarded { opened, guard, .. }) = root.find_guarded(path, guard)? else {
        return Ok(());
    };
    unless_gone(confined(&opened, guard == Guard::ReadOnly).and_then(|part| put(part, &opened)))
}

/// Takes the end of a file that was open for success: a file that has gone needs nothing mounted.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Puts an empty directory that nobody can read in the place of each directory, and an empty file in that
/// of each file. A file of the workspace cannot be opened: what a command wrote into an empty one would be lost.
fn hide(root: &Root, profile: &Profile) -> io::Result<()> {
    // One for all: every file system in memory of its own takes as long to make as several mounts.
    let mut nothing: Option<OwnedFd> = None;
    for path in outermost_hidden(profile) {
        let point = match root.find(path) {
            // A missing file, and a file in a directory that is hidden already, need no mask.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => continue,
            found => found.naming(path.to_string_lossy())?,
        };
        let is_directory = point.kind == FileType::Directory;
        let is_in_workspace = profile.roots.iter().any(|root| path.starts_with(root.path()));
        let part = match &nothing {
            _ if !is_directory && is_in_workspace => {
                confined(&root.find(Path::new("/dev/null"))?, true)?
            }
            _ if !is_directory => tree(&root.find(Path::new("/dev/null"))?.file)?,
            Some(nothing) => tree(nothing)?,
            None => memory(&[("mode", "0000"), ("size", "4k")], MountAttrFlags::MOUNT_ATTR_RDONLY)?,
        };
        unless_gone(put(&part, &point)).naming(path.to_string_lossy())?;
        if is_directory {
            nothing.get_or_insert(part);
        }
    }
    Ok(())
}

/// Makes the file system of a session's temporary files, and mounts it in the mount namespace of this process.
/// Returns its root directory.
pub(super) fn temporary_files(limits: Limits) -> io::Result<OwnedFd> {
    let made = bounded_memory("0700", limits)?;
    // Nobody looks for it by a path: where it is mounted does not matter.
    put_at(&Root::open()?, &made, Path::new("/"))?;
    Ok(made)
}

/// Makes a file system in memory that commands can fill, up to the limit.
fn bounded_memory(mode: &str, limits: Limits) -> io::Result<OwnedFd> {
    let bytes = bounded_memory_bytes(limits);
    // Each file takes memory that the size does not count.
    let (size, files) = (bytes.to_string(), (bytes / PAGE_BYTES + 1).to_string());
    let options = [("mode", mode), ("size", &size), ("nr_inodes", &files)];
    memory(&options, MountAttrFlags::empty())
}

/// Makes a file system in memory.
fn memory(options: &[(&str, &str)], flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let made = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).naming("tmpfs")?;
    for (name, value) in options {
        fsconfig_set_string(&made, *name, *value).naming("tmpfs")?;
    }
    fsconfig_create(&made).naming("tmpfs")?;
    let flags = flags | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, flags).naming("tmpfs")
}

fn build_devices(root: &Root, devices: Vec<Part>, limits: Limits) -> io::Result<()> {
    let own = |path: &str, options: &[(&str, &str)]| {
        put_at(root, memory(options, MountAttrFlags::empty())?, Path::new(path))
    };
    own("/dev", &[("mode", "0755"), ("size", "64k")])?;
    for (device, path) in devices {
        fs::File::create(&path).naming(path.to_string_lossy())?;
        put_at(root, &device, &path)?;
    }
    fs::create_dir("/dev/shm").naming("/dev/shm")?;
    put_at(root, bounded_memory("1777", limits)?, Path::new("/dev/shm"))?;
    fs::create_dir("/dev/mqueue").naming("/dev/mqueue")?;
    own("/dev/mqueue", &[("mode", "1777"), ("size", "64k")])?;
    // Terminals of the command's own, not the agent's.
    fs::create_dir("/dev/pts").naming("/dev/pts")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount("devpts", "/dev/pts", "devpts", flags, Some(options)).naming("/dev/pts")?;
    for (target, link) in [
        ("pts/ptmx", "/dev/ptmx"),
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
    ] {
        symlink(target, link).naming(link)?;
    }
    Ok(())
}
