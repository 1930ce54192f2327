//! The commands that are known to do nothing but read inside the workspace.

use super::options::{gives, value};
use super::place::Place;
use super::sed::Sed;
use super::{git, prefix, said};
use crate::permission::shell::{Command, Dynamic, Word, brief};

/// A command that only reads, if its arguments are of the known kind.
struct ReadOnly {
    name: &'static str,
    operands: Operands,
    /// Options of one letter that take a text.
    texts: &'static str,
    /// Options that do more than read, or read elsewhere.
    refused: &'static [&'static str],
}

/// What a command's arguments are, its options aside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Texts, that it does no more with than to print or compare them.
    Texts,
    /// Files.
    Files,
    /// One file at most; a second would be written.
    OneFile,
    /// A pattern, unless an option gives that, and then files.
    PatternAndFiles,
}

use Operands::{Files, OneFile, PatternAndFiles, Texts};

const fn read_only(name: &'static str, operands: Operands, texts: &'static str) -> ReadOnly {
    ReadOnly { name, operands, texts, refused: &[] }
}

const READ_ONLY: &[ReadOnly] = &[
    read_only(":", Texts, ""),
    ReadOnly { refused: &["-o", "--output"], ..read_only("base64", Files, "bw") },
    read_only("break", Texts, ""),
    read_only("cat", Files, ""),
    read_only("continue", Texts, ""),
    read_only("cut", Files, "bcdf"),
    read_only("echo", Texts, ""),
    read_only("exit", Texts, ""),
    read_only("expr", Texts, ""),
    read_only("false", Texts, ""),
    // Follows links out of the workspace (`-S` where it comes from BSD).
    ReadOnly {
        refused: &["-R", "-S", "--dereference-recursive"],
        ..read_only("grep", PatternAndFiles, "ABCDdem")
    },
    read_only("head", Files, "cn"),
    read_only("id", Texts, ""),
    ReadOnly { refused: &["-L", "--dereference"], ..read_only("ls", Files, "ITw") },
    read_only("nl", Files, "bdfhilnsvw"),
    read_only("numfmt", Texts, ""),
    read_only("paste", Files, "d"),
    // Bash evaluates the name of the variable, which may hold a command.
    ReadOnly { refused: &["-v"], ..read_only("printf", Texts, "") },
    read_only("pwd", Texts, ""),
    read_only("rev", Files, ""),
    ReadOnly {
        refused: &["-L", "-z", "--follow", "--hostname-bin", "--pre", "--search-zip"],
        ..read_only("rg", PatternAndFiles, "ABCEMTdegjmrt")
    },
    read_only("seq", Texts, ""),
    read_only("stat", Files, "c"),
    read_only("tac", Files, "s"),
    read_only("tail", Files, "cns"),
    read_only("tr", Texts, ""),
    read_only("true", Texts, ""),
    read_only("uname", Texts, ""),
    read_only("uniq", OneFile, "fsw"),
    // Reads the names of more files from a file.
    ReadOnly { refused: &["--files0-from"], ..read_only("wc", Files, "") },
    read_only("which", Texts, ""),
    read_only("whoami", Texts, ""),
];

/// Parts of a search of `find` that only look.
const FINDS: &[&str] = &[
    "-H",
    "-P",
    "-a",
    "-amin",
    "-and",
    "-atime",
    "-cmin",
    "-ctime",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-links",
    "-ls",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mount",
    "-mtime",
    "-name",
    "-newer",
    "-not",
    "-o",
    "-or",
    "-path",
    "-perm",
    "-print",
    "-print0",
    "-printf",
    "-prune",
    "-quit",
    "-readable",
    "-regex",
    "-regextype",
    "-size",
    "-true",
    "-type",
    "-user",
    "-wholename",
    "-writable",
    "-xdev",
];

/// Why a command is not known to be harmless; nothing if it is.
pub(super) fn check(command: &Command, place: &Place<'_>) -> Result<(), String> {
    let name = command.name().unwrap_or_default();
    let args = command.args();
    let may_give_options = |word: &Word| word.glob.is_some() && word.text.starts_with('-');
    if name != "[[" && args.iter().any(may_give_options) {
        return Err(unknown(command));
    }
    match name {
        "git" => git::check(command, place),
        "[" | "[[" | "test" => files(command, args, place),
        "command" if args.first().is_some_and(|word| ["-v", "-V"].contains(&&*word.text)) => {
            files_not_needed(command, args, place)
        }
        "find" => find(command, place),
        "sed" => sed(command, place),
        "set" if is_strictness(args) => Ok(()),
        _ => match READ_ONLY.iter().find(|known| known.name == name) {
            Some(known) => known.check(command, place),
            None => Err(format!("`{}` is not known to only read", brief(&prefix::of(command)))),
        },
    }
}

