//! Text for people: excerpts of servers' messages, durations, sentences.

use std::time::Duration;

/// Maximum length in bytes of an excerpt.
const EXCERPT_BYTES: usize = 600;

/// Returns the beginning of a message, on one line.
pub(super) fn excerpt(message: &str) -> String {
    shortened(message, EXCERPT_BYTES)
}

/// Returns the beginning of a message, of at most `max` bytes, on one line.
pub(super) fn shortened(message: &str, max: usize) -> String {
    let mut short = String::new();
    for word in message.split_whitespace() {
        if !short.is_empty() {
            short.push(' ');
        }
        short.extend(word.chars().take(max + 1));
        if short.len() > max {
            let end = short.floor_char_boundary(max);
            short.truncate(end);
            short.push('…');
            break;
        }
    }
    short
}

/// Writes a sentence with the server's reason, and with the server's explanation if there is one.
pub(super) fn sentence(what: &str, reason: &str, message: Option<&str>) -> String {
    let reason = excerpt(reason);
    let message = excerpt(message.unwrap_or_default());
    match message.trim_end_matches('.') {
        "" => format!("{what} ({reason})."),
        message => format!("{what} ({reason}): {message}."),
    }
}

/// Writes a duration for people, rounded up.
pub(super) fn human_duration(wait: Duration) -> String {
    // At least one second: "in 0 s" would mean no wait.
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    match seconds {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// Returns `true` if a text has visible characters: more than HTML comments, white space and zero-width characters.
pub(super) fn is_visible(text: &str) -> bool {
    let has_ink = |text: &str| text.chars().any(|c| !c.is_whitespace() && !is_zero_width(c));
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        let Some((_, after)) = comment.split_once("-->") else { return true };
        if has_ink(before) {
            return true;
        }
        rest = after;
    }
    has_ink(rest)
}

fn is_zero_width(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_up_and_no_further() {
        let said = |millis| human_duration(Duration::from_millis(millis));
        assert_eq!(
            [0, 200, 1000, 60_000, 119_001].map(said),
            ["1 s", "1 s", "1 s", "60 s", "2 min"]
        );
        assert_eq!([120_000, 3_600_000, 7_200_000].map(said), ["2 min", "60 min", "2 h"]);
    }

    #[test]
    fn text_is_visible_when_something_is_left_of_it() {
        for text in ["a", "<!-- x --> a", "a <!-- x -->", "<!-- open", "`<!--` opens"] {
            assert!(is_visible(text), "{text:?}");
        }
        for text in ["", " \n", "<!-- x -->", "<!--a--> <!--b-->", "\u{200b}\u{feff}"] {
            assert!(!is_visible(text), "{text:?}");
        }
    }
}
