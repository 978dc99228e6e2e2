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
//! Instead of the table, SELECT and INSERT may be granted on all of the container's columns, and
//! UPDATE on all of them that are not key columns. All columns are needed even if the command uses
//! fewer.
//!
//! Commands on the memory cache, and commands about the server, need an account but no privilege
//! on a table.

use crate::container::Container;
use crate::mapping::Operation;
use porpoise_access::{Privileges, Rights};
use porpoise_rows::catalog::Table;

/// The policy and privileges that a command requires before it accesses an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// The operation whose policy applies.
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
    /// Privileges that `flush_all` requires on each table.
    pub(crate) const FLUSH: Privileges = Privileges::DELETE;
}

/// Returns the privileges on a container that an account with these rights holds: those on its
/// table, and those on all of its columns that commands use. If the container has chunked values,
/// a privilege counts only if the account also holds it on the table of chunks.
pub(crate) fn privileges_held(rights: &Rights, container: &Container) -> Privileges {
    let held_on = |table: &Table| rights.on_table(&table.database, &table.name);
    let table = &container.table;
    let mut held = held_on(table);
    if let Some(columns) = rights.on_columns(&table.database, &table.name) {
        let (used, changed) = (container.used_columns(), container.changed_columns());
        for (privilege, positions) in [
            (Privileges::SELECT, &used),
            (Privileges::INSERT, &used),
            (Privileges::UPDATE, &changed),
        ] {
            let mut needed = positions.iter().filter_map(|at| table.columns.get(*at));
            if columns.on_any_column().has(privilege)
                && needed.all(|c| columns.on(&c.name).has(privilege))
            {
                held = held.with(privilege);
            }
        }
    }
    match &container.chunked_values {
        Some(large) => held.intersection(held_on(&large.table)),
        None => held,
    }
}
