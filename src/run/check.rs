//! `tandem serve check`: looks for errors in the set-up of a server before clients use the server.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};

use super::attach::token;
use super::ending::ExitReason;
use super::printing::print;
use super::session_factory::SessionFactory;
use super::workspaces::Workspaces;
use super::{a2a, parts, store, tokens};
use crate::cli::ServeArgs;
use tandem_a2a as server;
use tandem_content::visible::visible;
use tandem_host::command_sandbox::CommandSandbox;
use tandem_serve::certificate::{CertificateState, ServerCertificate};
use tandem_serve::oidc::OidcOptions;
use tandem_settings::Settings;
use tandem_settings::limits::Limits;

/// Number of open files that a server needs in addition to its connections: for logs, commands and the model.
const OTHER_FILES: u64 = 256;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Ok,
    Warning,
    Wrong,
}

/// The findings in the order of the checks. Each has a severity, a subject, and a text with the state and the remedy.
#[derive(Default)]
struct Findings(Vec<(Severity, &'static str, String)>);

impl Findings {
    fn ok(&mut self, subject: &'static str, text: impl Into<String>) {
        self.0.push((Severity::Ok, subject, text.into()));
    }

    fn warn(&mut self, subject: &'static str, text: impl Into<String>) {
        self.0.push((Severity::Warning, subject, text.into()));
    }

    fn wrong(&mut self, subject: &'static str, text: impl Into<String>) {
        self.0.push((Severity::Wrong, subject, text.into()));
    }

    /// Adds a finding for an error with which the server would end at its start.
    fn checked<T>(&mut self, subject: &'static str, checked: anyhow::Result<T>) -> Option<T> {
        checked.inspect_err(|error| self.wrong(subject, format!("{error:#}"))).ok()
    }

    /// Returns a line of text for each finding.
    fn text(&self) -> String {
        let line = |(severity, subject, text): &(Severity, &str, String)| {
            let severity = match severity {
                Severity::Ok => "ok",
                Severity::Warning => "warning",
                Severity::Wrong => "wrong",
            };
            // The text may have words of a database, which must not control the terminal.
            format!("{severity:<8} {subject}: {}\n", visible(text))
        };
        self.0.iter().map(line).collect()
    }
}

/// Checks everything that the server needs, and prints the findings.
pub(crate) async fn check(serve: &ServeArgs) -> anyhow::Result<ExitReason> {
    let (factory, settings) = SessionFactory::new(&serve.work)?;
    let limits = factory.limits(&settings);
    let mut findings = Findings::default();
    for remark in settings.remarks() {
        findings.warn("settings", remark);
    }
    check_model(&mut findings, &factory, &settings);
    let workspaces = Workspaces::from_args(serve, &factory, limits.git);
    if let Some(workspaces) = findings.checked("directories", workspaces) {
        check_directories(&mut findings, &workspaces);
        check_repositories(&mut findings, &workspaces).await;
    }
    check_sandbox(&mut findings, &factory, &settings, &limits).await;
    check_access(&mut findings, serve, &factory).await;
    check_audit(&mut findings, serve);
    check_files(&mut findings, &limits);
    check_store(&mut findings, serve, &factory, &limits).await;
    check_address(&mut findings, "address", a2a::listened_at(serve)).await;
    if let Some(Some(address)) = findings.checked("metrics", a2a::metrics_address(serve)) {
        check_address(&mut findings, "metrics", address).await;
    }
    print(findings.text())?;
    let is_wrong = findings.0.iter().any(|(severity, ..)| *severity == Severity::Wrong);
    Ok(if is_wrong { ExitReason::Failed(1) } else { ExitReason::Done })
}

fn check_model(findings: &mut Findings, factory: &SessionFactory, settings: &Settings) {
    let model = factory.model_alone(settings);
    let Some((model, _)) = findings.checked("model", model) else { return };
    match model.ready() {
        Ok(()) => findings.ok("model", format!("{} is ready", model.id())),
        Err(error) => findings.wrong("model", error.to_string()),
    }
}

fn check_directories(findings: &mut Findings, workspaces: &Workspaces) {
    let Some(directories) = &workspaces.directories else { return };
    for root in directories.roots() {
        let shown = root.display();
        match access(root, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => findings.ok("directories", format!("sessions can work in {shown}")),
            Err(_) => findings.warn(
                "directories",
                format!("this user cannot write in {shown}: sessions can only read there"),
            ),
        }
    }
}

/// Checks that git works, can read the repositories, and may push to them.
async fn check_repositories(findings: &mut Findings, workspaces: &Workspaces) {
    let Some(git) = &workspaces.git else { return };
    for repository in git.repositories() {
        let origin = repository.origin();
        if let Err(why) = git.check_read(repository).await {
            findings.wrong("git", format!("{origin} cannot be read: {why}"));
            continue;
        }
        let later = "; the first session will show if the repository has this commit";
        let later = if repository.is_at_commit() { later } else { "" };
        findings.ok("git", format!("{origin} can be read{later}"));
        let url = &origin.url;
        match git.check_push(repository).await {
            Ok(()) => {
                let later = "the first snapshot will show if hooks or rules refuse the push";
                findings.ok("git", format!("{url} lets this user push; {later}"));
            }
            Err(why) => {
                findings.wrong("git", format!("snapshots cannot be pushed to {url}: {why}"));
            }
        }
    }
}

async fn check_sandbox(
    findings: &mut Findings,
    factory: &SessionFactory,
    settings: &Settings,
    limits: &Limits,
) {
    let Some(setup) = parts::sandbox(settings, factory.env(), &limits.tools) else {
        return findings
            .warn("sandbox", "the settings switch the sandbox off: commands run without one");
    };
    let Ok(workspace) = tandem_host::workspace::Workspace::new(factory.directory(), &[]) else {
        return;
    };
    let sandbox = CommandSandbox::new(setup, Arc::new(workspace));
    let probe = sandbox.probe().await;
    if let Some(why) = sandbox.refusal(&probe) {
        findings.wrong("sandbox", format!("commands are refused: {why}"));
    } else if let Some(sandbox) = &probe.sandbox {
        findings.ok("sandbox", format!("commands run in a sandbox ({})", sandbox.mechanism()));
    } else {
        let why = probe.passed_over.iter().map(|it| format!("{}: {}", it.mechanism, it.why));
        let why = why.collect::<Vec<_>>().join("; ");
        findings.warn("sandbox", format!("commands run without a sandbox ({why})"));
    }
}

/// Checks the tokens, the proxy, the OIDC issuer, the key of the card, and the network.
async fn check_access(findings: &mut Findings, serve: &ServeArgs, factory: &SessionFactory) {
    let file = serve.a2a.a2a_token_file.as_deref();
    let token = findings.checked("token", token(file, &factory.credentials));
    let has_token = token.as_ref().is_some_and(Option::is_some);
    if let Some(file) = file.filter(|_| has_token) {
        check_secret(findings, "token", file);
    }
    // If the token cannot be read, `token` is `None`, and there is a finding about the token. The user wants a token,
    // so the server counts as one that asks callers for it.
    let is_asked = has_token || token.is_none() || serve.oidc.oidc_issuer.is_some();
    let is_asked = check_tokens(findings, serve, factory, is_asked) || is_asked;
    let proxy = findings.checked("proxy", a2a::proxy(serve, has_token)).flatten();
    if proxy.is_some()
        && let Some(header) = &serve.proxy_user_header
    {
        findings.ok(
            "proxy",
            format!(
                "names its users in {header}, and must remove this header from requests of clients"
            ),
        );
    }
    if let Some(oidc) = findings.checked("oidc", a2a::oidc(&serve.oidc)).flatten() {
        check_issuer(findings, &oidc).await;
    }
    if findings.checked("card", a2a::card_key(&serve.card)).flatten().is_some()
        && let Some(file) = &serve.card.card_key
    {
        check_secret(findings, "card", file);
    }
    check_network(findings, serve, is_asked);
}

/// Checks the token file. Returns `true` if there is one. `are_others` is `true` if callers must authenticate in
/// another way than with the tokens in this file.
fn check_tokens(
    findings: &mut Findings,
    serve: &ServeArgs,
    factory: &SessionFactory,
    are_others: bool,
) -> bool {
    let Some(file) = tokens::file(serve.tokens.as_deref(), factory.env()) else { return false };
    if file.exists() {
        if let Some(list) = findings.checked("tokens", tandem_serve::tokens::read(&file)) {
            let count = list.iter().filter(|token| token.revoked.is_none()).count();
            findings.ok(
                "tokens",
                format!("{count} tokens of people and services in {}", file.display()),
            );
        }
        return true;
    }
    if serve.tokens.is_some() && are_others {
        let text = format!("{} does not exist, so no client has a token", file.display());
        findings.warn("tokens", text + "; `tandem serve token add NAME` makes the file");
    }
    false
}

/// Checks that the server exposes neither sessions nor tokens to a network, and checks its certificate.
fn check_network(findings: &mut Findings, serve: &ServeArgs, is_asked: bool) {
    let network = findings.checked("network", a2a::network(serve));
    let problems = network.as_ref().map(|it| it.problems(a2a::listened_at(serve), is_asked));
    let problems = problems.unwrap_or_default();
    if !is_asked && problems.is_empty() {
        let text = match &serve.tokens {
            Some(file) => format!("{} does not exist", file.display()),
            None => "there is no token".to_owned(),
        };
        let text = text
            + ": everybody who reaches the port can use all sessions; make tokens with `tandem serve token add \
                NAME`";
        findings.warn("token", text);
    }
    for problem in problems {
        findings.wrong("network", problem);
    }
    if network.is_some() {
        check_certificate(findings, serve);
    }
}

/// Checks that the keys of an OIDC issuer can be fetched.
async fn check_issuer(findings: &mut Findings, oidc: &OidcOptions) {
    let issuer = &oidc.issuer;
    match oidc.check_issuer().await {
        Ok(()) => findings.ok("oidc", format!("tokens of {issuer} are accepted")),
        Err(why) => {
            findings.wrong("oidc", format!("the keys of {issuer} cannot be fetched: {why:#}"));
        }
    }
}

/// Checks the certificate's dates, and that it is for the host that clients call.
fn check_certificate(findings: &mut Findings, serve: &ServeArgs) {
    let Some(file) = &serve.tls_cert else { return };
    let Some(certificate) = findings.checked("tls", ServerCertificate::read(file)) else { return };
    let shown = file.display();
    let day = |time: Timestamp| time.strftime("%Y-%m-%d");
    let (begin, end) = (day(certificate.begin()), day(certificate.end()));
    match certificate.state(Timestamp::now()) {
        CertificateState::Good => {
            findings.ok("tls", format!("the certificate in {shown} is valid until {end}"));
        }
        CertificateState::EndsSoon => {
            findings.warn("tls", format!("the certificate in {shown} expires on {end}: renew it"));
        }
        CertificateState::Expired => findings.wrong(
            "tls",
            format!("the certificate in {shown} expired on {end}, and clients refuse it: renew it"),
        ),
        CertificateState::NotYet => findings.wrong(
            "tls",
            format!(
                "the certificate in {shown} is not valid before {begin}, and clients refuse it: look at this \
                 machine's clock, or get another certificate"
            ),
        ),
    }
    // Behind a proxy, clients see the proxy's certificate, so the host of this certificate is not checked.
    if let Some(url) = serve.public_url.as_ref().filter(|_| serve.trust_proxy.is_empty())
        && !certificate.is_for(url)
    {
        let host = url.host();
        let text = format!(
            "the certificate in {shown} is not for {host}, the host of --public-url, and clients refuse \
             it: get one for {host}"
        );
        findings.wrong("tls", text);
    }
}

/// Checks that other users cannot read or change a file with a secret.
fn check_secret(findings: &mut Findings, subject: &'static str, file: &Path) {
    let shown = file.display();
    match fs::metadata(file).map(|metadata| metadata.permissions().mode()) {
        Ok(mode) if mode & 0o077 != 0 => findings.warn(
            subject,
            format!("other users can read or change {shown}: run `chmod 600 {shown}`"),
        ),
        Ok(_) => findings.ok(subject, format!("only this user can read {shown}")),
        Err(error) => {
            findings.wrong(subject, format!("the permissions of {shown} cannot be read: {error}"));
        }
    }
}

fn check_audit(findings: &mut Findings, serve: &ServeArgs) {
    if let Some(Some(audit)) = findings.checked("audit log", a2a::audit(serve)) {
        findings.ok("audit log", format!("{} can be written", audit.file.display()));
    }
}

/// Checks that the limit of open files allows the maximum number of connections.
fn check_files(findings: &mut Findings, limits: &Limits) {
    let connections = limits.a2a.connections as u64;
    let most = getrlimit(Resource::Nofile).current;
    if most.is_some_and(|most| most < connections + OTHER_FILES) {
        let (most, wanted) = (most.unwrap_or_default(), connections + OTHER_FILES);
        findings.warn(
            "open files",
            format!(
                "{most} files may be open, and {connections} connections need about {wanted}: raise `ulimit -n`"
            ),
        );
    }
}

async fn check_store(
    findings: &mut Findings,
    serve: &ServeArgs,
    factory: &SessionFactory,
    limits: &Limits,
) {
    #[cfg(feature = "postgres")]
    {
        use tandem_store::{DatabaseFinding, PostgresStore};

        let Some(address) = findings.checked("database", store::address(serve, factory)) else {
            return;
        };
        if let Some(address) = address {
            for finding in PostgresStore::check(&address, limits.store.patience).await {
                match finding {
                    DatabaseFinding::Good(text) => findings.ok("database", text),
                    DatabaseFinding::Doubtful(text) => findings.warn("database", text),
                    DatabaseFinding::Wrong(text) => findings.wrong("database", text),
                }
            }
            return;
        }
    }
    #[cfg(not(feature = "postgres"))]
    if findings.checked("database", store::store(serve, factory, limits).await).is_none() {
        return;
    }
    check_sessions(findings, factory.env().sessions_dir());
}

/// Checks that the directory of stored sessions can be written.
fn check_sessions(findings: &mut Findings, directory: Option<PathBuf>) {
    let Some(directory) = directory else {
        return findings.warn("sessions", "sessions are not stored: they end with the server");
    };
    // The directory may not exist yet: it is made with the first session. So its nearest existing ancestor is checked.
    let existing = directory.ancestors().find(|directory| directory.exists());
    let is_writable =
        existing.is_some_and(|it| access(it, Access::WRITE_OK | Access::EXEC_OK).is_ok());
    let shown = directory.display();
    if is_writable {
        findings.ok("sessions", format!("stored in {shown}"));
    } else {
        findings.wrong("sessions", format!("{shown} cannot be written by this user"));
    }
}

async fn check_address(findings: &mut Findings, subject: &'static str, address: SocketAddr) {
    if findings.checked(subject, server::listen(address).await).is_some() {
        findings.ok(subject, format!("{address} is free"));
    }
}
