//! The network that `tandem sandbox` gives a command.

use std::net::{Ipv4Addr, TcpListener};

use super::{Arena, mechanisms, works};
use crate::needs::{Need, lacking};

const SETTINGS: &str = r#"{ "sandbox": { "network": {
    "allowedDomains": ["registries", "a.test"], "deniedDomains": ["b.test"] } } }"#;

#[test]
fn no_mechanism_lets_a_command_connect_by_itself() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let arena = Arena::new();
    arena.file(".gemini/settings.json", SETTINGS);
    let outside = arena.program("/bin/bash").args(["-c", &line]).output().unwrap();
    assert_eq!(outside.stdout, b"connected\n");
    for mechanism in mechanisms() {
        let ran = arena.bash(mechanism, "workspace-write", &line);
        assert!(ran.stdout.is_empty() && !ran.status.success(), "{mechanism}: {ran:?}");
    }
}

#[test]
fn only_namespaces_have_a_proxy_and_all_say_what_they_have() {
    let arena = Arena::new();
    arena.file(".gemini/settings.json", SETTINGS);
    for mechanism in mechanisms() {
        let mut show = arena.program(env!("CARGO_BIN_EXE_tandem"));
        let shown = show.args(["sandbox", "--mechanism", mechanism]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let variable = arena.bash(mechanism, "read-only", "echo ${HTTPS_PROXY-none}");
        let variable = String::from_utf8(variable.stdout).unwrap();
        if mechanism == "namespaces" {
            assert!(shown.contains("Network: a proxy to hosts that are allowed"), "{shown}");
            assert!(shown.contains("Allowed hosts:\n  registries (crates, "), "{shown}");
            assert!(shown.contains("  a.test\nDenied hosts:\n  b.test\n"), "{shown}");
            assert_eq!(variable, "http://127.1.0.0:3128\n");
        } else {
            let none = "Network: none; hosts can be allowed with `namespaces` only\n";
            assert!(shown.contains(none), "{mechanism}: {shown}");
            assert_eq!(variable, "none\n", "{mechanism}");
        }
    }
}

#[test]
fn a_command_by_hand_is_told_which_hosts_it_was_kept_from() {
    if !works("namespaces") || lacking(Need::Curl) {
        return;
    }
    let arena = Arena::new();
    arena.file(".gemini/settings.json", SETTINGS);
    let line = "curl -s http://b.test/; curl -s http://c.test/; curl -s http://127.0.0.2/";
    let ran = arena.bash("namespaces", "read-only", line);
    let (shown, told) =
        (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    for (host, why) in [
        ("b.test", "`sandbox.network.deniedDomains` in the settings denies it"),
        ("c.test", "`sandbox.network.allowedDomains` does not name it"),
        ("127.0.0.2", "it is this machine itself"),
    ] {
        assert!(shown.contains(&format!("blocked by the sandbox: {host} ({why})\n")), "{shown}");
        let line = format!("tandem: blocked by the sandbox: {host}:80 ({why})\n");
        assert!(told.contains(&line), "{told}");
    }
}
