//! Choice of the `.env` file that counts, and of the values in it that count.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use tandem_model::provider::Provider::Gemini;
use tandem_settings::ModelServers;

use crate::credentials::{Place, check, check_error, words};

#[test]
fn the_first_env_file_counts_and_no_other() {
    let mut place = Place::new();
    let files = [
        "home/.env",
        "home/.gemini/.env",
        "home/repo/.env",
        "home/repo/.gemini/.env",
        "home/repo/sub/.env",
        "home/repo/sub/.gemini/.env",
    ];
    for (number, file) in files.iter().enumerate() {
        place = place.with(file, &format!("GEMINI_API_KEY=key{number}"));
        check(&place, &[], &format!("API key{number}"));
    }
    let place = place.with("home/repo/sub/.gemini/.env", "OTHER=1");
    let file = place.path("home/repo/sub/.gemini/.env").display().to_string();
    check_error(&place, &[], &[&file, "was read, and has no key"]);
}

#[test]
fn nothing_above_the_repository_or_the_home_is_a_projects() {
    let place = Place::new().with("home/.git/x", "").with(".env", "GEMINI_API_KEY=above");
    fs::create_dir(place.path("home/repo/sub/.git")).unwrap();
    let place = place.with("home/repo/.env", "GEMINI_API_KEY=repo");
    check_error(&place, &[], &[]);
    fs::remove_dir(place.path("home/repo/sub/.git")).unwrap();
    check(&place, &[], "API repo");
}

#[test]
fn outside_of_repository_and_home_only_the_directory_itself_counts() {
    let place = Place::new().with("home/.env", "GEMINI_API_KEY=parent");
    fs::remove_dir(place.path("home/repo/.git")).unwrap();
    let vars = [("HOME", "/nowhere")];
    check_error(&place, &vars, &[]);
    let place = place.with("home/repo/sub/.env", "GEMINI_API_KEY=here");
    check(&place, &vars, "API here");
    let above = place.path("home/repo/sub/home").display().to_string();
    check_error(&place, &[("HOME", &above)], &["There is no Gemini API key"]);
}

#[test]
fn gemini_cli_home_replaces_the_home_of_gemini_only() {
    let place = Place::new().with("home/.env", "GEMINI_API_KEY=home");
    let place = place.with("other/.gemini/.env", "GEMINI_API_KEY=other");
    let other = place.path("other").display().to_string();
    let vars = [("GEMINI_CLI_HOME", &*other)];
    check(&place, &vars, "API other");
    fs::remove_file(place.path("other/.gemini/.env")).unwrap();
    check(&place, &vars, "API home");
}

const SETTINGS: &str = "GEMINI_API_KEY=key\nGOOGLE_GEMINI_BASE_URL=https://gate.example\n\
    GEMINI_CLI_CUSTOM_HEADERS='X-A: b'\nGEMINI_API_KEY_AUTH_MECHANISM=bearer";
const SET: &str = "https://gate.example/v1beta/models key bearer X-A=b";

#[test]
fn a_folder_that_nobody_has_judged_gives_keys_only() {
    check(&Place::new().with("home/repo/.env", SETTINGS), &[], "API key");
    let place = Place::new().with("home/repo/.env", "GOOGLE_GEMINI_BASE_URL=https://gate.example");
    check_error(&place, &[], &["GOOGLE_GEMINI_BASE_URL, which counts only in a folder that you"]);
}

#[test]
fn a_trusted_folder_gives_settings_too() {
    let place = Place::new().with("home/repo/.env", SETTINGS);
    check(&place, &[("GEMINI_CLI_TRUST_WORKSPACE", "true")], SET);
    let place = place.judged(&[("home/repo", "TRUST_FOLDER")]);
    check(&place, &[], SET);
    let place = place.judged(&[("home/elsewhere", "TRUST_PARENT")]);
    check(&place, &[], SET);
}

#[test]
fn trust_in_a_directory_is_not_trust_in_those_above() {
    let place = Place::new().with("home/repo/.env", SETTINGS);
    check(&place.judged(&[("home/repo/sub", "TRUST_FOLDER")]), &[], "API key");
}

#[test]
fn a_folder_that_is_not_to_be_trusted_gives_nothing() {
    let place = Place::new().with("home/repo/.env", SETTINGS);
    let place = place.judged(&[("home/repo", "DO_NOT_TRUST")]);
    check_error(&place, &[], &["you have distrusted its folder"]);
    let place = place.with("home/.gemini/.env", "GEMINI_API_KEY=own");
    check(&place, &[], "API own");
    let place = place.judged(&[("home", "TRUST_FOLDER"), ("home/repo/sub", "DO_NOT_TRUST")]);
    check(&place, &[], "API own");
}

