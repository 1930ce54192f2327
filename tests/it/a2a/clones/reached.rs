//! Repositories on other machines: over https with credentials, and over ssh with a key.
//!
//! A test whose server is not installed is recorded as skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use super::super::curl::AUTHORITY;
use super::super::proxies::{free_port, nginx, start};
use super::super::server::{Served, serve};
use super::super::tls::fixture;
use super::{Remote, changes, completed, git, logs, turn};
use crate::agent::Setup;
use crate::needs::{Need, find, lacking};
use crate::serve_check;

/// Starts a server with clones of this repository.
async fn server_of(remote: &Remote, url: &str, setup: Setup) -> Served {
    let clones = remote.home.path().join("clones");
    let setup = setup.arg("--workspace-git").arg(url).arg("--workspaces");
    serve(&setup.arg(clones.to_str().unwrap()).arg("-y")).await
}

/// Runs a turn in a clone of this repository, and continues the session on a second server from what was saved.
async fn check(remote: &Remote, url: &str, setup: Setup) {
    let server = server_of(remote, url, setup.clone()).await;
    completed(server.client, "change").await;
    assert_eq!(git(&remote.path, &["show", &format!("{}:new.txt", remote.snapshot())]), "new");
    let log = logs(&server);
    assert!(!log.contains("not saved") && !log.contains("p@ss"), "{log}");
    let clone = remote.clone_in("clones");
    let config = fs::read_to_string(clone.join(".git/config")).unwrap();
    assert!(config.contains("127.0.0.1") && !config.contains("p%40ss"), "{config}");
    // Without the clone, the server is like one on another machine.
    fs::remove_dir_all(remote.home.path().join("clones")).unwrap();
    let clones = remote.home.path().join("clones");
    let setup = setup.arg("--workspace-git").arg(url).arg("--workspaces");
    let server = server.killed(&setup.arg(clones.to_str().unwrap()).arg("-y")).await;
    completed(server.client, "hi").await;
    assert_eq!(fs::read_to_string(clone.join("new.txt")).unwrap(), "new\n");
}

/// Serves the repositories in a directory over HTTP, by git's own program. A header names the user. Returns the
/// port.
async fn serve_over_http(root: &Path) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, root) = (listener.local_addr().unwrap().port(), root.to_owned());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let root = root.clone();
            tokio::spawn(async move { answer(stream, &root).await });
        }
    });
    port
}

/// Answers one request.
async fn answer(mut stream: TcpStream, root: &Path) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let headers: BTreeMap<_, _> = head[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let header = |name: &str| headers.get(name).map_or("", String::as_str);
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    lines.read_exact(&mut body).await.unwrap();
    let mut words = head[0].split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut program = Command::new("git");
    program.arg("http-backend").env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    program.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    program.env("CONTENT_LENGTH", body.len().to_string()).env("REMOTE_USER", header("x-user"));
    program.env("CONTENT_TYPE", header("content-type"));
    program.env("HTTP_CONTENT_ENCODING", header("content-encoding"));
    program.env("GIT_PROTOCOL", header("git-protocol"));
    let mut program =
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let feed = async move { input.write_all(&body).await };
    let (_, output) = tokio::join!(feed, program.wait_with_output());
    let output = output.unwrap().stdout;
    let mut lines = output.split(|&b| b == b'\n').take_while(|line| line != b"\r");
    let status = lines.find_map(|line| line.strip_prefix(b"Status: ")?.strip_suffix(b"\r"));
    let status = status.unwrap_or(b"200 OK");
    for part in [&b"HTTP/1.0 "[..], status, b"\r\n", &output] {
        let _ = write.write_all(part).await;
    }
}

