//! Requirements of commands: the policy that decides where a key lives, and the
//! privileges on the container's table (transactions.md, rule 48).
//!
//! | command | SQL counterpart | privileges |
//! |---|---|---|
//! | get, gets, mg, me | SELECT | SELECT |
//! | gat, gats, mg with T | UPDATE ... ; SELECT | SELECT, UPDATE |
//! | flush_all | DELETE | DELETE |
//! | changes of one item | | the table of commands, [`crate::commands::table`] |
//!
//! SELECT and INSERT may be granted on the container's columns instead of the table, and
//! UPDATE on those that are no key columns; all of them, whichever the command uses.
//!
//! Commands of the memory cache and about the server need an account and no privilege
//! on a table.

use crate::container::Container;
use crate::mapping::Operation;
use porpoise_access::{Privileges, Rights};
use porpoise_rows::catalog::Table;

/// The policy and privileges that a command requires before it accesses an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// The policy's column that decides.
    pub(crate) operation: Operation,
    /// Privileges on the container's table.
    pub(crate) privileges: Privileges,
}

impl Requirement {
    /// Requirement of reads.
    pub(crate) const GET: Requirement = Requirement {
        operation: Operation::Get,
        privileges: Privileges::SELECT,
    };
    /// Requirement of `gat` and `mg` with a new expiry time, in addition to [`Requirement::GET`].
    pub(crate) const TOUCH: Requirement = Requirement {
        operation: Operation::Set,
        privileges: Privileges::SELECT.with(Privileges::UPDATE),
    };
    /// Requirement of `flush_all`.
    pub(crate) const FLUSH: Privileges = Privileges::DELETE;
}

/// The privileges on a container that an account with these rights holds: those on its table,
/// and those on all of its columns that commands use. Where long values are in a second table,
/// the same privileges are needed there.
pub(crate) fn privileges_held(rights: &Rights, container: &Container) -> Privileges {
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
            if columns.on_any_column().has(wanted) && names.all(|c| columns.on(&c.name).has(wanted))
            {
                held = held.with(wanted);
            }
        }
    }
    match &container.chunked_values {
        Some(large) => held.intersection(on(&large.table)),
        None => held,
    }
}
