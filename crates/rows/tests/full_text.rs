//! FULLTEXT indexes: after random changes, and after power cuts, entries are those of the rows'
//! words, and searches find and rank rows as their texts do.

use porpoise_base::clock;
use porpoise_base::disk::MemDisk;
use porpoise_kv::contract::Rng;
use porpoise_kv::{Engine, LockMode, Read, ReadMode};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::{
    BeginOptions, Db, DbOptions, InsertMode, Lookup, OverflowFetch, RowBuf, RowChange, Txn,
    UpdateMode,
};
use porpoise_types::full_text::{Document, Frequencies, Query};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;

fn text(chars: u32) -> ColumnType {
    ColumnType::varchar(chars, Collation::UTF8MB4_0900_AI_CI)
}

fn long_text() -> ColumnType {
    let mut ty = text(0);
    ty.kind = Kind::LongText;
    ty.length = u32::MAX;
    ty
}

fn full_text_key() -> IndexSpec {
    IndexSpec::new(IndexKind::FullText, Some("w"), &["title", "body"])
}

fn spec() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("id", ColumnType::int(Kind::Int)).not_null(),
        ColumnSpec::new("title", text(100)),
        ColumnSpec::new("body", long_text()),
        ColumnSpec::new("n", ColumnType::int(Kind::Int)),
    ];
    let keys = vec![IndexSpec::primary(&["id"]), full_text_key()];
    let options = TableOptions::new(Collation::UTF8MB4_0900_AI_CI);
    TableSpec::new("d", "t", columns, keys, options)
}

fn open(engine: Arc<dyn Engine>) -> Option<Arc<Db>> {
    Db::open(engine, clock::system(), DbOptions::default()).ok()
}

fn create(db: &Arc<Db>) -> Option<()> {
    db.define(|cx| {
        db.create_database(cx, "d", Collation::UTF8MB4_0900_AI_CI, false)
            .ok()?;
        db.create_table(cx, &spec()).ok()
    })?;
    Some(())
}

fn table(db: &Db) -> Option<Arc<Table>> {
    db.catalog().table("d", "t").cloned()
}

/// Title and text by id.
type Rows = BTreeMap<i64, (Option<String>, String)>;

const NAMES: [&str; 9] = [
    "ant", "Bee", "cat", "DOG", "the", "émeu", "on", "cats", "emeu",
];

fn words(rng: &mut Rng, most: u64) -> String {
    let count = rng.below(most);
    let words = (0..count).map(|_| NAMES[rng.below(NAMES.len() as u64) as usize]);
    words.collect::<Vec<_>>().join(" ")
}

/// A text, sometimes one that overflows its row.
fn body(rng: &mut Rng) -> String {
    let filler = match rng.below(6) {
        0 => "abc def ".repeat(2_000 + rng.below(3) as usize),
        _ => String::new(),
    };
    filler + &words(rng, 9)
}

fn row(id: i64, (title, body): &(Option<String>, String), n: i64) -> Vec<Value> {
    let bytes = |text: &String| Value::Bytes(text.clone().into_bytes());
    let title = title.as_ref().map_or(Value::Null, bytes);
    vec![Value::Int(id), title, bytes(body), Value::Int(n)]
}

fn lock(
    txn: &mut Txn,
    table: &Table,
    id: i64,
    fetch: OverflowFetch<'_>,
) -> Option<(Vec<u8>, RowBuf)> {
    let key = table.key_prefix(0, &[ValueRef::Int(id)]);
    let mut old = None;
    let wait = txn.wait();
    let keys = [key.as_slice()];
    let lookup = Lookup::primary(table, &keys).overflow(fetch);
    txn.lock(&lookup, LockMode::Exclusive, wait, &mut |_, found| {
        old = found.row.map(|row| row.to_buf());
    })
    .unwrap();
    Some((key, old?))
}

