//! Statements that exceed their memory write temporary files: results are those of statements
//! that fit into memory, and no file is left.

use crate::metric;
use crate::support::{Failure, Sql, server};
use porpoise_testkit::{Porpoise, PorpoiseBuilder, wait_until};
use std::time::{Duration, Instant};

/// Rows of `d.t`.
const ROWS: u32 = 12_000;

fn started(builder: PorpoiseBuilder) -> (Porpoise, Sql) {
    let server = builder.start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run(&format!(
        "CREATE DATABASE d; USE d; SET cte_max_recursion_depth = 1000000; \
         CREATE TABLE t (id INT PRIMARY KEY, small INT, big BIGINT UNSIGNED, exact DECIMAL(20,4), \
         approx DOUBLE, words VARCHAR(300), general VARCHAR(100) COLLATE utf8mb4_general_ci, \
         bytes VARBINARY(40), day DATE, moment DATETIME(6), span TIME(3), doc JSON, \
         kind ENUM('low', 'mid', 'high'), other INT, KEY (small)); \
         INSERT INTO t WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < \
         {ROWS}), r AS (SELECT n, CRC32(n) AS h, CRC32(n * 7) AS g FROM c) \
         SELECT n, IF(h % 11 = 0, NULL, CAST(h % 500 AS SIGNED) - 250), h * 1000003, \
         IF(g % 13 = 0, NULL, h / 10000 - 200000), h / 7 - g, \
         CONCAT(REPEAT(CHAR(97 + g % 26), 1 + h % 5), IF(g % 2, 'Ä', 'a'), REPEAT('x', 40 + h % 60), g % 3000), \
         CONCAT(IF(h % 2, 'B', 'b'), g % 1000), UNHEX(SHA1(h % 4000)), \
         DATE '1990-01-01' + INTERVAL h % 9000 DAY, \
         TIMESTAMP('2001-01-01') + INTERVAL g MICROSECOND, SEC_TO_TIME(h % 3000000 / 10 - 150000), \
         JSON_ARRAY(g % 50, IF(g % 3, 'x', NULL)), ELT(1 + h % 3, 'low', 'mid', 'high'), g % {ROWS} FROM r"
    ));
    (server, sql)
}

fn start() -> (Porpoise, Sql) {
    started(server())
}

fn assert_released(server: &Porpoise, after: &str) {
    let held = metric(server, "porpoise_client_memory_statement_bytes");
    assert_eq!(held, 0, "memory held after {after}");
    let left = metric(server, "porpoise_temporary_file_bytes");
    assert_eq!(left, 0, "temporary files left after {after}");
}

fn limit(sql: &mut Sql, mebibytes: u32) {
    sql.run(&format!(
        "SET statement_memory_limit = {}",
        mebibytes * 1024 * 1024
    ));
}

/// Whether a statement determines the order of its rows: its last ORDER BY or LIMIT is outside of
/// parentheses.
fn is_ordered(statement: &str) -> bool {
    let last = statement
        .rfind(" ORDER BY ")
        .max(statement.rfind(" LIMIT "));
    last.is_some_and(|at| {
        let rest = &statement[at..];
        rest.matches('(').count() == rest.matches(')').count()
    })
}

/// The rows of a statement; sorted unless it determines their order.
fn rows_of(sql: &mut Sql, statement: &str) -> Vec<Vec<String>> {
    let mut rows = sql.rows(statement);
    if !is_ordered(statement) {
        rows.sort_unstable();
    }
    rows
}

/// Asserts that a statement spills at 1 MiB and answers as it does in memory.
fn assert_spills(server: &Porpoise, sql: &mut Sql, statement: &str) {
    limit(sql, 1024);
    let before = metric(server, "porpoise_temporary_files_total");
    let expected = rows_of(sql, statement);
    let between = metric(server, "porpoise_temporary_files_total");
    assert_eq!(between, before, "spilled without need: {statement}");
    limit(sql, 1);
    let found = rows_of(sql, statement);
    assert_eq!(found.len(), expected.len(), "{statement}");
    let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
    if let Some(at) = differs {
        panic!(
            "{statement}: row {at}: {:?}, in memory {:?}",
            found[at], expected[at]
        );
    }
    assert!(!found.is_empty(), "{statement}");
    let after = metric(server, "porpoise_temporary_files_total");
    assert!(after > between, "not spilled: {statement}");
    assert_released(server, statement);
}

