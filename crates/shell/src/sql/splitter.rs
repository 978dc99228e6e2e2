//! Divides input into statements and commands of the shell, line by line, as MySQL's client does.
//!
//! A statement ends with the delimiter (`;`, changed by DELIMITER), `\g` or `\G`, outside of quotes and
//! comments. Commands (`\?`, `use`, `source`) begin a line and end with it.

/// A complete piece of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A statement.
    Statement {
        /// Its text, without delimiter.
        text: Vec<u8>,
        /// Number of its first line, from 1.
        line: u64,
        /// Whether it ended with `\G`.
        is_vertical: bool,
    },
    /// A command of the shell: its name and the rest of the line.
    Command {
        /// One character after a backslash, or a word.
        name: String,
        /// The rest of the line, without surrounding spaces.
        argument: String,
        /// Number of its line.
        line: u64,
    },
}

/// Position within a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Outside of everything.
    Plain,
    /// Inside of quotes of this kind.
    Quoted(u8),
    /// Inside of a block comment.
    Comment,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Splitter {
    delimiter: Vec<u8>,
    has_backslash_escapes: bool,
    state: State,
    /// The statement so far.
    text: Vec<u8>,
    /// Whether the statement has more than spaces and comments.
    has_content: bool,
    /// Number of lines read.
    lines: u64,
    /// Line on which the statement begins.
    first_line: u64,
}

impl Default for Splitter {
    fn default() -> Splitter {
        Splitter {
            delimiter: b";".to_vec(),
            has_backslash_escapes: true,
            state: State::Plain,
            text: Vec::new(),
            has_content: false,
            lines: 0,
            first_line: 0,
        }
    }
}

/// Words that are commands if they begin a statement; with an argument to the end of the line, or alone.
const WITH_ARGUMENT: &[&str] = &["delimiter", "source", "use"];
const ALONE: &[&str] = &["help", "quit", "exit", "status", "clear"];

impl Splitter {
    /// Follows `NO_BACKSLASH_ESCAPES` of the session.
    pub fn set_backslash_escapes(&mut self, on: bool) {
        self.has_backslash_escapes = on;
    }

    /// Whether a statement has begun and not ended.
    pub fn is_pending(&self) -> bool {
        self.has_content || self.state != State::Plain
    }

    /// Continues with the line numbers of another input.
    pub fn restart(&mut self) {
        self.clear();
        self.lines = 0;
    }

    fn clear(&mut self) {
        self.text.clear();
        self.has_content = false;
        self.state = State::Plain;
    }

