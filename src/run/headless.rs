//! `tandem -p`: runs one prompt from the command line to its end.

use std::io::{self, IsTerminal as _, Write as _, stderr, stdin};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::ending::{EndSignals, ExitReason, LAST_WORDS, unread, wait_all_stored};
use super::session_factory::{OpenedSession, SessionFactory};
use super::session_server::SessionServer;
use crate::cli::AgentArgs;
use tandem_agent::session::{AGENT_ENDS, AnswerSchema, PromptPart};
use tandem_content::blocking::try_blocking;
use tandem_content::bounded;
use tandem_headless::{self as headless, Format, HeadlessOptions, OutputStreams, RunFailure};
use tandem_model::provider::Provider;
use tandem_settings::Settings;
use tandem_wire::stdio;

/// Time that standard input is read before a message tells the user that the program waits for its end.
const SILENT_INPUT_TIME: Duration = Duration::from_secs(3);

/// Value of `-p` that means: standard input is the prompt.
const STANDARD_INPUT: &str = "-";

/// Maximum size of a schema in bytes: the model is told all of it.
const MAX_SCHEMA_BYTES: u64 = 128 << 10;

/// Character that is removed from the beginning of standard input.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Runs the prompt of `-p`, with the text of standard input before it.
///
/// 1. Reads the schema of the answer, opens the session, and puts the prompt together.
/// 2. Opens the session to A2A clients if the user wants that.
/// 3. Runs the prompt until its turn ends, standard output has no reader any more, or a signal comes.
/// 4. Closes the session, ends the commands, and waits until the session is stored. A second signal ends the wait.
pub(crate) async fn headless(agent: &AgentArgs, prompt: &str) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let (factory, settings) = SessionFactory::new(&agent.work)?;
    let format = agent.output_format;
    let prepared = tokio::select! {
        prepared = prepare(agent, prompt, &factory, &settings) => prepared,
        signal = signals.next() => return Ok(ExitReason::Signal(signal)),
        () = unread() => return Ok(ExitReason::Unread),
    };
    let Prepared { opened, prompt, answer_schema } = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return Ok(refuse(&RunFailure::Input(why), format).await),
    };
    let joined = match SessionServer::begin(agent, &opened, &factory, &settings).await {
        Ok(joined) => joined,
        Err(why) => return Ok(refuse(&RunFailure::Other(format!("{why:#}")), format).await),
    };
    joined.announce();
    let (sessions, loaded) = opened;
    let signal = Arc::new(OnceLock::new());
    let options = HeadlessOptions {
        format,
        shared: agent.is_shared(),
        progress: stderr().is_terminal(),
        fail_on_refusal: agent.fail_on_refusal,
        answer_schema,
        signal: Arc::clone(&signal),
    };
    let served = async {
        let mut notes = stderr();
        let outputs = OutputStreams { answer: stdio::plain_output(), notes: &mut notes };
        end(headless::run(loaded.session(), prompt, options, outputs).await)
    };
    tokio::pin!(served);
    let end = tokio::select! {
        end = &mut served => end,
        () = unread() => ExitReason::Unread,
        came = signals.next() => {
            signal.get_or_init(|| came);
            ExitReason::Signal(came)
        }
    };
    sessions.close(AGENT_ENDS);
    let last_words = async {
        if matches!(end, ExitReason::Signal(_)) {
            // `run` has been given the signal, and gets some time to write how the turn ended.
            let _ = timeout(LAST_WORDS, served).await;
        }
        joined.end().await;
        factory.supervisor.end_all().await;
        wait_all_stored(&sessions).await;
    };
    tokio::select! {
        () = last_words => {}
        // After a second signal this process ends at once. The guard process then ends the commands that still
        // run.
        _ = signals.next() => {}
    }
    Ok(end)
}

/// The session, the prompt and the schema that a run begins with.
struct Prepared {
    opened: OpenedSession,
    prompt: Vec<PromptPart>,
    answer_schema: Option<AnswerSchema>,
}

