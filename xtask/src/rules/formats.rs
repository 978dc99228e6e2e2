//! Checks that docs/formats.md lists every format version in the code with its current value.
//!
//! For a constant whose name ends in `FORMAT_VERSION`, a line of the page must contain the name of
//! its crate's directory and `NAME = VALUE`, so that the page is updated when a byte layout changes.

use super::Violation;
use crate::scan::{find_word, line_of, name_after};
use crate::tree::{SourceFile, Tree};

const RULE: &str = "format-version";
const PAGE: &str = "docs/formats.md";

/// Checks all format versions.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let page = tree.file(PAGE).map_or("", |file| file.text.as_str());
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !file.is_test()) {
        let Some(directory) = file.crate_dir() else {
            continue;
        };
        let name = directory.rsplit('/').next().unwrap_or(directory);
        for version in versions(file) {
            let wanted = format!("{} = {}", version.name, version.value);
            let is_listed = page.lines().any(|line| {
                !find_word(line, &wanted).is_empty() && !find_word(line, name).is_empty()
            });
            if !is_listed {
                let message = format!("{PAGE} has no line with `{name}` and `{wanted}`");
                found.push(Violation::at(RULE, &file.path, version.line, message));
            }
        }
    }
    found
}

/// A constant with a format version.
struct Version<'a> {
    name: &'a str,
    value: &'a str,
    line: usize,
}

fn versions(file: &SourceFile) -> Vec<Version<'_>> {
    let Some(scan) = &file.scan else {
        return Vec::new();
    };
    let mut versions = Vec::new();
    for at in find_word(&scan.code, "const") {
        let Some(name) = name_after(&scan.code, at + "const".len()) else {
            continue;
        };
        let line = line_of(&scan.code, at);
        if !name.ends_with("FORMAT_VERSION") || scan.in_test(line) {
            continue;
        }
        let statement = scan.code.get(at..).and_then(|rest| rest.split(';').next());
        let value = statement.and_then(|text| text.split_once('='));
        if let Some((_, value)) = value {
            let value = value.trim();
            versions.push(Version { name, value, line });
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(code: &str, page: &str) -> usize {
        check(&Tree::of(&[
            ("crates/kv_mem/src/log.rs", code),
            (PAGE, page),
        ]))
        .len()
    }

    #[test]
    fn a_missing_or_outdated_version_is_caught() {
        let code = "pub const LOG_FORMAT_VERSION: u32 = 2;\n";
        assert_eq!(
            violations(code, "| kv_mem | log | `LOG_FORMAT_VERSION = 2` |\n"),
            0
        );
        assert_eq!(
            violations(code, "| kv_mem | log | `LOG_FORMAT_VERSION = 1` |\n"),
            1
        );
        assert_eq!(
            violations(code, "| rows | log | `LOG_FORMAT_VERSION = 2` |\n"),
            1
        );
        assert_eq!(violations(code, "nothing\n"), 1);
        assert_eq!(violations("const OTHER: u32 = 2;\n", ""), 0);
    }

    #[test]
    fn a_missing_page_is_caught() {
        let tree = Tree::of(&[("crates/rows/src/row.rs", "const FORMAT_VERSION: u8 = 1;\n")]);
        assert_eq!(check(&tree).len(), 1);
    }
}
