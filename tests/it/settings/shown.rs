//! Settings as `tandem config` shows them.

use std::fs;

use expect_test::expect;

use crate::agent::{Ran, Setup};

#[tokio::test]
async fn config_shows_the_sandbox_and_where_it_is_from() {
    let user = r#"{ "tools": { "sandboxNetworkAccess": true } }"#;
    let setup = Setup::default().file("../.gemini/settings.json", user).arg("config");
    let shown = setup.clone().var("GEMINI_SANDBOX", "read-only").run().await.stdout;
    let line = |shown: &str, name: &str| {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let expected = "tools.sandbox = \"read-only\" # GEMINI_SANDBOX in the environment";
    assert_eq!(line(&shown, "tools.sandbox ="), expected);
    let network = line(&shown, "tools.sandboxNetworkAccess =");
    assert!(network.starts_with("tools.sandboxNetworkAccess = true # ~/.gemini/"), "{network}");
    let shown = setup.arg("--sandbox").run().await.stdout;
    assert_eq!(line(&shown, "tools.sandbox ="), "tools.sandbox = true # --sandbox");
}

async fn config(setup: Setup) -> String {
    let ran: Ran = setup.arg("config").run().await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let home = fs::canonicalize(ran.home.path()).unwrap().display().to_string();
    let shown = ran.stdout.replace(&home, "~");
    shown
        .split_once("\n# Settings without effect:\n")
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or_default()
}

#[tokio::test]
async fn config_names_every_setting_and_file_without_effect() {
    let settings = r#"{
  "output": { "format": "json" },
  "tools": { "discoveryCommand": "x", "nonsense": 1 },
  "ui": { "accessibility": { "screenReader": true }, "them": "GitHub" },
  "general": { "vimMode": true, "maxAttempts": 3 },
  "modelConfigs": { "customAliases": { "mine": {} }, "aliases": {} },
  "telemetry": { "enabled": true },
  "somebodys": { "own": { "thing": 1 } },
  "mcpServers": { "a": { "command": "x", "tcp": "y" } }
}"#;
    let setup = Setup::default()
        .file("../.gemini/settings.json", settings)
        .file("../.gemini/extensions/one/gemini-extension.json", "{}")
        .file("../.gemini/agents/", "")
        .file(".gemini/skills/one/SKILL.md", "x")
        .file(".gemini/system.md", "x");
    expect![[r#"
        #   ~/.gemini/settings.json:2: `output.format` has no effect in tandem.
        #   ~/.gemini/settings.json:3: `tools.discoveryCommand` has no effect in tandem.
        #   ~/.gemini/settings.json:3: `tools.nonsense` is unknown and has no effect.
        #   ~/.gemini/settings.json:4: `ui.accessibility.screenReader` has no effect in tandem.
        #   ~/.gemini/settings.json:4: `ui.them` is unknown and has no effect. Did you mean `ui.theme`?
        #   ~/.gemini/settings.json:5: `general.vimMode` has no effect in tandem.
        #   ~/.gemini/settings.json:6: `modelConfigs.customAliases` has no effect in tandem.
        #   ~/.gemini/settings.json:7: `telemetry.enabled` has no effect in tandem.
        #   ~/.gemini/settings.json:8: `somebodys` is unknown and has no effect.
        #   ~/.gemini/settings.json:9: `mcpServers.a.tcp` has no effect in tandem.
        #   ~/.gemini/extensions has no effect in tandem.
        #   ~/workspace/.gemini/skills has no effect in tandem.
        #   ~/workspace/.gemini/system.md has no effect in tandem.
    "#]]
    .assert_eq(&config(setup).await);
}

#[tokio::test]
async fn config_says_nothing_of_this_where_all_has_effect() {
    let setup = Setup::default().file("../.gemini/settings.json", r#"{ "hooks": {} }"#);
    assert_eq!(config(setup).await, "");
}
