//! `tandem serve token`: adds, lists and revokes the tokens by which a server recognizes people and services.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::printing::print;
use super::session_factory::env;
use crate::cli::{TokenCommand, TokensFile};
use tandem_agent::session::PrincipalId;
use tandem_serve::tokens::{self, StoredToken};
use tandem_settings::Env;

/// Name of the token file in the user's configuration directory.
const TOKEN_FILE: &str = "serve-tokens.json";

/// Returns the path of the token file: the given path, or the path in the user's configuration directory. Returns
/// `None` if there is neither.
pub(super) fn file(given: Option<&Path>, env: &Env) -> Option<PathBuf> {
    let given = given.map(|path| env.directory().join(path));
    given.or_else(|| Some(env.config_dir()?.join(TOKEN_FILE)))
}

/// Runs a subcommand of `tandem serve token`.
pub(crate) fn tokens(command: &TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Add { name, tenant, role, file } => {
            let path = path(file)?;
            let (token, added) = tokens::add(&path, &principal(tenant, name), *role)?;
            say(&format!(
                "The token of {} (tenant {}, {}, id {}). It is shown only now:",
                added.name,
                added.tenant,
                added.role.name(),
                added.id
            ))?;
            print(format!("{token}\n"))
        }
        TokenCommand::List { all, file } => {
            let mut list = tokens::read(&path(file)?)?;
            list.retain(|token| *all || token.revoked.is_none());
            if list.is_empty() {
                return say("There is no token. `tandem serve token add NAME` makes one.");
            }
            print(table(&list))
        }
        TokenCommand::Revoke { name, tenant, id, file } => {
            let revoked = tokens::revoke(&path(file)?, &principal(tenant, name), id.as_deref())?;
            let line = |token: &StoredToken| format!("{} of {name} is revoked\n", token.id);
            print(revoked.iter().map(line).collect::<String>())
        }
    }
}

fn path(given: &TokensFile) -> anyhow::Result<PathBuf> {
    let path = file(given.path.as_deref(), &env()?);
    path.context("there is no home directory: set HOME, or name a file with --tokens")
}

fn principal(tenant: &str, name: &str) -> PrincipalId {
    PrincipalId { tenant: tenant.to_owned(), name: name.to_owned() }
}

/// Returns a table with a line for each token and aligned columns.
fn table(list: &[StoredToken]) -> String {
    let row = |token: &StoredToken| {
        let state = token.revoked.as_ref().map(|at| format!("revoked {at}"));
        [
            token.name.clone(),
            token.tenant.clone(),
            token.role.name().to_owned(),
            token.id.clone(),
            format!("made {}", token.created),
            state.unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = list.iter().map(row).collect();
    let width = |n: usize| rows.iter().map(|row| row[n].len()).max().unwrap_or_default();
    let widths = [0, 1, 2, 3, 4, 5].map(width);
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Writes a message for people to standard error, because standard output is only for results.
fn say(line: &str) -> anyhow::Result<()> {
    writeln!(io::stderr(), "{line}").context("standard error cannot be written")
}
