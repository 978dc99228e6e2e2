//! The tables of `ndbmemcache`, created at the first start.
//!
//! Tables and columns have the names and types of NDB's memcached, so that its dumps load
//! unchanged. Four things differ from NDB:
//!
//! * `container_options`, which NDB lacks: how the columns of a
//!   container are encoded in one value.
//! * `kv`, the table of keys without a configured prefix: binary keys and
//!   values, the client's flags, and the expiry time in seconds since
//!   1970 (0: never). The CAS value is the row version, which is not a column.
//! * `key_prefix` compares by bytes, so that `a:` and `A:` are two prefixes.
//! * The default role has only the empty prefix, which is mapped to `kv`;
//!   the demonstration containers exist, but only other roles use them.
//!
//! Invariants:
//! 1. The row of `meta` is written in one transaction with all other default rows,
//!    after the tables. If it exists, only missing tables are created, no rows.
//! 2. Existing tables and rows are never changed: an operator's configuration
//!    is preserved.

use super::stored_rows::{Cell, new_row, stored_rows};
use crate::system_tables::{
    MEMCACHED_CONFIGURATION as CONFIGURATION, MEMCACHED_DATABASE as DATABASE,
};
use porpoise_kv::{CommitPosition, Read};
use porpoise_rows::catalog::{ColumnDefault, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, InsertMode, Result};
use porpoise_types::{Collation, ColumnType, DateTime, Kind, Value};
use std::sync::Arc;

/// The table of keys without a configured prefix.
pub const DEFAULT_TABLE: &str = "kv";

const LATIN1: Collation = Collation::LATIN1_SWEDISH_CI;

/// A column: name, type, whether it is nullable, default.
struct Col(&'static str, ColumnType, bool, Option<ColumnDefault>);

fn text(name: &'static str, length: u32) -> Col {
    Col(name, ColumnType::varchar(length, LATIN1), false, None)
}

fn number(name: &'static str, default: Option<u64>) -> Col {
    let default = default.map(|n| ColumnDefault::Literal(Value::UInt(n)));
    Col(name, ColumnType::uint(Kind::Int), false, default)
}

fn nullable(column: Col) -> Col {
    Col(column.0, column.1, true, None)
}

fn enumeration(name: &'static str, members: &[&str], default: Option<u64>) -> Col {
    let members = members.iter().map(|m| m.as_bytes().into()).collect();
    let default = default.map(|n| ColumnDefault::Literal(Value::UInt(n)));
    Col(
        name,
        ColumnType::enumeration(members, LATIN1),
        false,
        default,
    )
}

fn policy(name: &'static str) -> Col {
    enumeration(
        name,
        &["cache_only", "ndb_only", "caching", "disabled"],
        None,
    )
}

/// Definition of a table: its name, comment, columns and primary key.
struct Definition {
    name: &'static str,
    comment: &'static str,
    columns: Vec<Col>,
    key: &'static [&'static str],
    using_hash: bool,
}

fn define(
    name: &'static str,
    comment: &'static str,
    columns: Vec<Col>,
    key: &'static [&'static str],
) -> Definition {
    Definition {
        name,
        comment,
        columns,
        key,
        using_hash: false,
    }
}

fn configuration_tables() -> Vec<Definition> {
    let mut tables = server_tables();
    tables.extend(mapping_tables());
    tables
}

/// Configuration of servers.
fn server_tables() -> Vec<Definition> {
    let mut cluster = number("cluster_id", None);
    cluster.1.unsigned = false;
    vec![
        define(
            "meta",
            "Layout version of this schema",
            vec![text("application", 16), text("metadata_version", 6)],
            &["application", "metadata_version"],
        ),
        define(
            "ndb_clusters",
            "Clusters: 0 is this server; other clusters are not supported",
            vec![
                cluster,
                nullable(text("ndb_connectstring", 128)),
                number("microsec_rtt", Some(250)),
            ],
            &["cluster_id"],
        ),
        define(
            "memcache_server_roles",
            "Server roles of memcached listeners (--memcached-role)",
            vec![
                text("role_name", 40),
                number("role_id", None),
                number("max_tps", Some(100_000)),
                Col(
                    "update_timestamp",
                    ColumnType::timestamp(0),
                    false,
                    Some(ColumnDefault::Now),
                ),
            ],
            &["role_name"],
        ),
        define(
            "last_memcached_signon",
            "Last start of each listener",
            vec![
                number("ndb_node_id", None),
                text("hostname", 255),
                text("server_role", 40),
                Col("signon_time", ColumnType::timestamp(0), false, None),
            ],
            &["ndb_node_id"],
        ),
    ]
}