impl ReadOnly {
    fn check(&self, command: &Command, place: &Place<'_>) -> Result<(), String> {
        let args = command.args();
        let refused = |word: &&Word| self.refused.iter().any(|option| gives(&word.text, option));
        if let Some(word) = args.iter().find(refused) {
            return Err(format!(
                "`{} {}` may do more than read the workspace",
                self.name,
                brief(&word.source)
            ));
        }
        if self.operands == Texts {
            return files_not_needed(command, args, place);
        }
        let operands = self.operands(command)?;
        let several = operands.len() > 1 || operands.iter().any(|word| word.glob.is_some());
        if self.operands == OneFile && several {
            return Err(format!("`{}` may write a second file", said(command)));
        }
        let pattern = usize::from(self.operands == PatternAndFiles && !gives_pattern(args));
        files(command, operands.into_iter().skip(pattern), place)
    }

    /// The arguments that are no options, and those that hide a file in an option.
    fn operands<'a>(&self, command: &'a Command) -> Result<Vec<&'a Word>, String> {
        let mut operands = Vec::new();
        let mut args = command.args().iter();
        while let Some(word) = args.next() {
            let text = word.text.as_str();
            let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                operands.push(word);
                continue;
            };
            if text == "--" {
                operands.extend(args);
                break;
            }
            if letters.starts_with('-') {
                continue;
            }
            let is_text = |c| self.texts.contains(c);
            let flags = letters.split(is_text).next().unwrap_or_default();
            if !flags.chars().all(|c| c.is_ascii_alphanumeric()) {
                return Err(format!("`{}` may name a file", brief(&word.source)));
            }
            if flags.len() + 1 == letters.len() {
                // The text is the next argument, if that is one.
                if args.next().is_some_and(|text| text.glob.is_some()) {
                    return Err(unknown(command));
                }
            }
        }
        Ok(operands)
    }
}

/// Whether an option gives the pattern, or is followed by a file, so that all that is no option
/// may be a file.
fn gives_pattern(args: &[Word]) -> bool {
    const GIVE: &[&str] =
        &["-e", "-f", "--exclude-from", "--file", "--files", "--ignore-file", "--regexp"];
    args.iter().any(|word| GIVE.iter().any(|option| gives(&word.text, option)))
}

/// Checks a command that touches no file, if its words stand for none.
fn files_not_needed(command: &Command, args: &[Word], place: &Place<'_>) -> Result<(), String> {
    for word in args {
        if word.dynamic > Dynamic::Number {
            return Err(unknown(command));
        }
        if word.glob.is_some() && !place.has(word) {
            return Err(outside(command));
        }
    }
    Ok(())
}

/// Checks that all words are known, and that these operands are inside, as are the files in
/// the options.
fn files<'a>(
    command: &Command,
    operands: impl IntoIterator<Item = &'a Word>,
    place: &Place<'_>,
) -> Result<(), String> {
    let is_test = matches!(command.name(), Some("[" | "[[" | "test"));
    let most = if is_test { Dynamic::Number } else { Dynamic::No };
    if command.args().iter().any(|word| word.dynamic > most) {
        return Err(unknown(command));
    }
    let in_option = |word: &&Word| word.text.starts_with("--");
    let hidden = command.args().iter().filter(in_option).filter_map(|word| value(&word.text));
    let mut hidden = hidden.filter(|path| !path.is_empty());
    let known = place.inside()
        && hidden.all(|path| place.reaches_inside(path))
        && command.args().iter().all(|word| place.has_glued(&word.text))
        && operands.into_iter().all(|word| place.has(word));
    if known { Ok(()) } else { Err(outside(command)) }
}

fn find(command: &Command, place: &Place<'_>) -> Result<(), String> {
    let args = command.args();
    let is_number = |text: &str| text[1..].starts_with(|c: char| c.is_ascii_digit());
    let is_known = |text: &str| FINDS.contains(&text) || is_number(text);
    let is_option = |word: &&Word| word.text.starts_with('-') && word.text.len() > 1;
    if let Some(word) = args.iter().filter(is_option).find(|word| !is_known(&word.text)) {
        return Err(format!("`find {}` may do more than look", brief(&word.source)));
    }
    files(command, args.iter().filter(|word| !is_option(word)), place)
}

fn sed(command: &Command, place: &Place<'_>) -> Result<(), String> {
    match Sed::read(command.args()) {
        Some(sed) if sed.prints() => files(command, sed.files, place),
        Some(sed) if sed.in_place => Err(format!("`{}` changes files", said(command))),
        _ => Err(format!("`{}` may do more than print", said(command))),
    }
}

/// Whether the arguments of `set` only make the shell stricter, or have it show what it does.
fn is_strictness(args: &[Word]) -> bool {
    let mut args = args.iter().map(|word| word.literal().unwrap_or_default());
    let mut some = false;
    while let Some(text) = args.next() {
        let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
        if letters.is_empty() || letters.contains(|c| !"euxo".contains(c)) {
            return false;
        }
        let named = ["pipefail", "errexit", "nounset", "xtrace"];
        if letters.contains('o') && !args.next().is_some_and(|name| named.contains(&name)) {
            return false;
        }
        some = true;
    }
    some
}

fn unknown(command: &Command) -> String {
    format!("what `{}` reads, only running it tells", said(command))
}

fn outside(command: &Command) -> String {
    format!("`{}` may read outside the workspace", said(command))
}
