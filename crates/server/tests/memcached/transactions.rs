//! Transactions of meta commands, between `mn begin` and `mn`.

use crate::in_process::{InProcess, column, reference, required, varchar};
use porpoise_rows::catalog::FkAction;
use porpoise_testkit::{Porpoise, exchange};
use porpoise_types::{ColumnType, Kind};

#[test]
fn commands_of_a_meta_transaction_take_effect_together() {
    let server = InProcess::open();
    let answer = server.ask(
        "set stock 0 0 1\r\n5\r\nmn begin\r\nma stock MD v\r\nms order 3 k O7\r\nabc\r\n\
         mg order v\r\nmg none v\r\nmn\r\nget order stock\r\n",
    );
    assert_eq!(
        answer,
        "STORED\r\nMN B\r\nVA 1\r\n4\r\nHD korder O7\r\nVA 3\r\nabc\r\nEN\r\nMN C\r\n\
         VALUE order 0 3\r\nabc\r\nVALUE stock 0 1\r\n4\r\nEND\r\n"
    );
}

#[test]
fn a_failed_condition_undoes_the_meta_transaction() {
    let server = InProcess::open();
    server.ask("set a 0 0 1\r\n5\r\nset b 0 0 1\r\n5\r\n");
    for (failing, reply) in [
        ("ms a 1 ME\r\nx\r\n", "NS\r\n"),
        ("ms none 1 MR\r\nx\r\n", "NS\r\n"),
        ("md a C1000000000\r\n", "EX\r\n"),
        ("ma none\r\n", "NF\r\n"),
    ] {
        let request = format!("mn begin\r\nma a v\r\nmd b\r\n{failing}ma a v\r\nmn\r\nget a b\r\n");
        let kept = "VALUE a 0 1\r\n5\r\nVALUE b 0 1\r\n5\r\nEND\r\n";
        assert_eq!(
            server.ask(&request),
            format!("MN B\r\nVA 1\r\n6\r\nHD\r\n{reply}MN R\r\n{kept}")
        );
    }
}

#[test]
fn a_refusal_of_the_rows_undoes_all() {
    let server = InProcess::open();
    let id = || required("id", ColumnType::int(Kind::Int));
    server.create(
        "parent",
        vec![id(), column("v", varchar(9))],
        &["id"],
        vec![],
    );
    let columns = vec![
        id(),
        column("v", varchar(9)),
        column("p", ColumnType::int(Kind::Int)),
    ];
    server.create(
        "c",
        columns,
        &["id"],
        vec![reference("p", FkAction::Restrict)],
    );
    server.map(
        "p:",
        "parent",
        &[("key_columns", "id"), ("value_columns", "v")],
    );
    server.map(
        "c:",
        "c",
        &[("key_columns", "id"), ("value_columns", "v,p")],
    );
    let answer = server.ask("mn begin\r\nms p:1 1\r\nx\r\nms c:1 3\r\ny\t2\r\nmn\r\nget p:1\r\n");
    assert!(
        answer.starts_with("MN B\r\nSERVER_ERROR Cannot add or update a child row"),
        "{answer}"
    );
    assert!(answer.ends_with("\r\nMN R\r\nEND\r\n"), "{answer}");
    // Parent and child in one transaction, in either order of rows.
    assert_eq!(
        server.ask("mn begin\r\nms p:2 1\r\nx\r\nms c:1 3\r\ny\t2\r\nmn\r\nget c:1\r\n"),
        "MN B\r\nHD\r\nHD\r\nMN C\r\nVALUE c:1 0 3\r\ny\t2\r\nEND\r\n"
    );
}

#[test]
fn commands_not_allowed_in_a_meta_transaction_undo_it() {
    let server = InProcess::open();
    for (line, reply) in [
        (
            "get a\r\n",
            "CLIENT_ERROR only meta commands are allowed between mn begin and mn\r\n",
        ),
        ("mg a w\r\n", "CLIENT_ERROR invalid flag\r\n"),
        (
            "mn begin\r\n",
            "CLIENT_ERROR mn begin within a transaction\r\n",
        ),
    ] {
        let request = format!("mn begin\r\nms a 1\r\nx\r\n{line}mn\r\nmg a\r\n");
        assert_eq!(
            server.ask(&request),
            format!("MN B\r\n{reply}MN R\r\nEN\r\n"),
            "{line}"
        );
    }
    assert_eq!(
        server.ask("mn begin\r\nms a 1\r\nx\r\nmg a N30\r\nmn\r\nmg a\r\n"),
        "MN B\r\nCLIENT_ERROR this command cannot be part of a transaction\r\nMN R\r\nEN\r\n"
    );
    assert_eq!(
        server.ask("mn begin\r\nms a 1\r\nx\r\nmn rollback\r\nmg a\r\nmn\r\n"),
        "MN B\r\nMN R\r\nEN\r\nMN\r\n"
    );
}

#[test]
fn transfers_at_the_same_time_keep_the_sum() {
    let server = InProcess::open();
    let mut setup = String::new();
    for n in 0..8 {
        setup += &format!("set acct{n} 0 0 4\r\n1000\r\n");
    }
    server.ask(&setup);
    std::thread::scope(|scope| {
        for worker in 0..4usize {
            let address = server.address;
            scope.spawn(move || {
                let mut request = String::new();
                for step in 0..50usize {
                    let from = (worker * 3 + step) % 8;
                    let to = (worker + step * 5 + 1) % 8;
                    request +=
                        &format!("mn begin\r\nma acct{from} MD D3\r\nma acct{to} D3\r\nmn\r\n");
                }
                let answer = exchange(address, request.as_bytes());
                let text = String::from_utf8(answer).unwrap();
                assert_eq!(text.matches("MN B\r\n").count(), 50);
                let ends = text.matches("MN C\r\n").count() + text.matches("MN R\r\n").count();
                assert_eq!(ends, 50, "{text}");
            });
        }
    });
    let answer = server.ask("get acct0 acct1 acct2 acct3 acct4 acct5 acct6 acct7\r\n");
    let sum: u64 = answer
        .lines()
        .filter_map(|line| line.trim().parse::<u64>().ok())
        .sum();
    assert_eq!(sum, 8000, "{answer}");
}

/// Transactions that lock two rows in opposite orders run into deadlocks and are retried.
#[test]
fn commands_of_a_retried_transaction_are_counted_once() {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    server.memcached("set acct0 0 0 4\r\n5000\r\nset acct1 0 0 4\r\n5000\r\n");
    const COUNT: usize = 150;
    let replies = std::thread::scope(|scope| {
        let threads = [(0, 1), (1, 0)].map(|(from, to)| {
            let server = &server;
            scope.spawn(move || {
                let one = format!("mn begin\r\nma acct{from} MD D3\r\nma acct{to} D3\r\nmn\r\n");
                // One request at a time, so that both connections are served alternately.
                (0..COUNT)
                    .filter(|_| server.memcached(&one).ends_with("MN C\r\n"))
                    .count()
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let stats = server.memcached("stats\r\n");
    let value = |name: &str| -> usize {
        let line = stats.lines().find(|line| line.starts_with(name));
        line.unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    let counts = (value("STAT decr_hits "), value("STAT incr_hits "));
    assert_eq!(replies, [COUNT; 2], "a transaction was given up");
    assert_eq!(counts, (2 * COUNT, 2 * COUNT));
}
