//! Rule: every module begins with a comment that states its purpose.
//!
//! A Rust file of a crate begins with a `//!` line that has text; attributes may not come first. A
//! test file begins with a comment that states the behaviour tested, and a script with one that
//! states what it does. In a directory of Go files (a package) one file with a comment suffices.

use std::collections::BTreeSet;

use super::Violation;
use crate::tree::{SourceFile, Tree};

const RULE: &str = "module-header";

/// Checks the first line of all source files.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let documented = documented_packages(tree);
    tree.files
        .iter()
        .filter(|file| !(is_go(file) && documented.contains(directory(file))))
        .filter_map(check_file)
        .collect()
}

fn is_go(file: &SourceFile) -> bool {
    file.path.ends_with(".go")
}

fn directory(file: &SourceFile) -> &str {
    file.path
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory)
}

/// Directories of Go packages in which a file has a header.
fn documented_packages(tree: &Tree) -> BTreeSet<&str> {
    tree.files
        .iter()
        .filter(|file| is_go(file) && check_file(file).is_none())
        .map(directory)
        .collect()
}

fn check_file(file: &SourceFile) -> Option<Violation> {
    let suffix = file.path.rsplit('.').next()?;
    let first = file
        .text
        .lines()
        .find(|line| !line.starts_with("#!/") && !line.trim().is_empty())
        .unwrap_or_default();
    let (marks, wanted): (&[&str], _) = match suffix {
        "rs" if file.is_test() => (
            &["//!", "//"],
            "a comment that says which behaviour is shown",
        ),
        "rs" => (&["//!"], "a `//!` line that says what the module is for"),
        "go" => (&["//"], "a comment that says what the file is for"),
        "py" => (
            &["\"\"\"", "#"],
            "a docstring that says what the file is for",
        ),
        "sh" => (&["#"], "a comment that says what the script does"),
        _ => return None,
    };
    let text = marks.iter().find_map(|mark| first.strip_prefix(mark));
    if text.is_some_and(|text| text.trim().chars().count() > 3) || file.is_generated() {
        return None;
    }
    Some(Violation::at(
        RULE,
        &file.path,
        1,
        format!("begins without {wanted}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_module_without_a_header_is_caught() {
        assert_eq!(
            check_file("crates/kv/src/a.rs", "//! What a is for.\nfn a() {}\n"),
            0
        );
        assert_eq!(check_file("crates/kv/src/a.rs", "fn a() {}\n"), 1);
        assert_eq!(
            check_file("crates/kv/src/a.rs", "// Plain.\nfn a() {}\n"),
            1
        );
        assert_eq!(check_file("crates/kv/src/a.rs", "//!\nfn a() {}\n"), 1);
        assert_eq!(check_file("crates/kv/src/a.rs", ""), 1);
    }

    #[test]
    fn a_test_file_without_a_header_is_caught() {
        assert_eq!(
            check_file("crates/kv/tests/a.rs", "// Lost updates fail.\n"),
            0
        );
        assert_eq!(check_file("crates/kv/tests/a.rs", "use kv;\n"), 1);
    }

    #[test]
    fn the_header_of_a_script_follows_its_interpreter_line() {
        assert_eq!(
            check_file("scripts/a.sh", "#!/usr/bin/env bash\n# Does a.\n"),
            0
        );
        assert_eq!(
            check_file("scripts/a.sh", "#!/usr/bin/env bash\nset -e\n"),
            1
        );
        assert_eq!(check_file("tests/clients/a.py", "import os\n"), 1);
        assert_eq!(check_file("tests/clients/a.go", "package main\n"), 1);
        assert_eq!(check_file("docs/a.md", "Anything.\n"), 0);
    }

    #[test]
    fn one_go_file_with_a_header_suffices_for_its_directory() {
        let documented = ("tests/x/main.go", "// A stand-in for y.\npackage main\n");
        let other = ("tests/x/more.go", "package main\n");
        let elsewhere = ("tests/z/more.go", "package main\n");
        assert!(check(&Tree::of(&[documented, other])).is_empty());
        assert_eq!(check(&Tree::of(&[documented, other, elsewhere])).len(), 1);
    }
}
