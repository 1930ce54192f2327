//! Settings of the sandbox of commands.

use serde_json::{Value, json};
use tandem_sandbox::SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
use tandem_settings::{Override, SandboxChoice, SettingOrigin};

use super::{OWN, PROJECT, Place, SYSTEM, USER, read, read_with, trusted};

use SandboxChoice::{Automatic, Mode, Off, Unreadable};

#[test]
fn each_spelling_means_what_it_says() {
    for (settings, choice) in [
        (json!({}), Automatic),
        (json!({ "tools": { "sandbox": true } }), Automatic),
        (json!({ "tools": { "sandbox": false } }), Off),
        (json!({ "tools": { "sandbox": "true" } }), Automatic),
        (json!({ "tools": { "sandbox": "none" } }), Off),
        (json!({ "tools": { "sandbox": "read-only" } }), Mode(ReadOnly)),
        (json!({ "tools": { "sandbox": "workspace-write" } }), Mode(WorkspaceWrite)),
        (json!({ "tools": { "sandbox": "danger-full-access" } }), Off),
        (json!({ "tools": { "sandbox": { "enabled": true } } }), Automatic),
        (json!({ "tools": { "sandbox": { "enabled": false } } }), Off),
        (json!({ "tools": { "sandbox": {} } }), Automatic),
        (json!({ "security": { "toolSandboxing": true } }), Automatic),
        (json!({ "security": { "toolSandboxing": false } }), Off),
        (json!({ "sandbox": true }), Automatic),
    ] {
        let read = read(&Place::new().with(USER, &settings.to_string()));
        assert_eq!(read.tools.sandbox, choice, "{settings}");
        assert_eq!(read.remarks(), <[String; 0]>::default(), "{settings}");
    }
}

#[test]
fn what_is_no_sandbox_of_tandems_is_a_wrong_value_that_is_named() {
    for (value, why) in [
        (json!("docker"), "`docker` is not supported"),
        (json!("podman"), "`podman` is not supported"),
        (json!("bwrap"), "`bwrap` is not one of: read-only, workspace-write"),
        (json!(3), "must be true, false, or the name of a mode"),
        (json!({ "enabled": "yes" }), "`enabled` must be true or false"),
    ] {
        let settings = json!({ "tools": { "sandbox": value } });
        let read = read(&Place::new().with(USER, &settings.to_string()));
        let [remark] = read.remarks() else { panic!("{value}: {:?}", read.remarks()) };
        assert!(remark.contains("settings.json:1: `tools.sandbox`"), "{remark}");
        assert!(remark.contains(why), "{remark}");
        assert_eq!(read.tools.sandbox, Unreadable, "{value}");
        let place = read.origin("tools.sandbox")[0].to_string();
        assert!(place.ends_with("settings.json:1"), "{place}");
    }
}

#[test]
fn the_network_and_more_directories_are_said_in_both_ways() {
    for settings in [
        json!({ "tools": { "sandboxNetworkAccess": true, "sandboxAllowedPaths": ["/cache", "../x"] } }),
        json!({ "tools": { "sandbox": { "networkAccess": true, "allowedPaths": ["/cache", "../x"] } } }),
    ] {
        let place = Place::new().with(USER, &settings.to_string());
        let read = read(&place);
        assert!(read.tools.sandbox_network_access, "{settings}");
        let paths = ["/cache".into(), place.path("home/repo/sub/../x")];
        assert_eq!(read.tools.sandbox_allowed_paths, paths, "{settings}");
    }
}

