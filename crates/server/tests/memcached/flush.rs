//! `flush_all` deletes rows only where the policy says so.

use crate::house::{House, column, required, varchar};
use porpoise_types::{ColumnType, Kind};

fn mapped(house: &House, name: &str, policy: &str) {
    let columns = vec![
        required("id", ColumnType::int(Kind::Int)),
        column("v", varchar(9)),
    ];
    house.create(name, columns, &["id"], vec![]);
    let prefix = format!("{name}:");
    house.map(
        &prefix,
        name,
        &[("key_columns", "id"), ("value_columns", "v")],
    );
    house.prefix(&prefix, policy, name);
}

#[test]
fn only_policies_that_say_so_lose_rows() {
    let house = House::open();
    mapped(&house, "kept", "ndb-only");
    mapped(&house, "gone", "ndb-test");
    let mut sets = String::new();
    for n in 0..1200 {
        sets.push_str(&format!("set gone:{n} 0 0 1 noreply\r\nx\r\n"));
    }
    sets.push_str("set kept:1 0 0 1\r\nx\r\nset k 0 0 1\r\nx\r\nget gone:1199\r\n");
    assert!(
        house
            .ask(&sets)
            .ends_with("VALUE gone:1199 0 1\r\nx\r\nEND\r\n")
    );
    assert_eq!(
        house.ask("flush_all\r\nget kept:1 gone:0 gone:600 gone:1199 k\r\n"),
        "OK\r\nVALUE kept:1 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(house.ask("flush_all noreply\r\nget k\r\n"), "END\r\n");
}

#[test]
fn a_delay_is_refused_and_deletes_nothing() {
    let house = House::open();
    let answer = house.ask("set k 0 0 1\r\nx\r\nflush_all 10\r\nget k\r\n");
    assert_eq!(
        answer,
        "STORED\r\nSERVER_ERROR flush_all with a delay is not offered yet\r\n\
         VALUE k 0 1\r\nx\r\nEND\r\n"
    );
}