    /// Reads a line, with or without its end.
    pub fn feed(&mut self, line: &[u8], pieces: &mut Vec<Piece>) {
        self.lines += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut at = 0;
        while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
            if !self.is_pending()
                && self.state == State::Plain
                && let Some(command) = self.command(rest)
            {
                self.clear();
                pieces.extend(command);
                return;
            }
            at += match self.state {
                State::Plain => self.plain(rest, pieces),
                State::Quoted(quote) => self.quoted(quote, rest),
                State::Comment => self.comment(rest),
            };
        }
        if !self.text.is_empty() {
            self.text.push(b'\n');
        }
    }

    /// The statement that input ends with, though no delimiter follows.
    pub fn finish(&mut self, pieces: &mut Vec<Piece>) {
        self.end_statement(false, pieces);
    }

    fn end_statement(&mut self, is_vertical: bool, pieces: &mut Vec<Piece>) {
        if self.has_content {
            let end = self.text.trim_ascii_end().len();
            self.text.truncate(end);
            pieces.push(Piece::Statement {
                text: std::mem::take(&mut self.text),
                line: self.first_line,
                is_vertical,
            });
        }
        self.clear();
    }

    fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    fn begin_content(&mut self) {
        if !self.has_content {
            self.has_content = true;
            self.first_line = self.lines;
        }
    }

    /// Reads what stands outside of quotes and comments. Returns how many bytes it has read.
    fn plain(&mut self, rest: &[u8], pieces: &mut Vec<Piece>) -> usize {
        if rest.starts_with(&self.delimiter) {
            self.end_statement(false, pieces);
            return self.delimiter.len();
        }
        match rest {
            [b'\\', b'g' | b'G', ..] => {
                self.end_statement(rest.get(1) == Some(&b'G'), pieces);
                2
            }
            [b'\\', b'c', ..] => {
                self.clear();
                2
            }
            [b'/', b'*', ..] => {
                if rest.get(2) == Some(&b'!') {
                    self.begin_content();
                }
                self.state = State::Comment;
                self.push(b"/*");
                2
            }
            [b'#', ..] | [b'-', b'-'] | [b'-', b'-', b' ' | b'\t', ..] => {
                // Comments inside of statements are kept for stored programs.
                if self.has_content {
                    self.push(rest);
                }
                rest.len()
            }
            [byte, ..] => {
                if !byte.is_ascii_whitespace() {
                    self.begin_content();
                }
                if matches!(byte, b'\'' | b'"' | b'`') {
                    self.state = State::Quoted(*byte);
                }
                if self.has_content || !self.text.is_empty() {
                    self.push(&[*byte]);
                }
                1
            }
            [] => 0,
        }
    }

    fn quoted(&mut self, quote: u8, rest: &[u8]) -> usize {
        let length = match rest {
            [b'\\', _, ..] if self.has_backslash_escapes && quote != b'`' => 2,
            [byte, ..] => {
                if *byte == quote {
                    self.state = State::Plain;
                }
                1
            }
            [] => 0,
        };
        self.push(rest.get(..length).unwrap_or_default());
        length
    }

    fn comment(&mut self, rest: &[u8]) -> usize {
        let length = if rest.starts_with(b"*/") {
            self.state = State::Plain;
            2
        } else {
            1
        };
        self.push(rest.get(..length).unwrap_or_default());
        length
    }

    /// The command that a line begins with. `Some(None)` for DELIMITER, which is done here.
    fn command(&mut self, rest: &[u8]) -> Option<Option<Piece>> {
        let text = String::from_utf8_lossy(rest);
        let text = text.trim();
        let (name, argument) = match text.strip_prefix('\\') {
            Some(short) => {
                let mut chars = short.chars();
                let name = chars
                    .next()
                    .filter(|name| !matches!(name, 'g' | 'G' | 'c'))?;
                (name.to_string(), chars.as_str().trim())
            }
            None => {
                let end = text
                    .find(|c: char| !c.is_ascii_alphabetic())
                    .unwrap_or(text.len());
                let (word, argument) = text.split_at_checked(end)?;
                let word = word.to_ascii_lowercase();
                let argument = argument.trim();
                let delimiter = String::from_utf8_lossy(&self.delimiter).into_owned();
                let is_alone = argument.is_empty() || argument == delimiter;
                let takes = WITH_ARGUMENT.contains(&word.as_str()) && !is_alone;
                let stands_alone = ALONE.contains(&word.as_str()) && is_alone;
                if !takes && !stands_alone {
                    return None;
                }
                (word, if is_alone { "" } else { argument })
            }
        };
        if matches!(name.as_str(), "delimiter" | "d") {
            let word = argument.split_whitespace().next().unwrap_or(";");
            self.delimiter = word.as_bytes().to_vec();
            return Some(None);
        }
        // The argument of `use` may be followed by the delimiter, and by further statements.
        if name == "use" && argument.matches(';').count() > usize::from(argument.ends_with(';')) {
            return None;
        }
        let delimiter = String::from_utf8_lossy(&self.delimiter);
        let argument = argument
            .strip_suffix(&*delimiter)
            .unwrap_or(argument)
            .trim();
        Some(Some(Piece::Command {
            name,
            argument: argument.to_owned(),
            line: self.lines,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a text: statements with their lines, commands in brackets.
    fn split(text: &str) -> Vec<String> {
        let (mut splitter, mut pieces) = (Splitter::default(), Vec::new());
        for line in text.split_inclusive('\n') {
            splitter.feed(line.as_bytes(), &mut pieces);
        }
        splitter.finish(&mut pieces);
        pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Statement {
                    text,
                    line,
                    is_vertical,
                } => {
                    let mark = if is_vertical { "G" } else { "" };
                    format!("{line}{mark}: {}", String::from_utf8(text).unwrap())
                }
                Piece::Command { name, argument, .. } => format!("[{name}|{argument}]"),
            })
            .collect()
    }

    #[test]
    fn statements_end_at_delimiters_outside_of_quotes_and_comments() {
        assert_eq!(
            split("select 1; select 2\n  from t;\n"),
            ["1: select 1", "1: select 2\n  from t"]
        );
        assert_eq!(
            split("select ';', \"a;\\\";\", `;`; select ''';'"),
            ["1: select ';', \"a;\\\";\", `;`", "1: select ''';'"]
        );
        assert_eq!(
            split("-- a; b\n# c;\nselect 1 -- d;\n+ 2;"),
            ["3: select 1 -- d;\n+ 2"]
        );
        assert_eq!(
            split("/* a; */ ; select /*+ b; */ 1;"),
            ["1: select /*+ b; */ 1"]
        );
        assert_eq!(
            split("/*!40101 set x = 1 */;\n"),
            ["1: /*!40101 set x = 1 */"]
        );
        assert_eq!(split("select 1--2;"), ["1: select 1--2"]);
        assert_eq!(
            split("select '\n;\n';\n\nselect 2"),
            ["1: select '\n;\n'", "5: select 2"]
        );
        assert_eq!(split(" \n;;\n;"), Vec::<String>::new());
    }

    #[test]
    fn backslashes_end_clear_and_command() {
        assert_eq!(
            split("select 1\\G select 2\\g\n"),
            ["1G: select 1", "1: select 2"]
        );
        assert_eq!(split("select 1 \\c select 2;"), ["1: select 2"]);
        assert_eq!(
            split("\\. a file.sql\n\\?\nselect 1;"),
            ["[.|a file.sql]", "[?|]", "3: select 1"]
        );
    }

    #[test]
    fn words_are_commands_only_where_a_statement_begins() {
        assert_eq!(
            split("use a;\nUSE `b`\nquit"),
            ["[use|a]", "[use|`b`]", "[quit|]"]
        );
        assert_eq!(split("select\nuse\n;"), ["1: select\nuse"]);
        assert_eq!(split("help 'x';\nuser;"), ["1: help 'x'", "2: user"]);
        assert_eq!(split("use a; select 1;"), ["1: use a", "1: select 1"]);
    }

    #[test]
    fn another_delimiter_lets_programs_contain_semicolons() {
        let text = "DELIMITER //\ncreate procedure p() begin select 1; -- x\n select 2; end //\ndelimiter ;\ncall p();";
        assert_eq!(
            split(text),
            [
                "2: create procedure p() begin select 1; -- x\n select 2; end",
                "5: call p()"
            ]
        );
    }

    #[test]
    fn backslashes_are_characters_if_the_session_says_so() {
        let (mut splitter, mut pieces) = (Splitter::default(), Vec::new());
        splitter.set_backslash_escapes(false);
        splitter.feed(b"select '\\'; select 2;", &mut pieces);
        assert_eq!(pieces.len(), 2);
    }
}
