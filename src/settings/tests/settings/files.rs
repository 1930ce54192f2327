//! Settings: which file counts for which value, faults and their places, and the values that a project may set.

mod agents;
mod policies;
mod projects;
mod sandbox;
mod sandbox_network;
mod servers;
mod unread;
mod wrong;

use serde_json::{Value, json};
use tandem_approval::Mode;
use tandem_settings::{Concealed, Layer, Override, SettingOrigin, Settings, read_settings};

use crate::credentials::Place;

const DEFAULTS: &str = "etc/system-defaults.json";
const USER: &str = "home/.gemini/settings.json";
const OWN: &str = "home/.config/tandem/settings.json";
const PROJECT: &str = "home/repo/sub/.gemini/settings.json";
const SYSTEM: &str = "etc/settings.json";

/// Returns the settings of a place. The files of the machine's owner are in `etc`.
fn read_with(place: &Place, vars: &[(&str, &str)], given: &[Override]) -> Settings {
    let system = place.path(SYSTEM).display().to_string();
    let mut all = vec![("GEMINI_CLI_SYSTEM_SETTINGS_PATH", system.as_str())];
    all.extend(vars);
    read_settings(&place.env(&all), &place.path("home/repo/sub"), given)
}

fn read(place: &Place) -> Settings {
    read_with(place, &[], &[])
}

fn trusted(place: Place) -> Place {
    place.judged(&[("home/repo", "TRUST_FOLDER")])
}

/// Returns the origins of a value, as people are shown them, without the place's own directory.
fn origins(place: &Place, settings: &Settings, key: &str) -> Vec<String> {
    let root = format!("{}/", place.path("").display()).replace("//", "/");
    settings.origin(key).iter().map(|it| it.to_string().replace(&root, "")).collect()
}

#[test]
fn without_files_there_are_defaults() {
    let settings = read(&Place::new());
    assert_eq!(settings.remarks(), <[String; 0]>::default());
    assert_eq!(settings.general.default_approval_mode, Mode::Default);
    assert!(settings.general.checkpointing.enabled);
    assert_eq!(settings.context.file_name, ["GEMINI.md", "AGENTS.md"]);
    assert_eq!(settings.context.memory_boundary_markers, [".git"]);
    assert_eq!(settings.model.max_session_turns, None);
    assert!((settings.model.compression_threshold - 0.5).abs() < f64::EPSILON);
    assert!(settings.origin("model.name").is_empty());
}

#[test]
fn the_later_layer_wins() {
    let name = |name: &str| json!({ "model": { "name": name } }).to_string();
    let mut place = trusted(Place::new());
    for (number, file) in [DEFAULTS, USER, OWN, PROJECT, SYSTEM].into_iter().enumerate() {
        place = place.with(file, &name(&format!("model{number}")));
        let settings = read(&place);
        assert_eq!(settings.model.name, Some(format!("model{number}")));
        assert_eq!(origins(&place, &settings, "model.name"), [format!("{file}:1")]);
    }
    let origin = SettingOrigin::Variable("GEMINI_MODEL");
    let variable: Override = ("model.name", origin.clone(), json!("of the environment"));
    let flag: Override = ("model.name", SettingOrigin::Flag("--model"), json!("of a flag"));
    let settings = read_with(&place, &[], std::slice::from_ref(&variable));
    assert_eq!(settings.origin("model.name"), [origin]);
    let settings = read_with(&place, &[], &[variable, flag]);
    assert_eq!(settings.model.name.as_deref(), Some("of a flag"));
    assert_eq!(origins(&place, &settings, "model.name"), ["--model"]);
}

#[test]
fn layers_are_merged_value_by_value() {
    let place = Place::new()
        .with(
            USER,
            r#"{ "model": { "name": "a" }, "tools": { "shell": { "inactivityTimeout": 9 } } }"#,
        )
        .with(OWN, "{\n  \"model\": {\n    \"maxSessionTurns\": 7\n  }\n}");
    let settings = read(&place);
    assert_eq!(settings.model.name.as_deref(), Some("a"));
    assert_eq!(settings.model.max_session_turns, Some(7));
    assert_eq!(settings.tools.shell.inactivity_timeout, Some(9));
    assert_eq!(origins(&place, &settings, "model.maxSessionTurns"), [format!("{OWN}:3")]);
}

