//! Settings of the hosts that commands in the sandbox connect to.

use serde_json::json;
use tandem_settings::{SandboxChoice, SandboxNetwork};

use super::{PROJECT, Place, USER, read, trusted};

/// Returns the allowed hosts, and the denied hosts.
fn hosts(network: &SandboxNetwork) -> (Vec<String>, Vec<String>) {
    let list = |hosts: &[_]| hosts.iter().map(ToString::to_string).collect();
    (list(&network.allowed_domains), list(&network.denied_domains))
}

#[test]
fn hosts_are_names_those_below_a_name_and_the_registries() {
    let settings = json!({ "sandbox": { "network": {
        "allowedDomains": ["Example.ORG", "*.b.test", "registries"],
        "deniedDomains": ["bad.test"],
        "allowedPorts": [8080],
        "allowPrivate": true,
    } } });
    let read = read(&Place::new().with(USER, &settings.to_string()));
    let (allowed, denied) = hosts(&read.sandbox.network);
    assert_eq!(allowed[..2], ["example.org", "*.b.test"]);
    assert!(allowed[2].starts_with("registries (crates, "), "{allowed:?}");
    assert_eq!(denied, ["bad.test"]);
    assert_eq!(read.sandbox.network.allowed_ports, [8080]);
    assert!(read.sandbox.network.allow_private);
    assert!(read.remarks().is_empty(), "{:?}", read.remarks());
    // The group `sandbox` has the name that a switch once had. It must not change that switch.
    assert_eq!(read.tools.sandbox, SandboxChoice::default());
}

#[test]
fn what_is_no_host_is_named_by_its_line() {
    for bad in ["https://a.test", "a.test:443", "*", "a b", ""] {
        let settings = json!({ "sandbox": { "network": { "allowedDomains": ["b.test", bad] } } });
        let read = read(&Place::new().with(USER, &settings.to_string()));
        assert_eq!(hosts(&read.sandbox.network).0, [""; 0], "{bad}");
        let [remark] = read.remarks() else { panic!("{bad}: {:?}", read.remarks()) };
        assert!(remark.contains("`sandbox.network.allowedDomains[1]` must be a host"), "{remark}");
    }
}

#[test]
fn a_wrong_list_of_denied_hosts_is_no_empty_one() {
    for bad in [json!(["b.test", "https://a.test"]), json!({ "a.test": true }), json!(3)] {
        let settings = json!({ "sandbox": { "network": { "deniedDomains": bad } } }).to_string();
        for layer in [USER, PROJECT] {
            let read = read(&Place::new().with(layer, &settings));
            assert!(read.sandbox.network.denies_unreadable, "{layer}: {settings}");
        }
    }
    let settings = json!({ "sandbox": { "network": { "deniedDomains": ["b.test"] } } });
    let read = read(&Place::new().with(USER, &settings.to_string()));
    assert!(!read.sandbox.network.denies_unreadable);
}

#[test]
fn a_project_can_only_deny_more_also_if_it_is_trusted() {
    let user = json!({ "sandbox": { "network": {
        "allowedDomains": ["a.test"], "deniedDomains": ["b.test"], "allowPrivate": true,
    } } });
    let project = json!({ "sandbox": { "network": {
        "allowedDomains": ["evil.test"], "deniedDomains": ["a.test"], "allowedPorts": [22],
        "allowPrivate": true,
    } } });
    let place = || Place::new().with(USER, &user.to_string()).with(PROJECT, &project.to_string());
    for read in [read(&place()), read(&trusted(place()))] {
        let (allowed, denied) = hosts(&read.sandbox.network);
        assert_eq!(
            (allowed, denied),
            (vec!["a.test".to_owned()], vec!["b.test".to_owned(), "a.test".to_owned()])
        );
        assert!(read.sandbox.network.allowed_ports.is_empty());
        assert_eq!(read.remarks().len(), 3, "{:?}", read.remarks());
    }
    let strict = json!({ "sandbox": { "network": { "allowPrivate": false } } });
    let place = Place::new().with(USER, &user.to_string()).with(PROJECT, &strict.to_string());
    assert!(!read(&place).sandbox.network.allow_private);
}
