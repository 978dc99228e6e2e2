//! Commits, the durable LSN and deferred replies under threads that stumble: the
//! disk stands still for random moments, threads give way at random. What the
//! rules promise is checked from the outside (transactions.md, 19 and 20).

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
/// Commits of one writer, at least.
const COMMITS: u32 = 15;

fn stumble(rng: &mut fastrand::Rng) {
    match rng.u8(0..20) {
        0 => std::thread::sleep(Duration::from_micros(rng.u64(0..200))),
        1..6 => std::thread::yield_now(),
        _ => {}
    }
}

/// Hears of the mark, as the listener does that holds replies.
#[derive(Default)]
struct Marks {
    reached: AtomicU64,
    /// The newest commit whose reply waits for the listener.
    wanted: AtomicU64,
    ahead: AtomicBool,
    engine: OnceLock<Weak<KvMem>>,
}

impl DurableListener for Marks {
    fn durable(&self, mark: CommitPosition) {
        // Several threads may tell, in any order; but never of what is not durable.
        self.reached.fetch_max(mark.0, Ordering::SeqCst);
        let engine = self.engine.get().and_then(Weak::upgrade);
        if engine.is_some_and(|engine| engine.durable_position() < mark) {
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

/// Moves one unit between two locked accounts, and counts itself in a third
/// place; gives the position.
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
    stumble(rng);
    let [old, new] = values;
    txn.put(keys[0], &(old - 1).to_be_bytes(), Check::Locked)?;
    txn.put(keys[1], &(new + 1).to_be_bytes(), Check::Locked)?;
    Ok(txn.commit()?.position)
}

struct Bed {
    engine: Arc<KvMem>,
    marks: Arc<Marks>,
}

impl Bed {
    fn open(seed: u64) -> Bed {
        let disk = MemDisk::new();
        let rng = Mutex::new(fastrand::Rng::with_seed(seed));
        disk.watch(Some(Arc::new(move |_: u64, _: &Path| {
            let mut rng = rng.lock().fork();
            stumble(&mut rng);
        })));
        let engine = KvMem::open(KvMemOptions {
            dir: Some("/data".into()),
            disk: Arc::new(disk),
            segment_bytes: 1 << 16,
            checkpoint_bytes: 1 << 16,
            ..KvMemOptions::default()
        });
        let (engine, marks) = (engine.unwrap(), Arc::new(Marks::default()));
        marks.engine.set(Arc::downgrade(&engine)).unwrap();
        engine.subscribe(marks.clone());
        let mut txn = engine.begin(Default::default()).unwrap();
        for name in 0..ACCOUNTS {
            let name = [name];
            let key = Key::new(SpaceId(1), &name);
            let value = START.to_be_bytes();
            txn.put(key, &value, Check::FirstCommitter).unwrap();
        }
        let position = txn.commit().unwrap().position;
        engine.wait_durable(position).unwrap();
        Bed { engine, marks }
    }

    /// Transfers until the time is over, and at least [`COMMITS`] times on a slow machine.
    fn writer(&self, rng: &mut fastrand::Rng, until: Instant) {
        let mut commits = 0;
        while Instant::now() < until || commits < COMMITS {
            let position = match transfer(&self.engine, rng) {
                Ok(position) => position,
                Err(Error::Deadlock) => continue,
                Err(other) => panic!("{other}"),
            };
            self.marks.wanted.fetch_max(position.0, Ordering::SeqCst);
            stumble(rng);
            if rng.bool() {
                // A client that got its reply: whoever begins now sees it.
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
            // A snapshot shows whole transactions, and the same ones again.
            let mut txn = self.engine.begin(Default::default()).unwrap();
            txn.pin().unwrap();
            let first = balances(&mut *txn, Read::SNAPSHOT);
            assert_eq!(first.iter().sum::<u64>(), all);
            stumble(rng);
            assert_eq!(balances(&mut *txn, Read::SNAPSHOT), first);
            drop(txn);
            // Once the position returned by `seen` is durable, so is all that the current read saw.
            let mut now = self.engine.begin(Default::default()).unwrap();
            balances(&mut *now, Read::CURRENT);
            let seen = now.seen();
            drop(now);
            self.engine.wait_durable(seen).unwrap();
            assert!(self.engine.durable_position() >= seen);
            stumble(rng);
        }
    }
}

#[test]
fn replies_and_snapshots_agree_with_the_log_however_threads_stumble() {
    for seed in 0..4 {
        let bed = Bed::open(seed);
        let until = Instant::now() + Duration::from_millis(400);
        std::thread::scope(|scope| {
            let bed = &bed;
            for n in 0..4 {
                scope.spawn(move || {
                    bed.writer(&mut fastrand::Rng::with_seed(seed * 100 + n), until)
                });
            }
            for n in 4..6 {
                scope.spawn(move || {
                    bed.reader(&mut fastrand::Rng::with_seed(seed * 100 + n), until)
                });
            }
        });
        assert!(!bed.marks.ahead.load(Ordering::SeqCst), "told too early");
        // Every reply that is held is let go without anybody asking again.
        let wanted = bed.marks.wanted.load(Ordering::SeqCst);
        let end = Instant::now() + Duration::from_secs(10);
        while bed.marks.reached.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < end, "a reply is held for ever");
            std::thread::yield_now();
        }
        bed.engine.shutdown().unwrap();
    }
}
