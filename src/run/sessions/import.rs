//! `tandem sessions import`: imports sessions of Gemini CLI.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::{StoredSessions, print, say, shown_title};
use crate::cli::ImportArgs;
use tandem_content::blocking::blocking;
use tandem_content::visible::escaped_json;
use tandem_import::{
    FoundSession, FoundSessions, GeminiCli, ImportOutcome, ImportScope, Importer, SkipReason,
    SkippedFile,
};

/// Numbers of sessions by the outcome of their import, and of files that were not imported.
#[derive(Default)]
struct Counts {
    imported: usize,
    present: usize,
    changed: usize,
    skipped: usize,
    empty: usize,
}

impl StoredSessions {
    /// Imports sessions of Gemini CLI: writes one line for each as soon as it is imported, or one JSON array of all at
    /// the end. Fails if a file was skipped.
    pub(super) async fn import(&self, args: &ImportArgs) -> anyhow::Result<()> {
        let own = self.own.as_ref().context(
            "sessions of Gemini CLI are imported into the sessions of this machine, not into a database",
        )?;
        let importer = Importer::new(own.clone()).await?;
        let found = self.find_sessions(args).await?;
        let mut counts = Counts { empty: found.empty, ..Counts::default() };
        let mut json = Vec::new();
        let skipped = found.skipped.iter().map(|SkippedFile { path, why }| (path, why));
        for (path, why) in skipped {
            counts.skipped += 1;
            json.push(json!({ "file": path.display().to_string(), "outcome": "skipped", "reason": why.to_string() }));
            say_skipped(path, why)?;
        }
        for session in &found.sessions {
            let outcome = importer.import(session, args.again).await;
            counts.add(&outcome);
            json.push(as_json(session, &outcome));
            match &outcome {
                ImportOutcome::Skipped(why) => say_skipped(&session.file, why)?,
                _ if args.json => {}
                outcome => print(line(session, outcome))?,
            }
        }
        if args.json {
            print(&*escaped_json(&format!("{:#}\n", Value::from(json))))?;
        } else {
            say_unknown(&found)?;
            say(&counts.explain(args))?;
        }
        if counts.skipped > 0 {
            bail!("not all sessions are imported");
        }
        Ok(())
    }

    /// Finds the sessions that the command line asks for.
    async fn find_sessions(&self, args: &ImportArgs) -> anyhow::Result<FoundSessions> {
        let dir = self.env.gemini_dir().context("there is no home directory")?;
        let gemini_cli = GeminiCli::new(dir, self.env.directory().to_owned());
        let scope = match &args.path {
            Some(path) => ImportScope::Path(self.env.directory().join(path)),
            None if args.all => ImportScope::All,
            None => ImportScope::Directory,
        };
        Ok(blocking(move || gemini_cli.find(&scope)).await?)
    }
}

impl Counts {
    fn add(&mut self, outcome: &ImportOutcome) {
        *match outcome {
            ImportOutcome::Imported => &mut self.imported,
            ImportOutcome::Present => &mut self.present,
            ImportOutcome::Changed => &mut self.changed,
            ImportOutcome::Skipped(_) => &mut self.skipped,
        } += 1;
    }

    /// Returns the summary.
    fn explain(&self, args: &ImportArgs) -> String {
        let Self { imported, present, changed, skipped, empty } = *self;
        if imported + present + changed + skipped + empty == 0 {
            return match (&args.path, args.all) {
                (Some(path), _) => format!("{} has no sessions of Gemini CLI.", path.display()),
                (None, true) => "Gemini CLI has no sessions.".to_owned(),
                (None, false) => {
                    "Gemini CLI has no sessions of this directory; `tandem sessions import --all` \
                                  imports those of others."
                        .to_owned()
                }
            };
        }
        let parts = [
            (imported, "imported"),
            (present, "imported before"),
            (changed, "changed since"),
            (skipped, "skipped"),
            (empty, "without a prompt"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, words)| format!("{count} {words}")).collect();
        format!("Sessions of Gemini CLI: {}.", parts.join(", "))
    }
}

/// Returns the line about a session that was not skipped.
fn line(session: &FoundSession, outcome: &ImportOutcome) -> String {
    let does = match outcome {
        ImportOutcome::Imported => "is imported",
        ImportOutcome::Present => "was imported before",
        _ => {
            "has changed in Gemini CLI since it was imported; `--again` imports it as one more session"
        }
    };
    format!("{} ({}) {does}\n", session.head.id, shown_title(&session.title))
}

fn as_json(session: &FoundSession, outcome: &ImportOutcome) -> Value {
    let FoundSession { file, head, title, turns, changed } = session;
    let name = match outcome {
        ImportOutcome::Imported => "imported",
        ImportOutcome::Present => "present",
        ImportOutcome::Changed => "changed",
        ImportOutcome::Skipped(_) => "skipped",
    };
    let mut json = json!({
        "file": file.display().to_string(),
        "outcome": name,
        "id": head.id,
        "title": title,
        "turns": turns,
        "directory": head.directory.display().to_string(),
        "created": head.created,
        "changed": changed,
        "from": head.from,
    });
    if let ImportOutcome::Skipped(why) = outcome {
        json["reason"] = why.to_string().into();
    }
    json
}

fn say_skipped(path: &Path, why: &SkipReason) -> anyhow::Result<()> {
    say(&format!("tandem: {} is not imported: {why}", path.display()))
}

/// Names the directories whose sessions were left out because the paths of their projects are not known.
fn say_unknown(found: &FoundSessions) -> anyhow::Result<()> {
    for chats in &found.unknown {
        say(&format!(
            "{} is left out, because Gemini CLI has not written down where its project is: run `tandem sessions import` \
             in the project's directory",
            chats.display()
        ))?;
    }
    Ok(())
}
