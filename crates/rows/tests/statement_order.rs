//! The rows of a statement are checked one by one in its order, as in MySQL. Expectations marked
//! "seen" were observed on a MySQL-compatible server.

use crate::common::verify::verify;
use crate::common::{
    N, begin, delete, get, ids, insert, int, ints, model_database, row, table, update,
};
use porpoise_rows::catalog::FkAction::{Cascade, NoAction, Restrict, SetNull};
use porpoise_rows::{Db, Error, InsertMode, Inserted, Lookup};
use std::sync::Arc;

fn self_referencing(on_delete: porpoise_rows::catalog::FkAction) -> Arc<Db> {
    model_database(&[ids("s").int("p").null().key("p", &["p"]).fk_with(
        "f",
        &["p"],
        "s",
        &["id"],
        on_delete,
        NoAction,
    )])
}

#[test]
fn a_row_may_reference_itself_and_earlier_rows_of_its_statement() {
    let db = self_referencing(NoAction);
    let s = get(&db, "s");
    let mut txn = begin(&db);
    let e = insert(&mut txn, &s, &[&[2, 1], &[1, N]]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Cannot add or update a child row: a foreign key constraint fails (`d`.`s`, \
         CONSTRAINT `f` FOREIGN KEY (`p`) REFERENCES `s` (`id`))"
    );
    assert_eq!((e.code(), e.sqlstate()), (1452, "23000"));
    assert!(!txn.has_writes());
    assert_eq!(
        insert(&mut txn, &s, &[&[1, N], &[2, 1], &[7, 7]]).unwrap(),
        3
    );
    txn.commit().unwrap();
    verify(&db);
}

#[test]
fn a_duplicate_key_is_reported_before_a_missing_parent() {
    let db = self_referencing(NoAction);
    let s = get(&db, "s");
    let mut txn = begin(&db);
    insert(&mut txn, &s, &[&[1, N]]).unwrap();
    let e = insert(&mut txn, &s, &[&[1, 99]]).unwrap_err();
    assert_eq!(e.to_string(), "Duplicate entry '1' for key 's.PRIMARY'");
    let e = insert(&mut txn, &s, &[&[3, N], &[3, N]]).unwrap_err();
    assert_eq!(e.to_string(), "Duplicate entry '3' for key 's.PRIMARY'");
    assert_eq!(crate::common::all_in(&mut txn, &s).len(), 1);
}

#[test]
fn ignore_skips_failing_rows_and_reports_their_errors() {
    let db = self_referencing(NoAction);
    let s = get(&db, "s");
    let mut txn = begin(&db);
    let rows = [[2, 1], [1, N], [1, 5], [3, 1], [N, 1], [4, 2]];
    let rows = rows.iter().map(|r| row(r)).collect();
    let done = txn.insert(&s, rows, InsertMode::Ignore).unwrap();
    assert_eq!(done.inserted, 2);
    let skipped: Vec<(usize, u16)> = done.skipped.iter().map(|(n, e)| (*n, e.code())).collect();
    assert_eq!(skipped, [(0, 1452), (2, 1062), (4, 1048), (5, 1452)]);
    txn.commit().unwrap();
    assert_eq!(ints(&db, "s"), [[1, N], [3, 1]]);
    verify(&db);
}

#[test]
fn a_null_in_a_not_null_column_is_reported_after_the_rows_before_it() {
    let db = self_referencing(NoAction);
    let s = get(&db, "s");
    let mut txn = begin(&db);
    let e = insert(&mut txn, &s, &[&[1, N], &[N, 1]]).unwrap_err();
    assert_eq!(e.to_string(), "Column 'id' cannot be null");
    let e = insert(&mut txn, &s, &[&[1, 9], &[N, 1]]).unwrap_err();
    assert_eq!(e.code(), 1452);
}

