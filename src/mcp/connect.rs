//! Connects to a server, as a program or over HTTP, up to the end of the handshake.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{StatusCode, Url};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, Implementation, ProtocolVersion, RootsCapabilities,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService,
};
use rmcp::transport::AuthClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use rmcp::transport::{IntoTransport, Transport};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::auth;
use super::config::{ServerConfig, ServerReach, has_token};
use super::connection::{Notifications, ServerConnection};
use super::context::HubContext;
use super::error_text::{NO_MESSAGE, causes, discreet, http_status, unreachable};
use super::http::{self, Headers, OLD_TRANSPORT_ERROR, SessionAwareClient, is_old};
use super::lines::Capped;
use super::listener::{ListChanges, Listener};
use parking_lot::Mutex;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_host::command_sandbox::{Confinement, RunsOn};
use tandem_host::terminals::{Program, ProgramHandle};
use tandem_net::{self as net, Backoff};

/// Maximum time to wait for the exit status of a program that has closed its connection.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of bytes at the end of a program's standard error that are kept.
const LAST_WORDS: usize = 2048;

/// Beginning of rmcp's own message about a server that has refused the handshake of the newer versions.
const DISCOVERY_REJECTED: &str = "server/discover rejected with ";

/// Maximum number of characters of an output or a response that people are shown.
const MAX_SHOWN_CHARS: usize = 300;

/// Maximum number of reconnects of a message stream that broke off.
const MAX_STREAM_RECONNECTS: u32 = 5;

/// Delays before these reconnects.
const STREAM_RECONNECT_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_secs(1), Duration::from_secs(16));

/// Message about a server whose program is not the program to which the user has agreed.
const CHANGED_ERROR: &str = "is not started: the programs that its folder's settings name have changed since you \
    trusted them. You are asked again with your next prompt; `/permissions trust` trusts them now";

/// The connection to a server that is ready.
pub(super) struct LiveConnection {
    pub(super) connection: Arc<ServerConnection>,
    /// Ends the connection when dropped.
    pub(super) service: RunningService<RoleClient, Listener>,
    /// Process of the server; empty for a web service.
    pub(super) body: ServerProcess,
}

/// Process of a server, if it is a program.
#[derive(Default)]
pub(super) struct ServerProcess {
    life: Option<ProgramHandle>,
    /// Note that this program runs in the sandbox, which is dropped with the process.
    _runs_on: Option<RunsOn>,
    /// End of the program's standard error.
    said: Arc<Mutex<Vec<u8>>>,
    _reading: Option<AbortOnDropHandle<()>>,
}

/// Cause that keeps a server from being ready.
#[derive(Debug)]
pub(super) enum ReachError {
    /// A retry may help.
    Passing(String),
    /// A retry does not help.
    Lasting(String),
    /// The server wants the user to log in.
    Login(String),
    /// The server has changed since the user agreed to it, so the user has to agree again.
    Held(String),
    /// The server knows only the other handshake: that of the protocol's versions since 2026.
    OtherWay,
}

/// Connects to a server. Changes of the server's lists are noted in `changes` from then on. With `discover`, the
/// handshake is that of the protocol's versions since 2026.
pub(super) async fn connect(
    config: &ServerConfig,
    context: &HubContext,
    changes: &watch::Sender<ListChanges>,
    discover: bool,
) -> Result<LiveConnection, ReachError> {
    let hearing = Arc::<Notifications>::default();
    let listener = Listener {
        server: config.name.clone(),
        info: about_us(),
        roots: context.roots.clone(),
        hearing: Arc::clone(&hearing),
        changes: changes.clone(),
    };
    let how = Handshake {
        patience: config.timeout.unwrap_or(context.limits.call),
        discover,
        is_confined: config.confined.is_some(),
        url: match &config.reach {
            ServerReach::Http { url, .. } => Url::parse(url).ok(),
            ServerReach::Stdio(_) | ServerReach::Wrong(_) => None,
        },
    };
    match &config.reach {
        ServerReach::Wrong(why) => Err(ReachError::Lasting(why.clone())),
        ServerReach::Stdio(program) => {
            let confinement = prepare(config, context).await?;
            let sandbox = confinement.as_ref();
            let (transport, mut body) = start(program, config, context, &hearing, sandbox)?;
            let shook = shake_hands(listener, transport, how).await;
            match shook {
                Ok(live) => Ok(LiveConnection { body, ..live }),
                Err(ReachError::Passing(why)) => Err(ReachError::Passing(body.end(&why).await)),
                Err(trouble) => Err(trouble),
            }
        }
        ServerReach::Http { url, headers } => {
            check_consent(config, context).await?;
            let network = context.network(config);
            let client = http::client(url, &network).map_err(ReachError::Lasting)?;
            let known = if has_token(headers) {
                None
            } else {
                auth::manager(url, &context.logins, &network).await.map_err(ReachError::Login)?
            };
            let headers = sent(headers).map_err(ReachError::Lasting)?;
            let web = SessionAwareClient(client.clone());
            let shook = if let Some(tokens) = known {
                let client = AuthClient::new(web, tokens);
                let transport = over_http(client, url, headers.clone(), context);
                shake_hands(listener, transport, how).await
            } else {
                let transport = over_http(web, url, headers.clone(), context);
                shake_hands(listener, transport, how).await
            };
            if matches!(shook, Err(ReachError::Passing(_))) && is_old(&client, url, &headers).await
            {
                return Err(ReachError::Lasting(OLD_TRANSPORT_ERROR.to_owned()));
            }
            shook
        }
    }
}

