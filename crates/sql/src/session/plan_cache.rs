//! Plan cache for statements sent as text, keyed by the text without its literals.
//!
//! One pass of the lexer normalizes a text ([`porpoise_sql_parser::digest`]). The key is the
//! normalized form, with everything else that a plan depends on (transactions.md, rule 42). A hit
//! costs that pass, a lookup, and the conversion of literals to parameters; the statement is not
//! parsed.
//!
//! Invariants:
//! 1. The whole normalized form is compared, not only its hash.
//! 2. A plan is used only with the definitions, statistics, SQL mode, default database, character
//!    set and row limit with which it was made.
//! 3. A text that cannot be normalized, or does not parse with parameters in place of its literals,
//!    is parsed and planned without the cache; so all syntax errors are reported by the ordinary
//!    parser.
//!
//! Rejected: a cache shared by sessions (a lock or a contended cache line for every statement); a
//! session has few plans.

use super::lex_mode;
use super::prepared::size_of_plan;
use super::routines::CallPlan;
use super::statistics;
use super::{Outcome, SqlSession};
use crate::context::StatementContext;
use crate::statements::digests::DigestId;
use crate::statements::phases::Phase;
use crate::status::{self, Counter};
use bumpalo::Bump;
use porpoise_base::interrupt;
use porpoise_base::memory::MemoryCharge;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::Result;
use porpoise_sql_expr::memory::SessionMemory;
use porpoise_sql_parser::ast::{Call, Literal, Statement};
use porpoise_sql_parser::digest::{Digest, LiteralKind, LiteralToken, Normalized};
use porpoise_sql_parser::{Deprecation, LexMode, Literals, ParseOptions, parse_literal, parse_one};
use porpoise_sql_plan::bind::literal;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_types::{Charset, Collation, ColumnType, SqlMode, ValueRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of plans of a session; when it is exceeded, all are dropped.
const MAX_PLANS: usize = 256;

/// Maximum memory of these plans ([`size_of_plan`]); when it is exceeded, all are dropped.
const MAX_PLAN_BYTES: usize = 4 << 20;

/// Longer texts are not cached: large INSERTs are rarely repeated.
const MAX_TEXT_LEN: usize = 16 * 1024;

/// Everything that a plan depends on, besides its text and the types of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanDependencies {
    /// Version of the catalog.
    version: u64,
    /// Epoch of the statistics.
    epoch: u64,
    mode: SqlMode,
    database: Option<String>,
    collation: Collation,
    select_limit: Option<u64>,
    safe_updates: bool,
    div_precision: u8,
}

