//! Several servers over one store: each sees the definitions of the others, and no change of one is
//! half known to another.

use porpoise_base::cancel::Cancel;
use porpoise_base::clock;
use porpoise_kv::model::{ModelServer, SharedModel};
use porpoise_kv::{Engine, Read, ScanRange, SpaceId, SpaceSpec};
use porpoise_rows::catalog::TableOptions;
use porpoise_rows::cluster::ClusterOptions;
use porpoise_rows::ddl::{AlterOp, ColumnSpec, DdlCx, FkSpec, IndexSpec, Position, TableSpec};
use porpoise_rows::definition::{IndexKind, TableId};
use porpoise_rows::metadata_lock::{Access, Exclusion};
use porpoise_rows::txn::BeginOptions;
use porpoise_rows::{AutoIncOptions, Db, DbOptions, Error, GeneratedIds, InsertMode, Result};
use porpoise_types::{Collation, ColumnType, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_millis(900);

struct Server {
    engine: Arc<ModelServer>,
    db: Arc<Db>,
}

fn server(store: &Arc<SharedModel>) -> Server {
    server_at(store, clock::system())
}

fn server_at(store: &Arc<SharedModel>, clock: Arc<dyn clock::Clock>) -> Server {
    let engine = store.server();
    let options = DbOptions {
        cluster: ClusterOptions {
            lease: LEASE,
            poll: Duration::from_millis(10),
            address: "a test".into(),
            ..ClusterOptions::default()
        },
    };
    let db = Db::open(engine.clone(), clock, options).unwrap();
    Server { engine, db }
}

/// A store with the database `d`, and some servers over it.
fn cluster<const N: usize>() -> (Arc<SharedModel>, [Server; N]) {
    let store = SharedModel::new();
    let servers = std::array::from_fn(|_| server(&store));
    let first: &Server = &servers[0];
    first
        .ddl(|db, cx| {
            db.create_database(cx, "d", Collation::UTF8MB4_GENERAL_CI, false)
                .map(drop)
        })
        .unwrap();
    (store, servers)
}

fn spec(name: &str) -> TableSpec {
    let columns = vec![
        ColumnSpec::new("id", ColumnType::bigint()).not_null(),
        ColumnSpec::new("n", ColumnType::bigint()),
    ];
    let options = TableOptions::new(Collation::UTF8MB4_GENERAL_CI);
    TableSpec::new(
        "d",
        name,
        columns,
        vec![IndexSpec::primary(&["id"])],
        options,
    )
}

fn unique_n() -> AlterOp {
    AlterOp::AddIndex(IndexSpec::new(IndexKind::Unique, Some("n_unique"), &["n"]))
}

impl Server {
    fn ddl_within<T>(&self, time: Duration, run: impl FnOnce(&Db, &DdlCx<'_>) -> T) -> T {
        let (metadata_locks, cancel) = (self.db.metadata_locks().session(), Cancel::new());
        let cx = DdlCx {
            statement: None,
            memory: None,
            metadata_locks: &metadata_locks,
            deadline: Instant::now() + time,
            cancel: &cancel,
            foreign_key_checks: true,
            now: 0,
        };
        run(&self.db, &cx)
    }

    fn ddl<T>(&self, run: impl FnOnce(&Db, &DdlCx<'_>) -> T) -> T {
        self.ddl_within(Duration::from_secs(20), run)
    }

    fn create(&self, name: &str) {
        self.ddl(|db, cx| db.create_table(cx, &spec(name))).unwrap();
    }

    fn alter(&self, op: AlterOp) -> Result<()> {
        self.ddl(|db, cx| db.alter_table(cx, "d", "t", &[op]))
            .map(drop)
    }

    fn table(&self, name: &str) -> Option<Arc<porpoise_rows::table::Table>> {
        self.db.catalog().table("d", name).cloned()
    }

    /// Inserts rows with the ids and values from 1 on.
    fn insert_many(&self, name: &str, rows: i64) {
        let table = self.table(name).unwrap();
        let mut txn = self.db.begin(BeginOptions::default()).unwrap();
        let rows = (1..=rows).map(|n| vec![Value::Int(n), Value::Int(n)]);
        txn.insert(&table, rows.collect(), InsertMode::Plain)
            .unwrap();
        txn.commit().unwrap();
    }

    /// Inserts a row as a session does: the table is published, then found in the catalog.
    fn insert(&self, name: &str, id: i64, n: i64) -> Result<()> {
        let session = self.db.metadata_locks().session();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let missing = || Error::NoSuchTable {
                database: "d".into(),
                table: name.into(),
            };
            let table = self.table(name).ok_or_else(missing)?;
            let uses: Vec<_> = table
                .write_set
                .iter()
                .map(|t| (*t, Access::Write))
                .collect();
            session
                .share(&uses, deadline, &Cancel::new())
                .map_err(porpoise_rows::ddl::metadata_lock_error)?;
            if !Arc::ptr_eq(&table, &self.table(name).ok_or_else(missing)?) {
                session.release();
                continue;
            }
            let mut txn = self.db.begin(BeginOptions::default())?;
            let row = vec![Value::Int(id), Value::Int(n)];
            txn.insert(&table, vec![row], InsertMode::Plain)?;
            txn.commit()?;
            return Ok(());
        }
    }

    /// Number of entries of an index.
    fn entries(&self, name: &str, index: usize) -> usize {
        let table = self.table(name).unwrap();
        let space = table.indexes[index].spaces[0];
        let mut txn = self.db.engine().begin(Default::default()).unwrap();
        let range = porpoise_kv::ScanRange {
            space,
            start: &[],
            end: None,
            reverse: false,
        };
        txn.count(Read::CURRENT, &[range], usize::MAX).unwrap().0
    }

    fn waits_for(&self, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition() {
            assert!(Instant::now() < deadline, "the condition did not come true");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_table_made_changed_and_dropped_on_one_server_is_so_on_the_other_when_the_statement_returns() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    b.insert("t", 1, 1).unwrap();
    a.alter(unique_n()).unwrap();
    assert_eq!(b.insert("t", 2, 1).unwrap_err().code(), 1062);
    b.insert("t", 2, 2).unwrap();
    assert_eq!(a.entries("t", 1), 2);
    let names = [("d".to_owned(), "t".to_owned())];
    b.ddl(|db, cx| db.drop_tables(cx, &names, false)).unwrap();
    assert!(matches!(
        a.insert("t", 3, 3),
        Err(Error::NoSuchTable { .. })
    ));
}

#[test]
fn rows_inserted_after_a_truncate_of_the_other_server_stay() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    b.insert("t", 1, 1).unwrap();
    a.ddl(|db, cx| db.truncate(cx, "d", "t")).unwrap();
    b.insert("t", 2, 2).unwrap();
    assert_eq!((a.entries("t", 0), b.entries("t", 0)), (1, 1));
}

#[test]
fn a_foreign_key_added_on_one_server_is_checked_on_the_other() {
    let (_store, [a, b]) = cluster();
    a.create("parent");
    a.create("t");
    let key = FkSpec::new(&["n"], "parent", &["id"]);
    a.alter(AlterOp::AddForeignKey(key)).unwrap();
    assert_eq!(b.insert("t", 1, 7).unwrap_err().code(), 1452);
    b.insert("parent", 7, 0).unwrap();
    b.insert("t", 1, 7).unwrap();
}

#[test]
fn of_two_servers_that_create_the_same_table_one_does() {
    let (_store, [a, b]) = cluster();
    let outcomes = std::thread::scope(|scope| {
        let create = |s: &Server| s.ddl(|db, cx| db.create_table(cx, &spec("t")));
        let threads = [&a, &b].map(|s| scope.spawn(move || create(s).map(drop)));
        threads.map(|thread| thread.join().unwrap())
    });
    let refused: Vec<_> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    assert_eq!(refused.len(), 1, "{outcomes:?}");
    assert_eq!(refused[0].code(), 1050);
    a.insert("t", 1, 1).unwrap();
    b.insert("t", 2, 2).unwrap();
    assert_eq!((a.entries("t", 0), b.entries("t", 0)), (2, 2));
}

/// The index of an ALTER under way, a temporary table and the spaces of a server that is gone: only the
/// last are dropped by a server that starts.
#[test]
fn a_server_that_starts_drops_no_space_that_another_one_uses() {
    let (store, [a]) = cluster();
    let crashed = store.server();
    let orphan = crashed.create_spaces(&[SpaceSpec::default()]).unwrap()[0];
    let c = server(&store);
    let used = a.engine.create_spaces(&[SpaceSpec::default()]).unwrap()[0];
    let has = |id| a.engine.spaces().unwrap().iter().any(|(s, _)| *s == id);
    assert!(has(orphan), "server a may have made it");
    drop(c);
    a.db.leave_cluster();
    let d = server(&store);
    assert!(!has(orphan) && !has(used), "no session can use them");
    drop(d);
}

#[test]
fn a_statement_waits_for_users_of_its_table_on_other_servers() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    let id = b.table("t").unwrap().id;
    let user = b.db.metadata_locks().session();
    let soon = Instant::now() + Duration::from_secs(1);
    user.share(&[(id, Access::Read)], soon, &Cancel::new())
        .unwrap();
    let truncate = |time| a.ddl_within(time, |db, cx| db.truncate(cx, "d", "t"));
    let refused = truncate(Duration::from_millis(300)).unwrap_err();
    assert_eq!(refused.code(), 1205);
    // The refused statement lets users in again.
    a.insert("t", 1, 1).unwrap();
    b.insert("t", 2, 2).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| truncate(Duration::from_secs(10)));
        std::thread::sleep(Duration::from_millis(150));
        assert!(!waiting.is_finished());
        user.release();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(b.entries("t", 0), 0);
}

/// LOCK TABLES on one server and ALTER TABLE on another wait for each other: one is ended.
#[test]
fn lock_tables_and_a_statement_of_another_server_do_not_wait_for_ever() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    let id = b.table("t").unwrap().id;
    let owner = b.db.metadata_locks().session();
    let (late, cancel) = (Instant::now() + Duration::from_secs(20), Cancel::new());
    let locked = [(id, Exclusion::Everyone)];
    let lock = owner.exclude(&locked, late, &cancel).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| a.alter(unique_n()));
        b.waits_for(|| !b.db.catalog().changes.is_empty());
        let cx = DdlCx {
            statement: None,
            memory: None,
            metadata_locks: &owner,
            deadline: late,
            cancel: &cancel,
            foreign_key_checks: true,
            now: 0,
        };
        let refused = b.db.truncate(&cx, "d", "t").unwrap_err();
        assert_eq!(refused.code(), 1213);
        drop(lock);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_server_without_lease_neither_reads_nor_writes_and_returns_by_itself() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    b.insert("t", 1, 1).unwrap();
    let mut open = b.db.begin(BeginOptions::default()).unwrap();
    let table = b.table("t").unwrap();
    let row = vec![Value::Int(9), Value::Int(9)];
    open.insert(&table, vec![row], InsertMode::Plain).unwrap();
    b.engine.cut(true);
    // The statement waits for the end of b's lease, and not longer.
    let begun = Instant::now();
    a.alter(unique_n()).unwrap();
    let waited = begun.elapsed();
    assert!(waited < LEASE * 3, "{waited:?}");
    assert!(b.db.lease_problem().is_some());
    b.engine.cut(false);
    // Its open transaction does not know the index.
    let refused = open.commit().unwrap_err();
    assert!(matches!(refused.code(), 1030 | 1213), "{refused}");
    b.waits_for(|| b.db.lease_problem().is_none());
    assert_eq!(b.insert("t", 2, 1).unwrap_err().code(), 1062);
    b.insert("t", 2, 2).unwrap();
    assert_eq!(a.entries("t", 1), a.entries("t", 0));
}

