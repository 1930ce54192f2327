//! Wrong values: each is reported with its file and line, and only the wrong value is ignored.

use std::fs;
use std::os::unix::fs::chown;

use expect_test::expect;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode as FileMode, mknodat};
use serde_json::json;
use tandem_approval::Mode;

use super::{Place, USER, read, read_with};

/// Returns the remarks, without the path of the test's directory.
fn remarks(place: &Place) -> String {
    let root = format!("{}/", place.path("").display()).replace("//", "/");
    read(place).remarks().join("\n").replace(&root, "")
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(remarks(&Place::new().with(USER, text)), expected, "{text}");
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_what_is_right() {
    check(
        "{\n  \"general\": {\n    \"defaultApprovalMode\": \"always\"\n  }\n}",
        "home/.gemini/settings.json:3: `general.defaultApprovalMode` must be one of default, auto_edit, plan.",
    );
    check(
        "{ \"tools\": {\n \"exclude\": [\n  \"a\",\n  5 ] } }",
        "home/.gemini/settings.json:4: `tools.exclude[1]` must be text in quotes.",
    );
    check(
        "{\n\"tools\": { \"exclude\": \"a\" } }",
        "home/.gemini/settings.json:2: `tools.exclude` must be a list.",
    );
    check(
        r#"{ "context": { "includeDirectoryTree": "no" } }"#,
        "home/.gemini/settings.json:1: `context.includeDirectoryTree` must be true or false.",
    );
    check(
        r#"{ "model": { "compressionThreshold": 50 } }"#,
        "home/.gemini/settings.json:1: `model.compressionThreshold` must be a number from 0 to 1.",
    );
    check(
        r#"{ "model": { "provider": "gpt" } }"#,
        "home/.gemini/settings.json:1: `model.provider` must be one of gemini, openai, anthropic, ollama, llamacpp, lmstudio, vllm, openrouter, github, azure, bedrock, vertex, or a server of `modelServers`.",
    );
    check(
        r#"{ "model": { "maxSessionTurns": 1.5 } }"#,
        "home/.gemini/settings.json:1: `model.maxSessionTurns` must be a whole number.",
    );
    check(
        r#"{ "context": { "fileName": "../x" } }"#,
        "home/.gemini/settings.json:1: `context.fileName` must be a file's name or a list of them, without `..`.",
    );
    check(
        r#"{ "general": { "maxAttempts": 0 } }"#,
        "home/.gemini/settings.json:1: `general.maxAttempts` must be at least 1.",
    );
    check(
        r#"{ "mcpServers": 5 }"#,
        "home/.gemini/settings.json:1: `mcpServers` must be an object.",
    );
}

#[test]
fn only_the_wrong_value_does_not_count() {
    let text = json!({
        "model": { "name": 5, "maxSessionTurns": 3 },
        "mcpServers": { "good": { "command": "x" }, "bad": { "command": ["x"] } },
        "limits": { "rounds": 7, "round": 8 },
    });
    let settings = read(&Place::new().with(USER, &text.to_string()));
    assert_eq!(settings.model.name, None);
    assert_eq!(settings.model.max_session_turns, Some(3));
    assert_eq!(settings.mcp_servers.keys().collect::<Vec<_>>(), ["good"]);
    assert_eq!(settings.limits, [("rounds".to_owned(), 7)].into());
    let rule = |remark: &String| remark.split_once(".json:1: ").unwrap().1.to_owned();
    let remarks: Vec<_> = settings.remarks().iter().map(rule).collect();
    expect![[r#"
        `model.name` must be text in quotes.
        `mcpServers.bad.command` must be text in quotes.
        `limits` unknown limit `round`; did you mean `rounds`? `tandem config --limits` lists all limits."#]].assert_eq(&remarks.join("\n"));
}

#[test]
fn what_is_wrong_in_a_server_is_said_without_what_is_there() {
    let text =
        "{ \"mcpServers\": { \"a\": {\n \"command\": \"x\",\n \"env\": \"TOKEN=secret\" } } }";
    check(text, "home/.gemini/settings.json:3: `mcpServers.a.env` must be an object.");
    let text = "{ \"mcpServers\": { \"a\": {\n \"env\": {\n \"T\": [\"secret\"] } } } }";
    check(text, "home/.gemini/settings.json:3: `mcpServers.a.env.T` must be text.");
}

#[test]
fn yolo_is_for_flags_and_not_if_it_is_forbidden() {
    let text = r#"{ "general": { "defaultApprovalMode": "yolo" } }"#;
    check(
        text,
        "home/.gemini/settings.json:1: `general.defaultApprovalMode` must be one of default, \
         auto_edit, plan; yolo is for --yolo and --approval-mode only.",
    );
    let flag = [(
        "general.defaultApprovalMode",
        tandem_settings::SettingOrigin::Flag("--yolo"),
        json!("yolo"),
    )];
    let place = Place::new();
    let mode = |place: &Place| read_with(place, &[], &flag).general.default_approval_mode;
    assert_eq!(mode(&place), Mode::Yolo);
    let place = place.with(super::SYSTEM, r#"{ "security": { "disableYoloMode": true } }"#);
    assert_eq!(mode(&place), Mode::Default);
    let remarks = read_with(&place, &[], &flag).remarks().join("");
    assert!(remarks.ends_with("etc/settings.json:1: `security.disableYoloMode` forbids the mode yolo; sessions begin in the mode default."));
}

#[test]
fn a_file_that_is_no_json_is_named_with_the_line() {
    let nothing = "; the file is ignored.";
    for (text, line) in [
        ("{\n  \"a\": 1\n  \"b\": 2\n}", 2),
        ("{\n\"a\": ,\n}", 2),
        ("{ \"model\": { \"name\": \"m\" }", 1),
        ("{\n'a': 1 }", 2),
        ("{}\n{}", 2),
        ("nonsense", 1),
    ] {
        let remarks = remarks(&Place::new().with(USER, text));
        let start = format!("home/.gemini/settings.json:{line}: ");
        assert!(remarks.starts_with(&start) && remarks.ends_with(nothing), "{text:?}: {remarks}");
    }
    check(
        "\n[]",
        "home/.gemini/settings.json:2: must be an object (`{ ... }`); the file is ignored.",
    );
    let deep = format!("{{\"a\":{}", "[".repeat(10_000));
    expect!["home/.gemini/settings.json:1: maximum nesting depth exceeded; the file is ignored."]
        .assert_eq(&remarks(&Place::new().with(USER, &deep)));
}

#[test]
fn a_file_that_is_not_the_users_own_small_text_is_not_read() {
    let text = r#"{ "model": { "name": "m" } }"#;
    let check = |place: &Place, why: &str| {
        let said = remarks(place);
        assert!(said.contains("settings.json was not read: it ") && said.contains(why), "{said}");
        assert_eq!(read(place).model.name, None);
    };
    check(
        &Place::new().with(USER, text).mode(USER, 0o602),
        "can be written by other users (run `chmod go-w",
    );
    let place = Place::new().with(USER, text).mode(USER, 0o620);
    if chown(place.path(USER), None, Some(12345)).is_ok() {
        check(&place, "can be written by other users (run `chmod go-w");
    }
    let place = Place::new();
    fs::create_dir_all(place.path("home/.gemini")).unwrap();
    mknodat(CWD, place.path(USER), FileType::Fifo, FileMode::RUSR | FileMode::WUSR, 0).unwrap();
    check(&place, "is not a regular file");
    let place = Place::new().with(USER, text);
    fs::write(place.path(USER), b"{ \"model\": { \"name\": \"\xff\" } }").unwrap();
    check(&place, "is not UTF-8");
    let long = format!("{text}{}", " ".repeat(1 << 20));
    check(&Place::new().with(USER, &long), "is larger than");
    let place = Place::new().with(USER, text);
    // Only root can give files away.
    if chown(place.path(USER), Some(12345), None).is_ok() {
        check(&place, "belongs to another user");
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let name = prop_oneof![
        Just("model"),
        Just("name"),
        Just("tools"),
        Just("exclude"),
        Just("mcpServers"),
        Just("command"),
        Just("env"),
        Just("limits"),
        Just("general"),
        Just("context"),
        Just("fileName"),
        Just("security"),
        Just("checkpointing"),
        Just("enabled"),
        Just("x.y"),
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-z$\\{\\}:-]{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::vec((name.clone(), inner), 0..6).prop_map(|properties| {
                let properties = properties.into_iter();
                properties
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_json_and_no_text_is_too_much(json in any_json(), text in "[\\PC\n]{0,60}") {
        let place = Place::new().with(USER, &json.to_string()).with(super::OWN, &text);
        let settings = read(&place);
        // Every remark names the place in the file.
        for remark in settings.remarks() {
            prop_assert!(remark.contains("settings.json:"), "{}", remark);
        }
    }
}
