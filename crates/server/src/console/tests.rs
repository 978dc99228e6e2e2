//! Tests of logins by a clock that the test moves.

use super::sessions::{IDLE, LIFETIME, MAX_SESSIONS, Sessions, random_token};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::clock::ManualClock;
use porpoise_kv::model::Model;
use porpoise_sql::{ClientInfo, SqlConfig, SqlServer, SqlSession};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct Fixture {
    clock: Arc<ManualClock>,
    server: Arc<SqlServer>,
    sessions: Sessions,
    next_id: AtomicU64,
}

impl Fixture {
    fn new() -> Fixture {
        let db = crate::rows::open(Arc::new(Model::default())).unwrap();
        let clock = Arc::new(ManualClock::default());
        Fixture {
            server: SqlServer::new(db, SqlConfig::default()).unwrap(),
            sessions: Sessions::new(clock.clone()),
            clock,
            next_id: AtomicU64::new(1),
        }
    }

    fn open(&self, cancel: &Cancel) -> SqlSession {
        let client = ClientInfo {
            connection_id: self.next_id.fetch_add(1, Ordering::Relaxed),
            user: "root".to_owned(),
            host: "localhost".to_owned(),
            account: "root@localhost".to_owned(),
            capabilities: 0,
            collation: super::run::COLLATION,
            database: None,
        };
        self.server.connect(client, cancel.clone()).unwrap()
    }

    fn add(&self) -> (String, Cancel) {
        let cancel = Cancel::new();
        let sql = self.open(&cancel);
        let added = self
            .sessions
            .add("root@localhost".to_owned(), sql, cancel.clone());
        (added.unwrap().0, cancel)
    }

    fn is_open(&self, token: &str) -> bool {
        self.sessions.find(token).is_some()
    }
}

#[test]
fn a_login_ends_when_it_is_idle_and_at_its_age() {
    let fixture = Fixture::new();
    let (idle, _) = fixture.add();
    let (used, _) = fixture.add();
    let step = IDLE - Duration::from_secs(1);
    fixture.clock.advance(step);
    assert!(fixture.is_open(&used));
    fixture.clock.advance(Duration::from_secs(1));
    assert!(!fixture.is_open(&idle));
    let mut age = IDLE;
    while age + step < LIFETIME {
        assert!(fixture.is_open(&used));
        fixture.clock.advance(step);
        age += step;
    }
    assert!(fixture.is_open(&used));
    fixture.clock.advance(LIFETIME - age);
    assert!(!fixture.is_open(&used));
}

#[test]
fn logins_that_are_over_leave_the_process_list() {
    let fixture = Fixture::new();
    let (_, killed) = fixture.add();
    fixture.add();
    killed.cancel(Reason::Connection);
    fixture.sessions.remove_ended();
    assert_eq!(fixture.server.sessions().len(), 1);
    fixture.clock.advance(IDLE);
    fixture.sessions.remove_ended();
    assert_eq!(fixture.server.sessions().len(), 0);
}

#[test]
fn the_login_unused_for_longest_gives_way() {
    let fixture = Fixture::new();
    let tokens: Vec<_> = (0..MAX_SESSIONS)
        .map(|_| {
            fixture.clock.advance(Duration::from_secs(1));
            fixture.add().0
        })
        .collect();
    fixture.clock.advance(Duration::from_secs(1));
    assert!(fixture.is_open(&tokens[0]));
    fixture.add();
    assert!(fixture.is_open(&tokens[0]) && !fixture.is_open(&tokens[1]));
    assert_eq!(fixture.server.sessions().len(), MAX_SESSIONS);
}

#[test]
fn tokens_are_random_and_long() {
    let (one, two) = (random_token().unwrap(), random_token().unwrap());
    assert_ne!(one, two);
    assert_eq!(one.len(), 64);
}
