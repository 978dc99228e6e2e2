//! Positions in the log of a source, and the table that keeps a replica's.
//!
//! `mysql.replica_position` has one row. The transaction that applies the rows of a source's transaction also writes
//! that row, so that after a crash of the replica both are there or neither: it goes on exactly where it ended,
//! whatever it had received.
//!
//! A definition (CREATE TABLE ...) is a transaction of its own. Before it, the row gets the position of its event and
//! the version of the catalog ([`PendingDefinition`]), durably; after it, the new position. If the replica finds a
//! pending definition when it starts, and the catalog has another version, the definition was executed.

use crate::gtid::mariadb::{MariadbGtid, MariadbPosition};
use crate::gtid::{Gtid, GtidSet};
use porpoise_kv::{CommitPosition, Read};
use porpoise_rows::catalog::TableOptions;
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::table::Table;
use porpoise_rows::{BeginOptions, Db, InsertMode, KeyRange, ScanPosition, ScanSpec, Txn};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::sync::Arc;

/// A place in a file of the source's log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Coordinates {
    /// File; empty: the first one that the source has.
    pub file: String,
    /// Position of the next event in it.
    pub position: u64,
}

impl Coordinates {
    /// Whether it is this position or a later one. Names of files end with a number of at least six digits.
    #[must_use]
    pub fn is_at_or_after(&self, file: &str, position: u64) -> bool {
        let own = (self.file.len(), self.file.as_str(), self.position);
        own >= (file.len(), file, position)
    }
}

/// Transactions that were applied: of a MySQL source a set, of a MariaDB source the last one of each domain.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GtidPosition {
    /// Of MySQL.
    pub mysql: GtidSet,
    /// Of MariaDB.
    pub mariadb: MariadbPosition,
}

/// Identifier of a transaction of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyGtid {
    /// Of MySQL.
    Mysql(Gtid),
    /// Of MariaDB.
    Mariadb(MariadbGtid),
}

impl std::fmt::Display for AnyGtid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AnyGtid::Mysql(gtid) => gtid.fmt(f),
            AnyGtid::Mariadb(gtid) => gtid.fmt(f),
        }
    }
}

impl GtidPosition {
    /// Whether no transaction is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mysql.is_empty() && self.mariadb.is_empty()
    }

    /// Adds a transaction.
    pub fn insert(&mut self, gtid: AnyGtid) {
        match gtid {
            AnyGtid::Mysql(gtid) => drop(self.mysql.insert(gtid)),
            AnyGtid::Mariadb(gtid) => self.mariadb.advance(gtid),
        }
    }

    /// Whether a transaction was applied.
    #[must_use]
    pub fn contains(&self, gtid: AnyGtid) -> bool {
        match gtid {
            AnyGtid::Mysql(gtid) => self.mysql.contains(gtid),
            AnyGtid::Mariadb(gtid) => self.mariadb.contains(gtid),
        }
    }

    /// Reads a set of MySQL or a position of MariaDB.
    ///
    /// # Errors
    /// Text that is neither.
    pub fn parse(text: &str) -> Result<GtidPosition, crate::gtid::GtidError> {
        let mut position = GtidPosition::default();
        match MariadbPosition::parse(text) {
            Ok(mariadb) => position.mariadb = mariadb,
            Err(_) => position.mysql = GtidSet::parse(text)?,
        }
        Ok(position)
    }
}

impl std::fmt::Display for GtidPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.mysql.is_empty() {
            self.mariadb.fmt(f)
        } else {
            self.mysql.fmt(f)
        }
    }
}

/// A definition that was about to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDefinition {
    /// End of its event.
    pub event: Coordinates,
    /// Version of the catalog before it.
    pub catalog_version: u64,
}

/// The position up to which a replica has applied its source's log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AppliedPosition {
    /// End of the last transaction.
    pub coordinates: Coordinates,
    /// The transactions.
    pub gtids: GtidPosition,
    /// See [`PendingDefinition`].
    pub pending: Option<PendingDefinition>,
    /// Settings of the source, as an opaque text of the caller.
    pub settings: String,
}

const DATABASE: &str = "mysql";
const NAME: &str = "replica_position";

fn spec() -> TableSpec {
    let text = |name: &str, length| {
        ColumnSpec::new(name, ColumnType::varchar(length, Collation::UTF8MB4_BIN)).not_null()
    };
    let long = |name: &str| {
        let ty = ColumnType::text(Kind::LongText, Collation::UTF8MB4_BIN);
        ColumnSpec::new(name, ty).not_null()
    };
    let number = |name: &str| ColumnSpec::new(name, ColumnType::bigint_unsigned());
    let columns = vec![
        text("Channel_name", 64),
        text("Source_log_file", 512),
        number("Source_log_pos").not_null(),
        long("Executed_gtid_set"),
        long("Mariadb_gtid_pos"),
        text("Pending_log_file", 512),
        number("Pending_log_pos"),
        number("Pending_catalog_version"),
        long("Settings"),
    ];
    let options = TableOptions {
        comment: "Position of this replica in the log of its source".to_owned(),
        ..TableOptions::new(Collation::UTF8MB4_BIN)
    };
    TableSpec {
        if_not_exists: true,
        ..TableSpec::new(
            DATABASE,
            NAME,
            columns,
            vec![IndexSpec::primary(&["Channel_name"])],
            options,
        )
    }
}