/// Configuration of keys: policies, containers, prefixes.
fn mapping_tables() -> Vec<Definition> {
    let mut prefix = text("key_prefix", 250);
    prefix.1.collation = Collation::LATIN1_BIN;
    vec![
        define(
            "cache_policies",
            "Policies: where get, set and delete take place",
            vec![
                text("policy_name", 40),
                policy("get_policy"),
                policy("set_policy"),
                policy("delete_policy"),
                enumeration("flush_from_db", &["false", "true"], Some(1)),
            ],
            &["policy_name"],
        ),
        define(
            "containers",
            "Containers: the columns of a table that hold keys and values",
            vec![
                text("name", 50),
                text("db_schema", 250),
                text("db_table", 250),
                text("key_columns", 250),
                nullable(text("value_columns", 250)),
                Col(
                    "flags",
                    ColumnType::varchar(250, LATIN1),
                    false,
                    Some(ColumnDefault::Literal(Value::Bytes(b"0".to_vec()))),
                ),
                nullable(text("increment_column", 250)),
                nullable(text("cas_column", 250)),
                nullable(text("expire_time_column", 250)),
                nullable(text("large_values_table", 250)),
            ],
            &["name"],
        ),
        define(
            "container_options",
            "Options of containers: format of keys and values",
            vec![
                text("name", 50),
                enumeration("value_format", &["text", "json"], Some(1)),
                Col("separator", ColumnType::varbinary(16), true, None),
                Col("key_separator", ColumnType::varbinary(16), true, None),
                Col("escape", ColumnType::varbinary(1), true, None),
                Col("null_token", ColumnType::varbinary(64), true, None),
            ],
            &["name"],
        ),
        define(
            "key_prefixes",
            "Container and policy of each key prefix, per role",
            vec![
                number("server_role_id", Some(0)),
                prefix,
                number("cluster_id", Some(0)),
                text("policy", 40),
                nullable(text("container", 50)),
            ],
            &["server_role_id", "key_prefix"],
        ),
    ]
}

fn data_tables() -> Vec<Definition> {
    let mut tables = demonstration_tables();
    tables.push(define(
        DEFAULT_TABLE,
        "Rows of keys without a configured prefix",
        vec![
            Col("mkey", ColumnType::varbinary(250), false, None),
            Col("value", ColumnType::blob(Kind::LongBlob), true, None),
            number("flags", Some(0)),
            Col(
                "expire_time",
                ColumnType::bigint(),
                false,
                Some(ColumnDefault::Literal(Value::Int(0))),
            ),
        ],
        &["mkey"],
    ));
    tables
}

fn demonstration_tables() -> Vec<Definition> {
    let binary = |name, length| Col(name, ColumnType::varbinary(length), true, None);
    let big = |name| nullable(Col(name, ColumnType::bigint_unsigned(), true, None));
    vec![
        Definition {
            name: "demo_table",
            comment: "demonstration: a text, a number, a CAS column",
            columns: vec![
                text("mkey", 250),
                big("math_value"),
                big("cas_value"),
                binary("string_value", 13_500),
            ],
            key: &["mkey"],
            using_hash: true,
        },
        Definition {
            name: "demo_table_large",
            comment: "demonstration: values kept in another table",
            columns: vec![
                text("mkey", 250),
                big("cas_value"),
                binary("string_value", 2_000),
                nullable(number("ext_id", None)),
                nullable(number("ext_size", None)),
            ],
            key: &["mkey"],
            using_hash: true,
        },
        Definition {
            name: "external_values",
            comment: "demonstration: parts of large values",
            columns: vec![
                number("id", None),
                Col("part", ColumnType::int(Kind::SmallInt), false, None),
                Col("content", ColumnType::varbinary(13_950), false, None),
            ],
            key: &["id", "part"],
            using_hash: false,
        },
        Definition {
            name: "demo_table_tabs",
            comment: "demonstration: three value columns, expiry",
            columns: vec![
                Col("mkey", ColumnType::int(Kind::Int), false, None),
                nullable(text("val1", 60)),
                nullable(text("val2", 10)),
                Col("val3", ColumnType::int(Kind::Int), true, None),
                nullable(number("flags", None)),
                Col("expire_time", ColumnType::timestamp(0), true, None),
            ],
            key: &["mkey"],
            using_hash: false,
        },
    ]
}

