//! Helpers shared by the tests of this crate: servers on an engine, sessions of
//! root, and results as text.

#![allow(dead_code, reason = "each test uses its part")]

use porpoise_base::cancel::Cancel;
use porpoise_base::clock;
use porpoise_kv::Engine;
use porpoise_kv::model::Model;
use porpoise_rows::{Db, DbOptions};
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::server::{SqlConfig, SqlServer};
use porpoise_sql::session::{ClientInfo, SqlSession};
use porpoise_types::{ValueRef, write_text};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A server over what an engine holds.
pub fn server(engine: Arc<dyn Engine>) -> Arc<SqlServer> {
    server_with(engine, SqlConfig::default())
}

pub fn server_with(engine: Arc<dyn Engine>, config: SqlConfig) -> Arc<SqlServer> {
    let db = Db::open(engine, clock::system(), DbOptions::default()).unwrap();
    SqlServer::new(db, config).unwrap()
}

/// Root, by a connection of that number.
pub fn root(connection_id: u64) -> ClientInfo {
    ClientInfo {
        connection_id,
        user: "root".to_owned(),
        host: "localhost".to_owned(),
        account: "root@localhost".to_owned(),
        capabilities: 0,
        collation: 255,
        database: None,
    }
}

/// A session of root on a server.
pub fn connect(server: &Arc<SqlServer>, connection_id: u64) -> SqlSession {
    server.connect(root(connection_id), Cancel::new()).unwrap()
}

/// A session of root on a new server over the reference model.
pub fn session() -> SqlSession {
    connect(&server(Arc::new(Model::new())), 1)
}

/// Takes results that nobody looks at.
pub struct Nothing;

impl ResultSink for Nothing {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Keeps the last result: the texts of its cells, `None` for NULL.
#[derive(Default)]
pub struct Collected {
    pub columns: Vec<ResultColumn>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl ResultSink for Collected {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.columns = columns.to_vec();
        self.rows.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        assert_eq!(values.len(), self.columns.len(), "cells of a row");
        let cell = |(value, column): (&ValueRef<'_>, &ResultColumn)| {
            let mut text = Vec::new();
            write_text(*value, &column.ty, &mut text);
            (!value.is_null()).then_some(text)
        };
        self.rows
            .push(values.iter().zip(&self.columns).map(cell).collect());
        Ok(())
    }
}

impl Collected {
    /// The rows as lines, with a text between the cells.
    pub fn lines(&self, between: &str) -> Vec<String> {
        let cell = |cell: &Option<Vec<u8>>| match cell {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => "NULL".to_owned(),
        };
        let line = |row: &Vec<Option<Vec<u8>>>| {
            let cells: Vec<String> = row.iter().map(cell).collect();
            cells.join(between)
        };
        self.rows.iter().map(line).collect()
    }
}

/// The rows that a statement answers with, in lines with `|` between the values; it
/// must succeed.
pub fn run(session: &mut SqlSession, sql: &str) -> Vec<String> {
    let mut sink = Collected::default();
    if let Err(e) = session.query(sql.as_bytes(), false, &mut sink) {
        panic!("{}: {sql}", e.message);
    }
    sink.lines("|")
}

/// The next connection's number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A session of an account, or the number of the error that refuses it.
pub fn try_open(server: &Arc<SqlServer>, user: &str, host: &str) -> Result<SqlSession, u16> {
    let info = ClientInfo {
        user: user.to_owned(),
        account: format!("{user}@{host}"),
        ..root(NEXT.fetch_add(1, Ordering::Relaxed))
    };
    server.connect(info, Cancel::new()).map_err(|e| e.code)
}

/// A session of an account.
pub fn open(server: &Arc<SqlServer>, user: &str, host: &str) -> SqlSession {
    try_open(server, user, host).unwrap()
}

/// The rows of a statement as lines, or number and text of its error.
pub fn ask(session: &mut SqlSession, text: &str) -> Result<Vec<String>, (u16, String)> {
    let mut sink = Collected::default();
    let ran = session.query(text.as_bytes(), false, &mut sink);
    ran.map(|_| sink.lines("|"))
        .map_err(|e| (e.code, e.message))
}

/// The rows of a statement that succeeds.
pub fn good(session: &mut SqlSession, text: &str) -> Vec<String> {
    ask(session, text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

/// The number of the error of a statement that fails.
pub fn code(session: &mut SqlSession, text: &str) -> u16 {
    match ask(session, text) {
        Ok(rows) => panic!("{text} succeeds: {rows:?}"),
        Err((code, _)) => code,
    }
}
