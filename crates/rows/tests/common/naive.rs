//! A naive database, with which the crate is compared: rows are in maps, and constraints are checked
//! row by row and recursively by searching all rows.

use porpoise_rows::catalog::FkAction;
use std::collections::{BTreeMap, BTreeSet};

/// NULL.
pub const N: i64 = i64::MIN;
/// Columns: id (primary key), u (unique), f, g, h (unique with u).
pub const COLUMNS: usize = 5;
pub type Row = [i64; COLUMNS];

#[derive(Clone, Debug)]
pub struct Fk {
    pub name: String,
    pub child: usize,
    pub columns: Vec<usize>,
    pub parent: usize,
    pub parent_columns: Vec<usize>,
    pub on_delete: FkAction,
    pub on_update: FkAction,
}

#[derive(Clone, Debug, Default)]
pub struct Naive {
    pub tables: Vec<BTreeMap<i64, Row>>,
    /// In order of name.
    pub fks: Vec<Fk>,
}

/// Error code, and whether a cascade caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub code: u16,
    pub deep: bool,
}

fn refuse<T>(code: u16, deep: bool) -> Result<T, Refused> {
    Err(Refused { code, deep })
}

fn pick(row: &Row, columns: &[usize]) -> Option<Vec<i64>> {
    let values: Vec<i64> = columns.iter().map(|c| row[*c]).collect();
    (!values.contains(&N)).then_some(values)
}

/// The position of the unique index with these columns.
fn unique_index(columns: &[usize]) -> usize {
    match columns {
        [0] => 0,
        [1] => 1,
        _ => 2,
    }
}

impl Naive {
    /// The first unique index in which a changed row would be a duplicate.
    fn duplicate(&self, table: usize, old: &Row, new: &Row) -> Option<usize> {
        let others = || self.tables[table].values().filter(|row| row[0] != old[0]);
        let same = |columns: &[usize]| {
            let key = pick(new, columns);
            key.is_some() && others().any(|row| pick(row, columns) == key)
        };
        let unique: [&[usize]; 3] = [&[0], &[1], &[1, 4]];
        unique.iter().position(|columns| same(columns))
    }

    /// The error of an update whose new value is a duplicate in an index: InnoDB checks before that
    /// whether a constraint forbids to change the values of that index and those before it.
    fn refuse_duplicate(&self, table: usize, old: &Row, new: &Row, at: usize) -> Refused {
        let restricts = self.referrers(table).into_iter().any(|fk| {
            let differs = fk.parent_columns.iter().any(|c| old[*c] != new[*c]);
            let key = pick(old, &fk.parent_columns);
            let acts = matches!(fk.on_update, FkAction::Cascade | FkAction::SetNull);
            !acts
                && differs
                && unique_index(&fk.parent_columns) <= at
                && key.is_some_and(|key| !self.children(&fk, &key).is_empty())
        });
        let code = if restricts { 1451 } else { 1062 };
        Refused { code, deep: false }
    }

    fn taken(&self, table: usize, new: &Row, except: Option<i64>) -> bool {
        self.tables[table].iter().any(|(id, row)| {
            Some(*id) != except && (*id == new[0] || (new[1] != N && row[1] == new[1]))
        })
    }

    fn has_parent(&self, fk: &Fk, row: &Row) -> bool {
        let Some(named) = pick(row, &fk.columns) else {
            return true;
        };
        self.tables[fk.parent]
            .values()
            .any(|p| pick(p, &fk.parent_columns).as_ref() == Some(&named))
    }

    /// Children of a key, in the order of the child's index.
    fn children(&self, fk: &Fk, key: &[i64]) -> Vec<i64> {
        self.tables[fk.child]
            .values()
            .filter(|r| pick(r, &fk.columns).as_deref() == Some(key))
            .map(|r| r[0])
            .collect()
    }

    fn referrers(&self, table: usize) -> Vec<Fk> {
        let all = self.fks.iter().filter(|fk| fk.parent == table);
        all.cloned().collect()
    }

    pub fn insert(&mut self, table: usize, row: Row) -> Result<(), Refused> {
        if row[0] == N {
            return refuse(1048, false);
        }
        if self.taken(table, &row, None) {
            return refuse(1062, false);
        }
        self.tables[table].insert(row[0], row);
        let orphan = self
            .fks
            .iter()
            .any(|fk| fk.child == table && !self.has_parent(fk, &row));
        if orphan {
            self.tables[table].remove(&row[0]);
            return refuse(1452, false);
        }
        Ok(())
    }

