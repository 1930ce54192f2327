//! Slash commands of the program, and those that people write.

mod custom;
mod editor;
mod sandbox;

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}
