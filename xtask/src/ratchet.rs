//! Lengths and module cycles on record: `xtask/ratchet.toml`.
//!
//! The file names what was longer than the soft limits when it was recorded, with its length then,
//! and for each crate the number of its modules that import each other in cycles.
//! Rewriting lowers an entry to the present length, drops it once it is within the limit, and adds
//! nothing; only `--init` records anew.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tree::{Tree, root};

const PATH: &str = "xtask/ratchet.toml";
const HEAD: &str =
    "# Files and functions longer than the soft limits, with the most lines that each may have, and
# crates whose modules import each other in cycles, with the most modules that may do so.
# Entries only shrink: `cargo xtask ratchet` rewrites this file.

";

/// Lines allowed beyond the soft limits.
#[derive(Default, Serialize, Deserialize, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Ratchet {
    /// By path.
    pub files: BTreeMap<String, usize>,
    /// By `path::name`.
    pub functions: BTreeMap<String, usize>,
    /// By crate.
    pub cycles: BTreeMap<String, usize>,
}

impl Ratchet {
    /// Reads the record in a tree; without a file nothing is on record.
    pub fn of(tree: &Tree) -> Result<Self, String> {
        let Some(file) = tree.file(PATH) else {
            return Ok(Self::default());
        };
        toml::from_str(&file.text).map_err(|error| format!("xtask: {PATH}: {error}"))
    }

    /// The record that remains when nothing may grow.
    fn lowered(&self, measured: &Self) -> Self {
        Self {
            files: lower(&self.files, &measured.files),
            functions: lower(&self.functions, &measured.functions),
            cycles: lower(&self.cycles, &measured.cycles),
        }
    }
}

fn lower(old: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    old.iter()
        .filter_map(|(key, lines)| Some((key.clone(), *now.get(key)?.min(lines))))
        .collect()
}

/// Rewrites the record, lowered to what was measured in the tree; with `anew`, from what was
/// measured alone.
pub fn rewrite(tree: &Tree, measured: Ratchet, anew: bool) -> Result<(), String> {
    let record = if anew {
        measured
    } else {
        Ratchet::of(tree)?.lowered(&measured)
    };
    let body = toml::to_string(&record).map_err(|error| format!("xtask: {PATH}: {error}"))?;
    let text = format!("{HEAD}{body}");
    std::fs::write(root()?.join(PATH), text).map_err(|error| format!("xtask: {PATH}: {error}"))?;
    println!(
        "{PATH}: {} files, {} functions, {} crates with cycles on record",
        record.files.len(),
        record.functions.len(),
        record.cycles.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(files: &[(&str, usize)]) -> Ratchet {
        Ratchet {
            files: files
                .iter()
                .map(|(path, lines)| ((*path).to_owned(), *lines))
                .collect(),
            ..Ratchet::default()
        }
    }

    #[test]
    fn entries_shrink_or_go_but_never_grow_nor_appear() {
        let old = record(&[("grown", 600), ("shrunk", 600), ("short", 600)]);
        let now = record(&[("grown", 700), ("shrunk", 550), ("new", 800)]);
        let lowered = old.lowered(&now);
        assert_eq!(lowered, record(&[("grown", 600), ("shrunk", 550)]));
    }

    #[test]
    fn the_record_reads_back_what_it_wrote() {
        let old = record(&[("a.rs", 600)]);
        let text = format!("{HEAD}{}", toml::to_string(&old).unwrap());
        assert_eq!(Ratchet::of(&Tree::of(&[(PATH, &text)])).unwrap(), old);
        assert!(Ratchet::of(&Tree::of(&[(PATH, "files = 3")])).is_err());
    }
}
