//! `docs/install.sh`: the files that it installs from a release on loopback, and the files that it leaves alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::HANG;
use crate::needs::{Need, lacking};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/install.sh");

/// A small program that prints its version, because packing the real program takes seconds.
const PROGRAM: &str = "#!/bin/sh\necho \"tandem 1.2.3 $*\"\n";

/// The files of a release, served on loopback, and an empty home beside them.
struct Release {
    dir: TempDir,
    address: String,
}

/// Result of a run of the script.
struct Run {
    said: String,
    succeeded: bool,
}

impl Release {
    /// Serves an archive for each platform with this program and manual pages of these names.
    async fn of(program: &str, pages: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["files", "home", "tmp"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(file).with_state(dir.path().join("files"));
        tokio::spawn(axum::serve(listener, router).into_future());
        let release = Self { dir, address };
        release.publish("1.2.3", program, pages).await;
        release
    }

    /// Replaces the release by another version.
    async fn publish(&self, version: &str, program: &str, pages: &[&str]) {
        let unpacked = TempDir::new().unwrap();
        let write = |path: &str, text: &str| {
            let path = unpacked.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("tandem", program);
        for page in pages {
            write(&format!("man/{page}"), &format!("{page} of {version}\n"));
        }
        for completions in ["tandem.bash", "_tandem", "tandem.fish"] {
            write(&format!("completions/{completions}"), completions);
        }
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(unpacked.path().join("tandem"), executable).unwrap();
        let pack = format!(
            "rm -f * && for platform in linux-x86_64 linux-aarch64 darwin-x86_64 darwin-aarch64; do \
             tar -czf tandem-{version}-$platform.tar.gz -C '{}' tandem man completions; done && \
             {{ sha256sum *.gz 2>/dev/null || shasum -a 256 *.gz; }} >SHA256SUMS",
            unpacked.path().display(),
        );
        let files = self.dir.path().join("files");
        let status = Command::new("sh").args(["-c", &pack]).current_dir(files).status().await;
        assert!(status.unwrap().success(), "the release cannot be packed");
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn bin(&self) -> PathBuf {
        self.home().join(".local/bin")
    }

    fn data(&self) -> PathBuf {
        self.home().join(".local/share")
    }

    async fn install(&self) -> Run {
        self.run(&["--from", &self.address], &search_path()).await
    }

    async fn uninstall(&self) -> Run {
        self.run(&["--uninstall"], &search_path()).await
    }

    /// Runs the script with these arguments and this `PATH`.
    async fn run(&self, args: &[&str], path: &str) -> Run {
        self.run_script(Path::new(SCRIPT), args, path).await
    }

    async fn run_script(&self, script: &Path, args: &[&str], path: &str) -> Run {
        let child = Command::new("/bin/sh")
            .arg(script)
            .args(args)
            .env_clear()
            .env("HOME", self.home())
            .env("TMPDIR", self.dir.path().join("tmp"))
            .env("PATH", path)
            .env("no_proxy", "127.0.0.1")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ran = timeout(HANG, child.wait_with_output()).await;
        let ran = ran.expect("the script does not end").unwrap();
        let left = tree(&self.dir.path().join("tmp"));
        assert!(left.is_empty(), "left in the temporary directory: {left:?}");
        let said = [ran.stdout, ran.stderr].concat();
        Run { said: String::from_utf8(said).unwrap(), succeeded: ran.status.success() }
    }

    /// Checks that the script fails with this message, and that the home is unchanged.
    async fn refused(&self, args: &[&str], path: &str, said: &str) {
        let before = tree(&self.home());
        let run = self.run(args, path).await;
        assert!(!run.succeeded && run.said.contains(said), "{}", run.said);
        assert_eq!(tree(&self.home()), before);
    }
}

async fn file(State(files): State<PathBuf>, uri: Uri) -> Result<Vec<u8>, StatusCode> {
    fs::read(files.join(uri.path().trim_start_matches('/'))).map_err(|_| StatusCode::NOT_FOUND)
}

fn search_path() -> String {
    std::env::var("PATH").unwrap()
}

/// Programs that the script needs on every machine; other programs are optional.
const PROGRAMS: &[&str] = &[
    "cat",
    "chmod",
    "cp",
    "cut",
    "dirname",
    "grep",
    "gzip",
    "head",
    "mkdir",
    "mktemp",
    "mv",
    "perl",
    "rm",
    "rmdir",
    "sed",
    "sha256sum",
    "shasum",
    "sh",
    "sort",
    "tar",
];

/// Makes a directory to be the whole `PATH`: with `PROGRAMS`, with more that this machine has, and with a `uname`
/// that answers `-s` and `-m` like this.
fn path_with(dir: &Path, more: &[&str], [system, processor]: [&str; 2]) -> String {
    fs::create_dir(dir).unwrap();
    let path = search_path();
    for program in PROGRAMS.iter().chain(more) {
        let mut places = std::env::split_paths(&path).map(|place| place.join(program));
        if let Some(found) = places.find(|it| it.exists()) {
            symlink(found, dir.join(program)).unwrap();
        }
    }
    let uname =
        format!("#!/bin/sh\ncase $1 in -s) echo {system} ;; -m) echo {processor} ;; esac\n");
    fs::write(dir.join("uname"), uname).unwrap();
    fs::set_permissions(dir.join("uname"), fs::Permissions::from_mode(0o755)).unwrap();
    dir.to_str().unwrap().to_owned()
}

/// Returns all files with their texts, and all directories, below a directory.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Option<String>> {
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            entries.insert(entry.path(), None);
            entries.extend(tree(&entry.path()));
        } else {
            entries.insert(entry.path(), Some(fs::read_to_string(entry.path()).unwrap()));
        }
    }
    entries
}

