//! Tests of the history checker: it finds faults that are planted into recorded histories, and
//! anomalies that an isolation level allows, provoked on the running server.

use crate::support::{Sql, server};
use porpoise_sim::history::{Allowed, Op, Outcome, Transaction, check_history};

/// Makes a faulty history from a correct one, a list and its last number.
type Fault = fn(Vec<Transaction>, u64, u64) -> Vec<Transaction>;

/// Plants faults into a correct history; each must be found.
pub fn still_found(history: &[Transaction], allowed: Allowed) {
    let Some(Op::Read(list, numbers)) = longest_read(history) else {
        panic!("no list was read");
    };
    let last = *numbers.last().unwrap();
    let mut faults: Vec<(&str, Fault)> = vec![
        ("lost update", lose),
        ("G1a", abort),
        ("others as", reorder),
    ];
    if !allowed.g_single {
        faults.push(("real time", read_stale));
    }
    for (what, plant) in faults {
        let faulty = plant(history.to_vec(), list, last);
        let found = check_history(&faulty, allowed).join("\n");
        assert!(found.contains(what), "{what} was planted, found: {found}");
    }
}

fn longest_read(history: &[Transaction]) -> Option<Op> {
    let last = history.last()?;
    let length = |op: &&Op| match op {
        Op::Read(_, numbers) => numbers.len(),
        Op::Append(..) => 0,
    };
    last.ops.iter().max_by_key(length).cloned()
}

/// No client ever reads the number.
fn lose(mut history: Vec<Transaction>, list: u64, number: u64) -> Vec<Transaction> {
    for op in history.iter_mut().flat_map(|t| &mut t.ops) {
        if let Op::Read(l, numbers) = op
            && *l == list
        {
            numbers.retain(|n| *n != number);
        }
    }
    history
}

/// Its transaction is recorded as rolled back.
fn abort(mut history: Vec<Transaction>, list: u64, number: u64) -> Vec<Transaction> {
    let wrote = |t: &&mut Transaction| t.ops.contains(&Op::Append(list, number));
    history.iter_mut().find(wrote).unwrap().outcome = Outcome::Aborted;
    history
}

/// The last reader sees two numbers the other way round.
fn reorder(mut history: Vec<Transaction>, list: u64, _: u64) -> Vec<Transaction> {
    let mut again = history.last().unwrap().clone();
    for op in &mut again.ops {
        if let Op::Read(l, numbers) = op
            && *l == list
        {
            numbers.reverse();
        }
    }
    history.push(again);
    history
}

/// A client that begins when all is done reads the list as it was before the last number's writer.
fn read_stale(mut history: Vec<Transaction>, list: u64, number: u64) -> Vec<Transaction> {
    let Some(Op::Read(_, mut numbers)) = longest_read(&history) else {
        return history;
    };
    let wrote = |t: &&Transaction| t.ops.contains(&Op::Append(list, number));
    let writer = history.iter().find(wrote).unwrap().ops.clone();
    numbers.retain(|n| !writer.contains(&Op::Append(list, *n)));
    let end = history.iter().map(|t| t.ended).max().unwrap();
    history.push(Transaction {
        began: end + 1,
        ended: end + 2,
        ops: vec![Op::Read(list, numbers)],
        outcome: Outcome::Committed,
    });
    history
}

/// Two sessions and their operations, in one order of time.
struct Two {
    sessions: [Sql; 2],
    ops: [Vec<Op>; 2],
    _server: porpoise_testkit::Porpoise,
}

impl Two {
    fn start(level: &str) -> Two {
        let server = server().start();
        let mut sql = Sql::connect(server.mysql_addr);
        sql.run(
            "CREATE DATABASE h; CREATE TABLE h.l (id INT PRIMARY KEY, v TEXT NOT NULL); \
             INSERT INTO h.l VALUES (1, ''), (2, '')",
        );
        let sessions = [(); 2].map(|()| {
            let mut sql = Sql::connect(server.mysql_addr);
            sql.run("USE h");
            sql.run(level);
            sql.run("BEGIN");
            sql
        });
        Two {
            sessions,
            ops: Default::default(),
            _server: server,
        }
    }