#[test]
fn sorts_of_all_types_spill() {
    let (server, mut sql) = start();
    for key in [
        "small % 100",
        "big",
        "exact",
        "approx",
        "words",
        "general",
        "bytes",
        "day",
        "moment",
        "span",
        "doc",
        "kind",
    ] {
        for order in [key.to_owned(), format!("{key} DESC, other")] {
            let statement = format!("SELECT id, words, doc, exact FROM t ORDER BY {order}");
            assert_spills(&server, &mut sql, &statement);
        }
    }
    for statement in [
        "SELECT * FROM t ORDER BY small DESC, general, id DESC",
        "SELECT id, words FROM t ORDER BY words LIMIT 18446744073709551615 OFFSET 11000",
        "SELECT id, words FROM t ORDER BY words LIMIT 7000, 100",
        "SELECT SQL_CALC_FOUND_ROWS id, words FROM t ORDER BY words LIMIT 5",
        "SELECT id, (SELECT MAX(id) FROM t) AS m, words FROM t WHERE small > -200 ORDER BY span, m",
        "SELECT a.id, b.words FROM t a JOIN t b ON b.id = a.other ORDER BY b.words, a.id DESC",
        "SELECT id, words FROM t ORDER BY small + 0.5, 1 FOR UPDATE",
    ] {
        assert_spills(&server, &mut sql, statement);
    }
    assert_eq!(sql.number("SELECT FOUND_ROWS()") as u32, ROWS);
    let merges = sql.rows("SHOW STATUS LIKE 'Sort_merge_passes'");
    assert!(merges[0][1].parse::<u64>().unwrap() > 30, "{merges:?}");
}

#[test]
fn distinct_rows_spill() {
    let (server, mut sql) = start();
    for statement in [
        "SELECT DISTINCT words FROM t",
        "SELECT DISTINCT id, other FROM t",
        "SELECT DISTINCT general, day FROM t LIMIT 11000",
        "SELECT DISTINCT words, exact FROM t ORDER BY words DESC",
        "SELECT DISTINCT words, small FROM t ORDER BY small, words LIMIT 5000, 2000",
        "SELECT DISTINCT general, bytes FROM t ORDER BY bytes",
    ] {
        assert_spills(&server, &mut sql, statement);
    }
}

#[test]
fn groups_spill() {
    let (server, mut sql) = start();
    sql.run("SET group_concat_max_len = 100000, sql_mode = ''");
    for statement in [
        "SELECT other, COUNT(*), COUNT(small), SUM(exact), AVG(approx), SUM(approx), MIN(words), \
         MAX(general), STDDEV(approx), VAR_SAMP(small), BIT_XOR(big), BIT_AND(big), BIT_OR(other), \
         MIN(span), MAX(moment), AVG(small), MAX(doc), ANY_VALUE(id) FROM t GROUP BY other",
        "SELECT words, COUNT(*), SUM(approx), AVG(exact), id, doc FROM t GROUP BY words",
        "SELECT id, words, SUM(approx) FROM t GROUP BY id",
        "SELECT bytes, small, COUNT(DISTINCT day), GROUP_CONCAT(id ORDER BY words DESC SEPARATOR '-'), \
         JSON_ARRAYAGG(small), JSON_OBJECTAGG(id, doc), SUM(exact) FROM t GROUP BY bytes, small",
        "SELECT small % 7 AS s, COUNT(DISTINCT words), SUM(DISTINCT exact), AVG(approx), \
         LENGTH(GROUP_CONCAT(words)), COUNT(DISTINCT other) FROM t GROUP BY s",
        "SELECT small, COUNT(DISTINCT words, exact), MIN(id), GROUP_CONCAT(DISTINCT kind) FROM t GROUP BY small",
        "SELECT kind, JSON_ARRAYAGG(words), BIT_XOR(big), SUM(DISTINCT small) FROM t GROUP BY kind",
        "SELECT words, COUNT(*) AS n FROM t GROUP BY words HAVING n > 0 AND MIN(id) > 50 ORDER BY n DESC, words",
        "SELECT words, MIN(id) FROM t GROUP BY words LIMIT 9000, 10",
        "SELECT DISTINCT COUNT(*), MAX(words) FROM t GROUP BY other",
        "SELECT a.words, COUNT(*), SUM(b.exact), SUM(b.approx) FROM t a LEFT JOIN t b ON b.small = a.small \
         AND b.kind = 'low' GROUP BY a.words",
        "SELECT COUNT(*), SUM(n) FROM (SELECT COUNT(*) AS n FROM t GROUP BY words) g",
        "SELECT exact, (SELECT COUNT(*) FROM t b WHERE b.small = 7) + COUNT(*) FROM t GROUP BY exact",
    ] {
        assert_spills(&server, &mut sql, statement);
    }
}