#[test]
fn incrementing_keys_conflicts_in_ascending_order_only() {
    let db = model_database(&[ids("t").int("u").null().unique("u", &["u"])]);
    let t = get(&db, "t");
    let mut txn = begin(&db);
    insert(&mut txn, &t, &[&[1, 1], &[2, 2], &[3, N]]).unwrap();
    let up = |r: &mut Vec<porpoise_types::Value>| {
        for v in r.iter_mut() {
            if let porpoise_types::Value::Int(n) = v {
                *n += 1;
            }
        }
    };
    let e = update(&mut txn, &t, &[1, 2, 3], up).unwrap_err();
    assert_eq!(e.to_string(), "Duplicate entry '2' for key 't.PRIMARY'");
    assert_eq!(update(&mut txn, &t, &[3, 2, 1], up).unwrap().changed, 3);
    txn.commit().unwrap();
    assert_eq!(ints(&db, "t"), [[2, 2], [3, 3], [4, N]]);
    verify(&db);
}

#[test]
fn restrict_within_one_table_depends_on_the_order_of_a_delete() {
    // Seen: 1451 upwards, fine downwards; a row that references itself is never deleted.
    let db = self_referencing(Restrict);
    let s = get(&db, "s");
    let mut txn = begin(&db);
    insert(&mut txn, &s, &[&[1, 1], &[2, 1], &[3, 2]]).unwrap();
    let e = delete(&mut txn, &s, &[2, 3]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "Cannot delete or update a parent row: a foreign key constraint fails (`d`.`s`, \
         CONSTRAINT `f` FOREIGN KEY (`p`) REFERENCES `s` (`id`) ON DELETE RESTRICT)"
    );
    assert_eq!(delete(&mut txn, &s, &[3, 2]).unwrap(), 2);
    assert_eq!(delete(&mut txn, &s, &[1]).unwrap_err().code(), 1451);
    let e = update(&mut txn, &s, &[1], |r| *r = row(&[5, 5])).unwrap_err();
    assert_eq!(e.code(), 1451);
    txn.commit().unwrap();
    verify(&db);
}

#[test]
fn restrict_is_checked_before_a_duplicate_of_the_same_index_or_a_later_one() {
    // InnoDB changes index by index: it checks the references to the old entry, then inserts the new
    // one (row0upd.cc).
    let child = |name: &str, column: &str, action| {
        ids(name).int("p").null().key("p", &["p"]).fk_with(
            &format!("f_{name}"),
            &["p"],
            "t",
            &[column],
            NoAction,
            action,
        )
    };
    let db = model_database(&[
        ids("t").int("u").null().unique("u", &["u"]),
        child("by_id", "id", NoAction),
        child("by_u", "u", Restrict),
        child("follows", "id", Cascade),
    ]);
    let [t, by_id, by_u, follows] = ["t", "by_id", "by_u", "follows"].map(|name| get(&db, name));
    let mut txn = begin(&db);
    insert(&mut txn, &t, &[&[1, 1], &[2, 2], &[3, 3], &[4, 4]]).unwrap();
    insert(&mut txn, &by_id, &[&[1, 1]]).unwrap();
    insert(&mut txn, &by_u, &[&[1, 2]]).unwrap();
    insert(&mut txn, &follows, &[&[1, 3]]).unwrap();
    let mut code = |id: i64, new: [i64; 2]| {
        update(&mut txn, &t, &[id], |r| *r = row(&new)).map_err(|e| e.code())
    };
    assert_eq!(code(1, [2, 1]).unwrap_err(), 1451, "the same index");
    assert_eq!(code(1, [9, 2]).unwrap_err(), 1451, "a later index");
    assert_eq!(code(2, [1, 9]).unwrap_err(), 1062, "an earlier index");
    assert_eq!(
        code(3, [1, 3]).unwrap_err(),
        1062,
        "a child that would follow"
    );
    assert_eq!(code(4, [1, 4]).unwrap_err(), 1062, "no child");
    assert_eq!(
        code(1, [1, 2]).unwrap_err(),
        1062,
        "the referenced value stays"
    );
    txn.commit().unwrap();
    verify(&db);
}

#[test]
fn a_cycle_of_cascades_ends_and_counts_only_what_the_statement_found() {
    // Seen: row_count() is 1 in both cases.
    let db = self_referencing(Cascade);
    let s = get(&db, "s");
    for ids in [&[2i64][..], &[1, 2, 3]] {
        let mut txn = begin(&db);
        insert(&mut txn, &s, &[&[1, N], &[2, 1], &[3, 2]]).unwrap();
        update(&mut txn, &s, &[1], |r| r[1] = int(3)).unwrap();
        assert_eq!(delete(&mut txn, &s, ids).unwrap(), 1);
        txn.commit().unwrap();
        assert!(ints(&db, "s").is_empty());
        verify(&db);
    }
}

