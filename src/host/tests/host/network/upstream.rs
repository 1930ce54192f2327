//! Machines that reach the network through an upstream proxy.

use tandem_host::network::UpstreamProxies;

use super::*;

/// Returns a stage behind an upstream proxy.
fn behind(proxy: &str, server: u16, found: &[&str]) -> Stage {
    let proxies = UpstreamProxies::all(proxy);
    Stage::with(server, found, admitted(), |setup| NetworkSetup { proxies, ..setup })
}

#[tokio::test]
async fn connections_go_by_the_proxy_that_the_environment_names() {
    let server = echo().await;
    let outer = Stage::with(server, &["127.0.0.1"], refused(), |setup| NetworkSetup {
        lists: allowing("good.test"),
        reach_of_allowed: Reach::Loopback,
        ..setup
    });
    let stage = behind(&format!("http://127.0.0.1:{}", outer.port), server, &["127.0.0.1"]);
    let tunnel = stage.tunnel(&format!("good.test:{server}")).await;
    assert!(tunnel.ends_with("GET /in/the/tunnel HTTP/1.1||"), "{tunnel}");
    let request = format!("GET http://good.test:{server}/a HTTP/1.1\r\n\r\n");
    let plain = stage.send(request.as_bytes()).await;
    assert!(plain.contains(&format!("GET /a HTTP/1.1|Host: good.test:{server}|")), "{plain}");
    assert_eq!(outer.names(), ["good.test", "good.test"]);
    let other = stage.tunnel(&format!("other.test:{server}")).await;
    assert!(other.starts_with("HTTP/1.1 502 "), "{other}");
    assert!(other.contains("the environment's proxy answers 403"), "{other}");
}

#[tokio::test]
async fn a_name_that_is_known_to_lead_inside_is_refused_there_too() {
    let server = echo().await;
    let stage = behind("http://127.0.0.1:9", server, &["10.0.0.1"]);
    let answer = stage.tunnel(&format!("inside.test:{server}")).await;
    assert!(answer.contains("it leads to 10.0.0.1, a private address"), "{answer}");
}

#[tokio::test]
async fn the_proxy_is_told_its_password_and_one_of_another_kind_is_refused() {
    let server = echo().await;
    let proxy = echo().await;
    let stage = behind(&format!("http://me:secret@127.0.0.1:{proxy}"), server, &["127.0.0.1"]);
    // The test's proxy answers with the head of the request.
    let tunnel = stage.tunnel(&format!("good.test:{server}")).await;
    let sent = format!(
        "CONNECT good.test:{server} HTTP/1.1|Host: good.test:{server}|\
         Proxy-Authorization: Basic bWU6c2VjcmV0||"
    );
    assert!(tunnel.contains(&sent), "{tunnel}");
    let stage = behind("socks5://127.0.0.1:9", server, &["127.0.0.1"]);
    let answer = stage.tunnel(&format!("good.test:{server}")).await;
    assert!(answer.contains("does not have an `http:` address"), "{answer}");
}
