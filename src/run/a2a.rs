//! `tandem serve`: the A2A server with its own sessions, and the options that it shares with the server of one session.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::io::{Write as _, stderr};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::attach::token;
use super::ending::{EndSignals, ExitReason, wait_all_stored};
use super::session_factory::{NewSession, SessionFactory};
use super::workspaces::{SessionWorkspace, Workspaces};
use super::{store, tokens};
use crate::cli::{A2aArgs, CardArgs, OidcArgs, ServeArgs, TraceArgs};
use tandem_a2a::{self as a2a, CardKey, ServedSessions, ServerHealth, ServerOptions};
use tandem_agent::sessions::{MakeSession, SessionLimits, SessionRequest, Sessions};
use tandem_approval::Mode;
use tandem_model::Secret;
use tandem_serve::audit::{AuditOptions, check as check_audit};
use tandem_serve::network::NetworkOptions;
use tandem_serve::oidc::OidcOptions;
use tandem_serve::principals::AccessOptions;
use tandem_serve::proxy::TrustedProxy;
use tandem_serve::quotas::Quotas;
use tandem_serve::tls::{Tls, TlsFiles};
use tandem_settings::limits::Limits;
use tandem_telemetry::Metrics;

/// Names of the environment variables with the keys for collectors of traces.
const TRACE_KEYS: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/// Serves sessions to other agents and tools until a signal comes.
///
/// 1. Checks the options and the settings, so that errors in them end the program before the server takes a request.
/// 2. Makes the workspaces, the store and the registry of sessions.
/// 3. Listens, and serves clients until a signal comes.
/// 4. Begins no new turn, and gives the running turns the time `serve.drain_timeout` to end. Another signal ends this
///    time.
/// 5. Ends the commands that still run, and waits until the sessions are stored.
pub(crate) async fn serve(serve: &ServeArgs) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let (factory, settings) = SessionFactory::new(&serve.work)?;
    let supervisor = Arc::clone(&factory.supervisor);
    let limits = factory.limits(&settings);
    let mut options = serve_options(serve, &factory, &limits)?;
    trace(&serve.trace, &factory, &limits);
    let ending = a2a::Ending::default();
    let monitoring = monitoring(serve, &mut options, &ending).await?;
    let address = listened_at(serve);
    let problems = options.network.problems(address, options.access.are_callers_asked());
    anyhow::ensure!(problems.is_empty(), problems.join("; and "));
    // If the settings of the model are wrong, the server ends here instead of failing the first session.
    factory.model(&settings)?;
    let workspaces = Arc::new(Workspaces::from_args(serve, &factory, limits.git)?);
    let store = workspaces.cleaning(store::store(serve, &factory, &limits).await?).await?;
    let store = match &options.metrics {
        Some(metrics) => store.map(|store| metrics.measured(store)),
        None => store,
    };
    let loaded = SessionLimits {
        loaded: limits.a2a.sessions,
        idle: Some(limits.a2a.session_idle),
        log_bytes: limits.log_bytes,
    };
    let metrics = options.metrics.clone();
    let make = maker(serve.allow_auto_execute, factory, Arc::clone(&workspaces), metrics);
    let registry = Sessions::resuming(make, loaded, store, serve.resume_turns);
    let sessions = ServedSessions::PerContext {
        sessions: Arc::clone(&registry),
        is_shown: Arc::new(move |head| workspaces.shows(head)),
        question: limits.a2a.question,
    };
    let listener = a2a::listen(address).await?;
    announce(&where_it_is(&options.network, listening_address(&listener)?));
    if let Some((address, _)) = &monitoring {
        // If standard error is closed there is nobody to tell.
        let _ = writeln!(stderr(), "tandem: metrics at http://{address}/metrics");
    }
    let mut serving = tokio::spawn(a2a::serve(listener, sessions, options, ending.clone()));
    let signal = signals.next().await;
    ending.drain();
    let hurry = async {
        tokio::select! {
            () = sleep(serve.drain_timeout) => {}
            _ = signals.next() => {}
        }
        ending.now();
        pending::<Infallible>().await
    };
    let served = tokio::select! {
        served = &mut serving => served,
        never = hurry => match never {},
    };
    supervisor.end_all().await;
    wait_all_stored(&registry).await;
    drop(monitoring);
    served.context("the server failed")??;
    Ok(ExitReason::Signal(signal))
}

