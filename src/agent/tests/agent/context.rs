//! A project with instruction files in every place, and the instructions that the model gets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use expect_test::{expect, expect_file};
use serde_json::json;
use tandem_agent::session::{Event, Memory, Origin, Parts, Places, PromptPart, Session};
use tandem_host::ToolLimits;
use tandem_host::workspace::{IgnoreSettings, Workspace};
use tandem_model::{Call, Chunk};
use tandem_tools as tools;
use tempfile::TempDir;

use test_fakes::{Spy, host, host_with, is_end, parts, text, until};

const NESTED: &str = include_str!("../../../../fixtures/context/nested.txt");

/// Writes the files that a fixture describes.
fn write_files(fixture: &str, home: &Path) {
    for file in fixture.split("== ").skip(1) {
        let (name, content) = file.split_once('\n').unwrap();
        let path = home.join(name);
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
            continue;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Returns two answers: reading these files, and a text.
fn reads(files: &[&str]) -> Vec<Vec<Result<Chunk, tandem_model::Error>>> {
    let read = |file: &&str| {
        let args = json!({ "file_path": file });
        let call = Call { id: (*file).to_owned(), name: "read_file".to_owned(), args };
        vec![Ok(Chunk::Call(call))]
    };
    let mut answers: Vec<_> = files.iter().map(read).collect();
    answers.push(vec![Ok(Chunk::Text("I see.".to_owned()))]);
    answers
}

async fn turn(session: &Arc<Session>, prompt: Vec<PromptPart>) -> Vec<Arc<Event>> {
    let mut log = session.events(session.position());
    session.prompt(prompt, Origin::Editor);
    until(&mut log, is_end).await
}

/// Returns the notices among events.
fn notices(events: &[Arc<Event>]) -> Vec<String> {
    let notice = |event: &Arc<Event>| match &**event {
        Event::Notice(notice) => Some(notice.clone()),
        _ => None,
    };
    events.iter().filter_map(notice).collect()
}

#[tokio::test]
async fn the_model_is_sent_what_is_written_in_every_place() {
    let home = TempDir::new().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    write_files(NESTED, &home);
    let answers = [
        reads(&["sub/other.rs", "sub/deep/code.rs", "sub/deep/code.rs", "other/thing.rs"]),
        reads(&["sub/deep/code.rs", "hidden/x.txt"]),
    ];
    let (spy, told) = Spy::new(answers.concat());
    let places = Places {
        user: vec![home.join(".gemini"), home.join(".config/tandem")],
        home: Some(home.clone()),
        ..Places::default()
    };
    let session = Session::new(Parts {
        tools: tools::all(),
        host: host(&home.join("repo/work")),
        memory: Memory::new(places, || Box::new(|_| true)),
        ..parts(Arc::clone(&spy) as _)
    });
    let events = turn(&session, text("What is in it?")).await;
    fs::write(home.join("repo/work/sub/GEMINI.md"), "The new rules for sub.\n").unwrap();
    fs::remove_file(home.join("repo/work/other/GEMINI.md")).unwrap();
    turn(&session, text("And now?")).await;

    assert_eq!(notices(&events), [""; 0]);
    let system = spy.system.lock().unwrap().clone();
    let written = system.split_once("\n# What the user and the project").unwrap().1;
    let told = told.lock().unwrap().join("\n\n");
    let sent = format!(
        "# What the user and the project{written}
{told}
"
    );
    let sent = sent.replace(&home.display().to_string(), "/home/me");
    expect_file!["../../../../fixtures/context/nested.sent.txt"].assert_eq(&sent);
}

#[tokio::test]
async fn the_model_is_told_once_what_is_in_the_workspace() {
    let dir = TempDir::new().unwrap();
    for (most, told) in [(200, true), (0, false)] {
        fs::write(dir.path().join("first.txt"), "").unwrap();
        let (spy, _) = Spy::new([reads(&[]), reads(&[])].concat());
        let mut parts = parts(Arc::clone(&spy) as _);
        parts.host = host(dir.path());
        parts.host.limits.tree_entries = most;
        let session = Session::new(parts);
        turn(&session, text("Hello.")).await;
        let before = spy.system.lock().unwrap().clone();
        fs::remove_file(dir.path().join("first.txt")).unwrap();
        turn(&session, text("Again.")).await;
        assert_eq!(*spy.system.lock().unwrap(), before);
        assert_eq!(before.contains("\nfirst.txt\n"), told, "{before}");
    }
}

#[tokio::test]
async fn the_model_is_told_no_name_of_a_file_in_a_distrusted_folder() {
    let dir = TempDir::new().unwrap();
    let dir = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir_all(dir.join("theirs/below")).unwrap();
    for file in ["own.txt", "theirs/do-as-i-say.txt", "theirs/below/at-once.txt"] {
        fs::write(dir.join(file), "").unwrap();
    }
    for (distrusted, expected) in
        [(dir.join("theirs"), "\nown.txt\ntheirs/\n  …\n"), (dir.clone(), "more):\n…\n")]
    {
        let (spy, _) = Spy::new(reads(&[]));
        let session = Session::new(Parts {
            host: host(&dir),
            memory: Memory::new(Places::default(), move || {
                let distrusted = distrusted.clone();
                Box::new(move |folder| !folder.starts_with(&distrusted))
            }),
            ..parts(Arc::clone(&spy) as _)
        });
        turn(&session, text("Hello.")).await;
        let system = spy.system.lock().unwrap().clone();
        assert!(system.ends_with(expected), "{system}");
    }
}

#[tokio::test]
async fn the_model_is_told_the_day_on_which_the_conversation_began() {
    let day = Arc::new(std::sync::atomic::AtomicI8::new(3));
    let today = Arc::clone(&day);
    let (spy, _) = Spy::new([reads(&[]), reads(&[]), reads(&[])].concat());
    let dir = TempDir::new().unwrap();
    let mut parts = parts(Arc::clone(&spy) as _);
    parts.host = host(dir.path());
    parts.today = Arc::new(move || {
        jiff::civil::date(2026, 2, today.load(std::sync::atomic::Ordering::Relaxed))
    });
    let session = Session::new(parts);
    for (prompt, expected) in
        [("one", "Tuesday, 2026-02-03."), ("two", "Tuesday, 2026-02-03."), ("/clear", "")]
    {
        turn(&session, text(prompt)).await;
        let system = spy.system.lock().unwrap().clone();
        let told =
            system.contains(&format!("\n- Date when the conversation began, in UTC: {expected}"));
        assert!(told, "{system}");
        day.store(4, std::sync::atomic::Ordering::Relaxed);
    }
    // After `/clear` another conversation begins, with the new date.
    turn(&session, text("three")).await;
    assert!(spy.system.lock().unwrap().contains("Wednesday, 2026-02-04.\n"));
}

#[tokio::test]
async fn the_rules_are_these() {
    let (spy, _) = Spy::new(reads(&[]));
    let mut parts = parts(Arc::clone(&spy) as _);
    parts.host.limits.tree_entries = 0;
    turn(&Session::new(parts), text("Hello.")).await;
    let system = spy.system.lock().unwrap().clone();
    let rules = system.split_once("# Where you are").unwrap().0;
    expect_file!["../../../../fixtures/context/rules.txt"].assert_eq(rules);
}

#[test]
fn the_files_nearest_to_the_roots_are_named_first() {
    let dir = TempDir::new().unwrap();
    let dir = fs::canonicalize(dir.path()).unwrap();
    let files = [
        ".gitignore",
        ".git/config",
        "b.txt",
        "a/one.rs",
        "a/deep/two.rs",
        "a/deep/er/three.rs",
        "target/debug",
        "node_modules/x/index.js",
        "line\nbreak",
        "z/empty",
    ];
    for file in files {
        fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
        fs::write(dir.join(file), "").unwrap();
    }
    fs::write(dir.join(".gitignore"), "target\n/node_modules\n").unwrap();
    fs::remove_file(dir.join("z/empty")).unwrap();
    symlink(&dir, dir.join("a/around")).unwrap();
    let tree = |most| Workspace::new(&dir, &[]).unwrap().tree(most, |_| true);
    expect![[r"
        .gitignore
        a/
          around
          deep/
            er/
              three.rs
            two.rs
          one.rs
        b.txt
        line break
        z/
    "]]
    .assert_eq(&tree(200));
    expect![[r"
        .gitignore
        a/
          around
          deep/
            …
          …
        b.txt
        line break
        z/
          …
    "]]
    .assert_eq(&tree(7));

    let more = TempDir::new().unwrap();
    for n in 0..100 {
        fs::write(more.path().join(format!("{n:03}")), "").unwrap();
    }
    let more = fs::canonicalize(more.path()).unwrap();
    let both = Workspace::new(&dir, std::slice::from_ref(&more)).unwrap().tree(200, |_| true);
    assert!(both.starts_with(&format!("{}:\n.gitignore\n", dir.display())), "{both}");
    assert!(both.ends_with("\n058\n059\n…\n"), "{both}");
}

/// Sends a prompt in a project with these files. Returns what the model and people are told.
async fn mentioned(files: &[(&str, &str)], prompt: Vec<PromptPart>) -> (String, Vec<String>) {
    mentioned_at(files, |_| prompt).await
}

/// Sends a prompt as [`mentioned`] does, which may name the project's directory. In the texts, the home is `~`.
async fn mentioned_at(
    files: &[(&str, &str)],
    prompt: impl FnOnce(&str) -> Vec<PromptPart>,
) -> (String, Vec<String>) {
    let home = TempDir::new().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    let root = home.join("work");
    fs::create_dir(&root).unwrap();
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let (spy, told) = Spy::new(vec![vec![Ok(Chunk::Text("I see.".to_owned()))]]);
    let filtering =
        IgnoreSettings { more: vec!["named.ignore".into()], ..IgnoreSettings::default() };
    let workspace = Workspace::new(&root, &[]).unwrap().filtered(filtering);
    let parts = parts(spy);
    let host = host_with(workspace, ToolLimits::default());
    let parts = Parts { tools: tools::all(), host, ..parts };
    let events = turn(&Session::new(parts), prompt(root.to_str().unwrap())).await;
    let home = home.display().to_string();
    let told = told.lock().unwrap().concat().replace(&home, "~");
    (told, notices(&events).iter().map(|notice| notice.replace(&home, "~")).collect())
}

#[track_caller]
fn said<'a>(told: &'a str, prompt: &str) -> Vec<&'a str> {
    let rest = told.strip_prefix(&format!("user: {prompt}"));
    let rest = rest.unwrap_or_else(|| panic!("{told}"));
    let heading = "\n\n--- Content from referenced files ---\n";
    rest.strip_prefix(heading)
        .map_or(vec![], |rest| rest.lines().filter(|line| !line.is_empty()).collect())
}

#[tokio::test]
async fn what_a_prompt_mentions_goes_with_it_and_the_prompt_stays_as_it_is() {
    let files = [
        ("src/a.rs", "fn a() {}"),
        ("my file.txt", "spaces"),
        ("docs/one.md", "one"),
        ("docs/two.md", "two"),
        ("lib/deep/parser.rs", "fn parse() {}"),
        ("shot.png", "\u{89}PNG\r\n\u{1a}\n\0"),
    ];
    let prompt =
        "Compare @src/a.rs, @my\\ file.txt and @docs with @parser.rs. See @shot.png @src/a.rs";
    let (told, notices) = mentioned(&files, text(prompt)).await;
    assert_eq!(notices, [""; 0]);
    let lines = said(&told, prompt);
    let names: Vec<_> = lines.iter().filter(|line| line.starts_with("---")).collect();
    assert_eq!(
        names,
        [
            &"--- lib/deep/parser.rs ---",
            &"--- my file.txt ---",
            &"--- shot.png ---",
            &"--- src/a.rs ---",
            &"--- docs/one.md ---",
            &"--- docs/two.md ---",
            &"--- End of content ---[media]"
        ]
    );
    assert!(
        lines.contains(&"     1\tfn parse() {}") && lines.contains(&"     1\tspaces"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_path_in_quotes_and_a_pattern_are_mentions() {
    let files = [
        (".gitignore", "dir/ignored.txt\n"),
        ("a file.txt", "spaces"),
        ("dir/one.txt", "1"),
        ("dir/two.txt", "2"),
        ("dir/three.md", "3"),
        ("dir/ignored.txt", "4"),
        ("app/[id]/page.ts", "5"),
    ];
    let check = async |prompt: &str, expected: &[&str]| {
        let (told, notices) = mentioned(&files, text(prompt)).await;
        let lines: Vec<_> = said(&told, prompt).into_iter().map(without_number).collect();
        assert_eq!(lines, expected, "{prompt}: {told}");
        assert_eq!(notices, [""; 0], "{prompt}");
    };
    let end = "--- End of content ---";
    check("see @\"a file.txt\".", &["--- a file.txt ---", "spaces", end]).await;
    let both = ["--- dir/one.txt ---", "1", "--- dir/two.txt ---", "2", end];
    check("see @dir/*.txt, please", &both).await;
    check("see @app/[id]/page.ts", &["--- app/[id]/page.ts ---", "5", end]).await;
    let none = ["No files were read.", "--- Not read ---", "dir/*.rs: no such file", end];
    check("see @dir/*.rs", &none).await;
    let (_, notices) = mentioned(&files, text("see @\"no file\" and @../*.txt")).await;
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(notices[0].starts_with("@no file: there is no such file"), "{notices:?}");
    assert!(notices[1].starts_with("@../*.txt: outside the workspace"), "{notices:?}");
}

#[tokio::test]
async fn more_mentions_than_are_looked_up_are_said() {
    let prompt: String = (0..103).map(|n| format!("@{n}.txt ")).collect();
    let (told, notices) = mentioned(&[("0.txt", "zero")], text(&prompt)).await;
    let over = "3 more mentions are not looked up: only the first 100 of a prompt are";
    assert_eq!(notices.last().unwrap(), over);
    assert!(told.contains(&format!("\n{over}\n")) && told.contains("zero"), "{told}");
}

#[tokio::test]
async fn what_is_no_file_stays_text() {
    let files = [("src/component.rs", "x"), ("a.rs", "a"), ("property.rs", "p")];
    for prompt in [
        "mail me@there.org or ask @property about @component",
        "from '@/components' and @types/node, @https://x.org/a.rs",
        "```py\n@a.rs\n```\n`@a.rs`",
        "@ @@ @.",
    ] {
        let (told, notices) = mentioned(&files, text(prompt)).await;
        assert_eq!((said(&told, prompt), notices), (vec![], vec![]), "{prompt}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_said_and_stays_text() {
    let files = [
        (".gitignore", "build/\nnotes.txt\n"),
        (".geminiignore", "secret.txt\n!notes.txt\n"),
        ("named.ignore", "named.txt\n!build/\n!secret-but.txt\n"),
        ("build/out.txt", "built"),
        ("notes.txt", "noted"),
        ("secret.txt", "s"),
        ("named.txt", "n"),
    ];
    let check = async |prompt: &str, notice: &str| {
        let (told, notices) = mentioned(&files, text(prompt)).await;
        let [said] = &notices[..] else { panic!("{notices:?}") };
        assert!(said.contains(notice), "{said}");
        assert_eq!(told, format!("user: {prompt}\n\n--- Mentioned and not read ---\n{said}\n"));
    };
    check("see @secret.txt", "@secret.txt: not read, because it is ignored by .geminiignore").await;
    check("see @named.txt", "ignored by an ignore file that is named in the settings").await;
    check("see @src/mian.rs", "@src/mian.rs: there is no such file in the workspace").await;
    check("see @../x.txt", "@../x.txt: there is no such file").await;
    check("see @/proc/version", "is outside the workspace").await;
    // `.geminiignore` takes `notes.txt` back from git's rules. So does `named.ignore`, which the settings name, with
    // `build/`.
    let (told, notices) = mentioned(&files, text("@build/out.txt @notes.txt")).await;
    assert_eq!(notices, [""; 0]);
    assert!(told.contains("built") && told.contains("noted"), "{told}");
}

#[tokio::test]
async fn what_came_on_standard_input_mentions_nothing() {
    let input = PromptPart::Input("diff @a.rs\n\n".to_owned());
    let parts = vec![input, PromptPart::Text("look at @b.rs".to_owned())];
    let (told, _) = mentioned(&[("a.rs", "fn a"), ("b.rs", "fn b")], parts).await;
    assert!(told.contains("fn b") && !told.contains("fn a"), "{told}");
}

/// Returns a line that was read without its number.
fn without_number(line: &str) -> String {
    line.split_once('\t').map_or(line, |(_, line)| line).to_owned()
}

/// Returns the lines that are read of a four-line file with this mention, and the notices. `~` is the directory of
/// the workspace.
async fn read_of(mention: &str) -> (Vec<String>, Vec<String>) {
    let files = [("r.md", "one\ntwo\nthree\nfour\n"), ("a#b?.md", "odd\n"), ("c.md#L1", "real\n")];
    let (told, notices) = mentioned_at(&files, |root| {
        vec![PromptPart::Text("see ".to_owned()), PromptPart::Path(mention.replace('~', root))]
    })
    .await;
    let prompt = format!("see @{}", mention.replace('~', "~/work"));
    let lines = said(&told, &prompt).into_iter();
    let lines = lines.filter(|line| *line != "--- End of content ---").map(without_number);
    (lines.collect(), notices)
}

#[tokio::test]
async fn a_selection_and_a_symbol_are_the_lines_they_name() {
    let check = async |mention: &str, expected: &[&str]| {
        let (lines, notices) = read_of(mention).await;
        assert_eq!(lines, expected, "{mention}");
        assert_eq!(notices, [""; 0], "{mention}");
    };
    let two = ["--- r.md, lines 2-3 of 4 ---", "two", "three"];
    check("file://~/r.md#L2:3", &two).await;
    check("file://~/r.md?symbol=x%3F#L2:3", &two).await;
    check("file://~/r.md#L2-L3", &two).await;
    check("zed:///agent/symbol/x?path=~/r.md#L2:3", &two).await;
    check("r.md#L2:3", &two).await;
    check("file://~/r.md#L4", &["--- r.md, lines 4-4 of 4 ---", "four"]).await;
    check("file://~/r.md#L3:99", &["--- r.md, lines 3-4 of 4 ---", "three", "four"]).await;
    let whole = ["--- r.md ---", "one", "two", "three", "four"];
    check("file://~/r.md", &whole).await;
    check("file://~/r.md#intro", &whole).await;
    check("file://~/a%23b%3F.md", &["--- a#b?.md ---", "odd"]).await;
    check("file://~/a%23b%3F.md#L1:1", &["--- a#b?.md, lines 1-1 of 1 ---", "odd"]).await;
    check("a#b?.md", &["--- a#b?.md ---", "odd"]).await;
    check("c.md#L1", &["--- c.md#L1 ---", "real"]).await;
}

#[tokio::test]
async fn a_mention_that_names_nothing_reads_nothing() {
    for mention in ["", "file://", "file://localhost", "#L1:2", "zed:///agent/thread/1?name=x"] {
        let (lines, notices) = read_of(mention).await;
        assert_eq!((lines, notices), (vec![], vec![format!("@{mention}: it names no file")]));
    }
    let (lines, notices) = read_of("file://~/r.md#L7:9").await;
    assert_eq!(notices, [""; 0]);
    expect![[r#"
        No files were read.
        --- Not read ---
        r.md: it has 4 lines; there is no line 7"#]]
    .assert_eq(&lines.join("\n"));
}
