//! Package managers in the sandbox, which find the proxy by themselves. The registries are small servers of the
//! test, under names that only its resolver knows.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ring::digest::{SHA256, digest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::network::hosts;
use super::*;
use crate::needs::{Need, lacking};
use test_support::network::allowing;

/// Serves files by their paths. Returns the port.
async fn serve(files: impl FnOnce(u16) -> BTreeMap<String, Vec<u8>>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let files = Arc::new(files(port));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&files)));
        }
    });
    port
}

/// Answers one request.
async fn answer(mut stream: TcpStream, files: Arc<BTreeMap<String, Vec<u8>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or_default() == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let (status, body) = match files.get(path) {
        Some(body) => ("200 OK", body.as_slice()),
        None => ("404 Not Found", &b"{}"[..]),
    };
    let kind = if path.starts_with("/simple/") { "text/html" } else { "application/json" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    // An error is ignored: the client may close the connection once it has what it needs.
    let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
}

/// Runs a program in a directory, and returns the content of the file that it has made there.
fn made(directory: &Path, words: &[&str], file: &str) -> Vec<u8> {
    let run = Command::new(words[0]).args(&words[1..]).current_dir(directory).output().unwrap();
    assert!(run.status.success(), "{words:?}: {run:?}");
    fs::read(directory.join(file)).unwrap()
}

fn write(directory: &Path, name: &str, content: &str) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A workspace after a command, and the text for the model.
struct Installed {
    stage: Stage,
    told: String,
}

impl Installed {
    /// Returns a file that the command has made.
    #[track_caller]
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.stage.path(name)).expect(&self.told)
    }
}

/// Runs a command in a workspace with these files, where `allowed` is the only host that needs no
/// question, and `server` the only port. Everything else is answered with no.
async fn run_allowing(allowed: &str, server: u16, files: &[(&str, &str)], line: &str) -> Installed {
    let mut stage = Stage::changed(Mode::AutoEdit, &[run(line)], |setup| SandboxSetup {
        mechanism: Some(Mechanism::Namespaces),
        hosts: NetworkSetup { lists: allowing(allowed), ..hosts(server, &Arc::default()) },
        ..setup
    });
    for (name, content) in files {
        write(&stage.path(""), name, content);
    }
    let made = stage.go(Answer::Reject).await;
    let [made] = &made[..] else { panic!("{} calls", made.len()) };
    assert!(made.is_sandboxed() && !made.is_asked());
    Installed { told: made.told().to_owned(), stage }
}

#[tokio::test]
async fn npm_installs_what_a_lock_file_names() {
    if lacking(Need::Namespaces) || lacking(Need::Npm) {
        return;
    }
    let package = TempDir::new().unwrap();
    let about = r#"{ "name": "hello", "version": "1.0.0" }"#;
    write(package.path(), "package/package.json", about);
    write(package.path(), "package/index.js", "module.exports = 'hello'\n");
    let tarball = made(package.path(), &["tar", "czf", "hello.tgz", "package"], "hello.tgz");
    let tarball = BTreeMap::from([("/hello/-/hello-1.0.0.tgz".to_owned(), tarball)]);
    let server = serve(|_| tarball).await;
    let registry = format!("http://npm.test:{server}/");
    let wants = json!({ "name": "a", "version": "1.0.0", "dependencies": { "hello": "1.0.0" } });
    let lock = json!({
        "name": "a", "version": "1.0.0", "lockfileVersion": 3,
        "packages": {
            "": wants,
            "node_modules/hello": {
                "version": "1.0.0", "resolved": format!("{registry}hello/-/hello-1.0.0.tgz"),
            },
        },
    });
    let files = [("package.json", &*wants.to_string()), ("package-lock.json", &*lock.to_string())];
    let line = format!("npm ci --no-audit --no-fund --cache /tmp/npm --registry {registry}");
    let installed = run_allowing("npm.test", server, &files, &line).await;
    assert!(installed.file("node_modules/hello/index.js").contains("'hello'"));
}

