//! `@@container` and ranges, as InnoDB's memcached plugin has them.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;

fn start() -> Porpoise {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "CREATE DATABASE test;
         CREATE TABLE test.city (city_id VARCHAR(32) PRIMARY KEY, name VARCHAR(40),
                                 country VARCHAR(4));
         INSERT INTO test.city VALUES ('B', 'BANGALORE', 'IN'), ('C', 'CHENNAI', 'IN'),
             ('D', 'DELHI', 'IN'), ('H', 'HYDERABAD', 'IN'), ('M', 'MUMBAI', 'IN');
         INSERT INTO ndbmemcache.containers SET name = 'city', db_schema = 'test',
             db_table = 'city', key_columns = 'city_id', value_columns = 'name,country';
         INSERT INTO ndbmemcache.container_options SET name = 'city', `separator` = '|';
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'c:', 0, 'ndb-only', 'city')",
    );
    server
}

#[test]
fn a_connection_switches_to_a_container_and_back() {
    let server = start();
    assert_eq!(
        server.memcached(
            "set B 0 0 1\r\nx\r\nget @@city\r\nget B\r\nset X 0 0 3\r\ny|z\r\nget @@\r\n\
             get B c:X X\r\n"
        ),
        "STORED\r\nVALUE @@city 0 9\r\ntest/city\r\nEND\r\nVALUE B 0 12\r\nBANGALORE|IN\r\n\
         END\r\nSTORED\r\nEND\r\nVALUE B 0 1\r\nx\r\nVALUE c:X 0 3\r\ny|z\r\nEND\r\n"
    );
    // With a key: this one and those after it.
    assert_eq!(
        server.memcached("get @@city.B C\r\nset @@city.D 0 0 7\r\nDEHLI|I\r\nget D\r\n"),
        "VALUE @@city.B 0 12\r\nBANGALORE|IN\r\nVALUE C 0 10\r\nCHENNAI|IN\r\nEND\r\n\
         STORED\r\nVALUE D 0 7\r\nDEHLI|I\r\nEND\r\n"
    );
    // Another connection has not switched.
    assert_eq!(server.memcached("get B\r\n"), "VALUE B 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn ranges_come_in_the_order_of_the_key() {
    let server = start();
    let keys = |range: &str| {
        let answer = server.memcached(&format!("get @@city\r\nget {range}\r\n"));
        let mut keys = String::new();
        for line in answer.lines().skip(3).filter(|l| l.starts_with("VALUE ")) {
            keys.push_str(line.split(' ').nth(1).unwrap());
        }
        keys
    };
    assert_eq!(keys("@>B"), "CDHM");
    assert_eq!(keys("@>=B"), "BCDHM");
    assert_eq!(keys("@<M"), "BCDH");
    assert_eq!(keys("@<=M"), "BCDHM");
    assert_eq!(keys("@>B@<M"), "CDH");
    assert_eq!(keys("@>=C@<=H"), "CDH");
    assert_eq!(keys("@>M@<B"), "");
    assert_eq!(
        server.memcached("get @@city.@>=H@<I\r\n"),
        "VALUE H 0 12\r\nHYDERABAD|IN\r\nEND\r\n"
    );
}

#[test]
fn a_range_reports_the_cas_values_that_single_keys_report() {
    let server = start();
    let answer =
        server.memcached("get @@city\r\nms B 3 E4711\r\nx|y\r\ngets B\r\ngets @>=B@<C\r\n");
    let values: Vec<&str> = answer
        .lines()
        .filter(|l| l.starts_with("VALUE B"))
        .collect();
    assert_eq!(values, ["VALUE B 0 3 4711", "VALUE B 0 3 4711"], "{answer}");
}

#[test]
fn keys_with_an_at_sign_are_plain_without_container_switching() {
    let server = start();
    assert_eq!(
        server.memcached(
            "set @>a 0 0 1\r\n1\r\nset @@nothing.x 0 0 1\r\n2\r\nset @@ 0 0 1\r\n3\r\n\
             get @>a\r\nget @@nothing.x\r\nget @@\r\n"
        ),
        "STORED\r\nSTORED\r\nSTORED\r\nVALUE @>a 0 1\r\n1\r\nEND\r\n\
         VALUE @@nothing.x 0 1\r\n2\r\nEND\r\nVALUE @@ 0 1\r\n3\r\nEND\r\n"
    );
}

#[test]
fn a_range_beside_other_keys_is_refused() {
    let server = start();
    let refused = "SERVER_ERROR a range must be the only key of a get; write both ends as one \
                   key, as in @>1@<5\r\n";
    for get in [
        "get @>B @<M",
        "get B @>B",
        "gets @>=B B",
        "get @@city.B @<C",
    ] {
        let answer = server.memcached(&format!("get @@city\r\n{get}\r\n"));
        assert_eq!(
            answer,
            format!("VALUE @@city 0 9\r\ntest/city\r\nEND\r\n{refused}"),
            "{get}"
        );
    }
    assert_eq!(server.memcached("get @@city.B @<C\r\n"), refused);
    // Without a switch they are keys.
    assert_eq!(
        server.memcached("set @<M 0 0 1\r\n1\r\nget @>B @<M\r\n"),
        "STORED\r\nVALUE @<M 0 1\r\n1\r\nEND\r\n"
    );
}
