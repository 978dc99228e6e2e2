//! Interfaces of the client: pipelining, the pool that combines operations, tasks.

use super::support::*;
use porpoise_native_client::{
    AsyncClient, AsyncClientOptions, AsyncConnection, Batch, Client, ClientOptions, Error,
    IntoValue, Outcome, Row, Value,
};
use std::sync::Arc;

/// A row of the tests' table.
#[derive(Clone, Debug, PartialEq, Row)]
struct Item {
    id: i64,
    #[row(column = "name")]
    title: Option<String>,
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
                    let item = Item::from_values(row.iter().map(Value::as_ref)).unwrap();
                    assert_eq!((item.id, item.title), (id, Some(format!("name{id}"))));
                    let new = Item {
                        id: 10_000 + thread * 50 + n,
                        title: None,
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
    let batches = batches(&server);
    assert!(batches < 2400, "nothing was combined: {batches} batches");
}

/// Number of batches that the server has executed.
fn batches(server: &porpoise_testkit::Porpoise) -> u64 {
    let (_, metrics) = server.http("/metrics");
    let batches = metrics
        .lines()
        .find_map(|line| line.strip_prefix("porpoise_native_batches_total "));
    batches.unwrap().parse().unwrap()
}

#[test]
fn a_row_is_a_struct() {
    let server = items(10);
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let insert = table.insert().columns(Item::COLUMNS).build().unwrap();
    let read = table.read().columns(Item::COLUMNS).build().unwrap();
    let item = Item {
        id: 77,
        title: Some("fin".to_owned()),
    };
    let mut new = Batch::new();
    new.push_row(&insert, &item).unwrap();
    native.run(&new).unwrap().into_success().unwrap();
    let reply = native.run(&batch(&read, &[&[int(77)]])).unwrap();
    let Some(Ok(Outcome::Row { values, .. })) = reply.results().next() else {
        panic!("{:?}", shown(&reply));
    };
    assert_eq!(values.to_row::<Item>().unwrap(), item);
    let reply = native
        .run(&batch(&read, &[&[int(77)], &[int(-1)]]))
        .unwrap();
    assert_eq!(reply.into_rows().unwrap(), [Some(item), None]);
    // Values of other types or in another number are refused, by the name of the column.
    let wrong = Item::from_values([text("x"), text("y")]).unwrap_err();
    assert!(wrong.to_string().contains("column id"), "{wrong}");
    assert!(Item::from_values([int(1)]).is_err());
    assert!(Item::from_values([int(1), text("a"), int(2)]).is_err());
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

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn operations_of_many_tasks_are_combined() {
    let server = items(1000);
    let target = target(&server, "root", "");
    let before = batches(&server);
    runtime().block_on(async {
        let native = AsyncConnection::connect(&target).await.unwrap();
        let table = native.table("d", "t").await.unwrap();
        let read = table.read().all_columns().build().unwrap();
        let insert = table.insert().all_columns().build().unwrap();
        let tasks: Vec<_> = (0..64i64)
            .map(|task| {
                let (native, read, insert) = (native.clone(), read.clone(), insert.clone());
                tokio::spawn(async move {
                    for n in 0..20 {
                        let id = (task * 20 + n) % 1000;
                        let row = native.get(&read, &[Value::Int(id)]).await.unwrap().unwrap();
                        let item = Item::from_values(row.iter().map(Value::as_ref)).unwrap();
                        assert_eq!((item.id, item.title), (id, Some(format!("name{id}"))));
                        let new = Item {
                            id: 10_000 + task * 20 + n,
                            title: None,
                        };
                        let values = new.to_values();
                        native.put(&insert, &values).await.unwrap().unwrap();
                        // Each operation has its own error.
                        let again = native.put(&insert, &values).await.unwrap_err();
                        assert_eq!(again.code(), Some(1062));
                    }
                    let absent = native.get(&read, &[77_777i64.to_value()]).await.unwrap();
                    assert_eq!(absent, None);
                    let unfit = native.get(&read, &[Value::Null, Value::Null]).await;
                    assert!(matches!(unfit, Err(Error::Usage(_))));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(sql(&server, "select count(*) from d.t"), "2280");
    let operations = 64 * (20 * 3 + 1);
    let batches = batches(&server) - before;
    assert!(
        batches < operations / 2,
        "{batches} batches for {operations} operations"
    );
}

/// Ends all idle sessions, and waits until they have ended.
fn end_sessions(server: &porpoise_testkit::Porpoise) {
    let idle = "select id from information_schema.processlist where command = 'Sleep'";
    for id in sql(server, idle).lines() {
        sql(server, &format!("kill {id}"));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let is_listed =
            format!("select count(*) from information_schema.processlist where id = {id}");
        while sql(server, &is_listed) != "0" {
            assert!(std::time::Instant::now() < until, "session {id} goes on");
        }
    }
}

#[test]
fn an_asynchronous_pool_opens_broken_connections_again() {
    let server = items(10);
    let options = AsyncClientOptions { connections: 0 };
    let client = AsyncClient::new(target(&server, "root", ""), &options);
    runtime().block_on(async {
        let table = client.table("d", "t").await.unwrap();
        let read = table.read().columns(&["id"]).build().unwrap();
        let insert = table.insert().columns(&["id"]).build().unwrap();
        let wanted = Some(vec![Value::Int(3)]);
        assert_eq!(client.get(&read, &[Value::Int(3)]).await.unwrap(), wanted);
        for n in 0..5 {
            end_sessions(&server);
            // A read is repeated over a new connection.
            assert_eq!(client.get(&read, &[Value::Int(3)]).await.unwrap(), wanted);
            client.put(&insert, &[Value::Int(100 + n)]).await.unwrap();
        }
        let scan = table.scan().columns(&["id"]).limit(3);
        let page = client.scan(&scan, &[]);
        assert_eq!(page.await.unwrap().rows().unwrap().len(), 3);
        let mut batch = Batch::new();
        batch.push(&read, &[int(104)]).unwrap();
        assert_eq!(shown(&client.run(&batch).await.unwrap()), ["row 104"]);
    });
}

/// The example of the crate, run as a program.
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
