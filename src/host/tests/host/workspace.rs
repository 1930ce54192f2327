//! Paths inside and outside of the workspace, and ignored paths.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tandem_host::workspace::{Respect, WalkEntry, Workspace};
use tempfile::TempDir;

/// Makes the directories `work` and `outside` beside each other, with these files.
fn place(files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for made in ["work", "outside"] {
        fs::create_dir(root.join(made)).unwrap();
    }
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (dir, root)
}

/// Checks the target of a path of the workspace `work`, relative to the place, or the kind of error.
#[track_caller]
fn check(root: &Path, path: &str, expected: Result<&str, &str>) {
    let workspace = Workspace::new(&root.join("work"), &[]).unwrap();
    let found = workspace.resolve(path);
    if let Ok(found) = &found {
        assert!(workspace.contains(found), "{}", found.display());
    }
    let found = found.map_err(|error| error.kind);
    assert_eq!(found, expected.map(|path| root.join(path)).map_err(str::to_owned), "{path:?}");
}

const OUTSIDE: Result<&str, &str> = Err("path_not_in_workspace");
const INVALID: Result<&str, &str> = Err("invalid_path");

#[test]
fn paths_inside_are_resolved() {
    let (_dir, root) = place(&[("work/a/file", "")]);
    let check = |path: &str, expected| check(&root, path, expected);
    check("a/file", Ok("work/a/file"));
    check("./a//./file", Ok("work/a/file"));
    check("a/../a/file", Ok("work/a/file"));
    check("", Ok("work"));
    check(".", Ok("work"));
    check("a/..", Ok("work"));
    check("../work/a", Ok("work/a"));
    check(&root.join("work/a/file").display().to_string(), Ok("work/a/file"));
    check("new", Ok("work/new"));
    check("new/deep/er", Ok("work/new/deep/er"));
    check("new/", Ok("work/new"));
    check("a/new/.", Ok("work/a/new"));
    check("...", Ok("work/..."));
    check("~", Ok("work/~"));
}

#[test]
fn paths_outside_are_not() {
    let (_dir, root) = place(&[("work/a/file", ""), ("work-2/file", "")]);
    let check = |path: &str, expected| check(&root, path, expected);
    check("..", OUTSIDE);
    check("../outside", OUTSIDE);
    check("a/../..", OUTSIDE);
    check("a/../../x", OUTSIDE);
    check("../work-2/file", OUTSIDE);
    check("/", OUTSIDE);
    check("/etc/passwd", OUTSIDE);
    check("../../../../../../../../../../etc/passwd", OUTSIDE);
    check("../new", OUTSIDE);
}

#[test]
fn paths_that_make_no_sense_are_refused() {
    let (_dir, root) = place(&[("work/file", "")]);
    let check = |path: &str, expected| check(&root, path, expected);
    check("a\0b", INVALID);
    check("\0", INVALID);
    check("missing/../file", INVALID);
    check("missing/../../outside", INVALID);
    check("file/below", INVALID);
    check("file/..", INVALID);
    check(&"x".repeat(5000), INVALID);
    check(&"x/".repeat(5000), INVALID);
    check(&"x/".repeat(5_000_000), INVALID);
}

#[test]
fn links_count_for_what_they_lead_to() {
    let (_dir, root) = place(&[("work/a/file", ""), ("outside/o", "")]);
    let work = root.join("work");
    symlink("a", work.join("in")).unwrap();
    symlink("a/new", work.join("dangling-in")).unwrap();
    symlink("../outside", work.join("out")).unwrap();
    symlink(root.join("outside/o"), work.join("out-file")).unwrap();
    symlink("../outside/new", work.join("dangling")).unwrap();
    symlink("dangling", work.join("to-dangling")).unwrap();
    symlink("nowhere/../../outside/new", work.join("dangling-up")).unwrap();
    symlink("in/../..", work.join("up")).unwrap();
    symlink("../work/a", work.join("out-and-back")).unwrap();
    let check = |path: &str, expected| check(&root, path, expected);
    check("in", Ok("work/a"));
    check("in/file", Ok("work/a/file"));
    check("in/new", Ok("work/a/new"));
    check("in/../a", Ok("work/a"));
    check("out-and-back/file", Ok("work/a/file"));
    check("dangling-in", Ok("work/a/new"));
    check("dangling-in/deeper", Ok("work/a/new/deeper"));
    check("out", OUTSIDE);
    check("out/o", OUTSIDE);
    check("out/new", OUTSIDE);
    check("out/../work/a", Ok("work/a"));
    check("out-file", OUTSIDE);
    check("up", OUTSIDE);
    check("up/work/a", Ok("work/a"));
    for path in ["dangling", "to-dangling", "dangling/new"] {
        check(path, OUTSIDE);
    }
    // `dangling` and `to-dangling` lead outside. With a trailing slash or dot, the system would follow the link when
    // it writes.
    for path in ["dangling/", "dangling/.", "dangling//", "to-dangling/./"] {
        check(path, OUTSIDE);
    }
    check("dangling-up", INVALID);
}

