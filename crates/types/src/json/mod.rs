//! JSON documents: parsing, printing, comparison, paths and changes, as MySQL
//! has them (manual, "The JSON Data Type", "JSON Functions").
//!
//! A document is stored as text in its normal form: the keys of an object are
//! sorted by length, then by bytes, the last of equal keys is kept, and `", "`
//! and `": "` separate items. Numbers keep their kind: integers that fit
//! 64 bits stay integers, all others are doubles. Functions parse the text,
//! work on the tree ([`Json`]) and print it again, except that a single path is followed in the text
//! ([`part`]).
//!
//! Invariants:
//! 1. The members of every [`Json::Object`] are in the order above, without
//!    equal keys; [`Object`] holds that by construction.
//! 2. No tree is deeper than [`MAX_DEPTH`]: parsing refuses deeper ones, and results
//!    are checked with [`Json::depth`], so that recursion is bounded.
//!
//! Rejected: serde_json's parser, whose messages and positions differ from MySQL's; a
//! binary form, because no function reads parts of large documents often enough to
//! justify it.

mod change;
mod compare;
mod parse;
mod path;
mod print;
mod scan;

pub use change::{Change, change, merge_patch, merge_preserve, remove};
pub use compare::{comparable_text, contains, equal, order, overlaps};
pub use parse::{ParseError, parse};
pub use path::{Index, Path, Step, each_string};
pub use print::{pretty, quote};
pub use scan::{Part, part, plain_string};

use crate::Decimal;

/// Maximum nesting depth of a document.
pub const MAX_DEPTH: usize = 100;

/// A document or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A double, printed so that it does not look like an integer.
    Double(f64),
    /// A DECIMAL value converted to JSON; parsed text never contains one.
    Decimal(Decimal),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// Members of an object in MySQL's order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Object(Vec<(String, Json)>);

fn key_order(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl Object {
    /// Creates an object; of equal keys the last one is kept.
    #[must_use]
    pub fn from_members(mut members: Vec<(String, Json)>) -> Object {
        members.reverse();
        members.sort_by(|(a, _), (b, _)| key_order(a, b));
        members.dedup_by(|later, first| later.0 == first.0);
        Object(members)
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| key_order(k, key))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        let at = self.position(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        let at = self.position(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// The values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Json> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Sets a member.
    pub fn insert(&mut self, key: String, value: Json) {
        match self.position(&key) {
            Ok(at) => {
                if let Some(member) = self.0.get_mut(at) {
                    member.1 = value;
                }
            }
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Removes and returns a member.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let at = self.position(key).ok()?;
        Some(self.0.remove(at).1)
    }

    /// The members, by value.
    #[must_use]
    pub fn into_members(self) -> Vec<(String, Json)> {
        self.0
    }
}

impl Json {
    /// Name of the value's type in JSON_TYPE().
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "NULL",
            Json::Bool(_) => "BOOLEAN",
            Json::Int(_) => "INTEGER",
            Json::UInt(_) => "UNSIGNED INTEGER",
            Json::Double(_) => "DOUBLE",
            Json::Decimal(_) => "DECIMAL",
            Json::String(_) => "STRING",
            Json::Array(_) => "ARRAY",
            Json::Object(_) => "OBJECT",
        }
    }

    /// Levels of nesting: 1 for scalars and empty containers.
    #[must_use]
    pub fn depth(&self) -> usize {
        let deepest = match self {
            Json::Array(items) => items.iter().map(Json::depth).max().unwrap_or(0),
            Json::Object(members) => members.iter().map(|(_, v)| v.depth()).max().unwrap_or(0),
            _ => 0,
        };
        deepest + 1
    }

    /// The text in normal form.
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        print::write(self, &mut out);
        out
    }
}

/// Normalizes JSON text. The error is the parser's reason and position, in MySQL's wording for
/// error 3140.
///
/// # Errors
/// Text that is not JSON, or nested deeper than [`MAX_DEPTH`].
pub fn normalize(text: &[u8]) -> Result<Vec<u8>, String> {
    match parse(text) {
        Ok(value) => Ok(value.to_text()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        String::from_utf8(normalize(json.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_sorted_by_length_then_bytes() {
        assert_eq!(
            text(r#"{"bb":1,"a":[1,2],"c":{}, "a": 3}"#),
            r#"{"a": 3, "c": {}, "bb": 1}"#
        );
    }

    #[test]
    fn numbers_keep_their_kind() {
        assert_eq!(
            text("[1, -5, 18446744073709551615, 1.0, 1.5e3, 1e100]"),
            "[1, -5, 18446744073709551615, 1.0, 1500.0, 1e100]"
        );
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(text(r#""a\u0001\n\/é\"""#), "\"a\\u0001\\n/é\\\"\"");
        assert_eq!(text(r#""\ud83d\ude00""#), "\"😀\"");
    }

    #[test]
    fn errors_name_reason_and_position() {
        let e = |text: &str| normalize(text.as_bytes()).unwrap_err();
        assert_eq!(e("{\"a\":}"), "\"Invalid value.\" at position 5");
        assert_eq!(e(""), "\"The document is empty.\" at position 0");
        assert_eq!(
            e("{a:1}"),
            "\"Missing a name for object member.\" at position 1"
        );
        assert_eq!(
            e("[1 2]"),
            "\"Missing a comma or ']' after an array element.\" at position 3"
        );
        assert_eq!(
            e("1 2"),
            "\"The document root must not be followed by other values.\" at position 2"
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(normalize(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(parse(nested(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }
}
