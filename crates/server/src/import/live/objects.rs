//! Definitions of a source's objects, created on the server that is loaded.
//!
//! Objects that cannot be moved are found by trying: all objects are created, empty, and every refusal is reported with its
//! object. Tables are then compared by column and index with the source's, because a definition that is
//! accepted with another meaning would lose data later. Triggers and events, which would act on the rows that are
//! loaded, are dropped again and created at the end.

use super::super::connection::{Server, quote};
use super::plan::{SYSTEM, Table};
use crate::config::StartError;
use crate::import::Selection;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of objects in the order in which they are created, as SHOW CREATE and DROP name them.
const KINDS: [&str; 7] = [
    "DATABASE",
    "TABLE",
    "FUNCTION",
    "PROCEDURE",
    "VIEW",
    "TRIGGER",
    "EVENT",
];

/// An object.
#[derive(Clone, Debug)]
pub struct Object {
    /// A word of [`KINDS`].
    pub kind: &'static str,
    /// Its schema.
    pub schema: String,
    /// Its name; for a database the same as `schema`.
    pub name: String,
    /// The statement that creates it.
    statement: String,
    /// SQL mode in which the statement is read.
    mode: String,
}

impl Object {
    /// KIND schema.name
    pub fn shown(&self) -> String {
        match self.kind {
            "DATABASE" => format!("{} {}", self.kind, self.schema),
            kind => format!("{kind} {}.{}", self.schema, self.name),
        }
    }

    /// Whether it acts by itself when rows change or time passes.
    pub fn is_active(&self) -> bool {
        matches!(self.kind, "TRIGGER" | "EVENT")
    }

    fn quoted(&self) -> String {
        match self.kind {
            "DATABASE" => quote(&self.schema),
            _ => format!("{}.{}", quote(&self.schema), quote(&self.name)),
        }
    }

    /// Creates it.
    ///
    /// # Errors
    /// The server's, as text.
    pub fn create(&self, server: &mut Server) -> Result<(), String> {
        let mode = self.mode.replace('\'', "");
        let used = match self.kind {
            "DATABASE" => String::new(),
            _ => format!("USE {}; ", quote(&self.schema)),
        };
        let settings = format!("{used}SET SESSION sql_mode = '{mode}'");
        let done = server.attempt(&settings, None);
        let done = done.and_then(|_| server.attempt(&self.statement, None));
        done.map(drop).map_err(|error| error.to_string())
    }

    /// Drops it, if it exists.
    ///
    /// # Errors
    /// The server's.
    pub fn drop_from(&self, server: &mut Server) -> Result<(), StartError> {
        server.run(&format!("DROP {} IF EXISTS {}", self.kind, self.quoted()))?;
        Ok(())
    }
}

/// An object that cannot be moved, and the reason.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The object.
    pub object: String,
    /// The reason.
    pub why: String,
}

/// The objects of a source that are selected, in the order in which they are created, and those that have no
/// counterpart here.
///
/// # Errors
/// The source's.
pub fn read(
    server: &mut Server,
    selection: &Selection,
    tables: &[Table],
) -> Result<(Vec<Object>, Vec<Problem>), StartError> {
    let listed = server.run(&format!(
        "SELECT 'DATABASE', SCHEMA_NAME, SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN \
         {SYSTEM} UNION ALL SELECT IF(TABLE_TYPE = 'BASE TABLE', 'TABLE', TABLE_TYPE), TABLE_SCHEMA, TABLE_NAME FROM \
         information_schema.TABLES WHERE TABLE_SCHEMA NOT IN {SYSTEM} UNION ALL SELECT ROUTINE_TYPE, ROUTINE_SCHEMA, \
         ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA NOT IN {SYSTEM} UNION ALL SELECT \
         'TRIGGER', TRIGGER_SCHEMA, TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA NOT IN {SYSTEM} \
         UNION ALL SELECT 'EVENT', EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA NOT IN \
         {SYSTEM} ORDER BY 2, 3"
    ))?;
    let mut by_kind: BTreeMap<usize, Vec<Object>> = BTreeMap::new();
    let mut problems = Vec::new();
    for row in listed.rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut cell = || cells.next().unwrap_or_default();
        let (kind, schema, name) = (cell(), cell(), cell());
        let is_selected = match kind.as_str() {
            "DATABASE" | "TRIGGER" | "EVENT" | "FUNCTION" | "PROCEDURE" => {
                selection.contains_schema(&schema)
            }
            _ => selection.contains(&schema, &name),
        };
        if !is_selected {
            continue;
        }
        let Some(at) = KINDS.iter().position(|known| *known == kind) else {
            problems.push(Problem {
                object: format!("{kind} {schema}.{name}"),
                why: "this kind of object is not supported".into(),
            });
            continue;
        };
        if let Some(kind) = KINDS.get(at) {
            let object = definition(server, kind, schema, name)?;
            by_kind.entry(at).or_default().push(object);
        }
    }
    for table in tables {
        if !table.engine.eq_ignore_ascii_case("InnoDB") {
            problems.push(Problem {
                object: format!("TABLE {}", table.shown()),
                why: format!(
                    "its engine {} is not part of a consistent snapshot: run ALTER TABLE ... ENGINE = InnoDB at the source",
                    table.engine
                ),
            });
        }
    }
    Ok((by_kind.into_values().flatten().collect(), problems))
}

