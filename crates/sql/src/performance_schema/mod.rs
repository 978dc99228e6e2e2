//! Rows of the tables of `performance_schema` and `sys`, which
//! [`porpoise_sql_plan::virtual_tables`] defines.
//!
//! Times are in picoseconds, as in MySQL, from counters in nanoseconds. Columns for which the server
//! has no counter (temporary tables, sorts, CPU time, memory) are 0.

mod locks;
mod replication;
mod sessions;
mod table_statistics;

use crate::context::StatementContext;
use crate::results::table::{text, text_or_null};
use crate::show::constraints::tables;
use crate::show::server;
use crate::statements::digests::Summary;
use crate::statements::slow_log::SlowStatement;
use crate::vars::{VARIABLES, VarKind, Variable, check};
use porpoise_access::persisted;
use porpoise_base::histogram::lower_limit;
use porpoise_rows::catalog::{Index, Table};
use porpoise_sql_expr::error::Result;
use porpoise_sql_expr::functions::digest::hash_of;
use porpoise_sql_expr::functions::units::pico_time;
use porpoise_sql_parser::ast::VarScope;
use porpoise_types::{DateTime, Time, Value};
use std::time::Duration;

/// Computes the rows of a table.
type RowsOf = fn(&StatementContext) -> Result<Vec<Vec<Value>>>;

/// The function for a table; `None` if there is no such table.
pub(crate) fn rows_of(database: &str, name: &str) -> Option<RowsOf> {
    let rows: RowsOf = match (database, name) {
        ("mysql", "slow_log") => |cx| Ok(slow_log(cx)),
        ("performance_schema", "data_lock_waits") => locks::data_lock_waits,
        ("performance_schema", "data_locks") => locks::data_locks,
        ("performance_schema", "events_stages_current") => sessions::stages,
        ("performance_schema", "events_statements_current") => sessions::current,
        ("performance_schema", "events_statements_history") => sessions::history,
        ("performance_schema", "events_statements_histogram_by_digest") => |cx| Ok(histograms(cx)),
        ("performance_schema", "events_statements_summary_by_digest") => |cx| Ok(summaries(cx)),
        ("performance_schema", "global_status") => {
            |cx| Ok(server::status(cx, VarScope::Global).into_rows())
        }
        ("performance_schema", "global_variables") => {
            |cx| Ok(server::variables(cx, VarScope::Global).into_rows())
        }
        ("performance_schema", "metadata_locks") => locks::metadata_locks,
        ("performance_schema", "persisted_variables") => persisted_variables,
        ("performance_schema", "replication_applier_configuration") => {
            replication::applier_configuration
        }
        ("performance_schema", "replication_applier_status") => replication::applier_status,
        ("performance_schema", "replication_applier_status_by_worker") => {
            replication::applier_status_by_worker
        }
        ("performance_schema", "replication_connection_configuration") => {
            replication::connection_configuration
        }
        ("performance_schema", "replication_connection_status") => replication::connection_status,
        ("performance_schema", "replication_group_member_stats") => replication::group_member_stats,
        ("performance_schema", "replication_group_members") => replication::group_members,
        ("performance_schema", "session_status") => {
            |cx| Ok(server::status(cx, VarScope::Session).into_rows())
        }
        ("performance_schema", "session_variables") => {
            |cx| Ok(server::variables(cx, VarScope::Session).into_rows())
        }
        ("performance_schema", "table_io_waits_summary_by_table") => {
            |cx| Ok(table_statistics::io_waits(cx))
        }
        ("performance_schema", "variables_info") => variables_info,
        ("sys", "host_summary") => |cx| Ok(sessions::host_summary(cx, true)),
        ("sys", "x$host_summary") => |cx| Ok(sessions::host_summary(cx, false)),
        ("sys", "innodb_lock_waits" | "x$innodb_lock_waits") => locks::innodb_lock_waits,
        ("sys", "processlist" | "session") => |cx| Ok(sessions::processlist(cx, true)),
        ("sys", "x$processlist" | "x$session") => |cx| Ok(sessions::processlist(cx, false)),
        ("sys", "schema_redundant_indexes") => |cx| Ok(redundant_indexes(cx)),
        ("sys", "schema_table_statistics") => |cx| Ok(table_statistics::statistics(cx, true)),
        ("sys", "x$schema_table_statistics") => |cx| Ok(table_statistics::statistics(cx, false)),
        ("sys", "schema_unused_indexes") => |cx| Ok(unused_indexes(cx)),
        ("sys", "statement_analysis") => |cx| Ok(analysis(cx, true)),
        ("sys", "x$statement_analysis") => |cx| Ok(analysis(cx, false)),
        _ => return None,
    };
    Some(rows)
}

