//! Writing rows from a statement: the triggers of the rows run in its session.
//!
//! `rows` knows when a trigger fires; the session knows how to run its body ([`RunPrograms`]). An
//! error of a body passes through `rows` as a rows error, which loses parts of it (the commit
//! position that the reply waits for): so the first one is kept here and returned instead.

use super::{Exec, ExecResult, RunPrograms};
use crate::error::SqlError;
use crate::expr::eval::Env;
use porpoise_rows::{Error, FireTriggers, Firing, FiringTxn, Txn};
use std::cell::RefCell;

/// Runs triggers for one write.
struct Runner<'x> {
    programs: Option<&'x dyn RunPrograms>,
    env: &'x Env,
    failure: RefCell<Option<SqlError>>,
}

impl Runner<'_> {
    /// Runs a call of the session's, and keeps its error.
    fn run(
        &self,
        call: impl FnOnce(&dyn RunPrograms) -> Result<(), SqlError>,
    ) -> Result<(), Error> {
        let done = match self.programs {
            Some(programs) => call(programs),
            None => Err(SqlError::internal("a statement without triggers fired one")),
        };
        done.map_err(|error| {
            let reported = Error::Trigger {
                code: error.code,
                sqlstate: String::from_utf8_lossy(&error.sqlstate).into_owned(),
                message: error.message.clone(),
            };
            self.failure.replace(Some(error));
            reported
        })
    }
}

impl FireTriggers for Runner<'_> {
    fn fire(&self, txn: &mut Txn, firing: &mut Firing<'_>) -> Result<(), Error> {
        self.run(|programs| programs.fire(firing, txn, self.env))
    }

    fn fire_in_batch(&self, txn: &mut Txn, firing: &mut Firing<'_>) -> Result<(), Error> {
        self.run(|programs| programs.fire_in_batch(firing, txn, self.env))
    }

    fn write_batch(&self, txn: &mut Txn) -> Result<(), Error> {
        self.run(|programs| programs.write_batch(txn))
    }
}

impl Exec<'_> {
    /// Writes rows and fires their triggers. The inner error is that of a row.
    ///
    /// # Errors
    /// The error of a trigger.
    pub(super) fn write<T>(
        &self,
        call: impl FnOnce(&mut FiringTxn<'_>) -> Result<T, Error>,
    ) -> ExecResult<Result<T, Error>> {
        let runner = Runner {
            programs: self.shared.programs,
            env: self.env,
            failure: RefCell::default(),
        };
        let done = call(&mut self.txn().firing(&runner));
        match runner.failure.into_inner() {
            Some(error) if done.is_err() => Err(error.into()),
            _ => Ok(done),
        }
    }
}