/// Reads the statement that creates an object.
fn definition(
    server: &mut Server,
    kind: &'static str,
    schema: String,
    name: String,
) -> Result<Object, StartError> {
    let mut object = Object {
        kind,
        schema,
        name,
        statement: String::new(),
        mode: String::new(),
    };
    let shown = server.run(&format!("SHOW CREATE {kind} {}", object.quoted()))?;
    let row = shown.rows.into_iter().next().unwrap_or_default();
    let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    (object.statement, object.mode) = match kind {
        "DATABASE" => {
            let text = cell(1);
            let rest = text.strip_prefix("CREATE DATABASE ").unwrap_or(&text);
            (
                format!("CREATE DATABASE IF NOT EXISTS {rest}"),
                String::new(),
            )
        }
        "TABLE" | "VIEW" => (cell(1), "NO_AUTO_VALUE_ON_ZERO".to_owned()),
        "EVENT" => (cell(3), cell(1)),
        _ => (cell(2), cell(1)),
    };
    Ok(object)
}

/// Creates all objects. Views may need other views that are created later: they are retried as long as one succeeds.
pub fn create(server: &mut Server, objects: &[Object]) -> Vec<(Object, Problem)> {
    let mut failed = Vec::new();
    let mut left: Vec<&Object> = objects.iter().collect();
    loop {
        let before = left.len();
        failed.clear();
        for object in std::mem::take(&mut left) {
            if let Err(why) = object.create(server) {
                let problem = Problem {
                    object: object.shown(),
                    why,
                };
                failed.push((object.clone(), problem));
                left.push(object);
            }
        }
        if left.is_empty() || left.len() == before {
            return failed;
        }
    }
}

/// Queries that describe the properties of a table that its copy must share. Display widths, which have no meaning,
/// are left out.
const DESCRIPTIONS: [(&str, &str); 3] = [
    (
        "column",
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, CONCAT_WS(' ', LOWER(DATA_TYPE), IF(DATA_TYPE IN ('char', \
         'varchar', 'binary', 'varbinary'), CHARACTER_MAXIMUM_LENGTH, ''), IF(COLUMN_TYPE LIKE '%unsigned%', \
         'unsigned', ''), IF(DATA_TYPE = 'decimal', CONCAT(NUMERIC_PRECISION, ',', NUMERIC_SCALE), ''), IF(DATA_TYPE \
         IN ('enum', 'set'), COLUMN_TYPE, ''), COALESCE(DATETIME_PRECISION, ''), REPLACE(COALESCE(COLLATION_NAME, \
         ''), 'utf8mb3_', 'utf8_'), IF(IS_NULLABLE = 'NO', 'NOT NULL', ''), IF(COALESCE(GENERATION_EXPRESSION, '') \
         = '', '', 'generated'), IF(EXTRA LIKE '%auto_increment%', 'auto_increment', '')) FROM \
         information_schema.COLUMNS",
    ),
    (
        "index",
        "SELECT TABLE_SCHEMA, TABLE_NAME, CONCAT(INDEX_NAME, ' part ', SEQ_IN_INDEX), CONCAT_WS(' ', COLUMN_NAME, \
         COALESCE(SUB_PART, ''), IF(NON_UNIQUE = 0, 'unique', '')) FROM information_schema.STATISTICS",
    ),
    (
        "foreign key",
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, CONCAT_WS(' ', REFERENCED_TABLE_NAME, \
         REPLACE(UPDATE_RULE, 'NO ACTION', 'RESTRICT'), REPLACE(DELETE_RULE, 'NO ACTION', 'RESTRICT')) FROM \
         information_schema.REFERENTIAL_CONSTRAINTS",
    ),
];

type Description = BTreeMap<(String, String), BTreeMap<String, String>>;

fn describe(
    server: &mut Server,
    query: &str,
    names: &BTreeSet<(String, String)>,
) -> Result<Description, StartError> {
    let schema = if query.contains("CONSTRAINT_SCHEMA") {
        "CONSTRAINT_SCHEMA"
    } else {
        "TABLE_SCHEMA"
    };
    let rows = server
        .run(&format!("{query} WHERE {schema} NOT IN {SYSTEM}"))?
        .rows;
    let mut found = Description::new();
    for row in rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut cell = || cells.next().unwrap_or_default();
        let (name, item, what) = ((cell(), cell()), cell(), cell());
        if names.contains(&name) {
            let what: Vec<&str> = what.split_whitespace().collect();
            let items = found.entry(name).or_default();
            items.insert(item, what.join(" "));
        }
    }
    Ok(found)
}

/// The tables whose definitions here differ from the source's.
///
/// # Errors
/// Either server's.
pub fn compare(
    source: &mut Server,
    server: &mut Server,
    tables: &[Table],
) -> Result<Vec<Problem>, StartError> {
    let names = tables.iter().map(|table| table.name.clone()).collect();
    let mut problems = Vec::new();
    for (kind, query) in DESCRIPTIONS {
        let theirs = describe(source, query, &names)?;
        let ours = describe(server, query, &names)?;
        for ((schema, table), items) in theirs {
            let Some(found) = ours.get(&(schema.clone(), table.clone())) else {
                continue;
            };
            for (item, what) in items {
                let here = found.get(&item).map_or("missing", String::as_str);
                if here != what {
                    problems.push(Problem {
                        object: format!("TABLE {schema}.{table}"),
                        why: format!(
                            "{kind} {item} is {what:?} at the source and {here:?} on the server"
                        ),
                    });
                }
            }
        }
    }
    Ok(problems)
}
