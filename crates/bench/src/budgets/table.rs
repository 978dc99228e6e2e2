//! The list of all budgets.

use super::{Budget, Direction, Limit, Phase, budget};
use crate::peers::Durability;
use std::time::Duration;

const fn limit(work: &'static str, experiment: &'static str, measure: &'static str) -> Limit {
    Limit {
        work,
        experiment,
        measure,
        direction: Direction::AtMost,
        floor: None,
        goal: 0.0,
    }
}

/// All budgets, by the settings under which they hold.
pub const PHASES: &[Phase] = &[
    Phase {
        durability: Durability::Interval,
        fsync_delay: Duration::ZERO,
        peers: Some("porpoise,memcached"),
        rows: None,
        is_long: false,
        limits: &[],
        budgets: &[
            Budget {
                operations: &[
                    "get, ascii",
                    "get, ascii, 2 threads multiplexing",
                    "get, meta",
                    "get, binary",
                ],
                goal: 1.2,
                ..budget("memcached GET", "memcached", "memcached")
            },
            Budget {
                operations: &["get of 50 keys, ascii", "get of 50 keys, meta"],
                floor: 1.5,
                goal: 2.0,
                ..budget("memcached get of 50 keys", "memcached", "memcached")
            },
            Budget {
                operations: &[
                    "set, ascii",
                    "set, ascii, 2 threads multiplexing",
                    "set, meta",
                    "set, binary",
                ],
                floor: 0.95,
                goal: 1.1,
                ..budget("memcached SET", "memcached", "memcached")
            },
            Budget {
                operations: &["set, ascii, 16 deep", "set, meta, 16 deep"],
                goal: 1.5,
                ..budget("16 SETs in one write", "memcached", "memcached")
            },
        ],
    },
    Phase {
        durability: Durability::Sync,
        fsync_delay: Duration::ZERO,
        peers: Some("porpoise,mariadb"),
        rows: None,
        is_long: false,
        limits: &[
            Limit {
                floor: Some(100.0),
                goal: 100.0,
                ..limit(
                    "longest statement during an online change",
                    "schema-change",
                    "Porpoise: longest statement",
                )
            },
            Limit {
                goal: 10.0,
                ..limit(
                    "throughput lost during an online change",
                    "schema-change",
                    "Porpoise: throughput lost",
                )
            },
        ],
        budgets: &[
            Budget {
                operations: &["SELECT"],
                sizes: &[8, 64],
                floor: 2.5,
                goal: 3.5,
                ..budget("SELECT by key", "first", "MariaDB")
            },
            Budget {
                operations: &["UPDATE", "INSERT"],
                sizes: &[8, 64],
                floor: 2.0,
                goal: 4.0,
                ..budget("UPDATE and INSERT", "first", "MariaDB")
            },
            Budget {
                sizes: &[50],
                floor: 3.0,
                goal: 5.0,
                ..budget("IN of 50 keys", "mget", "MariaDB")
            },
            Budget {
                operations: &["many parents"],
                floor: 0.97,
                ..budget("INSERT with foreign keys", "fk", "Porpoise, no foreign key")
            },
            Budget {
                operations: &["bulk_insert"],
                floor: 1.2,
                goal: 2.0,
                ..budget("bulk INSERT", "sysbench", "MariaDB")
            },
            Budget {
                floor: 1.3,
                goal: 3.0,
                ..budget("sysbench's OLTP scripts", "sysbench", "MariaDB")
            },
            Budget {
                floor: 1.2,
                goal: 2.0,
                ..budget("loading dumps and text files", "dump", "MariaDB")
            },
            Budget {
                floor: 1.2,
                goal: 4.0,
                ..budget("analytical queries", "analytics", "MariaDB")
            },
        ],
    },
    Phase {
        durability: Durability::Sync,
        fsync_delay: Duration::from_millis(1),
        peers: Some("porpoise,mariadb"),
        rows: None,
        is_long: false,
        limits: &[],
        budgets: &[Budget {
            operations: &["UPDATE", "INSERT"],
            sizes: &[8, 64],
            floor: 2.0,
            goal: 4.0,
            ..budget("UPDATE and INSERT, fsync 1 ms slower", "first", "MariaDB")
        }],
    },
    Phase {
        durability: Durability::Sync,
        fsync_delay: Duration::ZERO,
        peers: Some("porpoise,porpoise-log-bin"),
        rows: None,
        is_long: false,
        limits: &[],
        // The space after the peer's name excludes the peer with a binary log.
        budgets: &[Budget {
            operations: &["UPDATE"],
            sizes: &[8, 64],
            ours: "Porpoise, binary log",
            floor: 0.85,
            goal: 0.95,
            ..budget("UPDATE with the change log", "first", "Porpoise ")
        }],
    },
    Phase {
        durability: Durability::Sync,
        fsync_delay: Duration::ZERO,
        peers: None,
        rows: Some(1_000_000),
        is_long: false,
        budgets: &[],
        limits: &[
            Limit {
                floor: Some(200.0),
                goal: 160.0,
                ..limit(
                    "memory of a row",
                    "native",
                    "the engine alone: memory of a row",
                )
            },
            Limit {
                floor: Some(10.0),
                goal: 3.0,
                ..limit(
                    "restart after kill -9",
                    "native",
                    "the engine alone: start after a kill",
                )
            },
            Limit {
                direction: Direction::AtLeast,
                goal: 8e6,
                ..limit(
                    "point reads in this process, one thread",
                    "native",
                    "the engine alone: rows read in batches",
                )
            },
            Limit {
                floor: Some(1.0),
                goal: 1.0,
                ..limit(
                    "requests of a point SELECT on TiKV",
                    "requests",
                    "point SELECT: steps",
                )
            },
            Limit {
                floor: Some(2.0),
                goal: 2.0,
                ..limit(
                    "requests of an INSERT of 100 rows with two foreign keys on TiKV",
                    "requests",
                    "INSERT of 100 rows with two foreign keys: steps",
                )
            },
            Limit {
                floor: Some(2.0),
                goal: 2.0,
                ..limit(
                    "requests of an INSERT with two foreign keys on TiKV",
                    "requests",
                    "INSERT of 1 row with two foreign keys: steps",
                )
            },
        ],
    },
    Phase {
        durability: Durability::Sync,
        fsync_delay: Duration::ZERO,
        peers: None,
        rows: Some(10_000_000),
        is_long: true,
        budgets: &[],
        limits: &[Limit {
            floor: Some(20.0),
            goal: 5.0,
            ..limit(
                "start from a checkpoint of 10 M rows",
                "native",
                "the engine alone: start from a checkpoint of 10000000 rows",
            )
        }],
    },
];
