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
        may_run_programs: true,
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
            is_renewable: cache_key == "corp",
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

/// Returns the role of a profile, which is assumed with these credentials.
fn role_of(profile: &str, arn: &str, source: RoleSource) -> ProfileCredentials {
    ProfileCredentials::Role(AssumedRole {
        profile: profile.to_owned(),
        role_arn: arn.to_owned(),
        session_name: None,
        external_id: None,
        duration_seconds: None,
        source,
    })
}

#[test]
fn a_role_is_assumed_with_the_credentials_of_another_profile_which_may_have_a_role_as_well() {
    let config = "[profile work]\nrole_arn = arn:2\nsource_profile = middle\n\
        [profile middle]\nrole_arn = arn:1\nsource_profile = default\n";
    let of = |profile, arn, with| role_of(profile, arn, RoleSource::Profile(Box::new(with)));
    let expected = of("work", "arn:2", of("middle", "arn:1", keys_of("A", "k=/+", None)));
    assert_eq!(find_in(Some("work"), config, KEYS_FILE), Ok(Some(expected)));
    let own = "[default]\nrole_arn=arn:1\nsource_profile=default\n";
    let expected = of("default", "arn:1", keys_of("A", "k=/+", None));
    assert_eq!(find_in(None, own, KEYS_FILE), Ok(Some(expected)));
    let named = "[default]\nrole_arn=arn:1\ncredential_source=Environment\nrole_session_name=me\n\
        external_id=x\nduration_seconds=900\n";
    let Ok(Some(ProfileCredentials::Role(role))) = find_in(None, named, "") else { panic!() };
    assert_eq!(role.source, RoleSource::Environment);
    let fields = [&role.session_name, &role.external_id, &role.duration_seconds];
    assert_eq!(fields.map(|field| field.as_deref()), [Some("me"), Some("x"), Some("900")]);
}

#[test]
fn a_role_whose_settings_lead_nowhere_is_refused_with_the_reason() {
    let error = |config: &str| find_in(None, config, "").unwrap_err();
    let role = "[default]\nrole_arn=arn:1\n";
    for (more, expected) in [
        ("", "must have one of `source_profile` and `credential_source`"),
        ("credential_source=Moon", "must be Environment, EcsContainer or Ec2InstanceMetadata"),
        ("source_profile=other\ncredential_source=Environment", "must have one of"),
        ("source_profile=other", "There is no profile `other` of AWS"),
        (
            "source_profile=other\n[profile other]\nregion=x",
            "The profile `other` of AWS, with which",
        ),
        ("mfa_serial=x\nsource_profile=other", "demands a code of a device"),
        (
            "source_profile=other\n[profile other]\nrole_arn=arn:2\nsource_profile=default",
            "The profiles `default`, `other` of AWS lead to each other",
        ),
    ] {
        let error = error(&format!("{role}{more}"));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_profile_can_name_a_token_or_a_program() {
    let config = "[default]\nrole_arn=arn:1\nweb_identity_token_file=/run/token\n";
    let expected = WebIdentity {
        role_arn: "arn:1".to_owned(),
        token_file: "/run/token".into(),
        session_name: None,
    };
    assert_eq!(find_in(None, config, ""), Ok(Some(ProfileCredentials::WebIdentity(expected))));
    let config = "[default]\ncredential_process = /bin/get --user 'me'\n";
    let Ok(Some(ProfileCredentials::Process(process))) = find_in(None, config, "") else {
        panic!()
    };
    assert_eq!(process.command, "/bin/get --user 'me'");
    assert!(process.directory.unwrap().is_absolute());
}

#[test]
fn a_program_that_a_file_of_the_project_names_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let config = Some(dir.path().join("config"));
    fs::write(dir.path().join("config"), "[default]\ncredential_process = /bin/get\n").unwrap();
    let error = find(&ProfileFiles { config, ..ProfileFiles::default() }).unwrap_err();
    assert!(error.contains("which tandem does only for files of your own"), "{error}");
}

#[test]
fn nested_settings_are_not_taken_for_those_of_the_profile() {
    let config = "[default]\ns3 =\n  aws_access_key_id = nested\nregion = eu-west-1\n";
    assert_eq!(parse(config)["default"]["region"], "eu-west-1");
    assert_eq!(parse(config)["default"].get("aws_access_key_id"), None);
}