/// Reads the schema, opens the session, and puts the prompt together. The error says, for people, which input is wrong.
async fn prepare(
    agent: &AgentArgs,
    prompt: &str,
    factory: &SessionFactory,
    settings: &Settings,
) -> Result<Prepared, String> {
    let answer_schema = match agent.output_schema.clone() {
        Some(path) => Some(try_blocking(move || read_schema(&path)).await?),
        None => None,
    };
    let (sessions, loaded) = factory
        .one_session(agent, settings, &agent.wanted_session())
        .await
        .map_err(|err| format!("{err:#}"))?;
    let (is_input, prompt) = if prompt == STANDARD_INPUT { (true, "") } else { (false, prompt) };
    let input = if !is_input && stdin().is_terminal() {
        String::new()
    } else {
        input(factory.limits(settings).stdin_bytes).await?
    };
    let input = input.trim_end_matches(['\r', '\n']);
    let typed = |text: &str| PromptPart::Text(text.to_owned());
    let prompt = match (input.trim().is_empty(), prompt.trim().is_empty()) {
        (true, true) if is_input => {
            return Err(
                "there is no prompt: `-p -` reads standard input, which is empty".to_owned()
            );
        }
        (true, true) => {
            return Err("there is no prompt: `-p` is empty, and so is standard input".to_owned());
        }
        (true, false) => vec![typed(prompt)],
        (false, true) => vec![typed(input)],
        (false, false) if !loaded.session().needs_model(&[typed(prompt)]) => {
            let prompt = prompt.trim();
            return Err(format!("`{prompt}` is a command, which takes no standard input"));
        }
        (false, false) => vec![PromptPart::Input(format!("{input}\n\n")), typed(prompt)],
    };
    if loaded.session().ready().is_err() {
        let providers = factory.credentials.servers().providers();
        let (provider, _) = providers.parse_id(&loaded.session().model(), Provider::Gemini);
        factory.login_keys(settings).find(provider).await;
    }
    Ok(Prepared { opened: (sessions, loaded), prompt, answer_schema })
}

/// Reads the schema of the answer. The error says, for people, why the file has none.
fn read_schema(path: &Path) -> Result<AnswerSchema, String> {
    let shown = path.display();
    let bytes = bounded::read(path, MAX_SCHEMA_BYTES).map_err(|error| {
        format!("the schema of the answer cannot be read from {shown} (at most {MAX_SCHEMA_BYTES} bytes): {error}")
    })?;
    let schema = serde_json::from_slice(&bytes)
        .map_err(|error| format!("the schema of the answer in {shown} is not JSON: {error}"))?;
    AnswerSchema::new(schema)
        .map_err(|why| format!("the schema of the answer in {shown} cannot be used: {why}"))
}

/// Reads standard input to its end. The error says, for people, why the input makes no prompt.
async fn input(limit: usize) -> Result<String, String> {
    let mut bytes = Vec::new();
    // Reads one byte beyond the limit, which shows that the input is longer.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut input = stdio::input().take(most);
    let read = input.read_to_end(&mut bytes);
    tokio::pin!(read);
    let read = if let Ok(read) = timeout(SILENT_INPUT_TIME, &mut read).await {
        read
    } else {
        // If standard error is closed there is nobody to tell.
        let _ = writeln!(
            stderr(),
            "tandem: reading standard input until it ends (`< /dev/null` if there is none)"
        );
        read.await
    };
    read.map_err(|err| format!("standard input cannot be read: {err}"))?;
    if bytes.len() > limit {
        return Err(format!(
            "standard input is longer than {limit} bytes; `--limit stdin-bytes=N` allows more"
        ));
    }
    let text = String::from_utf8(bytes).map_err(|err| {
        let at = err.utf8_error().valid_up_to();
        let byte = err.as_bytes().get(at).copied().unwrap_or_default();
        format!("standard input is not UTF-8: byte {byte:#04x} at offset {at}")
    })?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(ToOwned::to_owned).unwrap_or(text))
}

/// Writes the reason why the prompt is not run.
async fn refuse(failure: &RunFailure, format: Format) -> ExitReason {
    let mut notes = stderr();
    let outputs = OutputStreams { answer: stdio::plain_output(), notes: &mut notes };
    // If the reason cannot be written, the exit code still tells of the failure.
    let _ = headless::refuse(failure, format, outputs).await;
    ExitReason::Failed(failure.code())
}

fn end(ran: io::Result<Option<RunFailure>>) -> ExitReason {
    match ran {
        Ok(None) => ExitReason::Done,
        Ok(Some(failure)) => ExitReason::Failed(failure.code()),
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => ExitReason::Unread,
        Err(err) => {
            let _ = writeln!(stderr(), "tandem: the answer cannot be written: {err}");
            ExitReason::Failed(1)
        }
    }
}
