//! File names of an in-memory disk, and their state after a power cut.
//!
//! Until the directory is synced, each operation on a name may or may not be on disk, independently
//! of earlier and later ones: POSIX guarantees no order, although journaling file systems keep one.
//! Each operation is atomic, and refers to a file, not only to a name: a rename may survive
//! although the file's creation is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Inode numbers by name.
pub(super) type Names = BTreeMap<PathBuf, usize>;

/// An operation on a name.
#[derive(Clone, Debug)]
pub(super) enum NameOp {
    Link(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Unlink(PathBuf, usize),
}

impl NameOp {
    /// The name that the operation changes; for a rename, the new one.
    pub(super) fn path(&self) -> &Path {
        match self {
            NameOp::Link(path, _) | NameOp::Rename(_, path, _) | NameOp::Unlink(path, _) => path,
        }
    }

    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameOp::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameOp::Rename(from, to, inode) => {
                forget(names, from, *inode);
                names.insert(to.clone(), *inode);
            }
            NameOp::Unlink(path, inode) => forget(names, path, *inode),
        }
    }
}

/// Removes a file's name, unless another file has it now.
fn forget(names: &mut Names, path: &Path, inode: usize) {
    if names.get(path) == Some(&inode) {
        names.remove(path);
    }
}

/// Returns the names after a power cut: the durable ones, changed by a prefix or by a random
/// subset of the later operations.
pub(super) fn after_power_cut(durable: &Names, since: &[NameOp], rng: &mut fastrand::Rng) -> Names {
    let mut names = durable.clone();
    let prefix = rng.usize(0..=since.len());
    let is_subset = rng.bool();
    for (n, op) in since.iter().enumerate() {
        let survives = if is_subset { rng.bool() } else { n < prefix };
        if survives {
            op.apply(&mut names);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn unsynced_operations_survive_in_any_combination() {
        let [spare, segment, old] = ["/d/spare", "/d/segment", "/d/old"].map(PathBuf::from);
        let durable = Names::from([(old.clone(), 1)]);
        let since = [
            NameOp::Link(spare.clone(), 2),
            NameOp::Rename(spare.clone(), segment.clone(), 2),
            NameOp::Unlink(old.clone(), 1),
        ];
        let mut met = BTreeSet::new();
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let names = after_power_cut(&durable, &since, &mut rng);
            assert!(names.values().all(|inode| [1, 2].contains(inode)));
            met.insert([&spare, &segment, &old].map(|name| names.contains_key(name)));
        }
        // The new file has no name, the first, or the second; in each case the old file exists or
        // not.
        let expected = [[false, false], [true, false], [false, true]];
        let both = |names: [bool; 2]| [true, false].map(|old| [names[0], names[1], old]);
        assert_eq!(met, expected.into_iter().flat_map(both).collect());
    }

    #[test]
    fn an_operation_keeps_a_name_that_another_file_has_taken_over() {
        let path = PathBuf::from("/d/f");
        let mut names = Names::from([(path.clone(), 2)]);
        NameOp::Unlink(path.clone(), 1).apply(&mut names);
        NameOp::Rename(path.clone(), "/d/g".into(), 1).apply(&mut names);
        assert_eq!(names.get(&path), Some(&2));
    }
}