#[test]
fn windows_spill() {
    let (server, mut sql) = start();
    for statement in [
        "SELECT id, ROW_NUMBER() OVER (ORDER BY words, id) FROM t",
        "SELECT id, SUM(small) OVER (), words FROM t",
        "SELECT id, COUNT(*) OVER (ORDER BY id), FIRST_VALUE(words) OVER (ORDER BY id), LAG(words, 100) OVER (ORDER BY id), \
         LEAD(words, 3000, 'none') OVER (ORDER BY id), NTH_VALUE(exact, 500) OVER (ORDER BY id) FROM t",
        "SELECT id, SUM(exact) OVER (ORDER BY id ROWS BETWEEN 70 PRECEDING AND 5 FOLLOWING), MAX(words) OVER (ORDER BY id ROWS 20 PRECEDING), \
         SUM(approx) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) FROM t",
        "SELECT id, COUNT(*) OVER (ORDER BY id RANGE BETWEEN 100 PRECEDING AND 100 FOLLOWING), LAST_VALUE(words) OVER (ORDER BY id DESC RANGE \
         BETWEEN 5 FOLLOWING AND 9 FOLLOWING), MIN(general) OVER (ORDER BY small) FROM t",
        "SELECT id, RANK() OVER (PARTITION BY kind ORDER BY words), NTILE(7) OVER (PARTITION BY kind ORDER BY id), CUME_DIST() OVER (PARTITION BY kind \
         ORDER BY day, id) FROM t ORDER BY id",
        "SELECT other, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY other), DENSE_RANK() OVER (ORDER BY MIN(words)) FROM t GROUP BY other",
        // The rows of these derived tables go on as they are computed.
        "SELECT COUNT(*), SUM(r), MAX(w) FROM (SELECT RANK() OVER (PARTITION BY kind ORDER BY words) AS r, words AS w FROM t) x",
        "SELECT w, MAX(r) FROM (SELECT SUM(exact) OVER (ORDER BY words, id) AS r, words AS w FROM t) x GROUP BY w ORDER BY w",
        "SELECT w, r FROM (SELECT SUM(small) OVER () AS r, words AS w FROM t) x ORDER BY w, r",
    ] {
        assert_spills(&server, &mut sql, statement);
    }
}

#[test]
fn top_n_per_group_continues_when_memory_is_used_up() {
    let (server, mut sql) = start();
    for (function, keys, limit) in [
        // Partitions are small: all rows are passed on.
        ("ROW_NUMBER()", "PARTITION BY words ORDER BY id", 2),
        ("DENSE_RANK()", "PARTITION BY id, doc ORDER BY words", 1),
        // Most rows are dropped, and the rest exceeds the memory several times.
        ("ROW_NUMBER()", "PARTITION BY small ORDER BY words DESC", 9),
        ("RANK()", "PARTITION BY small, kind ORDER BY exact", 3),
        ("ROW_NUMBER()", "ORDER BY words, id", 5000),
    ] {
        let statement = format!(
            "SELECT * FROM (SELECT id, words, general, bytes, {function} OVER ({keys}) AS n FROM t) d \
             WHERE n <= {limit}"
        );
        assert_spills(&server, &mut sql, &statement);
    }
}

