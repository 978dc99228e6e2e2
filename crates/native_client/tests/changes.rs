//! Subscriptions: changes by key ranges, positions, privileges, slow readers, kill -9.

use super::support::*;
use porpoise_native_client::{
    AsyncConnection, AsyncSubscription, Batch, Bound, Change, ChangedRow, ChangedTransaction,
    Error, Subscription, TlsMode, Value,
};
use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use std::time::Duration;

/// Longest wait for a transaction.
const WAIT: Duration = Duration::from_secs(60);

fn with_log() -> Porpoise {
    builder().flag("--log-bin").start()
}

fn row(row: &ChangedRow) -> String {
    let shown = row.values().iter().map(|value| match value {
        None => "-".to_owned(),
        Some(value) => show_value(value.as_ref()),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Short forms of changes: `+1 a`, `1 a > 1 b`, `-1 b`, `truncate`.
fn changes(transaction: &ChangedTransaction) -> Vec<String> {
    let changes = transaction.changes.iter().map(|change| match change {
        Change::Insert(after) => format!("+{}", row(after)),
        Change::Update { before, after } => format!("{} > {}", row(before), row(after)),
        Change::Delete(before) => format!("-{}", row(before)),
        Change::Definition(kind) => kind.clone(),
    });
    changes.collect()
}

fn next(subscription: &mut Subscription) -> Vec<String> {
    changes(&subscription.next(WAIT).unwrap().expect("a transaction"))
}

fn from(key: i64) -> Bound {
    Bound::Inclusive(vec![Value::Int(key)])
}

fn below(key: i64) -> Bound {
    Bound::Exclusive(vec![Value::Int(key)])
}

#[test]
fn ranges_positions_and_definitions_of_a_table() {
    let server = with_log();
    sql(
        &server,
        "create database d; use d; create table t (id int primary key, v varchar(9) character set latin1);
         create table other (id int primary key); insert into t values (1, 'a'), (15, 'old')",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let target = target(&server, "root", "");
    let request = table
        .subscribe()
        .range(from(10), below(20))
        .range(from(100), Bound::None);
    let mut some = Subscription::open(&target, request.clone()).unwrap();
    sql(
        &server,
        "use d; insert into t values (5, 'x'); insert into other values (1);
         insert into t values (9, 'x'), (10, 'é'), (20, 'x'), (100, null);
         update t set id = 6 where id = 15; update t set v = 'y' where id = 20; delete from t where id >= 10",
    );
    assert_eq!(next(&mut some), ["+10 é", "+100 NULL"]);
    let position = some.position().to_owned();
    // A row that leaves a range is shown whole, before and after.
    assert_eq!(next(&mut some), ["15 old > 6 old"]);
    assert_eq!(next(&mut some), ["-10 é", "-100 NULL"]);
    assert!(some.next(Duration::ZERO).unwrap().is_none());
    // From a position, with the rest of the log, and everything from its beginning.
    let mut again = Subscription::open(&target, request.clone().position(&position)).unwrap();
    assert_eq!(next(&mut again), ["15 old > 6 old"]);
    assert_eq!(next(&mut again), ["-10 é", "-100 NULL"]);
    let mut all = Subscription::open(&target, table.subscribe().position("first")).unwrap();
    assert_eq!(next(&mut all), ["create"]);
    assert_eq!(next(&mut all), ["+1 a", "+15 old"]);
    // A new column is in the rows that are logged from then on; a truncated table has no rows.
    sql(
        &server,
        "use d; alter table t add column n int default 7; insert into t values (11, 'z', 8); truncate table t",
    );
    assert_eq!(next(&mut some), ["alter"]);
    let added = some.next(WAIT).unwrap().unwrap();
    assert_eq!(changes(&added), ["+11 z 8"]);
    assert!(!added.gtid.is_empty() && added.micros > 0);
    let Change::Insert(row) = &added.changes[0] else {
        panic!("{added:?}");
    };
    assert_eq!(row.get("N"), Some(&Value::Int(8)));
    assert!(row.columns()[0].is_in_key && !row.columns()[2].is_in_key);
    assert_eq!(next(&mut some), ["truncate"]);
    // Keys of other columns cannot be compared with the ranges.
    sql(
        &server,
        "use d; alter table t drop primary key, add primary key (n); insert into t values (11, 'z', 12)",
    );
    assert_eq!(next(&mut some), ["alter"]);
    assert_eq!(some.next(WAIT).unwrap_err().code(), Some(1412));
    // An open transaction does not wait with its locks.
    native
        .begin(porpoise_native_client::Isolation::Snapshot)
        .unwrap();
    let table = native.table("d", "t").unwrap();
    assert_eq!(
        native.subscribe(&table.subscribe()).unwrap_err().code(),
        Some(1192)
    );
    native.rollback().unwrap();
    assert_eq!(
        native.next_changes(Duration::ZERO).unwrap_err().code(),
        Some(1381)
    );
    for position in [
        "yesterday",
        "",
        "binlog.000009:4",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
    ] {
        let request = table.subscribe().position(position);
        assert_eq!(
            native.subscribe(&request).unwrap_err().code(),
            Some(1236),
            "{position}"
        );
    }
    // The session goes on after the refusals.
    assert!(!native.subscribe(&table.subscribe()).unwrap().is_empty());
    native.ping().unwrap();
}

#[test]
fn values_of_all_types_are_those_that_are_read() {
    let server = with_log();
    sql(
        &server,
        "create database d; create table d.t (id bigint primary key, price decimal(10,2), raw binary(3), kind enum('a','b'),
           flags set('x','y'), doc json, at timestamp(3) null, day date, time time(2), bits bit(9), n int unsigned, f float,
           y year, tiny tinyint)",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let mut all = Subscription::open(&target(&server, "root", ""), table.subscribe()).unwrap();
    sql(
        &server,
        "set time_zone = '+00:00'; insert into d.t values (9007199254740993, 1.5, x'01', 'b', 'x,y', '{\"a\": 1}',
           '2026-01-02 03:04:05.678', '2026-01-02', '-12:00:00.5', b'100000001', 4000000000, 0.5, 2026, -3)",
    );
    let changed = all.next(WAIT).unwrap().unwrap();
    let Change::Insert(after) = &changed.changes[0] else {
        panic!("{changed:?}");
    };
    let names: Vec<&str> = after.columns().iter().map(|c| c.name.as_str()).collect();
    let read = table.read().columns(&names).build().unwrap();
    let reply = native
        .run(&batch(&read, &[&[int(9_007_199_254_740_993)]]))
        .unwrap();
    assert_eq!(shown(&reply), [format!("row {}", row(after))]);
}

#[test]
fn a_subscription_needs_select_as_long_as_it_runs() {
    let server = with_log();
    sql(
        &server,
        "create database d; create table d.a (id int primary key, v int); create table d.b (id int primary key, v int);
         create user ann identified by 'pw'; grant select on d.a to ann; grant insert, select (id) on d.b to ann",
    );
    let ann = target(&server, "ann", "pw");
    let mut native = porpoise_native_client::Connection::connect(&ann).unwrap();
    let table = native.table("d", "b").unwrap();
    assert_eq!(
        native.subscribe(&table.subscribe()).unwrap_err().code(),
        Some(1143)
    );
    let table = native.table("d", "a").unwrap();
    let mut subscription = Subscription::open(&ann, table.subscribe()).unwrap();
    sql(
        &server,
        "insert into d.b values (1, 1); insert into d.a values (1, 1)",
    );
    assert_eq!(next(&mut subscription), ["+1 1"]);
    sql(
        &server,
        "revoke select on d.a from ann; grant insert on d.a to ann; insert into d.a values (2, 2)",
    );
    assert_eq!(subscription.next(WAIT).unwrap_err().code(), Some(1142));
    // Without a log there is nothing to subscribe to.
    let server = start();
    sql(
        &server,
        "create database d; create table d.a (id int primary key)",
    );
    let mut native = connect(&server);
    let table = native.table("d", "a").unwrap();
    assert_eq!(
        native.subscribe(&table.subscribe()).unwrap_err().code(),
        Some(1381)
    );
}

/// The numbers that rows of a transaction have.
fn numbers(transaction: &ChangedTransaction) -> Vec<i64> {
    let rows = transaction.changes.iter().map(|change| match change {
        Change::Insert(row) => match row.get("id") {
            Some(Value::Int(id)) => *id,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    });
    rows.collect()
}

/// A server whose listener stays at its address.
fn log_at(listen: &str) -> PorpoiseBuilder {
    Porpoise::builder()
        .arg("--native-listen", listen)
        .flag("--log-bin")
}

#[test]
fn transactions_come_once_and_whole_through_kill_9_and_restart() {
    let mut server = log_at("127.0.0.1:0").start();
    let listen = address(&server).to_string();
    server.reconfigure(|_| log_at(&listen));
    sql(
        &server,
        "create database d; create table d.t (id int primary key)",
    );
    let table = connect(&server).table("d", "t").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let target = target(&server, "root", "");
    let mut sync = Subscription::open(&target, table.subscribe()).unwrap();
    let opened = AsyncSubscription::open(&target, table.subscribe());
    let mut asynchronous = runtime.block_on(opened).unwrap();
    let (mut written, mut received, mut held) = (0, 0, None);
    for _ in 0..3 {
        for _ in 0..5 {
            let ids = (2 * written, 2 * written + 1);
            sql(
                &server,
                &format!("insert into d.t values ({}), ({})", ids.0, ids.1),
            );
            written += 1;
        }
        // Some are received before the crash, the rest over connections that are opened after it.
        for n in 0..5 {
            if n == 3 {
                server.kill9();
                // Without a server there may be a transaction in hand, but no error of the server.
                let late = sync.next(Duration::ZERO);
                assert!(!matches!(late, Err(Error::Server(_))), "{late:?}");
                held = late.ok().flatten();
                server.restart();
            }
            let pair = [2 * received, 2 * received + 1];
            let next = held
                .take()
                .unwrap_or_else(|| sync.next(WAIT).unwrap().unwrap());
            assert_eq!(numbers(&next), pair);
            let next = runtime.block_on(asynchronous.next(WAIT)).unwrap().unwrap();
            assert_eq!(numbers(&next), pair);
            received += 1;
        }
    }
    // Another process continues at the position that this one keeps.
    sql(&server, "insert into d.t values (1000)");
    let position = sync.position().to_owned();
    let request = table.subscribe().position(&position);
    let mut again = Subscription::open(&target, request).unwrap();
    assert_eq!(numbers(&again.next(WAIT).unwrap().unwrap()), [1000]);
}

#[test]
fn a_subscriber_that_does_not_ask_costs_the_server_no_memory() {
    let server = with_log();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v longtext); insert into d.t values (1, '')",
    );
    // 64 MiB of images of one row.
    let load = || {
        for n in 0..32 {
            let value = n % 10;
            sql(
                &server,
                &format!("update d.t set v = repeat('{value}', 1000000)"),
            );
        }
    };
    // What the load needs by itself.
    load();
    let table = connect(&server).table("d", "t").unwrap();
    let mut slow = Subscription::open(&target(&server, "root", ""), table.subscribe()).unwrap();
    let before = resident(&server);
    load();
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB");
    // The subscriber gets all of it afterwards.
    for n in 0..32 {
        let transaction = slow.next(WAIT).unwrap().unwrap();
        let Change::Update { after, .. } = &transaction.changes[0] else {
            panic!("{transaction:?}");
        };
        let Some(Value::Bytes(value)) = after.get("v") else {
            panic!("{after:?}");
        };
        let digit = b'0' + n % 10;
        assert!(value.len() == 1_000_000 && value.iter().all(|byte| *byte == digit));
    }
}

/// Resident memory of a server in KiB.
fn resident(server: &Porpoise) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_server_has_at_most_64_subscriptions() {
    let server = with_log();
    sql(
        &server,
        "create database d; create table d.t (id int primary key)",
    );
    let table = connect(&server).table("d", "t").unwrap();
    let subscribe = || {
        let mut native = connect(&server);
        native.subscribe(&table.subscribe()).map(|_| native)
    };
    let mut open: Vec<_> = (0..64).map(|_| subscribe().unwrap()).collect();
    assert_eq!(subscribe().unwrap_err().code(), Some(1040));
    // A connection that subscribes again has one, and one that ends has none.
    open[0].subscribe(&table.subscribe()).unwrap();
    open.pop();
    let mut again = (0..600).filter_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        subscribe().ok()
    });
    assert!(again.next().is_some());
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

#[test]
fn subscriptions_use_tls_and_wide_rows_arrive() {
    let server = builder()
        .flag("--log-bin")
        .arg("--native-tls", "required")
        .start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v longtext)",
    );
    let plain = target(&server, "root", "");
    let mut secure = plain.clone();
    secure.tls.mode = TlsMode::Required;
    let mut native = porpoise_native_client::Connection::connect(&secure).unwrap();
    let request = native.table("d", "t").unwrap().subscribe();
    let refused = Subscription::open(&plain, request.clone()).unwrap_err();
    assert_eq!(refused.code(), Some(3159));
    let runtime = runtime();
    let mut sync = Subscription::open(&secure, request.clone()).unwrap();
    let opened = AsyncSubscription::open(&secure, request);
    let mut asynchronous = runtime.block_on(opened).unwrap();
    // Longer than many records of TLS.
    sql(
        &server,
        "insert into d.t values (1, repeat('long', 500000)); insert into d.t values (2, 'short')",
    );
    for received in [
        [(); 2].map(|()| sync.next(WAIT).unwrap().unwrap()),
        [(); 2].map(|()| runtime.block_on(asynchronous.next(WAIT)).unwrap().unwrap()),
    ] {
        let wanted = [
            format!("+1 {}", "long".repeat(500_000)),
            "+2 short".to_owned(),
        ];
        assert!(received.iter().map(changes).eq(wanted.map(|w| vec![w])));
    }
}

