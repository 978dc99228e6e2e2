//! Statement kinds, each with example statements and the sets of privileges that suffice.
//!
//! Test matrices are generated from this table: every example must fail without grants, succeed
//! with each sufficient set, and fail again if one privilege of the set is removed. The matches in
//! [`kind_of`] and [`examples`] are exhaustive, so a new statement does not compile without an
//! example.
//!
//! The examples refer to these objects of the test database, owned by `root@localhost`:
//! `shop.goods (id PRIMARY KEY, n)`, `shop.orders (id PRIMARY KEY)`, a view of `goods`
//! `shop.v` (SQL SECURITY DEFINER) and `shop.vi` (INVOKER), a procedure `shop.p`, an event `shop.held`, and an account `bob`.

use porpoise_sql_parser::ast::Statement;

/// An example statement.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The statement.
    pub sql: &'static str,
    /// Sufficient sets of grants, each `PRIVILEGE ON object`; an empty set if none is needed.
    pub sufficient: &'static [&'static [&'static str]],
}

const fn example(sql: &'static str, sufficient: &'static [&'static [&'static str]]) -> Example {
    Example { sql, sufficient }
}

/// For statements that change the second password of the session's own account.
const SECOND_PASSWORD: &[&[&str]] = &[
    &["CREATE USER ON *.*"],
    &["APPLICATION_PASSWORD_ADMIN ON *.*"],
    &["SUPER ON *.*"],
];

/// For statements that need no privilege.
const FREE: &[&[&str]] = &[&[]];

macro_rules! kinds {
    ($($name:ident($pattern:pat) => $examples:expr,)+) => {
        /// The kind of a statement: one for each variant of [`Statement`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StatementKind {
            $(
                /// Statements of that name.
                $name,
            )+
        }

        impl StatementKind {
            /// All kinds.
            pub const ALL: &[StatementKind] = &[$(StatementKind::$name),+];
        }

        /// The kind of a statement.
        pub fn kind_of(statement: &Statement<'_>) -> StatementKind {
            match statement {
                $($pattern => StatementKind::$name,)+
            }
        }

        /// Examples of a kind.
        pub fn examples(kind: StatementKind) -> &'static [Example] {
            match kind {
                $(StatementKind::$name => {
                    const EXAMPLES: &[Example] = $examples;
                    EXAMPLES
                })+
            }
        }
    };
}

