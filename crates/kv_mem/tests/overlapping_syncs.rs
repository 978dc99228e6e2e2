//! Several syncs of the log in flight: order of acknowledgement, failures, power cuts.

use crate::common::controlled_disk::ControlledDisk;
use crate::common::{all, options, set, write};
use parking_lot::Mutex;
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::{CommitPosition, DurableListener, Engine, Error};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Duration of a sync that is long enough for several to be in flight.
const LONG_SYNC: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Notifications(Mutex<CommitPosition>);

impl DurableListener for Notifications {
    fn durable(&self, position: CommitPosition) {
        *self.0.lock() = position;
    }
    fn failed(&self, _: &Error) {}
}

/// A store whose syncs are held, its disk, and the last durable position that its listener received.
struct Store {
    disk: ControlledDisk,
    engine: Arc<KvMem>,
    notified: Arc<Notifications>,
}

impl Store {
    fn open() -> Store {
        let disk = ControlledDisk::new();
        let engine = KvMem::open(KvMemOptions {
            disk: Arc::new(disk.clone()),
            segment_bytes: 1 << 17,
            checkpoint_bytes: 1 << 30,
            ..options(&disk.disk)
        })
        .unwrap();
        let notified = Arc::new(Notifications::default());
        engine.subscribe(notified.clone());
        disk.delay_syncs(LONG_SYNC);
        for n in 0..4 {
            set(&engine, "warm", &format!("{n}")).unwrap();
        }
        disk.hold_syncs();
        Store {
            disk,
            engine,
            notified,
        }
    }

    /// Commits a row in a group of its own, the one with this number. Returns when the group's sync is held.
    fn commit(&self, number: usize, value: &str) -> CommitPosition {
        let name = format!("k{number}");
        let position = write(&self.engine, &[(&name, Some(value))]).unwrap();
        self.disk.wait_held(number + 1);
        position
    }

    /// Ends a sync, and gives the store time to react.
    fn end_sync(&self, number: usize, succeeds: bool) {
        self.disk.end_sync(number, succeeds);
        std::thread::sleep(Duration::from_millis(20));
    }

    fn assert_not_durable(&self, position: CommitPosition) {
        assert!(self.engine.durable_position() < position);
        assert!(*self.notified.0.lock() < position);
    }

    fn assert_unknown(&self, position: CommitPosition) {
        let outcome = self.engine.wait_durable(position);
        assert!(
            matches!(outcome, Err(Error::UnknownOutcome(_))),
            "{outcome:?}"
        );
        self.assert_not_durable(position);
        assert!(set(&self.engine, "later", "1").is_err());
    }
}

impl Drop for Store {
    /// Lets the engine end, also after a failed assertion.
    fn drop(&mut self) {
        self.disk.release_syncs();
    }
}

#[test]
fn a_group_is_acknowledged_after_those_before_it() {
    let store = Store::open();
    let positions = [0, 1, 2].map(|n| store.commit(n, "value"));
    store.end_sync(1, true);
    store.assert_not_durable(positions[0]);
    store.end_sync(0, true);
    store.engine.wait_durable(positions[1]).unwrap();
    store.assert_not_durable(positions[2]);
    // Group 1 has become durable: the header of group 3 may name it.
    store.commit(3, "value");
    store.end_sync(3, true);
    store.assert_not_durable(positions[2]);
    store.end_sync(2, true);
    store.engine.wait_durable(positions[2]).unwrap();
}

#[test]
fn a_failed_sync_leaves_the_groups_after_it_unknown() {
    let store = Store::open();
    let positions = [0, 1].map(|n| store.commit(n, "value"));
    store.end_sync(1, true);
    store.end_sync(0, false);
    for position in positions {
        store.assert_unknown(position);
    }
}

#[test]
fn after_a_failed_sync_the_success_of_another_acknowledges_nothing() {
    let store = Store::open();
    let positions = [0, 1].map(|n| store.commit(n, "value"));
    store.end_sync(1, false);
    store.end_sync(0, true);
    for position in positions {
        store.assert_unknown(position);
    }
}

/// Whether the log contains a value.
fn has_value(disk: &MemDisk, value: &str) -> bool {
    let dir = Path::new("/data");
    let names = disk.list(dir).unwrap();
    let mut logs = names.iter().filter(|name| name.starts_with("log-0"));
    logs.any(|name| {
        let bytes = disk.open(&dir.join(name)).unwrap().read_all().unwrap();
        bytes.windows(value.len()).any(|w| w == value.as_bytes())
    })
}

#[test]
fn a_power_cut_keeps_the_groups_before_the_first_that_is_torn() {
    let store = Store::open();
    let values = [100, 1500, 80, 700].map(|len| {
        let filling = "x".repeat(len);
        format!("[{len} {filling}]")
    });
    for (n, value) in values.iter().enumerate() {
        store.commit(n, value);
    }
    let (mut kept, mut whole_after_torn) = ([0; 5], 0);
    for seed in 0..150 {
        let after = store.disk.disk.after_power_cut(seed);
        let found = values.each_ref().map(|value| has_value(&after, value));
        let prefix = found.iter().take_while(|found| **found).count();
        whole_after_torn += usize::from(found.iter().skip(prefix).any(|found| *found));
        let engine = KvMem::open(options(&after)).unwrap();
        let rows = all(&engine);
        for (n, value) in values.iter().enumerate() {
            let row = rows.get(&format!("k{n}"));
            assert_eq!(row == Some(value), n < prefix, "seed {seed}, group {n}");
        }
        assert_eq!(rows.get("warm").map(String::as_str), Some("3"));
        set(&engine, "after", "1").unwrap();
        drop(engine);
        assert_eq!(all(&KvMem::open(options(&after)).unwrap())["after"], "1");
        kept[prefix] += 1;
    }
    assert!(kept.iter().all(|count| *count > 0), "{kept:?}");
    assert!(whole_after_torn > 10, "{whole_after_torn}");
}

#[test]
fn what_is_acknowledged_is_on_disk_under_load_and_over_segments() {
    let disk = MemDisk::new();
    disk.watch(Some(Arc::new(|_, path: &Path| {
        if path.to_string_lossy().contains("log-spare") {
            std::thread::sleep(Duration::from_micros(400));
        }
    })));
    let engine = KvMem::open(options(&disk)).unwrap();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (engine, disk) = (&engine, &disk);
            scope.spawn(move || {
                for n in 0..12 {
                    let value = format!("<{client} {n} {}>", "y".repeat(client * 60));
                    set(engine, &format!("c{client}"), &value).unwrap();
                    assert!(has_value(&disk.synced(), &value), "{value}");
                }
            });
        }
    });
    let expected = all(&engine);
    assert_eq!(expected.len(), 8);
    let cut = disk.synced();
    drop(engine);
    assert_eq!(all(&KvMem::open(options(&cut)).unwrap()), expected);
}