#[test]
fn kill_ends_a_subscription_with_an_error() {
    let server = with_log();
    sql(
        &server,
        "create database d; create table d.t (id int primary key)",
    );
    let target = target(&server, "root", "");
    let request = connect(&server).table("d", "t").unwrap().subscribe();
    let runtime = runtime();
    // The number of an interrupted request, or that of a session that was killed.
    let killed = |next: Result<Option<ChangedTransaction>, Error>| {
        let code = next.unwrap_err().code();
        assert!(matches!(code, Some(1317 | 3169)), "{code:?}");
    };
    for kill in ["kill", "kill query"] {
        let mut sync = Subscription::open(&target, request.clone()).unwrap();
        let opened = AsyncSubscription::open(&target, request.clone());
        let mut asynchronous = runtime.block_on(opened).unwrap();
        for id in [sync.id(), asynchronous.id()] {
            let server = &server;
            std::thread::scope(|scope| {
                // While changes are awaited, since KILL QUERY of an idle connection has no effect.
                scope.spawn(move || {
                    let shown = format!(
                        "select count(*) from information_schema.processlist where id = {id} and info like 'SUBSCRIBE%'"
                    );
                    server.wait_for("a waiting subscription", WAIT, || {
                        (sql(server, &shown) == "1").then_some(())
                    });
                    sql(server, &format!("{kill} {id}"));
                });
                if id == sync.id() {
                    killed(sync.next(WAIT));
                } else {
                    killed(runtime.block_on(asynchronous.next(WAIT)));
                }
            });
        }
        // It does not come back by itself, and misses changes silently.
        sql(&server, "replace into d.t values (1)");
        killed(sync.next(WAIT));
        killed(runtime.block_on(asynchronous.next(WAIT)));
    }
    // A connection that is idle when it is killed.
    let mut idle = Subscription::open(&target, request).unwrap();
    sql(&server, &format!("kill {}", idle.id()));
    killed(idle.next(WAIT));
}

