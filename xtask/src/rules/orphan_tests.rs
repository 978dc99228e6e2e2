//! Checks that every test file is part of a test program.
//!
//! Crates whose manifest says `autotests = false` link the files of `tests/` into few programs: a
//! file must be a module of `tests/main.rs` or the path of a `[[test]]`. Without this rule, the
//! tests of a forgotten file would never run.

use super::Violation;
use crate::tree::Tree;

const RULE: &str = "orphan-test";

/// Reports test files that no test program contains.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for manifest in &tree.files {
        let Some(directory) = manifest.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        if !manifest.text.contains("autotests = false") {
            continue;
        }
        let tests = format!("{directory}/tests/");
        let program = tree.file(&format!("{tests}main.rs"));
        let modules = program.map_or("", |file| file.text.as_str());
        for file in &tree.files {
            let name = file.path.strip_prefix(&tests);
            let Some(name) = name.and_then(|name| name.strip_suffix(".rs")) else {
                continue;
            };
            let is_part = name == "main"
                || name.contains('/')
                || modules.lines().any(|line| line == format!("mod {name};"))
                || manifest.text.contains(&format!("\"tests/{name}.rs\""));
            if !is_part {
                let message = format!("its tests do not run: add `mod {name};` to {tests}main.rs");
                found.push(Violation::of(RULE, &file.path, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::SourceFile;

    fn count(files: &[(&str, &str)]) -> usize {
        let files = files.iter().map(|(path, text)| SourceFile::new(path, text));
        check(&Tree {
            files: files.collect(),
            ..Tree::default()
        })
        .len()
    }

    #[test]
    fn files_outside_of_test_programs_are_reported() {
        let manifest = "autotests = false\n[[test]]\npath = \"tests/alone.rs\"\n";
        let files = [
            ("crates/kv/Cargo.toml", manifest),
            ("crates/kv/tests/main.rs", "mod common;\nmod locks;\n"),
            ("crates/kv/tests/locks.rs", ""),
            ("crates/kv/tests/alone.rs", ""),
            ("crates/kv/tests/common/mod.rs", ""),
        ];
        assert_eq!(count(&files), 0);
        let mut forgotten = files.to_vec();
        forgotten.push(("crates/kv/tests/reads.rs", ""));
        assert_eq!(count(&forgotten), 1);
        forgotten[0].1 = "";
        assert_eq!(count(&forgotten), 0);
    }
}
