//! Partitioning in definitions: what is allowed, and the changes of ALTER
//! TABLE that add, drop, empty or rearrange partitions.
//!
//! A change makes new spaces for the partitions that it makes or empties;
//! partitions that stay keep theirs. Rows that must find another place are
//! copied in small transactions behind the metadata barrier, and the commit of
//! the catalog row is the change, as everywhere in [`super`].

mod change;
mod check;
mod plan;

pub use change::PartitionChange;
pub(crate) use check::check;

use super::{TableSpec, errors};
use crate::catalog::Catalog;
use crate::definition::Colocate;
use crate::error::Result;

/// COLOCATE WITH resolved: the group of the table named.
pub(super) fn colocation(catalog: &Catalog, spec: &TableSpec) -> Result<Option<Colocate>> {
    let Some((database, name)) = &spec.placement.colocate else {
        return Ok(None);
    };
    let database = database.as_ref().unwrap_or(&spec.database);
    let Some(table) = catalog.table(database, name) else {
        return Err(errors::no_table(database, name));
    };
    let with = match *database == spec.database {
        true => format!("`{name}`"),
        false => format!("`{database}`.`{name}`"),
    };
    Ok(Some(Colocate {
        with,
        group: table.group(),
    }))
}
