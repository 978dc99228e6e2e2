//! Writers of transfers over SQL: two accounts and the record of it change in one transaction, so
//! that the accounts always agree with the records.

use std::collections::{HashMap, HashSet};

use super::{Given, Writer};
use crate::support::{Failure, Random, Sql};

const ACCOUNTS: u64 = 30;
const OWNERS: u64 = 5;
const START: i64 = 1000;

/// The statements that make the tables of accounts and transfers.
pub fn tables() -> Vec<String> {
    let rows: Vec<String> = (1..=ACCOUNTS)
        .map(|n| format!("({n}, 'owner{}', {START})", n % OWNERS))
        .collect();
    vec![
        "create table accounts (id int primary key, owner varchar(20) not null, \
         balance bigint not null, key by_owner (owner))"
            .into(),
        "create table transfers (id int auto_increment primary key, tag varchar(40) not null, \
         src int not null, dst int not null, amount int not null, unique key by_tag (tag), \
         constraint fk_src foreign key (src) references accounts (id), \
         constraint fk_dst foreign key (dst) references accounts (id))"
            .into(),
        format!("insert into accounts values {}", rows.join(",")),
    ]
}

/// The transfers of one writer, by the replies to it.
pub struct Transfers {
    name: String,
    random: Random,
    next: u64,
    done: HashMap<String, i64>,
    pending: Option<String>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
}

impl Writer for Transfers {
    type Pending = String;

    fn pending(&mut self) -> &mut Option<String> {
        &mut self.pending
    }

    fn step(&mut self, sql: &mut Sql, given: &Given) -> Result<(), Failure> {
        self.next += 1;
        let tag = format!("{}-{}", self.name, self.next);
        let src = 1 + self.random.below(ACCOUNTS);
        let dst = 1 + (src + self.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = 1 + self.random.below(50);
        self.pending = Some(tag.clone());
        sql.attempt("begin")?;
        for (id, sign) in [(src, '-'), (dst, '+')] {
            let set = format!("set balance = balance {sign} {amount}");
            sql.attempt(&format!("update accounts {set} where id = {id}"))?;
        }
        let insert = format!(
            "insert into transfers (tag, src, dst, amount) values ('{tag}', {src}, {dst}, {amount})"
        );
        let id = sql.attempt(&insert)?.insert_id as i64;
        sql.attempt("commit")?;
        given.take("transfers", id);
        self.done.insert(tag, id);
        self.pending = None;
        self.acknowledged += 1;
        Ok(())
    }
}

impl Transfers {
    pub fn new(n: u64) -> Transfers {
        Transfers {
            name: format!("t{n}"),
            random: Random::new(2000 + n),
            next: 0,
            done: HashMap::new(),
            pending: None,
            acknowledged: 0,
        }
    }
}

/// Compares the replies to the writers with the data, from which they continue.
pub fn check(sql: &mut Sql, writers: &mut [&mut Transfers], given: &Given) {
    let mut found = HashMap::new();
    let mut balances: HashMap<i64, i64> = HashMap::new();
    let mut from: HashMap<i64, i64> = HashMap::new();
    for row in sql.rows("select id, tag, src, dst, amount from transfers") {
        let number = |n: usize| row[n].parse::<i64>().unwrap();
        *balances.entry(number(2)).or_insert(START) -= number(4);
        *balances.entry(number(3)).or_insert(START) += number(4);
        *from.entry(number(2)).or_default() += 1;
        let earlier = found.insert(row[1].clone(), number(0));
        assert!(earlier.is_none(), "two transfers {}", row[1]);
    }
    let ids: HashSet<_> = found.values().collect();
    assert_eq!(ids.len(), found.len(), "an id is there twice");
    for row in sql.numbers("select id, balance from accounts") {
        let expected = balances.get(&row[0]).copied().unwrap_or(START);
        assert_eq!(
            row[1], expected,
            "account {}: a transfer is half there",
            row[0]
        );
    }
    assert_eq!(
        sql.number("select sum(balance) from accounts"),
        START * ACCOUNTS as i64
    );
    check_indexes(sql, &found, &from);
    for writer in writers {
        writer.settle(&mut found, given);
    }
    assert!(
        found.is_empty(),
        "transfers that no client has requested: {found:?}"
    );
}

impl Transfers {
    fn settle(&mut self, found: &mut HashMap<String, i64>, given: &Given) {
        for (tag, id) in &self.done {
            assert_eq!(found.remove(tag), Some(*id), "transfer {tag}, acknowledged");
        }
        if let Some(tag) = self.pending.take()
            && let Some(id) = found.remove(&tag)
        {
            given.take("transfers", id);
            self.done.insert(tag, id);
        }
    }
}

fn check_indexes(sql: &mut Sql, found: &HashMap<String, i64>, from: &HashMap<i64, i64>) {
    let tags: Vec<&String> = found.keys().collect();
    for some in tags.chunks(100) {
        let list: Vec<String> = some.iter().map(|tag| format!("'{tag}'")).collect();
        let text = format!(
            "select id, tag from transfers where tag in ({})",
            list.join(",")
        );
        let rows = sql.rows(&text);
        assert_eq!(rows.len(), some.len(), "the unique key lacks a row");
        assert!(rows.iter().all(|row| found[&row[1]].to_string() == row[0]));
    }
    for (src, count) in from {
        let text = format!("select count(*) from transfers where src = {src}");
        assert_eq!(sql.number(&text), *count, "{text}");
    }
    for owner in 0..OWNERS {
        let text = format!("select count(*) from accounts where owner = 'owner{owner}'");
        assert_eq!(sql.number(&text) as u64, ACCOUNTS / OWNERS, "{text}");
    }
    let orphan = "insert into transfers (tag, src, dst, amount) values ('orphan', 1, 9999, 1)";
    assert_eq!(sql.refused(orphan).code, 1452);
    if let Some(src) = from.keys().next() {
        let error = sql.refused(&format!("delete from accounts where id = {src}"));
        assert_eq!(error.code, 1451, "{error:?}");
    }
}
