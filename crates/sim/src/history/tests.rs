//! Each kind of anomaly is detected, and correct histories pass.

use super::*;

fn txn(began: u64, ended: u64, ops: &[Op]) -> Transaction {
    Transaction {
        began,
        ended,
        ops: ops.to_vec(),
        outcome: Outcome::Committed,
    }
}

fn append(list: u64, number: u64) -> Op {
    Op::Append(list, number)
}

fn read(list: u64, numbers: &[u64]) -> Op {
    Op::Read(list, numbers.to_vec())
}

fn anomalies(history: &[Transaction], allowed: Allowed) -> String {
    check_history(history, allowed).join("; ")
}

#[test]
fn a_serial_history_has_no_anomaly() {
    let history = [
        txn(0, 1, &[append(1, 1)]),
        txn(2, 5, &[read(1, &[1]), append(1, 2)]),
        txn(3, 6, &[read(1, &[1])]),
        txn(7, 8, &[read(1, &[1, 2])]),
    ];
    assert_eq!(anomalies(&history, Allowed::SERIALIZABLE), "");
}

#[test]
fn aborted_and_intermediate_reads_are_found() {
    let mut aborted = txn(0, 1, &[append(1, 1)]);
    aborted.outcome = Outcome::Aborted;
    let history = [aborted, txn(2, 3, &[read(1, &[1])])];
    assert!(anomalies(&history, Allowed::READ_COMMITTED).contains("G1a"));
    let history = [
        txn(0, 9, &[append(1, 1), append(1, 2)]),
        txn(2, 3, &[read(1, &[1])]),
    ];
    assert!(anomalies(&history, Allowed::READ_COMMITTED).contains("G1b"));
}

#[test]
fn a_lost_update_is_found() {
    let history = [
        txn(0, 1, &[append(1, 1)]),
        txn(0, 1, &[append(1, 2)]),
        txn(2, 3, &[read(1, &[2])]),
    ];
    assert!(anomalies(&history, Allowed::READ_COMMITTED).contains("lost update"));
}

#[test]
fn read_skew_is_g_single() {
    let history = [
        txn(0, 9, &[append(1, 1), append(2, 1)]),
        txn(0, 9, &[read(1, &[]), read(2, &[1])]),
        txn(10, 11, &[read(1, &[1]), read(2, &[1])]),
    ];
    assert!(anomalies(&history, Allowed::SNAPSHOT).contains("G-single"));
    assert_eq!(anomalies(&history, Allowed::READ_COMMITTED), "");
}

#[test]
fn write_skew_is_g2_and_snapshot_isolation_allows_it() {
    let history = [
        txn(0, 9, &[read(1, &[]), append(2, 1)]),
        txn(0, 9, &[read(2, &[]), append(1, 1)]),
        txn(10, 11, &[read(1, &[1]), read(2, &[1])]),
    ];
    assert!(anomalies(&history, Allowed::SERIALIZABLE).contains("G2"));
    assert_eq!(anomalies(&history, Allowed::SNAPSHOT), "");
}

#[test]
fn a_stale_read_contradicts_real_time() {
    let history = [
        txn(0, 1, &[append(1, 1)]),
        txn(2, 3, &[read(1, &[])]),
        txn(4, 5, &[read(1, &[1])]),
    ];
    assert!(anomalies(&history, Allowed::SNAPSHOT).contains("real time"));
}

#[test]
fn lists_that_contradict_each_other_are_found() {
    let history = [
        txn(0, 9, &[append(1, 1)]),
        txn(0, 9, &[append(1, 2)]),
        txn(0, 9, &[read(1, &[1, 2])]),
        txn(0, 9, &[read(1, &[2, 1])]),
    ];
    assert!(anomalies(&history, Allowed::READ_COMMITTED).contains("others as"));
}
