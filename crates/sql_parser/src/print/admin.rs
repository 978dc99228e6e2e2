//! Dispatch of statements to their printers, and short statements.

use super::super::ast::{
    Flush, FlushWhat, HistogramAction, HistogramClause, Isolation, Maintain, MaintainKind,
    PrepareSource, Purge, SetItem, SetTransaction, Statement, VarScope,
};
use super::Printer;

impl Printer<'_> {
    pub(super) fn statement(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::Query(query) => self.query(query),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::LoadData(load) => self.load_data(load),
            Statement::Handler(handler) => self.handler(handler),
            Statement::Do(exprs) => {
                self.put("DO ");
                self.exprs(exprs);
            }
            Statement::Call(call) => {
                self.put("CALL ");
                self.table_name(&call.name);
                self.put("(");
                self.exprs(call.args);
                self.put(")");
            }
            Statement::CreateDatabase(create) => self.create_database(create),
            Statement::AlterDatabase(alter) => {
                self.put("ALTER DATABASE");
                self.opt_ident(" ", alter.name.as_ref());
                self.database_options(alter.options);
            }
            Statement::DropDatabase { if_exists, name } => {
                self.put("DROP DATABASE ");
                self.put_if(*if_exists, "IF EXISTS ");
                self.ident(name);
            }
            Statement::CreateTable(table) => self.create_table(table),
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::DropTable(drop) => self.drop_tables("TABLE ", drop),
            Statement::DropView(drop) => self.drop_tables("VIEW ", drop),
            Statement::RenameTable(pairs) => {
                self.put("RENAME TABLE ");
                self.list(pairs, |p, (old, new)| {
                    p.table_name(old);
                    p.put(" TO ");
                    p.table_name(new);
                });
            }
            Statement::Truncate(name) => {
                self.put("TRUNCATE TABLE ");
                self.table_name(name);
            }
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::DropIndex(drop) => {
                self.opt_ident("DROP INDEX ", Some(&drop.name));
                self.put(" ON ");
                self.table_name(&drop.table);
                self.algorithm_lock(drop.algorithm.as_ref(), drop.lock.as_ref());
            }
            Statement::CreateView(view) => self.create_view(view),
            Statement::CreateTrigger(trigger) => self.create_trigger(trigger),
            Statement::DropProgram {
                kind,
                if_exists,
                name,
            } => {
                self.put("DROP ");
                self.program_kind(*kind);
                self.put_if(*if_exists, "IF EXISTS ");
                self.table_name(name);
            }
            _ => self.session_statement(statement),
        }
    }

    /// Statements on transactions, variables and users.
    fn session_statement(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::Begin(start) => self.begin(*start),
            Statement::Commit(completion) => self.completion("COMMIT", *completion),
            Statement::Rollback(completion) => self.completion("ROLLBACK", *completion),
            Statement::RollbackTo(name) => self.opt_ident("ROLLBACK TO SAVEPOINT ", Some(name)),
            Statement::Savepoint(name) => self.opt_ident("SAVEPOINT ", Some(name)),
            Statement::ReleaseSavepoint(name) => self.opt_ident("RELEASE SAVEPOINT ", Some(name)),
            Statement::Xa(xa) => self.xa(xa),
            Statement::LockTables(tables) => {
                self.put("LOCK TABLES ");
                self.list(tables, |p, table| {
                    p.table_name(&table.table);
                    p.opt_ident(" AS ", table.alias.as_ref());
                    p.table_lock(table.mode);
                });
            }
            Statement::UnlockTables => self.put("UNLOCK TABLES"),
            Statement::Replica(statement) => self.replica(statement),
            Statement::Backup(backup) => {
                self.put("BACKUP DATABASE TO ");
                self.string(backup.destination);
                self.opt_number(" RATE_LIMIT = ", backup.rate);
            }
            Statement::LockInstance(true) => self.put("LOCK INSTANCE FOR BACKUP"),
            Statement::LockInstance(false) => self.put("UNLOCK INSTANCE"),
            Statement::Set(items) => {
                self.put("SET ");
                self.list(items, Self::set_item);
            }
            Statement::SetTransaction(set) => self.set_transaction(set),
            Statement::CreateRoutine(routine) => self.create_routine(routine),
            Statement::AlterRoutine(alter) => self.alter_routine(alter),
            Statement::Event(event) => self.event(event),
            Statement::Signal(signal) => self.signal(signal),
            Statement::GetDiagnostics(get) => self.get_diagnostics(get),
            _ => self.user_or_show(statement),
        }
    }

    /// SHOW and similar statements, and users.
    fn user_or_show(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::Show(show) => self.show(show),
            Statement::Describe { table, column } => {
                self.put("DESCRIBE ");
                self.table_name(table);
                self.opt_string(" ", *column);
            }
            Statement::Explain(explain) => self.explain(explain),
            Statement::Use(name) => self.opt_ident("USE ", Some(name)),
            Statement::Kill { query, id } => {
                self.put(if *query { "KILL QUERY " } else { "KILL " });
                self.expr(id);
            }
            Statement::User(user) => self.user_statement(user),
            Statement::DropUser {
                if_exists,
                accounts,
            } => {
                self.put("DROP USER ");
                self.put_if(*if_exists, "IF EXISTS ");
                self.list(accounts, Self::account);
            }
            Statement::RenameUser(pairs) => {
                self.put("RENAME USER ");
                self.list(pairs, |p, (old, new)| {
                    p.account(old);
                    p.put(" TO ");
                    p.account(new);
                });
            }
            Statement::SetPassword(set) => self.set_password(set),
            Statement::Grant(grant) => self.grant(grant),
            Statement::Role {
                create,
                if_clause,
                roles,
            } => {
                self.put(if *create {
                    "CREATE ROLE "
                } else {
                    "DROP ROLE "
                });
                self.put_if(
                    *if_clause,
                    if *create {
                        "IF NOT EXISTS "
                    } else {
                        "IF EXISTS "
                    },
                );
                self.list(roles, Self::account);
            }
            Statement::SetRole(set) => self.set_role(set),
            _ => self.other_statement(statement),
        }
    }

    fn other_statement(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::Prepare { name, source } => {
                self.opt_ident("PREPARE ", Some(name));
                self.put(" FROM ");
                match source {
                    PrepareSource::Text(text) => self.string(text),
                    PrepareSource::Var(var) => self.user_var(var),
                }
            }
            Statement::Execute { name, using } => {
                self.opt_ident("EXECUTE ", Some(name));
                self.put_if(!using.is_empty(), " USING ");
                self.list(using, |p, var| p.user_var(var));
            }
            Statement::Deallocate(name) => self.opt_ident("DEALLOCATE PREPARE ", Some(name)),
            Statement::Maintain(maintain) => self.maintain(maintain),
            Statement::Flush(flush) => self.flush(flush),
            Statement::Reset(words) => {
                self.put("RESET ");
                self.separated(words, " ", Self::word);
            }
            Statement::Purge(Purge::To(file)) => {
                self.opt_string("PURGE BINARY LOGS TO ", Some(file));
            }
            Statement::Purge(Purge::Before(time)) => {
                self.put("PURGE BINARY LOGS BEFORE ");
                self.expr(time);
            }
            Statement::Binlog(text) => self.opt_string("BINLOG ", Some(text)),
            Statement::ImportTable(files) => {
                self.put("IMPORT TABLE FROM ");
                self.list(files, |p, file| p.string(file));
            }
            Statement::Help(topic) => self.opt_string("HELP ", Some(topic)),
            Statement::Shutdown => self.put("SHUTDOWN"),
            Statement::Restart => self.put("RESTART"),
            Statement::Plugin { name, soname } => {
                self.put(if soname.is_some() {
                    "INSTALL"
                } else {
                    "UNINSTALL"
                });
                self.opt_ident(" PLUGIN ", Some(name));
                self.opt_string(" SONAME ", *soname);
            }
            _ => {}
        }
    }

    fn set_item(&mut self, item: &SetItem<'_>) {
        match item {
            SetItem::User(name, value) => {
                self.user_var(name);
                self.put(" = ");
                self.expr(value);
            }
            SetItem::System {
                scope,
                component,
                name,
                value,
            } => {
                self.put(match scope {
                    VarScope::Default => "",
                    VarScope::Global => "GLOBAL ",
                    VarScope::Session => "SESSION ",
                    VarScope::Persist => "PERSIST ",
                    VarScope::PersistOnly => "PERSIST_ONLY ",
                });
                if let Some(component) = component {
                    self.ident(component);
                    self.put(".");
                }
                self.ident(name);
                self.put(" = ");
                self.expr(value);
            }
            SetItem::Names { charset, collation } => {
                self.name_or_default("NAMES ", charset.as_ref());
                self.opt_ident(" COLLATE ", collation.as_ref());
            }
            SetItem::Charset(charset) => self.name_or_default("CHARACTER SET ", charset.as_ref()),
        }
    }

    fn set_transaction(&mut self, set: &SetTransaction) {
        self.put(match set.scope {
            VarScope::Global => "SET GLOBAL TRANSACTION ",
            VarScope::Session => "SET SESSION TRANSACTION ",
            _ => "SET TRANSACTION ",
        });
        if let Some(isolation) = set.isolation {
            self.put("ISOLATION LEVEL ");
            self.put(match isolation {
                Isolation::ReadUncommitted => "READ UNCOMMITTED",
                Isolation::ReadCommitted => "READ COMMITTED",
                Isolation::RepeatableRead => "REPEATABLE READ",
                Isolation::Serializable => "SERIALIZABLE",
            });
        }
        if let Some(read_only) = set.read_only {
            self.put_if(set.isolation.is_some(), ", ");
            self.put(if read_only { "READ ONLY" } else { "READ WRITE" });
        }
    }

    fn maintain(&mut self, maintain: &Maintain<'_>) {
        self.put(match maintain.kind {
            MaintainKind::Analyze => "ANALYZE ",
            MaintainKind::Check => "CHECK ",
            MaintainKind::Optimize => "OPTIMIZE ",
            MaintainKind::Repair => "REPAIR ",
            MaintainKind::Checksum => "CHECKSUM ",
        });
        self.put_if(maintain.local, "LOCAL ");
        self.put("TABLE ");
        self.list(maintain.tables, Self::table_name);
        if let Some(clause) = &maintain.histogram {
            self.histogram(clause);
        }
        for option in maintain.options {
            self.put(" ");
            self.put(option);
        }
    }

    fn histogram(&mut self, clause: &HistogramClause<'_>) {
        self.put(match clause.action {
            HistogramAction::Drop => " DROP HISTOGRAM ON ",
            _ => " UPDATE HISTOGRAM ON ",
        });
        self.idents(clause.columns);
        match clause.action {
            HistogramAction::Drop => {}
            HistogramAction::Load(text) => {
                self.put(" USING DATA ");
                self.string(text);
            }
            HistogramAction::Build {
                buckets,
                auto_update,
            } => {
                if buckets.is_some() {
                    self.opt_number(" WITH ", buckets);
                    self.put(" BUCKETS");
                }
                match auto_update {
                    Some(true) => self.put(" AUTO UPDATE"),
                    Some(false) => self.put(" MANUAL UPDATE"),
                    None => {}
                }
            }
        }
    }

    fn flush(&mut self, flush: &Flush<'_>) {
        self.put("FLUSH ");
        self.put_if(flush.local, "LOCAL ");
        match &flush.what {
            FlushWhat::Tables {
                tables,
                read_lock,
                export,
            } => {
                self.put("TABLES");
                self.put_if(!tables.is_empty(), " ");
                self.list(tables, Self::table_name);
                self.put_if(*read_lock, " WITH READ LOCK");
                self.put_if(*export, " FOR EXPORT");
            }
            FlushWhat::Others(words) => self.list(words, |p, word| p.put(word)),
        }
    }
}
