//! Uses of tables: which columns of which table or view a statement reads and writes, for the
//! check of its privileges.
//!
//! Binding records them. Each name in a FROM clause, or after INSERT, UPDATE and DELETE, is a
//! [`TableUse`]; each column that a name resolves to is recorded there with the privilege that it
//! needs. What a plan reads besides (index columns, CHECK constraints, expressions of generated
//! columns) needs no privilege and is not recorded.
//!
//! A merged view and the table beneath it are two uses. Columns of the view are noted with the
//! view, under the table's positions; when the statement is bound, they are carried down:
//!
//! ```text
//!   UPDATE v SET a = 1       v is SELECT x AS a FROM t WHERE y > 0
//!
//!   0  v  wanted UPDATE   a: UPDATE                beneath 1
//!   1  t  wanted UPDATE   y: SELECT, x: UPDATE     within 0
//! ```
//!
//! Invariants:
//! 1. A use comes after the view whose query names it: by position in one list, `via_view` points from
//!    inner to outer uses, and `base_use` from outer to inner ones.
//! 2. A name is recorded before it is looked up, so that an error about it can be replaced by
//!    the lack of a privilege. What has not been found needs the privilege on all of it.

use porpoise_access::Privileges;
use porpoise_rows::catalog::Table;
use std::cell::RefCell;
use std::sync::Arc;

/// The object that a name refers to.
#[derive(Clone, Debug)]
pub enum Object {
    /// No such object was found.
    Unknown,
    /// A virtual table, which needs no privilege.
    Virtual,
    /// A stored table.
    Table(Arc<Table>),
    /// A view.
    View {
        /// Names of its columns; empty at positions that the view does not have.
        columns: Vec<String>,
        /// The account whose rights its query has (SQL SECURITY DEFINER); `None`: those of the
        /// statement or view that names it.
        definer: Option<String>,
    },
}

/// A table or view that a statement names, and the privileges that it needs there.
#[derive(Clone, Debug)]
pub struct TableUse {
    /// The database.
    pub database: String,
    /// The name.
    pub name: String,
    /// The object that the name refers to.
    pub object: Object,
    /// The view whose query names it; `None` if the statement does.
    pub via_view: Option<usize>,
    /// The use of the table or view that a merged view selects from.
    base_use: Option<usize>,
    /// Privileges needed on the table, or on any of its columns.
    pub privileges: Privileges,
    /// Privileges needed on all columns, because the statement does not list them.
    pub privileges_on_all: Privileges,
    /// Privileges needed on single columns, by position: the lowest bits of [`Privileges`].
    columns: Vec<u8>,
}

/// Bits of `columns`.
const BITS: u64 = Privileges::SELECT
    .with(Privileges::INSERT)
    .with(Privileges::UPDATE)
    .0;

const _: () = assert!(BITS <= u8::MAX as u64);

impl TableUse {
    fn note(&mut self, column: usize, bits: u8) {
        if self.columns.len() <= column {
            self.columns.resize(column + 1, 0);
        }
        if let Some(noted) = self.columns.get_mut(column) {
            *noted |= bits;
        }
    }

    /// The privileges needed on at least one column.
    pub fn on_columns(&self) -> Privileges {
        let all = self.columns.iter().fold(0, |all, bits| all | bits);
        Privileges(u64::from(all))
    }

    /// The columns that need privileges, with those privileges.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Privileges)> {
        let noted = self.columns.iter().enumerate();
        noted
            .filter(|(_, bits)| **bits != 0)
            .map(|(at, bits)| (self.column_name(at), Privileges(u64::from(*bits))))
    }

    fn column_name(&self, at: usize) -> &str {
        match &self.object {
            Object::Table(table) => table.columns.get(at).map_or("", |c| &c.name),
            Object::View { columns, .. } => columns.get(at).map_or("", String::as_str),
            Object::Unknown | Object::Virtual => "",
        }
    }
}

/// Set of uses that binding fills; see the module.
#[derive(Debug, Default)]
pub struct Uses {
    list: RefCell<Vec<TableUse>>,
}

impl Uses {
    /// Records a name before it is looked up. Returns its position.
    pub(super) fn add(&self, database: &str, name: &str, via_view: Option<usize>) -> usize {
        let mut list = self.list.borrow_mut();
        list.push(TableUse {
            database: database.to_owned(),
            name: name.to_owned(),
            object: Object::Unknown,
            via_view,
            base_use: None,
            privileges: Privileges::SELECT,
            privileges_on_all: Privileges::NONE,
            columns: Vec::new(),
        });
        list.len() - 1
    }

    /// Records the object that a name resolved to.
    pub(super) fn note_object(&self, at: usize, object: Object) {
        if let Some(used) = self.list.borrow_mut().get_mut(at) {
            used.object = object;
        }
    }