#[test]
fn some_lists_are_added_to_and_others_replaced() {
    let lists = |name: &str| {
        json!({
            "tools": { "exclude": [name, "both"], "core": [name], "allowed": [name] },
            "mcp": { "excluded": [name], "allowed": [name] },
            "context": { "includeDirectories": [format!("../{name}")], "fileName": name },
            "policyPaths": [format!("~/{name}")],
        })
        .to_string()
    };
    let place = trusted(Place::new())
        .with(USER, &lists("user"))
        .with(PROJECT, &lists("project"))
        .with("home/repo/user/x", "");
    let settings = read(&place);
    assert_eq!(settings.tools.exclude, ["user", "both", "project"]);
    assert_eq!(
        origins(&place, &settings, "tools.exclude"),
        [USER, PROJECT].map(|it| format!("{it}:1"))
    );
    assert_eq!(settings.mcp.excluded, ["user", "project"]);
    let more = &settings.context.include_directories;
    assert_eq!(more, &[place.path("home/repo/sub/../user")], "the other is not there");
    let missing = place.path("home/repo/sub/../project").display().to_string();
    let [remark] = settings.remarks() else { panic!("{:?}", settings.remarks()) };
    assert!(
        remark.ends_with(&format!(":1: the directory {missing} does not exist, and is left out.")),
        "{remark}"
    );
    assert_eq!(settings.policy_paths, [place.path("home/user"), place.path("home/project")]);
    assert_eq!(settings.tools.core, Some(vec!["project".to_owned()]));
    assert_eq!(settings.tools.allowed, ["project"]);
    assert_eq!(settings.mcp.allowed, Some(vec!["project".to_owned()]));
    assert_eq!(settings.context.file_name, ["project"]);
}

