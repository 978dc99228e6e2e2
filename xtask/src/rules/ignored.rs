//! Tests that `make test` leaves out are run by `make soak`, and say why they are left out.
//!
//! `tests/soak.list` names them, one `PACKAGE TEST` a line with the test's full path as the test
//! runner prints it. An ignored test that is not in the list, a name in the list without such a
//! test, and an `#[ignore]` without a reason are violations.

use std::collections::BTreeMap;

use super::Violation;
use crate::scan::{line_of, name_after};
use crate::tree::{SourceFile, Tree};

const RULE: &str = "ignored-test";
const LIST: &str = "tests/soak.list";

/// Entries of the list: package and full test name.
pub fn long_tests(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(package, test)| (package, test.trim()))
        .collect()
}

/// Judges ignored tests and the list.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let listed = tree.file(LIST).map(|file| long_tests(&file.text));
    let listed = listed.unwrap_or_default();
    let mut found = Vec::new();
    let mut ignored: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in &tree.files {
        let Some(directory) = file.crate_dir() else {
            continue;
        };
        let package = package_at(directory);
        for test in ignored_tests(file) {
            ignored.entry(package).or_default().push(test.name);
            if !test.has_reason {
                let message = format!("`{}` is ignored without a reason", test.name);
                found.push(Violation::at(RULE, &file.path, test.line, message));
            }
            if !listed.iter().any(|entry| names(*entry, package, test.name)) {
                let message = format!("`{}` is ignored, but {LIST} does not name it", test.name);
                found.push(Violation::at(RULE, &file.path, test.line, message));
            }
        }
    }
    for (package, test) in listed {
        let is_there = ignored
            .get(short(package))
            .is_some_and(|tests| tests.contains(&last_part(test)));
        if !is_there {
            let message = format!("names `{package} {test}`, but there is no such ignored test");
            found.push(Violation::of(RULE, LIST, message));
        }
    }
    found
}

fn names(entry: (&str, &str), package: &str, test: &str) -> bool {
    short(entry.0) == package && last_part(entry.1) == test
}

fn last_part(test: &str) -> &str {
    test.rsplit("::").next().unwrap_or(test)
}

/// A package's name without the project's prefix, as its directory is named.
fn short(package: &str) -> &str {
    match package {
        "porpoise" => "server",
        "porpoise-kv-mem" => "kv_mem",
        "porpoise-kv-tikv" => "kv_tikv",
        other => other.strip_prefix("porpoise-").unwrap_or(other),
    }
}

fn package_at(directory: &str) -> &str {
    directory.strip_prefix("crates/").unwrap_or(directory)
}

struct Ignored<'a> {
    name: &'a str,
    line: usize,
    has_reason: bool,
}

fn ignored_tests(file: &SourceFile) -> Vec<Ignored<'_>> {
    let Some(scan) = &file.scan else {
        return Vec::new();
    };
    let mut tests = Vec::new();
    for (at, _) in scan.code.match_indices("#[ignore") {
        let rest = scan.code.get(at..).unwrap_or_default();
        let attribute_end = rest.find(']').unwrap_or(rest.len());
        let attribute = file.text.get(at..at + attribute_end).unwrap_or_default();
        let reason = attribute.split_once('=').map_or("", |(_, reason)| reason);
        let has_reason = reason.trim().trim_matches('"').trim().len() > 3;
        let Some(keyword) = rest.find("fn ") else {
            continue;
        };
        if let Some(name) = name_after(&scan.code, at + keyword + "fn ".len()) {
            tests.push(Ignored {
                name,
                line: line_of(&scan.code, at),
                has_reason,
            });
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/kv_mem/tests/long.rs";

    fn violation_count(text: &str, list: &str) -> usize {
        check(&Tree::of(&[(PATH, text), (LIST, list)])).len()
    }

    #[test]
    fn an_ignored_test_needs_a_reason_and_a_place_in_the_list() {
        let good = "#[test]\n#[ignore = \"runs ten minutes\"]\nfn long() {}\n";
        assert_eq!(
            violation_count(good, "# comment\nporpoise-kv-mem deep::long\n"),
            0
        );
        assert_eq!(violation_count(good, ""), 1);
        assert_eq!(violation_count(good, "porpoise-rows long\n"), 2);
        let bare = "#[test]\n#[ignore]\nfn long() {}\n";
        assert_eq!(violation_count(bare, "porpoise-kv-mem long\n"), 1);
        let empty = "#[test]\n#[ignore = \"\"]\nfn long() {}\n";
        assert_eq!(violation_count(empty, "porpoise-kv-mem long\n"), 1);
    }

    #[test]
    fn a_name_without_a_test_is_caught() {
        assert_eq!(
            violation_count("fn other() {}\n", "porpoise-kv-mem gone\n"),
            1
        );
    }

    #[test]
    fn the_word_in_a_string_is_no_attribute() {
        assert_eq!(
            violation_count("const A: &str = \"#[ignore]\nfn x\";\n", ""),
            0
        );
    }
}