kinds! {
    Query(Statement::Query(_)) => QUERY,
    Insert(Statement::Insert(_)) => INSERT,
    Update(Statement::Update(_)) => UPDATE,
    Delete(Statement::Delete(_)) => DELETE,
    LoadData(Statement::LoadData(_)) => &[
        example("LOAD DATA INFILE '/x' INTO TABLE shop.goods", &[&["INSERT ON shop.goods", "FILE ON *.*"]]),
        example("LOAD DATA LOCAL INFILE '/x' INTO TABLE shop.goods", &[&["INSERT ON shop.goods"]]),
    ],
    Handler(Statement::Handler(_)) => &[
        example("HANDLER shop.goods OPEN", &[&["SELECT ON shop.goods"]]),
    ],
    Do(Statement::Do(_)) => &[
        example("DO 1 + 1", FREE),
        example("DO (SELECT MAX(n) FROM shop.goods)", &[&["SELECT ON shop.goods"]]),
        example("DO (SELECT MAX(n) FROM shop.v)", &[&["SELECT ON shop.v"]]),
    ],
    Call(Statement::Call(_)) => &[
        example("CALL shop.p()", &[&["EXECUTE ON shop.*"], &["EXECUTE ON PROCEDURE shop.p"]]),
    ],
    CreateDatabase(Statement::CreateDatabase(_)) => &[
        example("CREATE DATABASE other", &[&["CREATE ON other.*"], &["CREATE ON *.*"]]),
    ],
    AlterDatabase(Statement::AlterDatabase(_)) => &[
        example("ALTER DATABASE shop CHARACTER SET utf8mb4", &[&["ALTER ON shop.*"]]),
    ],
    DropDatabase(Statement::DropDatabase { .. }) => &[
        example("DROP DATABASE shop", &[&["DROP ON shop.*"], &["DROP ON *.*"]]),
    ],
    CreateTable(Statement::CreateTable(_)) => CREATE_TABLE,
    AlterTable(Statement::AlterTable(_)) => ALTER_TABLE,
    DropTable(Statement::DropTable(_)) => &[
        example("DROP TABLE shop.goods", &[&["DROP ON shop.goods"], &["DROP ON shop.*"]]),
        example("DROP TABLE shop.goods, shop.orders", &[&["DROP ON shop.goods", "DROP ON shop.orders"]]),
    ],
    RenameTable(Statement::RenameTable(_)) => &[
        example(
            "RENAME TABLE shop.orders TO shop.sold",
            &[&["ALTER ON shop.orders", "DROP ON shop.orders", "CREATE ON shop.sold", "INSERT ON shop.*"]],
        ),
    ],
    Truncate(Statement::Truncate(_)) => &[
        example("TRUNCATE shop.goods", &[&["DROP ON shop.goods"]]),
    ],
    CreateIndex(Statement::CreateIndex(_)) => &[
        example("CREATE INDEX i ON shop.goods (n)", &[&["INDEX ON shop.goods"]]),
    ],
    DropIndex(Statement::DropIndex(_)) => &[
        example("DROP INDEX by_n ON shop.goods", &[&["INDEX ON shop.goods"]]),
    ],
    CreateView(Statement::CreateView(_)) => CREATE_VIEW,
    DropView(Statement::DropView(_)) => &[example("DROP VIEW shop.v", &[&["DROP ON shop.v"]])],
    Event(Statement::Event(_)) => &[
        example("CREATE EVENT shop.e ON SCHEDULE EVERY 1 DAY DO SELECT 1", &[&["EVENT ON shop.*"]]),
        example("ALTER EVENT shop.held DISABLE", &[&["EVENT ON shop.*"]]),
    ],
    CreateRoutine(Statement::CreateRoutine(_)) => &[
        example("CREATE PROCEDURE shop.q() SELECT 1", &[&["CREATE ROUTINE ON shop.*"]]),
    ],
    CreateTrigger(Statement::CreateTrigger(_)) => &[
        example("CREATE TRIGGER shop.t BEFORE INSERT ON shop.goods FOR EACH ROW SET NEW.n = 1", &[&["TRIGGER ON shop.goods"]]),
    ],
    AlterRoutine(Statement::AlterRoutine(_)) => &[
        example(
            "ALTER PROCEDURE shop.p COMMENT 'x'",
            &[&["ALTER ROUTINE ON shop.*"], &["ALTER ROUTINE ON PROCEDURE shop.p"]],
        ),
    ],
    Signal(Statement::Signal(_)) => &[example("SIGNAL SQLSTATE '01000'", FREE)],
    GetDiagnostics(Statement::GetDiagnostics(_)) => &[
        example("GET DIAGNOSTICS @n = NUMBER", FREE),
    ],
    DropProgram(Statement::DropProgram { .. }) => &[
        example(
            "DROP PROCEDURE shop.p",
            &[&["ALTER ROUTINE ON shop.*"], &["ALTER ROUTINE ON PROCEDURE shop.p"]],
        ),
        example("DROP FUNCTION shop.p", &[&["ALTER ROUTINE ON shop.*"]]),
    ],
    Begin(Statement::Begin(_)) => &[example("BEGIN", FREE)],
    Commit(Statement::Commit(_)) => &[example("COMMIT", FREE)],
    Rollback(Statement::Rollback(_)) => &[example("ROLLBACK", FREE)],
    RollbackTo(Statement::RollbackTo(_)) => &[example("ROLLBACK TO s", FREE)],
    Savepoint(Statement::Savepoint(_)) => &[example("SAVEPOINT s", FREE)],
    ReleaseSavepoint(Statement::ReleaseSavepoint(_)) => &[example("RELEASE SAVEPOINT s", FREE)],
    Xa(Statement::Xa(_)) => &[
        example("XA START 'a'", FREE),
        example("XA RECOVER", &[&["SUPER ON *.*"], &["XA_RECOVER_ADMIN ON *.*"]]),
    ],
    LockTables(Statement::LockTables(_)) => &[
        example("LOCK TABLES shop.goods READ", &[
            &["LOCK TABLES ON shop.*", "SELECT ON shop.goods"],
            &["LOCK TABLES ON shop.*", "SELECT (n) ON shop.goods"],
        ]),
    ],
    UnlockTables(Statement::UnlockTables) => &[example("UNLOCK TABLES", FREE)],
    Backup(Statement::Backup(_)) => &[
        example("BACKUP DATABASE TO 'x'", &[&["SUPER ON *.*"], &["BACKUP_ADMIN ON *.*"]]),
    ],
    LockInstance(Statement::LockInstance(_)) => &[
        example("LOCK INSTANCE FOR BACKUP", &[&["SUPER ON *.*"], &["BACKUP_ADMIN ON *.*"]]),
    ],
    Set(Statement::Set(_)) => &[
        example("SET @a = 1", FREE),
        example("SET @a = (SELECT MAX(n) FROM shop.goods)", &[&["SELECT ON shop.goods"]]),
        example("SET sql_mode = ''", FREE),
        example("SET GLOBAL max_connections = 5", &[&["SUPER ON *.*"], &["SYSTEM_VARIABLES_ADMIN ON *.*"]]),
        example("SET GLOBAL partial_revokes = ON", &[&["SUPER ON *.*"], &["SYSTEM_VARIABLES_ADMIN ON *.*"]]),
        example("SET PERSIST max_connections = 5", &[&["SUPER ON *.*"], &["SYSTEM_VARIABLES_ADMIN ON *.*"]]),
    ],
    SetTransaction(Statement::SetTransaction(_)) => &[
        example("SET SESSION TRANSACTION READ WRITE", FREE),
        example("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED", &[&["SUPER ON *.*"], &["SYSTEM_VARIABLES_ADMIN ON *.*"]]),
    ],
    Show(Statement::Show(_)) => SHOW,
    Describe(Statement::Describe { .. }) => &[
        example("DESCRIBE shop.goods", &[&["SELECT ON shop.goods"], &["INSERT ON shop.goods"]]),
    ],
    Explain(Statement::Explain(_)) => &[
        example("EXPLAIN SELECT n FROM shop.goods", &[&["SELECT ON shop.goods"]]),
        example("EXPLAIN DELETE FROM shop.goods", &[&["DELETE ON shop.goods"]]),
        example(
            "EXPLAIN SELECT n FROM shop.v",
            &[&["SELECT ON shop.v", "SHOW VIEW ON shop.v", "SELECT ON shop.goods"]],
        ),
    ],
    Use(Statement::Use(_)) => &[
        example("USE shop", &[&["SELECT ON shop.goods"], &["CREATE ON shop.*"]]),
        example("USE mysql", &[&["SELECT ON mysql.*"]]),
    ],
    Kill(Statement::Kill { .. }) => &[example("KILL QUERY 1", &[&["SUPER ON *.*"], &["CONNECTION_ADMIN ON *.*", "SYSTEM_USER ON *.*"]])],
    User(Statement::User(_)) => &[
        example("CREATE USER eve", &[&["CREATE USER ON *.*"]]),
        example("ALTER USER bob IDENTIFIED BY 'y'", &[&["CREATE USER ON *.*"]]),
        example("ALTER USER ann ACCOUNT UNLOCK", &[&["CREATE USER ON *.*"]]),
        example("ALTER USER CURRENT_USER() IDENTIFIED BY 'y'", FREE),
        example("ALTER USER CURRENT_USER() IDENTIFIED BY 'y' RETAIN CURRENT PASSWORD", SECOND_PASSWORD),
        example("ALTER USER ann DISCARD OLD PASSWORD", SECOND_PASSWORD),
        example("ALTER USER bob DISCARD OLD PASSWORD", &[&["CREATE USER ON *.*"]]),
    ],
    DropUser(Statement::DropUser { .. }) => &[
        example("DROP USER bob", &[&["CREATE USER ON *.*"]]),
        example("DROP USER root@localhost", &[&["CREATE USER ON *.*", "SYSTEM_USER ON *.*"]]),
    ],
    RenameUser(Statement::RenameUser(_)) => &[
        example("RENAME USER bob TO eve", &[&["CREATE USER ON *.*"]]),
    ],
    SetPassword(Statement::SetPassword(_)) => &[
        example("SET PASSWORD = 'y'", FREE),
        example("SET PASSWORD = 'y' RETAIN CURRENT PASSWORD", SECOND_PASSWORD),
        example("SET PASSWORD FOR bob = 'y' RETAIN CURRENT PASSWORD", &[&["CREATE USER ON *.*"]]),
        example("SET PASSWORD FOR bob = 'y'", &[&["CREATE USER ON *.*"]]),
    ],
    Grant(Statement::Grant(_)) => &[
        example(
            "GRANT SELECT ON shop.goods TO bob",
            &[&["SELECT ON shop.goods", "GRANT OPTION ON shop.goods"], &["SELECT ON shop.*", "GRANT OPTION ON shop.*"]],
        ),
        example(
            "GRANT SELECT (n) ON shop.goods TO bob",
            &[
                &["SELECT (n) ON shop.goods", "GRANT OPTION ON shop.goods"],
                &["SELECT ON shop.goods", "GRANT OPTION ON shop.goods"],
            ],
        ),
        example("GRANT SELECT ON `sho_`.* TO bob", &[&["SELECT ON `sho%`.*", "GRANT OPTION ON `s%`.*"]]),
        example("GRANT SELECT ON mysql.* TO bob", &[&["SELECT ON mysql.*", "GRANT OPTION ON mysql.*"]]),
        example("GRANT BACKUP_ADMIN ON *.* TO bob", &[&["SUPER ON *.*", "GRANT OPTION ON *.*"]]),
        example("REVOKE SELECT ON shop.held FROM bob", &[&["SELECT ON shop.held", "GRANT OPTION ON shop.*"]]),
    ],
    Role(Statement::Role { .. }) => &[
        example("CREATE ROLE r", &[&["CREATE ROLE ON *.*"], &["CREATE USER ON *.*"]]),
        example("DROP ROLE r", &[&["DROP ROLE ON *.*"], &["CREATE USER ON *.*"]]),
    ],
    SetRole(Statement::SetRole(_)) => &[
        example("SET ROLE NONE", FREE),
        example("SET DEFAULT ROLE NONE TO bob", &[&["CREATE USER ON *.*"]]),
    ],
    Prepare(Statement::Prepare { .. }) => &[
        example("PREPARE s FROM 'SELECT n FROM shop.goods'", &[&["SELECT ON shop.goods"]]),
    ],
    Execute(Statement::Execute { .. }) => &[example("EXECUTE s", FREE)],
    Deallocate(Statement::Deallocate(_)) => &[example("DEALLOCATE PREPARE s", FREE)],
    Maintain(Statement::Maintain(_)) => &[
        example("ANALYZE TABLE shop.goods", &[&["SELECT ON shop.goods", "INSERT ON shop.goods"]]),
        example("CHECK TABLE shop.goods", &[&["SELECT ON shop.goods"]]),
        example("CHECKSUM TABLE shop.goods", &[&["SELECT ON shop.goods"]]),
    ],
    Flush(Statement::Flush(_)) => &[
        example("FLUSH PRIVILEGES", &[&["RELOAD ON *.*"]]),
        example("FLUSH STATUS", &[&["RELOAD ON *.*"], &["FLUSH_STATUS ON *.*"], &["SUPER ON *.*"]]),
        example(
            "FLUSH TABLES WITH READ LOCK",
            &[&["RELOAD ON *.*"], &["FLUSH_TABLES ON *.*"], &["SUPER ON *.*"]],
        ),
        example(
            "FLUSH TABLES shop.goods WITH READ LOCK",
            &[&["RELOAD ON *.*", "LOCK TABLES ON shop.*", "SELECT ON shop.goods"]],
        ),
    ],
    Reset(Statement::Reset(_)) => &[
        example("RESET MASTER", &[&["RELOAD ON *.*"]]),
        example("RESET PERSIST", &[&["SUPER ON *.*"], &["SYSTEM_VARIABLES_ADMIN ON *.*"]]),
    ],
    Replica(Statement::Replica(_)) => &[
        example("STOP REPLICA", &[&["SUPER ON *.*"], &["REPLICATION_SLAVE_ADMIN ON *.*"]]),
        example(
            "CHANGE REPLICATION FILTER REPLICATE_DO_DB = ()",
            &[&["SUPER ON *.*"], &["REPLICATION_SLAVE_ADMIN ON *.*"]],
        ),
        example("RESET REPLICA", &[&["RELOAD ON *.*"]]),
    ],
    Purge(Statement::Purge(_)) => &[
        example("PURGE BINARY LOGS TO 'binlog.000001'", &[&["SUPER ON *.*"], &["BINLOG_ADMIN ON *.*"]]),
    ],
    Binlog(Statement::Binlog(_)) => &[example("BINLOG 'AA=='", &[&["SUPER ON *.*"]])],
    ImportTable(Statement::ImportTable(_)) => &[
        example("IMPORT TABLE FROM '/x'", &[&["FILE ON *.*"]]),
    ],
    Help(Statement::Help(_)) => &[example("HELP 'x'", FREE)],
    Shutdown(Statement::Shutdown) => &[example("SHUTDOWN", &[&["SHUTDOWN ON *.*"]])],
    Restart(Statement::Restart) => &[example("RESTART", &[&["SHUTDOWN ON *.*"]])],
    Plugin(Statement::Plugin { .. }) => &[
        example("UNINSTALL PLUGIN x", &[&["SUPER ON *.*"]]),
    ],
}

