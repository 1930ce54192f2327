//! The user's own commands, with the real binary and an editor.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use expect_test::expect;
use serde_json::{Value, json};

use super::contains;
use crate::agent::{Agent, Setup, text};

/// Directories of commands, seen from the workspace.
const USER: &str = "../.gemini/commands/";
const OWN: &str = "../.config/tandem/commands/";
const PROJECT: &str = ".gemini/commands/";

/// Returns a model that says `heard` to a prompt with this text, and fails on any other prompt.
fn hears(said: &str) -> Setup {
    let line = json!({ "when": said, "answers": [[{ "text": "heard" }]] });
    Setup::script(vec![line.clone(), line.clone(), line])
}

impl Setup {
    /// Returns the setup with a folder that the user trusts.
    fn trusted(self) -> Self {
        self.var("GEMINI_CLI_TRUST_WORKSPACE", "true")
    }
}

/// Returns the messages of a turn, in which every question gets this answer.
async fn turn(agent: &mut Agent, prompt: &str, outcome: &str) -> Vec<Value> {
    let id = agent.prompt(prompt).await;
    let read = agent.until_answered(id, outcome).await;
    let failed = read.last().unwrap().get("error").is_some();
    assert!(!failed, "the model was told something else: {read:?}");
    read
}

/// Returns the text of a prompt's turn.
async fn says(agent: &mut Agent, prompt: &str) -> String {
    text(&turn(agent, prompt, "allow").await)
}

/// Returns whether a command without arguments is listed.
async fn has_command(agent: &mut Agent, name: &str) -> bool {
    says(agent, "/help").await.contains(&format!("`/{name}`"))
}

/// Returns the labels of the questions among these messages.
fn questions(read: &[Value]) -> Vec<String> {
    let asked = read.iter().filter(|it| it["method"] == "requestToolCallConfirmation");
    asked.map(|it| it["params"]["label"].as_str().unwrap().to_owned()).collect()
}

fn command(prompt: &str) -> String {
    format!("description = \"Does it. In detail.\"\nprompt = '''{prompt}'''\n")
}

#[tokio::test]
async fn a_file_is_a_command_and_a_directory_a_part_of_its_name() {
    let setup = hears("Write about <the bug> and <the bug>.").file(
        &format!("{USER}git/commit.toml"),
        &command("Write about <{{args}}> and <{{args}}>."),
    );
    let mut agent = setup.start();
    assert_eq!(says(&mut agent, "/git:commit the bug").await, "heard");
    let help = says(&mut agent, "/help").await;
    contains(&help, &["- `/git:commit [ARGS]`: Does it.\n"]);
    let list = says(&mut agent, "/commands").await;
    contains(&list, &["- `/git:commit [ARGS]`: Does it. (", "/commands/git/commit.toml)"]);
}

#[tokio::test]
async fn arguments_that_have_no_place_come_last() {
    let setup =
        hears("Be brief.\n\n/brief a  b").file(&format!("{USER}brief.toml"), &command("Be brief."));
    let mut agent = setup.start();
    assert_eq!(says(&mut agent, "/brief a  b").await, "heard");
}

#[tokio::test]
async fn the_projects_count_more_than_the_users_and_none_more_than_the_built_in() {
    for (places, said) in
        [(&[USER][..], USER), (&[USER, OWN], OWN), (&[USER, OWN, PROJECT], PROJECT)]
    {
        let mut setup = hears(&format!("from {said}"));
        for place in places {
            setup = setup.file(&format!("{place}x.toml"), &command(&format!("from {place}")));
        }
        assert_eq!(says(&mut setup.trusted().start(), "/x").await, "heard", "{places:?}");
    }
    // A command of a project that the user has not judged does not replace the user's command of the same name.
    let setup = hears("my own")
        .file(&format!("{USER}x.toml"), &command("my own"))
        .file(&format!("{PROJECT}x.toml"), &command("theirs"));
    let mut agent = setup.start();
    assert_eq!(says(&mut agent, "/x").await, "heard");
    assert!(has_command(&mut agent, "workspace.x").await);
    let setup = hears("my own help")
        .file(&format!("{USER}help.toml"), &command("my own help"))
        .file(&format!("{PROJECT}about.toml"), &command("about"));
    let mut agent = setup.start();
    contains(
        &says(&mut agent, "/help").await,
        &["`/help [COMMAND]`", "`/user.help`", "`/workspace.about`"],
    );
    assert_eq!(says(&mut agent, "/user.help").await, "heard");
}

