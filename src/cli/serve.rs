//! `tandem serve`: its subcommands and flags, and those by which an agent serves its session.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, value_parser};
use tandem_agent::session::ResumePolicy;
use tandem_serve::network::{AllowedHost, AllowedOrigin, PublicUrl};
use tandem_serve::proxy::AddressRange;

use super::card::CardArgs;
use super::oidc::OidcArgs;
use super::token::TokenCommand;
use super::trace::TraceArgs;
use super::work::{WorkArgs, seconds};

/// Subcommand of `tandem serve`.
#[derive(Subcommand)]
pub(crate) enum ServeCommand {
    /// Make, list and revoke the tokens by which `tandem serve` knows people and services
    ///
    /// As soon as there is a token, the server refuses clients without one, and each person or service has sessions
    /// of their own. A server that runs notices a change at once.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Check the set-up of a server before people use the server
    ///
    /// Give the check the same flags as the server. The check serves nothing, and prints a line for each finding:
    /// ok, warning or wrong. Exit status: 1 if something is wrong, so that the server would not start, or not work.
    Check(Box<ServeArgs>),
}

/// Serve other agents and tools over A2A, without an editor
///
/// Clients begin sessions of their own, each in a directory or a clone of a git repository that you name here, and
/// terminals join them with `tandem attach`. The server listens on this machine alone, unless --listen opens it to
/// a network. `tandem serve check`, with the same flags, finds what is wrong with the set-up.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServeLine {
    /// Subcommand.
    #[command(subcommand)]
    pub(crate) command: Option<ServeCommand>,
    /// The server, without a subcommand.
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Headings of flags in `--help`.
const ADDRESSES_HEADING: &str = "Addresses";
const WORKSPACES_HEADING: &str = "Workspaces and stored sessions";
const PEOPLE_HEADING: &str = "People and services";
const WORK_HEADING: &str = "Running work";
const MONITORING_HEADING: &str = "Monitoring";
pub(super) const CLIENTS_HEADING: &str = "Other agents and terminals";

