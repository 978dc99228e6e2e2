//! Statements that change rows, and transactions.

use super::super::ast::{
    Assignment, Completion, Delete, DeleteTarget, Handler, HandlerAction, HandlerStep, Insert,
    InsertSource, LoadData, OnDuplicateRow, Priority, StartTransaction, TableLock, Update, Xa,
    XaEnd, XaStart, Xid,
};
use super::Printer;
use super::expr::operator;

impl Printer<'_> {
    fn priority(&mut self, priority: Priority) {
        self.put(match priority {
            Priority::Default => "",
            Priority::Low => "LOW_PRIORITY ",
            Priority::High => "HIGH_PRIORITY ",
            Priority::Delayed => "DELAYED ",
        });
    }

    pub(super) fn insert(&mut self, insert: &Insert<'_>) {
        self.put(if insert.replace {
            "REPLACE "
        } else {
            "INSERT "
        });
        self.priority(insert.priority);
        self.put_if(insert.ignore, "IGNORE ");
        self.put("INTO ");
        self.table_name(&insert.table);
        self.opt_partitions(insert.partitions);
        if insert.columns_given {
            self.put(" ");
            self.paren_list(insert.columns, Self::column_name);
        }
        match insert.source {
            InsertSource::Values(rows) => {
                self.put(" VALUES ");
                self.list(rows, |p, row| {
                    p.put("(");
                    p.exprs(row);
                    p.put(")");
                });
            }
            InsertSource::Set(assignments) => {
                self.put(" SET ");
                self.assignments(assignments);
            }
            InsertSource::Query(query) => {
                self.put(" ");
                self.query(query);
            }
        }
        self.opt_ident(" AS ", insert.row_alias.as_ref());
        self.opt_idents(insert.column_aliases);
        if !insert.on_duplicate.is_empty() {
            self.put(" ON DUPLICATE KEY UPDATE ");
            self.assignments(insert.on_duplicate);
        }
    }

    pub(super) fn assignments(&mut self, assignments: &[Assignment<'_>]) {
        self.list(assignments, |p, assignment| {
            p.column_name(&assignment.column);
            p.put(" = ");
            p.expr(&assignment.value);
        });
    }

    pub(super) fn update(&mut self, update: &Update<'_>) {
        if let Some(with) = update.with {
            self.with(with);
        }
        self.put("UPDATE ");
        self.put_if(update.low_priority, "LOW_PRIORITY ");
        self.put_if(update.ignore, "IGNORE ");
        self.list(update.tables, Self::table_ref);
        self.put(" SET ");
        self.assignments(update.set);
        self.opt_where(update.filter.as_ref());
        self.order_by(update.order_by);
        self.opt_limit(update.limit);
    }

    pub(super) fn delete(&mut self, delete: &Delete<'_>) {
        if let Some(with) = delete.with {
            self.with(with);
        }
        self.put("DELETE ");
        self.put_if(delete.low_priority, "LOW_PRIORITY ");
        self.put_if(delete.quick, "QUICK ");
        self.put_if(delete.ignore, "IGNORE ");
        match delete.target {
            DeleteTarget::One(source) => {
                self.put("FROM ");
                self.table_source(source);
            }
            DeleteTarget::Many { targets, tables } => {
                self.list(targets, Self::table_name);
                self.put(" FROM ");
                self.list(tables, Self::table_ref);
            }
        }
        self.opt_where(delete.filter.as_ref());
        self.order_by(delete.order_by);
        self.opt_limit(delete.limit);
    }

    pub(super) fn on_duplicate_row(&mut self, duplicates: OnDuplicateRow) {
        self.put(match duplicates {
            OnDuplicateRow::Error => "",
            OnDuplicateRow::Ignore => " IGNORE",
            OnDuplicateRow::Replace => " REPLACE",
        });
    }

    pub(super) fn load_data(&mut self, load: &LoadData<'_>) {
        self.put(if load.xml { "LOAD XML " } else { "LOAD DATA " });
        self.priority(load.priority);
        self.put_if(load.concurrent, "CONCURRENT ");
        self.put_if(load.local, "LOCAL ");
        self.opt_string("INFILE ", Some(load.path));
        self.on_duplicate_row(load.duplicates);
        self.put(" INTO TABLE ");
        self.table_name(&load.table);
        self.opt_partitions(load.partitions);
        self.opt_ident(" CHARACTER SET ", load.charset.as_ref());
        self.opt_string(" ROWS IDENTIFIED BY ", load.rows_identified);
        self.file_format(&load.format);
        if load.ignore_lines > 0 {
            self.opt_number(" IGNORE ", Some(load.ignore_lines));
            self.put(" LINES");
        }
        if !load.fields.is_empty() {
            self.put(" ");
            self.paren_list(load.fields, Self::destination_var);
        }
        if !load.set.is_empty() {
            self.put(" SET ");
            self.assignments(load.set);
        }
    }

    pub(super) fn handler(&mut self, handler: &Handler<'_>) {
        self.put("HANDLER ");
        self.table_name(&handler.table);
        match &handler.action {
            HandlerAction::Open(alias) => {
                self.put(" OPEN");
                self.opt_ident(" AS ", alias.as_ref());
            }
            HandlerAction::Close => self.put(" CLOSE"),
            HandlerAction::Read {
                index,
                step,
                filter,
                limit,
            } => {
                self.put(" READ");
                self.opt_ident(" ", index.as_ref());
                match step {
                    HandlerStep::First => self.put(" FIRST"),
                    HandlerStep::Next => self.put(" NEXT"),
                    HandlerStep::Prev => self.put(" PREV"),
                    HandlerStep::Last => self.put(" LAST"),
                    HandlerStep::Key(op, values) => {
                        self.put(operator(*op));
                        self.put("(");
                        self.exprs(values);
                        self.put(")");
                    }
                }
                self.opt_where(filter.as_ref());
                self.opt_limit(*limit);
            }
        }
    }

    pub(super) fn begin(&mut self, start: StartTransaction) {
        self.put("START TRANSACTION");
        self.put_if(start.snapshot, " WITH CONSISTENT SNAPSHOT");
        if let Some(read_only) = start.read_only {
            self.put_if(start.snapshot, ",");
            self.put(if read_only {
                " READ ONLY"
            } else {
                " READ WRITE"
            });
        }
    }

    pub(super) fn completion(&mut self, word: &str, completion: Completion) {
        self.put(word);
        self.put(match completion.chain {
            None => "",
            Some(true) => " AND CHAIN",
            Some(false) => " AND NO CHAIN",
        });
        self.put(match completion.release {
            None => "",
            Some(true) => " RELEASE",
            Some(false) => " NO RELEASE",
        });
    }

    fn xid(&mut self, xid: &Xid<'_>) {
        self.put(" ");
        self.hex(xid.global);
        self.put(", ");
        self.hex(xid.branch);
        self.opt_number(", ", Some(xid.format));
    }

    pub(super) fn xa(&mut self, xa: &Xa<'_>) {
        match xa {
            Xa::Start(xid, how) => {
                self.put("XA START");
                self.xid(xid);
                self.put(match how {
                    XaStart::New => "",
                    XaStart::Join => " JOIN",
                    XaStart::Resume => " RESUME",
                });
            }
            Xa::End(xid, how) => {
                self.put("XA END");
                self.xid(xid);
                self.put(match how {
                    XaEnd::Plain => "",
                    XaEnd::Suspend => " SUSPEND",
                    XaEnd::SuspendForMigrate => " SUSPEND FOR MIGRATE",
                });
            }
            Xa::Prepare(xid) => {
                self.put("XA PREPARE");
                self.xid(xid);
            }
            Xa::Commit(xid, one_phase) => {
                self.put("XA COMMIT");
                self.xid(xid);
                self.put_if(*one_phase, " ONE PHASE");
            }
            Xa::Rollback(xid) => {
                self.put("XA ROLLBACK");
                self.xid(xid);
            }
            Xa::Recover(convert) => {
                self.put("XA RECOVER");
                self.put_if(*convert, " CONVERT XID");
            }
        }
    }

    pub(super) fn table_lock(&mut self, mode: TableLock) {
        self.put(match mode {
            TableLock::Read => " READ",
            TableLock::ReadLocal => " READ LOCAL",
            TableLock::Write => " WRITE",
        });
    }
}
