//! The proxy of commands in the sandbox, from the side of a client.

mod limits;
mod upstream;

use std::future::ready;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use tandem_host::network::{
    Admission, Connect, Destination, HostLists, NetworkAccess, NetworkProxy, NetworkSetup,
};
use tandem_net::Reach;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use test_support::limit::HANG;
use test_support::network::{allowing, echo, lookup};

/// A proxy, and a command that uses it.
struct Stage {
    proxy: NetworkProxy,
    /// Port of the proxy.
    port: u16,
    access: Arc<NetworkAccess>,
    /// Names that were looked up.
    names: Arc<Mutex<Vec<String>>>,
    /// Destinations that were decided on, and whether the settings allow them.
    asked: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Stage {
    /// Returns a stage where every name leads to this machine. `server`: port of a server that can be reached.
    fn new(server: u16, admission: Admission) -> Self {
        Self::with(server, &["127.0.0.1"], admission, |setup| setup)
    }

    fn with(
        server: u16,
        found: &[&str],
        admission: Admission,
        change: impl FnOnce(NetworkSetup) -> NetworkSetup,
    ) -> Self {
        let names = Arc::default();
        let listener = StdListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let setup = change(NetworkSetup {
            ports: vec![server],
            reach: Reach::Loopback,
            lookup: lookup(found, &names),
            ..NetworkSetup::default()
        });
        let proxy = NetworkProxy::start(listener, Arc::new(setup)).unwrap();
        let access = proxy.register();
        let asked = Arc::<Mutex<Vec<(String, bool)>>>::default();
        let connect: Connect = {
            let asked = Arc::clone(&asked);
            Arc::new(move |destination: Destination, is_allowed| {
                asked.lock().unwrap().push((destination.to_string(), is_allowed));
                ready(admission.clone()).boxed()
            })
        };
        access.decide_by(connect);
        Self { proxy, port, access, names, asked }
    }

    async fn connection(&self) -> TcpStream {
        TcpStream::connect((self.access.address(), self.port)).await.unwrap()
    }

    /// Sends these bytes, and returns the whole answer.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connection().await;
        stream.write_all(bytes).await.unwrap();
        read(stream).await
    }

    /// Asks for a tunnel. If the proxy opens one, sends a request through it.
    async fn tunnel(&self, target: &str) -> String {
        let mut stream = self.connection().await;
        stream.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        if head.starts_with("HTTP/1.1 200 ") {
            stream.write_all(b"GET /in/the/tunnel HTTP/1.1\r\n\r\n").await.unwrap();
        }
        head + &read(stream).await
    }

    fn asked(&self) -> Vec<(String, bool)> {
        self.asked.lock().unwrap().clone()
    }

    fn names(&self) -> Vec<String> {
        self.names.lock().unwrap().clone()
    }
}

/// Reads until the connection ends.
async fn read(mut stream: TcpStream) -> String {
    let mut read = Vec::new();
    timeout(HANG, stream.read_to_end(&mut read)).await.expect("it hangs").unwrap();
    String::from_utf8_lossy(&read).into_owned()
}

fn admitted() -> Admission {
    Admission::Admitted
}

fn refused() -> Admission {
    Admission::Refused("the user did not allow it".to_owned())
}

#[tokio::test]
async fn a_host_that_is_admitted_is_reached_by_connect_and_by_plain_requests() {
    let server = echo().await;
    let stage = Stage::new(server, admitted());
    let tunnel = stage.tunnel(&format!("Good.test:{server}")).await;
    assert!(tunnel.starts_with("HTTP/1.1 200 "), "{tunnel}");
    assert!(tunnel.ends_with("GET /in/the/tunnel HTTP/1.1||"), "{tunnel}");
    let request = format!("GET http://good.test:{server}/a HTTP/1.1\r\nHost: other.test\r\n\r\n");
    let plain = stage.send(request.as_bytes()).await;
    let sent = format!("GET /a HTTP/1.1|Host: good.test:{server}|Connection: close||");
    assert!(plain.starts_with("HTTP/1.1 200 ") && plain.ends_with(&sent), "{plain}");
    // The second request goes to the same host and port, so the policy was asked only once.
    assert_eq!(stage.asked(), [(format!("good.test:{server}"), false)]);
    assert_eq!(stage.names(), ["good.test", "good.test"]);
    assert_eq!(stage.access.blocked(), []);
}

#[tokio::test]
async fn a_host_that_is_refused_gets_403_and_its_name_is_not_even_resolved() {
    let server = echo().await;
    let stage = Stage::new(server, refused());
    for told in ["bad.test (the user did not allow it)", "before", "before"] {
        let answer = stage.tunnel(&format!("bad.test:{server}")).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("\r\n\r\nblocked by the sandbox"), "{answer}");
        assert!(answer.ends_with(&format!("{told}\n")), "{answer}");
    }
    let plain =
        stage.send(format!("GET http://bad.test:{server}/ HTTP/1.1\r\n\r\n").as_bytes()).await;
    assert!(plain.starts_with("HTTP/1.1 403 "), "{plain}");
    assert_eq!(stage.asked().len(), 1);
    assert_eq!(stage.names(), [""; 0]);
    let blocked = stage.access.blocked();
    assert_eq!(blocked.len(), 1);
    assert_eq!(blocked[0].host, format!("bad.test:{server}"));
}

