//! Profiles in files.

use std::fs;

use super::*;

/// Finds the credentials of a profile in these two files.
fn find_in(
    profile: Option<&str>,
    config: &str,
    credentials: &str,
) -> Result<Option<ProfileCredentials>, String> {
    let dir = tempfile::tempdir().unwrap();
    let files = ProfileFiles {
        profile: profile.map(str::to_owned),
        config: Some(dir.path().join("config")),
        credentials: Some(dir.path().join("credentials")),
        ..ProfileFiles::default()
    };
    fs::write(dir.path().join("config"), config).unwrap();
    fs::write(dir.path().join("credentials"), credentials).unwrap();
    find(&files)
}

fn keys_of(id: &str, key: &str, token: Option<&str>) -> ProfileCredentials {
    ProfileCredentials::Keys(AwsKeys {
        access_key_id: id.to_owned(),
        secret_access_key: Secret::new(key),
        session_token: token.map(Secret::new),
    })
}

const KEYS_FILE: &str = "[default]\naws_access_key_id = A\naws_secret_access_key=k=/+\n\n# other\n[work]\n\
    AWS_ACCESS_KEY_ID=W # mine\naws_secret_access_key=w\naws_session_token=t\n";

#[test]
fn the_keys_of_a_profile_are_found_in_either_file() {
    assert_eq!(find_in(None, "", KEYS_FILE), Ok(Some(keys_of("A", "k=/+", None))));
    assert_eq!(find_in(Some("work"), "", KEYS_FILE), Ok(Some(keys_of("W", "w", Some("t")))));
    let config = "[profile work]\naws_access_key_id=C\naws_secret_access_key=c";
    assert_eq!(find_in(Some("work"), config, ""), Ok(Some(keys_of("C", "c", None))));
    assert_eq!(find_in(Some("work"), config, KEYS_FILE), Ok(Some(keys_of("W", "w", Some("t")))));
    assert_eq!(find_in(None, config, ""), Ok(None));
}

#[test]
fn a_profile_that_is_chosen_must_exist_and_be_whole() {
    let error = find_in(Some("home"), "[home]\nregion=x", KEYS_FILE).unwrap_err();
    assert!(error.starts_with("There is no profile `home` of AWS in "), "{error}");
    let error = find_in(None, "", "[default]\naws_access_key_id=A").unwrap_err();
    assert!(error.contains("has only one of"), "{error}");
}

#[test]
fn a_login_at_identity_center_is_found_with_its_session_or_without() {
    let login = |cache_key: &str| {
        Some(ProfileCredentials::Sso(SsoLogin {
            profile: "work".to_owned(),
            cache_key: cache_key.to_owned(),
            region: "eu-west-1".to_owned(),
            account_id: "1".to_owned(),
            role_name: "dev".to_owned(),
        }))
    };
    let role = "sso_account_id=1\nsso_role_name=dev\n";
    let config = format!(
        "[profile work]\nsso_session = corp\n{role}[sso-session corp]\nsso_region=eu-west-1\nsso_start_url=x"
    );
    assert_eq!(find_in(Some("work"), &config, ""), Ok(login("corp")));
    let old = format!("[profile work]\nsso_start_url=https://corp\nsso_region=eu-west-1\n{role}");
    assert_eq!(find_in(Some("work"), &old, ""), Ok(login("https://corp")));
    let error = find_in(Some("work"), "[profile work]\nsso_session=corp", "").unwrap_err();
    assert!(
        error.starts_with("The section `sso-session corp` of AWS has no `sso_region`."),
        "{error}"
    );
    let error = find_in(Some("work"), &old.replace("sso_role_name", "x"), "").unwrap_err();
    assert!(error.starts_with("The profile `work` of AWS has no `sso_role_name`."), "{error}");
}

#[test]
fn ways_that_are_not_followed_are_named() {
    for way in ["role_arn", "credential_process"] {
        let error = find_in(None, &format!("[default]\n{way} = x"), "").unwrap_err();
        assert!(error.contains(&format!("`{way}`")), "{error}");
        assert!(error.contains("export-credentials --profile default"), "{error}");
    }
}

#[test]
fn nested_settings_are_not_taken_for_those_of_the_profile() {
    let config = "[default]\ns3 =\n  aws_access_key_id = nested\nregion = eu-west-1\n";
    assert_eq!(parse(config)["default"]["region"], "eu-west-1");
    assert_eq!(parse(config)["default"].get("aws_access_key_id"), None);
}