    fn read(&mut self, who: usize, list: u64) -> String {
        let select = format!("SELECT v FROM l WHERE id = {list}");
        let text = self.sessions[who].rows(&select).remove(0).remove(0);
        let numbers = text.split(',').filter(|part| !part.is_empty());
        let numbers = numbers.map(|part| part.parse().unwrap()).collect();
        self.ops[who].push(Op::Read(list, numbers));
        text
    }

    /// Appends to what it read before; false if that was refused with 1213.
    fn write(&mut self, who: usize, list: u64, before: &str, number: u64) -> bool {
        self.ops[who].push(Op::Append(list, number));
        let update = format!("UPDATE l SET v = '{before},{number}' WHERE id = {list}");
        self.answered(who, &update)
    }

    fn commit(&mut self, who: usize) -> bool {
        self.answered(who, "COMMIT")
    }

    fn answered(&mut self, who: usize, statement: &str) -> bool {
        match self.sessions[who].attempt(statement) {
            Ok(_) => true,
            Err(crate::support::Failure::Refused(e)) if e.code == 1213 => false,
            Err(other) => panic!("{statement}: {other}"),
        }
    }

    /// The anomalies of both, after a last read of the lists.
    fn anomalies_found(mut self, allowed: Allowed) -> String {
        let mut history: Vec<Transaction> = Vec::new();
        for ops in std::mem::take(&mut self.ops) {
            history.push(Transaction {
                began: 0,
                ended: 9,
                ops,
                outcome: Outcome::Committed,
            });
        }
        for list in [1, 2] {
            self.read(0, list);
        }
        history.push(Transaction {
            began: 10,
            ended: 11,
            ops: std::mem::take(&mut self.ops[0]),
            outcome: Outcome::Committed,
        });
        check_history(&history, allowed).join("\n")
    }
}

const COMMITTED: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
const REPEATABLE: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
const SERIALIZABLE: &str = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";

/// Both read one list; both write what they read and a number of their own.
fn lost_update(level: &str) -> Result<String, ()> {
    let mut two = Two::start(level);
    let (a, b) = (two.read(0, 1), two.read(1, 1));
    assert!(two.write(0, 1, &a, 1) && two.commit(0));
    if two.write(1, 1, &b, 2) && two.commit(1) {
        Ok(two.anomalies_found(Allowed::READ_COMMITTED))
    } else {
        Err(())
    }
}

#[test]
fn lost_updates_of_read_committed_are_found_and_others_have_none() {
    let found = lost_update(COMMITTED).unwrap();
    assert!(found.contains("lost update"), "{found}");
    let found = lost_update("SET innodb_snapshot_isolation = OFF").unwrap();
    assert!(found.contains("lost update"), "{found}");
    assert_eq!(lost_update(REPEATABLE), Err(()));
    assert_eq!(lost_update(SERIALIZABLE), Err(()));
}

/// One reads a list, another changes both, the first reads the second list.
fn read_skew(level: &str) -> String {
    let mut two = Two::start(level);
    two.read(0, 1);
    assert!(two.write(1, 1, "", 1) && two.write(1, 2, "", 2) && two.commit(1));
    two.read(0, 2);
    assert!(two.commit(0));
    two.anomalies_found(Allowed::SNAPSHOT)
}

#[test]
fn read_skew_of_read_committed_is_found_and_others_have_none() {
    let found = read_skew(COMMITTED);
    assert!(found.contains("G-single"), "{found}");
    assert_eq!(read_skew(REPEATABLE), "");
    assert_eq!(read_skew(SERIALIZABLE), "");
}

/// Each reads what the other writes.
fn write_skew(level: &str) -> Result<String, ()> {
    let mut two = Two::start(level);
    two.read(0, 1);
    two.read(1, 2);
    assert!(two.write(0, 2, "", 1) && two.commit(0));
    if two.write(1, 1, "", 2) && two.commit(1) {
        Ok(two.anomalies_found(Allowed::SERIALIZABLE))
    } else {
        Err(())
    }
}

#[test]
fn write_skew_of_repeatable_read_is_found_and_serializable_has_none() {
    let found = write_skew(REPEATABLE).unwrap();
    assert!(found.contains("G2"), "{found}");
    assert_eq!(write_skew(SERIALIZABLE), Err(()));
}
