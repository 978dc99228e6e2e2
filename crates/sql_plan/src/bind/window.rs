//! Window functions (manual, "Window Functions"): names, arguments, types, and the windows that
//! they are computed over.
//!
//! ```text
//!  SUM(x) OVER (w ORDER BY d RANGE INTERVAL 7 DAY PRECEDING) ... WINDOW w AS (PARTITION BY c)
//!
//!  Window { partition: [c], order: [d], frame: RANGE 7 DAY PRECEDING .. CURRENT ROW }
//!  WindowCall { function: Aggregate(SUM(x)), window: 0 }     result: ExprKind::Window(0)
//! ```
//!
//! Calls with equal windows share one [`Window`]; equal calls share one [`WindowCall`].
//!
//! Invariants:
//! 1. Names in a window are columns, not aliases of the select list.
//! 2. A [`WindowCall`] contains no window function.

use super::aggregate::{Aggregate, bound, kind_named};
use super::nodes::{cast_to, node, numeric_operand, unit_of};
use super::types::{comparison, merged_type};
use super::{AggregateKind, Binder, OrderKey};
use crate::error::{Result, SqlError};
use crate::expr::{Coercibility, Expr, ExprKind, Load, Unit};
use crate::parse::ast::{
    self, BinaryOp, Func, IntervalUnit, Literal, NamedWindow, OrderItem, WindowSpec,
};
use porpoise_types::{ColumnType, CompareAs, Kind, Value};

/// The function of a window call. Arguments are evaluated for each row; numbers once.
#[derive(Clone, Debug)]
pub enum WindowFunction {
    /// ROW_NUMBER().
    RowNumber,
    /// RANK().
    Rank,
    /// DENSE_RANK().
    DenseRank,
    /// PERCENT_RANK().
    PercentRank,
    /// CUME_DIST().
    CumeDist,
    /// NTILE(n).
    Ntile(Expr),
    /// LAG(value, n, default), LEAD(value, n, default).
    Offset {
        /// LEAD.
        lead: bool,
        /// The value.
        value: Expr,
        /// The number of rows; 1 if not given.
        number: Option<Expr>,
        /// The result where there is no such row.
        default: Option<Expr>,
    },
    /// FIRST_VALUE(value).
    First(Expr),
    /// LAST_VALUE(value).
    Last(Expr),
    /// NTH_VALUE(value, n).
    Nth {
        /// The value.
        value: Expr,
        /// The number of the row in the frame.
        number: Expr,
    },
    /// An aggregate of the frame.
    Aggregate(Aggregate),
}

impl WindowFunction {
    /// The arguments that are evaluated for each row.
    pub fn args(&self) -> impl Iterator<Item = &Expr> {
        let (one, two, list) = match self {
            WindowFunction::Offset { value, default, .. } => (Some(value), default.as_ref(), None),
            WindowFunction::First(value)
            | WindowFunction::Last(value)
            | WindowFunction::Nth { value, .. } => (Some(value), None, None),
            WindowFunction::Aggregate(aggregate) => (None, None, Some(&aggregate.args)),
            _ => (None, None, None),
        };
        one.into_iter().chain(two).chain(list.into_iter().flatten())
    }

    /// As [`WindowFunction::args`], mutably.
    pub fn args_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (one, two, list) = match self {
            WindowFunction::Offset { value, default, .. } => (Some(value), default.as_mut(), None),
            WindowFunction::First(value)
            | WindowFunction::Last(value)
            | WindowFunction::Nth { value, .. } => (Some(value), None, None),
            WindowFunction::Aggregate(aggregate) => (None, None, Some(&mut aggregate.args)),
            _ => (None, None, None),
        };
        one.into_iter().chain(two).chain(list.into_iter().flatten())
    }

    /// The argument that is evaluated once.
    pub fn number(&self) -> Option<&Expr> {
        match self {
            WindowFunction::Ntile(number) | WindowFunction::Nth { number, .. } => Some(number),
            WindowFunction::Offset { number, .. } => number.as_ref(),
            _ => None,
        }
    }
}

/// A call of a window function.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The function's name in lower case.
    pub name: String,
    /// The function.
    pub function: WindowFunction,
    /// Position of its window in [`Windows::windows`].
    pub window: usize,
}

/// The rows over which a window function is computed.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its name; `None` if it is not in the WINDOW clause.
    pub name: Option<String>,
    /// PARTITION BY.
    pub partition: Vec<Expr>,
    /// ORDER BY.
    pub order: Vec<OrderKey>,
    /// The frame.
    pub frame: WindowFrame,
}

