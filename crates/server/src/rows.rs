//! Opens the row layer over an engine, for every command of the binaries.
//!
//! Invariant: a database opened here has the compiler for the expressions of
//! its definitions, so that the same checks and generated
//! columns hold for the server's listeners, `porpoise check` and `porpoise-bench`.

use porpoise_base::clock;
use porpoise_kv::Engine;
use porpoise_rows::{Db, DbOptions, Error};
use porpoise_sql::table_expressions::ExpressionCompiler;
use std::sync::Arc;

/// Opens the catalog of an engine.
///
/// # Errors
/// Errors of reading the catalog.
pub fn open(engine: Arc<dyn Engine>) -> Result<Arc<Db>, Error> {
    open_with(engine, DbOptions::default())
}

/// As [`open`], with settings.
///
/// # Errors
/// As there.
pub fn open_with(engine: Arc<dyn Engine>, options: DbOptions) -> Result<Arc<Db>, Error> {
    let db = Db::open(engine, clock::system(), options)?;
    db.set_compiler(Arc::new(ExpressionCompiler::default()));
    Ok(db)
}
