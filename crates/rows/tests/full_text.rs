//! FULLTEXT indexes: after random changes, and after power cuts, entries are those of the rows'
//! words, and searches find and rank rows as their texts do.

use crate::common::random_changes::{Changes, Steps, lock, run_changes, table};
use porpoise_base::clock;
use porpoise_base::disk::MemDisk;
use porpoise_kv::contract::Rng;
use porpoise_kv::{Check, Engine, Key, Read, ReadMode, ScanRange, SpaceId, SpaceSpec, TxnOptions};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_rows::catalog::{IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, IndexSpec, TableSpec};
use porpoise_rows::prepared::PreparedTxn;
use porpoise_rows::{
    BeginOptions, Db, DbOptions, InsertMode, OverflowFetch, RankOrder, RowChange, Txn, UpdateMode,
};
use porpoise_types::full_text::{Document, Frequencies, Query};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
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
        let ordered: Vec<f32> = RankOrder::new(&found)
            .next(&found, found.len())
            .iter()
            .map(|at| found.rank(found.key(*at as usize)).unwrap())
            .collect();
        assert_eq!(ordered.len(), found.len(), "{search}");
        assert!(ordered.is_sorted_by(|a, b| a >= b), "{search}: {ordered:?}");
    }
}

fn sound(db: &Arc<Db>, table: &Arc<Table>, rows: usize) {
    let checked = db.define(|cx| db.check_table(cx, table)).unwrap();
    assert_eq!(checked, (rows as u64, Vec::new()));
}

struct Documents {
    db: Arc<Db>,
    table: Arc<Table>,
}

impl Changes for Documents {
    type Rows = Rows;

    fn change(&mut self, txn: &mut Txn, rng: &mut Rng, rows: &mut Rows) {
        change(txn, &self.table, rng, rows);
    }

    /// A transaction finds its own changes, and no other does before the commit.
    fn look(&mut self, round: u64, txn: &mut Txn, own: &Rows, committed: &Rows) {
        if round % 8 == 5 {
            optimize(&self.db, &self.table);
        }
        if round.is_multiple_of(7) {
            verify_searches(txn, &self.table, own);
            let mut other = self.db.begin(BeginOptions::default()).unwrap();
            verify_searches(&mut other, &self.table, committed);
        }
    }

    fn verify(&mut self, rows: &Rows) {
        sound(&self.db, &self.table, rows.len());
        let mut txn = self.db.begin(BeginOptions::default()).unwrap();
        verify_searches(&mut txn, &self.table, rows);
    }
}