#[tokio::test]
async fn a_command_line_is_asked_about_and_what_it_writes_is_told() {
    let setup = hears("The change: [+one more]\nEnd.").file(
        &format!("{USER}review.toml"),
        &command("The change: [!{printf '%s' {{args}}; touch made}]\nEnd."),
    );
    let mut agent = setup.start();
    let read = turn(&mut agent, "/review +one more", "allow").await;
    assert_eq!(questions(&read), ["Run printf '%s' '+one more'; touch made"]);
    assert_eq!(text(&read), "heard");
    let read = turn(&mut agent, "/review +one more", "reject").await;
    let said = text(&read);
    assert!(said.starts_with("`/review` was not run: `printf '%s' '+one more'"), "{said}");
    assert!(said.ends_with("you have not allowed this call."), "{said}");
}

#[tokio::test]
async fn what_is_known_to_be_safe_is_not_asked_about() {
    let setup = hears("here: hi;").file(&format!("{USER}x.toml"), &command("here: !{echo hi};"));
    let read = turn(&mut setup.start(), "/x", "allow").await;
    assert_eq!((questions(&read), text(&read)), (Vec::new(), "heard".to_owned()));
}

#[tokio::test]
async fn a_command_line_that_fails_is_told_with_its_exit_code() {
    let setup =
        hears("out\nerr\n[Shell command `echo out; echo err >&2; exit 3` exited with code 3]")
            .file(&format!("{USER}x.toml"), &command("!{echo out; echo err >&2; exit 3}"));
    assert_eq!(says(&mut setup.start(), "/x").await, "heard");
}

#[tokio::test]
async fn a_rule_that_denies_counts_here_too() {
    let rules = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"deny\"\npriority = 5\n";
    let setup = hears("never")
        .file("../.gemini/policies/a.toml", rules)
        .file(&format!("{USER}x.toml"), &command("!{touch made}"));
    let mut agent = setup.start();
    let said = says(&mut agent, "/x").await;
    assert!(said.starts_with("`/x` was not run: `touch made`: Not run:"), "{said}");
    assert!(!agent.workspace().join("made").exists());
}

#[tokio::test]
async fn files_are_put_in_and_nothing_in_them_is_a_gap() {
    let setup = hears("Style: --- docs/style.md ---\n\nNo !{touch made} tabs.")
        .file("docs/style.md", "No !{touch made} tabs.\n")
        .file(&format!("{USER}x.toml"), &command("Style: @{docs/{{args}}.md} Obey."));
    let mut agent = setup.start();
    let read = turn(&mut agent, "/x style", "reject").await;
    assert_eq!((questions(&read), text(&read)), (Vec::new(), "heard".to_owned()));
    assert!(!agent.workspace().join("made").exists());
}