#[test]
fn a_server_that_vanished_is_noticed_and_nothing_is_lost() {
    let mut server = with_log();
    sql(
        &server,
        "create database d; create table d.t (id int primary key)",
    );
    let mut target = target(&server, "root", "");
    let request = connect(&server).table("d", "t").unwrap().subscribe();
    target.connect_timeout = Duration::from_millis(300);
    target.read_timeout = Some(Duration::from_millis(300));
    let runtime = runtime();
    let mut sync = Subscription::open(&target, request.clone()).unwrap();
    let opened = AsyncSubscription::open(&target, request);
    let mut asynchronous = runtime.block_on(opened).unwrap();
    let connection = runtime.block_on(AsyncConnection::connect(&target)).unwrap();
    let read = runtime.block_on(connection.table("d", "t")).unwrap();
    let read = read.read().columns(&["id"]).build().unwrap();
    sql(&server, "insert into d.t values (1)");
    server.pause();
    let gone = |error: &Error| matches!(error, Error::Broken(_) | Error::Connect(_));
    let wait = Duration::from_millis(700);
    let some = |next: Result<Option<ChangedTransaction>, Error>| match next {
        // The server may have sent it before it stopped.
        Ok(found) => found.map(|found| numbers(&found)),
        Err(error) => {
            assert!(gone(&error), "{error}");
            None
        }
    };
    let mut first = some(sync.next(wait));
    let mut second = some(runtime.block_on(asynchronous.next(wait)));
    if first.is_some() {
        assert!(gone(&sync.next(wait).unwrap_err()));
    }
    if second.is_some() {
        assert!(gone(
            &runtime.block_on(asynchronous.next(wait)).unwrap_err()
        ));
    }
    let mut batch = Batch::new();
    batch.push(&read, &[int(1)]).unwrap();
    let late = runtime.block_on(connection.run(batch)).unwrap_err();
    assert!(gone(&late) && connection.is_closed(), "{late}");
    server.resume();
    sql(&server, "insert into d.t values (2)");
    // On a slow machine an answer may be late once more.
    let mut received = [Vec::new(), Vec::new()];
    received[0].extend(first.take().into_iter().flatten());
    received[1].extend(second.take().into_iter().flatten());
    server.wait_for("both transactions", WAIT, || {
        received[0].extend(some(sync.next(wait)).into_iter().flatten());
        let next = runtime.block_on(asynchronous.next(wait));
        received[1].extend(some(next).into_iter().flatten());
        received.iter().all(|ids| ids.len() >= 2).then_some(())
    });
    assert_eq!(received, [[1, 2], [1, 2]]);
}
