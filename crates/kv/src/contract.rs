//! The contract suite: tests that every engine must pass unchanged.
//!
//! Each function takes a factory of engines and panics if a guarantee of the crate's documentation
//! is violated. An engine's tests write
//!
//! ```ignore
//! fn new_engine() -> std::sync::Arc<dyn porpoise_kv::Engine> { ... }
//! porpoise_kv::contract_suite!(new_engine);
//! ```
//!
//! which makes one `#[test]` of every function; [`ALL`] lists them for other
//! runners. Functions in [`restart`] take a function that opens the *same*
//! store again, after the engine before it was shut down or dropped.
//!
//! Invariants:
//! 1. A function works in spaces that it created and on counters named after
//!    them, so that engines may share one store between functions.
//! 2. Tests of optional features check [`crate::Capabilities`] first, and expect the documented
//!    error if the feature is missing. Nothing is skipped.
//! 3. No test depends on speed; a call counts as waiting after [`PAUSE`].
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a suite of tests that several crates run, therefore not cfg(test): it fails by panicking"
)]

pub mod advance;
pub mod commits;
pub mod ids;
pub mod locks;
pub mod marks;
pub mod prepared;
pub mod reads;
pub mod restart;
pub mod scans;
pub mod spaces;
pub mod validation;
pub mod waits;

