//! The real program with settings: settings have their effect, and faults are reported.

use std::fs;
use std::process::Stdio;

use expect_test::{expect, expect_file};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::agent::{HANG, Ran, Setup, text};

/// Of the user, from the workspace.
const USER: &str = "../.gemini/settings.json";
const PROJECT: &str = ".gemini/settings.json";

/// Runs one prompt.
async fn prompt(setup: Setup) -> Ran {
    setup.arg("-p").arg("go").run().await
}

fn call(name: &str, args: Value) -> Value {
    json!({ "call": { "name": name, "args": args } })
}

/// Runs a command line, and returns its output.
async fn output_of(setup: Setup, command: &str) -> String {
    let answers = json!([[call("run_shell_command", json!({ "command": command }))], []]);
    let setup = Setup { script: Setup::answers(answers).script, ..setup };
    prompt(setup.arg("-y").arg("-o").arg("stream-json")).await.stdout
}

#[tokio::test]
async fn a_gemini_cli_users_settings_work_unchanged() {
    let settings = include_str!("../../../fixtures/settings/gemini-cli.json");
    let setup = Setup::default()
        .file(USER, settings)
        .file("../shared/", "")
        .var("GITHUB_MCP_PAT", "secret")
        .var("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "/nowhere/settings.json")
        .arg("config")
        .arg("--model")
        .arg("gemini-2.5-pro");
    let ran = setup.run().await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let home = fs::canonicalize(ran.home.path()).unwrap().display().to_string();
    let shown = ran.stdout.replace(&home, "~");
    expect_file!["../../../fixtures/settings/gemini-cli.txt"].assert_eq(&shown);
    assert!(!shown.contains("secret"), "{shown}");
    assert_eq!(
        fs::read_to_string(ran.home.path().join(".gemini/settings.json")).unwrap(),
        settings
    );

    let setup = Setup::answers(json!([[{ "text": "fine" }]])).file(USER, settings);
    // The servers of these settings are not installed here, so none is allowed.
    let setup = setup.file("../shared/", "").arg("--allowed-mcp-server-names").arg("none");
    let ran = prompt(setup).await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), ("fine\n", "", Some(0)));
}

#[tokio::test]
async fn config_is_there_for_programs_too_and_shows_no_secret() {
    let settings = json!({
        "tools": { "exclude": 5 },
        "mcpServers": { "a": { "command": "x", "args": ["hush-1"], "env": { "T": "hush-2" },
            "headers": { "A": "hush-3" }, "oauth": { "clientSecret": "hush-4" } },
            "b": { "url": "https://user:hush-5@host.example/hush-6?key=hush-7" } },
    });
    let setup = Setup::default().file(USER, &settings.to_string()).arg("config");
    let ran = setup.clone().arg("--json").run().await;
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(shown["settings"]["mcpServers"]["a"]["command"], "x");
    assert_eq!(shown["origins"]["model.name"], json!(["--model"]));
    let place = shown["origins"]["mcpServers.a"][0].as_str().unwrap();
    assert!(place.ends_with(".gemini/settings.json:1"), "{place}");
    let remark = shown["remarks"][0].as_str().unwrap();
    assert!(remark.ends_with("settings.json:1: `tools.exclude` must be a list."), "{remark}");
    let text = setup.run().await.stdout;
    assert!(text.contains("mcpServers.b = https://host.example "), "{text}");
    assert!(!ran.stdout.contains("hush") && !text.contains("hush"), "{}{text}", ran.stdout);
}

#[tokio::test]
async fn the_model_is_that_of_the_settings_unless_a_variable_or_flag_says_otherwise() {
    let says = |text: &str| json!({ "answers": [[{ "text": text }]] }).to_string();
    let model = |name: &str| json!({ "model": { "name": format!("replay:../{name}.jsonl") } });
    let place = || {
        Setup::default()
            .file(USER, &model("user").to_string())
            .file("../user.jsonl", &says("of the settings"))
            .file("../variable.jsonl", &says("of the variable"))
    };
    let answer = async |setup: Setup, more: &[&str]| {
        let home = TempDir::new().unwrap();
        // `command` only writes the files of the setup: it would add `--model`, which the test must not have.
        let mut command = setup.clone().arg("--model").arg("").command(home.path());
        let mut plain = tokio::process::Command::new(env!("CARGO_BIN_EXE_tandem"));
        plain.env_clear().env("HOME", home.path()).args(more).args(["-p", "go"]);
        plain.envs(setup.vars).current_dir(home.path().join("workspace")).stdin(Stdio::null());
        // The files of the setup exist now. `command` itself is not run.
        command.kill_on_drop(true);
        let output = timeout(HANG, plain.output()).await.expect("it does not end").unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(answer(place(), &[]).await, "of the settings\n");
    let variable = place().var("GEMINI_MODEL", "replay:../variable.jsonl");
    assert_eq!(answer(variable.clone(), &[]).await, "of the variable\n");
    let flag = ["--model", "replay:../user.jsonl"];
    assert_eq!(answer(variable, &flag).await, "of the settings\n");
}

#[tokio::test]
async fn a_wrong_value_is_said_beside_an_unknown_model() {
    let setup = Setup::default().file("../.gemini/settings.json", "{\"modelServers\": []}");
    let ran = setup.arg("--model").arg("work:x").arg("-p").arg("hi").run().await;
    let [model, setting] = &ran.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("{}", ran.stderr)
    };
    assert!(model.starts_with("tandem: Unknown provider `work` in the model `work:x`."), "{model}");
    assert!(setting.contains("settings.json:1: `modelServers` must be"), "{setting}");
}

