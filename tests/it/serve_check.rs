//! `tandem serve check`, and the files of `docs/deploy`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::{expect, expect_file};
use regex::Regex;
use serde_json::json;
use tempfile::TempDir;
use test_fakes::postgres::Cluster;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};

/// Certificates for `localhost`, with the key `first.key`; `first.pem` is for `tandem.example`, too.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls");

/// Runs `tandem serve check` with these flags; returns its output and exit status. Lines that depend on the machine
/// are left out: the sandbox mechanism, and the limit on open files.
pub(crate) async fn check(home: &Path, flags: &[&str]) -> (String, i32) {
    let setup = Setup::answers(json!([[{ "text": "hello" }]]));
    let setup = ["serve", "check"].iter().chain(flags).fold(setup, |setup, flag| setup.arg(flag));
    let child = setup.command(home).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let ran = timeout(HANG, child.wait_with_output()).await.expect("it does not end").unwrap();
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), "", "{flags:?}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    let of_machine = |line: &&str| !line.contains(" sandbox: ") && !line.contains(" open files: ");
    let lines: String = printed.lines().filter(of_machine).map(|it| format!("{it}\n")).collect();
    let lines = lines.replace(home.to_str().unwrap(), "~").replace(FIXTURES, "FIXTURES");
    let port = Regex::new(r"127\.0\.0\.1:\d\d+").unwrap();
    (port.replace_all(&lines, "127.0.0.1:PORT").into_owned(), ran.status.code().unwrap())
}

