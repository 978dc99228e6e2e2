//! Synchronization primitives under the shuttle scheduler (`--cfg shuttle`).
//!
//! Atomics are the standard library's with a scheduling point ([`scheduling_point`]) before each
//! operation. So they keep their size, and may be used outside of a schedule, as by
//! destructors that run after the test.

pub mod atomic;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync as inner;
use shuttle::{Config, MaxSteps, Runner};
use std::ops::{Deref, DerefMut};
use std::sync::{OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use shuttle::thread;

/// A mutex.
#[derive(Default)]
pub struct Mutex<T>(inner::Mutex<T>);

/// Guard returned by [`Mutex::lock`].
pub struct MutexGuard<'a, T> {
    /// Empty only inside of [`Condvar::wait`].
    held: Option<inner::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(inner::Mutex::new(value))
    }

    /// Locks the mutex, waiting for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard {
            held: Some(held),
            mutex: self,
        }
    }

    /// Locks the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard {
            held: Some(held),
            mutex: self,
        })
    }
}

impl<T> MutexGuard<'_, T> {
    /// Runs `f` with the mutex unlocked.
    pub fn unlocked<U>(guard: &mut Self, f: impl FnOnce() -> U) -> U {
        guard.held = None;
        let done = f();
        guard.held = guard.mutex.lock().held.take();
        done
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.held {
            Some(held) => held,
            None => unreachable!("a guard is empty only while its thread waits"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.held {
            Some(held) => held,
            None => unreachable!("a guard is empty only while its thread waits"),
        }
    }
}

/// Result of a wait with a deadline. Time does not advance: waits end only by wake-ups.
pub struct WaitTimeoutResult;

impl WaitTimeoutResult {
    /// Whether the deadline came first.
    pub fn timed_out(&self) -> bool {
        false
    }
}

/// A condition variable.
#[derive(Default)]
pub struct Condvar(inner::Condvar);

impl Condvar {
    /// Creates a condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(inner::Condvar::new())
    }

    /// Sleeps until woken; the mutex is free meanwhile.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        // Lets other threads run between the caller's last check and the sleep.
        scheduling_point();
        if let Some(held) = guard.held.take() {
            let woken = self.0.wait(held);
            guard.held = Some(woken.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Sleeps until woken: time does not advance.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    /// Sleeps until woken: time does not advance.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    /// Wakes one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock with many readers or one writer.
#[derive(Default)]
pub struct RwLock<T>(inner::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(inner::RwLock::new(value))
    }

    /// Locks for reading.
    pub fn read(&self) -> inner::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for writing.
    pub fn write(&self) -> inner::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A mutex that protects no value.
pub trait RawLatch {
    /// An unlocked mutex.
    const INIT: Self;

    /// Locks the mutex, waiting for it.
    fn lock(&self);

    /// Unlocks the mutex.
    ///
    /// # Safety
    /// The caller has locked the mutex and not unlocked it since.
    unsafe fn unlock(&self);
}

/// The only implementation of [`RawLatch`].
pub struct RawMutex(std::sync::atomic::AtomicBool);

impl RawLatch for RawMutex {
    const INIT: RawMutex = RawMutex(std::sync::atomic::AtomicBool::new(false));

    fn lock(&self) {
        scheduling_point();
        while self.0.swap(true, std::sync::atomic::Ordering::SeqCst) {
            // Lets the thread that holds the lock run.
            if shuttle::current::try_get_current_task().is_some() {
                thread::yield_now();
            }
        }
    }

    unsafe fn unlock(&self) {
        self.0.store(false, std::sync::atomic::Ordering::SeqCst);
        scheduling_point();
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs a model under many schedules: half of them random, half by probabilistic concurrency
/// testing (PCT, Burckhardt et al., 2010), which switches threads only at `changes` chosen
/// points and so finds faults in which one thread is delayed for long. `default_count` is the number
/// of schedules of each kind, unless `SCHEDULES` is set; `SCHEDULE_SEED` is the first seed.
/// A deadlock, a panic or a run without end fails the test and prints the schedule.
pub fn explore(default_count: usize, changes: usize, model: fn()) {
    let requested = number("SCHEDULES").and_then(|n| usize::try_from(n).ok());
    let times = requested.unwrap_or(default_count);
    let seed = number("SCHEDULE_SEED").unwrap_or(1);
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(3_000_000);
    config.silence_warnings = true;
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    let random = RandomScheduler::new_from_seed(seed, times);
    assert_eq!(Runner::new(random, config.clone()).run(model), times);
    let steady = PctScheduler::new_from_seed(seed, changes, times);
    assert_eq!(Runner::new(steady, config).run(model), times);
}

/// One round of a bounded spin. A scheduling point, but not a yield as shuttle's `spin_loop`
/// is, so that schedules also reach the code after the spin.
pub fn spin_loop() {
    scheduling_point();
}

/// A scheduling point: the scheduler may switch threads here.
pub fn scheduling_point() {
    if shuttle::current::try_get_current_task().is_some() {
        let place = inner::atomic::AtomicBool::new(false);
        place.load(std::sync::atomic::Ordering::SeqCst);
    }
}

/// A constant time: under the scheduler, time does not advance.
pub fn now() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}
