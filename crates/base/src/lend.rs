//! A cell from which a lent value can be retaken.
//!
//! The owner of a value puts it into the cell while it runs code of unknown
//! duration, and takes it back afterwards. A supervisor that sees one loan last
//! too long takes the value itself and gives it to another owner, as
//! Go's `sysmon` retakes a processor from a goroutine in a long system call.
//! Lending costs a store, taking back one uncontended atomic exchange.
//!
//! ```text
//!   owner         lend(v) .......... long call .......... take() -> None
//!   supervisor               take() -> v, to another owner
//! ```
//!
//! Invariants:
//! 1. A value has exactly one owner: the cell, or the one thread whose
//!    [`LendCell::take`] exchanged the pointer for null.
//! 2. Only the owner thread lends, and only into an empty cell. Hence `None` from
//!    the owner's `take` means that its own loan was retaken, and an owner never
//!    takes a value that another owner lent (no ABA: cells belong to owners, not
//!    to values).
//! 3. [`LendCell::loans`] rises before each loan becomes visible. A supervisor
//!    that saw the same count twice with a value in the cell saw one loan;
//!    between its last check and its `take` the next loan may have begun. Then the
//!    supervisor takes a young loan, which costs a needless hand-over and no more.
//!
//! Rejected: a mutex around an `Option` (four atomic operations a call instead
//! of one); one cell per value instead of per owner (a stalled owner that
//! returns could take the loan of its successor).

#![allow(unsafe_code, reason = "a Box travels as a raw pointer")]

use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::marker::PhantomData;
use std::ptr;

/// A cell that holds a lent value, or nothing; see the module.
#[derive(Debug)]
pub struct LendCell<T> {
    value: AtomicPtr<T>,
    loans: AtomicU64,
    owns: PhantomData<Box<T>>,
}

// SAFETY: the cell moves a `Box<T>` between threads and never shares a `&T`.
unsafe impl<T: Send> Send for LendCell<T> {}
// SAFETY: as above; every access to the pointer is atomic.
unsafe impl<T: Send> Sync for LendCell<T> {}

impl<T> Default for LendCell<T> {
    fn default() -> LendCell<T> {
        LendCell {
            value: AtomicPtr::new(ptr::null_mut()),
            loans: AtomicU64::new(0),
            owns: PhantomData,
        }
    }
}

impl<T> LendCell<T> {
    /// Puts `value` into the cell. Only the cell's owner calls this, while the
    /// cell is empty.
    pub fn lend(&self, value: Box<T>) {
        let next = self.loans.load(Ordering::Relaxed).wrapping_add(1);
        self.loans.store(next, Ordering::Relaxed);
        debug_assert!(self.is_empty(), "a second loan");
        self.value.store(Box::into_raw(value), Ordering::Release);
    }

    /// Takes the value out; `None` if the cell is empty, which it also is after
    /// another thread took the value.
    pub fn take(&self) -> Option<Box<T>> {
        let taken = self.value.swap(ptr::null_mut(), Ordering::AcqRel);
        if taken.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `Box::into_raw` in `lend`, and the
        // exchange gave it to this call alone.
        Some(unsafe { Box::from_raw(taken) })
    }

    /// Whether nothing is lent.
    pub fn is_empty(&self) -> bool {
        self.value.load(Ordering::Acquire).is_null()
    }

    /// Number of loans so far.
    pub fn loans(&self) -> u64 {
        self.loans.load(Ordering::Relaxed)
    }
}

