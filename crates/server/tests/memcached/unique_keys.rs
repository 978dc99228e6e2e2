//! Containers whose key columns are a unique key.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;

fn start() -> Porpoise {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "CREATE DATABASE t;
         CREATE TABLE t.u (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(10), b INT, v VARCHAR(20),
                           n INT DEFAULT 4, UNIQUE KEY ab (a, b));
         INSERT INTO t.u (a, b, v) VALUES ('x', 1, 'one'), ('x', 2, 'two'), (NULL, 1, 'none');
         ALTER TABLE t.u MEMCACHED PREFIX 'k:' KEY (b, a) VALUE (v) SEPARATOR '|'",
    );
    server
}

#[test]
fn a_unique_key_finds_creates_changes_and_deletes_rows() {
    let server = start();
    assert_eq!(
        server.memcached("get k:2|x k:3|x k:1|x k:1|\r\n"),
        "VALUE k:2|x 0 3\r\ntwo\r\nVALUE k:1|x 0 3\r\none\r\nEND\r\n"
    );
    assert_eq!(
        server.memcached(
            "set k:2|x 0 0 3\r\nTWO\r\nset k:9|new 0 0 1\r\n5\r\nincr k:9|new 3\r\n\
             add k:9|new 0 0 1\r\nx\r\nappend k:1|x 0 0 1\r\n!\r\ndelete k:2|x\r\ndelete k:2|x\r\n\
             get k:9|new k:1|x k:2|x\r\n"
        ),
        "STORED\r\nSTORED\r\n8\r\nNOT_STORED\r\nSTORED\r\nDELETED\r\nNOT_FOUND\r\n\
         VALUE k:9|new 0 1\r\n8\r\nVALUE k:1|x 0 4\r\none!\r\nEND\r\n"
    );
    // The number of the primary key comes from the table's counter.
    assert_eq!(
        sql(&server, "SELECT id, a, b, v, n FROM t.u ORDER BY id"),
        "1\tx\t1\tone!\t4\n3\tNULL\t1\tnone\t4\n4\tnew\t9\t8\t4\n"
    );
}

#[test]
fn writers_of_both_keys_lose_nothing() {
    let server = start();
    sql(
        &server,
        "ALTER TABLE t.u MEMCACHED PREFIX 'p:' VALUE (n); UPDATE t.u SET v = '0', n = 0",
    );
    let rounds = 200;
    std::thread::scope(|scope| {
        for key in ["k:1|x", "k:1|x", "p:1"] {
            let server = &server;
            scope.spawn(move || {
                let all = format!("incr {key} 1\r\n").repeat(rounds);
                let answers = server.memcached(&all);
                assert!(
                    answers.lines().all(|l| l.parse::<u64>().is_ok()),
                    "{answers}"
                );
            });
        }
        scope.spawn(|| {
            for _ in 0..40 {
                sql(&server, "UPDATE t.u SET v = v + 1 WHERE a = 'x' AND b = 1");
            }
        });
    });
    assert_eq!(
        sql(&server, "SELECT v + 0, n FROM t.u WHERE id = 1"),
        format!("{}\t{rounds}\n", 2 * rounds + 40)
    );
}
