//! Calls that an earlier "always" does not cover.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tandem_approval::{Environment, Mode, Scope, Verdict};

use super::questions::{SHELL, Session, commands, question};

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
    session.permissions.set_mode(Mode::AutoEdit).unwrap();
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

/// Checks that the narrowest "always" for a line allows the lines `passes`, and not the lines `asks`.
fn check_scope(mode: Mode, line: &str, passes: &[&str], asks: &[&str]) {
    let session = Session::new(mode);
    let narrowest = question(session.run(line)).scopes.swap_remove(0);
    session.permissions.allow(narrowest);
    for line in [&[line], passes].concat() {
        assert_eq!(session.run(line), Verdict::Allow, "{line}");
    }
    for line in asks {
        assert!(matches!(session.run(line), Verdict::Ask(_)), "{line}");
    }
    session.permissions.set_mode(Mode::Plan).unwrap();
    assert!(matches!(session.run(line), Verdict::Deny { .. }), "{line}");
}

#[test]
fn always_covers_the_same_and_nothing_wider() {
    use Mode::{AutoEdit, Default};
    check_scope(
        Default,
        "cargo test",
        &[
            "cargo test --release",
            "cd src && cargo test | tail",
            "RUST_BACKTRACE=1 timeout 60 cargo test 2>&1",
            "bash -c 'cargo test'",
            "ls && cargo test",
        ],
        &[
            "cargo build",
            "cargo",
            "cargo test > out.txt",
            "cargo test; sleep 1",
            "cargo test $(sleep 1)",
            "cargo test < /etc/passwd | tee /etc/x",
            "PATH=. cargo test",
            "sudo cargo test",
            "./cargo test",
            "cargo test > .git/config",
            "cargo test | sh",
            "cargo() { ls; }; cargo test",
        ],
    );
    check_scope(Default, "git push", &["git push origin main"], &["git push -f", "git pull"]);
    check_scope(Default, "rm x", &["rm y"], &["rm -r y", "rm $X", "rm ../x", "rm .git/config"]);
    check_scope(Default, "npm run build", &["npm run build -- -w"], &["npm run x", "npm install"]);
    let others = ["./build.sh x", "build.sh", "src/build.sh", "./other.sh"];
    check_scope(Default, "./build.sh", &[], &others);
    let others = ["python app.py x", "python b.py", "python -c 1"];
    check_scope(Default, "python app.py", &[], &others);
    let others = ["git commit --no-verify", "git commit -n -m x", "git commit --no-verif"];
    check_scope(Default, "git commit -m x", &["git commit", "git commit -a -m y"], &others);
    check_scope(Default, "git push", &["git push origin"], &["git push --no-verify"]);
    check_scope(Default, "git merge x", &["git merge y"], &["git merge --no-verify x"]);
    check_scope(Default, "echo x > out.txt", &["echo x > y"], &["cat x > y", "echo > .env"]);
    check_scope(Default, "cargo run > out.txt", &["cargo run"], &["cargo test > out.txt"]);
    check_scope(AutoEdit, "cargo run > out.txt", &["cargo run"], &["cargo test > out.txt"]);
    check_scope(Default, "cat /etc/hosts", &["cat /etc/passwd"], &["head /etc/hosts", "cat > x"]);
    check_scope(Default, "sed s/a/b/ x", &["sed s/c/d/ x"], &["sed -i s/a/b/ x", "sed e x"]);
    check_scope(
        Default,
        "make && ./a.out",
        &["make", "./a.out; make"],
        &["make install", "./b.out"],
    );
}

