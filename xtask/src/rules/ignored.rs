//! Checks that each ignored test, which `make test` does not run, is run by `make soak` and states
//! why it is ignored.
//!
//! `tests/soak.list` has a line `PACKAGE TEST` for each, with the test's full path as the test
//! runner prints it. Violations are: an ignored test that is not in the list, an entry without such
//! a test, and an `#[ignore]` without a reason.

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

/// Checks the ignored tests and the list.
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
            if !listed
                .iter()
                .any(|entry| is_entry_of(*entry, package, test.name))
            {
                let message = format!("`{}` is ignored, but {LIST} does not name it", test.name);
                found.push(Violation::at(RULE, &file.path, test.line, message));
            }
        }
    }
    for (package, test) in listed {
        let exists = ignored
            .get(directory_name(package))
            .is_some_and(|tests| tests.contains(&last_part(test)));
        if !exists {
            let message = format!("names `{package} {test}`, but there is no such ignored test");
            found.push(Violation::of(RULE, LIST, message));
        }
    }
    found
}

/// Whether an entry (package and test) is that of a test in the package with this directory.
fn is_entry_of(entry: (&str, &str), directory: &str, test: &str) -> bool {
    directory_name(entry.0) == directory && last_part(entry.1) == test
}

fn last_part(test: &str) -> &str {
    test.rsplit("::").next().unwrap_or(test)
}

/// Returns the name of a package's directory.
fn directory_name(package: &str) -> &str {
    match package {
        "porpoise" => "server",
        "porpoise-kv-mem" => "kv_mem",
        "porpoise-kv-tikv" => "kv_tikv",
        "porpoise-native-c" => "native_c",
        "porpoise-native-client" => "native_client",
        "porpoise-native-derive" => "native_derive",
        "porpoise-tikv-client" => "tikv_client",
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
    fn an_ignored_test_needs_a_reason_and_an_entry_in_the_list() {
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
    fn an_entry_without_a_test_is_caught() {
        assert_eq!(
            violation_count("fn other() {}\n", "porpoise-kv-mem gone\n"),
            1
        );
    }

    #[test]
    fn an_ignore_attribute_in_a_string_is_no_attribute() {
        assert_eq!(
            violation_count("const A: &str = \"#[ignore]\nfn x\";\n", ""),
            0
        );
    }
}