#[test]
fn a_cascade_of_updates_may_return_to_its_table() {
    // InnoDB refuses it with 1451 when a child exists.
    let db = model_database(&[ids("u").int("p").null().key("p", &["p"]).fk_with(
        "fu",
        &["p"],
        "u",
        &["id"],
        NoAction,
        Cascade,
    )]);
    let u = get(&db, "u");
    let mut txn = begin(&db);
    insert(&mut txn, &u, &[&[1, N], &[2, 1]]).unwrap();
    let nine = |r: &mut Vec<porpoise_types::Value>| r[0] = int(9);
    let done = update(&mut txn, &u, &[1], nine).unwrap();
    assert_eq!((done.changed, done.cascaded), (1, 1));
    txn.commit().unwrap();
    assert_eq!(ints(&db, "u"), [[2, 9], [9, N]]);
    // All rows of a statement, those that its own cascades changed among them.
    let mut txn = begin(&db);
    update(&mut txn, &u, &[2], |r| r[1] = int(2)).unwrap();
    let ten = |r: &mut Vec<porpoise_types::Value>| {
        if let porpoise_types::Value::Int(v) = r[0] {
            r[0] = int(v + 10);
        }
    };
    insert(&mut txn, &u, &[&[3, 9]]).unwrap();
    assert_eq!(update(&mut txn, &u, &[9, 3, 2], ten).unwrap().changed, 3);
    txn.commit().unwrap();
    assert_eq!(ints(&db, "u"), [[12, 12], [13, 19], [19, N]]);
    verify(&db);
}

#[test]
fn a_restricted_grandchild_refuses_a_cascade_that_reaches_its_parent_first() {
    // Seen: the constraints are taken in order of their names; `ba` comes
    // before `ca`, so the row of c is still there when b's row goes.
    let defs = |first: &str| {
        [
            ids("a"),
            ids("b").int("a").key("a", &["a"]).fk_with(
                "ba",
                &["a"],
                "a",
                &["id"],
                Cascade,
                NoAction,
            ),
            ids("c")
                .int("a")
                .int("b")
                .key("a", &["a"])
                .key("b", &["b"])
                .fk_with(first, &["a"], "a", &["id"], Cascade, NoAction)
                .fk("cb", &["b"], "b", &["id"]),
        ]
    };
    let run = |first: &str| {
        let db = model_database(&defs(first));
        let mut txn = begin(&db);
        insert(&mut txn, &get(&db, "a"), &[&[1]]).unwrap();
        insert(&mut txn, &get(&db, "b"), &[&[1, 1]]).unwrap();
        insert(&mut txn, &get(&db, "c"), &[&[1, 1, 1]]).unwrap();
        let done = delete(&mut txn, &get(&db, "a"), &[1]);
        txn.commit().unwrap();
        verify(&db);
        done
    };
    let e = run("ca").unwrap_err();
    assert!(e.to_string().contains("CONSTRAINT `cb`"), "{e}");
    assert_eq!(run("aa").unwrap(), 1);
}

#[test]
fn a_row_under_set_null_and_cascade_is_deleted_once() {
    let db = model_database(&[
        ids("a"),
        ids("b")
            .int("a")
            .key("a", &["a"])
            .fk_with("b_a", &["a"], "a", &["id"], Cascade, NoAction),
        ids("c")
            .int("a")
            .null()
            .int("b")
            .null()
            .unique("ab", &["a", "b"])
            .key("b", &["b"])
            .fk_with("a_c_a", &["a"], "a", &["id"], SetNull, NoAction)
            .fk_with("c_b", &["b"], "b", &["id"], Cascade, NoAction),
    ]);
    let mut txn = begin(&db);
    insert(&mut txn, &get(&db, "a"), &[&[1], &[2]]).unwrap();
    insert(&mut txn, &get(&db, "b"), &[&[1, 1], &[2, 2]]).unwrap();
    insert(
        &mut txn,
        &get(&db, "c"),
        &[&[1, 1, 1], &[2, 1, 2], &[3, 2, 1], &[4, N, 1]],
    )
    .unwrap();
    let done = delete(&mut txn, &get(&db, "a"), &[1]).unwrap();
    assert_eq!(done, 1);
    txn.commit().unwrap();
    assert_eq!(ints(&db, "c"), [[2, N, 2]]);
    verify(&db);
}

