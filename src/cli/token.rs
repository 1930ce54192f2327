//! `tandem serve token`: its subcommands and flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tandem_serve::tokens::PrincipalRole;

/// Subcommand of `tandem serve token`.
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for a person or a service, and print the token. It is shown only this once: a hash of it is
    /// stored
    Add {
        /// The person or service. A person with a token gets one more, for instance for another device
        name: String,
        /// The tenant; sessions can be shared only within one
        #[arg(long, value_name = "TENANT", default_value = "default")]
        tenant: String,
        /// The role: member (has the sessions that it begins and those shared with it), admin (has
        /// all sessions of the tenant)
        #[arg(long, value_name = "ROLE", default_value = "member")]
        role: PrincipalRole,
        /// The file of the tokens
        #[command(flatten)]
        file: TokensFile,
    },
    /// List the tokens' names, but not the tokens themselves
    List {
        /// List revoked tokens, too
        #[arg(short, long)]
        all: bool,
        /// The file of the tokens
        #[command(flatten)]
        file: TokensFile,
    },
    /// Revoke all tokens of a person or a service, or one token; streams that are open with a revoked token end
    Revoke {
        /// The person or service
        name: String,
        /// The tenant
        #[arg(long, value_name = "TENANT", default_value = "default")]
        tenant: String,
        /// Revoke only the token with this id, as in the list
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// The file of the tokens
        #[command(flatten)]
        file: TokensFile,
    },
}

/// The file of tokens.
#[derive(Args)]
pub(crate) struct TokensFile {
    /// File of the tokens, for `tandem serve --tokens FILE` [default: the file
    /// `serve-tokens.json` in `TANDEM_CONFIG_DIR`]
    #[arg(long = "tokens", value_name = "FILE")]
    pub(crate) path: Option<PathBuf>,
}
