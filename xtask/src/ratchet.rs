//! Recorded exceptions from the limits for lengths of functions and for module cycles:
//! `xtask/ratchet.toml`.
//!
//! The file names each function that was longer than the limit when it was recorded, with its
//! length then, and for each crate the number of its modules that import each other in cycles.
//! `cargo xtask ratchet` replaces an entry by the current number if that is smaller, removes the
//! entry if the number is within the limit, and adds none; only `--init` does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tree::{Tree, root};

const PATH: &str = "xtask/ratchet.toml";
const HEAD: &str = "# Functions longer than the limit, with the most lines that each may have, and
# crates whose modules import each other in cycles, with the most modules that may do so.
# Entries only shrink: `cargo xtask ratchet` rewrites this file.

";

/// Exceptions from the limits.
#[derive(Default, Serialize, Deserialize, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct Ratchet {
    /// Lines of a function, by `path::name`.
    pub functions: BTreeMap<String, usize>,
    /// Modules in cycles, by crate.
    pub cycles: BTreeMap<String, usize>,
}

impl Ratchet {
    /// Reads the record in a tree; empty if there is no file.
    pub fn of(tree: &Tree) -> Result<Self, String> {
        let Some(file) = tree.file(PATH) else {
            return Ok(Self::default());
        };
        toml::from_str(&file.text).map_err(|error| format!("xtask: {PATH}: {error}"))
    }

    /// Returns this record with each number lowered to the measured one, without the entries that
    /// are not in `measured`.
    pub fn lowered(&self, measured: &Self) -> Self {
        Self {
            functions: lower(&self.functions, &measured.functions),
            cycles: lower(&self.cycles, &measured.cycles),
        }
    }

    /// Replaces the file.
    pub fn write(&self) -> Result<(), String> {
        let text = self.text()?;
        std::fs::write(root()?.join(PATH), text)
            .map_err(|error| format!("xtask: {PATH}: {error}"))?;
        println!(
            "{PATH}: {} functions, {} crates with cycles on record",
            self.functions.len(),
            self.cycles.len()
        );
        Ok(())
    }

    fn text(&self) -> Result<String, String> {
        let body = toml::to_string(self).map_err(|error| format!("xtask: {PATH}: {error}"))?;
        Ok(format!("{HEAD}{body}"))
    }
}

fn lower(old: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    old.iter()
        .filter_map(|(key, lines)| Some((key.clone(), *now.get(key)?.min(lines))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(functions: &[(&str, usize)]) -> Ratchet {
        Ratchet {
            functions: functions
                .iter()
                .map(|(key, lines)| ((*key).to_owned(), *lines))
                .collect(),
            ..Ratchet::default()
        }
    }

    #[test]
    fn lowering_shrinks_and_removes_entries_but_neither_grows_nor_adds_any() {
        let old = record(&[("grown", 90), ("shrunk", 90), ("short", 90)]);
        let now = record(&[("grown", 99), ("shrunk", 80), ("new", 95)]);
        let lowered = old.lowered(&now);
        assert_eq!(lowered, record(&[("grown", 90), ("shrunk", 80)]));
    }

    #[test]
    fn a_written_record_is_read_back() {
        let old = record(&[("a.rs::f", 90)]);
        let text = old.text().unwrap();
        assert_eq!(Ratchet::of(&Tree::of(&[(PATH, &text)])).unwrap(), old);
        assert!(Ratchet::of(&Tree::of(&[(PATH, "cycles = 3")])).is_err());
    }
}
