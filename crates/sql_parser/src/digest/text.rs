//! Digest text: a statement without its values, as STATEMENT_DIGEST_TEXT() shows it (manual,
//! "Performance Schema Statement Digests and Sampling").
//!
//! Tokens are separated by spaces; keywords are in capitals, identifiers between backticks, and
//! literals are `?`. Lists of literals become shorter as they are read, by a stack of tokens:
//!
//! ```text
//!  1, 2, 3                 ?, ...
//!  (1)      (1, 2)         (?)      (...)
//!  (1), (2) (1, 2), (3, 4) (?) /* , ... */      (...) /* , ... */
//!  IN (1, 2)               IN (...)
//! ```

use super::super::keyword::Keyword as Kw;
use super::super::lexer::{LexMode, Lexer};
use super::super::token::{Token, TokenKind as K};

/// A token of the text, as far as lists of literals depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `?`
    Value,
    /// `?, ...`
    Values,
    /// `(?)`
    Row,
    /// `(?) /* , ... */`
    Rows,
    /// `(...)`
    WideRow,
    /// `(...) /* , ... */`
    WideRows,
    /// A word or a sign.
    Text(String),
    /// An identifier, which may be an operand.
    Name(String),
}

impl Part {
    fn is(&self, text: &str) -> bool {
        matches!(self, Part::Text(own) if own == text)
    }
}

/// The digest text of the first statement of `text`; `None` if a token is invalid.
#[must_use]
pub fn text(text: &[u8], mode: LexMode) -> Option<String> {
    prefix(text, mode, usize::MAX)
}

