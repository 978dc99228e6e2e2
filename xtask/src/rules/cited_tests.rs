//! Checks that every test that a document cites exists, and that every entry of the compatibility
//! page cites one.
//!
//! A citation is `[test: NAME, NAME, ...]` in a Markdown file. A NAME is a function of Rust code or
//! the name of a test file (`views.slt`), so that it stays valid when a file moves.

use std::collections::BTreeSet;

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "cited-test";
/// The page of which each entry needs a test or a link to another page.
const COMPATIBILITY: &str = "docs/compat.md";
const OPENING: &str = "[test: ";

/// Reports cited tests that do not exist, and entries of the compatibility page without a test.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let names = test_names(tree);
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (at, _) in file.text.match_indices(OPENING) {
            let rest = file.text.get(at + OPENING.len()..).unwrap_or("");
            let list = rest.split(']').next().unwrap_or(rest);
            for name in list.split(',').map(str::trim) {
                if name != "..." && !names.contains(name) {
                    let message = format!("cites the test {name}, which does not exist");
                    let line = line_of(&file.text, at);
                    found.push(Violation::at(RULE, &file.path, line, message));
                }
            }
        }
        if file.path == COMPATIBILITY {
            found.extend(entries_without_test(&file.text));
        }
    }
    found
}

/// Names of all functions in Rust code, and of all files.
fn test_names(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for file in &tree.files {
        names.extend(file.path.rsplit('/').next());
        if file.scan.is_some() {
            names.extend(function_names(&file.text));
        }
    }
    names
}

fn function_names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("fn ").filter_map(|(at, keyword)| {
        let rest = text.get(at + keyword.len()..)?;
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        rest.get(..end)
    })
}

/// Violations for list entries with neither a test nor a link.
fn entries_without_test(page: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate().peekable();
    while let Some((n, line)) = lines.next() {
        if !line.starts_with("- ") {
            continue;
        }
        let mut entry = line.to_owned();
        while let Some((_, more)) = lines.next_if(|(_, line)| line.starts_with("  ")) {
            entry.push_str(more);
        }
        if !entry.contains(OPENING) && !entry.contains("](") {
            let message = "an entry without a test: append [test: NAME]".to_owned();
            found.push(Violation::at(RULE, COMPATIBILITY, n + 1, message));
        }
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at)
        .map_or(1, |before| before.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (COMPATIBILITY, page),
            (
                "crates/sql/tests/kill.rs",
                "#[test]\nfn kill_ends_it() {}\n",
            ),
            ("crates/sql/tests/sql/views.slt", "# Views.\n"),
        ]);
        check(&tree).into_iter().map(|v| v.to_string()).collect()
    }

    #[test]
    fn existing_tests_and_links_pass() {
        let page = "The names in `[test: ...]`.\n\n- KILL and\n  views. [test: kill_ends_it,\n  views.slt]\n\
                    - More [there](x.md).\n";
        assert_eq!(violations(page), Vec::<String>::new());
    }

    #[test]
    fn missing_tests_and_entries_without_a_test_are_caught() {
        assert_eq!(violations("- Gone. [test: gone, views.slt]\n").len(), 1);
        assert_eq!(
            violations("- Views.\n\n- KILL. [test: kill_ends_it]\n").len(),
            1
        );
    }
}