const QUERY: &[Example] = &[
    example("SELECT 1", FREE),
    example("SELECT 1 INTO OUTFILE '/x'", &[&["FILE ON *.*"]]),
    example(
        "SELECT n FROM shop.goods",
        &[
            &["SELECT ON shop.goods"],
            &["SELECT ON shop.*"],
            &["SELECT ON *.*"],
            &["SELECT (n) ON shop.goods"],
        ],
    ),
    example(
        "SELECT 1 FROM shop.goods WHERE FALSE",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "SELECT 1 FROM shop.goods LIMIT 0",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "SELECT COUNT(*) FROM shop.goods",
        &[&["SELECT ON shop.goods"], &["SELECT (id) ON shop.goods"]],
    ),
    example(
        "SELECT * FROM shop.goods",
        &[&["SELECT ON shop.goods"], &["SELECT (id, n) ON shop.goods"]],
    ),
    example(
        "SELECT (SELECT MAX(n) FROM shop.goods)",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "SELECT 1 ORDER BY (SELECT MAX(n) FROM shop.goods)",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "SELECT 1 FROM shop.orders WHERE EXISTS (SELECT 1 FROM shop.goods)",
        &[&["SELECT ON shop.goods", "SELECT ON shop.orders"]],
    ),
    example(
        "SELECT COUNT(*) FROM shop.orders GROUP BY id HAVING MAX(id) > (SELECT MAX(n) FROM shop.goods)",
        &[&["SELECT ON shop.goods", "SELECT ON shop.orders"]],
    ),
    example(
        "SELECT o.id FROM shop.orders o LEFT JOIN shop.goods g ON g.id = o.id",
        &[
            &["SELECT ON shop.goods", "SELECT ON shop.orders"],
            &["SELECT (id) ON shop.goods", "SELECT (id) ON shop.orders"],
        ],
    ),
    example(
        "SELECT 1 UNION SELECT n FROM shop.goods",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "SELECT * FROM (SELECT n FROM shop.goods) d",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "WITH c AS (SELECT n FROM shop.goods) SELECT * FROM c",
        &[&["SELECT ON shop.goods"]],
    ),
    example("TABLE shop.goods", &[&["SELECT ON shop.goods"]]),
    example(
        "SELECT n FROM shop.goods LIMIT 1 INTO @x",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "SELECT n FROM shop.v",
        &[
            &["SELECT ON shop.v"],
            &["SELECT ON shop.*"],
            &["SELECT (n) ON shop.v"],
        ],
    ),
    example(
        "SELECT n FROM shop.vi",
        &[
            &["SELECT ON shop.vi", "SELECT ON shop.goods"],
            &["SELECT (n) ON shop.vi", "SELECT (n) ON shop.goods"],
        ],
    ),
    example(
        "SELECT n FROM shop.goods FOR UPDATE",
        &[
            &["SELECT ON shop.goods", "UPDATE ON shop.goods"],
            &["SELECT ON shop.goods", "DELETE ON shop.goods"],
            &["SELECT ON shop.goods", "LOCK TABLES ON shop.*"],
            &["SELECT (n) ON shop.goods", "UPDATE (n) ON shop.goods"],
        ],
    ),
    example(
        "SELECT n FROM shop.goods FOR SHARE",
        &[&["SELECT ON shop.goods"]],
    ),
    example(
        "SELECT * FROM mysql.user",
        &[&["SELECT ON mysql.user"], &["SELECT ON mysql.*"]],
    ),
];

