//! List-append: clients read lists and append numbers to them, in transactions of SQL and of the native
//! protocol, by commands of memcached and by requests of REST. A list is the text of a row, `,1,4,2`.

use crate::rows::{Native, Rest, Updated};
use crate::support::{Cache, Failure, Random, Sql, map_prefix, server};
use porpoise_native_client::{Error, Isolation, Value, ValueRef};
use porpoise_sim::history::{Allowed, Op, Outcome, Transaction, check_history};
use porpoise_testkit::{Porpoise, exchange};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LISTS: u64 = 6;
const SQL_CLIENTS: u64 = 3;
const MEMCACHED_CLIENTS: u64 = 2;
const NATIVE_CLIENTS: u64 = 2;
const REST_CLIENTS: u64 = 1;

/// Form of the transactions of a run.
#[derive(Clone, Copy)]
struct Level {
    name: &'static str,
    allowed: Allowed,
    /// Appends may be made of what an earlier SELECT of the transaction showed.
    rewrites: bool,
    /// Level of native transactions.
    native: Isolation,
}

const READ_COMMITTED: Level = Level {
    name: "READ COMMITTED",
    allowed: Allowed::READ_COMMITTED,
    rewrites: false,
    native: Isolation::Snapshot,
};
const REPEATABLE_READ: Level = Level {
    name: "REPEATABLE READ",
    allowed: Allowed::SNAPSHOT,
    rewrites: true,
    native: Isolation::Snapshot,
};
const SERIALIZABLE: Level = Level {
    name: "SERIALIZABLE",
    allowed: Allowed::SERIALIZABLE,
    rewrites: true,
    native: Isolation::Serializable,
};

/// State shared by the clients of a run.
struct Run {
    server: Porpoise,
    level: Level,
    time: AtomicU64,
    numbers: AtomicU64,
    /// The first list of this round.
    base: u64,
}

fn numbers(text: &str) -> Vec<u64> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.parse().unwrap()).collect()
}

fn text(numbers: &[u64]) -> String {
    numbers.iter().map(|number| format!(",{number}")).collect()
}

impl Run {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// Records a transaction, whose operations and outcome `work` returns.
    fn note(&self, work: impl FnOnce(&mut Vec<Op>) -> Outcome) -> Transaction {
        let began = self.now();
        let mut ops = Vec::new();
        let outcome = work(&mut ops);
        Transaction {
            began,
            ended: self.now(),
            ops,
            outcome,
        }
    }

    fn sql_client(&self, seed: u64, until: Until) -> Vec<Transaction> {
        let mut rng = Random::new(seed);
        let mut sql = Sql::connect(self.server.mysql_addr);
        let level = self.level.name;
        sql.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"));
        sql.run("SET innodb_lock_wait_timeout = 20; USE h");
        let mut done = Vec::new();
        while !until.over(done.len()) {
            done.push(self.note(|ops| outcome(self.in_sql(&mut sql, &mut rng, ops))));
        }
        done
    }

    /// One transaction of SQL; of one statement with autocommit, or more.
    fn in_sql(&self, sql: &mut Sql, rng: &mut Random, ops: &mut Vec<Op>) -> Result<bool, Failure> {
        let count = rng.below(4) + 1;
        if count == 1 {
            self.one_op(sql, rng, ops, false)?;
            return Ok(true);
        }
        sql.attempt("BEGIN")?;
        for _ in 0..count {
            self.one_op(sql, rng, ops, true)?;
        }
        let commits = rng.below(10) > 0;
        sql.attempt(if commits { "COMMIT" } else { "ROLLBACK" })?;
        Ok(commits)
    }

