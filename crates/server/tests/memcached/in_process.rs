//! The memcached protocol over an engine in this process, so that a test can also
//! read and change the rows and the configuration directly.

use porpoise_access::{AccessControl, AuthId, Rights};
use porpoise_base::clock;
use porpoise_kv::{Durability, Engine, Read};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use porpoise_memcached::container::convert::Conversion;
use porpoise_memcached::{Authentication, Cache, ListenerSettings, Memcached};
use porpoise_rows::catalog::{ColumnDefault, FkAction, Table, TableOptions};
use porpoise_rows::ddl::{ColumnSpec, FkSpec, IndexSpec, TableSpec};
use porpoise_rows::{BeginOptions, Db, DbOptions, InsertMode, Lookup};
use porpoise_server::memcached::{MemcachedProtocol, TlsSettings, traffic};
use porpoise_server::net::{BoundSocket, DurabilityWatermark, Listening, Net, NetConfig};
use porpoise_testkit::exchange;
use porpoise_types::{Collation, ColumnType, Value, ValueRef, write_text};
use std::net::SocketAddr;
use std::sync::Arc;

pub struct InProcess {
    pub db: Arc<Db>,
    pub listener: Arc<Memcached>,
    pub address: SocketAddr,
    /// Rights of root.
    rights: Arc<Rights>,
    _dir: tempfile::TempDir,
    _net: Net,
}

/// A column that may be NULL.
pub fn column(name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        nullable: Some(true),
        ..ColumnSpec::new(name, ty)
    }
}

/// A NOT NULL column.
pub fn required(name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec::new(name, ty).not_null()
}

/// With a default of 0.
pub fn zero(mut spec: ColumnSpec) -> ColumnSpec {
    spec.default = Some(ColumnDefault::Literal(Value::Int(0)));
    spec
}

pub fn varchar(n: u32) -> ColumnType {
    ColumnType::varchar(n, Collation::UTF8MB4_GENERAL_CI)
}

impl InProcess {
    /// Starts with `sync` durability, in the default server role.
    pub fn open() -> InProcess {
        let dir = tempfile::tempdir().unwrap();
        let engine = KvMem::open(KvMemOptions {
            dir: Some(dir.path().to_owned()),
            durability: Durability::Sync,
            ..KvMemOptions::default()
        })
        .unwrap();
        let engine: Arc<dyn Engine> = engine;
        let db = Db::open(engine.clone(), clock::system(), DbOptions::default()).unwrap();
        let cache = Cache::new(64 << 20, 1 << 20, db.clock().as_ref());
        let cache = Arc::new(cache);
        let access = AccessControl::open(db.clone(), None).unwrap();
        let rights = access.rights("root@localhost");
        let root = Some(AuthId::new("root", "localhost"));
        let authentication = Arc::new(Authentication::new(access, root));
        let settings = ListenerSettings {
            role: "default_role".to_owned(),
            max_value: 1 << 20,
            fires_triggers: true,
            cache,
            authentication,
            traffic,
        };
        let listener = Arc::new(Memcached::open(db.clone(), settings).unwrap());
        let protocol = MemcachedProtocol::new(listener.clone(), TlsSettings::default());
        let marks = DurabilityWatermark::new(engine.durable_position());
        engine.subscribe(marks.clone());
        let mut net = Net::start(NetConfig::default(), marks).unwrap();
        let bound = BoundSocket::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let Listening::Tcp(address) = *bound.at() else {
            unreachable!()
        };
        net.serve(vec![bound.serving(Arc::new(protocol))]).unwrap();
        InProcess {
            db,
            listener,
            address,
            rights,
            _dir: dir,
            _net: net,
        }
    }

