//! `tandem sessions`: its subcommands and flags.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

/// List, show, search, export, copy, import and delete stored sessions
///
/// Without a subcommand, the sessions of this directory are listed.
#[derive(Args)]
pub(crate) struct SessionsArgs {
    /// Subcommand.
    #[command(subcommand)]
    command: Option<SessionsCommand>,
    /// Options of the list.
    #[command(flatten)]
    list: ListArgs,
    /// Work with the sessions of servers in this Postgres database: `postgres://USER@HOST/DATABASE`.
    /// `TANDEM_STORE` has the same effect, and `PGPASSWORD` has the password
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
}

impl SessionsArgs {
    /// Returns what is to be done; the error says which options are in the wrong place.
    pub(crate) fn command(&self) -> Result<SessionsCommand, &'static str> {
        match &self.command {
            None => Ok(SessionsCommand::List(self.list.clone())),
            Some(command) if self.list == ListArgs::default() => Ok(command.clone()),
            Some(_) => Err("--all, --json and -n go behind the subcommand"),
        }
    }
}

/// Subcommand of `tandem sessions`. SESSION is an id or the beginning of one, a number in the list of
/// this directory, or words of a title.
#[derive(Subcommand, Clone)]
pub(crate) enum SessionsCommand {
    /// List the sessions of this directory, the last changed first
    List(ListArgs),
    /// Print a session as plain text
    Show {
        /// The id or its beginning, the number in the list, or words of the title
        session: String,
    },
    /// List the sessions with a text in their prompts or answers; upper and lower case do not count
    Search {
        /// The text
        #[arg(required = true)]
        text: Vec<String>,
        /// Search the sessions of all directories
        #[arg(short, long)]
        all: bool,
    },
    /// Write a session as a document
    Export {
        /// The id or its beginning, the number in the list, or words of the title
        session: String,
        /// The format: md (Markdown), html (one page that loads nothing), jsonl (the log as it is)
        #[arg(short, long, value_name = "FORMAT", default_value = "md")]
        format: ExportFormat,
        /// The file to write, which must not exist [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Copy a session, so that the copy can go another way, and print the copy's id
    Fork {
        /// The id or its beginning, the number in the list, or words of the title
        session: String,
    },
    /// Import sessions of Gemini CLI, whose files stay as they are. Sessions that were imported before are left out
    Import(ImportArgs),
    /// Delete sessions, after a question
    Delete {
        /// The ids or their beginnings, the numbers in the list, or words of the titles
        #[arg(value_name = "SESSION", required = true)]
        sessions: Vec<String>,
        /// Delete without a question
        #[arg(short, long)]
        yes: bool,
    },
}

/// Options of the list.
#[derive(Args, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListArgs {
    /// List the sessions of all directories
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Write one JSON array
    #[arg(long)]
    pub(crate) json: bool,
    /// Maximum number of sessions
    #[arg(short = 'n', value_name = "N")]
    pub(crate) most: Option<usize>,
}

/// Sessions to import.
#[derive(Args, Clone)]
pub(crate) struct ImportArgs {
    /// A file with a session of Gemini CLI, or a directory with such files [default: the sessions of this directory]
    #[arg(value_name = "PATH", conflicts_with = "all")]
    pub(crate) path: Option<PathBuf>,
    /// Import the sessions of all directories whose paths Gemini CLI knows
    #[arg(short, long)]
    pub(crate) all: bool,
    /// If a session has changed in Gemini CLI since it was imported, import it as one more session
    #[arg(long)]
    pub(crate) again: bool,
    /// Write one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    Markdown,
    Html,
    Jsonl,
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "md" | "markdown" => Ok(Self::Markdown),
            "html" => Ok(Self::Html),
            "jsonl" => Ok(Self::Jsonl),
            _ => Err("must be one of md, html, jsonl".to_owned()),
        }
    }
}
