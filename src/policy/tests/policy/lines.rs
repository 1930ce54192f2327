//! Command lines: the commands that they run, and the gravity of each.

use std::fmt::Write as _;
use std::fs;

use expect_test::expect_file;
use proptest::prelude::*;
use tandem_policy::decide::{Gravity, gravity, reasons};
use tandem_policy::findings::AssessedCommand;

use super::{Workspace, repository_file};

/// With `UPDATE_EXPECT=1` in the environment the file is written anew, for a look at the diff.
#[test]
fn every_command_line_is_judged_as_written_down() {
    let path = repository_file("fixtures/policy/commands.txt");
    let workspace = Workspace::new();
    let root = workspace.root.display().to_string();
    let mut judged = String::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        if line.starts_with("    ") {
            continue;
        }
        writeln!(judged, "{line}").unwrap();
        if line.is_empty() || line.starts_with("--") {
            continue;
        }
        let command = line.replace("{root}", &root).replace('⏎', "\n").replace('⇥', "\t");
        let verdict = described(workspace.judge(&command));
        writeln!(judged, "    {}", verdict.replace(&root, "{root}").replace('\n', "⏎")).unwrap();
    }
    expect_file![path].assert_eq(&judged);
}

fn described(verdict: Result<Vec<AssessedCommand>, String>) -> String {
    let parts = match verdict {
        Ok(parts) => parts,
        Err(why) => return format!("unclear  [unclear]  ({why})"),
    };
    let list = |texts: Vec<&str>| texts.join(", ");
    let names = list(parts.iter().map(|part| part.name.as_str()).collect());
    let rules = |parts: &[&AssessedCommand]| {
        let rules = parts.iter().flat_map(|part| match &reasons(&part.findings)[..] {
            // A harmless command has no finding. The list then names the built-in rule that found the command harmless.
            [] if part.only_goes() => vec!["cd"],
            [] => vec!["read-only"],
            reasons => reasons.iter().map(|finding| finding.rule.name()).collect(),
        });
        let mut rules: Vec<_> = rules.collect();
        rules.dedup();
        list(rules)
    };
    let asking: Vec<_> = parts.iter().filter(|part| !part.findings.is_empty()).collect();
    let gravest = asking.iter().filter_map(|part| gravity(&part.findings)).max();
    let Some(gravest) = gravest else {
        return format!("allow  {names}  [{}]", rules(&parts.iter().collect::<Vec<_>>()));
    };
    let whys = |part: &&AssessedCommand| {
        let whys: Vec<_> = reasons(&part.findings).into_iter().map(|it| it.why.as_str()).collect();
        whys.join("; ")
    };
    let why = asking.iter().map(whys).collect::<Vec<_>>().join(", ");
    let prefixes = list(asking.iter().map(|part| part.remembered.prefix.as_str()).collect());
    let rules = rules(&asking);
    match gravest {
        Gravity::EveryTime => format!("ask!  {names}  [{rules}]  ({why})"),
        Gravity::Ask => format!("ask  {names} -> {prefixes}  [{rules}]  ({why})"),
        Gravity::Edit | Gravity::Nothing => {
            format!("write  {names} -> {prefixes}  [{rules}]  ({why})")
        }
    }
}

