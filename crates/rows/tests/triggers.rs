//! Triggers of rows: when they fire, what they may change, and the atomicity of their writes.
//!
//! A trigger here is a Rust closure behind [`FireTriggers`]; `log` has one entry for each firing.

use crate::common::{
    N, all_in, begin, database, delete, engines, get, ids, insert, int, open, row, update,
};
use porpoise_kv::model::Model;
use porpoise_rows::catalog::FkAction::{Cascade, SetNull};
use porpoise_rows::catalog::{IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, IndexSpec, TableSpec, TriggerOrder};
use porpoise_rows::triggers::{Trigger, TriggerEvent, TriggerTime};
use porpoise_rows::{
    Db, Error, FireTriggers, Firing, GeneratedIds, InsertMode, Inserted, RowChange, Txn, UpdateMode,
};
use porpoise_types::{Collation, ColumnType, Kind, Value};
use std::cell::RefCell;
use std::sync::Arc;

fn trigger(name: &str, time: TriggerTime, event: TriggerEvent) -> Trigger {
    Trigger {
        name: name.into(),
        time,
        event,
        body: String::new(),
        definer: "root@%".into(),
        sql_mode: 0,
        charset: "utf8mb4".into(),
        collation: "utf8mb4_0900_ai_ci".into(),
        database_collation: "utf8mb4_0900_ai_ci".into(),
        created: 1,
    }
}

/// Triggers of all times and events.
fn all_triggers() -> Vec<Trigger> {
    let mut all = Vec::new();
    for time in [TriggerTime::Before, TriggerTime::After] {
        for event in [
            TriggerEvent::Insert,
            TriggerEvent::Update,
            TriggerEvent::Delete,
        ] {
            all.push(trigger("t", time, event));
        }
    }
    all
}

type Body<'b> = dyn Fn(&mut Txn, &mut Firing<'_>) -> Result<(), Error> + 'b;

/// Logs each firing, then runs a body.
struct Runner<'b> {
    log: RefCell<Vec<String>>,
    body: &'b Body<'b>,
}

impl Runner<'_> {
    fn new<'b>(body: &'b Body<'b>) -> Runner<'b> {
        Runner {
            log: RefCell::default(),
            body,
        }
    }

    fn take(&self) -> Vec<String> {
        self.log.take()
    }
}

fn nothing(_: &mut Txn, _: &mut Firing<'_>) -> Result<(), Error> {
    Ok(())
}

fn shown(row: &[Value]) -> String {
    let values = row.iter().map(|v| match v {
        Value::Int(v) => v.to_string(),
        _ => "-".into(),
    });
    values.collect::<Vec<_>>().join(",")
}

impl FireTriggers for Runner<'_> {
    fn fire(&self, txn: &mut Txn, firing: &mut Firing<'_>) -> Result<(), Error> {
        assert_eq!(firing.triggers().count(), 1);
        let (old, new) = (shown(firing.old), shown(firing.new));
        let (time, event) = (firing.time.name(), firing.event.name());
        let entry = format!("{} {time} {event} [{old}] [{new}]", firing.table.name);
        self.log.borrow_mut().push(entry);
        (self.body)(txn, firing)
    }
}

fn change(table: &Arc<Table>, txn: &mut Txn, id: i64, set: &[i64]) -> RowChange {
    let key = table.key_prefix(0, &[porpoise_types::ValueRef::Int(id)]);
    let rows = txn.lock_present(table, &[key], |_| true).unwrap();
    let (key, old) = rows.into_iter().next().unwrap();
    RowChange {
        key,
        old,
        new: row(set),
    }
}

fn locked(table: &Arc<Table>, txn: &mut Txn, all: &[i64]) -> Vec<(Vec<u8>, porpoise_rows::RowBuf)> {
    let key = |id: &i64| table.key_prefix(0, &[porpoise_types::ValueRef::Int(*id)]);
    let keys: Vec<Vec<u8>> = all.iter().map(key).collect();
    txn.lock_present(table, &keys, |_| true).unwrap()
}

fn insert_rows(
    txn: &mut Txn,
    runner: &Runner<'_>,
    table: &Arc<Table>,
    rows: &[&[i64]],
    mode: InsertMode,
) -> Result<porpoise_rows::InsertOutcome, Error> {
    let rows = rows.iter().map(|r| row(r)).collect();
    txn.firing(runner)
        .insert_with_ids(table, rows, mode, &mut GeneratedIds::default())
}

