//! Plans of statements sent as text, found by the text without its literals.
//!
//! A text is normalised by one pass of the lexer ([`crate::parse::digest`]);
//! the normalised form, and what else a plan depends on, is the key
//! (transactions.md, rule 42). A hit costs the pass, a look-up and turning
//! the literals into parameters; the statement is not parsed.
//!
//! Invariants:
//! 1. The whole normalised form is compared, not only its hash.
//! 2. A plan is used only under the definitions, statistics, SQL mode, default database,
//!    character set and row limit that it was made under.
//! 3. What cannot be normalised, or does not parse with parameters in the
//!    place of its literals, goes the ordinary way, and so do all errors of
//!    syntax.
//!
//! Rejected: a cache that sessions share (a lock or a shared cache line on
//! every statement); the plans of a session are few.

use super::lex_mode;
use super::prepared::size_of_plan;
use super::{Outcome, SqlSession};
use crate::bind::literal;
use crate::context::StatementContext;
use crate::error::Result;
use crate::exec::ResultSink;
use crate::memory::SessionMemory;
use crate::parse::ast::Literal;
use crate::parse::digest::{Digest, LiteralKind, LiteralToken, Normalized};
use crate::parse::{LexMode, Literals, ParseOptions, parse_literal, parse_one};
use crate::plan::planned::Planned;
use bumpalo::Bump;
use porpoise_base::interrupt;
use porpoise_base::memory::MemoryCharge;
use porpoise_types::{Charset, Collation, ColumnType, SqlMode, ValueRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Plans that a session keeps; past it all are dropped.
const MOST: usize = 256;

/// Bytes that these plans take, by [`size_of_plan`]; past it all are dropped.
const MOST_BYTES: usize = 4 << 20;

/// Texts longer than this are not kept: large INSERTs hardly come again.
const LONGEST: usize = 16 * 1024;

/// Conditions under which a plan was made, beside its text and the types of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conditions {
    version: u64,
    /// Of the statistics.
    epoch: u64,
    mode: SqlMode,
    database: Option<String>,
    collation: Collation,
    select_limit: Option<u64>,
    safe_updates: bool,
    div_precision: u8,
}

impl Conditions {
    /// Present conditions of a session, under the catalog of that version.
    pub(super) fn of(cx: &StatementContext, version: u64) -> Conditions {
        Conditions {
            version,
            epoch: cx.server.statistics.epoch(),
            mode: cx.settings.mode,
            database: cx.env.database.clone(),
            collation: cx.settings.collation,
            select_limit: cx.settings.select_limit,
            safe_updates: cx.settings.safe_updates,
            div_precision: cx.settings.div_precision,
        }
    }

    /// Whether they hold.
    pub(super) fn hold(&self, cx: &StatementContext, version: u64) -> bool {
        self.version == version
            && self.epoch == cx.server.statistics.epoch()
            && self.mode == cx.settings.mode
            && self.collation == cx.settings.collation
            && self.select_limit == cx.settings.select_limit
            && self.safe_updates == cx.settings.safe_updates
            && self.div_precision == cx.settings.div_precision
            && self.database == cx.env.database
    }
}

struct Entry {
    normalized: Box<[u8]>,
    conditions: Conditions,
    /// None: the text has to go the ordinary way.
    plan: Option<Arc<Planned>>,
    _charge: Option<MemoryCharge>,
}

/// The plans of one session.
#[derive(Default)]
pub(super) struct PlanCache {
    digest: Digest,
    entries: HashMap<u128, Entry, foldhash::fast::FixedState>,
    bytes: usize,
}

impl PlanCache {
    fn find(&self, key: u128) -> Option<&Entry> {
        let entry = self.entries.get(&key)?;
        (*entry.normalized == *self.digest.normalized()).then_some(entry)
    }

