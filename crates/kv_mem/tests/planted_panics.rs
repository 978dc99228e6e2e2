//! A panic in a background thread of the engine ends the process, and [`Engine::stalled`] reports
//! a disk that hangs.
//!
//! Panics are planted beneath the engine, by a disk and a clock that panic on a thread of the
//! wanted name. Each runs in a process of its own: this test binary, started again.

use crate::common::{options, set};
use porpoise_base::clock::{Clock, ManualClock, SystemClock};
use porpoise_base::disk::MemDisk;
use porpoise_base::threads::PANIC_EXIT_STATUS;
use porpoise_kv::Engine;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const CHILD: &str = "PORPOISE_TEST_PLANTED_PANIC";

/// Panics on the thread with the planted name.
fn panic_if_planted(name: &str) {
    assert!(std::thread::current().name() != Some(name), "planted");
}

/// The system clock, with a panic on one thread.
struct PlantedClock {
    name: String,
    armed: Arc<AtomicBool>,
}

impl Clock for PlantedClock {
    fn unix_micros(&self) -> i64 {
        SystemClock.unix_micros()
    }

    fn now(&self) -> Instant {
        if self.armed.load(Ordering::SeqCst) {
            panic_if_planted(&self.name);
        }
        SystemClock.now()
    }
}

/// Not a test by itself: the process that the test below starts.
#[test]
fn child() {
    let Ok(name) = std::env::var(CHILD) else {
        return;
    };
    let disk = MemDisk::new();
    let armed = Arc::new(AtomicBool::new(false));
    let clock = PlantedClock {
        name: name.clone(),
        armed: armed.clone(),
    };
    let engine = KvMem::open(KvMemOptions {
        clock: Arc::new(clock),
        ..options(&disk)
    })
    .unwrap();
    set(&engine, "before", "1").unwrap();
    if name == "reclaimer" {
        armed.store(true, Ordering::SeqCst);
    } else {
        let planted = name.clone();
        disk.watch(Some(Arc::new(move |_, _| panic_if_planted(&planted))));
    }
    // Enough for a new segment and a checkpoint. Not all of these end.
    let value = "v".repeat(1000);
    for n in 0..200 {
        let _ = set(&engine, &format!("key-{n}"), &value);
    }
    std::thread::sleep(Duration::from_secs(5));
    // The thread ends the process before.
    std::process::exit(3);
}

#[test]
fn a_panic_in_any_background_thread_ends_the_process() {
    for name in ["log", "log-spare", "checkpointer", "reclaimer"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "planted_panics::child", "--nocapture"])
            .env(CHILD, name)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(PANIC_EXIT_STATUS),
            "{name}: {errors}"
        );
        let message = format!("internal error in thread {name}: planted");
        assert!(errors.contains(&message), "{errors}");
    }
}

/// Holds a thread of one name at its next disk operation until opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    reached: AtomicBool,
}

impl Gate {
    fn pass(&self, name: &str) {
        if std::thread::current().name() != Some(name) {
            return;
        }
        self.reached.store(true, Ordering::SeqCst);
        let open = self.open.lock().unwrap();
        drop(self.changed.wait_while(open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The disk hangs under a thread: [`Engine::stalled`] reports the thread after `limit` of the
/// engine's clock, not before, and no longer once the disk responds again.
fn stuck_disk(name: &'static str, limit: Duration) {
    let (disk, clock) = (MemDisk::new(), Arc::new(ManualClock::default()));
    let engine = KvMem::open(KvMemOptions {
        clock: clock.clone(),
        ..options(&disk)
    })
    .unwrap();
    set(&engine, "before", "1").unwrap();
    assert_eq!(engine.stalled(), Vec::<String>::new());
    let gate = Arc::new(Gate::default());
    let watching = gate.clone();
    disk.watch(Some(Arc::new(move |_, _| watching.pass(name))));
    let writer = {
        let engine = engine.clone();
        std::thread::spawn(move || {
            let value = "v".repeat(1000);
            for n in 0..60 {
                set(&engine, &format!("key-{n}"), &value).unwrap();
            }
        })
    };
    eventually("the thread reaches the disk", || {
        gate.reached.load(Ordering::SeqCst)
    });
    // The other threads record steps meanwhile.
    clock.advance(limit.mul_f64(0.8));
    assert!(!engine.stalled().iter().any(|s| s.starts_with(name)));
    clock.advance(limit.mul_f64(0.4));
    let stalled = engine.stalled();
    assert!(stalled.iter().any(|s| s.starts_with(name)), "{stalled:?}");
    gate.open();
    writer.join().unwrap();
    eventually("the thread continues", || engine.stalled().is_empty());
    engine.shutdown().unwrap();
    clock.advance(Duration::from_secs(100));
    assert_eq!(engine.stalled(), Vec::<String>::new());
}

#[test]
fn a_disk_that_hangs_under_the_log_thread_is_reported() {
    stuck_disk("log", Duration::from_secs(1));
}

#[test]
fn a_disk_that_hangs_under_the_checkpointer_is_reported() {
    stuck_disk("checkpointer", Duration::from_secs(30));
}