const INSERT: &[Example] = &[
    example(
        "INSERT INTO shop.goods VALUES (2, 2)",
        &[&["INSERT ON shop.goods"], &["INSERT (id, n) ON shop.goods"]],
    ),
    example(
        "INSERT INTO shop.goods (id) VALUES (7)",
        &[&["INSERT ON shop.goods"], &["INSERT (id) ON shop.goods"]],
    ),
    example(
        "INSERT INTO shop.goods SET id = 8",
        &[&["INSERT ON shop.goods"], &["INSERT (id) ON shop.goods"]],
    ),
    example(
        "INSERT INTO shop.goods VALUES (3, (SELECT MAX(id) FROM shop.orders))",
        &[&["INSERT ON shop.goods", "SELECT ON shop.orders"]],
    ),
    example(
        "INSERT INTO shop.orders SELECT id + 100 FROM shop.goods",
        &[&["INSERT ON shop.orders", "SELECT ON shop.goods"]],
    ),
    example(
        "REPLACE INTO shop.goods VALUES (1, 2)",
        &[&["INSERT ON shop.goods", "DELETE ON shop.goods"]],
    ),
    example(
        "INSERT INTO shop.goods VALUES (1, 2) ON DUPLICATE KEY UPDATE n = 3",
        &[
            &["INSERT ON shop.goods", "UPDATE ON shop.goods"],
            &["INSERT ON shop.goods", "UPDATE (n) ON shop.goods"],
        ],
    ),
    example(
        "INSERT INTO shop.goods (id) VALUES (1) ON DUPLICATE KEY UPDATE n = VALUES(n)",
        &[&[
            "INSERT (id) ON shop.goods",
            "UPDATE (n) ON shop.goods",
            "SELECT (n) ON shop.goods",
        ]],
    ),
    example(
        "INSERT INTO shop.goods (id) VALUES (1) AS new ON DUPLICATE KEY UPDATE n = new.n",
        &[&["INSERT (id) ON shop.goods", "UPDATE (n) ON shop.goods"]],
    ),
    example(
        "INSERT INTO shop.goods VALUES (1, 2) ON DUPLICATE KEY UPDATE n = n + 1",
        &[&[
            "INSERT ON shop.goods",
            "UPDATE ON shop.goods",
            "SELECT ON shop.goods",
        ]],
    ),
    example(
        "INSERT INTO shop.v VALUES (4, 4)",
        &[&["INSERT ON shop.v"], &["INSERT (id, n) ON shop.v"]],
    ),
    example(
        "INSERT INTO shop.vi VALUES (5, 5)",
        &[
            &["INSERT ON shop.vi", "INSERT ON shop.goods"],
            &["INSERT ON shop.vi", "INSERT (id, n) ON shop.goods"],
        ],
    ),
];

