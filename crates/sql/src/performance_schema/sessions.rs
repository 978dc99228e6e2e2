//! Sessions and their statements: `sys.processlist`, `sys.session`, `sys.host_summary`,
//! `events_stages_current`, `events_statements_current` and `events_statements_history`.
//!
//! Completed statements are shown by the text of their digest, without values. The text of a
//! running statement has its values only with `statement_sample_values`.

use super::{duration_picos, picos, shortened};
use crate::context::{StatementContext, lex_mode};
use crate::processes::{Process, ProcessState};
use crate::results::table::{text, text_or_null};
use crate::statements::Completed;
use crate::statements::digests::normalized_text;
use crate::statements::recent::Totals;
use porpoise_rows::progress::Stage;
use porpoise_sql_expr::error::Result;
use porpoise_sql_expr::functions::digest::hash_of;
use porpoise_sql_expr::functions::units::pico_time;
use porpoise_types::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

fn zero() -> Value {
    Value::UInt(0)
}

/// A number of nanoseconds: readable, or in picoseconds.
fn time(nanos: u64, formatted: bool) -> Value {
    match formatted {
        true => text(pico_time(picos(nanos) as f64)),
        false => Value::UInt(picos(nanos)),
    }
}

fn bytes_unknown(formatted: bool) -> Value {
    if formatted { text("0 bytes") } else { zero() }
}

/// The text of a running statement, with its values only if they are to be shown.
pub(super) fn running_text(cx: &StatementContext, info: Option<&str>) -> Option<String> {
    let info = info?;
    if cx.server.digests.samples_values() {
        return Some(info.to_owned());
    }
    Some(
        normalized_text(info.as_bytes(), lex_mode(cx.settings.mode))
            .unwrap_or_else(|| "...".to_owned()),
    )
}

/// Rows of `sys.processlist` and `sys.session`, running statements first, longest first.
pub(super) fn processlist(cx: &StatementContext, formatted: bool) -> Vec<Vec<Value>> {
    let now = cx.server.db.clock().now();
    let mut all: Vec<(Arc<Process>, ProcessState)> = cx
        .server
        .processes
        .list()
        .into_iter()
        .map(|process| {
            let state = process.state(now);
            (process, state)
        })
        .collect();
    all.sort_by_key(|(process, state)| {
        (
            state.command == "Sleep",
            std::cmp::Reverse(state.elapsed),
            process.id,
        )
    });
    all.iter()
        .map(|(process, state)| process_row(cx, process, state, now, formatted))
        .collect()
}

fn process_row(
    cx: &StatementContext,
    process: &Process,
    state: &ProcessState,
    now: Instant,
    formatted: bool,
) -> Vec<Value> {
    let sleeps = state.command == "Sleep";
    let running = |value: Value| if sleeps { Value::Null } else { value };
    let elapsed = u64::try_from(state.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let mut row = vec![
        Value::UInt(process.id),
        Value::UInt(process.id),
        text(format!("{}@{}", process.user, process.host)),
        text_or_null(process.database()),
        text(state.command),
        running(text(process.stage())),
        Value::UInt(state.seconds),
        statement(
            running_text(cx, state.info.as_deref()).filter(|_| !sleeps),
            formatted,
        ),
        text("PRIMARY"),
        running(time(elapsed, formatted)),
        running(percent(process)),
    ];
    // The figures of the last statement are shown until the next one begins.
    let last = process.history().pop().map(|(_, last)| last);
    row.extend(last_statement(cx, last.filter(|_| sleeps), formatted));
    row.extend([
        bytes_unknown(formatted),
        Value::Null,
        Value::Null,
        Value::Null,
    ]);
    let transaction = process.transaction_age(now);
    row.extend([
        transaction.map_or(Value::Null, |age| {
            time(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX), formatted)
        }),
        text_or_null(transaction.map(|_| "ACTIVE")),
        text_or_null(transaction.map(|_| "NO")),
        Value::Null,
        Value::Null,
    ]);
    row
}

