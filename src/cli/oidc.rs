//! Flags of `tandem serve` for an OIDC issuer.

use clap::Args;

/// OIDC issuer whose tokens count, and the meaning of their claims.
#[derive(Args)]
#[command(next_help_heading = "Tokens of an OIDC issuer")]
pub(crate) struct OidcArgs {
    /// Serve only clients that send a token (a JWT) of this OIDC issuer. The URL is written as in the claim `iss`
    #[arg(long, value_name = "URL", requires = "oidc_audience")]
    pub(crate) oidc_issuer: Option<String>,
    /// The name of this server in the claim `aud` of the issuer's tokens; may be repeated
    #[arg(long, value_name = "AUDIENCE", requires = "oidc_issuer")]
    pub(crate) oidc_audience: Vec<String>,
    /// The claim with the name of the person or service; `/a/b` is the claim `b` in `a`. Each person must have
    /// a value of their own, which they cannot choose
    #[arg(long, value_name = "CLAIM", default_value = "sub", requires = "oidc_issuer")]
    pub(crate) oidc_name_claim: String,
    /// The tenant of all people and services with a token of the issuer
    #[arg(long, value_name = "TENANT", default_value = "default", requires = "oidc_issuer")]
    pub(crate) oidc_tenant: String,
    /// The claim that names the tenant, in place of --oidc-tenant
    #[arg(long, value_name = "CLAIM", conflicts_with = "oidc_tenant", requires = "oidc_issuer")]
    pub(crate) oidc_tenant_claim: Option<String>,
    /// People and services with this value in this claim, or in a list in this claim, are administrators of the
    /// tenant: for instance `groups=admins`
    #[arg(long, value_name = "CLAIM=VALUE", value_parser = pair, requires = "oidc_issuer")]
    pub(crate) oidc_admin: Option<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(claim, value)| !claim.is_empty() && !value.is_empty());
    let (claim, value) = pair.ok_or("it has the form CLAIM=VALUE")?;
    Ok((claim.to_owned(), value.to_owned()))
}
