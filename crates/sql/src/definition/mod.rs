//! Translation of parsed definitions to the operations of `rows`.
//!
//! Types get MySQL's defaults and limits, and literals in DEFAULT become values of their columns.
//! Unsupported features are rejected by name (1235): no part of a definition that would change the
//! table's behaviour is silently dropped.

pub mod alter;
pub mod copy;
pub mod expressions;
pub mod full_text;
pub mod generated_key;
mod indexes;
pub mod partition;
mod ttl;

use crate::context::StatementContext;
use crate::table_expressions::ExpressionOwner;
use crate::vars::check::{engine_name, is_engine};
use porpoise_rows::catalog::{ColumnDefault, Generated, GeneratedKind, IndexKind, TableOptions};
use porpoise_rows::ddl::{CheckSpec, ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::partition::Partitioning;
use porpoise_rows::ttl::TtlChange;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    ColumnAttr, ColumnDef, CreateTable, Expr, ExprKind, OptionValue, PartitionBy, TableElement,
    TableOption, TypeKind,
};
use porpoise_sql_plan::bind::column_types::column_type;
use porpoise_types::error::ER_WARN_DATA_OUT_OF_RANGE;
use porpoise_types::{CastCx, Collation, ColumnType, Kind, Level, SqlMode, store};

pub use indexes::{foreign_key, index, shorten_added_keys};
pub use porpoise_sql_plan::bind::column_types::{collation_mismatch, collation_named};

/// Defaults for unqualified names and for types without a character set.
#[derive(Clone, Debug)]
pub struct Naming {
    /// The database of the statement's table.
    pub database: String,
    /// The database's default collation.
    pub collation: Collation,
}

