//! Logging in over MySQL's protocol, and preparing statements, outside of measured times.

use crate::conn::{Connection, SILENCE};
use crate::error::{Error, Result};
use crate::proto::mysql::Mysql;
use crate::url::Target;
use porpoise_client::mysql as client;
use porpoise_client::{Address, Stream, TlsMode};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client::login::{Credentials, WANTED};

/// Capabilities that this client requests: only those that all servers have.
fn wanted() -> Capabilities {
    let not = Capabilities::QUERY_ATTRIBUTES.0 | Capabilities::SESSION_TRACK.0;
    Capabilities(WANTED.0 & !not)
}

/// The error of a failure; for a refusal, with the server's number and message.
fn failed(error: porpoise_client::Error) -> Error {
    match error {
        porpoise_client::Error::Server(error) => {
            Error::failed(format!("{} {}", error.code, error.message))
        }
        other => Error::failed(other.to_string()),
    }
}

/// Connects, and prepares the statements that have `true`; the others are sent as text.
///
/// # Errors
/// One line.
pub fn connect<'s>(
    target: &Target,
    statements: impl Iterator<Item = (&'s str, bool)>,
) -> Result<Connection> {
    let credentials = Credentials {
        user: target.user.clone().into_bytes(),
        password: target.password.clone().into_bytes(),
        ..Credentials::default()
    };
    let address = Address::Tcp(target.host.clone(), target.port);
    let mut options = client::Target::new(address, credentials);
    options.tls.mode = TlsMode::Disabled;
    options.capabilities = wanted();
    options.read_timeout = Some(SILENCE);
    let mut connection = client::Connection::connect(&options).map_err(failed)?;
    if !target.database.is_empty() {
        let database = format!("`{}`", target.database.replace('`', "``"));
        for statement in ["create database if not exists", "use"] {
            let statement = format!("{statement} {database}");
            connection
                .execute(&statement)
                .map_err(|error| failed(error).during(&statement))?;
        }
    }
    let mut codec = Mysql::new(connection.capabilities());
    for (statement, prepare) in statements {
        let id = if prepare {
            let prepared = connection
                .prepare(statement)
                .map_err(|error| failed(error).during(format_args!("preparing {statement:?}")))?;
            Some(prepared.id)
        } else {
            None
        };
        codec.add_statement(statement, id);
    }
    match connection.into_stream() {
        Stream::Tcp(stream) => Ok(Connection::new(stream, Box::new(codec))),
        Stream::Unix(_) | Stream::Tls(_) => Err(Error::failed("not a connection over plain TCP")),
    }
}
