//! `tandem serve token`: its subcommands and flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tandem_serve::tokens::PrincipalRole;

/// Subcommand of `tandem serve token`.
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for a person or a service, and print it: it is shown this once, and only a hash
    /// of it is stored
    Add {
        /// The person or service. One that has a token gets another, for another device
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
    /// List the tokens, without what they are
    List {
        /// List revoked ones, too
        #[arg(short, long)]
        all: bool,
        /// The file of the tokens
        #[command(flatten)]
        file: TokensFile,
    },
    /// Revoke all tokens of a person or a service, or one of them; streams that are open with it end
    Revoke {
        /// The person or service
        name: String,
        /// The tenant
        #[arg(long, value_name = "TENANT", default_value = "default")]
        tenant: String,
        /// Only the token of this id, as the list has it
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
