//! Checks that banned words occur neither in the repository nor in its commit messages.
//!
//! The list is `xtask/words.toml`. Each entry states where the word is searched for, exceptions, and
//! the text to write instead. The list itself is not searched.

use serde::Deserialize;

use super::Violation;
use crate::scan::{find_word, line_of};
use crate::tree::{SourceFile, Tree};

const RULE: &str = "banned-word";
const LIST: &str = "xtask/words.toml";

/// Files that are not searched: those not written for this project, and the list.
const NOT_SEARCHED: &[&str] = &["Cargo.lock", "LICENSE", LIST];

#[derive(Deserialize)]
struct List {
    word: Vec<Word>,
}

/// Kind of text in which a word is searched for.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Place {
    /// Code of Rust files, without comments and the contents of literals, and outside tests.
    Code,
    /// Comments of Rust files, and documents.
    Prose,
    /// All text of all files, and commit messages.
    Text,
}

/// Kind of a banned word, by which it is recognised.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A whole word, in this case only.
    Word,
    /// A whole word in any case.
    Term,
    /// A phrase in any case.
    Phrase,
    /// The beginning of an absolute path.
    Path,
}

#[derive(Deserialize)]
struct Word {
    text: String,
    #[serde(rename = "in")]
    place: Place,
    kind: Kind,
    /// Whether test code is searched, too; for `in = "code"`.
    #[serde(default)]
    tests_too: bool,
    /// Prefixes of paths of files that may contain the word.
    #[serde(default)]
    allow: Vec<String>,
    /// Advice on the text to write instead.
    instead: String,
}

/// Checks files and commit messages.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, String> {
    let Some(list) = tree.file(LIST) else {
        return Err(format!("xtask: {LIST} is missing"));
    };
    let list: List =
        toml::from_str(&list.text).map_err(|error| format!("xtask: {LIST}: {error}"))?;
    let mut found = Vec::new();
    for word in &list.word {
        for file in &tree.files {
            let is_excepted = NOT_SEARCHED.contains(&file.path.as_str())
                || file.path.ends_with("go.sum")
                || word.allow.iter().any(|start| file.path.starts_with(start));
            if !is_excepted {
                search_file(word, file, &mut found);
            }
        }
        if word.place == Place::Text {
            for commit in &tree.commits {
                if let Some(at) = occurrences(word, &commit.message).first() {
                    let place = format!("commit {}", commit.id);
                    let line = line_of(&commit.message, *at);
                    found.push(Violation::at(RULE, &place, line, word.complaint()));
                }
            }
        }
    }
    Ok(found)
}

impl Word {
    fn complaint(&self) -> String {
        format!("`{}` may not stand here: {}", self.text, self.instead)
    }
}

fn search_file(word: &Word, file: &SourceFile, found: &mut Vec<Violation>) {
    let searched = match (word.place, &file.scan) {
        (Place::Text, _) => &file.text,
        (Place::Code, Some(scan)) => &scan.code,
        (Place::Prose, Some(scan)) => &scan.comments,
        (Place::Prose, None) if file.path.ends_with(".md") => &file.text,
        (Place::Code | Place::Prose, None) => return,
    };
    for at in occurrences(word, searched) {
        let line = line_of(searched, at);
        let in_test = file.is_test() || file.scan.as_ref().is_some_and(|scan| scan.in_test(line));
        if word.place == Place::Code && in_test && !word.tests_too {
            continue;
        }
        found.push(Violation::at(RULE, &file.path, line, word.complaint()));
    }
}

