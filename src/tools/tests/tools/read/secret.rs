//! Tools that come upon files with secrets.

use expect_test::expect;
use serde_json::{Value, json};
use tandem_host::Access;

use super::{Project, tool_named};

/// Makes a workspace that is a home with all kinds of files.
fn home() -> Project {
    Project::new(&[
        (".env", "KEY=hush\n"),
        (".ssh/id_rsa", "hush\n"),
        (".aws/credentials", "hush\n"),
        (".config/gcloud/credentials.db", "hush\n"),
        (".config/gh/hosts.yml", "hush\n"),
        (".config/app/settings.ini", "hush hush\n"),
        (".mozilla/firefox/x/logins.json", "hush\n"),
        ("notes.txt", "hush\n"),
    ])
}

/// Returns the files that a call touches, and the number of locations that people are shown before
/// it runs.
fn touched(project: &Project, tool: &str, args: Value) -> (Vec<String>, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let cx = project.context();
    let invocation = runtime.block_on(tool_named(tool).prepare(args, &cx)).unwrap();
    let Access::ReadFiles { paths, .. } = invocation.access else { return (Vec::new(), 0) };
    let root = project.root();
    let names = paths.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string());
    (names.collect(), invocation.summary.locations.len())
}

#[test]
fn a_search_leaves_secrets_out_and_says_so() {
    let project = home();
    let told = project.call("grep_search", json!({ "pattern": "hush" })).told();
    expect![[r#"
        Found 2 matches for pattern "hush" in path ".":
        ---
        File: .config/app/settings.ini
        L1: hush hush
        ---
        File: notes.txt
        L1: hush
        ---
        (1 file(s) that may hold secrets were not searched; one that is named in dir_path is, once the user allows it.)"#]].assert_eq(&told);
}

#[test]
fn where_secrets_are_nothing_is_searched_before_it_is_allowed() {
    let project = home();
    for path in [".env", ".ssh", ".ssh/id_rsa"] {
        let args = json!({ "pattern": "hush", "dir_path": path });
        let (names, places) = touched(&project, "grep_search", args.clone());
        assert_eq!((names, places), (vec![path.to_owned()], 0));
        let told = project.call("grep_search", args).told();
        assert!(told.starts_with("Found 1 match"), "{told}");
    }
}

#[test]
fn many_files_are_read_without_the_secrets_among_them() {
    let project = home();
    let told = project.call("read_many_files", json!({ "include": ["."] })).told();
    expect![[r#"
        --- .config/app/settings.ini ---

             1	hush hush


        --- notes.txt ---

             1	hush


        --- Not read ---

        .env: may hold secrets: name it, and the user is asked

        --- End of content ---"#]]
    .assert_eq(&told);
    let (names, _) = touched(&project, "read_many_files", json!({ "include": [".env", "*.txt"] }));
    assert_eq!(names, [".env"]);
}

#[test]
fn what_is_in_a_directory_of_secrets_is_not_named() {
    let project = home();
    let found = project.call("glob", json!({ "pattern": "**/*" })).told();
    // The files may have the same time, by which `glob` sorts, so the test sorts them by name.
    let root = format!("{}/", project.root().display());
    let mut found: Vec<_> = found.lines().skip(1).map(|path| path.replace(&root, "")).collect();
    found.sort();
    assert_eq!(found, [".config/app/settings.ini", ".env", "notes.txt"]);
    let tree = project.context().host.workspace.tree(100, |_| true);
    expect![[r#"
        .aws/
          …
        .config/
          app/
            settings.ini
          gcloud/
            …
          gh/
            …
        .env
        .mozilla/
          …
        .ssh/
          …
        notes.txt
    "#]]
    .assert_eq(&tree);
}

#[test]
fn what_is_read_is_named_to_the_policy() {
    let project = home();
    let check = |tool: &str, args: Value, expected: &str| {
        assert_eq!(touched(&project, tool, args).0, [expected], "{tool}");
    };
    check("read_file", json!({ "file_path": ".env" }), ".env");
    check("read_file", json!({ "file_path": "notes.txt" }), "notes.txt");
    check("list_directory", json!({ "dir_path": ".ssh" }), ".ssh");
    check("glob", json!({ "pattern": "*", "dir_path": ".ssh" }), ".ssh");
    let absolute = project.root().join(".ssh/*").display().to_string();
    check("glob", json!({ "pattern": absolute }), ".ssh");
    // For a text that is not found, `replace` quotes similar lines of the file, so a secret file is refused.
    let change = json!({
        "file_path": ".env", "instruction": "x", "old_string": "KEY=loud", "new_string": "x",
    });
    check("replace", change, ".env");
}