    fn one_op(
        &self,
        sql: &mut Sql,
        rng: &mut Random,
        ops: &mut Vec<Op>,
        inside: bool,
    ) -> Result<(), Failure> {
        let list = self.base + rng.below(LISTS);
        let select = format!("SELECT v FROM l WHERE id = {list}");
        match rng.below(6) {
            0 | 1 => {
                ops.push(Op::Read(list, read(sql, &select)?));
            }
            2 => {
                let all = format!(
                    "SELECT v FROM l WHERE id BETWEEN {} AND {} ORDER BY id",
                    self.base,
                    self.base + LISTS - 1
                );
                let rows = sql.attempt(&all)?.rows.into_iter();
                for (list, row) in (self.base..).zip(rows) {
                    ops.push(Op::Read(list, numbers(row[0].as_deref().unwrap())));
                }
            }
            3 if inside => {
                let locked = format!("{select} FOR UPDATE");
                ops.push(Op::Read(list, read(sql, &locked)?));
                self.append(sql, ops, list)?;
            }
            4 if inside && self.level.rewrites => {
                let before = read(sql, &select)?;
                ops.push(Op::Read(list, before.clone()));
                let number = self.number();
                ops.push(Op::Append(list, number));
                let all = text(&[&before[..], &[number]].concat());
                sql.attempt(&format!("UPDATE l SET v = '{all}' WHERE id = {list}"))?;
            }
            _ => self.append(sql, ops, list)?,
        }
        Ok(())
    }

    fn append(&self, sql: &mut Sql, ops: &mut Vec<Op>, list: u64) -> Result<(), Failure> {
        let number = self.number();
        ops.push(Op::Append(list, number));
        let set = format!("v = CONCAT(v, ',{number}')");
        sql.attempt(&format!("UPDATE l SET {set} WHERE id = {list}"))?;
        Ok(())
    }

    fn memcached_client(&self, seed: u64, until: Until) -> Vec<Transaction> {
        let mut rng = Random::new(seed);
        let mut cache = Cache::connect(self.server.memcached_addr);
        let mut done = Vec::new();
        while !until.over(done.len()) {
            let one = self.base + rng.below(LISTS);
            let two = self.base + (one - self.base + 1 + rng.below(LISTS - 1)) % LISTS;
            match rng.below(4) {
                0 => done.push(self.note(|ops| self.cached_append(&mut cache, one, ops))),
                1 => done.push(self.note(|ops| {
                    ops.extend(self.cached_read(&mut cache, one, two));
                    Outcome::Committed
                })),
                2 => {
                    let mut seen = Vec::new();
                    done.push(self.note(|ops| {
                        seen = cache.gets(&[format!("l:{one}")]);
                        let found = numbers(std::str::from_utf8(&seen[0].data).unwrap());
                        ops.push(Op::Read(one, found));
                        Outcome::Committed
                    }));
                    let (data, version) = (&seen[0].data, seen[0].cas.unwrap());
                    let before = std::str::from_utf8(data).unwrap().to_owned();
                    done.push(
                        self.note(|ops| self.cached_swap(&mut cache, one, (&before, version), ops)),
                    );
                }
                _ => done.push(self.note(|ops| self.cached_both((one, two), ops))),
            }
        }
        done
    }

    fn cached_append(&self, cache: &mut Cache, list: u64, ops: &mut Vec<Op>) -> Outcome {
        let number = self.number();
        ops.push(Op::Append(list, number));
        let data = text(&[number]);
        let reply = cache.run(&format!("append l:{list} 0 0 {}\r\n{data}\r\n", data.len()));
        assert_eq!(reply, "STORED");
        Outcome::Committed
    }

    /// Two lists by one command, which are of one snapshot.
    fn cached_read(&self, cache: &mut Cache, one: u64, two: u64) -> Vec<Op> {
        let items = cache.gets(&[format!("l:{one}"), format!("l:{two}")]);
        assert_eq!(items.len(), 2);
        let lists = [one, two].into_iter().zip(items);
        let read = |(list, item): (u64, crate::support::cache::Item)| {
            let data = std::str::from_utf8(&item.data).unwrap();
            Op::Read(list, numbers(data))
        };
        lists.map(read).collect()
    }

    /// `cas` is a read and an append in one, where it succeeds.
    fn cached_swap(
        &self,
        cache: &mut Cache,
        list: u64,
        (before, version): (&str, u64),
        ops: &mut Vec<Op>,
    ) -> Outcome {
        let number = self.number();
        let data = format!("{before},{number}");
        let length = data.len();
        let request = format!("cas l:{list} 0 0 {length} {version}\r\n{data}\r\n");
        match cache.run(&request).as_str() {
            "STORED" => {
                ops.push(Op::Read(list, numbers(before)));
                ops.push(Op::Append(list, number));
                Outcome::Committed
            }
            "EXISTS" => Outcome::Aborted,
            other => panic!("{other}"),
        }
    }

