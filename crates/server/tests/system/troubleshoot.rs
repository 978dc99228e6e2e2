//! docs/guide/troubleshoot.md: the messages that it lists are those of the server.

use crate::support::{Cache, Sql, server};
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::client::result::ServerError;
use std::collections::BTreeMap;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/guide/troubleshoot.md");

/// Source of messages about the archive, whose gaps take long to arise.
const ARCHIVER: &str = include_str!("../../src/backup/archive.rs");

/// The first cells of the page's table, each with whether it cites a test of its own.
fn messages() -> Vec<(&'static str, bool)> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| {
        let (first, rest) = row.split_once(" | ")?;
        Some((first.trim_matches('`'), rest.contains("[test: ")))
    });
    cells.filter(|(first, _)| *first != "message").collect()
}

/// The messages that the listed errors have, by number.
fn provoked(server: &Porpoise) -> BTreeMap<u16, String> {
    let mut sql = Sql::connect(server.mysql_addr);
    let mut other = Sql::connect(server.mysql_addr);
    sql.run("create database d");
    for session in [&mut sql, &mut other] {
        session.run("use d; set innodb_lock_wait_timeout = 1");
    }
    sql.run("create table p (id int primary key); create table c (id int primary key, p int references p (id), foreign key (p) references p (id))");
    sql.run("insert into p values (1), (2); insert into c values (1, 1)");
    let mut found: Vec<ServerError> = Vec::new();
    found.push(sql.refused("delete from p where id = 1"));
    found.push(sql.refused("insert into c values (2, 7)"));
    other.run("begin; delete from p where id = 2");
    found.push(sql.refused("delete from p where id = 2"));
    other.run("rollback; start transaction with consistent snapshot");
    sql.run("alter table p add column a int not null default 1, algorithm = copy");
    found.push(other.refused("select * from p"));
    other.run("rollback");
    found.push(sql.refused("select 1 into outfile '/nowhere/x'"));
    sql.run("set max_execution_time = 50");
    found.push(sql.refused(
        "with recursive n as (select 1 i union all select i + 1 from n where i < 1000) \
         select count(*) from n a, n b, n c where a.i + b.i + c.i = 0",
    ));
    found.push(sql.refused("create table t (a varchar(9)) ttl = a + interval 1 day"));
    found.push(sql.refused("alter table p ttl_enable = 'off'"));
    sql.run("create table e (id int primary key, made timestamp) ttl = made + interval 1 day");
    found.push(sql.refused("alter table e drop column made"));
    let all = found.into_iter();
    all.map(|error| (error.code, error.message)).collect()
}

#[test]
fn the_messages_of_the_page_are_those_of_the_server() {
    let server = server().start();
    let mut known = provoked(&server);
    let shell = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(["sql", "-u", "nobody", "-e", "select 1"])
        .env("PORPOISE_SQL_PORT", server.mysql_addr.port().to_string())
        .env("PORPOISE_SHELL_PASSWORD", "wrong")
        .output()
        .unwrap();
    let said = String::from_utf8(shell.stderr).unwrap();
    assert!(said.contains("1045"), "{said}");
    known.insert(1045, said);
    for (message, has_test) in messages() {
        if has_test || ARCHIVER.contains(message) {
            continue;
        }
        let words = message.split([' ', ',']).filter(|word| !word.is_empty());
        let numbers: Vec<u16> = words.map_while(|word| word.parse().ok()).collect();
        assert!(
            !numbers.is_empty(),
            "{message}: neither provoked here nor with a test"
        );
        let text = message.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',' || c == ' ');
        for number in numbers {
            let said = known
                .get(&number)
                .unwrap_or_else(|| panic!("{number} was not provoked"));
            for part in text.split("...").flat_map(|part| part.split(", ")) {
                assert!(
                    said.contains(part.trim()),
                    "{number}: {part:?} is not in {said:?}"
                );
            }
        }
    }
    let mut cache = Cache::connect(server.memcached_addr);
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("alter table d.c memcached prefix 'c:' value (p)");
    assert!(cache.set("c:5", "77").starts_with("SERVER_ERROR "));
}