/// Returns the offsets at which the word occurs in `text`.
fn occurrences(word: &Word, text: &str) -> Vec<usize> {
    match word.kind {
        Kind::Word => find_word(text, &word.text),
        Kind::Term => find_word(&text.to_ascii_lowercase(), &word.text.to_ascii_lowercase()),
        Kind::Phrase => {
            let text = text.to_ascii_lowercase();
            let phrase = word.text.to_ascii_lowercase();
            text.match_indices(&phrase).map(|(at, _)| at).collect()
        }
        Kind::Path => text
            .match_indices(&word.text)
            .map(|(at, _)| at)
            .filter(|at| {
                let before = at
                    .checked_sub(1)
                    .and_then(|index| text.as_bytes().get(index));
                !before
                    .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"._-~/$}*".contains(byte))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Commit;

    fn real_list() -> String {
        let tree = Tree::read().unwrap();
        tree.file(LIST).unwrap().text.clone()
    }

    fn violations(list: &str, path: &str, text: &str) -> usize {
        check(&Tree::of(&[(LIST, list), (path, text)]))
            .unwrap()
            .len()
    }

    #[test]
    fn every_word_of_the_list_is_caught() {
        let text = real_list();
        let list: List = toml::from_str(&text).unwrap();
        assert!(list.word.len() > 5);
        for word in &list.word {
            let planted = match word.place {
                Place::Prose => format!("//! Header.\n// For {} else.\n", word.text),
                _ => format!("//! Header.\nfn a() {{\n    {}();\n}}\n", word.text),
            };
            let path = "crates/kv/src/a.rs";
            assert!(
                violations(&text, path, &planted) > 0,
                "{} in a source",
                word.text
            );
            let planted = format!("Some words, {}\n", word.text);
            if word.place != Place::Code {
                assert!(
                    violations(&text, "docs/a.md", &planted) > 0,
                    "{} in docs",
                    word.text
                );
            }
            if word.place == Place::Text {
                let mut tree = Tree::of(&[(LIST, &text)]);
                tree.commits.push(Commit {
                    id: "abc".to_owned(),
                    message: planted,
                });
                assert!(
                    !check(&tree).unwrap().is_empty(),
                    "{} in a commit",
                    word.text
                );
            }
        }
    }

    const LIST_OF_FOUR: &str = r#"
        [[word]]
        text = "hereby"
        in = "prose"
        kind = "term"
        instead = "by this"
        [[word]]
        text = "shout!"
        in = "code"
        kind = "word"
        allow = ["crates/loud/"]
        instead = "whisper"
        [[word]]
        text = "one day"
        in = "text"
        kind = "phrase"
        instead = "now"
        [[word]]
        text = "/attic/"
        in = "text"
        kind = "path"
        instead = "a relative path"
    "#;

    #[test]
    fn code_words_are_allowed_in_comments_strings_tests_and_excepted_paths() {
        let violations = |path, text| violations(LIST_OF_FOUR, path, text);
        assert_eq!(violations("crates/kv/src/a.rs", "fn a() { shout!(1) }"), 1);
        assert_eq!(
            violations(
                "crates/kv/src/a.rs",
                "// shout!\nfn a() { b(\"shout!\"); outshout!() }"
            ),
            0
        );
        assert_eq!(
            violations(
                "crates/kv/src/a.rs",
                "#[cfg(test)]\nmod tests { fn a() { shout!(1) } }"
            ),
            0
        );
        assert_eq!(
            violations("crates/kv/tests/a.rs", "fn a() { shout!(1) }"),
            0
        );
        assert_eq!(
            violations("crates/loud/src/a.rs", "fn a() { shout!(1) }"),
            0
        );
    }

    #[test]
    fn prose_is_comments_and_documents() {
        let violations = |path, text| violations(LIST_OF_FOUR, path, text);
        assert_eq!(
            violations("crates/kv/tests/a.rs", "// Hereby.\nfn a() {}"),
            1
        );
        assert_eq!(
            violations("README.md", "It hereby begins, test `hereby_it_ends`."),
            1
        );
        assert_eq!(
            violations("crates/kv/src/a.rs", "fn hereby() { b(\"hereby\") }"),
            0
        );
        assert_eq!(violations("tests/a.txt", "hereby"), 0);
    }

    #[test]
    fn phrases_match_in_any_case_and_paths_only_if_absolute() {
        let violations = |text| violations(LIST_OF_FOUR, "docs/a.md", text);
        assert_eq!(violations("One Day it may"), 1);
        assert_eq!(violations("see /attic/box"), 1);
        assert_eq!(violations("see tests/attic/box and ./attic/box"), 0);
    }

    #[test]
    fn a_missing_list_is_an_error() {
        assert!(check(&Tree::of(&[])).is_err());
    }
}