const UPDATE: &[Example] = &[
    example(
        "UPDATE shop.goods SET n = 1",
        &[&["UPDATE ON shop.goods"], &["UPDATE (n) ON shop.goods"]],
    ),
    example(
        "UPDATE shop.goods SET n = id",
        &[
            &["UPDATE ON shop.goods", "SELECT ON shop.goods"],
            &["UPDATE (n) ON shop.goods", "SELECT (id) ON shop.goods"],
        ],
    ),
    example(
        "UPDATE shop.goods SET n = 1 WHERE id = 1",
        &[&["UPDATE ON shop.goods", "SELECT ON shop.goods"]],
    ),
    example(
        "UPDATE shop.goods SET n = (SELECT MAX(id) FROM shop.orders)",
        &[&["UPDATE ON shop.goods", "SELECT ON shop.orders"]],
    ),
    example(
        "UPDATE shop.goods g JOIN shop.orders o ON g.id = o.id SET g.n = 1",
        &[&[
            "UPDATE ON shop.goods",
            "SELECT ON shop.goods",
            "SELECT ON shop.orders",
        ]],
    ),
    example(
        "UPDATE shop.goods g JOIN shop.orders o ON g.id = o.id SET g.n = 1",
        &[&[
            "UPDATE (n) ON shop.goods",
            "SELECT (id) ON shop.goods",
            "SELECT (id) ON shop.orders",
        ]],
    ),
    example(
        "UPDATE shop.v SET n = 1",
        &[&["UPDATE ON shop.v"], &["UPDATE (n) ON shop.v"]],
    ),
    example(
        "UPDATE shop.v SET n = id",
        &[&["UPDATE ON shop.v", "SELECT (id) ON shop.v"]],
    ),
];