/// The frame of a row: the rows of its partition from `start` to `end`.
#[derive(Clone, Debug)]
pub struct WindowFrame {
    /// RANGE: bounds are values of the sort key; otherwise they are numbers of rows.
    pub range: bool,
    /// The start; [`FrameBound::Unbounded`] is the partition's first row.
    pub start: FrameBound,
    /// The end; [`FrameBound::Unbounded`] is the partition's last row.
    pub end: FrameBound,
}

/// One end of a frame.
#[derive(Clone, Debug)]
pub enum FrameBound {
    /// The end of the partition.
    Unbounded,
    /// The current row; with RANGE its first or last peer.
    Current,
    /// Rows or values before or after the current row.
    Offset {
        /// FOLLOWING.
        following: bool,
        /// The number of rows, or the distance of values.
        amount: Expr,
        /// The unit of an INTERVAL.
        unit: Option<Unit>,
        /// With RANGE, the outermost value.
        limit: Option<Box<RangeLimit>>,
    },
}

/// The outermost value of a RANGE frame. Its expressions are over a row whose only column is the
/// sort key.
#[derive(Clone, Debug)]
pub struct RangeLimit {
    /// The sort key as it is compared.
    pub key: Expr,
    /// The limit for the current row's sort key.
    pub limit: Expr,
    /// The comparison of the two.
    pub how: CompareAs,
}

impl WindowFrame {
    /// The frame without a frame clause: up to the last peer of the current row.
    fn default_frame() -> WindowFrame {
        WindowFrame {
            range: true,
            start: FrameBound::Unbounded,
            end: FrameBound::Current,
        }
    }
}

/// The windows and window functions of a query.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// The WINDOW clause.
    named: Vec<Definition>,
    /// The windows that calls use.
    pub windows: Vec<Window>,
    /// The calls.
    pub calls: Vec<WindowCall>,
}

/// A window of the WINDOW clause.
#[derive(Clone, Debug)]
struct Definition {
    window: Window,
    /// Whether it has a frame clause.
    framed: bool,
}

impl Windows {
    /// All expressions that are evaluated for each row.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let windows = self.windows.iter();
        let keys = windows.flat_map(|w| w.partition.iter().chain(w.order.iter().map(|k| &k.expr)));
        keys.chain(self.calls.iter().flat_map(|call| call.function.args()))
    }

    /// As [`Windows::expressions`], mutably.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let windows = self.windows.iter_mut();
        let keys = windows.flat_map(|w| {
            let order = w.order.iter_mut().map(|k| &mut k.expr);
            w.partition.iter_mut().chain(order)
        });
        let args = self
            .calls
            .iter_mut()
            .flat_map(|call| call.function.args_mut());
        keys.chain(args)
    }

    /// The expressions that a call depends on.
    pub fn expressions_of(&self, call: usize) -> impl Iterator<Item = &Expr> {
        let call = self.calls.get(call);
        let window = call.and_then(|call| self.windows.get(call.window));
        let keys = window.into_iter();
        let keys = keys.flat_map(|w| w.partition.iter().chain(w.order.iter().map(|k| &k.expr)));
        keys.chain(call.into_iter().flat_map(|call| call.function.args()))
    }

    /// The position of a window among those in use.
    fn window(&mut self, window: Window) -> usize {
        let text = |w: &Window| format!("{:?}{:?}{:?}", w.partition, w.order, w.frame);
        let new = text(&window);
        match self.windows.iter().position(|w| text(w) == new) {
            Some(at) => at,
            None => {
                self.windows.push(window);
                self.windows.len() - 1
            }
        }
    }

    /// The number of a call.
    fn call(&mut self, call: WindowCall) -> usize {
        let fixed = |call: &WindowCall| call.function.args().all(Expr::is_fixed);
        let text = |call: &WindowCall| format!("{:?}{}", call.function, call.window);
        let new = text(&call);
        let mut known = self.calls.iter();
        match known.position(|known| fixed(&call) && text(known) == new) {
            Some(at) => at,
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        }
    }
}

/// The name of a window in messages.
pub fn shown_name(name: Option<&str>) -> &str {
    name.unwrap_or("<unnamed window>")
}

fn wrong(code: u16, text: String) -> SqlError {
    SqlError::new(code, "HY000", text)
}

