//! Integer columns compared with texts and doubles beyond 2^53: access paths agree, and constant texts
//! are compared without loss.

use crate::common::{run, session};
use porpoise_kv::contract::Rng;

/// A number near a power of two at which doubles have gaps, or a small one.
fn number(rng: &mut Rng) -> i128 {
    let near = [1_i128 << 53, 1 << 54, 1 << 60, 1 << 63, 1 << 64, 0, 40];
    let center = near[rng.below(near.len() as u64) as usize];
    let sign = if rng.below(4) == 0 { -1 } else { 1 };
    sign * center + i128::from(rng.below(9)) - 4
}

/// A constant: a text, sometimes with a fraction, an exponent, or letters after; or a double.
fn constant(rng: &mut Rng) -> String {
    let n = number(rng);
    match rng.below(8) {
        0 => format!("'{n}.0'"),
        1 => format!("'{n}.5'"),
        2 => format!("'{n}e0'"),
        3 => format!("'{n}x'"),
        4 => format!("{n}e0"),
        _ => format!("'{n}'"),
    }
}

fn condition(rng: &mut Rng) -> String {
    let column = ["b", "u", "i"][rng.below(3) as usize];
    let (one, two) = (constant(rng), constant(rng));
    match rng.below(8) {
        0 => format!("{column} < {one}"),
        1 => format!("{column} >= {one}"),
        2 => format!("{column} BETWEEN {one} AND {two}"),
        3 => format!("{column} IN ({one}, {two}, '7')"),
        4 => format!("{column} NOT IN ({one}, {two})"),
        5 => format!("({column} = {one} OR {column} = {two})"),
        6 => format!("b = {one} AND u <> {two}"),
        _ => format!("{column} = {one}"),
    }
}

#[test]
fn access_paths_agree_on_large_integers_and_texts() {
    let mut s = session();
    run(&mut s, "CREATE DATABASE d");
    run(&mut s, "USE d");
    let columns = "id INT PRIMARY KEY, b BIGINT, u BIGINT UNSIGNED, i INT, t VARCHAR(30), d DOUBLE";
    run(&mut s, &format!("CREATE TABLE plain ({columns})"));
    let keys = "KEY (b), KEY (u, b), KEY (i, u)";
    run(&mut s, &format!("CREATE TABLE keyed ({columns}, {keys})"));
    let mut rng = Rng::new(11);
    for id in 0..150 {
        let (b, u, t) = (number(&mut rng), number(&mut rng), number(&mut rng));
        let b = b.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        let u = u.clamp(0, i128::from(u64::MAX));
        let i = rng.below(50);
        let row = format!("({id}, {b}, {u}, {i}, '{t}', {t}e0)");
        run(&mut s, &format!("INSERT INTO plain VALUES {row}"));
    }
    run(&mut s, "INSERT INTO keyed SELECT * FROM plain");
    for _ in 0..400 {
        let condition = condition(&mut rng);
        let query = |table: &str, hint: &str| {
            format!("SELECT id FROM {table} {hint} WHERE {condition} ORDER BY id")
        };
        let expected = run(&mut s, &query("plain", ""));
        for hint in ["", "FORCE INDEX (b, u, i)", "IGNORE INDEX (b, u, i)"] {
            assert_eq!(run(&mut s, &query("keyed", hint)), expected, "{condition}");
        }
    }
    for on in [
        "y.b = x.t",
        "y.u = x.t",
        "y.u = x.d",
        "y.u = x.t AND y.b = x.d",
    ] {
        let query = |table: &str| {
            format!(
                "SELECT x.id, y.id FROM plain x STRAIGHT_JOIN {table} y ON {on} \
                 ORDER BY x.id, y.id"
            )
        };
        let expected = run(&mut s, &query("plain"));
        assert!(expected.len() > 10, "{on}");
        assert_eq!(run(&mut s, &query("keyed")), expected, "{on}");
        let test = format!(
            "SELECT id FROM plain y WHERE {} IN (SELECT x.t FROM plain x) ORDER BY id",
            &on[..3]
        );
        assert_eq!(
            run(&mut s, &test.replace("plain y", "keyed y")),
            run(&mut s, &test)
        );
    }
}
