//! `tandem sessions`: lists, shows, searches, exports, copies, imports and deletes stored sessions.

mod import;

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::printing::{print, printed};
use super::session_factory::env;
#[cfg(feature = "postgres")]
use super::store;
use crate::cli::{ExportFormat, ListArgs, SessionsArgs, SessionsCommand};
use tandem_agent::session::{Listed, NOT_STORED, PrincipalId, Query, Store, explain_age, now};
use tandem_agent::sessions::{
    Conversation, SearchHit, WantedSession, find, fork, read_conversation, search, to_html,
    to_markdown, to_text,
};
use tandem_content::shorten::ellipsis;
use tandem_content::visible::{escaped_json, visible_line, visible_prose};
use tandem_settings::Env;
use tandem_store::{FileStore, log_lines};

/// Maximum number of characters of a title in a list.
const MAX_TITLE_CHARS: usize = 60;

/// Number of columns of a list.
const LIST_COLUMNS: usize = 8;

/// The stored sessions that the user of a directory sees.
struct StoredSessions {
    store: Arc<dyn Store>,
    /// The same store, if the sessions are files of this machine; `None` if they are in a database.
    own: Option<FileStore>,
    env: Env,
}

/// Runs a subcommand of `tandem sessions`.
pub(crate) async fn sessions(args: &SessionsArgs) -> anyhow::Result<()> {
    let command = args.command().map_err(anyhow::Error::msg)?;
    let sessions = StoredSessions::open(args).await?;
    match &command {
        SessionsCommand::List(args) => sessions.list(args).await,
        SessionsCommand::Show { session } => {
            let conversation = sessions.read(session).await?;
            print(to_text(&conversation))
        }
        SessionsCommand::Search { text, all } => sessions.search(&text.join(" "), *all).await,
        SessionsCommand::Export { session, format, output } => {
            sessions.export(session, *format, output.as_deref()).await
        }
        SessionsCommand::Fork { session } => {
            ensure!(
                sessions.own.is_some(),
                "a session of a database cannot be copied from here; a client of a server can, with `/fork`"
            );
            let listed = sessions.find(session).await?;
            let fork = fork(&*sessions.store, &listed.head.id).await;
            let fork = fork.with_context(|| called(&listed, "cannot be copied"))?;
            print(format!("{}\n", fork.id))
        }
        SessionsCommand::Import(args) => sessions.import(args).await,
        SessionsCommand::Delete { sessions: names, yes } => sessions.delete(names, *yes).await,
    }
}