const DELETE: &[Example] = &[
    example("DELETE FROM shop.goods", &[&["DELETE ON shop.goods"]]),
    example(
        "DELETE FROM shop.goods WHERE id = 1",
        &[
            &["DELETE ON shop.goods", "SELECT ON shop.goods"],
            &["DELETE ON shop.goods", "SELECT (id) ON shop.goods"],
        ],
    ),
    example(
        "DELETE g FROM shop.goods g JOIN shop.orders o ON g.id = o.id",
        &[&[
            "DELETE ON shop.goods",
            "SELECT ON shop.goods",
            "SELECT ON shop.orders",
        ]],
    ),
];

const CREATE_TABLE: &[Example] = &[
    example(
        "CREATE TABLE shop.more (id INT)",
        &[&["CREATE ON shop.more"], &["CREATE ON shop.*"]],
    ),
    example(
        "CREATE TEMPORARY TABLE shop.more (id INT)",
        &[&["CREATE TEMPORARY TABLES ON shop.*"]],
    ),
    example(
        "CREATE TABLE shop.more LIKE shop.goods",
        &[&["CREATE ON shop.more", "SELECT ON shop.goods"]],
    ),
    example(
        "CREATE TABLE shop.more AS SELECT n FROM shop.goods",
        &[&[
            "CREATE ON shop.more",
            "INSERT ON shop.*",
            "SELECT ON shop.goods",
        ]],
    ),
    example(
        "CREATE TABLE shop.kid (g INT, FOREIGN KEY (g) REFERENCES goods (id))",
        &[
            &["CREATE ON shop.kid", "REFERENCES ON shop.goods"],
            &["CREATE ON shop.kid", "REFERENCES ON shop.*"],
            &["CREATE ON shop.kid", "REFERENCES (id) ON shop.goods"],
        ],
    ),
    example(
        "CREATE TABLE shop.tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id))",
        &[&["CREATE ON shop.tree"]],
    ),
];