/// The store's clock decides, whatever the server's own clock says.
#[test]
fn a_lease_ends_on_the_clock_of_the_store() {
    let (store, [a, b]) = cluster();
    a.create("t");
    let mut open = b.db.begin(BeginOptions::default()).unwrap();
    let row = vec![Value::Int(1), Value::Int(1)];
    let table = b.table("t").unwrap();
    open.insert(&table, vec![row], InsertMode::Plain).unwrap();
    store.move_clock(LEASE.as_millis() as u64 + 50);
    assert_eq!(open.commit().unwrap_err().code(), 1030);
    b.waits_for(|| b.insert("t", 2, 2).is_ok());
    a.waits_for(|| a.insert("t", 3, 3).is_ok());
    assert_eq!(a.entries("t", 0), 2);
}

/// A wall clock that is off by so many microseconds.
struct Skewed(i64);

impl clock::Clock for Skewed {
    fn unix_micros(&self) -> i64 {
        clock::system().unix_micros() + self.0
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// Neither a lease that is kept nor the wait for one that is lost depends on the clocks of the servers.
#[test]
fn servers_whose_clocks_differ_by_an_hour_share_leases_and_definitions() {
    const HOUR: i64 = 3_600_000_000;
    let store = SharedModel::new();
    for skew in [HOUR, -HOUR] {
        let [skewed, right] = [skew, 0].map(|skew| server_at(&store, Arc::new(Skewed(skew))));
        let database = |db: &Db, cx: &DdlCx<'_>| {
            db.create_database(cx, "d", Collation::UTF8MB4_GENERAL_CI, true)
                .map(drop)
        };
        skewed.ddl(database).unwrap();
        right.create("t");
        skewed.insert("t", 1, 1).unwrap();
        let end = Instant::now() + LEASE * 2;
        while Instant::now() < end {
            let problems = [&skewed, &right].map(|server| server.db.lease_problem());
            assert_eq!(problems, [None, None]);
            std::thread::sleep(Duration::from_millis(20));
        }
        skewed.alter(unique_n()).unwrap();
        assert_eq!(right.insert("t", 2, 1).unwrap_err().code(), 1062);
        skewed.engine.cut(true);
        let names = [("d".to_owned(), "t".to_owned())];
        let begun = Instant::now();
        right
            .ddl(|db, cx| db.drop_tables(cx, &names, false))
            .unwrap();
        let waited = begun.elapsed();
        assert!(waited > LEASE / 3 && waited < LEASE * 6, "{waited:?}");
    }
}

/// A server dies after it has announced a change: the others undo it when its lease ends.
#[test]
fn the_change_of_a_dead_server_is_undone_and_the_dead_cannot_commit_it() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    b.insert("t", 1, 1).unwrap();
    let id = a.table("t").unwrap().id;
    let user = b.db.metadata_locks().session();
    let late = || Instant::now() + Duration::from_secs(20);
    user.share(&[(id, Access::Read)], late(), &Cancel::new())
        .unwrap();
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| a.alter(unique_n()));
        b.waits_for(|| !b.db.catalog().changes.is_empty());
        a.engine.cut(true);
        user.release();
        let begun = Instant::now();
        b.insert("t", 2, 1).unwrap();
        assert!(begun.elapsed() < LEASE * 3, "{:?}", begun.elapsed());
        b.waits_for(|| b.db.catalog().changes.is_empty());
        b.waits_for(|| b.table("t").unwrap().changing.is_empty());
        a.engine.cut(false);
        assert!(stuck.join().unwrap().is_err());
    });
    a.waits_for(|| a.db.lease_problem().is_none());
    a.insert("t", 3, 1).unwrap();
    assert_eq!(
        (a.entries("t", 0), b.table("t").unwrap().indexes.len()),
        (3, 1)
    );
}

