//! Requirements of commands: the policy that decides where a key lives, and the
//! privileges on the container's table (transactions.md, rule 48).
//!
//! | command | SQL counterpart | privileges |
//! |---|---|---|
//! | get, gets, mg, me | SELECT | SELECT |
//! | gat, gats, mg with T | UPDATE ... ; SELECT | SELECT, UPDATE |
//! | set, ms | INSERT ... ON DUPLICATE KEY UPDATE | INSERT, UPDATE |
//! | add | INSERT | INSERT |
//! | replace, cas, touch | UPDATE ... WHERE key | SELECT, UPDATE |
//! | append, prepend, incr, decr, ma | UPDATE ... SET c = c + n WHERE key | SELECT, UPDATE |
//! | the same, creating a missing item | and INSERT | SELECT, UPDATE, INSERT |
//! | delete, md | DELETE ... WHERE key | SELECT, DELETE |
//! | md that keeps the item (I, x) | UPDATE ... WHERE key | SELECT, UPDATE |
//! | flush_all | DELETE | DELETE |
//!
//! SELECT and INSERT may be granted on the container's columns instead of the table, and
//! UPDATE on those that are no key columns; all of them, whichever the command uses.
//!
//! Commands of the memory cache and about the server need an account and no privilege
//! on a table. The matches below have no wildcard arm, so that a new command does not
//! compile without its requirement.

use super::container::Container;
use super::mapping::Operation;
use porpoise_access::{Privileges, Rights};
use porpoise_rows::catalog::Table;
use porpoise_wire::memcached::command::{Change, Mode, Store};

/// The policy and privileges that a command requires before it accesses an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// The policy's column that decides.
    pub(super) operation: Operation,
    /// Privileges on the container's table.
    pub(super) privileges: Privileges,
}

impl Requirement {
    /// Of the get family.
    pub(super) const GET: Requirement = Requirement {
        operation: Operation::Get,
        privileges: Privileges::SELECT,
    };
    /// Of `gat` and `mg` with a new expiry time, beside [`Requirement::GET`].
    pub(super) const TOUCH: Requirement = Requirement {
        operation: Operation::Set,
        privileges: Privileges::SELECT.with(Privileges::UPDATE),
    };
    /// Of `flush_all`.
    pub(super) const FLUSH: Privileges = Privileges::DELETE;

    /// Of a command that changes one item.
    pub(super) fn of(change: &Change<'_>) -> Requirement {
        const CHANGE: Privileges = Privileges::SELECT.with(Privileges::UPDATE);
        let (operation, privileges) = match change {
            Change::Store(store) => (Operation::Set, of_store(store)),
            Change::Count(count) => {
                let created = created(count.seed.is_some());
                (Operation::Set, CHANGE.with(created))
            }
            Change::Delete(delete) if delete.invalidate || delete.empty => {
                (Operation::Delete, CHANGE)
            }
            Change::Delete(_) => {
                let privileges = Privileges::SELECT.with(Privileges::DELETE);
                (Operation::Delete, privileges)
            }
            Change::Touch(_) => (Operation::Set, CHANGE),
        };
        Requirement {
            operation,
            privileges,
        }
    }
}

/// The privileges on a container that an account with these rights holds: those on its table,
/// and those on all of its columns that commands use. Where long values are in a second table,
/// the same privileges are needed there.
pub(super) fn held(rights: &Rights, container: &Container) -> Privileges {
    let on = |table: &Table| rights.on_table(&table.database, &table.name);
    let table = &container.table;
    let mut held = on(table);
    if let Some(columns) = rights.on_columns(&table.database, &table.name) {
        let (used, changed) = (container.used_columns(), container.changed_columns());
        for (wanted, list) in [
            (Privileges::SELECT, &used),
            (Privileges::INSERT, &used),
            (Privileges::UPDATE, &changed),
        ] {
            let mut names = list.iter().filter_map(|at| table.columns.get(*at));
            if columns.any().has(wanted) && names.all(|c| columns.on(&c.name).has(wanted)) {
                held = held.with(wanted);
            }
        }
    }
    match &container.large {
        Some(large) => held.intersection(on(&large.table)),
        None => held,
    }
}

fn of_store(store: &Store<'_>) -> Privileges {
    const CHANGE: Privileges = Privileges::SELECT.with(Privileges::UPDATE);
    match store.mode {
        Mode::Set if store.compare.is_some() => CHANGE,
        Mode::Set => Privileges::INSERT.with(Privileges::UPDATE),
        Mode::Add => Privileges::INSERT,
        Mode::Replace => CHANGE,
        Mode::Append | Mode::Prepend => CHANGE.with(created(store.create.is_some())),
    }
}

fn created(creates: bool) -> Privileges {
    if creates {
        Privileges::INSERT
    } else {
        Privileges::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_wire::memcached::command::{Count, Delete, Seed, Touch};

    fn names(change: Change<'_>) -> String {
        let names: Vec<_> = Requirement::of(&change).privileges.names().collect();
        names.join(" ")
    }

    #[test]
    fn changes_need_what_their_statements_need() {
        let store = |mode| Store::new(mode, b"k", b"v");
        let cases = [
            (Change::Store(store(Mode::Set)), "INSERT UPDATE"),
            (Change::Store(store(Mode::Add)), "INSERT"),
            (Change::Store(store(Mode::Replace)), "SELECT UPDATE"),
            (Change::Store(store(Mode::Append)), "SELECT UPDATE"),
            (
                Change::Store(Store {
                    create: Some(0),
                    ..store(Mode::Prepend)
                }),
                "SELECT INSERT UPDATE",
            ),
            (
                Change::Store(Store {
                    compare: Some(1),
                    ..store(Mode::Set)
                }),
                "SELECT UPDATE",
            ),
            (Change::Count(Count::new(b"k", 1, true)), "SELECT UPDATE"),
            (
                Change::Count(Count {
                    seed: Some(Seed {
                        value: 1,
                        exptime: 0,
                    }),
                    ..Count::new(b"k", 1, false)
                }),
                "SELECT INSERT UPDATE",
            ),
            (Change::Delete(Delete::new(b"k")), "SELECT DELETE"),
            (
                Change::Delete(Delete {
                    invalidate: true,
                    ..Delete::new(b"k")
                }),
                "SELECT UPDATE",
            ),
            (
                Change::Touch(Touch {
                    key: b"k",
                    exptime: 0,
                }),
                "SELECT UPDATE",
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(names(change), expected, "{change:?}");
        }
    }
}
