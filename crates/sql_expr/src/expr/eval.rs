//! Evaluation of bound expressions.
//!
//! One recursive function over the tree. Values borrow from rows, parameters and the statement's
//! arena, which is not freed before the batch is done. The parser limits the depth of expressions;
//! [`eval`] also checks the remaining stack at nodes that can nest, so that a deep expression is an
//! error and not an abort.

use super::function::{Call, Function};
use super::named_locks::NamedLocks;
use super::query::{Frame, RunQueries};
use super::{Expr, ExprKind, Load, Truth, arith, array, convert, interval, large, logic};
use crate::error::{Result, SqlError};
use crate::memory::{CHARGE_CHECK_LEN, SessionMemory};
use bumpalo::Bump;
use parking_lot::{Condvar, Mutex};
use porpoise_base::cancel::Cancel;
use porpoise_base::interrupt;
use porpoise_rows::RowRef;
use porpoise_rows::ttl::ExpiryTime;
use porpoise_types::{
    ColumnType, DateTime, Kind, Level, SqlMode, TimeZone, Value, ValueRef, Warning,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Properties of the session and the statement that expressions can read.
#[derive(Debug)]
pub struct Env {
    /// The session's SQL mode.
    pub mode: SqlMode,
    /// Whether warnings are errors: a strict assignment is being evaluated.
    pub strict: Cell<bool>,
    /// The session's time zone.
    pub time_zone: TimeZone,
    /// The statement's time, UTC, with microseconds.
    pub now_utc: DateTime,
    /// The time at which rows expire; `None` if no table of the database has TTL.
    pub expiry_time: Cell<Option<ExpiryTime>>,
    /// CONNECTION_ID().
    pub connection_id: u64,
    /// USER(): user name as sent by the client, with its host.
    pub user: String,
    /// CURRENT_USER(): the account that matched.
    pub account: String,
    /// CURRENT_ROLE(): the active roles, separated by commas; empty if there are none.
    pub roles: String,
    /// DATABASE().
    pub database: Option<String>,
    /// LAST_INSERT_ID() as of the start of the statement.
    pub last_insert_id: Cell<u64>,
    /// ROW_COUNT() of the statement before.
    pub row_count: i64,
    /// FOUND_ROWS() of the statement before.
    pub found_rows: u64,
    /// Rows that the statement would have without its LIMIT (SQL_CALC_FOUND_ROWS).
    pub counted_rows: Cell<Option<u64>>,
    /// Query attributes that the client sent beside the statement.
    pub query_attributes: Vec<QueryAttribute>,
    /// `@variables`, with their types.
    pub user_variables: RefCell<HashMap<Arc<str>, (Value, ColumnType)>>,
    /// Conditions of this statement.
    pub warnings: RefCell<Vec<Warning>>,
    /// Number of conditions dropped because the list was full.
    pub warnings_dropped: Cell<u64>,
    /// State of RAND().
    pub random: Cell<u64>,
    /// State of each RAND(n) of this statement, by the address of its expression.
    pub seeded: RefCell<HashMap<usize, Seeded>>,
    /// Literals of this statement whose conversion in comparisons has raised warnings, by the address of their
    /// expressions.
    pub warned_literals: RefCell<Vec<usize>>,
    /// Number of rows that each GROUP_CONCAT of this statement has joined, by the address of the
    /// aggregate.
    pub joined_rows: RefCell<HashMap<usize, u64>>,
    /// Whether something was done that must not be repeated by running the statement again: a
    /// sleep, or a lock by name.
    pub has_side_effect: Cell<bool>,
    /// `max_allowed_packet`: longer strings become NULL with 1301.
    pub max_allowed_packet: u64,
    /// `div_precision_increment`.
    pub div_precision: u8,
    /// `block_encryption_mode`.
    pub block_cipher: super::block_cipher::BlockCipher,
    /// `lc_time_names`.
    pub locale: &'static crate::locale::Locale,
    /// `default_week_format`.
    pub week_format: u8,
    /// `group_concat_max_len`.
    pub group_concat_max_len: u64,
    /// `character_set_connection`'s collation.
    pub collation: porpoise_types::Collation,
    /// Named locks of GET_LOCK, shared by all sessions.
    pub locks: Arc<NamedLocks>,
    /// Cancels waits.
    pub cancel: Cancel,
    /// Hash tables of long IN lists.
    pub in_sets: super::in_set::InSets,
    /// Counter that paces the interrupt checkpoints of evaluation.
    pub work: Cell<u32>,
    /// Memory of the session and the statement.
    pub memory: SessionMemory,
}

/// A query attribute: a name and the text of a value, sent beside a statement.
#[derive(Clone, Debug)]
pub struct QueryAttribute {
    /// The name.
    pub name: Vec<u8>,
    /// The value as text; `None` is NULL.
    pub value: Option<Vec<u8>>,
}

/// The state of one RAND(n): MySQL's `rand_struct`, two linear sequences modulo
/// 2^30 - 1.
#[derive(Clone, Copy, Debug)]
pub struct Seeded {
    first: u64,
    second: u64,
}

impl Seeded {
    const MODULUS: u64 = 0x3FFF_FFFF;

    /// The initial state for a seed.
    pub fn new(seed: u32) -> Seeded {
        let first = seed.wrapping_mul(0x10001).wrapping_add(55_555_555);
        let second = seed.wrapping_mul(0x1000_0001);
        Seeded {
            first: u64::from(first) % Seeded::MODULUS,
            second: u64::from(second) % Seeded::MODULUS,
        }
    }

    /// The next number in [0, 1).
    pub fn next_number(&mut self) -> f64 {
        self.first = (self.first * 3 + self.second) % Seeded::MODULUS;
        self.second = (self.first + self.second + 33) % Seeded::MODULUS;
        self.first as f64 / Seeded::MODULUS as f64
    }
}

/// Maximum number of stored conditions (`max_error_count`).
const MAX_WARNINGS: usize = 1024;

/// Maximum length of a condition's message in bytes (MySQL's `MYSQL_ERRMSG_SIZE`).
const MAX_MESSAGE: usize = 512;

/// Ends strict evaluation when it is dropped.
#[must_use = "strictness ends with it"]
pub struct StrictGuard<'e> {
    strict: &'e Cell<bool>,
    before: bool,
}

