//! Rules that people have written: tables of command lines under several files of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use expect_test::expect_file;
use tandem::permission::policy::{Policy, Tier, parse};
use tandem::permission::{Loaded, Mode, Saved, Setup, Store, Verdict};

use super::questions::Session;

/// What is written down, as it would be read.
struct Fixed(Loaded);

impl Store for Fixed {
    fn load(&self) -> Loaded {
        self.0.clone()
    }

    fn save(&self, _: &Saved) -> Result<PathBuf, String> {
        Err("nothing is written in this test".to_owned())
    }

    fn remove(&self, _: &Saved) -> Result<(), String> {
        Err("nothing is written in this test".to_owned())
    }
}

/// A session under the rules of a text.
pub(super) fn under(mode: Mode, rules: &str, place: &str) -> Session {
    let parsed = parse(rules, place, Tier::User);
    let policy = Policy::new(parsed.rules, parsed.broken);
    let loaded = Loaded { policy, saved: parsed.saved, remarks: parsed.remarks };
    Session::with(mode, Setup { store: Arc::new(Fixed(loaded)), ..Setup::default() })
}

/// With `UPDATE_EXPECT=1` in the environment the files are written anew, for a look at the diff.
#[test]
fn every_command_line_is_judged_as_written_down_under_each_file_of_rules() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policy/rules");
    for name in ["team", "core", "every"] {
        let file = dir.join(format!("{name}.toml"));
        let rules = fs::read_to_string(&file).unwrap();
        let sessions = Mode::ALL.map(|(_, mode)| under(mode, &rules, &format!("{name}.toml")));
        assert!(sessions[0].permissions.news().is_empty());
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

/// A verdict in a word, and what is said of it.
fn described(verdict: &Verdict) -> (&'static str, String) {
    match verdict {
        Verdict::Allow => ("allow", String::new()),
        Verdict::Ask(question) if question.every_time() => ("ask!", question.reason()),
        Verdict::Ask(question) => ("ask", question.reason()),
        Verdict::Deny(why) if why.starts_with("Plan mode") => ("deny", String::new()),
        Verdict::Deny(why) => ("deny", why.clone()),
    }
}
