//! Statements of a replica.

use super::Ident;

/// A statement of a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplicaStatement<'a> {
    /// CHANGE REPLICATION SOURCE TO, CHANGE MASTER TO
    ChangeSource(&'a [SourceOption<'a>]),
    /// CHANGE REPLICATION FILTER
    ChangeFilter(&'a [FilterRule<'a>]),
    /// START REPLICA
    Start {
        /// The threads that it names
        threads: &'a [Ident<'a>],
        /// UNTIL
        until: &'a [SourceOption<'a>],
    },
    /// `STOP REPLICA`; the threads that it names
    Stop(&'a [Ident<'a>]),
    /// RESET REPLICA
    Reset {
        /// ALL
        all: bool,
    },
}

/// An option of CHANGE REPLICATION SOURCE TO, or a condition of START REPLICA UNTIL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceOption<'a> {
    /// Name, as written.
    pub name: Ident<'a>,
    /// Value.
    pub value: SourceValue<'a>,
}

/// Value of a [`SourceOption`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SourceValue<'a> {
    /// A string.
    Text(&'a [u8]),
    /// A number, as written.
    Number(&'a str),
    /// A word.
    Word(Ident<'a>),
    /// Numbers in parentheses.
    Numbers(&'a [u64]),
}

/// A rule of CHANGE REPLICATION FILTER; without items it is removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterRule<'a> {
    /// Name, as written: REPLICATE_DO_DB and others.
    pub name: Ident<'a>,
    /// Items.
    pub items: &'a [FilterItem<'a>],
}

/// An item of a [`FilterRule`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterItem<'a> {
    /// A database.
    Database(Ident<'a>),
    /// A table.
    Table(Ident<'a>, Ident<'a>),
    /// A pattern.
    Pattern(&'a [u8]),
    /// A database and its name here.
    Rewrite(Ident<'a>, Ident<'a>),
}