impl Drop for StrictGuard<'_> {
    fn drop(&mut self) {
        self.strict.set(self.before);
    }
}

impl Env {
    /// Sets whether evaluation is strict, until the returned guard is dropped.
    pub fn strictly(&self, strict: bool) -> StrictGuard<'_> {
        StrictGuard {
            before: self.strict.replace(strict),
            strict: &self.strict,
        }
    }

    /// Counts one unit of evaluation: an operator, an arm of an OR, an item of a list. Every few
    /// hundred units it is an interrupt checkpoint.
    ///
    /// # Errors
    /// If the statement was cancelled.
    #[inline]
    pub fn tick(&self) -> Result<()> {
        let work = self.work.get().wrapping_add(1);
        self.work.set(work);
        if work.is_multiple_of(interrupt::STRIDE) {
            Ok(interrupt::check()?)
        } else {
            Ok(())
        }
    }

    /// Counts several units of evaluation: the arguments of a call.
    ///
    /// # Errors
    /// If the statement was cancelled.
    #[inline]
    pub fn tick_by(&self, units: usize) -> Result<()> {
        let before = self.work.get();
        let units = u32::try_from(units).unwrap_or(interrupt::STRIDE);
        let work = before.wrapping_add(units);
        self.work.set(work);
        if work / interrupt::STRIDE != before / interrupt::STRIDE {
            Ok(interrupt::check()?)
        } else {
            Ok(())
        }
    }

    /// Adds a condition to the statement's diagnostics.
    pub fn warn(&self, mut warning: Warning) {
        let mut list = self.warnings.borrow_mut();
        if list.len() < MAX_WARNINGS {
            if warning.message.len() > MAX_MESSAGE {
                let end = warning.message.floor_char_boundary(MAX_MESSAGE);
                warning.message.truncate(end);
                warning.message.shrink_to_fit();
            }
            list.push(warning);
        } else {
            self.warnings_dropped.set(self.warnings_dropped.get() + 1);
        }
    }

    /// Numbers of conditions that this statement has listed and dropped so far.
    pub fn condition_count(&self) -> (usize, u64) {
        (self.warnings.borrow().len(), self.warnings_dropped.get())
    }

    /// Removes the conditions raised since [`Env::condition_count`] returned these numbers.
    pub fn drop_conditions_after(&self, (listed, dropped): (usize, u64)) {
        self.warnings.borrow_mut().truncate(listed);
        self.warnings_dropped.set(dropped);
    }

    /// Adds a warning; in a strict evaluation, fails with it.
    ///
    /// # Errors
    /// The condition, if evaluation is strict.
    pub fn warn_or_fail(&self, code: u16, sqlstate: &str, message: String) -> Result<()> {
        if self.strict.get() {
            return Err(SqlError::new(code, sqlstate, message));
        }
        self.warn(Warning {
            level: Level::Warning,
            code,
            message,
        });
        Ok(())
    }

    /// Waits. Returns true if the wait was cancelled.
    pub fn sleep(&self, time: Duration) -> bool {
        self.has_side_effect.set(true);
        let state = Arc::new((Mutex::new(()), Condvar::new()));
        let other = state.clone();
        let _registration = self.cancel.register(Arc::new(move || {
            let _held = other.0.lock();
            other.1.notify_all();
        }));
        let deadline = Instant::now() + time;
        porpoise_base::blocking::blocking(|| {
            let mut held = state.0.lock();
            while self.cancel.reason().is_none() {
                if state.1.wait_until(&mut held, deadline).timed_out() {
                    return false;
                }
            }
            true
        })
    }

    /// The local time for a cast of this value: only that of a TIME, which lies on the present day,
    /// depends on it.
    pub fn day_of(&self, value: ValueRef<'_>) -> DateTime {
        match value {
            ValueRef::Time(_) => self.now(),
            _ => DateTime::ZERO,
        }
    }

    /// The statement's time in the session's time zone.
    pub fn now(&self) -> DateTime {
        self.time_zone.utc_to_local(self.now_utc)
    }
}