    /// Deletes conflicting rows, then inserts. Returns how many were deleted.
    pub fn replace(&mut self, table: usize, row: Row) -> Result<u64, Refused> {
        let mut deleted = 0;
        for pass in 0..2 {
            let hit = self.tables[table]
                .values()
                .find(|r| {
                    if pass == 0 {
                        r[0] == row[0]
                    } else {
                        row[1] != N && r[1] == row[1]
                    }
                })
                .map(|r| r[0]);
            if let Some(id) = hit {
                self.delete(table, id)?;
                deleted += 1;
            }
        }
        self.insert(table, row).map(|()| deleted)
    }

    /// Deletes a row named by the statement.
    pub fn delete(&mut self, table: usize, id: i64) -> Result<(), Refused> {
        let mut busy = BTreeSet::new();
        self.delete_row(table, id, &mut busy, false)
    }

    fn delete_row(
        &mut self,
        table: usize,
        id: i64,
        busy: &mut BTreeSet<(usize, i64)>,
        deep: bool,
    ) -> Result<(), Refused> {
        busy.insert((table, id));
        let row = self.tables[table][&id];
        for fk in self.referrers(table) {
            let Some(key) = pick(&row, &fk.parent_columns) else {
                continue;
            };
            for child in self.children(&fk, &key) {
                let now = self.tables[fk.child].get(&child).copied();
                let Some(now) = now.filter(|r| pick(r, &fk.columns).as_ref() == Some(&key)) else {
                    continue;
                };
                match fk.on_delete {
                    FkAction::NoAction | FkAction::Restrict => return refuse(1451, deep),
                    _ if busy.contains(&(fk.child, child)) => {}
                    FkAction::Cascade => self.delete_row(fk.child, child, busy, true)?,
                    FkAction::SetNull => {
                        let mut new = now;
                        for c in &fk.columns {
                            new[*c] = N;
                        }
                        self.follow(&fk, now, new)?;
                    }
                }
            }
        }
        self.tables[table].remove(&id);
        Ok(())
    }

    /// Changes a row named by the statement. Returns whether it changed.
    pub fn update(&mut self, table: usize, old: Row, new: Row) -> Result<bool, Refused> {
        if old == new {
            return Ok(false);
        }
        if new[0] == N {
            return refuse(1048, false);
        }
        if let Some(at) = self.duplicate(table, &old, &new) {
            return Err(self.refuse_duplicate(table, &old, &new, at));
        }
        let changed = |cs: &[usize]| cs.iter().any(|c| old[*c] != new[*c]);
        self.tables[table].remove(&old[0]);
        self.tables[table].insert(new[0], new);
        for fk in self.fks.iter().filter(|fk| fk.child == table) {
            if changed(&fk.columns) && !self.has_parent(fk, &new) {
                return refuse(1452, false);
            }
        }
        self.follow_key(table, old, new, false)?;
        Ok(true)
    }

    /// Applies the referential actions of a changed key to the children.
    fn follow_key(&mut self, table: usize, old: Row, new: Row, deep: bool) -> Result<(), Refused> {
        for fk in self.referrers(table) {
            if fk.parent_columns.iter().all(|c| old[*c] == new[*c]) {
                continue;
            }
            let Some(key) = pick(&old, &fk.parent_columns) else {
                continue;
            };
            for child in self.children(&fk, &key) {
                let Some(now) = self.tables[fk.child].get(&child).copied() else {
                    continue;
                };
                if pick(&now, &fk.columns).as_ref() != Some(&key) {
                    continue;
                }
                let mut after = now;
                match fk.on_update {
                    FkAction::NoAction | FkAction::Restrict => return refuse(1451, deep),
                    FkAction::SetNull => {
                        for c in &fk.columns {
                            after[*c] = N;
                        }
                    }
                    FkAction::Cascade => {
                        for (c, p) in fk.columns.iter().zip(&fk.parent_columns) {
                            after[*c] = new[*p];
                        }
                    }
                }
                self.follow(&fk, now, after)?;
            }
        }
        Ok(())
    }

    /// Changes a child.
    fn follow(&mut self, via: &Fk, now: Row, after: Row) -> Result<(), Refused> {
        let table = via.child;
        if self.taken(table, &after, Some(now[0])) {
            return refuse(1761, true);
        }
        self.tables[table].remove(&now[0]);
        self.tables[table].insert(after[0], after);
        for fk in self.fks.iter().filter(|fk| fk.child == table) {
            let changed = fk.columns.iter().any(|c| now[*c] != after[*c]);
            if changed && fk.name != via.name && !self.has_parent(fk, &after) {
                return refuse(1452, true);
            }
        }
        self.follow_key(table, now, after, true)
    }
}