const ALTER_TABLE: &[Example] = &[
    example(
        "ALTER TABLE shop.goods COMMENT 'x'",
        &[&["ALTER ON shop.goods"]],
    ),
    example(
        "ALTER TABLE shop.orders ADD FOREIGN KEY (id) REFERENCES shop.goods (id)",
        &[
            &["ALTER ON shop.orders", "REFERENCES ON shop.goods"],
            &["ALTER ON shop.orders", "REFERENCES (id) ON shop.goods"],
        ],
    ),
    example(
        "ALTER TABLE shop.orders RENAME TO shop.sold",
        &[&[
            "ALTER ON shop.orders",
            "DROP ON shop.orders",
            "CREATE ON shop.sold",
            "INSERT ON shop.*",
        ]],
    ),
];

const CREATE_VIEW: &[Example] = &[
    example(
        "CREATE VIEW shop.w AS SELECT n FROM shop.goods",
        &[
            &["CREATE VIEW ON shop.*", "SELECT ON shop.goods"],
            &["CREATE VIEW ON shop.*", "SELECT (n) ON shop.goods"],
        ],
    ),
    example(
        "CREATE VIEW shop.w AS SELECT (SELECT MAX(n) FROM shop.goods) AS n",
        &[&["CREATE VIEW ON shop.*", "SELECT ON shop.goods"]],
    ),
    example(
        "CREATE VIEW shop.w AS SELECT n FROM shop.v",
        &[&["CREATE VIEW ON shop.*", "SELECT ON shop.v"]],
    ),
    example(
        "CREATE OR REPLACE VIEW shop.v AS SELECT 1 AS n",
        &[&["CREATE VIEW ON shop.v", "DROP ON shop.v"]],
    ),
    example(
        "CREATE DEFINER = bob VIEW shop.w AS SELECT 1 AS n",
        &[&["CREATE VIEW ON shop.*", "SUPER ON *.*"]],
    ),
];

