//! Input of the rules: files, commit messages and the crate graph, read once.
//!
//! Files are those that git tracks plus new ones that it does not ignore; only UTF-8 text is kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::scan::Scan;

/// One text file of the repository.
pub struct SourceFile {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The text taken apart, for Rust files.
    pub scan: Option<Scan>,
}

impl SourceFile {
    /// Takes a text apart if its path says that it is Rust.
    pub fn new(path: &str, text: &str) -> Self {
        let scan = path.ends_with(".rs").then(|| Scan::new(text));
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            scan,
        }
    }

    /// Number of lines.
    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// Whether the whole file is test code: a `tests` or `benches` directory, or a `tests.rs`.
    pub fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
    }

    /// Whether a program made it: the first line says `@generated`.
    pub fn is_generated(&self) -> bool {
        self.text
            .lines()
            .next()
            .is_some_and(|line| line.contains("@generated"))
    }

    /// The directory of the crate that holds it, like `crates/kv`, if it is part of one.
    pub fn crate_dir(&self) -> Option<&str> {
        if self.path.starts_with("xtask/") {
            return Some("xtask");
        }
        let rest = self.path.strip_prefix("crates/")?;
        let name = rest.split('/').next()?;
        self.path.get(.."crates/".len() + name.len())
    }
}

/// A commit: its short id and whole message.
pub struct Commit {
    /// Abbreviated id.
    pub id: String,
    /// Subject and body.
    pub message: String,
}

/// One dependency as a manifest states it.
#[derive(Deserialize, Clone)]
pub struct Dependency {
    /// Name of the package depended on.
    pub name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    pub kind: Option<String>,
}

/// One member of the workspace.
#[derive(Deserialize, Clone)]
pub struct Package {
    /// Package name.
    pub name: String,
    /// Cargo's id of it.
    pub id: String,
    /// Dependencies of its manifest.
    pub dependencies: Vec<Dependency>,
    /// Features by name, with what they switch on.
    pub features: std::collections::BTreeMap<String, Vec<String>>,
}

/// The resolved graph: which package id reaches which through ordinary and build dependencies.
pub type Resolved = std::collections::BTreeMap<String, Vec<String>>;

/// All that the rules judge.
#[derive(Default)]
pub struct Tree {
    /// Text files, by path.
    pub files: Vec<SourceFile>,
    /// Commits reachable from HEAD.
    pub commits: Vec<Commit>,
    /// Workspace members.
    pub packages: Vec<Package>,
    /// The resolved graph, by package id; names are in `names`.
    pub resolved: Resolved,
    /// Package names by id.
    pub names: std::collections::BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository that this program was built from.
    pub fn read() -> Result<Self, String> {
        let root = root()?;
        let mut tree = Self {
            files: read_files(&root)?,
            commits: read_commits(&root)?,
            ..Self::default()
        };
        read_metadata(&root, &mut tree)?;
        Ok(tree)
    }

    /// The file at `path`, if it is there.
    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree of the given files alone, for planting violations.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, text)| SourceFile::new(path, text))
                .collect(),
            ..Self::default()
        }
    }
}

/// The repository's root: the directory above this crate's.
pub fn root() -> Result<PathBuf, String> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| "xtask: its own directory has no parent".to_owned())
}

fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .map_err(|error| format!("xtask: cannot run {name}: {error}"))?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(format!(
        "xtask: {name} failed: {}",
        String::from_utf8_lossy(&done.stderr).trim()
    ))
}

fn read_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let listed = output(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut paths: Vec<&str> = listed
        .split(|byte| *byte == 0)
        .filter_map(|path| std::str::from_utf8(path).ok())
        .filter(|path| !path.is_empty())
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        // A file deleted but not yet staged is listed too; one that is not text is not judged.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            files.push(SourceFile::new(path, &text));
        }
    }
    Ok(files)
}

fn read_commits(root: &Path) -> Result<Vec<Commit>, String> {
    let listed = output(Command::new("git").current_dir(root).args([
        "log",
        "--format=%h%x1f%B%x1e",
        "HEAD",
    ]))?;
    Ok(String::from_utf8_lossy(&listed)
        .split('\u{1e}')
        .filter_map(|entry| entry.trim().split_once('\u{1f}'))
        .map(|(id, message)| Commit {
            id: id.to_owned(),
            message: message.to_owned(),
        })
        .collect())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

fn read_metadata(root: &Path, tree: &mut Tree) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let raw = output(Command::new(cargo).current_dir(root).args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]))?;
    let metadata: Metadata = serde_json::from_slice(&raw)
        .map_err(|error| format!("xtask: cannot read cargo metadata: {error}"))?;
    for package in metadata.packages {
        tree.names.insert(package.id.clone(), package.name.clone());
        if metadata.workspace_members.contains(&package.id) {
            tree.packages.push(package);
        }
    }
    for node in metadata.resolve.nodes {
        let targets = node
            .deps
            .iter()
            .filter(|dependency| {
                dependency
                    .dep_kinds
                    .iter()
                    .any(|kind| kind.kind.as_deref() != Some("dev"))
            })
            .map(|dependency| dependency.pkg.clone())
            .collect();
        tree.resolved.insert(node.id, targets);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_crate_and_whether_it_is_a_test() {
        let file = SourceFile::new("crates/kv/src/model.rs", "");
        assert_eq!(file.crate_dir(), Some("crates/kv"));
        assert!(!file.is_test());
        assert!(SourceFile::new("crates/kv/tests/basic.rs", "").is_test());
        assert!(SourceFile::new("crates/kv/src/model/tests.rs", "").is_test());
        assert_eq!(SourceFile::new("README.md", "").crate_dir(), None);
    }

    #[test]
    fn the_repository_itself_can_be_read() {
        let tree = Tree::read().unwrap();
        assert!(tree.file("xtask/src/tree.rs").is_some());
        assert!(tree.packages.iter().any(|package| package.name == "xtask"));
        assert!(!tree.commits.is_empty());
    }
}