#[test]
fn a_long_line_is_no_trouble() {
    const LONG: usize = 60_000;
    let workspace = Workspace::new();
    let check = |start: &str, piece: &str, end: &str, expected: u8| {
        let line = format!("{start}{}{end}", piece.repeat(LONG / piece.len()));
        assert_eq!(gravest(&workspace.judge(&line)), expected, "{start}{piece}{end}");
    };
    check("echo ", "a ", "", 0);
    check("cat ", "a/b ", "", 0);
    check("git log ", "a ", "", 0);
    check("echo '", "a", "'", 0);
    check("cat <<E\n", "text\n", "E\n", 0);
    check("", "# a\n", "", 0);
    check("[[ ", "-f a && ", "-f b ]]", 0);
    check("rm ", "a ", "", 2);
    check("a=1 ", "b=2 ", "ls", 2);
    check("", "ls;", "", 3);
    check("", "ls|", "ls", 3);
    check("", "(", "", 3);
    check("", "$(", "", 3);
    check("", "`", "", 3);
    check("", "${x:-", "", 3);
    check("", "if ls; then ", "", 3);
    check("", "nice ", "ls", 3);
    check("", "find -exec ", "ls", 3);
    check("", "xargs ", "ls", 3);
    check("", "npx ", "x", 2);
    check("", "<<a ", "", 3);
    check("", "eval ", "ls", 3);
    check("", "bash -c ", "ls", 3);
    check("ls ", "a", &" b".repeat(LONG), 3);
}

/// The scanner of the grammar, written in C, looks up the character after a brace in a table of 384.
#[test]
fn a_character_of_any_number_is_no_trouble() {
    let workspace = Workspace::new();
    for c in ['é', '\u{3000}', '😀', '\u{e0100}', '\u{fffff}', '\u{10ffff}'] {
        assert_eq!(gravest(&workspace.judge(&format!("echo {c} '{c}' \"{c}\" a{c}"))), 0);
        assert_eq!(gravest(&workspace.judge(&format!("echo {{{c}}}; rm {c}"))), 2);
        assert!(gravest(&workspace.judge(&format!("{c}=1 ls"))) > 0);
        assert!(gravest(&workspace.judge(&format!("echo ${c}; {c}"))) > 0);
    }
}

/// Pieces of command lines, whole and broken.
const PIECES: &[&str] = &[
    "canary",
    "echo",
    "ls",
    "cat a",
    "x",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "`",
    "`",
    "$(",
    ")",
    ")",
    "(",
    "<<EOF",
    "<<EOF\\\n",
    "]\\\n]",
    "(\\\n(",
    "\\\n",
    "<<'EOF'",
    "\nEOF\n",
    "#",
    "$'",
    "${x:-",
    "}",
    "{ ",
    "; }",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    "if ",
    "; then ",
    "; fi",
    "while false",
    "; do ",
    "; done",
    "for x in ",
    "case a in ",
    "a)",
    ";;",
    " esac",
    "$x",
    "x=",
    "*",
    "~",
    "{a,b}",
    "$((",
    "))",
    "1",
    "<<<",
    "< a",
    "> a",
    "> /x",
    "2>&1",
    "<(",
    "=~",
    "!",
    "time ",
    "eval ",
    "bash -c ",
    "xargs ",
    "command ",
    "env ",
    "\\\n",
    "é",
    "😀",
    "\u{10ffff}",
    "{",
    "f()",
    "rm -rf x",
    "sleep 1",
    "git status",
    "$?",
    "A=1 ",
    "x=(",
    "[y]=1",
    "y='a[$(canary)]'; ",
    "[[ y -eq 1 ]]",
    "&>x",
    "sh -c ",
    "printf '%n' PATH",
    "sed -n",
    "ee",
    " -L1",
    "xargs -I% ",
];

/// Returns a strategy for lines made of such pieces.
pub(super) fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..12).prop_map(|pieces| pieces.concat())
}

/// Returns a strategy for lines that the parser can read.
pub(super) fn sensible() -> impl Strategy<Value = String> {
    let command = prop::sample::select(vec![
        "ls",
        "echo hi",
        "cat README.md",
        "cat ../x",
        "echo $X",
        "sleep 1",
        "git status",
        "git push",
        "git push -f",
        "rm -rf x",
        "echo x > out",
        "echo x > /out",
        "$X",
        "(ls; pwd)",
        "x=$(sleep 1)",
        "echo 'a;b' # c",
        "if ls; then rm x; fi",
        "cd sub",
        "cd /tmp",
        "ls &",
        "f() { ls; }",
        "FOO=1 ls",
        "cat <<E\n$X\nE\n",
    ]);
    let join = prop::sample::select(vec!["; ", " && ", " || ", " | ", "\n"]);
    prop::collection::vec((command, join), 1..5).prop_map(|parts| {
        let mut line: String = parts.iter().flat_map(|(command, join)| [*command, *join]).collect();
        let last = parts.last().map_or(0, |(_, join)| join.len());
        line.truncate(line.len() - last);
        line
    })
}