/// 3586: a number of a frame cannot be used.
pub fn illegal_frame(name: Option<&str>) -> SqlError {
    let text = format!(
        "Window '{}': frame start or end is negative, NULL or of non-integral type",
        shown_name(name)
    );
    wrong(3586, text)
}

/// A window before its frame is bound.
struct Unframed<'q> {
    partition: Vec<Expr>,
    order: Vec<OrderKey>,
    frame: Option<ast::Frame<'q>>,
}

/// Error 3594: the alias of a window function where none is allowed.
pub(super) fn window_alias(alias: &str) -> SqlError {
    let text = format!(
        "You cannot use the alias '{alias}' of an expression containing a window function in this \
         context.'"
    );
    wrong(3594, text)
}

impl Binder<'_> {
    /// Error 3594 for an alias of a window function where none is allowed.
    pub(super) fn without_window(&self, e: Expr, alias: &str) -> Result<Expr> {
        // GROUP BY has an error of its own.
        if self.windows_allowed || self.clause == "group statement" || !e.has_window() {
            return Ok(e);
        }
        Err(window_alias(alias))
    }

    /// Binds the WINDOW clause.
    ///
    /// # Errors
    /// 3591 for two windows of one name, 3579 for an unknown name, 3580 for a cycle; others as for
    /// each window.
    pub fn define_windows(&mut self, list: &[NamedWindow<'_>]) -> Result<()> {
        for (at, window) in list.iter().enumerate() {
            let same = |w: &NamedWindow<'_>| w.name.name.eq_ignore_ascii_case(window.name.name);
            if list.iter().take(at).any(same) {
                let text = format!("Window '{}' is defined twice.", window.name.name);
                return Err(wrong(3591, text));
            }
        }
        // Each window after those that it refers to.
        let mut waiting: Vec<&NamedWindow<'_>> = list.iter().collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for window in waiting {
                let base = window.spec.base.map(|base| base.name);
                let is_base = |w: &NamedWindow<'_>| {
                    base.is_some_and(|base| w.name.name.eq_ignore_ascii_case(base))
                };
                let known = base.is_none_or(|base| self.definition(base).is_some());
                if !known && list.iter().any(is_base) {
                    later.push(window);
                    continue;
                }
                let name = window.name.name;
                let definition = self.window_of(Some(name), &window.spec)?;
                if let Some(aggregates) = self.aggregates.as_deref_mut() {
                    aggregates.windows.named.push(definition);
                }
            }
            if later.len() == before {
                let text = "There is a circularity in the window dependency graph.";
                return Err(wrong(3580, text.to_owned()));
            }
            waiting = later;
        }
        Ok(())
    }

    fn definition(&self, name: &str) -> Option<&Definition> {
        let mut named = self.aggregates.as_deref()?.windows.named.iter();
        named.find(|d| {
            let own = d.window.name.as_deref();
            own.is_some_and(|own| own.eq_ignore_ascii_case(name))
        })
    }

    /// The window of a specification.
    fn window_of(&mut self, name: Option<&str>, spec: &WindowSpec<'_>) -> Result<Definition> {
        let base = match spec.base {
            None => None,
            Some(base) => Some(self.named_window(base.name)?.clone()),
        };
        let shown = shown_name(name);
        let mut own = Unframed {
            partition: self.window_keys(shown, spec.partition_by)?,
            order: self.window_order(shown, spec.order_by)?,
            frame: spec.frame,
        };
        if let Some(base) = base {
            inherit(shown, &mut own, base)?;
        }
        let framed = own.frame.is_some();
        let frame = match own.frame {
            None => WindowFrame::default_frame(),
            Some(frame) => self.frame(name, &frame, &own.order)?,
        };
        let window = Window {
            name: name.map(str::to_owned),
            partition: own.partition,
            order: own.order,
            frame,
        };
        Ok(Definition { window, framed })
    }

    fn named_window(&self, name: &str) -> Result<&Definition> {
        let unknown = || wrong(3579, format!("Window name '{name}' is not defined."));
        self.definition(name).ok_or_else(unknown)
    }

    fn window_keys(&mut self, window: &str, list: &[ast::Expr<'_>]) -> Result<Vec<Expr>> {
        let keys = list.iter();
        keys.map(|e| self.window_key(window, e, "window partition by"))
            .collect()
    }

    fn window_order(&mut self, window: &str, list: &[OrderItem<'_>]) -> Result<Vec<OrderKey>> {
        let mut keys = Vec::with_capacity(list.len());
        for item in list {
            keys.push(OrderKey {
                expr: self.window_key(window, &item.expr, "window order by")?,
                desc: item.desc,
            });
        }
        Ok(keys)
    }

    /// Binds a key of PARTITION BY or ORDER BY.
    fn window_key(
        &mut self,
        window: &str,
        e: &ast::Expr<'_>,
        clause: &'static str,
    ) -> Result<Expr> {
        if matches!(e.kind, ast::ExprKind::Literal(Literal::Int(_))) {
            let text = format!(
                "Window '{window}': ORDER BY or PARTITION BY uses legacy position indication which \
                 is not supported, use expression."
            );
            return Err(wrong(3592, text));
        }
        let key = self.without_windows(clause, |binder| binder.expr(e));
        match key {
            Ok(key) => Ok(numeric_operand(&key)),
            Err(error) if error.code == 3593 => {
                let text = format!(
                    "You cannot nest a window function in the specification of window '{window}'."
                );
                Err(wrong(3595, text))
            }
            Err(error) => Err(error),
        }
    }

    /// Binds parts of a window or of a call, which are no place for window functions and aliases.
    fn without_windows<T>(
        &mut self,
        clause: &'static str,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let clause = std::mem::replace(&mut self.clause, clause);
        let allowed = std::mem::replace(&mut self.windows_allowed, false);
        let aliases = std::mem::take(&mut self.aliases);
        let keys = self.group_keys.take();
        let result = bind(self);
        (self.clause, self.windows_allowed) = (clause, allowed);
        (self.aliases, self.group_keys) = (aliases, keys);
        result
    }

    /// Binds a frame clause.
    fn frame(
        &mut self,
        name: Option<&str>,
        frame: &ast::Frame<'_>,
        order: &[OrderKey],
    ) -> Result<WindowFrame> {
        use ast::FrameBound as B;
        let range = match frame.unit {
            ast::FrameUnit::Rows => false,
            ast::FrameUnit::Range => true,
            ast::FrameUnit::Groups => return Err(SqlError::not_supported("GROUPS")),
        };
        if frame.exclude.is_some() {
            return Err(SqlError::not_supported("EXCLUDE"));
        }
        let shown = shown_name(name);
        let end = frame.end.unwrap_or(B::CurrentRow);
        if matches!(frame.start, B::UnboundedFollowing) {
            let text = format!("Window '{shown}': frame start cannot be UNBOUNDED FOLLOWING.");
            return Err(wrong(3584, text));
        }
        if matches!(end, B::UnboundedPreceding) {
            let text = format!("Window '{shown}': frame end cannot be UNBOUNDED PRECEDING.");
            return Err(wrong(3585, text));
        }
        let backwards = matches!(
            (&frame.start, &end),
            (B::CurrentRow | B::Following(..), B::Preceding(..))
                | (B::Following(..), B::CurrentRow)
        );
        if backwards {
            return Err(illegal_frame(name));
        }
        let mut bind = |bound: &B<'_>| match bound {
            B::UnboundedPreceding | B::UnboundedFollowing => Ok(FrameBound::Unbounded),
            B::CurrentRow => Ok(FrameBound::Current),
            B::Preceding(amount, unit) => self.bound(name, range, amount, *unit, false, order),
            B::Following(amount, unit) => self.bound(name, range, amount, *unit, true, order),
        };
        Ok(WindowFrame {
            range,
            start: bind(&frame.start)?,
            end: bind(&end)?,
        })
    }

    fn bound(
        &mut self,
        name: Option<&str>,
        range: bool,
        amount: &ast::Expr<'_>,
        unit: Option<IntervalUnit>,
        following: bool,
        order: &[OrderKey],
    ) -> Result<FrameBound> {
        let shown = shown_name(name);
        if !range && unit.is_some() {
            let text = format!("Window '{shown}': INTERVAL can only be used with RANGE frames.");
            return Err(wrong(3596, text));
        }
        let amount = self.without_windows("window frame", |binder| binder.expr(amount))?;
        if !amount.is_constant() {
            let text = format!("Window '{shown}' has a non-constant frame bound.");
            return Err(wrong(3590, text));
        }
        let whole = matches!(
            amount.as_const(),
            Some(Value::Int(_) | Value::UInt(_)) | None
        );
        let negative = match amount.as_const() {
            Some(Value::Null) => true,
            Some(Value::Int(n)) => *n < 0,
            _ => false,
        };
        let unit = unit.map(unit_of);
        let limit = if range {
            let limit = self.range_limit(shown, &amount, unit, following, order)?;
            Some(Box::new(limit))
        } else {
            None
        };
        if negative || (!range && !whole) {
            return Err(illegal_frame(name));
        }
        Ok(FrameBound::Offset {
            following,
            amount,
            unit,
            limit,
        })
    }

    /// The outermost value of a RANGE frame.
    fn range_limit(
        &mut self,
        window: &str,
        amount: &Expr,
        unit: Option<Unit>,
        following: bool,
        order: &[OrderKey],
    ) -> Result<RangeLimit> {
        let [OrderKey { expr, desc }] = order else {
            return Err(no_range(window));
        };
        let column = Expr {
            kind: ExprKind::Column {
                slot: 0,
                column: 0,
                load: Load::Plain,
            },
            ty: expr.ty.clone(),
            nullable: true,
            coercibility: Coercibility::Implicit,
        };
        let less = following == *desc;
        let temporal = match expr.ty.kind {
            Kind::Date | Kind::DateTime | Kind::Timestamp => Some(ColumnType::datetime(6)),
            Kind::Time => Some(ColumnType::time(6)),
            _ if expr.ty.is_numeric() => None,
            _ => return Err(no_range(window)),
        };
        let (key, limit) = match (temporal, unit) {
            (Some(ty), Some(unit)) => {
                let key = cast_to(column, ty.clone());
                let kind = ExprKind::DateAdd {
                    args: Box::new([key.clone(), amount.clone()]),
                    unit,
                    negative: less,
                };
                (key, node(kind, ty, true))
            }
            (Some(_), None) => {
                let text = format!(
                    "Window '{window}' with RANGE frame has ORDER BY expression of datetime type. \
                     Only INTERVAL bound value allowed."
                );
                return Err(wrong(3588, text));
            }
            (None, Some(_)) => {
                let text = format!(
                    "Window '{window}' with RANGE frame has ORDER BY expression of numeric type, \
                     INTERVAL bound value not allowed."
                );
                return Err(wrong(3589, text));
            }
            (None, None) => {
                let double = |ty: &ColumnType| matches!(ty.kind, Kind::Double | Kind::Float);
                let key = match (double(&column.ty) || double(&amount.ty), column.ty.kind) {
                    (true, _) => cast_to(column, ColumnType::double()),
                    (false, Kind::Decimal) => column,
                    // A sum of decimals does not overflow.
                    (false, _) => cast_to(column, ColumnType::decimal(20, 0)),
                };
                let op = if less { BinaryOp::Sub } else { BinaryOp::Add };
                let limit = self.operator(op, key.clone(), amount.clone())?;
                (key, limit)
            }
        };
        let how = comparison(&key, &limit, "=")?;
        Ok(RangeLimit { key, limit, how })
    }

    /// Binds a call with OVER.
    ///
    /// # Errors
    /// 3593 where no window function is allowed; 1235 for DISTINCT, GROUP_CONCAT, FROM LAST and
    /// IGNORE NULLS.
    pub(super) fn window_function(&mut self, f: &Func<'_>, over: &ast::Window<'_>) -> Result<Expr> {
        let name = f.name.name.to_ascii_lowercase();
        if !self.windows_allowed || self.aggregates.is_none() {
            let text = format!("You cannot use the window function '{name}' in this context.'");
            return Err(wrong(3593, text));
        }
        refused(f)?;
        let window = match over {
            ast::Window::Named(base) => self.named_window(base.name)?.window.clone(),
            ast::Window::Spec(spec) => self.window_of(None, spec)?.window,
        };
        let clause = self.clause;
        let args = self.without_windows(clause, |binder| binder.list(f.args))?;
        let (function, mut e) = self.windowed(f, args)?;
        let missing = || SqlError::internal("a window function of no query");
        let windows = &mut self.aggregates.as_deref_mut().ok_or_else(missing)?.windows;
        let window = windows.window(window);
        let call = WindowCall {
            name,
            function,
            window,
        };
        e.kind = ExprKind::Window(windows.call(call));
        Ok(e)
    }

    /// The function of a call, and an expression with the properties of its result.
    fn windowed(&self, f: &Func<'_>, args: Vec<Expr>) -> Result<(WindowFunction, Expr)> {
        let count = args.len();
        if let Some(kind) = kind_named(f.name.name, f.star) {
            let (aggregate, e) = bound(kind, f, (args, Vec::new()), self.env)?;
            return Ok((WindowFunction::Aggregate(aggregate), e));
        }
        let mut args = args.into_iter();
        let name = f.name.name.to_ascii_uppercase();
        let number = |nullable| node(ExprKind::Window(0), ColumnType::bigint_unsigned(), nullable);
        let ratio = || node(ExprKind::Window(0), ColumnType::double(), false);
        let wrong_count = || SqlError::argument_count(f.name.name);
        if let (Some(function), 0) = (without_arguments(&name), count) {
            let e = match function {
                WindowFunction::PercentRank | WindowFunction::CumeDist => ratio(),
                _ => number(false),
            };
            return Ok((function, e));
        }
        let first = args.next().ok_or_else(wrong_count)?;
        let value = |e: &Expr| Expr {
            kind: ExprKind::Window(0),
            nullable: true,
            ..e.clone()
        };
        Ok(match (name.as_str(), args.next(), args.next()) {
            ("NTILE", None, None) => (WindowFunction::Ntile(first), number(true)),
            ("FIRST_VALUE", None, None) => {
                let e = value(&first);
                (WindowFunction::First(first), e)
            }
            ("LAST_VALUE", None, None) => {
                let e = value(&first);
                (WindowFunction::Last(first), e)
            }
            ("NTH_VALUE", Some(number), None) => {
                let e = value(&first);
                let value = first;
                (WindowFunction::Nth { value, number }, e)
            }
            ("LAG" | "LEAD", number, default) => {
                let (value_arg, default) = self.in_common(first, default);
                let e = value(&value_arg);
                let function = WindowFunction::Offset {
                    lead: name == "LEAD",
                    value: value_arg,
                    number,
                    default,
                };
                (function, e)
            }
            _ => return Err(wrong_count()),
        })
    }

    /// The value of LAG or LEAD and its default, in their common type.
    fn in_common(&self, value: Expr, default: Option<Expr>) -> (Expr, Option<Expr>) {
        let Some(default) = default else {
            return (value, None);
        };
        let ty = merged_type(&[&value, &default], self.env.collation);
        let coercibility = value.coercibility.min(default.coercibility);
        let convert = |e: Expr| {
            if e.ty == ty {
                return e;
            }
            Expr {
                ty: ty.clone(),
                nullable: e.nullable,
                coercibility,
                kind: ExprKind::Coalesce(vec![e]),
            }
        };
        (convert(value), Some(convert(default)))
    }
}

