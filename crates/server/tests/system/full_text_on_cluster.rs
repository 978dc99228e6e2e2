//! FULLTEXT indexes on a TiKV cluster (or its double): the answers are those of the embedded engine.

use porpoise_testkit::{Porpoise, Random, TikvCluster};
use std::fmt::Write as _;

const WORDS: &[&str] = &[
    "anchor", "buoy", "current", "dolphin", "estuary", "fathom", "gale", "harbour", "island",
    "jetty", "keel", "lagoon", "mast", "nautical", "ocean", "porpoise",
];

/// Up to 14 words.
fn text(random: &mut Random) -> String {
    let count = random.below(15);
    let words: Vec<&str> = (0..count).map(|_| *random.pick(WORDS)).collect();
    words.join(" ")
}

/// A statement that changes rows, or several in a transaction.
fn change(random: &mut Random) -> String {
    let id = random.below(60);
    let (title, body) = (text(random), text(random));
    match random.below(10) {
        0..4 => format!("REPLACE INTO t.d VALUES ({id}, '{title}', '{body}')"),
        4 => format!("UPDATE t.d SET body = '{body}' WHERE id = {id}"),
        5 => format!("UPDATE t.d SET title = LEFT(CONCAT(title, ' {title}'), 390) WHERE id > {id}"),
        6 => format!("DELETE FROM t.d WHERE id = {id}"),
        7 => format!(
            "BEGIN; DELETE FROM t.d WHERE id < {id};
             REPLACE INTO t.d VALUES ({id}, '{title}', '{body}'); ROLLBACK"
        ),
        8 => format!(
            "BEGIN; REPLACE INTO t.d VALUES ({id}, '{title}', '{body}'); SAVEPOINT s;
             DELETE FROM t.d; ROLLBACK TO s; COMMIT"
        ),
        _ => "OPTIMIZE TABLE t.d".to_owned(),
    }
}

/// A search, with its order.
fn search(random: &mut Random) -> String {
    let (one, two) = (*random.pick(WORDS), *random.pick(WORDS));
    let columns = *random.pick(&["title", "title, body"]);
    let query = match random.below(5) {
        0 => format!("'{one}'"),
        1 => format!("'{one} {two}'"),
        2 => format!("'+{one} -{two}' IN BOOLEAN MODE"),
        3 => format!("'\"{one} {two}\"' IN BOOLEAN MODE"),
        _ => format!("'{}*' IN BOOLEAN MODE", &one[..2]),
    };
    let matches = format!("MATCH ({columns}) AGAINST ({query})");
    format!("SELECT id, ROUND({matches}, 6) AS r FROM t.d WHERE {matches} ORDER BY r DESC, id")
}

#[test]
fn searches_on_a_cluster_have_the_answers_of_the_embedded_engine() {
    let store = TikvCluster::start();
    let cluster = Porpoise::builder().arg("--engine", store.engine()).start();
    let embedded = Porpoise::builder().arg("--durability", "memory").start();
    let both = |statements: &str| {
        let [on_cluster, on_embedded] = [&cluster, &embedded].map(|server| {
            let done = server.sql(statements);
            assert!(done.is_ok, "{statements}: {}", done.stderr);
            done.stdout
        });
        assert_eq!(on_cluster, on_embedded, "{statements}");
        on_cluster
    };
    both(
        "CREATE DATABASE t;
         CREATE TABLE t.d (id INT PRIMARY KEY, title VARCHAR(400), body TEXT,
             FULLTEXT (title), FULLTEXT (title, body))",
    );
    let mut random = Random(7);
    let mut found = 0;
    for _ in 0..6 {
        let mut changes = String::new();
        for _ in 0..12 {
            let _ = writeln!(changes, "{};", change(&mut random));
        }
        both(&changes);
        for _ in 0..6 {
            found += both(&search(&mut random)).lines().count();
        }
    }
    assert!(found > 40, "the searches found {found} rows only");
    both("ALTER TABLE t.d DROP INDEX title; ALTER TABLE t.d ADD FULLTEXT (title)");
    both(&search(&mut random));
    both("CHECK TABLE t.d EXTENDED");
}
