//! The log over the embedded engine: order, restarts, torn tails, rotation, purging, resets, dumps.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use porpoise_base::{clock, disk};
use porpoise_binlog::annotation::{Annotation, Kind};
use porpoise_binlog::{BinaryLog, Dump, DumpStart, Error, Options, Step};
use porpoise_kv::{Check, Engine, Key, SpaceId};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_replication::event::{
    Event, EventOptions, EventWriter, FormatDescription, QueryEvent, StatusVariables,
};
use porpoise_replication::gtid::{GtidSet, Tag, Uuid};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(20);

fn engine(dir: &Path) -> Arc<dyn Engine> {
    let options = KvMemOptions {
        dir: Some(dir.join("store")),
        annotations: true,
        ..KvMemOptions::default()
    };
    KvMem::open(options).unwrap()
}

fn options(dir: &Path) -> Options {
    Options {
        dir: dir.join("binlog"),
        disk: disk::real(),
        clock: clock::system(),
        server_id: 7,
        server_uuid: Uuid([0x11; 16]),
        version: "8.4.0-test".to_owned(),
        max_file_bytes: 1 << 30,
        expire: None,
        max_total_bytes: None,
        compress: false,
    }
}

/// A statement's annotation.
fn annotation(text: &str) -> Vec<u8> {
    let writer = EventWriter {
        server_id: 7,
        has_checksums: true,
    };
    let query = QueryEvent {
        text: text.as_bytes().to_vec(),
        variables: StatusVariables {
            ddl_xid: Some(0),
            ..StatusVariables::default()
        },
        ..QueryEvent::default()
    };
    let mut events = Vec::new();
    writer.write(
        &mut events,
        None,
        EventOptions::default(),
        &Event::Query(query),
    );
    let mut out = Vec::new();
    Annotation {
        kind: Kind::Statement,
        server_id: 7,
        micros: 1_000_000,
        gtid: None,
        events: &events,
    }
    .encode(&mut out);
    out
}

fn commit(engine: &dyn Engine, text: &str) {
    let mut txn = engine.begin(Default::default()).unwrap();
    let key = Key::new(SpaceId(7), text.as_bytes());
    txn.put(key, b"v", Check::Blind).unwrap();
    txn.annotate(annotation(text)).unwrap();
    let done = txn.commit().unwrap();
    engine.wait_durable(done.position).unwrap();
}