impl StoredSessions {
    /// Opens the sessions of a database if the user has named a database, or else the sessions of this machine.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(
            clippy::unused_async,
            reason = "with the feature `postgres` it connects to a database"
        )
    )]
    async fn open(args: &SessionsArgs) -> anyhow::Result<Self> {
        let env = env()?;
        #[cfg(feature = "postgres")]
        if let Some(store) = store::existing(args.store.as_deref(), &env).await? {
            return Ok(Self { store, own: None, env });
        }
        #[cfg(not(feature = "postgres"))]
        let _ = args;
        let dir = env.sessions_dir().context(NOT_STORED)?;
        let own = FileStore::new(dir);
        Ok(Self { store: Arc::new(own.clone()), own: Some(own), env })
    }

    async fn find(&self, name: &str) -> anyhow::Result<Listed> {
        let wanted = WantedSession::Named(name.to_owned());
        let found = find(&*self.store, self.env.directory(), &wanted).await;
        found.map_err(|error| anyhow!(error.to_string()))
    }

    async fn read(&self, name: &str) -> anyhow::Result<Conversation> {
        Ok(read_conversation(&*self.store, &self.find(name).await?).await?)
    }

    fn query(&self, all: bool) -> Query {
        let directory = (!all).then(|| self.env.directory().to_owned());
        Query { directory, ..Query::default() }
    }

    async fn list(&self, args: &ListArgs) -> anyhow::Result<()> {
        let query = Query { most: args.most, ..self.query(args.all) };
        let list = self.store.list(&query).await?;
        let numbered = (1..).zip(&list);
        if args.json {
            let list: Vec<_> = numbered
                .map(|(number, it)| self.as_json(it, (!args.all).then_some(number)))
                .collect();
            return print(&*escaped_json(&format!("{:#}\n", Value::from(list))));
        }
        if list.is_empty() {
            return say(none(args.all));
        }
        let rows: Vec<_> =
            numbered.map(|(number, it)| self.row(it, (!args.all).then_some(number))).collect();
        let holders: Vec<_> = list.iter().map(Listed::explain_holder).collect();
        print(with_notes(&table(&rows), &holders))
    }

    /// Returns the cells of a session's row in a list. Without a `number`, the first cell is the session's directory:
    /// the list of all directories has no numbers, because a number counts only within one directory.
    fn row(&self, listed: &Listed, number: Option<usize>) -> [String; LIST_COLUMNS] {
        let turns = if listed.turns == 1 { "turn" } else { "turns" };
        let owner = listed.head.owner.as_ref();
        // A session without an owner is the user's own. The id of its A2A context means nothing to the user, and is not shown.
        let context = owner.and(listed.head.context.as_ref());
        let place = || below_home(&listed.head.directory, &self.env);
        let title = titled(listed);
        [
            number.map_or_else(place, |number| number.to_string()),
            explain_age(now(), listed.changed),
            format!("{} {turns}", listed.turns),
            self.size(listed).map_or_else(|| "-".to_owned(), human_size),
            owner.map_or_else(String::new, owned),
            context.map_or_else(String::new, |context| shortened(context)),
            if listed.held_by.is_some() { format!("[open] {title}") } else { title },
            listed.head.id.clone(),
        ]
    }

    /// Returns the bytes on the disk of a session with its files; `None` if it is gone, or in a database.
    fn size(&self, listed: &Listed) -> Option<u64> {
        self.own.as_ref()?.size(&listed.head.id).ok()
    }

    fn as_json(&self, listed: &Listed, number: Option<usize>) -> Value {
        let Listed { head, title, turns, changed, shares, held_by } = listed;
        let mut json = json!({
            "id": head.id,
            "title": title,
            "turns": turns,
            "directory": head.directory,
            "created": head.created,
            "changed": changed,
            "bytes": self.size(listed),
            "by": head.by,
        });
        if let Some(number) = number {
            json["number"] = number.into();
        }
        if let Some(tag) = &head.tag {
            json["tag"] = tag.as_str().into();
        }
        if let Some(from) = &head.from {
            json["from"] = json!(from);
        }
        if let Some(owner) = &head.owner {
            json["owner"] = json!(owner);
            json["shares"] = json!(shares);
        }
        if let Some(context) = &head.context {
            json["contextId"] = context.as_str().into();
        }
        if let Some(holder) = held_by {
            json["open"] = json!(holder);
            if let Some(command) = holder.join_command(&head.id) {
                json["open"]["join"] = command.into();
            }
        }
        json
    }

    async fn search(&self, text: &str, all: bool) -> anyhow::Result<()> {
        ensure!(!text.trim().is_empty(), "there is nothing to search for: the text is empty");
        let hits = search(&*self.store, &self.query(all), text).await?;
        if hits.is_empty() {
            let place = if all { "any stored session" } else { "the sessions of this directory" };
            return say(&format!("`{text}` is not in {place}"));
        }
        let row = |hit: &SearchHit| self.row(&hit.listed, (!all).then_some(hit.number));
        let rows: Vec<_> = hits.iter().map(row).collect();
        let lines: Vec<_> = hits.iter().map(|hit| Some(hit.line.clone())).collect();
        print(with_notes(&table(&rows), &lines))
    }

    async fn export(
        &self,
        name: &str,
        format: ExportFormat,
        output: Option<&Path>,
    ) -> anyhow::Result<()> {
        let listed = self.find(name).await?;
        let id = listed.head.id.clone();
        let mut log = None;
        let mut text = Vec::new();
        match format {
            ExportFormat::Jsonl => match &self.own {
                Some(own) => log = Some(own.log(&id)?),
                None => text = log_lines(&*self.store, &id).await?,
            },
            ExportFormat::Markdown => {
                text = to_markdown(&read_conversation(&*self.store, &listed).await?).into_bytes();
            }
            ExportFormat::Html => {
                text = to_html(&read_conversation(&*self.store, &listed).await?).into_bytes();
            }
        }
        let write = |to: &mut dyn io::Write| match log {
            Some(mut log) => io::copy(&mut log, to).map(|_| ()),
            None => to.write_all(&text),
        };
        let Some(path) = output else { return printed(write(&mut io::stdout())) };
        let mut file = new_file(path)?;
        write(&mut file).with_context(|| format!("cannot write {}", path.display()))
    }

    async fn delete(&self, names: &[String], yes: bool) -> anyhow::Result<()> {
        let mut wanted = Vec::new();
        // Finds all sessions before it deletes the first, because a name can be a number in the list, and each deletion
        // changes the numbers.
        for name in names {
            let listed = self.find(name).await?;
            if !wanted.contains(&listed) {
                wanted.push(listed);
            }
        }
        ensure!(
            yes || (io::stdin().is_terminal() && io::stderr().is_terminal()),
            "nobody can be asked whether to delete; `--yes` deletes without a question"
        );
        let rows: Vec<_> = wanted.iter().map(|listed| self.row(listed, None)).collect();
        if !yes && !confirmed(&table(&rows))? {
            return say("Nothing is deleted.");
        }
        let mut failed = false;
        for listed in &wanted {
            match self.store.delete(&listed.head.id).await {
                Ok(()) => print(format!("{}\n", called(listed, "is deleted")))?,
                Err(error) => {
                    failed = true;
                    say(&format!("tandem: {}: {error}", called(listed, "is not deleted")))?;
                }
            }
        }
        if failed {
            bail!("not all sessions are deleted");
        }
        Ok(())
    }
}

