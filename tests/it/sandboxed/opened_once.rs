//! Directories that a session has opened at its start: later files with their names do not count.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use tandem_host::command_sandbox::{CommandSandbox, SandboxSetup, ShownFiles};
use tandem_host::workspace::Workspace;
use tandem_sandbox::{Mechanism, SandboxMode};
use tempfile::TempDir;

use super::sandbox_setup;
use crate::needs::{Need, lacking};
use crate::places::seen_in_sandbox;
use crate::sandbox::mechanisms;

/// A home with a key, and a sandbox for a workspace in it.
struct Home {
    directory: TempDir,
    sandbox: Arc<CommandSandbox>,
}

impl Home {
    /// Makes a home. `writable` is writable in addition to the workspace. The session stores its files in `state` of
    /// the home.
    fn new(workspace: &str, writable: &str) -> Self {
        Self::with(None, workspace, writable)
    }

    /// Makes a home with this mechanism; `None`: the best.
    fn with(mechanism: Option<Mechanism>, workspace: &str, writable: &str) -> Self {
        let directory = seen_in_sandbox();
        let path = |name: &str| directory.path().join(name);
        for name in [workspace, writable, ".ssh"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path(".ssh/id_rsa"), "canary\n").unwrap();
        let writable = vec![path(writable)];
        let setup = SandboxSetup { mechanism, writable, ..sandbox_setup(directory.path()) };
        let files = Arc::new(Workspace::new(&path(workspace), &[]).unwrap());
        let sandbox = Arc::new(CommandSandbox::new(setup, files));
        Self { directory, sandbox }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn bash(&self, line: &str) -> Output {
        let confinement = self
            .sandbox
            .confine(SandboxMode::WorkspaceWrite, &ShownFiles::default())
            .await
            .unwrap();
        let words = ["/bin/bash", "-c", line].map(OsString::from);
        confinement.command(&words).unwrap().current_dir(self.path("")).output().unwrap()
    }

    /// Puts a link in the place of a directory, which gets another name.
    fn replace(&self, name: &str, target: &Path) {
        fs::rename(self.path(name), self.path("other")).unwrap();
        symlink(target, self.path(name)).unwrap();
    }

    fn temporary(&self) -> String {
        let session = fs::read_dir(self.path("state")).unwrap().next().unwrap().unwrap();
        format!("state/{}/tmp", session.file_name().to_str().unwrap())
    }
}

#[tokio::test]
async fn a_link_in_the_place_of_the_sessions_temporary_directory_shows_nothing() {
    // With `namespaces`, the directory is in memory and has no path that could be replaced.
    for mechanism in mechanisms().into_iter().filter(|it| *it != "namespaces") {
        let home = Home::with(mechanism.parse().ok(), "", "cache");
        assert!(home.bash(r#"echo kept > "$TMPDIR/kept""#).await.status.success());
        let temporary = home.temporary();
        let line = format!("mv {temporary} moved && ln -s ../../.ssh {temporary}");
        let output = home.bash(&line).await;
        if mechanism != "landlock" {
            assert!(!output.status.success(), "{output:?}");
            home.replace(&temporary, &home.path(".ssh"));
        }
        let output = home.bash(r#"cat "$TMPDIR/id_rsa""#).await;
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{mechanism}: {output:?}");
    }
}

#[tokio::test]
async fn a_link_in_the_place_of_an_allowed_path_is_not_written() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = Home::new("workspace", "cache");
    assert!(home.bash("echo new > cache/new").await.status.success());
    fs::create_dir(home.path("documents")).unwrap();
    home.replace("cache", &home.path("documents"));
    let output = home.bash("echo evil > documents/evil; echo evil > other/evil; echo ran").await;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{output:?}");
    for name in ["documents/evil", "other/evil"] {
        assert!(!home.path(name).exists(), "{output:?}");
    }
}

#[tokio::test]
async fn another_directory_in_the_place_of_the_workspace_is_not_written() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = Home::new("workspace", "cache");
    assert!(home.bash("echo new > workspace/new").await.status.success());
    home.replace("workspace", &home.path(".ssh"));
    let refused = home
        .sandbox
        .confine(SandboxMode::WorkspaceWrite, &ShownFiles::default())
        .await
        .err()
        .unwrap();
    assert!(refused.message.contains("begin a new session"), "{}", refused.message);
}