#[test]
fn joins_spill() {
    let (server, mut sql) = start();
    for statement in [
        "SELECT a.id, b.id, b.words FROM t a JOIN t b ON b.other = a.other WHERE a.id < 3000",
        "SELECT a.id, b.id FROM t a LEFT JOIN t b ON b.words = a.words AND b.id <> a.id ORDER BY 1, 2",
        "SELECT a.id, b.id, b.day FROM t a LEFT JOIN t b ON b.other = a.id AND b.kind = a.kind",
        "SELECT a.id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.other = a.id AND b.words > a.words)",
        "SELECT a.id FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.other = a.id)",
        "SELECT a.id, b.words, c.exact FROM t a JOIN t b ON b.other = a.id JOIN t c ON c.exact = b.exact",
        "SELECT a.id, b.id, c.id FROM t a LEFT JOIN (t b JOIN t c ON c.words = b.words) ON b.other = a.id",
        "SELECT a.id, b.id FROM t a JOIN t b ON b.moment = a.moment AND b.bytes = a.bytes WHERE a.id < 20000",
        "SELECT a.id, b.id, b.general FROM t a JOIN t b ON b.id + b.other = a.other + 1",
        "SELECT a.id FROM t a WHERE a.id < 300 AND NOT EXISTS (SELECT 1 FROM t b WHERE b.words > a.words AND b.exact > a.exact)",
        "SELECT a.doc, b.id, b.words FROM t a JOIN t b ON b.doc = a.doc AND b.words = a.words",
        "SELECT a.id, COUNT(*) AS n, SUM(b.approx) FROM t a JOIN t b ON b.general = a.general GROUP BY a.id ORDER BY n, a.id",
    ] {
        assert_spills(&server, &mut sql, statement);
    }
}

/// Asserts that a statement joins partitions at 1 MiB and answers as it does in memory.
fn assert_joins_partitions(server: &Porpoise, sql: &mut Sql, statement: &str) {
    assert_spills(server, sql, statement);
    let plan = &sql.rows(&format!("EXPLAIN ANALYZE {statement}"))[0][0];
    // 32 partitions of each side; an input that is indexed has one part.
    assert!(
        plan.contains("(spilled parts=64 bytes="),
        "{statement}: {plan}"
    );
}

#[test]
fn joins_whose_consumer_needs_no_order_are_partitioned() {
    let (server, mut sql) = start();
    for statement in [
        "SELECT COUNT(*), SUM(a.id), SUM(b.other), MAX(b.words) FROM t a JOIN t b ON b.other = a.other",
        "SELECT a.id, b.id, b.words, a.doc FROM t a JOIN t b ON b.other = a.other ORDER BY a.id, b.id",
        "SELECT a.id, b.id, b.words, a.doc FROM t a JOIN t b ON b.other = a.other",
        // NULL equals nothing; rows without a match stay.
        "SELECT COUNT(*), COUNT(b.id), SUM(a.id), SUM(b.id) FROM t a LEFT JOIN t b ON b.exact = a.exact AND b.kind <> 'low'",
        "SELECT a.id, b.id FROM t a LEFT JOIN t b ON b.other = a.id AND b.words > a.words ORDER BY 1, 2",
        "SELECT COUNT(*), SUM(a.id) FROM t a LEFT JOIN t b ON b.other = a.id WHERE b.id IS NULL",
        "SELECT COUNT(*), SUM(a.id) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.other = a.id AND b.words > a.words)",
        "SELECT COUNT(*), SUM(a.id) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.other = a.id AND b.exact > a.exact)",
        "SELECT a.kind, COUNT(*), MIN(a.id), MAX(b.day) FROM t a JOIN t b ON b.exact = a.exact GROUP BY a.kind ORDER BY 1",
        // One partitioned join above another, and one below a join with an index.
        "SELECT COUNT(*), SUM(a.id), SUM(b.id), SUM(c.id) FROM t a JOIN t b ON b.other = a.other JOIN t c ON c.exact = b.exact",
        "SELECT COUNT(*), SUM(a.id), SUM(c.id) FROM t a LEFT JOIN t b ON b.words = a.words AND b.id <> a.id LEFT JOIN t c ON c.id = b.other",
        // Keys of text and of several types.
        "SELECT COUNT(*), SUM(a.id), SUM(b.id) FROM t a JOIN t b ON b.general = a.general AND b.kind = a.kind",
        "SELECT COUNT(*), SUM(a.id), SUM(b.id) FROM t a JOIN t b ON b.moment = a.moment AND b.bytes = a.bytes",
        // Rows of a derived table.
        "SELECT COUNT(*), SUM(a.id), MAX(x.words) FROM t a LEFT JOIN (SELECT words, doc, exact, other FROM t LIMIT 20000) x ON x.other = a.other",
    ] {
        assert_joins_partitions(&server, &mut sql, statement);
    }
}

