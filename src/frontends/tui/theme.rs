//! The few styles there are. The terminal's own sixteen colours, and never black, white or a
//! background: so they fit dark and light screens alike.

use ratatui_core::style::{Color, Modifier, Style};

/// Style of less important text.
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Style of more important text.
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Code in a text, names.
pub(super) const CODE: Style = Style::new().fg(Color::Cyan);
/// Style of the user's text, and of the chosen row.
pub(super) const USER: Style = Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD);
/// Style of success, and of added lines.
pub(super) const GOOD: Style = Style::new().fg(Color::Green);
/// Style of failure, and of removed lines.
pub(super) const BAD: Style = Style::new().fg(Color::Red);
/// Style of what wants attention.
pub(super) const ASKS: Style = Style::new().fg(Color::Magenta).add_modifier(Modifier::BOLD);
/// Words of a language.
pub(super) const KEYWORD: Style = Style::new().fg(Color::Magenta);
/// Texts in code.
pub(super) const STRING: Style = Style::new().fg(Color::Green);
/// Numbers in code.
pub(super) const NUMBER: Style = Style::new().fg(Color::Cyan);
