//! Names, lists of hosts and a server for tests of the network.

use std::future::ready;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use tandem_host::network::HostLists;
use tandem_net::Lookup;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Returns a lookup that gives these addresses in turn, and then the last address for ever. It records the names.
pub fn lookup(answers: &[&str], names: &Arc<Mutex<Vec<String>>>) -> Lookup {
    let answers: Vec<IpAddr> = answers.iter().map(|it| it.parse().unwrap()).collect();
    let names = Arc::clone(names);
    Arc::new(move |name| {
        let mut names = names.lock().unwrap();
        let answer = answers[names.len().min(answers.len() - 1)];
        names.push(name);
        ready(Ok(vec![answer])).boxed()
    })
}

/// Lists that allow a host.
pub fn allowing(pattern: &str) -> HostLists {
    HostLists { allowed: vec![pattern.parse().unwrap()], ..HostLists::default() }
}

/// Starts a server that answers each connection with the head of its request, or else with the first bytes that it
/// reads. Returns its port.
pub async fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = Vec::new();
                while !read.ends_with(b"\r\n\r\n") && stream.read_buf(&mut read).await.unwrap() > 0
                {
                }
                let read = String::from_utf8_lossy(&read).replace("\r\n", "|");
                let length = read.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{read}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    port
}
