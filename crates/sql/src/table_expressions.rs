//! Table expressions: CHECK constraints, defaults and generated columns, which `rows` evaluates
//! when it writes a row.
//!
//! The texts in the catalog are parsed and bound to the table's columns once, and evaluated like
//! other expressions, in an environment built from what `rows` knows of the statement.
//!
//! Invariants:
//! 1. An expression depends on the row and the statement's time, and on nothing else of a session:
//!    CHECK constraints and generated columns with other functions are rejected when they are
//!    defined.
//! 2. Texts are parsed in the default SQL mode, in which they were printed.

use bumpalo::Bump;
use porpoise_base::cancel::Cancel;
use porpoise_rows::Error;
use porpoise_rows::catalog::{Column, ColumnDefault, Expression, Table, TableDef};
use porpoise_rows::expressions::{CompileExpressions, KeyPartType, RowContext, RowExpressions};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::block_cipher::BlockCipher;
use porpoise_sql_expr::expr::eval::{Env, EvalCx, Slot, eval};
use porpoise_sql_expr::expr::named_locks::NamedLocks;
use porpoise_sql_expr::expr::stored::{FunctionName, StoredFunction};
use porpoise_sql_expr::expr::{Expr, ExprKind, convert};
use porpoise_sql_expr::locale::Locale;
use porpoise_sql_expr::memory::SessionMemory;
use porpoise_sql_parser::ast;
use porpoise_sql_plan::bind::SystemVariables;
use porpoise_sql_plan::bind::nodes::{ARRAY_OUTSIDE_OF_INDEX, MULTI_VALUED_CLAUSE};
use porpoise_sql_plan::bind::table_expression::table_expression;
use porpoise_sql_plan::statistics::StatisticsSource;
use porpoise_types::{CastCx, Collation, ColumnType, Kind, Value, ValueRef, Warning, store};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// The part of a definition that has an expression, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionOwner<'a> {
    /// A generated column.
    Generated(&'a str),
    /// A column's default.
    Default(&'a str),
    /// A check constraint.
    Check(&'a str),
    /// A functional key part, by the name of its index.
    KeyPart(&'a str),
}

impl ExpressionOwner<'_> {
    /// The error for a function that is not allowed: 3763, 3770 or 3814 with its name; 3102, 3769 or
    /// 3815 without.
    pub fn disallowed(self, function: Option<&str>) -> SqlError {
        let (unnamed_code, named_code, start) = match self {
            ExpressionOwner::Generated(c) => {
                (3102, 3763, format!("Expression of generated column '{c}'"))
            }
            ExpressionOwner::Default(c) => (
                3769,
                3770,
                format!("Default value expression of column '{c}'"),
            ),
            ExpressionOwner::KeyPart(index) => {
                let text = format!(
                    "Expression of functional index '{index}' contains a disallowed function."
                );
                return SqlError::new(3758, "HY000", text);
            }
            ExpressionOwner::Check(c) => {
                let text = format!("An expression of a check constraint '{c}'");
                return match function {
                    None => SqlError::new(
                        3815,
                        "HY000",
                        format!("{text} contains disallowed function."),
                    ),
                    Some(f) => SqlError::new(
                        3814,
                        "HY000",
                        format!("{text} contains disallowed function: {f}."),
                    ),
                };
            }
        };
        match function {
            None => {
                let text = format!("{start} contains a disallowed function.");
                SqlError::new(unnamed_code, "HY000", text)
            }
            Some(f) => {
                let text = format!("{start} contains a disallowed function: {f}.");
                SqlError::new(named_code, "HY000", text)
            }
        }
    }

    /// Errors 3765, 3772 and 3816: variables are not allowed.
    fn variables_disallowed(self) -> SqlError {
        match self {
            ExpressionOwner::Generated(c) => SqlError::new(
                3765,
                "HY000",
                format!(
                    "Expression of generated column '{c}' cannot refer user or system variables."
                ),
            ),
            ExpressionOwner::KeyPart(_) => self.disallowed(None),
            ExpressionOwner::Default(c) => SqlError::new(
                3772,
                "HY000",
                format!(
                    "Default value expression of column '{c}' cannot refer user or system variables."
                ),
            ),
            ExpressionOwner::Check(c) => SqlError::new(
                3816,
                "HY000",
                format!(
                    "An expression of a check constraint '{c}' cannot refer to a user or system \
                     variable."
                ),
            ),
        }
    }
}

/// Compiles the expressions of tables; registered with the database.
#[derive(Debug, Default)]
pub struct ExpressionCompiler {
    locks: Arc<NamedLocks>,
}

/// A column with its compiled expression.
#[derive(Debug)]
struct CompiledColumn {
    position: usize,
    column: Column,
    /// For the column of a functional key part, the index's name.
    index: Option<String>,
    expr: Expr,
}

/// Compiled expressions of one table.
#[derive(Debug)]
struct TableExpressions {
    generated: Vec<CompiledColumn>,
    defaults: Vec<CompiledColumn>,
    checks: Vec<(String, Expr)>,
    locks: Arc<NamedLocks>,
}

/// Functions whose value depends on more than their arguments, or that have side effects; not
/// allowed in CHECK constraints and generated columns (manual, "CREATE TABLE and Generated
/// Columns").
const NONDETERMINISTIC_FUNCTIONS: &[&str] = &[
    "CONNECTION_ID",
    "CURDATE",
    "CURRENT_DATE",
    "CURRENT_ROLE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "CURTIME",
    "DATABASE",
    "ICU_VERSION",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "NOW",
    "RAND",
    "RANDOM_BYTES",
    "SCHEMA",
    "SESSION_USER",
    "SYSDATE",
    "SYSTEM_USER",
    "USER",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
    "UUID",
    "UUID_SHORT",
    "VERSION",
];

/// Functions not allowed in any definition.
const FORBIDDEN_FUNCTIONS: &[&str] = &[
    "BENCHMARK",
    "FOUND_ROWS",
    "GET_LOCK",
    "IS_FREE_LOCK",
    "IS_USED_LOCK",
    "LAST_INSERT_ID",
    "LOAD_FILE",
    "NAME_CONST",
    "RELEASE_ALL_LOCKS",
    "RELEASE_LOCK",
    "ROW_COUNT",
    "SLEEP",
];

/// Rejects system variables in an expression.
struct NoVariables<'a>(ExpressionOwner<'a>);

/// No table is planned here, so no statistics are needed.
impl StatisticsSource for NoVariables<'_> {}

impl SystemVariables for NoVariables<'_> {
    fn get(&self, _: bool, _: &str) -> Result<Expr> {
        Err(self.0.variables_disallowed())
    }

    /// As in MySQL, a name that is not a built-in function is refused, whether there is such a
    /// function or not.
    fn stored_function(&self, name: &FunctionName<'_>) -> Result<Option<Arc<StoredFunction>>> {
        let shown = match name.schema {
            Some(schema) => format!("`{schema}`.`{}`", name.name),
            None => format!("`{}`", name.name),
        };
        Err(self.0.disallowed(Some(&shown)))
    }
}

