//! Checks that every document, section and transaction rule that Rust code cites exists.
//!
//! Three forms of citation are recognised in comments, also across line breaks: a path
//! `docs/NAME.md`; a path followed by a section, `docs/NAME.md, "Section"`; and
//! `transactions.md, rule 4` or `rules 4, 5 and 6`, which refer to headings of
//! `docs/internals/transactions.md`.

use super::Violation;
use crate::tree::{SourceFile, Tree};

const RULE: &str = "citation";
/// The page with the numbered rules.
const RULES_PAGE: &str = "docs/internals/transactions.md";

/// Reports citations whose target does not exist.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let rules_page = tree.file(RULES_PAGE).map_or("", |file| &file.text);
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| is_checked(file)) {
        let prose = comments(&file.text);
        for message in documents(tree, &prose)
            .into_iter()
            .chain(rules(rules_page, &prose))
        {
            found.push(Violation::of(RULE, &file.path, message));
        }
    }
    found
}

/// Whether a file is checked: Rust code outside of xtask, whose tests cite documents that must
/// not exist.
fn is_checked(file: &SourceFile) -> bool {
    file.scan.is_some() && !file.path.starts_with("xtask/")
}

/// The comments of a Rust file as running text.
fn comments(text: &str) -> String {
    let lines = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("//")?;
        Some(rest.trim_start_matches(['/', '!']).trim())
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// Messages about cited documents and sections that do not exist.
fn documents(tree: &Tree, prose: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in prose.match_indices("docs/") {
        let Some(rest) = prose.get(at..) else {
            continue;
        };
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "/-_.".contains(c)))
            .unwrap_or(rest.len());
        let path = rest.get(..end).unwrap_or(rest).trim_end_matches('.');
        if !path.ends_with(".md") {
            continue;
        }
        let Some(page) = tree.file(path) else {
            found.push(format!("cites {path}, which does not exist"));
            continue;
        };
        let section = rest
            .get(path.len()..)
            .and_then(|after| after.strip_prefix(", \""))
            .and_then(|after| after.split('"').next());
        if let Some(section) = section
            && !has_heading(&page.text, section)
        {
            found.push(format!("cites {path}, \"{section}\": no such heading"));
        }
    }
    found
}

fn has_heading(page: &str, section: &str) -> bool {
    page.lines()
        .any(|line| line.starts_with('#') && line.contains(section))
}

/// Messages about cited rules that do not exist.
fn rules(page: &str, prose: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, name) in prose.match_indices("transactions.md, rule") {
        let rest = prose.get(at + name.len()..).unwrap_or("");
        for number in numbers(rest) {
            if !page.contains(&format!("\n### Rule {number}: ")) {
                found.push(format!("cites rule {number}, which {RULES_PAGE} lacks"));
            }
        }
    }
    found
}

/// The numbers after `rule`: `s 4, 5 and 6 ...` gives 4, 5 and 6.
fn numbers(text: &str) -> Vec<u32> {
    let mut list = Vec::new();
    for word in text.trim_start_matches('s').split_whitespace() {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        match digits.parse() {
            Ok(number) => list.push(number),
            Err(_) if matches!(word, "and" | "to") && !list.is_empty() => continue,
            Err(_) => break,
        }
        if word.ends_with([')', '.', ';', ':']) {
            break;
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(code: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/kv/src/a.rs", code),
            (
                RULES_PAGE,
                "# Rules\n\n### Rule 4: Four\n\n### Rule 19: Nineteen\n",
            ),
            ("docs/formats.md", "# Formats\n\n## Catalog\n"),
        ]);
        check(&tree).into_iter().map(|v| v.message).collect()
    }

    #[test]
    fn existing_documents_sections_and_rules_pass() {
        let code = "//! See docs/formats.md. Bytes are in (docs/formats.md,\n//! \"Catalog\").\n\
                    /// Waits (transactions.md, rules 4 and\n/// 19).\nfn a() {}\n";
        assert_eq!(violations(code), Vec::<String>::new());
    }

    #[test]
    fn missing_documents_sections_and_rules_are_caught() {
        assert_eq!(violations("// docs/gone.md says so.\n").len(), 1);
        assert_eq!(violations("// (docs/formats.md, \"Rows\")\n").len(), 1);
        assert_eq!(violations("// (transactions.md, rule 5)\n").len(), 1);
        assert_eq!(
            violations("// transactions.md, rules 4, 6 and 20.\n").len(),
            2
        );
    }
}
