//! Random routines and triggers on random tables with foreign keys: after each statement that runs
//! them, all tables must be as in MariaDB.
//!
//! Every loop has a bound, every cursor an order, and every statement of a body that changes rows
//! names them by key or changes all that meet a condition, so that the outcome is determined.
//!
//! How often an operand is evaluated is not defined: MariaDB skips the second operand of a decimal sum whose
//! first is NULL, and evaluates a condition with OR once more when it optimizes it. So a function that
//! writes or may fail is called only as the whole value of SET and RETURN; others are called anywhere.
//! Foreign key actions do not fire triggers, as in MariaDB and in MySQL before 9.7.
//!
//! Two known differences:
//!
//! 1. In MySQL each instruction that evaluates an expression (SET, IF, CASE, WHILE, UNTIL, RETURN,
//!    DECLARE) and each of a cursor clears the diagnostics area (`sp_lex_instr::execute` and `clear_da`
//!    in its sql/sp_instr.h), so that a NOT FOUND of an earlier statement no longer reaches the caller.
//!    In MariaDB only statements with tables do. Where MariaDB differs, it runs the case once more
//!    with a statement that clears the area at each such place ([`CLEARS`]), and must then agree.
//! 2. The body of a handler has no cursors: MariaDB gives them the numbers of the cursors of the block
//!    that the handler interrupts, which may be open (1325).

use super::{describe, fail_if_any, seeds};
use crate::both::{Answer, Shared, here, session};

/// Tables that statements and programs change. `log` is only written.
const TABLES: [&str; 3] = ["parent", "child", "log"];

/// Marks an instruction that clears the diagnostics area in MySQL, but not in MariaDB.
const CLEARS: &str = "/*clears*/ ";

/// A statement that clears the diagnostics area in both.
const CLEARING: &str = "DO (SELECT COUNT(*) FROM log WHERE id < 0); ";

/// A generator of programs.
struct Programs {
    rng: fastrand::Rng,
    /// Procedures so far, by number of IN parameters; each has an OUT parameter after them.
    procedures: Vec<usize>,
    /// Functions so far, and whether each writes or may fail; each has one parameter.
    functions: Vec<bool>,
    /// Number given to the next label, variable or cursor.
    next: usize,
}

/// Names that a statement of a body may use.
#[derive(Clone, Default)]
struct Scope {
    /// Integer expressions: variables, and columns of NEW and OLD.
    ints: Vec<String>,
    /// Variables that may be assigned.
    assigned: Vec<String>,
    /// Labels of loops around the statement.
    loops: Vec<String>,
    /// Tables that it may change.
    tables: Vec<&'static str>,
    /// Whether procedures may be called: not by functions and triggers, so that they stay short.
    calls: bool,
    /// Whether the statement is in the body of a handler.
    in_handler: bool,
    /// Nesting depth.
    depth: usize,
}

