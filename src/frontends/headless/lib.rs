//! Front end that runs one prompt from the command line. Standard output gets the prompt's result and nothing else.
//!
//! [`run`] reads the session's log until the prompt's turn has ended. Unless the session is shared, no person can
//! answer questions: each question is then answered with a refusal, which tells the model that no person can be asked.

mod failure;
mod format;
mod notes;
mod question;
mod refusals;
mod stats;

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

pub use self::failure::RunFailure;
pub use self::format::Format;
use self::format::{Printer, RunEnd};
use self::notes::Notes;
use self::refusals::Refusals;
use tandem_agent::session::{
    Answer, AnswerSchema, CallStep, LastAnswer, Origin, Projection, PromptPart, Session,
    StopReason, TurnId, Update, UpdateKind,
};

/// Options of a run.
pub struct HeadlessOptions {
    /// Format of standard output.
    pub format: Format,
    /// `true` if the session is shared. Then other clients can answer questions.
    pub shared: bool,
    /// `true` if a person watches. Then the notes also report calls and retries.
    pub progress: bool,
    /// `true` if a refused tool call makes the run fail.
    pub fail_on_refusal: bool,
    /// Schema of the answer, if the answer must be JSON.
    pub answer_schema: Option<AnswerSchema>,
    /// Number of the signal that has cancelled the prompt, if a signal has.
    pub signal: Arc<OnceLock<i32>>,
}

/// Destinations of a run's output.
pub struct OutputStreams<'a, W> {
    /// Destination of the answer.
    pub answer: W,
    /// Destination of the notes for people.
    pub notes: &'a mut (dyn Write + Send),
}

/// Runs a prompt to its end. Returns the failure of the prompt, if it failed; the failure has been written to the
/// outputs before. An error means that the answer cannot be written.
pub async fn run<W: AsyncWrite + Unpin>(
    session: &Arc<Session>,
    mut prompt: Vec<PromptPart>,
    options: HeadlessOptions,
    outputs: OutputStreams<'_, W>,
) -> io::Result<Option<RunFailure>> {
    let schema = options.answer_schema.as_ref();
    let structured = schema.is_some();
    prompt.extend(schema.map(|schema| PromptPart::AnswerSchema(schema.value().clone())));
    if let Err(error) = session.ready()
        && session.needs_model(&prompt)
    {
        let failure = RunFailure::of_model(&error);
        refuse(&failure, options.format, outputs).await?;
        return Ok(Some(failure));
    }
    let mut log = session.events(session.position());
    let mut projection = Projection::default();
    let cost_before = session.cost();
    let mut view = TurnView {
        printer: Printer::new(options.format, structured, session.id(), &session.model()),
        notes: Notes::new(outputs.notes, options.progress),
        answer: outputs.answer,
        session,
        turn: session.prompt(prompt, Origin::Terminal),
        failed: None,
        last: LastAnswer::default(),
        refusals: Refusals::default(),
        cost_before,
        options,
    };
    loop {
        let entry = log.next_entry().await;
        let Some(update) = projection.apply(&entry) else { continue };
        // Other turns belong to other clients of the session.
        if update.turn != Some(view.turn) {
            continue;
        }
        view.show(&update, &projection).await?;
        if let UpdateKind::TurnFinished(reason) = update.kind {
            return view.end(reason).await;
        }
    }
}

/// Writes the reason for which a prompt is not run at all.
pub async fn refuse<W: AsyncWrite + Unpin>(
    failure: &RunFailure,
    format: Format,
    outputs: OutputStreams<'_, W>,
) -> io::Result<()> {
    let OutputStreams { mut answer, notes } = outputs;
    // There is no session, but the programs that read the JSON formats expect an id.
    let id = uuid::Uuid::now_v7().to_string();
    let end = Printer::new(format, false, &id, "").end(&RunEnd {
        reason: None,
        failure: Some(failure),
        refusals: &Refusals::default(),
        cost: None,
        structured: None,
    });
    Notes::new(notes, false).failed(failure);
    write(&mut answer, &end).await
}

/// View that shows one turn.
struct TurnView<'a, W> {
    session: &'a Arc<Session>,
    turn: TurnId,
    /// Reason for which the prompt's command failed, if it failed.
    failed: Option<String>,
    /// Last answer of the model so far.
    last: LastAnswer,
    /// Calls of the turn that were refused so far.
    refusals: Refusals,
    /// Cost of the session before the turn in US dollars; `None` if the session is new, or its cost is not known.
    cost_before: Option<f64>,
    options: HeadlessOptions,
    printer: Printer,
    notes: Notes<'a>,
    answer: W,
}

impl<W: AsyncWrite + Unpin> TurnView<'_, W> {
    async fn show(&mut self, update: &Update<'_>, projection: &Projection) -> io::Result<()> {
        let shown = self.printer.update(update, projection);
        write(&mut self.answer, &shown).await?;
        if let UpdateKind::Call(started, CallStep::Started) = &update.kind
            && let Some(question) = &started.question
        {
            if self.options.shared {
                self.notes.write_question(started, question);
            } else {
                self.notes.not_allowed(started, question);
                let refusal = Answer::Nobody(question::refusal(question));
                // The answer is not accepted if the turn has been cancelled meanwhile; then it is not needed.
                let _ = self.session.answer(&started.call.id, refusal, Origin::Terminal);
            }
        }
        if let UpdateKind::CommandFailed(why) = update.kind {
            self.failed = Some(why.to_owned());
        }
        self.last.apply(&update.kind);
        self.refusals.update(&update.kind);
        self.notes.update(&update.kind);
        Ok(())
    }

    async fn end(mut self, reason: &StopReason) -> io::Result<Option<RunFailure>> {
        let failure = RunFailure::from_reason(reason, self.options.signal.get().copied());
        let failure = failure.or(self.failed.take().map(RunFailure::Other));
        let (structured, failure) = match self.structured().filter(|_| failure.is_none()) {
            Some(Ok(answer)) => (Some(answer), None),
            Some(Err(mismatch)) => (None, Some(mismatch)),
            None => (None, failure),
        };
        let refused = || self.refusals.failure().filter(|_| self.options.fail_on_refusal);
        let failure = failure.or_else(refused);
        let end = self.printer.end(&RunEnd {
            reason: Some(reason),
            failure: failure.as_ref(),
            refusals: &self.refusals,
            // A session whose cost was not known before has no cost now, either.
            cost: self.session.cost().map(|cost| cost - self.cost_before.unwrap_or_default()),
            structured: structured.as_ref(),
        });
        write(&mut self.answer, &end).await?;
        if let Some(failure) = &failure {
            self.notes.failed(failure);
        }
        Ok(failure)
    }

    /// Returns the last answer as JSON that fits the schema; `None` if no schema is asked for. The turn has checked the
    /// answer, unless a command has ended the turn.
    fn structured(&self) -> Option<Result<Value, RunFailure>> {
        let schema = self.options.answer_schema.as_ref()?;
        Some(schema.read(&self.last.text).map_err(|faults| {
            RunFailure::SchemaMismatch(if self.last.text.is_empty() {
                "The prompt is a command that has not asked the model, so no answer fits the schema.".to_owned()
            } else {
                format!("The answer does not fit the schema: {}.", faults.join("; "))
            })
        }))
    }
}

async fn write(answer: &mut (impl AsyncWrite + Unpin), text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    answer.write_all(text.as_bytes()).await?;
    answer.flush().await
}