use crate::{
    Check, CommitPosition, Engine, Error, Key, LockMode, LockRequest, Locked, Read, ReadMode,
    ScanEnd, ScanRange, SpaceId, SpaceSpec, Txn, TxnOptions, Wait,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Factory of an engine for one function of the suite.
pub type EngineFactory<'a> = &'a dyn Fn() -> Arc<dyn Engine>;

/// Time after which a call without a result counts as waiting.
pub const PAUSE: Duration = Duration::from_millis(80);

/// Maximum time of a wait that should succeed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One function of the suite.
#[derive(Clone, Copy)]
pub struct Guarantee {
    /// Module and function.
    pub name: &'static str,
    /// The test, which panics if the guarantee is violated.
    pub run: fn(EngineFactory<'_>),
}

/// Passes the list of the suite to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_list {
    ($then:ident $($extra:tt)*) => {
        $crate::$then! {
            [$($extra)*]
            reads {
                guarantee_2_get_shows_each_key_once,
                guarantee_2_a_pinned_snapshot_does_not_move,
                guarantee_2_refresh_moves_an_unpinned_snapshot,
                guarantee_2_no_snapshot_is_taken_before_it_is_needed,
                guarantee_2_a_snapshot_is_one_committed_state,
                guarantee_2_deleted_and_absent_keys_read_as_none,
                guarantee_3_current_reads_see_the_newest_commit,
                guarantee_3_no_transaction_sees_uncommitted_writes,
                guarantee_4_begin_sees_what_was_reported,
                guarantee_4_seen_covers_what_current_reads_showed,
            }
            commits {
                guarantee_1_a_refused_commit_changes_nothing,
                guarantee_1_the_last_write_of_a_key_wins,
                guarantee_1_large_transactions_are_whole,
                guarantee_5_no_lost_update,
                guarantee_5_inserts_and_deletions_conflict_too,
                guarantee_5_a_refreshed_snapshot_does_not_conflict,
                guarantee_5_without_a_snapshot_there_is_nothing_to_compare,
                guarantee_5_a_commit_waits_for_the_holder_of_a_lock,
                guarantee_5_counting_with_retries_loses_nothing,
                guarantee_5_counting_under_locks_loses_nothing,
                guarantee_5_transfers_keep_the_sum,
                guarantee_5_blind_writes_are_not_checked,
                guarantee_13_a_dropped_transaction_leaves_no_trace,
                guarantee_13_rollback_leaves_no_trace,
                guarantee_13_a_restarted_transaction_is_a_new_one,
                empty_commits_and_sizes_beyond_the_limits,
            }
            scans {
                guarantee_9_in_order_both_ways,
                guarantee_9_bounds_are_start_included_end_excluded,
                guarantee_9_resumes_without_gap_or_repetition,
                guarantee_9_own_writes_are_merged_in,
                guarantee_9_the_visitor_may_break_off,
                guarantee_9_random_ranges_against_a_sorted_map,
                guarantee_9_a_snapshot_scans_one_state_beside_writers,
                guarantee_9_several_ranges_and_spaces,
            }
            locks {
                guarantee_6_modes_exclude_as_stated,
                guarantee_6_absent_keys_are_locked,
                guarantee_6_locks_are_reentrant_and_upgrade,
                guarantee_6_a_grant_shows_the_newest_value,
                guarantee_6_a_grant_shows_what_is_newer_than_the_snapshot,
                guarantee_6_released_by_commit_rollback_and_drop,
                guarantee_6_waiters_get_the_lock_one_after_the_other,
                guarantee_6_a_waiting_exclusive_holds_off_later_key_shares,
                guarantee_6_skip_and_nowait,
                guarantee_6_a_batch_is_locked_in_key_order,
                guarantee_7_two_transactions_crosswise,
                guarantee_7_two_upgrades_of_one_key,
                guarantee_7_many_random_lockers_all_end,
            }
            waits {
                guarantee_12_a_wait_ends_at_its_deadline,
                guarantee_12_a_wait_ends_on_cancel,
                guarantee_12_a_timed_out_waiter_leaves_the_queue,
                guarantee_12_waiting_does_not_stop_others,
            }
            marks {
                guarantee_8_reads_see_own_writes_below_the_mark,
                guarantee_8_scans_see_own_writes_below_the_mark,
                guarantee_8_rollback_to_takes_back_exactly_the_later_writes,
                guarantee_8_rollback_to_keeps_locks,
            }
            ids {
                guarantee_10_ranges_are_consecutive_and_begin_at_one,
                guarantee_10_at_least_is_respected,
                guarantee_10_concurrent_reservations_never_overlap,
                guarantee_10_an_unused_end_can_be_given_back,
                guarantee_10_the_next_id_can_be_set_and_ends_somewhere,
            }
            spaces {
                guarantee_11_new_spaces_are_distinct_listed_and_empty,
                guarantee_11_a_dropped_space_is_gone_for_good,
                guarantee_11_the_catalogs_spaces_always_exist,
                guarantee_11_spaces_do_not_mix,
            }
            advance {
                guarantee_14_an_advanced_snapshot_is_a_later_state,
                guarantee_14_advance_is_refused_after_a_change_of_what_was_read,
                guarantee_14_advance_is_refused_after_untracked_reads,
            }
            prepared {
                guarantee_15_a_prepared_transaction_keeps_its_locks,
                guarantee_15_preparing_checks_what_a_commit_would,
                guarantee_15_names_are_unique,
                guarantee_15_large_transactions_are_whole,
                capability_prepared_transactions_keep_validated_ranges,
            }
            validation {
                capability_validated_ranges_refuse_phantoms,
                capability_validated_keys_refuse_changes,
                capability_untracked_reads_are_not_validated,
                capability_serializable_refuses_write_skew,
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! contract_registry {
    ([] $($module:ident { $($name:ident,)* })*) => {
        /// Every function of the suite.
        pub const ALL: &[Guarantee] = &[
            $($(Guarantee {
                name: concat!(stringify!($module), "::", stringify!($name)),
                run: $module::$name,
            },)*)*
        ];
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! contract_tests {
    ([$new:ident] $($module:ident { $($name:ident,)* })*) => {
        $(mod $module {
            $(#[test]
            fn $name() {
                $crate::contract::$module::$name(&|| super::$new());
            })*
        })*
    };
}

/// Creates a `#[test]` for every function of the suite; the argument is a function that returns an
/// `Arc<dyn Engine>`.
#[macro_export]
macro_rules! contract_suite {
    ($new:ident) => {
        $crate::contract_list! { contract_tests $new }
    };
}

crate::contract_list! { contract_registry }

/// A test fixture: an engine, a space of its own, and helpers.
pub struct Fixture {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// A fresh space.
    pub space: SpaceId,
}

impl Fixture {
    /// A new engine and a new space.
    pub fn new(new: EngineFactory<'_>) -> Fixture {
        Fixture::on(new())
    }

    /// A new space on an engine.
    pub fn on(engine: Arc<dyn Engine>) -> Fixture {
        let space = engine
            .create_spaces(&[SpaceSpec {
                group: 1,
                point_lookups: true,
                ..SpaceSpec::default()
            }])
            .unwrap()[0];
        Fixture { engine, space }
    }

    /// Begins a transaction with the usual options.
    pub fn begin(&self) -> Box<dyn Txn> {
        self.engine.begin(TxnOptions::default()).unwrap()
    }

    /// A key of the space.
    pub fn key<'a>(&self, key: &'a str) -> Key<'a> {
        Key::new(self.space, key.as_bytes())
    }

    /// Commits, and waits until it is durable.
    pub fn commit(&self, txn: Box<dyn Txn>) -> CommitPosition {
        let position = txn.commit().unwrap().position;
        self.engine.wait_durable(position).unwrap();
        position
    }

    /// Writes a key in a transaction of its own.
    pub fn set(&self, key: &str, value: &str) -> CommitPosition {
        let mut txn = self.begin();
        lock_one(&mut *txn, self.key(key), LockMode::Exclusive).unwrap();
        txn.put(self.key(key), value.as_bytes(), Check::Locked)
            .unwrap();
        self.commit(txn)
    }

    /// Deletes a key in a transaction of its own.
    pub fn delete(&self, key: &str) -> CommitPosition {
        let mut txn = self.begin();
        lock_one(&mut *txn, self.key(key), LockMode::Exclusive).unwrap();
        txn.delete(self.key(key), Check::Locked).unwrap();
        self.commit(txn)
    }

    /// Reads a key in a transaction of its own.
    pub fn get(&self, key: &str) -> Option<String> {
        let mut txn = self.begin();
        read(&mut *txn, Read::SNAPSHOT, self.key(key))
    }

    /// Reads a key inside a transaction, at its snapshot.
    pub fn at_snapshot(&self, txn: &mut dyn Txn, key: &str) -> Option<String> {
        read(txn, Read::SNAPSHOT, self.key(key))
    }

    /// Reads a key inside a transaction, newest state.
    pub fn current(&self, txn: &mut dyn Txn, key: &str) -> Option<String> {
        read(txn, Read::CURRENT, self.key(key))
    }

    /// Whether a transaction gets the lock without a long wait.
    pub fn try_lock(&self, txn: &mut dyn Txn, key: &str, mode: LockMode) -> bool {
        let wait = if self.engine.capabilities().nowait {
            Wait::NoWait
        } else {
            Wait::Until(Instant::now() + Duration::from_millis(300))
        };
        let requests = [LockRequest {
            key: self.key(key),
            mode,
        }];
        match txn.lock(&requests, wait, &mut |_, _| {}) {
            Ok(()) => true,
            Err(Error::LockBusy | Error::LockTimeout) => false,
            Err(other) => panic!("lock: {other}"),
        }
    }
}

/// Reads one key as text.
pub fn read(txn: &mut dyn Txn, read: Read, key: Key<'_>) -> Option<String> {
    let mut out = None;
    let mut calls = 0;
    txn.get(read, &[key], &mut |index, value| {
        assert_eq!(index, 0);
        calls += 1;
        out = value.map(text);
    })
    .unwrap();
    assert_eq!(calls, 1, "a key is visited once");
    out
}

/// Owned result of a lock call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// See [`Locked::granted`].
    pub granted: bool,
    /// See [`Locked::value`].
    pub value: Option<String>,
    /// See [`Locked::newer`].
    pub newer: bool,
    /// See [`Locked::own`].
    pub own: bool,
}

impl Found {
    fn of(locked: Locked<'_>) -> Found {
        Found {
            granted: locked.granted,
            value: locked.value.map(text),
            newer: locked.newer,
            own: locked.own,
        }
    }
}

/// Locks one key, waiting up to [`PATIENCE`].
pub fn lock_one(txn: &mut dyn Txn, key: Key<'_>, mode: LockMode) -> Result<Found, Error> {
    lock_until(txn, key, mode, Instant::now() + PATIENCE)
}

/// Locks one key before a deadline.
pub fn lock_until(
    txn: &mut dyn Txn,
    key: Key<'_>,
    mode: LockMode,
    deadline: Instant,
) -> Result<Found, Error> {
    let mut found = Found::default();
    txn.lock(
        &[LockRequest { key, mode }],
        Wait::Until(deadline),
        &mut |_, locked| found = Found::of(locked),
    )?;
    Ok(found)
}

/// Scans one range to its end in batches of `batch`, resuming as the contract specifies.
pub fn scan_all(
    txn: &mut dyn Txn,
    how: Read,
    range: ScanRange<'_>,
    batch: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    let mut start = range.start.to_vec();
    let mut end = range.end.map(<[u8]>::to_vec);
    loop {
        let part = ScanRange {
            space: range.space,
            start: &start,
            end: end.as_deref(),
            reverse: range.reverse,
        };
        let before = out.len();
        let stopped = txn
            .scan(how, &[part], batch, &mut |index, key, value| {
                assert_eq!(index, 0);
                out.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(out.len() - before <= batch, "more than the limit");
        if how.mode == ReadMode::Snapshot {
            let counted = txn.count(how, &[part], batch).unwrap();
            assert_eq!(counted, (out.len() - before, stopped.clone()), "a count");
        }
        match stopped {
            ScanEnd::Done => return out,
            ScanEnd::Stopped { range: index, key } => {
                assert_eq!(index, 0);
                assert_eq!(out.last().map(|(k, _)| k), Some(&key));
                if range.reverse {
                    end = Some(key);
                } else {
                    start = key;
                    start.push(0);
                }
            }
        }
    }
}

/// Returns all entries of a space, in order, as text.
pub fn dump(txn: &mut dyn Txn, how: Read, space: SpaceId) -> Vec<(String, String)> {
    let range = ScanRange {
        space,
        start: b"",
        end: None,
        reverse: false,
    };
    scan_all(txn, how, range, 100)
        .iter()
        .map(|(k, v)| (text(k), text(v)))
        .collect()
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A small deterministic random generator (xorshift), so that the suite has no dependency.
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
}
