//! SHOW statements on the server: variables, status, sessions, warnings, engines, character
//! sets and plugins.

use super::table::{
    Rows, long_column, number_column, text, text_column, text_or_null, typed_column,
};
use crate::binary_log;
use crate::context::StatementContext;
use crate::status::{self, Counter};
use crate::vars::VARIABLES;
use porpoise_access::{Privileges, ndbmemcache};
use porpoise_base::temp_files::TempDir;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::VarScope;
use porpoise_types::{Charset, Collation, Level, Value};
use std::sync::atomic::Ordering;

/// SHOW VARIABLES.
pub fn variables(cx: &StatementContext, scope: VarScope) -> Rows {
    let mut rows = Rows::new(vec![
        text_column("Variable_name", 64),
        text_column("Value", 2048),
    ]);
    for (at, variable) in VARIABLES.iter().enumerate() {
        let value = match (scope == VarScope::Global, variable.scope.session()) {
            (true, _) if !variable.scope.global() => continue,
            (true, _) | (false, false) => cx.global_value(at, variable.name).text(),
            (false, true) => cx.session_value(at, variable.name).text(),
        };
        rows.push(vec![text(variable.name), text(value)]);
    }
    rows
}

/// SHOW STATUS: what the session or all sessions have counted, and variables of the engine and of
/// other parts of the server.
pub fn status(cx: &StatementContext, scope: VarScope) -> Rows {
    let mut list = server_status(cx);
    for (name, value) in cx.server.provided_status() {
        list.retain(|(n, _)| *n != name);
        list.push((name, value));
    }
    let global = scope == VarScope::Global;
    let counted = |counter: Counter| {
        if global {
            cx.server.processes.sum(counter)
        } else {
            cx.counters.get(counter)
        }
    };
    for counter in Counter::ALL {
        // The server's list has the sums of bytes over all connections already.
        let known = list.iter_mut().find(|(name, _)| name == counter.name());
        match known {
            Some(_) if global => {}
            Some((_, value)) => *value = counted(*counter).to_string(),
            None => list.push((counter.name().to_owned(), counted(*counter).to_string())),
        }
    }
    list.sort();
    let mut rows = Rows::new(vec![
        text_column("Variable_name", 64),
        text_column("Value", 1024),
    ]);
    for (name, value) in list {
        rows.push(vec![text(name), text(value)]);
    }
    rows
}

/// The status variables that are the same for all sessions, and those of the connection.
fn server_status(cx: &StatementContext) -> Vec<(String, String)> {
    let server = &cx.server;
    let c = &server.counters;
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let temp_dir = server.memory.temp_dir();
    let temp = |count: fn(&TempDir) -> u64| temp_dir.map_or(0, |dir| count(dir));
    let stats = server.db.engine().stats();
    let mut list: Vec<(&str, u64)> = vec![
        ("Connections", load(&c.connections)),
        (
            "Created_tmp_disk_tables",
            temp(|dir| dir.disk_tables.load(Ordering::Relaxed)),
        ),
        ("Created_tmp_files", temp(TempDir::created)),
        ("Global_connection_memory", server.memory.used()),
        (
            "Innodb_row_lock_current_waits",
            server.db.engine().lock_waits().len() as u64,
        ),
        ("Last_query_partial_plans", cx.planning.partial_plans.get()),
        ("Max_used_connections", server.processes.max_count() as u64),
        ("Open_tables", server.db.catalog().tables.len() as u64),
        ("Porpoise_snapshot_conflicts", load(&c.conflicts)),
        ("Porpoise_statement_restarts", load(&c.restarts)),
        ("Prepared_stmt_count", server.prepared_statements()),
        (
            "Sort_merge_passes",
            temp(|dir| dir.merge_passes.load(Ordering::Relaxed)),
        ),
        ("Threads_connected", server.processes.count() as u64),
        ("Threads_running", running_sessions(cx)),
        ("Ttl_deleted_rows", server.db.ttl_counters().deleted()),
        ("Ttl_kept_rows", server.db.ttl_counters().kept()),
        ("Ttl_passes", server.db.ttl_counters().passes()),
        ("Uptime", server.uptime()),
    ];
    list.extend(status::ALWAYS_ZERO.iter().map(|name| (*name, 0)));
    for (name, counters) in status::COUNTER_SUMS {
        let sums = counters.iter().map(|c| server.processes.sum(*c));
        list.push((name, sums.sum()));
    }
    for (name, of) in status::ENGINE_STATS {
        let stat = stats.iter().find(|stat| stat.name == *of);
        list.extend(stat.map(|stat| (*name, stat.value)));
    }
    let numbers = list.into_iter();
    let mut list: Vec<(String, String)> = numbers
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect();
    for stat in stats {
        let name = format!("Porpoise_engine_{}", stat.name);
        list.push((name, stat.value.to_string()));
    }
    let (tls, compression) = (&cx.encryption, &cx.compression);
    let is_compressed = !compression.algorithm.is_empty();
    let on = if is_compressed { "ON" } else { "OFF" };
    let level = compression.level.to_string();
    list.push(("Compression".to_owned(), on.to_owned()));
    list.push((
        "Compression_algorithm".to_owned(),
        compression.algorithm.to_owned(),
    ));
    list.push(("Compression_level".to_owned(), level));
    list.push(("Ssl_cipher".to_owned(), tls.cipher.clone()));
    list.push(("Ssl_version".to_owned(), tls.version.clone()));
    if let Some(log) = server.binary_log() {
        list.extend(binary_log::ack_variables(&log.acknowledgement()));
    }
    list
}