#[test]
fn links_that_lead_in_circles_are_refused() {
    let (_dir, root) = place(&[]);
    let work = root.join("work");
    symlink("self", work.join("self")).unwrap();
    symlink("b", work.join("a")).unwrap();
    symlink("a", work.join("b")).unwrap();
    symlink("below/x", work.join("below")).unwrap();
    symlink(".", work.join("here")).unwrap();
    for n in 0..100 {
        symlink(format!("chain{}", n + 1), work.join(format!("chain{n}"))).unwrap();
    }
    let check = |path: &str, expected| check(&root, path, expected);
    check("self", INVALID);
    check("self/x", INVALID);
    check("a", INVALID);
    check("below", INVALID);
    check("below/x/y", INVALID);
    check("here/here/here/new", Ok("work/new"));
    check("chain0", INVALID);
    check("chain90", Ok("work/chain100"));
}

#[test]
fn there_may_be_several_directories() {
    let (_dir, root) = place(&[("work/a", ""), ("outside/o", ""), ("third/t", "")]);
    symlink("outside", root.join("link")).unwrap();
    let more = [root.join("link"), root.join("work"), root.join("outside")];
    let workspace = Workspace::new(&root.join("work"), &more).unwrap();
    assert_eq!(workspace.roots(), [root.join("work"), root.join("outside")]);
    let resolve = |path: &str| workspace.resolve(path).map_err(|error| error.kind);
    assert_eq!(resolve("a").unwrap(), root.join("work/a"));
    assert_eq!(resolve("../outside/o").unwrap(), root.join("outside/o"));
    assert_eq!(resolve("../link/new").unwrap(), root.join("outside/new"));
    assert_eq!(resolve("../third/t").unwrap_err(), "path_not_in_workspace");
    assert_eq!(workspace.relative(&root.join("work")), ".");
    assert_eq!(workspace.relative(&root.join("work/a")), "a");
    let absolute = root.join("outside/o");
    assert_eq!(workspace.relative(&absolute), absolute.display().to_string());
    Workspace::new(&root.join("nope"), &[]).unwrap_err();
    Workspace::new(&root.join("work/a"), &[]).unwrap_err();
}

#[test]
fn names_need_not_be_utf_8() {
    let (_dir, root) = place(&[]);
    let work = root.join(OsStr::from_bytes(b"w\xff"));
    fs::create_dir_all(work.join("sub")).unwrap();
    fs::write(work.join("sub").join(OsStr::from_bytes(b"f\xff")), "").unwrap();
    fs::write(work.join(".gitignore"), "*.log\n").unwrap();
    let workspace = Workspace::new(&work, &[]).unwrap();
    assert_eq!(workspace.resolve("sub/x").unwrap(), work.join("sub/x"));
    assert_eq!(workspace.resolve("..").unwrap_err().kind, "path_not_in_workspace");
    assert_eq!(
        workspace.ignored_by(&work.join("sub/a.log"), Respect::GIT_AND_OWN),
        Some(".gitignore")
    );
    assert_eq!(workspace.walk(&work, Respect::GIT_AND_OWN).flatten().count(), 4);
}