/// As [`text`], of the tokens that begin in the first `limit` bytes. If there are more, the text
/// ends with `...`; a row of values that is not complete is left out, so that the text of a long
/// INSERT does not depend on its values.
#[must_use]
pub fn prefix(text: &[u8], mode: LexMode, limit: usize) -> Option<String> {
    let mut lexer = Lexer::new(text, 0, mode);
    let mut parts: Vec<Part> = Vec::new();
    let mut after_period = false;
    loop {
        let token = lexer.next_token();
        match token.kind {
            K::End | K::Semicolon => break,
            K::Invalid => return None,
            _ if token.span().start as usize >= limit => {
                remove_open_row(&mut parts);
                parts.push(Part::Text("...".to_owned()));
                break;
            }
            _ => add(&mut parts, token, text, after_period),
        }
        after_period = token.kind == K::Period;
    }
    let words = parts.into_iter().map(|part| match part {
        Part::Value => "?".to_owned(),
        Part::Values => "?, ...".to_owned(),
        Part::Row => "(?)".to_owned(),
        Part::Rows => "(?) /* , ... */".to_owned(),
        Part::WideRow => "(...)".to_owned(),
        Part::WideRows => "(...) /* , ... */".to_owned(),
        Part::Text(text) | Part::Name(text) => text,
    });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// Removes what follows the last complete row of a list of rows.
fn remove_open_row(parts: &mut Vec<Part>) {
    let is_row = |part: &Part| {
        matches!(
            part,
            Part::Row | Part::Rows | Part::WideRow | Part::WideRows
        )
    };
    let Some(row) = parts.iter().rposition(is_row) else {
        return;
    };
    let rest = parts.get(row + 1..).unwrap_or_default();
    if rest.first().is_none_or(|part| part.is(",")) {
        parts.truncate(row + 1);
        // The list goes on.
        match parts.last_mut() {
            Some(last @ Part::Row) => *last = Part::Rows,
            Some(last @ Part::WideRow) => *last = Part::WideRows,
            _ => {}
        }
    }
}

fn add(parts: &mut Vec<Part>, token: Token, text: &[u8], after_period: bool) {
    let bytes = String::from_utf8_lossy(token.span().slice(text));
    match token.kind {
        K::Int
        | K::Decimal
        | K::Float
        | K::String
        | K::NationalString
        | K::HexString
        | K::HexNumber
        | K::BitString
        | K::BitNumber
        | K::Param
        | K::NullMark => add_value(parts),
        K::Word if token.keyword == Kw::NULL && !follows_is(parts) => add_value(parts),
        K::Word if token.keyword == Kw::NONE || after_period => {
            parts.push(Part::Name(format!("`{bytes}`")));
        }
        K::Word => parts.push(Part::Text(bytes.to_uppercase())),
        K::QuotedIdent => {
            let name = bytes.trim_matches(['`', '"']);
            parts.push(Part::Name(format!("`{name}`")));
        }
        K::NotEq => parts.push(Part::Text("!=".to_owned())),
        K::RightParen => close(parts),
        _ => parts.push(Part::Text(bytes.into_owned())),
    }
}

/// Whether NULL belongs to IS NULL, IS NOT NULL or NOT NULL.
fn follows_is(parts: &[Part]) -> bool {
    parts
        .last()
        .is_some_and(|part| part.is("IS") || part.is("NOT"))
}

/// Adds a literal: with its sign, and with those before it in a list.
fn add_value(parts: &mut Vec<Part>) {
    if let [before @ .., sign] = parts.as_slice()
        && (sign.is("-") || sign.is("+"))
        && !before.last().is_some_and(is_operand)
    {
        parts.pop();
    }
    if let [.., Part::Value | Part::Values, comma] = parts.as_slice()
        && comma.is(",")
    {
        parts.truncate(parts.len() - 2);
        parts.push(Part::Values);
    } else {
        parts.push(Part::Value);
    }
}

/// Whether a sign after this part is an operator of two operands.
fn is_operand(part: &Part) -> bool {
    match part {
        Part::Text(text) => text == ")",
        _ => true,
    }
}

/// Adds `)`: with the list of literals before it, a row; with the rows before it, one of several.
fn close(parts: &mut Vec<Part>) {
    let is_wide = match parts.as_slice() {
        [.., open, Part::Value] if open.is("(") => false,
        [.., open, Part::Values] if open.is("(") => true,
        _ => return parts.push(Part::Text(")".to_owned())),
    };
    parts.truncate(parts.len() - 2);
    if parts.last().is_some_and(|part| part.is("IN")) {
        parts.push(Part::WideRow);
        return;
    }
    let (one, several) = if is_wide {
        (Part::WideRow, Part::WideRows)
    } else {
        (Part::Row, Part::Rows)
    };
    match parts.as_slice() {
        [.., before, comma] if comma.is(",") && (*before == one || *before == several) => {
            parts.truncate(parts.len() - 2);
            parts.push(several);
        }
        _ => parts.push(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_left_out_and_lists_are_shortened() {
        let cases = [
            ("select 1", "SELECT ?"),
            (
                "SELECT a + -1, b - 1 from d.t1 as x",
                "SELECT `a` + ? , `b` - ? FROM `d` . `t1` AS `x`",
            ),
            (
                "select * from t where a <> 'x' and b is not null",
                "SELECT * FROM `t` WHERE `a` != ? AND `b` IS NOT NULL",
            ),
            (
                "select * from `t` where a in (1,2,3) limit 5",
                "SELECT * FROM `t` WHERE `a` IN (...) LIMIT ?",
            ),
            (
                "insert into t values (1), (2)",
                "INSERT INTO `t` VALUES (?) /* , ... */",
            ),
            (
                "insert into t values (1, null), (2, 3), (4, 5); select 1",
                "INSERT INTO `t` VALUES (...) /* , ... */",
            ),
            ("select f(1) /* c */ is null", "SELECT `f` (?) IS NULL"),
            ("select 1, 2, 3 from t", "SELECT ?, ... FROM `t`"),
        ];
        for (statement, expected) in cases {
            let found = text(statement.as_bytes(), LexMode::default());
            assert_eq!(found.unwrap(), expected, "{statement}");
        }
        assert_eq!(text(b"select 'open", LexMode::default()), None);
    }

    #[test]
    fn a_long_insert_has_the_same_prefix_wherever_it_is_cut() {
        let rows = "(1, 'a'), (22, 'bb'), (333, 'ccc'), (4444, 'dddd')";
        let statement = format!("INSERT INTO t VALUES {rows}");
        for limit in 30..statement.len() - 1 {
            let found = prefix(statement.as_bytes(), LexMode::default(), limit);
            let expected = "INSERT INTO `t` VALUES (...) /* , ... */ ...";
            assert_eq!(found.unwrap(), expected, "{limit}");
        }
        let found = prefix(b"select a, b from t", LexMode::default(), 10);
        assert_eq!(found.unwrap(), "SELECT `a` , ...");
    }
}
