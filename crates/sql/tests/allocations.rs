//! Allocations of a point SELECT with a cached plan: a small number for each execution,
//! independent of the number of executions and of the table's size.
#![allow(
    clippy::unwrap_used,
    reason = "a test stops at what it does not expect"
)]

mod common;

use porpoise_kv::Durability;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_sql::ResultColumn;
use porpoise_sql::ResultSink;
use porpoise_sql::SqlError;
use porpoise_sql::session::{Param, SqlSession};
use porpoise_types::{ColumnType, ValueRef};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; the
// counter is a plain cell of the thread and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts rows and the bytes of their values.
#[derive(Default)]
struct Count {
    rows: u64,
    bytes: usize,
}

impl ResultSink for Count {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.rows += 1;
        for value in values {
            if let ValueRef::Bytes(text) = value {
                self.bytes += text.len();
            }
        }
        Ok(())
    }
}

fn session() -> SqlSession {
    let engine = KvMem::open(KvMemOptions {
        durability: Durability::Memory,
        ..KvMemOptions::default()
    })
    .unwrap();
    let mut session = common::connect(&common::server(engine), 1);
    let mut sink = Count::default();
    for text in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), d DECIMAL(10,2))",
    ] {
        session.query(text.as_bytes(), false, &mut sink).unwrap();
    }
    for n in 0..1000 {
        let text = format!("INSERT INTO t VALUES ({n}, {n}, 'text of row {n:04}', {n}.25)");
        session.query(text.as_bytes(), false, &mut sink).unwrap();
    }
    session
}

/// Number of the allocator's calls in this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> usize {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

#[test]
fn the_counter_counts() {
    let calls = allocations(|| drop(std::hint::black_box(vec![0u8; 1000])));
    assert_eq!(calls, 1);
}

#[test]
fn a_cached_point_select_allocates_little() {
    let mut session = session();
    let mut sink = Count::default();
    let texts: Vec<String> = (0..120)
        .map(|n| format!("SELECT a, b, d FROM t WHERE id = {}", n * 7 % 1000))
        .collect();
    let mut run = |texts: &[String]| {
        allocations(|| {
            for text in texts {
                session.query(text.as_bytes(), false, &mut sink).unwrap();
            }
        })
    };
    run(&texts[..20]);
    let calls = run(&texts[20..]);
    assert_eq!((sink.rows, sink.bytes), (120, 120 * 16));
    assert!(calls <= 100 * TEXT, "{calls} for 100 statements");
}

#[test]
fn a_prepared_point_select_allocates_little() {
    let mut session = session();
    let mut sink = Count::default();
    let select = b"SELECT a, b, d FROM t WHERE id = ?";
    let id = session.prepare(select).unwrap().id;
    let mut run = |from: u64, to: u64| {
        allocations(|| {
            for n in from..to {
                let param = Param {
                    value: ValueRef::UInt(n * 7 % 1000),
                    ty: ColumnType::bigint(),
                };
                session.execute(id, &[param], &mut sink).unwrap();
            }
        })
    };
    run(0, 20);
    let calls = run(20, 120);
    assert_eq!((sink.rows, sink.bytes), (120, 120 * 16));
    assert!(calls <= 100 * PREPARED, "{calls} for 100 statements");
}

/// Maximum allocations of a SELECT of one row by its key, sent as text, with a cached plan.
const TEXT: usize = 8;

/// Maximum allocations of the same SELECT as a prepared statement.
const PREPARED: usize = 8;

#[test]
fn a_table_is_created_among_many_as_among_few() {
    let mut session = session();
    let mut create = |numbers: std::ops::Range<usize>| {
        allocations(|| {
            for n in numbers {
                let text = format!("CREATE TABLE made{n:05} (id INT PRIMARY KEY, a INT)");
                let mut sink = Count::default();
                session.query(text.as_bytes(), false, &mut sink).unwrap();
            }
        })
    };
    create(0..128);
    let few = create(128..192);
    create(192..1024);
    let many = create(1024..1088);
    assert!(
        many < few * 5 / 4,
        "64 definitions: {few} allocations among few tables, {many} among many"
    );
}