/// Binds an expression to the columns of its table, and checks that its owner may contain it.
fn bind(table: &Arc<Table>, expression: &Expression, owner: ExpressionOwner<'_>) -> Result<Expr> {
    let arena = Bump::new();
    let system = NoVariables(owner);
    let clause = match owner {
        ExpressionOwner::Generated(_) => "generated column function",
        ExpressionOwner::Default(_) => "default value expression",
        ExpressionOwner::Check(_) => "check constraint expression",
        ExpressionOwner::KeyPart(_) => MULTI_VALUED_CLAUSE,
    };
    if let ExpressionOwner::Check(name) = owner
        && let Some(unknown) = expression
            .columns
            .iter()
            .find(|c| table.column(c).is_none())
    {
        let text = format!("Check constraint '{name}' refers to non-existing column '{unknown}'.");
        return Err(SqlError::new(3820, "HY000", text));
    }
    let (parsed, bound) = table_expression(&arena, table, &expression.text, clause, &system)?;
    check_functions(&bound, owner)?;
    let mut has_nested_array = false;
    bound.each_child(&mut |operand| {
        operand.walk(&mut |e| has_nested_array |= matches!(e.kind, ExprKind::CastArray(_)));
    });
    if has_nested_array {
        return Err(SqlError::not_supported(ARRAY_OUTSIDE_OF_INDEX));
    }
    if let ExpressionOwner::Check(name) = owner
        && !is_boolean(&parsed, &bound)
    {
        let text =
            format!("An expression of non-boolean type specified to a check constraint '{name}'.");
        return Err(SqlError::new(3812, "HY000", text));
    }
    Ok(bound)
}