const SHOW: &[Example] = &[
    example("SHOW DATABASES", FREE),
    example(
        "SHOW TABLES FROM shop",
        &[&["SELECT ON shop.goods"], &["CREATE ON shop.*"]],
    ),
    example("SHOW TABLE STATUS FROM shop", &[&["SELECT ON shop.goods"]]),
    example("SHOW OPEN TABLES FROM shop", &[&["SELECT ON shop.goods"]]),
    example("SHOW TRIGGERS FROM shop", &[&["SELECT ON shop.goods"]]),
    example("SHOW EVENTS FROM shop", &[&["EVENT ON shop.*"]]),
    example(
        "SHOW COLUMNS FROM shop.goods",
        &[
            &["SELECT ON shop.goods"],
            &["INSERT ON shop.goods"],
            &["REFERENCES (n) ON shop.goods"],
        ],
    ),
    example(
        "SHOW INDEX FROM shop.goods",
        &[&["SELECT ON shop.goods"], &["UPDATE (n) ON shop.goods"]],
    ),
    example(
        "SHOW CREATE TABLE shop.goods",
        &[&["SELECT ON shop.goods"], &["UPDATE ON shop.goods"]],
    ),
    example(
        "SHOW CREATE VIEW shop.v",
        &[&["SHOW VIEW ON shop.v", "SELECT ON shop.v"]],
    ),
    example(
        "SHOW CREATE TABLE shop.v",
        &[&["SHOW VIEW ON shop.v", "SELECT ON shop.v"]],
    ),
    example("SHOW CREATE DATABASE shop", &[&["SELECT ON shop.goods"]]),
    example("SHOW ENGINE INNODB STATUS", &[&["PROCESS ON *.*"]]),
    example("SHOW GRANTS", FREE),
    example("SHOW GRANTS FOR bob", &[&["SELECT ON mysql.*"]]),
    example("SHOW CREATE USER bob", &[&["SELECT ON mysql.*"]]),
    example("SHOW BINARY LOGS", &[&["REPLICATION CLIENT ON *.*"]]),
    example("SHOW PROCESSLIST", FREE),
    example("SHOW VARIABLES LIKE 'x'", FREE),
];