/// Serves the repository over https to `me` with the password `p@ss`; returns the port.
async fn serve_over_https(remote: &Remote) -> Option<(u16, Child)> {
    let home = remote.home.path().join("nginx");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("users"), "me:{PLAIN}p@ss\n").unwrap();
    let (port, behind) = (free_port(), serve_over_http(remote.home.path()).await);
    let (certificate, key) = (fixture("first.pem"), fixture("first.key"));
    let settings = format!(
        "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate \"{}\"; ssl_certificate_key \"{}\";\n\
         auth_basic git; auth_basic_user_file \"{}/users\";\n\
         location / {{ proxy_pass http://127.0.0.1:{behind}; proxy_set_header X-User $remote_user; }} }}\n",
        certificate.display(),
        key.display(),
        home.display()
    );
    let mut nginx = nginx(&home, &settings)?;
    Some((port, start(&mut nginx, port).await))
}

#[tokio::test]
async fn a_repository_is_reached_over_https_with_the_credentials_of_its_url() {
    let remote = Remote::new();
    let Some((port, _nginx)) = serve_over_https(&remote).await else { return };
    let setup = changes("echo new > new.txt").var("GIT_SSL_CAINFO", AUTHORITY);
    let url = |password: &str| format!("https://me:{password}@127.0.0.1:{port}/remote.git#main");
    check(&remote, &url("p%40ss"), setup.clone()).await;
    fs::remove_dir_all(remote.home.path().join("clones")).unwrap();
    let server = server_of(&remote, &url("wr0ng"), setup).await;
    let task = turn(server.client, "hi").await;
    let why = task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    assert!(why.contains("Authentication failed") && !why.contains("wr0ng"), "{task}");
}

#[tokio::test]
async fn whether_snapshots_may_be_pushed_is_checked_before_anybody_works() {
    let remote = Remote::new();
    let readable = serve_over_http(remote.home.path()).await;
    let clones = remote.home.path().join("clones");
    let check = async |url: &str| {
        let flags =
            ["--port", "0", "--workspaces", clones.to_str().unwrap(), "--workspace-git", url];
        serve_check::check(remote.home.path(), &flags).await
    };
    // `git http-backend` takes pushes only from callers that have authenticated.
    let (text, status) = check(&format!("http://127.0.0.1:{readable}/remote.git#main")).await;
    assert!(
        text.contains("ok       git: http://127.0.0.1:PORT/remote.git#main can be read"),
        "{text}"
    );
    let wrong = "wrong    git: snapshots cannot be pushed to http://127.0.0.1:PORT/remote.git: `git push`: ";
    assert!(status == 1 && text.contains(wrong) && text.contains("403"), "{text}");

    let config = ["config", "http.receivepack", "true"];
    git(&remote.path, &config);
    let (text, status) = check(&format!("http://127.0.0.1:{readable}/remote.git#main")).await;
    assert!(
        status == 0 && text.contains("ok       git: http://127.0.0.1:PORT/remote.git lets"),
        "{text}"
    );
    assert_eq!(git(&remote.path, &["for-each-ref", "refs/tandem"]), "");
}

/// Makes a key of ssh's.
fn key(path: &Path) {
    let mut made = std::process::Command::new("ssh-keygen");
    made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    assert!(made.status().unwrap().success());
}

#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "servers of other systems are set up differently")]
async fn a_repository_is_reached_over_ssh_with_a_key() {
    if lacking(Need::Sshd) {
        return;
    }
    let remote = Remote::new();
    let (home, port) = (remote.home.path().join("ssh"), free_port());
    fs::create_dir(&home).unwrap();
    let (host_key, user_key) = (home.join("host"), home.join("user"));
    key(&host_key);
    key(&user_key);
    let home = home.display();
    let settings = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {home}/host\nAuthorizedKeysFile {home}/user.pub\n\
         StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
    );
    let file = remote.home.path().join("sshd_config");
    fs::write(&file, settings).unwrap();
    let mut sshd = Command::new(find("sshd").unwrap());
    sshd.arg("-D").arg("-f").arg(&file);
    let _sshd = start(&mut sshd, port).await;
    let ssh = format!(
        "ssh -F /dev/null -i {home}/user -o UserKnownHostsFile={home}/known -o StrictHostKeyChecking=accept-new"
    );
    let setup = changes("echo new > new.txt").var("GIT_SSH_COMMAND", &ssh);
    let url = format!("ssh://127.0.0.1:{port}{}#main", remote.path.display());
    check(&remote, &url, setup).await;
}
