//! `bench analytics`: queries over a table of a million rows: groups, joins,
//! sorts, counts, ranges, windows, JSON, and some of them with little memory.
//!
//! Sums are of integers and decimals, so that they do not depend on the order of the
//! rows.

use super::load_rows::{LoadRows, Rows};
use super::query_suite::{self, Suite};
use super::{Bench, Route};
use crate::connect::Admin;
use crate::error::Result;
use crate::proto::Call;
use crate::url::{System, Target};
use crate::value;

mod questions;

/// Rows of the large table unless chosen otherwise.
const ROWS: u64 = 1_000_000;

/// Rows of the large table for each of the small one.
const SHARE: u64 = 10;

/// A pseudo-random number below `among` for row `n`; each column has its own `salt`.
fn part(n: u64, salt: u64, among: u64) -> u64 {
    value::mix(n ^ value::mix(salt)) % among.max(1)
}

/// Statements that make the tables.
fn schema(system: System) -> Vec<String> {
    let tail = match system {
        System::Mysql => " engine=InnoDB",
        _ => "",
    };
    [
        "drop table if exists sale".to_owned(),
        "drop table if exists customer".to_owned(),
        "drop table if exists document".to_owned(),
        format!(
            "create table customer (id bigint primary key, name varchar(40) not null, \
             region int not null, code int not null){tail}"
        ),
        format!(
            "create table sale (id bigint primary key, customer bigint not null, \
             shop int not null, kind int not null, amount decimal(10,2) not null, \
             quantity int not null, day date not null, city varchar(30) not null, \
             label varchar(40) not null, code int not null, \
             key by_shop (shop), key by_label (label), key by_customer (customer)){tail}"
        ),
    ]
    .to_vec()
}

/// Statements that make the table of documents, of which a system is given the first that it
/// accepts: MariaDB has no indexes of array elements.
fn document_schemas(system: System) -> [String; 2] {
    let tail = match system {
        System::Mysql => " engine=InnoDB",
        _ => "",
    };
    [", key by_tag ((cast(tags as unsigned array)))", ""].map(|key| {
        format!(
            "create table document (id bigint primary key, body json not null, \
             tags json not null{key}){tail}"
        )
    })
}

/// Documents with up to four items and three tags.
struct Documents;

impl Rows for Documents {
    fn statement(&self, rows: usize) -> String {
        let placeholders = vec!["(?, ?, ?)"; rows].join(", ");
        format!("insert into document values {placeholders}")
    }

    fn add(&self, n: u64, call: &mut Call) {
        let item = |i: u64| {
            let (sku, quantity) = (part(n, 20 + i, 200), part(n, 30 + i, 10));
            format!("{{\"sku\": \"sku {sku}\", \"quantity\": {quantity}}}")
        };
        let items: Vec<String> = (0..part(n, 11, 5)).map(item).collect();
        let tags: Vec<String> = (0..3).map(|i| part(n, 40 + i, 500).to_string()).collect();
        let body = format!(
            "{{\"name\": \"name {}\", \"kind\": \"kind {}\", \"items\": [{}]}}",
            part(n, 12, 1000),
            part(n, 13, 20),
            items.join(", ")
        );
        call.int(int(n));
        call.bytes(body.as_bytes());
        call.bytes(format!("[{}]", tags.join(", ")).as_bytes());
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

struct Customers;

impl Rows for Customers {
    fn statement(&self, rows: usize) -> String {
        let placeholders = vec!["(?, ?, ?, ?)"; rows].join(", ");
        format!("insert into customer values {placeholders}")
    }

    fn add(&self, n: u64, call: &mut Call) {
        call.int(int(n));
        call.bytes(format!("customer {:06}", part(n, 1, 1_000_000)).as_bytes());
        call.int(int(part(n, 2, 50)));
        call.int(int(n));
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

struct Sales {
    customers: u64,
}

impl Rows for Sales {
    fn statement(&self, rows: usize) -> String {
        let placeholders = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
        format!("insert into sale values {placeholders}")
    }

    fn add(&self, n: u64, call: &mut Call) {
        let customer = part(n, 3, self.customers);
        call.int(int(n));
        call.int(int(customer));
        call.int(int(part(n, 4, 1000)));
        call.int(int(part(n, 5, 20)));
        let cents = part(n, 6, 1_000_000);
        call.bytes(format!("{}.{:02}", cents / 100, cents % 100).as_bytes());
        call.int(int(part(n, 7, 100)));
        let day = part(n, 8, 360);
        call.bytes(format!("2025-{:02}-{:02}", day / 30 + 1, day % 28 + 1).as_bytes());
        call.bytes(format!("City {:03}", part(n, 9, 300)).as_bytes());
        call.bytes(format!("{:08x}-{n:07}", part(n, 10, 1 << 32)).as_bytes());
        call.int(int(customer));
    }

    fn item(&self, _: u64, _: &mut Call) {}
}

fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn prepare(target: &Target, route: &Route, rows: u64) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    for statement in schema(target.system) {
        admin.run(&statement)?;
    }
    let [with_key, without] = document_schemas(target.system);
    if admin.run(&with_key).is_err() {
        admin.run(&without)?;
    }
    let customers = (rows / SHARE).max(1);
    LoadRows::new(0..customers, Documents).load(&route.endpoint)?;
    LoadRows::new(0..customers, Customers).load(&route.endpoint)?;
    LoadRows::new(0..rows, Sales { customers }).load(&route.endpoint)?;
    // The planners of both systems use statistics.
    admin.run("analyze table sale, customer, document")?;
    Ok(())
}

/// `bench analytics`.
///
/// # Errors
/// Two systems answer differently, or none could be prepared.
pub fn analytics(bench: &mut Bench) -> Result<()> {
    let rows = bench.rows(if bench.options.is_quick {
        100_000
    } else {
        ROWS
    });
    let suite = Suite {
        name: "analytics",
        title: "Groups, joins, sorts, windows and documents of many rows",
        tables: format!("{rows} rows and a tenth as many beside them"),
        rows,
        prepare,
        questions: questions::QUESTIONS,
    };
    query_suite::run(bench, &suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_names_of_their_own() {
        let all = questions::QUESTIONS;
        for (at, question) in all.iter().enumerate() {
            let mut others = all.iter().skip(at + 1);
            assert!(others.all(|o| o.name != question.name), "{}", question.name);
        }
    }
}