fn wait_for(log: &BinaryLog, transactions: u64) {
    let until = Instant::now() + WAIT;
    while log.status().executed.len() < transactions {
        assert!(Instant::now() < until, "{:?}", log.status());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Texts of the statements that a dump has until it is idle.
fn texts(dump: &mut Dump) -> Vec<String> {
    let format = FormatDescription::new("8.4.0", 0, true);
    let mut texts = Vec::new();
    while let Step::Event(event) = dump.next(Duration::from_millis(300)).unwrap() {
        if let (_, Event::Query(query)) = Event::decode(&event, &format).unwrap() {
            texts.push(String::from_utf8(query.text).unwrap());
        }
    }
    texts
}

fn from_start(log: &Arc<BinaryLog>) -> Dump {
    let start = DumpStart::Position {
        file: String::new(),
        position: 4,
    };
    Dump::open(log.clone(), start, true).unwrap()
}

#[test]
fn statements_come_in_commit_order_and_a_restart_begins_a_file() {
    let dir = tempfile::tempdir().unwrap();
    {
        let engine = engine(dir.path());
        let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
        for text in ["a", "b", "c"] {
            commit(&*engine, text);
        }
        wait_for(&log, 3);
        assert_eq!(texts(&mut from_start(&log)), ["a", "b", "c"]);
        log.stop();
        engine.shutdown().unwrap();
    }
    let engine = engine(dir.path());
    let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
    commit(&*engine, "d");
    wait_for(&log, 4);
    assert_eq!(log.files().len(), 2);
    assert_eq!(texts(&mut from_start(&log)), ["a", "b", "c", "d"]);
    let status = log.status();
    assert_eq!(
        status.executed.to_string(),
        "11111111-1111-1111-1111-111111111111:1-4"
    );
    assert_eq!(status.purged, GtidSet::new());
    log.stop();
}

/// The files are cut at every byte after the head, as a crash may leave them: what was cut is derived again.
#[test]
fn a_torn_tail_is_derived_again_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    {
        let engine = engine(dir.path());
        let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
        for text in ["a", "b"] {
            commit(&*engine, text);
        }
        wait_for(&log, 2);
        // Neither is stopped in order: no annotation is released, and no file ended.
        drop(engine);
        std::mem::forget(log);
    }
    let path = dir.path().join("binlog/binlog.000001");
    let whole = std::fs::read(&path).unwrap();
    let head = 4 + 122 + 43;
    for cut in (head..=whole.len()).step_by(7).chain([whole.len()]) {
        let copy = tempfile::tempdir().unwrap();
        for sub in ["store", "binlog"] {
            std::fs::create_dir(copy.path().join(sub)).unwrap();
            for file in std::fs::read_dir(dir.path().join(sub)).unwrap() {
                let file = file.unwrap();
                let to = copy.path().join(sub).join(file.file_name());
                std::fs::copy(file.path(), to).unwrap();
            }
        }
        let torn = copy.path().join("binlog/binlog.000001");
        let mut bytes = whole[..cut].to_vec();
        // A block of the file may be on disk without what is before it.
        bytes.resize(whole.len() + 10, 0);
        std::fs::write(&torn, bytes).unwrap();
        let engine = engine(copy.path());
        let log = BinaryLog::open(options(copy.path()), &engine).unwrap();
        let now = std::fs::read(&torn).unwrap();
        assert!(now.starts_with(&whole), "cut at {cut}");
        assert_eq!(log.status().executed.len(), 2);
        assert_eq!(texts(&mut from_start(&log)), ["a", "b"], "cut at {cut}");
        log.stop();
    }
}

#[test]
fn files_rotate_by_size_and_on_request_and_are_purged() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let small = Options {
        max_file_bytes: 400,
        ..options(dir.path())
    };
    let log = BinaryLog::open(small, &engine).unwrap();
    for n in 0..6 {
        commit(&*engine, &format!("statement {n}"));
    }
    wait_for(&log, 6);
    // The last file may be ended after its last transaction was shown.
    std::thread::sleep(Duration::from_millis(200));
    let files = log.files();
    assert!(files.len() >= 3, "{files:?}");
    log.rotate().unwrap();
    assert_eq!(log.files().len(), files.len() + 1);
    assert_eq!(texts(&mut from_start(&log)).len(), 6);
    // A dump that has not read a file keeps it.
    let reading = from_start(&log);
    log.purge_to(&files[1].0).unwrap();
    assert_eq!(log.files().len(), files.len() + 1);
    drop(reading);
    log.purge_to(&files[1].0).unwrap();
    assert_eq!(log.files()[0].0, files[1].0);
    let purged = log.status().purged;
    assert!(!purged.is_empty() && log.status().executed.contains_set(&purged));
    assert!(matches!(
        log.purge_to("binlog.000999"),
        Err(Error::NoSuchFile(_))
    ));
    let refused = Dump::open(log.clone(), DumpStart::Gtids(GtidSet::new()), true).map(|_| ());
    assert!(matches!(refused, Err(Error::Refused(text)) if text.contains("purged")));
    let events = log.events(None, None, 0, 100).unwrap();
    assert_eq!(
        (events[0].kind, events[1].kind, events[2].kind),
        ("Format_desc", "Previous_gtids", "Gtid")
    );
    assert_eq!(events.last().unwrap().kind, "Rotate");
    log.reset().unwrap();
    assert_eq!(log.files().len(), 1);
    assert_eq!(log.status().executed, GtidSet::new());
    commit(&*engine, "after");
    wait_for(&log, 1);
    assert_eq!(texts(&mut from_start(&log)), ["after"]);
    log.stop();
}

#[test]
fn a_dump_by_gtids_leaves_out_what_the_reader_has() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
    for text in ["a", "b", "c"] {
        commit(&*engine, text);
    }
    wait_for(&log, 3);
    let has = GtidSet::parse("11111111-1111-1111-1111-111111111111:1:3").unwrap();
    let mut dump = Dump::open(log.clone(), DumpStart::Gtids(has), true).unwrap();
    assert_eq!(texts(&mut dump), ["b"]);
    commit(&*engine, "d");
    assert_eq!(texts(&mut dump), ["d"]);
    log.stop();
    assert!(matches!(
        dump.next(Duration::from_millis(1)),
        Ok(_) | Err(Error::Closed(_))
    ));
}