fn without_arguments(name: &str) -> Option<WindowFunction> {
    Some(match name {
        "ROW_NUMBER" => WindowFunction::RowNumber,
        "RANK" => WindowFunction::Rank,
        "DENSE_RANK" => WindowFunction::DenseRank,
        "PERCENT_RANK" => WindowFunction::PercentRank,
        "CUME_DIST" => WindowFunction::CumeDist,
        _ => return None,
    })
}

/// 3587: RANGE needs a number or a time.
fn no_range(window: &str) -> SqlError {
    let text = format!(
        "Window '{window}' with RANGE N PRECEDING/FOLLOWING frame requires exactly one ORDER BY \
         expression, of numeric or temporal type"
    );
    wrong(3587, text)
}

/// Error 1235 for what MySQL does not support either.
fn refused(f: &Func<'_>) -> Result<()> {
    let what = if f.distinct {
        "<window function>(DISTINCT ..)"
    } else if kind_named(f.name.name, f.star) == Some(AggregateKind::Concat) {
        "group_concat as window function"
    } else if f.from_last {
        "FROM LAST"
    } else if f.ignore_nulls {
        "IGNORE NULLS"
    } else {
        return Ok(());
    };
    Err(SqlError::not_supported(what))
}

/// Adds what a window inherits from the window that it names.
///
/// # Errors
/// 3581 to 3583 for what it cannot inherit.
fn inherit(shown: &str, own: &mut Unframed<'_>, base: Definition) -> Result<()> {
    let base_name = shown_name(base.window.name.as_deref()).to_owned();
    if !own.partition.is_empty() {
        let text = "A window which depends on another cannot define partitioning.";
        return Err(wrong(3581, text.to_owned()));
    }
    if base.framed {
        let text = format!(
            "Window '{base_name}' has a frame definition, so cannot be referenced by another \
             window."
        );
        return Err(wrong(3582, text));
    }
    if !own.order.is_empty() && !base.window.order.is_empty() {
        let text = format!(
            "Window '{shown}' cannot inherit '{base_name}' since both contain an ORDER BY clause."
        );
        return Err(wrong(3583, text));
    }
    own.partition = base.window.partition;
    if own.order.is_empty() {
        own.order = base.window.order;
    }
    Ok(())
}