/// Sets the counters of a table to zero, for TRUNCATE TABLE; returns false for tables without
/// counters.
pub(crate) fn reset(cx: &StatementContext, database: &str, name: &str) -> bool {
    let has_counters = database.eq_ignore_ascii_case("performance_schema")
        && [
            "events_statements_summary_by_digest",
            "events_statements_histogram_by_digest",
        ]
        .iter()
        .any(|table| name.eq_ignore_ascii_case(table));
    if has_counters {
        cx.server.reset_statement_summaries();
    }
    has_counters
}

const PICOS_PER_NANO: u64 = 1000;

const PICOS_PER_MICRO: u64 = 1_000_000;

fn picos(nanos: u64) -> u64 {
    nanos.saturating_mul(PICOS_PER_NANO)
}

fn duration_picos(duration: Duration) -> u64 {
    picos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A time after the server's start as local time of the session.
fn moment(cx: &StatementContext, after_start: u64) -> Value {
    let clock = cx.server.db.clock();
    let uptime = clock.now().saturating_duration_since(cx.server.started);
    moment_ago(cx, uptime.saturating_sub(Duration::from_nanos(after_start)))
}

/// A time before now as local time of the session.
fn moment_ago(cx: &StatementContext, ago: Duration) -> Value {
    let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
    let now = cx.server.db.clock().unix_micros();
    let at = DateTime::from_unix_micros(now.saturating_sub(micros));
    at.map_or(Value::Null, |utc| {
        Value::DateTime(cx.env.time_zone.utc_to_local(utc))
    })
}

/// SCHEMA_NAME, DIGEST and DIGEST_TEXT; NULL for statements without a digest.
fn identity(summary: &Summary) -> [Value; 3] {
    let key = &summary.key;
    if key.text.is_empty() {
        return [Value::Null, Value::Null, Value::Null];
    }
    let database = text_or_null(key.database.as_deref());
    [database, text(hash_of(&key.text)), text(&key.text)]
}

/// Rows of events_statements_summary_by_digest.
fn summaries(cx: &StatementContext) -> Vec<Vec<Value>> {
    let row = |summary: Summary| {
        let s = &summary;
        let sample = s.sample.clone().unwrap_or_default();
        let quantile = |fraction| Value::UInt(duration_picos(s.latencies.quantile(fraction)));
        let mut row = identity(s).to_vec();
        row.extend(
            [
                s.count,
                picos(s.nanos),
                picos(s.min_nanos),
                picos(s.nanos / s.count.max(1)),
                picos(s.max_nanos),
                picos(s.lock_nanos),
                s.errors,
                s.warnings,
                s.rows_affected,
                s.rows_sent,
                s.rows_examined,
            ]
            .map(Value::UInt),
        );
        // SUM_CREATED_TMP_DISK_TABLES to SUM_SELECT_RANGE_CHECK.
        row.extend(zeros(6));
        row.push(Value::UInt(s.table_scans));
        // SUM_SORT_MERGE_PASSES to SUM_SORT_SCAN.
        row.extend(zeros(4));
        row.push(Value::UInt(s.table_scans));
        // SUM_NO_GOOD_INDEX_USED to COUNT_SECONDARY.
        row.extend(zeros(5));
        row.extend([
            moment(cx, s.first_seen),
            moment(cx, s.last_seen),
            quantile(0.95),
            quantile(0.99),
            quantile(0.999),
            text(sample.text),
            moment(cx, sample.seen),
            Value::UInt(picos(sample.nanos)),
        ]);
        row
    };
    cx.server
        .statement_summaries()
        .into_iter()
        .map(row)
        .collect()
}

fn zeros(n: usize) -> impl Iterator<Item = Value> {
    std::iter::repeat_n(Value::UInt(0), n)
}

/// Rows of events_statements_histogram_by_digest: the buckets that are not empty.
fn histograms(cx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for summary in cx.server.statement_summaries() {
        let [database, digest, _] = identity(&summary);
        let total = summary.latencies.total().max(1);
        let mut below = 0;
        for (bucket, count) in summary.latencies.buckets().iter().enumerate() {
            if *count == 0 {
                continue;
            }
            below += count;
            rows.push(vec![
                database.clone(),
                digest.clone(),
                Value::UInt(bucket as u64),
                Value::UInt(lower_limit(bucket) * PICOS_PER_MICRO),
                Value::UInt(lower_limit(bucket + 1) * PICOS_PER_MICRO),
                Value::UInt(*count),
                Value::UInt(below),
                Value::Double(below as f64 / total as f64),
            ]);
        }
    }
    rows
}

/// Rows of persisted_variables.
fn persisted_variables(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let stored = persisted::load(&cx.server.db)?.into_iter();
    Ok(stored
        .map(|variable| vec![text(variable.name), text(variable.value)])
        .collect())
}

/// Rows of variables_info: where each global value comes from.
fn variables_info(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let stored = persisted::load(&cx.server.db)?;
    let globals = cx.server.globals.read().clone();
    let initial = &cx.server.initial_values;
    let row = |(at, variable): (usize, &Variable)| {
        let value = globals.value_at(at);
        let persisted = stored
            .iter()
            .find(|p| p.name == variable.name && p.value == value.text());
        let source = if persisted.is_some() {
            "PERSISTED"
        } else if value != initial.value_at(at) {
            "DYNAMIC"
        } else if value.text() != default_text(variable) {
            "EXPLICIT"
        } else {
            "COMPILED"
        };
        let (min, max) = match variable.kind {
            VarKind::Int(min, max) => (min.to_string(), max.to_string()),
            VarKind::Double(min, max) => (min.to_string(), max.to_string()),
            _ => ("0".to_owned(), "0".to_owned()),
        };
        let set_at = persisted.and_then(|p| DateTime::from_unix_micros(p.set_at));
        vec![
            text(variable.name),
            text(source),
            text(""),
            text(min),
            text(max),
            set_at.map_or(Value::Null, |utc| {
                Value::DateTime(cx.env.time_zone.utc_to_local(utc))
            }),
            text_or_null(persisted.map(|p| p.user.as_str())),
            text_or_null(persisted.map(|p| p.host.as_str())),
        ]
    };
    let global = VARIABLES
        .iter()
        .enumerate()
        .filter(|(_, variable)| variable.scope.global());
    Ok(global.map(row).collect())
}

/// The default of a variable, as SHOW prints it.
fn default_text(variable: &Variable) -> String {
    check::from_text(variable, variable.default).map_or_else(|_| String::new(), |v| v.text())
}

/// Rows of `mysql.slow_log`.
fn slow_log(cx: &StatementContext) -> Vec<Vec<Value>> {
    let time = |duration: Duration| {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Value::Time(Time::clip(micros).0)
    };
    let row = |logged: SlowStatement| {
        let began = logged
            .ended
            .saturating_sub(i64::try_from(logged.elapsed.as_micros()).unwrap_or(i64::MAX));
        let began = DateTime::from_unix_micros(began);
        let user = format!(
            "{user}[{user}] @ {host} []",
            user = logged.user,
            host = logged.host
        );
        vec![
            began.map_or(Value::Null, Value::DateTime),
            text(user),
            time(logged.elapsed),
            time(logged.lock_wait),
            Value::UInt(logged.rows_sent),
            Value::UInt(logged.rows_examined),
            text(logged.database),
            Value::UInt(logged.insert_id),
            Value::UInt(0),
            Value::UInt(1),
            text(logged.text),
            Value::UInt(logged.connection),
        ]
    };
    cx.server.slow_log.rows().into_iter().map(row).collect()
}

/// Longest text in `query` of `sys.statement_analysis` (`sys.statement_truncate_len`).
const SHOWN_QUERY: usize = 64;

/// A statement's text, shortened in the middle, as sys.format_statement() does.
fn shortened(statement: &str) -> String {
    let chars: Vec<char> = statement.chars().collect();
    if chars.len() <= SHOWN_QUERY {
        return statement.to_owned();
    }
    let side = SHOWN_QUERY / 2 - 2;
    let first = chars.iter().take(side);
    let last = chars.iter().skip(chars.len() - side);
    let middle = [' ', '.', '.', '.', ' '];
    first.chain(&middle).chain(last).collect()
}

/// Rows of statement_analysis, and with plain numbers of x$statement_analysis; longest total time
/// first.
fn analysis(cx: &StatementContext, formatted: bool) -> Vec<Vec<Value>> {
    let time = |nanos: u64| match formatted {
        true => text(pico_time(picos(nanos) as f64)),
        false => Value::UInt(picos(nanos)),
    };
    let mut all = cx.server.statement_summaries();
    all.sort_by_key(|summary| std::cmp::Reverse(summary.nanos));
    let row = |summary: Summary| {
        let s = &summary;
        let [database, digest, query] = identity(s);
        let query = match (formatted, query) {
            (true, Value::Bytes(_)) => text(shortened(&s.key.text)),
            (_, query) => query,
        };
        let average = |n: u64| {
            let rounded = (n + s.count / 2) / s.count.max(1);
            Value::UInt(rounded)
        };
        let mut row = vec![
            query,
            database,
            text(if s.table_scans > 0 { "*" } else { "" }),
            Value::UInt(s.count),
            Value::UInt(s.errors),
            Value::UInt(s.warnings),
            time(s.nanos),
            time(s.max_nanos),
            time(s.nanos / s.count.max(1)),
            time(s.lock_nanos),
            time(0),
            Value::UInt(s.rows_sent),
            average(s.rows_sent),
            Value::UInt(s.rows_examined),
            average(s.rows_examined),
            Value::UInt(s.rows_affected),
            average(s.rows_affected),
        ];
        // tmp_tables to sort_merge_passes.
        row.extend(zeros(4));
        // max_controlled_memory and max_total_memory.
        let memory = || {
            if formatted {
                text("0 bytes")
            } else {
                Value::UInt(0)
            }
        };
        row.extend([
            memory(),
            memory(),
            digest,
            moment(cx, s.first_seen),
            moment(cx, s.last_seen),
        ]);
        row
    };
    all.into_iter().map(row).collect()
}

/// An index as schema_redundant_indexes compares it.
struct IndexColumns<'t> {
    index: &'t Index,
    /// Names of the columns, separated by commas.
    columns: String,
    has_prefix: bool,
}