/// Prepares the start of a program, and the sandbox if the program runs in a sandbox.
async fn prepare(
    config: &ServerConfig,
    context: &HubContext,
) -> Result<Option<Confinement>, ReachError> {
    context.terminals.find_programs().await;
    let confinement = context.confine(config).await.map_err(ReachError::Lasting)?;
    // Checked right before the start: a command may have changed the program's files since the settings were read.
    check_consent(config, context).await?;
    Ok(confinement)
}

/// Checks that the user has agreed to the server as it is configured now, if consent is needed.
async fn check_consent(config: &ServerConfig, context: &HubContext) -> Result<(), ReachError> {
    let may_start = context.may_start(config).await;
    may_start.then_some(()).ok_or_else(|| ReachError::Held(CHANGED_ERROR.to_owned()))
}

fn start(
    program: &Program,
    config: &ServerConfig,
    context: &HubContext,
    hearing: &Arc<Notifications>,
    confinement: Option<&Confinement>,
) -> Result<(impl Transport<RoleClient> + 'static, ServerProcess), ReachError> {
    let serving = context.terminals.serve(program, confinement).map_err(|err| {
        let command = one_line(&program.command, MAX_SHOWN_CHARS);
        match err.kind() {
            io::ErrorKind::NotFound if program.directory.is_dir() => {
                ReachError::Lasting(format!("there is no program `{command}`"))
            }
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReachError::Lasting(format!(
                "there is no directory {} to start it in",
                program.directory.display()
            )),
            _ => ReachError::Lasting(format!("`{command}` cannot be started: {err}")),
        }
    })?;
    let said = Arc::<Mutex<Vec<u8>>>::default();
    let reading = read_errors(serving.errors, Arc::clone(&said), config.name.clone());
    let reading = AbortOnDropHandle::new(tokio::spawn(reading));
    let runs_on = context.sandbox.as_ref().zip(confinement).and_then(|(sandbox, confinement)| {
        sandbox.runs_on(confinement, format!("the MCP server `{}`", config.name))
    });
    let body = ServerProcess {
        life: Some(serving.life),
        _runs_on: runs_on,
        said,
        _reading: Some(reading),
    };
    let most = context.limits.message_bytes;
    let heard = Arc::clone(hearing);
    let output = Capped::new(serving.output, most, move || heard.too_long());
    let transport = AsyncRwTransport::new_client(output, serving.input);
    Ok((transport.with_max_line_length(most), body))
}

/// Logs a program's standard error, and keeps the end of it for error messages.
async fn read_errors(mut errors: ChildStderr, said: Arc<Mutex<Vec<u8>>>, server: String) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let words = &buffer[..count];
        tracing::debug!(server, "{}", plain(words).trim_end());
        let mut said = said.lock();
        said.extend_from_slice(words);
        let over = said.len().saturating_sub(LAST_WORDS);
        said.drain(..over);
    }
}

impl ServerProcess {
    /// Waits for the exit status, and returns the cause of the process's end with its last output. Returns `why` for
    /// a server without a process, and `why` instead of an exit status that is not known.
    pub(super) async fn end(&mut self, why: &str) -> String {
        let Some(life) = &mut self.life else { return why.to_owned() };
        let status = timeout(EXIT_STATUS_TIMEOUT, life.exit.wait()).await.ok().flatten();
        let said = plain(&self.said.lock());
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let last = last.map(|line| format!("; last output: {}", one_line(line, MAX_SHOWN_CHARS)));
        let what = match status {
            Some(status) => format!("it ended ({status})"),
            None => why.to_owned(),
        };
        format!("{what}{}", last.unwrap_or_default())
    }
}

/// Converts headers to the form in which they are sent.
fn sent(headers: &[(String, String)]) -> Result<Headers, String> {
    let header = |(name, value): &(String, String)| {
        net::secret_header(name, value)
            .ok_or_else(|| format!("its header `{}` cannot be sent", name.escape_debug()))
    };
    headers.iter().map(header).collect()
}

/// Retry policy for streams of messages that broke off.
#[derive(Debug)]
struct StreamReconnect;

