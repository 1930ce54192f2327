//! Tables of programs: each program in them has its golden command line.

use std::collections::HashSet;
use std::fs;

use toml::{Table, Value};

use super::repository_file;

/// Tables with names of programs: file, kind of row, and the key of the names.
const NAMES: &[(&str, &str, &str)] = &[
    ("always", "program", "names"),
    ("always", "reader", "names"),
    ("environment", "runs", "others"),
    ("environment", "runs", "program"),
    ("environment", "variable", "programs"),
    ("every_time", "option", "names"),
    ("every_time", "program", "names"),
    ("every_time", "writer", "names"),
    ("programs", "group", "name"),
    ("programs", "interpreter", "name"),
    ("programs", "runner", "words"),
    ("programs", "subcommands", "names"),
    ("reading", "names_only", "programs"),
    ("reading", "printing", "programs"),
    ("reading", "program", "names"),
    ("reading", "search", "program"),
    ("reading", "version", "programs"),
    ("variables", "setter", "names"),
    ("wrappers", "wrapper", "name"),
];

/// Tables that have no names of programs.
const OTHERS: &[(&str, &str)] = &[
    ("environment", "reading"),
    ("git_config", "harmless"),
    ("git_config", "override"),
    ("programs", "text"),
    ("reading", "filter"),
    ("reading", "find"),
    ("reading", "pattern"),
    ("variables", "variable"),
    ("wrappers", "shells"),
];

/// Tables of the sub-commands of git.
const GIT: &[(&str, &str)] = &[
    ("config", "actions"),
    ("every_time", "words"),
    ("lists", "subcommands"),
    ("reads", "subcommands"),
];

#[test]
fn every_program_in_a_table_has_a_golden_command_line() {
    let golden = fs::read_to_string(repository_file("fixtures/policy/commands.txt")).unwrap();
    let lines = golden.lines().filter(|line| !line.starts_with("    ") && !line.starts_with("--"));
    let begins: HashSet<Vec<&str>> = lines
        .flat_map(|line| {
            let words: Vec<_> = line.split([' ', ';', '|', '&', '(', ')', '⏎', '⇥']).collect();
            (1..=words.len().min(3)).map(move |count| words[..count].to_vec())
        })
        .collect();
    let mut missing = Vec::new();
    for entry in fs::read_dir(repository_file("src/shell")).unwrap() {
        let path = entry.unwrap().path();
        // `sensitive.toml` is a table of files, and `Cargo.toml` is the manifest of the crate: neither names
        // programs.
        let is_table = path.extension().is_some_and(|it| it == "toml");
        if !is_table || path.ends_with("sensitive.toml") || path.ends_with("Cargo.toml") {
            continue;
        }
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let table: Table = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (kind, rows) in &table {
            for words in commands(&file, kind, rows) {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                if !begins.contains(&words) {
                    missing.push(format!("{file} [{kind}]: {}", words.join(" ")));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the beginnings of the commands that a table is about.
fn commands(file: &str, kind: &str, rows: &Value) -> Vec<Vec<String>> {
    let rows: Vec<&Table> = match rows {
        Value::Array(rows) => rows.iter().filter_map(Value::as_table).collect(),
        Value::Table(row) => vec![row],
        _ => Vec::new(),
    };
    let texts = |key: &str| -> Vec<Vec<String>> {
        let list = |value: &Value| match value {
            Value::Array(values) => {
                values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
            }
            value => vec![value.as_str().unwrap().to_owned()],
        };
        rows.iter().filter_map(|row| row.get(key)).map(list).collect()
    };
    if file == "git" {
        let key = GIT.iter().find(|(known, _)| *known == kind);
        let (_, key) = key.unwrap_or_else(|| panic!("{file} [{kind}] is not known here"));
        let git = |words: &[String]| [&["git".to_owned()], words].concat();
        return match *key {
            // Each entry of `words` is one command of several words.
            "words" => texts(key).iter().map(|words| git(words)).collect(),
            "actions" => vec![git(&[kind.to_owned()])],
            _ => texts(key).concat().iter().map(|word| git(std::slice::from_ref(word))).collect(),
        };
    }
    let keys = NAMES.iter().filter(|(known, table, _)| *known == file && *table == kind);
    let keys: Vec<_> = keys.map(|(.., key)| *key).collect();
    assert!(
        !keys.is_empty() || OTHERS.contains(&(file, kind)),
        "{file} [{kind}] is not known here"
    );
    let names = keys.into_iter().flat_map(texts);
    let names = names.flat_map(|names| {
        if kind == "runner" { vec![names] } else { names.into_iter().map(|it| vec![it]).collect() }
    });
    names.filter(|words| words != &["*"]).collect()
}
