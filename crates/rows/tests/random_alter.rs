//! Random sequences of ALTER TABLE and of changes of rows, compared after
//! each step with a naive table that rewrites everything at once. Restarts
//! come in between, so that what is on disk is read by later definitions.

use porpoise_kv::model::Model;
use porpoise_rows::catalog::{ColumnDefault, IndexKind, Table, TableOptions};
use porpoise_rows::ddl::{AlterOp, ColumnSpec, DdlCx, IndexSpec, Position, TableSpec};
use porpoise_rows::{BeginOptions, Db, InsertMode, Lookup, RowBuf, RowChange, UpdateMode};
use porpoise_types::{Collation, Value};
use std::sync::Arc;

use crate::common::naive_columns::{Col, Naive, Type, convert};

struct World {
    model: Model,
    db: Arc<Db>,
    naive: Naive,
    rng: fastrand::Rng,
    names: u32,
    table: String,
    log: Vec<String>,
}

fn spec(c: &Col) -> ColumnSpec {
    ColumnSpec {
        nullable: Some(c.nullable),
        default: c.default.clone().map(|v| match v {
            Value::Null => ColumnDefault::Null,
            v => ColumnDefault::Literal(v),
        }),
        ..ColumnSpec::new(&c.name, c.ty.column_type())
    }
}

fn index(kind: IndexKind, name: &str, columns: &[String]) -> IndexSpec {
    let name = (kind != IndexKind::Primary).then_some(name);
    IndexSpec::new(kind, name, columns)
}

fn open(model: &Model) -> Arc<Db> {
    crate::common::open(Arc::new(model.reopen()))
}

impl World {
    fn new(seed: u64) -> World {
        let model = Model::new();
        let mut world = World {
            db: open(&model),
            model,
            naive: Naive {
                columns: vec![Col {
                    name: "id".into(),
                    ty: Type::Int,
                    nullable: false,
                    default: None,
                }],
                rows: Vec::new(),
                uniques: Vec::new(),
                plain: Vec::new(),
                primary: true,
            },
            rng: fastrand::Rng::with_seed(seed),
            names: 0,
            table: "t".into(),
            log: vec![format!("seed {seed}")],
        };
        let general = Collation::UTF8MB4_GENERAL_CI;
        world.with(|db, cx| db.create_database(cx, "d", general, false).map(|_| ()));
        let columns = vec![spec(&world.naive.columns[0])];
        let key = vec![IndexSpec::primary(&["id"])];
        let create = TableSpec::new("d", "t", columns, key, TableOptions::new(general));
        world.with(|db, cx| db.create_table(cx, &create).map(|_| ()));
        world
    }