#[test]
fn entries_and_searches_follow_random_changes() {
    for seed in 0..6 {
        let db = open(KvMem::open(KvMemOptions::default()).unwrap()).unwrap();
        create(&db).unwrap();
        let table = table(&db).unwrap();
        let mut documents = Documents {
            db: db.clone(),
            table,
        };
        run_changes(&db, &mut Rng::new(seed), 100, &mut documents);
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

/// All entries of the FULLTEXT index.
fn entries(engine: &dyn Engine, table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    let mut txn = engine.begin(Default::default()).unwrap();
    let range = ScanRange {
        space: table.index_spaces(1)[0],
        start: b"",
        end: None,
        reverse: false,
    };
    txn.scan(Read::CURRENT, &[range], usize::MAX, &mut |_, key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    entries
}

/// Numbers of blocks, pending documents and removals.
fn kinds(engine: &dyn Engine, table: &Table) -> [usize; 3] {
    let entries = entries(engine, table);
    [1, 2, 3].map(|kind| entries.iter().filter(|(key, _)| key[0] == kind).count())
}

fn optimize(db: &Arc<Db>, table: &Table) {
    db.optimize_text_indexes(table).unwrap();
}

/// A database with a table of some documents.
fn with_documents(texts: &[&str]) -> (Arc<KvMem>, Arc<Db>, Arc<Table>) {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let db = open(engine.clone()).unwrap();
    create(&db).unwrap();
    let table = table(&db).unwrap();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    for (id, text) in (1..).zip(texts) {
        let texts = (None, (*text).to_owned());
        txn.insert(&table, vec![row(id, &texts, 0)], InsertMode::Plain)
            .unwrap();
    }
    txn.commit().unwrap();
    (engine, db, table)
}

fn problems(db: &Arc<Db>, table: &Arc<Table>) -> Vec<String> {
    let (_, problems) = db.define(|cx| db.check_table(cx, table)).unwrap();
    problems.into_iter().map(|p| p.description).collect()
}

#[test]
fn the_check_finds_what_an_index_lacks_and_has_too_much() {
    for optimized in [false, true] {
        let (engine, db, table) = with_documents(&["quick fox", "dog"]);
        if optimized {
            optimize(&db, &table);
        }
        sound(&db, &table, 2);
        let space = table.index_spaces(1)[0];
        let all = entries(engine.as_ref(), &table);
        for (key, value) in all.iter().filter(|(key, _)| key[0] != 0) {
            let put = |value: Option<&[u8]>| {
                let mut txn = engine.begin(Default::default()).unwrap();
                let key = Key::new(space, key);
                match value {
                    Some(value) => txn.put(key, value, Check::Blind).unwrap(),
                    None => txn.delete(key, Check::Blind).unwrap(),
                }
                txn.commit().unwrap();
            };
            put(None);
            let lacking = problems(&db, &table);
            assert!(
                lacking.iter().all(|t| t.contains("has no entry in `w`")),
                "{lacking:?}"
            );
            assert_eq!(lacking.len(), 1);
            put(Some(b"xyz"));
            let broken = problems(&db, &table);
            assert!(
                broken.iter().any(|t| t.contains("is malformed")),
                "{broken:?}"
            );
            // The last byte is that of a place.
            let mut moved = value.clone();
            *moved.last_mut().unwrap() += 1;
            put(Some(&moved));
            assert_eq!(problems(&db, &table).len(), 1);
            put(Some(value));
        }
        sound(&db, &table, 2);
        let (key, value) = all.iter().rfind(|(key, _)| key[0] != 0).unwrap();
        let mut key = key.clone();
        if let Some(last) = key.last_mut() {
            *last += 1;
        }
        let mut txn = engine.begin(Default::default()).unwrap();
        txn.put(Key::new(space, &key), value, Check::Blind).unwrap();
        txn.put(Key::new(space, b"\x09"), b"", Check::Blind)
            .unwrap();
        txn.commit().unwrap();
        let surplus = problems(&db, &table);
        assert!(
            surplus.iter().any(|t| t.contains("that are not its words")),
            "{surplus:?}"
        );
        assert!(
            surplus
                .iter()
                .any(|t| t.contains("entry 09 of `w` is malformed")),
            "{surplus:?}"
        );
    }
}

/// Ids of the rows that a search finds.
fn found(txn: &mut Txn, table: &Table, search: &str) -> Vec<i64> {
    let query = Query::boolean(search, table.text_index(1).unwrap().rules()).unwrap();
    let read = own_read(txn);
    let found = txn
        .search_text(table, 1, &query, read, &mut |_| Ok(()))
        .unwrap();
    let ids = 0..100_i64;
    ids.filter(|id| {
        found
            .rank(&table.key_prefix(0, &[ValueRef::Int(*id)]))
            .is_some()
    })
    .collect()
}

#[test]
fn maintenance_changes_entries_and_no_result() {
    let (engine, db, table) = with_documents(&["fox dog", "fox", "cat"]);
    assert_eq!(kinds(engine.as_ref(), &table), [0, 3, 0]);
    let mut old = db.begin(BeginOptions::default()).unwrap();
    old.pin().unwrap();
    assert_eq!(found(&mut old, &table, "fox"), [1, 2]);
    optimize(&db, &table);
    // A block for each word.
    assert_eq!(kinds(engine.as_ref(), &table), [3, 0, 0]);
    let change = |id: i64, text: Option<&str>| {
        let mut txn = db.begin(BeginOptions::default()).unwrap();
        if let Some(text) = text {
            let texts = (None, text.to_owned());
            txn.insert(&table, vec![row(id, &texts, 0)], InsertMode::Replace)
                .unwrap();
        } else {
            let gone = lock(&mut txn, &table, id, OverflowFetch::Prefixes);
            txn.delete(&table, gone.into_iter().collect()).unwrap();
        }
        txn.commit().unwrap();
    };
    change(1, None);
    change(2, Some("dog"));
    change(4, Some("fox"));
    assert_eq!(kinds(engine.as_ref(), &table), [3, 2, 2]);
    let mut new = db.begin(BeginOptions::default()).unwrap();
    new.pin().unwrap();
    let results = |txn: &mut Txn| [found(txn, &table, "fox"), found(txn, &table, "dog cat")];
    let expected = [vec![4], vec![2, 3]];
    assert_eq!(results(&mut new), expected);
    optimize(&db, &table);
    // Row 2 has a removal, because its document is of the second generation.
    assert_eq!(kinds(engine.as_ref(), &table), [3, 0, 1]);
    for txn in [&mut new, &mut db.begin(BeginOptions::default()).unwrap()] {
        assert_eq!(results(txn), expected);
    }
    assert_eq!(results(&mut old), [vec![1, 2], vec![1, 3]]);
    sound(&db, &table, 3);
    // A row whose removal is forgotten begins with the first generation.
    change(1, Some("fox"));
    change(2, None);
    optimize(&db, &table);
    assert_eq!(kinds(engine.as_ref(), &table), [2, 0, 0]);
    change(2, Some("fox"));
    assert_eq!(kinds(engine.as_ref(), &table), [2, 1, 0]);
    sound(&db, &table, 4);
}

#[test]
fn a_writer_and_maintenance_do_not_wait_for_each_other() {
    let (engine, db, table) = with_documents(&["fox dog", "fox"]);
    let mut writer = db.begin(BeginOptions::default()).unwrap();
    let gone = lock(&mut writer, &table, 1, OverflowFetch::Prefixes);
    writer.delete(&table, gone.into_iter().collect()).unwrap();
    let mut second = db.begin(BeginOptions::default()).unwrap();
    let texts = (None, "fox".to_owned());
    second
        .insert(&table, vec![row(7, &texts, 0)], InsertMode::Plain)
        .unwrap();
    // The documents that the first one removes become blocks meanwhile.
    optimize(&db, &table);
    assert_eq!(kinds(engine.as_ref(), &table), [2, 0, 0]);
    second.commit().unwrap();
    writer.commit().unwrap();
    let mut reader = db.begin(BeginOptions::default()).unwrap();
    assert_eq!(found(&mut reader, &table, "fox dog"), [2, 7]);
    sound(&db, &table, 2);
    // A removal that a writer has locked stays.
    let mut writer = db.begin(BeginOptions::default()).unwrap();
    writer
        .insert(&table, vec![row(1, &texts, 0)], InsertMode::Plain)
        .unwrap();
    optimize(&db, &table);
    writer.commit().unwrap();
    let mut reader = db.begin(BeginOptions::default()).unwrap();
    assert_eq!(found(&mut reader, &table, "fox dog"), [1, 2, 7]);
    sound(&db, &table, 3);
}

/// Inserts rows with these ids and one text.
fn insert_many(db: &Arc<Db>, table: &Arc<Table>, ids: std::ops::Range<i64>, text: &str) {
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let texts = (None, text.to_owned());
    let rows = ids.map(|id| row(id, &texts, 0)).collect();
    txn.insert(table, rows, InsertMode::Plain).unwrap();
    txn.commit().unwrap();
}

fn delete_many(db: &Arc<Db>, table: &Arc<Table>, ids: impl Iterator<Item = i64>) {
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    for id in ids {
        let gone = lock(&mut txn, table, id, OverflowFetch::Prefixes);
        txn.delete(table, gone.into_iter().collect()).unwrap();
    }
    txn.commit().unwrap();
}

/// Number of rows that a search finds.
fn count_found(db: &Arc<Db>, table: &Table, search: &str) -> usize {
    let query = Query::boolean(search, table.text_index(1).unwrap().rules()).unwrap();
    let mut txn = db.begin(BeginOptions::default()).unwrap();
    let read = own_read(&txn);
    let found = txn.search_text(table, 1, &query, read, &mut |_| Ok(()));
    found.unwrap().len()
}

#[test]
fn a_frequent_word_has_several_blocks_and_many_removals() {
    let (engine, db, table) = with_documents(&[]);
    insert_many(&db, &table, 0..3_000, "fox");
    insert_many(&db, &table, 3_000..3_010, "dog fox");
    optimize(&db, &table);
    let [blocks, ..] = kinds(engine.as_ref(), &table);
    // Three for "fox", one for "dog".
    assert_eq!(blocks, 4);
    assert_eq!(count_found(&db, &table, "fox"), 3_010);
    delete_many(&db, &table, (0..3_010).step_by(3));
    for search in ["fox", "fo*", "+fox -dog", "dog"] {
        let (all, dogs) = (3_010 - 1_004, 10 - 4);
        let expected = match search {
            "dog" => dogs,
            "+fox -dog" => all - dogs,
            _ => all,
        };
        assert_eq!(count_found(&db, &table, search), expected, "{search}");
    }
    sound(&db, &table, 2_006);
    insert_many(&db, &table, 3_010..3_020, "fox");
    optimize(&db, &table);
    // The blocks of "fox" were merged, and no removal is left.
    assert_eq!(kinds(engine.as_ref(), &table), [3, 0, 0]);
    assert_eq!(count_found(&db, &table, "fox"), 2_016);
    sound(&db, &table, 2_016);
}

#[test]
fn commits_and_searches_maintain_an_index_when_it_is_due() {
    let (engine, db, table) = with_documents(&[]);
    let words: Vec<String> = (0..3_000).map(|n| format!("word{n}")).collect();
    let text = words.join(" ");
    // A document of some 60 KB.
    insert_many(&db, &table, 0..100, &text);
    assert_eq!(kinds(engine.as_ref(), &table), [0, 100, 0]);
    insert_many(&db, &table, 100..200, &text);
    assert_eq!(kinds(engine.as_ref(), &table), [3_000, 0, 0]);
    insert_many(&db, &table, 200..250, &text);
    for _ in 0..40 {
        assert_eq!(count_found(&db, &table, "word7"), 250);
    }
    let [_, pending, _] = kinds(engine.as_ref(), &table);
    assert_eq!(pending, 0);
    insert_many(&db, &table, 250..2_500, "fox");
    delete_many(&db, &table, 250..1_100);
    assert_eq!(kinds(engine.as_ref(), &table)[2], 850);
    // A thousand and a quarter of the documents that were merged.
    delete_many(&db, &table, 1_100..2_500);
    assert_eq!(kinds(engine.as_ref(), &table)[2], 0);
    sound(&db, &table, 250);
}

/// A branch prepared under the first entry format has entries of that format to write.
#[test]
fn an_index_that_a_prepared_transaction_has_written_to_is_not_built_anew() {
    let rows = crate::common::stored_rows("full-text-1");
    let store = || {
        let disk = MemDisk::new();
        let engine = crate::common::store_of(&disk, &rows);
        engine.create_spaces(&[SpaceSpec::default()]).unwrap();
        (disk, engine)
    };
    let table = |db: &Db| db.catalog().table("d", "doc").cloned().unwrap();
    let id = table(&open(store().1).unwrap()).id.0;
    for (access, is_refused) in [(1, true), (0, false)] {
        let (disk, engine) = store();
        let note = [&[1, 1, 0, 0, 0], id.to_le_bytes().as_slice(), &[access]].concat();
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        let key = Key::new(SpaceId::FIRST_FREE, b"key");
        txn.put(key, b"value", Check::Blind).unwrap();
        let prepared = txn.prepare(b"branch", &note).unwrap();
        engine.wait_durable(prepared.position()).unwrap();
        drop((prepared, engine));
        let reopened = crate::common::store_on(&disk).unwrap();
        let db = Db::open(reopened, clock::system(), DbOptions::default());
        if !is_refused {
            let prepared = PreparedTxn::restore(&db.unwrap()).unwrap();
            assert_eq!(prepared[0].name(), b"branch");
            continue;
        }
        let text = db.err().unwrap().to_string();
        assert!(
            text.contains("`d`.`doc`") && text.contains("prepared XA"),
            "{text}"
        );
        // The older program ends it.
        let older = crate::common::store_on(&disk).unwrap();
        older.take_restored().unwrap().remove(0).rollback().unwrap();
        drop(older);
        let db = open(crate::common::store_on(&disk).unwrap()).unwrap();
        let mut txn = db.begin(BeginOptions::default()).unwrap();
        assert_eq!(found(&mut txn, &table(&db), "fox emeu"), [1, 3]);
    }
}

#[test]
fn an_index_of_the_first_entry_format_is_built_anew() {
    let rows = crate::common::stored_rows("full-text-1");
    for fails in [false, true] {
        let disk = MemDisk::new();
        let engine = crate::common::store_of(&disk, &rows);
        // The last table's space of overflow values, which is empty.
        engine.create_spaces(&[SpaceSpec::default()]).unwrap();
        if fails {
            disk.stop_after(Some(disk.operations() + 3));
            assert!(open(engine).is_none());
            disk.stop_after(None);
        } else {
            drop(engine);
        }
        let engine = KvMem::open(KvMemOptions {
            dir: Some("/store".into()),
            disk: Arc::new(disk.after_power_cut(1)),
            ..KvMemOptions::default()
        });
        let engine = engine.unwrap();
        let db = open(engine.clone()).unwrap();
        for (name, search, expected) in [
            ("doc", "fox emeu", vec![1, 3]),
            ("doc", "dog", vec![1]),
            ("exact", "fox", vec![1]),
            ("exact", "FO*", vec![2]),
        ] {
            let table = db.catalog().table("d", name).cloned().unwrap();
            let mut txn = db.begin(BeginOptions::default()).unwrap();
            assert_eq!(
                found(&mut txn, &table, search),
                expected,
                "{name}: {search}"
            );
            sound(&db, &table, 2);
        }
        let named: usize = db
            .catalog()
            .tables
            .values()
            .map(|t| t.all_spaces().count())
            .sum();
        assert_eq!(engine.spaces().unwrap().len(), named);
    }
}

#[test]
fn entries_are_whole_after_a_power_cut() {
    let step = |db: &Arc<Db>, table: &Arc<Table>, n: u64| {
        if n % 5 == 4 {
            db.optimize_text_indexes(table).ok()?;
        }
        let mut txn = db.begin(BeginOptions::default()).ok()?;
        let title = Some(words(&mut Rng::new(n), 5));
        let texts = (title, format!("cat {n} word{}", n % 3));
        let new = row((n % 6) as i64, &texts, 0);
        txn.insert(table, vec![new], InsertMode::Replace).ok()?;
        Some(txn.commit().ok()?.position)
    };
    let steps = Steps {
        count: 20,
        open: &open,
        create: &create,
        step: &step,
    };
    steps.cut(&|db, table, what| {
        assert_eq!(problems(db, table), [""; 0], "{what}");
    });
}
