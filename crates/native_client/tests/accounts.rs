//! Login, privileges, the list of sessions, KILL.

use super::support::*;
use porpoise_native_client::{AsyncConnection, Batch, Connection, TlsMode};
use std::time::Duration;

#[test]
fn passwords_are_verified_with_and_without_tls() {
    let server = start();
    sql(
        &server,
        "create user ann@localhost identified by 'secret'; create user old@localhost identified with mysql_native_password by 'older'",
    );
    for (user, password) in [
        ("ann", "secret"),
        ("ann", "secret"),
        ("old", "older"),
        ("root", ""),
    ] {
        let mut native = Connection::connect(&target(&server, user, password)).unwrap();
        native.ping().unwrap();
        let mut with_tls = target(&server, user, password);
        with_tls.tls.mode = TlsMode::Required;
        let mut native = Connection::connect(&with_tls).unwrap();
        native.ping().unwrap();
    }
    for (user, password) in [
        ("ann", "wrong"),
        ("ann", ""),
        ("nobody", "x"),
        ("root", "x"),
        ("old", "secret"),
    ] {
        let error = Connection::connect(&target(&server, user, password)).unwrap_err();
        assert_eq!(error.code(), Some(1045), "{user} {password}: {error}");
    }
    sql(&server, "alter user ann@localhost account lock");
    let error = Connection::connect(&target(&server, "ann", "secret")).unwrap_err();
    assert_eq!(error.code(), Some(3118));
}

#[test]
fn tls_can_be_required() {
    let server = builder()
        .arg("--durability", "memory")
        .arg("--native-tls", "required")
        .start();
    let error = Connection::connect(&target(&server, "root", "")).unwrap_err();
    assert_eq!(error.code(), Some(3159));
    let mut with_tls = target(&server, "root", "");
    with_tls.tls.mode = TlsMode::Required;
    Connection::connect(&with_tls).unwrap().ping().unwrap();
    // The asynchronous client, with batches that are longer than a record of TLS.
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v varchar(100))",
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let plain = AsyncConnection::connect(&target(&server, "root", "")).await;
        assert_eq!(plain.unwrap_err().code(), Some(3159));
        let native = AsyncConnection::connect(&with_tls).await.unwrap();
        let table = native.table("d", "t").await.unwrap();
        let insert = table.insert().columns(&["id", "v"]).build().unwrap();
        let long = "x".repeat(100);
        for first in [0, 1000] {
            let mut batch = Batch::new();
            for n in first..first + 1000 {
                batch.push(&insert, &[int(n), text(&long)]).unwrap();
            }
            native.run(batch).await.unwrap().into_success().unwrap();
        }
    });
    assert_eq!(sql(&server, "select count(*) from d.t"), "2000");
}

#[test]
fn privileges_are_those_of_sql_and_revoked_at_once() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v int, w int); insert into d.t values (1, 1, 1);
         create user ann@localhost identified by 'x'; grant select (id, v) on d.t to ann@localhost",
    );
    let mut native = Connection::connect(&target(&server, "ann", "x")).unwrap();
    let table = native.table("d", "t").unwrap();
    let read = table.read().columns(&["v"]).build().unwrap();
    // Columns without any privilege are not shown; their operation is made by another account.
    assert!(table.column("w").is_none());
    let whole = connect(&server).table("d", "t").unwrap();
    let read_w = whole.read().columns(&["w"]).build().unwrap();
    let insert = table.insert().columns(&["id"]).build().unwrap();
    let delete = table.delete().build().unwrap();
    let update = table.update().columns(&["v"]).build().unwrap();
    let mut run = |operation, values: &[_]| match native.run(&batch(operation, &[values])) {
        Ok(reply) => shown(&reply).pop().unwrap(),
        Err(error) => error.code().unwrap().to_string(),
    };
    assert_eq!(run(&read, &[int(1)]), "row 1");
    assert_eq!(run(&read_w, &[int(1)]), "1143");
    assert_eq!(run(&insert, &[int(2)]), "1142");
    assert_eq!(run(&delete, &[int(1)]), "1142");
    assert_eq!(run(&update, &[int(1), int(2)]), "1142");
    sql(&server, "grant update (v), insert on d.t to ann@localhost");
    assert_eq!(run(&update, &[int(1), int(2)]), "written");
    assert_eq!(run(&insert, &[int(2)]), "written");
    sql(&server, "revoke insert on d.t from ann@localhost");
    assert_eq!(run(&insert, &[int(3)]), "1142");
    sql(&server, "drop user ann@localhost");
    assert_eq!(run(&read, &[int(1)]), "1142");
}

