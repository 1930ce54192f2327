//! Tests of rendered Markdown, and of the places at which it can be cut.

use ratatui_core::style::Style;

use super::super::theme::{BAD_STYLE, BOLD_STYLE, CODE_STYLE, GOOD_STYLE};
use super::{last_code, render};

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
        &["Do:", "", "1. one", "   • a", "     long", "     item", "2. two", "", "☑ done"],
    );
}

#[test]
fn code_keeps_its_lines() {
    check(
        "```rust\nfn main() {\n\n    x\n}\n```\nand `code`",
        40,
        &["fn main() {", "", "    x", "}", "", "and code"],
    );
}

#[test]
fn code_and_addresses_are_copied_as_they_are() {
    let line = "cargo test --test it --features all -- --nocapture";
    check(
        &format!("1. Run\n   ```\n   {line}\n   ```\n> ```\n> {line}\n> ```"),
        20,
        &["1. Run", "", line, "", line],
    );
    check(&format!("- ```\n  {line}\n  ```"), 20, &["•", line]);
    let url = "https://example.com/a/long/path?with=a&query=too";
    check(&format!("It is at {url} now"), 20, &["It is at", url, "now"]);
    check(&format!("- see\n  <{url}>"), 20, &["• see", url]);
}

#[test]
fn the_last_code_is_found() {
    let text = "```sh\none\n```\nand\n\n- x\n\n      two\n\n```\nthree\nfour\n```\nend";
    assert_eq!(last_code(text).as_deref(), Some("three\nfour\n"));
    assert_eq!(last_code("no `code` here"), None);
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
fn a_quote_begins_with_what_is_quoted() {
    check("a\n\n> b\n>\n> c\n\nd", 20, &["a", "", "▏ b", "▏", "▏ c", "", "d"]);
    check("- a\n  > b", 20, &["• a", "", "  ▏ b"]);
    check("> # a\n> - b", 20, &["▏ a", "▏", "▏ • b"]);
}

#[test]
fn nothing_breaks_on_a_screen_of_one_column() {
    let text = "# 日本\n\n- a\n  - b\n    > c\n\n```\ncode\n```\n\n| a | b |\n|-|-|\n| c | d |";
    for columns in 0..6 {
        assert!(!render(text, columns).is_empty());
    }
}

#[test]
fn tables_keep_the_alignment_of_their_columns() {
    let table = "| name | price | x |\n|:--|--:|:-:|\n| tea | 5 | abc |\n| coffee | 12 | y |";
    check(
        table,
        40,
        &[
            "name   │ price │  x",
            "───────┼───────┼────",
            "tea    │     5 │ abc",
            "coffee │    12 │  y",
        ],
    );
    let narrow = "| a | b |\n|--|--:|\n| x | one two three |";
    check(narrow, 12, &["a │        b", "──┼─────────", "x │ one two", "  │    three"]);
}

#[test]
fn tasks_have_boxes() {
    check(
        "- [x] one\n- [ ] two\n  - [ ] three\n- four",
        40,
        &["☑ one", "☐ two", "  ☐ three", "• four"],
    );
    check("- [ ] loose\n\n- [x] too", 40, &["☐ loose", "☑ too"]);
    check("1. [ ] first", 40, &["1. ☐ first"]);
}

#[test]
fn a_diff_in_a_fence_has_the_colours_of_a_change() {
    let text = "```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n```";
    let styles: Vec<_> = render(text, 40).iter().map(|row| row.spans[0].style).collect();
    assert_eq!(styles, [BOLD_STYLE, BOLD_STYLE, CODE_STYLE, BAD_STYLE, GOOD_STYLE, Style::new()]);
}
