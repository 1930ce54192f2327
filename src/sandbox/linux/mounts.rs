//! The tree of files that a command in namespaces sees.

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

/// Names of the devices that programs rely on. The sandbox has no others: a command run by root could read a whole disk
/// through its device.
const DEVICE_NAMES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// A copy of a part of the file tree, and the path at which it is mounted.
pub(super) type Part = (OwnedFd, PathBuf);

/// Copies of parts of the machine's file tree. They are taken before the tree is made read-only, so that they can still
/// be written.
struct Parts {
    /// Roots, writable paths and sockets that stay reachable, where commands see the machine's files; see
    /// [layout](Layout).
    seen: Vec<(OwnedFd, KnownPath)>,
    unseen: Vec<(OwnedFd, KnownPath)>,
    /// The readable parts of the home.
    home: Vec<Part>,
    temporary: Vec<Part>,
    devices: Vec<Part>,
    /// The file with the addresses of the name servers, if it lies in a directory that is replaced.
    resolver: Option<Part>,
}

/// Rebuilds the file tree in this process's own mount namespace: everything in it is read-only but for the paths that
/// the profile lets the command write. Must be called in the process namespace of the command. `temporary`: the
/// directories for temporary files, if they are in memory.
///
/// 1. Copies the parts of the machine's tree that the command needs, and makes the rest read-only.
/// 2. Mounts the roots and writable paths.
/// 3. Replaces the home, `/run`, `/dev` and the directories for temporary files.
/// 4. Mounts the roots and writable paths that lie in the replaced directories.
/// 5. Guards protected paths, hides hidden ones, and mounts `/proc`.
pub(super) fn build(profile: &Profile, temporary: Vec<Part>) -> io::Result<()> {
    // Private propagation: mounts that are made outside from now on do not appear here, and mounts made here do not
    // appear outside.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).naming("/")?;
    let root = Root::open()?;
    let parts = Parts::clone_parts(&root, profile, temporary)?;
    restrict(&root.find(Path::new("/"))?.file, true).naming("read-only /")?;
    for (part, place) in parts.seen {
        // Each part was copied before the tree became read-only. Mounting the copy over the original makes the
        // copy's rights apply.
        let point = root.find_place(&place)?;
        put(&part, &point).naming(place.path().to_string_lossy())?;
    }
    let home = build_home(&root, profile, parts.home)?;
    // `/run`, `/dev` and `/tmp` are replaced after the workspace is mounted: otherwise a project could choose a path
    // that covers the replacements with the machine's own directories. `/run` is replaced because a read-only mount
    // does not keep a command from connecting to the sockets in it.
    for path in run_directories() {
        let run = memory(&[("mode", "0755"), ("size", "1m")], MountAttrFlags::empty())?;
        put_at(&root, &run, &path)?;
    }
    build_devices(&root, parts.devices, profile.limits)?;
    for (part, path) in parts.temporary {
        // The directory may lie in the home, which was replaced, so it is made if it is missing.
        let point = root.make(&path, true).naming(path.to_string_lossy())?;
        put(&part, &point).naming(path.to_string_lossy())?;
    }
    let unseen = parts.unseen.into_iter().map(|(part, place)| (part, place.path().to_owned()));
    for (part, path) in unseen.chain(parts.resolver) {
        let point = root.make(&path, is_directory(&part)?);
        let point = point.naming(path.to_string_lossy())?;
        put(&part, &point).naming(path.to_string_lossy())?;
    }
    // The home becomes read-only only now, because the steps above made mount points in the home.
    home.map(make_read_only).transpose().naming("the home")?;
    for (path, guard) in guards(profile) {
        put_guard(&root, &path, guard).naming(path.to_string_lossy())?;
    }
    hide(&root, profile)?;
    // This `/proc` shows the command's own process namespace. It is read-only because its writable files are settings
    // of the machine.
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).naming("/proc")
}

impl Parts {
    fn clone_parts(root: &Root, profile: &Profile, mut temporary: Vec<Part>) -> io::Result<Self> {
        let take = |places: Vec<&KnownPath>| -> io::Result<Vec<_>> {
            let taken = places.into_iter().map(|place| {
                let part = confined(&root.find_place(place)?, !profile.writes(place));
                Ok((part.naming(place.path().to_string_lossy())?, place.clone()))
            });
            taken.collect()
        };
        let Layout { seen, unseen } = Layout::from_profile(profile);
        let (seen, unseen) = (take(seen)?, take(unseen)?);
        let mut home = Vec::new();
        if replaced_home(profile).is_some() {
            for path in profile.readable_in_home() {
                // Files that have been removed, or that now lie behind a link, are left out.
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
        let devices = DEVICE_NAMES.iter().filter_map(|name| {
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

/// Replaces the home by an empty directory, and mounts the readable parts in it. Returns the mount, in which mount
/// points can still be made.
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

/// Mounts a file, a directory or a link on itself, so that no command can rename or remove it.
fn put_guard(root: &Root, path: &Path, guard: Guard) -> io::Result<()> {
    let Some(Guarded { opened, guard, .. }) = root.find_guarded(path, guard)? else {
        return Ok(());
    };
    unless_gone(confined(&opened, guard == Guard::ReadOnly).and_then(|part| put(part, &opened)))
}

/// Turns the error "not found" into success: a file that was removed after it was opened needs no mount.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Covers each hidden directory with an empty directory without permissions, and each hidden file with the null device.
/// Mounts on files of the workspace have the flag `nodev`, so that opening them fails: otherwise text that a command
/// wrote into such a file would be lost silently.
fn hide(root: &Root, profile: &Profile) -> io::Result<()> {
    // One empty file system is shared by all hidden directories: making one takes as long as several mounts.
    let mut nothing: Option<OwnedFd> = None;
    for path in outermost_hidden(profile) {
        let point = match root.find(path) {
            // A missing file needs no mask, nor does a file in a directory that is hidden already.
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
    // The file system is used through its descriptor and not by a path, so it does not matter where it is mounted.
    put_at(&Root::open()?, &made, Path::new("/"))?;
    Ok(made)
}

/// Makes a file system in memory that commands can fill, up to the limit.
fn bounded_memory(mode: &str, limits: Limits) -> io::Result<OwnedFd> {
    let bytes = bounded_memory_bytes(limits);
    // Every file also takes kernel memory that `size` does not count, so the number of files has a limit, too.
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
    // A new devpts instance: the command gets pseudo-terminals of its own and cannot see the agent's.
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
