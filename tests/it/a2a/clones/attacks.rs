//! Files that a model can write into a clone so that the server's own git would run them, or read files of others.

use std::fs;

use serde_json::json;

use super::{Remote, changes, completed, git, logs, served, shell};
use crate::agent::Setup;

/// Runs a turn whose command prepares an attack, and then another turn. The attack would make the file `pwned` in
/// the home. Returns the log.
async fn attacked(remote: &Remote, setup: &Setup) -> String {
    let server = served(remote, &setup.clone().without_sandbox()).await;
    completed(server.client, "change").await;
    completed(server.client, "hi").await;
    assert!(!server.home.path().join("pwned").exists(), "the attack has run");
    logs(&server)
}

/// Returns the content of a file in the snapshot.
fn saved(remote: &Remote, name: &str) -> String {
    git(&remote.path, &["show", &format!("{}:{name}", remote.snapshot())])
}

#[tokio::test]
async fn neither_hooks_nor_the_configuration_nor_filters_of_a_clone_run() {
    let remote = Remote::new();
    let attack = r#"
        evil=$HOME/evil; printf '#!/bin/sh\ntouch "$HOME/pwned"; cat\n' > $evil; chmod +x $evil
        mkdir -p .git/hooks .git/info
        for hook in pre-commit post-commit post-checkout pre-push post-index-change reference-transaction \
          fsmonitor-watchman post-rewrite pre-auto-gc; do cp $evil .git/hooks/$hook; done
        for key in core.fsmonitor core.sshCommand core.editor core.pager core.askPass core.alternateRefsCommand \
          diff.external filter.x.clean filter.x.smudge filter.x.process diff.x.textconv gpg.program \
          remote.origin.uploadpack remote.origin.receivepack uploadpack.packObjectsHook credential.helper \
          diff.x.command merge.x.driver trailer.x.command; do git config $key "$evil"; done
        git config core.hooksPath .git/hooks; git config filter.x.required true
        git config protocol.allow always; git config remote.origin.url "ext::$evil"
        git config core.worktree "$HOME"; git config extensions.worktreeConfig true
        echo '* filter=x diff=x merge=x' > .gitattributes; cp .gitattributes .git/info/attributes
        cp -r .git nested.git; mkdir nested; cp -r .git nested/.git; echo a > nested/a
        printf '[submodule "nested"]\n\tpath = nested\n\turl = ./nested\n\tupdate = !%s\n' $evil > .gitmodules
        git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),nested
        rm -f "$HOME/pwned"; printf 'raw\r\n' > raw.txt
    "#;
    let log = attacked(&remote, &changes(attack)).await;
    assert!(!log.contains("is not saved"), "{log}");
    assert_eq!(saved(&remote, "raw.txt"), "raw\r");
}

#[tokio::test]
async fn a_filter_of_the_servers_user_is_not_begun_by_a_clone() {
    let remote = Remote::new();
    let attack = r#"
        printf '* filter=x text eol=lf ident working-tree-encoding=UTF-16\n' > .gitattributes
        printf '$Id$\r\n' > raw.txt
    "#;
    let server = served(&remote, &changes(attack).without_sandbox()).await;
    let filter =
        "[filter \"x\"]\n\tclean = touch $HOME/pwned; cat\n\tsmudge = touch $HOME/pwned; cat\n";
    fs::write(server.home.path().join(".gitconfig"), filter).unwrap();
    completed(server.client, "change").await;
    assert!(!server.home.path().join("pwned").exists());
    assert_eq!(saved(&remote, "raw.txt"), "$Id$\r");
}

