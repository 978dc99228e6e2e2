//! `cargo xtask loc`: lines of code, of comments and of tests, per crate.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tree::{SourceFile, Tree};

#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
struct Lines {
    files: usize,
    code: usize,
    comments: usize,
    tests: usize,
}

/// Returns the table as text: a line per crate, and the sums.
pub fn table(tree: &Tree) -> String {
    let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
    for file in &tree.files {
        if let Some(directory) = file.crate_dir() {
            count(file, crates.entry(directory).or_default());
        }
    }
    let mut sum = Lines::default();
    for lines in crates.values() {
        sum.files += lines.files;
        sum.code += lines.code;
        sum.comments += lines.comments;
        sum.tests += lines.tests;
    }
    let mut table = format!(
        "{:<18}{:>7}{:>9}{:>10}{:>8}\n",
        "crate", "files", "code", "comments", "tests"
    );
    for (name, lines) in crates.into_iter().chain([("all", sum)]) {
        let Lines {
            files,
            code,
            comments,
            tests,
        } = lines;
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{name:<18}{files:>7}{code:>9}{comments:>10}{tests:>8}"
        );
    }
    table
}

/// Adds the lines of a Rust file. A line with code and a comment counts as code.
fn count(file: &SourceFile, lines: &mut Lines) {
    let Some(scan) = &file.scan else { return };
    lines.files += 1;
    let pairs = scan.code.lines().zip(scan.comments.lines());
    for (index, (code, comment)) in pairs.enumerate() {
        if !code.trim().is_empty() {
            if file.is_test() || scan.in_test(index + 1) {
                lines.tests += 1;
            } else {
                lines.code += 1;
            }
        } else if !comment.trim().is_empty() {
            lines.comments += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_tests_are_counted_separately() {
        let text = "//! Head.\n\nfn a() {} // tail\n#[cfg(test)]\nmod tests {\n}\n";
        let mut lines = Lines::default();
        count(&SourceFile::new("crates/kv/src/a.rs", text), &mut lines);
        let expected = Lines {
            files: 1,
            code: 1,
            comments: 1,
            tests: 3,
        };
        assert_eq!(lines, expected);
        let table = table(&Tree::of(&[("crates/kv/src/a.rs", text)]));
        assert!(table.contains("crates/kv"));
        assert!(table.lines().last().unwrap().starts_with("all"));
    }
}