    /// Records that a merged view selects from the use at `base_use`.
    pub(super) fn note_merged(&self, at: usize, base_use: Option<usize>) {
        if let Some(used) = self.list.borrow_mut().get_mut(at) {
            used.base_use = base_use;
        }
    }

    /// Records a privilege needed on a column.
    pub fn note(&self, at: usize, column: usize, privileges: Privileges) {
        if let Some(used) = self.list.borrow_mut().get_mut(at) {
            used.note(column, (privileges.0 & BITS) as u8);
        }
    }

    /// Records that all columns are used without being listed.
    pub(super) fn note_whole(&self, at: usize, privileges: Privileges) {
        if let Some(used) = self.list.borrow_mut().get_mut(at) {
            used.privileges_on_all = used.privileges_on_all.with(privileges);
        }
    }

    /// Sets the privileges needed on a table, replacing SELECT, and on the tables beneath it.
    pub(super) fn require(&self, at: Option<usize>, privileges: Privileges) {
        self.update_chain(at, |used| used.privileges = privileges);
    }

    /// The same for the target of an INSERT: conditions of views are not evaluated.
    pub(super) fn require_insert(&self, at: Option<usize>, privileges: Privileges) {
        self.update_chain(at, |used| {
            used.privileges = privileges;
            used.columns.clear();
        });
    }

    fn update_chain(&self, mut at: Option<usize>, change: impl Fn(&mut TableUse)) {
        let mut list = self.list.borrow_mut();
        while let Some(used) = at.and_then(|at| list.get_mut(at)) {
            change(used);
            at = used.base_use;
        }
    }

    /// Number of uses so far.
    pub(super) fn len(&self) -> usize {
        self.list.borrow().len()
    }

    /// Removes all uses after the first `len`.
    pub(super) fn truncate(&self, len: usize) {
        self.list.borrow_mut().truncate(len);
    }

    /// The uses of the whole statement, with columns of merged views carried down.
    pub fn take(&self) -> Box<[TableUse]> {
        let mut list = self.list.take();
        for at in 0..list.len() {
            let found = list.get(at).and_then(|u| Some((u.base_use?, &u.columns)));
            let Some((beneath, columns)) = found else {
                continue;
            };
            let columns = columns.clone();
            if let Some(used) = list.get_mut(beneath) {
                // Computed columns of a view have positions after those of the table.
                let width = match &used.object {
                    Object::Table(table) => table.columns.len(),
                    _ => usize::MAX,
                };
                for (column, bits) in columns.into_iter().enumerate().take(width) {
                    used.note(column, bits);
                }
            }
        }
        list.into_boxed_slice()
    }

    /// Database and name of what the statement itself names.
    pub fn names(&self) -> Vec<(String, String)> {
        let list = self.list.borrow();
        let own = list.iter().filter(|used| used.via_view.is_none());
        own.map(|used| (used.database.clone(), used.name.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(used: &TableUse) -> Vec<(usize, u8)> {
        let columns = used.columns.iter().copied().enumerate();
        columns.filter(|(_, bits)| *bits != 0).collect()
    }

    #[test]
    fn columns_of_merged_views_are_carried_down() {
        let uses = Uses::default();
        let outer = uses.add("d", "w", None);
        let inner = uses.add("d", "v", Some(outer));
        let table = uses.add("d", "t", Some(inner));
        uses.note(table, 1, Privileges::SELECT);
        uses.note_merged(inner, Some(table));
        uses.note_merged(outer, Some(inner));
        uses.require(Some(outer), Privileges::UPDATE);
        uses.note(outer, 3, Privileges::UPDATE);
        assert_eq!(uses.names(), [("d".to_owned(), "w".to_owned())]);
        let list = uses.take();
        assert_eq!(noted(&list[outer]), [(3, 4)]);
        assert_eq!(noted(&list[inner]), [(3, 4)]);
        assert_eq!(noted(&list[table]), [(1, 1), (3, 4)]);
        assert!(list.iter().all(|u| u.privileges == Privileges::UPDATE));
    }

    #[test]
    fn rows_are_inserted_without_the_conditions_of_a_view() {
        let uses = Uses::default();
        let view = uses.add("d", "v", None);
        let table = uses.add("d", "t", Some(view));
        uses.note(table, 1, Privileges::SELECT);
        uses.note_merged(view, Some(table));
        uses.require_insert(Some(view), Privileges::INSERT);
        uses.note(view, 0, Privileges::INSERT);
        let list = uses.take();
        assert_eq!(noted(&list[table]), [(0, 2)]);
        assert_eq!(list[table].on_columns(), Privileges::INSERT);
    }
}