impl Definition {
    fn spec(&self, now: i64) -> TableSpec {
        let columns = self
            .columns
            .iter()
            .map(|Col(name, ty, nullable, default)| ColumnSpec {
                nullable: Some(*nullable),
                default: default.clone(),
                auto_increment: self.name == "external_values" && *name == "id",
                explicit_collation: *name == "key_prefix",
                ..ColumnSpec::new(name, ty.clone())
            })
            .collect();
        let primary = IndexSpec {
            expressions: Vec::new(),
            using_hash: self.using_hash,
            ..IndexSpec::primary(self.key)
        };
        let options = TableOptions {
            comment: self.comment.to_owned(),
            created: now,
            ..TableOptions::new(LATIN1)
        };
        TableSpec {
            if_not_exists: true,
            ..TableSpec::new(DATABASE, self.name, columns, vec![primary], options)
        }
    }
}

/// Creates missing tables and default rows. Returns the commit position of the rows.
///
/// # Errors
/// The errors of data definition and of writing rows.
pub fn ensure(db: &Arc<Db>) -> Result<CommitPosition> {
    let catalog = db.catalog();
    let known = |name: &&'static str| catalog.table(DATABASE, name).is_some();
    let complete = is_complete(db)?;
    if complete && CONFIGURATION.iter().all(known) {
        return Ok(CommitPosition::NONE);
    }
    let now = db.clock().unix_micros();
    db.define(|cx| {
        db.create_database(cx, DATABASE, LATIN1, true)?;
        for table in configuration_tables().iter().chain(&data_tables()) {
            db.create_table(cx, &table.spec(now))?;
        }
        Ok::<(), porpoise_rows::Error>(())
    })?;
    if complete {
        // Only tables added by a later version of Porpoise were missing; they have no default rows.
        return Ok(CommitPosition::NONE);
    }
    // Every server creates these tables and rows at its first start; the change log has only later changes.
    let mut txn = db.begin(BeginOptions {
        sync: true,
        logged: false,
        ..BeginOptions::default()
    })?;
    let catalog = db.catalog();
    for (name, columns, rows) in DEFAULT_ROWS {
        let Some(table) = catalog.table(DATABASE, name) else {
            continue;
        };
        let values = rows.iter().map(|row| {
            let words = row.split_whitespace().map(|word| match word {
                "NULL" => None,
                "-" => Some(&b""[..]),
                word => Some(word.as_bytes()),
            });
            row_of(db, table, columns.split_whitespace().zip(words))
        });
        let values = values.collect::<Result<_>>()?;
        txn.insert(table, values, InsertMode::Ignore)?;
    }
    Ok(txn.commit()?.position)
}

/// Builds a row from texts, with the current time for timestamps. Columns that an operator's
/// table lacks are ignored.
fn row_of<'a>(db: &Db, table: &Table, cells: impl Iterator<Item = Cell<'a>>) -> Result<Vec<Value>> {
    let now = DateTime::from_unix_micros(db.clock().unix_micros()).unwrap_or_default();
    let known: Vec<_> = cells.filter(|(c, _)| table.column(c).is_some()).collect();
    new_row(table, &known, now)
}

/// Whether `meta` records that initialization is complete.
fn is_complete(db: &Arc<Db>) -> Result<bool> {
    let catalog = db.catalog();
    let Some(meta) = catalog.table(DATABASE, "meta") else {
        return Ok(false);
    };
    let mut txn = db.begin(BeginOptions::default())?;
    let rows = stored_rows(&mut txn, meta, Read::SNAPSHOT)?;
    let complete = [("application", DATABASE.as_bytes())];
    Ok(rows.iter().any(|row| row.matches(meta, &complete)))
}

