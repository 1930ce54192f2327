//! Names of memory files that a project's settings have.

use std::fs;

use serde_json::json;

use crate::agent::{Setup, text};

#[tokio::test]
async fn names_of_memory_files_in_a_projects_settings_lead_to_files_of_the_project_alone() {
    let named = json!({ "context": { "fileName": [
        "oauth_creds.json", ".gemini/oauth_creds.json", "notes/private.md", "RULES.md", "AGENTS.md",
    ] } });
    let mut agent = Setup::default()
        .arg("--skip-trust")
        .file("../.gemini/oauth_creds.json", "the key")
        .file("../.gemini/GEMINI.md", "What I want everywhere.")
        .file("../notes/private.md", "my notes")
        .file("RULES.md", "The rules of the project.")
        .file(".gemini/settings.json", &named.to_string())
        .start();
    let id = agent.prompt("/memory show").await;
    let told = text(&agent.until_answered(id, "allow").await);
    assert!(!told.contains("the key") && !told.contains("my notes"), "{told}");
    assert!(told.contains("The rules of the project."), "{told}");
    assert!(told.contains("What I want everywhere."), "{told}");
    // A notice names each entry that is left out, although it would lead to a file.
    let why =
        "only the project's settings name the file, and they have no effect outside the project";
    let left_out = |name: &str| told.lines().any(|it| it.contains(name) && it.contains(why));
    assert!(left_out(".gemini/oauth_creds.json"), "{told}");
    let id = agent.prompt("/memory add I like tabs").await;
    agent.until_answered(id, "allow").await;
    let own = agent.workspace().join("../.gemini");
    assert_eq!(fs::read_to_string(own.join("oauth_creds.json")).unwrap(), "the key");
    assert!(fs::read_to_string(own.join("GEMINI.md")).unwrap().contains("I like tabs"));
}
