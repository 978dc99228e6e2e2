//! Checks the lengths of files and functions.
//!
//! A function longer than the limit is a violation unless `xtask/ratchet.toml` has an entry for it
//! with at least its current length; functions in test code are not measured. A file longer than
//! the limit is a warning: a file should contain one idea.

use std::collections::BTreeMap;

use super::Violation;
use crate::ratchet::Ratchet;
use crate::tree::{SourceFile, Tree};

const FILE_RULE: &str = "file-length";
const FUNCTION_RULE: &str = "function-length";

/// Maximum number of lines of a file; a longer one is a warning.
const FILE_LIMIT: usize = 1_000;
/// Maximum number of lines of a function without an entry in the record.
pub const FUNCTION_LIMIT: usize = 70;

const SOURCE_SUFFIXES: &[&str] = &[".rs", ".go", ".py", ".sh"];

/// Lengths of all functions outside tests, by `path::name`; of several with one name, the longest.
pub fn measured_functions(tree: &Tree) -> BTreeMap<String, usize> {
    let mut lengths = BTreeMap::new();
    for file in tree.files.iter().filter(|file| !file.is_test()) {
        let Some(scan) = &file.scan else { continue };
        for function in &scan.functions {
            if scan.in_test(function.first_line) {
                continue;
            }
            let key = format!("{}::{}", file.path, function.name);
            let longest = lengths.entry(key).or_insert(0);
            *longest = function.lines().max(*longest);
        }
    }
    lengths
}

fn is_source(file: &SourceFile) -> bool {
    SOURCE_SUFFIXES
        .iter()
        .any(|suffix| file.path.ends_with(suffix))
        && !file.is_generated()
}

/// Returns a warning for each long file.
pub fn warnings(tree: &Tree) -> Vec<Violation> {
    tree.files
        .iter()
        .filter(|file| is_source(file) && file.lines() > FILE_LIMIT)
        .map(|file| {
            let lines = file.lines();
            let message = format!("{lines} lines: more than one idea? {FILE_LIMIT} are usual");
            Violation::of(FILE_RULE, &file.path, message)
        })
        .collect()
}

/// Checks the lengths of functions.
pub fn check(tree: &Tree, ratchet: &Ratchet) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, lines) in measured_functions(tree) {
        let recorded = ratchet.functions.get(&key).copied().unwrap_or(0);
        let allowed = recorded.max(FUNCTION_LIMIT);
        if lines > allowed {
            let message = format!("{lines} lines; at most {allowed} here: divide it");
            found.push(Violation::of(FUNCTION_RULE, &key, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(lines: usize) -> String {
        "//! Filler.\n".repeat(lines)
    }

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    fn violations(text: &str, ratchet: &Ratchet) -> usize {
        check(&Tree::of(&[("crates/kv/src/a.rs", text)]), ratchet).len()
    }

    #[test]
    fn a_long_file_is_a_warning_and_no_violation() {
        let warned = |path, lines| {
            let tree = Tree::of(&[(path, file_of(lines).as_str())]);
            assert!(check(&tree, &Ratchet::default()).is_empty());
            warnings(&tree).len()
        };
        assert_eq!(warned("crates/kv/src/a.rs", FILE_LIMIT), 0);
        assert_eq!(warned("crates/kv/src/a.rs", FILE_LIMIT + 1), 1);
        assert_eq!(warned("docs/guide/long.md", FILE_LIMIT + 1), 0);
        let generated = format!("// @generated\n{}", file_of(FILE_LIMIT + 1));
        assert!(warnings(&Tree::of(&[("a.rs", generated.as_str())])).is_empty());
    }

    #[test]
    fn a_long_function_is_caught_unless_it_is_recorded_or_a_test() {
        let mut ratchet = Ratchet::default();
        assert_eq!(violations(&function_of(FUNCTION_LIMIT), &ratchet), 0);
        assert_eq!(violations(&function_of(FUNCTION_LIMIT + 1), &ratchet), 1);
        let test = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            function_of(FUNCTION_LIMIT + 9)
        );
        assert_eq!(violations(&test, &ratchet), 0);
        let key = "crates/kv/src/a.rs::long".to_owned();
        ratchet.functions.insert(key, FUNCTION_LIMIT + 1);
        assert_eq!(violations(&function_of(FUNCTION_LIMIT + 1), &ratchet), 0);
        assert_eq!(violations(&function_of(FUNCTION_LIMIT + 2), &ratchet), 1);
    }
}
