//! Styles of the screen. They use only the terminal's own sixteen colours, and never black, white or a background, so
//! that they are readable on dark and light screens.

use ratatui_core::style::{Color, Modifier, Style};

/// Style of less important text.
pub(super) const DIM_STYLE: Style = Style::new().add_modifier(Modifier::DIM);
/// Style of more important text.
pub(super) const BOLD_STYLE: Style = Style::new().add_modifier(Modifier::BOLD);
/// Style of code in a text, and of names.
pub(super) const CODE_STYLE: Style = Style::new().fg(Color::Cyan);
/// Style of the user's text, and of the chosen row.
pub(super) const USER_STYLE: Style = Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD);
/// Style of success, and of added lines.
pub(super) const GOOD_STYLE: Style = Style::new().fg(Color::Green);
/// Style of failure, and of removed lines.
pub(super) const BAD_STYLE: Style = Style::new().fg(Color::Red);
/// Style of questions and other things that need the user's attention.
pub(super) const QUESTION_STYLE: Style =
    Style::new().fg(Color::Magenta).add_modifier(Modifier::BOLD);
/// Style of keywords in code.
pub(super) const KEYWORD_STYLE: Style = Style::new().fg(Color::Magenta);
/// Style of string literals in code.
pub(super) const STRING_STYLE: Style = Style::new().fg(Color::Green);
/// Style of numbers in code.
pub(super) const NUMBER_STYLE: Style = Style::new().fg(Color::Cyan);
