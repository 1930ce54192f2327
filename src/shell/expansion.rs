//! Expansion of words with braces and known variables.

use super::word::{Word, is_name};

/// Maximum number of words that one word may expand to.
const MAX_WORDS: usize = 64;

/// Returns every word that a word, as written, may expand to. `values`: all values that a variable may have. `None` if
/// the words are known only at run time.
pub fn expansions(source: &str, values: &dyn Fn(&str) -> Option<Vec<String>>) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    for written in without_braces(source)? {
        words.extend(Expansion::read(&written, values)?);
        if words.len() > MAX_WORDS {
            return None;
        }
    }
    Some(words)
}

/// Returns the words that a word with braces expands to, as written: `a.b` and `a.c` for `a.{b,c}`.
fn without_braces(source: &str) -> Option<Vec<String>> {
    let mut written = vec![source.to_owned()];
    // Each pass replaces the first braces of a word; braces inside them wait for the next pass.
    for _ in 0..MAX_WORDS {
        let mut next = Vec::new();
        let mut changed = false;
        for word in written {
            match braces(&word) {
                Braces::None => next.push(word),
                Braces::Unclear => return None,
                Braces::Of(words) => {
                    changed = true;
                    next.extend(words);
                }
            }
        }
        if !changed {
            return Some(next);
        }
        if next.len() > MAX_WORDS {
            return None;
        }
        written = next;
    }
    None
}

enum Braces {
    None,
    /// A sequence, which is not expanded here: `{1..3}`.
    Unclear,
    Of(Vec<String>),
}

/// Expands the first braces of a word.
fn braces(word: &str) -> Braces {
    let mut chars = word.char_indices().peekable();
    let mut quote = None;
    // The open braces: the offset of each, and the offsets of its commas.
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            // `${name}` is a variable, whose braces do not count.
            (_, '$') if chars.peek().is_some_and(|(_, c)| *c == '{') => {
                for (_, c) in chars.by_ref() {
                    if c == '}' {
                        break;
                    }
                }
            }
            (None, '{') => open.push((at, Vec::new())),
            (None, ',') => open.iter_mut().next_back().into_iter().for_each(|it| it.1.push(at)),
            (None, '}') => {
                let Some((start, commas)) = open.pop() else { continue };
                if commas.is_empty() {
                    if word[start..at].contains("..") {
                        return Braces::Unclear;
                    }
                    continue;
                }
                // These are innermost braces: the ones around them are replaced in a later pass.
                let ends = commas.iter().chain([&at]);
                let starts = [start].into_iter().chain(commas.iter().copied());
                let parts = starts.zip(ends).map(|(from, to)| &word[from + 1..*to]);
                let (before, after) = (&word[..start], &word[at + 1..]);
                return Braces::Of(parts.map(|part| format!("{before}{part}{after}")).collect());
            }
            _ => {}
        }
    }
    Braces::None
}

/// The words that a word expands to, as far as it has been read.
struct Expansion<'a> {
    rest: &'a str,
    words: Vec<Word>,
}

