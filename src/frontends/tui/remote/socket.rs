//! One connection to the agent: a WebSocket, and the JSON-RPC calls over it.

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Request, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tokio_util::either::Either;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::agent::{AgentAddress, AttachableAgent};
use tandem_wire::attach::ATTACH_PATH;
use tandem_wire::jsonrpc::{self, Params};
use tandem_wire::rpc::{self, Peer, Responder};

/// Time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Port of https.
const HTTPS_PORT: u16 = 443;

/// Path of the endpoint for clients that speak ACP.
const ACP_PATH: &str = "/acp";

/// Size in bytes of the buffer between the socket and the JSON-RPC calls.
const BUFFER_BYTES: usize = 64 << 10;

/// Reason why there is no connection.
#[derive(Debug)]
pub(super) enum AttachError {
    /// No process listens at the address.
    Nobody,
    /// A further attempt would fail too; the reason.
    Final(String),
    /// A further attempt may succeed; the reason why this attempt failed.
    ForNow(String),
}

impl AttachError {
    /// Returns the reason as a text for the user.
    pub(super) fn why(self, agent: &AttachableAgent) -> String {
        match self {
            Self::Nobody => format!(
                "nothing listens on {agent}: give the port of a tandem that runs, or start one \
                 with `tandem serve`"
            ),
            Self::Final(why) | Self::ForNow(why) => why,
        }
    }
}

/// An open connection.
pub(super) struct SocketConnection {
    /// Caller of the agent's methods.
    pub(super) peer: Peer,
    /// Task that carries the messages. Its result is `true` if the agent has announced its end.
    carrying: AbortOnDropHandle<bool>,
}