    /// Appends to two lists in one transaction of meta commands.
    fn cached_both(&self, (one, two): (u64, u64), ops: &mut Vec<Op>) -> Outcome {
        let mut request = "mn begin\r\n".to_owned();
        for list in [one, two] {
            let number = self.number();
            ops.push(Op::Append(list, number));
            let data = text(&[number]);
            request.push_str(&format!("ms l:{list} {} MA\r\n{data}\r\n", data.len()));
        }
        request.push_str("mn\r\n");
        let reply = exchange(self.server.memcached_addr, request.as_bytes());
        match String::from_utf8(reply).unwrap().as_str() {
            "MN B\r\nHD\r\nHD\r\nMN C\r\n" => Outcome::Committed,
            reply if reply.ends_with("MN R\r\n") => Outcome::Aborted,
            reply => panic!("{reply:?}"),
        }
    }
}

/// The numbers of a list that a native client has read.
fn stored(value: &Value) -> Vec<u64> {
    let Value::Bytes(bytes) = value else {
        panic!("{value:?}");
    };
    numbers(std::str::from_utf8(bytes).unwrap())
}

impl Run {
    fn two_lists(&self, rng: &mut Random) -> (u64, u64) {
        let one = rng.below(LISTS);
        let two = (one + 1 + rng.below(LISTS - 1)) % LISTS;
        (self.base + one, self.base + two)
    }

    fn native_client(&self, seed: u64, until: Until) -> Vec<Transaction> {
        let mut rng = Random::new(seed);
        let mut native = Native::connect(&self.server, "l");
        let mut done = Vec::new();
        while !until.over(done.len()) {
            let (one, two) = self.two_lists(&mut rng);
            if rng.below(3) > 0 {
                let mut run = |ops: &mut Vec<Op>| {
                    native.connection.begin(self.level.native).unwrap();
                    let done = self.in_native(&mut native, &mut rng, (one, two), ops);
                    if done.is_err() {
                        // The only effect of this failure is that the requests are executed again.
                        native.connection.rollback().unwrap();
                    }
                    native_outcome(done)
                };
                done.push(self.note(|ops| run(ops)));
                continue;
            }
            let mut seen = Vec::new();
            done.push(self.note(|ops| {
                seen = native.read(&[one, two]).unwrap();
                for (list, (_, value)) in [one, two].into_iter().zip(&seen) {
                    ops.push(Op::Read(list, stored(value)));
                }
                Outcome::Committed
            }));
            done.push(self.note(|ops| self.native_swap(&mut native, (one, two), &seen, ops)));
        }
        done
    }

    /// The rest of a native transaction. Returns whether it has committed.
    fn in_native(
        &self,
        native: &mut Native,
        rng: &mut Random,
        (one, two): (u64, u64),
        ops: &mut Vec<Op>,
    ) -> Result<bool, Error> {
        if rng.below(2) == 0 {
            let (_, seen) = native.read(&[two])?.remove(0);
            ops.push(Op::Read(two, stored(&seen)));
        }
        let (_, before) = if rng.below(2) == 0 {
            native.lock(one)?
        } else {
            native.read(&[one])?.remove(0)
        };
        let before = stored(&before);
        ops.push(Op::Read(one, before.clone()));
        let number = self.number();
        ops.push(Op::Append(one, number));
        let all = text(&[&before[..], &[number]].concat());
        match native.update(one, ValueRef::Bytes(all.as_bytes())) {
            Updated::Yes => {}
            Updated::No => panic!("an unconditional UPDATE has failed"),
            Updated::Conflict => {
                native.connection.rollback()?;
                return Ok(false);
            }
        }
        let commits = rng.below(10) > 0;
        if commits {
            native.connection.commit()?;
        } else {
            native.connection.rollback()?;
        }
        Ok(commits)
    }

    /// Appends to two lists by an atomic batch, if they are unchanged since they were read. If it succeeds, the reads
    /// count as part of it.
    fn native_swap(
        &self,
        native: &mut Native,
        lists: (u64, u64),
        seen: &[(u64, Value)],
        ops: &mut Vec<Op>,
    ) -> Outcome {
        let (mut versions, mut texts) = (Vec::new(), Vec::new());
        for (list, (version, value)) in [lists.0, lists.1].into_iter().zip(seen) {
            let (before, number) = (stored(value), self.number());
            texts.push(text(&[&before[..], &[number]].concat()));
            versions.push((list, *version));
            ops.push(Op::Read(list, before));
            ops.push(Op::Append(list, number));
        }
        let changes = versions.iter().zip(&texts);
        let changes = changes.map(|((l, v), text)| (*l, *v, ValueRef::Bytes(text.as_bytes())));
        let updated = native.swap(&changes.collect::<Vec<_>>());
        swapped(updated, ops)
    }