#[tokio::test]
async fn everything_is_installed_in_its_place_and_removed_without_a_trace() {
    let release = Release::of(PROGRAM, &["tandem.1", "tandem-serve.1"]).await;
    let session = release.data().join("tandem/sessions/log.jsonl");
    fs::create_dir_all(session.parent().unwrap()).unwrap();
    fs::write(session, "a session of the user").unwrap();
    let before = tree(&release.home());

    let run = release.install().await;
    assert!(run.succeeded, "{}", run.said);
    let version = Command::new(release.bin().join("tandem")).arg("-V").output().await.unwrap();
    assert_eq!(version.stdout, b"tandem 1.2.3 -V\n");
    let data = release.data();
    for path in [
        "man/man1/tandem.1",
        "man/man1/tandem-serve.1",
        "bash-completion/completions/tandem",
        "zsh/site-functions/_tandem",
        "fish/vendor_completions.d/tandem.fish",
    ] {
        assert!(data.join(path).exists(), "{path} is missing");
    }

    let run = release.uninstall().await;
    assert!(run.succeeded, "{}", run.said);
    assert_eq!(tree(&release.home()), before);
}

#[tokio::test]
async fn another_directory_is_taken_and_removed_again() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    let run = release.run(&["--from", &release.address, "--to", "home/a b"], &search_path()).await;
    assert!(run.succeeded, "{}", run.said);
    assert!(release.home().join("a b/tandem").exists() && !release.bin().exists());
    assert!(release.uninstall().await.succeeded);
    assert!(tree(&release.home()).is_empty());
}

#[tokio::test]
async fn a_wrong_checksum_installs_nothing() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    let sums = release.dir.path().join("files/SHA256SUMS");
    let wrong: String =
        fs::read_to_string(&sums).unwrap().lines().fold(String::new(), |all, it| {
            format!("{all}{}  {}\n", "0".repeat(64), it.split_once("  ").unwrap().1)
        });
    fs::write(sums, wrong).unwrap();
    let said = "which is not the one in SHA256SUMS";
    release.refused(&["--from", &release.address], &search_path(), said).await;
}

#[tokio::test]
async fn a_file_that_is_missing_from_the_release_installs_nothing() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    let nowhere = format!("{}/elsewhere", release.address);
    let args = ["--from", &nowhere];
    release.refused(&args, &search_path(), "SHA256SUMS cannot be downloaded").await;
    fs::write(release.dir.path().join("files/SHA256SUMS"), "").unwrap();
    let args = ["--from", &release.address];
    release.refused(&args, &search_path(), "The release has no archive for").await;
}

#[tokio::test]
async fn a_program_that_does_not_run_here_is_not_installed() {
    let release = Release::of("#!/bin/sh\nexit 1\n", &["tandem.1"]).await;
    let said = "does not run on this machine";
    release.refused(&["--from", &release.address], &search_path(), said).await;
}

#[tokio::test]
async fn an_unknown_platform_is_told_how_to_build() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    for uname in [["Plan9", "x86_64"], ["Linux", "sparc64"]] {
        let path = path_with(&release.dir.path().join(uname[0]), &["curl", "wget"], uname);
        let said = "cargo install --locked --path .";
        release.refused(&["--from", &release.address], &path, said).await;
    }
}

#[tokio::test]
async fn each_platform_gets_its_own_archive() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    for (uname, platform) in [
        (["Linux", "x86_64"], "linux-x86_64"),
        (["Linux", "aarch64"], "linux-aarch64"),
        (["Darwin", "x86_64"], "darwin-x86_64"),
        (["Darwin", "arm64"], "darwin-aarch64"),
    ] {
        let path = path_with(&release.dir.path().join(platform), &["curl", "wget"], uname);
        let run = release.run(&["--from", &release.address], &path).await;
        assert!(run.succeeded, "{}", run.said);
        let downloading = format!("Downloading tandem-1.2.3-{platform}.tar.gz\n");
        assert!(run.said.contains(&downloading), "{}", run.said);
    }
}