#[tokio::test]
async fn a_set_up_is_said_to_be_right_or_what_is_wrong_with_it_and_what_to_do() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("token"), "secret").unwrap();
    fs::set_permissions(path("token"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path("open"), "secret").unwrap();
    fs::set_permissions(path("open"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path("broken.json"), "{").unwrap();
    let occupied = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = occupied.local_addr().unwrap().port().to_string();
    let metrics = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let metrics = metrics.local_addr().unwrap().to_string();
    let mut said = String::new();
    let mut say = async |title: &str, flags: &[&str], code: i32| {
        let (text, status) = check(home.path(), flags).await;
        assert_eq!(status, code, "{title}: {text}");
        said += &format!("# {title}\n{text}\n");
    };
    let (token, audit) = (path("token"), path("audit"));
    let flags = ["--port", "0", "--a2a-token-file", &token, "--audit", &audit];
    say("all is well", &flags, 0).await;
    say("nobody is asked who he is", &["--port", "0"], 0).await;
    let (open, none) = (path("open"), path("none.json"));
    say(
        "others can read the token",
        &["--port", "0", "--a2a-token-file", &open, "--tokens", &none],
        0,
    )
    .await;
    let (missing, broken) = (path("missing"), path("broken.json"));
    let flags = ["--port", &port, "--a2a-token-file", &missing, "--tokens", &broken];
    let more = ["--workspace-root", &missing, "--audit", "/dev/null/audit", "--metrics", &metrics];
    say("much is wrong", &[&flags[..], &more].concat(), 1).await;
    let same = format!("127.0.0.1:{port}");
    say("the figures where the clients are", &["--port", &port, "--metrics", &same], 1).await;
    say("only the token's file is missing", &["--port", "0", "--a2a-token-file", &missing], 1)
        .await;
    say("only the file of tokens is missing", &["--port", "0", "--tokens", &none], 0).await;
    say("open to a network", &["--listen", "0.0.0.0:0"], 1).await;
    let proxy = ["--trust-proxy", "127.0.0.1", "--proxy-user-header", "X-Forwarded-User"];
    say("a proxy without a token", &[&["--port", "0"], &proxy[..]].concat(), 1).await;
    let flags = ["--port", "0", "--a2a-token-file", &token];
    say("a proxy with one", &[&flags[..], &proxy].concat(), 0).await;
    let key = format!("{FIXTURES}/first.key");
    for (title, certificate, host, code) in [
        ("a certificate", "first", "tandem.example", 0),
        ("a certificate of another host", "first", "other.example", 1),
        ("a certificate that has expired", "expired", "localhost", 1),
        ("a certificate of the next century", "future", "127.0.0.1", 1),
    ] {
        let certificate = format!("{FIXTURES}/{certificate}.pem");
        let url = format!("https://{host}/");
        let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--public-url", &url];
        say(title, &[&flags[..], &tls].concat(), code).await;
    }
    say("no key", &["--port", "0", "--model", "openai:gpt-5"], 1).await;
    expect_file!["../../fixtures/command_line/serve_check.txt"].assert_eq(&said);
}

#[tokio::test]
async fn an_issuer_whose_keys_cannot_be_fetched_is_said() {
    let home = TempDir::new().unwrap();
    // The port is free: no issuer listens there.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let issuer = format!("http://{free}/realm");
    let flags = ["--port", "0", "--oidc-issuer", &issuer, "--oidc-audience", "tandem"];
    let (text, status) = check(home.path(), &flags).await;
    let begin = "wrong    oidc: the keys of http://127.0.0.1:PORT/realm cannot be fetched: ";
    assert!(text.lines().any(|line| line.starts_with(begin)), "{text}");
    assert_eq!(status, 1);
}

#[tokio::test]
async fn repositories_are_said_to_be_right_or_what_is_wrong_with_them() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=me", "-c", "user.email=me@example"]).args(args);
        assert!(git.status().unwrap().success(), "{args:?}");
    };
    let (there, clones) = (path("a.git"), path("clones"));
    let (source, commit) = (path("source"), "c".repeat(40));
    git(&["init", "-q", "-b", "main", &source]);
    git(&["-C", &source, "commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["-C", &source, "tag", "v1"]);
    git(&["clone", "-q", "--bare", &source, &there]);
    let refuses = home.path().join("a.git/hooks/pre-receive");
    fs::write(&refuses, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&refuses, fs::Permissions::from_mode(0o755)).unwrap();
    let mut said = String::new();
    let mut say = async |repository: &str, code: i32| {
        let flags = ["--port", "0", "--workspaces", &clones, "--workspace-git", repository];
        let (text, status) = check(home.path(), &flags).await;
        assert_eq!(status, code, "{repository}: {text}");
        let lines = text.lines().filter(|line| line.contains("git"));
        said.extend(lines.map(|it| format!("{it}\n")));
    };
    say(&there, 0).await;
    for revision in ["main", "v1", &commit] {
        say(&format!("{there}#{revision}"), 0).await;
    }
    for revision in ["mai", "heads/main"] {
        say(&format!("{there}#{revision}"), 1).await;
    }
    say(&path("none.git"), 1).await;
    say("ext::id", 1).await;
    expect![[r#"
        ok       git: ~/a.git can be read
        ok       git: ~/a.git lets this user push; the first snapshot will show if hooks or rules refuse the push
        ok       git: ~/a.git#main can be read
        ok       git: ~/a.git lets this user push; the first snapshot will show if hooks or rules refuse the push
        ok       git: ~/a.git#v1 can be read
        ok       git: ~/a.git lets this user push; the first snapshot will show if hooks or rules refuse the push
        ok       git: ~/a.git#cccccccccccccccccccccccccccccccccccccccc can be read; the first session will show if the repository has this commit
        ok       git: ~/a.git lets this user push; the first snapshot will show if hooks or rules refuse the push
        wrong    git: ~/a.git#mai cannot be read: it has no branch or tag `mai`
        wrong    git: ~/a.git#heads/main cannot be read: it has no branch or tag `heads/main`
        wrong    git: ~/none.git cannot be read: `git ls-remote`: fatal: '~/none.git' does not appear to be a git repository; fatal: Could not read from remote repository.; Please make sure you have the correct access rights; and the repository exists.
        wrong    directories: `--workspace-git`: give `https://HOST/PATH`, `ssh://USER@HOST/PATH`, `USER@HOST:PATH`, or the absolute path of a repository
    "#]].assert_eq(&said);
    assert_eq!(fs::read_dir(&clones).unwrap().count(), 0);
}

#[tokio::test]
async fn a_database_is_said_to_be_right_or_what_it_lacks() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let home = TempDir::new().unwrap();
    let version = Regex::new(r"is Postgres \d+").unwrap();
    let mut said = String::new();
    let mut say = async |title: &str, url: &str| {
        let (text, _) = check(home.path(), &["--port", "0", "--store", url]).await;
        let lines = text.lines().filter(|line| line.contains(" database: "));
        let lines: String = lines.map(|it| format!("{it}\n")).collect();
        said += &format!("# {title}\n{}", version.replace_all(&lines, "is Postgres N"));
    };
    say("new", &database.url).await;
    drop(database.connect().await);
    say("with tables", &database.url).await;
    let role = format!("reader_{:08x}", fastrand::u32(..));
    database.sql(&format!(
        "create role {role} login; grant usage on schema tandem to {role}; \
         grant all on all tables in schema tandem to {role}; \
         grant all on all sequences in schema tandem to {role}; \
         revoke delete on tandem.batch from {role}; revoke insert on tandem.session from {role}"
    ));
    say("without rights", &database.url.replace("tandem@", &format!("{role}@"))).await;
    let name = database.url.rsplit('/').next().unwrap().to_owned();
    database.sql(&format!("alter database {name} set synchronous_commit = off"));
    say("careless", &database.url).await;
    database.sql("update tandem.schema_version set version = 1000");
    say("of a newer tandem", &database.url).await;
    database.sql(&format!(
        "create database {name}_latin encoding 'LATIN1' locale 'C' template template0"
    ));
    say("of one script", &format!("{}_latin", database.url)).await;
    database.sql(&format!("drop database {name}_latin"));
    say("not there", "postgres://tandem@127.0.0.1:1/none").await;
    let said = said.replace(&name, "NAME");
    let port = Regex::new(r"127\.0\.0\.1:\d\d+").unwrap();
    expect![[r#"
        # new
        ok       database: it answers, and is Postgres N
        ok       database: its encoding is UTF8
        ok       database: the tables are made at the first start of `tandem serve`
        ok       database: a connection stays one connection
        ok       database: notifications come (LISTEN, NOTIFY)
        ok       database: events that it acknowledges survive a crash
        # with tables
        ok       database: it answers, and is Postgres N
        ok       database: its encoding is UTF8
        ok       database: the tables (version 1) are there, and can be used
        ok       database: a connection stays one connection
        ok       database: notifications come (LISTEN, NOTIFY)
        ok       database: events that it acknowledges survive a crash
        # without rights
        ok       database: it answers, and is Postgres N
        ok       database: its encoding is UTF8
        wrong    database: the user lacks rights in the schema `tandem`: delete on batch, insert on session; grant them, as `docs/deploy/roles.sql` does
        ok       database: a connection stays one connection
        ok       database: notifications come (LISTEN, NOTIFY)
        ok       database: events that it acknowledges survive a crash
        # careless
        ok       database: it answers, and is Postgres N
        ok       database: its encoding is UTF8
        ok       database: the tables (version 1) are there, and can be used
        ok       database: a connection stays one connection
        ok       database: notifications come (LISTEN, NOTIFY)
        warning  database: `synchronous_commit` is off: if the database's machine fails, the last events that clients have seen are lost; set `synchronous_commit` to on
        # of a newer tandem
        ok       database: it answers, and is Postgres N
        ok       database: its encoding is UTF8
        wrong    database: the database `NAME` at 127.0.0.1:PORT: a newer tandem made its tables (version 1000, and this program knows 1); update tandem
        ok       database: a connection stays one connection
        ok       database: notifications come (LISTEN, NOTIFY)
        warning  database: `synchronous_commit` is off: if the database's machine fails, the last events that clients have seen are lost; set `synchronous_commit` to on
        # of one script
        ok       database: it answers, and is Postgres N
        wrong    database: its encoding is LATIN1, and a session with other characters cannot be saved: make a database with `createdb --encoding=UTF8 --template=template0 NAME`
        ok       database: the tables are made at the first start of `tandem serve`
        ok       database: a connection stays one connection
        ok       database: notifications come (LISTEN, NOTIFY)
        ok       database: events that it acknowledges survive a crash
        # not there
        wrong    database: the database `none` at 127.0.0.1:1: it cannot be reached (Connection refused (os error 111)); is it running, and is its address right?
    "#]].assert_eq(&port.replace_all(&said, "127.0.0.1:PORT"));
}

/// Returns the flags of a command line.
fn flags(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).filter(|word| word.starts_with("--")).collect()
}

#[test]
fn the_files_of_the_manual_start_servers_with_flags_that_there_are() {
    let help =
        Command::new(env!("CARGO_BIN_EXE_tandem")).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/deploy");
    let unit = fs::read_to_string(deploy.join("tandem.service")).unwrap();
    let starts = unit.lines().filter(|line| line.starts_with("ExecStart"));
    let mut commands: Vec<Vec<String>> =
        starts.map(|line| line.split(' ').map(ToOwned::to_owned).collect()).collect();
    let compose = fs::read_to_string(deploy.join("compose.yaml")).unwrap();
    let of_nodes = compose.lines().filter_map(|line| line.trim().strip_prefix("command: "));
    commands.extend(of_nodes.map(|list| serde_json::from_str::<Vec<String>>(list).unwrap()));
    assert_eq!(commands.len(), 4);
    for command in &commands {
        assert!(command.iter().any(|word| word == "serve"), "{command:?}");
        for flag in flags(command) {
            assert!(
                help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")),
                "{flag}"
            );
        }
    }
}
