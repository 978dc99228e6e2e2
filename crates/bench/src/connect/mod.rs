//! Opening of connections: login by each protocol, and preparation of statements. It blocks, and is never
//! measured.

pub mod mysql;
pub mod postgres;
mod scram;

use crate::conn::{Connection, open};
use crate::error::{Error, Result};
use crate::proto::dialects::{Dialect, Speaker};
use crate::proto::memcached::Memcached;
use crate::proto::{Answer, Call, Verb};
use crate::url::{System, Target};

/// Protocol and form of requests to a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// MySQL's protocol, statements as text.
    MysqlText,
    /// MySQL's protocol, prepared statements.
    MysqlPrepared,
    /// PostgreSQL, prepared statements.
    Postgres,
    /// memcached's text protocol.
    Memcached,
    /// A dialect of memcached's protocol, and whether several keys are several requests.
    Dialect(Dialect, bool),
}

/// One way to reach one system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The system and its address.
    pub target: Target,
    /// Protocol and form of requests.
    pub access: Access,
}

impl Endpoint {
    /// Connects, logs in and prepares `statements`, so that
    /// [`crate::proto::Verb::Statement`] n means the n-th of them.
    ///
    /// # Errors
    /// One line that names the address and what failed.
    pub fn connect(&self, statements: &[String]) -> Result<Connection> {
        self.try_connect(statements)
            .map_err(|error| error.during(&self.target.name))
    }

    fn try_connect(&self, statements: &[String]) -> Result<Connection> {
        let target = &self.target;
        match self.access {
            Access::MysqlText => {
                mysql::connect(target, statements.iter().map(|s| (s.as_str(), false)))
            }
            Access::MysqlPrepared => {
                mysql::connect(target, statements.iter().map(|s| (s.as_str(), true)))
            }
            Access::Postgres => postgres::connect(target, statements),
            Access::Memcached => {
                let stream = open(&target.host, cache_port(target))?;
                Ok(Connection::new(stream, Box::new(Memcached)))
            }
            Access::Dialect(dialect, apart) => {
                let stream = open(&target.host, cache_port(target))?;
                let codec = Box::new(Speaker::new(dialect, apart));
                Ok(Connection::new(stream, codec))
            }
        }
    }
}

/// Port for the memcached protocol.
fn cache_port(target: &Target) -> u16 {
    if target.system == System::Porpoise {
        target.memcached_port
    } else {
        target.port
    }
}

/// A connection for administrative statements: creating tables,
/// loading them, reading settings.
pub struct Admin {
    connection: Connection,
    call: Call,
    answer: Answer,
}

impl Admin {
    /// Connects to a system that has SQL.
    ///
    /// # Errors
    /// One line that names the system: it has no SQL, or connecting failed.
    pub fn connect(target: &Target) -> Result<Admin> {
        let access = match target.system {
            System::Mysql | System::Porpoise => Access::MysqlText,
            System::Postgres => Access::Postgres,
            System::Memcached | System::Noop => {
                return Err(Error::failed(format!("{} has no SQL", target.name)));
            }
        };
        let endpoint = Endpoint {
            target: target.clone(),
            access,
        };
        Ok(Admin {
            connection: endpoint.connect(&[])?,
            call: Call::default(),
            answer: Answer::default(),
        })
    }

    /// Sets the time limit of statements.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn set_patience(&mut self, time: std::time::Duration) -> Result<()> {
        self.connection.set_patience(time)
    }

    /// Runs a statement. The answer is valid until the next call.
    ///
    /// # Errors
    /// The server refuses the statement, or the connection fails.
    pub fn run(&mut self, statement: &str) -> Result<&Answer> {
        self.call.begin(Verb::Text).bytes(statement.as_bytes());
        self.connection
            .must(&self.call, &mut self.answer)
            .map_err(|error| error.during(shortened(statement)))?;
        Ok(&self.answer)
    }

    /// The first value of a statement's result, if it has one.
    ///
    /// # Errors
    /// As [`Admin::run`].
    pub fn value(&mut self, statement: &str) -> Result<Option<String>> {
        let answer = self.run(statement)?;
        Ok(answer
            .cell(0)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }
}

/// The beginning of a statement, for messages.
fn shortened(statement: &str) -> String {
    const SHOWN: usize = 80;
    if statement.len() <= SHOWN {
        return statement.to_owned();
    }
    let text: String = statement.chars().take(SHOWN).collect();
    format!("{text}...")
}
