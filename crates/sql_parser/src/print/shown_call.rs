//! Function calls in MySQL's spelling: a function by its canonical name, or as the operator or the other
//! function that it abbreviates.
//!
//! Invariant: the text has the value of the call that it shows.

use super::super::ast::{
    DataType, Expr, ExprKind, Func, JsonPath, JsonValue, Literal, TemporalKind, TimestampArith,
    TrimSide, TypeKind,
};
use super::Printer;
use super::call::unit;

impl Printer<'_> {
    pub(super) fn shown_call(&mut self, name: &str, args: &[Expr<'_>]) {
        self.shown_call_with(name, args, "");
    }

    /// A call whose last arguments are `rest`.
    fn shown_call_with(&mut self, name: &str, args: &[Expr<'_>], rest: &str) {
        self.put(name);
        self.put("(");
        self.exprs(args);
        self.put(rest);
        self.put(")");
    }

    /// Prints a call. Returns false if nothing was printed.
    pub(super) fn shown_function(&mut self, func: &Func<'_>) -> bool {
        let plain = func.schema.is_none() && func.over.is_none() && !func.distinct;
        let name = func.name.name.to_ascii_lowercase();
        match (canonical_name(&name), func.args) {
            ("count", []) if func.star => {
                self.put("count(0)");
                self.window_of(func);
                return true;
            }
            ("mod", [a, b]) if plain => {
                self.put("(");
                self.expr(a);
                self.put(" % ");
                self.expr(b);
                self.put(")");
            }
            ("isnull", [arg]) if plain => {
                self.put("(");
                self.expr(arg);
                self.put(" is null)");
            }
            ("date", [arg]) if plain => {
                self.put("cast(");
                self.expr(arg);
                self.put(" as date)");
            }
            ("datediff", [a, b]) if plain => {
                self.put("(");
                self.shown_call("to_days", &[*a]);
                self.put(" - ");
                self.shown_call("to_days", &[*b]);
                self.put(")");
            }
            ("instr", [text, part]) if plain => self.shown_call("locate", &[*part, *text]),
            ("oct", [_]) if plain => self.shown_call_with("conv", func.args, ",10,8"),
            ("bin", [_]) if plain => self.shown_call_with("conv", func.args, ",10,2"),
            ("round", [_]) if plain => self.shown_call_with("round", func.args, ",0"),
            ("weekofyear", [_]) if plain => self.shown_call_with("week", func.args, ",3"),
            ("yearweek", [_]) if plain => self.shown_call_with("yearweek", func.args, ",0"),
            ("now", [precision])
                if matches!(precision.kind, ExprKind::Literal(Literal::Int(0))) =>
            {
                self.put("now()");
            }
            _ if plain && func.order_by.is_empty() && func.separator.is_none() && !func.star => {
                self.shown_call(canonical_name(&name), func.args);
            }
            _ => return false,
        }
        true
    }

    /// Prints a function with its own syntax. Returns false if nothing was printed.
    pub(super) fn shown_special(&mut self, expr: &Expr<'_>) -> bool {
        match &expr.kind {
            ExprKind::Trim(node) if node.side == TrimSide::Both && node.what.is_none() => {
                self.shown_call("trim", &[node.from]);
            }
            ExprKind::JsonPath(node) => self.shown_path(node),
            ExprKind::JsonValue(node) => self.shown_json_value(node),
            ExprKind::TimestampArith(node) => self.shown_timestamp_arith(node),
            ExprKind::GetFormat(kind, format) => {
                self.put("get_format(");
                self.exactly(match kind {
                    TemporalKind::Date => "DATE, ",
                    TemporalKind::Time => "TIME, ",
                    TemporalKind::DateTime => "DATETIME, ",
                });
                self.expr(format);
                self.put(")");
            }
            _ => return false,
        }
        true
    }

    /// `->` and `->>` as the functions that they abbreviate.
    fn shown_path(&mut self, node: &JsonPath<'_>) {
        self.put_if(node.unquote, "json_unquote(");
        self.put("json_extract(");
        self.column_name(node.column);
        self.put(",");
        self.put_if(self.shows_introducers(), "_utf8mb4");
        self.shown_string(node.path);
        self.put(")");
        self.put_if(node.unquote, ")");
    }

    /// JSON_VALUE with the type that it returns.
    fn shown_json_value(&mut self, node: &JsonValue<'_>) {
        self.put("json_value(");
        self.expr(&node.doc);
        self.put(", ");
        self.put_if(self.shows_introducers(), "_utf8mb4");
        self.shown_string(node.path);
        self.put(" returning ");
        match &node.returning {
            None => self.put("char(512)"),
            Some(ty) if ty.kind == TypeKind::Decimal => {
                let digits = [ty.length, ty.decimals].into_iter().flatten();
                let digits: Vec<String> = digits.map(|n| n.to_string()).collect();
                self.put("decimal");
                if !digits.is_empty() {
                    self.put(&format!("({})", digits.join(", ")));
                }
            }
            Some(ty) => {
                let charset = ty.charset.map(|charset| charset.name);
                self.cast_type(&DataType {
                    charset: None,
                    ..*ty
                });
                if let Some(charset) = charset {
                    self.put(" character set ");
                    self.exactly(charset);
                }
            }
        }
        self.json_responses(node.on_empty.as_ref(), node.on_error.as_ref());
        self.put(")");
    }

    fn shown_timestamp_arith(&mut self, node: &TimestampArith<'_>) {
        if node.diff {
            self.put("timestampdiff(");
            self.exactly(unit(node.unit));
            self.put(",");
            self.exprs(&[node.a, node.b]);
            return self.put(")");
        }
        self.put("(");
        self.operand(&node.b, super::expr::UNARY);
        self.put(" + interval ");
        self.operand(&node.a, super::expr::UNARY);
        self.put(" ");
        self.put(unit(node.unit));
        self.put(")");
    }

    pub(super) fn shown_cast_type(&mut self, ty: &DataType<'_>) {
        match ty.kind {
            TypeKind::Decimal => {
                let (length, scale) = (ty.length.unwrap_or(10), ty.decimals.unwrap_or(0));
                self.put(&format!("decimal({length},{scale})"));
            }
            TypeKind::Char if ty.charset.is_none() => {
                self.put("char");
                self.cast_length(ty);
                self.put(" charset utf8mb4");
            }
            TypeKind::Char => {
                self.put("char");
                self.cast_length(ty);
                self.put(" charset ");
                if let Some(charset) = &ty.charset {
                    self.put(charset.name);
                }
            }
            TypeKind::Binary => {
                self.put("char");
                self.cast_length(ty);
                self.put(" charset binary");
            }
            TypeKind::Real => self.put("double"),
            _ => self.cast_type(ty),
        }
    }

    fn cast_length(&mut self, ty: &DataType<'_>) {
        if let Some(length) = ty.length {
            self.put(&format!("({length})"));
        }
    }
}

/// The name by which MySQL prints a function that has several.
fn canonical_name(name: &str) -> &str {
    match name {
        "current_timestamp" | "localtime" | "localtimestamp" => "now",
        "current_date" => "curdate",
        "current_time" => "curtime",
        "lcase" => "lower",
        "ucase" => "upper",
        "substring" | "mid" => "substr",
        "stddev" | "stddev_pop" => "std",
        "var_pop" => "variance",
        "schema" => "database",
        "session_user" | "system_user" => "user",
        "day" => "dayofmonth",
        "character_length" => "char_length",
        "octet_length" => "length",
        "ceil" => "ceiling",
        "power" => "pow",
        "sha1" => "sha",
        "position" => "locate",
        "atan2" => "atan",
        other => other,
    }
}