#[test]
fn a_server_takes_the_place_of_one_of_its_name_as_a_whole() {
    let place = Place::new()
        .with(USER, r#"{ "mcpServers": { "a": { "command": "x", "args": ["1"] }, "b": { "url": "u" } } }"#)
        .with(OWN, r#"{ "mcpServers": { "a": { "httpUrl": "https://h" } }, "mcp": { "excluded": ["b"] } }"#);
    let settings = read(&place);
    let a = &settings.mcp_servers["a"];
    assert_eq!((a.command.as_deref(), a.args.len()), (None, 0));
    assert_eq!(a.http_url.as_ref().map(Concealed::expose), Some("https://h"));
    let Some(SettingOrigin::File { layer: Layer::Own, line: 1, .. }) = a.entry.origin else {
        panic!("{a:?}")
    };
    let names: Vec<_> = settings.mcp_servers().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a"], "b is excluded");
    assert!(settings.mcp_servers.contains_key("b"));
}

#[test]
fn old_names_are_known_and_new_ones_win() {
    let old = json!({
        "model": "old-model",
        "maxSessionTurns": 3,
        "contextFileName": ["A.md", "B.md"],
        "coreTools": ["read_file"],
        "excludeTools": ["glob"],
        "allowedTools": ["run_shell_command(git status)"],
        "chatCompression": { "contextPercentageThreshold": 0.7 },
        "checkpointing": { "enabled": false },
        "fileFiltering": { "respectGitIgnore": false },
        "allowMCPServers": ["x"],
        "excludeMCPServers": ["y"],
        "selectedAuthType": "gemini-api-key",
        "includeDirectories": [".."],
        "theme": "Dracula",
        "autoAccept": true,
        "usageStatisticsEnabled": false,
    });
    let settings = read(&Place::new().with(USER, &old.to_string()));
    assert_eq!(settings.remarks(), <[String; 0]>::default());
    assert_eq!(settings.model.name.as_deref(), Some("old-model"));
    assert_eq!(settings.model.max_session_turns, Some(3));
    assert_eq!(settings.context.file_name, ["A.md", "B.md"]);
    assert_eq!(settings.tools.core, Some(vec!["read_file".to_owned()]));
    assert_eq!(settings.tools.exclude, ["glob"]);
    assert_eq!(settings.tools.allowed, ["run_shell_command(git status)"]);
    assert!((settings.model.compression_threshold - 0.7).abs() < f64::EPSILON);
    assert!(!settings.general.checkpointing.enabled);
    assert!(!settings.context.file_filtering.respect_git_ignore);
    assert_eq!(settings.mcp.allowed, Some(vec!["x".to_owned()]));
    assert_eq!(settings.mcp.excluded, ["y"]);
    assert_eq!(settings.security.auth.selected_type.as_deref(), Some("gemini-api-key"));
    assert!(settings.context.include_directories[0].ends_with("repo/sub/.."));
    let both = json!({ "contextFileName": "old.md", "context": { "fileName": "new.md" } });
    let settings = read(&Place::new().with(USER, &both.to_string()));
    assert_eq!(settings.context.file_name, ["new.md"]);
}

#[test]
fn variables_are_put_in_from_the_environment_and_from_trusted_env_files() {
    let servers = json!({ "mcpServers": { "a": {
        "command": "${BIN:-node}",
        "args": ["--port=$PORT", "$NOT_SET"],
        "env": { "TOKEN": "${TOKEN}", "N": 8080, "$TOKEN": "name" },
    } } });
    let place = Place::new()
        .with(USER, &servers.to_string())
        .with("home/.gemini/.env", "TOKEN=of the file\nPORT=2");
    let a = read_with(&place, &[("PORT", "1")], &[]).mcp_servers["a"].clone();
    assert_eq!(a.command.as_deref(), Some("node"));
    let args: Vec<_> = a.args.iter().map(Concealed::expose).collect();
    assert_eq!(args, ["--port=1", "$NOT_SET"]);
    let env: Vec<_> = a.env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(env, [("$TOKEN", "name"), ("N", "8080"), ("TOKEN", "of the file")]);
    assert_eq!(a.entry.variables, ["PORT", "TOKEN"]);
    assert!(!format!("{a:?}").contains("of the file"), "{a:?}");
    // A project's `.env` gives no values in a folder that the user has not judged.
    let place = place.with("home/repo/sub/.env", "TOKEN=theirs");
    assert_eq!(read(&place).mcp_servers["a"].env["TOKEN"].expose(), "${TOKEN}");
    assert_eq!(read(&trusted(place)).mcp_servers["a"].env["TOKEN"].expose(), "theirs");
}

#[test]
fn what_is_not_known_is_passed_over_and_comments_are_no_error() {
    let text = "\u{feff}// mine\n{ /* x */ \"ui\": { \"theme\": [1e999] }, \"later\": 3,\n \"model\": { \"name\": \"m\", \"x\": null, }, // here\n}";
    let settings = read(&Place::new().with(USER, text));
    assert_eq!(settings.remarks(), <[String; 0]>::default());
    assert_eq!(settings.model.name.as_deref(), Some("m"));
    for empty in ["", "  \n", "{}", "// nothing"] {
        assert!(read(&Place::new().with(USER, empty)).remarks().is_empty(), "{empty:?}");
    }
}

#[test]
fn numbers_say_what_they_say_in_gemini_cli() {
    let with = |tools: Value| {
        let text = json!({ "tools": tools, "model": { "maxSessionTurns": -1 } }).to_string();
        read(&Place::new().with(USER, &text))
    };
    let settings =
        with(json!({ "truncateToolOutputThreshold": 0, "shell": { "inactivityTimeout": 0 } }));
    assert_eq!(settings.tools.truncate_tool_output_threshold, Some(usize::MAX));
    assert_eq!(settings.tools.shell.inactivity_timeout, Some(0));
    assert_eq!(settings.model.max_session_turns, None);
    let settings = with(json!({ "truncateToolOutputThreshold": 10.0 }));
    assert_eq!(settings.tools.truncate_tool_output_threshold, Some(10));
    assert_eq!(settings.remarks(), <[String; 0]>::default());
}

#[test]
fn the_users_own_file_is_no_projects_in_the_home() {
    let place = Place::new().with(USER, r#"{ "tools": { "allowed": ["glob"] } }"#);
    let home = place.path("home");
    let settings = read_settings(&place.env(&[]), &home, &[]);
    assert_eq!(settings.tools.allowed, ["glob"]);
    assert_eq!(settings.remarks(), <[String; 0]>::default());
}

#[test]
fn who_wants_a_guard_that_there_is_not_is_told_so_in_one_sentence() {
    for (settings, named) in [
        (json!({ "hooks": { "BeforeTool": [{ "matcher": "*" }] } }), "`hooks`"),
        (json!({ "skills": { "disabled": ["x"] } }), "`skills`"),
        (json!({ "extensions": { "disabled": ["x"] } }), "`extensions`"),
        (json!({ "admin": { "mcp": { "enabled": false } } }), "`admin.mcp.enabled`"),
        (
            json!({ "security": { "auth": { "enforcedType": "vertex-ai" } },
                    "admin": { "secureModeEnabled": true } }),
            "`admin.secureModeEnabled`, `security.auth.enforcedType`",
        ),
        (json!({ "hooks": {}, "skills": { "enabled": false } }), ""),
        (json!({ "admin": { "mcp": { "enabled": true } }, "security": { "auth": {} } }), ""),
    ] {
        let place = Place::new().with(USER, &settings.to_string());
        let remarks = read(&place).remarks().to_vec();
        let [remark] = &remarks[..] else {
            assert_eq!((named, remarks.len()), ("", 0), "{settings}: {remarks:?}");
            continue;
        };
        let expected = format!("These settings have no effect here: {named}. tandem has no hooks");
        assert!(remark.starts_with(&expected) && remark.contains("settings.json:1"), "{remark}");
    }
}

#[test]
fn a_guard_that_a_later_file_turns_off_is_not_wanted() {
    let place = Place::new()
        .with(USER, r#"{ "admin": { "secureModeEnabled": true } }"#)
        .with(SYSTEM, r#"{ "admin": { "secureModeEnabled": false } }"#);
    assert_eq!(read(&place).remarks(), <[String; 0]>::default());
}

#[test]
fn the_model_may_be_named_by_a_variable_also_in_the_users_env_file() {
    let model = |place: &Place, vars: &[(&str, &str)]| {
        read_with(place, vars, &[]).model.name.unwrap_or_default()
    };
    let place = Place::new()
        .with(USER, r#"{ "model": { "name": "of the settings" } }"#)
        .with("home/.gemini/.env", "GEMINI_MODEL=of the file");
    assert_eq!(model(&place, &[]), "of the file");
    assert_eq!(model(&place, &[("GEMINI_MODEL", "of the environment")]), "of the environment");
    // Only the first `.env` counts. In a folder that the user has not judged, it names no model.
    let place = place.with("home/repo/sub/.env", "GEMINI_MODEL=theirs");
    assert_eq!(model(&place, &[]), "of the settings");
    assert_eq!(model(&trusted(place), &[]), "theirs");
}