#[test]
fn overflow_values_stay_with_rows_of_which_columns_are_written() {
    let (server, mut sql) = start();
    sql.run(
        "CREATE TABLE l (id INT PRIMARY KEY, a INT, b INT, c INT, d INT, e INT, k INT, kind ENUM('x', 'y'), moment TIMESTAMP(3), \
         large MEDIUMTEXT); SET time_zone = '+03:00'; \
         INSERT INTO l SELECT id, 1, 2, 3, 4, 5, other % 3000, IF(id % 3, 'x', NULL), \
         IF(id % 7, TIMESTAMP('2020-02-02') + INTERVAL id SECOND, NULL), REPEAT(words, IF(id % 100 = 0, 90, 1)) FROM t",
    );
    for statement in [
        "SELECT COUNT(*), SUM(LENGTH(l.large)), SUM(CRC32(m.large)), COUNT(m.kind), MIN(m.moment) FROM l JOIN l m ON m.k = l.k",
        "SELECT l.id, m.kind, m.moment, LEFT(m.large, 9), CHAR_LENGTH(m.large) FROM l LEFT JOIN l m ON m.k = l.id",
    ] {
        assert_joins_partitions(&server, &mut sql, statement);
    }
    assert_spills(
        &server,
        &mut sql,
        "SELECT l.id, m.kind, m.moment, MD5(m.large), m.large IS NULL FROM l LEFT JOIN l m ON m.k = l.id LIMIT 5000",
    );
}

#[test]
fn partitions_that_hashing_cannot_split_are_joined_in_chunks() {
    let (server, mut sql) = start();
    // Three keys for all rows; then one for most of them.
    for key in ["kind", "hot"] {
        if key == "hot" {
            sql.run("ALTER TABLE t ADD hot INT, ALGORITHM = COPY; UPDATE t SET hot = IF(id % 50 = 0, id, 7)");
        }
        for statement in [
            format!(
                "SELECT COUNT(*), SUM(a.id), SUM(b.id) FROM t a STRAIGHT_JOIN t b ON b.{key} = a.{key} WHERE a.id < 40"
            ),
            format!(
                "SELECT COUNT(*), COUNT(b.id), SUM(a.id), SUM(b.id) FROM t a LEFT JOIN t b ON b.{key} = a.{key} AND b.other > a.other + 11000 \
                 WHERE a.id < 70"
            ),
            format!(
                "SELECT COUNT(*), SUM(a.id) FROM t a WHERE a.id < 70 AND EXISTS (SELECT 1 FROM t b WHERE b.{key} = a.{key} \
                 AND b.other > a.other + 11000)"
            ),
            format!(
                "SELECT COUNT(*), SUM(a.id) FROM t a WHERE a.id < 70 AND NOT EXISTS (SELECT 1 FROM t b WHERE b.{key} = a.{key} \
                 AND b.other > a.other + 11000)"
            ),
        ] {
            assert_joins_partitions(&server, &mut sql, &statement);
        }
    }
}

#[test]
fn a_join_of_partitions_can_be_killed() {
    let (server, mut sql) = start();
    // 12,000 rows of three keys: 48 million pairs.
    let large = "SELECT COUNT(*), SUM(a.id), SUM(b.id) FROM t a JOIN t b ON b.kind = a.kind AND b.words <> CONCAT(a.words, 'x')";
    limit(&mut sql, 1);
    sql.run("SET max_execution_time = 500");
    assert_eq!(sql.refused(large).code, 3024);
    assert_released(&server, large);
}