impl SocketConnection {
    /// Connects to an agent.
    pub(super) async fn open(agent: &AttachableAgent) -> Result<Self, AttachError> {
        let socket = open_socket(agent, ATTACH_PATH).await?;
        let (mut ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
        let (told, peer) = oneshot::channel();
        let max_line = agent.line_bytes;
        let carrying = tokio::spawn(async move {
            let (input, output) = tokio::io::split(theirs);
            let options = rpc::ConnectionOptions {
                cancellation: true,
                ..rpc::ConnectionOptions::new(max_line)
            };
            let served = rpc::serve(input, output, options, |peer| {
                let _ = told.send(peer);
                RefuseRequests
            });
            tokio::pin!(served);
            let ended = tokio::select! {
                _ = &mut served => return false,
                ended = carry(socket, &mut ours) => ended,
            };
            // The agent's last messages must still be read. Messages to the agent are discarded, so that their sender
            // does not block.
            let _ = ours.shutdown().await;
            let mut nobody = tokio::io::sink();
            let _ = tokio::join!(served, tokio::io::copy(&mut ours, &mut nobody));
            ended
        });
        let gone = |_| AttachError::ForNow(format!("{agent} has closed the connection"));
        let peer = peer.await.map_err(gone)?;
        Ok(Self { peer, carrying: AbortOnDropHandle::new(carrying) })
    }

    /// Waits until the connection is closed; returns whether the agent has announced its end.
    pub(super) async fn closed(&mut self) -> bool {
        (&mut self.carrying).await.unwrap_or(false)
    }
}

/// Connects to the endpoint of an agent for clients that speak ACP. Each line of the stream is a message; the stream
/// ends with the connection. The error is a text for the user.
pub async fn connect_acp(agent: AttachableAgent) -> Result<DuplexStream, String> {
    let socket = open_socket(&agent, ACP_PATH).await.map_err(|failure| failure.why(&agent))?;
    let (ours, mut theirs) = tokio::io::duplex(BUFFER_BYTES);
    tokio::spawn(async move { carry(socket, &mut theirs).await });
    Ok(ours)
}

/// Opens a WebSocket at a path of an agent.
async fn open_socket(
    agent: &AttachableAgent,
    path: &str,
) -> Result<WebSocketStream<AgentStream>, AttachError> {
    let opening = async {
        let stream = connect(agent).await?;
        let most = Some(agent.line_bytes);
        let limits = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
        let opened = client_async_with_config(request(agent, path)?, stream, Some(limits)).await;
        opened.map_err(|err| refused(&err, agent))
    };
    let (socket, _) = timeout(CONNECT_TIMEOUT, opening).await.map_err(|_| {
        AttachError::ForNow(format!("{agent} does not answer within {CONNECT_TIMEOUT:?}"))
    })??;
    Ok(socket)
}

/// Stream of bytes to an agent, with TLS or without.
type AgentStream = Either<TcpStream, TlsStream<TcpStream>>;

async fn connect(agent: &AttachableAgent) -> Result<AgentStream, AttachError> {
    let connected = match &agent.address {
        AgentAddress::Port(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await,
        AgentAddress::Url(url) => {
            TcpStream::connect((host(url), url.port_or_known_default().unwrap_or(HTTPS_PORT))).await
        }
    };
    let stream = connected.map_err(|err| unreachable(&err, agent))?;
    // Small messages must not be delayed: the user waits to see the effect of a key.
    let _ = stream.set_nodelay(true);
    // A port is always one of this machine, so only a URL needs TLS.
    let AgentAddress::Url(url) = &agent.address else { return Ok(Either::Left(stream)) };
    let distrusted = |err: &dyn Error| AttachError::Final(format!("{agent} is not trusted: {err}"));
    let config = tandem_net::tls().map_err(|err| distrusted(&err))?;
    let name = ServerName::try_from(host(url).to_owned()).map_err(|err| distrusted(&err))?;
    let secured = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    secured.map(Either::Right).map_err(|err| match tandem_net::tls_error(&err) {
        Some(tls) => match tandem_net::unknown_authority(&err) {
            Some(advice) => AttachError::Final(format!("{agent} is not trusted: {tls}; {advice}")),
            None => distrusted(tls),
        },
        None => unreachable(&err, agent),
    })
}

/// Returns the host of a URL as the resolver needs it: an IPv6 address without brackets.
fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_matches(['[', ']'])
}

fn request(agent: &AttachableAgent, path: &str) -> Result<Request<()>, AttachError> {
    let url = match &agent.address {
        AgentAddress::Port(port) => format!("ws://127.0.0.1:{port}{path}"),
        AgentAddress::Url(url) => {
            let url = url.as_str().trim_end_matches('/');
            format!("{}{path}", url.replacen("https", "wss", 1))
        }
    };
    let mut request =
        url.into_client_request().map_err(|err| AttachError::Final(err.to_string()))?;
    if let Some(token) = &agent.token {
        let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
        let bearer = bearer.map_err(|_| {
            AttachError::Final("the A2A token has characters that cannot be sent".to_owned())
        })?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    Ok(request)
}

fn unreachable(err: &io::Error, agent: &AttachableAgent) -> AttachError {
    if err.kind() == io::ErrorKind::ConnectionRefused {
        return AttachError::Nobody;
    }
    AttachError::ForNow(format!("{agent} cannot be reached: {err}"))
}

/// Returns the reason why the agent refused the WebSocket handshake.
fn refused(err: &tungstenite::Error, agent: &AttachableAgent) -> AttachError {
    let tungstenite::Error::Http(response) = err else {
        // An agent that is ending closes the connection within the handshake.
        let other = match err {
            tungstenite::Error::Protocol(error) => *error != ProtocolError::HandshakeIncomplete,
            tungstenite::Error::HttpFormat(_) => true,
            _ => false,
        };
        let why = format!("{agent} does not answer as an agent does: {err}");
        return if other { AttachError::Final(why) } else { AttachError::ForNow(why) };
    };
    match response.status() {
        StatusCode::UNAUTHORIZED if agent.token.is_some() => AttachError::Final(format!(
            "the agent on {agent} does not accept this token. Give the token that the agent was started with, or one \
             of `tandem serve token add` there, by --a2a-token-file FILE or TANDEM_A2A_TOKEN"
        )),
        StatusCode::UNAUTHORIZED => AttachError::Final(format!(
            "the agent on {agent} wants a token, and none was sent. Give the token that the agent was started with, or \
             one of `tandem serve token add` there, by --a2a-token-file FILE or TANDEM_A2A_TOKEN"
        )),
        // A proxy sends these too, while the agent behind it is being restarted.
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            AttachError::ForNow(format!("{agent} is busy: try again later"))
        }
        status => AttachError::Final(format!(
            "the program that listens on {agent} lets no terminal attach ({status}): is it a tandem of this \
             version?"
        )),
    }
}

/// Carries lines between the JSON-RPC calls and the socket until either side ends; returns whether the agent has
/// announced its end.
async fn carry(socket: WebSocketStream<AgentStream>, stream: &mut DuplexStream) -> bool {
    let (mut out, mut input) = socket.split();
    let (from, mut to) = tokio::io::split(stream);
    let reading = async {
        loop {
            match input.next().await {
                Some(Ok(Message::Text(text))) => {
                    let line = text.replace(['\r', '\n'], " ") + "\n";
                    if to.write_all(line.as_bytes()).await.is_err() {
                        return false;
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    return frame.is_some_and(|frame| frame.code == CloseCode::Away);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return false,
            }
        }
    };
    let writing = async {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if out.send(Message::text(line)).await.is_err() {
                // `reading` ends the connection: lines that the agent sent before may still arrive.
                return std::future::pending().await;
            }
        }
        // The caller has closed its end, so nothing has to be read any more.
        false
    };
    tokio::select! {
        ended = reading => ended,
        ended = writing => ended,
    }
}

/// Handler that refuses all requests: the agent must not call methods of this terminal.
struct RefuseRequests;

impl rpc::Handler for RefuseRequests {
    fn request(&self, method: &str, _: Params<'_>, responder: Responder) {
        responder.send(Err::<(), _>(jsonrpc::Error::method_not_found(method)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: ProtocolError, is_final: bool) {
        let address = AgentAddress::Port(1);
        let agent = AttachableAgent { address, token: None, line_bytes: 1 };
        let failure = refused(&tungstenite::Error::Protocol(error), &agent);
        assert_eq!(matches!(failure, AttachError::Final(_)), is_final);
    }

    #[test]
    fn an_agent_that_hangs_up_within_the_handshake_is_tried_again() {
        check(ProtocolError::HandshakeIncomplete, false);
        check(ProtocolError::WrongHttpMethod, true);
    }
}