    /// Runs a definition statement. Returns its error number.
    fn run(
        &self,
        f: impl FnOnce(&Arc<Db>, &DdlCx<'_>) -> porpoise_rows::Result<()>,
    ) -> Result<(), u16> {
        self.db.define(|cx| f(&self.db, cx)).map_err(|e| e.code())
    }

    fn with(&mut self, f: impl FnOnce(&Arc<Db>, &DdlCx<'_>) -> porpoise_rows::Result<()>) {
        self.run(f).unwrap();
    }

    fn table(&self) -> Arc<Table> {
        self.db.catalog().table("d", &self.table).unwrap().clone()
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn value(&mut self, ty: Type, nullable: bool) -> Value {
        if nullable && self.rng.u8(0..5) == 0 {
            return Value::Null;
        }
        let v = match self.rng.u8(0..6) {
            0 => self.rng.i64(-300..300),
            1 => self.rng.i64(-3_000_000_000..3_000_000_000),
            _ => self.rng.i64(0..40),
        };
        let letters = matches!(ty, Type::Text(n) if n > 2) && self.rng.u8(0..6) == 0;
        if letters {
            return Value::Bytes(b"xyz".to_vec());
        }
        let fits = convert(&Value::Int(v), ty);
        fits.unwrap_or_else(|| convert(&Value::Int(7), ty).unwrap())
    }

    fn some_type(&mut self) -> Type {
        match self.rng.u8(0..5) {
            0 => Type::Tiny,
            1 => Type::Int,
            2 => Type::Big,
            3 => Type::Text(3),
            _ => Type::Text(20),
        }
    }

    fn position(&mut self, except: &str, n: &Naive) -> Position {
        let others: Vec<&Col> = n.columns.iter().filter(|c| c.name != except).collect();
        match self.rng.u8(0..4) {
            0 => Position::First,
            1 if !others.is_empty() => {
                Position::After(others[self.rng.usize(0..others.len())].name.clone())
            }
            _ => Position::Default,
        }
    }

    /// One clause, and the naive table after it; `None` if the clause must be refused.
    fn clause(&mut self, mut n: Naive) -> (AlterOp, Option<Naive>) {
        let others: Vec<String> = n
            .columns
            .iter()
            .filter(|c| c.name != "id")
            .map(|c| c.name.clone())
            .collect();
        let pick = others.get(self.rng.usize(0..others.len().max(1))).cloned();
        match (self.rng.u8(0..14), pick) {
            (0, Some(name)) => {
                let at = n.at(&name);
                n.columns.remove(at);
                for row in &mut n.rows {
                    row.remove(at);
                }
                for (_, columns) in &mut n.uniques {
                    columns.retain(|c| *c != name);
                }
                n.uniques.retain(|(_, columns)| !columns.is_empty());
                n.plain.retain(|(_, c)| *c != name);
                (AlterOp::DropColumn(name), Some(n))
            }
            (1, Some(name)) => {
                let new = self.name("r");
                let at = n.at(&name);
                n.columns[at].name.clone_from(&new);
                for (_, columns) in &mut n.uniques {
                    for c in columns.iter_mut().filter(|c| **c == name) {
                        c.clone_from(&new);
                    }
                }
                for (_, c) in n.plain.iter_mut().filter(|(_, c)| *c == name) {
                    c.clone_from(&new);
                }
                (AlterOp::RenameColumn(name, new), Some(n))
            }
            (2..=4, Some(name)) => self.change(n, name),
            (5, Some(name)) => {
                let at = n.at(&name);
                let (ty, nullable) = (n.columns[at].ty, n.columns[at].nullable);
                let value = self.value(ty, nullable);
                n.columns[at].default = Some(value.clone());
                let default = match value {
                    Value::Null => ColumnDefault::Null,
                    v => ColumnDefault::Literal(v),
                };
                let op = AlterOp::SetDefault(name, Some(ty.column_type()), Some(default));
                (op, Some(n))
            }
            (6, Some(name)) => {
                let key = self.name("u");
                let columns = if self.rng.bool() {
                    vec![name]
                } else {
                    vec![name, "id".to_owned()]
                };
                let op = AlterOp::AddIndex(index(IndexKind::Unique, &key, &columns));
                n.uniques.push((key, columns));
                (op, Some(n))
            }
            (7, Some(name)) => {
                let key = self.name("k");
                let op =
                    AlterOp::AddIndex(index(IndexKind::Plain, &key, std::slice::from_ref(&name)));
                n.plain.push((key, name));
                (op, Some(n))
            }
            (8, _) if !n.uniques.is_empty() => {
                let (key, _) = n.uniques.remove(self.rng.usize(0..n.uniques.len()));
                (AlterOp::DropIndex(key), Some(n))
            }
            (9, _) => {
                let op = if n.primary {
                    AlterOp::DropPrimaryKey
                } else {
                    AlterOp::AddIndex(index(IndexKind::Primary, "", &["id".to_owned()]))
                };
                n.primary = !n.primary;
                (op, Some(n))
            }
            (10, _) => (AlterOp::Force, Some(n)),
            _ => self.add(n),
        }
    }

    fn add(&mut self, mut n: Naive) -> (AlterOp, Option<Naive>) {
        let ty = self.some_type();
        let nullable = self.rng.bool();
        let default = match self.rng.u8(0..3) {
            0 => None,
            _ => Some(self.value(ty, nullable)),
        };
        let column = Col {
            name: self.name("c"),
            ty,
            nullable,
            default: default.clone(),
        };
        let fill = match (default, nullable, ty) {
            (Some(v), ..) => v,
            (None, true, _) => Value::Null,
            (None, false, Type::Text(_)) => Value::Bytes(Vec::new()),
            (None, false, _) => Value::Int(0),
        };
        let to = self.position(&column.name, &n);
        let op = AlterOp::AddColumn(spec(&column), to.clone());
        n.columns.push(column);
        for row in &mut n.rows {
            row.push(fill.clone());
        }
        n.moved(n.columns.len() - 1, &to);
        (op, Some(n))
    }

    fn change(&mut self, mut n: Naive, name: String) -> (AlterOp, Option<Naive>) {
        let at = n.at(&name);
        let ty = if self.rng.bool() {
            self.some_type()
        } else {
            n.columns[at].ty
        };
        let column = Col {
            name: name.clone(),
            ty,
            nullable: self.rng.u8(0..3) > 0,
            default: None,
        };
        let to = self.position(&name, &n);
        let op = AlterOp::ChangeColumn(name, spec(&column), to.clone());
        for row in &mut n.rows {
            match convert(&row[at], ty) {
                Some(v) => row[at] = v,
                None => return (op, None),
            }
        }
        n.columns[at] = column;
        n.moved(at, &to);
        (op, Some(n))
    }

    fn alter(&mut self) {
        // A change and an index of one column in one statement do not commute
        // here: two clauses only where the second adds a column.
        let (op, after) = self.clause(self.naive.clone());
        let mut ops = vec![op];
        let mut after = after;
        if self.rng.u8(0..3) == 0
            && let Some(n) = after.take()
        {
            let (op, both) = self.add(n);
            if let AlterOp::AddColumn(_, to) = &op
                && matches!(to, Position::Default)
            {
                ops.push(op);
                after = both;
            } else {
                // The clause is dropped, and the naive table restored.
                self.log.push("skip".into());
                return;
            }
        }
        self.log.push(format!("{ops:?}"));
        let (table, asked) = (self.table.clone(), ops.clone());
        let done = self.run(|db, cx| db.alter_table(cx, "d", &table, &asked).map(|_| ()));
        match after.filter(Naive::is_consistent) {
            Some(n) => {
                assert_eq!(done, Ok(()), "{:#?}", self.log);
                self.naive = n;
            }
            None => assert!(done.is_err(), "{:#?}", self.log),
        }
    }

    fn dml(&mut self) {
        let table = self.table();
        let mut n = self.naive.clone();
        let columns = n.columns.clone();
        let mut row: Vec<Value> = Vec::new();
        for c in &columns {
            let value = match c.name.as_str() {
                "id" => Value::Int(self.rng.i64(0..60)),
                _ => self.value(c.ty, c.nullable),
            };
            row.push(value);
        }
        let mut txn = self.db.begin(BeginOptions::default()).unwrap();
        let target = match n.rows.len() {
            0 => None,
            len if n.primary && self.rng.bool() => Some(self.rng.usize(0..len)),
            _ => None,
        };
        let done = match target {
            None => {
                n.rows.push(row.clone());
                txn.insert(&table, vec![row], InsertMode::Plain).map(|_| ())
            }
            Some(at) => {
                let key = table.primary_key(&n.rows[at]);
                let mut old = None;
                let (mode, wait) = (porpoise_kv::LockMode::Exclusive, txn.wait());
                txn.lock(
                    &Lookup::primary(&table, &[key.as_slice()]),
                    mode,
                    wait,
                    &mut |_, found| {
                        old = found.row.map(|r| r.to_buf());
                    },
                )
                .unwrap();
                let old: RowBuf = old.unwrap_or_else(|| panic!("{:#?}", self.log));
                if self.rng.u8(0..3) == 0 {
                    n.rows.remove(at);
                    txn.delete(&table, vec![(key, old)]).map(|_| ())
                } else {
                    n.rows[at].clone_from(&row);
                    let change = RowChange { key, old, new: row };
                    txn.update(&table, vec![change], UpdateMode::Plain)
                        .map(|_| ())
                }
            }
        };
        self.log.push(format!("dml {target:?} {:?}", done.is_ok()));
        if n.is_consistent() {
            assert!(done.is_ok(), "{done:?} {:#?}", self.log);
            txn.commit().unwrap();
            self.naive = n;
        } else {
            assert!(done.is_err(), "{:#?}", self.log);
            txn.rollback();
        }
    }

    fn compare(&self) {
        let table = self.table();
        let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        let wanted: Vec<&str> = self.naive.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, wanted, "{:#?}", self.log);
        let mut txn = self.db.begin(BeginOptions::default()).unwrap();
        let sorted = |rows: &[Vec<Value>]| {
            let mut text: Vec<String> = rows.iter().map(|r| format!("{r:?}")).collect();
            text.sort();
            text
        };
        let found = crate::common::all_in(&mut txn, &table);
        txn.rollback();
        assert_eq!(sorted(&found), sorted(&self.naive.rows), "{:#?}", self.log);
        let checked = self.run(|db, cx| {
            let (rows, problems) = db.check_table(cx, &table)?;
            assert_eq!(problems, Vec::new(), "{:#?}", self.log);
            assert_eq!(rows, self.naive.rows.len() as u64);
            Ok(())
        });
        assert_eq!(checked, Ok(()));
    }

    fn step(&mut self) {
        match self.rng.u8(0..20) {
            0 => {
                self.log.push("restart".into());
                self.db = open(&self.model);
            }
            1 => {
                let new = self.name("t");
                let pair = (
                    ("d".to_owned(), self.table.clone()),
                    ("d".to_owned(), new.clone()),
                );
                self.run(|db, cx| db.rename_tables(cx, &[pair]).map(|_| ()))
                    .unwrap();
                self.table = new;
            }
            2..=9 => self.alter(),
            _ => self.dml(),
        }
        self.compare();
    }
}

#[test]
fn random_alterations_agree_with_a_naive_table() {
    let seeds = std::env::var("PORPOISE_SEEDS").map_or(60, |n| n.parse().unwrap());
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.step();
        }
        let spaces = world.db.engine().spaces().unwrap().len();
        let named: usize = world.table().indexes.iter().map(|i| i.spaces.len()).sum();
        assert!(
            spaces <= named + world.table().overflow_spaces.len() + 1,
            "spaces are left over"
        );
    }
}

#[test]
fn many_changes_of_columns_copy_the_rows_after_max_layouts() {
    let mut world = World::new(1);
    let row = vec![Value::Int(1)];
    let table = world.table();
    let mut txn = world.db.begin(BeginOptions::default()).unwrap();
    txn.insert(&table, vec![row.clone()], InsertMode::Plain)
        .unwrap();
    txn.commit().unwrap();
    world.naive.rows.push(row);
    for _ in 0..100 {
        let (op, after) = world.add(world.naive.clone());
        world.with(|db, cx| db.alter_table(cx, "d", "t", &[op]).map(|_| ()));
        world.naive = after.unwrap();
        world.compare();
        assert!(world.table().layouts.len() <= porpoise_rows::ddl::MAX_LAYOUTS);
    }
    assert!(world.table().version > 100);
}