#[tokio::test]
async fn what_the_settings_say_counts_first() {
    let server = echo().await;
    let pattern = |text: &str| text.parse().unwrap();
    let stage = Stage::with(server, &["127.0.0.1"], refused(), |setup| NetworkSetup {
        lists: HostLists {
            allowed: vec![pattern("*.good.test")],
            denied: vec![pattern("bad.good.test")],
            ..HostLists::default()
        },
        reach_of_allowed: Reach::Private,
        ..setup
    });
    let denied = stage.tunnel(&format!("bad.good.test:{server}")).await;
    assert!(
        denied.contains("(`sandbox.network.deniedDomains` in the settings denies it)"),
        "{denied}"
    );
    assert_eq!(stage.asked(), []);
    // The settings allow the host (`true`), but the policy still decides.
    stage.tunnel(&format!("a.good.test:{server}")).await;
    assert_eq!(stage.asked(), [(format!("a.good.test:{server}"), true)]);
    let port = stage.tunnel("a.good.test:22").await;
    assert!(port.contains("port 22") && port.contains("`sandbox.network.allowedPorts`"), "{port}");
}

#[tokio::test]
async fn without_anybody_who_decides_only_allowed_hosts_are_reached() {
    let server = echo().await;
    let stage = Stage::with(server, &["127.0.0.1"], admitted(), |setup| NetworkSetup {
        lists: allowing("good.test"),
        reach_of_allowed: Reach::Loopback,
        ..setup
    });
    // No command has this source address, so no policy can be asked.
    let ask = async |host: &str| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, stage.port)).await.unwrap();
        let request = format!("GET http://{host}:{server}/ HTTP/1.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        read(stream).await
    };
    assert!(ask("good.test").await.starts_with("HTTP/1.1 200 "));
    let other = ask("other.test").await;
    assert!(other.starts_with("HTTP/1.1 403 "), "{other}");
    assert!(other.contains("`sandbox.network.allowedDomains` does not name it"), "{other}");
    // The address of a command that has ended is treated in the same way.
    let address = stage.access.address();
    let Stage { proxy: _proxy, port, access, .. } = stage;
    drop(access);
    let mut stream = TcpStream::connect((address, port)).await.unwrap();
    stream
        .write_all(format!("CONNECT other.test:{server} HTTP/1.1\r\n\r\n").as_bytes())
        .await
        .unwrap();
    assert!(read(stream).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn addresses_inside_are_out_of_reach_however_they_are_written() {
    let server = echo().await;
    let public = |setup| NetworkSetup { reach: Reach::Public, ..setup };
    for host in [
        "127.0.0.1",
        "localhost",
        "a.localhost",
        "LOCALHOST.",
        "[::1]",
        "0x7f.1",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "192.168.1.1",
    ] {
        let stage = Stage::with(server, &["127.0.0.1"], admitted(), public);
        for target in [format!("{host}:443"), format!("{host}:{server}")] {
            let answer = stage.tunnel(&target).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{target}: {answer}");
        }
        assert_eq!((stage.asked(), stage.names()), (Vec::new(), Vec::new()), "{host}");
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_out_of_reach_though_it_is_admitted() {
    let server = echo().await;
    for inside in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"]
    {
        let public = |setup| NetworkSetup { reach: Reach::Public, ..setup };
        let stage = Stage::with(server, &[inside], admitted(), public);
        let answer = stage.tunnel(&format!("inside.test:{server}")).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{inside}: {answer}");
        assert!(answer.contains("it leads to"), "{inside}: {answer}");
        assert_eq!(stage.access.blocked().len(), 1);
    }
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_the_next_time_is_checked_each_time() {
    let server = echo().await;
    // In this test, the loopback address stands for a public address.
    let stage = Stage::with(server, &["127.0.0.1", "10.0.0.1"], admitted(), |setup| setup);
    let target = format!("rebinding.test:{server}");
    assert!(stage.tunnel(&target).await.starts_with("HTTP/1.1 200 "));
    let second = stage.tunnel(&target).await;
    assert!(second.contains("it leads to 10.0.0.1, a private address"), "{second}");
    // Each connection looks up the name once, so the checked address is the address that is connected to.
    assert_eq!(stage.names().len(), 2);
}

#[tokio::test]
async fn allowed_hosts_may_lead_inside_where_the_settings_say_so() {
    let server = echo().await;
    let stage = Stage::with(server, &["127.0.0.1"], admitted(), |setup| NetworkSetup {
        lists: allowing("registry.test"),
        reach: Reach::Public,
        reach_of_allowed: Reach::Private,
        ..setup
    });
    assert!(stage.tunnel(&format!("registry.test:{server}")).await.starts_with("HTTP/1.1 200 "));
    assert!(stage.tunnel(&format!("other.test:{server}")).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn a_host_that_cannot_be_reached_is_no_host_that_is_blocked() {
    let closed = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let stage = Stage::new(port, admitted());
    let answer = stage.tunnel(&format!("gone.test:{port}")).await;
    assert!(
        answer.starts_with("HTTP/1.1 502 ") && answer.contains("cannot be reached"),
        "{answer}"
    );
    assert_eq!(stage.access.blocked(), []);
}