/// Returns the gravity of a line. A line that cannot be analysed has the gravity of a question each time.
pub(super) fn gravest(verdict: &Result<Vec<AssessedCommand>, String>) -> u8 {
    let Ok(parts) = verdict else { return 3 };
    let grave = parts.iter().map(|part| match gravity(&part.findings) {
        None | Some(Gravity::Nothing) => 0,
        Some(Gravity::Edit) => 1,
        Some(Gravity::Ask) => 2,
        Some(Gravity::EveryTime) => 3,
    });
    grave.max().unwrap_or(0)
}

thread_local!(static WORKSPACE: Workspace = Workspace::new());

/// Assesses a line in the workspace that all cases of a test share.
fn judge(line: &str) -> Result<Vec<AssessedCommand>, String> {
    WORKSPACE.with(|workspace| workspace.judge(line))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_judge_panic(line in any::<String>(), pieces in pieces()) {
        let _ = judge(&line);
        let _ = judge(&pieces);
        let _ = judge(&format!("bash -c '{pieces}'"));
    }

    #[test]
    fn more_text_never_makes_a_line_harmless(
        line in sensible(),
        more in prop_oneof![sensible(), pieces()],
    ) {
        let alone = judge(&line);
        prop_assume!(alone.is_ok());
        for join in ["; ", " && ", " || ", " | ", " & ", "\n"] {
            let longer = format!("{line}{join}{more}");
            prop_assert!(gravest(&judge(&longer)) >= gravest(&alone), "{longer:?}");
        }
    }

    #[test]
    fn what_comes_before_never_makes_a_line_harmless(line in sensible()) {
        let alone = judge(&line);
        for before in ["ls; ", "true && ", "! ", "x=1; ", "ls # x\n", "LANG=C "] {
            let longer = format!("{before}{line}");
            prop_assert!(gravest(&judge(&longer)) >= gravest(&alone), "{longer:?}");
        }
    }

    #[test]
    fn what_is_not_harmless_is_seen_wherever_it_stands(
        around in prop::sample::select(vec![
            "@", "ls; @", "ls && @", "ls | @", "(@)", "{ @; }", "! @", "if @; then ls; fi",
            "if ls; then @; fi", "while @; do ls; done", "for x in a; do @; done", "$(@)",
            "echo $(@)", "echo \"$(@)\"", "echo `@`", "echo ${x:-$(@)}", "cat <(@)",
            "cat <<E\n$(@)\nE\n", "cat <<< \"$(@)\"", "x=$(@)", "A=$(@) ls", "x=($(@))",
            "case $(@) in a) ls;; esac", "case a in a) @;; esac", "ls > $(@)", "bash -c '@'",
            "eval '@'", "env @", "command @", "timeout 5 @", "ls\n@", "ls & @", "@ &",
            "f() { @; }", "[[ -n $(@) ]]", "[ -n \"$(@)\" ]", "time @", "echo \"${x#$(@)}\"",
        ]),
        inside in prop::sample::select(vec![
            "rm -rf x", "canary", "echo x > /etc/x", "echo x > ../x", "./canary",
        ]),
    ) {
        let line = around.replace('@', inside);
        let verdict = judge(&line);
        let least = if inside.contains("canary") { 2 } else { 3 };
        prop_assert!(gravest(&verdict) >= least, "{line:?} {verdict:?}");
    }
}
