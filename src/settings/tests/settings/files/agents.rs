//! Settings of other agents: which entries count, and what is shown of them.

use std::path::Path;
use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use super::{PROJECT, Place, USER, read, read_with, trusted};

#[test]
fn variables_are_put_in_and_secrets_are_not_shown() {
    let text = json!({ "a2aServers": { "reviewer": {
        "url": "https://me:pass@h.test/a?key=k", "token": "$TOKEN", "headers": { "X-Key": "secret" },
        "timeout": 1500, "trust": true,
    } } });
    let place = Place::new().with(USER, &text.to_string());
    let settings = read_with(&place, &[("TOKEN", "abc")], &[]);
    let agent = &settings.a2a_servers["reviewer"];
    assert_eq!(agent.token.as_ref().unwrap().expose(), "abc");
    assert_eq!(agent.silence(), Some(Duration::from_millis(1500)));
    assert!(agent.trust && !agent.entry.unjudged());
    let shown = tandem_settings::show::text(&settings, &place.env(&[]));
    let line = shown.lines().find(|line| line.starts_with("a2aServers")).unwrap();
    let (line, _) = line.split_once("  #").unwrap();
    expect!["a2aServers.reviewer = https://h.test, a token, header X-Key, trusted"].assert_eq(line);
    let json = tandem_settings::show::json(&settings, &place.env(&[])).to_string();
    for secret in ["pass", "abc", "secret"] {
        assert!(!json.contains(secret), "{json}");
    }
}

#[test]
fn a_project_is_asked_about_and_replaces_nothing() {
    let mine = json!({ "a2aServers": { "reviewer": { "url": "https://mine.test/" } } });
    let theirs = json!({ "a2aServers": {
        "reviewer": { "url": "https://evil.test/" },
        "other": { "url": "https://me:pass@other.test/", "trust": true, "token": "$TOKEN",
            "headers": { "X-Key": "plain-secret" } },
    } });
    let place = Place::new().with(USER, &mine.to_string()).with(PROJECT, &theirs.to_string());
    let settings = read_with(&place, &[("TOKEN", "abc")], &[]);
    assert_eq!(
        settings.a2a_servers["reviewer"].url.as_ref().unwrap().expose(),
        "https://mine.test/"
    );
    let other = &settings.a2a_servers["other"];
    assert!(other.entry.unjudged() && !other.trust);
    let remarks: Vec<_> =
        settings.remarks().iter().map(|it| it.split_once(".json:1: ").unwrap().1).collect();
    expect![[r#"
        `a2aServers.reviewer` is ignored: it would replace your own `a2aServers.reviewer`, and counts only in a folder that you trust (`--skip-trust`, or `~/.gemini/trustedFolders.json`).
        `a2aServers.other.trust` is ignored: it counts only in a folder that you trust (`--skip-trust`, or `~/.gemini/trustedFolders.json`)."#]]
    .assert_eq(&remarks.join("\n"));
    let executables: Vec<_> =
        settings.executables(Path::new("/nowhere")).iter().map(ToString::to_string).collect();
    expect![[r#"agent `other`: https://(7 characters hidden)@other.test/ token="$TOKEN" headers={"X-Key":"(12 characters hidden)"}"#]]
        .assert_eq(&executables.join("\n"));
    // The address is a part of what the user agrees to, so another address is asked about again.
    let moved = theirs.to_string().replace("other.test", "moved.test");
    let place = Place::new().with(PROJECT, &moved);
    assert_ne!(
        read(&place).executables(Path::new("/nowhere"))[1].runs,
        settings.executables(Path::new("/nowhere"))[0].runs
    );
    let judged = read(&trusted(Place::new().with(PROJECT, &theirs.to_string())));
    assert!(
        judged.executables(Path::new("/nowhere")).is_empty() && judged.a2a_servers["other"].trust
    );
}

#[test]
fn a_wrong_value_is_said_without_what_is_there() {
    let text = json!({ "a2aServers": { "a": { "url": ["secret"] }, "b": { "timeout": "soon" }, "c": {} } });
    let settings = read(&Place::new().with(USER, &text.to_string()));
    assert_eq!(settings.a2a_servers.keys().collect::<Vec<_>>(), ["c"]);
    let remarks = settings.remarks().join("\n");
    assert!(
        remarks.contains("`a2aServers.a.url` must be text") && !remarks.contains("secret"),
        "{remarks}"
    );
}