#[test]
fn composite_keys_follow_updates_and_shared_columns_are_checked() {
    let db = model_database(&[
        table("p").int("a").int("b").primary(&["a", "b"]),
        ids("c")
            .int("x")
            .null()
            .int("y")
            .null()
            .key("yx", &["y", "x"])
            .fk_with("c_p", &["y", "x"], "p", &["b", "a"], SetNull, Cascade),
    ]);
    let (p, c) = (get(&db, "p"), get(&db, "c"));
    let mut txn = begin(&db);
    insert(&mut txn, &p, &[&[1, 2], &[3, 4]]).unwrap();
    insert(&mut txn, &c, &[&[1, 1, 2], &[2, N, 99], &[3, 3, 4]]).unwrap();
    assert_eq!(
        insert(&mut txn, &c, &[&[4, 2, 1]]).unwrap_err().code(),
        1452
    );
    let key = p.primary_key(&row(&[1, 2]));
    let mut old = None;
    let wait = txn.wait();
    txn.lock(
        &Lookup::primary(&p, &[&key]),
        porpoise_kv::LockMode::Update,
        wait,
        &mut |_, r| {
            old = r.row.map(|r| r.to_buf());
        },
    )
    .unwrap();
    let change = porpoise_rows::RowChange {
        key,
        old: old.unwrap(),
        new: row(&[1, 7]),
    };
    let done = txn
        .update(&p, vec![change], porpoise_rows::UpdateMode::Plain)
        .unwrap();
    assert_eq!((done.changed, done.cascaded), (1, 1));
    txn.commit().unwrap();
    assert_eq!(ints(&db, "c"), [[1, 1, 7], [2, N, 99], [3, 3, 4]]);
    let mut txn = begin(&db);
    let key = p.primary_key(&row(&[1, 7]));
    let gone = txn.lock_present(&p, &[&key], |_| true).unwrap();
    txn.delete(&p, gone).unwrap();
    txn.commit().unwrap();
    assert_eq!(ints(&db, "c"), [[1, N, N], [2, N, 99], [3, 3, 4]]);
    verify(&db);
}

#[test]
fn without_foreign_key_checks_no_parent_is_checked_and_no_cascade_runs() {
    let db = self_referencing(Cascade);
    let s = get(&db, "s");
    let mut txn = begin(&db);
    txn.set_foreign_key_checks(false);
    insert(&mut txn, &s, &[&[1, 9], &[2, 1]]).unwrap();
    assert_eq!(delete(&mut txn, &s, &[1]).unwrap(), 1);
    txn.set_foreign_key_checks(true);
    assert_eq!(insert(&mut txn, &s, &[&[3, 1]]).unwrap_err().code(), 1452);
    txn.commit().unwrap();
    assert_eq!(ints(&db, "s"), [[2, 1]]);
}

#[test]
fn parent_checks_see_own_deletions_and_insertions() {
    let db = model_database(&[
        ids("p"),
        ids("c")
            .int("p")
            .key("p", &["p"])
            .fk("c_p", &["p"], "p", &["id"]),
    ]);
    let (p, c) = (get(&db, "p"), get(&db, "c"));
    let mut txn = begin(&db);
    insert(&mut txn, &p, &[&[1]]).unwrap();
    txn.commit().unwrap();
    let mut txn = begin(&db);
    delete(&mut txn, &p, &[1]).unwrap();
    assert_eq!(insert(&mut txn, &c, &[&[1, 1]]).unwrap_err().code(), 1452);
    insert(&mut txn, &p, &[&[1], &[2]]).unwrap();
    insert(&mut txn, &c, &[&[1, 1], &[2, 2]]).unwrap();
    let mark = txn.mark();
    delete(&mut txn, &c, &[1]).unwrap();
    delete(&mut txn, &p, &[1]).unwrap();
    txn.rollback_to(mark);
    assert_eq!(delete(&mut txn, &p, &[1]).unwrap_err().code(), 1451);
    txn.commit().unwrap();
    verify(&db);
}