#[test]
fn a_run_without_the_log_makes_a_gap_that_readers_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let refuses = |log: &Arc<BinaryLog>, start: DumpStart, part: &str| {
        let opened = Dump::open(log.clone(), start, true).map(|_| ());
        assert!(
            matches!(&opened, Err(Error::Refused(text)) if text.contains(part)),
            "{opened:?}"
        );
    };
    let (before, end) = {
        let engine = engine(dir.path());
        let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
        commit(&*engine, "logged");
        log.catch_up().unwrap();
        let status = log.status();
        log.stop();
        engine.shutdown().unwrap();
        (status.executed, status.position)
    };
    {
        let (disk, binlog) = (disk::real(), dir.path().join("binlog"));
        porpoise_binlog::mark_unlogged(&*disk, &binlog).unwrap();
        porpoise_binlog::mark_unlogged(&*disk, &binlog).unwrap();
        let engine = KvMem::open(KvMemOptions {
            dir: Some(dir.path().join("store")),
            ..KvMemOptions::default()
        });
        let engine = engine.unwrap();
        let mut txn = engine.begin(Default::default()).unwrap();
        let key = Key::new(SpaceId(7), b"not logged");
        txn.put(key, b"v", Check::Blind).unwrap();
        engine.wait_durable(txn.commit().unwrap().position).unwrap();
        engine.shutdown().unwrap();
    }
    // The gap stays, also after a further restart.
    for n in 0..2 {
        let engine = engine(dir.path());
        let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
        let last = format!("behind the gap {n}");
        commit(&*engine, &last);
        log.catch_up().unwrap();
        for position in [4, end] {
            let file = "binlog.000001".to_owned();
            refuses(
                &log,
                DumpStart::Position { file, position },
                "changes are missing",
            );
        }
        refuses(&log, DumpStart::Gtids(before.clone()), "purged");
        let missing = log.status().purged.subtract(&before);
        assert_eq!(
            missing.to_string(),
            "11111111-1111-1111-1111-111111111111:2"
        );
        let mut all = from_start(&log);
        assert_eq!(texts(&mut all).len(), n + 1);
        // A reader with a copy that was made after the gap.
        let mut copied = log.status().purged;
        copied.union_with(&before);
        let mut dump = Dump::open(log.clone(), DumpStart::Gtids(copied), true).unwrap();
        assert_eq!(texts(&mut dump).last(), Some(&last));
        log.stop();
        engine.shutdown().unwrap();
    }
    // A reader that has transactions of this server that it does not have.
    let engine = engine(dir.path());
    let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
    let more = GtidSet::parse("11111111-1111-1111-1111-111111111111:1-99").unwrap();
    refuses(&log, DumpStart::Gtids(more), "more GTIDs");
    log.reset().unwrap();
    assert_eq!(log.status().purged, GtidSet::new());
    log.stop();
}

#[test]
fn a_position_at_which_no_event_begins_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
    for text in ["a", "b"] {
        commit(&*engine, text);
    }
    log.rotate().unwrap();
    commit(&*engine, "c");
    log.catch_up().unwrap();
    for name in ["binlog.000001", "binlog.000002"] {
        let events = log.events(Some(name), None, 0, 100).unwrap();
        let begins: Vec<u64> = events.iter().map(|event| event.position).collect();
        let end = events.last().unwrap().end;
        for position in 4..end {
            let start = DumpStart::Position {
                file: name.to_owned(),
                position,
            };
            let mut dump = Dump::open(log.clone(), start, true).unwrap();
            let mut read = || loop {
                match dump.next(Duration::ZERO)? {
                    Step::Event(_) => {}
                    Step::Idle => return Ok(()),
                }
            };
            let found: Result<(), Error> = read();
            assert_eq!(
                found.is_ok(),
                begins.contains(&position),
                "{name} {position}: {found:?}"
            );
        }
    }
    log.stop();
}

#[test]
fn the_place_before_lost_transactions_is_found_in_any_file() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let log = BinaryLog::open(options(dir.path()), &engine).unwrap();
    let uuid = options(dir.path()).server_uuid;
    let set = |first, last| {
        let mut set = GtidSet::new();
        set.insert_range((uuid, Tag::NONE), first, last);
        set
    };
    let mut commits = Vec::new();
    for number in 1..=6 {
        commit(&*engine, &format!("CREATE TABLE t{number} (a INT)"));
        wait_for(&log, number);
        commits.push(engine.newest_position().0);
        if number % 2 == 0 {
            log.rotate().unwrap();
        }
    }
    for first in 1..=6 {
        let branch = log.branch(&set(first, 6)).unwrap().unwrap();
        assert_eq!(branch.commit, commits[first as usize - 1]);
        let before = if first == 1 {
            GtidSet::new()
        } else {
            set(1, first - 1)
        };
        assert_eq!(branch.executed, before);
    }
    assert_eq!(log.branch(&set(7, 9)).unwrap(), None);
    log.purge_to("binlog.000003").unwrap();
    assert_eq!(
        log.branch(&set(2, 6)).unwrap(),
        None,
        "its file was removed"
    );
    assert_eq!(log.branch(&set(5, 6)).unwrap().unwrap().commit, commits[4]);
}
