//! Test binaries, their order, and those that run alone: from cargo's messages and
//! `xtask/tests.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Path of the list from the repository's root.
pub const LIST: &str = "xtask/tests.toml";

/// A test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestBinary {
    /// Package and target, like `porpoise-sql slt`.
    pub name: String,
    /// Arguments of `cargo test` that select it.
    pub selection: String,
    /// Path of the binary.
    pub executable: PathBuf,
    /// Directory of its package, in which it runs.
    pub directory: PathBuf,
}

/// The order of test binaries: `xtask/tests.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Names of the slowest binaries, longest first.
    #[serde(default)]
    slowest: Vec<String>,
    /// Binaries that run alone, with the reason of each.
    #[serde(default)]
    alone: BTreeMap<String, String>,
}

/// The binaries of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// Binaries of which several run at a time, in the order in which they begin.
    pub together: Vec<TestBinary>,
    /// Binaries that run one after the other, after the others.
    pub alone: Vec<TestBinary>,
}

impl Order {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| format!("{LIST}: {error}"))
    }

    /// Puts binaries in order.
    pub fn plan(&self, binaries: Vec<TestBinary>) -> Plan {
        let (alone, mut together): (Vec<_>, Vec<_>) = binaries
            .into_iter()
            .partition(|binary| self.alone.contains_key(&binary.name));
        let place = |name: &str| self.slowest.iter().position(|slow| slow == name);
        // The sort is stable: binaries that are not listed keep cargo's order, after the listed ones.
        together.sort_by_key(|binary| place(&binary.name).unwrap_or(usize::MAX));
        Plan { together, alone }
    }

    /// Entries of the list that name no test binary, for example because a test was moved.
    pub fn unknown(&self, binaries: &[TestBinary]) -> Vec<&str> {
        self.slowest
            .iter()
            .chain(self.alone.keys())
            .filter(|name| !binaries.iter().any(|binary| binary.name == **name))
            .map(String::as_str)
            .collect()
    }
}

/// A message of cargo; only the fields of messages about artefacts.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Reads the test binaries from what `cargo test --no-run --message-format=json` printed, one JSON
/// object a line.
pub fn test_binaries(messages: &str) -> Result<Vec<TestBinary>, String> {
    let mut binaries = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line)
            .map_err(|error| format!("xtask: a message of cargo: {error}"))?;
        if message.reason != "compiler-artifact" {
            continue;
        }
        let (Some(target), Some(profile), Some(executable)) =
            (message.target, message.profile, message.executable)
        else {
            continue;
        };
        if !profile.test {
            continue;
        }
        let directory = message.manifest_path.parent().unwrap_or(Path::new("."));
        let package = package_name(&message.package_id);
        let kind = target.kind.first().map_or("lib", String::as_str);
        let (shown, selection) = match kind {
            "test" => (target.name.clone(), format!("--test {}", target.name)),
            "bin" => (
                format!("bin {}", target.name),
                format!("--bin {}", target.name),
            ),
            _ => ("lib".to_owned(), "--lib".to_owned()),
        };
        binaries.push(TestBinary {
            name: format!("{package} {shown}"),
            selection: format!("-p {package} {selection}"),
            executable,
            directory: directory.to_path_buf(),
        });
    }
    Ok(binaries)
}

/// The package's name in an id like `path+file:///src/crates/server#porpoise@0.1.0`; where directory
/// and name are equal, cargo writes `path+file:///src/xtask#0.1.0`.
fn package_name(id: &str) -> &str {
    let (path, rest) = id.rsplit_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"   Compiling nothing
{"reason":"compiler-artifact","package_id":"path+file:///src/crates/server#porpoise@0.1.0","manifest_path":"/src/crates/server/Cargo.toml","target":{"kind":["test"],"name":"limits","doc":false},"profile":{"test":true},"executable":"/target/limits-1"}
{"reason":"compiler-artifact","package_id":"path+file:///src/crates/server#porpoise@0.1.0","manifest_path":"/src/crates/server/Cargo.toml","target":{"kind":["bin"],"name":"porpoise"},"profile":{"test":false},"executable":"/target/porpoise"}
{"reason":"compiler-artifact","package_id":"path+file:///src/crates/server#porpoise@0.1.0","manifest_path":"/src/crates/server/Cargo.toml","target":{"kind":["lib"],"name":"porpoise_server"},"profile":{"test":true},"executable":"/target/porpoise_server-2"}
{"reason":"compiler-artifact","package_id":"registry+https://github.com/rust-lang/crates.io-index#libc@0.2.1","manifest_path":"/libc/Cargo.toml","target":{"kind":["lib"],"name":"libc"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///src/xtask#0.1.0","manifest_path":"/src/xtask/Cargo.toml","target":{"kind":["bin"],"name":"xtask"},"profile":{"test":true},"executable":"/target/xtask-3"}
{"reason":"build-finished","success":true}
"#;

    fn names(binaries: &[TestBinary]) -> Vec<&str> {
        binaries.iter().map(|binary| binary.name.as_str()).collect()
    }

    #[test]
    fn test_binaries_are_read_from_messages_of_cargo() {
        let binaries = test_binaries(MESSAGES).unwrap();
        assert_eq!(
            names(&binaries),
            ["porpoise limits", "porpoise lib", "xtask bin xtask"]
        );
        assert_eq!(binaries[0].selection, "-p porpoise --test limits");
        assert_eq!(binaries[0].executable, Path::new("/target/limits-1"));
        assert_eq!(binaries[0].directory, Path::new("/src/crates/server"));
        assert_eq!(binaries[2].selection, "-p xtask --bin xtask");
    }

    #[test]
    fn the_slowest_begin_first_and_some_run_alone() {
        let order = Order::parse(
            "slowest = [\"xtask bin xtask\"]\n[alone]\n\"porpoise limits\" = \"why\"\n",
        )
        .unwrap();
        let plan = order.plan(test_binaries(MESSAGES).unwrap());
        assert_eq!(names(&plan.together), ["xtask bin xtask", "porpoise lib"]);
        assert_eq!(names(&plan.alone), ["porpoise limits"]);
    }

    #[test]
    fn entries_without_a_binary_are_reported() {
        let order = Order::parse("slowest = [\"porpoise lib\", \"gone lib\"]").unwrap();
        let binaries = test_binaries(MESSAGES).unwrap();
        assert_eq!(order.unknown(&binaries), ["gone lib"]);
    }
}
