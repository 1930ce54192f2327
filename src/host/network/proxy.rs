//! The proxy: an HTTP server for the commands of one session, which connects to the hosts that they may reach.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener as StdListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use memchr::memmem;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::access::NetworkAccess;
use super::dial::{DialError, dial};
use super::hosts::Destination;
use super::relay::{Halves, exchange, tunnel};
use super::request::{self, ProxyRequest};
use super::setup::NetworkSetup;

/// Bytes at the end of a request's head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Delay before the next attempt after an error of `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum time, and number of bytes, for reading the rest of a request that was answered with an error.
const MAX_FAREWELL_TIME: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: u64 = 256 << 10;

/// First loopback address for commands, `127.1.0.0`, and number of addresses from there on. Programs use other loopback
/// addresses, such as `127.0.0.1`.
const FIRST_COMMAND_ADDRESS: u32 = 0x7f01_0000;
const COMMAND_ADDRESS_COUNT: u32 = 0x00f0_0000;

/// The proxy of one session. All its connections are closed when it is dropped.
pub struct NetworkProxy {
    setup: Arc<NetworkSetup>,
    commands: Arc<Commands>,
    /// Number of commands that were registered.
    count: AtomicU32,
    _accepting: AbortOnDropHandle<()>,
}

/// Running commands, by the address at which each finds the proxy.
type Commands = Mutex<HashMap<Ipv4Addr, Weak<NetworkAccess>>>;

impl NetworkProxy {
    /// Starts serving on a socket that listens on all loopback addresses.
    pub fn start(listener: StdListener, setup: Arc<NetworkSetup>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let commands = Arc::<Commands>::default();
        let accepting = accept(listener, Arc::clone(&setup), Arc::clone(&commands));
        let accepting = AbortOnDropHandle::new(tokio::spawn(accepting));
        Ok(Self { setup, commands, count: AtomicU32::new(0), _accepting: accepting })
    }

    /// Registers a command, at a loopback address of its own.
    pub fn register(&self) -> Arc<NetworkAccess> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) % COMMAND_ADDRESS_COUNT;
        let address = Ipv4Addr::from_bits(FIRST_COMMAND_ADDRESS + number);
        let access = Arc::new(NetworkAccess::new(address, Arc::clone(&self.setup)));
        let mut commands = self.commands.lock();
        commands.retain(|_, access| access.strong_count() > 0);
        commands.insert(address, Arc::downgrade(&access));
        access
    }
}

async fn accept(listener: TcpListener, setup: Arc<NetworkSetup>, commands: Arc<Commands>) {
    // Stands in for the command of a connection whose address has no running command.
    let nobody = Arc::new(NetworkAccess::new(Ipv4Addr::LOCALHOST, Arc::clone(&setup)));
    let permits = Arc::new(Semaphore::new(setup.limits.connections));
    let mut connections = JoinSet::new();
    loop {
        // A permit is taken before a connection is accepted: connections beyond the limit wait in the kernel's queue.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the proxy of the sandbox accepts no connection");
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let access = stream.local_addr().ok().and_then(|address| match address.ip() {
            IpAddr::V4(address) => commands.lock().get(&address).and_then(Weak::upgrade),
            IpAddr::V6(_) => None,
        });
        let access = access.unwrap_or_else(|| Arc::clone(&nobody));
        let setup = Arc::clone(&setup);
        connections.spawn(async move {
            if let Err(error) = serve(stream, &setup, access).await {
                tracing::debug!(%error, "a connection of the sandbox's proxy has ended");
            }
            drop(permit);
        });
    }
}

/// Serves one connection, which carries one request.
async fn serve(
    mut client: TcpStream,
    setup: &NetworkSetup,
    access: Arc<NetworkAccess>,
) -> io::Result<()> {
    let _ = client.set_nodelay(true);
    let head = timeout(setup.limits.head_time, read_head(&mut client, setup.limits.head_bytes));
    let (head, rest) = match head.await {
        Err(_) => return refuse(client, "408 Request Timeout", "the request took too long").await,
        Ok(Ok(Head::Whole(head, rest))) => (head, rest),
        Ok(Ok(Head::TooLong)) => {
            let status = "431 Request Header Fields Too Large";
            return refuse(client, status, "the head of the request is too long").await;
        }
        Ok(Err(error)) => return Err(error),
    };
    let request = match request::read(&head) {
        Ok(request) => request,
        Err(why) => return refuse(client, "400 Bad Request", why).await,
    };
    let connected = connect(setup, &access, request.destination()).await;
    // The command's registration may end now, as the connection has been decided on.
    drop(access);
    let mut server = match connected {
        Ok(server) => server,
        Err((status, why)) => return refuse(client, status, &why).await,
    };
    let idle = setup.limits.idle;
    match request {
        ProxyRequest::Tunnel(_) => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            let (reader, writer) = client.split();
            let client = Halves { reader: rest.chain(reader), writer };
            tunnel(client, server.split().into(), idle).await
        }
        ProxyRequest::Forward { head, body, .. } => {
            let body = body.after(head.len());
            let (reader, writer) = client.split();
            let reader = io::Cursor::new(head).chain(rest).chain(reader);
            exchange(Halves { reader, writer }, server.split().into(), body, idle).await
        }
    }
}

/// Connects to a host if that is allowed. The error is an HTTP status and a text for the client.
async fn connect(
    setup: &NetworkSetup,
    access: &NetworkAccess,
    destination: &Destination,
) -> Result<TcpStream, (&'static str, String)> {
    let host = &destination.host;
    let blocked = |told: String| ("403 Forbidden", told);
    access.admit(destination).await.map_err(blocked)?;
    dial(setup, destination).await.map_err(|error| match error {
        DialError::OutOfReach(why) => blocked(access.block(destination, &why)),
        DialError::Failed(why) => ("502 Bad Gateway", format!("{host} cannot be reached: {why}")),
    })
}

/// First bytes of a connection.
enum Head {
    /// The head of a request with its end, and the bytes that were read after it.
    Whole(Vec<u8>, io::Cursor<Vec<u8>>),
    TooLong,
}

async fn read_head(client: &mut TcpStream, most: usize) -> io::Result<Head> {
    let mut bytes = Vec::new();
    loop {
        let seen = bytes.len().saturating_sub(HEAD_END.len());
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(at) = memmem::find(&bytes[seen..], HEAD_END) {
            let rest = bytes.split_off(seen + at + HEAD_END.len());
            return Ok(Head::Whole(bytes, io::Cursor::new(rest)));
        }
        if bytes.len() > most {
            return Ok(Head::TooLong);
        }
    }
}

/// Answers with an error, and closes the connection.
async fn refuse(mut client: TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{why}\n"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await?;
    // The rest of the request is read first: if the connection were closed while the client sends, the client would
    // lose the answer.
    let (mut rest, mut sink) = (client.take(FAREWELL_BYTES), tokio::io::sink());
    let _ = timeout(MAX_FAREWELL_TIME, tokio::io::copy(&mut rest, &mut sink)).await;
    Ok(())
}
