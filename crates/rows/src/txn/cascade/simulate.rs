//! The simulation step: deletes and changes rows in memory only, to check RESTRICT against the state
//! in which InnoDB would find the children.
//!
//! The expanded graph is walked in memory in InnoDB's order: depth first, the statement's rows in
//! their order, constraints in order of their names, children in order of the child index. Two
//! observed behaviours of InnoDB are kept: a row that references itself under RESTRICT cannot be
//! deleted; a child that an earlier row or constraint removed does not prevent a deletion.
//!
//! Invariants:
//! 1. The walk has its own stack; its depth is bounded by the graph's size.
//! 2. If a child's column cannot store a parent's new value, the change of the parent is refused.
//! 3. Each row is visited at most once for its deletion, and once per constraint for its changes,
//!    so the walk also terminates in cycles.

use super::{Child, Edge, Effects};
use crate::fk;
use crate::{Error, Result};
use foldhash::{HashSet, HashSetExt};

/// State of a row's deletion. While it is in progress, the row still counts as a child: InnoDB
/// refuses to delete a row that references itself under RESTRICT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deleted {
    No,
    InProgress,
    Done,
}

struct Walk {
    deleted: Vec<Deleted>,
    /// Changed columns: row and column.
    changed: HashSet<(usize, usize)>,
    /// Walked edges that change a child: child row and constraint.
    followed: HashSet<(usize, usize)>,
}

impl Walk {
    fn set(&mut self, node: usize, state: Deleted) {
        if let Some(place) = self.deleted.get_mut(node) {
            *place = state;
        }
    }

    fn enter(&mut self, node: usize, deletes: bool) {
        if deletes {
            self.set(node, Deleted::InProgress);
        }
    }

    fn leave(&mut self, node: usize, deletes: bool) {
        if deletes {
            self.set(node, Deleted::Done);
        }
    }
}

impl Effects {
    /// Walks the graph like InnoDB, and fails where it does. Returns the number of the statement's
    /// rows that no earlier row's cascade had deleted.
    pub(crate) fn simulate(&self) -> Result<u64> {
        let mut walk = Walk {
            deleted: vec![Deleted::No; self.list.len()],
            changed: HashSet::new(),
            followed: HashSet::new(),
        };
        let mut counted = 0;
        for root in 0..self.roots {
            let deletes = self.list.get(root).is_some_and(|c| c.new.is_none());
            if walk.deleted.get(root) != Some(&Deleted::No) {
                continue;
            }
            counted += 1;
            self.walk_from(root, deletes, &mut walk)?;
        }
        Ok(counted)
    }

    fn walk_from(&self, root: usize, deletes: bool, walk: &mut Walk) -> Result<()> {
        let mut stack = vec![(root, deletes, 0usize)];
        walk.enter(root, deletes);
        while let Some((node, by_delete, next)) = stack.last_mut() {
            let Some(change) = self.list.get(*node) else {
                break;
            };
            let Some(edge) = change.edges.get(*next) else {
                walk.leave(*node, *by_delete);
                stack.pop();
                continue;
            };
            *next += 1;
            if edge.by_delete != *by_delete {
                continue;
            }
            match &edge.child {
                Child::Restrict(primary) => self.check_restrict(edge, primary, walk)?,
                Child::Delete(child) => {
                    if walk.deleted.get(*child) == Some(&Deleted::No) {
                        walk.enter(*child, true);
                        stack.push((*child, true, 0));
                    }
                }
                Child::Update(child) => {
                    self.note_changed(*child, edge, walk)?;
                    let first = walk.followed.insert((*child, edge.referrer.fk));
                    if first && walk.deleted.get(*child) == Some(&Deleted::No) {
                        stack.push((*child, false, 0));
                    }
                }
            }
        }
        Ok(())
    }

    /// Records the columns of a child that its constraint changes.
    fn note_changed(&self, child: usize, edge: &Edge, walk: &mut Walk) -> Result<()> {
        let (Some(change), Some((fk, _))) = (self.list.get(child), edge.referrer.parts()) else {
            return Ok(());
        };
        let old = change.old.row(&change.table)?;
        for column in &fk.columns {
            let new = change.new.as_ref().and_then(|new| new.get(*column));
            let same = new.is_some_and(|new| new.as_ref() == old.get(*column));
            let ty = change.table.columns.get(*column).map(|c| &c.ty);
            if let (false, Some(new), Some(ty)) = (same, new, ty)
                && !fk::can_hold(new, ty)
            {
                return Err(Error::RowIsReferenced {
                    constraint: fk::constraint_text(&change.table, fk),
                });
            }
            if !same {
                walk.changed.insert((child, *column));
            }
        }
        Ok(())
    }

    fn check_restrict(&self, edge: &Edge, primary: &[u8], walk: &Walk) -> Result<()> {
        let child = &edge.referrer.child;
        let known = self.by_row.find(&self.list, child.id, primary);
        let Some(fk) = child.foreign_keys.get(edge.referrer.fk) else {
            return Ok(());
        };
        let no_longer_refers = known.is_some_and(|at| {
            let changed = |c: &usize| walk.changed.contains(&(at, *c));
            walk.deleted.get(at) == Some(&Deleted::Done) || fk.columns.iter().any(changed)
        });
        if no_longer_refers {
            return Ok(());
        }
        Err(Error::RowIsReferenced {
            constraint: fk::constraint_text(child, fk),
        })
    }
}