#[test]
fn operations_need_the_privileges_of_the_statements_that_they_replace() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v int not null, secret int, key (v));
         insert into d.t values (1, 1, 1); create table d.hidden (id int primary key);
         create user ann@localhost identified by 'x'; grant insert on d.t to ann@localhost",
    );
    let mut root = connect(&server);
    let hidden = root.table("d", "hidden").unwrap();
    let table = root.table("d", "t").unwrap();
    let mut native = Connection::connect(&target(&server, "ann", "x")).unwrap();
    let mut run = |operation: &_, values: &[_]| match native.run(&batch(operation, &[values])) {
        Ok(reply) => shown(&reply).pop().unwrap(),
        Err(error) => error.to_string(),
    };
    // INSERT alone suffices to insert.
    let insert = table.insert().columns(&["id", "v"]).build().unwrap();
    assert_eq!(run(&insert, &[int(2), int(2)]), "written");
    // A table without any privilege looks like one that does not exist.
    let read = hidden.read().columns(&["id"]).build().unwrap();
    let refused = run(&read, &[int(1)]);
    let id = hidden.id;
    assert!(refused.starts_with("1142"), "{refused}");
    assert!(refused.contains(&format!("'#{id}'")), "{refused}");
    sql(&server, "drop table d.hidden");
    assert_eq!(run(&read, &[int(1)]), refused);
    // A sum depends on the value that is added to.
    sql(
        &server,
        "grant select (id), update (v) on d.t to ann@localhost",
    );
    let set = table.update().columns(&["v"]).build().unwrap();
    assert_eq!(run(&set, &[int(1), int(5)]), "written");
    let add = table.update().add_to("v").build().unwrap();
    let refused = run(&add, &[int(1), int(5)]);
    assert!(refused.starts_with("1143"), "{refused}");
    // The name of a column without any privilege is not revealed.
    let read = table.read().columns(&["secret"]).build().unwrap();
    sql(&server, "revoke insert on d.t from ann@localhost");
    let refused = run(&read, &[int(1)]);
    assert!(refused.starts_with("1143"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
    // The continuation of a scan has the primary key.
    sql(
        &server,
        "revoke select (id) on d.t from ann@localhost; grant select (v) on d.t to ann@localhost",
    );
    let scan = table.scan().index("v").columns(&["v"]);
    let error = native.scan(&scan, &[]).unwrap_err();
    assert_eq!(error.code(), Some(1143));
    sql(&server, "grant select (id) on d.t to ann@localhost");
    native.scan(&scan, &[]).unwrap();
    // As SELECT ... FOR UPDATE.
    sql(
        &server,
        "revoke update (v) on d.t from ann@localhost; grant delete on d.t to ann@localhost",
    );
    let lock = table.read().columns(&["v"]).for_update().build().unwrap();
    native.run(&batch(&lock, &[&[int(1)]])).unwrap();
    sql(&server, "revoke delete on d.t from ann@localhost");
    let error = native.run(&batch(&lock, &[&[int(1)]])).unwrap_err();
    assert_eq!(error.code(), Some(1142));
}

#[test]
fn an_idle_client_holds_its_locks_no_longer_than_wait_timeout() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v int); insert into d.t values (1, 1);
         set global wait_timeout = 1",
    );
    let mut native = connect(&server);
    let table = native.table("d", "t").unwrap();
    let update = table.update().columns(&["v"]).build().unwrap();
    native.begin(Default::default()).unwrap();
    native.run(&batch(&update, &[&[int(1), int(5)]])).unwrap();
    sql(
        &server,
        "set innodb_lock_wait_timeout = 15; update d.t set v = v + 1",
    );
    assert_eq!(sql(&server, "select v from d.t"), "2");
    assert!(native.commit().is_err());
}

#[test]
fn sessions_are_listed_and_killed() {
    let server = start();
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v int); insert into d.t values (1, 1)",
    );
    let mut native = connect(&server);
    let id = native.id();
    let table = native.table("d", "t").unwrap();
    let update = table.update().columns(&["v"]).build().unwrap();
    let list = format!("select user, command from information_schema.processlist where id = {id}");
    assert_eq!(sql(&server, &list), "root\tSleep");

    // KILL QUERY ends a wait for a lock, and the session lives.
    let mut holder = connect(&server);
    holder.begin(Default::default()).unwrap();
    holder.run(&batch(&update, &[&[int(1), int(5)]])).unwrap();
    let waiting = batch(&update, &[&[int(1), int(6)]]);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| native.run(&waiting).unwrap_err().code());
        let info = format!("select info from information_schema.processlist where id = {id}");
        server.wait_for("the wait", Duration::from_secs(10), || {
            (sql(&server, &info) == "UPDATE `d`.`t`").then_some(())
        });
        sql(&server, &format!("kill query {id}"));
        assert_eq!(waiter.join().unwrap(), Some(1317));
    });
    native.ping().unwrap();
    sql(&server, &format!("kill {id}"));
    assert!(native.ping().is_err());
    holder.rollback().unwrap();
    let (_, metrics) = server.http("/metrics");
    assert!(
        metrics.contains("porpoise_native_operations_total{operation=\"update\"} 1"),
        "{metrics}"
    );
}