impl IndexColumns<'_> {
    fn new<'t>(table: &Table, index: &'t Index) -> IndexColumns<'t> {
        let names = index.parts.iter().filter_map(|part| {
            let column = table.columns.get(part.column)?;
            Some(column.name.as_str())
        });
        IndexColumns {
            index,
            columns: names.collect::<Vec<_>>().join(","),
            has_prefix: index.parts.iter().any(|part| part.prefix.is_some()),
        }
    }

    fn is_unique(&self) -> bool {
        self.index.kind.is_unique()
    }

    /// The name by which equal indexes are compared: the primary key is before all others.
    fn rank(&self) -> &str {
        if self.index.name == "PRIMARY" {
            ""
        } else {
            &self.index.name
        }
    }

    /// Whether `self` can be dropped because `other` serves the same look-ups (the conditions of
    /// sys.schema_redundant_indexes).
    fn is_redundant_beside(&self, other: &IndexColumns<'_>) -> bool {
        let begins = |whole: &str, start: &str| {
            whole
                .strip_prefix(start)
                .is_some_and(|rest| rest.starts_with(','))
        };
        if self.columns == other.columns {
            return match (self.is_unique(), other.is_unique()) {
                (false, true) => true,
                (true, false) => false,
                _ => self.rank() > other.rank(),
            };
        }
        begins(&other.columns, &self.columns) && !self.is_unique()
            || begins(&self.columns, &other.columns) && other.is_unique()
    }
}

