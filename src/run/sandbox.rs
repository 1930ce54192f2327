//! `tandem sandbox`: runs a command of the user in the sandbox, or describes the sandbox.

mod own_group;

use std::io::{Write as _, stderr};
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};

use super::ending::ExitReason;
use super::parts;
use super::printing::print;
use super::session_factory::{env, environment};
use crate::cli::SandboxArgs;
use tandem_host::command_sandbox::{CommandSandbox, Confinement, SandboxSetup, ShownFiles};
use tandem_host::network::BlockedHost;
use tandem_host::workspace::Workspace;
use tandem_sandbox::{SandboxMode, end_with_thread};
use tandem_settings::{Credentials, policy, read_settings};
use tokio::process::Command;

/// Runs a command in the sandbox; without a command, describes the sandbox.
pub(crate) async fn sandbox(args: &SandboxArgs) -> anyhow::Result<ExitReason> {
    if args.mode == SandboxMode::DangerFullAccess {
        bail!("`{}` runs commands without a sandbox; run the command without tandem", args.mode);
    }
    let env = env()?;
    let settings = read_settings(&env, env.directory(), &[]);
    let secrets = policy(&env, &settings, env.directory(), true).secrets;
    let workspace = Workspace::new(env.directory(), &settings.context.include_directories)
        .context("cannot work in this directory")?
        .with_secrets(secrets);
    let limits = settings.limits(&args.limits).tools;
    let setup = parts::sandbox_setup(&settings, &env, &limits);
    let setup = SandboxSetup { mechanism: args.mechanism, ..setup };
    let sandbox = Arc::new(CommandSandbox::new(setup, Arc::new(workspace)));
    if args.command.is_empty() {
        return show(&sandbox, args.mode).await;
    }
    sandbox.on_news(|news| {
        // If standard error is closed there is nobody to tell.
        let _ = writeln!(stderr(), "tandem: {news}");
    });
    let probe = sandbox.probe().await;
    let confinement =
        sandbox.confine(args.mode, &ShownFiles::default()).await.map_err(|error| {
            let why =
                probe.passed_over.iter().map(|it| format!("\n  {}: {}", it.mechanism, it.why));
            anyhow!("{}{}", error.message, why.collect::<String>())
        })?;
    let mut command = confinement.command(&args.command)?;
    let hidden = environment(&Credentials::new(env.clone()), &settings);
    for (name, value) in std::env::vars_os() {
        if hidden.hides(&name.to_string_lossy(), &value.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.envs(confinement.network_variables());
    // This program may be killed by SIGKILL, and then cannot end the command itself. This function runs on the main
    // thread.
    end_with_thread(&mut command);
    // The sandbox of Linux takes the controlling terminal from the command, so the command can read from the terminal
    // in a process group of its own. On other systems the command keeps the controlling terminal, and the terminal
    // would not let another process group read.
    let status = if cfg!(target_os = "linux") {
        own_group::run(command).await?
    } else {
        Command::from(command).status().await.context("the command could not be started")?
    };
    report_blocked(&confinement);
    for (path, to) in sandbox.take_back(&confinement).await {
        // If standard error is closed there is nobody to tell.
        let _ = writeln!(
            stderr(),
            "tandem: the command made {}, which other programs run by themselves; tandem has moved the file to {}",
            path.display(),
            to.display()
        );
    }
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => ExitReason::Failed(code),
        (None, signal) => ExitReason::Signal(signal.unwrap_or_default()),
    })
}

/// Writes the hosts to which the sandbox has blocked connections to standard error.
fn report_blocked(confinement: &Confinement) {
    for BlockedHost { host, why } in confinement.network().iter().flat_map(|it| it.blocked()) {
        // If standard error is closed there is nobody to tell.
        let _ = writeln!(stderr(), "tandem: blocked by the sandbox: {host} ({why})");
    }
}

/// Prints the description of the sandbox: what a command in it can read, write and reach.
async fn show(sandbox: &Arc<CommandSandbox>, mode: SandboxMode) -> anyhow::Result<ExitReason> {
    let text = sandbox.describe(mode).await?;
    print(text)?;
    Ok(ExitReason::Done)
}
