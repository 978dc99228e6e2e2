//! LOAD DATA: the source of its file.
//!
//! The client sends the file of LOAD DATA LOCAL; the file of the other form is on the server, in the
//! directory of `secure_file_priv`. The statement itself is an INSERT whose rows are read while it
//! runs (`porpoise_sql_exec::exec::load`).

use super::{CLIENT_LOCAL_FILES, Outcome, SqlSession};
use crate::context::StatementContext;
use porpoise_base::blocking::blocking;
use porpoise_base::statement_file::open_within;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{IntoVar, LoadData, Statement};
use porpoise_sql_plan::bind::nodes::variable_name;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_types::{ColumnType, Kind, Value, ValueRef};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Number of bytes read from a file at a time.
const CHUNK: usize = 256 * 1024;

impl SqlSession {
    /// Executes LOAD DATA.
    pub(super) fn load_data(
        &mut self,
        load: &LoadData<'_>,
        text: &[u8],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let statement = Statement::LoadData(load);
        if load.local {
            self.check_local_files()?;
            self.declare_variables(load)?;
            return self.run_statement(&statement, text, &[], &[], sink);
        }
        let mut file = ServerFile {
            directory: file_directory(&self.cx)?,
            open: None,
        };
        self.declare_variables(load)?;
        self.run_statement(&statement, text, &[], &[], &mut file)
    }

    /// Error 3948 unless both the client and the server (`local_infile`) allow files of the client.
    fn check_local_files(&self) -> Result<()> {
        let allowed = self.cx.server.variable("local_infile");
        let capable = self.cx.client.capabilities & CLIENT_LOCAL_FILES != 0;
        if capable && allowed.as_deref() == Some("ON") {
            Ok(())
        } else {
            Err(SqlError::local_files_disabled())
        }
    }

    /// Declares the user variables into which fields are read as texts, so that the expressions of
    /// SET are bound to that type.
    fn declare_variables(&self, load: &LoadData<'_>) -> Result<()> {
        for field in load.fields {
            if let IntoVar::User(name) = field {
                let ty = ColumnType::text(Kind::LongText, self.cx.settings.collation);
                let name = variable_name(name);
                self.cx
                    .env
                    .set_user_variable(name, Value::Bytes(Vec::new()), ty)?;
            }
        }
        Ok(())
    }
}

/// A file of the server, as the source of LOAD DATA.
struct ServerFile {
    directory: String,
    open: Option<Box<dyn io::Read>>,
}

/// The directory of the server's files, `secure_file_priv`.
///
/// # Errors
/// 1290 without one.
pub(super) fn file_directory(cx: &StatementContext) -> Result<String> {
    let directory = cx.server.variable("secure_file_priv");
    let directory = directory.filter(|d| !d.is_empty() && d != "NULL");
    directory.ok_or_else(outside_of_directory)
}

/// Error 1290 for a file that is not in the directory.
pub(super) fn outside_of_directory() -> SqlError {
    let text = "The MySQL server is running with the --secure-file-priv option so it cannot execute \
                this statement";
    SqlError::new(1290, "HY000", text)
}

impl ResultSink for ServerFile {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<()> {
        Ok(())
    }

    fn open_file(&mut self, name: &[u8]) -> Result<()> {
        let shown = String::from_utf8_lossy(name);
        let path = Path::new(OsStr::from_bytes(name));
        let opened = blocking(|| open_within(Path::new(&self.directory), path));
        match opened {
            Ok(Some(file)) => {
                self.open = Some(Box::new(file));
                Ok(())
            }
            Ok(None) => Err(outside_of_directory()),
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(0);
                let text = format!("File '{shown}' not found (OS errno {number} - {error})");
                Err(SqlError::new(29, "HY000", text))
            }
        }
    }

    fn read_file(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some(file) = &mut self.open else {
            return Ok(false);
        };
        let start = out.len();
        out.resize(start + CHUNK, 0);
        let buffer = out.get_mut(start..).unwrap_or_default();
        let read = blocking(|| file.read(buffer));
        out.truncate(start + read.as_ref().map_or(0, |n| *n));
        match read {
            Ok(n) => Ok(n > 0),
            Err(error) => {
                let text = format!("Error reading file of LOAD DATA: {error}");
                Err(SqlError::new(1024, "HY000", text))
            }
        }
    }
}