#[test]
fn each_row_fires_before_and_after_its_change() {
    for engine in engines() {
        let db = database(
            engine,
            &[ids("t").int("a").null().triggers(&all_triggers())],
        );
        let t = get(&db, "t");
        let runner = Runner::new(&nothing);
        let mut txn = begin(&db);
        insert_rows(
            &mut txn,
            &runner,
            &t,
            &[&[1, 10], &[2, 20]],
            InsertMode::Plain,
        )
        .unwrap();
        assert_eq!(
            runner.take(),
            [
                "t BEFORE INSERT [] [1,10]",
                "t AFTER INSERT [] [1,10]",
                "t BEFORE INSERT [] [2,20]",
                "t AFTER INSERT [] [2,20]"
            ]
        );
        // A row that stays the same fires, too.
        let changes = vec![
            change(&t, &mut txn, 1, &[1, 11]),
            change(&t, &mut txn, 2, &[2, 20]),
        ];
        let done = txn
            .firing(&runner)
            .update(&t, changes, UpdateMode::Plain)
            .unwrap();
        assert_eq!(done.changed, 1);
        assert_eq!(
            runner.take(),
            [
                "t BEFORE UPDATE [1,10] [1,11]",
                "t AFTER UPDATE [1,10] [1,11]",
                "t BEFORE UPDATE [2,20] [2,20]",
                "t AFTER UPDATE [2,20] [2,20]"
            ]
        );
        let done = insert_rows(&mut txn, &runner, &t, &[&[1, 5]], InsertMode::Replace).unwrap();
        assert_eq!((done.inserted, done.replaced), (1, 1));
        assert_eq!(
            runner.take(),
            [
                "t BEFORE INSERT [] [1,5]",
                "t BEFORE DELETE [1,11] []",
                "t AFTER DELETE [1,11] []",
                "t AFTER INSERT [] [1,5]"
            ]
        );
        // The insert half of an upsert fires BEFORE INSERT even where a row is found.
        let found = txn
            .firing(&runner)
            .insert_or_find(&t, &mut row(&[1, 6]))
            .unwrap();
        assert!(matches!(found, Inserted::Duplicate { .. }));
        assert_eq!(runner.take(), ["t BEFORE INSERT [] [1,6]"]);
        let done = insert_rows(
            &mut txn,
            &runner,
            &t,
            &[&[1, 7], &[3, 7]],
            InsertMode::Ignore,
        )
        .unwrap();
        assert_eq!(
            (done.inserted, done.skipped.len(), done.skipped[0].0),
            (1, 1, 0)
        );
        assert_eq!(
            runner.take(),
            [
                "t BEFORE INSERT [] [1,7]",
                "t BEFORE INSERT [] [3,7]",
                "t AFTER INSERT [] [3,7]"
            ]
        );
        let rows = locked(&t, &mut txn, &[1, 3]);
        assert_eq!(txn.firing(&runner).delete(&t, rows).unwrap().deleted, 2);
        assert_eq!(
            runner.take(),
            [
                "t BEFORE DELETE [1,5] []",
                "t AFTER DELETE [1,5] []",
                "t BEFORE DELETE [3,7] []",
                "t AFTER DELETE [3,7] []"
            ]
        );
        assert_eq!(all_in(&mut txn, &t), [row(&[2, 20])]);
    }
}

#[test]
fn before_triggers_change_the_row_that_is_checked_and_written() {
    let db = database(
        Arc::new(Model::new()),
        &[ids("t").int("a").triggers(&all_triggers())],
    );
    let t = get(&db, "t");
    let body = |_: &mut Txn, firing: &mut Firing<'_>| {
        if firing.time == TriggerTime::Before && firing.event != TriggerEvent::Delete {
            firing.new[1] = match firing.new[1] {
                Value::Int(v) if v >= 0 => int(v * 2),
                _ => int(0),
            };
        }
        Ok(())
    };
    let runner = Runner::new(&body);
    let mut txn = begin(&db);
    // NULL in a NOT NULL column is not an error if the trigger replaces it.
    insert_rows(
        &mut txn,
        &runner,
        &t,
        &[&[1, 10], &[2, N]],
        InsertMode::Plain,
    )
    .unwrap();
    let changed = change(&t, &mut txn, 1, &[1, 30]);
    txn.firing(&runner)
        .update(&t, vec![changed], UpdateMode::Plain)
        .unwrap();
    assert_eq!(all_in(&mut txn, &t), [row(&[1, 60]), row(&[2, 0])]);
    assert_eq!(runner.take()[1], "t AFTER INSERT [] [1,20]");
}

