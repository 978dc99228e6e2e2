//! Writers of orders over SQL: an order and its items are inserted in one transaction, changed by one
//! statement and deleted by a cascade. All items of an order always have the same state.

use std::collections::{HashMap, HashSet};

use super::{Given, Writer};
use crate::support::{Failure, Random, Sql};

/// Request without a reply when the server was killed; its outcome is unknown.
#[derive(Clone, Debug)]
pub enum Pending {
    Insert(String),
    Note(i64, String),
    Delete(i64),
}

/// The orders of one writer, by the replies to it.
pub struct Orders {
    name: String,
    random: Random,
    next: u64,
    /// Note of each order that is there.
    alive: HashMap<i64, String>,
    deleted: HashSet<i64>,
    pending: Option<Pending>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
}

impl Writer for Orders {
    type Pending = Pending;

    fn pending(&mut self) -> &mut Option<Pending> {
        &mut self.pending
    }

    fn step(&mut self, sql: &mut Sql, given: &Given) -> Result<(), Failure> {
        self.next += 1;
        let word = format!("{}-{}", self.name, self.next);
        match (self.random.below(4), self.pick()) {
            (0, Some(id)) => {
                self.pending = Some(Pending::Note(id, word.clone()));
                sql.attempt(&format!(
                    "update items set note = '{word}' where oid = {id}"
                ))?;
                self.alive.insert(id, word);
            }
            (1, Some(id)) => {
                self.pending = Some(Pending::Delete(id));
                let answer = sql.attempt(&format!("delete from orders where id = {id}"))?;
                assert_eq!(answer.affected, 1);
                self.alive.remove(&id);
                self.deleted.insert(id);
            }
            _ => {
                self.pending = Some(Pending::Insert(word.clone()));
                let id = self.insert(sql, &word)?;
                given.take("orders", id);
                self.alive.insert(id, word);
            }
        }
        self.pending = None;
        self.acknowledged += 1;
        Ok(())
    }
}

impl Orders {
    pub fn new(n: u64) -> Orders {
        Orders {
            name: format!("o{n}"),
            random: Random::new(1000 + n),
            next: 0,
            alive: HashMap::new(),
            deleted: HashSet::new(),
            pending: None,
            acknowledged: 0,
        }
    }

    fn pick(&mut self) -> Option<i64> {
        let n = self.random.below(self.alive.len().max(1) as u64);
        self.alive.keys().nth(n as usize).copied()
    }

    fn insert(&mut self, sql: &mut Sql, word: &str) -> Result<i64, Failure> {
        let items = 1 + self.random.below(6);
        sql.attempt("begin")?;
        let order = format!("insert into orders (tag, items) values ('{word}', {items})");
        let id = sql.attempt(&order)?.insert_id as i64;
        let rows: Vec<String> = (1..=items)
            .map(|n| format!("({id}, {n}, '{word}')"))
            .collect();
        sql.attempt(&format!("insert into items values {}", rows.join(",")))?;
        sql.attempt("commit")?;
        Ok(id)
    }
}

/// An order as it was found.
struct Found {
    tag: String,
    items: i64,
    notes: Vec<String>,
}

fn read(sql: &mut Sql) -> HashMap<i64, Found> {
    let mut found = HashMap::new();
    for row in sql.rows("select id, tag, items from orders") {
        let order = Found {
            tag: row[1].clone(),
            items: row[2].parse().unwrap(),
            notes: Vec::new(),
        };
        assert!(found.insert(row[0].parse().unwrap(), order).is_none());
    }
    for row in sql.rows("select oid, n, note from items order by oid, n") {
        let id: i64 = row[0].parse().unwrap();
        let order = found.get_mut(&id);
        let order = order.unwrap_or_else(|| panic!("item {row:?} has no order"));
        order.notes.push(row[2].clone());
        assert_eq!(row[1], order.notes.len().to_string(), "order {id}: a gap");
    }
    found
}

/// Compares the replies to the writers with the data, from which they continue.
pub fn check(sql: &mut Sql, writers: &mut [&mut Orders], given: &Given) {
    let mut found = read(sql);
    for (id, order) in &found {
        assert_eq!(
            order.items as usize,
            order.notes.len(),
            "order {id} is half there"
        );
        let first = &order.notes[0];
        assert!(
            order.notes.iter().all(|note| note == first),
            "order {id}: half changed"
        );
    }
    check_indexes(sql, &found);
    for writer in writers {
        writer.settle(&mut found, given);
    }
    let unknown: Vec<_> = found.iter().map(|(id, o)| (id, &o.tag)).collect();
    assert!(
        unknown.is_empty(),
        "orders that no client has inserted: {unknown:?}"
    );
}

impl Orders {
    /// Takes this writer's orders out of `found`.
    fn settle(&mut self, found: &mut HashMap<i64, Found>, given: &Given) {
        let pending = self.pending.take();
        let mut alive = HashMap::new();
        for (id, note) in self.alive.drain() {
            let may_be_gone = matches!(&pending, Some(Pending::Delete(n)) if *n == id);
            match found.remove(&id) {
                None if may_be_gone => {
                    self.deleted.insert(id);
                }
                None => panic!("order {id}, acknowledged, is lost"),
                Some(order) => {
                    let is_note = order.notes[0] == note
                        || matches!(&pending, Some(Pending::Note(n, new))
                            if *n == id && *new == order.notes[0]);
                    assert!(is_note, "order {id}: {:?}, not {note}", order.notes);
                    alive.insert(id, order.notes[0].clone());
                }
            }
        }
        if let Some(Pending::Insert(tag)) = &pending {
            let id = found.iter().find(|(_, o)| o.tag == *tag).map(|(id, _)| *id);
            if let Some(id) = id {
                found.remove(&id);
                given.take("orders", id);
                alive.insert(id, tag.clone());
            }
        }
        for id in &self.deleted {
            assert!(!found.contains_key(id), "order {id}, deleted, is back");
        }
        self.alive = alive;
    }
}

fn check_indexes(sql: &mut Sql, found: &HashMap<i64, Found>) {
    for (id, order) in found.iter().take(200) {
        let by_tag = format!("select id from orders where tag = '{}'", order.tag);
        assert_eq!(sql.number(&by_tag), *id, "{by_tag}");
        let by_note = format!("select oid, n from items where note = '{}'", order.notes[0]);
        let expected: Vec<_> = (1..=order.items).map(|n| vec![*id, n]).collect();
        let mut rows = sql.numbers(&by_note);
        rows.sort();
        assert_eq!(rows, expected, "{by_note}");
    }
    let orders = sql.number("select count(*) from orders");
    assert_eq!(orders as usize, found.len());
}