/// Keys in spaces that no table has: those of a copy under way.
fn keys_without_table(server: &Server) -> usize {
    let catalog = server.db.catalog();
    let named: HashSet<SpaceId> = catalog
        .tables
        .values()
        .flat_map(|table| (0..table.indexes.len()).flat_map(|at| table.index_spaces(at).to_vec()))
        .collect();
    let unnamed = server.engine.spaces().unwrap();
    let unnamed = unnamed.into_iter().filter(|(id, _)| !named.contains(id));
    let ranges: Vec<(SpaceId, SpaceSpec)> = unnamed.collect();
    let mut txn = server.engine.begin_unfenced().unwrap();
    let mut keys = 0;
    for (space, _) in ranges {
        let range = ScanRange {
            space,
            start: b"",
            end: None,
            reverse: false,
        };
        keys += txn
            .count(Read::CURRENT, &[range], usize::MAX)
            .map_or(0, |(n, _)| n);
    }
    keys
}

/// Whether no change of a table has left something that is not public.
fn is_finished(table: &porpoise_rows::table::Table) -> bool {
    table.changing.is_empty() && table.duplicates.is_none() && table.unfinished.is_empty()
}

/// A server dies while it copies a table: the others go on writing, undo the change when its lease ends, and can make
/// it themselves; the dead one cannot finish it.
#[test]
fn the_copy_of_a_dead_server_is_undone_while_others_write() {
    const ROWS: i64 = 4_000;
    let (_store, [a, b]) = cluster();
    a.create("t");
    a.insert_many("t", ROWS);
    let stop = AtomicBool::new(false);
    // Writers on both servers let the copy take its time.
    let write = |server: &Server, from: i64, dies: bool| {
        let mut done = 0;
        while !stop.load(Ordering::SeqCst) {
            let id = from + done;
            match server.insert("t", id, id) {
                Ok(()) => done += 1,
                Err(e) if dies && matches!(e.code(), 1030 | 1213 | 1412 | 1205) => {}
                Err(e) => assert!(matches!(e.code(), 1213 | 1412), "{e}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        done
    };
    let inserted = std::thread::scope(|scope| {
        let (a, b, write) = (&a, &b, &write);
        let writers = [
            scope.spawn(move || write(a, 1_000_000, true)),
            scope.spawn(move || write(b, 2_000_000, false)),
        ];
        let stuck = scope.spawn(move || a.alter(n_not_null(true)));
        b.waits_for(|| keys_without_table(b) > 100);
        a.engine.cut(true);
        b.waits_for(|| {
            let table = b.table("t").unwrap();
            b.db.catalog().changes.is_empty() && is_finished(&table)
        });
        // The change can be made now.
        b.alter(n_not_null(true)).unwrap();
        a.engine.cut(false);
        assert!(stuck.join().unwrap().is_err());
        a.waits_for(|| a.db.lease_problem().is_none());
        stop.store(true, Ordering::SeqCst);
        writers.map(|w| w.join().unwrap()).iter().sum::<i64>()
    });
    a.waits_for(|| a.db.catalog_version() == b.db.catalog_version());
    for server in [&a, &b] {
        let table = server.table("t").unwrap();
        assert!(!table.columns[1].nullable && is_finished(&table));
        assert!(server.entries("t", 0) >= usize::try_from(ROWS + inserted).unwrap());
        let (_, problems) = server.ddl(|db, cx| db.check_table(cx, &table)).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

#[test]
fn a_commit_to_a_subscribed_table_is_noticed_on_other_servers() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    let id: TableId = a.table("t").unwrap().id;
    let (on_a, on_b) = (a.db.subscribe(&[id]), b.db.subscribe(&[id]));
    b.waits_for(|| on_b.changes() > 0);
    let before = (on_a.changes(), on_b.changes());
    a.insert("t", 1, 1).unwrap();
    assert!(on_a.changes() > before.0);
    b.waits_for(|| on_b.changes() > before.1);
}

#[test]
fn servers_see_each_other_until_they_leave() {
    let (store, [a, b]) = cluster();
    let c = server(&store);
    let view = a.db.cluster_view().unwrap().unwrap();
    assert_eq!(view.servers.len(), 3);
    let version = a.db.catalog_version();
    let mut servers = view.servers.iter();
    assert!(servers.all(|s| s.loaded == version && s.address == "a test"));
    c.db.leave_cluster();
    assert!(c.insert("t", 1, 1).is_err());
    assert!(c.db.begin(BeginOptions::default()).is_err());
    assert_eq!(b.db.cluster_view().unwrap().unwrap().servers.len(), 2);
}

/// Inserts rows into `t` from a thread for each server while `changes` runs, with a pause of `millis` after
/// each. `n` is the value of a row with an id, `codes` the errors that may occur. Returns the number of
/// acknowledged rows.
fn inserted_during(
    servers: &[Server],
    n: impl Fn(i64) -> i64 + Sync,
    codes: &[u16],
    millis: u64,
    changes: impl FnOnce(),
) -> usize {
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(1));
    std::thread::scope(|scope| {
        let writers: Vec<_> = servers
            .iter()
            .map(|server| {
                let (stop, next, n) = (&stop, &next, &n);
                scope.spawn(move || {
                    let mut done = 0;
                    while !stop.load(Ordering::SeqCst) {
                        let id = next.fetch_add(1, Ordering::SeqCst) as i64;
                        match server.insert("t", id, n(id)) {
                            Ok(()) => done += 1,
                            Err(e) => assert!(codes.contains(&e.code()), "{e}"),
                        }
                        std::thread::sleep(Duration::from_millis(millis));
                    }
                    done
                })
            })
            .collect();
        changes();
        stop.store(true, Ordering::SeqCst);
        writers.into_iter().map(|w| w.join().unwrap()).sum()
    })
}

/// Three servers write to a table while one of them adds and drops an index again and again, and one is
/// cut off from time to time: every row has its entry, and every acknowledged row is there.
#[test]
fn writers_on_all_servers_keep_an_index_complete_while_it_comes_and_goes() {
    let (_store, servers) = cluster::<3>();
    servers[0].create("t");
    let codes = [1030, 1213, 1412, 1205];
    let inserted = inserted_during(
        &servers,
        |id| id,
        &codes,
        1,
        || {
            for round in 0..6 {
                let cut = &servers[2].engine;
                cut.cut(round % 3 == 1);
                servers[round % 2].alter(unique_n()).unwrap();
                cut.cut(false);
                if round < 5 {
                    let gone = AlterOp::DropIndex("n_unique".into());
                    servers[(round + 1) % 2].alter(gone).unwrap();
                }
            }
        },
    );
    let server = &servers[0];
    assert_eq!(server.entries("t", 0), server.entries("t", 1));
    assert!(
        server.entries("t", 0) >= inserted,
        "{inserted} acknowledged"
    );
}

/// n BIGINT NOT NULL, for which the table is copied.
fn n_not_null(on: bool) -> AlterOp {
    let spec = ColumnSpec::new("n", ColumnType::bigint());
    let spec = if on { spec.not_null() } else { spec };
    AlterOp::ChangeColumn("n".into(), spec, Position::Default)
}

/// Two servers write to a table while it is copied, and while a foreign key is added and dropped: no
/// row is lost, and no row without a parent remains.
#[test]
fn writers_on_all_servers_go_on_while_a_table_is_copied_and_a_foreign_key_added() {
    let (_store, servers) = cluster::<2>();
    servers[0].create("parent");
    servers[0].create("t");
    for id in 0..10 {
        servers[0].insert("parent", id, id).unwrap();
    }
    let codes = [1213, 1412, 1205];
    let inserted = inserted_during(
        &servers,
        |id| id % 10,
        &codes,
        2,
        || {
            let fk = || AlterOp::AddForeignKey(FkSpec::new(&["n"], "parent", &["id"]));
            servers[0].alter(n_not_null(true)).unwrap();
            servers[1].alter(fk()).unwrap();
            let refused = servers[0].insert("t", -1, 77).unwrap_err();
            assert_eq!(refused.code(), 1452);
            servers[0]
                .alter(AlterOp::DropForeignKey("t_ibfk_1".into()))
                .unwrap();
            servers[1].alter(n_not_null(false)).unwrap();
            servers[0].insert("t", -2, 77).unwrap();
            assert_eq!(servers[1].alter(fk()).unwrap_err().code(), 1452);
        },
    );
    for server in &servers {
        let table = server.table("t").unwrap();
        assert!(table.foreign_keys.is_empty() && table.unfinished.is_empty());
        assert_eq!(server.entries("t", 0), inserted + 1);
    }
    let table = servers[0].table("t").unwrap();
    let checked = servers[0].ddl(|db, cx| db.check_table(cx, &table));
    assert_eq!(checked.unwrap().1, []);
}

/// One server stores rows with ids that another has reserved: the other generates the next free ones.
#[test]
fn generated_ids_pass_over_those_that_another_server_stored() {
    let (_store, [a, b]) = cluster();
    let mut table = spec("t");
    table.columns[0].auto_increment = true;
    a.ddl(|db, cx| db.create_table(cx, &table)).unwrap();
    let generate = || {
        let table = a.table("t").unwrap();
        let mut txn = a.db.begin(BeginOptions::default()).unwrap();
        let mut rows = vec![vec![Value::Null, Value::Int(0)]];
        let ids = GeneratedIds::from_input(&table, &rows);
        let options = AutoIncOptions::default();
        txn.assign_auto_increment(&table, &mut rows, options)
            .unwrap();
        let mut ids = ids.with_assigned(&rows).recording();
        txn.insert_with_ids(&table, rows, InsertMode::Plain, &mut ids)
            .unwrap();
        txn.commit().unwrap();
        let first = ids.first_generated().unwrap();
        assert_eq!(ids.into_recorded(), [first]);
        first
    };
    assert_eq!(generate(), 1);
    b.insert("t", 2, 0).unwrap();
    b.insert("t", 3, 0).unwrap();
    assert_eq!(generate(), 4);
    for id in 5..15 {
        b.insert("t", id, 0).unwrap();
    }
    let next = generate();
    assert!(next >= 15, "{next}");
    for server in [&a, &b] {
        let table = server.table("t").unwrap();
        let (_, problems) = server.ddl(|db, cx| db.check_table(cx, &table)).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

/// An online change: users go on, and the statement waits for those of the version before.
#[test]
fn an_online_change_waits_for_older_users_of_other_servers_and_blocks_nobody() {
    let (_store, [a, b]) = cluster();
    a.create("t");
    let id = b.table("t").unwrap().id;
    let (older, newer) = (
        b.db.metadata_locks().session(),
        b.db.metadata_locks().session(),
    );
    let soon = || Instant::now() + Duration::from_secs(2);
    let read = [(id, Access::Read)];
    older.share(&read, soon(), &Cancel::new()).unwrap();
    a.ddl(|db, cx| {
        let announced = db.announce_online_change(cx, &[id]).unwrap();
        b.waits_for(|| !b.db.catalog().changes.is_empty());
        std::thread::sleep(Duration::from_millis(60));
        newer.share(&read, soon(), &Cancel::new()).unwrap();
        let cx = DdlCx {
            statement: None,
            deadline: Instant::now() + Duration::from_millis(200),
            ..*cx
        };
        assert_eq!(db.wait_for_other_servers(&cx).unwrap_err().code(), 1205);
        older.release();
        let cx = DdlCx {
            statement: None,
            deadline: Instant::now() + Duration::from_secs(5),
            ..cx
        };
        db.wait_for_other_servers(&cx).unwrap();
        drop(announced);
    });
    b.waits_for(|| b.db.catalog().changes.is_empty());
}