#[test]
fn writes_of_triggers_are_rolled_back_with_the_statement() {
    let db = database(
        Arc::new(Model::new()),
        &[ids("t").int("a").triggers(&all_triggers()), ids("log")],
    );
    let (t, log) = (get(&db, "t"), get(&db, "log"));
    let body = |txn: &mut Txn, firing: &mut Firing<'_>| {
        if firing.time == TriggerTime::Before {
            let Value::Int(id) = firing.new[0] else {
                panic!()
            };
            insert(txn, &log, &[&[id]])?;
        }
        Ok(())
    };
    let runner = Runner::new(&body);
    let mut txn = begin(&db);
    insert_rows(
        &mut txn,
        &runner,
        &t,
        &[&[1, 1], &[2, 2]],
        InsertMode::Plain,
    )
    .unwrap();
    assert_eq!(all_in(&mut txn, &log), [row(&[1]), row(&[2])]);
    // The second row is a duplicate: the first row and the rows of both triggers are rolled back.
    let e = insert_rows(
        &mut txn,
        &runner,
        &t,
        &[&[3, 1], &[2, 2]],
        InsertMode::Plain,
    )
    .unwrap_err();
    assert_eq!(e.code(), 1062);
    assert_eq!(all_in(&mut txn, &t).len(), 2);
    assert_eq!(all_in(&mut txn, &log).len(), 2);
    // A trigger's error ends the statement, also with IGNORE.
    let e = insert_rows(
        &mut txn,
        &runner,
        &t,
        &[&[4, 1], &[1, 2]],
        InsertMode::Ignore,
    )
    .unwrap_err();
    assert_eq!(e.to_string(), "Duplicate entry '1' for key 'log.PRIMARY'");
    assert_eq!(all_in(&mut txn, &t).len(), 2);
    assert_eq!(all_in(&mut txn, &log).len(), 2);
    txn.commit().unwrap();
}

#[test]
fn a_trigger_cannot_write_the_table_whose_statement_fired_it() {
    let db = database(
        Arc::new(Model::new()),
        &[ids("t").int("a").triggers(&all_triggers())],
    );
    let t = get(&db, "t");
    let silent = Runner::new(&nothing);
    let body = |txn: &mut Txn, firing: &mut Firing<'_>| match firing.event {
        TriggerEvent::Insert => {
            insert_rows(txn, &silent, &t, &[&[9, 9]], InsertMode::Plain).map(|_| ())
        }
        TriggerEvent::Update => {
            let changed = change(&t, txn, 1, &[1, 5]);
            let mut firing = txn.firing(&silent);
            firing
                .update(&t, vec![changed], UpdateMode::Plain)
                .map(|_| ())
        }
        TriggerEvent::Delete => {
            let rows = locked(&t, txn, &[1]);
            txn.firing(&silent).delete(&t, rows).map(|_| ())
        }
    };
    let runner = Runner::new(&body);
    let mut txn = begin(&db);
    insert_rows(
        &mut txn,
        &silent,
        &t,
        &[&[1, 1], &[2, 2]],
        InsertMode::Plain,
    )
    .unwrap();
    let changed = change(&t, &mut txn, 2, &[2, 3]);
    let rows = locked(&t, &mut txn, &[2]);
    for refused in [
        insert_rows(&mut txn, &runner, &t, &[&[3, 3]], InsertMode::Plain).map(|_| ()),
        txn.firing(&runner)
            .update(&t, vec![changed], UpdateMode::Plain)
            .map(|_| ()),
        txn.firing(&runner).delete(&t, rows).map(|_| ()),
    ] {
        let e = refused.unwrap_err();
        assert_eq!((e.code(), e.sqlstate()), (1442, "HY000"));
        assert!(
            e.to_string()
                .starts_with("Can't update table 't' in stored function/trigger")
        );
    }
    // Afterwards the table is free again.
    insert_rows(&mut txn, &silent, &t, &[&[4, 4]], InsertMode::Plain).unwrap();
    assert_eq!(all_in(&mut txn, &t).len(), 3);
}