/// One change of random kind.
fn change(txn: &mut Txn, table: &Arc<Table>, rng: &mut Rng, rows: &mut Rows) {
    let id = rng.below(12) as i64;
    let title = (rng.below(4) > 0).then(|| words(rng, 4));
    let texts = (title, body(rng));
    match rng.below(5) {
        0 => {
            let done = txn.insert(table, vec![row(id, &texts, 0)], InsertMode::Plain);
            assert_eq!(done.is_ok(), !rows.contains_key(&id));
            rows.entry(id).or_insert(texts);
        }
        1 => {
            txn.insert(table, vec![row(id, &texts, 0)], InsertMode::Replace)
                .unwrap();
            rows.insert(id, texts);
        }
        2 => {
            // The text stays, of which the statement may have only the beginning.
            let Some((key, old)) = lock(txn, table, id, OverflowFetch::Prefixes) else {
                return;
            };
            let to = if rng.below(2) == 0 { id + 40 } else { id };
            if to != id && rows.contains_key(&to) {
                return;
            }
            let mut new: Vec<Value> = {
                let row = old.row(table).unwrap();
                (0..4).map(|at| row.get(at).to_owned()).collect()
            };
            new[0] = Value::Int(to);
            new[1] = texts
                .0
                .as_ref()
                .map_or(Value::Null, |t| Value::Bytes(t.clone().into_bytes()));
            new[3] = Value::Int(rng.below(1_000) as i64);
            let changes = vec![RowChange { key, old, new }];
            txn.update(table, changes, UpdateMode::Plain).unwrap();
            let (_, body) = rows.remove(&id).unwrap();
            rows.insert(to, (texts.0, body));
        }
        3 => {
            let Some((key, old)) = lock(txn, table, id, OverflowFetch::All) else {
                return;
            };
            let new = row(id, &texts, 7);
            let changes = vec![RowChange { key, old, new }];
            txn.update(table, changes, UpdateMode::Plain).unwrap();
            rows.insert(id, texts);
        }
        _ => {
            let found = lock(txn, table, id, OverflowFetch::Prefixes);
            assert_eq!(found.is_some(), rows.remove(&id).is_some());
            txn.delete(table, found.into_iter().collect()).unwrap();
        }
    }
}

const SEARCHES: [&str; 9] = [
    "ant emeu",
    "+bee -cat",
    "ca*",
    "\"dog ant\"",
    "\"ant the bee\"",
    "\"ant cat\" @4",
    "abc",
    "+(dog bee) >cats ~ant",
    "the on",
];

fn own_read(txn: &Txn) -> Read {
    Read {
        mode: ReadMode::Snapshot,
        mark: txn.mark(),
        validate: false,
    }
}

/// Compares all searches with those of the rows' texts.
fn verify_searches(txn: &mut Txn, table: &Table, rows: &Rows) {
    let rules = table.text_index(1).unwrap().rules().clone();
    let texts = rows.iter().map(|(id, (title, body))| {
        let title = title.as_deref().unwrap_or_default();
        (*id, Document::new(&[title, body], &rules))
    });
    let documents: Vec<(i64, Document<'_>)> = texts.collect();
    for search in SEARCHES {
        let query = Query::boolean(search, &rules).unwrap();
        let mut frequencies = Frequencies::default();
        documents
            .iter()
            .for_each(|(_, document)| frequencies.add(&query, document));
        let ranks = documents
            .iter()
            .map(|(id, document)| (*id, query.rank(document, &frequencies)));
        let expected: BTreeMap<i64, f32> = ranks
            .filter_map(|(id, rank)| Some((id, rank.filter(|rank| *rank != 0.0)?)))
            .collect();
        let read = own_read(txn);
        let found = txn
            .search_text(table, 1, &query, read, &mut |_| Ok(()))
            .unwrap();
        let ranked: BTreeMap<i64, f32> = rows
            .keys()
            .filter_map(|id| {
                let key = table.key_prefix(0, &[ValueRef::Int(*id)]);
                Some((*id, found.rank(&key)?))
            })
            .collect();
        assert_eq!(ranked, expected, "{search}");
        assert_eq!(found.len(), expected.len(), "{search}");
        let ordered: Vec<f32> = found
            .by_rank()
            .into_iter()
            .map(|at| found.rank(found.key(at)).unwrap())
            .collect();
        assert!(ordered.is_sorted_by(|a, b| a >= b), "{search}: {ordered:?}");
    }
}

fn sound(db: &Arc<Db>, table: &Arc<Table>, rows: usize) {
    let checked = db.define(|cx| db.check_table(cx, table)).unwrap();
    assert_eq!(checked, (rows as u64, Vec::new()));
}

#[test]
fn entries_and_searches_follow_random_changes() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let db = open(KvMem::open(KvMemOptions::default()).unwrap()).unwrap();
        create(&db).unwrap();
        let table = table(&db).unwrap();
        let mut rows = Rows::new();
        for round in 0..100 {
            let mut txn = db.begin(BeginOptions::default()).unwrap();
            let mut after = rows.clone();
            for _ in 0..=rng.below(4) {
                change(&mut txn, &table, &mut rng, &mut after);
            }
            // A transaction finds its own changes, and no other does before the commit.
            if round % 7 == 0 {
                verify_searches(&mut txn, &table, &after);
                let mut other = db.begin(BeginOptions::default()).unwrap();
                verify_searches(&mut other, &table, &rows);
            }
            if rng.below(5) == 0 {
                txn.rollback();
            } else {
                txn.commit().unwrap();
                rows = after;
            }
            if round % 10 == 9 {
                sound(&db, &table, rows.len());
                let mut txn = db.begin(BeginOptions::default()).unwrap();
                verify_searches(&mut txn, &table, &rows);
            }
        }
    }
}

