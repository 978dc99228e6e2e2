//! Helpers shared by the tests: connections, a server with a mapped table, random numbers.

pub mod cache;
pub mod sql;

use porpoise_testkit::{Porpoise, PorpoiseBuilder};

pub use cache::Cache;
pub use sql::{Failure, Sql};

/// The server of this build, with every default, on free ports.
pub fn server() -> PorpoiseBuilder {
    Porpoise::builder().binary(env!("CARGO_BIN_EXE_porpoise"))
}

/// Maps keys that begin with `prefix` to a table, by rows of `ndbmemcache`, for role 0.
pub fn map_prefix(sql: &mut Sql, prefix: &str, table: (&str, &str), columns: (&str, &str)) {
    map_prefix_of_role(sql, 0, prefix, table, columns);
}

/// As [`map_prefix`], for any role.
pub fn map_prefix_of_role(
    sql: &mut Sql,
    role: u32,
    prefix: &str,
    (schema, table): (&str, &str),
    (keys, values): (&str, &str),
) {
    sql.run(&format!(
        "insert into ndbmemcache.containers \
         (name, db_schema, db_table, key_columns, value_columns) \
         values ('c_{table}', '{schema}', '{table}', '{keys}', '{values}')"
    ));
    sql.run(&format!(
        "insert into ndbmemcache.key_prefixes \
         (server_role_id, key_prefix, cluster_id, policy, container) \
         values ({role}, '{prefix}', 0, 'ndb-only', 'c_{table}')"
    ));
}

/// Numbers that look random and are the same for the same seed (xorshift64*).
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}