/// Percentage of the stage that is done, with two decimals; NULL if it is unknown.
fn percent(process: &Process) -> Value {
    let percent = process.progress().percent();
    percent.map_or(Value::Null, |percent| {
        Value::Double((percent * 100.0).round() / 100.0)
    })
}

/// A statement's text, shortened if it is formatted.
fn statement(statement: Option<String>, formatted: bool) -> Value {
    match (statement, formatted) {
        (Some(statement), true) => text(shortened(&statement)),
        (statement, _) => text_or_null(statement),
    }
}

/// The columns lock_latency to last_statement_latency.
fn last_statement(cx: &StatementContext, last: Option<Completed>, formatted: bool) -> [Value; 10] {
    let count = |value: fn(&Completed) -> u64| Value::UInt(last.as_ref().map_or(0, value));
    let key = last.and_then(|last| cx.server.digests.key(last.digest));
    let scanned = last.is_some_and(|last| last.scanned_table);
    [
        time(last.map_or(0, |last| last.lock_nanos), formatted),
        time(0, formatted),
        count(|last| last.rows_examined),
        count(|last| last.rows_sent),
        count(|last| last.rows_affected),
        zero(),
        zero(),
        text(if scanned { "YES" } else { "NO" }),
        statement(key.map(|key| key.text.clone()), formatted),
        last.map_or(Value::Null, |last| time(last.nanos, formatted)),
    ]
}

/// Rows of `sys.host_summary`, most statement time first.
pub(super) fn host_summary(cx: &StatementContext, formatted: bool) -> Vec<Vec<Value>> {
    #[derive(Default)]
    struct Host {
        totals: Totals,
        open: u64,
        total: u64,
        users: BTreeSet<String>,
    }
    let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
    let processes = &cx.server.processes;
    processes.count_statements(&cx.server.digests);
    for (host, ended) in processes.ended_hosts() {
        let entry = hosts.entry(host).or_default();
        entry.totals.add(&ended.totals);
        entry.total += ended.sessions;
        entry.users.extend(ended.users);
    }
    for process in processes.list() {
        let entry = hosts.entry(process.host.clone()).or_default();
        entry.totals.add(&process.totals());
        entry.open += 1;
        entry.total += 1;
        entry.users.insert(process.user.clone());
    }
    let mut hosts: Vec<(String, Host)> = hosts.into_iter().collect();
    hosts.sort_by_key(|(_, host)| std::cmp::Reverse(host.totals.nanos));
    let row = |(name, host): (String, Host)| {
        let totals = host.totals;
        vec![
            text(name),
            Value::UInt(totals.statements),
            time(totals.nanos, formatted),
            time(totals.nanos / totals.statements.max(1), formatted),
            Value::UInt(totals.table_scans),
            zero(),
            time(0, formatted),
            Value::UInt(host.open),
            Value::UInt(host.total),
            Value::UInt(host.users.len() as u64),
            bytes_unknown(formatted),
            bytes_unknown(formatted),
        ]
    };
    hosts.into_iter().map(row).collect()
}

/// The cells of an event that differ between running and past statements.
struct Event {
    thread: u64,
    number: u64,
    ended: bool,
    start: u64,
    nanos: u64,
    text: Option<String>,
    digest_text: Option<String>,
    database: Option<String>,
    completed: Option<Completed>,
}

