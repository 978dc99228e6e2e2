//! Source code checks, one module each, and the violations that they report.

mod citations;
mod cited_tests;
mod cycles;
mod edges;
mod formats;
mod headers;
mod ignored;
mod lengths;
mod mutants;
mod orphan_tests;
mod words;

use std::fmt;

use crate::ratchet::Ratchet;
use crate::tree::Tree;

pub use ignored::long_tests;
pub use lengths::warnings;

/// One breach of one rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// A path from the root, a commit, or a manifest.
    pub place: String,
    /// Line from 1; 0 where the whole place is meant.
    pub line: usize,
    /// Short name of the rule.
    pub rule: &'static str,
    /// Message: the violation and its remedy.
    pub message: String,
}

impl Violation {
    /// A violation at a place as a whole.
    pub fn of(rule: &'static str, place: &str, message: String) -> Self {
        Self::at(rule, place, 0, message)
    }

    /// A violation at a line.
    pub fn at(rule: &'static str, place: &str, line: usize, message: String) -> Self {
        Self {
            place: place.to_owned(),
            line,
            rule,
            message,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(out, "{}: [{}] {}", self.place, self.rule, self.message)
        } else {
            let Self { place, line, .. } = self;
            write!(out, "{place}:{line}: [{}] {}", self.rule, self.message)
        }
    }
}

/// Runs every rule over a tree and returns all violations, by place.
pub fn run_all(tree: &Tree) -> Result<Vec<Violation>, String> {
    let ratchet = Ratchet::of(tree)?;
    let mut found = edges::check(tree);
    found.extend(edges::check_features(tree));
    found.extend(lengths::check(tree, &ratchet));
    found.extend(cycles::check(tree, &ratchet));
    found.extend(citations::check(tree));
    found.extend(cited_tests::check(tree));
    found.extend(headers::check(tree));
    found.extend(words::check(tree)?);
    found.extend(ignored::check(tree));
    found.extend(formats::check(tree));
    found.extend(orphan_tests::check(tree));
    found.extend(mutants::check(tree)?);
    found.sort();
    Ok(found)
}

/// Current functions over the length limit, and current import cycles.
fn measured(tree: &Tree) -> Ratchet {
    let mut functions = lengths::measured_functions(tree);
    functions.retain(|_, lines| *lines > lengths::FUNCTION_LIMIT);
    Ratchet {
        functions,
        cycles: cycles::measured_cycles(tree),
    }
}

/// Rewrites the record; with `reset`, from the present numbers alone.
pub fn rewrite_ratchet(reset: bool) -> Result<(), String> {
    let tree = Tree::read()?;
    let measured = measured(&tree);
    let record = if reset {
        measured
    } else {
        Ratchet::of(&tree)?.lowered(&measured)
    };
    record.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long_is_recorded() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        let (long, short) = (
            function(lengths::FUNCTION_LIMIT + 1),
            function(lengths::FUNCTION_LIMIT),
        );
        let tree = Tree::of(&[("a.rs", long.as_str()), ("b.rs", short.as_str())]);
        let record = measured(&tree);
        let expected = [("a.rs::f".to_owned(), lengths::FUNCTION_LIMIT + 1)];
        assert_eq!(record.functions, expected.into());
    }
}
