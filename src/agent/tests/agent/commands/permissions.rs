//! `/permissions`: what the folder's own settings would run.

use std::sync::Arc;

use expect_test::expect;
use tandem_agent::session::Parts;
use tandem_approval::consent::{Consent, ConsentStatus, Executable, Review};

use super::Stage;

#[tokio::test]
async fn what_a_folder_runs_is_agreed_to_or_refused() {
    let found = Review {
        executables: vec![Executable {
            kind: "MCP server",
            name: "db".to_owned(),
            runs: "npx db --token 1".to_owned(),
            shown: "npx db".to_owned(),
        }],
        status: ConsentStatus::Pending,
    };
    let consent = Consent::new(move || found.clone(), |_, _| Ok(()));
    let shared = Arc::clone(&consent);
    let stage = Stage::with(vec![], move |parts| Parts { consent: shared, ..parts });
    expect![[r#"
        The approval mode is `default`.

        No question was answered with "always".

        **Programs and servers that this folder's settings name** are not used until you trust them (`/permissions trust`):

        - MCP server `db`: npx db
    "#]].assert_eq(&stage.output("/permissions").await);
    expect![
        "Nothing was changed: `maybe` is neither `yes` nor `no`. `/permissions trust` trusts the folder's \
         programs, `/permissions trust no` distrusts them."
    ]
    .assert_eq(&stage.output("/permissions trust maybe").await);
    expect!["The programs and servers that this folder's settings name are trusted from now on."]
        .assert_eq(&stage.output("/permissions trust").await);
    assert!(consent.is_given());
    expect!["The programs and servers that this folder's settings name are not used from now on."]
        .assert_eq(&stage.output("/permissions trust no").await);
    assert!(!consent.settled().await);
    let stage = Stage::new(vec![]);
    expect!["This folder's settings name no programs or servers."]
        .assert_eq(&stage.output("/permissions trust").await);
}