/// SHOW of a memcached key: how each memcached listener resolves it, and the row found.
pub fn key_mapping(cx: &StatementContext, key: &[u8]) -> Rows {
    let columns = ndbmemcache::key_columns();
    let columns = columns.into_iter().map(|(name, ty)| typed_column(name, ty));
    let mut rows = Rows::new(columns.collect());
    for row in cx.server.key_mappings(key, &cx.rights()) {
        rows.push(row);
    }
    rows
}

fn running_sessions(cx: &StatementContext) -> u64 {
    let now = cx.server.db.clock().now();
    let list = cx.server.processes.list();
    list.iter()
        .filter(|p| p.state(now).command != "Sleep")
        .count() as u64
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Note => "Note",
        Level::Warning => "Warning",
        Level::Error => "Error",
    }
}

/// SHOW WARNINGS, SHOW ERRORS.
pub fn conditions(cx: &StatementContext, errors: bool) -> Rows {
    let mut rows = Rows::new(vec![
        text_column("Level", 7),
        number_column("Code"),
        text_column("Message", 512),
    ]);
    for warning in cx.diagnostics.list(errors) {
        rows.push(vec![
            text(level_name(warning.level)),
            Value::UInt(u64::from(warning.code)),
            text(&warning.message),
        ]);
    }
    rows
}

/// SHOW COUNT(*) WARNINGS, ERRORS.
pub fn condition_count(cx: &StatementContext, errors: bool) -> Rows {
    let name = if errors {
        "@@session.error_count"
    } else {
        "@@session.warning_count"
    };
    let mut rows = Rows::new(vec![number_column(name)]);
    let count = if errors {
        cx.diagnostics.error_count()
    } else {
        cx.diagnostics.condition_count()
    };
    rows.push(vec![Value::UInt(count)]);
    rows
}

/// `SHOW [FULL] PROCESSLIST`.
pub fn processes(cx: &StatementContext, full: bool) -> Rows {
    let mut rows = Rows::new(vec![
        number_column("Id"),
        text_column("User", 32),
        text_column("Host", 261),
        text_column("db", 64),
        text_column("Command", 16),
        number_column("Time"),
        text_column("State", 256),
        long_column("Info"),
    ]);
    let now = cx.server.db.clock().now();
    let all = cx.rights().global().has(Privileges::PROCESS);
    let list = cx.server.processes.list();
    let visible = list.iter().filter(|p| all || p.user == cx.client.user);
    for process in visible {
        let state = process.state(now);
        let info = state.info.map(|text| {
            if full {
                text
            } else {
                text.chars().take(100).collect()
            }
        });
        let stage = match state.command {
            "Sleep" => String::new(),
            _ => process.stage(),
        };
        rows.push(vec![
            Value::UInt(process.id),
            text(&process.user),
            text(&process.host),
            text_or_null(process.database()),
            text(state.command),
            Value::UInt(state.seconds),
            text(stage),
            text_or_null(info),
        ]);
    }
    rows
}

