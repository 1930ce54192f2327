//! Writing files: links, permissions, and changes by other programs meanwhile.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::{Arc, Mutex};

use expect_test::expect;
use serde_json::{Value, json};
use tandem_host::preimages::{ContentId, FileChange, Preimage};
use tandem_host::{ResultContent, ToolError, ToolOutput};

use super::{Place, replace_args, report, shown, write_args};

fn mode(place: &Place, path: &str) -> u32 {
    fs::metadata(place.path(path)).unwrap().mode() & 0o7777
}

#[test]
fn what_was_proposed_and_what_was_written_are_one_text_in_memory() {
    for (edited, same) in [(None, true), (Some("mine"), false)] {
        let place = Place::new(&[("a.txt", b"a")]);
        let call = place.prepare("write_file", write_args("b")).unwrap();
        let proposed = call.summary.diff.clone().unwrap();
        let Some(ResultContent::Diff(written)) = place.run(call, edited).unwrap().shown else {
            panic!("no diff")
        };
        assert!(Arc::ptr_eq(proposed.old.as_ref().unwrap(), written.old.as_ref().unwrap()));
        assert_eq!(Arc::ptr_eq(&proposed.new, &written.new), same);
    }
}

/// Changes that were announced, each with the content of the file at that time.
type Announced = Vec<(FileChange, Option<Vec<u8>>)>;

/// Calls a tool and returns what was announced.
fn announced(
    place: &mut Place,
    args: Value,
    answer: Result<(), ToolError>,
) -> (Announced, Result<ToolOutput, ToolError>) {
    let announced = Arc::<Mutex<Vec<_>>>::default();
    let kept = Arc::clone(&announced);
    place.cx.announce = Arc::new(move |change: FileChange| {
        let then = fs::read(&change.path).ok();
        kept.lock().unwrap().push((change, then));
        let answer = answer.clone();
        Box::pin(async move {
            // The tool must wait for an announcement that does not end at once.
            tokio::task::yield_now().await;
            answer
        })
    });
    let result = place.call("write_file", args);
    let announced = announced.lock().unwrap().clone();
    (announced, result)
}

#[test]
fn a_change_is_announced_before_the_file_is_touched() {
    let mut place = Place::new(&[("a.txt", b"old")]);
    let (announced, result) = announced(&mut place, write_args("new"), Ok(()));
    result.unwrap();
    let [(change, then)] = &*announced else { panic!("{announced:?}") };
    assert_eq!(then.as_deref(), Some(&b"old"[..]));
    assert_eq!(change.before, Preimage::Kept(ContentId::hash(b"old")));
    assert_eq!(change.after, ContentId::hash(b"new"));
    assert_eq!(place.read("a.txt"), b"new");
}

#[test]
fn a_new_file_is_announced_with_the_directories_that_are_not_there_yet() {
    let mut place = Place::new(&[]);
    let args = json!({ "file_path": "x/y/new.txt", "content": "new" });
    let (announced, result) = announced(&mut place, args, Ok(()));
    result.unwrap();
    let [(change, then)] = &*announced else { panic!("{announced:?}") };
    assert_eq!((then, &change.before), (&None, &Preimage::Nothing));
    assert_eq!(change.directories, [place.path("x/y"), place.path("x")]);
}

#[test]
fn a_file_whose_change_cannot_be_announced_is_not_touched() {
    let mut place = Place::new(&[("a.txt", b"old")]);
    let refusal = ToolError::new("not_kept", "the disk is full");
    let (_, result) = announced(&mut place, write_args("new"), Err(refusal.clone()));
    assert_eq!(result.unwrap_err(), refusal);
    assert_eq!(place.read("a.txt"), b"old");
    let args = json!({ "file_path": "x/new.txt", "content": "new" });
    announced(&mut place, args, Err(refusal)).1.unwrap_err();
    assert!(!place.path("x").exists());
}