/// Rows of schema_unused_indexes: indexes that are not unique and that no statement has read.
fn unused_indexes(cx: &StatementContext) -> Vec<Vec<Value>> {
    let catalog = cx.visible_catalog();
    let mut rows = Vec::new();
    for table in tables(&catalog).filter(|table| table.database != "mysql") {
        for (at, index) in table.indexes.iter().enumerate() {
            if !index.kind.is_unique() && !table.is_index_used(at) {
                rows.push(vec![
                    text(&table.database),
                    text(&table.name),
                    text(&index.name),
                ]);
            }
        }
    }
    rows
}

/// Rows of schema_redundant_indexes.
fn redundant_indexes(cx: &StatementContext) -> Vec<Vec<Value>> {
    let catalog = cx.visible_catalog();
    let mut rows = Vec::new();
    for table in tables(&catalog) {
        let indexes: Vec<IndexColumns<'_>> = table
            .indexes
            .iter()
            .filter(|index| crate::show::schema::index_type(index) == "BTREE")
            .map(|index| IndexColumns::new(table, index))
            .filter(|index| !index.columns.is_empty())
            .collect();
        for redundant in &indexes {
            let others = indexes
                .iter()
                .filter(|other| !std::ptr::eq(*other, redundant));
            for dominant in others.filter(|other| redundant.is_redundant_beside(other)) {
                rows.push(redundant_row(table, redundant, dominant));
            }
        }
    }
    rows
}