impl Naming {
    /// The defaults of a database.
    ///
    /// # Errors
    /// 1049 if it does not exist.
    pub(crate) fn of(cx: &StatementContext, database: &str) -> Result<Naming> {
        let catalog = cx.server.db.catalog();
        let found = catalog.database(database);
        let found = found.ok_or_else(|| SqlError::unknown_database(database))?;
        Ok(Naming {
            database: database.to_owned(),
            collation: found.collation,
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Converts CREATE TABLE.
///
/// # Errors
/// MySQL's errors for invalid definitions, 1235 for unsupported features.
pub fn table(
    cx: &StatementContext,
    naming: &Naming,
    create: &CreateTable<'_>,
) -> Result<TableSpec> {
    let unsupported = [
        (create.like.is_some(), "CREATE TABLE ... LIKE"),
        (create.query.is_some(), "CREATE TABLE ... SELECT"),
    ];
    if let Some((_, clause)) = unsupported.iter().find(|(given, _)| *given) {
        return Err(SqlError::not_supported(clause));
    }
    let name = create.name.name.name;
    let (options, auto_increment) = table_options(cx, naming, name, create.options)?;
    let mut spec = TableSpec {
        database: naming.database.clone(),
        name: name.to_owned(),
        if_not_exists: create.if_not_exists,
        columns: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        options,
        auto_increment,
        placement: Default::default(),
    };
    for element in create.elements {
        match element {
            TableElement::Column(def) => {
                let resolved = column(cx, def, spec.options.collation)?;
                spec.columns.push(resolved.spec);
                spec.indexes.extend(resolved.index);
                spec.checks.extend(resolved.checks);
            }
            TableElement::Index(def) => spec.indexes.push(index(cx, def)?),
            TableElement::ForeignKey(def) => spec.foreign_keys.push(foreign_key(def)?),
            TableElement::Check(def) => {
                spec.checks.push(expressions::check(def, None)?);
            }
        }
    }
    if let Some(by) = create.partition_by {
        spec.placement.partitioning = Some(partition_by(cx, &spec, by)?);
    }
    for option in create.options {
        if let TableOption::Colocate(name) = option {
            let database = name.schema.map(|s| s.name.to_owned());
            spec.placement.colocate = Some((database, name.name.name.to_owned()));
        }
    }
    indexes::shorten_keys(cx, &spec.columns, &mut spec.indexes);
    Ok(spec)
}

fn partition_by(
    cx: &StatementContext,
    spec: &TableSpec,
    by: &PartitionBy<'_>,
) -> Result<Partitioning> {
    let position = |name: &String| {
        let mut columns = spec.columns.iter();
        columns.position(|c| c.name.eq_ignore_ascii_case(name))
    };
    // The columns of the primary key, else those of the first unique key.
    let first_of = |kind| spec.indexes.iter().find(|i| i.kind == kind);
    let key = first_of(IndexKind::Primary).or_else(|| first_of(IndexKind::Unique));
    let key = key.map(|i| {
        i.parts
            .iter()
            .filter_map(|(name, ..)| position(name))
            .collect()
    });
    let columns = partition::Columns {
        all: spec
            .columns
            .iter()
            .map(|c| (c.name.as_str(), &c.ty))
            .collect(),
        key: key.unwrap_or_default(),
    };
    partition::partitioning(cx, &columns, by)
}

/// Converts the options of CREATE TABLE; AUTO_INCREMENT is returned separately.
fn table_options(
    cx: &StatementContext,
    naming: &Naming,
    table: &str,
    given: &[TableOption<'_>],
) -> Result<(TableOptions, Option<u64>)> {
    let mut options = TableOptions {
        engine: cx.settings.engine.clone(),
        collation: naming.collation,
        comment: String::new(),
        memory: false,
        other: Vec::new(),
        created: 0,
        ttl: None,
    };
    let mut ttl_change = TtlChange::default();
    let mut auto_increment = None;
    let mut charset = None;
    let mut collation = None;
    for option in given {
        if ttl::record(option, &mut ttl_change)? {
            continue;
        }
        match option {
            TableOption::Engine(name) => {
                options.engine = engine(cx, table, name.name)?;
            }
            TableOption::AutoIncrement(n) => auto_increment = Some(*n),
            TableOption::Charset(Some(name)) => {
                charset = Some(porpoise_sql_plan::bind::expr::charset_named(name.name)?);
            }
            TableOption::Collate(Some(name)) => collation = Some(collation_named(name.name)?),
            TableOption::Charset(None) | TableOption::Collate(None) => {}
            TableOption::Comment(comment) => options.comment = table_comment(cx, table, comment)?,
            TableOption::RowFormat(name) if name.name.eq_ignore_ascii_case("default") => {}
            TableOption::RowFormat(name) => {
                let value = name.name.to_ascii_uppercase();
                options.other.push(("ROW_FORMAT".to_owned(), value));
            }
            // UNION has a meaning for MERGE tables only.
            TableOption::Union(_) | TableOption::Colocate(_) => {}
            TableOption::Ttl(..) | TableOption::TtlEnable(_) | TableOption::TtlJobInterval(_) => {}
            TableOption::Other(name, value) => other_option(name, value, &mut options)?,
        }
    }
    if ttl_change != TtlChange::default() {
        options.ttl = Some(ttl_change.apply(None)?);
    }
    options.collation = match (charset, collation) {
        (Some(charset), Some(c)) if c.charset() != charset => {
            return Err(collation_mismatch(c, charset));
        }
        (_, Some(collation)) => collation,
        (Some(charset), None) => cx.collation_for(charset),
        (None, None) => naming.collation,
    };
    Ok((options, auto_increment))
}

fn table_comment(cx: &StatementContext, table: &str, comment: &[u8]) -> Result<String> {
    limited_comment(cx, text(comment), 2048, (1628, &format!("table '{table}'")))
}

/// A comment of at most `longest` characters. A longer one is an error; in non-strict mode it is truncated with a
/// warning.
fn limited_comment(
    cx: &StatementContext,
    mut comment: String,
    longest: usize,
    (code, what): (u16, &str),
) -> Result<String> {
    let Some((end, _)) = comment.char_indices().nth(longest) else {
        return Ok(comment);
    };
    let message = format!("Comment for {what} is too long (max = {longest})");
    if cx.settings.mode.is_strict() {
        return Err(SqlError::new(code, "HY000", message));
    }
    warn(cx, Level::Warning, code, message);
    comment.truncate(end);
    Ok(comment)
}

/// Stores options that SHOW CREATE TABLE prints; rejects those that would change the table's
/// behaviour.
fn other_option(name: &str, value: &OptionValue<'_>, options: &mut TableOptions) -> Result<()> {
    const STORED_OPTIONS: &[&str] = &[
        "AVG_ROW_LENGTH",
        "CHECKSUM",
        "DELAY_KEY_WRITE",
        "KEY_BLOCK_SIZE",
        "MAX_ROWS",
        "MIN_ROWS",
        "PACK_KEYS",
        "STATS_AUTO_RECALC",
        "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES",
    ];
    match (name, value) {
        ("ENCRYPTION", OptionValue::String(v)) if !v.eq_ignore_ascii_case(b"n") => {
            Err(SqlError::not_supported("ENCRYPTION"))
        }
        ("DATA DIRECTORY" | "INDEX DIRECTORY" | "TABLESPACE", _) => {
            Err(SqlError::not_supported(name))
        }
        ("CONNECTION", OptionValue::String(v)) => {
            if !v.is_empty() {
                let value = porpoise_rows::show::literal(&text(v));
                options.other.push((name.to_owned(), value));
            }
            Ok(())
        }
        (name, OptionValue::Int(n)) if STORED_OPTIONS.contains(&name) => {
            options.other.push((name.to_owned(), n.to_string()));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The engine name for SHOW CREATE TABLE. A known engine other than Porpoise is accepted with a
/// note, and an unknown one with warnings unless NO_ENGINE_SUBSTITUTION is set.
fn engine(cx: &StatementContext, table: &str, name: &str) -> Result<String> {
    if !is_engine(name) {
        let text = format!("Unknown storage engine '{name}'");
        let error = SqlError::new(1286, "42000", text);
        if cx.settings.mode.contains(SqlMode::NO_ENGINE_SUBSTITUTION) {
            return Err(error);
        }
        warn(cx, Level::Warning, 1286, error.message);
        let text = format!("Using storage engine Porpoise for table '{table}'");
        warn(cx, Level::Warning, 1266, text);
        return Ok(cx.settings.engine.clone());
    }
    if !name.eq_ignore_ascii_case("porpoise") {
        let text = format!("Using storage engine Porpoise for table '{table}'");
        warn(cx, Level::Note, 1266, text);
    }
    Ok(engine_name(name))
}

fn warn(cx: &StatementContext, level: Level, code: u16, message: String) {
    cx.env.warn(porpoise_types::Warning {
        level,
        code,
        message,
    });
}

/// A column, and the index and constraints that its attributes define.
struct ResolvedColumn {
    spec: ColumnSpec,
    index: Option<IndexSpec>,
    checks: Vec<CheckSpec>,
}

/// Converts the definition of a column; `inherited` is the collation of a text column without its
/// own.
fn column(
    cx: &StatementContext,
    def: &ColumnDef<'_>,
    inherited: Collation,
) -> Result<ResolvedColumn> {
    let name = def.name.name;
    let mut ty = def.ty;
    for attr in def.attrs {
        if let ColumnAttr::Collate(collation) = attr {
            ty.collation = Some(*collation);
        }
    }
    let for_charset = |charset| cx.collation_for(charset);
    let mode = cx.settings.mode;
    let typed = column_type(&ty, name, inherited, mode, &for_charset)?;
    if let Some((code, message)) = typed.note {
        warn(cx, Level::Note, code, message);
    }
    let mut spec = ColumnSpec {
        name: name.to_owned(),
        ty: typed.ty,
        nullable: None,
        default: None,
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
        explicit_collation: typed.explicit,
        generated: None,
        invisible: false,
    };
    let mut key = None;
    if ty.kind == TypeKind::Serial {
        serial(&mut spec, &mut key);
    }
    let mut checks = Vec::new();
    for attr in def.attrs {
        match attr {
            ColumnAttr::Check(def) => checks.push(expressions::check(def, Some(name))?),
            _ => attribute(cx, attr, &mut spec, &mut key)?,
        }
    }
    if spec.generated.is_some() {
        check_generated_attributes(&spec)?;
    }
    let index = key.map(|kind| IndexSpec {
        name: None,
        kind,
        parts: vec![(name.to_owned(), None, false)],
        expressions: Vec::new(),
        using_hash: false,
        comment: String::new(),
        invisible: false,
        full_text: None,
    });
    Ok(ResolvedColumn {
        spec,
        index,
        checks,
    })
}

/// Error 1221: attributes that a generated column cannot have.
fn check_generated_attributes(spec: &ColumnSpec) -> Result<()> {
    let attribute = match (&spec.default, spec.auto_increment, spec.on_update_now) {
        (Some(_), ..) => "DEFAULT",
        (_, true, _) => "AUTO_INCREMENT",
        (_, _, true) => "ON UPDATE CURRENT_TIMESTAMP",
        _ => return Ok(()),
    };
    let text = format!("Incorrect usage of {attribute} and generated column");
    Err(SqlError::new(1221, "HY000", text))
}

/// SERIAL DEFAULT VALUE: NOT NULL AUTO_INCREMENT UNIQUE.
fn serial(spec: &mut ColumnSpec, key: &mut Option<IndexKind>) {
    spec.nullable = Some(false);
    spec.auto_increment = true;
    *key = Some(IndexKind::Unique);
}

fn attribute(
    cx: &StatementContext,
    attr: &ColumnAttr<'_>,
    spec: &mut ColumnSpec,
    key: &mut Option<IndexKind>,
) -> Result<()> {
    let unsupported = |what: &str| Err(SqlError::not_supported(what));
    match attr {
        ColumnAttr::Null => spec.nullable = Some(true),
        ColumnAttr::NotNull => spec.nullable = Some(false),
        ColumnAttr::Default(e) => spec.default = Some(default(cx, e, spec)?),
        ColumnAttr::DefaultExpr(e) => {
            let owner = ExpressionOwner::Default(&spec.name);
            spec.default = Some(ColumnDefault::Expr(expressions::expression(e, owner)?));
        }
        ColumnAttr::OnUpdateNow(fsp) => {
            if u64::from(spec.ty.decimals) != *fsp {
                return Err(bad_on_update(&spec.name));
            }
            spec.on_update_now = true;
        }
        ColumnAttr::AutoIncrement => spec.auto_increment = true,
        ColumnAttr::SerialDefault => serial(spec, key),
        ColumnAttr::PrimaryKey => *key = Some(IndexKind::Primary),
        ColumnAttr::Unique if *key == Some(IndexKind::Primary) => {}
        ColumnAttr::Unique => *key = Some(IndexKind::Unique),
        ColumnAttr::Comment(comment) => {
            let what = format!("field '{}'", spec.name);
            spec.comment = limited_comment(cx, text(comment), 1024, (1629, &what))?;
        }
        ColumnAttr::Generated { expr, stored } => {
            let owner = ExpressionOwner::Generated(&spec.name);
            spec.generated = Some(Generated {
                expression: expressions::expression(expr, owner)?,
                kind: if *stored {
                    GeneratedKind::Stored
                } else {
                    GeneratedKind::Virtual
                },
            });
        }
        ColumnAttr::Visible(visible) => spec.invisible = !visible,
        ColumnAttr::Srid(_) => return unsupported("SRID"),
        // MySQL parses REFERENCES on a column and ignores it (manual, "FOREIGN KEY Constraints");
        // the other attributes concern other engines.
        ColumnAttr::References(_)
        | ColumnAttr::Collate(_)
        | ColumnAttr::Check(_)
        | ColumnAttr::ColumnFormat(_)
        | ColumnAttr::Storage(_)
        | ColumnAttr::EngineAttribute(_)
        | ColumnAttr::SecondaryEngineAttribute(_) => {}
    }
    Ok(())
}

fn bad_default(column: &str) -> SqlError {
    SqlError::new(
        1067,
        "42000",
        format!("Invalid default value for '{column}'"),
    )
}

fn bad_on_update(column: &str) -> SqlError {
    let text = format!("Invalid ON UPDATE clause for '{column}' column");
    SqlError::new(1294, "HY000", text)
}

/// The precision of a call of NOW() or of one of its synonyms; `None` for other expressions.
fn now_digits(e: &Expr<'_>) -> Option<u64> {
    let ExprKind::Func(call) = &e.kind else {
        return None;
    };
    let names = ["now", "current_timestamp", "localtime", "localtimestamp"];
    if !names.iter().any(|n| call.name.name.eq_ignore_ascii_case(n)) {
        return None;
    }
    match call.args {
        [] => Some(0),
        [digits] => match &digits.kind {
            ExprKind::Literal(porpoise_sql_parser::ast::Literal::Int(n)) => Some(*n),
            _ => None,
        },
        _ => None,
    }
}

/// The value of DEFAULT, converted to the column's type.
fn default(cx: &StatementContext, e: &Expr<'_>, spec: &ColumnSpec) -> Result<ColumnDefault> {
    if let Some(digits) = now_digits(e) {
        let temporal = matches!(spec.ty.kind, Kind::DateTime | Kind::Timestamp);
        return if temporal && digits == u64::from(spec.ty.decimals) {
            Ok(ColumnDefault::Now)
        } else {
            Err(bad_default(&spec.name))
        };
    }
    let (value, source) = cx.evaluate(e, &[], &[])?;
    if value.is_null() {
        return Ok(ColumnDefault::Null);
    }
    literal_default(cx, value.as_ref(), &source, spec)
}

fn literal_default(
    cx: &StatementContext,
    value: porpoise_types::ValueRef<'_>,
    source: &ColumnType,
    spec: &ColumnSpec,
) -> Result<ColumnDefault> {
    if spec.ty.is_blob() || spec.ty.kind == Kind::Json {
        let text = format!(
            "BLOB, TEXT, GEOMETRY or JSON column '{}' can't have a default value",
            spec.name
        );
        let is_empty = matches!(value, porpoise_types::ValueRef::Bytes([]));
        if is_empty && !cx.settings.mode.is_strict() {
            cx.env.warn(porpoise_types::Warning {
                level: Level::Warning,
                code: 1101,
                message: text,
            });
            return Ok(ColumnDefault::None);
        }
        return Err(SqlError::new(1101, "42000", text));
    }
    // Outside of strict mode a date that the mode does not permit is the zero date.
    let is_date = matches!(spec.ty.kind, Kind::Date | Kind::DateTime | Kind::Timestamp);
    let strict = !is_date || cx.settings.mode.is_strict();
    let mut warned = Vec::new();
    let mut warnings = |w: porpoise_types::Warning| warned.push(w);
    let mut cast = CastCx {
        mode: cx.settings.mode,
        strict,
        warnings: &mut warnings,
        tz: &cx.settings.time_zone,
        now: cx.env.now(),
    };
    let stored = store(value, Some(source), &spec.ty, &spec.name, 1, &mut cast);
    warned.retain(|w| w.level != Level::Note);
    let is_refused = |w: &porpoise_types::Warning| strict || w.code != ER_WARN_DATA_OUT_OF_RANGE;
    match stored {
        Ok(value) if !warned.iter().any(is_refused) => {
            warned.into_iter().for_each(|w| cx.env.warn(w));
            Ok(ColumnDefault::Literal(value))
        }
        _ => Err(bad_default(&spec.name)),
    }
}
