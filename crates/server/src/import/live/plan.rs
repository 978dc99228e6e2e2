//! The tables that are copied, their order, and the column by which each is divided.
//!
//! A table whose primary key begins with an integer is divided into ranges of that column. Other tables are copied as a
//! whole, because the two servers may order their keys differently.
//!
//! A table is copied after the tables that its foreign keys refer to. Tables that refer to each other, or to themselves, form
//! a *cycle*, which is copied from one snapshot.

use super::super::connection::{Server, literal, quote};
use super::super::selection::Selection;
use crate::config::StartError;
use std::collections::{BTreeMap, BTreeSet};

/// Schema and name.
pub type Name = (String, String);

/// System databases of either server, which are not copied.
pub const SYSTEM: &str = "('mysql', 'information_schema', 'performance_schema', 'sys', 'porpoise_import', 'ndbmemcache')";

/// A column that is copied.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    /// Its type without length, in lower case.
    kind: String,
}

/// A table that is copied.
#[derive(Clone, Debug)]
pub struct Table {
    /// Schema and name.
    pub name: Name,
    columns: Vec<Column>,
    /// The integer column by whose ranges it is divided.
    pub key: Option<String>,
    /// The tables that its foreign keys refer to, among those that are copied.
    pub parents: BTreeSet<Name>,
    /// Whether it belongs to a cycle.
    pub is_cyclic: bool,
    /// Size in bytes, as the source estimates it.
    pub bytes: u64,
    /// Length of a row, as the source estimates it.
    pub row_bytes: u64,
    /// Engine at the source.
    pub engine: String,
}

impl Table {
    /// `schema`.`name`.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote(&self.name.0), quote(&self.name.1))
    }

    /// schema.name, for messages.
    pub fn shown(&self) -> String {
        format!("{}.{}", self.name.0, self.name.1)
    }

    /// The position of the key among the columns.
    pub fn key_position(&self) -> Option<usize> {
        let key = self.key.as_ref()?;
        self.columns.iter().position(|column| column.name == *key)
    }

    /// The expressions that are selected on both servers, in a form that is exact for each type.
    pub fn selected(&self) -> String {
        let expression = |column: &Column| {
            let name = quote(&column.name);
            match column.kind.as_str() {
                "bit" => format!("{name}+0"),
                // FLOAT is rounded when it is converted to text.
                "float" => format!("CAST({name} AS DOUBLE)"),
                _ => name,
            }
        };
        let list: Vec<String> = self.columns.iter().map(expression).collect();
        list.join(",")
    }

    /// The statement that loads such rows.
    pub fn load_statement(&self) -> String {
        let (mut fields, mut set) = (Vec::new(), String::new());
        for (at, column) in self.columns.iter().enumerate() {
            if column.kind == "bit" {
                fields.push(format!("@c{at}"));
                let comma = if set.is_empty() { " SET " } else { ", " };
                let name = quote(&column.name);
                set.push_str(&format!("{comma}{name} = CAST(@c{at} AS UNSIGNED)"));
            } else {
                fields.push(quote(&column.name));
            }
        }
        format!(
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {} CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\\t' \
             ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' ({}){set}",
            self.quoted(),
            fields.join(",")
        )
    }
}

/// The cells of a row.
fn cells<const N: usize>(row: Vec<Option<String>>) -> [String; N] {
    let mut row = row.into_iter();
    std::array::from_fn(|_| row.next().flatten().unwrap_or_default())
}

/// The tables of a source that are selected.
///
/// # Errors
/// The source's.
pub fn read(server: &mut Server, selection: &Selection) -> Result<Vec<Table>, StartError> {
    let mut tables: BTreeMap<Name, Table> = BTreeMap::new();
    let listed = server.run(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, DATA_LENGTH, AVG_ROW_LENGTH FROM information_schema.TABLES \
         WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN {SYSTEM}"
    ))?;
    for row in listed.rows {
        let [schema, name, engine, bytes, row_bytes] = cells(row);
        if selection.contains(&schema, &name) {
            let name = (schema, name);
            let table = Table {
                name: name.clone(),
                columns: Vec::new(),
                key: None,
                parents: BTreeSet::new(),
                is_cyclic: false,
                bytes: bytes.parse().unwrap_or(0),
                row_bytes: row_bytes.parse().unwrap_or(0),
                engine,
            };
            tables.insert(name, table);
        }
    }
    read_columns(server, &mut tables)?;
    read_parents(server, &mut tables)?;
    mark_cycles(&mut tables);
    Ok(tables.into_values().collect())
}

