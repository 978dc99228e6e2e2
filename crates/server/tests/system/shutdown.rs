//! Clean shutdowns by SIGTERM: the next start finds all data.

use std::time::{Duration, Instant};

use crate::support::{Cache, Failure, Sql, server};

#[test]
fn sigterm_loses_no_row_and_no_id() {
    let mut server = server().start();
    let mut last = 0;
    for round in 1..=3 {
        let mut sql = Sql::connect(server.mysql_addr);
        if round == 1 {
            sql.run("create database d");
            sql.run("create table d.t (id int auto_increment primary key, r int)");
        }
        for _ in 0..10 {
            let id = sql
                .run(&format!("insert into d.t (r) values ({round})"))
                .insert_id;
            assert_eq!(id, last + 1, "round {round}: the counter is exact");
            last = id;
        }
        let mut cache = Cache::connect(server.memcached_addr);
        assert_eq!(
            cache.set(&format!("round {round}").replace(' ', ""), "kept"),
            "STORED"
        );
        let started = Instant::now();
        assert!(server.terminate().success(), "{}", server.log());
        assert!(started.elapsed() < Duration::from_secs(20));
        server.restart();
        let mut sql = Sql::connect(server.mysql_addr);
        assert_eq!(sql.number("select count(*) from d.t"), last as i64);
        assert_eq!(sql.number("select max(id) from d.t"), last as i64);
        let mut cache = Cache::connect(server.memcached_addr);
        assert_eq!(cache.get(&format!("round{round}")).unwrap(), "kept");
    }
}

#[test]
fn an_explicit_id_raises_the_counter_across_restarts() {
    let mut server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database d");
    sql.run("create table d.t (id int auto_increment primary key)");
    sql.run("insert into d.t values (1000)");
    assert_eq!(sql.run("insert into d.t values (null)").insert_id, 1001);
    sql.run("delete from d.t");
    drop(sql);
    assert!(server.terminate().success());
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(sql.run("insert into d.t values (null)").insert_id, 1002);
    // A crash may lose ids, never give one twice.
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert!(sql.run("insert into d.t values (null)").insert_id > 1002);
}

#[test]
fn a_shutdown_rolls_back_open_transactions_without_waiting() {
    let mut server = server().arg("--shutdown-timeout", "1s").start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database d");
    sql.run("create table d.t (id int primary key, v int)");
    sql.run("insert into d.t values (1, 1)");
    let mut open = Sql::connect(server.mysql_addr);
    open.run("begin");
    open.run("update d.t set v = 2 where id = 1");
    open.run("insert into d.t values (2, 2)");
    assert!(server.terminate().success(), "{}", server.log());
    match open.attempt("commit") {
        Err(Failure::Gone(_)) => {}
        Err(Failure::Refused(error)) => assert_eq!(error.code, 1053, "{error:?}"),
        Ok(_) => panic!("committed after the shutdown"),
    }
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(sql.rows("select * from d.t"), [["1", "1"]]);
}

#[test]
fn persisted_variables_survive_the_statement_shutdown_and_a_crash() {
    let mut server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("set persist long_query_time = 3.5, persist_only lock_wait_timeout = 77");
    sql.run("set global sort_buffer_size = 65536");
    sql.run("shutdown");
    assert!(
        server.wait_end(Duration::from_secs(20)).success(),
        "{}",
        server.log()
    );
    server.restart();
    let values = "select @@long_query_time, @@lock_wait_timeout, @@sort_buffer_size";
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(sql.rows(values), [["3.5", "77", "262144"]]);
    sql.run("reset persist lock_wait_timeout");
    server.kill9();
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(sql.rows(values), [["3.5", "31536000", "262144"]]);
}

#[test]
fn runs_of_events_survive_a_crash_and_a_shutdown() {
    let mut server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database d");
    sql.run("create table d.t (what varchar(10))");
    sql.run("create event d.hourly on schedule every 1 hour do insert into d.t values ('hourly')");
    sql.run(
        "create event d.once on schedule at now() on completion preserve do \
         begin insert into d.t values ('once'); do sleep(100); end",
    );
    let wait_for = |sql: &mut Sql, query: &str, wanted: &[&[&str]]| {
        let limit = Instant::now() + Duration::from_secs(20);
        while sql.rows(query) != wanted {
            assert!(Instant::now() < limit, "{query}: {:?}", sql.rows(query));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let done = "select * from d.t order by 1";
    wait_for(&mut sql, done, &[&["hourly"], &["once"]]);
    // An event that runs once is recorded before it runs, others soon after.
    sql.run("create table d.durable (a int)");
    let executed = "select event_name, last_executed from information_schema.events order by 1";
    let before = sql.rows(executed);
    assert!(before.iter().all(|row| row[1] != "NULL"), "{before:?}");
    server.kill9();
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    assert_eq!(sql.rows(executed), before);
    // The event that was interrupted is completed without running again.
    let status = "select status from information_schema.events where event_name = 'once'";
    wait_for(&mut sql, status, &[&["DISABLED"]]);
    assert!(server.terminate().success(), "{}", server.log());
    server.restart();
    let mut sql = Sql::connect(server.mysql_addr);
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(sql.rows(executed), before);
    assert_eq!(sql.rows(done), [["hourly"], ["once"]]);
    // A later event of the same name has not run.
    sql.run("drop event d.hourly");
    sql.run(
        "create event d.hourly on schedule every 1 hour starts now() + interval 1 hour do do 1",
    );
    let fresh =
        "select last_executed is null from information_schema.events where event_name = 'hourly'";
    assert_eq!(sql.rows(fresh), [["1"]]);
}
