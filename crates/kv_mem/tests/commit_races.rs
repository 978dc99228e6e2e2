//! Commits, the durable LSN and deferred replies with random delays: disk operations pause, and
//! threads yield, at random. Checks the guarantees of transactions.md, 19 and 20, through the
//! engine's public functions.

use parking_lot::Mutex;
use porpoise_base::disk::MemDisk;
use porpoise_kv::{
    Check, CommitPosition, DurableListener, Engine, Error, Key, LockMode, LockRequest, Read,
    SpaceId, Txn, Wait,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

const ACCOUNTS: u8 = 6;
const START: u64 = 1_000;
/// Minimum number of commits of one writer.
const MIN_COMMITS: u32 = 15;

/// Pauses or yields at random.
fn delay_randomly(rng: &mut fastrand::Rng) {
    match rng.u8(0..20) {
        0 => std::thread::sleep(Duration::from_micros(rng.u64(0..200))),
        1..6 => std::thread::yield_now(),
        _ => {}
    }
}

/// Records the notified positions, as a server does that defers replies.
#[derive(Default)]
struct Watermarks {
    notified: AtomicU64,
    /// The newest commit whose reply waits for the listener.
    wanted: AtomicU64,
    /// Whether a position was notified before it was durable.
    ahead: AtomicBool,
    engine: OnceLock<Weak<KvMem>>,
}

impl DurableListener for Watermarks {
    fn durable(&self, position: CommitPosition) {
        // Several threads may notify, in any order, but only of durable positions.
        self.notified.fetch_max(position.0, Ordering::SeqCst);
        let engine = self.engine.get().and_then(Weak::upgrade);
        if engine.is_some_and(|engine| engine.durable_position() < position) {
            self.ahead.store(true, Ordering::SeqCst);
        }
    }

    fn failed(&self, error: &Error) {
        panic!("{error}");
    }
}

fn number(value: Option<&[u8]>) -> u64 {
    u64::from_be_bytes(value.unwrap().try_into().unwrap())
}

fn balances(txn: &mut dyn Txn, read: Read) -> Vec<u64> {
    let names: Vec<[u8; 1]> = (0..ACCOUNTS).map(|n| [n]).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|n| Key::new(SpaceId(1), n)).collect();
    let mut found = vec![0; keys.len()];
    let mut show = |at: usize, value: Option<&[u8]>| found[at] = number(value);
    txn.get(read, &keys, &mut show).unwrap();
    found
}

/// Moves one unit between two locked accounts. Returns the commit position.
fn transfer(engine: &KvMem, rng: &mut fastrand::Rng) -> Result<CommitPosition, Error> {
    let (from, to) = (rng.u8(0..ACCOUNTS), rng.u8(0..ACCOUNTS));
    if from == to {
        return Ok(CommitPosition::NONE);
    }
    let mut txn = engine.begin(Default::default())?;
    let (a, b) = ([from], [to]);
    let keys = [Key::new(SpaceId(1), &a), Key::new(SpaceId(1), &b)];
    let requests = keys.map(|key| LockRequest {
        key,
        mode: LockMode::Update,
    });
    let mut values = [0; 2];
    let wait = Wait::Until(Instant::now() + Duration::from_secs(20));
    txn.lock(&requests, wait, &mut |at, found| {
        values[at] = number(found.value);
    })?;
    delay_randomly(rng);
    let [old, new] = values;
    txn.put(keys[0], &(old - 1).to_be_bytes(), Check::Locked)?;
    txn.put(keys[1], &(new + 1).to_be_bytes(), Check::Locked)?;
    Ok(txn.commit()?.position)
}

/// An engine on a disk with random delays.
struct Fixture {
    engine: Arc<KvMem>,
    watermarks: Arc<Watermarks>,
}