#[test]
fn an_index_that_is_built_is_one_that_was_maintained() {
    let mut rng = Rng::new(5);
    let db = open(KvMem::open(KvMemOptions::default()).unwrap()).unwrap();
    create(&db).unwrap();
    let old = table(&db).unwrap();
    let mut rows = Rows::new();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    for _ in 0..60 {
        change(&mut txn, &old, &mut rng, &mut rows);
    }
    txn.commit().unwrap();
    let copied = ColumnSpec::new("n", ColumnType::bigint());
    for ops in [
        vec![AlterOp::DropIndex("w".to_owned())],
        vec![AlterOp::AddIndex(full_text_key())],
        // The rows are copied.
        vec![AlterOp::ChangeColumn(
            "n".to_owned(),
            copied,
            porpoise_rows::ddl::Position::Default,
        )],
        vec![AlterOp::DropPrimaryKey],
    ] {
        db.define(|cx| db.alter_table(cx, "d", "t", &ops)).unwrap();
        sound(&db, &table(&db).unwrap(), rows.len());
        let table = table(&db).unwrap();
        if table.text_index(1).is_some() && !table.hidden_key {
            let mut txn = db.begin(BeginOptions::default()).unwrap();
            verify_searches(&mut txn, &table, &rows);
        }
    }
}

#[test]
fn a_missing_entry_and_one_too_many_are_found_by_the_check() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let db = open(engine.clone()).unwrap();
    create(&db).unwrap();
    let table = table(&db).unwrap();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let texts = (None, "quick fox".to_owned());
    txn.insert(&table, vec![row(1, &texts, 0)], InsertMode::Plain)
        .unwrap();
    txn.commit().unwrap();
    sound(&db, &table, 1);
    let space = table.index_spaces(1)[0];
    let mut entries = Vec::new();
    let mut txn = engine.begin(Default::default()).unwrap();
    let range = porpoise_kv::ScanRange {
        space,
        start: b"",
        end: None,
        reverse: false,
    };
    txn.scan(Read::CURRENT, &[range], 9, &mut |_, key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(entries.len(), 2);
    let check = porpoise_kv::Check::Blind;
    txn.delete(porpoise_kv::Key::new(space, &entries[0].0), check)
        .unwrap();
    txn.put(porpoise_kv::Key::new(space, b"zz"), &entries[1].1, check)
        .unwrap();
    txn.commit().unwrap();
    let (_, problems) = db.define(|cx| db.check_table(cx, &table)).unwrap();
    let texts: Vec<String> = problems.into_iter().map(|p| p.description).collect();
    assert!(
        texts.iter().any(|t| t.contains("has no entry in `w`")),
        "{texts:?}"
    );
}

const STEPS: u64 = 20;

/// Commits changes; whether the table was made, and how many were acknowledged.
fn run(disk: &MemDisk) -> (bool, u64) {
    let engine = KvMem::open(KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(disk.clone()),
        segment_bytes: 1 << 16,
        ..KvMemOptions::default()
    });
    let made = engine.ok().and_then(|engine| {
        let db = open(engine.clone())?;
        create(&db)?;
        Some((engine, db))
    });
    let Some((engine, db)) = made else {
        return (false, 0);
    };
    for n in 0..STEPS {
        if step(&engine, &db, n).is_none() {
            return (true, n);
        }
    }
    (true, STEPS)
}

fn step(engine: &KvMem, db: &Arc<Db>, n: u64) -> Option<()> {
    let table = table(db)?;
    let mut txn = db.begin(BeginOptions::default()).ok()?;
    let texts = (
        Some(words(&mut Rng::new(n), 5)),
        format!("cat {n} word{}", n % 3),
    );
    txn.insert(
        &table,
        vec![row((n % 6) as i64, &texts, 0)],
        InsertMode::Replace,
    )
    .ok()?;
    let position = txn.commit().ok()?.position;
    engine.wait_durable(position).ok()
}

#[test]
fn entries_are_whole_after_a_power_cut() {
    let whole = MemDisk::new();
    assert_eq!(run(&whole), (true, STEPS));
    for stop in (1..whole.operations()).step_by(5) {
        let disk = MemDisk::new();
        disk.stop_after(Some(stop));
        let (made, _) = run(&disk);
        let after = disk.after_power_cut(stop);
        let engine = KvMem::open(KvMemOptions {
            dir: Some("/data".into()),
            disk: Arc::new(after),
            ..KvMemOptions::default()
        });
        let db = open(engine.unwrap()).unwrap();
        let Some(table) = table(&db) else {
            assert!(!made, "operation {stop}: the table is gone");
            continue;
        };
        let (_, problems) = db.define(|cx| db.check_table(cx, &table)).unwrap();
        assert!(problems.is_empty(), "operation {stop}: {problems:?}");
    }
}
