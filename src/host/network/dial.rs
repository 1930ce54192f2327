//! Connections to hosts. A name is resolved once, its addresses are checked, and only a checked address is connected
//! to.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tandem_net::judge;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::hosts::Destination;
use super::setup::NetworkSetup;
use super::upstream;

/// Maximum number of addresses that are tried for one connection.
const MAX_TRIED_ADDRESSES: usize = 8;

/// Reason why a connection could not be made.
#[derive(Debug)]
pub(super) enum DialError {
    /// All addresses of the host are forbidden to commands in the sandbox; the kind of address, in words.
    OutOfReach(String),
    /// The host cannot be reached; the reason.
    Failed(String),
}

/// Connects to a host that is allowed, through the agent's own upstream proxy if there is one.
pub(super) async fn dial(
    setup: &NetworkSetup,
    destination: &Destination,
) -> Result<TcpStream, DialError> {
    if let Some(proxy) = setup.proxies.for_destination(destination) {
        // The upstream proxy resolves the name itself, so the addresses that it uses cannot be checked here. A name
        // that is known here to lead to a forbidden address is refused.
        if let Err(DialError::OutOfReach(why)) = addresses(setup, destination).await {
            return Err(DialError::OutOfReach(why));
        }
        let connecting = timeout(setup.limits.connect_time, upstream::connect(&proxy, destination));
        let connected = connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        return connected.map_err(|error| DialError::Failed(error.to_string()));
    }
    let addresses = addresses(setup, destination).await?;
    let mut last = None;
    for address in addresses.into_iter().take(MAX_TRIED_ADDRESSES) {
        let address = SocketAddr::new(address, destination.port);
        match timeout(setup.limits.connect_time, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = Some(error),
            Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
        }
    }
    Err(DialError::Failed(last.map_or_else(|| "it has no address".to_owned(), |it| it.to_string())))
}

/// Returns the addresses of a host, without forbidden addresses.
async fn addresses(
    setup: &NetworkSetup,
    destination: &Destination,
) -> Result<Vec<IpAddr>, DialError> {
    let reach = setup.reach_of(destination);
    let resolved = match destination.address() {
        Some(address) => vec![address],
        None => match timeout(setup.limits.connect_time, (setup.lookup)(destination.host.clone()))
            .await
        {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(DialError::Failed(error.to_string())),
            Err(_) => {
                return Err(DialError::Failed("its name was not resolved in time".to_owned()));
            }
        },
    };
    let mut refused = None;
    let mut within = Vec::new();
    for address in resolved {
        match judge(address, reach) {
            Ok(()) => within.push(address),
            Err(is) => refused = Some(format!("it leads to {address}, {is}")),
        }
    }
    match refused {
        Some(why) if within.is_empty() => Err(DialError::OutOfReach(why)),
        _ => Ok(within),
    }
}
