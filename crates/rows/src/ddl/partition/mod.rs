//! Partitioning in definitions: validation, and the changes of ALTER TABLE that add, drop, empty or
//! rearrange partitions.
//!
//! A change creates new spaces for the partitions that it creates or empties; other partitions keep
//! theirs. Rows that belong to another partition now are copied in small transactions after the
//! metadata barrier. The commit of the catalog row makes the change effective, as everywhere in
//! [`super`].

mod change;
mod check;
mod exchange;
mod plan;

pub use change::PartitionChange;
pub(crate) use check::check;
pub use exchange::Exchange;

use super::{TableSpec, errors};
use crate::catalog::Catalog;
use crate::definition::Colocate;
use crate::error::Result;

/// Resolves COLOCATE WITH to the group of the named table.
pub(super) fn colocation(catalog: &Catalog, spec: &TableSpec) -> Result<Option<Colocate>> {
    let Some((database, name)) = &spec.placement.colocate else {
        return Ok(None);
    };
    let database = database.as_ref().unwrap_or(&spec.database);
    let Some(table) = catalog.table(database, name) else {
        return Err(errors::no_table(database, name));
    };
    let with = if *database == spec.database {
        format!("`{name}`")
    } else {
        format!("`{database}`.`{name}`")
    };
    Ok(Some(Colocate {
        with,
        group: table.group(),
    }))
}