/// SHOW ENGINES: the one engine, and the names InnoDB and ndbcluster, which are aliases of it.
pub fn engines(cx: &StatementContext) -> Rows {
    let mut rows = Rows::new(vec![
        text_column("Engine", 64),
        text_column("Support", 8),
        text_column("Comment", 80),
        text_column("Transactions", 3),
        text_column("XA", 3),
        text_column("Savepoints", 3),
    ]);
    let list = [
        (
            "Porpoise",
            "YES",
            "Rows in memory under MVCC, durable through a log",
        ),
        ("InnoDB", "DEFAULT", "Accepted; tables are Porpoise's"),
        ("ndbcluster", "YES", "Accepted; tables are Porpoise's"),
    ];
    let xa = cx.server.db.engine().capabilities().prepare;
    for (name, support, comment) in list {
        rows.push(vec![
            text(name),
            text(support),
            text(comment),
            text("YES"),
            text(if xa { "YES" } else { "NO" }),
            text("YES"),
        ]);
    }
    rows
}

/// SHOW ENGINE name STATUS, under any of the engine's names: the latest deadlock and the
/// current lock waits.
pub fn engine_status(cx: &StatementContext, name: &str) -> Result<Rows> {
    let known = ["innodb", "porpoise", "ndbcluster", "ndb"];
    if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        let text = format!("Unknown storage engine '{name}'");
        return Err(SqlError::new(1286, "42000", text));
    }
    let mut rows = Rows::new(vec![
        text_column("Type", 10),
        text_column("Name", 512),
        long_column("Status"),
    ]);
    let status = cx.server.deadlocks.status();
    rows.push(vec![text("InnoDB"), text(""), text(status)]);
    Ok(rows)
}

/// SHOW CHARACTER SET.
pub fn charsets() -> Rows {
    let mut rows = Rows::new(vec![
        text_column("Charset", 64),
        text_column("Description", 2048),
        text_column("Default collation", 64),
        number_column("Maxlen"),
    ]);
    let mut list: Vec<Charset> = Charset::all().collect();
    list.sort_by_key(|charset| charset.name());
    for charset in list {
        rows.push(vec![
            text(charset.name()),
            text(charset.description()),
            text(charset.default_collation().name()),
            Value::UInt(u64::from(charset.max_len())),
        ]);
    }
    rows
}

/// MySQL's Sortlen: a factor for the memory that sorting takes.
fn sort_length(collation: Collation) -> u64 {
    match (collation.has_one_weight_per_char(), collation.pad_space()) {
        (true, _) => 1,
        (false, true) => 8,
        (false, false) => 0,
    }
}

/// SHOW COLLATION.
pub fn collations() -> Rows {
    let mut rows = Rows::new(vec![
        text_column("Collation", 64),
        text_column("Charset", 64),
        number_column("Id"),
        text_column("Default", 3),
        text_column("Compiled", 3),
        number_column("Sortlen"),
        text_column("Pad_attribute", 9),
    ]);
    let mut list: Vec<Collation> = Collation::all().collect();
    list.sort_by_key(|c| c.name());
    for collation in list {
        let default = collation.charset().default_collation() == collation;
        rows.push(vec![
            text(collation.name()),
            text(collation.charset().name()),
            Value::UInt(u64::from(collation.0)),
            text(if default { "Yes" } else { "" }),
            text("Yes"),
            Value::UInt(sort_length(collation)),
            text(if collation.pad_space() {
                "PAD SPACE"
            } else {
                "NO PAD"
            }),
        ]);
    }
    rows
}

/// Plugins for SHOW PLUGINS: names and types.
pub const PLUGINS: [(&str, &str); 3] = [
    ("caching_sha2_password", "AUTHENTICATION"),
    ("mysql_native_password", "AUTHENTICATION"),
    ("Porpoise", "STORAGE ENGINE"),
];

/// SHOW PLUGINS.
pub fn plugins() -> Rows {
    let mut rows = Rows::new(vec![
        text_column("Name", 64),
        text_column("Status", 10),
        text_column("Type", 80),
        text_column("Library", 64),
        text_column("License", 80),
    ]);
    for (name, kind) in PLUGINS {
        rows.push(vec![
            text(name),
            text("ACTIVE"),
            text(kind),
            Value::Null,
            text("Apache-2.0"),
        ]);
    }
    rows
}
