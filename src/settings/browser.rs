//! Opening of a page in the user's browser.

use std::future::pending;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::credentials::Credentials;
use super::env::Env;
use tandem_host::terminals::left_alone;

/// Time after which a program's failure no longer means that the page was not opened.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Placeholder for the page's address in a command.
const URL_PLACEHOLDER: &str = "%s";

/// Words of a command line that opens a page.
pub(super) type Program = Vec<String>;

/// Returns the programs that may open a page here, the best first. The error says why there is none.
pub(super) fn programs(env: &Env) -> Result<Vec<Program>, String> {
    let mut programs: Vec<Program> = Vec::new();
    let chosen = env.var("BROWSER").unwrap_or_default();
    programs.extend(chosen.split(':').map(words).filter(|words| !words.is_empty()));
    // In a remote login, the user does not sit in front of this machine's screen.
    let remote = env.var("SSH_CONNECTION").is_some();
    if cfg!(target_os = "macos") {
        programs.extend((!remote).then(|| words("open")));
    } else {
        let windows = env.var("WSL_DISTRO_NAME").or(env.var("WSL_INTEROP")).is_some();
        let commands = ["wslview", "rundll32.exe url.dll,FileProtocolHandler"];
        programs.extend(commands.iter().filter(|_| windows).map(|command| words(command)));
        let display = env.var("DISPLAY").or(env.var("WAYLAND_DISPLAY")).is_some();
        let commands = ["xdg-open", "gio open", "x-www-browser"];
        programs.extend(commands.iter().filter(|_| display).map(|command| words(command)));
    }
    if programs.is_empty() {
        let why = if cfg!(target_os = "macos") {
            "this is a remote login, and BROWSER is not set"
        } else {
            "neither DISPLAY, WAYLAND_DISPLAY nor BROWSER is set"
        };
        return Err(format!("No browser can be opened: {why}."));
    }
    Ok(programs)
}

/// Splits a command into words. Adds the placeholder of the address at the end if the command has none.
fn words(command: &str) -> Program {
    let mut words: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
    if !words.is_empty() && !words.iter().any(|word| word.contains(URL_PLACEHOLDER)) {
        words.push(URL_PLACEHOLDER.to_owned());
    }
    words
}

/// Opens the page with the first program that succeeds, and then never returns, so that the caller can select on other
/// events. Returns only if no program could open the page, with the reason.
pub(super) async fn open(programs: &[Program], url: &str, credentials: &Credentials) -> String {
    let mut failures = Vec::new();
    for program in programs {
        match start(program, url, credentials) {
            Ok(mut child) => match failed_at_once(&mut child).await {
                Some(status) => failures.push(format!("{}: {status}", program[0])),
                None => pending().await,
            },
            Err(err) => failures.push(format!("{}: {err}", program[0])),
        }
    }
    format!("No browser could be opened ({}).", failures.join("; "))
}

/// Waits until the program ends, which may be long after, since it is often the browser itself. Returns the status of a
/// program that failed within [`LAUNCH_TIMEOUT`].
async fn failed_at_once(child: &mut Child) -> Option<ExitStatus> {
    if let Ok(status) = timeout(LAUNCH_TIMEOUT, child.wait()).await {
        return status.ok().filter(|status| !status.success());
    }
    // The page was open for a while, so a later failure of the program is not reported.
    let _ = child.wait().await;
    None
}

fn start(program: &Program, url: &str, credentials: &Credentials) -> std::io::Result<Child> {
    let mut words = program.iter().map(|word| word.replace(URL_PLACEHOLDER, url));
    let mut command = Command::new(words.next().unwrap_or_default());
    let vars = credentials.env().vars().iter();
    command
        .args(words)
        .env_clear()
        .envs(vars.filter(|(name, value)| !credentials.is_secret(name, value)))
        // This process speaks its protocol over standard input and output, which the program must not use.
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // The browser belongs to the user from now on, and keeps running when this process ends.
        .env(left_alone().0, left_alone().1)
        .process_group(0);
    command.spawn()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Env, programs};

    fn check(vars: &[(&str, &str)], expected: Option<&str>) {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let found = programs(&Env::new(vars, Path::new("/"))).ok();
        let found = found
            .map(|found| found.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join(" | "));
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn browser_is_a_list_of_commands() {
        check(&[("BROWSER", "a -x:b --url=%s -y:")], Some("a -x %s | b --url=%s -y"));
    }

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn without_a_display_there_is_no_browser() {
        check(&[], None);
        check(&[("BROWSER", ":"), ("DISPLAY", "")], None);
    }

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn the_desktop_knows_the_browser() {
        let desktop = "xdg-open %s | gio open %s | x-www-browser %s";
        check(&[("DISPLAY", ":0")], Some(desktop));
        check(&[("WAYLAND_DISPLAY", "wayland-0")], Some(desktop));
        let windows = "wslview %s | rundll32.exe url.dll,FileProtocolHandler %s";
        check(&[("WSL_DISTRO_NAME", "Debian")], Some(windows));
    }
}