impl Programs {
    fn new(seed: u64) -> Programs {
        Programs {
            rng: fastrand::Rng::with_seed(seed),
            procedures: Vec::new(),
            functions: Vec::new(),
            next: 0,
        }
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.rng.usize(0..from.len())]
    }

    fn name(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    /// Tables with rows, and a foreign key between them.
    fn tables(&mut self) -> Vec<String> {
        let actions = ["CASCADE", "SET NULL", "RESTRICT", "NO ACTION"];
        let (delete, update) = (*self.pick(&actions), *self.pick(&actions));
        let unique = *self.pick(&["", ", UNIQUE KEY (u)"]);
        let mut out = vec![
            format!("CREATE TABLE parent (id INT PRIMARY KEY, a INT, u TINYINT{unique})"),
            format!(
                "CREATE TABLE child (id INT PRIMARY KEY, parent INT, a INT NOT NULL, \
                 FOREIGN KEY (parent) REFERENCES parent (id) \
                 ON DELETE {delete} ON UPDATE {update})"
            ),
            "CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(12), n INT)"
                .to_owned(),
        ];
        for id in 0..6 {
            let a = self.rng.i32(-5..20);
            out.push(format!("INSERT INTO parent VALUES ({id}, {a}, {id})"));
        }
        for id in 0..5 {
            let parent = self.rng.u8(0..6);
            let a = self.rng.i32(-5..20);
            out.push(format!("INSERT INTO child VALUES ({id}, {parent}, {a})"));
        }
        out
    }

    /// An integer expression.
    fn int(&mut self, scope: &Scope, depth: usize) -> String {
        if depth == 0 || self.rng.u8(0..3) == 0 {
            if scope.ints.is_empty() || self.rng.u8(0..3) == 0 {
                return self.rng.i32(-4..12).to_string();
            }
            return self.pick(&scope.ints).clone();
        }
        let (a, b) = (self.int(scope, depth - 1), self.int(scope, depth - 1));
        match self.rng.u8(0..9) {
            0 => format!("({a} - {b})"),
            1 => format!("({a} * {b})"),
            2 => format!("IFNULL({a}, {b})"),
            3 => format!("IF({}, {a}, {b})", self.condition(scope, depth - 1)),
            4 => format!("GREATEST({a}, {b})"),
            5 if scope.depth < 3 => match self.function_call(&a, false) {
                Some(call) => call,
                None => format!("({b} + {a})"),
            },
            6 if scope.tables.contains(&"parent") => {
                format!(
                    "(SELECT MAX(a) FROM parent WHERE id < {})",
                    self.rng.u8(0..8)
                )
            }
            _ => format!("({a} + {b})"),
        }
    }

    /// A call of a function; `writes`: of any, also of those that write.
    fn function_call(&mut self, argument: &str, writes: bool) -> Option<String> {
        let callable = |n: &usize| writes || !self.functions[*n];
        let callable: Vec<usize> = (0..self.functions.len()).filter(callable).collect();
        if callable.is_empty() {
            return None;
        }
        let n = self.pick(&callable);
        Some(format!("f{n}({argument})"))
    }

    fn condition(&mut self, scope: &Scope, depth: usize) -> String {
        let a = self.int(scope, depth.min(1));
        let b = self.int(scope, 0);
        match self.rng.u8(0..6) {
            0 => format!("{a} IS NULL"),
            1 => format!("{a} BETWEEN {b} AND 9"),
            2 => format!("NOT ({a} = {b})"),
            3 => format!("({a} < {b} OR {a} > 8)"),
            _ => format!("{a} {} {b}", self.pick(&["<", ">", "=", "<=", "<>"])),
        }
    }

    /// A statement that changes rows of a table.
    fn change(&mut self, scope: &Scope) -> String {
        let table = *self.pick(&scope.tables);
        let (n, m) = (self.int(scope, 1), self.int(scope, 1));
        let id = self.rng.u8(0..9);
        match (table, self.rng.u8(0..6)) {
            ("parent", 0) => format!("INSERT INTO parent VALUES ({id}, {n}, {m})"),
            ("child", 0) => format!("INSERT INTO child VALUES ({id}, {n}, {m})"),
            ("parent", 1) => format!("DELETE FROM parent WHERE id = {id}"),
            ("child", 1) => format!("DELETE FROM child WHERE id = {id}"),
            // To a free key: which of two violated constraints is reported differs.
            ("parent", 2) => {
                let free = self.next + 20;
                format!("UPDATE parent SET id = {free} WHERE id = {id}")
            }
            ("child", 2) => format!("UPDATE child SET parent = {n} WHERE id = {id}"),
            ("parent", 3) => format!("REPLACE INTO parent VALUES ({id}, {n}, {m})"),
            ("parent", 4) => format!(
                "INSERT INTO parent VALUES ({id}, {n}, {m}) ON DUPLICATE KEY UPDATE a = {n}"
            ),
            ("parent", _) => format!("UPDATE parent SET a = {n} WHERE id = {id}"),
            ("child", 3) => format!("UPDATE child SET a = a + 1 WHERE a < {}", id),
            ("child", _) => format!("UPDATE child SET a = {n} WHERE id = {id}"),
            _ => {
                let what = self.name("s");
                format!("INSERT INTO log (what, n) VALUES ('{what}', {n})")
            }
        }
    }

    fn statements(&mut self, scope: &Scope, most: usize) -> String {
        let count = self.rng.usize(1..=most);
        let all: Vec<String> = (0..count).map(|_| self.statement(scope)).collect();
        all.join(" ")
    }

    fn statement(&mut self, scope: &Scope) -> String {
        let simple = scope.depth >= 4 || self.rng.u8(0..5) < 2;
        let inner = Scope {
            depth: scope.depth + 1,
            ..scope.clone()
        };
        match self.rng.u8(0..10) {
            _ if simple => self.simple(scope),
            0 | 1 => {
                let (test, then) = (self.condition(scope, 1), self.statements(&inner, 2));
                let otherwise = self.statements(&inner, 2);
                match self.rng.u8(0..3) {
                    0 => format!("{CLEARS}IF {test} THEN {then} END IF;"),
                    1 => format!("{CLEARS}IF {test} THEN {then} ELSE {otherwise} END IF;"),
                    _ => {
                        let second = self.condition(scope, 1);
                        format!(
                            "{CLEARS}IF {test} THEN {then} ELSEIF {second} THEN {otherwise} END IF;"
                        )
                    }
                }
            }
            2 => self.case(scope, &inner),
            3..=5 => self.bounded_loop(scope),
            6 if scope.tables.contains(&"parent") && !scope.in_handler => self.cursor_loop(scope),
            _ => self.block(&inner),
        }
    }

    fn simple(&mut self, scope: &Scope) -> String {
        let value = self.int(scope, 2);
        match self.rng.u8(0..12) {
            0..=3 if !scope.assigned.is_empty() => {
                let called = match self.rng.u8(0..3) {
                    0 if scope.depth < 3 => self.function_call(&value, true),
                    _ => None,
                };
                let value = called.unwrap_or(value);
                format!("{CLEARS}SET {} = {value};", self.pick(&scope.assigned))
            }
            4 if !scope.assigned.is_empty() && scope.tables.contains(&"parent") => {
                let variable = self.pick(&scope.assigned).clone();
                let id = self.rng.u8(0..9);
                format!("SELECT a INTO {variable} FROM parent WHERE id = {id};")
            }
            5 if !scope.loops.is_empty() => {
                let label = self.pick(&scope.loops).clone();
                let verb = *self.pick(&["LEAVE", "ITERATE"]);
                format!(
                    "{CLEARS}IF {} THEN {verb} {label}; END IF;",
                    self.condition(scope, 1)
                )
            }
            6 if scope.calls && !self.procedures.is_empty() && !scope.assigned.is_empty() => {
                let n = self.rng.usize(0..self.procedures.len());
                let mut args: Vec<String> = (0..self.procedures[n])
                    .map(|_| self.int(scope, 1))
                    .collect();
                args.push(self.pick(&scope.assigned).clone());
                format!("{CLEARS}CALL p{n}({});", args.join(", "))
            }
            7 => {
                let state = *self.pick(&["45000", "02000", "23000"]);
                let test = self.condition(scope, 1);
                format!("{CLEARS}IF {test} THEN SIGNAL SQLSTATE '{state}'; END IF;")
            }
            8 if scope.in_handler => "RESIGNAL;".to_owned(),
            _ => format!("{};", self.change(scope)),
        }
    }

    fn case(&mut self, scope: &Scope, inner: &Scope) -> String {
        let (first, second) = (self.statements(inner, 2), self.statements(inner, 2));
        let otherwise = match self.rng.u8(0..4) {
            0 => String::new(),
            _ => format!(" ELSE {}", self.statements(inner, 1)),
        };
        if self.rng.bool() {
            let (a, b) = (self.condition(scope, 1), self.condition(scope, 1));
            return format!(
                "{CLEARS}CASE WHEN {a} THEN {first} WHEN {b} THEN {second}{otherwise} END CASE;"
            );
        }
        let (operand, a, b) = (self.int(scope, 1), self.int(scope, 0), self.int(scope, 0));
        format!(
            "{CLEARS}CASE {operand} WHEN {a} THEN {first} WHEN {b} THEN {second}{otherwise} \
             END CASE;"
        )
    }

    /// A loop of at most five steps, in a block with its counter.
    fn bounded_loop(&mut self, scope: &Scope) -> String {
        let (label, counter) = (self.name("l"), self.name("i"));
        let mut inner = Scope {
            depth: scope.depth + 1,
            ..scope.clone()
        };
        inner.ints.push(counter.clone());
        inner.loops.push(label.clone());
        let body = self.statements(&inner, 3);
        let test = self.condition(scope, 1);
        let step = format!("{CLEARS}SET {counter} = {counter} + 1; ");
        let over = format!("IF {counter} > 5 THEN LEAVE {label}; END IF; ");
        let text = match self.rng.u8(0..3) {
            0 => format!("{label}: LOOP {step}{over}{body} END LOOP;"),
            1 => format!("{label}: WHILE {test} DO {step}{over}{body} {CLEARS}END WHILE;"),
            _ => {
                format!("{label}: REPEAT {step}{over}{body} {CLEARS}UNTIL {test} END REPEAT;")
            }
        };
        format!("{CLEARS}BEGIN DECLARE {counter} INT DEFAULT 0; {text} END;")
    }

    /// A loop over a cursor.
    fn cursor_loop(&mut self, scope: &Scope) -> String {
        let (label, cursor) = (self.name("l"), self.name("c"));
        let (id, a, done) = (self.name("v"), self.name("v"), self.name("d"));
        let mut inner = Scope {
            depth: scope.depth + 2,
            ..scope.clone()
        };
        inner.ints.extend([id.clone(), a.clone()]);
        inner.assigned.push(a.clone());
        let body = self.statements(&inner, 2);
        let test = self.condition(scope, 0);
        let source = match self.rng.u8(0..3) {
            0 => format!("SELECT id, a FROM parent WHERE {test} ORDER BY id"),
            1 => "SELECT p.id, c.a FROM parent p JOIN child c ON c.parent = p.id ORDER BY c.id"
                .to_owned(),
            _ => "SELECT id, a FROM parent ORDER BY id DESC".to_owned(),
        };
        format!(
            "{CLEARS}BEGIN DECLARE {id}, {a} INT; DECLARE {done} INT DEFAULT 0; \
             DECLARE {cursor} CURSOR FOR {source}; \
             DECLARE CONTINUE HANDLER FOR NOT FOUND SET {done} = {done} + 1; OPEN {cursor}; \
             {label}: LOOP {CLEARS}FETCH {cursor} INTO {id}, {a}; \
             IF {done} > 0 THEN LEAVE {label}; END IF; {body} END LOOP; {CLEARS}CLOSE {cursor}; END;"
        )
    }

    /// A block, perhaps with variables and handlers.
    fn block(&mut self, scope: &Scope) -> String {
        let mut inner = Scope {
            depth: scope.depth + 1,
            ..scope.clone()
        };
        let mut text = format!("{CLEARS}BEGIN ");
        for _ in 0..self.rng.usize(0..3) {
            let variable = self.name("v");
            let ty = *self.pick(&["INT", "INT", "BIGINT", "TINYINT", "DECIMAL(6,1)"]);
            let value = self.int(&inner, 0);
            text += &format!("DECLARE {variable} {ty} DEFAULT {value}; ");
            inner.ints.push(variable.clone());
            inner.assigned.push(variable);
        }
        let mut conditions = vec![
            "SQLEXCEPTION",
            "NOT FOUND",
            "1062",
            "SQLSTATE '45000'",
            "SQLSTATE '23000'",
            "1264, 1452",
        ];
        for _ in 0..self.rng.usize(0..3) {
            let at = self.rng.usize(0..conditions.len());
            let condition = conditions.swap_remove(at);
            let kind = *self.pick(&["CONTINUE", "EXIT"]);
            let of_handler = Scope {
                in_handler: true,
                loops: Vec::new(),
                depth: inner.depth + 2,
                ..inner.clone()
            };
            let body = self.statements(&of_handler, 2);
            text += &format!("DECLARE {kind} HANDLER FOR {condition} BEGIN {body} END; ");
        }
        text + &self.statements(&inner, 4) + " END;"
    }

    /// The body of a program without the last semicolon.
    fn body(&mut self, scope: &Scope) -> String {
        let block = self.block(scope);
        let block = block.strip_prefix(CLEARS).unwrap_or(&block);
        block.trim_end_matches(';').to_owned()
    }

    fn function(&mut self) -> String {
        let scope = Scope {
            ints: vec!["x".to_owned()],
            assigned: vec!["x".to_owned()],
            tables: vec!["log"],
            depth: 2,
            ..Scope::default()
        };
        let body = self.block(&scope);
        let value = self.int(&scope, 2);
        let value = match self.rng.u8(0..3) {
            0 => self.function_call(&value, true).unwrap_or(value),
            _ => value,
        };
        let n = self.functions.len();
        let calls_writer = |(n, writes): (usize, &bool)| {
            *writes && (body.contains(&format!("f{n}(")) || value.contains(&format!("f{n}(")))
        };
        // An error is as visible as a row that is written.
        let effects = ["INSERT INTO", "SIGNAL", "CASE", "TINYINT", "DECIMAL"];
        let writes = effects.iter().any(|effect| body.contains(effect))
            || self.functions.iter().enumerate().any(calls_writer);
        self.functions.push(writes);
        format!(
            "CREATE FUNCTION f{n}(x INT) RETURNS INT DETERMINISTIC \
             BEGIN {body} {CLEARS}RETURN {value}; END"
        )
    }

    fn procedure(&mut self) -> String {
        let count = self.rng.usize(0..3);
        let names: Vec<String> = (0..count).map(|n| format!("x{n}")).collect();
        let scope = Scope {
            ints: names.iter().cloned().chain(["y".to_owned()]).collect(),
            assigned: names.iter().cloned().chain(["y".to_owned()]).collect(),
            tables: TABLES.to_vec(),
            calls: true,
            ..Scope::default()
        };
        let body = self.body(&scope);
        let mut parameters: Vec<String> = names.iter().map(|n| format!("IN {n} INT")).collect();
        parameters.push("OUT y INT".to_owned());
        let n = self.procedures.len();
        self.procedures.push(count);
        format!("CREATE PROCEDURE p{n}({}) {body}", parameters.join(", "))
    }

    fn trigger(&mut self) -> String {
        let table = *self.pick(&["parent", "child"]);
        let time = *self.pick(&["BEFORE", "AFTER"]);
        let event = *self.pick(&["INSERT", "UPDATE", "DELETE"]);
        let mut scope = Scope {
            // A trigger cannot change the table, and the foreign key leads to the other one.
            tables: vec!["log"],
            depth: 2,
            ..Scope::default()
        };
        if event != "DELETE" {
            scope.ints.extend(["NEW.id".to_owned(), "NEW.a".to_owned()]);
        }
        if event != "INSERT" {
            scope.ints.extend(["OLD.id".to_owned(), "OLD.a".to_owned()]);
        }
        if time == "BEFORE" && event != "DELETE" {
            scope.assigned.push("NEW.a".to_owned());
        }
        let name = self.name("t");
        let body = self.body(&scope);
        format!("CREATE TRIGGER {name} {time} {event} ON {table} FOR EACH ROW {body}")
    }

    /// A statement of the client that runs programs.
    fn action(&mut self) -> String {
        let scope = Scope {
            tables: vec!["parent", "child"],
            ..Scope::default()
        };
        if self.procedures.is_empty() || self.rng.u8(0..3) == 0 {
            return self.change(&scope);
        }
        let n = self.rng.usize(0..self.procedures.len());
        let mut args: Vec<String> = (0..self.procedures[n])
            .map(|_| self.rng.i32(-3..9).to_string())
            .collect();
        args.push("@y".to_owned());
        format!("CALL p{n}({})", args.join(", "))
    }
}