/// A row with its primary key.
#[derive(Clone, Copy, Debug)]
pub struct KeyedRow<'a> {
    /// The encoded primary key.
    pub key: &'a [u8],
    /// The row.
    pub row: RowRef<'a>,
}

/// One table's part of the current row.
#[derive(Clone, Copy, Debug)]
pub enum Slot<'a> {
    /// No row: the NULL-extended side of an outer join, or a table that has not been read yet.
    Null,
    /// A stored row.
    Row(RowRef<'a>),
    /// A stored row that was locked, with its primary key.
    Keyed(&'a KeyedRow<'a>),
    /// Computed values, already converted to SQL values.
    Values(&'a [ValueRef<'a>]),
}

impl<'a> Slot<'a> {
    /// The storage value of a column.
    #[inline]
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        match self {
            Slot::Null => ValueRef::Null,
            Slot::Row(row) => row.get(column),
            Slot::Keyed(keyed) => keyed.row.get(column),
            Slot::Values(values) => values.get(column).copied().unwrap_or(ValueRef::Null),
        }
    }
}

/// Context of an evaluation.
#[derive(Clone, Copy)]
pub struct EvalCx<'a> {
    /// Arena for computed strings.
    pub arena: &'a Bump,
    /// The session and the statement.
    pub env: &'a Env,
    /// Parameters and extracted literals.
    pub params: &'a [ValueRef<'a>],
    /// Results of this query's aggregates, then those of its window functions.
    pub aggregates: &'a [ValueRef<'a>],
    /// The row to be inserted, for VALUES(column).
    pub new_row: &'a [ValueRef<'a>],
    /// The current rows of the enclosing queries.
    pub outer: Option<&'a Frame<'a>>,
    /// Executor of subqueries; `None` where none are allowed.
    pub queries: Option<&'a dyn RunQueries>,
}

/// Length above which producing a text is followed by an interrupt checkpoint.
const LONG_TEXT: usize = 64 * 1024;

/// Maximum number of arguments of a call whose values are kept in the evaluation's arena. It is
/// emptied once for each batch of rows; longer lists would fill it.
const MAX_ARENA_ARGUMENTS: usize = 64;

/// Stack space, in bytes, that must be free for another level of recursion.
const STACK_RESERVE: usize = 64 * 1024;

/// Evaluates `e` for `row`.
///
/// # Errors
/// MySQL's conditions: 1690 out of range, 1292 and others in strict mode, 1436 if the stack is
/// exhausted.
#[inline]
pub fn eval<'a>(e: &'a Expr, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    // Most expressions are columns. Inlined, their values are written directly to the caller's memory:
    // a result has six words, and a copy right after they were written one by one would stall (store
    // forwarding fails).
    if let ExprKind::Column {
        slot,
        column,
        load: Load::Plain,
    } = &e.kind
        && let Some(slot) = row.get(*slot)
    {
        return large::complete_value(slot, *column);
    }
    eval_any(e, row, cx)
}

