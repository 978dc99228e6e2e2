//! ANALYZE, CHECK, OPTIMIZE and REPAIR of tables and of partitions.
//!
//! They reply with rows of messages, even about tables and partitions that do not exist. What concerns a
//! partition is done for the whole table.

use super::{Outcome, SqlSession};
use crate::results::table::{Rows, text_column};
use porpoise_rows::catalog::Table;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    AlterAction, AlterTable, Ident, Maintain, MaintainKind, PartitionMaintenance,
};
use porpoise_types::Value;

/// Type and text of a message.
type Message = (&'static str, String);

/// An empty list of messages as the statements send it.
fn messages() -> Rows {
    Rows::new(vec![
        text_column("Table", 128),
        text_column("Op", 10),
        text_column("Msg_type", 10),
        text_column("Msg_text", 16_384),
    ])
}

fn message(cells: [&str; 4]) -> Vec<Value> {
    let cells = cells.iter();
    cells.map(|c| Value::Bytes(c.as_bytes().to_vec())).collect()
}

fn failed(error: SqlError) -> Vec<Message> {
    let status = ("status", "Operation failed".to_owned());
    vec![("Error", error.message), status]
}

/// Errors 1505 and 1507: the table has no partitions, or not these.
fn check_partitions(table: &Table, names: &[Ident<'_>], verb: &str) -> Result<()> {
    let Some(by) = &table.partitioning else {
        let text = "Partition management on a not partitioned table is not possible";
        return Err(SqlError::new(1505, "HY000", text));
    };
    if names.iter().any(|n| by.partition(n.name).is_none()) {
        let text = format!("Error in list of partitions to {verb}");
        return Err(SqlError::new(1507, "HY000", text));
    }
    Ok(())
}

/// The clause of a statement that maintains partitions and changes no row.
pub(super) fn clause<'q, 'a>(
    alter: &'q AlterTable<'a>,
) -> Option<(PartitionMaintenance, &'q [Ident<'a>])> {
    let is_method =
        |a: &AlterAction<'_>| matches!(a, AlterAction::Algorithm(_) | AlterAction::Lock(_));
    let mut actions = alter.actions.iter().filter(|a| !is_method(a));
    match (actions.next(), actions.next()) {
        (Some(AlterAction::MaintainPartitions(what, names)), None)
            if *what != PartitionMaintenance::Truncate =>
        {
            Some((*what, names))
        }
        _ => None,
    }
}

impl SqlSession {
    /// Executes ANALYZE, CHECK, OPTIMIZE and REPAIR TABLE.
    pub(super) fn maintain(
        &mut self,
        maintain: &Maintain<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let position = self.commit()?;
        let mut rows = messages();
        let op = match maintain.kind {
            MaintainKind::Analyze => "analyze",
            MaintainKind::Check => "check",
            MaintainKind::Optimize => "optimize",
            MaintainKind::Repair => "repair",
            MaintainKind::Checksum => "checksum",
        };
        for name in maintain.tables {
            let (database, _) = self.cx.qualified(name)?;
            let full = format!("{database}.{}", name.name.name);
            let extended = maintain.options.contains(&"EXTENDED");
            let what = (maintain.kind, extended);
            for (kind, text) in self.maintain_table(what, &database, name.name.name)? {
                rows.push(message([&full, op, kind, &text]));
            }
        }
        let mut outcome = rows.send(&mut self.cx, sink)?;
        outcome.position = position;
        Ok(outcome)
    }

    /// Executes the statement for one table; `extended` tells whether it has the option EXTENDED. Returns
    /// types and texts of its messages.
    fn maintain_table(
        &self,
        (kind, extended): (MaintainKind, bool),
        database: &str,
        name: &str,
    ) -> Result<Vec<Message>> {
        let catalog = self.cx.server.db.catalog();
        let Some(table) = catalog.table(database, name) else {
            return Ok(failed(SqlError::no_table(database, name)));
        };
        let ok = ("status", "OK".to_owned());
        match kind {
            MaintainKind::Check => {
                let (db, cx) = (&self.cx.server.db, self.ddl_cx());
                let found = match extended {
                    true => db.check_table_extended(&cx, table)?,
                    false => db.check_table(&cx, table)?,
                };
                let mut lines: Vec<_> = found
                    .1
                    .iter()
                    .map(|p| ("error", p.description.clone()))
                    .collect();
                if lines.is_empty() {
                    lines.push(ok);
                } else {
                    lines.push(("error", "Corrupt".to_owned()));
                }
                Ok(lines)
            }
            MaintainKind::Optimize => {
                self.cx.server.db.optimize_text_indexes(table)?;
                // MySQL's text; space is reclaimed without it.
                let text = "Table does not support optimize, doing recreate + analyze instead";
                Ok(vec![("note", text.to_owned()), ok])
            }
            MaintainKind::Repair => {
                let text = "The storage engine for the table doesn't support repair";
                Ok(vec![("note", text.to_owned())])
            }
            MaintainKind::Analyze => {
                self.cx
                    .server
                    .statistics
                    .analyze(&self.cx.server.db, table)?;
                self.update_histograms(table)?;
                Ok(vec![ok])
            }
            _ => Ok(vec![ok]),
        }
    }

    /// Executes ALTER TABLE ... ANALYZE, CHECK, OPTIMIZE, REBUILD and REPAIR PARTITION.
    pub(super) fn maintain_partitions(
        &mut self,
        alter: &AlterTable<'_>,
        (what, names): (PartitionMaintenance, &[Ident<'_>]),
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let position = self.commit()?;
        let (database, name) = self.resolve_for_ddl(&alter.name)?;
        let (kind, op) = match what {
            PartitionMaintenance::Analyze => (MaintainKind::Analyze, "analyze"),
            PartitionMaintenance::Check => (MaintainKind::Check, "check"),
            PartitionMaintenance::Optimize => (MaintainKind::Optimize, "optimize"),
            PartitionMaintenance::Repair => (MaintainKind::Repair, "repair"),
            // There is nothing to rebuild: a partition has no pages of its own.
            PartitionMaintenance::Rebuild | PartitionMaintenance::Truncate => {
                let catalog = self.cx.server.db.catalog();
                let table = catalog.table(&database, &name);
                let table = table.ok_or_else(|| SqlError::no_table(&database, &name))?;
                check_partitions(table, names, "REBUILD")?;
                return Ok(Outcome {
                    position,
                    ..Outcome::default()
                });
            }
        };
        let mut rows = messages();
        for (kind, text) in self.partition_messages(kind, op, &database, &name, names)? {
            rows.push(message([&format!("{database}.{name}"), op, kind, &text]));
        }
        let mut outcome = rows.send(&mut self.cx, sink)?;
        outcome.position = position;
        Ok(outcome)
    }

    fn partition_messages(
        &self,
        kind: MaintainKind,
        op: &str,
        database: &str,
        name: &str,
        names: &[Ident<'_>],
    ) -> Result<Vec<Message>> {
        let catalog = self.cx.server.db.catalog();
        if let Some(table) = catalog.table(database, name)
            && let Err(error) = check_partitions(table, names, &op.to_ascii_uppercase())
        {
            return Ok(failed(error));
        }
        let mut messages = self.maintain_table((kind, false), database, name)?;
        match (kind, messages.first_mut()) {
            (MaintainKind::Optimize, Some(first)) if first.0 == "note" => {
                let text = "Table does not support optimize on partitions. All partitions will \
                            be rebuilt and analyzed.";
                first.1 = text.to_owned();
            }
            (MaintainKind::Repair, Some(first)) if first.0 == "note" => {
                *first = ("status", "OK".to_owned());
            }
            _ => {}
        }
        Ok(messages)
    }
}