    fn rest_client(&self, seed: u64, until: Until) -> Vec<Transaction> {
        let mut rng = Random::new(seed);
        let rest = Rest::new(&self.server, "l");
        let mut done = Vec::new();
        while !until.over(done.len()) {
            let (one, two) = self.two_lists(&mut rng);
            let mut seen = Vec::new();
            match rng.below(3) {
                0 => {
                    done.push(self.note(|ops| {
                        seen = rest.read_all(&[one, two]);
                        for (list, (_, value)) in [one, two].into_iter().zip(&seen) {
                            ops.push(Op::Read(list, numbers(value)));
                        }
                        Outcome::Committed
                    }));
                    let lists = [one, two].into_iter().zip(&seen);
                    done.push(self.note(|ops| self.rest_swap(&rest, lists, ops)));
                }
                1 => {
                    done.push(self.note(|ops| {
                        seen = vec![rest.read(one)];
                        ops.push(Op::Read(one, numbers(&seen[0].1)));
                        Outcome::Committed
                    }));
                    done.push(self.note(|ops| {
                        let ((version, before), number) = (&seen[0], self.number());
                        ops.push(Op::Read(one, numbers(before)));
                        ops.push(Op::Append(one, number));
                        let all = format!("{before},{number}");
                        swapped(rest.patch(one, Some(*version), &all), ops)
                    }));
                }
                _ => done.push(self.note(|ops| {
                    let number = self.number();
                    ops.push(Op::Append(one, number));
                    let append = format!("UPDATE h.l SET v = CONCAT(v, ?) WHERE id = {one}");
                    if rest.statement(&append, &text(&[number])) {
                        Outcome::Committed
                    } else {
                        Outcome::Aborted
                    }
                })),
            }
        }
        done
    }

    /// As [`Run::native_swap`], by a batch over REST.
    fn rest_swap<'s>(
        &self,
        rest: &Rest,
        lists: impl Iterator<Item = (u64, &'s (u64, String))>,
        ops: &mut Vec<Op>,
    ) -> Outcome {
        let changes = lists.map(|(list, (version, before))| {
            let number = self.number();
            ops.push(Op::Read(list, numbers(before)));
            ops.push(Op::Append(list, number));
            (list, *version, format!("{before},{number}"))
        });
        let changes: Vec<_> = changes.collect();
        swapped(rest.swap(&changes), ops)
    }
}

/// Outcome of a swap. The reads of a failed swap are removed from `ops`.
fn swapped(updated: Updated, ops: &mut Vec<Op>) -> Outcome {
    if updated == Updated::Yes {
        return Outcome::Committed;
    }
    ops.retain(|op| matches!(op, Op::Append(..)));
    Outcome::Aborted
}

fn native_outcome(answer: Result<bool, Error>) -> Outcome {
    match answer {
        Ok(true) => Outcome::Committed,
        Ok(false) => Outcome::Aborted,
        Err(error) if error.is_conflict() => Outcome::Aborted,
        Err(other) => panic!("{other}"),
    }
}

fn read(sql: &mut Sql, select: &str) -> Result<Vec<u64>, Failure> {
    let answer = sql.attempt(select)?;
    Ok(numbers(answer.rows[0][0].as_deref().unwrap()))
}

/// Outcome of a transaction by its reply; other errors are not expected.
fn outcome(answer: Result<bool, Failure>) -> Outcome {
    match answer {
        Ok(true) => Outcome::Committed,
        Ok(false) => Outcome::Aborted,
        Err(Failure::Refused(error)) if error.code == 1213 => Outcome::Aborted,
        Err(other) => panic!("{other}"),
    }
}

/// Limits at which a client stops.
#[derive(Clone, Copy)]
struct Until {
    transactions: usize,
    time: Instant,
}

impl Until {
    fn over(&self, done: usize) -> bool {
        done >= self.transactions || Instant::now() > self.time
    }
}