/// As [`eval`], for any expression.
fn eval_any<'a>(e: &'a Expr, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    match &e.kind {
        ExprKind::Column { slot, column, load } => {
            let stored = match row.get(*slot) {
                Some(slot) => large::complete_value(slot, *column)?,
                None => ValueRef::Null,
            };
            load_value(stored, *load, &e.ty, cx)
        }
        ExprKind::Const(value) => Ok(value.as_ref()),
        ExprKind::Param(at) => Ok(cx.params.get(*at).copied().unwrap_or(ValueRef::Null)),
        ExprKind::Compare(op, how, args) => {
            let [a, b] = args.as_ref();
            let left = (eval(a, row, cx)?, a);
            let right = (eval(b, row, cx)?, b);
            Ok(logic::value(logic::compare(*op, *how, left, right, cx)?))
        }
        ExprKind::And(args) => Ok(logic::value(logic::and(args, row, cx)?)),
        ExprKind::Or(args) => Ok(logic::value(logic::or(args, row, cx)?)),
        _ => {
            if porpoise_base::stack::remaining() < STACK_RESERVE {
                let text = "Thread stack overrun: the expression is nested too deeply";
                return Err(SqlError::new(1436, "HY000", text));
            }
            cx.env.tick()?;
            let value = eval_nested(e, row, cx)?;
            if let ValueRef::Bytes(text) = value
                && text.len() >= CHARGE_CHECK_LEN
            {
                cx.env.memory.note_arena(cx.arena)?;
                if text.len() >= LONG_TEXT {
                    interrupt::check()?;
                }
            }
            Ok(value)
        }
    }
}

fn eval_nested<'a>(e: &'a Expr, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    match &e.kind {
        ExprKind::Not(arg) => {
            let truth = logic::truth(arg, row, cx)?;
            Ok(logic::value(truth.map(|t| !t)))
        }
        ExprKind::Xor(args) => {
            let [a, b] = args.as_ref();
            let (a, b) = (logic::truth(a, row, cx)?, logic::truth(b, row, cx)?);
            Ok(logic::value(a.zip(b).map(|(a, b)| a != b)))
        }
        ExprKind::Is {
            arg,
            truth,
            negated,
        } => {
            // An overflow value is not NULL, whether it was fetched or not.
            if *truth == Truth::Null && large::stored_prefix(arg, row).is_some() {
                return Ok(logic::value(Some(*negated)));
            }
            let found = logic::is(arg, *truth, *negated, row, cx)?;
            Ok(logic::value(Some(found)))
        }
        ExprKind::In { arg, list, negated } => {
            let found = logic::is_in(arg, list, row, cx)?;
            Ok(logic::value(found.map(|f| f != *negated)))
        }
        ExprKind::Between { args, how, negated } => {
            let found = logic::between(args, *how, row, cx)?;
            Ok(logic::value(found.map(|f| f != *negated)))
        }
        ExprKind::Like {
            args,
            escape,
            collation,
            negated,
        } => {
            let found = logic::like(args, *escape, *collation, row, cx)?.map(|f| f != *negated);
            Ok(logic::value(found))
        }
        _ => eval_chosen(e, row, cx),
    }
}

/// Evaluates expressions that yield one of their operands.
fn eval_chosen<'a>(e: &'a Expr, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    match &e.kind {
        ExprKind::Case { whens, otherwise } => {
            for when in whens {
                cx.env.tick()?;
                if logic::truth(&when.condition, row, cx)? == Some(true) {
                    return convert::to_type(eval(&when.result, row, cx)?, &when.result, e, cx);
                }
            }
            match otherwise {
                Some(result) => convert::to_type(eval(result, row, cx)?, result, e, cx),
                None => Ok(ValueRef::Null),
            }
        }
        ExprKind::Coalesce(args) => {
            for arg in args {
                cx.env.tick()?;
                let value = eval(arg, row, cx)?;
                if !value.is_null() {
                    return convert::to_type(value, arg, e, cx);
                }
            }
            Ok(ValueRef::Null)
        }
        ExprKind::NullIf(how, args) => {
            let [a, b] = args.as_ref();
            let left = eval(a, row, cx)?;
            let right = eval(b, row, cx)?;
            let equal = logic::order(*how, (left, a), (right, b), cx)?;
            if equal == Some(std::cmp::Ordering::Equal) {
                return Ok(ValueRef::Null);
            }
            convert::to_type(left, a, e, cx)
        }
        _ => eval_computed(e, row, cx),
    }
}