    /// Sends text and reads all answers.
    pub fn ask(&self, request: &str) -> String {
        let answer = exchange(self.address, request.as_bytes());
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn create(&self, name: &str, columns: Vec<ColumnSpec>, key: &[&str], fks: Vec<FkSpec>) {
        let collation = Collation::UTF8MB4_GENERAL_CI;
        let primary = vec![IndexSpec::primary(key)];
        let options = TableOptions::new(collation);
        let spec = TableSpec {
            foreign_keys: fks,
            ..TableSpec::new("test", name, columns, primary, options)
        };
        self.db.define(|cx| {
            self.db
                .create_database(cx, "test", collation, true)
                .unwrap();
            self.db.create_table(cx, &spec).unwrap();
        });
    }

    pub fn drop_table(&self, name: &str) {
        let names = [("test".to_owned(), name.to_owned())];
        let dropped = self.db.define(|cx| self.db.drop_tables(cx, &names, false));
        dropped.unwrap();
    }

    pub fn table(&self, database: &str, name: &str) -> Arc<Table> {
        self.db.catalog().table(database, name).unwrap().clone()
    }

    /// Writes a row of a table: columns and texts; others get their defaults.
    pub fn put(&self, database: &str, name: &str, texts: &[(&str, &str)]) {
        let table = self.table(database, name);
        let clock = clock::system();
        let mut convert = Conversion::new(clock.as_ref());
        let mut row = convert.defaults(&table);
        for (column, text) in texts {
            let position = table.column(column).unwrap();
            let value = ValueRef::Bytes(text.as_bytes());
            row[position] = convert.store(&table, position, value).unwrap();
        }
        let mut txn = self.db.begin(BeginOptions::default()).unwrap();
        txn.insert(&table, vec![row], InsertMode::Replace).unwrap();
        let commit = txn.commit().unwrap();
        self.db.engine().wait_durable(commit.position).unwrap();
    }

    /// A container over a table of `test`, and a prefix of the default role.
    pub fn map(&self, prefix: &str, table: &str, more: &[(&str, &str)]) {
        let mut row = vec![("name", table), ("db_schema", "test"), ("db_table", table)];
        row.extend_from_slice(more);
        self.put("ndbmemcache", "containers", &row);
        self.prefix(prefix, "ndb-only", table);
    }

    pub fn prefix(&self, prefix: &str, policy: &str, container: &str) {
        let row = [
            ("server_role_id", "0"),
            ("key_prefix", prefix),
            ("policy", policy),
            ("container", container),
        ];
        self.put("ndbmemcache", "key_prefixes", &row);
    }

    /// The texts of a row that a primary key names.
    pub fn row(&self, database: &str, name: &str, key: &[Value]) -> Option<Vec<String>> {
        let table = self.table(database, name);
        let key: Vec<ValueRef<'_>> = key.iter().map(Value::as_ref).collect();
        let primary = table.key_prefix(0, &key);
        let mut txn = self.db.begin(BeginOptions::default()).unwrap();
        let mut found = None;
        txn.look_up(
            &Lookup::primary(&table, &[&primary]),
            Read::SNAPSHOT,
            &mut |_, row| {
                let row = row.map(|found| found.row);
                found = row.map(|row| {
                    let text = |n: usize| {
                        let mut out = Vec::new();
                        write_text(row.get(n), &table.columns[n].ty, &mut out);
                        if row.get(n).is_null() {
                            return "NULL".to_owned();
                        }
                        String::from_utf8(out).unwrap()
                    };
                    (0..table.columns.len()).map(text).collect()
                });
            },
        )
        .unwrap();
        found
    }

    /// Status and reason of a prefix of the default role.
    pub fn status(&self, prefix: &str) -> (String, String) {
        let text = |v: &Value| match v {
            Value::Bytes(b) => String::from_utf8(b.clone()).unwrap(),
            _ => String::new(),
        };
        self.listener
            .status_rows(&self.rights)
            .iter()
            .find(|r| r[0] == Value::Int(0) && text(&r[1]) == prefix)
            .map(|r| (text(&r[4]), text(&r[5])))
            .unwrap()
    }
}

/// A reference to `parent(id)`.
pub fn reference(column: &str, on_delete: FkAction) -> FkSpec {
    FkSpec {
        name: Some("fk_parent".to_owned()),
        on_delete,
        ..FkSpec::new(&[column], "parent", &["id"])
    }
}