/// Makes a file that only its owner may read. Fails if the file exists, so that no file is overwritten.
fn new_file(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|err| match err.kind() {
        ErrorKind::AlreadyExists => {
            anyhow!("{} exists already; delete it, or name another file", path.display())
        }
        _ => anyhow!("cannot write {}: {err}", path.display()),
    })
}

/// Returns a sentence about a session: its id, its title, and the predicate `does`.
fn called(listed: &Listed, does: &str) -> String {
    format!("{} ({}) {does}", listed.head.id, titled(listed))
}

fn none(all: bool) -> &'static str {
    if all {
        "There is no stored session."
    } else {
        "There is no stored session of this directory; `tandem sessions --all` lists those of others."
    }
}

/// Asks the user at the terminal whether to delete the listed sessions.
fn confirmed(list: &str) -> anyhow::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "{list}Delete for ever? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("the answer cannot be read")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Returns the rows as text with aligned columns: the first four to the right, the others to the left. A column that
/// is empty in all rows is left out.
fn table(rows: &[[String; LIST_COLUMNS]]) -> String {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; LIST_COLUMNS] = std::array::from_fn(width);
    let mut out = String::new();
    for row in rows {
        let columns = row.iter().zip(widths).enumerate().filter(|(_, (_, width))| *width > 0);
        let cells = columns.map(|(column, (cell, width))| {
            if column < 4 { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Returns the rows of a table, with a note below each that has one.
fn with_notes(table: &str, notes: &[Option<String>]) -> String {
    let mut out = String::new();
    for (row, note) in table.lines().zip(notes) {
        let _ = writeln!(out, "{row}");
        if let Some(note) = note {
            let _ = writeln!(out, "    {}", visible_line(note));
        }
    }
    out
}

/// Returns the owner of a session as a list shows it.
fn owned(owner: &PrincipalId) -> String {
    visible_line(&format!("{} ({})", owner.name, owner.tenant)).into_owned()
}

/// Returns a session's title as a list shows it, after its tag if it is a checkpoint.
fn titled(listed: &Listed) -> String {
    let title = shown_title(&listed.title);
    match &listed.head.tag {
        Some(tag) => format!("[{}] {title}", shortened(tag)),
        None => title,
    }
}

fn shown_title(title: &str) -> String {
    match shortened(title) {
        title if title.is_empty() => "(no title)".to_owned(),
        title => title,
    }
}

fn shortened(title: &str) -> String {
    ellipsis(&visible_line(title), MAX_TITLE_CHARS).into_owned()
}

/// Returns a size with a unit that keeps the number short. The size is rounded up.
fn human_size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let mut tenths = bytes.div_ceil(100);
    let mut unit = 0;
    while tenths > 9_990 && unit + 1 < units.len() {
        tenths = tenths.div_ceil(1000);
        unit += 1;
    }
    let unit = units[unit];
    if tenths < 100 {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    } else {
        format!("{} {unit}", tenths.div_ceil(10))
    }
}

/// Returns the path of a directory with `~` in place of the home directory.
pub(super) fn below_home(directory: &Path, env: &Env) -> String {
    let home = env.var("HOME").and_then(|home| directory.strip_prefix(home).ok());
    match home {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => directory.display().to_string(),
    }
}

/// Writes a message for people to standard error, because standard output is only for results.
fn say(line: &str) -> anyhow::Result<()> {
    writeln!(io::stderr(), "{}", visible_prose(line)).context("standard error cannot be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_in_the_unit_that_fits_and_never_less_than_it_is() {
        let check = |bytes, expected: &str| assert_eq!(human_size(bytes), expected);
        check(0, "0.0 kB");
        check(1, "0.1 kB");
        check(1_234, "1.3 kB");
        check(9_950, "10 kB");
        check(999_000, "999 kB");
        check(999_999, "1.0 MB");
        check(1_000_001, "1.1 MB");
        check(47_100_000, "48 MB");
        check(3_000_000_000_000_000, "3000 TB");
    }
}
