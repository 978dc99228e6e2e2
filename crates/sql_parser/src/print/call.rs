//! Function calls, windows, and functions with their own syntax.

use super::super::ast::{
    ColumnName, DataType, Expr, ExprKind, Frame, FrameBound, FrameExclusion, FrameUnit, Func,
    IntervalUnit, JsonOnResponse, JsonValue, MatchMode, TemporalKind, TrimSide, TypeKind, Window,
    WindowSpec,
};
use super::Printer;
use super::expr::{PREDICATE, UNARY};

impl Printer<'_> {
    pub(super) fn func(&mut self, func: &Func<'_>) {
        if !self.stored_function(func) {
            if let Some(schema) = &func.schema {
                self.ident(schema);
                self.put(".");
                self.ident(&func.name);
            } else {
                self.put(func.name.name);
            }
        }
        self.put("(");
        self.put_if(func.star, "*");
        self.put_if(func.distinct, "DISTINCT ");
        self.exprs(func.args);
        self.order_by(func.order_by);
        self.opt_string(" SEPARATOR ", func.separator);
        self.put(")");
        self.put_if(func.from_last, " FROM LAST");
        self.put_if(func.ignore_nulls, " IGNORE NULLS");
        self.window_of(func);
    }

    /// OVER, if the function has it.
    pub(super) fn window_of(&mut self, func: &Func<'_>) {
        match func.over {
            Some(Window::Named(name)) => {
                self.exactly(" OVER ");
                self.ident(name);
            }
            Some(Window::Spec(spec)) => {
                self.exactly(" OVER ");
                self.window_spec(spec);
            }
            None => {}
        }
    }

    pub(super) fn window_spec(&mut self, spec: &WindowSpec<'_>) {
        if self.shown.is_some() {
            return self.shown_window(spec);
        }
        self.put("(");
        self.opt_ident("", spec.base.as_ref());
        if !spec.partition_by.is_empty() {
            self.put(" PARTITION BY ");
            self.exprs(spec.partition_by);
        }
        self.order_by(spec.order_by);
        if let Some(frame) = &spec.frame {
            self.frame(frame);
        }
        self.put(")");
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.put(match frame.unit {
            FrameUnit::Rows => " ROWS ",
            FrameUnit::Range => " RANGE ",
            FrameUnit::Groups => " GROUPS ",
        });
        if let Some(end) = &frame.end {
            self.put("BETWEEN ");
            self.frame_bound(&frame.start);
            self.put(" AND ");
            self.frame_bound(end);
        } else {
            self.frame_bound(&frame.start);
        }
        if let Some(exclude) = frame.exclude {
            self.put(match exclude {
                FrameExclusion::CurrentRow => " EXCLUDE CURRENT ROW",
                FrameExclusion::Group => " EXCLUDE GROUP",
                FrameExclusion::Ties => " EXCLUDE TIES",
                FrameExclusion::NoOthers => " EXCLUDE NO OTHERS",
            });
        }
    }

    fn frame_bound(&mut self, bound: &FrameBound<'_>) {
        let (amount, interval, word) = match bound {
            FrameBound::CurrentRow => return self.put("CURRENT ROW"),
            FrameBound::UnboundedPreceding => return self.put("UNBOUNDED PRECEDING"),
            FrameBound::UnboundedFollowing => return self.put("UNBOUNDED FOLLOWING"),
            FrameBound::Preceding(amount, interval) => (amount, interval, " PRECEDING"),
            FrameBound::Following(amount, interval) => (amount, interval, " FOLLOWING"),
        };
        self.put_if(interval.is_some(), "INTERVAL ");
        self.operand(amount, UNARY);
        if let Some(interval) = interval {
            self.put(" ");
            self.put(unit(*interval));
        }
        self.put(word);
    }

    /// Functions with their own syntax.
    pub(super) fn special(&mut self, expr: &Expr<'_>) {
        match &expr.kind {
            ExprKind::Case(node) => {
                self.put("CASE");
                if let Some(operand) = &node.operand {
                    self.put(" ");
                    self.expr(operand);
                }
                for (when, then) in node.arms {
                    self.put(" WHEN ");
                    self.expr(when);
                    self.put(" THEN ");
                    self.expr(then);
                }
                if let Some(otherwise) = &node.otherwise {
                    self.put(" ELSE ");
                    self.expr(otherwise);
                }
                self.put(" END");
            }
            ExprKind::Cast(node) => {
                self.put("CAST(");
                self.expr(&node.expr);
                self.opt_string(" AT TIME ZONE ", node.time_zone);
                self.put(" AS ");
                self.cast_type(&node.ty);
                self.put_if(node.array, " ARRAY");
                self.put(")");
            }
            ExprKind::ConvertUsing(node) => {
                self.put("CONVERT(");
                self.expr(&node.expr);
                self.opt_ident(" USING ", Some(&node.charset));
                self.put(")");
            }
            ExprKind::CharUsing(node) => {
                self.put("CHAR(");
                self.exprs(node.args);
                self.opt_ident(" USING ", Some(&node.charset));
                self.put(")");
            }
            ExprKind::Extract(of, from) => {
                self.put("EXTRACT(");
                self.put(unit(*of));
                self.put(" FROM ");
                self.expr(from);
                self.put(")");
            }
            ExprKind::Trim(node) => {
                self.put(match node.side {
                    TrimSide::Both => "TRIM(BOTH ",
                    TrimSide::Leading => "TRIM(LEADING ",
                    TrimSide::Trailing => "TRIM(TRAILING ",
                });
                if let Some(what) = &node.what {
                    self.expr(what);
                    self.put(" ");
                }
                self.put("FROM ");
                self.expr(&node.from);
                self.put(")");
            }
            _ => self.special_call(expr),
        }
    }

    fn special_call(&mut self, expr: &Expr<'_>) {
        match &expr.kind {
            ExprKind::WeightString(node) => {
                self.put("WEIGHT_STRING(");
                self.expr(&node.expr);
                if let Some(length) = node.length {
                    self.put(if node.binary {
                        " AS BINARY("
                    } else {
                        " AS CHAR("
                    });
                    self.number(length);
                    self.put(")");
                }
                for limit in node.limits.iter().flatten() {
                    self.put(", ");
                    self.number(*limit);
                }
                self.put(")");
            }
            ExprKind::JsonValue(node) => self.json_value(node),
            ExprKind::JsonPath(node) => {
                self.column_name(node.column);
                self.put(if node.unquote { "->>" } else { "->" });
                self.string(node.path);
            }
            ExprKind::TimestampArith(node) => {
                self.put(if node.diff {
                    "TIMESTAMPDIFF("
                } else {
                    "TIMESTAMPADD("
                });
                self.put(unit(node.unit));
                self.put(", ");
                self.exprs(&[node.a, node.b]);
                self.put(")");
            }
            ExprKind::GetFormat(kind, format) => {
                self.put(match kind {
                    TemporalKind::Date => "GET_FORMAT(DATE, ",
                    TemporalKind::Time => "GET_FORMAT(TIME, ",
                    TemporalKind::DateTime => "GET_FORMAT(DATETIME, ",
                });
                self.expr(format);
                self.put(")");
            }
            ExprKind::Match(node) => {
                self.put("MATCH ");
                self.paren_list(node.columns, Self::column_name);
                self.put(" AGAINST (");
                self.operand(&node.against, PREDICATE + 1);
                self.put(match node.mode {
                    MatchMode::NaturalLanguage => ")",
                    MatchMode::QueryExpansion => " WITH QUERY EXPANSION)",
                    MatchMode::Boolean => " IN BOOLEAN MODE)",
                });
            }
            ExprKind::DefaultOf(column) => self.of_column("DEFAULT(", column),
            ExprKind::ValuesOf(column) => self.of_column("VALUES(", column),
            _ => {}
        }
    }

    fn of_column(&mut self, word: &str, column: &ColumnName<'_>) {
        self.put(word);
        self.column_name(column);
        self.put(")");
    }

    fn json_value(&mut self, node: &JsonValue<'_>) {
        self.put("JSON_VALUE(");
        self.expr(&node.doc);
        self.put(", ");
        self.string(node.path);
        if let Some(ty) = &node.returning {
            self.put(" RETURNING ");
            self.cast_type(ty);
        }
        self.json_responses(node.on_empty.as_ref(), node.on_error.as_ref());
        self.put(")");
    }

    pub(super) fn json_responses(
        &mut self,
        on_empty: Option<&JsonOnResponse<'_>>,
        on_error: Option<&JsonOnResponse<'_>>,
    ) {
        for (response, end) in [(on_empty, " ON EMPTY"), (on_error, " ON ERROR")] {
            match response {
                Some(JsonOnResponse::Error) => self.put(" ERROR"),
                Some(JsonOnResponse::Null) => self.put(" NULL"),
                Some(JsonOnResponse::Default(literal)) => {
                    self.put(" DEFAULT ");
                    self.literal(literal);
                }
                None => continue,
            }
            self.put(end);
        }
    }

    /// A type in the syntax of CAST.
    pub(super) fn cast_type(&mut self, ty: &DataType<'_>) {
        if ty.kind == TypeKind::BigInt && ty.length.is_none() && !ty.zerofill {
            self.put(if ty.unsigned { "UNSIGNED" } else { "SIGNED" });
        } else {
            self.data_type(ty);
        }
    }
}

/// The spelling of a unit.
pub(super) fn unit(unit: IntervalUnit) -> &'static str {
    use IntervalUnit as U;
    match unit {
        U::Microsecond => "MICROSECOND",
        U::Second => "SECOND",
        U::Minute => "MINUTE",
        U::Hour => "HOUR",
        U::Day => "DAY",
        U::Week => "WEEK",
        U::Month => "MONTH",
        U::Quarter => "QUARTER",
        U::Year => "YEAR",
        U::SecondMicrosecond => "SECOND_MICROSECOND",
        U::MinuteMicrosecond => "MINUTE_MICROSECOND",
        U::MinuteSecond => "MINUTE_SECOND",
        U::HourMicrosecond => "HOUR_MICROSECOND",
        U::HourSecond => "HOUR_SECOND",
        U::HourMinute => "HOUR_MINUTE",
        U::DayMicrosecond => "DAY_MICROSECOND",
        U::DaySecond => "DAY_SECOND",
        U::DayMinute => "DAY_MINUTE",
        U::DayHour => "DAY_HOUR",
        U::YearMonth => "YEAR_MONTH",
    }
}
