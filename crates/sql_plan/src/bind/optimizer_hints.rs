//! Optimizer hints: `SELECT /*+ JOIN_ORDER(a, b) INDEX(a i) */ ...` (manual, "Optimizer Hints").
//!
//! To the lexer a hint is a comment. The planner reads it from the text, at the SELECT whose block it
//! is about; texts with different hints have different keys in the plan cache.
//!
//! Invariants:
//! 1. A hint never fails a statement: what is wrong with it is a warning.
//! 2. Hints choose among plans with the same result.

/// A hint of the manual's table "Optimizer Hints Available".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// JOIN_FIXED_ORDER: the order of the FROM clause.
    FixedOrder,
    /// JOIN_ORDER: these tables in this order.
    Order,
    /// JOIN_PREFIX: these tables first.
    Prefix,
    /// JOIN_SUFFIX: these tables last.
    Suffix,
    /// BNL, NO_BNL: whether tables are joined without an index.
    BlockNestedLoop(bool),
    /// DERIVED_CONDITION_PUSHDOWN and its opposite.
    DerivedPushdown(bool),
    /// SEMIJOIN, NO_SEMIJOIN.
    SemiJoin(bool),
    /// INDEX, JOIN_INDEX, GROUP_INDEX, ORDER_INDEX and their opposites.
    Index(IndexHintFor, bool),
    /// QB_NAME: the name of the query block.
    BlockName,
    /// A hint about tables that has no effect here.
    Tables,
    /// A hint that does not affect planning.
    Other,
}

use crate::parse::ast::IndexHintFor;

/// Names of hints.
const KINDS: &[(&str, HintKind)] = &[
    ("JOIN_FIXED_ORDER", HintKind::FixedOrder),
    ("JOIN_ORDER", HintKind::Order),
    ("JOIN_PREFIX", HintKind::Prefix),
    ("JOIN_SUFFIX", HintKind::Suffix),
    ("BNL", HintKind::BlockNestedLoop(true)),
    ("NO_BNL", HintKind::BlockNestedLoop(false)),
    (
        "DERIVED_CONDITION_PUSHDOWN",
        HintKind::DerivedPushdown(true),
    ),
    (
        "NO_DERIVED_CONDITION_PUSHDOWN",
        HintKind::DerivedPushdown(false),
    ),
    ("SEMIJOIN", HintKind::SemiJoin(true)),
    ("NO_SEMIJOIN", HintKind::SemiJoin(false)),
    ("INDEX", HintKind::Index(IndexHintFor::All, true)),
    ("NO_INDEX", HintKind::Index(IndexHintFor::All, false)),
    ("JOIN_INDEX", HintKind::Index(IndexHintFor::Join, true)),
    ("NO_JOIN_INDEX", HintKind::Index(IndexHintFor::Join, false)),
    ("GROUP_INDEX", HintKind::Index(IndexHintFor::GroupBy, true)),
    (
        "NO_GROUP_INDEX",
        HintKind::Index(IndexHintFor::GroupBy, false),
    ),
    ("ORDER_INDEX", HintKind::Index(IndexHintFor::OrderBy, true)),
    (
        "NO_ORDER_INDEX",
        HintKind::Index(IndexHintFor::OrderBy, false),
    ),
    ("QB_NAME", HintKind::BlockName),
    ("BKA", HintKind::Tables),
    ("NO_BKA", HintKind::Tables),
    ("HASH_JOIN", HintKind::Tables),
    ("NO_HASH_JOIN", HintKind::Tables),
    ("MERGE", HintKind::Tables),
    ("NO_MERGE", HintKind::Tables),
    ("MRR", HintKind::Tables),
    ("NO_MRR", HintKind::Tables),
    ("NO_ICP", HintKind::Tables),
    ("NO_RANGE_OPTIMIZATION", HintKind::Tables),
    ("INDEX_MERGE", HintKind::Tables),
    ("NO_INDEX_MERGE", HintKind::Tables),
    ("SKIP_SCAN", HintKind::Tables),
    ("NO_SKIP_SCAN", HintKind::Tables),
    ("SUBQUERY", HintKind::Other),
    ("MAX_EXECUTION_TIME", HintKind::Other),
    ("SET_VAR", HintKind::Other),
    ("RESOURCE_GROUP", HintKind::Other),
];

impl HintKind {
    /// Whether the first name is a table and the others are indexes.
    fn names_indexes(name: &str) -> bool {
        name.ends_with("INDEX")
            || name.ends_with("_MERGE") && name.contains("INDEX")
            || name.ends_with("MRR")
            || name.ends_with("SKIP_SCAN")
            || matches!(name, "NO_ICP" | "NO_RANGE_OPTIMIZATION")
    }
}

/// A name in a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintName {
    /// The name.
    pub name: String,
    /// The query block after `@`.
    pub block: Option<String>,
}

/// One hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The kind.
    pub kind: HintKind,
    /// Its name in upper case.
    pub name: &'static str,
    /// The query block that it is about, if it begins with `@name`.
    pub block: Option<String>,
    /// The names in parentheses, without the indexes.
    pub names: Vec<HintName>,
    /// The indexes of the first name.
    pub indexes: Vec<String>,
    /// The text in parentheses.
    pub argument: String,
}

