//! Stored procedures and functions, as the catalog keeps them.
//!
//! Parameters, type and body are text: what runs is compiled from it. The names of routines are
//! compared without case, and procedures and functions have name spaces of their own.

use super::Catalog;
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kinds of routines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutineKind {
    /// PROCEDURE
    Procedure,
    /// FUNCTION
    Function,
}

impl RoutineKind {
    /// The keyword.
    pub fn name(self) -> &'static str {
        match self {
            RoutineKind::Procedure => "PROCEDURE",
            RoutineKind::Function => "FUNCTION",
        }
    }
}

/// The key of a routine: its database, kind, and name in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutineKey {
    /// The database.
    pub database: String,
    /// Procedure or function.
    pub kind: RoutineKind,
    /// The name in lower case.
    pub name: String,
}

impl RoutineKey {
    /// The key of a name.
    pub fn new(database: &str, kind: RoutineKind, name: &str) -> RoutineKey {
        RoutineKey {
            database: database.to_owned(),
            kind,
            name: name.to_lowercase(),
        }
    }
}

/// Access to data that a routine declares; it is not enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineAccess {
    /// CONTAINS SQL
    ContainsSql,
    /// NO SQL
    NoSql,
    /// READS SQL DATA
    ReadsSqlData,
    /// MODIFIES SQL DATA
    ModifiesSqlData,
}

impl RoutineAccess {
    const ALL: [RoutineAccess; 4] = [
        RoutineAccess::ContainsSql,
        RoutineAccess::NoSql,
        RoutineAccess::ReadsSqlData,
        RoutineAccess::ModifiesSqlData,
    ];

    /// The clause.
    pub fn name(self) -> &'static str {
        match self {
            RoutineAccess::ContainsSql => "CONTAINS SQL",
            RoutineAccess::NoSql => "NO SQL",
            RoutineAccess::ReadsSqlData => "READS SQL DATA",
            RoutineAccess::ModifiesSqlData => "MODIFIES SQL DATA",
        }
    }
}

/// A stored procedure or function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// The database.
    pub database: String,
    /// The name as written.
    pub name: String,
    /// Procedure or function.
    pub kind: RoutineKind,
    /// The text between the parentheses.
    pub parameters: String,
    /// The type of a function's result as text; empty for a procedure.
    pub returns: String,
    /// The body's text.
    pub body: String,
    /// COMMENT
    pub comment: String,
    /// DETERMINISTIC
    pub deterministic: bool,
    /// The declared access to data.
    pub access: RoutineAccess,
    /// SQL SECURITY INVOKER
    pub invoker: bool,
    /// The account with whose rights it runs, unless INVOKER.
    pub definer: String,
    /// `sql_mode` of its creation, under which it is parsed and runs.
    pub sql_mode: u64,
    /// `character_set_client` of its creation.
    pub charset: String,
    /// `collation_connection` of its creation.
    pub collation: String,
    /// Collation of its database at its creation.
    pub database_collation: String,
    /// Time of its creation, microseconds since 1970 UTC.
    pub created: i64,
    /// Time of its last change.
    pub modified: i64,
}

impl Routine {
    /// The routine's key.
    pub fn key(&self) -> RoutineKey {
        RoutineKey::new(&self.database, self.kind, &self.name)
    }
}

impl Catalog {
    /// The routine of that name.
    pub fn routine(&self, database: &str, kind: RoutineKind, name: &str) -> Option<&Arc<Routine>> {
        if self.routines.is_empty() {
            return None;
        }
        self.routines.get(&RoutineKey::new(database, kind, name))
    }
}

/// All routines by key.
pub type Routines = BTreeMap<RoutineKey, Arc<Routine>>;

/// The row's key after its first byte: database, NUL, kind, name in lower case.
pub(super) fn key_bytes(key: &RoutineKey) -> Vec<u8> {
    let mut bytes = key.database.as_bytes().to_vec();
    bytes.push(0);
    bytes.push(match key.kind {
        RoutineKind::Procedure => b'P',
        RoutineKind::Function => b'F',
    });
    bytes.extend_from_slice(key.name.as_bytes());
    bytes
}

pub(super) fn write_routine(w: &mut Writer, r: &Routine) {
    w.bool(r.kind == RoutineKind::Function);
    for text in [
        &r.database,
        &r.name,
        &r.parameters,
        &r.returns,
        &r.body,
        &r.comment,
        &r.definer,
        &r.charset,
        &r.collation,
        &r.database_collation,
    ] {
        w.str(text);
    }
    w.bool(r.deterministic);
    let access = RoutineAccess::ALL.iter().position(|a| *a == r.access);
    w.u8(access.unwrap_or(0) as u8);
    w.bool(r.invoker);
    w.u64(r.sql_mode);
    w.i64(r.created);
    w.i64(r.modified);
}

pub(super) fn read_routine(r: &mut Reader<'_>) -> Result<Routine> {
    let kind = if r.bool()? {
        RoutineKind::Function
    } else {
        RoutineKind::Procedure
    };
    Ok(Routine {
        kind,
        database: r.str()?,
        name: r.str()?,
        parameters: r.str()?,
        returns: r.str()?,
        body: r.str()?,
        comment: r.str()?,
        definer: r.str()?,
        charset: r.str()?,
        collation: r.str()?,
        database_collation: r.str()?,
        deterministic: r.bool()?,
        access: {
            let number = r.u8()?;
            let found = RoutineAccess::ALL.get(usize::from(number)).copied();
            found.ok_or_else(|| Error::corrupt(&format!("access to data {number}")))?
        },
        invoker: r.bool()?,
        sql_mode: r.u64()?,
        created: r.i64()?,
        modified: r.i64()?,
    })
}