#[tokio::test]
async fn pip_installs_a_wheel() {
    if lacking(Need::Namespaces) || lacking(Need::Pip) {
        return;
    }
    let package = TempDir::new().unwrap();
    let info = "hello_sandbox-1.0.dist-info";
    write(package.path(), "hello_sandbox.py", "GREETING = 'hello'\n");
    let metadata = "Metadata-Version: 2.1\nName: hello-sandbox\nVersion: 1.0\n";
    write(package.path(), &format!("{info}/METADATA"), metadata);
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    write(package.path(), &format!("{info}/WHEEL"), tags);
    write(package.path(), &format!("{info}/RECORD"), "");
    let wheel = "hello_sandbox-1.0-py3-none-any.whl";
    let zip = ["python3", "-m", "zipfile", "-c", wheel, "hello_sandbox.py", info];
    let file = made(package.path(), &zip, wheel);
    let page = format!("<a href=\"/files/{wheel}\">{wheel}</a>");
    let files = BTreeMap::from([
        ("/simple/hello-sandbox/".to_owned(), page.into_bytes()),
        (format!("/files/{wheel}"), file),
    ]);
    let server = serve(|_| files).await;
    let line = format!(
        "env -u PIP_FIND_LINKS PIP_CONFIG_FILE=/dev/null python3 -m pip install --no-deps \
         --disable-pip-version-check --no-cache-dir --index-url http://pypi.test:{server}/simple/ \
         --trusted-host pypi.test --target out hello-sandbox"
    );
    let installed = run_allowing("pypi.test", server, &[], &line).await;
    assert!(installed.file("out/hello_sandbox.py").contains("'hello'"));
}

#[tokio::test]
async fn cargo_fetches_a_crate() {
    if lacking(Need::Namespaces) {
        return;
    }
    let package = TempDir::new().unwrap();
    let manifest = "[package]\nname = \"hello-crate\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    write(package.path(), "hello-crate-1.0.0/Cargo.toml", manifest);
    write(package.path(), "hello-crate-1.0.0/src/lib.rs", "");
    let tar = ["tar", "czf", "hello.crate", "hello-crate-1.0.0"];
    let file = made(package.path(), &tar, "hello.crate");
    let sum: String =
        digest(&SHA256, &file).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let entry = json!({
        "name": "hello-crate", "vers": "1.0.0", "deps": [], "cksum": sum, "features": {},
        "yanked": false,
    });
    let server = serve(|port| {
        let config = json!({ "dl": format!("http://crates.test:{port}/dl") });
        BTreeMap::from([
            ("/index/config.json".to_owned(), config.to_string().into_bytes()),
            ("/index/he/ll/hello-crate".to_owned(), entry.to_string().into_bytes()),
            ("/dl/hello-crate/1.0.0/download".to_owned(), file),
        ])
    })
    .await;
    let manifest = "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\
        [dependencies]\nhello-crate = { version = \"1\", registry = \"fake\" }\n";
    let files = [("Cargo.toml", manifest), ("src/lib.rs", "")];
    let line = format!(
        "CARGO_HOME=/tmp/cargo cargo fetch --config \
         'registries.fake.index=\"sparse+http://crates.test:{server}/index/\"'"
    );
    let installed = run_allowing("crates.test", server, &files, &line).await;
    let lock = installed.file("Cargo.lock");
    assert!(lock.contains("name = \"hello-crate\""), "{lock}");
}

#[tokio::test]
async fn git_clones_for_a_script() {
    if lacking(Need::Namespaces) {
        return;
    }
    let source = TempDir::new().unwrap();
    let script = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a \
        && git clone -q --bare . bare.git && git -C bare.git update-server-info";
    made(source.path(), &["bash", "-c", script], "bare.git/HEAD");
    let mut files = BTreeMap::new();
    let root = source.path().join("bare.git");
    for entry in ignore::WalkBuilder::new(&root).standard_filters(false).build() {
        let path = entry.unwrap().into_path();
        if path.is_file() {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            files.insert(format!("/a.git/{name}"), fs::read(&path).unwrap());
        }
    }
    let server = serve(|_| files).await;
    let script =
        format!("git clone -q http://git.test:{server}/a.git /tmp/a\ngit -C /tmp/a log > log\n");
    let installed =
        run_allowing("git.test", server, &[("clone.sh", &script)], "sh -e clone.sh").await;
    assert!(installed.file("log").contains("Author: a <a@b>"));
}