/// Statements that are put together at random: joins, groups, windows, DISTINCT and sorts over keys of
/// all types.
fn random_statement(rng: &mut fastrand::Rng) -> String {
    let keys = [
        "small", "other", "big", "exact", "words", "general", "bytes", "day", "moment", "span",
        "kind",
    ];
    let key = |rng: &mut fastrand::Rng| keys[rng.usize(..keys.len())];
    let (k, l, m) = (key(rng), key(rng), key(rng));
    let at_most = rng.u32(2000..ROWS);
    match rng.u32(..9) {
        0 => format!(
            "SELECT a.id, b.id, b.words FROM t a JOIN t b ON b.other = a.other AND b.{k} = a.{k} \
                      WHERE a.id < {at_most}"
        ),
        1 => format!(
            "SELECT a.id, b.id, b.{l}, b.doc FROM t a LEFT JOIN t b ON b.other = a.id AND b.id <> {at_most}"
        ),
        2 => format!(
            "SELECT a.id, a.{k} FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.other = a.id \
                      AND b.{k} >= a.{k})"
        ),
        3 => format!(
            "SELECT a.id, b.{k}, c.id, c.{l} FROM t a JOIN t b ON b.other = a.id JOIN t c ON \
                      c.exact = b.exact WHERE a.id < {at_most}"
        ),
        4 => format!(
            "SELECT {k}, other, COUNT(*), MIN(id), SUM(exact), MAX({l}) FROM t GROUP BY {k}, other"
        ),
        5 => format!("SELECT DISTINCT {k}, other, {l} FROM t ORDER BY {l}, {k}, other"),
        6 => format!("SELECT id, {k}, words, {l} FROM t ORDER BY {m} DESC, {l}"),
        7 => format!(
            "SELECT id, words, RANK() OVER (PARTITION BY {k} ORDER BY {l}), COUNT(*) OVER (PARTITION BY \
                      {m} ORDER BY id ROWS 7 PRECEDING) FROM t"
        ),
        _ => format!(
            "SELECT a.id, x.chosen, x.n FROM t a JOIN (SELECT other, {k} AS chosen, COUNT(*) OVER (ORDER BY id) AS n, \
                      words, doc FROM t WHERE id < {at_most} LIMIT 100000) x ON x.other = a.id"
        ),
    }
}