#[tokio::test]
async fn what_a_clone_says_of_its_head_is_not_followed_out_of_it() {
    let elsewhere = "$(git rev-parse HEAD > $HOME/elsewhere; echo $HOME/elsewhere)";
    for (attack, said) in [
        (
            "echo 'ref: refs/heads/../../../../elsewhere' > .git/HEAD".to_owned(),
            "neither a branch nor a commit",
        ),
        ("echo 'ref: refs/tandem/x' > .git/HEAD".to_owned(), "neither a branch nor a commit"),
        ("echo '--upload-pack=id' > .git/HEAD".to_owned(), "neither a branch nor a commit"),
        (
            format!("ln -sf {elsewhere} .git/HEAD"),
            "The workspace is not saved: the clone cannot be read",
        ),
        (
            format!("rm .git/refs/heads/main; ln -s {elsewhere} .git/refs/heads/main"),
            "The workspace is not saved: the clone cannot be read",
        ),
        ("rm .git/HEAD; mkfifo .git/HEAD".to_owned(), "is not a file"),
        (
            "mv .git \"$HOME/moved\"; ln -s \"$HOME/moved\" .git".to_owned(),
            "The workspace is not saved: the clone cannot be read",
        ),
        (
            "mv .git/objects \"$HOME/objects\"; ln -s \"$HOME/objects\" .git/objects".to_owned(),
            "The workspace is not saved: the clone cannot be read",
        ),
        (
            "echo 0123456789012345678901234567890123456789 > .git/refs/heads/main".to_owned(),
            "The workspace is not saved: `git cat-file`",
        ),
        ("head -c 100000 /dev/zero > .git/HEAD".to_owned(), "is too long"),
    ] {
        let remote = Remote::new();
        let log = attacked(&remote, &changes(&attack)).await;
        assert!(log.contains(said), "{attack}: {log}");
    }
}

#[tokio::test]
async fn objects_of_another_repository_are_not_pushed() {
    let remote = Remote::new();
    let other = remote.home.path().join("other");
    fs::create_dir(&other).unwrap();
    git(&other, &["init", "-q"]);
    fs::write(other.join("secret.txt"), "secret\n").unwrap();
    git(&other, &["add", "-A"]);
    git(&other, &["commit", "-q", "-m", "secret"]);
    let commit = git(&other, &["rev-parse", "HEAD"]);
    let objects = other.join(".git/objects");
    let attack = format!(
        "echo {} > .git/objects/info/alternates; echo {commit} > .git/refs/heads/main",
        objects.display()
    );
    let log = attacked(&remote, &changes(&attack)).await;
    assert!(log.contains("The workspace is not saved"), "{log}");
    let (folder, file) = commit.split_at(2);
    let attack = format!(
        "mkdir -p .git/objects/{folder}; ln -s {}/{folder}/{file} .git/objects/{folder}/{file}; echo {commit} > .git/refs/heads/main",
        objects.display()
    );
    let remote = Remote::new();
    let log = attacked(&remote, &changes(&attack)).await;
    assert!(log.contains("an object in `.git/objects` is not a file"), "{log}");
}

#[tokio::test]
async fn files_behind_links_are_not_saved() {
    let remote = Remote::new();
    let attack = r#"
        mkdir "$HOME/outside"; echo secret > "$HOME/outside/inside.txt"
        rm -r dir; ln -s "$HOME/outside" dir; ln -s "$HOME/outside/inside.txt" file.txt
        mkfifo pipe; mkdir empty; rm kept.txt; mkdir kept.txt; echo x > kept.txt/x
    "#;
    let log = attacked(&remote, &changes(attack)).await;
    assert!(!log.contains("is not saved"), "{log}");
    let listed = git(&remote.path, &["ls-tree", "-r", &remote.snapshot()]);
    let names: Vec<_> =
        listed.lines().map(|line| (&line[..6], line.split('\t').nth(1).unwrap())).collect();
    let expected = [
        ("100644", ".gitignore"),
        ("120000", "dir"),
        ("120000", "file.txt"),
        ("100644", "gone.txt"),
        ("100644", "kept.txt/x"),
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn commands_do_not_know_the_credentials_of_the_repository() {
    let remote = Remote::new();
    let shown = json!([[shell("env; cat .git/config ../*/config")], [{ "text": "done" }]]);
    let setup = Setup::answers(shown).without_sandbox();
    let secret = "http://me:sesame@127.0.0.1:9/a.git";
    let setup = setup.arg("--workspace-git").arg(secret).var("OTHER", secret);
    let server = served(&remote, &setup).await;
    let named = super::works_in(&remote.path, super::in_context("c", "change"));
    let task = server.client.result("message/send", named).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
    let log = logs(&server);
    let output = log.split("CallFinished").nth(1).expect("a call");
    assert!(output.contains("PATH=") && !output.contains("sesame"), "{output}");
}