#[test]
fn broader_scopes_cover_more_but_not_what_is_grave() {
    let session = Session::new(Mode::Default);
    session.permissions.allow(Scope::Tool(SHELL.to_owned()));
    assert_eq!(session.run("cargo test && ./x > out.txt"), Verdict::Allow);
    question(session.run("rm -rf x"));
    question(session.run("ls '"));

    let session = Session::new(Mode::Default);
    session.permissions.allow(Scope::Edits);
    assert_eq!(session.run("echo x > out.txt"), Verdict::Allow);
    assert_eq!(session.edit("src/main.rs"), Verdict::Allow);
    question(session.run("cargo test > out.txt"));
    question(session.run("echo x > package.json"));
    question(session.edit("package.json"));
    session.permissions.allow(Scope::Tool("write_file".to_owned()));
    question(session.edit("package.json"));
}

#[test]
fn always_counts_as_long_as_what_is_run_stays_as_it_is() {
    for (file, line) in [
        ("Makefile", "make test"),
        ("package.json", "npm test"),
        ("package.json", "cd src && npm run build"),
        ("justfile", "just all"),
        ("Rakefile", "bundle exec rake all"),
        ("run.sh", "./run.sh"),
        ("src/run.sh", "cd src && bash run.sh"),
        ("app.py", "python app.py x"),
    ] {
        let narrow = question(Session::new(Mode::Default).run(line)).scopes;
        // The last scope is for every call of the tool, and names no file.
        for at in 0..narrow.len() - 1 {
            let session = Session::new(Mode::Default);
            let write = |text: &str| fs::write(session.workspace.root.join(file), text).unwrap();
            write("one");
            let scope = question(session.run(line)).scopes.swap_remove(at);
            let name = file.rsplit('/').next().unwrap();
            assert!(scope.to_string().contains(&format!("(with `{name}` as now)")), "{scope}");
            session.permissions.allow(scope.clone());
            assert_eq!(session.run(line), Verdict::Allow, "{line}: {scope}");
            write("two");
            question(session.run(line));
            write("one");
            assert_eq!(session.run(line), Verdict::Allow, "{line}: {scope}");
        }
    }
    let session = Session::new(Mode::Default);
    for line in ["make", "cd src && npm test"] {
        session.permissions.allow(question(session.run(line)).scopes.swap_remove(0));
        assert_eq!(session.run(line), Verdict::Allow, "{line}");
    }
    // The new files decide which commands `make` and `npm test` run, so the earlier "always" no longer covers the
    // two lines.
    for file in ["GNUmakefile", "src/package.json"] {
        fs::write(session.workspace.root.join(file), "").unwrap();
    }
    question(session.run("make"));
    question(session.run("cd src && npm test"));
}

#[test]
fn where_it_is_not_known_what_is_run_the_question_says_so() {
    let session = Session::new(Mode::Default);
    fs::write(session.workspace.root.join("Makefile"), vec![b'#'; 2_000_000]).unwrap();
    let check = |line: &str, names: Option<&str>| {
        let question = question(session.run(line));
        let says = names.map(|names| {
            format!(
                "; after an \"always\", {names} runs without a question even if files of the workspace change \
                 what it does"
            )
        });
        let said = question.why.find("; after an").map(|at| question.why[at..].to_owned());
        assert_eq!(said, says, "{line}");
    };
    check("cargo test", Some("`cargo test`"));
    check("cargo test; pytest -q", Some("`cargo test`, `pytest`"));
    check("make", Some("`make`"));
    check("npm --prefix src test", Some("`npm --prefix src test`"));
    for line in ["npm test", "cargo add x", "sleep 1", "git commit", "rm -rf x; cargo test"] {
        check(line, None);
    }
}

/// Returns the first scope that the question about a line offers and for which `is` returns `true`.
fn offered(session: &Session, line: &str, is: impl Fn(&Scope) -> bool) -> Option<Scope> {
    question(session.run(line)).scopes.into_iter().find(is)
}

