//! The syntax tree.
//!
//! Nodes are in a bump arena and reference the statement's text; they are `Copy` and are not
//! dropped individually. `==` on trees ignores spans.
//!
//! Invariants
//! 1. The height of a tree is at most [`super::Limits::depth`] nodes plus a constant, so recursion
//!    over it is bounded (see `expr`).
//! 2. Strings and identifiers are decoded: without quotes and escapes. Identifiers are UTF-8,
//!    string literals any bytes.

mod admin;
mod alter;
mod call;
mod ddl;
mod dml;
mod event;
mod expr;
mod key_prefix;
mod partition;
mod program;
mod query;
mod replication;
mod types;
mod user;

pub use admin::*;
pub use alter::*;
pub use call::*;
pub use ddl::*;
pub use dml::*;
pub use event::*;
pub use expr::*;
pub use key_prefix::*;
pub use partition::*;
pub use program::*;
pub use query::*;
pub use replication::*;
pub use types::*;
pub use user::*;

use super::token::Span;

/// An identifier, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident<'a> {
    /// The name as written.
    pub name: &'a str,
    /// Position in the text.
    pub span: Span,
}

/// An optionally qualified table name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableName<'a> {
    /// The database, where given.
    pub schema: Option<Ident<'a>>,
    /// The table.
    pub name: Ident<'a>,
}

/// An optionally qualified column name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnName<'a> {
    /// The database, where given.
    pub schema: Option<Ident<'a>>,
    /// The table, if given.
    pub table: Option<Ident<'a>>,
    /// The column.
    pub name: Ident<'a>,
}

/// BACKUP DATABASE TO ...
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backup<'a> {
    /// The directory or the URL.
    pub destination: &'a [u8],
    /// RATE_LIMIT in MB a second.
    pub rate: Option<u64>,
}

