//! Fairness: long computations do not delay other clients of either protocol.

use crate::support::{Cache, Sql};
use crate::{session, start};
use porpoise_testkit::wait_until;
use std::time::{Duration, Instant};

/// Tells a stall of seconds from a slow machine.
const PROMPT: Duration = Duration::from_secs(10);

/// Some billion rows to join.
const BURN: &str = "SELECT SUM(a.a + b.a * c.a - d.a) FROM big a, big b, big c, big d";

#[test]
fn statements_that_compute_delay_neither_logins_nor_gets_nor_kill() {
    let (server, mut sql) = start();
    sql.run("USE h; CREATE TABLE big (id INT PRIMARY KEY, a INT NOT NULL)");
    let rows: Vec<_> = (0..300).map(|n| format!("({n}, {n})")).collect();
    sql.run(&format!("INSERT INTO big VALUES {}", rows.join(", ")));
    // As many as there are worker groups, and one more.
    let count = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let mut burning: Vec<Sql> = (0..count).map(|_| session(&server)).collect();
    let ids: Vec<i64> = burning
        .iter_mut()
        .map(|s| s.number("SELECT CONNECTION_ID()"))
        .collect();
    std::thread::scope(|scope| {
        let ends: Vec<_> = burning
            .iter_mut()
            .map(|s| scope.spawn(|| s.refused(BURN).code))
            .collect();
        let computing = || server.http("/metrics").1;
        let expected = format!("porpoise_sessions_computing {count}");
        let all = wait_until(Duration::from_secs(20), || {
            computing().lines().any(|l| l == expected).then_some(())
        });
        assert!(all.is_some(), "{}", computing());
        let begin = Instant::now();
        for _ in 0..20 {
            let mut fresh = session(&server);
            assert_eq!(fresh.number("SELECT a FROM t WHERE id = 1"), 0);
            let mut cache = Cache::connect(server.memcached_addr);
            assert_eq!(cache.get("t:1").as_deref(), Some("0"));
        }
        assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
        for id in ids {
            sql.run(&format!("KILL QUERY {id}"));
        }
        for end in ends {
            assert_eq!(end.join().unwrap(), 1317);
        }
        assert!(begin.elapsed() < PROMPT * 2, "{:?}", begin.elapsed());
    });
}