/// Checks the rule that covers each path of the workspace `work`, and that a walk skips just these.
#[track_caller]
fn check_ignored(root: &Path, expected: &[(&str, Option<&str>)]) {
    let work = root.join("work");
    let workspace = Workspace::new(&work, &[]).unwrap();
    for respect in
        [Respect::GIT_AND_OWN, Respect { git: true, own: false }, Respect { git: false, own: true }]
    {
        let walked: Vec<_> = workspace.walk(&work, respect).flatten().collect();
        for (path, by) in expected {
            let path = work.join(path);
            let found = workspace.ignored_by(&path, respect);
            if respect == Respect::GIT_AND_OWN {
                assert_eq!(found, *by, "{}", path.display());
            }
            let met = walked.iter().any(|entry| entry.path() == path);
            assert_eq!(met, found.is_none(), "{} {respect:?}", path.display());
        }
    }
    let all = workspace.walk(&work, Respect { git: false, own: false }).flatten();
    let all: Vec<_> = all.map(WalkEntry::into_path).collect();
    for (path, _) in expected {
        assert!(all.contains(&work.join(path)), "{path}");
    }
}

const GIT: Option<&str> = Some(".gitignore");
const OWN: Option<&str> = Some(".geminiignore");
const EXCLUDE: Option<&str> = Some(".git/info/exclude");

#[test]
fn ignore_files_are_heeded_wherever_they_are() {
    let (_dir, root) = place(&[
        ("work/.git/info/exclude", "mine.txt\n*.bak\n"),
        (
            "work/.gitignore",
            "\u{feff}*.log\r\n/top\nbuild/\n!kept.log\n# c\n\\#x\n[\nnever.bak\n!yes.bak\n",
        ),
        ("work/.geminiignore", "secret\n!wanted.log\n*.key\n"),
        ("work/sub/.gitignore", "!again.log\n*.tmp\n"),
        ("work/sub/.geminiignore", "!public.key\n"),
        ("work/build/.gitignore", "!*\n"),
        ("work/build/x", ""),
        ("work/a.log", ""),
        ("work/kept.log", ""),
        ("work/wanted.log", ""),
        ("work/top", ""),
        ("work/a.tmp", ""),
        ("work/mine.txt", ""),
        ("work/never.bak", ""),
        ("work/yes.bak", ""),
        ("work/#x", ""),
        ("work/secret/deep/file", ""),
        ("work/sub/a.log", ""),
        ("work/sub/again.log", ""),
        ("work/sub/top", ""),
        ("work/sub/a.tmp", ""),
        ("work/sub/mine.txt", ""),
        ("work/sub/a.key", ""),
        ("work/sub/public.key", ""),
        ("work/sub/deep/a.tmp", ""),
    ]);
    check_ignored(
        &root,
        &[
            ("a.log", GIT),
            ("kept.log", None),
            ("wanted.log", None),
            ("top", GIT),
            ("a.tmp", None),
            ("#x", GIT),
            ("build", GIT),
            // A rule cannot take back a file whose directory is ignored, as in git.
            ("build/x", GIT),
            ("mine.txt", EXCLUDE),
            ("never.bak", GIT),
            ("yes.bak", None),
            ("secret", OWN),
            ("secret/deep/file", OWN),
            ("sub", None),
            ("sub/a.log", GIT),
            ("sub/again.log", None),
            ("sub/top", None),
            ("sub/a.tmp", GIT),
            ("sub/mine.txt", EXCLUDE),
            ("sub/a.key", OWN),
            ("sub/public.key", None),
            ("sub/deep/a.tmp", GIT),
        ],
    );
}

#[test]
fn rules_of_the_repository_above_count() {
    let files = [
        (".git/info/exclude", "*.bak\n"),
        (".gitignore", "*.log\n"),
        (".geminiignore", "*.txt\n"),
        ("work/a.log", ""),
        ("work/a.bak", ""),
        ("work/a.txt", ""),
    ];
    let (_dir, root) = place(&files);
    check_ignored(&root, &[("a.log", GIT), ("a.bak", EXCLUDE), ("a.txt", None)]);
    // If the workspace itself is ignored, the rules above it do not count: the user works in this directory.
    fs::write(root.join(".gitignore"), "*.log\nwork\n").unwrap();
    check_ignored(&root, &[("a.log", None), ("a.bak", None), ("a.txt", None)]);
    fs::write(root.join(".gitignore"), "*\n").unwrap();
    check_ignored(&root, &[("a.log", None), ("a.bak", None), ("a.txt", None)]);
    // Without a repository, the rules of directories above the workspace do not count.
    let (_dir, root) = place(&files[1..]);
    check_ignored(&root, &[("a.log", None), ("a.bak", None), ("a.txt", None)]);
}