/// MariaDB's error for a statement that exceeds `max_statement_time`.
const MAX_STATEMENT_TIME_EXCEEDED: u16 = 1969;

/// Runs one case on both servers. Returns a description of the first mismatch; the rest may follow
/// from it.
fn case(server: &Shared, seed: u64, actions: usize) -> Option<String> {
    let mut random = Programs::new(seed);
    let mut statements = random.tables();
    for _ in 0..random.rng.usize(0..3) {
        statements.push(random.function());
    }
    for _ in 0..random.rng.usize(1..4) {
        statements.push(random.procedure());
    }
    for _ in 0..random.rng.usize(0..4) {
        statements.push(random.trigger());
    }
    for _ in 0..actions {
        statements.push(random.action());
        statements.push("SELECT @y".to_owned());
        statements.push("SELECT * FROM parent ORDER BY id".to_owned());
        statements.push("SELECT * FROM child ORDER BY id".to_owned());
        statements.push("SELECT what, n FROM log ORDER BY id".to_owned());
    }
    let with = |clearing: &str| {
        let texts = statements.iter().map(|s| s.replace(CLEARS, clearing));
        texts.collect::<Vec<String>>()
    };
    let plain = with("");
    first_difference(seed, &plain, &answers_of(server, &plain))?;
    first_difference(seed, &plain, &answers_of(server, &with(CLEARING)))
}