/// Returns the options of `tandem serve`. Reads the files that the flags name, so that errors in these files show at
/// the start.
fn serve_options(
    serve: &ServeArgs,
    factory: &SessionFactory,
    limits: &Limits,
) -> anyhow::Result<ServerOptions> {
    let mut options = options(&serve.a2a, limits, factory)?;
    options.programs = serve.allow_auto_execute;
    options.audit = audit(serve)?;
    options.access.proxy = proxy(serve, options.access.token.is_some())?;
    options.network = network(serve)?;
    options.access.oidc = oidc(&serve.oidc)?;
    options.card_key = card_key(&serve.card)?;
    options.access.tokens = tokens::file(serve.tokens.as_deref(), factory.credentials.env());
    if let Some(file) = &options.access.tokens {
        tandem_serve::tokens::read(file)?;
    }
    Ok(options)
}

/// Serves the metrics of the server if the user wants them. Returns their address, and a handle that stops serving
/// them when it is dropped.
async fn monitoring(
    serve: &ServeArgs,
    options: &mut ServerOptions,
    ending: &a2a::Ending,
) -> anyhow::Result<Option<(SocketAddr, AbortOnDropHandle<()>)>> {
    let Some(address) = metrics_address(serve)? else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| {
        format!("cannot listen on {address} for `--metrics`: try another port, or 0 for any")
    })?;
    let address = listener.local_addr().context("the port of `--metrics` is not known")?;
    let metrics = Arc::new(Metrics::default());
    options.metrics = Some(Arc::clone(&metrics));
    let health = ServerHealth { ending: ending.clone(), store: options.store_health.clone() };
    let monitor = a2a::monitor(listener, metrics, options.connected.subscribe(), health);
    Ok(Some((address, AbortOnDropHandle::new(tokio::spawn(monitor)))))
}

/// Returns the address that the user wants the server to listen on.
pub(super) fn listened_at(serve: &ServeArgs) -> SocketAddr {
    serve.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, serve.port).into())
}

/// Returns the address for the metrics, if the user wants metrics. Fails if the server itself listens there.
pub(super) fn metrics_address(serve: &ServeArgs) -> anyhow::Result<Option<SocketAddr>> {
    let Some(address) = serve.metrics else { return Ok(None) };
    let own = listened_at(serve);
    let is_same_ip =
        address.ip() == own.ip() || address.ip().is_unspecified() || own.ip().is_unspecified();
    anyhow::ensure!(
        address.port() == 0 || address.port() != own.port() || !is_same_ip,
        "`--metrics` and the server have the same address ({address}, {own}): give the metrics another port"
    );
    Ok(Some(address))
}

/// Returns the network options from the flags. Reads the files for TLS.
pub(super) fn network(serve: &ServeArgs) -> anyhow::Result<NetworkOptions> {
    let files = serve.tls_cert.clone().zip(serve.tls_key.clone());
    let files = files.map(|(certificate, key)| TlsFiles { certificate, key });
    Ok(NetworkOptions {
        public_url: serve.public_url.clone(),
        hosts: serve.allow_host.clone(),
        origins: serve.allow_origin.clone(),
        proxies: serve.trust_proxy.clone(),
        plain_http: serve.allow_plain_http,
        tls: files.map(Tls::read).transpose()?.map(Arc::new),
    })
}

/// Sets up traces: the hosts that are sent the trace context, the content in the traces, and the collectors' keys,
/// which are hidden from the model's commands.
fn trace(args: &TraceArgs, factory: &SessionFactory, limits: &Limits) {
    tandem_trace::send_to(args.trace_to.clone());
    for secret in TRACE_KEYS.into_iter().filter_map(|name| factory.env().var(name)) {
        factory.credentials.redact_key(&Secret::new(secret));
    }
    if args.trace_content {
        let credentials = Arc::clone(&factory.credentials);
        let redact = Box::new(move |text: &mut String| credentials.redact(text));
        let most = limits.trace_content_bytes;
        tandem_trace::record_content(tandem_trace::ContentOptions { most, redact });
    }
}

/// Returns the proxy that tells the server the users' names, if the user has named its header.
pub(super) fn proxy(serve: &ServeArgs, has_token: bool) -> anyhow::Result<Option<TrustedProxy>> {
    let Some(header) = &serve.proxy_user_header else { return Ok(None) };
    anyhow::ensure!(
        has_token,
        "every program of this machine could claim to be the proxy: give the proxy a token, with --a2a-token-file"
    );
    let (addresses, tenant) = (serve.trust_proxy.clone(), serve.proxy_tenant.clone());
    TrustedProxy::new(addresses, header, tenant).map(Some).map_err(anyhow::Error::msg)
}

