//! The few styles there are. The terminal's own sixteen colours, and never black, white or a
//! background: so they fit dark and light screens alike.

use ratatui_core::style::{Color, Modifier, Style};

/// What is less important.
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// What is more important.
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Code in a text, names.
pub(super) const CODE: Style = Style::new().fg(Color::Cyan);
/// What the user said, and what is chosen.
pub(super) const USER: Style = Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD);
/// What went well, and what is new.
pub(super) const GOOD: Style = Style::new().fg(Color::Green);
/// What went wrong, and what is gone.
pub(super) const BAD: Style = Style::new().fg(Color::Red);
/// What wants attention.
pub(super) const ASKS: Style = Style::new().fg(Color::Magenta).add_modifier(Modifier::BOLD);
/// Words of a language.
pub(super) const KEYWORD: Style = Style::new().fg(Color::Magenta);
/// Texts in code.
pub(super) const STRING: Style = Style::new().fg(Color::Green);
/// Numbers in code.
pub(super) const NUMBER: Style = Style::new().fg(Color::Cyan);