/// Rejects functions, variables and subqueries that the owner must not contain.
fn check_functions(bound: &Expr, owner: ExpressionOwner<'_>) -> Result<()> {
    let mut refused = None;
    bound.walk(&mut |e| match &e.kind {
        ExprKind::UserVariable(_) | ExprKind::AssignVariable(..) => {
            refused.get_or_insert_with(|| owner.variables_disallowed());
        }
        ExprKind::TextMatch(_) => {
            refused.get_or_insert_with(|| owner.disallowed(Some("match")));
        }
        ExprKind::Query(_) | ExprKind::Param(_) => {
            refused.get_or_insert_with(|| owner.disallowed(None));
        }
        ExprKind::Call(f, args) => {
            let current_time = f.name == "UNIX_TIMESTAMP" && args.is_empty();
            let nondeterministic = current_time || NONDETERMINISTIC_FUNCTIONS.contains(&f.name);
            let is_default = matches!(owner, ExpressionOwner::Default(_));
            if nondeterministic && !is_default || FORBIDDEN_FUNCTIONS.contains(&f.name) {
                let name = canonical_name(f.name).to_ascii_lowercase();
                refused.get_or_insert_with(|| owner.disallowed(Some(&name)));
            }
        }
        _ => {}
    });
    match refused {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The name that MySQL's messages use for a function and its synonyms.
fn canonical_name(name: &str) -> &str {
    match name {
        "CURRENT_TIMESTAMP" | "LOCALTIME" | "LOCALTIMESTAMP" => "NOW",
        "CURRENT_DATE" => "CURDATE",
        "CURRENT_TIME" => "CURTIME",
        "SESSION_USER" | "SYSTEM_USER" => "USER",
        _ => name,
    }
}

/// Whether an expression is a condition by its syntax.
fn is_boolean(parsed: &ast::Expr<'_>, bound: &Expr) -> bool {
    match &bound.kind {
        ExprKind::Const(_) => {
            let literal =
                |e: &ast::Expr<'_>| matches!(e.kind, ast::ExprKind::Literal(ast::Literal::Bool(_)));
            literal(parsed) || !matches!(parsed.kind, ast::ExprKind::Literal(_))
        }
        ExprKind::Column { .. } => false,
        _ => bound.ty.is_integer() && bound.ty.length == 1,
    }
}

impl CompileExpressions for ExpressionCompiler {
    fn compile(&self, table: &TableDef) -> porpoise_rows::Result<Arc<dyn RowExpressions>> {
        let expressions = self.table_expressions(table).map_err(rows_error)?;
        Ok(Arc::new(expressions))
    }

    fn key_part_type(
        &self,
        table: &TableDef,
        index: &str,
        expression: &Expression,
    ) -> porpoise_rows::Result<KeyPartType> {
        let table = &Arc::new(Table::new(table.clone()));
        let bound = bind(table, expression, ExpressionOwner::KeyPart(index));
        let ty = bound.and_then(|e| {
            let array = matches!(e.kind, ExprKind::CastArray(_));
            let ty = if array { e.ty } else { key_part_type(&e)? };
            Ok(KeyPartType { ty, array })
        });
        ty.map_err(rows_error)
    }
}

impl ExpressionCompiler {
    fn table_expressions(&self, table: &TableDef) -> Result<TableExpressions> {
        let table = &Arc::new(Table::new(table.clone()));
        let mut compiled = TableExpressions {
            generated: Vec::new(),
            defaults: Vec::new(),
            checks: Vec::with_capacity(table.checks.len()),
            locks: self.locks.clone(),
        };
        for (position, column) in table.columns.iter().enumerate() {
            let index = table.index_of_key_part(position);
            let index = index.filter(|_| column.is_hidden());
            let computed = |expr| CompiledColumn {
                position,
                column: column.clone(),
                index: index.map(str::to_owned),
                expr,
            };
            if let Some(generated) = &column.generated {
                let owner = match index {
                    Some(index) => ExpressionOwner::KeyPart(index),
                    None => ExpressionOwner::Generated(&column.name),
                };
                let expr = bind(table, &generated.expression, owner)?;
                compiled.generated.push(computed(expr));
            } else if let ColumnDefault::Expr(expression) = &column.default {
                let expr = bind(table, expression, ExpressionOwner::Default(&column.name))?;
                compiled.defaults.push(computed(expr));
            }
        }
        for check in &table.checks {
            let expr = bind(
                table,
                &check.expression,
                ExpressionOwner::Check(&check.name),
            )?;
            if check.enforced {
                compiled.checks.push((check.name.clone(), expr));
            }
        }
        Ok(compiled)
    }
}

/// The type of a functional key part's column.
fn key_part_type(e: &Expr) -> Result<ColumnType> {
    if matches!(e.kind, ExprKind::Column { .. }) {
        let text = "Functional index on a column is not supported. Consider using a regular index \
                    instead.";
        return Err(SqlError::new(3762, "HY000", text));
    }
    let mut ty = e.ty.clone();
    match ty.kind {
        Kind::Json => {
            let text = "Cannot create a functional index on a function that returns a JSON or \
                        GEOMETRY value.";
            return Err(SqlError::new(3753, "HY000", text));
        }
        _ if ty.is_blob() => {
            let text = "Cannot create a functional index on an expression that returns a BLOB or \
                        TEXT. Please consider using CAST.";
            return Err(SqlError::new(3757, "HY000", text));
        }
        Kind::Null => ty = ColumnType::binary(0),
        Kind::Float | Kind::Double => ty = ColumnType::double(),
        Kind::Char => ty.kind = Kind::VarChar,
        Kind::Binary => ty.kind = Kind::VarBinary,
        _ if ty.is_integer() => {
            ty = if ty.unsigned {
                ColumnType::bigint_unsigned()
            } else {
                ColumnType::bigint()
            }
        }
        _ => {}
    }
    Ok(ty)
}

/// The error of evaluating a functional key part, which names the index instead of the column.
fn key_part_error(error: SqlError, part: &CompiledColumn, index: &str, row: u64) -> SqlError {
    let mut casts_json = false;
    part.expr.walk(&mut |e| {
        casts_json |= matches!(&e.kind, ExprKind::Cast(arg) if arg.ty.kind == Kind::Json);
    });
    let (code, state, text) = match error.code {
        1264 | 3752 => (
            3752,
            "22003",
            format!("Value is out of range for functional index '{index}' at row {row}"),
        ),
        1265 | 1366 | 3751 => (
            3751,
            "01000",
            format!("Data truncated for functional index '{index}' at row {row}"),
        ),
        1406 | 3907 => return key_part_too_long(index),
        1292 if is_truncated_cast(&error.message) => return key_part_too_long(index),
        1292 if casts_json => return invalid_json(index),
        3156 | 3903 => return invalid_json(index),
        3904 => (
            3904,
            "22003",
            format!("Out of range JSON value for CAST for functional index '{index}'."),
        ),
        3905 => (
            3905,
            "HY000",
            format!(
                "Exceeded max number of values per record for multi-valued index '{index}' by {} \
                 value(s).",
                error.message
            ),
        ),
        3906 => (
            3906,
            "HY000",
            format!(
                "Exceeded max total length of values per record for multi-valued index '{index}' \
                 by {} bytes.",
                error.message
            ),
        ),
        3908 => (
            3908,
            "HY000",
            format!(
                "Cannot store an array or an object in a scalar key part of the index '{index}'."
            ),
        ),
        _ => return error,
    };
    SqlError::new(code, state, text)
}

fn invalid_json(index: &str) -> SqlError {
    let text = format!("Invalid JSON value for CAST for functional index '{index}'.");
    SqlError::new(3903, "22018", text)
}

/// Whether the text of a warning or error says that a CAST has truncated a string.
fn is_truncated_cast(message: &str) -> bool {
    ["CHAR", "BINARY"].iter().any(|kind| {
        let start = format!("Truncated incorrect {kind}(");
        message.starts_with(&start)
    })
}

fn key_part_too_long(index: &str) -> SqlError {
    let text = format!("Data too long for functional index '{index}'.");
    SqlError::new(3907, "22001", text)
}

/// Converts an error to one of `rows`.
fn rows_error(error: SqlError) -> Error {
    let state = match &error.sqlstate {
        b"01000" => "01000",
        b"22001" => "22001",
        b"22003" => "22003",
        b"22007" => "22007",
        b"22012" => "22012",
        b"22018" => "22018",
        b"22032" => "22032",
        b"23000" => "23000",
        b"42000" => "42000",
        b"42S22" => "42S22",
        _ => "HY000",
    };
    Error::refused(error.code, state, error.message)
}

impl TableExpressions {
    /// The environment of an evaluation. Settings of which values must not depend are constants.
    fn env(&self, cx: &RowContext) -> Env {
        Env {
            mode: cx.mode,
            strict: Cell::new(cx.strict),
            time_zone: cx.time_zone.clone(),
            now_utc: cx.now_utc,
            expiry_time: Cell::new(None),
            connection_id: 0,
            user: cx.user.clone(),
            account: cx.user.clone(),
            roles: String::new(),
            database: None,
            last_insert_id: Cell::new(0),
            row_count: 0,
            found_rows: 0,
            counted_rows: Cell::new(None),
            query_attributes: Vec::new(),
            user_variables: RefCell::new(HashMap::new()),
            warnings: RefCell::new(Vec::new()),
            warnings_dropped: Cell::new(0),
            random: Cell::new(cx.seed.get()),
            seeded: RefCell::new(HashMap::new()),
            joined_rows: RefCell::new(HashMap::new()),
            warned_literals: RefCell::new(Vec::new()),
            has_side_effect: Cell::new(false),
            max_allowed_packet: 1 << 30,
            div_precision: 4,
            block_cipher: BlockCipher::default(),
            locale: Locale::english(),
            week_format: 0,
            group_concat_max_len: 1024,
            collation: Collation::UTF8MB4_0900_AI_CI,
            locks: self.locks.clone(),
            cancel: Cancel::default(),
            in_sets: Default::default(),
            work: Cell::new(0),
            memory: SessionMemory::default(),
        }
    }

    /// Evaluates the expression of a column for a row, and converts the value to the column's type.
    /// `row_number` is for messages; errors of functional key parts name the index.
    fn value(
        &self,
        compiled: &CompiledColumn,
        row: &[Value],
        row_number: u64,
        cx: &RowContext,
    ) -> Result<Value> {
        let Some(index) = &compiled.index else {
            return self.column_value(compiled, row, row_number, cx);
        };
        let before = cx.warnings.borrow().len();
        let value = self.column_value(compiled, row, row_number, cx);
        let value = value.map_err(|error| key_part_error(error, compiled, index, row_number))?;
        // A truncated value is not stored: the index would not find the row by the whole value.
        let mut warnings = cx.warnings.borrow_mut();
        let truncated = |w: &Warning| is_truncated_cast(&w.message);
        if cx.strict && warnings.iter().skip(before).any(truncated) {
            warnings.truncate(before);
            return Err(key_part_too_long(index));
        }
        Ok(value)
    }

    fn column_value(
        &self,
        compiled: &CompiledColumn,
        row: &[Value],
        row_number: u64,
        cx: &RowContext,
    ) -> Result<Value> {
        let env = self.env(cx);
        let arena = Bump::new();
        let value = evaluate(&compiled.expr, row, &env, &arena)?;
        let stored = if value.is_null() || compiled.column.is_array() {
            value.to_owned()
        } else {
            let mut warn = |w| env.warn(w);
            let mut cast = CastCx {
                mode: cx.mode,
                strict: cx.strict,
                warnings: &mut warn,
                tz: &cx.time_zone,
                now: env.now(),
            };
            let column = &compiled.column;
            let (value, from) = convert::for_assignment(value, &compiled.expr.ty, &column.ty);
            let (ty, name) = (&column.ty, &column.name);
            store(value, Some(from), ty, name, row_number, &mut cast)?
        };
        cx.seed.set(env.random.get());
        cx.warnings
            .borrow_mut()
            .append(&mut env.warnings.borrow_mut());
        Ok(stored)
    }
}

/// The context of an expression without parameters, aggregates and subqueries.
fn context<'a>(env: &'a Env, arena: &'a Bump) -> EvalCx<'a> {
    EvalCx {
        arena,
        env,
        params: &[],
        aggregates: &[],
        new_row: &[],
        outer: None,
        queries: None,
    }
}

/// Evaluates an expression over the values of a row.
fn evaluate<'a>(e: &'a Expr, row: &[Value], env: &'a Env, arena: &'a Bump) -> Result<ValueRef<'a>> {
    let cx = context(env, arena);
    let values = arena.alloc_slice_fill_with(row.len(), |at| {
        convert::keep(row.get(at).unwrap_or(&Value::Null), &cx)
    });
    eval(e, &[Slot::Values(values)], &cx)
}

