//! kill -9 between batches: what was answered is there, each atomic batch whole.

use super::support::*;
use porpoise_native_client::{Error, ValueRef};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

#[test]
fn acknowledged_batches_survive_kill_9_whole() {
    let mut server = builder().start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, pair int)",
    );
    let target = target(&server, "root", "");
    let (acknowledged, ended) = (AtomicI64::new(-1), AtomicBool::new(false));
    let mut last = None;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut native = porpoise_native_client::Connection::connect(&target).unwrap();
            let table = native.table("d", "t").unwrap();
            let insert = table.insert().columns(&["id", "pair"]).build().unwrap();
            for n in 0.. {
                let rows = [[int(2 * n), int(n)], [int(2 * n + 1), int(n)]];
                let rows: Vec<&[ValueRef<'_>]> = rows.iter().map(|row| row.as_slice()).collect();
                match native.run(&atomic(&insert, &rows)) {
                    Ok(reply) => assert_eq!(shown(&reply), ["written", "written"]),
                    Err(error) => {
                        ended.store(true, Ordering::Relaxed);
                        return error;
                    }
                }
                acknowledged.store(n, Ordering::Relaxed);
            }
            unreachable!()
        });
        while acknowledged.load(Ordering::Relaxed) < 50 && !ended.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill9();
        last = Some(writer.join().unwrap());
    });
    // The request in flight was a write.
    assert!(matches!(last, Some(Error::UnknownOutcome(_))), "{last:?}");
    server.restart();
    let acknowledged = acknowledged.load(Ordering::Relaxed);
    assert!(acknowledged >= 50);
    let (count, halves) = (
        "select count(*) from d.t where pair <= ",
        "select count(*) from (select pair from d.t group by pair having count(*) <> 2) h",
    );
    assert_eq!(
        sql(&server, &format!("{count}{acknowledged}")),
        (2 * (acknowledged + 1)).to_string()
    );
    assert_eq!(sql(&server, halves), "0");
}
