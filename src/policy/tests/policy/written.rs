//! Rules that people have written: verdicts on command lines under several files of rules.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::expect_file;
use proptest::prelude::*;
use tandem_approval::{LoadedRules, Mode, PolicySetup, RuleName, RuleStore, Saved, Verdict};
use tandem_policy::rules::{RuleSet, Tier, parse};

use super::lines::{pieces, sensible};
use super::questions::{Session, question};
use super::repository_file;

/// Rules of a test, in place of those in files.
struct Fixed(LoadedRules);

impl RuleStore for Fixed {
    fn load(&self) -> LoadedRules {
        self.0.clone()
    }

    fn save(&self, _: &Saved) -> Result<PathBuf, String> {
        Err("nothing is written in this test".to_owned())
    }

    fn remove(&self, _: &Saved) -> Result<(), String> {
        Err("nothing is written in this test".to_owned())
    }
}

/// Returns a session with the rules of a text.
pub(super) fn under(mode: Mode, rules: &str, place: &str) -> Session {
    let parsed = parse(rules, place, Tier::User);
    let policy = Arc::new(RuleSet::new(parsed.rules, parsed.broken));
    let loaded = LoadedRules { policy, saved: parsed.saved, remarks: parsed.remarks };
    Session::with(mode, PolicySetup::new(Arc::new(Fixed(loaded))))
}

/// A policy without written rules.
pub(super) fn no_rules() -> PolicySetup {
    let policy = Arc::new(RuleSet::default());
    let loaded = LoadedRules { policy, saved: Vec::new(), remarks: Vec::new() };
    PolicySetup::new(Arc::new(Fixed(loaded)))
}

/// With `UPDATE_EXPECT=1` in the environment the files are written anew, for a look at the diff.
#[test]
fn every_command_line_is_judged_as_written_down_under_each_file_of_rules() {
    let dir = repository_file("fixtures/policy/rules");
    for name in ["team", "core", "every"] {
        let file = dir.join(format!("{name}.toml"));
        let rules = fs::read_to_string(&file).unwrap();
        let sessions = Mode::ALL.map(|(_, mode)| under(mode, &rules, &format!("{name}.toml")));
        assert!(sessions[0].permissions.unseen_remarks().is_empty());
        let table = dir.join(format!("{name}.txt"));
        let mut judged = String::new();
        for line in fs::read_to_string(&table).unwrap().lines() {
            if line.starts_with("    ") {
                continue;
            }
            writeln!(judged, "{line}").unwrap();
            if line.is_empty() || line.starts_with("--") {
                continue;
            }
            let command = line.replace('⏎', "\n");
            let verdicts = sessions.each_ref().map(|session| {
                let root = session.workspace.root.display().to_string();
                let verdict = session.run(&command);
                let (word, why) = described(&verdict);
                (word, why.replace(&root, "{root}"))
            });
            let words: Vec<_> = verdicts.iter().map(|(word, _)| *word).collect();
            writeln!(judged, "    {}", words.join(" ")).unwrap();
            let mut said = Vec::new();
            for (_, why) in verdicts {
                if !why.is_empty() && !said.contains(&why) {
                    writeln!(judged, "        {why}").unwrap();
                    said.push(why);
                }
            }
        }
        expect_file![table].assert_eq(&judged);
    }
}

#[test]
fn a_question_of_a_rule_about_the_whole_line_has_the_reasons_for_its_commands_too() {
    let rules = "[[rule]]\ncommandRegex = \"make\"\ndecision = \"ask_user\"\npriority = 1\n";
    let session = under(Mode::Default, rules, "r.toml");
    let asked = question(session.run("make a; sudo x; cargo test"));
    let rules = [
        RuleName::Written("r.toml:1".to_owned()),
        RuleName::BuiltIn("every-time".to_owned()),
        RuleName::BuiltIn("read-only".to_owned()),
    ];
    assert_eq!(asked.rules, rules);
    assert_eq!(asked.commands, ["make", "sudo", "cargo"]);
    assert!(asked.every_time());
}

/// Returns a verdict as a word, and its text.
fn described(verdict: &Verdict) -> (&'static str, String) {
    match verdict {
        Verdict::Allow => ("allow", String::new()),
        Verdict::Ask(question) if question.every_time() => ("ask!", question.reason()),
        Verdict::Ask(question) => ("ask", question.reason()),
        Verdict::Deny { why, .. } if why.starts_with("Plan mode") => ("deny", String::new()),
        Verdict::Deny { why, .. } => ("deny", why.clone()),
    }
}

/// Returns the strictness of a verdict; a larger number is stricter.
fn strictness(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask(question) if question.every_time() => 2,
        Verdict::Ask(_) => 1,
        Verdict::Deny { .. } => 3,
    }
}

/// Rules with every decision that overlap, and lines that they are about.
const MIXED: &str = r#"
rule = [
  { toolName = "run_shell_command", commandPrefix = ["rm", "git push", "cat"], decision = "allow", priority = 100 },
  { toolName = "run_shell_command", commandPrefix = ["git push -f", "cd"], decision = "deny", priority = 300 },
  { toolName = "run_shell_command", commandPrefix = ["ls", "sleep"], decision = "ask_user", priority = 200 },
  { toolName = "run_shell_command", commandRegex = "(rm -rf|echo hi)", decision = "deny", priority = 400, modes = ["yolo", "autoEdit"] },
  { toolName = "run_shell_command", argsPattern = "README", decision = "deny", priority = 500 },
]
"#;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn more_text_never_gets_a_milder_verdict_under_any_rules(
        line in sensible(),
        more in prop_oneof![sensible(), pieces()],
    ) {
        thread_local!(static SESSIONS: [Session; 4] =
            Mode::ALL.map(|(_, mode)| {
                let session = under(mode, MIXED, "mixed.toml");
                assert_eq!(session.permissions.unseen_remarks(), Vec::<String>::new());
                assert_eq!(strictness(&session.run("git push -f")), 3);
                session
            }));
        SESSIONS.with(|sessions| {
            for session in sessions {
                let alone = strictness(&session.run(&line));
                for join in ["; ", " && ", " || ", " | ", " & ", "\n"] {
                    let longer = format!("{line}{join}{more}");
                    let verdict = session.run(&longer);
                    // A line that the parser cannot read is asked about and not denied, even if a rule denies a part
                    // of the line.
                    let clear = tandem_shell::parse(&longer, tandem_shell::ShellDialect::Bash).is_ok();
                    let least = if clear { alone } else { alone.min(1) };
                    prop_assert!(strictness(&verdict) >= least, "{longer:?}: {verdict:?}");
                }
            }
            Ok(())
        })?;
    }
}
