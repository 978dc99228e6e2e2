//! SQL and memcached writing the same rows at the same time: nothing is lost,
//! and the constraints hold.

use crate::with_sql::sql;
use porpoise_testkit::{Porpoise, exchange};

const STEPS: usize = 60;

fn start() -> Porpoise {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    sql(
        &server,
        "CREATE DATABASE test;
         CREATE TABLE test.author (id int primary key, name varchar(20), books bigint unsigned not null default 0);
         CREATE TABLE test.book (id int primary key, title varchar(20), author int,
             FOREIGN KEY (author) REFERENCES test.author (id));
         INSERT INTO test.author (id, name) VALUES (1, 'a'), (2, 'b');
         INSERT INTO ndbmemcache.containers SET name = 'author', db_schema = 'test',
             db_table = 'author', key_columns = 'id', value_columns = 'name',
             increment_column = 'books';
         INSERT INTO ndbmemcache.containers SET name = 'book', db_schema = 'test',
             db_table = 'book', key_columns = 'id', value_columns = 'title,author';
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'a:', 0, 'ndb-only', 'author'),
             (0, 'b:', 0, 'ndb-only', 'book');",
    );
    server
}

fn pipeline(server: &Porpoise, request: &str) -> String {
    String::from_utf8(exchange(server.memcached_addr, request.as_bytes())).unwrap()
}

#[test]
fn concurrent_increments_by_sql_and_all_memcached_dialects_lose_no_count() {
    let server = start();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..STEPS {
                sql(
                    &server,
                    "UPDATE test.author SET books = books + 1 WHERE id = 1",
                );
            }
        });
        scope.spawn(|| {
            let answer = pipeline(&server, &"incr a:1 1\r\n".repeat(STEPS));
            assert!(!answer.contains("ERROR"), "{answer}");
        });
        scope.spawn(|| {
            let answer = pipeline(&server, &"ma a:1 D1\r\n".repeat(STEPS));
            assert_eq!(answer, "HD\r\n".repeat(STEPS));
        });
        scope.spawn(|| {
            let mut one = vec![0x80, 5, 0, 3, 20, 0, 0, 0, 0, 0, 0, 23];
            one.extend([0; 12]);
            one.extend(1u64.to_be_bytes());
            one.extend(0u64.to_be_bytes());
            one.extend([0xff; 4]);
            one.extend(b"a:1");
            let answer = exchange(server.memcached_addr, &one.repeat(STEPS));
            assert_eq!(answer.len(), STEPS * 32);
        });
    });
    let books = sql(&server, "SELECT books FROM test.author WHERE id = 1");
    assert_eq!(books.trim(), (4 * STEPS).to_string());
}

#[test]
fn children_never_outlive_their_parents() {
    let server = start();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..STEPS {
                // Either may be refused; what must not be is a child alone.
                let _ = server.sql("DELETE FROM test.author WHERE id = 2");
                let _ = server.sql("INSERT IGNORE INTO test.author (id, name) VALUES (2, 'b')");
                let _ = server.sql(&format!("DELETE FROM test.book WHERE id = {n}"));
            }
        });
        scope.spawn(|| {
            for n in 0..STEPS {
                pipeline(&server, &format!("set b:{n} 0 0 3\r\nt\t2\r\n"));
            }
        });
        scope.spawn(|| {
            for n in 0..STEPS {
                pipeline(
                    &server,
                    &format!("ms b:{} 3\r\nm\t2\r\nmd a:2\r\n", n + 1000),
                );
            }
        });
    });
    let orphans = sql(
        &server,
        "SELECT COUNT(*) FROM test.book LEFT JOIN test.author ON book.author = author.id
         WHERE book.author IS NOT NULL AND author.id IS NULL",
    );
    assert_eq!(orphans, "0\n");
}