/// A server with the table of lists, reachable as `l:1`, `l:2`, ...
fn start(level: Level) -> Run {
    let server = server()
        .arg("--native-listen", "127.0.0.1:0")
        .arg("--rest-listen", "127.0.0.1:0")
        .start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE h; USE h; CREATE TABLE l (id INT PRIMARY KEY, v TEXT NOT NULL)");
    map_prefix(&mut sql, "l:", ("h", "l"), ("id", "v"));
    Run {
        server,
        level,
        time: AtomicU64::new(1),
        numbers: AtomicU64::new(1),
        base: 0,
    }
}

/// One round on lists of its own: a history, with a last look at every list.
fn round(run: &mut Run, seed: u64, until: Until) -> Vec<Transaction> {
    run.base += LISTS;
    let mut sql = Sql::connect(run.server.mysql_addr);
    let rows: Vec<String> = (0..LISTS)
        .map(|n| format!("({},'')", run.base + n))
        .collect();
    sql.run(&format!("INSERT INTO h.l VALUES {}", rows.join(",")));
    let run = &*run;
    let mut history: Vec<Transaction> = std::thread::scope(|scope| {
        let by_sql =
            (0..SQL_CLIENTS).map(|n| scope.spawn(move || run.sql_client(seed * 100 + n, until)));
        let by_memcached = (0..MEMCACHED_CLIENTS)
            .map(|n| scope.spawn(move || run.memcached_client(seed * 100 + 50 + n, until)));
        let by_native = (0..NATIVE_CLIENTS)
            .map(|n| scope.spawn(move || run.native_client(seed * 100 + 70 + n, until)));
        let by_rest = (0..REST_CLIENTS)
            .map(|n| scope.spawn(move || run.rest_client(seed * 100 + 90 + n, until)));
        let clients = by_sql.chain(by_memcached).chain(by_native).chain(by_rest);
        let clients: Vec<_> = clients.collect();
        let histories = clients.into_iter().map(|client| client.join().unwrap());
        histories.flatten().collect()
    });
    history.push(run.note(|ops| {
        for list in run.base..run.base + LISTS {
            let select = format!("SELECT v FROM h.l WHERE id = {list}");
            ops.push(Op::Read(list, read(&mut sql, &select).unwrap()));
        }
        Outcome::Committed
    }));
    history
}

fn expect(level: Level, seed: u64) {
    let mut run = start(level);
    let until = Until {
        transactions: 120,
        time: Instant::now() + Duration::from_secs(60),
    };
    let history = round(&mut run, seed, until);
    let committed = |t: &&Transaction| t.outcome == Outcome::Committed;
    let committed = history.iter().filter(committed).count();
    assert!(
        committed > 200,
        "{committed} of {} committed",
        history.len()
    );
    let found = check_history(&history, level.allowed);
    assert!(found.is_empty(), "{}", found.join("\n"));
    crate::anomalies::still_found(&history, level.allowed);
}

#[test]
fn read_committed_excludes_dirty_and_partial_reads() {
    expect(READ_COMMITTED, 1);
}

#[test]
fn repeatable_read_excludes_all_but_write_skew() {
    expect(REPEATABLE_READ, 2);
}

#[test]
fn serializable_excludes_everything() {
    expect(SERIALIZABLE, 3);
}

/// Runs for `SECONDS` seconds; for a minute if that is not set.
#[test]
#[ignore = "as long as SECONDS says, a minute without it"]
fn histories_are_in_order_for_long() {
    let seconds = std::env::var("SECONDS").ok();
    let seconds = seconds.and_then(|s| s.parse().ok()).unwrap_or(60);
    let end = Instant::now() + Duration::from_secs(seconds);
    let levels = [READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE];
    let mut runs = levels.map(start);
    let (mut seed, mut checked) = (std::process::id().into(), 0);
    while Instant::now() < end {
        for run in &mut runs {
            seed += 1;
            let until = Until {
                transactions: 200,
                time: end + Duration::from_secs(10),
            };
            let history = round(run, seed, until);
            let found = check_history(&history, run.level.allowed);
            let level = run.level.name;
            assert!(found.is_empty(), "{level}, seed {seed}: {found:?}");
            checked += history.len();
        }
    }
    println!("{checked} transactions checked");
}
