//! Content of a question: every character that the call would write, run or send.

use ratatui_core::style::Style;
use ratatui_core::text::Span;

use super::super::dialog::Dialog;
use super::super::highlight::Highlighter;
use super::super::layout::QuestionRows;
use super::super::theme::{BOLD_STYLE, CODE_STYLE, DIM_STYLE};
use super::super::wrap::{Margin, fold, lines};
use super::diff;
use tandem_agent::session::{
    Access, CallStarted, FileDiff, QuestionSubject, describe_program_input, without_sandbox_marks,
};
use tandem_content::visible::{has_hidden, visible, visible_line};

/// Returns the content of a question. `full`: with the title, the reason and the choices; `around`: number of unchanged
/// lines before and after a changed one.
pub(super) fn content(dialog: &Dialog, full: bool, around: usize, columns: usize) -> QuestionRows {
    let started = &*dialog.started;
    let mut page = ContentRows { columns, around, content: QuestionRows::default() };
    let reason = reason(started);
    let said = reason.iter().chain([&started.summary.label]);
    page.content.hidden =
        said.chain(dialog.choices().iter().map(|(.., text)| text)).any(|it| has_hidden(it));
    if full {
        page.text(super::title(started), BOLD_STYLE);
        page.rule();
    }
    match dialog.input_question() {
        Some(asked) => page.text(&asked.question, Style::new()),
        None => page.subject(started),
    }
    if full {
        page.rule();
        page.text(&reason.unwrap_or_default(), DIM_STYLE);
        for (key, _, text) in dialog.choices() {
            page.text(&format!("{key}  {text}"), Style::new());
        }
    }
    page.content
}

/// Returns the reason for which a question is asked.
pub(super) fn reason(started: &CallStarted) -> Option<String> {
    let asked = started.question.as_ref();
    let question = asked.filter(|asked| asked.subject != QuestionSubject::UserInput)?;
    let mut why = format!("Asked because {}", question.reason());
    if !question.commands.is_empty() {
        why.push_str(&format!(" (new: {})", question.commands.join(", ")));
    }
    Some(why)
}

struct ContentRows {
    columns: usize,
    /// Number of unchanged lines before and after a changed one.
    around: usize,
    content: QuestionRows,
}

impl ContentRows {
    fn subject(&mut self, started: &CallStarted) {
        let args = &started.call.args;
        match (&started.access, &started.summary.diff) {
            (_, Some(change)) => change.each().for_each(|change| self.change(change)),
            (Access::Edit { .. }, None) => {
                for path in started.access.changed_files() {
                    self.name("", &path.display().to_string());
                }
                self.text(&format!("{args:#}"), Style::new());
            }
            (Access::Execute { command, directory, .. }, None) => {
                self.content.hidden |= has_hidden(command);
                let mut shell = Highlighter::new("sh");
                for line in lines(&without_sandbox_marks(command)) {
                    let spans = shell.line(&visible(line));
                    self.spans(&spans);
                }
                self.name("in ", &directory.display().to_string());
            }
            (Access::ProgramInput(input), None) => {
                self.text(&describe_program_input(input), Style::new());
            }
            (Access::Fetch { urls, .. }, None) => {
                for url in urls {
                    self.content.hidden |= hides(url);
                    self.spans(&[Span::styled(visible_line(url).into_owned(), CODE_STYLE)]);
                }
            }
            (access @ Access::Connect { command, .. }, None) => {
                for host in access.hosts() {
                    self.name("", &host);
                }
                self.name("for ", command);
            }
            (Access::Mcp { server, tool, display_name, .. }, None) => {
                self.name("tool ", tool);
                self.name("of the MCP server ", server);
                if display_name != tool {
                    self.name("its title: ", display_name);
                }
                self.text(&format!("{args:#}"), Style::new());
            }
            (
                Access::Other { description }
                | Access::Agent { description, .. }
                | Access::AgentQuestion { description, .. },
                None,
            ) => self.text(description, Style::new()),
            (Access::ReadFiles { paths, .. }, None) => {
                for path in paths {
                    self.name("", &path.display().to_string());
                }
                self.text(&format!("{args:#}"), Style::new());
            }
            // The model's questions are shown one by one, in place of the call.
            (Access::UserInput { .. }, None) => {}
            (Access::Nothing | Access::Read, None) => {
                if args.as_object().is_some_and(|args| !args.is_empty()) {
                    self.text(&format!("{args:#}"), Style::new());
                }
            }
        }
    }

    /// Adds a change of one file.
    fn change(&mut self, change: &FileDiff) {
        if let Some(before) = &change.moved_from {
            self.name("moves ", before);
        }
        let does = match (&change.moved_from, change.removes) {
            (Some(_), _) => "to ",
            (None, true) => "removes ",
            (None, false) => "",
        };
        self.name(does, &change.path);
        let lines = change.lines();
        let mut pieces = lines.hunks.iter().flatten().flat_map(|line| &line.pieces);
        self.content.hidden |= pieces.any(|(_, text)| has_hidden(text));
        self.content.rows.extend(diff::rows(change, &lines, self.around, self.columns));
        // The title shows the added and removed lines of a single change, and no counts for several changes.
        self.content.counts = match self.content.changes {
            0 => diff::counts(change, &lines),
            _ => Vec::new(),
        };
        self.content.changes += 1;
    }

    /// Adds a name on one line; line breaks in the name are written out.
    fn name(&mut self, before: &'static str, name: &str) {
        self.content.hidden |= hides(name);
        let before = Span::styled(before, DIM_STYLE);
        self.spans(&[before, Span::styled(visible_line(name).into_owned(), Style::new())]);
    }

    fn text(&mut self, text: &str, style: Style) {
        self.content.hidden |= has_hidden(text);
        for line in lines(text) {
            self.spans(&[Span::styled(line.to_owned(), style)]);
        }
    }

    fn spans(&mut self, spans: &[Span<'static>]) {
        let margin = Margin::bar("  ", Style::new());
        self.content.rows.extend(fold(spans, &margin, self.columns));
    }

    fn rule(&mut self) {
        self.content.rows.push(super::rule(DIM_STYLE, self.columns));
    }
}

/// Returns whether a name has characters that are hidden or break the line.
fn hides(name: &str) -> bool {
    visible_line(name) != name
}