#[test]
fn foreign_key_actions_fire_triggers_unless_they_are_off() {
    for engine in engines() {
        let db = database(
            engine,
            &[
                ids("p"),
                ids("c")
                    .int("p")
                    .null()
                    .int("n")
                    .key("p", &["p"])
                    .fk_with("f", &["p"], "p", &["id"], Cascade, Cascade)
                    .triggers(&all_triggers()),
                ids("g")
                    .int("c")
                    .null()
                    .key("c", &["c"])
                    .fk_with("h", &["c"], "c", &["id"], SetNull, Cascade)
                    .triggers(&all_triggers()),
            ],
        );
        let (p, c, g) = (get(&db, "p"), get(&db, "c"), get(&db, "g"));
        let body = |_: &mut Txn, firing: &mut Firing<'_>| {
            if firing.time == TriggerTime::Before
                && firing.table.name == "c"
                && !firing.new.is_empty()
            {
                firing.new[2] = int(77);
            }
            Ok(())
        };
        let runner = Runner::new(&body);
        let mut txn = begin(&db);
        insert(&mut txn, &p, &[&[1], &[2]]).unwrap();
        insert_rows(
            &mut txn,
            &Runner::new(&nothing),
            &c,
            &[&[10, 1, 0], &[20, 2, 0]],
            InsertMode::Plain,
        )
        .unwrap();
        insert_rows(
            &mut txn,
            &Runner::new(&nothing),
            &g,
            &[&[100, 10]],
            InsertMode::Plain,
        )
        .unwrap();
        let changed = change(&p, &mut txn, 1, &[3]);
        txn.firing(&runner)
            .update(&p, vec![changed], UpdateMode::Plain)
            .unwrap();
        assert_eq!(
            runner.take(),
            [
                "c BEFORE UPDATE [10,1,0] [10,3,0]",
                "c AFTER UPDATE [10,1,0] [10,3,77]"
            ]
        );
        assert_eq!(all_in(&mut txn, &c)[0], row(&[10, 3, 77]));
        let rows = locked(&p, &mut txn, &[3]);
        let mark = txn.mark();
        txn.firing(&runner).delete(&p, rows.clone()).unwrap();
        assert_eq!(
            runner.take(),
            [
                "c BEFORE DELETE [10,3,77] []",
                "g BEFORE UPDATE [100,10] [100,-]",
                "c AFTER DELETE [10,3,77] []",
                "g AFTER UPDATE [100,10] [100,-]"
            ]
        );
        assert_eq!(all_in(&mut txn, &g), [row(&[100, N])]);
        txn.rollback_to(mark);
        txn.set_cascades_fire(false);
        txn.firing(&runner).delete(&p, rows).unwrap();
        assert_eq!(runner.take(), Vec::<String>::new());
        assert_eq!(all_in(&mut txn, &c), [row(&[20, 2, 0])]);
    }
}

#[test]
fn a_cascaded_trigger_cannot_change_indexed_columns() {
    let db = database(
        Arc::new(Model::new()),
        &[
            ids("p"),
            ids("c")
                .int("p")
                .null()
                .key("p", &["p"])
                .fk_with("f", &["p"], "p", &["id"], SetNull, Cascade)
                .triggers(&all_triggers()),
        ],
    );
    let (p, c) = (get(&db, "p"), get(&db, "c"));
    let body = |_: &mut Txn, firing: &mut Firing<'_>| {
        firing.new[1] = int(2);
        Ok(())
    };
    let mut txn = begin(&db);
    insert(&mut txn, &p, &[&[1], &[2]]).unwrap();
    insert_rows(
        &mut txn,
        &Runner::new(&nothing),
        &c,
        &[&[10, 1]],
        InsertMode::Plain,
    )
    .unwrap();
    let rows = locked(&p, &mut txn, &[1]);
    let e = txn
        .firing(&Runner::new(&body))
        .delete(&p, rows)
        .unwrap_err();
    assert_eq!(e.code(), 1362);
    assert_eq!(all_in(&mut txn, &p).len(), 2);
}

/// Adds 1 to the last column of new rows.
struct AddOne;

