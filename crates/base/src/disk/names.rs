//! Names of a disk in memory, and what a power cut leaves of them.
//!
//! Until its directory is synced, an operation on a name may be on disk or
//! not, whatever became of those before and after it: POSIX promises no order,
//! though file systems with a journal keep one. Each operation is atomic, and
//! knows the file it was about: a rename may survive the loss of the creation
//! before it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which file has a name, by its number.
pub(super) type Names = BTreeMap<PathBuf, usize>;

/// An operation on a name.
#[derive(Clone, Debug)]
pub(super) enum NameOp {
    Link(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Unlink(PathBuf, usize),
}

impl NameOp {
    /// The name that it is about, the new one of two.
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

/// Removes a name from a file, unless another file has taken it.
fn forget(names: &mut Names, path: &Path, inode: usize) {
    if names.get(path) == Some(&inode) {
        names.remove(path);
    }
}

/// Names after a power cut: the durable ones, with a prefix or any subset of the later
/// operations.
pub(super) fn after_power_cut(durable: &Names, since: &[NameOp], rng: &mut fastrand::Rng) -> Names {
    let mut names = durable.clone();
    let first = rng.usize(0..=since.len());
    let any = rng.bool();
    for (n, op) in since.iter().enumerate() {
        if if any { rng.bool() } else { n < first } {
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
        // The new file has no name, the first, or the second; the old one is
        // there or not, in each case.
        let expected = [[false, false], [true, false], [false, true]];
        let both = |names: [bool; 2]| [true, false].map(|old| [names[0], names[1], old]);
        assert_eq!(met, expected.into_iter().flat_map(both).collect());
    }

    #[test]
    fn a_name_that_another_file_has_by_now_is_not_taken_from_it() {
        let path = PathBuf::from("/d/f");
        let mut names = Names::from([(path.clone(), 2)]);
        NameOp::Unlink(path.clone(), 1).apply(&mut names);
        NameOp::Rename(path.clone(), "/d/g".into(), 1).apply(&mut names);
        assert_eq!(names.get(&path), Some(&2));
    }
}
