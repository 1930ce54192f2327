//! Flags of `tandem serve` for signatures of the agent card.

use std::path::PathBuf;

use clap::Args;

/// Key that signs the agent card.
#[derive(Args)]
#[command(next_help_heading = "Signatures of the agent card")]
pub(crate) struct CardArgs {
    /// Sign the agent card with the private key in this file: PEM (PKCS#8), for ECDSA with P-256 or
    /// Ed25519. `/.well-known/jwks.json` has the public key
    #[arg(long, value_name = "FILE")]
    pub(crate) card_key: Option<PathBuf>,
    /// The key's id in signatures [default: its thumbprint]
    #[arg(long, value_name = "ID", requires = "card_key")]
    pub(crate) card_key_id: Option<String>,
    /// The URL of a set of keys with the public key, for the signatures to name (`jku`)
    #[arg(long, value_name = "URL", requires = "card_key")]
    pub(crate) card_jku: Option<String>,
}