/// A statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statement<'a> {
    /// SELECT, TABLE, VALUES, set operations.
    Query(&'a Query<'a>),
    /// INSERT, REPLACE
    Insert(&'a Insert<'a>),
    /// UPDATE
    Update(&'a Update<'a>),
    /// DELETE
    Delete(&'a Delete<'a>),
    /// LOAD DATA
    LoadData(&'a LoadData<'a>),
    /// HANDLER
    Handler(&'a Handler<'a>),
    /// `DO a, b`
    Do(&'a [Expr<'a>]),
    /// `CALL p(args)`
    Call(&'a Call<'a>),
    /// CREATE DATABASE
    CreateDatabase(&'a CreateDatabase<'a>),
    /// ALTER DATABASE
    AlterDatabase(&'a AlterDatabase<'a>),
    /// DROP DATABASE
    DropDatabase {
        /// IF EXISTS
        if_exists: bool,
        /// Its name.
        name: Ident<'a>,
    },
    /// CREATE TABLE
    CreateTable(&'a CreateTable<'a>),
    /// ALTER TABLE
    AlterTable(&'a AlterTable<'a>),
    /// DROP TABLE
    DropTable(&'a DropTables<'a>),
    /// RENAME TABLE: old and new names
    RenameTable(&'a [(TableName<'a>, TableName<'a>)]),
    /// TRUNCATE TABLE
    Truncate(TableName<'a>),
    /// CREATE INDEX
    CreateIndex(&'a CreateIndex<'a>),
    /// DROP INDEX
    DropIndex(&'a DropIndex<'a>),
    /// CREATE VIEW, ALTER VIEW
    CreateView(&'a CreateView<'a>),
    /// DROP VIEW
    DropView(&'a DropTables<'a>),
    /// CREATE EVENT, ALTER EVENT
    Event(&'a EventStatement<'a>),
    /// CREATE PROCEDURE, CREATE FUNCTION
    CreateRoutine(&'a CreateRoutine<'a>),
    /// CREATE TRIGGER
    CreateTrigger(&'a CreateTrigger<'a>),
    /// ALTER PROCEDURE, ALTER FUNCTION
    AlterRoutine(&'a AlterRoutine<'a>),
    /// SIGNAL, RESIGNAL
    Signal(&'a Signal<'a>),
    /// GET DIAGNOSTICS
    GetDiagnostics(&'a GetDiagnostics<'a>),
    /// DROP PROCEDURE, FUNCTION, TRIGGER, EVENT
    DropProgram {
        /// Kind.
        kind: ProgramKind,
        /// IF EXISTS
        if_exists: bool,
        /// Its name.
        name: TableName<'a>,
    },
    /// START TRANSACTION, BEGIN
    Begin(StartTransaction),
    /// COMMIT
    Commit(Completion),
    /// ROLLBACK
    Rollback(Completion),
    /// ROLLBACK TO SAVEPOINT
    RollbackTo(Ident<'a>),
    /// SAVEPOINT
    Savepoint(Ident<'a>),
    /// RELEASE SAVEPOINT
    ReleaseSavepoint(Ident<'a>),
    /// XA
    Xa(&'a Xa<'a>),
    /// LOCK TABLES
    LockTables(&'a [LockTable<'a>]),
    /// UNLOCK TABLES
    UnlockTables,
    /// LOCK INSTANCE FOR BACKUP (true), UNLOCK INSTANCE (false)
    LockInstance(bool),
    /// BACKUP DATABASE
    Backup(Backup<'a>),
    /// All forms of SET, in textual order.
    Set(&'a [SetItem<'a>]),
    /// SET TRANSACTION
    SetTransaction(SetTransaction),
    /// SHOW
    Show(&'a Show<'a>),
    /// DESCRIBE t, EXPLAIN t
    Describe {
        /// The table.
        table: TableName<'a>,
        /// A column or a pattern.
        column: Option<&'a [u8]>,
    },
    /// EXPLAIN of a statement or of a connection.
    Explain(&'a Explain<'a>),
    /// USE
    Use(Ident<'a>),
    /// KILL; with QUERY only the statement.
    Kill {
        /// KILL QUERY
        query: bool,
        /// The connection.
        id: &'a Expr<'a>,
    },
    /// CREATE USER, ALTER USER
    User(&'a UserStatement<'a>),
    /// DROP USER
    DropUser {
        /// IF EXISTS
        if_exists: bool,
        /// Names.
        accounts: &'a [Account<'a>],
    },
    /// RENAME USER: old and new names
    RenameUser(&'a [(Account<'a>, Account<'a>)]),
    /// SET PASSWORD
    SetPassword(&'a SetPassword<'a>),
    /// GRANT, REVOKE
    Grant(&'a Grant<'a>),
    /// CREATE ROLE (true), DROP ROLE (false)
    Role {
        /// CREATE; otherwise DROP.
        create: bool,
        /// IF NOT EXISTS, IF EXISTS
        if_clause: bool,
        /// The roles.
        roles: &'a [Account<'a>],
    },
    /// SET ROLE, SET DEFAULT ROLE
    SetRole(&'a SetRole<'a>),
    /// PREPARE
    Prepare {
        /// The statement's name.
        name: Ident<'a>,
        /// Its text.
        source: PrepareSource<'a>,
    },
    /// EXECUTE
    Execute {
        /// The statement's name.
        name: Ident<'a>,
        /// USING: user variables without their sign.
        using: &'a [&'a [u8]],
    },
    /// DEALLOCATE PREPARE, DROP PREPARE
    Deallocate(Ident<'a>),
    /// ANALYZE, CHECK, OPTIMIZE, REPAIR, CHECKSUM TABLE
    Maintain(&'a Maintain<'a>),
    /// FLUSH
    Flush(&'a Flush<'a>),
    /// RESET
    Reset(&'a [Ident<'a>]),
    /// Statements of a replica
    Replica(ReplicaStatement<'a>),
    /// PURGE BINARY LOGS
    Purge(&'a Purge<'a>),
    /// BINLOG
    Binlog(&'a [u8]),
    /// IMPORT TABLE FROM
    ImportTable(&'a [&'a [u8]]),
    /// HELP
    Help(&'a [u8]),
    /// SHUTDOWN
    Shutdown,
    /// RESTART
    Restart,
    /// INSTALL PLUGIN name SONAME file; UNINSTALL PLUGIN name
    Plugin {
        /// Its name.
        name: Ident<'a>,
        /// The file; None: UNINSTALL.
        soname: Option<&'a [u8]>,
    },
}
