//! The long form: the corpus runs beside ordinary clients of both protocols.

use crate::corpus::{Attack, attacks};
use crate::support::{Cache, Random, Sql, map_prefix, server};
use crate::{attacked, memory, prepare};
use porpoise_testkit::Porpoise;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Clients of each protocol.
const CLIENTS: u64 = 8;
/// Time for which the ordinary clients run alone, before the attackers start.
const QUIET: Duration = Duration::from_secs(20);
/// Time for which the attackers run.
const TIME: Duration = Duration::from_secs(180);
/// Longest wait of an ordinary client, on an otherwise idle machine of few cores.
const BOUND: Duration = Duration::from_secs(3);

/// Times of one class of requests.
#[derive(Default)]
struct Times(Mutex<Vec<Duration>>);

/// Percentiles of a class of requests.
struct Percentiles {
    p99: Duration,
    longest: Duration,
}

impl Times {
    fn add(&self, since: Instant) {
        self.0.lock().unwrap().push(since.elapsed());
    }

    /// Prints and removes the times so far.
    fn take(&self, class: &str) -> Percentiles {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap());
        all.sort_unstable();
        assert!(!all.is_empty(), "no requests of class {class}");
        let at = |permille: usize| all[(all.len() - 1) * permille / 1000];
        println!(
            "{class}: {} requests, p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
            all.len(),
            at(500),
            at(990),
            at(999),
            at(1000)
        );
        Percentiles {
            p99: at(990),
            longest: at(1000),
        }
    }
}

/// Runs the corpus in a loop, from its own starting point, until the end.
fn attacker(
    server: &Porpoise,
    corpus: &[Attack],
    first: usize,
    over: &AtomicBool,
    done: &AtomicU64,
) {
    let mut killer = Sql::connect(server.mysql_addr);
    for attack in corpus.iter().cycle().skip(first) {
        if over.load(Ordering::Relaxed) {
            return;
        }
        attacked(server, &mut killer, attack);
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "three minutes of attacks beside sixteen clients"]
fn normal_clients_are_served_during_two_attacks() {
    let server = server().start();
    let mut sql = Sql::connect(server.mysql_addr);
    let _snapshot = prepare(&server, &mut sql);
    sql.run("CREATE TABLE k (id VARCHAR(20) PRIMARY KEY, v VARCHAR(100) NOT NULL)");
    sql.run("INSERT INTO k SELECT id, b FROM n WHERE id <= 1000");
    map_prefix(&mut sql, "k:", ("a", "k"), ("id", "v"));
    let corpus = attacks();
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (selects, updates, gets) = (Times::default(), Times::default(), Times::default());
    std::thread::scope(|scope| {
        let (server, corpus, over, done) = (&server, &corpus, &over, &done);
        for client in 0..CLIENTS {
            let (selects, updates, gets) = (&selects, &updates, &gets);
            scope.spawn(move || {
                let (mut sql, mut random) = (Sql::connect(server.mysql_addr), Random::new(client));
                while !over.load(Ordering::Relaxed) {
                    let id = 1 + random.below(1000);
                    let since = Instant::now();
                    sql.run(&format!("SELECT v FROM a.k WHERE id = '{id}'"));
                    selects.add(since);
                    let since = Instant::now();
                    sql.run(&format!("UPDATE a.k SET v = 'new' WHERE id = '{id}'"));
                    updates.add(since);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            scope.spawn(move || {
                let mut cache = Cache::connect(server.memcached_addr);
                let mut random = Random::new(100 + client);
                while !over.load(Ordering::Relaxed) {
                    let id = 1 + random.below(1000);
                    let since = Instant::now();
                    assert!(cache.get(&format!("k:{id}")).is_some());
                    gets.add(since);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let classes = [("SELECT", &selects), ("UPDATE", &updates), ("get", &gets)];
        std::thread::sleep(QUIET);
        println!("without attackers:");
        let alone = classes.map(|(class, times)| times.take(class));
        for half in 0..2 {
            let first = half * corpus.len() / 2;
            scope.spawn(move || attacker(server, corpus, first, over, done));
        }
        std::thread::sleep(TIME);
        over.store(true, Ordering::Relaxed);
        println!("beside two attackers:");
        for ((class, times), alone) in classes.into_iter().zip(alone) {
            let attacked = times.take(class);
            let ratio = attacked.p99.as_secs_f64() / alone.p99.as_secs_f64();
            println!("{class}: p99 {ratio:.1} times as long as without attackers");
            assert!(attacked.longest < BOUND, "{class}: {:?}", attacked.longest);
        }
    });
    println!(
        "{} attacks, peak {} MiB",
        done.into_inner(),
        memory(&server, "VmHWM") >> 20
    );
}
