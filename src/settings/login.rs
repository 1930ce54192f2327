//! `tandem login` and `tandem logout` in a terminal, and keys that the user types into a session.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::credentials::Credentials;
use super::endpoint::{ResolvedEndpoint, UnusableEndpoint};
use super::typed_key::{Check, Refusal, accept};
use tandem_model::provider::Provider;

/// Maximum length of a line from standard input, in bytes. No key is as long.
const MAX_LINE: u64 = 4096;

/// Source from which a typed key is read.
pub struct KeyInput {
    attempts: u32,
    read: Box<dyn FnMut() -> io::Result<String> + Send>,
}

impl KeyInput {
    /// Returns a source that calls `read` for a line, at most `attempts` times.
    pub fn new(attempts: u32, read: impl FnMut() -> io::Result<String> + Send + 'static) -> Self {
        Self { attempts, read: Box::new(read) }
    }

    /// Returns standard input as the source: three attempts without echo if it is a terminal, else one line.
    pub fn stdin(credentials: &Credentials, provider: Provider) -> Self {
        if io::stdin().is_terminal() {
            let prompt = format!(
                "{} API key (from {}; it is not shown): ",
                provider.title(),
                credentials.keys_made_at(provider)
            );
            return Self::new(3, move || rpassword::prompt_password(&prompt));
        }
        Self::new(1, || {
            let mut line = String::new();
            io::stdin().lock().take(MAX_LINE).read_line(&mut line)?;
            Ok(line)
        })
    }
}

/// Asks the user for a provider's key, checks the key and stores it. Writes messages to `out`; the error is the last
/// message, which the caller shows. Reading `input` blocks the thread.
pub async fn login(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    mut input: KeyInput,
    out: &mut (dyn Write + Send),
) -> Result<(), String> {
    // With a handler for it, Ctrl-C does not end the process while the terminal's echo is off.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|err| err.to_string())?;
    let interrupted = || "Interrupted; nothing was stored.".to_owned();
    for left in (0..input.attempts).rev() {
        let typed = (input.read)().map_err(|err| match err.kind() {
            io::ErrorKind::Interrupted => interrupted(),
            _ => format!("No key could be read: {err}."),
        })?;
        let accepted = tokio::select! {
            accepted = accept(credentials, check, provider, &typed) => accepted,
            _ = interrupt.recv() => return Err(interrupted()),
        };
        match accepted {
            Ok(path) => {
                say(out, &format!("The key is good, and is stored in {}.", path.display()));
                say_what_wins(credentials, provider, out);
                return Ok(());
            }
            Err(Refusal::Key(why)) if left > 0 => say(out, &why),
            Err(Refusal::Key(why) | Refusal::Trouble(why)) => return Err(why),
        }
    }
    Err("No key was typed.".to_owned())
}

/// Checks a typed key of a provider, stores it, and makes this process use it from now on. Returns a message for the
/// user. The error is the reason for the refusal, without the key.
pub async fn accept_key(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    typed: &str,
) -> Result<String, String> {
    match accept(credentials, check, provider, typed).await {
        Ok(_) => Ok(accepted_message(credentials, provider)),
        Err(Refusal::Key(why) | Refusal::Trouble(why)) => Err(why),
    }
}

/// Returns the message to the user after a key was accepted: where it is stored, and why a later process would use
/// another key, if so.
pub(super) fn accepted_message(credentials: &Credentials, provider: Provider) -> String {
    let file = credentials.key_file().map(|file| file.display().to_string()).unwrap_or_default();
    let told = format!("The key is good, and is stored in {file}.");
    credentials.refresh(provider);
    let why = match credentials.set_up(provider) {
        Ok(ResolvedEndpoint { variable: Some(variable), .. }) => {
            format!("later sessions use {variable} as long as it is set.")
        }
        Err(UnusableEndpoint::Wrong(why)) => why,
        Ok(_) | Err(UnusableEndpoint::NoKey) => return told,
    };
    format!("{told} It is used in this session only: {why}")
}

/// Removes a provider's stored key.
pub fn logout(
    credentials: &Credentials,
    provider: Provider,
    out: &mut dyn Write,
) -> Result<(), String> {
    match credentials.forget(provider)? {
        Some(path) => say(out, &format!("The key was removed from {}.", path.display())),
        None => say(out, "No key was stored."),
    }
    credentials.refresh(provider);
    if let Some(variable) = credentials.set_up(provider).ok().and_then(|found| found.variable) {
        say(out, &format!("{variable} is still set, and its key is used."));
    }
    Ok(())
}

/// Writes a message to `out` if the stored key is not the key that later processes will use.
fn say_what_wins(credentials: &Credentials, provider: Provider, out: &mut dyn Write) {
    credentials.refresh(provider);
    match credentials.set_up(provider) {
        Ok(found) => {
            if let Some(variable) = found.variable {
                say(
                    out,
                    &format!(
                        "But the key in {variable} is used instead. Unset {variable} to use the stored key."
                    ),
                );
            }
        }
        Err(unusable) => say(out, &format!("But: {}", credentials.explain(provider, unusable))),
    }
}

fn say(out: &mut dyn Write, text: &str) {
    // If this write fails, there is no other place to report the failure.
    let _ = writeln!(out, "{text}");
}
