//! An ALTER TABLE of the table `d.t` on another thread, which a test stops at each of its waits.

use super::get;
use porpoise_base::cancel::Cancel;
use porpoise_rows::catalog::{IndexState, Table};
use porpoise_rows::ddl::{AlterOp, DdlCx, DdlOutcome};
use porpoise_rows::metadata_lock::{Access, MetadataLockSession};
use porpoise_rows::progress::{Progress, Stage};
use porpoise_rows::{Db, Error};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A session that uses the table `t` by one version of its definition.
pub struct User {
    _session: MetadataLockSession,
    pub table: Arc<Table>,
}

impl User {
    pub fn new(db: &Arc<Db>) -> User {
        User::until(db, Instant::now() + Duration::from_secs(20)).unwrap()
    }

    /// As [`User::new`]; `None` if a barrier blocks the session until the deadline.
    pub fn until(db: &Arc<Db>, deadline: Instant) -> Option<User> {
        let session = db.metadata_locks().session();
        let uses = [(get(db, "t").id, Access::Write)];
        session.share(&uses, deadline, &Cancel::new()).ok()?;
        // As in all front ends, the definition is read after the use is published.
        let table = get(db, "t");
        Some(User {
            _session: session,
            table,
        })
    }

    /// The state of the index of that name; `None` if it is absent.
    pub fn state(&self, name: &str) -> Option<IndexState> {
        let mut all = self.table.indexes.iter().chain(&self.table.changing);
        all.find(|index| index.name == name)
            .map(|index| index.state)
    }
}

/// An ALTER TABLE of `t` on another thread, which stops at each of its waits for users.
pub struct Running {
    done: JoinHandle<Result<DdlOutcome, Error>>,
    pub cancel: Cancel,
    progress: Arc<Progress>,
    pub user: User,
}

impl Running {
    /// Starts the statement, and stops it at the first wait.
    pub fn start(db: &Arc<Db>, ops: Vec<AlterOp>) -> Running {
        let user = User::new(db);
        let cancel = Cancel::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (of_change, token) = (db.clone(), cancel.clone());
        let done = std::thread::spawn(move || {
            let session = of_change.metadata_locks().session();
            sender.send(session.progress().clone()).unwrap();
            let cx = DdlCx {
                metadata_locks: &session,
                deadline: Instant::now() + Duration::from_secs(30),
                cancel: &token,
                foreign_key_checks: true,
                now: 0,
                statement: None,
                memory: None,
            };
            of_change.alter_table(&cx, "d", "t", &ops)
        });
        let mut running = Running {
            done,
            cancel,
            progress: receiver.recv().unwrap(),
            user,
        };
        running.stop(db);
        running
    }

    /// Lets the change go on until it waits again. Returns whether it does: false at its end.
    ///
    /// The change waits for the user once it has published a definition that the user does not have. A wait
    /// without a new definition is recognized by its duration, because the previous wait may not have
    /// noticed yet that its user has ended.
    pub fn stop(&mut self, db: &Arc<Db>) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut steady = 0;
        while steady < 200 {
            assert!(
                Instant::now() < deadline,
                "the change neither waits nor ends"
            );
            if self.done.is_finished() {
                return false;
            }
            let waits = self.progress.stage() == Stage::WaitingForTable;
            if waits && !Arc::ptr_eq(&self.user.table, &get(db, "t")) {
                return true;
            }
            steady = if waits { steady + 1 } else { 0 };
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Replaces the user by one of the present version, and lets the change go on.
    pub fn step(&mut self, db: &Arc<Db>) -> bool {
        self.user = User::new(db);
        self.stop(db)
    }

    /// Steps until an index is in a state for new users. Returns such a user.
    pub fn until(&mut self, db: &Arc<Db>, index: &str, state: IndexState) -> User {
        loop {
            let user = User::new(db);
            if user.state(index) == Some(state) {
                return user;
            }
            drop(user);
            assert!(
                self.step(db),
                "the change ended before {index} was {state:?}"
            );
        }
    }

    pub fn finish(self) -> Result<DdlOutcome, Error> {
        drop(self.user);
        self.done.join().unwrap()
    }
}

/// Checks rows against index entries, and the engine's spaces against the catalog.
pub fn check(db: &Arc<Db>) {
    let tables: Vec<Arc<Table>> = db.catalog().tables.values().cloned().collect();
    for table in tables {
        let (_, problems) = db.define(|cx| db.check_table(cx, &table)).unwrap();
        assert_eq!(problems, []);
    }
    let mut named: Vec<_> = db
        .catalog()
        .tables
        .values()
        .flat_map(|t| t.all_spaces())
        .collect();
    let mut spaces: Vec<_> = db.engine().spaces().unwrap();
    named.sort_unstable();
    spaces.sort_unstable_by_key(|(id, _)| *id);
    assert_eq!(spaces.iter().map(|(id, _)| *id).collect::<Vec<_>>(), named);
}