/// MariaDB's answers.
fn answers_of(server: &Shared, statements: &[String]) -> Vec<Answer> {
    let texts: Vec<&str> = statements.iter().map(String::as_str).collect();
    server.run_with("SET max_statement_time = 5", &texts)
}

/// Runs statements here, and describes the first one whose answer is not MariaDB's.
fn first_difference(seed: u64, statements: &[String], answers: &[Answer]) -> Option<String> {
    let mut session = session();
    here(&mut session, "SET foreign_key_cascade_triggers = OFF");
    for (at, (sql, theirs)) in statements.iter().zip(answers).enumerate() {
        // On a busy machine a long case exceeds MariaDB's time limit: it tells nothing.
        if theirs.error == Some(MAX_STATEMENT_TIME_EXCEEDED) {
            return None;
        }
        let (ours, message) = here(&mut session, sql);
        if theirs.error == ours.error && theirs.rows == ours.rows {
            continue;
        }
        let script = statements[..=at].iter();
        let script = script.filter(|s| !s.starts_with("SELECT") || *s == sql);
        let script: Vec<&str> = script.map(String::as_str).collect();
        return Some(format!(
            "-- seed {seed}\n{} $$\n-- {}\n-- {}\n",
            script.join(" $$\n"),
            describe("MariaDB", theirs, ""),
            describe("here", &ours, &message)
        ));
    }
    None
}

#[test]
fn random_programs_agree_with_mariadb() {
    let server = Shared::start();
    let seeds = seeds(1, 40);
    let cases = seeds.clone().count();
    let wrong: Vec<String> = seeds.filter_map(|s| case(&server, s, 8)).collect();
    fail_if_any(&wrong, cases);
}

#[test]
#[ignore = "minutes long"]
fn very_many_random_programs_agree_with_mariadb() {
    let server = Shared::start();
    let seeds = seeds(1_000, 2_000);
    let cases = seeds.clone().count();
    let wrong: Vec<String> = seeds.filter_map(|s| case(&server, s, 12)).collect();
    fail_if_any(&wrong, cases);
}