/// Records in `last_memcached_signon` that a listener was opened.
///
/// # Errors
/// The errors of writing rows.
pub fn sign_on(db: &Arc<Db>, role: &str) -> Result<()> {
    let catalog = db.catalog();
    let Some(table) = catalog.table(DATABASE, "last_memcached_signon") else {
        return Ok(());
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let now = DateTime::from_unix_micros(db.clock().unix_micros()).and_then(|n| n.round(0, true));
    let texts = [
        ("ndb_node_id", "0"),
        ("hostname", host.trim()),
        ("server_role", role),
    ];
    let cells = texts.map(|(column, text)| (column, Some(text.as_bytes())));
    let mut row = row_of(db, table, cells.into_iter())?;
    if let Some(place) = table.column("signon_time").and_then(|p| row.get_mut(p)) {
        *place = now.map_or(Value::Null, Value::DateTime);
    }
    // Each server records its own start.
    let mut txn = db.begin(BeginOptions {
        logged: false,
        ..BeginOptions::default()
    })?;
    txn.insert(table, vec![row], InsertMode::Replace)?;
    txn.commit()?;
    Ok(())
}

/// The default rows of `ndbmemcache`: table, columns, and rows with words separated by
/// spaces; `-` is an empty word, `NULL` is NULL. The row of `meta` is the last one.
///
/// They are those of NDB's memcached, except that `flush_all` deletes rows under `caching`. In NDB
/// it cleared the cache of each memcached server, and the next `get` loaded the row again.
/// Porpoise has no such caches. The policy `ndb-only`, or `flush_from_db` = `false`, keeps the
/// rows.
const DEFAULT_ROWS: &[(&str, &str, &[&str])] = &[
    ("ndb_clusters", "cluster_id ndb_connectstring", &["0 NULL"]),
    (
        "memcache_server_roles",
        "role_name role_id",
        &[
            "default_role 0",
            "db-only 1",
            "mc-only 2",
            "ndb-caching 3",
            "large 4",
        ],
    ),
    (
        "cache_policies",
        "policy_name get_policy set_policy delete_policy flush_from_db",
        &[
            "memcache-only cache_only cache_only cache_only false",
            "ndb-only ndb_only ndb_only ndb_only false",
            "ndb-test ndb_only ndb_only ndb_only true",
            "caching caching caching caching true",
            "caching-with-local-deletes caching caching cache_only false",
            "ndb-read-only ndb_only disabled disabled false",
        ],
    ),
    (
        "containers",
        "name db_schema db_table key_columns value_columns flags increment_column cas_column \
         expire_time_column large_values_table",
        &[
            "kv ndbmemcache kv mkey value flags NULL NULL expire_time NULL",
            "demo_table ndbmemcache demo_table mkey string_value 0 math_value cas_value NULL NULL",
            "demo_tabs ndbmemcache demo_table_tabs mkey val1,val2,val3 flags NULL NULL \
             expire_time NULL",
            "demo_ext ndbmemcache demo_table_large mkey string_value 0 NULL cas_value NULL \
             ndbmemcache.external_values",
        ],
    ),
    (
        "key_prefixes",
        "server_role_id key_prefix cluster_id policy container",
        &[
            "0 - 0 ndb-test kv",
            "1 - 0 ndb-only demo_table",
            "1 t: 0 ndb-only demo_tabs",
            "1 b: 0 ndb-only demo_ext",
            "2 - 0 memcache-only NULL",
            "3 - 0 caching demo_table",
            "3 t: 0 caching demo_tabs",
            "3 b: 0 caching demo_ext",
            "4 - 0 ndb-test demo_ext",
        ],
    ),
    ("meta", "application metadata_version", &["ndbmemcache 1.2"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_row_has_a_word_for_each_column_of_a_defined_table() {
        let tables = configuration_tables();
        for (name, columns, rows) in DEFAULT_ROWS {
            let table = tables.iter().find(|t| t.name == *name).unwrap();
            for column in columns.split_whitespace() {
                assert!(table.columns.iter().any(|c| c.0 == column), "{column}");
            }
            for row in *rows {
                let words = row.split_whitespace().count();
                assert_eq!(words, columns.split_whitespace().count(), "{row}");
            }
        }
        for name in CONFIGURATION {
            assert!(tables.iter().any(|t| t.name == *name), "{name}");
        }
        assert_eq!(DEFAULT_ROWS.last().unwrap().0, "meta");
    }
}