#[test]
fn permissions_are_kept() {
    for bits in [0o755, 0o600, 0o666, 0o640] {
        let place = Place::new(&[("a.txt", b"a")]);
        fs::set_permissions(place.path("a.txt"), fs::Permissions::from_mode(bits)).unwrap();
        place.call("replace", replace_args("a", "b")).unwrap();
        assert_eq!(mode(&place, "a.txt"), bits);
    }
}

#[test]
fn a_new_file_has_the_permissions_that_any_new_file_has() {
    let place = Place::new(&[]);
    fs::write(place.path("usual"), "").unwrap();
    place.call("write_file", write_args("x")).unwrap();
    assert_eq!(mode(&place, "a.txt"), mode(&place, "usual"));
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let place = Place::new(&[("a.txt", b"old")]);
    let reader = fs::File::open(place.path("a.txt")).unwrap();
    place.call("write_file", write_args("new")).unwrap();
    assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
    assert_eq!(place.read("a.txt"), b"new");
}

#[test]
fn a_file_with_two_names_keeps_both() {
    let place = Place::new(&[("a.txt", b"old and long")]);
    fs::hard_link(place.path("a.txt"), place.path("b.txt")).unwrap();
    place.call("write_file", write_args("new")).unwrap();
    assert_eq!((place.read("a.txt"), place.read("b.txt")), (b"new".to_vec(), b"new".to_vec()));
}

#[test]
fn a_link_is_written_through() {
    let place = Place::new(&[("real.txt", b"old")]);
    symlink("real.txt", place.path("a.txt")).unwrap();
    let output = place.call("replace", replace_args("old", "new")).unwrap();
    assert!(place.path("a.txt").is_symlink());
    assert_eq!(place.read("real.txt"), b"new");
    expect!["Replaced 1 occurrence in real.txt."].assert_eq(report(&output.text));
}

#[test]
fn a_link_to_a_file_that_is_not_there_yet_is_written_through() {
    let place = Place::new(&[]);
    symlink("sub/real.txt", place.path("a.txt")).unwrap();
    place.call("write_file", write_args("new")).unwrap();
    assert!(place.path("a.txt").is_symlink());
    assert_eq!(place.read("sub/real.txt"), b"new");
}

#[test]
fn nothing_outside_the_workspace_is_written() {
    let place = Place::new(&[]);
    fs::write(place.dir.path().join("secret"), "old").unwrap();
    symlink(place.dir.path().join("secret"), place.path("a.txt")).unwrap();
    symlink(place.dir.path(), place.path("out")).unwrap();
    place.check_failing("write_file", write_args("new"), "path_not_in_workspace");
    place.check_failing("replace", replace_args("old", "new"), "path_not_in_workspace");
    for path in ["out/x", "../x", "/etc/x", "out/secret"] {
        let args = json!({ "file_path": path, "content": "new" });
        place.check_failing("write_file", args, "path_not_in_workspace");
    }
}

#[test]
fn a_directory_that_became_a_link_meanwhile_is_not_followed() {
    let place = Place::new(&[]);
    let args = json!({ "file_path": "sub/x.txt", "content": "new" });
    let call = place.prepare("write_file", args).unwrap();
    symlink(place.dir.path(), place.path("sub")).unwrap();
    assert_eq!(place.run(call, None).unwrap_err().kind, "file_changed");
    assert!(!place.dir.path().join("x.txt").exists());

    let args = json!({ "file_path": "real/x.txt", "content": "new" });
    fs::create_dir(place.path("other")).unwrap();
    let call = place.prepare("write_file", args).unwrap();
    symlink("other", place.path("real")).unwrap();
    assert_eq!(place.run(call, None).unwrap_err().kind, "file_changed");
    assert!(!place.path("other/x.txt").exists());
}

#[test]
fn a_directory_that_becomes_a_link_while_a_change_is_announced_is_not_followed() {
    let mut place = Place::new(&[]);
    let (link, outside) = (place.path("sub"), place.dir.path().to_owned());
    place.cx.announce = Arc::new(move |_| {
        symlink(&outside, &link).unwrap();
        Box::pin(std::future::ready(Ok(())))
    });
    let result = place.call("write_file", json!({ "file_path": "sub/x.txt", "content": "new" }));
    assert_eq!(result.unwrap_err().kind, "file_changed");
    assert!(!place.dir.path().join("x.txt").exists());
}

