//! Helpers shared by the tests of this crate: servers on an engine, sessions of
//! root, and results as text.

#![allow(dead_code, reason = "no test uses all helpers")]

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

/// A server on the data of an engine.
pub fn server(engine: Arc<dyn Engine>) -> Arc<SqlServer> {
    server_with(engine, SqlConfig::default())
}

/// As [`server`], with a configuration.
pub fn server_with(engine: Arc<dyn Engine>, config: SqlConfig) -> Arc<SqlServer> {
    let db = Db::open(engine, clock::system(), DbOptions::default()).unwrap();
    SqlServer::new(db, config).unwrap()
}

/// Login data of root for a connection.
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

/// A sink that discards its rows.
pub struct Nothing;

impl ResultSink for Nothing {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }
}

/// A sink that collects the last result: the texts of its cells, `None` for NULL.
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
    /// The rows as lines, with `separator` between the cells.
    pub fn lines(&self, separator: &str) -> Vec<String> {
        let cell = |cell: &Option<Vec<u8>>| match cell {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => "NULL".to_owned(),
        };
        let line = |row: &Vec<Option<Vec<u8>>>| {
            let cells: Vec<String> = row.iter().map(cell).collect();
            cells.join(separator)
        };
        self.rows.iter().map(line).collect()
    }
}

/// Runs a statement that must succeed. Returns its rows as lines with `|` between the cells.
pub fn run(session: &mut SqlSession, sql: &str) -> Vec<String> {
    let mut sink = Collected::default();
    if let Err(e) = session.query(sql.as_bytes(), false, &mut sink) {
        panic!("{}: {sql}", e.message);
    }
    sink.lines("|")
}

/// The id of the next connection.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Opens a session of an account. Returns the error's number if that fails.
pub fn try_open(server: &Arc<SqlServer>, user: &str, host: &str) -> Result<SqlSession, u16> {
    let info = ClientInfo {
        user: user.to_owned(),
        account: format!("{user}@{host}"),
        ..root(NEXT.fetch_add(1, Ordering::Relaxed))
    };
    server.connect(info, Cancel::new()).map_err(|e| e.code)
}

/// Opens a session of an account.
pub fn open(server: &Arc<SqlServer>, user: &str, host: &str) -> SqlSession {
    try_open(server, user, host).unwrap()
}

/// Runs a statement. Returns its rows as lines, or number and text of its error.
pub fn ask(session: &mut SqlSession, text: &str) -> Result<Vec<String>, (u16, String)> {
    let mut sink = Collected::default();
    let result = session.query(text.as_bytes(), false, &mut sink);
    result
        .map(|_| sink.lines("|"))
        .map_err(|e| (e.code, e.message))
}

/// Runs a statement that must succeed. Returns its rows as lines.
pub fn good(session: &mut SqlSession, text: &str) -> Vec<String> {
    ask(session, text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

/// Runs a statement that must fail. Returns the error's number.
pub fn code(session: &mut SqlSession, text: &str) -> u16 {
    match ask(session, text) {
        Ok(rows) => panic!("{text} succeeds: {rows:?}"),
        Err((code, _)) => code,
    }
}