impl PlanDependencies {
    /// The current dependencies in a session, for this version of the catalog.
    pub(super) fn of(cx: &StatementContext, version: u64) -> PlanDependencies {
        PlanDependencies {
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

    /// Whether the dependencies are unchanged.
    pub(super) fn still_hold(&self, cx: &StatementContext, version: u64) -> bool {
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

/// A cached text's way of execution, and its warnings.
#[derive(Clone)]
struct CachedPlan {
    action: CachedAction,
    /// Warnings about deprecated syntax, given at each execution.
    deprecated: Option<Arc<[(u16, String)]>>,
}

/// Way of executing a cached text.
#[derive(Clone)]
enum CachedAction {
    /// By a plan.
    Plan(Arc<Planned>),
    /// As a CALL.
    Call(Arc<CallPlan>),
}

struct Entry {
    normalized: Box<[u8]>,
    dependencies: PlanDependencies,
    digest: DigestId,
    /// `None`: the text must be parsed and planned without the cache.
    plan: Option<CachedPlan>,
    _charge: Option<MemoryCharge>,
}

/// Key, dependencies and digest of an entry to be added.
struct Identity {
    /// [`Normalized::key`].
    key: u128,
    dependencies: PlanDependencies,
    digest: DigestId,
}

/// The plan cache of one session.
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

    /// Stores a plan, unless there is no memory for it.
    fn insert(&mut self, identity: Identity, plan: Option<CachedPlan>, memory: &SessionMemory) {
        let bytes = size_of_plan(self.digest.normalized());
        if self.entries.len() >= MAX_PLANS || self.bytes.saturating_add(bytes) > MAX_PLAN_BYTES {
            self.entries.clear();
            self.bytes = 0;
        }
        let Ok(charge) = memory.charge(bytes) else {
            return;
        };
        self.bytes += bytes;
        let entry = Entry {
            normalized: self.digest.normalized().into(),
            dependencies: identity.dependencies,
            digest: identity.digest,
            plan,
            _charge: charge,
        };
        self.entries.insert(identity.key, entry);
    }
}

impl SqlSession {
    /// Executes the first statement of `text` with a cached or new plan; `None` if the statement
    /// must be parsed and planned without the cache.
    pub(super) fn query_cached(
        &mut self,
        arena: &Bump,
        text: &[u8],
        multi: bool,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<Outcome>> {
        // Literals in a character set other than the text's are converted by the binder.
        let converts = self.cx.settings.collation.charset() != Charset::Utf8mb4;
        if converts || text.len() > MAX_TEXT_LEN || self.table_locks.is_some() {
            return None;
        }
        let mode = lex_mode(self.cx.settings.mode);
        let epoch = self.programs.plan_epoch;
        let mut cache = std::mem::take(&mut self.plans);
        let parsing = self.begin_phase();
        let digest = cache.digest.compute(text, 0, mode);
        self.end_phase(Phase::Parse, parsing);
        // A second statement where only one is allowed is a syntax error.
        let result = digest
            .filter(|normalized| multi || normalized.rest.is_none())
            .and_then(|normalized| {
                self.query_normalized(&mut cache, &normalized, arena, text, mode, sink)
            });
        // A program that the statement runs may discard the session's plans (`forget_plans`).
        if self.programs.plan_epoch == epoch {
            self.plans = cache;
        }
        result
    }

    /// As [`Self::query_cached`], for a text that has been normalized.
    fn query_normalized(
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
        let fresh = known.filter(|e| e.dependencies.still_hold(&self.cx, version));
        let plan = match fresh {
            Some(entry) => {
                self.work.digest = Some(entry.digest);
                entry.plan.clone()?
            }
            None => match self.plan_for(cache, normalized, arena, text, mode)? {
                Ok(plan) => plan,
                Err(error) => return Some(Err(error)),
            },
        };
        let values = parameters(cache.digest.literals(), arena, text, mode)?;
        for (code, message) in plan.deprecated.iter().flat_map(|list| list.iter()) {
            self.cx.warn(*code, message.clone());
        }
        let rest = normalized.rest;
        let with_rest = |outcome: Outcome| Outcome { rest, ..outcome };
        let plan = match plan.action {
            CachedAction::Plan(plan) => plan,
            CachedAction::Call(call) => {
                self.cx.counters.add(Counter::CallProcedure, 1);
                return Some(self.run_call(&call, values, sink).map(with_rest));
            }
        };
        if let Err(error) = self.publish(&plan) {
            return Some(Err(error));
        }
        if self.cx.server.db.catalog_version() != version {
            // Definitions changed between lookup and lock.
            return None;
        }
        self.cx.counters.add(status::of_plan(&plan.plan), 1);
        Some(self.run_shown_plan(&plan, values, sink).map(with_rest))
    }

    /// Plans a normalized text and stores the plan; `None` if the statement must be parsed and
    /// planned without the cache.
    fn plan_for(
        &mut self,
        cache: &mut PlanCache,
        normalized: &Normalized,
        arena: &Bump,
        text: &[u8],
        mode: LexMode,
    ) -> Option<Result<CachedPlan>> {
        let catalog = self.cx.catalog();
        let own = normalized.rest.and_then(|at| text.get(..at));
        let digest = statistics::number(own.unwrap_or(text), &self.cx);
        self.work.digest = Some(digest);
        let identity = Identity {
            key: normalized.key,
            dependencies: PlanDependencies::of(&self.cx, catalog.version),
            digest,
        };
        let options = ParseOptions {
            mode,
            literals: Literals::Params(cache.digest.literals()),
            ..ParseOptions::default()
        };
        let parsing = self.begin_phase();
        let parsed = parse_one(arena, text, 0, &options);
        self.end_phase(Phase::Parse, parsing);
        let Ok(parsed) = parsed else {
            if interrupt::check().is_err() {
                return None;
            }
            cache.insert(identity, None, &self.cx.env.memory);
            return None;
        };
        let types = parameter_types(cache.digest.literals(), text, self.cx.settings.collation);
        self.cx.begin_plan();
        let _deadline = match self.arm_planning(&parsed.statement) {
            Ok(armed) => armed,
            Err(error) => return Some(Err(error)),
        };
        let made = match &parsed.statement {
            Statement::Call(call) => Ok(self.plan_call(call, &types)),
            statement => {
                let plan = self.plan(statement, text, &types, &catalog);
                plan.map(|plan| plan.map(|plan| CachedAction::Plan(Arc::new(plan))))
            }
        };
        let planned = match made {
            Ok(plan) => plan,
            Err(_) if interrupt::check().is_err() => return None,
            // With its literals in place it may be valid: `GROUP BY a + 1` groups `SELECT a + 1`.
            Err(_) => {
                cache.insert(identity, None, &self.cx.env.memory);
                return None;
            }
        };
        let kept = planned.filter(|_| self.cx.may_keep_plan());
        let plan = kept.map(|action| CachedPlan {
            action,
            deprecated: deprecation_warnings(parsed.deprecated),
        });
        cache.insert(identity, plan.clone(), &self.cx.env.memory);
        plan.map(Ok)
    }
}

impl SqlSession {
    /// The plan of a CALL whose arguments are evaluated without queries and can be used again;
    /// `None` for others, and where there is no such procedure.
    fn plan_call(&self, call: &Call<'_>, types: &[ColumnType]) -> Option<CachedAction> {
        let (database, name) = self.cx.qualified(&call.name).ok()?;
        let routine = self.procedure(&database, &name).ok()?;
        let mut args = Vec::with_capacity(call.args.len());
        for arg in call.args.iter().filter(|arg| !arg.has_subquery()) {
            let bound = self.cx.bind(arg, types).ok()?;
            args.push(Some(bound).filter(|bound| !bound.has_subquery())?);
        }
        let is_whole = args.len() == call.args.len();
        let plan = is_whole.then(|| Arc::new(CallPlan { routine, args }));
        plan.map(CachedAction::Call)
    }
}

/// The warnings about deprecated syntax; `None` without any.
fn deprecation_warnings(deprecated: &[Deprecation<'_>]) -> Option<Arc<[(u16, String)]>> {
    let warnings: Vec<_> = deprecated.iter().filter_map(Deprecation::warning).collect();
    (!warnings.is_empty()).then(|| warnings.into())
}

/// The types of the parameters: those of the literals, except for the length of texts, on which no
/// result type depends outside of select lists.
fn parameter_types(
    literals: &[LiteralToken],
    text: &[u8],
    collation: Collation,
) -> Vec<ColumnType> {
    let literal_type = |token: &LiteralToken| match token.kind {
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
            let bounded = |n: usize, max: u8| u8::try_from(n).unwrap_or(max).min(max);
            ColumnType::decimal(bounded(precision, 65).max(1), bounded(scale, 30))
        }
    };
    literals.iter().map(literal_type).collect()
}

fn token_text<'t>(token: &LiteralToken, text: &'t [u8]) -> &'t [u8] {
    let range = token.span.start as usize..token.span.end as usize;
    text.get(range).unwrap_or_default()
}

/// Converts the literals to values in the arena; `None` if one cannot be converted.
fn parameters<'a>(
    literals: &[LiteralToken],
    arena: &'a Bump,
    text: &'a [u8],
    mode: LexMode,
) -> Option<&'a [ValueRef<'a>]> {
    let mut values = bumpalo::collections::Vec::with_capacity_in(literals.len(), arena);
    for token in literals {
        values.push(decode_plain(token, text).or_else(|| parse_token(token, arena, text, mode))?);
    }
    Some(values.into_bump_slice())
}

/// The value of an integer or of a string without escapes; `None` for other literals.
fn decode_plain<'a>(token: &LiteralToken, text: &'a [u8]) -> Option<ValueRef<'a>> {
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

fn parse_token<'a>(
    token: &LiteralToken,
    arena: &'a Bump,
    text: &'a [u8],
    mode: LexMode,
) -> Option<ValueRef<'a>> {
    let read: Literal<'a> = parse_literal(arena, text, token, mode).ok()?;
    if let Literal::String(bytes) | Literal::Hex(bytes) = read {
        return Some(ValueRef::Bytes(bytes));
    }
    // Only numbers reach this, so the value borrows nothing.
    let bound = literal::literal(&read, Collation::BINARY, SqlMode::EMPTY).ok()?;
    match bound.as_const()?.as_ref() {
        ValueRef::Int(v) => Some(ValueRef::Int(v)),
        ValueRef::UInt(v) => Some(ValueRef::UInt(v)),
        ValueRef::Double(v) => Some(ValueRef::Double(v)),
        ValueRef::Decimal(v) => Some(ValueRef::Decimal(v)),
        _ => None,
    }
}
