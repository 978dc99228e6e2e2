//! Completion of names: keywords, schemas, tables, columns, by the word before the cursor.

use super::session::Session;
use super::splitter::Splitter;
use crate::Failure;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most columns that are read for completion; beyond it names are missing.
const MOST_COLUMNS: usize = 50_000;

/// Candidates shown at most.
const MOST_CANDIDATES: usize = 200;

/// Names that can be completed.
#[derive(Clone, Debug, Default)]
pub struct Names {
    keywords: Vec<String>,
    /// Columns of each table of each schema.
    schemas: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// The default database.
    database: String,
}

impl Names {
    /// Reads the names that the account may see.
    ///
    /// # Errors
    /// The connection's.
    pub fn read(session: &mut Session<'_>) -> Result<Names, Failure> {
        let mut names = Names {
            database: String::from_utf8_lossy(&session.target().credentials.database).into_owned(),
            ..Names::default()
        };
        for row in session.values("SELECT word FROM information_schema.keywords")? {
            names.keywords.extend(row);
        }
        for row in session.values("SELECT schema_name FROM information_schema.schemata")? {
            for schema in row {
                names.schemas.entry(schema).or_default();
            }
        }
        let columns = format!(
            "SELECT table_schema, table_name, column_name FROM information_schema.columns \
             ORDER BY table_schema <> COALESCE(DATABASE(), ''), table_schema, table_name, ordinal_position \
             LIMIT {MOST_COLUMNS}"
        );
        for row in session.values(&columns)? {
            if let Ok([schema, table, column]) = <[String; 3]>::try_from(row) {
                let tables = names.schemas.entry(schema).or_default();
                tables.entry(table).or_default().push(column);
            }
        }
        Ok(names)
    }

    /// Position and candidates for the word that ends at the end of `text`.
    fn complete(&self, text: &str) -> (usize, Vec<String>) {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '`');
        let start = text
            .char_indices()
            .rev()
            .take_while(|(_, c)| is_part(*c))
            .last()
            .map_or(text.len(), |(at, _)| at);
        let (before, word) = text.split_at_checked(start).unwrap_or((text, ""));
        let mut found = match before.strip_suffix('.') {
            Some(qualified) => self.below(qualified, word),
            None => self.at_word(before, word),
        };
        found.sort();
        found.dedup();
        found.truncate(MOST_CANDIDATES);
        (start, found)
    }

    /// Tables of a schema, or columns of a table, whose name stands before the dot.
    fn below(&self, qualified: &str, word: &str) -> Vec<String> {
        let mut parts = qualified
            .rsplit(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '`' | '.')))
            .next()
            .unwrap_or_default()
            .split('.')
            .map(|part| part.trim_matches('`'));
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        let names: Vec<&String> = match second {
            Some(table) => self.columns(first, table).collect(),
            None => match self.schemas.get(first) {
                Some(tables) => tables.keys().collect(),
                None => self.columns(&self.database, first).collect(),
            },
        };
        matching(names.into_iter(), word)
    }

    fn columns(&self, schema: &str, table: &str) -> impl Iterator<Item = &String> {
        let tables = self.schemas.get(schema);
        tables
            .and_then(|tables| tables.get(table))
            .into_iter()
            .flatten()
    }

    /// Names that may follow the text before the word, by the keyword at its end.
    fn at_word(&self, before: &str, word: &str) -> Vec<String> {
        let previous = before
            .split_whitespace()
            .next_back()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let tables = self.schemas.get(&self.database);
        match previous.as_str() {
            "use" | "database" | "schema" => matching(self.schemas.keys(), word),
            "from" | "join" | "into" | "update" | "table" | "describe" | "desc" | "references" => {
                let tables = tables.into_iter().flat_map(BTreeMap::keys);
                matching(tables.chain(self.schemas.keys()), word)
            }
            _ => {
                let tables = tables.into_iter().flatten();
                let names =
                    tables.flat_map(|(table, columns)| std::iter::once(table).chain(columns));
                let mut found = matching(names, word);
                if !word.is_empty() {
                    found.extend(self.matching_keywords(word));
                }
                found
            }
        }
    }

    /// Keywords in the case of the word that is typed.
    fn matching_keywords(&self, word: &str) -> Vec<String> {
        let is_lower = word.chars().any(char::is_lowercase);
        let upper = word.to_ascii_uppercase();
        let keywords = self
            .keywords
            .iter()
            .filter(|keyword| keyword.starts_with(&upper));
        keywords
            .map(|keyword| {
                if is_lower {
                    keyword.to_ascii_lowercase()
                } else {
                    keyword.clone()
                }
            })
            .collect()
    }
}

/// Names that begin with a word, quoted where they must be.
fn matching<'n>(names: impl Iterator<Item = &'n String>, word: &str) -> Vec<String> {
    let lower = word.trim_start_matches('`').to_lowercase();
    names
        .filter(|name| name.to_lowercase().starts_with(&lower))
        .map(|name| quoted(name, word.starts_with('`')))
        .collect()
}

/// A name in backticks if it needs them, or if the user has typed one.
fn quoted(name: &str, has_backtick: bool) -> String {
    let is_plain = name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_plain && !has_backtick {
        name.to_owned()
    } else {
        format!("`{}`", name.replace('`', "``"))
    }
}

/// Completion, and the decision whether a statement is complete, for the editor.
pub struct Editing {
    /// Names to complete.
    pub names: Rc<RefCell<Names>>,
    /// The splitter with the delimiter in force.
    pub splitter: Rc<RefCell<Splitter>>,
}

impl Completer for Editing {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let text = line.get(..position).unwrap_or(line);
        Ok(self.names.borrow().complete(text))
    }
}

impl Validator for Editing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let mut splitter = self.splitter.borrow().clone();
        let mut pieces = Vec::new();
        for line in context.input().split_inclusive('\n') {
            splitter.feed(line.as_bytes(), &mut pieces);
        }
        Ok(if splitter.is_pending() {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Hinter for Editing {
    type Hint = String;
}

impl Highlighter for Editing {}

impl Helper for Editing {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names {
            keywords: ["SELECT", "SET", "FROM"].map(String::from).to_vec(),
            database: "shop".into(),
            ..Names::default()
        };
        for (schema, table, column) in [
            ("shop", "item", "id"),
            ("shop", "item", "seller"),
            ("shop", "maker", "name"),
            ("board", "my posts", "uid"),
        ] {
            let tables = names.schemas.entry(schema.into()).or_default();
            tables.entry(table.into()).or_default().push(column.into());
        }
        names
    }

    fn complete(text: &str) -> (usize, String) {
        let (start, found) = names().complete(text);
        (start, found.join(" "))
    }

    #[test]
    fn names_follow_from_the_words_before() {
        assert_eq!(complete("se"), (0, "select seller set".into()));
        assert_eq!(complete("SE"), (0, "SELECT SET seller".into()));
        assert_eq!(
            complete("select * from "),
            (14, "board item maker shop".into())
        );
        assert_eq!(complete("use b"), (4, "board".into()));
        assert_eq!(complete("select * from board."), (20, "`my posts`".into()));
        assert_eq!(complete("select item."), (12, "id seller".into()));
        assert_eq!(complete("select shop.maker.n"), (18, "name".into()));
        assert_eq!(complete("select `se"), (7, "`seller`".into()));
        assert_eq!(
            complete("select (1)"),
            (10, "id item maker name seller".into())
        );
        assert_eq!(complete("select é"), (7, String::new()));
    }
}
