//! What Markdown looks like, and where it can be cut.

use super::{Cut, render, settled};

#[track_caller]
fn check(text: &str, columns: usize, expected: &[&str]) {
    let rows = render(text, columns);
    let rows: Vec<_> = rows.iter().map(|row| row.to_string().trim_end().to_owned()).collect();
    assert_eq!(rows, expected);
}

#[test]
fn blocks_are_set_apart() {
    check(
        "# Title\nOne\ntwo.\n\nThree  \nfour.\n\n---\n",
        40,
        &[
            "Title",
            "",
            "One two.",
            "",
            "Three",
            "four.",
            "",
            "────────────────────────────────────────",
        ],
    );
}

#[test]
fn lists_are_indented_and_numbered() {
    check(
        "Do:\n\n1. one\n   - a long item\n2. two\n\n- [x] done",
        10,
        &["Do:", "", "1. one", "   • a", "     long", "     item", "2. two", "", "• [x] done"],
    );
}

#[test]
fn code_keeps_its_lines() {
    check(
        "```rust\nfn main() {\n\n    x\n}\n```\nand `code`",
        40,
        &["  fn main() {", "", "      x", "  }", "", "and code"],
    );
}

#[test]
fn quotes_have_a_bar() {
    check("> one\n>\n> two", 40, &["▏ one", "▏", "▏ two"]);
}

#[test]
fn links_say_where_they_lead() {
    check("[x](http://a.b) <http://c.d>", 60, &["x (http://a.b) http://c.d"]);
}

#[test]
fn tables_fit() {
    let table = "| a | long head |\n|---|---|\n| 1 | some more text |\n| 日本 | x |";
    check(
        table,
        40,
        &["a    │ long head", "─────┼───────────────", "1    │ some more text", "日本 │ x"],
    );
    check(
        table,
        14,
        &[
            "a    │ long",
            "     │ head",
            "─────┼────────",
            "1    │ some",
            "     │ more",
            "     │ text",
            "日本 │ x",
        ],
    );
}

#[test]
fn nothing_breaks_on_a_screen_of_one_column() {
    let text = "# 日本\n\n- a\n  - b\n    > c\n\n```\ncode\n```\n\n| a | b |\n|-|-|\n| c | d |";
    for columns in 0..6 {
        assert!(!render(text, columns).is_empty());
    }
}

#[track_caller]
fn cut(text: &str, before: Option<&str>, reopen: &str) {
    let cut = settled(text);
    assert_eq!(cut.as_ref().map(|cut| &text[..cut.at]), before);
    assert_eq!(cut.map_or(String::new(), |Cut { reopen, .. }| reopen), reopen);
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

#[test]
fn a_very_long_paragraph_settles_too() {
    let text = "word ".repeat(1000);
    let cut = settled(&text).unwrap();
    assert!(cut.at > 3000 && cut.at < 4500 && !cut.block, "{cut:?}");
}