#[tokio::test]
async fn a_wrong_value_is_said_with_the_first_prompt_in_every_front_end() {
    let settings = "{\n  \"model\": { \"maxSessionTurns\": \"many\" }\n}";
    let remark = ".gemini/settings.json:2: `model.maxSessionTurns` must be a whole number.";
    let setup = Setup::answers(json!([[{ "text": "fine" }]])).file(USER, settings);
    let ran = prompt(setup.clone()).await;
    assert_eq!((ran.stdout.as_str(), ran.code), ("fine\n", Some(0)));
    assert!(ran.stderr.starts_with("tandem: ") && ran.stderr.contains(remark), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let mut agent = setup.start();
    let id = agent.prompt("go").await;
    let messages = agent.until_answered(id, "allow").await;
    assert!(format!("{messages:?}").contains(remark), "{messages:?}");
    let id = agent.prompt("again").await;
    assert_eq!(text(&agent.until_answered(id, "allow").await), "fine");
}

#[tokio::test]
async fn a_session_has_as_many_turns_as_the_settings_say() {
    let answers = json!([[call("list_directory", json!({ "dir_path": "." }))], [{ "text": "x" }]]);
    let setup = Setup::answers(answers).file(USER, r#"{ "model": { "maxSessionTurns": 1 } }"#);
    let ran = prompt(setup).await;
    assert_eq!(ran.code, Some(53));
    let why = "Stopped after 1 requests to the model in this session: `model.maxSessionTurns`";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
}

#[tokio::test]
async fn a_prompt_needs_no_flag() {
    let says = Setup::answers(json!([[{ "text": "fine" }]]));
    let ran = says.clone().arg("two").arg("words").run().await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), ("fine\n", "", Some(0)));
    let json = says.clone().arg("go").arg("-o").arg("json").run().await;
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap()["response"], "fine");
    let ran = says.arg("-i").arg("go").run().await;
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(42)));
    expect![[r#"
        tandem: -i needs a terminal, and standard input or output is not one; use -p
    "#]]
    .assert_eq(&ran.stderr);
}

#[tokio::test]
async fn what_happens_is_logged_in_detail_if_that_is_wanted() {
    let setup = Setup::answers(json!([[{ "text": "fine" }]]))
        .file("sub/.gitignore", "[z-a]\n")
        .file("sub/x.rs", "");
    let read = call("glob", json!({ "pattern": "**/*.rs" }));
    let setup = Setup { script: Setup::answers(json!([[read], []])).script, ..setup };
    let setup = Setup { vars: vec![("TANDEM_LOG".to_owned(), String::new())], ..setup };
    let logged = prompt(setup.clone().arg("-d")).await.stderr;
    assert!(logged.contains("DEBUG tandem_"), "{logged}");
    assert!(!prompt(setup).await.stderr.contains("DEBUG"));
}

#[tokio::test]
async fn a_project_is_followed_as_far_as_it_is_trusted() {
    let write = call("write_file", json!({ "file_path": "made.txt", "content": "x\n" }));
    let setup = Setup::answers(json!([[write], [{ "text": "done" }]]))
        .file(PROJECT, r#"{ "general": { "defaultApprovalMode": "auto_edit" } }"#);
    let made = |ran: &Ran| ran.home.path().join("workspace/made.txt").exists();
    let ran = prompt(setup.clone()).await;
    let why = "`general.defaultApprovalMode` is ignored: it counts only in a folder that you trust";
    assert!(!made(&ran) && ran.stderr.contains(why), "{}", ran.stderr);
    let ran = prompt(setup.clone().arg("--skip-trust")).await;
    assert!(made(&ran) && ran.stderr.is_empty(), "{}", ran.stderr);
    let all = r#"{ "security": { "folderTrust": { "enabled": false } } }"#;
    assert!(made(&prompt(setup.file(USER, all)).await));
}

#[tokio::test]
async fn commands_see_no_variable_that_the_settings_hide() {
    let settings = json!({ "security": { "environmentVariableRedaction": {
        "enabled": true, "allowed": ["NPM_TOKEN"], "blocked": ["PLAIN"],
    } } });
    let setup = Setup::default()
        .file(USER, &settings.to_string())
        .var("GITHUB_TOKEN", "hush-1")
        .var("PLAIN", "hush-2")
        .var("NPM_TOKEN", "seen");
    let output = output_of(setup, "env").await;
    assert!(output.contains("NPM_TOKEN=seen") && !output.contains("hush"), "{output}");
}

#[tokio::test]
async fn output_is_cut_where_the_settings_say() {
    let settings = r#"{ "tools": { "truncateToolOutputThreshold": 300 } }"#;
    let output = output_of(Setup::default().file(USER, settings), "seq 10000 10999").await;
    assert!(output.contains("10000\\n") && output.contains("10999"), "{output}");
    assert!(!output.contains("10500\\n"), "{output}");
}

#[tokio::test]
async fn the_settings_say_which_ignore_files_count() {
    let answers = json!([[call("glob", json!({ "pattern": "*.txt" }))], []]);
    let setup = Setup::answers(answers)
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file(".gitignore", "one.txt\n")
        .file(".cursorignore", "two.txt\n!one.txt\n")
        .file("one.txt", "")
        .file("two.txt", "")
        .file("three.txt", "");
    let named = async |settings: Value| {
        let filtering = json!({ "context": { "fileFiltering": settings } }).to_string();
        let setup = setup.clone().file(USER, &filtering).arg("-o").arg("stream-json");
        let shown = prompt(setup).await.stdout;
        ["one", "two", "three"].map(|name| shown.contains(&format!("{name}.txt")))
    };
    assert_eq!(named(json!({})).await, [false, true, true]);
    assert_eq!(named(json!({ "respectGitIgnore": false })).await, [true, true, true]);
    let custom = json!({ "customIgnoreFilePaths": [".cursorignore"] });
    assert_eq!(named(custom).await, [true, false, true]);
}