#[tokio::test]
async fn a_file_that_there_is_not_leaves_its_gap() {
    let setup =
        hears("See @{none.md}.").file(&format!("{USER}x.toml"), &command("See @{none.md}."));
    let mut agent = setup.start();
    let read = turn(&mut agent, "/x", "reject").await;
    assert_eq!(text(&read), "heard");
    let thoughts = read.iter().filter_map(|it| it["params"]["chunk"]["thought"].as_str());
    let said: String = thoughts.collect();
    let root = agent.workspace().display().to_string();
    expect![[r#"
        **Note** @{none.md}: none.md: File not found: $ROOT/none.md
    "#]]
    .assert_eq(&said.replace(&root, "$ROOT"));
}

#[tokio::test]
async fn files_are_read_again_when_they_have_changed() {
    let file = format!("{USER}x.toml");
    let setup = hears("the last").file(&file, &command("the first"));
    let mut agent = setup.start();
    assert!(has_command(&mut agent, "x").await);
    let path = agent.workspace().join(&file);
    fs::write(&path, command("the last of them")).unwrap();
    assert_eq!(says(&mut agent, "/x").await, "heard");
    fs::write(path.with_file_name("y.toml"), command("the last of all")).unwrap();
    assert_eq!(says(&mut agent, "/y").await, "heard");
    fs::remove_file(path).unwrap();
    assert!(!has_command(&mut agent, "x").await);
}

#[tokio::test]
async fn a_file_that_is_wrong_is_named_with_its_line_and_the_others_are_there() {
    let setup = hears("good")
        .file(&format!("{USER}good.toml"), &command("good"))
        .file(&format!("{USER}bad.toml"), "description = \"x\"\nprompt = \"open\n")
        .file(&format!("{USER}none.toml"), "description = \"x\"\n")
        .file(&format!("{USER}gap.toml"), &command("one\n!{two"));
    let mut agent = setup.start();
    let said = says(&mut agent, "/bad").await;
    contains(&said, &["/commands/bad.toml:2: "]);
    contains(&says(&mut agent, "/none").await, &["none.toml:1: missing field `prompt`"]);
    let gap = "gap.toml: in line 2 of its `prompt`, `!{` is not closed";
    contains(&says(&mut agent, "/gap").await, &[gap]);
    let list = says(&mut agent, "/commands").await;
    contains(&list, &["- `/bad` cannot be used: ", "bad.toml:2: ", "- `/good`: Does it."]);
    assert_eq!(says(&mut agent, "/good").await, "heard");
}

#[tokio::test]
async fn what_an_unknown_project_would_run_is_agreed_to_first() {
    let file = format!("{PROJECT}x.toml");
    let setup = hears("made").file(&file, &command("made !{touch made}"));
    let mut agent = setup.clone().start();
    let read = turn(&mut agent, "/x", "reject").await;
    let asked = questions(&read);
    assert!(
        asked.len() == 1
            && asked[0].starts_with("Use the programs and servers that the settings in"),
        "{asked:?}"
    );
    assert!(
        text(&read).contains("you have not trusted the folder yet (`/permissions trust`)"),
        "{read:?}"
    );

    let mut agent = setup.clone().start();
    let read = turn(&mut agent, "/x", "allow").await;
    let asked = questions(&read);
    assert!(asked.len() == 2 && asked[1] == "Run touch made", "{asked:?}");
    let consent = read.iter().find(|it| it["method"] == "requestToolCallConfirmation").unwrap();
    let runs = consent["params"]["confirmation"]["description"].as_str().unwrap();
    let runs: Vec<_> = runs.lines().filter(|line| line.ends_with("Run touch made")).collect();
    expect![""].assert_eq(&runs.join("\n"));
    assert_eq!(text(&read), "heard");
    assert_eq!(questions(&turn(&mut agent, "/x", "allow").await), ["Run touch made"]);
    // The file has another command now, so the user is asked about the folder's programs again.
    let path = agent.workspace().join(&file);
    fs::write(path, command("made !{touch made other}")).unwrap();
    assert_eq!(questions(&turn(&mut agent, "/x", "allow").await).len(), 2);

    let mut agent = setup.trusted().start();
    assert_eq!(questions(&turn(&mut agent, "/x", "allow").await), ["Run touch made"]);
}

#[tokio::test]
async fn a_projects_links_lead_nowhere_else() {
    let setup = hears("/x").file(&format!("{PROJECT}y.toml"), &command("y")).trusted();
    let mut agent = setup.start();
    let outside = agent.workspace().join("../secret.toml");
    fs::write(&outside, command("a secret")).unwrap();
    let link = |name: &str| agent.workspace().join(format!("{PROJECT}{name}"));
    symlink(&outside, link("x.toml")).unwrap();
    symlink(Path::new("/"), link("root")).unwrap();
    for (name, is_there) in [("y", true), ("x", false), ("root", false), ("root:x", false)] {
        assert_eq!(has_command(&mut agent, name).await, is_there, "{name}");
    }
}

#[tokio::test]
async fn a_command_line_ends_with_the_turn_that_is_cancelled() {
    let setup = hears("never").file(&format!("{USER}x.toml"), &command("!{sleep 1000}")).arg("-y");
    let mut agent = setup.start();
    let id = agent.prompt("/x").await;
    let pushed = agent.call_of("pushToolCall").await;
    agent.answer(&pushed, json!({ "id": 1 })).await;
    agent.request("cancelSendMessage", Value::Null).await;
    let update = agent.call_of("updateToolCall").await;
    assert_eq!(update["params"]["content"]["markdown"], "Cancelled");
    agent.answer(&update, Value::Null).await;
    assert_eq!(agent.answer_to(id).await["result"], Value::Null);
}

#[tokio::test]
async fn a_prompt_on_the_command_line_may_be_one() {
    let setup =
        hears("for a script").file(&format!("{USER}x.toml"), &command("{{args}} for a script"));
    assert_eq!(setup.arg("-p").arg("/x it").run().await.stdout, "heard\n");
}