/// A server of sessions for other agents and tools, over A2A.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Listen on this port of 127.0.0.1; 0 takes any free port, which is printed on standard error. Other users of
    /// this machine can reach the port, too: see --a2a-token-file
    #[arg(long, value_name = "PORT", default_value = "41242", help_heading = ADDRESSES_HEADING)]
    pub(crate) port: u16,
    /// Listen on this address, instead of a port of 127.0.0.1: `192.0.2.7:41242`, or `0.0.0.0:41242` or
    /// `[::]:41242` for all addresses of this machine. Clients must then have tokens
    #[arg(long, value_name = "ADDRESS", conflicts_with = "port", help_heading = ADDRESSES_HEADING)]
    pub(crate) listen: Option<SocketAddr>,
    /// The URL by which clients reach the server, if they use a name or a proxy in place of the address. If the URL
    /// has a path, the proxy must remove the path from requests
    #[arg(long, value_name = "URL", help_heading = ADDRESSES_HEADING)]
    pub(crate) public_url: Option<PublicUrl>,
    /// Answer requests for this host name, too; may be repeated. Add the port to the name, unless it is the usual
    /// one. Requests for other names are refused
    #[arg(long, value_name = "HOST", help_heading = ADDRESSES_HEADING)]
    pub(crate) allow_host: Vec<AllowedHost>,
    /// Let web pages of this origin (`https://pages.example`) use the server, too; may be repeated. Such pages need
    /// a token like all other clients
    #[arg(long, value_name = "ORIGIN", help_heading = ADDRESSES_HEADING)]
    pub(crate) allow_origin: Vec<AllowedOrigin>,
    /// Serve https, with the certificate in this file (PEM, followed by the intermediate certificates). The
    /// file is read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = ADDRESSES_HEADING)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM, without a passphrase)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = ADDRESSES_HEADING)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve a network without TLS. Everybody between a client and the server can then read tokens and sessions
    #[arg(long, help_heading = ADDRESSES_HEADING)]
    pub(crate) allow_plain_http: bool,
    /// A directory in or below which sessions may work; may be repeated. A client that names no directory works in
    /// the first [default: the working directory, unless there is --workspace-git]
    #[arg(long, value_name = "DIR", help_heading = WORKSPACES_HEADING)]
    pub(crate) workspace_root: Vec<PathBuf>,
    /// A git repository (`https`, `ssh`, or a path) that sessions may work in, each in a clone of its own, and the
    /// branch, tag or commit that they begin at; may be repeated. After each turn a snapshot is pushed to
    /// `refs/tandem/SESSION`, so that any server can go on. A client that names no workspace works in the first
    #[arg(long, value_name = "URL[#REV]", requires = "workspaces", help_heading = WORKSPACES_HEADING)]
    pub(crate) workspace_git: Vec<String>,
    /// The directory of the clones of --workspace-git; the same path on each server that shares a database
    #[arg(long, value_name = "DIR", requires = "workspace_git", help_heading = WORKSPACES_HEADING)]
    pub(crate) workspaces: Option<PathBuf>,
    /// Keep sessions in this Postgres database, which other servers may share:
    /// `postgres://USER@HOST/DATABASE`. `TANDEM_STORE` has the same effect, and `PGPASSWORD` has the
    /// password: other users of this machine see what is on the command line
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", help_heading = WORKSPACES_HEADING)]
    pub(crate) store: Option<String>,
    /// Let clients start sessions in the mode yolo (`autoExecute`), which runs every tool without a question,
    /// commands in the sandbox
    #[arg(long, help_heading = PEOPLE_HEADING)]
    pub(crate) allow_auto_execute: bool,
    /// The file with the tokens of people and services, which `tandem serve token add` makes. As soon as the file
    /// exists, clients need a token [default: the file `serve-tokens.json` in `TANDEM_CONFIG_DIR`]
    #[arg(long, value_name = "FILE", help_heading = PEOPLE_HEADING)]
    pub(crate) tokens: Option<PathBuf>,
    /// Trust the proxy at these addresses (`127.0.0.1`, `10.0.0.0/8`; commas between) about its clients: their
    /// addresses, and the host and the scheme that they used (`X-Forwarded-For`, `-Host`, `-Proto`)
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = PEOPLE_HEADING)]
    pub(crate) trust_proxy: Vec<AddressRange>,
    /// Take the name of the user from this header of the proxy. The proxy must remove this header from requests of
    /// clients, and must send the token of --a2a-token-file, which no other program may have
    #[arg(long, value_name = "NAME", requires = "trust_proxy", help_heading = PEOPLE_HEADING)]
    pub(crate) proxy_user_header: Option<String>,
    /// The tenant of the proxy's users
    #[arg(long, value_name = "TENANT", default_value = "default", help_heading = PEOPLE_HEADING)]
    pub(crate) proxy_tenant: String,
    /// Signatures of the agent card.
    #[command(flatten)]
    pub(crate) card: CardArgs,
    /// Tokens of an OIDC issuer.
    #[command(flatten)]
    pub(crate) oidc: OidcArgs,
    /// Add a line of JSON to this file for each session that is begun, prompt that is sent (without its text),
    /// question that is answered, and request that is refused
    #[arg(long, value_name = "FILE", help_heading = PEOPLE_HEADING)]
    pub(crate) audit: Option<PathBuf>,
    /// Write the text of prompts into the audit log, too
    #[arg(long, requires = "audit", help_heading = PEOPLE_HEADING)]
    pub(crate) audit_prompts: bool,
    /// Maximum time for running work after a signal; a second signal ends the work at once. Set a time below the
    /// one after which your service manager kills the process, often 30 seconds
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds, help_heading = WORK_HEADING)]
    pub(crate) drain_timeout: Duration,
    /// The number of threads that run the sessions; each session runs on one thread at a time [default: as many as
    /// there are processors]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..=1024), help_heading = WORK_HEADING)]
    pub(crate) threads: Option<u16>,
    /// The turns that go on after their process was killed. `never`: none. `safe`: those in which no call was cut off
    /// that may have changed something. `always`: all, and the model is told of calls that were cut off
    #[arg(
        long,
        value_name = "WHICH",
        default_value = "safe",
        value_parser = resumed_turns(),
        help_heading = WORK_HEADING
    )]
    pub(crate) resume_turns: ResumePolicy,
    /// Serve figures for Prometheus at this address, such as 127.0.0.1:9464 (`/metrics`, beside `/livez` and
    /// `/readyz`), to everybody who reaches the address
    #[arg(long, value_name = "ADDRESS", help_heading = MONITORING_HEADING)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Traces.
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    /// Model, permissions and limits.
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Access over A2A.
    #[command(flatten)]
    pub a2a: A2aArgs,
}

/// Access to the agent over A2A, and the addresses that it may call.
#[derive(Args)]
#[command(next_help_heading = CLIENTS_HEADING)]
pub(crate) struct A2aArgs {
    /// Serve only clients that send the token in this file (`Authorization: Bearer ...`, or `?token=` for a
    /// WebSocket); `TANDEM_A2A_TOKEN` has the same effect
    #[arg(long, value_name = "FILE")]
    pub a2a_token_file: Option<PathBuf>,
    /// Let push notifications go to addresses of this machine
    #[arg(long)]
    pub a2a_webhook_loopback: bool,
    /// Let clients name MCP servers on this machine and in private networks; with --a2a-port they always may.
    /// Addresses at which clouds keep the secrets of a machine are never reached
    #[arg(long)]
    pub a2a_private_servers: bool,
}

impl ServeArgs {
    /// Returns the number of threads of the server.
    pub(crate) fn threads(&self) -> usize {
        // The system may not know the number of processors. One is then a safe guess.
        let processors = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.map_or_else(processors, usize::from)
    }
}

/// Reads the turns that go on after a process was killed.
fn resumed_turns() -> impl TypedValueParser<Value = ResumePolicy> {
    PossibleValuesParser::new(["never", "safe", "always"]).map(|which| match &*which {
        "never" => ResumePolicy::Never,
        "always" => ResumePolicy::Always,
        _ => ResumePolicy::Safe,
    })
}
