//! The privilege matrix over text and prepared statements, generated from the table of
//! statement kinds: without grants, with each sufficient set, and with each set minus one privilege.

use crate::common::Nothing;
use porpoise_base::cancel::Cancel;
use porpoise_kv::model::Model;
use porpoise_sql::privileges::kinds::{Example, StatementKind, examples, kind_of};
use porpoise_sql::session::{ClientInfo, SqlSession};
use std::sync::Arc;

/// Errors of statements that lack a privilege.
const DENIED: &[u16] = &[1044, 1045, 1095, 1142, 1143, 1227, 1345, 1356, 1370, 1401];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Text,
    Prepared,
    /// Prepared with the sufficient grants, executed after these were replaced.
    PreparedBefore,
}

struct Server {
    root: SqlSession,
    ann: SqlSession,
}

fn run(session: &mut SqlSession, text: &str) -> Result<(), u16> {
    let ran = session.query(text.as_bytes(), false, &mut Nothing);
    ran.map(|_| ()).map_err(|e| e.code)
}

fn start() -> Server {
    let server = crate::common::server(Arc::new(Model::new()));
    let mut root = crate::common::connect(&server, 1);
    for text in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.goods (id INT PRIMARY KEY, n INT, KEY by_n (n))",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
        "INSERT INTO shop.goods VALUES (1, 10)",
        "INSERT INTO shop.orders VALUES (1)",
        "CREATE VIEW shop.v AS SELECT id, n FROM shop.goods",
        "CREATE SQL SECURITY INVOKER VIEW shop.vi AS SELECT id, n FROM shop.goods",
        "CREATE PROCEDURE shop.p() SELECT MAX(n) FROM shop.goods",
        "CREATE EVENT shop.held ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "CREATE TABLE shop.held (id INT PRIMARY KEY)",
        "CREATE USER ann IDENTIFIED BY 'x', bob IDENTIFIED BY 'x'",
        "GRANT SELECT ON shop.held TO bob",
    ] {
        run(&mut root, text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    let info = ClientInfo {
        user: "ann".to_owned(),
        account: "ann@%".to_owned(),
        ..crate::common::root(2)
    };
    let ann = server.connect(info, Cancel::new()).unwrap();
    Server { root, ann }
}

impl Server {
    fn grant(&mut self, grants: &[&str]) {
        for grant in grants {
            // The grant may be on a table that the statement creates, which needs CREATE.
            let text = format!("GRANT {grant} TO ann");
            run(&mut self.root, &text)
                .or_else(|code| {
                    assert_eq!(code, 1146, "{text}");
                    let (privileges, object) = grant.split_once(" ON ").unwrap();
                    let text = format!("GRANT {privileges}, CREATE ON {object} TO ann");
                    run(&mut self.root, &text)
                })
                .unwrap_or_else(|code| panic!("{text}: {code}"));
        }
    }

    fn revoke_all(&mut self) {
        run(
            &mut self.root,
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM ann",
        )
        .unwrap();
    }
}

/// Whether the statement fails for lack of a privilege with the grants `granted`.
fn denied(sql: &str, mode: Mode, sufficient: &[&str], granted: &[&str]) -> bool {
    let mut server = start();
    let ran = match mode {
        Mode::Text => {
            server.grant(granted);
            run(&mut server.ann, sql)
        }
        Mode::Prepared => {
            server.grant(granted);
            let prepared = server.ann.prepare(sql.as_bytes());
            let ran = prepared.and_then(|p| server.ann.execute(p.id, &[], &mut Nothing));
            ran.map(|_| ()).map_err(|e| e.code)
        }
        Mode::PreparedBefore => {
            server.grant(sufficient);
            let prepared = server.ann.prepare(sql.as_bytes());
            server.revoke_all();
            server.grant(granted);
            let ran = prepared.and_then(|p| server.ann.execute(p.id, &[], &mut Nothing));
            ran.map(|_| ()).map_err(|e| e.code)
        }
    };
    ran.is_err_and(|code| DENIED.contains(&code))
}

fn check(kind: StatementKind, example: &Example, failures: &mut Vec<String>) {
    let sql = example.sql;
    for set in example.sufficient {
        for mode in [Mode::Text, Mode::Prepared, Mode::PreparedBefore] {
            let unpreparable = matches!(
                kind,
                StatementKind::Prepare
                    | StatementKind::Execute
                    | StatementKind::Deallocate
                    | StatementKind::LoadData
                    | StatementKind::Xa
            );
            if mode != Mode::Text && unpreparable {
                continue;
            }
            if denied(sql, mode, set, set) {
                failures.push(format!("{mode:?} {sql}: denied with {set:?}"));
            }
            for missing in 0..set.len() {
                let mut less = set.to_vec();
                less.remove(missing);
                if !denied(sql, mode, set, &less) {
                    failures.push(format!("{mode:?} {sql}: allowed with {less:?} only"));
                }
            }
            if !set.is_empty() && !denied(sql, mode, set, &[]) {
                failures.push(format!("{mode:?} {sql}: allowed without grants"));
            }
        }
    }
}

#[test]
fn every_statement_kind_needs_exactly_its_privileges() {
    let mut failures = Vec::new();
    for kind in StatementKind::ALL {
        let list = examples(*kind);
        assert!(!list.is_empty(), "{kind:?} has no example");
        for example in list {
            let arena = Default::default();
            let options = Default::default();
            let parsed =
                porpoise_sql_parser::parse_one(&arena, example.sql.as_bytes(), 0, &options)
                    .unwrap_or_else(|_| panic!("{} does not parse", example.sql));
            assert_eq!(kind_of(&parsed.statement), *kind, "{}", example.sql);
            check(*kind, example, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
