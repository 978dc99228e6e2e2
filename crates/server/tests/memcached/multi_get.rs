//! One request for many keys.

use crate::in_process::{InProcess, column, required, varchar};
use porpoise_kv::{Commit, LockMode};
use porpoise_rows::{BeginOptions, Lookup, RowBuf, RowChange, UpdateMode};
use porpoise_types::{ColumnType, Kind, Value};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

fn mapped(server: &InProcess, name: &str) {
    let columns = vec![
        required("id", ColumnType::int(Kind::Int)),
        column("v", varchar(20)),
    ];
    server.create(name, columns, &["id"], vec![]);
    let prefix = format!("{name}:");
    server.map(
        &prefix,
        name,
        &[("key_columns", "id"), ("value_columns", "v")],
    );
}

#[test]
fn values_of_several_containers_come_in_the_order_of_the_keys() {
    let server = InProcess::open();
    mapped(&server, "t");
    mapped(&server, "u");
    server.ask(
        "set t:1 0 0 2\r\nt1\r\nset u:1 0 0 2\r\nu1\r\nset k 5 0 1\r\nk\r\nset t:2 0 0 2\r\nt2\r\n",
    );
    assert_eq!(
        server.ask("get t:2 u:9 k u:1 t:nonsense t:1 t:2\r\n"),
        "VALUE t:2 0 2\r\nt2\r\nVALUE k 5 1\r\nk\r\nVALUE u:1 0 2\r\nu1\r\n\
         VALUE t:1 0 2\r\nt1\r\nVALUE t:2 0 2\r\nt2\r\nEND\r\n"
    );
}

#[test]
fn large_multi_key_replies_are_sent_in_portions() {
    let server = InProcess::open();
    let value = "v".repeat(5000);
    let mut sets = String::new();
    for n in 0..1500 {
        let _ = write!(sets, "set k{n} 0 0 5000 noreply\r\n{value}\r\n");
    }
    // A command without a reply does not wait for the log; the last one is answered.
    sets.push_str("set last 0 0 1\r\nx\r\n");
    assert_eq!(server.ask(&sets), "STORED\r\n");
    let mut get = "get".to_owned();
    let mut expected = String::new();
    for n in (0..3000).rev() {
        let _ = write!(get, " k{n}");
        if n < 1500 {
            let _ = write!(expected, "VALUE k{n} 0 5000\r\n{value}\r\n");
        }
    }
    expected.push_str("END\r\n");
    let answer = server.ask(&(get + "\r\n"));
    assert!(answer == expected, "{} bytes", answer.len());
}

/// Sets both rows to `n` in one transaction.
fn set_both(server: &InProcess, n: i64) {
    let mut txn = server.db.begin(BeginOptions::default()).unwrap();
    for name in ["t", "u"] {
        let table = server.table("test", name);
        let key = table.primary_key(&[Value::Int(1)]);
        let wait = txn.wait();
        let mut old = RowBuf::default();
        txn.lock(
            &Lookup::primary(&table, &[&key]),
            LockMode::Update,
            wait,
            &mut |_, l| {
                old = RowBuf::from(l.row.unwrap().bytes().to_vec());
            },
        )
        .unwrap();
        let new = vec![Value::Int(1), Value::Bytes(format!("{n:06}").into_bytes())];
        let change = RowChange { key, old, new };
        txn.update(&table, vec![change], UpdateMode::Plain).unwrap();
    }
    let Commit { position } = txn.commit().unwrap();
    server.db.engine().wait_durable(position).unwrap();
}

#[test]
fn a_multi_get_sees_one_snapshot() {
    let server = InProcess::open();
    mapped(&server, "t");
    mapped(&server, "u");
    server.ask("set t:1 0 0 6\r\n000000\r\nset u:1 0 0 6\r\n000000\r\n");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1.. {
                set_both(&server, n);
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let request = "get t:1 u:1\r\n".repeat(50);
        let mut changes = 0;
        let mut last = String::new();
        // At least 40 rounds, and more while the writer was given no time.
        for round in 0..4000 {
            if round >= 40 && changes > 5 {
                break;
            }
            for answer in server
                .ask(&request)
                .split("END\r\n")
                .filter(|a| !a.is_empty())
            {
                let values: Vec<&str> = answer.lines().skip(1).step_by(2).collect();
                assert_eq!(values.len(), 2, "{answer}");
                assert_eq!(values[0], values[1]);
                changes += usize::from(values[0] != last);
                values[0].clone_into(&mut last);
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(changes > 5, "{changes} changes seen");
    });
}
