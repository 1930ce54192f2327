//! Tests with growing texts: settled parts are cut off, and no text is lost or shown twice.

use super::super::{Growing, render, render_rest};
use super::{CutPoint, settled};

#[track_caller]
fn cut(text: &str, before: Option<&str>, reopen: &str) {
    let cut = settled(text, 0);
    assert_eq!(cut.as_ref().map(|cut| &text[..cut.at]), before);
    assert_eq!(cut.map_or(String::new(), |CutPoint { reopen, .. }| reopen), reopen);
}

#[test]
fn all_but_the_last_block_is_settled() {
    cut("one", None, "");
    cut("one\n\ntw", Some("one\n\n"), "");
    cut("# head\ntext\n", Some("# head\n"), "");
    cut("text\n\n---\n", Some("text\n\n"), "");
    cut("| a |\n|---|\n| 1 |\n", None, "");
}

#[test]
fn items_of_a_list_and_lines_of_code_settle_one_by_one() {
    cut("- one\n- tw", Some("- one\n"), "");
    cut("- one\n  - inner\n", None, "");
    cut("text\n\n- one", Some("text\n\n"), "");
    cut("```rust\nfn main() {\n  le", Some("```rust\nfn main() {\n"), "```rust\n");
    cut("```rust\nfn", None, "");
    cut("```\nx\n```\n", None, "");
    cut("text\n```\nx\n```\n", Some("text\n"), "");
    cut("text\n```rust\n", Some("text\n"), "");
}

/// Lets a text grow by `step` bytes at a time, and settles the text each time. Returns all rows, and the maximum
/// length in bytes of the unsettled part.
fn grown(text: &str, step: usize) -> (Vec<String>, usize) {
    let (mut rows, mut most) = (Vec::new(), 0);
    let mut add = |growing: &Growing| {
        rows.extend(
            render_rest(growing, 60).iter().map(|row| row.to_string().trim_end().to_owned()),
        );
    };
    let mut growing = Growing::default();
    let mut from = 0;
    while from < text.len() {
        let to = text.ceil_char_boundary(from + step);
        growing.text.push_str(&text[from..to]);
        from = to;
        while let Some((head, _)) = growing.settle() {
            add(&head);
        }
        most = most.max(growing.text.len());
    }
    add(&growing);
    (rows, most)
}

/// Returns the words of rows, without margins and rules.
fn words(rows: &[String]) -> Vec<&str> {
    rows.iter().flat_map(|row| row.split_whitespace()).filter(|word| *word != "▏").collect()
}

/// Checks that a growing text of 2,000 such lines is drawn anew only in a small part, and that its words are shown
/// once and in order. `most`: maximum length in bytes of the part that is drawn anew.
#[track_caller]
fn check(begin: &str, line: &str, most: usize) {
    let lines = |n: usize| line.replace("{n}", &n.to_string());
    let text = format!("{begin}{}", (0..2000).map(lines).collect::<String>());
    let whole: Vec<_> = render(&text, 60).iter().map(ToString::to_string).collect();
    for step in [37, 1000] {
        let (rows, drawn) = grown(&text, step);
        assert!(drawn <= most + step, "{line:?}: {drawn} bytes are drawn anew");
        let (rows, whole) = (words(&rows), words(&whole));
        let differs = rows.iter().zip(&whole).position(|(one, other)| one != other);
        let from = differs.unwrap_or(0).saturating_sub(5);
        assert!(rows == whole, "{line:?} by {step}: {:?}", rows.iter().skip(from).take(20));
    }
}

#[test]
fn no_block_is_drawn_anew_that_is_long() {
    let most = 4000;
    check("", "word {n} of a paragraph ", most);
    check("", "ein Wörtchen — слово {n} ", most);
    check("", "全角の\u{3000}言葉 ", most);
    check("> ", "word {n} of a quote ", most);
    check("", "> line {n} of a quote\n", most);
    check("", "> paragraph {n} of a quote\n>\n", most);
    check("> > ", "word {n} of a quote in a quote ", most);
    check("- ", "word {n} of an item ", most);
    check("- first\n", "  - item {n} in an item\n", most);
    check("3. first\n", "   paragraph {n}\n\n", most);
    check("- a\n  - b\n", "    - item {n} in two\n", most);
    check("- a\n\n  ```rust\n", "  let x = {n};\n", most);
    check("- ```rust\n", "  let x = {n};\n", most);
    check("> - a\n>   ~~~\n", ">   code {n}\n", most);
    check("- > first\n", "  > line {n}\n", most);
    check("", "    indented {n}\n", most);
    check("```\n", "line {n}\n", most);
}

#[test]
fn a_table_goes_on_with_its_head() {
    for margin in ["", "> ", "  "] {
        let begin = if margin == "  " { "- x\n" } else { "" };
        let row = |n| format!("{margin}| {n} | text |\n");
        let rows = (0..2000).map(row).collect::<Vec<_>>().concat();
        let text = format!("{begin}{margin}| n | t |\n{margin}|---|---|\n{rows}");
        let (rows, drawn) = grown(&text, 500);
        assert!(drawn < 10_000, "{drawn}");
        let bodies: Vec<_> = rows.iter().filter(|row| row.contains("text")).collect();
        assert_eq!(bodies.len(), 2000, "{margin:?}");
        let heads = rows.iter().filter(|row| row.contains("n    │ t")).count();
        assert!((2..20).contains(&heads), "{heads}");
    }
}

#[test]
fn what_has_no_place_to_be_cut_is_cut_anywhere() {
    for begin in ["", "> ", "- ", "# ", "```\n", "<div>", "| a |\n|---|\n| "] {
        let text = format!("{begin}{}", "é".repeat(100_000));
        let (rows, drawn) = grown(&text, 1000);
        assert!(drawn < 20_000, "{begin:?}: {drawn}");
        let there: usize = rows.iter().map(|row| row.matches('é').count()).sum();
        assert_eq!(there, 100_000, "{begin:?}");
    }
}

#[test]
fn what_goes_on_looks_as_before() {
    let item = |n: usize| format!("   - item {n}\n");
    let text: String = (0..200).map(item).collect();
    let (rows, _) = grown(&format!("1. one\n2. two\n{text}3. three\n\nend"), 100);
    assert_eq!(rows[..3], ["1. one", "2. two", "   • item 0"]);
    assert_eq!(rows[201..], ["   • item 199", "3. three", "end"]);
    let (rows, _) = grown(&format!("> {}", "word ".repeat(1000)), 100);
    assert!(rows.iter().all(|row| row.starts_with("▏ word")), "{rows:?}");
}
