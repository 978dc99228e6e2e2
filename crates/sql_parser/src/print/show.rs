//! SHOW, DESCRIBE, EXPLAIN.

use super::super::ast::{
    Account, EngineReport, Explain, ExplainTarget, Ident, ProgramKind, Show, ShowFilter, ShowWhat,
    VarScope,
};
use super::Printer;

impl Printer<'_> {
    pub(super) fn show(&mut self, show: &Show<'_>) {
        self.put("SHOW ");
        self.show_what(&show.what);
        self.opt_limit(show.limit);
        match &show.filter {
            ShowFilter::None => {}
            ShowFilter::Like(pattern) => self.opt_string(" LIKE ", Some(pattern)),
            ShowFilter::Where(filter) => self.opt_where(Some(filter)),
        }
    }

    fn opt_schema(&mut self, words: &str, schema: Option<&Ident<'_>>) {
        self.put(words);
        self.opt_ident(" FROM ", schema);
    }

    fn scope(&mut self, scope: VarScope) {
        self.put(match scope {
            VarScope::Global => "GLOBAL ",
            VarScope::Session => "SESSION ",
            _ => "",
        });
    }

    pub(super) fn program_kind(&mut self, kind: ProgramKind) {
        self.put(match kind {
            ProgramKind::Procedure => "PROCEDURE ",
            ProgramKind::Function => "FUNCTION ",
            ProgramKind::Trigger => "TRIGGER ",
            ProgramKind::Event => "EVENT ",
        });
    }

    fn show_what(&mut self, what: &ShowWhat<'_>) {
        match what {
            ShowWhat::Databases => self.put("DATABASES"),
            ShowWhat::Tables {
                extended,
                full,
                schema,
            } => {
                self.put_if(*extended, "EXTENDED ");
                self.put_if(*full, "FULL ");
                self.opt_schema("TABLES", schema.as_ref());
            }
            ShowWhat::HotKeys(table) => {
                self.put("HOT KEYS");
                if let Some(table) = table {
                    self.put(" FROM ");
                    self.table_name(table);
                }
            }
            ShowWhat::KeyMapping(key) => self.opt_string("MEMCACHED KEY ", Some(key)),
            ShowWhat::TableStatus(schema) => self.opt_schema("TABLE STATUS", schema.as_ref()),
            ShowWhat::OpenTables(schema) => self.opt_schema("OPEN TABLES", schema.as_ref()),
            ShowWhat::Triggers(schema) => self.opt_schema("TRIGGERS", schema.as_ref()),
            ShowWhat::Events(schema) => self.opt_schema("EVENTS", schema.as_ref()),
            ShowWhat::Columns {
                extended,
                full,
                table,
            } => {
                self.put_if(*extended, "EXTENDED ");
                self.put_if(*full, "FULL ");
                self.put("COLUMNS FROM ");
                self.table_name(table);
            }
            ShowWhat::Index { extended, table } => {
                self.put_if(*extended, "EXTENDED ");
                self.put("INDEX FROM ");
                self.table_name(table);
            }
            ShowWhat::Variables(scope) => {
                self.scope(*scope);
                self.put("VARIABLES");
            }
            ShowWhat::Status(scope) => {
                self.scope(*scope);
                self.put("STATUS");
            }
            ShowWhat::Processlist(full) => self.put(if *full {
                "FULL PROCESSLIST"
            } else {
                "PROCESSLIST"
            }),
            ShowWhat::Engine(name, report) => {
                self.opt_ident("ENGINE ", Some(name));
                self.put(match report {
                    EngineReport::Status => " STATUS",
                    EngineReport::Mutex => " MUTEX",
                    EngineReport::Logs => " LOGS",
                });
            }
            ShowWhat::Grants(account, using) => self.grants(account.as_ref(), using),
            ShowWhat::BinlogEvents(log, position) => {
                self.put("BINLOG EVENTS");
                self.opt_string(" IN ", *log);
                self.opt_number(" FROM ", *position);
            }
            _ => self.show_simple(what),
        }
    }

    /// Prints the variants that are fixed words, at most followed by a name.
    fn show_simple(&mut self, what: &ShowWhat<'_>) {
        match what {
            ShowWhat::CreateDatabase {
                if_not_exists,
                name,
            } => {
                self.put("CREATE DATABASE ");
                self.put_if(*if_not_exists, "IF NOT EXISTS ");
                self.ident(name);
            }
            ShowWhat::CreateTable(name) => {
                self.put("CREATE TABLE ");
                self.table_name(name);
            }
            ShowWhat::CreateView(name) => {
                self.put("CREATE VIEW ");
                self.table_name(name);
            }
            ShowWhat::CreateProgram(kind, name) => {
                self.put("CREATE ");
                self.program_kind(*kind);
                self.table_name(name);
            }
            ShowWhat::CreateUser(account) => {
                self.put("CREATE USER ");
                self.account(account);
            }
            ShowWhat::ProgramStatus(kind) => {
                self.program_kind(*kind);
                self.put("STATUS");
            }
            ShowWhat::ProgramCode(kind, name) => {
                self.program_kind(*kind);
                self.put("CODE ");
                self.table_name(name);
            }
            ShowWhat::Warnings => self.put("WARNINGS"),
            ShowWhat::Errors => self.put("ERRORS"),
            ShowWhat::CountWarnings => self.put("COUNT(*) WARNINGS"),
            ShowWhat::CountErrors => self.put("COUNT(*) ERRORS"),
            ShowWhat::Engines => self.put("ENGINES"),
            ShowWhat::Collation => self.put("COLLATION"),
            ShowWhat::Charset => self.put("CHARACTER SET"),
            ShowWhat::Privileges => self.put("PRIVILEGES"),
            ShowWhat::Plugins => self.put("PLUGINS"),
            ShowWhat::BinaryLogStatus => self.put("BINARY LOG STATUS"),
            ShowWhat::BinaryLogs => self.put("BINARY LOGS"),
            ShowWhat::ReplicaStatus(false) => self.put("REPLICA STATUS"),
            ShowWhat::ReplicaStatus(true) => self.put("SLAVE STATUS"),
            ShowWhat::Replicas => self.put("REPLICAS"),
            ShowWhat::Profiles => self.put("PROFILES"),
            ShowWhat::Profile => self.put("PROFILE"),
            _ => {}
        }
    }

    pub(super) fn explain(&mut self, explain: &Explain<'_>) {
        self.put("EXPLAIN ");
        self.put_if(explain.analyze, "ANALYZE ");
        if let Some(format) = &explain.format {
            self.opt_ident("FORMAT=", Some(format));
            self.put(" ");
        }
        match &explain.target {
            ExplainTarget::Statement(statement) => self.statement(statement),
            ExplainTarget::Connection(id) => self.opt_number("FOR CONNECTION ", Some(*id)),
        }
    }

    fn grants(&mut self, account: Option<&Account<'_>>, using: &[Account<'_>]) {
        self.put("GRANTS");
        if let Some(account) = account {
            self.put(" FOR ");
            self.account(account);
        }
        if !using.is_empty() {
            self.put(" USING ");
            self.list(using, Self::account);
        }
    }
}
