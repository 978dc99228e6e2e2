//! Histories of transactions, and the check whether some order explains them.
//!
//! Clients append unique numbers to lists, and read complete lists (as in Elle; Kingsbury and
//! Alvaro, 2020). A list shows the order of its appends, so for two transactions it is known which
//! wrote first, which read from which, and which read a value that another one then changed. These
//! are the edges of a graph:
//! - ww: B appended directly after A's number;
//! - wr: B read a list that ends in A's number;
//! - rw: A read a list to which B appended the next number;
//! - real time: A had ended before B began.
//!
//! A cycle is an anomaly, named by its edges; names are those of Adya's thesis:
//! G0 (only ww), G1c (ww and wr), G-single (one rw), G2 (several rw). Anomalies
//! without a cycle: aborted and intermediate reads (G1a, G1b),
//! lists of which neither is a prefix of the other, lost updates (an
//! acknowledged number that the last read lacks), reads that contradict the
//! transaction's own appends.
//!
//! Invariants:
//! 1. A transaction with an unknown outcome counts as committed if another one has
//!    read its numbers.
//! 2. The search is complete for the requested anomalies: strongly connected
//!    components first, then a search inside of them.
//!
//! Rejected: a search for a whole order (exponential in the number of
//! transactions); transactions on registers instead of lists (a register does not
//! show the order of its writes). Single calls on a register are checked by [`register`].

mod graph;
pub mod register;

use graph::{Edge, Graph};
use std::collections::BTreeMap;

/// One operation on one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Appended a number that no other append has.
    Append(u64, u64),
    /// Read the list.
    Read(u64, Vec<u64>),
}

/// Outcome of a transaction, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed.
    Committed,
    /// Rolled back or refused.
    Aborted,
    /// Unknown to the client.
    Unknown,
}

/// Operations of a client in one transaction, and their times by one clock.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Before its first operation was sent.
    pub began: u64,
    /// After its outcome was read.
    pub ended: u64,
    /// Operations, in order.
    pub ops: Vec<Op>,
    /// Outcome.
    pub outcome: Outcome,
}

/// Anomalies that an isolation level allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Cycles with one rw edge.
    pub g_single: bool,
    /// Cycles with several rw edges.
    pub g2: bool,
}

impl Allowed {
    /// READ COMMITTED.
    pub const READ_COMMITTED: Allowed = Allowed {
        g_single: true,
        g2: true,
    };
    /// Snapshot isolation: REPEATABLE READ as it is by default.
    pub const SNAPSHOT: Allowed = Allowed {
        g_single: false,
        g2: true,
    };
    /// SERIALIZABLE.
    pub const SERIALIZABLE: Allowed = Allowed {
        g_single: false,
        g2: false,
    };
}

/// Checks a history, and describes every anomaly that the isolation level does not allow.
pub fn check_history(history: &[Transaction], allowed: Allowed) -> Vec<String> {
    let mut found = Vec::new();
    let writers = writers(history, &mut found);
    let orders = orders(history, &mut found);
    for (n, txn) in history.iter().enumerate() {
        if txn.outcome != Outcome::Aborted {
            check_reads(n, txn, history, &writers, &mut found);
        }
    }
    for (number, writer) in &writers {
        let lost = orders
            .get(&number.0)
            .is_some_and(|order| !order.contains(&number.1));
        let known = history.get(*writer);
        if lost
            && known.is_some_and(|t| {
                t.outcome == Outcome::Committed && is_read_later(history, t, number.0)
            })
        {
            found.push(format!(
                "lost update: {number:?} of transaction {writer} is in no later list"
            ));
        }
    }
    if found.is_empty() {
        let graph = build(history, &writers, &orders);
        found.extend(graph.anomalies(allowed));
    }
    found
}

type Writers = BTreeMap<(u64, u64), usize>;
type Orders = BTreeMap<u64, Vec<u64>>;

/// Whether a transaction that began after `txn` had ended has read the list.
fn is_read_later(history: &[Transaction], txn: &Transaction, list: u64) -> bool {
    history.iter().any(|later| {
        later.began > txn.ended
            && later.outcome != Outcome::Aborted
            && later
                .ops
                .iter()
                .any(|op| matches!(op, Op::Read(l, _) if *l == list))
    })
}

fn writers(history: &[Transaction], found: &mut Vec<String>) -> Writers {
    let mut writers = Writers::new();
    for (n, txn) in history.iter().enumerate() {
        for op in &txn.ops {
            if let Op::Append(list, number) = op
                && writers.insert((*list, *number), n).is_some()
            {
                found.push(format!("number {number} was appended twice to list {list}"));
            }
        }
    }
    writers
}

