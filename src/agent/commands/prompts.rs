//! Prompts of MCP servers as commands: `/NAME --argument="value"`, or the values in the order of the arguments.

use std::collections::BTreeMap;

use crate::session::{
    CommandArgument, CommandReply, CommandTurn, NamedPrompt, ServerPrompt, SessionCommand,
};
use tandem_mcp::Hub;

/// A server's prompt as a command.
pub(super) struct PromptCommand {
    /// Name as the user types it, without the slash.
    pub(super) name: String,
    /// Name of the server.
    server: String,
    /// The prompt.
    prompt: ServerPrompt,
}

impl PromptCommand {
    /// Returns `true` if a name means this prompt: the name of the command, or the name with the server's name in
    /// front, which always works.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name || whole(&self.server, &plain(&self.prompt.name)) == name
    }

    /// Describes the prompt for lists.
    pub(super) fn listed(&self) -> SessionCommand {
        let Self { name, server, prompt } = self;
        let description = match prompt.description.as_str() {
            "" => format!("a prompt of the MCP server `{server}`"),
            description => format!("{description} (MCP server `{server}`)"),
        };
        let typed = prompt.arguments.iter().map(|argument| {
            let name = &argument.name;
            if argument.required { format!("--{name}=…") } else { format!("[--{name}=…]") }
        });
        let arguments = prompt.arguments.iter().map(|argument| CommandArgument {
            name: argument.name.clone(),
            description: argument.description.clone(),
            is_required: argument.required,
        });
        SessionCommand {
            name: name.clone(),
            description,
            usage: typed.collect::<Vec<_>>().join(" "),
            arguments: arguments.collect(),
        }
    }
}

/// Returns the prompts of these servers, as commands. A name that several prompts have, or that is taken, gets the
/// server's name in front.
pub(super) fn of_servers(servers: &Hub, is_taken: impl Fn(&str) -> bool) -> Vec<PromptCommand> {
    let prompts = servers.prompts();
    let names: Vec<_> = prompts.iter().map(|named| plain(&named.prompt.name)).collect();
    let is_ambiguous =
        |name: &str| is_taken(name) || names.iter().filter(|other| *other == name).count() > 1;
    let commands = prompts.into_iter().zip(&names).map(|(NamedPrompt { server, prompt }, name)| {
        let name = if is_ambiguous(name) { whole(&server, name) } else { name.clone() };
        PromptCommand { name, server, prompt }
    });
    commands.collect()
}

/// Returns a name with the server's name in front.
fn whole(server: &str, name: &str) -> String {
    format!("{}.{name}", plain(server))
}

/// Returns a name as one word that cannot be a path.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_whitespace() || c.is_control() || c == '/' { '-' } else { c };
    name.trim().chars().map(plain).collect()
}

/// Lets the server build the prompt, and has the model asked that prompt.
pub(super) async fn run(
    command: &PromptCommand,
    args: &str,
    turn: &CommandTurn<'_>,
) -> Result<CommandReply, String> {
    let args = arguments(&command.prompt, args)
        .map_err(|why| format!("{}\n\n{why}", command.listed().line()))?;
    let said = turn.server_prompt(&command.server, &command.prompt.name, args).await?;
    Ok(CommandReply::Ask(said))
}

/// Parses the arguments of a prompt: `--NAME=VALUE`, or values in the order of the arguments that have none yet.
fn arguments(prompt: &ServerPrompt, text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut args = BTreeMap::new();
    let mut values = Vec::new();
    for word in words(text)? {
        let named = word.strip_prefix("--").and_then(|word| word.split_once('='));
        match named {
            Some((name, value)) if prompt.arguments.iter().any(|it| it.name == name) => {
                args.insert(name.to_owned(), value.to_owned());
            }
            _ => values.push(word),
        }
    }
    let open: Vec<_> = prompt.arguments.iter().filter(|it| !args.contains_key(&it.name)).collect();
    let Some((last, first)) = open.split_last() else {
        return match values.first() {
            Some(word) => Err(format!("`{word}` is one argument too many.")),
            None => Ok(args),
        };
    };
    let mut values = values.into_iter();
    for (argument, value) in first.iter().zip(values.by_ref()) {
        args.insert(argument.name.clone(), value);
    }
    // The last argument gets all words that are left.
    let rest: Vec<_> = values.collect();
    if !rest.is_empty() {
        args.insert(last.name.clone(), rest.join(" "));
    }
    let missing = prompt.arguments.iter().find(|it| it.required && !args.contains_key(&it.name));
    match missing {
        Some(argument) if argument.description.is_empty() => {
            Err(format!("Missing: {}.", argument.name))
        }
        Some(argument) => Err(format!("Missing: {}, {}.", argument.name, argument.description)),
        None => Ok(args),
    }
}

/// Splits a text into words. Quotes hold a word together. A backslash makes the next character an ordinary one, but
/// not within single quotes.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut begun) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.extend(chars.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => (quote, begun) = (Some(c), true),
            (c, None) if c.is_whitespace() => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (c, _) => word.push(c),
        }
    }
    if quote.is_some() {
        return Err("A quote is not closed: close it, or write `\\` before it.".to_owned());
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::PromptArgument;

    #[track_caller]
    fn check(text: &str, expected: Result<&[(&str, &str)], &str>) {
        let argument = |name: &str, required| PromptArgument {
            name: name.to_owned(),
            description: String::new(),
            required,
        };
        let prompt = ServerPrompt {
            name: "p".to_owned(),
            description: String::new(),
            arguments: vec![argument("file", true), argument("how", false)],
        };
        match (arguments(&prompt, text), expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<_> =
                    found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                assert_eq!(found, expected);
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn arguments_are_named_or_come_in_order() {
        check("a.rs", Ok(&[("file", "a.rs")]));
        check("a.rs very well", Ok(&[("file", "a.rs"), ("how", "very well")]));
        check(r#"--how="very well" 'my file'"#, Ok(&[("file", "my file"), ("how", "very well")]));
        check(r#"--file=a\ b --how="say \"hi\"""#, Ok(&[("file", "a b"), ("how", "say \"hi\"")]));
        check("--file= --other=1", Ok(&[("file", ""), ("how", "--other=1")]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("", Err("Missing: file"));
        check("--how=x", Err("Missing: file"));
        check("'a", Err("A quote is not closed"));
        check("--file=a --how=b c", Err("`c` is one argument too many"));
    }

    #[test]
    fn a_name_is_one_word_and_no_path() {
        for (name, expected) in
            [("commit", "commit"), (" a b ", "a-b"), ("git/commit", "git-commit")]
        {
            assert_eq!(plain(name), expected);
        }
    }
}