impl Fixture {
    fn open(seed: u64) -> Fixture {
        let disk = MemDisk::new();
        let rng = Mutex::new(fastrand::Rng::with_seed(seed));
        disk.watch(Some(Arc::new(move |_: u64, _: &Path| {
            let mut rng = rng.lock().fork();
            delay_randomly(&mut rng);
        })));
        let engine = KvMem::open(KvMemOptions {
            dir: Some("/data".into()),
            disk: Arc::new(disk),
            segment_bytes: 1 << 16,
            checkpoint_bytes: 1 << 16,
            ..KvMemOptions::default()
        });
        let (engine, watermarks) = (engine.unwrap(), Arc::new(Watermarks::default()));
        watermarks.engine.set(Arc::downgrade(&engine)).unwrap();
        engine.subscribe(watermarks.clone());
        let mut txn = engine.begin(Default::default()).unwrap();
        for name in 0..ACCOUNTS {
            let name = [name];
            let key = Key::new(SpaceId(1), &name);
            let value = START.to_be_bytes();
            txn.put(key, &value, Check::FirstCommitter).unwrap();
        }
        let position = txn.commit().unwrap().position;
        engine.wait_durable(position).unwrap();
        Fixture { engine, watermarks }
    }

    /// Transfers until the time is over, and at least [`MIN_COMMITS`] times on a slow machine.
    fn writer(&self, rng: &mut fastrand::Rng, until: Instant) {
        let mut commits = 0;
        while Instant::now() < until || commits < MIN_COMMITS {
            let position = match transfer(&self.engine, rng) {
                Ok(position) => position,
                Err(Error::Deadlock) => continue,
                Err(other) => panic!("{other}"),
            };
            self.watermarks
                .wanted
                .fetch_max(position.0, Ordering::SeqCst);
            delay_randomly(rng);
            if rng.bool() {
                // The reply was sent: every later snapshot sees the commit.
                self.engine.wait_durable(position).unwrap();
                assert!(self.engine.durable_position() >= position);
                let mut later = self.engine.begin(Default::default()).unwrap();
                later.pin().unwrap();
                balances(&mut *later, Read::SNAPSHOT);
                assert!(later.seen() <= self.engine.durable_position());
            }
            commits += u32::from(position != CommitPosition::NONE);
        }
    }

    fn reader(&self, rng: &mut fastrand::Rng, until: Instant) {
        let all = u64::from(ACCOUNTS) * START;
        while Instant::now() < until {
            // A snapshot shows whole transactions, and the same state twice.
            let mut txn = self.engine.begin(Default::default()).unwrap();
            txn.pin().unwrap();
            let first = balances(&mut *txn, Read::SNAPSHOT);
            assert_eq!(first.iter().sum::<u64>(), all);
            delay_randomly(rng);
            assert_eq!(balances(&mut *txn, Read::SNAPSHOT), first);
            drop(txn);
            // Once the position returned by `seen` is durable, so is all that the current read saw.
            let mut now = self.engine.begin(Default::default()).unwrap();
            balances(&mut *now, Read::CURRENT);
            let seen = now.seen();
            drop(now);
            self.engine.wait_durable(seen).unwrap();
            assert!(self.engine.durable_position() >= seen);
            delay_randomly(rng);
        }
    }
}

#[test]
fn replies_and_snapshots_agree_with_the_log_under_random_delays() {
    for seed in 0..4 {
        let fixture = Fixture::open(seed);
        let until = Instant::now() + Duration::from_millis(400);
        std::thread::scope(|scope| {
            let fixture = &fixture;
            for n in 0..4 {
                scope.spawn(move || {
                    fixture.writer(&mut fastrand::Rng::with_seed(seed * 100 + n), until)
                });
            }
            for n in 4..6 {
                scope.spawn(move || {
                    fixture.reader(&mut fastrand::Rng::with_seed(seed * 100 + n), until)
                });
            }
        });
        assert!(
            !fixture.watermarks.ahead.load(Ordering::SeqCst),
            "notified before the sync"
        );
        // Every deferred reply is released without another request.
        let wanted = fixture.watermarks.wanted.load(Ordering::SeqCst);
        let end = Instant::now() + Duration::from_secs(10);
        while fixture.watermarks.notified.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < end, "a deferred reply is never released");
            std::thread::yield_now();
        }
        fixture.engine.shutdown().unwrap();
    }
}
