//! Flow control: a server that was away catches up and joins the group again, although it follows more slowly than clients write.

use crate::group::{Group, GroupOptions, good};
use crate::load::connect;
use porpoise_testkit::Porpoise;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes a second that the server gets which was away. Writers write several times as much.
const RATE: u64 = 600_000;

/// Writers without pauses of their own.
struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    commits: AtomicU64,
    longest_micros: AtomicU64,
}

impl Writers {
    fn start(address: SocketAddr, count: u64) -> Writers {
        let shared = Arc::<Shared>::default();
        let writer = |number: u64| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let mut connection = connect(address, "root", "d").unwrap();
                for id in number * 1_000_000.. {
                    if shared.stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let begun = Instant::now();
                    let insert = format!("INSERT INTO d.wide VALUES ({id}, REPEAT('v', 400))");
                    connection.execute(&insert).unwrap();
                    let micros = begun.elapsed().as_micros() as u64;
                    shared.longest_micros.fetch_max(micros, Ordering::SeqCst);
                    shared.commits.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let threads = (0..count).map(writer).collect();
        Writers { shared, threads }
    }

    fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::SeqCst)
    }

    fn stop(self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

fn counter(server: &Porpoise, name: &str) -> u64 {
    let shown = good(server, &format!("SHOW GLOBAL STATUS LIKE '{name}'"));
    shown[0].split('|').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_server_that_follows_slowly_is_taken_in_while_clients_write_on() {
    let mut group = Group::start(&GroupOptions {
        arguments: &[("--flow-control-threshold", "0")],
        has_network: true,
        ..GroupOptions::default()
    });
    let leader = group.servers[0].mysql_addr;
    let table = "CREATE TABLE d.wide (id BIGINT PRIMARY KEY, v VARCHAR(1000))";
    good(&group.servers[0], table);
    let paused = "Replication_flow_control_paused_commits";
    group.network.as_ref().unwrap().limit(RATE);
    let writers = Writers::start(leader, 4);
    group.servers[1].pause();
    group.wait_until_in_sync("1");
    let before = writers.commits();
    group.wait("commits", || {
        (writers.commits() > before + 2500).then_some(())
    });
    assert_eq!(
        counter(&group.servers[0], paused),
        0,
        "no server catches up"
    );
    group.servers[1].resume();
    writers.shared.longest_micros.store(0, Ordering::SeqCst);
    group.wait_in_sync();
    let longest = writers.shared.longest_micros.load(Ordering::SeqCst);
    group.network.as_ref().unwrap().heal();
    assert!(
        counter(&group.servers[0], paused) > 0,
        "no commit has paused"
    );
    // The pause itself is at most 100 ms; the rest is the wait for acknowledgements, and a busy machine.
    let longest = Duration::from_micros(longest);
    assert!(
        longest < Duration::from_secs(10),
        "a commit took {longest:?}"
    );
    // No server is behind any more.
    let name = "Replication_flow_control_commits_per_second";
    group.wait("the end of the limit", || {
        (counter(&group.servers[0], name) == 0).then_some(())
    });
    let behind = "SELECT COUNT(*) FROM performance_schema.replication_group_member_stats s \
                  JOIN performance_schema.replication_group_members m USING (MEMBER_ID) \
                  WHERE m.MEMBER_ROLE = 'SECONDARY' AND COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE IS NOT NULL";
    assert_eq!(good(&group.servers[0], behind), ["1"]);
    let before = writers.commits();
    group.wait("commits", || {
        (writers.commits() > before + 20).then_some(())
    });
    writers.stop();
    group.compare();
    let sums = "SELECT COUNT(*), SUM(id), SUM(LENGTH(v)) FROM d.wide";
    let of = |server: usize| good(&group.servers[server], sums);
    assert_eq!(of(0), of(1));
}