#[test]
fn a_repository_within_has_rules_of_its_own() {
    let (_dir, root) = place(&[
        ("work/.git/HEAD", ""),
        ("work/.gitignore", "*.log\n"),
        ("work/.geminiignore", "*.key\n"),
        ("work/inner/.git/info/exclude", "*.bak\n"),
        ("work/inner/.gitignore", "*.tmp\n"),
        ("work/inner/a.log", ""),
        ("work/inner/a.bak", ""),
        ("work/inner/a.tmp", ""),
        ("work/inner/a.key", ""),
        ("work/a.bak", ""),
        // A worktree of a repository whose git directory is outside the workspace.
        ("work/tree/.git", "gitdir: ../../outside/repo/worktrees/tree\n"),
        ("outside/repo/worktrees/tree/commondir", "../..\n"),
        ("outside/repo/info/exclude", "*.tree\n"),
        ("work/tree/a.tree", ""),
        ("work/tree/a.log", ""),
    ]);
    check_ignored(
        &root,
        &[
            ("inner/a.log", None),
            ("inner/a.bak", EXCLUDE),
            ("inner/a.tmp", GIT),
            ("inner/a.key", OWN),
            ("a.bak", None),
            ("tree/a.tree", EXCLUDE),
            ("tree/a.log", None),
        ],
    );
}

#[test]
fn an_ignore_file_may_be_anything() {
    let (_dir, root) =
        place(&[("work/a", ""), ("work/big/a", ""), ("work/odd/a", ""), ("work/odd/b", "")]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("work/.gitignore"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    fs::create_dir(root.join("work/.geminiignore")).unwrap();
    fs::write(root.join("work/big/.gitignore"), "a\n".repeat(1 << 20)).unwrap();
    fs::write(root.join("work/odd/.gitignore"), b"\xff\xfe\na\n").unwrap();
    symlink("/dev/zero", root.join("work/odd/.geminiignore")).unwrap();
    check_ignored(&root, &[("a", None), ("big/a", None), ("odd/a", GIT), ("odd/b", None)]);
}

#[test]
fn a_directory_within_another_may_be_one_of_the_workspace() {
    let (_dir, root) = place(&[
        ("work/.geminiignore", "*.key\n"),
        ("work/.gitignore", "vendor\n"),
        ("work/vendor/lib/a.key", ""),
        ("work/sub/a.key", ""),
    ]);
    let work = root.join("work");
    let more = [work.join("sub"), work.join("vendor/lib")];
    let workspace = Workspace::new(&work, &more).unwrap();
    assert_eq!(workspace.trees().collect::<Vec<_>>(), [&work]);
    let ignored_by = |path| workspace.ignored_by(&work.join(path), Respect::GIT_AND_OWN);
    assert_eq!(ignored_by("sub/a.key"), OWN);
    assert_eq!(ignored_by("vendor"), GIT);
    // `work/.gitignore` covers `vendor`, but the user named `vendor/lib` as a root. The ignore rules of `work` then
    // do not apply to files in `vendor/lib`.
    assert_eq!(ignored_by("vendor/lib/a.key"), None);
}

#[test]
fn walks_do_not_leave_the_workspace() {
    let (_dir, root) = place(&[("work/a/file", ""), ("outside/o", ""), ("work/.git/x", "")]);
    let work = root.join("work");
    symlink("../outside", work.join("out")).unwrap();
    symlink("../../outside/o", work.join("a/out")).unwrap();
    symlink("nowhere", work.join("dangling")).unwrap();
    symlink("loop", work.join("loop")).unwrap();
    symlink("..", work.join("a/up")).unwrap();
    symlink("a", work.join("in")).unwrap();
    let workspace = Workspace::new(&work, &[]).unwrap();
    let walked = workspace.walk(&work, Respect::GIT_AND_OWN).flatten();
    let mut walked: Vec<_> = walked.map(|entry| workspace.relative(entry.path())).collect();
    walked.sort();
    assert_eq!(walked, [".", "a", "a/file", "a/up", "in"]);
}
