//! Limits import cycles between the modules of a crate, by the ratchet.
//!
//! A module is a file or folder beside `lib.rs` or `main.rs`; everything below a folder belongs to
//! its module. A module imports another one if its code (tests excluded) contains a path that begins
//! with `crate::`, or with as many `super::` as lead to the root. A name that the root re-exports
//! counts as a name of the module that defines it. Modules that reach each other through imports
//! (a strongly connected component of more than one module) form a cycle.
//!
//! A crate may have as many modules in cycles as its entry in `xtask/ratchet.toml` states, none
//! without an entry.
//!
//! Rejected: treating each file as a module. Files of a folder share private types through
//! `super::`, so most folders would be cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::ratchet::Ratchet;
use crate::tree::{SourceFile, Tree};

const RULE: &str = "module-cycle";

/// Imports of each module of a crate.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reports crates with more modules in cycles than the ratchet allows.
pub fn check(tree: &Tree, ratchet: &Ratchet) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, components) in cycles(tree) {
        let count: usize = components.iter().map(Vec::len).sum();
        let allowed = ratchet.cycles.get(&name).copied().unwrap_or(0);
        if count > allowed {
            let listed: Vec<String> = components.iter().map(|c| c.join(", ")).collect();
            let message = format!(
                "{count} modules import each other in cycles, at most {allowed} may: {}",
                listed.join("; ")
            );
            found.push(Violation::of(RULE, &name, message));
        }
    }
    found
}

/// Number of modules in cycles, by crate.
pub fn measured_cycles(tree: &Tree) -> BTreeMap<String, usize> {
    cycles(tree)
        .into_iter()
        .map(|(name, components)| (name, components.iter().map(Vec::len).sum()))
        .collect()
}

/// Cycles of all crates that have any, by crate.
fn cycles(tree: &Tree) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in &tree.files {
        if let Some(name) = file.crate_dir()
            && !file.is_test()
            && file.path.ends_with(".rs")
            && file.path[name.len()..].starts_with("/src/")
        {
            crates.entry(name).or_default().push(file);
        }
    }
    crates
        .into_iter()
        .map(|(name, files)| (name.to_owned(), components(&imports(name, &files))))
        .filter(|(_, components)| !components.is_empty())
        .collect()
}

/// Path of a file's module below the crate's root; empty for the root itself.
fn module_path(crate_dir: &str, path: &str) -> Vec<String> {
    let below = path
        .strip_prefix(crate_dir)
        .and_then(|rest| rest.strip_prefix("/src/"))
        .and_then(|rest| rest.strip_suffix(".rs"))
        .unwrap_or_default();
    let mut parts: Vec<String> = below.split('/').map(str::to_owned).collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
}

/// Finds the imports between the modules of a crate with these files.
fn imports(crate_dir: &str, files: &[&SourceFile]) -> Imports {
    let paths: Vec<Vec<String>> = files
        .iter()
        .map(|file| module_path(crate_dir, &file.path))
        .collect();
    let modules: BTreeSet<&str> = paths
        .iter()
        .filter_map(|path| path.first().map(String::as_str))
        .collect();
    // The module of each name that the root re-exports.
    let mut defining_modules: BTreeMap<String, String> = BTreeMap::new();
    for (file, path) in files.iter().zip(&paths) {
        if path.is_empty() {
            defining_modules.extend(re_exports(&code(file), &modules));
        }
    }
    let mut imports = Imports::new();
    for (file, path) in files.iter().zip(&paths) {
        let Some(own) = path.first() else { continue };
        let targets = imports.entry(own.clone()).or_default();
        for name in names_at_root(&code(file), path.len()) {
            let module = match modules.get(name.as_str()) {
                Some(module) => *module,
                None => match defining_modules.get(&name) {
                    Some(module) => module.as_str(),
                    None => continue,
                },
            };
            if module != own {
                targets.insert(module.to_owned());
            }
        }
    }
    imports
}

