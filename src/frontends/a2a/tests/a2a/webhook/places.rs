//! Addresses that push notifications may go to, as far as the address itself shows.

use expect_test::expect;
use tandem_a2a::webhook::{check as check_url, check_header};

#[track_caller]
fn check(url: &str, allow_loopback: bool, expected: Result<&str, &str>) {
    let checked = check_url(url, allow_loopback).map(|target| target.to_string());
    match (&checked, expected) {
        (Ok(shown), Ok(expected)) => assert_eq!(shown, expected, "{url}"),
        (Err(why), Err(expected)) => assert!(why.contains(expected), "{url}: {why}"),
        _ => panic!("{url}: {checked:?}, expected {expected:?}"),
    }
}

#[test]
fn a_webhook_in_the_open_is_accepted_and_shown_without_its_path() {
    check("https://example.com/hook?key=secret#x", false, Ok("https://example.com:443"));
    check("http://EXAMPLE.com:8080", false, Ok("http://example.com:8080"));
    check("https://93.184.215.14/x", false, Ok("https://93.184.215.14:443"));
    check("https://[2606:4700::1111]/x", false, Ok("https://[2606:4700::1111]:443"));
    check("https://localhost.example.com", false, Ok("https://localhost.example.com:443"));
    // These addresses lie just beside refused ranges.
    for near in ["9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"] {
        check(&format!("http://{near}/"), false, Ok(&format!("http://{near}:80")));
    }
    for near in ["172.15.0.1", "172.32.0.1", "192.167.1.1", "198.17.0.1", "198.20.0.1"] {
        check(&format!("http://{near}/"), false, Ok(&format!("http://{near}:80")));
    }
    for near in ["[2001:200::1]", "[2001:db9::1]", "[::ffff:808:808]", "[64:ff9b::808:808]"] {
        check(&format!("http://{near}/"), false, Ok(&format!("http://{near}:80")));
    }
    check("http://[2002:808:808::1]", false, Ok("http://[2002:808:808::1]:80"));
}

#[test]
fn what_is_no_address_of_a_web_server_is_refused() {
    check("", false, Err("address is not a URL"));
    check("/hook", false, Err("address is not a URL"));
    check("http://", false, Err("address is not a URL"));
    check("http://1.2.3.4.5/", false, Err("address is not a URL"));
    check("ftp://example.com/", false, Err("not with ftp"));
    check("file:///etc/passwd", false, Err("not with file"));
    check("javascript:alert(1)", false, Err("not with javascript"));
    check("unix:/run/docker.sock", false, Err("not with unix"));
    check("https://user@example.com/", false, Err("user name"));
    check("https://user:secret@example.com/", false, Err("user name"));
    check("https://:secret@example.com/", false, Err("user name"));
    check(&format!("https://example.com/{}", "x".repeat(4096)), false, Err("longer than 4096"));
}

#[test]
fn addresses_inside_a_network_are_refused_even_where_loopback_is_allowed() {
    for (host, why) in [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "reserved"),
        ("10.0.0.1", "private"),
        ("10.255.255.255", "private"),
        ("100.64.0.1", "shares"),
        ("100.100.100.200", "a cloud"),
        ("100.127.255.255", "shares"),
        ("168.63.129.16", "a cloud"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.192", "reserved"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "reserved"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "benchmarks"),
        ("198.19.255.255", "benchmarks"),
        ("198.51.100.7", "documentation"),
        ("203.0.113.7", "documentation"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("[::]", "unspecified"),
        ("[100::1]", "reserved"),
        ("[2001::1]", "reserved"),
        ("[2001:2::1]", "benchmarks"),
        ("[2001:db8::1]", "documentation"),
        ("[3fff::1]", "documentation"),
        ("[4000::1]", "reserved"),
        ("[fc00::1]", "private"),
        ("[fd00:ec2::254]", "a cloud"),
        ("[fd00:ec2::23]", "a cloud"),
        ("[fd20:ce::254]", "a cloud"),
        ("[fe80::1]", "link-local"),
        ("[febf::1]", "link-local"),
        ("[fec0::1]", "private"),
        ("[ff02::1]", "multicast"),
        ("[64:ff9b:1::808:808]", "reserved"),
        // Addresses of IPv4 in forms of IPv6.
        ("[::ffff:10.0.0.1]", "another form of 10.0.0.1, a private"),
        ("[::ffff:127.0.0.1]", "another form of 127.0.0.1"),
        ("[::ffff:0:0]", "another form of 0.0.0.0"),
        ("[::ffff:a9fe:a9fe]", "another form of 169.254.169.254"),
        ("[::127.0.0.1]", "another form of 127.0.0.1"),
        ("[::192.168.0.1]", "another form of 192.168.0.1"),
        ("[::8.8.8.8]", "reserved"),
        ("[2002:7f00:1::]", "another form of 127.0.0.1"),
        ("[2002:a9fe:a9fe::1]", "another form of 169.254.169.254"),
        ("[64:ff9b::10.0.0.1]", "another form of 10.0.0.1"),
        ("[64:ff9b::7f00:1]", "another form of 127.0.0.1"),
        // Addresses of IPv4 in unusual forms.
        ("0xa9fea9fe", "169.254.169.254, because this host is a link-local"),
        ("2852039166", "169.254.169.254, because this host is a link-local"),
        ("0xa.1", "10.0.0.1, because this host is a private"),
        ("012.0.0.1", "10.0.0.1, because this host is a private"),
        ("192.168.257", "192.168.1.1, because this host is a private"),
        ("0", "0.0.0.0, because this host is an unspecified"),
        ("%31%30.0.0.1", "10.0.0.1, because this host is a private"),
        ("１０。0。0。1", "10.0.0.1, because this host is a private"),
        ("10.0.0.1.", "10.0.0.1, because this host is a private"),
    ] {
        for allow_loopback in [false, true] {
            check(&format!("http://{host}/hook"), allow_loopback, Err(why));
            check(&format!("https://{host}:8443"), allow_loopback, Err(why));
        }
    }
}

#[test]
fn this_machine_is_refused_unless_it_is_allowed() {
    for (host, shown) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1.2.3", "127.1.2.3"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("localhost", "localhost"),
        ("LOCALHOST", "localhost"),
        ("localhost.", "localhost."),
        ("a.b.localhost", "a.b.localhost"),
    ] {
        let url = format!("http://{host}:9/hook");
        check(&url, false, Err("this machine itself"));
        check(&url, true, Ok(&format!("http://{shown}:9")));
    }
}

#[test]
fn a_token_that_no_header_can_have_is_refused_without_saying_it() {
    assert_eq!(check_header("X-A2A-Notification-Token", "a b=c"), Ok(()));
    let error = check_header("X-A2A-Notification-Token", "secret\r\nHost: x").unwrap_err();
    expect!["The header `X-A2A-Notification-Token` cannot be sent."].assert_eq(&error);
}
