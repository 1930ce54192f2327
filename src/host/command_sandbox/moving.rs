//! Moving of files out of a workspace. Paths are opened from the descriptor of the workspace's root, so that no file
//! outside the workspace is moved even if a directory is replaced by a link meanwhile.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::root::{Entries, Parent, RootedPath, UNBLOCKED_FLAGS};

/// Moves a file, a link or a directory to a path outside of the workspace.
pub(super) fn move_out(place: &RootedPath, to: &Path) -> io::Result<()> {
    let Parent { directory, name } = place.parent()?;
    match renameat(&directory, name, CWD, to) {
        // Files cannot be renamed to another file system, so they are copied there and removed here.
        Err(Errno::XDEV) => {
            copy(directory.as_fd(), name, to)?;
            remove(directory.as_fd(), name)
        }
        renamed => Ok(renamed?),
    }
}

/// Makes a symbolic link at a place in the workspace.
pub(super) fn link(place: &RootedPath, target: &Path) -> io::Result<()> {
    let Parent { directory, name } = place.parent()?;
    Ok(symlinkat(target, directory, name)?)
}

fn kind(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<FileType> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

/// Lists a directory. A link is an error.
fn entries(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Entries> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Entries::new(openat(directory, name, flags, Mode::empty())?)
}

/// Copies a file, a link or a directory. Pipes, sockets and devices have no content and are left out.
fn copy(directory: BorrowedFd<'_>, name: &OsStr, to: &Path) -> io::Result<()> {
    match kind(directory, name)? {
        FileType::Symlink => {
            let target = readlinkat(directory, name, Vec::new())?;
            std::os::unix::fs::symlink(OsStr::from_bytes(target.to_bytes()), to)
        }
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | UNBLOCKED_FLAGS;
            let mut from = fs::File::from(openat(directory, name, flags, Mode::empty())?);
            let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
            to.set_permissions(from.metadata()?.permissions())?;
            io::copy(&mut from, &mut to).map(drop)
        }
        FileType::Directory => {
            DirBuilder::new().mode(0o700).create(to)?;
            let mut entries = entries(directory, name)?;
            while let Some(entry) = entries.next() {
                let (name, _) = entry?;
                copy(entries.directory()?, &name, &to.join(&name))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Removes a file, a link or a directory.
fn remove(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    if kind(directory, name)? != FileType::Directory {
        return Ok(unlinkat(directory, name, AtFlags::empty())?);
    }
    let below = entries(directory, name)?;
    let names = entries(directory, name)?.map(|entry| entry.map(|(name, _)| name));
    for name in names.collect::<io::Result<Vec<_>>>()? {
        remove(below.directory()?, &name)?;
    }
    Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;
    use std::sync::{Arc, LazyLock};

    use rustix::fs::mknodat;
    use tandem_sandbox::Limits;

    use super::super::*;
    use super::*;
    use test_support::exchange::Exchange;

    #[test]
    fn what_cannot_be_renamed_is_copied_as_it_is_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("hooks/empty")).unwrap();
        fs::write(from.join("hooks/run"), "#!/bin/sh\n").unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(from.join("hooks/run"), executable.clone()).unwrap();
        fs::write(dir.path().join("outside"), "stays").unwrap();
        symlink(dir.path(), from.join("hooks/out")).unwrap();
        mknodat(CWD, from.join("hooks/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let directory = fs::File::open(&from).unwrap();
        copy(directory.as_fd(), OsStr::new("hooks"), &to).unwrap();
        remove(directory.as_fd(), OsStr::new("hooks")).unwrap();
        assert_eq!(fs::read_dir(&from).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(to.join("run")).unwrap(), "#!/bin/sh\n");
        let mode = fs::metadata(to.join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, executable.mode());
        assert_eq!(fs::read_link(to.join("out")).unwrap(), dir.path());
        assert!(to.join("empty").is_dir() && !to.join("pipe").exists());
        assert_eq!(fs::read_to_string(dir.path().join("outside")).unwrap(), "stays");
    }

    static PROTECTED: LazyLock<NameList> = LazyLock::new(|| {
        let row = (".envrc".to_owned(), "runs".to_owned());
        NameList::new([row].into()).unwrap()
    });

    /// Number of rounds. If the code followed links, some of this number of rounds would move the file outside.
    const ROUNDS: usize = 3000;

    #[test]
    fn nothing_outside_is_taken_back_while_a_directory_and_a_link_change_places() {
        let dir = tempfile::tempdir().unwrap();
        let (root, home) = (dir.path().join("ws"), dir.path().join("home"));
        fs::create_dir_all(root.join(".cfg")).unwrap();
        fs::create_dir(&home).unwrap();
        fs::write(home.join(".envrc"), "mine").unwrap();
        symlink(&home, root.join(".link")).unwrap();
        let setup = SandboxSetup {
            mode: None,
            demand: None,
            mechanism: None,
            helper: PathBuf::new(),
            home: None,
            tool_chains: ToolChains::default(),
            readable: Vec::new(),
            writable: Vec::new(),
            sockets: Vec::new(),
            network: false,
            hosts: NetworkSetup::default(),
            protected: &PROTECTED,
            taken_back: Some(dir.path().join("taken-back")),
            temporary: Some(dir.path().join("scratch")),
            limits: Limits::default(),
        };
        let workspace = Arc::new(Workspace::new(&root, &[]).unwrap());
        let sandbox = CommandSandbox::new(setup, workspace);
        let before = ProtectedBefore { files: ProtectedFiles::new(), found: Arc::default() };
        let exchange = Exchange::of(&root.join(".cfg"), &root.join(".link"));
        for _ in 0..ROUNDS {
            sandbox.move_new_files(&before);
        }
        drop(exchange);
        assert_eq!(fs::read_to_string(home.join(".envrc")).unwrap(), "mine");
    }
}