#[test]
fn a_judgement_that_others_could_have_written_does_not_count() {
    let place = Place::new().with("home/repo/.env", SETTINGS);
    let place = place.judged(&[("home/repo", "TRUST_FOLDER")]);
    check(&place.mode("home/.gemini/trustedFolders.json", 0o666), &[], "API key");
    let place = Place::new().with("home/repo/.env", SETTINGS);
    check(&place.with("home/.gemini/trustedFolders.json", "{"), &[], "API key");
}

#[test]
fn the_users_own_env_files_are_trusted() {
    check(&Place::new().with("home/.gemini/.env", SETTINGS), &[], SET);
    check(&Place::new().with("home/.env", SETTINGS), &[], SET);
}

/// Checks that the file is not read, that the reason is told, and that the next file is read.
fn check_not_read(place: Place, why: &str) {
    let file = place.path("home/repo/.env").display().to_string();
    check_error(&place, &[], &[&file, why]);
    check(&place.with("home/.env", "GEMINI_API_KEY=next"), &[], "API next");
}

#[test]
fn an_env_file_that_others_may_write_is_not_read() {
    let place = Place::new().with("home/repo/.env", "GEMINI_API_KEY=secret");
    check_not_read(
        place.mode("home/repo/.env", 0o602),
        "other users can write it (run `chmod go-w",
    );
    let place = Place::new().with("home/repo/.env", "GEMINI_API_KEY=secret");
    // Only root can give files away.
    if chown(place.path("home/repo/.env"), None, Some(12345)).is_ok() {
        check_not_read(
            place.mode("home/repo/.env", 0o620),
            "other users can write it (run `chmod go-w",
        );
    }
}

#[test]
fn a_group_of_the_users_own_number_is_the_users_alone() {
    let place = Place::new().with("home/repo/.env", "GEMINI_API_KEY=key");
    let file = place.path("home/repo/.env");
    let user = fs::metadata(&file).unwrap().uid();
    if chown(&file, None, Some(user)).is_ok() {
        check(&place.mode("home/repo/.env", 0o664), &[], "API key");
    }
}

#[test]
fn an_env_file_of_another_user_is_not_read() {
    let place = Place::new().with("home/repo/.env", "GEMINI_API_KEY=secret");
    // Only root can give files away.
    if chown(place.path("home/repo/.env"), Some(12345), None).is_ok() {
        check_not_read(place, "belongs to another user");
    }
}

#[test]
fn what_is_no_small_text_file_is_not_read() {
    let place = Place::new();
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, place.path("home/repo/.env"), FileType::Fifo, mode, 0).unwrap();
    check_not_read(place, "is not a regular file");
    let long = format!("GEMINI_API_KEY=secret\n{}", "#".repeat(64 * 1024));
    check_not_read(Place::new().with("home/repo/.env", &long), "larger than 64 KiB");
    let place = Place::new();
    fs::write(place.path("home/repo/.env"), b"GEMINI_API_KEY=secret\xff").unwrap();
    check_not_read(place.mode("home/repo/.env", 0o600), "is not UTF-8");
}

#[test]
fn a_directory_named_env_is_passed_over() {
    let place = Place::new().with("home/repo/.env/pyvenv.cfg", "");
    check(&place.with("home/.env", "GEMINI_API_KEY=key"), &[], "API key");
}

#[test]
fn for_work_in_another_directory_the_file_there_counts_and_keys_are_known_everywhere() {
    let place = Place::new()
        .with("home/repo/sub/.env", "GEMINI_API_KEY=here-0123456789")
        .with("home/other/.env", "GEMINI_API_KEY=there-0123456789")
        .with("home/bare/x", "");
    let here = place.credentials(&[("TANDEM_CONFIG_DIR", "mine")]);
    let there = here.in_environment(
        here.env().in_directory(&place.path("home/other")),
        ModelServers::default(),
    );
    assert_eq!(words(&here.endpoint(Gemini).unwrap()), "API here-0123456789");
    assert_eq!(words(&there.endpoint(Gemini).unwrap()), "API there-0123456789");
    let bare = here
        .in_environment(here.env().in_directory(&place.path("home/bare")), ModelServers::default());
    assert!(bare.endpoint(Gemini).is_err());
    for credentials in [&here, &there] {
        assert!(credentials.is_secret("X", "here-0123456789"));
        assert!(credentials.is_secret("X", "there-0123456789"));
        assert_eq!(credentials.env().config_dir(), here.env().config_dir());
    }
}