fn redundant_row(
    table: &Table,
    redundant: &IndexColumns<'_>,
    dominant: &IndexColumns<'_>,
) -> Vec<Value> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let drop = format!(
        "ALTER TABLE {}.{} DROP INDEX {}",
        quoted(&table.database),
        quoted(&table.name),
        quoted(&redundant.index.name)
    );
    let has_prefix = redundant.has_prefix || dominant.has_prefix;
    vec![
        text(&table.database),
        text(&table.name),
        text(&redundant.index.name),
        text(&redundant.columns),
        Value::UInt(u64::from(!redundant.is_unique())),
        text(&dominant.index.name),
        text(&dominant.columns),
        Value::UInt(u64::from(!dominant.is_unique())),
        Value::UInt(u64::from(has_prefix)),
        text(drop),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_sql_plan::virtual_tables;

    #[test]
    fn every_defined_table_has_rows() {
        for table in virtual_tables::all() {
            if ["performance_schema", "sys"].contains(&table.database) {
                assert!(
                    rows_of(table.database, table.name).is_some(),
                    "{}.{}",
                    table.database,
                    table.name
                );
            }
        }
    }

    #[test]
    fn long_statements_are_shortened_in_the_middle() {
        assert_eq!(shortened("SELECT ?"), "SELECT ?");
        let long = format!("SELECT {} FROM `t`", "`a` , ".repeat(30));
        let shown = shortened(&long);
        assert!(shown.starts_with("SELECT `a`") && shown.ends_with("FROM `t`"));
        assert_eq!(shown.chars().count(), SHOWN_QUERY + 1);
    }
}
