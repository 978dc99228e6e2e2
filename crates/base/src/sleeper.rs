//! Parks a worker without losing wake-ups (an event count).
//!
//! A worker has deferred replies that wait for the durable LSN, and sleeps when it has
//! nothing else to do. Another thread that advances the LSN, or sends the worker a message,
//! wakes it only if it sleeps: waking costs a system call.
//!
//! Invariants:
//! 1. No lost wake-up: the worker stores `lowest` and `sleeping`, then reads everything that
//!    may wake it; another thread stores its message or the LSN, then reads `sleeping` (and
//!    `lowest`). All accesses are sequentially consistent, so one of the two sees the other.
//! 2. Of several threads that find the worker asleep, one wakes it.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Sleep state of a worker: whether it sleeps, and the durable LSN that it waits for.
#[derive(Debug)]
pub struct Sleeper {
    sleeping: AtomicBool,
    lowest: AtomicU64,
}

impl Default for Sleeper {
    fn default() -> Sleeper {
        Sleeper {
            sleeping: AtomicBool::new(false),
            lowest: AtomicU64::new(u64::MAX),
        }
    }
}

impl Sleeper {
    /// Publishes that the worker is about to sleep until the durable LSN has reached `lowest`
    /// ([`u64::MAX`]: no LSN wakes it) or another message arrives. The worker must check
    /// everything that may wake it after this call and before it sleeps.
    pub fn prepare_to_sleep(&self, lowest: u64) {
        self.lowest.store(lowest, Ordering::SeqCst);
        self.sleeping.store(true, Ordering::SeqCst);
    }

    /// The worker is awake again.
    pub fn finish_sleep(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Whether the worker sleeps, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst)
    }

    /// Whether the caller must wake the worker; call it after storing a message. At most one
    /// caller gets true for each sleep.
    pub fn wake(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst) && self.sleeping.swap(false, Ordering::SeqCst)
    }

    /// Whether the caller must wake the worker; call it after storing the durable LSN `lsn`.
    pub fn wake_for(&self, lsn: u64) -> bool {
        self.lowest.load(Ordering::SeqCst) <= lsn && self.wake()
    }

    /// Whether the worker waited for a durable LSN when it last fell asleep.
    pub fn waits_for_position(&self) -> bool {
        self.lowest.load(Ordering::SeqCst) != u64::MAX
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use crate::sync::{Condvar, Mutex, explore, thread};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// Model of a worker group and the log; `signals` and `signalled` stand for the eventfd.
    #[derive(Default)]
    struct Group {
        sleeper: Sleeper,
        lsn: AtomicU64,
        dirty: AtomicBool,
        /// Replies that other threads handed over, by the commit position that each waits for.
        inbox: Mutex<Vec<u64>>,
        signals: Mutex<u32>,
        signalled: Condvar,
    }

    impl Group {
        fn signal(&self) {
            *self.signals.lock() += 1;
            self.signalled.notify_one();
        }

        /// Sleeps until the eventfd is signalled; returns at once if it already was.
        fn sleep(&self) {
            let mut signals = self.signals.lock();
            while *signals == 0 {
                self.signalled.wait(&mut signals);
            }
            *signals = 0;
        }

        /// The log thread: one sync after the other.
        fn sync_up_to(&self, last: u64) {
            for lsn in 1..=last {
                self.lsn.fetch_max(lsn, Ordering::SeqCst);
                if self.sleeper.wake_for(lsn) {
                    self.signal();
                }
            }
        }

        fn hand_over(&self, position: u64) {
            self.inbox.lock().push(position);
            self.dirty.store(true, Ordering::SeqCst);
            if self.sleeper.wake() {
                self.signal();
            }
        }

        /// The worker: sends `count` replies, each after its sync.
        fn serve(&self, count: usize) -> Vec<u64> {
            let mut deferred: BTreeMap<u64, ()> = BTreeMap::new();
            let mut sent = Vec::new();
            loop {
                if self.dirty.load(Ordering::SeqCst) {
                    self.dirty.store(false, Ordering::SeqCst);
                    let handed_over = std::mem::take(&mut *self.inbox.lock());
                    deferred.extend(handed_over.into_iter().map(|position| (position, ())));
                }
                let lsn = self.lsn.load(Ordering::SeqCst);
                while let Some((position, ())) = deferred.first_key_value().map(|(t, u)| (*t, *u)) {
                    if position > lsn {
                        break;
                    }
                    deferred.remove(&position);
                    sent.push(position);
                }
                if sent.len() >= count {
                    return sent;
                }
                let lowest = deferred.keys().next().copied().unwrap_or(u64::MAX);
                self.sleeper.prepare_to_sleep(lowest);
                let stirred =
                    self.dirty.load(Ordering::SeqCst) || self.lsn.load(Ordering::SeqCst) >= lowest;
                if !stirred {
                    self.sleep();
                }
                self.sleeper.finish_sleep();
            }
        }
    }

    #[test]
    fn every_deferred_reply_is_sent_exactly_once() {
        explore(3000, 4, || {
            let group = Arc::new(Group::default());
            let worker = {
                let group = group.clone();
                thread::spawn(move || group.serve(4))
            };
            let log = {
                let group = group.clone();
                thread::spawn(move || group.sync_up_to(4))
            };
            for position in [1, 3] {
                group.hand_over(position);
            }
            let other = {
                let group = group.clone();
                thread::spawn(move || [2, 4].map(|position| group.hand_over(position)))
            };
            let mut sent = worker.join().unwrap();
            log.join().unwrap();
            other.join().unwrap();
            sent.sort_unstable();
            assert_eq!(sent, [1, 2, 3, 4]);
        });
    }
}