fn read_columns(server: &mut Server, tables: &mut BTreeMap<Name, Table>) -> Result<(), StartError> {
    let listed = server.run(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COALESCE(GENERATION_EXPRESSION, '') FROM \
         information_schema.COLUMNS WHERE TABLE_SCHEMA NOT IN {SYSTEM} ORDER BY TABLE_SCHEMA, TABLE_NAME, \
         ORDINAL_POSITION"
    ))?;
    for row in listed.rows {
        let [schema, table, name, kind, generation] = cells(row);
        if let Some(table) = tables.get_mut(&(schema, table))
            && generation.is_empty()
        {
            let kind = kind.to_ascii_lowercase();
            table.columns.push(Column { name, kind });
        }
    }
    let keys = server.run(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE INDEX_NAME = \
         'PRIMARY' AND SEQ_IN_INDEX = 1 AND TABLE_SCHEMA NOT IN {SYSTEM}"
    ))?;
    for row in keys.rows {
        let [schema, table, name] = cells(row);
        if let Some(table) = tables.get_mut(&(schema, table)) {
            let mut columns = table.columns.iter();
            let is_integer = columns.any(|column| {
                let kind = column.kind.as_str();
                column.name == name
                    && matches!(
                        kind,
                        "tinyint" | "smallint" | "mediumint" | "int" | "bigint"
                    )
            });
            table.key = is_integer.then_some(name);
        }
    }
    Ok(())
}

fn read_parents(server: &mut Server, tables: &mut BTreeMap<Name, Table>) -> Result<(), StartError> {
    let listed = server.run(&format!(
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME FROM \
         information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA NOT IN {SYSTEM}"
    ))?;
    for row in listed.rows {
        let [schema, child, parent_schema, parent] = cells(row);
        let parent = (parent_schema, parent);
        if tables.contains_key(&parent)
            && let Some(table) = tables.get_mut(&(schema, child))
        {
            table.parents.insert(parent);
        }
    }
    Ok(())
}

/// Marks the tables from which foreign keys lead back to themselves.
fn mark_cycles(tables: &mut BTreeMap<Name, Table>) {
    let mut cyclic = Vec::new();
    for start in tables.keys() {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(name) = next.pop() {
            for parent in tables
                .get(name)
                .into_iter()
                .flat_map(|table| &table.parents)
            {
                if seen.insert(parent) {
                    next.push(parent);
                }
            }
        }
        if seen.contains(start) {
            cyclic.push(start.clone());
        }
    }
    // Within a cycle there is no order, so that none of its tables waits for another.
    let all: BTreeSet<Name> = cyclic.iter().cloned().collect();
    for name in cyclic {
        if let Some(table) = tables.get_mut(&name) {
            table.is_cyclic = true;
            table.parents.retain(|parent| !all.contains(parent));
        }
    }
}

/// The condition on a column's range.
pub fn range_condition(column: &str, low: Option<i128>, high: Option<i128>) -> String {
    let column = quote(column);
    match (low, high) {
        (None, None) => "TRUE".to_owned(),
        (Some(low), None) => format!("{column} >= {low}"),
        (None, Some(high)) => format!("{column} < {high}"),
        (Some(low), Some(high)) => format!("{column} >= {low} AND {column} < {high}"),
    }
}

/// The condition for a table's rows in the tables of `porpoise_import`.
pub fn of_table(name: &Name) -> String {
    format!(
        "schema_name = {} AND table_name = {}",
        literal(&name.0),
        literal(&name.1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, parents: &[&str]) -> (Name, Table) {
        let named = |name: &str| ("s".to_owned(), name.to_owned());
        let table = Table {
            name: named(name),
            columns: vec![
                Column {
                    name: "id".into(),
                    kind: "int".into(),
                },
                Column {
                    name: "b".into(),
                    kind: "bit".into(),
                },
                Column {
                    name: "f".into(),
                    kind: "float".into(),
                },
            ],
            key: Some("id".into()),
            parents: parents.iter().map(|name| named(name)).collect(),
            is_cyclic: false,
            bytes: 0,
            row_bytes: 0,
            engine: "InnoDB".into(),
        };
        (named(name), table)
    }

    #[test]
    fn tables_that_refer_to_each_other_are_a_cycle() {
        let mut tables = BTreeMap::from([
            table("a", &["b"]),
            table("b", &["a", "root"]),
            table("root", &[]),
            table("child", &["a"]),
            table("tree", &["tree", "root"]),
        ]);
        mark_cycles(&mut tables);
        let cyclic = tables.values().filter(|table| table.is_cyclic);
        let names: Vec<&str> = cyclic.map(|table| table.name.1.as_str()).collect();
        assert_eq!(names, ["a", "b", "tree"]);
        let parents = |name: &str| {
            let table = tables.get(&("s".to_owned(), name.to_owned())).unwrap();
            let names = table.parents.iter().map(|parent| parent.1.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(parents("b"), ["root"]);
        assert_eq!(parents("tree"), ["root"]);
        assert_eq!(parents("child"), ["a"]);
    }

    #[test]
    fn values_are_selected_and_loaded_whole() {
        let (_, table) = table("t", &[]);
        assert_eq!(table.selected(), "`id`,`b`+0,CAST(`f` AS DOUBLE)");
        let statement = table.load_statement();
        let end = "(`id`,@c1,`f`) SET `b` = CAST(@c1 AS UNSIGNED)";
        assert!(statement.ends_with(end), "{statement}");
        let condition = range_condition("a`b", Some(-3), Some(9));
        assert_eq!(condition, "`a``b` >= -3 AND `a``b` < 9");
    }
}