impl<'a> Expansion<'a> {
    fn read(source: &'a str, values: &dyn Fn(&str) -> Option<Vec<String>>) -> Option<Vec<Word>> {
        // A process substitution names no file of the workspace. Its commands are judged by themselves.
        if source.starts_with("<(") || source.starts_with(">(") {
            return Some(Vec::new());
        }
        let mut read = Self { rest: source, words: vec![Word::default()] };
        let mut is_first = true;
        while let Some(c) = read.next() {
            match c {
                '\'' => {
                    let (text, rest) = read.rest.split_once('\'')?;
                    read.rest = rest;
                    read.push(text);
                }
                '"' => read.double_quoted(values)?,
                '\\' => {
                    let c = read.next()?;
                    read.push(c.encode_utf8(&mut [0; 4]));
                }
                '$' => read.variable(values, false)?,
                '~' if is_first || read.follows_sign() => read.tilde(values)?,
                '*' | '?' | '[' => {
                    read.mark_pattern();
                    read.push(c.encode_utf8(&mut [0; 4]));
                }
                '`' | '<' | '>' | '(' => return None,
                _ => read.push(c.encode_utf8(&mut [0; 4])),
            }
            is_first = false;
        }
        for word in &mut read.words {
            source.clone_into(&mut word.source);
        }
        Some(read.words)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn push(&mut self, text: &str) {
        for word in &mut self.words {
            word.text.push_str(text);
        }
    }

    fn mark_pattern(&mut self) {
        for word in &mut self.words {
            word.glob = word.glob.or(Some(word.text.len()));
        }
    }

    fn follows_sign(&self) -> bool {
        self.words.iter().all(|word| word.text.ends_with(['=', ':']))
    }

    fn double_quoted(&mut self, values: &dyn Fn(&str) -> Option<Vec<String>>) -> Option<()> {
        loop {
            match self.next()? {
                '"' => return Some(()),
                '\\' if self.rest.starts_with(['$', '`', '"', '\\']) => {
                    let c = self.next()?;
                    self.push(c.encode_utf8(&mut [0; 4]));
                }
                '$' => self.variable(values, true)?,
                '`' => return None,
                c => self.push(c.encode_utf8(&mut [0; 4])),
            }
        }
    }

    fn tilde(&mut self, values: &dyn Fn(&str) -> Option<Vec<String>>) -> Option<()> {
        let end = self.rest.find(['/', ':']).unwrap_or(self.rest.len());
        let name = match &self.rest[..end] {
            "" => "HOME",
            "+" => "PWD",
            _ => return None,
        };
        self.rest = &self.rest[end..];
        self.add(&values(name)?, true)
    }

    /// Reads the variable that follows `$`, and adds its values.
    fn variable(
        &mut self,
        values: &dyn Fn(&str) -> Option<Vec<String>>,
        is_quoted: bool,
    ) -> Option<()> {
        let (name, rest) = match self.rest.strip_prefix('{') {
            Some(rest) => rest.split_once('}')?,
            None => self.rest.split_at(self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        self.rest = rest;
        self.add(&values(name)?, is_quoted)
    }

    /// Adds each of these texts to each of the words, which multiplies them.
    fn add(&mut self, texts: &[String], is_quoted: bool) -> Option<()> {
        let mut words = Vec::new();
        for word in &self.words {
            for text in texts {
                // Bash would split an unquoted text with blanks into several words.
                if !is_quoted && text.contains(char::is_whitespace) {
                    return None;
                }
                let pattern = if is_quoted { None } else { text.find(['*', '?', '[']) };
                let mut word = word.clone();
                word.glob = word.glob.or(pattern.map(|at| word.text.len() + at));
                word.text.push_str(text);
                words.push(word);
            }
        }
        self.words = words;
        (self.words.len() <= MAX_WORDS).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str) -> Option<Vec<String>> {
        let values: &[&str] = match name {
            "HOME" => &["/home/me"],
            "PWD" => &["/w"],
            "f" => &[".env", "x"],
            "g" => &["*.pem"],
            "two" => &["a b"],
            _ => return None,
        };
        Some(values.iter().map(|value| (*value).to_owned()).collect())
    }

    #[track_caller]
    fn check(source: &str, expected: &[&str]) {
        let words = expansions(source, &values).unwrap();
        let texts: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, expected, "{source}");
    }

    #[test]
    fn variables_braces_and_the_tilde_are_replaced_as_bash_does() {
        check("a", &["a"]);
        check("~/.env", &["/home/me/.env"]);
        check("~", &["/home/me"]);
        check("~+/x", &["/w/x"]);
        check("a~", &["a~"]);
        check("'~'/x", &["~/x"]);
        check("--file=~/x", &["--file=/home/me/x"]);
        check("$PWD/.env", &["/w/.env"]);
        check("\"${PWD}/.env\"", &["/w/.env"]);
        check("'$PWD'", &["$PWD"]);
        check("\\$PWD", &["$PWD"]);
        check("\"\\$PWD\"", &["$PWD"]);
        check("$f", &[".env", "x"]);
        check("a$f.b", &["a.env.b", "ax.b"]);
        check("\"$two\"", &["a b"]);
        check(".{env,x}", &[".env", ".x"]);
        check("{a,b}{c,d}", &["ac", "ad", "bc", "bd"]);
        check("{a,{b,c}}", &["a", "b", "a", "c"]);
        check("'{a,b}'", &["{a,b}"]);
        check("{a}", &["{a}"]);
        check("${f}", &[".env", "x"]);
        check("<(cat .env)", &[]);
    }

    #[test]
    fn patterns_are_known_from_texts() {
        let glob = |source: &str| expansions(source, &values).unwrap()[0].glob;
        assert_eq!(glob("a*"), Some(1));
        assert_eq!(glob("$PWD/*"), Some(3));
        assert_eq!(glob("'*'"), None);
        assert_eq!(glob("$g"), Some(0));
        assert_eq!(glob("\"$g\""), None);
    }

    #[test]
    fn what_only_running_would_tell_is_not_known() {
        for source in ["$X", "$(ls)", "`ls`", "${f:-x}", "$two", "~me/x", "{1..3}", "$1", "$'a'"] {
            assert_eq!(expansions(source, &values), None, "{source}");
        }
        assert_eq!(expansions(&"{a,b}".repeat(20), &values), None);
    }

    #[test]
    fn no_text_makes_it_panic() {
        const PIECES: &[&str] =
            &["a", "$", "{", "}", "~", "'", "\"", "\\", "*", ",", ".", "(", "/", "é", "$f"];
        for number in 0..PIECES.len().pow(4) {
            let at = |place: u32| PIECES[number / PIECES.len().pow(place) % PIECES.len()];
            let _ = expansions(&(0..4).map(at).collect::<String>(), &values);
        }
    }
}