#[test]
fn random_statements_answer_alike_with_little_memory() {
    let (server, mut sql) = start();
    let seed = std::env::var("PORPOISE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let mut rng = fastrand::Rng::with_seed(seed);
    let before = metric(&server, "porpoise_temporary_files_total");
    for _ in 0..30 {
        let statement = random_statement(&mut rng);
        limit(&mut sql, 1024);
        let expected = rows_of(&mut sql, &statement);
        // A sort is stable, unless joins or groups below it are partitioned.
        for mebibytes in [1, 3] {
            limit(&mut sql, mebibytes);
            let found = rows_of(&mut sql, &statement);
            assert!(
                found == expected,
                "PORPOISE_SEED={seed}: {statement}: {} rows, {} in memory",
                found.len(),
                expected.len()
            );
        }
        assert_released(&server, &statement);
    }
    let after = metric(&server, "porpoise_temporary_files_total");
    assert!(after > before + 20, "few statements were spilled");
}

#[test]
fn materialized_rows_spill() {
    let (server, mut sql) = start();
    for statement in [
        "SELECT COUNT(*), SUM(LENGTH(w)) FROM (SELECT DISTINCT words AS w, doc FROM t LIMIT 100000) x",
        "SELECT * FROM (SELECT id, words, exact, doc, moment, span, kind FROM t LIMIT 20000) x WHERE id > 7",
        "WITH c AS (SELECT id, words, other FROM t LIMIT 20000) \
         SELECT a.id, b.id, b.words FROM c a LEFT JOIN c b ON b.other = a.id",
        "SELECT a.id, x.words FROM t a JOIN (SELECT words, exact, small FROM t LIMIT 20000) x ON x.exact = a.exact",
        "SELECT words, id FROM t UNION ALL SELECT general, other FROM t",
        "SELECT words, small FROM t UNION SELECT CONCAT(words, 'y'), small FROM t",
        "SELECT words FROM t UNION SELECT words FROM t WHERE id < 7000 UNION ALL SELECT general FROM t WHERE id < 10",
        "(SELECT words, doc FROM t) UNION (SELECT bytes, doc FROM t) ORDER BY 1, 2 LIMIT 5000, 200",
    ] {
        assert_spills(&server, &mut sql, statement);
    }
}

#[test]
fn a_full_temporary_directory_fails_the_statement_alone() {
    let (server, mut sql) = started(server().arg("--tmp-dir-limit", "5M"));
    let large = "SELECT a.id, a.words, b.words FROM t a JOIN t b ON b.small = a.small \
                 WHERE a.id < 4000 ORDER BY a.words";
    limit(&mut sql, 1);
    assert_eq!(sql.refused(large).code, 1021);
    assert_released(&server, large);
    assert_eq!(
        sql.rows("SELECT id, words FROM t ORDER BY words").len() as u32,
        ROWS
    );
}

#[test]
fn what_cannot_spill_fails_with_1038() {
    let (server, mut sql) = start();
    limit(&mut sql, 1);
    sql.run("SET group_concat_max_len = 100000000");
    for statement in [
        "SELECT words, bytes, COUNT(*) FROM t GROUP BY words, bytes WITH ROLLUP",
        "SELECT words FROM t EXCEPT SELECT 'x'",
        "SELECT words FROM t INTERSECT SELECT words FROM t",
        "WITH RECURSIVE r (n, s) AS (SELECT 1, REPEAT('x', 200) UNION ALL SELECT n + 1, s FROM r \
         WHERE n < 12000) SELECT COUNT(*) FROM r",
        "SELECT COUNT(*) FROM t WHERE CONCAT(words, 'x') NOT IN (SELECT CONCAT(words, 'y') FROM t)",
        "SELECT COUNT(DISTINCT words) FROM t",
        "SELECT GROUP_CONCAT(words) FROM t",
        "SELECT JSON_ARRAYAGG(CONCAT(words, words)) FROM t",
        "SELECT COUNT(*) FROM t a JOIN t b ON b.words > CONCAT(a.words, 'x') WHERE a.id < 50",
    ] {
        assert_eq!(sql.refused(statement).code, 1038, "{statement}");
        assert_released(&server, statement);
    }
}

#[test]
fn a_killed_spilling_statement_leaves_no_temporary_files() {
    let (server, mut sql) = start();
    let large = "SELECT a.words, b.words FROM t a JOIN t b ON b.small = a.small \
                 JOIN t c ON c.small = a.small ORDER BY b.words, a.words DESC";
    limit(&mut sql, 1);
    sql.run("SET max_execution_time = 1500");
    let since = Instant::now();
    assert_eq!(sql.refused(large).code, 3024);
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "{:?}",
        since.elapsed()
    );
    assert_released(&server, large);
    sql.run("SET max_execution_time = 0");
    let id = sql.number("SELECT CONNECTION_ID()");
    let mut other = Sql::connect(server.mysql_addr);
    let killed = std::thread::scope(|scope| {
        let running = scope.spawn(|| sql.attempt(large));
        let spilling = wait_until(Duration::from_secs(20), || {
            (metric(&server, "porpoise_temporary_file_bytes") > 1_000_000).then_some(())
        });
        assert!(spilling.is_some(), "nothing is spilled");
        other.run(&format!("KILL QUERY {id}"));
        running.join().unwrap()
    });
    match killed {
        Err(Failure::Refused(error)) => assert_eq!(error.code, 1317),
        _ => panic!("not killed"),
    }
    assert_released(&server, large);
    // A client that goes away.
    assert!(sql.send(large));
    let spilling = wait_until(Duration::from_secs(20), || {
        (metric(&server, "porpoise_temporary_file_bytes") > 1_000_000).then_some(())
    });
    assert!(spilling.is_some(), "nothing is spilled");
    drop(sql);
    let released = wait_until(Duration::from_secs(20), || {
        (metric(&server, "porpoise_temporary_file_bytes") == 0).then_some(())
    });
    assert!(released.is_some(), "files of a closed connection are left");
}

#[test]
fn a_killed_server_leaves_no_file() {
    let (mut server, mut sql) = start();
    let path = sql.rows("SELECT @@tmpdir");
    let path = std::path::PathBuf::from(&path[0][0]);
    let names = || path.read_dir().unwrap().count();
    let large = "SELECT a.id, b.words FROM t a JOIN t b ON b.small = a.small ORDER BY b.words";
    limit(&mut sql, 1);
    assert!(sql.send(large));
    let spilling = wait_until(Duration::from_secs(20), || {
        (metric(&server, "porpoise_temporary_file_bytes") > 1_000_000).then_some(())
    });
    assert!(spilling.is_some(), "nothing is spilled");
    server.kill9();
    server.restart();
    assert_eq!(names(), 0);
    assert_released(&server, "a restart");
}

#[test]
fn explain_analyze_tells_what_was_spilled() {
    let (_server, mut sql) = start();
    let explain = "EXPLAIN ANALYZE SELECT words FROM t ORDER BY words";
    assert!(!sql.rows(explain)[0][0].contains("spilled"));
    limit(&mut sql, 1);
    let text = &sql.rows(explain)[0][0];
    assert!(
        text.contains("Sort: ") && text.contains("(spilled parts="),
        "{text}"
    );
}
