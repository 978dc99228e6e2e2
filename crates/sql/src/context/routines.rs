//! Compilation of procedures and functions from their definitions.

use super::{StatementContext, lex_mode};
use crate::programs::compile::{CompileCx, compile};
use crate::programs::program::Program;
use bumpalo::Bump;
use porpoise_rows::catalog::{Routine, RoutineKind};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{CreateRoutine, DataType, ParameterMode, Statement, VariableKind};
use porpoise_sql_parser::{LexMode, ParseOptions, parse_one};
use porpoise_sql_plan::bind::column_types::column_type;
use porpoise_types::{Collation, ColumnType, SqlMode};

impl StatementContext {
    /// The type of a variable, parameter or result of a routine in this database.
    pub(crate) fn program_type(
        &self,
        ty: &DataType<'_>,
        name: &str,
        database: &str,
    ) -> Result<ColumnType> {
        let catalog = self.server.db.catalog();
        let found = catalog.database(database);
        let inherited = found.map_or(Collation::UTF8MB4_0900_AI_CI, |d| d.collation);
        let for_charset = |charset| self.collation_for(charset);
        let mode = self.settings.mode;
        Ok(column_type(ty, name, inherited, mode, &for_charset)?.ty)
    }

    /// Compiles a routine that is created, for its errors and the type of its result.
    pub(crate) fn compile_created(
        &self,
        create: &CreateRoutine<'_>,
        source: &[u8],
        database: &str,
        name: &str,
    ) -> Result<Program> {
        let returns = match &create.returns {
            Some(ty) => Some(self.program_type(ty, name, database)?),
            None => None,
        };
        let parameters: Vec<ParameterMode> = create.parameters.iter().map(|p| p.mode).collect();
        compile(
            &create.body,
            source,
            &CompileCx {
                kind: create.kind,
                name: format!("{database}.{name}"),
                parameters: &parameters,
                returns,
                type_of: &|variable| match &variable.kind {
                    VariableKind::Parameter(ty) | VariableKind::Local(ty) => {
                        self.program_type(ty, variable.name.name, database)
                    }
                    _ => Err(SqlError::internal("a row variable in a routine")),
                },
                assigns_new: false,
            },
        )
    }

    /// Compiles a routine of the catalog.
    ///
    /// # Errors
    /// The errors of its definition, if an older server accepted what this one does not.
    pub(crate) fn compile_routine(&self, routine: &Routine) -> Result<Program> {
        let mode = SqlMode::from_bits(routine.sql_mode);
        let source = definition_text(routine, lex_mode(mode));
        let arena = Bump::new();
        let options = ParseOptions {
            mode: lex_mode(mode),
            ..ParseOptions::default()
        };
        let parsed = parse_one(&arena, source.as_bytes(), 0, &options);
        let parsed = parsed.map_err(|e| SqlError::syntax(&e, source.as_bytes()))?;
        match &parsed.statement {
            Statement::CreateRoutine(create) => {
                self.compile_created(create, source.as_bytes(), &routine.database, &routine.name)
            }
            _ => Err(SqlError::internal("the definition of a routine")),
        }
    }
}

/// The statement that defines a routine, with clauses only as far as they matter to compile it.
fn definition_text(routine: &Routine, mode: LexMode) -> String {
    let quote = if mode.ansi_quotes { '"' } else { '`' };
    let double = format!("{quote}{quote}");
    let quoted = |name: &str| format!("{quote}{}{quote}", name.replace(quote, &double));
    let mut text = format!(
        "CREATE {} {}.{}({})",
        routine.kind.name(),
        quoted(&routine.database),
        quoted(&routine.name),
        routine.parameters
    );
    if routine.kind == RoutineKind::Function {
        text += " RETURNS ";
        text += &routine.returns;
    }
    text += "\n";
    text += &routine.body;
    text
}