impl FireTriggers for AddOne {
    fn fire(&self, _: &mut Txn, firing: &mut Firing<'_>) -> Result<(), Error> {
        if let (TriggerTime::Before, Some(Value::Int(v))) = (firing.time, firing.new.last_mut()) {
            *v += 1;
        }
        Ok(())
    }
}

#[test]
fn writers_without_a_runner_of_their_own_use_that_of_the_server() {
    let db = database(
        Arc::new(Model::new()),
        &[ids("t").int("a").triggers(&all_triggers())],
    );
    let t = get(&db, "t");
    let mut txn = begin(&db);
    let e = insert(&mut txn, &t, &[&[1, 1]]).unwrap_err();
    assert_eq!(e.code(), 1815);
    db.set_trigger_runner(Arc::new(AddOne));
    insert(&mut txn, &t, &[&[1, 1]]).unwrap();
    update(&mut txn, &t, &[1], |row| row[1] = int(5)).unwrap();
    let found = txn.insert_or_find(&t, &row(&[2, 7])).unwrap();
    assert!(matches!(found, Inserted::New));
    assert_eq!(all_in(&mut txn, &t), [row(&[1, 6]), row(&[2, 8])]);
    assert_eq!(delete(&mut txn, &t, &[1]).unwrap(), 1);
}

fn created(db: &Db, name: &str, order: TriggerOrder) -> Result<bool, Error> {
    let trigger = trigger(name, TriggerTime::Before, TriggerEvent::Insert);
    db.define(|cx| db.create_trigger(cx, "test", "t", &trigger, &order, false))
        .map(|done| done.is_note)
}

fn names(db: &Db, table: &str) -> Vec<String> {
    let catalog = db.catalog();
    let table = catalog.table("test", table).unwrap();
    table.triggers.iter().map(|t| t.name.clone()).collect()
}

#[test]
fn triggers_have_an_order_and_belong_to_their_table() {
    let engine: Arc<dyn porpoise_kv::Engine> = Arc::new(Model::new());
    let db = open(engine.clone());
    let collation = Collation::UTF8MB4_GENERAL_CI;
    for name in ["test", "other"] {
        db.define(|cx| db.create_database(cx, name, collation, false))
            .unwrap();
    }
    let spec = TableSpec::new(
        "test",
        "t",
        vec![ColumnSpec::new("id", ColumnType::int(Kind::Int))],
        vec![IndexSpec::new(IndexKind::Primary, None, &["id"])],
        TableOptions::new(collation),
    );
    db.define(|cx| db.create_table(cx, &spec)).unwrap();
    created(&db, "b", TriggerOrder::Last).unwrap();
    created(&db, "d", TriggerOrder::Last).unwrap();
    created(&db, "a", TriggerOrder::Precedes("B".into())).unwrap();
    created(&db, "c", TriggerOrder::Follows("b".into())).unwrap();
    assert_eq!(
        created(&db, "A", TriggerOrder::Last).unwrap_err().code(),
        1359
    );
    let e = created(&db, "e", TriggerOrder::Follows("x".into())).unwrap_err();
    assert_eq!(e.code(), 3011);
    assert_eq!(names(&db, "t"), ["a", "b", "c", "d"]);
    let db = open(engine.clone());
    assert_eq!(names(&db, "t"), ["a", "b", "c", "d"]);
    let rename = |to: (&str, &str)| {
        let pair = (
            ("test".to_owned(), "t".to_owned()),
            (to.0.to_owned(), to.1.to_owned()),
        );
        db.define(|cx| db.rename_tables(cx, &[pair])).map(|_| ())
    };
    assert_eq!(rename(("other", "t")).unwrap_err().code(), 1435);
    rename(("test", "u")).unwrap();
    db.define(|cx| db.drop_trigger(cx, "test", "C", false))
        .unwrap();
    let e = db
        .define(|cx| db.drop_trigger(cx, "test", "c", false))
        .unwrap_err();
    assert_eq!(e.code(), 1360);
    assert!(
        db.define(|cx| db.drop_trigger(cx, "test", "c", true))
            .unwrap()
            .is_note
    );
    let db = open(engine.clone());
    assert_eq!(names(&db, "u"), ["a", "b", "d"]);
    db.define(|cx| db.drop_tables(cx, &[("test".into(), "u".into())], false))
        .unwrap();
    let db = open(engine);
    assert!(db.catalog().trigger("test", "a").is_none());
}