impl Event {
    fn into_row(self) -> Vec<Value> {
        let digest = self.digest_text.as_deref().map(hash_of);
        let last = self.completed;
        let count = |value: fn(&Completed) -> u64| Value::UInt(last.as_ref().map_or(0, value));
        let verb = self
            .digest_text
            .as_deref()
            .and_then(|text| text.split(' ').next());
        let verb = verb.unwrap_or("error").to_ascii_lowercase();
        let errno = last.map_or(0, |last| u64::from(last.error));
        let mut row = vec![
            Value::UInt(self.thread),
            Value::UInt(self.number),
            if self.ended {
                Value::UInt(self.number)
            } else {
                Value::Null
            },
            text(format!("statement/sql/{verb}")),
            Value::Null,
            Value::UInt(picos(self.start)),
            Value::UInt(picos(self.start.saturating_add(self.nanos))),
            Value::UInt(picos(self.nanos)),
            count(|last| picos(last.lock_nanos)),
            text_or_null(self.text),
            text_or_null(digest),
            text_or_null(self.digest_text),
            text_or_null(self.database),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::UInt(errno),
            Value::Null,
            Value::Null,
            Value::UInt(u64::from(errno != 0)),
            count(|last| u64::from(last.warnings)),
            count(|last| last.rows_affected),
            count(|last| last.rows_sent),
            count(|last| last.rows_examined),
        ];
        // CREATED_TMP_DISK_TABLES to SELECT_RANGE_CHECK.
        row.extend([zero(), zero(), zero(), zero(), zero(), zero()]);
        row.push(count(|last| u64::from(last.scanned_table)));
        // SORT_MERGE_PASSES to SORT_SCAN.
        row.extend([zero(), zero(), zero(), zero()]);
        row.push(count(|last| u64::from(last.scanned_table)));
        row.extend([
            zero(),
            Value::Null,
            Value::Null,
            zero(),
            Value::UInt(self.number),
            zero(),
            zero(),
            zero(),
            text("PRIMARY"),
        ]);
        row
    }

    fn past(cx: &StatementContext, process: &Process, number: u64, past: Completed) -> Event {
        let key = cx.server.digests.key(past.digest);
        let digest_text = key.map(|key| key.text.clone());
        let ended = cx.server.digests.after_start(past.ended);
        Event {
            thread: process.id,
            number,
            ended: true,
            start: ended.saturating_sub(past.nanos),
            nanos: past.nanos,
            text: digest_text.clone(),
            digest_text,
            database: key.and_then(|key| key.database.clone()),
            completed: Some(past),
        }
    }
}

/// Rows of `events_statements_history`.
pub(super) fn history(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    for process in cx.server.processes.list() {
        let past = process.history().into_iter();
        rows.extend(past.map(|(n, past)| Event::past(cx, &process, n, past).into_row()));
    }
    Ok(rows)
}

/// Rows of `events_statements_current`: the running statement of each session, or its last one.
pub(super) fn current(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let now = cx.server.db.clock().now();
    let mut rows = Vec::new();
    for process in cx.server.processes.list() {
        let state = process.state(now);
        if state.command == "Sleep" {
            let last = process.history().pop();
            rows.extend(last.map(|(n, past)| Event::past(cx, &process, n, past).into_row()));
            continue;
        }
        let nanos = duration_picos(state.elapsed) / 1000;
        let info = state.info.as_deref().unwrap_or_default();
        let event = Event {
            thread: process.id,
            number: process.ended_statements() + 1,
            ended: false,
            start: cx.server.digests.after_start(now).saturating_sub(nanos),
            nanos,
            text: running_text(cx, state.info.as_deref()),
            digest_text: normalized_text(info.as_bytes(), lex_mode(cx.settings.mode)),
            database: process.database(),
            completed: None,
        };
        rows.push(event.into_row());
    }
    Ok(rows)
}

/// Rows of `events_stages_current`: the stages of running statements that change or check tables,
/// and the waits of statements for tables. When a stage began is not recorded.
pub(super) fn stages(cx: &StatementContext) -> Result<Vec<Vec<Value>>> {
    let now = cx.server.db.clock().now();
    let mut rows = Vec::new();
    for process in cx.server.processes.list() {
        let stage = process.progress().stage();
        if stage == Stage::None || process.state(now).command == "Sleep" {
            continue;
        }
        let statement = process.ended_statements() + 1;
        let (completed, estimated) = match process.progress().rows() {
            (0, 0) => (Value::Null, Value::Null),
            (completed, 0) => (Value::UInt(completed), Value::Null),
            (completed, estimated) => (Value::UInt(completed), Value::UInt(estimated)),
        };
        rows.push(vec![
            Value::UInt(process.id),
            Value::UInt(statement),
            Value::Null,
            text(format!("stage/sql/{}", stage.text())),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            completed,
            estimated,
            Value::UInt(statement),
            text("STATEMENT"),
        ]);
    }
    Ok(rows)
}