/// The table of the position.
#[derive(Clone)]
pub struct PositionTable {
    db: Arc<Db>,
}

impl PositionTable {
    /// The table in a database.
    #[must_use]
    pub fn new(db: Arc<Db>) -> PositionTable {
        PositionTable { db }
    }

    fn find(&self) -> Option<Arc<Table>> {
        self.db.catalog().table(DATABASE, NAME).cloned()
    }

    fn table(&self) -> porpoise_rows::Result<Arc<Table>> {
        self.find().ok_or_else(|| {
            let text = format!("Table '{DATABASE}.{NAME}' doesn't exist");
            porpoise_rows::Error::refused(1146, "42S02", text)
        })
    }

    /// Reads the position; `None` if there is no source.
    ///
    /// # Errors
    /// The engine's.
    pub fn load(&self) -> porpoise_rows::Result<Option<AppliedPosition>> {
        let Some(table) = self.find() else {
            return Ok(None);
        };
        let mut txn = self.db.begin(BeginOptions::default())?;
        let spec = ScanSpec {
            index: 0,
            ranges: vec![KeyRange::ALL],
            reverse: false,
            entries_only: false,
        };
        let (mut position, mut found) = (ScanPosition::default(), None);
        txn.scan(
            &table,
            &spec,
            Read::SNAPSHOT,
            &mut position,
            1,
            &mut |_, row| {
                found = Some(row.values());
            },
        )?;
        txn.rollback();
        Ok(found.map(|values| decode(&values)))
    }

    /// Creates the table, if there is none, and writes a position; returns when it is durable.
    ///
    /// # Errors
    /// The engine's.
    pub fn save(&self, position: &AppliedPosition) -> porpoise_rows::Result<()> {
        if self.find().is_none() {
            let done = self.db.define(|cx| self.db.create_table(cx, &spec()))?;
            self.db.engine().wait_durable(done.position)?;
        }
        let mut txn = self.db.begin(BeginOptions {
            sync: true,
            ..BeginOptions::default()
        })?;
        self.write(&mut txn, position)?;
        let done: CommitPosition = txn.commit()?.position;
        self.db.engine().wait_durable(done)?;
        Ok(())
    }

    /// Writes a position in the caller's transaction.
    ///
    /// # Errors
    /// The engine's; the table does not exist.
    pub fn write(&self, txn: &mut Txn, position: &AppliedPosition) -> porpoise_rows::Result<()> {
        let row = encode(position);
        txn.insert(&self.table()?, vec![row], InsertMode::Replace)?;
        Ok(())
    }

    /// Forgets source and position.
    ///
    /// # Errors
    /// The engine's.
    pub fn remove(&self) -> porpoise_rows::Result<()> {
        let Some(table) = self.find() else {
            return Ok(());
        };
        let mut txn = self.db.begin(BeginOptions {
            sync: true,
            ..BeginOptions::default()
        })?;
        let key = table.primary_key(&encode(&AppliedPosition::default()));
        let rows = txn.lock_present(&table, &[key], |_| true)?;
        txn.delete(&table, rows)?;
        let done = txn.commit()?.position;
        self.db.engine().wait_durable(done)?;
        Ok(())
    }
}

fn encode(position: &AppliedPosition) -> Vec<Value> {
    let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
    let pending = position.pending.as_ref();
    vec![
        text(""),
        text(&position.coordinates.file),
        Value::UInt(position.coordinates.position),
        text(&position.gtids.mysql.to_string()),
        text(&position.gtids.mariadb.to_string()),
        text(pending.map_or("", |pending| &pending.event.file)),
        pending.map_or(Value::Null, |pending| Value::UInt(pending.event.position)),
        pending.map_or(Value::Null, |pending| Value::UInt(pending.catalog_version)),
        text(&position.settings),
    ]
}

fn decode(values: &[Value]) -> AppliedPosition {
    let text = |at: usize| match values.get(at).map(Value::as_ref) {
        Some(ValueRef::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let number = |at: usize| match values.get(at) {
        Some(Value::UInt(number)) => Some(*number),
        _ => None,
    };
    let pending = number(6).zip(number(7));
    AppliedPosition {
        coordinates: Coordinates {
            file: text(1),
            position: number(2).unwrap_or(0),
        },
        gtids: GtidPosition {
            mysql: GtidSet::parse(&text(3)).unwrap_or_default(),
            mariadb: MariadbPosition::parse(&text(4)).unwrap_or_default(),
        },
        pending: pending.map(|(position, catalog_version)| PendingDefinition {
            event: Coordinates {
                file: text(5),
                position,
            },
            catalog_version,
        }),
        settings: text(8),
    }
}