/// The code of a file without its tests.
fn code(file: &SourceFile) -> String {
    let Some(scan) = &file.scan else {
        return String::new();
    };
    let lines = scan.code.lines().enumerate();
    lines
        .filter(|(index, _)| !scan.in_test(index + 1))
        .map(|(_, line)| line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the names in the root module that the code of a module `depth` levels below it uses.
fn names_at_root(code: &str, depth: usize) -> BTreeSet<String> {
    let path_to_root = "super::".repeat(depth);
    let mut names = BTreeSet::new();
    for prefix in ["crate::", path_to_root.as_str()] {
        if prefix.is_empty() {
            continue;
        }
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            let is_part_of_path = before.ends_with("super::") || before.ends_with(is_name_char);
            let rest = &code[at + prefix.len()..];
            if !is_part_of_path && !rest.starts_with("super::") {
                names.extend(first_names(rest));
            }
        }
    }
    names
}

/// The first names of a path or of each path in a brace group.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return leading_name(rest).into_iter().collect();
    };
    let mut names = Vec::new();
    let (mut depth, mut begins) = (0_usize, true);
    for (at, byte) in group.char_indices() {
        match byte {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && is_name_char(byte) => {
                names.extend(leading_name(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// The module behind each name that the root re-exports with `use`.
fn re_exports(code: &str, modules: &BTreeSet<&str>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let statement = code[at + 4..].split(';').next().unwrap_or_default();
        let path = statement.strip_prefix("crate::").unwrap_or(statement);
        let Some(module) = leading_name(path).filter(|name| modules.contains(name.as_str())) else {
            continue;
        };
        let words = statement.split(|letter: char| !is_name_char(letter));
        for word in words.filter(|word| !word.is_empty() && *word != module) {
            found.push((word.to_owned(), module.clone()));
        }
    }
    found
}

fn leading_name(text: &str) -> Option<String> {
    let end = text
        .find(|letter: char| !is_name_char(letter))
        .unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

fn is_name_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Strongly connected components of more than one module, in order.
fn components(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|module| (module.as_str(), reachable(imports, module)))
        .collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (module, targets) in &reached {
        let mutual: Vec<String> = targets
            .iter()
            .filter(|target| reached.get(*target).is_some_and(|t| t.contains(module)))
            .map(|target| (*target).to_owned())
            .collect();
        if mutual.len() > 1 && !found.contains(&mutual) {
            found.push(mutual);
        }
    }
    found
}

/// Modules that `from` reaches through imports.
fn reachable<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = imports
        .get(from)
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(
                imports
                    .get(module)
                    .into_iter()
                    .flatten()
                    .map(String::as_str),
            );
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(files: &[(&str, &str)]) -> BTreeMap<String, usize> {
        measured_cycles(&Tree::of(files))
    }

    fn three() -> BTreeMap<String, usize> {
        BTreeMap::from([("crates/x".to_owned(), 3)])
    }

    #[test]
    fn a_cycle_of_three_modules_is_found_in_every_form() {
        for back in [
            "use crate::a::Thing;",
            "use crate::{d::Other, a::{Thing, Else}};",
            "fn f() { super::a::f() }",
            "use crate::Named;",
        ] {
            let found = count(&[
                (
                    "crates/x/src/lib.rs",
                    "mod a; mod b; mod c; pub use a::{Named, f};",
                ),
                ("crates/x/src/a/mod.rs", "mod inner;"),
                ("crates/x/src/a/inner.rs", "use super::super::b::B;"),
                ("crates/x/src/b.rs", "use crate::c;"),
                ("crates/x/src/c.rs", back),
                ("crates/x/src/d.rs", "fn alone() {}"),
            ]);
            assert_eq!(found, three(), "{back}");
        }
    }

    #[test]
    fn one_direction_tests_comments_and_the_same_module_are_no_cycle() {
        let found = count(&[
            ("crates/x/src/lib.rs", "mod a; mod b;"),
            (
                "crates/x/src/a/mod.rs",
                "use crate::b::B; use super::a::inner;",
            ),
            (
                "crates/x/src/a/inner.rs",
                "use super::Thing; use crate::a::Thing;",
            ),
            (
                "crates/x/src/b.rs",
                "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a::Thing;\n}\n",
            ),
        ]);
        assert_eq!(found, BTreeMap::new());
    }

    #[test]
    fn more_modules_than_on_record_are_a_violation() {
        let tree = Tree::of(&[
            ("crates/x/src/a.rs", "use crate::b::B;"),
            ("crates/x/src/b.rs", "use crate::a::A;"),
        ]);
        let mut ratchet = Ratchet::default();
        let found = check(&tree, &ratchet);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("a, b"), "{}", found[0].message);
        ratchet.cycles.insert("crates/x".to_owned(), 2);
        assert_eq!(check(&tree, &ratchet), []);
    }
}