    /// Keeps a plan, unless there is no memory for it.
    fn keep(
        &mut self,
        key: u128,
        conditions: Conditions,
        plan: Option<Arc<Planned>>,
        memory: &SessionMemory,
    ) {
        let bytes = size_of_plan(self.digest.normalized());
        if self.entries.len() >= MOST || self.bytes.saturating_add(bytes) > MOST_BYTES {
            self.entries.clear();
            self.bytes = 0;
        }
        let Ok(charge) = memory.charge(bytes) else {
            return;
        };
        self.bytes += bytes;
        let entry = Entry {
            normalized: self.digest.normalized().into(),
            conditions,
            plan,
            _charge: charge,
        };
        self.entries.insert(key, entry);
    }
}

impl SqlSession {
    /// Runs the first statement of `text` by a plan from the cache, or by one
    /// made for it; `None` when it has to go the ordinary way.
    pub(super) fn query_cached(
        &mut self,
        arena: &Bump,
        text: &[u8],
        multi: bool,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<Outcome>> {
        // Literals of another character set than the text's are converted by
        // the binder.
        let converts = self.cx.settings.collation.charset() != Charset::Utf8mb4;
        if converts || text.len() > LONGEST || self.table_locks.is_some() {
            return None;
        }
        let mode = lex_mode(self.cx.settings.mode);
        let mut cache = std::mem::take(&mut self.plans);
        let digest = cache.digest.compute(text, 0, mode);
        // A second statement where none is allowed is an error of syntax.
        let result = digest
            .filter(|normalized| multi || normalized.rest.is_none())
            .and_then(|normalized| {
                self.query_with(&mut cache, &normalized, arena, text, mode, sink)
            });
        // The statement may have been one that drops all plans; a cache that
        // was replaced meanwhile stays replaced.
        self.plans = cache;
        result
    }

    fn query_with(
        &mut self,
        cache: &mut PlanCache,
        normalized: &Normalized,
        arena: &Bump,
        text: &[u8],
        mode: LexMode,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<Outcome>> {
        let version = self.cx.server.db.catalog_version();
        let known = cache.find(normalized.key);
        let fresh = known.filter(|e| e.conditions.hold(&self.cx, version));
        let plan = match fresh {
            Some(entry) => entry.plan.clone()?,
            None => match self.plan_for(cache, normalized, arena, text, mode)? {
                Ok(plan) => plan,
                Err(error) => return Some(Err(error)),
            },
        };
        let values = parameters(cache.digest.literals(), arena, text, mode)?;
        let deadline = self.definition_deadline();
        if let Err(error) = self.publish(&plan, deadline) {
            return Some(Err(error));
        }
        if self.cx.server.db.catalog_version() != version {
            // Definitions changed between look-up and lock.
            return None;
        }
        let outcome = self.run_plan(&plan, values, sink);
        Some(outcome.map(|mut outcome| {
            outcome.rest = normalized.rest;
            outcome
        }))
    }

    /// Makes the plan of a normalised text.
    fn plan_for(
        &self,
        cache: &mut PlanCache,
        normalized: &Normalized,
        arena: &Bump,
        text: &[u8],
        mode: LexMode,
    ) -> Option<Result<Arc<Planned>>> {
        let catalog = self.cx.catalog();
        let conditions = Conditions::of(&self.cx, catalog.version);
        let options = ParseOptions {
            mode,
            literals: Literals::Params(cache.digest.literals()),
            ..ParseOptions::default()
        };
        let Ok(parsed) = parse_one(arena, text, 0, &options) else {
            if interrupt::check().is_err() {
                return None;
            }
            cache.keep(normalized.key, conditions, None, &self.cx.env.memory);
            return None;
        };
        let types = types_of(cache.digest.literals(), text, self.cx.settings.collation);
        self.cx.volatile.set(false);
        let _deadline = match self.arm_planning(&parsed.statement) {
            Ok(armed) => armed,
            Err(error) => return Some(Err(error)),
        };
        let planned = match self.plan(&parsed.statement, text, &types, &catalog) {
            Ok(plan) => plan.map(Arc::new),
            Err(_) if interrupt::check().is_err() => return None,
            // With its literals in their places it may be no error: `GROUP BY
            // a + 1` groups `SELECT a + 1`.
            Err(_) => {
                cache.keep(normalized.key, conditions, None, &self.cx.env.memory);
                return None;
            }
        };
        let plan = if self.cx.volatile.get() {
            None
        } else {
            planned
        };
        cache.keep(
            normalized.key,
            conditions,
            plan.clone(),
            &self.cx.env.memory,
        );
        plan.map(Ok)
    }
}

/// The types of the parameters: those of the literals, but for the length of
/// text, on which no result type depends outside select lists.
fn types_of(literals: &[LiteralToken], text: &[u8], collation: Collation) -> Vec<ColumnType> {
    let of = |token: &LiteralToken| match token.kind {
        LiteralKind::Int | LiteralKind::Limit => ColumnType::bigint(),
        LiteralKind::Float => ColumnType::double(),
        LiteralKind::String => ColumnType::varchar(255, collation),
        LiteralKind::Hex => {
            let mut ty = ColumnType::varbinary(255);
            ty.unsigned = true;
            ty
        }
        LiteralKind::Decimal => {
            let digits = token_text(token, text);
            let scale = digits.iter().rev().position(|b| *b == b'.').unwrap_or(0);
            let precision = digits.iter().filter(|b| b.is_ascii_digit()).count();
            let bounded = |n: usize, most: u8| u8::try_from(n).unwrap_or(most).min(most);
            ColumnType::decimal(bounded(precision, 65).max(1), bounded(scale, 30))
        }
    };
    literals.iter().map(of).collect()
}

fn token_text<'t>(token: &LiteralToken, text: &'t [u8]) -> &'t [u8] {
    let range = token.span.start as usize..token.span.end as usize;
    text.get(range).unwrap_or_default()
}