#[tokio::test]
async fn either_curl_or_wget_is_enough() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    for (tool, need) in [("curl", Need::Curl), ("wget", Need::Wget)] {
        if lacking(need) {
            continue;
        }
        let path = path_with(&release.dir.path().join(tool), &[tool], ["Linux", "x86_64"]);
        let run = release.run(&["--from", &release.address], &path).await;
        assert!(run.succeeded, "{tool}: {}", run.said);
    }
    let path = path_with(&release.dir.path().join("none"), &[], ["Linux", "x86_64"]);
    release.refused(&["--from", &release.address], &path, "Neither curl nor wget is here").await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_leaves_everything_as_it_was() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    fs::write(release.home().join("file"), "").unwrap();
    let args = ["--from", &release.address, "--to", "home/file/bin"];
    release.refused(&args, &search_path(), "home/file cannot be made").await;
}

#[tokio::test]
async fn a_failure_after_the_program_was_staged_takes_the_program_back() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    fs::create_dir_all(release.data()).unwrap();
    fs::write(release.data().join("zsh"), "not a directory").unwrap();
    let args = ["--from", &release.address];
    release.refused(&args, &search_path(), "share/zsh cannot be made").await;
}

#[tokio::test]
async fn a_program_of_another_origin_is_not_replaced() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    fs::create_dir_all(release.bin()).unwrap();
    fs::write(release.bin().join("tandem"), "another program").unwrap();
    let said = "is not what this script has installed";
    release.refused(&["--from", &release.address], &search_path(), said).await;
}

#[tokio::test]
async fn completions_of_the_user_stay() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    let own = release.data().join("bash-completion/completions/tandem");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "the user's").unwrap();
    let before = tree(&release.home());
    assert!(release.install().await.succeeded);
    assert_eq!(fs::read_to_string(&own).unwrap(), "the user's");
    assert!(release.uninstall().await.succeeded);
    assert_eq!(tree(&release.home()), before);
}

#[tokio::test]
async fn an_update_replaces_the_program_and_removes_what_it_no_longer_has() {
    let release = Release::of(PROGRAM, &["tandem.1", "tandem-old.1"]).await;
    assert!(release.install().await.succeeded);
    let newer = "#!/bin/sh\necho tandem 1.2.4\n";
    release.publish("1.2.4", newer, &["tandem.1"]).await;
    let run = release.install().await;
    assert!(run.succeeded, "{}", run.said);
    assert_eq!(fs::read_to_string(release.bin().join("tandem")).unwrap(), newer);
    let pages = release.data().join("man/man1");
    assert!(pages.join("tandem.1").exists() && !pages.join("tandem-old.1").exists());
    assert!(release.uninstall().await.succeeded);
    assert!(tree(&release.home()).is_empty());
}

#[tokio::test]
async fn what_has_changed_since_it_was_installed_is_not_removed() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    assert!(release.install().await.succeeded);
    fs::write(release.bin().join("tandem"), "another program").unwrap();
    let run = release.uninstall().await;
    assert!(run.succeeded && run.said.contains("it has changed"), "{}", run.said);
    let files: Vec<_> = tree(&release.home()).into_values().flatten().collect();
    assert_eq!(files, ["another program"]);
}

#[tokio::test]
async fn nothing_that_was_not_installed_can_be_removed() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    release.refused(&["--uninstall"], &search_path(), "has installed nothing here").await;
}

#[tokio::test]
async fn a_directory_that_is_not_on_the_path_is_said() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    let hint = "is not on your PATH";
    assert!(release.install().await.said.contains(hint));
    let path = format!("{}:{}", release.bin().display(), search_path());
    let run = release.run(&["--from", &release.address], &path).await;
    assert!(run.succeeded && !run.said.contains(hint), "{}", run.said);
}

#[tokio::test]
async fn half_a_script_does_nothing() {
    let release = Release::of(PROGRAM, &["tandem.1"]).await;
    let text = fs::read_to_string(SCRIPT).unwrap();
    let script = release.dir.path().join("half.sh");
    let last = text.rfind("\nmain ").unwrap();
    for end in (0..last).step_by(last / 20).chain([last]) {
        fs::write(&script, &text[..end]).unwrap();
        release.run_script(&script, &["--from", &release.address], &search_path()).await;
        assert!(tree(&release.home()).is_empty(), "after {end} bytes");
    }
}
