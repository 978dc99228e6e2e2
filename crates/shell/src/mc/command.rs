//! Lines of words to requests of the ASCII protocol.

use porpoise_client::memcached::Ending;

/// Request of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// An empty line or a comment.
    Nothing,
    /// The list of commands.
    Help,
    /// A request, and how its reply ends.
    Request(Vec<u8>, Ending),
}

/// The list of commands.
pub const HELP: &str = r#"get KEY...                      gets KEY...                (with versions for cas)
set KEY VALUE [TTL [FLAGS]]     add, replace, append, prepend likewise
cas KEY VALUE VERSION [TTL [FLAGS]]
incr KEY [N]                    decr KEY [N]
delete KEY                      touch KEY TTL
gat TTL KEY...                  gats TTL KEY...
mg, md, ma KEY [FLAG...]        ms KEY VALUE [FLAG...]     mn     me KEY
stats [WORD]                    version                    flush_all [SECONDS]
verbosity N                     quit
A word with spaces stands in "quotes", in which \n, \t, \r, \0, \\, \" and \xHH are escapes.
"#;

/// Splits a line into words; quotes keep spaces, and escapes stand for bytes.
///
/// # Errors
/// A quote without an end, or an unknown escape.
pub fn words(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    if rest.starts_with('#') {
        return Ok(words);
    }
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_word(quoted)?,
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
                (word.as_bytes().to_vec(), after)
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Reads a word up to its closing quote.
fn quoted_word(text: &str) -> Result<(Vec<u8>, &str), String> {
    let mut word = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok((word, chars.as_str())),
            '\\' => word.push(escape(&mut chars)?),
            other => word.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("a quote has no end".into())
}

fn escape(chars: &mut std::str::Chars<'_>) -> Result<u8, String> {
    Ok(match chars.next() {
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('r') => b'\r',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('"') => b'"',
        Some('x') => {
            let digits: String = chars.by_ref().take(2).collect();
            u8::from_str_radix(&digits, 16)
                .ok()
                .filter(|_| digits.len() == 2)
                .ok_or_else(|| format!("\\x{digits} is not a byte: write two hexadecimal digits"))?
        }
        other => {
            let other = other.map(String::from).unwrap_or_default();
            return Err(format!(
                "\\{other} is not an escape: use \\n \\t \\r \\0 \\\\ \\\" or \\xHH"
            ));
        }
    })
}

/// Bytes for people: control characters and bytes that are not text as escapes that [`words`] reads.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                '\0' => out.push_str("\\0"),
                c if c.is_control() => {
                    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                        out.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Makes a request of words.
///
/// # Errors
/// Arguments that the command needs.
pub fn parse(words: &[Vec<u8>]) -> Result<Command, String> {
    let Some((name, arguments)) = words.split_first() else {
        return Ok(Command::Nothing);
    };
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let ending = match name.as_str() {
        "help" | "?" => return Ok(Command::Help),
        "set" | "add" | "replace" | "append" | "prepend" => return storage(&name, arguments, 0),
        "cas" => return storage(&name, arguments, 1),
        "ms" => return meta_set(arguments),
        "incr" | "decr" if arguments.len() == 1 => {
            let delta = [arguments, &[b"1".to_vec()]].concat();
            return line(&name, &delta, Ending::Line);
        }
        "get" | "gets" => at_least(&name, arguments, 1, "KEY...", Ending::End)?,
        "gat" | "gats" => at_least(&name, arguments, 2, "TTL KEY...", Ending::End)?,
        "stats" => Ending::End,
        "incr" | "decr" => at_least(&name, arguments, 2, "KEY [N]", Ending::Line)?,
        "delete" => at_least(&name, arguments, 1, "KEY", Ending::Line)?,
        "touch" => at_least(&name, arguments, 2, "KEY TTL", Ending::Line)?,
        "mg" | "md" | "ma" | "me" => at_least(&name, arguments, 1, "KEY [FLAG...]", Ending::Line)?,
        "mn" | "version" | "flush_all" | "verbosity" => Ending::Line,
        "quit" => Ending::None,
        other => return Err(format!("unknown command {other}; help lists the commands")),
    };
    if arguments
        .iter()
        .any(|word| word == b"noreply" || (is_meta(&name) && word == b"q"))
    {
        return Err("noreply and q suppress the reply that this shell waits for".into());
    }
    line(&name, arguments, ending)
}

fn is_meta(name: &str) -> bool {
    matches!(name, "mg" | "md" | "ma")
}

fn at_least(
    name: &str,
    arguments: &[Vec<u8>],
    least: usize,
    usage: &str,
    ending: Ending,
) -> Result<Ending, String> {
    if arguments.len() < least {
        return Err(format!("{name} {usage}"));
    }
    Ok(ending)
}

/// A line of the protocol; its words may hold neither spaces nor line ends.
fn line(name: &str, words: &[Vec<u8>], ending: Ending) -> Result<Command, String> {
    let mut bytes = name.as_bytes().to_vec();
    for word in words {
        put_word(&mut bytes, word)?;
    }
    bytes.extend_from_slice(b"\r\n");
    Ok(Command::Request(bytes, ending))
}

fn put_word(bytes: &mut Vec<u8>, word: &[u8]) -> Result<(), String> {
    let is_bad = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
    if word.is_empty() || word.iter().any(is_bad) {
        return Err(format!("\"{}\" is no key or number", escaped(word)));
    }
    bytes.push(b' ');
    bytes.extend_from_slice(word);
    Ok(())
}

/// A storage command: `KEY VALUE`, `versions` words, and `[TTL [FLAGS]]`.
fn storage(name: &str, arguments: &[Vec<u8>], versions: usize) -> Result<Command, String> {
    let usage = if versions == 0 {
        format!("{name} KEY VALUE [TTL [FLAGS]]")
    } else {
        format!("{name} KEY VALUE VERSION [TTL [FLAGS]]")
    };
    let [key, value, rest @ ..] = arguments else {
        return Err(usage);
    };
    let Some((version, times)) = rest
        .split_at_checked(versions)
        .filter(|(_, times)| times.len() <= 2)
    else {
        return Err(usage);
    };
    let zero = b"0".to_vec();
    let mut bytes = name.as_bytes().to_vec();
    put_word(&mut bytes, key)?;
    put_word(&mut bytes, times.get(1).unwrap_or(&zero))?;
    put_word(&mut bytes, times.first().unwrap_or(&zero))?;
    put_word(&mut bytes, value.len().to_string().as_bytes())?;
    for word in version {
        put_word(&mut bytes, word)?;
    }
    Ok(with_value(bytes, value))
}

fn meta_set(arguments: &[Vec<u8>]) -> Result<Command, String> {
    let [key, value, flags @ ..] = arguments else {
        return Err("ms KEY VALUE [FLAG...]".into());
    };
    let mut bytes = b"ms".to_vec();
    put_word(&mut bytes, key)?;
    put_word(&mut bytes, value.len().to_string().as_bytes())?;
    for flag in flags {
        put_word(&mut bytes, flag)?;
    }
    Ok(with_value(bytes, value))
}

fn with_value(mut bytes: Vec<u8>, value: &[u8]) -> Command {
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
    Command::Request(bytes, Ending::Line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> (String, Ending) {
        match parse(&words(line).unwrap()).unwrap() {
            Command::Request(bytes, ending) => (String::from_utf8(bytes).unwrap(), ending),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn lengths_are_counted_and_optional_words_filled_in() {
        assert_eq!(
            request("set a hello"),
            ("set a 0 0 5\r\nhello\r\n".into(), Ending::Line)
        );
        assert_eq!(
            request("set a \"b c\\t\" 60 7").0,
            "set a 7 60 4\r\nb c\t\r\n"
        );
        assert_eq!(request("cas a é 99").0, "cas a 0 0 2 99\r\né\r\n");
        assert_eq!(request("add a \"\"").0, "add a 0 0 0\r\n\r\n");
        assert_eq!(request("ms a x T30 c").0, "ms a 1 T30 c\r\nx\r\n");
        assert_eq!(request("incr a").0, "incr a 1\r\n");
        assert_eq!(request("get a b"), ("get a b\r\n".into(), Ending::End));
        assert_eq!(
            request("stats items"),
            ("stats items\r\n".into(), Ending::End)
        );
    }

    #[test]
    fn malformed_memcached_commands_are_refused() {
        for bad in [
            "get",
            "set a",
            "set a b c d e",
            "cas a b",
            "get \"a b\"",
            "get \"a\\r\\nflush_all\"",
            "fly",
            "delete a noreply",
            "mg a q",
            "touch a",
            "set a b \"1 2\"",
        ] {
            assert!(parse(&words(bad).unwrap()).is_err(), "{bad}");
        }
        assert!(words("set a \"b").is_err());
        assert!(words("set a \"\\q\"").is_err());
        assert!(words("set a \"\\xf\"").is_err());
    }

    #[test]
    fn escapes_are_read_as_they_are_printed() {
        let bytes = b"a\\b\n\t\r\0\x1b[1m\xff\xc3\xa9";
        let text = escaped(bytes);
        assert_eq!(text, "a\\\\b\\n\\t\\r\\0\\x1b[1m\\xff\u{e9}");
        assert_eq!(words(&format!("\"{text}\"")).unwrap(), [bytes.to_vec()]);
    }

    #[test]
    fn empty_lines_and_comments_do_nothing() {
        for nothing in ["", "  ", "# get a"] {
            assert_eq!(parse(&words(nothing).unwrap()), Ok(Command::Nothing));
        }
    }
}
