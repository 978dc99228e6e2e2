//! Interfaces of the client: pipelining, the pool that combines operations, tasks.

use super::support::*;
use porpoise_native_client::{
    AsyncConnection, Batch, Client, ClientOptions, Error, IntoValue, Outcome, Row, Value,
};
use std::sync::Arc;

porpoise_native_client::row! {
    /// A row of the tests' table.
    pub struct Item {
        id: i64,
        name: Option<String>,
    }
}

fn items(count: i64) -> porpoise_testkit::Porpoise {
    let server = start();
    sql(
        &server,
        &format!(
            "create database d; create table d.t (id bigint primary key, name varchar(20));
             insert into d.t with recursive n (n) as (select 0 union all select n + 1 from n where n < {})
             select n, concat('name', n) from n",
            count - 1
        ),
    );
    server
}

#[test]
fn requests_are_pipelined_and_answered_in_order() {
    let server = items(100);
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let read = table.read().columns(&["id"]).build().unwrap();
    // More than the window.
    for n in 0..3000 {
        native.send(&batch(&read, &[&[int(n % 100)]])).unwrap();
    }
    for n in 0..3000 {
        assert_eq!(
            shown(&native.receive().unwrap()),
            [format!("row {}", n % 100)]
        );
    }
    assert!(matches!(native.receive(), Err(Error::Usage(_))));
}

#[test]
fn operations_of_many_threads_are_combined() {
    let server = items(1000);
    let options = ClientOptions {
        connections: 2,
        ..ClientOptions::default()
    };
    let client = Client::new(target(&server, "root", ""), options);
    let table = client.table("d", "t").unwrap();
    let read = table.read().all_columns().build().unwrap();
    let insert = table.insert().all_columns().build().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16i64 {
            let (client, read, insert) = (&client, &read, &insert);
            scope.spawn(move || {
                for n in 0..50 {
                    let id = (thread * 50 + n) % 1000;
                    let row = client.get(read, &[Value::Int(id)]).unwrap().unwrap();
                    let refs: Vec<_> = row.iter().map(Value::as_ref).collect();
                    let item = Item::from_values(&refs).unwrap();
                    assert_eq!((item.id, item.name), (id, Some(format!("name{id}"))));
                    let new = Item {
                        id: 10_000 + thread * 50 + n,
                        name: None,
                    };
                    client.put(insert, &new.to_values()).unwrap().unwrap();
                    let again = client.put(insert, &new.to_values()).unwrap_err();
                    assert_eq!(again.code(), Some(1062));
                }
                assert_eq!(client.get(read, &[77_777i64.to_value()]).unwrap(), None);
            });
        }
    });
    assert_eq!(sql(&server, "select count(*) from d.t"), "1800");
    let (_, metrics) = server.http("/metrics");
    let batches = metrics
        .lines()
        .find_map(|line| line.strip_prefix("porpoise_native_batches_total "));
    let batches: u64 = batches.unwrap().parse().unwrap();
    assert!(batches < 2400, "nothing was combined: {batches} batches");
}

#[test]
fn a_pool_of_zero_is_a_pool_of_one() {
    let server = items(10);
    let options = ClientOptions {
        connections: 0,
        max_batch: 0,
    };
    let client = Client::new(target(&server, "root", ""), options);
    let table = client.table("d", "t").unwrap();
    let read = table.read().columns(&["id"]).build().unwrap();
    let row = client.get(&read, &[Value::Int(3)]).unwrap();
    assert_eq!(row, Some(vec![Value::Int(3)]));
}

#[test]
fn tasks_share_a_connection() {
    let server = items(500);
    let target = target(&server, "root", "");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let native = AsyncConnection::connect(&target).await.unwrap();
        let table = native.table("d", "t").await.unwrap();
        let read = Arc::new(table.read().columns(&["name"]).build().unwrap());
        let tasks: Vec<_> = (0..50i64)
            .map(|task| {
                let (native, read) = (native.clone(), read.clone());
                tokio::spawn(async move {
                    for n in 0..20 {
                        let ids: Vec<i64> =
                            (0..10).map(|k| (task * 10 + n * 7 + k) % 500).collect();
                        let mut batch = Batch::new();
                        for id in &ids {
                            batch.push(&read, &[int(*id)]).unwrap();
                        }
                        let reply = native.run(batch).await.unwrap();
                        for (id, outcome) in ids.iter().zip(reply.results()) {
                            let Outcome::Row { values, .. } = outcome.unwrap() else {
                                panic!()
                            };
                            assert_eq!(show_value(values.first().unwrap()), format!("name{id}"));
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let scan = table.scan().columns(&["id"]).limit(3);
        let page = native.scan(&scan, &[]).await.unwrap();
        assert_eq!(page.rows().unwrap().len(), 3);
        assert!(native.table("d", "none").await.is_err());
    });
}

/// The first example of docs/guide/native.md, run as a program.
#[test]
fn the_example_of_the_guide_reads_a_thousand_rows() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.thousand (id bigint primary key, name varchar(40))",
    );
    let address = address(&server);
    let test = std::env::current_exe().unwrap();
    let example = test
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/thousand_rows");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let output = std::process::Command::new(&example)
        .args([&host, &port, "root", "", "d"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("read 1000 rows in "), "{text} {output:?}");
    assert_eq!(sql(&server, "select count(*) from d.thousand"), "1000");
}
