//! Row accesses by table: `table_io_waits_summary_by_table` and `sys.schema_table_statistics`.
//!
//! All front ends count ([`porpoise_rows::table::TableAccesses`]). The times of accesses are not
//! measured, so that columns of times are 0; rows are read from memory, so that the files of a table
//! have no reads.

use crate::context::StatementContext;
use crate::results::table::text;
use crate::show::constraints::tables;
use porpoise_rows::catalog::Table;
use porpoise_rows::table::AccessKind;
use porpoise_sql_expr::functions::units::pico_time;
use porpoise_types::Value;
use std::cmp::Reverse;

/// Numbers of row accesses of one table.
struct Accesses {
    database: String,
    name: String,
    fetched: u64,
    inserted: u64,
    updated: u64,
    deleted: u64,
}

impl Accesses {
    fn of(table: &Table) -> Accesses {
        let get = |kind| table.accesses().get(kind);
        Accesses {
            database: table.database.clone(),
            name: table.name.clone(),
            fetched: get(AccessKind::Fetch),
            inserted: get(AccessKind::Insert),
            updated: get(AccessKind::Update),
            deleted: get(AccessKind::Delete),
        }
    }

    fn writes(&self) -> u64 {
        self.inserted + self.updated + self.deleted
    }

    fn all(&self) -> u64 {
        self.fetched + self.writes()
    }
}

/// The tables that the account sees, without those of `mysql`.
fn accesses(cx: &StatementContext) -> Vec<Accesses> {
    let catalog = cx.visible_catalog();
    let all = tables(&catalog).filter(|table| table.database != "mysql");
    all.map(|table| Accesses::of(table)).collect()
}

/// Rows of table_io_waits_summary_by_table.
pub(super) fn io_waits(cx: &StatementContext) -> Vec<Vec<Value>> {
    let row = |table: Accesses| {
        let mut row = vec![text("TABLE"), text(&table.database), text(&table.name)];
        let counts = [
            table.all(),
            table.fetched,
            table.writes(),
            table.fetched,
            table.inserted,
            table.updated,
            table.deleted,
        ];
        for count in counts {
            row.push(Value::UInt(count));
            // SUM, MIN, AVG and MAX of its times.
            row.extend(super::zeros(4));
        }
        row
    };
    accesses(cx).into_iter().map(row).collect()
}

/// Rows of schema_table_statistics, and with plain numbers of x$schema_table_statistics; most
/// accesses first.
pub(super) fn statistics(cx: &StatementContext, formatted: bool) -> Vec<Vec<Value>> {
    let time = || match formatted {
        true => text(pico_time(0.0)),
        false => Value::UInt(0),
    };
    let size = || match formatted {
        true => text("0 bytes"),
        false => Value::UInt(0),
    };
    let mut all = accesses(cx);
    all.sort_by_key(|table| Reverse(table.all()));
    let row = |table: Accesses| {
        let mut row = vec![text(&table.database), text(&table.name), time()];
        for count in [table.fetched, table.inserted, table.updated, table.deleted] {
            row.extend([Value::UInt(count), time()]);
        }
        for transfers in [true, true, false] {
            row.push(Value::UInt(0));
            if transfers {
                row.push(size());
            }
            row.push(time());
        }
        row
    };
    all.into_iter().map(row).collect()
}
