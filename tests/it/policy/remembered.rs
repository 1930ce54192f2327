//! What an earlier "always" does not cover.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tandem::permission::{Mode, Verdict};

use super::questions::{Session, commands, question};

#[test]
fn always_for_a_command_that_writes_does_not_cover_what_can_be_run() {
    let session = Session::new(Mode::Default);
    for (file, mode) in [("tool.sh", 0o755), ("group.sh", 0o710), ("plain.sh", 0o644)] {
        let path = session.workspace.root.join(file);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("tool.sh", session.workspace.root.join("to-tool")).unwrap();
    session.permissions.allow(question(session.run("echo x > q")).scopes.swap_remove(0));
    assert_eq!(session.run("echo x > plain.sh"), Verdict::Allow);
    for line in [
        "echo x > tool.sh",
        "echo x >> tool.sh",
        "echo x > src/../tool.sh",
        "echo x > to-tool",
        "echo x > group.sh",
        "echo x > q 2> tool.sh",
        "{ echo x; } > tool.sh",
        "echo x > .git/config",
        "echo x > .envrc",
    ] {
        question(session.run(line));
    }
    let asked = question(session.run("echo x > tool.sh"));
    assert_eq!(asked.scopes[0], commands(&["echo > tool.sh"]));
    session.permissions.allow(asked.scopes[0].clone());
    assert_eq!(session.run("echo y > tool.sh"), Verdict::Allow);
    question(session.run("echo y > group.sh"));
    session.permissions.set_mode(Mode::AutoEdit);
    assert_eq!(session.run("echo y > group.sh"), Verdict::Allow);
}

#[test]
fn always_for_git_does_not_cover_another_repository() {
    let session = Session::new(Mode::Default);
    session.always(&["git fetch", "git status", "cd"]);
    assert_eq!(session.run("git fetch; cd src && git fetch"), Verdict::Allow);
    for line in ["git -C nested fetch", "cd nested; git status", "git -C bare status"] {
        question(session.run(line));
    }
    session.permissions.allow(question(session.run("git -C nested fetch")).scopes[0].clone());
    assert_eq!(session.run("cd nested/sub; git fetch -p"), Verdict::Allow);
    question(session.run("git -C bare fetch"));
}