#[test]
fn a_flag_counts_more_than_the_variable_and_that_more_than_files() {
    let place = Place::new().with(USER, r#"{ "tools": { "sandbox": "read-only" } }"#);
    let flag = |value: &str| -> Override {
        ("tools.sandbox", SettingOrigin::Flag("--sandbox"), json!(value))
    };
    let choice =
        |vars: &[(&str, &str)], flags: &[Override]| read_with(&place, vars, flags).tools.sandbox;
    assert_eq!(choice(&[], &[]), Mode(ReadOnly));
    assert_eq!(choice(&[("GEMINI_SANDBOX", "")], &[]), Mode(ReadOnly));
    assert_eq!(choice(&[("GEMINI_SANDBOX", "workspace-write")], &[]), Mode(WorkspaceWrite));
    assert_eq!(choice(&[("GEMINI_SANDBOX", "false")], &[]), Off);
    assert_eq!(choice(&[("GEMINI_SANDBOX", "false")], &[flag("true")]), Automatic);
    assert_eq!(choice(&[], &[flag(DangerFullAccess.name())]), Off);
    assert_eq!(choice(&[("GEMINI_SANDBOX", "bogus")], &[]), Unreadable);
    assert_eq!(choice(&[("GEMINI_SANDBOX", "bogus")], &[flag("true")]), Automatic);
}

/// Reads a project's settings over the user's. Checks that trust makes no difference.
fn with_project(user: &Value, project: &Value) -> SandboxChoice {
    let of = |value: &Value| json!({ "tools": { "sandbox": value } }).to_string();
    let place = || Place::new().with(USER, &of(user)).with(PROJECT, &of(project));
    let (unjudged, trusted) = (read(&place()), read(&trusted(place())));
    assert_eq!(unjudged.tools.sandbox, trusted.tools.sandbox, "{user} {project}");
    unjudged.tools.sandbox
}

#[test]
fn a_project_can_only_make_it_stricter_also_if_it_is_trusted() {
    let [off, automatic, read_only, write, bogus] =
        [json!(false), json!(true), json!("read-only"), json!("workspace-write"), json!("bogus")];
    for (user, project, choice) in [
        (&off, &automatic, Automatic),
        (&off, &read_only, Mode(ReadOnly)),
        (&automatic, &off, Automatic),
        (&automatic, &write, Automatic),
        (&automatic, &read_only, Mode(ReadOnly)),
        (&write, &automatic, Automatic),
        (&write, &off, Mode(WorkspaceWrite)),
        (&read_only, &write, Mode(ReadOnly)),
        (&read_only, &automatic, Mode(ReadOnly)),
        (&read_only, &json!("danger-full-access"), Mode(ReadOnly)),
        (&automatic, &json!({ "enabled": false }), Automatic),
        (&bogus, &off, Unreadable),
        (&bogus, &read_only, Unreadable),
        (&off, &bogus, Unreadable),
    ] {
        assert_eq!(with_project(user, project), choice, "{user} {project}");
    }
    let loose = json!({
        "tools": { "sandboxNetworkAccess": true, "sandboxAllowedPaths": ["/"] },
        "security": { "toolSandboxing": false },
    });
    let inner = json!({ "tools": { "sandbox": { "networkAccess": true, "allowedPaths": ["/"] } } });
    for project in [loose, inner] {
        let place = || {
            let user = r#"{ "tools": { "sandbox": true } }"#;
            Place::new().with(USER, user).with(PROJECT, &project.to_string())
        };
        for settings in [read(&place()), read(&trusted(place()))] {
            assert_eq!(settings.tools.sandbox, Automatic, "{project}");
            assert!(!settings.tools.sandbox_network_access, "{project}");
            assert!(settings.tools.sandbox_allowed_paths.is_empty(), "{project}");
        }
    }
    // The project has taken the network away, which counts although the user's file allows it.
    let place = Place::new()
        .with(USER, r#"{ "tools": { "sandbox": true, "sandboxNetworkAccess": true } }"#)
        .with(PROJECT, r#"{ "tools": { "sandboxNetworkAccess": false } }"#);
    assert!(!read(&place).tools.sandbox_network_access);
    // The settings of the system, whose owner is the machine's, outweigh all others.
    let place = place.with(SYSTEM, r#"{ "tools": { "sandbox": "read-only" } }"#);
    assert_eq!(read(&place).tools.sandbox, Mode(ReadOnly));
    assert_eq!(read(&Place::new().with(OWN, r#"{ "sandbox": true }"#)).tools.sandbox, Automatic);
}

#[test]
fn hosts_that_are_denied_and_can_be_reached_by_commands_are_named() {
    let denied = json!({ "network": { "deniedDomains": ["a.test"] } });
    for (tools, why) in [
        (json!({ "sandboxNetworkAccess": true }), Some("`tools.sandboxNetworkAccess`")),
        (json!({ "sandbox": false }), Some("`tools.sandbox`")),
        (json!({ "sandbox": "danger-full-access" }), Some("`tools.sandbox`")),
        (json!({ "sandbox": "workspace-write" }), None),
        (json!({ "sandbox": true }), None),
        (json!({}), None),
    ] {
        let settings = json!({ "tools": tools, "sandbox": denied }).to_string();
        let place = Place::new().with(USER, &settings);
        let remarks = read(&place).remarks().to_vec();
        let Some(why) = why else {
            assert_eq!(remarks, [""; 0], "{settings}");
            continue;
        };
        let [remark] = &remarks[..] else { panic!("{settings}: {remarks:?}") };
        let begins = "settings.json:1: `sandbox.network.deniedDomains` has no effect on commands";
        assert!(remark.contains(begins) && remark.contains(why), "{remark}");
    }
    let without = json!({ "tools": { "sandboxNetworkAccess": true } }).to_string();
    assert_eq!(read(&Place::new().with(USER, &without)).remarks(), [""; 0]);
}
