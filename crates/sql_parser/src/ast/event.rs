//! Events.

use super::{Account, Body, Expr, IntervalUnit, TableName};

/// ON SCHEDULE
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule<'a> {
    /// AT
    At(Expr<'a>),
    /// EVERY
    Every {
        /// The amount of the interval.
        amount: Expr<'a>,
        /// Its unit.
        unit: IntervalUnit,
        /// STARTS
        starts: Option<Expr<'a>>,
        /// ENDS
        ends: Option<Expr<'a>>,
    },
}

/// Status of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStatus {
    /// ENABLE
    Enabled,
    /// DISABLE
    Disabled,
    /// DISABLE ON REPLICA
    DisabledOnReplica,
}

/// CREATE EVENT, ALTER EVENT; clauses that are not given are `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventStatement<'a> {
    /// ALTER
    pub alter: bool,
    /// DEFINER
    pub definer: Option<Account<'a>>,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Its name.
    pub name: TableName<'a>,
    /// ON SCHEDULE
    pub schedule: Option<Schedule<'a>>,
    /// ON COMPLETION PRESERVE (true), NOT PRESERVE (false)
    pub preserve: Option<bool>,
    /// RENAME TO
    pub rename: Option<TableName<'a>>,
    /// ENABLE, DISABLE
    pub status: Option<EventStatus>,
    /// COMMENT
    pub comment: Option<&'a [u8]>,
    /// DO
    pub body: Option<Body<'a>>,
}