#[test]
fn replace_deletes_conflicting_rows_and_their_children() {
    let db = model_database(&[
        ids("p").int("u").null().unique("u", &["u"]),
        ids("c")
            .int("p")
            .key("p", &["p"])
            .fk_with("c_p", &["p"], "p", &["id"], Cascade, NoAction),
    ]);
    let (p, c) = (get(&db, "p"), get(&db, "c"));
    let mut txn = begin(&db);
    insert(&mut txn, &p, &[&[1, 10], &[2, 20], &[3, N]]).unwrap();
    insert(&mut txn, &c, &[&[1, 1], &[2, 2], &[3, 3]]).unwrap();
    let rows = vec![row(&[1, 20]), row(&[5, 20]), row(&[3, N])];
    let done = txn.insert(&p, rows, InsertMode::Replace).unwrap();
    assert_eq!((done.inserted, done.replaced), (3, 4));
    txn.commit().unwrap();
    assert_eq!(ints(&db, "p"), [[3, N], [5, 20]]);
    assert!(ints(&db, "c").is_empty());
    verify(&db);
}

#[test]
fn insert_or_find_returns_the_conflicting_row() {
    let db = model_database(&[ids("p").int("u").null().unique("u", &["u"])]);
    let p = get(&db, "p");
    let mut txn = begin(&db);
    assert!(matches!(
        txn.insert_or_find(&p, &row(&[1, 10])).unwrap(),
        Inserted::New
    ));
    for (wanted, at) in [([1, 5], 0), ([2, 10], 1)] {
        let Inserted::Duplicate {
            index,
            primary,
            row: found,
            newer,
        } = txn.insert_or_find(&p, &row(&wanted)).unwrap()
        else {
            panic!("inserted");
        };
        assert_eq!((index, newer), (at, false));
        assert_eq!(primary, p.primary_key(&row(&[1])));
        assert_eq!(found.row(&p).unwrap().values(), row(&[1, 10]));
    }
    assert_eq!(crate::common::all_in(&mut txn, &p).len(), 1);
}

#[test]
fn an_update_without_changes_writes_nothing_and_keeps_the_version() {
    let db = self_referencing(NoAction);
    let s = get(&db, "s");
    let mut txn = begin(&db);
    insert(&mut txn, &s, &[&[1, N]]).unwrap();
    txn.commit().unwrap();
    let mut txn = begin(&db);
    let done = update(&mut txn, &s, &[1], |_| ()).unwrap();
    assert_eq!(done.changed, 0);
    assert!(!txn.has_writes());
    let version = txn.row_version().unwrap();
    update(&mut txn, &s, &[1], |r| r[1] = int(1)).unwrap();
    txn.commit().unwrap();
    let mut txn = begin(&db);
    let mut seen = 0;
    let key = s.primary_key(&row(&[1]));
    txn.look_up(
        &Lookup::primary(&s, &[&key]),
        porpoise_kv::Read::SNAPSHOT,
        &mut |_, r| {
            let r = r.map(|found| found.row);
            seen = r.unwrap().version();
        },
    )
    .unwrap();
    assert_eq!(seen, version);
}

#[test]
fn replacing_a_row_newer_than_a_pinned_snapshot_is_a_conflict() {
    let db = self_referencing(NoAction);
    let s = get(&db, "s");
    let mut reader = begin(&db);
    reader.pin().unwrap();
    let mut writer = begin(&db);
    insert(&mut writer, &s, &[&[1, N]]).unwrap();
    writer.commit().unwrap();
    // Unique checks read the newest state: a duplicate is not a snapshot conflict.
    assert_eq!(
        insert(&mut reader, &s, &[&[1, N]]).unwrap_err().code(),
        1062
    );
    let e = reader
        .insert(&s, vec![row(&[1, N])], InsertMode::Replace)
        .unwrap_err();
    assert!(matches!(e, Error::SnapshotConflict), "{e:?}");
}