impl SseRetryPolicy for StreamReconnect {
    fn retry(&self, times: usize) -> Option<Duration> {
        let times = u32::try_from(times).ok().filter(|times| *times < MAX_STREAM_RECONNECTS)?;
        Some(STREAM_RECONNECT_BACKOFF.delay(times + 1))
    }
}

fn over_http(
    client: impl StreamableHttpClient + Sync,
    url: &str,
    headers: Headers,
    context: &HubContext,
) -> impl Transport<RoleClient> + 'static {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_sse_event_size(context.limits.message_bytes);
    config.retry_config = Arc::new(StreamReconnect);
    let transport = StreamableHttpClientTransport::with_client(client, config);
    IntoTransport::<RoleClient, _, _>::into_transport(transport)
}

/// Options of the handshake with a server.
#[derive(Clone)]
struct Handshake {
    /// Maximum time for a request without any message from the server.
    patience: Duration,
    /// `true` for the handshake of the protocol's versions since 2026.
    discover: bool,
    /// `true` if a peer has named the server.
    is_confined: bool,
    /// The server's address, if it is a web service.
    url: Option<Url>,
}

async fn shake_hands(
    listener: Listener,
    transport: impl Transport<RoleClient> + 'static,
    how: Handshake,
) -> Result<LiveConnection, ReachError> {
    let Handshake { patience, discover, is_confined, url } = how;
    let (name, hearing) = (listener.server.clone(), Arc::clone(&listener.hearing));
    let way = if discover {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let begun = listener.serve_with_lifecycle(transport, way).await;
    let service = begun.map_err(|error| trouble(&error, discover, is_confined))?;
    let info = service.peer().peer_info();
    let instructions = info.as_ref().and_then(|info| info.instructions.clone());
    let connection = ServerConnection {
        name,
        peer: service.peer().clone(),
        capabilities: info.map(|info| info.capabilities.clone()).unwrap_or_default(),
        instructions: instructions.unwrap_or_default(),
        hearing,
        patience,
        is_confined,
        url,
    };
    Ok(LiveConnection { connection: Arc::new(connection), service, body: ServerProcess::default() })
}

fn about_us() -> ClientConfig {
    let us = Implementation::new("tandem", env!("CARGO_PKG_VERSION"));
    let mut capabilities = ClientCapabilities::default();
    capabilities.roots = Some(RootsCapabilities::default());
    ClientConfig::new(capabilities, us)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn trouble(error: &ClientInitializeError, discover: bool, is_confined: bool) -> ReachError {
    if error.is_authorization_required() {
        return ReachError::Login("requires a login".to_owned());
    }
    match error {
        ClientInitializeError::JsonRpcError(said)
            if !discover
                && [ErrorCode::METHOD_NOT_FOUND, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION]
                    .contains(&said.code) =>
        {
            ReachError::OtherWay
        }
        ClientInitializeError::ConnectionClosed(_) => {
            ReachError::Passing("it closed the connection".to_owned())
        }
        other if is_unauthorized(other, is_confined) => {
            ReachError::Login("requires a login".to_owned())
        }
        other => ReachError::Passing(in_short(other, is_confined)),
    }
}

/// Returns `true` if a server requires a login, and does not say so in the protocol's way: by the status of its response,
/// or by a gateway's message. Nothing is read from messages of a server that a peer has named.
fn is_unauthorized(error: &ClientInitializeError, is_confined: bool) -> bool {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            http_status(&*error.error) == Some(StatusCode::UNAUTHORIZED.as_u16())
        }
        ClientInitializeError::JsonRpcError(said) => {
            !is_confined && said.message.contains("HTTP 401")
        }
        _ => false,
    }
}

/// Returns the text of a handshake's error. The transport's own wrapping is left out: it has a long name and tells
/// people nothing.
fn in_short(error: &ClientInitializeError, is_confined: bool) -> String {
    match error {
        ClientInitializeError::JsonRpcError(said) if is_confined => {
            format!("it refuses to initialize (error {})", said.code.0)
        }
        ClientInitializeError::TransportError { error, .. } if is_confined => {
            discreet(&*error.error)
        }
        other if is_confined => {
            tracing::debug!("{other}");
            NO_MESSAGE.to_owned()
        }
        // rmcp reports a refused `server/discover` as an error of JSON-RPC. Its message has this prefix, then the HTTP
        // status and the body, which people are shown alone.
        ClientInitializeError::JsonRpcError(said)
            if let Some(response) = said.message.strip_prefix(DISCOVERY_REJECTED) =>
        {
            let response = one_line(&plain(response.as_bytes()), MAX_SHOWN_CHARS);
            format!("unexpected server response: {response}")
        }
        ClientInitializeError::TransportError { error, .. } => {
            unreachable(&*error.error).unwrap_or_else(|| causes(&*error.error))
        }
        other => causes(other),
    }
}
