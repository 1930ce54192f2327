//! The files that a command in namespaces sees.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, fstat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};

use super::sys::restrict;
use super::{Naming as _, existing, exists, pinned, run_directories, temporary_directories};
use crate::profile::Profile;

/// Devices that programs rely on. There are no others: to root, a disk is a file like any other.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// A part of the tree of files, and the path that it is put at.
type Part = (OwnedFd, PathBuf);

/// Rebuilds the tree of files in this process's own mount namespace: all of it can be read, and only
/// what the profile says can be written. Must be called in the process namespace of the command.
pub(super) fn build(profile: &Profile) -> io::Result<()> {
    // Nothing that is mounted outside from now on appears in here, nor the other way round.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).naming("/")?;
    let parts = parts(profile)?;
    let devices = devices()?;
    let root = open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLOEXEC).naming("/")?;
    restrict(&root, true).naming("read-only /")?;
    // Sockets that other programs serve: a read-only mount does not keep anybody from connecting.
    for path in run_directories() {
        own(&path, "mode=0755,size=1m")?;
    }
    build_devices(devices)?;
    for (part, path) in parts {
        put(&part, &path)?;
    }
    hide(&existing(&profile.hidden))?;
    // Of the command's own process namespace. What can be written there are settings of the machine.
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).naming("/proc")
}

/// Takes the parts that are put over the read-only tree, before it is made read-only.
fn parts(profile: &Profile) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    if let Some(temporary) = &profile.temporary {
        for path in temporary_directories() {
            parts.push((confined(temporary, false)?, path));
        }
    }
    let mut roots = profile.roots.clone();
    // One inside another is put after it.
    roots.sort();
    for root in roots {
        parts.push((confined(&root, !profile.writes_roots)?, root));
    }
    for path in existing(&profile.writable).into_iter().chain(pinned(profile)) {
        parts.push((confined(&path, false)?, path));
    }
    // Where it says who resolves names, `/run` may be needed for that.
    if profile.network
        && let Ok(resolver) = Path::new("/etc/resolv.conf").canonicalize()
        && resolver.starts_with("/run")
    {
        parts.push((tree(&resolver)?, resolver));
    }
    let mut protected = existing(&profile.protected);
    protected.sort();
    for path in protected {
        parts.push((confined(&path, true)?, path));
    }
    Ok(parts)
}

fn confined(path: &Path, read_only: bool) -> io::Result<OwnedFd> {
    let part = tree(path)?;
    restrict(&part, read_only).naming(path.to_string_lossy())?;
    Ok(part)
}

fn tree(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).naming(path.to_string_lossy())
}

fn put(part: &OwnedFd, path: &Path) -> io::Result<()> {
    // Below a directory that is another one in here.
    if !exists(path) {
        make(path, fstat(part)?.st_mode).naming(path.to_string_lossy())?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(part, "", CWD, path, flags).naming(path.to_string_lossy())
}

/// Makes a mount point for what has this mode.
fn make(path: &Path, mode: u32) -> io::Result<()> {
    if FileType::from_raw_mode(mode).is_dir() {
        return fs::create_dir_all(path);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::File::create(path).map(|_| ())
}

/// Puts an empty directory that nobody can read in the place of each directory, and an empty file in that
/// of each file.
fn hide(paths: &[PathBuf]) -> io::Result<()> {
    // One for all: every file system in memory of its own takes as long to make as several mounts.
    let mut nothing: Option<OwnedFd> = None;
    for path in paths {
        match &nothing {
            _ if !path.is_dir() => put(&tree(Path::new("/dev/null"))?, path)?,
            Some(nothing) => {
                let flags = OpenTreeFlags::OPEN_TREE_CLONE
                    | OpenTreeFlags::OPEN_TREE_CLOEXEC
                    | OpenTreeFlags::AT_EMPTY_PATH;
                put(&open_tree(nothing, "", flags).naming(path.to_string_lossy())?, path)?;
            }
            None => {
                let flags = MountFlags::RDONLY
                    | MountFlags::NOSUID
                    | MountFlags::NODEV
                    | MountFlags::NOEXEC;
                mount("tmpfs", path, "tmpfs", flags, Some(c"mode=0000,size=4k"))
                    .naming(path.to_string_lossy())?;
                let opened = open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLOEXEC);
                nothing = Some(opened.naming(path.to_string_lossy())?);
            }
        }
    }
    Ok(())
}

/// Puts a directory in memory at a path.
fn own(path: &Path, options: &str) -> io::Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str())).naming(path.to_string_lossy())
}

fn devices() -> io::Result<Vec<Part>> {
    let devices = DEVICES.iter().map(|name| Path::new("/dev").join(name));
    devices.filter(|path| exists(path)).map(|path| Ok((tree(&path)?, path))).collect()
}

fn build_devices(devices: Vec<Part>) -> io::Result<()> {
    own(Path::new("/dev"), "mode=0755,size=64k")?;
    for (device, path) in devices {
        fs::File::create(&path).naming(path.to_string_lossy())?;
        put(&device, &path)?;
    }
    for (directory, options) in [("/dev/shm", "mode=1777"), ("/dev/mqueue", "mode=1777,size=64k")] {
        fs::create_dir(directory).naming(directory)?;
        own(Path::new(directory), options)?;
    }
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