impl RowExpressions for TableExpressions {
    fn generate(
        &self,
        row: &mut [Value],
        number: u64,
        cx: &RowContext,
    ) -> porpoise_rows::Result<()> {
        for computed in &self.generated {
            let value = self.value(computed, row, number, cx).map_err(rows_error)?;
            if let Some(place) = row.get_mut(computed.position) {
                *place = value;
            }
        }
        Ok(())
    }

    fn check(&self, row: &[Value], cx: &RowContext) -> porpoise_rows::Result<()> {
        if self.checks.is_empty() {
            return Ok(());
        }
        let env = self.env(cx);
        // Lenient conversion, as in WHERE: an invalid value is converted as far as possible.
        env.strict.set(false);
        let mut arena = Bump::new();
        for (name, condition) in &self.checks {
            arena.reset();
            let truth = holds(condition, row, &env, &arena).map_err(rows_error)?;
            if truth == Some(false) {
                return Err(Error::CheckViolated {
                    check: name.clone(),
                });
            }
        }
        cx.warnings
            .borrow_mut()
            .append(&mut env.warnings.borrow_mut());
        Ok(())
    }

    fn default(
        &self,
        column: usize,
        row: &[Value],
        cx: &RowContext,
    ) -> porpoise_rows::Result<Value> {
        let found = self.defaults.iter().find(|d| d.position == column);
        match found {
            Some(computed) => self.value(computed, row, 1, cx).map_err(rows_error),
            None => Ok(Value::Null),
        }
    }
}

/// The truth of a condition for a row; `None` for NULL.
fn holds(condition: &Expr, row: &[Value], env: &Env, arena: &Bump) -> Result<Option<bool>> {
    let value = evaluate(condition, row, env, arena)?;
    let cx = context(env, arena);
    convert::truth(value, &condition.ty, &cx)
}