#[test]
fn always_can_mean_one_line_and_no_other() {
    let session = Session::new(Mode::Default);
    let line = "cargo test > out.txt; make";
    let scope = offered(&session, line, |scope| matches!(scope, Scope::Line { .. }));
    session.permissions.allow(scope.unwrap());
    assert_eq!(session.run(line), Verdict::Allow);
    for line in
        ["cargo test > out.txt; make ", "make", "cargo test", "cargo test > out.txt; make x"]
    {
        question(session.run(line));
    }
    // `new` has become a link to another file, so the same line would now overwrite that file.
    let session = Session::new(Mode::Default);
    let (new, line) = (session.workspace.root.join("new"), "echo x > new");
    let scope = offered(&session, line, |scope| matches!(scope, Scope::Line { .. }));
    session.permissions.allow(scope.unwrap());
    assert_eq!(session.run(line), Verdict::Allow);
    symlink("/etc/passwd", new).unwrap();
    question(session.run(line));
}

#[test]
fn always_can_mean_a_whole_program_but_not_what_is_grave() {
    let session = Session::new(Mode::Default);
    let is_program = |scope: &Scope| matches!(scope, Scope::Programs(_));
    let scope = offered(&session, "git commit -m x; cargo build", is_program);
    let programs = Scope::Programs(vec!["git".to_owned(), "cargo".to_owned()]);
    assert_eq!(scope.as_ref(), Some(&programs));
    session.permissions.allow(programs);
    for line in ["git push", "cargo publish", "cd src && git stash"] {
        assert_eq!(session.run(line), Verdict::Allow, "{line}");
    }
    for line in ["git push --force", "git -C nested fetch", "cargo test > x", "./git push", "npm i"]
    {
        question(session.run(line));
    }
    // No "always" for the whole program is offered: a program such as `sleep` has no other sub-commands, and an
    // "always" for `python` would allow any program.
    for line in ["sleep 1", "python app.py", "npx x", "bash x.sh", "cargo test > x"] {
        assert_eq!(offered(&session, line, is_program), None, "{line}");
    }
    let other = offered(&session, "git -C nested fetch", is_program);
    assert_eq!(other, Some(Scope::Programs(vec!["git -C nested".to_owned()])));
}

#[test]
fn always_for_what_find_runs_covers_all_that_it_is_given() {
    let session = Session::new(Mode::Default);
    session.always(&["find -exec", "echo", "rm"]);
    assert_eq!(session.run("find . -exec echo {} +"), Verdict::Allow);
    // `+` ends the command of `-exec` only right after `{}`. Here `+` is an argument of `rm`.
    question(session.run("find src -exec rm + -rf sub \\;"));
    question(session.run("find src -exec echo + ';' -exec sort + -o README.md ';'"));
}

#[test]
fn always_for_a_program_does_not_cover_one_of_the_workspace_with_its_name() {
    let session = Session::new(Mode::Default);
    session.always(&["ls", "pytest"]);
    let directory = session.workspace.root.clone();
    session.permissions.allow(Scope::Line { line: "pytest -q".to_owned(), directory });
    let bin = session.workspace.root.join("venv/bin");
    fs::create_dir_all(&bin).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let environment = Environment::new([("PATH".into(), path.into())]);
    let run = |line: &str| session.run_in(&environment, line);
    for line in ["ls /etc", "pytest -q", "timeout 9 pytest"] {
        assert_eq!(run(line), Verdict::Allow, "{line}");
    }
    for name in ["ls", "pytest", "timeout"] {
        let path = bin.join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // `ls` would run without a question if the workspace had no program of this name. An "always" would allow the
    // workspace's program for good, so none is offered.
    for line in ["ls", "ls src", "timeout 9 pytest", "timeout 9 cat README.md"] {
        assert_eq!(question(run(line)).scopes, [], "{line}");
    }
    question(run("ls /etc"));
    let asked = question(run("pytest -q"));
    let own = bin.join("pytest").display().to_string();
    let tool = || Scope::Tool(SHELL.to_owned());
    assert_eq!(asked.scopes, [commands(&[&own]), tool()]);
    session.permissions.allow(asked.scopes[0].clone());
    assert_eq!(run("pytest -v"), Verdict::Allow);
    fs::remove_file(bin.join("pytest")).unwrap();
    assert_eq!(run("pytest -v"), Verdict::Allow);
}
