//! Length of files and functions, with the ratchet.
//!
//! A file past the hard limit is always a violation. A file or a function past the soft limit is
//! one unless it is on record in `xtask/ratchet.toml` with at least its present length. Functions
//! in test code are not measured; test files are.

use std::collections::BTreeMap;

use super::Violation;
use crate::ratchet::Ratchet;
use crate::tree::{SourceFile, Tree};

const FILE_RULE: &str = "file-length";
const FUNCTION_RULE: &str = "function-length";

/// Lines past which a file must be on record.
pub const FILE_SOFT: usize = 1_000;
/// Lines past which a file may not grow at all.
pub const FILE_HARD: usize = 1_500;
/// Lines past which a function must be on record.
pub const FUNCTION_SOFT: usize = 70;

const SOURCE_SUFFIXES: &[&str] = &[".rs", ".go", ".py", ".sh"];

/// Lengths of all source files, by path.
pub fn measured_files(tree: &Tree) -> BTreeMap<String, usize> {
    tree.files
        .iter()
        .filter(|file| is_source(file))
        .map(|file| (file.path.clone(), file.lines()))
        .collect()
}

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

/// Judges all lengths.
pub fn check(tree: &Tree, ratchet: &Ratchet) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, lines) in measured_files(tree) {
        let recorded = ratchet.files.get(&path).copied().unwrap_or(FILE_SOFT);
        if lines > FILE_HARD {
            let message = format!("{lines} lines; no file may pass {FILE_HARD}: divide it");
            found.push(Violation::of(FILE_RULE, &path, message));
        } else if lines > recorded.max(FILE_SOFT) {
            let message = format!(
                "{lines} lines; at most {} here: divide it",
                recorded.max(FILE_SOFT)
            );
            found.push(Violation::of(FILE_RULE, &path, message));
        }
    }
    for (key, lines) in measured_functions(tree) {
        let recorded = ratchet.functions.get(&key).copied().unwrap_or(0);
        let allowed = recorded.max(FUNCTION_SOFT);
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

    fn judge(text: &str, ratchet: &Ratchet) -> usize {
        check(&Tree::of(&[("crates/kv/src/a.rs", text)]), ratchet).len()
    }

    #[test]
    fn a_long_file_is_caught_unless_on_record() {
        let mut ratchet = Ratchet::default();
        assert_eq!(judge(&file_of(FILE_SOFT), &ratchet), 0);
        assert_eq!(judge(&file_of(FILE_SOFT + 1), &ratchet), 1);
        let recorded = FILE_SOFT + 100;
        ratchet
            .files
            .insert("crates/kv/src/a.rs".to_owned(), recorded);
        assert_eq!(judge(&file_of(recorded), &ratchet), 0);
        assert_eq!(judge(&file_of(recorded + 1), &ratchet), 1);
    }

    #[test]
    fn the_hard_limit_holds_whatever_is_on_record() {
        let mut ratchet = Ratchet::default();
        ratchet.files.insert("crates/kv/src/a.rs".to_owned(), 5_000);
        assert_eq!(judge(&file_of(FILE_HARD), &ratchet), 0);
        assert_eq!(judge(&file_of(FILE_HARD + 1), &ratchet), 1);
    }

    #[test]
    fn a_long_function_is_caught_unless_on_record_or_a_test() {
        let mut ratchet = Ratchet::default();
        assert_eq!(judge(&function_of(FUNCTION_SOFT), &ratchet), 0);
        assert_eq!(judge(&function_of(FUNCTION_SOFT + 1), &ratchet), 1);
        let test = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            function_of(FUNCTION_SOFT + 9)
        );
        assert_eq!(judge(&test, &ratchet), 0);
        let key = "crates/kv/src/a.rs::long".to_owned();
        ratchet.functions.insert(key, FUNCTION_SOFT + 1);
        assert_eq!(judge(&function_of(FUNCTION_SOFT + 1), &ratchet), 0);
        assert_eq!(judge(&function_of(FUNCTION_SOFT + 2), &ratchet), 1);
    }

    #[test]
    fn generated_files_and_plain_text_are_not_measured() {
        let ratchet = Ratchet::default();
        let generated = format!("// @generated\n{}", file_of(FILE_HARD + 1));
        assert_eq!(judge(&generated, &ratchet), 0);
        let tree = Tree::of(&[("docs/guide/long.md", file_of(FILE_HARD + 1).as_str())]);
        assert!(check(&tree, &ratchet).is_empty());
    }
}