/// The values of the literals, in the arena.
fn parameters<'a>(
    literals: &[LiteralToken],
    arena: &'a Bump,
    text: &'a [u8],
    mode: LexMode,
) -> Option<&'a [ValueRef<'a>]> {
    let mut values = bumpalo::collections::Vec::with_capacity_in(literals.len(), arena);
    for token in literals {
        values.push(quick(token, text).or_else(|| slow(token, arena, text, mode))?);
    }
    Some(values.into_bump_slice())
}

/// Whole numbers, and strings without escapes.
fn quick<'a>(token: &LiteralToken, text: &'a [u8]) -> Option<ValueRef<'a>> {
    let written = token_text(token, text);
    match token.kind {
        LiteralKind::Int | LiteralKind::Limit => {
            let mut value = 0i64;
            for digit in written {
                let digit = i64::from(digit.checked_sub(b'0').filter(|d| *d < 10)?);
                value = value.checked_mul(10)?.checked_add(digit)?;
            }
            (!written.is_empty()).then_some(ValueRef::Int(value))
        }
        LiteralKind::String => {
            let quote = *written.first()?;
            let inner = written.get(1..written.len().checked_sub(1)?)?;
            let plain =
                matches!(quote, b'\'' | b'"') && memchr::memchr2(quote, b'\\', inner).is_none();
            plain.then_some(ValueRef::Bytes(inner))
        }
        _ => None,
    }
}

fn slow<'a>(
    token: &LiteralToken,
    arena: &'a Bump,
    text: &'a [u8],
    mode: LexMode,
) -> Option<ValueRef<'a>> {
    let read: Literal<'a> = parse_literal(arena, text, token, mode).ok()?;
    if let Literal::String(bytes) | Literal::Hex(bytes) = read {
        return Some(ValueRef::Bytes(bytes));
    }
    // Numbers only: their values borrow nothing.
    let bound = literal::literal(&read, Collation::BINARY, SqlMode::EMPTY).ok()?;
    match bound.as_const()?.as_ref() {
        ValueRef::Int(v) => Some(ValueRef::Int(v)),
        ValueRef::UInt(v) => Some(ValueRef::UInt(v)),
        ValueRef::Double(v) => Some(ValueRef::Double(v)),
        ValueRef::Decimal(v) => Some(ValueRef::Decimal(v)),
        _ => None,
    }
}