/// Returns the longest version of each list that a transaction read that did not abort.
fn orders(history: &[Transaction], found: &mut Vec<String>) -> Orders {
    let mut orders = Orders::new();
    for (n, txn) in history.iter().enumerate() {
        if txn.outcome == Outcome::Aborted {
            continue;
        }
        for op in &txn.ops {
            let Op::Read(list, numbers) = op else {
                continue;
            };
            let order = orders.entry(*list).or_default();
            let (short, long) = if numbers.len() <= order.len() {
                (numbers, &*order)
            } else {
                (&*order, numbers)
            };
            if !long.starts_with(short) {
                found.push(format!(
                    "transaction {n} read list {list} as {numbers:?}, others as {order:?}"
                ));
            }
            if numbers.len() > order.len() {
                order.clone_from(numbers);
            }
        }
    }
    orders
}

/// Checks one transaction for wrong reads of own appends, and for aborted, intermediate and
/// invented reads.
fn check_reads(
    n: usize,
    txn: &Transaction,
    history: &[Transaction],
    writers: &Writers,
    found: &mut Vec<String>,
) {
    let mut own: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for op in &txn.ops {
        match op {
            Op::Append(list, number) => own.entry(*list).or_default().push(*number),
            Op::Read(list, numbers) => {
                let mine = own.get(list).map_or(&[][..], Vec::as_slice);
                if !numbers.ends_with(mine) {
                    found.push(format!(
                        "transaction {n} does not see its own appends {mine:?} in {numbers:?}"
                    ));
                }
                for number in numbers {
                    let writer = writers.get(&(*list, *number)).copied();
                    match writer.and_then(|w| history.get(w)) {
                        None => found.push(format!(
                            "transaction {n} read {number}, which no transaction wrote"
                        )),
                        Some(w) if w.outcome == Outcome::Aborted => {
                            found.push(format!(
                                "G1a: transaction {n} read {number} of an aborted one"
                            ));
                        }
                        Some(_) => {}
                    }
                }
                check_intermediate_read(n, *list, numbers, history, writers, found);
            }
        }
    }
}

/// G1b: the list ends between another transaction's appends to it.
fn check_intermediate_read(
    n: usize,
    list: u64,
    numbers: &[u64],
    history: &[Transaction],
    writers: &Writers,
    found: &mut Vec<String>,
) {
    let Some(last) = numbers.last() else {
        return;
    };
    let Some(writer) = writers.get(&(list, *last)).copied().filter(|w| *w != n) else {
        return;
    };
    let appended = history.get(writer).into_iter().flat_map(|t| &t.ops);
    let final_one = appended.rev().find_map(|op| match op {
        Op::Append(l, number) if *l == list => Some(*number),
        _ => None,
    });
    if final_one != Some(*last) {
        found.push(format!(
            "G1b: transaction {n} read list {list} between the appends of {writer}"
        ));
    }
}

fn build(history: &[Transaction], writers: &Writers, orders: &Orders) -> Graph {
    let mut graph = Graph::new(history.len());
    let writer = |list: u64, number: u64| writers.get(&(list, number)).copied();
    for (list, order) in orders {
        for pair in order.windows(2) {
            if let [a, b] = pair
                && let (Some(a), Some(b)) = (writer(*list, *a), writer(*list, *b))
            {
                graph.add(a, b, Edge::Ww);
            }
        }
    }
    for (n, txn) in history.iter().enumerate() {
        if txn.outcome == Outcome::Aborted {
            continue;
        }
        for op in &txn.ops {
            let Op::Read(list, numbers) = op else {
                continue;
            };
            if let Some(w) = numbers.last().and_then(|last| writer(*list, *last)) {
                graph.add(w, n, Edge::Wr);
            }
            let next = orders.get(list).and_then(|order| order.get(numbers.len()));
            if let Some(w) = next.and_then(|next| writer(*list, *next)) {
                graph.add(n, w, Edge::Rw);
            }
        }
    }
    real_time(history, &mut graph);
    graph
}

/// Adds real-time edges between transactions that do not overlap: only the nearest, which
/// imply the others.
fn real_time(history: &[Transaction], graph: &mut Graph) {
    let committed = |t: &Transaction| t.outcome == Outcome::Committed;
    for (n, txn) in history.iter().enumerate() {
        let before = |t: &&Transaction| committed(t) && t.ended < txn.began;
        let latest = history.iter().filter(before).map(|t| t.began).max();
        for (m, other) in history.iter().enumerate() {
            if before(&other) && latest.is_some_and(|latest| other.ended >= latest) {
                graph.add(m, n, Edge::RealTime);
            }
        }
    }
}

#[cfg(test)]
mod tests;
