//! Writers of keys over memcached: each has its own keys, so that it knows what each must hold.

use std::collections::HashMap;
use std::io;

use super::Given;
use crate::support::{Cache, Random, Sql};

const KEYS: u64 = 25;

/// The keys of one writer, by the replies to it.
pub struct Keys {
    prefix: String,
    /// First key; in the mapped table keys are numbers.
    first: u64,
    random: Random,
    next: u64,
    /// Value of each key; `None`: deleted.
    values: HashMap<String, Option<String>>,
    pending: Option<(String, Option<String>)>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
}

impl Keys {
    /// A writer to the default table.
    pub fn of_default_table(n: u64) -> Keys {
        Self::new(n, format!("key{n}-"))
    }

    /// A writer to the table `words`.
    pub fn of_words(n: u64) -> Keys {
        Self::new(n, "w:".into())
    }

    fn new(n: u64, prefix: String) -> Keys {
        Keys {
            prefix,
            first: n * 1000,
            random: Random::new(3000 + n),
            next: 0,
            values: HashMap::new(),
            pending: None,
            acknowledged: 0,
        }
    }

    /// Writes until the connection breaks.
    pub fn write(&mut self, cache: &mut Cache, given: &Given) {
        while self.step(cache, given).is_ok() {}
    }

    fn step(&mut self, cache: &mut Cache, given: &Given) -> io::Result<()> {
        self.next += 1;
        let key = format!("{}{}", self.prefix, self.first + self.random.below(KEYS));
        let old = self.values.get(&key).cloned().flatten();
        let new = self.next.to_string();
        let (request, after, reply) = match (self.random.below(5), &old) {
            (0, Some(_)) => (format!("delete {key}\r\n"), None, "DELETED".into()),
            (1, Some(value)) => {
                let sum = (value.parse::<u64>().unwrap() + 7).to_string();
                (format!("incr {key} 7\r\n"), Some(sum.clone()), sum)
            }
            (2, None) => (store("add", &key, &new), Some(new), "STORED".into()),
            (2, Some(_)) => (store("replace", &key, &new), Some(new), "STORED".into()),
            _ => (store("set", &key, &new), Some(new), "STORED".into()),
        };
        self.pending = Some((key.clone(), after.clone()));
        assert_eq!(cache.attempt(request.as_bytes())?, reply, "{request:?}");
        self.values.insert(key.clone(), after.clone());
        self.pending = None;
        self.acknowledged += 1;
        if self.next.is_multiple_of(8)
            && let Some(value) = after
        {
            let items = cache.items(&format!("gets {key}\r\n"))?.unwrap();
            assert_eq!(items[0].data, value.as_bytes(), "{key}");
            given.version(items[0].cas.unwrap(), &key, &value);
        }
        Ok(())
    }
}

fn store(verb: &str, key: &str, value: &str) -> String {
    format!("{verb} {key} 0 0 {}\r\n{value}\r\n", value.len())
}

/// Compares the replies to the writers with the data, from which they continue.
pub fn check(cache: &mut Cache, sql: &mut Sql, writers: &mut [&mut Keys]) {
    let mut words: HashMap<String, String> = HashMap::new();
    for row in sql.rows("select id, value from words") {
        words.insert(format!("w:{}", row[0]), row[1].clone());
    }
    let mut through_sql = words.clone();
    for row in sql.rows("select mkey, value from ndbmemcache.kv") {
        through_sql.insert(row[0].clone(), row[1].clone());
    }
    let mut known = 0;
    for writer in writers {
        let keys: Vec<String> = (0..KEYS)
            .map(|n| format!("{}{}", writer.prefix, writer.first + n))
            .collect();
        let found: HashMap<String, String> = cache
            .gets(&keys)
            .into_iter()
            .map(|item| (item.key, String::from_utf8(item.data).unwrap()))
            .collect();
        known += found.len();
        let pending = writer.pending.take();
        for key in keys {
            let value = found.get(&key);
            assert_eq!(
                through_sql.get(&key),
                value,
                "{key}: the listeners do not agree"
            );
            let acknowledged = writer.values.get(&key).cloned().flatten();
            let may_be = pending.as_ref().filter(|(k, _)| *k == key).map(|(_, v)| v);
            assert!(
                value == acknowledged.as_ref() || may_be.is_some_and(|v| value == v.as_ref()),
                "{key} holds {value:?}, was acknowledged {acknowledged:?}, pending {may_be:?}"
            );
            writer.values.insert(key, value.cloned());
        }
    }
    assert_eq!(known, through_sql.len(), "rows that no client has inserted");
    for (key, value) in &words {
        let id = key.trim_start_matches("w:");
        let text = format!("select count(*) from words where value = '{value}' and id = {id}");
        assert_eq!(sql.number(&text), 1, "{text}");
    }
}