impl<T> Drop for LendCell<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_is_taken_once_and_is_dropped_with_the_cell() {
        let value = Arc::new(());
        let cell = LendCell::default();
        assert!(cell.take().is_none());
        cell.lend(Box::new(value.clone()));
        assert_eq!((cell.is_empty(), cell.loans()), (false, 1));
        assert!(cell.take().is_some());
        assert!(cell.is_empty() && cell.take().is_none());
        cell.lend(Box::new(value.clone()));
        drop(cell);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn of_two_threads_exactly_one_takes_each_loan() {
        const LOANS: u64 = 200_000;
        let cell = Arc::new(LendCell::default());
        let theirs = cell.clone();
        let supervisor = std::thread::spawn(move || {
            let mut retaken = 0u64;
            while theirs.loans() < LOANS {
                retaken += u64::from(theirs.take().is_some());
            }
            retaken
        });
        let mut back = 0;
        for n in 0..LOANS {
            cell.lend(Box::new(n));
            if let Some(value) = cell.take() {
                assert_eq!(*value, n);
                back += 1;
            }
        }
        assert_eq!(supervisor.join().unwrap() + back, LOANS);
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use crate::sync::atomic::{AtomicBool, AtomicUsize};
    use crate::sync::{Condvar, Mutex, explore, thread};
    use std::collections::VecDeque;
    use std::sync::Arc;

    const CALLS: usize = 6;

    /// An event loop that counts its calls.
    struct EventLoop {
        calls: usize,
        owners: Arc<AtomicUsize>,
    }

    impl EventLoop {
        /// Runs one call and asserts that the event loop has one owner. False after the last
        /// call.
        fn next(&mut self) -> bool {
            assert_eq!(self.owners.fetch_add(1, Ordering::SeqCst), 0);
            self.calls += 1;
            assert_eq!(self.owners.fetch_sub(1, Ordering::SeqCst), 1);
            self.calls <= CALLS
        }
    }

    /// Model of the worker pool: event loops without a worker, and each worker's cell.
    #[derive(Default)]
    struct Workers {
        queue: Mutex<VecDeque<Box<EventLoop>>>,
        queued: Condvar,
        cells: [LendCell<EventLoop>; 2],
        returned: AtomicUsize,
        served: AtomicUsize,
        over: AtomicBool,
    }

    impl Workers {
        fn queue_for_worker(&self, event_loop: Box<EventLoop>) {
            self.queue.lock().push_back(event_loop);
            self.queued.notify_one();
        }

        fn next_event_loop(&self) -> Option<Box<EventLoop>> {
            let mut queue = self.queue.lock();
            loop {
                if self.over.load(Ordering::SeqCst) {
                    return None;
                }
                if let Some(event_loop) = queue.pop_front() {
                    return Some(event_loop);
                }
                self.queued.wait(&mut queue);
            }
        }

        /// Runs worker `me` until the event_loop has ended.
        fn work(&self, me: usize) {
            while let Some(mut event_loop) = self.next_event_loop() {
                loop {
                    if !event_loop.next() {
                        self.over.store(true, Ordering::SeqCst);
                        drop(self.queue.lock());
                        self.queued.notify_all();
                        return;
                    }
                    self.cells[me].lend(event_loop);
                    self.served.fetch_add(1, Ordering::SeqCst);
                    match self.cells[me].take() {
                        Some(mine) => event_loop = mine,
                        None => {
                            // Retaken: the worker hands its connection back through the inbox.
                            self.returned.fetch_add(1, Ordering::SeqCst);
                            break;
                        }
                    }
                }
            }
        }

        /// Model of the supervisor: retakes lent event loops in four passes over the cells.
        /// Returns the number of retakes.
        fn supervise(&self) -> usize {
            let mut retaken = 0;
            for _ in 0..4 {
                for cell in &self.cells {
                    if let Some(event_loop) = cell.take() {
                        retaken += 1;
                        self.queue_for_worker(event_loop);
                    }
                }
            }
            retaken
        }
    }

    #[test]
    fn an_event_loop_has_one_owner_and_a_retaken_worker_always_detects_it() {
        explore(3000, 4, || {
            let workers = Arc::new(Workers::default());
            workers.queue_for_worker(Box::new(EventLoop {
                calls: 0,
                owners: Arc::default(),
            }));
            let threads: Vec<_> = (0..2)
                .map(|me| {
                    let workers = workers.clone();
                    thread::spawn(move || workers.work(me))
                })
                .collect();
            let supervisor = {
                let workers = workers.clone();
                thread::spawn(move || workers.supervise())
            };
            let retaken = supervisor.join().unwrap();
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(workers.served.load(Ordering::SeqCst), CALLS);
            assert_eq!(workers.returned.load(Ordering::SeqCst), retaken);
        });
    }
}
