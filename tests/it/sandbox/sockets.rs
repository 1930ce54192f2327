//! Sockets of programs outside, and the session's own.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::{Arena, mechanisms, python};
use crate::places::listen;

fn mounting() -> Vec<&'static str> {
    mechanisms().into_iter().filter(|mechanism| *mechanism != "landlock").collect()
}

/// Returns a line of Python that connects to a socket and writes to it, from the socket's directory.
fn connecting(path: &Path, python: &str) -> String {
    let (directory, name) = (path.parent().unwrap().display(), path.file_name().unwrap().display());
    format!(
        "cd '{directory}' && {python} -c 'import socket; s = socket.socket(socket.AF_UNIX); \
         s.connect(\"{name}\"); s.send(b\"reached\")' 2>&1; echo $?"
    )
}

#[track_caller]
fn reached(listener: &UnixListener) -> bool {
    let Ok((mut stream, _)) = listener.accept() else { return false };
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text == "reached"
}

#[test]
fn a_socket_that_the_settings_name_is_reached_and_its_neighbour_is_not() {
    let Some(python) = python() else { return };
    let arena = Arena::new();
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    let mut places: Vec<PathBuf> = vec![
        arena.workspace().join("named"),
        arena.home().join("hidden/named"),
        temporary.path().join("named"),
    ];
    let outside = arena.path().join("outside/named");
    // A path longer than a socket address is not in the kernel's list, so such a place is left out.
    places.extend((outside.as_os_str().len() < 108).then_some(outside));
    let settings = serde_json::json!({ "tools": { "sandboxSockets": &places } });
    arena.file(".gemini/settings.json", &settings.to_string());
    for path in &places {
        let directory = path.parent().unwrap();
        let (named, other) = (listen(directory, "named"), listen(directory, "other"));
        for mechanism in mounting() {
            for mode in ["read-only", "workspace-write"] {
                let output = arena.bash(mechanism, mode, &connecting(path, python));
                assert!(reached(&named), "{mechanism}, {mode}, {}: {output:?}", path.display());
                let neighbour = path.with_file_name("other");
                let output = arena.bash(mechanism, mode, &connecting(&neighbour, python));
                assert!(!reached(&other), "{mechanism}, {mode}, {}", neighbour.display());
                assert!(!output.stdout.ends_with(b"\n0\n"), "{mechanism}, {mode}: {output:?}");
            }
        }
    }
}

#[test]
fn a_socket_in_a_directory_that_cannot_be_listed_is_not_reached() {
    let Some(python) = python() else { return };
    let arena = Arena::new();
    let directory = arena.path().join("outside/closed");
    let path = directory.join("socket");
    // A path longer than a socket address is not in the kernel's list, so the test cannot use it.
    if path.as_os_str().len() >= 108 {
        return;
    }
    let listener = listen(&directory, "socket");
    // The directory can be entered and not listed, except by root.
    fs::set_permissions(&directory, Permissions::from_mode(0o311)).unwrap();
    for mechanism in mounting() {
        let output = arena.bash(mechanism, "read-only", &connecting(&path, python));
        assert!(!reached(&listener), "{mechanism}: {output:?}");
        assert!(!output.stdout.ends_with(b"\n0\n"), "{mechanism}: {output:?}");
    }
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_link_in_the_place_of_a_named_socket_leads_to_no_other() {
    let Some(python) = python() else { return };
    let arena = Arena::new();
    let path = arena.workspace().join("named");
    let settings = serde_json::json!({ "tools": { "sandboxSockets": [&path] } });
    arena.file(".gemini/settings.json", &settings.to_string());
    let directory = arena.home().join("hidden");
    let foreign = listen(&directory, "foreign");
    for mechanism in mounting() {
        arena.outside("rm -f named; mkdir -p a; ln -s ../hidden/foreign named");
        let output = arena.bash(mechanism, "workspace-write", &connecting(&path, python));
        // The test makes the link, as a command of an earlier session could have done. The command must not reach
        // the other socket.
        assert!(!reached(&foreign), "{mechanism}: {output:?}");
    }
}

#[test]
fn a_socket_that_nobody_listens_at_is_removed_by_a_server_that_begins_again() {
    let arena = Arena::new();
    for mechanism in mounting() {
        drop(listen(&arena.workspace(), "stale"));
        let output = arena.bash(mechanism, "workspace-write", "rm stale && test ! -e stale");
        assert!(output.status.success(), "{mechanism}: {output:?}");
    }
}