#[test]
fn directories_that_a_failed_write_has_made_are_removed() {
    let place = Place::new(&[("mine/a.txt", b"")]);
    for above in ["x/y", "mine/y"] {
        let path = format!("{above}/{}", "n".repeat(300));
        let result = place.call("write_file", json!({ "file_path": path, "content": "new" }));
        assert_eq!(result.unwrap_err().kind, "file_write_failure");
    }
    assert!(!place.path("x").exists() && !place.path("mine/y").exists());
    assert!(place.path("mine/a.txt").exists());
}

#[test]
fn a_change_by_somebody_else_meanwhile_is_not_lost() {
    let place = Place::new(&[("a.txt", b"one\n")]);
    for tool in ["write_file", "replace"] {
        for theirs in ["two\n", "one\ntwo\n", ""] {
            fs::write(place.path("a.txt"), "one\n").unwrap();
            let args = match tool {
                "replace" => replace_args("one", "1"),
                _ => json!({ "file_path": "a.txt", "content": "1\n" }),
            };
            let call = place.prepare(tool, args).unwrap();
            fs::write(place.path("a.txt"), theirs).unwrap();
            let error = place.run(call, Some("mine\n")).unwrap_err();
            assert_eq!(error.kind, "file_changed", "{error}");
            assert_eq!(place.read("a.txt"), theirs.as_bytes());
        }
    }
}

#[test]
fn a_file_that_vanished_or_appeared_meanwhile_is_a_change_too() {
    let place = Place::new(&[("a.txt", b"one")]);
    let call = place.prepare("write_file", write_args("1")).unwrap();
    fs::remove_file(place.path("a.txt")).unwrap();
    assert_eq!(place.run(call, None).unwrap_err().kind, "file_changed");
    assert!(!place.path("a.txt").exists());

    let call = place.prepare("write_file", write_args("1")).unwrap();
    fs::write(place.path("a.txt"), "theirs").unwrap();
    assert_eq!(place.run(call, None).unwrap_err().kind, "file_changed");
    assert_eq!(place.read("a.txt"), b"theirs");
}

#[test]
fn a_cancelled_call_announces_and_writes_nothing() {
    let mut place = Place::new(&[("a.txt", b"one")]);
    let call = place.prepare("write_file", write_args("1")).unwrap();
    place.cx.announce = Arc::new(|change| panic!("{change:?}"));
    place.cx.cancel.cancel();
    assert_eq!(place.run(call, None).unwrap_err().kind, "cancelled");
    assert_eq!(place.read("a.txt"), b"one");
}

#[test]
fn a_read_only_file_is_refused() {
    let place = Place::new(&[("a.txt", b"one")]);
    fs::set_permissions(place.path("a.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    place.check_failing("write_file", write_args("1"), "permission_denied");
    place.check_failing("replace", replace_args("one", "1"), "permission_denied");
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let place = Place::new(&[("dir/x", b"")]);
    let args = |path: &str| json!({ "file_path": path, "content": "x" });
    place.check_failing("write_file", args("dir"), "is_directory");
    place.check_failing("write_file", args("."), "is_directory");
    place.check_failing("write_file", args("dir/x/y"), "invalid_path");
    let fifo = place.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    place.check_failing("write_file", args("fifo"), "not_a_regular_file");
}

#[test]
fn a_file_over_the_limit_is_refused() {
    let place = Place::new(&[("a.txt", &vec![b'x'; (1 << 20) + 1])]);
    place.check_failing("write_file", write_args("1"), "file_too_large");
    place.check_failing("replace", replace_args("x", "y"), "file_too_large");
    fs::write(place.path("a.txt"), vec![b'x'; 1 << 20]).unwrap();
    place.call("read_file", json!({ "file_path": "a.txt" })).unwrap();
    let output = place.call("write_file", write_args("1")).unwrap();
    assert_eq!(shown(&output).1, "1");
}
