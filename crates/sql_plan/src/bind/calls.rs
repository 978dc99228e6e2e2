//! Binding of function calls and aggregates.

use super::Binder;
use super::nodes::{cast_to, node};
use super::special::text_literal;
use super::types::{chosen_type, comparison, is_text};
use crate::error::{Result, SqlError};
use crate::expr::collations::{Claim, Use, agree};
use crate::expr::stored::{BuiltIn, FunctionName, SessionFunction};
use crate::expr::{Coercibility, Expr, ExprKind, Truth, Unit, When};
use crate::functions::{self, Function, Nullable};
use crate::parse::ast::{self, BinaryOp, Func};
use porpoise_types::{Charset, Collation, ColumnType, Kind, Value};

impl Binder<'_> {
    /// Binds a call of an aggregate, of a function with lazily evaluated arguments, or of a
    /// registered function, or a stored function.
    pub(super) fn function(&mut self, f: &Func<'_>) -> Result<Expr> {
        match f.schema {
            Some(schema) => self.stored_call(Some(schema.name), &f.name, f.args),
            None => self.unqualified_function(f),
        }
    }

    fn unqualified_function(&mut self, f: &Func<'_>) -> Result<Expr> {
        let name = f.name.name;
        if let Some(over) = f.over {
            return self.window_function(f, over);
        }
        if let Some(aggregate) = self.aggregate(f)? {
            return Ok(aggregate);
        }
        if f.distinct || f.star {
            return Err(SqlError::wrong_arguments(name));
        }
        let args = f.args;
        let upper = name.to_ascii_uppercase();
        match (upper.as_str(), args) {
            ("IF", [condition, then, otherwise]) => {
                let condition = self.condition(condition)?;
                let result = self.expr(then)?;
                let otherwise = self.expr(otherwise)?;
                Ok(self.cases(vec![When { condition, result }], Some(otherwise)))
            }
            ("IFNULL", [_, _]) | ("COALESCE", [_, ..]) => self.coalesce(name, args),
            ("NULLIF", [a, b]) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                null_if(a, b)
            }
            ("ISNULL", [arg]) => {
                let kind = ExprKind::Is {
                    arg: Box::new(self.expr(arg)?),
                    truth: Truth::Null,
                    negated: false,
                };
                Ok(Expr::boolean(kind, false))
            }
            ("JSON_TYPE", [arg]) => {
                let arg = self.expr(arg)?;
                self.json_type(arg)
            }
            ("GROUPING", [_, ..]) => self.grouping(args),
            ("MOD", [a, b]) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                self.operator(BinaryOp::Mod, a, b)
            }
            ("BENCHMARK", [count, e]) => {
                let args = Box::new([self.expr(count)?, self.expr(e)?]);
                Ok(node(ExprKind::Benchmark(args), ColumnType::bigint(), true))
            }
            ("LOAD_FILE", [_]) => self.built_in_call(BuiltIn::LoadFile, args),
            ("ROLES_GRAPHML", []) => self.built_in_call(BuiltIn::RolesGraphml, args),
            ("NAME_CONST", [_, _]) => self.name_const(args),
            ("BENCHMARK" | "IFNULL" | "NULLIF" | "ISNULL", _) => {
                Err(SqlError::argument_count(name))
            }
            ("ADDDATE", [date, days]) => self.interval(date, days, Unit::Day, false),
            ("SUBDATE", [date, days]) => self.interval(date, days, Unit::Day, true),
            _ if functions::has_own_syntax(name) => Err(SqlError::unknown_function(name)),
            _ if functions::find(name).is_none() => self.stored_call(None, &f.name, args),
            _ => {
                let args = self.list(args)?;
                self.call(name, args)
            }
        }
    }

    /// Binds GROUPING(). Error 1111 where no aggregates are allowed.
    fn grouping(&mut self, args: &[ast::Expr<'_>]) -> Result<Expr> {
        if self.aggregates.is_none() {
            let text = "Invalid use of group function";
            return Err(SqlError::new(1111, "HY000", text));
        }
        let args = self.list(args)?;
        Ok(Expr {
            ty: ColumnType::bigint(),
            ..Expr::boolean(ExprKind::Grouping(args), false)
        })
    }

    fn coalesce(&mut self, name: &str, args: &[ast::Expr<'_>]) -> Result<Expr> {
        let args = self.list(args)?;
        let branches: Vec<&Expr> = args.iter().collect();
        agree(&branches, &name.to_lowercase(), Use::Result)?;
        let ty = chosen_type(&branches, self.env.collation);
        let nullable = args.iter().all(|a| a.nullable);
        let coercibility = args.iter().map(|a| a.coercibility).min();
        let mut e = node(ExprKind::Coalesce(args), ty, nullable);
        e.coercibility = coercibility.unwrap_or(Coercibility::Literal);
        Ok(e)
    }

    /// Binds a call of a built-in function that the session evaluates.
    fn built_in_call(&mut self, function: BuiltIn, args: &[ast::Expr<'_>]) -> Result<Expr> {
        let args = self.list(args)?;
        if !self.system.runs_functions() {
            return self.call(function.name(), args);
        }
        let ty = function.returns();
        let function = SessionFunction::BuiltIn(function);
        Ok(node(ExprKind::SessionCall(function, args), ty, true))
    }

    /// Binds a call of a stored function.
    fn stored_call(
        &mut self,
        schema: Option<&str>,
        function: &ast::Ident<'_>,
        args: &[ast::Expr<'_>],
    ) -> Result<Expr> {
        let (name, position) = (function.name, function.span.start);
        let named = FunctionName {
            schema,
            default_database: self.env.database.as_deref(),
            name,
            invoker: self.plan.and_then(|plan| plan.invoker()),
        };
        let Some(function) = self.system.stored_function(&named)? else {
            let full = named
                .database()
                .map(|database| format!("{database}.{name}"));
            return Err(SqlError::unknown_function(full.as_deref().unwrap_or(name)));
        };
        if let (Some(plan), Some(database)) = (self.plan, named.database()) {
            plan.note_function(position, database);
        }
        if args.len() != function.parameters {
            let text = format!(
                "Incorrect number of arguments for FUNCTION {}.{}; expected {}, got {}",
                function.database,
                function.name,
                function.parameters,
                args.len()
            );
            return Err(SqlError::new(1318, "42000", text));
        }
        let args = self.list(args)?;
        let ty = function.returns.clone();
        let function = SessionFunction::Stored(function);
        let mut e = node(ExprKind::SessionCall(function, args), ty, true);
        e.coercibility = Coercibility::Literal;
        Ok(e)
    }

    /// JSON_TYPE(). A document has dates and times as strings, and decimals as doubles; so the kind
    /// of a value that a CAST makes JSON is that of its type.
    fn json_type(&self, arg: Expr) -> Result<Expr> {
        let (kind, value) = match &arg.kind {
            ExprKind::Cast(value) if arg.ty.kind == Kind::Json => match value.ty.kind {
                Kind::Date => ("DATE", value),
                Kind::Time => ("TIME", value),
                Kind::DateTime | Kind::Timestamp => ("DATETIME", value),
                Kind::Decimal => ("DECIMAL", value),
                _ => return self.call("JSON_TYPE", vec![arg]),
            },
            _ => return self.call("JSON_TYPE", vec![arg]),
        };
        let is_null = ExprKind::Is {
            arg: value.clone(),
            truth: Truth::Null,
            negated: false,
        };
        let condition = Expr::boolean(is_null, false);
        let result = Expr::null();
        Ok(self.cases(vec![When { condition, result }], Some(text_literal(kind))))
    }

    /// Binds NAME_CONST(). Error 1210 if an argument is not constant.
    fn name_const(&mut self, args: &[ast::Expr<'_>]) -> Result<Expr> {
        let args = self.list(args)?;
        if args.iter().all(|e| matches!(e.kind, ExprKind::Const(_))) {
            self.call("NAME_CONST", args)
        } else {
            Err(SqlError::wrong_arguments("NAME_CONST"))
        }
    }

    /// Binds a call of a registered function.
    pub fn call(&self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let function: &'static Function =
            functions::find(name).ok_or_else(|| SqlError::unknown_function(name))?;
        let (least, most) = function.args;
        if args.len() < least || args.len() > most {
            return Err(SqlError::argument_count(name));
        }
        let claim = collations_agree(&args, name)?;
        fraction_fits(&args, name)?;
        let args = if functions::json::reads_documents(function.name) {
            json_in_utf8(args)
        } else {
            in_own_bytes(in_one_charset(args, self.env.collation), function)
        };
        let ty = (function.ty)(&args, self.env.collation);
        let nullable = match function.nullable {
            // A text may be longer than max_allowed_packet.
            Nullable::IfArgument => is_text(&ty) || args.iter().any(|a| a.nullable),
            Nullable::Always => true,
            Nullable::Never => false,
        };
        let textual = args.iter().filter(|a| is_text(&a.ty));
        let coercibility = match (is_text(&ty), args.is_empty()) {
            (true, true) if names_session(name) => Coercibility::System,
            (true, true) => Coercibility::Literal,
            (true, false) => textual
                .map(|a| a.coercibility)
                .min()
                .unwrap_or(Coercibility::Literal),
            (false, _) => Coercibility::Numeric,
        };
        let coercibility = match claim {
            Some(claim) if is_text(&ty) => claim.coercibility,
            _ => coercibility,
        };
        Ok(Expr {
            kind: ExprKind::Call(function, args),
            ty,
            nullable,
            coercibility,
        })
    }
}

/// Checks that the texts of a function agree on a collation, or at least that explicit COLLATE
/// clauses do, and returns the claim on which they agree. Functions that search in their first
/// argument use its collation.
fn collations_agree(args: &[Expr], name: &str) -> Result<Option<Claim>> {
    let upper = name.to_ascii_uppercase();
    let operation = name.to_lowercase();
    let (first, usage) = match upper.as_str() {
        "INSTR" | "LOCATE" | "POSITION" | "SUBSTRING_INDEX" | "REPLACE" => return Ok(None),
        "CONCAT" | "CONCAT_WS" => (0, Use::Result),
        "ELT" | "MAKE_SET" => (1, Use::Result),
        "GREATEST" | "LEAST" | "FIELD" if !args.iter().all(|a| is_text(&a.ty)) => return Ok(None),
        "GREATEST" | "LEAST" | "FIELD" | "STRCMP" | "FIND_IN_SET" => (0, Use::Comparison),
        _ => {
            let explicit = |a: &&Expr| a.coercibility == Coercibility::Explicit;
            let insisting: Vec<&Expr> = args.iter().filter(explicit).collect();
            return agree(&insisting, &operation, Use::Result).map(|_| None);
        }
    };
    let all: Vec<&Expr> = args.iter().skip(first).collect();
    agree(&all, &operation, usage)
}

/// NULLIF: its result is the first operand, as an ordinary number if that is a truth value.
fn null_if(a: Expr, b: Expr) -> Result<Expr> {
    let how = comparison(&a, &b, "nullif")?;
    let mut ty = a.ty.clone();
    if ty.kind == Kind::BigInt {
        ty.length = ColumnType::bigint().length;
    }
    Ok(node(ExprKind::NullIf(how, Box::new([a, b])), ty, true))
}

/// Whether a function without arguments is a constant of the system, such as USER() (manual,
/// "Collation Coercibility in Expressions").
fn names_session(function: &str) -> bool {
    const NAMES: [&str; 8] = [
        "CURRENT_ROLE",
        "CURRENT_USER",
        "DATABASE",
        "SCHEMA",
        "SESSION_USER",
        "SYSTEM_USER",
        "USER",
        "VERSION",
    ];
    NAMES.iter().any(|n| n.eq_ignore_ascii_case(function))
}

/// Checks the precision argument of NOW(n) and similar functions: above 6 is error 1426.
fn fraction_fits(args: &[Expr], name: &str) -> Result<()> {
    const NAMES: [&str; 9] = [
        "NOW",
        "CURRENT_TIMESTAMP",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "SYSDATE",
        "CURTIME",
        "CURRENT_TIME",
        "UTC_TIME",
        "UTC_TIMESTAMP",
    ];
    let Some(Value::Int(digits @ 7..)) = args.first().and_then(Expr::as_const) else {
        return Ok(());
    };
    if !NAMES.iter().any(|n| n.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let name = name.to_lowercase();
    let text = format!("Too-big precision {digits} specified for '{name}'. Maximum is 6.");
    Err(SqlError::new(1426, "42000", text))
}

/// Converts texts that are kept as UTF-8 to the bytes of their character set, where a function
/// reads bytes.
fn in_own_bytes(args: Vec<Expr>, function: &Function) -> Vec<Expr> {
    const READ_BYTES: [&str; 14] = [
        "AES_ENCRYPT",
        "ASCII",
        "BIT_LENGTH",
        "COMPRESS",
        "CRC32",
        "HEX",
        "LENGTH",
        "MD5",
        "OCTET_LENGTH",
        "SHA",
        "SHA1",
        "SHA2",
        "TO_BASE64",
        "BIT_COUNT",
    ];
    let kept = |e: &Expr| is_text(&e.ty) && e.ty.collation.charset().is_kept_as_utf8();
    if !args.iter().any(kept) || !READ_BYTES.contains(&function.name) {
        return args;
    }
    let convert = |e: Expr| {
        if kept(&e) {
            let ty = if e.ty.is_blob() {
                ColumnType::blob(Kind::LongBlob)
            } else {
                let width = e.ty.collation.charset().max_len();
                ColumnType::varbinary(functions::width(&e).saturating_mul(width))
            };
            cast_to(e, ty)
        } else {
            e
        }
    };
    args.into_iter().map(convert).collect()
}

/// Converts the texts of JSON functions to UTF-8; documents stay as they are.
fn json_in_utf8(args: Vec<Expr>) -> Vec<Expr> {
    let is_other = |e: &Expr| {
        let charset = e.ty.collation.charset();
        is_text(&e.ty)
            && e.ty.kind != Kind::Json
            && charset != Charset::Binary
            && !charset.is_unicode()
            && !charset.is_kept_as_utf8()
    };
    let convert = |e: Expr| {
        if is_other(&e) {
            let ty = functions::text_of(functions::width(&e), Collation::UTF8MB4_0900_AI_CI);
            cast_to(e, ty)
        } else {
            e
        }
    };
    args.into_iter().map(convert).collect()
}

/// Converts texts of different character sets to their common one (manual, "Character Set and
/// Collation of Function Results").
fn in_one_charset(args: Vec<Expr>, connection: Collation) -> Vec<Expr> {
    let charset = |e: &Expr| e.ty.collation.charset();
    let text = |e: &Expr| is_text(&e.ty) && charset(e) != Charset::Binary;
    let mut sets = args.iter().filter(|e| text(e)).map(charset);
    let first = sets.next();
    if sets.all(|set| Some(set) == first) {
        return args;
    }
    let common = functions::common_collation(&args, connection);
    if common.charset() == Charset::Binary {
        return args;
    }
    let convert = |e: Expr| {
        if text(&e) && charset(&e) != common.charset() {
            let ty = functions::text_of(functions::width(&e), common);
            cast_to(e, ty)
        } else {
            e
        }
    };
    args.into_iter().map(convert).collect()
}