/// Returns the key that signs the agent card, if the user has given one.
pub(super) fn card_key(card: &CardArgs) -> anyhow::Result<Option<CardKey>> {
    let Some(file) = &card.card_key else { return Ok(None) };
    let wrong = || format!("cannot read the key in {}", file.display());
    let pem = fs::read(file).with_context(wrong)?;
    let key = CardKey::read(&pem, card.card_key_id.clone(), card.card_jku.clone());
    key.map(Some).map_err(anyhow::Error::msg).with_context(wrong)
}

/// Returns the OIDC issuer whose tokens the server accepts, if the user has named one.
pub(super) fn oidc(oidc: &OidcArgs) -> anyhow::Result<Option<OidcOptions>> {
    let Some(issuer) = oidc.oidc_issuer.clone() else { return Ok(None) };
    let options = OidcOptions {
        issuer,
        audience: oidc.oidc_audience.clone(),
        name_claim: oidc.oidc_name_claim.clone(),
        tenant: oidc.oidc_tenant.clone(),
        tenant_claim: oidc.oidc_tenant_claim.clone(),
        admin: oidc.oidc_admin.clone(),
    };
    options.checked().map(Some).map_err(anyhow::Error::msg)
}

/// Returns the options of the audit log, if the user wants one. Fails if the log cannot be written.
pub(super) fn audit(serve: &ServeArgs) -> anyhow::Result<Option<AuditOptions>> {
    let Some(file) = serve.audit.clone() else { return Ok(None) };
    let checked = check_audit(&file);
    checked.with_context(|| format!("cannot write the audit log {}", file.display()))?;
    Ok(Some(AuditOptions { file, prompts: serve.audit_prompts }))
}

/// Returns the function that makes the server's sessions, in the workspaces that the user has named. The sessions are
/// counted if the server has metrics.
fn maker(
    auto_execute: bool,
    factory: SessionFactory,
    workspaces: Arc<Workspaces>,
    metrics: Option<Arc<Metrics>>,
) -> MakeSession {
    Arc::new(move |request: &SessionRequest, storage| {
        let SessionWorkspace { workspace, settings, saved } =
            workspaces.for_session(request, &storage)?;
        let (factory, settings) = factory.in_directory(&settings);
        // `in_directory` has read the settings by path. If another directory has taken the place of the workspace's
        // root, the settings are those of the other directory.
        let in_place = workspace.check_in_place(workspace.root());
        in_place.map_err(|error| error.message)?;
        let mode = if request.auto_approve && auto_execute {
            Mode::Yolo
        } else {
            settings.general.default_approval_mode
        };
        let new = NewSession { workspace, saved, mode, interactive: true, storage };
        let session = factory.session(&settings, new).map_err(|err| format!("{err:#}"))?;
        if let Some(metrics) = &metrics {
            metrics.watch(&session);
        }
        Ok(session)
    })
}

pub(super) fn listening_address(listener: &TcpListener) -> anyhow::Result<SocketAddr> {
    listener.local_addr().context("the port is not known")
}

/// Returns the URL at which people reach a server, and the address where it listens if this differs.
fn where_it_is(network: &NetworkOptions, address: SocketAddr) -> String {
    let (url, own) = (network.url(address), network.own_url(address));
    if url == own { url } else { format!("{url}, listening on {own}") }
}

pub(super) fn announce(address: &str) {
    // If standard error is closed there is nobody to tell.
    let _ = writeln!(stderr(), "tandem: A2A at {address}");
}

pub(super) fn options(
    a2a: &A2aArgs,
    limits: &Limits,
    factory: &SessionFactory,
) -> anyhow::Result<ServerOptions> {
    let limits = &limits.a2a;
    Ok(ServerOptions {
        access: AccessOptions {
            token: token(a2a.a2a_token_file.as_deref(), &factory.credentials)?,
            ..AccessOptions::default()
        },
        webhook_loopback: a2a.a2a_webhook_loopback,
        private_servers: a2a.a2a_private_servers,
        body: limits.body_bytes,
        attachment_chars: limits.attachment_chars,
        connections: limits.connections,
        requests: limits.requests,
        refused_requests: limits.refused_requests,
        streams: limits.streams,
        retry: limits.retry,
        head_time: limits.head_time,
        patience: limits.patience,
        ping: limits.ping,
        pong: limits.pong,
        acp: None,
        programs: false,
        audit: None,
        card_key: None,
        quotas: Quotas {
            sessions: limits.principal_sessions,
            turns: limits.principal_turns,
            requests: limits.principal_requests,
            tokens: limits.principal_tokens,
        },
        connected: watch::Sender::new(0),
        network: NetworkOptions::default(),
        metrics: None,
        store_health: factory.store_health.clone(),
    })
}
