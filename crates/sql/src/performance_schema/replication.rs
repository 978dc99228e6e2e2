//! Rows of the `replication_` tables. While a source is set, the table of workers has a row for each worker, and each other
//! table of the replica has one row; the tables of the group have a row for each member.

use crate::context::StatementContext;
use crate::replica::{GroupMember, ReplicaFailure, ReplicaStatus, ReplicaWorker};
use crate::results::table::text;
use porpoise_sql_expr::error::Result;
use porpoise_types::{DateTime, Value};

type Table = Result<Vec<Vec<Value>>>;

fn row(cx: &StatementContext, values: impl Fn(&ReplicaStatus) -> Vec<Value>) -> Table {
    Ok(cx.server.replica_status().iter().map(values).collect())
}

fn on(is_on: bool) -> Value {
    text(if is_on { "ON" } else { "OFF" })
}

fn yes(is_on: bool) -> Value {
    text(if is_on { "YES" } else { "NO" })
}

fn moment(cx: &StatementContext, micros: i64) -> Value {
    let utc = DateTime::from_unix_micros(micros).filter(|_| micros != 0);
    Value::DateTime(utc.map_or(DateTime::ZERO, |utc| cx.env.time_zone.utc_to_local(utc)))
}

fn failure(cx: &StatementContext, failure: &ReplicaFailure) -> [Value; 3] {
    [
        Value::UInt(u64::from(failure.number)),
        text(&failure.message),
        moment(cx, failure.time),
    ]
}

pub(super) fn connection_configuration(cx: &StatementContext) -> Table {
    row(cx, |status| {
        vec![
            text(""),
            text(&status.host),
            Value::UInt(u64::from(status.port)),
            text(&status.user),
            text(""),
            Value::UInt(u64::from(status.auto_position)),
            yes(status.ssl),
            text(&status.ssl_ca),
            text(&status.ssl_cert),
            text(&status.ssl_key),
            yes(status.ssl_verify),
            Value::UInt(status.connect_retry),
            Value::UInt(status.retry_count),
            Value::Double(status.heartbeat_millis as f64 / 1000.0),
        ]
    })
}

pub(super) fn connection_status(cx: &StatementContext) -> Table {
    row(cx, |status| {
        let state = match status.receiving {
            "Yes" => text("ON"),
            "Connecting" => text("CONNECTING"),
            _ => text("OFF"),
        };
        let mut row = vec![
            text(""),
            text(""),
            text(&status.source_uuid),
            Value::Null,
            state,
            Value::UInt(status.heartbeats.0),
            moment(cx, status.heartbeats.1),
            text(&status.gtids),
        ];
        row.extend(failure(cx, &status.connection_error));
        row
    })
}

pub(super) fn applier_configuration(cx: &StatementContext) -> Table {
    row(cx, |status| vec![text(""), Value::UInt(status.delay)])
}

pub(super) fn applier_status(cx: &StatementContext) -> Table {
    row(cx, |status| {
        vec![
            text(""),
            on(status.applying == "Yes"),
            Value::Null,
            Value::UInt(status.repeated),
        ]
    })
}

pub(super) fn applier_status_by_worker(cx: &StatementContext) -> Table {
    let status = cx.server.replica_status();
    let rows = status.iter().flat_map(|status| {
        let workers = status.workers.iter().enumerate();
        let mut rows: Vec<_> = workers
            .map(|(at, worker)| worker_row(cx, status, at as u64 + 1, Some(worker)))
            .collect();
        if rows.is_empty() {
            // The thread of the replica applies by itself.
            rows.push(worker_row(cx, status, 0, None));
        }
        rows
    });
    Ok(rows.collect())
}

/// The row of a worker; `None`: of the replica's thread, which applies without workers.
fn worker_row(
    cx: &StatementContext,
    status: &ReplicaStatus,
    id: u64,
    worker: Option<&ReplicaWorker>,
) -> Vec<Value> {
    let none = ReplicaFailure::default();
    let failed = worker.is_none_or(|worker| worker.failed);
    let mut row = vec![
        text(""),
        Value::UInt(id),
        Value::Null,
        on(status.applying == "Yes"),
    ];
    row.extend(failure(
        cx,
        if failed { &status.apply_error } else { &none },
    ));
    let activities = worker.map(|worker| (&worker.applied, &worker.applying));
    let (applied, applying) = activities.unwrap_or((&None, &None));
    for activity in [applied, applying] {
        let activity = activity.clone().unwrap_or_default();
        row.extend([
            text(&activity.gtid),
            moment(cx, activity.original_commit),
            moment(cx, activity.at),
        ]);
    }
    row
}

/// Name of the channel in MySQL's group replication.
const GROUP_CHANNEL: &str = "group_replication_applier";

fn members(cx: &StatementContext, row: impl Fn(&str, &GroupMember) -> Vec<Value>) -> Table {
    let group = cx.server.group();
    let rows = group.iter().flat_map(|group| {
        let members = group.members.iter();
        members.map(|member| row(&group.view, member))
    });
    Ok(rows.collect())
}

/// Members of the group. MEMBER_COMMUNICATION_STACK is empty: it names one of MySQL's two.
pub(super) fn group_members(cx: &StatementContext) -> Table {
    members(cx, |_, member| {
        vec![
            text(GROUP_CHANNEL),
            text(&member.uuid),
            text(&member.host),
            Value::UInt(u64::from(member.port)),
            text(member.state.name()),
            text(member.role.name()),
            text(&member.version),
            text(""),
        ]
    })
}

/// Counters of members. Conflicts are found by locks at the leader, so that most counters of MySQL's certification are 0.
/// Transactions that are being applied are counted for this server only.
pub(super) fn group_member_stats(cx: &StatementContext) -> Table {
    let replica = cx.server.replica_status();
    let workers = replica.iter().flat_map(|status| &status.workers);
    let applying = workers.filter(|worker| worker.applying.is_some()).count() as u64;
    members(cx, |view, member| {
        let in_queue = match member.is_own {
            true => Value::UInt(applying),
            false => member.behind.map_or(Value::Null, Value::UInt),
        };
        let none = || Value::UInt(0);
        vec![
            text(GROUP_CHANNEL),
            text(view),
            text(&member.uuid),
            none(),
            none(),
            none(),
            none(),
            text(""),
            text(""),
            in_queue,
            none(),
            none(),
            none(),
        ]
    })
}
