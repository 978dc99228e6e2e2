//! Cost of foreign keys for an insert, without network: posts of a forum, in tables with no, one
//! and two foreign keys.
//!
//! All three tables have the same columns and indexes, so that only the checks
//! differ. Each call is a transaction that inserts one post of a random user in a
//! random topic; the users and topics are there.

use super::super::{Setup, Store, Visitor, Work, Worker};
use super::{DATABASE, FILL, column, define, error_text, open_engine};
use porpoise_rows::catalog::{FkAction, IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, FkSpec, IndexSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, Error, InsertMode};
use porpoise_server::rows;
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::sync::Arc;

const USERS: u64 = 10_000;
const TOPICS: u64 = 1_000;

/// One of the three tables, in an engine of its own.
pub(super) struct Posts {
    name: &'static str,
    db: Arc<Db>,
    table: Arc<Table>,
}

impl Posts {
    /// Opens the table with this number of foreign keys, at most two.
    pub(super) fn open(setup: &Setup<'_>, keys: usize) -> Result<Posts, String> {
        let name = match keys {
            0 => "no foreign key",
            1 => "a foreign key",
            _ => "two foreign keys",
        };
        let engine = open_engine(setup, &format!("posts-{keys}"))?;
        let db = rows::open(engine).map_err(error_text)?;
        let table = create_tables(&db, keys).map_err(error_text)?;
        Ok(Posts { name, db, table })
    }

    fn insert(&self, key: u64, value: &[u8]) -> Result<(), Error> {
        let random = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let row = vec![
            Value::Int(key.cast_signed()),
            Value::Int((random >> 33).rem_euclid(USERS).cast_signed()),
            Value::Int((random >> 17).rem_euclid(TOPICS).cast_signed()),
            Value::Bytes(value.to_vec()),
        ];
        let mut txn = self.db.begin(BeginOptions::default())?;
        txn.insert(&self.table, vec![row], InsertMode::Plain)?;
        let commit = txn.commit()?;
        Ok(self.db.engine().wait_durable(commit.position)?)
    }
}

impl Drop for Posts {
    fn drop(&mut self) {
        // The engine's directory is temporary, so a failure to close it loses nothing.
        let _ = self.db.engine().shutdown();
    }
}

fn key(name: &str, column: &str, kind: IndexKind) -> IndexSpec {
    IndexSpec {
        name: (kind != IndexKind::Primary).then(|| name.to_owned()),
        kind,
        parts: vec![(column.to_owned(), None, false)],
        expressions: Vec::new(),
        using_hash: false,
        comment: String::new(),
        invisible: false,
        full_text: None,
    }
}

fn refers(column: &str, parent: &str) -> FkSpec {
    FkSpec {
        name: None,
        index_name: None,
        columns: vec![column.to_owned()],
        parent_database: None,
        parent_table: parent.to_owned(),
        parent_columns: vec!["id".to_owned()],
        on_delete: FkAction::Restrict,
        on_update: FkAction::Restrict,
    }
}

fn spec(name: &str, columns: Vec<ColumnSpec>, keys: &[&str], foreign: Vec<FkSpec>) -> TableSpec {
    let primary = key("PRIMARY", "id", IndexKind::Primary);
    let others = keys.iter().map(|c| key(c, c, IndexKind::Plain));
    TableSpec {
        database: DATABASE.to_owned(),
        name: name.to_owned(),
        placement: Default::default(),
        if_not_exists: false,
        columns,
        indexes: std::iter::once(primary).chain(others).collect(),
        foreign_keys: foreign,
        checks: Vec::new(),
        options: TableOptions::new(Collation::UTF8MB4_0900_AI_CI),
        auto_increment: None,
    }
}

/// Creates and fills the parents, and creates `posts` with this number of foreign keys.
fn create_tables(db: &Arc<Db>, keys: usize) -> Result<Arc<Table>, Error> {
    let int = |name: &str| column(name, ColumnType::int(Kind::BigInt));
    let text = ColumnType::varchar(1024, Collation::UTF8MB4_0900_AI_CI);
    let foreign = [refers("user", "users"), refers("topic", "topics")];
    let columns = vec![
        int("id"),
        int("user"),
        int("topic"),
        column("content", text.clone()),
    ];
    define(db, |cx| {
        db.create_database(cx, DATABASE, Collation::UTF8MB4_0900_AI_CI, true)?;
        for parent in ["users", "topics"] {
            let columns = vec![int("id"), column("name", text.clone())];
            db.create_table(cx, &spec(parent, columns, &[], Vec::new()))?;
        }
        let foreign = foreign.into_iter().take(keys).collect();
        let posts = spec("posts", columns, &["user", "topic"], foreign);
        db.create_table(cx, &posts)?;
        Ok(())
    })?;
    let catalog = db.catalog();
    let table = |name: &str| {
        let table = catalog.table(DATABASE, name).cloned();
        table.ok_or_else(|| porpoise_rows::ddl::no_table(DATABASE, name))
    };
    for (name, count) in [("users", USERS), ("topics", TOPICS)] {
        for from in (0..count).step_by(FILL as usize) {
            let rows = (from..count.min(from + FILL))
                .map(|n| vec![Value::Int(n.cast_signed()), Value::Bytes(b"name".to_vec())]);
            let mut txn = db.begin(BeginOptions::default())?;
            txn.insert(&table(name)?, rows.collect(), InsertMode::Plain)?;
            txn.commit()?;
        }
    }
    table("posts")
}

impl Store for Posts {
    fn name(&self) -> &str {
        self.name
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>, String> {
        Ok(Box::new(self))
    }

    fn offers(&self, work: Work) -> bool {
        work == Work::Insert
    }
}

impl Worker for &Posts {
    fn read(&mut self, _keys: &[u64], _visit: &mut Visitor<'_>) -> Result<(), String> {
        Err("posts are only inserted".to_owned())
    }

    fn update(&mut self, _key: u64, _value: &[u8]) -> Result<(), String> {
        Err("posts are only inserted".to_owned())
    }

    fn insert(&mut self, key: u64, value: &[u8]) -> Result<(), String> {
        Posts::insert(self, key, value).map_err(error_text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::NativeOptions;
    use super::*;
    use crate::peers::Durability;

    #[test]
    fn posts_are_inserted_once_and_checked() {
        let home = tempfile::tempdir().unwrap();
        let setup = Setup {
            rows: 1,
            durability: Durability::Memory,
            directory: home.path(),
            value: &|_| Vec::new(),
            options: &NativeOptions::default(),
        };
        for keys in 0..=2 {
            let posts = Posts::open(&setup, keys).unwrap();
            assert_eq!(posts.table.foreign_keys.len(), keys);
            assert_eq!(posts.table.indexes.len(), 3);
            let mut worker = posts.worker().unwrap();
            worker.insert(7, b"text").unwrap();
            assert!(
                worker
                    .insert(7, b"again")
                    .unwrap_err()
                    .contains("Duplicate")
            );
            let mut txn = posts.db.begin(BeginOptions::default()).unwrap();
            let orphan = vec![
                Value::Int(8),
                Value::Int(-1),
                Value::Int(-1),
                Value::Bytes(Vec::new()),
            ];
            let done = txn.insert(&posts.table, vec![orphan], InsertMode::Plain);
            assert_eq!(done.is_err(), keys > 0, "{}", posts.name);
        }
    }
}