fn eval_computed<'a>(e: &'a Expr, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    match &e.kind {
        ExprKind::Arith(op, args) => {
            let [a, b] = args.as_ref();
            let left = eval(a, row, cx)?;
            let right = eval(b, row, cx)?;
            arith::arithmetic(*op, (left, a), (right, b), e, cx)
        }
        ExprKind::Negate(arg) => arith::negate(eval(arg, row, cx)?, arg, e, cx),
        ExprKind::Bit(op, args) => {
            let [a, b] = args.as_ref();
            let left = convert::bits(eval(a, row, cx)?, &a.ty, cx)?;
            let right = convert::bits(eval(b, row, cx)?, &b.ty, cx)?;
            Ok(arith::bits(*op, left, right))
        }
        ExprKind::BitNot(arg) => {
            let bits = convert::bits(eval(arg, row, cx)?, &arg.ty, cx)?;
            Ok(bits.map_or(ValueRef::Null, |b| ValueRef::UInt(!b)))
        }
        ExprKind::Cast(arg) => {
            let value = eval(arg, row, cx)?;
            if e.ty.kind == Kind::BigInt
                && !e.ty.unsigned
                && let Some(clipped) = convert::clipped_double(value, arg)?
            {
                return Ok(ValueRef::Int(clipped));
            }
            let value = convert::cast(value, &arg.ty, &e.ty, cx)?;
            Ok(convert::permitted_date(value, cx))
        }
        ExprKind::ArrayTest(test) => eval(&test.condition, row, cx),
        ExprKind::Call(function, args) => eval_call(function, args, &e.ty, row, cx),
        ExprKind::DateAdd {
            args,
            unit,
            negative,
        } => {
            let [date, amount] = args.as_ref();
            let left = eval(date, row, cx)?;
            let right = eval(amount, row, cx)?;
            interval::date_add((left, date), (right, amount), *unit, *negative, e, cx)
        }
        ExprKind::Extract(unit, arg) => interval::extract(*unit, eval(arg, row, cx)?, &arg.ty, cx),
        _ => eval_state(e, row, cx),
    }
}

/// Evaluates what depends on the statement and enclosing queries: aggregates, variables, outer
/// rows.
fn eval_state<'a>(e: &'a Expr, row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    match &e.kind {
        ExprKind::Aggregate(at) | ExprKind::Window(at) => {
            Ok(cx.aggregates.get(*at).copied().unwrap_or(ValueRef::Null))
        }
        ExprKind::CastArray(arg) => array::cast(eval(arg, row, cx)?, &arg.ty, &e.ty, cx),
        ExprKind::ArrayKeys(kind, arg) => {
            array::keys(*kind, eval(arg, row, cx)?, &arg.ty, &e.ty, cx)
        }
        ExprKind::UserVariable(name) => {
            let variables = cx.env.user_variables.borrow();
            let value = variables.get(name).map_or(Value::Null, |(v, _)| v.clone());
            Ok(convert::keep(&value, cx))
        }
        ExprKind::AssignVariable(name, arg) => {
            let value = eval(arg, row, cx)?;
            let kept = value.to_owned();
            cx.env
                .set_user_variable(name.clone(), kept, arg.ty.clone())?;
            Ok(value)
        }
        ExprKind::NewValue { column, load } => {
            let value = cx.new_row.get(*column).copied().unwrap_or(ValueRef::Null);
            load_value(value, *load, &e.ty, cx)
        }
        ExprKind::Outer {
            level,
            slot,
            column,
            load,
        } => {
            let frame = cx.outer;
            let stored = frame.map_or(ValueRef::Null, |f| f.get(*level, *slot, *column));
            load_value(stored, *load, &e.ty, cx)
        }
        ExprKind::Benchmark(args) => benchmark(args, row, cx),
        ExprKind::Enclosing(level, e) => match cx.outer.and_then(|frame| frame.at(*level)) {
            Some(frame) => {
                let cx = EvalCx {
                    aggregates: frame.aggregates,
                    outer: frame.outer,
                    ..*cx
                };
                eval(e, frame.row, &cx)
            }
            None => Ok(ValueRef::Null),
        },
        ExprKind::Query(test) => match cx.queries {
            Some(queries) => queries.test(test, row, cx),
            None => Err(SqlError::internal("a subquery where none can run")),
        },
        ExprKind::TextMatch(found) => found.eval(row, cx),
        ExprKind::SessionCall(function, args) => {
            let queries = cx.queries;
            let queries =
                queries.ok_or_else(|| SqlError::internal("a function where none can run"))?;
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                values.push((eval(arg, row, cx)?.to_owned(), arg.ty.clone()));
            }
            let value = queries.call_function(function, values)?;
            Ok(convert::keep(&value, cx))
        }
        _ => Err(SqlError::internal("an expression of unexpected kind")),
    }
}

