//! Sentences of the manual: short enough to be understood at the first reading.

use super::{pages, prose, read};

/// Maximum number of words of a sentence, or of a part that ends with a colon or a semicolon.
const MAX_WORDS: usize = 25;

/// Maximum share of longer sentences, in percent: some need a list of names.
const MAX_LONG_PERCENT: usize = 2;

/// Returns the paragraphs and items of a page, without tables and headings, each in one line.
fn paragraphs(page: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in prose(page).lines() {
        let text = line.trim_start();
        let item = text.strip_prefix("* ").or_else(|| text.strip_prefix("- ")).or_else(|| {
            let (number, rest) = text.split_once(". ")?;
            number.chars().all(|c| c.is_ascii_digit()).then_some(rest)
        });
        let is_other = text.is_empty()
            || text.starts_with("```")
            || text.starts_with(['|', '#', '<', '!']) && item.is_none();
        if item.is_some() || is_other {
            paragraphs.push(String::new());
        }
        if is_other {
            continue;
        }
        let last = paragraphs.last_mut().expect("there is one from the start");
        *last += item.unwrap_or(text);
        last.push(' ');
    }
    paragraphs
}

/// Returns a paragraph with each piece of code as one word, and links without their targets.
fn plain(paragraph: &str) -> String {
    let pieces = paragraph.split('`').enumerate();
    let text: String = pieces.map(|(n, piece)| if n % 2 == 0 { piece } else { "code" }).collect();
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Returns the sentences of a page.
fn sentences(page: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    for paragraph in paragraphs(page) {
        let text = plain(&paragraph);
        let ends = [". ", "? ", "! ", ": ", "; ", ".** ", "?** "];
        let mut rest = text.as_str();
        while let Some((at, end)) = ends.iter().filter_map(|it| Some((rest.find(it)?, it))).min() {
            sentences.push(rest[..at].to_owned());
            rest = &rest[at + end.len()..];
        }
        sentences.push(rest.to_owned());
    }
    sentences.retain(|it| !it.trim().is_empty());
    sentences
}

fn words(sentence: &str) -> usize {
    sentence.split_whitespace().count()
}

#[test]
fn nearly_all_sentences_are_short() {
    let texts = pages().into_iter().filter(|page| !page.ends_with("CHANGELOG.md"));
    let all: Vec<_> = texts.flat_map(|page| sentences(&read(&page))).collect();
    assert!(all.len() > 1000, "{} sentences", all.len());
    let long: Vec<_> = all.iter().filter(|it| words(it) > MAX_WORDS).collect();
    let is_enough = long.len() * 100 <= all.len() * MAX_LONG_PERCENT;
    assert!(is_enough, "{} of {} are long:\n{long:#?}", long.len(), all.len());
}

#[test]
fn a_page_is_cut_into_sentences() {
    let page = "# Title\n\nOne `a. b` is\nhere. Two [is](x.md#y) long: three.\n\n* Four\n  goes on.\n\n| a | b |\n";
    let found: Vec<_> = sentences(page).iter().map(|it| it.trim().to_owned()).collect();
    assert_eq!(found, ["One code is here", "Two [is long", "three", "Four goes on"]);
}