/// The hints of one query block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockHints {
    /// The hints, in the order of the text.
    pub list: Vec<Hint>,
    /// Position in the text of the first syntax error.
    pub error_at: Option<usize>,
}

/// The hints after the SELECT at this position of a text.
pub fn of_block(text: &str, select: usize) -> BlockHints {
    const SELECT: usize = "SELECT".len();
    let (word, rest) = match text.get(select..).and_then(|t| t.split_at_checked(SELECT)) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => return BlockHints::default(),
    };
    let hint = rest.strip_prefix("/*+");
    let Some(rest) = hint.filter(|_| word.eq_ignore_ascii_case("SELECT")) else {
        return BlockHints::default();
    };
    let Some((comment, _)) = rest.split_once("*/") else {
        return BlockHints::default();
    };
    let start = text.len() - rest.len();
    let mut hints = BlockHints::default();
    let mut left = comment.trim_start();
    while !left.is_empty() {
        match one(left) {
            Some((hint, rest)) => {
                hints.list.push(hint);
                left = rest.trim_start();
            }
            None => {
                hints.error_at = Some(start + comment.len() - left.len());
                break;
            }
        }
    }
    hints
}

/// The first hint, and the text after it.
fn one(text: &str) -> Option<(Hint, &str)> {
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    let known = KINDS.iter().find(|(k, _)| k.eq_ignore_ascii_case(name));
    let (name, kind) = *known?;
    let inside = rest.trim_start().strip_prefix('(')?;
    let end = closing(inside)?;
    let (inside, rest) = (inside.get(..end)?, inside.get(end + 1..)?);
    let mut hint = Hint {
        kind,
        name,
        block: None,
        names: Vec::new(),
        indexes: Vec::new(),
        argument: inside.trim().to_owned(),
    };
    if kind != HintKind::Other {
        hint.read_names(inside)?;
    }
    Some((hint, rest))
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// The position of the closing parenthesis, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '`' | '\'' | '"') => quote = Some(c),
            None if c == ')' => return Some(at),
            None => {}
        }
    }
    None
}

impl Hint {
    /// Reads `@block t1, t2@block` or, for indexes, `t1 i1, i2`.
    fn read_names(&mut self, inside: &str) -> Option<()> {
        let mut left = inside.trim();
        if let Some(rest) = left.strip_prefix('@') {
            let (block, rest) = identifier(rest)?;
            self.block = Some(block);
            left = rest.trim_start();
        }
        let indexed = HintKind::names_indexes(self.name);
        while !left.is_empty() {
            let (name, mut rest) = identifier(left)?;
            if indexed && !self.names.is_empty() {
                self.indexes.push(name);
            } else {
                let mut block = None;
                if let Some(after) = rest.strip_prefix('@') {
                    let (named, after) = identifier(after)?;
                    (block, rest) = (Some(named), after);
                }
                self.names.push(HintName { name, block });
            }
            rest = rest.trim_start();
            left = match rest.strip_prefix(',') {
                Some(rest) => rest.trim_start(),
                // Between a table and its indexes there is no comma.
                None if indexed && self.indexes.is_empty() => rest,
                None if rest.is_empty() => rest,
                None => return None,
            };
        }
        Some(())
    }

    /// The hint as messages print it.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|n| format!("`{}`", n.name)).collect();
        format!("{}({})", self.name, names.join(","))
    }
}

/// An identifier, perhaps in backquotes, and the text after it.
fn identifier(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('`') {
        let (name, rest) = quoted.split_once('`')?;
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    }
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_of_a_block() {
        let text = "SELECT /*+ JOIN_ORDER(a, `b c`@q) no_index(t i, j) BNL( ) */ 1";
        let hints = of_block(text, 0);
        let names: Vec<String> = hints.list.iter().map(Hint::text).collect();
        assert_eq!(names, ["JOIN_ORDER(`a`,`b c`)", "NO_INDEX(`t`)", "BNL()"]);
        assert_eq!(hints.error_at, None);
        let [order, index, _] = hints.list.as_slice() else {
            panic!("three hints");
        };
        assert_eq!(order.names[1].block.as_deref(), Some("q"));
        assert_eq!(index.indexes, ["i", "j"]);
        assert_eq!(index.kind, HintKind::Index(IndexHintFor::All, false));
    }

    #[test]
    fn a_syntax_error_ends_the_list() {
        let text = "SELECT /*+ BKA(t) BOGUS */ 1";
        let hints = of_block(text, 0);
        assert_eq!(hints.list.len(), 1);
        assert_eq!(hints.error_at, text.find("BOGUS"));
        assert_eq!(of_block("SELECT /*+ BKA(t */ 1", 0).error_at, Some(11));
        assert_eq!(of_block("SELECT /* BKA(t) */ 1", 0), BlockHints::default());
        assert_eq!(of_block("SELECT 1 /*+ BKA(t) */", 0), BlockHints::default());
    }
}