/// Evaluates the second of the arguments as often as the first says; the result is 0, or NULL for
/// a number that is negative or NULL.
fn benchmark<'a>(args: &'a [Expr; 2], row: &[Slot<'a>], cx: &EvalCx<'a>) -> Result<ValueRef<'a>> {
    let [count, e] = args;
    let value = eval(count, row, cx)?;
    if value.is_null() {
        return Ok(ValueRef::Null);
    }
    let times = convert::int(value, &count.ty, cx)?;
    if times < 0 && !count.ty.unsigned {
        let text = format!("Incorrect count value: '{times}' for function benchmark");
        cx.env.warn_or_fail(1411, "HY000", text)?;
        return Ok(ValueRef::Null);
    }
    let mut arena = Bump::new();
    for _ in 0..times as u64 {
        interrupt::check()?;
        arena.reset();
        let cx = EvalCx {
            arena: &arena,
            ..*cx
        };
        eval(e, row, &cx)?;
    }
    Ok(ValueRef::Int(0))
}

/// Calls a registered function, fetching no more of overflow values than it needs.
fn eval_call<'a>(
    function: &'static Function,
    args: &'a [Expr],
    ty: &'a ColumnType,
    row: &[Slot<'a>],
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    if let [arg] = args
        && let Some(length) = large::overflow_length(function.name, arg, row)
    {
        return Ok(length);
    }
    cx.env.tick_by(args.len())?;
    let of_call;
    let arena = if args.len() > MAX_ARENA_ARGUMENTS {
        of_call = Bump::new();
        &of_call
    } else {
        cx.arena
    };
    let mut values = bumpalo::collections::Vec::with_capacity_in(args.len(), arena);
    for (at, arg) in args.iter().enumerate() {
        let start = if at == 0 && large::reads_only_prefix(function.name, args.len()) {
            large::stored_prefix(arg, row)
        } else {
            None
        };
        values.push(match start {
            Some(start) => start,
            None => eval(arg, row, cx)?,
        });
    }
    let call = Call {
        name: function.name,
        args,
        values: values.into_bump_slice(),
        ty,
        cx,
    };
    Ok(call.limit_size((function.run)(&call)?))
}

/// Converts a storage value to an SQL value.
#[inline]
pub fn load_value<'a>(
    stored: ValueRef<'a>,
    load: Load,
    ty: &'a ColumnType,
    cx: &EvalCx<'a>,
) -> Result<ValueRef<'a>> {
    match (load, stored) {
        (Load::Plain, value) | (_, value @ ValueRef::Null) => Ok(value),
        (load, value) => Ok(convert_stored(value, load, ty, cx)),
    }
}

/// [`load_value`] of a value that differs from the stored one; apart, so that the common case is
/// inlined.
fn convert_stored<'a>(
    stored: ValueRef<'a>,
    load: Load,
    ty: &'a ColumnType,
    cx: &EvalCx<'a>,
) -> ValueRef<'a> {
    match (load, stored) {
        (Load::Timestamp, ValueRef::DateTime(utc)) => {
            ValueRef::DateTime(cx.env.time_zone.utc_to_local(utc))
        }
        (Load::Enum, value) => porpoise_types::storage_to_sql(value, ty),
        (Load::Set, value) => {
            let mut text = Vec::new();
            porpoise_types::write_text(value, ty, &mut text);
            ValueRef::Bytes(cx.arena.alloc_slice_copy(&text))
        }
        (Load::Plain | Load::Timestamp, value) => value,
    }
}
