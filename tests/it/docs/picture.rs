//! Screens in the manual, made from `fixtures/tui`, which the terminal's own tests write.

use std::fs;

use super::{read, root, updates};

/// The screen in the README.
const SCREEN: &str = "manual.txt";
const PICTURE: &str = "docs/terminal.svg";

/// Width and height of a character, and the space around all of them, in pixels.
const CELL: (f64, usize) = (8.43, 19);
const MARGIN: usize = 16;

/// Reads a screen as a person sees it: without the line between the scrollback and the live rows, and without the
/// note on the cursor.
pub(super) fn screen(name: &str) -> String {
    let text = read(&root().join("fixtures/tui").join(name));
    let rows = text.lines().filter(|row| !row.starts_with('┈') && !row.starts_with("(cursor: "));
    let rows: Vec<_> = rows.collect();
    rows.join("\n").trim_matches('\n').to_owned() + "\n"
}

/// Returns the style class of a row, as `frontends/tui/theme.rs` names them; the middle of a row is not coloured.
fn colour(row: &str) -> &'static str {
    let sign = row.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let is_change =
        row.starts_with("  ") && row.trim_start().starts_with(|c: char| c.is_ascii_digit());
    match sign.chars().next() {
        Some('-') if is_change => "bad",
        Some('+') if is_change => "good",
        Some('›') => "user",
        Some('∴') if row.starts_with('∴') => "dim",
        Some('─') if row.chars().all(|c| c == '─') => "dim",
        _ if row.contains(" · default · ") => "dim",
        _ if row.starts_with("Asked because") => "dim",
        _ => "text",
    }
}

fn svg(screen: &str) -> String {
    let rows: Vec<_> = screen.lines().collect();
    let columns = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "a screen is small")]
    let width = (columns as f64).mul_add(CELL.0, 2.0 * MARGIN as f64).ceil();
    let height = rows.len() * CELL.1 + 2 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
            width=\"{width}\" height=\"{height}\">\n\
         <style>text {{ font: 14px ui-monospace, Menlo, Consolas, monospace; white-space: pre }}\n\
         .text {{ fill: #d4d7dd }} .dim {{ fill: #8b919c }} .user {{ fill: #7aa7f5; font-weight: bold }}\n\
         .good {{ fill: #7ec699 }} .bad {{ fill: #ef8080 }}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1c1f26\"/>\n"
    );
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        let y = MARGIN + at * CELL.1 + 14;
        let row = row.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let class = colour(rows[at]);
        text += &format!(
            "<text x=\"{MARGIN}\" y=\"{y}\" class=\"{class}\" xml:space=\"preserve\">{row}</text>\n"
        );
    }
    text + "</svg>\n"
}

#[test]
fn the_picture_is_the_screen_that_the_terminal_shows() {
    let (path, now) = (root().join(PICTURE), svg(&screen(SCREEN)));
    if updates() {
        return fs::write(path, now).unwrap();
    }
    assert_eq!(read(&path), now, "UPDATE_DOCS=1 writes it anew");
}

#[test]
fn the_picture_of_the_rooms_has_every_room() {
    let manifest = read(&root().join("Cargo.toml"));
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let members = members.lines().filter_map(|line| line.trim().strip_prefix("\"src/"));
    let rooms: Vec<_> = members.map(|line| line.trim_end_matches("\",")).collect();
    assert!(rooms.len() > 10, "{rooms:?}");
    let picture = read(&root().join("docs/pictures/rooms.svg"));
    let is_missing = |room: &&&str| {
        let name = room.rsplit('/').next().unwrap_or(room);
        ![format!(">{name}<"), format!(">{name}:")].iter().any(|text| picture.contains(text))
    };
    assert_eq!(rooms.iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&&str>::new());
}
